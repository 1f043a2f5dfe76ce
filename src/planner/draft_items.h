/* planner/draft_items.h -- what draft_sequence.c hands to draft_lower.c; nobody else includes it. */
#ifndef ZI_PLANNER_DRAFT_ITEMS_H
#define ZI_PLANNER_DRAFT_ITEMS_H

#include "base/vec.h"
#include "planner/draft.h"

typedef struct zi_item {
    zi_act_kind kind; /* RUN, REDO: a node; IN: a root that must be there from here on */
    uint32_t    what;
    zi_node_id  base; /* the node of the graph's order for whose sake it happens       */
} zi_item;

typedef ZI_VEC(zi_item) zi_items;

/* Nodes in the order in which they run, and run again, and where swapped tensors are needed. */
ZICO_NODISCARD zico_status zi_draft_sequence(const zi_draft *d, zi_items *ret_items);

#endif /* ZI_PLANNER_DRAFT_ITEMS_H */

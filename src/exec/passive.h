/* exec/passive.h -- a step on demand: what is needed comes in, what is in the way goes out.
 *
 * PAPER    X. Peng et al. Capuchin. ASPLOS 2020: passive mode.
 * CLAIM    A step of which nothing was measured runs in whatever memory there is: an allocation
 *          that fails evicts, a touch of an absent tensor retrieves.
 * WE DO    Sizes are known before a step, so its on-demand course is written down ahead, node by
 *          node, as a plan with places in one arena: the executor runs it like any other, and
 *          the checker judges it.  Victims are the least recently touched roots that the node
 *          at hand does not use; they go to the tier unless it has them.  Where what is
 *          left is in pieces, the node's own operands go out and come back side by side: any
 *          arena that holds the largest node's operands is enough.
 * GUIDE    Nodes run, and bytes are dropped, moved and made again as a guide says (keep, or a
 *          planner's plan) as long as that is sound: a drop of what is read later, a copy in
 *          that never went out, a redo too late are ignored, and what is missing is
 *          brought in on demand.  A guide whose nodes are not in order is not followed at all.
 * CHECKED  tests/unit/passive_test.c, tests/numeric/exec_passive_test.c.
 * Pure: the same task gives the same plan.
 */
#ifndef ZI_EXEC_PASSIVE_H
#define ZI_EXEC_PASSIVE_H

#include "plan/plan.h"

typedef struct zi_passive_task {
    const zi_graph *graph;
    const zi_cost  *cost;
    const zi_plan  *guide;  /* what to follow                                       */
    const zi_plan  *placed; /* whose fixed slots are taken over; may be the guide   */
    uint64_t        arena_bytes; /* for everything that is not fixed                   */
    uint64_t        align; /* of places                                            */
    /* To go on in the middle of a step: acts of the guide that are over, and the roots that
     * are in the tier then.  Nothing but those and what is fixed is there. */
    uint32_t    from_act;
    const bool *saved; /* [n_tensors]; NULL: none */
} zi_passive_task;

/* The least arena in which any step with these nodes can run: the largest node's operands and
 * scratch.  ret_node (may be NULL) names it; NONE: it is what lives on. */
ZICO_NODISCARD zico_status zi_passive_least(const zi_graph *g, const zi_cost *c,
                                            const zi_plan *guide, uint64_t align,
                                            uint64_t   *ret_arena_bytes,
                                            zi_node_id *ret_node);

/* ZICO_E_NOPLAN: the arena is smaller than zi_passive_least.  With from_act the plan holds
 * only the rest of the step. */
ZICO_NODISCARD zico_status zi_passive_plan(const zi_passive_task *task,
                                           zi_plan              **ret_plan);

#endif /* ZI_EXEC_PASSIVE_H */

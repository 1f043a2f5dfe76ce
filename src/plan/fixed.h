/* plan/fixed.h -- which tensors are there throughout a step, whatever the plan. */
#ifndef ZI_PLAN_FIXED_H
#define ZI_PLAN_FIXED_H

#include "graph/graph.h"

static inline bool
zi_plan_is_fixed(const zi_graph *g, zi_tensor_id t)
{
    switch (g->tensors[t].role) {
    case ZI_ROLE_INPUT:
    case ZI_ROLE_LABEL:
    case ZI_ROLE_PARAM:
    case ZI_ROLE_STATE:
        return true;
    default:
        return false;
    }
}

#endif /* ZI_PLAN_FIXED_H */

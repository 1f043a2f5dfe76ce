/* planner/curve.h -- bytes over the nodes of a step; the peak is found and lowered quickly. */
#ifndef ZI_PLANNER_CURVE_H
#define ZI_PLANNER_CURVE_H

#include "plan/plan.h"

typedef struct zi_curve {
    uint32_t n;    /* nodes                                                  */
    uint32_t n_up; /* n rounded up to a power of two                         */
    int64_t *top;  /* [2 n_up] tree of maxima, without what is added above   */
    int64_t *more; /* [2 n_up] added to the whole of a subtree               */
} zi_curve;

ZICO_NODISCARD zico_status zi_curve_new(uint32_t n_nodes, zi_curve *ret_curve);
void                       zi_curve_free(zi_curve *k);

/* The highest point between the end of the node before and the end of node i, for each i. */
ZICO_NODISCARD zico_status zi_curve_of_plan(zi_curve *k, const zi_plan *plan,
                                            const zi_graph *g, const zi_cost *c,
                                            const zi_tensor_id *root);
/* Add to nodes from..to-1. */
void     zi_curve_add(zi_curve *k, uint32_t from, uint32_t to, int64_t bytes);
int64_t  zi_curve_peak(const zi_curve *k);
uint32_t zi_curve_peak_at(const zi_curve *k); /* the first node where it is reached */

#endif /* ZI_PLANNER_CURVE_H */

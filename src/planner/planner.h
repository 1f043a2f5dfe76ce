/* planner/planner.h -- a planner turns (graph, costs, budget) into a plan, and nothing else.
 *
 * One file per published system; its head names paper, claim, and what we do and drop.  A
 * planner is pure and never trusted: plan/plan_check.c judges what it hands out.  Checkmate,
 * SwapAdvisor, Gist and Echo will stand here too; encode and decode are in the plan's type
 * for the latter two.
 */
#ifndef ZI_PLANNER_H
#define ZI_PLANNER_H

#include "plan/plan.h"

typedef struct zi_plan_task {
    const zi_graph *graph;
    const zi_cost  *cost;
    uint64_t        budget_bytes; /* fixed bytes included; 0: none */
    uint64_t step_limit; /* search effort, counted, not timed; 0: the planner's own */
    uint64_t seed;       /* same task, same seed, same plan */
    /* [n_tensors] feedback: copies in begin so much earlier; NULL: none.  Capuchin reads it. */
    const uint64_t *lead_ns;
} zi_plan_task;

typedef struct zi_planner_ops {
    const char *name;  /* --planner NAME, and the file is planner/NAME.c */
    const char *paper; /* authors, venue, year; or "baseline" */
    unsigned    emits; /* bits 1 << ZI_ACT_* that it may put in a plan */
    bool
        by_rules; /* where its plan cannot be placed, the others' rules count as its own */

    /* E_NOPLAN: it cannot meet the budget; *ret_least (may be NULL) is then the smallest
     * peak it can reach. */
    zico_status (*solve)(const zi_plan_task *task, zi_plan **ret_plan,
                         uint64_t *ret_least);
} zi_planner_ops;

const zi_planner_ops *zi_planner_find(const char *name); /* NULL if there is none */
const zi_planner_ops *zi_planner_at(size_t i);           /* NULL past the end     */

/* A plan whose *placement* meets the budget: asks the planner for a little less until slots of
 * `region_bytes` (0: one mapping) fit.  The plan is placed.  ret_stats, ret_least: may be NULL. */
ZICO_NODISCARD zico_status zi_planner_fit(const zi_planner_ops *ops,
                                          const zi_plan_task *task, uint64_t region_bytes,
                                          uint64_t align, zi_plan **ret_plan,
                                          zi_place_stats *ret_stats, uint64_t *ret_least);

#endif /* ZI_PLANNER_H */

/* planner/capuchin.h -- Capuchin's choice, for those who want less than all of it. */
#ifndef ZI_PLANNER_CAPUCHIN_H
#define ZI_PLANNER_CAPUCHIN_H

#include "planner/draft.h"
#include "planner/planner.h"

typedef struct zi_capuchin_options {
    const char     *planner;     /* name of the plan                               */
    bool            swap, redo;  /* means that may be used                          */
    bool            cheap_only;  /* redo chains of CHEAP nodes only                 */
    bool            at_once;     /* no budget: everything that may leave, leaves    */
    bool            go_on;       /* with the fates that the draft has; else anew    */
    double          swap_weight; /* exposed copy time counts so much                */
    const uint64_t *lead_ns;     /* [n_tensors] earlier copies in; NULL: none       */
} zi_capuchin_options;

/* Choose until the plan fits; the draft holds the fates afterwards. */
ZICO_NODISCARD zico_status zi_capuchin_choose(zi_draft *d, const zi_capuchin_options *opt,
                                              uint64_t budget_bytes, zi_trial *ret_trial);

/* Take back choices that the budget does not need, dearest first; at most n_tries plans are
 * looked at.  *best never gets worse. */
ZICO_NODISCARD zico_status zi_capuchin_refine(zi_draft *d, const char *planner,
                                              uint64_t budget_bytes, uint32_t n_tries,
                                              zi_trial *best);

/* Feedback: copies in that computation waited for (stall_ns > 0) begin 5 % of their own
 * length earlier next time. */
void zi_capuchin_feedback(const zi_graph *g, const zi_cost *c, const uint64_t *stall_ns,
                          uint64_t *lead_ns /* [n_tensors], in and out */);

/* As solve, with what feedback has learnt.  Also for a budget that has changed. */
ZICO_NODISCARD zico_status zi_capuchin_plan(const zi_plan_task *task,
                                            const uint64_t *lead_ns, zi_plan **ret_plan,
                                            uint64_t *ret_least);

/* How long computation stands for each tensor's copy in, by the simulator. */
ZICO_NODISCARD zico_status zi_capuchin_stalls(const zi_plan *p, const zi_graph *g,
                                              const zi_cost *c, uint64_t *ret_stall_ns);

#endif /* ZI_PLANNER_CAPUCHIN_H */

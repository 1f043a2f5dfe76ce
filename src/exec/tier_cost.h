/* exec/tier_cost.h -- what copies cost, for planning: one rule for studies and for training. */
#ifndef ZI_EXEC_TIER_COST_H
#define ZI_EXEC_TIER_COST_H

#include "exec/tier.h"
#include "plan/plan.h"

/* Copies as the tier was measured; NULL: there is none.  n_threads: of computation, 0: all cores; a
 * copy then wants a core that computation would have. */
void zi_tier_cost_set(zi_cost *c, const zi_tier_speed *v, unsigned n_threads);

/* Bring the speeds of `c` to where one step of the plan, simulated, copies for as long as was seen
 * (`out_ns`, `in_ns`; 0: unknown, that way stays). */
ZICO_NODISCARD zico_status zi_tier_cost_fit(zi_cost *c, const zi_plan *plan,
                                            const zi_graph *graph, uint64_t out_ns,
                                            uint64_t in_ns);

#endif /* ZI_EXEC_TIER_COST_H */

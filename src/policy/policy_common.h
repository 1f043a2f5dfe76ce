/* policy/policy_common.h -- what several policies need: dividing cores, keeping shares. */
#ifndef ZI_POLICY_COMMON_H
#define ZI_POLICY_COMMON_H

#include "policy/policy.h"

bool zi_policy_somebody_runs(const zi_view *v);

/* -- cores (blueprint: compute threads that run never exceed the cores) ------------------ */

/* What a step takes alone, as far as is known: else as its tide or its last step says. */
double zi_policy_solo_ns(const zi_job_view *j);

/* Cores that a job takes at the very least while it runs: of a job that follows, one if it
 * can be told in mid-step, else what it was told last. */
uint32_t zi_policy_cores_bound(const zi_job_view *j);

/* Is there a core that nobody who runs is bound to? */
bool zi_policy_core_left(const zi_view *v);

/* Is there a core for one more job to start now? */
bool zi_policy_core_free(const zi_view *v, size_t starter);

/* (A job that is stalled computes nothing; its cores serve the others meanwhile.)
 * Tells running jobs that can be told, and `starter` (SIZE_MAX: nobody begins), how many cores
 * each has when they run together.  `n_soon`: jobs that will want to begin while the starter runs; a
 * starter that cannot be told in mid-step leaves a core for each of them. */
void zi_policy_divide_cores(const zi_view *v, size_t starter, size_t n_soon, zi_out *out);

/* -- shares: virtual time, as in start-time fair queueing -------------------------------- */

typedef struct zi_policy_shares {
    uint64_t vtime[ZI_LEDGER_JOBS_MAX]; /* device time used / weight, by job id */
} zi_policy_shares;

/* A job joins (or comes back) level with the least served of the others. */
void zi_policy_shares_join(zi_policy_shares *s, const zi_view *v, size_t job);
void zi_policy_shares_use(zi_policy_shares *s, const zi_job_view *j, uint64_t used_ns);

/* Index of the ASKING job with the least virtual time; SIZE_MAX: none. */
size_t zi_policy_shares_next(const zi_policy_shares *s, const zi_view *v);

/* Not in the table: runs others in turn (relay.c). */
extern const zi_policy_ops zi_policy_relay;

/* From a step's end to asking again: a longer gap counts at once, as who pauses now and then would be
 * waited for in vain, but for no more than twice `most_ns`, beyond which nobody is waited for, so that a
 * single long one is forgotten after half a dozen steps. */
void zi_policy_note_gap(uint64_t *known_ns, uint64_t gap_ns, uint64_t most_ns);

#endif /* ZI_POLICY_COMMON_H */

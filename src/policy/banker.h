/* policy/banker.h -- would this grant leave a way for everybody to finish?
 *
 * A job inside a step holds `step_bytes` and may come to hold up to its claim; at the end of
 * the step it gives step_bytes back (fixed and private bytes stay).  A state is *safe* if
 * the jobs inside a step can be put in an order in which each can get the rest of its claim
 * from what is free plus what those before it give back.  For one kind of resource, trying
 * them in ascending order of the rest is exact (proof in banker.c).
 */
#ifndef ZI_POLICY_BANKER_H
#define ZI_POLICY_BANKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zi_banker_job {
    uint64_t step_bytes;  /* held now, given back at the end of the step */
    uint64_t claim_bytes; /* most it may hold in this step               */
} zi_banker_job;

/* Is the state safe?  free_bytes: budget - everybody's fixed, private and step bytes.
 * `scratch` has room for n_jobs entries (the function allocates nothing). */
bool zi_banker_safe(uint64_t free_bytes, const zi_banker_job *jobs, size_t n_jobs,
                    uint64_t *scratch);

/* Is it still safe after jobs[who] got `more_bytes` more step memory (or, with
 * who == SIZE_MAX, after free_bytes shrank by them for good: fixed and private memory)? */
bool zi_banker_safe_after(uint64_t free_bytes, const zi_banker_job *jobs, size_t n_jobs,
                          size_t who, uint64_t more_bytes, uint64_t *scratch);

#endif /* ZI_POLICY_BANKER_H */

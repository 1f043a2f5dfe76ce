/* policy/banker.h -- would this grant leave a way for everybody to finish?
 *
 * A job inside a step holds `step_bytes` and may come to hold up to its claim; at the end of
 * the step it gives step_bytes back (fixed and private bytes stay).  A state is *safe* if
 * the jobs inside a step can be put in an order in which each can get the rest of its claim
 * from what is free plus what those before it give back.  For one kind of resource, trying
 * them in ascending order of the rest is exact (proof in banker.c).
 *
 * One table per state: opened in O(n log n), after which each question about a single
 * change costs O(log n).  Nothing is allocated: the caller brings the entries.
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

typedef struct zi_banker_entry {
    uint64_t rest_bytes; /* claim - step: what it may still ask for            */
    uint64_t step_bytes;
    uint64_t before_bytes; /* given back by those in front                       */
    uint64_t slack_bytes;  /* least of free + before - rest, up to this entry    */
} zi_banker_entry;

typedef struct zi_banker {
    uint64_t         free_bytes;
    size_t           n_jobs;
    bool             safe;
    zi_banker_entry *entry; /* ascending rest */
} zi_banker;

/* free_bytes: budget - everybody's fixed, private and step bytes.  `entries` has room for
 * n_jobs and stays with the table. */
void zi_banker_open(zi_banker *b, uint64_t free_bytes, const zi_banker_job *jobs,
                    size_t n_jobs, zi_banker_entry *entries);

/* Safe after `job`, one of those in the table, got `more_bytes` within its claim? */
bool
zi_banker_may_take(const zi_banker *b, const zi_banker_job *job, uint64_t more_bytes);

/* Safe after free_bytes shrank for good (fixed and private memory)? */
bool zi_banker_may_lose(const zi_banker *b, uint64_t less_bytes);

/* Safe after one more job, which holds step_bytes already (not part of free), began a step? */
bool zi_banker_may_start(const zi_banker *b, const zi_banker_job *job);

/* How much free_bytes may shrink at most with the state still safe. */
uint64_t zi_banker_slack(const zi_banker *b);

#endif /* ZI_POLICY_BANKER_H */

/* ledger/ledger_private.h -- the ledger's insides, shared by the room's own files. */
#ifndef ZI_LEDGER_PRIVATE_H
#define ZI_LEDGER_PRIVATE_H

#include "ledger/ledger.h"
#include "ledger/region_map.h"

struct zi_ledger {
    zi_ledger_shape shape;
    uint64_t        budget_bytes; /* in force; >= target while it is being lowered */
    uint64_t        target_bytes;

    zi_region_map idle; /* L1: a region is in exactly one of idle, cold, leased */
    zi_region_map cold;
    zi_region_map fixed; /* of the leased ones: class fixed */
    uint32_t     *owner; /* [n_regions]; ZI_JOB_NONE: nobody */

    uint32_t n_leased; /* regions */
    uint64_t private_bytes;
    uint64_t promised_bytes; /* L5: sum of max(min, held) */
    uint64_t peak_bytes;     /* highest leased + private  */

    zi_ledger_job job[ZI_LEDGER_JOBS_MAX];
    uint64_t      ceiling[ZI_LEDGER_JOBS_MAX]; /* L4: max in force */
    uint32_t      n_asked[ZI_LEDGER_JOBS_MAX]; /* L7 */

    zi_request *request; /* [cap_requests], by arrival */
    size_t      n_requests, cap_requests;
    uint64_t    next_request;
};

/* fixed + step + private */
uint64_t zi_ledger_held_bytes(const zi_ledger *l, const zi_ledger_job *j);

/* Call before and after changing what a job holds or is promised: keeps the sum (L5). */
void zi_ledger_forget_promise(zi_ledger *l, zi_job_id job);
void zi_ledger_renew_promise(zi_ledger *l, zi_job_id job);

bool zi_ledger_is_live(const zi_ledger *l, zi_job_id job);

/* Take all requests of a job out of the queue. */
void zi_ledger_drop_requests(zi_ledger *l, zi_job_id job);

/* Turn idle regions cold until leased + idle + private + more <= limit.  E_LIMIT, with
 * nothing changed: more than ZI_LEDGER_RUNS_MAX runs.  E_BUSY: not even without idle ones. */
zico_status
zi_ledger_punch(zi_ledger *l, uint64_t more_bytes, uint64_t limit, zi_grant *g);

#endif /* ZI_LEDGER_PRIVATE_H */

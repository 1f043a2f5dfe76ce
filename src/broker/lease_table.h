/* broker/lease_table.h -- the writer's side of the lease table (layout: wire/table.h). */
#ifndef ZI_BROKER_LEASE_TABLE_H
#define ZI_BROKER_LEASE_TABLE_H

#include <stdbool.h>
#include "base/run.h"
#include "ledger/ledger.h"
#include "os/os.h"
#include "wire/table.h"

typedef struct zi_leases {
    const zi_os     *os;
    int              fd; /* sealed; to be sent to jobs */
    uint64_t         size_bytes;
    zi_table_head   *head; /* mapped writable before the seal */
    zi_table_row    *row;
    zi_table_region *region;
} zi_leases;

typedef struct zi_leases_shape {
    uint64_t    region_bytes;
    uint32_t    n_regions;
    uint64_t    budget_bytes;
    const char *policy, *device;
} zi_leases_shape;

zico_status zi_leases_new(const zi_os *os, const zi_leases_shape *shape, zi_leases **ret);
void        zi_leases_free(zi_leases *t); /* NULL is fine */

/* A table that a job hands back: checked, and copied into one that we can write.  The
 * descriptor stays the caller's.  E_PROTO: it is not a lease table. */
zico_status zi_leases_import(const zi_os *os, int fd, zi_leases **ret);

/* Fill a row; `from` gives all fields but the state, which becomes JOINING. */
void zi_leases_join(zi_leases *t, zi_job_id job, const zi_table_row *from);
void zi_leases_set_state(zi_leases *t, zi_job_id job, zi_table_state state);
void zi_leases_leave(zi_leases *t, zi_job_id job);

void zi_leases_grant(zi_leases *t, zi_job_id job, uint32_t seq, zi_hold hold,
                     const zi_run *runs, size_t n_runs);
void zi_leases_return(zi_leases *t, const zi_run *runs, size_t n_runs);
void zi_leases_cold(zi_leases *t, const zi_run *runs, size_t n_runs); /* pages gone */

/* Undo a grant that was being written when the broker was killed. */
void zi_leases_repair(zi_leases *t, zi_job_id job);

/* Runs of the regions granted to (job, seq), from *from on; at most max.  *from becomes
 * n_regions when there are no more. */
size_t zi_leases_granted(const zi_leases *t, zi_job_id job, uint32_t seq, uint32_t *from,
                         zi_run *runs, size_t max);

zi_job_id zi_leases_owner(const zi_leases *t, uint32_t region); /* ZI_JOB_NONE */
zi_hold   zi_leases_hold(const zi_leases *t, uint32_t region);
bool      zi_leases_resident(const zi_leases *t, uint32_t region);

/* Agrees with the ledger, region by region and row by row? */
zico_status zi_leases_verify(const zi_leases *t, const zi_ledger *l);

#endif /* ZI_BROKER_LEASE_TABLE_H */

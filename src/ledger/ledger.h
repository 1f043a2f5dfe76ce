/* ledger/ledger.h -- who holds how much of one device's memory.
 *
 * THE ROOM
 *   The broker's only source of truth about bytes: jobs, regions, leases, private
 *   charges, limits, and the queue of requests that wait.  Pure bookkeeping: no
 *   sockets, no clock, no threads, no device calls, and no opinion about who should
 *   get what (policy/ decides, the ledger only refuses what would break it).
 *
 * WORDS  fixed   leased regions of class fixed: held until the job leaves
 *        step    leased regions of the other classes: come and go within a step
 *        private bytes outside the pool that the job told us about (CHARGE)
 *        idle    regions nobody holds whose pages are still there ("resident")
 *        cold    regions nobody holds and whose pages are gone
 *
 * INVARIANTS (zi_ledger_verify checks each; numbers are quoted in asserts)
 *   L1  every region is cold, idle or leased to exactly one live job
 *   L2  a job's fixed + step regions equal the regions that name it as owner
 *   L3  (leased + idle regions) x region_bytes + sum of private <= budget
 *       (while a lowered budget is being reached: <= the use at the time of lowering)
 *   L4  held bytes of a job (fixed + step + private) <= its max
 *       (while a lowered max is being reached: <= what it held then)
 *   L5  sum over jobs of max(min, held) <= budget   (guarantees can be kept; same exception)
 *   L6  a row that is not live holds nothing, is charged nothing and asks for nothing
 *   L7  requests are ordered by arrival; each belongs to a live job; at most
 *       ZI_LEDGER_REQS_PER_JOB a job
 *
 * GRANTING  Lowest idle (resident) region first, then lowest cold one; with `adjacent`
 *   the lowest run that fits, resident preferred; runs are given as few as possible.
 *   When L3 would be broken only by idle regions, a grant of private bytes (or of cold
 *   regions) first names idle regions to punch: they become cold, and the caller must give
 *   their pages back before the grant is used (zi_ledger_grant's `punch` output).
 * THREADS   Owned by the broker's loop; one caller at a time.
 * NEXT      policy/policy.h, policy/desk.h.
 */
#ifndef ZI_LEDGER_H
#define ZI_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/run.h"
#include "wire/wire.h"
#include "zico/status.h"

#define ZI_LEDGER_JOBS_MAX     1024u
#define ZI_LEDGER_REQS_PER_JOB ZI_WIRE_ASKS_MAX
#define ZI_LEDGER_RUNS_MAX     512u /* runs in one grant; equals the wire's RUNS maximum */
#define ZI_JOB_NONE            UINT32_MAX

typedef uint32_t         zi_job_id; /* a row; reused after the job has left */
typedef struct zi_ledger zi_ledger;

typedef struct zi_ledger_shape {
    uint64_t region_bytes;
    uint32_t n_regions; /* address space of the pool: the budget may grow up to it */
    uint64_t budget_bytes;
} zi_ledger_shape;

typedef struct zi_job_limits {
    uint64_t min_bytes; /* guaranteed; 0: nothing           */
    uint64_t max_bytes; /* never more; 0: the budget         */
} zi_job_limits;

typedef enum zi_hold { ZI_HOLD_FIXED, ZI_HOLD_STEP, ZI_HOLD_PRIVATE } zi_hold;

/* What one job holds; read-only for everybody else. */
typedef struct zi_ledger_job {
    bool          live;
    zi_job_limits limits;
    uint32_t      n_fixed; /* regions */
    uint32_t      n_step;  /* regions */
    uint64_t      private_bytes;
    uint64_t      peak_bytes; /* highest fixed + step + private */
    bool          from_top;   /* its step's regions come from the high end */
} zi_ledger_job;

/* A request that waits. */
typedef struct zi_request {
    uint64_t  id; /* arrival number, never reused; 0 is none   */
    zi_job_id job;
    uint32_t  seq; /* the job's own number, to answer it        */
    zi_hold   hold;
    uint32_t  n_regions;  /* FIXED, STEP */
    uint64_t  size_bytes; /* PRIVATE; for regions n_regions x region_bytes */
    bool      adjacent;
    bool      ahead; /* taken ahead: less is welcome, none is fine   */
    uint64_t  arrived_ns;
    uint64_t  deadline_ns; /* UINT64_MAX: none */
} zi_request;

typedef struct zi_ledger_totals {
    uint64_t budget_bytes;
    uint64_t
        target_bytes; /* the budget asked for; differs from budget_bytes while lowering */
    uint64_t leased_bytes;
    uint64_t idle_bytes;
    uint64_t private_bytes;
    uint64_t
        free_bytes; /* budget - leased - private: what can still be granted (idle included) */
    uint64_t peak_bytes;
} zi_ledger_totals;

zico_status zi_ledger_new(const zi_ledger_shape *shape, zi_ledger **ret_ledger);
void        zi_ledger_free(zi_ledger *l); /* NULL is fine */

/* E_BUDGET: min cannot be guaranteed beside what is promised already, or min > max. */
zico_status zi_ledger_join(zi_ledger *l, const zi_job_limits *limits, zi_job_id *ret_job);
/* Everything it holds becomes idle or uncharged; its requests vanish. */
zico_status zi_ledger_leave(zi_ledger *l, zi_job_id job);

/* Requests.  Adding one never grants.  E_BUDGET: can never fit (max or budget); E_LIMIT: too many. */
zico_status       zi_ledger_ask(zi_ledger *l, const zi_request *req, uint64_t *ret_id);
zico_status       zi_ledger_cancel(zi_ledger *l, uint64_t id);
size_t            zi_ledger_n_requests(const zi_ledger *l);
const zi_request *zi_ledger_request(const zi_ledger *l, size_t place); /* 0: oldest */
const zi_request *zi_ledger_find(const zi_ledger *l, uint64_t id);

/* A grant: what was given, and which idle regions must be punched first. */
typedef struct zi_grant {
    size_t n_runs;
    zi_run run[ZI_LEDGER_RUNS_MAX];
    size_t n_punch;
    zi_run punch[ZI_LEDGER_RUNS_MAX];
} zi_grant;

/* Grant request `id` (with `ahead`: up to `n_regions` of it, 0 means all) and remove it from the
 * queue.  E_BUSY: not enough free now; E_LIMIT: the job's max or somebody's guarantee forbids it. */
zico_status
zi_ledger_grant(zi_ledger *l, uint64_t id, uint32_t n_regions, zi_grant *ret_grant);

/* Could it be granted now as far as bytes, limits and guarantees go? Same statuses. */
zico_status zi_ledger_may_grant(const zi_ledger *l, const zi_request *req);

/* E_ARG, with nothing changed: a run leaves the pool or names a region that is not the job's. */
zico_status
zi_ledger_return(zi_ledger *l, zi_job_id job, const zi_run *runs, size_t n_runs);
zico_status zi_ledger_uncharge(zi_ledger *l, zi_job_id job, uint64_t size_bytes);

/* At a restart: what the lease table and a rejoining job say (before anything is granted). */
zico_status zi_ledger_adopt_job(zi_ledger *l, zi_job_id job, const zi_job_limits *limits);
zico_status
zi_ledger_adopt_region(zi_ledger *l, zi_job_id job, uint32_t region, zi_hold hold);
zico_status zi_ledger_adopt_private(zi_ledger *l, zi_job_id job, uint64_t size_bytes);
/* Regions whose pages are there though nobody holds them. */
zico_status zi_ledger_adopt_idle(zi_ledger *l, uint32_t region);

/* ZICO_PENDING: the budget in force is above the new value still.  It sinks by calling again
 * after memory came back; never below `keep_bytes`, which the caller needs so that the jobs
 * inside a step can finish (0: nothing).  *ret_punch, which may be NULL if no region is idle,
 * names regions to punch.
 * E_BUDGET: below the sum of guarantees. */
zico_status zi_ledger_set_budget(zi_ledger *l, uint64_t budget_bytes, uint64_t keep_bytes,
                                 zi_grant *ret_punch);
/* Every idle region becomes cold; *ret_punch names them.  E_LIMIT, with nothing changed: they lie
 * too scattered for one list. */
zico_status zi_ledger_cool(zi_ledger *l, zi_grant *ret_punch);
/* ZICO_PENDING: it holds more than its new max; it gets nothing until it holds less.
 * E_BUDGET: min > max, or the guarantee does not fit. */
zico_status
zi_ledger_set_limits(zi_ledger *l, zi_job_id job, const zi_job_limits *limits);

const zi_ledger_job           *
zi_ledger_job_of(const zi_ledger *l, zi_job_id job); /* NULL: no such row */
void      zi_ledger_sum(const zi_ledger *l, zi_ledger_totals *ret_totals);
uint64_t  zi_ledger_region_bytes(const zi_ledger *l);
uint32_t  zi_ledger_n_regions(const zi_ledger *l);
zi_job_id zi_ledger_owner(const zi_ledger *l, uint32_t region); /* ZI_JOB_NONE */

/* ZICO_OK, or ZICO_E_CORRUPT and the number of the first invariant that does not hold. */
zico_status zi_ledger_verify(const zi_ledger *l, int *ret_invariant);

#endif /* ZI_LEDGER_H */

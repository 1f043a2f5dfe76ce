/* ledger.c -- jobs, limits and the budget; regions and requests lie in their own files.
 *
 * NEXT  ledger_regions.c (grants, returns), ledger_queue.c (requests), ledger_verify.c.
 */
#include "ledger/ledger_private.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

uint64_t
zi_ledger_held_bytes(const zi_ledger *l, const zi_ledger_job *j)
{
    return ((uint64_t)j->n_fixed + j->n_step) * l->shape.region_bytes + j->private_bytes;
}

static uint64_t
promise_of(const zi_ledger *l, const zi_ledger_job *j)
{
    uint64_t held = zi_ledger_held_bytes(l, j);
    return held > j->limits.min_bytes ? held : j->limits.min_bytes;
}

void
zi_ledger_forget_promise(zi_ledger *l, zi_job_id job)
{
    l->promised_bytes -= promise_of(l, &l->job[job]);
}

void
zi_ledger_renew_promise(zi_ledger *l, zi_job_id job)
{
    zi_ledger_job *j = &l->job[job];
    uint64_t       held = zi_ledger_held_bytes(l, j);
    uint64_t       use = l->n_leased * l->shape.region_bytes + l->private_bytes;

    l->promised_bytes += promise_of(l, j);
    if (held > j->peak_bytes) j->peak_bytes = held;
    if (use > l->peak_bytes) l->peak_bytes = use;
    if (j->limits.max_bytes && l->ceiling[job] > j->limits.max_bytes)
        l->ceiling[job] = held > j->limits.max_bytes ? held : j->limits.max_bytes;
}

bool
zi_ledger_is_live(const zi_ledger *l, zi_job_id job)
{
    return job < ZI_LEDGER_JOBS_MAX && l->job[job].live;
}

zico_status
zi_ledger_new(const zi_ledger_shape *shape, zi_ledger **ret_ledger)
{
    zico_status st = ZICO_E_NOMEM;
    uint64_t    pool;

    if (shape->region_bytes == 0 || shape->n_regions == 0 || shape->budget_bytes == 0)
        return ZICO_E_ARG;
    if (__builtin_mul_overflow(shape->region_bytes, (uint64_t)shape->n_regions, &pool) ||
        pool > INT64_MAX || shape->budget_bytes > INT64_MAX)
        return ZICO_E_ARG;

    zi_ledger *l = zi_calloc(1, sizeof *l);
    if (!l) return ZICO_E_NOMEM;
    l->shape = *shape;
    l->budget_bytes = l->target_bytes = shape->budget_bytes;
    l->next_request = 1;
    l->owner = zi_malloc(shape->n_regions * sizeof *l->owner);
    if (!l->owner) goto undo;
    for (uint32_t r = 0; r < shape->n_regions; r++) l->owner[r] = ZI_JOB_NONE;
    if ((st = zi_region_map_open(&l->idle, shape->n_regions, false)) < 0) goto undo;
    if ((st = zi_region_map_open(&l->cold, shape->n_regions, true)) < 0) goto undo;
    if ((st = zi_region_map_open(&l->fixed, shape->n_regions, false)) < 0) goto undo;
    *ret_ledger = l;
    return ZICO_OK;

undo:
    zi_ledger_free(l);
    return st;
}

void
zi_ledger_free(zi_ledger *l)
{
    if (!l) return;
    zi_region_map_close(&l->idle);
    zi_region_map_close(&l->cold);
    zi_region_map_close(&l->fixed);
    zi_free(l->owner);
    zi_free(l->request);
    zi_free(l);
}

/* -- jobs ---------------------------------------------------------------------------- */

static bool
limits_make_sense(const zi_job_limits *limits)
{
    return limits->max_bytes == 0 || limits->min_bytes <= limits->max_bytes;
}

/* With a lowered budget the guarantee must fit the value that is being reached. */
static uint64_t
lower_budget(const zi_ledger *l)
{
    return l->target_bytes < l->budget_bytes ? l->target_bytes : l->budget_bytes;
}

static void
open_row(zi_ledger *l, zi_job_id job, const zi_job_limits *limits)
{
    l->job[job] = (zi_ledger_job){.live = true, .limits = *limits};
    l->ceiling[job] = limits->max_bytes ? limits->max_bytes : UINT64_MAX;
    l->n_asked[job] = 0;
    zi_ledger_renew_promise(l, job);
}

zico_status
zi_ledger_join(zi_ledger *l, const zi_job_limits *limits, zi_job_id *ret_job)
{
    zi_job_id job = 0;

    if (!limits_make_sense(limits)) return ZICO_E_BUDGET;
    if (limits->min_bytes > 0 &&
        (limits->min_bytes > lower_budget(l) ||
         l->promised_bytes > lower_budget(l) - limits->min_bytes))
        return ZICO_E_BUDGET;
    while (job < ZI_LEDGER_JOBS_MAX && l->job[job].live) job++;
    if (job == ZI_LEDGER_JOBS_MAX) return ZICO_E_LIMIT;
    open_row(l, job, limits);
    *ret_job = job;
    return ZICO_OK;
}

zico_status
zi_ledger_leave(zi_ledger *l, zi_job_id job)
{
    if (!zi_ledger_is_live(l, job)) return ZICO_E_ARG;
    zi_ledger_job *j = &l->job[job];
    uint32_t       left = j->n_fixed + j->n_step;

    zi_ledger_drop_requests(l, job);
    zi_ledger_forget_promise(l, job);
    for (uint32_t r = 0; left > 0; r++) {
        zi_assert(r < l->shape.n_regions); /* L2 */
        if (l->owner[r] != job) continue;
        l->owner[r] = ZI_JOB_NONE;
        if (zi_region_map_has(&l->fixed, r)) zi_region_map_remove(&l->fixed, r);
        zi_region_map_add(&l->idle, r);
        l->n_leased--;
        left--;
    }
    l->private_bytes -= j->private_bytes;
    *j = (zi_ledger_job){0};
    return ZICO_OK;
}

zico_status
zi_ledger_set_limits(zi_ledger *l, zi_job_id job, const zi_job_limits *limits)
{
    if (!zi_ledger_is_live(l, job)) return ZICO_E_ARG;
    zi_ledger_job *j = &l->job[job];
    uint64_t       held = zi_ledger_held_bytes(l, j);
    uint64_t       others = l->promised_bytes - promise_of(l, j);

    if (!limits_make_sense(limits)) return ZICO_E_BUDGET;
    if (limits->min_bytes > j->limits.min_bytes && limits->min_bytes > held &&
        (limits->min_bytes > lower_budget(l) ||
         others > lower_budget(l) - limits->min_bytes))
        return ZICO_E_BUDGET;

    zi_ledger_forget_promise(l, job);
    j->limits = *limits;
    l->ceiling[job] = limits->max_bytes ? limits->max_bytes : UINT64_MAX;
    if (held > l->ceiling[job]) l->ceiling[job] = held;
    zi_ledger_renew_promise(l, job);
    return limits->max_bytes && held > limits->max_bytes ? ZICO_PENDING : ZICO_OK;
}

/* -- restart ------------------------------------------------------------------------- */

/* What is adopted was granted before: the budget in force stretches to it. */
static void
stretch_budget(zi_ledger *l)
{
    uint64_t use = (uint64_t)(l->n_leased + l->idle.n_set) * l->shape.region_bytes +
                   l->private_bytes;
    if (use > l->budget_bytes) l->budget_bytes = use;
    if (l->promised_bytes > l->budget_bytes) l->budget_bytes = l->promised_bytes;
}

zico_status
zi_ledger_adopt_job(zi_ledger *l, zi_job_id job, const zi_job_limits *limits)
{
    if (job >= ZI_LEDGER_JOBS_MAX || !limits_make_sense(limits)) return ZICO_E_ARG;
    if (l->job[job].live) return ZICO_E_EXISTS;
    open_row(l, job, limits);
    stretch_budget(l);
    return ZICO_OK;
}

static void
after_adoption(zi_ledger *l, zi_job_id job)
{
    uint64_t held = zi_ledger_held_bytes(l, &l->job[job]);
    if (held > l->ceiling[job]) l->ceiling[job] = held;
    zi_ledger_renew_promise(l, job);
    stretch_budget(l);
}

zico_status
zi_ledger_adopt_region(zi_ledger *l, zi_job_id job, uint32_t region, zi_hold hold)
{
    if (!zi_ledger_is_live(l, job) || region >= l->shape.n_regions) return ZICO_E_ARG;
    if (hold != ZI_HOLD_FIXED && hold != ZI_HOLD_STEP) return ZICO_E_ARG;
    if (l->owner[region] != ZI_JOB_NONE) return ZICO_E_EXISTS;

    zi_ledger_forget_promise(l, job);
    zi_region_map_remove(zi_region_map_has(&l->idle, region) ? &l->idle : &l->cold,
                         region);
    l->owner[region] = job;
    l->n_leased++;
    if (hold == ZI_HOLD_FIXED) {
        zi_region_map_add(&l->fixed, region);
        l->job[job].n_fixed++;
    } else {
        l->job[job].n_step++;
    }
    after_adoption(l, job);
    return ZICO_OK;
}

zico_status
zi_ledger_adopt_private(zi_ledger *l, zi_job_id job, uint64_t size_bytes)
{
    if (!zi_ledger_is_live(l, job)) return ZICO_E_ARG;
    if (size_bytes > INT64_MAX / 2 || l->private_bytes > INT64_MAX / 2) return ZICO_E_ARG;
    zi_ledger_forget_promise(l, job);
    l->job[job].private_bytes += size_bytes;
    l->private_bytes += size_bytes;
    after_adoption(l, job);
    return ZICO_OK;
}

zico_status
zi_ledger_adopt_idle(zi_ledger *l, uint32_t region)
{
    if (region >= l->shape.n_regions) return ZICO_E_ARG;
    if (!zi_region_map_has(&l->cold, region)) return ZICO_E_EXISTS;
    zi_region_map_remove(&l->cold, region);
    zi_region_map_add(&l->idle, region);
    stretch_budget(l);
    return ZICO_OK;
}

/* -- the budget ---------------------------------------------------------------------- */

zico_status
zi_ledger_set_budget(zi_ledger *l, uint64_t budget_bytes, uint64_t keep_bytes,
                     zi_grant *ret_punch)
{
    uint64_t guaranteed = 0, least = budget_bytes;
    zi_grant none = {0};

    if (budget_bytes == 0 || budget_bytes > INT64_MAX) return ZICO_E_ARG;
    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        if (l->job[i].live) guaranteed += l->job[i].limits.min_bytes;
    if (budget_bytes < guaranteed) return ZICO_E_BUDGET;

    l->target_bytes = budget_bytes;
    if (keep_bytes > l->budget_bytes) keep_bytes = l->budget_bytes;
    if (least < keep_bytes) least = keep_bytes;
    if (least < l->promised_bytes)
        least = l->promised_bytes; /* L5; covers leased + private */

    if (!ret_punch) ret_punch = &none;
    ret_punch->n_runs = ret_punch->n_punch = 0;
    if (zi_ledger_punch(l, 0, least, ret_punch) <
        0) { /* too scattered: the next call does it */
        uint64_t use = (uint64_t)(l->n_leased + l->idle.n_set) * l->shape.region_bytes +
                       l->private_bytes;
        if (use > least) least = use;
    }
    l->budget_bytes = least;
    return least > budget_bytes ? ZICO_PENDING : ZICO_OK;
}

zico_status
zi_ledger_cool(zi_ledger *l, zi_grant *ret_punch)
{
    ret_punch->n_runs = ret_punch->n_punch = 0;
    return zi_ledger_punch(l, 0, l->n_leased * l->shape.region_bytes + l->private_bytes,
                           ret_punch);
}

/* -- looking ------------------------------------------------------------------------- */

const zi_ledger_job *
zi_ledger_job_of(const zi_ledger *l, zi_job_id job)
{
    return zi_ledger_is_live(l, job) ? &l->job[job] : NULL;
}

void
zi_ledger_sum(const zi_ledger *l, zi_ledger_totals *ret_totals)
{
    uint64_t leased = l->n_leased * l->shape.region_bytes;
    uint64_t use = leased + l->private_bytes;

    *ret_totals = (zi_ledger_totals){
        .budget_bytes = l->budget_bytes,
        .target_bytes = l->target_bytes,
        .leased_bytes = leased,
        .idle_bytes = l->idle.n_set * l->shape.region_bytes,
        .private_bytes = l->private_bytes,
        .free_bytes = l->budget_bytes > use ? l->budget_bytes - use : 0,
        .peak_bytes = l->peak_bytes,
    };
}

uint64_t
zi_ledger_region_bytes(const zi_ledger *l)
{
    return l->shape.region_bytes;
}

uint32_t
zi_ledger_n_regions(const zi_ledger *l)
{
    return l->shape.n_regions;
}

zi_job_id
zi_ledger_owner(const zi_ledger *l, uint32_t region)
{
    return region < l->shape.n_regions ? l->owner[region] : ZI_JOB_NONE;
}

/* ledger_regions.c -- regions change hands: grants, returns, holes. */
#include "ledger/ledger_private.h"

#include "base/check.h"
#include "base/try.h"

#define NONE UINT32_MAX

/* Appends a region, lengthening the last run where it continues it; false: no run left. */
static bool
add_region(zi_run *runs, size_t *n, uint32_t region)
{
    if (*n > 0 && runs[*n - 1].first + runs[*n - 1].n == region) {
        runs[*n - 1].n++;
        return true;
    }
    if (*n == ZI_LEDGER_RUNS_MAX) return false;
    runs[(*n)++] = (zi_run){.first = region, .n = 1};
    return true;
}

/* As add_region, for regions that come from high to low. */
static bool
add_region_below(zi_run *runs, size_t *n, uint32_t region)
{
    if (*n > 0 && runs[*n - 1].first == region + 1) {
        runs[*n - 1].first--;
        runs[*n - 1].n++;
        return true;
    }
    return add_region(runs, n, region);
}

/* -- choosing ------------------------------------------------------------------------ */

/* TWO ENDS  Steps take and return like stacks.  Two jobs whose stacks grow from the same end
 *           tear holes into each other's, and a large tensor finds no run any more; so whoever
 *           begins to take beside another comes from the other end of what the budget allows.
 * COLD      A run with cold regions in it costs their first touch, and as many others' pages if
 *           the budget is used up: then scattered idle ones, stitched together, are far cheaper. */
typedef struct ends {
    bool     from_top;
    uint32_t end; /* regions that the budget allows */
} ends;

/* The nearest idle regions, then the nearest cold ones. */
static bool
choose_scattered(const zi_ledger *l, uint32_t n, ends at, zi_grant *g)
{
    const zi_region_map *maps[2] = {&l->idle, &l->cold};

    g->n_runs = 0;
    for (int m = 0; m < 2 && at.from_top; m++)
        for (uint32_t r = zi_region_map_find_run_below(maps[m], NULL, 1, at.end);
             n > 0 && r != NONE;
             r = zi_region_map_find_run_below(maps[m], NULL, 1, r), n--)
            if (!add_region_below(g->run, &g->n_runs, r)) return false;
    if (at.from_top && n == 0) return true;
    if (at.from_top) return false; /* beyond what the budget allows: the plain choice */
    for (int m = 0; m < 2; m++)
        for (uint32_t r = zi_region_map_next(maps[m], 0); n > 0 && r != NONE;
             r = zi_region_map_next(maps[m], r + 1), n--)
            if (!add_region(g->run, &g->n_runs, r)) return false;
    return n == 0;
}

/* Longest runs first, for a pool so scattered that the plain choice has too many. */
static bool
choose_longest(const zi_ledger *l, uint32_t n, zi_grant *g)
{
    uint32_t region = 0;

    g->n_runs = 0;
    while (region <
           l->shape.n_regions) { /* the ZI_LEDGER_RUNS_MAX longest, by insertion */
        zi_run run = {.first = region, .n = 0};
        while (region < l->shape.n_regions && l->owner[region] == ZI_JOB_NONE) {
            run.n++;
            region++;
        }
        region++;
        size_t at = g->n_runs;
        if (run.n == 0 || (at == ZI_LEDGER_RUNS_MAX && g->run[at - 1].n >= run.n))
            continue;
        if (at == ZI_LEDGER_RUNS_MAX) at--;
        g->n_runs = at + 1;
        for (; at > 0 && g->run[at - 1].n < run.n; at--) g->run[at] = g->run[at - 1];
        g->run[at] = run;
    }
    for (size_t i = 0; i < g->n_runs; i++) {
        if (g->run[i].n >= n) {
            g->run[i].n = n;
            g->n_runs = i + 1;
            return true;
        }
        n -= g->run[i].n;
    }
    return false;
}

static uint32_t
find_run(const zi_ledger *l, const zi_region_map *also, uint32_t n, ends at)
{
    return at.from_top ? zi_region_map_find_run_below(&l->idle, also, n, at.end)
                       : zi_region_map_find_run(&l->idle, also, n);
}

/* Could so many cold regions be touched without giving others' pages back? */
static bool
has_room_for_cold(const zi_ledger *l, uint32_t n)
{
    uint64_t resident = (uint64_t)(l->n_leased + l->idle.n_set) * l->shape.region_bytes;
    return resident + l->private_bytes + n * l->shape.region_bytes <= l->budget_bytes;
}

/* One run, if there is one to be had at a fair price. */
static uint32_t
choose_run(const zi_ledger *l, uint32_t n, ends at)
{
    ends     low = {.end = at.end};
    uint32_t first = find_run(l, NULL, n, at);

    if (first == NONE && (has_room_for_cold(l, n) || l->idle.n_set < n))
        first = find_run(l, &l->cold, n, at);
    if (first == NONE && at.from_top) first = choose_run(l, n, low);
    return first;
}

static bool
choose(const zi_ledger *l, uint32_t n, bool adjacent, ends at, zi_grant *g)
{
    ends low = {.end = at.end};

    if (adjacent && n > 1) {
        uint32_t first = choose_run(l, n, at);
        if (first != NONE) {
            g->n_runs = 1;
            g->run[0] = (zi_run){.first = first, .n = n};
            return true;
        }
    }
    return choose_scattered(l, n, at, g) || choose_scattered(l, n, low, g) ||
           choose_longest(l, n, g);
}

/* From which end?  It is settled when a job that holds nothing of a step begins to take. */
static ends
ends_for(zi_ledger *l, const zi_request *req)
{
    ends           at = {.end = (uint32_t)(l->budget_bytes / l->shape.region_bytes)};
    zi_ledger_job *mine = &l->job[req->job];
    uint32_t       most = 0;

    if (req->hold != ZI_HOLD_STEP) return at;
    if (mine->n_step == 0) {
        mine->from_top = false;
        for (zi_job_id k = 0; k < ZI_LEDGER_JOBS_MAX; k++) {
            const zi_ledger_job *other = &l->job[k];
            if (k == req->job || !other->live || other->n_step <= most) continue;
            most = other->n_step;
            mine->from_top = !other->from_top;
        }
    }
    at.from_top = mine->from_top;
    return at;
}

/* -- punching ------------------------------------------------------------------------ */

/* Is the region part of what is about to be granted? */
static bool
in_runs(const zi_grant *g, uint32_t region)
{
    for (size_t i = 0; i < g->n_runs; i++)
        if (region - g->run[i].first < g->run[i].n) return true;
    return false;
}

zico_status
zi_ledger_punch(zi_ledger *l, uint64_t more_bytes, uint64_t limit, zi_grant *g)
{
    uint64_t in_use = (uint64_t)(l->n_leased + l->idle.n_set) * l->shape.region_bytes +
                      l->private_bytes + more_bytes;
    uint32_t region = l->shape.n_regions, n = 0;

    g->n_punch = 0;
    while (in_use > limit) { /* from the high end: low regions are granted first */
        do {
            if (region-- == 0) return ZICO_E_BUSY;
        } while (!zi_region_map_has(&l->idle, region) || in_runs(g, region));
        if (!add_region_below(g->punch, &g->n_punch, region)) return ZICO_E_LIMIT;
        in_use -= l->shape.region_bytes < in_use ? l->shape.region_bytes : in_use;
        n++;
    }
    for (size_t i = 0; n > 0 && i < g->n_punch; i++)
        for (uint32_t k = 0; k < g->punch[i].n; k++) {
            zi_region_map_remove(&l->idle, g->punch[i].first + k);
            zi_region_map_add(&l->cold, g->punch[i].first + k);
        }
    return ZICO_OK;
}

/* -- granting ------------------------------------------------------------------------ */

static zico_status
may_have(const zi_ledger *l, zi_job_id job, uint64_t size_bytes)
{
    const zi_ledger_job *j = &l->job[job];
    uint64_t             held = zi_ledger_held_bytes(l, j);
    uint64_t             use = l->n_leased * l->shape.region_bytes + l->private_bytes;
    uint64_t reserve = j->limits.min_bytes > held ? j->limits.min_bytes - held : 0;

    if (l->ceiling[job] < held || size_bytes > l->ceiling[job] - held ||
        (j->limits.max_bytes && held + size_bytes > j->limits.max_bytes))
        return ZICO_E_LIMIT; /* L4 */
    if (use > l->budget_bytes || size_bytes > l->budget_bytes - use)
        return ZICO_E_BUSY; /* L3 */
    if (size_bytes > reserve &&
        (l->promised_bytes > l->budget_bytes ||
         size_bytes - reserve > l->budget_bytes - l->promised_bytes))
        return ZICO_E_LIMIT; /* L5 */
    return ZICO_OK;
}

zico_status
zi_ledger_may_grant(const zi_ledger *l, const zi_request *req)
{
    if (!zi_ledger_is_live(l, req->job)) return ZICO_E_ARG;
    if (req->hold == ZI_HOLD_PRIVATE) return may_have(l, req->job, req->size_bytes);
    if (req->n_regions > l->shape.n_regions - l->n_leased) return ZICO_E_BUSY;
    return may_have(l, req->job, req->n_regions * l->shape.region_bytes);
}

static void
hand_over(zi_ledger *l, zi_job_id job, zi_hold hold, const zi_grant *g)
{
    zi_ledger_job *j = &l->job[job];

    zi_ledger_forget_promise(l, job);
    for (size_t i = 0; i < g->n_runs; i++)
        for (uint32_t r = g->run[i].first; r < g->run[i].first + g->run[i].n; r++) {
            zi_assert(l->owner[r] == ZI_JOB_NONE); /* L1 */
            zi_region_map_remove(zi_region_map_has(&l->idle, r) ? &l->idle : &l->cold, r);
            l->owner[r] = job;
            l->n_leased++;
            if (hold == ZI_HOLD_FIXED) {
                zi_region_map_add(&l->fixed, r);
                j->n_fixed++;
            } else {
                j->n_step++;
            }
        }
    zi_ledger_renew_promise(l, job);
}

static zico_status
grant_regions(zi_ledger *l, const zi_request *req, uint32_t n, zi_grant *g)
{
    uint64_t n_cold = 0;

    if (!choose(l, n, req->adjacent, ends_for(l, req), g)) return ZICO_E_BUSY;
    for (size_t i = 0; i < g->n_runs; i++)
        for (uint32_t r = g->run[i].first; r < g->run[i].first + g->run[i].n; r++)
            n_cold += zi_region_map_has(&l->cold, r);
    ZI_TRY(zi_ledger_punch(l, n_cold * l->shape.region_bytes, l->budget_bytes, g));
    hand_over(l, req->job, req->hold, g);
    return ZICO_OK;
}

zico_status
zi_ledger_grant(zi_ledger *l, uint64_t id, uint32_t n_regions, zi_grant *ret_grant)
{
    const zi_request *found = zi_ledger_find(l, id);
    if (!found) return ZICO_E_NOTFOUND;
    zi_request req = *found;

    if (n_regions != 0 && (!req.ahead || n_regions > req.n_regions)) return ZICO_E_ARG;
    if (n_regions != 0) req.n_regions = n_regions;
    ZI_TRY(zi_ledger_may_grant(l, &req));
    ret_grant->n_runs = ret_grant->n_punch = 0;
    if (req.hold == ZI_HOLD_PRIVATE) {
        ZI_TRY(zi_ledger_punch(l, req.size_bytes, l->budget_bytes, ret_grant));
        zi_ledger_forget_promise(l, req.job);
        l->job[req.job].private_bytes += req.size_bytes;
        l->private_bytes += req.size_bytes;
        zi_ledger_renew_promise(l, req.job);
    } else {
        ZI_TRY(grant_regions(l, &req, req.n_regions, ret_grant));
    }
    return zi_ledger_cancel(l, id); /* out of the queue */
}

/* -- giving back --------------------------------------------------------------------- */

static void
give_back(zi_ledger *l, zi_job_id job, uint32_t region)
{
    if (zi_region_map_has(&l->fixed, region)) {
        zi_region_map_remove(&l->fixed, region);
        l->job[job].n_fixed--;
    } else {
        l->job[job].n_step--;
    }
    l->owner[region] = ZI_JOB_NONE;
    zi_region_map_add(&l->idle, region);
    l->n_leased--;
}

zico_status
zi_ledger_return(zi_ledger *l, zi_job_id job, const zi_run *runs, size_t n_runs)
{
    size_t   i, good = 0;
    uint32_t bad_from = 0;

    if (!zi_ledger_is_live(l, job)) return ZICO_E_ARG;
    for (i = 0; i < n_runs; i++)
        if (runs[i].n == 0 || runs[i].first >= l->shape.n_regions ||
            runs[i].n > l->shape.n_regions - runs[i].first)
            return ZICO_E_ARG;

    /* Ownership is given up while walking, so a region named twice is seen, and taken up
     * again if one is not the job's: nothing else has changed by then. */
    for (i = 0; i < n_runs && good == i; i++) {
        uint32_t r = runs[i].first, end = r + runs[i].n;
        while (r < end && l->owner[r] == job) l->owner[r++] = ZI_JOB_NONE;
        if (r == end)
            good++;
        else
            bad_from = r;
    }
    if (good < n_runs) {
        for (i = 0; i <= good; i++)
            for (uint32_t r = runs[i].first, end = r + runs[i].n;
                 r < end && !(i == good && r == bad_from); r++)
                l->owner[r] = job;
        return ZICO_E_ARG;
    }
    zi_ledger_forget_promise(l, job);
    for (i = 0; i < n_runs; i++)
        for (uint32_t r = runs[i].first; r < runs[i].first + runs[i].n; r++)
            give_back(l, job, r);
    zi_ledger_renew_promise(l, job);
    return ZICO_OK;
}

zico_status
zi_ledger_uncharge(zi_ledger *l, zi_job_id job, uint64_t size_bytes)
{
    if (!zi_ledger_is_live(l, job)) return ZICO_E_ARG;
    if (size_bytes > l->job[job].private_bytes) return ZICO_E_ARG;
    zi_ledger_forget_promise(l, job);
    l->job[job].private_bytes -= size_bytes;
    l->private_bytes -= size_bytes;
    zi_ledger_renew_promise(l, job);
    return ZICO_OK;
}

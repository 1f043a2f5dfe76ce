/* ledger_verify.c -- recounts the whole book and compares it with the running sums. */
#include "ledger/ledger_private.h"

#include <stdlib.h>

typedef struct recount {
    uint32_t n_fixed, n_step;
} recount;

static bool
l1_each_region_in_one_place(const zi_ledger *l)
{
    uint32_t n_idle = 0, n_cold = 0, n_leased = 0;

    for (uint32_t r = 0; r < l->shape.n_regions; r++) {
        bool idle = zi_region_map_has(&l->idle, r), cold = zi_region_map_has(&l->cold, r);
        bool leased = l->owner[r] != ZI_JOB_NONE;
        if (idle + cold + leased != 1) return false;
        if (leased && !zi_ledger_is_live(l, l->owner[r])) return false;
        if (zi_region_map_has(&l->fixed, r) && !leased) return false;
        n_idle += idle;
        n_cold += cold;
        n_leased += leased;
    }
    return n_idle == l->idle.n_set && n_cold == l->cold.n_set && n_leased == l->n_leased;
}

static bool
l2_jobs_hold_what_names_them(const zi_ledger *l)
{
    recount count[ZI_LEDGER_JOBS_MAX] = {{0, 0}};

    for (uint32_t r = 0; r < l->shape.n_regions; r++) {
        if (l->owner[r] == ZI_JOB_NONE) continue;
        if (zi_region_map_has(&l->fixed, r))
            count[l->owner[r]].n_fixed++;
        else
            count[l->owner[r]].n_step++;
    }
    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        if (count[i].n_fixed != l->job[i].n_fixed || count[i].n_step != l->job[i].n_step)
            return false;
    return true;
}

static bool
l3_within_budget(const zi_ledger *l)
{
    uint64_t private_bytes = 0;
    uint64_t in_pool = (uint64_t)(l->n_leased + l->idle.n_set) * l->shape.region_bytes;

    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        private_bytes += l->job[i].private_bytes;
    return private_bytes == l->private_bytes &&
           in_pool + private_bytes <= l->budget_bytes &&
           l->budget_bytes >= l->target_bytes;
}

static bool
l4_within_maxima(const zi_ledger *l)
{
    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        if (l->job[i].live && zi_ledger_held_bytes(l, &l->job[i]) > l->ceiling[i])
            return false;
    return true;
}

static bool
l5_guarantees_can_be_kept(const zi_ledger *l)
{
    uint64_t promised = 0;

    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++) {
        uint64_t held = zi_ledger_held_bytes(l, &l->job[i]);
        uint64_t least = l->job[i].limits.min_bytes;
        promised += held > least ? held : least;
    }
    return promised == l->promised_bytes && promised <= l->budget_bytes;
}

static bool
l6_dead_rows_are_empty(const zi_ledger *l)
{
    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++) {
        const zi_ledger_job *j = &l->job[i];
        if (j->live) continue;
        if (j->n_fixed || j->n_step || j->private_bytes || j->limits.min_bytes ||
            l->n_asked[i])
            return false;
    }
    return true;
}

static bool
l7_requests_in_order(const zi_ledger *l)
{
    uint32_t n_asked[ZI_LEDGER_JOBS_MAX] = {0};

    for (size_t i = 0; i < l->n_requests; i++) {
        const zi_request *req = &l->request[i];
        if (i > 0 && req->id <= l->request[i - 1].id) return false;
        if (req->id == 0 || req->id >= l->next_request) return false;
        if (!zi_ledger_is_live(l, req->job)) return false;
        n_asked[req->job]++;
    }
    for (zi_job_id i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        if (n_asked[i] != l->n_asked[i] || n_asked[i] > ZI_LEDGER_REQS_PER_JOB)
            return false;
    return true;
}

zico_status
zi_ledger_verify(const zi_ledger *l, int *ret_invariant)
{
    bool (*const check[])(const zi_ledger *) = {
        l1_each_region_in_one_place,
        l2_jobs_hold_what_names_them,
        l3_within_budget,
        l4_within_maxima,
        l5_guarantees_can_be_kept,
        l6_dead_rows_are_empty,
        l7_requests_in_order,
    };
    for (int i = 0; i < (int)(sizeof check / sizeof check[0]); i++) {
        if (check[i](l)) continue;
        if (ret_invariant) *ret_invariant = i + 1;
        return ZICO_E_CORRUPT;
    }
    return ZICO_OK;
}

/* exec_suspend.c -- everything that lives on goes out to a file, and comes back.
 *
 * Between two steps a job holds only its fixed slots: parameters, state, inputs.  They are
 * written one behind the other; the file is made large enough before anything is given back,
 * so a full disk leaves the job as it was.  Coming back, leases may lie elsewhere: all that
 * knows addresses between steps is exec_run's `base`, which is set again here.  (Kernels get
 * their addresses with each call; oneDNN's memories notice that they are others.)
 */
#include "exec/exec_private.h"

#include <string.h>
#include "base/alloc.h"
#include "base/try.h"

static uint64_t
paged(uint64_t bytes)
{
    return (bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
}

/* Room in the tier for every fixed slot. */
static uint64_t
fixed_bytes(const zi_exec *e)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < e->plan->n_slots; s++)
        if (e->plan->slots[s].fixed) sum += paged(e->plan->slots[s].size_bytes);
    return sum;
}

static zico_status
move_fixed(zi_exec *e, bool out)
{
    uint64_t at = 0;

    for (uint32_t s = 0; s < e->plan->n_slots; s++) {
        const zi_slot *w = &e->plan->slots[s];
        if (!w->fixed) continue;
        void *base = e->leases[s]->base;
        ZI_TRY(out ? zi_tier_write(e->away, at, base, w->size_bytes)
                   : zi_tier_read(e->away, at, base, w->size_bytes));
        at += paged(w->size_bytes);
    }
    return ZICO_OK;
}

static void
give_fixed_back(zi_exec *e)
{
    for (uint32_t s = 0; s < e->plan->n_slots; s++) {
        if (e->leases[s]) zi_session_give_back(e->session, e->leases[s], NULL);
        e->leases[s] = NULL;
    }
}

zico_status
zi_exec_suspend(zi_exec *e, zi_tier *tier, uint64_t *ret_out_bytes)
{
    if (!e->session || e->away || e->in_step) return ZICO_E_STATE;
    ZI_TRY(zi_exec_drain(e));
    const uint64_t size = fixed_bytes(e);
    ZI_TRY(zi_tier_reserve(tier, size));
    e->away = tier;
    zico_status st = move_fixed(e, true);
    if (st < 0) {
        e->away = NULL;
        return st;
    }
    give_fixed_back(e);
    *ret_out_bytes = size;
    return ZICO_OK;
}

zico_status
zi_exec_resume(zi_exec *e)
{
    zico_status st = ZICO_OK;

    if (!e->away) return ZICO_E_STATE;
    for (uint32_t s = 0; st >= 0 && s < e->plan->n_slots; s++)
        if (e->plan->slots[s].fixed) st = exec_lease_slot(e, s);
    if (st >= 0) st = move_fixed(e, false);
    if (st < 0) { /* still out: it may be tried again */
        give_fixed_back(e);
        return st;
    }
    exec_bind_fixed(e);
    e->away = NULL;
    return ZICO_OK;
}

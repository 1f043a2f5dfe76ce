/* exec_suspend.c -- everything that lives on goes out to a file, and comes back.
 *
 * Between two steps a job holds only its fixed slots: parameters, state, inputs.  They are
 * written as they lie, in one piece; the file is made large enough before anything is given back,
 * so a full disk leaves the job as it was.  Coming back, leases may lie elsewhere: all that
 * knows addresses between steps is exec_run's `base`, which is set again here.  (Kernels get
 * their addresses with each call; oneDNN's memories notice that they are others.)
 */
#include "exec/exec_private.h"

#include <stdlib.h>
#include "base/try.h"

zico_status
zi_exec_suspend(zi_exec *e, zi_tier *tier, bool cold, uint64_t *ret_out_bytes)
{
    if (!e->session || e->away || zi_exec_is_in_step(e)) return ZICO_E_STATE;
    ZI_TRY(zi_exec_drain(e));
    ZI_TRY(zi_tier_reserve(tier, e->fixed_bytes));
    if (e->fixed) {
        zi_tier_after after = cold && !e->fixed->outside ? ZI_TIER_REMOVE : ZI_TIER_UNMAP;
        zico_status   st =
            zi_tier_write_bulk(tier, 0, e->fixed->base, e->fixed_bytes, after);
        if (st == ZICO_E_CORRUPT) atomic_store(&e->failed, st);
        if (st < 0) return st;
    }
    exec_fixed_close(e);
    e->away = tier;
    *ret_out_bytes = e->fixed_bytes;
    return ZICO_OK;
}

/* Where in the file the tensor begins. */
static uint64_t
place_in_file(const zi_exec *e, exec_ref ref)
{
    uint64_t at = ref.offset;
    for (uint32_t s = 0; s < ref.slot; s++)
        if (e->prog.plan->slots[s].fixed)
            at += exec_paged(e->prog.plan->slots[s].size_bytes);
    return at;
}

/* A job that is to end while it is out is read from the file, one tensor at a time. */
zico_status
exec_get_away(zi_exec *e, zi_tensor_id t, void *ret_plain)
{
    const exec_ref ref = e->prog.last_ref[t];

    if (ref.slot >= e->prog.plan->n_slots || !e->prog.plan->slots[ref.slot].fixed)
        return ZICO_E_STATE;
    uint64_t begin = place_in_file(e, ref), from = begin / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
    uint64_t rest = e->prog.plan->slots[ref.slot].size_bytes - ref.offset;
    uint64_t need = e->bound->view[t].layout.bytes;
    uint64_t n = exec_paged(begin - from + (need < rest ? need : rest));
    char    *buf = aligned_alloc(ZI_TIER_ALIGN, n);

    if (!buf) return ZICO_E_NOMEM;
    zico_status st = zi_tier_read(e->away, from, buf, n);
    if (st >= 0) st = zi_bound_unpack(e->bound, t, buf + (begin - from), ret_plain);
    free(buf);
    return st;
}

static zico_status
put_back(void *arg, uint64_t from, const void *src, uint64_t n_bytes)
{
    const zi_exec *e = arg;
    return zi_session_fill(e->session, e->fixed, from, src, n_bytes);
}

zico_status
zi_exec_resume(zi_exec *e)
{
    if (!e->away) return ZICO_E_STATE;
    ZI_TRY(exec_fixed_open(e, ZI_LEASE_BARE));
    zico_status st =
        e->fixed ? zi_tier_read_bulk(e->away, 0, e->fixed_bytes, put_back, e) : ZICO_OK;
    if (st < 0) { /* still out: it may be tried again */
        exec_fixed_close(e);
        return st;
    }
    e->away = NULL;
    return ZICO_OK;
}

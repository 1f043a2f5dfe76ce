/* exec_suspend.c -- everything that lives on goes out to a file, and comes back.
 *
 * Between two steps a job holds only its fixed slots: parameters, state, inputs.  They are
 * written as they lie, in one piece; the file is made large enough before anything is given back,
 * so a full disk leaves the job as it was.  Coming back, leases may lie elsewhere: all that
 * knows addresses between steps is exec_run's `base`, which is set again here.  (Kernels get
 * their addresses with each call; oneDNN's memories notice that they are others.)
 */
#include "exec/exec_private.h"

#include "base/try.h"

zico_status
zi_exec_suspend(zi_exec *e, zi_tier *tier, uint64_t *ret_out_bytes)
{
    if (!e->session || e->away || e->in_step) return ZICO_E_STATE;
    ZI_TRY(zi_exec_drain(e));
    ZI_TRY(zi_tier_reserve(tier, e->fixed_bytes));
    if (e->fixed) ZI_TRY(zi_tier_write(tier, 0, e->fixed->base, e->fixed_bytes));
    exec_fixed_close(e);
    e->away = tier;
    *ret_out_bytes = e->fixed_bytes;
    return ZICO_OK;
}

zico_status
zi_exec_resume(zi_exec *e)
{
    if (!e->away) return ZICO_E_STATE;
    ZI_TRY(exec_fixed_open(e));
    zico_status st =
        e->fixed ? zi_tier_read(e->away, 0, e->fixed->base, e->fixed_bytes) : ZICO_OK;
    if (st < 0) { /* still out: it may be tried again */
        exec_fixed_close(e);
        return st;
    }
    e->away = NULL;
    return ZICO_OK;
}

/* train_loop.c -- queue steps, pick up results, save in between. */
#include "train/train_loop.h"

#include <stdio.h>

#include "base/check.h"

/* One finished step.  ZICO_E_NAN: it was bad. */
static zico_status
take(const zi_loop_options *o, const zi_exec_step_result *r, zi_train_diag *diag,
     zi_loop_end *end)
{
    if (r->status >= 0) {
        zi_loop_step step = {r, zi_schedule_lr(o->schedule, r->step)};
        zi_assert(r->step == end->done + 1);
        end->done = r->step;
        if (o->on_step) o->on_step(o->user, &step);
        return ZICO_OK;
    }
    if (r->status != ZICO_E_NAN)
        return zi_train_fail(diag, r->status, "step %llu: %s",
                             (unsigned long long)r->step, zico_status_text(r->status));
    const zi_graph *g = zi_engine_graph(o->engine);
    end->bad_step = r->step;
    end->bad = r->bad;
    return zi_train_fail(diag, ZICO_E_NAN, "step %llu: %s%s%s is not finite",
                         (unsigned long long)r->step,
                         r->bad == ZI_ID_NONE ? "the loss" : "tensor '",
                         r->bad == ZI_ID_NONE ? "" : g->tensors[r->bad].name,
                         r->bad == ZI_ID_NONE ? "" : "'");
}

/* Results that are there; with `all`, until none is left under way. */
static zico_status
take_results(const zi_loop_options *o, bool all, zi_train_diag *diag, zi_loop_end *end)
{
    zi_exec_step_result r;
    zico_status         st;

    while ((st = zi_engine_result(o->engine, all, &r)) >= 0) {
        st = take(o, &r, diag, end);
        if (st < 0) return st;
    }
    return st == ZICO_E_NOTFOUND ? ZICO_OK : st;
}

static zico_status
queue_step(const zi_loop_options *o, uint64_t step, zi_train_diag *diag, zi_loop_end *end)
{
    const zi_batch *b;
    zico_status     st = ZICO_OK;

    if (!zi_loader_is_ready(
            o->loader)) /* it may take long: tell meanwhile what is over */
        st = take_results(o, true, diag, end);
    if (st >= 0) st = zi_loader_next(o->loader, diag, &b);
    if (st < 0) return st;
    st = zi_engine_step(o->engine, b->x, b->y, zi_schedule_lr(o->schedule, step), step);
    if (st == ZICO_E_CANCELLED) { /* a step before failed: its result says why */
        zico_status why = take_results(o, true, diag, end);
        return why < 0 ? why : st;
    }
    if (st < 0)
        return zi_train_fail(diag, st, "step %llu: %s", (unsigned long long)step,
                             zico_status_text(st));
    return take_results(o, false, diag, end);
}

static zico_status
save_after(const zi_loop_options *o, uint64_t step, zi_train_diag *diag, zi_loop_end *end)
{
    if (!o->on_save || o->every == 0 || step % o->every != 0) return ZICO_OK;
    zico_status st = take_results(o, true, diag, end);
    if (st < 0) return st;
    return o->on_save(o->user, step, diag);
}

static bool
is_stopped(const zi_loop_options *o)
{
    return o->stop && atomic_load(o->stop);
}

zico_status
zi_loop_run(const zi_loop_options *o, zi_train_diag *diag, zi_loop_end *ret_end)
{
    zico_status st = ZICO_OK;

    zi_assert(o->first >= 1);
    *ret_end = (zi_loop_end){.done = o->first - 1, .bad = ZI_ID_NONE};
    for (uint64_t step = o->first; st >= 0 && step <= o->last; step++) {
        if (is_stopped(o)) {
            ret_end->stopped = true;
            break;
        }
        st = queue_step(o, step, diag, ret_end);
        if (st == ZICO_E_CANCELLED && is_stopped(o) && ret_end->done + 1 == step &&
            !zi_exec_has_failed(zi_engine_exec(o->engine))) {
            ret_end->stopped = true; /* it waited for its turn: this step never began */
            st = ZICO_OK;
            break;
        }
        if (st >= 0) st = save_after(o, step, diag, ret_end);
    }
    if (st >= 0) st = take_results(o, true, diag, ret_end);
    if (st < 0) { /* nothing of ours may run on when we return */
        zico_status drained = zi_exec_drain(zi_engine_exec(o->engine));
        (void)drained;
    }
    return st;
}

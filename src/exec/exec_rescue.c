/* exec_rescue.c -- memory ran short in the middle of a step: the rest goes on demand.
 *
 * The plan was made for more than there is now.  What has been queued ends; everything that the
 * rest of the step needs goes to the tier, every slot back to where it came from, and the
 * rest is followed passively (passive.h) through one arena of the size that the job held.
 * Slow, and the same bits; whoever made the plan should make another one before the next step
 * (zi_exec_step_result.passive).
 */
#include "exec/exec_private.h"

#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "exec/passive.h"
#include "plan/fixed.h"

static zico_status
settle_streams(zi_exec *e)
{
    ZI_TRY(e->dev->ops->stream_drain(e->compute));
    if (e->out) ZI_TRY(e->dev->ops->stream_drain(e->out));
    if (e->in) ZI_TRY(e->dev->ops->stream_drain(e->in));
    return (zico_status)atomic_load(&e->failed);
}

/* All that is here goes where copies go; afterwards `saved` names it. */
static zico_status
move_out(zi_exec *e, exec_run *r, const exec_ref *now, bool *saved)
{
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++)
        if (now[t].slot != EXEC_NOWHERE) exec_tier_place(e, t);
    ZI_TRY(zi_tier_reserve(e->opt.tier, e->prog.tier_bytes));
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++) {
        if (now[t].slot == EXEC_NOWHERE || saved[t]) continue;
        ZI_TRY(zi_tier_write(e->opt.tier, e->prog.tier_at[t], exec_at(r, now[t]),
                             e->cost->tensor_bytes[t]));
        saved[t] = true;
    }
    return ZICO_OK;
}

static uint64_t
held_slots(const zi_exec *e)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++)
        if (e->prog.leases[s]) sum += e->prog.leases[s]->size_bytes;
    return sum;
}

/* The acts that are over, what move_out has done, and the rest: a whole plan for the checker. */
static zico_status
check_whole(zi_exec *e, const zi_plan *done, uint32_t n_done, const exec_ref *now,
            const zi_plan *rest)
{
    zi_plan    *whole;
    zi_verdict  v;
    zico_status st = zi_plan_new("rescue", &whole);

    if (st < 0) return st;
    for (uint32_t a = 0; a < n_done && st >= 0; a++)
        st = zi_plan_add(whole, done->acts[a]);
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++) {
        static const zi_act_kind way[] = {ZI_ACT_WAIT, ZI_ACT_OUT, ZI_ACT_WAIT,
                                          ZI_ACT_DROP};
        if (now[t].slot == EXEC_NOWHERE) continue;
        for (size_t i = 0; i < sizeof way / sizeof *way && st >= 0; i++)
            st = zi_plan_add(whole, (zi_act){.kind = way[i], .what = t});
    }
    for (uint32_t a = 0; a < rest->n_acts && st >= 0; a++)
        st = zi_plan_add(whole, rest->acts[a]);
    if (st >= 0) st = zi_plan_check(whole, e->g, e->cost, 0, &v);
    zi_plan_free(whole);
    return st;
}

static zico_status
plan_rest(zi_exec *e, uint32_t from_act, uint64_t arena, const bool *saved,
          const exec_ref *now, zi_plan **ret_rest)
{
    const zi_passive_task task = {.graph = e->g,
                                  .cost = e->cost,
                                  .guide = e->prog.plan,
                                  .placed = e->prog.plan,
                                  .arena_bytes = arena,
                                  .align = ZI_TIER_ALIGN,
                                  .from_act = from_act,
                                  .saved = saved};

    ZI_TRY(zi_passive_plan(&task, ret_rest));
    zico_status st = check_whole(e, e->prog.plan, from_act, now, *ret_rest);
    if (st < 0) zi_plan_free(*ret_rest);
    return st;
}

/* The rest as a program of its own, from its first act to the end of the step. */
static zico_status
run_rest(zi_exec *e, exec_run *r, zi_plan *rest)
{
    exec_prog    old = e->prog;
    const size_t n = e->g->n_tensors + 1u;
    zico_status  st = ZICO_E_NOMEM;

    e->prog = (exec_prog){.plan = rest, .passive = true, .tier_bytes = old.tier_bytes};
    e->prog.place = (zi_place_stats){.peak_slot_bytes = r->held_bytes};
    e->prog.tier_at = zi_malloc(n * sizeof *e->prog.tier_at);
    if (e->prog.tier_at) {
        memcpy(e->prog.tier_at, old.tier_at, n * sizeof *e->prog.tier_at);
        st = exec_prog_open(e, NULL);
    }
    if (st >= 0) st = exec_issue(e, r);
    zico_status over = settle_streams(e);
    exec_slots_close_all(e);
    exec_prog_close(e, &e->prog);
    e->prog = old;
    return st < 0 ? st : over;
}

/* The tide of slots that were noted as open ends here. */
static void
end_tide(zi_exec *e, uint32_t from_act)
{
    int64_t sum = 0;

    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++) {
        const zi_slot *w = &e->prog.plan->slots[s];
        if (!w->fixed && w->first < from_act && w->last >= from_act)
            sum += (int64_t)w->size_bytes;
    }
    zi_session_tide_add(e->session, e->os->now_ns(e->os), -sum);
}

/* An arena of what was held, or of the least that will do. */
static zico_status
arena_of(zi_exec *e, uint64_t *ret_bytes)
{
    const uint64_t unit = zi_session_region_bytes(e->session), held = held_slots(e);
    uint64_t       least;

    ZI_TRY(zi_passive_least(e->g, e->cost, e->prog.plan, ZI_TIER_ALIGN, &least, NULL));
    least = (least + unit - 1) / unit * unit;
    *ret_bytes = held < least ? least : held;
    return ZICO_OK;
}

static zico_status
rescue(zi_exec *e, exec_run *r, uint32_t from_act, exec_ref *now, bool *saved)
{
    uint64_t arena;
    zi_plan *rest = NULL;

    exec_replay(e, from_act, now, saved);
    ZI_TRY(arena_of(e, &arena));
    ZI_TRY(move_out(e, r, now, saved));
    ZI_TRY(plan_rest(e, from_act, arena, saved, now, &rest));
    end_tide(e, from_act);
    exec_slots_close_all(e);
    r->held_bytes = e->fixed_bytes + arena;
    return run_rest(e, r, rest);
}

zico_status
exec_rescue(zi_exec *e, exec_run *r, const exec_piece *at)
{
    exec_ref   *now = zi_malloc((e->g->n_tensors + 1u) * sizeof *now);
    bool       *saved = zi_malloc((e->g->n_tensors + 1u) * sizeof *saved);
    zico_status st = now && saved ? settle_streams(e) : ZICO_E_NOMEM;

    if (st >= 0) st = rescue(e, r, at->begin, now, saved);
    zi_free(now);
    zi_free(saved);
    return st;
}

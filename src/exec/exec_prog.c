/* exec_prog.c -- a plan becomes a program: checked, placed, compiled, with memory.
 *
 * A plan that fits is obeyed.  One that does not fit, or is wrong, serves as the guide of a passive
 * one, if there is a budget and a tier: the safety net under every planner.
 */
#include "exec/exec_private.h"

#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/size.h"
#include "base/try.h"
#include "exec/passive.h"

/* -- choosing -------------------------------------------------------------------------------- */

static zico_status
copy_plan(const zi_plan *from, zi_plan **ret_plan)
{
    zi_plan *p;

    ZI_TRY(zi_plan_new(from->planner ? from->planner : "?", &p));
    for (uint32_t a = 0; a < from->n_acts; a++) {
        zico_status st = zi_plan_add(p, from->acts[a]);
        if (st < 0) {
            zi_plan_free(p);
            return st;
        }
    }
    *ret_plan = p;
    return ZICO_OK;
}

static uint64_t
region_of(const zi_exec *e)
{
    return e->session ? zi_session_region_bytes(e->session) : 0;
}

static uint64_t
align_of(const zi_exec *e)
{
    return e->opt.tier ? ZI_TIER_ALIGN : ZI_EXEC_ALIGN;
}

static zico_status
place(zi_exec *e, zi_plan *p, zi_place_stats *ret_stats)
{
    return zi_plan_place(p, e->g, e->cost, region_of(e), align_of(e), ret_stats);
}

static zico_status
too_small(const zi_exec *e, uint64_t least, zi_node_id node, zi_graph_diag *diag)
{
    char text[2][ZI_SIZE_TEXT];

    if (!diag) return ZICO_E_BUDGET;
    *diag = (zi_graph_diag){.node = node};
    snprintf(diag->text, sizeof diag->text,
             "%s is the least: parameters, state and data, and %s with all that it reads "
             "and writes; the budget is %s",
             zi_size_format(least, text[0]),
             node == ZI_ID_NONE ? "the outputs" : e->g->nodes[node].name,
             zi_size_format(e->opt.budget_bytes, text[1]));
    return ZICO_E_BUDGET;
}

/* On demand, along `guide`; `keep` lends the fixed slots. */
static zico_status
make_passive(zi_exec *e, const zi_plan *guide, const zi_plan *keep, zi_graph_diag *diag)
{
    zi_passive_task task = {.graph = e->g,
                            .cost = e->cost,
                            .guide = guide,
                            .placed = keep,
                            .align = align_of(e)};
    const uint64_t  fixed = zi_plan_fixed_bytes(keep), unit = keep->region_bytes;
    uint64_t        least;
    zi_node_id      node;
    zi_verdict      v;

    ZI_TRY(zi_passive_least(e->g, e->cost, keep, task.align, &least, &node));
    least = (least + unit - 1) / unit * unit;
    if (e->opt.budget_bytes < fixed + least)
        return too_small(e, fixed + least, node, diag);
    task.arena_bytes = (e->opt.budget_bytes - fixed) / unit * unit;
    zico_status st = zi_passive_plan(&task, &e->prog.plan);
    if (st == ZICO_E_NOPLAN) { /* a guide that wants more than keep at some node */
        task.guide = keep;
        st = zi_passive_plan(&task, &e->prog.plan);
    }
    if (st < 0) return st;
    st = zi_plan_check(e->prog.plan, e->g, e->cost, e->opt.budget_bytes, &v);
    if (st < 0 && diag) {
        *diag = (zi_graph_diag){.node = ZI_ID_NONE};
        snprintf(diag->text, sizeof diag->text, "the passive plan is wrong: %s", v.text);
    }
    const uint64_t slot = e->prog.plan->slots[e->prog.plan->n_slots - 1].size_bytes;
    e->prog.passive = true;
    e->prog.place = (zi_place_stats){.peak_slot_bytes = fixed + slot,
                                     .peak_live_bytes = v.peak_bytes,
                                     .mean_ratio = 1};
    return st;
}

/* The wish as it is, if it is sound and fits.  ZICO_PENDING: it is not, or does not. */
static zico_status
obey(zi_exec *e, zi_plan *wish, zi_graph_diag *diag)
{
    const bool net = e->opt.budget_bytes && e->opt.tier;
    zi_verdict v;

    zico_status st = zi_plan_check(wish, e->g, e->cost, 0, &v);
    if (st < 0 && net) return ZICO_PENDING;
    if (st < 0 && diag) {
        *diag = (zi_graph_diag){.node = ZI_ID_NONE};
        snprintf(diag->text, sizeof diag->text, "the plan is wrong: %s", v.text);
    }
    if (st < 0) return st;
    ZI_TRY(place(e, wish, &e->prog.place));
    return net && e->prog.place.peak_slot_bytes > e->opt.budget_bytes ? ZICO_PENDING
                                                                      : ZICO_OK;
}

zico_status
exec_prog_make(zi_exec *e, const zi_plan *plan, zi_graph_diag *diag)
{
    zi_plan *wish, *keep = NULL;

    ZI_TRY(plan ? copy_plan(plan, &wish) : zi_plan_keep(e->g, e->cost, &wish));
    zico_status st = obey(e, wish, diag);
    if (st == ZICO_OK) {
        e->prog.plan = wish;
        return exec_prog_open(e, diag);
    }
    if (st == ZICO_PENDING) st = zi_plan_keep(e->g, e->cost, &keep);
    if (st >= 0) st = place(e, keep, NULL);
    if (st >= 0) st = make_passive(e, wish, keep, diag);
    zi_plan_free(keep);
    zi_plan_free(wish);
    return st < 0 ? st : exec_prog_open(e, diag);
}

/* -- making ready ------------------------------------------------------------------------------ */

static bool
is_move(const zi_act *a)
{
    return a->kind == ZI_ACT_OUT || a->kind == ZI_ACT_IN;
}

/* Streams and fences for copies, as far as they are not there already. */
static zico_status
open_copies(zi_exec *e)
{
    const zi_device_ops *ops = e->dev->ops;
    const zi_plan       *p = e->prog.plan;

    for (uint32_t a = 0; a < p->n_acts; a++) {
        if (!is_move(&p->acts[a])) continue;
        if (!e->copy_fence)
            e->copy_fence = zi_calloc(e->g->n_tensors + 1u, sizeof *e->copy_fence);
        if (!e->copy_fence) return ZICO_E_NOMEM;
        zi_fence **f = &e->copy_fence[p->acts[a].what];
        if (!*f) ZI_TRY(ops->fence_new(e->dev, f));
    }
    if (!e->copy_fence) return ZICO_OK;
    if (!e->made) ZI_TRY(ops->fence_new(e->dev, &e->made));
    if (!e->out) ZI_TRY(ops->stream_open(e->dev, 1, &e->out));
    return e->in ? ZICO_OK : ops->stream_open(e->dev, 1, &e->in);
}

static zico_status
open_lanes(zi_exec *e)
{
    const uint32_t n = e->prog.plan->n_acts;

    for (uint32_t r = 0; r < e->n_runs; r++) {
        exec_lane *w = &e->prog.lane[r];
        w->base = zi_calloc(e->prog.plan->n_slots + e->n_feeds + 1u, sizeof *w->base);
        w->jobs = zi_calloc(e->prog.n_pieces + 1u, sizeof *w->jobs);
        w->begin_ns = zi_calloc(n + 1u, sizeof *w->begin_ns);
        w->end_ns = zi_calloc(n + 1u, sizeof *w->end_ns);
        w->copies = zi_calloc(e->prog.n_copies + 1u, sizeof *w->copies);
        if (!w->base || !w->jobs || !w->begin_ns || !w->end_ns || !w->copies)
            return ZICO_E_NOMEM;
        for (uint32_t a = 0; a < n; a++)
            if (is_move(&e->prog.plan->acts[a]))
                w->copies[e->prog.cmds[a].copy] =
                    (exec_copy){.run = &e->runs[r], .act = a};
        for (uint32_t i = 0; i < e->prog.n_pieces; i++)
            w->jobs[i] = (exec_job){.run = &e->runs[r], .piece = i};
    }
    return ZICO_OK;
}

zico_status
exec_prog_open(zi_exec *e, zi_graph_diag *diag)
{
    ZI_TRY(exec_compile(e, diag));
    ZI_TRY(open_copies(e));
    ZI_TRY(open_lanes(e));
    ZI_TRY(exec_memory_open(e));
    return exec_slots_memory(e);
}

void
exec_prog_close(zi_exec *e, exec_prog *p)
{
    exec_slots_release(e, p);
    for (uint32_t r = 0; r < ZI_EXEC_AHEAD_MAX; r++) {
        zi_free(p->lane[r].base);
        zi_free(p->lane[r].jobs);
        zi_free(p->lane[r].copies);
        zi_free(p->lane[r].begin_ns);
        zi_free(p->lane[r].end_ns);
    }
    zi_free(p->cmds);
    zi_free(p->refs);
    zi_free(p->pieces);
    zi_free(p->open_at);
    zi_free(p->close_at);
    zi_free(p->last_ref);
    zi_free(p->tier_at);
    zi_plan_free(p->plan);
    *p = (exec_prog){0};
}

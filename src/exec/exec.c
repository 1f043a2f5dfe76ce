/* exec.c -- making an executor, and queueing steps. */
#include "exec/exec_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

/* -- making ---------------------------------------------------------------------------------- */

/* With a tier every tensor takes whole pages, so that files can be read past the cache. */
static void
pad_for_tier(zi_cost *c)
{
    const uint64_t page = ZI_TIER_ALIGN;

    for (uint32_t t = 0; t < c->n_tensors; t++)
        c->tensor_bytes[t] = (c->tensor_bytes[t] + page - 1) / page * page;
    for (uint32_t n = 0; n < c->n_nodes; n++)
        c->scratch_bytes[n] = (c->scratch_bytes[n] + page - 1) / page * page;
}

static zico_status
know_cost(zi_exec *e)
{
    ZI_TRY(zi_bound_cost(e->bound, &e->cost));
    if (e->opt.tier) pad_for_tier(e->cost);
    return ZICO_OK;
}

static zico_status
find_device(zi_exec *e)
{
    e->session = e->opt.session;
    e->dev = e->opt.device;
    if (!e->dev && e->session) e->dev = zi_session_device(e->session);
    e->os = e->dev ? e->dev->os : zi_os_real();
    if (!e->dev) {
        ZI_TRY(zi_device_host.open(e->os, 0, &e->dev));
        e->own_dev = true;
    }
    e->n_threads = e->opt.n_threads ? e->opt.n_threads : e->dev->ops->n_cores(e->dev);
    if (e->n_threads > ZI_EXEC_THREADS_MAX) e->n_threads = ZI_EXEC_THREADS_MAX;
    atomic_store(&e->threads_now, e->n_threads);
    return ZICO_OK;
}

static zico_status
open_feeds(zi_exec *e)
{
    const zi_graph *g = e->g;

    e->feeds = zi_calloc(g->n_tensors + 1u, sizeof *e->feeds);
    e->feed_of = zi_malloc((g->n_tensors + 1u) * sizeof *e->feed_of);
    if (!e->feeds || !e->feed_of) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_role r = g->tensors[t].role;
        e->feed_of[t] = EXEC_NOWHERE;
        if (r != ZI_ROLE_INPUT && r != ZI_ROLE_LABEL) continue;
        e->feed_of[t] = e->n_feeds;
        e->feeds[e->n_feeds++] =
            (exec_feed_slot){.tensor = t, .bytes = g->tensors[t].bytes};
    }
    return ZICO_OK;
}

static zico_status
open_runs(zi_exec *e)
{
    for (uint32_t r = 0; r < e->n_runs; r++) {
        exec_run *w = &e->runs[r];
        w->e = e;
        w->index = r;
        w->lane = &e->prog.lane[r];
        ZI_TRY(e->dev->ops->fence_new(e->dev, &w->done));
    }
    e->ptrs = zi_calloc(2u * e->bound->max_refs + 1u, sizeof *e->ptrs);
    e->node_ns = zi_calloc(e->g->n_nodes + 1u, sizeof *e->node_ns);
    e->node_runs = zi_calloc(e->g->n_nodes + 1u, sizeof *e->node_runs);
    return e->ptrs && e->node_ns && e->node_runs ? ZICO_OK : ZICO_E_NOMEM;
}

static zico_status
open_kept(zi_exec *e)
{
    if (!e->session) return ZICO_OK;
    e->kept = zi_calloc(e->g->n_tensors + 1u, sizeof *e->kept);
    if (!e->kept) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++) {
        const zi_role r = e->g->tensors[t].role;
        if (!zi_graph_lives_on(e->g, t) || r == ZI_ROLE_PARAM || r == ZI_ROLE_STATE ||
            r == ZI_ROLE_INPUT || r == ZI_ROLE_LABEL)
            continue;
        e->kept[t] = zi_calloc(1, e->bound->view[t].layout.bytes);
        if (!e->kept[t]) return ZICO_E_NOMEM;
        e->kept_bytes += e->bound->view[t].layout.bytes;
    }
    return ZICO_OK;
}

static zico_status
open_all(zi_exec *e, zi_graph_diag *diag)
{
    ZI_TRY(find_device(e));
    exec_places_open(e);
    ZI_TRY(e->dev->ops->stream_open(e->dev, e->n_threads, &e->compute));
    ZI_TRY(zi_bind(e->g, e->n_threads, e->opt.plain, diag, &e->bound));
    ZI_TRY(know_cost(e));
    ZI_TRY(open_feeds(e));
    ZI_TRY(open_runs(e));
    ZI_TRY(exec_prog_make(e, e->opt.plan, diag));
    ZI_TRY(open_kept(e));
    return e->opt.no_init ? ZICO_OK : zi_exec_init(e, e->opt.seed);
}

zico_status
zi_exec_new(const zi_exec_options *opt, zi_graph_diag *diag, zi_exec **ret_exec)
{
    zi_exec *e;

    if (!opt->graph || opt->run_ahead > ZI_EXEC_AHEAD_MAX) return ZICO_E_ARG;
    e = zi_calloc(1, sizeof *e);
    if (!e) return ZICO_E_NOMEM;
    e->opt = *opt;
    e->g = opt->graph;
    e->n_runs = opt->run_ahead ? opt->run_ahead : 2;
    if (opt->session) e->n_runs = 2; /* one computes, the next one has its feeds */
    pthread_mutex_init(&e->mu, NULL);
    pthread_cond_init(&e->more, NULL);
    zico_status st = open_all(e, diag);
    if (st < 0) {
        zi_exec_free(e);
        return st;
    }
    *ret_exec = e;
    return ZICO_OK;
}

zico_status
zi_exec_cost(const zi_exec_options *opt, zi_graph_diag *diag, zi_cost **ret_cost)
{
    zi_exec   e = {.opt = *opt};
    zi_bound *b = NULL;

    ZI_TRY(find_device(&e));
    zico_status st = zi_bind(opt->graph, e.n_threads, opt->plain, diag, &b);
    if (st >= 0) st = zi_bound_cost(b, ret_cost);
    if (st >= 0 && opt->tier) pad_for_tier(*ret_cost);
    zi_bound_free(b);
    if (e.own_dev) e.dev->ops->close(e.dev);
    return st;
}

/* All that was queued is over; of a step that broke off the stream did not tell (exec_tell_end). */
static void
end_step(zi_exec *e)
{
    if (zi_exec_is_in_step(e)) exec_tell_end(e, 0);
}

void
zi_exec_free(zi_exec *e)
{
    if (!e) return;
    if (e->compute && zi_exec_drain(e) < 0) exec_fail(e, ZICO_E_DEVICE);
    const zi_device_ops *ops = e->dev ? e->dev->ops : NULL;
    if (e->compute) ops->stream_close(e->compute);
    if (e->out) ops->stream_close(e->out);
    if (e->in) ops->stream_close(e->in);
    exec_prog_close(e, &e->prog);
    exec_memory_close(e);
    for (uint32_t r = 0; r < ZI_EXEC_AHEAD_MAX; r++)
        if (e->runs[r].done) ops->fence_free(e->runs[r].done);
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++) {
        if (e->copy_fence && e->copy_fence[t]) ops->fence_free(e->copy_fence[t]);
        if (e->kept) zi_free(e->kept[t]);
    }
    if (e->made) ops->fence_free(e->made);
    zi_free(e->copy_fence);
    zi_free(e->kept);
    zi_free(e->ptrs);
    zi_free(e->feeds);
    zi_free(e->feed_of);
    zi_free(e->node_ns);
    zi_free(e->node_runs);
    zi_bound_free(e->bound);
    zi_cost_free(e->cost);
    if (e->own_dev) ops->close(e->dev);
    pthread_cond_destroy(&e->more);
    pthread_mutex_destroy(&e->mu);
    zi_free(e);
}

/* -- steps ------------------------------------------------------------------------------------- */

static char *
feed_at(const zi_exec *e, const exec_run *r, uint32_t f)
{
    return r->lane->base[e->prog.plan->n_slots + f];
}

static zico_status
take_feeds(zi_exec *e, exec_run *r, const zi_exec_feed *feeds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (feeds[i].tensor >= e->g->n_tensors) return ZICO_E_ARG;
        const uint32_t f = e->feed_of[feeds[i].tensor];
        if (f == EXEC_NOWHERE) return ZICO_E_ARG;
        if (feeds[i].data)
            memcpy(feed_at(e, r, f), feeds[i].data, e->feeds[f].bytes);
        else if (e->last_run && e->last_run != r)
            memcpy(feed_at(e, r, f), feed_at(e, e->last_run, f), e->feeds[f].bytes);
    }
    return ZICO_OK;
}

static zico_status
check_feeds(const zi_exec *e, const zi_exec_feed *feeds, size_t n)
{
    size_t want = e->n_feeds;

    want -= e->g->lr != ZI_ID_NONE;
    want -= e->g->step != ZI_ID_NONE;
    if (n != want) return ZICO_E_ARG;
    for (size_t i = 0; i < n; i++) {
        if (feeds[i].tensor == e->g->lr || feeds[i].tensor == e->g->step)
            return ZICO_E_ARG;
        for (size_t j = 0; j < i; j++)
            if (feeds[j].tensor == feeds[i].tensor) return ZICO_E_ARG;
    }
    return ZICO_OK;
}

static void
set_scalar(zi_exec *e, exec_run *r, zi_tensor_id t, float v)
{
    if (t != ZI_ID_NONE) memcpy(feed_at(e, r, e->feed_of[t]), &v, sizeof v);
}

/* A copy starts when computation has come to its act; computation goes on. */
static zico_status
issue_copy(zi_exec *e, exec_run *r, const exec_cmd *cmd)
{
    const zi_device_ops *ops = e->dev->ops;
    zi_stream           *s = cmd->kind == ZI_ACT_OUT ? e->out : e->in;

    if (cmd->kind == ZI_ACT_WAIT)
        return e->copy_fence && e->copy_fence[cmd->what]
                   ? ops->stream_wait(e->compute, e->copy_fence[cmd->what])
                   : ZICO_OK;
    ZI_TRY(ops->fence_record(e->made, e->compute));
    ZI_TRY(ops->stream_wait(s, e->made));
    if (cmd->kind == ZI_ACT_IN) /* the copy out of the same tensor comes first */
        ZI_TRY(ops->stream_wait(s, e->copy_fence[cmd->what]));
    ZI_TRY(ops->stream_run(s, exec_run_copy, &r->lane->copies[cmd->copy]));
    return ops->fence_record(e->copy_fence[cmd->what], s);
}

/* Refused for good: memory is shorter than the plan was made for. */
static bool
is_short(zico_status st)
{
    return st == ZICO_E_NOMEM || st == ZICO_E_BUDGET || st == ZICO_E_BUSY ||
           st == ZICO_E_TIMEOUT;
}

/* Until few enough pieces are under way. */
static zico_status
wait_for_lead(zi_exec *e, const exec_piece *p)
{
    uint64_t back = EXEC_LEAD - p->lead;
    return e->dev->ops->fence_wait(e->lead[(e->lead_next + back) % EXEC_LEAD]);
}

zico_status
exec_issue(zi_exec *e, exec_run *r)
{
    const zi_device_ops *ops = e->dev->ops;

    for (uint32_t i = 0; i < e->prog.n_pieces; i++) {
        const exec_piece *p = &e->prog.pieces[i];
        if (e->session) ZI_TRY(wait_for_lead(e, p));
        zico_status st = exec_slots_open(e, r, p);
        if (is_short(st) && e->opt.tier && !r->held_bytes) return exec_rescue(e, r, p);
        if (st < 0) return st;
        const zi_act_kind k = e->prog.cmds[p->begin].kind;
        if (k == ZI_ACT_OUT || k == ZI_ACT_IN || k == ZI_ACT_WAIT)
            ZI_TRY(issue_copy(e, r, &e->prog.cmds[p->begin]));
        ZI_TRY(ops->stream_run(e->compute, exec_run_piece, &r->lane->jobs[i]));
        if (e->session)
            ZI_TRY(ops->fence_record(e->lead[e->lead_next++ % EXEC_LEAD], e->compute));
        exec_slots_close(e, p);
    }
    if (e->session) ZI_TRY(ops->stream_run(e->compute, exec_tell_end, e));
    return ops->fence_record(r->done, e->compute);
}

bool
zi_exec_has_failed(const zi_exec *e)
{
    return atomic_load(&e->failed) != 0;
}

zico_status
zi_exec_step(zi_exec *e, const zi_exec_feed *feeds, size_t n_feeds, float lr,
             uint64_t step)
{
    exec_run *r = &e->runs[e->next_run % e->n_runs];

    if (e->away) return ZICO_E_STATE;
    if (atomic_load(&e->failed)) return ZICO_E_CANCELLED;
    ZI_TRY(check_feeds(e, feeds, n_feeds));
    if (r->used) ZI_TRY(e->dev->ops->fence_wait(r->done));
    ZI_TRY(take_feeds(e, r, feeds, n_feeds));
    set_scalar(e, r, e->g->lr, lr);
    set_scalar(e, r, e->g->step, (float)step);
    if (e->session) {
        if (e->last_run) ZI_TRY(e->dev->ops->fence_wait(e->last_run->done));
        end_step(e);
        ZI_TRY(zi_session_step_begin(e->session, e->opt.lease_wait_ns
                                                     ? e->opt.lease_wait_ns
                                                     : UINT64_MAX));
        atomic_store(&e->in_step, true);
    }
    r->used = true;
    e->fresh = false;
    r->step = step;
    r->bad = ZI_ID_NONE;
    r->stall_ns = r->passed_ns = r->held_bytes = 0;
    r->first_ns = r->last_ns = r->busy_ns = 0;
    pthread_mutex_lock(&e->mu);
    e->n_queued++;
    pthread_mutex_unlock(&e->mu);
    e->last_run = r;
    e->renewed = false;
    e->next_run++;
    zico_status st = exec_issue(e, r);
    if (st < 0) {
        exec_fail(e, st); /* what is queued does nothing any more */
        (void)e->dev->ops->stream_drain(e->compute);
        exec_give_up(r, st);
    }
    return st;
}

zico_status
zi_exec_replan(zi_exec *e, const zi_plan *plan, uint64_t budget_bytes,
               zi_graph_diag *diag)
{
    const uint64_t  was = e->opt.budget_bytes;
    const exec_prog old = e->prog;

    if (e->away) return ZICO_E_STATE;
    ZI_TRY(zi_exec_drain(e));
    e->prog = (exec_prog){0};
    e->opt.budget_bytes = budget_bytes;
    zico_status st = exec_prog_make(e, plan, diag);
    exec_prog   gone = st < 0 ? e->prog : old;
    if (st < 0) {
        e->prog = old;
        e->opt.budget_bytes = was;
    } else {
        e->renewed = true;
    }
    exec_prog_close(e, &gone);
    return st;
}

bool
zi_exec_is_passive(const zi_exec *e)
{
    return e->prog.passive;
}

zico_status
zi_exec_result(zi_exec *e, bool wait, zi_exec_step_result *ret_result)
{
    zico_status st = ZICO_E_NOTFOUND;

    pthread_mutex_lock(&e->mu);
    while (wait && e->n_taken == e->n_finished && e->n_finished < e->n_queued)
        pthread_cond_wait(&e->more, &e->mu);
    if (e->n_taken < e->n_finished) {
        *ret_result = e->results[e->n_taken++ % EXEC_RESULTS];
        st = ZICO_OK;
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

bool
zi_exec_is_in_step(const zi_exec *e)
{
    return atomic_load(&e->in_step);
}

zico_status
zi_exec_drain(zi_exec *e)
{
    ZI_TRY(e->dev->ops->stream_drain(e->compute));
    if (e->out) ZI_TRY(e->dev->ops->stream_drain(e->out));
    if (e->in) ZI_TRY(e->dev->ops->stream_drain(e->in));
    end_step(e);
    return ZICO_OK;
}

uint64_t
zi_exec_n_done(const zi_exec *e)
{
    zi_exec *w = (zi_exec *)(uintptr_t)e;

    pthread_mutex_lock(&w->mu);
    uint64_t n = e->n_finished;
    pthread_mutex_unlock(&w->mu);
    return n;
}

void
zi_exec_set_threads(zi_exec *e, unsigned n_threads)
{
    atomic_store(&e->threads_now, n_threads == 1 ? 1 : e->n_threads);
}

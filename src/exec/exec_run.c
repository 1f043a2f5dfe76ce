/* exec_run.c -- what happens on the streams: kernels, moves between layouts, copies. */
#include "exec/exec_private.h"

#include <math.h>
#include <string.h>

void
exec_fail(zi_exec *e, zico_status st)
{
    int none = 0;
    atomic_compare_exchange_strong(&e->failed, &none, (int)st);
}

static void
move_one(const zi_bound *b, const zi_move *m, bool to_kernel, const void *src, void *dst,
         unsigned n_threads)
{
    zi_dnn_move *d = to_kernel ? m->there : m->back;

    if (d)
        zi_dnn_move_run(d, src, dst);
    else if (to_kernel)
        b->own->reorder(&m->tensor, src, &m->kernel, dst, n_threads);
    else
        b->own->reorder(&m->kernel, src, &m->tensor, dst, n_threads);
}

/* Operands that lie otherwise than the kernel wants go through scratch. */
static void
run_node(exec_run *r, const exec_cmd *cmd, unsigned n_threads)
{
    zi_exec        *e = r->e;
    const zi_bnode *n = &e->bound->node[cmd->what];
    const exec_ref *ref = e->prog.refs + cmd->first_ref;
    void          **p = e->ptrs;
    char           *scratch = exec_at(r, cmd->scratch);
    zi_kcall        call = {.op = &n->k,
                            .in = p,
                            .out = p + n->k.n_in,
                            .up = p + n->k.n_in + n->k.n_out,
                            .scratch = scratch,
                            .n_threads = n_threads,
                            .step = r->step};

    for (uint32_t i = 0; i < cmd->n_refs; i++) p[i] = exec_at(r, ref[i]);
    if (n->n_moves == 0) {
        n->k.fn(&call);
        return;
    }
    void **real = e->ptrs + e->bound->max_refs; /* at most one move per operand */
    for (uint32_t i = 0; i < n->n_moves; i++) {
        const zi_move *m = &n->moves[i];
        void         **at = m->where == 'i'   ? &call.in[m->pos]
                            : m->where == 'o' ? &call.out[m->pos]
                                              : &call.up[m->pos];
        real[i] = *at;
        *at = scratch + m->offset;
        if (m->where != 'o') move_one(e->bound, m, true, real[i], *at, n_threads);
    }
    n->k.fn(&call);
    for (uint32_t i = 0; i < n->n_moves; i++) {
        const zi_move *m = &n->moves[i];
        if (m->where != 'i')
            move_one(e->bound, m, false, scratch + m->offset, real[i], n_threads);
    }
}

/* The first output that has a value that is not finite. */
static void
look_for_bad(exec_run *r, const exec_cmd *cmd, unsigned n_threads)
{
    zi_exec       *e = r->e;
    const zi_node *n = &e->g->nodes[cmd->what];

    for (uint32_t i = 0; i < n->n_out && r->bad == ZI_ID_NONE; i++) {
        if (n->out[i] == ZI_ID_NONE) continue;
        const zi_kview *v = &e->bound->view[n->out[i]];
        if (v->dtype != ZI_DTYPE_F32) continue;
        const void *at = exec_at(r, e->prog.refs[cmd->first_ref + n->n_in + i]);
        if (e->bound->own->find_bad(at, v->layout.n_pad, n_threads) >= 0)
            r->bad = n->out[i];
    }
}

static double
read_loss(const exec_run *r)
{
    const zi_exec *e = r->e;

    if (e->g->loss == ZI_ID_NONE) return (double)NAN;
    float loss;
    memcpy(&loss, exec_at(r, e->prog.last_ref[e->g->loss]), sizeof loss);
    return (double)loss;
}

/* In a session the memory of outputs belongs to others between steps. */
static void
keep_outputs(exec_run *r)
{
    zi_exec *e = r->e;

    for (zi_tensor_id t = 0; e->kept && t < e->g->n_tensors; t++)
        if (e->kept[t])
            memcpy(e->kept[t], exec_at(r, e->prog.last_ref[t]),
                   e->bound->view[t].layout.bytes);
}

static void
post_result(zi_exec *e, const zi_exec_step_result *res)
{
    pthread_mutex_lock(&e->mu);
    e->results[e->n_finished % EXEC_RESULTS] = *res;
    e->n_finished++;
    if (e->n_finished - e->n_taken > EXEC_RESULTS)
        e->n_taken = e->n_finished - EXEC_RESULTS;
    pthread_cond_broadcast(&e->more);
    pthread_mutex_unlock(&e->mu);
}

/* A step whose last piece was never queued ends here. */
void
exec_give_up(exec_run *r, zico_status st)
{
    const zi_exec_step_result res = {.step = r->step,
                                     .status = st,
                                     .loss = (double)NAN,
                                     .bad = ZI_ID_NONE};

    exec_fail(r->e, st);
    post_result(r->e, &res);
}

/* The times of a piece's nodes, while they are still in the cache. */
static void
fold_times(exec_run *r, const exec_piece *p)
{
    zi_exec *e = r->e;

    for (uint32_t a = p->begin; a < p->end; a++) {
        const exec_cmd *cmd = &e->prog.cmds[a];
        if (cmd->kind != ZI_ACT_RUN && cmd->kind != ZI_ACT_REDO) continue;
        const uint64_t begin = r->lane->begin_ns[a], end = r->lane->end_ns[a];
        if (!r->first_ns || begin < r->first_ns) r->first_ns = begin;
        if (end > r->last_ns) r->last_ns = end;
        r->busy_ns += end - begin;
        e->node_ns[cmd->what] += (double)(end - begin);
        e->node_runs[cmd->what]++;
    }
}

static uint64_t
peak_of(const exec_run *r)
{
    const uint64_t peak = r->e->prog.place.peak_slot_bytes;
    return r->held_bytes > peak ? r->held_bytes : peak;
}

static void
finish_step(exec_run *r)
{
    zi_exec *e = r->e;

    zi_exec_step_result res = {.step = r->step,
                               .status = (zico_status)atomic_load(&e->failed),
                               .loss = read_loss(r),
                               .begin_ns = r->first_ns,
                               .ns = r->last_ns - r->first_ns,
                               .busy_ns = r->busy_ns,
                               .stall_ns = r->stall_ns,
                               .peak_bytes = peak_of(r),
                               .passive = e->prog.passive || r->held_bytes,
                               .bad = r->bad};
    if (res.status == ZICO_OK &&
        ((e->g->loss != ZI_ID_NONE && !isfinite(res.loss)) || r->bad != ZI_ID_NONE))
        res.status = ZICO_E_NAN;
    keep_outputs(r);
    post_result(e, &res);
}

/* The stream itself tells that a step is over: the thread that issues has a batch to copy and the next
 * step to ask for, and whoever has its turn now would wait until it has woken, too. */
void
exec_tell_end(void *arg, unsigned n_cores)
{
    zi_exec     *e = arg;
    zi_step_info info = {0};

    (void)n_cores;
    pthread_mutex_lock(&e->mu);
    if (e->n_finished) {
        const zi_exec_step_result *r = &e->results[(e->n_finished - 1) % EXEC_RESULTS];
        info = (zi_step_info){.length_ns = r->ns, .busy_ns = r->busy_ns, .loss = r->loss};
    }
    pthread_mutex_unlock(&e->mu);
    (void)zi_session_step_end(e->session, &info);
    atomic_store(&e->in_step, false);
}

/* Threads for the next kernel: 1 or all, as told by the caller, the stream and the broker. */
static unsigned
threads_now(zi_exec *e, unsigned n_cores)
{
    unsigned nt = atomic_load_explicit(&e->threads_now, memory_order_relaxed);
    if (n_cores == 1 || (e->session && zi_session_cores(e->session) == 1)) nt = 1;
    if (nt != e->omp_threads) {
        zi_dnn_set_threads(nt);
        e->omp_threads = nt;
    }
    exec_places_keep(e, nt);
    return nt;
}

/* On the stream of copies out, or of copies in. */
void
exec_run_copy(void *arg, unsigned n_cores)
{
    const exec_copy *c = arg;
    exec_run        *r = c->run;
    zi_exec         *e = r->e;
    const exec_cmd  *cmd = &e->prog.cmds[c->act];
    char            *at = exec_at(r, e->prog.refs[cmd->first_ref]);

    (void)n_cores;
    r->lane->begin_ns[c->act] = e->os->now_ns(e->os);
    zico_status st = cmd->kind == ZI_ACT_OUT
                         ? zi_tier_write(e->opt.tier, cmd->tier_at, at, cmd->bytes)
                         : zi_tier_read(e->opt.tier, cmd->tier_at, at, cmd->bytes);
    if (st < 0) exec_fail(e, st);
    r->lane->end_ns[c->act] = e->os->now_ns(e->os);
}

/* The tide as it is felt by the device: slots from their first kernel to their last. */
static void
note_tide(zi_exec *e, const uint32_t *slots, uint32_t n, int sign, uint64_t now_ns)
{
    for (uint32_t i = 0; e->session && i < n; i++)
        zi_session_tide_add(e->session, now_ns,
                            sign * (int64_t)e->prog.plan->slots[slots[i]].size_bytes);
}

void
exec_run_piece(void *arg, unsigned n_cores)
{
    const exec_job   *job = arg;
    exec_run         *r = job->run;
    zi_exec          *e = r->e;
    const exec_piece *p = &e->prog.pieces[job->piece];
    uint64_t          now = e->os->now_ns(e->os);

    note_tide(e, e->prog.open_at + p->first_open, p->n_open, 1, now);
    const uint64_t was = r->passed_ns;
    if (e->prog.cmds[p->begin].kind == ZI_ACT_WAIT && was) r->stall_ns += now - was;
    for (uint32_t a = p->begin; a < p->end; a++) {
        const exec_cmd *cmd = &e->prog.cmds[a];
        if (cmd->kind == ZI_ACT_OUT || cmd->kind == ZI_ACT_IN)
            continue; /* exec_run_copy */
        r->lane->begin_ns[a] = cmd->kind == ZI_ACT_WAIT && was ? was : now;
        if (cmd->kind == ZI_ACT_RUN || cmd->kind == ZI_ACT_REDO) {
            const unsigned nt = threads_now(e, n_cores);
            if (atomic_load_explicit(&e->failed, memory_order_relaxed) == 0)
                run_node(r, cmd, nt);
            if (zi_dnn_failed(e->bound->dnn)) exec_fail(e, ZICO_E_DEVICE);
            if (e->opt.watch && r->bad == ZI_ID_NONE) look_for_bad(r, cmd, nt);
            now = e->os->now_ns(e->os);
        }
        r->lane->end_ns[a] = now;
    }
    r->passed_ns = now;
    note_tide(e, e->prog.close_at + p->first_close, p->n_close, -1, now);
    fold_times(r, p);
    if (p->end == e->prog.plan->n_acts) finish_step(r);
}

/* engine.c -- graph, plan, memory and executor in one hand. */
#include "train/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/size.h"
#include "base/vec.h"
#include "exec/tier.h"
#include "report/report.h"
#include "train/pilot.h"

#define OPTIMIZER_PREFIX "optimizer."

struct zi_engine {
    const zi_os      *os;
    zi_graph         *graph;
    zi_io             io;
    zi_session       *session; /* NULL: private memory */
    zi_pilot         *pilot;
    zi_exec          *exec;
    zi_tier          *away;       /* NULL: never suspended yet */
    char             *away_spec;  /* where a suspended job goes */
    bool              joined;     /* the session is a broker's */
    uint64_t          peak_bytes; /* private memory: highest so far */
    const atomic_int *stop;
};

/* ---- making ------------------------------------------------------------------------------ */

static zico_status
graph_failed(const zi_graph *g, const zi_graph_diag *why, zico_status st,
             zi_train_diag *diag)
{
    return zi_train_fail(diag, st, "%s: %s", g->name ? g->name : "network",
                         why->text[0] ? why->text : zico_status_text(st));
}

static zico_status
list_gradients(zi_graph *g)
{
    uint32_t n = g->n_tensors;

    for (zi_tensor_id t = 0; t < n; t++) {
        if (g->tensors[t].role != ZI_ROLE_PARAM) continue;
        zi_tensor_id grad = zi_graph_grad(g, t);
        if (grad == ZI_ID_NONE) continue;
        zico_status st = zi_graph_add_output(g, grad);
        if (st < 0) return st;
    }
    return ZICO_OK;
}

static zico_status
complete_graph(zi_graph *g, const zi_engine_options *opt, zi_train_diag *diag)
{
    zi_graph_diag why = {.text = ""};
    bool          backward = opt->optim || opt->grads;

    if (backward && g->loss == ZI_ID_NONE)
        return zi_train_fail(diag, ZICO_E_ARG, "%s has no loss to train on", g->name);
    zico_status st = g->differentiated ? ZICO_OK : zi_graph_fuse(g, &why);
    if (st >= 0 && backward && !g->differentiated)
        st = zi_graph_differentiate(g, g->loss, &why);
    if (st >= 0 && opt->grads) st = list_gradients(g);
    if (st >= 0 && opt->optim && !g->has_update)
        st = zi_graph_add_update(g, opt->optim, &why);
    return st < 0 ? graph_failed(g, &why, st, diag) : ZICO_OK;
}

/* What lies beside the pool while one step computes and the next one has its data already: a batch. */
static uint64_t
staged_bytes(const zi_graph *g)
{
    uint64_t sum = 0;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].role == ZI_ROLE_INPUT || g->tensors[t].role == ZI_ROLE_LABEL)
            sum += g->tensors[t].bytes;
    return sum;
}

/* Memory of this process that is not in the pool counts in the device's budget, too. */
static zico_status
charge(zi_engine *e, uint64_t bytes, zi_train_diag *diag)
{
    char text[ZI_SIZE_TEXT];

    if (bytes == 0) return ZICO_OK;
    zico_status st = zi_session_charge(e->session, bytes, ZICO_FOREVER);
    if (st < 0)
        return zi_train_fail(diag, st, "%s of prepared batches: %s",
                             zi_size_format(bytes, text), zico_status_text(st));
    return ZICO_OK;
}

/* ---- out and in ---------------------------------------------------------------------------- */

/* A directory on a disk, whatever tensors of a plan may use: memory would free nothing. */
static char *
suspend_spec(const char *tier)
{
    const char *tmp = getenv("TMPDIR");
    char        spec[4200];

    if (tier && strncmp(tier, "file:", 5) == 0) return zi_strdup(tier);
    snprintf(spec, sizeof spec, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    return zi_strdup(spec);
}

static zico_status
on_suspend(void *user, uint64_t *ret_out_bytes)
{
    zi_engine  *e = user;
    char        text[200];
    bool        cold = zi_session_suspend_is_cold(e->session);
    zico_status st = e->away ? ZICO_OK : zi_tier_open(e->os, e->away_spec, &e->away);

    if (st >= 0) st = zi_exec_suspend(e->exec, e->away, cold, ret_out_bytes);
    if (st >= 0) return ZICO_OK;
    zi_tier_close(e->away);
    e->away = NULL;
    snprintf(text, sizeof text, "cannot be suspended: no room in %.100s (%s); it stays",
             e->away_spec + 5, zico_status_text(st));
    zi_session_note(e->session, text);
    return st;
}

/* Refused because nobody could give memory back at that time: later somebody may. */
#define SHRINK_NODES    4000u
#define RESUME_TRIES    120
#define RESUME_PAUSE_NS 500000000ull

static zico_status
on_resume(void *user)
{
    zi_engine  *e = user;
    zico_status st = zi_exec_resume(e->exec);

    for (int i = 1; i < RESUME_TRIES && (st == ZICO_E_NOMEM || st == ZICO_E_BUSY); i++) {
        if (e->stop && atomic_load(e->stop)) return ZICO_E_CANCELLED;
        e->os->sleep_until(e->os, e->os->now_ns(e->os) + RESUME_PAUSE_NS);
        st = zi_exec_resume(e->exec);
    }
    return st; /* the file stays: blocks that were written before are faster the next time */
}

/* ---- the session ---------------------------------------------------------------------------- */

/* May others wish that it plans for less?  Not if people chose how it plans; and where there are very
 * many nodes planning takes seconds. */
static bool
may_shrink(const zi_engine *e, const zi_engine_options *opt)
{
    return opt->optim && !opt->planner && !opt->budget_bytes && !opt->watch &&
           e->graph->n_nodes <= SHRINK_NODES;
}

static zico_status
open_session(zi_engine *e, const zi_engine_options *opt, zi_train_diag *diag)
{
    const char        *socket = opt->socket ? opt->socket : getenv("ZICO_SOCKET");
    zi_session_options so = {.os = opt->os,
                             .socket_path = socket,
                             .job_name = opt->job_name,
                             .shape_key = opt->shape_key,
                             .max_bytes = opt->budget_bytes,
                             .steps_total = opt->steps_total,
                             .latency_ns = opt->latency_ns,
                             .cores = opt->n_threads,
                             .stop = opt->stop,
                             .on_suspend = on_suspend,
                             .on_resume = on_resume,
                             .user = e};

    if (socket && !*socket) socket = so.socket_path = NULL;
    if (!socket) return ZICO_OK; /* the plan alone keeps it within a budget */
    e->away_spec = suspend_spec(opt->tier);
    if (!e->away_spec) return ZICO_E_NOMEM;
    if (opt->n_threads) so.core_mode = ZI_CORES_FIXED;
    so.features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE |
                  (may_shrink(e, opt) ? ZI_FEATURE_SHRINK : 0);
    zi_session_hints(&so);
    zico_status st = zi_session_open(&so, &e->session);
    if (st < 0)
        return zi_train_fail(diag, st, "broker at %s: %s", socket, zico_status_text(st));
    e->joined = true;
    return charge(e, opt->charge_bytes + staged_bytes(e->graph), diag);
}

/* "40%" of what keep would take. */
static zico_status
resolve_share(zi_engine *e, zi_engine_options *opt, zi_train_diag *diag)
{
    uint64_t bytes;

    if (!(opt->budget_share > 0)) return ZICO_OK;
    zico_status st = zi_pilot_keep_bytes(e->graph, opt->n_threads, diag, &bytes);
    if (st >= 0) opt->budget_bytes = (uint64_t)((double)bytes * opt->budget_share);
    return st;
}

static zico_status
open_exec(zi_engine *e, const zi_engine_options *opt, zi_train_diag *diag)
{
    zi_graph_diag          why = {.text = ""};
    const zi_pilot_options po = {.os = e->os,
                                 .graph = e->graph,
                                 .batch = e->io.batch,
                                 .session = e->session,
                                 .joined = e->joined,
                                 .planner = opt->planner,
                                 .budget_bytes = opt->budget_bytes,
                                 .tier = opt->tier,
                                 .n_threads = opt->n_threads};
    zi_exec_options        xo = {.graph = e->graph,
                                 .session = e->session,
                                 .n_threads = opt->n_threads,
                                 .run_ahead = opt->budget_bytes ? 1 : opt->run_ahead,
                                 .seed = opt->seed,
                                 .no_init = opt->no_init,
                                 .watch = opt->watch};

    zico_status st = zi_pilot_new(&po, &xo, diag, &e->pilot);
    if (st < 0) return st;
    st = zi_exec_new(&xo, &why, &e->exec);
    return st < 0 ? graph_failed(e->graph, &why, st, diag) : ZICO_OK;
}

zico_status
zi_engine_new(zi_graph *forward, const zi_engine_options *wish, zi_train_diag *diag,
              zi_engine **ret_engine)
{
    zi_engine         *e = zi_calloc(1, sizeof *e);
    zi_engine_options  own = *wish;
    zi_engine_options *opt = &own;

    if (!e) {
        zi_graph_free(forward);
        return ZICO_E_NOMEM;
    }
    e->os = opt->os ? opt->os : zi_os_real();
    e->stop = opt->stop;
    e->graph = forward;
    zico_status st = complete_graph(e->graph, opt, diag);
    if (st >= 0) st = zi_io_find(e->graph, diag, &e->io);
    if (st >= 0) st = resolve_share(e, opt, diag);
    if (st >= 0) st = open_session(e, opt, diag);
    if (st >= 0) st = open_exec(e, opt, diag);
    if (st < 0) {
        zi_engine_free(e);
        return st;
    }
    *ret_engine = e;
    return ZICO_OK;
}

void
zi_engine_free(zi_engine *e)
{
    if (!e) return;
    zi_exec_free(e->exec);
    zi_pilot_free(e->pilot);
    zi_tier_close(e->away);
    zi_free(e->away_spec);
    zi_session_close(e->session);
    zi_graph_free(e->graph);
    zi_free(e);
}

int64_t
zi_engine_batch(const zi_engine *e)
{
    return e->io.batch;
}

const zi_data_want *
zi_engine_want(const zi_engine *e)
{
    return &e->io.want;
}

const zi_graph *
zi_engine_graph(const zi_engine *e)
{
    return e->graph;
}

zi_exec *
zi_engine_exec(zi_engine *e)
{
    return e->exec;
}

const zi_pilot *
zi_engine_pilot(const zi_engine *e)
{
    return e->pilot;
}

/* ---- steps --------------------------------------------------------------------------------- */

zico_status
zi_engine_step(zi_engine *e, const void *x, const void *y, double lr, uint64_t step)
{
    zi_exec_feed feed[2] = {{e->io.x, x}, {e->io.y, y}};
    const size_t n = e->io.y == ZI_ID_NONE ? 1 : 2;
    zico_status  st;

    zi_pilot_before_step(e->pilot, e->exec);
    while ((st = zi_exec_step(e->exec, feed, n, (float)lr, step)) == ZICO_E_NOPLAN)
        (void)zi_pilot_follow_limit(e->pilot, e->exec);
    return st;
}

zico_status
zi_engine_result(zi_engine *e, bool wait, zi_exec_step_result *ret_result)
{
    zico_status st = zi_exec_result(e->exec, wait, ret_result);
    if (st >= 0) zi_pilot_see(e->pilot, ret_result);
    return st;
}

zico_status
zi_engine_output(zi_engine *e, void *ret_data, size_t n_bytes)
{
    if (e->graph->n_outputs == 0) return ZICO_E_NOTFOUND;
    return zi_exec_get(e->exec, e->graph->outputs[0], ret_data, n_bytes);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static bool
is_kept(const zi_tensor *t)
{
    return t->role == ZI_ROLE_PARAM || t->role == ZI_ROLE_STATE;
}

static bool
is_optimizer(const zi_tensor *t)
{
    return t->role == ZI_ROLE_STATE && t->state_of != ZI_ID_NONE;
}

/* As the checkpoint calls it; the caller frees it. */
static char *
name_of(const zi_tensor *t)
{
    if (!is_optimizer(t)) return zi_strdup(t->name);
    size_t n = sizeof OPTIMIZER_PREFIX + strlen(t->name);
    char  *name = zi_malloc(n);
    if (!name) return NULL;
    memcpy(name, OPTIMIZER_PREFIX, sizeof OPTIMIZER_PREFIX - 1);
    strcpy(name + sizeof OPTIMIZER_PREFIX - 1, t->name);
    return name;
}

static zi_st_type
type_of(zi_dtype t)
{
    switch (t) {
    case ZI_DTYPE_I32:
        return ZI_ST_I32;
    case ZI_DTYPE_I64:
        return ZI_ST_I64;
    case ZI_DTYPE_BF16:
        return ZI_ST_BF16;
    case ZI_DTYPE_U8:
    case ZI_DTYPE_BIT:
        return ZI_ST_U8;
    default:
        return ZI_ST_F32;
    }
}

typedef struct saving {
    zi_engine     *e;
    zi_tensor_id  *id; /* of each tensor in the file */
    zi_train_diag *diag;
} saving;

static zico_status
fetch_tensor(void *user, size_t i, void *buf, size_t n_bytes)
{
    saving          *s = user;
    const zi_tensor *t = &s->e->graph->tensors[s->id[i]];
    zico_status      st = zi_exec_get(s->e->exec, s->id[i], buf, n_bytes);

    if (st < 0)
        return zi_train_fail(s->diag, st, "tensor '%s': %s", t->name,
                             zico_status_text(st));
    if (t->dtype != ZI_DTYPE_F32) return ZICO_OK;
    for (size_t k = 0; k < n_bytes / sizeof(float); k++)
        if (!isfinite(((const float *)buf)[k]))
            return zi_train_fail(
                s->diag, ZICO_E_NAN,
                "tensor '%s' is not finite: the checkpoint before is kept", t->name);
    return ZICO_OK;
}

zico_status
zi_engine_save(zi_engine *e, const char *path, const zi_st_pair *meta, size_t n_meta,
               zi_train_diag *diag)
{
    const zi_graph *g = e->graph;
    zi_st_tensor   *tensors = zi_calloc(g->n_tensors + 1, sizeof *tensors);
    zi_tensor_id   *id = zi_calloc(g->n_tensors + 1, sizeof *id);
    zico_status     st = tensors && id ? ZICO_OK : ZICO_E_NOMEM;
    size_t          n = 0;

    for (zi_tensor_id t = 0; st >= 0 && t < g->n_tensors; t++) {
        const zi_tensor *from = &g->tensors[t];
        if (!is_kept(from)) continue;
        tensors[n].name = name_of(from);
        tensors[n].type = type_of(from->dtype);
        tensors[n].rank = from->rank;
        memcpy(tensors[n].dims, from->dims, sizeof from->dims);
        id[n] = t;
        if (!tensors[n++].name) st = ZICO_E_NOMEM;
    }
    if (st >= 0) {
        saving            s = {e, id, diag};
        zi_checkpoint_out out = {.tensors = tensors,
                                 .n_tensors = n,
                                 .meta = meta,
                                 .n_meta = n_meta,
                                 .fetch = fetch_tensor,
                                 .user = &s};
        st = zi_checkpoint_write(e->os, path, &out, diag);
    }
    for (size_t i = 0; tensors && i < n; i++) zi_free(tensors[i].name);
    zi_free(tensors);
    zi_free(id);
    return st;
}

/* The checkpoint's tensor for one of ours, checked; NULL with ZICO_OK: it may be missing. */
static zico_status
find_saved(const zi_checkpoint *c, const zi_tensor *t, bool all, zi_train_diag *diag,
           const zi_st_tensor **ret_saved)
{
    char *name = name_of(t);
    if (!name) return ZICO_E_NOMEM;
    const zi_st_tensor *s = zi_st_find(c->header, name);
    zico_status         st = ZICO_OK;

    if (!s && (all || !is_optimizer(t)))
        st = zi_train_fail(diag, ZICO_E_NOTFOUND, "%s has no tensor '%s'", c->file.path,
                           name);
    if (s) {
        bool same = s->type == type_of(t->dtype) && s->rank == t->rank;
        for (uint32_t i = 0; same && i < t->rank; i++) same = s->dims[i] == t->dims[i];
        zi_shape have = {.dtype = t->dtype, .rank = s->rank < ZI_MAX_RANK ? s->rank : 0};
        zi_shape want = zi_tensor_shape(t);
        char     text[2][96];
        memcpy(have.dims, s->dims, have.rank * sizeof *have.dims);
        if (!same)
            st = zi_train_fail(diag, ZICO_E_SHAPE,
                               "%s: tensor '%s' is %s of type %s, the network wants %s",
                               c->file.path, name, zi_shape_text(&have, text[0]),
                               zi_st_type_text(s->type), zi_shape_text(&want, text[1]));
    }
    zi_free(name);
    if (st >= 0) *ret_saved = s;
    return st;
}

zico_status
zi_engine_load(zi_engine *e, const zi_checkpoint *c, bool all, zi_train_diag *diag)
{
    const zi_graph     *g = e->graph;
    const zi_st_tensor *s;
    zico_status         st = ZICO_OK;

    for (zi_tensor_id t = 0; st >= 0 && t < g->n_tensors; t++) /* look before setting */
        if (is_kept(&g->tensors[t])) st = find_saved(c, &g->tensors[t], all, diag, &s);
    for (zi_tensor_id t = 0; st >= 0 && t < g->n_tensors; t++) {
        if (!is_kept(&g->tensors[t])) continue;
        st = find_saved(c, &g->tensors[t], all, diag, &s);
        if (st < 0 || !s) continue;
        size_t n = (size_t)(s->end - s->begin);
        void  *buf = zi_malloc(n);
        if (!buf) return ZICO_E_NOMEM;
        st = zi_checkpoint_read(c, s, buf, n, diag);
        if (st >= 0) {
            st = zi_exec_set(e->exec, t, buf, n);
            if (st < 0)
                zi_train_fail(diag, st, "%s: tensor '%s': %s", c->file.path,
                              g->tensors[t].name, zico_status_text(st));
        }
        zi_free(buf);
    }
    return st;
}

typedef struct carried {
    char    *name;
    void    *data;
    uint64_t n_bytes;
} carried;

struct zi_snapshot {
    ZI_VEC(carried) tensors;
};

void
zi_snapshot_free(zi_snapshot *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->tensors.n; i++) {
        zi_free(s->tensors.at[i].name);
        zi_free(s->tensors.at[i].data);
    }
    zi_vec_free(&s->tensors);
    zi_free(s);
}

static zico_status
take_one(zi_engine *e, zi_tensor_id id, zi_snapshot *s)
{
    const zi_tensor *t = &e->graph->tensors[id];
    carried          c = {zi_strdup(t->name), zi_malloc(t->bytes), t->bytes};
    zico_status      st = c.name && c.data ? ZICO_OK : ZICO_E_NOMEM;

    if (st >= 0) st = zi_exec_get(e->exec, id, c.data, t->bytes);
    if (st >= 0) st = zi_vec_push(&s->tensors, c);
    if (st < 0) zi_free(c.name), zi_free(c.data);
    return st;
}

zico_status
zi_engine_take(zi_engine *e, zi_snapshot **ret_snapshot)
{
    zi_snapshot *s = zi_calloc(1, sizeof *s);
    zico_status  st = s ? ZICO_OK : ZICO_E_NOMEM;

    for (zi_tensor_id t = 0; st >= 0 && t < e->graph->n_tensors; t++) {
        const zi_tensor *tensor = &e->graph->tensors[t];
        if (is_kept(tensor) && !is_optimizer(tensor)) st = take_one(e, t, s);
    }
    if (st < 0) {
        zi_snapshot_free(s);
        return st;
    }
    *ret_snapshot = s;
    return ZICO_OK;
}

zico_status
zi_engine_put(zi_engine *e, const zi_snapshot *s, zi_train_diag *diag)
{
    zico_status st = ZICO_OK;
    size_t      n_set = 0, n_want = 0;

    for (zi_tensor_id t = 0; t < e->graph->n_tensors; t++)
        n_want += is_kept(&e->graph->tensors[t]) && !is_optimizer(&e->graph->tensors[t]);
    for (size_t i = 0; st >= 0 && i < s->tensors.n; i++) {
        const carried *c = &s->tensors.at[i];
        zi_tensor_id   t = zi_graph_find_tensor(e->graph, c->name);
        if (t == ZI_ID_NONE || !is_kept(&e->graph->tensors[t])) continue;
        st = zi_exec_set(e->exec, t, c->data, c->n_bytes);
        if (st < 0)
            zi_train_fail(diag, st, "tensor '%s': %s", c->name, zico_status_text(st));
        n_set++;
    }
    if (st >= 0 && n_set < n_want)
        st = zi_train_fail(diag, ZICO_E_NOTFOUND,
                           "%s has %zu parameters and statistics, %zu were carried over",
                           e->graph->name, n_want, n_set);
    return st;
}

/* ---- looking ------------------------------------------------------------------------------------ */

void
zi_engine_read_memory(zi_engine *e, zi_engine_memory *ret_memory)
{
    zi_exec_memory m;

    zi_exec_read_memory(e->exec, &m);
    if (m.peak_slot_bytes + m.outside_bytes > e->peak_bytes)
        e->peak_bytes = m.peak_slot_bytes + m.outside_bytes;
    zi_pilot_info plan;
    zi_pilot_read(e->pilot, &plan);
    *ret_memory = (zi_engine_memory){.now_bytes = m.peak_slot_bytes + m.outside_bytes,
                                     .peak_bytes = e->peak_bytes,
                                     .budget_bytes = plan.budget_bytes};
    if (!e->session) return;
    zico_stats s = {.struct_size = sizeof s};
    zi_session_stats(e->session, &s);
    *ret_memory = (zi_engine_memory){.now_bytes = s.leased_bytes + s.private_bytes,
                                     .peak_bytes = s.peak_bytes,
                                     .budget_bytes = s.budget_bytes,
                                     .shared = e->joined};
}

static void
name_of_event(const zi_graph *g, const zi_exec_event *ev, const char **ret_name,
              const char **ret_kind)
{
    static const char *const kind[ZI_ACT_COUNT] = {"run", "redo", "drop",   "out",
                                                   "in",  "wait", "encode", "decode"};
    bool                     node = ev->kind == ZI_ACT_RUN || ev->kind == ZI_ACT_REDO;

    *ret_kind = kind[ev->kind];
    *ret_name = node ? (ev->what < g->n_nodes ? g->nodes[ev->what].name : "?")
                     : (ev->what < g->n_tensors ? g->tensors[ev->what].name : "?");
    if (ev->kind == ZI_ACT_RUN && ev->what < g->n_nodes)
        *ret_kind = zi_phase_text(g->nodes[ev->what].phase);
}

zico_status
zi_engine_trace(zi_engine *e, zi_trace *t, uint32_t process)
{
    size_t n = zi_exec_events(e->exec, NULL, 0);
    if (n == 0) return ZICO_OK;
    zi_exec_event *ev = zi_calloc(n, sizeof *ev);
    if (!ev) return ZICO_E_NOMEM;
    size_t have = zi_exec_events(e->exec, ev, n);
    if (have > n) have = n;

    zi_trace_thread(t, process, 1, "computation");
    zi_trace_thread(t, process, 2, "copies out");
    zi_trace_thread(t, process, 3, "copies in");
    for (size_t i = 0; i < have; i++) {
        const char *name, *kind;
        bool        node = ev[i].kind == ZI_ACT_RUN || ev[i].kind == ZI_ACT_REDO;
        uint32_t    row = ev[i].kind == ZI_ACT_OUT ? 2 : ev[i].kind == ZI_ACT_IN ? 3 : 1;
        name_of_event(e->graph, &ev[i], &name, &kind);
        zi_trace_arg arg[3] = {{.name = "step", .number = (double)ev[i].step}};
        size_t       n_args = 1;
        if (node && ev[i].what < e->graph->n_nodes) {
            arg[n_args++] =
                (zi_trace_arg){.name = "op",
                               .text = zi_op_get(e->graph->nodes[ev[i].what].op)->text};
            arg[n_args++] =
                (zi_trace_arg){.name = "kernel",
                               .text = zi_exec_kernel_text(e->exec, ev[i].what)};
            if (!arg[2].text) arg[2].text = "";
        }
        zi_trace_span(t, (zi_trace_at){process, row, ev[i].begin_ns},
                      ev[i].end_ns - ev[i].begin_ns, name, kind, arg, n_args);
    }
    zi_free(ev);
    return ZICO_OK;
}

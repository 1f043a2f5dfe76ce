/* zico_engine.c -- the public engine: zico/engine.h over train/engine.h. */
#include "zico/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "graph/zico_net.h"
#include "train/engine.h"

#define FORMAT "zico checkpoint 1"

struct zico_engine {
    zi_engine     *engine;
    zi_io          io;
    zi_train_diag  diag; /* of the last failure */
    zico_optimizer optimizer;
    bool           trains;
    uint64_t       step; /* done */
};

static const char *const optimizer_name[] = {"sgd", "momentum", "adam", "adamw"};

static zico_status
failed(zico_engine *e, zico_status st)
{
    if (!e->diag.text[0]) zi_train_fail(&e->diag, st, "%s", zico_status_text(st));
    return st;
}

/* ---- opening -------------------------------------------------------------------------- */

/* Options of an older caller are shorter: what is missing keeps its default. */
static zico_engine_options
read_options(const zico_engine_options *opt)
{
    zico_engine_options o = ZICO_ENGINE_OPTIONS_INIT;

    if (opt) memcpy(&o, opt, opt->struct_size < sizeof o ? opt->struct_size : sizeof o);
    return o;
}

static zi_optim
optimizer_of(const zico_engine_options *o)
{
    static const zi_optim_kind kind[] = {ZI_OPTIM_SGD, ZI_OPTIM_MOMENTUM, ZI_OPTIM_ADAM,
                                         ZI_OPTIM_ADAMW};
    zi_optim                   optim = zi_optim_default(kind[o->optimizer]);

    if (o->momentum >= 0) optim.momentum = o->momentum;
    if (o->weight_decay >= 0) optim.decay = o->weight_decay;
    optim.clip_norm = o->clip_norm;
    return optim;
}

static zico_status
open_engine(zico_engine *e, const zi_graph *net, const zico_engine_options *o)
{
    zi_graph *g = NULL;
    zi_optim  optim = optimizer_of(o);

    e->trains = net->loss != ZI_ID_NONE;
    e->optimizer = o->optimizer;
    zico_status st = zi_graph_clone(net, &g);
    if (st < 0) return st;
    const zi_engine_options eo = {.optim = e->trains ? &optim : NULL,
                                  .planner = o->planner,
                                  .budget_bytes = o->budget_bytes,
                                  .socket = o->socket_path,
                                  .job_name = net->name,
                                  .n_threads = o->n_threads,
                                  .run_ahead = 1,
                                  .seed = o->seed};
    st = zi_engine_new(g, &eo, &e->diag, &e->engine);
    if (st < 0) return st;
    return zi_io_find(zi_engine_graph(e->engine), &e->diag, &e->io);
}

zico_status
zico_engine_open(const zico_net *net, const zico_engine_options *opt, char *why,
                 size_t cap, zico_engine **ret_engine)
{
    const zico_engine_options o = read_options(opt);
    const zi_graph           *g = net ? zi_graph_of_net(net) : NULL;
    zico_engine              *e = zi_calloc(1, sizeof *e);

    if (!e) return ZICO_E_NOMEM;
    zico_status st = ZICO_OK;
    if (!g)
        st = zi_train_fail(&e->diag, ZICO_E_STATE, "the net is not finished");
    else if ((unsigned)o.optimizer > ZICO_ADAMW)
        st = zi_train_fail(&e->diag, ZICO_E_ARG, "there is no optimizer %d",
                           (int)o.optimizer);
    else
        st = open_engine(e, g, &o);
    if (st < 0) {
        failed(e, st);
        if (why && cap > 0) snprintf(why, cap, "%s", e->diag.text);
        zico_engine_close(e);
        return st;
    }
    *ret_engine = e;
    return ZICO_OK;
}

void
zico_engine_close(zico_engine *e)
{
    if (!e) return;
    zi_engine_free(e->engine);
    zi_free(e);
}

const char *
zico_engine_error(const zico_engine *e)
{
    return e->diag.text;
}

/* ---- steps ------------------------------------------------------------------------------- */

static const zi_tensor *
output_of(const zico_engine *e)
{
    const zi_graph *g = zi_engine_graph(e->engine);
    return g->n_outputs > 0 ? &g->tensors[g->outputs[0]] : NULL;
}

size_t
zico_engine_input_bytes(const zico_engine *e)
{
    return zi_engine_graph(e->engine)->tensors[e->io.x].bytes;
}

size_t
zico_engine_label_bytes(const zico_engine *e)
{
    return e->io.y == ZI_ID_NONE ? 0 : zi_engine_graph(e->engine)->tensors[e->io.y].bytes;
}

size_t
zico_engine_output_bytes(const zico_engine *e)
{
    return output_of(e) ? output_of(e)->bytes : 0;
}

zico_status
zico_engine_train(zico_engine *e, const void *x, const void *y, double lr,
                  double *ret_loss)
{
    zi_exec_step_result r;

    e->diag.text[0] = '\0';
    if (!e->trains)
        return zi_train_fail(&e->diag, ZICO_E_STATE,
                             "the net was not written for training");
    zico_status st = zi_engine_step(e->engine, x, y, lr, e->step + 1);
    if (st >= 0 || st == ZICO_E_CANCELLED) {
        zico_status got = zi_engine_result(e->engine, true, &r);
        if (got >= 0) st = r.status;
    }
    if (st < 0) return failed(e, st);
    e->step++;
    if (ret_loss) *ret_loss = r.loss;
    return ZICO_OK;
}

zico_status
zico_engine_run(zico_engine *e, const void *x, void *ret_output, size_t n_bytes)
{
    zi_exec_step_result r;

    e->diag.text[0] = '\0';
    if (e->trains)
        return zi_train_fail(
            &e->diag, ZICO_E_STATE,
            "the net was written for training; write it with training = 0");
    if (n_bytes != zico_engine_output_bytes(e))
        return zi_train_fail(&e->diag, ZICO_E_SHAPE,
                             "the prediction has %zu bytes, not %zu",
                             zico_engine_output_bytes(e), n_bytes);
    zico_status st = zi_engine_step(e->engine, x, NULL, 0, 1);
    if (st >= 0) st = zi_engine_result(e->engine, true, &r);
    if (st >= 0) st = r.status;
    if (st >= 0) st = zi_engine_output(e->engine, ret_output, n_bytes);
    return st < 0 ? failed(e, st) : ZICO_OK;
}

uint64_t
zico_engine_steps(const zico_engine *e)
{
    return e->step;
}

/* ---- parameters ---------------------------------------------------------------------------- */

zico_status
zico_engine_save(zico_engine *e, const char *path)
{
    char             step[24];
    const zi_graph  *g = zi_engine_graph(e->engine);
    const zi_st_pair meta[] = {{(char *)"format", (char *)FORMAT},
                               {(char *)"net", g->name},
                               {(char *)"optimizer",
                                (char *)optimizer_name[e->optimizer]},
                               {(char *)"step", step}};

    e->diag.text[0] = '\0';
    snprintf(step, sizeof step, "%llu", (unsigned long long)e->step);
    zico_status st =
        zi_engine_save(e->engine, path, meta, sizeof meta / sizeof *meta, &e->diag);
    return st < 0 ? failed(e, st) : ZICO_OK;
}

zico_status
zico_engine_load(zico_engine *e, const char *path)
{
    zi_checkpoint c;

    e->diag.text[0] = '\0';
    zico_status st = zi_checkpoint_open(zi_os_real(), path, &e->diag, &c);
    if (st < 0) return failed(e, st);
    const char *step = zi_st_meta(c.header, "step");
    st = zi_engine_load(e->engine, &c, e->trains, &e->diag);
    if (st >= 0) e->step = step ? strtoull(step, NULL, 10) : 0;
    zi_checkpoint_close(&c);
    return st < 0 ? failed(e, st) : ZICO_OK;
}

zico_status
zico_engine_adopt(zico_engine *e, zico_engine *from)
{
    zi_snapshot *s = NULL;

    e->diag.text[0] = '\0';
    zico_status st = zi_engine_take(from->engine, &s);
    if (st >= 0) st = zi_engine_put(e->engine, s, &e->diag);
    zi_snapshot_free(s);
    return st < 0 ? failed(e, st) : ZICO_OK;
}

static zico_status
find_kept(zico_engine *e, const char *name, size_t n_floats, zi_tensor_id *ret_id)
{
    const zi_graph *g = zi_engine_graph(e->engine);
    zi_tensor_id    t = zi_graph_find_tensor(g, name);

    e->diag.text[0] = '\0';
    if (t == ZI_ID_NONE ||
        (g->tensors[t].role != ZI_ROLE_PARAM && g->tensors[t].role != ZI_ROLE_STATE))
        return zi_train_fail(&e->diag, ZICO_E_NOTFOUND, "there is no parameter '%s'",
                             name);
    if (g->tensors[t].bytes != n_floats * sizeof(float))
        return zi_train_fail(&e->diag, ZICO_E_SHAPE, "'%s' has %llu bytes, not %zu", name,
                             (unsigned long long)g->tensors[t].bytes,
                             n_floats * sizeof(float));
    *ret_id = t;
    return ZICO_OK;
}

zico_status
zico_engine_get(zico_engine *e, const char *name, float *ret_data, size_t n_floats)
{
    zi_tensor_id t = ZI_ID_NONE;
    zico_status  st = find_kept(e, name, n_floats, &t);

    if (st >= 0)
        st =
            zi_exec_get(zi_engine_exec(e->engine), t, ret_data, n_floats * sizeof(float));
    return st < 0 ? failed(e, st) : ZICO_OK;
}

zico_status
zico_engine_set(zico_engine *e, const char *name, const float *data, size_t n_floats)
{
    zi_tensor_id t = ZI_ID_NONE;
    zico_status  st = find_kept(e, name, n_floats, &t);

    if (st >= 0)
        st = zi_exec_set(zi_engine_exec(e->engine), t, data, n_floats * sizeof(float));
    return st < 0 ? failed(e, st) : ZICO_OK;
}

void
zico_engine_memory(zico_engine *e, uint64_t *ret_now, uint64_t *ret_peak)
{
    zi_engine_memory m;

    zi_engine_read_memory(e->engine, &m);
    if (ret_now) *ret_now = m.now_bytes;
    if (ret_peak) *ret_peak = m.peak_bytes;
}

/* train_run.c -- one training run, from its options to its end. */
#include "train/train_run.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "report/report.h"
#include "train/train_loop.h"
#include "train/net.h"

#define FORMAT        "zico checkpoint 1"
#define SEARCH_MAX_NS 90000000000ull /* longest replay for a bad tensor, as foreseen */

typedef struct run {
    zi_run_options o; /* the caller's, completed */
    zi_train_diag *diag;
    zi_run_result *res;
    zi_io          io;
    zi_source     *source;
    zi_engine     *engine;
    zi_loader     *loader;
    uint64_t       position; /* in samples, where step `first` begins */
    uint64_t       begin_ns;
    zi_checkpoint  from; /* what is resumed */
    bool           resumed;
    uint64_t       saved_step; /* of the newest checkpoint of this run; 0: none */
    uint32_t       n_plans;    /* changes of plan that were told */
} run;

static void
tell(run *r, zi_run_event ev)
{
    if (!r->o.on_event) return;
    ev.first = r->res->first, ev.last = r->res->last;
    ev.now_ns = r->o.os->now_ns(r->o.os), ev.begin_ns = r->begin_ns;
    ev.batch = r->io.batch;
    ev.engine = r->engine;
    r->o.on_event(r->o.user, &ev);
}

/* ---- resuming ------------------------------------------------------------------------------- */

static zico_status
meta_u64(const run *r, const char *key, uint64_t *ret)
{
    const char *text = zi_st_meta(r->from.header, key);
    char       *end = NULL;

    if (!text || *text < '0' || *text > '9')
        return zi_train_fail(r->diag, ZICO_E_FORMAT, "%s: '%s' is missing or no number",
                             r->o.resume, key);
    *ret = strtoull(text, &end, 10);
    if (*end)
        return zi_train_fail(r->diag, ZICO_E_FORMAT, "%s: '%s' is no number", r->o.resume,
                             key);
    return ZICO_OK;
}

static zico_status
meta_agrees(const run *r, const char *key, const char *now)
{
    const char *then = zi_st_meta(r->from.header, key);

    if (then && strcmp(then, now) == 0) return ZICO_OK;
    return zi_train_fail(r->diag, ZICO_E_ARG,
                         "%s was saved with %s '%s', this run has '%s'", r->o.resume, key,
                         then ? then : "", now);
}

static zico_status
open_resume(run *r)
{
    uint64_t    done = 0;
    zico_status st = zi_checkpoint_open(r->o.os, r->o.resume, r->diag, &r->from);

    if (st < 0) return st;
    r->resumed = true;
    const char *format = zi_st_meta(r->from.header, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return zi_train_fail(
            r->diag, ZICO_E_FORMAT,
            "%s is not a checkpoint of zico train (no '%s' in its words)", r->o.resume,
            FORMAT);
    st = meta_agrees(r, "net", r->o.net);
    if (st >= 0) st = meta_agrees(r, "optimizer", r->o.optim_name);
    if (st >= 0) st = meta_u64(r, "step", &done);
    if (st >= 0) st = meta_u64(r, "position", &r->position);
    if (st >= 0) st = meta_u64(r, "seed", &r->o.seed);
    if (st >= 0) st = meta_u64(r, "data_seed", &r->o.data.seed);
    r->res->first = done + 1;
    return st;
}

/* ---- saving ------------------------------------------------------------------------------------ */

static zico_status
save_to(run *r, const char *path, uint64_t step)
{
    char     text[4][24], loss[32];
    uint64_t made = step - (r->res->first - 1);

    snprintf(text[0], sizeof text[0], "%llu", (unsigned long long)step);
    snprintf(text[1], sizeof text[1], "%llu",
             (unsigned long long)(r->position + made * (uint64_t)r->io.batch));
    snprintf(text[2], sizeof text[2], "%llu", (unsigned long long)r->o.seed);
    snprintf(text[3], sizeof text[3], "%llu", (unsigned long long)r->o.data.seed);
    snprintf(loss, sizeof loss, "%.9g", r->res->loss);
    const zi_st_pair meta[] = {{(char *)"format", (char *)FORMAT},
                               {(char *)"net", (char *)r->o.net},
                               {(char *)"optimizer", (char *)r->o.optim_name},
                               {(char *)"step", text[0]},
                               {(char *)"position", text[1]},
                               {(char *)"seed", text[2]},
                               {(char *)"data_seed", text[3]},
                               {(char *)"loss", loss},
                               {(char *)"data", (char *)r->o.data.kind}};
    zico_status      st =
        zi_engine_save(r->engine, path, meta, sizeof meta / sizeof *meta, r->diag);
    if (st < 0) return st;
    snprintf(r->res->saved, sizeof r->res->saved, "%s", path);
    r->saved_step = step;
    tell(r, (zi_run_event){.kind = ZI_RUN_SAVED, .step = step, .path = path});
    return ZICO_OK;
}

static zico_status
on_save(void *user, uint64_t step, zi_train_diag *diag)
{
    run *r = user;
    (void)diag;
    return save_to(r, r->o.save, step);
}

/* Stopped on request without a name to save to: make one up. */
static zico_status
save_stopped(run *r)
{
    char name[128], path[192];

    if (r->o.save) return save_to(r, r->o.save, r->res->done);
    zi_net_short_name(r->o.net, name, sizeof name);
    snprintf(path, sizeof path, "%s-step%llu.safetensors", name,
             (unsigned long long)r->res->done);
    return save_to(r, path, r->res->done);
}

/* ---- preparing ---------------------------------------------------------------------------------- */

static uint64_t
loader_bytes(run *r)
{
    zi_loader_stats stats = {.ring_bytes = 0};

    if (r->loader) zi_loader_read_stats(r->loader, &stats);
    return stats.ring_bytes;
}

static zico_status
build_engine(run *r, bool watch, zi_engine **ret_engine)
{
    zi_graph   *g = NULL;
    char        name[128], key[256];
    zico_status st =
        zi_net_build(r->o.os, r->o.net, r->o.batch, true, r->o.seed, r->diag, &g);

    if (st < 0) return st;
    zi_net_short_name(r->o.net, name, sizeof name);
    snprintf(key, sizeof key, "%s,batch=%lld", r->o.net, (long long)r->io.batch);
    const zi_engine_options eo = {.os = r->o.os,
                                  .optim = &r->o.optim,
                                  .planner = r->o.planner,
                                  .budget_bytes = r->o.budget_bytes,
                                  .budget_share = r->o.budget_share,
                                  .tier = r->o.tier,
                                  .socket = r->o.socket,
                                  .job_name = name,
                                  .shape_key = key,
                                  .charge_bytes = loader_bytes(r),
                                  .steps_total = r->o.steps,
                                  .n_threads = r->o.n_threads,
                                  .seed = r->o.seed,
                                  .no_init = r->resumed,
                                  .watch = watch,
                                  .stop = r->o.stop};
    st = zi_engine_new(g, &eo, r->diag, ret_engine);
    if (st >= 0 && r->resumed) {
        st = zi_engine_load(*ret_engine, &r->from, true, r->diag);
        if (st < 0) {
            zi_engine_free(*ret_engine);
            *ret_engine = NULL;
        }
    }
    return st;
}

static zico_status
open_loader(run *r, zi_loader **ret_loader)
{
    const zi_loader_options lo = {.source = r->source,
                                  .batch = (uint64_t)r->io.batch,
                                  .position = r->position,
                                  .seed = r->o.seed,
                                  .n_threads = r->o.loader_threads,
                                  .n_ahead = r->o.loader_ahead,
                                  .pause_ms = r->o.loader_pause_ms};
    return zi_loader_new(&lo, ret_loader);
}

static zico_status
find_data(run *r)
{
    zi_graph   *g = NULL;
    zico_status st =
        zi_net_build(r->o.os, r->o.net, r->o.batch, true, r->o.seed, r->diag, &g);

    if (st < 0) return st;
    st = zi_io_find(g, r->diag, &r->io);
    zi_graph_free(g);
    if (st < 0) return st;
    if (!r->io.want.has_y)
        return zi_train_fail(r->diag, ZICO_E_ARG, "%s has no loss to train on", r->o.net);
    return zi_source_open(r->o.os, &r->o.data, &r->io.want, r->diag, &r->source);
}

/* How many steps in all, now that the number of samples is known. */
static zico_status
count_steps(run *r)
{
    if (r->o.epochs > 0) {
        double steps =
            ceil(r->o.epochs * (double)r->source->n_samples / (double)r->io.batch);
        if (!(steps < 1e15)) return zi_train_fail(r->diag, ZICO_E_ARG, "too many epochs");
        r->o.steps = (uint64_t)steps;
    }
    r->res->last = r->o.steps;
    r->o.schedule.total = r->o.steps;
    if (r->res->first > r->o.steps)
        return zi_train_fail(r->diag, ZICO_E_ARG,
                             "%s is at step %llu already, %llu steps were asked for",
                             r->o.resume ? r->o.resume : r->o.net,
                             (unsigned long long)(r->res->first - 1),
                             (unsigned long long)r->o.steps);
    return ZICO_OK;
}

static zico_status
prepare(run *r)
{
    zico_status st = ZICO_OK;

    r->res->first = 1;
    r->res->loss = r->res->first_loss = NAN;
    if (r->o.resume) st = open_resume(r);
    if (st >= 0) st = find_data(r);
    if (st >= 0) st = count_steps(r);
    if (st >= 0 && r->o.save) st = zi_checkpoint_probe(r->o.os, r->o.save, r->diag);
    if (st >= 0) st = open_loader(r, &r->loader);
    if (st >= 0) st = build_engine(r, r->o.watch, &r->engine);
    return st;
}

/* ---- a bad loss ----------------------------------------------------------------------------------- */

/* Where a replay begins: at this run's newest checkpoint, else where the run began. */
static zico_status
rewind_run(run *r, uint64_t *ret_first)
{
    *ret_first = r->res->first;
    if (r->saved_step == 0) return ZICO_OK;
    zi_checkpoint c;
    zico_status   st = zi_checkpoint_open(r->o.os, r->res->saved, r->diag, &c);
    if (st < 0) return st;
    if (r->resumed) zi_checkpoint_close(&r->from);
    r->from = c;
    r->resumed = true;
    r->position += (r->saved_step - r->res->first + 1) * (uint64_t)r->io.batch;
    *ret_first = r->saved_step + 1;
    return ZICO_OK;
}

static bool
replay_is_short(const run *r)
{
    uint64_t begun = r->saved_step ? r->saved_step : r->res->first - 1;
    uint64_t made = r->res->bad_step - r->res->first + 1;
    double   each = (double)r->res->train_ns / (double)made;

    return each * (double)(r->res->bad_step - begun) * 2 < (double)SEARCH_MAX_NS;
}

/* Make the steps from the newest good state again, watching every tensor.  Bits repeat, so
 * the same step goes bad again. */
static void
find_bad_tensor(run *r)
{
    zi_train_diag quiet = {""}, *diag = r->diag;
    zi_loop_end   end = {.bad = ZI_ID_NONE};
    zi_engine    *e = NULL;
    zi_loader    *l = NULL;
    uint64_t      first = 0;

    if (!replay_is_short(r)) return;
    tell(r, (zi_run_event){.kind = ZI_RUN_SEARCH, .step = r->res->bad_step});
    zi_loader_free(r->loader);
    zi_engine_free(r->engine);
    r->loader = NULL, r->engine = NULL;
    r->diag = &quiet;
    zico_status st = rewind_run(r, &first);
    if (st >= 0) st = build_engine(r, true, &e);
    if (st >= 0) st = open_loader(r, &l);
    if (st >= 0) {
        const zi_loop_options lo = {.engine = e,
                                    .loader = l,
                                    .schedule = &r->o.schedule,
                                    .first = first,
                                    .last = r->res->bad_step,
                                    .stop = r->o.stop};
        st = zi_loop_run(&lo, &quiet, &end);
    }
    if (st == ZICO_E_NAN && end.bad != ZI_ID_NONE) {
        r->res->bad_step = end.bad_step;
        snprintf(r->res->bad_tensor, sizeof r->res->bad_tensor, "%s",
                 zi_engine_graph(e)->tensors[end.bad].name);
    }
    zi_loader_free(l);
    zi_engine_free(e);
    r->diag = diag;
}

static zico_status
explain_nan(run *r)
{
    char tensor[300] = "the loss is not finite";

    if (!r->res->bad_tensor[0]) find_bad_tensor(r);
    if (r->res->bad_tensor[0])
        snprintf(tensor, sizeof tensor, "tensor '%s' was the first that is not finite",
                 r->res->bad_tensor);
    return zi_train_fail(r->diag, ZICO_E_NAN, "stopped at step %llu: %s; %s%s%s",
                         (unsigned long long)r->res->bad_step, tensor,
                         r->res->saved[0] ? "the last good checkpoint is "
                                          : "no checkpoint was written",
                         r->res->saved,
                         r->res->bad_tensor[0] ? "; a smaller --lr or a --warmup may help"
                                               : "; --watch finds the tensor");
}

/* ---- judging -------------------------------------------------------------------------------------- */

static zico_status
judge_on(run *r, zi_source *held)
{
    zi_graph    *g = NULL;
    zi_engine   *forward = NULL;
    zi_loader   *l = NULL;
    zi_snapshot *snap = NULL;
    char         name[128];
    uint64_t     n =
        r->o.eval_samples < held->n_samples ? r->o.eval_samples : held->n_samples;
    uint64_t batches = (n + (uint64_t)r->io.batch - 1) / (uint64_t)r->io.batch;

    zi_net_short_name(r->o.net, name, sizeof name);
    zico_status st = zi_engine_take(r->engine, &snap);
    zi_engine_free(r->engine); /* its memory is the next one's */
    r->engine = NULL;
    if (st >= 0)
        st = zi_net_build(r->o.os, r->o.net, r->o.batch, false, r->o.seed, r->diag, &g);
    const zi_engine_options eo = {.os = r->o.os,
                                  .budget_bytes = r->o.budget_bytes,
                                  .socket = r->o.socket,
                                  .job_name = name,
                                  .n_threads = r->o.n_threads,
                                  .seed = r->o.seed,
                                  .no_init = true,
                                  .stop = r->o.stop};
    if (st >= 0) st = zi_engine_new(g, &eo, r->diag, &forward);
    if (st >= 0) st = zi_engine_put(forward, snap, r->diag);
    const zi_loader_options lo = {.source = held,
                                  .batch = (uint64_t)r->io.batch,
                                  .in_order = true};
    if (st >= 0) st = zi_loader_new(&lo, &l);
    if (st >= 0)
        st = zi_evaluate(forward, l, batches, &r->io.want, r->diag, &r->res->score);
    if (st >= 0) {
        r->res->scored = true;
        tell(r, (zi_run_event){.kind = ZI_RUN_SCORE,
                               .step = r->res->done,
                               .score = &r->res->score});
    }
    zi_loader_free(l);
    zi_engine_free(forward);
    zi_snapshot_free(snap);
    return st;
}

static zico_status
judge(run *r)
{
    zi_data_spec  spec = r->o.data;
    zi_source    *held = NULL;
    zi_train_diag why = {""};

    if (r->o.eval_samples == 0) return ZICO_OK;
    spec.part = ZI_DATA_HELD;
    zico_status st = zi_source_open(r->o.os, &spec, &r->io.want, &why, &held);
    if (st == ZICO_E_NOTFOUND) return ZICO_OK; /* nothing was held back */
    if (st < 0) return zi_train_fail(r->diag, st, "%s", why.text);
    st = judge_on(r, held);
    zi_source_close(held);
    return st;
}

/* ---- the trace -------------------------------------------------------------------------------------- */

static zico_status
write_trace(run *r)
{
    const zi_os *os = r->o.os;
    zi_str       text = {0};
    zi_trace     t = zi_trace_into(&text);

    zi_trace_process(&t, 1, r->o.net);
    zico_status st = zi_engine_trace(r->engine, &t, 1);
    zico_status ended = zi_trace_end(&t);
    if (st >= 0) st = ended;
    if (st >= 0) {
        long fd =
            os->open_file(os, r->o.trace, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        long rc = fd;
        for (size_t off = 0; fd >= 0 && off < text.n && rc >= 0;) {
            rc = os->pwrite(os, (int)fd, text.at + off, text.n - off, off);
            if (rc > 0) off += (size_t)rc;
        }
        if (fd >= 0) os->close(os, (int)fd);
        if (rc < 0)
            st = zi_train_fail(r->diag, zi_os_status(rc), "%s: %s", r->o.trace,
                               strerror((int)-rc));
    }
    zi_str_free(&text);
    return st;
}

/* ---- the whole --------------------------------------------------------------------------------------- */

/* The plan was changed before a later step was queued. */
static void
tell_plan(run *r)
{
    zi_pilot_info plan;

    zi_pilot_read(zi_engine_pilot(r->engine), &plan);
    if (plan.n_plans == r->n_plans) return;
    r->n_plans = plan.n_plans;
    tell(r, (zi_run_event){.kind = ZI_RUN_PLAN, .step = r->res->done, .plan = &plan});
}

static void
on_step(void *user, const zi_loop_step *step)
{
    run *r = user;

    r->res->stall_ns += step->result->stall_ns;
    r->res->done = step->result->step;
    r->res->loss = step->result->loss;
    if (isnan(r->res->first_loss)) r->res->first_loss = step->result->loss;
    tell(r, (zi_run_event){.kind = ZI_RUN_STEP,
                           .step = step->result->step,
                           .loss = step->result->loss,
                           .lr = step->lr,
                           .result = step->result});
    tell_plan(r);
}

static zico_status
train(run *r)
{
    zi_loop_end           end;
    zi_loader_stats       stats;
    const zi_loop_options lo = {.engine = r->engine,
                                .loader = r->loader,
                                .schedule = &r->o.schedule,
                                .first = r->res->first,
                                .last = r->res->last,
                                .every = r->o.save ? r->o.every : 0,
                                .stop = r->o.stop,
                                .on_step = on_step,
                                .on_save = on_save,
                                .user = r};

    r->begin_ns = r->o.os->now_ns(r->o.os);
    r->res->done = r->res->first - 1;
    zi_pilot_read(zi_engine_pilot(r->engine), &r->res->plan);
    tell(r, (zi_run_event){.kind = ZI_RUN_READY,
                           .step = r->res->done,
                           .plan = &r->res->plan,
                           .n_params = zi_graph_param_count(zi_engine_graph(r->engine)),
                           .n_samples = r->source->n_samples});
    zico_status st = zi_loop_run(&lo, r->diag, &end);
    r->res->train_ns = r->o.os->now_ns(r->o.os) - r->begin_ns;
    r->res->done = end.done;
    r->res->stopped = end.stopped;
    r->res->bad_step = end.bad_step;
    r->res->n_samples = (end.done - r->res->first + 1) * (uint64_t)r->io.batch;
    if (end.bad != ZI_ID_NONE)
        snprintf(r->res->bad_tensor, sizeof r->res->bad_tensor, "%s",
                 zi_engine_graph(r->engine)->tensors[end.bad].name);
    zi_loader_read_stats(r->loader, &stats);
    r->res->n_batches = stats.n_batches;
    r->res->n_data_waits = stats.n_waits;
    zi_engine_read_memory(r->engine, &r->res->memory);
    zi_pilot_read(zi_engine_pilot(r->engine), &r->res->plan);
    zi_pilot_read_tier(zi_engine_pilot(r->engine), &r->res->tier);
    return st;
}

static zico_status
finish(run *r)
{
    bool        any = r->res->done >= r->res->first;
    bool        fresh = r->o.save && r->o.every && r->res->done % r->o.every == 0;
    zico_status st = ZICO_OK;

    if (r->o.trace) st = write_trace(r);
    if (st >= 0 && any && r->res->stopped)
        st = save_stopped(r);
    else if (st >= 0 && any && r->o.save && !fresh)
        st = save_to(r, r->o.save, r->res->done);
    if (st >= 0 && any && !r->res->stopped) st = judge(r);
    return st;
}

static bool
is_stopped(const run *r)
{
    return r->o.stop && atomic_load(r->o.stop);
}

zico_status
zi_run_train(const zi_run_options *opt, zi_train_diag *diag, zi_run_result *ret_result)
{
    zi_train_diag spare = {""};
    run           r = {.o = *opt, .diag = diag ? diag : &spare, .res = ret_result};

    *ret_result = (zi_run_result){.first = 1};
    if (!r.o.os) r.o.os = zi_os_real();
    zico_status st = prepare(&r);
    if (st >= 0) {
        st = train(&r);
        if (st == ZICO_E_NAN && r.res->bad_step)
            st = explain_nan(&r);
        else if (st >= 0)
            st = finish(&r);
    }
    if (st == ZICO_E_CANCELLED && is_stopped(&r)) { /* while it waited for memory */
        r.res->stopped = true;
        st = ZICO_OK;
    }
    zi_loader_free(r.loader);
    zi_engine_free(r.engine);
    zi_source_close(r.source);
    if (r.resumed) zi_checkpoint_close(&r.from);
    return st;
}

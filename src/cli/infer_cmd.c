/* infer_cmd.c -- zico infer NET: forward only, one batch per step, latency percentiles. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "cli/args.h"
#include "cli/data_words.h"
#include "train/engine.h"
#include "train/net.h"

typedef struct infer_words {
    zi_data_words data;
    const char   *load, *socket, *trace;
    uint64_t      batch, steps, warmup, threads, seed, budget;
    double        latency_ms; /* 0: no bound */
    double        rate;       /* requests a second; 0: one after the other */
    bool          json;
} infer_words;

typedef struct infer {
    const infer_words *w;
    const char        *net;
    zi_train_diag      diag;
    zi_engine         *engine;
    zi_source         *source;
    zi_loader         *loader;
    uint64_t          *ns; /* of each step */
} infer;

static zico_status
prepare(infer *r, const zi_data_spec *spec)
{
    const zi_os            *os = zi_os_real();
    const zi_engine_options eo = {.budget_bytes = r->w->budget,
                                  .socket = r->w->socket,
                                  .job_name = r->net,
                                  .shape_key = r->net,
                                  .steps_total =
                                      r->w->steps + r->w->warmup + (r->w->rate > 0),
                                  .latency_ns = (uint64_t)(r->w->latency_ms * 1e6),
                                  .n_threads = (unsigned)r->w->threads,
                                  .run_ahead = 1,
                                  .seed = r->w->seed,
                                  .no_init = r->w->load != NULL};
    zi_graph               *g = NULL;
    zi_checkpoint           c;

    zico_status st =
        zi_net_build(os, r->net, (int64_t)r->w->batch, false, r->w->seed, &r->diag, &g);
    if (st >= 0) st = zi_engine_new(g, &eo, &r->diag, &r->engine);
    if (st >= 0 && r->w->load) {
        st = zi_checkpoint_open(os, r->w->load, &r->diag, &c);
        if (st >= 0) {
            st = zi_engine_load(r->engine, &c, false, &r->diag);
            zi_checkpoint_close(&c);
        }
    }
    if (st >= 0)
        st = zi_source_open(os, spec, zi_engine_want(r->engine), &r->diag, &r->source);
    if (st < 0) return st;
    const zi_loader_options lo = {.source = r->source,
                                  .batch = (uint64_t)zi_engine_batch(r->engine),
                                  .in_order = true};
    st = zi_loader_new(&lo, &r->loader);
    if (st >= 0 && !(r->ns = calloc(r->w->steps, sizeof *r->ns))) st = ZICO_E_NOMEM;
    return st;
}

/* One batch, from the moment it is handed over (or, at a rate, was due) until its result is
 * there. */
static zico_status
one_step(infer *r, uint64_t step, uint64_t due_ns, uint64_t *ret_ns)
{
    const zi_os        *os = zi_os_real();
    const zi_batch     *b;
    zi_exec_step_result res;

    zico_status st = zi_loader_next(r->loader, &r->diag, &b);
    if (st < 0) return st;
    if (due_ns) os->sleep_until(os, due_ns);
    uint64_t begin = due_ns ? due_ns : os->now_ns(os);
    st = zi_engine_step(r->engine, b->x, b->y, 0, step);
    if (st >= 0) st = zi_engine_result(r->engine, true, &res);
    if (st >= 0) st = res.status;
    *ret_ns = os->now_ns(os) - begin;
    return st;
}

static zico_status
measure(infer *r)
{
    const zi_os *os = zi_os_real();
    uint64_t     spare;
    zico_status  st = ZICO_OK;

    if (r->w->rate > 0)
        st = one_step(r, 1, 0, &spare); /* the first one makes everything */
    uint64_t from = os->now_ns(os);
    for (uint64_t i = 0; st >= 0 && i < r->w->warmup + r->w->steps; i++) {
        uint64_t due =
            r->w->rate > 0 ? from + (uint64_t)((double)i * 1e9 / r->w->rate) : 0;
        bool counts = i >= r->w->warmup;
        st = one_step(r, i + 2, due, counts ? &r->ns[i - r->w->warmup] : &spare);
    }
    return st;
}

static int
ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest value that at least this share of all do not exceed. */
static uint64_t
percentile(const uint64_t *sorted, uint64_t n, double share)
{
    uint64_t i = (uint64_t)(share * (double)n);

    if ((double)i < share * (double)n) i++;
    return sorted[i == 0 ? 0 : i - 1];
}

static zico_status
show(const infer *r)
{
    static const double      share[] = {0.5, 0.9, 0.95, 0.99, 1};
    static const char *const name[] = {"p50", "p90", "p95", "p99", "max"};
    zi_column                col[9] = {{.head = "batch", .unit = ZI_UNIT_NUMBER},
                                       {.head = "steps", .unit = ZI_UNIT_NUMBER},
                                       {.head = "samples/s",
                                        .key = "samples_per_s",
                                        .unit = ZI_UNIT_NUMBER,
                                        .decimals = 1}};
    char                     key[5][16];
    double                   sum = 0;
    zi_table                *t;
    zi_str                   out = {0};
    uint64_t                 n = r->w->steps, late = 0;

    for (int i = 0; i < 5; i++) {
        snprintf(key[i], sizeof key[i], "%s_ns", name[i]);
        col[3 + i] = (zi_column){.head = name[i], .key = key[i], .unit = ZI_UNIT_NS};
    }
    col[8] = (zi_column){.head = "late", .unit = ZI_UNIT_NUMBER};
    for (uint64_t i = 0; i < n; i++) {
        sum += (double)r->ns[i];
        late += r->w->latency_ms > 0 && (double)r->ns[i] > r->w->latency_ms * 1e6;
    }
    qsort(r->ns, n, sizeof *r->ns, ascending);
    zico_status st = zi_table_new(col, r->w->latency_ms > 0 ? 9 : 8, &t);
    if (st < 0) return st;
    int64_t batch = zi_engine_batch(r->engine);
    zi_table_u64(t, (uint64_t)batch);
    zi_table_u64(t, n);
    zi_table_f64(t, sum > 0 ? (double)batch * (double)n / (sum / 1e9) : 0);
    for (int i = 0; i < 5; i++) zi_table_u64(t, percentile(r->ns, n, share[i]));
    if (r->w->latency_ms > 0) zi_table_u64(t, late);
    zi_style style = zi_terminal_style(1);
    style.width = 0;
    style.colour = false;
    if (r->w->json) {
        zi_json j = zi_json_into(&out);
        st = zi_table_json(t, &j);
        zi_str_add_char(&out, '\n');
    } else {
        st = zi_table_print(t, &style, &out);
    }
    if (st >= 0) fputs(zi_str_get(&out), stdout);
    zi_str_free(&out);
    zi_table_free(t);
    return fflush(stdout) == 0 ? st : ZICO_E_IO;
}

static int
run(const infer_words *w, const char *net, const zi_data_spec *spec)
{
    infer       r = {.w = w, .net = net};
    zico_status st = prepare(&r, spec);

    if (st >= 0) st = measure(&r);
    if (st >= 0) st = show(&r);
    if (st < 0)
        fprintf(stderr, "zico infer: %s\n",
                r.diag.text[0] ? r.diag.text : zico_status_text(st));
    zi_loader_free(r.loader);
    zi_source_close(r.source);
    zi_engine_free(r.engine);
    free(r.ns);
    if (st >= 0) return ZI_EXIT_OK;
    return st == ZICO_E_ARG || st == ZICO_E_NOTFOUND ? ZI_EXIT_USAGE : ZI_EXIT_FAILED;
}

int
zi_cmd_infer(int argc, char **argv)
{
    infer_words  w = {.batch = 1, .steps = 100, .warmup = 10, .seed = 1};
    const zi_arg arg[] = {
        {"batch", ZI_ARG_U64, &w.batch, "N", "samples per step (1)"},
        {"steps", ZI_ARG_U64, &w.steps, "N", "steps that are measured (100)"},
        {"warmup", ZI_ARG_U64, &w.warmup, "N", "steps before that (10)"},
        {"load", ZI_ARG_TEXT, &w.load, "FILE",
         "parameters from a checkpoint (random ones)"},
        ZI_DATA_ARGS(w.data),
        {"threads", ZI_ARG_U64, &w.threads, "N", "compute threads (all cores)"},
        {"seed", ZI_ARG_U64, &w.seed, "N", "of random weights and synthetic data (1)"},
        {"budget", ZI_ARG_SIZE, &w.budget, "BYTES", "use no more memory for tensors"},
        {"latency", ZI_ARG_REAL, &w.latency_ms, "MS",
         "a step should take no longer: goes before others, and is counted"},
        {"rate", ZI_ARG_REAL, &w.rate, "HZ",
         "so many requests a second, also while warming up; waiting counts (one after "
         "the "
         "other)"},
        {"socket", ZI_ARG_TEXT, &w.socket, "PATH",
         "be a job of that broker ($ZICO_SOCKET)"},
        {"json", ZI_ARG_FLAG, &w.json, NULL, "for programs, times in nanoseconds"},
    };
    const zi_args args = {
        .usage = "infer NET [OPTION...]",
        .about = "Runs NET forward only, one batch per step, and prints how long a step "
                 "takes:\n"
                 "the median, the 90th, 95th and 99th of a hundred, and the longest.",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
        .rest_least = 1,
        .rest_most = 1,
    };
    const char  *net;
    zi_data_spec spec;

    zico_status st = zi_args_parse(&args, argc, argv, &net, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    zi_cli_calm(w.socket, argv);
    if (w.steps == 0 || w.steps > 100000000 || w.threads > 4096 || w.batch > 1u << 20) {
        fputs("zico infer: --steps, --threads or --batch is out of range\n", stderr);
        return ZI_EXIT_USAGE;
    }
    if (zi_data_words_read(&w.data, "infer", false, w.seed, &spec) < 0)
        return ZI_EXIT_USAGE;
    return run(&w, net, &spec);
}

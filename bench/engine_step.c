/* bench/engine_step.c -- step time and peak of one network in the executor.
 *
 *   engine_step NET [--batch N] [--threads N] [--steps N] [--warm N] [--optim sgd|momentum|adam|adamw]
 *          [--ops] [--cpu] [--follow] [--pool MIB]
 *
 * Prints one line of JSON: median step, peak bytes, time to the first step, issue overhead.
 * --cpu measures processor time instead of the clock: for a busy machine and one thread.
 * --ops adds a table of where the time goes.  --follow: reads "go" lines and answers each
 * with the time of a few steps, so that bench/engine.py can take turns with PyTorch.
 * --pool leases slots from a pool of that many MiB, as inside a broker, and adds how much was
 * leased on the mean (looked at every 0.2 ms) and how much was alive.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "exec/exec.h"
#include "graph/zoo/zoo.h"

typedef struct options {
    const char   *net;
    int64_t       batch;
    unsigned      threads, steps, warm, pool_mib;
    zi_optim_kind optim;
    bool          ops, follow, cpu;
} options;

typedef struct bench {
    options       o;
    zi_graph     *g;
    zi_exec      *e;
    zi_exec_feed *feeds;
    size_t        n_feeds;
    uint64_t      step;
    zi_session   *session; /* NULL: private memory */
} bench;

static clockid_t measured = CLOCK_MONOTONIC;

static double
now_s(void)
{
    struct timespec t;
    clock_gettime(measured, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
die(const char *what, const zi_graph_diag *diag, zico_status st)
{
    fprintf(stderr, "engine: %s: %s %s\n", what, zico_status_text(st), diag->text);
    exit(1);
}

static void
must(zico_status st, const char *what, const zi_graph_diag *diag)
{
    if (st < 0) die(what, diag, st);
}

static zi_graph *
build(const options *o)
{
    zi_graph     *g;
    zi_graph_diag d = {0};
    zi_optim      opt = zi_optim_default(o->optim);

    if (o->optim == ZI_OPTIM_MOMENTUM) opt.momentum = 0.9;
    must(zi_zoo_build(o->net, o->batch, true, 1, &d, &g), "build", &d);
    must(zi_graph_fuse(g, &d), "fuse", &d);
    must(zi_graph_differentiate(g, g->loss, &d), "differentiate", &d);
    must(zi_graph_add_update(g, &opt, &d), "update", &d);
    return g;
}

/* How many classes the labels of this network may name: the widest output dim. */
static int64_t
class_count(const zi_graph *g)
{
    for (zi_node_id n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == ZI_OP_CROSS_ENTROPY)
            return g->tensors[g->nodes[n].in[0]].dims[g->nodes[n].attr.loss.axis];
    return 2;
}

static void
make_feeds(bench *b)
{
    const int64_t classes = class_count(b->g);
    uint64_t      r = 88172645463325252ull;

    b->feeds = calloc(b->g->n_tensors + 1u, sizeof *b->feeds);
    for (zi_tensor_id t = 0; t < b->g->n_tensors; t++) {
        const zi_tensor *x = &b->g->tensors[t];
        if ((x->role != ZI_ROLE_INPUT && x->role != ZI_ROLE_LABEL) || t == b->g->lr ||
            t == b->g->step)
            continue;
        void *p = malloc(x->bytes);
        for (int64_t i = 0; i < zi_tensor_elems(x); i++) {
            r ^= r << 13;
            r ^= r >> 7;
            r ^= r << 17;
            if (x->dtype == ZI_DTYPE_F32)
                ((float *)p)[i] = (float)((double)(r >> 11) / 4503599627370496.0 - 1.0);
            else
                ((int32_t *)p)[i] = (int32_t)(r % (uint64_t)classes);
        }
        b->feeds[b->n_feeds++] = (zi_exec_feed){t, p};
    }
}

static int
by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double
median(double *v, unsigned n)
{
    qsort(v, n, sizeof *v, by_double);
    return n ? v[n / 2] : 0;
}

static double
thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Median time of n steps, in seconds; the loss of the last; the issuing thread's processor time
 * per operator (by the clock, a computing thread that is put on the same core would count). */
static double
run_steps(bench *b, unsigned n, double *ret_loss, double *ret_issue_us)
{
    double  *t = calloc(n + 1u, sizeof *t), *issue = calloc(n + 1u, sizeof *issue);
    unsigned got = 0;
    zi_exec_step_result r;
    zi_graph_diag       d = {0};

    for (unsigned i = 0; i < n; i++) {
        const double t0 = now_s(), i0 = thread_s();
        must(zi_exec_step(b->e, b->feeds, b->n_feeds, 0.001f, ++b->step), "step", &d);
        issue[i] = thread_s() - i0;
        must(zi_exec_drain(b->e), "drain", &d);
        const double t1 = now_s();
        while (zi_exec_result(b->e, false, &r) == ZICO_OK) {
            t[got++] = t1 - t0;
            *ret_loss = r.loss;
        }
    }
    const double step_s = median(t, got);
    *ret_issue_us = median(issue, n) / b->g->n_nodes * 1e6;
    free(t);
    free(issue);
    return step_s;
}

/* -- leased and alive ---------------------------------------------------------------------- */

typedef struct watch {
    zi_session *session;
    atomic_bool stop;
    double      sum_bytes, n; /* inside steps */
} watch;

static void *
look(void *arg)
{
    watch *w = arg;

    while (!atomic_load(&w->stop)) {
        zico_stats s = {.struct_size = sizeof s};
        if (zi_session_in_step(w->session)) {
            zi_session_stats(w->session, &s);
            w->sum_bytes += (double)s.leased_bytes;
            w->n++;
        }
        usleep(200);
    }
    return NULL;
}

/* Mean over a step of the bytes alive, by the kernels' measured times: in one mapping the one
 * slot is open from first to last, so that its size over the ratio is the mean. */
static double
mean_live(bench *b)
{
    zi_graph_diag  d = {0};
    zi_cost       *c;
    zi_plan       *p;
    zi_place_stats s;

    must(zi_exec_measured(b->e, &c), "measured", &d);
    must(zi_plan_keep(b->g, c, &p), "plan", &d);
    must(zi_plan_place(p, b->g, c, 0, 64, &s), "place", &d);
    zi_plan_free(p);
    zi_cost_free(c);
    return (double)s.peak_slot_bytes / s.mean_ratio;
}

static void
measure_leases(bench *b)
{
    watch     w = {.session = b->session};
    pthread_t thread;
    double    loss, issue_us;

    if (pthread_create(&thread, NULL, look, &w) != 0) exit(1);
    run_steps(b, b->o.steps, &loss, &issue_us);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    const double leased = w.n > 0 ? w.sum_bytes / w.n : 0, live = mean_live(b);
    printf("{\"net\": \"%s\", \"batch\": %lld, \"mean_leased_bytes\": %.0f, "
           "\"mean_live_bytes\": %.0f, \"ratio\": %.4f}\n",
           b->o.net, (long long)b->o.batch, leased, live, leased / live);
}

/* -- where the time goes ------------------------------------------------------------------- */

typedef struct line {
    char   key[96];
    double ns;
    int    n;
} line;

static int
by_time(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void
print_ops(bench *b)
{
    line          l[256];
    int           n = 0;
    double        all = 0;
    zi_cost      *c;
    zi_graph_diag d = {0};

    must(zi_exec_measured(b->e, &c), "measured", &d);
    for (zi_node_id i = 0; i < b->g->n_nodes; i++) {
        char key[96];
        int  k;
        snprintf(key, sizeof key, "%s %s", zi_op_get(b->g->nodes[i].op)->text,
                 zi_exec_kernel_text(b->e, i));
        for (k = 0; k < n && strcmp(l[k].key, key) != 0; k++) continue;
        if (k == 256) continue;
        if (k == n) {
            memcpy(l[n].key, key, sizeof key);
            l[n].ns = 0;
            l[n++].n = 0;
        }
        l[k].ns += (double)c->node_ns[i];
        l[k].n++;
        all += (double)c->node_ns[i];
    }
    qsort(l, (size_t)n, sizeof *l, by_time);
    for (int k = 0; k < n; k++)
        fprintf(stderr, "%8.2f ms %5.1f %% %4d x %s\n", l[k].ns * 1e-6,
                100 * l[k].ns / all, l[k].n, l[k].key);
    fprintf(stderr, "%8.2f ms all\n", all * 1e-6);
    zi_cost_free(c);
}

static void
parse(int argc, char **argv, options *o)
{
    static const char *const optims[] = {"sgd", "momentum", "adam", "adamw"};

    *o = (options){
        .batch = 16, .threads = 1, .steps = 5, .warm = 2, .optim = ZI_OPTIM_MOMENTUM};
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--ops") == 0)
            o->ops = true;
        else if (strcmp(argv[i], "--cpu") == 0)
            o->cpu = true;
        else if (strcmp(argv[i], "--follow") == 0)
            o->follow = true;
        else if (strcmp(argv[i], "--batch") == 0)
            o->batch = atoll(v), i++;
        else if (strcmp(argv[i], "--threads") == 0)
            o->threads = (unsigned)atoi(v), i++;
        else if (strcmp(argv[i], "--steps") == 0)
            o->steps = (unsigned)atoi(v), i++;
        else if (strcmp(argv[i], "--pool") == 0)
            o->pool_mib = (unsigned)atoi(v), i++;
        else if (strcmp(argv[i], "--warm") == 0)
            o->warm = (unsigned)atoi(v), i++;
        else if (strcmp(argv[i], "--optim") == 0) {
            for (int k = 0; k < 4; k++)
                if (strcmp(v, optims[k]) == 0) o->optim = (zi_optim_kind)k;
            i++;
        } else
            o->net = argv[i];
    }
    if (!o->net) {
        fprintf(stderr,
                "usage: engine_step NET [--batch N] [--threads N] [--steps N] [--ops]\n");
        exit(2);
    }
}

static void
open_pool(bench *b)
{
    zi_graph_diag            d = {0};
    const zi_session_options so = {.local_bytes = (uint64_t)b->o.pool_mib << 20,
                                   .local_region_bytes = 2u << 20};

    if (b->o.pool_mib) must(zi_session_open(&so, &b->session), "pool", &d);
}

int
main(int argc, char **argv)
{
    bench          b = {0};
    double         loss = 0, issue_us = 0;
    zi_graph_diag  d = {0};
    zi_exec_memory m;

    parse(argc, argv, &b.o);
    if (b.o.cpu) measured = CLOCK_PROCESS_CPUTIME_ID;
    const double t0 = now_s();
    b.g = build(&b.o);
    open_pool(&b);
    zi_exec_options opt = {.graph = b.g,
                           .session = b.session,
                           .n_threads = b.o.threads,
                           .seed = 1};
    must(zi_exec_new(&opt, &d, &b.e), "prepare", &d);
    const double start_s = now_s() - t0;
    make_feeds(&b);
    run_steps(&b, b.o.warm, &loss, &issue_us);
    zi_exec_forget_times(b.e);
    if (b.o.follow) {
        char line_in[64];
        printf("ready\n");
        fflush(stdout);
        while (fgets(line_in, sizeof line_in, stdin) &&
               strncmp(line_in, "go", 2) == 0) { /* the number is --steps */
            printf("%.6f\n", run_steps(&b, b.o.steps, &loss, &issue_us));
            fflush(stdout);
        }
    }
    const double step_s = b.o.follow ? 0 : run_steps(&b, b.o.steps, &loss, &issue_us);
    zi_exec_read_memory(b.e, &m);
    if (b.o.ops) print_ops(&b);
    if (b.session) measure_leases(&b);
    printf("{\"net\": \"%s\", \"batch\": %lld, \"threads\": %u, \"step_ms\": %.3f, "
           "\"loss\": %.6f, \"peak_bytes\": %llu, \"live_bytes\": %llu, \"fixed_bytes\": "
           "%llu, "
           "\"outside_bytes\": %llu, \"start_s\": %.3f, \"issue_us_per_op\": %.3f, "
           "\"slots_mean_ratio\": %.4f, \"nodes\": %u}\n",
           b.o.net, (long long)b.o.batch, b.o.threads, step_s * 1e3, loss,
           (unsigned long long)m.peak_slot_bytes, (unsigned long long)m.peak_live_bytes,
           (unsigned long long)m.fixed_bytes, (unsigned long long)m.outside_bytes,
           start_s, issue_us, m.mean_ratio, b.g->n_nodes);
    for (size_t i = 0; i < b.n_feeds; i++) free((void *)(uintptr_t)b.feeds[i].data);
    free(b.feeds);
    zi_exec_free(b.e);
    zi_session_close(b.session);
    zi_graph_free(b.g);
    return 0;
}

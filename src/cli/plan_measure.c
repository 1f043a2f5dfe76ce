/* plan_measure.c -- executes plans beside keep, and foretells each step from those before it. */
#include "cli/plan_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "base/try.h"
#include "os/os.h"

#define WARM_STEPS                                                                       \
    1u /* memory is touched, blocks of the spill file are written for the first time */
#define STEPS_MAX  64u
#define FIT_ROUNDS 4 /* speeds of copies: how often they are fitted to what was seen */
#define ROOM_FACTOR                                                                      \
    3 /* keep stays beside the plans if there is so many times its memory */
#define AGREE_PART    16 /* of keep's time: two runs that differ by less agree */
#define MEASURED_MOST 3  /* times that keep is measured until two agree */

/* -- what is fed ------------------------------------------------------------------------------ */

static void
free_feeds(zi_exec_feed *feeds, size_t n)
{
    for (size_t i = 0; i < n; i++) zi_free((void *)(uintptr_t)feeds[i].data);
    zi_free(feeds);
}

/* Numbers in [0, 1) for images, zeros for words and labels. */
static zico_status
make_feeds(const zi_graph *g, zi_exec_feed **ret_feeds, size_t *ret_n)
{
    zi_exec_feed *feeds = zi_calloc(g->n_tensors + 1u, sizeof *feeds);
    zi_rng        rng = zi_rng_seed(1);
    size_t        n = 0;

    if (!feeds) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if ((x->role != ZI_ROLE_INPUT && x->role != ZI_ROLE_LABEL) || t == g->lr ||
            t == g->step)
            continue;
        float *data = zi_calloc(1, x->bytes + sizeof *data);
        if (!data) {
            free_feeds(feeds, n);
            return ZICO_E_NOMEM;
        }
        for (int64_t i = 0; x->dtype == ZI_DTYPE_F32 && i < zi_tensor_elems(x); i++)
            data[i] = (float)zi_rng_unit(&rng);
        feeds[n++] = (zi_exec_feed){t, data};
    }
    *ret_feeds = feeds;
    *ret_n = n;
    return ZICO_OK;
}

/* -- what the kernel sees ---------------------------------------------------------------------- */

/* The process's memory: `line` of its status, "VmRSS:" or "VmHWM:" (the highest since the reset). */
static uint64_t
kernel_bytes(const char *line)
{
    FILE              *f = fopen("/proc/self/status", "r");
    char               text[256];
    unsigned long long kib = 0;

    while (f && fgets(text, sizeof text, f))
        if (!strncmp(text, line, strlen(line))) sscanf(text + strlen(line), "%llu", &kib);
    if (f) fclose(f);
    return kib * 1024;
}

static void
reset_highest(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

/* Would so many bytes fit into the machine's memory? */
static bool
has_room(uint64_t bytes)
{
    FILE              *f = fopen("/proc/meminfo", "r");
    char               text[256];
    unsigned long long kib = 0;

    while (f && fgets(text, sizeof text, f))
        if (sscanf(text, "MemAvailable: %llu", &kib) == 1) break;
    if (f) fclose(f);
    return kib * 1024 >= bytes;
}

/* -- steps ------------------------------------------------------------------------------------- */

static int
by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t
median(uint64_t *x, unsigned n)
{
    qsort(x, n, sizeof *x, by_u64);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static zico_status
run_step(const zi_study *s, zi_exec *e, uint64_t step, zi_exec_step_result *ret)
{
    ZI_TRY(zi_exec_step(e, s->feeds, s->n_feeds, 1e-4f, step));
    ZI_TRY(zi_exec_result(e, true, ret));
    return ret->status < 0 && ret->status != ZICO_E_NAN ? ret->status : ZICO_OK;
}

static zico_status
open_exec(zi_study *s, const zi_plan *plan, zi_train_diag *diag, zi_exec **ret_exec)
{
    zi_exec_options xo = {.graph = s->graph,
                          .plan = plan,
                          .n_threads = s->opt.n_threads,
                          .run_ahead = 1,
                          .seed = 1,
                          .tier = s->tier};
    zi_graph_diag   why = {.text = ""};

    zico_status st = zi_exec_new(&xo, &why, ret_exec);
    if (st < 0)
        return zi_train_fail(diag, st, "%s: %s", s->opt.net,
                             *why.text ? why.text : zico_status_text(st));
    return ZICO_OK;
}

/* -- what nodes take: keep ----------------------------------------------------------------------- */

/* A step takes a little more than its nodes: what lies between them is theirs, too. */
static void
spread_over_nodes(zi_cost *c, uint64_t step_ns)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) sum += c->node_ns[i];
    for (uint32_t i = 0; i < c->n_nodes && sum > 0; i++)
        c->node_ns[i] = (uint64_t)((double)c->node_ns[i] * (double)step_ns / (double)sum);
}

/* Node times of the steps since the last zi_exec_forget_times, as parts of `step_ns`. */
static zico_status
learn_nodes(zi_study *s, zi_exec *keep, uint64_t step_ns)
{
    zi_cost *c;

    ZI_TRY(zi_exec_measured(keep, &c));
    spread_over_nodes(c, step_ns);
    memcpy(s->cost->node_ns, c->node_ns, c->n_nodes * sizeof *c->node_ns);
    zi_cost_free(c);
    return ZICO_OK;
}

static zico_status
measure_keep(zi_study *s, zi_exec *keep, uint64_t *ret_ns)
{
    uint64_t            ns[STEPS_MAX];
    zi_exec_step_result r;

    for (unsigned i = 0; i < WARM_STEPS; i++) ZI_TRY(run_step(s, keep, 1 + i, &r));
    zi_exec_forget_times(keep);
    for (unsigned i = 0; i < s->opt.n_steps; i++) {
        ZI_TRY(run_step(s, keep, 1 + WARM_STEPS + i, &r));
        ns[i] = r.ns;
    }
    *ret_ns = median(ns, s->opt.n_steps);
    return learn_nodes(s, keep, *ret_ns);
}

/* Until it takes as long as the time before: if it did not, something else was going on. */
static zico_status
measure_until_it_agrees(zi_study *s, zi_exec *keep)
{
    uint64_t ns = 0;

    for (int i = 0; i < MEASURED_MOST; i++) {
        const uint64_t before = ns;
        ZI_TRY(measure_keep(s, keep, &ns));
        if (ns < before + before / AGREE_PART && before < ns + ns / AGREE_PART) break;
    }
    s->keep_ns = ns;
    return ZICO_OK;
}

zico_status
zi_study_open_yard(zi_study *s, zi_train_diag *diag)
{
    zi_plan *plan;
    zi_exec *keep = NULL;

    if (s->opt.n_steps > STEPS_MAX) s->opt.n_steps = STEPS_MAX;
    ZI_TRY(make_feeds(s->graph, &s->feeds, &s->n_feeds));
    ZI_TRY(zi_plan_keep(s->graph, s->cost, &plan));
    zico_status st = open_exec(s, plan, diag, &keep);
    zi_plan_free(plan);
    if (st < 0) return st;
    st = measure_until_it_agrees(s, keep);
    if (st < 0) zi_train_fail(diag, st, "%s: %s", s->opt.net, zico_status_text(st));
    if (st >= 0 && has_room(ROOM_FACTOR * s->keep_bytes))
        s->yard = keep;
    else
        zi_exec_free(keep);
    return st;
}

void
zi_study_close_yard(zi_study *s)
{
    zi_exec_free(s->yard);
    if (s->feeds) free_feeds(s->feeds, s->n_feeds);
    s->yard = NULL;
    s->feeds = NULL;
}

/* -- what copies take: the plan's own --------------------------------------------------------------- */

typedef struct run {
    zi_study      *s;
    const zi_plan *plan;
    zi_exec       *e;
    zi_tier_stats  seen; /* when the first step that counts began */
    unsigned       n;    /* steps since */
} run;

/* Bring a speed to where the simulator's copies take as long as those that were seen. */
static double
fitted(double bytes_per_s, uint64_t foreseen_ns, uint64_t seen_ns)
{
    return foreseen_ns && seen_ns ? bytes_per_s * (double)foreseen_ns / (double)seen_ns
                                  : bytes_per_s;
}

/* The step to come, by keep's nodes and the plan's own copies so far. */
static zico_status
foretell(const run *r, zi_forecast *ret)
{
    zi_cost        c = *r->s->cost; /* the arrays are not ours */
    zi_tier_stats  now = {0};
    const uint64_t n = r->n ? r->n : 1;

    if (r->s->tier) zi_tier_read_stats(r->s->tier, &now);
    for (int i = 0; i < FIT_ROUNDS; i++) {
        ZI_TRY(zi_plan_simulate(r->plan, r->s->graph, &c, NULL, ret));
        if (!r->n || !r->s->tier) break;
        c.out_bytes_per_s =
            fitted(c.out_bytes_per_s, ret->out_ns, (now.out_ns - r->seen.out_ns) / n);
        c.in_bytes_per_s =
            fitted(c.in_bytes_per_s, ret->in_ns, (now.in_ns - r->seen.in_ns) / n);
    }
    return zi_plan_simulate(r->plan, r->s->graph, &c, NULL, ret);
}

/* -- both -------------------------------------------------------------------------------------------- */

typedef struct samples {
    uint64_t    step_ns[STEPS_MAX], stall_ns[STEPS_MAX], keep_ns[STEPS_MAX + 1];
    zi_forecast foretold[STEPS_MAX];
} samples;

/* keep, then the plan; the first pair only tells how fast the copies are. */
static zico_status
run_pairs(run *r, samples *x)
{
    zi_study           *s = r->s;
    zi_exec_step_result res;

    for (unsigned i = 0; i < WARM_STEPS; i++) ZI_TRY(run_step(s, r->e, 1 + i, &res));
    if (s->tier) zi_tier_read_stats(s->tier, &r->seen);
    if (s->yard) zi_exec_forget_times(s->yard);
    for (unsigned i = 0; i <= s->opt.n_steps; i++) {
        uint64_t keep_ns = s->keep_ns;
        if (s->yard) {
            ZI_TRY(run_step(s, s->yard, 1 + i, &res));
            keep_ns = res.ns;
            ZI_TRY(learn_nodes(s, s->yard, keep_ns));
        }
        if (i > 0) ZI_TRY(foretell(r, &x->foretold[i - 1]));
        ZI_TRY(run_step(s, r->e, 1 + WARM_STEPS + i, &res));
        r->n++;
        x->keep_ns[i] = keep_ns;
        if (i == 0) continue;
        x->step_ns[i - 1] = res.ns;
        x->stall_ns[i - 1] = res.stall_ns;
    }
    return ZICO_OK;
}

static int
by_step(const void *a, const void *b)
{
    const zi_forecast *x = a, *y = b;
    return x->step_ns < y->step_ns ? -1 : x->step_ns > y->step_ns;
}

static double
speed(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

static zico_status
fill_row(const run *r, samples *x, zi_study_row *row)
{
    zi_study      *s = r->s;
    const unsigned n = s->opt.n_steps;
    zi_exec_memory m;
    zi_tier_stats  now = r->seen;

    zi_exec_read_memory(r->e, &m);
    if (s->tier) zi_tier_read_stats(s->tier, &now);
    qsort(x->foretold, n, sizeof *x->foretold, by_step);
    row->measured = true;
    row->forecast = x->foretold[n / 2];
    row->peak_bytes = m.peak_slot_bytes;
    row->step_ns = median(x->step_ns, n);
    row->stall_ns = median(x->stall_ns, n);
    row->fastest_ns = x->step_ns[0];
    row->keep_ns = median(x->keep_ns, n + 1);
    row->out_bytes_per_s =
        speed(now.out_bytes - r->seen.out_bytes, now.out_ns - r->seen.out_ns);
    row->in_bytes_per_s =
        speed(now.in_bytes - r->seen.in_bytes, now.in_ns - r->seen.in_ns);
    return s->yard ? learn_nodes(s, s->yard, row->keep_ns) : ZICO_OK;
}

zico_status
zi_study_execute(zi_study *s, const zi_plan *plan, zi_train_diag *diag, zi_study_row *row)
{
    samples        x;
    run            r = {.s = s, .plan = plan};
    const uint64_t before = kernel_bytes("VmRSS:");

    reset_highest();
    if (!s->feeds) ZI_TRY(make_feeds(s->graph, &s->feeds, &s->n_feeds));
    ZI_TRY(open_exec(s, plan, diag, &r.e));
    zico_status st = run_pairs(&r, &x);
    row->kernel_bytes = kernel_bytes("VmHWM:") - before;
    if (st >= 0) st = fill_row(&r, &x, row);
    if (st < 0) zi_train_fail(diag, st, "%s: %s", s->opt.net, zico_status_text(st));
    zi_exec_free(r.e);
    return st;
}

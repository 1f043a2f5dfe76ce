/* plan_study.c -- builds a network, measures it, asks planners, executes what they say. */
#include "cli/plan_study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "base/try.h"
#include "os/os.h"
#include "train/net.h"

#define TIER_SHARE    0.8 /* copies share the memory with computation */
#define TIER_PROBE    (64ull << 20)
#define WARM_STEPS    1u
#define STEPS_MAX     64u
#define MEASURED_MOST 3 /* times that keep is measured until two agree */

/* -- opening ----------------------------------------------------------------------------------- */

static zico_status
build(const zi_study_options *opt, int64_t batch, zi_train_diag *diag,
      zi_graph **ret_graph)
{
    zi_graph_diag why = {.text = ""};
    zi_optim      optim = zi_optim_default(ZI_OPTIM_MOMENTUM);
    zi_graph     *g;

    ZI_TRY(zi_net_build(zi_os_real(), opt->net, batch, true, 1, diag, &g));
    zico_status st = g->loss == ZI_ID_NONE ? ZICO_E_ARG : zi_graph_fuse(g, &why);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &why);
    if (st >= 0) st = zi_graph_add_update(g, &optim, &why);
    if (st < 0) {
        zi_train_fail(diag, st, "%s: %s", opt->net,
                      *why.text ? why.text : "has no loss to train on");
        zi_graph_free(g);
        return st;
    }
    *ret_graph = g;
    return ZICO_OK;
}

static zico_status
open_tier(zi_study *s, zi_train_diag *diag)
{
    if (!s->opt.tier) return ZICO_OK;
    zico_status st = zi_tier_open(zi_os_real(), s->opt.tier, &s->tier);
    if (st < 0)
        return zi_train_fail(diag, st, "--tier %s: %s", s->opt.tier,
                             zico_status_text(st));
    return ZICO_OK;
}

/* Copy speeds of the tier; none without one. */
static zico_status
know_tier(zi_study *s, zi_cost *c, zi_train_diag *diag)
{
    static const double first_guess = 1e9;

    c->out_bytes_per_s = c->in_bytes_per_s = 0;
    c->copy_latency_ns = 100000;
    if (!s->tier) return ZICO_OK;
    if (s->cost) { /* measured before */
        c->out_bytes_per_s = s->cost->out_bytes_per_s;
        c->in_bytes_per_s = s->cost->in_bytes_per_s;
        return ZICO_OK;
    }
    c->out_bytes_per_s = c->in_bytes_per_s = first_guess;
    zico_status st =
        zi_tier_measure(s->tier, TIER_PROBE, &c->out_bytes_per_s, &c->in_bytes_per_s);
    if (st < 0)
        return zi_train_fail(diag, st, "--tier %s: %s", s->opt.tier,
                             zico_status_text(st));
    return ZICO_OK;
}

/* -- executing ----------------------------------------------------------------------------------- */

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

static int
by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static zico_status
run_steps(zi_exec *e, const zi_exec_feed *feeds, size_t n_feeds, unsigned n_steps,
          zi_study_row *row)
{
    uint64_t ns[STEPS_MAX], stall[STEPS_MAX];

    for (unsigned i = 0; i < WARM_STEPS + n_steps; i++) {
        zi_exec_step_result r;
        if (i == WARM_STEPS) zi_exec_forget_times(e);
        ZI_TRY(zi_exec_step(e, feeds, n_feeds, 1e-4f, i + 1));
        ZI_TRY(zi_exec_result(e, true, &r));
        if (r.status < 0 && r.status != ZICO_E_NAN) return r.status;
        if (i < WARM_STEPS) continue;
        ns[i - WARM_STEPS] = r.ns;
        stall[i - WARM_STEPS] = r.stall_ns;
    }
    qsort(ns, n_steps, sizeof *ns, by_u64);
    qsort(stall, n_steps, sizeof *stall, by_u64);
    row->measured = true;
    row->step_ns = ns[n_steps / 2];
    row->stall_ns = stall[n_steps / 2];
    row->fastest_ns = ns[0];
    return ZICO_OK;
}

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

/* Execute a plan for some steps; ret_cost (may be NULL) takes what nodes took. */
static zico_status
execute(zi_study *s, const zi_plan *plan, zi_train_diag *diag, zi_study_row *row,
        zi_cost **ret_cost)
{
    zi_exec_options xo = {.graph = s->graph,
                          .plan = plan,
                          .n_threads = s->opt.n_threads,
                          .run_ahead = 1,
                          .seed = 1,
                          .tier = s->tier};
    zi_graph_diag   why = {.text = ""};
    zi_exec        *e = NULL;
    zi_exec_feed   *feeds = NULL;
    size_t          n_feeds = 0;
    zi_exec_memory  m;

    zico_status st = make_feeds(s->graph, &feeds, &n_feeds);
    uint64_t    before = kernel_bytes("VmRSS:");
    reset_highest();
    if (st >= 0) st = zi_exec_new(&xo, &why, &e);
    if (st >= 0) st = run_steps(e, feeds, n_feeds, s->opt.n_steps, row);
    if (st >= 0) {
        zi_exec_read_memory(e, &m);
        row->peak_bytes = m.peak_slot_bytes;
        row->kernel_bytes = kernel_bytes("VmHWM:") - before;
        if (ret_cost) st = zi_exec_measured(e, ret_cost);
    }
    if (st < 0)
        zi_train_fail(diag, st, "%s: %s", s->opt.net,
                      *why.text ? why.text : zico_status_text(st));
    zi_exec_free(e);
    free_feeds(feeds, n_feeds);
    return st;
}

/* -- asking ---------------------------------------------------------------------------------------- */

zico_status
zi_study_ask(zi_study *s, const zi_planner_ops *ops, uint64_t budget_bytes,
             zi_train_diag *diag, zi_study_row *ret_row, zi_plan **ret_plan)
{
    zi_study_row   row = {.planner = ops->name, .budget_bytes = budget_bytes};
    zi_plan_task   task = {.graph = s->graph,
                           .cost = s->cost,
                           .budget_bytes = budget_bytes};
    zi_place_stats stats;
    zi_plan       *plan = NULL;
    const zi_os   *os = zi_os_real();
    uint64_t       begin = os->now_ns(os);

    zico_status st =
        zi_planner_fit(ops, &task, 0, s->align, &plan, &stats, &row.least_bytes);
    row.plan_ns = os->now_ns(os) - begin;
    if (ret_plan) *ret_plan = NULL;
    if (st == ZICO_E_NOPLAN) {
        *ret_row = row;
        return ZICO_OK;
    }
    if (st < 0)
        return zi_train_fail(diag, st, "planner %s: %s", ops->name, zico_status_text(st));
    row.fits = true;
    row.peak_bytes = stats.peak_slot_bytes;
    row.planner = ops->name;
    st = zi_plan_simulate(plan, s->graph, s->cost, NULL, &row.forecast);
    if (st >= 0) st = zi_plan_check(plan, s->graph, s->cost, 0, &row.verdict);
    if (st >= 0 && s->opt.n_steps) st = execute(s, plan, diag, &row, NULL);
    if (st >= 0 && ret_plan)
        *ret_plan = plan;
    else
        zi_plan_free(plan);
    if (st >= 0) *ret_row = row;
    return st;
}

/* A step takes a little more than its nodes: what lies between them is theirs, too. */
static void
spread_over_nodes(zi_cost *c, uint64_t step_ns)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) sum += c->node_ns[i];
    for (uint32_t i = 0; i < c->n_nodes && sum > 0; i++)
        c->node_ns[i] = (uint64_t)((double)c->node_ns[i] * (double)step_ns / (double)sum);
}

static zico_status
measure_keep(zi_study *s, zi_train_diag *diag)
{
    zi_study_row row = {0};
    zi_cost     *measured = NULL;
    zi_plan     *keep;

    ZI_TRY(zi_plan_keep(s->graph, s->cost, &keep));
    zico_status st = execute(s, keep, diag, &row, &measured);
    zi_plan_free(keep);
    if (st < 0) return st;
    spread_over_nodes(measured, row.step_ns);
    st = know_tier(s, measured, diag);
    if (st < 0) {
        zi_cost_free(measured);
        return st;
    }
    zi_cost_free(s->cost);
    s->cost = measured;
    return ZICO_OK;
}

/* Did keep take as long the second time?  If not, something else was going on. */
static bool
is_near(uint64_t a, uint64_t b)
{
    return a < b + b / 16 && b < a + a / 16;
}

zico_status
zi_study_open(const zi_study_options *opt, zi_train_diag *diag, zi_study *ret_study)
{
    zi_study        s = {.opt = *opt};
    zi_study_row    row;
    zi_graph_diag   why = {.text = ""};
    zi_exec_options xo = {.n_threads = opt->n_threads};

    if (s.opt.n_steps > STEPS_MAX) s.opt.n_steps = STEPS_MAX;
    zico_status st = build(opt, opt->batch, diag, &s.graph);
    if (st >= 0) st = open_tier(&s, diag);
    s.align = s.tier ? ZI_TIER_ALIGN : 64;
    if (st >= 0) {
        zi_cost *c = NULL;
        xo.graph = s.graph;
        xo.tier = s.tier;
        st = zi_exec_cost(&xo, &why, &c);
        if (st < 0) zi_train_fail(diag, st, "%s: %s", opt->net, why.text);
        if (st >= 0) st = know_tier(&s, c, diag);
        s.cost = c;
    }
    for (int i = 0; i < MEASURED_MOST && st >= 0; i++) {
        if (s.opt.n_steps) st = measure_keep(&s, diag);
        if (st >= 0) st = zi_study_ask(&s, zi_planner_find("keep"), 0, diag, &row, NULL);
        if (st < 0 || !row.measured || is_near(row.forecast.step_ns, row.step_ns)) break;
    }
    if (st < 0) {
        zi_study_close(&s);
        return st;
    }
    s.keep_bytes = row.peak_bytes;
    s.keep_ns = row.measured ? row.step_ns : row.forecast.step_ns;
    *ret_study = s;
    return ZICO_OK;
}

void
zi_study_close(zi_study *s)
{
    zi_cost_free(s->cost);
    zi_graph_free(s->graph);
    zi_tier_close(s->tier);
    *s = (zi_study){0};
}

/* -- the largest batch ------------------------------------------------------------------------------ */

static zico_status
batch_fits(const zi_study_options *opt, const zi_planner_ops *ops, int64_t batch,
           uint64_t budget_bytes, zi_train_diag *diag, bool *ret_fits)
{
    zi_graph     *g;
    zi_cost      *c = NULL;
    zi_plan      *p = NULL;
    zi_graph_diag why = {.text = ""};

    ZI_TRY(build(opt, batch, diag, &g));
    zi_exec_options xo = {.graph = g, .n_threads = opt->n_threads};
    zico_status     st = zi_exec_cost(&xo, &why, &c);
    if (st >= 0) {
        if (!opt->tier) c->out_bytes_per_s = c->in_bytes_per_s = 0;
        zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = budget_bytes};
        st =
            zi_planner_fit(ops, &task, 0, opt->tier ? ZI_TIER_ALIGN : 64, &p, NULL, NULL);
    } else {
        zi_train_fail(diag, st, "%s: %s", opt->net, why.text);
    }
    *ret_fits = st >= 0;
    zi_plan_free(p);
    zi_cost_free(c);
    zi_graph_free(g);
    return st == ZICO_E_NOPLAN ? ZICO_OK : st;
}

zico_status
zi_study_max_batch(const zi_study_options *opt, const zi_planner_ops *ops,
                   uint64_t budget_bytes, zi_train_diag *diag, int64_t *ret_batch)
{
    int64_t lo = 0, hi = 1;
    bool    fits = true;

    while (fits && hi < (int64_t)1 << 20) { /* lo fits, hi is to be seen */
        ZI_TRY(batch_fits(opt, ops, hi, budget_bytes, diag, &fits));
        if (fits) {
            lo = hi;
            hi *= 2;
        }
    }
    while (hi - lo > 1 && hi - lo > lo / 32) { /* three per cent is fine enough */
        int64_t mid = lo + (hi - lo) / 2;
        ZI_TRY(batch_fits(opt, ops, mid, budget_bytes, diag, &fits));
        if (fits)
            lo = mid;
        else
            hi = mid;
    }
    *ret_batch = lo;
    return ZICO_OK;
}

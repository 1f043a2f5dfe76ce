/* plan_study.c -- builds a network, measures it, asks planners, executes what they say. */
#include "cli/plan_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/try.h"
#include "os/os.h"
#include "train/net.h"

#define TIER_PROBE   (64ull << 20)
#define COPY_LATENCY 50000u /* ns that a copy of no bytes takes */

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
    zi_tier_speed v = {0};

    if (s->tier) {
        zico_status st = zi_tier_speeds(s->tier, TIER_PROBE, &v);
        if (st < 0)
            return zi_train_fail(diag, st, "--tier %s: %s", s->opt.tier,
                                 zico_status_text(st));
    }
    c->out_bytes_per_s = v.out_bytes_per_s;
    c->in_bytes_per_s = v.in_bytes_per_s;
    c->out_beside = v.out_beside;
    c->in_beside = v.in_beside;
    c->copy_latency_ns = COPY_LATENCY;
    if (s->opt.n_threads == 0) c->copy_cpu_ns = v.copy_cpu_ns; /* no core is left over */
    return ZICO_OK;
}

/* -- asking ---------------------------------------------------------------------------------------- */

/* Plans with the same acts run the same (FNV-1a). */
static uint64_t
hash_acts(const zi_plan *p)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < p->n_acts; i++) {
        const zi_act  *a = &p->acts[i];
        const uint64_t x = (uint64_t)a->kind << 48 | (uint64_t)a->over << 40 | a->what;
        for (int byte = 0; byte < 7; byte++)
            h = (h ^ (x >> (8 * byte) & 0xff)) * 0x100000001b3ull;
    }
    return h;
}

/* What was measured of a plan with the same acts; false: none was. */
static bool
recall(const zi_study *s, zi_study_row *row)
{
    for (size_t i = 0; i < s->n_executed; i++) {
        const zi_study_row *r = &s->executed[i];
        if (r->plan_hash != row->plan_hash) continue;
        const zi_study_row now = *row;
        *row = *r;
        row->planner = now.planner;
        row->budget_bytes = now.budget_bytes;
        row->plan_ns = now.plan_ns;
        row->same = true;
        return true;
    }
    return false;
}

static zico_status
execute_once(zi_study *s, const zi_plan *plan, zi_train_diag *diag, zi_study_row *row)
{
    row->plan_hash = hash_acts(plan);
    if (recall(s, row)) return ZICO_OK;
    ZI_TRY(zi_study_execute(s, plan, diag, row));
    zi_study_row *more =
        zi_realloc_array(s->executed, s->n_executed + 1, sizeof *s->executed);
    if (!more) return ZICO_E_NOMEM;
    s->executed = more;
    s->executed[s->n_executed++] = *row;
    return ZICO_OK;
}

/* Time that this thread had a core: what planning takes, whatever else goes on. */
static uint64_t
own_cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

zico_status
zi_study_ask(zi_study *s, const zi_planner_ops *ops, uint64_t budget_bytes,
             zi_train_diag *diag, zi_study_row *ret_row, zi_plan **ret_plan)
{
    zi_study_row   row = {.planner = ops->name,
                          .budget_bytes = budget_bytes,
                          .keep_ns = s->keep_ns};
    zi_plan_task   task = {.graph = s->graph,
                           .cost = s->cost,
                           .budget_bytes = budget_bytes};
    zi_place_stats stats;
    zi_plan       *plan = NULL;
    const uint64_t begin = own_cpu_ns();

    zico_status st =
        zi_planner_fit(ops, &task, 0, s->align, &plan, &stats, &row.least_bytes);
    row.plan_ns = own_cpu_ns() - begin;
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
    if (st >= 0 && s->opt.n_steps) st = execute_once(s, plan, diag, &row);
    if (st >= 0 && ret_plan)
        *ret_plan = plan;
    else
        zi_plan_free(plan);
    if (st >= 0) *ret_row = row;
    return st;
}

zico_status
zi_study_open(const zi_study_options *opt, zi_train_diag *diag, zi_study *ret_study)
{
    zi_study        s = {.opt = *opt};
    zi_study_row    row;
    zi_graph_diag   why = {.text = ""};
    zi_exec_options xo = {.n_threads = opt->n_threads};

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
    s.opt.n_steps = 0; /* how large keep is, first */
    if (st >= 0) st = zi_study_ask(&s, zi_planner_find("keep"), 0, diag, &row, NULL);
    s.opt.n_steps = opt->n_steps;
    if (st >= 0) {
        s.keep_bytes = row.peak_bytes;
        s.keep_ns = row.forecast.step_ns;
        if (s.opt.n_steps) st = zi_study_open_yard(&s, diag);
    }
    if (st < 0) {
        zi_study_close(&s);
        return st;
    }
    *ret_study = s;
    return ZICO_OK;
}

void
zi_study_close(zi_study *s)
{
    zi_study_close_yard(s);
    zi_free(s->executed);
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

/* plan_study.c -- builds a network, measures it, asks planners, executes what they say. */
#include "cli/plan_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/try.h"
#include "exec/tier_cost.h"
#include "os/os.h"
#include "train/net.h"

#define TIER_PROBE (64ull << 20)

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

/* Bytes as they will be, times as guessed. */
static zico_status
guess_cost(const zi_study *s, const zi_graph *g, zi_train_diag *diag, zi_cost **ret_cost)
{
    zi_exec_options xo = {.graph = g, .n_threads = s->opt.n_threads, .tier = s->tier};
    zi_graph_diag   why = {.text = ""};

    zico_status st = zi_exec_cost(&xo, &why, ret_cost);
    if (st < 0) return zi_train_fail(diag, st, "%s: %s", s->opt.net, why.text);
    if (!s->tier) zi_tier_cost_set(*ret_cost, NULL, s->opt.n_threads);
    return ZICO_OK;
}

/* Copy speeds of the tier, as they are now. */
static zico_status
know_tier(zi_study *s, zi_train_diag *diag)
{
    zi_tier_speed v;

    if (!s->tier) return ZICO_OK;
    zico_status st = zi_tier_speeds(s->tier, TIER_PROBE, &v);
    if (st < 0)
        return zi_train_fail(diag, st, "--tier %s: %s", s->opt.tier,
                             zico_status_text(st));
    zi_tier_cost_set(s->cost, &v, s->opt.n_threads);
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

/* Time that this thread had a core: what planning takes, whatever else goes on. */
static uint64_t
own_cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

zico_status
zi_study_plan(zi_study *s, const zi_planner_ops *ops, uint64_t budget_bytes,
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
    *ret_plan = NULL;
    if (st == ZICO_E_NOPLAN) {
        *ret_row = row;
        return ZICO_OK;
    }
    if (st >= 0) st = zi_plan_simulate(plan, s->graph, s->cost, NULL, &row.forecast);
    if (st >= 0) st = zi_plan_check(plan, s->graph, s->cost, 0, &row.verdict);
    if (st < 0) {
        zi_plan_free(plan);
        return zi_train_fail(diag, st, "planner %s: %s", ops->name, zico_status_text(st));
    }
    row.fits = true;
    row.peak_bytes = stats.peak_slot_bytes;
    row.plan_hash = hash_acts(plan);
    *ret_row = row;
    *ret_plan = plan;
    return ZICO_OK;
}

zico_status
zi_study_ask(zi_study *s, const zi_planner_ops *ops, uint64_t budget_bytes,
             zi_train_diag *diag, zi_study_row *ret_row, zi_plan **ret_plan)
{
    zi_plan     *plan;
    zi_study_row row;

    ZI_TRY(zi_study_plan(s, ops, budget_bytes, diag, &row, &plan));
    zico_status st = ZICO_OK;
    if (s->opt.n_steps) st = zi_study_measure(s, &row, &plan, 1, NULL, diag);
    if (st >= 0) *ret_row = row;
    if (st >= 0 && ret_plan)
        *ret_plan = plan;
    else
        zi_plan_free(plan);
    return st;
}

/* How large keep is, and how long its step would take. */
static zico_status
foresee_keep(zi_study *s, zi_train_diag *diag)
{
    zi_study_row row;
    zi_plan     *plan;

    ZI_TRY(zi_study_plan(s, zi_planner_find("keep"), 0, diag, &row, &plan));
    zi_plan_free(plan);
    s->keep_bytes = row.peak_bytes;
    s->keep_ns = row.forecast.step_ns;
    return ZICO_OK;
}

zico_status
zi_study_open(const zi_study_options *opt, zi_train_diag *diag, zi_study *ret_study)
{
    zi_study s = {.opt = *opt};

    zico_status st = build(opt, opt->batch, diag, &s.graph);
    if (st >= 0) st = open_tier(&s, diag);
    s.align = s.tier ? ZI_TIER_ALIGN : 64;
    if (st >= 0) st = guess_cost(&s, s.graph, diag, &s.cost);
    if (st >= 0) st = know_tier(&s, diag);
    if (st >= 0) st = foresee_keep(&s, diag);
    if (st >= 0 && s.opt.n_steps) st = zi_study_open_yard(&s, diag);
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
    zi_cost_free(s->cost);
    zi_graph_free(s->graph);
    zi_tier_close(s->tier);
    *s = (zi_study){0};
}

/* -- the largest batch ------------------------------------------------------------------------------ */

/* With the bytes that a study of that batch would have, and guessed times. */
static zico_status
batch_fits(const zi_study *s, const zi_planner_ops *ops, int64_t batch,
           uint64_t budget_bytes, zi_train_diag *diag, bool *ret_fits)
{
    zi_graph *g;
    zi_cost  *c = NULL;
    zi_plan  *p = NULL;

    ZI_TRY(build(&s->opt, batch, diag, &g));
    zico_status st = guess_cost(s, g, diag, &c);
    if (st >= 0) {
        zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = budget_bytes};
        st = zi_planner_fit(ops, &task, 0, s->align, &p, NULL, NULL);
    }
    *ret_fits = st >= 0;
    zi_plan_free(p);
    zi_cost_free(c);
    zi_graph_free(g);
    return st == ZICO_E_NOPLAN ? ZICO_OK : st;
}

/* Double, then halve the interval. */
static zico_status
search_batch(const zi_study *s, const zi_planner_ops *ops, uint64_t budget_bytes,
             zi_train_diag *diag, int64_t *ret_batch)
{
    int64_t lo = 0, hi = 1;
    bool    fits = true;

    while (fits && hi < (int64_t)1 << 20) { /* lo fits, hi is to be seen */
        ZI_TRY(batch_fits(s, ops, hi, budget_bytes, diag, &fits));
        if (fits) {
            lo = hi;
            hi *= 2;
        }
    }
    while (hi - lo > 1 && hi - lo > lo / 32) { /* three per cent is fine enough */
        int64_t mid = lo + (hi - lo) / 2;
        ZI_TRY(batch_fits(s, ops, mid, budget_bytes, diag, &fits));
        if (fits)
            lo = mid;
        else
            hi = mid;
    }
    *ret_batch = lo;
    return ZICO_OK;
}

zico_status
zi_study_max_batch(const zi_study_options *opt, const zi_planner_ops *ops,
                   uint64_t budget_bytes, zi_train_diag *diag, int64_t *ret_batch)
{
    zi_study s = {.opt = *opt};

    ZI_TRY(open_tier(&s, diag)); /* its bytes lie as a study's would */
    s.align = s.tier ? ZI_TIER_ALIGN : 64;
    zico_status st = search_batch(&s, ops, budget_bytes, diag, ret_batch);
    zi_tier_close(s.tier);
    return st;
}

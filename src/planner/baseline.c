/* baseline.c -- plans to compare with: keep, keep-all, and cheap.
 *
 * keep frees after the last use and overwrites dying inputs; keep-all frees nothing.  cheap makes
 * again what costs no more than passing over memory (normalisation, activations, concatenation,
 * dropout), as much of it as the budget asks for, and nothing else.
 */
#include "base/check.h"
#include "base/try.h"
#include "planner/capuchin.h"
#include "planner/planners.h"

static zico_status
hand_out(const zi_plan_task *task, zi_plan *plan, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_verdict  v;
    zico_status st = zi_plan_check(plan, task->graph, task->cost, task->budget_bytes, &v);
    if (st >= 0) {
        *ret_plan = plan;
        return ZICO_OK;
    }
    if (st == ZICO_E_NOPLAN &&
        v.rule == 7) { /* the peak up to there is not the whole one */
        zico_status whole = zi_plan_check(plan, task->graph, task->cost, 0, &v);
        zi_assert(whole >= 0 || whole == ZICO_E_NOMEM);
        if (ret_least) *ret_least = v.peak_bytes;
    }
    zi_plan_free(plan);
    return st;
}

static zico_status
keep(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_plan *p;
    ZI_TRY(zi_plan_keep(task->graph, task->cost, &p));
    return hand_out(task, p, ret_plan, ret_least);
}

static zico_status
keep_all(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_plan *p;
    ZI_TRY(zi_plan_keep_all(task->graph, task->cost, &p));
    return hand_out(task, p, ret_plan, ret_least);
}

/* Without a budget: everything that is cheap. */
static zico_status
cheap(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_capuchin_options opt = {.planner = "cheap",
                               .redo = true,
                               .cheap_only = true,
                               .at_once = task->budget_bytes == 0};
    zi_draft           *d;
    zi_trial            best = {0};

    ZI_TRY(zi_draft_new(task->graph, task->cost, &d));
    zico_status st = zi_capuchin_choose(d, &opt, task->budget_bytes, &best);
    if (st >= 0) st = zi_trial_finish(&best, ret_plan, ret_least);
    zi_draft_free(d);
    return st;
}

const zi_planner_ops zi_planner_keep = {
    .name = "keep",
    .paper = "baseline: free after last use",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_DROP,
    .solve = keep,
};

const zi_planner_ops zi_planner_keep_all = {
    .name = "keep-all",
    .paper = "baseline: free nothing",
    .emits = 1u << ZI_ACT_RUN,
    .solve = keep_all,
};

const zi_planner_ops zi_planner_cheap = {
    .name = "cheap",
    .paper = "baseline: recompute what is cheap",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_REDO | 1u << ZI_ACT_DROP,
    .solve = cheap,
};

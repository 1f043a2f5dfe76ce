/* auto.c -- the fastest plan that fits, whoever made it.
 *
 * Asks every other planner and compares by the simulator.  If nobody meets the budget, least is
 * the smallest peak that anybody reached.
 */
#include "base/try.h"
#include "planner/planners.h"

static zico_status
solve(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_plan    *best = NULL;
    zi_forecast best_f = {0}, f;
    uint64_t    least = UINT64_MAX;
    zico_status st = ZICO_OK;

    for (size_t i = 0; zi_planner_at(i); i++) {
        const zi_planner_ops *ops = zi_planner_at(i);
        zi_plan              *p = NULL;
        uint64_t              small = UINT64_MAX;
        if (ops == &zi_planner_auto || ops == &zi_planner_keep_all) continue;
        st = ops->solve(task, &p, &small);
        if (st == ZICO_E_NOPLAN) {
            if (small < least) least = small;
            continue;
        }
        if (st >= 0) st = zi_plan_simulate(p, task->graph, task->cost, NULL, &f);
        if (st < 0) {
            zi_plan_free(p);
            zi_plan_free(best);
            return st;
        }
        if (!best || f.step_ns < best_f.step_ns) {
            zi_plan_free(best);
            best = p;
            best_f = f;
        } else {
            zi_plan_free(p);
        }
        if (ops == &zi_planner_keep) break; /* nothing is faster than doing nothing */
    }
    if (!best) {
        if (ret_least) *ret_least = least;
        return ZICO_E_NOPLAN;
    }
    *ret_plan = best;
    return ZICO_OK;
}

const zi_planner_ops zi_planner_auto = {
    .name = "auto",
    .paper = "the fastest of all that fit",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_REDO | 1u << ZI_ACT_DROP | 1u << ZI_ACT_OUT |
             1u << ZI_ACT_IN | 1u << ZI_ACT_WAIT,
    .solve = solve,
};

/* fit.c -- a planner's plan, so tight that its placement fits, too. */
#include "planner/planner.h"

#include "base/try.h"

#define TRIES 8

/* Solve for `goal_bytes` and place. */
static zico_status
solve_and_place(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t goal_bytes,
                uint64_t region_bytes, uint64_t align, zi_plan **ret_plan,
                zi_place_stats *ret_stats, uint64_t *ret_least)
{
    zi_plan_task goal = *task;
    zi_plan     *p;

    goal.budget_bytes = goal_bytes;
    ZI_TRY(ops->solve(&goal, &p, ret_least));
    zico_status st =
        zi_plan_place(p, task->graph, task->cost, region_bytes, align, ret_stats);
    if (st < 0) {
        zi_plan_free(p);
        return st;
    }
    *ret_plan = p;
    return ZICO_OK;
}

zico_status
zi_planner_fit(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t region_bytes,
               uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
               uint64_t *ret_least)
{
    uint64_t goal = task->budget_bytes, least = UINT64_MAX;
    bool     at_least = false; /* the smallest plan there is was tried */

    for (int i = 0; i < TRIES; i++) {
        zi_plan       *p = NULL;
        zi_place_stats stats;
        uint64_t       small = UINT64_MAX;
        zico_status    st =
            solve_and_place(ops, task, goal, region_bytes, align, &p, &stats, &small);
        if (st == ZICO_E_NOPLAN) {
            bool     once_more = !at_least && small > goal && small <= task->budget_bytes;
            uint64_t need =
                small + (task->budget_bytes - goal); /* with what placing wastes */
            if (need < least) least = need;
            if (!once_more) break;
            at_least = true;
            goal = small;
            continue;
        }
        if (st < 0) return st;
        if (!task->budget_bytes || stats.peak_slot_bytes <= task->budget_bytes) {
            *ret_plan = p;
            if (ret_stats) *ret_stats = stats;
            return ZICO_OK;
        }
        zi_plan_free(p);
        if (stats.peak_slot_bytes < least) least = stats.peak_slot_bytes;
        uint64_t lower =
            stats.peak_slot_bytes - task->budget_bytes + task->budget_bytes / 500;
        if (lower >= goal || at_least) break;
        goal -= lower;
    }
    if (ret_least) *ret_least = least;
    return ZICO_E_NOPLAN;
}

/* fit.c -- a planner's plan, so tight that its placement fits, too.
 *
 * F1  Whether there is a plan must not hang on how fast the machine is at the moment: where none
 *     is found with the task's times, the same is asked with times that only the graph decides
 *     (zi_cost_plain), and at last with copies that take no time: they come in at the last moment and
 *     lie most tightly.  What fits with those fits with all.
 */
#include "planner/planners.h"

#include <string.h>
#include "base/alloc.h"
#include "base/try.h"

#define TRIES 8
#define FINE  50 /* goals that differ by less than this part of the budget are one */

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

/* Goals below the budget: one that was met but could not be placed lies above, one that could
 * not be met below; the smallest plan there is comes last. */
typedef struct hunt {
    uint64_t budget, goal;
    uint64_t met, missed; /* 0: none yet */
    uint64_t smallest;    /* of what a planner said that it can */
    uint64_t least;       /* that was seen, placed */
    bool     at_smallest;
} hunt;

/* The last that is tried. */
static bool
aim_at_smallest(hunt *h)
{
    if (h->smallest <= h->missed || h->smallest > h->budget) return false;
    h->at_smallest = true;
    h->goal = h->smallest;
    return true;
}

/* The goal was missed: between it and what was met, or the smallest; false: give up. */
static bool
aim_higher(hunt *h, uint64_t small)
{
    uint64_t need = small + (h->budget - h->goal); /* with what placing wastes */
    if (need < h->least) h->least = need;
    if (h->at_smallest) return false;
    if (small < h->smallest) h->smallest = small;
    h->missed =
        h->smallest > h->goal && h->smallest <= h->met ? h->smallest - 1 : h->goal;
    if (h->met && h->met - h->missed > h->budget / FINE) {
        h->goal = h->missed + (h->met - h->missed) / 2;
        return true;
    }
    return aim_at_smallest(h);
}

/* Met, but the placement takes `slots`. */
static bool
aim_lower(hunt *h, uint64_t slots)
{
    uint64_t lower = slots - h->budget + h->budget / 500;
    if (slots < h->least) h->least = slots;
    if (h->at_smallest || lower >= h->goal) return false;
    h->met = h->goal;
    if (h->missed && h->goal - lower <= h->missed) {
        if (h->goal - h->missed <= h->budget / FINE) return aim_at_smallest(h);
        lower = (h->goal - h->missed + 1) / 2;
    }
    h->goal -= lower;
    return true;
}

/* One planner's, placed within the budget. */
static zico_status
fit_one(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t region_bytes,
        uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
        uint64_t *ret_least)
{
    hunt h = {.budget = task->budget_bytes,
              .goal = task->budget_bytes,
              .smallest = UINT64_MAX,
              .least = UINT64_MAX};
    bool more = true;

    for (int i = 0; i < TRIES && more; i++) {
        zi_plan       *p = NULL;
        zi_place_stats stats;
        uint64_t       small = UINT64_MAX;
        zico_status    st =
            solve_and_place(ops, task, h.goal, region_bytes, align, &p, &stats, &small);
        if (st == ZICO_E_NOPLAN) {
            more = aim_higher(&h, small);
            continue;
        }
        if (st < 0) return st;
        if (!h.budget || stats.peak_slot_bytes <= h.budget) {
            *ret_plan = p;
            *ret_stats = stats;
            return ZICO_OK;
        }
        zi_plan_free(p);
        more = aim_lower(&h, stats.peak_slot_bytes);
    }
    *ret_least = h.least;
    return ZICO_E_NOPLAN;
}

/* Everybody's own (but `but`'s), placed; the fastest of them.  What is fastest before placing may
 * not fit where a slower one does. */
static zico_status
fit_fastest(const zi_planner_ops *but, const zi_plan_task *task, uint64_t region_bytes,
            uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
            uint64_t *ret_least)
{
    zi_plan *best = NULL;
    uint64_t best_ns = UINT64_MAX;

    *ret_least = UINT64_MAX;
    for (size_t i = 0; zi_planner_at(i); i++) {
        const zi_planner_ops *ops = zi_planner_at(i);
        zi_plan              *p = NULL;
        zi_place_stats        stats;
        zi_forecast           f;
        uint64_t              least = UINT64_MAX;
        if (ops == &zi_planner_auto || ops == &zi_planner_keep_all || ops == but)
            continue;
        zico_status st = fit_one(ops, task, region_bytes, align, &p, &stats, &least);
        if (st == ZICO_E_NOPLAN) {
            if (least < *ret_least) *ret_least = least;
            continue;
        }
        if (st >= 0) st = zi_plan_simulate(p, task->graph, task->cost, NULL, &f);
        if (st < 0) {
            zi_plan_free(p);
            zi_plan_free(best);
            return st;
        }
        if (best && f.step_ns >= best_ns) {
            zi_plan_free(p);
            continue;
        }
        zi_plan_free(best);
        best = p;
        best_ns = f.step_ns;
        *ret_stats = stats;
        if (ops == &zi_planner_keep) break; /* nothing is faster than doing nothing */
    }
    *ret_plan = best;
    return best ? ZICO_OK : ZICO_E_NOPLAN;
}

/* Its own plan cannot be placed: as somebody else's rules say, if they lie more tightly. */
static zico_status
fit_by_rules(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t region_bytes,
             uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
             uint64_t *ret_least)
{
    uint64_t    least = UINT64_MAX;
    zico_status st =
        fit_fastest(ops, task, region_bytes, align, ret_plan, ret_stats, &least);
    if (least < *ret_least) *ret_least = least;
    if (st < 0) return st;
    zi_free((*ret_plan)->planner);
    (*ret_plan)->planner = zi_strdup(ops->name);
    if ((*ret_plan)->planner) return ZICO_OK;
    zi_plan_free(*ret_plan);
    return ZICO_E_NOMEM;
}

/* The planner's own, or by rules; with the task's costs only. */
static zico_status
fit_with_costs(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t region_bytes,
               uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
               uint64_t *ret_least)
{
    zico_status st =
        ops == &zi_planner_auto
            ? fit_fastest(ops, task, region_bytes, align, ret_plan, ret_stats, ret_least)
            : fit_one(ops, task, region_bytes, align, ret_plan, ret_stats, ret_least);

    if (st == ZICO_E_NOPLAN && ops->by_rules)
        st = fit_by_rules(ops, task, region_bytes, align, ret_plan, ret_stats, ret_least);
    return st;
}

static bool
same_copies(const zi_cost *a, const zi_cost *b)
{
    if (!(a->out_bytes_per_s > 0) && !(b->out_bytes_per_s > 0)) return true; /* none */
    return a->out_bytes_per_s == b->out_bytes_per_s &&
           a->in_bytes_per_s == b->in_bytes_per_s && a->out_beside == b->out_beside &&
           a->in_beside == b->in_beside && a->copy_latency_ns == b->copy_latency_ns &&
           a->copy_cpu_ns == b->copy_cpu_ns;
}

static bool
same_times(const zi_cost *a, const zi_cost *b)
{
    return same_copies(a, b) &&
           !memcmp(a->node_ns, b->node_ns, a->n_nodes * sizeof *a->node_ns);
}

/* F1 */
static zico_status
fit_with_plain_costs(const zi_planner_ops *ops, const zi_plan_task *task, bool instant,
                     uint64_t region_bytes, uint64_t align, zi_plan **ret_plan,
                     zi_place_stats *ret_stats, uint64_t *ret_least)
{
    zi_plan_task plain = *task;
    uint64_t     least = UINT64_MAX;
    zi_cost     *c;

    ZI_TRY(zi_cost_plain(task->graph, task->cost, instant, &c));
    plain.cost = c;
    plain.lead_ns = NULL;
    zico_status st = same_times(task->cost, c) && !task->lead_ns
                         ? ZICO_E_NOPLAN /* as it was */
                         : fit_with_costs(ops, &plain, region_bytes, align, ret_plan,
                                          ret_stats, &least);
    if (least < *ret_least) *ret_least = least;
    zi_cost_free(c);
    return st;
}

zico_status
zi_planner_fit(const zi_planner_ops *ops, const zi_plan_task *task, uint64_t region_bytes,
               uint64_t align, zi_plan **ret_plan, zi_place_stats *ret_stats,
               uint64_t *ret_least)
{
    zi_place_stats stats = {0};
    uint64_t       least = UINT64_MAX;
    zico_status    st =
        fit_with_costs(ops, task, region_bytes, align, ret_plan, &stats, &least);

    const int n_plain = task->cost->out_bytes_per_s > 0 ? 2 : 1; /* no copies: once */
    for (int instant = 0; instant < n_plain && st == ZICO_E_NOPLAN; instant++)
        st = fit_with_plain_costs(ops, task, instant, region_bytes, align, ret_plan,
                                  &stats, &least);
    if (st >= 0 && ret_stats) *ret_stats = stats;
    if (st == ZICO_E_NOPLAN && ret_least) *ret_least = least;
    return st;
}

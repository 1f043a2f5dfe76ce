/* tier_cost_test.c -- a tier's speeds as costs, and speeds fitted to what was seen. */
#include "exec/tier_cost.h"
#include "planner/planner.h"
#include "support/plan_nets.h"
#include "test.h"

static const zi_tier_speed disk = {.out_bytes_per_s = 2e9,
                                   .in_bytes_per_s = 1e9,
                                   .out_beside = 0.3,
                                   .in_beside = 0.8,
                                   .copy_cpu_ns = 40000};

/* Everything that was measured counts; a core for copies only where computation has them all. */
static void
all_of_it(void **state)
{
    zi_cost c = {0};

    (void)state;
    zi_tier_cost_set(&c, &disk, 0);
    assert_true(c.out_bytes_per_s == 2e9 && c.in_bytes_per_s == 1e9);
    assert_true(c.out_beside == 0.3 && c.in_beside == 0.8);
    assert_int_equal(40000, c.copy_cpu_ns);
    zi_tier_cost_set(&c, &disk, 1);
    assert_int_equal(0, c.copy_cpu_ns);
    zi_tier_cost_set(&c, NULL, 0);
    assert_true(c.out_bytes_per_s == 0 && c.in_bytes_per_s == 0 && c.out_beside == 0);
}

/* Copies took three times as long as foreseen: with the fitted speeds they are foreseen so; what
 * was not seen stays. */
static void
fitted(void **state)
{
    zi_graph   *g = t_net_residual(6, 4);
    zi_plan    *p;
    zi_forecast before, after;
    zi_cost    *c;

    (void)state;
    expect_ok(zi_cost_guess(g, &c));
    zi_tier_cost_set(c, &disk, 1);
    zi_plan_task task = {.graph = g, .cost = c};
    expect_ok(zi_planner_find("keep")->solve(&task, &p, NULL));
    expect_ok(zi_plan_simulate(p, g, c, NULL, &before));
    task.budget_bytes = before.peak_bytes * 6 / 10;
    zi_plan_free(p);
    expect_ok(zi_planner_find("vdnn")->solve(&task, &p, NULL));
    expect_ok(zi_plan_simulate(p, g, c, NULL, &before));
    assert_true(before.out_ns > 0 && before.in_ns > 0);

    expect_ok(zi_tier_cost_fit(c, p, g, 0, 0));
    assert_true(c->out_bytes_per_s == 2e9 && c->in_bytes_per_s == 1e9);
    expect_ok(zi_tier_cost_fit(c, p, g, 3 * before.out_ns, 3 * before.in_ns));
    expect_ok(zi_plan_simulate(p, g, c, NULL, &after));
    assert_true(after.out_ns > 3 * before.out_ns * 9 / 10);
    assert_true(after.out_ns < 3 * before.out_ns * 11 / 10);
    assert_true(after.in_ns > 3 * before.in_ns * 9 / 10);
    assert_true(after.in_ns < 3 * before.in_ns * 11 / 10);
    zi_plan_free(p);
    zi_cost_free(c);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_of_it),
                                       cmocka_unit_test(fitted)};
    return t_main(tests);
}

/* planner_test.c -- what every planner promises, on nets of every shape and random ones. */
#include "planner/planner.h"
#include "plan/plan.h"
#include "support/plan_nets.h"
#include "test.h"

static zi_cost *
guess(const zi_graph *g)
{
    zi_cost *c;
    expect_ok(zi_cost_guess(g, &c));
    c->copy_latency_ns = 500;
    return c;
}

static uint64_t
keep_peak(const zi_graph *g, const zi_cost *c, uint64_t *ret_ns)
{
    zi_plan    *p;
    zi_forecast f;
    expect_ok(zi_plan_keep(g, c, &p));
    expect_ok(zi_plan_simulate(p, g, c, NULL, &f));
    zi_plan_free(p);
    *ret_ns = f.step_ns;
    return f.peak_bytes;
}

static bool
same_plan(const zi_plan *a, const zi_plan *b)
{
    if (a->n_acts != b->n_acts) return false;
    for (uint32_t i = 0; i < a->n_acts; i++)
        if (a->acts[i].kind != b->acts[i].kind || a->acts[i].what != b->acts[i].what ||
            a->acts[i].over != b->acts[i].over)
            return false;
    return true;
}

/* One planner, one task: either a plan that the checker accepts, with allowed acts only, the
 * same when asked twice; or an honest "cannot fit" that says how small it got. */
static bool
judge(const zi_planner_ops *ops, const zi_graph *g, const zi_cost *c, uint64_t budget,
      zi_forecast *ret_f)
{
    zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = budget};
    zi_plan     *p = NULL, *again = NULL;
    uint64_t     least = 0;
    zi_verdict   v;
    zico_status  st = ops->solve(&task, &p, &least);

    if (st == ZICO_E_NOPLAN) {
        assert_null(p);
        assert_true(least > budget && least < UINT64_MAX);
        return false;
    }
    expect_ok(st);
    st = zi_plan_check(p, g, c, budget, &v);
    if (st < 0) fail_msg("%s on %s: P%d %s", ops->name, g->name, v.rule, v.text);
    for (uint32_t i = 0; i < p->n_acts; i++)
        assert_true(ops->emits >> p->acts[i].kind & 1);
    assert_string_equal(!strcmp(ops->name, "auto") ? p->planner : ops->name, p->planner);
    expect_ok(zi_plan_simulate(p, g, c, NULL, ret_f));
    expect_ok(ops->solve(&task, &again, &least));
    assert_true(same_plan(p, again));
    zi_plan_free(p);
    zi_plan_free(again);
    return true;
}

static void
judge_all(const zi_graph *g, const zi_cost *c, uint64_t budget, bool show)
{
    uint64_t keep_ns, peak = keep_peak(g, c, &keep_ns), best = UINT64_MAX;
    for (size_t i = 1; zi_planner_at(i); i++) {
        const zi_planner_ops *ops = zi_planner_at(i);
        zi_forecast           f;
        bool                  all = !strcmp(ops->name, "keep-all");
        bool                  done = judge(ops, g, c, budget, &f);
        if (show)
            printf("%10s %5.0f%% %12s %s %.3f\n", g->name, 100.0 * budget / peak,
                   ops->name, done ? "time" : "-",
                   done ? (double)f.step_ns / keep_ns : 0);
        if (peak <= budget && !all) { /* never worse than doing nothing */
            assert_true(done);
            assert_true(f.step_ns <= keep_ns && f.peak_bytes <= budget);
        }
        if (done && !all && f.step_ns < best) best = f.step_ns;
    }
    zi_forecast f;
    assert_int_equal(best < UINT64_MAX, judge(zi_planner_find("auto"), g, c, budget, &f));
    if (best < UINT64_MAX) assert_int_equal(best, f.step_ns);
}

/* Every planner on every kind of net, from everything down to almost nothing. */
static void
nets_and_budgets(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        zi_cost  *c = guess(g);
        uint64_t  ns, peak = keep_peak(g, c, &ns);
        for (unsigned percent = 110; percent >= 20; percent -= 15)
            judge_all(g, c, peak * percent / 100, getenv("ZI_SHOW") != NULL);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* Random graphs, random budgets, random speeds of the tier. */
static void
random_graphs(void **state)
{
    (void)state;
    unsigned rounds = t_rounds(15, 500);
    for (unsigned i = 0; i < rounds; i++) {
        zi_graph *g = t_net_random();
        zi_cost  *c = guess(g);
        uint64_t  ns, peak = keep_peak(g, c, &ns);
        c->out_bytes_per_s = t_rand_below(4) ? 1e8 * (double)(1 + t_rand_below(100)) : 0;
        if (t_rand_below(5) == 0) c->tier_bytes = t_rand_below(peak);
        judge_all(g, c, peak * (20 + t_rand_below(90)) / 100, false);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* What zi_planner_fit hands out lies within the budget with everything that placing wastes; what
 * it refuses it says the need of. */
static void
placed_within_budget(void **state)
{
    (void)state;
    unsigned n_placed = 0;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        zi_cost  *c = guess(g);
        uint64_t  ns, peak = keep_peak(g, c, &ns);
        for (unsigned percent = 120; percent >= 60; percent -= 20) {
            zi_plan_task   task = {.graph = g,
                                   .cost = c,
                                   .budget_bytes = peak * percent / 100};
            uint64_t       region = percent % 40 ? 16384 : 0, least = 0;
            zi_plan       *p;
            zi_place_stats s;
            zi_verdict     v;
            zico_status    st = zi_planner_fit(zi_planner_find("capuchin"), &task, region,
                                               64, &p, &s, &least);
            if (st == ZICO_E_NOPLAN) {
                assert_true(least > task.budget_bytes);
                continue;
            }
            expect_ok(st);
            assert_true(s.peak_slot_bytes <= task.budget_bytes);
            expect_ok(zi_plan_check(p, g, c, task.budget_bytes, &v));
            assert_true(p->n_places > 0);
            n_placed++;
            zi_plan_free(p);
        }
        zi_cost_free(c);
        zi_graph_free(g);
    }
    assert_true(n_placed >= t_n_nets);
}

/* auto finds a place wherever anybody does, and is as fast as the fastest of them. */
static void
auto_fits_like_the_best(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        zi_cost  *c = guess(g);
        uint64_t  ns, peak = keep_peak(g, c, &ns);
        for (unsigned percent = 110; percent >= 40; percent -= 14) {
            zi_plan_task task = {.graph = g,
                                 .cost = c,
                                 .budget_bytes = peak * percent / 100};
            uint64_t     best = UINT64_MAX;
            for (size_t k = 0; zi_planner_at(k); k++) {
                const zi_planner_ops *ops =
                    zi_planner_at(zi_planner_at(k + 1) ? k + 1 : 0);
                zi_plan    *p;
                zi_forecast f;
                zico_status st = zi_planner_fit(ops, &task, 0, 64, &p, NULL, NULL);
                bool        is_auto = !strcmp(ops->name, "auto"); /* comes last */
                if (st == ZICO_E_NOPLAN) {
                    assert_true(!is_auto || best == UINT64_MAX);
                    continue;
                }
                expect_ok(st);
                expect_ok(zi_plan_simulate(p, g, c, NULL, &f));
                if (is_auto) assert_int_equal(best, f.step_ns);
                if (f.step_ns < best && strcmp(ops->name, "keep-all")) best = f.step_ns;
                zi_plan_free(p);
            }
        }
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* Machines and moods: copies that cost nothing, or take for ever; nodes that are fast or slow, each
 * in its own way. */
#define N_MOODS 5

static zi_cost *
mood(const zi_graph *g, unsigned which)
{
    zi_cost *c;
    expect_ok(zi_cost_guess(g, &c));
    if (which == 1) c->out_bytes_per_s = c->in_bytes_per_s = 1e12, c->copy_latency_ns = 0;
    if (which == 2) c->out_bytes_per_s = 2e7, c->in_bytes_per_s = 5e7;
    if (which == 3)
        c->out_beside = 0.2, c->in_beside = 0.8, c->in_bytes_per_s = 1e9,
        c->copy_cpu_ns = 50000;
    for (uint32_t i = 0; i < c->n_nodes && which >= 2; i++) {
        if (which == 2) c->node_ns[i] *= 20;
        if (which == 3) c->node_ns[i] = 1 + c->node_ns[i] / 20;
        if (which == 4) c->node_ns[i] = 1 + c->node_ns[i] * (1 + t_rand_below(100)) / 10;
    }
    return c;
}

/* Whether a plan fits is a matter of bytes: what is found with one machine's times is found with
 * those of every other, by every planner, placed. */
static void
fits_whatever_the_speed(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        zi_cost  *c[N_MOODS];
        uint64_t  ns;
        for (unsigned m = 0; m < N_MOODS; m++) c[m] = mood(g, m);
        const uint64_t peak = keep_peak(g, c[0], &ns);
        for (unsigned percent = 86; percent >= 60; percent -= percent > 80 ? 8 : 18)
            for (size_t k = 0; zi_planner_at(k); k++) {
                bool fits[N_MOODS];
                for (unsigned m = 0; m < N_MOODS; m++) {
                    zi_plan_task task = {.graph = g,
                                         .cost = c[m],
                                         .budget_bytes = peak * percent / 100};
                    zi_plan     *p = NULL;
                    zico_status  st =
                        zi_planner_fit(zi_planner_at(k), &task, 0, 64, &p, NULL, NULL);
                    fits[m] = st >= 0;
                    if (st != ZICO_E_NOPLAN) expect_ok(st);
                    zi_plan_free(p);
                }
                for (unsigned m = 0; m < N_MOODS; m++)
                    if (fits[m] != fits[0])
                        fail_msg("%s at %u %%, %s: mood %u %s, guesses %s", g->name,
                                 percent, zi_planner_at(k)->name, m,
                                 fits[m] ? "fits" : "does not",
                                 fits[0] ? "fit" : "do not");
            }
        for (unsigned m = 0; m < N_MOODS; m++) zi_cost_free(c[m]);
        zi_graph_free(g);
    }
}

/* Names are unique, files are called like them, auto comes first. */
static void
table(void **state)
{
    (void)state;
    assert_string_equal("auto", zi_planner_at(0)->name);
    for (size_t i = 0; zi_planner_at(i); i++)
        assert_ptr_equal(zi_planner_at(i), zi_planner_find(zi_planner_at(i)->name));
    assert_null(zi_planner_find("checkmate-of-tomorrow"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(nets_and_budgets),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(placed_within_budget),
        cmocka_unit_test(auto_fits_like_the_best),
        cmocka_unit_test(fits_whatever_the_speed),
    };
    return t_main(tests);
}

/* capuchin_test.c -- swap what hides, recompute what is cheap, learn from stalls. */
#include "planner/capuchin.h"
#include "support/plan_nets.h"
#include "test.h"

typedef struct setting {
    zi_graph *g;
    zi_cost  *c;
    uint64_t  peak, keep_ns;
} setting;

static setting
start(zi_graph *g)
{
    setting     s = {.g = g};
    zi_plan    *p;
    zi_forecast f;
    expect_ok(zi_cost_guess(g, &s.c));
    s.c->copy_latency_ns = 0;
    expect_ok(zi_plan_keep(g, s.c, &p));
    expect_ok(zi_plan_simulate(p, g, s.c, NULL, &f));
    s.peak = f.peak_bytes;
    s.keep_ns = f.step_ns;
    zi_plan_free(p);
    return s;
}

static void
end(setting *s)
{
    zi_cost_free(s->c);
    zi_graph_free(s->g);
}

static zi_verdict
plan(const setting *s, unsigned percent, zi_forecast *ret_f)
{
    zi_plan_task task = {.graph = s->g,
                         .cost = s->c,
                         .budget_bytes = s->peak * percent / 100};
    zi_plan     *p;
    zi_verdict   v;
    expect_ok(zi_planner_find("capuchin")->solve(&task, &p, NULL));
    expect_ok(zi_plan_check(p, s->g, s->c, task.budget_bytes, &v));
    expect_ok(zi_plan_simulate(p, s->g, s->c, NULL, ret_f));
    zi_plan_free(p);
    return v;
}

/* With a fast tier everything is swapped, and nothing is lost. */
static void
swaps_what_hides(void **state)
{
    (void)state;
    setting     s = start(t_net_residual(8, 4));
    zi_forecast f;
    s.c->out_bytes_per_s = s.c->in_bytes_per_s = 1e12;
    zi_verdict v = plan(&s, 60, &f);
    assert_int_equal(0, v.n_redo);
    assert_true(v.out_bytes > 0);
    assert_true(f.step_ns * 100 <= s.keep_ns * 101);
    end(&s);
}

/* Without a tier, or with one that crawls, everything is recomputed, and the cheapest per byte
 * first: normalisation, not convolution. */
static void
recomputes_what_is_cheap(void **state)
{
    (void)state;
    setting     s = start(t_net_residual(8, 4));
    zi_forecast f;
    for (int slow = 0; slow < 2; slow++) {
        s.c->out_bytes_per_s = s.c->in_bytes_per_s = slow ? 1e6 : 0;
        zi_verdict v = plan(&s, 80, &f);
        assert_true(v.out_bytes <= s.peak / 100); /* crumbs may go out at any speed */
        assert_true(v.n_redo > 0);
        assert_true(f.step_ns * 10 <= s.keep_ns * 11);
    }
    end(&s);
}

/* Faster tiers never make the plan slower, nor do larger budgets (by more than the search's
 * unevenness). */
static void
monotone(void **state)
{
    (void)state;
    setting  s = start(t_net_residual(8, 4));
    uint64_t before = UINT64_MAX;
    for (double speed = 1e8; speed < 1e13; speed *= 10) {
        zi_forecast f;
        s.c->out_bytes_per_s = s.c->in_bytes_per_s = speed;
        (void)plan(&s, 60, &f);
        assert_true(before == UINT64_MAX || f.step_ns <= before + before / 50);
        before = f.step_ns;
    }
    s.c->out_bytes_per_s = s.c->in_bytes_per_s = 1e9;
    before = 0;
    for (unsigned percent = 100; percent >= 50; percent -= 10) {
        zi_forecast f;
        (void)plan(&s, percent, &f);
        assert_true(f.step_ns + before / 50 >= before);
        before = f.step_ns;
    }
    end(&s);
}

/* One round of feedback moves a stalled copy by 5 % of its length, and nobody else. */
static void
feedback(void **state)
{
    (void)state;
    setting      s = start(t_net_residual(2, 4));
    uint64_t    *stall = calloc(s.g->n_tensors, sizeof *stall);
    uint64_t    *lead = calloc(s.g->n_tensors, sizeof *lead);
    zi_tensor_id t = s.g->nodes[0].out[0];
    s.c->in_bytes_per_s = 1e9;
    stall[t] = 1;
    uint64_t takes = s.c->tensor_bytes[t]; /* ns, at a byte a ns */
    for (int round = 1; round <= 3; round++) {
        zi_capuchin_feedback(s.g, s.c, stall, lead);
        assert_in_range(lead[t], (uint64_t)round * takes / 20,
                        (uint64_t)round * (takes / 20 + 1));
    }
    for (zi_tensor_id u = 0; u < s.g->n_tensors; u++)
        if (u != t) assert_int_equal(0, lead[u]);

    /* and planning with it gives a valid plan, also for another budget */
    for (unsigned percent = 90; percent >= 70; percent -= 20) {
        zi_plan_task task = {.graph = s.g,
                             .cost = s.c,
                             .budget_bytes = s.peak * percent / 100};
        zi_plan     *p;
        zi_verdict   v;
        expect_ok(zi_capuchin_plan(&task, lead, &p, NULL));
        expect_ok(zi_plan_check(p, s.g, s.c, task.budget_bytes, &v));
        expect_ok(zi_capuchin_stalls(p, s.g, s.c, stall));
        zi_plan_free(p);
    }
    free(stall);
    free(lead);
    end(&s);
}

/* A tier that reads at four fifths of the speed that was planned with: copies in come late.  Steps
 * of 5 % move those that were waited for until computation waits for nobody; no round makes it worse. */
static void
feedback_converges(void **state)
{
    (void)state;
    setting      s = start(t_net_residual(8, 4));
    uint64_t    *stall = calloc(s.g->n_tensors, sizeof *stall);
    uint64_t    *lead = calloc(s.g->n_tensors, sizeof *lead);
    uint64_t     first = 0, last = UINT64_MAX, moved = 0;
    zi_plan_task task = {.graph = s.g, .cost = s.c, .budget_bytes = s.peak * 70 / 100};
    int          round = 0;

    s.c->out_bytes_per_s = 4e9;
    for (; round < 40; round++) {
        zi_plan    *p;
        zi_forecast f;
        s.c->in_bytes_per_s = 4e9; /* as planned with */
        expect_ok(zi_capuchin_plan(&task, lead, &p, NULL));
        s.c->in_bytes_per_s = 3.2e9; /* as it is */
        expect_ok(zi_plan_simulate(p, s.g, s.c, NULL, &f));
        expect_ok(zi_capuchin_stalls(p, s.g, s.c, stall));
        zi_plan_free(p);
        if (round == 0) first = f.stall_ns;
        assert_true(f.stall_ns <= last);
        last = f.stall_ns;
        if (last == 0) break;
        zi_capuchin_feedback(s.g, s.c, stall, lead);
        for (zi_tensor_id t = 0; t < s.g->n_tensors; t++) moved += lead[t] > 0;
    }
    assert_true(first * 100 > s.keep_ns); /* it did matter: more than 1 % */
    assert_true(round > 0 && moved > 0);
    assert_int_equal(0, last);
    free(stall);
    free(lead);
    end(&s);
}

/* What the others can do, it can do, and not slower (3 %), at every budget: the paper's order. */
static void
not_slower_than_others(void **state)
{
    (void)state;
    static const char *const other[] = {"vdnn", "superneurons", "monger", "cheap"};
    for (size_t i = 0; i < t_n_nets; i++) {
        setting s = start(t_nets[i].make());
        s.c->out_bytes_per_s = 1.5e9;
        s.c->in_bytes_per_s = 3e9;
        for (unsigned percent = 95; percent >= 30; percent -= 5) {
            zi_plan_task task = {.graph = s.g,
                                 .cost = s.c,
                                 .budget_bytes = s.peak * percent / 100};
            for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
                zi_plan    *p, *q;
                zi_forecast f, h;
                if (zi_planner_find(other[k])->solve(&task, &p, NULL) < 0) continue;
                expect_ok(zi_planner_find("capuchin")->solve(&task, &q, NULL));
                expect_ok(zi_plan_simulate(p, s.g, s.c, NULL, &f));
                expect_ok(zi_plan_simulate(q, s.g, s.c, NULL, &h));
                if (h.step_ns > f.step_ns + f.step_ns * 3 / 100)
                    fail_msg("%s at %u %%: capuchin %llu, %s %llu", s.g->name, percent,
                             (unsigned long long)h.step_ns, other[k],
                             (unsigned long long)f.step_ns);
                zi_plan_free(p);
                zi_plan_free(q);
            }
        }
        end(&s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swaps_what_hides),   cmocka_unit_test(recomputes_what_is_cheap),
        cmocka_unit_test(monotone),           cmocka_unit_test(feedback),
        cmocka_unit_test(feedback_converges), cmocka_unit_test(not_slower_than_others),
    };
    return t_main(tests);
}

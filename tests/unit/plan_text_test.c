/* plan_text_test.c -- plans print, parse back to the same, and errors name line and word. */
#include "plan/plan.h"
#include "base/alloc.h"
#include "golden.h"
#include "planner/planner.h"
#include "support/plan_nets.h"
#include "test.h"

/* Every planner's plan comes back from its text act for act. */
static void
round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph  *g = t_nets[i].make();
        zi_cost   *c;
        zi_plan   *keep, *p, *q;
        zi_verdict v;
        expect_ok(zi_cost_guess(g, &c));
        expect_ok(zi_plan_keep(g, c, &keep));
        expect_ok(zi_plan_check(keep, g, c, 0, &v));
        zi_plan_task task = {.graph = g,
                             .cost = c,
                             .budget_bytes = v.peak_bytes * 9 / 10};
        expect_ok(zi_planner_find("capuchin")->solve(&task, &p, NULL));
        char *a, *b;
        expect_ok(zi_plan_print(p, g, &a));
        expect_ok(zi_plan_parse(a, strlen(a), g, NULL, &q));
        expect_ok(zi_plan_print(q, g, &b));
        assert_string_equal(a, b);
        assert_int_equal(p->n_acts, q->n_acts);
        assert_memory_equal(p->acts, q->acts, p->n_acts * sizeof *p->acts);
        assert_string_equal("capuchin", q->planner);
        zi_free(a);
        zi_free(b);
        zi_plan_free(keep);
        zi_plan_free(p);
        zi_plan_free(q);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* The text of small plans, as it is stored and compared by people. */
static void
golden_plans(void **state)
{
    (void)state;
    static const char *const name[] = {"keep", "monger", "vdnn", "superneurons",
                                       "capuchin"};
    zi_graph                *g = t_net_residual(6, 4);
    zi_cost                 *c;
    zi_plan                 *keep;
    zi_verdict               v;
    expect_ok(zi_cost_guess(g, &c));
    c->copy_latency_ns = 1000;
    expect_ok(zi_plan_keep(g, c, &keep));
    expect_ok(zi_plan_check(keep, g, c, 0, &v));
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        zi_plan_task task = {.graph = g,
                             .cost = c,
                             .budget_bytes = v.peak_bytes * (i ? 75 : 100) / 100};
        zi_plan     *p;
        char        *text, file[64];
        expect_ok(zi_planner_find(name[i])->solve(&task, &p, NULL));
        expect_ok(zi_plan_print(p, g, &text));
        snprintf(file, sizeof file, "plan/residual-%s.txt", name[i]);
        t_golden(file, text);
        zi_free(text);
        zi_plan_free(p);
    }
    zi_plan_free(keep);
    zi_cost_free(c);
    zi_graph_free(g);
}

/* What is wrong is named with its line. */
static void
errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
        uint64_t    line;
    } bad[] = {
        {"", "empty", 1},
        {"run stem.conv\n", "begins", 1},
        {"plan x\nfly stem.conv\n", "fly", 2},
        {"plan x\n\nrun nobody\n", "nobody", 3},
        {"plan x\ndrop nobody\n", "nobody", 2},
        {"plan x\nrun stem.conv over\n", "over", 2},
        {"plan x\nrun stem.conv over 9\n", "9", 2},
        {"plan x\nrun stem.conv over two\n", "two", 2},
        {"plan x\nrun stem.conv codec 1\n", "codec", 2},
        {"plan x\nrun stem.conv over 1 2\n", "not an act", 2},
        {"plan x\nrun\n", "not an act", 2},
    };
    zi_graph *g = t_net_residual(1, 2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zi_graph_diag d = {0};
        zi_plan      *p = NULL;
        expect_status(ZICO_E_FORMAT,
                      zi_plan_parse(bad[i].text, strlen(bad[i].text), g, &d, &p));
        assert_null(p);
        if (!strstr(d.text, bad[i].word)) fail_msg("'%s' for %s", d.text, bad[i].text);
        assert_int_equal(bad[i].line, d.line);
    }
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(golden_plans),
        cmocka_unit_test(errors),
    };
    return t_main(tests);
}

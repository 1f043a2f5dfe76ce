/* superneurons_test.c -- three ways to recompute, and the cache under pressure. */
#include "planner/superneurons.h"
#include "support/plan_nets.h"
#include "test.h"

/* speed <= aware <= memory on every net, and where there is something cheap, somebody runs again. */
static void
counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        zi_cost  *c;
        uint32_t  n[ZI_SN_COUNT];
        expect_ok(zi_cost_guess(g, &c));
        expect_ok(zi_superneurons_counts(g, c, n));
        assert_int_equal(0, n[ZI_SN_NONE]);
        assert_true(n[ZI_SN_SPEED] <= n[ZI_SN_AWARE] &&
                    n[ZI_SN_AWARE] <= n[ZI_SN_MEMORY]);
        if (!strcmp(g->name, "residual") || !strcmp(g->name, "dense"))
            assert_true(n[ZI_SN_SPEED] > 0);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* A long LSTM has segments in which memory-centric recomputation would be quadratic: refused, not
 * planned; the planner answers all the same. */
static void
beyond_all_measure(void **state)
{
    (void)state;
    zi_graph *g = t_net_lstm(400, 2, 16);
    zi_cost  *c;
    uint32_t  n[ZI_SN_COUNT];
    zi_plan  *p = NULL;
    uint64_t  least = 0;
    expect_ok(zi_cost_guess(g, &c));
    expect_ok(zi_superneurons_counts(g, c, n));
    assert_int_equal(UINT32_MAX, n[ZI_SN_MEMORY]);
    assert_true(n[ZI_SN_SPEED] < g->n_nodes);
    zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = 1};
    expect_status(ZICO_E_NOPLAN,
                  zi_planner_find("superneurons")->solve(&task, &p, &least));
    assert_true(least > 1);
    zi_cost_free(c);
    zi_graph_free(g);
}

/* Checkpoints never run again, in no mode. */
static void
checkpoints_stay(void **state)
{
    (void)state;
    zi_graph *g = t_net_residual(4, 2);
    zi_cost  *c;
    zi_draft *d;
    expect_ok(zi_cost_guess(g, &c));
    expect_ok(zi_draft_new(g, c, &d));
    for (int mode = ZI_SN_SPEED; mode < ZI_SN_COUNT; mode++) {
        zi_plan *p;
        zi_superneurons_recompute(d, (zi_sn_mode)mode);
        expect_ok(zi_draft_lower(d, "x", 0, &p));
        for (uint32_t i = 0; i < p->n_acts; i++)
            if (p->acts[i].kind == ZI_ACT_REDO)
                assert_false(zi_op_get(g->nodes[p->acts[i].what].op)->flags &
                             ZI_OPF_HEAVY);
        zi_plan_free(p);
    }
    zi_draft_free(d);
    zi_cost_free(c);
    zi_graph_free(g);
}

/* Under pressure the least recently used goes out first: outputs of the first convolutions; and
 * with more pressure more of them. */
static void
least_recently_used(void **state)
{
    (void)state;
    zi_graph  *g = t_net_residual(6, 4);
    zi_cost   *c;
    zi_plan   *keep;
    zi_verdict v;
    expect_ok(zi_cost_guess(g, &c));
    c->copy_latency_ns = 0;
    expect_ok(zi_plan_keep(g, c, &keep));
    expect_ok(zi_plan_check(keep, g, c, 0, &v));
    uint64_t moved = 0;
    for (unsigned percent = 95; percent >= 75; percent -= 10) {
        zi_plan_task task = {.graph = g,
                             .cost = c,
                             .budget_bytes = v.peak_bytes * percent / 100};
        zi_plan     *p;
        zi_verdict   w;
        expect_ok(zi_planner_find("superneurons")->solve(&task, &p, NULL));
        expect_ok(zi_plan_check(p, g, c, task.budget_bytes, &w));
        assert_true(w.out_bytes > moved);
        moved = w.out_bytes;
        zi_node_id made = 0;
        for (uint32_t i = 0; i < p->n_acts; i++) {
            if (p->acts[i].kind != ZI_ACT_OUT) continue;
            zi_node_id n = g->tensors[p->acts[i].what].producer;
            assert_true(zi_op_get(g->nodes[n].op)->flags & ZI_OPF_HEAVY);
            assert_true(n >= made); /* oldest first */
            made = n;
        }
        assert_true(made < g->n_nodes / 3);
        zi_plan_free(p);
    }
    zi_plan_free(keep);
    zi_cost_free(c);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(checkpoints_stay),
        cmocka_unit_test(beyond_all_measure),
        cmocka_unit_test(least_recently_used),
    };
    return t_main(tests);
}

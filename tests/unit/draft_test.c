/* draft_test.c -- any fates give a valid plan, and the plan is what the fates say. */
#include "planner/draft.h"
#include "base/alloc.h"
#include "support/plan_nets.h"
#include "test.h"

static zi_cost *
guess(const zi_graph *g)
{
    zi_cost *c;
    expect_ok(zi_cost_guess(g, &c));
    c->copy_latency_ns = 1000;
    return c;
}

static void
check(const zi_plan *p, const zi_graph *g, const zi_cost *c, zi_verdict *v)
{
    zico_status st = zi_plan_check(p, g, c, 0, v);
    if (st < 0) {
        char *text;
        expect_ok(zi_plan_print(p, g, &text));
        fail_msg("P%d at act %u: %s (%s)\n%s", v->rule, v->bad_act, v->text, g->name,
                 text);
    }
}

/* Without fates a draft lowers to what keep is: same peak, nothing twice, nothing moved. */
static void
no_fates_is_keep(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph  *g = t_nets[i].make();
        zi_cost   *c = guess(g);
        zi_draft  *d;
        zi_plan   *p, *k;
        zi_verdict vp, vk;
        expect_ok(zi_draft_new(g, c, &d));
        expect_ok(zi_draft_lower(d, "x", 0, &p));
        expect_ok(zi_plan_keep(g, c, &k));
        check(p, g, c, &vp);
        check(k, g, c, &vk);
        assert_int_equal(vk.peak_bytes, vp.peak_bytes);
        assert_int_equal(k->n_acts, p->n_acts);
        assert_int_equal(0, vp.n_redo + vp.out_bytes);
        zi_plan_free(p);
        zi_plan_free(k);
        zi_draft_free(d);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

static void
random_fates(zi_draft *d)
{
    unsigned density = 1 + (unsigned)t_rand_below(10), mix = (unsigned)t_rand_below(3);
    zi_draft_reset(d);
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (!zi_draft_may_leave(d, t) || t_rand_below(10) >= density) continue;
        if (zi_draft_longest_gap(d, t).from == ZI_ID_NONE) continue;
        if (mix == 0 || (mix == 2 && t_rand_below(2)))
            zi_draft_redo(d, t);
        else
            zi_draft_swap(d, t);
        zi_fate *f = &d->fate[t];
        if (t_rand_below(3) == 0) f->gap_ns = t_rand_below(f->gap_ns + 1);
        if (t_rand_below(4) == 0) f->group = 1 + (uint32_t)t_rand_below(3);
        if (t_rand_below(4) == 0) f->barrier = true;
        if (t_rand_below(5) == 0) f->hold = true;
        if (t_rand_below(5) == 0) f->to_last = (zi_node_id)t_rand_below(d->g->n_nodes);
        if (t_rand_below(5) == 0)
            zi_draft_leave_in(d, t, f->kind, zi_draft_turn_gap(d, t));
        if (t_rand_below(6) == 0) f->in_at = (zi_node_id)t_rand_below(d->g->n_nodes);
        if (t_rand_below(6) == 0) f->lead_ns = t_rand_below(100000);
    }
    d->collect_ns = t_rand_below(3) ? 0 : UINT64_MAX;
    d->early_out = t_rand_below(2);
    d->on_demand = t_rand_below(4) == 0;
}

/* Whatever the fates, also senseless ones, and whatever the budget: P1 to P6 hold, and the
 * simulated peak is the checker's. */
static void
any_fates_are_valid(void **state)
{
    (void)state;
    unsigned rounds = t_rounds(60, 3000);
    for (unsigned k = 0; k < rounds; k++) {
        zi_graph   *g = k < t_n_nets ? t_nets[k].make() : t_net_random();
        zi_cost    *c = guess(g);
        zi_draft   *d;
        zi_plan    *keep;
        zi_verdict  v;
        zi_forecast f;
        expect_ok(zi_plan_keep(g, c, &keep));
        check(keep, g, c, &v);
        uint64_t peak = v.peak_bytes;
        zi_plan_free(keep);
        expect_ok(zi_draft_new(g, c, &d));
        for (int i = 0; i < 12; i++) {
            zi_plan *p;
            random_fates(d);
            expect_ok(zi_draft_lower(d, "x",
                                     i & 1 ? peak * (4 + t_rand_below(6)) / 10 : 0, &p));
            check(p, g, c, &v);
            expect_ok(zi_plan_simulate(p, g, c, NULL, &f));
            assert_int_equal(v.peak_bytes, f.peak_bytes);
            zi_plan_free(p);
        }
        zi_draft_free(d);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* All recomputable tensors dropped: the peak falls, and every forward node runs at most
 * twice when chains keep what they make. */
static void
redo_everything(void **state)
{
    (void)state;
    zi_graph  *g = t_net_chain(16, 4);
    zi_cost   *c = guess(g);
    zi_draft  *d;
    zi_plan   *p, *k;
    zi_verdict vp, vk;
    expect_ok(zi_draft_new(g, c, &d));
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (zi_draft_may_redo(d, t)) zi_draft_redo(d, t);
    d->collect_ns = UINT64_MAX;
    expect_ok(zi_draft_lower(d, "x", 0, &p));
    expect_ok(zi_plan_keep(g, c, &k));
    check(p, g, c, &vp);
    check(k, g, c, &vk);
    assert_true(vp.n_redo > 10 && vp.n_redo <= g->n_nodes / 2);
    d->collect_ns = 0;
    zi_plan_free(p);
    expect_ok(zi_draft_lower(d, "x", 0, &p));
    check(p, g, c, &vp);
    assert_true(vp.peak_bytes < vk.peak_bytes);
    assert_true(vp.n_redo > g->n_nodes / 2); /* quadratic: the price of least memory */
    zi_plan_free(p);
    zi_plan_free(k);
    zi_draft_free(d);
    zi_cost_free(c);
    zi_graph_free(g);
}

/* A tensor that is swapped leaves after its last reader before the gap and is back before
 * the first one after it; with a fast tier nothing stalls. */
static void
swap_hides_behind_computation(void **state)
{
    (void)state;
    zi_graph   *g = t_net_chain(16, 4);
    zi_cost    *c = guess(g);
    zi_draft   *d;
    zi_plan    *p;
    zi_verdict  v;
    zi_forecast f;
    c->out_bytes_per_s = c->in_bytes_per_s = 1e12;
    c->copy_latency_ns = 0;
    expect_ok(zi_draft_new(g, c, &d));
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (zi_draft_may_redo(d, t)) zi_draft_swap(d, t);
    expect_ok(zi_draft_lower(d, "x", 0, &p));
    check(p, g, c, &v);
    expect_ok(zi_plan_simulate(p, g, c, NULL, &f));
    assert_true(v.out_bytes > 0 && v.out_bytes == v.in_bytes);
    assert_true(f.stall_ns * 100 <= f.busy_ns);
    zi_plan_free(p);
    zi_draft_free(d);
    zi_cost_free(c);
    zi_graph_free(g);
}

/* Nothing goes to a tier that is not there, nor more than it holds. */
static void
tier_limits(void **state)
{
    (void)state;
    zi_graph  *g = t_net_chain(8, 4);
    zi_cost   *c = guess(g);
    zi_draft  *d;
    zi_plan   *p;
    zi_verdict v;
    for (int with = 0; with < 2; with++) {
        if (with)
            c->tier_bytes = 50000;
        else
            c->out_bytes_per_s = 0;
        expect_ok(zi_draft_new(g, c, &d));
        for (zi_tensor_id t = 0; t < g->n_tensors; t++)
            if (zi_draft_may_redo(d, t)) zi_draft_swap(d, t);
        expect_ok(zi_draft_lower(d, "x", 0, &p));
        check(p, g, c, &v);
        assert_true(with ? v.out_bytes > 0 && v.out_bytes <= 50000 : v.out_bytes == 0);
        zi_plan_free(p);
        zi_draft_free(d);
        c->out_bytes_per_s = 1e9;
    }
    zi_cost_free(c);
    zi_graph_free(g);
}

/* Every allocation that can fail, fails once: an error, no leak, no half-made plan. */
static void
no_memory(void **state)
{
    (void)state;
    zi_graph *g = t_net_residual(1, 2);
    zi_cost  *c = guess(g);
    int64_t   live = zi_alloc_n_live();
    for (uint64_t n = 1;; n++) {
        zi_draft *d = NULL;
        zi_plan  *p = NULL;
        zi_alloc_fail_at(n);
        zico_status st = zi_draft_new(g, c, &d);
        if (st >= 0) {
            for (zi_tensor_id t = 0; t < g->n_tensors; t++)
                if (zi_draft_may_redo(d, t))
                    (t & 1 ? zi_draft_redo : zi_draft_swap)(d, t);
            st = zi_draft_lower(d, "x", 0, &p);
        }
        bool failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        expect_status(failed ? ZICO_E_NOMEM : ZICO_OK, st);
        zi_plan_free(p);
        zi_draft_free(d);
        assert_int_equal(live, zi_alloc_n_live());
        if (!failed) break;
    }
    zi_cost_free(c);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_fates_is_keep),
        cmocka_unit_test(any_fates_are_valid),
        cmocka_unit_test(redo_everything),
        cmocka_unit_test(swap_hides_behind_computation),
        cmocka_unit_test(tier_limits),
        cmocka_unit_test(no_memory),
    };
    return t_main(tests);
}

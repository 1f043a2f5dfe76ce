/* vdnn_test.c -- the window rule, the barrier, the ladder. */
#include "planner/vdnn.h"
#include "support/plan_nets.h"
#include "test.h"

typedef struct setting {
    zi_graph *g;
    zi_cost  *c;
    zi_draft *d;
} setting;

static setting
start(void)
{
    setting s = {.g = t_net_chain(8, 4)};
    expect_ok(zi_cost_guess(s.g, &s.c));
    s.c->copy_latency_ns = 0;
    expect_ok(zi_draft_new(s.g, s.c, &s.d));
    return s;
}

static void
end(setting *s)
{
    zi_draft_free(s->d);
    zi_cost_free(s->c);
    zi_graph_free(s->g);
}

static uint32_t
position(const zi_plan *p, zi_act_kind kind, uint32_t what)
{
    for (uint32_t i = 0; i < p->n_acts; i++)
        if (p->acts[i].kind == kind && p->acts[i].what == what) return i;
    return UINT32_MAX;
}

/* Every X goes out before its last forward reader, and computation waits right after that. */
static void
barrier(void **state)
{
    (void)state;
    setting  s = start();
    zi_plan *p;
    unsigned n = 0;
    expect_ok(zi_vdnn_apply(s.d, ZI_VDNN_ALL));
    expect_ok(zi_draft_lower(s.d, "vdnn", 0, &p));
    for (zi_tensor_id t = 0; t < s.g->n_tensors; t++) {
        if (s.d->fate[t].kind != ZI_FATE_SWAP) continue;
        zi_gap gap = zi_draft_turn_gap(s.d, t);
        if (s.g->tensors[t].producer == gap.from) continue; /* goes when it is made */
        uint32_t out = position(p, ZI_ACT_OUT, t),
                 run = position(p, ZI_ACT_RUN, gap.from);
        uint32_t drop = position(p, ZI_ACT_DROP, t);
        uint32_t next = position(p, ZI_ACT_RUN, gap.from + 1);
        assert_true(out < run && run < drop && drop < next);
        n++;
    }
    assert_true(n >= 6);
    zi_plan_free(p);
    end(&s);
}

/* Copies in begin while the layer above is on its way back, one per layer, nearest first. */
static void
window(void **state)
{
    (void)state;
    setting s = start();
    expect_ok(zi_vdnn_apply(s.d, ZI_VDNN_CONV));
    unsigned n_ahead = 0, n_at[4096] = {0};
    for (zi_tensor_id t = 0; t < s.g->n_tensors; t++) {
        const zi_fate *f = &s.d->fate[t];
        if (f->kind != ZI_FATE_SWAP || f->in_at == ZI_ID_NONE) continue;
        zi_gap gap = zi_draft_turn_gap(s.d, t);
        assert_true(f->in_at <= gap.to);
        assert_int_equal(ZI_PHASE_BACKWARD, s.g->nodes[f->in_at].phase);
        assert_true(s.g->nodes[f->in_at].forward > gap.from);
        assert_int_equal(1, ++n_at[f->in_at]);
        /* no convolution without X to bring in lies between the two */
        for (zi_node_id i = gap.from + 1; i < s.g->nodes[f->in_at].forward; i++)
            if (s.g->nodes[i].op == ZI_OP_CONV2D) {
                bool has = false;
                for (zi_tensor_id u = 0; u < s.g->n_tensors; u++)
                    has |= s.d->fate[u].kind == ZI_FATE_SWAP &&
                           zi_draft_turn_gap(s.d, u).from == i;
                assert_true(has);
            }
        n_ahead++;
    }
    assert_true(n_ahead >= 4);
    end(&s);
}

/* none offloads nothing, conv less than all; the ladder takes the first that fits. */
static void
ladder(void **state)
{
    (void)state;
    setting    s = start();
    zi_verdict v[3];
    for (int policy = 0; policy < 3; policy++) {
        zi_plan *p;
        expect_ok(zi_vdnn_apply(s.d, (zi_vdnn_policy)policy));
        expect_ok(zi_draft_lower(s.d, "vdnn", 0, &p));
        expect_ok(zi_plan_check(p, s.g, s.c, 0, &v[policy]));
        zi_plan_free(p);
    }
    assert_int_equal(0, v[0].out_bytes);
    assert_true(v[1].out_bytes > 0 && v[1].out_bytes <= v[2].out_bytes);
    assert_true(v[1].peak_bytes < v[0].peak_bytes && v[2].peak_bytes <= v[1].peak_bytes);
    for (int policy = 0; policy < 2; policy++) {
        zi_plan_task task = {.graph = s.g,
                             .cost = s.c,
                             .budget_bytes = v[policy].peak_bytes};
        zi_plan     *p;
        zi_verdict   w;
        expect_ok(zi_planner_find("vdnn")->solve(&task, &p, NULL));
        expect_ok(zi_plan_check(p, s.g, s.c, task.budget_bytes, &w));
        assert_int_equal(v[policy].out_bytes, w.out_bytes);
        zi_plan_free(p);
    }
    end(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier),
        cmocka_unit_test(window),
        cmocka_unit_test(ladder),
    };
    return t_main(tests);
}

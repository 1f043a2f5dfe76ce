/* plan_simulate_test.c -- three queues: what overlaps, what stalls, and by how much. */
#include "plan/plan.h"
#include "support/plan_nets.h"
#include "test.h"

/* Four nodes in a row, each 100 ns, each making 1000 bytes; copies at 10 bytes a ns. */
typedef struct line {
    zi_graph    *g;
    zi_cost     *c;
    zi_plan     *p;
    zi_tensor_id t[4];
} line;

static line
make_line(void)
{
    line           l;
    zi_tensor_spec x = {.name = "x",
                        .dtype = ZI_DTYPE_F32,
                        .role = ZI_ROLE_INPUT,
                        .rank = 1,
                        .dims = (int64_t[]){250}};
    zi_tensor_id   at;
    expect_ok(zi_graph_new("line", &l.g));
    expect_ok(zi_graph_add_tensor(l.g, &x, NULL, &at));
    for (int i = 0; i < 4; i++) {
        zi_node_spec n = {.name = "n",
                          .op = ZI_OP_TRANSPOSE,
                          .forward = ZI_ID_NONE,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &at,
                          .want_out = 1};
        expect_ok(zi_graph_add_node(l.g, &n, NULL, &l.t[i]));
        at = l.t[i];
    }
    expect_ok(zi_graph_add_output(l.g, l.t[3]));
    expect_ok(zi_cost_guess(l.g, &l.c));
    for (int i = 0; i < 4; i++) l.c->node_ns[i] = 100;
    l.c->out_bytes_per_s = l.c->in_bytes_per_s = 10e9;
    l.c->copy_latency_ns = 0;
    expect_ok(zi_plan_new("test", &l.p));
    return l;
}

static void
end(line *l)
{
    zi_plan_free(l->p);
    zi_cost_free(l->c);
    zi_graph_free(l->g);
}

static void
add(line *l, zi_act_kind kind, uint32_t what)
{
    expect_ok(zi_plan_add(l->p, (zi_act){.kind = kind, .what = what}));
}

static zi_forecast
simulate(line *l, uint64_t *end_ns)
{
    zi_forecast f;
    expect_ok(zi_plan_simulate(l->p, l->g, l->c, end_ns, &f));
    return f;
}

/* Without copies the step is the sum of its nodes, and memory is what is alive. */
static void
computation_alone(void **state)
{
    (void)state;
    line l = make_line();
    for (uint32_t i = 0; i < 4; i++) {
        add(&l, ZI_ACT_RUN, i);
        if (i) add(&l, ZI_ACT_DROP, l.t[i - 1]);
    }
    zi_forecast f = simulate(&l, NULL);
    assert_int_equal(400, f.step_ns);
    assert_int_equal(400, f.busy_ns);
    assert_int_equal(0, f.stall_ns);
    assert_int_equal(3000, f.peak_bytes); /* x, and two at a time */
    assert_int_equal((2000 + 3 * 3000) / 4, f.mean_bytes);
    end(&l);
}

/* A copy that fits beside a node costs nothing; waiting at once costs its whole length. */
static void
overlap_and_stall(void **state)
{
    (void)state;
    uint64_t at[16];
    for (int wait_at_once = 0; wait_at_once < 2; wait_at_once++) {
        line l = make_line();
        add(&l, ZI_ACT_RUN, 0);
        add(&l, ZI_ACT_OUT, l.t[0]);
        if (wait_at_once) add(&l, ZI_ACT_WAIT, l.t[0]);
        add(&l, ZI_ACT_RUN, 1);
        if (!wait_at_once) add(&l, ZI_ACT_WAIT, l.t[0]);
        add(&l, ZI_ACT_DROP, l.t[0]);
        add(&l, ZI_ACT_RUN, 2);
        add(&l, ZI_ACT_RUN, 3);
        zi_forecast f = simulate(&l, at);
        assert_int_equal(wait_at_once ? 500 : 400, f.step_ns);
        assert_int_equal(wait_at_once ? 100 : 0, f.stall_ns);
        end(&l);
    }
}

/* Copies of one direction queue up; the two directions do not wait for each other; the step is
 * over when the last copy is. */
static void
queues(void **state)
{
    (void)state;
    line l = make_line();
    l.c->copy_latency_ns = 20;
    add(&l, ZI_ACT_RUN, 0);
    add(&l, ZI_ACT_RUN, 1);
    add(&l, ZI_ACT_OUT, l.t[0]); /* 200 .. 320 */
    add(&l, ZI_ACT_OUT, l.t[1]); /* 320 .. 440 */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_DROP, l.t[0]);
    add(&l, ZI_ACT_IN, l.t[0]); /* 320 .. 440, beside the other */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_WAIT, l.t[1]);
    add(&l, ZI_ACT_RUN, 2); /* 440 .. 540 */
    add(&l, ZI_ACT_OUT, l.t[2]);
    add(&l, ZI_ACT_RUN, 3);       /* 540 .. 640 */
    add(&l, ZI_ACT_WAIT, l.t[2]); /* until 660 */
    zi_forecast f = simulate(&l, NULL);
    assert_int_equal(660, f.step_ns);
    assert_int_equal(120 + 120 + 20, f.stall_ns);
    assert_int_equal(400, f.busy_ns);
    end(&l);
}

/* Copies the two ways share the tier: a quarter and a half of their speeds are left while both are
 * under way, all of it before and after. */
static void
company(void **state)
{
    (void)state;
    line l = make_line();
    l.c->out_beside = 0.25;
    l.c->in_beside = 0.5;
    add(&l, ZI_ACT_RUN, 0);
    add(&l, ZI_ACT_OUT, l.t[0]); /* 100 .. 200, alone */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_RUN, 1);
    add(&l, ZI_ACT_DROP, l.t[0]);
    add(&l, ZI_ACT_OUT,
        l.t[1]); /* 300 .., a quarter done at 500, with company, then alone */
    add(&l, ZI_ACT_IN, l.t[0]); /* 300 .. 500, half as fast */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_RUN, 2);
    add(&l, ZI_ACT_WAIT, l.t[1]); /* until 550: over before 600 */
    add(&l, ZI_ACT_RUN, 3);
    zi_forecast f = simulate(&l, NULL);
    assert_int_equal(100 + 200, f.stall_ns);
    assert_int_equal(700, f.step_ns);
    assert_int_equal(100 + 250, f.out_ns);
    assert_int_equal(200, f.in_ns);
    end(&l);
}

/* A copy takes a moment of computation's own time, either way. */
static void
copies_want_a_core(void **state)
{
    (void)state;
    line l = make_line();
    l.c->copy_cpu_ns = 5;
    add(&l, ZI_ACT_RUN, 0);
    add(&l, ZI_ACT_RUN, 1);
    add(&l, ZI_ACT_OUT, l.t[0]); /* 200 .. 300 */
    add(&l, ZI_ACT_RUN, 2);      /* 205 .. 305 */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_DROP, l.t[0]);
    add(&l, ZI_ACT_IN, l.t[0]); /* 305 .. 405 */
    add(&l, ZI_ACT_RUN, 3);
    add(&l, ZI_ACT_WAIT, l.t[0]);
    zi_forecast f = simulate(&l, NULL);
    assert_int_equal(410, f.step_ns);
    assert_int_equal(410, f.busy_ns);
    assert_int_equal(0, f.stall_ns);
    end(&l);
}

/* Computation that stands waiting for a copy does not need the core: no moment is lost. */
static void
who_waits_needs_no_core(void **state)
{
    (void)state;
    line l = make_line();
    l.c->copy_cpu_ns = 5;
    add(&l, ZI_ACT_RUN, 0);
    add(&l, ZI_ACT_RUN, 1);
    add(&l, ZI_ACT_OUT, l.t[0]); /* 200 .. 300 */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_DROP, l.t[0]);
    add(&l, ZI_ACT_IN, l.t[0]); /* 300 .. 400 */
    add(&l, ZI_ACT_WAIT, l.t[0]);
    add(&l, ZI_ACT_RUN, 2);
    add(&l, ZI_ACT_RUN, 3);
    assert_int_equal(600, simulate(&l, NULL).step_ns);
    end(&l);
}

/* What the checker refuses is not simulated. */
static void
only_valid_plans(void **state)
{
    (void)state;
    line        l = make_line();
    zi_forecast f;
    add(&l, ZI_ACT_RUN, 1);
    expect_status(ZICO_E_NOPLAN, zi_plan_simulate(l.p, l.g, l.c, NULL, &f));
    end(&l);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computation_alone),
        cmocka_unit_test(overlap_and_stall),
        cmocka_unit_test(queues),
        cmocka_unit_test(company),
        cmocka_unit_test(copies_want_a_core),
        cmocka_unit_test(who_waits_needs_no_core),
        cmocka_unit_test(only_valid_plans),
    };
    return t_main(tests);
}

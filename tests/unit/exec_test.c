/* tests/unit/exec_test.c -- the executor's door: what it takes, what it refuses. */
#include "exec/exec.h"

#include <math.h>
#include <sched.h>
#include "graph/builder.h"
#include "test.h"

/* A linear layer on 4 x 6 inputs, to 3 classes. */
static zi_graph *
small(void)
{
    zi_gb        *b = zi_gb_new("small", true, 1);
    zi_graph     *g;
    zi_graph_diag d = {0};
    zi_optim      o = zi_optim_default(ZI_OPTIM_SGD);

    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 2, (int64_t[]){4, 6});
    x = zi_gb_linear(b, x, "fc", 3, true);
    zi_gb_cross_entropy(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){4}));
    expect_ok(zi_gb_finish(b, &d, &g));
    expect_ok(zi_graph_differentiate(g, g->loss, &d));
    expect_ok(zi_graph_add_update(g, &o, &d));
    return g;
}

typedef struct fixture {
    zi_graph    *g;
    zi_exec     *e;
    float        x[24];
    int32_t      labels[4];
    zi_exec_feed feeds[2];
} fixture;

static void
open_fixture(fixture *f, const zi_exec_options *more)
{
    zi_exec_options opt = more ? *more : (zi_exec_options){0};

    memset(f, 0, sizeof *f);
    f->g = small();
    opt.graph = f->g;
    opt.n_threads = 1;
    expect_ok(zi_exec_new(&opt, NULL, &f->e));
    for (int i = 0; i < 24; i++) f->x[i] = (float)(i % 5) - 2.0f;
    for (int i = 0; i < 4; i++) f->labels[i] = i % 3;
    f->feeds[0] = (zi_exec_feed){zi_graph_find_tensor(f->g, "x"), f->x};
    f->feeds[1] = (zi_exec_feed){zi_graph_find_tensor(f->g, "labels"), f->labels};
}

static void
close_fixture(fixture *f)
{
    zi_exec_free(f->e);
    zi_graph_free(f->g);
}

/* The loss falls when the same batch is seen again and again, and comes step by step. */
static void
loss_falls(void **state)
{
    fixture             f;
    zi_exec_step_result r;
    double              first = 0;

    (void)state;
    open_fixture(&f, NULL);
    expect_status(ZICO_E_NOTFOUND, zi_exec_result(f.e, true, &r));
    for (uint64_t s = 1; s <= 50; s++) expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, s));
    for (uint64_t s = 1; s <= 50; s++) {
        expect_ok(zi_exec_result(f.e, true, &r));
        expect_ok(r.status);
        assert_int_equal(s, r.step);
        if (s == 1) first = r.loss;
    }
    assert_true(r.loss < 0.7 * first);
    assert_int_equal(50, zi_exec_n_done(f.e));
    close_fixture(&f);
}

/* Feeds that are missing, twice, or of something that is not fed. */
static void
bad_feeds(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, NULL);
    expect_status(ZICO_E_ARG, zi_exec_step(f.e, f.feeds, 1, 0.1f, 1));
    zi_exec_feed twice[2] = {f.feeds[0], f.feeds[0]};
    expect_status(ZICO_E_ARG, zi_exec_step(f.e, twice, 2, 0.1f, 1));
    zi_exec_feed wrong[2] = {f.feeds[0], {zi_graph_find_tensor(f.g, "fc.weight"), f.x}};
    expect_status(ZICO_E_ARG, zi_exec_step(f.e, wrong, 2, 0.1f, 1));
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 1));
    close_fixture(&f);
}

/* NULL data means: what the step before had. */
static void
feeds_stay(void **state)
{
    fixture             f;
    zi_exec_step_result a, b;

    (void)state;
    open_fixture(&f, NULL);
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.0f, 1));
    f.feeds[0].data = f.feeds[1].data = NULL;
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.0f, 2));
    expect_ok(zi_exec_result(f.e, true, &a));
    expect_ok(zi_exec_result(f.e, true, &b));
    assert_true(a.loss == b.loss);
    close_fixture(&f);
}

/* What is set is what is got; other tensors have no bytes between steps. */
static void
values(void **state)
{
    fixture f;
    float   w[18], back[18];

    (void)state;
    open_fixture(&f, NULL);
    const zi_tensor_id t = zi_graph_find_tensor(f.g, "fc.weight");
    for (int i = 0; i < 18; i++) w[i] = (float)i;
    expect_ok(zi_exec_set(f.e, t, w, sizeof w));
    expect_ok(zi_exec_get(f.e, t, back, sizeof back));
    assert_memory_equal(w, back, sizeof w);
    expect_status(ZICO_E_SHAPE, zi_exec_get(f.e, t, back, 4));
    expect_status(ZICO_E_ARG, zi_exec_set(f.e, f.feeds[0].tensor, f.x, sizeof f.x));
    expect_status(ZICO_E_STATE, zi_exec_get(f.e, f.g->loss, back, 4));
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 1));
    expect_ok(zi_exec_get(f.e, f.g->loss, back, 4));
    assert_true(isfinite(back[0]));
    close_fixture(&f);
}

/* The same seed begins in the same place; another seed in another. */
static void
beginnings(void **state)
{
    fixture f;
    float   a[18], b[18];

    (void)state;
    open_fixture(&f, &(zi_exec_options){.seed = 3});
    const zi_tensor_id t = zi_graph_find_tensor(f.g, "fc.weight");
    expect_ok(zi_exec_get(f.e, t, a, sizeof a));
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 1));
    expect_ok(zi_exec_init(f.e, 3));
    expect_ok(zi_exec_get(f.e, t, b, sizeof b));
    assert_memory_equal(a, b, sizeof a);
    expect_ok(zi_exec_init(f.e, 4));
    expect_ok(zi_exec_get(f.e, t, b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    close_fixture(&f);
}

/* A value that is not a number is reported with its step, and watched, with its tensor. */
static void
not_a_number(void **state)
{
    fixture             f;
    zi_exec_step_result r;

    (void)state;
    open_fixture(&f, &(zi_exec_options){.watch = true});
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 1));
    expect_ok(zi_exec_result(f.e, true, &r));
    expect_ok(r.status);
    f.x[7] = NAN;
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 2));
    expect_ok(zi_exec_result(f.e, true, &r));
    expect_status(ZICO_E_NAN, r.status);
    assert_int_equal(2, r.step);
    assert_int_not_equal(ZI_ID_NONE, r.bad);
    assert_int_equal(ZI_OP_LINEAR, f.g->nodes[f.g->tensors[r.bad].producer].op);
    close_fixture(&f);
}

/* Times of nodes add up to the busy time, events are in order. */
static void
times(void **state)
{
    fixture             f;
    zi_cost            *c;
    zi_exec_event       ev[64];
    zi_exec_step_result r;
    uint64_t            sum = 0;

    (void)state;
    open_fixture(&f, NULL);
    expect_ok(zi_exec_step(f.e, f.feeds, 2, 0.1f, 1));
    expect_ok(zi_exec_result(f.e, true, &r));
    const size_t n = zi_exec_events(f.e, ev, 64);
    assert_int_equal(f.g->n_nodes, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(ev[i].begin_ns <= ev[i].end_ns);
        if (i) assert_true(ev[i].begin_ns >= ev[i - 1].end_ns);
        sum += ev[i].end_ns - ev[i].begin_ns;
    }
    assert_int_equal(r.busy_ns, sum);
    expect_ok(zi_exec_measured(f.e, &c));
    zi_cost_free(c);
    close_fixture(&f);
}

/* A plan that reads what it has dropped is refused with a sentence. */
static void
wrong_plan(void **state)
{
    zi_graph     *g = small();
    zi_plan      *p;
    zi_exec      *e;
    zi_graph_diag d = {0};

    (void)state;
    expect_ok(zi_plan_new("wrong", &p));
    for (zi_node_id n = 0; n < g->n_nodes; n++) {
        expect_ok(zi_plan_add(p, (zi_act){.kind = ZI_ACT_RUN, .what = n}));
        if (n == 0)
            expect_ok(zi_plan_add(p, (zi_act){.kind = ZI_ACT_DROP,
                                              .what = g->nodes[0].out[0]}));
    }
    zi_exec_options opt = {.graph = g, .plan = p, .n_threads = 1};
    expect_status(ZICO_E_NOPLAN, zi_exec_new(&opt, &d, &e));
    assert_true(strlen(d.text) > 0);
    zi_plan_free(p);
    zi_graph_free(g);
}

/* An executor in a session of its own; x (4,8) is fed. */
typedef struct in_session {
    zi_session *s;
    zi_graph   *g;
    zi_exec    *e;
    float       data[32];
} in_session;

static zi_exec_feed
open_in_session(in_session *n, zi_gb *b, uint64_t local_bytes, uint64_t wait_ns)
{
    zi_session_options so = {.local_bytes = local_bytes,
                             .local_region_bytes = 2ull << 20};
    zi_graph_diag      d = {0};

    memset(n, 0, sizeof *n);
    expect_ok(zi_gb_finish(b, &d, &n->g));
    expect_ok(zi_session_open(&so, &n->s));
    zi_exec_options opt = {.graph = n->g,
                           .session = n->s,
                           .n_threads = 1,
                           .lease_wait_ns = wait_ns};
    expect_ok(zi_exec_new(&opt, &d, &n->e));
    return (zi_exec_feed){zi_graph_find_tensor(n->g, "x"), n->data};
}

static void
close_in_session(in_session *n)
{
    zi_exec_free(n->e);
    zi_session_close(n->s);
    zi_graph_free(n->g);
}

/* A step whose memory does not come ends with that status, and nobody waits for ever. */
static void
lease_never_comes(void **state)
{
    zi_gb              *b = zi_gb_new("wide", true, 1);
    in_session          n;
    zi_exec_step_result r;

    (void)state;
    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 2, (int64_t[]){4, 8});
    x = zi_gb_relu(b, zi_gb_linear(b, x, "fc", 100000, false));
    x = zi_gb_concat(b, 8, (zi_tensor_id[]){x, x, x, x, x, x, x, x}, 0);
    zi_gb_output(b, zi_gb_tanh(b, zi_gb_sigmoid(b, x)));
    zi_exec_feed feed = open_in_session(&n, b, 8ull << 20, 1000000);
    assert_true(zi_exec_step(n.e, &feed, 1, 0, 1) < 0);
    expect_ok(zi_exec_result(n.e, true, &r));
    assert_int_equal(1, r.step);
    assert_true(r.status < 0);
    expect_status(ZICO_E_CANCELLED, zi_exec_step(n.e, &feed, 1, 0, 2));
    close_in_session(&n);
}

/* In a session the end of a step is told when it is there: the next one, and whoever drains, may be far. */
static void
step_ends_by_itself(void **state)
{
    zi_gb              *b = zi_gb_new("small", true, 1);
    in_session          n;
    zi_exec_step_result r;

    (void)state;
    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 2, (int64_t[]){4, 8});
    zi_gb_output(b, zi_gb_relu(b, zi_gb_linear(b, x, "fc", 16, false)));
    zi_exec_feed feed = open_in_session(&n, b, 16ull << 20, 0);
    for (uint64_t step = 1; step <= 2; step++) {
        expect_ok(zi_exec_step(n.e, &feed, 1, 0, step));
        while (zi_exec_is_in_step(n.e)) sched_yield(); /* nobody asks for anything */
        assert_false(zi_session_in_step(n.s));
        expect_ok(zi_exec_result(n.e, false, &r));
        assert_int_equal(step, r.step);
    }
    close_in_session(&n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_falls),
        cmocka_unit_test(bad_feeds),
        cmocka_unit_test(feeds_stay),
        cmocka_unit_test(values),
        cmocka_unit_test(beginnings),
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(times),
        cmocka_unit_test(wrong_plan),
        cmocka_unit_test(lease_never_comes),
        cmocka_unit_test(step_ends_by_itself),
    };
    return t_main(tests);
}

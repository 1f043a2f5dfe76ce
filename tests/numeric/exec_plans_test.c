/* tests/numeric/exec_plans_test.c -- any valid plan gives the bits that keep gives.
 * timeout: 300 */
#include "exec/exec.h"
#include "exec/tier.h"
#include "graph/zoo/zoo.h"
#include "planner/draft.h"
#include "test.h"

#if defined(__SANITIZE_THREAD__)
#    define THREADS 1 /* libgomp is not instrumented: its barriers are unknown to TSan */
#else
#    define THREADS 2
#endif

static zi_graph *
net(const char *spec, int64_t batch)
{
    zi_graph     *g;
    zi_graph_diag diag = {0};

    expect_ok(zi_zoo_build(spec, batch, true, 3, &diag, &g));
    zi_optim o = zi_optim_default(ZI_OPTIM_ADAM);
    expect_ok(zi_graph_fuse(g, &diag));
    expect_ok(zi_graph_differentiate(g, g->loss, &diag));
    expect_ok(zi_graph_add_update(g, &o, &diag));
    return g;
}

typedef struct outcome {
    void   **param; /* [n_tensors] bytes of PARAM and STATE */
    double   loss;
    uint64_t peak_bytes, peak_live_bytes;
} outcome;

static void
feed_and_step(zi_exec *e, const zi_graph *g, uint64_t step)
{
    zi_exec_feed feeds[8] = {0};
    size_t       n = 0;
    uint64_t     r = 12345 + step;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if ((x->role != ZI_ROLE_INPUT && x->role != ZI_ROLE_LABEL) || t == g->lr ||
            t == g->step)
            continue;
        void *p = malloc(x->bytes);
        for (int64_t i = 0; i < zi_tensor_elems(x); i++) {
            r = r * 6364136223846793005ull + 1442695040888963407ull;
            if (x->dtype == ZI_DTYPE_F32)
                ((float *)p)[i] = (float)(r >> 40) / 8388608.0f - 1.0f;
            else
                ((int32_t *)p)[i] = (int32_t)((r >> 40) % 10);
        }
        feeds[n++] = (zi_exec_feed){t, p};
    }
    expect_ok(zi_exec_step(e, feeds, n, 0.01f, step));
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
}

static outcome
train(const zi_exec_options *opt, unsigned n_steps)
{
    const zi_graph     *g = opt->graph;
    outcome             o = {.param = calloc(g->n_tensors + 1u, sizeof *o.param)};
    zi_exec            *e;
    zi_graph_diag       diag = {0};
    zi_exec_step_result r = {0};
    zi_exec_memory      m;

    zico_status st = zi_exec_new(opt, &diag, &e);
    if (st < 0) print_error("%s\n", diag.text);
    expect_ok(st);
    for (unsigned s = 1; s <= n_steps; s++) feed_and_step(e, g, s);
    for (unsigned s = 1; s <= n_steps; s++) {
        expect_ok(zi_exec_result(e, true, &r));
        assert_int_equal(s, r.step);
        expect_ok(r.status);
    }
    o.loss = r.loss;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if (x->role != ZI_ROLE_PARAM && x->role != ZI_ROLE_STATE) continue;
        o.param[t] = malloc(x->bytes);
        expect_ok(zi_exec_get(e, t, o.param[t], x->bytes));
    }
    zi_exec_read_memory(e, &m);
    o.peak_bytes = m.peak_slot_bytes;
    o.peak_live_bytes = m.peak_live_bytes;
    zi_exec_free(e);
    return o;
}

static void
outcome_free(const zi_graph *g, outcome *o)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) free(o->param[t]);
    free(o->param);
}

static void
expect_same(const zi_graph *g, const outcome *a, const outcome *b)
{
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (a->param[t])
            assert_memory_equal(a->param[t], b->param[t], g->tensors[t].bytes);
}

static void
random_fates(zi_draft *d)
{
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (!zi_draft_may_leave(d, t) || t_rand_below(2)) continue;
        if (zi_draft_longest_gap(d, t).from == ZI_ID_NONE) continue;
        if (t_rand_below(2))
            zi_draft_redo(d, t);
        else
            zi_draft_swap(d, t);
    }
}

static const struct {
    const char *spec;
    int64_t     batch;
} nets[] = {
    {"mlp", 4},
    {"resnet20:size=16", 3},
    {"mobilenet_v2:size=32,classes=10", 2},
    {"lstm_lm:vocab=30,width=16,hidden=16,seq=6", 3},
    {"gpt:vocab=30,seq=8,width=32,layers=2,heads=2,dropout=0.1", 2},
};

#define N_NETS (sizeof nets / sizeof nets[0])

/* The same run twice gives the same bits, also when steps are not run ahead. */
static void
runs_repeat(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        zi_graph       *g = net(nets[i].spec, nets[i].batch);
        zi_exec_options opt = {.graph = g,
                               .n_threads = THREADS,
                               .seed = 5,
                               .run_ahead = 3};
        outcome         a = train(&opt, 4);
        opt.run_ahead = 1;
        outcome b = train(&opt, 4);
        expect_same(g, &a, &b);
        outcome_free(g, &a);
        outcome_free(g, &b);
        zi_graph_free(g);
    }
}

/* Tensors dropped and computed again, moved to a tier and back, in any mixture. */
static void
plans_change_no_bit(void **state)
{
    const char *dir = t_tmpdir();
    char        file[4200];

    uint64_t n_redo = 0, out_bytes = 0;

    (void)state;
    snprintf(file, sizeof file, "file:%s", dir);
    for (size_t i = 0; i < N_NETS; i++) {
        zi_graph       *g = net(nets[i].spec, nets[i].batch);
        zi_exec_options opt = {.graph = g, .n_threads = 1, .seed = 5};
        outcome         want = train(&opt, 3);
        for (int round = 0; round < 4; round++) {
            zi_cost   *c;
            zi_draft  *d;
            zi_plan   *p;
            zi_tier   *tier;
            zi_verdict v;
            expect_ok(zi_tier_open(zi_os_real(), round % 2 ? file : "ram", &tier));
            opt.tier = tier;
            expect_ok(zi_exec_cost(&opt, NULL, &c));
            expect_ok(zi_draft_new(g, c, &d));
            random_fates(d);
            expect_ok(zi_draft_lower(d, "random", 0, &p));
            expect_ok(zi_plan_check(p, g, c, 0, &v));
            n_redo += v.n_redo;
            out_bytes += v.out_bytes;
            opt.plan = p;
            outcome got = train(&opt, 3);
            expect_same(g, &want, &got);
            assert_int_equal(v.peak_bytes, got.peak_live_bytes);
            outcome_free(g, &got);
            zi_plan_free(p);
            zi_draft_free(d);
            zi_cost_free(c);
            zi_tier_close(tier);
        }
        outcome_free(g, &want);
        zi_graph_free(g);
    }
    assert_true(n_redo > 0 && out_bytes > 0); /* the sample was worth something */
    t_rmdir(dir);
}

/* In a session, with leases for slots, the bits are the same. */
static void
leases_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        zi_graph          *g = net(nets[i].spec, nets[i].batch);
        zi_exec_options    opt = {.graph = g, .n_threads = 1, .seed = 5};
        outcome            want = train(&opt, 3);
        zi_session_options so = {.local_bytes = 512ull << 20,
                                 .job_name = "exec_plans_test"};
        zi_session        *s;
        expect_ok(zi_session_open(&so, &s));
        opt.session = s;
        outcome got = train(&opt, 3);
        expect_same(g, &want, &got);
        outcome_free(g, &got);
        zi_session_close(s);
        outcome_free(g, &want);
        zi_graph_free(g);
    }
}

/* The placement is close to what is live at the peak. */
static void
placement_is_tight(void **state)
{
    (void)state;
    zi_graph       *g = net("resnet20:size=32", 32);
    zi_exec_options opt = {.graph = g, .n_threads = 1, .seed = 5};
    outcome         o = train(&opt, 1);
    assert_true((double)o.peak_bytes <= 1.05 * (double)o.peak_live_bytes);
    outcome_free(g, &o);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(plans_change_no_bit),
        cmocka_unit_test(leases_change_no_bit),
        cmocka_unit_test(placement_is_tight),
    };
    return t_main(tests);
}

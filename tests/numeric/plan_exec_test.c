/* plan_exec_test.c -- what planners plan, the executor does, and no bit changes.
 * timeout: 300 */
#include "exec/exec.h"
#include "exec/tier.h"
#include "graph/zoo/zoo.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "support/plan_nets.h"
#include "test.h"

#define STEPS 5

typedef struct outcome {
    double   loss[STEPS];
    uint64_t hash; /* of all parameters and states */
} outcome;

static uint64_t
mix(uint64_t h, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

static size_t
make_feeds(const zi_graph *g, zi_exec_feed *feeds)
{
    size_t n = 0;
    t_reseed(77);
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if (x->role != ZI_ROLE_INPUT && x->role != ZI_ROLE_LABEL) continue;
        if (t == g->lr || t == g->step) continue;
        void   *data = calloc(1, x->bytes);
        int64_t elems = zi_tensor_elems(x);
        for (int64_t i = 0; i < elems; i++) {
            if (x->dtype == ZI_DTYPE_F32)
                ((float *)data)[i] = (float)(t_rand_unit() - 0.5);
            else
                ((int32_t *)data)[i] = (int32_t)t_rand_below(8);
        }
        feeds[n++] = (zi_exec_feed){t, data};
    }
    return n;
}

static outcome
run(const zi_graph *g, const zi_plan *p, zi_tier *tier, zi_exec_memory *ret_memory)
{
    zi_exec_options opt = {
        .graph = g, .plan = p, .n_threads = 1, .seed = 3, .tier = tier};
    zi_graph_diag d = {0};
    zi_exec      *e;
    outcome       o = {.hash = 14695981039346656037ull};
    zi_exec_feed *feeds = calloc(g->n_tensors, sizeof *feeds);
    size_t        n = make_feeds(g, feeds);

    zico_status st = zi_exec_new(&opt, &d, &e);
    if (st < 0) fail_msg("%s: %s", g->name, d.text);
    for (int i = 0; i < STEPS; i++)
        expect_ok(zi_exec_step(e, feeds, n, 0.01f, (uint64_t)i + 1));
    expect_ok(zi_exec_drain(e));
    for (int i = 0; i < STEPS; i++) {
        zi_exec_step_result r;
        expect_ok(zi_exec_result(e, true, &r));
        expect_ok(r.status);
        o.loss[i] = r.loss;
    }
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if (x->role != ZI_ROLE_PARAM && x->role != ZI_ROLE_STATE) continue;
        uint8_t *data = malloc(x->bytes);
        expect_ok(zi_exec_get(e, t, data, x->bytes));
        o.hash = mix(o.hash, data, x->bytes);
        free(data);
    }
    if (ret_memory) zi_exec_read_memory(e, ret_memory);
    zi_exec_free(e);
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
    free(feeds);
    return o;
}

/* One planner at one budget: checked, executed, bit for bit as keep, peak as foreseen. */
static bool
try_plan(const zi_planner_ops *ops, const zi_graph *g, const zi_cost *c, uint64_t budget,
         zi_tier *tier, const outcome *want)
{
    zi_plan_task   task = {.graph = g, .cost = c, .budget_bytes = budget};
    zi_plan       *p;
    uint64_t       least = 0;
    zi_verdict     v;
    zi_exec_memory m;
    zico_status    st = ops->solve(&task, &p, &least);

    if (st == ZICO_E_NOPLAN) return false;
    expect_ok(st);
    expect_ok(zi_plan_check(p, g, c, budget, &v));
    outcome o = run(g, p, tier, &m);
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&o.loss[i], &want->loss[i], sizeof(double)))
            fail_msg("%s on %s at %llu: step %d has loss %.17g, not %.17g", ops->name,
                     g->name, (unsigned long long)budget, i, o.loss[i], want->loss[i]);
    if (o.hash != want->hash)
        fail_msg("%s on %s at %llu: weights differ", ops->name, g->name,
                 (unsigned long long)budget);
    assert_int_equal(v.peak_bytes, m.peak_live_bytes);
    if (getenv("ZI_SHOW"))
        printf("%s %s %.0f%% live %.3f slots %.3f\n", g->name, ops->name,
               (double)budget * 100 / (double)v.peak_bytes,
               (double)m.peak_live_bytes / (double)v.peak_bytes,
               (double)m.peak_slot_bytes / (double)v.peak_bytes);
    zi_plan_free(p);
    return true;
}

/* All planners on one net, from the peak of keep down to where nobody can any more. */
static void
try_net(const zi_graph *g, zi_tier *tier, unsigned step_percent)
{
    zi_exec_options opt = {.graph = g, .n_threads = 1, .tier = tier};
    zi_cost        *c;
    zi_plan        *keep;
    zi_verdict      v;
    expect_ok(zi_exec_cost(&opt, NULL, &c));
    c->out_bytes_per_s = 2e9;
    c->in_bytes_per_s = 3e9;
    c->copy_latency_ns = 1000;
    expect_ok(zi_plan_keep(g, c, &keep));
    expect_ok(zi_plan_check(keep, g, c, 0, &v));
    outcome  want = run(g, keep, tier, NULL);
    unsigned n_fit = 0;
    for (unsigned percent = 100; percent > 20; percent -= step_percent) {
        bool any = false;
        for (size_t i = t_rounds(1, 0); zi_planner_at(i); i++) /* auto is one of them */
            any |= try_plan(zi_planner_at(i), g, c, v.peak_bytes * percent / 100, tier,
                            &want);
        if (!any) break;
        n_fit++;
    }
    assert_true(n_fit > 1); /* somebody can do with less than keep */
    zi_plan_free(keep);
    zi_cost_free(c);
}

/* Small nets of every shape; copies go to memory. */
static void
small_nets(void **state)
{
    (void)state;
    zi_tier *tier;
    expect_ok(zi_tier_open(zi_os_real(), "ram", &tier));
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph *g = t_nets[i].make();
        try_net(g, tier, t_rounds(18, 3));
        zi_graph_free(g);
    }
    zi_tier_close(tier);
}

/* The same with a spill file. */
static void
spill_file(void **state)
{
    (void)state;
    char     spec[4200];
    zi_tier *tier;
    snprintf(spec, sizeof spec, "file:%s", t_tmpdir());
    expect_ok(zi_tier_open(zi_os_real(), spec, &tier));
    zi_graph *g = t_net_residual(4, 4);
    try_net(g, tier, t_rounds(20, 5));
    zi_graph_free(g);
    zi_tier_close(tier);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_nets),
        cmocka_unit_test(spill_file),
    };
    return t_main(tests);
}

/* plan_zoo_test.c -- every planner on every network of the zoo, down to the smallest budget: checked,
 * executed, bit for bit as keep, peaks as foreseen.  A seeded sample; all of it under ZI_FULL=1.
 * timeout: 1800 */
#include "exec/exec.h"
#include "exec/passive.h"
#include "exec/tier.h"
#include "graph/zoo/zoo.h"
#include "planner/planner.h"
#include "exec_train.h"
#include "test.h"

#define STEPS 5

static const struct {
    const char *spec;
    int64_t     batch;
} nets[] = {
    {"mlp", 8},
    {"resnet20:size=16,classes=10", 4},
    {"resnet18:size=32,classes=10", 2},
    {"resnet50:size=32,classes=10", 2},
    {"vgg16:size=32,classes=10", 2},
    {"mobilenet_v2:size=32,classes=10", 2},
    {"densenet121:size=32,classes=10", 2},
    {"unet:size=32", 1},
    {"lstm_lm:vocab=30,width=16,hidden=16,seq=8", 3},
    {"gpt:vocab=30,seq=8,width=32,layers=2,heads=2,dropout=0.1", 2},
};

#define N_NETS (sizeof nets / sizeof nets[0])

static zi_graph *
make(size_t i)
{
    return xt_graph(nets[i].spec, nets[i].batch, 3, ZI_OPTIM_MOMENTUM);
}

typedef struct outcome {
    double         loss[STEPS];
    uint64_t       hash;
    zi_exec_memory memory;
    uint64_t       peak_bytes;
} outcome;

/* Five steps from the same beginning; the executor's plan decides nothing of the result. */
static outcome
train(zi_exec *e, const zi_graph *g)
{
    outcome o = {.hash = 14695981039346656037ull};
    expect_ok(zi_exec_init(e, 3));
    for (uint64_t s = 1; s <= STEPS; s++) {
        zi_exec_step_result r;
        xt_step(e, g, s, 77 + s, 2, 1e-4f);
        expect_ok(zi_exec_result(e, true, &r));
        if (r.status < 0)
            fail_msg("%s, plan %s, step %u: %s", g->name, zi_exec_plan(e)->planner,
                     (unsigned)s, zico_status_name(r.status));
        o.loss[s - 1] = r.loss;
        o.peak_bytes = r.peak_bytes;
    }
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if (x->role != ZI_ROLE_PARAM && x->role != ZI_ROLE_STATE) continue;
        uint64_t *data = calloc(1, x->bytes + sizeof *data);
        expect_ok(zi_exec_get(e, t, data, x->bytes));
        for (uint64_t i = 0; i < x->bytes / sizeof *data + 1; i++)
            o.hash = (o.hash ^ data[i]) * 1099511628211ull;
        free(data);
    }
    zi_exec_read_memory(e, &o.memory);
    return o;
}

typedef struct stage {
    zi_graph *g;
    zi_tier  *tier;
    zi_cost  *c;
    zi_exec  *e; /* one executor for all plans: kernels are chosen once */
    outcome   want;
    uint64_t  keep_bytes, floor_bytes; /* placed; the least of any plan */
} stage;

static void
open_stage(stage *s, size_t net)
{
    zi_plan       *keep;
    zi_place_stats stats;
    *s = (stage){.g = make(net)};
    expect_ok(zi_tier_open(zi_os_real(), "ram", &s->tier));
    zi_exec_options opt = {
        .graph = s->g, .n_threads = 1, .seed = 3, .tier = s->tier, .run_ahead = 1};
    expect_ok(zi_exec_cost(&opt, NULL, &s->c));
    s->c->out_bytes_per_s = 2e9;
    s->c->in_bytes_per_s = 3e9;
    s->c->copy_latency_ns = 1000;
    expect_ok(zi_plan_keep(s->g, s->c, &keep));
    expect_ok(zi_plan_place(keep, s->g, s->c, 0, ZI_TIER_ALIGN, &stats));
    expect_ok(zi_passive_least(s->g, s->c, keep, ZI_TIER_ALIGN, &s->floor_bytes, NULL));
    s->floor_bytes += keep->slots[0].size_bytes;
    s->keep_bytes = stats.peak_slot_bytes;
    zi_plan_free(keep);
    expect_ok(zi_exec_new(&opt, NULL, &s->e));
    s->want = train(s->e, s->g);
    assert_int_equal(s->keep_bytes, s->want.memory.peak_slot_bytes);
}

static void
close_stage(stage *s)
{
    zi_exec_free(s->e);
    zi_cost_free(s->c);
    zi_tier_close(s->tier);
    zi_graph_free(s->g);
}

static void
expect_as_keep(stage *s, const char *who, uint64_t budget, const zi_place_stats *stats)
{
    outcome got = train(s->e, s->g);
    if (memcmp(got.loss, s->want.loss, sizeof got.loss) || got.hash != s->want.hash)
        fail_msg("%s on %s within %llu: other bits", who, s->g->name,
                 (unsigned long long)budget);
    if (stats) {
        assert_int_equal(stats->peak_slot_bytes, got.memory.peak_slot_bytes);
        assert_int_equal(stats->peak_live_bytes, got.memory.peak_live_bytes);
    }
    assert_int_equal(got.peak_bytes, got.memory.peak_slot_bytes);
    if (budget) assert_true(got.memory.peak_slot_bytes <= budget);
}

/* One planner at one budget.  Returns the smallest it could do, if this was too little. */
static uint64_t
try_plan(stage *s, const zi_planner_ops *ops, uint64_t budget)
{
    const zi_plan_task task = {.graph = s->g, .cost = s->c, .budget_bytes = budget};
    zi_place_stats     stats;
    zi_graph_diag      d = {0};
    zi_verdict         v;
    zi_plan           *p;
    uint64_t           least = 0;

    zico_status st = zi_planner_fit(ops, &task, 0, ZI_TIER_ALIGN, &p, &stats, &least);
    if (st == ZICO_E_NOPLAN) {
        assert_true(least > budget);
        return least;
    }
    expect_ok(st);
    if (zi_plan_check(p, s->g, s->c, budget, &v) < 0)
        fail_msg("%s on %s: %s", ops->name, s->g->name, v.text);
    assert_int_equal(v.peak_bytes, stats.peak_live_bytes);
    st = zi_exec_replan(s->e, p, 0, &d);
    if (st < 0) fail_msg("%s on %s: %s", ops->name, s->g->name, d.text);
    expect_as_keep(s, ops->name, budget, &stats);
    zi_plan_free(p);
    return 0;
}

/* A planner from keep's peak down; where it gives up, once more with what it says is its least. */
static void
try_planner(stage *s, const zi_planner_ops *ops, unsigned step_percent)
{
    for (unsigned percent = 100; percent > 0; percent -= step_percent) {
        uint64_t budget = s->keep_bytes * percent / 100;
        uint64_t least = try_plan(s, ops, budget);
        if (percent <= step_percent) break;
        if (!least) continue;
        if (least < s->keep_bytes) try_plan(s, ops, least);
        break;
    }
}

static void
try_net(size_t net, unsigned step_percent, int only)
{
    stage s;
    open_stage(&s, net);
    assert_true(s.floor_bytes < s.keep_bytes);
    for (size_t i = 0; zi_planner_at(i); i++) {
        if (strcmp(zi_planner_at(i)->name, "keep-all") == 0) continue; /* needs more */
        if (only < 0 || (size_t)only == i)
            try_planner(&s, zi_planner_at(i), step_percent);
    }
    expect_ok(
        zi_exec_replan(s.e, NULL, s.floor_bytes, NULL)); /* on demand: the very least */
    assert_true(zi_exec_is_passive(s.e));
    expect_as_keep(&s, "passive", s.floor_bytes, NULL);
    close_stage(&s);
}

/* In the suite: every network with one planner, drawn by the seed; else all with all (ZI_NET=K:
 * only the K-th). */
static void
planners_on_the_zoo(void **state)
{
    size_t n_planners = 0;
    (void)state;
    while (zi_planner_at(n_planners)) n_planners++;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const bool all = false; /* too slow, and the sample has every act */
#else
    const bool all = getenv("ZI_FULL") || t_rounds(0, 1);
#endif
    const char *which = getenv("ZI_NET");
    for (size_t i = 0; i < N_NETS; i++) {
        if (which && (size_t)atoi(which) != i) continue;
        const int      only = all ? -1 : (int)t_rand_below(n_planners);
        const unsigned step = all ? 10 : 35;
        print_message("%s\n", nets[i].spec);
        try_net(i, step, only);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planners_on_the_zoo),
    };
    return t_main(tests);
}

/* monger_test.c -- Chen's segments: costs and peaks that others have published. */
#include "planner/monger.h"
#include "support/plan_nets.h"
#include "test.h"

/* A chain as Checkmate draws it: n forward nodes, the loss, n backward nodes; sizes and costs are
 * whatever the table says, the operators only lend their rules (concat may run again, clip_scale
 * not).  Backward node i reads the output of i, the gradient before, and, with `successor`, the
 * output of i + 1. */
typedef struct chain {
    zi_graph *g;
    zi_cost  *c;
} chain;

static zi_tensor_id
add(zi_graph *g, zi_op op, zi_phase phase, zi_node_id forward, uint32_t n_in,
    const zi_tensor_id *in)
{
    zi_attr       attr = {0};
    zi_tensor_id  out;
    zi_graph_diag d = {0};
    attr.optim.max_norm = 1;
    zi_attr      axis = {0};
    zi_node_spec n = {.name = phase == ZI_PHASE_FORWARD ? "f" : "b",
                      .op = op,
                      .phase = phase,
                      .forward = forward,
                      .n_in = n_in,
                      .n_out = 1,
                      .in = in,
                      .attr = op == ZI_OP_CONCAT ? &axis : &attr,
                      .want_out = 1};
    zico_status  st = zi_graph_add_node(g, &n, &d, &out);
    if (st < 0) fail_msg("%s", d.text);
    return out;
}

static chain
make_chain(uint32_t n, const uint64_t *bytes, const uint64_t *macs, bool successor)
{
    chain          k;
    zi_tensor_id   out[300], grad, x;
    zi_tensor_spec spec = {.name = "x",
                           .dtype = ZI_DTYPE_F32,
                           .role = ZI_ROLE_INPUT,
                           .rank = 1,
                           .dims = (int64_t[]){1}};
    assert_true(n < 299);
    expect_ok(zi_graph_new("chain", &k.g));
    expect_ok(zi_graph_add_tensor(k.g, &spec, NULL, &x));
    for (uint32_t i = 0; i < n; i++)
        out[i] =
            add(k.g, ZI_OP_CONCAT, ZI_PHASE_FORWARD, ZI_ID_NONE, 1, i ? &out[i - 1] : &x);
    out[n] = grad = add(k.g, ZI_OP_CONCAT, ZI_PHASE_FORWARD, ZI_ID_NONE, 1, &out[n - 1]);
    for (uint32_t i = n; i-- > 0;) {
        zi_tensor_id in[3] = {out[i], grad, out[i + 1]};
        uint32_t     n_in = successor && i + 1 < n ? 3 : 2;
        grad = add(k.g, ZI_OP_CLIP_SCALE, ZI_PHASE_BACKWARD, i, n_in, in);
    }
    expect_ok(zi_cost_new(k.g, &k.c));
    for (zi_node_id i = 0; i < k.g->n_nodes; i++) {
        uint32_t layer = i < n ? i : i == n ? n : 2 * n - i;
        k.c->node_ns[i] = i == n ? (bytes ? 0 : 1)
                          : macs ? macs[layer] * (i < n ? 1 : 2)
                                 : 1;
        k.c->tensor_bytes[k.g->nodes[i].out[0]] = i == n  ? (bytes ? 4 : 1)
                                                  : bytes ? bytes[layer]
                                                          : 1;
    }
    return k;
}

static void
end(chain *k)
{
    zi_cost_free(k->c);
    zi_graph_free(k->g);
}

/* Total cost and peak when segments end after the given nodes. */
static void
try_cuts(const chain *k, const zi_node_id *cut, size_t n_cuts, uint64_t *ret_cost,
         uint64_t *ret_peak)
{
    zi_draft   *d;
    zi_plan    *p;
    zi_verdict  v;
    zi_forecast f;
    expect_ok(zi_draft_new(k->g, k->c, &d));
    zi_monger_cut(d, cut, n_cuts);
    expect_ok(zi_draft_lower(d, "monger", 0, &p));
    expect_ok(zi_plan_check(p, k->g, k->c, 0, &v));
    expect_ok(zi_plan_simulate(p, k->g, k->c, NULL, &f));
    *ret_cost = f.busy_ns;
    *ret_peak = v.peak_bytes;
    zi_plan_free(p);
    zi_draft_free(d);
}

/* The largest batch in 16e9 bytes beside VGG19's parameters and gradients, counted once, with
 * segments that end after the given nodes. */
static uint64_t
largest_batch(const uint64_t *bytes, const uint64_t *macs, const zi_node_id *cut,
              size_t n_cuts)
{
    const uint64_t fixed = 1149337920, budget = 16000000000;
    uint64_t       batch = 0;
    for (uint64_t bit = 512; bit; bit /= 2) {
        uint64_t many[25], cost, peak;
        for (int i = 0; i < 25; i++) many[i] = bytes[i] * (batch + bit);
        chain k = make_chain(25, many, macs, true);
        k.c->tensor_bytes[0] = fixed;
        try_cuts(&k, cut, n_cuts, &cost, &peak);
        if (peak <= budget) batch += bit;
        end(&k);
    }
    return batch;
}

/* VGG19, batch 1, in multiply-adds: the costs of checkpoint-all, sqrt(n) and greedy are those of
 * Checkmate's artifact to the last digit, and our peaks are no higher than theirs; so are the
 * largest batches in 16 GB when parameters are counted once. */
static void
vgg19(void **state)
{
    (void)state;
    static const int out[] = {64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                              512, 512, 512, 512, 0,   512, 512, 512, 512, 0};
    uint64_t         bytes[25], macs[25], size = 224, channels = 3;
    for (int i = 0; i < 21; i++) {
        if (out[i]) {
            macs[i] = 9 * channels * size * size * (uint64_t)out[i];
            channels = (uint64_t)out[i];
        } else {
            macs[i] = 0;
            size /= 2;
        }
        bytes[i] = 4 * size * size * channels;
    }
    static const uint64_t dense[] = {25088, 4096, 4096, 1000};
    bytes[21] = 4 * dense[0];
    macs[21] = 0;
    for (int i = 0; i < 3; i++) {
        bytes[22 + i] = 4 * dense[i + 1];
        macs[22 + i] = dense[i] * dense[i + 1];
    }
    chain    k = make_chain(25, bytes, macs, true);
    uint64_t cost, peak;
    try_cuts(&k, NULL, 0, &cost, &peak);
    assert_int_equal(58896187392, cost);
    assert_true(peak <= 81723296);
    assert_true(largest_batch(bytes, macs, NULL, 0) >= 181);

    zi_node_id eligible[64], cut[64];
    for (zi_node_id i = 0; i < 25; i++) eligible[i] = i;
    assert_int_equal(5, zi_monger_sqrt(eligible, 25, cut));
    const zi_node_id want[] = {4, 9, 14, 19, 24};
    assert_memory_equal(want, cut, sizeof want);
    try_cuts(&k, cut, 5, &cost, &peak);
    assert_int_equal(72512667648, cost);
    assert_true(peak <= 69447584);
    assert_true(largest_batch(bytes, macs, cut, 5) >= 213);

    zi_draft *d;
    uint64_t  kept, largest;
    expect_ok(zi_draft_new(k.g, k.c, &d));
    assert_int_equal(3,
                     zi_monger_greedy(d, eligible, 25, 17361896, cut, &kept, &largest));
    zi_draft_free(d);
    const zi_node_id greedy[] = {1, 5, 13};
    assert_memory_equal(greedy, cut, sizeof greedy);
    try_cuts(&k, cut, 3, &cost, &peak);
    assert_int_equal(71005863936, cost);
    assert_int_equal(51380224, peak); /* the least possible */
    assert_int_equal(289, largest_batch(bytes, macs, cut, 3));
    end(&k);
}

/* Chains of unit cost: node evaluations as published, peaks no higher. */
static void
unit_chains(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        uint64_t all_cost, all_peak, sqrt_cost, sqrt_peak;
    } want[] = {{4, 9, 6, 11, 5},
                {8, 17, 10, 21, 7},
                {16, 33, 18, 45, 10},
                {32, 65, 34, 89, 14}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        chain      k = make_chain(want[i].n, NULL, NULL, false);
        zi_node_id eligible[64], cut[64];
        uint64_t   cost, peak;
        zi_cost   *c = k.c;
        c->tensor_bytes[0] = 0; /* the input is nobody's */
        try_cuts(&k, NULL, 0, &cost, &peak);
        assert_int_equal(want[i].all_cost, cost);
        assert_int_equal(want[i].all_peak, peak);
        for (zi_node_id j = 0; j < want[i].n; j++) eligible[j] = j;
        size_t n = zi_monger_sqrt(eligible, want[i].n, cut);
        try_cuts(&k, cut, n, &cost, &peak);
        assert_int_equal(want[i].sqrt_cost, cost);
        assert_true(peak <= want[i].sqrt_peak);
        end(&k);
    }
}

/* Node evaluations of the best plan there is for chains of unit cost (exhaustive search, published
 * with Checkmate).  Nobody claims fewer, two bytes are too few for anybody, and Capuchin's
 * recomputation finds the best each time. */
static void
optimal_chains(void **state)
{
    (void)state;
    static const uint64_t    best[3][8] = {{0, 0, 0, 6, 5, 5, 5, 5},
                                           {0, 0, 0, 10, 8, 7, 7, 7},
                                           {0, 0, 0, 15, 11, 10, 9, 9}};
    static const char *const who[] = {"monger", "superneurons", "vdnn", "capuchin"};
    for (uint32_t n = 2; n <= 4; n++)
        for (uint64_t budget = 2; budget < 8; budget++)
            for (size_t w = 0; w < sizeof who / sizeof who[0]; w++) {
                chain        k = make_chain(n, NULL, NULL, false);
                zi_plan     *p = NULL;
                zi_forecast  f = {0};
                zi_plan_task task = {.graph = k.g, .cost = k.c, .budget_bytes = budget};
                k.c->tensor_bytes[0] = 0; /* the input is nobody's */
                zico_status st = zi_planner_find(who[w])->solve(&task, &p, NULL);
                if (st >= 0) expect_ok(zi_plan_simulate(p, k.g, k.c, NULL, &f));
                if (budget == 2)
                    assert_int_equal(ZICO_E_NOPLAN, st);
                else if (!strcmp(who[w], "capuchin"))
                    assert_int_equal(best[n - 2][budget], f.busy_ns);
                else
                    assert_true(st == ZICO_E_NOPLAN || f.busy_ns >= best[n - 2][budget]);
                zi_plan_free(p);
                end(&k);
            }
}

/* CLAIM: a chain of n equal layers whose borders are lost, too, trains in O(log n) memory with
 * O(n log n) evaluations: twice the layers cost a constant more memory. */
static void
log_memory(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (uint32_t n = 16, log = 4; n <= 256; n *= 2, log++) {
        chain      k = make_chain(n, NULL, NULL, false);
        zi_node_id cut[300];
        uint32_t   border[600];
        zi_draft  *d;
        zi_trial   t;
        k.c->tensor_bytes[0] = 0;
        for (zi_node_id i = 0; i < n; i++) cut[i] = i;
        assert_true(k.g->n_tensors < 600);
        expect_ok(zi_draft_new(k.g, k.c, &d));
        zi_monger_halve(d, cut, n, border);
        expect_ok(zi_draft_try(d, "monger", 0, &t));
        assert_true(t.forecast.peak_bytes <= log + 4);
        assert_true(t.forecast.busy_ns <= 2 * n + 1 + (uint64_t)n * log);
        if (before) assert_true(t.forecast.peak_bytes <= before + 1);
        before = t.forecast.peak_bytes;
        zi_plan_free(t.plan);
        zi_draft_free(d);
        end(&k);
    }
}

/* The smallest peak of segments whose borders stay. */
static zi_trial
best_segments(zi_draft *d)
{
    zi_node_id *eligible = calloc(d->g->n_nodes, sizeof *eligible);
    zi_node_id *cut = calloc(d->g->n_nodes, sizeof *cut);
    uint64_t    kept, whole;
    size_t      n;
    zi_trial    best = {0};
    expect_ok(zi_monger_eligible(d, 2, eligible, &n));
    (void)zi_monger_greedy(d, eligible, n, UINT64_MAX, cut, &kept, &whole);
    for (uint64_t parts = 2; parts < 64; parts++) {
        zi_trial now;
        zi_monger_cut(d, cut,
                      zi_monger_greedy(d, eligible, n, whole / parts, cut, &kept, &kept));
        expect_ok(zi_draft_try(d, "monger", 1, &now));
        zi_trial_keep_better(&best, &now);
    }
    free(eligible);
    free(cut);
    return best;
}

/* CLAIM: an unrolled LSTM of n steps trains in O(sqrt n) memory, and no node runs more than
 * twice: four times the steps, at most two and a half times the activations.  The planner gets at
 * least as low; where it must, borders are lost, too. */
static void
sqrt_memory(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int steps = 16; steps <= 256; steps *= 4) {
        zi_graph *g = t_net_lstm(steps, 2, 16);
        zi_cost  *c;
        zi_draft *d;
        zi_plan  *p = NULL;
        uint64_t  least = 0;
        expect_ok(zi_cost_guess(g, &c));
        expect_ok(zi_draft_new(g, c, &d));
        zi_trial best = best_segments(d);
        uint8_t *runs = calloc(g->n_nodes, 1);
        for (uint32_t i = 0; i < best.plan->n_acts; i++)
            if (best.plan->acts[i].kind <= ZI_ACT_REDO) runs[best.plan->acts[i].what]++;
        for (zi_node_id i = 0; i < g->n_nodes; i++) assert_in_range(runs[i], 1, 2);
        uint64_t acts = best.forecast.peak_bytes - zi_cost_fixed_bytes(g, c);
        if (before) assert_true(acts <= before * 5 / 2);
        before = acts;
        zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = 1};
        expect_status(ZICO_E_NOPLAN, zi_planner_find("monger")->solve(&task, &p, &least));
        assert_true(least <= best.forecast.peak_bytes + best.forecast.peak_bytes / 50);
        free(runs);
        zi_plan_free(best.plan);
        zi_draft_free(d);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* Cuts are sought where few tensors cross: one in a chain. */
static void
eligible_nodes(void **state)
{
    (void)state;
    zi_graph   *g = t_net_chain(6, 2);
    zi_cost    *c;
    zi_draft   *d;
    zi_node_id *node = calloc(g->n_nodes, sizeof *node);
    size_t      n_one, n_all;
    expect_ok(zi_cost_guess(g, &c));
    expect_ok(zi_draft_new(g, c, &d));
    expect_ok(zi_monger_eligible(d, 1, node, &n_one));
    expect_ok(zi_monger_eligible(d, 1000, node, &n_all));
    assert_true(n_one >= 6 && n_one <= n_all);
    for (size_t i = 1; i < n_all; i++) assert_true(node[i] > node[i - 1]);
    free(node);
    zi_draft_free(d);
    zi_cost_free(c);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg19),          cmocka_unit_test(unit_chains),
        cmocka_unit_test(optimal_chains), cmocka_unit_test(sqrt_memory),
        cmocka_unit_test(log_memory),     cmocka_unit_test(eligible_nodes),
    };
    return t_main(tests);
}

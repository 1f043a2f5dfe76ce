/* exec_passive_test.c -- a step that does not fit runs on demand: same bits, within the budget.
 * timeout: 300 */
#include "exec_train.h"
#include "exec/passive.h"
#include "exec/tier.h"
#include "planner/planner.h"
#include "support/plan_nets.h"

#define STEPS 4

static zi_graph *
net(const char *spec, int64_t batch)
{
    return xt_graph(spec, batch, 3, ZI_OPTIM_ADAM);
}

typedef struct outcome {
    double         loss[STEPS];
    uint64_t       hash;
    unsigned       n_passive;
    uint64_t       peak_bytes;
    zi_exec_memory memory;
} outcome;

static void
step(zi_exec *e, const zi_graph *g, uint64_t no)
{
    xt_step(e, g, no, 999 + no, 8, 0.01f);
}

static void
take(zi_exec *e, uint64_t no, outcome *o)
{
    zi_exec_step_result r;
    expect_ok(zi_exec_result(e, true, &r));
    expect_ok(r.status);
    o->loss[no - 1] = r.loss;
    o->n_passive += r.passive;
    if (r.peak_bytes > o->peak_bytes) o->peak_bytes = r.peak_bytes;
}

static void
hash_weights(zi_exec *e, const zi_graph *g, outcome *o)
{
    o->hash = 14695981039346656037ull;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if (x->role != ZI_ROLE_PARAM && x->role != ZI_ROLE_STATE) continue;
        uint8_t *data = malloc(x->bytes);
        expect_ok(zi_exec_get(e, t, data, x->bytes));
        for (uint64_t i = 0; i < x->bytes; i++)
            o->hash = (o->hash ^ data[i]) * 1099511628211ull;
        free(data);
    }
}

static zi_exec *
make(const zi_exec_options *opt)
{
    zi_graph_diag d = {0};
    zi_exec      *e;
    zico_status   st = zi_exec_new(opt, &d, &e);
    if (st < 0) fail_msg("%s: %s (%s)", opt->graph->name, d.text, zico_status_name(st));
    return e;
}

static outcome
train(const zi_exec_options *opt)
{
    outcome  o = {0};
    zi_exec *e = make(opt);
    for (uint64_t s = 1; s <= STEPS; s++) step(e, opt->graph, s);
    for (uint64_t s = 1; s <= STEPS; s++) take(e, s, &o);
    hash_weights(e, opt->graph, &o);
    zi_exec_read_memory(e, &o.memory);
    zi_exec_free(e);
    return o;
}

static void
expect_same(const outcome *a, const outcome *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_true(a->hash == b->hash);
}

/* The least budget with which this executor can be made. */
static uint64_t
least_budget(const zi_exec_options *opt, uint64_t region)
{
    zi_cost       *c;
    zi_plan       *keep;
    zi_place_stats stats;
    uint64_t       least, fixed = 0;
    expect_ok(zi_exec_cost(opt, NULL, &c));
    expect_ok(zi_plan_keep(opt->graph, c, &keep));
    expect_ok(zi_plan_place(keep, opt->graph, c, region, ZI_TIER_ALIGN, &stats));
    expect_ok(zi_passive_least(opt->graph, c, keep, ZI_TIER_ALIGN, &least, NULL));
    for (uint32_t s = 0; s < keep->n_slots && keep->slots[s].fixed; s++)
        fixed += keep->slots[s].size_bytes;
    uint64_t unit = keep->region_bytes;
    zi_plan_free(keep);
    zi_cost_free(c);
    return fixed + (least + unit - 1) / unit * unit;
}

static zi_tier *
file_tier(const char *dir)
{
    char     spec[4200];
    zi_tier *t;
    snprintf(spec, sizeof spec, "file:%s", dir);
    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    return t;
}

/* From keep's peak down to the least: measured within the budget, and no bit changes. */
static void
any_budget(void **state)
{
    const char *dir = t_tmpdir();
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph       *g = t_nets[i].make();
        zi_tier        *tier = file_tier(dir);
        zi_exec_options opt = {.graph = g, .n_threads = 1, .seed = 3, .tier = tier};
        outcome         want = train(&opt);
        uint64_t        least = least_budget(&opt, 0), most = want.memory.peak_slot_bytes;
        for (uint64_t k = 0; k < 4; k++) {
            opt.budget_bytes = least + (most - least) * k / 4;
            outcome got = train(&opt);
            expect_same(&want, &got);
            assert_int_equal(STEPS, got.n_passive);
            assert_true(got.memory.peak_slot_bytes <= opt.budget_bytes);
            assert_true(got.memory.peak_live_bytes <= got.memory.peak_slot_bytes);
            assert_int_equal(got.memory.peak_slot_bytes, got.peak_bytes);
        }
        opt.budget_bytes = most; /* what fits is left alone */
        outcome got = train(&opt);
        assert_int_equal(0, got.n_passive);
        opt.budget_bytes = least - 1;
        zi_graph_diag d = {0};
        zi_exec      *e = NULL;
        expect_status(ZICO_E_BUDGET, zi_exec_new(&opt, &d, &e));
        assert_non_null(strstr(d.text, "is the least"));
        assert_null(e);
        zi_tier_close(tier);
        zi_graph_free(g);
    }
    t_rmdir(dir);
}

/* A plan without its copies back, and with drops of what is still needed, still trains. */
static void
wrong_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        zi_graph  *g = t_nets[i].make();
        zi_tier   *tier;
        zi_cost   *c;
        zi_plan   *p, *bad;
        zi_verdict v;
        expect_ok(zi_tier_open(zi_os_real(), "ram", &tier));
        zi_exec_options opt = {.graph = g, .n_threads = 1, .seed = 3, .tier = tier};
        outcome         want = train(&opt);
        expect_ok(zi_exec_cost(&opt, NULL, &c));
        c->out_bytes_per_s = c->in_bytes_per_s = 1e10;
        zi_plan_task task = {.graph = g,
                             .cost = c,
                             .budget_bytes = want.memory.peak_live_bytes * 8 / 10};
        if (zi_planner_find("capuchin")->solve(&task, &p, NULL) < 0)
            expect_ok(zi_plan_keep(g, c, &p));
        expect_ok(zi_plan_new("bad", &bad));
        for (uint32_t a = 0; a < p->n_acts; a++) {
            if (p->acts[a].kind == ZI_ACT_IN || p->acts[a].kind == ZI_ACT_REDO) continue;
            expect_ok(zi_plan_add(bad, p->acts[a]));
            if (p->acts[a].kind == ZI_ACT_RUN && t_rand_below(2)) {
                const zi_node *n = &g->nodes[p->acts[a].what];
                if (n->n_out && n->out[0] != ZI_ID_NONE)
                    expect_ok(zi_plan_add(bad, (zi_act){.kind = ZI_ACT_DROP,
                                                        .what = n->out[0]}));
            }
        }
        assert_true(zi_plan_check(bad, g, c, 0, &v) < 0);
        opt.plan = bad;
        zi_exec *e = NULL;
        assert_true(zi_exec_new(&opt, NULL, &e) < 0); /* nobody asked for a net */
        opt.budget_bytes = want.memory.peak_slot_bytes;
        outcome got = train(&opt);
        expect_same(&want, &got);
        assert_int_equal(STEPS, got.n_passive);
        zi_plan_free(p);
        zi_plan_free(bad);
        zi_cost_free(c);
        zi_tier_close(tier);
        zi_graph_free(g);
    }
}

/* Another plan and another budget before every step: parameters stay where they are. */
static void
plans_change_between_steps(void **state)
{
    (void)state;
    for (int in_session = 0; in_session < 2; in_session++) {
        zi_graph          *g = net("resnet20:size=32", 16);
        zi_tier           *tier;
        zi_session        *s = NULL;
        zi_session_options so = {.local_bytes = 256ull << 20,
                                 .local_region_bytes = 2ull << 20,
                                 .job_name = "passive"};
        expect_ok(zi_tier_open(zi_os_real(), "ram", &tier));
        if (in_session) expect_ok(zi_session_open(&so, &s));
        zi_exec_options opt = {
            .graph = g, .n_threads = 1, .seed = 3, .tier = tier, .session = s};
        outcome  want = train(&opt), got = {0};
        uint64_t region = s ? zi_session_region_bytes(s) : 0;
        uint64_t least = least_budget(&opt, region), most = want.memory.peak_slot_bytes;
        zi_exec *e = make(&opt);
        for (uint64_t no = 1; no <= STEPS; no++) {
            step(e, g, no);
            take(e, no, &got);
            uint64_t      budget = no == 2 ? most : no % 2 ? least : (least + most) / 2;
            zi_graph_diag d = {0};
            expect_status(ZICO_E_BUDGET, zi_exec_replan(e, NULL, least / 2, &d));
            zico_status st = zi_exec_replan(e, NULL, budget, &d);
            if (st < 0) fail_msg("%s", d.text);
            assert_int_equal(zi_exec_is_passive(e), budget < most);
        }
        hash_weights(e, g, &got);
        expect_same(&want, &got);
        assert_true(got.n_passive > 0);
        zi_exec_free(e);
        zi_session_close(s);
        zi_tier_close(tier);
        zi_graph_free(g);
    }
}

/* The pool has less than the plan was made for: the step that notices goes on demand. */
static void
memory_runs_short(void **state)
{
    (void)state;
    const char *spec[] = {"resnet20:size=32",
                          "gpt:vocab=30,seq=64,width=96,layers=4,heads=2,dropout=0.1"};
    for (size_t i = 0; i < 2; i++) {
        zi_graph   *g = net(spec[i], 16);
        zi_tier    *tier;
        zi_session *s;
        expect_ok(zi_tier_open(zi_os_real(), "ram", &tier));
        zi_session_options so = {.local_bytes = 512ull << 20,
                                 .local_region_bytes = 2ull << 20,
                                 .job_name = "passive"};
        zi_exec_options    opt = {.graph = g, .n_threads = 1, .seed = 3, .tier = tier};
        outcome            want = train(&opt);
        expect_ok(zi_session_open(&so, &s));
        opt.session = s;
        outcome  whole = train(&opt);
        uint64_t least = least_budget(&opt, so.local_region_bytes);
        expect_same(&want, &whole);
        zi_session_close(s);
        assert_true(least + (2ull << 20) < whole.memory.peak_slot_bytes);
        so.local_bytes = (least + whole.memory.peak_slot_bytes) / 2 >> 21 << 21;
        expect_ok(zi_session_open(&so, &s));
        opt.session = s;
        opt.lease_wait_ns = 300000000ull; /* nobody else will give anything back */
        outcome got = train(&opt);
        expect_same(&want, &got);
        assert_int_equal(STEPS, got.n_passive);
        assert_true(got.peak_bytes <= so.local_bytes);
        zi_session_close(s);
        zi_tier_close(tier);
        zi_graph_free(g);
    }
}

/* -- the kernel's figure ---------------------------------------------------------------------- */

static uint64_t
status_bytes(const char *key)
{
    FILE    *f = fopen("/proc/self/status", "r");
    char     line[256];
    uint64_t kib = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), ": %llu", (unsigned long long *)&kib);
    fclose(f);
    return kib << 10;
}

static uint64_t
kernel_peak(const zi_exec_options *opt, outcome *ret)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f || fputs("5", f) < 0 || fclose(f) != 0)
        skip(); /* peaks cannot be reset here */
    uint64_t before = status_bytes("VmRSS");
    *ret = train(opt);
    return status_bytes("VmHWM") - before;
}

/* What goes to a file is really gone: the kernel counts no more than the budget, and far less than
 * without one. */
static void
kernel_counts_it(void **state)
{
    const char *dir = t_tmpdir();
    (void)state;
    zi_graph       *g = net("resnet20:size=32", 96);
    zi_tier        *tier = file_tier(dir);
    zi_exec_options opt = {.graph = g, .n_threads = 1, .seed = 3, .tier = tier};
    outcome         want, got;
    const uint64_t  slack = 12ull << 20; /* libraries, kernels, feeds */
    uint64_t        all = kernel_peak(&opt, &want);
    opt.budget_bytes = want.memory.peak_slot_bytes * 4 / 10;
    uint64_t some = kernel_peak(&opt, &got);
    expect_same(&want, &got);
    assert_int_equal(STEPS, got.n_passive);
    if (some > opt.budget_bytes + slack || all < want.memory.peak_slot_bytes)
        fail_msg("kernel: %llu without a budget (%llu planned), %llu within %llu",
                 (unsigned long long)all, (unsigned long long)want.memory.peak_slot_bytes,
                 (unsigned long long)some, (unsigned long long)opt.budget_bytes);
    zi_tier_close(tier);
    zi_graph_free(g);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_budget),
        cmocka_unit_test(wrong_plans),
        cmocka_unit_test(plans_change_between_steps),
        cmocka_unit_test(memory_runs_short),
        cmocka_unit_test(kernel_counts_it),
    };
    return t_main(tests);
}

/* plan_check_test.c -- the judge accepts what is right and names the rule that is broken. */
#include "plan/plan.h"
#include "base/alloc.h"
#include "planner/draft.h"
#include "support/plan_nets.h"
#include "test.h"

typedef struct bench {
    zi_graph *g;
    zi_cost  *c;
    zi_plan  *p;
} bench;

static bench
start(zi_graph *g)
{
    bench b = {.g = g};
    expect_ok(zi_cost_guess(g, &b.c));
    expect_ok(zi_plan_keep(g, b.c, &b.p));
    return b;
}

static void
end(bench *b)
{
    zi_plan_free(b->p);
    zi_cost_free(b->c);
    zi_graph_free(b->g);
}

static void
expect_fine(const bench *b)
{
    zi_verdict v;
    if (zi_plan_check(b->p, b->g, b->c, 0, &v) < 0)
        fail_msg("P%d at act %u: %s", v.rule, v.bad_act, v.text);
}

static void
expect_broken(const bench *b, int rule, uint64_t budget)
{
    zi_verdict v;
    expect_status(ZICO_E_NOPLAN, zi_plan_check(b->p, b->g, b->c, budget, &v));
    if (v.rule != rule) fail_msg("P%d, not P%d: %s", v.rule, rule, v.text);
    assert_true(v.text[0] != '\0');
}

static uint32_t
find(const zi_plan *p, zi_act_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < p->n_acts; i++)
        if (p->acts[i].kind == kind && nth-- == 0) return i;
    fail_msg("no such act");
    return 0;
}

static void
insert(zi_plan *p, uint32_t at, zi_act a)
{
    expect_ok(zi_plan_add(p, a));
    memmove(&p->acts[at + 1], &p->acts[at], (p->n_acts - 1 - at) * sizeof a);
    p->acts[at] = a;
}

static void
erase(zi_plan *p, uint32_t at)
{
    memmove(&p->acts[at], &p->acts[at + 1], (p->n_acts - 1 - at) * sizeof *p->acts);
    p->n_acts--;
}

static void
swap(zi_plan *p, uint32_t a, uint32_t b)
{
    zi_act x = p->acts[a];
    p->acts[a] = p->acts[b];
    p->acts[b] = x;
}

/* keep and keep-all are valid on every net; keep's peak is that of liveness or less. */
static void
baselines(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        bench      b = start(t_nets[i].make());
        zi_plan   *all;
        zi_verdict vk, va;
        expect_fine(&b);
        expect_ok(zi_plan_keep_all(b.g, b.c, &all));
        expect_ok(zi_plan_check(b.p, b.g, b.c, 0, &vk));
        expect_ok(zi_plan_check(all, b.g, b.c, 0, &va));
        assert_true(vk.peak_bytes < va.peak_bytes);
        assert_int_equal(b.g->n_nodes, all->n_acts);
        uint64_t sum = vk.fixed_bytes;
        for (zi_tensor_id t = 0; t < b.g->n_tensors; t++)
            if (b.g->tensors[t].producer != ZI_ID_NONE) sum += b.c->tensor_bytes[t];
        assert_true(va.peak_bytes <= sum);
        expect_ok(zi_plan_check(b.p, b.g, b.c, vk.peak_bytes, &vk));
        zi_plan_free(all);
        end(&b);
    }
}

/* P1: every node once, in order. */
static void
rule_1(void **state)
{
    (void)state;
    bench b = start(t_net_residual(1, 2));
    erase(b.p, find(b.p, ZI_ACT_RUN, 3));
    expect_broken(&b, 1, 0);
    end(&b);
    b = start(t_net_residual(1, 2));
    insert(b.p, find(b.p, ZI_ACT_RUN, 3), b.p->acts[find(b.p, ZI_ACT_RUN, 2)]);
    expect_broken(&b, 1, 0);
    end(&b);
    b = start(t_net_residual(1, 2));
    swap(b.p, find(b.p, ZI_ACT_RUN, 1), find(b.p, ZI_ACT_RUN, 2));
    expect_broken(&b, 1, 0);
    b.p->acts[0].what = b.g->n_nodes;
    expect_broken(&b, 1, 0);
    end(&b);
}

/* P2: dropped too early, or read before the copy in is over. */
static void
rule_2(void **state)
{
    (void)state;
    bench    b = start(t_net_residual(1, 2));
    uint32_t at = find(b.p, ZI_ACT_DROP, 0), use = at;
    while (b.p->acts[use].kind != ZI_ACT_RUN) use--;
    swap(b.p, at, use);
    expect_broken(&b, 2, 0);
    end(&b);
}

/* A plan that moves things out, made by a draft. */
static bench
start_with_swaps(void)
{
    bench     b = start(t_net_residual(3, 2));
    zi_draft *d;
    zi_plan_free(b.p);
    b.c->copy_latency_ns = 0; /* fast copies: all of them are worth their while */
    b.c->out_bytes_per_s = b.c->in_bytes_per_s = 1e12;
    expect_ok(zi_draft_new(b.g, b.c, &d));
    for (zi_tensor_id t = 0; t < b.g->n_tensors; t++)
        if (zi_draft_may_redo(d, t)) (t % 3 ? zi_draft_swap : zi_draft_redo)(d, t);
    expect_ok(zi_draft_lower(d, "x", 0, &b.p));
    zi_draft_free(d);
    expect_fine(&b);
    return b;
}

static uint32_t
find_of(const zi_plan *p, zi_act_kind kind, zi_tensor_id t)
{
    for (uint32_t i = 0; i < p->n_acts; i++)
        if (p->acts[i].kind == kind && p->acts[i].what == t) return i;
    fail_msg("no such act");
    return 0;
}

/* Copies: each of their acts is needed, and in that order. */
static void
copies(void **state)
{
    (void)state;
    bench        b = start_with_swaps();
    zi_tensor_id t = b.p->acts[find(b.p, ZI_ACT_IN, 0)].what;
    uint32_t     in = find_of(b.p, ZI_ACT_IN, t), wait = in;
    while (b.p->acts[wait].kind != ZI_ACT_WAIT || b.p->acts[wait].what != t) wait++;
    zi_act kept = b.p->acts[wait];
    erase(b.p, wait); /* read while on its way in */
    expect_broken(&b, 2, 0);
    insert(b.p, wait, kept);
    expect_fine(&b);

    uint32_t out = find_of(b.p, ZI_ACT_OUT, t);
    kept = b.p->acts[out];
    erase(b.p, out); /* comes in, but was never out */
    expect_broken(&b, 4, 0);
    insert(b.p, out, kept);

    wait = find_of(b.p, ZI_ACT_WAIT, t);
    kept = b.p->acts[wait];
    erase(b.p, wait); /* dropped while on its way out */
    expect_broken(&b, 4, 0);
    insert(b.p, wait, kept);

    uint32_t drop = find_of(b.p, ZI_ACT_DROP, t);
    kept = b.p->acts[drop];
    erase(b.p, drop); /* comes in, but is here */
    expect_broken(&b, 3, 0);
    insert(b.p, drop, kept);
    insert(b.p, drop, kept); /* dropped twice */
    expect_broken(&b, 3, 0);
    erase(b.p, drop);
    expect_fine(&b);
    b.c->tier_bytes = 100;
    expect_broken(&b, 4, 0);
    b.c->out_bytes_per_s = 0;
    expect_broken(&b, 4, 0);
    end(&b);
}

/* P3: fixed tensors, views and strangers are neither dropped nor moved; overwriting needs a
 * pair that the operator has. */
static void
rule_3(void **state)
{
    (void)state;
    bench        b = start(t_net_residual(1, 2));
    zi_tensor_id w = zi_graph_find_tensor(b.g, "stem.conv.weight");
    insert(b.p, 1, (zi_act){.kind = ZI_ACT_DROP, .what = w});
    expect_broken(&b, 3, 0);
    b.p->acts[1].what = b.g->n_tensors;
    expect_broken(&b, 3, 0);
    b.p->acts[1] = (zi_act){.kind = ZI_ACT_ENCODE, .what = b.g->nodes[0].out[0]};
    expect_broken(&b, 3, 0);
    erase(b.p, 1);
    for (unsigned over = 1; over < 256; over = over * 2 + 1) {
        uint8_t was = b.p->acts[0].over; /* a convolution has no pairs */
        b.p->acts[0].over = (uint8_t)over;
        expect_broken(&b, 3, 0);
        b.p->acts[0].over = was;
    }
    expect_fine(&b);
    /* over an input that is read again later */
    bool tried = false;
    for (uint32_t i = 0; i < b.p->n_acts && !tried; i++) {
        zi_act *a = &b.p->acts[i];
        if (a->kind != ZI_ACT_RUN || a->over) continue;
        if (b.g->nodes[a->what].op != ZI_OP_BATCH_NORM) continue;
        a->over = 1;
        expect_broken(&b, 2, 0);
        tried = true;
    }
    assert_true(tried);
    end(&b);
}

/* P5: what may run again, and when. */
static void
rule_5(void **state)
{
    (void)state;
    bench    b = start(t_net_residual(1, 2));
    uint32_t stats = 0, conv = 0, dw = 0;
    for (uint32_t i = 0; i < b.p->n_acts; i++) {
        if (b.p->acts[i].kind != ZI_ACT_RUN) continue;
        zi_op op = b.g->nodes[b.p->acts[i].what].op;
        if (op == ZI_OP_BN_STATS && !stats) stats = i;
        if (op == ZI_OP_CONV2D && !conv) conv = i + 1;
        if (op == ZI_OP_CONV2D_DW && !dw) dw = i;
    }
    conv--;
    zi_act again = {.kind = ZI_ACT_REDO, .what = b.p->acts[conv].what};
    insert(b.p, b.p->n_acts, again); /* after its weights have moved */
    expect_broken(&b, 5, 0);
    b.p->n_acts--;
    insert(b.p, conv, again); /* before it has run */
    expect_broken(&b, 5, 0);
    erase(b.p, conv);
    insert(b.p, stats + 1, (zi_act){.kind = ZI_ACT_REDO, .what = b.p->acts[stats].what});
    expect_broken(&b, 5, 0);
    erase(b.p, stats + 1);
    insert(b.p, dw + 1, (zi_act){.kind = ZI_ACT_REDO, .what = b.p->acts[dw].what});
    expect_broken(&b, 5, 0);
    erase(b.p, dw + 1);
    insert(b.p, conv + 1, again); /* useless, but allowed */
    expect_fine(&b);
    end(&b);
}

/* P6: what lives on is there at the end, and no copy is under way. */
static void
rule_6(void **state)
{
    (void)state;
    bench b = start(t_net_residual(1, 2));
    insert(b.p, b.p->n_acts, (zi_act){.kind = ZI_ACT_DROP, .what = b.g->loss});
    expect_broken(&b, 6, 0);
    b.p->n_acts--;
    insert(b.p, b.p->n_acts, (zi_act){.kind = ZI_ACT_OUT, .what = b.g->loss});
    expect_broken(&b, 6, 0);
    insert(b.p, b.p->n_acts, (zi_act){.kind = ZI_ACT_WAIT, .what = b.g->loss});
    expect_fine(&b);
    end(&b);
}

/* P7: one byte less than the peak is too little, and scratch counts. */
static void
rule_7(void **state)
{
    (void)state;
    bench      b = start(t_net_residual(1, 2));
    zi_verdict v, w;
    expect_ok(zi_plan_check(b.p, b.g, b.c, 0, &v));
    expect_ok(zi_plan_check(b.p, b.g, b.c, v.peak_bytes, &w));
    expect_broken(&b, 7, v.peak_bytes - 1);
    b.c->scratch_bytes[b.p->acts[v.peak_act].what] = 1;
    expect_broken(&b, 7, v.peak_bytes);
    end(&b);
}

/* P8: every single displacement of a place is seen, as is every slot that closes too early. */
static void
rule_8(void **state)
{
    (void)state;
    for (int regions = 0; regions < 2; regions++) {
        bench b = start_with_swaps();
        expect_ok(zi_plan_place(b.p, b.g, b.c, regions ? 32768 : 0, 64, NULL));
        expect_fine(&b);
        unsigned n_seen = 0;
        for (uint32_t i = 0; i < b.p->n_places; i++) {
            zi_place was = b.p->places[i];
            b.p->places[i].slot = b.p->n_slots;
            expect_broken(&b, 8, 0);
            b.p->places[i] = was;
            b.p->places[i].offset = b.p->slots[was.slot].size_bytes;
            expect_broken(&b, 8, 0);
            b.p->places[i] = was;
            if (was.act == UINT32_MAX) continue;
            b.p->places[i].act++;
            expect_broken(&b, 8, 0);
            b.p->places[i] = was;
            b.p->places[i].tensor = ZI_ID_NONE - 1;
            expect_broken(&b, 8, 0);
            b.p->places[i] = was;
            n_seen++;
        }
        assert_true(n_seen > 50);
        for (uint32_t i = 0; i < b.p->n_slots; i++) {
            if (b.p->slots[i].fixed) continue;
            b.p->slots[i].last--;
            expect_broken(&b, 8, 0);
            b.p->slots[i].last++;
            b.p->slots[i].size_bytes--;
            expect_broken(&b, 8, 0);
            b.p->slots[i].size_bytes++;
            if (!regions) continue;
            b.p->slots[i].first++;
            expect_broken(&b, 8, 0);
            b.p->slots[i].first--;
        }
        b.p->n_places--;
        expect_broken(&b, 8, 0);
        end(&b);
    }
}

/* Two tensors that live at the same time are put onto each other: seen for every pair tried. */
static void
overlaps_are_seen(void **state)
{
    (void)state;
    bench b = start(t_net_residual(2, 2));
    expect_ok(zi_plan_place(b.p, b.g, b.c, 0, 64, NULL));
    for (uint32_t i = 0; i + 1 < b.p->n_places; i++) {
        zi_place *x = &b.p->places[i], *y = &b.p->places[i + 1];
        if (x->act == UINT32_MAX || x->act != y->act) continue; /* born together */
        uint64_t was = y->offset;
        y->offset = x->offset;
        expect_broken(&b, 8, 0);
        y->offset = was;
    }
    for (uint32_t i = 1; i < b.p->n_places && b.p->places[i].act == UINT32_MAX; i++) {
        uint64_t was = b.p->places[i].offset;
        b.p->places[i].offset = b.p->places[i - 1].offset;
        expect_broken(&b, 8, 0);
        b.p->places[i].offset = was;
    }
    expect_fine(&b);
    end(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(baselines), cmocka_unit_test(rule_1),
        cmocka_unit_test(rule_2),    cmocka_unit_test(copies),
        cmocka_unit_test(rule_3),    cmocka_unit_test(rule_5),
        cmocka_unit_test(rule_6),    cmocka_unit_test(rule_7),
        cmocka_unit_test(rule_8),    cmocka_unit_test(overlaps_are_seen),
    };
    return t_main(tests);
}

/* passive_test.c -- plans made on demand are sound in any arena that holds the largest node. */
#include "exec/passive.h"
#include "support/plan_nets.h"
#include "test.h"

#define ALIGN 64u

typedef struct bench {
    zi_graph *g;
    zi_cost  *c;
    zi_plan  *keep;
    uint64_t  least, most; /* arenas: smallest possible, and keep's */
} bench;

static bench
open_bench(zi_graph *g)
{
    bench          b = {.g = g};
    zi_place_stats stats;
    expect_ok(zi_cost_guess(g, &b.c));
    b.c->out_bytes_per_s = b.c->in_bytes_per_s = 1e9;
    expect_ok(zi_plan_keep(g, b.c, &b.keep));
    expect_ok(zi_plan_place(b.keep, g, b.c, 0, ALIGN, &stats));
    expect_ok(zi_passive_least(g, b.c, b.keep, ALIGN, &b.least, NULL));
    b.most = stats.peak_slot_bytes - zi_plan_fixed_bytes(b.keep);
    return b;
}

static void
close_bench(bench *b)
{
    zi_plan_free(b->keep);
    zi_cost_free(b->c);
    zi_graph_free(b->g);
}

/* Follow `guide` in an arena; the checker says the plan is sound and stays inside. */
static zi_verdict
follow(const bench *b, const zi_plan *guide, uint64_t arena)
{
    zi_passive_task task = {.graph = b->g,
                            .cost = b->c,
                            .guide = guide,
                            .placed = b->keep,
                            .arena_bytes = arena,
                            .align = ALIGN};
    zi_verdict      v;
    zi_plan        *p;
    expect_ok(zi_passive_plan(&task, &p));
    if (zi_plan_check(p, b->g, b->c, zi_plan_fixed_bytes(b->keep) + arena, &v) < 0)
        fail_msg("%s, arena %llu of %llu: %s", b->g->name, (unsigned long long)arena,
                 (unsigned long long)b->least, v.text);
    assert_true(p->slots[p->n_slots - 1].size_bytes <= arena);
    zi_plan_free(p);
    return v;
}

/* With room enough nothing moves; the less there is, the more moves; below the least it says so. */
static void
every_net_in_every_arena(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_nets; i++) {
        bench      b = open_bench(t_nets[i].make());
        zi_verdict all = follow(&b, b.keep, 2 * b.most);
        assert_int_equal(0, all.out_bytes);
        assert_true(b.least < b.most);
        for (int k = 0; k <= 8; k++) {
            zi_verdict v =
                follow(&b, b.keep, b.least + (b.most - b.least) * (uint64_t)k / 9);
            if (k == 0) assert_true(v.out_bytes > 0);
            assert_int_equal(0, v.n_redo);
        }
        zi_passive_task task = {.graph = b.g,
                                .cost = b.c,
                                .guide = b.keep,
                                .placed = b.keep,
                                .arena_bytes = b.least - 1,
                                .align = ALIGN};
        zi_plan        *p;
        expect_status(ZICO_E_NOPLAN, zi_passive_plan(&task, &p));
        close_bench(&b);
    }
}

/* Forks, joins and views of every kind, down to the last byte. */
static void
random_nets(void **state)
{
    (void)state;
    for (unsigned i = 0; i < t_rounds(60, 2000); i++) {
        bench b = open_bench(t_net_random());
        follow(&b, b.keep, b.least);
        follow(&b, b.keep, b.least + t_rand_below(b.most + 1));
        close_bench(&b);
    }
}

/* Any list of acts, sound or not. */
static zi_plan *
spoilt(const zi_plan *from, const zi_graph *g)
{
    zi_plan *p;
    expect_ok(zi_plan_new("spoilt", &p));
    for (uint32_t a = 0; a < from->n_acts; a++) {
        zi_act       act = from->acts[a];
        const size_t way = t_rand_below(16);
        if (way == 0 && act.kind != ZI_ACT_RUN) continue; /* forgotten */
        if (way == 1) /* something out of place before it */
            expect_ok(zi_plan_add(
                p, (zi_act){.kind = (zi_act_kind)(1 + t_rand_below(ZI_ACT_COUNT - 1)),
                            .what = (uint32_t)t_rand_below(g->n_tensors)}));
        if (way == 2 && act.kind == ZI_ACT_RUN) act.over = (uint8_t)t_rand_below(4);
        expect_ok(zi_plan_add(p, act));
    }
    return p;
}

/* Guides that drop what is needed, bring in what never left, redo too late: followed as far as
 * they are sound, and what is absent comes on demand. */
static void
wrong_guides(void **state)
{
    unsigned n_wrong = 0;
    (void)state;
    for (unsigned i = 0; i < t_rounds(120, 4000); i++) {
        bench      b = open_bench(i % 2 ? t_net_random() : t_nets[i % t_n_nets].make());
        zi_plan   *p = spoilt(b.keep, b.g);
        zi_verdict v;
        n_wrong += zi_plan_check(p, b.g, b.c, 0, &v) < 0;
        uint64_t least;
        expect_ok(zi_passive_least(b.g, b.c, p, ALIGN, &least, NULL));
        follow(&b, p, (least > b.least ? least : b.least) + t_rand_below(b.most + 1));
        zi_plan_free(p);
        close_bench(&b);
    }
    assert_true(n_wrong > 50); /* the sample was worth something */
}

/* A guide that runs nodes in an impossible order is not followed: keep's order is. */
static void
impossible_order(void **state)
{
    (void)state;
    bench    b = open_bench(t_net_chain(4, 2));
    zi_plan *p;
    expect_ok(zi_plan_new("backwards", &p));
    for (zi_node_id n = b.g->n_nodes; n-- > 0;)
        expect_ok(zi_plan_add(p, (zi_act){.kind = ZI_ACT_RUN, .what = n}));
    follow(&b, p, b.least);
    zi_plan_free(p);
    close_bench(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_net_in_every_arena),
        cmocka_unit_test(random_nets),
        cmocka_unit_test(wrong_guides),
        cmocka_unit_test(impossible_order),
    };
    return t_main(tests);
}

/* tests/numeric/exec_memory_test.c -- slots waste little, with the sizes that kernels really
 * want: padding of blocked layouts, scratch.  (plan_place_test.c has the graph's own sizes.)
 * timeout: 240 */
#include "exec/exec_private.h"
#include "exec_train.h"

static const struct {
    const char *spec;
    int64_t     batch;
} nets[] = {{"resnet20", 128},
            {"resnet18", 8},
            {"resnet34", 8},
            {"resnet50", 8},
            {"vgg16", 4},
            {"densenet121", 4},
            {"unet", 2},
            {"mobilenet_v2", 16},
            {"gpt:seq=256", 16},
            {"lstm_lm", 64},
            {"mlp:hidden=2048", 8192}};
#define N_NETS (sizeof nets / sizeof nets[0])

static double
peak_ratio(const zi_place_stats *s)
{
    return (double)s->peak_slot_bytes / (double)s->peak_live_bytes;
}

/* Every network of the zoo: the peak of slots is within 5 % of the peak of live bytes, which
 * no placement can beat, in a mapping of its own and in regions of 2 MiB; there the mean of
 * leased bytes is within 15 % of the mean of live ones. */
static void
slots_are_tight(void **state)
{
    (void)state;
    assert_int_equal(zi_zoo_count(), N_NETS);
    for (size_t i = 0; i < N_NETS; i++) {
        zi_graph       *g = xt_graph(nets[i].spec, nets[i].batch, 1, ZI_OPTIM_MOMENTUM);
        zi_exec_options xo = {.graph = g, .n_threads = 2};
        zi_cost        *c;
        zi_plan        *p;
        zi_place_stats  own, leased;
        zi_verdict      v;

        expect_ok(zi_exec_cost(&xo, NULL, &c));
        expect_ok(zi_plan_keep(g, c, &p));
        expect_ok(zi_plan_place(p, g, c, 0, 64, &own));
        expect_ok(zi_plan_check(p, g, c, 0, &v));
        expect_ok(zi_plan_place(p, g, c, 2u << 20, 64, &leased));
        expect_ok(zi_plan_check(p, g, c, 0, &v));
        print_message("%-14s %7.1f MiB alive; peak %.3f, in regions %.3f, mean %.3f\n",
                      nets[i].spec, (double)own.peak_live_bytes / 1048576.0,
                      peak_ratio(&own), peak_ratio(&leased), leased.mean_ratio);
        assert_true(peak_ratio(&own) <= 1.05);
        assert_true(peak_ratio(&leased) <= 1.05);
        assert_true(leased.mean_ratio <= 1.15);
        zi_plan_free(p);
        zi_cost_free(c);
        zi_graph_free(g);
    }
}

/* Work under way when the slots of piece i are opened: the pieces before it that may not be done yet. */
static uint64_t
work_ahead(const zi_exec *e, uint32_t i, uint64_t *ret_longest)
{
    uint64_t sum = 0;

    *ret_longest = 0;
    for (uint32_t k = 1; k < e->prog.pieces[i].lead && k <= i; k++) {
        const exec_piece *p = &e->prog.pieces[i - k];
        for (uint32_t a = p->begin; a < p->end; a++) {
            const exec_cmd *cmd = &e->prog.cmds[a];
            if (cmd->kind != ZI_ACT_RUN && cmd->kind != ZI_ACT_REDO) continue;
            uint64_t ns = e->cost->node_ns[cmd->what];
            if (ns > *ret_longest) *ret_longest = ns;
            sum += ns;
        }
    }
    return sum;
}

/* A slot is leased while there is enough work under way to hide the way to the broker, and not much
 * sooner: at most twice as much, and a kernel that cannot be divided. */
static void
slots_come_just_in_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        zi_graph *g = xt_graph(nets[i].spec, nets[i].batch, 1, ZI_OPTIM_MOMENTUM);
        zi_session_options so = {.local_bytes = 4ull << 30,
                                 .local_region_bytes = 2u << 20};
        zi_session        *s;
        zi_exec           *e;
        uint32_t           n_opened = 0;

        expect_ok(zi_session_open(&so, &s));
        zi_exec_options xo = {.graph = g, .n_threads = 2, .session = s};
        expect_ok(zi_exec_new(&xo, NULL, &e));
        for (uint32_t k = 0; k < e->prog.n_pieces; k++) {
            const exec_piece *p = &e->prog.pieces[k];
            uint64_t          longest, ahead = work_ahead(e, k, &longest);
            if (p->n_open == 0) continue;
            n_opened += p->n_open;
            assert_true(ahead <= 2 * EXEC_LEAD_NS + longest);
            if (p->lead < EXEC_LEAD && p->lead <= k) assert_true(ahead >= EXEC_LEAD_NS);
            if (k > 0) assert_true(p->lead >= 2);
        }
        assert_true(n_opened > 0);
        zi_exec_free(e);
        zi_session_close(s);
        zi_graph_free(g);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_tight),
        cmocka_unit_test(slots_come_just_in_time),
    };
    return t_main(tests);
}

/* tests/numeric/exec_memory_test.c -- slots waste little, with the sizes that kernels really
 * want: padding of blocked layouts, scratch.  (plan_place_test.c has the graph's own sizes.)
 * timeout: 240 */
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_tight),
    };
    return t_main(tests);
}

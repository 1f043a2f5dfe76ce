/* plan_order_test.c -- Capuchin against the others on the networks of the benchmarks, foreseen.
 *
 * No step is run: bytes are those of the executor, node times are guessed, and the tier is as fast as a
 * disk.  ctest: no-asan.  The same order is measured by bench/plan_numbers. */
#include "../../bench/plan_bench.h"
#include "cli/plan_study.h"
#include "test.h"

/* A study without a tier of its own: what is copied is only foreseen. */
static zi_study
start(const bench_net *net)
{
    zi_study_options opt = {.net = net->spec, .batch = net->batch};
    zi_train_diag    diag = {0};
    zi_study         s;
    expect_ok(zi_study_open(&opt, &diag, &s));
    s.align = ZI_TIER_ALIGN;
    s.cost->out_bytes_per_s = 2.5e9;
    s.cost->in_bytes_per_s = 1.2e9;
    s.cost->out_beside = 0.35;
    s.cost->in_beside = 0.85;
    for (uint32_t i = 0; i < s.cost->n_nodes; i++)
        s.cost->node_ns[i] /= 2; /* guesses are for one core */
    return s;
}

static zi_study_row
ask(zi_study *s, const char *planner, unsigned percent)
{
    zi_train_diag diag = {0};
    zi_study_row  row;
    expect_ok(zi_study_ask(s, zi_planner_find(planner), s->keep_bytes * percent / 100,
                           &diag, &row, NULL));
    assert_true(!row.fits || row.peak_bytes <= s->keep_bytes * percent / 100);
    return row;
}

/* Wherever vDNN, SuperNeurons or Memory Monger run, Capuchin runs, and is not slower by more than 3 %;
 * plans are placed, as they would be executed. */
static void
the_papers_order(void **state)
{
    (void)state;
    static const char *const other[] = {"vdnn", "superneurons", "monger"};
    static const unsigned    share[] = {70, 50, 30};
    for (size_t i = 0; i < N_BENCH_NETS; i++) {
        zi_study s = start(&bench_nets[i]);
        for (size_t b = 0; b < sizeof share / sizeof share[0]; b++) {
            zi_study_row c = ask(&s, "capuchin", share[b]);
            for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
                zi_study_row o = ask(&s, other[k], share[b]);
                if (!o.fits) continue;
                if (!c.fits || c.forecast.step_ns > o.forecast.step_ns * 103 / 100)
                    fail_msg("%s at %u %%: capuchin %.3f s, %s %.3f s",
                             bench_nets[i].name, share[b],
                             c.fits ? (double)c.forecast.step_ns / 1e9 : 0, other[k],
                             (double)o.forecast.step_ns / 1e9);
            }
        }
        zi_study_close(&s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_papers_order)};
    return t_main(tests);
}

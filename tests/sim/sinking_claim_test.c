/* sinking_claim_test.c -- a job that falls makes room, to the banker too, for one that rises.
 *
 * Two like jobs whose tides add up, half a step apart, to about the budget.  If the banker kept
 * the whole claim of the one that is past its high tide, the other could not rise beyond budget
 * minus claim, and the two would take turns.
 */
#include "sim/sim.h"
#include "test.h"

#define MB (1ull << 20)

/* ret_stalled: part of the time that a job waited for memory inside steps; NULL: of no interest. */
static double
measure(const char *policy, uint64_t budget, bool native, zi_sim_shape shape,
        double *ret_stalled)
{
    zi_sim_job        job[2];
    zi_sim_job_result per[2];
    zi_sim_result     res;
    zi_sim_options    opt = {.policy = policy,
                             .budget_bytes = budget,
                             .region_bytes = 2 * MB,
                             .n_cores = 2,
                             .horizon_ns = 60000000000ull,
                             .seed = 1,
                             .verify_every = 100};
    for (int i = 0; i < 2; i++) {
        job[i] = (zi_sim_job){.name = "job", .native = native, .fixed_bytes = 50 * MB};
        zi_sim_tide(shape, 500 * MB, 300000000, 32, &job[i].tide);
    }
    expect_ok(zi_sim_run(&opt, job, 2, &res, per));
    assert_int_equal(0, res.n_over_budget);
    assert_int_equal(0, res.n_two_owners);
    assert_false(res.deadlock);
    assert_int_equal(0, per[0].n_denied + per[1].n_denied);
    if (ret_stalled)
        *ret_stalled =
            (double)(per[0].stalled_ns + per[1].stalled_ns) / (2 * (double)res.end_ns);
    return res.throughput;
}

static double
throughput(const char *policy, uint64_t budget, bool native, zi_sim_shape shape)
{
    return measure(policy, budget, native, shape, NULL);
}

/* At 65 % of the sum of their peaks two plain networks get most of what unlimited memory would bring. */
static void
falls_make_room(void **state)
{
    (void)state;
    double turns = throughput("temporal", 715 * MB, true, ZI_SIM_TRIANGLE);
    double free_run = throughput("spatial", 4000 * MB, true, ZI_SIM_TRIANGLE);
    double shared = throughput("zico", 715 * MB, true, ZI_SIM_TRIANGLE);
    print_message("turns %.3f, unlimited %.3f, shared %.3f\n", turns, free_run, shared);
    assert_true(shared - turns >= 0.65 * (free_run - turns));
}

/* The gate starts steps where the banker will let them rise: next to nobody begins a step and then waits
 * for memory in its middle, though steps run beside each other only for a part of their time and are
 * slowed down there alone. */
static void
gate_foresees_the_banker(void **state)
{
    static const zi_sim_shape shape[] = {ZI_SIM_TRIANGLE, ZI_SIM_BEEFY};

    (void)state;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (uint64_t percent = 55; percent <= 85; percent += 10) {
            uint64_t budget = 1100 * percent / 100 * MB;
            double   stalled, turns = throughput("temporal", budget, true, shape[i]);
            double   shared = measure("zico", budget, true, shape[i], &stalled);
            print_message("shape %d, %llu %%: %.3f of turns, stalled %.4f\n",
                          (int)shape[i], (unsigned long long)percent, shared / turns,
                          stalled);
            assert_true(stalled <= 0.01);
            assert_true(shared >= 0.99 * turns);
        }
}

/* A command's steps are only known from watching it: its claim does not sink, and it is safe. */
static void
commands_keep_claims(void **state)
{
    (void)state;
    double turns = throughput("temporal", 715 * MB, false, ZI_SIM_TRIANGLE);
    double shared = throughput("zico", 715 * MB, false, ZI_SIM_TRIANGLE);
    assert_true(shared >= 0.98 * turns);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(falls_make_room),
        cmocka_unit_test(gate_foresees_the_banker),
        cmocka_unit_test(commands_keep_claims),
    };
    return t_main(tests);
}

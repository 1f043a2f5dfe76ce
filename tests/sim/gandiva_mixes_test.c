/* gandiva_mixes_test.c -- more jobs than memory holds, in slices: each that fits alone finishes.
 *
 * Random native jobs whose lasting memory is large beside their steps' come at random times to a
 * device that holds one or two of them; moving out and in takes time.  R1 to R3 hold, nobody is
 * refused memory, and everybody makes all its steps.                          timeout: 300
 *
 * ZI_SIM_MIXES=N runs N mixes; ZI_SEED=N replays: mix k uses seed N + k.
 */
#include "sim/sim.h"
#include "support/mixes.h"
#include "test.h"

#define MB     (1ull << 20)
#define MS     1000000ull
#define SECOND 1000000000ull
#define N_MAX  7

/* What it holds at most. */
static uint64_t
random_job(zi_rng *r, zi_sim_job *j)
{
    uint64_t peak = t_pick(r, 8, 120) * MB;

    *j = (zi_sim_job){
        .name = "job",
        .fixed_bytes = peak * t_pick(r, 20, 300) / 100,
        .private_bytes = t_chance(r, 0.3) ? t_pick(r, 1, 2 * MB) : 0,
        .weight_milli = (uint32_t)t_pick(r, 1, 3) * 1000,
        .n_steps = t_pick(r, 4, 60),
        .arrive_ns = t_chance(r, 0.4) ? 0 : t_pick(r, 0, 8 * SECOND),
        .gap_ns = t_chance(r, 0.5) ? 0 : t_pick(r, 0, 20 * MS),
        .scaling = 0.1 + 0.9 * zi_rng_unit(r),
        .native = true,
        .can_suspend = true,
        .n_ahead = t_chance(r, 0.5) ? (uint32_t)t_pick(r, 1, 2) : 0,
        .time_noise = t_chance(r, 0.7) ? 0.3 * zi_rng_unit(r) : 0,
    };
    zi_sim_tide((zi_sim_shape)zi_rng_below(r, ZI_SIM_N_SHAPES), peak,
                t_pick(r, 20, 400) * MS, (uint32_t)t_pick(r, 4, 24), &j->tide);
    return j->fixed_bytes + j->private_bytes + peak;
}

static uint64_t n_moves_in_all;

static void
run_mix(uint64_t seed, double deaths)
{
    zi_rng            r = zi_rng_seed(seed);
    zi_sim_job        jobs[N_MAX];
    zi_sim_result     res;
    zi_sim_job_result per[N_MAX];
    size_t            n = t_pick(&r, 2, N_MAX);
    uint64_t          most = 0, privates = 0;
    char              policy[32];

    for (size_t i = 0; i < n; i++) {
        uint64_t all = random_job(&r, &jobs[i]);
        if (all > most) most = all;
        privates += jobs[i].private_bytes;
    }
    snprintf(policy, sizeof policy, "gandiva:slice=%u", (unsigned)t_pick(&r, 1, 4));
    zi_sim_options opt = {
        .policy = policy,
        .region_bytes = 2 * MB,
        .n_cores = 2,
        .horizon_ns = 3600 * SECOND,
        .seed = seed,
        .verify_every = 16,
        .move_bytes_per_s = t_chance(&r, 0.2) ? 0 : (double)t_pick(&r, 50, 1000) * MB,
    };
    opt.budget_bytes =
        most * t_pick(&r, 106, 200) / 100 + privates + 4 * opt.region_bytes;
    for (size_t i = 0; i < n; i++)
        if (t_chance(&r, deaths)) jobs[i].die_ns = t_pick(&r, 1, 15 * SECOND);
    expect_ok(zi_sim_run(&opt, jobs, n, &res, per));
    for (size_t i = 0; i < n; i++) n_moves_in_all += per[i].n_moves;
    t_judge_mix(&opt, jobs, n, &res, per, true);
}

/* Everybody finishes, in every mix. */
static void
everybody_finishes(void **state)
{
    const char   *env = getenv("ZI_SIM_MIXES");
    unsigned long n = env && *env ? strtoul(env, NULL, 0) : t_rounds(300, 20000);

    (void)state;
    printf("mixes %lu, seeds %llu ..\n", n, (unsigned long long)t_seed());
    for (unsigned long k = 0; k < n; k++) run_mix(t_seed() + k, 0);
    printf("%llu moves\n", (unsigned long long)n_moves_in_all);
    assert_true(n_moves_in_all > n);
}

/* Some are killed: in a step, while they are out, on their way out or in; the others finish. */
static void
the_others_finish(void **state)
{
    (void)state;
    for (unsigned k = 0; k < t_rounds(200, 20000); k++) run_mix(t_seed() + k, 0.4);
}

/* Mixes that once went wrong: a newcomer sent away as it joined; a stuck step behind an old
 * request; a job told to leave that waited; freed memory taken by another; a first step begun
 * without a region left, beside a job that was still loading; one moved out again on its way in, for which
 * all others waited. */
static void
once_wrong(void **state)
{
    static const uint64_t seed[] = {88,   153,      229,      385,      410,     5351,
                                    5788, 20240617, 20241152, 20254038, 20240996};

    (void)state;
    for (size_t i = 0; i < sizeof seed / sizeof *seed; i++) run_mix(seed[i], 0);
    run_mix(20243514, 0.4);
    run_mix(20242319, 0.4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everybody_finishes),
                                       cmocka_unit_test(the_others_finish),
                                       cmocka_unit_test(once_wrong)};
    return t_main(tests);
}

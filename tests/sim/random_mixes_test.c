/* random_mixes_test.c -- random mixes of random tides, with noise, bursts, deaths, stops and
 * changes of the budget: R1 to R3 hold in each, under every policy.   timeout: 300
 *
 * ZI_SIM_MIXES=N runs N mixes instead of 10,000; ZI_SEED=N replays: mix k uses seed N + k.
 */
#include "sim/sim.h"
#include "policy/policy.h"
#include "support/mixes.h"
#include "test.h"

#define MB (1ull << 20)
#define MS 1000000ull

static void
random_job(zi_rng *r, uint64_t horizon, zi_sim_job *j)
{
    uint64_t peak = t_pick(r, 4, 200) * MB;
    uint64_t length = t_pick(r, 5, 400) * MS;

    *j = (zi_sim_job){
        .name = "job",
        .fixed_bytes = peak / t_pick(r, 4, 20),
        .private_bytes = t_chance(r, 0.3) ? t_pick(r, 1, 20 * MB) : 0,
        .weight_milli = (uint32_t)t_pick(r, 1, 4) * 1000,
        .arrive_ns = t_chance(r, 0.5) ? 0 : t_pick(r, 0, horizon / 2),
        .gap_ns = t_chance(r, 0.6) ? 0 : t_pick(r, 0, 20 * MS),
        .scaling = 0.1 + 0.9 * zi_rng_unit(r),
        .native = t_chance(r, 0.7),
        .can_suspend = false,
        .knows_tide = t_chance(r, 0.2),
        .n_ahead = t_chance(r, 0.3) ? (uint32_t)t_pick(r, 1, 3) : 0,
        .time_noise = t_chance(r, 0.7) ? 0.3 * zi_rng_unit(r) : 0,
        .byte_noise = t_chance(r, 0.5) ? 0.3 * zi_rng_unit(r) : 0,
    };
    zi_sim_tide((zi_sim_shape)zi_rng_below(r, ZI_SIM_N_SHAPES), peak, length,
                (uint32_t)t_pick(r, 4, 24), &j->tide);
    if (t_chance(r, 0.2)) j->claim_bytes = peak + peak / 2;
    if (t_chance(r, 0.15)) j->n_steps = t_pick(r, 1, 10);
    if (t_chance(r, 0.15)) j->die_ns = t_pick(r, 1, horizon);
    if (t_chance(r, 0.15)) {
        j->stop_ns = t_pick(r, 1, horizon);
        j->stop_for_ns = t_pick(r, 1, horizon);
    }
    if (t_chance(r, 0.2)) {
        j->burst_chance = 0.2 * zi_rng_unit(r);
        j->burst_factor = 1 + zi_rng_unit(r);
    }
    if (t_chance(r, 0.1)) j->limits.min_bytes = peak / 4;
    if (t_chance(r, 0.1)) j->limits.max_bytes = peak * 2;
    j->can_shrink = j->native && t_chance(r, 0.5);
    j->lean_cost = 0.4 * zi_rng_unit(r);
}

/* What was seen in all mixes, so that a test which tests nothing is noticed. */
static struct {
    uint64_t n_steps, n_calls, n_denied, stalled_ns, waited_ns, exchanged_bytes;
} seen;

/* One mix from one seed. */
static void
run_mix(uint64_t seed)
{
    zi_rng            r = zi_rng_seed(seed);
    zi_sim_job        jobs[10];
    zi_sim_change     change[4];
    zi_sim_result     res;
    zi_sim_job_result per[10];
    size_t            n = t_pick(&r, 1, t_chance(&r, 0.2) ? 10 : 5);
    uint64_t          horizon = t_pick(&r, 300, 9000) * MS, sum = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        random_job(&r, horizon, &jobs[i]);
        uint64_t all =
            jobs[i].fixed_bytes + jobs[i].private_bytes + jobs[i].tide.peak_bytes;
        sum += all;
        if (all > most) most = all;
    }
    static const char *const policies[] = {"zico", "zico", "zico", "temporal", "spatial"};
    zi_sim_options           opt = {
                  .policy = policies[zi_rng_below(&r, 5)],
                  .region_bytes = 2 * MB << zi_rng_below(&r, 3),
                  .n_cores = (uint32_t)t_pick(&r, 1, 4),
                  .horizon_ns = horizon,
                  .seed = seed,
                  .change = change,
                  .verify_every = 16,
    };
    opt.budget_bytes = sum * t_pick(&r, 30, 110) / 100 + opt.region_bytes;
    if (opt.budget_bytes < most && t_chance(&r, 0.8)) opt.budget_bytes = most * 5 / 4;
    if (t_chance(&r, 0.3)) {
        opt.n_changes = t_pick(&r, 1, 4);
        for (size_t i = 0; i < opt.n_changes; i++)
            change[i] = (zi_sim_change){horizon * (i + 1) / 6,
                                        opt.budget_bytes * t_pick(&r, 50, 150) / 100};
    }
    expect_ok(zi_sim_run(&opt, jobs, n, &res, per));
    seen.n_steps += res.n_steps;
    seen.n_calls += res.n_calls;
    for (size_t i = 0; i < n; i++) {
        seen.n_denied += per[i].n_denied;
        seen.stalled_ns += per[i].stalled_ns;
        seen.waited_ns += per[i].waited_ns;
        seen.exchanged_bytes += per[i].exchanged_bytes;
    }
    t_judge_mix(&opt, jobs, n, &res, per, false);
}

/* R1, R2 and R3 hold in every mix. */
static void
contract_holds(void **state)
{
    const char   *env = getenv("ZI_SIM_MIXES");
    unsigned long n = env && *env ? strtoul(env, NULL, 0) : t_rounds(10000, 1000000);

    (void)state;
    printf("mixes %lu, seeds %llu ..\n", n, (unsigned long long)t_seed());
    for (unsigned long k = 0; k < n; k++) run_mix(t_seed() + k);
    printf(
        "%llu steps, %llu calls, %llu requests refused, %.1f s waited, %.1f s stalled\n",
        (unsigned long long)seen.n_steps, (unsigned long long)seen.n_calls,
        (unsigned long long)seen.n_denied, (double)seen.waited_ns / 1e9,
        (double)seen.stalled_ns / 1e9);
    assert_true(seen.n_steps > 5 * n && seen.stalled_ns > 0 && seen.exchanged_bytes > 0);
}

/* One in some 300,000: three jobs waited for a fourth to be learnt, which waited until it was let in. */
static void
nobody_waits_for_a_learner_without_room(void **state)
{
    (void)state;
    run_mix(5099944);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract_holds),
        cmocka_unit_test(nobody_waits_for_a_learner_without_room),
    };
    return t_main(tests);
}

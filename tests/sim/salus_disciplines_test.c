/* salus_disciplines_test.c -- what each discipline is good at, on the virtual clock.
 *
 * A long job and many short ones, two cores, memory for a few; every discipline gets the same
 * jobs and keeps R1 to R3.                                                   timeout: 120 */
#include "sim/sim.h"
#include "base/rng.h"
#include "test.h"

#define MB     (1ull << 20)
#define MS     1000000ull
#define SECOND 1000000000ull
#define N      16

static zi_sim_job        job[N];
static zi_sim_job_result per[N];

typedef struct outcome {
    double makespan, mean, first, spread;
} outcome;

/* Job 0 is first and long; the others are short and come soon after. */
static void
draw(uint64_t seed)
{
    zi_rng r = zi_rng_seed(seed);

    for (size_t i = 0; i < N; i++) {
        uint64_t length = (100 + zi_rng_below(&r, 200)) * MS;
        job[i] = (zi_sim_job){.name = "job",
                              .fixed_bytes = 16 * MB,
                              .n_steps = i == 0 ? 2000 : 20 + zi_rng_below(&r, 60),
                              .arrive_ns = i * SECOND / 4,
                              .scaling = 0.9,
                              .native = true};
        zi_sim_tide((zi_sim_shape)(i % ZI_SIM_N_SHAPES),
                    (200 + zi_rng_below(&r, 600)) * MB, length, 16, &job[i].tide);
    }
}

/* The first ends of steps of anybody, where lanes are made, enlarged and moved. */
#define BOUNDARIES 6

static struct {
    uint64_t at[BOUNDARIES];
    size_t   n;
    bool     inside[N];
} seen;

static void
note_boundary(void *user, uint64_t now_ns, size_t who, uint64_t held_bytes, bool running)
{
    (void)user, (void)held_bytes;
    if (seen.inside[who] && !running && seen.n < BOUNDARIES) seen.at[seen.n++] = now_ns;
    seen.inside[who] = running;
}

static outcome
run(const char *policy)
{
    outcome        o = {0};
    zi_sim_result  res;
    zi_sim_options opt = {.policy = policy,
                          .budget_bytes = 2048 * MB,
                          .region_bytes = 8 * MB,
                          .n_cores = 2,
                          .horizon_ns = 5000 * SECOND,
                          .seed = 1,
                          .verify_every = 50,
                          .on_held = note_boundary};

    memset(&seen, 0, sizeof seen);
    expect_ok(zi_sim_run(&opt, job, N, &res, per));
    assert_false(res.deadlock);
    assert_int_equal(0, res.n_over_budget);
    assert_int_equal(0, res.n_two_owners);
    assert_int_equal(0, res.broken);
    for (size_t i = 0; i < N; i++) {
        if (job[i].die_ns) continue;
        assert_true(per[i].ended_ns > 0);
        assert_int_equal(job[i].n_steps, per[i].n_steps);
        double end = (double)per[i].ended_ns / 1e9;
        o.mean += (end - (double)job[i].arrive_ns / 1e9) / N;
        if (end > o.makespan) o.makespan = end;
    }
    o.first = (double)per[0].ended_ns / 1e9;
    if (o.makespan > 100)
        print_message("%-12s makespan %.0f s, mean %.0f s, first %.0f s\n", policy,
                      o.makespan, o.mean, o.first);
    return o;
}

/* fifo: the first job is not delayed by anybody who came later. */
static void
fifo_keeps_order(void **state)
{
    (void)state;
    draw(1);
    outcome fifo = run("salus:fifo");
    double  alone = (double)job[0].n_steps * (double)job[0].tide.length_ns / 1e9;
    assert_true(fifo.first < alone * 1.05);
    for (size_t i = 1; i < N; i++) assert_true(per[i].ended_ns > per[0].ended_ns);
}

/* srtf: much the best mean, and the long job is last. */
static void
srtf_has_the_best_mean(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        draw(seed);
        outcome fifo = run("salus:fifo"), srtf = run("salus:srtf");
        assert_true(srtf.mean * 3 < fifo.mean);
        assert_true(srtf.first + 1e-9 >= srtf.makespan);
        outcome pack = run("salus:pack"), fair = run("salus:fair");
        assert_true(srtf.mean < pack.mean && srtf.mean < fair.mean);
    }
}

/* pack: makespan no worse than of those that keep an order. */
static void
pack_has_the_best_makespan(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        draw(seed);
        outcome fifo = run("salus:fifo"), pack = run("salus:pack");
        assert_true(pack.makespan < fifo.makespan);
    }
}

/* fair: jobs of one length that come together, in one lane (memory for one step), end together. */
static void
fair_divides_evenly(void **state)
{
    (void)state;
    draw(1);
    for (size_t i = 0; i < N; i++) {
        job[i].n_steps = 100;
        job[i].arrive_ns = 0;
        zi_sim_tide(ZI_SIM_BEEFY, 1200 * MB, 200 * MS, 16, &job[i].tide);
    }
    outcome fair = run("salus:fair");
    for (size_t i = 0; i < N; i++)
        assert_true((double)per[i].ended_ns / 1e9 > 0.9 * fair.makespan);
}

/* Half of them are killed at some time, also while lanes are made, enlarged and moved for those
 * that come: the others finish in theirs, within the budget. */
static void
others_outlive_the_dead(void **state)
{
    static const char *const policy[] = {"salus:pack", "salus:srtf", "salus:fair",
                                         "salus:fifo"};
    (void)state;
    for (unsigned seed = 1; seed <= t_rounds(6, 2000); seed++) {
        zi_rng r = zi_rng_seed(seed);
        draw(seed);
        job[0].n_steps = 200;
        for (size_t i = 0; i < N; i++)
            if (zi_rng_below(&r, 2)) job[i].die_ns = 1 + zi_rng_below(&r, 40 * SECOND);
        (void)run(policy[seed % 4]);
    }
}

/* Each of them in turn is killed just before, at and just after each of the first ends of a step,
 * where its lane is about to move, moves and has moved: the others finish in theirs. */
static void
killed_at_each_boundary(void **state)
{
    static const char *const policy[] = {"salus:pack", "salus:srtf", "salus:fair"};
    uint64_t                 at[BOUNDARIES];

    (void)state;
    for (size_t k = 0; k < sizeof policy / sizeof *policy; k++) {
        draw(k + 1);
        for (size_t i = 0; i < N; i++) job[i].n_steps = 3, job[i].arrive_ns = i * 20 * MS;
        (void)run(policy[k]);
        assert_int_equal(BOUNDARIES, seen.n);
        memcpy(at, seen.at, sizeof at);
        for (size_t i = 0; i < BOUNDARIES * 3 * N; i++) {
            zi_sim_job *victim = &job[i % N];
            victim->die_ns = at[i / N / 3] - 1 + i / N % 3;
            if (victim->die_ns > victim->arrive_ns) (void)run(policy[k]);
            victim->die_ns = 0;
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifo_keeps_order),
        cmocka_unit_test(srtf_has_the_best_mean),
        cmocka_unit_test(pack_has_the_best_makespan),
        cmocka_unit_test(fair_divides_evenly),
        cmocka_unit_test(others_outlive_the_dead),
        cmocka_unit_test(killed_at_each_boundary),
    };
    return t_main(tests);
}

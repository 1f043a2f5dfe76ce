/* zico_policy_test.c -- what the zico policy promises, measured on the virtual clock.
 *
 * Two cores, each job at (c/n)^scaling; budgets as parts of the sum of solo peaks.  ZI_SEED=N
 * replays; figures are printed.                                            timeout: 300
 */
#include "sim/sim.h"
#include "base/rng.h"
#include "test.h"

#define MB     (1ull << 20)
#define MS     1000000ull
#define SECOND 1000000000ull
#define N_MAX  8

typedef struct mix {
    size_t     n;
    zi_sim_job job[N_MAX];
    uint32_t   n_cores;
    uint64_t   apart_ns; /* see zi_sim_options */
    bool       apart_again;
} mix;

typedef struct outcome {
    double            total; /* solo time done a time */
    double            job[N_MAX];
    zi_sim_result     res;
    zi_sim_job_result per[N_MAX];
} outcome;

static void
add_job(mix *m, zi_sim_shape shape, uint64_t peak, uint64_t length)
{
    zi_sim_job *j = &m->job[m->n++];
    *j = (zi_sim_job){.name = "job",
                      .fixed_bytes = peak / 10,
                      .native = true,
                      .scaling = 0.7};
    zi_sim_tide(shape, peak, length, 32, &j->tide);
}

/* How much slower each job is with fewer cores; step times vary by a twentieth. */
static void
set_scaling(mix *m, const double *scaling)
{
    for (size_t i = 0; i < m->n; i++) {
        m->job[i].scaling = scaling[i];
        m->job[i].time_noise = 0.05;
    }
}

/* Three jobs of 400 MB, two of which rise and fall and one of which is high for long. */
static mix
three_jobs(size_t beefy, const uint64_t *length_ms, const double *scaling)
{
    mix m = {0};
    for (size_t i = 0; i < 3; i++)
        add_job(&m, i == beefy ? ZI_SIM_BEEFY : ZI_SIM_TRIANGLE, 400 * MB,
                length_ms[i] * MS);
    set_scaling(&m, scaling);
    return m;
}

/* Eight jobs of 400 MB, every other one of which is high for long. */
static mix
eight_jobs(void)
{
    static const uint64_t length_ms[] = {150, 250, 330, 380, 155, 260, 340, 335};
    mix                   m = {0};

    for (size_t i = 0; i < 8; i++)
        add_job(&m, i % 2 ? ZI_SIM_BEEFY : ZI_SIM_TRIANGLE, 400 * MB, length_ms[i] * MS);
    return m;
}

static uint64_t
sum_of_peaks(const mix *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += m->job[i].fixed_bytes + m->job[i].tide.peak_bytes;
    return sum;
}

/* A part of the sum, but enough for each alone beside everybody's fixed bytes. */
static uint64_t
budget_of(const mix *m, double part)
{
    uint64_t fixed = 0, most = 0, want = (uint64_t)((double)sum_of_peaks(m) * part);
    for (size_t i = 0; i < m->n; i++) {
        fixed += m->job[i].fixed_bytes;
        if (m->job[i].tide.peak_bytes > most) most = m->job[i].tide.peak_bytes;
    }
    return want > fixed + most ? want : fixed + most;
}

static outcome
run(const mix *m, const char *policy, double part, uint64_t seconds, uint64_t seed)
{
    outcome        o = {0};
    zi_sim_options opt = {.policy = policy,
                          .region_bytes = 8 * MB,
                          .n_cores = m->n_cores ? m->n_cores : 2,
                          .horizon_ns = seconds * SECOND,
                          .seed = seed,
                          .apart_ns = m->apart_ns,
                          .apart_again = m->apart_again,
                          .apart_speed = 0.65};
    opt.budget_bytes = budget_of(m, part) + 2 * opt.region_bytes * m->n;
    expect_ok(zi_sim_run(&opt, m->job, m->n, &o.res, o.per));
    assert_int_equal(0, o.res.n_over_budget);
    assert_int_equal(0, o.res.n_two_owners);
    assert_false(o.res.deadlock);
    o.total = o.res.throughput;
    for (size_t i = 0; i < m->n; i++) {
        assert_int_equal(0, o.per[i].n_denied);
        o.job[i] = o.per[i].progress_ns / (double)o.res.end_ns;
    }
    return o;
}

/* Least of: a job's progress over its temporal share. */
static double
slowest(const mix *m, const outcome *o, const outcome *temporal)
{
    double least = 1e9;
    for (size_t i = 0; i < m->n; i++) {
        double ratio = o->job[i] / temporal->job[i];
        if (ratio < least) least = ratio;
    }
    return least;
}

static double
captured(const outcome *o, const outcome *temporal, const outcome *unlimited)
{
    return (o->total - temporal->total) / (unlimited->total - temporal->total);
}

/* A long high tide of 1 s beside steps of 0.15 s: the short job gets at least 0.95 of its
 * temporal share, and the total is not below temporal, at every budget. */
static void
long_and_short(void **state)
{
    static const double part[] = {0.8, 0.65, 0.55};
    (void)state;
    for (int shape = 0; shape < 4; shape++) {
        mix m = {0};
        add_job(&m, shape % 2 ? ZI_SIM_TRIANGLE : ZI_SIM_BEEFY, 1000 * MB, 1000 * MS);
        add_job(&m, shape / 2 ? ZI_SIM_TRIANGLE : ZI_SIM_BEEFY, 600 * MB, 150 * MS);
        outcome free_for_all = run(&m, "spatial", 1.2, 60, 1);
        for (int b = 0; b < 3; b++) {
            outcome t = run(&m, "temporal", part[b], 60, 1);
            outcome z = run(&m, "zico", part[b], 60, 1);
            printf(
                "long/short %d at %.2f: temporal %.3f (%.2f %.2f) zico %.3f (%.2f %.2f), "
                "unlimited %.3f; short %.3f, long %.3f of share; gain captured %.2f\n",
                shape, part[b], t.total, t.job[0], t.job[1], z.total, z.job[0], z.job[1],
                free_for_all.total, z.job[1] / t.job[1], z.job[0] / t.job[0],
                captured(&z, &t, &free_for_all));
            assert_true(slowest(&m, &z, &t) >= 0.95);
            assert_true(z.total >= 0.98 * t.total);
        }
    }
}

static void
random_mix(zi_rng *r, size_t n, mix *m)
{
    *m = (mix){0};
    for (size_t i = 0; i < n; i++) {
        uint64_t peak = (300 + zi_rng_below(r, 700)) * MB;
        uint64_t length = (50 + zi_rng_below(r, 450)) * MS;
        add_job(m, (zi_sim_shape)zi_rng_below(r, ZI_SIM_N_SHAPES), peak, length);
        m->job[i].scaling = 0.4 + 0.6 * zi_rng_unit(r);
        m->job[i].time_noise = 0.03;
        m->job[i].gap_ns = zi_rng_below(r, 2) ? 0 : zi_rng_below(r, 3 * MS);
    }
}

/* Random mixes of 2, 3, 4 and 8 jobs at 65 %: never below temporal by more than 2 %, the slowest
 * job at least 0.96 of its temporal share; how much of the gain is captured is printed. */
static void
random_mixes(void **state)
{
    static const size_t sizes[] = {2, 3, 4, 8};
    unsigned            rounds = t_rounds(25, 400);

    (void)state;
    for (int k = 0; k < 4; k++) {
        double sum_gain = 0, least = 1e9, worst_total = 1e9, sum_z = 0, sum_t = 0,
               sum_u = 0;
        for (unsigned i = 0; i < rounds; i++) {
            zi_rng r = zi_rng_seed(t_seed() + 1000 * (unsigned)k + i);
            mix    m;
            random_mix(&r, sizes[k], &m);
            outcome t = run(&m, "temporal", 0.65, 40, i);
            outcome z = run(&m, "zico", 0.65, 40, i);
            outcome u = run(&m, "spatial", 1.2, 40, i);
            double  s = slowest(&m, &z, &t);
            if (getenv("ZI_VERBOSE"))
                printf("  %zu jobs, seed %u: temporal %.3f zico %.3f unlimited %.3f "
                       "slowest %.3f\n",
                       sizes[k], i, t.total, z.total, u.total, s);
            sum_gain += captured(&z, &t, &u);
            sum_z += z.total, sum_t += t.total, sum_u += u.total;
            if (s < least) least = s;
            if (z.total / t.total < worst_total) worst_total = z.total / t.total;
        }
        printf("%zu jobs at 0.65: mean temporal %.3f zico %.3f unlimited %.3f, gain "
               "captured "
               "%.2f; worst total %.3f, slowest job %.3f\n",
               sizes[k], sum_t / rounds, sum_z / rounds, sum_u / rounds,
               sum_gain / rounds, worst_total, least);
        if (!getenv("ZI_VERBOSE")) {
            assert_true(worst_total >= 0.98);
            assert_true(least >= 0.96);
        }
    }
}

/* Jobs that do not gain by sharing (a core more is worth its time: scaling 1, and they hinder each
 * other by a tenth besides) take turns soon: at most 3 % below temporal, nobody below 0.95. */
static void
sharing_that_does_not_pay(void **state)
{
    static const uint64_t length_ms[] = {220, 130, 340};
    static const double   scaling[] = {1.15, 1.15, 1.15};
    mix                   m = three_jobs(2, length_ms, scaling);
    (void)state;
    for (int b = 0; b < 2; b++) {
        outcome t = run(&m, "temporal", b ? 0.65 : 1.2, 60, 1);
        outcome s = run(&m, "spatial", 1.2, 60, 1);
        outcome z = run(&m, "zico", b ? 0.65 : 1.2, 60, 1);
        printf("no gain, %s: temporal %.3f unlimited %.3f zico %.3f, slowest %.3f\n",
               b ? "65 %" : "unlimited", t.total, s.total, z.total, slowest(&m, &z, &t));
        assert_true(s.total < 0.95 * t.total);
        assert_true(z.total >= 0.97 * t.total);
        assert_true(slowest(&m, &z, &t) >= 0.95);
    }
}

/* One job makes nothing of half of the cores beside another, two others a third more than in turn: the two run
 * beside each other and the one alone.  All gain by that. */
static void
who_beside_whom(void **state)
{
    static const uint64_t length_ms[] = {150, 350, 400};
    static const double   scaling[] = {1.3, 0.55, 0.55};
    mix                   m = three_jobs(1, length_ms, scaling);
    (void)state;
    for (int b = 0; b < 3; b++) {
        static const double part[] = {1.2, 0.8, 0.65};
        outcome             t = run(&m, "temporal", part[b], 120, 1);
        outcome s = run(&m, "spatial", 1.2, 120, 1), z = run(&m, "zico", part[b], 120, 1);
        printf("who beside whom at %.2f: temporal %.3f unlimited %.3f zico %.3f, slowest "
               "%.3f\n",
               part[b], t.total, s.total, z.total, slowest(&m, &z, &t));
        assert_true(captured(&z, &t, &s) >= (b < 2 ? 0.90 : 0.60));
        assert_true(slowest(&m, &z, &t) >= 1.04);
    }
}

/* For 30 s the cores are far apart: both are worth little more than one, and sharing does a
 * quarter more than turns.  Then they move together, and turns do a quarter more: that is found
 * out, though nobody is seen alone while all share. */
static void
cores_that_move(void **state)
{
    mix m = {.apart_ns = 30 * SECOND};
    (void)state;
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 60 * MS);
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 100 * MS);
    for (size_t i = 0; i < m.n; i++) m.job[i].scaling = 1.3;
    outcome t = run(&m, "temporal", 1.2, 300, 1), s = run(&m, "spatial", 1.2, 300, 1);
    outcome z = run(&m, "zico", 1.2, 300, 1);
    printf("cores that move: temporal %.3f unlimited %.3f zico %.3f, slowest %.3f\n",
           t.total, s.total, z.total, slowest(&m, &z, &t));
    assert_true(s.total < 0.87 * t.total);
    assert_true(z.total >= 0.94 * t.total);
    assert_true(slowest(&m, &z, &t) >= 0.92);
}

/* The cores move together and apart again every some seconds, and with them what all cores are worth
 * to a job: whenever solo times were measured, nobody gets less than in turns. */
static void
cores_that_wander(void **state)
{
    static const uint64_t every[] = {3, 12, 25};
    static const double   scaling[][3] = {{1.1, 1.1}, {1.1, 0.7, 0.7}, {1.0, 1.0, 1.0}};
    (void)state;
    for (int k = 0; k < 9; k++) {
        mix m = {.apart_ns = every[k % 3] * SECOND, .apart_again = true};
        add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 110 * MS);
        add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 130 * MS);
        if (k >= 3) add_job(&m, ZI_SIM_BEEFY, 400 * MB, 300 * MS);
        set_scaling(&m, scaling[k / 3]);
        outcome t = run(&m, "temporal", 1.2, 300, 1), s = run(&m, "spatial", 1.2, 300, 1);
        for (int b = 0; b < 2; b++) {
            outcome z = run(&m, "zico", b ? 0.65 : 1.2, 300, 1);
            printf(
                "cores that wander, %zu jobs at %s, every %d s: temporal %.3f unlimited "
                "%.3f zico %.3f, slowest %.3f\n",
                m.n, b ? "0.65" : "1.20", (int)every[k % 3], t.total, s.total, z.total,
                slowest(&m, &z, &t));
            assert_true(z.total >= 1.02 * t.total);
            assert_true(slowest(&m, &z, &t) >= 0.97);
        }
    }
}

/* Of eight jobs each is alone for a few of its first steps, with the cores together for one and apart for
 * another, so shares are known to a tenth only, until turns have been tried some times: what sharing gains
 * is more than that. */
static void
eight_that_wander(void **state)
{
    static const uint64_t every[] = {2, 5, 12, 25};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        double slow = 0;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            mix m = eight_jobs();
            m.apart_ns = every[k] * SECOND;
            m.apart_again = true;
            for (size_t i = 0; i < m.n; i++) {
                m.job[i].scaling = 1.0;
                m.job[i].time_noise = 0.03;
            }
            outcome t = run(&m, "temporal", 1.2, 300, seed);
            outcome s = run(&m, "spatial", 1.2, 300, seed);
            outcome z = run(&m, "zico", seed % 2 ? 1.2 : 0.65, 300, seed);
            printf(
                "eight that wander every %d s: temporal %.3f unlimited %.3f zico %.3f, "
                "slowest %.3f\n",
                (int)every[k], t.total, s.total, z.total, slowest(&m, &z, &t));
            assert_true(captured(&z, &t, &s) >= 0.70);
            assert_true(slowest(&m, &z, &t) >= 0.95);
            slow += slowest(&m, &z, &t) / 4;
        }
        assert_true(slow >= 1.0);
    }
}

/* The cores stay where they are for longer: what pays at the one place and at the other is known after a
 * while, and done at once when they move. */
static void
cores_that_come_back(void **state)
{
    mix m = {.apart_ns = 100 * SECOND, .apart_again = true};
    (void)state;
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 110 * MS);
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 130 * MS);
    set_scaling(&m, (double[]){1.1, 1.1});
    outcome t = run(&m, "temporal", 1.2, 600, 1), s = run(&m, "spatial", 1.2, 600, 1);
    outcome z = run(&m, "zico", 1.2, 600, 1);
    double  best = (s.total + 1) / 2; /* apart as spatial, together as temporal */
    printf(
        "cores that come back: temporal %.3f unlimited %.3f zico %.3f of %.3f, slowest "
        "%.3f\n",
        t.total, s.total, z.total, best, slowest(&m, &z, &t));
    assert_true(z.total >= 0.975 * best); /* 0.96 without what is known of both */
    assert_true(z.total >= 1.01 * s.total);
}

/* Its first three steps take 3, 2 and 1.5 times as long as the others, as memory is touched for the
 * first time: its share is reckoned from what its steps take later on. */
static void
slow_first_steps(void **state)
{
    mix m = {0};
    (void)state;
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 220 * MS);
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 130 * MS);
    m.job[1].warm_up = 3;
    m.job[1].warm_steps = 3;
    outcome t = run(&m, "temporal", 0.65, 60, 1);
    outcome z = run(&m, "zico", 0.65, 60, 1);
    printf("slow first steps: slowest %.3f of its share\n", slowest(&m, &z, &t));
    assert_true(slowest(&m, &z, &t) >= 0.97);
}

/* Of eight jobs the first three steps beside others take twice as long, as together they touch memory
 * that none of them touched alone: that is not held against sharing. */
static void
slow_first_steps_beside(void **state)
{
    mix m = eight_jobs();

    (void)state;
    for (size_t i = 0; i < m.n; i++) {
        m.job[i].beside_up = 2;
        m.job[i].beside_steps = 3;
    }
    outcome t = run(&m, "temporal", 0.65, 60, 1), s = run(&m, "spatial", 1.2, 60, 1);
    outcome z = run(&m, "zico", 0.65, 60, 1);
    printf("slow first steps beside others: unlimited %.3f zico %.3f, slowest %.3f\n",
           s.total, z.total, slowest(&m, &z, &t));
    assert_true(captured(&z, &t, &s) >= 0.4);
    assert_true(slowest(&m, &z, &t) >= 1.0);
}

/* A job that waits for its input as long as it computes needs less than its share and gets what it
 * gets under temporal, beside one that computes all the time, whether sharing pays or not. */
static void
waits_for_data(void **state)
{
    static const double scaling[] = {0.5, 1.15};
    (void)state;
    for (int k = 0; k < 2; k++) {
        mix m = {0};
        add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 220 * MS);
        add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 130 * MS);
        m.job[0].scaling = m.job[1].scaling = scaling[k];
        m.job[1].gap_ns = 170 * MS;
        outcome t = run(&m, "temporal", 0.65, 60, 1);
        outcome z = run(&m, "zico", 0.65, 60, 1);
        printf("waits for data, scaling %.2f: temporal %.3f %.3f, zico %.3f %.3f\n",
               scaling[k], t.job[0], t.job[1], z.job[0], z.job[1]);
        assert_true(z.total >= 0.97 * t.total);
        assert_true(slowest(&m, &z, &t) >= 0.93);
    }
}

/* A job whose data comes every so often, and one that could always run. */
static mix
loader_and_other(uint64_t step_ms, uint64_t every_ms, uint64_t other_ms,
                 double other_scaling)
{
    mix m = {0};

    add_job(&m, ZI_SIM_BEEFY, 300 * MB, step_ms * MS);
    add_job(&m, ZI_SIM_TRIANGLE, 300 * MB, other_ms * MS);
    set_scaling(&m, (const double[]){0.8, other_scaling});
    m.job[0].every_ns = every_ms * MS;
    return m;
}

/* A job of 120 ms a step whose loader prepares a batch every 300 ms, beside one that computes all the time: it
 * makes its 3.3 steps a second whether it has both cores or one, so that what it leaves is the other's,
 * and under zico the other makes more of it than in turns, at 65 % too. */
static void
loader_beside_another(void **state)
{
    mix m = loader_and_other(120, 300, 200, 0.5);

    (void)state;
    outcome t = run(&m, "temporal", 2.0, 60, 1);
    for (double part = 2.0; part > 0.5; part -= 1.35) {
        outcome z = run(&m, "zico", part, 60, 1);
        print_message("loader beside another at %.2f: %.2f and %.2f steps/s, in turns "
                      "%.2f and %.2f\n",
                      part, (double)z.per[0].n_steps / 60, (double)z.per[1].n_steps / 60,
                      (double)t.per[0].n_steps / 60, (double)t.per[1].n_steps / 60);
        assert_in_range(z.per[0].n_steps, 190, 200);
        assert_true(z.job[1] >= 1.05 * t.job[1]);
    }
}

/* Less than its share is all that a job can use whose data comes at its own pace: what is left of it is
 * not owed to it, and nobody stands still for its sake. */
static void
loader_has_enough(void **state)
{
    mix m = loader_and_other(148, 310, 197, 0.8);

    (void)state;
    outcome t = run(&m, "temporal", 2.0, 60, 1), free = run(&m, "spatial", 2.0, 60, 1);
    outcome z = run(&m, "zico", 0.8, 60, 1);
    print_message("loader that has enough: temporal %.3f no limit %.3f zico %.3f\n",
                  t.total, free.total, z.total);
    assert_true(z.total - t.total >= 0.7 * (free.total - t.total));
    assert_true(slowest(&m, &z, &t) >= 1.0);
}

/* Three that pause between steps, for 40, 70 and 20 ms.  The first needs both cores; whenever it pauses
 * the two others could begin, run well beside each other, and leave it none.  It gets its share. */
static void
pauses_between_steps(void **state)
{
    static const uint64_t length_ms[] = {200, 425, 460}, pause_ms[] = {40, 70, 20};
    static const double   scaling[] = {1.3, 0.58, 0.58};
    mix                   m = three_jobs(1, length_ms, scaling);
    (void)state;
    for (size_t i = 0; i < m.n; i++) m.job[i].gap_ns = pause_ms[i] * MS;
    for (int b = 0; b < 2; b++) {
        double  part = b ? 0.65 : 1.2;
        outcome t = run(&m, "temporal", part, 120, 1), z = run(&m, "zico", part, 120, 1);
        printf("pauses between steps at %.2f: temporal %.3f zico %.3f, slowest %.3f\n",
               part, t.total, z.total, slowest(&m, &z, &t));
        assert_true(z.total >= 1.02 * t.total);
        assert_true(slowest(&m, &z, &t) >= 0.98);
    }
}

/* Two jobs that are high for nearly all of their steps, so that their tides do not fit beside each other. */
static mix
two_that_shrink(double lean_cost, double scaling)
{
    mix m = {0};

    add_job(&m, ZI_SIM_BEEFY, 400 * MB, 110 * MS);
    add_job(&m, ZI_SIM_BEEFY, 400 * MB, 130 * MS);
    for (size_t i = 0; i < 2; i++) {
        m.job[i].can_shrink = true;
        m.job[i].lean_cost = lean_cost;
        m.job[i].time_noise = 0.03;
        m.job[i].scaling = scaling;
    }
    return m;
}

/* What is kept of the gain at a budget, with jobs that can plan for less and with the same that cannot. */
static void
gain_kept(const mix *m, double part, double *ret_lean, double *ret_full)
{
    mix     stiff = *m;
    outcome t = run(m, "temporal", 2, 60, 1), free = run(m, "spatial", 2, 60, 1);

    for (size_t i = 0; i < m->n; i++) stiff.job[i].can_shrink = false;
    outcome lean = run(m, "zico", part, 60, 1), full = run(&stiff, "zico", part, 60, 1);
    *ret_lean = (lean.total - t.total) / (free.total - t.total);
    *ret_full = (full.total - t.total) / (free.total - t.total);
    printf("shrink at %.2f for %.2f: turns %.3f, no limit %.3f, zico %.3f (slowest "
           "%.3f), with "
           "full plans %.3f; of the gain %.2f and %.2f\n",
           part, m->job[0].lean_cost, t.total, free.total, lean.total,
           slowest(m, &lean, &t), full.total, *ret_lean, *ret_full);
    assert_true(slowest(m, &lean, &t) > 0.97);
}

/* Where memory is what keeps jobs from running beside each other, and less of it costs little time. */
static void
less_memory_each(void **state)
{
    const mix m = two_that_shrink(0.04, 0.5);
    double    lean, full;

    (void)state;
    gain_kept(&m, 0.8, &lean, &full);
    assert_true(lean > 0.85 && full < 0.6);
    gain_kept(&m, 0.65, &lean, &full);
    assert_true(lean > 0.8 && full < 0.4);
    gain_kept(&m, 1.2, &lean, &full); /* nobody needs to */
    assert_true(lean > 0.95 * full);
}

/* What is dear is not done, and what does not pay is taken back. */
static void
less_memory_too_dear(void **state)
{
    const mix dear = two_that_shrink(0.9, 0.5);
    mix       vain = two_that_shrink(0.2, 0.95);

    (void)state;
    outcome t = run(&vain, "temporal", 2, 120, 1), z = run(&vain, "zico", 0.65, 120, 1);
    vain.job[0].can_shrink = vain.job[1].can_shrink = false;
    outcome stiff = run(&vain, "zico", 0.65, 120, 1);
    printf("shrink in vain: turns %.3f, zico %.3f, with full plans %.3f\n", t.total,
           z.total, stiff.total);
    assert_true(z.total > 0.98 * t.total && z.total > 0.99 * stiff.total);
    double lean, full;
    gain_kept(&dear, 0.65, &lean, &full);
    assert_true(lean > full - 0.1);
}

/* A third job comes and goes, and the budget changes: all take what is right for those that are there. */
static void
less_memory_anew(void **state)
{
    mix m = two_that_shrink(0.04, 0.5);

    (void)state;
    add_job(&m, ZI_SIM_LEAN, 100 * MB, 60 * MS);
    m.job[2].arrive_ns = 20 * SECOND;
    m.job[2].n_steps = 100;
    outcome z = run(&m, "zico", 0.65, 80, 1), t = run(&m, "temporal", 0.65, 80, 1);
    printf("shrink with a guest: turns %.3f, zico %.3f; the guest %llu steps\n", t.total,
           z.total, (unsigned long long)z.per[2].n_steps);
    assert_int_equal(100, z.per[2].n_steps);
    assert_true(z.total > 1.2 * t.total);
}

/* Policies in turn, five seconds each: what each job makes lies between what it makes under the one
 * and under the other, and nobody stands still. */
static void
relay_of_two(void **state)
{
    mix m = {0};
    (void)state;
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 220 * MS);
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 130 * MS);
    m.job[0].scaling = m.job[1].scaling = 0.5;
    outcome t = run(&m, "temporal", 1.2, 60, 1), s = run(&m, "spatial", 1.2, 60, 1);
    outcome both = run(&m, "relay:temporal+spatial/5", 1.2, 60, 1);
    outcome one = run(&m, "relay:zico/5", 0.65, 60, 1), z = run(&m, "zico", 0.65, 60, 1);
    outcome part = run(&m, "relay:temporal/5@1:4", 1.2, 60, 1);
    /* 15 s alone, then 15 s of nobody, then one turn of six: 20 of 60 s */
    outcome first = run(&m, "relay:temporal/5@1:4~15:15", 1.2, 60, 1);
    /* the first 20 s are the learner's, then each has half */
    outcome learns = run(&m, "relay:temporal+zico/5@0:2~20:0", 1.2, 60, 1);
    double  middle = (t.total + s.total) / 2;
    printf(
        "relay: temporal %.3f, spatial %.3f, both %.3f; zico %.3f, alone in relay %.3f; "
        "one turn of four of temporal %.3f, after a time of its own %.3f; learnt first "
        "%.3f\n",
        t.total, s.total, both.total, z.total, one.total, part.total, first.total,
        learns.total);
    assert_true(both.total > 0.95 * middle && both.total < 1.02 * middle);
    assert_true(slowest(&m, &both, &t) > 0.95);
    assert_true(one.total > 0.99 * z.total && one.total < 1.01 * z.total);
    assert_true(part.total > 0.23 * t.total && part.total < 0.26 * t.total);
    assert_true(first.total > 0.32 * t.total && first.total < 0.345 * t.total);
    assert_true(learns.total > 1.01 * middle);
}

/* Lists that make no sense are refused. */
static void
relay_of_nobody(void **state)
{
    static const char *const bad[] = {"relay",
                                      "relay:",
                                      "relay:zico+",
                                      "relay:nobody",
                                      "relay:q+zico",
                                      "relay:relay:zico",
                                      "relay:zico/",
                                      "relay:zico/0",
                                      "relay:zico/5s",
                                      "relay:zico/x",
                                      "relay:zico/5@",
                                      "relay:zico/5@1",
                                      "relay:zico/5@1:1",
                                      "relay:zico+zico/5@1:2",
                                      "relay:zico/5@0:65",
                                      "relay:zico/5@-1:4",
                                      "relay:zico/5@0:2x",
                                      "relay:zico/5@18446744073709551615:4",
                                      "relay:zico/5@1:4~",
                                      "relay:zico/5@1:4~60",
                                      "relay:zico/5@1:4~60:x",
                                      "relay:zico/5@1:4~60:60:60",
                                      "relay:zico/5@1:4~60:86401"};
    mix                      m = {0};
    zi_sim_result            res;
    zi_sim_job_result        per[N_MAX];
    (void)state;
    add_job(&m, ZI_SIM_TRIANGLE, 400 * MB, 220 * MS);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zi_sim_options opt = {.policy = bad[i],
                              .region_bytes = 8 * MB,
                              .budget_bytes = 1000 * MB,
                              .n_cores = 2,
                              .horizon_ns = SECOND};
        assert_int_equal(ZICO_E_ARG, zi_sim_run(&opt, m.job, m.n, &res, per));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_and_short),
        cmocka_unit_test(sharing_that_does_not_pay),
        cmocka_unit_test(cores_that_move),
        cmocka_unit_test(slow_first_steps),
        cmocka_unit_test(slow_first_steps_beside),
        cmocka_unit_test(waits_for_data),
        cmocka_unit_test(pauses_between_steps),
        cmocka_unit_test(loader_beside_another),
        cmocka_unit_test(loader_has_enough),
        cmocka_unit_test(less_memory_each),
        cmocka_unit_test(less_memory_too_dear),
        cmocka_unit_test(less_memory_anew),
        cmocka_unit_test(relay_of_two),
        cmocka_unit_test(relay_of_nobody),
        cmocka_unit_test(random_mixes),
        cmocka_unit_test(who_beside_whom),
        cmocka_unit_test(cores_that_wander),
        cmocka_unit_test(eight_that_wander),
        cmocka_unit_test(cores_that_come_back),
    };
    return t_main(tests);
}

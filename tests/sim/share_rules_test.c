/* share_rules_test.c -- what sharing promises beside speed: weights, turns, changing budgets, and
 * no loss where running side by side does not pay; on the virtual clock.      timeout: 120
 */
#include "sim/sim.h"
#include "test.h"

#define MB     (1ull << 20)
#define MS     1000000ull
#define SECOND 1000000000ull
#define N_JOBS 2

typedef struct outcome {
    double            total;
    double            job[N_JOBS]; /* solo time done a time */
    zi_sim_job_result per[N_JOBS];
} outcome;

/* A long step beside a short one, 900 MB of peaks and 90 MB that stay. */
static void
make_pair(zi_sim_job job[N_JOBS])
{
    job[0] = (zi_sim_job){.name = "long", .fixed_bytes = 50 * MB, .native = true};
    job[1] = (zi_sim_job){.name = "short", .fixed_bytes = 40 * MB, .native = true};
    zi_sim_tide(ZI_SIM_TRIANGLE, 500 * MB, 400 * MS, 32, &job[0].tide);
    zi_sim_tide(ZI_SIM_TRIANGLE, 400 * MB, 150 * MS, 32, &job[1].tide);
}

static outcome
run(const zi_sim_job *job, zi_sim_options opt)
{
    outcome       o = {0};
    zi_sim_result res;

    opt.region_bytes = 2 * MB;
    opt.n_cores = 2;
    if (!opt.budget_bytes) opt.budget_bytes = 650 * MB;
    if (!opt.horizon_ns) opt.horizon_ns = 60 * SECOND;
    expect_ok(zi_sim_run(&opt, job, N_JOBS, &res, o.per));
    assert_int_equal(0, res.n_over_budget);
    assert_false(res.deadlock);
    o.total = res.throughput;
    for (int i = 0; i < N_JOBS; i++) o.job[i] = o.per[i].progress_ns / (double)res.end_ns;
    return o;
}

/* Of two jobs with weights 2 and 1 each gets at least its part of the time: exactly that under
 * temporal, more where zico finds room for both. */
static void
weights_divide_time(void **state)
{
    static const char *const policy[] = {"temporal", "zico"};
    zi_sim_job               job[N_JOBS];

    (void)state;
    for (int i = 0; i < 2; i++) {
        make_pair(job);
        job[0].weight_milli = 2000;
        outcome o =
            run(job, (zi_sim_options){.policy = policy[i], .budget_bytes = 610 * MB});
        printf("%s: %.3f and %.3f\n", policy[i], o.job[0], o.job[1]);
        assert_true(o.job[0] >= 0.97 * 2 / 3);
        assert_true(o.job[1] >= 0.97 / 3);
        if (i == 0) assert_true(o.job[0] < 2.1 * o.job[1]);
    }
}

typedef struct watch {
    bool     running[N_JOBS];
    unsigned most, n_turns;
} watch;

static void
note_running(void *user, uint64_t now_ns, size_t job, uint64_t held_bytes, bool running)
{
    watch *w = user;
    (void)now_ns;
    running = running && held_bytes > 60 * MB; /* more than what stays with it */
    w->n_turns += running && !w->running[job];
    w->running[job] = running;
    unsigned n = w->running[0] + w->running[1];
    if (n > w->most) w->most = n;
}

/* Temporal: one step at a time, and device time, not steps, is shared: the short job makes more
 * steps. */
static void
temporal_takes_turns(void **state)
{
    zi_sim_job job[N_JOBS];
    watch      w = {0};

    (void)state;
    make_pair(job);
    outcome o = run(job, (zi_sim_options){.policy = "temporal",
                                          .budget_bytes = 2000 * MB,
                                          .on_held = note_running,
                                          .user = &w});
    assert_int_equal(1, w.most);
    assert_true(w.n_turns > 100);
    assert_true(o.job[0] > 0.95 * o.job[1] && o.job[0] < 1.05 * o.job[1]);
    assert_true(o.per[1].n_steps > 2 * o.per[0].n_steps);
}

/* The budget goes down to what one of them needs and up again while both run: nobody is refused,
 * both go on, and the later high budget is used. */
static void
budget_goes_down_and_up(void **state)
{
    static const zi_sim_change change[] = {{10 * SECOND, 620 * MB},
                                           {30 * SECOND, 1200 * MB},
                                           {45 * SECOND, 700 * MB}};
    zi_sim_job                 job[N_JOBS];

    (void)state;
    make_pair(job);
    outcome o = run(job, (zi_sim_options){.policy = "zico",
                                          .budget_bytes = 1200 * MB,
                                          .change = change,
                                          .n_changes = 3});
    outcome low = run(job, (zi_sim_options){.policy = "zico", .budget_bytes = 620 * MB});
    printf("changing %.3f, always low %.3f\n", o.total, low.total);
    for (int i = 0; i < N_JOBS; i++) {
        assert_int_equal(0, o.per[i].n_denied);
        assert_true(o.job[i] >= 0.95 * low.job[i]);
    }
    assert_true(o.total > low.total + 0.02);
}

/* Two jobs that slow each other down to less than half speed: after a trial they take turns, and
 * lose next to nothing against doing so from the beginning. */
static void
sharing_that_does_not_pay_is_given_up(void **state)
{
    zi_sim_job     job[N_JOBS];
    zi_sim_options opt = {.budget_bytes = 1200 * MB, .corun = {0, 1, 0.6}};

    (void)state;
    make_pair(job);
    opt.policy = "temporal";
    outcome turns = run(job, opt);
    opt.policy = "spatial";
    outcome beside = run(job, opt);
    opt.policy = "zico";
    outcome o = run(job, opt);
    printf("turns %.3f, beside each other %.3f, zico %.3f\n", turns.total, beside.total,
           o.total);
    assert_true(beside.total < 0.8 * turns.total);
    assert_true(o.total >= 0.96 * turns.total);
}

/* First steps that take three times as long do not spoil the reckoning of shares. */
static void
slow_first_steps_do_not_count(void **state)
{
    zi_sim_job job[N_JOBS];

    (void)state;
    make_pair(job);
    job[0].warm_up = job[1].warm_up = 3;
    outcome turns = run(job, (zi_sim_options){.policy = "temporal"});
    outcome o = run(job, (zi_sim_options){.policy = "zico"});
    printf("of their shares: %.3f and %.3f\n", o.job[0] / turns.job[0],
           o.job[1] / turns.job[1]);
    for (int i = 0; i < N_JOBS; i++) assert_true(o.job[i] >= 0.97 * turns.job[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_divide_time),
        cmocka_unit_test(temporal_takes_turns),
        cmocka_unit_test(budget_goes_down_and_up),
        cmocka_unit_test(sharing_that_does_not_pay_is_given_up),
        cmocka_unit_test(slow_first_steps_do_not_count),
    };
    return t_main(tests);
}

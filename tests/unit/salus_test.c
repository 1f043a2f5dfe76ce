/* salus_test.c -- lanes are assigned as the paper says, and are safe whatever happens. */
#include "policy/policy.h"
#include "test.h"

extern const zi_policy_ops zi_policy_salus;

#define R       (2ull << 20)
#define N_MAX   12
#define NO_LANE UINT64_MAX

/* A device with jobs, and what the policy said last. */
typedef struct stage {
    void       *state;
    zi_view     view;
    zi_job_view job[N_MAX];
    uint64_t    lane[N_MAX]; /* by index */
    uint64_t    reason[N_MAX];
    uint64_t    now;
    zi_out      out;
} stage;

static void
open_stage(stage *s, const char *how, uint64_t budget_regions)
{
    memset(s, 0, sizeof *s);
    s->state = calloc(1, zi_policy_salus.state_size);
    s->view = (zi_view){.budget_bytes = budget_regions * R,
                        .free_bytes = budget_regions * R,
                        .region_bytes = R,
                        .n_cores = 8,
                        .job = s->job};
    expect_ok(zi_policy_salus.init(s->state, how, 1));
}

static void
close_stage(stage *s)
{
    free(s->state);
}

/* One event; carries out a GO; true if there was one. */
static bool
event(stage *s, zi_event_kind kind, size_t job)
{
    bool went = false;
    s->now += 1000000;
    s->out.n = 0;
    for (size_t i = 0; i < N_MAX; i++) s->lane[i] = NO_LANE, s->reason[i] = 0;
    zi_event ev = {.kind = kind, .now_ns = s->now, .job = job, .delta_bytes = -1};
    zi_policy_salus.on_event(s->state, &s->view, &ev, &s->out);
    for (size_t i = 0; i < s->out.n; i++) {
        const zi_answer *a = &s->out.answer[i];
        if (a->kind == ZI_ANSWER_LANE) s->lane[a->job] = a->value;
        if (a->kind == ZI_ANSWER_REASON) s->reason[a->job] = a->value;
        if (a->kind != ZI_ANSWER_GO) continue;
        assert_int_equal(ZI_JOB_ASKING, s->job[a->job].state);
        s->job[a->job].state = ZI_JOB_RUNNING;
        s->job[a->job].began_ns = s->now;
        went = true;
    }
    return went;
}

/* All that can start has started. */
static void
settle(stage *s)
{
    while (event(s, ZI_EVENT_TIMER, SIZE_MAX)) {
    }
}

static size_t
join(stage *s, uint64_t persistent, uint64_t ephemeral)
{
    size_t i = s->view.n_jobs++;
    s->job[i] = (zi_job_view){.id = (zi_job_id)i,
                              .state = ZI_JOB_ASKING,
                              .joined_ns = s->now += 1000,
                              .weight_milli = 1000,
                              .fixed_bytes = persistent * R,
                              .claim_bytes = ephemeral * R,
                              .claim_known = true,
                              .has_steps = true,
                              .native = true,
                              .solo_step_ns = 1000000,
                              .cores = 1};
    event(s, ZI_EVENT_JOIN, i);
    settle(s);
    return i;
}

static void
end_step(stage *s, size_t i)
{
    s->job[i].state = ZI_JOB_IDLE;
    s->job[i].step_no++;
    s->job[i].served_ns += s->now - s->job[i].began_ns;
    s->job[i].state = ZI_JOB_ASKING;
    event(s, ZI_EVENT_STEP_END, i);
    settle(s);
}

/* Sum of P and of the largest E per lane that is in use. */
static uint64_t
promised(const stage *s)
{
    uint64_t sum = 0, lane[256] = {0};
    for (size_t i = 0; i < s->view.n_jobs; i++) {
        if (s->job[i].state == ZI_JOB_GONE) continue;
        sum += s->job[i].fixed_bytes;
        if (s->lane[i] != NO_LANE && s->job[i].claim_bytes > lane[s->lane[i]])
            lane[s->lane[i]] = s->job[i].claim_bytes;
    }
    for (size_t l = 0; l < 256; l++) sum += lane[l];
    return sum;
}

/* New: while all fits, every job has a lane of its own and runs. */
static void
opens_lanes(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "pack", 20);
    size_t a = join(&s, 1, 5), b = join(&s, 1, 5);
    assert_true(s.lane[a] != s.lane[b]);
    assert_int_equal(ZI_JOB_RUNNING, s.job[a].state);
    assert_int_equal(ZI_JOB_RUNNING, s.job[b].state);
    close_stage(&s);
}

/* Reuse: the lane that fits best is shared, one step at a time. */
static void
shares_best_lane(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "pack", 20);
    size_t a = join(&s, 1, 10), b = join(&s, 1, 6), c = join(&s, 1, 5);
    assert_true(s.lane[a] != s.lane[b]);
    assert_true(s.lane[c] == s.lane[b]);
    assert_int_equal(ZI_JOB_ASKING, s.job[c].state);
    assert_int_equal(ZI_REASON_TURN, s.reason[c]);
    close_stage(&s);
}

/* Reorganise: the smallest lane that may grow is enlarged, when it is empty. */
static void
enlarges_lane(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "pack", 20);
    size_t a = join(&s, 1, 4), b = join(&s, 1, 6);
    s.job[a].state = s.job[b].state = ZI_JOB_IDLE;
    size_t c = join(&s, 1, 10);
    assert_true(s.lane[c] == s.lane[a]);
    assert_true(promised(&s) <= s.view.budget_bytes);
    close_stage(&s);
}

/* A job that fits nowhere waits for admission, and is served when somebody leaves. */
static void
waits_for_admission(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "pack", 20);
    size_t a = join(&s, 2, 10), b = join(&s, 2, 14);
    assert_int_equal(ZI_REASON_ADMISSION, s.reason[b]);
    s.job[a].state = ZI_JOB_GONE;
    s.job[a].fixed_bytes = 0;
    event(&s, ZI_EVENT_LEAVE, a);
    settle(&s);
    assert_int_equal(ZI_JOB_RUNNING, s.job[b].state);
    close_stage(&s);
}

/* fifo: only the oldest job runs. */
static void
fifo_runs_oldest(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "fifo", 40);
    size_t a = join(&s, 1, 5), b = join(&s, 1, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ZI_JOB_RUNNING, s.job[a].state);
        assert_int_equal(ZI_JOB_ASKING, s.job[b].state);
        end_step(&s, a);
    }
    close_stage(&s);
}

/* fifo: of jobs that joined in the same instant one goes, too, not all. */
static void
fifo_runs_one_of_equals(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "fifo", 64);
    size_t a = join(&s, 1, 8), b = join(&s, 1, 8);
    s.job[b].joined_ns = s.job[a].joined_ns;
    end_step(&s, a);
    assert_int_equal(ZI_JOB_RUNNING, s.job[a].state);
    assert_int_equal(ZI_JOB_ASKING, s.job[b].state);
    s.job[a].state = ZI_JOB_RUNNING;
    end_step(&s, b);
    assert_int_equal(ZI_JOB_ASKING, s.job[b].state);
    close_stage(&s);
}

/* srtf: at a step boundary the lane goes to the job with the least left to do. */
static void
srtf_runs_shortest(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "srtf", 12);
    size_t a = join(&s, 1, 8);
    s.job[a].steps_total = 1000;
    size_t b = join(&s, 1, 8);
    s.job[b].steps_total = 10;
    assert_int_equal(ZI_JOB_RUNNING, s.job[a].state);
    end_step(&s, a);
    assert_int_equal(ZI_JOB_RUNNING, s.job[b].state);
    assert_int_equal(ZI_JOB_ASKING, s.job[a].state);
    close_stage(&s);
}

/* srtf: whoever is in its last step, which has the number of all that it announced, or beyond it,
 * is not sent behind those who have much to do; whoever announced nothing is. */
static void
srtf_lets_the_last_step_go(void **state)
{
    (void)state;
    for (uint64_t beyond = 0; beyond < 3; beyond++) {
        stage s;
        open_stage(&s, "srtf", 12);
        size_t a = join(&s, 1, 8), b = join(&s, 1, 8), c = join(&s, 1, 8);
        s.job[a].steps_total = 1000;
        s.job[b].steps_total = 10;
        s.job[b].step_no = 10 + beyond;
        assert_int_equal(ZI_JOB_RUNNING, s.job[a].state);
        end_step(&s, a);
        assert_int_equal(ZI_JOB_RUNNING, s.job[b].state);
        assert_int_equal(ZI_JOB_ASKING, s.job[c].state);
        close_stage(&s);
    }
}

/* fair: within a lane whoever has had less service for its weight goes next. */
static void
fair_evens_out(void **state)
{
    (void)state;
    stage    s;
    unsigned steps[2] = {0, 0};
    open_stage(&s, "fair", 12);
    size_t a = join(&s, 1, 8), b = join(&s, 1, 8);
    s.job[b].weight_milli = 3000;
    for (int i = 0; i < 400; i++) {
        size_t runs = s.job[a].state == ZI_JOB_RUNNING ? a : b;
        s.now += 50000000;
        steps[runs]++;
        end_step(&s, runs);
    }
    assert_in_range(steps[1], 280, 320); /* three quarters */
    close_stage(&s);
}

/* An inference job with a latency bound goes before others of its lane. */
static void
latency_first(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "pack", 12);
    size_t a = join(&s, 1, 8), b = join(&s, 1, 8), c = join(&s, 1, 8);
    s.job[c].latency_ns = 5000000;
    end_step(&s, a);
    assert_int_equal(ZI_JOB_RUNNING, s.job[c].state);
    assert_int_equal(ZI_JOB_ASKING, s.job[b].state);
    close_stage(&s);
}

/* Whatever happens, the safety condition holds and no lane has two steps in it. */
static void
random_days(void **state)
{
    (void)state;
    static const char *const how[] = {"pack", "fifo", "srtf", "fair"};
    for (unsigned day = 0; day < t_rounds(400, 20000); day++) {
        stage s;
        open_stage(&s, how[day % 4], 30 + t_rand_below(60)); /* P alone always fits */
        for (int k = 0; k < 120; k++) {
            size_t i = s.view.n_jobs ? t_rand_below(s.view.n_jobs) : 0;
            if (s.view.n_jobs < N_MAX && t_rand_below(6) == 0) {
                size_t j = join(&s, 1 + t_rand_below(2), 1 + t_rand_below(9));
                s.job[j].steps_total = t_rand_below(100);
            } else if (s.view.n_jobs && s.job[i].state == ZI_JOB_RUNNING) {
                end_step(&s, i);
            } else if (s.view.n_jobs &&
                       t_rand_below(10) == 0) { /* its claim is refined */
                s.job[i].claim_bytes = (1 + t_rand_below(9)) * R;
                settle(&s);
            }
            bool   busy[256] = {false};
            size_t running = 0;
            settle(&s);
            for (size_t j = 0; j < s.view.n_jobs; j++) {
                if (s.job[j].state != ZI_JOB_RUNNING) continue;
                running++;
                assert_true(s.lane[j] != NO_LANE);
                assert_false(busy[s.lane[j]]);
                busy[s.lane[j]] = true;
            }
            /* a job inside a step whose claim grew is the banker's case: wait for its end */
            if (running == 0) assert_true(promised(&s) <= s.view.budget_bytes);
        }
        close_stage(&s);
    }
}

/* An unknown discipline is refused. */
static void
knows_disciplines(void **state)
{
    (void)state;
    void *st = calloc(1, zi_policy_salus.state_size);
    expect_status(ZICO_E_ARG, zi_policy_salus.init(st, "lifo", 1));
    free(st);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_lanes),
        cmocka_unit_test(shares_best_lane),
        cmocka_unit_test(enlarges_lane),
        cmocka_unit_test(waits_for_admission),
        cmocka_unit_test(fifo_runs_oldest),
        cmocka_unit_test(fifo_runs_one_of_equals),
        cmocka_unit_test(srtf_runs_shortest),
        cmocka_unit_test(srtf_lets_the_last_step_go),
        cmocka_unit_test(fair_evens_out),
        cmocka_unit_test(latency_first),
        cmocka_unit_test(random_days),
        cmocka_unit_test(knows_disciplines),
    };
    return t_main(tests);
}

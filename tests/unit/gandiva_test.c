/* gandiva_test.c -- slices by weight, moves under need only, packs that pay. */
#include "policy/policy.h"
#include "test.h"

extern const zi_policy_ops zi_policy_gandiva;

#define R      (2ull << 20)
#define N_MAX  8
#define MS     1000000ull
#define SECOND 1000000000ull

/* A device on a clock of its own: steps take their time, longer while another runs beside. */
typedef struct stage {
    void       *state;
    zi_view     view;
    zi_job_view job[N_MAX];
    zi_request  request[N_MAX];
    uint64_t    fixed[N_MAX], step_ns[N_MAX], end_ns[N_MAX];
    bool        leave_after[N_MAX], with_others[N_MAX];
    unsigned    n_out[N_MAX], n_in[N_MAX];
    double      slowdown; /* of each of two that run together */
    uint64_t    now, wake, together_ns;
    zi_out      out;
} stage;

static void
open_stage(stage *s, const char *how, uint64_t budget_regions)
{
    memset(s, 0, sizeof *s);
    s->state = calloc(1, zi_policy_gandiva.state_size);
    s->view = (zi_view){.budget_bytes = budget_regions * R,
                        .free_bytes = budget_regions * R,
                        .region_bytes = R,
                        .n_cores = 2,
                        .job = s->job,
                        .request = s->request};
    s->slowdown = 2;
    s->now = SECOND;
    expect_ok(zi_policy_gandiva.init(s->state, how, 1));
}

static void
close_stage(stage *s)
{
    free(s->state);
}

static size_t
n_running(const stage *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->view.n_jobs; i++) n += s->job[i].state == ZI_JOB_RUNNING;
    return n;
}

static void
count_free(stage *s)
{
    uint64_t used = 0;
    for (size_t i = 0; i < s->view.n_jobs; i++)
        used += s->job[i].fixed_bytes +
                (s->job[i].state == ZI_JOB_RUNNING ? s->job[i].claim_bytes : 0);
    assert_true(used <= s->view.budget_bytes);
    s->view.free_bytes = s->view.budget_bytes - used;
}

static bool event(stage *s, zi_event_kind kind, size_t job);

static void
move_out(stage *s, size_t i)
{
    s->job[i].state = ZI_JOB_SUSPENDED;
    s->job[i].fixed_bytes = 0;
    s->leave_after[i] = false;
    s->n_out[i]++;
    count_free(s);
}

static bool
carry_out(stage *s, const zi_answer *a)
{
    zi_job_view *j = &s->job[a->job];

    switch (a->kind) {
    case ZI_ANSWER_WAKE_AT:
        s->wake = a->value;
        return false;
    case ZI_ANSWER_SUSPEND:
        assert_true(j->can_suspend && !j->by_hand);
        if (j->state == ZI_JOB_RUNNING)
            s->leave_after[a->job] = true;
        else
            move_out(s, a->job);
        return true;
    case ZI_ANSWER_RESUME:
        assert_int_equal(ZI_JOB_SUSPENDED, j->state);
        assert_false(j->by_hand);
        assert_true(s->fixed[a->job] <= s->view.free_bytes);
        j->fixed_bytes = s->fixed[a->job];
        j->state = ZI_JOB_ASKING;
        s->n_in[a->job]++;
        count_free(s);
        return true;
    case ZI_ANSWER_GO:
        assert_int_equal(ZI_JOB_ASKING, j->state);
        if (j->claim_bytes > s->view.free_bytes) return false; /* as the desk would */
        s->with_others[a->job] = n_running(s) > 0;
        for (size_t i = 0; i < s->view.n_jobs; i++)
            if (s->job[i].state == ZI_JOB_RUNNING) s->with_others[i] = true;
        j->state = ZI_JOB_RUNNING;
        j->began_ns = s->now;
        s->end_ns[a->job] =
            s->now + (uint64_t)((double)s->step_ns[a->job] *
                                (s->with_others[a->job] ? s->slowdown : 1));
        count_free(s);
        return true;
    default:
        return false;
    }
}

static bool
event(stage *s, zi_event_kind kind, size_t job)
{
    bool moved = false;
    s->out.n = 0;
    zi_event ev = {.kind = kind, .now_ns = s->now, .job = job, .delta_bytes = -1};
    zi_policy_gandiva.on_event(s->state, &s->view, &ev, &s->out);
    for (size_t i = 0; i < s->out.n; i++) moved |= carry_out(s, &s->out.answer[i]);
    return moved;
}

static void
settle(stage *s)
{
    for (int i = 0; i < 50 && event(s, ZI_EVENT_TIMER, SIZE_MAX); i++) {
    }
}

static size_t
join(stage *s, uint64_t fixed, uint64_t claim, uint64_t step_ns, uint32_t weight)
{
    size_t i = s->view.n_jobs++;
    s->job[i] = (zi_job_view){.id = (zi_job_id)i,
                              .state = ZI_JOB_ASKING,
                              .joined_ns = s->now,
                              .weight_milli = weight,
                              .fixed_bytes = fixed * R,
                              .claim_bytes = claim * R,
                              .need_bytes = claim * R,
                              .claim_known = true,
                              .has_steps = true,
                              .native = true,
                              .can_suspend = true,
                              .cores = 1};
    s->fixed[i] = fixed * R;
    s->step_ns[i] = step_ns;
    count_free(s);
    event(s, ZI_EVENT_JOIN, i);
    return i;
}

static void
end_step(stage *s, size_t i)
{
    zi_job_view *j = &s->job[i];

    j->last_step_ns = s->now - j->began_ns;
    j->served_ns += j->last_step_ns;
    j->step_no++;
    j->state = ZI_JOB_IDLE;
    if (s->leave_after[i]) j->state = ZI_JOB_LEAVING_MEMORY;
    count_free(s);
    event(s, ZI_EVENT_STEP_END, i);
    if (s->leave_after[i]) {
        move_out(s, i);
        event(s, ZI_EVENT_SUSPENDED, i);
    } else if (j->state == ZI_JOB_IDLE) {
        j->state = ZI_JOB_ASKING;
        event(s, ZI_EVENT_STEP_ASK, i);
    }
    settle(s);
}

static void
run_for(stage *s, uint64_t ns)
{
    const uint64_t end = s->now + ns;

    settle(s);
    while (s->now < end) {
        size_t   first = SIZE_MAX;
        uint64_t at = s->wake > s->now ? s->wake : s->now + 100 * MS;
        for (size_t i = 0; i < s->view.n_jobs; i++)
            if (s->job[i].state == ZI_JOB_RUNNING && s->end_ns[i] <= at)
                at = s->end_ns[i], first = i;
        if (n_running(s) > 1) s->together_ns += at - s->now;
        s->now = at;
        if (first != SIZE_MAX)
            end_step(s, first);
        else
            settle(s);
    }
}

static double
share(const stage *s, size_t i)
{
    double sum = 0;
    for (size_t k = 0; k < s->view.n_jobs; k++) sum += (double)s->job[k].served_ns;
    return (double)s->job[i].served_ns / sum;
}

/* Device time goes by weight; each turn lasts a slice. */
static void
slices_by_weight(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 10); /* room for one step at a time */
    size_t a = join(&s, 1, 7, 200 * MS, 1000), b = join(&s, 1, 7, 300 * MS, 3000);
    run_for(&s, 400 * SECOND);
    assert_true(share(&s, a) > 0.22 && share(&s, a) < 0.28);
    assert_true(share(&s, b) > 0.72 && share(&s, b) < 0.78);
    assert_int_equal(0, s.n_out[a] + s.n_out[b]); /* both fit: nobody moves */
    close_stage(&s);
}

/* Six jobs, memory for two: all get their share, with about one move a turn. */
static void
moves_under_need(void **state)
{
    stage    s;
    unsigned n_out = 0;

    (void)state;
    open_stage(&s, "slice=10", 100);
    s.slowdown = 2.2;
    for (int i = 0; i < 6; i++) join(&s, 6, 4, 250 * MS, 1000);
    settle(&s);
    for (size_t i = 1; i < 6; i++) move_out(&s, i);
    s.view.budget_bytes = 20 * R; /* all have come; now it is narrow */
    count_free(&s);
    run_for(&s, 1200 * SECOND);
    for (size_t i = 0; i < 6; i++) {
        assert_true(share(&s, i) > 0.14 && share(&s, i) < 0.19);
        n_out += s.n_out[i];
    }
    assert_true(n_out > 60 && n_out <= 180); /* of 120 turns, and a trial of each pair */
    close_stage(&s);
}

/* A job that a person has suspended is left alone, and costs the others nothing. */
static void
people_first(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 20);
    size_t a = join(&s, 6, 4, 250 * MS, 1000), b = join(&s, 6, 4, 250 * MS, 1000);
    move_out(&s, b);
    s.job[b].by_hand = true;
    run_for(&s, 100 * SECOND);
    assert_int_equal(0, s.n_in[b]);
    assert_true(s.job[a].served_ns > 95 * SECOND);
    s.job[b].by_hand = false;
    run_for(&s, 100 * SECOND);
    assert_true(s.n_in[b] > 0 && s.job[b].step_no > 0);
    close_stage(&s);
}

/* A newcomer that waits for its fixed memory gets room, and while it is on its way the others
 * compute. */
static void
newcomer_gets_room(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 20);
    for (int i = 0; i < 2; i++) join(&s, 8, 2, 250 * MS, 1000);
    run_for(&s, 30 * SECOND);
    size_t c = join(&s, 0, 0, 250 * MS, 1000);
    s.job[c].claim_known = false;
    s.job[c].state = ZI_JOB_IDLE;
    s.request[0] = (zi_request){.id = 1,
                                .job = (zi_job_id)c,
                                .hold = ZI_HOLD_FIXED,
                                .size_bytes = 8 * R};
    s.view.n_requests = 1;
    event(&s, ZI_EVENT_LEASE_ASK, c);
    uint64_t before = s.job[0].served_ns + s.job[1].served_ns;
    run_for(&s, 25 * SECOND);
    assert_int_equal(1, s.n_out[0] + s.n_out[1]);
    assert_true(s.view.free_bytes >= 8 * R);
    assert_true(s.job[0].served_ns + s.job[1].served_ns - before > 24 * SECOND);
    close_stage(&s);
}

/* Two that do not disturb each other stay together after the trial. */
static void
packing_that_pays(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 40);
    s.slowdown = 1.1;
    size_t a = join(&s, 2, 6, 200 * MS, 1000), b = join(&s, 2, 6, 250 * MS, 1000);
    run_for(&s, 40 * SECOND); /* each has run alone, and the trial is over */
    s.together_ns = 0;
    run_for(&s, 100 * SECOND);
    assert_true(s.together_ns > 80 * SECOND);
    assert_true(s.job[a].step_no > 300 && s.job[b].step_no > 250);
    close_stage(&s);
}

/* Two that slow each other down to less than taking turns are parted, and not tried again. */
static void
packing_that_does_not(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 40);
    s.slowdown = 2.3;
    join(&s, 2, 6, 200 * MS, 1000), join(&s, 2, 6, 250 * MS, 1000);
    run_for(&s, 60 * SECOND);
    assert_true(s.together_ns > 0); /* it was tried */
    s.together_ns = 0;
    run_for(&s, 200 * SECOND);
    assert_true(s.together_ns < SECOND);
    close_stage(&s);
}

/* Of six jobs of one shape one pair is tried, and its verdict holds for all of them. */
static void
equal_jobs_are_tried_once(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=10", 60);
    s.slowdown = 2.3;
    for (int i = 0; i < 6; i++) s.job[join(&s, 2, 6, 200 * MS, 1000)].shape = 77;
    run_for(&s, 600 * SECOND);
    assert_true(s.together_ns > 0 && s.together_ns < 10 * SECOND);
    close_stage(&s);
}

/* Device time that two spend together, of six that are out by turns; two make 1.05. */
static uint64_t
together_in_slices(const char *how)
{
    stage s;

    open_stage(&s, how, 100);
    s.slowdown = 1.9;
    for (int i = 0; i < 6; i++) s.job[join(&s, 6, 4, 20 * MS, 1000)].shape = 77;
    settle(&s);
    for (size_t i = 1; i < 6; i++) move_out(&s, i);
    s.view.budget_bytes = 20 * R; /* two and their steps, and no heir */
    count_free(&s);
    run_for(&s, 600 * SECOND);
    close_stage(&s);
    return s.together_ns;
}

/* A small gain is worth it in long slices, not in short ones, whose turns it makes longer. */
static void
gain_against_turns(void **state)
{
    (void)state;
    assert_true(together_in_slices("slice=60") > 300 * SECOND);
    assert_true(together_in_slices("slice=0.2") < 10 * SECOND);
}

/* A pack that does not ask does not keep the device from the others. */
static void
idle_owner(void **state)
{
    stage s;

    (void)state;
    open_stage(&s, "slice=3600", 40);
    size_t a = join(&s, 2, 6, 200 * MS, 1000), b = join(&s, 2, 6, 200 * MS, 1000);
    run_for(&s, 2 * SECOND);
    size_t owner = s.job[a].step_no ? a : b, other = a + b - owner;
    assert_int_equal(0, s.job[other].step_no);
    while (s.job[owner].state == ZI_JOB_RUNNING) run_for(&s, MS);
    s.job[owner].state = ZI_JOB_IDLE; /* it reads its data, say */
    settle(&s);
    for (size_t i = 0; i < 20 && s.job[other].step_no == 0; i++) {
        s.now += 200 * MS;
        if (s.job[other].state == ZI_JOB_RUNNING) end_step(&s, other);
        settle(&s);
    }
    assert_true(s.job[other].step_no > 0);
    close_stage(&s);
}

/* What cannot be a slice is refused. */
static void
bad_arguments(void **state)
{
    static const char *const bad[] = {"slice", "slice=", "slice=0", "slice=1x", "fast"};
    void                    *mem = calloc(1, zi_policy_gandiva.state_size);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_status(ZICO_E_ARG, zi_policy_gandiva.init(mem, bad[i], 1));
    expect_ok(zi_policy_gandiva.init(mem, "slice=0.5", 1));
    expect_ok(zi_policy_gandiva.init(mem, "", 1));
    free(mem);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_by_weight),
        cmocka_unit_test(moves_under_need),
        cmocka_unit_test(people_first),
        cmocka_unit_test(newcomer_gets_room),
        cmocka_unit_test(packing_that_pays),
        cmocka_unit_test(packing_that_does_not),
        cmocka_unit_test(equal_jobs_are_tried_once),
        cmocka_unit_test(gain_against_turns),
        cmocka_unit_test(idle_owner),
        cmocka_unit_test(bad_arguments),
    };
    return t_main(tests);
}

/* trial_test.c -- what pays is found, what does not costs little, and a change is noticed. */
#include "policy/trial.h"
#include "test.h"

#define STEP_NS 100000000.0 /* of each of two jobs, alone */

/* A machine on which two jobs side by side do `gain` of what they do in turn. */
typedef struct machine {
    zi_trial    t, other; /* what is known of the machine as it was before it moved */
    zi_job_view job[2];
    zi_view     v;
    double      now_ns;
    double      slow; /* so many times STEP_NS takes a step in turn now */
    int         n_ended, n_moved;
} machine;

static void
begin(machine *m)
{
    *m = (machine){.now_ns = 1, .slow = 1};
    for (int i = 0; i < 2; i++)
        m->job[i] = (zi_job_view){.id = (zi_job_id)i,
                                  .state = ZI_JOB_IDLE,
                                  .solo_step_ns = (uint64_t)STEP_NS};
    m->v = (zi_view){.job = m->job, .n_jobs = 2};
    zi_trial_begin(&m->t, 1);
    m->other = m->t;
}

/* The part of the next so many seconds in which they were side by side. */
static double
share_for(machine *m, double seconds, double gain)
{
    double end_ns = m->now_ns + seconds * 1e9, shared_ns = 0, begin_ns = m->now_ns;

    while (m->now_ns < end_ns) {
        double step_ns = m->slow * (m->t.turns ? STEP_NS : STEP_NS / gain);
        if (!m->t.turns) shared_ns += step_ns;
        m->now_ns += step_ns;
        zi_trial_step_ended(&m->t, m->job[m->n_ended++ % 2].id,
                            m->t.turns ? (uint64_t)step_ns : 0);
        zi_trial_look(&m->t, &m->v, (uint64_t)m->now_ns, STEP_NS, true);
        if (m->t.moved && !m->t.canary) {
            zi_trial left = m->t;
            m->t = m->other;
            m->other = left;
            zi_trial_enter(&m->t);
            m->n_moved++;
        }
    }
    return shared_ns / (m->now_ns - begin_ns);
}

/* Sharing that does a twentieth less than turns is looked at now and then, and briefly. */
static void
loss_is_looked_at_briefly(void **state)
{
    machine m;

    (void)state;
    begin(&m);
    double first = share_for(&m, 60, 0.94), later = share_for(&m, 240, 0.94);
    printf("side by side for %.3f of the first minute, %.3f of four more\n", first,
           later);
    assert_true(m.t.choice);
    assert_true(first < 0.08);
    assert_true(later > 0);
    assert_true(later < 0.025);
}

/* Sharing that gains goes on, whether that is clear at once or not. */
static void
gain_is_kept(void **state)
{
    static const double gain[] = {1.04, 1.08, 1.25};
    machine             m;

    (void)state;
    for (int i = 0; i < 3; i++) {
        begin(&m);
        share_for(&m, 30, gain[i]);
        double part = share_for(&m, 240, gain[i]);
        printf("gain %.2f: side by side for %.3f of the time\n", gain[i], part);
        assert_false(m.t.choice);
        assert_true(part > 0.93);
    }
}

/* Where sharing begins to pay, or pays no longer, the next trials tell. */
static void
change_is_noticed(void **state)
{
    machine m;

    (void)state;
    begin(&m);
    share_for(&m, 120, 0.9);
    assert_true(m.t.choice);
    share_for(&m, 90, 1.2);
    assert_false(m.t.choice);
    share_for(&m, 90, 0.85);
    assert_true(m.t.choice);
}

/* One trial that was disturbed is not believed for long: the next one comes soon. */
static void
bad_trial_is_mended_soon(void **state)
{
    machine m;
    double  waited = 0;

    (void)state;
    begin(&m);
    while (!m.t.choice) share_for(&m, 0.1, 0.85);
    for (; m.t.choice && waited < 60; waited += 0.1) share_for(&m, 0.1, 1.2);
    printf("side by side again after %.1f s\n", waited);
    assert_true(waited < 45 * STEP_NS / 1e9);
}

/* In a trial the other way has one epoch, and a step to settle. */
static void
trial_costs_one_epoch(void **state)
{
    machine m;
    double  took = 0;

    (void)state;
    begin(&m);
    while (!m.t.turns) share_for(&m, 0.01, 1.02);
    for (; m.t.turns; took += STEP_NS) share_for(&m, STEP_NS / 2e9, 1.02);
    assert_true(took > 5 * STEP_NS);
    assert_true(took < 8 * STEP_NS);
}

/* Seconds until the other way is chosen. */
static double
until_chosen(machine *m, bool turns, double gain)
{
    double took = 0;
    for (; m->t.choice != turns && took < 600; took += 0.1) share_for(m, 0.1, gain);
    return took;
}

/* A machine whose cores move far apart, where steps with all of them take half as long again and
 * sharing gains as much, and back: one step alone now and then tells, and all steps in turn do. */
static void
move_is_noticed(void **state)
{
    machine m;

    (void)state;
    begin(&m);
    m.slow = 1.5;
    share_for(&m, 240, 1.5);
    assert_false(m.t.choice);
    m.slow = 1;
    double near = until_chosen(&m, true, 0.9);
    share_for(&m, 240, 0.9);
    m.slow = 1.5;
    double far = until_chosen(&m, false, 1.5);
    share_for(&m, 30, 1.5);
    m.slow = 1;
    double again = until_chosen(&m, true, 0.9);
    printf("in turns after %.1f s, side by side again after %.1f s, in turns again after "
           "%.1f s\n",
           near, far, again);
    assert_true(again < 13 * 5 * STEP_NS / 1e9);
    assert_true(near < 20 * 5 * STEP_NS / 1e9);
    assert_true(far < 10 * STEP_NS / 1e9);
}

/* A canary is one step, and a machine that is as it was is not tried for it. */
static void
canary_costs_one_step(void **state)
{
    machine m;

    (void)state;
    begin(&m);
    share_for(&m, 240, 1.5);
    uint32_t n_done = m.t.n_done;
    while (m.t.n_done == n_done)
        share_for(&m, 0.1, 1.5); /* the next trial is far away now */
    n_done = m.t.n_done;
    for (int i = 0; i < 5; i++) {
        zi_trial_break(&m.t);
        double alone = 1 - share_for(&m, 10 * STEP_NS / 1e9, 1.5);
        assert_true(alone > 0.05 && alone < 0.15);
    }
    assert_int_equal(n_done, m.t.n_done);
}

/* Whoever was kept waiting while others decided finds nothing in the caches: its first step tells nothing
 * of the machine, neither while all share nor in turn. */
static void
first_steps_after_a_break_tell_nothing(void **state)
{
    static const double gain[] = {1.5, 0.8};
    machine             m;

    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(&m);
        share_for(&m, 240, gain[k]);
        for (int i = 0; i < 20; i++) {
            zi_trial_break(&m.t);
            m.slow = 2;
            share_for(&m, 1.5 * 2 * STEP_NS / 1e9, gain[k]); /* a step of each */
            m.slow = 1;
            share_for(&m, 4 * STEP_NS / 1e9, gain[k]);
        }
        assert_int_equal(0, m.n_moved);
        assert_int_equal(k, m.t.choice);
    }
}

/* What was tried before others decided and what was tried afterwards are minutes apart, perhaps: that the
 * machine is slower now says nothing against the way that is tried now. */
static void
trial_is_not_torn(void **state)
{
    machine m;

    (void)state;
    begin(&m);
    while (m.t.n_tried < 2) share_for(&m, 0.01, 1.04);
    assert_false(m.t.turns);
    zi_trial_break(&m.t);
    m.slow = 1.15;
    share_for(&m, 60 * STEP_NS / 1e9, 1.04);
    assert_false(m.t.choice);
    assert_true(m.t.n_done > 0);
    assert_int_equal(0, m.n_moved);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_is_looked_at_briefly),
        cmocka_unit_test(gain_is_kept),
        cmocka_unit_test(change_is_noticed),
        cmocka_unit_test(bad_trial_is_mended_soon),
        cmocka_unit_test(trial_costs_one_epoch),
        cmocka_unit_test(move_is_noticed),
        cmocka_unit_test(canary_costs_one_step),
        cmocka_unit_test(first_steps_after_a_break_tell_nothing),
        cmocka_unit_test(trial_is_not_torn),
    };
    return t_main(tests);
}

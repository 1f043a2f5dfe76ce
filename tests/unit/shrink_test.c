/* shrink_test.c -- who is asked for less, and for whose answer is waited how long. */
#include "policy/shrink.h"
#include "test.h"

#define MB     (1ull << 20)
#define SECOND 1000000000ull

/* Three jobs on two cores: side by side two of them do not fit, and sharing was just tried. */
typedef struct scene {
    zi_shrink   k;
    zi_trial    t;
    zi_job_view job[3];
    zi_view     v;
    double      beside; /* what two do beside each other while they do not wait */
} scene;

static void
begin(scene *s)
{
    *s = (scene){0};
    for (int i = 0; i < 3; i++)
        s->job[i] = (zi_job_view){.id = (zi_job_id)i,
                                  .state = ZI_JOB_ASKING,
                                  .solo_step_ns = SECOND / 10,
                                  .has_steps = true,
                                  .can_shrink = true,
                                  .claim_known = true,
                                  .claim_bytes = 420 * MB,
                                  .full_bytes = 400 * MB};
    s->v = (zi_view){.job = s->job,
                     .n_jobs = 3,
                     .n_cores = 2,
                     .region_bytes = 2 * MB,
                     .budget_bytes = 600 * MB};
    assert_int_equal(ZICO_OK, zi_shrink_init(&s->k, ""));
    zi_shrink_begin(&s->k);
    zi_trial_begin(&s->t, s->v.budget_bytes);
    s->t.n_done = 1;
    s->t.seen_ratio = s->t.ratio = 1.1;
    s->beside = 1.1;
}

/* A look; jobs hear what is asked of them, as the desk would tell.  Returns how many were asked. */
static int
look(scene *s, uint64_t now_ns)
{
    zi_out out = {0};
    int    n = 0;

    zi_shrink_look(&s->k, &s->v, &s->t, s->beside, now_ns, &out);
    for (size_t i = 0; i < out.n; i++) {
        assert_int_equal(ZI_ANSWER_SHRINK, out.answer[i].kind);
        zi_job_view *j = &s->job[out.answer[i].job];
        j->shrink_bytes = out.answer[i].value;
        j->shrink_asked = true;
        j->shrink_asked_ns = now_ns;
        n++;
    }
    return n;
}

static void
answer(zi_job_view *j, uint64_t step_bytes)
{
    j->shrink_asked = false;
    j->plan_bytes = step_bytes;
    j->cost_milli = 1020;
}

/* All answer: lean plans are tried. */
static void
all_answer(void **state)
{
    scene s;

    (void)state;
    begin(&s);
    assert_int_equal(3, look(&s, SECOND));
    assert_true(s.job[0].shrink_bytes < 300 * MB);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ZI_SHRINK_ASKED, s.k.phase);
        assert_int_equal(0, look(&s, 2 * SECOND));
        answer(&s.job[i], s.job[i].shrink_bytes);
    }
    assert_int_equal(0, look(&s, 3 * SECOND));
    assert_int_equal(ZI_SHRINK_TRIED, s.k.phase);
}

/* One was stopped: for some time it is waited for, then the others go on without it; what it says
 * when it comes back is taken back if lean plans did not pay meanwhile. */
static void
one_was_stopped(void **state)
{
    scene s;

    (void)state;
    begin(&s);
    assert_int_equal(3, look(&s, SECOND));
    answer(&s.job[0], s.job[0].shrink_bytes);
    answer(&s.job[1], s.job[1].shrink_bytes);
    assert_int_equal(0, look(&s, 8 * SECOND));
    assert_int_equal(ZI_SHRINK_ASKED, s.k.phase);
    (void)look(&s, 20 * SECOND);
    assert_true(s.k.stays[2]);
    for (int i = 0; i < 2; i++) /* it may leave less for them */
        if (s.job[i].shrink_asked) answer(&s.job[i], s.job[i].shrink_bytes);
    for (int i = 0; i < 3 && s.k.phase == ZI_SHRINK_ASKED; i++)
        (void)look(&s, (21 + (uint64_t)i) * SECOND);
    assert_int_equal(ZI_SHRINK_TRIED, s.k.phase);

    s.t.n_done = 1; /* tried, and in vain: the two are asked back */
    s.t.choice = true;
    s.t.ratio = s.t.seen_ratio = 0.9;
    (void)look(&s, 40 * SECOND);
    assert_int_equal(ZI_SHRINK_BACK, s.k.phase);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, s.job[i].shrink_bytes);
        answer(&s.job[i], 400 * MB);
    }
    (void)look(&s, 60 * SECOND);
    assert_int_equal(ZI_SHRINK_FULL, s.k.phase);
}

/* Lean plans are asked for and tried; the trial says `seen`. */
static zi_shrink_phase
tried(scene *s, double seen)
{
    assert_int_equal(3, look(s, SECOND));
    for (int i = 0; i < 3; i++) answer(&s->job[i], s->job[i].shrink_bytes);
    (void)look(s, 2 * SECOND);
    assert_int_equal(ZI_SHRINK_TRIED, s->k.phase);
    s->t.n_done = 1;
    s->t.ratio = s->t.seen_ratio = seen;
    (void)look(s, 3 * SECOND);
    return s->k.phase;
}

/* One trial is noisy.  What the jobs always did beside each other counts as much: a bad one does not
 * undo what they surely gain, and a good one does not make up for what they do not. */
static void
one_trial_is_not_all(void **state)
{
    scene s;

    (void)state;
    begin(&s);
    s.t.ratio = s.t.seen_ratio = 1.02; /* tides hardly fit ... */
    s.beside = 1.2;                    /* ... and without waiting they gain much */
    assert_int_equal(ZI_SHRINK_KEPT, tried(&s, 1.0));

    begin(&s);
    s.t.ratio = s.t.seen_ratio = 1.08;
    s.beside = 1.06; /* hardly more can be had than they have */
    assert_int_equal(ZI_SHRINK_BACK, tried(&s, 1.12));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_answer),
        cmocka_unit_test(one_was_stopped),
        cmocka_unit_test(one_trial_is_not_all),
    };
    return t_main(tests);
}

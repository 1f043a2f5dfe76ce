/* sweep_test.c -- the delay is the smallest one, checked moment by moment. */
#include "policy/sweep.h"

#include "test.h"

#include <string.h>

#define JOBS_MAX 5
#define LENGTH   60 /* of a step, at most; nanoseconds */
#define MOMENTS                                                                          \
    (2 * (JOBS_MAX + 1) * LENGTH) /* by then all has ended, whatever the delay */

typedef struct scene {
    zi_tide     tide[JOBS_MAX];
    zi_job_view job[JOBS_MAX];
    uint32_t    next[JOBS_MAX]; /* point of its tide that is still to come */
    zi_view     v;
} scene;

/* Up and down at random, at times together; what is left goes at the end. */
static void
make_tide(zi_tide *t)
{
    uint64_t height = 0, at = 0;

    *t = (zi_tide){.n_seen = 1};
    while (t->n_points < 10) {
        at += t_rand_below(6);
        bool    down = height > 0 && t_rand_below(2);
        int64_t by =
            down ? -(int64_t)(1 + t_rand_below(height)) : (int64_t)(1 + t_rand_below(20));
        if (t->n_points && t->point[t->n_points - 1].at_ns == at && !down) at++;
        t->point[t->n_points++] = (zi_tide_point){.at_ns = at, .delta_bytes = by};
        height += (uint64_t)by;
        if (height > t->peak_bytes) t->peak_bytes = height;
    }
    t->end_bytes = height;
    t->length_ns = at + t_rand_below(4);
    expect_ok(zi_tide_verify(t));
    assert_true(t->length_ns <= LENGTH);
}

/* Job 0 asks; the others are somewhere in their steps, some late, some without a tide.  The one returned
 * is taken to begin now, too; SIZE_MAX: nobody. */
static size_t
make_scene(scene *s)
{
    size_t also = SIZE_MAX;

    memset(s, 0, sizeof *s);
    s->v = (zi_view){.job = s->job, .n_jobs = 1 + t_rand_below(JOBS_MAX)};
    for (size_t i = 0; i < s->v.n_jobs; i++) {
        zi_job_view *j = &s->job[i];
        zi_tide     *t = &s->tide[i];
        make_tide(t);
        *j = (zi_job_view){.id = (zi_job_id)i, .tide = t};
        j->state = i ? ZI_JOB_RUNNING : ZI_JOB_ASKING;
        j->repeats = t_rand_below(8) > 0;
        j->fixed_bytes = t_rand_below(5);
        j->claim_bytes = t->peak_bytes + 2;
        if (i == 1 && t_rand_below(2)) {
            also = i;
            j->state = ZI_JOB_ASKING;
        }
        if (j->state == ZI_JOB_ASKING) continue;
        j->above_bytes = t_rand_below(3);
        s->next[i] = (uint32_t)t_rand_below(t->n_points + 1);
        for (uint32_t k = 0; k < s->next[i]; k++) {
            int64_t by = t->point[k].delta_bytes;
            *(by > 0 ? &j->taken_bytes : &j->returned_bytes) +=
                (uint64_t)(by > 0 ? by : -by);
        }
        j->step_bytes = j->taken_bytes - j->returned_bytes;
        j->clock_ns = t_rand_below(12); /* since its last event */
    }
    return also;
}

/* Where a job begins to hold what its tide says. */
typedef struct from {
    uint32_t next;  /* point */
    uint64_t above; /* kept for it on top */
    uint64_t pos;   /* on its tide, at moment `at` */
    uint64_t at;
} from;

/* Adds what one job holds at each moment at most: what is returned in it counts, too.  Who is late does
 * what it should have done in the first one. */
static void
lay(uint64_t sum[MOMENTS], const zi_tide *t, from f)
{
    uint64_t height = 0;

    for (uint32_t k = 0; k < f.next; k++) height += (uint64_t)t->point[k].delta_bytes;
    for (uint64_t at = f.at; f.pos <= t->length_ns; at++, f.pos++) {
        uint64_t most = height;
        for (; f.next < t->n_points && t->point[f.next].at_ns <= f.pos; f.next++) {
            height += (uint64_t)t->point[f.next].delta_bytes;
            if (height > most) most = height;
        }
        sum[at] += most + f.above;
    }
}

static void
lay_flat(uint64_t sum[MOMENTS], uint64_t bytes, uint64_t begin)
{
    for (uint64_t at = begin; at < MOMENTS; at++) sum[at] += bytes;
}

/* What all others hold at most at each moment. */
static void
lay_others(const scene *s, uint64_t sum[MOMENTS])
{
    memset(sum, 0, MOMENTS * sizeof *sum);
    for (size_t i = 1; i < s->v.n_jobs; i++) {
        const zi_job_view *j = &s->job[i];
        uint32_t           next = s->next[i];
        uint64_t           last = next ? j->tide->point[next - 1].at_ns : 0;
        uint64_t           until =
            next < j->tide->n_points ? j->tide->point[next].at_ns : j->tide->length_ns;
        uint64_t pos = last + j->clock_ns < until ? last + j->clock_ns : until;
        if (j->repeats)
            lay(sum, j->tide, (from){next, j->above_bytes, pos, 0});
        else
            lay_flat(sum, j->claim_bytes, 0);
    }
}

/* Would it fit, beginning so much later? */
static bool
fits(const scene *s, const uint64_t others[MOMENTS], uint64_t room, uint64_t shift)
{
    uint64_t           mine[MOMENTS] = {0};
    const zi_job_view *j = &s->job[0];

    if (j->repeats)
        lay(mine, j->tide, (from){.at = shift});
    else
        lay_flat(mine, j->claim_bytes, shift);
    for (size_t at = 0; at < MOMENTS; at++)
        if (mine[at] > 0 && mine[at] + others[at] > room) return false;
    return true;
}

static void
delay_is_the_smallest(void **state)
{
    scene    s;
    uint64_t others[MOMENTS];
    unsigned n_late = 0, n_never = 0, n = t_rounds(4000, 400000);

    (void)state;
    for (unsigned round = 0; round < n; round++) {
        zi_sweep_ask ask = {.also = make_scene(&s), .keep_bytes = t_rand_below(4)};
        uint64_t     fixed = ask.keep_bytes;
        ask.from_ns = t_rand_below(3) ? 0 : t_rand_below(LENGTH);
        for (size_t i = 0; i < s.v.n_jobs; i++) fixed += s.job[i].fixed_bytes;
        s.v.budget_bytes = fixed + s.tide[0].peak_bytes + t_rand_below(60);
        lay_others(&s, others);

        uint64_t delay = zi_sweep_delay(&s.v, &ask), least = ask.from_ns;
        uint64_t room = s.v.budget_bytes - fixed, end = MOMENTS - 2 * LENGTH;
        while (least < end && !fits(&s, others, room, least)) least++;
        if (delay != (least < end ? least : UINT64_MAX))
            fail_msg("round %u: delay %llu, smallest %llu of %llu", round,
                     (unsigned long long)delay, (unsigned long long)least,
                     (unsigned long long)end);
        n_late += delay > ask.from_ns && delay < UINT64_MAX;
        n_never += delay == UINT64_MAX;
    }
    printf("%u of %u had to wait, %u for one that reserves\n", n_late, n, n_never);
    assert_true(n_late > n / 8);
    assert_true(n_never > n / 80);
}

/* More jobs than are looked at one by one: the others reserve what they claim. */
static void
nobody_is_forgotten(void **state)
{
    enum { N = 400, CLAIM = 10 };
    static zi_job_view job[N + 1];
    zi_view            v = {.job = job, .n_jobs = N + 1};
    zi_sweep_ask       ask = {.also = SIZE_MAX};

    (void)state;
    for (size_t i = 0; i <= N; i++)
        job[i] = (zi_job_view){.id = (zi_job_id)i,
                               .state = i ? ZI_JOB_RUNNING : ZI_JOB_ASKING,
                               .claim_bytes = CLAIM};
    v.budget_bytes = (N + 1) * CLAIM;
    assert_int_equal(0, zi_sweep_delay(&v, &ask));
    v.budget_bytes--;
    assert_true(zi_sweep_delay(&v, &ask) == UINT64_MAX);
}

/* More events than are merged: the same. */
static void
events_beyond_the_table(void **state)
{
    enum { N = 60, PEAK = 10 };
    static zi_job_view job[N + 1];
    zi_tide            t = {.n_points = ZI_TIDE_POINTS_MAX, .peak_bytes = PEAK};
    zi_view            v = {.job = job, .n_jobs = N + 1};
    zi_sweep_ask       ask = {.also = SIZE_MAX};

    (void)state;
    for (uint32_t k = 0; k < t.n_points; k++)
        t.point[k] = (zi_tide_point){.at_ns = k, .delta_bytes = k % 2 ? -PEAK : PEAK};
    t.length_ns = t.n_points;
    for (size_t i = 0; i <= N; i++)
        job[i] = (zi_job_view){.id = (zi_job_id)i,
                               .state = i ? ZI_JOB_RUNNING : ZI_JOB_ASKING,
                               .tide = &t,
                               .repeats = true,
                               .claim_bytes = PEAK};
    v.budget_bytes = (N + 1) * PEAK;
    assert_int_equal(0, zi_sweep_delay(&v, &ask));
    v.budget_bytes--; /* those that are merged end, and then there is room */
    assert_true(zi_sweep_delay(&v, &ask) > 0);
    assert_true(zi_sweep_delay(&v, &ask) < UINT64_MAX);
    v.budget_bytes = 20 * PEAK; /* less than those that are not reserve */
    assert_true(zi_sweep_delay(&v, &ask) == UINT64_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_is_the_smallest),
        cmocka_unit_test(nobody_is_forgotten),
        cmocka_unit_test(events_beyond_the_table),
    };
    return t_main(tests);
}

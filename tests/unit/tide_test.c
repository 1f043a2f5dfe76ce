/* tide_test.c -- tides are recorded safely, learnt robustly, and survive their text form. */
#include "tide/tide.h"
#include "test.h"

#define MS 1000000ull
#define MB (1ll << 20)

/* A saw-tooth: `n` rises in the first half, `n` falls in the second. */
static void
record_saw(zi_tide_recorder *rec, unsigned n, int64_t size, uint64_t length, zi_tide *ret)
{
    zi_tide_recorder_begin(rec, 1000);
    for (unsigned i = 0; i < n; i++)
        zi_tide_recorder_add(rec, 1000 + length / 2 * i / n, size);
    for (unsigned i = 0; i < n; i++)
        zi_tide_recorder_add(rec, 1000 + length / 2 + length / 2 * i / n, -size);
    zi_tide_recorder_end(rec, 1000 + length, ret);
}

/* A few events come out as they went in. */
static void
few_events_are_kept(void **state)
{
    zi_tide_recorder *rec;
    zi_tide           t;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    zi_tide_recorder_begin(rec, 50);
    zi_tide_recorder_add(rec, 50 + 30 * MS, -8 * MB); /* out of order */
    zi_tide_recorder_add(rec, 50, 8 * MB);
    zi_tide_recorder_add(rec, 50 + 10 * MS, 4 * MB);
    zi_tide_recorder_end(rec, 50 + 100 * MS, &t);
    expect_ok(zi_tide_verify(&t));
    assert_int_equal(3, t.n_points);
    assert_int_equal(12 * MB, t.peak_bytes);
    assert_int_equal(4 * MB, t.end_bytes);
    assert_int_equal(100 * MS, t.length_ns);
    assert_int_equal(8 * MB, zi_tide_at(&t, 5 * MS));
    assert_int_equal(4 * MB, zi_tide_at(&t, 30 * MS));
    assert_int_equal((8 * 10 + 12 * 20 + 4 * 70) * MB / 100, zi_tide_mean(&t));
    zi_tide_recorder_free(rec);
}

/* Any number of events in any order: the grouped curve is nowhere below the true one, its
 * peak is the true peak, and little is added. */
static void
grouping_never_underestimates(void **state)
{
    enum { N = 6000 };
    static zi_tide_point truth[N];
    zi_tide_recorder    *rec;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    for (int round = 0; round < 40; round++) {
        size_t   n = 0;
        uint64_t length = 1 + t_rand_below(1000 * MS);
        zi_tide  t;
        zi_tide_recorder_begin(rec, 7);
        while (n + 1 < N - t_rand_below(N - 2)) { /* lifetimes: never below zero */
            int64_t  size = (int64_t)(1 + t_rand_below(64 * (uint64_t)MB));
            uint64_t from = t_rand_below(length + 1);
            uint64_t to = from + t_rand_below(length + 1 - from);
            truth[n++] = (zi_tide_point){from, size};
            truth[n++] = (zi_tide_point){to, -size};
            if (from == to)
                n -= 2;
            else {
                zi_tide_recorder_add(rec, 7 + from, size);
                zi_tide_recorder_add(rec, 7 + to, -size);
            }
        }
        zi_tide_recorder_end(rec, 7 + length, &t);
        expect_ok(zi_tide_verify(&t));
        uint64_t peak = 0;
        for (size_t i = 0; i < n;
             i++) { /* at each event the curve is highest right there */
            int64_t use = 0;
            for (size_t k = 0; k < n; k++)
                if (truth[k].at_ns <= truth[i].at_ns) use += truth[k].delta_bytes;
            assert_true(zi_tide_at(&t, truth[i].at_ns) >= (uint64_t)use);
            if ((uint64_t)use > peak) peak = (uint64_t)use;
        }
        assert_true(t.peak_bytes >= peak);
        if (n > 2000) assert_true(t.n_points <= 64);
    }
    zi_tide_recorder_free(rec);
}

/* A long ramp of equal events costs a few percent of area when grouped. */
static void
grouping_is_tight(void **state)
{
    zi_tide_recorder *rec;
    zi_tide           t;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    record_saw(rec, 900, MB, 200 * MS, &t);
    assert_int_equal(900 * MB, t.peak_bytes);
    assert_int_equal(0, t.end_bytes);
    assert_true(t.n_points <= 64);
    assert_in_range(zi_tide_mean(&t), 449 * MB, 485 * MB);
    zi_tide_recorder_free(rec);
}

/* Bytes x time that one stair for pair k and its successor would add. */
static double
added_by(const uint64_t *at, const int64_t *height, size_t n, size_t k, uint64_t length)
{
    uint64_t end = k + 2 < n ? at[k + 2] : length;
    double   gap = (double)(height[k] - height[k + 1]);
    return gap > 0 ? gap * (double)(end - at[k + 1]) : -gap * (double)(at[k + 1] - at[k]);
}

/* Always the two neighbours are joined that add least, as looking at all of them each time tells. */
static void
cheapest_are_joined(void **state)
{
    enum { N = 200, LEFT = 48 };
    zi_tide_recorder *rec;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    for (int round = 0; round < 100; round++) {
        uint64_t at[N + 1] = {0}, length = 0;
        int64_t  height[N + 1] = {0};
        double   area = 0;
        size_t   n = 1;
        zi_tide  t;

        zi_tide_recorder_begin(rec, 0);
        for (; n <= N; n++) {
            int64_t delta = (int64_t)(1 + t_rand_below(8)) * 2 * MB;
            if (height[n - 1] >= delta && t_rand_below(2)) delta = -delta;
            at[n] = length += 1 + t_rand_below(1000);
            height[n] = height[n - 1] + delta;
            area += (double)height[n - 1] * (double)(at[n] - at[n - 1]);
            zi_tide_recorder_add(rec, at[n], delta);
        }
        int64_t last = height[N];
        length += 1000;
        area += (double)last * 1000;
        zi_tide_recorder_end(rec, length, &t);
        for (;;) {
            size_t best = 0;
            for (size_t k = 1; k + 1 < n; k++)
                if (added_by(at, height, n, k, length) <
                    added_by(at, height, n, best, length))
                    best = k;
            if (n <= LEFT && added_by(at, height, n, best, length) > area * 1e-3 / LEFT)
                break;
            if (height[best + 1] > height[best]) height[best] = height[best + 1];
            memmove(&at[best + 1], &at[best + 2], (n - best - 2) * sizeof at[0]);
            memmove(&height[best + 1], &height[best + 2],
                    (n - best - 2) * sizeof height[0]);
            n--;
        }
        for (size_t k = 0; k < n; k++) assert_int_equal(height[k], zi_tide_at(&t, at[k]));
        assert_int_equal(last, t.end_bytes);
        assert_true(t.n_points <= n + 1);
    }
    zi_tide_recorder_free(rec);
}

/* A step that gives back what an earlier one took is clamped at zero. */
static void
more_falls_than_rises(void **state)
{
    zi_tide_recorder *rec;
    zi_tide           t;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    zi_tide_recorder_begin(rec, 0);
    zi_tide_recorder_add(rec, 1 * MS, -10 * MB);
    zi_tide_recorder_add(rec, 2 * MS, 3 * MB);
    zi_tide_recorder_end(rec, 3 * MS, &t);
    expect_ok(zi_tide_verify(&t));
    assert_int_equal(3 * MB, t.peak_bytes);
    assert_int_equal(3 * MB, t.end_bytes);
    zi_tide_recorder_free(rec);
}

/* An outlier changes nothing; the same oddity twice in a row is the new truth. */
static void
learner_wants_two_witnesses(void **state)
{
    zi_tide_recorder *rec;
    zi_tide_learner   l = {0};
    zi_tide           usual, odd;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    record_saw(rec, 20, 10 * MB, 100 * MS, &usual);
    record_saw(rec, 20, 25 * MB, 160 * MS, &odd);
    for (int i = 0; i < 5; i++) assert_int_equal(ZI_TIDE_SAME, zi_tide_learn(&l, &usual));
    assert_int_equal(ZI_TIDE_OUTLIER, zi_tide_learn(&l, &odd));
    assert_int_equal(usual.peak_bytes, l.tide.peak_bytes);
    assert_int_equal(ZI_TIDE_SAME, zi_tide_learn(&l, &usual));
    assert_int_equal(ZI_TIDE_OUTLIER, zi_tide_learn(&l, &odd));
    assert_int_equal(ZI_TIDE_NEW, zi_tide_learn(&l, &odd));
    assert_int_equal(odd.peak_bytes, l.tide.peak_bytes);
    assert_true(zi_tide_repeats(&l));
    zi_tide_recorder_free(rec);
}

/* A step stretched by others is the same step; its length stays near the shortest seen. */
static void
learner_ignores_stretching(void **state)
{
    zi_tide_recorder *rec;
    zi_tide_learner   l = {0};
    zi_tide           t;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    for (int i = 0; i < 100; i++) {
        uint64_t length = (100 + t_rand_below(100)) * MS;
        record_saw(rec, 30, 10 * MB, length, &t);
        assert_int_equal(ZI_TIDE_SAME, zi_tide_learn(&l, &t));
        expect_ok(zi_tide_verify(&l.tide));
    }
    assert_in_range(l.tide.length_ns, 99 * MS, 150 * MS);
    zi_tide_recorder_free(rec);
}

/* A step that something else held up at a place of its own each time is the same step, and the stored
 * curve keeps its shape; held up at the same place twice, it is followed. */
static void
learner_ignores_hold_ups(void **state)
{
    enum { N = 40 };
    zi_tide_recorder *rec;
    zi_tide_learner   l = {0};
    zi_tide           usual, t;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    record_saw(rec, N, 10 * MB, 100 * MS, &usual);
    zi_tide_learn(&l, &usual);
    for (unsigned i = 0; i < 40; i++) {
        unsigned at = i / 2 % 2 ? 5 : 60; /* low and long, or high and long */
        uint64_t now = 0;
        zi_tide_recorder_begin(rec, 0);
        for (unsigned k = 0; k < 2 * N; k++) {
            zi_tide_recorder_add(rec, now, k < N ? 10 * MB : -10 * MB);
            now += k == at ? 150 * MS : 1250000;
        }
        zi_tide_recorder_end(rec, now, &t);
        assert_int_equal(ZI_TIDE_SAME, zi_tide_learn(&l, &t));
        expect_ok(zi_tide_verify(&l.tide));
        if (i == 0) assert_int_equal(zi_tide_mean(&usual), zi_tide_mean(&l.tide));
    }
    assert_true(zi_tide_repeats(&l));
    assert_int_not_equal(zi_tide_mean(&usual), zi_tide_mean(&l.tide));
    zi_tide_recorder_free(rec);
}

/* A job that alternates between two shapes is found out, and forgiven when it settles. */
static void
learner_sees_what_does_not_repeat(void **state)
{
    zi_tide_recorder *rec;
    zi_tide_learner   l = {0};
    zi_tide           a, b;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    record_saw(rec, 20, 10 * MB, 100 * MS, &a);
    record_saw(rec, 20, 30 * MB, 100 * MS, &b);
    for (int i = 0; i < 20; i++) zi_tide_learn(&l, i % 2 ? &a : &b);
    assert_false(zi_tide_repeats(&l));
    for (int i = 0; i < 20; i++) zi_tide_learn(&l, &a);
    assert_true(zi_tide_repeats(&l));
    assert_int_equal(a.peak_bytes, l.tide.peak_bytes);
    zi_tide_recorder_free(rec);
}

/* Text and back gives the same tide, also through a buffer that is too small at first. */
static void
text_round_trip(void **state)
{
    zi_tide_recorder *rec;

    (void)state;
    expect_ok(zi_tide_recorder_new(&rec));
    for (int i = 0; i < 200; i++) {
        zi_tide t, back;
        char    buf[16384], small[100];
        record_saw(rec, 1 + (unsigned)t_rand_below(200),
                   (int64_t)(1 + t_rand_below(1u << 24)), 1 + t_rand_below(1000 * MS),
                   &t);
        size_t n = zi_tide_print(&t, buf, sizeof buf);
        assert_true(n < sizeof buf && n == strlen(buf));
        assert_int_equal(n, zi_tide_print(&t, small, sizeof small));
        assert_int_equal(0, memcmp(buf, small, sizeof small - 1));
        assert_int_equal(0, small[sizeof small - 1]);
        expect_ok(zi_tide_parse(buf, n, &back, NULL));
        assert_int_equal(t.n_points, back.n_points);
        assert_int_equal(t.peak_bytes, back.peak_bytes);
        assert_int_equal(t.length_ns, back.length_ns);
        assert_int_equal(0, memcmp(t.point, back.point, t.n_points * sizeof t.point[0]));
    }
    zi_tide_recorder_free(rec);
}

/* Malformed text is refused and the line is named. */
static void
text_names_the_bad_line(void **state)
{
    static const struct {
        const char *text;
        size_t      line;
    } bad[] = {
        {"", 1},
        {"tide 2 length=1ms end=0 seen=1\n", 1},
        {"tide 1 length=1 end=0 seen=1\n", 1},
        {"tide 1 length=99999999999999999999ns end=0 seen=1\n", 1},
        {"tide 1 length=1ms end=0 seen=1\n+1M @0ns\n-1M 5us\n", 3},
        {"tide 1 length=1ms end=0 seen=1\n+1M @0ns\n+0 @5us\n", 3},
        {"tide 1 length=1ms end=0 seen=1\n+1M @0ns\n-1M @2ms\n", 3},  /* T4 */
        {"tide 1 length=1ms end=0 seen=1\n+1M @0ns\n-2M @1us\n", 3},  /* T2 */
        {"tide 1 length=1ms end=1M seen=1\n+1M @9us\n-1M @1us\n", 3}, /* T1 */
        {"tide 1 length=1ms end=0 seen=1\n+99999999999G @0ns\n", 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zi_tide t;
        size_t  line = 0;
        expect_status(ZICO_E_FORMAT,
                      zi_tide_parse(bad[i].text, strlen(bad[i].text), &t, &line));
        assert_int_equal(bad[i].line, line);
    }
}

/* Each numbered invariant is really looked at. */
static void
verify_sees_each_breach(void **state)
{
    const zi_tide good = {.n_points = 2,
                          .length_ns = 10,
                          .peak_bytes = 5,
                          .point = {{0, 5}, {10, -5}}};
    (void)state;
    expect_ok(zi_tide_verify(&good));
    zi_tide t = good;
    t.point[0].at_ns = 11; /* T1 */
    expect_status(ZICO_E_CORRUPT, zi_tide_verify(&t));
    t = good, t.point[1].delta_bytes = -6; /* T2 */
    expect_status(ZICO_E_CORRUPT, zi_tide_verify(&t));
    t = good, t.end_bytes = 1; /* T3 */
    expect_status(ZICO_E_CORRUPT, zi_tide_verify(&t));
    t = good, t.peak_bytes = 6; /* T4 */
    expect_status(ZICO_E_CORRUPT, zi_tide_verify(&t));
    t = good, t.n_points = ZI_TIDE_POINTS_MAX + 1;
    expect_status(ZICO_E_CORRUPT, zi_tide_verify(&t));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_events_are_kept),
        cmocka_unit_test(grouping_never_underestimates),
        cmocka_unit_test(grouping_is_tight),
        cmocka_unit_test(cheapest_are_joined),
        cmocka_unit_test(more_falls_than_rises),
        cmocka_unit_test(learner_wants_two_witnesses),
        cmocka_unit_test(learner_ignores_stretching),
        cmocka_unit_test(learner_ignores_hold_ups),
        cmocka_unit_test(learner_sees_what_does_not_repeat),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_names_the_bad_line),
        cmocka_unit_test(verify_sees_each_breach),
    };
    return t_main(tests);
}

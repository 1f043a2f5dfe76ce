/* timing_test.c -- quantiles of decision times are right to an eighth. */
#include "broker/timing.h"

#include "os/fake.h"
#include "test.h"

static int
ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Against sorting: never below the true quantile, at most an eighth above it. */
static void
quantiles(void **state)
{
    enum { N = 5000 };
    static uint64_t v[N];
    zi_timing       t = {0};

    (void)state;
    assert_int_equal(0, zi_timing_quantile(&t, 990));
    for (size_t i = 0; i < N; i++) {
        v[i] = t_rand() >> (20 + t_rand_below(44));
        zi_timing_add(&t, v[i]);
    }
    qsort(v, N, sizeof v[0], ascending);
    for (unsigned p = 1; p <= 1000; p++) {
        uint64_t truth = v[(N * (size_t)p + 999) / 1000 - 1],
                 said = zi_timing_quantile(&t, p);
        assert_true(said >= truth);
        assert_true(said <= truth + truth / 8 + 1);
    }
}

/* The ends of the range have a bucket, too. */
static void
extremes(void **state)
{
    zi_timing t = {0};

    (void)state;
    zi_timing_add(&t, 0);
    assert_int_equal(0, zi_timing_quantile(&t, 990));
    zi_timing_add(&t, UINT64_MAX);
    assert_true(zi_timing_quantile(&t, 1000) == UINT64_MAX);
    assert_int_equal(2, t.n);
}

/* A decision's time is the clock's between begin and end; its status is handed through. */
static void
begin_and_end(void **state)
{
    zi_timing t = {0};
    zi_fake  *f;

    (void)state;
    expect_ok(zi_fake_new(&f));
    zi_timing_begin(&t, zi_fake_os(f));
    zi_fake_advance(f, 1000);
    assert_int_equal(ZICO_E_BUSY, zi_timing_end(&t, zi_fake_os(f), ZICO_E_BUSY));
    assert_in_range(zi_timing_quantile(&t, 500), 1000, 1125);
    assert_int_equal(1000, t.most_ns);
    zi_fake_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles),
        cmocka_unit_test(extremes),
        cmocka_unit_test(begin_and_end),
    };
    return t_main(tests);
}

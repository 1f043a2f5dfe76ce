/* tests/unit/tier_test.c -- what goes out comes back, and nothing is left behind. */
#include "exec/tier.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "os/fake.h"
#include "test.h"

#define N (64 * 4096)

static char *
pages(char first)
{
    char *p = aligned_alloc(4096, N);
    assert_non_null(p);
    for (int i = 0; i < N; i++) p[i] = (char)(first + i * 7);
    return p;
}

static int
n_files(const char *dir)
{
    DIR *d = opendir(dir);
    int  n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void
round_trip(const char *spec)
{
    zi_tier      *t;
    zi_tier_stats stats;
    char         *a = pages(1), *b = pages(2), *back = pages(3);

    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    expect_ok(zi_tier_reserve(t, 2 * N));
    expect_ok(zi_tier_write(t, 0, a, N));
    expect_ok(zi_tier_write(t, N, b, N));
    expect_ok(zi_tier_read(t, N, back, N));
    assert_memory_equal(b, back, N);
    expect_ok(zi_tier_reserve(t, 3 * N)); /* growing keeps what is there */
    expect_ok(zi_tier_read(t, 0, back, N));
    assert_memory_equal(a, back, N);
    zi_tier_read_stats(t, &stats);
    assert_int_equal(2 * N, stats.out_bytes);
    assert_int_equal(2 * N, stats.in_bytes);
    zi_tier_close(t);
    free(a);
    free(b);
    free(back);
}

/* Both tiers give back what they were given; the file has no name while it is used. */
static void
bytes_come_back(void **state)
{
    const char *dir = t_tmpdir();
    char        spec[4200];
    zi_tier    *t;

    (void)state;
    snprintf(spec, sizeof spec, "file:%s", dir);
    round_trip(spec);
    round_trip("ram");
    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    assert_int_equal(0, n_files(dir));
    zi_tier_close(t);
    t_rmdir(dir);
}

/* A range outside of what was reserved, a crooked offset, a spec that names nothing. */
static void
bad_requests(void **state)
{
    zi_tier *t;
    char    *a = pages(1);

    (void)state;
    expect_status(ZICO_E_FORMAT, zi_tier_open(zi_os_real(), "tape:/dev/st0", &t));
    expect_status(ZICO_E_NOTFOUND,
                  zi_tier_open(zi_os_real(), "file:/no/such/folder", &t));
    expect_ok(zi_tier_open(zi_os_real(), "ram", &t));
    expect_ok(zi_tier_reserve(t, N));
    expect_status(ZICO_E_ARG, zi_tier_write(t, N, a, N));
    expect_status(ZICO_E_ARG, zi_tier_read(t, 100, a, 4096));
    zi_tier_close(t);
    free(a);
}

/* Speeds are positive, and measuring leaves a usable tier. */
static void
speeds(void **state)
{
    zi_tier *t;
    double   out = 0, in = 0;

    (void)state;
    expect_ok(zi_tier_open(zi_os_real(), "ram", &t));
    expect_ok(zi_tier_measure(t, N, &out, &in));
    assert_true(out > 0 && in > 0);
    zi_tier_close(t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(speeds),
    };
    return t_main(tests);
}

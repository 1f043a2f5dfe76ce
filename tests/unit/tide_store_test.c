/* tide_store_test.c -- what was learnt of a shape is there for the next job. */
#include "broker/tide_store.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "os/fake.h"
#include "test.h"

static zi_tide
some_tide(uint64_t peak)
{
    zi_tide t = {.n_points = 2, .n_seen = 3, .length_ns = 100, .peak_bytes = peak};
    t.point[0] = (zi_tide_point){0, (int64_t)peak};
    t.point[1] = (zi_tide_point){50, -(int64_t)peak};
    expect_ok(zi_tide_verify(&t));
    return t;
}

/* Kept by shape; shape 0 and tides that were never seen are nobody's. */
static void
kept_by_shape(void **state)
{
    zi_tide_store *s;
    zi_tide        a = some_tide(1 << 20), b = some_tide(2 << 20), unseen = some_tide(1);

    (void)state;
    expect_ok(zi_tide_store_new(zi_os_real(), NULL, &s));
    assert_null(zi_tide_store_get(s, 7));
    zi_tide_store_put(s, 7, &a);
    zi_tide_store_put(s, 8, &b);
    zi_tide_store_put(s, 0, &b);
    unseen.n_seen = 0;
    zi_tide_store_put(s, 9, &unseen);
    assert_int_equal(1 << 20, zi_tide_store_get(s, 7)->peak_bytes);
    assert_int_equal(2 << 20, zi_tide_store_get(s, 8)->peak_bytes);
    assert_null(zi_tide_store_get(s, 0));
    assert_null(zi_tide_store_get(s, 9));
    zi_tide_store_free(s);
    zi_tide_store_free(NULL);
}

/* The 65th pushes out the one used longest ago. */
static void
full(void **state)
{
    zi_tide_store *s;
    zi_tide        t = some_tide(4096);

    (void)state;
    expect_ok(zi_tide_store_new(zi_os_real(), NULL, &s));
    for (uint64_t shape = 1; shape <= 64; shape++) zi_tide_store_put(s, shape, &t);
    assert_non_null(zi_tide_store_get(s, 1)); /* used: stays */
    zi_tide_store_put(s, 65, &t);
    assert_non_null(zi_tide_store_get(s, 1));
    assert_null(zi_tide_store_get(s, 2));
    assert_non_null(zi_tide_store_get(s, 65));
    zi_tide_store_free(s);
}

/* With a folder, tides outlive the store; a damaged file is ignored. */
static void
in_a_folder(void **state)
{
    const char    *dir = t_path(t_tmpdir(), "tides"), *file;
    zi_tide_store *s;
    zi_tide        t = some_tide(3 << 20);

    (void)state;
    expect_ok(zi_tide_store_new(zi_os_real(), dir, &s));
    zi_tide_store_put(s, 0xabc, &t);
    zi_tide_store_free(s);
    file = t_path(dir, "0000000000000abc.tide");
    assert_int_equal(0, access(file, F_OK));
    assert_int_equal(-1, access(t_path(dir, "0000000000000abc.new"), F_OK));
    expect_ok(zi_tide_store_new(zi_os_real(), dir, &s));
    assert_int_equal(3 << 20, zi_tide_store_get(s, 0xabc)->peak_bytes);
    zi_tide_store_free(s);
    assert_int_equal(0, truncate(file, 5));
    expect_ok(zi_tide_store_new(zi_os_real(), dir, &s));
    assert_null(zi_tide_store_get(s, 0xabc));
    zi_tide_store_free(s);
}

/* A job without a shape is kept by name, for people only, and never outside the folder. */
static void
by_name(void **state)
{
    static const char *const bad[] = {"", ".hidden", "../out", "a/b", "0000000000000abc"};
    const char              *dir = t_path(t_tmpdir(), "tides");
    zi_tide_store           *s;
    zi_tide                  t = some_tide(4096), unseen = some_tide(1);

    (void)state;
    expect_ok(zi_tide_store_new(zi_os_real(), dir, &s));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        zi_tide_store_keep(s, bad[i], &t);
    unseen.n_seen = 0;
    zi_tide_store_keep(s, "unseen", &unseen);
    assert_int_equal(0, rmdir(dir)); /* nothing is in it, nor beside it */
    assert_int_equal(-1, access(t_path(t_tmpdir(), "out.tide"), F_OK));
    zi_tide_store_free(s);
    expect_ok(zi_tide_store_new(zi_os_real(), dir, &s));
    zi_tide_store_keep(s, "my script", &t);
    zi_tide_store_free(s);
    assert_int_equal(0, access(t_path(dir, "my script.tide"), F_OK));
    expect_ok(zi_tide_store_new(zi_os_real(), NULL, &s));
    zi_tide_store_keep(s, "my script", &t); /* no folder: nowhere */
    zi_tide_store_free(s);
}

/* Failing files and memory cost a tide, never more. */
static void
failures(void **state)
{
    const char    *dir = t_path(t_tmpdir(), "tides");
    zi_tide        t = some_tide(4096);
    zi_tide_store *s = NULL;
    zi_fake       *f;

    (void)state;
    for (uint64_t n = 1;; n++) {
        zi_alloc_fail_at(n);
        zico_status st = zi_tide_store_new(zi_os_real(), dir, &s);
        int         failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (st >= 0) zi_tide_store_free(s);
        if (!failed) break;
        assert_int_equal(ZICO_E_NOMEM, st);
    }
    expect_ok(zi_fake_new(&f));
    for (uint64_t n = 0;; n++) {
        zi_fake_fail_at(f, NULL, n, EIO);
        expect_ok(zi_tide_store_new(zi_fake_os(f), dir, &s));
        zi_tide_store_put(s, 3, &t);
        assert_non_null(zi_tide_store_get(s, 3)); /* memory still has it */
        zi_tide_store_free(s);
        if (!zi_fake_failed(f)) break;
    }
    zi_fake_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_by_shape), cmocka_unit_test(full),
        cmocka_unit_test(in_a_folder),   cmocka_unit_test(by_name),
        cmocka_unit_test(failures),
    };
    return t_main(tests);
}

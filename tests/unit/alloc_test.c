/* alloc_test.c -- the heap counts, and fails when and where it is told to. */
#include "base/alloc.h"
#include "test.h"

#include <pthread.h>

/* The call that was named fails, those before and after do not. */
static void
the_nth_call_fails(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 4; n++) {
        void *p[4];
        zi_alloc_fail_at(n);
        p[0] = zi_malloc(8);
        p[1] = zi_calloc(2, 8);
        p[2] = zi_realloc(NULL, 8);
        p[3] = zi_strdup("x");
        for (uint64_t i = 0; i < 4; i++) assert_int_equal(i + 1 == n, p[i] == NULL);
        assert_true(zi_alloc_has_failed());
        for (int i = 0; i < 4; i++) zi_free(p[i]);
    }
    zi_alloc_fail_at(0);
    assert_false(zi_alloc_has_failed());
}

/* What is allocated and not freed is counted; growing a block does not count twice. */
static void
live_blocks_are_counted(void **state)
{
    int64_t before = zi_alloc_n_live();

    (void)state;
    void *a = zi_malloc(10), *b = zi_calloc(1, 1);
    assert_int_equal(before + 2, zi_alloc_n_live());
    a = zi_realloc(a, 1000);
    assert_non_null(a);
    assert_int_equal(before + 2, zi_alloc_n_live());
    zi_free(a);
    zi_free(b);
    zi_free(NULL);
    assert_int_equal(before, zi_alloc_n_live());
}

/* A failed realloc leaves the old block alive and whole. */
static void
failed_realloc_keeps_the_block(void **state)
{
    char *a = zi_strdup("hello");

    (void)state;
    zi_alloc_fail_at(1);
    assert_null(zi_realloc(a, 1000));
    assert_string_equal("hello", a);
    zi_free(a);
}

/* A product that does not fit is refused, not wrapped around. */
static void
products_do_not_wrap(void **state)
{
    (void)state;
    assert_null(zi_realloc_array(NULL, SIZE_MAX / 2, 3));
    void *zero = zi_malloc(0);
    assert_non_null(zero);
    zi_free(zero);
}

static void *
allocate_many(void *arg)
{
    size_t *n_null = arg;
    for (int i = 0; i < 1000; i++) {
        void *p = zi_malloc(16);
        if (!p) (*n_null)++;
        zi_free(p);
    }
    return NULL;
}

/* Of many threads exactly one sees the one failure. */
static void
one_failure_among_threads(void **state)
{
    pthread_t t[4];
    size_t    n_null[4] = {0};
    int64_t   before = zi_alloc_n_live();

    (void)state;
    zi_alloc_fail_at(1500);
    for (int i = 0; i < 4; i++)
        assert_int_equal(0, pthread_create(&t[i], NULL, allocate_many, &n_null[i]));
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_int_equal(1, n_null[0] + n_null[1] + n_null[2] + n_null[3]);
    assert_true(zi_alloc_has_failed());
    zi_alloc_fail_at(0);
    assert_int_equal(before, zi_alloc_n_live());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_fails),
        cmocka_unit_test(live_blocks_are_counted),
        cmocka_unit_test(failed_realloc_keeps_the_block),
        cmocka_unit_test(products_do_not_wrap),
        cmocka_unit_test(one_failure_among_threads),
    };
    return t_main(tests);
}

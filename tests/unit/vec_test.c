/* vec_test.c -- typed arrays grow, shrink, and survive a failed growth. */
#include "base/vec.h"
#include "base/alloc.h"
#include "test.h"

typedef struct pair {
    int a, b;
} pair;

/* Elements keep their values and their order while the array grows. */
static void
growth_keeps_the_elements(void **state)
{
    ZI_VEC(pair) v = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) expect_ok(zi_vec_push(&v, (pair){i, -i}));
    assert_int_equal(1000, v.n);
    for (int i = 0; i < 1000; i++) assert_true(v.at[i].a == i && v.at[i].b == -i);
    assert_int_equal(999, zi_vec_last(&v).a);
    assert_int_equal(999, zi_vec_pop(&v).a);
    assert_int_equal(999, v.n);
    zi_vec_free(&v);
    assert_true(v.n == 0 && v.cap == 0 && v.at == NULL);
}

/* Removing by swap moves the last one; plain removal keeps the order. */
static void
removal_swaps_or_shifts(void **state)
{
    ZI_VEC(int) v = {0};

    (void)state;
    for (int i = 0; i < 5; i++) expect_ok(zi_vec_push(&v, i));
    zi_vec_remove_swap(&v, 1); /* 0 4 2 3 */
    assert_true(v.n == 4 && v.at[1] == 4);
    zi_vec_remove(&v, 0); /* 4 2 3 */
    assert_true(v.n == 3 && v.at[0] == 4 && v.at[1] == 2 && v.at[2] == 3);
    zi_vec_remove(&v, 2);
    zi_vec_remove_swap(&v, 1);
    zi_vec_remove_swap(&v, 0);
    assert_int_equal(0, v.n);
    zi_vec_free(&v);
}

/* Resizing up gives zeroes, also over elements that had been in use. */
static void
resize_gives_zeroes(void **state)
{
    ZI_VEC(int) v = {0};

    (void)state;
    expect_ok(zi_vec_resize(&v, 100));
    for (int i = 0; i < 100; i++) v.at[i] = 7;
    expect_ok(zi_vec_resize(&v, 10));
    expect_ok(zi_vec_resize(&v, 100));
    assert_int_equal(7, v.at[9]);
    assert_int_equal(0, v.at[10]);
    assert_int_equal(0, v.at[99]);
    zi_vec_free(&v);
}

/* When memory is refused the array is as it was; a size that overflows is refused. */
static void
failed_growth_changes_nothing(void **state)
{
    ZI_VEC(uint64_t) v = {0};

    (void)state;
    while (v.n == 0 || v.n < v.cap) expect_ok(zi_vec_push(&v, v.n));
    size_t n = v.n, cap = v.cap;
    zi_alloc_fail_at(1);
    expect_status(ZICO_E_NOMEM, zi_vec_push(&v, 1));
    assert_true(v.n == n && v.cap == cap && v.at[n - 1] == n - 1);
    expect_status(ZICO_E_NOMEM, zi_vec_reserve(&v, SIZE_MAX / 4));
    expect_status(ZICO_E_NOMEM, zi_vec_resize(&v, SIZE_MAX / 4));
    assert_true(v.n == n && v.cap == cap);
    zi_vec_free(&v);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_keeps_the_elements),
        cmocka_unit_test(removal_swaps_or_shifts),
        cmocka_unit_test(resize_gives_zeroes),
        cmocka_unit_test(failed_growth_changes_nothing),
    };
    return t_main(tests);
}

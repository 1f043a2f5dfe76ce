/* str_test.c -- text grows, and a failed allocation leaves it whole. */
#include "base/str.h"
#include "base/alloc.h"
#include "test.h"

/* Pieces of every kind come out joined and terminated. */
static void
pieces_are_joined(void **state)
{
    zi_str s = {0};

    (void)state;
    assert_string_equal("", zi_str_get(&s));
    zi_str_add(&s, "ab");
    zi_str_add_char(&s, 'c');
    zi_str_add_n(&s, "defgh", 2);
    zi_str_fmt(&s, " %d %s", 42, "x");
    assert_string_equal("abcde 42 x", zi_str_get(&s));
    assert_int_equal(10, s.n);
    expect_ok(zi_str_status(&s));
    zi_str_clear(&s);
    assert_string_equal("", zi_str_get(&s));
    zi_str_free(&s);
}

/* A formatted piece longer than any first guess is not cut. */
static void
long_pieces_are_not_cut(void **state)
{
    zi_str s = {0};

    (void)state;
    zi_str_add(&s, "<");
    zi_str_fmt(&s, "%5000d>", 7);
    assert_int_equal(5002, s.n);
    assert_string_equal("7>", zi_str_get(&s) + 5000);
    for (int i = 0; i < 10000; i++) zi_str_add(&s, "0123456789");
    assert_int_equal(105002, strlen(zi_str_get(&s)));
    zi_str_free(&s);
}

/* Taking hands the text over, "" when empty, and leaves a usable string. */
static void
taking_hands_over(void **state)
{
    zi_str s = {0};

    (void)state;
    char *empty = zi_str_take(&s);
    assert_string_equal("", empty);
    zi_free(empty);
    zi_str_add(&s, "hello");
    char *hello = zi_str_take(&s);
    assert_string_equal("hello", hello);
    zi_free(hello);
    assert_true(s.at == NULL && s.n == 0);
}

/* Whichever allocation fails, the status says so and nothing leaks. */
static void
any_failed_allocation_sticks(void **state)
{
    int64_t before = zi_alloc_n_live();

    (void)state;
    for (uint64_t n = 1;; n++) {
        zi_str s = {0};
        zi_alloc_fail_at(n);
        for (int i = 0; i < 50; i++) zi_str_fmt(&s, "%s %200d\n", "line", i);
        bool failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        expect_status(failed ? ZICO_E_NOMEM : ZICO_OK, zi_str_status(&s));
        if (failed) {
            zi_str_add(&s, "more");
            assert_string_equal("", zi_str_get(&s));
            assert_null(zi_str_take(&s));
        }
        zi_str_free(&s);
        assert_int_equal(before, zi_alloc_n_live());
        if (!failed) {
            assert_true(n > 2);
            break;
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_joined),
        cmocka_unit_test(long_pieces_are_not_cut),
        cmocka_unit_test(taking_hands_over),
        cmocka_unit_test(any_failed_allocation_sticks),
    };
    return t_main(tests);
}

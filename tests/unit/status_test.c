/* status_test.c -- every status has a name and a text, and they tell apart. */
#include "zico/status.h"
#include "test.h"

/* Each listed status is named as it is spelled and explained in words. */
static void
every_status_has_words(void **state)
{
    (void)state;
#define X(name, value, text)                                                             \
    assert_string_equal("ZICO_" #name, zico_status_name(ZICO_##name));                   \
    assert_string_equal(text, zico_status_text(ZICO_##name));
    ZICO_STATUS_MAP(X)
#undef X
}

/* A value that is not in the list, from a newer peer say, still gets words. */
static void
unknown_status_has_words(void **state)
{
    (void)state;
    assert_string_equal("ZICO_?", zico_status_name((zico_status)-77));
    assert_string_equal("unknown status", zico_status_text((zico_status)-77));
}

/* Success is zero, pending positive, failures fall into the three documented groups. */
static void
values_lie_in_their_groups(void **state)
{
    (void)state;
    assert_int_equal(0, ZICO_OK);
    assert_true(ZICO_PENDING > 0);
#define X(name, value, text) assert_true((value) <= 1 && (value) > -300);
    ZICO_STATUS_MAP(X)
#undef X
    assert_true(ZICO_E_BUSY > -100);
    assert_true(ZICO_E_GONE <= -100 && ZICO_E_GONE > -200);
    assert_true(ZICO_E_CORRUPT <= -200);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_words),
        cmocka_unit_test(unknown_status_has_words),
        cmocka_unit_test(values_lie_in_their_groups),
    };
    return t_main(tests);
}

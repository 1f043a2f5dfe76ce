/* weigh_test.c -- what came on top of the weight before training is charged, once. */
#include "hook/weigh.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* The first look is the base; what is charged already, large or small, is not charged again. */
static void
grows(void **state)
{
    zi_weight w = {0};

    (void)state;
    assert_int_equal(0, zi_weight_grown(&w, 140 * MIB, 40 * MIB));
    assert_int_equal(100 * MIB, w.base_bytes);
    assert_int_equal(0, zi_weight_grown(&w, 140 * MIB + MIB / 2, 40 * MIB));
    assert_int_equal(10 * MIB, zi_weight_grown(&w, 410 * MIB, 300 * MIB));
    assert_int_equal(10 * MIB, zi_weight_grown(&w, 410 * MIB, 300 * MIB)); /* refused */
    w.charged_bytes = 10 * MIB;
    assert_int_equal(0, zi_weight_grown(&w, 410 * MIB, 300 * MIB));
    assert_int_equal(0, zi_weight_grown(&w, 90 * MIB, 0)); /* less: nothing happens */
    assert_int_equal(5 * MIB, zi_weight_grown(&w, 115 * MIB, 0));
}

/* Nothing is charged without a reading, nor beyond the most, nor if large blocks are not there yet. */
static void
bounds(void **state)
{
    zi_weight w = {0};

    (void)state;
    assert_int_equal(0, zi_weight_grown(&w, 0, 0));
    assert_int_equal(0, w.base_bytes);
    assert_int_equal(0, zi_weight_grown(&w, 10 * MIB, 500 * MIB));
    assert_int_equal(ZI_WEIGHT_MAX, zi_weight_grown(&w, 900 * MIB, 500 * MIB));
}

/* The kernel's count rises by what is written. */
static void
reads_the_kernel(void **state)
{
    const size_t size = 24 * MIB;

    (void)state;
    uint64_t before = zi_weight_anonymous();
    char    *p = malloc(size);
    assert_non_null(p);
    memset(p, 1, size);
    uint64_t after = zi_weight_anonymous();
    assert_true(before > 0);
    assert_true(p[size / 2] == 1 && after >= before + size - 2 * MIB);
    free(p);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(bounds),
        cmocka_unit_test(reads_the_kernel),
    };
    return t_main(tests);
}

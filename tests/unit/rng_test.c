/* rng_test.c -- the generators give their authors' numbers. */
#include "base/rng.h"
#include "test.h"

/* splitmix64 from seed 1234567, as published with the algorithm. */
static void
splitmix_known_answers(void **state)
{
    uint64_t s = 1234567;

    (void)state;
    assert_true(zi_splitmix(&s) == 6457827717110365317u);
    assert_true(zi_splitmix(&s) == 3203168211198807973u);
    assert_true(zi_splitmix(&s) == 9817491932198370423u);
}

/* xoshiro256** from the state 1, 2, 3, 4. */
static void
xoshiro_known_answers(void **state)
{
    zi_rng r = {{1, 2, 3, 4}};

    (void)state;
    assert_true(zi_rng_next(&r) == 11520u);
    assert_true(zi_rng_next(&r) == 0u);
    assert_true(zi_rng_next(&r) == 1509978240u);
    assert_true(zi_rng_next(&r) == 1215971899390074240u);
}

/* philox4x32-10 on the three vectors of Random123's kat_vectors. */
static void
philox_known_answers(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u},
         {~0u, ~0u},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t got[4];
        zi_philox_raw(kat[i].ctr, kat[i].key, got);
        assert_memory_equal(kat[i].want, got, sizeof got);
    }
}

/* The convenient form is the raw one with the halves in place. */
static void
philox_places_its_words(void **state)
{
    uint32_t got[4], want[4];
    uint32_t ctr[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    uint32_t key[2] = {0xa4093822, 0x299f31d0};

    (void)state;
    zi_philox_raw(ctr, key, want);
    zi_philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, got);
    assert_memory_equal(want, got, sizeof got);
}

/* Numbers below n stay below n and reach every value evenly. */
static void
below_is_even(void **state)
{
    zi_rng   r = zi_rng_seed(t_seed());
    unsigned seen[7] = {0};

    (void)state;
    for (int i = 0; i < 70000; i++) {
        uint64_t x = zi_rng_below(&r, 7);
        assert_true(x < 7);
        seen[x]++;
    }
    /* 10000 expected, standard deviation 93: seven of them is no accident */
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9350, 10650);
    assert_int_equal(0, zi_rng_below(&r, 1));
    for (int i = 0; i < 100; i++)
        assert_true(zi_rng_below(&r, UINT64_MAX - 1) < UINT64_MAX - 1);
}

/* The unit intervals exclude 1, also for the largest bits. */
static void
units_exclude_one(void **state)
{
    zi_rng r = zi_rng_seed(t_seed());
    double sum = 0;

    (void)state;
    assert_true(zi_unit_f32(UINT32_MAX) < 1.0f);
    assert_true(zi_unit_f32(0) == 0.0f);
    for (int i = 0; i < 10000; i++) {
        double u = zi_rng_unit(&r);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4800 && sum < 5200);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitmix_known_answers),
        cmocka_unit_test(xoshiro_known_answers),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(philox_places_its_words),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(units_exclude_one),
    };
    return t_main(tests);
}

/* predict_test.c -- the hook learns which blocks outlive their step. */
#include "hook/predict.h"
#include "test.h"

static zi_predict p;

static int
reset(void **state)
{
    (void)state;
    memset(&p, 0, sizeof p);
    return 0;
}

/* The second of two equal blocks is kept across the step's end: from the next step on exactly
 * the second is expected to outlive it. */
static void
second_of_two(void **state)
{
    zi_fate fate;

    (void)state;
    for (int step = 0; step < 5; step++) {
        uint32_t a = zi_predict_take(&p, 1 << 20, &fate);
        assert_int_equal(step ? ZI_FATE_STEP : ZI_FATE_UNKNOWN, fate);
        uint32_t at = zi_predict_step(&p);
        uint32_t b = zi_predict_take(&p, 1 << 20, &fate);
        assert_int_equal(step ? ZI_FATE_OUTLIVES : ZI_FATE_UNKNOWN, fate);
        zi_predict_drop(&p, a, at);
        zi_predict_end(&p);
        zi_predict_drop(&p, b, at); /* after the end: too late to count as short-lived */
    }
}

/* A block that stops outliving its step is believed after as many steps as are remembered. */
static void
forgets(void **state)
{
    zi_fate fate;

    (void)state;
    (void)zi_predict_take(&p, 5000000, &fate);
    zi_predict_end(&p);
    for (unsigned i = 0; i < ZI_PREDICT_MEMORY; i++) {
        uint32_t k = zi_predict_take(&p, 5000000, &fate);
        assert_int_equal(ZI_FATE_OUTLIVES, fate);
        zi_predict_drop(&p, k, zi_predict_step(&p));
        zi_predict_end(&p);
    }
    (void)zi_predict_take(&p, 5000000, &fate);
    assert_int_equal(ZI_FATE_STEP, fate);
}

/* A hinted size is expected to outlive its step until it was seen to die often: a second network's
 * gradients come late, where the first one's temporaries have died before. */
static void
hints(void **state)
{
    zi_fate fate;

    (void)state;
    zi_predict_hint(&p, 4 << 20);
    for (unsigned step = 0; step < ZI_PREDICT_HINTED; step++) {
        uint32_t k = zi_predict_take(&p, 4 << 20, &fate);
        assert_int_equal(ZI_FATE_OUTLIVES, fate);
        zi_predict_drop(&p, k, zi_predict_step(&p));
        zi_predict_end(&p);
    }
    (void)zi_predict_take(&p, 4 << 20, &fate);
    assert_int_equal(ZI_FATE_STEP, fate);
}

/* Keys that a step does not reach keep what is known of them: an evaluation every few steps
 * does not disturb training. */
static void
evaluation_between(void **state)
{
    zi_fate fate;

    (void)state;
    for (int step = 0; step < 12; step++) {
        int n = step % 4 == 3 ? 6 : 2; /* every fourth step has four blocks more */
        for (int i = 0; i < n; i++) {
            uint32_t k = zi_predict_take(&p, 2 << 20, &fate);
            if (step >= 8) assert_int_equal(ZI_FATE_STEP, fate);
            zi_predict_drop(&p, k, zi_predict_step(&p));
        }
        zi_predict_end(&p);
    }
}

/* When its tables are full it says "unknown" and goes on. */
static void
tables_full(void **state)
{
    zi_fate  fate;
    uint32_t none = 0;

    (void)state;
    for (uint64_t i = 1; i <= 2 * ZI_PREDICT_SIZES_MAX; i++)
        none += zi_predict_take(&p, i << 20, &fate) == ZI_PREDICT_NONE;
    assert_int_equal(2 * ZI_PREDICT_SIZES_MAX - ZI_PREDICT_SIZES_MAX / 4 * 3, none);
    for (uint32_t i = 0; i < 2 * ZI_PREDICT_KEYS_MAX; i++) {
        uint32_t k = zi_predict_take(&p, 1 << 20, &fate);
        if (k == ZI_PREDICT_NONE) assert_int_equal(ZI_FATE_UNKNOWN, fate);
    }
    assert_true(p.n_keys <= ZI_PREDICT_KEYS_MAX / 4 * 3);
    zi_predict_drop(&p, ZI_PREDICT_NONE, 0);
    zi_predict_end(&p);
    (void)zi_predict_take(&p, 1 << 20, &fate);
    assert_int_equal(ZI_FATE_OUTLIVES, fate);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(second_of_two, reset),
        cmocka_unit_test_setup(forgets, reset),
        cmocka_unit_test_setup(hints, reset),
        cmocka_unit_test_setup(evaluation_between, reset),
        cmocka_unit_test_setup(tables_full, reset),
    };
    return t_main(tests);
}

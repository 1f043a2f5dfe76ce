/* schedule_test.c -- learning rates rise, hold and fall as promised. */
#include <math.h>
#include "test.h"
#include "train/schedule.h"

#define near(a, b) assert_true(fabs((a) - (b)) < 1e-12)

/* The rate rises in equal steps, reaches its top at the last of them, then stays. */
static void
warm_up_is_linear(void **state)
{
    zi_schedule s = {.kind = ZI_SCHEDULE_CONSTANT, .lr = 0.4, .warmup = 4};

    (void)state;
    near(0.1, zi_schedule_lr(&s, 1));
    near(0.3, zi_schedule_lr(&s, 3));
    near(0.4, zi_schedule_lr(&s, 4));
    near(0.4, zi_schedule_lr(&s, 5));
    near(0.4, zi_schedule_lr(&s, 1000000));
}

/* A cosine begins at the top, halves in the middle, and ends at its floor for good. */
static void
cosine_falls_to_its_floor(void **state)
{
    zi_schedule s = {.kind = ZI_SCHEDULE_COSINE, .lr = 1, .total = 101, .floor = 0};

    (void)state;
    near(1.0, zi_schedule_lr(&s, 1));
    near(0.5, zi_schedule_lr(&s, 51));
    near(0.0, zi_schedule_lr(&s, 101));
    near(0.0, zi_schedule_lr(&s, 200));
    s.floor = 0.1;
    near(0.1, zi_schedule_lr(&s, 101));
    s.warmup = 50;
    for (uint64_t i = 52; i <= 101; i++)
        assert_true(zi_schedule_lr(&s, i) < zi_schedule_lr(&s, i - 1));
    s.total = s.warmup = 3; /* no step left to fall in */
    near(1.0, zi_schedule_lr(&s, 3));
    near(0.1, zi_schedule_lr(&s, 4));
}

/* Step decay multiplies after every so many steps, counted from the end of the warm-up. */
static void
step_decay_multiplies(void **state)
{
    zi_schedule s = {.kind = ZI_SCHEDULE_STEP, .lr = 1, .every = 10, .gamma = 0.1};

    (void)state;
    near(1.0, zi_schedule_lr(&s, 10));
    near(0.1, zi_schedule_lr(&s, 11));
    near(0.01, zi_schedule_lr(&s, 21));
    s.warmup = 5;
    near(1.0, zi_schedule_lr(&s, 15));
    near(0.1, zi_schedule_lr(&s, 16));
}

/* Names are those that users type; others are refused. */
static void
names(void **state)
{
    zi_schedule_kind k;

    (void)state;
    expect_ok(zi_schedule_find("cosine", &k));
    assert_int_equal(ZI_SCHEDULE_COSINE, k);
    expect_ok(zi_schedule_find("step", &k));
    assert_int_equal(ZI_SCHEDULE_STEP, k);
    expect_status(ZICO_E_NOTFOUND, zi_schedule_find("linear", &k));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_linear),
        cmocka_unit_test(cosine_falls_to_its_floor),
        cmocka_unit_test(step_decay_multiplies),
        cmocka_unit_test(names),
    };
    return t_main(tests);
}

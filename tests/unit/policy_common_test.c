/* policy_common_test.c -- helpers that policies share. */
#include "policy/policy_common.h"
#include "test.h"

#define MS   1000000ull
#define MOST (10 * MS)

/* Who pauses in every second of its gaps, for its data, is not waited for in the others either. */
static void
gap_of_a_job_that_waits_for_data(void **state)
{
    uint64_t gap = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        zi_policy_note_gap(&gap, i % 2 ? 1 * MS : 190 * MS, MOST);
        assert_true(gap > MOST);
    }
}

/* One long pause, say to evaluate, is forgotten after half a dozen steps, however long it was. */
static void
gap_after_one_pause(void **state)
{
    uint64_t gap = 0;
    int      n = 0;

    (void)state;
    zi_policy_note_gap(&gap, 1 * MS, MOST);
    assert_int_equal(1 * MS, gap);
    zi_policy_note_gap(&gap, 60000 * MS, MOST);
    for (; gap > MOST; n++) zi_policy_note_gap(&gap, 1 * MS, MOST);
    assert_in_range(n, 4, 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap_of_a_job_that_waits_for_data),
        cmocka_unit_test(gap_after_one_pause),
    };
    return t_main(tests);
}

/* hash_test.c -- the map is a map, against a plain array that cannot be wrong. */
#include "base/hash.h"
#include "base/alloc.h"
#include "test.h"

#define N_KEYS 300

/* Random puts and removes agree with a model after every one of them. */
static void
agrees_with_a_plain_array(void **state)
{
    zi_hash  h = {0};
    uint64_t model[N_KEYS];
    bool     there[N_KEYS] = {0};
    size_t   n = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        uint64_t k = t_rand_below(N_KEYS), key = k * (k % 3 ? 1 : 0x1000000000u);
        if (t_rand_below(2)) {
            model[k] = t_rand();
            n += !there[k];
            there[k] = true;
            expect_ok(zi_hash_put(&h, key, model[k]));
        } else {
            assert_int_equal(there[k], zi_hash_remove(&h, key));
            n -= there[k];
            there[k] = false;
        }
        assert_int_equal(n, h.n);
        uint64_t q = t_rand_below(N_KEYS),
                 *v = zi_hash_find(&h, q * (q % 3 ? 1 : 0x1000000000u));
        assert_int_equal(there[q], v != NULL);
        if (v) assert_true(*v == model[q]);
    }
    zi_hash_free(&h);
}

/* Iteration meets every key once; clearing leaves nothing. */
static void
iteration_meets_each_key_once(void **state)
{
    zi_hash  h = {0};
    uint64_t key, value, sum = 0;
    size_t   n = 0;

    (void)state;
    assert_false(zi_hash_next(&h, &n, &key, &value));
    for (uint64_t k = 0; k < 100; k++) expect_ok(zi_hash_put(&h, k, k * k));
    for (size_t i = 0; zi_hash_next(&h, &i, &key, &value); n++) {
        assert_true(value == key * key);
        sum += key;
    }
    assert_int_equal(100, n);
    assert_int_equal(4950, sum);
    zi_hash_clear(&h);
    assert_int_equal(0, h.n);
    assert_null(zi_hash_find(&h, 5));
    assert_int_equal(42, zi_hash_get(&h, 5, 42));
    zi_hash_free(&h);
}

/* A refused growth leaves the map as it was, and a known key can still be set. */
static void
failed_growth_changes_nothing(void **state)
{
    zi_hash h = {0};

    (void)state;
    uint64_t k = 0;
    for (; k < 12; k++) expect_ok(zi_hash_put(&h, k, k)); /* three quarters of 16 */
    zi_alloc_fail_at(1);
    expect_status(ZICO_E_NOMEM, zi_hash_put(&h, k, k));
    assert_int_equal(12, h.n);
    zi_alloc_fail_at(1);
    expect_ok(zi_hash_put(&h, 3, 33));
    zi_alloc_fail_at(0);
    assert_int_equal(33, zi_hash_get(&h, 3, 0));
    assert_null(zi_hash_find(&h, 12));
    zi_hash_free(&h);
}

/* After reserving, puts up to that number allocate nothing. */
static void
reserved_puts_cannot_fail(void **state)
{
    zi_hash h = {0};

    (void)state;
    expect_ok(zi_hash_reserve(&h, 1000));
    zi_alloc_fail_at(1);
    for (uint64_t k = 0; k < 1000; k++) expect_ok(zi_hash_put(&h, k << 20, k));
    assert_false(zi_alloc_has_failed());
    zi_alloc_fail_at(0);
    expect_status(ZICO_E_NOMEM, zi_hash_reserve(&h, SIZE_MAX));
    zi_hash_free(&h);
}

/* Bytes hash alike when alike, and one changed bit changes the hash. */
static void
bytes_hash_by_content(void **state)
{
    char a[32] = "feature maps", b[32] = "feature maps";

    (void)state;
    assert_true(zi_hash_bytes(a, sizeof a) == zi_hash_bytes(b, sizeof b));
    b[31] = 1;
    assert_true(zi_hash_bytes(a, sizeof a) != zi_hash_bytes(b, sizeof b));
    assert_true(zi_hash_bytes(a, 3) != zi_hash_bytes(a, 4));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(iteration_meets_each_key_once),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(reserved_puts_cannot_fail),
        cmocka_unit_test(bytes_hash_by_content),
    };
    return t_main(tests);
}

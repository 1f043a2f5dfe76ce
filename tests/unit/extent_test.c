/* extent_test.c -- private mappings keep their numbered invariants inside one range. */
#include "hook/extent.h"
#include "test.h"

#define SPAN ((size_t)256 << 20)

static void
check(const zi_extents *e)
{
    int broken = 0;
    if (zi_extents_verify(e, &broken) < 0)
        fail_msg("invariant E%d does not hold", broken);
}

static void *
take(zi_extents *e, size_t size, size_t align)
{
    void *p = zi_extents_place(e, size, align);
    if (p) expect_ok(zi_extents_back(e, p));
    check(e);
    return p;
}

static void
drop(zi_extents *e, void *p)
{
    zi_extents_unback(e, p);
    zi_extents_forget(e, p);
    check(e);
}

/* A fresh extent reads as zero, can be written, and reads as zero again after it was dropped. */
static void
fresh_is_zero(void **state)
{
    zi_extents e;
    size_t     size = (size_t)3 << 20;

    (void)state;
    expect_ok(zi_extents_open(&e, zi_os_real(), SPAN));
    for (int round = 0; round < 2; round++) {
        char *p = take(&e, size, 64);
        assert_non_null(p);
        for (size_t i = 0; i < size; i += 4096) assert_int_equal(0, p[i]);
        memset(p, 7, size);
        drop(&e, p);
    }
    assert_int_equal(0, e.n_used);
    zi_extents_close(&e);
}

/* A cached extent is given out again for a size that wastes little, and for no other. */
static void
reuse_fits(void **state)
{
    zi_extents e;
    uint64_t   bytes;

    (void)state;
    expect_ok(zi_extents_open(&e, zi_os_real(), SPAN));
    void *p = take(&e, (size_t)8 << 20, 64);
    void *q = take(&e, (size_t)2 << 20, 64);
    zi_extents_cache(&e, p);
    check(&e);
    assert_null(zi_extents_reuse(&e, (size_t)4 << 20, 64)); /* would waste half */
    assert_null(zi_extents_reuse(&e, (size_t)9 << 20, 64));
    assert_ptr_equal(p, zi_extents_reuse(&e, ((size_t)8 << 20) - 5000, 64));
    zi_extents_cache(&e, p);
    assert_null(zi_extents_pop(&e, 1, &bytes)); /* not idle yet */
    zi_extents_age(&e);
    assert_ptr_equal(p, zi_extents_pop(&e, 1, &bytes));
    assert_int_equal(8 << 20, bytes);
    zi_extents_unback(&e, p);
    zi_extents_forget(&e, p);
    check(&e);
    drop(&e, q);
    zi_extents_close(&e);
}

/* Any power of two is met as an alignment. */
static void
alignment(void **state)
{
    zi_extents e;
    void      *p[16];

    (void)state;
    expect_ok(zi_extents_open(&e, zi_os_real(), SPAN));
    for (int i = 0; i < 16; i++) {
        size_t align = (size_t)64 << i; /* 64 B to 2 MiB */
        p[i] = take(&e, ((size_t)1 << 20) + 12345, align);
        assert_non_null(p[i]);
        assert_int_equal(0, (uintptr_t)p[i] & (align - 1));
    }
    for (int i = 0; i < 16; i++) drop(&e, p[i]);
    assert_int_equal(0, e.n_used);
    zi_extents_close(&e);
}

/* Asking for more than the range has is answered with NULL and changes nothing. */
static void
full(void **state)
{
    zi_extents e;
    void      *p[300];
    int        n = 0;

    (void)state;
    expect_ok(zi_extents_open(&e, zi_os_real(), SPAN));
    assert_null(zi_extents_place(&e, SPAN + 1, 64));
    while (n < 300 && (p[n] = zi_extents_place(&e, (size_t)1 << 20, 64))) n++;
    assert_int_equal(256, n);
    check(&e);
    while (n > 0) zi_extents_forget(&e, p[--n]);
    check(&e);
    assert_non_null(zi_extents_place(&e, SPAN, 64));
    zi_extents_close(&e);
}

/* Random takes, frees, cachings and trims: blocks never overlap (each keeps its own pattern). */
static void
random_life(void **state)
{
    zi_extents e;
    struct {
        unsigned char *p;
        size_t         size;
        unsigned char  mark;
    } live[64] = {0};
    uint64_t bytes;

    (void)state;
    expect_ok(zi_extents_open(&e, zi_os_real(), SPAN));
    for (unsigned round = 0; round < t_rounds(3000, 100000); round++) {
        size_t i = t_rand_below(64);
        if (live[i].p) {
            assert_int_equal(live[i].mark, live[i].p[0]);
            assert_int_equal(live[i].mark, live[i].p[live[i].size - 1]);
            assert_non_null(zi_extents_find(&e, live[i].p));
            if (t_rand_below(4) == 0) { /* out, and sometimes in again */
                zi_extents_set_away(&e, live[i].p, true);
                check(&e);
                assert_non_null(zi_extents_find(&e, live[i].p));
                if (t_rand_below(2)) zi_extents_set_away(&e, live[i].p, false);
                drop(&e, live[i].p);
            } else if (t_rand_below(2))
                zi_extents_cache(&e, live[i].p);
            else
                drop(&e, live[i].p);
            live[i].p = NULL;
        } else {
            size_t size = 1 + t_rand_below((size_t)3 << 20);
            void  *p = zi_extents_reuse(&e, size, 64);
            if (!p) p = take(&e, size, 64);
            live[i].p = p;
            live[i].size = size;
            live[i].mark = (unsigned char)t_rand();
            live[i].p[0] = live[i].p[size - 1] = live[i].mark;
        }
        check(&e);
        if (t_rand_below(16) == 0) {
            void *p = zi_extents_pop(&e, 0, &bytes);
            if (p) {
                zi_extents_unback(&e, p);
                zi_extents_forget(&e, p);
            }
        }
    }
    zi_extents_close(&e);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_is_zero), cmocka_unit_test(reuse_fits),
        cmocka_unit_test(alignment),     cmocka_unit_test(full),
        cmocka_unit_test(random_life),
    };
    return t_main(tests);
}

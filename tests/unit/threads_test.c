/* threads_test.c -- the libraries of a program are told how many threads to compute with.
 *
 * ctest: no-tsan (it does not see the barriers of libgomp) */
#include "hook/threads.h"
#include "test.h"

#include <dlfcn.h>
#include <string.h>

static void *
symbol(const char *name)
{
    void *gomp = dlopen("libgomp.so.1", RTLD_LAZY);
    assert_non_null(gomp);
    void *p = dlsym(gomp, name);
    assert_non_null(p);
    return p;
}

static void
use(zi_threads *t, int n, uint64_t now_ns)
{
    zi_threads_hear(t, n, now_ns);
    zi_threads_use(t, now_ns);
}

static zi_threads
found(void)
{
    zi_threads t = {0};
    (void)symbol("omp_get_max_threads"); /* loaded now */
    zi_threads_find(&t);
    assert_true(t.n_set >= 1);
    assert_non_null(t.count);
    return t;
}

/* OpenMP is found among the loaded libraries, and has the number that it is told; zero says
 * nothing. */
static void
is_told(void **state)
{
    zi_threads t = found();

    (void)state;
    use(&t, 3, 0);
    assert_int_equal(3, t.count());
    use(&t, 1, 0);
    assert_int_equal(1, t.count());
    use(&t, 0, 0);
    assert_int_equal(1, t.count());
}

/* Fewer at once; more only when the word was the same for a while, as others pause briefly. */
static void
not_for_a_moment(void **state)
{
    zi_threads t = found();
    uint64_t   now = 1, calm = ZI_THREADS_CALM_NS;

    (void)state;
    use(&t, 1, now);
    use(&t, 2, now);
    use(&t, 2, now + calm - 1);
    assert_int_equal(1, t.count());
    use(&t, 1, now + calm - 1); /* the pause was short */
    use(&t, 2, now + calm);
    assert_int_equal(1, t.count());
    use(&t, 2, now + 2 * calm);
    assert_int_equal(2, t.count());
    use(&t, 1, now + 2 * calm);
    assert_int_equal(1, t.count());
}

/* What is heard between two steps counts at the second one's beginning, if it lasted. */
static void
only_when_used(void **state)
{
    zi_threads t = found();
    uint64_t   calm = ZI_THREADS_CALM_NS;

    (void)state;
    use(&t, 2, 1);
    zi_threads_hear(&t, 1, 2);
    assert_int_equal(2, t.count());
    zi_threads_hear(&t, 2, 3);
    zi_threads_use(&t, 4);
    assert_int_equal(2, t.count());
    use(&t, 1, 5);
    zi_threads_hear(&t, 2, 6);
    zi_threads_hear(&t, 1, 7);
    zi_threads_hear(&t, 2, 8 + calm);
    zi_threads_use(&t, 9 + calm);
    assert_int_equal(1, t.count());
    zi_threads_use(&t, 8 + 2 * calm);
    assert_int_equal(2, t.count());
}

/* A number that the program sets itself stays. */
static void
own_number(void **state)
{
    zi_threads t = found();
    void (*set)(int);
    void *p = symbol("omp_set_num_threads");

    (void)state;
    memcpy(&set, &p, sizeof set);
    use(&t, 2, 0);
    set(5);
    use(&t, 1, 0);
    use(&t, 2, 0);
    assert_int_equal(5, t.count());
}

static void
within(void *user)
{
    zi_threads_use(user, 0);
}

/* Inside a parallel piece nothing is set, as it would be forgotten at its end. */
static void
not_inside(void **state)
{
    zi_threads t = found();
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    void *p = symbol("GOMP_parallel");

    (void)state;
    memcpy(&parallel, &p, sizeof parallel);
    use(&t, 2, 0);
    zi_threads_hear(&t, 1, 0);
    parallel(within, &t, 2, 0);
    assert_int_equal(2, t.told);
    zi_threads_use(&t, 0);
    assert_int_equal(1, t.count());
}

/* A program without such a library is not touched. */
static void
nobody(void **state)
{
    zi_threads t = {0};

    (void)state;
    use(&t, 2, 0);
    assert_int_equal(0, t.told);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_told),    cmocka_unit_test(not_for_a_moment),
        cmocka_unit_test(own_number), cmocka_unit_test(not_inside),
        cmocka_unit_test(nobody),     cmocka_unit_test(only_when_used),
    };
    return t_main(tests);
}

/* threads_test.c -- the libraries of a program are told how many threads to compute with.
 *
 * ctest: no-tsan (it does not see the barriers of libgomp) */
#include "hook/threads.h"
#include "test.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static void *
symbol(const char *name)
{
    void *gomp = dlopen("libgomp.so.1", RTLD_LAZY);
    assert_non_null(gomp);
    void *p = dlsym(gomp, name);
    assert_non_null(p);
    return p;
}

/* A step with so many cores from its beginning to its end. */
static bool
use(zi_threads *t, int n, uint64_t now_ns)
{
    zi_threads_hear(t, n, now_ns);
    return zi_threads_use(t, now_ns + 1);
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

/* As many as it had cores on average: a part of one counts from three eighths of the step on. */
static void
mean_of_the_step(void **state)
{
    zi_threads t = found();

    (void)state;
    zi_threads_hear(&t, 1, 1000);
    zi_threads_hear(&t, 4, 1100); /* three more for a fifteenth */
    zi_threads_hear(&t, 1, 1160);
    assert_true(zi_threads_use(&t, 2000));
    assert_int_equal(1, t.count());
    zi_threads_hear(&t, 1, 3000);
    zi_threads_hear(&t, 2, 3500);
    assert_int_equal(1, t.count()); /* nothing in the middle of a step */
    assert_true(zi_threads_use(&t, 4000));
    assert_int_equal(2, t.count());
    zi_threads_hear(&t, 2, 5000);
    zi_threads_hear(&t, 1, 5100);
    assert_true(zi_threads_use(&t, 6000));
    assert_int_equal(1, t.count());
    assert_false(zi_threads_use(&t, 7000)); /* nothing was heard in this one */
    zi_threads_hear(&t, 4, 8000);
    zi_threads_hear(&t, 3, 8800);
    assert_true(zi_threads_use(&t, 9000));
    assert_int_equal(4, t.count());
}

/* The team's threads are named in their order, the caller first; from within a piece nobody is. */
static void
team(void **state)
{
    zi_threads t = found();
    int        tid[4], again[4];

    (void)state;
    assert_true(use(&t, 3, 1));
    assert_int_equal(3, zi_threads_team(&t, tid, 4));
    assert_int_equal(gettid(), tid[0]);
    assert_true(tid[1] > 0 && tid[2] > 0 && tid[1] != tid[2] && tid[1] != tid[0]);
    assert_int_equal(3, zi_threads_team(&t, again, 4));
    assert_memory_equal(tid, again, 3 * sizeof *tid);
    assert_int_equal(0, zi_threads_team(&t, tid, 2)); /* no room for all */
    assert_int_equal(0, zi_threads_team(&(zi_threads){0}, tid, 4));
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
    zi_threads *t = user;
    if (t->number() == 0) assert_false(zi_threads_use(t, 0));
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
    use(&t, 1, 0);
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
        cmocka_unit_test(is_told),    cmocka_unit_test(mean_of_the_step),
        cmocka_unit_test(own_number), cmocka_unit_test(not_inside),
        cmocka_unit_test(nobody),     cmocka_unit_test(team),
    };
    return t_main(tests);
}

/* places_test.c -- threads run on the cores that were given, and where the program had them else. */
#include "hook/places.h"
#include "test.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static zi_places places;
static unsigned  n_cores;

static cpu_set_t
where(int tid)
{
    cpu_set_t set;
    assert_int_equal(0, sched_getaffinity(tid, sizeof set, &set));
    return set;
}

/* Is it on these cores and no others? */
static bool
is_on(int tid, unsigned first, unsigned n)
{
    cpu_set_t set = where(tid);
    for (unsigned i = 0; i < n; i++)
        if (!CPU_ISSET(first + i, &set)) return false;
    return CPU_COUNT(&set) == (int)n;
}

static void
put(int tid, unsigned first, unsigned n)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned i = 0; i < n; i++) CPU_SET(first + i, &set);
    assert_int_equal(0, sched_setaffinity(tid, sizeof set, &set));
}

/* A thread that does nothing until it is told to end. */
typedef struct idler {
    pthread_t thread;
    sem_t     there, end;
    int       tid;
} idler;

static void *
idle(void *arg)
{
    idler *x = arg;
    x->tid = gettid();
    sem_post(&x->there);
    sem_wait(&x->end);
    return NULL;
}

static void
begin_idler(idler *x)
{
    sem_init(&x->there, 0, 0);
    sem_init(&x->end, 0, 0);
    assert_int_equal(0, pthread_create(&x->thread, NULL, idle, x));
    sem_wait(&x->there);
}

static void
end_idler(idler *x)
{
    sem_post(&x->end);
    pthread_join(x->thread, NULL);
}

static int
fresh(void **state)
{
    (void)state;
    n_cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    if (n_cores < 2 || n_cores > CPU_SETSIZE) return 0;
    put(0, 0, n_cores);
    zi_places_open(&places, false);
    return 0;
}

#define NEEDS_TWO_CORES()                                                                \
    do {                                                                                 \
        if (!places.on) skip();                                                          \
    } while (0)

/* Kept within a step, also those that began meanwhile; everywhere between two. */
static void
kept_in_steps(void **state)
{
    idler a, b;

    (void)state;
    NEEDS_TWO_CORES();
    begin_idler(&a);
    zi_places_keep(&places, 0, 1); /* not in a step */
    assert_true(is_on(a.tid, 0, n_cores));
    zi_places_begin(&places, 1, 1);
    assert_true(is_on(a.tid, 1, 1) && is_on(gettid(), 1, 1));
    begin_idler(&b); /* on its maker's core */
    zi_places_keep(&places, 0, 1);
    assert_true(is_on(a.tid, 0, 1) && is_on(b.tid, 0, 1));
    zi_places_keep(&places, 0, n_cores);
    assert_true(is_on(a.tid, 0, n_cores) && is_on(b.tid, 0, n_cores));
    zi_places_keep(&places, n_cores - 1, 2); /* the second is not there */
    assert_true(is_on(a.tid, 0, n_cores));
    zi_places_keep(&places, 1, 1);
    zi_places_end(&places);
    assert_true(is_on(a.tid, 0, n_cores) && is_on(gettid(), 0, n_cores));
    end_idler(&a);
    end_idler(&b);
}

/* The team's threads have a core each while there are as many, the others all of them. */
static void
a_core_for_each(void **state)
{
    idler a, b;

    (void)state;
    NEEDS_TWO_CORES();
    begin_idler(&a);
    begin_idler(&b);
    zi_places_team(&places, (int[]){gettid(), a.tid}, 2);
    zi_places_begin(&places, 0, 2);
    assert_true(is_on(gettid(), 0, 1) && is_on(a.tid, 1, 1) && is_on(b.tid, 0, 2));
    zi_places_keep(&places, 1, 1);
    assert_true(is_on(gettid(), 1, 1) && is_on(a.tid, 1, 1) && is_on(b.tid, 1, 1));
    zi_places_keep(&places, 0, 2);
    assert_true(is_on(gettid(), 0, 1) && is_on(a.tid, 1, 1) && is_on(b.tid, 0, 2));
    zi_places_end(&places);
    assert_true(is_on(gettid(), 0, n_cores) && is_on(a.tid, 0, n_cores));
    end_idler(&a);
    end_idler(&b);
}

/* A thread that the program has put somewhere itself stays there. */
static void
own_place(void **state)
{
    idler a;

    (void)state;
    NEEDS_TWO_CORES();
    begin_idler(&a);
    put(a.tid, 1, 1);
    zi_places_begin(&places, 0, 1);
    assert_true(is_on(a.tid, 1, 1) && is_on(gettid(), 0, 1));
    zi_places_end(&places);
    assert_true(is_on(a.tid, 1, 1) && is_on(gettid(), 0, n_cores));
    end_idler(&a);
}

/* A program that began on a part of the cores is left alone. */
static void
own_program(void **state)
{
    zi_places p;

    (void)state;
    NEEDS_TWO_CORES();
    put(0, 1, 1);
    zi_places_open(&p, false);
    assert_false(p.on);
    zi_places_begin(&p, 0, 1);
    assert_true(is_on(gettid(), 1, 1));
}

/* What a child sees of its places, as an exit code. */
static int
in_child(void (*look)(void))
{
    int   status;
    pid_t pid = fork();
    if (pid == 0) {
        look();
        _exit(is_on(gettid(), 0, n_cores));
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    return WEXITSTATUS(status);
}

static void
as_forked(void)
{
    zi_places_child(&places);
    zi_places_begin(&places, 1, 1); /* it has no steps any more */
}

static void
as_started(void)
{
    zi_places p;
    zi_places_open(&p, true);
}

static void
as_started_by_hand(void)
{
    put(0, 0, 1); /* its parent is on the other one: somebody has chosen this */
    as_started();
}

/* Children run everywhere again, forked or started from within a step, but not where somebody put them. */
static void
children(void **state)
{
    (void)state;
    NEEDS_TWO_CORES();
    zi_places_begin(&places, 1, 1);
    assert_int_equal(1, in_child(as_forked));
    assert_int_equal(1, in_child(as_started));
    assert_int_equal(0, in_child(as_started_by_hand));
    zi_places_end(&places);
}

#define T(f) cmocka_unit_test_setup(f, fresh)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        T(kept_in_steps), T(a_core_for_each), T(own_place), T(own_program), T(children),
    };
    return t_main(tests);
}

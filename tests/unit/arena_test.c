/* arena_test.c -- blocks in leased regions: content, packing, streams, threads. */
#include "client/arena_inside.h"
#include "base/alloc.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MIB (1ull << 20)
#define KIB (1ull << 10)

typedef struct fixture {
    zi_session *s;
    zi_arena   *a;
} fixture;

static void
open_local(fixture *f, uint64_t bytes)
{
    expect_ok(zi_session_open(&(zi_session_options){.local_bytes = bytes,
                                                    .local_region_bytes = 2 * MIB},
                              &f->s));
    expect_ok(zi_arena_new(f->s, &f->a));
}

static void
close_local(fixture *f)
{
    zi_arena_free(f->a);
    zi_session_close(f->s);
}

static int
set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    open_local(f, 64 * MIB);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    close_local(*state);
    free(*state);
    return 0;
}

static void *
get(fixture *f, zico_class cls, size_t size)
{
    void *p = NULL;
    expect_ok(zi_arena_alloc(f->a, cls, size, 64, NULL, 0, &p));
    return p;
}

static void
verify(fixture *f)
{
    int which = 0;
    if (zi_arena_verify(f->a, &which) < 0) fail_msg("A%d does not hold", which);
}

static uint64_t
leased(fixture *f)
{
    zi_arena_stats st;
    zi_arena_read_stats(f->a, &st);
    return st.leased_bytes;
}

/* -- one thread ------------------------------------------------------------------------------ */

typedef struct block {
    unsigned char *p;
    size_t         size;
    unsigned char  fill;
} block;

static void
check_fill(const block *b)
{
    size_t step = b->size > 4096 ? 509 : 1;
    for (size_t i = 0; i < b->size; i += step) assert_int_equal(b->fill, b->p[i]);
    assert_int_equal(b->fill, b->p[b->size - 1]);
}

static size_t
random_size(void)
{
    switch (t_rand_below(4)) {
    case 0:
        return 1 + t_rand_below(2000);
    case 1:
        return 1 + t_rand_below(64 * KIB);
    case 2:
        return 1 + t_rand_below(MIB);
    default:
        return 1 + t_rand_below(5 * MIB);
    }
}

/* Random blocks of all classes, sizes and alignments keep what was written into them, and
 * the numbered invariants hold throughout. */
static void
random_life_keeps_content(void **state)
{
    enum { N = 60 };
    fixture *f = *state;
    block    held[N] = {0};

    for (unsigned round = 0; round < t_rounds(6000, 200000); round++) {
        block *b = &held[t_rand_below(N)];
        if (b->p) {
            check_fill(b);
            assert_true(zi_arena_usable(f->a, b->p) >= b->size);
            assert_true(zi_arena_owns(f->a, b->p));
            zi_arena_release(f->a, b->p, NULL);
            b->p = NULL;
        } else {
            size_t      align = 1ull << t_rand_below(22);
            void       *p;
            zico_status st = zi_arena_alloc(f->a, (zico_class)t_rand_below(4),
                                            b->size = random_size(), align, NULL, 0, &p);
            if (st == ZICO_E_BUSY) continue;
            expect_ok(st);
            assert_int_equal(0, (uintptr_t)p % align);
            b->p = p;
            b->fill = (unsigned char)t_rand();
            memset(b->p, b->fill, b->size);
        }
        if (round % 16 == 0) verify(f);
    }
    for (int i = 0; i < N; i++)
        if (held[i].p) {
            check_fill(&held[i]);
            zi_arena_release(f->a, held[i].p, NULL);
        }
    zi_arena_trim(f->a);
    verify(f);
    assert_int_equal(0, leased(f));
}

/* Blocks of different classes never share a region. */
static void
classes_have_their_own_regions(void **state)
{
    fixture  *f = *state;
    uintptr_t region[ZICO_N_CLASSES];

    for (int c = 0; c < ZICO_N_CLASSES; c++) {
        char *p = get(f, (zico_class)c, 1000), *q = get(f, (zico_class)c, 1000);
        region[c] = (uintptr_t)p / (2 * MIB);
        assert_int_equal(region[c], (uintptr_t)q / (2 * MIB));
        for (int d = 0; d < c; d++) assert_int_not_equal(region[c], region[d]);
    }
    assert_int_equal(ZICO_N_CLASSES * 2 * MIB, leased(f));
}

/* A block of 5 MiB in regions of 2 MiB takes three, and the rest of the third is used. */
static void
large_block_leaves_its_tail(void **state)
{
    fixture *f = *state;
    char    *big = get(f, ZICO_CLASS_STEP, 5 * MIB);
    char    *small = get(f, ZICO_CLASS_STEP, MIB);

    assert_int_equal(6 * MIB, leased(f));
    memset(big, 1, 5 * MIB);
    memset(small, 2, MIB);
    assert_int_equal(1, big[5 * MIB - 1]);
    zi_arena_release(f->a, big, NULL);
    zi_arena_trim(f->a);
    assert_int_equal(2 * MIB, leased(f)); /* the region of the small one stays */
    assert_int_equal(2, small[0]);
    verify(f);
}

/* Blocks of 1.5 MiB fill adjacent regions of 2 MiB without gaps. */
static void
blocks_cross_regions(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 16; i++)
        memset(get(f, ZICO_CLASS_STEP, 3 * MIB / 2), i, 3 * MIB / 2);
    assert_int_equal(24 * MIB, leased(f));
    verify(f);
}

/* When only scattered regions are free, a large block is stitched together from them. */
static void
scattered_regions_are_stitched(void **state)
{
    fixture *f = *state;
    void    *p[32], *big;

    for (int i = 0; i < 32; i++) p[i] = get(f, ZICO_CLASS_STEP, 2 * MIB);
    for (int i = 0; i < 32; i += 2) zi_arena_release(f->a, p[i], NULL);
    zi_arena_trim(f->a);
    assert_int_equal(32 * MIB, leased(f));
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_GRADIENT, 32 * MIB, 64, NULL, 0, &big));
    for (int i = 1; i < 32; i += 2) memset(p[i], i, 2 * MIB);
    for (size_t i = 0; i < 32 * MIB; i += 4096) ((char *)big)[i] = (char)(i / 4096);
    for (size_t i = 0; i < 32 * MIB; i += 4096)
        assert_int_equal((char)(i / 4096), ((char *)big)[i]);
    for (int i = 1; i < 32; i += 2) assert_int_equal(i, ((char *)p[i])[2 * MIB - 1]);
    verify(f);
    zi_arena_release(f->a, big, NULL);
    zi_arena_trim(f->a);
    assert_int_equal(32 * MIB, leased(f));
}

/* More than there is at all is refused at once with the numbers; more than is free waits,
 * and then says so. */
static void
too_much_is_told_apart(void **state)
{
    fixture *f = *state;
    void    *p;
    char     text[256];

    expect_status(ZICO_E_BUDGET, zi_arena_alloc(f->a, ZICO_CLASS_STEP, 65 * MIB, 64, NULL,
                                                ZICO_FOREVER, &p));
    assert_true(zi_session_message(f->s, text, sizeof text) > 0);
    assert_non_null(strstr(text, "67108864"));
    expect_status(ZICO_E_BUDGET, zi_arena_alloc(f->a, ZICO_CLASS_STEP, SIZE_MAX, 64, NULL,
                                                ZICO_FOREVER, &p));
    get(f, ZICO_CLASS_STEP, 60 * MIB);
    expect_status(ZICO_E_BUSY,
                  zi_arena_alloc(f->a, ZICO_CLASS_STEP, 8 * MIB, 64, NULL, 0, &p));
    expect_status(ZICO_E_TIMEOUT,
                  zi_arena_alloc(f->a, ZICO_CLASS_STEP, 8 * MIB, 64, NULL, 1000000, &p));
    expect_status(ZICO_E_ARG, zi_arena_alloc(f->a, ZICO_CLASS_STEP, 8, 3, NULL, 0, &p));
    expect_status(ZICO_E_ARG,
                  zi_arena_alloc(f->a, ZICO_CLASS_STEP, 8, 4 * MIB, NULL, 0, &p));
    expect_status(ZICO_E_ARG, zi_arena_alloc(f->a, (zico_class)4, 8, 8, NULL, 0, &p));
}

/* Of the regions that become empty one is kept, the others go back at once; trimming gives
 * the last one back, too. */
static void
empty_regions_go_back(void **state)
{
    fixture *f = *state;
    void    *p[8];

    for (int i = 0; i < 8; i++) p[i] = get(f, ZICO_CLASS_STEP, 2 * MIB);
    for (int i = 0; i < 8; i++) zi_arena_release(f->a, p[i], NULL);
    assert_int_equal(2 * MIB, leased(f));
    verify(f);
    zi_arena_trim(f->a);
    assert_int_equal(0, leased(f));
}

/* Live bytes are what was asked for; used bytes what it takes; peaks stay. */
static void
statistics_add_up(void **state)
{
    fixture       *f = *state;
    zi_arena_stats st;
    void          *p = get(f, ZICO_CLASS_STEP, 1000), *q = get(f, ZICO_CLASS_FIXED, 5000);

    zi_arena_read_stats(f->a, &st);
    assert_int_equal(6000, st.live_bytes);
    assert_int_equal(1024 + 5120, st.used_bytes);
    assert_int_equal(2, st.n_blocks);
    zi_arena_release(f->a, p, NULL);
    p = get(f, ZICO_CLASS_STEP, 900); /* from the hand: same size in granules */
    zi_arena_read_stats(f->a, &st);
    assert_int_equal(5900, st.live_bytes);
    zi_arena_release(f->a, p, NULL);
    zi_arena_release(f->a, q, NULL);
    zi_arena_read_stats(f->a, &st);
    assert_int_equal(0, st.live_bytes + st.n_blocks + st.used_bytes);
    assert_int_equal(6000, st.peak_live_bytes);
    assert_int_equal(4 * MIB, st.peak_leased_bytes);
    assert_int_equal(0, zi_arena_usable(f->a, p));
    assert_false(zi_arena_owns(f->a, &st));
}

/* -- streams ----------------------------------------------------------------------------------- */

static void
pass_gate(void *arg, unsigned n_cores)
{
    (void)n_cores;
    while (!atomic_load((_Atomic int *)arg)) sched_yield();
}

typedef struct with_streams {
    zi_device  *dev;
    zi_stream  *one, *two;
    _Atomic int gate;
} with_streams;

static void
open_streams(fixture *f, with_streams *w)
{
    w->dev = zi_session_device(f->s);
    atomic_init(&w->gate, 0);
    expect_ok(w->dev->ops->stream_open(w->dev, 1, &w->one));
    expect_ok(w->dev->ops->stream_open(w->dev, 1, &w->two));
}

static void
close_streams(fixture *f, with_streams *w)
{
    zi_arena_stream_gone(f->a, w->one);
    zi_arena_stream_gone(f->a, w->two);
    w->dev->ops->stream_close(w->one);
    w->dev->ops->stream_close(w->two);
}

static uint64_t
session_leased(fixture *f)
{
    zico_stats st;
    zi_session_stats(f->s, &st);
    return st.leased_bytes;
}

/* A block freed on a busy stream is given out again on that stream at once, and its
 * regions go to nobody else until the stream has passed. */
static void
free_means_finished(void **state)
{
    fixture     *f = *state;
    with_streams w;
    void        *p, *q;

    open_streams(f, &w);
    expect_ok(w.dev->ops->stream_run(w.one, pass_gate, &w.gate));
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, 40 * MIB, 64, w.one, 0, &p));
    zi_arena_release(f->a, p, w.one);
    assert_int_equal(40 * MIB, session_leased(f)); /* the stream is held up */
    expect_status(ZICO_E_BUSY,
                  zi_arena_alloc(f->a, ZICO_CLASS_STEP, 40 * MIB, 64, NULL, 0, &q));
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, MIB, 64, w.one, 0, &q));
    zi_arena_release(f->a, q, w.one);
    atomic_store(&w.gate, 1);
    expect_ok(
        zi_arena_alloc(f->a, ZICO_CLASS_STEP, 40 * MIB, 64, NULL, ZICO_FOREVER, &q));
    zi_arena_release(f->a, q, NULL);
    verify(f);
    close_streams(f, &w);
}

/* A block that another stream used last is free only when that stream got there. */
static void
other_stream_frees_later(void **state)
{
    fixture       *f = *state;
    with_streams   w;
    void          *p, *q;
    zi_arena_stats st;

    open_streams(f, &w);
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, 60 * MIB, 64, w.one, 0, &p));
    expect_ok(w.dev->ops->stream_run(w.two, pass_gate, &w.gate));
    zi_arena_release(f->a, p, w.two);
    zi_arena_read_stats(f->a, &st);
    assert_int_equal(0, st.live_bytes);
    assert_int_equal(0, zi_arena_usable(f->a, p));
    expect_status(ZICO_E_BUSY,
                  zi_arena_alloc(f->a, ZICO_CLASS_STEP, 60 * MIB, 64, w.one, 0, &q));
    verify(f);
    atomic_store(&w.gate, 1);
    /* nobody but the session's thread hears of it */
    expect_ok(
        zi_arena_alloc(f->a, ZICO_CLASS_FIXED, 60 * MIB, 64, NULL, ZICO_FOREVER, &q));
    zi_arena_release(f->a, q, NULL);
    verify(f);
    close_streams(f, &w);
}

/* A region whose last block is freed without a stream still waits for what the stream does
 * with the others. */
static void
region_waits_for_all_its_blocks(void **state)
{
    fixture     *f = *state;
    with_streams w;
    void        *p, *q;

    open_streams(f, &w);
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, MIB, 64, w.one, 0, &p));
    expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, MIB, 64, w.one, 0, &q));
    expect_ok(w.dev->ops->stream_run(w.one, pass_gate, &w.gate));
    zi_arena_release(f->a, p, w.one); /* in flight behind the gate */
    zi_arena_release(f->a, q, NULL);  /* surely finished           */
    zi_arena_trim(f->a);
    assert_int_equal(2 * MIB, session_leased(f));
    atomic_store(&w.gate, 1);
    expect_ok(w.dev->ops->stream_drain(w.one));
    zi_arena_trim(f->a);
    while (session_leased(f) > 0) sched_yield(); /* the test's timeout is the limit */
    close_streams(f, &w);
}

/* Many streams, one after the other, take the places of those that are gone. */
static void
streams_come_and_go(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 40; i++) {
        with_streams w;
        void        *p;
        open_streams(f, &w);
        expect_ok(zi_arena_alloc(f->a, ZICO_CLASS_STEP, MIB, 64, w.one, 0, &p));
        zi_arena_release(f->a, p, w.one);
        close_streams(f, &w);
    }
    verify(f);
}

/* -- threads ------------------------------------------------------------------------------------ */

typedef struct worker {
    fixture *f;
    uint64_t seed;
    int      wrong;
} worker;

static uint64_t
next_random(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

static void *
hammer(void *arg)
{
    worker  *w = arg;
    uint64_t x = w->seed;
    block    held[8] = {0};

    for (int i = 0; i < 4000; i++) {
        block *b = &held[next_random(&x) % 8];
        if (b->p) {
            w->wrong += b->p[0] != b->fill || b->p[b->size - 1] != b->fill;
            zi_arena_release(w->f->a, b->p, NULL);
            b->p = NULL;
            continue;
        }
        void *p;
        b->size = 1 + next_random(&x) % (next_random(&x) % 3 ? 100000 : 2500000);
        if (zi_arena_alloc(w->f->a, (zico_class)(next_random(&x) % 2), b->size, 64, NULL,
                           0, &p) < 0)
            continue;
        b->p = p;
        b->fill = (unsigned char)next_random(&x);
        b->p[0] = b->p[b->size - 1] = b->fill;
    }
    for (int i = 0; i < 8; i++) zi_arena_release(w->f->a, held[i].p, NULL);
    return NULL;
}

/* Threads that allocate and free at the same time never get each other's bytes. */
static void
threads_do_not_collide(void **state)
{
    enum { N = 4 };
    fixture  *f = *state;
    pthread_t t[N];
    worker    w[N];

    for (int i = 0; i < N; i++) {
        w[i] = (worker){.f = f, .seed = t_rand() | 1};
        assert_int_equal(0, pthread_create(&t[i], NULL, hammer, &w[i]));
    }
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(0, w[i].wrong);
    }
    zi_arena_trim(f->a);
    verify(f);
    assert_int_equal(0, leased(f));
}

enum { N_PUSHES = 40 };

/* Takes and frees small blocks of changing size: each locks the thread's heap. */
static void *
be_pushed(void *arg)
{
    worker *w = arg;
    void   *p[4];

    for (size_t i = 0; i < N_PUSHES; i++) {
        sched_yield();
        zi_arena_release(w->f->a, get(w->f, ZICO_CLASS_STEP, 1000 + 1000 * i), NULL);
    }
    for (int i = 0; i < 4; i++) p[i] = get(w->f, ZICO_CLASS_STEP, 7 * MIB);
    w->wrong += leased(w->f) != 40 * MIB;
    for (int i = 0; i < 4; i++) zi_arena_release(w->f->a, p[i], NULL);
    return NULL;
}

/* A thread that is pushed to another lane uses what is held there before it leases more. */
static void
lanes_share_what_is_held(void **state)
{
    fixture  *f = *state;
    worker    w = {.f = f};
    pthread_t t;

    zi_arena_keep(f->a, 20);
    zi_arena_release(f->a, get(f, ZICO_CLASS_STEP, 40 * MIB), NULL);
    assert_int_equal(40 * MIB, leased(f));
    pthread_mutex_t *mu = &f->a->heap[ZICO_CLASS_STEP].mu;
    pthread_mutex_lock(mu);
    assert_int_equal(0, pthread_create(&t, NULL, be_pushed, &w));
    for (int i = 0; i < 20 * N_PUSHES; i++) { /* it finds the lock taken, mostly */
        sched_yield();
        pthread_mutex_unlock(mu);
        sched_yield();
        pthread_mutex_lock(mu);
    }
    pthread_mutex_unlock(mu);
    pthread_join(t, NULL);
    assert_int_equal(0, w.wrong);
    verify(f);
    zi_arena_trim(f->a);
    assert_int_equal(0, leased(f));
}

/* Empty regions are kept up to what was set; one more, and all but one go back; and all of them go
 * before more is leased. */
static void
keeps_some_and_gives_back_many(void **state)
{
    fixture *f = *state;
    void    *p[5];

    zi_arena_keep(f->a, 8);
    for (int i = 0; i < 5; i++) p[i] = get(f, ZICO_CLASS_STEP, 4 * MIB);
    for (int i = 0; i < 4; i++) zi_arena_release(f->a, p[i], NULL);
    assert_int_equal(20 * MIB, leased(f));
    verify(f);
    p[0] = get(f, ZICO_CLASS_STEP, 16 * MIB); /* in what is held */
    assert_int_equal(20 * MIB, leased(f));
    zi_arena_release(f->a, p[0], NULL);
    assert_int_equal(20 * MIB, leased(f));
    p[0] = get(f, ZICO_CLASS_STEP, 18 * MIB); /* more than that: it goes first */
    assert_int_equal(22 * MIB, leased(f));
    zi_arena_release(f->a, p[4], NULL);
    zi_arena_release(f->a, p[0], NULL); /* eleven are empty */
    assert_int_equal(2 * MIB, leased(f));
    verify(f);
}

static void *
free_later(void *arg)
{
    void   **pair = arg;
    fixture *f = pair[0];
    sched_yield();
    zi_arena_release(f->a, pair[1], NULL);
    zi_arena_trim(f->a);
    return NULL;
}

/* A thread that waits for memory gets it when another thread frees. */
static void
waiter_is_served(void **state)
{
    fixture  *f = *state;
    void     *pair[2] = {f, get(f, ZICO_CLASS_STEP, 60 * MIB)}, *p;
    pthread_t t;

    assert_int_equal(0, pthread_create(&t, NULL, free_later, pair));
    expect_ok(
        zi_arena_alloc(f->a, ZICO_CLASS_STEP, 50 * MIB, 64, NULL, ZICO_FOREVER, &p));
    pthread_join(t, NULL);
    zi_arena_release(f->a, p, NULL);
}

/* Nothing is left of an arena that is freed with blocks in it. */
static void
nothing_is_left_behind(void **state)
{
    int64_t before = zi_alloc_n_live();
    fixture f;

    (void)state;
    open_local(&f, 32 * MIB);
    get(&f, ZICO_CLASS_STEP, 3 * MIB);
    get(&f, ZICO_CLASS_FIXED, 100);
    zi_arena_free(f.a);
    assert_int_equal(0, session_leased(&f));
    zi_session_close(f.s);
    zi_arena_free(NULL);
    zi_session_close(NULL);
    assert_int_equal(before, zi_alloc_n_live());
}

#define with_arena(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_arena(random_life_keeps_content),
        with_arena(classes_have_their_own_regions),
        with_arena(large_block_leaves_its_tail),
        with_arena(blocks_cross_regions),
        with_arena(scattered_regions_are_stitched),
        with_arena(too_much_is_told_apart),
        with_arena(empty_regions_go_back),
        with_arena(statistics_add_up),
        with_arena(free_means_finished),
        with_arena(other_stream_frees_later),
        with_arena(region_waits_for_all_its_blocks),
        with_arena(streams_come_and_go),
        with_arena(threads_do_not_collide),
        with_arena(lanes_share_what_is_held),
        with_arena(keeps_some_and_gives_back_many),
        with_arena(waiter_is_served),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return t_main(tests);
}

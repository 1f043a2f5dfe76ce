/* host_stream_test.c -- streams run work in order; fences tell how far they are. */
#include "device/device.h"
#include "device/host.h"
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static const zi_device_ops *const ops = &zi_device_host;

typedef struct fixture {
    zi_device *dev;
    zi_stream *a, *b;
} fixture;

static int
set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    expect_ok(ops->open(zi_os_real(), 0, &f->dev));
    expect_ok(ops->stream_open(f->dev, 1, &f->a));
    expect_ok(ops->stream_open(f->dev, 2, &f->b));
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    fixture *f = *state;
    ops->stream_close(f->a);
    ops->stream_close(f->b);
    ops->close(f->dev);
    free(f);
    return 0;
}

/* A gate holds a stream until the test opens it. */
typedef struct gate {
    _Atomic int open;
} gate;

static void
pass_gate(void *arg, unsigned n_cores)
{
    gate *g = arg;
    (void)n_cores;
    while (!atomic_load(&g->open)) sched_yield();
}

typedef struct log_line {
    int     *n;
    int      expected;
    int      wrong;
    unsigned cores;
} log_line;

static void
write_line(void *arg, unsigned n_cores)
{
    log_line *l = arg;
    l->wrong = (*l->n)++ != l->expected;
    l->cores = n_cores;
}

/* Far more work than the ring holds runs in the order in which it was queued. */
static void
work_runs_in_order(void **state)
{
    enum { N = 20000 };
    fixture  *f = *state;
    log_line *line = calloc(N, sizeof *line);
    int       n = 0;

    for (int i = 0; i < N; i++) {
        line[i] = (log_line){.n = &n, .expected = i};
        expect_ok(ops->stream_run(f->a, write_line, &line[i]));
    }
    expect_ok(ops->stream_drain(f->a));
    assert_int_equal(N, n);
    for (int i = 0; i < N; i++) assert_false(line[i].wrong);
    free(line);
}

static void
count_one(void *arg, unsigned n_cores)
{
    (void)n_cores;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* Work in flight is capped: with the stream held up, no more than the cap is accepted
 * until the gate opens. */
static void *
open_gate_later(void *arg)
{
    usleep(30000);
    atomic_store(&((gate *)arg)->open, 1);
    return NULL;
}

static void
work_in_flight_is_capped(void **state)
{
    fixture    *f = *state;
    gate        g = {0};
    _Atomic int n = 0;
    pthread_t   opener;

    expect_ok(ops->stream_run(f->a, pass_gate, &g));
    for (unsigned i = 1; i < ZI_HOST_IN_FLIGHT; i++)
        expect_ok(ops->stream_run(f->a, count_one, &n));
    assert_int_equal(0, atomic_load(&n));
    assert_int_equal(0, pthread_create(&opener, NULL, open_gate_later, &g));
    expect_ok(ops->stream_run(f->a, count_one, &n)); /* one too many: waits for room */
    assert_int_equal(1, atomic_load(&g.open));
    pthread_join(opener, NULL);
    expect_ok(ops->stream_drain(f->a));
    assert_int_equal(ZI_HOST_IN_FLIGHT, atomic_load(&n));
}

/* The number of cores reaches the work from the next piece on; none counts as one. */
static void
cores_are_told(void **state)
{
    fixture *f = *state;
    int      n = 0;
    log_line line[3] = {{.n = &n}, {.n = &n}, {.n = &n}};

    expect_ok(ops->stream_run(f->b, write_line, &line[0]));
    expect_ok(ops->stream_drain(f->b));
    ops->stream_set_cores(f->b, 7);
    expect_ok(ops->stream_run(f->b, write_line, &line[1]));
    expect_ok(ops->stream_drain(f->b));
    ops->stream_set_cores(f->b, 0);
    expect_ok(ops->stream_run(f->b, write_line, &line[2]));
    expect_ok(ops->stream_drain(f->b));
    assert_int_equal(2, line[0].cores);
    assert_int_equal(7, line[1].cores);
    assert_int_equal(1, line[2].cores);
}

/* A fence is complete before it is recorded and after its stream got there, not between;
 * then it knows when. */
static void
fence_follows_its_stream(void **state)
{
    fixture  *f = *state;
    gate      g = {0};
    zi_fence *fence;

    expect_ok(ops->fence_new(f->dev, &fence));
    assert_true(ops->fence_done(fence));
    expect_ok(ops->stream_run(f->a, pass_gate, &g));
    uint64_t before = zi_os_real()->now_ns(zi_os_real());
    expect_ok(ops->fence_record(fence, f->a));
    assert_false(ops->fence_done(fence));
    assert_int_equal(0, ops->fence_time_ns(fence));
    atomic_store(&g.open, 1);
    expect_ok(ops->fence_wait(fence));
    assert_true(ops->fence_done(fence));
    assert_true(ops->fence_time_ns(fence) >= before);
    ops->fence_free(fence);
}

/* Recorded again, a fence speaks of the new recording; a mark of the old one. */
static void
mark_outlives_rerecording(void **state)
{
    fixture  *f = *state;
    gate      g = {0};
    zi_fence *fence;

    expect_ok(ops->fence_new(f->dev, &fence));
    expect_ok(ops->fence_record(fence, f->a));
    uint64_t first = ops->fence_mark(fence);
    expect_ok(ops->fence_wait(fence));
    expect_ok(ops->stream_run(f->a, pass_gate, &g));
    expect_ok(ops->fence_record(fence, f->a));
    assert_true(ops->fence_passed(fence, first));
    assert_false(ops->fence_passed(fence, ops->fence_mark(fence)));
    assert_false(ops->fence_done(fence));
    atomic_store(&g.open, 1);
    expect_ok(ops->fence_wait(fence));
    ops->fence_free(fence);
}

/* Work behind stream_wait runs after the other stream has passed the fence. */
static void
streams_wait_for_each_other(void **state)
{
    fixture  *f = *state;
    zi_fence *fence;
    int       n = 0;

    expect_ok(ops->fence_new(f->dev, &fence));
    for (int round = 0; round < 200; round++) {
        gate       g = {0};
        log_line   first = {.n = &n, .expected = 2 * round};
        log_line   second = {.n = &n, .expected = 2 * round + 1};
        zi_stream *from = round % 2 ? f->a : f->b, *to = round % 2 ? f->b : f->a;

        expect_ok(ops->stream_run(from, pass_gate, &g));
        expect_ok(ops->stream_run(from, write_line, &first));
        expect_ok(ops->fence_record(fence, from));
        expect_ok(ops->stream_wait(to, fence));
        expect_ok(ops->stream_run(to, write_line, &second));
        atomic_store(&g.open, 1);
        expect_ok(ops->stream_drain(to));
        assert_false(first.wrong || second.wrong);
    }
    ops->fence_free(fence);
}

/* Freed while recorded and waited for, a fence lives until the streams are through. */
static void
fence_may_be_freed_early(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 300; i++) {
        zi_fence *fence;
        expect_ok(ops->fence_new(f->dev, &fence));
        for (int k = 0; k < 3; k++) expect_ok(ops->fence_record(fence, f->a));
        expect_ok(ops->stream_wait(f->b, fence));
        ops->fence_free(ops->fence_keep(fence));
        ops->fence_free(fence);
    }
    expect_ok(ops->stream_drain(f->b));
}

/* Each completion of a fence makes its eventfd readable. */
static void
completion_is_notified(void **state)
{
    fixture      *f = *state;
    const zi_os  *os = zi_os_real();
    int           fd = (int)os->event_fd(os, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    zi_fence     *fence;

    expect_ok(ops->fence_new(f->dev, &fence));
    ops->fence_notify(fence, fd);
    for (int i = 0; i < 3; i++) {
        expect_ok(ops->fence_record(fence, f->a));
        assert_int_equal(1, poll(&p, 1, 10000));
        assert_true(os->event_take(os, fd) >= 0);
        assert_int_equal(0, poll(&p, 1, 0));
    }
    ops->fence_free(fence);
    close(fd);
}

/* A copy is complete once a fence behind it is, and not taken from later content. */
static void
copies_run_in_order(void **state)
{
    fixture *f = *state;
    size_t   n = 3 << 20;
    char    *src = malloc(n), *mid = malloc(n), *dst = malloc(n);

    memset(src, 1, n);
    expect_ok(ops->stream_copy(f->a, mid, src, n));
    expect_ok(ops->stream_copy(f->a, dst, mid, n));
    expect_ok(ops->stream_copy(f->a, NULL, NULL, 0));
    expect_ok(ops->stream_drain(f->a));
    assert_memory_equal(src, dst, n);
    expect_status(ZICO_E_ARG, ops->stream_copy(f->a, NULL, src, n));
    expect_status(ZICO_E_ARG, ops->stream_run(f->a, NULL, NULL));
    free(src), free(mid), free(dst);
}

/* Closing a stream finishes what is queued. */
static void
close_drains(void **state)
{
    fixture    *f = *state;
    zi_stream  *s;
    _Atomic int n = 0;

    expect_ok(ops->stream_open(f->dev, 1, &s));
    for (int i = 0; i < 300; i++) expect_ok(ops->stream_run(s, count_one, &n));
    ops->stream_close(s);
    assert_int_equal(300, atomic_load(&n));
    ops->stream_close(NULL);
}

#define with_streams(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_streams(work_runs_in_order),
        with_streams(work_in_flight_is_capped),
        with_streams(cores_are_told),
        with_streams(fence_follows_its_stream),
        with_streams(mark_outlives_rerecording),
        with_streams(streams_wait_for_each_other),
        with_streams(fence_may_be_freed_early),
        with_streams(completion_is_notified),
        with_streams(copies_run_in_order),
        with_streams(close_drains),
    };
    return t_main(tests);
}

/* host_fence.c -- a point in a stream, as a pair of counters.
 *
 * Each recording gets the next number (`wanted`); the stream's worker, when it gets
 * there, raises `done` to that number.  A fence is complete when done has reached wanted.
 * Recording allocates nothing; the fence lives while its owner, a queued recording or a
 * queued wait refers to it (`n_refs`).
 *
 * INVARIANTS
 *   F1  done <= wanted, and both only grow
 *   F2  time_ns is the time of a completed recording; of `done`, on one stream
 */
#include "device/host.h"

#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct zi_fence {
    const zi_os     *os;
    _Atomic uint64_t wanted;  /* F1 */
    _Atomic uint64_t done;    /* F1 */
    _Atomic uint64_t time_ns; /* F2 */
    _Atomic uint32_t n_refs;
    _Atomic uint32_t n_waiting;
    _Atomic int      event_fd; /* -1: none */
    pthread_mutex_t  mu;       /* only to sleep and to wake */
    pthread_cond_t   moved;
};

zico_status
zi_host_fence_new(zi_device *dev, zi_fence **ret_fence)
{
    zi_fence *f = calloc(1, sizeof *f);
    if (!f) return ZICO_E_NOMEM;
    f->os = dev->os;
    atomic_init(&f->n_refs, 1);
    atomic_init(&f->event_fd, -1);
    pthread_mutex_init(&f->mu, NULL);
    pthread_cond_init(&f->moved, NULL);
    *ret_fence = f;
    return ZICO_OK;
}

void
zi_host_fence_free(zi_fence *f)
{
    if (!f || atomic_fetch_sub(&f->n_refs, 1) != 1) return;
    pthread_cond_destroy(&f->moved);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

zi_fence *
zi_host_fence_keep(zi_fence *f)
{
    atomic_fetch_add(&f->n_refs, 1);
    return f;
}

uint64_t
zi_host_fence_next(zi_fence *f)
{
    zi_host_fence_keep(f);
    return atomic_fetch_add(&f->wanted, 1) + 1;
}

void
zi_host_fence_complete(zi_fence *f, uint64_t mark)
{
    uint64_t now = f->os->now_ns(f->os);
    uint64_t seen = atomic_load(&f->done);

    /* recordings on two streams may complete in any order: only the newest counts */
    while (seen < mark) {
        atomic_store(&f->time_ns, now);
        if (atomic_compare_exchange_weak(&f->done, &seen, mark)) break;
    }
    if (atomic_load(&f->n_waiting)) {
        pthread_mutex_lock(&f->mu);
        pthread_cond_broadcast(&f->moved);
        pthread_mutex_unlock(&f->mu);
    }
    int fd = atomic_load(&f->event_fd);
    if (fd >= 0 && f->os->event_add(f->os, fd) < 0)
        f->os->event_add(f->os, fd); /* a lost wake would hold memory back for good */
    zi_host_fence_free(f);
}

void
zi_host_fence_await(zi_fence *f, uint64_t mark)
{
    if (atomic_load(&f->done) >= mark) return;
    atomic_fetch_add(&f->n_waiting, 1);
    pthread_mutex_lock(&f->mu);
    while (atomic_load(&f->done) < mark) pthread_cond_wait(&f->moved, &f->mu);
    pthread_mutex_unlock(&f->mu);
    atomic_fetch_sub(&f->n_waiting, 1);
}

int
zi_host_fence_done(zi_fence *f)
{
    return atomic_load(&f->done) >= atomic_load(&f->wanted);
}

zico_status
zi_host_fence_wait(zi_fence *f)
{
    zi_host_fence_await(f, atomic_load(&f->wanted));
    return ZICO_OK;
}

uint64_t
zi_host_fence_time_ns(zi_fence *f)
{
    return zi_host_fence_done(f) ? atomic_load(&f->time_ns) : 0;
}

uint64_t
zi_host_fence_mark(zi_fence *f)
{
    return atomic_load(&f->wanted);
}

int
zi_host_fence_passed(zi_fence *f, uint64_t mark)
{
    return atomic_load(&f->done) >= mark;
}

void
zi_host_fence_notify(zi_fence *f, int event_fd)
{
    atomic_store(&f->event_fd, event_fd);
}

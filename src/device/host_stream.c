/* host_stream.c -- a stream of the host device: one worker thread and a ring of work.
 *
 *     issuing thread --head--> [ ring of ZI_HOST_IN_FLIGHT ] --tail--> worker
 *
 * One thread at a time issues (device.h), one worker runs: head and tail are the only
 * words they share.  Nobody takes a lock while there is work; the worker looks at an
 * empty ring for a moment and then sleeps, the issuing thread sleeps while the ring is
 * full.  Issuing costs a few stores, so that thousands of small operators do not wait for
 * their own queue.
 *
 * INVARIANTS
 *   S1  tail <= head <= tail + ZI_HOST_IN_FLIGHT
 *   S2  item i is written before head passes i, read before tail passes i
 *   S3  a sleeper has raised its flag before it looked the last time (both sides use
 *       sequentially consistent order, so one of the two sees the other)
 */
#include "device/host.h"

#include "base/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RING   ZI_HOST_IN_FLIGHT
#define SPINS  400u       /* looks at an empty ring: some microseconds */
#define REFILL (RING / 2) /* a full ring wakes the issuing thread when half empty */
#define CACHE  64
#define NOBODY UINT64_MAX

_Static_assert((RING & (RING - 1)) == 0, "the ring is indexed with a mask");

typedef enum item_kind {
    ITEM_RUN,
    ITEM_COPY,
    ITEM_WAIT,
    ITEM_RECORD,
    ITEM_STOP
} item_kind;

typedef struct item {
    item_kind kind;
    union {
        struct {
            zi_work_fn *fn;
            void       *arg;
        } run;
        struct {
            void       *dst;
            const void *src;
            uint64_t    size_bytes;
        } copy;
        struct {
            zi_fence *fence;
            uint64_t  mark;
        } point;
    };
} item;

struct zi_stream {
    zi_device       *dev;
    pthread_t        worker;
    _Atomic unsigned n_cores;
    pthread_mutex_t  mu; /* only to sleep and to wake */
    pthread_cond_t   more, less;
    alignas(CACHE) _Atomic uint64_t head; /* written by the issuing thread */
    uint64_t         seen_tail;           /* issuing thread only           */
    _Atomic uint64_t wake_at;             /* a tail for which somebody sleeps; NOBODY */
    alignas(CACHE) _Atomic uint64_t tail; /* written by the worker         */
    _Atomic bool worker_sleeps;
    alignas(CACHE) item ring[RING];
};

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* -- the worker ---------------------------------------------------------------------------- */

static void
await_work(zi_stream *s, uint64_t at)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&s->head, memory_order_acquire) != at) return;
        relax();
    }
    pthread_mutex_lock(&s->mu);
    atomic_store(&s->worker_sleeps, true); /* S3 */
    while (atomic_load(&s->head) == at) pthread_cond_wait(&s->more, &s->mu);
    atomic_store(&s->worker_sleeps, false);
    pthread_mutex_unlock(&s->mu);
}

static void
run_item(zi_stream *s, const item *it)
{
    switch (it->kind) {
    case ITEM_RUN:
        it->run.fn(it->run.arg, atomic_load(&s->n_cores));
        break;
    case ITEM_COPY:
        memmove(it->copy.dst, it->copy.src, it->copy.size_bytes);
        break;
    case ITEM_WAIT:
        zi_host_fence_await(it->point.fence, it->point.mark);
        zi_host_fence_free(it->point.fence);
        break;
    case ITEM_RECORD:
        zi_host_fence_complete(it->point.fence, it->point.mark);
        break;
    case ITEM_STOP:
        break;
    }
}

static void *
work(void *arg)
{
    zi_stream *s = arg;
    bool       stop = false;

    for (uint64_t at = 0; !stop; at++) {
        await_work(s, at);
        item it = s->ring[at % RING]; /* S2 */
        run_item(s, &it);
        stop = it.kind == ITEM_STOP;
        atomic_store(&s->tail, at + 1);
        if (at + 1 >= atomic_load(&s->wake_at)) {
            pthread_mutex_lock(&s->mu);
            pthread_cond_signal(&s->less);
            pthread_mutex_unlock(&s->mu);
        }
    }
    return NULL;
}

/* -- the issuing thread ----------------------------------------------------------------------- */

/* Sleep until no more than `left` pieces are in flight. */
static void
await_room(zi_stream *s, uint64_t left)
{
    uint64_t head = atomic_load(&s->head);

    pthread_mutex_lock(&s->mu);
    atomic_store(&s->wake_at, head > left ? head - left : 0); /* S3 */
    while (head - atomic_load(&s->tail) > left) pthread_cond_wait(&s->less, &s->mu);
    atomic_store(&s->wake_at, NOBODY);
    pthread_mutex_unlock(&s->mu);
    s->seen_tail = atomic_load(&s->tail);
}

static item *
next_item(zi_stream *s)
{
    uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);

    if (head - s->seen_tail >= RING) {
        s->seen_tail = atomic_load_explicit(&s->tail, memory_order_acquire);
        if (head - s->seen_tail >= RING) await_room(s, REFILL);
    }
    zi_assert(head - s->seen_tail < RING); /* S1 */
    return &s->ring[head % RING];
}

static void
publish(zi_stream *s)
{
    atomic_store(&s->head, atomic_load_explicit(&s->head, memory_order_relaxed) + 1);
    if (!atomic_load(&s->worker_sleeps)) return;
    pthread_mutex_lock(&s->mu);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->mu);
}

zico_status
zi_host_stream_run(zi_stream *s, zi_work_fn *fn, void *arg)
{
    if (!fn) return ZICO_E_ARG;
    item *it = next_item(s);
    it->kind = ITEM_RUN;
    it->run.fn = fn;
    it->run.arg = arg;
    publish(s);
    return ZICO_OK;
}

zico_status
zi_host_stream_copy(zi_stream *s, void *dst, const void *src, uint64_t size_bytes)
{
    if (size_bytes == 0) return ZICO_OK;
    if (!dst || !src) return ZICO_E_ARG;
    item *it = next_item(s);
    it->kind = ITEM_COPY;
    it->copy.dst = dst;
    it->copy.src = src;
    it->copy.size_bytes = size_bytes;
    publish(s);
    return ZICO_OK;
}

static void
put_point(zi_stream *s, item_kind kind, zi_fence *f, uint64_t mark)
{
    item *it = next_item(s);
    it->kind = kind;
    it->point.fence = f;
    it->point.mark = mark;
    publish(s);
}

zico_status
zi_host_stream_wait(zi_stream *s, zi_fence *f)
{
    if (zi_host_fence_done(f)) return ZICO_OK;
    put_point(s, ITEM_WAIT, zi_host_fence_keep(f), zi_host_fence_mark(f));
    return ZICO_OK;
}

zico_status
zi_host_fence_record(zi_fence *f, zi_stream *s)
{
    put_point(s, ITEM_RECORD, f, zi_host_fence_next(f));
    return ZICO_OK;
}

zico_status
zi_host_stream_drain(zi_stream *s)
{
    await_room(s, 0);
    return ZICO_OK;
}

void
zi_host_stream_set_cores(zi_stream *s, unsigned n_cores)
{
    atomic_store(&s->n_cores, n_cores ? n_cores : 1);
}

/* The worker takes no signals: they belong to the threads of the program. */
static int
start_worker(zi_stream *s)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->worker, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) pthread_setname_np(s->worker, "zico-stream");
    return rc;
}

zico_status
zi_host_stream_open(zi_device *dev, unsigned n_cores, zi_stream **ret_stream)
{
    zi_stream *s = aligned_alloc(CACHE, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    memset(s, 0, sizeof *s);
    s->dev = dev;
    atomic_init(&s->n_cores, n_cores ? n_cores : 1);
    atomic_init(&s->wake_at, NOBODY);
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->less, NULL);
    if (start_worker(s) != 0) {
        pthread_cond_destroy(&s->less);
        pthread_cond_destroy(&s->more);
        pthread_mutex_destroy(&s->mu);
        free(s);
        return ZICO_E_NOMEM;
    }
    *ret_stream = s;
    return ZICO_OK;
}

void
zi_host_stream_close(zi_stream *s)
{
    if (!s) return;
    next_item(s)->kind = ITEM_STOP;
    publish(s);
    pthread_join(s->worker, NULL);
    pthread_cond_destroy(&s->less);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->mu);
    free(s);
}

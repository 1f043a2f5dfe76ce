/* loader.c -- threads that keep a ring of batches filled.
 *
 * Batch k lies in slot k mod n_ahead.  A thread takes the next number, waits until the
 * consumer is done with batch k - n_ahead, fills the slot and marks it.  Numbers are taken
 * in order and slots are marked in any, so the consumer waits for its own only.
 *
 * INVARIANTS   L1  consumed <= taken <= consumed + n_ahead + n_threads
 *              L2  slot k mod n_ahead is written only while consumed + n_ahead > k
 * THREADS  mu guards all but the slots' bytes, which belong to the thread that took the
 *          number until `ready`, then to the consumer.
 */
#include "train/data.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

#define MAX_THREADS 16

typedef struct slot {
    zi_batch      batch;
    uint64_t      number; /* batch number it holds when ready */
    bool          ready;
    zico_status   status;
    zi_train_diag diag;
} slot;

struct zi_loader {
    zi_loader_options opt;
    uint64_t          x_bytes, y_bytes; /* per sample */
    slot             *ring;
    pthread_t         thread[MAX_THREADS];
    unsigned          n_started;

    pthread_mutex_t mu;
    pthread_cond_t  filled, freed;
    uint64_t        taken, consumed; /* batch numbers; guarded by mu */
    bool            holding;         /* the consumer looks at batch `consumed` */
    bool            stop;
    uint64_t        n_waits;
};

static zico_status
fill(const zi_loader *l, slot *s, uint64_t number)
{
    const zi_loader_options *o = &l->opt;
    uint64_t                 n = o->source->n_samples;

    s->batch.position = o->position + number * o->batch;
    for (uint64_t i = 0; i < o->batch; i++) {
        uint64_t pos = s->batch.position + i, epoch = pos / n;
        uint64_t index = o->in_order ? pos % n : zi_order_at(o->seed, epoch, n, pos % n);
        uint64_t draw = zi_hash_mix(zi_hash_mix(o->seed ^ 0x64726177) + pos);
        char    *x = (char *)s->batch.x + i * l->x_bytes;
        char    *y = s->batch.y ? (char *)s->batch.y + i * l->y_bytes : NULL;
        zico_status st = zi_source_read(o->source, index, draw, x, y, &s->diag);
        if (st < 0) return st;
    }
    return ZICO_OK;
}

/* As a slow disk would. */
static void
pause_for(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    if (ms) (void)nanosleep(&t, NULL);
}

static void *
work(void *arg)
{
    zi_loader *l = arg;

    pthread_mutex_lock(&l->mu);
    while (!l->stop) {
        uint64_t number = l->taken++;
        while (!l->stop && number >= l->consumed + l->opt.n_ahead)
            pthread_cond_wait(&l->freed, &l->mu);
        if (l->stop) break;
        slot *s = &l->ring[number % l->opt.n_ahead]; /* L2 */
        pthread_mutex_unlock(&l->mu);
        pause_for(l->opt.pause_ms);
        zico_status st = fill(l, s, number);
        pthread_mutex_lock(&l->mu);
        s->status = st;
        s->number = number;
        s->ready = true;
        pthread_cond_broadcast(&l->filled);
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

static zico_status
make_ring(zi_loader *l)
{
    l->ring = zi_calloc(l->opt.n_ahead, sizeof *l->ring);
    if (!l->ring) return ZICO_E_NOMEM;
    for (unsigned i = 0; i < l->opt.n_ahead; i++) {
        slot *s = &l->ring[i];
        s->batch.x = zi_calloc(l->opt.batch, l->x_bytes);
        if (l->y_bytes) s->batch.y = zi_calloc(l->opt.batch, l->y_bytes);
        if (!s->batch.x || (l->y_bytes && !s->batch.y)) return ZICO_E_NOMEM;
    }
    return ZICO_OK;
}

zico_status
zi_loader_new(const zi_loader_options *opt, zi_loader **ret_loader)
{
    const zi_data_want *want = &opt->source->want;

    if (opt->batch == 0 || opt->n_threads > MAX_THREADS) return ZICO_E_ARG;
    zi_loader *l = zi_calloc(1, sizeof *l);
    if (!l) return ZICO_E_NOMEM;
    l->opt = *opt;
    if (l->opt.n_ahead == 0) l->opt.n_ahead = 4;
    if (l->opt.n_threads == 0) l->opt.n_threads = 1;
    l->x_bytes = zi_shape_bytes(&want->x);
    l->y_bytes = want->has_y ? zi_shape_bytes(&want->y) : 0;
    pthread_mutex_init(&l->mu, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    zico_status st = make_ring(l);
    for (unsigned i = 0; st >= 0 && i < l->opt.n_threads; i++) {
        if (pthread_create(&l->thread[i], NULL, work, l) != 0)
            st = ZICO_E_OS;
        else
            l->n_started++;
    }
    if (st < 0) {
        zi_loader_free(l);
        return st;
    }
    *ret_loader = l;
    return ZICO_OK;
}

void
zi_loader_free(zi_loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->mu);
    l->stop = true;
    pthread_cond_broadcast(&l->freed);
    pthread_mutex_unlock(&l->mu);
    for (unsigned i = 0; i < l->n_started; i++) pthread_join(l->thread[i], NULL);
    for (unsigned i = 0; l->ring && i < l->opt.n_ahead; i++) {
        zi_free(l->ring[i].batch.x);
        zi_free(l->ring[i].batch.y);
    }
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->mu);
    zi_free(l->ring);
    zi_free(l);
}

zico_status
zi_loader_next(zi_loader *l, zi_train_diag *diag, const zi_batch **ret_batch)
{
    pthread_mutex_lock(&l->mu);
    if (l->holding) { /* the batch before goes back to the threads */
        l->ring[l->consumed % l->opt.n_ahead].ready = false;
        l->consumed++;
        l->holding = false;
        pthread_cond_broadcast(&l->freed);
    }
    slot *s = &l->ring[l->consumed % l->opt.n_ahead];
    if (!s->ready) l->n_waits++;
    while (!s->ready) pthread_cond_wait(&l->filled, &l->mu);
    zi_assert(s->number == l->consumed); /* L1, L2 */
    zico_status st = s->status;
    if (st < 0) { /* stays at this batch */
        if (diag) *diag = s->diag;
    } else {
        l->holding = true;
        *ret_batch = &s->batch;
    }
    pthread_mutex_unlock(&l->mu);
    return st;
}

bool
zi_loader_is_ready(zi_loader *l)
{
    pthread_mutex_lock(&l->mu);
    bool ready = l->ring[(l->consumed + l->holding) % l->opt.n_ahead].ready;
    if (l->holding && l->opt.n_ahead == 1) ready = false; /* that is the one in use */
    pthread_mutex_unlock(&l->mu);
    return ready;
}

void
zi_loader_read_stats(zi_loader *l, zi_loader_stats *ret_stats)
{
    pthread_mutex_lock(&l->mu);
    ret_stats->n_batches = l->consumed + l->holding;
    ret_stats->n_waits = l->n_waits;
    ret_stats->ring_bytes = l->opt.n_ahead * l->opt.batch * (l->x_bytes + l->y_bytes);
    pthread_mutex_unlock(&l->mu);
}

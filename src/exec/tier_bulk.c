/* tier_bulk.c -- all that a job keeps, at once.
 *
 * Several requests are under way, so that the disk does not wait while the kernel finds pages for
 * the next piece, or takes away those of the last, nor the other way round.  The caller works too;
 * helpers only join it, and where no thread is to be had it does it alone.
 *
 * Each works through a stage of its own, one huge page: what lies together in memory is one
 * request, while a pool's scattered pages are hundreds of entries, which takes a disk longer than
 * the copy (plain requests of 8 MiB: twice as long out, three times in).  Where no stage is to be had it writes
 * without; reading needs one.
 *
 * A piece that is in the file may be let go at once; the kernel frees shared pages of one file one
 * caller at a time, so whoever comes first does it for all, and the others write on.  Should a later one fail, those that went are
 * read back: the caller's memory is as it was.  Nothing is synced: a file that nobody can open again
 * need not survive the machine.
 */
#include "exec/tier.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include "base/alloc.h"
#include "base/try.h"

#define PIECE   (1ull << 20)
#define HUGE    (2ull << 20)
#define HELPERS 3u

typedef struct bulk {
    const zi_os     *os;
    zi_tier         *tier;
    uint64_t         at, n_bytes;
    char            *mem;    /* out */
    zi_tier_put     *put;    /* in  */
    void            *arg;    /* of put */
    zi_tier_after    after;  /* out: what becomes of the memory */
    _Atomic uint8_t *fate;   /* out: of each piece */
    _Atomic uint64_t next;   /* the first byte that nobody has taken */
    atomic_int       status; /* the first failure */
    pthread_mutex_t  mu;     /* REMOVE: one at a time */
    uint64_t         first;  /* guarded by mu: the pieces before it are GONE or KEPT */
} bulk;

typedef enum fate { HERE, WRITTEN, GONE, KEPT } fate;

typedef struct stage {
    void *map;
    char *piece; /* NULL: there is none */
} stage;

static stage
stage_open(const zi_os *os)
{
    stage s = {0};

    if (os->map(os, NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0, &s.map) < 0)
        return (stage){0};
    s.piece = (char *)(((uintptr_t)s.map + HUGE - 1) / HUGE * HUGE);
    (void)os->advise(os, s.piece, HUGE, MADV_HUGEPAGE); /* or not */
    return s;
}

static void
stage_close(const zi_os *os, stage *s)
{
    if (s->piece) os->unmap(os, s->map, 2 * HUGE);
}

static uint64_t
piece_bytes(const bulk *b, uint64_t from)
{
    return b->n_bytes - from < PIECE ? b->n_bytes - from : PIECE;
}

/* [from, to): pieces that are in the file. */
static void
remove_run(bulk *b, uint64_t from, uint64_t to)
{
    uint64_t end = to * PIECE < b->n_bytes ? to * PIECE : b->n_bytes;
    long     rc =
        b->os->advise(b->os, b->mem + from * PIECE, end - from * PIECE, MADV_REMOVE);

    for (uint64_t i = from; i < to; i++) b->fate[i] = rc >= 0 ? GONE : KEPT;
}

/* All that is in the file by now; nobody waits for whoever is at it, but at the end. */
static void
remove_written(bulk *b, bool wait)
{
    const uint64_t n = (b->n_bytes + PIECE - 1) / PIECE;

    if (wait)
        pthread_mutex_lock(&b->mu);
    else if (pthread_mutex_trylock(&b->mu) != 0)
        return;
    while (b->first < n && b->fate[b->first] >= GONE) b->first++;
    for (uint64_t i = b->first, to; i < n; i = to) {
        for (to = i; to < n && b->fate[to] == WRITTEN; to++) {
        }
        if (to > i)
            remove_run(b, i, to);
        else
            to++;
    }
    pthread_mutex_unlock(&b->mu);
}

static zico_status
write_piece(bulk *b, uint64_t from, stage *s)
{
    const bool     shared = b->fate && b->after == ZI_TIER_REMOVE;
    char          *mem = b->mem + from;
    const char    *src = mem;
    const uint64_t n = piece_bytes(b, from);

    if (s->piece) src = memcpy(s->piece, mem, n);
    if (s->piece && shared) (void)b->os->advise(b->os, mem, n, MADV_DONTNEED);
    ZI_TRY(zi_tier_write(b->tier, b->at + from, src, n));
    if (shared) {
        b->fate[from / PIECE] = WRITTEN;
        remove_written(b, false);
    } else if (b->fate && b->os->advise(b->os, mem, n, MADV_DONTNEED) >= 0) {
        b->fate[from / PIECE] = GONE;
    }
    return ZICO_OK;
}

static zico_status
read_piece(bulk *b, uint64_t from, stage *s)
{
    const uint64_t n = piece_bytes(b, from);

    ZI_TRY(zi_tier_read(b->tier, b->at + from, s->piece, n));
    return b->put(b->arg, from, s->piece, n);
}

static void *
carry(void *arg)
{
    bulk *b = arg;
    stage s = stage_open(b->os);

    while (s.piece || !b->put) {
        uint64_t from = atomic_fetch_add(&b->next, PIECE);
        if (from >= b->n_bytes || atomic_load(&b->status) < 0) break;
        zico_status st = b->put ? read_piece(b, from, &s) : write_piece(b, from, &s);
        int         none = ZICO_OK;
        if (st < 0) atomic_compare_exchange_strong(&b->status, &none, (int)st);
    }
    stage_close(b->os, &s);
    return NULL;
}

static zico_status
carry_all(bulk *b)
{
    pthread_t thread[HELPERS];
    unsigned  n = 0;
    sigset_t  all, before;

    sigfillset(&all); /* signals belong to the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (n < HELPERS && (n + 1) * PIECE < b->n_bytes &&
           pthread_create(&thread[n], NULL, carry, b) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    carry(b);
    for (unsigned i = 0; i < n; i++) pthread_join(thread[i], NULL);
    const zico_status st = (zico_status)atomic_load(&b->status);
    if (st < 0) return st;
    return atomic_load(&b->next) < b->n_bytes ? ZICO_E_NOMEM : ZICO_OK; /* no stage */
}

static zico_status
take_back(bulk *b)
{
    for (uint64_t from = 0; b->fate && from < b->n_bytes; from += PIECE)
        if (b->fate[from / PIECE] == GONE &&
            zi_tier_read(b->tier, b->at + from, b->mem + from, piece_bytes(b, from)) < 0)
            return ZICO_E_CORRUPT;
    return ZICO_OK;
}

zico_status
zi_tier_write_bulk(zi_tier *t, uint64_t at, void *src, uint64_t n_bytes,
                   zi_tier_after after)
{
    bulk b = {.os = zi_tier_os(t),
              .tier = t,
              .at = at,
              .mem = src,
              .n_bytes = n_bytes,
              .after = after,
              .mu = PTHREAD_MUTEX_INITIALIZER};

    if (after != ZI_TIER_STAY) b.fate = zi_calloc(n_bytes / PIECE + 1, sizeof *b.fate);
    zico_status st = carry_all(&b);
    if (st >= 0 && b.fate && after == ZI_TIER_REMOVE) remove_written(&b, true);
    if (st < 0 && take_back(&b) < 0) st = ZICO_E_CORRUPT;
    zi_free((void *)b.fate);
    return st;
}

zico_status
zi_tier_read_bulk(zi_tier *t, uint64_t at, uint64_t n_bytes, zi_tier_put *put, void *arg)
{
    bulk b = {.os = zi_tier_os(t),
              .tier = t,
              .at = at,
              .n_bytes = n_bytes,
              .put = put,
              .arg = arg};
    return carry_all(&b);
}

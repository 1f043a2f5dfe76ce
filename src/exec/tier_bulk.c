/* tier_bulk.c -- all that a job keeps, at once.
 *
 * Several requests are under way, so that the disk does not wait while the kernel finds pages for
 * the next piece, or takes away those of the last, nor the other way round.  The caller works too;
 * helpers only join it, and where no thread is to be had it does it alone.
 *
 * A piece that is in the file may be let go at once.  Should a later one fail, those that went are
 * read back: the caller's memory is as it was.  Nothing is synced: a file that nobody can open again
 * need not survive the machine.
 */
#include "exec/tier.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include "base/alloc.h"

#define PIECE   (4ull << 20)
#define HELPERS 3u

typedef struct bulk {
    const zi_os     *os;
    zi_tier         *tier;
    uint64_t         at, n_bytes;
    char            *mem;
    bool             out;
    int              advice; /* for what was written; 0: it stays */
    _Atomic uint8_t *gone;   /* by piece: its memory was let go */
    _Atomic uint64_t next;   /* the first byte that nobody has taken */
    atomic_int       status; /* the first failure */
} bulk;

static uint64_t
piece_bytes(const bulk *b, uint64_t from)
{
    return b->n_bytes - from < PIECE ? b->n_bytes - from : PIECE;
}

static void
let_go(bulk *b, uint64_t from)
{
    if (!b->gone || !b->advice) return;
    if (b->os->advise(b->os, b->mem + from, piece_bytes(b, from), b->advice) >= 0)
        atomic_store(&b->gone[from / PIECE], 1);
}

static void *
carry(void *arg)
{
    bulk *b = arg;

    for (;;) {
        uint64_t from = atomic_fetch_add(&b->next, PIECE);
        if (from >= b->n_bytes || atomic_load(&b->status) < 0) return NULL;
        uint64_t    n = piece_bytes(b, from);
        zico_status st = b->out ? zi_tier_write(b->tier, b->at + from, b->mem + from, n)
                                : zi_tier_read(b->tier, b->at + from, b->mem + from, n);
        int         none = ZICO_OK;
        if (st < 0)
            atomic_compare_exchange_strong(&b->status, &none, (int)st);
        else
            let_go(b, from);
    }
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
    return (zico_status)atomic_load(&b->status);
}

static zico_status
take_back(bulk *b)
{
    for (uint64_t from = 0; b->gone && from < b->n_bytes; from += PIECE)
        if (b->gone[from / PIECE] &&
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
              .out = true,
              .advice = after == ZI_TIER_UNMAP    ? MADV_DONTNEED
                        : after == ZI_TIER_REMOVE ? MADV_REMOVE
                                                  : 0};
    if (b.advice) b.gone = zi_calloc(n_bytes / PIECE + 1, sizeof *b.gone);
    zico_status st = carry_all(&b);
    if (st < 0 && take_back(&b) < 0) st = ZICO_E_CORRUPT;
    zi_free((void *)b.gone);
    return st;
}

zico_status
zi_tier_read_bulk(zi_tier *t, uint64_t at, void *dst, uint64_t n_bytes)
{
    bulk b = {.os = zi_tier_os(t), .tier = t, .at = at, .mem = dst, .n_bytes = n_bytes};
    return carry_all(&b);
}

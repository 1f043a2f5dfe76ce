/* extent.c -- boundary tags over a reserved range; first fit by address, best fit for reuse. */
#include "hook/extent.h"

#include <string.h>
#include <sys/mman.h>

#include "base/check.h"

/* Blocks of this size and more begin at a huge page, where the kernel may use one. */
#define HUGE_BYTES ((size_t)2 << 20)

static zico_status
reserve(const zi_os *os, size_t len, int prot, void **ret)
{
    long rc = os->map(os, NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0, ret);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

zico_status
zi_extents_open(zi_extents *e, const zi_os *os, size_t span)
{
    void *range, *table;

    memset(e, 0, sizeof *e);
    span &= ~(HUGE_BYTES - 1);
    while (reserve(os, span + HUGE_BYTES, PROT_NONE, &range) < 0) {
        if (span / 2 < ZI_EXTENT_SPAN_MIN) return ZICO_E_NOMEM;
        span /= 2;
    }
    size_t n = span / ZI_EXTENT_GRAIN;
    if (reserve(os, n * sizeof(zi_extent), PROT_READ | PROT_WRITE, &table) < 0) {
        os->unmap(os, range, span + HUGE_BYTES);
        return ZICO_E_NOMEM;
    }
    e->os = os;
    e->base =
        (char *)(((uintptr_t)range + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
    e->span = span;
    e->at = table;
    e->n_grains = (uint32_t)n;
    return ZICO_OK;
}

void
zi_extents_close(zi_extents *e)
{
    if (!e->base) return;
    e->os->unmap(e->os, e->base, e->span);
    e->os->unmap(e->os, e->at, e->n_grains * sizeof(zi_extent));
    memset(e, 0, sizeof *e);
}

static uint32_t
index_of(const zi_extents *e, const void *p)
{
    return (uint32_t)((size_t)((const char *)p - e->base) / ZI_EXTENT_GRAIN);
}

static void *
address_of(const zi_extents *e, uint32_t i)
{
    return e->base + (size_t)i * ZI_EXTENT_GRAIN;
}

static uint32_t
grains_of(size_t size)
{
    return (uint32_t)(zi_extent_bytes(size ? size : 1) / ZI_EXTENT_GRAIN);
}

static uint64_t
bytes_of(const zi_extent *x)
{
    return (uint64_t)x->n * ZI_EXTENT_GRAIN;
}

/* Tell the extent behind i how long i is. */
static void
tell_next(zi_extents *e, uint32_t i)
{
    uint32_t next = i + e->at[i].n;
    if (next < e->n_used) e->at[next].n_before = e->at[i].n;
}

static void
set(zi_extents *e, uint32_t i, uint32_t n, uint32_t n_before, zi_extent_state state)
{
    e->at[i] = (zi_extent){.n = n, .n_before = n_before, .state = state};
    tell_next(e, i);
}

/* Keep the first `n` grains of a FREE extent in state LIVE, and the rest FREE. */
static void
split(zi_extents *e, uint32_t i, uint32_t n)
{
    uint32_t rest = e->at[i].n - n;
    if (rest == 0) return;
    e->at[i].n = n;
    set(e, i + n, rest, n, ZI_EXTENT_FREE);
}

/* Make i FREE and join it with its neighbours; keeps E2. */
static void
make_free(zi_extents *e, uint32_t i)
{
    e->at[i].state = ZI_EXTENT_FREE;
    uint32_t next = i + e->at[i].n;
    if (next < e->n_used && e->at[next].state == ZI_EXTENT_FREE) {
        e->at[i].n += e->at[next].n;
        e->at[next].state = ZI_EXTENT_INNER;
    }
    if (e->at[i].n_before) {
        uint32_t before = i - e->at[i].n_before;
        if (e->at[before].state == ZI_EXTENT_FREE) {
            e->at[before].n += e->at[i].n;
            e->at[i].state = ZI_EXTENT_INNER;
            i = before;
        }
    }
    if (i + e->at[i].n == e->n_used) {
        e->n_used = i;
        e->at[i].state = ZI_EXTENT_INNER;
    } else
        tell_next(e, i);
}

void *
zi_extents_reuse(zi_extents *e, size_t size, size_t align)
{
    uint32_t want = grains_of(size), best = UINT32_MAX, best_n = want + want / 8 + 1;

    if (e->n_cached == 0) return NULL;
    for (uint32_t i = 0; i < e->n_used; i += e->at[i].n) {
        const zi_extent *x = &e->at[i];
        if (x->state != ZI_EXTENT_CACHED || x->n < want || x->n >= best_n) continue;
        if ((uintptr_t)address_of(e, i) & (align - 1)) continue;
        best = i;
        best_n = x->n;
        if (x->n == want) break;
    }
    if (best == UINT32_MAX) return NULL;
    zi_extent *x = &e->at[best];
    x->state = ZI_EXTENT_LIVE;
    x->size_bytes = size;
    x->idle = 0;
    e->n_cached--, e->n_live++;
    e->cached_bytes -= bytes_of(x);
    e->live_bytes += bytes_of(x);
    return address_of(e, best);
}

/* The first grain at or after i whose address is aligned. */
static uint32_t
aligned_from(const zi_extents *e, uint32_t i, size_t align)
{
    uintptr_t at = ((uintptr_t)address_of(e, i) + align - 1) & ~(uintptr_t)(align - 1);
    return (uint32_t)((at - (uintptr_t)e->base) / ZI_EXTENT_GRAIN);
}

/* Cut [at, at + want) out of the FREE extent i. */
static void
carve(zi_extents *e, uint32_t i, uint32_t at, uint32_t want)
{
    if (at > i) {
        split(e, i, at - i);
        i = at;
    }
    split(e, i, want);
    e->at[i].state = ZI_EXTENT_LIVE;
}

void *
zi_extents_place(zi_extents *e, size_t size, size_t align)
{
    if (size > e->span || align > e->span / 2) return NULL;
    if (size >= HUGE_BYTES && align < HUGE_BYTES) align = HUGE_BYTES;

    uint32_t want = grains_of(size), i, at = 0, last_n = 0;
    for (i = 0; i < e->n_used; last_n = e->at[i].n, i += last_n) {
        if (e->at[i].state != ZI_EXTENT_FREE || e->at[i].n < want) continue;
        at = aligned_from(e, i, align);
        if (at + want <= i + e->at[i].n) break;
    }
    if (i >=
        e->n_used) { /* behind everything: first as FREE, so that carving is the same */
        uint32_t end = e->n_used;
        at = aligned_from(e, end, align);
        if (at > e->n_grains || want > e->n_grains - at) return NULL;
        e->n_used = at + want;
        set(e, end, at + want - end, last_n, ZI_EXTENT_FREE);
        i = end;
    }
    carve(e, i, at, want);
    e->at[at].size_bytes = size;
    e->n_live++;
    e->live_bytes += bytes_of(&e->at[at]);
    return address_of(e, at);
}

zico_status
zi_extents_back(const zi_extents *e, void *p)
{
    size_t len = bytes_of(&e->at[index_of(e, p)]);
    long   rc = e->os->protect(e->os, p, len, PROT_READ | PROT_WRITE);
    if (rc < 0) return zi_os_status(rc);
    if (len >= HUGE_BYTES) (void)e->os->advise(e->os, p, len, MADV_HUGEPAGE);
    return ZICO_OK;
}

void
zi_extents_unback(const zi_extents *e, void *p)
{
    void  *same;
    size_t len = bytes_of(&e->at[index_of(e, p)]);
    /* a new mapping in its place gives the pages back and keeps the range ours */
    long rc =
        e->os->map(e->os, p, len, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0, &same);
    if (rc < 0) (void)e->os->advise(e->os, p, len, MADV_DONTNEED);
}

zi_extent *
zi_extents_find(const zi_extents *e, const void *p)
{
    size_t off = (size_t)((const char *)p - e->base);
    if (off >= e->span || off % ZI_EXTENT_GRAIN) return NULL;
    uint32_t   i = (uint32_t)(off / ZI_EXTENT_GRAIN);
    zi_extent *x = &e->at[i];
    bool       live = x->state == ZI_EXTENT_LIVE || x->state == ZI_EXTENT_AWAY;
    return i < e->n_used && live ? x : NULL;
}

void
zi_extents_cache(zi_extents *e, void *p)
{
    zi_extent *x = &e->at[index_of(e, p)];
    zi_assert(x->state == ZI_EXTENT_LIVE);
    x->state = ZI_EXTENT_CACHED;
    x->idle = 0;
    e->n_live--, e->n_cached++;
    e->live_bytes -= bytes_of(x);
    e->cached_bytes += bytes_of(x);
}

void *
zi_extents_pop(zi_extents *e, uint32_t idle, uint64_t *ret_bytes)
{
    if (e->n_cached == 0) return NULL;
    for (uint32_t i = 0; i < e->n_used; i += e->at[i].n) {
        zi_extent *x = &e->at[i];
        if (x->state != ZI_EXTENT_CACHED || x->idle < idle) continue;
        x->state = ZI_EXTENT_LEAVING;
        e->n_cached--;
        e->cached_bytes -= bytes_of(x);
        *ret_bytes = bytes_of(x);
        return address_of(e, i);
    }
    return NULL;
}

void
zi_extents_forget(zi_extents *e, void *p)
{
    uint32_t   i = index_of(e, p);
    zi_extent *x = &e->at[i];
    zi_assert(x->state == ZI_EXTENT_LEAVING || x->state == ZI_EXTENT_LIVE ||
              x->state == ZI_EXTENT_AWAY);
    if (x->state != ZI_EXTENT_LEAVING) e->n_live--;
    if (x->state == ZI_EXTENT_LIVE) e->live_bytes -= bytes_of(x);
    if (x->state == ZI_EXTENT_AWAY) e->away_bytes -= bytes_of(x);
    make_free(e, i);
}

void
zi_extents_age(zi_extents *e)
{
    if (e->n_cached == 0) return;
    for (uint32_t i = 0; i < e->n_used; i += e->at[i].n)
        if (e->at[i].state == ZI_EXTENT_CACHED) e->at[i].idle++;
}

zi_extent *
zi_extents_next(const zi_extents *e, zi_extent_state state, uint32_t *at, void **ret_p)
{
    while (*at < e->n_used) {
        uint32_t i = *at;
        *at += e->at[i].n;
        if (e->at[i].state != state) continue;
        *ret_p = address_of(e, i);
        return &e->at[i];
    }
    return NULL;
}

void
zi_extents_set_away(zi_extents *e, void *p, bool away)
{
    zi_extent *x = &e->at[index_of(e, p)];
    uint64_t   bytes = bytes_of(x);

    zi_assert(x->state == (away ? ZI_EXTENT_LIVE : ZI_EXTENT_AWAY));
    x->state = away ? ZI_EXTENT_AWAY : ZI_EXTENT_LIVE;
    e->live_bytes = away ? e->live_bytes - bytes : e->live_bytes + bytes;
    e->away_bytes = away ? e->away_bytes + bytes : e->away_bytes - bytes;
}

zico_status
zi_extents_verify(const zi_extents *e, int *ret_invariant)
{
    uint64_t live = 0, cached = 0, gone = 0;
    uint32_t i = 0, before = 0, state = ZI_EXTENT_INNER;

    for (; i < e->n_used; i += before) {
        const zi_extent *x = &e->at[i];
        *ret_invariant = 1;
        if (x->state == ZI_EXTENT_INNER || x->n == 0 || x->n_before != before)
            return ZICO_E_CORRUPT;
        *ret_invariant = 2;
        if (x->state == ZI_EXTENT_FREE && state == ZI_EXTENT_FREE) return ZICO_E_CORRUPT;
        if (x->state == ZI_EXTENT_LIVE) live += bytes_of(x);
        if (x->state == ZI_EXTENT_CACHED) cached += bytes_of(x);
        if (x->state == ZI_EXTENT_AWAY) gone += bytes_of(x);
        before = x->n;
        state = x->state;
    }
    *ret_invariant = 1;
    if (i != e->n_used) return ZICO_E_CORRUPT;
    *ret_invariant = 2;
    if (state == ZI_EXTENT_FREE) return ZICO_E_CORRUPT;
    *ret_invariant = 3;
    if (live != e->live_bytes || cached != e->cached_bytes || gone != e->away_bytes)
        return ZICO_E_CORRUPT;
    *ret_invariant = 0;
    return ZICO_OK;
}

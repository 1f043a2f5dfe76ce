/* hook/extent.h -- private mappings inside one reserved range of address space.
 *
 * A large block that must not live in the pool is an *extent*: whole grains of 16 KiB of
 * a range that is reserved once and never moves, so that "is it ours?" is one comparison.
 *
 *       FREE ------ place, back -----> LIVE          (mapped, charged by the caller)
 *         ^                            |  ^
 *         |                      cache |  | reuse
 *       forget <---- pop ------------ CACHED         (still mapped, still charged)
 *
 * A LIVE extent whose pages were moved to a file (away.h) is AWAY: valid as before, not charged.
 *
 * Fresh pages are expensive to touch, so a freed extent is kept for a while; the caller
 * decides for how long (pop) and does the charging.
 *
 * INVARIANTS (zi_extents_verify)
 *   E1  extents cover [0, n_used) grains without gap or overlap, and n_before is right
 *   E2  no two neighbours are both FREE, and the last one is not FREE
 *   E3  live_bytes, cached_bytes and away_bytes are the sums over the extents of that state
 * THREADS  One caller at a time (the hook's lock); zi_extents_back and zi_extents_unback touch
 *          only pages of an extent that is the caller's, and need no lock.
 */
#ifndef ZI_HOOK_EXTENT_H
#define ZI_HOOK_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/os.h"
#include "zico/status.h"

#define ZI_EXTENT_GRAIN ((size_t)16 << 10)

typedef enum zi_extent_state {
    ZI_EXTENT_INNER, /* not the first grain of an extent */
    ZI_EXTENT_FREE,
    ZI_EXTENT_LIVE,
    ZI_EXTENT_CACHED,
    ZI_EXTENT_LEAVING, /* popped: being unmapped by whoever popped it */
    ZI_EXTENT_AWAY,    /* in use, its pages in a file                 */
} zi_extent_state;

typedef struct zi_extent {
    uint32_t n;          /* grains                                         */
    uint32_t n_before;   /* grains of the one in front; 0: it is the first */
    uint32_t state;      /* zi_extent_state                                */
    uint32_t key;        /* the predictor's name for the block             */
    uint32_t idle;       /* CACHED: steps that have passed since           */
    uint32_t step;       /* the predictor's step in which it was taken     */
    uint64_t size_bytes; /* LIVE: as asked */
} zi_extent;

typedef struct zi_extents {
    const zi_os *os;
    char        *base;
    size_t       span;
    zi_extent   *at; /* one a grain; only the first grain's counts */
    uint32_t     n_grains;
    uint32_t     n_used;                   /* E1 */
    uint64_t     live_bytes, cached_bytes; /* whole grains; E3 */
    uint64_t     away_bytes;
    uint32_t     n_live, n_cached; /* n_live: with those that are away */
} zi_extents;

/* Reserve at most `span` bytes of address space (less if the process is limited).  E_NOMEM:
 * not even ZI_EXTENT_SPAN_MIN could be had. */
#define ZI_EXTENT_SPAN_MIN ((size_t)256 << 20)
zico_status zi_extents_open(zi_extents *e, const zi_os *os, size_t span);
void        zi_extents_close(zi_extents *e);

/* Bytes that a block of this size occupies, and is charged. */
static inline uint64_t
zi_extent_bytes(size_t size)
{
    return (size + ZI_EXTENT_GRAIN - 1) & ~(uint64_t)(ZI_EXTENT_GRAIN - 1);
}

/* A cached extent that fits without wasting more than an eighth; NULL: none. */
void *zi_extents_reuse(zi_extents *e, size_t size, size_t align);
/* Address space for a fresh one; NULL: the range is full. */
void *zi_extents_place(zi_extents *e, size_t size, size_t align);
/* Give a placed extent its pages (they read as zero), or take them away. */
zico_status zi_extents_back(const zi_extents *e, void *p);
void        zi_extents_unback(const zi_extents *e, void *p);

/* The live extent that begins at p (it may be away), or NULL. */
zi_extent *zi_extents_find(const zi_extents *e, const void *p);

void zi_extents_cache(zi_extents *e, void *p);
/* A cached extent that has been idle for at least `idle` steps, now LEAVING: unback it, then
 * forget it.  NULL: there is none. */
void *zi_extents_pop(zi_extents *e, uint32_t idle, uint64_t *ret_bytes);
void  zi_extents_forget(zi_extents *e, void *p); /* LEAVING, LIVE or AWAY */
/* A step has passed. */
void zi_extents_age(zi_extents *e);

/* The extents that are LIVE, or those that are AWAY, in order: the first grain at or after *at
 * that begins one, *at moved behind it; NULL: there are no more. */
zi_extent *
zi_extents_next(const zi_extents *e, zi_extent_state state, uint32_t *at, void **ret_p);
void zi_extents_set_away(zi_extents *e, void *p, bool away); /* LIVE <-> AWAY */

zico_status zi_extents_verify(const zi_extents *e, int *ret_invariant);

#endif /* ZI_HOOK_EXTENT_H */

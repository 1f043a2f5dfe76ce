/* client/arena_inside.h -- the arena's own structures.
 *
 * ADDRESSES  The session's space is counted in granules of 512 bytes.  An *extent* is a
 *            piece of it, free or live; its record lies outside the pool, where another
 *            job's stray write cannot reach it.  `map` says at an extent's first and last
 *            granule which record it has (boundary tags), so that neighbours are found by
 *            looking one granule to the left or right.
 * HEAPS      One per class and stream.  A region belongs to one heap while it is held.
 *            Extents may cross from one region to the next of the same heap.
 * LANES      Threads without a stream share one heap per class.  A thread that finds its lock
 *            taken again and again moves on to the heap of the next lane; before more is
 *            leased, the other lanes are searched.
 * HANDS      The block that a thread freed last (without a stream) stays in its hand until
 *            its next call of the same class: given out again if the size is the same,
 *            freed otherwise.  Hands are words that anybody may empty by exchanging them
 *            for 0.
 * LOCKS      A heap's mu guards its extents, bins, the map entries and the live counts of
 *            its regions.  A slot's heap changes under the lock of the heap it names.
 */
#ifndef ZI_CLIENT_ARENA_INSIDE_H
#define ZI_CLIENT_ARENA_INSIDE_H

#include "client/arena.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#define ZI_ARENA_GRANULE     512u
#define ZI_ARENA_RECORDS_MAX (1u << 20) /* extents of one arena           */
#define ZI_ARENA_STREAMS_MAX 7u
#define ZI_ARENA_LANES       4u /* heaps of a class for threads without a stream */
#define ZI_ARENA_LANE_1      (ZICO_N_CLASSES * (ZI_ARENA_STREAMS_MAX + 1)) /* its heaps */
#define ZI_ARENA_HEAPS_MAX   (ZICO_N_CLASSES * (ZI_ARENA_STREAMS_MAX + ZI_ARENA_LANES))
#define ZI_ARENA_HANDS       64u /* threads beyond share            */
#define ZI_ARENA_KEEP        1u  /* empty regions a heap may keep, unless set (A3) */
#define ZI_ARENA_ALIGN_MAX   ZI_REGION_ALIGN

#define ZI_BIN_STEPS  16u /* bins between two powers of two */
#define ZI_BIN_LEVELS 24u

typedef enum zi_extent_state {
    ZI_EXTENT_NONE,
    ZI_EXTENT_FREE,
    ZI_EXTENT_LIVE,
    ZI_EXTENT_HAND,    /* in a thread's hand                        */
    ZI_EXTENT_PENDING, /* freed on another stream, which has not got there */
} zi_extent_state;

typedef struct zi_extent {
    uint32_t        start, n; /* granules */
    uint32_t        next, prev;
    uint64_t        asked; /* bytes; PENDING: the mark to wait for */
    _Atomic uint8_t state; /* LIVE <-> HAND without the lock, by the block's owner */
    uint8_t         heap;
    uint8_t         stream; /* PENDING: whose fence */
} zi_extent;

typedef struct zi_heap {
    alignas(64) pthread_mutex_t mu;
    zi_arena        *arena;
    zico_class       cls;
    uint8_t          index;
    uint8_t          stream; /* index into streams; 0: the calling thread (any lane) */
    uint32_t         levels; /* bit per level that has a non-empty bin    */
    uint16_t         steps[ZI_BIN_LEVELS];
    uint32_t         bin[ZI_BIN_LEVELS][ZI_BIN_STEPS];
    uint32_t         records; /* unused, linked by next */
    uint32_t         pending; /* PENDING extents        */
    uint32_t         n_regions, n_empty;
    _Atomic uint32_t n_rising; /* leases since the last return */
    bool     unfenced; /* freed on the stream since its fence was recorded: nothing
                             goes back before it is recorded again */
    uint64_t live_bytes, used_granules;
    int64_t  unsaid_bytes; /* of live_bytes, not in the arena's sum yet */
    uint64_t n_blocks;
} zi_heap;

#define ZI_ARENA_STREAM_GONE ((zi_stream *)1) /* its place may be taken by another */

typedef struct zi_arena_stream {
    zi_stream *_Atomic stream;
    zi_fence          *behind; /* recorded when a region became empty        */
    zi_fence          *cross;  /* recorded when a block of another heap is freed */
} zi_arena_stream;

typedef struct zi_hand {
    alignas(64) _Atomic uint64_t word[ZICO_N_CLASSES]; /* granules | record; 0 */
} zi_hand;

/* A place for a region; a line of its own, for neighbours may belong to other lanes. */
typedef struct zi_slot {
    alignas(64) _Atomic uint8_t heap; /* 1 + heap; 0: not held */
    uint32_t  live;                   /* granules, by heap's mu */
    zi_lease *lease;                  /* by heap's mu           */
} zi_slot;

struct zi_arena {
    zi_session          *session;
    const zi_os         *os;
    const zi_device_ops *ops;
    zi_device           *dev;
    char                *base;
    uint32_t             n_slots;
    uint32_t             slot_granules; /* granules of a region */
    unsigned             slot_shift;    /* log2 of that         */
    uint64_t             space_bytes;
    uint32_t             keep;   /* empty regions a heap may keep (A3) */
    uint32_t            *map;    /* granule -> record        */
    zi_extent           *record; /* [0] is unused            */
    _Atomic uint32_t     n_records;
    zi_slot             *slot;
    zi_heap             *heap;
    zi_arena_stream      streams[ZI_ARENA_STREAMS_MAX + 1];
    pthread_mutex_t      streams_mu; /* opening of new ones    */
    zi_hand             *hand;
    _Atomic uint64_t     leased_bytes, peak_leased;
    char                 apart[64]; /* what follows changes all the time */
    _Atomic uint64_t     live_bytes, peak_live;
    char                 apart_too[64];
    zi_session_watcher   watcher;
};

static inline zi_extent_state
zi_extent_is(const zi_extent *e)
{
    return (zi_extent_state)atomic_load_explicit(&e->state, memory_order_relaxed);
}

static inline void
zi_extent_set(zi_extent *e, zi_extent_state state)
{
    atomic_store_explicit(&e->state, (uint8_t)state, memory_order_relaxed);
}

#define ZI_ARENA_TAGS_APART 16u /* a line */

/* The map's entry of a granule.  A region's last and the next one's first are not in the same
 * line: they may belong to different lanes, and are the busiest of all. */
static inline uint32_t *
zi_arena_tag(const zi_arena *a, uint64_t granule)
{
    return &a->map[granule + (granule >> a->slot_shift) * ZI_ARENA_TAGS_APART];
}

/* -- arena_heap.c, all with the heap's lock held ------------------------------------------- */

/* A live extent of n granules whose start is a multiple of align_g, or 0. */
uint32_t zi_heap_take(zi_heap *h, uint32_t n, uint32_t align_g);
/* Records that zi_heap_take, _free and _add may need; E_LIMIT. */
zico_status zi_heap_reserve(zi_heap *h);
void        zi_heap_free(zi_heap *h, uint32_t record);
void        zi_heap_add(zi_heap *h, zi_lease *lease); /* of one region */
/* Take regions without a live block out, until no more than `keep` are left; at most max. */
size_t zi_heap_shed(zi_heap *h, uint32_t keep, zi_lease **ret_leases, size_t max);

#endif /* ZI_CLIENT_ARENA_INSIDE_H */

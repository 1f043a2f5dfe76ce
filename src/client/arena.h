/* client/arena.h -- blocks of any size inside leased regions.
 *
 * FAST PATH  Allocating and freeing inside regions already held makes no system call
 *            and takes no lock that another process could hold.
 * CLASSES    Separate regions and free lists per class, so that a short-lived block
 *            never keeps a long-lived region from going back.
 * REUSE      A block freed on a stream may be given out again on the same stream at
 *            once.  A region goes back to the broker when its last block is freed and
 *            the stream has passed that point (a fence, recorded when a region becomes
 *            empty).  A block freed on another stream than it was made for is free once
 *            that stream has got there.
 * LARGE      Blocks may cross from a region to the next; one larger than a region gets a
 *            run of them (stitched if need be), and what it leaves of the last is for others.
 * INVARIANTS (zi_arena_verify)
 *   A1  blocks of a region do not overlap, are aligned as asked, lie inside it
 *   A2  live + free bytes of a region equal its size; neighbours are never both free
 *   A3  a region with no live block is either one of those kept, or on its way back
 */
#ifndef ZI_CLIENT_ARENA_H
#define ZI_CLIENT_ARENA_H

#include <stdbool.h>
#include "client/session.h"

typedef struct zi_arena zi_arena;

typedef struct zi_arena_stats {
    uint64_t live_bytes;   /* asked for */
    uint64_t used_bytes;   /* with alignment and rounding */
    uint64_t leased_bytes; /* regions held */
    uint64_t n_blocks;
    /* with threads in several lanes the live peak may be short by a quarter of theirs */
    uint64_t peak_live_bytes, peak_leased_bytes;
} zi_arena_stats;

zico_status zi_arena_new(zi_session *s, zi_arena **ret_arena);
void        zi_arena_free(zi_arena *a); /* gives every lease back; NULL is fine */

/* `stream` NULL: the calling thread itself uses the memory, nothing is in flight. */
zico_status zi_arena_alloc(zi_arena *a, zico_class cls, size_t size_bytes, size_t align,
                           zi_stream *stream, uint64_t wait_ns, void **ret_block);
void        zi_arena_release(zi_arena *a, void *block, zi_stream *stream);

/* Is this address inside one of the arena's regions?  Wait-free; for hooks on free(). */
bool   zi_arena_owns(const zi_arena *a, const void *p);
size_t zi_arena_usable(zi_arena *a, const void *block); /* 0: not a live block */

/* How many empty regions of each class are kept for the next blocks (at first one) instead of going
 * back at once; when there are more, all but one go back, and before more is leased all do, if it is
 * more than one.  Set before the first block. */
void zi_arena_keep(zi_arena *a, uint32_t n_regions);

/* Give back what is held but empty (end of a step).  Called by the thread that feeds the
 * streams the arena knows: it may record fences on them. */
void zi_arena_trim(zi_arena *a);

/* Before a stream is closed: waits for it, and forgets it. */
void zi_arena_stream_gone(zi_arena *a, zi_stream *stream);

void        zi_arena_read_stats(zi_arena *a, zi_arena_stats *ret_stats);
zico_status zi_arena_verify(zi_arena *a, int *ret_invariant);

#endif /* ZI_CLIENT_ARENA_H */

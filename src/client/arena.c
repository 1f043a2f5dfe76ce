/* arena.c -- blocks for everybody: hands, heaps by class and stream, what crosses streams.
 *
 *     alloc   the thread's hand -> its heap -> other hands, finished streams, other lanes'
 *             heaps -> a lease
 *     free    the thread's hand -> the block that was in it goes to its heap -> regions
 *             that became empty go back, behind a fence of the stream that freed last
 */
#include "client/arena_inside.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <string.h>
#include <sys/mman.h>

#define SHED_AT_ONCE 64u
#define AHEAD        2u /* regions */

/* -- lanes --------------------------------------------------------------------------------------------- */

#define BUMP_COST 256 /* a lock found taken weighs as much as so many found free */
#define BUMPS_MAX (4 * BUMP_COST)

static _Thread_local struct {
    unsigned index;
    int      bumps;
} lane;

/* Of the calling thread, from 1 in the order of their first calls. */
static unsigned
my_number(void)
{
    static _Atomic unsigned       n_threads;
    static _Thread_local unsigned me;

    if (!me) me = atomic_fetch_add(&n_threads, 1) + 1;
    return me;
}

/* Lane 0 is where streams have their index 0; the others follow the streams. */
static zi_heap *
lane_heap(const zi_arena *a, unsigned i, zico_class cls)
{
    return &a->heap[(i ? ZI_ARENA_LANE_1 + (i - 1) * ZICO_N_CLASSES : 0) + cls];
}

static void
lock_own(zi_heap *h)
{
    if (pthread_mutex_trylock(&h->mu) == 0) {
        if (lane.bumps > 0) lane.bumps--;
        return;
    }
    lane.bumps += BUMP_COST;
    if (lane.bumps > BUMPS_MAX) {
        lane.bumps = 0;
        /* not all to the same */
        lane.index += 1 + my_number() % (ZI_ARENA_LANES - 1);
        lane.index %= ZI_ARENA_LANES;
    }
    pthread_mutex_lock(&h->mu);
}

/* -- words in a hand: granules, record ----------------------------------------------------------------- */

static uint64_t
hand_key(uint32_t n)
{
    return (uint64_t)n << 32;
}

static zi_hand *
my_hand(zi_arena *a)
{
    return &a->hand[my_number() % ZI_ARENA_HANDS];
}

/* -- heaps -------------------------------------------------------------------------------------------- */

static bool
is_deserted(const zi_arena *a, unsigned i)
{
    zi_stream *there = atomic_load(&a->streams[i].stream);

    if (!there) return true;
    if (there != ZI_ARENA_STREAM_GONE) return false;
    for (unsigned c = 0; c < ZICO_N_CLASSES; c++)
        if (a->heap[i * ZICO_N_CLASSES + c].n_regions > 0) return false;
    return true;
}

static zico_status
open_stream(zi_arena *a, zi_stream *stream, unsigned *ret_index)
{
    zico_status st = ZICO_E_LIMIT;

    pthread_mutex_lock(&a->streams_mu);
    for (unsigned i = 1; i <= ZI_ARENA_STREAMS_MAX && st == ZICO_E_LIMIT; i++) {
        if (!is_deserted(a, i)) continue;
        st = ZICO_OK;
        if (!a->streams[i].behind) st = a->ops->fence_new(a->dev, &a->streams[i].behind);
        if (st >= 0 && !a->streams[i].cross)
            st = a->ops->fence_new(a->dev, &a->streams[i].cross);
        if (st >= 0) {
            atomic_store(&a->streams[i].stream, stream);
            *ret_index = i;
        }
    }
    pthread_mutex_unlock(&a->streams_mu);
    return st;
}

static zico_status
look_for_stream(zi_arena *a, zi_stream *stream, unsigned *ret_index)
{
    for (unsigned i = 1; i <= ZI_ARENA_STREAMS_MAX; i++) {
        zi_stream *there =
            atomic_load_explicit(&a->streams[i].stream, memory_order_acquire);
        if (there == stream) {
            *ret_index = i;
            return ZICO_OK;
        }
        if (!there) break;
    }
    return open_stream(a, stream, ret_index);
}

/* Its index; 0 for the calling thread itself. */
static inline zico_status
find_stream(zi_arena *a, zi_stream *stream, unsigned *ret_index)
{
    *ret_index = 0;
    return stream ? look_for_stream(a, stream, ret_index) : ZICO_OK;
}

static zi_fence *
fence_behind(zi_arena *a, const zi_heap *h)
{
    return h->stream ? a->streams[h->stream].behind : NULL;
}

static zi_stream *
heap_stream(const zi_arena *a, const zi_heap *h)
{
    zi_stream *s = h->stream ? atomic_load(&a->streams[h->stream].stream) : NULL;
    return s == ZI_ARENA_STREAM_GONE ? NULL : s;
}

/* Regions that became empty go back.  Called without the lock. */
static void
give_back(zi_arena *a, zi_heap *h, zi_lease *const *leases, size_t n)
{
    if (n == 0) return;
    atomic_fetch_sub(&a->leased_bytes, n * zi_session_region_bytes(a->session));
    zi_session_give_back_all(a->session, leases, n, fence_behind(a, h));
}

/* More than `keep` are empty: all of them but one go at once, so that blocks that come and go
 * around the bound do not cost a message each. */
static size_t
shed_some(zi_heap *h, uint32_t keep, zi_lease **ret_leases)
{
    if (h->n_empty <= keep) return 0;
    return zi_heap_shed(h, keep > 0, ret_leases, SHED_AT_ONCE);
}

static void
shed(zi_arena *a, zi_heap *h, uint32_t keep)
{
    zi_lease *leases[SHED_AT_ONCE];
    size_t    n;

    do {
        pthread_mutex_lock(&h->mu);
        n = h->unfenced ? 0 : shed_some(h, keep, leases);
        if (n > 0) h->n_rising = 0;
        pthread_mutex_unlock(&h->mu);
        give_back(a, h, leases, n);
    } while (n == SHED_AT_ONCE);
}

/* With the lock held, by the thread that feeds the stream: what was freed on it so far is
 * in front of the fence. */
static void
record_behind(zi_arena *a, zi_heap *h, zi_stream *stream)
{
    a->ops->fence_record(a->streams[h->stream].behind, stream);
    h->unfenced = false;
}

#define UNSAID_PART 4 /* of a lane's live bytes */
#define UNSAID_MIN  (4 << 20)

static void
raise_peak(_Atomic uint64_t *peak, uint64_t now)
{
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (seen < now && !atomic_compare_exchange_weak(peak, &seen, now)) {
    }
}

/* With the lock held: so many more bytes of the heap are live.  The sum over all heaps is
 * there for the peak; lanes beyond the first tell it of small changes later, so that threads
 * do not meet there either. */
static void
count_live(zi_arena *a, zi_heap *h, int64_t more)
{
    h->live_bytes += (uint64_t)more;
    h->unsaid_bytes += more;
    const int64_t part = (int64_t)(h->live_bytes / UNSAID_PART);
    const int64_t most = part > UNSAID_MIN ? part : UNSAID_MIN;
    if (h->index >= ZI_ARENA_LANE_1 && h->unsaid_bytes < most && h->unsaid_bytes > -most)
        return;
    uint64_t said = (uint64_t)h->unsaid_bytes;
    h->unsaid_bytes = 0;
    raise_peak(&a->peak_live,
               atomic_fetch_add_explicit(&a->live_bytes, said, memory_order_relaxed) +
                   said);
}

/* The block goes back to its heap.  `stream`: the heap's own, which used it last and which
 * the caller feeds; NULL: it is surely finished with. */
static void
free_block(zi_arena *a, uint32_t record, zi_stream *stream)
{
    zi_heap  *h = &a->heap[a->record[record].heap];
    zi_lease *leases[SHED_AT_ONCE];
    size_t    n = 0;

    pthread_mutex_lock(&h->mu);
    uint32_t n_empty = h->n_empty;
    count_live(a, h, -(int64_t)a->record[record].asked);
    zi_heap_free(h, record);
    h->unfenced |= stream != NULL;
    bool more_empty = h->n_empty > n_empty || h->n_empty > a->keep;
    if (stream && more_empty) record_behind(a, h, stream);
    if (h->n_empty > a->keep && !h->unfenced) {
        n = shed_some(h, a->keep, leases);
        h->n_rising = 0;
    }
    pthread_mutex_unlock(&h->mu);
    give_back(a, h, leases, n);
    if (n == SHED_AT_ONCE) shed(a, h, a->keep > 0);
}

/* -- blocks that another stream freed --------------------------------------------------------------- */

static void
free_across(zi_arena *a, uint32_t record, unsigned by, zi_stream *stream)
{
    zi_extent *e = &a->record[record];
    zi_heap   *h = &a->heap[e->heap];
    zi_fence  *f = a->streams[by].cross;

    pthread_mutex_lock(&h->mu);
    zi_session_watch_fence(a->session, f);
    a->ops->fence_record(f, stream);
    count_live(a, h, -(int64_t)e->asked);
    e->asked = a->ops->fence_mark(f);
    e->stream = (uint8_t)by;
    zi_extent_set(e, ZI_EXTENT_PENDING);
    e->next = h->pending;
    h->pending = record;
    pthread_mutex_unlock(&h->mu);
}

/* Those whose stream has got there become free.  True if there were any. */
static bool
free_finished(zi_arena *a, zi_heap *h)
{
    bool any = false;

    pthread_mutex_lock(&h->mu);
    uint32_t *at = &h->pending;
    while (*at) {
        uint32_t   r = *at;
        zi_extent *e = &a->record[r];
        if (a->ops->fence_passed(a->streams[e->stream].cross, e->asked)) {
            *at = e->next;
            zi_heap_free(h, r);
            any = true;
        } else {
            at = &e->next;
        }
    }
    pthread_mutex_unlock(&h->mu);
    if (any) shed(a, h, a->keep);
    return any;
}

/* -- hands ------------------------------------------------------------------------------------------------ */

/* Put down what is in a hand. */
static bool
empty_hand(zi_arena *a, _Atomic uint64_t *word)
{
    if (!atomic_load_explicit(word, memory_order_relaxed)) return false;
    uint64_t w = atomic_exchange_explicit(word, 0, memory_order_acq_rel);
    if (w) free_block(a, (uint32_t)w, NULL);
    return w != 0;
}

static bool
empty_hands(zi_arena *a, zico_class cls)
{
    bool any = false;
    for (unsigned i = 0; i < ZI_ARENA_HANDS; i++)
        any |= empty_hand(a, &a->hand[i].word[cls]);
    return any;
}

/* The block in the thread's own hand, if it fits exactly.  Else 0, and what was in the hand is
 * the caller's to free (*ret_old; 0: nothing). */
static uint32_t
take_from_hand(zi_arena *a, _Atomic uint64_t *word, uint64_t key, size_t size_bytes,
               uint32_t align_g, uint32_t *ret_old)
{
    if (!atomic_load_explicit(word, memory_order_relaxed)) return 0;
    uint64_t   w = atomic_exchange_explicit(word, 0, memory_order_acq_rel);
    uint32_t   record = (uint32_t)w;
    zi_extent *e = &a->record[record];

    if ((w & ~(uint64_t)UINT32_MAX) != key || (e->start & (align_g - 1))) {
        *ret_old = record;
        return 0;
    }
    if (e->asked != size_bytes) {
        zi_heap *h = &a->heap[e->heap];
        pthread_mutex_lock(&h->mu);
        count_live(a, h, (int64_t)(size_bytes - e->asked));
        pthread_mutex_unlock(&h->mu);
        e->asked = size_bytes;
    }
    zi_extent_set(e, ZI_EXTENT_LIVE);
    return record;
}

/* -- allocating --------------------------------------------------------------------------------------------- */

/* From what the heap holds.  `old`: a block of the same heap that goes back to it first, under
 * the same lock; 0: none. */
static zico_status
take_from_heap(zi_arena *a, zi_heap *h, uint32_t old, uint32_t n, uint32_t align_g,
               size_t size_bytes, uint32_t *ret_record)
{
    int64_t more = 0;

    lock_own(h);
    if (old) {
        more -= (int64_t)a->record[old].asked;
        zi_heap_free(h, old);
    }
    zico_status st = zi_heap_reserve(h);
    uint32_t    r = st >= 0 ? zi_heap_take(h, n, align_g) : 0;
    if (r) {
        a->record[r].asked = size_bytes;
        more += (int64_t)size_bytes;
    }
    count_live(a, h, more);
    bool idle = old && h->n_empty > a->keep;
    pthread_mutex_unlock(&h->mu);
    if (idle) shed(a, h, a->keep);
    if (st < 0) return st;
    if (!r) return ZICO_E_BUSY;
    *ret_record = r;
    return ZICO_OK;
}

/* The regions of a lease, one by one, into the heap. */
static zico_status
add_lease(zi_arena *a, zi_heap *h, zi_lease *lease)
{
    zi_lease  *few[16];
    zi_lease **part = few;
    uint32_t   n = lease->n_regions, done = 0;

    if (n > 16) part = zi_malloc(n * sizeof *part);
    if (!part) {
        zi_session_give_back(a->session, lease, NULL);
        return ZICO_E_NOMEM;
    }
    zi_session_split(a->session, lease, part);
    uint64_t leased =
        atomic_fetch_add(&a->leased_bytes, n * zi_session_region_bytes(a->session)) +
        n * zi_session_region_bytes(a->session);
    raise_peak(&a->peak_leased, leased);
    pthread_mutex_lock(&h->mu);
    while (done < n && zi_heap_reserve(h) >= 0) zi_heap_add(h, part[done++]);
    h->n_rising++;
    pthread_mutex_unlock(&h->mu);
    give_back(a, h, part + done, n - done);
    if (part != few) zi_free(part);
    return done == n ? ZICO_OK : ZICO_E_LIMIT;
}

/* A second lease without a return between: the tide rises, ask for the next one now.  Not where
 * blocks are larger than what may be asked for ahead: it would be of no use to them. */
static zico_status
lease_more(zi_arena *a, zi_heap *h, size_t size_bytes, uint64_t wait_ns)
{
    zi_lease *lease;

    ZI_TRY(zi_session_lease(a->session, h->cls, size_bytes, 0, wait_ns, &lease));
    ZI_TRY(add_lease(a, h, lease));
    if (h->n_rising >= 2 && size_bytes <= AHEAD * zi_session_region_bytes(a->session))
        zi_session_lease_ahead(a->session, h->cls, AHEAD);
    return ZICO_OK;
}

/* Before more is leased: empty regions of another lane become ours. */
static bool
adopt(zi_arena *a, zi_heap *own, zi_heap *other, uint32_t n)
{
    zi_lease *leases[SHED_AT_ONCE];
    size_t    n_want = (n - 1) / a->slot_granules + 1, n_got, done = 0;

    pthread_mutex_lock(&other->mu);
    n_got = zi_heap_shed(other, 0, leases, n_want < SHED_AT_ONCE ? n_want : SHED_AT_ONCE);
    pthread_mutex_unlock(&other->mu);
    if (n_got == 0) return false;
    pthread_mutex_lock(&own->mu);
    while (done < n_got && zi_heap_reserve(own) >= 0) zi_heap_add(own, leases[done++]);
    pthread_mutex_unlock(&own->mu);
    give_back(a, own, leases + done, n_got - done);
    return true;
}

static zico_status
take_from_lanes(zi_arena *a, zi_heap *own, uint32_t n, uint32_t align_g,
                size_t size_bytes, uint32_t *ret_record)
{
    zico_status st = ZICO_E_BUSY;

    for (unsigned i = 0; i < ZI_ARENA_LANES && st == ZICO_E_BUSY; i++) {
        zi_heap *h = lane_heap(a, i, own->cls);
        if (h == own) continue;
        if (adopt(a, own, h, n))
            st = take_from_heap(a, own, 0, n, align_g, size_bytes, ret_record);
        if (st == ZICO_E_BUSY)
            st = take_from_heap(a, h, 0, n, align_g, size_bytes, ret_record);
    }
    if (st >= 0) shed(a, own, a->keep);
    return st;
}

/* The hand was no help: what was in it (`old`) goes to the heap. */
static zico_status
alloc_slowly(zi_arena *a, zi_heap *h, uint32_t old, uint32_t n, uint32_t align_g,
             size_t size_bytes, uint64_t wait_ns, uint32_t *ret_record)
{
    if (old && a->record[old].heap != h->index) {
        free_block(a, old, NULL);
        old = 0;
    }
    zico_status st = take_from_heap(a, h, old, n, align_g, size_bytes, ret_record);
    if (st != ZICO_E_BUSY) return st;
    bool more = empty_hands(a, h->cls);
    more |= free_finished(a, h);
    if (more) {
        st = take_from_heap(a, h, 0, n, align_g, size_bytes, ret_record);
        if (st != ZICO_E_BUSY) return st;
    }
    if (!h->stream) {
        st = take_from_lanes(a, h, n, align_g, size_bytes, ret_record);
        if (st != ZICO_E_BUSY) return st;
    }
    if (a->keep > ZI_ARENA_KEEP)
        shed(a, h, 0); /* nobody waits with what it does not use */
    for (;;) {
        ZI_TRY(lease_more(a, h, size_bytes, wait_ns));
        st = take_from_heap(a, h, 0, n, align_g, size_bytes, ret_record);
        if (st == ZICO_E_BUSY) continue; /* another thread was quicker */
        shed(a, h, a->keep);             /* next to what was held, less was needed */
        return st;
    }
}

static bool
is_power_of_two(size_t v)
{
    return v && (v & (v - 1)) == 0;
}

zico_status
zi_arena_alloc(zi_arena *a, zico_class cls, size_t size_bytes, size_t align,
               zi_stream *stream, uint64_t wait_ns, void **ret_block)
{
    unsigned by;
    uint32_t record, old = 0;

    if (align == 0) align = 1;
    if (size_bytes == 0) size_bytes = 1;
    if ((unsigned)cls >= ZICO_N_CLASSES || !is_power_of_two(align) ||
        align > ZI_ARENA_ALIGN_MAX)
        return ZICO_E_ARG;
    if (!zi_session_usable(a->session)) return ZICO_E_STATE;
    if (size_bytes > a->space_bytes / 2)
        size_bytes = a->space_bytes / 2 + 1; /* E_BUDGET */
    ZI_TRY(find_stream(a, stream, &by));

    zi_heap *h = by ? &a->heap[by * ZICO_N_CLASSES + cls] : lane_heap(a, lane.index, cls);
    uint32_t n = (uint32_t)((size_bytes - 1) / ZI_ARENA_GRANULE + 1);
    uint32_t align_g =
        align > ZI_ARENA_GRANULE ? (uint32_t)(align / ZI_ARENA_GRANULE) : 1;
    record = by ? 0
                : take_from_hand(a, &my_hand(a)->word[cls], hand_key(n), size_bytes,
                                 align_g, &old);
    if (!record)
        ZI_TRY(alloc_slowly(a, h, old, n, align_g, size_bytes, wait_ns, &record));
    *ret_block = a->base + (uint64_t)a->record[record].start * ZI_ARENA_GRANULE;
    return ZICO_OK;
}

/* -- freeing ------------------------------------------------------------------------------------------------ */

/* The record of a live block; 0 if there is none at this address. */
static uint32_t
find_block(const zi_arena *a, const void *p)
{
    uintptr_t off = (uintptr_t)p - (uintptr_t)a->base;

    if (off >= a->space_bytes || off % ZI_ARENA_GRANULE) return 0;
    uint32_t g = (uint32_t)(off / ZI_ARENA_GRANULE);
    uint32_t r = *zi_arena_tag(a, g);
    return a->record[r].start == g && zi_extent_is(&a->record[r]) == ZI_EXTENT_LIVE ? r
                                                                                    : 0;
}

void
zi_arena_release(zi_arena *a, void *block, zi_stream *stream)
{
    unsigned by;

    if (!block || !zi_session_usable(a->session)) return;
    uint32_t record = find_block(a, block);
    zi_assert(record != 0); /* freed twice, or not ours */
    if (!record) return;
    zi_extent *e = &a->record[record];
    zi_heap   *h = &a->heap[e->heap];
    if (find_stream(a, stream, &by) < 0) { /* too many streams: wait for it */
        a->ops->stream_drain(stream);
        by = 0;
    }
    if (by != 0 && by != h->stream) {
        free_across(a, record, by, stream);
    } else if (h->stream) {
        free_block(a, record, stream);
    } else {
        uint64_t w = hand_key(e->n) | record;
        zi_extent_set(e, ZI_EXTENT_HAND);
        w = atomic_exchange_explicit(&my_hand(a)->word[h->cls], w, memory_order_acq_rel);
        if (w) free_block(a, (uint32_t)w, NULL);
    }
}

bool
zi_arena_owns(const zi_arena *a, const void *p)
{
    uintptr_t off = (uintptr_t)p - (uintptr_t)a->base;

    if (off >= a->space_bytes) return false;
    uint64_t slot = off / ZI_ARENA_GRANULE >> a->slot_shift;
    return atomic_load_explicit(&a->slot[slot].heap, memory_order_relaxed) != 0;
}

size_t
zi_arena_usable(zi_arena *a, const void *block)
{
    uint32_t r = find_block(a, block);
    return r ? (size_t)a->record[r].n * ZI_ARENA_GRANULE : 0;
}

/* -- giving back what is empty ----------------------------------------------------------------------- */

static void
put_all_down(zi_arena *a)
{
    for (unsigned c = 0; c < ZICO_N_CLASSES; c++) empty_hands(a, (zico_class)c);
}

static void
trim(zi_arena *a, bool may_record)
{
    put_all_down(a);
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) {
        zi_heap *h = &a->heap[i];
        free_finished(a, h);
        pthread_mutex_lock(&h->mu);
        if (may_record && h->unfenced && heap_stream(a, h))
            record_behind(a, h, heap_stream(a, h));
        pthread_mutex_unlock(&h->mu);
        shed(a, h, 0);
    }
}

void
zi_arena_keep(zi_arena *a, uint32_t n_regions)
{
    a->keep = n_regions;
}

void
zi_arena_trim(zi_arena *a)
{
    if (zi_session_usable(a->session)) trim(a, true);
}

void
zi_arena_stream_gone(zi_arena *a, zi_stream *stream)
{
    if (!zi_session_usable(a->session)) return;
    for (unsigned i = 1; i <= ZI_ARENA_STREAMS_MAX; i++) {
        if (atomic_load(&a->streams[i].stream) != stream) continue;
        a->ops->stream_drain(stream);
        for (unsigned c = 0; c < ZICO_N_CLASSES; c++) {
            zi_heap *h = &a->heap[i * ZICO_N_CLASSES + c];
            pthread_mutex_lock(&h->mu);
            h->unfenced = false; /* drained: all of it is finished */
            pthread_mutex_unlock(&h->mu);
            shed(a, h, 0);
        }
        atomic_store(&a->streams[i].stream, ZI_ARENA_STREAM_GONE);
    }
}

/* On the session's thread: streams have got further, or the broker wants regions back. */
static void
on_wake(void *user, bool recall)
{
    zi_arena *a = user;

    if (!zi_session_usable(a->session)) return;
    if (recall) {
        trim(a, false);
        return;
    }
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) free_finished(a, &a->heap[i]);
}

/* -- locks ----------------------------------------------------------------------------------------------- */

/* Held for some fifty nanoseconds: whoever finds it taken looks again before it sleeps. */
static void
init_lock(pthread_mutex_t *mu)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(mu, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* -- fork: nobody else is in a heap while the process is copied -------------------------------------- */

static void
on_fork_prepare(void *user)
{
    zi_arena *a = user;
    pthread_mutex_lock(&a->streams_mu);
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) pthread_mutex_lock(&a->heap[i].mu);
}

static void
on_fork_parent(void *user)
{
    zi_arena *a = user;
    for (unsigned i = ZI_ARENA_HEAPS_MAX; i-- > 0;) pthread_mutex_unlock(&a->heap[i].mu);
    pthread_mutex_unlock(&a->streams_mu);
}

static void
on_fork_child(void *user)
{
    zi_arena *a = user;
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) init_lock(&a->heap[i].mu);
    pthread_mutex_init(&a->streams_mu, NULL);
}

/* -- life ------------------------------------------------------------------------------------------------ */

static zico_status
reserve_table(zi_arena *a, uint64_t size_bytes, void **ret_at)
{
    long rc = a->os->map(a->os, NULL, size_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, ret_at);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

static uint64_t
map_bytes(const zi_arena *a)
{
    return a->n_slots * (uint64_t)(a->slot_granules + ZI_ARENA_TAGS_APART) *
           sizeof *a->map;
}

static zico_status
make_tables(zi_arena *a)
{
    void *at;

    ZI_TRY(reserve_table(a, a->n_slots * sizeof *a->slot, &at));
    a->slot = at;
    ZI_TRY(reserve_table(a, map_bytes(a), &at));
    a->map = at;
    ZI_TRY(reserve_table(a, ZI_ARENA_RECORDS_MAX * sizeof *a->record, &at));
    a->record = at;
    atomic_init(&a->n_records, 1);
    ZI_TRY(reserve_table(a, ZI_ARENA_HEAPS_MAX * sizeof *a->heap, &at));
    a->heap = at;
    ZI_TRY(reserve_table(a, ZI_ARENA_HANDS * sizeof *a->hand, &at));
    a->hand = at;
    return ZICO_OK;
}

static void
make_heaps(zi_arena *a)
{
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) {
        zi_heap *h = &a->heap[i];
        init_lock(&h->mu);
        h->arena = a;
        h->cls = (zico_class)(i % ZICO_N_CLASSES);
        h->index = (uint8_t)i;
        unsigned group = i / ZICO_N_CLASSES;
        h->stream = (uint8_t)(group <= ZI_ARENA_STREAMS_MAX ? group : 0);
    }
}

static void
drop_arena(zi_arena *a)
{
    if (a->heap)
        for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++)
            pthread_mutex_destroy(&a->heap[i].mu);
    for (unsigned i = 1; i <= ZI_ARENA_STREAMS_MAX; i++) {
        a->ops->fence_free(a->streams[i].behind);
        a->ops->fence_free(a->streams[i].cross);
    }
    if (a->hand) a->os->unmap(a->os, a->hand, ZI_ARENA_HANDS * sizeof *a->hand);
    if (a->heap) a->os->unmap(a->os, a->heap, ZI_ARENA_HEAPS_MAX * sizeof *a->heap);
    if (a->record)
        a->os->unmap(a->os, a->record, ZI_ARENA_RECORDS_MAX * sizeof *a->record);
    if (a->map) a->os->unmap(a->os, a->map, map_bytes(a));
    pthread_mutex_destroy(&a->streams_mu);
    if (a->slot) a->os->unmap(a->os, a->slot, a->n_slots * sizeof *a->slot);
    zi_free(a);
}

zico_status
zi_arena_new(zi_session *s, zi_arena **ret_arena)
{
    zi_arena *a = zi_calloc(1, sizeof *a);

    if (!a) return ZICO_E_NOMEM;
    a->session = s;
    a->keep = ZI_ARENA_KEEP;
    a->dev = zi_session_device(s);
    a->os = a->dev->os;
    a->ops = a->dev->ops;
    a->base = zi_session_space(s, &a->n_slots);
    a->slot_granules = (uint32_t)(zi_session_region_bytes(s) / ZI_ARENA_GRANULE);
    a->slot_shift = (unsigned)__builtin_ctz(a->slot_granules);
    a->space_bytes = a->n_slots * zi_session_region_bytes(s);
    pthread_mutex_init(&a->streams_mu, NULL);
    zico_status st =
        a->space_bytes / ZI_ARENA_GRANULE <= UINT32_MAX ? make_tables(a) : ZICO_E_LIMIT;
    if (st < 0) {
        drop_arena(a);
        return st;
    }
    make_heaps(a);
    a->watcher = (zi_session_watcher){.on_wake = on_wake,
                                      .on_fork_prepare = on_fork_prepare,
                                      .on_fork_parent = on_fork_parent,
                                      .on_fork_child = on_fork_child,
                                      .user = a};
    zi_session_attach(s, &a->watcher);
    *ret_arena = a;
    return ZICO_OK;
}

/* Every region goes back, with blocks or without. */
void
zi_arena_free(zi_arena *a)
{
    if (!a) return;
    zi_session_detach(a->session, &a->watcher);
    for (uint32_t i = 0; i < a->n_slots && zi_session_usable(a->session); i++) {
        unsigned owner = atomic_load(&a->slot[i].heap);
        if (!owner) continue;
        zi_heap *h = &a->heap[owner - 1];
        if (h->unfenced && heap_stream(a, h)) a->ops->stream_drain(heap_stream(a, h));
        zi_session_give_back(a->session, a->slot[i].lease, fence_behind(a, h));
    }
    drop_arena(a);
}

void
zi_arena_read_stats(zi_arena *a, zi_arena_stats *ret_stats)
{
    zi_arena_stats st = {0};

    if (zi_session_usable(a->session)) put_all_down(a);
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX; i++) {
        zi_heap *h = &a->heap[i];
        pthread_mutex_lock(&h->mu);
        st.live_bytes += h->live_bytes;
        st.used_bytes += h->used_granules * ZI_ARENA_GRANULE;
        st.leased_bytes += h->n_regions * zi_session_region_bytes(a->session);
        st.n_blocks += h->n_blocks;
        pthread_mutex_unlock(&h->mu);
    }
    st.peak_live_bytes = atomic_load(&a->peak_live);
    st.peak_leased_bytes = atomic_load(&a->peak_leased);
    *ret_stats = st;
}

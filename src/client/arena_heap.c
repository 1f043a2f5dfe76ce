/* arena_heap.c -- one heap: free extents by size, best fit, coalescing, empty regions.
 *
 * Free extents hang in bins, 16 between two powers of two.  A block is cut from the
 * smallest extent that fits (of equals, the lowest), at its low end, so that high regions
 * empty first.  Everything takes a bounded number of steps but the walk over the regions
 * that a large block covers.
 */
#include "client/arena_inside.h"

#include "base/check.h"

#define SCAN 64u /* extents of a bin that are compared */

/* -- records ---------------------------------------------------------------------------------- */

#define RECORDS_AT_ONCE 64u

zico_status
zi_heap_reserve(zi_heap *h)
{
    zi_arena *a = h->arena;

    if (h->records && a->record[h->records].next) return ZICO_OK; /* two are enough */
    uint32_t first = atomic_fetch_add(&a->n_records, RECORDS_AT_ONCE);
    if (first > ZI_ARENA_RECORDS_MAX - RECORDS_AT_ONCE) {
        atomic_fetch_sub(&a->n_records, RECORDS_AT_ONCE);
        return ZICO_E_LIMIT;
    }
    for (uint32_t i = first; i < first + RECORDS_AT_ONCE; i++) {
        a->record[i].next = h->records;
        h->records = i;
    }
    return ZICO_OK;
}

static uint32_t
new_record(zi_heap *h)
{
    uint32_t r = h->records;

    zi_assert(r != 0); /* reserved */
    h->records = h->arena->record[r].next;
    h->arena->record[r].heap = h->index;
    return r;
}

static void
drop_record(zi_heap *h, uint32_t r)
{
    zi_extent_set(&h->arena->record[r], ZI_EXTENT_NONE);
    h->arena->record[r].next = h->records;
    h->records = r;
}

/* -- bins ---------------------------------------------------------------------------------------- */

static void
bin_of(uint32_t n, uint32_t *ret_level, uint32_t *ret_step)
{
    if (n < ZI_BIN_STEPS) {
        *ret_level = 0;
        *ret_step = n;
        return;
    }
    uint32_t log = 31u - (uint32_t)__builtin_clz(n);
    *ret_level = log - 3;
    *ret_step = n >> (log - 4) & (ZI_BIN_STEPS - 1);
    if (*ret_level >= ZI_BIN_LEVELS) {
        *ret_level = ZI_BIN_LEVELS - 1;
        *ret_step = ZI_BIN_STEPS - 1;
    }
}

static void
bin_add(zi_heap *h, uint32_t r)
{
    zi_extent *record = h->arena->record;
    uint32_t   level, step;

    bin_of(record[r].n, &level, &step);
    uint32_t head = h->bin[level][step];
    record[r].next = head;
    record[r].prev = 0;
    if (head) record[head].prev = r;
    h->bin[level][step] = r;
    h->steps[level] |= (uint16_t)(1u << step);
    h->levels |= 1u << level;
}

static void
bin_remove(zi_heap *h, uint32_t r)
{
    zi_extent *record = h->arena->record;
    uint32_t   level, step;

    if (record[r].next) record[record[r].next].prev = record[r].prev;
    if (record[r].prev) {
        record[record[r].prev].next = record[r].next;
        return;
    }
    bin_of(record[r].n, &level, &step);
    h->bin[level][step] = record[r].next;
    if (record[r].next) return;
    h->steps[level] &= (uint16_t) ~(1u << step);
    if (!h->steps[level]) h->levels &= ~(1u << level);
}

/* -- extents ---------------------------------------------------------------------------------------- */

/* Write both boundary tags. */
static void
place(zi_heap *h, uint32_t r, uint32_t start, uint32_t n, zi_extent_state state)
{
    zi_arena  *a = h->arena;
    zi_extent *e = &a->record[r];

    e->start = start;
    e->n = n;
    zi_extent_set(e, state);
    *zi_arena_tag(a, start) = r;
    *zi_arena_tag(a, start + n - 1) = r;
    if (state == ZI_EXTENT_FREE) bin_add(h, r);
}

/* The free extent of this heap that covers granule g, an end of it; 0 if there is none. */
static uint32_t
free_neighbour(const zi_heap *h, uint64_t g)
{
    const zi_arena *a = h->arena;
    uint64_t        slot = g >> a->slot_shift;

    if (slot >= a->n_slots) return 0; /* also left of granule 0: g has wrapped */
    if (atomic_load_explicit(&a->slot[slot].heap, memory_order_relaxed) != h->index + 1)
        return 0;
    uint32_t r = *zi_arena_tag(a, g);
    return zi_extent_is(&a->record[r]) == ZI_EXTENT_FREE ? r : 0;
}

/* [start, start + n) becomes free, together with free neighbours.  Uses record r. */
static void
merge_in(zi_heap *h, uint32_t r, uint32_t start, uint32_t n)
{
    zi_arena *a = h->arena;
    uint32_t  left = free_neighbour(h, (uint64_t)start - 1);
    uint32_t  right = free_neighbour(h, (uint64_t)start + n);

    if (left) {
        bin_remove(h, left);
        start = a->record[left].start;
        n += a->record[left].n;
        drop_record(h, left);
    }
    if (right) {
        bin_remove(h, right);
        n += a->record[right].n;
        drop_record(h, right);
    }
    place(h, r, start, n, ZI_EXTENT_FREE);
}

/* Live granules of the regions under [start, start + n) change; counts those that become
 * empty or stop being so. */
static void
cover(zi_heap *h, uint32_t start, uint32_t n, bool live)
{
    zi_arena *a = h->arena;

    while (n > 0) {
        uint32_t slot = start >> a->slot_shift;
        uint32_t room = ((slot + 1) << a->slot_shift) - start;
        uint32_t part = n < room ? n : room;
        if (live) {
            if (a->slot[slot].live == 0) h->n_empty--;
            a->slot[slot].live += part;
        } else {
            zi_assert(a->slot[slot].live >= part);
            a->slot[slot].live -= part;
            if (a->slot[slot].live == 0) h->n_empty++;
        }
        start += part;
        n -= part;
    }
}

static uint32_t
align_up(uint32_t g, uint32_t align_g)
{
    return (g + align_g - 1) & ~(align_g - 1);
}

static bool
fits(const zi_extent *e, uint32_t n, uint32_t align_g)
{
    uint32_t at = align_up(e->start, align_g);
    return at - e->start <= e->n && e->n - (at - e->start) >= n;
}

/* The best of one bin: the smallest that fits, of equals the lowest. */
static uint32_t
best_of_bin(const zi_heap *h, uint32_t head, uint32_t n, uint32_t align_g)
{
    const zi_extent *record = h->arena->record;
    uint32_t         best = 0, looked = 0;

    for (uint32_t r = head; r && looked < SCAN; r = record[r].next, looked++) {
        if (!fits(&record[r], n, align_g)) continue;
        if (!best || record[r].n < record[best].n ||
            (record[r].n == record[best].n && record[r].start < record[best].start))
            best = r;
    }
    return best;
}

static uint32_t
find(const zi_heap *h, uint32_t n, uint32_t align_g)
{
    uint32_t level, step;

    bin_of(n, &level, &step);
    uint32_t steps = h->steps[level] & (~0u << step);
    uint32_t levels = h->levels & (level + 1 < 32 ? ~0u << (level + 1) : 0);
    for (;;) {
        while (steps) {
            step = (uint32_t)__builtin_ctz(steps);
            uint32_t r = best_of_bin(h, h->bin[level][step], n, align_g);
            if (r) return r;
            steps &= steps - 1;
        }
        if (!levels) return 0;
        level = (uint32_t)__builtin_ctz(levels);
        levels &= levels - 1;
        steps = h->steps[level];
    }
}

uint32_t
zi_heap_take(zi_heap *h, uint32_t n, uint32_t align_g)
{
    zi_arena *a = h->arena;
    uint32_t  r = find(h, n, align_g);

    if (!r) return 0;
    bin_remove(h, r);
    uint32_t start = a->record[r].start, end = start + a->record[r].n;
    uint32_t at = align_up(start, align_g);
    if (at > start) place(h, new_record(h), start, at - start, ZI_EXTENT_FREE);
    if (end > at + n) place(h, new_record(h), at + n, end - at - n, ZI_EXTENT_FREE);
    place(h, r, at, n, ZI_EXTENT_LIVE);
    cover(h, at, n, true);
    h->used_granules += n;
    h->n_blocks++;
    return r;
}

void
zi_heap_free(zi_heap *h, uint32_t r)
{
    uint32_t start = h->arena->record[r].start, n = h->arena->record[r].n;

    cover(h, start, n, false);
    h->used_granules -= n;
    h->n_blocks--;
    merge_in(h, r, start, n);
}

/* -- regions -------------------------------------------------------------------------------------------- */

void
zi_heap_add(zi_heap *h, zi_lease *lease)
{
    zi_arena *a = h->arena;
    uint32_t  slot = lease->slot;

    zi_assert(a->slot[slot].heap == 0 && lease->n_regions == 1);
    a->slot[slot].lease = lease;
    a->slot[slot].live = 0;
    atomic_store(&a->slot[slot].heap, (uint8_t)(h->index + 1));
    h->n_regions++;
    h->n_empty++;
    merge_in(h, new_record(h), slot << a->slot_shift, a->slot_granules);
}

/* The whole regions inside an extent, as first slot and how many. */
static uint32_t
whole_slots(const zi_arena *a, const zi_extent *e, uint32_t *ret_first)
{
    uint32_t first = align_up(e->start, a->slot_granules) >> a->slot_shift;
    uint32_t end = (e->start + e->n) >> a->slot_shift;

    *ret_first = first;
    return end > first ? end - first : 0;
}

/* The highest free extent with a whole region inside; 0 if there is none. */
static uint32_t
highest_empty(const zi_heap *h)
{
    const zi_arena *a = h->arena;
    uint32_t        level, step, first, best = 0;

    bin_of(a->slot_granules, &level, &step);
    for (; level < ZI_BIN_LEVELS; level++)
        for (uint32_t steps = h->steps[level]; steps; steps &= steps - 1)
            for (uint32_t r = h->bin[level][__builtin_ctz(steps)]; r;
                 r = a->record[r].next) {
                if (best && a->record[r].start < a->record[best].start) continue;
                if (whole_slots(a, &a->record[r], &first) > 0) best = r;
            }
    return best;
}

/* Cut the n highest whole regions out of free extent r. */
static void
cut_out(zi_heap *h, uint32_t r, uint32_t n, zi_lease **ret_leases)
{
    zi_arena *a = h->arena;
    uint32_t  first, start = a->record[r].start, end = start + a->record[r].n;
    uint32_t  n_whole = whole_slots(a, &a->record[r], &first);

    first += n_whole - n;
    bin_remove(h, r);
    drop_record(h, r);
    for (uint32_t i = 0; i < n; i++) {
        zi_assert(a->slot[first + i].live == 0);
        atomic_store(&a->slot[first + i].heap, 0);
        ret_leases[i] = a->slot[first + i].lease;
    }
    h->n_regions -= n;
    h->n_empty -= n;
    uint32_t low = first << a->slot_shift, high = (first + n) << a->slot_shift;
    if (low > start) place(h, new_record(h), start, low - start, ZI_EXTENT_FREE);
    if (end > high) place(h, new_record(h), high, end - high, ZI_EXTENT_FREE);
}

size_t
zi_heap_shed(zi_heap *h, uint32_t keep, zi_lease **ret_leases, size_t max)
{
    size_t n_out = 0;

    while (h->n_empty > keep && n_out < max && zi_heap_reserve(h) >= 0) {
        uint32_t r = highest_empty(h), first;
        zi_assert(r != 0);
        if (!r) break;
        size_t n = whole_slots(h->arena, &h->arena->record[r], &first);
        if (n > h->n_empty - keep) n = h->n_empty - keep;
        if (n > max - n_out) n = max - n_out;
        cut_out(h, r, (uint32_t)n, ret_leases + n_out);
        n_out += n;
    }
    return n_out;
}

/* arena_verify.c -- the arena's numbered invariants (arena.h), checked by walking it.
 *
 * Blocks in a thread's hand and blocks that wait for another stream count as live here:
 * their memory is not free.  Call it while nobody else allocates.
 */
#include "client/arena_inside.h"

#include "base/alloc.h"

typedef struct walk {
    const zi_arena *a;
    zi_heap        *h;
    uint32_t        n_free, n_binned, n_blocks;
    uint64_t        used;
    uint32_t        n_regions, n_empty;
    int             bad; /* the invariant that does not hold */
} walk;

static bool
is_ours(const walk *w, uint32_t slot)
{
    return slot < w->a->n_slots && w->a->slot[slot].heap == w->h->index + 1;
}

static uint32_t
overlap(const zi_extent *e, uint32_t low, uint32_t high)
{
    uint32_t from = e->start > low ? e->start : low;
    uint32_t to = e->start + e->n < high ? e->start + e->n : high;
    return to > from ? to - from : 0;
}

/* All extents of one span of adjacent regions, from its left end. */
static void
walk_span(walk *w, uint32_t first, uint32_t end, uint32_t *live)
{
    const zi_arena *a = w->a;
    uint32_t        at = first << a->slot_shift, stop = end << a->slot_shift;
    bool            left_free = false;

    while (at < stop && !w->bad) {
        const zi_extent *e = &a->record[*zi_arena_tag(a, at)];
        bool             is_free = zi_extent_is(e) == ZI_EXTENT_FREE;
        if (e->start != at || e->n == 0 || e->n > stop - at || e->heap != w->h->index ||
            *zi_arena_tag(a, at + e->n - 1) != *zi_arena_tag(a, at) ||
            zi_extent_is(e) == ZI_EXTENT_NONE)
            w->bad = 1;
        else if (is_free && left_free)
            w->bad = 2;
        else {
            for (uint32_t s = e->start >> a->slot_shift;
                 !is_free && s <= (e->start + e->n - 1) >> a->slot_shift; s++)
                live[s] += overlap(e, s << a->slot_shift, (s + 1) << a->slot_shift);
            w->n_free += is_free;
            w->n_blocks += !is_free;
            w->used += is_free ? 0 : e->n;
            left_free = is_free;
            at += e->n;
        }
    }
}

static void
count_bins(walk *w)
{
    for (uint32_t l = 0; l < ZI_BIN_LEVELS; l++)
        for (uint32_t s = 0; s < ZI_BIN_STEPS; s++) {
            bool marked = w->h->steps[l] >> s & 1 && w->h->levels >> l & 1;
            if (marked != (w->h->bin[l][s] != 0)) w->bad = 2;
            for (uint32_t r = w->h->bin[l][s]; r; r = w->a->record[r].next) {
                w->n_binned++;
                if (zi_extent_is(&w->a->record[r]) != ZI_EXTENT_FREE) w->bad = 2;
            }
        }
}

static void
verify_heap(walk *w, uint32_t *live)
{
    const zi_arena *a = w->a;

    for (uint32_t slot = 0; slot < a->n_slots && !w->bad;) {
        uint32_t end = slot;
        while (is_ours(w, end)) live[end++] = 0;
        if (end > slot) walk_span(w, slot, end, live);
        for (; slot < end; slot++) {
            w->n_regions++;
            w->n_empty += live[slot] == 0;
            if (live[slot] != a->slot[slot].live && !w->bad) w->bad = 2;
        }
        if (end < a->n_slots) slot++;
    }
    count_bins(w);
    if (w->bad) return;
    if (w->n_free != w->n_binned || w->used != w->h->used_granules ||
        w->n_blocks != w->h->n_blocks)
        w->bad = 2;
    else if (w->n_regions != w->h->n_regions || w->n_empty != w->h->n_empty ||
             (w->n_empty > a->keep && !w->h->unfenced))
        w->bad = 3;
}

zico_status
zi_arena_verify(zi_arena *a, int *ret_invariant)
{
    uint32_t *live = zi_calloc(a->n_slots, sizeof *live);
    walk      w = {0};

    if (!live) return ZICO_E_NOMEM;
    for (unsigned i = 0; i < ZI_ARENA_HEAPS_MAX && !w.bad; i++) {
        w = (walk){.a = a, .h = &a->heap[i]};
        pthread_mutex_lock(&w.h->mu);
        verify_heap(&w, live);
        pthread_mutex_unlock(&w.h->mu);
    }
    zi_free(live);
    if (w.bad && ret_invariant) *ret_invariant = w.bad;
    return w.bad ? ZICO_E_CORRUPT : ZICO_OK;
}

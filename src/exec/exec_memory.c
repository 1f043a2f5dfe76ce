/* exec_memory.c -- memory for slots: leased in a session, else one private mapping.
 *
 * Without a session the slots are packed into one mapping: slots that are never open at the
 * same time may share addresses (largest first, each at the lowest address that is free for
 * as long as it is open).
 *
 * In a session all fixed slots lie in one lease, so that a job has either all that it keeps or
 * nothing: two that come in at the same time cannot each wait for what the other has got.
 */
#include "exec/exec_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

char *
exec_at(const exec_run *r, exec_ref ref)
{
    return ref.slot == EXEC_NOWHERE ? NULL : r->base[ref.slot] + ref.offset;
}

/* -- private ------------------------------------------------------------------------------ */

typedef struct packed {
    uint64_t at, size_bytes;
    uint32_t first, last, slot;
} packed;

static int
larger_first(const void *a, const void *b)
{
    const packed *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    return x->slot < y->slot ? -1 : 1;
}

static int
lower_first(const void *a, const void *b)
{
    const packed *x = *(packed *const *)a, *y = *(packed *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The lowest address at which `p` meets none of the n placed ones that it meets in time. */
static uint64_t
lowest_gap(const packed *p, packed *placed, uint32_t n, packed **near)
{
    uint32_t m = 0;
    uint64_t at = 0;

    for (uint32_t i = 0; i < n; i++)
        if (placed[i].first <= p->last && p->first <= placed[i].last)
            near[m++] = &placed[i];
    qsort(near, m, sizeof *near, lower_first);
    for (uint32_t i = 0; i < m; i++) {
        if (near[i]->at >= at + p->size_bytes) break;
        if (near[i]->at + near[i]->size_bytes > at)
            at = near[i]->at + near[i]->size_bytes;
    }
    return at;
}

static zico_status
pack_slots(const zi_plan *plan, uint64_t *ret_at, uint64_t *ret_total)
{
    packed  *p = zi_calloc(plan->n_slots + 1u, sizeof *p);
    packed **near = zi_calloc(plan->n_slots + 1u, sizeof *near);

    if (!p || !near) {
        zi_free(p);
        zi_free(near);
        return ZICO_E_NOMEM;
    }
    for (uint32_t s = 0; s < plan->n_slots; s++)
        p[s] = (packed){.size_bytes = plan->slots[s].size_bytes,
                        .first = plan->slots[s].first,
                        .last = plan->slots[s].fixed ? UINT32_MAX : plan->slots[s].last,
                        .slot = s};
    qsort(p, plan->n_slots, sizeof *p, larger_first);
    *ret_total = 0;
    for (uint32_t s = 0; s < plan->n_slots; s++) {
        p[s].at = lowest_gap(&p[s], p, s, near);
        ret_at[p[s].slot] = p[s].at;
        if (p[s].at + p[s].size_bytes > *ret_total)
            *ret_total = p[s].at + p[s].size_bytes;
    }
    zi_free(p);
    zi_free(near);
    return ZICO_OK;
}

#define HUGE_PAGE (2ull << 20)

static zico_status
open_private(zi_exec *e)
{
    uint64_t *at = zi_calloc(e->plan->n_slots + 1u, sizeof *at);
    uint64_t  total = 0;
    void     *base = NULL;

    if (!at) return ZICO_E_NOMEM;
    zico_status st = pack_slots(e->plan, at, &total);
    e->memory_bytes = (total + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
    if (st >= 0)
        st = zi_os_status(e->os->map(e->os, NULL, e->memory_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0,
                                     &base));
    if (st < 0) {
        zi_free(at);
        return st;
    }
    e->memory = base;
    e->fresh = true;
    char *from = (char *)(((uintptr_t)base + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    e->os->advise(e->os, from, e->memory_bytes - HUGE_PAGE, MADV_HUGEPAGE); /* or not */
    for (uint32_t r = 0; r < e->n_runs; r++)
        for (uint32_t s = 0; s < e->plan->n_slots; s++) e->runs[r].base[s] = from + at[s];
    e->place.peak_slot_bytes = total;
    zi_free(at);
    return ZICO_OK;
}

/* -- in a session --------------------------------------------------------------------------- */

static uint64_t
lease_wait(const zi_exec *e)
{
    return e->opt.lease_wait_ns ? e->opt.lease_wait_ns : UINT64_MAX;
}

static zico_status
lease_slot(zi_exec *e, uint32_t s)
{
    const zi_slot *w = &e->plan->slots[s];

    ZI_TRY(zi_session_lease(e->session, ZICO_CLASS_STEP, w->size_bytes, 0, lease_wait(e),
                            &e->leases[s]));
    zi_assert(e->leases[s]->size_bytes >= w->size_bytes);
    return ZICO_OK;
}

/* Whole pages each, so that they can go to a file and back past the page cache. */
static uint64_t
paged(uint64_t bytes)
{
    return (bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
}

static void
bind_fixed(zi_exec *e)
{
    uint64_t at = 0;

    for (uint32_t s = 0; s < e->plan->n_slots; s++) {
        if (!e->plan->slots[s].fixed) continue;
        for (uint32_t r = 0; r < e->n_runs; r++)
            e->runs[r].base[s] = (char *)e->fixed->base + at;
        at += paged(e->plan->slots[s].size_bytes);
    }
    for (uint32_t f = 0; f < e->n_feeds; f++) /* entries 1 .. have memory of their own */
        e->runs[0].base[e->plan->n_slots + f] = exec_at(&e->runs[0], e->feeds[f].home);
}

zico_status
exec_fixed_open(zi_exec *e)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < e->plan->n_slots; s++)
        if (e->plan->slots[s].fixed) sum += paged(e->plan->slots[s].size_bytes);
    e->fixed_bytes = sum;
    if (sum == 0) return ZICO_OK;
    ZI_TRY(
        zi_session_lease(e->session, ZICO_CLASS_FIXED, sum, 0, lease_wait(e), &e->fixed));
    zi_assert(e->fixed->size_bytes >= sum);
    bind_fixed(e);
    return ZICO_OK;
}

void
exec_fixed_close(zi_exec *e)
{
    if (e->fixed) zi_session_give_back(e->session, e->fixed, NULL);
    e->fixed = NULL;
}

static zico_status
open_leases(zi_exec *e)
{
    const uint32_t n = e->plan->n_slots;

    e->leases = zi_calloc(n + 1u, sizeof *e->leases);
    e->slot_fence = zi_calloc(n + 1u, sizeof *e->slot_fence);
    if (!e->leases || !e->slot_fence) return ZICO_E_NOMEM;
    for (uint32_t s = 0; s < n; s++) {
        ZI_TRY(e->dev->ops->fence_new(e->dev, &e->slot_fence[s]));
    }
    ZI_TRY(exec_fixed_open(e));
    if (e->fixed) memset(e->fixed->base, 0, e->fixed_bytes);
    for (uint32_t i = 0; i < EXEC_LEAD; i++)
        ZI_TRY(e->dev->ops->fence_new(e->dev, &e->lead[i]));
    return ZICO_OK;
}

zico_status
exec_slots_open(zi_exec *e, exec_run *r, const exec_piece *p)
{
    if (!e->session) return ZICO_OK;
    for (uint32_t i = 0; i < p->n_open; i++) {
        const uint32_t s = e->open_at[p->first_open + i];
        ZI_TRY(lease_slot(e, s));
        r->base[s] = e->leases[s]->base;
    }
    return ZICO_OK;
}

void
exec_slots_close(zi_exec *e, const exec_piece *p)
{
    if (!e->session) return;
    for (uint32_t i = 0; i < p->n_close; i++) {
        const uint32_t s = e->close_at[p->first_close + i];
        if (!e->leases[s]) continue;
        zi_fence *f = e->slot_fence[s];
        if (e->dev->ops->fence_record(f, e->compute) < 0) f = NULL;
        zi_session_give_back(e->session, e->leases[s], f);
        e->leases[s] = NULL; /* r->base[s] stays: queued work still looks there */
    }
}

/* -- fed tensors ----------------------------------------------------------------------------- */

static zico_status
open_feeds(zi_exec *e)
{
    for (uint32_t f = 0; f < e->n_feeds; f++) {
        exec_feed_slot *w = &e->feeds[f];
        const uint64_t  size =
            (w->bytes + ZI_EXEC_ALIGN - 1) / ZI_EXEC_ALIGN * ZI_EXEC_ALIGN;
        if (e->n_runs > 1) {
            w->extra = aligned_alloc(ZI_EXEC_ALIGN, size * (e->n_runs - 1));
            if (!w->extra) return ZICO_E_NOMEM;
            memset(w->extra, 0, size * (e->n_runs - 1));
        }
        for (uint32_t r = 0; r < e->n_runs; r++)
            e->runs[r].base[e->plan->n_slots + f] =
                r == 0 ? e->runs[0].base[w->home.slot] + w->home.offset
                       : w->extra + size * (r - 1);
    }
    return ZICO_OK;
}

zico_status
exec_memory_open(zi_exec *e)
{
    for (uint32_t r = 0; r < e->n_runs; r++) {
        e->runs[r].base =
            zi_calloc(e->plan->n_slots + e->n_feeds + 1u, sizeof *e->runs[r].base);
        if (!e->runs[r].base) return ZICO_E_NOMEM;
    }
    if (e->session)
        ZI_TRY(open_leases(e));
    else
        ZI_TRY(open_private(e));
    return open_feeds(e);
}

void
exec_memory_close(zi_exec *e)
{
    if (e->memory) e->os->unmap(e->os, e->memory, e->memory_bytes);
    exec_fixed_close(e);
    for (uint32_t s = 0; e->plan && s < e->plan->n_slots; s++) {
        if (e->leases && e->leases[s])
            zi_session_give_back(e->session, e->leases[s], NULL);
        if (e->slot_fence && e->slot_fence[s]) e->dev->ops->fence_free(e->slot_fence[s]);
    }
    for (uint32_t i = 0; i < EXEC_LEAD; i++)
        if (e->lead[i]) e->dev->ops->fence_free(e->lead[i]);
    for (uint32_t f = 0; f < e->n_feeds; f++) free(e->feeds[f].extra);
    for (uint32_t r = 0; r < ZI_EXEC_AHEAD_MAX; r++) zi_free(e->runs[r].base);
    zi_free(e->leases);
    zi_free(e->slot_fence);
}

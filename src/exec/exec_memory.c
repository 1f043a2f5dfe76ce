/* exec_memory.c -- memory for slots: leased in a session, else two private mappings.
 *
 * Without a session fixed slots lie in a mapping that stays, and the others are packed into
 * one that goes with the plan: slots that are never open at the same time may share addresses
 * (largest first, each at the lowest address that is free for as long as it is open).
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
    return ref.slot == EXEC_NOWHERE ? NULL : r->lane->base[ref.slot] + ref.offset;
}

static uint64_t
feed_room(const exec_feed_slot *w)
{
    return (w->bytes + ZI_EXEC_ALIGN - 1) / ZI_EXEC_ALIGN * ZI_EXEC_ALIGN;
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

/* Slots that are not fixed. */
static zico_status
pack_slots(const zi_plan *plan, uint64_t *ret_at, uint64_t *ret_total)
{
    packed  *p = zi_calloc(plan->n_slots + 1u, sizeof *p);
    packed **near = zi_calloc(plan->n_slots + 1u, sizeof *near);
    uint32_t n = 0;

    if (!p || !near) {
        zi_free(p);
        zi_free(near);
        return ZICO_E_NOMEM;
    }
    for (uint32_t s = 0; s < plan->n_slots; s++)
        if (!plan->slots[s].fixed)
            p[n++] = (packed){.size_bytes = plan->slots[s].size_bytes,
                              .first = plan->slots[s].first,
                              .last = plan->slots[s].last,
                              .slot = s};
    qsort(p, n, sizeof *p, larger_first);
    *ret_total = 0;
    for (uint32_t s = 0; s < n; s++) {
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

static char *
first_huge(char *base)
{
    return (char *)(((uintptr_t)base + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

/* Pages that count when they are touched; ret_bytes is what must be unmapped. */
static zico_status
map_pages(zi_exec *e, uint64_t n_bytes, char **ret_base, uint64_t *ret_bytes)
{
    void          *base = NULL;
    const uint64_t bytes = (n_bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;

    ZI_TRY(zi_os_status(e->os->map(e->os, NULL, bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0,
                                   &base)));
    *ret_base = base;
    *ret_bytes = bytes;
    e->os->advise(e->os, first_huge(base), bytes - HUGE_PAGE, MADV_HUGEPAGE); /* or not */
    return ZICO_OK;
}

static zico_status
open_private_fixed(zi_exec *e)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++)
        if (e->prog.plan->slots[s].fixed) sum += e->prog.plan->slots[s].size_bytes;
    e->fixed_bytes = sum;
    ZI_TRY(map_pages(e, sum, &e->memory, &e->memory_bytes));
    e->fresh = true;
    return ZICO_OK;
}

static zico_status
open_private_slots(zi_exec *e)
{
    const zi_plan *plan = e->prog.plan;
    uint64_t      *at = zi_calloc(plan->n_slots + 1u, sizeof *at);
    uint64_t       total = 0, fixed = 0;

    if (!at) return ZICO_E_NOMEM;
    zico_status st = pack_slots(plan, at, &total);
    if (st >= 0) st = map_pages(e, total, &e->prog.memory, &e->prog.memory_bytes);
    for (uint32_t s = 0; st >= 0 && s < plan->n_slots; s++) {
        char *base = first_huge(plan->slots[s].fixed ? e->memory : e->prog.memory);
        base += plan->slots[s].fixed ? fixed : at[s];
        if (plan->slots[s].fixed) fixed += plan->slots[s].size_bytes;
        for (uint32_t r = 0; r < e->n_runs; r++) e->prog.lane[r].base[s] = base;
    }
    zi_free(at);
    if (st < 0) return st;
    e->prog.place.peak_slot_bytes = fixed + total;
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
    const zi_slot *w = &e->prog.plan->slots[s];

    ZI_TRY(zi_session_lease(e->session, ZICO_CLASS_STEP, w->size_bytes, 0, lease_wait(e),
                            &e->prog.leases[s]));
    zi_assert(e->prog.leases[s]->size_bytes >= w->size_bytes);
    return ZICO_OK;
}

/* Whole pages each, so that they can go to a file and back past the page cache. */
uint64_t
exec_paged(uint64_t bytes)
{
    return (bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
}

/* Entry 0 lies where the plan placed it, entries 1 .. have memory of their own. */
static void
bind_feeds(zi_exec *e)
{
    for (uint32_t f = 0; f < e->n_feeds; f++) {
        const exec_feed_slot *w = &e->feeds[f];
        for (uint32_t r = 0; r < e->n_runs; r++)
            e->prog.lane[r].base[e->prog.plan->n_slots + f] =
                r == 0 ? exec_at(&e->runs[0], w->home)
                       : w->extra + feed_room(w) * (r - 1);
    }
}

static void
bind_fixed(zi_exec *e)
{
    uint64_t at = 0;

    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++) {
        if (!e->prog.plan->slots[s].fixed) continue;
        for (uint32_t r = 0; r < e->n_runs; r++)
            e->prog.lane[r].base[s] = (char *)e->fixed->base + at;
        at += exec_paged(e->prog.plan->slots[s].size_bytes);
    }
    bind_feeds(e);
}

zico_status
exec_fixed_open(zi_exec *e, unsigned flags)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++)
        if (e->prog.plan->slots[s].fixed)
            sum += exec_paged(e->prog.plan->slots[s].size_bytes);
    e->fixed_bytes = sum;
    if (sum == 0) return ZICO_OK;
    ZI_TRY(zi_session_lease(e->session, ZICO_CLASS_FIXED, sum, flags, lease_wait(e),
                            &e->fixed));
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
open_leased_fixed(zi_exec *e)
{
    ZI_TRY(exec_fixed_open(e, 0));
    if (e->fixed) memset(e->fixed->base, 0, e->fixed_bytes);
    for (uint32_t i = 0; i < EXEC_LEAD; i++)
        ZI_TRY(e->dev->ops->fence_new(e->dev, &e->lead[i]));
    return ZICO_OK;
}

static zico_status
open_leased_slots(zi_exec *e)
{
    const uint32_t n = e->prog.plan->n_slots;

    e->prog.leases = zi_calloc(n + 1u, sizeof *e->prog.leases);
    e->prog.slot_fence = zi_calloc(n + 1u, sizeof *e->prog.slot_fence);
    if (!e->prog.leases || !e->prog.slot_fence) return ZICO_E_NOMEM;
    for (uint32_t s = 0; s < n; s++)
        ZI_TRY(e->dev->ops->fence_new(e->dev, &e->prog.slot_fence[s]));
    if (e->fixed) bind_fixed(e);
    return ZICO_OK;
}

zico_status
exec_slots_open(zi_exec *e, exec_run *r, const exec_piece *p)
{
    if (!e->session) return ZICO_OK;
    for (uint32_t i = 0; i < p->n_open; i++) {
        const uint32_t s = e->prog.open_at[p->first_open + i];
        ZI_TRY(lease_slot(e, s));
        r->lane->base[s] = e->prog.leases[s]->base;
    }
    return ZICO_OK;
}

void
exec_slots_close(zi_exec *e, const exec_piece *p)
{
    if (!e->session) return;
    for (uint32_t i = 0; i < p->n_close; i++) {
        const uint32_t s = e->prog.close_at[p->first_close + i];
        if (!e->prog.leases[s]) continue;
        zi_fence *f = e->prog.slot_fence[s];
        if (e->dev->ops->fence_record(f, e->compute) < 0) f = NULL;
        zi_session_give_back(e->session, e->prog.leases[s], f);
        e->prog.leases[s] =
            NULL; /* r->lane->base[s] stays: queued work still looks there */
    }
}

void
exec_slots_close_all(zi_exec *e)
{
    for (uint32_t s = 0; e->prog.leases && s < e->prog.plan->n_slots; s++) {
        if (!e->prog.leases[s]) continue;
        zi_session_give_back(e->session, e->prog.leases[s], NULL);
        e->prog.leases[s] = NULL;
    }
}

/* -- all of it -------------------------------------------------------------------------------- */

static zico_status
open_feeds(zi_exec *e)
{
    for (uint32_t f = 0; f < e->n_feeds && e->n_runs > 1; f++) {
        exec_feed_slot *w = &e->feeds[f];
        const uint64_t  size = feed_room(w) * (e->n_runs - 1);
        w->extra = aligned_alloc(ZI_EXEC_ALIGN, size);
        if (!w->extra) return ZICO_E_NOMEM;
        memset(w->extra, 0, size);
    }
    return ZICO_OK;
}

zico_status
exec_memory_open(zi_exec *e)
{
    if (e->has_memory) return ZICO_OK; /* fixed slots stay where they are */
    ZI_TRY(open_feeds(e));
    ZI_TRY(e->session ? open_leased_fixed(e) : open_private_fixed(e));
    e->has_memory = true;
    return ZICO_OK;
}

zico_status
exec_slots_memory(zi_exec *e)
{
    ZI_TRY(e->session ? open_leased_slots(e) : open_private_slots(e));
    bind_feeds(e);
    return ZICO_OK;
}

void
exec_slots_release(zi_exec *e, exec_prog *p)
{
    if (p->memory) e->os->unmap(e->os, p->memory, p->memory_bytes);
    for (uint32_t s = 0; p->plan && s < p->plan->n_slots; s++) {
        if (p->leases && p->leases[s])
            zi_session_give_back(e->session, p->leases[s], NULL);
        if (p->slot_fence && p->slot_fence[s]) e->dev->ops->fence_free(p->slot_fence[s]);
    }
    zi_free(p->leases);
    zi_free(p->slot_fence);
}

void
exec_memory_close(zi_exec *e)
{
    if (e->memory) e->os->unmap(e->os, e->memory, e->memory_bytes);
    exec_fixed_close(e);
    for (uint32_t i = 0; i < EXEC_LEAD; i++)
        if (e->lead[i]) e->dev->ops->fence_free(e->lead[i]);
    for (uint32_t f = 0; f < e->n_feeds; f++) free(e->feeds[f].extra);
}

/* lease.c -- regions as address space: taking, stitching, giving back.
 *
 * The space has two slots for each region of the pool:
 *
 *     slot 0 .. n-1      region i at slot i, mapped once: most leases; or private memory, if a lease
 *                        left the pool from there (move.c): region i is then stitched
 *     slot n .. 2n-1     what has no such place: scattered regions side by side
 *                        ("stitched"), private memory while the broker is gone
 *
 * INVARIANTS (mu held)
 *   C1  region_state HELD: in exactly one lease, or in the queue of returns
 *   C2  leased_bytes counts every lease not yet returned, outside ones included
 *   C3  a lease in the queue of returns is in nobody's hands
 */
#include "client/session_inside.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <string.h>
#include <sys/mman.h>

static char *
slot_address(const zi_session *s, uint32_t slot)
{
    return s->base + (uint64_t)slot * s->shape.region_bytes;
}

zico_status
zi_lease_space_open(zi_session *s)
{
    zi_access access = s->opt.guard ? ZI_ACCESS_NONE : ZI_ACCESS_WRITE;
    void     *base;

    s->n_slots = 2 * s->shape.n_regions;
    s->returns_tail = &s->returns;
    s->slots = zi_calloc(s->n_slots, sizeof *s->slots);
    s->region_state = zi_calloc(s->shape.n_regions, 1);
    s->populated = zi_calloc(s->shape.n_regions, 1);
    if (!s->slots || !s->region_state || !s->populated) return ZICO_E_NOMEM;
    ZI_TRY(s->ops->space_reserve(s->dev, s->n_slots * s->shape.region_bytes, &base));
    s->base = base;
    return s->ops->space_map(s->pool, 0, s->shape.n_regions, base, access);
}

void
zi_lease_space_close(zi_session *s)
{
    if (s->base)
        s->ops->space_release(s->dev, s->base, s->n_slots * s->shape.region_bytes);
    s->base = NULL;
    zi_free(s->slots);
    zi_free(s->region_state);
    zi_free(s->populated);
}

/* -- counting ------------------------------------------------------------------------------ */

void
zi_lease_count_peak(zi_session *s)
{
    uint64_t now = s->stats.leased_bytes + s->private_bytes;
    if (now > s->stats.peak_bytes) s->stats.peak_bytes = now;
}

/* A job that holds until the step ends has one tide: up to all it held, down at the end. */
void
zi_lease_note_held(zi_session *s, uint64_t at_ns)
{
    uint64_t now = s->step_bytes + s->n_stock * s->shape.region_bytes;
    if (now <= s->held_bytes) return;
    zi_tide_recorder_add(s->recorder, at_ns, (int64_t)(now - s->held_bytes));
    s->held_bytes = now;
}

void
zi_lease_count(zi_session *s, zico_class cls, int64_t delta_bytes, uint64_t at_ns)
{
    s->stats.leased_bytes += (uint64_t)delta_bytes;
    zi_lease_count_peak(s);
    if (cls == ZICO_CLASS_FIXED) return;
    s->step_bytes += (uint64_t)delta_bytes;
    if (s->step_bytes > s->step_peak_bytes) s->step_peak_bytes = s->step_bytes;
    if (!s->in_step) return;
    if (s->opt.hold_step) {
        zi_lease_note_held(s, at_ns);
        return;
    }
    if (delta_bytes < 0) s->stats.exchanged_bytes += (uint64_t)-delta_bytes;
    if (!s->tide_by_caller) zi_tide_recorder_add(s->recorder, at_ns, delta_bytes);
}

/* -- giving back --------------------------------------------------------------------------- */

void
zi_lease_flush(zi_session *s)
{
    if (s->n_out == 0) return;
    if (s->state == ZI_LINK_JOINED) {
        zi_msg_give_back *m = &zi_link_message(s, ZI_MSG_RETURN)->give_back;
        m->at_ns = s->os->now_ns(s->os);
        m->n_runs = s->n_out;
        memcpy(m->runs, s->out, s->n_out * sizeof *s->out);
        zi_link_send(s, NULL, 0);
    } /* else: the successor's table shows them as ours, and rejoin.c returns them */
    s->n_out = 0;
}

/* Regions [first, first + n) are no longer ours. */
static void
put_out(zi_session *s, uint32_t first, uint32_t n)
{
    memset(s->region_state + first, ZI_REGION_OTHERS, n);
    s->stats.n_returns += n;
    if (s->state == ZI_LINK_LOCAL) {
        zi_local_give(s, first, n);
        return;
    }
    if (s->n_out > 0 && s->out[s->n_out - 1].first + s->out[s->n_out - 1].n == first) {
        s->out[s->n_out - 1].n += n;
        return;
    }
    s->out[s->n_out++] = (zi_run){first, n};
    if (s->n_out == sizeof s->out / sizeof *s->out) zi_lease_flush(s);
}

/* A region that the device has finished with goes back, or waits for this job's next need. */
static void
put_by(zi_session *s, zico_class cls, uint32_t first, uint32_t n)
{
    if (!s->opt.hold_step || !s->in_step || cls == ZICO_CLASS_FIXED) {
        put_out(s, first, n);
        return;
    }
    memset(s->region_state + first, ZI_REGION_STOCK, n);
    s->n_stock += n;
    s->stats.leased_bytes += n * s->shape.region_bytes;
}

void
zi_lease_drop_runs(zi_session *s, const zi_run *runs, uint32_t n_runs)
{
    for (uint32_t i = 0; i < n_runs; i++) put_out(s, runs[i].first, runs[i].n);
}

void
zi_lease_uncharge(zi_session *s, uint64_t size_bytes)
{
    s->outside_bytes -= size_bytes;
    pthread_cond_broadcast(&s->changed);
    if (s->uncharged_bytes >= size_bytes) { /* the broker never heard of it */
        s->uncharged_bytes -= size_bytes;
    } else if (s->state == ZI_LINK_JOINED) {
        zi_link_message(s, ZI_MSG_UNCHARGE)->uncharge.size_bytes = size_bytes;
        zi_link_send(s, NULL, 0);
    }
}

/* Slots of private memory are what they were before.  False: they cannot be, and stay out of use. */
static bool
show_again(zi_session *s, const zi_lease *l)
{
    zi_access access = s->opt.guard ? ZI_ACCESS_NONE : ZI_ACCESS_WRITE;

    if (l->slot >= s->shape.n_regions) {
        s->ops->space_unmap(s->dev, l->base, l->size_bytes);
        return true;
    }
    memset(s->populated + l->slot, 0, l->n_regions);
    return s->ops->space_map(s->pool, l->slot, l->n_regions, l->base, access) >= 0;
}

static void
finish_outside(zi_session *s, zi_slot *first, uint64_t at_ns)
{
    zi_lease *l = &first->lease;
    bool      again = show_again(s, l);

    if (first->away) {
        s->away_bytes -= l->size_bytes;
    } else {
        zi_lease_uncharge(s, l->size_bytes);
        zi_lease_count(s, l->cls, -(int64_t)l->size_bytes, at_ns);
    }
    first->away = false;
    for (uint32_t i = 0; i < l->n_regions; i++) first[i].used = !again;
}

/* The lease that starts at this slot is finished with, device and all. */
static void
finish(zi_session *s, zi_slot *first, uint64_t at_ns)
{
    zi_lease *l = &first->lease;

    if (l->outside) {
        finish_outside(s, first, at_ns);
        return;
    }
    if (l->stitched) {
        s->ops->space_unmap(s->dev, l->base, l->size_bytes);
        for (uint32_t i = 0; i < l->n_regions; i++) put_by(s, l->cls, first[i].region, 1);
    } else {
        if (s->opt.guard)
            s->ops->space_access(s->dev, l->base, l->size_bytes, ZI_ACCESS_NONE);
        put_by(s, l->cls, l->slot, l->n_regions);
    }
    zi_lease_count(s, l->cls, -(int64_t)l->size_bytes, at_ns);
    for (uint32_t i = 0; i < l->n_regions; i++) first[i].used = false;
}

static bool
is_watched(const zi_session *s, const zi_fence *f)
{
    for (const zi_slot *q = s->returns; q; q = q->next)
        if (q->after == f) return true;
    return false;
}

void
zi_lease_finish_returns(zi_session *s)
{
    zi_slot **at = &s->returns;

    while (*at) {
        zi_slot  *q = *at;
        zi_fence *f = q->after;
        if (!s->ops->fence_passed(f, q->mark)) {
            at = &q->next;
            continue;
        }
        uint64_t when = s->ops->fence_time_ns(f);
        *at = q->next;
        if (!q->next) s->returns_tail = at;
        q->after = NULL;
        finish(s, q, when ? when : s->os->now_ns(s->os));
        if (!is_watched(s, f)) s->ops->fence_notify(f, -1);
        s->ops->fence_free(f);
    }
    zi_lease_flush(s);
}

/* The notification is set before the fence is looked at, so that its completion is seen by
 * one of the two. */
static void
queue_return(zi_session *s, zi_slot *q, zi_fence *after)
{
    q->after = s->ops->fence_keep(after);
    q->mark = s->ops->fence_mark(after);
    q->next = NULL;
    *s->returns_tail = q;
    s->returns_tail = &q->next;
    s->ops->fence_notify(after, s->wake_fd);
}

void
zi_session_give_back_all(zi_session *s, zi_lease *const *leases, size_t n,
                         zi_fence *after)
{
    if (n == 0 || !zi_session_usable(s)) return;
    uint64_t now = s->os->now_ns(s->os);

    pthread_mutex_lock(&s->mu);
    for (size_t i = 0; i < n; i++) {
        zi_slot *q = &s->slots[leases[i]->slot];
        zi_assert(q->held && &q->lease == leases[i]); /* C3 */
        if (!q->held) continue;
        q->held = false;
        if (after && !s->ops->fence_done(after))
            queue_return(s, q, after);
        else
            finish(s, q, now);
    }
    zi_lease_finish_returns(s);
    pthread_mutex_unlock(&s->mu);
}

void
zi_session_give_back(zi_session *s, zi_lease *lease, zi_fence *after)
{
    if (lease) zi_session_give_back_all(s, &lease, 1, after);
}

/* -- taking -------------------------------------------------------------------------------- */

static zi_lease *
note_lease(zi_session *s, uint32_t slot, uint32_t n, zico_class cls)
{
    zi_slot *first = &s->slots[slot];

    for (uint32_t i = 0; i < n; i++) {
        zi_assert(!first[i].used); /* C1 */
        first[i].used = true;
        first[i].region = ZI_SESSION_NO_REGION;
    }
    first->held = true;
    first->lease = (zi_lease){.base = slot_address(s, slot),
                              .size_bytes = n * s->shape.region_bytes,
                              .cls = cls,
                              .n_regions = n,
                              .slot = slot};
    zi_lease_count(s, cls, (int64_t)first->lease.size_bytes, s->os->now_ns(s->os));
    return &first->lease;
}

/* n free slots behind the pool's own; n_slots if there are none. */
static uint32_t
find_slots(const zi_session *s, uint32_t n)
{
    uint32_t len = 0;

    for (uint32_t i = s->shape.n_regions; i < s->n_slots; i++) {
        len = s->slots[i].used ? 0 : len + 1;
        if (len == n) return i + 1 - n;
    }
    return s->n_slots;
}

/* Scattered regions, side by side. */
static zico_status
stitch(zi_session *s, zico_class cls, const zi_pending *p, zi_lease **ret_lease)
{
    uint32_t    slot = find_slots(s, p->n_regions), at = slot;
    zico_status st = slot < s->n_slots ? ZICO_OK : ZICO_E_NOMEM;

    for (uint32_t i = 0; i < p->n_runs && st >= 0; i++) {
        st = s->ops->space_map(s->pool, p->runs[i].first, p->runs[i].n,
                               slot_address(s, at), ZI_ACCESS_WRITE);
        at += p->runs[i].n;
    }
    if (st < 0) {
        if (slot < s->n_slots)
            s->ops->space_unmap(s->dev, slot_address(s, slot),
                                p->n_regions * s->shape.region_bytes);
        return st;
    }
    zi_lease *l = note_lease(s, slot, p->n_regions, cls);
    l->stitched = true;
    at = slot;
    for (uint32_t i = 0; i < p->n_runs; i++)
        for (uint32_t k = 0; k < p->runs[i].n; k++)
            s->slots[at++].region = p->runs[i].first + k;
    *ret_lease = l;
    return ZICO_OK;
}

static zico_status
show_run(zi_session *s, zico_class cls, zi_run run, zi_lease **ret_lease)
{
    if (s->opt.guard)
        ZI_TRY(s->ops->space_access(s->dev, slot_address(s, run.first),
                                    run.n * s->shape.region_bytes, ZI_ACCESS_WRITE));
    zi_lease *l = note_lease(s, run.first, run.n, cls);
    for (uint32_t i = 0; i < run.n; i++) s->slots[run.first + i].region = run.first + i;
    *ret_lease = l;
    return ZICO_OK;
}

/* Private memory, when there is no broker to ask. */
static zico_status
take_outside(zi_session *s, zico_class cls, uint32_t n, zi_lease **ret_lease)
{
    uint64_t size = n * s->shape.region_bytes;
    uint32_t slot = find_slots(s, n);
    void    *got;

    if (slot == s->n_slots) return ZICO_E_NOMEM;
    long rc = s->os->map(s->os, slot_address(s, slot), size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0, &got);
    if (rc < 0) return zi_os_status(rc);
    zi_lease *l = note_lease(s, slot, n, cls);
    l->outside = true;
    s->outside_bytes += size;
    s->uncharged_bytes += size;
    *ret_lease = l;
    return ZICO_OK;
}

/* Is something else in one of its places? */
static bool
is_covered(const zi_session *s, zi_run run)
{
    for (uint32_t i = 0; i < run.n; i++)
        if (s->slots[run.first + i].used) return true;
    return false;
}

/* With mu held; p's regions become a lease, or go back. */
static zico_status
bind(zi_session *s, zico_class cls, zi_pending *p, zi_lease **ret_lease)
{
    bool        plain = p->n_runs == 1 && !is_covered(s, p->runs[0]);
    zico_status st =
        plain ? show_run(s, cls, p->runs[0], ret_lease) : stitch(s, cls, p, ret_lease);
    if (st < 0) {
        zi_lease_drop_runs(s, p->runs, p->n_runs);
        zi_lease_flush(s);
    }
    return st;
}

/* The pages of a region are made present at this job's first lease of it; of a stitched
 * lease always, since its addresses are new. */
static zico_status
make_present(zi_session *s, const zi_lease *l)
{
    bool all = !l->stitched && !l->outside;

    if (l->outside) return ZICO_OK;
    for (uint32_t i = 0; all && i < l->n_regions; i++) all = s->populated[l->slot + i];
    if (all) return ZICO_OK;
    ZI_TRY(s->ops->space_populate(s->dev, l->base, l->size_bytes));
    if (!l->stitched) memset(s->populated + l->slot, 1, l->n_regions);
    return ZICO_OK;
}

/* -- ahead of need --------------------------------------------------------------------------- */

/* Regions in stock, one run of n; n_regions if there are none.  *ret_filling: some would do
 * once the keeper is done with them. */
static uint32_t
find_stock(const zi_session *s, uint32_t n, bool *ret_filling)
{
    uint32_t len = 0, at = s->shape.n_regions;

    *ret_filling = false;
    for (uint32_t i = 0; i < s->shape.n_regions; i++) {
        uint8_t state = s->region_state[i];
        if (state == ZI_REGION_FILLING) *ret_filling = true;
        len = state == ZI_REGION_STOCK ? len + 1 : 0;
        if (len == n) return i + 1 - n;
    }
    return at;
}

static bool
take_from_stock(zi_session *s, uint32_t n, zi_run *ret_run)
{
    bool filling = true;

    if (n > ZI_SESSION_AHEAD_MAX && !s->opt.hold_step) return false;
    while (s->n_stock >= n && filling) {
        uint32_t first = find_stock(s, n, &filling);
        if (first < s->shape.n_regions) {
            memset(s->region_state + first, ZI_REGION_HELD, n);
            s->n_stock -= n;
            *ret_run = (zi_run){first, n};
            return true;
        }
        if (filling) zi_wait_until(s, UINT64_MAX);
    }
    return false;
}

void
zi_lease_take_stock(zi_session *s, zi_pending *p)
{
    s->ahead_flies = false;
    s->ahead_wants = 0;
    if (p->status < 0) return;
    for (uint32_t i = 0; i < p->n_runs; i++)
        memset(s->region_state + p->runs[i].first, ZI_REGION_STOCK, p->runs[i].n);
    s->n_stock += p->n_regions;
    s->stats.leased_bytes += p->n_regions * s->shape.region_bytes;
    zi_lease_count_peak(s);
    if (!s->in_step && s->stats.n_steps > 0) { /* it came too late: the step is over */
        zi_lease_drop_stock(s, UINT32_MAX);
        zi_lease_flush(s);
    }
    zi_keeper_wake(s);
}

/* A region in stock becomes part of a lease, which counts it anew. */
static void
uncount_stock(zi_session *s, uint32_t n)
{
    s->stats.leased_bytes -= n * s->shape.region_bytes;
}

static bool
shows_pool(const zi_session *s, uint32_t slot)
{
    return !s->slots[slot].used || s->slots[slot].region != ZI_SESSION_NO_REGION;
}

bool
zi_lease_next_shown(const zi_session *s, uint32_t *at, zi_run *ret_run)
{
    uint32_t i = *at, n = s->shape.n_regions;

    while (i < n && !shows_pool(s, i)) i++;
    ret_run->first = i;
    while (i < n && shows_pool(s, i)) i++;
    ret_run->n = i - ret_run->first;
    *at = i;
    return ret_run->n > 0;
}

void
zi_lease_forget_pages(zi_session *s)
{
    zi_run run;

    for (uint32_t at = 0; zi_lease_next_shown(s, &at, &run);)
        (void)s->os->advise(s->os, slot_address(s, run.first), /* shared: others' stays */
                            run.n * s->shape.region_bytes, MADV_DONTNEED);
    memset(s->populated, 0, s->shape.n_regions);
}

void
zi_lease_drop_stock(zi_session *s, uint32_t n)
{
    for (uint32_t i = s->shape.n_regions; i-- > 0 && n > 0 && s->n_stock > 0;) {
        if (s->region_state[i] != ZI_REGION_STOCK) continue;
        s->n_stock--;
        n--;
        uncount_stock(s, 1);
        put_out(s, i, 1);
    }
    if (n > 0 && s->n_stock > 0) { /* being made present: the keeper returns them then */
        s->recall = n < s->n_stock ? n : s->n_stock;
        zi_keeper_wake(s);
    }
}

void
zi_lease_fill_stock(zi_session *s)
{
    for (uint32_t i = 0; s->n_stock > 0 && i < s->shape.n_regions; i++) {
        if (s->region_state[i] != ZI_REGION_STOCK || s->populated[i] || s->opt.guard)
            continue;
        s->region_state[i] = ZI_REGION_FILLING;
        pthread_mutex_unlock(&s->mu);
        zico_status st =
            s->ops->space_populate(s->dev, slot_address(s, i), s->shape.region_bytes);
        pthread_mutex_lock(&s->mu);
        s->region_state[i] = ZI_REGION_STOCK;
        s->populated[i] = st >= 0; /* else whoever takes it tries again and sees */
        pthread_cond_broadcast(&s->changed);
        if (st < 0) return;
    }
}

void
zi_session_lease_ahead(zi_session *s, zico_class cls, uint32_t n_regions)
{
    if (!zi_session_usable(s) || cls == ZICO_CLASS_FIXED || n_regions == 0) return;
    pthread_mutex_lock(&s->mu);
    uint32_t have = s->n_stock + s->ahead_wants;
    if (s->state == ZI_LINK_JOINED && !s->ahead_flies && have < ZI_SESSION_AHEAD_MAX) {
        uint32_t    room = ZI_SESSION_AHEAD_MAX - have;
        uint32_t    n = n_regions < room ? n_regions : room;
        zi_pending *p = &s->ahead;
        memset(p, 0, sizeof *p);
        p->runs = p->few;
        p->runs_cap = ZI_SESSION_RUNS_INLINE;
        p->ask.type = ZI_MSG_LEASE;
        p->ask.lease = (zi_msg_lease){
            .n_regions = n, .cls = (uint8_t)cls, .adjacent = 1, .ahead = 1, .wait_ns = 0};
        s->ahead_flies = true;
        s->ahead_wants = n;
        zi_link_ask(s, p);
    }
    pthread_mutex_unlock(&s->mu);
}

/* -- the call --------------------------------------------------------------------------------- */

static zico_status
prepare(zi_pending *p, zico_class cls, uint32_t n, unsigned flags, uint64_t wait_ns,
        uint64_t deadline_ns)
{
    memset(p, 0, sizeof *p);
    p->runs = p->few;
    p->runs_cap = ZI_SESSION_RUNS_INLINE;
    if (n > p->runs_cap) {
        p->runs = zi_calloc(n, sizeof *p->runs);
        if (!p->runs) return ZICO_E_NOMEM;
        p->runs_cap = n;
    }
    p->ask.type = ZI_MSG_LEASE;
    p->ask.deadline_ns = deadline_ns;
    p->ask.lease = (zi_msg_lease){.n_regions = n,
                                  .cls = (uint8_t)cls,
                                  .adjacent = 1,
                                  .ahead = (flags & ZI_LEASE_AHEAD) != 0,
                                  .wait_ns = wait_ns};
    return ZICO_OK;
}

/* With mu held.  A job that has said what a step needs, and now needs more, says so before it
 * takes it (messages.def, RAISE).  What can never be claimed is left for LEASE to judge, which
 * knows what is on its way back. */
static zico_status
raise_claim(zi_session *s, const zi_pending *p)
{
    const zi_msg_lease *m = &p->ask.lease;
    uint64_t unit = s->shape.region_bytes, held = s->step_bytes + s->n_stock * unit;

    if (!s->in_step || s->step_claim_bytes == 0 || m->cls == ZICO_CLASS_FIXED ||
        m->ahead || m->wait_ns == 0)
        return ZICO_OK;
    uint64_t need = held + m->n_regions * unit;
    if (need <= s->step_claim_bytes) return ZICO_OK;
    zico_status st = zi_step_raise(s, need, p->ask.deadline_ns);
    return st == ZICO_E_NOMEM || st == ZICO_E_TIMEOUT ? st : ZICO_OK;
}

/* With mu held. */
static zico_status
obtain(zi_session *s, zi_pending *p)
{
    zi_run from_stock;

    if (p->ask.lease.cls != ZICO_CLASS_FIXED &&
        take_from_stock(s, p->ask.lease.n_regions, &from_stock)) {
        uncount_stock(s, from_stock.n);
        p->runs[0] = from_stock;
        p->n_runs = 1;
        p->n_regions = from_stock.n;
        return ZICO_OK;
    }
    uint64_t start = s->os->now_ns(s->os);
    s->stats.n_leases++;
    if (s->state == ZI_LINK_LOCAL) {
        p->status = zi_local_take(s, p, p->ask.deadline_ns);
    } else {
        p->status = raise_claim(s, p);
        if (p->status >= 0) p->status = zi_link_await_room(s, p->ask.deadline_ns);
        if (p->status >= 0) {
            zi_link_ask(s, p);
            zi_link_await(s, p);
        }
    }
    uint64_t waited = s->os->now_ns(s->os) - start;
    if (s->in_step) {
        s->stats.wait_lease_ns += waited;
        s->step_stall_ns += waited;
    }
    if (p->status >= 0 && p->n_regions == 0) return ZICO_E_BUSY; /* ahead: none now */
    return p->status;
}

zico_status
zi_session_lease(zi_session *s, zico_class cls, uint64_t size_bytes, unsigned flags,
                 uint64_t wait_ns, zi_lease **ret_lease)
{
    zi_pending p;
    zi_lease  *lease = NULL;
    uint64_t   n = size_bytes ? (size_bytes - 1) / s->shape.region_bytes + 1 : 0;

    if (n == 0 || (unsigned)cls >= ZICO_N_CLASSES) return ZICO_E_ARG;
    if (!zi_session_usable(s)) return ZICO_E_STATE;
    if (n > s->shape.n_regions) n = (uint64_t)s->shape.n_regions + 1; /* E_BUDGET */
    ZI_TRY(prepare(&p, cls, (uint32_t)n, flags, wait_ns, zi_wait_deadline(s, wait_ns)));
    pthread_mutex_lock(&s->mu);
    zico_status st = obtain(s, &p);
    if (st >= 0)
        st = bind(s, cls, &p, &lease);
    else if (st == ZICO_E_GONE || st == ZICO_E_DENIED)
        st = take_outside(s, cls, (uint32_t)n, &lease);
    pthread_mutex_unlock(&s->mu);
    if (p.runs != p.few) zi_free(p.runs);
    if (st < 0) return st;

    if (flags & ZI_LEASE_BARE) {
        *ret_lease = lease;
        return ZICO_OK;
    }
    st = make_present(s, lease);
    if (st < 0) {
        zi_session_give_back(s, lease, NULL);
        return st;
    }
    *ret_lease = lease;
    return ZICO_OK;
}

/* Pages that are not there yet would be cleared at the first touch; written to, they are not. */
zico_status
zi_session_fill(zi_session *s, const zi_lease *lease, uint64_t at, const void *src,
                uint64_t n_bytes)
{
    const uint64_t r = s->shape.region_bytes;
    const char    *from = src;

    if (at > lease->size_bytes || n_bytes > lease->size_bytes - at) return ZICO_E_ARG;
    if (lease->outside) {
        memcpy((char *)lease->base + at, src, n_bytes);
        return ZICO_OK;
    }
    for (uint64_t done = 0; done < n_bytes;) {
        uint64_t in = (at + done) % r,
                 n = n_bytes - done < r - in ? n_bytes - done : r - in;
        uint32_t region = s->slots[lease->slot + (at + done) / r].region;
        ZI_TRY(s->ops->pool_write(s->pool, region, in, from + done, n));
        done += n;
    }
    return s->ops->space_populate(s->dev, (char *)lease->base + at, n_bytes);
}

void
zi_session_split(zi_session *s, zi_lease *lease, zi_lease **ret_parts)
{
    zi_lease whole = *lease;

    pthread_mutex_lock(&s->mu);
    for (uint32_t i = 0; i < whole.n_regions; i++) {
        zi_slot *at = &s->slots[whole.slot + i];
        at->lease = whole;
        at->lease.base = slot_address(s, whole.slot + i);
        at->lease.size_bytes = s->shape.region_bytes;
        at->lease.n_regions = 1;
        at->lease.slot = whole.slot + i;
        at->held = true;
        ret_parts[i] = &at->lease;
    }
    pthread_mutex_unlock(&s->mu);
}

/* move.c -- what a step holds of the pool goes out to a file, and comes back as private memory.
 *
 * A job that waits in the middle of its step may be what all others wait for (desk_ladder.c).  Its
 * blocks cannot change their addresses, but what is mapped there can: first the file that has
 * their bytes, copy on write, and once there is room for it the same pages count as private
 * memory until the lease is given back.  Only then the slot shows its region again.
 */
#include "client/session_inside.h"

#include "base/check.h"

#include <sys/mman.h>

/* Fixed leases are their holder's to move (on_suspend), but for what came back as such. */
static bool
is_movable(const zi_slot *q)
{
    return q->held && !q->away && (q->lease.cls != ZICO_CLASS_FIXED || q->lease.outside);
}

size_t
zi_session_pieces(zi_session *s, zi_piece *ret_pieces, size_t cap)
{
    size_t n = 0;

    if (!zi_session_usable(s)) return 0;
    pthread_mutex_lock(&s->mu);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const zi_slot *q = &s->slots[i];
        if (!is_movable(q)) continue;
        if (n < cap) ret_pieces[n] = (zi_piece){q->lease.base, q->lease.size_bytes};
        n++;
    }
    pthread_mutex_unlock(&s->mu);
    return n;
}

static zi_slot *
slot_of(zi_session *s, const zi_piece *p)
{
    uint64_t at = (uint64_t)((char *)p->at - s->base) / s->shape.region_bytes;
    zi_slot *q = at < s->n_slots ? &s->slots[at] : NULL;
    return q && is_movable(q) && q->lease.base == p->at && q->lease.size_bytes == p->len
               ? q
               : NULL;
}

/* Its regions, or its charge, go back; what is mapped there is the caller's matter. */
static void
let_go(zi_session *s, zi_slot *q)
{
    zi_lease *l = &q->lease;

    if (l->outside) zi_lease_uncharge(s, l->size_bytes);
    for (uint32_t i = 0; i < l->n_regions && !l->outside; i++) {
        zi_lease_drop_runs(s, &(zi_run){q[i].region, 1}, 1);
        q[i].region = ZI_SESSION_NO_REGION;
    }
    zi_lease_count(s, l->cls, -(int64_t)l->size_bytes, s->os->now_ns(s->os));
    l->cls = ZICO_CLASS_FIXED; /* it is no longer what a step takes of the pool */
    l->stitched = false;
    l->outside = q->away = true;
    s->away_bytes += l->size_bytes;
}

uint64_t
zi_session_leave_pool(zi_session *s, const zi_piece *pieces, size_t n, int fd,
                      uint64_t off)
{
    const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    uint64_t  out = 0;
    void     *same;

    if (!zi_session_usable(s)) return 0;
    pthread_mutex_lock(&s->mu);
    for (size_t i = 0; i < n; off += pieces[i++].len) {
        const zi_piece *p = &pieces[i];
        zi_slot        *q = slot_of(s, p);
        if (!q || s->os->map(s->os, p->at, p->len, PROT_READ | PROT_WRITE, flags, fd, off,
                             &same) < 0)
            continue;
        let_go(s, q);
        out += p->len;
    }
    zi_lease_flush(s);
    pthread_mutex_unlock(&s->mu);
    return out;
}

zi_outside
zi_session_outside(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    zi_outside now = {.in_bytes = s->outside_bytes, .away_bytes = s->away_bytes};
    pthread_mutex_unlock(&s->mu);
    return now;
}

uint64_t
zi_session_come_back(zi_session *s)
{
    uint64_t in = 0;

    if (!zi_session_usable(s)) return 0;
    pthread_mutex_lock(&s->mu);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        zi_slot *q = &s->slots[i];
        if (!q->held || !q->away) continue;
        uint64_t size = q->lease.size_bytes;
        q->away = false;
        in += size;
        zi_assert(size <= s->private_bytes); /* charged for */
        s->private_bytes -= size;
        s->outside_bytes += size;
        zi_lease_count(s, q->lease.cls, (int64_t)size, s->os->now_ns(s->os));
    }
    s->away_bytes -= in;
    pthread_mutex_unlock(&s->mu);
    return in;
}

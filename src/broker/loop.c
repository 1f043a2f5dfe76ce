/* loop.c -- waiting, and who is served in which order.
 *
 * One turn: wait; deaths first (memory comes back before anybody asks for it), then
 * peers, each at most ZI_TURN_MESSAGES packets, then newcomers; then time (deadlines,
 * watchers, hold, linger); then the budget is checked against the kernel.
 */
#include "broker/inside.h"

#include <string.h>
#include <sys/epoll.h>
#include "base/check.h"
#include "base/log.h"

#define EVENTS_MAX 64

uint64_t
zi_loop_tag(zi_tag tag, uint32_t index, uint32_t generation)
{
    return (uint64_t)tag << 56 | (uint64_t)(generation & 0xffffffu) << 32 | index;
}

long
zi_loop_watch(zi_broker *b, int fd, uint32_t events, uint64_t tag)
{
    return b->os->epoll_set(b->os, b->ep, EPOLL_CTL_ADD, fd, events, tag);
}

/* Of one kind only; an event for a place that was given to another since is ignored. */
static void
serve(zi_broker *b, const struct epoll_event *ev, zi_tag kind)
{
    uint32_t index = (uint32_t)ev->data.u64;
    uint32_t generation = (uint32_t)(ev->data.u64 >> 32) & 0xffffffu;

    if (ev->data.u64 >> 56 != (uint64_t)kind) return;
    switch (kind) {
    case ZI_TAG_MEMBER:
        if (b->member[index].live && b->member[index].generation == generation)
            zi_member_leave(b, index, "its process is dead");
        break;
    case ZI_TAG_PEER:
        if (b->peer[index] && b->peer[index]->generation == generation)
            zi_peer_ready(b, b->peer[index], ev->events);
        break;
    case ZI_TAG_LISTEN:
        zi_peer_accept(b);
        break;
    case ZI_TAG_STOP:
        b->ending = true;
        break;
    case ZI_TAG_PARENT:
        b->orphaned = true;
        break;
    }
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t
linger_until(const zi_broker *b)
{
    if (b->opt.linger_ns == 0 || b->n_members > 0) return UINT64_MAX;
    return b->empty_since_ns + b->opt.linger_ns;
}

/* The next time at which something must be done without anybody asking. */
static uint64_t
next_time(const zi_broker *b)
{
    uint64_t at = earlier(b->wake_ns, linger_until(b));

    if (b->holding) at = earlier(at, b->hold_until_ns);
    if (b->grace_until_ns) at = earlier(at, b->grace_until_ns);
    if (b->deaf_until_ns) at = earlier(at, b->deaf_until_ns);
    if (b->changed) at = earlier(at, b->watched_ns + ZI_WATCH_EVERY_NS);
    return at;
}

static void
on_time(zi_broker *b)
{
    uint64_t now = b->os->now_ns(b->os);

    if (now >= b->wake_ns) {
        b->wake_ns = UINT64_MAX; /* the desk tells the next */
        zi_decide(b, zi_desk_tick(b->desk, now));
        zi_effects(b);
    }
    zi_member_check_hold(b);
    if (b->deaf_until_ns && now >= b->deaf_until_ns) zi_peer_listen(b, true);
    if (now >= linger_until(b)) {
        zi_log(ZI_LOG_PROCESS, "no job any more: ending");
        b->ending = true;
    }
    zi_status_watchers(b, false);
}

/* Peers that are done are closed here only, so that nobody holds a pointer to them. */
static void
sweep(zi_broker *b)
{
    for (uint32_t i = 0, seen = 0; i < ZI_PEERS_MAX && seen < b->n_peers; i++) {
        if (!b->peer[i]) continue;
        seen++;
        if (b->peer[i]->state != ZI_PEER_DONE) continue;
        zi_peer_close(b, b->peer[i]);
        seen--;
    }
}

zico_status
zi_broker_turn(zi_broker *b, int64_t max_ns)
{
    static const zi_tag order[] = {ZI_TAG_STOP, ZI_TAG_PARENT, ZI_TAG_MEMBER, ZI_TAG_PEER,
                                   ZI_TAG_LISTEN};
    struct epoll_event  ev[EVENTS_MAX];
    uint64_t            now = b->os->now_ns(b->os), at = next_time(b);

    if (at != UINT64_MAX) {
        int64_t until = at > now ? (int64_t)(at - now) : 0;
        if (max_ns < 0 || until < max_ns) max_ns = until;
    }
    long n = b->os->epoll_wait(b->os, b->ep, ev, EVENTS_MAX, max_ns);
    if (n < 0) return zi_os_status(n);
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        for (long i = 0; i < n; i++) serve(b, &ev[i], order[k]);
    on_time(b);
    sweep(b);
    zi_effects_check_budget(b);
    zi_assert_slow(b->holding || zi_leases_verify(b->estate->leases,
                                                  zi_desk_ledger(b->desk)) == ZICO_OK);
    return ZICO_OK;
}

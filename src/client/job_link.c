/* job_link.c -- a job's end of the wire: sending, and who reads the answers.
 *
 * A request (zi_pending) is put on a list and sent; its answer is recognised by its seq.
 * Whoever waits for an answer reads the socket itself, which saves the hand-over between
 * two threads on every round trip; while one reads, the others sleep, and the one that
 * leaves wakes them so that another takes over.  An answer that nobody waits for any more
 * is undone: regions go back, bytes are uncharged.
 */
#include "client/session_inside.h"

#include "base/check.h"
#include "base/fmt.h"
#include "base/try.h"
#include "os/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LOOK_NS  100000000u   /* between two looks at stop and limit       */
#define STEP_NS  3000000000u  /* for a step that is told to stop, to end   */
#define HELLO_NS 10000000000u /* how long a broker may take to say WELCOME */

zi_msg *
zi_link_message(zi_session *s, zi_msg_type type)
{
    s->tx_msg->type = type;
    s->tx_msg->seq = 0;
    return s->tx_msg;
}

/* The broker is gone, or wants nothing to do with us.  Only the reader, or anybody while
 * there is none, closes the socket. */
static void
lose(zi_session *s, zi_link_state state)
{
    if (s->state == ZI_LINK_JOINED) {
        s->state = state;
        s->gone_since_ns = s->os->now_ns(s->os);
        zi_keeper_wake(s);
        pthread_cond_broadcast(&s->changed);
    }
    if (s->sock >= 0 && !s->reading && s->state != ZI_LINK_JOINED) {
        s->os->close(s->os, s->sock);
        s->sock = -1;
        s->armed = false;
    }
}

bool
zi_link_send(zi_session *s, const int *fds, size_t n_fds)
{
    size_t len;

    if (s->sock < 0) return false;
    if (zi_wire_encode(s->tx_msg, s->version, s->tx, ZI_WIRE_MAX, &len) < 0) {
        zi_assert(!"a message that cannot be encoded");
        return false;
    }
    for (;;) {
        long rc = s->os->send_msg(s->os, s->sock, s->tx, len, fds, n_fds, MSG_DONTWAIT);
        if (rc >= 0) return true;
        if (rc != -EAGAIN) break;
        if (s->os->poll_fd(s->os, s->sock, POLLOUT, ZI_SESSION_SEND_NS) <= 0) break;
    }
    lose(s, ZI_LINK_GONE);
    return false;
}

/* -- what the broker says --------------------------------------------------------------------- */

static zi_pending **
find_pending(zi_session *s, uint32_t seq)
{
    zi_pending **at = &s->pending;
    while (*at && (*at)->ask.seq != seq) at = &(*at)->next;
    return at;
}

static void
unlist(zi_session *s, zi_pending *p)
{
    zi_pending **at = find_pending(s, p->ask.seq);
    if (*at == p) *at = p->next;
    p->listed = false;
}

static void
answer(zi_session *s, zi_pending *p, zico_status st)
{
    unlist(s, p);
    p->answered = true;
    p->status = st;
    if (p == &s->ahead) zi_lease_take_stock(s, p);
}

/* Regions that are not in the pool, or that we hold already, were not granted by a broker
 * in its right mind. */
static bool
grant_is_sane(const zi_session *s, const zi_msg_grant *g)
{
    for (uint32_t i = 0; i < g->n_runs; i++) {
        if (g->runs[i].first >= s->shape.n_regions) return false;
        if (g->runs[i].n > s->shape.n_regions - g->runs[i].first) return false;
        for (uint32_t k = 0; k < g->runs[i].n; k++)
            if (s->region_state[g->runs[i].first + k] != ZI_REGION_OTHERS) return false;
    }
    return true;
}

static void
mark_runs(zi_session *s, const zi_run *runs, uint32_t n_runs, zi_region_state to)
{
    for (uint32_t i = 0; i < n_runs; i++)
        memset(s->region_state + runs[i].first, (int)to, runs[i].n);
}

static void
take_grant(zi_session *s, uint32_t seq, const zi_msg_grant *g)
{
    zi_pending *p = *find_pending(s, seq);

    if (!grant_is_sane(s, g)) {
        zi_session_say(s, "the broker granted regions that this job holds already");
        lose(s, ZI_LINK_REFUSED);
        return;
    }
    mark_runs(s, g->runs, g->n_runs, ZI_REGION_HELD);
    if (!p || p->n_runs + g->n_runs > p->runs_cap) { /* too late, or too much */
        zi_lease_drop_runs(s, g->runs, g->n_runs);
        zi_lease_flush(s);
        if (!p && g->n_runs == 0 && g->size_bytes > 0) {
            zi_link_message(s, ZI_MSG_UNCHARGE)->uncharge.size_bytes = g->size_bytes;
            zi_link_send(s, NULL, 0);
        }
        if (p) answer(s, p, ZICO_E_PROTO);
        return;
    }
    memcpy(p->runs + p->n_runs, g->runs, g->n_runs * sizeof *g->runs);
    p->n_runs += g->n_runs;
    for (uint32_t i = 0; i < g->n_runs; i++) p->n_regions += g->runs[i].n;
    p->size_bytes += g->size_bytes;
    if (!g->more) answer(s, p, ZICO_OK);
}

static void
take_deny(zi_session *s, uint32_t seq, const zi_msg_deny *d)
{
    zi_pending *p = *find_pending(s, seq);

    if (!p) return;
    if (p != &s->ahead) zi_session_say(s, "%s", d->text);
    if (p->n_runs > 0) { /* a part had been granted already */
        zi_lease_drop_runs(s, p->runs, p->n_runs);
        zi_lease_flush(s);
        p->n_runs = p->n_regions = 0;
    }
    answer(s, p, (zico_status)d->status);
}

static void
take_wait(zi_session *s, uint32_t seq, const zi_msg_wait *w)
{
    if (*find_pending(s, seq) == &s->ahead) return;
    zi_session_say(s, "waiting: %s; %u request%s in front",
                   zi_reason_text((zi_reason)w->reason), w->position,
                   w->position == 1 ? "" : "s");
}

static void
dispatch(zi_session *s, const zi_msg *m)
{
    zi_pending *p;

    switch (m->type) {
    case ZI_MSG_GRANT:
        take_grant(s, m->seq, &m->grant);
        break;
    case ZI_MSG_DENY:
        take_deny(s, m->seq, &m->deny);
        break;
    case ZI_MSG_WAIT:
        take_wait(s, m->seq, &m->wait);
        break;
    case ZI_MSG_GO:
        s->first_core = m->go.first_core;
        if (m->go.cores) s->cores = m->go.cores;
        p = *find_pending(s, m->seq);
        if (p) answer(s, p, ZICO_OK);
        break;
    case ZI_MSG_CORES:
        s->first_core = m->cores.first_core;
        s->cores = m->cores.cores;
        if (!(s->opt.features & ZI_FEATURE_NATIVE))
            zi_keeper_wake(s); /* it tells watchers */
        break;
    case ZI_MSG_SUSPEND:
        s->suspend_asked = true;
        s->suspend_cold = m->suspend.cold != 0;
        break;
    case ZI_MSG_RESUME:
        s->resume_asked = true;
        break;
    case ZI_MSG_RECALL:
        s->recall += m->recall.n_regions;
        zi_keeper_wake(s);
        break;
    case ZI_MSG_REFUSE:
        zi_session_say(s, "%s", m->refuse.text);
        lose(s, ZI_LINK_REFUSED);
        break;
    case ZI_MSG_SHRINK:
        zi_limit_wish(s, (zi_session_wish){.step_bytes = m->shrink.claim_bytes,
                                           .cost_milli = m->shrink.cost_milli});
        break;
    default:
        break; /* those of a later day */
    }
}

/* One packet, in rx: dispatched, or the link is lost. */
static void
take_packet(zi_session *s, long n)
{
    const char *why;

    if (n == -EAGAIN) return;
    if (n <= 0) {
        lose(s, ZI_LINK_GONE);
        return;
    }
    if (zi_wire_decode(s->rx, (size_t)n, s->version, s->rx_msg, &why) < 0 ||
        !zi_msg_may_come_from(s->rx_msg->type, ZI_FROM_BROKER)) {
        zi_session_say(s, "the broker sent what no broker says");
        lose(s, ZI_LINK_REFUSED);
        return;
    }
    dispatch(s, s->rx_msg);
}

/* With mu held; released while reading.  `deadline_ns` UINT64_MAX: as long as it takes. */
static void
read_one(zi_session *s, uint64_t deadline_ns, int flags)
{
    const zi_os *os = s->os;
    int          sock = s->sock;
    long         n = -EAGAIN;

    s->reading = true;
    pthread_mutex_unlock(&s->mu);
    if (deadline_ns == UINT64_MAX || (flags & MSG_DONTWAIT)) {
        n = os->recv_msg(os, sock, s->rx, ZI_WIRE_MAX, NULL, NULL, flags);
    } else {
        uint64_t now = os->now_ns(os);
        int64_t  left = deadline_ns > now ? (int64_t)(deadline_ns - now) : 0;
        if (os->poll_fd(os, sock, POLLIN, left) != 0)
            n = os->recv_msg(os, sock, s->rx, ZI_WIRE_MAX, NULL, NULL, MSG_DONTWAIT);
    }
    pthread_mutex_lock(&s->mu);
    s->reading = false;
    if (s->state != ZI_LINK_JOINED)
        lose(s, s->state); /* somebody else noticed; the socket is ours to close */
    else
        take_packet(s, n);
    pthread_cond_broadcast(&s->changed);
}

void
zi_link_read_now(zi_session *s)
{
    while (s->state == ZI_LINK_JOINED && !s->reading && s->sock >= 0) {
        long ready = s->os->poll_fd(s->os, s->sock, POLLIN, 0);
        if (ready == 0) return;
        read_one(s, UINT64_MAX, MSG_DONTWAIT);
    }
}

/* -- asking ------------------------------------------------------------------------------------ */

void
zi_link_arm(zi_session *s, bool on)
{
    if (s->sock < 0 || s->armed == on) return;
    long rc = s->os->epoll_set(s->os, s->epoll_fd, EPOLL_CTL_MOD, s->sock,
                               (on ? EPOLLIN : 0u) | EPOLLONESHOT, 1);
    s->armed = on && rc >= 0;
}

static uint64_t
remaining(zi_session *s, uint64_t deadline_ns)
{
    uint64_t now = s->os->now_ns(s->os);

    if (deadline_ns == UINT64_MAX) return UINT64_MAX;
    return deadline_ns > now ? deadline_ns - now : 0;
}

void
zi_link_send_pending(zi_session *s, zi_pending *p)
{
    zi_msg *m = zi_link_message(s, p->ask.type);

    m->seq = p->ask.seq;
    switch (p->ask.type) {
    case ZI_MSG_LEASE:
        m->lease = p->ask.lease;
        if (m->lease.wait_ns) m->lease.wait_ns = remaining(s, p->ask.deadline_ns);
        break;
    case ZI_MSG_CHARGE:
        m->charge = p->ask.charge;
        if (m->charge.wait_ns) m->charge.wait_ns = remaining(s, p->ask.deadline_ns);
        break;
    case ZI_MSG_RAISE:
        m->raise = p->ask.raise;
        break;
    default:
        m->step_ask = p->ask.step_ask;
        break;
    }
    zi_link_send(s, NULL, 0);
}

void
zi_link_ask(zi_session *s, zi_pending *p)
{
    if (++s->next_seq == 0) s->next_seq = 1;
    p->ask.seq = s->next_seq;
    p->answered = false;
    p->listed = true;
    p->next = s->pending;
    s->pending = p;
    /* whoever asks reads the answer itself; it may be there before sending returns */
    if (p != &s->ahead) zi_link_arm(s, false);
    if (s->state == ZI_LINK_JOINED) zi_link_send_pending(s, p);
}

static unsigned
count_asks(const zi_session *s)
{
    unsigned n = 0;

    for (const zi_pending *p = s->pending; p; p = p->next)
        n += p->ask.type == ZI_MSG_LEASE || p->ask.type == ZI_MSG_CHARGE;
    return n;
}

zico_status
zi_link_await_room(zi_session *s, uint64_t deadline_ns)
{
    while (count_asks(s) >= ZI_WIRE_ASKS_MAX - 1) { /* one is for what is taken ahead */
        if (deadline_ns == 0) return ZICO_E_BUSY;
        if (!zi_wait_until(s, deadline_ns)) return ZICO_E_TIMEOUT;
    }
    return ZICO_OK;
}

/* Nobody answers: take the request back. */
static void
give_up(zi_session *s, zi_pending *p, zico_status st)
{
    if (s->state == ZI_LINK_JOINED && p->listed) {
        zi_link_message(s, ZI_MSG_CANCEL)->seq = p->ask.seq;
        zi_link_send(s, NULL, 0);
    }
    if (p->n_runs > 0) {
        zi_lease_drop_runs(s, p->runs, p->n_runs);
        zi_lease_flush(s);
        p->n_runs = p->n_regions = 0;
    }
    answer(s, p, st);
    pthread_cond_broadcast(&s->changed); /* there is room for another's */
}

/* The broker keeps deadlines itself; ours comes a little later, for a broker that hangs.  RAISE
 * carries none. */
static uint64_t
late(const zi_pending *p, uint64_t deadline_ns)
{
    if (p->ask.type == ZI_MSG_RAISE) return deadline_ns;
    return deadline_ns > UINT64_MAX - ZI_SESSION_LATE_NS
               ? UINT64_MAX
               : deadline_ns + ZI_SESSION_LATE_NS;
}

static bool
is_stopped(const zi_session *s)
{
    return s->opt.stop && atomic_load(s->opt.stop);
}

/* When to look up at the latest: a signal may have come to another thread than this, and nobody
 * is told of limits. */
static uint64_t
next_look(zi_session *s, uint64_t until_ns)
{
    uint64_t look = s->os->now_ns(s->os) + LOOK_NS;
    return (s->opt.stop || s->told_limit) && look < until_ns ? look : until_ns;
}

/* While the broker is gone: a successor is given some time to appear. */
static void
await_successor(zi_session *s, zi_pending *p)
{
    uint64_t grace = s->gone_since_ns + ZI_SESSION_GRACE_NS;
    uint64_t until = grace < p->ask.deadline_ns ? grace : p->ask.deadline_ns;

    if (zi_wait_until(s, next_look(s, until))) return;
    if (s->os->now_ns(s->os) < until) return;
    if (s->state == ZI_LINK_GONE && !p->answered)
        give_up(s, p, s->os->now_ns(s->os) >= grace ? ZICO_E_GONE : ZICO_E_TIMEOUT);
}

void
zi_link_withdraw(zi_session *s, zi_pending *p)
{
    give_up(s, p, ZICO_E_CANCELLED);
}

static bool
is_called_away(zi_session *s, const zi_pending *p)
{
    return p->ask.type == ZI_MSG_STEP_ASK &&
           (s->suspend_asked || s->resume_asked || zi_limit_has_changed(s));
}

void
zi_link_await(zi_session *s, zi_pending *p)
{
    uint64_t until = p->ask.deadline_ns ? p->ask.deadline_ns : s->os->now_ns(s->os);
    /* a step that gives up cannot be saved, one that is finished can */
    uint64_t stop_from = s->in_step ? s->os->now_ns(s->os) + STEP_NS : 0;

    until = late(p, until);
    s->n_waiting++;
    if (!p->answered) zi_link_arm(s, false);
    while (!p->answered && !is_called_away(s, p)) {
        if (is_stopped(s) && s->os->now_ns(s->os) >= stop_from) {
            give_up(s, p, ZICO_E_CANCELLED);
        } else if (s->state == ZI_LINK_REFUSED) {
            give_up(s, p, ZICO_E_DENIED);
        } else if (s->state == ZI_LINK_GONE) {
            await_successor(s, p);
        } else {
            if (s->reading)
                (void)zi_wait_until(s, next_look(s, until));
            else
                read_one(s, next_look(s, until), 0);
            if (!p->answered && s->os->now_ns(s->os) >= until)
                give_up(s, p, ZICO_E_TIMEOUT);
        }
    }
    s->n_waiting--;
    if (s->n_waiting == 0 && s->state == ZI_LINK_JOINED) zi_link_arm(s, true);
}

/* -- opening ------------------------------------------------------------------------------------ */

static void
write_hello(zi_session *s)
{
    const zi_session_options *o = &s->opt;
    zi_msg_hello             *h = &zi_link_message(s, ZI_MSG_HELLO)->hello;

    *h = (zi_msg_hello){
        .min_version = ZI_WIRE_VERSION_MIN,
        .max_version = ZI_WIRE_VERSION_MAX,
        .features = o->features | (o->on_suspend ? ZI_FEATURE_SUSPEND : 0),
        .min_bytes = o->min_bytes,
        .max_bytes = o->max_bytes,
        .claim_bytes = o->claim_bytes,
        .weight_milli = o->weight_milli ? o->weight_milli : 1000,
        .steps_total = o->steps_total,
        .latency_ns = o->latency_ns,
        .core_mode = (uint32_t)o->core_mode,
        .cores = o->cores,
    };
    memcpy(h->name, s->job_name, sizeof h->name);
    memcpy(h->shape_key, s->shape_key, sizeof h->shape_key);
    s->tx_msg->seq = 1;
}

static zico_status
take_welcome(zi_session *s, const int *fds, size_t n_fds)
{
    const zi_msg_welcome *w = &s->rx_msg->welcome;

    if (n_fds != 2) return ZICO_E_PROTO;
    if (w->features & ZI_FEATURE_GUARD) s->opt.guard = true;
    s->version = w->version;
    s->job = w->job;
    s->token = w->token;
    s->epoch = w->epoch;
    s->budget_bytes = w->budget_bytes;
    s->cores = w->cores;
    s->shape =
        (zi_pool_shape){.region_bytes = w->region_bytes, .n_regions = w->n_regions};
    s->ops = zi_device_find(w->device);
    if (!s->ops) return ZICO_E_UNSUPPORTED;
    if (s->shape.n_regions > UINT32_MAX / 4) return ZICO_E_PROTO;
    s->pool_fd = fds[0];
    s->table_fd = fds[1];
    return ZICO_OK;
}

/* An answer that was read half is an answer lost, and with it the job: what may pass is
 * tried again. */
long
zi_link_receive(zi_session *s, uint64_t wait_ns, int *fds, size_t *n_fds)
{
    const zi_os *os = s->os;
    size_t       room = *n_fds;
    long         n = -EAGAIN;

    for (int i = 0; i < 3; i++) {
        if (os->poll_fd(os, s->sock, POLLIN, (int64_t)wait_ns) == 0) return -EAGAIN;
        *n_fds = room;
        n = os->recv_msg(os, s->sock, s->rx, ZI_WIRE_MAX, fds, n_fds, MSG_DONTWAIT);
        if (n >= 0 || n == -ECONNRESET) break;
    }
    if (n < 0) *n_fds = 0;
    return n;
}

static zico_status
read_welcome(zi_session *s)
{
    const zi_os *os = s->os;
    int          fds[2] = {-1, -1};
    size_t       n_fds = 2;
    const char  *why;
    zico_status  st;

    long n = zi_link_receive(s, HELLO_NS, fds, &n_fds);
    if (n == -EAGAIN) return ZICO_E_TIMEOUT;
    if (n == 0) return ZICO_E_GONE;
    if (n < 0) return zi_os_status(n);
    st = zi_wire_decode(s->rx, (size_t)n, ZI_WIRE_VERSION_MAX, s->rx_msg, &why);
    if (st >= 0 && s->rx_msg->type == ZI_MSG_REFUSE) {
        zi_session_say(s, "%s", s->rx_msg->refuse.text);
        st = s->rx_msg->refuse.status < 0 ? (zico_status)s->rx_msg->refuse.status
                                          : ZICO_E_DENIED;
    } else if (st >= 0) {
        st = s->rx_msg->type == ZI_MSG_WELCOME ? take_welcome(s, fds, n_fds)
                                               : ZICO_E_PROTO;
    }
    if (st < 0)
        for (size_t i = 0; i < n_fds; i++) os->close(os, fds[i]);
    return st;
}

zico_status
zi_link_join(zi_session *s)
{
    const zi_os *os = s->os;
    zico_status  st = zi_rundir_socket(os, s->opt.socket_path,
                                      s->opt.device ? s->opt.device->name : "host", false,
                                       s->socket_path, sizeof s->socket_path);

    if (st < 0) return st;
    long sock = os->connect_to(os, s->socket_path);
    if (sock == -ENOENT || sock == -ECONNREFUSED) return ZICO_E_NOTFOUND;
    if (sock < 0) return zi_os_status(sock);
    s->sock = (int)sock;
    s->version = ZI_WIRE_VERSION_MAX;
    write_hello(s);
    st = zi_link_send(s, NULL, 0) ? read_welcome(s) : ZICO_E_GONE;
    if (st >= 0) {
        s->state = ZI_LINK_JOINED;
        s->next_seq = 1;
        return ZICO_OK;
    }
    os->close(os, s->sock);
    s->sock = -1;
    return st;
}

/* A broker that does not hear LEAVE keeps what this job held until the process ends: if the
 * link is lost, it is taken up once more for that one word. */
void
zi_link_hang_up(zi_session *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->state == ZI_LINK_GONE) zi_rejoin_try(s);
        if (s->state != ZI_LINK_JOINED) break;
        zi_link_message(s, ZI_MSG_LEAVE);
        if (zi_link_send(s, NULL, 0)) break;
    }
    if (s->sock >= 0) s->os->close(s->os, s->sock);
    s->sock = -1;
}

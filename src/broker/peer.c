/* peer.c -- one connection: who it is, what it sends, what it has not read yet.
 *
 *                 STATUS_ASK, LIMIT, CONTROL
 *            NEW ----------------------------> TOOL
 *             |  \
 *      HELLO, |   \ HELLO while listed jobs are awaited
 *      REJOIN |    v
 *             |   HELD
 *             v    |  the hold is over (zi_handle_held)
 *            JOB <-+
 *             |
 *             |  LEAVE; end of file; garbage, flood, lies, does not read
 *             v
 *            DONE -> closed at the end of the turn
 *
 *   NEW   trusted: its uid is ours and its pid is the kernel's word (zi_peer_accept)
 *   HELD  as NEW; `hello` is valid in form
 *   JOB   member[job].peer is this one's index, and no other peer speaks for that job
 *   TOOL  may ask and change limits; holds nothing
 *   DONE  nothing more is read from it or sent to it
 *
 * A connection that ends says nothing about the process: member.c decides what becomes of
 * the job (absent until it rejoins or its pidfd says dead).
 */
#include "broker/inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/log.h"

/* -- sending ------------------------------------------------------------------------------ */

#define COMPOSE_BYTES 2048u /* cleared: every message that we send, up to its lists */
_Static_assert(sizeof(zi_msg_status_job) + 16 <= COMPOSE_BYTES &&
                   sizeof(zi_msg_welcome) + 16 <= COMPOSE_BYTES &&
                   sizeof(zi_msg_limited) + 16 <= COMPOSE_BYTES &&
                   sizeof(zi_msg) >= COMPOSE_BYTES,
               "a composed message starts all zero");

zi_msg *
zi_peer_compose(zi_broker *b, zi_msg_type type, uint32_t seq)
{
    memset(&b->out, 0, COMPOSE_BYTES);
    b->out.type = type;
    b->out.seq = seq;
    return &b->out;
}

static long
send_now(zi_broker *b, zi_peer *p, const void *bytes, size_t len, bool with_fds)
{
    int fds[2] = {b->estate->pool_fd, b->estate->leases->fd};

    return b->os->send_msg(b->os, p->fd, bytes, len, fds, with_fds ? 2 : 0, MSG_DONTWAIT);
}

/* Have epoll tell when there is room, or no longer. */
static void
want_out(zi_broker *b, zi_peer *p, bool wants)
{
    uint32_t events = EPOLLIN | (wants ? (uint32_t)EPOLLOUT : 0u);
    uint64_t tag = zi_loop_tag(ZI_TAG_PEER, p->index, p->generation);

    if (p->wants_out == wants) return;
    if (b->os->epoll_set(b->os, b->ep, EPOLL_CTL_MOD, p->fd, events, tag) < 0) {
        zi_log(ZI_LOG_ERROR, "pid %d: epoll refuses it; dropped", p->pid);
        p->state = ZI_PEER_DONE;
        return;
    }
    p->wants_out = wants;
}

static void
drop_queue(zi_peer *p)
{
    while (p->first) {
        zi_packet *k = p->first;
        p->first = k->next;
        zi_free(k);
    }
    p->last = NULL;
    p->n_packets = 0;
    p->n_bytes = 0;
}

static void
enqueue(zi_broker *b, zi_peer *p, const void *bytes, size_t len, bool with_fds)
{
    if (p->n_packets >= ZI_PEER_PACKETS_MAX || p->n_bytes + len > ZI_PEER_BYTES_MAX) {
        zi_log(ZI_LOG_SESSION, "pid %d does not read its answers (%u wait): dropped",
               p->pid, p->n_packets);
        p->state = ZI_PEER_DONE;
        return;
    }
    zi_packet *k = zi_malloc(sizeof *k + len);
    if (!k) {
        zi_log(ZI_LOG_ERROR, "pid %d: no memory for its answers: dropped", p->pid);
        p->state = ZI_PEER_DONE;
        return;
    }
    *k = (zi_packet){.len = len, .with_fds = with_fds};
    memcpy(k->bytes, bytes, len);
    if (p->last)
        p->last->next = k;
    else
        p->first = k;
    p->last = k;
    p->n_packets++;
    p->n_bytes += len;
    want_out(b, p, true);
}

void
zi_peer_send(zi_broker *b, zi_peer *p, bool with_fds)
{
    size_t   len;
    uint32_t version = p->version ? p->version : ZI_WIRE_VERSION_MIN;

    if (p->state == ZI_PEER_DONE) return;
    zico_status st = zi_wire_encode(&b->out, version, b->packet, sizeof b->packet, &len);
    zi_assert(st == ZICO_OK); /* what we say is well formed */
    if (st < 0) return;
    long rc = p->first ? -EAGAIN : send_now(b, p, b->packet, len, with_fds);
    if (rc == -EAGAIN || rc == -ENOBUFS)
        enqueue(b, p, b->packet, len, with_fds);
    else if (rc < 0)
        p->state = ZI_PEER_DONE; /* gone; its end of file would come next */
}

static void
flush(zi_broker *b, zi_peer *p)
{
    while (p->first) {
        zi_packet *k = p->first;
        long       rc = send_now(b, p, k->bytes, k->len, k->with_fds);
        if (rc == -EAGAIN || rc == -ENOBUFS) return;
        if (rc < 0) {
            p->state = ZI_PEER_DONE;
            return;
        }
        p->first = k->next;
        if (!p->first) p->last = NULL;
        p->n_packets--;
        p->n_bytes -= k->len;
        zi_free(k);
    }
    want_out(b, p, false);
}

void
zi_peer_refuse(zi_broker *b, zi_peer *p, zico_status st, const char *fmt, ...)
{
    va_list ap;
    zi_msg *m = zi_peer_compose(b, ZI_MSG_REFUSE, 0);

    if (p->state == ZI_PEER_DONE) return;
    va_start(ap, fmt);
    vsnprintf(m->refuse.text, sizeof m->refuse.text, fmt, ap);
    va_end(ap);
    m->refuse.status = st;
    zi_log(ZI_LOG_SESSION, "pid %d dropped (%s): %s", p->pid, zico_status_name(st),
           m->refuse.text);
    drop_queue(p); /* what it has not read does not matter any more */
    zi_peer_send(b, p, false);
    p->state = ZI_PEER_DONE;
}

/* -- opening and closing ------------------------------------------------------------------ */

/* All places are taken: whoever has been silent longest since it connected goes. */
static uint32_t
evict_silent(zi_broker *b)
{
    uint32_t oldest = ZI_PEERS_MAX;

    for (uint32_t i = 0; i < ZI_PEERS_MAX; i++)
        if (b->peer[i]->state == ZI_PEER_NEW &&
            (oldest == ZI_PEERS_MAX || b->peer[i]->since < b->peer[oldest]->since))
            oldest = i;
    if (oldest == ZI_PEERS_MAX) return ZI_PEERS_MAX;
    zi_peer_refuse(b, b->peer[oldest], ZICO_E_LIMIT, "said nothing, and others want in");
    zi_peer_close(b, b->peer[oldest]);
    return oldest;
}

static zi_peer *
place(zi_broker *b, int fd)
{
    uint32_t i = 0;

    while (i < ZI_PEERS_MAX && b->peer[i]) i++;
    if (i == ZI_PEERS_MAX) i = evict_silent(b);
    if (i == ZI_PEERS_MAX) {
        zi_log(ZI_LOG_ERROR, "%u connections are open: one more is turned away",
               ZI_PEERS_MAX);
        return NULL;
    }
    zi_peer *p = zi_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (zi_peer){.index = i,
                   .since = ++b->n_accepted,
                   .generation = ++b->peer_generation & 0xffffffu,
                   .fd = fd,
                   .job = ZI_JOB_NONE};
    uint64_t tag = zi_loop_tag(ZI_TAG_PEER, i, p->generation);
    if (zi_loop_watch(b, fd, EPOLLIN, tag) < 0) {
        zi_free(p);
        return NULL;
    }
    b->peer[i] = p;
    b->n_peers++;
    return p;
}

/* While descriptors are exhausted the socket stays readable: looking again at once would
 * keep us busy with nothing. */
void
zi_peer_listen(zi_broker *b, bool listen)
{
    long rc = b->os->epoll_set(b->os, b->ep, EPOLL_CTL_MOD, b->estate->listen_fd,
                               listen ? EPOLLIN : 0u, zi_loop_tag(ZI_TAG_LISTEN, 0, 0));

    b->deaf_until_ns = listen && rc >= 0 ? 0 : b->os->now_ns(b->os) + ZI_DEAF_NS;
}

void
zi_peer_accept(zi_broker *b)
{
    for (unsigned k = 0; k < ZI_TURN_MESSAGES; k++) {
        uint32_t uid = 0;
        long     fd = b->os->accept_one(b->os, b->estate->listen_fd);
        if (fd < 0) {
            if (fd == -EAGAIN || fd == -ECONNABORTED) return;
            zi_log(ZI_LOG_ERROR, "cannot accept a connection: %s", strerror((int)-fd));
            zi_peer_listen(b, false);
            return;
        }
        zi_peer *p = place(b, (int)fd);
        if (!p) {
            b->os->close(b->os, (int)fd);
            continue;
        }
        if (b->os->peer(b->os, p->fd, &p->pid, &uid) < 0 || p->pid <= 0)
            zi_peer_refuse(b, p, ZICO_E_DENIED, "the kernel does not say who you are");
        else if (uid != geteuid())
            zi_peer_refuse(b, p, ZICO_E_DENIED, "this broker serves uid %u, not uid %u",
                           (unsigned)geteuid(), uid);
        if (p->state == ZI_PEER_DONE) zi_peer_close(b, p);
    }
}

void
zi_peer_close(zi_broker *b, zi_peer *p)
{
    zi_job_id job = p->job;

    /* unread packets would turn our REFUSE into a bare reset on the other side */
    for (unsigned k = 0; k < ZI_TURN_MESSAGES; k++)
        if (b->os->recv_msg(b->os, p->fd, b->incoming, sizeof b->incoming, NULL, NULL,
                            MSG_DONTWAIT) <= 0)
            break;
    b->os->close(b->os, p->fd); /* leaves epoll with it */
    drop_queue(p);
    zi_free(p->hello);
    b->peer[p->index] = NULL;
    b->n_peers--;
    if (job != ZI_JOB_NONE && b->member[job].peer == p->index) zi_member_lost(b, job);
    zi_free(p);
}

/* -- receiving ---------------------------------------------------------------------------- */

/* More messages in this second than anybody needs? */
static bool
floods(zi_broker *b, zi_peer *p)
{
    uint64_t now = b->os->now_ns(b->os);

    if (now - p->window_ns >= 1000000000u) {
        p->window_ns = now;
        p->n_window = 0;
    }
    return ++p->n_window > b->opt.flood_per_s;
}

static void
close_came(zi_broker *b, zi_peer *p)
{
    while (p->n_came > 0) b->os->close(b->os, p->came[--p->n_came]);
}

/* One packet.  False: nothing more to read now. */
static bool
receive(zi_broker *b, zi_peer *p)
{
    const char *why = NULL;

    p->n_came = 2;
    long rc = b->os->recv_msg(b->os, p->fd, b->incoming, sizeof b->incoming, p->came,
                              &p->n_came, MSG_DONTWAIT);
    if (rc == -EAGAIN) return false;
    if (rc == -EMSGSIZE) {
        zi_peer_refuse(b, p, ZICO_E_PROTO, "a packet longer than %u bytes", ZI_WIRE_MAX);
        return false;
    }
    if (rc <= 0) {
        p->state = ZI_PEER_DONE;
        return false;
    }
    zico_status st = zi_wire_decode(b->incoming, (size_t)rc, p->version, &b->msg, &why);
    if (st < 0)
        zi_peer_refuse(b, p, st, "%s", why);
    else if (floods(b, p))
        zi_peer_refuse(b, p, ZICO_E_LIMIT, "more than %u messages in a second",
                       b->opt.flood_per_s);
    else
        zi_handle(b, p);
    close_came(b, p);
    return p->state != ZI_PEER_DONE;
}

void
zi_peer_ready(zi_broker *b, zi_peer *p, uint32_t events)
{
    if (events & EPOLLOUT) flush(b, p);
    if (p->state != ZI_PEER_DONE && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        for (unsigned k = 0; k < ZI_TURN_MESSAGES && receive(b, p); k++) {
        }
}

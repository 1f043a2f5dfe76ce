/* rejoin.c -- after a broker's death: its successor learns what this job holds.
 *
 * The lease table, which the dead broker wrote and every job can read, says who owns which
 * region; the successor gets it (and the pool) from the first job that rejoins.  So a job
 * tells only who it is, what it has charged, and whether it is inside a step.  Then
 *   - requests that were not answered are sent again under their old numbers: a grant that
 *     the table already shows is answered from the table;
 *   - regions that the table shows as ours but that we do not hold (a RETURN was lost on
 *     its way) are returned again;
 *   - a job that is out (suspended) says so, and waits to be called back.
 */
#include "client/session_inside.h"

#include "wire/table.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define WELCOME_NS 5000000000u

static bool
send_rejoin(zi_session *s)
{
    zi_msg_rejoin *m = &zi_link_message(s, ZI_MSG_REJOIN)->rejoin;
    int            fds[2] = {s->pool_fd, s->table_fd};

    *m = (zi_msg_rejoin){
        .min_version = ZI_WIRE_VERSION_MIN,
        .max_version = ZI_WIRE_VERSION_MAX,
        .job = s->job,
        .token = s->token,
        .private_bytes = s->private_bytes + s->outside_bytes,
        .step_no = s->step_no,
        .in_step = s->in_step,
    };
    s->tx_msg->seq = 1;
    return zi_link_send(s, fds, 2);
}

/* True: rx_msg has the answer.  Descriptors that come along replace the table's. */
static bool
read_answer(zi_session *s)
{
    const zi_os *os = s->os;
    int          fds[2] = {-1, -1};
    size_t       n_fds = 2;
    const char  *why;

    long n = zi_link_receive(s, WELCOME_NS, fds, &n_fds);
    if (n <= 0) return false;
    bool good = zi_wire_decode(s->rx, (size_t)n, s->version, s->rx_msg, &why) >= 0;
    if (good && n_fds == 2) { /* the successor may have copied the table */
        os->close(os, s->table_fd);
        s->table_fd = fds[1];
        fds[1] = -1;
    }
    for (size_t i = 0; i < n_fds; i++)
        if (fds[i] >= 0) os->close(os, fds[i]);
    return good;
}

/* -- regions whose RETURN was lost ------------------------------------------------------------- */

static bool
was_asked_for(const zi_session *s, uint32_t seq)
{
    for (const zi_pending *p = s->pending; p; p = p->next)
        if (p->ask.seq == seq) return true;
    return false;
}

static void
return_strays(zi_session *s, const zi_table_head *table)
{
    zi_table_region *region = zi_table_regions(table);

    if (!s->region_state) return; /* never got so far as to hold any */
    for (uint32_t i = 0; i < s->shape.n_regions; i++) {
        uint64_t owner = atomic_load(&region[i].owner);
        if (zi_table_owner_row(owner) != s->job) continue;
        if (s->region_state[i] != ZI_REGION_OTHERS) continue;
        if (was_asked_for(s, atomic_load(&region[i].seq))) continue; /* answered anew */
        zi_lease_drop_runs(s, &(zi_run){i, 1}, 1);
    }
    zi_lease_flush(s);
}

static bool
is_our_table(const zi_session *s, const zi_table_head *t, uint64_t size)
{
    return t->magic == ZI_TABLE_MAGIC && t->version == ZI_TABLE_VERSION &&
           t->n_regions == s->shape.n_regions &&
           zi_table_size(t->jobs_max, t->n_regions) <= size;
}

static void
compare_with_table(zi_session *s)
{
    const zi_os *os = s->os;
    uint64_t     size, resident;
    void        *at;

    if (os->file_bytes(os, s->table_fd, &size, &resident) < 0) return;
    if (size < sizeof(zi_table_head)) return;
    if (os->map(os, NULL, size, PROT_READ, MAP_SHARED, s->table_fd, 0, &at) < 0) return;
    if (is_our_table(s, at, size)) return_strays(s, at);
    os->unmap(os, at, size);
}

/* -- one look ------------------------------------------------------------------------------------ */

static bool
resume_link(zi_session *s)
{
    const zi_msg_welcome *w = &s->rx_msg->welcome;

    s->armed = s->epoll_fd >= 0; /* at the very end there is no keeper any more */
    if (s->armed && s->os->epoll_set(s->os, s->epoll_fd, EPOLL_CTL_ADD, s->sock,
                                     EPOLLIN | EPOLLONESHOT, 1) < 0)
        return false;
    s->state = ZI_LINK_JOINED;
    s->version = w->version;
    s->epoch = w->epoch;
    s->budget_bytes = w->budget_bytes;
    if (w->cores) s->cores = w->cores;
    s->uncharged_bytes = 0; /* REJOIN told them all */
    compare_with_table(s);
    s->tide_wanted = s->in_step;
    if (s->wish.step_bytes) zi_limit_wish(s, (zi_session_wish){0});
    if (s->suspended) zi_step_tell_suspended(s, 0, ZICO_OK);
    for (zi_pending *p = s->pending; p; p = p->next) zi_link_send_pending(s, p);
    pthread_cond_broadcast(&s->changed);
    return true;
}

void
zi_rejoin_try(zi_session *s)
{
    if (s->reading || s->sock >= 0) return; /* the old socket has a reader still */
    long sock = s->os->connect_to(s->os, s->socket_path);
    if (sock < 0) return;
    s->sock = (int)sock;
    if (send_rejoin(s) && read_answer(s)) {
        if (s->rx_msg->type == ZI_MSG_WELCOME && resume_link(s)) return;
        if (s->rx_msg->type == ZI_MSG_REFUSE) {
            zi_session_say(s, "%s", s->rx_msg->refuse.text);
            s->state = ZI_LINK_REFUSED;
            pthread_cond_broadcast(&s->changed);
        }
    }
    s->os->close(s->os, s->sock);
    s->sock = -1;
}

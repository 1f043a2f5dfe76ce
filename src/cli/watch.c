/* watch.c -- asks a broker for its state and puts the answers together. */
#include "cli/watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"
#include "base/vec.h"

struct zi_watch {
    const zi_os *os;
    int          fd;
    uint32_t     n_wanted; /* STATUS_JOB messages still to come */
    bool         begun;    /* a STATUS was seen                 */
    ZI_VEC(zi_msg_status_job) coming, shown;
    zi_msg_status next;
    zi_picture    picture;
    zi_msg        msg;
    unsigned char buf[ZI_WIRE_MAX];
};

static zico_status
send_one(const zi_os *os, int fd, const zi_msg *m, unsigned char *buf)
{
    size_t len;
    ZI_TRY(zi_wire_encode(m, ZI_WIRE_VERSION_MAX, buf, ZI_WIRE_MAX, &len));
    long rc = os->send_msg(os, fd, buf, len, NULL, 0, 0);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

static zico_status
recv_one(const zi_os *os, int fd, int64_t timeout_ns, unsigned char *buf, zi_msg *ret_msg)
{
    size_t n_fds = 0;
    long   rc = os->poll_fd(os, fd, POLLIN, timeout_ns);
    if (rc < 0) return zi_os_status(rc);
    if (rc == 0) return ZICO_E_TIMEOUT;
    rc = os->recv_msg(os, fd, buf, ZI_WIRE_MAX, NULL, &n_fds, 0);
    if (rc < 0) return zi_os_status(rc);
    if (rc == 0) return ZICO_E_GONE;
    return zi_wire_decode(buf, (size_t)rc, ZI_WIRE_VERSION_MAX, ret_msg, NULL);
}

zico_status
zi_watch_open(const zi_os *os, const char *socket_path, bool stay, zi_watch **ret_watch)
{
    zico_status st;
    zi_watch   *w = zi_calloc(1, sizeof *w);
    if (!w) return ZICO_E_NOMEM;
    w->os = os;
    long fd = os->connect_to(os, socket_path);
    if (fd < 0) {
        zi_free(w);
        return fd == -ECONNREFUSED ? ZICO_E_NOTFOUND : zi_os_status(fd);
    }
    w->fd = (int)fd;
    w->msg = (zi_msg){.type = ZI_MSG_STATUS_ASK, .seq = 1};
    w->msg.status_ask.min_version = ZI_WIRE_VERSION_MIN;
    w->msg.status_ask.max_version = ZI_WIRE_VERSION_MAX;
    w->msg.status_ask.watch = stay;
    st = send_one(os, w->fd, &w->msg, w->buf);
    if (st < 0) {
        zi_watch_close(w);
        return st;
    }
    *ret_watch = w;
    return ZICO_OK;
}

void
zi_watch_close(zi_watch *w)
{
    if (!w) return;
    w->os->close(w->os, w->fd);
    zi_vec_free(&w->coming);
    zi_vec_free(&w->shown);
    zi_free(w);
}

int
zi_watch_fd(const zi_watch *w)
{
    return w->fd;
}

const zi_picture *
zi_watch_picture(const zi_watch *w)
{
    return &w->picture;
}

/* A picture is complete with its last job: what was coming is now shown. */
static void
complete(zi_watch *w)
{
    __typeof__(w->coming) old = w->coming;
    memcpy(&w->coming, &w->shown, sizeof w->coming);
    memcpy(&w->shown, &old, sizeof w->shown);
    w->picture.device = w->next;
    w->picture.n_jobs = w->shown.n;
    w->picture.job = w->shown.at;
    w->begun = false;
}

/* ZICO_PENDING: the picture is not complete yet. */
static zico_status
feed(zi_watch *w)
{
    switch (w->msg.type) {
    case ZI_MSG_STATUS:
        w->next = w->msg.status;
        w->n_wanted = w->next.n_jobs;
        w->begun = true;
        zi_vec_clear(&w->coming);
        break;
    case ZI_MSG_STATUS_JOB:
        if (!w->begun || w->n_wanted == 0) return ZICO_E_PROTO;
        ZI_TRY(zi_vec_push(&w->coming, w->msg.status_job));
        w->n_wanted--;
        break;
    case ZI_MSG_REFUSE:
        return (zico_status)w->msg.refuse.status;
    default:
        return ZICO_PENDING;
    }
    if (w->n_wanted > 0) return ZICO_PENDING;
    complete(w);
    return ZICO_OK;
}

zico_status
zi_watch_next(zi_watch *w, int64_t timeout_ns)
{
    uint64_t begin = w->os->now_ns(w->os);
    for (;;) {
        int64_t left = timeout_ns;
        if (timeout_ns >= 0) {
            int64_t gone = (int64_t)(w->os->now_ns(w->os) - begin);
            left = gone < timeout_ns ? timeout_ns - gone : 0;
        }
        ZI_TRY(recv_one(w->os, w->fd, left, w->buf, &w->msg));
        zico_status st = feed(w);
        if (st != ZICO_PENDING) return st;
    }
}

zico_status
zi_watch_request(const zi_os *os, const char *socket_path, zi_msg *request,
                 zi_msg *ret_answer)
{
    unsigned char *buf = zi_malloc(ZI_WIRE_MAX);
    zico_status    st;
    if (!buf) return ZICO_E_NOMEM;
    long fd = os->connect_to(os, socket_path);
    if (fd < 0) {
        zi_free(buf);
        return fd == -ECONNREFUSED ? ZICO_E_NOTFOUND : zi_os_status(fd);
    }
    request->seq = 1;
    st = send_one(os, (int)fd, request, buf);
    if (st >= 0) st = recv_one(os, (int)fd, 5000000000, buf, ret_answer);
    os->close(os, (int)fd);
    zi_free(buf);
    return st;
}

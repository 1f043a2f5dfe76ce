/* keeper.c -- the session's own thread.
 *
 * It does what nobody waits for: sends back leases whose fences are complete, makes
 * regions taken ahead present, gives back what the broker recalls, reads the socket while
 * nobody else does, and looks for a new broker when the old one is gone.  It sleeps in
 * epoll on the socket and on one eventfd (completed fences, and zi_keeper_wake).
 */
#include "client/session_inside.h"

#include "base/check.h"

#include <signal.h>
#include <sys/epoll.h>

enum { TAG_WAKE, TAG_SOCKET };

/* A wake that is lost would leave somebody waiting for ever: it is tried again. */
void
zi_keeper_wake(zi_session *s)
{
    for (int i = 0; i < 3 && s->wake_fd >= 0; i++)
        if (s->os->event_add(s->os, s->wake_fd) >= 0) return;
}

static void
tell_watchers(zi_session *s, bool recall)
{
    pthread_mutex_lock(&s->watch_mu);
    for (zi_session_watcher *w = s->watchers; w; w = w->next)
        if (w->on_wake) w->on_wake(w->user, recall);
    pthread_mutex_unlock(&s->watch_mu);
}

/* With mu held. */
static int64_t
sleep_ns(const zi_session *s)
{
    return s->state == ZI_LINK_GONE ? (int64_t)ZI_SESSION_REJOIN_NS : -1;
}

static void
tend(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    zi_link_read_now(s);
    if (s->n_waiting == 0 && s->state == ZI_LINK_JOINED) zi_link_arm(s, true);
    if (s->state == ZI_LINK_GONE) zi_rejoin_try(s);
    zi_lease_finish_returns(s);
    zi_lease_fill_stock(s);
    uint32_t recall = s->recall;
    s->recall = 0;
    if (s->opt.hold_step && s->in_step) recall = 0;
    if (recall) {
        zi_lease_drop_stock(s, recall);
        zi_lease_flush(s);
    }
    pthread_mutex_unlock(&s->mu);
    tell_watchers(s, recall > 0);
}

static void *
keep(void *arg)
{
    zi_session        *s = arg;
    struct epoll_event ev[2];

    for (;;) {
        pthread_mutex_lock(&s->mu);
        bool    stop = s->stop;
        int64_t timeout = sleep_ns(s);
        pthread_mutex_unlock(&s->mu);
        if (stop) return NULL;
        long n = s->os->epoll_wait(s->os, s->epoll_fd, ev, 2, timeout);
        for (long i = 0; i < n; i++) {
            if (ev[i].data.u64 == TAG_WAKE) s->os->event_take(s->os, s->wake_fd);
            if (ev[i].data.u64 == TAG_SOCKET) {
                pthread_mutex_lock(&s->mu);
                s->armed = false; /* it told once and tells no more until armed again */
                pthread_mutex_unlock(&s->mu);
            }
        }
        if (n < 0) s->os->sleep_until(s->os, s->os->now_ns(s->os) + 1000000);
        if (atomic_load(&s->usable)) tend(s);
    }
}

/* Signals belong to the program's own threads. */
static int
start_thread(zi_session *s)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->keeper, NULL, keep, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) pthread_setname_np(s->keeper, "zico-keeper");
    return rc;
}

zico_status
zi_keeper_start(zi_session *s)
{
    const zi_os *os = s->os;
    long         rc = os->event_fd(os, 0);

    if (rc < 0) return zi_os_status(rc);
    s->wake_fd = (int)rc;
    rc = os->epoll_new(os, 0);
    if (rc < 0) return zi_os_status(rc);
    s->epoll_fd = (int)rc;
    rc = os->epoll_set(os, s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, EPOLLIN, TAG_WAKE);
    if (rc >= 0 && s->sock >= 0) {
        rc = os->epoll_set(os, s->epoll_fd, EPOLL_CTL_ADD, s->sock,
                           EPOLLIN | EPOLLONESHOT, TAG_SOCKET);
        s->armed = true;
    }
    if (rc < 0) return zi_os_status(rc);
    if (start_thread(s) != 0) return ZICO_E_NOMEM;
    s->keeper_runs = true;
    return ZICO_OK;
}

void
zi_keeper_stop(zi_session *s)
{
    if (s->keeper_runs) {
        pthread_mutex_lock(&s->mu);
        s->stop = true;
        pthread_mutex_unlock(&s->mu);
        zi_keeper_wake(s);
        pthread_join(s->keeper, NULL);
        s->keeper_runs = false;
    }
    if (s->epoll_fd >= 0) s->os->close(s->os, s->epoll_fd);
    if (s->wake_fd >= 0) s->os->close(s->os, s->wake_fd);
    s->epoll_fd = s->wake_fd = -1;
}

/* fork.c -- what a child of fork sees of the pool.
 *
 * Pool mappings are not inherited (MADV_DONTFORK): parent and child would write the same
 * pages, and the parent's regions go to other jobs while the child still reads.  Instead
 * the child copies what its parent holds at that moment into private pages at the same
 * addresses, and the parent waits in fork until that is done.  In the child the session is
 * not usable any more: blocks can be read, written and forgotten, nothing is asked of the
 * broker, whose socket is closed.
 *
 * Between fork and the child's return only calls that are safe there are made: map, pread,
 * close; nothing is allocated.  Work that streams of the parent run meanwhile may be seen
 * half done, as with any memory that threads write during a fork.
 */
#include "client/session_inside.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>

/* The process's sessions: pthread_atfork knows no argument. */
static struct {
    pthread_once_t  once;
    pthread_mutex_t mu;
    zi_session     *first;
    int             failed; /* pthread_atfork could not register */
    int             pipe[2];
} all = {.once = PTHREAD_ONCE_INIT, .mu = PTHREAD_MUTEX_INITIALIZER, .pipe = {-1, -1}};

static void
prepare(void)
{
    pthread_mutex_lock(&all.mu);
    for (zi_session *s = all.first; s; s = s->next_session) {
        pthread_mutex_lock(&s->watch_mu);
        for (zi_session_watcher *w = s->watchers; w; w = w->next)
            if (w->on_fork_prepare) w->on_fork_prepare(w->user);
        pthread_mutex_lock(&s->mu);
    }
    all.pipe[0] = all.pipe[1] = -1;
    if (!all.first) return;
    const zi_os *os = all.first->os;
    if (os->pipe_pair(os, all.pipe) < 0) all.pipe[0] = all.pipe[1] = -1;
}

static void
in_parent(void)
{
    if (all.pipe[0] >= 0) { /* until the child has copied, or is dead: hung up */
        const zi_os *os = all.first->os;
        os->close(os, all.pipe[1]);
        while (os->poll_fd(os, all.pipe[0], POLLIN, -1) == 0) {
        }
        os->close(os, all.pipe[0]);
    }
    for (zi_session *s = all.first; s; s = s->next_session) {
        pthread_mutex_unlock(&s->mu);
        for (zi_session_watcher *w = s->watchers; w; w = w->next)
            if (w->on_fork_parent) w->on_fork_parent(w->user);
        pthread_mutex_unlock(&s->watch_mu);
    }
    pthread_mutex_unlock(&all.mu);
}

/* Private pages at `at` with the content of `size` bytes of the pool from `off` on. */
static void
copy_pages(zi_session *s, char *at, uint64_t size, uint64_t off)
{
    const zi_os *os = s->os;
    void        *got;

    if (os->map(os, at, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0, &got) < 0)
        return;
    while (size > 0) {
        long n = os->pread(os, s->pool_fd, at, size, off);
        if (n <= 0) return;
        at += n, off += (uint64_t)n, size -= (uint64_t)n;
    }
}

static void
copy_session(zi_session *s)
{
    uint64_t r = s->shape.region_bytes;
    zi_run   run;
    void    *got;

    /* the pool's slots are holes now; keep others from mapping something there */
    for (uint32_t at = 0; zi_lease_next_shown(s, &at, &run);)
        s->os->map(s->os, s->base + run.first * r, run.n * r, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0, &got);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        if (!s->slots[i].used || s->slots[i].region == ZI_SESSION_NO_REGION) continue;
        copy_pages(s, s->base + i * r, r, s->slots[i].region * r);
    }
}

static void
leave_session(zi_session *s)
{
    const int fds[] = {s->sock, s->pool_fd, s->table_fd, s->epoll_fd, s->wake_fd};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0) s->os->close(s->os, fds[i]);
    s->sock = s->pool_fd = s->table_fd = s->epoll_fd = s->wake_fd = -1;
    s->ops->pool_close(s->pool); /* its descriptor would keep the pool's memory */
    s->pool = NULL;
    s->keeper_runs = false;
    s->returns = NULL;
    s->state = ZI_LINK_REFUSED;
    atomic_store(&s->usable, false);
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (zi_session_watcher *w = s->watchers; w; w = w->next)
        if (w->on_fork_child) w->on_fork_child(w->user);
    pthread_mutex_init(&s->watch_mu, NULL);
}

static void
in_child(void)
{
    const zi_os *os = all.first ? all.first->os : NULL;

    for (zi_session *s = all.first; s; s = s->next_session) {
        if (atomic_load(&s->usable)) copy_session(s); /* a grandchild inherits copies */
        leave_session(s);
    }
    if (all.pipe[0] >= 0) {
        os->close(os, all.pipe[0]);
        os->close(os, all.pipe[1]);
    }
    all.first = NULL;
    pthread_mutex_init(&all.mu, NULL);
}

static void
set_up(void)
{
    all.failed = pthread_atfork(prepare, in_parent, in_child);
}

zico_status
zi_fork_enlist(zi_session *s)
{
    pthread_once(&all.once, set_up);
    if (all.failed) return ZICO_E_NOMEM;
    pthread_mutex_lock(&all.mu);
    s->next_session = all.first;
    all.first = s;
    pthread_mutex_unlock(&all.mu);
    return ZICO_OK;
}

void
zi_fork_strike(zi_session *s)
{
    pthread_mutex_lock(&all.mu);
    for (zi_session **at = &all.first; *at; at = &(*at)->next_session) {
        if (*at != s) continue;
        *at = s->next_session;
        break;
    }
    pthread_mutex_unlock(&all.mu);
}

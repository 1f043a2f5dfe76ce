/* fake.c -- the fake twin: a virtual clock, and a call that fails on demand. */
#include "os/fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS 1000000 /* what a waiting call grants the real kernel */

struct zi_fake {
    zi_os           os;
    pthread_mutex_t mu; /* guards everything below */
    uint64_t        now_ns;
    const char     *only; /* NULL: any service */
    uint64_t        n_until_fail;
    uint64_t        n_calls; /* that count towards n_until_fail */
    int             err;     /* 0: nothing is to fail */
    int             failed;
    int32_t         peer_pid; /* 0: as the kernel says */
    uint32_t        peer_uid;
};

/* Counts a call.  A negative errno if it is the one that must fail. */
static long
turn(const zi_os *os, const char *name)
{
    zi_fake *f = os->self;
    long     rc = 0;

    pthread_mutex_lock(&f->mu);
    if (!f->only || strcmp(f->only, name) == 0) {
        if (f->err && !f->failed && f->n_calls == f->n_until_fail) {
            f->failed = 1;
            rc = -f->err;
        }
        f->n_calls++;
    }
    pthread_mutex_unlock(&f->mu);
    return rc;
}

#define X(name, params, args)                                                            \
    static long plain_##name(const zi_os *os, ZI_OS_BARE params)                         \
    {                                                                                    \
        const zi_os *real = zi_os_real();                                                \
        long         rc = turn(os, #name);                                               \
        return rc < 0 ? rc : real->name(real, ZI_OS_BARE args);                          \
    }
#include "os/os.def"

static uint64_t
fake_now_ns(const zi_os *os)
{
    zi_fake *f = os->self;

    pthread_mutex_lock(&f->mu);
    uint64_t now = f->now_ns;
    pthread_mutex_unlock(&f->mu);
    return now;
}

void
zi_fake_advance(zi_fake *f, uint64_t by_ns)
{
    pthread_mutex_lock(&f->mu);
    f->now_ns += by_ns;
    pthread_mutex_unlock(&f->mu);
}

static void
fake_sleep_until(const zi_os *os, uint64_t at_ns)
{
    zi_fake *f = os->self;

    pthread_mutex_lock(&f->mu);
    if (at_ns > f->now_ns) f->now_ns = at_ns;
    pthread_mutex_unlock(&f->mu);
}

/* How long a waiting call may really wait. */
static int64_t
patience(int64_t timeout_ns)
{
    return timeout_ns < 0 || timeout_ns > PATIENCE_NS ? PATIENCE_NS : timeout_ns;
}

static long
fake_epoll_wait(const zi_os *os, int ep, void *events, int cap, int64_t timeout_ns)
{
    const zi_os *real = zi_os_real();
    long         rc = turn(os, "epoll_wait");

    if (rc < 0) return rc;
    if (timeout_ns < 0) return real->epoll_wait(real, ep, events, cap, -1);
    rc = real->epoll_wait(real, ep, events, cap, patience(timeout_ns));
    if (rc == 0) zi_fake_advance(os->self, (uint64_t)timeout_ns);
    return rc;
}

static long
fake_poll_fd(const zi_os *os, int fd, short events, int64_t timeout_ns)
{
    const zi_os *real = zi_os_real();
    long         rc = turn(os, "poll_fd");

    if (rc < 0) return rc;
    if (timeout_ns < 0) return real->poll_fd(real, fd, events, -1);
    rc = real->poll_fd(real, fd, events, patience(timeout_ns));
    if (rc == 0) zi_fake_advance(os->self, (uint64_t)timeout_ns);
    return rc;
}

static long
fake_peer(const zi_os *os, int fd, int32_t *ret_pid, uint32_t *ret_uid)
{
    zi_fake *f = os->self;
    long     rc = plain_peer(os, fd, ret_pid, ret_uid);

    pthread_mutex_lock(&f->mu);
    if (rc >= 0 && f->peer_pid != 0) {
        *ret_pid = f->peer_pid;
        *ret_uid = f->peer_uid;
    }
    pthread_mutex_unlock(&f->mu);
    return rc;
}

/* Done all the same, see fake.h. */
static long
fake_close(const zi_os *os, int fd)
{
    long rc = turn(os, "close"), did = zi_os_real()->close(zi_os_real(), fd);
    return rc < 0 ? rc : did;
}

static long
fake_unmap(const zi_os *os, void *addr, size_t len)
{
    long rc = turn(os, "unmap"), did = zi_os_real()->unmap(zi_os_real(), addr, len);
    return rc < 0 ? rc : did;
}

static long
fake_unlink(const zi_os *os, const char *path)
{
    long rc = turn(os, "unlink"), did = zi_os_real()->unlink(zi_os_real(), path);
    return rc < 0 ? rc : did;
}

zico_status
zi_fake_new(zi_fake **ret_fake)
{
    zi_fake *f = calloc(1, sizeof *f);
    if (!f) return ZICO_E_NOMEM;

    pthread_mutex_init(&f->mu, NULL);
    f->now_ns = 1000000000u;
    f->os.self = f;
    f->os.now_ns = fake_now_ns;
    f->os.sleep_until = fake_sleep_until;
#define X(name, params, args) f->os.name = plain_##name;
#include "os/os.def"
    f->os.epoll_wait = fake_epoll_wait;
    f->os.poll_fd = fake_poll_fd;
    f->os.peer = fake_peer;
    f->os.close = fake_close;
    f->os.unmap = fake_unmap;
    f->os.unlink = fake_unlink;
    *ret_fake = f;
    return ZICO_OK;
}

void
zi_fake_free(zi_fake *f)
{
    if (!f) return;
    pthread_mutex_destroy(&f->mu);
    free(f);
}

const zi_os *
zi_fake_os(zi_fake *f)
{
    return &f->os;
}

void
zi_fake_fail_at(zi_fake *f, const char *only, uint64_t n, int err)
{
    pthread_mutex_lock(&f->mu);
    f->only = only;
    f->n_until_fail = n;
    f->n_calls = 0;
    f->err = err;
    f->failed = 0;
    pthread_mutex_unlock(&f->mu);
}

uint64_t
zi_fake_calls(const zi_fake *f)
{
    zi_fake *w = (zi_fake *)(uintptr_t)f;

    pthread_mutex_lock(&w->mu);
    uint64_t n = w->n_calls;
    pthread_mutex_unlock(&w->mu);
    return n;
}

int
zi_fake_failed(const zi_fake *f)
{
    zi_fake *w = (zi_fake *)(uintptr_t)f;

    pthread_mutex_lock(&w->mu);
    int failed = w->failed;
    pthread_mutex_unlock(&w->mu);
    return failed;
}

void
zi_fake_peer(zi_fake *f, int32_t pid, uint32_t uid)
{
    pthread_mutex_lock(&f->mu);
    f->peer_pid = pid;
    f->peer_uid = uid;
    pthread_mutex_unlock(&f->mu);
}

/* tier.c -- spill file and memory; tier.h has the promises. */
#include "exec/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/try.h"

#define CHUNK        (8ull << 20)   /* one system call at most */
#define SMALL_COPY   (256ull << 10) /* one that tells what a copy costs beside its bytes */
#define SMALL_COPIES 64u

struct zi_tier {
    const zi_os     *os;
    int              fd; /* -1: ram */
    bool             direct;
    char            *ram;
    uint64_t         size_bytes;
    bool             solid; /* every byte has its block: a loss can be seen */
    _Atomic uint64_t out_bytes, in_bytes, out_ns, in_ns;
};

/* Past the page cache where the file system allows it. */
static long
open_either_way(zi_tier *t, const char *path, int flags)
{
    long fd = t->os->open_file(t->os, path, flags | O_DIRECT, 0600);

    t->direct = fd >= 0;
    return fd == -EINVAL ? t->os->open_file(t->os, path, flags, 0600) : fd;
}

/* A file that never has a name; where that cannot be, one that loses it at once. */
static zico_status
open_file(zi_tier *t, const char *dir)
{
    char path[4096];
    int  len =
        snprintf(path, sizeof path, "%s/zico-spill-%d-%p", dir, (int)getpid(), (void *)t);

    if (len < 0 || (size_t)len >= sizeof path) return ZICO_E_ARG;
    long fd = open_either_way(t, dir, O_RDWR | O_TMPFILE | O_CLOEXEC);
    if (fd >= 0) {
        t->fd = (int)fd;
        return ZICO_OK;
    }
    if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -EINVAL) return zi_os_status(fd);
    fd = open_either_way(t, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC);
    if (fd < 0) return zi_os_status(fd);
    t->fd = (int)fd;
    return zi_os_status(t->os->unlink(t->os, path));
}

zico_status
zi_tier_open(const zi_os *os, const char *spec, zi_tier **ret_tier)
{
    const bool file = strncmp(spec, "file:", 5) == 0;
    zi_tier   *t;

    if (!file && strcmp(spec, "ram") != 0) return ZICO_E_FORMAT;
    t = zi_calloc(1, sizeof *t);
    if (!t) return ZICO_E_NOMEM;
    t->os = os;
    t->fd = -1;
    zico_status st = file ? open_file(t, spec + 5) : ZICO_OK;
    if (st < 0) {
        zi_tier_close(t);
        return st;
    }
    *ret_tier = t;
    return ZICO_OK;
}

void
zi_tier_close(zi_tier *t)
{
    if (!t) return;
    if (t->fd >= 0) t->os->close(t->os, t->fd);
    free(t->ram);
    zi_free(t);
}

/* As many blocks as bytes, by the kernel's count. */
static bool
is_solid(const zi_tier *t)
{
    uint64_t size, blocks;
    return t->os->file_bytes(t->os, t->fd, &size, &blocks) >= 0 &&
           size >= t->size_bytes && blocks >= t->size_bytes;
}

zico_status
zi_tier_reserve(zi_tier *t, uint64_t size_bytes)
{
    const uint64_t size =
        (size_bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;

    if (size <= t->size_bytes) return ZICO_OK;
    if (t->fd >= 0) {
        ZI_TRY(zi_os_status(t->os->allocate(t->os, t->fd, 0, size)));
    } else {
        char *more = aligned_alloc(ZI_TIER_ALIGN, size);
        if (!more) return ZICO_E_NOMEM;
        if (t->size_bytes) memcpy(more, t->ram, t->size_bytes);
        free(t->ram);
        t->ram = more;
    }
    t->size_bytes = size;
    t->solid = t->fd >= 0 && is_solid(t);
    return ZICO_OK;
}

static zico_status
file_move(zi_tier *t, uint64_t at, char *mem, uint64_t n, bool out)
{
    for (uint64_t done = 0; done < n;) {
        uint64_t len = n - done < CHUNK ? n - done : CHUNK;
        long     rc = out ? t->os->pwrite(t->os, t->fd, mem + done, len, at + done)
                          : t->os->pread(t->os, t->fd, mem + done, len, at + done);
        if (rc == -EINTR) continue;
        if (rc == -EINVAL && t->direct) { /* this file system changed its mind */
            t->direct = false;
            fcntl(t->fd, F_SETFL, 0);
            continue;
        }
        if (rc < 0) return zi_os_status(rc);
        if (rc == 0) return ZICO_E_IO; /* the file has become shorter */
        done += (uint64_t)rc;
    }
    if (!t->direct) {
        if (out) t->os->fsync(t->os, t->fd);
        posix_fadvise(t->fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED);
    }
    return ZICO_OK;
}

static zico_status
move(zi_tier *t, uint64_t at, char *mem, uint64_t n_bytes, bool out)
{
    const uint64_t begin = t->os->now_ns(t->os);
    const uint64_t n = (n_bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;

    if (at % ZI_TIER_ALIGN || at + n > t->size_bytes) return ZICO_E_ARG;
    if (t->fd >= 0) {
        ZI_TRY(file_move(t, at, mem, n, out));
        if (!out && t->solid && !is_solid(t)) return ZICO_E_IO; /* somebody cut it */
    } else
        memcpy(out ? t->ram + at : mem, out ? mem : t->ram + at, n_bytes);
    atomic_fetch_add(out ? &t->out_bytes : &t->in_bytes, n_bytes);
    atomic_fetch_add(out ? &t->out_ns : &t->in_ns, t->os->now_ns(t->os) - begin);
    return ZICO_OK;
}

zico_status
zi_tier_write(zi_tier *t, uint64_t at, const void *src, uint64_t n_bytes)
{
    return move(t, at, (char *)(uintptr_t)src, n_bytes, true);
}

zico_status
zi_tier_read(zi_tier *t, uint64_t at, void *dst, uint64_t n_bytes)
{
    return move(t, at, dst, n_bytes, false);
}

const zi_os *
zi_tier_os(const zi_tier *t)
{
    return t->os;
}

void
zi_tier_read_stats(const zi_tier *t, zi_tier_stats *ret_stats)
{
    *ret_stats = (zi_tier_stats){.out_bytes = atomic_load(&t->out_bytes),
                                 .in_bytes = atomic_load(&t->in_bytes),
                                 .out_ns = atomic_load(&t->out_ns),
                                 .in_ns = atomic_load(&t->in_ns)};
}

/* -- how fast it is --------------------------------------------------------------------------- */

static double
speed(uint64_t bytes, uint64_t ns)
{
    return (double)bytes * 1e9 / (double)(ns ? ns : 1);
}

/* Writes the first half again and again until told to stop. */
typedef struct writer {
    zi_tier    *t;
    char       *mem;
    uint64_t    n, done, ns;
    zico_status st;
    atomic_bool stop;
} writer;

static void *
keep_writing(void *arg)
{
    writer        *w = arg;
    const uint64_t begin = w->t->os->now_ns(w->t->os);

    for (uint64_t at = 0; w->st >= 0 && !atomic_load(&w->stop); at += CHUNK) {
        uint64_t from = at % w->n, len = w->n - from < CHUNK ? w->n - from : CHUNK;
        w->st = zi_tier_write(w->t, from, w->mem + from, len);
        w->done += len;
    }
    w->ns = w->t->os->now_ns(w->t->os) - begin;
    return NULL;
}

/* Alone, one way after the other; blocks that were never written are slower, and not counted. */
static zico_status
measure_alone(zi_tier *t, char *mem, uint64_t n, zi_tier_speed *ret)
{
    ZI_TRY(zi_tier_write(t, 0, mem, n));
    const uint64_t t0 = t->os->now_ns(t->os);
    ZI_TRY(zi_tier_write(t, 0, mem, n));
    const uint64_t t1 = t->os->now_ns(t->os);
    ZI_TRY(zi_tier_read(t, 0, mem, n));
    *ret = (zi_tier_speed){.out_bytes_per_s = speed(n, t1 - t0),
                           .in_bytes_per_s = speed(n, t->os->now_ns(t->os) - t1)};
    return ZICO_OK;
}

static uint64_t
thread_cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What a small copy wants of a core: calls, pages, interrupts. */
static zico_status
measure_cpu(zi_tier *t, char *mem, uint64_t n, zi_tier_speed *ret)
{
    const uint64_t len = n < SMALL_COPY ? n : SMALL_COPY, begin = thread_cpu_ns();

    for (uint64_t i = 0; i < SMALL_COPIES; i++) {
        const uint64_t at = i * len % (n - len + 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
        ZI_TRY(zi_tier_write(t, at, mem + at, len));
        ZI_TRY(zi_tier_read(t, at, mem + at, len));
    }
    ret->copy_cpu_ns = (thread_cpu_ns() - begin) / (2 * SMALL_COPIES);
    return ZICO_OK;
}

/* Both ways at once: what is left of each speed. */
static zico_status
measure_together(zi_tier *t, char *mem, uint64_t n, zi_tier_speed *ret)
{
    writer    w = {.t = t, .mem = mem, .n = n};
    pthread_t other;

    if (pthread_create(&other, NULL, keep_writing, &w) != 0) return ZICO_E_NOMEM;
    const uint64_t t0 = t->os->now_ns(t->os);
    zico_status    st = zi_tier_read(t, n, mem + n, n);
    const uint64_t t1 = t->os->now_ns(t->os);
    atomic_store(&w.stop, true);
    pthread_join(other, NULL);
    ZI_TRY(st);
    ZI_TRY(w.st);
    ret->out_beside = speed(w.done, w.ns) / ret->out_bytes_per_s;
    ret->in_beside = speed(n, t1 - t0) / ret->in_bytes_per_s;
    return ZICO_OK;
}

/* Each way has its half of the tier. */
zico_status
zi_tier_speeds(zi_tier *t, uint64_t n_bytes, zi_tier_speed *ret_speed)
{
    const uint64_t n = (n_bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
    char          *mem = aligned_alloc(ZI_TIER_ALIGN, 2 * n);
    zi_tier_speed  speeds = {0};

    if (!mem) return ZICO_E_NOMEM;
    memset(mem, 1, 2 * n);
    zico_status st = zi_tier_reserve(t, 2 * n);
    if (st >= 0) st = measure_alone(t, mem, n, &speeds);
    if (st >= 0) st = measure_cpu(t, mem, n, &speeds);
    if (st >= 0) st = zi_tier_write(t, n, mem + n, n);
    if (st >= 0) st = measure_together(t, mem, n, &speeds);
    free(mem);
    if (st >= 0) *ret_speed = speeds;
    return st;
}

/* trace_record.c -- a preload library that writes down large allocations.
 *
 *     cc -O2 -shared -fPIC -o trace_record.so tools/trace_record.c -ldl
 *     ZI_TRACE_OUT=raw LD_PRELOAD=./trace_record.so python train.py
 *
 * Events are 24 bytes: time in ns, address, size (0: freed; UINT64_MAX: a mark made by the
 * program with zi_trace_mark).  They go to a fixed table in memory and to the file at
 * exit.  Blocks below 64 KiB are not seen.  tools/record_traces.py turns the table into
 * the text that bench/pool_trace.c replays.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LEAST      (64u << 10)
#define EVENTS_MAX (1u << 22)
#define OWN_MAX    (1u << 16) /* what dlsym needs before malloc is found */

typedef struct event {
    uint64_t at_ns, address, size;
} event;

static struct {
    event           *table;
    _Atomic uint32_t n;
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
} real;

static char   own[OWN_MAX] __attribute__((aligned(64)));
static size_t own_used;

static void *
own_alloc(size_t size)
{
    size_t at = own_used;
    own_used += (size + 63) & ~(size_t)63;
    if (own_used > OWN_MAX) _exit(127);
    return own + at;
}

static int
is_own(const void *p)
{
    return (const char *)p >= own && (const char *)p < own + OWN_MAX;
}

static void
find_real(void)
{
    static int finding;

    if (real.free || finding) return;
    finding = 1;
    real.table = mmap(NULL, sizeof(event) * EVENTS_MAX, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    real.calloc = dlsym(RTLD_NEXT, "calloc");
    real.realloc = dlsym(RTLD_NEXT, "realloc");
    real.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    real.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    real.memalign = dlsym(RTLD_NEXT, "memalign");
    real.malloc = dlsym(RTLD_NEXT, "malloc");
    real.free = dlsym(RTLD_NEXT, "free");
}

static void
note(const void *p, uint64_t size)
{
    struct timespec ts;
    uint32_t        i = atomic_fetch_add(&real.n, 1);

    if (i >= EVENTS_MAX) return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    real.table[i] = (event){(uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec,
                            (uintptr_t)p, size};
}

/* Frees of small blocks are many: a free counts only if its block is large, which glibc
 * tells by the size in front of it. */
static int
is_large(void *p)
{
    extern size_t malloc_usable_size(void *);
    return p && !is_own(p) && malloc_usable_size(p) >= LEAST;
}

__attribute__((visibility("default"))) void
zi_trace_mark(void)
{
    note(NULL, UINT64_MAX);
}

void *
malloc(size_t size)
{
    find_real();
    if (!real.free) return own_alloc(size);
    void *p = real.malloc(size);
    if (p && size >= LEAST) note(p, size);
    return p;
}

void *
calloc(size_t n, size_t size)
{
    find_real();
    if (!real.free) return own_alloc(n * size);
    void *p = real.calloc(n, size);
    if (p && n * size >= LEAST) note(p, n * size);
    return p;
}

void *
realloc(void *old, size_t size)
{
    find_real();
    if (!real.free || is_own(old)) {
        void *p = malloc(size);
        if (p && old) memcpy(p, old, size);
        return p;
    }
    if (is_large(old)) note(old, 0);
    void *p = real.realloc(old, size);
    if (p && size >= LEAST) note(p, size);
    return p;
}

void
free(void *p)
{
    if (!p || is_own(p)) return;
    find_real();
    if (is_large(p)) note(p, 0);
    real.free(p);
}

int
posix_memalign(void **ret, size_t align, size_t size)
{
    find_real();
    int rc = real.posix_memalign(ret, align, size);
    if (rc == 0 && size >= LEAST) note(*ret, size);
    return rc;
}

void *
aligned_alloc(size_t align, size_t size)
{
    find_real();
    void *p = real.aligned_alloc(align, size);
    if (p && size >= LEAST) note(p, size);
    return p;
}

void *
memalign(size_t align, size_t size)
{
    find_real();
    void *p = real.memalign(align, size);
    if (p && size >= LEAST) note(p, size);
    return p;
}

__attribute__((destructor)) static void
write_table(void)
{
    const char *path = getenv("ZI_TRACE_OUT");
    uint32_t    n = real.n < EVENTS_MAX ? real.n : EVENTS_MAX;
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    const char *at = (const char *)real.table;
    size_t      left = n * sizeof(event);

    while (fd >= 0 && left > 0) {
        ssize_t done = write(fd, at, left);
        if (done <= 0) break;
        at += done, left -= (size_t)done;
    }
    if (fd >= 0) close(fd);
}

/* recorder.c -- preloaded into a program: how many bytes it has allocated at most.
 *
 * Counts blocks of at least 4 KiB from malloc, calloc, realloc, memalign and friends, and
 * anonymous mmaps of its callers.  recorder_reset() starts a new peak at what is live now;
 * recorder_peak() and recorder_live() tell.  Python reaches them through ctypes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 4096u

static _Atomic long live, peak;

long recorder_live(void);
long recorder_peak(void);
void recorder_reset(void);

long
recorder_live(void)
{
    return live;
}

long
recorder_peak(void)
{
    return peak;
}

void
recorder_reset(void)
{
    peak = live;
}

static void
count(void *p, int sign)
{
    size_t n = p ? malloc_usable_size(p) : 0;
    if (n < LEAST) return;
    long now = atomic_fetch_add(&live, sign * (long)n) + sign * (long)n;
    for (long top = peak; now > top && !atomic_compare_exchange_weak(&peak, &top, now);)
        continue;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void  __libc_free(void *);

void *
malloc(size_t n)
{
    void *p = __libc_malloc(n);
    count(p, 1);
    return p;
}

void *
calloc(size_t n, size_t size)
{
    void *p = __libc_calloc(n, size);
    count(p, 1);
    return p;
}

void *
realloc(void *old, size_t n)
{
    count(old, -1);
    void *p = __libc_realloc(old, n);
    count(p ? p : (n ? old : NULL), 1);
    return p;
}

void *
memalign(size_t align, size_t n)
{
    void *p = __libc_memalign(align, n);
    count(p, 1);
    return p;
}

void *
aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

int
posix_memalign(void **ret, size_t align, size_t n)
{
    void *p = memalign(align, n);
    if (!p) return ENOMEM;
    *ret = p;
    return 0;
}

void
free(void *p)
{
    count(p, -1);
    __libc_free(p);
}

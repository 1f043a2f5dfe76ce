/* slow.c -- behind each wrapper of hooks.def: what happens off the fast path.
 *
 * Reached for sizes of min_bytes and more, and for pointers that may be ours.  Everything
 * that is not ours after all goes to the previous allocator, with its own errors.
 */
#include "hook/hook.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "hook/observe.h"

#define PREV        zi_hot_state.prev
#define BLOCK_ALIGN 64u /* what vector code likes; more than malloc promises */

static bool
power_of_two(size_t n)
{
    return n && !(n & (n - 1));
}

static void *
no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

/* In observe mode the block is the previous allocator's, and only noted. */
static void *
noted(void *p, size_t size)
{
    if (p && zi_shim_observing()) zi_observe_take(p, size);
    return p;
}

void *
zi_hook_malloc(size_t size)
{
    void *p;
    switch (zi_shim_take(size, BLOCK_ALIGN, false, &p)) {
    case ZI_TAKEN_OURS:
        return p;
    case ZI_TAKEN_REFUSED:
        return no_memory();
    default:
        return noted(PREV.malloc(size), size);
    }
}

void *
zi_hook_calloc(size_t n, size_t size)
{
    void *p;
    switch (zi_shim_take(n * size, BLOCK_ALIGN, true, &p)) {
    case ZI_TAKEN_OURS:
        return p;
    case ZI_TAKEN_REFUSED:
        return no_memory();
    default:
        return noted(PREV.calloc(n, size), n * size);
    }
}

int
zi_hook_posix_memalign(void **ret, size_t align, size_t size)
{
    void *p;
    if (!power_of_two(align) || align % sizeof(void *)) return EINVAL;
    switch (zi_shim_take(size, align < BLOCK_ALIGN ? BLOCK_ALIGN : align, false, &p)) {
    case ZI_TAKEN_OURS:
        *ret = p;
        return 0;
    case ZI_TAKEN_REFUSED:
        return ENOMEM;
    default:
        break;
    }
    int rc = PREV.posix_memalign(ret, align, size);
    if (rc == 0) noted(*ret, size);
    return rc;
}

void *
zi_hook_memalign(size_t align, size_t size)
{
    void *p;
    if (!power_of_two(align)) return PREV.memalign(align, size);
    switch (zi_shim_take(size, align < BLOCK_ALIGN ? BLOCK_ALIGN : align, false, &p)) {
    case ZI_TAKEN_OURS:
        return p;
    case ZI_TAKEN_REFUSED:
        return no_memory();
    default:
        return noted(PREV.memalign(align, size), size);
    }
}

void *
zi_hook_aligned_alloc(size_t align, size_t size)
{
    void *p;
    if (!power_of_two(align)) return PREV.aligned_alloc(align, size);
    switch (zi_shim_take(size, align < BLOCK_ALIGN ? BLOCK_ALIGN : align, false, &p)) {
    case ZI_TAKEN_OURS:
        return p;
    case ZI_TAKEN_REFUSED:
        return no_memory();
    default:
        return noted(PREV.aligned_alloc(align, size), size);
    }
}

void *
zi_hook_valloc(size_t size)
{
    return zi_hook_memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

/* A block of the previous allocator that grows past min_bytes becomes ours. */
static void *
adopt(void *p, size_t size)
{
    void  *q;
    size_t old = p ? PREV.malloc_usable_size(p) : 0;

    switch (zi_shim_take(size, BLOCK_ALIGN, false, &q)) {
    case ZI_TAKEN_OURS:
        break;
    case ZI_TAKEN_REFUSED:
        return no_memory();
    default:
        return PREV.realloc(p, size);
    }
    if (p) {
        memcpy(q, p, old < size ? old : size);
        PREV.free(p);
    }
    return q;
}

/* One of ours, `old` bytes long, changes its size: in place while at least half is used. */
static void *
resize(void *p, size_t old, size_t size)
{
    if (size == 0) {
        zi_shim_give(p);
        return NULL; /* as the C library does */
    }
    if (size <= old && size >= old / 2) return p;
    void *q = zi_hook_big(size) ? zi_hook_malloc(size) : PREV.malloc(size);
    if (!q) return NULL;
    memcpy(q, p, old < size ? old : size);
    zi_shim_give(p);
    return q;
}

void *
zi_hook_realloc(void *p, size_t size)
{
    size_t old = p && zi_hook_ours(p) ? zi_shim_usable(p) : 0;
    if (old) return resize(p, old, size);
    return zi_hook_big(size) ? adopt(p, size) : PREV.realloc(p, size);
}

void *
zi_hook_reallocarray(void *p, size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) return no_memory();
    return zi_hook_realloc(p, all);
}

void
zi_hook_free(void *p)
{
    if (!zi_shim_give(p)) PREV.free(p);
}

size_t
zi_hook_malloc_usable_size(void *p)
{
    size_t size = zi_shim_usable(p);
    return size ? size : PREV.malloc_usable_size(p);
}

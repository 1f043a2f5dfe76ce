/* prev.c -- finds the allocator that was there before, without needing one. */
#include "hook/prev.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define BOOT_BYTES (64u << 10)
#define BOOT_ALIGN 16u

/* A boot block has its size in the 16 bytes in front of it. */
static struct {
    _Alignas(64) char bytes[BOOT_BYTES];
    _Atomic(size_t) used;
} boot;

static _Thread_local bool resolving __attribute__((tls_model("initial-exec")));

#define HOOK(ret, name, params, args, kind, leaves) static ret boot_##name params;
#include "hook/hooks.def"

zi_hot zi_hot_state = {
    .min_bytes = SIZE_MAX,
    .pool_lo = UINTPTR_MAX,
    .prev =
        {
#define HOOK(ret, name, params, args, kind, leaves) .name = boot_##name,
#include "hook/hooks.def"
        },
};

bool
zi_prev_is_boot(const void *p)
{
    return (uintptr_t)p - (uintptr_t)boot.bytes < BOOT_BYTES;
}

static void *
buffer_take(size_t align, size_t size)
{
    if (align < BOOT_ALIGN) align = BOOT_ALIGN;
    if (size > BOOT_BYTES || align > BOOT_BYTES) goto full;
    size_t need = size + align + BOOT_ALIGN;
    size_t at = atomic_fetch_add(&boot.used, (need + 15) & ~(size_t)15);
    if (at > BOOT_BYTES || need > BOOT_BYTES - at) goto full;
    uintptr_t p = (uintptr_t)boot.bytes + at + BOOT_ALIGN;
    p = (p + align - 1) & ~(uintptr_t)(align - 1);
    memcpy((char *)p - sizeof size, &size, sizeof size);
    return (void *)p;
full:
    errno = ENOMEM;
    return NULL;
}

static size_t
buffer_size(const void *p)
{
    size_t size = 0;
    if (p) memcpy(&size, (const char *)p - sizeof size, sizeof size);
    return size;
}

static void *
buffer_move(void *p, size_t size)
{
    void *q = buffer_take(0, size);
    if (q && p) memcpy(q, p, buffer_size(p) < size ? buffer_size(p) : size);
    return q;
}

/* -- after the look-up, for blocks that were given out before it ----------------------- */

static zi_prev found; /* what dlsym said */

static void
guarded_free(void *p)
{
    if (!zi_prev_is_boot(p)) found.free(p);
}

static size_t
guarded_usable(void *p)
{
    return zi_prev_is_boot(p) ? buffer_size(p) : found.malloc_usable_size(p);
}

static void *
guarded_realloc(void *p, size_t size)
{
    if (!zi_prev_is_boot(p)) return found.realloc(p, size);
    void *q = found.malloc(size);
    if (q) memcpy(q, p, buffer_size(p) < size ? buffer_size(p) : size);
    return q;
}

static void *
guarded_reallocarray(void *p, size_t n, size_t size)
{
    size_t all;
    if (!zi_prev_is_boot(p)) return found.reallocarray(p, n, size);
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return guarded_realloc(p, all);
}

/* Two threads may do this at once: both store the same. */
void
zi_prev_resolve(void)
{
    zi_prev now;

    if (resolving) return;
    resolving = true;
#define HOOK(ret, name, params, args, kind, leaves)                                      \
    *(void **)&now.name = dlsym(RTLD_NEXT, #name);
#include "hook/hooks.def"
    found = now;
    if (atomic_load(&boot.used) > 0) {
        now.free = guarded_free;
        now.malloc_usable_size = guarded_usable;
        now.realloc = guarded_realloc;
        now.reallocarray = guarded_reallocarray;
    }
#define HOOK(ret, name, params, args, kind, leaves) zi_hot_state.prev.name = now.name;
#include "hook/hooks.def"
    resolving = false;
}

/* -- before the look-up ----------------------------------------------------------------- */

static void *
buffer_calloc(size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return buffer_take(0, all); /* fresh and never reused: zero */
}

static void *
boot_malloc(size_t size)
{
    if (resolving) return buffer_take(0, size);
    zi_prev_resolve();
    return zi_hot_state.prev.malloc(size);
}

static void *
boot_calloc(size_t n, size_t size)
{
    if (resolving) return buffer_calloc(n, size);
    zi_prev_resolve();
    return zi_hot_state.prev.calloc(n, size);
}

static void *
boot_realloc(void *p, size_t size)
{
    if (resolving) return buffer_move(p, size);
    zi_prev_resolve();
    return zi_hot_state.prev.realloc(p, size);
}

static void *
boot_reallocarray(void *p, size_t n, size_t size)
{
    size_t all;
    if (!resolving) {
        zi_prev_resolve();
        return zi_hot_state.prev.reallocarray(p, n, size);
    }
    if (!__builtin_mul_overflow(n, size, &all)) return buffer_move(p, all);
    errno = ENOMEM;
    return NULL;
}

static int
boot_posix_memalign(void **ret, size_t align, size_t size)
{
    if (!resolving) {
        zi_prev_resolve();
        return zi_hot_state.prev.posix_memalign(ret, align, size);
    }
    void *p = buffer_take(align, size);
    if (!p) return ENOMEM;
    *ret = p;
    return 0;
}

static void *
boot_aligned_alloc(size_t align, size_t size)
{
    if (resolving) return buffer_take(align, size);
    zi_prev_resolve();
    return zi_hot_state.prev.aligned_alloc(align, size);
}

static void *
boot_memalign(size_t align, size_t size)
{
    if (resolving) return buffer_take(align, size);
    zi_prev_resolve();
    return zi_hot_state.prev.memalign(align, size);
}

static void *
boot_valloc(size_t size)
{
    if (resolving) return buffer_take(4096, size);
    zi_prev_resolve();
    return zi_hot_state.prev.valloc(size);
}

static void
boot_free(void *p)
{
    if (resolving || zi_prev_is_boot(p)) return;
    zi_prev_resolve();
    zi_hot_state.prev.free(p);
}

static size_t
boot_malloc_usable_size(void *p)
{
    if (zi_prev_is_boot(p)) return buffer_size(p);
    zi_prev_resolve();
    return zi_hot_state.prev.malloc_usable_size(p);
}

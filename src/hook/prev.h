/* hook/prev.h -- the allocator that was there before us, and the fast path's few words.
 *
 * THE TABLE  One pointer per line of hooks.def.  Before the look-up each points to a
 *            function that does it, so the fast path never asks whether it is done.  The
 *            look-up is dlsym(RTLD_NEXT): whatever the user preloads after us (jemalloc,
 *            tcmalloc) is found before the C library.
 * BOOT       What dlsym itself allocates meanwhile comes from a small static buffer.  Once
 *            a block of it was given out, free, realloc and malloc_usable_size of the table
 *            check for it; normally none is, and the check costs nothing.
 * OURS       All private mappings lie in one reserved range, all pool blocks in a hull that
 *            only ever grows and is widened before a block leaves us.  Outside of both a
 *            pointer is certainly not ours; inside the hull zi_hook_ours says "ask".
 */
#ifndef ZI_HOOK_PREV_H
#define ZI_HOOK_PREV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zi_prev {
#define HOOK(ret, name, params, args, kind, leaves) ret(*name) params;
#include "hook/hooks.def"
} zi_prev;

typedef struct zi_hot {
    _Atomic(size_t)    min_bytes;        /* SIZE_MAX: everything passes             */
    uintptr_t          lo, span;         /* of the reserved range; set once         */
    _Atomic(uintptr_t) pool_lo, pool_hi; /* hull of all pool blocks; only widened  */
    zi_prev            prev;
} zi_hot;

extern zi_hot zi_hot_state;

/* Leave the fast path for this size? */
static inline bool
zi_hook_big(size_t size)
{
    return size >= atomic_load_explicit(&zi_hot_state.min_bytes, memory_order_relaxed);
}

static inline bool
zi_hook_big_product(size_t n, size_t size)
{
    size_t all;
    return !__builtin_mul_overflow(n, size, &all) && zi_hook_big(all);
}

/* Might this pointer be one of ours? */
static inline bool
zi_hook_ours(const void *p)
{
    uintptr_t at = (uintptr_t)p;
    if (at - zi_hot_state.lo < zi_hot_state.span) return true;
    return at >= atomic_load_explicit(&zi_hot_state.pool_lo, memory_order_relaxed) &&
           at < atomic_load_explicit(&zi_hot_state.pool_hi, memory_order_relaxed);
}

/* Do the look-up now if nobody has yet. */
void zi_prev_resolve(void);

/* A block of the boot buffer?  For tests. */
bool zi_prev_is_boot(const void *p);

#endif /* ZI_HOOK_PREV_H */

/* export.c -- the names that leave libzico-hook.so, and nothing else.
 *
 * The wrappers are generated from hooks.def: one comparison, then a jump to the previous
 * allocator or into slow.c.  Only the preload library contains this file.
 *
 * OUR OWN MEMORY  The linker sends every malloc, calloc, realloc and free of the rooms inside
 *   this library to __wrap_* below (--wrap): they use the previous allocator whatever the
 *   size, so that the client room's own threads and tables never meet the hook.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "hook/hook.h"
#include "zico/status.h"

#define ZI_EXPORT __attribute__((visibility("default")))

#define HOOK(ret, name, params, args, kind, leaves)                                      \
    ZI_EXPORT ret name params                                                            \
    {                                                                                    \
        if (__builtin_expect(leaves, 0)) return zi_hook_##name args;                     \
        return zi_hot_state.prev.name args;                                              \
    }
#include "hook/hooks.def"

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void  __wrap_free(void *p);

void *
__wrap_malloc(size_t size)
{
    return zi_hot_state.prev.malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return zi_hot_state.prev.calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t size)
{
    return zi_hook_ours(p) ? zi_hook_realloc(p, size)
                           : zi_hot_state.prev.realloc(p, size);
}

void
__wrap_free(void *p)
{
    if (zi_hook_ours(p))
        zi_hook_free(p);
    else
        zi_hot_state.prev.free(p);
}

/* -- for programs that mark their steps, and for python/zico ------------------------------- */

ZI_EXPORT void     zico_step(void);
ZI_EXPORT void     zico_hook_train_begin(const uint64_t *sizes, size_t n);
ZI_EXPORT unsigned zico_hook_cores(void);
ZI_EXPORT int      zico_hook_stats(zi_hook_stats *ret_stats);
ZI_EXPORT size_t   zico_hook_message(char *buf, size_t cap);

void
zico_step(void)
{
    zi_shim_step();
}

void
zico_hook_train_begin(const uint64_t *sizes, size_t n)
{
    zi_shim_train_begin(sizes, n);
}

unsigned
zico_hook_cores(void)
{
    return zi_shim_cores();
}

/* The caller sets struct_size; an older, shorter struct gets what it knows. */
int
zico_hook_stats(zi_hook_stats *ret_stats)
{
    zi_hook_stats now;
    uint32_t      size = ret_stats->struct_size;

    if (size < sizeof size || size > sizeof now) return ZICO_E_ARG;
    zi_shim_stats(&now);
    now.struct_size = size;
    __builtin_memcpy(ret_stats, &now, size);
    return ZICO_OK;
}

size_t
zico_hook_message(char *buf, size_t cap)
{
    return zi_shim_message(buf, cap);
}

/* -- start ----------------------------------------------------------------------------------- */

static const char *
environment(const char *name)
{
    return secure_getenv(name);
}

/* The next program in this process, if there is one, runs where this one has put it. */
static void
note_all_cores(void)
{
    char text[16];

    snprintf(text, sizeof text, "%d", (int)getpid());
    setenv(ZI_ENV_ALL_CORES, text, 1);
}

__attribute__((constructor)) static void
start(void)
{
    zi_hook_options opt;
    const char     *bad;
    int             saved = errno;

    zi_prev_resolve();
    zi_hook_options_read(environment, &opt, &bad);
    if (opt.mode != ZI_HOOK_OFF) {
        if (bad && opt.verbose > 0)
            zi_log(ZI_LOG_ERROR, "%s is not understood and counts as not given", bad);
        zico_status st = zi_shim_start(zi_os_real(), &opt, zi_lender_join);
        if (st < 0 && opt.verbose > 0)
            zi_log(ZI_LOG_ERROR, "running without zico: %s", zico_status_text(st));
        if (opt.all_cores) note_all_cores();
    }
    errno = saved;
}

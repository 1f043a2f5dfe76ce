/* client_api.c -- the public calls of zico/client.h over session and arena.
 *
 * A zico_session is a session and its arena.  The first one in a process installs a
 * handler for failed assertions that poisons all sessions instead of ending the process:
 * from then on every call passes straight through with ZICO_E_CORRUPT.
 */
#include "client/arena.h"

#include "base/alloc.h"
#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct zico_session {
    zi_session *session;
    zi_arena   *arena;
};

static _Atomic bool poisoned;

static void
poison(const char *file, int line, const char *func, const char *expr)
{
    (void)file, (void)line, (void)func, (void)expr;
    atomic_store(&poisoned, true);
}

/* ZICO_OK, or why nothing may be asked of this session. */
static zico_status
check(const zico_session *s)
{
    if (!s) return ZICO_E_ARG;
    return atomic_load_explicit(&poisoned, memory_order_relaxed) ? ZICO_E_CORRUPT
                                                                 : ZICO_OK;
}

zico_status
zico_session_open(const zico_session_options *opt, zico_session **ret_session)
{
    zico_session_options o = {0};

    if (!opt || !ret_session || opt->struct_size < sizeof o.struct_size)
        return ZICO_E_ARG;
    memcpy(&o, opt, opt->struct_size < sizeof o ? opt->struct_size : sizeof o);
    zico_session *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    zi_check_set_handler(poison);

    zi_session_options inner = {
        .socket_path = o.socket_path,
        .job_name = o.job_name,
        .shape_key = o.shape_key,
        .min_bytes = o.min_bytes,
        .max_bytes = o.max_bytes,
        .claim_bytes = o.claim_bytes,
        .weight_milli = o.weight_milli,
        .steps_total = o.steps_total,
        .features = ZI_FEATURE_STEPS,
        .local_bytes = o.local_bytes,
    };
    zico_status st = zi_session_open(&inner, &s->session);
    if (st >= 0) st = zi_arena_new(s->session, &s->arena);
    if (st < 0) {
        zi_session_close(s->session);
        zi_free(s);
        return st;
    }
    *ret_session = s;
    return ZICO_OK;
}

void
zico_session_close(zico_session *s)
{
    if (!s || check(s) < 0)
        return; /* what a failed assertion left is not touched again */
    zi_arena_free(s->arena);
    zi_session_close(s->session);
    zi_free(s);
}

zico_status
zico_step_begin(zico_session *s, uint64_t wait_ns)
{
    zico_status st = check(s);
    return st < 0 ? st : zi_session_step_begin(s->session, wait_ns);
}

zico_status
zico_step_end(zico_session *s)
{
    zico_status st = check(s);

    if (st < 0) return st;
    zi_arena_trim(s->arena);
    return zi_session_step_end(s->session, NULL);
}

zico_status
zico_step_raise(zico_session *s, uint64_t claim_bytes, uint64_t wait_ns)
{
    zico_status st = check(s);
    return st < 0 ? st : zi_session_raise(s->session, claim_bytes, wait_ns);
}

zico_status
zico_alloc(zico_session *s, zico_class cls, size_t size_bytes, size_t align,
           uint64_t wait_ns, void **ret_block)
{
    zico_status st = check(s);
    return st < 0 ? st
                  : zi_arena_alloc(s->arena, cls, size_bytes, align, NULL, wait_ns,
                                   ret_block);
}

void
zico_free(zico_session *s, void *block)
{
    if (block && check(s) >= 0) zi_arena_release(s->arena, block, NULL);
}

zico_status
zico_charge(zico_session *s, uint64_t size_bytes, uint64_t wait_ns)
{
    zico_status st = check(s);
    return st < 0 ? st : zi_session_charge(s->session, size_bytes, wait_ns);
}

void
zico_uncharge(zico_session *s, uint64_t size_bytes)
{
    if (check(s) >= 0) zi_session_uncharge(s->session, size_bytes);
}

unsigned
zico_cores(zico_session *s)
{
    return check(s) < 0 ? 1 : zi_session_cores(s->session);
}

size_t
zico_last_message(zico_session *s, char *buf, size_t cap)
{
    return zi_session_message(s ? s->session : NULL, buf, cap);
}

zico_status
zico_session_stats(zico_session *s, zico_stats *ret_stats)
{
    zico_stats     all;
    zi_arena_stats arena;
    zico_status    st = check(s);

    if (st < 0) return st;
    if (!ret_stats || ret_stats->struct_size < sizeof ret_stats->struct_size)
        return ZICO_E_ARG;
    zi_session_stats(s->session, &all);
    zi_arena_read_stats(s->arena, &arena);
    all.live_bytes = arena.live_bytes;
    uint32_t size = ret_stats->struct_size;
    memcpy(ret_stats, &all, size < sizeof all ? size : sizeof all);
    ret_stats->struct_size = size;
    return ZICO_OK;
}

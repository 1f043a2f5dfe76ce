/* lender_join.c -- the real lender: one session and one arena of the client room. */
#include "hook/lender.h"

#include <errno.h>

#include "base/alloc.h"
#include "client/arena.h"
#include "client/session.h"
#include "hook/hook.h"

/* Empty regions that are kept for the next blocks.  With 16 MiB instead of one region a step of a transformer
 * wakes the broker 155 times instead of 328, one of mobilenet_v2 210 times instead of 597, and it holds
 * no more on average. */
#define KEPT_BYTES ((uint64_t)16 << 20)

typedef struct joined {
    zi_session        *session;
    zi_arena          *arena;
    zi_session_watcher watcher;
} joined;

static void
join_wake(void *user, bool recall)
{
    (void)user;
    zi_shim_heard();
    if (recall) zi_shim_recall();
}

static zico_status
join_charge(void *self, uint64_t size_bytes, uint64_t wait_ns)
{
    return zi_session_charge(((joined *)self)->session, size_bytes, wait_ns);
}

static void
join_uncharge(void *self, uint64_t size_bytes)
{
    zi_session_uncharge(((joined *)self)->session, size_bytes);
}

static zico_status
join_step_begin(void *self, uint64_t wait_ns)
{
    return zi_session_step_begin(((joined *)self)->session, wait_ns);
}

static void
join_step_end(void *self)
{
    joined *j = self;
    zi_arena_trim(j->arena);
    (void)zi_session_step_end(j->session, NULL); /* E_STATE: there was none */
}

static zico_status
join_take(void *self, size_t size_bytes, size_t align, uint64_t wait_ns, void **ret_block)
{
    return zi_arena_alloc(((joined *)self)->arena, ZICO_CLASS_STEP, size_bytes, align,
                          NULL, wait_ns, ret_block);
}

static void
join_give(void *self, void *block)
{
    zi_arena_release(((joined *)self)->arena, block, NULL);
}

static bool
join_owns(void *self, const void *p)
{
    return zi_arena_owns(((joined *)self)->arena, p);
}

static size_t
join_usable(void *self, const void *block)
{
    return zi_arena_usable(((joined *)self)->arena, block);
}

static void
join_trim(void *self)
{
    zi_arena_trim(((joined *)self)->arena);
}

static size_t
join_pieces(void *self, zi_piece *ret_pieces, size_t cap)
{
    return zi_session_pieces(((joined *)self)->session, ret_pieces, cap);
}

static uint64_t
join_leave_pool(void *self, const zi_piece *pieces, size_t n, int fd, uint64_t off)
{
    return zi_session_leave_pool(((joined *)self)->session, pieces, n, fd, off);
}

static zi_outside
join_outside(void *self)
{
    return zi_session_outside(((joined *)self)->session);
}

static uint64_t
join_come_back(void *self)
{
    return zi_session_come_back(((joined *)self)->session);
}

static unsigned
join_cores(void *self)
{
    return zi_session_cores(((joined *)self)->session);
}

static unsigned
join_place(void *self, unsigned *ret_first)
{
    return zi_session_place(((joined *)self)->session, ret_first);
}

static void
join_stats(void *self, zico_stats *ret_stats)
{
    zi_session_stats(((joined *)self)->session, ret_stats);
}

static size_t
join_message(void *self, char *buf, size_t cap)
{
    return zi_session_message(((joined *)self)->session, buf, cap);
}

zico_status
zi_lender_join(const zi_hook_options *opt, zi_lender *ret_lender)
{
    zico_status st;
    joined     *j = zi_calloc(1, sizeof *j);
    if (!j) return ZICO_E_NOMEM;

    zi_session_options o = {
        .socket_path = opt->socket_path,
        .job_name = opt->name ? opt->name : program_invocation_short_name,
        .shape_key = opt->shape,
        .min_bytes = opt->least_bytes,
        .max_bytes = opt->most_bytes,
        .claim_bytes = opt->claim_bytes,
        .weight_milli = opt->weight_milli,
        .features = ZI_FEATURE_STEPS | (opt->steady ? ZI_FEATURE_STEADY : 0) |
                    ZI_FEATURE_CORES | (opt->no_spill ? 0 : ZI_FEATURE_SUSPEND),
        .on_suspend = opt->no_spill ? NULL : zi_shim_move_out,
        .on_resume = opt->no_spill ? NULL : zi_shim_move_in,
        .core_mode = opt->core_mode,
        .cores = opt->cores,
        .local_bytes = opt->local_bytes,
    };
    st = zi_session_open(&o, &j->session);
    if (st < 0) goto undo_memory;
    st = zi_arena_new(j->session, &j->arena);
    if (st < 0) goto undo_session;
    uint64_t n_kept = KEPT_BYTES / zi_session_region_bytes(j->session);
    zi_arena_keep(j->arena, n_kept > 1 ? (uint32_t)n_kept : 1);
    j->watcher.on_wake = join_wake;
    zi_session_attach(j->session, &j->watcher);
    *ret_lender = (zi_lender){
        .self = j,
        .charge = join_charge,
        .uncharge = join_uncharge,
        .step_begin = join_step_begin,
        .step_end = join_step_end,
        .take = join_take,
        .give = join_give,
        .owns = join_owns,
        .usable = join_usable,
        .trim = join_trim,
        .pieces = join_pieces,
        .leave_pool = join_leave_pool,
        .outside = join_outside,
        .come_back = join_come_back,
        .cores = join_cores,
        .place = join_place,
        .stats = join_stats,
        .message = join_message,
    };
    return ZICO_OK;

undo_session:
    zi_session_close(j->session);
undo_memory:
    zi_free(j);
    return st;
}

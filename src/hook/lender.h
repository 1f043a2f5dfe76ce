/* hook/lender.h -- whom the hook borrows from, as one small table.
 *
 * The hook needs a dozen verbs of the client room.  With the table between them the hook's
 * own logic (where does a block go, when does a step begin) is tested without a broker.
 * lender_join.c is the real one: a session and an arena.
 */
#ifndef ZI_HOOK_LENDER_H
#define ZI_HOOK_LENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "client/session.h"
#include "hook/env.h"
#include "zico/client.h"

typedef struct zi_lender {
    void *self;

    /* Private bytes, before they are mapped.  As zi_session_charge. */
    zico_status (*charge)(void *self, uint64_t size_bytes, uint64_t wait_ns);
    void (*uncharge)(void *self, uint64_t size_bytes);

    zico_status (*step_begin)(void *self, uint64_t wait_ns);
    void (*step_end)(void *self);

    /* Blocks of the pool that live within a step. */
    zico_status (*take)(void *self, size_t size_bytes, size_t align, uint64_t wait_ns,
                        void **ret_block);
    void (*give)(void *self, void *block);
    bool (*owns)(void *self, const void *p); /* wait-free */
    size_t (*usable)(void *self, const void *block);
    void (*trim)(void *self); /* give back what is held and empty */

    /* Memory of the pool with blocks in it goes out to a file, and comes back as private memory that
     * was charged for: as zi_session_pieces, _leave_pool, _outside, _come_back. */
    size_t (*pieces)(void *self, zi_piece *ret_pieces, size_t cap);
    uint64_t (*leave_pool)(void *self, const zi_piece *pieces, size_t n, int fd,
                           uint64_t off);
    zi_outside (*outside)(void *self);
    uint64_t (*come_back)(void *self);

    unsigned (*cores)(void *self);
    unsigned (*place)(void *self, unsigned *ret_first); /* as zi_session_place */
    void (*stats)(void *self, zico_stats *ret_stats);
    size_t (*message)(void *self, char *buf, size_t cap);
} zi_lender;

/* Become a job.  E_NOTFOUND: there is no broker. */
typedef zico_status zi_lender_join_fn(const zi_hook_options *opt, zi_lender *ret_lender);

zi_lender_join_fn zi_lender_join; /* the real one */

#endif /* ZI_HOOK_LENDER_H */

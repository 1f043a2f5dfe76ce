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

    unsigned (*cores)(void *self);
    void (*stats)(void *self, zico_stats *ret_stats);
    size_t (*message)(void *self, char *buf, size_t cap);
} zi_lender;

/* Become a job.  E_NOTFOUND: there is no broker. */
typedef zico_status zi_lender_join_fn(const zi_hook_options *opt, zi_lender *ret_lender);

zi_lender_join_fn zi_lender_join; /* the real one */

#endif /* ZI_HOOK_LENDER_H */

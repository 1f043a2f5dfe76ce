/* hook/hook.h -- the preload library: large blocks of frameworks we did not write.
 *
 * THE ROOM
 *   libzico-hook.so is loaded in front of a program by `zico run` and takes the place of
 *   malloc and its family (hooks.def).  Small blocks pass straight to the allocator that
 *   was there before.  A large block goes to one of two places:
 *
 *       the pool      if it is taken by the training thread inside a step, and blocks like
 *                     it died within their step before            (lender.h -> client/arena.h)
 *       an extent     otherwise: private, charged to the budget, unmapped when freed
 *                     (extent.h)
 *
 *   It lives inside somebody else's process: it never ends it, prints nothing on the hook
 *   path but one line when something is refused, and degrades to passing everything (R8).
 *
 *       SETUP --- train_begin, or the first step() ---> ARMED     waits for nobody
 *       ARMED --- first large block of the training thread -> IN_STEP   waits for the broker's GO
 *       IN_STEP - step() ------------------------------> ARMED    what is alive has outlived it
 *
 * RULES   1  The hook's lock is held for short bookkeeping only: never while waiting for the
 *            broker, calling the lender or the kernel (but for the moment in which blocks
 *            are exchanged for their file).  fork takes it, so a child finds the tables whole.
 *         2  A thread that is already inside passes (the guard); the client room inside the
 *            library allocates from the previous allocator directly (export.c).
 *         3  Only the thread that marks steps begins them, waits for them and uses the pool.
 *         4  A forked child is no job: it passes everything, and may free what it inherited.
 *         5  Refusal is NULL and ENOMEM, the same that the program would see without zico.
 * NEXT    slow.c (the functions behind the wrappers), shim.c (state and steps).
 */
#ifndef ZI_HOOK_H
#define ZI_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hook/env.h"
#include "hook/lender.h"
#include "hook/prev.h"
#include "os/os.h"

/* -- the slow paths, one a line of hooks.def -------------------------------------------------- */
#define HOOK(ret, name, params, args, kind, leaves) ret zi_hook_##name params;
#include "hook/hooks.def"

/* -- state (shim.c) ---------------------------------------------------------------------------- */

/* Called once, when the library is loaded; before it everything passes.  The first large block
 * calls `join`. */
zico_status
zi_shim_start(const zi_os *os, const zi_hook_options *opt, zi_lender_join_fn *join);
/* For tests: forget everything; no block may be live. */
void zi_shim_stop(void);

typedef enum zi_taken {
    ZI_TAKEN_OURS,    /* *ret is the block                          */
    ZI_TAKEN_PASS,    /* not ours: ask the previous allocator       */
    ZI_TAKEN_REFUSED, /* over the budget: answer ENOMEM             */
} zi_taken;

zi_taken zi_shim_take(size_t size, size_t align, bool zero, void **ret);
/* Give p back if it is ours; false: it is not. */
bool zi_shim_give(void *p);
/* Bytes of our block p that may be used; 0: it is not ours. */
size_t zi_shim_usable(const void *p);

bool zi_shim_observing(void);

/* The broker may have given us other cores.  On the session's thread. */
void zi_shim_heard(void);
/* Others wait for memory: what a program without steps keeps for its own reuse goes back, and for a
 * while little is kept.  On the session's thread. */
void zi_shim_recall(void);

/* -- out and in: the session's callbacks (zi_on_suspend, zi_on_resume), see away.h -------------- */
zico_status zi_shim_move_out(void *user, uint64_t *ret_out_bytes);
zico_status zi_shim_move_in(void *user);

/* -- steps ---------------------------------------------------------------------------------------- */
void     zi_shim_step(void);
void     zi_shim_train_begin(const uint64_t *sizes, size_t n);
unsigned zi_shim_cores(void); /* 0: as the program likes */

typedef struct zi_hook_stats {
    uint32_t struct_size;   /* set by the caller                                  */
    uint32_t mode;          /* zi_hook_mode                                       */
    uint32_t joined;        /* is a job                                           */
    uint32_t connected;     /* the broker is there                                */
    uint64_t n_steps;       /* ended                                              */
    uint64_t n_pool_blocks; /* taken in the pool so far                           */
    uint64_t n_own_blocks;  /* taken as private mappings so far                   */
    uint64_t n_surprises;   /* blocks of the pool that outlived their step        */
    uint64_t n_refused;     /* answered with ENOMEM                               */
    uint64_t live_bytes;    /* private blocks in use                              */
    uint64_t cached_bytes;  /* private blocks kept for reuse                      */
    uint64_t leased_bytes;  /* regions of the pool held                           */
    uint64_t private_bytes; /* charged                                            */
    uint64_t peak_bytes;    /* highest leased + private                           */
    uint64_t wait_step_ns;  /* waited to begin steps                              */
    uint64_t wait_lease_ns; /* waited for memory inside steps                     */
    uint64_t budget_bytes;  /* of the device                                      */
    uint64_t n_asides;      /* moved out inside a step, for another to finish its own */
} zi_hook_stats;

void zi_shim_stats(zi_hook_stats *ret_stats);
/* The last refusal or reason to wait, in words. */
size_t zi_shim_message(char *buf, size_t cap);

#endif /* ZI_HOOK_H */

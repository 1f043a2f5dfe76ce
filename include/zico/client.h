/* zico/client.h -- how a program shares a device's memory with others.
 *
 * A *session* makes the program a job of the device's broker.  Its tensors then live in
 * regions of a common pool: memory that this job has finished with is used by another a
 * moment later.  A request that does not fit now waits; it fails only if it could never
 * be met, or if its deadline passes.
 *
 *     zico_session *s;
 *     zico_session_open(&ZICO_SESSION_OPTIONS_INIT, &s);
 *     for (...) {
 *         zico_step_begin(s, ZICO_FOREVER);
 *         zico_alloc(s, ZICO_CLASS_STEP, bytes, 64, ZICO_FOREVER, &p);
 *         ... compute ...
 *         zico_free(s, p);
 *         zico_step_end(s);
 *     }
 *     zico_session_close(s);
 *
 * All calls are safe from several threads, unless they say otherwise.  Nothing here ever
 * ends the process or writes to standard output.
 */
#ifndef ZICO_CLIENT_H
#define ZICO_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zico_session zico_session; /* one job's connection to its broker */

/* What a block of memory is for.  A region holds blocks of one class. */
typedef enum zico_class {
    ZICO_CLASS_FIXED,     /* parameters, optimizer state: kept until the session ends */
    ZICO_CLASS_STEP,      /* feature maps: live from forward to backward              */
    ZICO_CLASS_GRADIENT,  /* short-lived results of the backward pass                 */
    ZICO_CLASS_TEMPORARY, /* scratch of one operator                                  */
} zico_class;

#define ZICO_N_CLASSES 4
#define ZICO_FOREVER   UINT64_MAX

typedef struct zico_session_options {
    uint32_t struct_size; /* set by the INIT macro; lets the struct grow              */
    const char
        *socket_path;      /* NULL: ZICO_SOCKET in the environment, then the default   */
    const char *job_name;  /* shown in zico status; NULL: the program's name           */
    const char *shape_key; /* "resnet50:batch=64": lets a later run reuse its tide     */
    uint64_t    min_bytes; /* guaranteed; 0: none                                      */
    uint64_t    max_bytes; /* never more; 0: the budget                                */
    uint64_t claim_bytes;  /* most pool memory in one step; 0: zico learns it          */
    uint32_t weight_milli; /* share relative to other jobs; 0: 1000                    */
    uint64_t steps_total;  /* 0: unknown                                               */
    uint64_t local_bytes;  /* > 0: no broker; a private pool of this size              */
} zico_session_options;

#define ZICO_SESSION_OPTIONS_INIT                                                        \
    ((zico_session_options){.struct_size = sizeof(zico_session_options)})

/* Connect and say hello.  On success *ret_session is the caller's; on failure it is left as
 * it was.  E_NOTFOUND: no broker runs there.  E_BUDGET: min or claim can never fit. */
ZICO_API ZICO_NODISCARD zico_status zico_session_open(const zico_session_options *opt,
                                                      zico_session **ret_session);

/* Give back everything and hang up.  All blocks become invalid.  NULL is fine. */
ZICO_API void zico_session_close(zico_session *s);

/* Begin a step when the broker says so.  E_TIMEOUT after wait_ns; E_STATE inside a step.
 * If the broker is gone the step begins at once. */
ZICO_API ZICO_NODISCARD zico_status zico_step_begin(zico_session *s, uint64_t wait_ns);
ZICO_API ZICO_NODISCARD zico_status zico_step_end(zico_session *s);

/* Inside a step that will need more pool memory than its claim: `claim_bytes` in all, asked for
 * before any of it is taken.  Waits until it is safe for everybody.  E_BUDGET: can never fit;
 * E_NOMEM: refused, everything else was tried; E_TIMEOUT; E_STATE outside a step.  (An
 * allocation that goes beyond a declared claim does this by itself.) */
ZICO_API ZICO_NODISCARD zico_status zico_step_raise(zico_session *s, uint64_t claim_bytes,
                                                    uint64_t wait_ns);

/* Get `size_bytes` aligned to `align` (a power of two up to 2 MiB).  The content is
 * undefined: it may be what another job of the same user left there.
 * E_BUDGET: can never fit; E_TIMEOUT; E_NOMEM: refused, as this job went beyond its claim. */
ZICO_API ZICO_NODISCARD zico_status zico_alloc(zico_session *s, zico_class cls,
                                               size_t size_bytes, size_t align,
                                               uint64_t wait_ns, void **ret_block);
/* Give a block back.  NULL is fine.  Nothing of this job may touch it afterwards. */
ZICO_API void zico_free(zico_session *s, void *block);

/* Charge memory that the program got elsewhere to the budget, before using it. */
ZICO_API ZICO_NODISCARD zico_status zico_charge(zico_session *s, uint64_t size_bytes,
                                                uint64_t wait_ns);
ZICO_API void                       zico_uncharge(zico_session *s, uint64_t size_bytes);

/* How many cores this job should use now. */
ZICO_API unsigned zico_cores(zico_session *s);

/* The last refusal or reason to wait, in words: what was asked, what there was, what to
 * try.  NULL: why this thread's last zico_session_open failed.  Copies at most cap bytes
 * with a terminating 0; returns the full length. */
ZICO_API size_t zico_last_message(zico_session *s, char *buf, size_t cap);

typedef struct zico_stats {
    uint32_t struct_size;     /* set by the caller                               */
    uint64_t live_bytes;      /* in blocks now                                   */
    uint64_t leased_bytes;    /* in regions held now                             */
    uint64_t private_bytes;   /* charged now                                     */
    uint64_t peak_bytes;      /* highest leased + private                        */
    uint64_t n_steps;         /* finished                                        */
    uint64_t n_leases;        /* requests sent to the broker                     */
    uint64_t n_returns;       /* regions given back                              */
    uint64_t wait_step_ns;    /* waited to begin steps                           */
    uint64_t wait_lease_ns;   /* waited for memory inside steps                  */
    uint64_t exchanged_bytes; /* given back inside steps                        */
    uint64_t budget_bytes;    /* of the device                                   */
    uint32_t connected;       /* 0: the broker is gone, running on private memory */
} zico_stats;

ZICO_API ZICO_NODISCARD zico_status zico_session_stats(zico_session *s,
                                                       zico_stats   *ret_stats);

#ifdef __cplusplus
}
#endif
#endif /* ZICO_CLIENT_H */

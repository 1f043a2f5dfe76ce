/* hook/observe.h -- the file in which an observed process notes what it does.
 *
 * One file a process, DIR/observe-PID, mapped shared so that it survives however the
 * process ends:
 *
 *     offset  size  meaning
 *     0       64    zi_observe_head
 *     64      24    zi_observe_event, `n_events` of them (at most `cap_events` are stored)
 *
 * Written by the hook (append only; an event counts once its `kind` is not 0), read by
 * `zico run --observe`, which turns it into tides.
 */
#ifndef ZI_HOOK_OBSERVE_H
#define ZI_HOOK_OBSERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/os.h"
#include "tide/tide.h"
#include "zico/status.h"

#define ZI_OBSERVE_MAGIC   0x5642534f4f43495aull /* "ZICOOSBV" */
#define ZI_OBSERVE_VERSION 1u
#define ZI_OBSERVE_EVENTS  (1u << 20)

typedef enum zi_observe_kind {
    ZI_OBSERVE_NOTHING,
    ZI_OBSERVE_TAKE,
    ZI_OBSERVE_GIVE,
    ZI_OBSERVE_STEP, /* the end of a step */
} zi_observe_kind;

typedef struct zi_observe_event {
    uint64_t at_ns;
    uint64_t size_bytes;
    uint32_t kind;  /* zi_observe_kind; written last */
    uint32_t block; /* TAKE and GIVE of one block carry the same number */
} zi_observe_event;

typedef struct zi_observe_head {
    uint64_t          magic;
    uint32_t          version;
    uint32_t          pid;
    uint64_t          min_bytes; /* smaller blocks were not noted */
    uint64_t          began_ns;
    _Atomic(uint64_t) n_events; /* also those beyond cap_events */
    uint64_t          cap_events;
    _Atomic(uint64_t) small; /* reserved */
    uint64_t          zero;
} zi_observe_head;

_Static_assert(sizeof(zi_observe_head) == 64, "the file's layout");
_Static_assert(sizeof(zi_observe_event) == 24, "the file's layout");

/* -- writing (inside the observed process) ----------------------------------------------- */
zico_status zi_observe_open(const zi_os *os, const char *dir, uint64_t min_bytes);
void        zi_observe_take(const void *p, size_t size_bytes);
void        zi_observe_give(const void *p); /* a pointer that was not noted is fine */
void        zi_observe_step(void);
void        zi_observe_close(bool in_child); /* notes nothing any more */

/* -- reading --------------------------------------------------------------------------------- */
typedef struct zi_observed {
    uint64_t n_steps; /* whole steps seen                                           */
    uint64_t n_events, n_lost;
    uint64_t peak_bytes; /* over the whole life                                        */
    uint64_t
        floor_bytes;     /* lowest over the last step: what does not come and go        */
    uint64_t mean_bytes; /* over the typical step, the floor included                  */
    uint64_t period_ns;  /* median length of a step                                    */
    uint64_t length_ns;  /* whole life                                                 */
    zi_tide  tide;       /* of the typical step, above the floor; n_points 0: no steps  */
    zi_tide  life;       /* of the whole life                                          */
} zi_observed;

/* E_FORMAT: not such a file.  `size_bytes` is the file's. */
zico_status
zi_observe_read(const void *file, size_t size_bytes, zi_observed *ret_observed);

#endif /* ZI_HOOK_OBSERVE_H */

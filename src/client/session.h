/* client/session.h -- a job's side of the wire: steps, leases, charges.
 *
 * THE ROOM
 *   libzico.  Lives inside somebody else's process, so it never ends it, never prints,
 *   installs no signal handler, and degrades to private memory when the broker is gone
 *   (R8).  Three layers, each usable without the one above:
 *
 *       zico/client.h   what programs call: blocks of memory
 *       arena.h         blocks inside leased regions, without a system call
 *       session.h       regions from the broker (or from a local pool without one)
 *
 * LEASES   A lease is n regions that look like one piece of address space: one run of
 *          the pool where possible, else scattered regions mapped side by side
 *          ("stitched").  Given back with a fence: others get it only after the fence is
 *          complete ("free means finished").
 * WAITING  The thread that waits for an answer reads the socket itself; the session's own
 *          thread reads only while nobody waits, watches fences of returned leases, and
 *          rejoins after a broker restart.
 * BROKER GONE  Held leases stay valid (nobody else can get them).  New requests are met
 *          from private memory, remembered as uncharged, and charged at the rejoin.
 * THREADS  Safe from several threads.  fork: fork.c.
 * NEXT     arena.h; broker/session.c is the other side.
 */
#ifndef ZI_CLIENT_SESSION_H
#define ZI_CLIENT_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/run.h"
#include "device/device.h"
#include "os/os.h"
#include "tide/tide.h"
#include "wire/wire.h"
#include "zico/client.h"

typedef struct zi_session zi_session;

/* Told by the broker at a step boundary, from zi_session_step_begin: move everything out (all
 * fixed leases are given back by the callee), or bring everything in again. */
typedef zico_status zi_on_suspend(void *user, uint64_t *ret_out_bytes);
typedef zico_status zi_on_resume(void *user);
/* Inside on_suspend: it is the machine that wants the memory, not another job. */
bool zi_session_suspend_is_cold(zi_session *s);

typedef struct zi_session_options {
    const zi_os         *os;          /* NULL: the real kernel    */
    const zi_device_ops *device;      /* NULL: host               */
    const char          *socket_path; /* NULL: environment, default */
    const char          *job_name;
    const char          *shape_key;
    uint64_t             min_bytes, max_bytes, claim_bytes;
    uint32_t             weight_milli;
    uint64_t             steps_total;
    uint64_t             latency_ns;
    uint64_t             features; /* ZI_FEATURE_* */
    zi_core_mode         core_mode;
    uint32_t             cores;
    uint64_t local_bytes;        /* > 0: no broker, a pool of this size in this process */
    uint64_t local_region_bytes; /* 0: chosen from local_bytes              */
    bool     guard;              /* regions not leased are PROT_NONE (slow)        */
    bool hold_step; /* give step memory back only at the end of the step; for measuring */
    const atomic_int
                  *stop; /* not 0: whoever waits gets E_CANCELLED; NULL: nobody says so */
    zi_on_suspend *on_suspend; /* NULL: cannot be suspended */
    zi_on_resume  *on_resume;
    void          *user;
} zi_session_options;

/* What `zico run` said of this job in the environment (ZICO_JOB_NAME, _MIN, _MAX, _CLAIM, _WEIGHT,
 * _CORES) fills what the caller has left open; so does ZICO_HOLD=step (hold_step).  Only hints: who a job is, the broker knows from
 * the kernel.  What cannot be read counts as not given.  The strings are the environment's. */
void zi_session_hints(zi_session_options *opt);

zico_status zi_session_open(const zi_session_options *opt, zi_session **ret_session);
void        zi_session_close(zi_session *s); /* NULL is fine */

/* -- leases ------------------------------------------------------------------------- */

/* All leases of a session lie in one reserved space, at multiples of region_bytes from its
 * base: *slots*.  Slot i < n_regions shows region i of the pool (or what was there before it left the
 * pool, move.c); the slots behind those hold stitched leases and private memory. */
typedef struct zi_lease {
    void      *base;
    uint64_t   size_bytes; /* n_regions x region_bytes */
    zico_class cls;
    uint32_t   n_regions;
    uint32_t   slot; /* the first one */
    bool       stitched;
    bool
        outside; /* private memory: the broker was gone when it was taken, or it left the pool */
} zi_lease;

typedef enum zi_lease_flags {
    ZI_LEASE_AHEAD =
        1, /* not needed yet: may be less than asked; the broker may recall it */
    ZI_LEASE_BARE = 2, /* its pages are made present by whoever fills them */
} zi_lease_flags;

/* Regions for at least `size_bytes`.  Waits at most wait_ns. */
zico_status zi_session_lease(zi_session *s, zico_class cls, uint64_t size_bytes,
                             unsigned flags, uint64_t wait_ns, zi_lease **ret_lease);
/* Ask ahead without waiting: the answer is picked up by a later zi_session_lease of the same
 * class.  At most 2 regions or 3 round trips' worth are outstanding; more is ignored. */
void zi_session_lease_ahead(zi_session *s, zico_class cls, uint32_t n_regions);

/* Bytes into a lease that was taken BARE, at this place of it: its pages are there afterwards.
 * Several threads may do so, at different places. */
zico_status zi_session_fill(zi_session *s, const zi_lease *lease, uint64_t at,
                            const void *src, uint64_t n_bytes);

/* One lease of n regions becomes n leases of one, which may go back one by one;
 * ret_parts[0] is `lease` itself. */
void zi_session_split(zi_session *s, zi_lease *lease, zi_lease **ret_parts);

/* One-way.  Others get it once `after` is complete (NULL: at once).  The fence stays the
 * caller's, who may record it again or free it: the session remembers its present recording. */
void zi_session_give_back(zi_session *s, zi_lease *lease, zi_fence *after);
/* Several at once, in one message where possible. */
void zi_session_give_back_all(zi_session *s, zi_lease *const *leases, size_t n,
                              zi_fence *after);

/* -- out of the pool, in the middle of a step ------------------------------------------- */

typedef struct zi_piece {
    void  *at;
    size_t len;
} zi_piece;

/* What is held beside fixed leases, lease by lease; at most cap, and how many there are. */
size_t zi_session_pieces(zi_session *s, zi_piece *ret_pieces, size_t cap);
/* The file has the pieces' bytes from `off` on, one behind the other, and nobody has written to them
 * since they were listed.  Those that are still held as listed are mapped from it, copy on
 * write, at the same addresses; their regions go back, their charges end.  Returns their bytes. */
uint64_t zi_session_leave_pool(zi_session *s, const zi_piece *pieces, size_t n, int fd,
                               uint64_t off);
/* Private memory of leases. */
typedef struct zi_outside {
    uint64_t in_bytes;   /* charged: came back, or was taken while the broker was gone */
    uint64_t away_bytes; /* in a file */
} zi_outside;

zi_outside zi_session_outside(zi_session *s);
/* What is away becomes private memory.  The caller has charged for it and is told how much of that the
 * session took over (the rest was given back meanwhile). */
uint64_t zi_session_come_back(zi_session *s);

/* -- private memory ------------------------------------------------------------------- */
zico_status zi_session_charge(zi_session *s, uint64_t size_bytes, uint64_t wait_ns);
void        zi_session_uncharge(zi_session *s, uint64_t size_bytes);

/* -- steps ----------------------------------------------------------------------------- */
zico_status zi_session_step_begin(zi_session *s, uint64_t wait_ns);
typedef struct zi_step_info {
    uint64_t length_ns; /* device time; 0: measured by the session */
    uint64_t busy_ns;
    double   loss; /* NAN: none */
    uint64_t samples;
} zi_step_info;
zico_status
     zi_session_step_end(zi_session *s, const zi_step_info *info); /* NULL is fine */
bool zi_session_in_step(zi_session *s);
/* Inside a step that will come to hold more pool memory than its claim: `claim_bytes` in all,
 * asked for before they are taken, so that it waits with the least in its hands.  E_BUDGET: can
 * never fit; E_NOMEM: no larger claim became safe; E_TIMEOUT; E_STATE: not in a step.  A lease
 * that goes beyond a declared claim, and may wait, raises it by itself. */
zico_status zi_session_raise(zi_session *s, uint64_t claim_bytes, uint64_t wait_ns);
/* What others would like this job to take. */
typedef struct zi_session_wish {
    uint64_t step_bytes; /* of the pool in a step; 0: as many as it likes */
    uint32_t cost_milli; /* for that a step may take so many thousandths of its time */
} zi_session_wish;

/* True: another wish than last time; the job answers with zi_session_planned, also if it stays as it
 * is.  Only with ZI_FEATURE_SHRINK.  zi_session_step_begin returns ZICO_E_NOPLAN when a wish comes
 * while it waits. */
bool zi_session_shrink(zi_session *s, zi_session_wish *ret_wish);
/* What one step takes: bytes beside what is fixed, and time as foreseen (0: unknown). */
typedef struct zi_step_need {
    uint64_t bytes, ns;
} zi_step_need;
/* Between steps: the job has planned anew, or answers a wish.  `full`: as it likes best, NULL if that
 * is not known.  Of another plan than before everything is learnt anew. */
void zi_session_planned(zi_session *s, const zi_step_need *now, const zi_step_need *full);
/* A line for people, shown by zico status. */
void zi_session_note(zi_session *s, const char *text);

/* The tide of this step, on device time.  The arena and exec call it: memory was first written
 * at, or last used at.  Without any call the session records leases and returns itself. */
void zi_session_tide_add(zi_session *s, uint64_t at_ns, int64_t delta_bytes);

/* -- for the layer above (the arena) ------------------------------------------------------ */

/* What the session tells from its own thread.  Embedded in the owner; the session links it. */
typedef struct zi_session_watcher {
    /* A fence that the session watches is complete, or (recall) the broker wants back what
     * is held but not used.  Called without any lock of the session. */
    void (*on_wake)(void *user, bool recall);
    /* Around fork: take every lock / release / make them new.  In this order: prepare,
     * then parent in the parent and child in the child. */
    void (*on_fork_prepare)(void *user);
    void (*on_fork_parent)(void *user);
    void (*on_fork_child)(void *user);
    void                      *user;
    struct zi_session_watcher *next;
} zi_session_watcher;

void zi_session_attach(zi_session *s, zi_session_watcher *w);
void zi_session_detach(zi_session *s, zi_session_watcher *w);
/* Completions of this fence wake the session's thread (on_wake). */
void zi_session_watch_fence(zi_session *s, zi_fence *f);

void *zi_session_space(zi_session *s, uint32_t *ret_n_slots);
/* False in a child of fork and after an assertion failed: touch nothing, ask for nothing. */
bool zi_session_usable(const zi_session *s);
/* One of our assertions failed: from now on every call passes straight through. */
void zi_session_poison(zi_session *s);

/* -- looking ---------------------------------------------------------------------------- */
unsigned zi_session_cores(zi_session *s); /* told last */
unsigned zi_session_first_core(zi_session *s);
/* The same, and which: so many from *ret_first on.  0: no broker says. */
unsigned   zi_session_place(zi_session *s, unsigned *ret_first);
zi_device *zi_session_device(zi_session *s);
uint64_t   zi_session_region_bytes(zi_session *s);
/* The most that this job may hold, fixed and private bytes included: its own maximum or the
 * device's budget, as people have them now.  A local pool: its size.  From the first call on
 * zi_session_step_begin returns ZICO_E_NOPLAN when another limit came while it waited. */
uint64_t zi_session_limit(zi_session *s);
bool     zi_session_connected(zi_session *s); /* false for a local pool, too */
void     zi_session_stats(zi_session *s, zico_stats *ret_stats);
size_t   zi_session_message(zi_session *s, char *buf, size_t cap);

#endif /* ZI_CLIENT_SESSION_H */

/* broker/broker.h -- the process that owns the pool of a device and decides who goes.
 *
 * THE ROOM
 *   One event loop between the wire and the desk.  It admits processes (same user only),
 *   hands each the pool and the lease table, turns messages into calls of the desk and the
 *   desk's effects into messages, sees processes die, and survives its own death: what it
 *   must not forget lies in the *estate*, which a supervisor or the jobs keep for its
 *   successor.
 *
 *     socket -> peer.c -> handle.c -> desk (pure) -> effects.c -> lease_table.c -> socket
 *     pidfd  -> member.c ----^
 *
 * PROMISES  B1  A region is written into the lease table before the job hears of it.
 *           B2  pidfd ready = dead: everything returns in the same turn of the loop.
 *               Socket closed = absent: leases stay until it rejoins or dies.
 *           B3  Nobody is waited for: a peer that does not read, floods or lies is dropped
 *               with a line in the log, the others do not notice.
 *           B4  After a restart nothing is granted until each listed job has reported or is
 *               dead (or, so that one stopped process cannot stop all, rejoin_wait_ns).
 *           B5  pool pages + charged private bytes <= budget: looked up in the kernel after
 *               every grant; a violation is logged, counted and shown in status.
 * THREADS   One; only zi_broker_stop may be called from elsewhere, also by a signal handler.
 * NEXT      policy/desk.h decides; wire/messages.def is what is said.
 */
#ifndef ZI_BROKER_H
#define ZI_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include "device/device.h"
#include "os/os.h"
#include "zico/status.h"

typedef struct zi_broker zi_broker;
typedef struct zi_estate zi_estate;

typedef struct zi_broker_options {
    const zi_os         *os;           /* NULL: the real kernel                       */
    const zi_device_ops *device;       /* NULL: host                                  */
    unsigned             ordinal;      /* which of that kind                          */
    const char          *socket_path;  /* NULL: environment, then the run directory   */
    uint64_t             budget_bytes; /* > 0                                         */
    uint64_t             region_bytes; /* 0: chosen from the budget                   */
    const char          *policy;       /* NULL: "zico"                                */
    uint64_t             seed;         /* of the policy                               */
    const char          *tides_dir;    /* tides are kept there; NULL: in memory only   */
    bool                 guard;        /* jobs map regions they do not hold PROT_NONE  */
    uint64_t             linger_ns;    /* end so long after the last job; 0: never    */
    uint64_t             rejoin_wait_ns; /* B4; 0: 30 s                                 */
    uint64_t             grace_ns;       /* after an unclean end, wait so long for old
                                            jobs before admitting new ones; 0: 2 s      */
    uint32_t             flood_per_s;    /* messages that one peer may send; 0: 200,000 */
} zi_broker_options;

/* -- what outlives a broker -------------------------------------------------------------- */

/* Device, pool, lease table, listening socket, lock.  E_EXISTS: a broker runs there already.
 * Cleans up a stale socket. */
zico_status zi_estate_open(const zi_broker_options *opt, zi_estate **ret_estate);
/* `last`: nobody inherits; the socket's file goes too.  NULL is fine. */
void        zi_estate_close(zi_estate *e, bool last);
const char *zi_estate_path(const zi_estate *e);

/* -- one broker ---------------------------------------------------------------------------- */

/* `estate` stays the caller's and must outlive the broker; NULL: one of its own. */
zico_status
zi_broker_new(const zi_broker_options *opt, zi_estate *estate, zi_broker **ret_broker);
/* Until it is stopped, told to shut down, or lingered long enough.  OK: an orderly end.
 * E_GONE: the parent is dead; everything is as it was, and nobody has been told. */
zico_status zi_broker_run(zi_broker *b);
zico_status zi_broker_watch_parent(zi_broker *b, int32_t pid);
/* One turn: waits at most max_ns for something to happen.  For tests. */
zico_status zi_broker_turn(zi_broker *b, int64_t max_ns);
void        zi_broker_stop(zi_broker *b); /* any thread, signal handlers too */
void        zi_broker_free(zi_broker *b); /* NULL is fine */
const char *zi_broker_socket(const zi_broker *b);

/* -- a broker that is restarted -------------------------------------------------------------- */

/* `zico serve`: a child process is the broker; if it dies other than by an orderly end, the
 * next one inherits the estate; if the parent dies, the child becomes the parent.  Returns when it has ended in order (SIGTERM, SIGINT,
 * shutdown, linger), or when it cannot be kept alive.  Once it listens, `on_ready` (may be
 * NULL) is called in the parent. */
typedef void zi_on_ready(const char *socket_path, void *user);
zico_status
zi_broker_supervise(const zi_broker_options *opt, zi_on_ready *on_ready, void *user);

#endif /* ZI_BROKER_H */

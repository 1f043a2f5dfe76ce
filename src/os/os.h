/* os/os.h -- the kernel, as one table.
 *
 * THE ROOM
 *   The only room that calls the kernel for memory objects, sockets, process
 *   handles, files and time.  Everybody above receives a `const zi_os *` and
 *   calls through it, so that a test can hand in the fake twin (fake.h): a
 *   virtual clock that moves only when told, and any call made to fail at its
 *   n-th use.
 *
 * RETURNS  A value >= 0, or a negative errno; errno itself means nothing to
 *          callers.  EINTR is retried inside, except in the waiting calls, where
 *          it comes back as "nothing ready".  poll_fd returns the events that are ready;
 *          recv_msg the packet's length, 0 at the end, -EMSGSIZE if it was cut off.
 * THREADS  The tables are constant; the fake twin is safe from several threads.
 * NEXT     device/device.h (memory of a device), broker/, client/.
 */
#ifndef ZI_OS_H
#define ZI_OS_H

#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

typedef struct zi_os zi_os;

struct zi_os {
    void *self; /* the fake twin's state; NULL for the real kernel */

    /* Monotonic time.  Never fails. */
    uint64_t (*now_ns)(const zi_os *os);
    /* Sleep until that instant; the fake twin moves its clock there. */
    void (*sleep_until)(const zi_os *os, uint64_t at_ns);

#define ZI_OS_BARE(...)       __VA_ARGS__
#define X(name, params, args) long (*name)(const zi_os *os, ZI_OS_BARE params);
#include "os/os.def"
};

/* The real kernel. */
const zi_os *zi_os_real(void);

/* A negative errno as a status: ENOMEM is E_NOMEM; EAGAIN is E_BUSY; ENOSPC, EIO,
 * EROFS, EDQUOT are E_IO; ENOENT is E_NOTFOUND; EPIPE and ECONNRESET are E_GONE;
 * the rest is E_OS. */
zico_status zi_os_status(long rc);

#endif /* ZI_OS_H */

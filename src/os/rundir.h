/* os/rundir.h -- where broker and jobs of one user meet.
 *
 * $XDG_RUNTIME_DIR/zico, else zico-UID under $TMPDIR (or /tmp).  The folder has mode 0700
 * and belongs to us, or it is not used: whoever can replace a socket in it could pose as
 * the broker.
 *
 *     DEVICE.sock   the broker's socket        DEVICE.sock.lock   held by a running broker
 */
#ifndef ZI_OS_RUNDIR_H
#define ZI_OS_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include "os/os.h"

#define ZI_RUNDIR_PATH_MAX 108u /* what fits a socket's address, with its 0 */

/* The folder; made if `create`.  E_NOTFOUND: not there; E_DENIED: somebody else's, a link,
 * or open to others; E_LIMIT: the path is too long. */
zico_status zi_rundir_folder(const zi_os *os, bool create, char *buf, size_t cap);

/* The socket of a device's broker: `given` if it is neither NULL nor empty, else
 * $ZICO_SOCKET, else DEVICE.sock in the folder (made if `create`). */
zico_status zi_rundir_socket(const zi_os *os, const char *given, const char *device,
                             bool create, char *buf, size_t cap);

#endif /* ZI_OS_RUNDIR_H */

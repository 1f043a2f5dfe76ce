/* hook/away.h -- blocks go out to a file, and come back at the same addresses.
 *
 * A job that is parked between two steps, or has stepped aside in the middle of one, may be asked for
 * its memory (SUSPEND).  Its private extents, and what it holds of the pool, are written to a
 * file that has no name any more, and the file is mapped in their place, copy on write.  The blocks stay valid for everybody all the while: a thread that
 * reads one gets it from the file, one that writes gets a page of its own.
 *
 * ONE DANGER  A write by another thread between the copy and the mapping would be lost.  So
 *   nothing is moved unless every other thread of the process sleeps and has not run since
 *   before the copy (zi_quiet_*): who runs programs of that kind is told "cannot".
 */
#ifndef ZI_HOOK_AWAY_H
#define ZI_HOOK_AWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "client/session.h"
#include "os/os.h"
#include "zico/status.h"

/* A nameless file in `dir` (NULL: the temporary folder, or /var/tmp if that one is memory) with
 * all items one behind the other; room for it is made before the first byte is written. */
zico_status zi_away_write(const zi_os *os, const char *dir, const zi_piece *item,
                          size_t n, int *ret_fd);
/* Put what lies at `off` of the file in the item's place, giving its pages back. */
zico_status zi_away_map(const zi_os *os, const zi_piece *item, int fd, uint64_t off);
/* Pages of its own for the whole item again, read ahead of use; what fails comes by itself. */
void zi_away_fetch(const zi_os *os, const zi_piece *item);

/* How far the other threads of this process have run; ours (zico-*) do not count. */
typedef struct zi_quiet {
    uint64_t n_threads;
    uint64_t ran_ns;
} zi_quiet;

/* False: somebody runs just now, or it cannot be told. */
bool zi_quiet_now(zi_quiet *ret);
/* Has nobody run since? */
bool zi_quiet_since(const zi_quiet *before);

#endif /* ZI_HOOK_AWAY_H */

/* infile.h -- a file that is read at given places, and says which file when it fails.
 *
 * Read with pread, never mapped: a file that somebody truncates meanwhile is an error
 * message, not a signal.
 */
#ifndef ZI_TRAIN_INFILE_H
#define ZI_TRAIN_INFILE_H

#include <stdint.h>
#include "os/os.h"
#include "train/diag.h"

typedef struct zi_infile {
    const zi_os *os;
    char        *path; /* owned */
    int          fd;
    uint64_t     n_bytes;
} zi_infile;

ZICO_NODISCARD zico_status zi_infile_open(const zi_os *os, const char *path,
                                          zi_train_diag *diag, zi_infile *ret_file);
void                       zi_infile_close(zi_infile *f); /* all zero is fine */

/* Exactly n bytes from `off` on.  Safe from several threads. */
ZICO_NODISCARD zico_status zi_infile_read(const zi_infile *f, uint64_t off, void *buf,
                                          size_t n, zi_train_diag *diag);

#endif /* ZI_TRAIN_INFILE_H */

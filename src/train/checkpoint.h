/* checkpoint.h -- named tensors and words in one safetensors file, written whole or not at all.
 *
 * WRITING  Into PATH.tmp-PID in the same folder, then fsync, rename over PATH, fsync of the
 *          folder.  Whatever fails or kills us before the rename leaves PATH as it was (C1);
 *          what fails is removed again (C2; a kill may leave the .tmp file, which nobody
 *          reads).  After the rename PATH is the new one, whole (C3).
 * READING  Everything is validated before a tensor is read (safetensors.h).
 */
#ifndef ZI_TRAIN_CHECKPOINT_H
#define ZI_TRAIN_CHECKPOINT_H

#include "os/os.h"
#include "train/diag.h"
#include "train/infile.h"
#include "train/safetensors.h"

typedef struct zi_checkpoint_out {
    zi_st_tensor     *tensors; /* name, type, rank, dims; begin and end are set here */
    size_t            n_tensors;
    const zi_st_pair *meta;
    size_t            n_meta;
    /* Writes the plain bytes of tensor i into buf. */
    zico_status (*fetch)(void *user, size_t i, void *buf, size_t n_bytes);
    void *user;
} zi_checkpoint_out;

ZICO_NODISCARD zico_status zi_checkpoint_write(const zi_os *os, const char *path,
                                               zi_checkpoint_out *what,
                                               zi_train_diag     *diag);

/* Can a file be written there?  Told before hours of training, not after. */
ZICO_NODISCARD zico_status zi_checkpoint_probe(const zi_os *os, const char *path,
                                               zi_train_diag *diag);

typedef struct zi_checkpoint {
    zi_infile     file;
    zi_st_header *header;
} zi_checkpoint;

ZICO_NODISCARD zico_status zi_checkpoint_open(const zi_os *os, const char *path,
                                              zi_train_diag *diag,
                                              zi_checkpoint *ret_checkpoint);
void                       zi_checkpoint_close(zi_checkpoint *c);

/* The bytes of a tensor of its header; n_bytes must be the tensor's. */
ZICO_NODISCARD zico_status zi_checkpoint_read(const zi_checkpoint *c,
                                              const zi_st_tensor *t, void *buf,
                                              size_t n_bytes, zi_train_diag *diag);

#endif /* ZI_TRAIN_CHECKPOINT_H */

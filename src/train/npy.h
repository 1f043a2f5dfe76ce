/* npy.h -- the header of numpy's .npy files (format versions 1.0 to 3.0).
 *
 * Pure: looks at bytes, reads no file.  Everything is validated: a header that passes
 * describes data that lies wholly inside the file.
 */
#ifndef ZI_TRAIN_NPY_H
#define ZI_TRAIN_NPY_H

#include <stddef.h>
#include <stdint.h>
#include "train/diag.h"

#define ZI_NPY_MAX_RANK   8
#define ZI_NPY_MAX_HEADER 65536 /* bytes of the description, more is refused */
#define ZI_NPY_PREFIX     12    /* bytes that tell how long the header is    */

typedef enum zi_npy_type {
    ZI_NPY_F32,
    ZI_NPY_F64,
    ZI_NPY_U8,
    ZI_NPY_I8,
    ZI_NPY_I16,
    ZI_NPY_I32,
    ZI_NPY_I64,
    ZI_NPY_N_TYPES
} zi_npy_type;

typedef struct zi_npy_header {
    zi_npy_type type;
    uint32_t    elem_bytes;
    uint32_t    rank;
    int64_t     dims[ZI_NPY_MAX_RANK];
    uint64_t    n_elems;
    uint64_t    data_off; /* where the data begins */
} zi_npy_header;

/* How many bytes from the file's begin zi_npy_parse needs. */
ZICO_NODISCARD zico_status zi_npy_header_bytes(const uint8_t *at, size_t n,
                                               zi_train_diag *diag, size_t *ret_bytes);

/* `at`: the first n bytes of a file of file_bytes in all. */
ZICO_NODISCARD zico_status zi_npy_parse(const uint8_t *at, size_t n, uint64_t file_bytes,
                                        zi_train_diag *diag, zi_npy_header *ret_header);

/* Element of that type as a double or an integer. */
double  zi_npy_f64(zi_npy_type type, const uint8_t *at);
int64_t zi_npy_i64(zi_npy_type type, const uint8_t *at);

#endif /* ZI_TRAIN_NPY_H */

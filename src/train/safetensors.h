/* safetensors.h -- the header of safetensors files, parsed and printed.
 *
 * FORMAT  offset 0   u64, little endian: n, the bytes of the header
 *         offset 8   n bytes of JSON, blanks at its end allowed:
 *                    {"__metadata__": {"key": "text", ...},
 *                     "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *         offset 8+n the data; offsets count from here
 *
 * Pure: looks at bytes, reads no file.  A header that passes is whole: every tensor's bytes
 * are what its type and shape ask for, and the tensors fill the file without hole or overlap
 * (S1); their names are unique (S2).
 */
#ifndef ZI_TRAIN_SAFETENSORS_H
#define ZI_TRAIN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "train/diag.h"

#define ZI_ST_MAX_HEADER 100000000u /* the reference's own limit */
#define ZI_ST_MAX_RANK   8

/* clang-format off */
#define ZI_ST_TYPES(X) X(BOOL, 1) X(U8, 1) X(I8, 1) X(I16, 2) X(U16, 2) X(F16, 2) X(BF16, 2) \
                       X(I32, 4) X(U32, 4) X(F32, 4) X(F64, 8) X(I64, 8) X(U64, 8)
/* clang-format on */

typedef enum zi_st_type {
#define X(name, bytes) ZI_ST_##name,
    ZI_ST_TYPES(X)
#undef X
        ZI_ST_N_TYPES
} zi_st_type;

const char *zi_st_type_text(zi_st_type t);
uint64_t    zi_st_type_bytes(zi_st_type t);

typedef struct zi_st_tensor {
    char      *name;
    zi_st_type type;
    uint32_t   rank;
    int64_t    dims[ZI_ST_MAX_RANK];
    uint64_t   begin, end; /* in the data */
} zi_st_tensor;

typedef struct zi_st_pair {
    char *key, *value;
} zi_st_pair;

typedef struct zi_st_header {
    zi_st_tensor *tensors; /* as they stand in the file */
    size_t        n_tensors;
    zi_st_pair   *meta;
    size_t        n_meta;
    uint64_t      data_off; /* from the file's begin */
} zi_st_header;

/* `at`: the first n bytes of a file of file_bytes in all, the whole header among them. */
ZICO_NODISCARD zico_status zi_st_parse(const uint8_t *at, size_t n, uint64_t file_bytes,
                                       zi_train_diag *diag, zi_st_header **ret_header);
void                       zi_st_free(zi_st_header *h); /* NULL is fine */

const zi_st_tensor *zi_st_find(const zi_st_header *h, const char *name); /* or NULL */
const char         *zi_st_meta(const zi_st_header *h, const char *key);  /* or NULL */

/* How many bytes from the file's begin zi_st_parse needs; `at` are the first 8. */
ZICO_NODISCARD zico_status zi_st_header_bytes(const uint8_t at[8], uint64_t file_bytes,
                                              zi_train_diag *diag, size_t *ret_bytes);

/* Length and JSON, padded so that the data begins at a multiple of 64.  The tensors' begin
 * and end are set, one behind the other. */
ZICO_NODISCARD zico_status zi_st_print(zi_st_tensor *tensors, size_t n_tensors,
                                       const zi_st_pair *meta, size_t n_meta,
                                       zi_str *out);

#endif /* ZI_TRAIN_SAFETENSORS_H */

/* source_npy.c -- samples from two .npy files: x (N, ...), y (N) or (N, ...).
 *
 * x may be float32, float64, or uint8, which is divided by 255 as torchvision's ToTensor
 * does; for a network of tokens it is any kind of whole numbers.  Dims of size 1 may be
 * left out or added: (N, 28, 28) serves a network that takes (1, 28, 28).
 */
#include "train/sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "train/infile.h"
#include "train/npy.h"

typedef struct array {
    zi_infile     file;
    zi_npy_header header;
    uint64_t      row_bytes; /* of one sample */
} array;

typedef struct npy_source {
    zi_source base;
    array     x, y;
    uint64_t  first; /* index 0 of this part lies here */
} npy_source;

static zico_status
array_open(const zi_os *os, const char *path, zi_train_diag *diag, array *a)
{
    uint8_t       prefix[ZI_NPY_PREFIX] = {0};
    zi_train_diag why = {""};
    size_t        n;
    zico_status   st = zi_infile_open(os, path, diag, &a->file);

    if (st < 0) return st;
    size_t have = a->file.n_bytes < sizeof prefix ? a->file.n_bytes : sizeof prefix;
    st = zi_infile_read(&a->file, 0, prefix, have, diag);
    if (st < 0) return st;
    st = zi_npy_header_bytes(prefix, have, &why, &n);
    if (st >= 0) {
        if (n > a->file.n_bytes) n = a->file.n_bytes;
        uint8_t *head = zi_malloc(n + 1);
        if (!head) return ZICO_E_NOMEM;
        st = zi_infile_read(&a->file, 0, head, n, &why);
        if (st >= 0) st = zi_npy_parse(head, n, a->file.n_bytes, &why, &a->header);
        zi_free(head);
    }
    if (st < 0) return zi_train_fail(diag, st, "%s: %s", path, why.text);
    if (a->header.rank == 0 || a->header.n_elems == 0)
        return zi_train_fail(diag, ZICO_E_FORMAT, "%s: holds no samples", path);
    a->row_bytes = a->header.n_elems / (uint64_t)a->header.dims[0] * a->header.elem_bytes;
    return ZICO_OK;
}

/* The dims after the first, without those of size 1, are the wanted ones. */
static bool
dims_agree(const zi_npy_header *h, const zi_shape *want)
{
    uint32_t i = 1, k = 0;

    for (;; i++, k++) {
        while (i < h->rank && h->dims[i] == 1) i++;
        while (k < want->rank && want->dims[k] == 1) k++;
        if (i == h->rank || k == want->rank) return i == h->rank && k == want->rank;
        if (h->dims[i] != want->dims[k]) return false;
    }
}

static zico_status
check_array(const array *a, const zi_shape *want, bool whole, zi_train_diag *diag)
{
    zi_shape have = {.dtype = want->dtype, .rank = 0};
    char     text[2][96];

    if (!dims_agree(&a->header, want)) {
        for (uint32_t i = 1; i < a->header.rank && have.rank < ZI_MAX_RANK; i++)
            have.dims[have.rank++] = a->header.dims[i];
        return zi_train_fail(diag, ZICO_E_SHAPE,
                             "%s holds samples of %s, the network takes %s", a->file.path,
                             zi_shape_text(&have, text[0]), zi_shape_text(want, text[1]));
    }
    if (whole && a->header.type <= ZI_NPY_F64)
        return zi_train_fail(
            diag, ZICO_E_SHAPE,
            "%s holds floating-point numbers, the network takes whole ones",
            a->file.path);
    return ZICO_OK;
}

static zico_status
npy_check(const npy_source *s, const zi_data_want *want, zi_train_diag *diag)
{
    zico_status st = check_array(&s->x, &want->x, want->x.dtype != ZI_DTYPE_F32, diag);

    if (st < 0 || !want->has_y) return st;
    st = check_array(&s->y, &want->y, want->y.dtype != ZI_DTYPE_F32, diag);
    if (st < 0) return st;
    if (s->x.header.dims[0] != s->y.header.dims[0])
        return zi_train_fail(diag, ZICO_E_SHAPE, "%s has %lld samples, %s has %lld",
                             s->x.file.path, (long long)s->x.header.dims[0],
                             s->y.file.path, (long long)s->y.header.dims[0]);
    return ZICO_OK;
}

static void
npy_close(zi_source *base)
{
    npy_source *s = (npy_source *)base;

    zi_infile_close(&s->x.file);
    zi_infile_close(&s->y.file);
    zi_free(s);
}

/* The last `held` of the samples are the held part. */
static zico_status
choose_part(npy_source *s, const zi_data_spec *spec, zi_train_diag *diag)
{
    uint64_t n = (uint64_t)s->x.header.dims[0];
    uint64_t held = (uint64_t)((double)n * spec->held);

    if (spec->part == ZI_DATA_TRAIN) {
        s->base.n_samples = n - held;
    } else {
        s->base.n_samples = held;
        s->first = n - held;
    }
    if (s->base.n_samples == 0)
        return zi_train_fail(diag, ZICO_E_NOTFOUND, "%s: no samples are %s", spec->path,
                             spec->part == ZI_DATA_HELD ? "held back" : "left");
    return ZICO_OK;
}

static zico_status
npy_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
         zi_train_diag *diag, zi_source **ret_source)
{
    npy_source *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->base = (zi_source){.ops = &zi_source_npy, .want = *want};
    zico_status st = array_open(os, spec->path, diag, &s->x);
    if (st >= 0 && want->has_y)
        st = spec->labels ? array_open(os, spec->labels, diag, &s->y)
                          : zi_train_fail(diag, ZICO_E_ARG, "%s: labels are needed, too",
                                          spec->path);
    if (st >= 0) st = npy_check(s, want, diag);
    if (st >= 0) st = choose_part(s, spec, diag);
    if (st < 0) {
        npy_close(&s->base);
        return st;
    }
    *ret_source = &s->base;
    return ZICO_OK;
}

static void
put_floats(const array *a, const uint8_t *row, float *ret)
{
    size_t n = a->row_bytes / a->header.elem_bytes;

    if (a->header.type == ZI_NPY_F32) {
        memcpy(ret, row, a->row_bytes);
        return;
    }
    float scale = a->header.type == ZI_NPY_U8 ? 1.0f / 255.0f : 1.0f;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = row + i * a->header.elem_bytes;
        ret[i] = (float)zi_npy_f64(a->header.type, at) * scale;
    }
}

static zico_status
put_tokens(const npy_source *s, const uint8_t *row, uint64_t index, void *ret,
           zi_train_diag *diag)
{
    const zi_data_want *want = &s->base.want;

    for (size_t i = 0; i < s->x.row_bytes / s->x.header.elem_bytes; i++) {
        int64_t v = zi_npy_i64(s->x.header.type, row + i * s->x.header.elem_bytes);
        if (v < 0 || (want->vocab > 0 && v >= want->vocab))
            return zi_train_fail(
                diag, ZICO_E_FORMAT,
                "%s: sample %llu has token %lld, the network knows 0 to %lld",
                s->x.file.path, (unsigned long long)index, (long long)v,
                (long long)want->vocab - 1);
        if (want->x.dtype == ZI_DTYPE_I64)
            ((int64_t *)ret)[i] = v;
        else
            ((int32_t *)ret)[i] = (int32_t)v;
    }
    return ZICO_OK;
}

static zico_status
put_labels(const npy_source *s, const uint8_t *row, uint64_t index, void *ret,
           zi_train_diag *diag)
{
    if (s->base.want.y.dtype == ZI_DTYPE_F32) {
        put_floats(&s->y, row, ret);
        return ZICO_OK;
    }
    for (size_t i = 0; i < s->y.row_bytes / s->y.header.elem_bytes; i++) {
        int64_t     v = zi_npy_i64(s->y.header.type, row + i * s->y.header.elem_bytes);
        zico_status st =
            zi_data_put_label(&s->base.want, v, s->y.file.path, index, i, ret, diag);
        if (st < 0) return st;
    }
    return ZICO_OK;
}

static zico_status
npy_read(const zi_source *base, uint64_t index, uint64_t draw, void *ret_x, void *ret_y,
         zi_train_diag *diag)
{
    const npy_source *s = (const npy_source *)base;
    size_t most = s->x.row_bytes > s->y.row_bytes ? s->x.row_bytes : s->y.row_bytes;

    (void)draw;
    index += s->first;
    /* the row lies at the end of 8 spare bytes: zi_npy_f64 looks at 8 */
    uint8_t *row = zi_malloc(most + 8);
    if (!row) return ZICO_E_NOMEM;
    zico_status st =
        zi_infile_read(&s->x.file, s->x.header.data_off + index * s->x.row_bytes, row,
                       s->x.row_bytes, diag);
    if (st >= 0 && base->want.x.dtype == ZI_DTYPE_F32)
        put_floats(&s->x, row, ret_x);
    else if (st >= 0)
        st = put_tokens(s, row, index, ret_x, diag);
    if (st >= 0 && ret_y) {
        st = zi_infile_read(&s->y.file, s->y.header.data_off + index * s->y.row_bytes,
                            row, s->y.row_bytes, diag);
        if (st >= 0) st = put_labels(s, row, index, ret_y, diag);
    }
    zi_free(row);
    return st;
}

const zi_source_ops zi_source_npy = {.kind = "npy",
                                     .meaning = "two .npy files: samples and labels",
                                     .open = npy_open,
                                     .read = npy_read,
                                     .close = npy_close};

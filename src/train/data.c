/* data.c -- the table of sources, and what they share. */
#include "train/data.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "train/sources.h"

const zi_source_ops *const zi_source_table[] = {&zi_source_npy,       &zi_source_mnist,
                                                &zi_source_cifar,     &zi_source_text,
                                                &zi_source_synthetic, NULL};

zico_status
zi_source_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
               zi_train_diag *diag, zi_source **ret_source)
{
    for (size_t i = 0; zi_source_table[i]; i++) {
        const zi_source_ops *ops = zi_source_table[i];
        if (strcmp(ops->kind, spec->kind) != 0) continue;
        zi_source  *s = NULL;
        zico_status st = ops->open(os, spec, want, diag, &s);
        if (st < 0) return st;
        zi_assert(s->n_samples > 0 && s->ops == ops);
        *ret_source = s;
        return ZICO_OK;
    }
    return zi_train_fail(diag, ZICO_E_NOTFOUND, "no kind of data is called '%s'",
                         spec->kind);
}

zico_status
zi_source_read(const zi_source *s, uint64_t index, uint64_t draw, void *ret_x,
               void *ret_y, zi_train_diag *diag)
{
    zi_assert(index < s->n_samples);
    return s->ops->read(s, index, draw, ret_x, ret_y, diag);
}

void
zi_source_close(zi_source *s)
{
    if (s) s->ops->close(s);
}

const char *
zi_shape_text(const zi_shape *s, char text[96])
{
    int n = snprintf(text, 96, "(");
    for (uint32_t i = 0; i < s->rank && n < 70; i++)
        n += snprintf(text + n, (size_t)(96 - n), i ? ", %lld" : "%lld",
                      (long long)s->dims[i]);
    snprintf(text + n, (size_t)(96 - n), ") %s", zi_dtype_text(s->dtype));
    return text;
}

int64_t
zi_shape_elems(const zi_shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

uint64_t
zi_shape_bytes(const zi_shape *s)
{
    return zi_dtype_bytes(s->dtype, zi_shape_elems(s));
}

zico_status
zi_data_put_label(const zi_data_want *want, int64_t label, const char *where,
                  uint64_t index, size_t at, void *y, zi_train_diag *diag)
{
    if (label < 0 || (want->n_classes > 0 && label >= want->n_classes))
        return zi_train_fail(
            diag, ZICO_E_FORMAT,
            "%s: sample %llu has label %lld, the network knows 0 to %lld", where,
            (unsigned long long)index, (long long)label, (long long)want->n_classes - 1);
    if (want->y.dtype == ZI_DTYPE_I64)
        ((int64_t *)y)[at] = label;
    else if (want->y.dtype == ZI_DTYPE_I32)
        ((int32_t *)y)[at] = (int32_t)label;
    else
        ((float *)y)[at] = (float)label;
    return ZICO_OK;
}

zico_status
zi_image_fits(const zi_image_form *form, const zi_shape *want, const char *where,
              zi_train_diag *diag)
{
    char text[96];
    bool flat = want->rank == 1 && want->dims[0] == form->c * form->h * form->w;
    bool image = want->rank == 3 &&
                 (want->dims[0] == form->c || (form->c == 1 && want->dims[0] == 3)) &&
                 want->dims[1] >= form->h && want->dims[2] >= form->w;

    if (want->dtype == ZI_DTYPE_F32 && (flat || image)) return ZICO_OK;
    return zi_train_fail(diag, ZICO_E_SHAPE,
                         "%s holds images of (%lld, %lld, %lld), the network takes %s",
                         where, (long long)form->c, (long long)form->h,
                         (long long)form->w, zi_shape_text(want, text));
}

void
zi_image_put(const zi_image_form *form, const zi_shape *want, const uint8_t *image,
             int dy, int dx, bool flip, float *ret_x)
{
    int64_t h = form->h, w = form->w;
    int64_t to_c = want->rank == 3 ? want->dims[0] : form->c;
    int64_t to_h = want->rank == 3 ? want->dims[1] : h;
    int64_t to_w = want->rank == 3 ? want->dims[2] : w;
    int64_t top = (to_h - h) / 2 + dy, left = (to_w - w) / 2 + dx;

    for (int64_t c = 0; c < to_c; c++) {
        int64_t        from = form->c == 1 ? 0 : c;
        float          mean = form->mean[from], scale = 1.0f / form->std[from];
        float          blank = -mean * scale;
        const uint8_t *plane = image + from * h * w;
        for (int64_t y = 0; y < to_h; y++)
            for (int64_t x = 0; x < to_w; x++) {
                int64_t iy = y - top, ix = x - left;
                bool    inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
                if (flip) ix = w - 1 - ix;
                *ret_x++ =
                    inside ? ((float)plane[iy * w + ix] / 255.0f - mean) * scale : blank;
            }
    }
}

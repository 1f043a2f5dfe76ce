/* source_cifar.c -- a folder with CIFAR-10's or CIFAR-100's binary files.
 *
 * FORMAT  records of label bytes (one; CIFAR-100: coarse, fine) and 3 x 32 x 32 bytes.
 *         CIFAR-10: data_batch_1.bin .. data_batch_5.bin, test_batch.bin.
 *         CIFAR-100: train.bin, test.bin.
 * AUGMENT a crop out of the image with 4 blank pixels around it, and a flip, as in the
 *         residual networks' paper (K. He and others, CVPR 2016).
 */
#include "train/sources.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/check.h"
#include "train/infile.h"

#define MAX_FILES 5
#define IMAGE     (3 * 32 * 32)
#define BORDER    4
#define SPAN      (2 * BORDER + 1)

typedef struct cifar_source {
    zi_source base;
    zi_infile file[MAX_FILES];
    uint64_t  n_in[MAX_FILES]; /* records */
    unsigned  n_files;
    unsigned  n_labels; /* bytes before the image; the last one counts */
    bool      augment;
} cifar_source;

static const zi_image_form form = {.c = 3,
                                   .h = 32,
                                   .w = 32,
                                   .mean = {0.4914f, 0.4822f, 0.4465f},
                                   .std = {0.2470f, 0.2435f, 0.2616f}};

static zico_status
add_file(cifar_source *s, const zi_os *os, const char *dir, const char *name,
         zi_train_diag *diag)
{
    char       path[4096];
    zi_infile *f = &s->file[s->n_files];
    uint64_t   record = s->n_labels + IMAGE;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    zico_status st = zi_infile_open(os, path, diag, f);
    if (st < 0) return st;
    s->n_in[s->n_files++] = f->n_bytes / record;
    s->base.n_samples += f->n_bytes / record;
    if (f->n_bytes == 0 || f->n_bytes % record != 0)
        return zi_train_fail(diag, ZICO_E_FORMAT,
                             "%s: %llu bytes are not whole records of %llu", path,
                             (unsigned long long)f->n_bytes, (unsigned long long)record);
    return ZICO_OK;
}

static zico_status
add_files(cifar_source *s, const zi_os *os, const zi_data_spec *spec, zi_train_diag *diag)
{
    bool held = spec->part == ZI_DATA_HELD;
    char name[32];

    s->n_labels = 2;
    zico_status st = add_file(s, os, spec->path, held ? "test.bin" : "train.bin", diag);
    if (st != ZICO_E_NOTFOUND) return st; /* CIFAR-100, good or bad */
    s->n_labels = 1;
    if (held) return add_file(s, os, spec->path, "test_batch.bin", diag);
    for (int i = 1; i <= MAX_FILES; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        st = add_file(s, os, spec->path, name, diag);
        if (st < 0) return st;
    }
    return ZICO_OK;
}

static void
cifar_close(zi_source *base)
{
    cifar_source *s = (cifar_source *)base;

    for (unsigned i = 0; i < MAX_FILES; i++) zi_infile_close(&s->file[i]);
    zi_free(s);
}

static zico_status
cifar_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
           zi_train_diag *diag, zi_source **ret_source)
{
    cifar_source *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->base = (zi_source){.ops = &zi_source_cifar, .want = *want};
    s->augment = spec->augment && spec->part == ZI_DATA_TRAIN;
    zico_status st = add_files(s, os, spec, diag);
    if (st >= 0) st = zi_image_fits(&form, &want->x, spec->path, diag);
    if (st >= 0 && want->has_y && zi_shape_elems(&want->y) != 1)
        st = zi_train_fail(diag, ZICO_E_SHAPE,
                           "%s: the network wants more than one label", spec->path);
    if (st < 0) {
        cifar_close(&s->base);
        return st;
    }
    *ret_source = &s->base;
    return ZICO_OK;
}

static zico_status
cifar_read(const zi_source *base, uint64_t index, uint64_t draw, void *ret_x, void *ret_y,
           zi_train_diag *diag)
{
    const cifar_source *s = (const cifar_source *)base;
    uint8_t             record[2 + IMAGE];
    uint64_t            at = index;
    unsigned            f = 0;
    int                 dy = 0, dx = 0;

    while (f + 1 < s->n_files && at >= s->n_in[f]) at -= s->n_in[f++];
    size_t      bytes = s->n_labels + IMAGE;
    zico_status st = zi_infile_read(&s->file[f], at * bytes, record, bytes, diag);
    if (st < 0) return st;
    if (s->augment) {
        dy = (int)(draw % SPAN) - BORDER;
        dx = (int)(draw / SPAN % SPAN) - BORDER;
    }
    zi_image_put(&form, &base->want.x, record + s->n_labels, dy, dx,
                 s->augment && draw / (SPAN * SPAN) % 2, ret_x);
    if (!ret_y) return ZICO_OK;
    return zi_data_put_label(&base->want, record[s->n_labels - 1], s->file[f].path, at, 0,
                             ret_y, diag);
}

const zi_source_ops zi_source_cifar = {.kind = "cifar",
                                       .meaning = "a folder with CIFAR's binary files",
                                       .open = cifar_open,
                                       .read = cifar_read,
                                       .close = cifar_close};

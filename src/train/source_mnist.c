/* source_mnist.c -- a folder with MNIST's four IDX files, unpacked.
 *
 * FORMAT  big endian: magic (0x00000803 images, 0x00000801 labels), the dims, then bytes.
 *         Fashion-MNIST and others of the same shape work, too.  Packed (.gz) files are
 *         recognised and refused with a hint.
 */
#include "train/sources.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/check.h"
#include "train/infile.h"

#define IMAGE_MAGIC 0x00000803u
#define LABEL_MAGIC 0x00000801u
#define MAX_SIDE    4096

typedef struct mnist_source {
    zi_source     base;
    zi_infile     images, labels;
    zi_image_form form;
} mnist_source;

static uint32_t
big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Both spellings that are found in the wild: "-idx3-ubyte" and ".idx3-ubyte". */
static zico_status
open_file(const zi_os *os, const char *dir, const char *stem, int dims,
          zi_train_diag *diag, zi_infile *ret_file)
{
    char path[4096];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s%cidx%d-ubyte", dir, stem, "-."[i], dims);
        zico_status st = zi_infile_open(os, path, NULL, ret_file);
        if (st >= 0 || st == ZICO_E_NOMEM) return st;
    }
    return zi_train_fail(diag, ZICO_E_NOTFOUND,
                         "%s/%s-idx%d-ubyte: no such file (unpack the .gz files first)",
                         dir, stem, dims);
}

static zico_status
read_head(const zi_infile *f, uint32_t magic, size_t n_dims, uint32_t *ret_dims,
          zi_train_diag *diag)
{
    uint8_t  head[16];
    uint64_t bytes = 4 + 4 * n_dims;

    zico_status st = zi_infile_read(f, 0, head, (size_t)bytes, diag);
    if (st < 0) return st;
    if (head[0] == 0x1f && head[1] == 0x8b)
        return zi_train_fail(diag, ZICO_E_FORMAT, "%s is packed: gunzip it first",
                             f->path);
    if (big_endian(head) != magic)
        return zi_train_fail(diag, ZICO_E_FORMAT,
                             "%s: not an IDX file (%08x, wanted %08x)", f->path,
                             big_endian(head), magic);
    uint64_t want = 1;
    for (size_t i = 0; i < n_dims; i++) {
        ret_dims[i] = big_endian(head + 4 + 4 * i);
        if (ret_dims[i] == 0 || (i > 0 && ret_dims[i] > MAX_SIDE))
            return zi_train_fail(diag, ZICO_E_FORMAT, "%s: dimension %zu is %u", f->path,
                                 i, ret_dims[i]);
        want *= ret_dims[i]; /* at most 2^32 * 2^24 */
    }
    if (f->n_bytes != want + bytes)
        return zi_train_fail(diag, ZICO_E_FORMAT,
                             "%s: the header promises %llu bytes, the file has %llu",
                             f->path, (unsigned long long)(want + bytes),
                             (unsigned long long)f->n_bytes);
    return ZICO_OK;
}

static void
mnist_close(zi_source *base)
{
    mnist_source *s = (mnist_source *)base;

    zi_infile_close(&s->images);
    zi_infile_close(&s->labels);
    zi_free(s);
}

static zico_status
open_both(mnist_source *s, const zi_os *os, const zi_data_spec *spec, zi_train_diag *diag)
{
    const char *stem[2] = {"train-images", "train-labels"};
    uint32_t    image[3] = {0}, label[1] = {0};

    if (spec->part == ZI_DATA_HELD) stem[0] = "t10k-images", stem[1] = "t10k-labels";
    zico_status st = open_file(os, spec->path, stem[0], 3, diag, &s->images);
    if (st >= 0) st = read_head(&s->images, IMAGE_MAGIC, 3, image, diag);
    if (st >= 0) st = open_file(os, spec->path, stem[1], 1, diag, &s->labels);
    if (st >= 0) st = read_head(&s->labels, LABEL_MAGIC, 1, label, diag);
    if (st < 0) return st;
    if (image[0] != label[0])
        return zi_train_fail(diag, ZICO_E_FORMAT, "%s has %u images, %s has %u labels",
                             s->images.path, image[0], s->labels.path, label[0]);
    s->base.n_samples = image[0];
    s->form = (zi_image_form){
        .c = 1, .h = image[1], .w = image[2], .mean = {0.1307f}, .std = {0.3081f}};
    return zi_image_fits(&s->form, &s->base.want.x, s->images.path, diag);
}

static zico_status
mnist_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
           zi_train_diag *diag, zi_source **ret_source)
{
    mnist_source *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->base = (zi_source){.ops = &zi_source_mnist, .want = *want};
    zico_status st = open_both(s, os, spec, diag);
    if (st >= 0 && want->has_y && zi_shape_elems(&want->y) != 1)
        st = zi_train_fail(diag, ZICO_E_SHAPE,
                           "%s: the network wants more than one label", spec->path);
    if (st < 0) {
        mnist_close(&s->base);
        return st;
    }
    *ret_source = &s->base;
    return ZICO_OK;
}

static zico_status
mnist_read(const zi_source *base, uint64_t index, uint64_t draw, void *ret_x, void *ret_y,
           zi_train_diag *diag)
{
    const mnist_source *s = (const mnist_source *)base;
    uint64_t            bytes = (uint64_t)(s->form.h * s->form.w);
    uint8_t             label;

    (void)draw;
    uint8_t *image = zi_malloc(bytes);
    if (!image) return ZICO_E_NOMEM;
    zico_status st = zi_infile_read(&s->images, 16 + index * bytes, image, bytes, diag);
    if (st >= 0) zi_image_put(&s->form, &base->want.x, image, 0, 0, false, ret_x);
    zi_free(image);
    if (st < 0 || !ret_y) return st;
    st = zi_infile_read(&s->labels, 8 + index, &label, 1, diag);
    if (st < 0) return st;
    return zi_data_put_label(&base->want, label, s->labels.path, index, 0, ret_y, diag);
}

const zi_source_ops zi_source_mnist = {.kind = "mnist",
                                       .meaning = "a folder with MNIST's IDX files",
                                       .open = mnist_open,
                                       .read = mnist_read,
                                       .close = mnist_close};

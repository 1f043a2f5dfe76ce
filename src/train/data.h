/* data.h -- where batches come from.
 *
 *   source   knows samples by number: reads, checks and converts one of them
 *   order    which sample stands at which position: a shuffle of each epoch that is a
 *            function of (seed, epoch, position) and so can be resumed anywhere
 *   loader   threads that prepare batches ahead, in a ring
 *
 * A network says what it wants (zi_data_want); a source delivers exactly that or fails when
 * it is opened, with a sentence that says what there is and what was wanted.
 *
 * THREADS  zi_source_read is safe from several threads; a loader has one consumer.
 * NEXT     source_*.c (one file per kind), order.c, loader.c.
 */
#ifndef ZI_TRAIN_DATA_H
#define ZI_TRAIN_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/graph.h"
#include "os/os.h"
#include "train/diag.h"

/* What the network takes, per sample: the batch dimension left out. */
typedef struct zi_data_want {
    zi_shape x;          /* f32, or i32/i64 for tokens                         */
    zi_shape y;          /* i32/i64 classes; f32 targets                       */
    bool     has_y;      /* false: inference, labels are not asked for         */
    int64_t  n_classes;  /* labels lie below; 0: not known                     */
    int64_t  vocab;      /* tokens lie below; 0: x is no token                 */
    uint32_t class_axis; /* of the logits; 0: not known                       */
} zi_data_want;

typedef enum zi_data_part {
    ZI_DATA_TRAIN,
    ZI_DATA_HELD, /* kept back for judging: the test files, or a share of the rest */
} zi_data_part;

typedef struct zi_data_spec {
    const char  *kind;      /* "npy" "mnist" "cifar" "text" "synthetic"           */
    const char  *path;      /* file or folder; synthetic: NULL                    */
    const char  *labels;    /* npy only: the other file; NULL for inference       */
    uint64_t     seed;      /* synthetic                                          */
    uint64_t     n_samples; /* synthetic; 0: 50000                                */
    double       held;      /* npy, text: share kept back, from the end; 0: none  */
    bool         augment;   /* cifar: random crops and flips while training       */
    zi_data_part part;
} zi_data_spec;

typedef struct zi_source     zi_source;
typedef struct zi_source_ops zi_source_ops;

struct zi_source { /* each kind continues the struct */
    const zi_source_ops *ops;
    zi_data_want         want;
    uint64_t             n_samples; /* > 0 */
};

struct zi_source_ops {
    const char *kind;
    const char *meaning; /* one line for help texts */
    zico_status (*open)(const zi_os *os, const zi_data_spec *spec,
                        const zi_data_want *want, zi_train_diag *diag,
                        zi_source **ret_source);
    /* `draw` is a random number for augmentation, the same for the same position. */
    zico_status (*read)(const zi_source *s, uint64_t index, uint64_t draw, void *ret_x,
                        void *ret_y, zi_train_diag *diag);
    void (*close)(zi_source *s);
};

/* NULL-terminated; the table is in data.c. */
extern const zi_source_ops *const zi_source_table[];

/* ZICO_E_NOTFOUND: no such kind, no such file, or nothing was held back.  ZICO_E_SHAPE: the
 * samples are not what the network wants. */
ZICO_NODISCARD zico_status zi_source_open(const zi_os *os, const zi_data_spec *spec,
                                          const zi_data_want *want, zi_train_diag *diag,
                                          zi_source **ret_source);
ZICO_NODISCARD zico_status zi_source_read(const zi_source *s, uint64_t index,
                                          uint64_t draw, void *ret_x, void *ret_y,
                                          zi_train_diag *diag);
void                       zi_source_close(zi_source *s); /* NULL is fine */

/* "(3, 32, 32) float32" */
const char *zi_shape_text(const zi_shape *s, char text[96]);
int64_t     zi_shape_elems(const zi_shape *s);
uint64_t    zi_shape_bytes(const zi_shape *s);

/* Write a class into labels of that type; a class out of range is the file's fault. */
ZICO_NODISCARD zico_status zi_data_put_label(const zi_data_want *want, int64_t label,
                                             const char *where, uint64_t index, size_t at,
                                             void *y, zi_train_diag *diag);

/* An image of bytes (c, h, w), as floats (v/255 - mean[c]) / std[c], into the middle of a
 * wanted (C, H, W) at least as large; grey is repeated to three channels.  A flat want of as
 * many elements is filled in order. */
typedef struct zi_image_form {
    int64_t c, h, w;
    float   mean[3], std[3];
} zi_image_form;
ZICO_NODISCARD zico_status zi_image_fits(const zi_image_form *form, const zi_shape *want,
                                         const char *where, zi_train_diag *diag);
/* dy, dx: the image moves by so much, blank where nothing is; flip: left to right. */
void zi_image_put(const zi_image_form *form, const zi_shape *want, const uint8_t *image,
                  int dy, int dx, bool flip, float *ret_x);

/* ---- order ---------------------------------------------------------------------------- */

/* Which of n samples stands at `pos` of that epoch: a permutation of 0 .. n-1, different for
 * each (seed, epoch).  O(1), nothing is stored. */
uint64_t zi_order_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t pos);

/* ---- loader --------------------------------------------------------------------------- */

typedef struct zi_loader zi_loader;

typedef struct zi_batch {
    uint64_t position; /* of its first sample, counted over all epochs */
    void    *x, *y;    /* y NULL without labels                        */
} zi_batch;

typedef struct zi_loader_options {
    const zi_source *source; /* outlives the loader */
    uint64_t         batch;
    uint64_t         position; /* where to begin, in samples */
    uint64_t         seed;
    bool             in_order;  /* no shuffling: 0, 1, 2, ... and round again */
    unsigned         n_threads; /* 0: 1                                       */
    unsigned         n_ahead;   /* batches prepared at most; 0: 4             */
    unsigned         pause_ms;  /* a batch takes so much longer: a slow disk  */
} zi_loader_options;

ZICO_NODISCARD zico_status zi_loader_new(const zi_loader_options *opt,
                                         zi_loader              **ret_loader);
void                       zi_loader_free(zi_loader *l); /* NULL is fine */

/* The next batch, in order; it stays valid until the next call.  A sample that cannot be
 * read is told when its batch is asked for, and every time after. */
ZICO_NODISCARD zico_status zi_loader_next(zi_loader *l, zi_train_diag *diag,
                                          const zi_batch **ret_batch);
bool                       zi_loader_is_ready(zi_loader *l); /* the next batch is there */

typedef struct zi_loader_stats {
    uint64_t n_batches;  /* handed out                              */
    uint64_t n_waits;    /* of these, the consumer had to wait      */
    uint64_t ring_bytes; /* memory of all prepared batches          */
} zi_loader_stats;
void zi_loader_read_stats(zi_loader *l, zi_loader_stats *ret_stats);

#endif /* ZI_TRAIN_DATA_H */

/* dnn_private.h -- shared by the files of onednn/. */
#ifndef ZI_EXEC_DNN_PRIVATE_H
#define ZI_EXEC_DNN_PRIVATE_H

#include <dnnl.h>
#include "exec/onednn/dnn.h"

#define DNN_ARGS 6

typedef struct dnn_prim dnn_prim;

/* One operand of a primitive, and where a call has its address. */
typedef struct dnn_arg {
    int                index; /* DNNL_ARG_ */
    char               where; /* 'i' in, 'o' out */
    uint32_t           pos;
    dnnl_memory_desc_t md;
    dnnl_memory_t      mem;
    void              *last; /* the handle that is set */
} dnn_arg;

/* c = alpha op(a) op(b), `batch` times: dnn_matmul.c. */
typedef struct dnn_product {
    int64_t  batch, m, n, k;
    uint32_t a, b; /* which inputs */
    bool     trans_a, trans_b;
    float    alpha;
} dnn_product;

struct dnn_prim {
    zi_dnn               *d;
    dnn_prim             *next;
    dnnl_primitive_desc_t pd[2]; /* [0]: all threads, [1]: one */
    dnnl_primitive_t      prim[2];
    dnn_arg               arg[DNN_ARGS];
    dnnl_exec_arg_t       exec[DNN_ARGS + 1];
    dnnl_memory_t         scratch[2];
    void                 *scratch_last[2];
    int                   n_args;
    uint64_t              kernel_scratch; /* of oneDNN */
    dnn_product           mul;            /* matrix products only */
};

struct zi_dnn_move {
    zi_dnn          *d;
    zi_dnn_move     *next;
    dnnl_primitive_t prim;
    dnnl_memory_t    src, dst;
    void            *src_last, *dst_last;
};

typedef struct dnn_md {
    struct dnn_md     *next;
    dnnl_memory_desc_t md;
} dnn_md;

struct zi_dnn {
    dnnl_engine_t      engine;
    dnnl_stream_t      stream;
    unsigned           n_threads;
    const zi_kern_set *own;
    dnn_prim          *prims;
    zi_dnn_move       *moves;
    dnn_md            *mds;
    bool               failed; /* a primitive could not be made or run */
};

zico_status dnn_status(dnnl_status_t st);
zico_status dnn_bind_conv(zi_dnn *d, zi_kop *k);
zico_status dnn_bind_matmul(zi_dnn *d, zi_kop *k);

/* The layout of a weight in oneDNN's form; the descriptor lives as long as `d`. */
zico_status dnn_layout_of(zi_dnn *d, const dnnl_memory_desc_t *md, zi_layout *ret_layout);
zico_status dnn_plain_md(const int64_t *dims, uint32_t rank, dnnl_memory_desc_t *ret_md);
zico_status dnn_any_md(const int64_t *dims, uint32_t rank, dnnl_memory_desc_t *ret_md);
/* Of an image view: plain, or blocks. */
zico_status dnn_image_md(const zi_kview *v, dnnl_memory_desc_t *ret_md);

zico_status dnn_prim_new(zi_dnn *d, dnn_prim **ret_prim); /* kept in d's list */
zico_status dnn_prim_arg(dnn_prim *p, int index, char where, uint32_t pos,
                         const dnnl_memory_desc_t *md);
/* After pd[0] is set: primitive, memories, scratch size. */
zico_status dnn_prim_finish(dnn_prim *p);
void        dnn_prim_run(dnn_prim *p, const zi_kcall *c);

#endif /* ZI_EXEC_DNN_PRIVATE_H */

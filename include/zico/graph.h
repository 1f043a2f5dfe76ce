/* zico/graph.h -- write a network down; engine.h trains it.
 *
 * A *net* is written layer by layer.  Calls take and give tensors (plain numbers), and
 * errors stick: after the first, every call does nothing and gives ZICO_NO_TENSOR, and
 * zico_net_finish returns it, while zico_net_error says in one sentence which layer is to
 * blame.  So a network needs one check, at its end:
 *
 *     zico_net   *net = zico_net_new("tiny", 1, 42);
 *     zico_tensor x = zico_net_input(net, "x", ZICO_F32, 4, (int64_t[]){8, 3, 32, 32});
 *     x = zico_net_conv2d(net, x, "conv1", &(zico_conv){.out = 16, .kernel = 3, .pad = 1});
 *     x = zico_net_relu(net, zico_net_batch_norm(net, x, "bn1"));
 *     x = zico_net_flatten(net, zico_net_global_avg_pool(net, x), 1);
 *     x = zico_net_linear(net, x, "fc", 10, 1);
 *     zico_net_cross_entropy(net, x, zico_net_label(net, "labels", 1, (int64_t[]){8}));
 *     if (zico_net_finish(net) < 0) puts(zico_net_error(net));
 *
 * Layers make their parameters, named and initialised as PyTorch's: "conv1.weight".
 * The batch is the first dim of the inputs.  Or take a network from the zoo, or from an
 * ONNX file.  A net belongs to one thread at a time.
 */
#ifndef ZICO_GRAPH_H
#define ZICO_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zico_net zico_net;
typedef uint32_t        zico_tensor;

#define ZICO_NO_TENSOR UINT32_MAX

typedef enum zico_type { ZICO_F32, ZICO_I32, ZICO_I64 } zico_type;

/* ---- beginning and ending --------------------------------------------------------- */

/* `training` decides what batch norm and dropout do; `seed` feeds dropout.  NULL: no
 * memory. */
ZICO_API zico_net *zico_net_new(const char *name, int training, uint64_t seed);

/* A finished net: "resnet50:classes=10,size=64", or the bytes of an ONNX file (batch 0: as
 * in the file).  On failure `why` (may be NULL) takes a sentence of at most cap bytes. */
ZICO_API ZICO_NODISCARD zico_status zico_net_from_zoo(const char *spec, int64_t batch,
                                                      int training, uint64_t seed,
                                                      char *why, size_t cap,
                                                      zico_net **ret_net);
ZICO_API ZICO_NODISCARD zico_status zico_net_from_onnx(const void *data, size_t n_bytes,
                                                       int64_t batch, int training,
                                                       uint64_t seed, char *why,
                                                       size_t cap, zico_net **ret_net);

/* End the writing; a net can be trained or run only after this. */
ZICO_API ZICO_NODISCARD zico_status zico_net_finish(zico_net *net);
ZICO_API void                       zico_net_free(zico_net *net); /* NULL is fine */

/* What went wrong; "" when nothing did. */
ZICO_API const char *zico_net_error(const zico_net *net);
ZICO_API uint64_t    zico_net_param_count(const zico_net *net);

/* The text form of a finished net; free it with zico_net_text_free. */
ZICO_API ZICO_NODISCARD zico_status zico_net_text(const zico_net *net, char **ret_text);
ZICO_API void                       zico_net_text_free(char *text);

/* ---- tensors ----------------------------------------------------------------------- */
ZICO_API zico_tensor zico_net_input(zico_net *net, const char *name, zico_type type,
                                    uint32_t rank, const int64_t *dims);
ZICO_API zico_tensor zico_net_label(zico_net *net, const char *name, uint32_t rank,
                                    const int64_t *dims);
/* A bare parameter: uniform in [-bound, bound), or `bound` 0: zero. */
ZICO_API zico_tensor zico_net_param(zico_net *net, const char *name, uint32_t rank,
                                    const int64_t *dims, double bound);
ZICO_API void        zico_net_output(zico_net *net, zico_tensor t); /* to be looked at */
ZICO_API int64_t     zico_net_dim(const zico_net *net, zico_tensor t, int axis);

/* Names within: enter("layer1") makes "conv1" "layer1.conv1", until leave. */
ZICO_API void zico_net_enter(zico_net *net, const char *scope);
ZICO_API void zico_net_leave(zico_net *net);

/* ---- layers with parameters --------------------------------------------------------- */
typedef struct zico_conv { /* what is left 0 takes the value in brackets */
    int64_t out, kernel;
    int64_t stride, pad, dilation, groups; /* [1], [0], [1], [1] */
    int64_t out_pad;                       /* transposed only [0] */
    int     bias;                          /* [no] */
} zico_conv;

ZICO_API zico_tensor zico_net_conv2d(zico_net *net, zico_tensor x, const char *name,
                                     const zico_conv *o);
ZICO_API zico_tensor zico_net_conv_transpose2d(zico_net *net, zico_tensor x,
                                               const char *name, const zico_conv *o);
ZICO_API zico_tensor zico_net_linear(zico_net *net, zico_tensor x, const char *name,
                                     int64_t out, int bias);
ZICO_API zico_tensor zico_net_batch_norm(zico_net *net, zico_tensor x, const char *name);
ZICO_API zico_tensor zico_net_layer_norm(zico_net *net, zico_tensor x, const char *name);
ZICO_API zico_tensor zico_net_embedding(zico_net *net, zico_tensor index,
                                        const char *name, int64_t n, int64_t width);
ZICO_API zico_tensor zico_net_attention(zico_net *net, zico_tensor x, const char *name,
                                        int64_t heads, double dropout); /* causal */

/* ---- operators ---------------------------------------------------------------------- */
ZICO_API zico_tensor zico_net_relu(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_gelu(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_silu(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_sigmoid(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_tanh(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_clip(zico_net *net, zico_tensor x, double lo, double hi);
ZICO_API zico_tensor zico_net_scale(zico_net *net, zico_tensor x, double alpha,
                                    double beta);
ZICO_API zico_tensor zico_net_add(zico_net *net, zico_tensor x, zico_tensor y);
ZICO_API zico_tensor zico_net_sub(zico_net *net, zico_tensor x, zico_tensor y);
ZICO_API zico_tensor zico_net_mul(zico_net *net, zico_tensor x, zico_tensor y);
ZICO_API zico_tensor zico_net_div(zico_net *net, zico_tensor x, zico_tensor y);
ZICO_API zico_tensor zico_net_matmul(zico_net *net, zico_tensor x, zico_tensor y,
                                     int trans_x, int trans_y);
ZICO_API zico_tensor zico_net_max_pool(zico_net *net, zico_tensor x, int64_t kernel,
                                       int64_t stride, int64_t pad);
ZICO_API zico_tensor zico_net_avg_pool(zico_net *net, zico_tensor x, int64_t kernel,
                                       int64_t stride, int64_t pad);
ZICO_API zico_tensor zico_net_global_avg_pool(zico_net *net, zico_tensor x);
ZICO_API zico_tensor zico_net_upsample(zico_net *net, zico_tensor x, int64_t h, int64_t w,
                                       int bilinear);
ZICO_API zico_tensor zico_net_softmax(zico_net *net, zico_tensor x); /* last dim */
ZICO_API zico_tensor zico_net_dropout(zico_net *net, zico_tensor x, double p);
ZICO_API zico_tensor zico_net_reshape(zico_net *net, zico_tensor x, uint32_t rank,
                                      const int64_t *dims);
ZICO_API zico_tensor zico_net_flatten(zico_net *net, zico_tensor x, int from_axis);
ZICO_API zico_tensor zico_net_transpose(zico_net *net, zico_tensor x,
                                        const int64_t *perm);
ZICO_API zico_tensor zico_net_concat(zico_net *net, uint32_t n, const zico_tensor *x,
                                     int axis);
ZICO_API zico_tensor zico_net_slice(zico_net *net, zico_tensor x, int axis, int64_t begin,
                                    int64_t end);
/* Over the dims whose bit is set in `axes`. */
ZICO_API zico_tensor zico_net_mean(zico_net *net, zico_tensor x, uint32_t axes, int keep);
ZICO_API zico_tensor zico_net_sum(zico_net *net, zico_tensor x, uint32_t axes, int keep);

/* ---- what training makes small ------------------------------------------------------- */
ZICO_API zico_tensor zico_net_cross_entropy(zico_net *net, zico_tensor logits,
                                            zico_tensor labels);
ZICO_API zico_tensor zico_net_mse(zico_net *net, zico_tensor x, zico_tensor target);
/* Any scalar that you computed yourself. */
ZICO_API void zico_net_minimize(zico_net *net, zico_tensor loss);

#ifdef __cplusplus
}
#endif
#endif /* ZICO_GRAPH_H */

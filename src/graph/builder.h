/* builder.h -- write a network down, layer by layer.
 *
 * Errors are sticky: after the first one every call does nothing and returns ZI_ID_NONE,
 * and zi_gb_finish reports it, with the node's name.  So a network reads like its figure:
 *
 *     zi_gb       *b = zi_gb_new("tiny", true, 1);
 *     zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){8, 3, 32, 32});
 *     x = zi_gb_conv2d(b, x, "conv1", &(zi_conv_opt){.out = 16, .kernel = 3, .pad = 1});
 *     x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn1", NULL));
 *     x = zi_gb_linear(b, zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1), "fc", 10, true);
 *     zi_gb_cross_entropy(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){8}));
 *     st = zi_gb_finish(b, &diag, &graph);
 *
 * Parameters are named as PyTorch would: scope "layer1.0" + "conv1" + "weight".
 * Layers (conv2d, linear, ...) make their parameters; everything else is a bare operator
 * named after the scope and itself.  `training` decides what batch_norm and dropout are.
 */
#ifndef ZI_GRAPH_BUILDER_H
#define ZI_GRAPH_BUILDER_H

#include "graph/graph.h"

typedef struct zi_gb zi_gb;

zi_gb *zi_gb_new(const char *name, bool training, uint64_t seed); /* NULL: no memory */

/* End: frees the builder and hands over the graph, verified, or tells the first error. */
ZICO_NODISCARD zico_status zi_gb_finish(zi_gb *b, zi_graph_diag *diag,
                                        zi_graph **ret_graph);
void                       zi_gb_free(zi_gb *b); /* give up without a graph */

bool      zi_gb_failed(const zi_gb *b);
void      zi_gb_fail(zi_gb *b, zico_status st, const char *fmt, ...);
bool      zi_gb_training(const zi_gb *b);
zi_graph *zi_gb_graph(zi_gb *b); /* the unfinished graph; to look at */
int64_t
zi_gb_dim(const zi_gb *b, zi_tensor_id t, int axis); /* <0: from the end; 0 on error */

/* Scopes of names: enter("layer%d", 1) ... leave. */
void zi_gb_enter(zi_gb *b, const char *fmt, ...);
void zi_gb_leave(zi_gb *b);

/* ---- tensors that are there before the step -------------------------------------- */
zi_tensor_id
zi_gb_input(zi_gb *b, const char *name, zi_dtype t, uint32_t rank, const int64_t *dims);
zi_tensor_id zi_gb_label(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims);
zi_tensor_id
zi_gb_param(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims, zi_init init);
zi_tensor_id
zi_gb_state(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims, zi_init init);
void zi_gb_output(zi_gb *b, zi_tensor_id t);

zi_init zi_init_const(double a);
zi_init zi_init_uniform(double bound); /* in [-bound, bound) */
zi_init zi_init_normal(double std);

/* ---- layers: make their parameters ----------------------------------------------- */
typedef struct zi_conv_opt {  /* what is left 0 takes the default in brackets */
    int64_t out;              /* channels */
    int64_t kernel, kernel_w; /* kernel_w [kernel] */
    int64_t stride, stride_w; /* [1], [stride] */
    int64_t pad, pad_w;       /* [0], [pad]; pad_w = -1: none */
    int64_t dilation, groups; /* [1] */
    int64_t out_pad;          /* transposed only */
    bool    bias;
    enum {
        ZI_CONV_KAIMING_OUT, /* normal, fan out, gain of relu: torchvision's own     */
        ZI_CONV_TORCH,       /* uniform 1/sqrt(fan in): the default of torch.nn      */
        ZI_CONV_KAIMING_IN,  /* normal, fan in                                       */
    } init;
} zi_conv_opt;

typedef struct zi_norm_opt {
    double eps;      /* [1e-5] */
    double momentum; /* [0.1]  */
    double gamma;    /* [1] first value of the weight; negative: 0 */
} zi_norm_opt;

zi_tensor_id
zi_gb_conv2d(zi_gb *b, zi_tensor_id x, const char *name, const zi_conv_opt *o);
zi_tensor_id
zi_gb_convt2d(zi_gb *b, zi_tensor_id x, const char *name, const zi_conv_opt *o);
/* Weights uniform as torch.nn.Linear's. */
zi_tensor_id
zi_gb_linear(zi_gb *b, zi_tensor_id x, const char *name, int64_t out, bool bias);
zi_tensor_id zi_gb_linear_init(zi_gb *b, zi_tensor_id x, const char *name, int64_t out,
                               bool bias, zi_init weight, zi_init bias_init);
zi_tensor_id zi_gb_batch_norm(zi_gb *b, zi_tensor_id x, const char *name,
                              const zi_norm_opt *o); /* o NULL: defaults */
zi_tensor_id
zi_gb_layer_norm(zi_gb *b, zi_tensor_id x, const char *name, const zi_norm_opt *o);
zi_tensor_id zi_gb_embedding(zi_gb *b, zi_tensor_id index, const char *name, int64_t n,
                             int64_t width, zi_init init);

/* One step of an LSTM: *h and *c (N,H) are replaced.  `w` holds the parameters, made once
 * by zi_gb_lstm_params and shared by all steps. */
typedef struct zi_lstm_params {
    zi_tensor_id w_ih, w_hh, b_ih, b_hh;
} zi_lstm_params;
zi_lstm_params
     zi_gb_lstm_params(zi_gb *b, const char *name, int layer, int64_t in, int64_t hidden);
void zi_gb_lstm_step(zi_gb *b, const zi_lstm_params *w, zi_tensor_id x, zi_tensor_id *h,
                     zi_tensor_id *c);

/* The pointwise part alone: gates (N,4H) before their activations, in the order i f g o. */
void zi_gb_lstm_cell(zi_gb *b, zi_tensor_id gates, zi_tensor_id *h, zi_tensor_id *c);

/* Causal multi-head self-attention from parts; qkv and projection are linear layers. */
zi_tensor_id zi_gb_attention(zi_gb *b, zi_tensor_id x, const char *name, int64_t heads,
                             double dropout, zi_init weight, zi_init proj);

/* ---- bare operators on given tensors --------------------------------------------- */
zi_tensor_id zi_gb_op(zi_gb *b, zi_op op, const zi_attr *attr, uint32_t n_in,
                      const zi_tensor_id *in); /* the general case: output 0 */
zi_tensor_id zi_gb_relu(zi_gb *b, zi_tensor_id x);
zi_tensor_id zi_gb_relu6(zi_gb *b, zi_tensor_id x);
zi_tensor_id zi_gb_clip(zi_gb *b, zi_tensor_id x, double lo, double hi);
zi_tensor_id zi_gb_gelu(zi_gb *b, zi_tensor_id x, bool tanh_form);
zi_tensor_id zi_gb_silu(zi_gb *b, zi_tensor_id x);
zi_tensor_id zi_gb_sigmoid(zi_gb *b, zi_tensor_id x);
zi_tensor_id zi_gb_tanh(zi_gb *b, zi_tensor_id x);
zi_tensor_id zi_gb_bias(zi_gb *b, zi_tensor_id x, zi_tensor_id bias, int axis);
zi_tensor_id zi_gb_add(zi_gb *b, zi_tensor_id x, zi_tensor_id y);
zi_tensor_id zi_gb_sub(zi_gb *b, zi_tensor_id x, zi_tensor_id y);
zi_tensor_id zi_gb_mul(zi_gb *b, zi_tensor_id x, zi_tensor_id y);
zi_tensor_id zi_gb_div(zi_gb *b, zi_tensor_id x, zi_tensor_id y);
zi_tensor_id zi_gb_scale(zi_gb *b, zi_tensor_id x, double alpha, double beta);
zi_tensor_id zi_gb_matmul(zi_gb *b, zi_tensor_id x, zi_tensor_id y, bool trans_x,
                          bool trans_y, double alpha);
zi_tensor_id
zi_gb_max_pool(zi_gb *b, zi_tensor_id x, int64_t kernel, int64_t stride, int64_t pad);
zi_tensor_id
zi_gb_avg_pool(zi_gb *b, zi_tensor_id x, int64_t kernel, int64_t stride, int64_t pad);
zi_tensor_id zi_gb_global_avg_pool(zi_gb *b, zi_tensor_id x);
zi_tensor_id
zi_gb_resize(zi_gb *b, zi_tensor_id x, int64_t h, int64_t w, bool bilinear, bool align);
zi_tensor_id zi_gb_softmax(zi_gb *b, zi_tensor_id x, double alpha, bool causal);
zi_tensor_id zi_gb_reduce_mean(zi_gb *b, zi_tensor_id x, uint32_t axes, bool keep);
zi_tensor_id zi_gb_reduce_sum(zi_gb *b, zi_tensor_id x, uint32_t axes, bool keep);
zi_tensor_id zi_gb_reshape(zi_gb *b, zi_tensor_id x, uint32_t rank, const int64_t *dims);
zi_tensor_id
zi_gb_flatten(zi_gb *b, zi_tensor_id x, int axis); /* dims from axis on: one */
zi_tensor_id zi_gb_transpose(zi_gb *b, zi_tensor_id x, const int64_t *perm);
zi_tensor_id zi_gb_concat(zi_gb *b, uint32_t n, const zi_tensor_id *x, int axis);
void         zi_gb_split(zi_gb *b, zi_tensor_id x, int axis, uint32_t n,
                         zi_tensor_id *ret_parts); /* n equal parts */
zi_tensor_id zi_gb_slice(zi_gb *b, zi_tensor_id x, int axis, int64_t begin, int64_t end);
zi_tensor_id zi_gb_pad(zi_gb *b, zi_tensor_id x, int axis, int64_t before, int64_t after);
zi_tensor_id zi_gb_fill(zi_gb *b, uint32_t rank, const int64_t *dims, double value);
zi_tensor_id zi_gb_dropout(zi_gb *b, zi_tensor_id x, double p); /* not training: x */

/* ---- losses: set graph->loss and list the prediction in graph->outputs ------------ */
zi_tensor_id zi_gb_cross_entropy(zi_gb *b, zi_tensor_id logits, zi_tensor_id labels);
zi_tensor_id zi_gb_nll(zi_gb *b, zi_tensor_id probabilities, zi_tensor_id labels);
zi_tensor_id zi_gb_mse(zi_gb *b, zi_tensor_id x, zi_tensor_id target);

#endif /* ZI_GRAPH_BUILDER_H */

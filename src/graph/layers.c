/* layers.c -- operators together with their parameters, named and begun as in PyTorch. */
#include "graph/builder_state.h"
#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* No tensor to work on?  Says so, once. */
static bool
no_use(zi_gb *b, zi_tensor_id x)
{
    if (!zi_gb_lacks(b, x)) return false;
    zi_gb_fail(b, ZICO_E_ARG, "a layer below '%s' is given no tensor", b ? b->scope : "");
    return true;
}

static zi_tensor_id
param(zi_gb *b, const char *layer, const char *leaf, uint32_t rank, const int64_t *dims,
      zi_init init)
{
    char name[ZI_NAME_BYTES];
    snprintf(name, sizeof name, "%.100s.%.60s", layer, leaf);
    return zi_gb_param(b, name, rank, dims, init);
}

static zi_tensor_id
layer_node(zi_gb *b, const char *name, zi_op op, const zi_attr *attr, uint32_t n_in,
           const zi_tensor_id *in)
{
    zi_tensor_id out[4] = {ZI_ID_NONE};
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    zi_node_spec s = {.name = zi_gb_name(b, name, NULL),
                      .op = op,
                      .forward = ZI_ID_NONE,
                      .n_in = n_in,
                      .in = in,
                      .n_out = zi_op_get(op)->out_min,
                      .attr = attr};
    zi_gb_node(b, &s, out);
    return out[0];
}

/* ---- convolution -------------------------------------------------------------------- */

static int64_t
or_else(int64_t v, int64_t otherwise)
{
    return v ? v : otherwise;
}

static zi_attr
conv_attr(const zi_conv_opt *o)
{
    int64_t stride = or_else(o->stride, 1), dil = or_else(o->dilation, 1);
    int64_t pad_w = o->pad_w < 0 ? 0 : or_else(o->pad_w, o->pad);
    return (zi_attr){.conv = {.stride = {stride, or_else(o->stride_w, stride)},
                              .pad = {o->pad, pad_w, o->pad, pad_w},
                              .dilation = {dil, dil},
                              .out_pad = {o->out_pad, o->out_pad},
                              .groups = or_else(o->groups, 1)}};
}

/* fan in and fan out as torch.nn.init counts them: dims 1 and 0 times the window. */
static zi_init
conv_init(const zi_conv_opt *o, const int64_t dims[4])
{
    double window = (double)(dims[2] * dims[3]);
    double fan_in = (double)dims[1] * window, fan_out = (double)dims[0] * window;
    switch (o->init) {
    case ZI_CONV_TORCH:
        return zi_init_uniform(1 / sqrt(fan_in));
    case ZI_CONV_KAIMING_IN:
        return zi_init_normal(sqrt(2 / fan_in));
    case ZI_CONV_KAIMING_OUT:
        break;
    }
    return zi_init_normal(sqrt(2 / fan_out));
}

static zi_tensor_id
convolve(zi_gb *b, zi_op op, zi_tensor_id x, const char *name, const zi_conv_opt *o)
{
    if (no_use(b, x)) return ZI_ID_NONE;
    int64_t groups = or_else(o->groups, 1), channels = zi_gb_dim(b, x, 1);
    if (o->out < 1 || o->kernel < 1 || channels < 1 || groups < 1 || channels % groups ||
        o->out % groups) {
        zi_gb_fail(b, ZICO_E_SHAPE,
                   "'%s': %lld channels to %lld with kernel %lld in %lld groups",
                   zi_gb_name(b, name, NULL), (long long)channels, (long long)o->out,
                   (long long)o->kernel, (long long)groups);
        return ZI_ID_NONE;
    }
    int64_t kw = or_else(o->kernel_w, o->kernel);
    int64_t dims[4] = {o->out, channels / groups, o->kernel, kw};
    if (op == ZI_OP_CONVT2D) dims[0] = channels, dims[1] = o->out / groups;

    zi_attr      a = conv_attr(o);
    zi_tensor_id in[3] = {x, param(b, name, "weight", 4, dims, conv_init(o, dims)), 0};
    if (o->bias) {
        double  bound = 1 / sqrt((double)(dims[1] * dims[2] * dims[3]));
        zi_init init =
            o->init == ZI_CONV_TORCH ? zi_init_uniform(bound) : zi_init_const(0);
        in[2] = param(b, name, "bias", 1, &o->out, init);
    }
    return layer_node(b, name, op, &a, o->bias ? 3 : 2, in);
}

zi_tensor_id
zi_gb_conv2d(zi_gb *b, zi_tensor_id x, const char *name, const zi_conv_opt *o)
{
    return convolve(b, ZI_OP_CONV2D, x, name, o);
}

zi_tensor_id
zi_gb_convt2d(zi_gb *b, zi_tensor_id x, const char *name, const zi_conv_opt *o)
{
    return convolve(b, ZI_OP_CONVT2D, x, name, o);
}

/* ---- linear, embedding -------------------------------------------------------------- */

zi_tensor_id
zi_gb_linear_init(zi_gb *b, zi_tensor_id x, const char *name, int64_t out, bool bias,
                  zi_init weight, zi_init bias_init)
{
    if (no_use(b, x)) return ZI_ID_NONE;
    zi_attr      a = {.matmul = {.alpha = 1}};
    int64_t      dims[2] = {out, zi_gb_dim(b, x, -1)};
    zi_tensor_id in[3] = {x, param(b, name, "weight", 2, dims, weight), ZI_ID_NONE};
    if (bias) in[2] = param(b, name, "bias", 1, &out, bias_init);
    return layer_node(b, name, ZI_OP_LINEAR, &a, bias ? 3 : 2, in);
}

zi_tensor_id
zi_gb_linear(zi_gb *b, zi_tensor_id x, const char *name, int64_t out, bool bias)
{
    zi_init init = zi_init_uniform(1 / sqrt((double)or_else(zi_gb_dim(b, x, -1), 1)));
    return zi_gb_linear_init(b, x, name, out, bias, init, init);
}

zi_tensor_id
zi_gb_embedding(zi_gb *b, zi_tensor_id index, const char *name, int64_t n, int64_t width,
                zi_init init)
{
    if (no_use(b, index)) return ZI_ID_NONE;
    zi_tensor_id table = param(b, name, "weight", 2, (int64_t[]){n, width}, init);
    return layer_node(b, name, ZI_OP_EMBEDDING, NULL, 2, (zi_tensor_id[]){index, table});
}

/* ---- normalisation ------------------------------------------------------------------ */

static zi_attr
norm_attr(const zi_norm_opt *o)
{
    double eps = o && o->eps > 0 ? o->eps : 1e-5;
    double momentum = o && o->momentum > 0 ? o->momentum : 0.1;
    return (zi_attr){.norm = {.eps = eps, .momentum = momentum}};
}

static void
norm_params(zi_gb *b, const char *name, const zi_norm_opt *o, int64_t n,
            zi_tensor_id *ret)
{
    double gamma = o && o->gamma != 0 ? fmax(o->gamma, 0) : 1;
    ret[0] = param(b, name, "weight", 1, &n, zi_init_const(gamma));
    ret[1] = param(b, name, "bias", 1, &n, zi_init_const(0));
}

static zi_tensor_id
state(zi_gb *b, const char *layer, const char *leaf, int64_t n, double first)
{
    char name[ZI_NAME_BYTES];
    snprintf(name, sizeof name, "%.100s.%.60s", layer, leaf);
    return zi_gb_state(b, name, 1, &n, zi_init_const(first));
}

/* Training: normalise by the batch, and note its statistics in a node of their own. */
static zi_tensor_id
batch_norm_train(zi_gb *b, const char *name, zi_attr a, const zi_tensor_id in[5])
{
    zi_tensor_id out[3], none;
    zi_node_spec s = {.name = zi_gb_name(b, name, NULL),
                      .op = ZI_OP_BATCH_NORM,
                      .forward = ZI_ID_NONE,
                      .n_in = 3,
                      .in = in,
                      .n_out = 3,
                      .attr = &a};
    zi_gb_node(b, &s, out);
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    a.norm.count = zi_tensor_elems(&b->g->tensors[in[0]]) / zi_gb_dim(b, in[0], 1);
    zi_node_spec stats = {.name = zi_gb_name(b, name, "stats"),
                          .op = ZI_OP_BN_STATS,
                          .forward = ZI_ID_NONE,
                          .n_in = 2,
                          .in = out + 1,
                          .n_up = 2,
                          .up = in + 3,
                          .attr = &a};
    zi_gb_node(b, &stats, &none);
    return out[0];
}

zi_tensor_id
zi_gb_batch_norm_on(zi_gb *b, const char *name, zi_attr a, const zi_tensor_id in[5])
{
    if (no_use(b, in[0])) return ZI_ID_NONE;
    if (b->training) return batch_norm_train(b, name, a, in);
    return layer_node(b, name, ZI_OP_BATCH_NORM_FIXED, &a, 5, in);
}

zi_tensor_id
zi_gb_batch_norm(zi_gb *b, zi_tensor_id x, const char *name, const zi_norm_opt *o)
{
    if (no_use(b, x)) return ZI_ID_NONE;
    zi_tensor_id in[5] = {x};
    int64_t      n = zi_gb_dim(b, x, 1);

    norm_params(b, name, o, n, in + 1);
    in[3] = state(b, name, "running_mean", n, 0);
    in[4] = state(b, name, "running_var", n, 1);
    return zi_gb_batch_norm_on(b, name, norm_attr(o), in);
}

zi_tensor_id
zi_gb_layer_norm(zi_gb *b, zi_tensor_id x, const char *name, const zi_norm_opt *o)
{
    if (no_use(b, x)) return ZI_ID_NONE;
    zi_attr      a = norm_attr(o);
    zi_tensor_id in[3] = {x};
    norm_params(b, name, o, zi_gb_dim(b, x, -1), in + 1);
    return layer_node(b, name, ZI_OP_LAYER_NORM, &a, 3, in);
}

/* ---- LSTM --------------------------------------------------------------------------- */

zi_lstm_params
zi_gb_lstm_params(zi_gb *b, const char *name, int layer, int64_t in, int64_t hidden)
{
    zi_init init = zi_init_uniform(1 / sqrt((double)(hidden > 0 ? hidden : 1)));
    int64_t gates = 4 * hidden;
    char    leaf[4][32];

    snprintf(leaf[0], sizeof leaf[0], "weight_ih_l%d", layer);
    snprintf(leaf[1], sizeof leaf[1], "weight_hh_l%d", layer);
    snprintf(leaf[2], sizeof leaf[2], "bias_ih_l%d", layer);
    snprintf(leaf[3], sizeof leaf[3], "bias_hh_l%d", layer);
    zi_lstm_params w;
    w.w_ih = param(b, name, leaf[0], 2, (int64_t[]){gates, in}, init);
    w.w_hh = param(b, name, leaf[1], 2, (int64_t[]){gates, hidden}, init);
    w.b_ih = param(b, name, leaf[2], 1, &gates, init);
    w.b_hh = param(b, name, leaf[3], 1, &gates, init);
    return w;
}

void
zi_gb_lstm_cell(zi_gb *b, zi_tensor_id gates, zi_tensor_id *h, zi_tensor_id *c)
{
    zi_tensor_id in[2] = {gates, *c}, out[3];
    if (zi_gb_failed(b)) return;
    zi_node_spec s = {.name = zi_gb_name(b, "", "lstm_cell"),
                      .op = ZI_OP_LSTM_CELL,
                      .forward = ZI_ID_NONE,
                      .n_in = 2,
                      .in = in,
                      .n_out = 3};
    zi_gb_node(b, &s, out);
    *h = out[0];
    *c = out[1];
}

void
zi_gb_lstm_step(zi_gb *b, const zi_lstm_params *w, zi_tensor_id x, zi_tensor_id *h,
                zi_tensor_id *c)
{
    zi_attr      a = {.matmul = {.alpha = 1}};
    zi_tensor_id from_x =
        zi_gb_op(b, ZI_OP_LINEAR, &a, 3, (zi_tensor_id[]){x, w->w_ih, w->b_ih});
    zi_tensor_id from_h =
        zi_gb_op(b, ZI_OP_LINEAR, &a, 3, (zi_tensor_id[]){*h, w->w_hh, w->b_hh});
    zi_gb_lstm_cell(b, zi_gb_add(b, from_x, from_h), h, c);
}

/* ---- attention ---------------------------------------------------------------------- */

/* (B,T,3E) -> three of (B,heads,T,E/heads) */
static void
heads_of(zi_gb *b, zi_tensor_id qkv, int64_t heads, zi_tensor_id ret[3])
{
    int64_t n = zi_gb_dim(b, qkv, 0), t = zi_gb_dim(b, qkv, 1);
    int64_t width = zi_gb_dim(b, qkv, 2) / 3;
    qkv = zi_gb_reshape(b, qkv, 5, (int64_t[]){n, t, 3, heads, width / heads});
    qkv = zi_gb_transpose(b, qkv, (int64_t[]){2, 0, 3, 1, 4}); /* (3,B,heads,T,d) */
    zi_gb_split(b, qkv, 0, 3, ret);                            /* views */
    for (int i = 0; i < 3; i++)
        ret[i] = zi_gb_reshape(b, ret[i], 4, (int64_t[]){n, heads, t, width / heads});
}

zi_tensor_id
zi_gb_attention(zi_gb *b, zi_tensor_id x, const char *name, int64_t heads, double dropout,
                zi_init weight, zi_init proj)
{
    if (no_use(b, x)) return ZI_ID_NONE;
    int64_t n = zi_gb_dim(b, x, 0), t = zi_gb_dim(b, x, 1), width = zi_gb_dim(b, x, 2);
    if (heads < 1 || width % heads) {
        zi_gb_fail(b, ZICO_E_SHAPE, "'%s': width %lld in %lld heads",
                   zi_gb_name(b, name, NULL), (long long)width, (long long)heads);
        return ZI_ID_NONE;
    }
    zi_tensor_id part[3];
    zi_init      zero = zi_init_const(0);

    zi_gb_enter(b, "%s", name);
    zi_tensor_id qkv = zi_gb_linear_init(b, x, "c_attn", 3 * width, true, weight, zero);
    heads_of(b, qkv, heads, part);
    zi_tensor_id score = zi_gb_matmul(b, part[0], part[1], false, true, 1);
    score = zi_gb_softmax(b, score, 1 / sqrt((double)(width / heads)), true);
    score = zi_gb_dropout(b, score, dropout);
    zi_tensor_id y = zi_gb_matmul(b, score, part[2], false, false, 1);
    y = zi_gb_transpose(b, y, (int64_t[]){0, 2, 1, 3});
    y = zi_gb_reshape(b, y, 3, (int64_t[]){n, t, width});
    y = zi_gb_linear_init(b, y, "c_proj", width, true, proj, zero);
    y = zi_gb_dropout(b, y, dropout);
    zi_gb_leave(b);
    return y;
}

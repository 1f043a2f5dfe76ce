/* onnx_layers.c -- ONNX operators that compute: layers, arithmetic, pooling, activations. */
#include "graph/import/onnx_import.h"
#include "base/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- windows --------------------------------------------------------------------------- */

typedef struct windows {
    int64_t kernel[2], stride[2], pad[4], dilation[2];
} windows;

static void
pair_of(zi_onnx *o, const char *name, int64_t otherwise, int64_t ret[2])
{
    uint32_t n = zi_onnx_attr_ints(o, name, ret, 2);
    if (n == 1)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "only two spatial dims are supported");
    if (n == 0) ret[0] = ret[1] = otherwise;
    for (int i = 0; i < 2; i++)
        if (ret[i] < 1 || ret[i] > 65536)
            zi_onnx_fail(o, ZICO_E_SHAPE, "%s is %" PRId64, name, ret[i]);
}

/* auto_pad: as much border as keeps ceil(size/stride) cells; the odd one goes to the end
 * (SAME_UPPER) or the beginning. */
static void
same_pads(zi_onnx *o, zi_tensor_id x, windows *w)
{
    bool lower = zi_onnx_attr_is(o, "auto_pad", "SAME_LOWER", false);
    for (int i = 0; i < 2; i++) {
        int64_t size = zi_gb_dim(o->b, x, 2 + i);
        int64_t cells = (size + w->stride[i] - 1) / w->stride[i];
        int64_t total =
            (cells - 1) * w->stride[i] + w->dilation[i] * (w->kernel[i] - 1) + 1 - size;
        if (total < 0) total = 0;
        w->pad[i] = lower ? (total + 1) / 2 : total / 2;
        w->pad[2 + i] = total - w->pad[i];
    }
}

static windows
windows_of(zi_onnx *o, zi_tensor_id x, const int64_t *kernel)
{
    windows w = {.pad = {0}};
    if (kernel)
        w.kernel[0] = kernel[0], w.kernel[1] = kernel[1];
    else
        pair_of(o, "kernel_shape", 0, w.kernel);
    pair_of(o, "strides", 1, w.stride);
    pair_of(o, "dilations", 1, w.dilation);
    if (zi_onnx_failed(o)) return w;
    if (zi_onnx_attr_is(o, "auto_pad", "SAME_UPPER", false) ||
        zi_onnx_attr_is(o, "auto_pad", "SAME_LOWER", false)) {
        same_pads(o, x, &w);
    } else if (!zi_onnx_attr_is(o, "auto_pad", "VALID", false)) {
        uint32_t n = zi_onnx_attr_ints(o, "pads", w.pad, 4);
        if (n != 0 && n != 4)
            zi_onnx_fail(o, ZICO_E_FORMAT, "pads has %" PRIu32 " numbers", n);
    }
    return w;
}

/* ---- convolution and norm -------------------------------------------------------------- */

static void
need_rank(zi_onnx *o, zi_tensor_id t, uint32_t rank)
{
    if (!zi_onnx_failed(o) && zi_onnx_rank(o, t) != rank)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                     "an input has %" PRIu32 " dims, %" PRIu32 " are supported",
                     zi_onnx_rank(o, t), rank);
}

static void
convolution(zi_onnx *o, zi_op op)
{
    zi_tensor_id in[3] = {zi_onnx_tensor(o, 0), zi_onnx_tensor(o, 1), ZI_ID_NONE};
    need_rank(o, in[0], 4);
    need_rank(o, in[1], 4);
    if (zi_onnx_failed(o)) return;
    if (zi_onnx_in_opt(o, 2)) in[2] = zi_onnx_tensor(o, 2);
    int64_t kernel[2] = {zi_gb_dim(o->b, in[1], 2), zi_gb_dim(o->b, in[1], 3)};
    windows w = windows_of(o, in[0], kernel);
    zi_attr a = {.conv = {.groups = zi_onnx_attr_int(o, "group", 1)}};
    memcpy(a.conv.stride, w.stride, sizeof w.stride);
    memcpy(a.conv.pad, w.pad, sizeof w.pad);
    memcpy(a.conv.dilation, w.dilation, sizeof w.dilation);
    if (op == ZI_OP_CONVT2D) {
        zi_onnx_attr_ints(o, "output_padding", a.conv.out_pad, 2);
        if (zi_onnx_attr(o, "output_shape") ||
            !zi_onnx_attr_is(o, "auto_pad", "NOTSET", true))
            zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                         "output_shape and auto_pad are not supported");
    }
    if (zi_onnx_failed(o)) return;
    zi_onnx_out(o, 0, zi_gb_op(o->b, op, &a, in[2] == ZI_ID_NONE ? 2 : 3, in));
}

static void
conv(zi_onnx *o)
{
    convolution(o, ZI_OP_CONV2D);
}

static void
conv_transpose(zi_onnx *o)
{
    convolution(o, ZI_OP_CONVT2D);
}

static void
batch_normalization(zi_onnx *o)
{
    zi_tensor_id in[5] = {zi_onnx_tensor(o, 0), zi_onnx_tensor(o, 1),
                          zi_onnx_tensor(o, 2)};
    in[3] = zi_onnx_value_state(o, zi_onnx_in(o, 3));
    in[4] = zi_onnx_value_state(o, zi_onnx_in(o, 4));
    if (zi_onnx_failed(o)) return;
    /* ONNX says how much of the old statistics stays */
    zi_attr a = {.norm = {.eps = zi_onnx_attr_float(o, "epsilon", 1e-5),
                          .momentum = 1 - zi_onnx_attr_float(o, "momentum", 0.9)}};
    zi_onnx_out(o, 0, zi_gb_batch_norm_on(o->b, "batch_norm", a, in));
}

static void
layer_normalization(zi_onnx *o)
{
    zi_tensor_id in[3] = {zi_onnx_tensor(o, 0), zi_onnx_tensor(o, 1), ZI_ID_NONE};
    if (zi_onnx_in_opt(o, 2)) in[2] = zi_onnx_tensor(o, 2);
    uint32_t rank = zi_onnx_rank(o, in[0]);
    if (zi_onnx_failed(o)) return;
    if (zi_onnx_axis(o, zi_onnx_attr_int(o, "axis", -1), rank) + 1 != (int64_t)rank ||
        in[2] == ZI_ID_NONE) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "only the last axis, with scale and bias");
        return;
    }
    zi_attr a = {.norm = {.eps = zi_onnx_attr_float(o, "epsilon", 1e-5)}};
    zi_onnx_out(o, 0, zi_gb_op(o->b, ZI_OP_LAYER_NORM, &a, 3, in));
}

/* ---- linear algebra -------------------------------------------------------------------- */

static bool
is_matrix(const zi_onnx_value *v)
{
    return v && v->proto && v->proto->n_dims == 2;
}

/* x W^T, with W (out,in). */
static zi_tensor_id
linear(zi_onnx *o, zi_tensor_id x, zi_tensor_id w, zi_tensor_id bias)
{
    zi_attr a = {.matmul = {.alpha = 1}};
    return zi_gb_op(o->b, ZI_OP_LINEAR, &a, bias == ZI_ID_NONE ? 2 : 3,
                    (zi_tensor_id[]){x, w, bias});
}

/* Add C * beta to a product, as a bias where it is one. */
static zi_tensor_id
gemm_add(zi_onnx *o, zi_tensor_id y, double beta)
{
    if (!zi_onnx_in_opt(o, 2)) return y;
    zi_tensor_id c = zi_onnx_tensor(o, 2);
    if (zi_onnx_failed(o)) return ZI_ID_NONE;
    if (beta != 1) c = zi_gb_scale(o->b, c, beta, 0);
    if (zi_onnx_rank(o, c) == 1 && zi_gb_dim(o->b, c, 0) == zi_gb_dim(o->b, y, -1))
        return zi_gb_bias(o->b, y, c, -1);
    return zi_gb_add(o->b, y, c);
}

static void
gemm(zi_onnx *o)
{
    bool   ta = zi_onnx_attr_int(o, "transA", 0), tb = zi_onnx_attr_int(o, "transB", 0);
    double alpha = zi_onnx_attr_float(o, "alpha", 1),
           beta = zi_onnx_attr_float(o, "beta", 1);
    zi_tensor_id   x = zi_onnx_tensor(o, 0), y;
    zi_onnx_value *w = zi_onnx_in(o, 1);
    need_rank(o, x, 2);
    if (zi_onnx_failed(o)) return;
    if (is_matrix(w) && !ta) {
        y = linear(o, x, tb ? zi_onnx_value_tensor(o, w) : zi_onnx_value_flipped(o, w),
                   ZI_ID_NONE);
        if (alpha != 1) y = zi_gb_scale(o->b, y, alpha, 0);
    } else {
        y = zi_gb_matmul(o->b, x, zi_onnx_value_tensor(o, w), ta, tb, alpha);
    }
    zi_onnx_out(o, 0, gemm_add(o, y, beta));
}

/* W^T of a matrix that is not data: what it was transposed from, or transposed now. */
static zi_tensor_id
flip(zi_onnx *o, zi_tensor_id w)
{
    const zi_tensor *t = &o->b->g->tensors[w];
    if (t->producer != ZI_ID_NONE && o->b->g->nodes[t->producer].op == ZI_OP_TRANSPOSE &&
        o->b->g->nodes[t->producer].attr.perm.perm[0] == 1)
        return o->b->g->nodes[t->producer].in[0];
    return zi_gb_transpose(o->b, w, (int64_t[]){1, 0});
}

static void
matmul(zi_onnx *o)
{
    zi_tensor_id   x = zi_onnx_tensor(o, 0);
    zi_onnx_value *w = zi_onnx_in(o, 1);
    if (zi_onnx_failed(o)) return;
    if (is_matrix(w)) {
        zi_onnx_out(o, 0, linear(o, x, zi_onnx_value_flipped(o, w), ZI_ID_NONE));
        return;
    }
    zi_tensor_id y = zi_onnx_value_tensor(o, w);
    if (zi_onnx_failed(o)) return;
    if (zi_onnx_rank(o, y) == 2)
        zi_onnx_out(o, 0, linear(o, x, flip(o, y), ZI_ID_NONE));
    else
        zi_onnx_out(o, 0, zi_gb_matmul(o->b, x, y, false, false, 1));
}

/* ---- arithmetic ------------------------------------------------------------------------ */

/* With a number on one side: y = alpha*x + beta.  False: not that simple. */
static bool
by_number(zi_onnx *o, zi_op op)
{
    double         c;
    zi_onnx_value *a = zi_onnx_in(o, 0), *b = zi_onnx_in(o, 1);
    if (zi_onnx_failed(o)) return false;
    bool right = zi_onnx_is_number(b, &c) && !b->learnt;
    bool left = !right && zi_onnx_is_number(a, &c) && !a->learnt;
    if (!right && !left) return false;
    zi_onnx_value *v = right ? a : b;
    uint32_t       data_rank = zi_onnx_data_rank(right ? b : a);
    zi_tensor_id   x = zi_onnx_value_tensor(o, v);
    if (zi_onnx_failed(o) || data_rank > zi_onnx_rank(o, x)) return false;
    if (op == ZI_OP_DIV && (left || c == 0)) return false;

    double alpha = op == ZI_OP_MUL           ? c
                   : op == ZI_OP_DIV         ? 1 / c
                   : op == ZI_OP_SUB && left ? -1
                                             : 1;
    double beta = op == ZI_OP_ADD || (op == ZI_OP_SUB && left) ? c
                  : op == ZI_OP_SUB                            ? -c
                                                               : 0;
    zi_onnx_out(o, 0, zi_gb_scale(o->b, x, alpha, beta));
    return true;
}

static void
binary(zi_onnx *o, zi_op op)
{
    if (by_number(o, op) || zi_onnx_failed(o)) return;
    zi_tensor_id in[2] = {zi_onnx_tensor(o, 0), zi_onnx_tensor(o, 1)};
    if (zi_onnx_failed(o)) return;
    const zi_tensor *x = &o->b->g->tensors[in[0]], *y = &o->b->g->tensors[in[1]];
    if (op == ZI_OP_ADD && y->role == ZI_ROLE_PARAM && y->rank == 1 && x->rank > 1 &&
        y->dims[0] == x->dims[x->rank - 1]) {
        zi_onnx_out(o, 0, zi_gb_bias(o->b, in[0], in[1], -1));
        return;
    }
    zi_onnx_out(o, 0, zi_gb_op(o->b, op, NULL, 2, in));
}

static void
add(zi_onnx *o)
{
    binary(o, ZI_OP_ADD);
}

static void
sub(zi_onnx *o)
{
    binary(o, ZI_OP_SUB);
}

static void
mul(zi_onnx *o)
{
    binary(o, ZI_OP_MUL);
}

static void
divide(zi_onnx *o)
{
    binary(o, ZI_OP_DIV);
}

static void
sum(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    for (size_t i = 1; i < o->node->n_input && !zi_onnx_failed(o); i++)
        x = zi_gb_add(o->b, x, zi_onnx_tensor(o, i));
    zi_onnx_out(o, 0, x);
}

/* ---- activations ----------------------------------------------------------------------- */

static void
relu(zi_onnx *o)
{
    zi_onnx_out(o, 0, zi_gb_relu(o->b, zi_onnx_tensor(o, 0)));
}

static void
sigmoid(zi_onnx *o)
{
    zi_onnx_out(o, 0, zi_gb_sigmoid(o->b, zi_onnx_tensor(o, 0)));
}

static void
hyperbolic_tangent(zi_onnx *o)
{
    zi_onnx_out(o, 0, zi_gb_tanh(o->b, zi_onnx_tensor(o, 0)));
}

static double
limit(zi_onnx *o, size_t i, double otherwise)
{
    zi_onnx_value *v = zi_onnx_in_opt(o, i);
    double         d = otherwise;
    if (v && !zi_onnx_is_number(v, &d))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "input %zu is not a constant number", i);
    return d;
}

static void
clip(zi_onnx *o)
{
    double lo = limit(o, 1, -INFINITY), hi = limit(o, 2, INFINITY);
    if (lo == 0 && isinf(hi))
        zi_onnx_out(o, 0, zi_gb_relu(o->b, zi_onnx_tensor(o, 0)));
    else
        zi_onnx_out(o, 0, zi_gb_clip(o->b, zi_onnx_tensor(o, 0), lo, hi));
}

static void
softmax(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    uint32_t     rank = zi_onnx_rank(o, x);
    if (zi_onnx_failed(o)) return;
    int64_t axis =
        zi_onnx_axis(o, zi_onnx_attr_int(o, "axis", o->opset < 13 ? 1 : -1), rank);
    if (axis + 1 != (int64_t)rank) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "only the last axis is supported");
        return;
    }
    zi_onnx_out(o, 0, zi_gb_softmax(o->b, x, 1, false));
}

static void
dropout(zi_onnx *o)
{
    double p = o->opset < 12 ? zi_onnx_attr_float(o, "ratio", 0.5) : limit(o, 1, 0.5);
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    if (!(p >= 0 && p < 1)) zi_onnx_fail(o, ZICO_E_SHAPE, "ratio %g", p);
    if (zi_onnx_failed(o)) return;
    zi_onnx_out(o, 0, zi_gb_dropout(o->b, x, p));
}

/* ---- pooling and resampling ------------------------------------------------------------ */

static void
pooling(zi_onnx *o, zi_op op)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    need_rank(o, x, 4);
    windows w = windows_of(o, x, NULL);
    if (!zi_onnx_failed(o) && (w.dilation[0] != 1 || w.dilation[1] != 1))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "dilated pooling is not supported");
    if (zi_onnx_failed(o)) return;
    zi_attr a = {.pool = {.ceil = zi_onnx_attr_int(o, "ceil_mode", 0) != 0,
                          .count_pad = zi_onnx_attr_int(o, "count_include_pad", 0) != 0}};
    memcpy(a.pool.kernel, w.kernel, sizeof w.kernel);
    memcpy(a.pool.stride, w.stride, sizeof w.stride);
    memcpy(a.pool.pad, w.pad, sizeof w.pad);
    bool whole = a.pool.kernel[0] * a.pool.kernel[1] == 1 && w.stride[0] == 1 &&
                 w.stride[1] == 1 && !w.pad[0] && !w.pad[1] && !w.pad[2] && !w.pad[3];
    zi_onnx_out(o, 0, whole ? x : zi_gb_op(o->b, op, &a, 1, &x)); /* 1x1: nothing to do */
}

static void
max_pool(zi_onnx *o)
{
    pooling(o, ZI_OP_MAX_POOL);
}

static void
average_pool(zi_onnx *o)
{
    pooling(o, ZI_OP_AVG_POOL);
}

static void
global_average_pool(zi_onnx *o)
{
    zi_onnx_out(o, 0, zi_gb_global_avg_pool(o->b, zi_onnx_tensor(o, 0)));
}

static void
global_max_pool(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    need_rank(o, x, 4);
    if (zi_onnx_failed(o)) return;
    zi_attr a = {.pool = {.kernel = {zi_gb_dim(o->b, x, 2), zi_gb_dim(o->b, x, 3)},
                          .stride = {1, 1}}};
    zi_onnx_out(o, 0, zi_gb_op(o->b, ZI_OP_MAX_POOL, &a, 1, &x));
}

static void
reduce(zi_onnx *o, bool mean)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      axes[ZI_MAX_RANK];
    uint32_t     rank = zi_onnx_rank(o, x), mask = 0;
    bool         input = !mean && o->opset >= 13; /* where the axes are */
    uint32_t     n = input ? zi_onnx_ints(o, zi_onnx_in_opt(o, 1), axes, ZI_MAX_RANK)
                           : zi_onnx_attr_ints(o, "axes", axes, ZI_MAX_RANK);
    if (zi_onnx_failed(o)) return;
    for (uint32_t i = 0; i < n; i++) mask |= 1u << zi_onnx_axis(o, axes[i], rank);
    if (n == 0) mask = (1u << rank) - 1;
    if (zi_onnx_failed(o)) return;
    bool keep = zi_onnx_attr_int(o, "keepdims", 1) != 0;
    bool global = mean && rank == 4 && mask == 12; /* what old exporters pool with */
    if (global && keep)
        x = zi_gb_global_avg_pool(o->b, x);
    else if (mean)
        x = zi_gb_reduce_mean(o->b, x, mask, keep);
    else
        x = zi_gb_reduce_sum(o->b, x, mask, keep);
    zi_onnx_out(o, 0, x);
}

static void
reduce_mean(zi_onnx *o)
{
    reduce(o, true);
}

static void
reduce_sum(zi_onnx *o)
{
    reduce(o, false);
}

/* Output height and width: from `sizes`, or `scales` times the input. */
static bool
resize_target(zi_onnx *o, zi_tensor_id x, int64_t ret[2])
{
    zi_onnx_value *scales = zi_onnx_in_opt(o, 2), *sizes = zi_onnx_in_opt(o, 3);
    int64_t        s[4];
    if (sizes && zi_onnx_ints(o, sizes, s, 4) == 4) {
        ret[0] = s[2];
        ret[1] = s[3];
        return s[0] == zi_gb_dim(o->b, x, 0) && s[1] == zi_gb_dim(o->b, x, 1);
    }
    zi_onnx_list f;
    if (!zi_onnx_list_of(scales, &f) || f.n != 4) return false;
    for (int i = 0; i < 2; i++) {
        double size = floor((double)zi_gb_dim(o->b, x, 2 + i) * f.v[2 + i]);
        if (!(size >= 1 && size < 1 << 24)) return false;
        ret[i] = (int64_t)size;
    }
    return f.v[0] == 1 && f.v[1] == 1;
}

static void
resize(zi_onnx *o)
{
    const char  *how = "coordinate_transformation_mode";
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      to[2];
    need_rank(o, x, 4);
    if (zi_onnx_failed(o)) return;
    bool nearest = zi_onnx_attr_is(o, "mode", "nearest", true);
    bool align = zi_onnx_attr_is(o, how, "align_corners", false);
    bool half = zi_onnx_attr_is(o, how, "half_pixel", true) ||
                zi_onnx_attr_is(o, how, "pytorch_half_pixel", false);
    bool known = nearest ? zi_onnx_attr_is(o, how, "asymmetric", false) &&
                               zi_onnx_attr_is(o, "nearest_mode", "floor", false)
                         : zi_onnx_attr_is(o, "mode", "linear", false) && (align || half);
    if (!known)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "this mode is not supported");
    else if (!resize_target(o, x, to))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                     "constant sizes or scales of H and W are needed");
    if (zi_onnx_failed(o)) return;
    zi_onnx_out(o, 0, zi_gb_resize(o->b, x, to[0], to[1], !nearest, align));
}

/* ---- table ----------------------------------------------------------------------------- */

zi_onnx_fn *
zi_onnx_layer_fn(const char *op)
{
    static const struct {
        const char *name;
        zi_onnx_fn *fn;
    } all[] = {
        {"Add", add},
        {"AveragePool", average_pool},
        {"BatchNormalization", batch_normalization},
        {"Clip", clip},
        {"Conv", conv},
        {"ConvTranspose", conv_transpose},
        {"Div", divide},
        {"Dropout", dropout},
        {"Gemm", gemm},
        {"GlobalAveragePool", global_average_pool},
        {"GlobalMaxPool", global_max_pool},
        {"LayerNormalization", layer_normalization},
        {"MatMul", matmul},
        {"MaxPool", max_pool},
        {"Mul", mul},
        {"ReduceMean", reduce_mean},
        {"ReduceSum", reduce_sum},
        {"Relu", relu},
        {"Resize", resize},
        {"Sigmoid", sigmoid},
        {"Softmax", softmax},
        {"Sub", sub},
        {"Sum", sum},
        {"Tanh", hyperbolic_tangent},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, op) == 0) return all[i].fn;
    return NULL;
}

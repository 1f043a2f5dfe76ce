/* builder.c -- bare operators, scopes, and the sticky error; layers are in layers.c. */
#include "graph/builder_state.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------- */

zi_gb *
zi_gb_new(const char *name, bool training, uint64_t seed)
{
    zi_gb *b = zi_calloc(1, sizeof *b);
    if (!b) return NULL;
    if (zi_graph_new(name, &b->g) < 0) {
        zi_free(b);
        return NULL;
    }
    b->training = training;
    b->seed = seed;
    return b;
}

void
zi_gb_free(zi_gb *b)
{
    if (!b) return;
    zi_graph_free(b->g);
    zi_free(b);
}

zico_status
zi_gb_finish(zi_gb *b, zi_graph_diag *diag, zi_graph **ret_graph)
{
    if (!b) return ZICO_E_NOMEM;
    if (b->st >= 0 && b->depth != 0)
        zi_gb_fail(b, ZICO_E_STATE, "a scope was entered and not left");
    if (b->st >= 0) b->st = zi_graph_verify(b->g, &b->diag);
    if (b->st < 0) {
        zico_status st = b->st;
        if (diag) *diag = b->diag;
        zi_gb_free(b);
        return st;
    }
    *ret_graph = b->g;
    zi_free(b);
    return ZICO_OK;
}

bool
zi_gb_failed(const zi_gb *b)
{
    return !b || b->st < 0;
}

void
zi_gb_fail(zi_gb *b, zico_status st, const char *fmt, ...)
{
    if (zi_gb_failed(b)) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->diag.text, sizeof b->diag.text, fmt, ap);
    va_end(ap);
    b->diag.node = ZI_ID_NONE;
    b->st = st;
}

bool
zi_gb_training(const zi_gb *b)
{
    return b && b->training;
}

zi_graph *
zi_gb_graph(zi_gb *b)
{
    return b->g;
}

bool
zi_gb_lacks(const zi_gb *b, zi_tensor_id t)
{
    return zi_gb_failed(b) || t >= b->g->n_tensors;
}

int64_t
zi_gb_dim(const zi_gb *b, zi_tensor_id t, int axis)
{
    if (zi_gb_lacks(b, t)) return 0;
    const zi_tensor *x = &b->g->tensors[t];
    int              at = axis < 0 ? axis + (int)x->rank : axis;
    return at >= 0 && at < (int)x->rank ? x->dims[at] : 0;
}

/* ---- names ------------------------------------------------------------------------- */

void
zi_gb_enter(zi_gb *b, const char *fmt, ...)
{
    if (zi_gb_failed(b)) return;
    size_t n = strlen(b->scope);
    if (b->depth == ZI_GB_MAX_DEPTH || n + 64 > sizeof b->scope) {
        zi_gb_fail(b, ZICO_E_LIMIT, "scopes too deep below '%s'", b->scope);
        return;
    }
    b->mark[b->depth++] = n;
    if (n) b->scope[n++] = '.';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->scope + n, sizeof b->scope - n, fmt, ap);
    va_end(ap);
}

void
zi_gb_leave(zi_gb *b)
{
    if (zi_gb_failed(b)) return;
    if (b->depth)
        b->scope[b->mark[--b->depth]] = 0;
    else
        zi_gb_fail(b, ZICO_E_STATE, "a scope is left that was not entered");
}

const char *
zi_gb_name(zi_gb *b, const char *name, const char *leaf)
{
    if (!name) name = "";
    const char *dot1 = *b->scope && *name ? "." : "";
    const char *dot2 = leaf && (*b->scope || *name) ? "." : "";
    snprintf(b->name, sizeof b->name, "%.100s%s%.100s%s%.40s", b->scope, dot1, name, dot2,
             leaf ? leaf : "");
    return b->name;
}

/* ---- tensors ------------------------------------------------------------------------ */

static zi_tensor_id
given(zi_gb *b, const zi_tensor_spec *spec)
{
    zi_tensor_id id = ZI_ID_NONE;
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    if (spec->name && zi_graph_find_tensor(b->g, spec->name) != ZI_ID_NONE) {
        zi_gb_fail(b, ZICO_E_EXISTS, "tensor '%s' exists already", spec->name);
        return ZI_ID_NONE;
    }
    b->st = zi_graph_add_tensor(b->g, spec, &b->diag, &id);
    return b->st < 0 ? ZI_ID_NONE : id;
}

zi_tensor_id
zi_gb_input(zi_gb *b, const char *name, zi_dtype t, uint32_t rank, const int64_t *dims)
{
    return given(b, &(zi_tensor_spec){.name = name,
                                      .dtype = t,
                                      .role = ZI_ROLE_INPUT,
                                      .rank = rank,
                                      .dims = dims});
}

zi_tensor_id
zi_gb_label(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims)
{
    return given(b, &(zi_tensor_spec){.name = name,
                                      .dtype = ZI_DTYPE_I32,
                                      .role = ZI_ROLE_LABEL,
                                      .rank = rank,
                                      .dims = dims});
}

static zi_tensor_id
kept(zi_gb *b, zi_role role, const char *name, uint32_t rank, const int64_t *dims,
     zi_init init)
{
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    return given(b, &(zi_tensor_spec){.name = zi_gb_name(b, name, NULL),
                                      .role = role,
                                      .rank = rank,
                                      .dims = dims,
                                      .init = init});
}

zi_tensor_id
zi_gb_param(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims, zi_init init)
{
    return kept(b, ZI_ROLE_PARAM, name, rank, dims, init);
}

zi_tensor_id
zi_gb_state(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims, zi_init init)
{
    return kept(b, ZI_ROLE_STATE, name, rank, dims, init);
}

void
zi_gb_output(zi_gb *b, zi_tensor_id t)
{
    if (zi_gb_failed(b)) return;
    if (zi_gb_lacks(b, t))
        zi_gb_fail(b, ZICO_E_ARG, "an output that is no tensor");
    else
        b->st = zi_graph_add_output(b->g, t);
}

zi_init
zi_init_const(double a)
{
    return (zi_init){.kind = ZI_INIT_CONST, .a = a};
}

zi_init
zi_init_uniform(double bound)
{
    return (zi_init){.kind = ZI_INIT_UNIFORM, .a = -bound, .b = bound};
}

zi_init
zi_init_normal(double std)
{
    return (zi_init){.kind = ZI_INIT_NORMAL, .a = 0, .b = std};
}

/* ---- operators ---------------------------------------------------------------------- */

void
zi_gb_node(zi_gb *b, const zi_node_spec *spec, zi_tensor_id *ret_out)
{
    for (uint32_t i = 0; i < spec->n_out; i++) ret_out[i] = ZI_ID_NONE;
    if (zi_gb_failed(b)) return;
    b->st = zi_graph_add_node(b->g, spec, &b->diag, ret_out);
}

zi_tensor_id
zi_gb_op(zi_gb *b, zi_op op, const zi_attr *attr, uint32_t n_in, const zi_tensor_id *in)
{
    zi_tensor_id out[4];
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    const zi_op_info *info = zi_op_get(op);
    zi_assert(info->out_min >= 1 && info->out_min <= 4);
    zi_node_spec s = {.name = zi_gb_name(b, "", info->text),
                      .op = op,
                      .forward = ZI_ID_NONE,
                      .n_in = n_in,
                      .in = in,
                      .n_out = info->out_min,
                      .attr = attr};
    zi_gb_node(b, &s, out);
    return out[0];
}

static zi_tensor_id
unary(zi_gb *b, zi_op op, zi_tensor_id x, const zi_attr *attr)
{
    return zi_gb_op(b, op, attr, 1, &x);
}

static zi_tensor_id
binary(zi_gb *b, zi_op op, zi_tensor_id x, zi_tensor_id y)
{
    return zi_gb_op(b, op, NULL, 2, (zi_tensor_id[]){x, y});
}

zi_tensor_id
zi_gb_relu(zi_gb *b, zi_tensor_id x)
{
    return unary(b, ZI_OP_RELU, x, NULL);
}

zi_tensor_id
zi_gb_clip(zi_gb *b, zi_tensor_id x, double lo, double hi)
{
    return unary(b, ZI_OP_CLIP, x, &(zi_attr){.clip = {.lo = lo, .hi = hi}});
}

zi_tensor_id
zi_gb_relu6(zi_gb *b, zi_tensor_id x)
{
    return zi_gb_clip(b, x, 0, 6);
}

zi_tensor_id
zi_gb_gelu(zi_gb *b, zi_tensor_id x, bool tanh_form)
{
    return unary(b, ZI_OP_GELU, x, &(zi_attr){.gelu = {.approx = tanh_form}});
}

zi_tensor_id
zi_gb_silu(zi_gb *b, zi_tensor_id x)
{
    return unary(b, ZI_OP_SILU, x, NULL);
}

zi_tensor_id
zi_gb_sigmoid(zi_gb *b, zi_tensor_id x)
{
    return unary(b, ZI_OP_SIGMOID, x, NULL);
}

zi_tensor_id
zi_gb_tanh(zi_gb *b, zi_tensor_id x)
{
    return unary(b, ZI_OP_TANH, x, NULL);
}

/* A negative axis counts from the end. */
static int64_t
axis_of(const zi_gb *b, zi_tensor_id x, int axis)
{
    if (axis >= 0 || zi_gb_lacks(b, x)) return axis;
    return axis + (int)b->g->tensors[x].rank;
}

zi_tensor_id
zi_gb_bias(zi_gb *b, zi_tensor_id x, zi_tensor_id bias, int axis)
{
    zi_attr a = {.axis = {.axis = axis_of(b, x, axis)}};
    return zi_gb_op(b, ZI_OP_BIAS, &a, 2, (zi_tensor_id[]){x, bias});
}

zi_tensor_id
zi_gb_add(zi_gb *b, zi_tensor_id x, zi_tensor_id y)
{
    return binary(b, ZI_OP_ADD, x, y);
}

zi_tensor_id
zi_gb_sub(zi_gb *b, zi_tensor_id x, zi_tensor_id y)
{
    return binary(b, ZI_OP_SUB, x, y);
}

zi_tensor_id
zi_gb_mul(zi_gb *b, zi_tensor_id x, zi_tensor_id y)
{
    return binary(b, ZI_OP_MUL, x, y);
}

zi_tensor_id
zi_gb_div(zi_gb *b, zi_tensor_id x, zi_tensor_id y)
{
    return binary(b, ZI_OP_DIV, x, y);
}

zi_tensor_id
zi_gb_scale(zi_gb *b, zi_tensor_id x, double alpha, double beta)
{
    return unary(b, ZI_OP_SCALE, x, &(zi_attr){.scale = {.alpha = alpha, .beta = beta}});
}

zi_tensor_id
zi_gb_matmul(zi_gb *b, zi_tensor_id x, zi_tensor_id y, bool trans_x, bool trans_y,
             double alpha)
{
    zi_attr a = {.matmul = {.trans_a = trans_x, .trans_b = trans_y, .alpha = alpha}};
    return zi_gb_op(b, ZI_OP_MATMUL, &a, 2, (zi_tensor_id[]){x, y});
}

static zi_attr
pool_attr(int64_t kernel, int64_t stride, int64_t pad)
{
    return (zi_attr){.pool = {.kernel = {kernel, kernel},
                              .stride = {stride, stride},
                              .pad = {pad, pad, pad, pad},
                              .count_pad = 1}};
}

zi_tensor_id
zi_gb_max_pool(zi_gb *b, zi_tensor_id x, int64_t kernel, int64_t stride, int64_t pad)
{
    zi_attr a = pool_attr(kernel, stride, pad);
    return unary(b, ZI_OP_MAX_POOL, x, &a);
}

zi_tensor_id
zi_gb_avg_pool(zi_gb *b, zi_tensor_id x, int64_t kernel, int64_t stride, int64_t pad)
{
    zi_attr a = pool_attr(kernel, stride, pad);
    return unary(b, ZI_OP_AVG_POOL, x, &a);
}

zi_tensor_id
zi_gb_global_avg_pool(zi_gb *b, zi_tensor_id x)
{
    return unary(b, ZI_OP_GLOBAL_AVG_POOL, x, NULL);
}

zi_tensor_id
zi_gb_resize(zi_gb *b, zi_tensor_id x, int64_t h, int64_t w, bool bilinear, bool align)
{
    zi_attr a = {.resize = {.mode = bilinear, .align = align, .size = {h, w}}};
    return unary(b, ZI_OP_RESIZE, x, &a);
}

zi_tensor_id
zi_gb_softmax(zi_gb *b, zi_tensor_id x, double alpha, bool causal)
{
    zi_attr a = {.softmax = {.alpha = alpha, .causal = causal}};
    return unary(b, ZI_OP_SOFTMAX, x, &a);
}

zi_tensor_id
zi_gb_reduce_mean(zi_gb *b, zi_tensor_id x, uint32_t axes, bool keep)
{
    zi_attr a = {.reduce = {.axes = axes, .keep = keep}};
    return unary(b, ZI_OP_REDUCE_MEAN, x, &a);
}

zi_tensor_id
zi_gb_reduce_sum(zi_gb *b, zi_tensor_id x, uint32_t axes, bool keep)
{
    zi_attr a = {.reduce = {.axes = axes, .keep = keep}};
    return unary(b, ZI_OP_REDUCE_SUM, x, &a);
}

/* ---- shape -------------------------------------------------------------------------- */

zi_tensor_id
zi_gb_reshape(zi_gb *b, zi_tensor_id x, uint32_t rank, const int64_t *dims)
{
    zi_attr a = {.shape = {.rank = rank}};
    if (rank > ZI_MAX_RANK) {
        zi_gb_fail(b, ZICO_E_SHAPE, "reshape to %u dims", rank);
        return ZI_ID_NONE;
    }
    for (uint32_t i = 0; i < rank; i++) a.shape.dims[i] = dims[i];
    return unary(b, ZI_OP_RESHAPE, x, &a);
}

zi_tensor_id
zi_gb_flatten(zi_gb *b, zi_tensor_id x, int axis)
{
    if (zi_gb_lacks(b, x)) return zi_gb_op(b, ZI_OP_RESHAPE, NULL, 1, &x);
    const zi_tensor *t = &b->g->tensors[x];
    int64_t          dims[ZI_MAX_RANK] = {0}, at = axis_of(b, x, axis), rest = 1;
    if (at < 0 || at >= ZI_MAX_RANK || at > (int64_t)t->rank) {
        zi_gb_fail(b, ZICO_E_SHAPE, "flatten '%s' from axis %d", t->name, axis);
        return ZI_ID_NONE;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        if (i < (uint32_t)at)
            dims[i] = t->dims[i];
        else
            rest *= t->dims[i];
    }
    dims[at] = rest;
    return zi_gb_reshape(b, x, (uint32_t)at + 1, dims);
}

zi_tensor_id
zi_gb_transpose(zi_gb *b, zi_tensor_id x, const int64_t *perm)
{
    zi_attr a = {.perm = {{0}}};
    if (zi_gb_lacks(b, x)) return zi_gb_op(b, ZI_OP_TRANSPOSE, NULL, 1, &x);
    for (uint32_t i = 0; i < b->g->tensors[x].rank; i++) a.perm.perm[i] = perm[i];
    return unary(b, ZI_OP_TRANSPOSE, x, &a);
}

zi_tensor_id
zi_gb_concat(zi_gb *b, uint32_t n, const zi_tensor_id *x, int axis)
{
    zi_attr a = {.axis = {.axis = n ? axis_of(b, x[0], axis) : 0}};
    return zi_gb_op(b, ZI_OP_CONCAT, &a, n, x);
}

void
zi_gb_split(zi_gb *b, zi_tensor_id x, int axis, uint32_t n, zi_tensor_id *ret_parts)
{
    for (uint32_t i = 0; i < n; i++) ret_parts[i] = ZI_ID_NONE;
    if (zi_gb_failed(b)) return;
    zi_attr      a = {.split = {.axis = axis_of(b, x, axis)}};
    zi_node_spec s = {.name = zi_gb_name(b, "", "split"),
                      .op = ZI_OP_SPLIT,
                      .forward = ZI_ID_NONE,
                      .n_in = 1,
                      .in = &x,
                      .n_out = n,
                      .attr = &a};
    zi_gb_node(b, &s, ret_parts);
}

zi_tensor_id
zi_gb_slice(zi_gb *b, zi_tensor_id x, int axis, int64_t begin, int64_t end)
{
    zi_attr a = {.slice = {.begin = {0}}};
    if (zi_gb_lacks(b, x)) return zi_gb_op(b, ZI_OP_SLICE, NULL, 1, &x);
    const zi_tensor *t = &b->g->tensors[x];
    int64_t          at = axis_of(b, x, axis);
    if (at < 0 || at >= (int64_t)t->rank) {
        zi_gb_fail(b, ZICO_E_SHAPE, "slice '%s' along axis %d", t->name, axis);
        return ZI_ID_NONE;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        a.slice.begin[i] = i == (uint32_t)at ? begin : 0;
        a.slice.size[i] = i == (uint32_t)at ? end - begin : t->dims[i];
    }
    return unary(b, ZI_OP_SLICE, x, &a);
}

zi_tensor_id
zi_gb_pad(zi_gb *b, zi_tensor_id x, int axis, int64_t before, int64_t after)
{
    zi_attr a = {.pad = {.value = 0}};
    int64_t at = axis_of(b, x, axis);
    if (zi_gb_lacks(b, x)) return zi_gb_op(b, ZI_OP_PAD, NULL, 1, &x);
    if (at < 0 || at >= (int64_t)b->g->tensors[x].rank) {
        zi_gb_fail(b, ZICO_E_SHAPE, "pad '%s' along axis %d", b->g->tensors[x].name,
                   axis);
        return ZI_ID_NONE;
    }
    a.pad.before[at] = before;
    a.pad.after[at] = after;
    return unary(b, ZI_OP_PAD, x, &a);
}

zi_tensor_id
zi_gb_fill(zi_gb *b, uint32_t rank, const int64_t *dims, double value)
{
    zi_shape        shape = {.dtype = ZI_DTYPE_F32, .rank = rank};
    const zi_shape *hint = &shape;
    zi_tensor_id    out = ZI_ID_NONE;
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    zi_assert(rank <= ZI_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) shape.dims[i] = dims[i];
    zi_attr      a = {.scale = {.alpha = value}};
    zi_node_spec s = {.name = zi_gb_name(b, "", "fill"),
                      .op = ZI_OP_FILL,
                      .forward = ZI_ID_NONE,
                      .n_out = 1,
                      .attr = &a,
                      .hint = &hint};
    zi_gb_node(b, &s, &out);
    return out;
}

zi_tensor_id
zi_gb_dropout(zi_gb *b, zi_tensor_id x, double p)
{
    if (zi_gb_failed(b) || !b->training || p == 0) return x;
    zi_attr a = {.dropout = {.p = p, .seed = (int64_t)b->seed, .stream = b->n_random++}};
    return unary(b, ZI_OP_DROPOUT, x, &a);
}

/* ---- losses ------------------------------------------------------------------------- */

static zi_tensor_id
loss(zi_gb *b, zi_op op, zi_tensor_id x, zi_tensor_id y, const zi_attr *attr)
{
    zi_tensor_id l = zi_gb_op(b, op, attr, 2, (zi_tensor_id[]){x, y});
    if (zi_gb_failed(b)) return ZI_ID_NONE;
    b->g->loss = l;
    zi_gb_output(b, x);
    return l;
}

/* Classes: the last dim of (N,C) and (...,T,V); dim 1 of images (N,C,H,W). */
static zi_attr
loss_attr(const zi_gb *b, zi_tensor_id x, zi_tensor_id labels)
{
    zi_attr a = {.loss = {.axis = 1, .ignore = -100}};
    if (zi_gb_lacks(b, x) || zi_gb_lacks(b, labels)) return a;
    const zi_tensor *t = &b->g->tensors[x], *l = &b->g->tensors[labels];
    bool             last = t->rank > 2 && l->rank + 1 == t->rank;
    for (uint32_t i = 0; last && i < l->rank; i++) last = l->dims[i] == t->dims[i];
    if (last) a.loss.axis = (int64_t)t->rank - 1;
    return a;
}

zi_tensor_id
zi_gb_cross_entropy(zi_gb *b, zi_tensor_id logits, zi_tensor_id labels)
{
    zi_attr a = loss_attr(b, logits, labels);
    return loss(b, ZI_OP_CROSS_ENTROPY, logits, labels, &a);
}

zi_tensor_id
zi_gb_nll(zi_gb *b, zi_tensor_id probabilities, zi_tensor_id labels)
{
    zi_attr a = loss_attr(b, probabilities, labels);
    return loss(b, ZI_OP_NLL, probabilities, labels, &a);
}

zi_tensor_id
zi_gb_mse(zi_gb *b, zi_tensor_id x, zi_tensor_id target)
{
    return loss(b, ZI_OP_MSE, x, target, NULL);
}

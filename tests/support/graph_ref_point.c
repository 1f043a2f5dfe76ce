/* graph_ref_point.c -- elementwise, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"
#include "graph/random.h"

#include <math.h>

double
zi_ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
unary_value(const zi_ref_node *r, double x)
{
    const zi_attr *a = &r->n->attr;
    switch (r->n->op) {
    case ZI_OP_RELU:
        return x > 0 ? x : 0;
    case ZI_OP_CLIP:
        return fmin(fmax(x, a->clip.lo), a->clip.hi);
    case ZI_OP_SIGMOID:
        return zi_ref_sigmoid(x);
    case ZI_OP_TANH:
        return tanh(x);
    case ZI_OP_GELU:
        return zi_ref_gelu(x, a->gelu.approx);
    case ZI_OP_SILU:
        return x * zi_ref_sigmoid(x);
    case ZI_OP_SCALE:
        return a->scale.alpha * x + a->scale.beta;
    default:
        fail_msg("%s is not unary", zi_op_get(r->n->op)->text);
        return 0;
    }
}

void
zi_ref_unary(const zi_ref_node *r)
{
    double *y = out(r, 0), *mask = has_out(r, 1) ? out(r, 1) : NULL;
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        y[i] = unary_value(r, in(r, 0)[i]);
        if (mask) mask[i] = in(r, 0)[i] > 0;
    }
}

/* The derivative, from what the backward operator reads (u: y or x). */
static double
unary_slope(const zi_ref_node *r, double u)
{
    const zi_attr *a = &r->n->attr;
    switch (r->n->op) {
    case ZI_OP_RELU_BWD:
        return u > 0;
    case ZI_OP_CLIP_BWD:
        return u > a->clip.lo && u < a->clip.hi;
    case ZI_OP_SIGMOID_BWD:
        return u * (1 - u);
    case ZI_OP_TANH_BWD:
        return 1 - u * u;
    case ZI_OP_GELU_BWD:
        return zi_ref_gelu_slope(u, a->gelu.approx);
    case ZI_OP_SILU_BWD:
        return zi_ref_sigmoid(u) * (1 + u * (1 - zi_ref_sigmoid(u)));
    default:
        fail_msg("%s has no slope", zi_op_get(r->n->op)->text);
        return 0;
    }
}

void
zi_ref_unary_bwd(const zi_ref_node *r)
{
    double *dx = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        dx[i] = in(r, 0)[i] * unary_slope(r, in(r, 1)[i]);
}

/* Element of a broadcast operand that meets element i of the result. */
static int64_t
broadcast_at(const zi_tensor *y, const zi_tensor *x, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (uint32_t k = 0; k < x->rank; k++) { /* from the last dim on */
        int64_t d = y->dims[y->rank - 1 - k], dx = x->dims[x->rank - 1 - k];
        at += (dx == 1 ? 0 : i % d) * stride;
        stride *= dx;
        i /= d;
    }
    return at;
}

void
zi_ref_binary(const zi_ref_node *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        double a = in(r, 0)[broadcast_at(out_t(r, 0), in_t(r, 0), i)];
        double b = in(r, 1)[broadcast_at(out_t(r, 0), in_t(r, 1), i)];
        y[i] = r->n->op == ZI_OP_ADD   ? a + b
               : r->n->op == ZI_OP_SUB ? a - b
               : r->n->op == ZI_OP_MUL ? a * b
                                       : a / b;
    }
}

void
zi_ref_broadcast(const zi_ref_node *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        y[i] = in(r, 0)[broadcast_at(out_t(r, 0), in_t(r, 0), i)];
}

void
zi_ref_reduce(const zi_ref_node *r)
{
    zi_tensor kept = *in_t(r, 0); /* the result as if `keep` were set */
    double   *y = out(r, 0);
    for (uint32_t i = 0; i < kept.rank; i++)
        if (r->n->attr.reduce.axes >> i & 1) kept.dims[i] = 1;
    int64_t count = n_of(in_t(r, 0)) / n_of(&kept);
    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++)
        y[broadcast_at(in_t(r, 0), &kept, i)] +=
            in(r, 0)[i] / (double)(r->n->op == ZI_OP_REDUCE_MEAN ? count : 1);
}

void
zi_ref_constant(const zi_ref_node *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) y[i] = r->n->attr.scale.alpha;
}

void
zi_ref_dropout(const zi_ref_node *r)
{
    const zi_attr *a = &r->n->attr;
    double        *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        uint32_t lane[4];
        zi_graph_philox((uint64_t)i / 4, (uint32_t)a->dropout.stream, r->step,
                        (uint64_t)a->dropout.seed, lane);
        bool keep = lane[i % 4] >= zi_graph_drop_threshold(a->dropout.p);
        y[i] = keep ? in(r, 0)[i] / (1 - a->dropout.p) : 0;
    }
}

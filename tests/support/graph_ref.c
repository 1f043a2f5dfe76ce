/* graph_ref.c -- see graph_ref.h.  Written to be compared with the formulas of ops.def,
 * not to be fast: no function here is shared with the code under test but random.h. */
#include "support/graph_ref.h"
#include "graph/random.h"
#include "test.h"

#include <math.h>

typedef struct run {
    const zi_graph *g;
    const zi_node  *n;
    double        **v;
    uint32_t        step;
} run;

/* ---- access -------------------------------------------------------------------------- */

double **
zi_ref_new(const zi_graph *g)
{
    return calloc(g->n_tensors + 1, sizeof(double *));
}

void
zi_ref_free(const zi_graph *g, double **value)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) free(value[i]);
    free(value);
}

double *
zi_ref_make(const zi_graph *g, double **value, zi_tensor_id t)
{
    if (!value[t])
        value[t] = calloc((size_t)zi_tensor_elems(&g->tensors[t]), sizeof(double));
    assert_non_null(value[t]);
    return value[t];
}

static const zi_tensor *
in_t(const run *r, uint32_t i)
{
    return &r->g->tensors[r->n->in[i]];
}

static const zi_tensor *
out_t(const run *r, uint32_t i)
{
    return &r->g->tensors[r->n->out[i]];
}

static bool
has_in(const run *r, uint32_t i)
{
    return i < r->n->n_in && r->n->in[i] != ZI_ID_NONE;
}

static bool
has_out(const run *r, uint32_t i)
{
    return i < r->n->n_out && r->n->out[i] != ZI_ID_NONE;
}

static const double *
in(const run *r, uint32_t i)
{
    double *p = r->v[r->n->in[i]];
    if (!p)
        fail_msg("node %s reads %s, which has no value", r->n->name, in_t(r, i)->name);
    return p;
}

/* Outputs begin as zeros. */
static double *
out(const run *r, uint32_t i)
{
    double *p = zi_ref_make(r->g, r->v, r->n->out[i]);
    memset(p, 0, (size_t)zi_tensor_elems(out_t(r, i)) * sizeof *p);
    return p;
}

static int64_t
n_of(const zi_tensor *t)
{
    return zi_tensor_elems(t);
}

static int64_t
at4(const zi_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * t->dims[1] + b) * t->dims[2] + c) * t->dims[3] + d;
}

/* ---- convolution --------------------------------------------------------------------- */

/* Calls f for each product term of y = conv(x, w): indexes of y, x, w. */
typedef void
term(double *acc, const double *p, const double *q, int64_t y, int64_t x, int64_t w);

static void
each_term(const zi_node *n, const zi_tensor *x, const zi_tensor *w, const zi_tensor *y,
          term *f, double *acc, const double *p, const double *q)
{
    int64_t group_out = w->dims[0] / n->attr.conv.groups;
    for (int64_t b = 0; b < y->dims[0]; b++)
        for (int64_t o = 0; o < y->dims[1]; o++)
            for (int64_t i = 0; i < y->dims[2]; i++)
                for (int64_t j = 0; j < y->dims[3]; j++)
                    for (int64_t c = 0; c < w->dims[1]; c++)
                        for (int64_t k = 0; k < w->dims[2]; k++)
                            for (int64_t l = 0; l < w->dims[3]; l++) {
                                int64_t row = i * n->attr.conv.stride[0] -
                                              n->attr.conv.pad[0] +
                                              k * n->attr.conv.dilation[0];
                                int64_t col = j * n->attr.conv.stride[1] -
                                              n->attr.conv.pad[1] +
                                              l * n->attr.conv.dilation[1];
                                if (row < 0 || row >= x->dims[2] || col < 0 ||
                                    col >= x->dims[3])
                                    continue;
                                int64_t ch = o / group_out * w->dims[1] + c;
                                f(acc, p, q, at4(y, b, o, i, j), at4(x, b, ch, row, col),
                                  at4(w, o, c, k, l));
                            }
}

static void
to_y(double *acc, const double *x, const double *w, int64_t yi, int64_t xi, int64_t wi)
{
    acc[yi] += x[xi] * w[wi];
}

static void
to_x(double *acc, const double *y, const double *w, int64_t yi, int64_t xi, int64_t wi)
{
    acc[xi] += y[yi] * w[wi];
}

static void
to_w(double *acc, const double *x, const double *y, int64_t yi, int64_t xi, int64_t wi)
{
    acc[wi] += x[xi] * y[yi];
}

/* Sum of dy over all but channels. */
static void
bias_grad(const zi_tensor *dyt, const double *dy, double *db)
{
    int64_t inner = dyt->dims[2] * dyt->dims[3];
    for (int64_t i = 0; i < n_of(dyt); i++) db[i / inner % dyt->dims[1]] += dy[i];
}

static void
post(const run *r, int64_t act)
{
    double *y = r->v[r->n->out[0]];
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        if (act == ZI_POST_RELU && y[i] < 0) y[i] = 0;
}

static void
add_bias4(const run *r)
{
    double *y = r->v[r->n->out[0]];
    int64_t inner = out_t(r, 0)->dims[2] * out_t(r, 0)->dims[3];
    if (!has_in(r, 2)) return;
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        y[i] += in(r, 2)[i / inner % out_t(r, 0)->dims[1]];
}

/* Transposed convolution is convolution with the parts of x and y exchanged. */
static void
conv(const run *r)
{
    const zi_node *n = r->n;
    switch (n->op) {
    case ZI_OP_CONV2D:
        each_term(n, in_t(r, 0), in_t(r, 1), out_t(r, 0), to_y, out(r, 0), in(r, 0),
                  in(r, 1));
        break;
    case ZI_OP_CONVT2D:
        each_term(n, out_t(r, 0), in_t(r, 1), in_t(r, 0), to_x, out(r, 0), in(r, 0),
                  in(r, 1));
        break;
    case ZI_OP_CONV2D_DX:
        each_term(n, out_t(r, 0), in_t(r, 1), in_t(r, 0), to_x, out(r, 0), in(r, 0),
                  in(r, 1));
        return;
    case ZI_OP_CONVT2D_DX:
        each_term(n, in_t(r, 0), in_t(r, 1), out_t(r, 0), to_y, out(r, 0), in(r, 0),
                  in(r, 1));
        return;
    case ZI_OP_CONV2D_DW:
        each_term(n, in_t(r, 0), out_t(r, 0), in_t(r, 1), to_w, out(r, 0), in(r, 0),
                  in(r, 1));
        if (has_out(r, 1)) bias_grad(in_t(r, 1), in(r, 1), out(r, 1));
        return;
    default: /* CONVT2D_DW: x of the convolution is dy, y is x */
        each_term(n, in_t(r, 1), out_t(r, 0), in_t(r, 0), to_w, out(r, 0), in(r, 1),
                  in(r, 0));
        if (has_out(r, 1)) bias_grad(in_t(r, 1), in(r, 1), out(r, 1));
        return;
    }
    add_bias4(r);
    post(r, n->attr.conv.act);
}

/* ---- linear algebra ------------------------------------------------------------------ */

static double
gelu(double x, bool tanh_form)
{
    if (tanh_form)
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double
gelu_slope(double x, bool tanh_form)
{
    if (!tanh_form)
        return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    double k = sqrt(2 / M_PI), t = tanh(k * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

static void
linear(const run *r)
{
    int64_t       in_w = in_t(r, 1)->dims[1], out_w = in_t(r, 1)->dims[0];
    int64_t       rows = n_of(in_t(r, 0)) / in_w, act = r->n->attr.matmul.act;
    const double *x = in(r, 0), *w = in(r, 1);
    double       *y = out(r, 0), *z = has_out(r, 1) ? out(r, 1) : NULL;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t o = 0; o < out_w; o++) {
            double s = has_in(r, 2) ? in(r, 2)[o] : 0;
            for (int64_t k = 0; k < in_w; k++) s += x[i * in_w + k] * w[o * in_w + k];
            if (z) z[i * out_w + o] = s;
            if (act >= ZI_POST_GELU) s = gelu(s, act == ZI_POST_GELU_TANH);
            y[i * out_w + o] = s;
        }
    post(r, act);
}

static void
linear_dx(const run *r)
{
    int64_t in_w = in_t(r, 1)->dims[1], out_w = in_t(r, 1)->dims[0];
    double *dx = out(r, 0);
    for (int64_t i = 0; i < n_of(in_t(r, 0)) / out_w; i++)
        for (int64_t o = 0; o < out_w; o++)
            for (int64_t k = 0; k < in_w; k++)
                dx[i * in_w + k] += in(r, 0)[i * out_w + o] * in(r, 1)[o * in_w + k];
}

static void
linear_dw(const run *r)
{
    int64_t out_w = out_t(r, 0)->dims[0], in_w = out_t(r, 0)->dims[1];
    double *dw = out(r, 0), *db = has_out(r, 1) ? out(r, 1) : NULL;
    for (int64_t i = 0; i < n_of(in_t(r, 0)) / in_w; i++)
        for (int64_t o = 0; o < out_w; o++) {
            double dy = in(r, 1)[i * out_w + o];
            if (db) db[o] += dy;
            for (int64_t k = 0; k < in_w; k++)
                dw[o * in_w + k] += dy * in(r, 0)[i * in_w + k];
        }
}

static void
matmul(const run *r)
{
    const zi_tensor *a = in_t(r, 0), *b = in_t(r, 1), *c = out_t(r, 0);
    bool             ta = r->n->attr.matmul.trans_a, tb = r->n->attr.matmul.trans_b;
    int64_t          m = c->dims[c->rank - 2], n = c->dims[c->rank - 1];
    int64_t          k = a->dims[a->rank - (ta ? 2 : 1)];
    double          *y = out(r, 0);
    (void)b;
    for (int64_t s = 0; s < n_of(c) / (m * n); s++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t l = 0; l < k; l++)
                    y[(s * m + i) * n + j] +=
                        r->n->attr.matmul.alpha *
                        in(r, 0)[s * m * k + (ta ? l * m + i : i * k + l)] *
                        in(r, 1)[s * k * n + (tb ? j * k + l : l * n + j)];
}

static int64_t
inner_of(const zi_tensor *t, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = axis + 1; i < (int64_t)t->rank; i++) n *= t->dims[i];
    return n;
}

static void
bias(const run *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.axis.axis, inner = inner_of(t, axis);
    double          *y = out(r, 0);
    for (int64_t i = 0; i < n_of(t); i++)
        y[i] = in(r, 0)[i] + in(r, 1)[i / inner % t->dims[axis]];
}

/* ---- normalisation ------------------------------------------------------------------- */

/* Which statistic an element belongs to: its channel, or its row. */
static int64_t
stat_of(const zi_tensor *x, bool layer, int64_t i)
{
    if (layer) return i / x->dims[x->rank - 1];
    return i / inner_of(x, 1) % x->dims[1];
}

static int64_t
param_of(const zi_tensor *x, bool layer, int64_t i)
{
    return layer ? i % x->dims[x->rank - 1] : stat_of(x, false, i);
}

static void
norm(const run *r)
{
    const zi_tensor *xt = in_t(r, 0);
    bool             layer = r->n->op == ZI_OP_LAYER_NORM;
    double          *y = out(r, 0), *mean = out(r, 1), *var = out(r, 2);
    const double    *x = in(r, 0);
    int64_t          n_stat = n_of(out_t(r, 1)), count = n_of(xt) / n_stat;

    for (int64_t i = 0; i < n_of(xt); i++)
        mean[stat_of(xt, layer, i)] += x[i] / (double)count;
    for (int64_t i = 0; i < n_of(xt); i++) {
        int64_t s = stat_of(xt, layer, i);
        var[s] += (x[i] - mean[s]) * (x[i] - mean[s]) / (double)count;
    }
    double *mask = has_out(r, 3) ? out(r, 3) : NULL;
    for (int64_t i = 0; i < n_of(xt); i++) {
        int64_t s = stat_of(xt, layer, i), p = param_of(xt, layer, i);
        double  h = (x[i] - mean[s]) / sqrt(var[s] + r->n->attr.norm.eps);
        y[i] = h * in(r, 1)[p] + in(r, 2)[p];
        if (has_in(r, 3)) y[i] += in(r, 3)[i];
        if (r->n->attr.norm.act == ZI_POST_RELU && y[i] < 0) y[i] = 0;
        if (mask) mask[i] = y[i] > 0;
    }
}

/* dx = gamma*rstd*(dy - mean(dy) - xhat*mean(dy*xhat)); for rows gamma*dy goes first. */
static void
norm_bwd(const run *r)
{
    const zi_tensor *xt = in_t(r, 1);
    bool             layer = r->n->op == ZI_OP_LAYER_NORM_BWD;
    const double    *x = in(r, 1), *mean = in(r, 2), *var = in(r, 3), *gamma = in(r, 4);
    double          *dx = out(r, 0), *dgamma = out(r, 1), *dbeta = out(r, 2);
    int64_t          n = n_of(xt), n_stat = n_of(in_t(r, 2)), count = n / n_stat;
    double          *s1 = calloc((size_t)n_stat, 8), *s2 = calloc((size_t)n_stat, 8);
    double          *dh = calloc((size_t)n, 8);

    for (int64_t i = 0; i < n; i++) {
        int64_t s = stat_of(xt, layer, i), p = param_of(xt, layer, i);
        double  dy = in(r, 0)[i] * (has_in(r, 5) ? in(r, 5)[i] : 1);
        double  h = (x[i] - mean[s]) / sqrt(var[s] + r->n->attr.norm.eps);
        if (has_out(r, 3)) zi_ref_make(r->g, r->v, r->n->out[3])[i] = dy;
        dgamma[p] += dy * h;
        dbeta[p] += dy;
        dh[i] = dy * gamma[p];
        s1[s] += dh[i] / (double)count;
        s2[s] += dh[i] * h / (double)count;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t s = stat_of(xt, layer, i);
        double  rstd = 1 / sqrt(var[s] + r->n->attr.norm.eps);
        dx[i] = rstd * (dh[i] - s1[s] - (x[i] - mean[s]) * rstd * s2[s]);
    }
    free(s1);
    free(s2);
    free(dh);
}

static void
norm_fixed(const run *r)
{
    const zi_tensor *xt = in_t(r, 0);
    double          *y = out(r, 0);
    for (int64_t i = 0; i < n_of(xt); i++) {
        int64_t c = stat_of(xt, false, i);
        y[i] = (in(r, 0)[i] - in(r, 3)[c]) / sqrt(in(r, 4)[c] + r->n->attr.norm.eps) *
                   in(r, 1)[c] +
               in(r, 2)[c];
    }
    post(r, r->n->attr.norm.act);
}

static void
norm_fixed_bwd(const run *r)
{
    const zi_tensor *xt = in_t(r, 1);
    double          *dx = out(r, 0), *dgamma = out(r, 1), *dbeta = out(r, 2);
    for (int64_t i = 0; i < n_of(xt); i++) {
        int64_t c = stat_of(xt, false, i);
        double  dy = in(r, 0)[i] * (has_in(r, 5) ? in(r, 5)[i] > 0 : 1);
        double  rstd = 1 / sqrt(in(r, 4)[c] + r->n->attr.norm.eps);
        dx[i] = dy * in(r, 2)[c] * rstd;
        dgamma[c] += dy * (in(r, 1)[i] - in(r, 3)[c]) * rstd;
        dbeta[c] += dy;
    }
}

static void
bn_stats(const run *r)
{
    double  m = r->n->attr.norm.momentum, count = (double)r->n->attr.norm.count;
    double  fix = count > 1 ? count / (count - 1) : 1;
    double *mean = r->v[r->n->up[0]], *var = r->v[r->n->up[1]];
    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++) {
        mean[i] = (1 - m) * mean[i] + m * in(r, 0)[i];
        var[i] = (1 - m) * var[i] + m * in(r, 1)[i] * fix;
    }
}

/* ---- elementwise --------------------------------------------------------------------- */

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
unary_value(const run *r, double x)
{
    const zi_attr *a = &r->n->attr;
    switch (r->n->op) {
    case ZI_OP_RELU:
        return x > 0 ? x : 0;
    case ZI_OP_CLIP:
        return fmin(fmax(x, a->clip.lo), a->clip.hi);
    case ZI_OP_SIGMOID:
        return sigmoid(x);
    case ZI_OP_TANH:
        return tanh(x);
    case ZI_OP_GELU:
        return gelu(x, a->gelu.approx);
    case ZI_OP_SILU:
        return x * sigmoid(x);
    case ZI_OP_SCALE:
        return a->scale.alpha * x + a->scale.beta;
    default:
        fail_msg("%s is not unary", zi_op_get(r->n->op)->text);
        return 0;
    }
}

static void
unary(const run *r)
{
    double *y = out(r, 0), *mask = has_out(r, 1) ? out(r, 1) : NULL;
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        y[i] = unary_value(r, in(r, 0)[i]);
        if (mask) mask[i] = in(r, 0)[i] > 0;
    }
}

/* The derivative, from what the backward operator reads (u: y or x). */
static double
unary_slope(const run *r, double u)
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
        return gelu_slope(u, a->gelu.approx);
    case ZI_OP_SILU_BWD:
        return sigmoid(u) * (1 + u * (1 - sigmoid(u)));
    default:
        fail_msg("%s has no slope", zi_op_get(r->n->op)->text);
        return 0;
    }
}

static void
unary_bwd(const run *r)
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

static void
binary(const run *r)
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

static void
broadcast(const run *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        y[i] = in(r, 0)[broadcast_at(out_t(r, 0), in_t(r, 0), i)];
}

static void
reduce(const run *r)
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

static void
fill(const run *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) y[i] = r->n->attr.scale.alpha;
}

static void
dropout(const run *r)
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

/* ---- pooling and resampling ---------------------------------------------------------- */

/* The window of output cell (i,j), clipped to the image: rows [r0,r1), columns [c0,c1). */
static void
window(const run *r, const zi_tensor *x, int64_t i, int64_t j, int64_t w[4])
{
    const zi_attr *a = &r->n->attr;
    w[0] = i * a->pool.stride[0] - a->pool.pad[0];
    w[2] = j * a->pool.stride[1] - a->pool.pad[1];
    w[1] = w[0] + a->pool.kernel[0];
    w[3] = w[2] + a->pool.kernel[1];
    if (w[1] > x->dims[2]) w[1] = x->dims[2];
    if (w[3] > x->dims[3]) w[3] = x->dims[3];
}

/* How many cells an average divides by: those inside the padded image, or the image. */
static double
window_area(const run *r, const zi_tensor *x, const int64_t w[4])
{
    const zi_attr *a = &r->n->attr;
    int64_t        h = 0, l = 0;
    for (int64_t k = 0; k < a->pool.kernel[0]; k++)
        h += a->pool.count_pad ? w[0] + k < x->dims[2] + a->pool.pad[2]
                               : w[0] + k >= 0 && w[0] + k < x->dims[2];
    for (int64_t k = 0; k < a->pool.kernel[1]; k++)
        l += a->pool.count_pad ? w[2] + k < x->dims[3] + a->pool.pad[3]
                               : w[2] + k >= 0 && w[2] + k < x->dims[3];
    return (double)(h * l);
}

static void
pool_cell(const run *r, const zi_tensor *x, const zi_tensor *y, int64_t plane, int64_t i,
          int64_t j)
{
    const double *p = in(r, 0);
    double       *yv = r->v[r->n->out[0]];
    bool          max = r->n->op == ZI_OP_MAX_POOL;
    int64_t       w[4], best = -1, at = (plane * y->dims[2] + i) * y->dims[3] + j;
    window(r, x, i, j, w);
    double value = max ? -INFINITY : 0;
    for (int64_t k = w[0]; k < w[1]; k++)
        for (int64_t l = w[2]; l < w[3]; l++) {
            if (k < 0 || l < 0) continue;
            double u = p[(plane * x->dims[2] + k) * x->dims[3] + l];
            if (!max)
                value += u / window_area(r, x, w);
            else if (u > value) {
                value = u;
                best = (k - (i * r->n->attr.pool.stride[0] - r->n->attr.pool.pad[0])) *
                           r->n->attr.pool.kernel[1] +
                       (l - (j * r->n->attr.pool.stride[1] - r->n->attr.pool.pad[1]));
            }
        }
    yv[at] = value;
    if (max && has_out(r, 1)) r->v[r->n->out[1]][at] = (double)best;
}

static void
pool(const run *r)
{
    const zi_tensor *x = in_t(r, 0), *y = out_t(r, 0);
    out(r, 0);
    if (has_out(r, 1)) out(r, 1);
    for (int64_t p = 0; p < y->dims[0] * y->dims[1]; p++)
        for (int64_t i = 0; i < y->dims[2]; i++)
            for (int64_t j = 0; j < y->dims[3]; j++) pool_cell(r, x, y, p, i, j);
}

static void
max_pool_bwd(const run *r)
{
    const zi_tensor *x = out_t(r, 0), *y = in_t(r, 0);
    const zi_attr   *a = &r->n->attr;
    double          *dx = out(r, 0);
    for (int64_t n = 0; n < n_of(y); n++) {
        int64_t j = n % y->dims[3], i = n / y->dims[3] % y->dims[2];
        int64_t plane = n / (y->dims[3] * y->dims[2]), best = (int64_t)in(r, 1)[n];
        int64_t k = i * a->pool.stride[0] - a->pool.pad[0] + best / a->pool.kernel[1];
        int64_t l = j * a->pool.stride[1] - a->pool.pad[1] + best % a->pool.kernel[1];
        dx[(plane * x->dims[2] + k) * x->dims[3] + l] += in(r, 0)[n];
    }
}

static void
avg_pool_bwd(const run *r)
{
    const zi_tensor *x = out_t(r, 0), *y = in_t(r, 0);
    double          *dx = out(r, 0);
    for (int64_t n = 0; n < n_of(y); n++) {
        int64_t j = n % y->dims[3], i = n / y->dims[3] % y->dims[2], w[4];
        int64_t plane = n / (y->dims[3] * y->dims[2]);
        window(r, x, i, j, w);
        for (int64_t k = w[0]; k < w[1]; k++)
            for (int64_t l = w[2]; l < w[3]; l++)
                if (k >= 0 && l >= 0)
                    dx[(plane * x->dims[2] + k) * x->dims[3] + l] +=
                        in(r, 0)[n] / window_area(r, x, w);
    }
}

static void
global_pool(const run *r)
{
    bool             fwd = r->n->op == ZI_OP_GLOBAL_AVG_POOL;
    const zi_tensor *x = fwd ? in_t(r, 0) : out_t(r, 0);
    int64_t          area = x->dims[2] * x->dims[3];
    double          *y = out(r, 0);
    for (int64_t i = 0; i < n_of(x); i++) {
        if (fwd)
            y[i / area] += in(r, 0)[i] / (double)area;
        else
            y[i] = in(r, 0)[i / area] / (double)area;
    }
}

/* Source position of output index i: two cells and the weight of the second. */
static void
sample(const zi_attr *a, int64_t i, int64_t from, int64_t to, int64_t cell[2], double *w)
{
    if (a->resize.mode == 0) {
        cell[0] = cell[1] = i * from / to;
        *w = 0;
        return;
    }
    double at = a->resize.align
                    ? (to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0)
                    : fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0);
    cell[0] = (int64_t)at;
    cell[1] = cell[0] + 1 < from ? cell[0] + 1 : cell[0];
    *w = at - (double)cell[0];
}

static void
resize(const run *r)
{
    bool             fwd = r->n->op == ZI_OP_RESIZE;
    const zi_tensor *x = fwd ? in_t(r, 0) : out_t(r, 0),
                    *y = fwd ? out_t(r, 0) : in_t(r, 0);
    double *o = out(r, 0);
    for (int64_t n = 0; n < n_of(y); n++) {
        int64_t rows[2], cols[2], plane = n / (y->dims[2] * y->dims[3]);
        double  wr, wc;
        sample(&r->n->attr, n / y->dims[3] % y->dims[2], x->dims[2], y->dims[2], rows,
               &wr);
        sample(&r->n->attr, n % y->dims[3], x->dims[3], y->dims[3], cols, &wc);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                double  w = (i ? wr : 1 - wr) * (j ? wc : 1 - wc);
                int64_t at = (plane * x->dims[2] + rows[i]) * x->dims[3] + cols[j];
                if (fwd)
                    o[n] += w * in(r, 0)[at];
                else
                    o[at] += w * in(r, 0)[n];
            }
    }
}

/* ---- shape --------------------------------------------------------------------------- */

static void
unravel(const zi_tensor *t, int64_t i, int64_t *idx)
{
    for (uint32_t k = t->rank; k-- > 0;) {
        idx[k] = i % t->dims[k];
        i /= t->dims[k];
    }
}

static int64_t
ravel(const zi_tensor *t, const int64_t *idx)
{
    int64_t at = 0;
    for (uint32_t k = 0; k < t->rank; k++) at = at * t->dims[k] + idx[k];
    return at;
}

static void
transpose(const run *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        int64_t o[ZI_MAX_RANK], s[ZI_MAX_RANK];
        unravel(out_t(r, 0), i, o);
        for (uint32_t k = 0; k < out_t(r, 0)->rank; k++)
            s[r->n->attr.perm.perm[k]] = o[k];
        y[i] = in(r, 0)[ravel(in_t(r, 0), s)];
    }
}

static void
concat(const run *r)
{
    int64_t at = 0, axis = r->n->attr.axis.axis;
    double *y = out(r, 0);
    for (uint32_t p = 0; p < r->n->n_in; p++) {
        for (int64_t i = 0; i < n_of(in_t(r, p)); i++) {
            int64_t idx[ZI_MAX_RANK];
            unravel(in_t(r, p), i, idx);
            idx[axis] += at;
            y[ravel(out_t(r, 0), idx)] = in(r, p)[i];
        }
        at += in_t(r, p)->dims[axis];
    }
}

static void
split(const run *r)
{
    int64_t at = 0, axis = r->n->attr.split.axis;
    for (uint32_t p = 0; p < r->n->n_out; p++) {
        double *y = out(r, p);
        for (int64_t i = 0; i < n_of(out_t(r, p)); i++) {
            int64_t idx[ZI_MAX_RANK];
            unravel(out_t(r, p), i, idx);
            idx[axis] += at;
            y[i] = in(r, 0)[ravel(in_t(r, 0), idx)];
        }
        at += out_t(r, p)->dims[axis];
    }
}

static void
slice(const run *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) {
        int64_t idx[ZI_MAX_RANK];
        unravel(out_t(r, 0), i, idx);
        for (uint32_t k = 0; k < out_t(r, 0)->rank; k++)
            idx[k] += r->n->attr.slice.begin[k];
        y[i] = in(r, 0)[ravel(in_t(r, 0), idx)];
    }
}

static void
pad(const run *r)
{
    double *y = out(r, 0);
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++) y[i] = r->n->attr.pad.value;
    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++) {
        int64_t idx[ZI_MAX_RANK];
        unravel(in_t(r, 0), i, idx);
        for (uint32_t k = 0; k < in_t(r, 0)->rank; k++)
            idx[k] += r->n->attr.pad.before[k];
        y[ravel(out_t(r, 0), idx)] = in(r, 0)[i];
    }
}

static void
reshape(const run *r)
{
    memcpy(out(r, 0), in(r, 0), (size_t)n_of(in_t(r, 0)) * sizeof(double));
}

/* ---- softmax, losses ----------------------------------------------------------------- */

static void
softmax(const run *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          cols = t->dims[t->rank - 1];
    int64_t          queries = t->rank > 1 ? t->dims[t->rank - 2] : 1;
    double          *y = out(r, 0), alpha = r->n->attr.softmax.alpha;
    for (int64_t row = 0; row < n_of(t) / cols; row++) {
        const double *x = in(r, 0) + row * cols;
        int64_t       n = cols;
        if (r->n->attr.softmax.causal && row % queries + 1 < n) n = row % queries + 1;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) top = fmax(top, alpha * x[i]);
        for (int64_t i = 0; i < n; i++) sum += exp(alpha * x[i] - top);
        for (int64_t i = 0; i < n; i++) y[row * cols + i] = exp(alpha * x[i] - top) / sum;
    }
}

static void
softmax_bwd(const run *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          cols = t->dims[t->rank - 1];
    double          *dx = out(r, 0);
    for (int64_t row = 0; row < n_of(t) / cols; row++) {
        const double *dy = in(r, 0) + row * cols, *y = in(r, 1) + row * cols;
        double        dot = 0;
        for (int64_t i = 0; i < cols; i++) dot += dy[i] * y[i];
        for (int64_t i = 0; i < cols; i++)
            dx[row * cols + i] = r->n->attr.softmax.alpha * y[i] * (dy[i] - dot);
    }
}

static double
n_counted(const run *r)
{
    double n = 0;
    for (int64_t i = 0; i < n_of(in_t(r, 1)); i++)
        n += (int64_t)in(r, 1)[i] != r->n->attr.loss.ignore;
    return fmax(n, 1);
}

static void
class_loss(const run *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.loss.axis, inner = inner_of(t, axis);
    int64_t          classes = t->dims[axis];
    bool             logits = r->n->op == ZI_OP_CROSS_ENTROPY;
    double          *loss = out(r, 0), *lse = logits ? out(r, 1) : NULL;

    for (int64_t row = 0; row < n_of(in_t(r, 1)); row++) {
        int64_t       label = (int64_t)in(r, 1)[row];
        const double *x = in(r, 0) + row / inner * classes * inner + row % inner;
        double        top = -INFINITY, sum = 0;
        for (int64_t c = 0; c < classes; c++) top = fmax(top, x[c * inner]);
        for (int64_t c = 0; c < classes; c++) sum += exp(x[c * inner] - top);
        if (logits) lse[row] = top + log(sum);
        if (label == r->n->attr.loss.ignore) continue;
        *loss += (logits ? lse[row] - x[label * inner] : -log(x[label * inner])) /
                 n_counted(r);
    }
}

static void
class_loss_bwd(const run *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.loss.axis, inner = inner_of(t, axis);
    int64_t          classes = t->dims[axis];
    bool             logits = r->n->op == ZI_OP_CROSS_ENTROPY_BWD;
    double          *dx = out(r, 0), dloss = in(r, r->n->n_in - 1)[0] / n_counted(r);

    for (int64_t row = 0; row < n_of(in_t(r, 1)); row++) {
        int64_t label = (int64_t)in(r, 1)[row];
        int64_t base = row / inner * classes * inner + row % inner;
        if (label == r->n->attr.loss.ignore) continue;
        for (int64_t c = 0; c < classes; c++) {
            double x = in(r, 0)[base + c * inner];
            dx[base + c * inner] = logits
                                       ? dloss * (exp(x - in(r, 2)[row]) - (c == label))
                                       : (c == label ? -dloss / x : 0);
        }
    }
}

static void
mse(const run *r)
{
    int64_t n = n_of(in_t(r, 0));
    double *o = out(r, 0);
    for (int64_t i = 0; i < n; i++) {
        double d = in(r, 0)[i] - in(r, 1)[i];
        if (r->n->op == ZI_OP_MSE)
            o[0] += d * d / (double)n;
        else
            o[i] = 2 * d * in(r, 2)[0] / (double)n;
    }
}

/* ---- tables, cells, optimizers ------------------------------------------------------- */

static void
embedding(const run *r)
{
    bool             fwd = r->n->op == ZI_OP_EMBEDDING;
    const zi_tensor *table = fwd ? in_t(r, 1) : out_t(r, 0);
    int64_t          d = table->dims[1];
    double          *o = out(r, 0);
    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++)
        for (int64_t k = 0; k < d; k++) {
            int64_t row = (int64_t)in(r, 0)[i];
            if (fwd)
                o[i * d + k] = in(r, 1)[row * d + k];
            else
                o[row * d + k] += in(r, 1)[i * d + k];
        }
}

static void
lstm(const run *r)
{
    int64_t h = in_t(r, 1)->dims[1];
    double *ho = out(r, 0), *co = out(r, 1), *act = out(r, 2);
    for (int64_t n = 0; n < in_t(r, 1)->dims[0]; n++)
        for (int64_t k = 0; k < h; k++) {
            const double *g = in(r, 0) + n * 4 * h + k;
            double        a[4] = {sigmoid(g[0]), sigmoid(g[h]), tanh(g[2 * h]),
                                  sigmoid(g[3 * h])};
            for (int q = 0; q < 4; q++) act[n * 4 * h + q * h + k] = a[q];
            co[n * h + k] = a[1] * in(r, 1)[n * h + k] + a[0] * a[2];
            ho[n * h + k] = a[3] * tanh(co[n * h + k]);
        }
}

static void
lstm_bwd(const run *r)
{
    int64_t h = in_t(r, 1)->dims[1];
    double *dg = out(r, 0), *dcp = out(r, 1);
    for (int64_t n = 0; n < in_t(r, 1)->dims[0]; n++)
        for (int64_t k = 0; k < h; k++) {
            const double *a = in(r, 0) + n * 4 * h + k;
            int64_t       at = n * h + k;
            double        i = a[0], f = a[h], g = a[2 * h], o = a[3 * h];
            double        tc = tanh(in(r, 2)[at]);
            double        dh = has_in(r, 3) ? in(r, 3)[at] : 0;
            double        dc = (has_in(r, 4) ? in(r, 4)[at] : 0) + dh * o * (1 - tc * tc);
            double       *d = dg + n * 4 * h + k;
            d[0] = dc * g * i * (1 - i);
            d[h] = dc * in(r, 1)[at] * f * (1 - f);
            d[2 * h] = dc * i * (1 - g * g);
            d[3 * h] = dh * tc * o * (1 - o);
            dcp[at] = dc * f;
        }
}

static void
clip_scale(const run *r)
{
    double s = 0;
    for (uint32_t k = 0; k < r->n->n_in; k++)
        for (int64_t i = 0; i < n_of(in_t(r, k)); i++) s += in(r, k)[i] * in(r, k)[i];
    out(r, 0)[0] = fmin(1, r->n->attr.optim.max_norm / (sqrt(s) + 1e-6));
}

static void
optimize(const run *r)
{
    const zi_attr *a = &r->n->attr;
    double        *p = r->v[r->n->up[0]], lr = in(r, 1)[0];
    double        *m = r->n->n_up > 1 ? r->v[r->n->up[1]] : NULL;
    double        *v = r->n->n_up > 2 ? r->v[r->n->up[2]] : NULL;
    double         t = has_in(r, 2) ? in(r, 2)[0] : 1;

    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++) {
        double g = in(r, 0)[i] * (has_in(r, 3) ? in(r, 3)[0] : 1);
        if (r->n->op == ZI_OP_ADAMW)
            p[i] *= 1 - lr * a->optim.decay;
        else
            g += a->optim.decay * p[i];
        if (r->n->op == ZI_OP_SGD) {
            p[i] -= lr * g;
        } else if (r->n->op == ZI_OP_MOMENTUM) {
            m[i] = a->optim.momentum * m[i] + g;
            p[i] -= lr * (a->optim.nesterov ? g + a->optim.momentum * m[i] : m[i]);
        } else {
            m[i] = a->optim.beta1 * m[i] + (1 - a->optim.beta1) * g;
            v[i] = a->optim.beta2 * v[i] + (1 - a->optim.beta2) * g * g;
            double mh = m[i] / (1 - pow(a->optim.beta1, t));
            double vh = v[i] / (1 - pow(a->optim.beta2, t));
            p[i] -= lr * mh / (sqrt(vh) + a->optim.eps);
        }
    }
}

/* ---- dispatch ------------------------------------------------------------------------ */

/* clang-format off */
static void
run_node(const run *r)
{
    switch (r->n->op) {
    case ZI_OP_CONV2D: case ZI_OP_CONV2D_DX: case ZI_OP_CONV2D_DW:
    case ZI_OP_CONVT2D: case ZI_OP_CONVT2D_DX: case ZI_OP_CONVT2D_DW: conv(r); break;
    case ZI_OP_LINEAR: linear(r); break;
    case ZI_OP_LINEAR_DX: linear_dx(r); break;
    case ZI_OP_LINEAR_DW: linear_dw(r); break;
    case ZI_OP_MATMUL: matmul(r); break;
    case ZI_OP_BIAS: bias(r); break;
    case ZI_OP_BATCH_NORM: case ZI_OP_LAYER_NORM: norm(r); break;
    case ZI_OP_BATCH_NORM_BWD: case ZI_OP_LAYER_NORM_BWD: norm_bwd(r); break;
    case ZI_OP_BN_STATS: bn_stats(r); break;
    case ZI_OP_BATCH_NORM_FIXED: norm_fixed(r); break;
    case ZI_OP_BATCH_NORM_FIXED_BWD: norm_fixed_bwd(r); break;
    case ZI_OP_RELU: case ZI_OP_CLIP: case ZI_OP_SIGMOID: case ZI_OP_TANH:
    case ZI_OP_GELU: case ZI_OP_SILU: case ZI_OP_SCALE: unary(r); break;
    case ZI_OP_RELU_BWD: case ZI_OP_CLIP_BWD: case ZI_OP_SIGMOID_BWD: case ZI_OP_TANH_BWD:
    case ZI_OP_GELU_BWD: case ZI_OP_SILU_BWD: unary_bwd(r); break;
    case ZI_OP_MAX_POOL: case ZI_OP_AVG_POOL: pool(r); break;
    case ZI_OP_MAX_POOL_BWD: max_pool_bwd(r); break;
    case ZI_OP_AVG_POOL_BWD: avg_pool_bwd(r); break;
    case ZI_OP_GLOBAL_AVG_POOL: case ZI_OP_GLOBAL_AVG_POOL_BWD: global_pool(r); break;
    case ZI_OP_RESIZE: case ZI_OP_RESIZE_BWD: resize(r); break;
    case ZI_OP_ADD: case ZI_OP_SUB: case ZI_OP_MUL: case ZI_OP_DIV: binary(r); break;
    case ZI_OP_BROADCAST: broadcast(r); break;
    case ZI_OP_REDUCE_SUM: case ZI_OP_REDUCE_MEAN: reduce(r); break;
    case ZI_OP_FILL: fill(r); break;
    case ZI_OP_RESHAPE: reshape(r); break;
    case ZI_OP_TRANSPOSE: transpose(r); break;
    case ZI_OP_CONCAT: concat(r); break;
    case ZI_OP_SPLIT: split(r); break;
    case ZI_OP_SLICE: slice(r); break;
    case ZI_OP_PAD: pad(r); break;
    case ZI_OP_SOFTMAX: softmax(r); break;
    case ZI_OP_SOFTMAX_BWD: softmax_bwd(r); break;
    case ZI_OP_CROSS_ENTROPY: case ZI_OP_NLL: class_loss(r); break;
    case ZI_OP_CROSS_ENTROPY_BWD: case ZI_OP_NLL_BWD: class_loss_bwd(r); break;
    case ZI_OP_MSE: case ZI_OP_MSE_BWD: mse(r); break;
    case ZI_OP_DROPOUT: case ZI_OP_DROPOUT_BWD: dropout(r); break;
    case ZI_OP_EMBEDDING: case ZI_OP_EMBEDDING_BWD: embedding(r); break;
    case ZI_OP_LSTM_CELL: lstm(r); break;
    case ZI_OP_LSTM_CELL_BWD: lstm_bwd(r); break;
    case ZI_OP_SGD: case ZI_OP_MOMENTUM: case ZI_OP_ADAM: case ZI_OP_ADAMW: optimize(r); break;
    case ZI_OP_CLIP_SCALE: clip_scale(r); break;
    case ZI_OP_COUNT: fail_msg("no such operator");
    }
}
/* clang-format on */

void
zi_ref_run_part(const zi_graph *g, zi_node_id first, zi_node_id end, uint32_t step,
                double **value)
{
    for (zi_node_id i = first; i < end; i++) {
        run r = {.g = g, .n = &g->nodes[i], .v = value, .step = step};
        run_node(&r);
    }
}

void
zi_ref_run(const zi_graph *g, uint32_t step, double **value)
{
    zi_ref_run_part(g, 0, g->n_nodes, step, value);
}

static double
first_value(const zi_tensor *t, int64_t n_classes)
{
    if (t->dtype != ZI_DTYPE_F32) return (double)t_rand_below((uint64_t)n_classes);
    if (t->init.kind == ZI_INIT_CONST && t->role == ZI_ROLE_STATE) return t->init.a;
    double spread = t->role == ZI_ROLE_INPUT ? 1 : 0.5;
    double center = t->init.kind == ZI_INIT_CONST ? t->init.a : 0;
    return center + spread * (t_rand_unit() + t_rand_unit() + t_rand_unit() - 1.5);
}

void
zi_ref_fill(const zi_graph *g, double **value, int64_t n_classes)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const zi_tensor *t = &g->tensors[i];
        if (t->producer != ZI_ID_NONE) continue;
        double *p = zi_ref_make(g, value, i);
        for (int64_t k = 0; k < n_of(t); k++) p[k] = first_value(t, n_classes);
        if (i == g->lr) p[0] = 0.1;
        if (i == g->step) p[0] = 1;
    }
}

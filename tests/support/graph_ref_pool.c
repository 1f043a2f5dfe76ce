/* graph_ref_pool.c -- pooling and resampling, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

#include <math.h>

/* The window of output cell (i,j), clipped to the image: rows [r0,r1), columns [c0,c1). */
static void
window(const zi_ref_node *r, const zi_tensor *x, int64_t i, int64_t j, int64_t w[4])
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
window_area(const zi_ref_node *r, const zi_tensor *x, const int64_t w[4])
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
pool_cell(const zi_ref_node *r, const zi_tensor *x, const zi_tensor *y, int64_t plane,
          int64_t i, int64_t j)
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

void
zi_ref_pool(const zi_ref_node *r)
{
    const zi_tensor *x = in_t(r, 0), *y = out_t(r, 0);
    out(r, 0);
    if (has_out(r, 1)) out(r, 1);
    for (int64_t p = 0; p < y->dims[0] * y->dims[1]; p++)
        for (int64_t i = 0; i < y->dims[2]; i++)
            for (int64_t j = 0; j < y->dims[3]; j++) pool_cell(r, x, y, p, i, j);
}

void
zi_ref_max_pool_bwd(const zi_ref_node *r)
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

void
zi_ref_avg_pool_bwd(const zi_ref_node *r)
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

void
zi_ref_global_pool(const zi_ref_node *r)
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

void
zi_ref_resize(const zi_ref_node *r)
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

/* graph_ref_linear.c -- linear algebra, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

#include <math.h>

double
zi_ref_gelu(double x, bool tanh_form)
{
    if (tanh_form)
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

double
zi_ref_gelu_slope(double x, bool tanh_form)
{
    if (!tanh_form)
        return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    double k = sqrt(2 / M_PI), t = tanh(k * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

void
zi_ref_linear(const zi_ref_node *r)
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
            if (act >= ZI_POST_GELU) s = zi_ref_gelu(s, act == ZI_POST_GELU_TANH);
            y[i * out_w + o] = s;
        }
    zi_ref_post(r, act);
}

void
zi_ref_linear_dx(const zi_ref_node *r)
{
    int64_t in_w = in_t(r, 1)->dims[1], out_w = in_t(r, 1)->dims[0];
    double *dx = out(r, 0);
    for (int64_t i = 0; i < n_of(in_t(r, 0)) / out_w; i++)
        for (int64_t o = 0; o < out_w; o++)
            for (int64_t k = 0; k < in_w; k++)
                dx[i * in_w + k] += in(r, 0)[i * out_w + o] * in(r, 1)[o * in_w + k];
}

void
zi_ref_linear_dw(const zi_ref_node *r)
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

void
zi_ref_matmul(const zi_ref_node *r)
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

int64_t
zi_ref_inner_of(const zi_tensor *t, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = axis + 1; i < (int64_t)t->rank; i++) n *= t->dims[i];
    return n;
}

void
zi_ref_bias(const zi_ref_node *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.axis.axis, inner = zi_ref_inner_of(t, axis);
    double          *y = out(r, 0);
    for (int64_t i = 0; i < n_of(t); i++)
        y[i] = in(r, 0)[i] + in(r, 1)[i / inner % t->dims[axis]];
}

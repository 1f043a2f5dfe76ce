/* graph_ref_train.c -- tables, cells, optimizers, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

#include <math.h>

void
zi_ref_embedding(const zi_ref_node *r)
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

void
zi_ref_lstm(const zi_ref_node *r)
{
    int64_t h = in_t(r, 1)->dims[1];
    double *ho = out(r, 0), *co = out(r, 1), *act = out(r, 2);
    for (int64_t n = 0; n < in_t(r, 1)->dims[0]; n++)
        for (int64_t k = 0; k < h; k++) {
            const double *g = in(r, 0) + n * 4 * h + k;
            double a[4] = {zi_ref_sigmoid(g[0]), zi_ref_sigmoid(g[h]), tanh(g[2 * h]),
                           zi_ref_sigmoid(g[3 * h])};
            for (int q = 0; q < 4; q++) act[n * 4 * h + q * h + k] = a[q];
            co[n * h + k] = a[1] * in(r, 1)[n * h + k] + a[0] * a[2];
            ho[n * h + k] = a[3] * tanh(co[n * h + k]);
        }
}

void
zi_ref_lstm_bwd(const zi_ref_node *r)
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

void
zi_ref_clip_scale(const zi_ref_node *r)
{
    double s = 0;
    for (uint32_t k = 0; k < r->n->n_in; k++)
        for (int64_t i = 0; i < n_of(in_t(r, k)); i++) s += in(r, k)[i] * in(r, k)[i];
    out(r, 0)[0] = fmin(1, r->n->attr.optim.max_norm / (sqrt(s) + 1e-6));
}

void
zi_ref_optimize(const zi_ref_node *r)
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

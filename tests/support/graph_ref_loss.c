/* graph_ref_loss.c -- softmax, losses, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

#include <math.h>

void
zi_ref_softmax(const zi_ref_node *r)
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

void
zi_ref_softmax_bwd(const zi_ref_node *r)
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
n_counted(const zi_ref_node *r)
{
    double n = 0;
    for (int64_t i = 0; i < n_of(in_t(r, 1)); i++)
        n += (int64_t)in(r, 1)[i] != r->n->attr.loss.ignore;
    return fmax(n, 1);
}

void
zi_ref_class_loss(const zi_ref_node *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.loss.axis, inner = zi_ref_inner_of(t, axis);
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

void
zi_ref_class_loss_bwd(const zi_ref_node *r)
{
    const zi_tensor *t = in_t(r, 0);
    int64_t          axis = r->n->attr.loss.axis, inner = zi_ref_inner_of(t, axis);
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

void
zi_ref_mse(const zi_ref_node *r)
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

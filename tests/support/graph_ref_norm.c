/* graph_ref_norm.c -- normalisation, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

#include <math.h>

/* Which statistic an element belongs to: its channel, or its row. */
static int64_t
stat_of(const zi_tensor *x, bool layer, int64_t i)
{
    if (layer) return i / x->dims[x->rank - 1];
    return i / zi_ref_inner_of(x, 1) % x->dims[1];
}

static int64_t
param_of(const zi_tensor *x, bool layer, int64_t i)
{
    return layer ? i % x->dims[x->rank - 1] : stat_of(x, false, i);
}

void
zi_ref_norm(const zi_ref_node *r)
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
void
zi_ref_norm_bwd(const zi_ref_node *r)
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

void
zi_ref_norm_fixed(const zi_ref_node *r)
{
    const zi_tensor *xt = in_t(r, 0);
    double          *y = out(r, 0);
    for (int64_t i = 0; i < n_of(xt); i++) {
        int64_t c = stat_of(xt, false, i);
        y[i] = (in(r, 0)[i] - in(r, 3)[c]) / sqrt(in(r, 4)[c] + r->n->attr.norm.eps) *
                   in(r, 1)[c] +
               in(r, 2)[c];
    }
    zi_ref_post(r, r->n->attr.norm.act);
}

void
zi_ref_norm_fixed_bwd(const zi_ref_node *r)
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

void
zi_ref_bn_stats(const zi_ref_node *r)
{
    double  m = r->n->attr.norm.momentum, count = (double)r->n->attr.norm.count;
    double  fix = count > 1 ? count / (count - 1) : 1;
    double *mean = r->v[r->n->up[0]], *var = r->v[r->n->up[1]];
    for (int64_t i = 0; i < n_of(in_t(r, 0)); i++) {
        mean[i] = (1 - m) * mean[i] + m * in(r, 0)[i];
        var[i] = (1 - m) * var[i] + m * in(r, 1)[i] * fix;
    }
}

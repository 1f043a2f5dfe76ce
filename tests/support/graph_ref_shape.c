/* graph_ref_shape.c -- shape, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

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

void
zi_ref_transpose(const zi_ref_node *r)
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

void
zi_ref_concat(const zi_ref_node *r)
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

void
zi_ref_split(const zi_ref_node *r)
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

void
zi_ref_slice(const zi_ref_node *r)
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

void
zi_ref_pad(const zi_ref_node *r)
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

void
zi_ref_reshape(const zi_ref_node *r)
{
    memcpy(out(r, 0), in(r, 0), (size_t)n_of(in_t(r, 0)) * sizeof(double));
}

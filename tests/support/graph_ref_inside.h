/* graph_ref_inside.h -- what the files graph_ref*.c share: a node that is run, and its values.
 *
 * One file for each family of operators; graph_ref.c knows which operator is whose.  Written to
 * be compared with the formulas of ops.def, not to be fast: no function here is shared with the
 * code under test but random.h.
 */
#ifndef ZI_GRAPH_REF_INSIDE_H
#define ZI_GRAPH_REF_INSIDE_H

#include "support/graph_ref.h"
#include "test.h"

typedef struct zi_ref_node {
    const zi_graph *g;
    const zi_node  *n;
    double        **v;
    uint32_t        step;
} zi_ref_node;

static inline const zi_tensor *
in_t(const zi_ref_node *r, uint32_t i)
{
    return &r->g->tensors[r->n->in[i]];
}

static inline const zi_tensor *
out_t(const zi_ref_node *r, uint32_t i)
{
    return &r->g->tensors[r->n->out[i]];
}

static inline bool
has_in(const zi_ref_node *r, uint32_t i)
{
    return i < r->n->n_in && r->n->in[i] != ZI_ID_NONE;
}

static inline bool
has_out(const zi_ref_node *r, uint32_t i)
{
    return i < r->n->n_out && r->n->out[i] != ZI_ID_NONE;
}

static inline const double *
in(const zi_ref_node *r, uint32_t i)
{
    double *p = r->v[r->n->in[i]];
    if (!p)
        fail_msg("node %s reads %s, which has no value", r->n->name, in_t(r, i)->name);
    return p;
}

/* Outputs begin as zeros. */
static inline double *
out(const zi_ref_node *r, uint32_t i)
{
    double *p = zi_ref_make(r->g, r->v, r->n->out[i]);
    memset(p, 0, (size_t)zi_tensor_elems(out_t(r, i)) * sizeof *p);
    return p;
}

static inline int64_t
n_of(const zi_tensor *t)
{
    return zi_tensor_elems(t);
}

static inline int64_t
at4(const zi_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * t->dims[1] + b) * t->dims[2] + c) * t->dims[3] + d;
}

/* -- graph_ref_conv.c -- */
void zi_ref_post(const zi_ref_node *r, int64_t act);
void zi_ref_conv(const zi_ref_node *r);

/* -- graph_ref_linear.c -- */
double  zi_ref_gelu(double x, bool tanh_form);
double  zi_ref_gelu_slope(double x, bool tanh_form);
void    zi_ref_linear(const zi_ref_node *r);
void    zi_ref_linear_dx(const zi_ref_node *r);
void    zi_ref_linear_dw(const zi_ref_node *r);
void    zi_ref_matmul(const zi_ref_node *r);
int64_t zi_ref_inner_of(const zi_tensor *t, int64_t axis);
void    zi_ref_bias(const zi_ref_node *r);

/* -- graph_ref_norm.c -- */
void zi_ref_norm(const zi_ref_node *r);
void zi_ref_norm_bwd(const zi_ref_node *r);
void zi_ref_norm_fixed(const zi_ref_node *r);
void zi_ref_norm_fixed_bwd(const zi_ref_node *r);
void zi_ref_bn_stats(const zi_ref_node *r);

/* -- graph_ref_point.c -- */
double zi_ref_sigmoid(double x);
void   zi_ref_unary(const zi_ref_node *r);
void   zi_ref_unary_bwd(const zi_ref_node *r);
void   zi_ref_binary(const zi_ref_node *r);
void   zi_ref_broadcast(const zi_ref_node *r);
void   zi_ref_reduce(const zi_ref_node *r);
void   zi_ref_constant(const zi_ref_node *r);
void   zi_ref_dropout(const zi_ref_node *r);

/* -- graph_ref_pool.c -- */
void zi_ref_pool(const zi_ref_node *r);
void zi_ref_max_pool_bwd(const zi_ref_node *r);
void zi_ref_avg_pool_bwd(const zi_ref_node *r);
void zi_ref_global_pool(const zi_ref_node *r);
void zi_ref_resize(const zi_ref_node *r);

/* -- graph_ref_shape.c -- */
void zi_ref_transpose(const zi_ref_node *r);
void zi_ref_concat(const zi_ref_node *r);
void zi_ref_split(const zi_ref_node *r);
void zi_ref_slice(const zi_ref_node *r);
void zi_ref_pad(const zi_ref_node *r);
void zi_ref_reshape(const zi_ref_node *r);

/* -- graph_ref_loss.c -- */
void zi_ref_softmax(const zi_ref_node *r);
void zi_ref_softmax_bwd(const zi_ref_node *r);
void zi_ref_class_loss(const zi_ref_node *r);
void zi_ref_class_loss_bwd(const zi_ref_node *r);
void zi_ref_mse(const zi_ref_node *r);

/* -- graph_ref_train.c -- */
void zi_ref_embedding(const zi_ref_node *r);
void zi_ref_lstm(const zi_ref_node *r);
void zi_ref_lstm_bwd(const zi_ref_node *r);
void zi_ref_clip_scale(const zi_ref_node *r);
void zi_ref_optimize(const zi_ref_node *r);

#endif /* ZI_GRAPH_REF_INSIDE_H */

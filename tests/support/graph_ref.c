/* graph_ref.c -- the values of a graph, and which operator is whose (graph_ref.h). */
#include "support/graph_ref_inside.h"

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

/* ---- dispatch ------------------------------------------------------------------------ */

/* clang-format off */
static void
run_node(const zi_ref_node *r)
{
    switch (r->n->op) {
    case ZI_OP_CONV2D: case ZI_OP_CONV2D_DX: case ZI_OP_CONV2D_DW:
    case ZI_OP_CONVT2D: case ZI_OP_CONVT2D_DX: case ZI_OP_CONVT2D_DW: zi_ref_conv(r); break;
    case ZI_OP_LINEAR: zi_ref_linear(r); break;
    case ZI_OP_LINEAR_DX: zi_ref_linear_dx(r); break;
    case ZI_OP_LINEAR_DW: zi_ref_linear_dw(r); break;
    case ZI_OP_MATMUL: zi_ref_matmul(r); break;
    case ZI_OP_BIAS: zi_ref_bias(r); break;
    case ZI_OP_BATCH_NORM: case ZI_OP_LAYER_NORM: zi_ref_norm(r); break;
    case ZI_OP_BATCH_NORM_BWD: case ZI_OP_LAYER_NORM_BWD: zi_ref_norm_bwd(r); break;
    case ZI_OP_BN_STATS: zi_ref_bn_stats(r); break;
    case ZI_OP_BATCH_NORM_FIXED: zi_ref_norm_fixed(r); break;
    case ZI_OP_BATCH_NORM_FIXED_BWD: zi_ref_norm_fixed_bwd(r); break;
    case ZI_OP_RELU: case ZI_OP_CLIP: case ZI_OP_SIGMOID: case ZI_OP_TANH:
    case ZI_OP_GELU: case ZI_OP_SILU: case ZI_OP_SCALE: zi_ref_unary(r); break;
    case ZI_OP_RELU_BWD: case ZI_OP_CLIP_BWD: case ZI_OP_SIGMOID_BWD: case ZI_OP_TANH_BWD:
    case ZI_OP_GELU_BWD: case ZI_OP_SILU_BWD: zi_ref_unary_bwd(r); break;
    case ZI_OP_MAX_POOL: case ZI_OP_AVG_POOL: zi_ref_pool(r); break;
    case ZI_OP_MAX_POOL_BWD: zi_ref_max_pool_bwd(r); break;
    case ZI_OP_AVG_POOL_BWD: zi_ref_avg_pool_bwd(r); break;
    case ZI_OP_GLOBAL_AVG_POOL: case ZI_OP_GLOBAL_AVG_POOL_BWD: zi_ref_global_pool(r); break;
    case ZI_OP_RESIZE: case ZI_OP_RESIZE_BWD: zi_ref_resize(r); break;
    case ZI_OP_ADD: case ZI_OP_SUB: case ZI_OP_MUL: case ZI_OP_DIV: zi_ref_binary(r); break;
    case ZI_OP_BROADCAST: zi_ref_broadcast(r); break;
    case ZI_OP_REDUCE_SUM: case ZI_OP_REDUCE_MEAN: zi_ref_reduce(r); break;
    case ZI_OP_FILL: zi_ref_constant(r); break;
    case ZI_OP_RESHAPE: zi_ref_reshape(r); break;
    case ZI_OP_TRANSPOSE: zi_ref_transpose(r); break;
    case ZI_OP_CONCAT: zi_ref_concat(r); break;
    case ZI_OP_SPLIT: zi_ref_split(r); break;
    case ZI_OP_SLICE: zi_ref_slice(r); break;
    case ZI_OP_PAD: zi_ref_pad(r); break;
    case ZI_OP_SOFTMAX: zi_ref_softmax(r); break;
    case ZI_OP_SOFTMAX_BWD: zi_ref_softmax_bwd(r); break;
    case ZI_OP_CROSS_ENTROPY: case ZI_OP_NLL: zi_ref_class_loss(r); break;
    case ZI_OP_CROSS_ENTROPY_BWD: case ZI_OP_NLL_BWD: zi_ref_class_loss_bwd(r); break;
    case ZI_OP_MSE: case ZI_OP_MSE_BWD: zi_ref_mse(r); break;
    case ZI_OP_DROPOUT: case ZI_OP_DROPOUT_BWD: zi_ref_dropout(r); break;
    case ZI_OP_EMBEDDING: case ZI_OP_EMBEDDING_BWD: zi_ref_embedding(r); break;
    case ZI_OP_LSTM_CELL: zi_ref_lstm(r); break;
    case ZI_OP_LSTM_CELL_BWD: zi_ref_lstm_bwd(r); break;
    case ZI_OP_SGD: case ZI_OP_MOMENTUM: case ZI_OP_ADAM: case ZI_OP_ADAMW: zi_ref_optimize(r); break;
    case ZI_OP_CLIP_SCALE: zi_ref_clip_scale(r); break;
    case ZI_OP_COUNT: fail_msg("no such operator");
    }
}
/* clang-format on */

void
zi_ref_run_part(const zi_graph *g, zi_node_id first, zi_node_id end, uint32_t step,
                double **value)
{
    for (zi_node_id i = first; i < end; i++) {
        zi_ref_node r = {.g = g, .n = &g->nodes[i], .v = value, .step = step};
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

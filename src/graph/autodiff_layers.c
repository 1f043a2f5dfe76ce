/* autodiff_layers.c -- gradients of the operators that have parameters or windows.
 *
 * Weight gradients come before input gradients: the forward input then dies before the
 * gradient that takes its place is born.
 */
#include "graph/autodiff.h"
#include "graph/rewrite.h"
#include "base/check.h"
#include "base/try.h"

/* One backward node that makes gradients for the inputs in `to`, in output order. */
static zico_status
emit_to(zi_ad *ad, const zi_ad_emit *e, const int *to)
{
    zi_tensor_id out[4];
    ZI_TRY(zi_ad_node(ad, e, out));
    for (uint32_t i = 0; i < e->n_out; i++)
        if (zi_ad_wants(ad, (uint32_t)to[i]))
            ZI_TRY(zi_ad_give(ad, (uint32_t)to[i], out[i]));
    return ZICO_OK;
}

/* The gradient before a fused activation; attributes without it. */
static zico_status
undo_post(zi_ad *ad, int64_t *act)
{
    zi_attr    gelu = {.gelu = {.approx = *act == ZI_POST_GELU_TANH}};
    zi_ad_emit e = {.op = ZI_OP_RELU_BWD,
                    .leaf = "post",
                    .n_in = 2,
                    .in = {ad->dy, ad->node.out[0]},
                    .n_out = 1,
                    .like = ZI_ID_NONE};
    if (*act == ZI_POST_NONE) return ZICO_OK;
    if (*act != ZI_POST_RELU) { /* gelu reads the value before it */
        ZI_TRY(zi_graph_want_out(ad->g, ad->id, 1, ad->diag, &e.in[1]));
        ad->node = ad->g->nodes[ad->id];
        e.op = ZI_OP_GELU_BWD;
        e.attr = &gelu;
    }
    *act = ZI_POST_NONE;
    return zi_ad_node(ad, &e, &ad->dy);
}

/* x w [b] -> y, whose backward operators follow the forward one in ops.def: dx, dw. */
static zico_status
weighted(zi_ad *ad, const zi_attr *attr)
{
    zi_tensor_id x = ad->node.in[0], w = ad->node.in[1];
    bool         bias = zi_ad_wants(ad, 2);
    zi_ad_emit   dw = {.op = (zi_op)(ad->node.op + 2),
                       .leaf = "dw",
                       .attr = attr,
                       .n_in = 2,
                       .in = {x, ad->dy},
                       .n_out = bias ? 2 : 1,
                       .like = w};
    zi_ad_emit   dx = {.op = (zi_op)(ad->node.op + 1),
                       .leaf = "dx",
                       .attr = attr,
                       .n_in = 2,
                       .in = {ad->dy, w},
                       .n_out = 1,
                       .like = x};
    zico_status  st = ZICO_OK;
    bool         learnt = zi_ad_wants(ad, 1) || bias;
    if (learnt && !zi_ad_put_off(ad, &st)) st = emit_to(ad, &dw, (int[]){1, 2});
    ZI_TRY(st);
    if (zi_ad_wants(ad, 0)) ZI_TRY(emit_to(ad, &dx, (int[]){0}));
    return ZICO_OK;
}

_Static_assert(ZI_OP_CONV2D_DX == ZI_OP_CONV2D + 1 &&
                   ZI_OP_CONV2D_DW == ZI_OP_CONV2D + 2 &&
                   ZI_OP_CONVT2D_DX == ZI_OP_CONVT2D + 1 &&
                   ZI_OP_CONVT2D_DW == ZI_OP_CONVT2D + 2 &&
                   ZI_OP_LINEAR_DX == ZI_OP_LINEAR + 1 &&
                   ZI_OP_LINEAR_DW == ZI_OP_LINEAR + 2,
               "weighted() counts on the order of ops.def");

zico_status
zi_ad_conv(zi_ad *ad)
{
    zi_attr attr = ad->node.attr;
    ZI_TRY(undo_post(ad, &attr.conv.act));
    return weighted(ad, &attr);
}

zico_status
zi_ad_linear(zi_ad *ad)
{
    zi_attr attr = ad->node.attr;
    ZI_TRY(undo_post(ad, &attr.matmul.act));
    return weighted(ad, &attr);
}

zico_status
zi_ad_matmul(zi_ad *ad)
{
    zi_tensor_id a = ad->node.in[0], b = ad->node.in[1];
    bool         ta = ad->node.attr.matmul.trans_a, tb = ad->node.attr.matmul.trans_b;
    double       alpha = ad->node.attr.matmul.alpha;
    zi_attr      at;
    zi_ad_emit   e = {
          .op = ZI_OP_MATMUL, .attr = &at, .n_in = 2, .n_out = 1, .like = ZI_ID_NONE};

    if (zi_ad_wants(ad, 0)) { /* dA = dC op(B)^T, or op(B) dC^T */
        at = (zi_attr){
            .matmul = {.trans_a = ta ? tb : 0, .trans_b = ta ? 1 : !tb, .alpha = alpha}};
        e.leaf = "da";
        e.in[0] = ta ? b : ad->dy;
        e.in[1] = ta ? ad->dy : b;
        ZI_TRY(emit_to(ad, &e, (int[]){0}));
    }
    if (zi_ad_wants(ad, 1)) { /* dB = op(A)^T dC, or dC^T op(A) */
        at = (zi_attr){
            .matmul = {.trans_a = tb ? 1 : !ta, .trans_b = tb ? ta : 0, .alpha = alpha}};
        e.leaf = "db";
        e.in[0] = tb ? ad->dy : a;
        e.in[1] = tb ? a : ad->dy;
        ZI_TRY(emit_to(ad, &e, (int[]){1}));
    }
    return ZICO_OK;
}

zico_status
zi_ad_bias(zi_ad *ad)
{
    uint32_t   rank = ad->g->tensors[ad->dy].rank;
    int64_t    all = ((int64_t)1 << rank) - 1;
    zi_attr    sum = {.reduce = {.axes = all & ~((int64_t)1 << ad->node.attr.axis.axis)}};
    zi_ad_emit e = {.op = ZI_OP_REDUCE_SUM,
                    .leaf = "db",
                    .attr = &sum,
                    .n_in = 1,
                    .in = {ad->dy},
                    .n_out = 1,
                    .like = ZI_ID_NONE};
    if (zi_ad_wants(ad, 1)) {
        if (sum.reduce.axes)
            ZI_TRY(emit_to(ad, &e, (int[]){1}));
        else
            ZI_TRY(zi_ad_give(ad, 1, ad->dy));
    }
    return zi_ad_wants(ad, 0) ? zi_ad_give(ad, 0, ad->dy) : ZICO_OK;
}

/* Statistics are saved for the backward pass; nobody may differentiate through them. */
static zico_status
only_first(zi_ad *ad)
{
    for (uint32_t i = 1; i < ad->node.n_out; i++) {
        zi_tensor_id t = ad->node.out[i];
        if (t < ad->n_tensors && ad->grad[t] != ZI_ID_NONE)
            return zi_graph_complain(ad->diag, ZICO_E_UNSUPPORTED, ad->id,
                                     "node '%s' (%s): output %u has no gradient",
                                     ad->node.name, zi_op_get(ad->node.op)->text, i);
    }
    return ZICO_OK;
}

zico_status
zi_ad_batch_norm(zi_ad *ad)
{
    const zi_node *n = &ad->node;
    bool           relu = n->attr.norm.act == ZI_POST_RELU;
    bool           add = n->n_in > 3 && n->in[3] != ZI_ID_NONE;

    ZI_TRY(only_first(ad));
    zi_tensor_id mask = ZI_ID_NONE;
    if (relu) {
        ZI_TRY(zi_graph_want_out(ad->g, ad->id, 3, ad->diag, &mask));
        ad->node = ad->g->nodes[ad->id];
    }
    zi_ad_emit e = {.op = ZI_OP_BATCH_NORM_BWD,
                    .leaf = "bwd",
                    .attr = &n->attr,
                    .n_in = relu ? 6 : 5,
                    .in = {ad->dy, n->in[0], n->out[1], n->out[2], n->in[1], mask},
                    .n_out = add ? 4 : 3,
                    .like = ZI_ID_NONE};
    return emit_to(ad, &e, (int[]){0, 1, 2, 3});
}

zico_status
zi_ad_batch_norm_fixed(zi_ad *ad)
{
    const zi_node *n = &ad->node;
    bool           relu = n->attr.norm.act == ZI_POST_RELU;
    zi_ad_emit     e = {.op = ZI_OP_BATCH_NORM_FIXED_BWD,
                        .leaf = "bwd",
                        .attr = &n->attr,
                        .n_in = relu ? 6 : 5,
                        .in = {ad->dy, n->in[0], n->in[1], n->in[3], n->in[4], n->out[0]},
                        .n_out = 3,
                        .like = ZI_ID_NONE};
    return emit_to(ad, &e, (int[]){0, 1, 2});
}

zico_status
zi_ad_layer_norm(zi_ad *ad)
{
    const zi_node *n = &ad->node;
    zi_ad_emit     e = {.op = ZI_OP_LAYER_NORM_BWD,
                        .leaf = "bwd",
                        .attr = &n->attr,
                        .n_in = 5,
                        .in = {ad->dy, n->in[0], n->out[1], n->out[2], n->in[1]},
                        .n_out = 3,
                        .like = ZI_ID_NONE};
    ZI_TRY(only_first(ad));
    return emit_to(ad, &e, (int[]){0, 1, 2});
}

/* ---- windows ------------------------------------------------------------------------- */

/* Linear operators: the backward one needs dy and the shape of x. */
static zico_status
shape_only(zi_ad *ad, zi_op op)
{
    zi_ad_emit e = {.op = op,
                    .leaf = "dx",
                    .attr = &ad->node.attr,
                    .n_in = 1,
                    .in = {ad->dy},
                    .n_out = 1,
                    .like = ad->node.in[0]};
    return emit_to(ad, &e, (int[]){0});
}

zico_status
zi_ad_max_pool(zi_ad *ad)
{
    zi_tensor_id index;
    ZI_TRY(zi_graph_want_out(ad->g, ad->id, 1, ad->diag, &index));
    ad->node = ad->g->nodes[ad->id];
    zi_ad_emit e = {.op = ZI_OP_MAX_POOL_BWD,
                    .leaf = "dx",
                    .attr = &ad->node.attr,
                    .n_in = 2,
                    .in = {ad->dy, index},
                    .n_out = 1,
                    .like = ad->node.in[0]};
    return emit_to(ad, &e, (int[]){0});
}

zico_status
zi_ad_avg_pool(zi_ad *ad)
{
    return shape_only(ad, ZI_OP_AVG_POOL_BWD);
}

zico_status
zi_ad_global_pool(zi_ad *ad)
{
    return shape_only(ad, ZI_OP_GLOBAL_AVG_POOL_BWD);
}

zico_status
zi_ad_resize(zi_ad *ad)
{
    return shape_only(ad, ZI_OP_RESIZE_BWD);
}

/* ---- tables and cells ---------------------------------------------------------------- */

zico_status
zi_ad_embedding(zi_ad *ad)
{
    zi_ad_emit e = {.op = ZI_OP_EMBEDDING_BWD,
                    .leaf = "dw",
                    .n_in = 2,
                    .in = {ad->node.in[0], ad->dy},
                    .n_out = 1,
                    .like = ad->node.in[1]};
    return emit_to(ad, &e, (int[]){1});
}

zico_status
zi_ad_lstm(zi_ad *ad)
{
    const zi_node *n = &ad->node;
    zi_ad_emit     e = {.op = ZI_OP_LSTM_CELL_BWD,
                        .leaf = "bwd",
                        .n_in = 5,
                        .in = {n->out[2], n->in[1], n->out[1], ad->dy, ad->grad[n->out[1]]},
                        .n_out = 2,
                        .like = ZI_ID_NONE};
    return emit_to(ad, &e, (int[]){0, 1});
}

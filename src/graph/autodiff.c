/* autodiff.c -- the backward pass, appended in reverse order of the forward one.
 *
 * Three sweeps: which tensors depend on a parameter (forward), which of them the loss
 * depends on (backward), then the rules (backward).  A gradient from a second reader is
 * added as soon as it exists, so at most one unfinished sum per tensor is alive.
 */
#include "graph/autodiff.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <stdio.h>
#include <string.h>

/* ---- what rules call ---------------------------------------------------------------- */

zico_status
zi_ad_node(zi_ad *ad, const zi_ad_emit *e, zi_tensor_id *ret_out)
{
    char            name[ZI_NAME_BYTES];
    zi_shape        shape;
    const zi_shape *hint[4] = {NULL};

    snprintf(name, sizeof name - 12, "%.200s.%s", ad->node.name, e->leaf);
    zi_assert(e->n_out <= 4);
    if (e->like != ZI_ID_NONE) {
        shape = zi_tensor_shape(&ad->g->tensors[e->like]);
        hint[0] = &shape;
    }
    zi_node_spec s = {.name = name,
                      .op = e->op,
                      .phase = ZI_PHASE_BACKWARD,
                      .forward = ad->id,
                      .n_in = e->n_in,
                      .in = e->in,
                      .n_out = e->n_out,
                      .want_out = 15,
                      .attr = e->attr,
                      .hint = hint};
    return zi_graph_add_node(ad->g, &s, ad->diag, ret_out);
}

zico_status
zi_ad_join(zi_ad *ad, const char *leaf, int64_t axis, uint32_t n,
           const zi_tensor_id *part, zi_tensor_id *ret)
{
    zi_attr attr = {.axis = {.axis = axis}};
    char    name[ZI_NAME_BYTES];
    snprintf(name, sizeof name - 12, "%.200s.%s", ad->node.name, leaf);
    zi_node_spec s = {.name = name,
                      .op = ZI_OP_CONCAT,
                      .phase = ZI_PHASE_BACKWARD,
                      .forward = ad->id,
                      .n_in = n,
                      .in = part,
                      .n_out = 1,
                      .attr = &attr};
    return zi_graph_add_node(ad->g, &s, ad->diag, ret);
}

bool
zi_ad_wants(const zi_ad *ad, uint32_t i)
{
    return i < ad->node.n_in && ad->node.in[i] != ZI_ID_NONE && ad->want[ad->node.in[i]];
}

zico_status
zi_ad_give(zi_ad *ad, uint32_t i, zi_tensor_id grad)
{
    zi_assert(zi_ad_wants(ad, i));
    zi_tensor_id *have = &ad->grad[ad->node.in[i]];
    if (*have == ZI_ID_NONE) {
        *have = grad;
        return ZICO_OK;
    }
    zi_ad_emit e = {.op = ZI_OP_ADD,
                    .leaf = "sum",
                    .n_in = 2,
                    .in = {*have, grad},
                    .n_out = 1,
                    .like = ZI_ID_NONE};
    return zi_ad_node(ad, &e, have);
}

zico_status
zi_ad_give_summed(zi_ad *ad, uint32_t i, zi_tensor_id grad)
{
    zi_shape from = zi_tensor_shape(&ad->g->tensors[grad]);
    zi_shape to = zi_tensor_shape(&ad->g->tensors[ad->node.in[i]]);
    zi_attr  sum = {.reduce = {.keep = 1}}, view = {.shape = {.rank = to.rank}};
    uint32_t lead = from.rank - to.rank;

    for (uint32_t k = 0; k < from.rank; k++) {
        bool repeated = k < lead || to.dims[k - lead] == 1;
        if (repeated && from.dims[k] > 1) sum.reduce.axes |= 1 << k;
    }
    zi_ad_emit e = {.op = ZI_OP_REDUCE_SUM,
                    .leaf = "fold",
                    .attr = &sum,
                    .n_in = 1,
                    .in = {grad},
                    .n_out = 1,
                    .like = ZI_ID_NONE};
    if (sum.reduce.axes) ZI_TRY(zi_ad_node(ad, &e, &grad));
    if (lead) {
        memcpy(view.shape.dims, to.dims, sizeof to.dims);
        e.op = ZI_OP_RESHAPE;
        e.leaf = "view";
        e.attr = &view;
        e.in[0] = grad;
        ZI_TRY(zi_ad_node(ad, &e, &grad));
    }
    return zi_ad_give(ad, i, grad);
}

/* ---- which op, which rule ------------------------------------------------------------ */

/* clang-format off */
zi_ad_rule *
zi_ad_rule_of(zi_op op)
{
    switch (op) {
    case ZI_OP_CONV2D: case ZI_OP_CONVT2D: return zi_ad_conv;
    case ZI_OP_LINEAR: return zi_ad_linear;
    case ZI_OP_MATMUL: return zi_ad_matmul;
    case ZI_OP_BIAS: return zi_ad_bias;
    case ZI_OP_BATCH_NORM: return zi_ad_batch_norm;
    case ZI_OP_BATCH_NORM_FIXED: return zi_ad_batch_norm_fixed;
    case ZI_OP_LAYER_NORM: return zi_ad_layer_norm;
    case ZI_OP_RELU: case ZI_OP_CLIP: case ZI_OP_SIGMOID: case ZI_OP_TANH:
    case ZI_OP_SOFTMAX: return zi_ad_from_output;
    case ZI_OP_GELU: case ZI_OP_SILU: return zi_ad_from_input;
    case ZI_OP_DROPOUT: return zi_ad_dropout;
    case ZI_OP_MAX_POOL: return zi_ad_max_pool;
    case ZI_OP_AVG_POOL: return zi_ad_avg_pool;
    case ZI_OP_GLOBAL_AVG_POOL: return zi_ad_global_pool;
    case ZI_OP_RESIZE: return zi_ad_resize;
    case ZI_OP_ADD: return zi_ad_add;
    case ZI_OP_SUB: return zi_ad_sub;
    case ZI_OP_MUL: return zi_ad_mul;
    case ZI_OP_DIV: return zi_ad_div;
    case ZI_OP_SCALE: return zi_ad_scale;
    case ZI_OP_BROADCAST: return zi_ad_broadcast;
    case ZI_OP_REDUCE_SUM: case ZI_OP_REDUCE_MEAN: return zi_ad_reduce;
    case ZI_OP_RESHAPE: return zi_ad_reshape;
    case ZI_OP_TRANSPOSE: return zi_ad_transpose;
    case ZI_OP_CONCAT: return zi_ad_concat;
    case ZI_OP_SPLIT: return zi_ad_split;
    case ZI_OP_SLICE: return zi_ad_slice;
    case ZI_OP_PAD: return zi_ad_pad;
    case ZI_OP_CROSS_ENTROPY: case ZI_OP_NLL: case ZI_OP_MSE: return zi_ad_loss;
    case ZI_OP_EMBEDDING: return zi_ad_embedding;
    case ZI_OP_LSTM_CELL: return zi_ad_lstm;
    default: return NULL;
    }
}
/* clang-format on */

/* ---- the sweeps ---------------------------------------------------------------------- */

/* Indices and labels have no gradient. */
static bool
smooth(const zi_graph *g, zi_tensor_id t)
{
    return t != ZI_ID_NONE && g->tensors[t].dtype == ZI_DTYPE_F32;
}

static void
find_wanted(zi_ad *ad, zi_tensor_id loss, bool *reach)
{
    const zi_graph *g = ad->g;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        ad->want[i] = g->tensors[i].role == ZI_ROLE_PARAM;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const zi_node *n = &g->nodes[i];
        bool           any = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            any |= smooth(g, n->in[k]) && ad->want[n->in[k]];
        for (uint32_t k = 0; any && k < n->n_out; k++)
            if (smooth(g, n->out[k])) ad->want[n->out[k]] = true;
    }
    reach[loss] = true;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const zi_node *n = &g->nodes[i];
        bool           any = false;
        for (uint32_t k = 0; k < n->n_out; k++)
            any |= n->out[k] != ZI_ID_NONE && reach[n->out[k]];
        for (uint32_t k = 0; any && k < n->n_in; k++)
            if (smooth(g, n->in[k])) reach[n->in[k]] = true;
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) ad->want[i] = ad->want[i] && reach[i];
}

static void
mark_finished(zi_ad *ad, zi_tensor_id of)
{
    zi_tensor_id d = of < ad->n_tensors ? ad->grad[of] : ZI_ID_NONE;
    if (d != ZI_ID_NONE && ad->g->tensors[d].grad_of == ZI_ID_NONE)
        ad->g->tensors[d].grad_of = of;
}

static zico_status
differentiate_node(zi_ad *ad, zi_node_id id)
{
    ad->id = id;
    ad->node = ad->g->nodes[id];
    ad->dy = ad->grad[ad->node.out[0]];
    bool live = false, wanted = false;
    for (uint32_t i = 0; i < ad->node.n_out; i++)
        live |=
            ad->node.out[i] < ad->n_tensors && ad->grad[ad->node.out[i]] != ZI_ID_NONE;
    for (uint32_t i = 0; i < ad->node.n_in; i++) wanted |= zi_ad_wants(ad, i);
    if (!live || !wanted) return ZICO_OK;

    zi_ad_rule *rule = zi_ad_rule_of(ad->node.op);
    if (!rule || (ad->dy == ZI_ID_NONE && ad->node.op != ZI_OP_SPLIT &&
                  ad->node.op != ZI_OP_LSTM_CELL))
        return zi_graph_complain(ad->diag, ZICO_E_UNSUPPORTED, id,
                                 "node '%s' (%s) has no gradient", ad->node.name,
                                 zi_op_get(ad->node.op)->text);
    for (uint32_t i = 0; i < ad->node.n_out; i++) mark_finished(ad, ad->node.out[i]);
    return rule(ad);
}

/* dloss/dloss = 1 */
static zico_status
seed_gradient(zi_ad *ad, zi_tensor_id loss)
{
    zi_attr    one = {.scale = {.alpha = 1}};
    zi_ad_emit e = {
        .op = ZI_OP_FILL, .leaf = "seed", .attr = &one, .n_out = 1, .like = loss};
    ad->id = ad->g->tensors[loss].producer;
    ad->node = ad->g->nodes[ad->id];
    return zi_ad_node(ad, &e, &ad->grad[loss]);
}

/* A parameter's gradient is a tensor of its own, even where two share one value. */
static zico_status
own_param_grads(zi_ad *ad)
{
    for (uint32_t i = 0; i < ad->n_tensors; i++) {
        zi_tensor_id d = ad->grad[i];
        if (ad->g->tensors[i].role != ZI_ROLE_PARAM || d == ZI_ID_NONE) continue;
        if (ad->g->tensors[d].grad_of == ZI_ID_NONE) {
            ad->g->tensors[d].grad_of = i;
            continue;
        }
        zi_attr    same = {.scale = {.alpha = 1}};
        zi_ad_emit e = {.op = ZI_OP_SCALE,
                        .leaf = "copy",
                        .attr = &same,
                        .n_in = 1,
                        .in = {d},
                        .n_out = 1,
                        .like = ZI_ID_NONE};
        ZI_TRY(zi_ad_node(ad, &e, &ad->grad[i]));
        ad->g->tensors[ad->grad[i]].grad_of = i;
    }
    return ZICO_OK;
}

static zico_status
sweep(zi_ad *ad, zi_tensor_id loss)
{
    ZI_TRY(seed_gradient(ad, loss));
    for (uint32_t i = ad->n_forward; i-- > 0;)
        if (ad->g->nodes[i].n_out) ZI_TRY(differentiate_node(ad, i));
    ZI_TRY(zi_ad_shared_finish(ad));
    ZI_TRY(own_param_grads(ad));
    ad->g->loss = loss;
    ad->g->differentiated = true;
    return ZICO_OK;
}

zico_status
zi_graph_differentiate(zi_graph *g, zi_tensor_id loss, zi_graph_diag *diag)
{
    if (g->differentiated)
        return zi_graph_complain(diag, ZICO_E_STATE, ZI_ID_NONE,
                                 "the graph is differentiated already");
    if (loss >= g->n_tensors || g->tensors[loss].rank != 0 ||
        g->tensors[loss].producer == ZI_ID_NONE)
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "the loss must be a scalar that a node makes");
    zi_ad ad = {.g = g, .diag = diag, .n_tensors = g->n_tensors, .n_forward = g->n_nodes};
    ad.grad = zi_malloc(g->n_tensors * sizeof *ad.grad);
    ad.want = zi_calloc(g->n_tensors, sizeof *ad.want);
    bool       *reach = zi_calloc(g->n_tensors, sizeof *reach);
    zico_status st = ZICO_E_NOMEM;

    if (ad.grad && ad.want && reach) {
        for (uint32_t i = 0; i < g->n_tensors; i++) ad.grad[i] = ZI_ID_NONE;
        find_wanted(&ad, loss, reach);
        st = ad.want[loss] ? sweep(&ad, loss)
                           : zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                               "the loss depends on no parameter");
    }
    zi_ad_shared_free(&ad);
    zi_free(ad.grad);
    zi_free(ad.want);
    zi_free(reach);
    return st;
}

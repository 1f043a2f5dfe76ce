/* autodiff_math.c -- gradients of elementwise, arithmetic and shape operators, losses. */
#include "graph/autodiff.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/try.h"

#include <string.h>

/* A node of up to two inputs with one inferred output. */
static zico_status
emit(zi_ad *ad, zi_op op, const char *leaf, const zi_attr *attr, zi_tensor_id a,
     zi_tensor_id b, zi_tensor_id *ret)
{
    zi_ad_emit e = {.op = op,
                    .leaf = leaf,
                    .attr = attr,
                    .n_in = b == ZI_ID_NONE ? 1 : 2,
                    .in = {a, b},
                    .n_out = 1,
                    .like = ZI_ID_NONE};
    return zi_ad_node(ad, &e, ret);
}

static zico_status
emit_give(zi_ad *ad, zi_op op, const zi_attr *attr, zi_tensor_id a, zi_tensor_id b)
{
    zi_tensor_id d;
    ZI_TRY(emit(ad, op, "dx", attr, a, b, &d));
    return zi_ad_give(ad, 0, d);
}

/* ---- elementwise --------------------------------------------------------------------- */

_Static_assert(ZI_OP_RELU_BWD == ZI_OP_RELU + 1 && ZI_OP_CLIP_BWD == ZI_OP_CLIP + 1 &&
                   ZI_OP_SIGMOID_BWD == ZI_OP_SIGMOID + 1 &&
                   ZI_OP_TANH_BWD == ZI_OP_TANH + 1 && ZI_OP_GELU_BWD == ZI_OP_GELU + 1 &&
                   ZI_OP_SILU_BWD == ZI_OP_SILU + 1 &&
                   ZI_OP_SOFTMAX_BWD == ZI_OP_SOFTMAX + 1,
               "the backward operator stands behind its forward one");

zico_status
zi_ad_from_output(zi_ad *ad)
{
    return emit_give(ad, (zi_op)(ad->node.op + 1), &ad->node.attr, ad->dy,
                     ad->node.out[0]);
}

zico_status
zi_ad_from_input(zi_ad *ad)
{
    return emit_give(ad, (zi_op)(ad->node.op + 1), &ad->node.attr, ad->dy,
                     ad->node.in[0]);
}

zico_status
zi_ad_dropout(zi_ad *ad)
{
    return emit_give(ad, ZI_OP_DROPOUT_BWD, &ad->node.attr, ad->dy, ZI_ID_NONE);
}

/* ---- arithmetic ---------------------------------------------------------------------- */

static zico_status
negate(zi_ad *ad, zi_tensor_id x, zi_tensor_id *ret)
{
    return emit(ad, ZI_OP_SCALE, "neg", &(zi_attr){.scale = {.alpha = -1}}, x, ZI_ID_NONE,
                ret);
}

zico_status
zi_ad_add(zi_ad *ad)
{
    for (uint32_t i = 0; i < 2; i++)
        if (zi_ad_wants(ad, i)) ZI_TRY(zi_ad_give_summed(ad, i, ad->dy));
    return ZICO_OK;
}

zico_status
zi_ad_sub(zi_ad *ad)
{
    zi_tensor_id d;
    if (zi_ad_wants(ad, 0)) ZI_TRY(zi_ad_give_summed(ad, 0, ad->dy));
    if (!zi_ad_wants(ad, 1)) return ZICO_OK;
    ZI_TRY(negate(ad, ad->dy, &d));
    return zi_ad_give_summed(ad, 1, d);
}

zico_status
zi_ad_mul(zi_ad *ad)
{
    for (uint32_t i = 0; i < 2; i++) {
        zi_tensor_id d;
        if (!zi_ad_wants(ad, i)) continue;
        ZI_TRY(
            emit(ad, ZI_OP_MUL, i ? "db" : "da", NULL, ad->dy, ad->node.in[1 - i], &d));
        ZI_TRY(zi_ad_give_summed(ad, i, d));
    }
    return ZICO_OK;
}

/* y = a/b: da = dy/b, db = -dy*y/b */
zico_status
zi_ad_div(zi_ad *ad)
{
    zi_tensor_id da, db;
    ZI_TRY(emit(ad, ZI_OP_DIV, "da", NULL, ad->dy, ad->node.in[1], &da));
    if (zi_ad_wants(ad, 0)) ZI_TRY(zi_ad_give_summed(ad, 0, da));
    if (!zi_ad_wants(ad, 1)) return ZICO_OK;
    ZI_TRY(emit(ad, ZI_OP_MUL, "db", NULL, da, ad->node.out[0], &db));
    ZI_TRY(negate(ad, db, &db));
    return zi_ad_give_summed(ad, 1, db);
}

zico_status
zi_ad_scale(zi_ad *ad)
{
    zi_attr a = {.scale = {.alpha = ad->node.attr.scale.alpha}};
    return emit_give(ad, ZI_OP_SCALE, &a, ad->dy, ZI_ID_NONE);
}

zico_status
zi_ad_broadcast(zi_ad *ad)
{
    return zi_ad_give_summed(ad, 0, ad->dy);
}

static zico_status
reshape_to(zi_ad *ad, const zi_shape *to, zi_tensor_id *x)
{
    zi_attr a = {.shape = {.rank = to->rank}};
    memcpy(a.shape.dims, to->dims, to->rank * sizeof to->dims[0]);
    return emit(ad, ZI_OP_RESHAPE, "view", &a, *x, ZI_ID_NONE, x);
}

zico_status
zi_ad_reduce(zi_ad *ad)
{
    zi_shape     x = zi_tensor_shape(&ad->g->tensors[ad->node.in[0]]), kept = x;
    zi_attr      shape = {.shape = {.rank = x.rank}};
    zi_tensor_id d = ad->dy;
    int64_t      count = 1;

    for (uint32_t i = 0; i < x.rank; i++) {
        shape.shape.dims[i] = x.dims[i];
        if (!(ad->node.attr.reduce.axes >> i & 1)) continue;
        count *= x.dims[i];
        kept.dims[i] = 1;
    }
    if (ad->node.op == ZI_OP_REDUCE_MEAN && count > 1) {
        zi_attr part = {.scale = {.alpha = 1.0 / (double)count}};
        ZI_TRY(emit(ad, ZI_OP_SCALE, "share", &part, d, ZI_ID_NONE, &d));
    }
    if (!ad->node.attr.reduce.keep) ZI_TRY(reshape_to(ad, &kept, &d));
    return emit_give(ad, ZI_OP_BROADCAST, &shape, d, ZI_ID_NONE);
}

/* ---- shape --------------------------------------------------------------------------- */

zico_status
zi_ad_reshape(zi_ad *ad)
{
    zi_shape     x = zi_tensor_shape(&ad->g->tensors[ad->node.in[0]]);
    zi_tensor_id d = ad->dy;
    ZI_TRY(reshape_to(ad, &x, &d));
    return zi_ad_give(ad, 0, d);
}

zico_status
zi_ad_transpose(zi_ad *ad)
{
    zi_attr inverse = {.perm = {{0}}};
    for (uint32_t i = 0; i < ad->g->tensors[ad->dy].rank; i++)
        inverse.perm.perm[ad->node.attr.perm.perm[i]] = i;
    return emit_give(ad, ZI_OP_TRANSPOSE, &inverse, ad->dy, ZI_ID_NONE);
}

zico_status
zi_ad_concat(zi_ad *ad)
{
    int64_t at = 0, axis = ad->node.attr.axis.axis;
    for (uint32_t i = 0; i < ad->node.n_in; i++) {
        zi_shape     x = zi_tensor_shape(&ad->g->tensors[ad->node.in[i]]);
        zi_attr      part = {.slice = {.begin = {0}}};
        zi_tensor_id d;
        part.slice.begin[axis] = at;
        memcpy(part.slice.size, x.dims, x.rank * sizeof x.dims[0]);
        at += x.dims[axis];
        if (!zi_ad_wants(ad, i)) continue;
        ZI_TRY(emit(ad, ZI_OP_SLICE, "part", &part, ad->dy, ZI_ID_NONE, &d));
        ZI_TRY(zi_ad_give(ad, i, d));
    }
    return ZICO_OK;
}

/* Parts without a gradient count as zero. */
static zico_status
part_gradient(zi_ad *ad, uint32_t i, zi_tensor_id *ret)
{
    zi_attr    zero = {.scale = {0}};
    zi_ad_emit e = {.op = ZI_OP_FILL,
                    .leaf = "zero",
                    .attr = &zero,
                    .n_out = 1,
                    .like = ad->node.out[i]};
    *ret = ad->grad[ad->node.out[i]];
    return *ret == ZI_ID_NONE ? zi_ad_node(ad, &e, ret) : ZICO_OK;
}

static zico_status
join_parts(zi_ad *ad, zi_tensor_id *part)
{
    zi_tensor_id d;
    for (uint32_t i = 0; i < ad->node.n_out; i++) ZI_TRY(part_gradient(ad, i, &part[i]));
    ZI_TRY(zi_ad_join(ad, "join", ad->node.attr.split.axis, ad->node.n_out, part, &d));
    return zi_ad_give(ad, 0, d);
}

zico_status
zi_ad_split(zi_ad *ad)
{
    zi_tensor_id *part = zi_calloc(ad->node.n_out, sizeof *part);
    if (!part) return ZICO_E_NOMEM;
    zico_status st = join_parts(ad, part);
    zi_free(part);
    return st;
}

zico_status
zi_ad_slice(zi_ad *ad)
{
    zi_shape x = zi_tensor_shape(&ad->g->tensors[ad->node.in[0]]);
    zi_attr  a = {.pad = {.value = 0}};
    for (uint32_t i = 0; i < x.rank; i++) {
        a.pad.before[i] = ad->node.attr.slice.begin[i];
        a.pad.after[i] = x.dims[i] - a.pad.before[i] - ad->node.attr.slice.size[i];
    }
    return emit_give(ad, ZI_OP_PAD, &a, ad->dy, ZI_ID_NONE);
}

zico_status
zi_ad_pad(zi_ad *ad)
{
    zi_shape x = zi_tensor_shape(&ad->g->tensors[ad->node.in[0]]);
    zi_attr  a = {.slice = {.begin = {0}}};
    for (uint32_t i = 0; i < x.rank; i++) {
        a.slice.begin[i] = ad->node.attr.pad.before[i];
        a.slice.size[i] = x.dims[i];
    }
    return emit_give(ad, ZI_OP_SLICE, &a, ad->dy, ZI_ID_NONE);
}

/* ---- losses -------------------------------------------------------------------------- */

zico_status
zi_ad_loss(zi_ad *ad)
{
    const zi_node *n = &ad->node;
    zi_ad_emit     e = {.op = (zi_op)(n->op + 1),
                        .leaf = "dx",
                        .attr = &n->attr,
                        .n_in = 3,
                        .in = {n->in[0], n->in[1], ad->dy},
                        .n_out = 1,
                        .like = ZI_ID_NONE};
    zi_tensor_id   d;
    if (n->op == ZI_OP_CROSS_ENTROPY) {
        e.n_in = 4;
        e.in[2] = n->out[1];
        e.in[3] = ad->dy;
    }
    if (zi_ad_wants(ad, 0)) {
        ZI_TRY(zi_ad_node(ad, &e, &d));
        ZI_TRY(zi_ad_give(ad, 0, d));
    }
    if (n->op != ZI_OP_MSE || !zi_ad_wants(ad, 1)) return ZICO_OK;
    e.in[0] = n->in[1]; /* a learnt target: the same with the two exchanged */
    e.in[1] = n->in[0];
    e.leaf = "dt";
    ZI_TRY(zi_ad_node(ad, &e, &d));
    return zi_ad_give(ad, 1, d);
}

_Static_assert(ZI_OP_CROSS_ENTROPY_BWD == ZI_OP_CROSS_ENTROPY + 1 &&
                   ZI_OP_NLL_BWD == ZI_OP_NLL + 1 && ZI_OP_MSE_BWD == ZI_OP_MSE + 1,
               "the backward operator stands behind its forward one");

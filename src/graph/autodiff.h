/* autodiff.h -- what the rules of differentiation share; nobody outside includes it.
 *
 * A rule gets a forward node whose outputs have gradients, appends backward nodes, and
 * gives each wanted input its gradient.  It reads only what the backward operator needs,
 * and emits nothing for an input that no parameter stands behind.
 */
#ifndef ZI_GRAPH_AUTODIFF_H
#define ZI_GRAPH_AUTODIFF_H

#include "graph/graph.h"

typedef struct zi_ad {
    zi_graph      *g;
    zi_graph_diag *diag;
    uint32_t       n_tensors; /* of the forward graph; grad and want have this length */
    uint32_t       n_forward; /* nodes of the forward graph                            */
    struct zi_ad_shared *shared; /* weights whose gradients are gathered               */
    zi_tensor_id        *grad; /* finished or growing gradient; NONE: none yet          */
    bool                *want; /* on a way from a parameter to the loss                 */
    zi_node_id           id;   /* the forward node at hand ...                          */
    zi_node              node; /* ... a copy that survives growing arrays ...           */
    zi_tensor_id         dy;   /* ... and the gradient of its output 0 (NONE: none)     */
} zi_ad;

typedef zico_status zi_ad_rule(zi_ad *ad);

zi_ad_rule *zi_ad_rule_of(zi_op op); /* NULL: this op has no gradient */

/* Append one backward node named after the forward one; outputs 0 .. n_out-1 are made,
 * output 0 with the shape of tensor `like` (NONE: as inferred). */
typedef struct zi_ad_emit {
    zi_op          op;
    const char    *leaf;
    const zi_attr *attr;
    uint32_t       n_in;
    zi_tensor_id   in[6];
    uint32_t       n_out;
    zi_tensor_id   like;
} zi_ad_emit;
zico_status zi_ad_node(zi_ad *ad, const zi_ad_emit *e, zi_tensor_id *ret_out);

/* Input position i: does it want a gradient?  Hand it one (summed with earlier ones). */
bool        zi_ad_wants(const zi_ad *ad, uint32_t i);
zico_status zi_ad_give(zi_ad *ad, uint32_t i, zi_tensor_id grad);

/* Sum `grad` down to the shape of input i, which was broadcast; then give it. */
zico_status zi_ad_give_summed(zi_ad *ad, uint32_t i, zi_tensor_id grad);

/* One node that joins n tensors along an axis. */
zico_status zi_ad_join(zi_ad *ad, const char *leaf, int64_t axis, uint32_t n,
                       const zi_tensor_id *part, zi_tensor_id *ret);

/* The weight gradient of a linear node whose weight many nodes share (a cell unrolled over
 * time): put it off, to be made for several nodes at once.  False: not such a node. */
bool zi_ad_put_off(zi_ad *ad, zico_status *ret_st);

/* Make what is still put off; and forget everything. */
zico_status zi_ad_shared_finish(zi_ad *ad);
void        zi_ad_shared_free(zi_ad *ad);

/* Rules by family. */
zi_ad_rule zi_ad_conv, zi_ad_linear, zi_ad_matmul, zi_ad_bias, zi_ad_batch_norm,
    zi_ad_batch_norm_fixed, zi_ad_layer_norm, zi_ad_max_pool, zi_ad_avg_pool,
    zi_ad_global_pool, zi_ad_resize, zi_ad_embedding, zi_ad_lstm;
zi_ad_rule zi_ad_from_output, zi_ad_from_input, zi_ad_dropout, zi_ad_add, zi_ad_sub,
    zi_ad_mul, zi_ad_div, zi_ad_scale, zi_ad_broadcast, zi_ad_reduce, zi_ad_reshape,
    zi_ad_transpose, zi_ad_concat, zi_ad_split, zi_ad_slice, zi_ad_pad, zi_ad_loss;

#endif /* ZI_GRAPH_AUTODIFF_H */

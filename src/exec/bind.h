/* exec/bind.h -- a graph with kernels and layouts chosen.
 *
 * Walks the nodes in order and decides for each: which kernel, and in which layout it reads and
 * writes.  A tensor has one layout, its producer's; where a reader needs another, the node gets
 * a *move*: the operand is brought into scratch before the kernel, or out of it behind it.
 *
 * RULES
 *   B1  Tensors that have views, or are one, lie plain, so that the graph's view rules hold.
 *   B2  Padding (channels up to a whole block) is zero in every tensor at all times.
 *   B3  Gradients and optimizer state lie as their parameter; an update is one flat loop.
 */
#ifndef ZI_EXEC_BIND_H
#define ZI_EXEC_BIND_H

#include "exec/kernel.h"
#include "exec/onednn/dnn.h"
#include "plan/plan.h"

typedef struct zi_move {
    char         where; /* 'i' in, 'o' out, 'u' up */
    uint32_t     pos;
    zi_kview     tensor, kernel; /* how the tensor lies, how the kernel wants it */
    uint64_t     offset;         /* in the node's scratch */
    zi_dnn_move *there, *back;   /* where one side is OPAQUE; NULL: own reorder  */
} zi_move;

typedef struct zi_bnode {
    zi_kop   k;
    zi_move *moves;
    uint32_t n_moves;
    uint64_t scratch_bytes; /* kernel's, then one piece per move */
} zi_bnode;

typedef struct zi_bound {
    const zi_graph    *g;
    const zi_kern_set *own;
    zi_dnn            *dnn; /* NULL: plain kernels only */
    unsigned           n_threads;
    zi_kview          *view; /* [n_tensors] */
    zi_bnode          *node; /* [n_nodes]   */
    uint32_t           max_refs;
} zi_bound;

ZICO_NODISCARD zico_status zi_bind(const zi_graph *g, unsigned n_threads, bool plain,
                                   zi_graph_diag *diag, zi_bound **ret_bound);
void                       zi_bound_free(zi_bound *b); /* NULL is fine */

/* Bytes with padding, scratch, guessed times. */
ZICO_NODISCARD zico_status zi_bound_cost(const zi_bound *b, zi_cost **ret_cost);

/* Copy between a tensor's own layout and plain; allocates what it needs. */
ZICO_NODISCARD zico_status zi_bound_unpack(const zi_bound *b, zi_tensor_id t,
                                           const void *src, void *ret_plain);
ZICO_NODISCARD zico_status zi_bound_pack(const zi_bound *b, zi_tensor_id t,
                                         const void *plain, void *ret_dst);

#endif /* ZI_EXEC_BIND_H */

/* rewrite.h -- what the passes of this room share; nobody outside includes it. */
#ifndef ZI_GRAPH_REWRITE_H
#define ZI_GRAPH_REWRITE_H

#include "graph/graph.h"

/* Fill a diagnosis (NULL: drop it) and hand the status back. */
zico_status zi_graph_complain(zi_graph_diag *d, zico_status st, zi_node_id node,
                              const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* "[8,3,32,32]" into buf; returns buf. */
#define ZI_DIMS_TEXT 160
const char *zi_dims_text(uint32_t rank, const int64_t *dims, char buf[ZI_DIMS_TEXT]);

/* Make an optional output of an existing node, if it is not there yet. */
zico_status zi_graph_want_out(zi_graph *g, zi_node_id n, uint32_t position,
                              zi_graph_diag *diag, zi_tensor_id *ret_id);

/* Add a tensor produced by a node that the caller links itself (parser, rewriting). */
zico_status zi_graph_link_node(zi_graph *g, const zi_node_spec *spec,
                               const zi_tensor_id *out, zi_graph_diag *diag);

/* Bring nodes into `order` (n_order ids; nodes not listed are deleted), drop ACTIVATION,
 * GRAD and SCRATCH tensors without producer, and rebuild every link.  Ids change. */
zico_status zi_graph_reorder(zi_graph *g, const zi_node_id *order, uint32_t n_order);

/* Delete nodes that neither a live tensor nor a state depends on.  Ids change. */
zico_status zi_graph_prune(zi_graph *g);

/* Enter a node into producer, readers and updater of its tensors; in ascending order. */
zico_status zi_graph_link_tensors(zi_graph *g, zi_node_id id);

/* Shapes of a node's inputs, with NULL for absent ones; arrays of n_in elements. */
void zi_graph_gather(const zi_graph *g, uint32_t n_in, const zi_tensor_id *in,
                     zi_shape *shape, const zi_shape **ptr);

#endif /* ZI_GRAPH_REWRITE_H */

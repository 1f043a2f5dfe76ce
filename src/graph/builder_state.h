/* builder_state.h -- the builder's inside, shared by builder.c, layers.c and import/. */
#ifndef ZI_GRAPH_BUILDER_STATE_H
#define ZI_GRAPH_BUILDER_STATE_H

#include "graph/builder.h"

#define ZI_GB_MAX_DEPTH 16

struct zi_gb {
    zi_graph     *g;
    zico_status   st; /* the first failure; sticky */
    zi_graph_diag diag;
    bool          training;
    uint64_t      seed;
    uint32_t      n_random; /* streams handed out */
    uint32_t      depth;
    size_t        mark[ZI_GB_MAX_DEPTH]; /* lengths of the enclosing scopes */
    char          scope[ZI_NAME_BYTES];
    char          name[ZI_NAME_BYTES]; /* the last answer of zi_gb_name */
};

/* Failed, or no such tensor. */
bool zi_gb_lacks(const zi_gb *b, zi_tensor_id t);

/* "scope.name.leaf", whatever of it is there; valid until the next call. */
const char *zi_gb_name(zi_gb *b, const char *name, const char *leaf);

/* Append a node; ret_out takes n_out ids, all NONE after a failure. */
void zi_gb_node(zi_gb *b, const zi_node_spec *spec, zi_tensor_id *ret_out);

/* Batch norm of given tensors: x, gamma, beta, running mean and variance. */
zi_tensor_id
zi_gb_batch_norm_on(zi_gb *b, const char *name, zi_attr a, const zi_tensor_id in[5]);

#endif /* ZI_GRAPH_BUILDER_STATE_H */

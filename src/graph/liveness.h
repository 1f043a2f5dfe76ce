/* liveness.h -- when each tensor is born and last used, over the node order. */
#ifndef ZI_GRAPH_LIVENESS_H
#define ZI_GRAPH_LIVENESS_H

#include "graph/graph.h"

/* Positions are node ids; -1: before the first node.  n_nodes: after the last. */
typedef struct zi_live {
    int64_t def;       /* the producer; -1 for what is there before the step            */
    int64_t last_use;  /* last reader or updater; n_nodes for what lives on; = def for a
                       * tensor that nobody reads                                      */
    zi_tensor_id root; /* who owns the bytes: itself, or the source of the view chain  */
} zi_live;

typedef struct zi_liveness {
    uint32_t  n_tensors, n_nodes;
    zi_live  *tensor; /* [n_tensors]; for a root, last_use covers all its views      */
    uint64_t *live_bytes; /* [n_nodes]: bytes of roots present while node i runs        */
    uint64_t  fixed_bytes; /* PARAM + STATE + INPUT + LABEL: present throughout         */
    uint64_t  peak_bytes;  /* highest live_bytes; the lower bound of free-after-last-use
                            * without overwriting inputs                                */
    uint64_t  peak_inplace_bytes; /* the same, when outputs take the place of dying inputs
                                   * wherever zi_graph_may_overwrite allows it          */
    zi_node_id peak_node;
} zi_liveness;

ZICO_NODISCARD zico_status zi_liveness_of(const zi_graph *g, zi_liveness **ret_live);
void                       zi_liveness_free(zi_liveness *l);

#endif /* ZI_GRAPH_LIVENESS_H */

/* zico_net.h -- what the public handle holds, for the engine. */
#ifndef ZI_GRAPH_ZICO_NET_H
#define ZI_GRAPH_ZICO_NET_H

#include "graph/graph.h"
#include "zico/graph.h"

/* The graph of a finished net, owned by it; NULL: not finished, or failed. */
const zi_graph *zi_graph_of_net(const zico_net *net);

#endif /* ZI_GRAPH_ZICO_NET_H */

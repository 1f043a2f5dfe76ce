/* plan_nets.h -- small whole training graphs for the tests of plans and planners. */
#ifndef ZI_TEST_PLAN_NETS_H
#define ZI_TEST_PLAN_NETS_H

#include <stddef.h>
#include "graph/graph.h"

typedef struct t_net {
    const char *name;
    zi_graph *(*make)(void);
} t_net;

/* Chain of convolutions, residual net, U with skips, dense concats, unrolled LSTM, attention;
 * fused, differentiated, updated.  All fail the test rather than return an error. */
extern const t_net  t_nets[];
extern const size_t t_n_nets;

zi_graph *t_net_chain(int layers, int batch);
zi_graph *t_net_residual(int blocks, int batch);
zi_graph *t_net_lstm(int steps, int batch, int hidden);

/* A forward graph of random shape (forks, joins, views, in-place), then all passes. */
zi_graph *t_net_random(void);

#endif /* ZI_TEST_PLAN_NETS_H */

/* zoo.h -- real networks by name: "resnet50:classes=10,size=64".
 *
 * A network is one page: a list of parameters and a function that writes it down with the
 * builder.  Parameters are named and begun as in the PyTorch original, so that weights
 * can be exchanged.  To add one: write zoo/NAME.c, list it in zoo.c, count its parameters
 * in zoo_test.c.
 *
 * Images come as "x" (N,C,H,W), tokens as "tokens" (N,T) i32; labels as "labels" i32.
 * A training graph ends in a scalar loss; both kinds list their logits in outputs.
 */
#ifndef ZI_GRAPH_ZOO_H
#define ZI_GRAPH_ZOO_H

#include "graph/graph.h"

#define ZI_ZOO_MAX_PARAMS 8

typedef struct zi_zoo_param {
    const char *name; /* NULL ends the list */
    double      def, lo, hi;
    bool        real; /* else a whole number */
} zi_zoo_param;

typedef struct zi_zoo_args {
    int64_t batch;
    double  v[ZI_ZOO_MAX_PARAMS]; /* in the order of the network's list */
} zi_zoo_args;

struct zi_gb;

typedef struct zi_zoo_net {
    const char         *name;
    const char         *about; /* one line: what, and the paper */
    const zi_zoo_param *params;
    void (*build)(struct zi_gb *b, const zi_zoo_args *a);
} zi_zoo_net;

size_t            zi_zoo_count(void);
const zi_zoo_net *zi_zoo_at(size_t i);
const zi_zoo_net *zi_zoo_find(const char *name); /* NULL: no such network */

/* Is this the name of a network, with or without parameters behind a colon? */
bool zi_zoo_knows(const char *spec);

/* ZICO_E_NOTFOUND: no such network, `diag` lists those there are.  ZICO_E_ARG: a parameter
 * is unknown or out of range, `diag` names it and what is allowed. */
ZICO_NODISCARD zico_status zi_zoo_build(const char *spec, int64_t batch, bool training,
                                        uint64_t seed, zi_graph_diag *diag,
                                        zi_graph **ret_graph);

#endif /* ZI_GRAPH_ZOO_H */

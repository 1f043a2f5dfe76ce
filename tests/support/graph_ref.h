/* graph_ref.h -- every operator once more, in double, with plain loops: slow and obvious.
 *
 * Autodiff is checked against finite differences of it, kernels are compared with it.
 * Every tensor is an array of doubles in plain row-major layout, also labels, indices
 * and masks (one double per element).
 */
#ifndef ZI_GRAPH_REF_H
#define ZI_GRAPH_REF_H

#include "graph/graph.h"

/* Run nodes [first, end) of the graph.  value[t] must be there (zi_tensor_elems(t)
 * doubles, made with malloc) for what exists before; outputs are made where NULL.
 * Updated tensors change in place.  `step` feeds random nodes. */
void zi_ref_run_part(const zi_graph *g, zi_node_id first, zi_node_id end, uint32_t step,
                     double **value);

/* The whole graph. */
void zi_ref_run(const zi_graph *g, uint32_t step, double **value);

/* n_tensors NULLs, and freeing all of it. */
double **zi_ref_new(const zi_graph *g);
void     zi_ref_free(const zi_graph *g, double **value);

/* Give a tensor its array, zeroed (again: as it is). */
double *zi_ref_make(const zi_graph *g, double **value, zi_tensor_id t);

/* INPUT: normal-ish numbers; LABEL and integer INPUT: below n_classes; PARAM and STATE by
 * their init (CONST) or small random numbers; lr 0.1; step 1.  Uses t_rand. */
void zi_ref_fill(const zi_graph *g, double **value, int64_t n_classes);

#endif /* ZI_GRAPH_REF_H */

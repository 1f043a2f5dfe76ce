/* planner/monger.h -- plans from given cuts, and how the cuts are found. */
#ifndef ZI_PLANNER_MONGER_H
#define ZI_PLANNER_MONGER_H

#include "planner/draft.h"
#include "planner/planner.h"

/* Fates for segments that end after the nodes in `cut` (ascending): what crosses no cut is made
 * again, segment by segment, when the backward pass gets there; what lies behind the last cut
 * stays. */
void zi_monger_cut(zi_draft *d, const zi_node_id *cut, size_t n_cuts);

/* The same segments, but their borders are made again, too: on the way back the middle of what
 * was lost is kept, the middle of its second half, and so on.  ret_border [n_tensors] is the
 * draft's to read for as long as it has these fates. */
void
zi_monger_halve(zi_draft *d, const zi_node_id *cut, size_t n_cuts, uint32_t *ret_border);

/* Every floor(sqrt(n))-th of n eligible nodes.  ret_cut has room for n; returns how many. */
size_t zi_monger_sqrt(const zi_node_id *eligible, size_t n, zi_node_id *ret_cut);

/* Add up what nodes make; at the first eligible node where the sum exceeds `threshold_bytes`,
 * cut and begin anew. ret_largest: bytes of the largest segment; ret_kept: of what crosses. */
size_t zi_monger_greedy(const zi_draft *d, const zi_node_id *eligible, size_t n,
                        uint64_t threshold_bytes, zi_node_id *ret_cut,
                        uint64_t *ret_kept_bytes, uint64_t *ret_largest_bytes);

/* Forward nodes after which at most `n_crossing` tensors are still read by forward nodes;
 * ret_node has room for all nodes. */
ZICO_NODISCARD zico_status zi_monger_eligible(const zi_draft *d, uint32_t n_crossing,
                                              zi_node_id *ret_node, size_t *ret_n);

#endif /* ZI_PLANNER_MONGER_H */

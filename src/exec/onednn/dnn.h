/* exec/onednn/dnn.h -- all that the executor knows of oneDNN.
 *
 * Binds convolutions (six operators) and matrix products to oneDNN's kernels: chooses the
 * layouts that the kernel likes, and writes them into the bound node's views.  Whoever binds
 * then brings the operands into these layouts.  One primitive per thread count in {1, all}
 * (a primitive keeps the count it was made for); the one for 1 is made when first needed.
 * Scratch is given by the caller; nothing is allocated while a step runs, but for oneDNN's own
 * list of operands (small, freed within the call) and, without AVX-512, sgemm's buffer.
 *
 * THREADS  One binding thread and one computing thread, not at the same time.
 */
#ifndef ZI_EXEC_DNN_H
#define ZI_EXEC_DNN_H

#include "exec/kernel.h"

typedef struct zi_dnn zi_dnn;

zico_status zi_dnn_new(unsigned n_threads, const zi_kern_set *own, zi_dnn **ret_dnn);
void        zi_dnn_free(zi_dnn *d); /* and everything bound with it; NULL is fine */

/* Channels per block that oneDNN likes here: 16 with AVX-512, else 8. */
uint32_t zi_dnn_block(void);

/* Bind the node.  In: views of its operands, with the layouts that the tensors have now
 * (weights and their gradient: PLAIN means that nothing has been chosen yet).  Out: fn, prim,
 * text, scratch_bytes, and the layouts that the kernel wants.  ZICO_E_UNSUPPORTED: there is
 * nothing better than the own kernel. */
zico_status zi_dnn_bind(zi_dnn *d, zi_kop *k);

bool zi_dnn_same(const zi_layout *a, const zi_layout *b);

/* A reorder where one side is OPAQUE. */
typedef struct zi_dnn_move zi_dnn_move;
zico_status zi_dnn_move_new(zi_dnn *d, const zi_kview *from, const zi_kview *to,
                            zi_dnn_move **ret_move);
void        zi_dnn_move_run(zi_dnn_move *m, const void *src, void *dst);
/* The same with one thread, leaving nothing behind: for values that pass the door. */
zico_status zi_dnn_move_once(zi_dnn *d, const zi_kview *from, const void *src,
                             const zi_kview *to, void *dst);

/* Did a kernel or a reorder fail?  What came out of it is worth nothing.  NULL is fine. */
bool zi_dnn_failed(const zi_dnn *d);

/* Called on the computing thread before kernels run with another number of threads. */
void zi_dnn_set_threads(unsigned n_threads);

#endif /* ZI_EXEC_DNN_H */

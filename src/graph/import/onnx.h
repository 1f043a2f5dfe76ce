/* onnx.h -- from the bytes of an .onnx file to a graph that trains.
 *
 * Opsets 11 to 17.  Initializers become parameters with their values; constants stay
 * constant; BatchNormalization in inference form becomes one that learns (training) or
 * uses its running statistics (inference).  Weights of MatMul and untransposed Gemm are
 * stored transposed, as linear layers have them.
 *
 * Files are not trusted: sizes, depth, order and shapes are checked, and every refusal
 * names node, operator and opset where there is one.
 */
#ifndef ZI_GRAPH_ONNX_H
#define ZI_GRAPH_ONNX_H

#include "graph/graph.h"

typedef struct zi_onnx_options {
    int64_t  batch;    /* first dim of every input; 0: as in the file       */
    bool     training; /* batch statistics, dropout, and a loss at the end  */
    uint64_t seed;     /* of dropout                                        */
} zi_onnx_options;

/* With `training`, "labels" and a cross-entropy loss are put behind the first output.
 * ZICO_E_FORMAT: the file is damaged.  ZICO_E_UNSUPPORTED: well-formed, but more than is
 * understood here.  ZICO_E_SHAPE: its shapes do not fit together. */
ZICO_NODISCARD zico_status zi_onnx_import(const void *data, size_t n_bytes,
                                          const zi_onnx_options *opt, zi_graph_diag *diag,
                                          zi_graph **ret_graph);

#endif /* ZI_GRAPH_ONNX_H */

/* net.h -- a network by its name: one of the zoo's, or an ONNX file. */
#ifndef ZI_TRAIN_NET_H
#define ZI_TRAIN_NET_H

#include "graph/graph.h"
#include "os/os.h"
#include "train/diag.h"

/* "resnet50:classes=10,size=64", or a path that ends in .onnx.  batch 0: the file's own, or
 * 64.  ZICO_E_NOTFOUND: no such network; the sentence lists those there are. */
ZICO_NODISCARD zico_status zi_net_build(const zi_os *os, const char *spec, int64_t batch,
                                        bool training, uint64_t seed, zi_train_diag *diag,
                                        zi_graph **ret_graph);

/* "resnet50" of either; at most cap bytes with the end. */
void zi_net_short_name(const char *spec, char *ret_name, size_t cap);

#endif /* ZI_TRAIN_NET_H */

/* onnx_fuzz.c -- whatever bytes come as an ONNX file: an error, or a graph that verifies. */
#include "graph/import/onnx.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int training = 0; training < 2; training++) {
        zi_graph       *g = NULL;
        zi_graph_diag   d;
        zi_onnx_options o = {.batch = training ? 2 : 0, .training = training, .seed = 1};
        if (zi_onnx_import(data, size, &o, &d, &g) < 0) continue;
        if (zi_graph_fuse(g, &d) < 0 || zi_graph_verify(g, &d) < 0) abort();
        if (training && zi_graph_differentiate(g, g->loss, &d) >= 0 &&
            zi_graph_verify(g, &d) < 0)
            abort();
        zi_graph_free(g);
    }
    return 0;
}

/* graph_text_fuzz.c -- whatever text comes as a graph: an error that names a line, or a
 * graph that verifies, has a tide, and prints to text that parses to the same again. */
#include "graph/graph.h"
#include "graph/liveness.h"
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(int holds)
{
    if (!holds) abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zi_graph     *g = NULL, *h = NULL;
    zi_liveness  *l = NULL;
    zi_graph_diag d = {0};
    char         *a, *b;

    if (zi_graph_parse((const char *)data, size, &d, &g) < 0) {
        must(d.text[0] != 0);
        return 0;
    }
    must(zi_graph_verify(g, &d) >= 0);
    must(zi_liveness_of(g, &l) >= 0 && l->peak_inplace_bytes <= l->peak_bytes);
    must(zi_graph_print(g, &a) >= 0 && zi_graph_parse(a, strlen(a), &d, &h) >= 0);
    must(zi_graph_print(h, &b) >= 0 && strcmp(a, b) == 0);
    if (!g->differentiated && zi_graph_fuse(g, &d) >= 0)
        must(zi_graph_verify(g, &d) >= 0);
    if (!g->differentiated && g->loss != ZI_ID_NONE &&
        zi_graph_differentiate(g, g->loss, &d) >= 0)
        must(zi_graph_verify(g, &d) >= 0);
    zi_free(a);
    zi_free(b);
    zi_liveness_free(l);
    zi_graph_free(g);
    zi_graph_free(h);
    return 0;
}

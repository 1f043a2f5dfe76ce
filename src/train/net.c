/* net.c -- a network by its name. */
#include "train/net.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "graph/zoo/zoo.h"
#include "train/infile.h"

#define DEFAULT_BATCH 64

static bool
is_onnx(const char *spec)
{
    size_t n = strlen(spec);
    return n > 5 && strcmp(spec + n - 5, ".onnx") == 0;
}

zico_status
zi_net_build(const zi_os *os, const char *spec, int64_t batch, bool training,
             uint64_t seed, zi_train_diag *diag, zi_graph **ret_graph)
{
    zi_graph_diag why = {.text = ""};
    zico_status   st;

    (void)os;
    if (is_onnx(spec))
        return zi_train_fail(diag, ZICO_E_UNSUPPORTED, "%s: no importer", spec);
    st = zi_zoo_build(spec, batch > 0 ? batch : DEFAULT_BATCH, training, seed, &why,
                      ret_graph);
    if (st < 0)
        return zi_train_fail(diag, st, "%s",
                             why.text[0] ? why.text : zico_status_text(st));
    return ZICO_OK;
}

void
zi_net_short_name(const char *spec, char *ret_name, size_t cap)
{
    const char *slash = is_onnx(spec) ? strrchr(spec, '/') : NULL;
    const char *from = slash ? slash + 1 : spec;
    size_t      n = is_onnx(spec) ? strlen(from) - 5 : strcspn(from, ":");

    snprintf(ret_name, cap, "%.*s", (int)n, from);
}

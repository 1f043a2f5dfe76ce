/* net.c -- a network by its name. */
#include "train/net.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "graph/import/onnx.h"
#include "graph/zoo/zoo.h"
#include "train/infile.h"

#define DEFAULT_BATCH 64
#define MAX_ONNX      ((uint64_t)2 << 30) /* protobuf's own limit */

static bool
is_onnx(const char *spec)
{
    size_t n = strlen(spec);
    return n > 5 && strcmp(spec + n - 5, ".onnx") == 0;
}

static zico_status
read_onnx(const zi_os *os, const char *path, const zi_onnx_options *opt,
          zi_train_diag *diag, zi_graph **ret_graph)
{
    zi_graph_diag why = {.text = ""};
    zi_infile     f = {0};
    void         *bytes = NULL;

    zico_status st = zi_infile_open(os, path, diag, &f);
    if (st < 0) return st;
    if (f.n_bytes > MAX_ONNX)
        st = zi_train_fail(diag, ZICO_E_FORMAT, "%s: larger than 2 GiB, no ONNX file is",
                           path);
    if (st >= 0 && !(bytes = zi_malloc(f.n_bytes))) st = ZICO_E_NOMEM;
    if (st >= 0) st = zi_infile_read(&f, 0, bytes, f.n_bytes, diag);
    if (st >= 0) {
        st = zi_onnx_import(bytes, f.n_bytes, opt, &why, ret_graph);
        if (st < 0)
            zi_train_fail(diag, st, "%s: %s", path,
                          why.text[0] ? why.text : zico_status_text(st));
    }
    zi_free(bytes);
    zi_infile_close(&f);
    return st;
}

zico_status
zi_net_build(const zi_os *os, const char *spec, int64_t batch, bool training,
             uint64_t seed, zi_train_diag *diag, zi_graph **ret_graph)
{
    zi_graph_diag why = {.text = ""};

    if (is_onnx(spec)) {
        const zi_onnx_options opt = {.batch = batch, .training = training, .seed = seed};
        return read_onnx(os, spec, &opt, diag, ret_graph);
    }
    zico_status st = zi_zoo_build(spec, batch > 0 ? batch : DEFAULT_BATCH, training, seed,
                                  &why, ret_graph);
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

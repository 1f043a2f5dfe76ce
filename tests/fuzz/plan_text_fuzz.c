/* plan_text_fuzz.c -- any text is a plan or a clear refusal; what prints is read again; and the
 * checker judges whatever was read without falling over. */
#include "base/alloc.h"
#include "graph/builder.h"
#include "plan/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static zi_graph *
make_graph(void)
{
    zi_gb       *b = zi_gb_new("net", true, 1);
    zi_graph    *g = NULL;
    zi_optim     opt = zi_optim_default(ZI_OPTIM_SGD);
    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){2, 3, 4, 4});
    x = zi_gb_conv2d(b, x, "c", &(zi_conv_opt){.out = 4, .kernel = 3, .pad = 1});
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "n", NULL));
    x = zi_gb_linear(b, zi_gb_flatten(b, x, 1), "f", 3, true);
    zi_gb_cross_entropy(b, x, zi_gb_label(b, "y", 1, (int64_t[]){2}));
    if (zi_gb_finish(b, NULL, &g) < 0 || zi_graph_fuse(g, NULL) < 0 ||
        zi_graph_differentiate(g, g->loss, NULL) < 0 ||
        zi_graph_add_update(g, &opt, NULL) < 0)
        abort();
    return g;
}

/* Judge it; a plan that passes is simulated, placed, and judged again. */
static void
judge(zi_plan *p, const zi_graph *g, const zi_cost *c)
{
    zi_verdict     v, w;
    zi_forecast    f;
    zi_place_stats s;

    if (zi_plan_check(p, g, c, 0, &v) < 0) {
        if (v.rule < 1 || v.rule > 8 || !v.text[0]) abort();
        return;
    }
    if (zi_plan_simulate(p, g, c, NULL, &f) < 0 || f.peak_bytes != v.peak_bytes) abort();
    if (zi_plan_place(p, g, c, 4096, 64, &s) < 0) abort();
    if (zi_plan_check(p, g, c, 0, &w) < 0 || w.peak_bytes != v.peak_bytes) abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zi_graph *g;
    static zi_cost  *c;
    zi_plan         *p = NULL, *q = NULL;
    char            *a, *b;
    zi_graph_diag    d = {0};

    if (!g) g = make_graph();
    if (!c && zi_cost_guess(g, &c) < 0) abort();
    zico_status st = zi_plan_parse((const char *)data, size, g, &d, &p);
    if (st < 0) {
        if (p || !d.text[0]) abort();
        return 0;
    }
    if (zi_plan_print(p, g, &a) < 0 || zi_plan_parse(a, strlen(a), g, NULL, &q) < 0)
        abort();
    if (zi_plan_print(q, g, &b) < 0 || strcmp(a, b)) abort();
    judge(p, g, c);
    zi_free(a);
    zi_free(b);
    zi_plan_free(p);
    zi_plan_free(q);
    return 0;
}

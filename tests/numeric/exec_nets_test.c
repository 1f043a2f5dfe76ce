/* tests/numeric/exec_nets_test.c -- whole networks agree with the reference, tensor by tensor.
 *
 * Node by node, where the reference gets the executor's own inputs, errors are roundings: sums
 * of a few thousand terms in single precision (7e-6 at most was seen).
 *
 * When the reference runs freely beside it, one activation on the other side of a ReLU's edge
 * changes a gradient by 1e-3 and more, in batch norms over few values most.  Networks without
 * such edges keep to roundings.
 * timeout: 300 */
#include "exec_compare.h"
#include "graph/zoo/zoo.h"

static zi_graph *
net(const char *spec, int64_t batch, zi_optim_kind kind)
{
    zi_graph     *g;
    zi_graph_diag diag = {0};

    zico_status st = zi_zoo_build(spec, batch, true, 7, &diag, &g);
    if (st < 0) print_error("%s\n", diag.text);
    expect_ok(st);
    zi_optim o = zi_optim_default(kind);
    o.decay = 1e-4;
    expect_ok(zi_graph_fuse(g, &diag));
    expect_ok(zi_graph_differentiate(g, g->loss, &diag));
    expect_ok(zi_graph_add_update(g, &o, &diag));
    return g;
}

#define NODES  2e-5 /* node by node */
#define SMOOTH 2e-6 /* what lives on after free steps: without edges, */
#define EDGES  5e-3 /* with ReLU or max-pooling, */
#define FEW    2e-2 /* and with batch norm over as few as 18 values */

static void
check(const char *spec, int64_t batch, zi_optim_kind kind, int64_t classes,
      unsigned n_steps, double tol)
{
    zi_graph *g = net(spec, batch, kind);

    for (unsigned nt = 1; nt <= 2; nt++) {
        cmp_options o = {.n_threads = nt,
                         .n_steps = n_steps,
                         .all = true,
                         .tolerance = NODES,
                         .n_classes = classes};
        cmp_graph(g, &o);
    }
    cmp_options o = {.n_threads = 2,
                     .n_steps = n_steps,
                     .tolerance = tol,
                     .n_classes = classes};
    cmp_graph(g, &o);
    zi_graph_free(g);
}

/* A perceptron with its update. */
static void
mlp(void **state)
{
    (void)state;
    check("mlp", 5, ZI_OPTIM_MOMENTUM, 10, 3, NODES);
}

/* Convolutions, batch norm, residual sums. */
static void
resnet20(void **state)
{
    (void)state;
    check("resnet20:size=16", 3, ZI_OPTIM_MOMENTUM, 10, 2, EDGES);
}

/* Depthwise convolutions, ReLU6, channels that do not fill a block. */
static void
mobilenet_v2(void **state)
{
    (void)state;
    check("mobilenet_v2:size=96,classes=10", 2, ZI_OPTIM_SGD, 10, 1, FEW);
}

/* Concatenation along channels, transposed convolution or resize, a loss per pixel. */
static void
unet(void **state)
{
    (void)state;
    check("unet:size=32,width=8", 2, ZI_OPTIM_MOMENTUM, 2, 1, EDGES);
}

/* Embedding, unrolled cells, dropout. */
static void
lstm_lm(void **state)
{
    (void)state;
    check("lstm_lm:vocab=50,width=24,hidden=24,seq=5", 3, ZI_OPTIM_SGD, 50, 2, SMOOTH);
}

/* Attention from parts, layer norm, GELU. */
static void
gpt(void **state)
{
    (void)state;
    check("gpt:vocab=40,seq=12,width=32,layers=2,heads=2,dropout=0.1", 2, ZI_OPTIM_SGD,
          40, 2, SMOOTH);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),          cmocka_unit_test(resnet20),
        cmocka_unit_test(mobilenet_v2), cmocka_unit_test(unet),
        cmocka_unit_test(lstm_lm),      cmocka_unit_test(gpt),
    };
    return t_main(tests);
}

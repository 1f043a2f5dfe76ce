/* zoo_test.c -- the networks have the published sizes, and become whole training steps. */
#include "graph/builder.h"
#include "graph/liveness.h"
#include "graph/zoo/zoo.h"
#include "base/alloc.h"
#include "support/graph_ref.h"
#include "test.h"

#include <math.h>

static zi_graph *
net(const char *spec, int64_t batch, bool training)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    if (zi_zoo_build(spec, batch, training, 1, &d, &g) < 0)
        fail_msg("%s: %s", spec, d.text);
    return g;
}

static void
whole_step(zi_graph *g, zi_optim_kind kind)
{
    zi_graph_diag d = {0};
    zi_optim      o = zi_optim_default(kind);
    if (zi_graph_fuse(g, &d) < 0 || zi_graph_verify(g, &d) < 0 ||
        zi_graph_differentiate(g, g->loss, &d) < 0 ||
        zi_graph_add_update(g, &o, &d) < 0 || zi_graph_verify(g, &d) < 0)
        fail_msg("%s: %s", g->name, d.text);
}

/* Parameter counts are those of the papers and of PyTorch's models. */
static void
published_counts(void **state)
{
    static const struct {
        const char *spec;
        uint64_t    n;
    } want[] = {{"resnet20", 269722},
                {"resnet18", 11689512},
                {"resnet34", 21797672},
                {"resnet50", 25557032},
                {"vgg16", 138357544},
                {"vgg16:bn=1", 138365992},
                {"mobilenet_v2", 3504872},
                {"densenet121", 7978856},
                {"unet", 31037698},
                {"gpt:vocab=50257,seq=1024,width=768,layers=12,heads=12", 124439808},
                {"mlp", 784 * 256 + 256 + 256 * 10 + 10},
                {"lstm_lm",
                 10000 * 200 + 2 * (2 * 800 * 200 + 1600) + 10000 * 200 + 10000}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        zi_graph *g = net(want[i].spec, 1, true);
        if (zi_graph_param_count(g) != want[i].n)
            fail_msg("%s: %llu parameters, should be %llu", want[i].spec,
                     (unsigned long long)zi_graph_param_count(g),
                     (unsigned long long)want[i].n);
        zi_graph_free(g);
    }
}

/* Every network becomes a training step that verifies, prints, and parses back; in it
 * every parameter is updated.  The inference graph has neither loss nor updates. */
static void
whole_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < zi_zoo_count(); i++) {
        zi_graph *g = net(zi_zoo_at(i)->name, 2, true), *h = NULL;
        char     *a, *b;
        whole_step(g, (zi_optim_kind)(i % 4));
        for (uint32_t k = 0; k < g->n_tensors; k++)
            if (g->tensors[k].role == ZI_ROLE_PARAM &&
                g->tensors[k].updater == ZI_ID_NONE)
                fail_msg("%s: nobody updates %s", g->name, g->tensors[k].name);
        expect_ok(zi_graph_print(g, &a));
        expect_ok(zi_graph_parse(a, strlen(a), NULL, &h));
        expect_ok(zi_graph_print(h, &b));
        assert_string_equal(a, b);
        zi_free(a);
        zi_free(b);
        zi_graph_free(g);
        zi_graph_free(h);

        g = net(zi_zoo_at(i)->name, 2, false);
        expect_ok(zi_graph_fuse(g, NULL));
        expect_ok(zi_graph_verify(g, NULL));
        assert_int_equal(ZI_ID_NONE, g->loss);
        assert_int_equal(1, g->n_outputs);
        for (uint32_t k = 0; k < g->n_nodes; k++) assert_int_equal(0, g->nodes[k].n_up);
        zi_graph_free(g);
    }
}

/* Small versions learn: after a few steps on one batch the loss has fallen. */
static void
small_ones_learn(void **state)
{
    static const char *const spec[] = {
        "resnet20:size=8,classes=3",
        "densenet121:size=32,growth=1,classes=3",
        "unet:size=16,width=1,classes=3",
        "lstm_lm:vocab=3,width=4,hidden=5,seq=4,dropout=0.1",
        "gpt:vocab=3,width=8,heads=2,layers=2,seq=4,dropout=0.1",
        "mlp:size=4,classes=3,hidden=8,layers=3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++) {
        zi_graph *g = net(spec[i], 2, true);
        whole_step(g, ZI_OPTIM_SGD);
        double **v = zi_ref_new(g), first = 0;
        zi_ref_fill(g, v, 3);
        v[g->lr][0] = 0.02;
        for (uint32_t s = 0; s < 6; s++) {
            zi_ref_run(g, 1, v); /* the same masks each time */
            if (s == 0) first = v[g->loss][0];
        }
        if (!(v[g->loss][0] < first))
            fail_msg("%s: loss %g, then %g", spec[i], first, v[g->loss][0]);
        zi_ref_free(g, v);
        zi_graph_free(g);
    }
}

/* Errors name what is wrong and what would be right. */
static void
errors_help(void **state)
{
    static const struct {
        const char *spec, *says;
        zico_status st;
    } bad[] = {{"resnet51", "resnet50", ZICO_E_NOTFOUND},
               {"resnet50:klasses=3", "classes, size", ZICO_E_ARG},
               {"resnet50:classes=0", "from 1 to 100000", ZICO_E_ARG},
               {"resnet50:classes=2.5", "whole number", ZICO_E_ARG},
               {"resnet50:classes=", "classes", ZICO_E_ARG},
               {"resnet50:classes", "classes", ZICO_E_ARG},
               {"resnet50:", "''", ZICO_E_ARG},
               {"vgg16:dropout=nan", "dropout", ZICO_E_ARG},
               {"unet:size=100", "multiple of 16", ZICO_E_ARG},
               {"gpt:width=10,heads=3", "heads", ZICO_E_SHAPE},
               {"", "resnet50", ZICO_E_NOTFOUND}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zi_graph     *g = NULL;
        zi_graph_diag d = {0};
        expect_status(bad[i].st, zi_zoo_build(bad[i].spec, 1, true, 1, &d, &g));
        if (!strstr(d.text, bad[i].says))
            fail_msg("'%s' says '%s', not '%s'", bad[i].spec, d.text, bad[i].says);
        assert_null(g);
    }
    zi_graph *g = NULL;
    expect_status(ZICO_E_ARG, zi_zoo_build("mlp", 0, true, 1, NULL, &g));
    assert_true(zi_zoo_knows("resnet50:size=64"));
    assert_false(zi_zoo_knows("model.onnx"));
}

/* Predictions stay to the end only where somebody looks at them: not in a training step. */
static void
predictions_end_with_the_loss(void **state)
{
    (void)state;
    zi_graph    *g = net("lstm_lm:vocab=50,width=8,hidden=8,seq=5", 4, true);
    zi_tensor_id logits = g->outputs[0];
    assert_int_equal(1, g->n_outputs);
    assert_true(zi_graph_lives_on(g, logits));
    expect_ok(zi_graph_differentiate(g, g->loss, NULL));
    assert_true(zi_graph_lives_on(g, logits));
    zi_optim o = zi_optim_default(ZI_OPTIM_SGD);
    expect_ok(zi_graph_add_update(g, &o, NULL));
    assert_int_equal(0, g->n_outputs);
    zi_graph_free(g);
}

/* A residual network's tide: the peak is near the end of the forward pass, and far above
 * what lasts; fusing never raises it. */
static void
tide_of_resnet(void **state)
{
    zi_liveness *plain, *fused;
    zi_optim     o = zi_optim_default(ZI_OPTIM_MOMENTUM);
    (void)state;
    zi_graph *g = net("resnet50:size=64", 8, true), *h = net("resnet50:size=64", 8, true);
    expect_ok(zi_graph_differentiate(g, g->loss, NULL));
    expect_ok(zi_graph_add_update(g, &o, NULL));
    whole_step(h, ZI_OPTIM_MOMENTUM);
    expect_ok(zi_liveness_of(g, &plain));
    expect_ok(zi_liveness_of(h, &fused));
    assert_true(fused->peak_bytes < plain->peak_bytes);
    assert_true(fused->peak_inplace_bytes <= fused->peak_bytes);
    assert_true(fused->live_bytes[0] < fused->peak_bytes / 2 + fused->fixed_bytes);
    assert_true(fused->live_bytes[h->n_nodes - 1] < fused->peak_bytes);
    zi_liveness_free(plain);
    zi_liveness_free(fused);
    zi_graph_free(g);
    zi_graph_free(h);
}

/* A thousand time steps are a graph like any other. */
static void
long_lstm(void **state)
{
    (void)state;
    zi_graph *g = net("lstm_lm:vocab=50,width=8,hidden=8,layers=1,seq=1000", 1, true);
    whole_step(g, ZI_OPTIM_SGD);
    assert_true(g->n_nodes > 8000);
    zi_graph_free(g);
}

/* Long sequences are cut into stretches where they can be: 251 is a prime, 252 is not.  The gates
 * of all steps, and their gradients, are never there at once. */
static void
long_lstm_is_cut(void **state)
{
    zi_liveness *whole, *cut;

    (void)state;
    zi_graph *g = net("lstm_lm:vocab=50,width=8,hidden=64,layers=1,seq=251", 4, true);
    zi_graph *h = net("lstm_lm:vocab=50,width=8,hidden=64,layers=1,seq=252", 4, true);
    whole_step(g, ZI_OPTIM_SGD);
    whole_step(h, ZI_OPTIM_SGD);
    expect_ok(zi_liveness_of(g, &whole));
    expect_ok(zi_liveness_of(h, &cut));
    assert_true(cut->peak_inplace_bytes < whole->peak_inplace_bytes);
    zi_liveness_free(whole);
    zi_liveness_free(cut);
    zi_graph_free(g);
    zi_graph_free(h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts),
        cmocka_unit_test(whole_steps),
        cmocka_unit_test(small_ones_learn),
        cmocka_unit_test(errors_help),
        cmocka_unit_test(predictions_end_with_the_loss),
        cmocka_unit_test(tide_of_resnet),
        cmocka_unit_test(long_lstm),
        cmocka_unit_test(long_lstm_is_cut),
    };
    return t_main(tests);
}

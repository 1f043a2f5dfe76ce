/* fuse_test.c -- what fuses, what must not, and that the values stay the same. */
#include "graph/builder.h"
#include "graph/liveness.h"
#include "base/alloc.h"
#include "support/graph_ref.h"
#include "test.h"

#include <math.h>

static zi_graph *
residual(bool show_sum)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_gb        *b = zi_gb_new("residual", true, 7);
    zi_tensor_id  in = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){2, 3, 6, 6});
    zi_tensor_id  x = zi_gb_conv2d(b, in, "conv1", &(zi_conv_opt){.out = 4, .kernel = 3});
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn1", NULL));
    zi_tensor_id y = zi_gb_conv2d(b, x, "conv2", &(zi_conv_opt){.out = 4, .kernel = 1});
    y = zi_gb_batch_norm(b, y, "bn2", NULL);
    zi_tensor_id z = zi_gb_conv2d(b, x, "down", &(zi_conv_opt){.out = 4, .kernel = 1});
    z = zi_gb_batch_norm(b, z, "bnd", NULL);
    zi_tensor_id s = zi_gb_add(b, y, z);
    if (show_sum) zi_gb_output(b, s);
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, zi_gb_relu(b, s)), 1);
    x = zi_gb_gelu(b, zi_gb_linear(b, x, "fc1", 5, true), false);
    x = zi_gb_softmax(b, zi_gb_linear(b, x, "fc2", 3, true), 1, false);
    zi_gb_nll(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){2}));
    if (zi_gb_finish(b, &d, &g) < 0) fail_msg("%s", d.text);
    return g;
}

static uint32_t
count(const zi_graph *g, zi_op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

/* A residual block: norm+relu, norm+add+relu, linear+gelu, softmax+nll all fuse; the
 * statistics nodes stay behind the norms, whose order may have changed. */
static void
residual_block(void **state)
{
    zi_graph_diag d = {0};
    (void)state;
    zi_graph *g = residual(false);
    expect_ok(zi_graph_fuse(g, &d));
    expect_ok(zi_graph_verify(g, &d));
    assert_int_equal(0, count(g, ZI_OP_RELU));
    assert_int_equal(0, count(g, ZI_OP_ADD));
    assert_int_equal(0, count(g, ZI_OP_GELU));
    assert_int_equal(0, count(g, ZI_OP_NLL));
    assert_int_equal(1, count(g, ZI_OP_CROSS_ENTROPY));
    assert_int_equal(3, count(g, ZI_OP_BN_STATS));
    const zi_node *bn2 = &g->nodes[zi_graph_find_node(g, "bn2")];
    assert_int_equal(4, bn2->n_in);
    assert_int_equal(zi_graph_find_tensor(g, "bnd"), bn2->in[3]);
    assert_int_equal(ZI_POST_RELU, bn2->attr.norm.act);
    assert_int_equal(1, count(g, ZI_OP_SOFTMAX)); /* its output is wanted */
    zi_graph_free(g);
}

/* A sum that the user wants to see is not fused away. */
static void
outputs_stay(void **state)
{
    zi_graph_diag d = {0};
    (void)state;
    zi_graph *g = residual(true);
    expect_ok(zi_graph_fuse(g, &d));
    expect_ok(zi_graph_verify(g, &d));
    assert_int_equal(1, count(g, ZI_OP_ADD));
    assert_int_equal(1, count(g, ZI_OP_RELU));
    zi_graph_free(g);
}

static double **
values_of(const zi_graph *g, const zi_graph *like, double **given)
{
    double **v = zi_ref_new(g);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].producer != ZI_ID_NONE) continue;
        double      *p = zi_ref_make(g, v, i);
        zi_tensor_id src = zi_graph_find_tensor(like, g->tensors[i].name);
        for (int64_t k = 0; k < zi_tensor_elems(&g->tensors[i]); k++)
            p[k] = given[src][k];
    }
    zi_ref_run(g, 1, v);
    return v;
}

/* One whole training step, fused and not: same loss, same parameters and statistics. */
static void
same_step(void **state)
{
    zi_graph_diag d = {0};
    (void)state;
    for (int kind = ZI_OPTIM_SGD; kind <= ZI_OPTIM_ADAMW; kind++) {
        zi_graph *g = residual(false), *h = residual(false);
        zi_optim  o = zi_optim_default((zi_optim_kind)kind);
        expect_ok(zi_graph_fuse(h, &d));
        expect_ok(zi_graph_differentiate(g, g->loss, &d));
        expect_ok(zi_graph_differentiate(h, h->loss, &d));
        expect_ok(zi_graph_add_update(g, &o, &d));
        expect_ok(zi_graph_add_update(h, &o, &d));
        expect_ok(zi_graph_verify(h, &d));
        double **given = zi_ref_new(g);
        zi_ref_fill(g, given, 3);
        double **a = values_of(g, g, given), **b = values_of(h, g, given);
        assert_true(fabs(a[g->loss][0] - b[h->loss][0]) < 1e-12);
        for (uint32_t i = 0; i < g->n_tensors; i++) {
            if (g->tensors[i].role != ZI_ROLE_PARAM &&
                g->tensors[i].role != ZI_ROLE_STATE)
                continue;
            zi_tensor_id k = zi_graph_find_tensor(h, g->tensors[i].name);
            for (int64_t e = 0; e < zi_tensor_elems(&g->tensors[i]); e++)
                assert_true(fabs(a[i][e] - b[k][e]) < 1e-9);
        }
        zi_ref_free(g, given);
        zi_ref_free(g, a);
        zi_ref_free(h, b);
        zi_graph_free(g);
        zi_graph_free(h);
    }
}

/* Each update stands right behind the last node that it waits for, so that gradients die
 * early; with clipping all gradients are needed first. */
static void
updates_early(void **state)
{
    zi_graph_diag d = {0};
    zi_liveness  *early, *late;
    (void)state;
    zi_graph *g = residual(false), *h = residual(false);
    zi_optim  o = zi_optim_default(ZI_OPTIM_MOMENTUM);
    expect_ok(zi_graph_differentiate(g, g->loss, &d));
    expect_ok(zi_graph_differentiate(h, h->loss, &d));
    expect_ok(zi_graph_add_update(g, &o, &d));
    o.clip_norm = 1;
    expect_ok(zi_graph_add_update(h, &o, &d));
    expect_ok(zi_graph_verify(g, &d));
    expect_ok(zi_graph_verify(h, &d));
    expect_ok(zi_liveness_of(g, &early));
    expect_ok(zi_liveness_of(h, &late));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const zi_node *n = &g->nodes[i];
        if (n->op != ZI_OP_MOMENTUM) continue;
        const zi_tensor *p = &g->tensors[n->up[0]];
        zi_node_id       made = g->tensors[n->in[0]].producer;
        zi_node_id       read = p->n_readers ? p->readers[p->n_readers - 1] : 0;
        for (zi_node_id k = (made > read ? made : read) + 1; k < i; k++)
            assert_int_equal(ZI_PHASE_UPDATE, g->nodes[k].phase);
        assert_int_equal(i, early->tensor[n->in[0]].last_use);
    }
    assert_int_equal(1, count(h, ZI_OP_CLIP_SCALE));
    assert_true(early->peak_bytes <= late->peak_bytes);
    zi_liveness_free(early);
    zi_liveness_free(late);
    zi_graph_free(g);
    zi_graph_free(h);
}

/* Every pass survives the failure of every single allocation; what is left can be freed,
 * and nothing leaks. */
static void
no_memory(void **state)
{
    zi_graph *whole = residual(false);
    (void)state;
    for (uint64_t n = 1;; n++) {
        int64_t   before = zi_alloc_n_live();
        zi_graph *g = NULL;
        zi_optim  o = zi_optim_default(ZI_OPTIM_ADAM);
        o.clip_norm = n % 2;
        zi_alloc_fail_at(n);
        zico_status st = zi_graph_clone(whole, &g);
        if (st >= 0) st = zi_graph_fuse(g, NULL);
        if (st >= 0) st = zi_graph_differentiate(g, g->loss, NULL);
        if (st >= 0) st = zi_graph_add_update(g, &o, NULL);
        zi_liveness *l = NULL;
        if (st >= 0) st = zi_liveness_of(g, &l);
        char     *text = NULL;
        zi_graph *h = NULL;
        if (st >= 0) st = zi_graph_print(g, &text);
        if (st >= 0) st = zi_graph_parse(text, strlen(text), NULL, &h);
        int failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (failed)
            assert_int_equal(ZICO_E_NOMEM, st);
        else
            expect_ok(st);
        zi_liveness_free(l);
        zi_free(text);
        zi_graph_free(g);
        zi_graph_free(h);
        assert_int_equal(before, zi_alloc_n_live());
        if (!failed && !o.clip_norm) break;
    }
    zi_graph_free(whole);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_block), cmocka_unit_test(outputs_stay),
        cmocka_unit_test(same_step),      cmocka_unit_test(updates_early),
        cmocka_unit_test(no_memory),
    };
    return t_main(tests);
}

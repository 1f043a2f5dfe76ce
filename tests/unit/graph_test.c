/* graph_test.c -- graphs are built, checked, printed, parsed, and their lives measured. */
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/liveness.h"
#include "base/alloc.h"
#include "test.h"

static zi_graph *
small_net(void)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_gb        *b = zi_gb_new("small", true, 7);
    zi_tensor_id  x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){2, 3, 8, 8});
    x = zi_gb_conv2d(b, x, "conv1", &(zi_conv_opt){.out = 4, .kernel = 3, .pad = 1});
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn1", NULL));
    x = zi_gb_dropout(b, zi_gb_max_pool(b, x, 2, 2, 0), 0.25);
    x = zi_gb_linear(b, zi_gb_flatten(b, x, 1), "fc", 5, true);
    zi_gb_cross_entropy(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){2}));
    zico_status st = zi_gb_finish(b, &d, &g);
    if (st < 0) fail_msg("%s", d.text);
    return g;
}

/* A network written down by hand has the shapes, names and roles one expects. */
static void
builder_names_and_shapes(void **state)
{
    (void)state;
    zi_graph    *g = small_net();
    zi_tensor_id w = zi_graph_find_tensor(g, "conv1.weight");
    assert_int_not_equal(ZI_ID_NONE, w);
    assert_int_equal(ZI_ROLE_PARAM, g->tensors[w].role);
    assert_int_equal(4 * 3 * 3 * 3 * 4, g->tensors[w].bytes);
    assert_int_equal(4 * 27 + 8 + 5 * 64 + 5, zi_graph_param_count(g));
    assert_int_equal(1, g->n_outputs);
    assert_int_equal(0, g->tensors[g->loss].rank);
    zi_tensor_id mean = zi_graph_find_tensor(g, "bn1.running_mean");
    assert_int_equal(zi_graph_find_node(g, "bn1.stats"), g->tensors[mean].updater);
    zi_graph_free(g);
}

/* Text parses back to a graph that prints the same text. */
static void
text_round_trip(void **state)
{
    (void)state;
    zi_graph *g = small_net(), *h = NULL, *copy = NULL;
    char     *a, *b, *c;
    expect_ok(zi_graph_print(g, &a));
    expect_ok(zi_graph_parse(a, strlen(a), NULL, &h));
    expect_ok(zi_graph_print(h, &b));
    assert_string_equal(a, b);
    expect_ok(zi_graph_clone(g, &copy));
    expect_ok(zi_graph_print(copy, &c));
    assert_string_equal(a, c);
    zi_free(a);
    zi_free(b);
    zi_free(c);
    zi_graph_free(g);
    zi_graph_free(h);
    zi_graph_free(copy);
}

/* Every prefix of a text, and every text with one byte changed, is refused or parses to
 * a graph that verifies; an error names its line. */
static void
text_damaged(void **state)
{
    (void)state;
    zi_graph     *g = small_net();
    zi_graph_diag d;
    char         *a;
    expect_ok(zi_graph_print(g, &a));
    size_t n = strlen(a);
    for (size_t i = 0; i < n - 4; i++) {
        zi_graph *h = NULL;
        assert_true(zi_graph_parse(a, i, &d, &h) < 0);
        assert_null(h);
    }
    for (unsigned i = 0; i < t_rounds(2000, 100000); i++) {
        size_t    at = t_rand_below(n);
        char      old = a[at];
        zi_graph *h = NULL;
        a[at] = (char)(32 + t_rand_below(95));
        if (zi_graph_parse(a, n, &d, &h) >= 0) expect_ok(zi_graph_verify(h, &d));
        zi_graph_free(h);
        a[at] = old;
    }
    zi_free(a);
    zi_graph_free(g);
}

/* The first error sticks, names the node, and is told at the end. */
static void
builder_error_sticks(void **state)
{
    (void)state;
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_gb        *b = zi_gb_new("bad", true, 1);
    zi_tensor_id  x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){2, 3, 4, 4});
    zi_gb_enter(b, "layer%d", 3);
    x = zi_gb_conv2d(b, x, "conv", &(zi_conv_opt){.out = 4, .kernel = 7});
    assert_int_equal(ZI_ID_NONE, x);
    x = zi_gb_linear(b, zi_gb_relu(b, x), "fc", 5, true);
    zi_gb_leave(b);
    zi_gb_cross_entropy(b, x, ZI_ID_NONE);
    expect_status(ZICO_E_SHAPE, zi_gb_finish(b, &d, &g));
    assert_non_null(strstr(d.text, "layer3.conv"));
    assert_non_null(strstr(d.text, "[2,3,4,4]"));
}

/* Verify names the node whose output has another shape than inference says. */
static void
verify_names_the_node(void **state)
{
    (void)state;
    zi_graph     *g = small_net();
    zi_graph_diag d = {0};
    zi_tensor    *t = &g->tensors[zi_graph_find_tensor(g, "fc")];
    t->dims[1]++;
    t->bytes = zi_dtype_bytes(t->dtype, zi_tensor_elems(t));
    expect_status(ZICO_E_CORRUPT, zi_graph_verify(g, &d));
    assert_non_null(strstr(d.text, "'fc'"));
    assert_int_equal(zi_graph_find_node(g, "fc"), d.node);
    zi_graph_free(g);
}

/* A chain of three equal activations holds two at a time, one when run in place. */
static void
liveness_of_a_chain(void **state)
{
    (void)state;
    zi_graph    *g = NULL;
    zi_liveness *l;
    zi_gb       *b = zi_gb_new("chain", true, 1);
    zi_tensor_id in = zi_gb_input(b, "x", ZI_DTYPE_F32, 1, (int64_t[]){1000});
    zi_tensor_id y = zi_gb_tanh(b, zi_gb_relu(b, zi_gb_sigmoid(b, in)));
    zi_gb_output(b, y);
    expect_ok(zi_gb_finish(b, NULL, &g));
    expect_ok(zi_liveness_of(g, &l));
    assert_int_equal(4000, l->fixed_bytes);
    assert_int_equal(12000, l->peak_bytes);
    assert_int_equal(8000, l->peak_inplace_bytes);
    assert_int_equal(-1, l->tensor[in].def);
    assert_int_equal(g->n_nodes, l->tensor[y].last_use);
    zi_liveness_free(l);
    zi_graph_free(g);
}

/* Reshape, and split along an outermost dim, share bytes; split elsewhere does not. */
static void
views_share_bytes(void **state)
{
    (void)state;
    zi_graph    *g = NULL;
    zi_liveness *l;
    zi_tensor_id p[2], q[2];
    uint64_t     at = 0;
    zi_gb       *b = zi_gb_new("views", true, 1);
    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 2, (int64_t[]){4, 6});
    zi_tensor_id y = zi_gb_relu(b, x);
    zi_gb_split(b, y, 0, 2, p);
    zi_gb_split(b, y, 1, 2, q);
    zi_tensor_id r = zi_gb_reshape(b, p[1], 1, (int64_t[]){12});
    zi_tensor_id s = zi_gb_slice(b, y, 0, 3, 4);
    expect_ok(zi_gb_finish(b, NULL, &g));
    assert_int_equal(y, zi_graph_view_of(g, p[1], &at));
    assert_int_equal(48, at);
    assert_int_equal(p[1], zi_graph_view_of(g, r, &at));
    assert_int_equal(ZI_ID_NONE, zi_graph_view_of(g, q[1], &at));
    assert_int_equal(y, zi_graph_view_of(g, s, &at));
    assert_int_equal(72, at);
    expect_ok(zi_liveness_of(g, &l));
    assert_int_equal(y, l->tensor[r].root);
    assert_int_equal(g->tensors[s].producer, l->tensor[y].last_use);
    zi_liveness_free(l);
    zi_graph_free(g);
}

/* Building survives the failure of every single allocation, and leaks nothing. */
static void
no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        int64_t   before = zi_alloc_n_live();
        zi_graph *g = NULL;
        zi_alloc_fail_at(n);
        zi_gb       *b = zi_gb_new("small", true, 7);
        zi_tensor_id x = b ? zi_gb_input(b, "x", ZI_DTYPE_F32, 2, (int64_t[]){2, 3}) : 0;
        x = b ? zi_gb_linear(b, x, "fc", 5, true) : 0;
        if (b) zi_gb_mse(b, x, zi_gb_input(b, "y", ZI_DTYPE_F32, 2, (int64_t[]){2, 5}));
        zico_status st = zi_gb_finish(b, NULL, &g);
        int         failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (failed) assert_int_equal(ZICO_E_NOMEM, st);
        zi_graph_free(g);
        assert_int_equal(before, zi_alloc_n_live());
        if (!failed) break;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builder_names_and_shapes),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_damaged),
        cmocka_unit_test(builder_error_sticks),
        cmocka_unit_test(verify_names_the_node),
        cmocka_unit_test(liveness_of_a_chain),
        cmocka_unit_test(views_share_bytes),
        cmocka_unit_test(no_memory),
    };
    return t_main(tests);
}

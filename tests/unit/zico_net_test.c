/* zico_net_test.c -- the public way to write a network, used well and badly. */
#include "graph/zico_net.h"
#include "base/alloc.h"
#include "test.h"

static zico_net *
tiny(int training)
{
    zico_net   *net = zico_net_new("tiny", training, 42);
    zico_tensor x = zico_net_input(net, "x", ZICO_F32, 4, (int64_t[]){8, 3, 32, 32});
    zico_net_enter(net, "stem");
    x = zico_net_conv2d(net, x, "conv", &(zico_conv){.out = 16, .kernel = 3, .pad = 1});
    x = zico_net_relu(net, zico_net_batch_norm(net, x, "bn"));
    zico_net_leave(net);
    x = zico_net_flatten(net, zico_net_global_avg_pool(net, x), 1);
    x = zico_net_linear(net, zico_net_dropout(net, x, 0.1), "fc", 10, 1);
    zico_net_cross_entropy(net, x, zico_net_label(net, "labels", 1, (int64_t[]){8}));
    return net;
}

/* The example at the top of the header, finished, differentiated and printed. */
static void
as_in_the_header(void **state)
{
    (void)state;
    zico_net *net = tiny(1);
    char     *text;
    assert_null(zi_graph_of_net(net));
    expect_ok(zico_net_finish(net));
    assert_string_equal("", zico_net_error(net));
    assert_int_equal(16 * 27 + 32 + 170, zico_net_param_count(net));
    assert_int_not_equal(ZI_ID_NONE,
                         zi_graph_find_tensor(zi_graph_of_net(net), "stem.conv.weight"));
    zi_graph *g;
    expect_ok(zi_graph_clone(zi_graph_of_net(net), &g));
    expect_ok(zi_graph_fuse(g, NULL));
    expect_ok(zi_graph_differentiate(g, g->loss, NULL));
    zi_graph_free(g);
    expect_ok(zico_net_text(net, &text));
    assert_non_null(strstr(text, "conv2d forward stem.conv "));
    zico_net_text_free(text);
    expect_status(ZICO_E_STATE, zico_net_finish(net));
    zico_net_free(net);
}

/* Tensors that do not exist, missing names, wrong axes, unbalanced scopes: a sentence. */
static void
misuse_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 14; i++) {
        zico_net   *net = zico_net_new("bad", 1, 1);
        zico_tensor x = zico_net_input(net, "x", ZICO_F32, 2, (int64_t[]){2, 3}),
                    no = 1000;
        switch (i) {
        case 0:
            zico_net_relu(net, no);
            break;
        case 1:
            zico_net_linear(net, no, "fc", 3, 1);
            break;
        case 2:
            zico_net_conv2d(net, x, "c", &(zico_conv){.out = 3, .kernel = 1});
            break;
        case 3:
            zico_net_input(net, NULL, ZICO_F32, 1, (int64_t[]){1});
            break;
        case 4:
            zico_net_input(net, "x", ZICO_F32, 1, (int64_t[]){1});
            break;
        case 5:
            zico_net_input(net, "y", (zico_type)9, 1, (int64_t[]){1});
            break;
        case 6:
            zico_net_input(net, "y", ZICO_F32, 1, (int64_t[]){-1});
            break;
        case 7:
            zico_net_slice(net, x, 2, 0, 1);
            break;
        case 8:
            zico_net_output(net, no);
            break;
        case 9:
            zico_net_enter(net, "open");
            break;
        case 10:
            zico_net_leave(net);
            break;
        case 11:
            zico_net_minimize(net, x);
            break;
        case 12:
            zico_net_transpose(net, no, (int64_t[]){1, 0});
            break;
        default:
            zico_net_concat(net, 0, &x, 0);
            break;
        }
        if (zico_net_finish(net) >= 0) fail_msg("misuse %d was not noticed", i);
        if (!*zico_net_error(net)) fail_msg("misuse %d is not explained", i);
        assert_true(zico_net_finish(net) < 0);
        assert_null(zi_graph_of_net(net));
        assert_int_equal(0, zico_net_param_count(net));
        zico_net_free(net);
    }
    zico_net_free(NULL);
    assert_int_equal(ZICO_NO_TENSOR, zico_net_relu(NULL, 0));
}

/* Ready nets: from the zoo, and a refusal with its reason. */
static void
ready_nets(void **state)
{
    zico_net *net = NULL;
    char      why[200] = "";
    (void)state;
    expect_ok(zico_net_from_zoo("resnet20:classes=4", 2, 0, 1, why, sizeof why, &net));
    assert_true(zico_net_param_count(net) > 260000);
    zico_net_free(net);
    net = NULL;
    expect_status(ZICO_E_NOTFOUND,
                  zico_net_from_zoo("resnet21", 2, 0, 1, why, sizeof why, &net));
    assert_non_null(strstr(why, "resnet20"));
    expect_status(ZICO_E_FORMAT,
                  zico_net_from_onnx("\xff\xff", 2, 1, 0, 1, why, sizeof why, &net));
    assert_non_null(strstr(why, "ONNX"));
    assert_null(net);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_the_header),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(ready_nets),
    };
    return t_main(tests);
}

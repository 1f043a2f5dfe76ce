/* plan_nets.c -- small whole training graphs. */
#include "support/plan_nets.h"

#include "graph/builder.h"
#include "test.h"

static zi_graph *
finish(zi_gb *b)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_optim      opt = zi_optim_default(ZI_OPTIM_MOMENTUM);

    zico_status st = zi_gb_finish(b, &d, &g);
    if (st >= 0) st = zi_graph_fuse(g, &d);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &d);
    if (st >= 0) st = zi_graph_add_update(g, &opt, &d);
    if (st < 0) fail_msg("%s", d.text);
    return g;
}

static void
classify(zi_gb *b, zi_tensor_id x, int batch)
{
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1);
    x = zi_gb_linear(b, x, "fc", 10, true);
    zi_gb_cross_entropy(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){batch}));
}

static zi_tensor_id
conv_bn(zi_gb *b, zi_tensor_id x, const char *name, int64_t out, int64_t stride)
{
    zi_gb_enter(b, "%s", name);
    x = zi_gb_conv2d(b, x, "conv",
                     &(zi_conv_opt){.out = out, .kernel = 3, .pad = 1, .stride = stride});
    x = zi_gb_batch_norm(b, x, "bn", NULL);
    zi_gb_leave(b);
    return x;
}

static zi_tensor_id
image(zi_gb *b, int batch, int size)
{
    return zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){batch, 3, size, size});
}

zi_graph *
t_net_chain(int layers, int batch)
{
    zi_gb       *b = zi_gb_new("chain", true, 1);
    zi_tensor_id x = image(b, batch, 16);
    for (int i = 0; i < layers; i++) {
        zi_gb_enter(b, "l%d", i);
        x = zi_gb_conv2d(b, x, "conv",
                         &(zi_conv_opt){.out = 16, .kernel = 3, .pad = 1, .bias = true});
        x = zi_gb_relu(b, x);
        if (i == layers / 2) x = zi_gb_max_pool(b, x, 2, 2, 0);
        zi_gb_leave(b);
    }
    classify(b, x, batch);
    return finish(b);
}

zi_graph *
t_net_residual(int blocks, int batch)
{
    zi_gb       *b = zi_gb_new("residual", true, 1);
    zi_tensor_id x = zi_gb_relu(b, conv_bn(b, image(b, batch, 16), "stem", 16, 1));
    for (int i = 0; i < blocks; i++) {
        zi_gb_enter(b, "block%d", i);
        zi_tensor_id y = zi_gb_relu(b, conv_bn(b, x, "a", 16, 1));
        y = conv_bn(b, y, "b", 16, 1);
        x = zi_gb_relu(b, zi_gb_add(b, y, x));
        zi_gb_leave(b);
    }
    classify(b, x, batch);
    return finish(b);
}

static zi_graph *
small_chain(void)
{
    return t_net_chain(14, 4);
}

static zi_graph *
small_residual(void)
{
    return t_net_residual(6, 4);
}

static zi_graph *
small_unet(void)
{
    zi_gb       *b = zi_gb_new("unet", true, 1);
    zi_tensor_id x = image(b, 2, 16), skip[2];
    for (int i = 0; i < 2; i++) {
        zi_gb_enter(b, "down%d", i);
        x = zi_gb_relu(b, conv_bn(b, x, "a", 8 << i, 1));
        skip[i] = x = zi_gb_relu(b, conv_bn(b, x, "b", 8 << i, 1));
        x = zi_gb_max_pool(b, x, 2, 2, 0);
        zi_gb_leave(b);
    }
    x = zi_gb_relu(b, conv_bn(b, x, "bottom", 32, 1));
    for (int i = 1; i >= 0; i--) {
        zi_gb_enter(b, "up%d", i);
        x = zi_gb_convt2d(b, x, "t",
                          &(zi_conv_opt){.out = 8 << i, .kernel = 2, .stride = 2});
        x = zi_gb_concat(b, 2, (zi_tensor_id[]){skip[i], x}, 1);
        x = zi_gb_relu(b, conv_bn(b, x, "a", 8 << i, 1));
        zi_gb_leave(b);
    }
    classify(b, x, 2);
    return finish(b);
}

static zi_graph *
small_dense(void)
{
    zi_gb       *b = zi_gb_new("dense", true, 1);
    zi_tensor_id all[7] = {zi_gb_relu(b, conv_bn(b, image(b, 2, 16), "stem", 16, 1))};
    for (uint32_t i = 1; i < 7; i++) {
        zi_gb_enter(b, "layer%u", i);
        zi_tensor_id x = i == 1 ? all[0] : zi_gb_concat(b, i, all, 1);
        x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn", NULL));
        all[i] =
            zi_gb_conv2d(b, x, "conv", &(zi_conv_opt){.out = 8, .kernel = 3, .pad = 1});
        zi_gb_leave(b);
    }
    classify(b, zi_gb_concat(b, 7, all, 1), 2);
    return finish(b);
}

zi_graph *
t_net_lstm(int steps, int batch, int hidden)
{
    zi_gb         *b = zi_gb_new("lstm", true, 1);
    zi_lstm_params w = zi_gb_lstm_params(b, "lstm", 0, hidden, hidden);
    int64_t        dims[2] = {batch, hidden};
    zi_tensor_id   h = zi_gb_input(b, "h0", ZI_DTYPE_F32, 2, dims);
    zi_tensor_id   c = zi_gb_input(b, "c0", ZI_DTYPE_F32, 2, dims);
    zi_tensor_id   words =
        zi_gb_input(b, "words", ZI_DTYPE_I32, 2, (int64_t[]){steps, batch});
    for (int i = 0; i < steps; i++) {
        zi_gb_enter(b, "t%d", i);
        zi_tensor_id at =
            zi_gb_reshape(b, zi_gb_slice(b, words, 0, i, i + 1), 1, (int64_t[]){batch});
        static zi_tensor_id table;
        if (i == 0) {
            zi_tensor_id x =
                zi_gb_embedding(b, at, "embed", 50, hidden, zi_init_normal(1));
            table = zi_graph_find_tensor(zi_gb_graph(b), "t0.embed.weight");
            zi_gb_lstm_step(b, &w, x, &h, &c);
        } else {
            zi_tensor_id x =
                zi_gb_op(b, ZI_OP_EMBEDDING, NULL, 2, (zi_tensor_id[]){at, table});
            zi_gb_lstm_step(b, &w, x, &h, &c);
        }
        zi_gb_leave(b);
    }
    h = zi_gb_linear(b, h, "fc", 10, true);
    zi_gb_cross_entropy(b, h, zi_gb_label(b, "labels", 1, (int64_t[]){batch}));
    return finish(b);
}

static zi_graph *
small_lstm(void)
{
    return t_net_lstm(12, 2, 16);
}

static zi_graph *
small_gpt(void)
{
    zi_gb       *b = zi_gb_new("gpt", true, 1);
    int64_t      dims[2] = {2, 8};
    zi_tensor_id words = zi_gb_input(b, "words", ZI_DTYPE_I32, 2, dims);
    zi_tensor_id x = zi_gb_embedding(b, words, "embed", 50, 16, zi_init_normal(0.02));
    for (int i = 0; i < 3; i++) {
        zi_gb_enter(b, "h%d", i);
        zi_tensor_id y = zi_gb_layer_norm(b, x, "ln1", NULL);
        y = zi_gb_attention(b, y, "attn", 2, 0.1, zi_init_normal(0.02),
                            zi_init_normal(0.02));
        x = zi_gb_add(b, x, y);
        y = zi_gb_layer_norm(b, x, "ln2", NULL);
        y = zi_gb_gelu(b, zi_gb_linear(b, y, "up", 64, true), true);
        y = zi_gb_dropout(b, zi_gb_linear(b, y, "down", 16, true), 0.1);
        x = zi_gb_add(b, x, y);
        zi_gb_leave(b);
    }
    x = zi_gb_linear(b, zi_gb_layer_norm(b, x, "ln", NULL), "head", 50, false);
    x = zi_gb_reshape(b, x, 2, (int64_t[]){16, 50});
    zi_gb_cross_entropy(b, x, zi_gb_label(b, "labels", 1, (int64_t[]){16}));
    return finish(b);
}

/* One random layer on top of values that are all (2, 8, 8, 8). */
static zi_tensor_id
random_layer(zi_gb *b, zi_tensor_id x, zi_tensor_id y, int i)
{
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    switch (t_rand_below(9)) {
    case 0:
    case 1:
        return zi_gb_conv2d(b, x, name, &(zi_conv_opt){.out = 8, .kernel = 3, .pad = 1});
    case 2:
        return zi_gb_relu(b, x);
    case 3:
        return zi_gb_batch_norm(b, x, name, NULL);
    case 4:
        return zi_gb_relu(b, zi_gb_batch_norm(b, x, name, NULL));
    case 5:
        return zi_gb_add(b, x, y);
    case 6:
        return zi_gb_mul(b, x, zi_gb_sigmoid(b, y));
    case 7:
        return zi_gb_dropout(b, x, 0.2);
    default: {
        zi_tensor_id both = zi_gb_concat(b, 2, (zi_tensor_id[]){x, y}, 1);
        return zi_gb_conv2d(b, both, name, &(zi_conv_opt){.out = 8, .kernel = 1});
    }
    }
}

zi_graph *
t_net_random(void)
{
    zi_gb       *b = zi_gb_new("random", true, 1);
    int          n = 3 + (int)t_rand_below(25);
    zi_tensor_id value[32];

    value[0] = zi_gb_conv2d(b, image(b, 2, 8), "stem",
                            &(zi_conv_opt){.out = 8, .kernel = 3, .pad = 1});
    for (int i = 1; i <= n; i++) {
        int back = (int)t_rand_below((uint64_t)(i < 4 ? i : 4));
        int other = (int)t_rand_below((uint64_t)i);
        value[i] = random_layer(b, value[i - 1 - back], value[other], i);
    }
    zi_tensor_id last = value[n];
    for (int i = n - 1; i >= 0 && i > n - 4; i--) last = zi_gb_add(b, last, value[i]);
    classify(b, last, 2);
    return finish(b);
}

const t_net t_nets[] = {
    {"chain", small_chain}, {"residual", small_residual}, {"unet", small_unet},
    {"dense", small_dense}, {"lstm", small_lstm},         {"gpt", small_gpt},
};
const size_t t_n_nets = sizeof t_nets / sizeof t_nets[0];

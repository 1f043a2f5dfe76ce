/* densenet121.c -- every layer reads all layers before it.
 *
 * PAPER    G. Huang, Z. Liu, L. van der Maaten, K. Q. Weinberger. Densely Connected
 *          Convolutional Networks. CVPR 2017, table 1.
 * WE DO    Concatenate the growing stack with each new part, instead of all parts anew:
 *          the same values, and one sum per layer in the backward pass instead of many.
 */
#include "graph/zoo/zoo_nets.h"

#include <math.h>

enum { CLASSES, SIZE, GROWTH };

static const zi_zoo_param params[] = {{"classes", 1000, 1, 100000, false},
                                      {"size", 224, 32, 1024, false},
                                      {"growth", 32, 1, 256, false},
                                      {0}};

static zi_tensor_id
norm_relu_conv(zi_gb *b, zi_tensor_id x, const char *norm, const char *conv,
               zi_conv_opt o)
{
    o.pad = o.kernel / 2;
    o.init = ZI_CONV_KAIMING_IN;
    return zi_gb_conv2d(b, zi_gb_relu(b, zi_gb_batch_norm(b, x, norm, NULL)), conv, &o);
}

static zi_tensor_id
dense_block(zi_gb *b, zi_tensor_id x, int n_layers, int64_t growth)
{
    for (int i = 1; i <= n_layers; i++) {
        zi_gb_enter(b, "denselayer%d", i);
        zi_tensor_id y = norm_relu_conv(b, x, "norm1", "conv1",
                                        (zi_conv_opt){.out = 4 * growth, .kernel = 1});
        y = norm_relu_conv(b, y, "norm2", "conv2",
                           (zi_conv_opt){.out = growth, .kernel = 3});
        x = zi_gb_concat(b, 2, (zi_tensor_id[]){x, y}, 1);
        zi_gb_leave(b);
    }
    return x;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    static const int n_layers[] = {6, 12, 24, 16};
    int64_t          growth = zi_zoo_int(a, GROWTH);
    zi_tensor_id     x = zi_zoo_images(b, a, 3, zi_zoo_int(a, SIZE));

    zi_gb_enter(b, "features");
    x = zi_gb_conv2d(b, x, "conv0",
                     &(zi_conv_opt){.out = 2 * growth,
                                    .kernel = 7,
                                    .stride = 2,
                                    .pad = 3,
                                    .init = ZI_CONV_KAIMING_IN});
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "norm0", NULL));
    x = zi_gb_max_pool(b, x, 3, 2, 1);
    for (int i = 0; i < 4; i++) {
        zi_gb_enter(b, "denseblock%d", i + 1);
        x = dense_block(b, x, n_layers[i], growth);
        zi_gb_leave(b);
        if (i == 3) break;
        zi_gb_enter(b, "transition%d", i + 1);
        x = norm_relu_conv(b, x, "norm", "conv",
                           (zi_conv_opt){.out = zi_gb_dim(b, x, 1) / 2, .kernel = 1});
        x = zi_gb_avg_pool(b, x, 2, 2, 0);
        zi_gb_leave(b);
    }
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "norm5", NULL));
    zi_gb_leave(b);
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1);
    int64_t width = zi_gb_dim(b, x, 1);
    x = zi_gb_linear_init(b, x, "classifier", zi_zoo_int(a, CLASSES), true,
                          zi_init_uniform(1 / sqrt((double)(width > 0 ? width : 1))),
                          zi_init_const(0));
    zi_zoo_classify(b, x, 1, &a->batch);
}

const zi_zoo_net zi_zoo_densenet121 = {
    .name = "densenet121",
    .about = "densely connected layers, 121 of them (Huang et al. 2017)",
    .params = params,
    .build = build,
};

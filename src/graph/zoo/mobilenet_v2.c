/* mobilenet_v2.c -- inverted residuals with depthwise convolutions.
 *
 * PAPER    M. Sandler, A. Howard, M. Zhu, A. Zhmoginov, L.-C. Chen. MobileNetV2: Inverted
 *          Residuals and Linear Bottlenecks. CVPR 2018, table 2.
 */
#include "graph/zoo/zoo_nets.h"

enum { CLASSES, SIZE, DROPOUT };

static const zi_zoo_param params[] = {{"classes", 1000, 1, 100000, false},
                                      {"size", 224, 32, 1024, false},
                                      {"dropout", 0.2, 0, 0.99, true},
                                      {0}};

static zi_tensor_id
conv_bn_relu6(zi_gb *b, zi_tensor_id x, const char *scope, zi_conv_opt o)
{
    o.pad = o.kernel / 2;
    zi_gb_enter(b, "%s", scope);
    x = zi_gb_batch_norm(b, zi_gb_conv2d(b, x, "0", &o), "1", NULL);
    x = zi_gb_relu6(b, x);
    zi_gb_leave(b);
    return x;
}

static zi_tensor_id
inverted(zi_gb *b, zi_tensor_id x, int64_t expand, int64_t out, int64_t stride)
{
    static const char *const name[] = {"0", "1", "2", "3"};
    int64_t                  in = zi_gb_dim(b, x, 1), wide = in * expand;
    zi_tensor_id             y = x;
    int                      at = 0;

    zi_gb_enter(b, "conv");
    if (expand != 1)
        y = conv_bn_relu6(b, y, name[at++], (zi_conv_opt){.out = wide, .kernel = 1});
    y = conv_bn_relu6(
        b, y, name[at++],
        (zi_conv_opt){.out = wide, .kernel = 3, .stride = stride, .groups = wide});
    y = zi_gb_conv2d(b, y, name[at], &(zi_conv_opt){.out = out, .kernel = 1});
    y = zi_gb_batch_norm(b, y, name[at + 1], NULL);
    zi_gb_leave(b);
    return stride == 1 && in == out ? zi_gb_add(b, x, y) : y;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    static const int plan[][4] = {/* expand, channels, repeats, stride */
                                  {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                  {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                  {6, 320, 1, 1}};
    zi_tensor_id     x = zi_zoo_images(b, a, 3, zi_zoo_int(a, SIZE));
    int              at = 1;

    zi_gb_enter(b, "features");
    x = conv_bn_relu6(b, x, "0", (zi_conv_opt){.out = 32, .kernel = 3, .stride = 2});
    for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
        for (int k = 0; k < plan[i][2]; k++) {
            zi_gb_enter(b, "%d", at++);
            x = inverted(b, x, plan[i][0], plan[i][1], k ? 1 : plan[i][3]);
            zi_gb_leave(b);
        }
    }
    x = conv_bn_relu6(b, x, "18", (zi_conv_opt){.out = 1280, .kernel = 1});
    zi_gb_leave(b);
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1);
    x = zi_gb_dropout(b, x, a->v[DROPOUT]);
    x = zi_gb_linear_init(b, x, "classifier.1", zi_zoo_int(a, CLASSES), true,
                          zi_init_normal(0.01), zi_init_const(0));
    zi_zoo_classify(b, x, 1, &a->batch);
}

const zi_zoo_net zi_zoo_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .about = "inverted residuals, depthwise convolutions (Sandler et al. 2018)",
    .params = params,
    .build = build,
};

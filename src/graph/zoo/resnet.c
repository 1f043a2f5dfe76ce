/* resnet.c -- residual networks for ImageNet, as torchvision has them.
 *
 * PAPER    K. He, X. Zhang, S. Ren, J. Sun. Deep Residual Learning for Image Recognition.
 *          CVPR 2016, table 1.  The stride of a bottleneck sits in its 3x3 convolution.
 */
#include "graph/zoo/zoo_nets.h"

enum { CLASSES, SIZE };

static const zi_zoo_param params[] = {{"classes", 1000, 1, 100000, false},
                                      {"size", 224, 32, 1024, false},
                                      {0}};

static zi_tensor_id
conv_bn(zi_gb *b, zi_tensor_id x, int i, int64_t out, int64_t kernel, int64_t stride)
{
    char conv[] = "conv0", bn[] = "bn0";
    conv[4] = bn[2] = (char)('0' + i);
    x = zi_gb_conv2d(b, x, conv,
                     &(zi_conv_opt){.out = out,
                                    .kernel = kernel,
                                    .stride = stride,
                                    .pad = kernel / 2});
    return zi_gb_batch_norm(b, x, bn, NULL);
}

static zi_tensor_id
downsample(zi_gb *b, zi_tensor_id x, int64_t out, int64_t stride)
{
    if (stride == 1 && zi_gb_dim(b, x, 1) == out) return x;
    zi_gb_enter(b, "downsample");
    x = zi_gb_conv2d(b, x, "0",
                     &(zi_conv_opt){.out = out, .kernel = 1, .stride = stride});
    x = zi_gb_batch_norm(b, x, "1", NULL);
    zi_gb_leave(b);
    return x;
}

static zi_tensor_id
basic(zi_gb *b, zi_tensor_id x, int64_t width, int64_t stride)
{
    zi_tensor_id y = zi_gb_relu(b, conv_bn(b, x, 1, width, 3, stride));
    y = conv_bn(b, y, 2, width, 3, 1);
    return zi_gb_relu(b, zi_gb_add(b, y, downsample(b, x, width, stride)));
}

static zi_tensor_id
bottleneck(zi_gb *b, zi_tensor_id x, int64_t width, int64_t stride)
{
    zi_tensor_id y = zi_gb_relu(b, conv_bn(b, x, 1, width, 1, 1));
    y = zi_gb_relu(b, conv_bn(b, y, 2, width, 3, stride));
    y = conv_bn(b, y, 3, 4 * width, 1, 1);
    return zi_gb_relu(b, zi_gb_add(b, y, downsample(b, x, 4 * width, stride)));
}

static void
residual(zi_gb *b, const zi_zoo_args *a, bool deep, const int n_blocks[4])
{
    zi_tensor_id x = zi_zoo_images(b, a, 3, zi_zoo_int(a, SIZE));
    x = zi_gb_max_pool(b, zi_gb_relu(b, conv_bn(b, x, 1, 64, 7, 2)), 3, 2, 1);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < n_blocks[stage]; i++) {
            int64_t width = 64 << stage, stride = stage && !i ? 2 : 1;
            zi_gb_enter(b, "layer%d.%d", stage + 1, i);
            x = deep ? bottleneck(b, x, width, stride) : basic(b, x, width, stride);
            zi_gb_leave(b);
        }
    }
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1);
    x = zi_gb_linear(b, x, "fc", zi_zoo_int(a, CLASSES), true);
    zi_zoo_classify(b, x, 1, &a->batch);
}

static void
build18(zi_gb *b, const zi_zoo_args *a)
{
    residual(b, a, false, (int[]){2, 2, 2, 2});
}

static void
build34(zi_gb *b, const zi_zoo_args *a)
{
    residual(b, a, false, (int[]){3, 4, 6, 3});
}

static void
build50(zi_gb *b, const zi_zoo_args *a)
{
    residual(b, a, true, (int[]){3, 4, 6, 3});
}

const zi_zoo_net zi_zoo_resnet18 = {
    .name = "resnet18",
    .about = "residual network, 18 layers (He et al. 2016)",
    .params = params,
    .build = build18,
};

const zi_zoo_net zi_zoo_resnet34 = {
    .name = "resnet34",
    .about = "residual network, 34 layers (He et al. 2016)",
    .params = params,
    .build = build34,
};

const zi_zoo_net zi_zoo_resnet50 = {
    .name = "resnet50",
    .about = "residual network with bottlenecks, 50 layers (He et al. 2016)",
    .params = params,
    .build = build50,
};

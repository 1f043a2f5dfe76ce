/* resnet20.c -- the small residual network for CIFAR.
 *
 * PAPER    K. He, X. Zhang, S. Ren, J. Sun. Deep Residual Learning for Image Recognition.
 *          CVPR 2016, section 4.2.  Shortcuts are option A: subsample, pad with zeros, so
 *          they have no parameters: 269,722 in all for 10 classes.
 */
#include "graph/zoo/zoo_nets.h"

enum { CLASSES, SIZE };

static const zi_zoo_param params[] = {{"classes", 10, 1, 100000, false},
                                      {"size", 32, 8, 1024, false},
                                      {0}};

static zi_tensor_id
shortcut(zi_gb *b, zi_tensor_id x, int64_t width, int64_t stride)
{
    int64_t more = width - zi_gb_dim(b, x, 1);
    if (stride > 1) x = zi_gb_avg_pool(b, x, 1, stride, 0); /* every second pixel */
    return more ? zi_gb_pad(b, x, 1, more / 2, more / 2) : x;
}

static zi_tensor_id
block(zi_gb *b, zi_tensor_id x, int64_t width, int64_t stride)
{
    zi_conv_opt  o = {.out = width,
                      .kernel = 3,
                      .stride = stride,
                      .pad = 1,
                      .init = ZI_CONV_KAIMING_IN};
    zi_tensor_id y = zi_gb_conv2d(b, x, "conv1", &o);
    y = zi_gb_relu(b, zi_gb_batch_norm(b, y, "bn1", NULL));
    o.stride = 1;
    y = zi_gb_batch_norm(b, zi_gb_conv2d(b, y, "conv2", &o), "bn2", NULL);
    return zi_gb_relu(b, zi_gb_add(b, y, shortcut(b, x, width, stride)));
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    zi_tensor_id x = zi_zoo_images(b, a, 3, zi_zoo_int(a, SIZE));
    x = zi_gb_conv2d(
        b, x, "conv1",
        &(zi_conv_opt){.out = 16, .kernel = 3, .pad = 1, .init = ZI_CONV_KAIMING_IN});
    x = zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn1", NULL));
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < 3; i++) {
            zi_gb_enter(b, "layer%d.%d", stage + 1, i);
            x = block(b, x, 16 << stage, stage && !i ? 2 : 1);
            zi_gb_leave(b);
        }
    }
    x = zi_gb_flatten(b, zi_gb_global_avg_pool(b, x), 1);
    x = zi_gb_linear(b, x, "linear", zi_zoo_int(a, CLASSES), true);
    zi_zoo_classify(b, x, 1, &a->batch);
}

const zi_zoo_net zi_zoo_resnet20 = {
    .name = "resnet20",
    .about = "residual network for small images, 20 layers (He et al. 2016)",
    .params = params,
    .build = build,
};

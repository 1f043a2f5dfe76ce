/* unet.c -- segmentation: down to a narrow waist, up again, with bridges across.
 *
 * PAPER    O. Ronneberger, P. Fischer, T. Brox. U-Net: Convolutional Networks for
 *          Biomedical Image Segmentation. MICCAI 2015.
 * WE DO    Padded convolutions with batch norm, as is usual today; layer names and counts
 *          are those of the widespread PyTorch version (31,037,698 for 2 classes).
 */
#include "graph/zoo/zoo_nets.h"

enum { CLASSES, SIZE, WIDTH, CHANNELS };

static const zi_zoo_param params[] = {{"classes", 2, 1, 1000, false},
                                      {"size", 128, 16, 2048, false},
                                      {"width", 64, 1, 256, false},
                                      {"channels", 3, 1, 64, false},
                                      {0}};

static zi_tensor_id
double_conv(zi_gb *b, zi_tensor_id x, int64_t out)
{
    zi_conv_opt o = {.out = out, .kernel = 3, .pad = 1, .init = ZI_CONV_TORCH};
    zi_gb_enter(b, "double_conv");
    x = zi_gb_relu(b, zi_gb_batch_norm(b, zi_gb_conv2d(b, x, "0", &o), "1", NULL));
    x = zi_gb_relu(b, zi_gb_batch_norm(b, zi_gb_conv2d(b, x, "3", &o), "4", NULL));
    zi_gb_leave(b);
    return x;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    int64_t      size = zi_zoo_int(a, SIZE), width = zi_zoo_int(a, WIDTH);
    zi_tensor_id bridge[5], x = zi_zoo_images(b, a, zi_zoo_int(a, CHANNELS), size);

    if (size % 16) zi_gb_fail(b, ZICO_E_ARG, "unet: size should be a multiple of 16");
    zi_gb_enter(b, "inc");
    bridge[0] = double_conv(b, x, width);
    zi_gb_leave(b);
    for (int i = 1; i <= 4; i++) {
        zi_gb_enter(b, "down%d.maxpool_conv.1", i);
        x = zi_gb_max_pool(b, bridge[i - 1], 2, 2, 0);
        bridge[i] = double_conv(b, x, width << i);
        zi_gb_leave(b);
    }
    x = bridge[4];
    for (int i = 1; i <= 4; i++) {
        int64_t out = width << (4 - i);
        zi_gb_enter(b, "up%d", i);
        x = zi_gb_convt2d(b, x, "up",
                          &(zi_conv_opt){.out = out,
                                         .kernel = 2,
                                         .stride = 2,
                                         .bias = true,
                                         .init = ZI_CONV_TORCH});
        x = zi_gb_concat(b, 2, (zi_tensor_id[]){bridge[4 - i], x}, 1);
        zi_gb_enter(b, "conv");
        x = double_conv(b, x, out);
        zi_gb_leave(b);
        zi_gb_leave(b);
    }
    x = zi_gb_conv2d(b, x, "outc.conv",
                     &(zi_conv_opt){.out = zi_zoo_int(a, CLASSES),
                                    .kernel = 1,
                                    .bias = true,
                                    .init = ZI_CONV_TORCH});
    zi_zoo_classify(b, x, 3, (int64_t[]){a->batch, size, size});
}

const zi_zoo_net zi_zoo_unet = {
    .name = "unet",
    .about = "segmentation with bridges from down to up (Ronneberger et al. 2015)",
    .params = params,
    .build = build,
};

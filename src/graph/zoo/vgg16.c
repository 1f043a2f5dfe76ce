/* vgg16.c -- thirteen convolutions and three wide linear layers.
 *
 * PAPER    K. Simonyan, A. Zisserman. Very Deep Convolutional Networks for Large-Scale
 *          Image Recognition. ICLR 2015, configuration D; bn=1 adds batch norm.
 * WE DO    The first linear layer takes what the features leave of the image: 7x7 cells
 *          at size 224, where all counts equal torchvision's.
 */
#include "graph/zoo/zoo_nets.h"

#include <stdio.h>

enum { CLASSES, SIZE, BN, WIDTH, DROPOUT };

static const zi_zoo_param params[] = {{"classes", 1000, 1, 100000, false},
                                      {"size", 224, 32, 1024, false},
                                      {"bn", 0, 0, 1, false},
                                      {"width", 4096, 1, 65536, false},
                                      {"dropout", 0.5, 0, 0.99, true},
                                      {0}};

static zi_tensor_id
features(zi_gb *b, zi_tensor_id x, bool bn)
{
    static const int plan[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                               0,  512, 512, 512, 0,   512, 512, 512, 0};
    int              at = 0; /* position in torchvision's nn.Sequential */
    zi_gb_enter(b, "features");
    for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
        char name[12];
        if (!plan[i]) {
            x = zi_gb_max_pool(b, x, 2, 2, 0);
            at++;
            continue;
        }
        snprintf(name, sizeof name, "%d", at++);
        x = zi_gb_conv2d(
            b, x, name,
            &(zi_conv_opt){.out = plan[i], .kernel = 3, .pad = 1, .bias = true});
        if (bn) {
            snprintf(name, sizeof name, "%d", at++);
            x = zi_gb_batch_norm(b, x, name, NULL);
        }
        x = zi_gb_relu(b, x);
        at++;
    }
    zi_gb_leave(b);
    return x;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    int64_t      width = zi_zoo_int(a, WIDTH);
    zi_init      w = zi_init_normal(0.01), zero = zi_init_const(0);
    zi_tensor_id x = zi_zoo_images(b, a, 3, zi_zoo_int(a, SIZE));

    x = zi_gb_flatten(b, features(b, x, a->v[BN] != 0), 1);
    x = zi_gb_relu(b, zi_gb_linear_init(b, x, "classifier.0", width, true, w, zero));
    x = zi_gb_dropout(b, x, a->v[DROPOUT]);
    x = zi_gb_relu(b, zi_gb_linear_init(b, x, "classifier.3", width, true, w, zero));
    x = zi_gb_dropout(b, x, a->v[DROPOUT]);
    x = zi_gb_linear_init(b, x, "classifier.6", zi_zoo_int(a, CLASSES), true, w, zero);
    zi_zoo_classify(b, x, 1, &a->batch);
}

const zi_zoo_net zi_zoo_vgg16 = {
    .name = "vgg16",
    .about = "thirteen convolutions, three linear layers (Simonyan, Zisserman 2015)",
    .params = params,
    .build = build,
};

/* mlp.c -- linear layers and ReLU: the smallest thing that learns. */
#include "graph/zoo/zoo_nets.h"

#include <stdio.h>

enum { CLASSES, SIZE, CHANNELS, HIDDEN, LAYERS };

static const zi_zoo_param params[] = {{"classes", 10, 1, 100000, false},
                                      {"size", 28, 1, 1024, false},
                                      {"channels", 1, 1, 64, false},
                                      {"hidden", 256, 1, 65536, false},
                                      {"layers", 2, 1, 64, false},
                                      {0}};

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    zi_tensor_id x = zi_zoo_images(b, a, zi_zoo_int(a, CHANNELS), zi_zoo_int(a, SIZE));
    int          n = (int)zi_zoo_int(a, LAYERS);
    x = zi_gb_flatten(b, x, 1);
    for (int i = 1; i <= n; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", i);
        x = zi_gb_linear(b, x, name, zi_zoo_int(a, i < n ? HIDDEN : CLASSES), true);
        if (i < n) x = zi_gb_relu(b, x);
    }
    zi_zoo_classify(b, x, 1, &a->batch);
}

const zi_zoo_net zi_zoo_mlp = {
    .name = "mlp",
    .about = "linear layers with ReLU between them",
    .params = params,
    .build = build,
};

/* zoo_nets.h -- the pages of the zoo, and the few lines that they share. */
#ifndef ZI_GRAPH_ZOO_NETS_H
#define ZI_GRAPH_ZOO_NETS_H

#include "graph/builder.h"
#include "graph/zoo/zoo.h"

extern const zi_zoo_net zi_zoo_resnet20, zi_zoo_resnet18, zi_zoo_resnet34,
    zi_zoo_resnet50, zi_zoo_vgg16, zi_zoo_mobilenet_v2, zi_zoo_densenet121, zi_zoo_unet,
    zi_zoo_lstm_lm, zi_zoo_gpt, zi_zoo_mlp;

static inline int64_t
zi_zoo_int(const zi_zoo_args *a, int i)
{
    return (int64_t)a->v[i];
}

/* "x": a batch of square images. */
static inline zi_tensor_id
zi_zoo_images(zi_gb *b, const zi_zoo_args *a, int64_t channels, int64_t size)
{
    return zi_gb_input(b, "x", ZI_DTYPE_F32, 4,
                       (int64_t[]){a->batch, channels, size, size});
}

/* "tokens": a batch of sequences. */
static inline zi_tensor_id
zi_zoo_tokens(zi_gb *b, const zi_zoo_args *a, int64_t length)
{
    return zi_gb_input(b, "tokens", ZI_DTYPE_I32, 2, (int64_t[]){a->batch, length});
}

/* The end of a classifier: logits are shown; in training they are compared with "labels",
 * which have the dims of the logits without the classes. */
static inline void
zi_zoo_classify(zi_gb *b, zi_tensor_id logits, uint32_t rank, const int64_t *label_dims)
{
    if (zi_gb_training(b))
        zi_gb_cross_entropy(b, logits, zi_gb_label(b, "labels", rank, label_dims));
    else
        zi_gb_output(b, logits);
}

#endif /* ZI_GRAPH_ZOO_NETS_H */

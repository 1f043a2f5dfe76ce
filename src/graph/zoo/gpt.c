/* gpt.c -- a decoder-only transformer.
 *
 * PAPER    A. Radford, J. Wu, R. Child, D. Luan, D. Amodei, I. Sutskever. Language Models
 *          are Unsupervised Multitask Learners. 2019.  The output layer shares the
 *          token embedding's weight; with vocab=50257,seq=1024,width=768,layers=12,
 *          heads=12 there are 124,439,808 parameters.
 */
#include "graph/zoo/zoo_nets.h"

#include <math.h>

enum { VOCAB, SEQ, WIDTH, LAYERS, HEADS, DROPOUT };

static const zi_zoo_param params[] = {{"vocab", 256, 2, 1000000, false},
                                      {"seq", 128, 1, 65536, false},
                                      {"width", 256, 1, 16384, false},
                                      {"layers", 4, 1, 256, false},
                                      {"heads", 4, 1, 256, false},
                                      {"dropout", 0, 0, 0.99, true},
                                      {0}};

static zi_tensor_id
mlp(zi_gb *b, zi_tensor_id x, double dropout, zi_init weight, zi_init proj)
{
    int64_t width = zi_gb_dim(b, x, -1);
    zi_init zero = zi_init_const(0);
    x = zi_gb_linear_init(b, x, "mlp.c_fc", 4 * width, true, weight, zero);
    x = zi_gb_gelu(b, x, true);
    x = zi_gb_linear_init(b, x, "mlp.c_proj", width, true, proj, zero);
    return zi_gb_dropout(b, x, dropout);
}

static zi_tensor_id
block(zi_gb *b, zi_tensor_id x, const zi_zoo_args *a, zi_init weight, zi_init proj)
{
    zi_tensor_id y = zi_gb_layer_norm(b, x, "ln_1", NULL);
    y = zi_gb_attention(b, y, "attn", zi_zoo_int(a, HEADS), a->v[DROPOUT], weight, proj);
    x = zi_gb_add(b, x, y);
    y = mlp(b, zi_gb_layer_norm(b, x, "ln_2", NULL), a->v[DROPOUT], weight, proj);
    return zi_gb_add(b, x, y);
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    int64_t seq = zi_zoo_int(a, SEQ), width = zi_zoo_int(a, WIDTH);
    zi_init weight = zi_init_normal(0.02);
    zi_init proj = zi_init_normal(0.02 / sqrt(2 * a->v[LAYERS]));

    zi_tensor_id x = zi_zoo_tokens(b, a, seq);
    zi_gb_enter(b, "transformer");
    x = zi_gb_embedding(b, x, "wte", zi_zoo_int(a, VOCAB), width, weight);
    x = zi_gb_add(b, x, zi_gb_param(b, "wpe.weight", 2, (int64_t[]){seq, width}, weight));
    x = zi_gb_dropout(b, x, a->v[DROPOUT]);
    for (int i = 0; i < zi_zoo_int(a, LAYERS) && !zi_gb_failed(b); i++) {
        zi_gb_enter(b, "h.%d", i);
        x = block(b, x, a, weight, proj);
        zi_gb_leave(b);
    }
    x = zi_gb_layer_norm(b, x, "ln_f", NULL);
    zi_gb_leave(b);
    zi_tensor_id wte = zi_graph_find_tensor(zi_gb_graph(b), "transformer.wte.weight");
    zi_gb_enter(b, "lm_head");
    x = zi_gb_op(b, ZI_OP_LINEAR, &(zi_attr){.matmul = {.alpha = 1}}, 2,
                 (zi_tensor_id[]){x, wte});
    zi_gb_leave(b);
    zi_zoo_classify(b, x, 2, (int64_t[]){a->batch, seq});
}

const zi_zoo_net zi_zoo_gpt = {
    .name = "gpt",
    .about = "decoder-only transformer (Radford et al. 2019)",
    .params = params,
    .build = build,
};

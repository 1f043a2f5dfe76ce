/* lstm_lm.c -- a language model: embedding, stacked LSTMs unrolled in the graph, decoder.
 *
 * PAPER    W. Zaremba, I. Sutskever, O. Vinyals. Recurrent Neural Network Regularization.
 *          arXiv:1409.2329, 2014; names as in PyTorch's word_language_model example.
 * WE DO    The input half of the gates is one product for a stretch of time steps; only the
 *          recurrent half is unrolled.  Every step starts from a zero state.
 *          A long sequence is cut into equal stretches from the embedding to the decoder: gates of
 *          one stretch alone are there at a time, and going back its gradients are joined and
 *          gone before the next one's are made.  Joined at a layer's end they would
 *          be there twice, for all steps at once.
 */
#include "graph/zoo/zoo_nets.h"
#include "base/alloc.h"

#include <stdlib.h>

#define SEQ_MAX     4096u
#define STRETCH     64 /* steps, about */
#define STRETCH_MIN 32
#define STRETCH_MAX 128

enum { VOCAB, WIDTH, HIDDEN, LAYERS, SEQ, DROPOUT };

static const zi_zoo_param params[] = {{"vocab", 10000, 2, 1000000, false},
                                      {"width", 200, 1, 16384, false},
                                      {"hidden", 200, 1, 16384, false},
                                      {"layers", 2, 1, 16, false},
                                      {"seq", 35, 1, SEQ_MAX, false},
                                      {"dropout", 0.2, 0, 0.99, true},
                                      {0}};

static zi_tensor_id
linear(zi_gb *b, zi_tensor_id x, zi_tensor_id w, zi_tensor_id bias)
{
    return zi_gb_op(b, ZI_OP_LINEAR, &(zi_attr){.matmul = {.alpha = 1}}, 3,
                    (zi_tensor_id[]){x, w, bias});
}

/* One step: gates from the input are given, those from the state are added. */
static void
step(zi_gb *b, const zi_lstm_params *w, zi_tensor_id from_x, zi_tensor_id *h,
     zi_tensor_id *c)
{
    int64_t dims[2] = {zi_gb_dim(b, *h, 0), 4 * zi_gb_dim(b, *h, 1)};
    from_x = zi_gb_reshape(b, from_x, 2, dims);
    zi_gb_lstm_cell(b, zi_gb_add(b, linear(b, *h, w->w_hh, w->b_hh), from_x), h, c);
}

typedef struct lstm {
    uint32_t     n_stretches, n_steps;     /* of each */
    zi_tensor_id x[SEQ_MAX / STRETCH_MIN]; /* stretches, (n_steps,N,D) */
    zi_tensor_id part[SEQ_MAX];
} lstm;

/* Stretch k of one layer: (n_steps,N,D) -> (n_steps,N,H), going on from h and c. */
static void
stretch(zi_gb *b, lstm *l, uint32_t k, const zi_lstm_params *w, zi_tensor_id *h,
        zi_tensor_id *c)
{
    int64_t dims[3] = {1, zi_gb_dim(b, *h, 0), zi_gb_dim(b, *h, 1)};

    zi_gb_split(b, linear(b, l->x[k], w->w_ih, w->b_ih), 0, l->n_steps, l->part);
    for (uint32_t t = 0; t < l->n_steps && !zi_gb_failed(b); t++) {
        zi_gb_enter(b, "t%u", k * l->n_steps + t);
        step(b, w, l->part[t], h, c);
        l->part[t] = zi_gb_reshape(b, *h, 3, dims);
        zi_gb_leave(b);
    }
    l->x[k] = zi_gb_concat(b, l->n_steps, l->part, 0);
}

static void
layer(zi_gb *b, lstm *l, int i, int64_t hidden)
{
    int64_t        n = zi_gb_dim(b, l->x[0], 1);
    zi_lstm_params w = zi_gb_lstm_params(b, "rnn", i, zi_gb_dim(b, l->x[0], 2), hidden);

    zi_gb_enter(b, "rnn.l%d", i);
    zi_tensor_id h = zi_gb_fill(b, 2, (int64_t[]){n, hidden}, 0), c = h;
    for (uint32_t k = 0; k < l->n_stretches && !zi_gb_failed(b); k++)
        stretch(b, l, k, &w, &h, &c);
    zi_gb_leave(b);
}

/* The length nearest to STRETCH of which there is a whole number; the whole, if there is none. */
static uint32_t
stretch_of(uint32_t seq)
{
    uint32_t best = seq;

    if (seq <= STRETCH) return seq;
    for (uint32_t n = STRETCH_MIN; n <= STRETCH_MAX; n++)
        if (seq % n == 0 &&
            (best > STRETCH_MAX || abs((int)n - STRETCH) < abs((int)best - STRETCH)))
            best = n;
    return best;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    int64_t      seq = zi_zoo_int(a, SEQ), vocab = zi_zoo_int(a, VOCAB);
    lstm        *l = zi_malloc(sizeof *l);
    zi_tensor_id x = zi_zoo_tokens(b, a, seq);
    zi_init      init = zi_init_uniform(0.1);

    if (!l) {
        zi_gb_fail(b, ZICO_E_NOMEM, "no memory");
        return;
    }
    l->n_steps = stretch_of((uint32_t)seq);
    l->n_stretches = (uint32_t)seq / l->n_steps;
    x = zi_gb_embedding(b, x, "encoder", vocab, zi_zoo_int(a, WIDTH), init);
    x = zi_gb_transpose(b, zi_gb_dropout(b, x, a->v[DROPOUT]), (int64_t[]){1, 0, 2});
    l->x[0] = x;
    if (l->n_stretches > 1) zi_gb_split(b, x, 0, l->n_stretches, l->x);
    for (int i = 0; i < zi_zoo_int(a, LAYERS) && !zi_gb_failed(b); i++) {
        layer(b, l, i, zi_zoo_int(a, HIDDEN));
        for (uint32_t k = 0; k < l->n_stretches; k++)
            l->x[k] = zi_gb_dropout(b, l->x[k], a->v[DROPOUT]);
    }
    x = l->n_stretches > 1 ? zi_gb_concat(b, l->n_stretches, l->x, 0) : l->x[0];
    x = zi_gb_transpose(b, x, (int64_t[]){1, 0, 2});
    x = zi_gb_linear_init(b, x, "decoder", vocab, true, init, zi_init_const(0));
    zi_zoo_classify(b, x, 2, (int64_t[]){a->batch, seq});
    zi_free(l);
}

const zi_zoo_net zi_zoo_lstm_lm = {
    .name = "lstm_lm",
    .about = "word language model, LSTMs unrolled over time (Zaremba et al. 2014)",
    .params = params,
    .build = build,
};

/* lstm_lm.c -- a language model: embedding, stacked LSTMs unrolled in the graph, decoder.
 *
 * PAPER    W. Zaremba, I. Sutskever, O. Vinyals. Recurrent Neural Network Regularization.
 *          arXiv:1409.2329, 2014; names as in PyTorch's word_language_model example.
 * WE DO    The input half of the gates is one product for all time steps; only the
 *          recurrent half is unrolled.  Every step starts from a zero state.
 */
#include "graph/zoo/zoo_nets.h"
#include "base/alloc.h"

enum { VOCAB, WIDTH, HIDDEN, LAYERS, SEQ, DROPOUT };

static const zi_zoo_param params[] = {{"vocab", 10000, 2, 1000000, false},
                                      {"width", 200, 1, 16384, false},
                                      {"hidden", 200, 1, 16384, false},
                                      {"layers", 2, 1, 16, false},
                                      {"seq", 35, 1, 4096, false},
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

/* (T,N,D) -> (T,N,H); `part` has room for T tensors. */
static zi_tensor_id
layer(zi_gb *b, zi_tensor_id x, int i, int64_t hidden, zi_tensor_id *part)
{
    uint32_t       seq = (uint32_t)zi_gb_dim(b, x, 0);
    int64_t        n = zi_gb_dim(b, x, 1);
    zi_lstm_params w = zi_gb_lstm_params(b, "rnn", i, zi_gb_dim(b, x, 2), hidden);

    zi_gb_enter(b, "rnn.l%d", i);
    zi_gb_split(b, linear(b, x, w.w_ih, w.b_ih), 0, seq, part);
    zi_tensor_id h = zi_gb_fill(b, 2, (int64_t[]){n, hidden}, 0), c = h;
    for (uint32_t t = 0; t < seq && !zi_gb_failed(b); t++) {
        zi_gb_enter(b, "t%u", t);
        step(b, &w, part[t], &h, &c);
        part[t] = zi_gb_reshape(b, h, 3, (int64_t[]){1, n, hidden});
        zi_gb_leave(b);
    }
    x = zi_gb_concat(b, seq, part, 0);
    zi_gb_leave(b);
    return x;
}

static void
build(zi_gb *b, const zi_zoo_args *a)
{
    int64_t       seq = zi_zoo_int(a, SEQ), vocab = zi_zoo_int(a, VOCAB);
    zi_tensor_id *part = zi_malloc((size_t)seq * sizeof *part);
    zi_tensor_id  x = zi_zoo_tokens(b, a, seq);
    zi_init       init = zi_init_uniform(0.1);

    if (!part) zi_gb_fail(b, ZICO_E_NOMEM, "no memory");
    x = zi_gb_embedding(b, x, "encoder", vocab, zi_zoo_int(a, WIDTH), init);
    x = zi_gb_transpose(b, zi_gb_dropout(b, x, a->v[DROPOUT]), (int64_t[]){1, 0, 2});
    for (int i = 0; i < zi_zoo_int(a, LAYERS) && !zi_gb_failed(b); i++)
        x = zi_gb_dropout(b, layer(b, x, i, zi_zoo_int(a, HIDDEN), part), a->v[DROPOUT]);
    x = zi_gb_transpose(b, x, (int64_t[]){1, 0, 2});
    x = zi_gb_linear_init(b, x, "decoder", vocab, true, init, zi_init_const(0));
    zi_zoo_classify(b, x, 2, (int64_t[]){a->batch, seq});
    zi_free(part);
}

const zi_zoo_net zi_zoo_lstm_lm = {
    .name = "lstm_lm",
    .about = "word language model, LSTMs unrolled over time (Zaremba et al. 2014)",
    .params = params,
    .build = build,
};

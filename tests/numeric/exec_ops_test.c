/* tests/numeric/exec_ops_test.c -- every operator, forward and backward, against the reference,
 * in plain layout and in blocks, with whole and with cut blocks of channels.
 * timeout: 300 */
#include "exec_compare.h"
#include "graph/builder.h"

typedef struct shape {
    int64_t N, C, H, W;
} shape;

typedef zi_tensor_id body(zi_gb *b, zi_tensor_id x, const shape *s);

static bool seen[ZI_OP_COUNT]; /* over all tests: what ran at all */

static void
note(const zi_graph *g)
{
    for (zi_node_id n = 0; n < g->n_nodes; n++) seen[g->nodes[n].op] = true;
}

static void
target(zi_gb *b, zi_tensor_id y)
{
    int64_t        dims[ZI_MAX_RANK];
    const uint32_t rank = zi_gb_failed(b) ? 0 : zi_gb_graph(b)->tensors[y].rank;

    for (uint32_t d = 0; d < rank; d++) dims[d] = zi_gb_dim(b, y, (int)d);
    zi_gb_mse(b, y, zi_gb_input(b, "target", ZI_DTYPE_F32, rank, dims));
}

static zi_graph *
finish(zi_gb *b, const zi_optim *o, bool fuse)
{
    zi_graph     *g;
    zi_graph_diag diag = {0};

    zico_status st = zi_gb_finish(b, &diag, &g);
    if (st >= 0 && fuse) st = zi_graph_fuse(g, &diag);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &diag);
    if (st >= 0) st = zi_graph_add_update(g, o, &diag);
    if (st < 0) print_error("%s\n", diag.text);
    expect_ok(st);
    note(g);
    return g;
}

static void
judge(zi_gb *b, zi_optim_kind kind)
{
    zi_optim o = zi_optim_default(kind);
    o.decay = 0.01;
    zi_graph *g = finish(b, &o, true);
    for (unsigned v = 0; v < 3; v++) {
        cmp_options c = {.n_threads = v == 1 ? 2 : 1,
                         .n_steps = 2,
                         .plain = v == 2,
                         .all = true,
                         .tolerance = 2e-4,
                         .n_classes = 3};
        cmp_graph(g, &c);
    }
    zi_graph_free(g);
}

/* The body on a parameter of that shape; with `conv`, on the blocks that a convolution makes. */
static void
image_case(body *f, shape s, bool conv)
{
    zi_gb       *b = zi_gb_new("case", true, 1);
    zi_tensor_id x = zi_gb_param(b, "x", 4, (int64_t[]){s.N, conv ? 5 : s.C, s.H, s.W},
                                 zi_init_normal(1));
    if (conv)
        x = zi_gb_conv2d(b, x, "c", &(zi_conv_opt){.out = s.C, .kernel = 3, .pad = 1});
    if (!conv) x = zi_gb_scale(b, x, 2, 0); /* a view of a parameter would move with it */
    target(b, f(b, x, &s));
    judge(b, ZI_OPTIM_SGD);
}

static void
all_images(body *f)
{
    image_case(f, (shape){2, 3, 7, 6}, false);
    image_case(f, (shape){3, 32, 6, 7}, true);
    image_case(f, (shape){2, 24, 9, 8}, true);
    image_case(f, (shape){2, 5, 8, 8}, true);
}

/* -- elementwise ------------------------------------------------------------------------ */

#define BODY(name, expr)                                                                 \
    static zi_tensor_id body_##name(zi_gb *b, zi_tensor_id x, const shape *s)            \
    {                                                                                    \
        (void)s;                                                                         \
        return expr;                                                                     \
    }
BODY(relu, zi_gb_relu(b, x))
BODY(clip, zi_gb_clip(b, x, -0.5, 0.75))
BODY(clip_up, zi_gb_clip(b, x, 0.125, 0.75))
BODY(gelu, zi_gb_gelu(b, x, false))
BODY(gelu_tanh, zi_gb_gelu(b, x, true))
BODY(silu, zi_gb_silu(b, x))
BODY(sigmoid, zi_gb_sigmoid(b, x))
BODY(tanh, zi_gb_tanh(b, x))
BODY(scale, zi_gb_scale(b, x, 1.5, 0.25))
BODY(add, zi_gb_add(b, x, zi_gb_relu(b, x)))
BODY(sub, zi_gb_sub(b, zi_gb_tanh(b, x), x))
BODY(mul, zi_gb_mul(b, x, zi_gb_sigmoid(b, x)))
BODY(div, zi_gb_div(b, x, zi_gb_scale(b, zi_gb_sigmoid(b, x), 1, 1)))
BODY(dropout, zi_gb_dropout(b, x, 0.3))

/* Activations and arithmetic of the same shape. */
static void
elementwise(void **state)
{
    static body *const all[] = {body_relu,      body_clip,   body_clip_up, body_gelu,
                                body_gelu_tanh, body_silu,   body_sigmoid, body_tanh,
                                body_scale,     body_add,    body_sub,     body_mul,
                                body_div,       body_dropout};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all_images(all[i]);
}

static zi_tensor_id
other(zi_gb *b, uint32_t rank, const int64_t *dims)
{
    return zi_gb_param(b, "other", rank, dims, zi_init_normal(1));
}

BODY(add_c, zi_gb_add(b, x, other(b, 4, (int64_t[]){1, s->C, 1, 1})))
BODY(sub_row, zi_gb_sub(b, x, other(b, 1, (int64_t[]){s->W})))
BODY(mul_nc, zi_gb_mul(b, other(b, 4, (int64_t[]){s->N, s->C, 1, 1}), x))
BODY(div_one,
     zi_gb_div(b, x, zi_gb_scale(b, zi_gb_sigmoid(b, other(b, 1, (int64_t[]){1})), 1, 1)))
BODY(bias, zi_gb_bias(b, x, other(b, 1, (int64_t[]){s->C}), 1))
BODY(bias_last, zi_gb_bias(b, x, other(b, 1, (int64_t[]){s->W}), 3))
BODY(broadcast,
     zi_gb_op(b, ZI_OP_BROADCAST,
              &(zi_attr){.shape = {.rank = 4, .dims = {s->N, s->C, s->H, s->W}}}, 1,
              (zi_tensor_id[]){zi_gb_reduce_mean(b, x, 0x9, true)}))

/* Operands that are repeated, and the sums that this makes backward. */
static void
broadcasting(void **state)
{
    static body *const all[] = {body_add_c, body_sub_row,   body_mul_nc,   body_div_one,
                                body_bias,  body_bias_last, body_broadcast};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all_images(all[i]);
}

/* -- images ------------------------------------------------------------------------------ */

BODY(max_pool, zi_gb_max_pool(b, x, 3, 2, 1))
BODY(max_pool2, zi_gb_max_pool(b, x, 2, 2, 0))
BODY(avg_pool, zi_gb_avg_pool(b, x, 3, 2, 1))
BODY(global_pool, zi_gb_global_avg_pool(b, x))
BODY(nearest, zi_gb_resize(b, x, 11, 13, false, false))
BODY(bilinear, zi_gb_resize(b, x, 13, 9, true, false))
BODY(bilinear_align, zi_gb_resize(b, x, 12, 12, true, true))
BODY(bn, zi_gb_batch_norm(b, x, "bn", NULL))
BODY(bn_relu, zi_gb_relu(b, zi_gb_batch_norm(b, x, "bn", NULL)))
BODY(bn_add_relu,
     zi_gb_relu(b, zi_gb_add(b, zi_gb_batch_norm(b, x, "bn", NULL), zi_gb_tanh(b, x))))

static zi_tensor_id
body_big_pool(zi_gb *b, zi_tensor_id x, const shape *s)
{
    (void)s; /* more than 256 cells: indices no longer fit a byte */
    return zi_gb_max_pool(b, zi_gb_resize(b, x, 18, 18, true, false), 17, 1, 0);
}

static zi_tensor_id
body_bn_fixed(zi_gb *b, zi_tensor_id x, const shape *s)
{
    zi_tensor_id in[5] = {
        x, zi_gb_param(b, "gamma", 1, (int64_t[]){s->C}, zi_init_normal(1)),
        zi_gb_param(b, "beta", 1, (int64_t[]){s->C}, zi_init_normal(1)),
        zi_gb_state(b, "mean", 1, (int64_t[]){s->C}, zi_init_const(0.1)),
        zi_gb_state(b, "var", 1, (int64_t[]){s->C}, zi_init_const(0.8))};
    return zi_gb_op(b, ZI_OP_BATCH_NORM_FIXED,
                    &(zi_attr){.norm = {.eps = 1e-5, .act = ZI_POST_RELU}}, 5, in);
}

/* Pooling, resampling, batch norm. */
static void
images(void **state)
{
    static body *const all[] = {body_max_pool,       body_max_pool2, body_avg_pool,
                                body_global_pool,    body_nearest,   body_bilinear,
                                body_bilinear_align, body_bn,        body_bn_relu,
                                body_bn_add_relu,    body_big_pool,  body_bn_fixed};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all_images(all[i]);
}

static const zi_conv_opt convs[] = {
    {.out = 32, .kernel = 3, .pad = 1},
    {.out = 16, .kernel = 1, .bias = true},
    {.out = 48, .kernel = 3, .stride = 2, .pad = 1, .bias = true},
    {.out = 20, .kernel = 3, .dilation = 2, .pad = 2},
    {.out = 32, .kernel = 3, .groups = 32, .pad = 1},
    {.out = 64, .kernel = 3, .groups = 32, .pad = 1, .bias = true},
    {.out = 32, .kernel = 3, .groups = 4, .pad = 1},
    {.out = 7,
     .kernel = 5,
     .kernel_w = 3,
     .pad = 2,
     .pad_w = 1,
     .stride = 2,
     .stride_w = 1},
};

/* Convolutions of all kinds, and the transposed ones. */
static void
convolutions(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++)
        for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
            zi_gb       *b = zi_gb_new("conv", true, 1);
            zi_tensor_id x =
                zi_gb_param(b, "x", 4, (int64_t[]){2, 32, 9, 10}, zi_init_normal(1));
            x = zi_gb_relu(b, x);
            x = transposed ? zi_gb_convt2d(b, x, "c", &convs[i])
                           : zi_gb_conv2d(b, x, "c", &convs[i]);
            target(b, zi_gb_relu(b, x));
            judge(b, ZI_OPTIM_SGD);
        }
}

/* Three channels in, as pictures have: no gradient by data, plain input. */
static void
first_convolution(void **state)
{
    (void)state;
    for (int64_t c = 1; c <= 4; c++) {
        zi_gb       *b = zi_gb_new("first", true, 1);
        zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){2, c, 12, 12});
        x = zi_gb_conv2d(b, x, "c",
                         &(zi_conv_opt){.out = 16, .kernel = 3, .stride = 2, .pad = 1});
        target(b, zi_gb_relu(b, x));
        judge(b, ZI_OPTIM_SGD);
    }
}

/* -- shape ------------------------------------------------------------------------------- */

static zi_tensor_id
body_concat(zi_gb *b, zi_tensor_id x, const shape *s)
{
    (void)s;
    return zi_gb_concat(b, 3, (zi_tensor_id[]){x, zi_gb_tanh(b, x), zi_gb_relu(b, x)}, 1);
}

static zi_tensor_id
body_concat_w(zi_gb *b, zi_tensor_id x, const shape *s)
{
    (void)s;
    return zi_gb_concat(b, 2, (zi_tensor_id[]){x, zi_gb_tanh(b, x)}, 3);
}

static zi_tensor_id
body_split(zi_gb *b, zi_tensor_id x, const shape *s)
{
    zi_tensor_id part[2];
    if (s->C % 2) return zi_gb_tanh(b, x);
    zi_gb_split(b, x, 1, 2, part);
    return zi_gb_mul(b, part[0], zi_gb_tanh(b, part[1]));
}

BODY(slice_c, zi_gb_slice(b, x, 1, s->C / 2, s->C))
BODY(slice_w, zi_gb_slice(b, x, 3, 1, 4))
BODY(slice_n, zi_gb_tanh(b, zi_gb_slice(b, x, 0, 1, 2)))
BODY(pad, zi_gb_pad(b, x, 2, 1, 2))
BODY(transpose, zi_gb_transpose(b, x, (int64_t[]){0, 2, 3, 1}))
BODY(transpose2, zi_gb_transpose(b, x, (int64_t[]){3, 1, 0, 2}))
BODY(flatten, zi_gb_tanh(b, zi_gb_flatten(b, x, 1)))
BODY(mean_hw, zi_gb_reduce_mean(b, x, 0xc, false))
BODY(sum_n, zi_gb_reduce_sum(b, x, 0x1, true))
BODY(sum_ch, zi_gb_reduce_sum(b, x, 0x6, false))
BODY(mean_all, zi_gb_reduce_mean(b, x, 0xf, false))
BODY(softmax, zi_gb_softmax(b, x, 0.7, false))
BODY(softmax_causal, zi_gb_softmax(b, x, 0.7, true))
BODY(ln, zi_gb_layer_norm(b, x, "ln", NULL))

/* Moving elements, adding them up, normalising rows. */
static void
shapes(void **state)
{
    static body *const all[] = {
        body_concat,         body_concat_w, body_split,     body_slice_c,    body_slice_w,
        body_slice_n,        body_pad,      body_transpose, body_transpose2, body_flatten,
        body_mean_hw,        body_sum_n,    body_sum_ch,    body_mean_all,   body_softmax,
        body_softmax_causal, body_ln};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) all_images(all[i]);
}

/* Concatenation where the parts do not fill blocks must not mix up channels. */
static void
odd_parts(void **state)
{
    (void)state;
    zi_gb       *b = zi_gb_new("odd", true, 1);
    zi_tensor_id x = zi_gb_param(b, "x", 4, (int64_t[]){2, 3, 6, 6}, zi_init_normal(1));
    zi_conv_opt  o = {.kernel = 3, .pad = 1};
    zi_tensor_id part[3];
    for (int i = 0; i < 3; i++) {
        o.out = (int64_t[]){24, 16, 9}[i];
        part[i] = zi_gb_conv2d(b, x, (const char *[]){"a", "b", "c"}[i], &o);
    }
    x = zi_gb_relu(b, zi_gb_concat(b, 3, part, 1));
    o.out = 32;
    target(b, zi_gb_conv2d(b, x, "d", &o));
    judge(b, ZI_OPTIM_SGD);
}

/* More parts than fit a screen, each in blocks that are not whole: all go through scratch. */
static void
many_parts(void **state)
{
    (void)state;
    zi_gb       *b = zi_gb_new("many", true, 1);
    zi_tensor_id x = zi_gb_param(b, "x", 4, (int64_t[]){2, 3, 4, 4}, zi_init_normal(1));
    zi_tensor_id part[40];
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        part[i] = zi_gb_conv2d(b, x, name, &(zi_conv_opt){.out = 5, .kernel = 1});
    }
    target(b, zi_gb_relu(b, zi_gb_concat(b, 40, part, 1)));
    judge(b, ZI_OPTIM_SGD);
}

/* Products of what convolutions leave in blocks. */
static void
blocks_to_dense(void **state)
{
    (void)state;
    zi_gb       *b = zi_gb_new("blocks", true, 1);
    zi_tensor_id x = zi_gb_param(b, "x", 4, (int64_t[]){2, 3, 6, 6}, zi_init_normal(1));
    x = zi_gb_conv2d(b, x, "c", &(zi_conv_opt){.out = 16, .kernel = 3, .pad = 1});
    x = zi_gb_matmul(b, x, zi_gb_relu(b, x), false, true, 0.25);
    target(b, zi_gb_linear(b, x, "fc", 9, true));
    judge(b, ZI_OPTIM_SGD);
}

/* -- dense -------------------------------------------------------------------------------- */

static zi_tensor_id
matrix(zi_gb *b, const char *name, int64_t n, int64_t m, int64_t k)
{
    return zi_gb_param(b, name, 3, (int64_t[]){n, m, k}, zi_init_normal(1));
}

/* Linear layers with each activation, products with each transposition. */
static void
dense(void **state)
{
    (void)state;
    for (int act = 0; act < 4; act++) {
        zi_gb       *b = zi_gb_new("linear", true, 1);
        zi_tensor_id x = zi_gb_linear(b, matrix(b, "x", 3, 5, 33), "fc", 21, act != 3);
        x = act == 0   ? zi_gb_relu(b, x)
            : act == 1 ? zi_gb_gelu(b, x, false)
            : act == 2 ? zi_gb_gelu(b, x, true)
                       : x;
        target(b, x);
        judge(b, ZI_OPTIM_MOMENTUM);
    }
    for (int t = 0; t < 4; t++) {
        const bool   ta = t & 1, tb = t & 2;
        zi_gb       *b = zi_gb_new("matmul", true, 1);
        zi_tensor_id x = matrix(b, "x", 4, ta ? 7 : 9, ta ? 9 : 7);
        zi_tensor_id y = matrix(b, "y", 4, tb ? 11 : 7, tb ? 7 : 11);
        target(b, zi_gb_matmul(b, x, y, ta, tb, 0.5));
        judge(b, ZI_OPTIM_SGD);
    }
}

/* -- losses, optimizers -------------------------------------------------------------------- */

/* Cross-entropy over rows and over pixels, and the two steps apart. */
static void
losses(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        zi_gb       *b = zi_gb_new("loss", true, 1);
        zi_tensor_id x =
            kind == 1
                ? zi_gb_param(b, "x", 4, (int64_t[]){2, 3, 9, 10}, zi_init_normal(1))
                : zi_gb_param(b, "x", 2, (int64_t[]){6, 5}, zi_init_normal(1));
        zi_tensor_id l = kind == 1 ? zi_gb_label(b, "l", 3, (int64_t[]){2, 9, 10})
                                   : zi_gb_label(b, "l", 1, (int64_t[]){6});
        if (kind == 2) {
            zi_gb_nll(b, zi_gb_scale(b, zi_gb_sigmoid(b, x), 1, 0.1), l);
        } else {
            zi_gb_cross_entropy(b, x, l);
        }
        judge(b, ZI_OPTIM_SGD);
    }
}

/* Each rule of update, with clipping, decay and Nesterov's form. */
static void
optimizers(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        zi_gb       *b = zi_gb_new("optim", true, 1);
        zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 4, (int64_t[]){4, 3, 8, 8});
        x = zi_gb_conv2d(b, x, "c",
                         &(zi_conv_opt){.out = 24, .kernel = 3, .pad = 1, .bias = true});
        x = zi_gb_linear(b, zi_gb_flatten(b, zi_gb_relu(b, x), 1), "fc", 6, true);
        target(b, x);
        zi_optim o = zi_optim_default((zi_optim_kind)(i % 4));
        o.decay = 0.05;
        o.eps = 1e-3; /* where Adam's ratio is well-behaved */
        if (i >= 4) o.clip_norm = 0.01;
        if (i == 5) {
            o.kind = ZI_OPTIM_MOMENTUM;
            o.momentum = 0.9;
            o.nesterov = true;
        }
        zi_graph   *g = finish(b, &o, true);
        cmp_options c = {
            .n_threads = 2, .n_steps = 3, .all = true, .tolerance = 2e-4, .n_classes = 3};
        cmp_graph(g, &c);
        c.all = false;
        cmp_graph(g, &c);
        zi_graph_free(g);
    }
}

/* Unrolled cells and lookups; both also run in exec_nets_test. */
static void
sequences(void **state)
{
    (void)state;
    zi_gb         *b = zi_gb_new("seq", true, 1);
    zi_tensor_id   ix = zi_gb_input(b, "tokens", ZI_DTYPE_I32, 1, (int64_t[]){4});
    zi_tensor_id   x = zi_gb_embedding(b, ix, "e", 7, 10, zi_init_normal(1));
    zi_lstm_params w = zi_gb_lstm_params(b, "rnn", 0, 10, 9);
    zi_tensor_id   h = zi_gb_fill(b, 2, (int64_t[]){4, 9}, 0), c = h;
    for (int i = 0; i < 3; i++) zi_gb_lstm_step(b, &w, x, &h, &c);
    target(b, zi_gb_add(b, h, c));
    judge(b, ZI_OPTIM_SGD);
}

/* Nothing was left out: every operator of ops.def ran in one of the tests above. */
static void
all_operators_ran(void **state)
{
    (void)state;
    for (int op = 0; op < ZI_OP_COUNT; op++)
        if (!seen[op]) fail_msg("%s never ran", zi_op_get((zi_op)op)->text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(images),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(first_convolution),
        cmocka_unit_test(shapes),
        cmocka_unit_test(odd_parts),
        cmocka_unit_test(many_parts),
        cmocka_unit_test(blocks_to_dense),
        cmocka_unit_test(dense),
        cmocka_unit_test(losses),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(sequences),
        cmocka_unit_test(all_operators_ran),
    };
    return t_main(tests);
}

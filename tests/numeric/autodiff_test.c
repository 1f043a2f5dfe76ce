/* autodiff_test.c -- every operator's gradient against finite differences, in double. */
#include "graph/builder.h"
#include "support/graph_ref.h"
#include "test.h"

#include <math.h>

/* A case makes outputs from parameters of random shapes; the loss is their weighted sum,
 * so that every element of every gradient matters. */
typedef uint32_t make_fn(zi_gb *b, zi_tensor_id *out);

static int64_t
dim(int64_t lo, int64_t hi)
{
    return lo + (int64_t)t_rand_below((uint64_t)(hi - lo + 1));
}

static zi_tensor_id
par(zi_gb *b, const char *name, uint32_t rank, const int64_t *dims)
{
    return zi_gb_param(b, name, rank, dims, zi_init_normal(1));
}

static zi_tensor_id
image(zi_gb *b)
{
    return par(b, "x", 4, (int64_t[]){dim(1, 3), dim(1, 4), dim(4, 7), dim(4, 7)});
}

static zi_tensor_id
matrix(zi_gb *b, const char *name)
{
    return par(b, name, 2, (int64_t[]){dim(1, 4), dim(2, 5)});
}

static void
weigh_outputs(zi_gb *b, uint32_t n, const zi_tensor_id *out)
{
    zi_tensor_id sum = ZI_ID_NONE;
    for (uint32_t i = 0; i < n && !zi_gb_failed(b); i++) {
        const zi_tensor t = zi_gb_graph(b)->tensors[out[i]];
        zi_tensor_id    s = out[i];
        if (t.rank > 0) {
            char name[24];
            snprintf(name, sizeof name, "weights%u", i);
            s = zi_gb_mul(b, s, zi_gb_input(b, name, ZI_DTYPE_F32, t.rank, t.dims));
            s = zi_gb_reduce_sum(b, s, (1u << t.rank) - 1, false);
        }
        sum = i ? zi_gb_add(b, sum, s) : s;
    }
    if (!zi_gb_failed(b)) zi_gb_graph(b)->loss = sum;
}

static double
loss_at(const zi_graph *g, zi_node_id n_forward, double **v)
{
    zi_ref_run_part(g, 0, n_forward, 3, v);
    return v[g->loss][0];
}

static double
difference(const zi_graph *g, zi_node_id n_forward, double **v, double *x, double h)
{
    double old = *x;
    *x = old + h;
    double up = loss_at(g, n_forward, v);
    *x = old - h;
    double down = loss_at(g, n_forward, v);
    *x = old;
    return (up - down) / (2 * h);
}

static bool
near(double got, double want)
{
    return fabs(got - want) <= 2e-6 * (1 + fabs(want) + fabs(got));
}

static void
check_param(const zi_graph *g, zi_node_id n_forward, double **v, zi_tensor_id p,
            const char *what)
{
    zi_tensor_id d = zi_graph_grad(g, p);
    int64_t      n = zi_tensor_elems(&g->tensors[p]);
    for (int64_t k = 0; k < (n < 30 ? n : 30); k++) {
        int64_t i = n <= 30 ? k : (int64_t)t_rand_below((uint64_t)n);
        double  got = d == ZI_ID_NONE ? 0 : v[d][i];
        double  want = difference(g, n_forward, v, &v[p][i], 1e-5);
        /* a kink of relu or max may lie within the step: a smaller one steps past it */
        if (!near(got, want)) want = difference(g, n_forward, v, &v[p][i], 1e-7);
        if (!near(got, want))
            fail_msg("%s: gradient of %s[%lld] is %.9g, differences say %.9g", what,
                     g->tensors[p].name, (long long)i, got, want);
    }
}

/* Every gradient is read by somebody or is a parameter's: none is computed in vain. */
static void
check_no_dead(const zi_graph *g, const char *what)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const zi_node *n = &g->nodes[i];
        bool           used = n->phase != ZI_PHASE_BACKWARD;
        for (uint32_t k = 0; k < n->n_out; k++) {
            if (n->out[k] == ZI_ID_NONE) continue;
            const zi_tensor *t = &g->tensors[n->out[k]];
            used |= t->n_readers > 0 || (t->grad_of != ZI_ID_NONE &&
                                         g->tensors[t->grad_of].role == ZI_ROLE_PARAM);
        }
        if (!used) fail_msg("%s: nobody needs node %s", what, n->name);
    }
}

static zi_graph *
build(make_fn *make, bool training)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_tensor_id  out[4] = {0};
    zi_gb        *b = zi_gb_new("case", training, 5);
    uint32_t      n = make(b, out);
    weigh_outputs(b, n, out);
    if (zi_gb_finish(b, &d, &g) < 0) fail_msg("%s", d.text);
    return g;
}

static void
check_graph(zi_graph *g, bool fuse, const char *what)
{
    zi_graph_diag d = {0};
    if (fuse && zi_graph_fuse(g, &d) < 0) fail_msg("%s: %s", what, d.text);
    zi_node_id n_forward = g->n_nodes;
    if (zi_graph_differentiate(g, g->loss, &d) < 0) fail_msg("%s: %s", what, d.text);
    if (zi_graph_verify(g, &d) < 0) fail_msg("%s: %s", what, d.text);
    check_no_dead(g, what);
    double **v = zi_ref_new(g);
    zi_ref_fill(g, v, 3);
    zi_ref_run(g, 3, v);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == ZI_ROLE_PARAM) check_param(g, n_forward, v, i, what);
    zi_ref_free(g, v);
}

static void
check_case(make_fn *make, bool training, const char *what)
{
    for (unsigned i = 0; i < t_rounds(6, 200); i++) {
        zi_graph *g = build(make, training), *h = NULL;
        expect_ok(zi_graph_clone(g, &h));
        check_graph(g, false, what);
        check_graph(h, true, what);
        zi_graph_free(g);
        zi_graph_free(h);
    }
}

/* ---- cases --------------------------------------------------------------------------- */

static uint32_t
conv_case(zi_gb *b, zi_tensor_id *out)
{
    int64_t      groups = dim(1, 2), k = dim(1, 3);
    zi_tensor_id x =
        par(b, "x", 4, (int64_t[]){dim(1, 2), 2 * dim(1, 2), dim(5, 7), dim(5, 7)});
    if (t_rand_below(3) == 0) groups = zi_gb_dim(b, x, 1); /* depthwise */
    out[0] = zi_gb_conv2d(b, x, "conv",
                          &(zi_conv_opt){.out = groups * dim(1, 2),
                                         .kernel = k,
                                         .kernel_w = dim(1, 3),
                                         .stride = dim(1, 2),
                                         .stride_w = dim(1, 2),
                                         .pad = dim(0, 2),
                                         .dilation = dim(1, 2),
                                         .groups = groups,
                                         .bias = t_rand_below(2)});
    if (t_rand_below(2)) out[0] = zi_gb_relu(b, out[0]);
    return 1;
}

static uint32_t
convt_case(zi_gb *b, zi_tensor_id *out)
{
    int64_t      groups = dim(1, 2), stride = dim(1, 3);
    zi_tensor_id x =
        par(b, "x", 4, (int64_t[]){dim(1, 2), 2 * dim(1, 2), dim(2, 4), dim(2, 4)});
    out[0] = zi_gb_convt2d(b, x, "conv",
                           &(zi_conv_opt){.out = groups * dim(1, 2),
                                          .kernel = dim(2, 3),
                                          .stride = stride,
                                          .pad = dim(0, 1),
                                          .out_pad = stride > 1 ? dim(0, 1) : 0,
                                          .groups = groups,
                                          .bias = t_rand_below(2)});
    return 1;
}

static uint32_t
linear_case(zi_gb *b, zi_tensor_id *out)
{
    uint32_t     rank = (uint32_t)dim(1, 4);
    zi_tensor_id x =
        par(b, "x", rank, (int64_t[]){dim(1, 3), dim(2, 3), dim(1, 4), dim(2, 3)});
    x = zi_gb_linear(b, x, "fc", dim(1, 5), t_rand_below(2));
    uint64_t act = t_rand_below(4);
    if (act == 1) x = zi_gb_relu(b, x);
    if (act == 2) x = zi_gb_gelu(b, x, false);
    if (act == 3) x = zi_gb_gelu(b, x, true);
    out[0] = x;
    return 1;
}

static uint32_t
matmul_case(zi_gb *b, zi_tensor_id *out)
{
    bool         ta = t_rand_below(2), tb = t_rand_below(2);
    int64_t      m = dim(1, 3), k = dim(1, 4), n = dim(1, 3), s = dim(1, 3);
    zi_tensor_id x = par(b, "a", 3, (int64_t[]){s, ta ? k : m, ta ? m : k});
    zi_tensor_id y = par(b, "b", 3, (int64_t[]){s, tb ? n : k, tb ? k : n});
    out[0] = zi_gb_matmul(b, x, y, ta, tb, 0.7);
    return 1;
}

static uint32_t
bias_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = image(b);
    int          axis = (int)t_rand_below(4);
    int64_t      n = zi_gb_dim(b, x, axis);
    x = zi_gb_bias(b, x, par(b, "b", 1, &n), axis);
    if (t_rand_below(2)) { /* conv + bias + relu, which fuses */
        x = zi_gb_conv2d(b, x, "c", &(zi_conv_opt){.out = 3, .kernel = 1});
        n = 3;
        x = zi_gb_relu(b, zi_gb_bias(b, x, par(b, "cb", 1, &n), 1));
    }
    out[0] = x;
    return 1;
}

static uint32_t
batch_norm_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x =
        par(b, "x", 4, (int64_t[]){dim(2, 3), dim(1, 3), dim(2, 4), dim(2, 4)});
    const zi_tensor t = zi_gb_graph(b)->tensors[x];
    zi_tensor_id    y = zi_gb_batch_norm(b, x, "bn", NULL);
    uint64_t        kind = t_rand_below(3);
    if (kind == 2) {
        zi_tensor_id other = par(b, "other", 4, t.dims);
        other = zi_gb_tanh(b, other); /* made after the norm, as in a residual block */
        y = t_rand_below(2) ? zi_gb_add(b, y, other) : zi_gb_add(b, other, y);
    }
    if (kind) y = zi_gb_relu(b, y);
    out[0] = y;
    return 1;
}

static uint32_t
layer_norm_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = par(b, "x", 3, (int64_t[]){dim(1, 2), dim(1, 3), dim(3, 6)});
    out[0] = zi_gb_layer_norm(b, x, "ln", NULL);
    return 1;
}

static uint32_t
activation_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = matrix(b, "x");
    switch (t_rand_below(8)) {
    case 0:
        x = zi_gb_relu(b, x);
        break;
    case 1:
        x = zi_gb_clip(b, x, -0.5, 0.4);
        break;
    case 2:
        x = zi_gb_sigmoid(b, x);
        break;
    case 3:
        x = zi_gb_tanh(b, x);
        break;
    case 4:
        x = zi_gb_gelu(b, x, false);
        break;
    case 5:
        x = zi_gb_gelu(b, x, true);
        break;
    case 6:
        x = zi_gb_silu(b, x);
        break;
    default:
        x = zi_gb_scale(b, x, -1.3, 0.2);
        break;
    }
    out[0] = x;
    return 1;
}

static uint32_t
pool_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = image(b);
    zi_attr      a = {.pool = {.kernel = {dim(2, 3), dim(2, 3)},
                               .stride = {dim(1, 3), dim(1, 3)},
                               .pad = {dim(0, 1), dim(0, 1), dim(0, 1), dim(0, 1)},
                               .ceil = (int64_t)t_rand_below(2),
                               .count_pad = (int64_t)t_rand_below(2)}};
    switch (t_rand_below(3)) {
    case 0:
        out[0] = zi_gb_op(b, ZI_OP_MAX_POOL, &a, 1, &x);
        break;
    case 1:
        out[0] = zi_gb_op(b, ZI_OP_AVG_POOL, &a, 1, &x);
        break;
    default:
        out[0] = zi_gb_global_avg_pool(b, x);
        break;
    }
    return 1;
}

static uint32_t
resize_case(zi_gb *b, zi_tensor_id *out)
{
    out[0] =
        zi_gb_resize(b, image(b), dim(2, 9), dim(2, 9), t_rand_below(2), t_rand_below(2));
    return 1;
}

static uint32_t
arithmetic_case(zi_gb *b, zi_tensor_id *out)
{
    int64_t  d[4] = {dim(1, 3), dim(1, 3), dim(1, 3), dim(1, 3)}, e[4];
    uint32_t rank = (uint32_t)dim(0, 4);
    for (uint32_t i = 0; i < rank; i++) e[i] = t_rand_below(2) ? 1 : d[4 - rank + i];
    zi_tensor_id x = par(b, "x", 4, d), y = par(b, "y", rank, e);
    if (t_rand_below(2)) {
        zi_tensor_id t = x;
        x = y;
        y = t;
    }
    switch (t_rand_below(4)) {
    case 0:
        out[0] = zi_gb_add(b, x, y);
        break;
    case 1:
        out[0] = zi_gb_sub(b, x, y);
        break;
    case 2:
        out[0] = zi_gb_mul(b, x, y);
        break;
    default:
        out[0] = zi_gb_div(b, x, zi_gb_scale(b, zi_gb_sigmoid(b, y), 1, 0.5));
        break;
    }
    return 1;
}

static uint32_t
reduce_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = par(b, "x", 3, (int64_t[]){dim(1, 3), dim(1, 3), dim(2, 4)});
    uint32_t     axes = (uint32_t)dim(1, 7);
    bool         keep = t_rand_below(2);
    out[0] = t_rand_below(2) ? zi_gb_reduce_sum(b, x, axes, keep)
                             : zi_gb_reduce_mean(b, x, axes, keep);
    zi_attr to = {.shape = {.rank = 2, .dims = {3, 4}}};
    x = par(b, "y", 2, (int64_t[]){3, 1});
    out[1] = zi_gb_op(b, ZI_OP_BROADCAST, &to, 1, &x);
    return 2;
}

static uint32_t
shape_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id part[3], x = par(b, "x", 3, (int64_t[]){2, 6, dim(2, 4)});
    x = zi_gb_transpose(b, x, (int64_t[]){2, 0, 1});
    int axis = t_rand_below(2) ? 2 : 1;
    zi_gb_split(b, x, axis, 2, part);
    part[2] = zi_gb_slice(b, x, 2, 1, 4);
    out[0] = zi_gb_concat(b, 2, (zi_tensor_id[]){part[1], part[0]}, (int)t_rand_below(3));
    zi_attr p = {.pad = {.before = {1, 0, 2}, .after = {0, 1, 1}, .value = 0.3}};
    out[1] = zi_gb_op(b, ZI_OP_PAD, &p, 1, &part[2]);
    out[2] = zi_gb_flatten(b, part[t_rand_below(2)], 1);
    return 3;
}

/* One half of a split is used: the other counts as zero. */
static uint32_t
half_split_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id part[2];
    zi_gb_split(b, par(b, "x", 2, (int64_t[]){2, 4}), 1, 2, part);
    out[0] = zi_gb_tanh(b, part[1]);
    return 1;
}

static uint32_t
softmax_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = par(b, "x", 3, (int64_t[]){dim(1, 2), dim(2, 4), dim(2, 4)});
    out[0] = zi_gb_softmax(b, x, 0.8, t_rand_below(2));
    return 1;
}

static uint32_t
loss_case(zi_gb *b, zi_tensor_id *out)
{
    int64_t n = dim(1, 4);
    switch (t_rand_below(4)) {
    case 0:
        out[0] = zi_gb_cross_entropy(b, par(b, "x", 2, (int64_t[]){n, 3}),
                                     zi_gb_label(b, "l", 1, &n));
        break;
    case 1:
        out[0] = zi_gb_cross_entropy(b, par(b, "x", 4, (int64_t[]){n, 3, 2, 2}),
                                     zi_gb_label(b, "l", 3, (int64_t[]){n, 2, 2}));
        break;
    case 2:
        out[0] =
            zi_gb_nll(b, zi_gb_softmax(b, par(b, "x", 2, (int64_t[]){n, 3}), 1, false),
                      zi_gb_label(b, "l", 1, &n));
        break;
    default:
        out[0] = zi_gb_mse(b, par(b, "x", 2, (int64_t[]){n, 3}),
                           par(b, "t", 2, (int64_t[]){n, 3}));
        break;
    }
    return 1;
}

static uint32_t
dropout_case(zi_gb *b, zi_tensor_id *out)
{
    out[0] = zi_gb_dropout(b, zi_gb_dropout(b, matrix(b, "x"), 0.4), 0.3);
    return 1;
}

static uint32_t
embedding_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id i =
        zi_gb_input(b, "i", ZI_DTYPE_I32, 2, (int64_t[]){dim(1, 3), dim(1, 4)});
    out[0] = zi_gb_embedding(b, i, "table", 3, dim(1, 4), zi_init_normal(1));
    return 1;
}

static uint32_t
lstm_case(zi_gb *b, zi_tensor_id *out)
{
    int64_t        n = dim(1, 2), h = dim(1, 3);
    zi_tensor_id   x = par(b, "x", 2, (int64_t[]){n, 2});
    zi_lstm_params w = zi_gb_lstm_params(b, "lstm", 0, 2, h);
    zi_tensor_id   hid = par(b, "h", 2, (int64_t[]){n, h}),
                 c = par(b, "c", 2, (int64_t[]){n, h});
    for (int64_t t = dim(1, 3); t > 0; t--) zi_gb_lstm_step(b, &w, x, &hid, &c);
    out[0] = hid;
    out[1] = c;
    return t_rand_below(2) ? 2 : 1;
}

/* Many steps share one weight: its gradient is made for several steps at once. */
static uint32_t
long_lstm_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id   x = par(b, "x", 2, (int64_t[]){2, 2});
    zi_lstm_params w = zi_gb_lstm_params(b, "lstm", 0, 2, 2);
    zi_tensor_id   h = par(b, "h", 2, (int64_t[]){2, 2}),
                 c = par(b, "c", 2, (int64_t[]){2, 2});
    zi_tensor_id mid = ZI_ID_NONE;
    for (int64_t t = dim(7, 36); t > 0; t--) {
        zi_gb_lstm_step(b, &w, x, &h, &c);
        if (t == 7) mid = h;
    }
    out[0] = t_rand_below(2) ? h : mid; /* later steps then count for nothing */
    return 1;
}

/* Nodes that share a weight, of which the first ones count for nothing. */
static uint32_t
shared_weight_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id w = par(b, "w", 2, (int64_t[]){3, 2}),
                 bias = par(b, "b", 1, (int64_t[]){3});
    zi_tensor_id x = par(b, "x", 2, (int64_t[]){2, 2}), y = ZI_ID_NONE;
    int64_t      n = dim(8, 20), skip = dim(0, 2);
    for (int64_t i = 0; i < n; i++) {
        zi_tensor_id in[3] = {zi_gb_scale(b, x, 0.1 * (double)i, 0.3), w, bias};
        zi_tensor_id z =
            zi_gb_op(b, ZI_OP_LINEAR, &(zi_attr){.matmul = {.alpha = 1}}, 3, in);
        if (i >= skip)
            y = y == ZI_ID_NONE ? zi_gb_tanh(b, z) : zi_gb_mul(b, y, zi_gb_tanh(b, z));
    }
    out[0] = y;
    return 1;
}

static uint32_t
attention_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = par(b, "x", 3, (int64_t[]){dim(1, 2), dim(1, 3), 4});
    zi_init      i = zi_init_normal(1);
    out[0] = zi_gb_attention(b, x, "attn", dim(1, 2), 0.1, i, i);
    return 1;
}

/* One tensor read four times, two of them by the same node; and two parameters whose
 * gradients are the same values. */
static uint32_t
fan_out_case(zi_gb *b, zi_tensor_id *out)
{
    zi_tensor_id x = zi_gb_tanh(b, matrix(b, "x"));
    zi_tensor_id y = zi_gb_mul(b, x, x);
    out[0] = zi_gb_add(b, zi_gb_add(b, y, zi_gb_sigmoid(b, x)), x);
    out[1] = zi_gb_add(b, par(b, "p", 1, (int64_t[]){3}), par(b, "q", 1, (int64_t[]){3}));
    return 2;
}

/* ---- tests --------------------------------------------------------------------------- */

/* Every operator, plain and fused, over random shapes. */
static void
every_operator(void **state)
{
    static const struct {
        make_fn    *make;
        const char *name;
    } all[] = {{conv_case, "conv2d"},
               {convt_case, "convt2d"},
               {linear_case, "linear"},
               {matmul_case, "matmul"},
               {bias_case, "bias"},
               {batch_norm_case, "batch_norm"},
               {layer_norm_case, "layer_norm"},
               {activation_case, "activation"},
               {pool_case, "pool"},
               {resize_case, "resize"},
               {arithmetic_case, "arithmetic"},
               {reduce_case, "reduce"},
               {shape_case, "shape"},
               {half_split_case, "half split"},
               {softmax_case, "softmax"},
               {loss_case, "loss"},
               {dropout_case, "dropout"},
               {embedding_case, "embedding"},
               {lstm_case, "lstm"},
               {long_lstm_case, "long lstm"},
               {shared_weight_case, "shared weight"},
               {attention_case, "attention"},
               {fan_out_case, "fan out"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_case(all[i].make, true, all[i].name);
}

static uint32_t
fixed_norm_case(zi_gb *b, zi_tensor_id *out)
{
    out[0] = zi_gb_batch_norm(b, image(b), "bn", NULL);
    if (t_rand_below(2)) out[0] = zi_gb_relu(b, out[0]);
    return 1;
}

/* Batch norm with frozen statistics, which inference and fine-tuning use. */
static void
frozen_norm(void **state)
{
    (void)state;
    check_case(fixed_norm_case, false, "batch_norm_fixed");
}

/* relu's mask in place of its output gives the same gradient. */
static void
relu_by_mask(void **state)
{
    zi_graph     *g;
    zi_tensor_id  out[2], d[1];
    zi_graph_diag diag;
    (void)state;
    expect_ok(zi_graph_new("mask", &g));
    zi_tensor_id   x, dy;
    zi_tensor_spec s = {.name = "x",
                        .role = ZI_ROLE_INPUT,
                        .rank = 1,
                        .dims = (int64_t[]){9}};
    expect_ok(zi_graph_add_tensor(g, &s, &diag, &x));
    s.name = "dy";
    expect_ok(zi_graph_add_tensor(g, &s, &diag, &dy));
    zi_node_spec n = {.name = "relu",
                      .op = ZI_OP_RELU,
                      .forward = ZI_ID_NONE,
                      .n_in = 1,
                      .in = &x,
                      .n_out = 2,
                      .want_out = 2};
    expect_ok(zi_graph_add_node(g, &n, &diag, out));
    assert_int_equal(2, g->tensors[out[1]].bytes);
    zi_tensor_id in[2] = {dy, out[1]};
    zi_node_spec m = {.name = "back",
                      .op = ZI_OP_RELU_BWD,
                      .forward = ZI_ID_NONE,
                      .n_in = 2,
                      .in = in,
                      .n_out = 1};
    expect_ok(zi_graph_add_node(g, &m, &diag, d));
    expect_ok(zi_graph_verify(g, &diag));
    double **v = zi_ref_new(g);
    zi_ref_fill(g, v, 2);
    zi_ref_run(g, 0, v);
    for (int i = 0; i < 9; i++) assert_true(v[d[0]][i] == (v[x][i] > 0 ? v[dy][i] : 0));
    zi_ref_free(g, v);
    zi_graph_free(g);
}

/* A graph can be differentiated once, from a scalar that depends on a parameter. */
static void
refusals(void **state)
{
    zi_graph     *g = NULL;
    zi_graph_diag d;
    (void)state;
    zi_gb       *b = zi_gb_new("r", true, 1);
    zi_tensor_id x = zi_gb_input(b, "x", ZI_DTYPE_F32, 1, (int64_t[]){4});
    zi_tensor_id s = zi_gb_reduce_sum(b, x, 1, false);
    zi_tensor_id p = zi_gb_param(b, "p", 1, (int64_t[]){4}, zi_init_const(1));
    zi_tensor_id y = zi_gb_mul(b, x, p);
    zi_tensor_id l = zi_gb_reduce_sum(b, y, 1, false);
    expect_ok(zi_gb_finish(b, &d, &g));
    expect_status(ZICO_E_ARG, zi_graph_differentiate(g, s, &d));
    expect_status(ZICO_E_ARG, zi_graph_differentiate(g, y, &d));
    expect_status(ZICO_E_STATE, zi_graph_add_update(g, &(zi_optim){0}, &d));
    expect_ok(zi_graph_differentiate(g, l, &d));
    expect_status(ZICO_E_STATE, zi_graph_differentiate(g, l, &d));
    expect_status(ZICO_E_STATE, zi_graph_fuse(g, &d));
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator),
        cmocka_unit_test(frozen_norm),
        cmocka_unit_test(relu_by_mask),
        cmocka_unit_test(refusals),
    };
    return t_main(tests);
}

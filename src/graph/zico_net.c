/* zico_net.c -- the public way to write networks down: a handle around the builder. */
#include "graph/zico_net.h"
#include "graph/builder.h"
#include "graph/import/onnx.h"
#include "graph/zoo/zoo.h"
#include "base/alloc.h"
#include "base/try.h"

#include <stdio.h>

struct zico_net {
    zi_gb        *b; /* while it is being written, and after a failure: NULL */
    zi_graph     *g; /* once it is finished */
    zico_status   st;
    zi_graph_diag diag;
};

_Static_assert(ZICO_NO_TENSOR == ZI_ID_NONE, "public and inner ids are the same");

zico_net *
zico_net_new(const char *name, int training, uint64_t seed)
{
    zico_net *net = zi_calloc(1, sizeof *net);
    if (!net) return NULL;
    net->b = zi_gb_new(name, training != 0, seed);
    if (net->b) return net;
    zi_free(net);
    return NULL;
}

/* A graph made elsewhere becomes a finished net; its failure becomes a sentence. */
static zico_status
wrap(zico_status st, zi_graph *g, const zi_graph_diag *diag, char *why, size_t cap,
     zico_net **ret_net)
{
    if (st < 0) {
        const char *text = diag->text[0] ? diag->text : zico_status_text(st);
        if (why && cap) snprintf(why, cap, "%s", text);
        return st;
    }
    zico_net *net = zi_calloc(1, sizeof *net);
    if (!net) {
        zi_graph_free(g);
        return ZICO_E_NOMEM;
    }
    net->g = g;
    *ret_net = net;
    return ZICO_OK;
}

zico_status
zico_net_from_zoo(const char *spec, int64_t batch, int training, uint64_t seed, char *why,
                  size_t cap, zico_net **ret_net)
{
    zi_graph     *g = NULL;
    zi_graph_diag diag = {.node = ZI_ID_NONE};
    zico_status   st = zi_zoo_build(spec, batch, training != 0, seed, &diag, &g);
    return wrap(st, g, &diag, why, cap, ret_net);
}

zico_status
zico_net_from_onnx(const void *data, size_t n_bytes, int64_t batch, int training,
                   uint64_t seed, char *why, size_t cap, zico_net **ret_net)
{
    zi_graph       *g = NULL;
    zi_graph_diag   diag = {.node = ZI_ID_NONE};
    zi_onnx_options o = {.batch = batch, .training = training != 0, .seed = seed};
    zico_status     st = zi_onnx_import(data, n_bytes, &o, &diag, &g);
    return wrap(st, g, &diag, why, cap, ret_net);
}

zico_status
zico_net_finish(zico_net *net)
{
    if (!net) return ZICO_E_NOMEM;
    if (net->st < 0) return net->st;
    if (!net->b) return ZICO_E_STATE;
    net->st = zi_gb_finish(net->b, &net->diag, &net->g);
    net->b = NULL;
    return net->st;
}

void
zico_net_free(zico_net *net)
{
    if (!net) return;
    zi_gb_free(net->b);
    zi_graph_free(net->g);
    zi_free(net);
}

const char *
zico_net_error(const zico_net *net)
{
    if (!net) return zico_status_text(ZICO_E_NOMEM);
    if (net->st >= 0) return "";
    return net->diag.text[0] ? net->diag.text : zico_status_text(net->st);
}

const zi_graph *
zi_graph_of_net(const zico_net *net)
{
    return net ? net->g : NULL;
}

uint64_t
zico_net_param_count(const zico_net *net)
{
    return net && net->g ? zi_graph_param_count(net->g) : 0;
}

zico_status
zico_net_text(const zico_net *net, char **ret_text)
{
    return net && net->g ? zi_graph_print(net->g, ret_text) : ZICO_E_STATE;
}

void
zico_net_text_free(char *text)
{
    zi_free(text);
}

/* ---- one line each: the builder refuses a NULL or failed one ------------------------- */

static zi_gb *
gb(const zico_net *net)
{
    return net ? net->b : NULL;
}

zico_tensor
zico_net_input(zico_net *net, const char *name, zico_type type, uint32_t rank,
               const int64_t *dims)
{
    static const zi_dtype dtype[] = {ZI_DTYPE_F32, ZI_DTYPE_I32, ZI_DTYPE_I64};
    zi_dtype              t = type <= ZICO_I64 ? dtype[type] : ZI_DTYPE_COUNT;
    return zi_gb_input(gb(net), name, t, rank, dims);
}

zico_tensor
zico_net_label(zico_net *net, const char *name, uint32_t rank, const int64_t *dims)
{
    return zi_gb_label(gb(net), name, rank, dims);
}

zico_tensor
zico_net_param(zico_net *net, const char *name, uint32_t rank, const int64_t *dims,
               double bound)
{
    zi_init init = bound != 0 ? zi_init_uniform(bound) : zi_init_const(0);
    return zi_gb_param(gb(net), name, rank, dims, init);
}

void
zico_net_output(zico_net *net, zico_tensor t)
{
    zi_gb_output(gb(net), t);
}

int64_t
zico_net_dim(const zico_net *net, zico_tensor t, int axis)
{
    return zi_gb_dim(gb(net), t, axis);
}

void
zico_net_enter(zico_net *net, const char *scope)
{
    zi_gb_enter(gb(net), "%s", scope);
}

void
zico_net_leave(zico_net *net)
{
    zi_gb_leave(gb(net));
}

static zi_conv_opt
conv_opt(const zico_conv *o)
{
    return (zi_conv_opt){.out = o->out,
                         .kernel = o->kernel,
                         .stride = o->stride,
                         .pad = o->pad,
                         .dilation = o->dilation,
                         .groups = o->groups,
                         .out_pad = o->out_pad,
                         .bias = o->bias != 0,
                         .init = ZI_CONV_TORCH};
}

zico_tensor
zico_net_conv2d(zico_net *net, zico_tensor x, const char *name, const zico_conv *o)
{
    zi_conv_opt c = conv_opt(o);
    return zi_gb_conv2d(gb(net), x, name, &c);
}

zico_tensor
zico_net_conv_transpose2d(zico_net *net, zico_tensor x, const char *name,
                          const zico_conv *o)
{
    zi_conv_opt c = conv_opt(o);
    return zi_gb_convt2d(gb(net), x, name, &c);
}

zico_tensor
zico_net_linear(zico_net *net, zico_tensor x, const char *name, int64_t out, int bias)
{
    return zi_gb_linear(gb(net), x, name, out, bias != 0);
}

zico_tensor
zico_net_batch_norm(zico_net *net, zico_tensor x, const char *name)
{
    return zi_gb_batch_norm(gb(net), x, name, NULL);
}

zico_tensor
zico_net_layer_norm(zico_net *net, zico_tensor x, const char *name)
{
    return zi_gb_layer_norm(gb(net), x, name, NULL);
}

zico_tensor
zico_net_embedding(zico_net *net, zico_tensor index, const char *name, int64_t n,
                   int64_t width)
{
    return zi_gb_embedding(gb(net), index, name, n, width, zi_init_normal(1));
}

zico_tensor
zico_net_attention(zico_net *net, zico_tensor x, const char *name, int64_t heads,
                   double dropout)
{
    zi_init w = zi_init_normal(0.02);
    return zi_gb_attention(gb(net), x, name, heads, dropout, w, w);
}

#define UNARY(public, inner)                                                             \
    zico_tensor public(zico_net * net, zico_tensor x)                                    \
    {                                                                                    \
        return inner;                                                                    \
    }
#define BINARY(public, inner)                                                            \
    zico_tensor public(zico_net * net, zico_tensor x, zico_tensor y)                     \
    {                                                                                    \
        return inner(gb(net), x, y);                                                     \
    }

UNARY(zico_net_relu, zi_gb_relu(gb(net), x))
UNARY(zico_net_gelu, zi_gb_gelu(gb(net), x, false))
UNARY(zico_net_silu, zi_gb_silu(gb(net), x))
UNARY(zico_net_sigmoid, zi_gb_sigmoid(gb(net), x))
UNARY(zico_net_tanh, zi_gb_tanh(gb(net), x))
UNARY(zico_net_global_avg_pool, zi_gb_global_avg_pool(gb(net), x))
UNARY(zico_net_softmax, zi_gb_softmax(gb(net), x, 1, false))
BINARY(zico_net_add, zi_gb_add)
BINARY(zico_net_sub, zi_gb_sub)
BINARY(zico_net_mul, zi_gb_mul)
BINARY(zico_net_div, zi_gb_div)
BINARY(zico_net_cross_entropy, zi_gb_cross_entropy)
BINARY(zico_net_mse, zi_gb_mse)

zico_tensor
zico_net_clip(zico_net *net, zico_tensor x, double lo, double hi)
{
    return zi_gb_clip(gb(net), x, lo, hi);
}

zico_tensor
zico_net_scale(zico_net *net, zico_tensor x, double alpha, double beta)
{
    return zi_gb_scale(gb(net), x, alpha, beta);
}

zico_tensor
zico_net_matmul(zico_net *net, zico_tensor x, zico_tensor y, int trans_x, int trans_y)
{
    return zi_gb_matmul(gb(net), x, y, trans_x != 0, trans_y != 0, 1);
}

zico_tensor
zico_net_max_pool(zico_net *net, zico_tensor x, int64_t kernel, int64_t stride,
                  int64_t pad)
{
    return zi_gb_max_pool(gb(net), x, kernel, stride, pad);
}

zico_tensor
zico_net_avg_pool(zico_net *net, zico_tensor x, int64_t kernel, int64_t stride,
                  int64_t pad)
{
    return zi_gb_avg_pool(gb(net), x, kernel, stride, pad);
}

zico_tensor
zico_net_upsample(zico_net *net, zico_tensor x, int64_t h, int64_t w, int bilinear)
{
    return zi_gb_resize(gb(net), x, h, w, bilinear != 0, false);
}

zico_tensor
zico_net_dropout(zico_net *net, zico_tensor x, double p)
{
    return zi_gb_dropout(gb(net), x, p);
}

zico_tensor
zico_net_reshape(zico_net *net, zico_tensor x, uint32_t rank, const int64_t *dims)
{
    return zi_gb_reshape(gb(net), x, rank, dims);
}

zico_tensor
zico_net_flatten(zico_net *net, zico_tensor x, int from_axis)
{
    return zi_gb_flatten(gb(net), x, from_axis);
}

zico_tensor
zico_net_transpose(zico_net *net, zico_tensor x, const int64_t *perm)
{
    return zi_gb_transpose(gb(net), x, perm);
}

zico_tensor
zico_net_concat(zico_net *net, uint32_t n, const zico_tensor *x, int axis)
{
    return zi_gb_concat(gb(net), n, x, axis);
}

zico_tensor
zico_net_slice(zico_net *net, zico_tensor x, int axis, int64_t begin, int64_t end)
{
    return zi_gb_slice(gb(net), x, axis, begin, end);
}

zico_tensor
zico_net_mean(zico_net *net, zico_tensor x, uint32_t axes, int keep)
{
    return zi_gb_reduce_mean(gb(net), x, axes, keep != 0);
}

zico_tensor
zico_net_sum(zico_net *net, zico_tensor x, uint32_t axes, int keep)
{
    return zi_gb_reduce_sum(gb(net), x, axes, keep != 0);
}

void
zico_net_minimize(zico_net *net, zico_tensor loss)
{
    zi_gb *b = gb(net);
    if (zi_gb_failed(b)) return;
    const zi_graph *g = zi_gb_graph(b);
    if (loss >= g->n_tensors || g->tensors[loss].rank != 0 ||
        g->tensors[loss].producer == ZI_ID_NONE)
        zi_gb_fail(b, ZICO_E_ARG, "the loss must be a scalar that the net computes");
    else
        zi_gb_graph(b)->loss = loss;
}

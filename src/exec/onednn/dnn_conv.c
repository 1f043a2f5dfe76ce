/* dnn_conv.c -- convolutions and transposed convolutions, forward and both gradients.
 *
 * All six are one of three primitives over a convolution from x to y with weights w:
 *
 *                  x (source)   w        y (destination)
 *   CONV2D         in 0         in 1     out 0             forward
 *   CONV2D_DX      out 0        in 1     in 0              backward by data
 *   CONV2D_DW      in 0         out 0    in 1              backward by weights
 *   CONVT2D        out 0        in 1     in 0              backward by data (+ bias behind it)
 *   CONVT2D_DX     in 0         in 1     out 0             forward
 *   CONVT2D_DW     in 1         out 0    in 0              backward by weights
 */
#include "exec/onednn/dnn_private.h"

#include <omp.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"

typedef enum conv_way { WAY_FORWARD, WAY_DATA, WAY_WEIGHTS } conv_way;

typedef struct conv_role {
    char     where; /* 'i', 'o' */
    uint32_t pos;
} conv_role;

typedef struct conv {
    zi_dnn     *d;
    zi_kop     *k;
    conv_way    way;
    conv_role   x, w, y, b; /* b.where 0: none */
    bool        transposed, relu;
    dnnl_dims_t stride, dilate, pad_l, pad_r, w_dims, b_dims;
    uint32_t    w_rank;
} conv;

static zi_kview *
view_of(const conv *c, conv_role r)
{
    return r.where == 'i' ? &c->k->in[r.pos] : &c->k->out[r.pos];
}

static bool
has(const zi_kview *v, uint32_t n, uint32_t pos)
{
    return pos < n && v[pos].dtype != ZI_DTYPE_COUNT;
}

static void
set_roles(conv *c)
{
    static const struct {
        conv_way  way;
        conv_role x, w, y;
    } table[] = {
        [ZI_OP_CONV2D] = {WAY_FORWARD, {'i', 0}, {'i', 1}, {'o', 0}},
        [ZI_OP_CONV2D_DX] = {WAY_DATA, {'o', 0}, {'i', 1}, {'i', 0}},
        [ZI_OP_CONV2D_DW] = {WAY_WEIGHTS, {'i', 0}, {'o', 0}, {'i', 1}},
        [ZI_OP_CONVT2D] = {WAY_DATA, {'o', 0}, {'i', 1}, {'i', 0}},
        [ZI_OP_CONVT2D_DX] = {WAY_FORWARD, {'i', 0}, {'i', 1}, {'o', 0}},
        [ZI_OP_CONVT2D_DW] = {WAY_WEIGHTS, {'i', 1}, {'o', 0}, {'i', 0}},
    };
    const zi_kop *k = c->k;

    c->way = table[k->op].way;
    c->x = table[k->op].x;
    c->w = table[k->op].w;
    c->y = table[k->op].y;
    c->transposed = k->op == ZI_OP_CONVT2D || k->op == ZI_OP_CONVT2D_DW;
    if (k->op == ZI_OP_CONV2D && has(k->in, k->n_in, 2)) c->b = (conv_role){'i', 2};
    if (k->op == ZI_OP_CONV2D_DW && has(k->out, k->n_out, 1)) c->b = (conv_role){'o', 1};
    c->relu = k->op == ZI_OP_CONV2D && k->attr->conv.act == ZI_POST_RELU;
}

static void
set_shape(conv *c)
{
    const zi_attr  *a = c->k->attr;
    const zi_kview *w = view_of(c, c->w), *y = view_of(c, c->y);
    const int64_t   G = a->conv.groups;

    for (int i = 0; i < 2; i++) {
        c->stride[i] = a->conv.stride[i];
        c->dilate[i] = a->conv.dilation[i] - 1;
        c->pad_l[i] = a->conv.pad[i];
        c->pad_r[i] = a->conv.pad[2 + i];
    }
    if (G > 1) {
        c->w_dims[0] = G;
        c->w_dims[1] = w->dims[0] / G;
        memcpy(c->w_dims + 2, w->dims + 1, 3 * sizeof *w->dims);
        c->w_rank = 5;
    } else {
        memcpy(c->w_dims, w->dims, 4 * sizeof *w->dims);
        c->w_rank = 4;
    }
    c->b_dims[0] = y->dims[1];
}

/* A few channels (a picture) stay as they are; oneDNN reads them so. */
static void
choose_image(const conv *c, zi_kview *v, bool may_plain)
{
    const int64_t b = c->d->own->block;
    int64_t       n = (v->dims[1] + b - 1) / b * b;

    if (may_plain && v->dims[1] <= 4) {
        v->layout = (zi_layout){.kind = ZI_LAYOUT_PLAIN, .block = 1, .n_pad = v->n};
    } else {
        for (uint32_t i = 0; i < v->rank; i++)
            if (i != 1) n *= v->dims[i];
        v->layout =
            (zi_layout){.kind = ZI_LAYOUT_BLOCK, .block = (uint32_t)b, .n_pad = n};
    }
    v->layout.bytes = (uint64_t)v->layout.n_pad * sizeof(float);
}

static zico_status
make_pd(const conv *c, const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *w,
        const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *y,
        dnnl_primitive_desc_t *ret_pd)
{
    dnnl_convolution_desc_t fwd, bwd;
    dnnl_primitive_attr_t   attr = NULL;
    dnnl_post_ops_t         ops = NULL;
    dnnl_primitive_desc_t   hint = NULL;
    dnnl_status_t           st;

    st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && c->relu) {
        st = dnnl_post_ops_create(&ops);
        if (st == dnnl_success)
            st = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0, 0);
        if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(attr, ops);
    }
    if (st == dnnl_success)
        st = dnnl_dilated_convolution_forward_desc_init(&fwd, dnnl_forward_training,
                                                        dnnl_convolution_direct, x, w, b,
                                                        y, c->stride, c->dilate, c->pad_l,
                                                        c->pad_r);
    if (st == dnnl_success && c->way == WAY_FORWARD) {
        st = dnnl_primitive_desc_create(ret_pd, &fwd, attr, c->d->engine, NULL);
    } else if (st == dnnl_success) {
        st = dnnl_primitive_desc_create(&hint, &fwd, NULL, c->d->engine, NULL);
        if (st == dnnl_success)
            st = c->way == WAY_DATA ? dnnl_dilated_convolution_backward_data_desc_init(
                                          &bwd, dnnl_convolution_direct, x, w, y,
                                          c->stride, c->dilate, c->pad_l, c->pad_r)
                                    : dnnl_dilated_convolution_backward_weights_desc_init(
                                          &bwd, dnnl_convolution_direct, x, w, b, y,
                                          c->stride, c->dilate, c->pad_l, c->pad_r);
        if (st == dnnl_success)
            st = dnnl_primitive_desc_create(ret_pd, &bwd, attr, c->d->engine, hint);
        if (hint) dnnl_primitive_desc_destroy(hint);
    }
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return dnn_status(st);
}

static const char *
impl_of(dnnl_primitive_desc_t pd)
{
    const char *text = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text);
    return text;
}

/* Try the images as they stand in the views; weights as wished (NULL: any). */
static zico_status
try_pd(const conv *c, const dnnl_memory_desc_t *w_wish, dnnl_primitive_desc_t *ret_pd)
{
    dnnl_memory_desc_t x, w, b, y;

    ZI_TRY(dnn_image_md(view_of(c, c->x), &x));
    ZI_TRY(dnn_image_md(view_of(c, c->y), &y));
    if (w_wish)
        w = *w_wish;
    else
        ZI_TRY(dnn_any_md(c->w_dims, c->w_rank, &w));
    if (c->b.where) ZI_TRY(dnn_plain_md(c->b_dims, 1, &b));
    ZI_TRY(make_pd(c, &x, &w, c->b.where ? &b : NULL, &y, ret_pd));
    if (strncmp(impl_of(*ret_pd), "ref", 3) == 0) {
        dnnl_primitive_desc_destroy(*ret_pd);
        *ret_pd = NULL;
        return ZICO_E_UNSUPPORTED;
    }
    return ZICO_OK;
}

static const dnnl_memory_desc_t *
weights_md(const conv *c, dnnl_primitive_desc_t pd)
{
    return dnnl_primitive_desc_query_md(pd,
                                        c->way == WAY_WEIGHTS ? dnnl_query_diff_weights_md
                                                              : dnnl_query_weights_md,
                                        0);
}

/* Weights that have a layout keep it, if the kernel is as good as with its favourite. */
static zico_status
choose_pd(conv *c, dnnl_primitive_desc_t *ret_pd)
{
    const zi_layout *have = &view_of(c, c->w)->layout;

    ZI_TRY(try_pd(c, NULL, ret_pd));
    if (have->kind != ZI_LAYOUT_OPAQUE ||
        dnnl_memory_desc_equal(have->md, weights_md(c, *ret_pd)))
        return ZICO_OK;
    dnnl_primitive_desc_t other = NULL;
    if (try_pd(c, have->md, &other) < 0) return ZICO_OK;
    if (strcmp(impl_of(other), impl_of(*ret_pd)) == 0) {
        dnnl_primitive_desc_t t = *ret_pd;
        *ret_pd = other;
        other = t;
    }
    dnnl_primitive_desc_destroy(other);
    return ZICO_OK;
}

static zico_status
choose_layouts(conv *c, dnnl_primitive_desc_t *ret_pd)
{
    zi_kview *x = view_of(c, c->x), *y = view_of(c, c->y);

    choose_image(c, x, c->way != WAY_DATA);
    choose_image(c, y, false);
    if (choose_pd(c, ret_pd) >= 0) return ZICO_OK;
    if (x->layout.kind == ZI_LAYOUT_PLAIN) {
        choose_image(c, x, false);
        if (choose_pd(c, ret_pd) >= 0) return ZICO_OK;
    }
    x->layout =
        (zi_layout){ZI_LAYOUT_PLAIN, 1, NULL, x->n, (uint64_t)x->n * sizeof(float)};
    y->layout =
        (zi_layout){ZI_LAYOUT_PLAIN, 1, NULL, y->n, (uint64_t)y->n * sizeof(float)};
    return choose_pd(c, ret_pd);
}

static int
arg_index(const conv *c, char which)
{
    switch (which) {
    case 'x':
        return c->way == WAY_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    case 'w':
        return c->way == WAY_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    case 'b':
        return c->way == WAY_WEIGHTS ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    default:
        return c->way == WAY_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    }
}

static zico_status
add_args(const conv *c, dnn_prim *p)
{
    dnnl_memory_desc_t x, b, y;

    ZI_TRY(dnn_image_md(view_of(c, c->x), &x));
    ZI_TRY(dnn_image_md(view_of(c, c->y), &y));
    ZI_TRY(dnn_prim_arg(p, arg_index(c, 'x'), c->x.where, c->x.pos, &x));
    ZI_TRY(dnn_prim_arg(p, arg_index(c, 'w'), c->w.where, c->w.pos,
                        weights_md(c, p->pd[0])));
    ZI_TRY(dnn_prim_arg(p, arg_index(c, 'y'), c->y.where, c->y.pos, &y));
    if (c->b.where) {
        ZI_TRY(dnn_plain_md(c->b_dims, 1, &b));
        ZI_TRY(dnn_prim_arg(p, arg_index(c, 'b'), c->b.where, c->b.pos, &b));
    }
    return ZICO_OK;
}

static void
run_conv(const zi_kcall *c)
{
    dnn_prim_run(c->op->prim, c);
}

/* y += b per channel, then perhaps ReLU; padding of the last block stays zero. */
static void
run_convt(const zi_kcall *c)
{
    const zi_kview *v = &c->op->out[0];
    const int64_t   B = v->layout.block, C = v->dims[1], cb = (C + B - 1) / B;
    const int64_t   S = v->dims[2] * v->dims[3];
    const float    *bias = has(c->op->in, c->op->n_in, 2) ? c->in[2] : NULL;
    const bool      relu = c->op->attr->conv.act == ZI_POST_RELU;
    float          *y = c->out[0];

    dnn_prim_run(c->op->prim, c);
    if (!bias && !relu) return;
#pragma omp parallel for schedule(static) num_threads(c->n_threads)
    for (int64_t p = 0; p < v->dims[0] * cb; p++) {
        float add[16] = {0};
        for (int64_t l = 0; l < B && bias && p % cb * B + l < C; l++)
            add[l] = bias[p % cb * B + l];
        for (int64_t s = 0; s < S; s++)
            for (int64_t l = 0; l < B; l++) {
                float r = y[(p * S + s) * B + l] + add[l];
                y[(p * S + s) * B + l] = relu && r < 0 ? 0 : r;
            }
    }
}

/* The bias gradient of a transposed convolution: the sum of dy (in 1) per channel. */
static void
run_convt_dw(const zi_kcall *c)
{
    const zi_kview *v = &c->op->in[1];
    const int64_t   B = v->layout.block, C = v->dims[1], cb = (C + B - 1) / B;
    const int64_t   S = v->dims[2] * v->dims[3];
    const float    *dy = c->in[1];
    float          *db = has(c->op->out, c->op->n_out, 1) ? c->out[1] : NULL;

    dnn_prim_run(c->op->prim, c);
    if (!db) return;
#pragma omp parallel for schedule(static) num_threads(c->n_threads)
    for (int64_t q = 0; q < cb; q++) {
        double sum[16] = {0};
        for (int64_t n = 0; n < v->dims[0]; n++) {
            float part[16] = {0};
            for (int64_t s = 0; s < S; s++)
                for (int64_t l = 0; l < B; l++)
                    part[l] += dy[((n * cb + q) * S + s) * B + l];
            for (int64_t l = 0; l < B; l++) sum[l] += (double)part[l];
        }
        for (int64_t l = 0; l < B && q * B + l < C; l++) db[q * B + l] = (float)sum[l];
    }
}

zico_status
dnn_bind_conv(zi_dnn *d, zi_kop *k)
{
    conv                  c = {.d = d, .k = k};
    dnnl_primitive_desc_t pd = NULL;
    dnn_prim             *p;

    set_roles(&c);
    set_shape(&c);
    const int before = omp_get_max_threads();
    omp_set_num_threads((int)d->n_threads);
    zico_status st = choose_layouts(&c, &pd);
    if (st >= 0) st = dnn_prim_new(d, &p);
    if (st >= 0) {
        p->pd[0] = pd;
        st = add_args(&c, p);
    }
    if (st >= 0 && d->n_threads > 1) { /* the same layouts with one thread */
        omp_set_num_threads(1);
        if (try_pd(&c, weights_md(&c, pd), &p->pd[1]) < 0) p->pd[1] = NULL;
        omp_set_num_threads((int)d->n_threads);
    }
    if (st >= 0) st = dnn_prim_finish(p);
    if (st >= 0) st = dnn_layout_of(d, weights_md(&c, pd), &view_of(&c, c.w)->layout);
    omp_set_num_threads(before);
    if (st < 0) return st;
    k->prim = p;
    k->scratch_bytes = p->kernel_scratch;
    k->text = impl_of(pd);
    k->fn = k->op == ZI_OP_CONVT2D      ? run_convt
            : k->op == ZI_OP_CONVT2D_DW ? run_convt_dw
                                        : run_conv;
    return ZICO_OK;
}

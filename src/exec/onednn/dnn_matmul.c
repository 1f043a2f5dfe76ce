/* dnn_matmul.c -- linear layers and batched matrix products.
 *
 * All four are c = alpha op(a) op(b), batch by batch:
 *
 *               a (m,k)        b (k,n)        c (m,n)
 *   LINEAR      in 0 x         in 1 w, trans  out 0 y      + bias, activation
 *   LINEAR_DX   in 0 dy        in 1 w         out 0 dx
 *   LINEAR_DW   in 1 dy, trans in 0 x         out 0 dw     db: sum of dy's columns
 *   MATMUL      in 0           in 1           out 0        transposed as its attributes say
 *
 * Where oneDNN has its kernel for small blocks (AVX-512), that one: it works in scratch of
 * ours.  Elsewhere dnnl_sgemm, which allocates a buffer in every call.
 */
#include "exec/onednn/dnn_private.h"

#include <omp.h>
#include <string.h>
#include "base/try.h"

/* -- which product ---------------------------------------------------------------------------- */

static void
set_linear(zi_kop *k, dnn_product *p)
{
    const zi_kview *w = k->op == ZI_OP_LINEAR_DW ? &k->out[0] : &k->in[1]; /* (out, in) */
    const int64_t   out = w->dims[0], in = w->dims[1];
    const int64_t   rows = k->in[0].n / (k->op == ZI_OP_LINEAR_DX ? out : in);

    p->batch = 1;
    switch (k->op) {
    case ZI_OP_LINEAR:
        p->m = rows, p->n = out, p->k = in, p->trans_b = true;
        break;
    case ZI_OP_LINEAR_DX:
        p->m = rows, p->n = in, p->k = out;
        break;
    default:
        p->m = out, p->n = in, p->k = rows, p->trans_a = true;
        p->a = 1, p->b = 0;
        break;
    }
}

static void
set_product(zi_kop *k, dnn_product *p)
{
    *p = (dnn_product){.a = 0, .b = 1, .alpha = 1.0f};
    if (k->op != ZI_OP_MATMUL) {
        set_linear(k, p);
        return;
    }
    const zi_kview *a = &k->in[0], *y = &k->out[0];
    p->trans_a = k->attr->matmul.trans_a != 0;
    p->trans_b = k->attr->matmul.trans_b != 0;
    p->alpha = (float)k->attr->matmul.alpha;
    p->m = y->dims[y->rank - 2];
    p->n = y->dims[y->rank - 1];
    p->k = a->dims[a->rank - (p->trans_a ? 2 : 1)];
    p->batch = y->n / (p->m * p->n);
}

/* The bias goes along where nothing but it comes behind the product. */
static bool
bias_along(const zi_kop *k)
{
    return k->op == ZI_OP_LINEAR && k->n_in > 2 && k->in[2].dtype != ZI_DTYPE_COUNT &&
           k->n_out < 2 && k->attr->matmul.act == ZI_POST_NONE;
}

/* -- the primitive ----------------------------------------------------------------------------- */

/* The dim of the batch stands only where there is one: kernels differ. */
static zico_status
matrix_md(const dnn_product *p, int64_t batch, int64_t rows, int64_t cols, bool trans,
          dnnl_memory_desc_t *ret_md)
{
    const dnnl_dims_t dims = {batch, rows, cols};
    const dnnl_dims_t strides = {rows * cols, trans ? 1 : cols, trans ? rows : 1};
    const int         skip = p->batch == 1;

    return dnn_status(dnnl_memory_desc_init_by_strides(ret_md, 3 - skip, dims + skip,
                                                       dnnl_f32, strides + skip));
}

static zico_status
product_mds(const dnn_product *p, dnnl_memory_desc_t md[4])
{
    ZI_TRY(matrix_md(p, p->batch, p->m, p->k, p->trans_a, &md[0]));
    ZI_TRY(matrix_md(p, p->batch, p->k, p->n, p->trans_b, &md[1]));
    ZI_TRY(matrix_md(p, p->batch, p->m, p->n, false, &md[2]));
    return matrix_md(p, 1, 1, p->n, false, &md[3]);
}

static zico_status
product_pd(const zi_dnn *d, const dnn_product *p, bool bias,
           dnnl_primitive_desc_t *ret_pd)
{
    dnnl_memory_desc_t    md[4];
    dnnl_matmul_desc_t    desc;
    dnnl_primitive_attr_t attr = NULL;
    const char           *text = "";

    ZI_TRY(product_mds(p, md));
    ZI_TRY(dnn_status(
        dnnl_matmul_desc_init(&desc, &md[0], &md[1], bias ? &md[3] : NULL, &md[2])));
    ZI_TRY(dnn_status(dnnl_primitive_attr_create(&attr)));
    dnnl_status_t st =
        dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && p->alpha != 1.0f)
        st = dnnl_primitive_attr_set_output_scales(attr, 1, 0, &p->alpha);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(ret_pd, &desc, attr, d->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    ZI_TRY(dnn_status(st));
    dnnl_primitive_desc_query(*ret_pd, dnnl_query_impl_info_str, 0, &text);
    if (strncmp(text, "brg", 3) == 0) return ZICO_OK;
    dnnl_primitive_desc_destroy(*ret_pd); /* the others call sgemm */
    *ret_pd = NULL;
    return ZICO_E_UNSUPPORTED;
}

static zico_status
open_primitive(zi_dnn *d, const zi_kop *k, dnn_prim *p)
{
    const bool         bias = bias_along(k);
    const int          before = omp_get_max_threads();
    dnnl_memory_desc_t md[4];

    omp_set_num_threads((int)d->n_threads);
    zico_status st = product_pd(d, &p->mul, bias, &p->pd[0]);
    if (st >= 0 && d->n_threads > 1) { /* one thread may be all there is one day */
        omp_set_num_threads(1);
        st = product_pd(d, &p->mul, bias, &p->pd[1]);
    }
    omp_set_num_threads(before);
    ZI_TRY(st);
    ZI_TRY(product_mds(&p->mul, md));
    ZI_TRY(dnn_prim_arg(p, DNNL_ARG_SRC, 'i', p->mul.a, &md[0]));
    ZI_TRY(dnn_prim_arg(p, DNNL_ARG_WEIGHTS, 'i', p->mul.b, &md[1]));
    ZI_TRY(dnn_prim_arg(p, DNNL_ARG_DST, 'o', 0, &md[2]));
    if (bias) ZI_TRY(dnn_prim_arg(p, DNNL_ARG_BIAS, 'i', 2, &md[3]));
    omp_set_num_threads((int)d->n_threads);
    st = dnn_prim_finish(p);
    omp_set_num_threads(before);
    return st;
}

/* -- running ------------------------------------------------------------------------------------- */

static void
gemm(const dnn_product *p, const zi_kcall *c, int64_t i)
{
    const float *a = (const float *)c->in[p->a] + i * p->m * p->k;
    const float *b = (const float *)c->in[p->b] + i * p->k * p->n;
    float       *y = (float *)c->out[0] + i * p->m * p->n;

    dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, p->alpha,
               a, p->trans_a ? p->m : p->k, b, p->trans_b ? p->k : p->n, 0.0f, y, p->n);
}

/* Without a primitive: side by side when the batch is large enough, else each with all threads. */
static void
multiply(const zi_kcall *c)
{
    dnn_prim          *prim = c->op->prim;
    const dnn_product *p = &prim->mul;

    if (prim->prim[0]) {
        dnn_prim_run(prim, c);
        return;
    }
    if (c->n_threads > 1 && p->batch >= (int64_t)c->n_threads) {
#pragma omp parallel for schedule(static) num_threads(c->n_threads)
        for (int64_t i = 0; i < p->batch; i++) gemm(p, c, i);
        return;
    }
    for (int64_t i = 0; i < p->batch; i++) gemm(p, c, i);
}

static void
run_linear(const zi_kcall *c)
{
    const zi_kop   *k = c->op;
    const dnn_prim *p = k->prim;
    const float    *bias = k->n_in > 2 ? c->in[2] : NULL;
    const zi_post   act = (zi_post)k->attr->matmul.act;
    float          *z = k->n_out > 1 ? c->out[1] : NULL;

    multiply(c);
    if (p->prim[0] && bias_along(k)) return;
    if (bias || z || act != ZI_POST_NONE)
        p->d->own->epilogue(c->out[0], bias, z, p->mul.m, p->mul.n, act, c->n_threads);
}

static void
run_linear_dw(const zi_kcall *c)
{
    const dnn_prim *p = c->op->prim;

    multiply(c); /* it has done with its scratch when the sums begin */
    if (c->op->n_out > 1 && c->out[1])
        p->d->own->column_sum(c->in[1], p->mul.k, p->mul.m, c->out[1], c->scratch,
                              c->n_threads);
}

/* -- binding ------------------------------------------------------------------------------------- */

static uint64_t
sum_scratch(const zi_dnn *d, const zi_kop *k)
{
    if (k->op != ZI_OP_LINEAR_DW || k->n_out < 2) return 0;
    return (uint64_t)d->n_threads * (uint64_t)k->out[0].dims[0] * sizeof(float);
}

static void
want_plain(zi_kview *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].dtype != ZI_DTYPE_COUNT)
            v[i].layout = (zi_layout){.kind = ZI_LAYOUT_PLAIN,
                                      .block = 1,
                                      .n_pad = v[i].n,
                                      .bytes = (uint64_t)v[i].n * sizeof(float)};
}

zico_status
dnn_bind_matmul(zi_dnn *d, zi_kop *k)
{
    dnn_prim *p;

    ZI_TRY(dnn_prim_new(d, &p));
    set_product(k, &p->mul);
    want_plain(k->in, k->n_in);
    want_plain(k->out, k->n_out);
    zico_status st = open_primitive(d, k, p);
    if (st < 0 && st != ZICO_E_UNSUPPORTED) return st;
    k->prim = p;
    k->text = p->prim[0] ? "onednn:brgemm" : "onednn:sgemm";
    k->fn = k->op == ZI_OP_LINEAR      ? run_linear
            : k->op == ZI_OP_LINEAR_DW ? run_linear_dw
                                       : multiply;
    k->scratch_bytes = sum_scratch(d, k);
    if (p->kernel_scratch > k->scratch_bytes) k->scratch_bytes = p->kernel_scratch;
    return ZICO_OK;
}

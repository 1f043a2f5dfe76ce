/* dnn_matmul.c -- linear layers and batched matrix products, by oneDNN's sgemm. */
#include "exec/onednn/dnn_private.h"

#include <omp.h>

static void
gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
     int64_t lda, const float *b, int64_t ldb, float *c)
{
    dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, 0.0f, c, n);
}

static const zi_kern_set *
own(const zi_kcall *c)
{
    return ((const zi_dnn *)c->op->prim)->own;
}

static void
run_linear(const zi_kcall *c)
{
    const zi_kop *k = c->op;
    const int64_t N = k->in[1].dims[0], L = k->in[1].dims[1], M = k->in[0].n / L;
    const float  *bias = k->n_in > 2 ? c->in[2] : NULL;
    const zi_post act = (zi_post)k->attr->matmul.act;
    float        *z = k->n_out > 1 ? c->out[1] : NULL;

    gemm('N', 'T', M, N, L, 1.0f, c->in[0], L, c->in[1], L, c->out[0]);
    if (bias || z || act != ZI_POST_NONE)
        own(c)->epilogue(c->out[0], bias, z, M, N, act, c->n_threads);
}

static void
run_linear_dx(const zi_kcall *c)
{
    const zi_kop *k = c->op;
    const int64_t L = k->in[1].dims[0], N = k->in[1].dims[1], M = k->in[0].n / L;

    gemm('N', 'N', M, N, L, 1.0f, c->in[0], L, c->in[1], N, c->out[0]);
}

static void
run_linear_dw(const zi_kcall *c)
{
    const zi_kop *k = c->op;
    const int64_t M = k->out[0].dims[0], N = k->out[0].dims[1], L = k->in[0].n / N;

    gemm('T', 'N', M, N, L, 1.0f, c->in[1], M, c->in[0], N, c->out[0]);
    if (k->n_out > 1 && c->out[1])
        own(c)->column_sum(c->in[1], L, M, c->out[1], c->scratch, c->n_threads);
}

/* One product per batch entry: side by side when there are enough, else each with all threads. */
static void
run_matmul(const zi_kcall *c)
{
    const zi_kop   *k = c->op;
    const zi_kview *a = &k->in[0], *y = &k->out[0];
    const bool      ta = k->attr->matmul.trans_a != 0, tb = k->attr->matmul.trans_b != 0;
    const int64_t   M = y->dims[y->rank - 2], N = y->dims[y->rank - 1];
    const int64_t   L = a->dims[a->rank - (ta ? 2 : 1)], batch = y->n / (M * N);
    const float     alpha = (float)k->attr->matmul.alpha;
    const unsigned  nt = batch >= (int64_t)c->n_threads ? c->n_threads : 1;
    const float    *pa = c->in[0], *pb = c->in[1];
    float          *py = c->out[0];

    if (nt > 1) {
#pragma omp parallel for schedule(static) num_threads(nt)
        for (int64_t i = 0; i < batch; i++)
            gemm(ta ? 'T' : 'N', tb ? 'T' : 'N', M, N, L, alpha, pa + i * M * L,
                 ta ? M : L, pb + i * L * N, tb ? L : N, py + i * M * N);
        return;
    }
    for (int64_t i = 0; i < batch; i++)
        gemm(ta ? 'T' : 'N', tb ? 'T' : 'N', M, N, L, alpha, pa + i * M * L, ta ? M : L,
             pb + i * L * N, tb ? L : N, py + i * M * N);
}

zico_status
dnn_bind_matmul(zi_dnn *d, zi_kop *k)
{
    k->prim = d;
    k->text = "onednn:sgemm";
    switch (k->op) {
    case ZI_OP_LINEAR:
        k->fn = run_linear;
        break;
    case ZI_OP_LINEAR_DX:
        k->fn = run_linear_dx;
        break;
    case ZI_OP_LINEAR_DW:
        k->fn = run_linear_dw;
        if (k->n_out > 1)
            k->scratch_bytes =
                (uint64_t)d->n_threads * (uint64_t)k->out[0].dims[0] * sizeof(float);
        break;
    default:
        k->fn = run_matmul;
        break;
    }
    return ZICO_OK;
}

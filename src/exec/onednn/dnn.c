/* dnn.c -- engine, primitives with their operands, layouts, reorders. */
#include "exec/onednn/dnn_private.h"

#include <omp.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

zico_status
dnn_status(dnnl_status_t st)
{
    switch (st) {
    case dnnl_success:
        return ZICO_OK;
    case dnnl_out_of_memory:
        return ZICO_E_NOMEM;
    case dnnl_unimplemented:
        return ZICO_E_UNSUPPORTED;
    case dnnl_invalid_arguments:
        return ZICO_E_UNSUPPORTED;
    default:
        return ZICO_E_DEVICE;
    }
}

uint32_t
zi_dnn_block(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core ? 16 : 8;
}

void
zi_dnn_set_threads(unsigned n_threads)
{
    omp_set_num_threads((int)n_threads);
}

zico_status
zi_dnn_new(unsigned n_threads, const zi_kern_set *own, zi_dnn **ret_dnn)
{
    zi_dnn *d = zi_calloc(1, sizeof *d);
    if (!d) return ZICO_E_NOMEM;
    d->n_threads = n_threads;
    d->own = own;
    zico_status st = dnn_status(dnnl_engine_create(&d->engine, dnnl_cpu, 0));
    if (st >= 0)
        st = dnn_status(
            dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags));
    if (st < 0) {
        zi_dnn_free(d);
        return st;
    }
    *ret_dnn = d;
    return ZICO_OK;
}

static void
prim_free(dnn_prim *p)
{
    for (int v = 0; v < 2; v++) {
        if (p->prim[v]) dnnl_primitive_destroy(p->prim[v]);
        if (p->pd[v]) dnnl_primitive_desc_destroy(p->pd[v]);
        if (p->scratch[v]) dnnl_memory_destroy(p->scratch[v]);
    }
    for (int i = 0; i < p->n_args; i++)
        if (p->arg[i].mem) dnnl_memory_destroy(p->arg[i].mem);
    zi_free(p);
}

static void
move_close(zi_dnn_move *m)
{
    if (m->prim) dnnl_primitive_destroy(m->prim);
    if (m->src) dnnl_memory_destroy(m->src);
    if (m->dst) dnnl_memory_destroy(m->dst);
}

void
zi_dnn_free(zi_dnn *d)
{
    if (!d) return;
    while (d->prims) {
        dnn_prim *p = d->prims;
        d->prims = p->next;
        prim_free(p);
    }
    while (d->moves) {
        zi_dnn_move *m = d->moves;
        d->moves = m->next;
        move_close(m);
        zi_free(m);
    }
    while (d->mds) {
        dnn_md *m = d->mds;
        d->mds = m->next;
        zi_free(m);
    }
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
    zi_free(d);
}

bool
zi_dnn_failed(const zi_dnn *d)
{
    return d && d->failed;
}

zico_status
zi_dnn_bind(zi_dnn *d, zi_kop *k)
{
    switch (k->op) {
    case ZI_OP_CONV2D:
    case ZI_OP_CONV2D_DX:
    case ZI_OP_CONV2D_DW:
    case ZI_OP_CONVT2D:
    case ZI_OP_CONVT2D_DX:
    case ZI_OP_CONVT2D_DW:
        return dnn_bind_conv(d, k);
    case ZI_OP_LINEAR:
    case ZI_OP_LINEAR_DX:
    case ZI_OP_LINEAR_DW:
    case ZI_OP_MATMUL:
        return dnn_bind_matmul(d, k);
    default:
        return ZICO_E_UNSUPPORTED;
    }
}

/* -- layouts ------------------------------------------------------------------------------ */

zico_status
dnn_plain_md(const int64_t *dims, uint32_t rank, dnnl_memory_desc_t *ret_md)
{
    static const dnnl_format_tag_t tag[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    if (rank < 1 || rank > 5) return ZICO_E_UNSUPPORTED;
    dnnl_dims_t all = {0};
    memcpy(all, dims, rank * sizeof *all);
    return dnn_status(
        dnnl_memory_desc_init_by_tag(ret_md, (int)rank, all, dnnl_f32, tag[rank]));
}

zico_status
dnn_any_md(const int64_t *dims, uint32_t rank, dnnl_memory_desc_t *ret_md)
{
    dnnl_dims_t all = {0};
    memcpy(all, dims, rank * sizeof *all);
    return dnn_status(dnnl_memory_desc_init_by_tag(ret_md, (int)rank, all, dnnl_f32,
                                                   dnnl_format_tag_any));
}

zico_status
dnn_image_md(const zi_kview *v, dnnl_memory_desc_t *ret_md)
{
    if (v->layout.kind != ZI_LAYOUT_BLOCK) return dnn_plain_md(v->dims, v->rank, ret_md);
    dnnl_dims_t dims = {0};
    memcpy(dims, v->dims, v->rank * sizeof *dims);
    return dnn_status(
        dnnl_memory_desc_init_by_tag(ret_md, (int)v->rank, dims, dnnl_f32,
                                     v->layout.block == 16 ? dnnl_nChw16c : dnnl_nChw8c));
}

zico_status
dnn_layout_of(zi_dnn *d, const dnnl_memory_desc_t *md, zi_layout *ret_layout)
{
    dnn_md *m;

    for (m = d->mds; m; m = m->next)
        if (dnnl_memory_desc_equal(&m->md, md)) break;
    if (!m) {
        m = zi_calloc(1, sizeof *m);
        if (!m) return ZICO_E_NOMEM;
        m->md = *md;
        m->next = d->mds;
        d->mds = m;
    }
    const size_t bytes = dnnl_memory_desc_get_size(md);
    *ret_layout = (zi_layout){.kind = ZI_LAYOUT_OPAQUE,
                              .block = 1,
                              .md = &m->md,
                              .n_pad = (int64_t)(bytes / sizeof(float)),
                              .bytes = bytes};
    return ZICO_OK;
}

bool
zi_dnn_same(const zi_layout *a, const zi_layout *b)
{
    return a->kind == b->kind && a->block == b->block && a->md == b->md;
}

/* -- primitives --------------------------------------------------------------------------- */

zico_status
dnn_prim_new(zi_dnn *d, dnn_prim **ret_prim)
{
    dnn_prim *p = zi_calloc(1, sizeof *p);
    if (!p) return ZICO_E_NOMEM;
    p->d = d;
    p->next = d->prims;
    d->prims = p;
    *ret_prim = p;
    return ZICO_OK;
}

zico_status
dnn_prim_arg(dnn_prim *p, int index, char where, uint32_t pos,
             const dnnl_memory_desc_t *md)
{
    zi_assert(p->n_args < DNN_ARGS);
    dnn_arg *a = &p->arg[p->n_args++];
    *a = (dnn_arg){.index = index, .where = where, .pos = pos, .md = *md};
    return dnn_status(dnnl_memory_create(&a->mem, md, p->d->engine, DNNL_MEMORY_NONE));
}

zico_status
dnn_prim_finish(dnn_prim *p)
{
    p->kernel_scratch = 0;
    for (int v = 0; v < 2; v++) {
        if (!p->pd[v]) continue;
        const dnnl_memory_desc_t *md =
            dnnl_primitive_desc_query_md(p->pd[v], dnnl_query_scratchpad_md, 0);
        const size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
        if (bytes > p->kernel_scratch) p->kernel_scratch = bytes;
        if (bytes)
            ZI_TRY(dnn_status(
                dnnl_memory_create(&p->scratch[v], md, p->d->engine, DNNL_MEMORY_NONE)));
    }
    p->kernel_scratch =
        (p->kernel_scratch + ZI_EXEC_ALIGN - 1) / ZI_EXEC_ALIGN * ZI_EXEC_ALIGN;
    return dnn_status(dnnl_primitive_create(&p->prim[0], p->pd[0]));
}

/* Setting a handle writes zeros into padding: only when the address is another one. */
static void
set_handle(dnnl_memory_t mem, void **last, void *at)
{
    if (*last == at) return;
    dnnl_memory_set_data_handle(mem, at);
    *last = at;
}

void
dnn_prim_run(dnn_prim *p, const zi_kcall *c)
{
    const int v = c->n_threads == 1 && p->pd[1] ? 1 : 0;
    int       n = 0;

    if (!p->prim[v] && dnnl_primitive_create(&p->prim[v], p->pd[v]) != dnnl_success) {
        p->d->failed = true;
        return;
    }
    for (int i = 0; i < p->n_args; i++) {
        dnn_arg *a = &p->arg[i];
        void    *at = a->where == 'i' ? c->in[a->pos] : c->out[a->pos];
        set_handle(a->mem, &a->last, at);
        p->exec[n++] = (dnnl_exec_arg_t){a->index, a->mem};
    }
    if (p->scratch[v]) {
        set_handle(p->scratch[v], &p->scratch_last[v], c->scratch);
        p->exec[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratch[v]};
    }
    if (dnnl_primitive_execute(p->prim[v], p->d->stream, n, p->exec) != dnnl_success)
        p->d->failed = true;
}

/* -- reorders ----------------------------------------------------------------------------- */

/* The plain side has as many dims as the opaque one (groups are a dim of their own there). */
static zico_status
side_md(const zi_kview *v, const zi_kview *other, dnnl_memory_desc_t *ret_md)
{
    if (v->layout.kind == ZI_LAYOUT_OPAQUE) {
        *ret_md = *(const dnnl_memory_desc_t *)v->layout.md;
        return ZICO_OK;
    }
    if (v->layout.kind == ZI_LAYOUT_BLOCK) return dnn_image_md(v, ret_md);
    const dnnl_memory_desc_t *o = other->layout.md;
    zi_assert(o != NULL);
    return dnn_plain_md(o->dims, (uint32_t)o->ndims, ret_md);
}

static zico_status
move_open(zi_dnn_move *m, const zi_kview *from, const zi_kview *to)
{
    dnnl_engine_t         engine = m->d->engine;
    dnnl_memory_desc_t    a, b;
    dnnl_primitive_desc_t pd = NULL;

    ZI_TRY(side_md(from, to, &a));
    ZI_TRY(side_md(to, from, &b));
    ZI_TRY(dnn_status(
        dnnl_reorder_primitive_desc_create(&pd, &a, engine, &b, engine, NULL)));
    zico_status st = dnn_status(dnnl_primitive_create(&m->prim, pd));
    dnnl_primitive_desc_destroy(pd);
    ZI_TRY(st);
    ZI_TRY(dnn_status(dnnl_memory_create(&m->src, &a, engine, DNNL_MEMORY_NONE)));
    return dnn_status(dnnl_memory_create(&m->dst, &b, engine, DNNL_MEMORY_NONE));
}

zico_status
zi_dnn_move_new(zi_dnn *d, const zi_kview *from, const zi_kview *to,
                zi_dnn_move **ret_move)
{
    zi_dnn_move *m = zi_calloc(1, sizeof *m);

    if (!m) return ZICO_E_NOMEM;
    m->d = d;
    m->next = d->moves;
    d->moves = m; /* freed with d, also when unfinished */
    ZI_TRY(move_open(m, from, to));
    *ret_move = m;
    return ZICO_OK;
}

void
zi_dnn_move_run(zi_dnn_move *m, const void *src, void *dst)
{
    set_handle(m->src, &m->src_last, (void *)(uintptr_t)src);
    set_handle(m->dst, &m->dst_last, dst);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, m->src}, {DNNL_ARG_TO, m->dst}};
    if (dnnl_primitive_execute(m->prim, m->d->stream, 2, args) != dnnl_success)
        m->d->failed = true;
}

/* No team of threads is made for a caller outside of the computing thread. */
zico_status
zi_dnn_move_once(zi_dnn *d, const zi_kview *from, const void *src, const zi_kview *to,
                 void *dst)
{
    zi_dnn_move m = {.d = d};
    const int   before = omp_get_max_threads();

    omp_set_num_threads(1);
    zico_status st = move_open(&m, from, to);
    if (st >= 0) {
        zi_dnn_move_run(&m, src, dst);
        if (d->failed) st = ZICO_E_DEVICE;
    }
    move_close(&m);
    omp_set_num_threads(before);
    return st;
}

/* bind.c -- choosing kernels and layouts; bind.h has the rules. */
#include "exec/bind.h"

#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

static uint64_t
round_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

static bool
there(const zi_kview *v)
{
    return v->dtype != ZI_DTYPE_COUNT;
}

/* -- views -------------------------------------------------------------------------------- */

static zi_layout
plain_layout(const zi_kview *v)
{
    return (zi_layout){.kind = ZI_LAYOUT_PLAIN,
                       .block = 1,
                       .n_pad = v->n,
                       .bytes = zi_dtype_bytes(v->dtype, v->n)};
}

static zi_layout
block_layout(const zi_kview *v, uint32_t block)
{
    int64_t n = (v->dims[1] + block - 1) / block * block;

    for (uint32_t d = 0; d < v->rank; d++)
        if (d != 1) n *= v->dims[d];
    return (zi_layout){.kind = ZI_LAYOUT_BLOCK,
                       .block = block,
                       .n_pad = n,
                       .bytes = zi_dtype_bytes(v->dtype, n)};
}

static zi_kview
view_of(const zi_tensor *t)
{
    zi_kview v = {.dtype = t->dtype, .rank = t->rank, .n = zi_tensor_elems(t)};

    memcpy(v.dims, t->dims, sizeof v.dims);
    v.layout = plain_layout(&v);
    return v;
}

/* -- what own kernels take ------------------------------------------------------------------ */

static bool
whole_blocks(const zi_kview *v, uint32_t block)
{
    return v->dims[1] % block == 0;
}

static bool
same_dims(const zi_kview *a, const zi_kview *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* All parts but the last in whole blocks of channels. */
static bool
parts_in_blocks(const zi_kview *part, uint32_t n, uint32_t block)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!there(&part[i]) || !whole_blocks(&part[i], block)) return false;
    return true;
}

static bool
slice_in_blocks(const zi_kop *k, uint32_t block)
{
    const zi_kview *x = &k->in[0], *y = &k->out[0];
    const int64_t   begin = k->attr->slice.begin[1];

    for (uint32_t d = 0; d < x->rank; d++)
        if (d != 1 && x->dims[d] != y->dims[d]) return false;
    return begin % block == 0 &&
           (whole_blocks(y, block) || begin + y->dims[1] == x->dims[1]);
}

/* May the own kernel work on blocks of that size, all its images in the same layout?  Where f(0)
 * is not 0, only on whole blocks (B2). */
static bool
takes_blocks(const zi_kop *k, uint32_t block)
{
    const zi_kview *x = k->n_in ? &k->in[0] : NULL;

    switch (k->op) {
    case ZI_OP_RELU:
    case ZI_OP_RELU_BWD:
    case ZI_OP_CLIP_BWD:
    case ZI_OP_SIGMOID_BWD:
    case ZI_OP_TANH:
    case ZI_OP_TANH_BWD:
    case ZI_OP_GELU:
    case ZI_OP_GELU_BWD:
    case ZI_OP_SILU:
    case ZI_OP_SILU_BWD:
    case ZI_OP_BATCH_NORM:
    case ZI_OP_BATCH_NORM_BWD:
    case ZI_OP_BATCH_NORM_FIXED:
    case ZI_OP_BATCH_NORM_FIXED_BWD:
    case ZI_OP_MAX_POOL:
    case ZI_OP_MAX_POOL_BWD:
    case ZI_OP_AVG_POOL:
    case ZI_OP_AVG_POOL_BWD:
    case ZI_OP_GLOBAL_AVG_POOL:
    case ZI_OP_GLOBAL_AVG_POOL_BWD:
    case ZI_OP_RESIZE:
    case ZI_OP_RESIZE_BWD:
        return true;
    case ZI_OP_SIGMOID:
        return whole_blocks(x, block);
    case ZI_OP_CLIP:
        return (k->attr->clip.lo <= 0 && k->attr->clip.hi >= 0) || whole_blocks(x, block);
    case ZI_OP_SCALE:
        return k->attr->scale.beta == 0 || whole_blocks(x, block);
    case ZI_OP_ADD:
    case ZI_OP_SUB:
    case ZI_OP_MUL:
        return same_dims(&k->in[0], &k->in[1]);
    case ZI_OP_DIV:
        return same_dims(&k->in[0], &k->in[1]) && whole_blocks(x, block);
    case ZI_OP_CONCAT:
        return k->attr->axis.axis == 1 && parts_in_blocks(k->in, k->n_in, block);
    case ZI_OP_SPLIT:
        return k->attr->split.axis == 1 && parts_in_blocks(k->out, k->n_out, block);
    case ZI_OP_SLICE:
        return slice_in_blocks(k, block);
    default:
        return false;
    }
}

/* Flat loops over same-shaped operands: any layout will do, if it is the same for all. */
static bool
is_flat(zi_op op)
{
    switch (op) {
    case ZI_OP_ADD:
    case ZI_OP_SUB:
    case ZI_OP_MUL:
    case ZI_OP_SCALE:
        return true;
    default:
        return false;
    }
}

static bool
is_update(zi_op op)
{
    return op == ZI_OP_SGD || op == ZI_OP_MOMENTUM || op == ZI_OP_ADAM ||
           op == ZI_OP_ADAMW;
}

static uint64_t
own_scratch(const zi_kop *k, unsigned n_threads)
{
    const uint64_t nt = n_threads;

    switch (k->op) {
    case ZI_OP_BATCH_NORM:
    case ZI_OP_BATCH_NORM_BWD: {
        const zi_kview *x = &k->in[k->op == ZI_OP_BATCH_NORM ? 0 : 1];
        return nt * (uint64_t)(x->dims[1] + 16) * 2 * sizeof(double);
    }
    case ZI_OP_LAYER_NORM_BWD:
        return nt * 2 * (uint64_t)k->in[1].dims[k->in[1].rank - 1] * sizeof(float);
    case ZI_OP_LINEAR_DW:
        return k->n_out > 1 ? nt * (uint64_t)k->out[0].dims[0] * sizeof(float) : 0;
    default:
        return 0;
    }
}

/* -- binding -------------------------------------------------------------------------------- */

typedef struct binder {
    zi_bound       *b;
    const zi_graph *g;
    bool           *forced_plain; /* [n_tensors] B1 */
    zi_graph_diag  *diag;
} binder;

static void
mark_views(binder *s)
{
    for (zi_tensor_id t = 0; t < s->g->n_tensors; t++) {
        uint64_t      off;
        zi_tensor_id  of = zi_graph_view_of(s->g, t, &off);
        const zi_role role = s->g->tensors[t].role;
        if (role == ZI_ROLE_INPUT || role == ZI_ROLE_LABEL) s->forced_plain[t] = true;
        if (of == ZI_ID_NONE) continue;
        s->forced_plain[t] = true;
        s->forced_plain[of] = true;
    }
}

static zico_status
say(binder *s, zi_node_id n, zico_status st, const char *what)
{
    if (s->diag) {
        s->diag->node = n;
        s->diag->line = 0;
        snprintf(s->diag->text, sizeof s->diag->text, "node %s (%s): %s",
                 s->g->nodes[n].name, zi_op_get(s->g->nodes[n].op)->text, what);
    }
    return st;
}

/* The views of a node's operands, one allocation. */
static zico_status
copy_views(binder *s, zi_node_id id)
{
    const zi_node *n = &s->g->nodes[id];
    zi_kop        *k = &s->b->node[id].k;
    zi_kview      *v = zi_calloc((size_t)n->n_in + n->n_out + n->n_up + 1, sizeof *v);

    if (!v) return ZICO_E_NOMEM;
    *k = (zi_kop){.op = n->op,
                  .node = n,
                  .attr = &n->attr,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .n_up = n->n_up,
                  .in = v,
                  .out = v + n->n_in,
                  .up = v + n->n_in + n->n_out};
    const uint32_t refs = n->n_in + n->n_out + n->n_up;
    if (refs > s->b->max_refs) s->b->max_refs = refs;
    for (uint32_t i = 0; i < refs; i++) {
        zi_tensor_id t = i < n->n_in              ? n->in[i]
                         : i < n->n_in + n->n_out ? n->out[i - n->n_in]
                                                  : n->up[i - n->n_in - n->n_out];
        if (t == ZI_ID_NONE)
            v[i].dtype = ZI_DTYPE_COUNT;
        else
            v[i] = s->b->view[t];
    }
    return ZICO_OK;
}

static bool
is_image(const zi_kview *v)
{
    return there(v) && v->rank == 4;
}

/* Layouts of an own kernel: blocks if an image among its inputs has them and it can. */
static void
own_layouts(binder *s, zi_node_id id)
{
    zi_kop          *k = &s->b->node[id].k;
    const uint32_t   block = s->b->own->block;
    const zi_layout *first = NULL;
    bool             blocks = false;

    for (uint32_t i = 0; i < k->n_in; i++) {
        if (!there(&k->in[i])) continue;
        if (k->in[i].layout.kind == ZI_LAYOUT_BLOCK) blocks = true;
        if (k->in[i].layout.kind == ZI_LAYOUT_OPAQUE && !first) first = &k->in[i].layout;
    }
    if (k->op == ZI_OP_GLOBAL_AVG_POOL_BWD && k->node->forward != ZI_ID_NONE) {
        const zi_node *f = &s->g->nodes[k->node->forward];
        blocks = s->b->view[f->in[0]].layout.kind == ZI_LAYOUT_BLOCK;
    }
    if (is_update(k->op)) {
        k->in[0].layout = k->up[0].layout; /* B3 */
        return;
    }
    if (k->op == ZI_OP_CLIP_SCALE) return; /* any layout */
    if (first && is_flat(k->op) && (k->n_in < 2 || same_dims(&k->in[0], &k->in[1]))) {
        const zi_layout l = *first;
        for (uint32_t i = 0; i < k->n_in; i++) k->in[i].layout = l;
        k->out[0].layout = l;
        return;
    }
    blocks = blocks && takes_blocks(k, block);
    for (uint32_t i = 0; i < k->n_in + k->n_out; i++) {
        zi_kview *v = &k->in[i]; /* outputs follow */
        if (!there(v)) continue;
        v->layout = blocks && is_image(v) ? block_layout(v, block) : plain_layout(v);
    }
    if (k->op == ZI_OP_GLOBAL_AVG_POOL) k->out[0].layout = plain_layout(&k->out[0]);
    if (k->op == ZI_OP_GLOBAL_AVG_POOL_BWD) k->in[0].layout = plain_layout(&k->in[0]);
}

static zico_status
add_move(binder *s, zi_bnode *n, char where, uint32_t pos, const zi_kview *tensor,
         const zi_kview *kernel)
{
    zi_move *more = zi_realloc_array(n->moves, n->n_moves + 1u, sizeof *more);
    if (!more) return ZICO_E_NOMEM;
    n->moves = more;
    zi_move *m = &n->moves[n->n_moves++];
    *m = (zi_move){.where = where,
                   .pos = pos,
                   .tensor = *tensor,
                   .kernel = *kernel,
                   .offset = n->scratch_bytes};
    n->scratch_bytes += round_up(kernel->layout.bytes, ZI_EXEC_ALIGN);
    if (tensor->layout.kind != ZI_LAYOUT_OPAQUE &&
        kernel->layout.kind != ZI_LAYOUT_OPAQUE)
        return ZICO_OK;
    if (where == 'i') return zi_dnn_move_new(s->b->dnn, tensor, kernel, &m->there);
    if (where == 'o') return zi_dnn_move_new(s->b->dnn, kernel, tensor, &m->back);
    ZI_TRY(zi_dnn_move_new(s->b->dnn, tensor, kernel, &m->there));
    return zi_dnn_move_new(s->b->dnn, kernel, tensor, &m->back);
}

/* A parameter takes the layout that its first kernel likes; its state goes with it. */
static void
adopt_param(binder *s, zi_tensor_id t, const zi_layout *l)
{
    s->b->view[t].layout = *l;
    for (zi_tensor_id i = 0; i < s->g->n_tensors; i++)
        if (s->g->tensors[i].state_of == t &&
            zi_tensor_elems(&s->g->tensors[i]) == s->b->view[t].n)
            s->b->view[i].layout = *l;
}

static zico_status
settle_inputs(binder *s, zi_node_id id)
{
    zi_bnode *bn = &s->b->node[id];

    for (uint32_t i = 0; i < bn->k.n_in; i++) {
        if (!there(&bn->k.in[i])) continue;
        const zi_tensor_id t = bn->k.node->in[i];
        const zi_kview    *want = &bn->k.in[i];
        const zi_tensor   *x = &s->g->tensors[t];
        if (want->layout.kind == ZI_LAYOUT_OPAQUE && x->role == ZI_ROLE_PARAM &&
            bn->k.node->phase == ZI_PHASE_FORWARD && !s->forced_plain[t] &&
            s->b->view[t].layout.kind == ZI_LAYOUT_PLAIN && x->readers[0] == id)
            adopt_param(s, t, &want->layout);
        if (!zi_dnn_same(&s->b->view[t].layout, &want->layout))
            ZI_TRY(add_move(s, bn, 'i', i, &s->b->view[t], want));
    }
    return ZICO_OK;
}

static zico_status
settle_outputs(binder *s, zi_node_id id)
{
    zi_bnode *bn = &s->b->node[id];

    for (uint32_t i = 0; i < bn->k.n_out; i++) {
        if (!there(&bn->k.out[i])) continue;
        const zi_tensor_id t = bn->k.node->out[i];
        if (!s->forced_plain[t]) {
            s->b->view[t].layout = bn->k.out[i].layout;
        } else if (bn->k.out[i].layout.kind != ZI_LAYOUT_PLAIN) {
            ZI_TRY(add_move(s, bn, 'o', i, &s->b->view[t], &bn->k.out[i]));
        }
    }
    for (uint32_t i = 0; i < bn->k.n_up; i++)
        if (!zi_dnn_same(&s->b->view[bn->k.node->up[i]].layout, &bn->k.up[i].layout))
            ZI_TRY(add_move(s, bn, 'u', i, &s->b->view[bn->k.node->up[i]], &bn->k.up[i]));
    return ZICO_OK;
}

/* The gradient of a weight should lie as the weight does. */
static void
hint_gradient(binder *s, zi_node_id id)
{
    zi_kop *k = &s->b->node[id].k;

    if (k->op != ZI_OP_CONV2D_DW && k->op != ZI_OP_CONVT2D_DW) return;
    if (k->node->forward == ZI_ID_NONE) return;
    k->out[0].layout = s->b->view[s->g->nodes[k->node->forward].in[1]].layout;
}

static zico_status
bind_node(binder *s, zi_node_id id)
{
    zi_bnode   *bn = &s->b->node[id];
    zico_status st = ZICO_E_UNSUPPORTED;

    ZI_TRY(copy_views(s, id));
    hint_gradient(s, id);
    if (s->b->dnn && (zi_op_get(bn->k.op)->flags & ZI_OPF_HEAVY))
        st = zi_dnn_bind(s->b->dnn, &bn->k);
    if (st < 0 && st != ZICO_E_UNSUPPORTED) return say(s, id, st, "oneDNN refuses it");
    if (st < 0) {
        bn->k.fn = s->b->own->fn[bn->k.op];
        bn->k.text = s->b->own->text;
        if (!bn->k.fn)
            return say(s, id, ZICO_E_UNSUPPORTED, "no kernel for this operator");
        own_layouts(s, id);
        bn->k.scratch_bytes = own_scratch(&bn->k, s->b->n_threads);
    }
    bn->scratch_bytes = round_up(bn->k.scratch_bytes, ZI_EXEC_ALIGN);
    ZI_TRY(settle_inputs(s, id));
    return settle_outputs(s, id);
}

static const zi_kern_set *
best_set(void)
{
#if defined(ZI_KERN_X86)
    __builtin_cpu_init();
    if (zi_dnn_block() == 16 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &zi_kern_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &zi_kern_avx2;
#endif
    return &zi_kern_base;
}

zico_status
zi_bind(const zi_graph *g, unsigned n_threads, bool plain, zi_graph_diag *diag,
        zi_bound **ret_bound)
{
    zico_status st = ZICO_E_NOMEM;
    zi_bound   *b = zi_calloc(1, sizeof *b);
    binder      s = {.b = b, .g = g, .diag = diag};

    if (!b) return st;
    b->g = g;
    b->n_threads = n_threads;
    b->own = plain ? &zi_kern_base : best_set();
    b->view = zi_calloc(g->n_tensors + 1u, sizeof *b->view);
    b->node = zi_calloc(g->n_nodes + 1u, sizeof *b->node);
    s.forced_plain = zi_calloc(g->n_tensors + 1u, sizeof *s.forced_plain);
    if (!b->view || !b->node || !s.forced_plain) goto undo;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) b->view[t] = view_of(&g->tensors[t]);
    mark_views(&s);
    st = plain ? ZICO_OK : zi_dnn_new(n_threads, b->own, &b->dnn);
    for (zi_node_id id = 0; id < g->n_nodes && st >= 0; id++) st = bind_node(&s, id);
    if (st < 0) goto undo;
    zi_free(s.forced_plain);
    *ret_bound = b;
    return ZICO_OK;

undo:
    zi_free(s.forced_plain);
    zi_bound_free(b);
    return st;
}

void
zi_bound_free(zi_bound *b)
{
    if (!b) return;
    for (zi_node_id i = 0; b->node && i < b->g->n_nodes; i++) {
        zi_free(b->node[i].k.in);
        zi_free(b->node[i].moves);
    }
    zi_free(b->node);
    zi_free(b->view);
    zi_dnn_free(b->dnn);
    zi_free(b);
}

zico_status
zi_bound_cost(const zi_bound *b, zi_cost **ret_cost)
{
    zi_cost *c;

    ZI_TRY(zi_cost_guess(b->g, &c));
    for (zi_tensor_id t = 0; t < b->g->n_tensors; t++) {
        uint64_t off;
        c->tensor_bytes[t] = zi_graph_view_of(b->g, t, &off) == ZI_ID_NONE
                                 ? round_up(b->view[t].layout.bytes, ZI_EXEC_ALIGN)
                                 : 0;
    }
    for (zi_node_id i = 0; i < b->g->n_nodes; i++)
        c->scratch_bytes[i] = b->node[i].scratch_bytes;
    *ret_cost = c;
    return ZICO_OK;
}

/* -- values in and out ----------------------------------------------------------------------- */

static zico_status
convert(const zi_bound *b, const zi_kview *from, const void *src, const zi_kview *to,
        void *dst)
{
    if (from->layout.kind == to->layout.kind) {
        memmove(dst, src, from->layout.bytes);
        return ZICO_OK;
    }
    if (from->layout.kind != ZI_LAYOUT_OPAQUE && to->layout.kind != ZI_LAYOUT_OPAQUE) {
        b->own->reorder(from, src, to, dst, 1);
        return ZICO_OK;
    }
    return zi_dnn_move_once(b->dnn, from, src, to, dst);
}

zico_status
zi_bound_unpack(const zi_bound *b, zi_tensor_id t, const void *src, void *ret_plain)
{
    zi_kview plain = b->view[t];
    plain.layout = plain_layout(&plain);
    return convert(b, &b->view[t], src, &plain, ret_plain);
}

zico_status
zi_bound_pack(const zi_bound *b, zi_tensor_id t, const void *plain, void *ret_dst)
{
    zi_kview from = b->view[t];
    from.layout = plain_layout(&from);
    return convert(b, &from, plain, &b->view[t], ret_dst);
}

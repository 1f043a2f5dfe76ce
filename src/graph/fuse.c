/* fuse.c -- several forward operators become one where a kernel does both at once.
 *
 *   conv2d | convt2d | linear  + bias                         -> with a third input
 *   conv2d | convt2d | linear | batch_norm(_fixed)  + relu    -> act = relu
 *   linear + gelu                                             -> act = gelu
 *   batch_norm + add + relu                                   -> fourth input, act = relu
 *   softmax + nll                                             -> cross_entropy of logits
 *
 * An intermediate result that somebody else reads, or that the user wants to see, is not
 * fused away.  The fused node stands where the last of its parts stood, since only there
 * all inputs are known to exist; who read the earlier part's statistics moves behind it.
 */
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <string.h>

typedef struct fusion {
    zi_graph      *g;
    zi_graph_diag *diag;
    bool          *gone; /* [n_nodes] absorbed by another node   */
    uint32_t      *key;  /* [n_nodes] where the node wants to be */
} fusion;

/* ---- tools --------------------------------------------------------------------------- */

/* The node that makes `t`, if `by` is its only reader and nobody wants to see it. */
static zi_node *
private_maker(const fusion *f, zi_tensor_id t, zi_node_id by)
{
    const zi_tensor *x = &f->g->tensors[t];
    if (x->producer == ZI_ID_NONE || x->n_readers != 1 || x->readers[0] != by)
        return NULL;
    if (zi_graph_lives_on(f->g, t) || f->gone[x->producer]) return NULL;
    zi_node *n = &f->g->nodes[x->producer];
    return n->out[0] == t ? n : NULL;
}

/* Put `t` into input position `i`, with NONE in between. */
static zico_status
set_input(zi_node *n, uint32_t i, zi_tensor_id t)
{
    if (i >= n->n_in) {
        size_t        total = (size_t)i + 1 + n->n_out + n->n_up + 1;
        zi_tensor_id *p = zi_malloc(total * sizeof *p);
        if (!p) return ZICO_E_NOMEM;
        for (uint32_t k = 0; k <= i; k++) p[k] = k < n->n_in ? n->in[k] : ZI_ID_NONE;
        memcpy(p + i + 1, n->out, n->n_out * sizeof *p);
        memcpy(p + i + 1 + n->n_out, n->up, n->n_up * sizeof *p);
        zi_free(n->in);
        n->in = p;
        n->out = p + i + 1;
        n->up = n->out + n->n_out;
        n->n_in = i + 1;
    }
    n->in[i] = t;
    return ZICO_OK;
}

/* `n` takes over the output and the place of `last`, which goes. */
static void
absorb(fusion *f, zi_node *n, zi_node_id last)
{
    zi_node_id id = (zi_node_id)(n - f->g->nodes);
    n->out[0] = f->g->nodes[last].out[0];
    f->gone[last] = true;
    f->key[id] = f->key[last];
}

/* ---- patterns: each looks at one node and may fuse what ends there ------------------- */

typedef zico_status pattern(fusion *f, zi_node_id id);

static zico_status
fuse_bias(fusion *f, zi_node_id id)
{
    zi_node *b = &f->g->nodes[id];
    if (b->op != ZI_OP_BIAS) return ZICO_OK;
    zi_node *n = private_maker(f, b->in[0], id);
    if (!n || n->n_in != 2) return ZICO_OK;
    int64_t rank = f->g->tensors[b->in[0]].rank;
    bool    conv = (n->op == ZI_OP_CONV2D || n->op == ZI_OP_CONVT2D) &&
                n->attr.conv.act == ZI_POST_NONE && b->attr.axis.axis == 1;
    bool linear = n->op == ZI_OP_LINEAR && n->attr.matmul.act == ZI_POST_NONE &&
                  b->attr.axis.axis == rank - 1;
    if (!conv && !linear) return ZICO_OK;
    ZI_TRY(set_input(n, 2, b->in[1]));
    absorb(f, n, id);
    return ZICO_OK;
}

/* Where the node keeps its fused activation, if it may have this one and has none. */
static int64_t *
post_slot(zi_node *n, zi_op act)
{
    int64_t *slot = NULL;
    switch (n->op) {
    case ZI_OP_CONV2D:
    case ZI_OP_CONVT2D:
        slot = act == ZI_OP_RELU ? &n->attr.conv.act : NULL;
        break;
    case ZI_OP_BATCH_NORM:
    case ZI_OP_BATCH_NORM_FIXED:
        slot = act == ZI_OP_RELU ? &n->attr.norm.act : NULL;
        break;
    case ZI_OP_LINEAR:
        slot = &n->attr.matmul.act;
        break;
    default:
        break;
    }
    return slot && *slot == ZI_POST_NONE ? slot : NULL;
}

static zico_status
fuse_post(fusion *f, zi_node_id id)
{
    zi_node *a = &f->g->nodes[id];
    if (a->op != ZI_OP_RELU && a->op != ZI_OP_GELU) return ZICO_OK;
    zi_node *n = private_maker(f, a->in[0], id);
    int64_t *slot = n ? post_slot(n, a->op) : NULL;
    if (!slot) return ZICO_OK;
    *slot = a->op == ZI_OP_RELU   ? ZI_POST_RELU
            : a->attr.gelu.approx ? ZI_POST_GELU_TANH
                                  : ZI_POST_GELU;
    absorb(f, n, id);
    return ZICO_OK;
}

static bool
same_shape(const zi_graph *g, zi_tensor_id a, zi_tensor_id b)
{
    zi_shape x = zi_tensor_shape(&g->tensors[a]), y = zi_tensor_shape(&g->tensors[b]);
    return x.rank == y.rank && memcmp(x.dims, y.dims, x.rank * sizeof x.dims[0]) == 0;
}

static zico_status
fuse_add(fusion *f, zi_node_id id)
{
    zi_node *relu = &f->g->nodes[id];
    if (relu->op != ZI_OP_RELU) return ZICO_OK;
    zi_node *add = private_maker(f, relu->in[0], id);
    if (!add || add->op != ZI_OP_ADD || !same_shape(f->g, add->in[0], add->in[1]))
        return ZICO_OK;
    zi_node_id add_id = (zi_node_id)(add - f->g->nodes);
    for (uint32_t i = 0; i < 2; i++) {
        zi_node *bn = private_maker(f, add->in[i], add_id);
        if (!bn || bn->op != ZI_OP_BATCH_NORM || bn->n_in != 3 ||
            bn->attr.norm.act != ZI_POST_NONE || add->in[0] == add->in[1])
            continue;
        ZI_TRY(set_input(bn, 3, add->in[1 - i]));
        bn->attr.norm.act = ZI_POST_RELU;
        f->gone[add_id] = true;
        absorb(f, bn, id);
        return ZICO_OK;
    }
    return ZICO_OK;
}

/* The loss is taken from the logits; the probabilities stay if somebody wants them. */
static zico_status
fuse_loss(fusion *f, zi_node_id id)
{
    zi_node *nll = &f->g->nodes[id];
    if (nll->op != ZI_OP_NLL) return ZICO_OK;
    zi_tensor_id     p = nll->in[0], lse;
    const zi_tensor *t = &f->g->tensors[p];
    if (t->producer == ZI_ID_NONE || nll->attr.loss.axis != (int64_t)t->rank - 1)
        return ZICO_OK;
    const zi_node *soft = &f->g->nodes[t->producer];
    if (soft->op != ZI_OP_SOFTMAX || soft->attr.softmax.causal ||
        soft->attr.softmax.alpha != 1)
        return ZICO_OK;
    nll->op = ZI_OP_CROSS_ENTROPY;
    nll->in[0] = soft->in[0];
    if (t->n_readers == 1 && !zi_graph_lives_on(f->g, p)) f->gone[t->producer] = true;
    return zi_graph_want_out(f->g, id, 1, f->diag, &lse);
}

/* ---- order ---------------------------------------------------------------------------- */

/* Fewest keys first among the nodes whose inputs exist: a heap of ready nodes. */
typedef struct heap {
    zi_node_id     *at;
    uint32_t        n;
    const uint32_t *key;
} heap;

static bool
before(const heap *h, uint32_t a, uint32_t b)
{
    return h->key[h->at[a]] < h->key[h->at[b]] ||
           (h->key[h->at[a]] == h->key[h->at[b]] && h->at[a] < h->at[b]);
}

static void
swap(heap *h, uint32_t a, uint32_t b)
{
    zi_node_id t = h->at[a];
    h->at[a] = h->at[b];
    h->at[b] = t;
}

static void
heap_push(heap *h, zi_node_id id)
{
    uint32_t i = h->n++;
    h->at[i] = id;
    for (; i && before(h, i, (i - 1) / 2); i = (i - 1) / 2) swap(h, i, (i - 1) / 2);
}

static zi_node_id
heap_pop(heap *h)
{
    zi_node_id top = h->at[0];
    h->at[0] = h->at[--h->n];
    for (uint32_t i = 0, c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && before(h, c + 1, c)) c++;
        if (!before(h, c, i)) break;
        swap(h, i, c);
    }
    return top;
}

/* maker[t] and waits[n] (inputs not made yet) of the rewritten lists. */
static void
count_waits(const fusion *f, zi_node_id *maker, uint32_t *waits)
{
    const zi_graph *g = f->g;
    for (uint32_t i = 0; i < g->n_tensors; i++) maker[i] = ZI_ID_NONE;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; !f->gone[i] && k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] != ZI_ID_NONE) maker[g->nodes[i].out[k]] = i;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; !f->gone[i] && k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] != ZI_ID_NONE)
                waits[i] += maker[g->nodes[i].in[k]] != ZI_ID_NONE;
}

/* Who reads what node `id` makes?  Readers per tensor, as a list over input positions. */
typedef struct edge {
    zi_node_id reader;
    uint32_t   next;
} edge;

static zico_status
sort_nodes(const fusion *f, zi_node_id *order, uint32_t *ret_n)
{
    const zi_graph *g = f->g;
    uint32_t        n_edges = 0, n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n_edges += g->nodes[i].n_in;

    zi_node_id *maker = zi_malloc((g->n_tensors + 1) * sizeof *maker);
    uint32_t   *first = zi_malloc((g->n_tensors + 1) * sizeof *first);
    uint32_t   *waits = zi_calloc(g->n_nodes + 1, sizeof *waits);
    edge       *edges = zi_malloc((n_edges + 1) * sizeof *edges);
    heap        h = {.at = zi_malloc((g->n_nodes + 1) * sizeof *h.at), .key = f->key};
    zico_status st = ZICO_E_NOMEM;

    if (maker && first && waits && edges && h.at) {
        count_waits(f, maker, waits);
        for (uint32_t i = 0; i < g->n_tensors; i++) first[i] = ZI_ID_NONE;
        n_edges = 0;
        for (uint32_t i = 0; i < g->n_nodes; i++) {
            for (uint32_t k = 0; !f->gone[i] && k < g->nodes[i].n_in; k++) {
                zi_tensor_id t = g->nodes[i].in[k];
                if (t == ZI_ID_NONE) continue;
                edges[n_edges] = (edge){.reader = i, .next = first[t]};
                first[t] = n_edges++;
            }
            if (!f->gone[i] && !waits[i]) heap_push(&h, i);
        }
        while (h.n) {
            zi_node_id id = order[n++] = heap_pop(&h);
            for (uint32_t k = 0; k < g->nodes[id].n_out; k++) {
                zi_tensor_id t = g->nodes[id].out[k];
                if (t == ZI_ID_NONE) continue;
                for (uint32_t e = first[t]; e != ZI_ID_NONE; e = edges[e].next)
                    if (--waits[edges[e].reader] == 0) heap_push(&h, edges[e].reader);
            }
        }
        *ret_n = n;
        st = ZICO_OK;
    }
    zi_free(maker);
    zi_free(first);
    zi_free(waits);
    zi_free(edges);
    zi_free(h.at);
    return st;
}

/* ---- the pass ------------------------------------------------------------------------- */

static zico_status
run_pattern(zi_graph *g, zi_graph_diag *diag, pattern *p)
{
    fusion f = {.g = g, .diag = diag};
    f.gone = zi_calloc(g->n_nodes + 1, sizeof *f.gone);
    f.key = zi_malloc((g->n_nodes + 1) * sizeof *f.key);
    zi_node_id *order = zi_malloc((g->n_nodes + 1) * sizeof *order);
    zico_status st = f.gone && f.key && order ? ZICO_OK : ZICO_E_NOMEM;
    uint32_t    n = 0;

    for (uint32_t i = 0; st >= 0 && i < g->n_nodes; i++) f.key[i] = i;
    for (uint32_t i = 0; st >= 0 && i < g->n_nodes; i++)
        if (!f.gone[i]) st = p(&f, i);
    if (st >= 0) st = sort_nodes(&f, order, &n);
    if (st >= 0) st = zi_graph_reorder(g, order, n);
    zi_free(f.gone);
    zi_free(f.key);
    zi_free(order);
    return st;
}

zico_status
zi_graph_fuse(zi_graph *g, zi_graph_diag *diag)
{
    static pattern *const patterns[] = {fuse_bias, fuse_add, fuse_post, fuse_loss};

    if (g->differentiated)
        return zi_graph_complain(diag, ZICO_E_STATE, ZI_ID_NONE,
                                 "fusion comes before differentiation");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        ZI_TRY(run_pattern(g, diag, patterns[i]));
    return ZICO_OK;
}

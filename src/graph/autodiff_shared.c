/* autodiff_shared.c -- weight gradients of linear nodes that share their weight.
 *
 * A cell that is unrolled over T steps would have T small products for its weight's
 * gradient, and T-1 sums as large as the weight.  Instead, inputs and gradients of up to
 * 16 steps are joined along the rows, and one product makes the sum of all of them.  Not
 * more: what waits to be joined stays alive, and long sequences must be trainable in
 * little memory.
 */
#include "graph/autodiff.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#define MIN_READERS 8
#define MAX_WAITING 16

typedef struct zi_ad_shared {
    struct zi_ad_shared *next;
    zi_tensor_id         w, bias; /* bias NONE: the nodes have none */
    zi_node_id           first;   /* the last of the readers that the sweep will see */
    zi_node_id           last;    /* the node put off most recently                  */
    bool                 fits;    /* enough readers, all of one kind                 */
    uint32_t             n;
    zi_tensor_id         x[MAX_WAITING], dy[MAX_WAITING];
} zi_ad_shared;

static zi_tensor_id
bias_of(const zi_node *n)
{
    return n->n_in > 2 ? n->in[2] : ZI_ID_NONE;
}

/* All linear readers of the weight must have rank 2 and the same bias. */
static void
look_at_readers(const zi_ad *ad, zi_ad_shared *s)
{
    const zi_tensor *w = &ad->g->tensors[s->w];
    uint32_t         n = 0;
    s->fits = true;
    s->first = ad->id;
    for (uint32_t i = 0; i < w->n_readers && w->readers[i] < ad->n_forward; i++) {
        const zi_node *r = &ad->g->nodes[w->readers[i]];
        if (r->op != ZI_OP_LINEAR || r->in[1] != s->w) continue;
        if (n++ == 0) s->first = w->readers[i];
        s->fits = s->fits && r->in[0] != s->w && bias_of(r) == s->bias &&
                  ad->g->tensors[r->in[0]].rank == 2;
    }
    s->fits = s->fits && n >= MIN_READERS;
}

static zi_ad_shared *
find(zi_ad *ad, zi_tensor_id w)
{
    zi_ad_shared *s = ad->shared;
    while (s && s->w != w) s = s->next;
    if (s) return s;
    s = zi_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->w = w;
    s->bias = bias_of(&ad->node);
    look_at_readers(ad, s);
    s->next = ad->shared;
    ad->shared = s;
    return s;
}

/* The node at hand is one of the readers: gradients are given through it. */
static zico_status
make(zi_ad *ad, zi_ad_shared *s)
{
    zi_tensor_id x = s->x[0], dy = s->dy[0], out[2];
    bool         bias = zi_ad_wants(ad, 2);
    zi_attr      attr = {.matmul = {.alpha = 1}};

    zi_assert(s->n > 0 && ad->node.in[1] == s->w);
    if (s->n > 1) {
        ZI_TRY(zi_ad_join(ad, "rows_x", 0, s->n, s->x, &x));
        ZI_TRY(zi_ad_join(ad, "rows_dy", 0, s->n, s->dy, &dy));
    }
    zi_ad_emit e = {.op = ZI_OP_LINEAR_DW,
                    .leaf = "dw",
                    .attr = &attr,
                    .n_in = 2,
                    .in = {x, dy},
                    .n_out = bias ? 2 : 1,
                    .like = s->w};
    s->n = 0;
    ZI_TRY(zi_ad_node(ad, &e, out));
    if (zi_ad_wants(ad, 1)) ZI_TRY(zi_ad_give(ad, 1, out[0]));
    return bias ? zi_ad_give(ad, 2, out[1]) : ZICO_OK;
}

bool
zi_ad_put_off(zi_ad *ad, zico_status *ret_st)
{
    if (ad->node.op != ZI_OP_LINEAR) return false;
    zi_ad_shared *s = find(ad, ad->node.in[1]);
    if (!s) {
        *ret_st = ZICO_E_NOMEM;
        return true;
    }
    if (!s->fits) return false;
    s->x[s->n] = ad->node.in[0];
    s->dy[s->n++] = ad->dy;
    s->last = ad->id;
    *ret_st = s->n == MAX_WAITING || ad->id == s->first ? make(ad, s) : ZICO_OK;
    return true;
}

zico_status
zi_ad_shared_finish(zi_ad *ad)
{
    for (zi_ad_shared *s = ad->shared; s; s = s->next) {
        if (!s->n) continue;
        ad->id = s->last;
        ad->node = ad->g->nodes[s->last];
        ZI_TRY(make(ad, s));
    }
    return ZICO_OK;
}

void
zi_ad_shared_free(zi_ad *ad)
{
    for (zi_ad_shared *s = ad->shared, *next; s; s = next) {
        next = s->next;
        zi_free(s);
    }
}

/* draft_sequence.c -- from fates to the order in which nodes run, and run again.
 *
 * Walks the graph's order.  A root is *at hand* from the act that makes it until its fate
 * sends it away in a gap, or until its last use.  A node that reads what is not at hand first
 * gets it back: swapped roots by an IN, others by running their producers again, whose inputs
 * may be missing in turn; all producers that are needed are collected, then run in the
 * graph's order.  Where that is not allowed (D3) the root in question is pinned, and another
 * walk follows; each root is pinned once, so it ends.
 *
 * With borders, what a chain leaves at hand is the middle of its way, the middle of the second half,
 * and so on: the recursion of Chen et al., for which log n borders are there at a time.
 */
#include "planner/draft_items.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "plan/fixed.h"

#define ITEMS_PER_NODE 32u /* a plan that runs nodes more often than this is no plan */

typedef struct member {
    uint32_t     group;
    zi_tensor_id root;
} member;

typedef struct walk {
    const zi_draft *d;
    zi_items        items;
    bool           *at_hand;  /* per root */
    bool           *pinned;   /* per root: never sent away */
    bool           *wanted;   /* per root: stays at hand after the chain under way */
    uint32_t       *next_use; /* per root: index into uses of the first one not yet run */
    uint32_t       *mark;     /* per node: the last base (+1) for which it runs again */
    ZI_VEC(zi_tensor_id) todo;
    ZI_VEC(zi_tensor_id) touched; /* roots that the chain under way has made or wants */
    ZI_VEC(zi_node_id) chain;
    ZI_VEC(member) grouped; /* sorted */
    bool again;             /* a root was pinned: walk once more */
} walk;

static zi_tensor_id
moving_root(const walk *w, zi_tensor_id t)
{
    if (t == ZI_ID_NONE) return ZI_ID_NONE;
    zi_tensor_id r = w->d->root[t];
    return zi_plan_is_fixed(w->d->g, r) ? ZI_ID_NONE : r;
}

static bool
used_later(const walk *w, zi_tensor_id r)
{
    return w->d->lives_on[r] || w->next_use[r] < w->d->use_first[r + 1];
}

static void
pin(walk *w, zi_tensor_id r)
{
    zi_assert(!w->pinned[r]);
    w->pinned[r] = true;
    w->at_hand[r] = true; /* as if; the next walk does it properly */
    w->again = true;
}

/* Does the root leave between node n, which has just used it, and its next use? */
static bool
leaves_after(const walk *w, zi_tensor_id r, zi_node_id n)
{
    const zi_fate *f = &w->d->fate[r];
    if (w->pinned[r] || w->d->lives_on[r]) return false;
    if (w->next_use[r] >= w->d->use_first[r + 1])
        return !f->hold; /* nobody reads it again */
    return zi_draft_leaves(w->d, r, n, w->d->uses[w->next_use[r]]);
}

/* -- getting back what is absent --------------------------------------------------------- */

static zico_status
want(walk *w, zi_tensor_id r, bool stays)
{
    if (w->at_hand[r]) return ZICO_OK;
    if (stays) w->wanted[r] = true;
    ZI_TRY(zi_vec_push(&w->touched, r));
    return zi_vec_push(&w->todo, r);
}

static int
by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->root < y->root ? -1 : x->root > y->root;
}

/* Everybody of a group comes back with the first of them. */
static zico_status
want_group(walk *w, uint32_t group)
{
    size_t lo = 0, hi = w->grouped.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (w->grouped.at[mid].group < group)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < w->grouped.n && w->grouped.at[lo].group == group; lo++) {
        zi_tensor_id r = w->grouped.at[lo].root;
        bool         made = w->next_use[r] > w->d->use_first[r];
        if (made && used_later(w, r) && !w->wanted[r]) ZI_TRY(want(w, r, true));
    }
    return ZICO_OK;
}

/* Root r is needed before node `base`: by a copy, or by its producer. */
static zico_status
get_back(walk *w, zi_tensor_id r, zi_node_id base)
{
    const zi_draft *d = w->d;
    const zi_fate  *f = &d->fate[r];
    zi_node_id      p = d->g->tensors[r].producer;

    if (w->at_hand[r]) return ZICO_OK;
    if (f->kind == ZI_FATE_SWAP && used_later(w, r)) {
        w->at_hand[r] = true;
        return zi_vec_push(&w->items, (zi_item){ZI_ACT_IN, r, base});
    }
    if (!(zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_RECOMPUTE) ||
        base > d->redo_until[p]) {
        pin(w, r);
        return ZICO_OK;
    }
    if (f->kind == ZI_FATE_REDO && f->group) ZI_TRY(want_group(w, f->group));
    if (w->mark[p] == base + 1) return ZICO_OK;
    w->mark[p] = base + 1;
    ZI_TRY(zi_vec_push(&w->chain, p));
    const zi_node *x = &d->g->nodes[p];
    for (uint32_t i = 0; i < x->n_in; i++) {
        zi_tensor_id in = moving_root(w, x->in[i]);
        if (in != ZI_ID_NONE) ZI_TRY(want(w, in, false));
    }
    return ZICO_OK;
}

static int
by_id(const void *a, const void *b)
{
    zi_node_id x = *(const zi_node_id *)a, y = *(const zi_node_id *)b;
    return x < y ? -1 : x > y;
}

static bool
worth_holding(const walk *w, zi_tensor_id r, zi_node_id base)
{
    const zi_draft *d = w->d;
    if (d->lives_on[r]) return true;
    uint64_t away_ns = d->start_ns[d->uses[w->next_use[r]]] - d->start_ns[base];
    if (d->fate[r].kind == ZI_FATE_SWAP)
        return !zi_draft_leaves(d, r, base, d->uses[w->next_use[r]]);
    return d->collect_ns > 0 && away_ns <= d->collect_ns;
}

/* Where a chain began and how far it came, in borders. */
typedef struct stretch {
    uint32_t from, to;
} stretch;

static uint32_t
border_of(const walk *w, zi_tensor_id r)
{
    return w->d->border && r != ZI_ID_NONE ? w->d->border[r] : 0;
}

static stretch
stretch_of_chain(const walk *w)
{
    stretch s = {0, 0};
    for (size_t i = 0; i < w->chain.n && w->d->border; i++) {
        const zi_node *x = &w->d->g->nodes[w->chain.at[i]];
        for (uint32_t k = 0; k < x->n_in; k++) {
            zi_tensor_id r = moving_root(w, x->in[k]);
            if (r != ZI_ID_NONE && w->at_hand[r] && border_of(w, r) > s.from)
                s.from = border_of(w, r);
        }
        for (uint32_t o = 0; o < x->n_out; o++) {
            uint32_t b = border_of(w, moving_root(w, x->out[o]));
            if (b > s.to) s.to = b;
        }
    }
    return s;
}

/* The middle of the way, the middle of its second half, and so on. */
static bool
is_halfway(stretch s, uint32_t border)
{
    while (border && s.to > s.from + 1) {
        s.from += (s.to - s.from) / 2;
        if (s.from == border) return true;
    }
    return false;
}

/* Which of the things that the chain has brought stay at hand? */
static void
settle_chain(walk *w, zi_node_id base, stretch way)
{
    for (size_t i = 0; i < w->touched.n; i++) {
        zi_tensor_id r = w->touched.at[i];
        if (w->pinned[r]) continue;
        w->at_hand[r] = w->wanted[r] || is_halfway(way, border_of(w, r)) ||
                        (used_later(w, r) && worth_holding(w, r, base));
    }
    for (size_t i = 0; i < w->touched.n; i++) w->wanted[w->touched.at[i]] = false;
}

static zico_status
run_chain(walk *w, zi_node_id base)
{
    zi_vec_clear(&w->chain);
    while (w->todo.n > 0) ZI_TRY(get_back(w, zi_vec_pop(&w->todo), base));
    if (w->chain.n) qsort(w->chain.at, w->chain.n, sizeof *w->chain.at, by_id);
    stretch way = stretch_of_chain(w);
    for (size_t i = 0; i < w->chain.n; i++) {
        const zi_node *x = &w->d->g->nodes[w->chain.at[i]];
        ZI_TRY(zi_vec_push(&w->items, (zi_item){ZI_ACT_REDO, w->chain.at[i], base}));
        for (uint32_t o = 0; o < x->n_out; o++) {
            zi_tensor_id r = moving_root(w, x->out[o]);
            if (r != ZI_ID_NONE && !w->at_hand[r]) ZI_TRY(zi_vec_push(&w->touched, r));
        }
    }
    settle_chain(w, base, way);
    return ZICO_OK;
}

/* -- the walk ------------------------------------------------------------------------------ */

static void
pass_use(walk *w, zi_tensor_id r, zi_node_id n)
{
    while (w->next_use[r] < w->d->use_first[r + 1] && w->d->uses[w->next_use[r]] <= n)
        w->next_use[r]++;
}

static zico_status
walk_node(walk *w, zi_node_id n)
{
    const zi_node *x = &w->d->g->nodes[n];

    zi_vec_clear(&w->todo);
    zi_vec_clear(&w->touched);
    for (uint32_t i = 0; i < x->n_in; i++) {
        zi_tensor_id r = moving_root(w, x->in[i]);
        if (r != ZI_ID_NONE && !w->wanted[r]) ZI_TRY(want(w, r, true));
    }
    if (w->todo.n) ZI_TRY(run_chain(w, n));
    ZI_TRY(zi_vec_push(&w->items, (zi_item){ZI_ACT_RUN, n, n}));
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        zi_tensor_id r = moving_root(w, i < x->n_in ? x->in[i] : x->out[i - x->n_in]);
        if (r == ZI_ID_NONE) continue;
        pass_use(w, r, n);
        w->at_hand[r] = !leaves_after(w, r, n);
    }
    return ZICO_OK;
}

static zico_status
walk_all(walk *w)
{
    const zi_graph *g = w->d->g;
    w->again = false;
    zi_vec_clear(&w->items);
    memset(w->at_hand, 0, g->n_tensors * sizeof *w->at_hand);
    memset(w->wanted, 0, g->n_tensors * sizeof *w->wanted);
    memset(w->mark, 0, g->n_nodes * sizeof *w->mark);
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) w->next_use[t] = w->d->use_first[t];
    for (zi_node_id n = 0; n < g->n_nodes; n++) {
        ZI_TRY(walk_node(w, n));
        if (w->items.n > ITEMS_PER_NODE * (g->n_nodes + 64u)) return ZICO_E_LIMIT;
    }
    return ZICO_OK;
}

static zico_status
find_groups(walk *w)
{
    for (zi_tensor_id t = 0; t < w->d->g->n_tensors; t++)
        if (w->d->fate[t].kind == ZI_FATE_REDO && w->d->fate[t].group)
            ZI_TRY(zi_vec_push(&w->grouped, (member){w->d->fate[t].group, t}));
    if (w->grouped.n) qsort(w->grouped.at, w->grouped.n, sizeof *w->grouped.at, by_group);
    return ZICO_OK;
}

zico_status
zi_draft_sequence(const zi_draft *d, zi_items *ret_items)
{
    const zi_graph *g = d->g;
    walk            w = {.d = d};
    zico_status     st = ZICO_E_NOMEM;

    w.at_hand = zi_calloc(g->n_tensors + 1u, sizeof *w.at_hand);
    w.pinned = zi_calloc(g->n_tensors + 1u, sizeof *w.pinned);
    w.wanted = zi_calloc(g->n_tensors + 1u, sizeof *w.wanted);
    w.next_use = zi_calloc(g->n_tensors + 1u, sizeof *w.next_use);
    w.mark = zi_calloc(g->n_nodes + 1u, sizeof *w.mark);
    if (w.at_hand && w.pinned && w.wanted && w.next_use && w.mark) {
        st = find_groups(&w);
        w.again = true;
        while (st >= 0 && w.again) st = walk_all(&w);
    }
    zi_free(w.at_hand);
    zi_free(w.pinned);
    zi_free(w.wanted);
    zi_free(w.next_use);
    zi_free(w.mark);
    zi_vec_free(&w.todo);
    zi_vec_free(&w.touched);
    zi_vec_free(&w.chain);
    zi_vec_free(&w.grouped);
    if (st < 0) {
        zi_vec_free(&w.items);
        return st;
    }
    *ret_items = w.items;
    return ZICO_OK;
}

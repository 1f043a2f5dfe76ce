/* liveness.c -- births, deaths, and the tide they make. */
#include "graph/liveness.h"
#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

static void
find_roots(const zi_graph *g, zi_live *live)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) live[i].root = ZI_ID_NONE;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        zi_tensor_id root = i, up;
        while ((up = zi_graph_view_of(g, root, NULL)) != ZI_ID_NONE) root = up;
        live[i].root = root;
    }
}

static void
find_spans(const zi_graph *g, zi_live *live)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const zi_tensor *t = &g->tensors[i];
        live[i].def = t->producer == ZI_ID_NONE ? -1 : (int64_t)t->producer;
        live[i].last_use = live[i].def;
        if (t->n_readers) live[i].last_use = t->readers[t->n_readers - 1];
        if (zi_graph_lives_on(g, i)) live[i].last_use = g->n_nodes;
    }
    for (uint32_t i = 0; i < g->n_tensors;
         i++) { /* a source lives as long as its views */
        zi_live *root = &live[live[i].root];
        if (live[i].last_use > root->last_use) root->last_use = live[i].last_use;
    }
}

static bool
is_fixed(zi_role r)
{
    return r == ZI_ROLE_PARAM || r == ZI_ROLE_STATE || r == ZI_ROLE_INPUT ||
           r == ZI_ROLE_LABEL;
}

/* live_bytes[i]: everything whose span covers node i. */
static void
sum_bytes(const zi_graph *g, zi_liveness *l)
{
    int64_t *change = (int64_t *)l->live_bytes; /* differences first, sums in place */
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (l->tensor[i].root != i) continue;
        if (is_fixed(g->tensors[i].role)) {
            l->fixed_bytes += g->tensors[i].bytes;
            continue;
        }
        zi_assert(l->tensor[i].def >= 0);
        change[l->tensor[i].def] += (int64_t)g->tensors[i].bytes;
        if (l->tensor[i].last_use + 1 < (int64_t)g->n_nodes)
            change[l->tensor[i].last_use + 1] -= (int64_t)g->tensors[i].bytes;
    }
    uint64_t now = l->fixed_bytes;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        now += (uint64_t)change[i];
        l->live_bytes[i] = now;
        if (now > l->peak_bytes) {
            l->peak_bytes = now;
            l->peak_node = i;
        }
    }
    if (!g->n_nodes) l->peak_bytes = l->fixed_bytes;
}

/* Bytes that node `id` need not have twice, as outputs take the place of dying inputs. */
static uint64_t
saved_in_place(const zi_graph *g, const zi_liveness *l, zi_node_id id)
{
    const zi_op_info *op = zi_op_get(g->nodes[id].op);
    uint64_t          saved = 0;
    uint32_t          used_in = 0, used_out = 0;

    for (int k = 0; k < 2; k++) {
        if (op->over[k][0] < 0) continue;
        uint32_t o = (uint32_t)op->over[k][0], i = (uint32_t)op->over[k][1];
        if ((used_in >> i & 1) || (used_out >> o & 1)) continue;
        if (!zi_graph_may_overwrite(g, id, o, i)) continue;
        zi_tensor_id root = l->tensor[g->nodes[id].in[i]].root;
        if (l->tensor[root].last_use != (int64_t)id ||
            g->tensors[root].bytes != g->tensors[g->nodes[id].out[o]].bytes)
            continue;
        saved += g->tensors[root].bytes;
        used_in |= 1u << i;
        used_out |= 1u << o;
    }
    return saved;
}

zico_status
zi_liveness_of(const zi_graph *g, zi_liveness **ret_live)
{
    zi_liveness *l = zi_calloc(1, sizeof *l);
    if (!l) return ZICO_E_NOMEM;
    l->n_tensors = g->n_tensors;
    l->n_nodes = g->n_nodes;
    l->tensor = zi_calloc((size_t)g->n_tensors + 1, sizeof *l->tensor);
    l->live_bytes = zi_calloc((size_t)g->n_nodes + 1, sizeof *l->live_bytes);
    if (!l->tensor || !l->live_bytes) {
        zi_liveness_free(l);
        return ZICO_E_NOMEM;
    }
    find_roots(g, l->tensor);
    find_spans(g, l->tensor);
    sum_bytes(g, l);
    l->peak_inplace_bytes = l->fixed_bytes;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint64_t now = l->live_bytes[i] - saved_in_place(g, l, i);
        if (now > l->peak_inplace_bytes) l->peak_inplace_bytes = now;
    }
    *ret_live = l;
    return ZICO_OK;
}

void
zi_liveness_free(zi_liveness *l)
{
    if (!l) return;
    zi_free(l->tensor);
    zi_free(l->live_bytes);
    zi_free(l);
}

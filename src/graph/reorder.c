/* reorder.c -- give nodes another order, delete some, and rebuild all links; copying. */
#include "graph/graph.h"
#include "graph/names.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <string.h>

static zi_tensor_id
mapped(const zi_tensor_id *map, zi_tensor_id t)
{
    return t == ZI_ID_NONE ? ZI_ID_NONE : map[t];
}

/* Move listed nodes to their new places and free the others. */
static zico_status
move_nodes(zi_graph *g, const zi_node_id *order, uint32_t n_order, zi_node_id *map)
{
    zi_node *fresh = zi_calloc(n_order + 1, sizeof *fresh);
    if (!fresh) return ZICO_E_NOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++) map[i] = ZI_ID_NONE;
    for (uint32_t i = 0; i < n_order; i++) {
        zi_assert(order[i] < g->n_nodes && map[order[i]] == ZI_ID_NONE);
        fresh[i] = g->nodes[order[i]];
        map[order[i]] = i;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (map[i] != ZI_ID_NONE) continue;
        zi_free(g->nodes[i].name);
        zi_free(g->nodes[i].in);
    }
    zi_free(g->nodes);
    g->nodes = fresh;
    g->n_nodes = n_order;
    g->cap_nodes = n_order + 1;
    for (uint32_t i = 0; i < n_order; i++)
        if (fresh[i].forward != ZI_ID_NONE) fresh[i].forward = map[fresh[i].forward];
    return ZICO_OK;
}

static void
forget_links(zi_graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].producer = g->tensors[i].updater = ZI_ID_NONE;
        g->tensors[i].n_readers = 0;
    }
}

/* Which tensors stay: the given ones, and what a node makes. */
static void
drop_tensors(zi_graph *g, zi_tensor_id *map)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] != ZI_ID_NONE)
                g->tensors[g->nodes[i].out[k]].producer = i;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        zi_tensor *t = &g->tensors[i];
        bool       made = t->role == ZI_ROLE_ACTIVATION || t->role == ZI_ROLE_GRAD ||
                    t->role == ZI_ROLE_SCRATCH;
        map[i] = ZI_ID_NONE;
        if (made && t->producer == ZI_ID_NONE) {
            zi_free(t->name);
            zi_free(t->value);
            zi_free(t->readers);
            continue;
        }
        map[i] = kept;
        g->tensors[kept++] = *t;
    }
    g->n_tensors = kept;
}

static void
rename_ids(zi_graph *g, const zi_tensor_id *map)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        zi_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) n->in[k] = mapped(map, n->in[k]);
        for (uint32_t k = 0; k < n->n_out; k++) n->out[k] = mapped(map, n->out[k]);
        for (uint32_t k = 0; k < n->n_up; k++) n->up[k] = mapped(map, n->up[k]);
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].grad_of = mapped(map, g->tensors[i].grad_of);
        g->tensors[i].state_of = mapped(map, g->tensors[i].state_of);
    }
    g->loss = mapped(map, g->loss);
    g->lr = mapped(map, g->lr);
    g->step = mapped(map, g->step);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        zi_tensor_id t = mapped(map, g->outputs[i]);
        if (t != ZI_ID_NONE) g->outputs[kept++] = t;
    }
    g->n_outputs = kept;
}

static zico_status
relink(zi_graph *g)
{
    zi_names_clear(g->names);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].n_readers = 0;
        ZI_TRY(zi_names_put(g->names, ZI_NAME_TENSOR, g->tensors[i].name, i));
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        ZI_TRY(zi_names_put(g->names, ZI_NAME_NODE, g->nodes[i].name, i));
        ZI_TRY(zi_graph_link_tensors(g, i));
    }
    return ZICO_OK;
}

zico_status
zi_graph_reorder(zi_graph *g, const zi_node_id *order, uint32_t n_order)
{
    uint32_t  n = g->n_nodes > g->n_tensors ? g->n_nodes : g->n_tensors;
    uint32_t *map = zi_malloc((n + 1) * sizeof *map);
    if (!map) return ZICO_E_NOMEM;

    zico_status st = move_nodes(g, order, n_order, map);
    if (st >= 0) {
        forget_links(g);
        drop_tensors(g, map);
        rename_ids(g, map);
        st = relink(g);
    }
    zi_free(map);
    return st;
}

zico_status
zi_graph_prune(zi_graph *g)
{
    bool       *used = zi_calloc(g->n_tensors + 1, sizeof *used);
    zi_node_id *order = zi_malloc((g->n_nodes + 1) * sizeof *order);
    uint32_t    at = g->n_nodes;
    zico_status st = used && order ? ZICO_OK : ZICO_E_NOMEM;

    for (uint32_t i = g->n_nodes; st >= 0 && i-- > 0;) {
        const zi_node *n = &g->nodes[i];
        bool           keep = n->n_up > 0;
        for (uint32_t k = 0; k < n->n_out; k++)
            keep |= n->out[k] != ZI_ID_NONE &&
                    (used[n->out[k]] || zi_graph_lives_on(g, n->out[k]));
        for (uint32_t k = 0; keep && k < n->n_in; k++)
            if (n->in[k] != ZI_ID_NONE) used[n->in[k]] = true;
        if (keep) order[--at] = i;
    }
    if (st >= 0) st = zi_graph_reorder(g, order + at, g->n_nodes - at);
    zi_free(used);
    zi_free(order);
    return st;
}

static zico_status
copy_nodes(zi_graph *to, const zi_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const zi_node *n = &g->nodes[i];
        zi_node_spec   s = {.name = n->name,
                            .op = n->op,
                            .phase = n->phase,
                            .forward = n->forward,
                            .n_in = n->n_in,
                            .n_out = n->n_out,
                            .n_up = n->n_up,
                            .in = n->in,
                            .up = n->up,
                            .attr = &n->attr};
        ZI_TRY(zi_graph_link_node(to, &s, n->out, NULL));
    }
    return ZICO_OK;
}

static zico_status
copy_into(zi_graph *to, const zi_graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const zi_tensor *t = &g->tensors[i];
        zi_tensor_spec   s = {.name = t->name,
                              .dtype = t->dtype,
                              .role = t->role,
                              .rank = t->rank,
                              .dims = t->dims,
                              .init = t->init,
                              .value = t->value};
        zi_tensor_id     id;
        ZI_TRY(zi_graph_add_tensor(to, &s, NULL, &id));
        to->tensors[id].grad_of = t->grad_of;
        to->tensors[id].state_of = t->state_of;
    }
    ZI_TRY(copy_nodes(to, g));
    for (uint32_t i = 0; i < g->n_outputs; i++)
        ZI_TRY(zi_graph_add_output(to, g->outputs[i]));
    to->loss = g->loss;
    to->lr = g->lr;
    to->step = g->step;
    to->differentiated = g->differentiated;
    to->has_update = g->has_update;
    return ZICO_OK;
}

zico_status
zi_graph_clone(const zi_graph *g, zi_graph **ret_graph)
{
    zi_graph *copy;
    ZI_TRY(zi_graph_new(g->name, &copy));
    zico_status st = copy_into(copy, g);
    if (st < 0)
        zi_graph_free(copy);
    else
        *ret_graph = copy;
    return st;
}

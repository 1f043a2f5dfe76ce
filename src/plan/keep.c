/* keep.c -- the two named baselines: free after last use, and free nothing. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/try.h"
#include "plan/fixed.h"

typedef struct keeper {
    const zi_graph *g;
    const zi_cost  *c;
    zi_tensor_id   *root;
    uint32_t       *uses_left; /* per root: nodes that still read it or a view of it */
    bool           *present;   /* per root */
    zi_plan        *plan;
} keeper;

static bool
read_before(const keeper *k, const zi_node *n, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (n->in[j] != ZI_ID_NONE && k->root[n->in[j]] == k->root[n->in[i]]) return true;
    return false;
}

static void
count_uses(keeper *k)
{
    for (zi_node_id id = 0; id < k->g->n_nodes; id++) {
        const zi_node *n = &k->g->nodes[id];
        for (uint32_t i = 0; i < n->n_in; i++)
            if (n->in[i] != ZI_ID_NONE && !read_before(k, n, i))
                k->uses_left[k->root[n->in[i]]]++;
    }
}

static bool
dies_here(const keeper *k, zi_tensor_id root)
{
    return k->uses_left[root] == 0 && k->present[root] && !zi_plan_is_fixed(k->g, root);
}

/* Roots that live on through themselves or a view of theirs never reach zero. */
static void
hold_outputs(keeper *k)
{
    for (zi_tensor_id t = 0; t < k->g->n_tensors; t++)
        if (zi_graph_lives_on(k->g, t)) k->uses_left[k->root[t]]++;
}

/* Which outputs can take the place of inputs that end with this node. */
static uint8_t
choose_over(keeper *k, zi_node_id id)
{
    const zi_node    *n = &k->g->nodes[id];
    const zi_op_info *op = zi_op_get(n->op);
    uint8_t           bits = 0;

    for (int pair = 0; pair < 2; pair++) {
        int o = op->over[pair][0], i = op->over[pair][1];
        if (o < 0 || (uint32_t)o >= n->n_out || (uint32_t)i >= n->n_in) continue;
        zi_tensor_id out = n->out[o], in = n->in[i];
        if (out == ZI_ID_NONE || in == ZI_ID_NONE) continue;
        zi_tensor_id r = k->root[in];
        if (r != in || !dies_here(k, r) || k->present[out]) continue;
        if (k->c->tensor_bytes[out] != k->c->tensor_bytes[in]) continue;
        if (!zi_graph_may_overwrite(k->g, id, (uint32_t)o, (uint32_t)i)) continue;
        bits |= (uint8_t)(1u << pair);
        k->present[r] = false;
        k->present[out] = true;
    }
    return bits;
}

static zico_status
drop_if_dead(keeper *k, zi_tensor_id t)
{
    zi_tensor_id r = k->root[t];
    if (!dies_here(k, r)) return ZICO_OK;
    k->present[r] = false;
    return zi_plan_add(k->plan, (zi_act){.kind = ZI_ACT_DROP, .what = r});
}

static zico_status
run_node(keeper *k, zi_node_id id, bool drop)
{
    const zi_node *n = &k->g->nodes[id];

    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE && !read_before(k, n, i))
            k->uses_left[k->root[n->in[i]]]--;
    uint8_t over = drop ? choose_over(k, id) : 0;
    ZI_TRY(zi_plan_add(k->plan, (zi_act){.kind = ZI_ACT_RUN, .what = id, .over = over}));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] != ZI_ID_NONE) k->present[k->root[n->out[i]]] = true;
    if (!drop) return ZICO_OK;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE) ZI_TRY(drop_if_dead(k, n->in[i]));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] != ZI_ID_NONE) ZI_TRY(drop_if_dead(k, n->out[i]));
    return ZICO_OK;
}

static zico_status
keep(const zi_graph *g, const zi_cost *c, const char *name, bool drop, zi_plan **ret_plan)
{
    keeper      k = {.g = g, .c = c};
    zico_status st = ZICO_E_NOMEM;

    k.root = zi_calloc(g->n_tensors + 1u, sizeof *k.root);
    k.uses_left = zi_calloc(g->n_tensors + 1u, sizeof *k.uses_left);
    k.present = zi_calloc(g->n_tensors + 1u, sizeof *k.present);
    if (!k.root || !k.uses_left || !k.present) goto undo;
    st = zi_plan_new(name, &k.plan);
    if (st < 0) goto undo;

    zi_plan_roots(g, k.root);
    count_uses(&k);
    hold_outputs(&k);
    for (zi_node_id id = 0; id < g->n_nodes && st >= 0; id++) st = run_node(&k, id, drop);
    if (st >= 0)
        *ret_plan = k.plan;
    else
        zi_plan_free(k.plan);
undo:
    zi_free(k.root);
    zi_free(k.uses_left);
    zi_free(k.present);
    return st;
}

zico_status
zi_plan_keep(const zi_graph *g, const zi_cost *c, zi_plan **ret_plan)
{
    return keep(g, c, "keep", true, ret_plan);
}

zico_status
zi_plan_keep_all(const zi_graph *g, const zi_cost *c, zi_plan **ret_plan)
{
    return keep(g, c, "keep-all", false, ret_plan);
}

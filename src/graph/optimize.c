/* optimize.c -- update nodes: one per parameter, as early as it may run.
 *
 * A gradient dies with its update, so the update stands right behind whichever comes
 * later: the node that finishes the gradient, or the last node that reads the parameter.
 * Clipping by the global norm needs all gradients first; then updates stand at the end.
 */
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <stdio.h>
#include <string.h>

zi_optim
zi_optim_default(zi_optim_kind kind)
{
    zi_optim o = {
        .kind = kind, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay_vectors = true};
    if (kind == ZI_OPTIM_MOMENTUM) o.momentum = 0.9;
    if (kind == ZI_OPTIM_ADAMW) o.decay = 0.01;
    return o;
}

typedef struct update {
    zi_graph       *g;
    const zi_optim *opt;
    zi_graph_diag  *diag;
    zi_tensor_id    gscale; /* NONE: no clipping */
    zi_tensor_id   *grad;   /* [n_tensors]: of each parameter, or NONE */
    uint32_t        n_grads;
    uint32_t        n_before; /* tensors before this pass */
} update;

static zico_status
scalar_input(update *u, const char *name, zi_tensor_id *ret)
{
    zi_tensor_spec s = {.name = name, .role = ZI_ROLE_INPUT};
    return zi_graph_add_tensor(u->g, &s, u->diag, ret);
}

static zico_status
make_state(update *u, zi_tensor_id param, const char *leaf, zi_tensor_id *ret)
{
    char name[ZI_NAME_BYTES];
    snprintf(name, sizeof name - 12, "%.200s.%s", u->g->tensors[param].name, leaf);
    zi_shape       shape = zi_tensor_shape(&u->g->tensors[param]);
    zi_tensor_spec s = {.name = name,
                        .role = ZI_ROLE_STATE,
                        .rank = shape.rank,
                        .dims = shape.dims,
                        .init = {.kind = ZI_INIT_CONST}};
    ZI_TRY(zi_graph_add_tensor(u->g, &s, u->diag, ret));
    u->g->tensors[*ret].state_of = param;
    return ZICO_OK;
}

static zi_attr
optim_attr(const update *u, zi_tensor_id param)
{
    const zi_optim *o = u->opt;
    bool            decay = o->decay_vectors || u->g->tensors[param].rank > 1;
    return (zi_attr){.optim = {.decay = decay ? o->decay : 0,
                               .momentum = o->momentum,
                               .nesterov = o->nesterov,
                               .beta1 = o->beta1,
                               .beta2 = o->beta2,
                               .eps = o->eps,
                               .max_norm = o->clip_norm}};
}

static zico_status
add_update(update *u, zi_tensor_id param)
{
    static const zi_op op[] = {ZI_OP_SGD, ZI_OP_MOMENTUM, ZI_OP_ADAM, ZI_OP_ADAMW};
    char               name[ZI_NAME_BYTES];
    bool               adam = u->opt->kind >= ZI_OPTIM_ADAM;
    zi_tensor_id       up[3] = {param}, none;
    zi_attr            attr = optim_attr(u, param);
    zi_tensor_id       in[4] = {u->grad[param], u->g->lr, u->g->step, u->gscale};

    if (u->opt->kind == ZI_OPTIM_MOMENTUM)
        ZI_TRY(make_state(u, param, "momentum", &up[1]));
    if (adam) ZI_TRY(make_state(u, param, "exp_avg", &up[1]));
    if (adam) ZI_TRY(make_state(u, param, "exp_avg_sq", &up[2]));
    snprintf(name, sizeof name - 12, "%.200s.update", u->g->tensors[param].name);
    zi_node_spec s = {.name = name,
                      .op = op[u->opt->kind],
                      .phase = ZI_PHASE_UPDATE,
                      .forward = ZI_ID_NONE,
                      .n_in = u->gscale != ZI_ID_NONE ? 4
                              : adam                  ? 3
                                                      : 2,
                      .in = in,
                      .n_up = adam                                ? 3
                              : u->opt->kind == ZI_OPTIM_MOMENTUM ? 2
                                                                  : 1,
                      .up = up,
                      .attr = &attr};
    return zi_graph_add_node(u->g, &s, u->diag, &none);
}

static zico_status
add_clip(update *u)
{
    zi_tensor_id *all = zi_malloc((u->n_grads + 1) * sizeof *all);
    if (!all) return ZICO_E_NOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->n_before; i++)
        if (u->grad[i] != ZI_ID_NONE) all[n++] = u->grad[i];
    zi_attr      attr = {.optim = {.max_norm = u->opt->clip_norm}};
    zi_node_spec s = {.name = "clip_scale",
                      .op = ZI_OP_CLIP_SCALE,
                      .phase = ZI_PHASE_UPDATE,
                      .forward = ZI_ID_NONE,
                      .n_in = n,
                      .in = all,
                      .n_out = 1,
                      .attr = &attr};
    zico_status  st = zi_graph_add_node(u->g, &s, u->diag, &u->gscale);
    zi_free(all);
    return st;
}

static void
find_grads(update *u)
{
    const zi_graph *g = u->g;
    for (uint32_t i = 0; i < u->n_before; i++) u->grad[i] = ZI_ID_NONE;
    for (uint32_t i = 0; i < u->n_before; i++) {
        zi_tensor_id of = g->tensors[i].grad_of;
        if (g->tensors[i].role != ZI_ROLE_GRAD || of == ZI_ID_NONE ||
            g->tensors[of].role != ZI_ROLE_PARAM)
            continue;
        u->n_grads += u->grad[of] == ZI_ID_NONE;
        u->grad[of] = i;
    }
}

/* The node behind which node `id` (an update) may stand. */
static zi_node_id
earliest(const zi_graph *g, zi_node_id id)
{
    const zi_node *n = &g->nodes[id];
    zi_node_id     after = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == ZI_ID_NONE) continue;
        zi_node_id p = g->tensors[n->in[i]].producer;
        if (p != ZI_ID_NONE && p > after) after = p;
    }
    for (uint32_t i = 0; i < n->n_up; i++) {
        const zi_tensor *t = &g->tensors[n->up[i]];
        if (t->n_readers && t->readers[t->n_readers - 1] > after)
            after = t->readers[t->n_readers - 1];
    }
    return after;
}

/* Move each appended update behind the node that it waits for. */
static zico_status
hoist(zi_graph *g, uint32_t n_before)
{
    uint32_t    n = g->n_nodes, n_order = 0;
    zi_node_id *order = zi_malloc(n * sizeof *order);
    zi_node_id *first = zi_malloc(n * sizeof *first); /* list per node waited for ... */
    zi_node_id *next = zi_malloc(n * sizeof *next);   /* ... linked here */
    zico_status st = ZICO_E_NOMEM;

    if (order && first && next) {
        for (uint32_t i = 0; i < n; i++) first[i] = next[i] = ZI_ID_NONE;
        for (uint32_t i = n; i-- > n_before;) {
            zi_node_id after = earliest(g, i);
            zi_assert(after < n_before);
            next[i] = first[after];
            first[after] = i;
        }
        for (uint32_t i = 0; i < n_before; i++) {
            order[n_order++] = i;
            for (zi_node_id k = first[i]; k != ZI_ID_NONE; k = next[k])
                order[n_order++] = k;
        }
        zi_assert(n_order == n);
        st = zi_graph_reorder(g, order, n_order);
    }
    zi_free(order);
    zi_free(first);
    zi_free(next);
    return st;
}

static zico_status
add_all(update *u)
{
    uint32_t n_nodes = u->g->n_nodes;
    find_grads(u);
    ZI_TRY(scalar_input(u, "lr", &u->g->lr));
    if (u->opt->kind >= ZI_OPTIM_ADAM) ZI_TRY(scalar_input(u, "step", &u->g->step));
    if (u->opt->clip_norm > 0) ZI_TRY(add_clip(u));
    for (uint32_t i = 0; i < u->n_before; i++)
        if (u->grad[i] != ZI_ID_NONE) ZI_TRY(add_update(u, i));
    if (u->gscale == ZI_ID_NONE) ZI_TRY(hoist(u->g, n_nodes));
    u->g->has_update = true;
    return ZICO_OK;
}

/* Who trains looks at the loss.  A prediction that the loss reads would stay to the end of the step
 * for nobody, and its gradient could not take its place. */
static void
let_predictions_end(zi_graph *g)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const zi_tensor *t = &g->tensors[g->outputs[i]];
        if (t->role != ZI_ROLE_ACTIVATION || t->n_readers == 0)
            g->outputs[kept++] = g->outputs[i];
    }
    g->n_outputs = kept;
}

zico_status
zi_graph_add_update(zi_graph *g, const zi_optim *opt, zi_graph_diag *diag)
{
    if (!g->differentiated || g->has_update)
        return zi_graph_complain(diag, ZICO_E_STATE, ZI_ID_NONE,
                                 "updates need a differentiated graph, once");
    if (opt->kind > ZI_OPTIM_ADAMW || !(opt->clip_norm >= 0) || !(opt->decay >= 0))
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "unknown optimizer, or a negative option");
    update u = {.g = g,
                .opt = opt,
                .diag = diag,
                .gscale = ZI_ID_NONE,
                .n_before = g->n_tensors,
                .grad = zi_malloc((g->n_tensors + 1) * sizeof *u.grad)};
    if (!u.grad) return ZICO_E_NOMEM;
    zico_status st = add_all(&u);
    zi_free(u.grad);
    if (st >= 0) let_predictions_end(g);
    return st;
}

/* vdnn.c -- inputs of layers go out beside the layer and come back one layer ahead.
 *
 * PAPER    M. Rhu, N. Gimelshein, J. Clemons, A. Zulfiqar, S. W. Keckler. vDNN: Virtualized
 *          Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design.
 *          MICRO 2016.
 * CLAIM    Networks train whose feature maps exceed the device's memory, at a modest loss.
 * WE DO    A layer is a forward node; its X is what it reads and somebody reads backward.
 *          none / conv (X of convolutions and products) / all (X of every layer).  The last
 *          reader of X in the forward pass carries the copy out, and computation waits for it
 *          there.  Backward, the first node of each layer looks once for X to bring in: down
 *          from the layer below, never past a convolution that has nothing to bring.  What
 *          the window misses comes on demand.  Ladder: the first of none, conv, all that fits.
 * WE DROP  The choice of algorithms and of their workspace: exec chooses kernels once.
 *          Activations of the classifier may go out, too; on graphs without convolutions the
 *          rule would leave nothing.
 * CHECKED  vdnn_test.c: the window rule on a chain, ladder order; planner_test.c.
 * COST     O(nodes x window).
 */
#include "planner/vdnn.h"
#include "planner/planners.h"

#include "base/alloc.h"
#include "base/try.h"

static bool
is_heavy(const zi_graph *g, zi_node_id n)
{
    return (zi_op_get(g->nodes[n].op)->flags & ZI_OPF_HEAVY) != 0;
}

/* Does root t go out under the policy?  It is read backward; conv: one of its forward readers is heavy. */
static bool
goes_out(const zi_draft *d, zi_tensor_id t, zi_vdnn_policy policy, zi_gap *ret_gap)
{
    const zi_graph *g = d->g;
    if (policy == ZI_VDNN_NONE || !zi_draft_may_leave(d, t)) return false;
    *ret_gap = zi_draft_turn_gap(d, t);
    if (ret_gap->from == ZI_ID_NONE) return false;
    if (policy == ZI_VDNN_ALL) return true;
    for (uint32_t i = d->use_first[t] + 1; i < d->use_first[t + 1]; i++)
        if (d->uses[i] <= ret_gap->from && is_heavy(g, d->uses[i])) return true;
    return false;
}

/* The search of the backward pass at layer n: what to bring in now. */
static zi_tensor_id
search_window(const zi_draft *d, zi_node_id n, const zi_tensor_id *first,
              const zi_tensor_id *next, const bool *fetched)
{
    for (zi_node_id i = n; i-- > 0;) {
        bool had_candidate = false;
        for (zi_tensor_id t = first[i]; t != ZI_ID_NONE; t = next[t]) {
            if (!fetched[t]) return t;
            had_candidate = true;
        }
        if (is_heavy(d->g, i) && !had_candidate) return ZI_ID_NONE;
    }
    return ZI_ID_NONE;
}

static void
plan_prefetch(zi_draft *d, const zi_tensor_id *first, const zi_tensor_id *next,
              bool *fetched, bool *visited)
{
    for (zi_node_id n = 0; n < d->g->n_nodes; n++) {
        zi_node_id layer = d->g->nodes[n].forward;
        if (layer == ZI_ID_NONE || visited[layer]) continue;
        visited[layer] = true;
        for (zi_tensor_id t = first[layer]; t != ZI_ID_NONE; t = next[t])
            fetched[t] = true; /* needed right here: on demand, if nobody asked before */
        zi_tensor_id t = search_window(d, layer, first, next, fetched);
        if (t == ZI_ID_NONE) continue;
        fetched[t] = true;
        d->fate[t].in_at = n;
    }
}

zico_status
zi_vdnn_apply(zi_draft *d, zi_vdnn_policy policy)
{
    const zi_graph *g = d->g;
    zi_tensor_id   *first = zi_calloc(g->n_nodes + 1u, sizeof *first);
    zi_tensor_id   *next = zi_calloc(g->n_tensors + 1u, sizeof *next);
    bool           *fetched = zi_calloc(g->n_tensors + 1u, sizeof *fetched);
    bool           *visited = zi_calloc(g->n_nodes + 1u, sizeof *visited);
    zico_status     st = ZICO_E_NOMEM;

    zi_draft_reset(d);
    d->early_out = false;
    d->on_demand = true;
    if (first && next && fetched && visited) {
        for (zi_node_id n = 0; n < g->n_nodes; n++) first[n] = ZI_ID_NONE;
        for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
            zi_gap gap;
            if (!goes_out(d, t, policy, &gap)) continue;
            zi_draft_leave_in(d, t, ZI_FATE_SWAP, gap);
            d->fate[t].barrier = true;
            next[t] = first[gap.from];
            first[gap.from] = t;
        }
        plan_prefetch(d, first, next, fetched, visited);
        st = ZICO_OK;
    }
    zi_free(first);
    zi_free(next);
    zi_free(fetched);
    zi_free(visited);
    return st;
}

static zico_status
climb(zi_draft *d, const zi_plan_task *task, zi_trial *best)
{
    for (int policy = ZI_VDNN_NONE; policy <= ZI_VDNN_ALL && !best->fits; policy++) {
        zi_trial now = {0};
        ZI_TRY(zi_vdnn_apply(d, (zi_vdnn_policy)policy));
        ZI_TRY(zi_draft_try(d, "vdnn", task->budget_bytes, &now));
        zi_trial_keep_better(best, &now);
    }
    return ZICO_OK;
}

static zico_status
solve(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_draft *d;
    zi_trial  best = {0};

    ZI_TRY(zi_draft_new(task->graph, task->cost, &d));
    zico_status st = climb(d, task, &best);
    if (st >= 0)
        st = zi_trial_finish(&best, ret_plan, ret_least);
    else
        zi_plan_free(best.plan);
    zi_draft_free(d);
    return st;
}

const zi_planner_ops zi_planner_vdnn = {
    .name = "vdnn",
    .paper = "Rhu et al., MICRO 2016",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_DROP | 1u << ZI_ACT_OUT | 1u << ZI_ACT_IN |
             1u << ZI_ACT_WAIT,
    .solve = solve,
};

/* superneurons.c -- liveness, a cache of tensors with the tier behind it, cheap layers again.
 *
 * PAPER    L. Wang, J. Ye, Y. Zhao, W. Wu, A. Li, S. L. Song, Z. Xu, T. Kraska. SuperNeurons:
 *          Dynamic GPU Memory Management for Training Deep Neural Networks. PPoPP 2018.
 * CLAIM    The peak of the network falls to the need of its largest layer.
 * WE DO    The route is the graph's order; liveness frees at the first possible act (keep).
 *          Checkpoints, never run again: products and convolutions, joins (add, concat), and
 *          what cannot run again.  Everything else belongs to the segment behind the
 *          checkpoint before it: speed-centric, memory-centric, or cost-aware with L = the
 *          largest node's need.  Checkpoints' outputs live in an LRU cache: under pressure the
 *          least recently used that the running node does not lock goes out, and it comes
 *          back when the backward pass reaches the heavy node before the one that needs it.
 *          The techniques are stacked as in the paper: liveness; + cache; + cost-aware
 *          recomputation; + memory-centric where that is still too much.  First that fits.
 * WE DROP  The choice of convolution algorithms by what is left: exec chooses kernels once.
 * CHECKED  superneurons_test.c: counts speed <= aware <= memory, the L rule, LRU order and
 *          locks; planner_test.c.
 * COST     O(nodes + evictions x cache).
 */
#include "planner/superneurons.h"
#include "planner/planners.h"

#include <string.h>

#include "base/alloc.h"
#include "base/try.h"
#include "base/vec.h"
#include "planner/curve.h"

static bool
is_checkpoint(const zi_graph *g, zi_node_id n)
{
    const zi_node *x = &g->nodes[n];
    uint32_t       flags = zi_op_get(x->op)->flags;
    return (flags & ZI_OPF_HEAVY) || !(flags & ZI_OPF_RECOMPUTE) || x->op == ZI_OP_ADD ||
           x->op == ZI_OP_CONCAT;
}

/* -- recomputation ------------------------------------------------------------------------- */

static uint64_t
node_need(const zi_draft *d, zi_node_id n)
{
    const zi_node *x = &d->g->nodes[n];
    uint64_t       sum = d->c->scratch_bytes[n];
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        zi_tensor_id t = i < x->n_in ? x->in[i] : x->out[i - x->n_in];
        if (t == ZI_ID_NONE) continue;
        zi_tensor_id r = d->root[t];
        if (d->use_first[r + 1] > d->use_first[r]) sum += d->c->tensor_bytes[r];
    }
    return sum;
}

/* Bytes that the tensors of a segment, which begins behind node `from`, add up to. */
static uint64_t
segment_bytes(const zi_draft *d, zi_node_id from)
{
    uint64_t sum = 0;
    for (zi_node_id n = from + 1; n < d->g->n_nodes; n++) {
        const zi_node *x = &d->g->nodes[n];
        if (x->phase != ZI_PHASE_FORWARD || is_checkpoint(d->g, n)) break;
        for (uint32_t o = 0; o < x->n_out; o++)
            if (x->out[o] != ZI_ID_NONE && d->root[x->out[o]] == x->out[o])
                sum += d->c->tensor_bytes[x->out[o]];
    }
    return sum;
}

static void
recompute_node(zi_draft *d, zi_node_id n, zi_node_id checkpoint, bool speed)
{
    const zi_node *x = &d->g->nodes[n];
    for (uint32_t o = 0; o < x->n_out; o++) {
        zi_tensor_id t = x->out[o];
        if (t == ZI_ID_NONE || d->root[t] != t || !zi_draft_may_redo(d, t)) continue;
        zi_draft_redo(d, t);
        if (speed)
            d->fate[t].group =
                checkpoint + 2; /* groups begin at 1, for "no checkpoint" */
        else
            d->fate[t].gap_ns = 1;
    }
}

void
zi_superneurons_recompute(zi_draft *d, zi_sn_mode mode)
{
    const zi_graph *g = d->g;
    uint64_t        largest = 0;
    zi_node_id      checkpoint = ZI_ID_NONE;
    bool            speed = mode == ZI_SN_SPEED;

    zi_draft_reset(d);
    d->collect_ns = 0;
    if (mode == ZI_SN_NONE) return;
    for (zi_node_id n = 0; n < g->n_nodes; n++)
        if (node_need(d, n) > largest) largest = node_need(d, n);
    for (zi_node_id n = 0; n < g->n_nodes && g->nodes[n].phase == ZI_PHASE_FORWARD; n++) {
        if (is_checkpoint(g, n)) {
            checkpoint = n;
            if (mode == ZI_SN_AWARE) speed = segment_bytes(d, n) <= largest;
            for (uint32_t o = 0; o < g->nodes[n].n_out; o++)
                if (g->nodes[n].out[o] != ZI_ID_NONE)
                    d->fate[d->root[g->nodes[n].out[o]]].hold = true;
        } else {
            recompute_node(d, n, checkpoint, speed);
        }
    }
}

zico_status
zi_superneurons_counts(const zi_graph *g, const zi_cost *c,
                       uint32_t ret_counts[ZI_SN_COUNT])
{
    zi_draft   *d;
    zico_status st = ZICO_OK;

    ZI_TRY(zi_draft_new(g, c, &d));
    for (int mode = 0; mode < ZI_SN_COUNT && st >= 0; mode++) {
        zi_plan   *p;
        zi_verdict v;
        zi_superneurons_recompute(d, (zi_sn_mode)mode);
        st = zi_draft_lower(d, "superneurons", 0, &p);
        if (st == ZICO_E_LIMIT) {
            ret_counts[mode] = UINT32_MAX;
            st = ZICO_OK;
            continue;
        }
        if (st < 0) break;
        st = zi_plan_check(p, g, c, 0, &v);
        if (st >= 0) ret_counts[mode] = v.n_redo;
        zi_plan_free(p);
    }
    zi_draft_free(d);
    return st;
}

/* -- the tensor cache ------------------------------------------------------------------------ */

typedef struct cache {
    zi_draft *d;
    ZI_VEC(zi_tensor_id) lru; /* least recently used first */
    uint32_t
        *heavy_before; /* per node: first backward node of the heavy layer before it */
} cache;

static bool
uses_tensor(const zi_draft *d, zi_node_id n, zi_tensor_id t)
{
    const zi_node *x = &d->g->nodes[n];
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        zi_tensor_id y = i < x->n_in ? x->in[i] : x->out[i - x->n_in];
        if (y != ZI_ID_NONE && d->root[y] == t) return true;
    }
    return false;
}

/* The gap of root t that node n lies in. */
static bool
gap_around(const zi_draft *d, zi_tensor_id t, zi_node_id n, zi_gap *ret_gap)
{
    for (uint32_t i = d->use_first[t]; i + 1 < d->use_first[t + 1]; i++) {
        zi_node_id from = d->uses[i], to = d->uses[i + 1];
        if (from < n && n < to) {
            *ret_gap = (zi_gap){from, to, d->start_ns[from + 1], d->start_ns[to]};
            return true;
        }
    }
    return false;
}

/* A node uses its tensors: they become the most recent. */
static zico_status
touch(cache *k, zi_node_id n)
{
    const zi_node *x = &k->d->g->nodes[n];
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        zi_tensor_id t = i < x->n_in ? x->in[i] : x->out[i - x->n_in];
        if (t == ZI_ID_NONE) continue;
        t = k->d->root[t];
        if (!zi_draft_may_leave(k->d, t) || k->d->fate[t].kind != ZI_FATE_KEEP) continue;
        zi_node_id made = k->d->uses[k->d->use_first[t]];
        if (!is_checkpoint(k->d->g, made) ||
            k->d->g->nodes[made].phase != ZI_PHASE_FORWARD)
            continue;
        for (size_t j = 0; j < k->lru.n; j++)
            if (k->lru.at[j] == t) {
                zi_vec_remove(&k->lru, j);
                break;
            }
        ZI_TRY(zi_vec_push(&k->lru, t));
    }
    return ZICO_OK;
}

/* Send out from the tail until node n fits; tensors of n are locked. */
static void
evict_for(cache *k, zi_curve *curve, int64_t now, zi_node_id n, uint64_t budget)
{
    for (size_t j = 0; j < k->lru.n && now > (int64_t)budget;) {
        zi_tensor_id t = k->lru.at[j];
        zi_gap       gap;
        if (uses_tensor(k->d, n, t) || !gap_around(k->d, t, n, &gap)) {
            j++;
            continue;
        }
        zi_vec_remove(&k->lru, j);
        k->d->fate[t] = (zi_fate){.kind = ZI_FATE_SWAP,
                                  .gap_ns = gap.end_ns - gap.begin_ns,
                                  .in_at = k->heavy_before[gap.to]};
        zi_curve_add(curve, gap.from + 1, gap.to, -(int64_t)k->d->c->tensor_bytes[t]);
        now -= (int64_t)k->d->c->tensor_bytes[t];
    }
}

static int64_t
curve_at(const zi_curve *c, uint32_t n)
{
    int64_t  more = 0;
    uint32_t i = n + c->n_up;
    for (uint32_t up = i / 2; up > 0; up /= 2) more += c->more[up];
    return c->top[i] + more;
}

/* For each node: where the backward pass reaches the heavy layer before the one it is in. */
static void
find_heavy_before(cache *k)
{
    zi_node_id begin = ZI_ID_NONE, before = ZI_ID_NONE, layer = ZI_ID_NONE;
    for (zi_node_id n = 0; n < k->d->g->n_nodes; n++) {
        zi_node_id f = k->d->g->nodes[n].forward;
        bool       heavy =
            f != ZI_ID_NONE && (zi_op_get(k->d->g->nodes[f].op)->flags & ZI_OPF_HEAVY);
        if (heavy && f != layer) {
            before = begin;
            begin = n;
            layer = f;
        }
        k->heavy_before[n] = heavy ? before : begin;
    }
}

static zico_status
fill_cache(cache *k, uint64_t budget_bytes)
{
    zi_draft   *d = k->d;
    zi_curve    curve;
    zi_plan    *plan = NULL;
    zico_status st;

    ZI_TRY(zi_curve_new(d->g->n_nodes, &curve));
    st = zi_draft_lower(d, "superneurons", 0, &plan);
    if (st >= 0) st = zi_curve_of_plan(&curve, plan, d->g, d->c, d->root);
    if (st >= 0) find_heavy_before(k);
    for (zi_node_id n = 0; n < d->g->n_nodes && st >= 0; n++) {
        int64_t want = curve_at(&curve, n);
        if (want > (int64_t)budget_bytes) evict_for(k, &curve, want, n, budget_bytes);
        st = touch(k, n);
    }
    zi_plan_free(plan);
    zi_curve_free(&curve);
    return st;
}

/* Recompute as `mode` says, and let the cache take the rest. */
static zico_status
stack_up(zi_draft *d, zi_sn_mode mode, uint64_t budget_bytes, zi_trial *ret_trial)
{
    cache k = {.d = d, .heavy_before = zi_calloc(d->g->n_nodes + 1u, sizeof(uint32_t))};

    if (!k.heavy_before) return ZICO_E_NOMEM;
    zi_superneurons_recompute(d, mode);
    d->early_out = true;
    d->on_demand = false;
    zico_status st = zi_draft_has_tier(d) ? fill_cache(&k, budget_bytes) : ZICO_OK;
    if (st >= 0) st = zi_draft_try(d, "superneurons", budget_bytes, ret_trial);
    zi_vec_free(&k.lru);
    zi_free(k.heavy_before);
    return st;
}

static zico_status
solve(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    static const zi_sn_mode order[] = {ZI_SN_NONE, ZI_SN_AWARE, ZI_SN_MEMORY};
    zi_draft               *d;
    zi_trial                best = {0};

    ZI_TRY(zi_draft_new(task->graph, task->cost, &d));
    zico_status st = zi_draft_try(d, "superneurons", task->budget_bytes, &best);
    for (size_t i = 0; i < 3 && st >= 0 && !best.fits; i++) {
        zi_trial now = {0};
        st = stack_up(d, order[i], task->budget_bytes, &now);
        if (st >= 0) zi_trial_keep_better(&best, &now);
        if (st == ZICO_E_LIMIT)
            st = ZICO_OK; /* too much of recomputation: not this way */
    }
    if (st >= 0)
        st = zi_trial_finish(&best, ret_plan, ret_least);
    else
        zi_plan_free(best.plan);
    zi_draft_free(d);
    return st;
}

const zi_planner_ops zi_planner_superneurons = {
    .name = "superneurons",
    .paper = "Wang et al., PPoPP 2018",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_REDO | 1u << ZI_ACT_DROP | 1u << ZI_ACT_OUT |
             1u << ZI_ACT_IN | 1u << ZI_ACT_WAIT,
    .solve = solve,
};

/* draft.c -- the facts that planners ask for: uses, gaps, times, what may run again. */
#include "planner/draft.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "plan/fixed.h"

void
zi_draft_free(zi_draft *d)
{
    if (!d) return;
    zi_free(d->root);
    zi_free(d->use_first);
    zi_free(d->uses);
    zi_free(d->start_ns);
    zi_free(d->redo_until);
    zi_free(d->lives_on);
    zi_free(d->fixed);
    zi_free(d->fate);
    zi_free(d->seen);
    zi_free(d->stack);
    zi_free(d);
}

static zi_tensor_id
used_root(const zi_draft *d, zi_tensor_id t)
{
    return t == ZI_ID_NONE || d->fixed[d->root[t]] ? ZI_ID_NONE : d->root[t];
}

/* Enter node n among the uses of root r, unless it is the last one entered: count only when
 * uses is NULL.  `at` is the next free place of each root. */
static void
enter_use(zi_draft *d, uint32_t *at, zi_node_id *last, zi_node_id n, zi_tensor_id r)
{
    if (r == ZI_ID_NONE || last[r] == n) return;
    last[r] = n;
    if (d->uses) d->uses[at[r]] = n;
    at[r]++;
}

static void
enter_all_uses(zi_draft *d, uint32_t *at, zi_node_id *last)
{
    memset(last, 0xff, (d->g->n_tensors + 1u) * sizeof *last);
    for (zi_node_id n = 0; n < d->g->n_nodes; n++) {
        const zi_node *x = &d->g->nodes[n];
        for (uint32_t i = 0; i < x->n_in; i++)
            enter_use(d, at, last, n, used_root(d, x->in[i]));
        for (uint32_t i = 0; i < x->n_out; i++)
            enter_use(d, at, last, n, used_root(d, x->out[i]));
    }
}

static zico_status
find_uses(zi_draft *d)
{
    uint32_t  n = d->g->n_tensors, sum = 0;
    uint32_t *at = zi_calloc(n + 1u, sizeof *at);
    uint32_t *last = zi_calloc(n + 1u, sizeof *last);

    if (at && last) {
        enter_all_uses(d, at, last);
        for (zi_tensor_id t = 0; t < n; t++) {
            d->use_first[t] = sum;
            sum += at[t];
            at[t] = d->use_first[t];
        }
        d->use_first[n] = sum;
        d->uses = zi_calloc(sum + 1u, sizeof *d->uses);
        if (d->uses) enter_all_uses(d, at, last);
    }
    zi_free(at);
    zi_free(last);
    return d->uses ? ZICO_OK : ZICO_E_NOMEM;
}

static void
find_times(zi_draft *d)
{
    for (zi_node_id n = 0; n < d->g->n_nodes; n++) {
        const zi_node *x = &d->g->nodes[n];
        d->start_ns[n + 1] = d->start_ns[n] + d->c->node_ns[n];
        d->redo_until[n] = d->g->n_nodes;
        for (uint32_t i = 0; i < x->n_in; i++) {
            if (x->in[i] == ZI_ID_NONE) continue;
            zi_node_id up = d->g->tensors[d->root[x->in[i]]].updater;
            if (up < d->redo_until[n]) d->redo_until[n] = up;
        }
    }
}

zico_status
zi_draft_new(const zi_graph *g, const zi_cost *c, zi_draft **ret_draft)
{
    zi_draft *d = zi_calloc(1, sizeof *d);
    if (!d) return ZICO_E_NOMEM;
    d->g = g;
    d->c = c;
    d->root = zi_calloc(g->n_tensors + 1u, sizeof *d->root);
    d->use_first = zi_calloc(g->n_tensors + 2u, sizeof *d->use_first);
    d->start_ns = zi_calloc(g->n_nodes + 1u, sizeof *d->start_ns);
    d->redo_until = zi_calloc(g->n_nodes + 1u, sizeof *d->redo_until);
    d->lives_on = zi_calloc(g->n_tensors + 1u, sizeof *d->lives_on);
    d->fixed = zi_calloc(g->n_tensors + 1u, sizeof *d->fixed);
    d->fate = zi_calloc(g->n_tensors + 1u, sizeof *d->fate);
    d->seen = zi_calloc(g->n_tensors + 1u, sizeof *d->seen);
    d->stack = zi_calloc(g->n_tensors + 1u, sizeof *d->stack);
    if (!d->root || !d->use_first || !d->start_ns || !d->redo_until || !d->lives_on ||
        !d->fixed || !d->fate || !d->seen || !d->stack)
        goto undo;
    zi_plan_roots(g, d->root);
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) d->fixed[t] = zi_plan_is_fixed(g, t);
    if (find_uses(d) < 0) goto undo;
    find_times(d);
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (zi_graph_lives_on(g, t)) d->lives_on[d->root[t]] = true;
    zi_draft_reset(d);
    *ret_draft = d;
    return ZICO_OK;
undo:
    zi_draft_free(d);
    return ZICO_E_NOMEM;
}

void
zi_draft_reset(zi_draft *d)
{
    d->border = NULL;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++)
        d->fate[t] = (zi_fate){.kind = ZI_FATE_KEEP, .in_at = ZI_ID_NONE};
}

/* -- asking ------------------------------------------------------------------------------ */

bool
zi_draft_may_leave(const zi_draft *d, zi_tensor_id t)
{
    return d->root[t] == t && !d->fixed[t] && !d->lives_on[t] &&
           d->c->tensor_bytes[t] > 0 && d->use_first[t + 1] - d->use_first[t] > 1;
}

zi_gap
zi_draft_longest_gap(const zi_draft *d, zi_tensor_id t)
{
    zi_gap best = {.from = ZI_ID_NONE, .to = ZI_ID_NONE};
    for (uint32_t i = d->use_first[t]; i + 1 < d->use_first[t + 1]; i++) {
        zi_node_id from = d->uses[i], to = d->uses[i + 1];
        uint64_t   begin = d->start_ns[from + 1], end = d->start_ns[to];
        if (to == from + 1) continue;
        if (best.from == ZI_ID_NONE || end - begin > best.end_ns - best.begin_ns)
            best = (zi_gap){from, to, begin, end};
    }
    return best;
}

zi_gap
zi_draft_turn_gap(const zi_draft *d, zi_tensor_id t)
{
    for (uint32_t i = d->use_first[t]; i + 1 < d->use_first[t + 1]; i++) {
        zi_node_id from = d->uses[i], to = d->uses[i + 1];
        if (d->g->nodes[to].phase == ZI_PHASE_FORWARD || to == from + 1) continue;
        if (d->g->nodes[from].phase != ZI_PHASE_FORWARD) break;
        return (zi_gap){from, to, d->start_ns[from + 1], d->start_ns[to]};
    }
    return (zi_gap){.from = ZI_ID_NONE, .to = ZI_ID_NONE};
}

bool
zi_draft_leaves(const zi_draft *d, zi_tensor_id t, zi_node_id from, zi_node_id to)
{
    const zi_fate *f = &d->fate[t];
    return f->kind != ZI_FATE_KEEP && to > from + 1 &&
           (f->to_last == 0 || (to >= f->to_first && to <= f->to_last)) &&
           d->start_ns[to] - d->start_ns[from + 1] >= f->gap_ns;
}

void
zi_draft_leave_in(zi_draft *d, zi_tensor_id t, zi_fate_kind kind, zi_gap gap)
{
    zi_node_id p = d->g->tensors[t].producer;
    if (gap.from == ZI_ID_NONE || !zi_draft_may_leave(d, t)) return;
    if (kind == ZI_FATE_REDO &&
        (gap.to > d->redo_until[p] ||
         !(zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_RECOMPUTE)))
        return;
    d->fate[t] = (zi_fate){.kind = kind,
                           .to_first = gap.to,
                           .to_last = gap.to,
                           .in_at = ZI_ID_NONE};
}

bool
zi_draft_may_redo(const zi_draft *d, zi_tensor_id t)
{
    if (!zi_draft_may_leave(d, t)) return false;
    zi_node_id p = d->g->tensors[t].producer;
    zi_gap     gap = zi_draft_longest_gap(d, t);
    return gap.from != ZI_ID_NONE && gap.to <= d->redo_until[p] &&
           (zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_RECOMPUTE);
}

static uint64_t
copy_ns(const zi_draft *d, zi_tensor_id t, double bytes_per_s)
{
    if (!(bytes_per_s > 0)) return UINT64_MAX / 4;
    return d->c->copy_latency_ns +
           (uint64_t)((double)d->c->tensor_bytes[t] / bytes_per_s * 1e9);
}

uint64_t
zi_draft_out_ns(const zi_draft *d, zi_tensor_id t)
{
    return copy_ns(d, t, d->c->out_bytes_per_s);
}

uint64_t
zi_draft_in_ns(const zi_draft *d, zi_tensor_id t)
{
    return copy_ns(d, t, d->c->in_bytes_per_s);
}

bool
zi_draft_has_tier(const zi_draft *d)
{
    return d->c->out_bytes_per_s > 0 && d->c->in_bytes_per_s > 0 && d->c->tier_bytes > 0;
}

/* Is root r there when node `at` is about to run, given its fate? */
static bool
present_at(const zi_draft *d, zi_tensor_id r, zi_node_id at)
{
    const zi_fate *f = &d->fate[r];
    uint32_t       lo = d->use_first[r], hi = d->use_first[r + 1];

    if (d->lives_on[r] || f->hold) return true;
    while (lo < hi) { /* first use at or after `at` */
        uint32_t mid = lo + (hi - lo) / 2;
        if (d->uses[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == d->use_first[r + 1]) return false; /* dead by then */
    if (d->uses[lo] == at) return true;
    return !zi_draft_leaves(d, r, d->uses[lo - 1], d->uses[lo]);
}

static bool
can_run_again(const zi_draft *d, zi_node_id p, zi_node_id at)
{
    return (zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_RECOMPUTE) &&
           at <= d->redo_until[p];
}

bool
zi_draft_redo_cost(zi_draft *d, zi_tensor_id t, zi_node_id at, uint32_t cap,
                   zi_tensor_id *ret_sources, zi_redo_cost *ret_cost)
{
    zi_redo_cost sum = {0};
    uint32_t     n = 0, stamp = ++d->n_seen;

    d->stack[n++] = t;
    d->seen[t] = stamp;
    while (n > 0) {
        zi_tensor_id r = d->stack[--n];
        zi_node_id   p = d->g->tensors[r].producer;
        if (sum.n_nodes == cap || !can_run_again(d, p, at)) return false;
        if (r != t && d->fate[r].kind == ZI_FATE_SWAP) return false;
        sum.n_nodes++;
        sum.heavy |= (zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_HEAVY) != 0;
        sum.ns += d->c->node_ns[p];
        const zi_node *x = &d->g->nodes[p];
        for (uint32_t o = 0; o < x->n_out; o++) /* made together: counted once */
            if (x->out[o] != ZI_ID_NONE) d->seen[d->root[x->out[o]]] = stamp;
        for (uint32_t i = 0; i < x->n_in; i++) {
            zi_tensor_id in = used_root(d, x->in[i]);
            if (in == ZI_ID_NONE || d->seen[in] == stamp) continue;
            d->seen[in] = stamp;
            if (!present_at(d, in, at))
                d->stack[n++] = in;
            else if (ret_sources && sum.n_sources < cap)
                ret_sources[sum.n_sources++] = in;
        }
    }
    *ret_cost = sum;
    return true;
}

static void
leave_in_longest_gap(zi_draft *d, zi_tensor_id t, zi_fate_kind kind)
{
    zi_gap gap = zi_draft_longest_gap(d, t);
    zi_assert(gap.from != ZI_ID_NONE);
    d->fate[t] =
        (zi_fate){.kind = kind, .gap_ns = gap.end_ns - gap.begin_ns, .in_at = ZI_ID_NONE};
}

void
zi_draft_redo(zi_draft *d, zi_tensor_id t)
{
    leave_in_longest_gap(d, t, ZI_FATE_REDO);
}

void
zi_draft_swap(zi_draft *d, zi_tensor_id t)
{
    leave_in_longest_gap(d, t, ZI_FATE_SWAP);
}

/* -- trials ------------------------------------------------------------------------------ */

zico_status
zi_draft_try(zi_draft *d, const char *planner, uint64_t budget_bytes, zi_trial *ret_trial)
{
    zi_trial t = {0};
    ZI_TRY(zi_draft_lower(d, planner, budget_bytes, &t.plan));
    zico_status st = zi_plan_simulate(t.plan, d->g, d->c, NULL, &t.forecast);
    if (st < 0) {
        zi_assert(st == ZICO_E_NOMEM); /* a broken rule other than P7 is our own bug */
        zi_plan_free(t.plan);
        return st;
    }
    t.fits = !budget_bytes || t.forecast.peak_bytes <= budget_bytes;
    *ret_trial = t;
    return ZICO_OK;
}

bool
zi_trial_is_better(const zi_trial *a, const zi_trial *b)
{
    if (!b->plan) return true;
    if (a->fits != b->fits) return a->fits;
    uint64_t a_first = a->fits ? a->forecast.step_ns : a->forecast.peak_bytes;
    uint64_t b_first = b->fits ? b->forecast.step_ns : b->forecast.peak_bytes;
    if (a_first != b_first) return a_first < b_first;
    return a->forecast.peak_bytes < b->forecast.peak_bytes;
}

bool
zi_trial_keep_better(zi_trial *best, zi_trial *other)
{
    bool won = zi_trial_is_better(other, best);
    if (won) {
        zi_plan_free(best->plan);
        *best = *other;
    } else {
        zi_plan_free(other->plan);
    }
    *other = (zi_trial){0};
    return won;
}

zico_status
zi_trial_finish(zi_trial *t, zi_plan **ret_plan, uint64_t *ret_least)
{
    zi_assert(t->plan);
    if (t->fits) {
        *ret_plan = t->plan;
    } else {
        if (ret_least) *ret_least = t->forecast.peak_bytes;
        zi_plan_free(t->plan);
    }
    t->plan = NULL;
    return t->fits ? ZICO_OK : ZICO_E_NOPLAN;
}

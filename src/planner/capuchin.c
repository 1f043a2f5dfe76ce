/* capuchin.c -- swap what hides behind computation, recompute what is cheap for its size.
 *
 * PAPER    X. Peng, X. Shi, H. Dai, H. Jin, W. Ma, Q. Xiong, F. Yang, X. Qian. Capuchin:
 *          Tensor-based GPU Memory Management for Deep Learning. ASPLOS 2020.
 * CLAIM    Deciding per tensor, from measured accesses, beats rules by kind of layer: at equal
 *          memory at least as fast as vDNN, SuperNeurons and checkpointing.
 * WE DO    Accesses and times are the graph's uses and the measured costs.  Candidates are
 *          gaps between uses that cover the peak.  Free time FT = start of the copy in - end
 *          of the copy out, both queues re-timed with all copies chosen so far; swaps with FT
 *          >= 0 first, longest FT first; then the exposed time of the best swap against the
 *          time of the best recomputation, per byte saved.  Recomputation time follows the
 *          lineage to what is present at the back access: a chosen source passes its own
 *          sources on (a), makes its readers dearer (b), and costs one more run per chosen
 *          target that reads it (c).  Collective recomputation: what a chain meets and
 *          somebody needs soon, stays.  Copies in begin as late as they can and not inside
 *          the peak (draft_lower.c).  Feedback moves them by 5 % of their length.
 *          The peak moves while we choose, so the peak window is looked up for each choice,
 *          and the outcome is lowered, measured and corrected until it fits.
 *          Several attempts, some beginning with recomputation (all that is cheap; whole
 *          segments, whose borders may go out); the two best are polished.
 *          Where nothing fits otherwise, everything goes out at once and comes on demand; where
 *          such a plan cannot be placed within the budget, but one by the others' rules can,
 *          that one is taken (fit.c).
 *          The measured step and every surprise run passively: exec/passive.h, train/pilot.h.
 * CHECKED  capuchin_test.c, planner_test.c; numeric/plan_exec_test.c runs what it plans.
 * COST     O(choices x candidates); choices are bounded by gaps.
 */
#include "planner/capuchin.h"
#include "planner/monger.h"
#include "planner/planners.h"
#include "planner/vdnn.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "base/vec.h"
#include "planner/curve.h"

#define GAPS_MAX     3     /* of one tensor                                   */
#define SMALLEST     65536 /* tensors below this part of the peak do not count */
#define SWAPS_TRIED  6
#define REDOS_TRIED  12
#define CHAIN_MAX    64
#define ROUNDS_MAX   40
#define NEVER        1e300
#define COLLECT_PART 16 /* met targets stay if used within this part of the step */

typedef struct candidate {
    zi_tensor_id root;
    zi_gap       gap;
    uint64_t     bytes;
    int64_t      free_ns; /* FT alone in the queues */
    double       msps;    /* bytes per ns of the cheapest recomputation thinkable */
    bool         may_swap, may_redo, taken;
    double       redo_least; /* ns per byte when last looked at: it only gets dearer */
    uint64_t     out_end_ns; /* scratch of exposure() */
} candidate;

typedef struct rank {
    double   key; /* highest first */
    uint32_t id;
} rank;

typedef ZI_VEC(uint32_t) id_vec;

typedef struct chooser {
    zi_draft                  *d;
    const zi_capuchin_options *opt;
    ZI_VEC(candidate) all;
    ZI_VEC(rank) by_free; /* candidates, longest free time first */
    ZI_VEC(rank) by_msps; /* candidates, highest first */
    id_vec outs;          /* chosen swaps in the order of copies out */
    id_vec ins;           /* ... of copies in */
    uint32_t
            *n_dependents; /* per root: chosen targets that read it when they run again */
    uint64_t exposed_ns;   /* of the chosen swaps */
    zi_curve curve;
    zi_tensor_id sources[CHAIN_MAX];
} chooser;

/* -- candidates ------------------------------------------------------------------------------ */

static uint64_t
out_begin(const chooser *ch, const candidate *x)
{
    zi_node_id made = ch->d->uses[ch->d->use_first[x->root]];
    return ch->d->early_out ? ch->d->start_ns[made + 1] : x->gap.begin_ns;
}

static int64_t
free_time(const chooser *ch, const candidate *x)
{
    uint64_t out_end = out_begin(ch, x) + zi_draft_out_ns(ch->d, x->root);
    if (out_end < x->gap.begin_ns) out_end = x->gap.begin_ns;
    return (int64_t)x->gap.end_ns - (int64_t)zi_draft_in_ns(ch->d, x->root) -
           (int64_t)out_end;
}

static zico_status
add_candidate(chooser *ch, zi_tensor_id t, zi_gap gap)
{
    const zi_draft *d = ch->d;
    zi_node_id      p = d->g->tensors[t].producer;
    candidate       x = {.root = t, .gap = gap, .bytes = d->c->tensor_bytes[t]};

    x.may_swap = ch->opt->swap && zi_draft_has_tier(d);
    x.may_redo =
        ch->opt->redo && gap.to <= d->redo_until[p] &&
        (zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_RECOMPUTE) &&
        (!ch->opt->cheap_only || !(zi_op_get(d->g->nodes[p].op)->flags & ZI_OPF_HEAVY));
    if (!x.may_swap && !x.may_redo) return ZICO_OK;
    x.free_ns = x.may_swap ? free_time(ch, &x) : INT64_MIN;
    x.msps = (double)x.bytes / (double)(1 + d->c->node_ns[p]);
    return zi_vec_push(&ch->all, x);
}

static zico_status
add_gaps(chooser *ch, zi_tensor_id t)
{
    const zi_draft *d = ch->d;
    zi_gap          gap[GAPS_MAX];
    int             n = 0;

    for (uint32_t i = d->use_first[t]; i + 1 < d->use_first[t + 1]; i++) {
        zi_gap g = {.from = d->uses[i],
                    .to = d->uses[i + 1],
                    .begin_ns = d->start_ns[d->uses[i] + 1],
                    .end_ns = d->start_ns[d->uses[i + 1]]};
        if (g.to <= g.from + 1) continue;
        int at = n < GAPS_MAX ? n++ : GAPS_MAX;
        for (; at > 0; at--) { /* longest first */
            if (gap[at - 1].end_ns - gap[at - 1].begin_ns >= g.end_ns - g.begin_ns) break;
            if (at < GAPS_MAX) gap[at] = gap[at - 1];
        }
        if (at < GAPS_MAX) gap[at] = g;
    }
    for (int i = 0; i < n; i++) ZI_TRY(add_candidate(ch, t, gap[i]));
    return ZICO_OK;
}

static int
by_key(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static zico_status
find_candidates(chooser *ch, uint64_t peak_bytes)
{
    for (zi_tensor_id t = 0; t < ch->d->g->n_tensors; t++)
        if (zi_draft_may_leave(ch->d, t) &&
            ch->d->c->tensor_bytes[t] >= peak_bytes / SMALLEST)
            ZI_TRY(add_gaps(ch, t));
    for (uint32_t i = 0; i < ch->all.n; i++) {
        const candidate *x = &ch->all.at[i];
        if (x->may_swap) ZI_TRY(zi_vec_push(&ch->by_free, (rank){(double)x->free_ns, i}));
        if (x->may_redo) ZI_TRY(zi_vec_push(&ch->by_msps, (rank){x->msps, i}));
    }
    if (ch->by_free.n) qsort(ch->by_free.at, ch->by_free.n, sizeof(rank), by_key);
    if (ch->by_msps.n) qsort(ch->by_msps.at, ch->by_msps.n, sizeof(rank), by_key);
    return ZICO_OK;
}

/* -- what a choice costs --------------------------------------------------------------------- */

static size_t
place_of(const chooser *ch, bool out, uint64_t ns)
{
    size_t lo = 0, hi = out ? ch->outs.n : ch->ins.n;
    while (lo < hi) {
        size_t           mid = lo + (hi - lo) / 2;
        const candidate *x = &ch->all.at[out ? ch->outs.at[mid] : ch->ins.at[mid]];
        if ((out ? out_begin(ch, x) : x->gap.end_ns) <= ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Re-time both queues with candidate `more` among the chosen: the longest time by which a
 * copy in would have to begin before its copy out is over. */
static uint64_t
exposure(chooser *ch, uint32_t more)
{
    candidate *x = &ch->all.at[more];
    size_t     out_at = place_of(ch, true, out_begin(ch, x));
    size_t     in_at = place_of(ch, false, x->gap.end_ns);
    uint64_t   end = 0, next = UINT64_MAX;
    int64_t    worst = 0;

    for (size_t i = 0; i <= ch->outs.n; i++) {
        candidate *y = i == out_at ? x : &ch->all.at[ch->outs.at[i - (i > out_at)]];
        uint64_t   begin = out_begin(ch, y);
        end = (begin > end ? begin : end) + zi_draft_out_ns(ch->d, y->root);
        y->out_end_ns = end > y->gap.begin_ns ? end : y->gap.begin_ns;
    }
    for (size_t i = ch->ins.n + 1; i-- > 0;) {
        const candidate *y = i == in_at ? x : &ch->all.at[ch->ins.at[i - (i > in_at)]];
        uint64_t         by = y->gap.end_ns < next ? y->gap.end_ns : next;
        uint64_t         takes = zi_draft_in_ns(ch->d, y->root);
        int64_t          free_ns = (int64_t)by - (int64_t)takes - (int64_t)y->out_end_ns;
        next = by > takes ? by - takes : 0;
        if (-free_ns > worst) worst = -free_ns;
    }
    return (uint64_t)worst;
}

static bool
open_for(const chooser *ch, const candidate *x, uint32_t at, zi_fate_kind kind)
{
    zi_fate_kind now = ch->d->fate[x->root].kind;
    return !x->taken && x->gap.from < at && at < x->gap.to &&
           (now == ZI_FATE_KEEP || now == kind);
}

typedef struct choice {
    uint32_t     id; /* UINT32_MAX: none */
    zi_fate_kind kind;
    double       ns_per_byte;
    uint64_t     exposed_ns;
} choice;

static void
best_swap(chooser *ch, uint32_t at, choice *best)
{
    int tried = 0;
    for (size_t i = 0; i < ch->by_free.n && tried < SWAPS_TRIED; i++) {
        uint32_t   id = ch->by_free.at[i].id;
        candidate *x = &ch->all.at[id];
        if (!open_for(ch, x, at, ZI_FATE_SWAP)) continue;
        tried++;
        uint64_t e = exposure(ch, id);
        uint64_t more = e > ch->exposed_ns ? e - ch->exposed_ns : 0;
        double   r = ch->opt->swap_weight * (double)more / (double)x->bytes;
        if (r < best->ns_per_byte) *best = (choice){id, ZI_FATE_SWAP, r, e};
        if (more == 0) return; /* longest free time first, as long as it hides */
    }
}

/* Time per byte to make it again, given all fates; NEVER: it cannot be. */
static double
redo_price(chooser *ch, const candidate *x)
{
    zi_redo_cost cost;
    if (!zi_draft_redo_cost(ch->d, x->root, x->gap.to, CHAIN_MAX, NULL, &cost) ||
        (ch->opt->cheap_only && cost.heavy))
        return NEVER;
    uint64_t own = ch->d->c->node_ns[ch->d->g->tensors[x->root].producer];
    return (double)(cost.ns + ch->n_dependents[x->root] * own) / (double)x->bytes;
}

/* Whatever else is chosen, chains get longer and dependents more: what was too dear the last
 * time need not be looked at again. */
static void
best_redo(chooser *ch, uint32_t at, choice *best)
{
    int tried = 0;
    for (size_t i = 0; i < ch->by_msps.n && tried < REDOS_TRIED; i++) {
        uint32_t   id = ch->by_msps.at[i].id;
        candidate *x = &ch->all.at[id];
        if (!open_for(ch, x, at, ZI_FATE_REDO)) continue;
        if (1.0 / x->msps > best->ns_per_byte) break; /* nothing below can be better */
        if (x->redo_least < best->ns_per_byte) x->redo_least = redo_price(ch, x);
        if (x->redo_least == NEVER) continue;
        tried++;
        if (x->redo_least < best->ns_per_byte)
            *best = (choice){id, ZI_FATE_REDO, x->redo_least, 0};
    }
}

/* -- choosing ---------------------------------------------------------------------------------- */

static zico_status
insert(id_vec *v, size_t at, uint32_t id)
{
    ZI_TRY(zi_vec_push(v, id));
    memmove(v->at + at + 1, v->at + at, (v->n - 1 - at) * sizeof *v->at);
    v->at[at] = id;
    return ZICO_OK;
}

static void
count_dependents(chooser *ch, const candidate *x)
{
    zi_redo_cost cost;
    uint32_t     times = 1 + ch->n_dependents[x->root]; /* its own targets inherit */
    if (!zi_draft_redo_cost(ch->d, x->root, x->gap.to, CHAIN_MAX, ch->sources, &cost))
        return;
    for (uint32_t i = 0; i < cost.n_sources; i++)
        ch->n_dependents[ch->sources[i]] += times;
}

static uint32_t
node_at(const zi_draft *d, uint32_t lo, uint32_t hi, uint64_t ns)
{
    while (lo < hi) { /* first node that starts at or after ns */
        uint32_t mid = lo + (hi - lo) / 2;
        if (d->start_ns[mid] < ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static zico_status
take(chooser *ch, choice best)
{
    candidate *x = &ch->all.at[best.id];
    zi_fate   *f = &ch->d->fate[x->root];
    uint64_t   gap_ns = x->gap.end_ns - x->gap.begin_ns;
    uint32_t   from = x->gap.from + 1, to = x->gap.to;

    zi_assert(!x->taken);
    x->taken = true;
    if (best.kind == ZI_FATE_REDO) {
        count_dependents(ch, x);
    } else {
        ZI_TRY(insert(&ch->outs, place_of(ch, true, out_begin(ch, x)), best.id));
        ZI_TRY(insert(&ch->ins, place_of(ch, false, x->gap.end_ns), best.id));
        ch->exposed_ns = best.exposed_ns;
        if (x->free_ns > 0) { /* away only between the two copies */
            uint32_t lo = node_at(ch->d, from, to, x->out_end_ns);
            uint32_t hi =
                node_at(ch->d, from, to, x->gap.end_ns - zi_draft_in_ns(ch->d, x->root));
            if (lo < hi) from = lo, to = hi;
        }
    }
    if (f->kind == ZI_FATE_KEEP || gap_ns < f->gap_ns) f->gap_ns = gap_ns;
    f->kind = best.kind;
    if (ch->opt->lead_ns) f->lead_ns = ch->opt->lead_ns[x->root];
    zi_curve_add(&ch->curve, from, to, -(int64_t)x->bytes);
    return ZICO_OK;
}

/* Choose on the curve until it lies within the budget; says whether anything was chosen. */
static zico_status
choose_on_curve(chooser *ch, uint64_t budget_bytes, bool *ret_any)
{
    *ret_any = false;
    while (zi_curve_peak(&ch->curve) > (int64_t)budget_bytes) {
        uint32_t at = zi_curve_peak_at(&ch->curve);
        choice   best = {.id = UINT32_MAX, .ns_per_byte = NEVER};
        best_swap(ch, at, &best);
        best_redo(ch, at, &best);
        if (best.id == UINT32_MAX) return ZICO_OK;
        ZI_TRY(take(ch, best));
        *ret_any = true;
    }
    return ZICO_OK;
}

static void
choose_everything(chooser *ch)
{
    for (uint32_t i = 0; i < ch->all.n; i++) {
        candidate   *x = &ch->all.at[i];
        zi_redo_cost cost;
        if (!x->may_redo || x->taken || ch->d->fate[x->root].kind != ZI_FATE_KEEP)
            continue;
        if (!zi_draft_redo_cost(ch->d, x->root, x->gap.to, CHAIN_MAX, NULL, &cost))
            continue;
        if (ch->opt->cheap_only && cost.heavy) continue;
        x->taken = true;
        ch->d->fate[x->root] = (zi_fate){.kind = ZI_FATE_REDO,
                                         .gap_ns = x->gap.end_ns - x->gap.begin_ns,
                                         .in_at = ZI_ID_NONE};
    }
}

/* Lower, look, choose more, until it fits or nothing is left to choose. */
static zico_status
choose_until_it_fits(chooser *ch, uint64_t budget_bytes, zi_trial *best)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        zi_trial    now = {0};
        bool        any = true;
        zico_status st = zi_draft_try(ch->d, ch->opt->planner, budget_bytes, &now);
        if (st == ZICO_E_LIMIT && best->plan) return ZICO_OK; /* chains of chains */
        if (st < 0) return st;
        st = zi_curve_of_plan(&ch->curve, now.plan, ch->d->g, ch->d->c, ch->d->root);
        bool fits = now.fits;
        if (best->plan || round > 0 || fits)
            zi_trial_keep_better(best, &now);
        else
            *best = now;
        if (fits || st < 0) return st;
        ZI_TRY(choose_on_curve(ch, budget_bytes, &any));
        if (!any) return ZICO_OK;
    }
    return ZICO_OK;
}

static zico_status
chooser_run(chooser *ch, uint64_t budget_bytes, zi_trial *ret_trial)
{
    zi_draft *d = ch->d;
    zi_trial  best = {0};

    ZI_TRY(zi_curve_new(d->g->n_nodes, &ch->curve));
    ch->n_dependents = zi_calloc(d->g->n_tensors + 1u, sizeof *ch->n_dependents);
    if (!ch->n_dependents) return ZICO_E_NOMEM;
    ZI_TRY(find_candidates(ch, budget_bytes));
    if (ch->opt->at_once) choose_everything(ch);
    zico_status st = choose_until_it_fits(ch, budget_bytes, &best);
    if (st < 0) {
        zi_plan_free(best.plan);
        return st;
    }
    *ret_trial = best;
    return ZICO_OK;
}

zico_status
zi_capuchin_choose(zi_draft *d, const zi_capuchin_options *opt, uint64_t budget_bytes,
                   zi_trial *ret_trial)
{
    chooser ch = {.d = d, .opt = opt};

    if (!opt->go_on) {
        zi_draft_reset(d);
        d->collect_ns = d->start_ns[d->g->n_nodes] / COLLECT_PART;
    }
    d->early_out = true;
    d->on_demand = false;
    zico_status st = chooser_run(&ch, budget_bytes, ret_trial);
    zi_vec_free(&ch.all);
    zi_vec_free(&ch.by_free);
    zi_vec_free(&ch.by_msps);
    zi_vec_free(&ch.outs);
    zi_vec_free(&ch.ins);
    zi_free(ch.n_dependents);
    zi_curve_free(&ch.curve);
    return st;
}

/* -- refining ------------------------------------------------------------------------------------ */

/* Another fate for one tensor, if the plan gets better by it. */
static zico_status
try_fate(zi_draft *d, zi_tensor_id t, zi_fate other, const char *planner,
         uint64_t budget_bytes, zi_trial *best, bool *ret_better)
{
    zi_fate  was = d->fate[t];
    zi_trial now = {0};

    d->fate[t] = other;
    zico_status st = zi_draft_try(d, planner, budget_bytes, &now);
    *ret_better = st >= 0 && zi_trial_keep_better(best, &now);
    if (!*ret_better) d->fate[t] = was;
    return st == ZICO_E_LIMIT ? ZICO_OK : st;
}

/* Let it stay; if that is too much, let it go the other way. */
static zico_status
try_without(zi_draft *d, zi_tensor_id t, const char *planner, uint64_t budget_bytes,
            zi_trial *best)
{
    zi_fate other = d->fate[t];
    bool    better, was_swap = other.kind == ZI_FATE_SWAP;

    ZI_TRY(try_fate(d, t, (zi_fate){.kind = ZI_FATE_KEEP, .in_at = ZI_ID_NONE}, planner,
                    budget_bytes, best, &better));
    if (better || other.group || other.barrier) return ZICO_OK;
    if (was_swap ? !zi_draft_may_redo(d, t) : !zi_draft_has_tier(d)) return ZICO_OK;
    other.kind = was_swap ? ZI_FATE_REDO : ZI_FATE_SWAP;
    return try_fate(d, t, other, planner, budget_bytes, best, &better);
}

static double
price(zi_draft *d, zi_tensor_id t)
{
    zi_redo_cost cost;
    zi_gap       gap = zi_draft_longest_gap(d, t);
    if (d->fate[t].kind == ZI_FATE_SWAP)
        return (double)(zi_draft_in_ns(d, t) + zi_draft_out_ns(d, t));
    if (!zi_draft_redo_cost(d, t, gap.to, CHAIN_MAX, NULL, &cost)) return 0;
    return (double)cost.ns;
}

zico_status
zi_capuchin_refine(zi_draft *d, const char *planner, uint64_t budget_bytes,
                   uint32_t n_tries, zi_trial *best)
{
    ZI_VEC(rank) order = {0};
    zico_status st = ZICO_OK;

    for (zi_tensor_id t = 0; t < d->g->n_tensors && st >= 0; t++)
        if (d->fate[t].kind != ZI_FATE_KEEP)
            st = zi_vec_push(&order, (rank){price(d, t), t});
    if (order.n) qsort(order.at, order.n, sizeof(rank), by_key);
    for (size_t i = 0; i < order.n && i < n_tries && st >= 0; i++)
        st = try_without(d, order.at[i].id, planner, budget_bytes, best);
    zi_vec_free(&order);
    return st;
}

/* -- feedback ------------------------------------------------------------------------------------ */

void
zi_capuchin_feedback(const zi_graph *g, const zi_cost *c, const uint64_t *stall_ns,
                     uint64_t *lead_ns)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        if (!stall_ns[t] || !(c->in_bytes_per_s > 0)) continue;
        double takes = (double)c->copy_latency_ns +
                       (double)c->tensor_bytes[t] / c->in_bytes_per_s * 1e9;
        lead_ns[t] += 1 + (uint64_t)(0.05 * takes);
    }
}

zico_status
zi_capuchin_stalls(const zi_plan *p, const zi_graph *g, const zi_cost *c,
                   uint64_t *ret_stall_ns)
{
    uint64_t   *end = zi_calloc(p->n_acts + 1u, sizeof *end);
    bool       *coming = zi_calloc(g->n_tensors + 1u, sizeof *coming);
    zi_forecast f;
    zico_status st = ZICO_E_NOMEM;

    if (end && coming) st = zi_plan_simulate(p, g, c, end, &f);
    if (st >= 0) memset(ret_stall_ns, 0, g->n_tensors * sizeof *ret_stall_ns);
    for (uint32_t i = 0; i < p->n_acts && st >= 0; i++) {
        const zi_act *a = &p->acts[i];
        if (a->kind == ZI_ACT_IN) coming[a->what] = true;
        if (a->kind != ZI_ACT_WAIT || !coming[a->what]) continue;
        coming[a->what] = false;
        ret_stall_ns[a->what] += end[i] - (i ? end[i - 1] : 0);
    }
    zi_free(end);
    zi_free(coming);
    return st;
}

/* -- the planner ----------------------------------------------------------------------------------- */

/* Lead times as the simulator's stalls teach them, for as long as that helps. */
static zico_status
learn_leads(zi_draft *d, uint64_t budget_bytes, zi_trial *best)
{
    uint32_t    n = d->g->n_tensors;
    uint64_t   *stall = zi_calloc(n + 1u, sizeof *stall);
    uint64_t   *lead = zi_calloc(n + 1u, sizeof *lead);
    zico_status st = stall && lead ? ZICO_OK : ZICO_E_NOMEM;

    for (int round = 0; round < 4 && st >= 0 && best->forecast.stall_ns > 0; round++) {
        zi_trial now = {0};
        st = zi_capuchin_stalls(best->plan, d->g, d->c, stall);
        if (st < 0) break;
        zi_capuchin_feedback(d->g, d->c, stall, lead);
        for (zi_tensor_id t = 0; t < n; t++) d->fate[t].lead_ns += lead[t];
        st = zi_draft_try(d, "capuchin", budget_bytes, &now);
        if (st < 0 || zi_trial_keep_better(best, &now)) continue;
        for (zi_tensor_id t = 0; t < n; t++) d->fate[t].lead_ns -= lead[t];
        break;
    }
    zi_free(stall);
    zi_free(lead);
    return st;
}

/* How many plans may be looked at, so that planning stays within a second or so. */
static uint32_t
effort(const zi_plan_task *task)
{
    if (task->step_limit) return (uint32_t)task->step_limit;
    uint32_t n = 80000 / (task->graph->n_nodes + 1u);
    return n < 4 ? 4 : n > 120 ? 120 : n;
}

/* A way to choose, and what came of it. */
typedef struct attempt {
    zi_trial trial;
    zi_fate *fate; /* of all tensors */
    uint64_t collect_ns;
} attempt;

typedef struct attempts {
    attempt best[2]; /* better one first */
} attempts;

static void
attempts_free(attempts *a)
{
    for (int i = 0; i < 2; i++) {
        zi_plan_free(a->best[i].trial.plan);
        zi_free(a->best[i].fate);
    }
}

/* Remember the draft as it is, with its trial, if it is among the two best.  The trial is ours. */
static zico_status
remember(attempts *a, const zi_draft *d, zi_trial *now)
{
    size_t  n = d->g->n_tensors;
    attempt x = {.trial = *now,
                 .fate = zi_malloc((n + 1) * sizeof *x.fate),
                 .collect_ns = d->collect_ns};
    if (!x.fate) {
        zi_plan_free(now->plan);
        return ZICO_E_NOMEM;
    }
    memcpy(x.fate, d->fate, n * sizeof *x.fate);
    for (int i = 0; i < 2; i++) {
        if (a->best[i].trial.plan && !zi_trial_is_better(&x.trial, &a->best[i].trial))
            continue;
        attempt out = a->best[i];
        a->best[i] = x;
        x = out;
    }
    zi_plan_free(x.trial.plan);
    zi_free(x.fate);
    return ZICO_OK;
}

typedef struct ways {
    zi_draft           *d;
    const zi_plan_task *task;
    const uint64_t     *lead_ns;
    attempts            found;
} ways;

static zico_status
choose_and_remember(ways *w, bool swap, bool redo, double weight, bool go_on)
{
    zi_trial            now = {0};
    zi_capuchin_options opt = {.planner = "capuchin",
                               .swap = swap,
                               .redo = redo,
                               .go_on = go_on,
                               .swap_weight = weight,
                               .lead_ns = w->lead_ns};
    if (swap && !redo && !zi_draft_has_tier(w->d)) return ZICO_OK;
    zico_status st = zi_capuchin_choose(w->d, &opt, w->task->budget_bytes, &now);
    if (st == ZICO_E_LIMIT) return ZICO_OK;
    return st < 0 ? st : remember(&w->found, w->d, &now);
}

/* All that is cheap runs again, whatever else. */
static zico_status
begin_with_cheap(ways *w)
{
    zi_trial            now = {0};
    zi_capuchin_options cheap = {.planner = "capuchin",
                                 .redo = true,
                                 .cheap_only = true,
                                 .at_once = true};
    ZI_TRY(zi_capuchin_choose(w->d, &cheap, 0, &now));
    zi_plan_free(now.plan);
    return choose_and_remember(w, true, true, 1, true);
}

/* Collective recomputation at its largest: whole segments come back at once, and their borders
 * may go out. */
static zico_status
begin_with_segments(ways *w)
{
    zi_draft   *d = w->d;
    uint32_t    n_nodes = d->g->n_nodes;
    zi_node_id *eligible = zi_calloc(n_nodes + 1u, sizeof *eligible);
    zi_node_id *cut = zi_calloc(n_nodes + 1u, sizeof *cut);
    uint64_t    kept = 0, whole = 0;
    size_t      n = 0;
    zico_status st = eligible && cut ? ZICO_OK : ZICO_E_NOMEM;

    for (uint32_t crossing = 2; st >= 0 && n < 4 && crossing < 64; crossing *= 2)
        st = zi_monger_eligible(d, crossing, eligible, &n);
    if (st >= 0) (void)zi_monger_greedy(d, eligible, n, UINT64_MAX, cut, &kept, &whole);
    for (uint64_t parts = 3; st >= 0 && parts <= 24; parts *= 2) {
        size_t n_cuts =
            zi_monger_greedy(d, eligible, n, whole / parts, cut, &kept, &kept);
        zi_monger_cut(d, cut, n_cuts);
        st = choose_and_remember(w, true, true, 1, true);
    }
    zi_free(eligible);
    zi_free(cut);
    return st;
}

static zico_status
polish(ways *w, attempt *x, zi_trial *best)
{
    zi_draft *d = w->d;

    memcpy(d->fate, x->fate, d->g->n_tensors * sizeof *d->fate);
    d->collect_ns = x->collect_ns;
    d->early_out = true;
    d->on_demand = false;
    zi_trial now = x->trial;
    x->trial = (zi_trial){0};
    zico_status st = ZICO_OK;
    if (now.fits)
        st = zi_capuchin_refine(d, "capuchin", w->task->budget_bytes, effort(w->task),
                                &now);
    if (st >= 0 && now.fits) st = learn_leads(d, w->task->budget_bytes, &now);
    if (st < 0) {
        zi_plan_free(now.plan);
        return st;
    }
    zi_trial_keep_better(best, &now);
    return ZICO_OK;
}

/* swap first, then hybrid; more wary of swaps; swaps only; no swaps; then what begins with
 * recomputation.  The two best are polished. */
static zico_status
plan_all_ways(zi_draft *d, const zi_plan_task *task, const uint64_t *lead_ns,
              zi_trial *best)
{
    ways        w = {.d = d, .task = task, .lead_ns = lead_ns};
    uint64_t    alone_ns = d->start_ns[d->g->n_nodes];
    zico_status st = choose_and_remember(&w, true, true, 1, false);
    attempt    *first = &w.found.best[0];
    bool        as_fast = first->trial.fits && first->trial.forecast.step_ns <= alone_ns;

    if (!as_fast) { /* as fast as computation alone: nothing can be better */
        if (st >= 0) st = choose_and_remember(&w, true, true, 4, false);
        if (st >= 0) st = choose_and_remember(&w, true, false, 1, false);
        if (st >= 0) st = choose_and_remember(&w, false, true, 1, false);
        if (st >= 0) st = begin_with_cheap(&w);
        if (st >= 0) st = begin_with_segments(&w);
    }
    for (int i = 0; i < 2 && st >= 0; i++)
        if (w.found.best[i].trial.plan) st = polish(&w, &w.found.best[i], best);
    attempts_free(&w.found);
    return st;
}

static void
swap_everything(zi_draft *d)
{
    zi_draft_reset(d);
    d->early_out = false;
    d->on_demand = true;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (!zi_draft_may_leave(d, t) || zi_draft_longest_gap(d, t).from == ZI_ID_NONE)
            continue;
        zi_draft_swap(d, t);
        d->fate[t].barrier = true;
        d->fate[t].gap_ns = 1; /* in every gap, not only in the longest */
    }
}

/* Look at the draft as it is, and take back as much as the budget allows. */
static zico_status
try_and_refine(zi_draft *d, const zi_plan_task *task, zi_trial *best)
{
    zi_trial now = {0};

    ZI_TRY(zi_draft_try(d, "capuchin", task->budget_bytes, &now));
    zico_status st = now.fits ? zi_capuchin_refine(d, "capuchin", task->budget_bytes,
                                                   effort(task), &now)
                              : ZICO_OK;
    if (st < 0) {
        zi_plan_free(now.plan);
        return st;
    }
    zi_trial_keep_better(best, &now);
    return ZICO_OK;
}

/* The last resort, as the paper's passive mode: whatever can leave goes out at once, and comes
 * back when it is touched, or one layer ahead, whichever is faster. */
static zico_status
plan_on_demand(zi_draft *d, const zi_plan_task *task, zi_trial *best)
{
    if (!zi_draft_has_tier(d)) return ZICO_OK;
    ZI_TRY(zi_vdnn_apply(d, ZI_VDNN_ALL));
    ZI_TRY(try_and_refine(d, task, best));
    swap_everything(d);
    return try_and_refine(d, task, best);
}

zico_status
zi_capuchin_plan(const zi_plan_task *task, const uint64_t *lead_ns, zi_plan **ret_plan,
                 uint64_t *ret_least)
{
    zi_draft *d;
    zi_trial  best = {0};

    ZI_TRY(zi_draft_new(task->graph, task->cost, &d));
    zico_status st = zi_draft_try(d, "capuchin", task->budget_bytes, &best);
    if (st >= 0 && !best.fits) st = plan_all_ways(d, task, lead_ns, &best);
    if (st >= 0 && !best.fits) st = plan_on_demand(d, task, &best);
    if (st >= 0)
        st = zi_trial_finish(&best, ret_plan, ret_least);
    else
        zi_plan_free(best.plan);
    zi_draft_free(d);
    return st;
}

static zico_status
solve(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    return zi_capuchin_plan(task, task->lead_ns, ret_plan, ret_least);
}

const zi_planner_ops zi_planner_capuchin = {
    .name = "capuchin",
    .paper = "Peng et al., ASPLOS 2020",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_REDO | 1u << ZI_ACT_DROP | 1u << ZI_ACT_OUT |
             1u << ZI_ACT_IN | 1u << ZI_ACT_WAIT,
    .by_rules = true,
    .solve = solve,
};

/* monger.c -- keep the borders of segments, make the rest again.
 *
 * PAPER    T. Chen, B. Xu, C. Zhang, C. Guestrin. Training Deep Nets with Sublinear Memory
 *          Cost. arXiv:1604.06174, 2016.  (The tool is called Memory Monger.)
 * CLAIM    A chain of n equal layers trains in O(sqrt n) memory for one more forward pass.
 * WE DO    Any graph: a cut lies between two forward nodes, and what crosses it is kept.
 *          Cuts are sought where few tensors cross (one in a chain, two in a residual block,
 *          the states in an unrolled network), or anywhere.  sqrt(n) segments; the greedy by
 *          bytes with the search of the published tool: three rounds of threshold = sqrt(kept
 *          x largest segment / 2), then an even grid.  Of all plans, the fastest that fits.
 *          Where none does, the recursive variant: borders are lost as well, and on the way
 *          back the middle is kept, the middle of the second half, ... (O(log n) memory,
 *          O(n log n) time).
 * WE DROP  Marks by hand.
 * CHECKED  monger_test.c: costs and peaks published for VGG19 and for chains of unit cost, the
 *          O(sqrt n) and the O(log n) bound; planner_test.c.
 * COST     O(plans x nodes); at most some 60 plans.
 */
#include "planner/monger.h"
#include "planner/planners.h"

#include <math.h>

#include "base/alloc.h"
#include "base/try.h"

#define GRID       10
#define PLANS_COST 600000 /* nodes x plans that may be looked at */

static zi_node_id
first_backward(const zi_graph *g)
{
    zi_node_id n = 0;
    while (n < g->n_nodes && g->nodes[n].phase == ZI_PHASE_FORWARD) n++;
    return n;
}

/* Last forward node that uses the root; its producer if none reads it. */
static zi_node_id
last_forward_use(const zi_draft *d, zi_tensor_id t, zi_node_id backward)
{
    zi_node_id last = d->uses[d->use_first[t]];
    for (uint32_t i = d->use_first[t]; i < d->use_first[t + 1]; i++)
        if (d->uses[i] < backward) last = d->uses[i];
    return last;
}

static bool
is_made_forward(const zi_draft *d, zi_tensor_id t, zi_node_id backward)
{
    return d->root[t] == t && d->use_first[t + 1] > d->use_first[t] &&
           d->uses[d->use_first[t]] < backward &&
           d->g->tensors[t].producer == d->uses[d->use_first[t]];
}

zico_status
zi_monger_eligible(const zi_draft *d, uint32_t n_crossing, zi_node_id *ret_node,
                   size_t *ret_n)
{
    zi_node_id backward = first_backward(d->g);
    int64_t   *delta = zi_calloc(backward + 2u, sizeof *delta);
    int64_t    now = 0;
    size_t     n = 0;

    if (!delta) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (!is_made_forward(d, t, backward)) continue;
        delta[d->uses[d->use_first[t]]]++; /* crosses the gaps after its producer ... */
        delta[last_forward_use(d, t, backward)]--; /* ... up to its last reader */
    }
    for (zi_node_id i = 0; i < backward; i++) {
        now += delta[i];
        if (now <= (int64_t)n_crossing) ret_node[n++] = i;
    }
    zi_free(delta);
    *ret_n = n;
    return ZICO_OK;
}

size_t
zi_monger_sqrt(const zi_node_id *eligible, size_t n, zi_node_id *ret_cut)
{
    size_t k = (size_t)sqrt((double)n), n_cuts = 0;
    for (size_t i = k; k > 0 && i <= n; i += k) ret_cut[n_cuts++] = eligible[i - 1];
    return n_cuts;
}

/* Which segment a node lies in: the number of cuts before it. */
static uint32_t
segment_of(const zi_node_id *cut, size_t n_cuts, zi_node_id n)
{
    size_t lo = 0, hi = n_cuts;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cut[mid] < n)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

void
zi_monger_cut(zi_draft *d, const zi_node_id *cut, size_t n_cuts)
{
    zi_node_id backward = first_backward(d->g);

    zi_draft_reset(d);
    d->collect_ns = 0;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (!is_made_forward(d, t, backward)) continue;
        uint32_t own = segment_of(cut, n_cuts, d->uses[d->use_first[t]]);
        if (own >= n_cuts) continue; /* behind the last cut */
        if (segment_of(cut, n_cuts, last_forward_use(d, t, backward)) > own) {
            d->fate[t].hold = true; /* a border: redos of its segment start here */
        } else {
            zi_draft_leave_in(d, t, ZI_FATE_REDO, zi_draft_turn_gap(d, t));
            d->fate[t].group = own + 1;
        }
    }
}

void
zi_monger_halve(zi_draft *d, const zi_node_id *cut, size_t n_cuts, uint32_t *ret_border)
{
    zi_monger_cut(d, cut, n_cuts);
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        ret_border[t] = 0;
        if (!d->fate[t].hold) continue;
        ret_border[t] = 1 + segment_of(cut, n_cuts, d->uses[d->use_first[t]]);
        d->fate[t].hold = false;
        zi_draft_leave_in(d, t, ZI_FATE_REDO, zi_draft_turn_gap(d, t));
    }
    d->border = ret_border;
}

size_t
zi_monger_greedy(const zi_draft *d, const zi_node_id *eligible, size_t n,
                 uint64_t threshold_bytes, zi_node_id *ret_cut, uint64_t *ret_kept_bytes,
                 uint64_t *ret_largest_bytes)
{
    zi_node_id backward = first_backward(d->g);
    uint64_t   sum = 0, kept = 0, largest = 0;
    size_t     n_cuts = 0, at = 0;

    for (zi_node_id i = 0; i < backward; i++) {
        const zi_node *x = &d->g->nodes[i];
        uint64_t       made = 0;
        for (uint32_t o = 0; o < x->n_out; o++)
            if (x->out[o] != ZI_ID_NONE && d->root[x->out[o]] == x->out[o])
                made += d->c->tensor_bytes[x->out[o]];
        sum += made;
        while (at < n && eligible[at] < i) at++;
        if (at == n || eligible[at] != i || sum <= threshold_bytes) continue;
        ret_cut[n_cuts++] = i;
        kept += made;
        if (sum > largest) largest = sum;
        sum = 0;
    }
    if (sum > largest) largest = sum;
    *ret_kept_bytes = kept;
    *ret_largest_bytes = largest;
    return n_cuts;
}

/* -- the search --------------------------------------------------------------------------------- */

typedef struct search {
    zi_draft   *d;
    uint64_t    budget_bytes;
    zi_node_id *eligible, *cut;
    size_t      n_eligible;
    uint32_t   *border; /* [n_tensors] */
    int         plans_left;
    zi_trial    best;
} search;

static zico_status
look_at(search *s, size_t n_cuts)
{
    zi_trial now = {0};
    if (s->plans_left-- <= 0) return ZICO_OK;
    zi_monger_cut(s->d, s->cut, n_cuts);
    ZI_TRY(zi_draft_try(s->d, "monger", s->budget_bytes, &now));
    zi_trial_keep_better(&s->best, &now);
    return ZICO_OK;
}

static zico_status
look_at_threshold(search *s, uint64_t threshold, uint64_t *ret_kept,
                  uint64_t *ret_largest)
{
    return look_at(s, zi_monger_greedy(s->d, s->eligible, s->n_eligible, threshold,
                                       s->cut, ret_kept, ret_largest));
}

static zico_status
search_cuts(search *s)
{
    uint64_t kept = 0, largest = 0, smallest = UINT64_MAX, threshold = 0;

    if (s->n_eligible == 0) return ZICO_OK;
    ZI_TRY(look_at(s, zi_monger_sqrt(s->eligible, s->n_eligible, s->cut)));
    for (int round = 0; round < 3; round++) {
        ZI_TRY(look_at_threshold(s, threshold, &kept, &largest));
        if (largest < smallest) smallest = largest;
        threshold = (uint64_t)sqrt((double)kept * (double)largest / 2);
    }
    double lo = (double)smallest, hi = sqrt(2.0) * (double)threshold;
    for (int i = 0; i < GRID; i++) {
        double b = lo + (hi - lo) * i / (GRID - 1);
        ZI_TRY(look_at_threshold(s, (uint64_t)b, &kept, &largest));
    }
    for (int i = 1; i < GRID; i++) { /* beyond the tool: few, large segments are faster */
        double b = hi * pow(2.0, 0.5 * i);
        ZI_TRY(look_at_threshold(s, (uint64_t)b, &kept, &largest));
    }
    return ZICO_OK;
}

static zico_status
search_all(search *s)
{
    zi_node_id backward = first_backward(s->d->g);
    size_t     before = 0;
    for (uint32_t crossing = 1; crossing < 64; crossing *= 2) {
        ZI_TRY(zi_monger_eligible(s->d, crossing, s->eligible, &s->n_eligible));
        if (s->n_eligible == before) continue;
        before = s->n_eligible;
        ZI_TRY(search_cuts(s));
        if (s->n_eligible == backward) break;
    }
    return ZICO_OK;
}

/* Nothing fits: borders are lost, too.  Many small segments, then fewer. */
static zico_status
search_halves(search *s)
{
    zi_node_id backward = first_backward(s->d->g);
    uint64_t   kept = 0, largest = 0;

    ZI_TRY(zi_monger_eligible(s->d, 2, s->eligible, &s->n_eligible));
    if (s->n_eligible < 2)
        ZI_TRY(zi_monger_eligible(s->d, backward, s->eligible, &s->n_eligible));
    (void)zi_monger_greedy(s->d, s->eligible, s->n_eligible, UINT64_MAX, s->cut, &kept,
                           &largest);
    for (uint64_t parts = 128; parts >= 4; parts /= 2) {
        zi_trial now = {0};
        uint64_t whole = 0;
        size_t   n_cuts = zi_monger_greedy(s->d, s->eligible, s->n_eligible,
                                           largest / parts, s->cut, &kept, &whole);
        zi_monger_halve(s->d, s->cut, n_cuts, s->border);
        zico_status st = zi_draft_try(s->d, "monger", s->budget_bytes, &now);
        if (st == ZICO_E_LIMIT) continue; /* too often again: fewer segments */
        if (st < 0) return st;
        zi_trial_keep_better(&s->best, &now);
    }
    return ZICO_OK;
}

static zico_status
solve(const zi_plan_task *task, zi_plan **ret_plan, uint64_t *ret_least)
{
    search      s = {.budget_bytes = task->budget_bytes};
    uint32_t    n = task->graph->n_nodes;
    zico_status st = ZICO_E_NOMEM;

    s.plans_left =
        task->step_limit ? (int)task->step_limit : 12 + (int)(PLANS_COST / (n + 1));
    if (s.plans_left > 100) s.plans_left = 100;
    ZI_TRY(zi_draft_new(task->graph, task->cost, &s.d));
    s.eligible = zi_calloc(n + 1u, sizeof *s.eligible);
    s.cut = zi_calloc(n + 1u, sizeof *s.cut);
    s.border = zi_calloc(task->graph->n_tensors + 1u, sizeof *s.border);
    if (s.eligible && s.cut && s.border) {
        st = zi_draft_try(s.d, "monger", task->budget_bytes, &s.best);
        if (st >= 0 && !s.best.fits) st = search_all(&s);
        if (st >= 0 && !s.best.fits) st = search_halves(&s);
        if (st >= 0)
            st = zi_trial_finish(&s.best, ret_plan, ret_least);
        else
            zi_plan_free(s.best.plan);
    }
    zi_free(s.eligible);
    zi_free(s.cut);
    zi_free(s.border);
    zi_draft_free(s.d);
    return st;
}

const zi_planner_ops zi_planner_monger = {
    .name = "monger",
    .paper = "Chen et al., arXiv:1604.06174, 2016",
    .emits = 1u << ZI_ACT_RUN | 1u << ZI_ACT_REDO | 1u << ZI_ACT_DROP,
    .solve = solve,
};

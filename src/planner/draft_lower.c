/* draft_lower.c -- from the order of nodes to a plan: drops, in-place, and copies in time.
 *
 * LIVENESS  One look back over the items says where each root is read for the last time before
 *           it is made again or never: there it dies.  Where the next thing is an IN, it goes
 *           on a *trip* to the tier instead.
 * TRIPS     A copy in begins as late as the queue of copies allows and not before there is
 *           room for what it brings (the curve of bytes over items).  A copy out begins when
 *           the tensor leaves, or already when it is made (early_out); its bytes are dropped
 *           as soon as the clock says that the copy is over, or earlier, with a stall, when
 *           the next node needs the room.
 * CLOCK     The first round takes computation alone for the time; the second the clock of the
 *           first, stalls included.
 */
#include "planner/draft_items.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "plan/fixed.h"

#define NOWHERE UINT32_MAX
#define ROUNDS  2

typedef struct trip {
    zi_tensor_id root;
    uint32_t     made, leave, need; /* items: made, last read before, IN */
    uint32_t     begin_in;          /* item before which the copy in begins */
    uint32_t     next_in;           /* trip with the same begin_in */
} trip;

typedef struct death {
    uint32_t     item;
    zi_tensor_id root;
    uint32_t     trip; /* NOWHERE: just dropped */
} death;

typedef struct sent {
    uint32_t trip;
    uint64_t over_ns; /* when the copy out is over */
} sent;

typedef struct lowering {
    zi_draft       *d;
    const zi_graph *g;
    const zi_cost  *c;
    uint64_t        budget_bytes;
    zi_items        items;
    uint8_t        *over;        /* per item */
    uint32_t       *death_first; /* per item [n+1] */
    ZI_VEC(death) deaths;        /* ascending by item */
    ZI_VEC(trip) trips;          /* ascending by need */
    uint32_t *trip_made; /* per root: the trip that its present instance will make */
    uint32_t *in_head;   /* per item: first trip to begin there */
    uint64_t *at_ns;     /* per item [n+1] */
    uint64_t *room;      /* per item: bytes held while it runs */

    /* while the plan is written */
    zi_plan *plan;
    ZI_VEC(sent) pending;                    /* left, not yet dropped; oldest first */
    ZI_VEC(uint32_t) late;                   /* trips whose copy in had no room yet */
    bool     *here, *coming, *saved, *going; /* per root */
    uint64_t *arrive_ns, *gone_ns;           /* per root */
    uint64_t  now_bytes, clock_ns, out_ns, in_ns;
} lowering;

static zi_tensor_id
moving_root(const lowering *l, zi_tensor_id t)
{
    if (t == ZI_ID_NONE) return ZI_ID_NONE;
    zi_tensor_id r = l->d->root[t];
    return l->d->fixed[r] ? ZI_ID_NONE : r;
}

/* What an item makes: outputs that own bytes. */
static zi_tensor_id
made_root(const lowering *l, const zi_node *n, uint32_t o)
{
    zi_tensor_id t = n->out[o];
    return t != ZI_ID_NONE && l->d->root[t] == t ? t : ZI_ID_NONE;
}

/* -- liveness ------------------------------------------------------------------------------ */

typedef struct look_back {
    bool     *needed; /* per root */
    uint32_t *in_at;  /* per root: the IN that comes next; NOWHERE: none */
    uint32_t *away;   /* per root: the trip that the instance looked at ends with */
} look_back;

static zico_status
die(lowering *l, look_back *b, zi_tensor_id r, uint32_t item)
{
    uint32_t id = NOWHERE;
    if (b->in_at[r] != NOWHERE) {
        id = (uint32_t)l->trips.n;
        ZI_TRY(zi_vec_push(&l->trips, (trip){.root = r,
                                             .made = NOWHERE,
                                             .leave = item,
                                             .need = b->in_at[r],
                                             .next_in = NOWHERE}));
        b->in_at[r] = NOWHERE;
    }
    b->away[r] = id;
    return zi_vec_push(&l->deaths, (death){item, r, id});
}

static zico_status
look_at_item(lowering *l, look_back *b, uint32_t i)
{
    zi_item *it = &l->items.at[i];
    if (it->kind == ZI_ACT_IN) {
        if (!b->needed[it->what]) { /* a node that runs again makes it, too */
            it->what = ZI_ID_NONE;
            return ZICO_OK;
        }
        b->needed[it->what] = false;
        b->in_at[it->what] = i;
        return ZICO_OK;
    }
    const zi_node *n = &l->g->nodes[it->what];
    for (uint32_t o = 0; o < n->n_out; o++) {
        zi_tensor_id r = made_root(l, n, o);
        if (r == ZI_ID_NONE) continue;
        if (!b->needed[r]) ZI_TRY(die(l, b, r, i));
        if (b->away[r] != NOWHERE) l->trips.at[b->away[r]].made = i;
        b->needed[r] = false;
        b->away[r] = NOWHERE;
    }
    for (uint32_t k = 0; k < n->n_in; k++) {
        zi_tensor_id r = moving_root(l, n->in[k]);
        if (r == ZI_ID_NONE || b->needed[r]) continue;
        ZI_TRY(die(l, b, r, i));
        b->needed[r] = true;
    }
    return ZICO_OK;
}

/* Looking back, deaths and trips come out last first: turn them round. */
static void
turn_round(lowering *l)
{
    size_t n = l->trips.n, m = l->deaths.n;
    for (size_t i = 0; i < m / 2; i++) {
        death x = l->deaths.at[i];
        l->deaths.at[i] = l->deaths.at[m - 1 - i];
        l->deaths.at[m - 1 - i] = x;
    }
    for (size_t i = 0; i < n / 2; i++) {
        trip x = l->trips.at[i];
        l->trips.at[i] = l->trips.at[n - 1 - i];
        l->trips.at[n - 1 - i] = x;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i <= l->items.n; i++) {
        while (at < m && l->deaths.at[at].item < i) at++;
        l->death_first[i] = at;
    }
    for (size_t i = 0; i < m; i++)
        if (l->deaths.at[i].trip != NOWHERE)
            l->deaths.at[i].trip = (uint32_t)n - 1 - l->deaths.at[i].trip;
}

static zico_status
find_deaths(lowering *l)
{
    uint32_t    n = l->g->n_tensors;
    look_back   b = {.needed = zi_calloc(n + 1u, sizeof *b.needed),
                     .in_at = zi_calloc(n + 1u, sizeof *b.in_at),
                     .away = zi_calloc(n + 1u, sizeof *b.away)};
    zico_status st = b.needed && b.in_at && b.away ? ZICO_OK : ZICO_E_NOMEM;

    for (zi_tensor_id t = 0; t < n && st >= 0; t++) {
        b.needed[t] = l->d->lives_on[t];
        b.in_at[t] = b.away[t] = NOWHERE;
    }
    for (size_t i = l->items.n; i-- > 0 && st >= 0;)
        st = look_at_item(l, &b, (uint32_t)i);
    if (st >= 0) turn_round(l);
    zi_free(b.needed);
    zi_free(b.in_at);
    zi_free(b.away);
    return st;
}

/* -- in place ------------------------------------------------------------------------------ */

static bool
dies_plainly(const lowering *l, uint32_t item, zi_tensor_id r)
{
    for (uint32_t k = l->death_first[item]; k < l->death_first[item + 1]; k++)
        if (l->deaths.at[k].root == r) return l->deaths.at[k].trip == NOWHERE;
    return false;
}

static uint8_t
choose_over(const lowering *l, uint32_t item)
{
    zi_node_id        id = l->items.at[item].what;
    const zi_node    *n = &l->g->nodes[id];
    const zi_op_info *op = zi_op_get(n->op);
    uint8_t           bits = 0;
    zi_tensor_id      from = ZI_ID_NONE, to = ZI_ID_NONE; /* of pair 0, when taken */

    for (int pair = 0; pair < 2; pair++) {
        int o = op->over[pair][0], i = op->over[pair][1];
        if (o < 0 || (uint32_t)o >= n->n_out || (uint32_t)i >= n->n_in) continue;
        zi_tensor_id out = made_root(l, n, (uint32_t)o), in = n->in[i];
        if (out == ZI_ID_NONE || in == ZI_ID_NONE || in == from || out == to) continue;
        if (moving_root(l, in) != in || !dies_plainly(l, item, in)) continue;
        if (l->c->tensor_bytes[out] != l->c->tensor_bytes[in]) continue;
        if (!zi_graph_may_overwrite(l->g, id, (uint32_t)o, (uint32_t)i)) continue;
        bits |= (uint8_t)(1u << pair);
        from = in;
        to = out;
    }
    return bits;
}

static bool
is_overwritten(const lowering *l, uint32_t item, zi_tensor_id r)
{
    const zi_node    *n = &l->g->nodes[l->items.at[item].what];
    const zi_op_info *op = zi_op_get(n->op);
    for (int pair = 0; pair < 2; pair++)
        if ((l->over[item] >> pair & 1) && n->in[op->over[pair][1]] == r) return true;
    return false;
}

static bool
takes_place(const lowering *l, uint32_t item, zi_tensor_id r)
{
    const zi_node    *n = &l->g->nodes[l->items.at[item].what];
    const zi_op_info *op = zi_op_get(n->op);
    for (int pair = 0; pair < 2; pair++)
        if ((l->over[item] >> pair & 1) && n->out[op->over[pair][0]] == r) return true;
    return false;
}

/* Bytes that the item adds while it runs, given what is here (NULL: nothing it makes is). */
static uint64_t
item_bytes(const lowering *l, uint32_t item, const bool *here)
{
    const zi_node *n = &l->g->nodes[l->items.at[item].what];
    uint64_t       sum = l->c->scratch_bytes[l->items.at[item].what];
    for (uint32_t o = 0; o < n->n_out; o++) {
        zi_tensor_id r = made_root(l, n, o);
        if (r != ZI_ID_NONE && !(here && here[r]) && !takes_place(l, item, r))
            sum += l->c->tensor_bytes[r];
    }
    return sum;
}

/* -- room and time ------------------------------------------------------------------------- */

static void
find_room(lowering *l)
{
    uint64_t now = zi_cost_fixed_bytes(l->g, l->c);
    for (uint32_t i = 0; i < l->items.n; i++) {
        const zi_item *it = &l->items.at[i];
        if (it->kind == ZI_ACT_IN) {
            if (it->what != ZI_ID_NONE) now += l->c->tensor_bytes[it->what];
            l->room[i] = now;
            continue;
        }
        uint64_t more = item_bytes(l, i, NULL);
        l->room[i] = now + more;
        now += more - l->c->scratch_bytes[it->what];
        for (uint32_t k = l->death_first[i]; k < l->death_first[i + 1]; k++)
            if (!is_overwritten(l, i, l->deaths.at[k].root))
                now -= l->c->tensor_bytes[l->deaths.at[k].root];
    }
}

static void
time_of_computation(lowering *l)
{
    uint64_t t = 0;
    for (uint32_t i = 0; i < l->items.n; i++) {
        l->at_ns[i] = t;
        if (l->items.at[i].kind != ZI_ACT_IN) t += l->c->node_ns[l->items.at[i].what];
    }
    l->at_ns[l->items.n] = t;
}

/* The last item in [lo, hi] that begins at or before `ns`; lo if none does. */
static uint32_t
item_at(const lowering *l, uint32_t lo, uint32_t hi, uint64_t ns)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        if (l->at_ns[mid] <= ns)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static uint32_t
item_of_base(const lowering *l, uint32_t lo, uint32_t hi, zi_node_id base)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (l->items.at[mid].base < base)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t
less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* From the last need to the first: each copy in is over before it is needed and before the
 * next one must begin. */
static void
time_copies_in(lowering *l)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i <= l->items.n; i++) l->in_head[i] = NOWHERE;
    for (size_t k = l->trips.n; k-- > 0;) {
        trip          *t = &l->trips.at[k];
        const zi_fate *f = &l->d->fate[t->root];
        uint64_t       bytes = l->c->tensor_bytes[t->root];
        uint64_t       end = l->at_ns[t->need] < next_ns ? l->at_ns[t->need] : next_ns;
        uint64_t       start = less(end, zi_draft_in_ns(l->d, t->root) + f->lead_ns);
        uint32_t       from = item_at(l, t->leave + 1, t->need, start);

        if (f->in_at != ZI_ID_NONE)
            from = item_of_base(l, t->leave + 1, t->need, f->in_at);
        else if (l->d->on_demand)
            from = t->need;
        const uint64_t most = l->budget_bytes && f->in_at == ZI_ID_NONE
                                  ? less(l->budget_bytes, bytes)
                                  : UINT64_MAX;
        uint32_t       j = t->need;
        for (; j > from && l->room[j - 1] <= most; j--) l->room[j - 1] += bytes;
        t->begin_in = j;
        t->next_in = l->in_head[j];
        l->in_head[j] = (uint32_t)k;
        next_ns = l->at_ns[j] > start ? l->at_ns[j] : start;
    }
}

/* -- writing the plan ------------------------------------------------------------------------ */

static zico_status
act(lowering *l, zi_act_kind kind, uint32_t what)
{
    return zi_plan_add(l->plan, (zi_act){.kind = kind, .what = what});
}

static void
pass_until(lowering *l, uint64_t ns)
{
    if (ns > l->clock_ns) l->clock_ns = ns;
}

static zico_status
drop(lowering *l, zi_tensor_id r)
{
    zi_assert(l->here[r] && !l->coming[r]);
    l->here[r] = false;
    l->now_bytes -= l->c->tensor_bytes[r];
    return act(l, ZI_ACT_DROP, r);
}

/* When a copy is over that begins at `from` and is slower for as long as the other way is busy. */
static uint64_t
over_at(uint64_t from, uint64_t takes, uint64_t other_busy_ns, double beside)
{
    if (!(beside > 0 && beside < 1) || other_busy_ns <= from) return from + takes;
    double done = (double)(other_busy_ns - from) * beside;
    if (done >= (double)takes) return from + (uint64_t)((double)takes / beside);
    return other_busy_ns + takes - (uint64_t)done;
}

static zico_status
begin_out(lowering *l, zi_tensor_id r)
{
    if (l->out_ns < l->clock_ns) l->out_ns = l->clock_ns;
    l->clock_ns += l->c->copy_cpu_ns;
    l->out_ns = over_at(l->out_ns, zi_draft_out_ns(l->d, r), l->in_ns, l->c->out_beside);
    l->gone_ns[r] = l->out_ns;
    l->going[r] = true;
    return act(l, ZI_ACT_OUT, r);
}

/* The copy out is over, by then or because we wait for it here. */
static zico_status
end_out(lowering *l, zi_tensor_id r)
{
    if (!l->going[r]) return ZICO_OK;
    l->going[r] = false;
    l->saved[r] = true;
    pass_until(l, l->gone_ns[r]);
    return act(l, ZI_ACT_WAIT, r);
}

static zico_status
drop_sent(lowering *l, size_t i)
{
    zi_tensor_id r = l->trips.at[l->pending.at[i].trip].root;
    zi_vec_remove(&l->pending, i);
    ZI_TRY(end_out(l, r));
    return drop(l, r);
}

static zico_status
drop_what_is_over(lowering *l)
{
    for (size_t i = 0; i < l->pending.n;)
        if (l->pending.at[i].over_ns <= l->clock_ns)
            ZI_TRY(drop_sent(l, i));
        else
            i++;
    return ZICO_OK;
}

/* Wait for copies out, the one that is over first first, until `bytes` fit. */
static zico_status
make_room(lowering *l, uint64_t bytes)
{
    while (l->budget_bytes && l->pending.n && l->now_bytes + bytes > l->budget_bytes) {
        size_t first = 0;
        for (size_t i = 1; i < l->pending.n; i++)
            if (l->pending.at[i].over_ns < l->pending.at[first].over_ns) first = i;
        ZI_TRY(drop_sent(l, first));
    }
    return ZICO_OK;
}

/* The tensor is wanted again before its bytes were dropped: it has never been away. */
static zico_status
stay_after_all(lowering *l, zi_tensor_id r)
{
    for (size_t i = 0; i < l->pending.n; i++)
        if (l->trips.at[l->pending.at[i].trip].root == r) {
            zi_vec_remove(&l->pending, i);
            break;
        }
    return end_out(l, r);
}

/* Bring it in, if there is room or it cannot wait. */
static zico_status
try_in(lowering *l, uint32_t id, bool must, bool *ret_done)
{
    zi_tensor_id r = l->trips.at[id].root;
    uint64_t     bytes = l->c->tensor_bytes[r];

    *ret_done = true;
    if (l->coming[r]) return ZICO_OK;
    if (l->here[r]) return stay_after_all(l, r);
    ZI_TRY(make_room(l, bytes));
    if (!must && l->budget_bytes && l->now_bytes + bytes > l->budget_bytes) {
        *ret_done = false;
        return ZICO_OK;
    }
    if (l->in_ns < l->clock_ns) l->in_ns = l->clock_ns;
    l->clock_ns += l->c->copy_cpu_ns;
    l->in_ns = over_at(l->in_ns, zi_draft_in_ns(l->d, r), l->out_ns, l->c->in_beside);
    l->arrive_ns[r] = l->in_ns;
    l->here[r] = l->coming[r] = true;
    l->now_bytes += bytes;
    return act(l, ZI_ACT_IN, r);
}

static zico_status
begin_copies_in(lowering *l, uint32_t item)
{
    bool   done;
    size_t kept = 0;
    for (size_t i = 0; i < l->late.n; i++) {
        uint32_t id = l->late.at[i];
        ZI_TRY(try_in(l, id, l->trips.at[id].need <= item, &done));
        if (!done) l->late.at[kept++] = id;
    }
    l->late.n = kept;
    for (uint32_t id = l->in_head[item]; id != NOWHERE; id = l->trips.at[id].next_in) {
        ZI_TRY(try_in(l, id, l->trips.at[id].need <= item, &done));
        if (!done) ZI_TRY(zi_vec_push(&l->late, id));
    }
    return ZICO_OK;
}

static zico_status
await_inputs(lowering *l, const zi_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        zi_tensor_id r = moving_root(l, n->in[i]);
        if (r == ZI_ID_NONE || !l->coming[r]) continue;
        l->coming[r] = false;
        pass_until(l, l->arrive_ns[r]);
        ZI_TRY(act(l, ZI_ACT_WAIT, r));
    }
    return ZICO_OK;
}

/* An instance ends with this item: dropped, or sent away. */
static zico_status
end_instance(lowering *l, const death *x)
{
    zi_tensor_id r = x->root;
    if (x->trip == NOWHERE) {
        if (is_overwritten(l, x->item, r)) return ZICO_OK;
        ZI_TRY(end_out(l, r));
        return drop(l, r);
    }
    if (!l->saved[r] && !l->going[r]) ZI_TRY(begin_out(l, r));
    if (l->saved[r] || l->d->fate[r].barrier || l->gone_ns[r] <= l->clock_ns) {
        ZI_TRY(end_out(l, r));
        return drop(l, r);
    }
    return zi_vec_push(&l->pending, (sent){x->trip, l->gone_ns[r]});
}

/* Copies out that begin beside this item, not after it. */
static zico_status
begin_barriers(lowering *l, uint32_t item)
{
    for (uint32_t k = l->death_first[item]; k < l->death_first[item + 1]; k++) {
        const death *x = &l->deaths.at[k];
        if (x->trip == NOWHERE || !l->d->fate[x->root].barrier) continue;
        if (l->here[x->root] && !l->saved[x->root] && !l->going[x->root])
            ZI_TRY(begin_out(l, x->root));
    }
    return ZICO_OK;
}

static zico_status
write_node(lowering *l, uint32_t item)
{
    const zi_item *it = &l->items.at[item];
    const zi_node *n = &l->g->nodes[it->what];

    for (uint32_t o = 0; o < n->n_out; o++) { /* made again while on its way out */
        zi_tensor_id r = made_root(l, n, o);
        if (r != ZI_ID_NONE && l->here[r]) ZI_TRY(stay_after_all(l, r));
    }
    ZI_TRY(make_room(l, item_bytes(l, item, l->here)));
    ZI_TRY(await_inputs(l, n));
    ZI_TRY(begin_barriers(l, item));
    ZI_TRY(
        zi_plan_add(l->plan,
                    (zi_act){.kind = it->kind, .what = it->what, .over = l->over[item]}));
    l->clock_ns += l->c->node_ns[it->what];
    l->now_bytes += item_bytes(l, item, l->here) - l->c->scratch_bytes[it->what];
    for (uint32_t i = 0; i < n->n_in; i++) {
        zi_tensor_id r = n->in[i];
        if (r != ZI_ID_NONE && is_overwritten(l, item, r)) l->here[r] = false;
    }
    for (uint32_t o = 0; o < n->n_out; o++) {
        zi_tensor_id r = made_root(l, n, o);
        if (r == ZI_ID_NONE) continue;
        l->here[r] = true;
        uint32_t id = l->trip_made[r];
        if (l->d->early_out && id != NOWHERE && l->trips.at[id].made == item &&
            !l->saved[r] && !l->d->fate[r].barrier)
            ZI_TRY(begin_out(l, r));
    }
    for (uint32_t k = l->death_first[item]; k < l->death_first[item + 1]; k++)
        ZI_TRY(end_instance(l, &l->deaths.at[k]));
    return ZICO_OK;
}

static zico_status
write_plan(lowering *l)
{
    for (zi_tensor_id t = 0; t < l->g->n_tensors; t++) {
        l->here[t] = l->coming[t] = l->saved[t] = l->going[t] = false;
        l->trip_made[t] = NOWHERE;
    }
    for (size_t k = l->trips.n; k-- > 0;) /* the first trip out is the one that copies */
        if (l->trips.at[k].made != NOWHERE)
            l->trip_made[l->trips.at[k].root] = (uint32_t)k;
    l->clock_ns = l->out_ns = l->in_ns = 0;
    l->now_bytes = zi_cost_fixed_bytes(l->g, l->c);
    zi_vec_clear(&l->pending);
    zi_vec_clear(&l->late);
    for (uint32_t i = 0; i < l->items.n; i++) {
        l->at_ns[i] = l->clock_ns;
        ZI_TRY(drop_what_is_over(l));
        ZI_TRY(begin_copies_in(l, i));
        if (l->items.at[i].kind != ZI_ACT_IN) ZI_TRY(write_node(l, i));
    }
    l->at_ns[l->items.n] = l->clock_ns;
    zi_assert(l->late.n == 0 && l->pending.n == 0);
    return ZICO_OK;
}

/* -- all together ---------------------------------------------------------------------------- */

/* D3: without a tier nothing goes there, and not more than it holds. */
static void
respect_tier(zi_draft *d)
{
    uint64_t used = 0;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        if (d->fate[t].kind != ZI_FATE_SWAP) continue;
        uint64_t bytes = d->c->tensor_bytes[t];
        if (zi_draft_has_tier(d) && bytes <= d->c->tier_bytes - used)
            used += bytes;
        else
            d->fate[t].kind = ZI_FATE_KEEP;
    }
}

static zico_status
lowering_make(lowering *l)
{
    size_t n = l->items.n, m = l->g->n_tensors + 1u;
    l->over = zi_calloc(n + 1, sizeof *l->over);
    l->death_first = zi_calloc(n + 2, sizeof *l->death_first);
    l->in_head = zi_calloc(n + 1, sizeof *l->in_head);
    l->at_ns = zi_calloc(n + 1, sizeof *l->at_ns);
    l->room = zi_calloc(n + 1, sizeof *l->room);
    l->trip_made = zi_calloc(m, sizeof *l->trip_made);
    l->here = zi_calloc(m, sizeof *l->here);
    l->coming = zi_calloc(m, sizeof *l->coming);
    l->saved = zi_calloc(m, sizeof *l->saved);
    l->going = zi_calloc(m, sizeof *l->going);
    l->arrive_ns = zi_calloc(m, sizeof *l->arrive_ns);
    l->gone_ns = zi_calloc(m, sizeof *l->gone_ns);
    return l->over && l->death_first && l->in_head && l->at_ns && l->room &&
                   l->trip_made && l->here && l->coming && l->saved && l->going &&
                   l->arrive_ns && l->gone_ns
               ? ZICO_OK
               : ZICO_E_NOMEM;
}

static void
lowering_free(lowering *l)
{
    zi_vec_free(&l->items);
    zi_vec_free(&l->deaths);
    zi_vec_free(&l->trips);
    zi_vec_free(&l->pending);
    zi_vec_free(&l->late);
    zi_free(l->over);
    zi_free(l->death_first);
    zi_free(l->in_head);
    zi_free(l->at_ns);
    zi_free(l->room);
    zi_free(l->trip_made);
    zi_free(l->here);
    zi_free(l->coming);
    zi_free(l->saved);
    zi_free(l->going);
    zi_free(l->arrive_ns);
    zi_free(l->gone_ns);
}

static zico_status
lower(lowering *l, const char *planner)
{
    ZI_TRY(zi_draft_sequence(l->d, &l->items));
    ZI_TRY(lowering_make(l));
    ZI_TRY(find_deaths(l));
    for (uint32_t i = 0; i < l->items.n; i++)
        if (l->items.at[i].kind != ZI_ACT_IN) l->over[i] = choose_over(l, i);
    time_of_computation(l);
    for (int round = 0; round < (l->trips.n ? ROUNDS : 1); round++) {
        find_room(l);
        time_copies_in(l);
        zi_plan_free(l->plan);
        l->plan = NULL;
        ZI_TRY(zi_plan_new(planner, &l->plan));
        ZI_TRY(write_plan(l));
    }
    return ZICO_OK;
}

zico_status
zi_draft_lower(zi_draft *d, const char *planner, uint64_t budget_bytes,
               zi_plan **ret_plan)
{
    lowering l = {.d = d, .g = d->g, .c = d->c, .budget_bytes = budget_bytes};

    respect_tier(d);
    zico_status st = lower(&l, planner);
    if (st >= 0)
        *ret_plan = l.plan;
    else
        zi_plan_free(l.plan);
    lowering_free(&l);
    return st;
}

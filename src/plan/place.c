/* place.c -- a (slot, offset) for everything that comes into being during a plan.
 *
 * REGIONS
 *          An arena that knows the future.  Lives (from the act that makes a thing to the act
 *          that ends it) are taken in order of birth.  A life goes into the tightest gap of
 *          a slot that is open anyway; else into a slot that it keeps open a little longer;
 *          else a slot is opened for it together with the next few lives that end at about
 *          the same time, so many that the slot is filled to a few per cent.  Feature maps
 *          end in the reverse order of their births: neighbours in birth are neighbours in
 *          death, their slot opens and closes with them, and its regions go back early.
 *          How near in birth and death companions must be, and how much longer a slot may stay
 *          open for a newcomer, is tried in several ways.  Of those whose peak is within 3 % of the
 *          least, the least mean wins: what a slot holds before its second tensor is born, and
 *          after its last but one has died, is memory that another job could have had.
 * MAPPING  Without regions all lives share one slot that is open throughout: largest first (or
 *          in order of birth, of area, of length of life, or a mixture), each at the lowest
 *          offset that is free for as long as it lives.  Then whoever reaches highest is
 *          served earlier, and all are placed anew, until the highest sum of live bytes is
 *          reached or enough was tried ("the squeaky wheel").
 * CHECKED  zi_plan_check (P8) replays the result; plan_place_test.c bounds the waste.
 * COST     O(lives x open slots x lives in a slot), times the ways tried.
 */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "base/vec.h"
#include "plan/fixed.h"

#define LIVES_MANY     6000 /* from so many on only one way is tried            */
#define COMPANIONS_MAX 48   /* lives that may open a slot together              */
#define LOOK_AHEAD     160  /* births looked through for them                   */
#define WASTE_PERCENT  2    /* a slot filled so well is good enough              */
#define PEAK_PART      32   /* a peak higher by this part is as good as the least ... */
#define LIVE_PART      20  /* ... if it is above what is alive by no more than this one */
#define FIXED_SLOT     16u /* regions after which another fixed slot is opened  */
#define MEETINGS       60000000u /* pairs of lives looked at for a tighter mapping */
#define ROUNDS_MAX     300u

typedef struct life {
    uint32_t born, died; /* acts, inclusive */
    uint64_t bytes;      /* rounded to the alignment */
    uint32_t slot;       /* UINT32_MAX: not placed yet */
    uint64_t offset;
} life;

typedef ZI_VEC(uint32_t) id_vec;

typedef struct slot_state {
    uint64_t size_bytes;
    uint32_t first, last;
    id_vec   lives;
} slot_state;

typedef struct way {
    double
        closeness; /* of companions: part of a life by which births and deaths may differ */
    double
        stretch; /* most that keeping a slot open may cost, in prices of a slot of its own */
} way;

typedef struct placer {
    const zi_plan  *plan;
    const zi_graph *g;
    const zi_cost  *c;
    uint64_t        region_bytes, align;
    way             way;
    bool            mapping; /* no regions: one slot for all */
    ZI_VEC(life) life;
    ZI_VEC(slot_state) slot;
    ZI_VEC(uint32_t) open; /* slots whose last >= the birth looked at */
    ZI_VEC(zi_place) place;
    uint32_t *life_of_place; /* [place.n] */
    size_t    cap_life_of_place;
    uint32_t *live; /* [n_tensors] the present life of a root; UINT32_MAX: absent */
    uint32_t  n_fixed_slots;
} placer;

static uint64_t
round_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* -- lives from acts -------------------------------------------------------------------- */

static zico_status
add_place(placer *p, uint32_t act, zi_tensor_id t, uint32_t life_id)
{
    if (p->place.n == p->cap_life_of_place) {
        size_t    cap = p->cap_life_of_place ? 2 * p->cap_life_of_place : 256;
        uint32_t *more = zi_realloc_array(p->life_of_place, cap, sizeof *more);
        if (!more) return ZICO_E_NOMEM;
        p->life_of_place = more;
        p->cap_life_of_place = cap;
    }
    p->life_of_place[p->place.n] = life_id;
    return zi_vec_push(&p->place, (zi_place){.act = act, .tensor = t});
}

static zico_status
begin_life(placer *p, uint32_t act, zi_tensor_id t, uint64_t bytes, uint32_t died)
{
    uint32_t id = (uint32_t)p->life.n;
    ZI_TRY(zi_vec_push(&p->life, (life){.born = act,
                                        .died = died,
                                        .bytes = round_up(bytes ? bytes : 1, p->align),
                                        .slot = UINT32_MAX}));
    if (t != ZI_ID_NONE) p->live[t] = id;
    return add_place(p, act, t, id);
}

static zi_tensor_id
overwritten(const placer *p, const zi_act *a, uint32_t o)
{
    const zi_node    *n = &p->g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);
    for (uint32_t pair = 0; pair < 2; pair++)
        if ((a->over >> pair & 1) && op->over[pair][0] == (int)o)
            return n->in[(uint32_t)op->over[pair][1]];
    return ZI_ID_NONE;
}

static zico_status
lives_of_node(placer *p, uint32_t act, const zi_tensor_id *root)
{
    const zi_act  *a = &p->plan->acts[act];
    const zi_node *n = &p->g->nodes[a->what];

    for (uint32_t o = 0; o < n->n_out; o++) {
        zi_tensor_id out = n->out[o];
        if (out == ZI_ID_NONE || root[out] != out || p->live[out] != UINT32_MAX) continue;
        zi_tensor_id in = overwritten(p, a, o);
        if (in == ZI_ID_NONE) {
            ZI_TRY(begin_life(p, act, out, p->c->tensor_bytes[out], UINT32_MAX));
        } else { /* the input's life goes on under another name */
            ZI_TRY(add_place(p, act, out, p->live[in]));
            p->live[out] = p->live[in];
            p->live[in] = UINT32_MAX;
        }
    }
    uint64_t scratch = p->c->scratch_bytes[a->what];
    return scratch ? begin_life(p, act, ZI_ID_NONE, scratch, act) : ZICO_OK;
}

static zico_status
collect_lives(placer *p, const zi_tensor_id *root)
{
    for (uint32_t act = 0; act < p->plan->n_acts; act++) {
        const zi_act *a = &p->plan->acts[act];
        switch (a->kind) {
        case ZI_ACT_RUN:
        case ZI_ACT_REDO:
            ZI_TRY(lives_of_node(p, act, root));
            break;
        case ZI_ACT_IN:
            ZI_TRY(begin_life(p, act, a->what, p->c->tensor_bytes[a->what], UINT32_MAX));
            break;
        case ZI_ACT_DROP:
            zi_assert(p->live[a->what] != UINT32_MAX);
            p->life.at[p->live[a->what]].died = act;
            p->live[a->what] = UINT32_MAX;
            break;
        default:
            break;
        }
    }
    uint32_t end = p->plan->n_acts ? p->plan->n_acts - 1 : 0;
    for (size_t i = 0; i < p->life.n; i++)
        if (p->life.at[i].died == UINT32_MAX) p->life.at[i].died = end;
    return ZICO_OK;
}

/* -- finding room ------------------------------------------------------------------------- */

static bool
meet(const life *a, const life *b)
{
    return a->born <= b->died && b->born <= a->died;
}

/* The tightest gap for `x` in the slot; false: there is none.  Lives in a slot are kept in
 * order of offset. */
static bool
find_gap(const placer *p, const slot_state *s, const life *x, uint64_t *ret_offset,
         uint64_t *ret_gap)
{
    uint64_t at = 0, best = UINT64_MAX;
    for (size_t i = 0; i <= s->lives.n; i++) {
        uint64_t until = s->size_bytes, next = at;
        if (i < s->lives.n) {
            const life *y = &p->life.at[s->lives.at[i]];
            if (!meet(x, y)) continue;
            until = y->offset;
            next = y->offset + y->bytes;
        }
        if (until >= at + x->bytes && until - at < best) {
            best = until - at;
            *ret_offset = at;
        }
        if (next > at) at = next;
    }
    *ret_gap = best;
    return best != UINT64_MAX;
}

static zico_status
settle(placer *p, uint32_t slot, uint32_t life_id, uint64_t offset)
{
    slot_state *s = &p->slot.at[slot];
    life       *x = &p->life.at[life_id];
    size_t      i;

    ZI_TRY(zi_vec_push(&s->lives, life_id));
    for (i = s->lives.n - 1; i > 0; i--) {
        if (p->life.at[s->lives.at[i - 1]].offset <= offset) break;
        s->lives.at[i] = s->lives.at[i - 1];
    }
    s->lives.at[i] = life_id;
    x->slot = slot;
    x->offset = offset;
    if (x->born < s->first) s->first = x->born;
    if (x->died > s->last) s->last = x->died;
    return ZICO_OK;
}

/* What it would cost to put `x` there, in bytes x acts of slots kept open longer. */
static double
stretch_cost(const slot_state *s, const life *x)
{
    uint32_t longer = x->died > s->last ? x->died - s->last : 0;
    return (double)s->size_bytes * (double)longer;
}

static bool
best_open_slot(placer *p, const life *x, uint32_t *ret_slot, uint64_t *ret_offset)
{
    double own = (double)round_up(x->bytes, p->region_bytes) * (x->died - x->born + 1.0);
    double best_cost = p->way.stretch * own;
    uint64_t best_gap = UINT64_MAX;
    bool     found = false;

    for (size_t i = 0; i < p->open.n;) {
        slot_state *s = &p->slot.at[p->open.at[i]];
        uint64_t    offset = 0, gap;
        if (s->last < x->born) { /* births come in order: it will never be open again */
            zi_vec_remove_swap(&p->open, i);
            continue;
        }
        double cost = stretch_cost(s, x);
        if (cost <= best_cost && find_gap(p, s, x, &offset, &gap) &&
            (cost < best_cost || gap < best_gap)) {
            best_cost = cost;
            best_gap = gap;
            *ret_slot = p->open.at[i];
            *ret_offset = offset;
            found = true;
        }
        i++;
    }
    return found;
}

/* -- opening slots -------------------------------------------------------------------------- */

static bool
good_companion(const placer *p, const life *x, const life *y)
{
    double span = (x->died - x->born + 1.0) * p->way.closeness;
    return y->slot == UINT32_MAX && y->died <= x->died &&
           (double)(y->born - x->born) <= span && (double)(x->died - y->died) <= span;
}

/* Bytes that a slot for `total` bytes would waste. */
static uint64_t
waste(const placer *p, uint64_t total)
{
    return round_up(total, p->region_bytes) - total;
}

/* The lives that open a slot together with life `first`: a prefix of its good companions,
 * the one with the least relative waste. */
static size_t
choose_companions(const placer *p, uint32_t first, uint32_t *ret_ids)
{
    const life *x = &p->life.at[first];
    uint64_t    total = x->bytes;
    double      best = (double)waste(p, total) / (double)total;
    size_t      n = 1, best_n = 1;

    ret_ids[0] = first;
    for (size_t i = first + 1; i < p->life.n && i < (size_t)first + LOOK_AHEAD; i++) {
        const life *y = &p->life.at[i];
        if (n == COMPANIONS_MAX || best * 100 <= WASTE_PERCENT) break;
        if (!good_companion(p, x, y)) continue;
        total += y->bytes;
        ret_ids[n++] = (uint32_t)i;
        double w = (double)waste(p, total) / (double)total;
        if (w < best) {
            best = w;
            best_n = n;
        }
    }
    return best_n;
}

static zico_status
open_slot(placer *p, uint32_t first)
{
    uint32_t ids[COMPANIONS_MAX];
    size_t   n = choose_companions(p, first, ids);
    uint64_t total = 0, offset = 0;
    uint32_t slot = (uint32_t)p->slot.n;

    for (size_t i = 0; i < n; i++) total += p->life.at[ids[i]].bytes;
    ZI_TRY(
        zi_vec_push(&p->slot, (slot_state){.size_bytes = round_up(total, p->region_bytes),
                                           .first = p->life.at[first].born,
                                           .last = p->life.at[first].died}));
    ZI_TRY(zi_vec_push(&p->open, slot));
    for (size_t i = 0; i < n; i++) {
        ZI_TRY(settle(p, slot, ids[i], offset));
        offset += p->life.at[ids[i]].bytes;
    }
    return ZICO_OK;
}

static zico_status
place_lives(placer *p)
{
    for (uint32_t i = 0; i < p->life.n; i++) {
        uint32_t slot;
        uint64_t offset;
        if (p->life.at[i].slot != UINT32_MAX) continue; /* came with a companion */
        if (best_open_slot(p, &p->life.at[i], &slot, &offset))
            ZI_TRY(settle(p, slot, i, offset));
        else
            ZI_TRY(open_slot(p, i));
    }
    return ZICO_OK;
}

/* Fixed tensors, one behind the other, in slots of a handful of regions. */
static zico_status
place_fixed(placer *p, const zi_tensor_id *root)
{
    uint64_t used = 0;
    for (zi_tensor_id t = 0; t < p->g->n_tensors; t++) {
        if (root[t] != t || !zi_plan_is_fixed(p->g, t)) continue;
        uint64_t bytes =
            round_up(p->c->tensor_bytes[t] ? p->c->tensor_bytes[t] : 1, p->align);
        if (p->slot.n == 0 ||
            (!p->mapping && used + bytes > FIXED_SLOT * p->region_bytes)) {
            ZI_TRY(zi_vec_push(&p->slot, (slot_state){.last = UINT32_MAX}));
            used = 0;
        }
        ZI_TRY(add_place(p, UINT32_MAX, t, UINT32_MAX));
        zi_vec_last(&p->place).slot = (uint32_t)p->slot.n - 1;
        zi_vec_last(&p->place).offset = used;
        used += bytes;
        zi_vec_last(&p->slot).size_bytes = round_up(used, p->region_bytes);
    }
    p->n_fixed_slots = (uint32_t)p->slot.n;
    return ZICO_OK;
}

/* -- measuring ------------------------------------------------------------------------------- */

/* Slot and live bytes at every act, weighted with the time that the act takes. */
static zico_status
measure(const placer *p, zi_place_stats *ret_stats)
{
    size_t   n = p->plan->n_acts + 2u;
    int64_t *slots = zi_calloc(n, sizeof *slots), *lives = zi_calloc(n, sizeof *lives);
    double   slot_time = 0, live_time = 0;
    int64_t  fixed = 0, open = 0, live = 0;

    *ret_stats = (zi_place_stats){0};
    if (!slots || !lives) {
        zi_free(slots);
        zi_free(lives);
        return ZICO_E_NOMEM;
    }
    for (size_t i = 0; i < p->slot.n; i++) {
        const slot_state *s = &p->slot.at[i];
        if (i < p->n_fixed_slots) {
            fixed += (int64_t)s->size_bytes;
            continue;
        }
        slots[s->first] += (int64_t)s->size_bytes;
        slots[s->last + 1] -= (int64_t)s->size_bytes;
    }
    for (size_t i = 0; i < p->life.n; i++) {
        lives[p->life.at[i].born] += (int64_t)p->life.at[i].bytes;
        lives[p->life.at[i].died + 1] -= (int64_t)p->life.at[i].bytes;
    }
    int64_t fixed_live = (int64_t)zi_cost_fixed_bytes(p->g, p->c);
    for (uint32_t a = 0; a < p->plan->n_acts; a++) {
        zi_act_kind k = p->plan->acts[a].kind;
        bool        runs = k == ZI_ACT_RUN || k == ZI_ACT_REDO;
        double      w = runs ? 1.0 + (double)p->c->node_ns[p->plan->acts[a].what] : 1.0;
        open += slots[a];
        live += lives[a];
        slot_time += w * (double)(fixed + open);
        live_time += w * (double)(fixed_live + live);
        if ((uint64_t)(fixed + open) > ret_stats->peak_slot_bytes)
            ret_stats->peak_slot_bytes = (uint64_t)(fixed + open);
        if ((uint64_t)(fixed_live + live) > ret_stats->peak_live_bytes)
            ret_stats->peak_live_bytes = (uint64_t)(fixed_live + live);
    }
    ret_stats->mean_ratio = live_time > 0 ? slot_time / live_time : 1.0;
    zi_free(slots);
    zi_free(lives);
    return ZICO_OK;
}

/* -- ways ------------------------------------------------------------------------------------ */

static void
forget_slots(placer *p)
{
    for (size_t i = p->n_fixed_slots; i < p->slot.n; i++)
        zi_vec_free(&p->slot.at[i].lives);
    p->slot.n = p->n_fixed_slots;
    zi_vec_clear(&p->open);
    for (size_t i = 0; i < p->life.n; i++) p->life.at[i].slot = UINT32_MAX;
}

static zico_status
try_way(placer *p, way w, zi_place_stats *ret_stats)
{
    forget_slots(p);
    p->way = w;
    ZI_TRY(place_lives(p));
    return measure(p, ret_stats);
}

typedef struct tried {
    way            way;
    zi_place_stats stats;
} tried;

/* Of those about as low as the lowest, the one with the least mean. */
static size_t
choose_way(const tried *t, size_t n)
{
    uint64_t live = t[0].stats.peak_live_bytes, least = UINT64_MAX;
    size_t   best = SIZE_MAX;

    for (size_t i = 0; i < n; i++)
        if (t[i].stats.peak_slot_bytes < least) least = t[i].stats.peak_slot_bytes;
    uint64_t low = least + least / PEAK_PART;
    if (low > live + live / LIVE_PART) low = live + live / LIVE_PART;
    for (size_t i = 0; i < n; i++) {
        if (t[i].stats.peak_slot_bytes > (low > least ? low : least)) continue;
        if (best == SIZE_MAX || t[i].stats.mean_ratio < t[best].stats.mean_ratio)
            best = i;
    }
    return best;
}

static zico_status
place_best_way(placer *p, zi_place_stats *ret_stats)
{
    static const double closeness[] = {0.12, 0.04, 0.3, 0.7, 0.015};
    static const double stretch[] = {0.75, 0.3, 1.5};
    tried  t[sizeof closeness / sizeof closeness[0] * sizeof stretch / sizeof stretch[0]];
    size_t n = sizeof closeness / sizeof closeness[0];
    size_t n_ways = p->life.n > LIVES_MANY ? 1 : sizeof t / sizeof t[0];

    for (size_t i = 0; i < n_ways; i++) {
        t[i].way = (way){closeness[i % n], stretch[i / n]};
        ZI_TRY(try_way(p, t[i].way, &t[i].stats));
    }
    return try_way(p, t[choose_way(t, n_ways)].way, ret_stats);
}

/* -- one mapping ------------------------------------------------------------------------------ */

typedef struct turn {
    double   key; /* highest first */
    uint32_t id;
} turn;

static int
by_turn(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Who has a place already: what the inner loop reads lies together. */
typedef struct resident {
    uint64_t offset, end;
    uint32_t born, died;
} resident;

typedef ZI_VEC(resident) resident_vec;

static void
forget_the_dead(resident_vec *settled, uint32_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < settled->n; i++)
        if (settled->at[i].died >= now) settled->at[kept++] = settled->at[i];
    settled->n = kept;
}

/* Each at the lowest offset that is free while it lives.  `settled` is kept in order of offset;
 * when turns go by birth, who has died by then is forgotten. */
static zico_status
map_in_turn(placer *p, const turn *order, bool by_birth, resident_vec *settled,
            uint64_t *ret_total)
{
    *ret_total = 0;
    zi_vec_clear(settled);
    for (size_t k = 0; k < p->life.n; k++) {
        life    *x = &p->life.at[order[k].id];
        uint64_t at = 0;
        if (by_birth) forget_the_dead(settled, x->born);
        for (size_t i = 0; i < settled->n; i++) {
            const resident *y = &settled->at[i];
            if (x->born > y->died || y->born > x->died) continue;
            if (y->offset >= at + x->bytes) break;
            if (y->end > at) at = y->end;
        }
        x->offset = at;
        if (at + x->bytes > *ret_total) *ret_total = at + x->bytes;
        const resident me = {at, at + x->bytes, x->born, x->died};
        ZI_TRY(zi_vec_push(settled, me));
        size_t i = settled->n - 1;
        for (; i > 0 && settled->at[i - 1].offset > at; i--)
            settled->at[i] = settled->at[i - 1];
        settled->at[i] = me;
    }
    return ZICO_OK;
}

static double
turn_key(const life *x, int rule)
{
    double bytes = (double)x->bytes, span = x->died - x->born + 1.0;
    switch (rule) {
    case 0:
        return -(double)x->born;
    case 1:
        return bytes;
    case 2:
        return bytes * span;
    case 3:
        return span;
    default:
        return bytes * (1 + log(span)); /* size counts, but long lives come first */
    }
}

static zico_status
map_by_rule(placer *p, int rule, turn *order, resident_vec *settled, uint64_t *ret_total)
{
    for (uint32_t i = 0; i < p->life.n; i++)
        order[i] = (turn){turn_key(&p->life.at[i], rule), i};
    if (p->life.n) qsort(order, p->life.n, sizeof *order, by_turn);
    return map_in_turn(p, order, rule == 0, settled, ret_total);
}

/* The highest sum of live bytes: no mapping is smaller. */
static zico_status
least_mapping(const placer *p, uint64_t *ret_bytes)
{
    size_t    n = p->plan->n_acts + 2u;
    uint64_t *more = zi_calloc(n, sizeof *more), *fewer = zi_calloc(n, sizeof *fewer);
    uint64_t  now = 0, most = 0;

    for (size_t i = 0; more && fewer && i < p->life.n; i++) {
        more[p->life.at[i].born] += p->life.at[i].bytes;
        fewer[p->life.at[i].died + 1] += p->life.at[i].bytes;
    }
    for (size_t a = 0; more && fewer && a < n; a++) {
        now += more[a] - fewer[a];
        if (now > most) most = now;
    }
    zico_status st = more && fewer ? ZICO_OK : ZICO_E_NOMEM;
    zi_free(more);
    zi_free(fewer);
    *ret_bytes = most;
    return st;
}

/* Who ends above `goal` moves to half its place in the order. */
static void
serve_earlier(const placer *p, turn *order, uint64_t goal)
{
    for (size_t k = 1; k < p->life.n; k++) {
        const life *x = &p->life.at[order[k].id];
        if (x->offset + x->bytes <= goal) continue;
        turn   t = order[k];
        size_t to = k / 2;
        memmove(order + to + 1, order + to, (k - to) * sizeof *order);
        order[to] = t;
    }
}

/* Serve those earlier that reach highest, as long as it may help; `order` and *least are the
 * best so far, and stay so. */
static zico_status
tighten(placer *p, turn *order, turn *best, resident_vec *settled, uint64_t *least)
{
    uint64_t goal, total;
    size_t   n = p->life.n, rounds = n ? MEETINGS / (n * n) : 0;

    ZI_TRY(least_mapping(p, &goal));
    if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
    for (size_t i = 0; i<rounds && * least> goal; i++) {
        serve_earlier(p, order, goal);
        ZI_TRY(map_in_turn(p, order, false, settled, &total));
        if (total >= *least) continue;
        *least = total;
        memcpy(best, order, n * sizeof *order);
    }
    return ZICO_OK;
}

static zico_status
map_best(placer *p, turn *order, turn *best, resident_vec *settled, uint64_t *ret_total)
{
    int      rules = p->life.n > LIVES_MANY ? 1 : 5, rule_of_best = 0;
    uint64_t total, least = UINT64_MAX;

    for (int rule = 0; rule < rules; rule++) {
        ZI_TRY(map_by_rule(p, rule, order, settled, &total));
        if (total >= least) continue;
        least = total;
        rule_of_best = rule;
        memcpy(best, order, p->life.n * sizeof *order);
    }
    ZI_TRY(map_by_rule(p, rule_of_best, order, settled, &total));
    ZI_TRY(tighten(p, order, best, settled, &least));
    bool by_birth = least == total && rule_of_best == 0;
    return map_in_turn(p, best, by_birth, settled, ret_total);
}

/* One slot for everything that is not fixed. */
static zico_status
place_in_mapping(placer *p, zi_place_stats *ret_stats)
{
    turn        *order = zi_calloc(p->life.n + 1, sizeof *order);
    turn        *best = zi_calloc(p->life.n + 1, sizeof *best);
    resident_vec settled = {0};
    uint64_t     total = 0;
    zico_status  st =
        order && best ? map_best(p, order, best, &settled, &total) : ZICO_E_NOMEM;

    zi_free(order);
    zi_free(best);
    zi_vec_free(&settled);
    if (st < 0) return st;
    uint32_t slot = (uint32_t)p->slot.n;
    uint32_t last = p->plan->n_acts ? p->plan->n_acts - 1 : 0;
    ZI_TRY(zi_vec_push(&p->slot, (slot_state){.size_bytes = total, .last = last}));
    for (size_t i = 0; i < p->life.n; i++) p->life.at[i].slot = slot;
    return measure(p, ret_stats);
}

/* -- the result ---------------------------------------------------------------------------- */

static zico_status
attach(placer *p, zi_plan *plan)
{
    zi_slot  *slots = zi_calloc(p->slot.n + 1, sizeof *slots);
    zi_place *places = zi_calloc(p->place.n + 1, sizeof *places);
    if (!slots || !places) {
        zi_free(slots);
        zi_free(places);
        return ZICO_E_NOMEM;
    }
    for (size_t i = 0; i < p->slot.n; i++)
        slots[i] = (zi_slot){.size_bytes = p->slot.at[i].size_bytes,
                             .first = p->slot.at[i].first,
                             .last = p->slot.at[i].last,
                             .fixed = i < p->n_fixed_slots};
    for (size_t i = 0; i < p->place.n; i++) {
        places[i] = p->place.at[i];
        if (p->life_of_place[i] == UINT32_MAX) continue;
        places[i].slot = p->life.at[p->life_of_place[i]].slot;
        places[i].offset = p->life.at[p->life_of_place[i]].offset;
    }
    zi_free(plan->slots);
    zi_free(plan->places);
    plan->slots = slots;
    plan->places = places;
    plan->n_slots = (uint32_t)p->slot.n;
    plan->n_places = (uint32_t)p->place.n;
    plan->region_bytes = p->region_bytes;
    return ZICO_OK;
}

static void
placer_free(placer *p)
{
    for (size_t i = 0; i < p->slot.n; i++) zi_vec_free(&p->slot.at[i].lives);
    zi_vec_free(&p->slot);
    zi_vec_free(&p->life);
    zi_vec_free(&p->open);
    zi_vec_free(&p->place);
    zi_free(p->life_of_place);
    zi_free(p->live);
}

zico_status
zi_plan_place(zi_plan *plan, const zi_graph *graph, const zi_cost *cost,
              uint64_t region_bytes, uint64_t align, zi_place_stats *ret_stats)
{
    placer         p = {.plan = plan,
                        .g = graph,
                        .c = cost,
                        .align = align,
                        .mapping = region_bytes == 0,
                        .region_bytes = region_bytes ? region_bytes : align};
    zico_status    st = ZICO_E_NOMEM;
    zi_place_stats stats;
    zi_tensor_id  *root = zi_calloc(graph->n_tensors + 1u, sizeof *root);

    zi_assert(align > 0 && region_bytes % align == 0);
    p.live = zi_malloc((graph->n_tensors + 1u) * sizeof *p.live);
    if (root && p.live) {
        memset(p.live, 0xff, (graph->n_tensors + 1u) * sizeof *p.live);
        zi_plan_roots(graph, root);
        st = place_fixed(&p, root);
        if (st >= 0) st = collect_lives(&p, root);
        if (st >= 0)
            st = p.mapping ? place_in_mapping(&p, &stats) : place_best_way(&p, &stats);
        if (st >= 0) st = attach(&p, plan);
        if (st >= 0 && ret_stats) *ret_stats = stats;
    }
    placer_free(&p);
    zi_free(root);
    return st;
}

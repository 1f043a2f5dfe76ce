/* passive.c -- follows a guide through an arena, on demand; passive.h has the promises. */
#include "exec/passive.h"

#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "base/vec.h"
#include "plan/fixed.h"

typedef enum where { ABSENT, HERE, COMING } where;

typedef struct touch {
    uint32_t act;   /* of the guide */
    bool     makes; /* a redo makes it; else it is read */
} touch;

typedef struct root_state {
    where    where;
    bool     going, saved; /* a copy out is under way; the tier has it   */
    bool     lives_on;     /* wanted at the end                          */
    bool     over;         /* is overwritten by the node at hand         */
    uint64_t offset, bytes;
    uint64_t touched;     /* when last; `clock`: by the node at hand    */
    uint32_t next, n_end; /* its touches that are to come               */
} root_state;

typedef struct block {
    zi_tensor_id root; /* NONE: scratch of the node at hand */
    uint64_t     offset, bytes;
} block;

typedef struct follower {
    const zi_passive_task *task;
    const zi_graph        *g;
    const zi_plan         *guide;
    zi_tensor_id          *root;
    root_state            *state;  /* [n_tensors] of roots */
    uint32_t              *run_at; /* [n_nodes] the act of the guide that runs it */
    touch                 *touches;
    ZI_VEC(block) blocks; /* in order of offset */
    ZI_VEC(zi_place) places;
    zi_plan *plan;
    uint32_t at; /* act of the guide */
    uint64_t clock, top_bytes;
} follower;

static uint64_t
round_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* -- the guide --------------------------------------------------------------------------- */

static bool
is_node(const zi_act *a)
{
    return a->kind == ZI_ACT_RUN || a->kind == ZI_ACT_REDO;
}

/* A run or redo at this act finds its inputs made and not yet updated. */
static bool
inputs_in_order(const follower *f, zi_node_id id, uint32_t act)
{
    const zi_node *n = &f->g->nodes[id];

    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == ZI_ID_NONE) continue;
        const zi_node_id p = f->g->tensors[n->in[i]].producer;
        const zi_node_id u = f->g->tensors[f->root[n->in[i]]].updater;
        if (p != ZI_ID_NONE && f->run_at[p] >= act) return false;
        if (u != ZI_ID_NONE && f->run_at[u] < act) return false;
    }
    return true;
}

/* Every node once, after what it reads and before that changes. */
static bool
note_order(follower *f)
{
    memset(f->run_at, 0xff, (f->g->n_nodes + 1u) * sizeof *f->run_at);
    for (uint32_t a = 0; a < f->guide->n_acts; a++) {
        const zi_act *act = &f->guide->acts[a];
        if (act->kind != ZI_ACT_RUN) continue;
        if (act->what >= f->g->n_nodes || f->run_at[act->what] != UINT32_MAX)
            return false;
        f->run_at[act->what] = a;
    }
    for (zi_node_id n = 0; n < f->g->n_nodes; n++)
        if (f->run_at[n] == UINT32_MAX || !inputs_in_order(f, n, f->run_at[n]))
            return false;
    return true;
}

static bool
may_redo(const follower *f, uint32_t a)
{
    const zi_act *act = &f->guide->acts[a];

    if (act->what >= f->g->n_nodes) return false;
    const unsigned flags = zi_op_get(f->g->nodes[act->what].op)->flags;
    return (flags & ZI_OPF_RECOMPUTE) && !(flags & ZI_OPF_STATEFUL) &&
           f->run_at[act->what] < a && inputs_in_order(f, act->what, a);
}

/* Does this act take part, and how is a root touched by it? */
static bool
counts(const follower *f, uint32_t a)
{
    const zi_act *act = &f->guide->acts[a];
    return act->kind == ZI_ACT_RUN || (act->kind == ZI_ACT_REDO && may_redo(f, a));
}

static bool
is_free(const follower *f, zi_tensor_id t)
{
    return t != ZI_ID_NONE && !zi_plan_is_fixed(f->g, f->root[t]);
}

/* Pass 0 counts the touches of each root, pass 1 writes them down. */
static void
pass_touches(follower *f, int pass)
{
    for (uint32_t a = 0; a < f->guide->n_acts; a++) {
        const zi_act *act = &f->guide->acts[a];
        if (!is_node(act) || !counts(f, a)) continue;
        const zi_node *n = &f->g->nodes[act->what];
        for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
            const bool         out = i >= n->n_in;
            const zi_tensor_id t = out ? n->out[i - n->n_in] : n->in[i];
            if (!is_free(f, t) || (out && act->kind == ZI_ACT_RUN)) continue;
            root_state *s = &f->state[f->root[t]];
            if (pass) f->touches[s->n_end] = (touch){a, out && f->root[t] == t};
            s->n_end++;
        }
    }
}

static zico_status
note_touches(follower *f)
{
    uint32_t sum = 0;

    pass_touches(f, 0);
    for (zi_tensor_id t = 0; t < f->g->n_tensors; t++) {
        root_state *s = &f->state[t];
        s->next = sum;
        sum += s->n_end;
        s->n_end = s->next;
    }
    f->touches = zi_calloc(sum + 1u, sizeof *f->touches);
    if (!f->touches) return ZICO_E_NOMEM;
    pass_touches(f, 1);
    return ZICO_OK;
}

/* The first touch from the act at hand on (`after`: behind it); NULL: none. */
static const touch *
next_touch(follower *f, root_state *s, bool after)
{
    while (s->next < s->n_end && f->touches[s->next].act < f->at) s->next++;
    uint32_t i = s->next;
    while (after && i < s->n_end && f->touches[i].act == f->at) i++;
    return i < s->n_end ? &f->touches[i] : NULL;
}

/* Its bytes may go without a copy: the tier has one, nobody reads them, or they are made again
 * before. */
static bool
is_spare(follower *f, root_state *s, bool after)
{
    const touch *t = next_touch(f, s, after);
    if (s->saved) return true;
    return t ? t->makes : !s->lives_on;
}

static bool
is_dead(follower *f, root_state *s)
{
    return !s->lives_on && !next_touch(f, s, true);
}

/* -- acts --------------------------------------------------------------------------------- */

static zico_status
emit(follower *f, zi_act_kind kind, uint32_t what)
{
    return zi_plan_add(f->plan, (zi_act){.kind = kind, .what = what});
}

static zico_status
settle(follower *f, zi_tensor_id t)
{
    root_state *s = &f->state[t];

    if (!s->going && s->where != COMING) return ZICO_OK;
    if (s->going) s->saved = true;
    s->going = false;
    if (s->where == COMING) s->where = HERE;
    return emit(f, ZI_ACT_WAIT, t);
}

static void
free_block(follower *f, zi_tensor_id t)
{
    for (size_t i = 0; i < f->blocks.n; i++)
        if (f->blocks.at[i].root == t) {
            zi_vec_remove(&f->blocks, i);
            return;
        }
}

static zico_status
drop(follower *f, zi_tensor_id t)
{
    ZI_TRY(settle(f, t));
    f->state[t].where = ABSENT;
    free_block(f, t);
    return emit(f, ZI_ACT_DROP, t);
}

static zico_status
evict(follower *f, zi_tensor_id t)
{
    ZI_TRY(settle(f, t));
    if (!is_spare(f, &f->state[t], false)) {
        ZI_TRY(emit(f, ZI_ACT_OUT, t));
        f->state[t].going = true;
    }
    return drop(f, t);
}

/* -- room --------------------------------------------------------------------------------- */

/* The tightest hole; false: there is none.  ret_index: before which block. */
static bool
find_hole(const follower *f, uint64_t bytes, uint64_t *ret_offset, size_t *ret_index)
{
    uint64_t at = 0, best = UINT64_MAX;

    for (size_t i = 0; i <= f->blocks.n; i++) {
        const bool     end = i == f->blocks.n;
        const uint64_t until = end ? f->task->arena_bytes : f->blocks.at[i].offset;
        if (until - at >= bytes && until - at < best) {
            best = until - at;
            *ret_offset = at;
            *ret_index = i;
        }
        if (!end) at = f->blocks.at[i].offset + f->blocks.at[i].bytes;
    }
    return best != UINT64_MAX;
}

/* The root that was touched longest ago, not by the node at hand; NONE: there is none. */
static zi_tensor_id
least_recent(const follower *f)
{
    zi_tensor_id v = ZI_ID_NONE;

    for (size_t i = 0; i < f->blocks.n; i++) {
        const zi_tensor_id t = f->blocks.at[i].root;
        if (t == ZI_ID_NONE || f->state[t].touched == f->clock) continue;
        if (v == ZI_ID_NONE || f->state[t].touched < f->state[v].touched) v = t;
    }
    return v;
}

/* A place for `t` (NONE: scratch).  ZICO_PENDING: there is none, whoever leaves. */
static zico_status
take_place(follower *f, zi_tensor_id t, uint64_t bytes, bool may_evict,
           uint64_t *ret_offset)
{
    size_t i = 0;

    while (!find_hole(f, bytes, ret_offset, &i)) {
        const zi_tensor_id v = may_evict ? least_recent(f) : ZI_ID_NONE;
        if (v == ZI_ID_NONE) return ZICO_PENDING;
        ZI_TRY(evict(f, v));
    }
    ZI_TRY(zi_vec_push(&f->blocks, (block){0}));
    memmove(f->blocks.at + i + 1, f->blocks.at + i,
            (f->blocks.n - 1 - i) * sizeof *f->blocks.at);
    f->blocks.at[i] = (block){t, *ret_offset, bytes};
    if (*ret_offset + bytes > f->top_bytes) f->top_bytes = *ret_offset + bytes;
    if (t != ZI_ID_NONE) f->state[t].offset = *ret_offset;
    return ZICO_OK;
}

static zico_status
add_place(follower *f, zi_tensor_id t, uint64_t offset)
{
    return zi_vec_push(&f->places,
                       (zi_place){.act = f->plan->n_acts, .tensor = t, .offset = offset});
}

static zico_status
begin_in(follower *f, zi_tensor_id t, bool may_evict)
{
    root_state *s = &f->state[t];

    zi_assert(s->saved); /* nothing is dropped without a copy that is read again */
    zico_status st = take_place(f, t, s->bytes, may_evict, &s->offset);
    if (st != ZICO_OK) return st;
    ZI_TRY(add_place(f, t, s->offset));
    s->where = COMING;
    return emit(f, ZI_ACT_IN, t);
}

static zico_status
bring(follower *f, zi_tensor_id t)
{
    if (f->state[t].where == ABSENT) {
        zico_status st = begin_in(f, t, true);
        if (st != ZICO_OK) return st;
    }
    return settle(f, t);
}

/* Everything leaves: what the node at hand wants then lies side by side. */
static zico_status
clear_arena(follower *f)
{
    while (f->blocks.n) {
        const zi_tensor_id t = zi_vec_last(&f->blocks).root;
        zi_assert(t != ZI_ID_NONE);
        ZI_TRY(evict(f, t));
    }
    return ZICO_OK;
}

/* -- nodes -------------------------------------------------------------------------------- */

static void
touch_operands(follower *f, const zi_node *n)
{
    f->clock++;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (is_free(f, n->in[i])) f->state[f->root[n->in[i]]].touched = f->clock;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (is_free(f, n->out[i])) f->state[f->root[n->out[i]]].touched = f->clock;
}

/* Those of the guide's pairs that can be used: the input is not wanted any more. */
static zico_status
choose_over(follower *f, const zi_act *a, uint8_t *ret_over)
{
    const zi_node    *n = &f->g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);

    *ret_over = 0;
    for (uint32_t pair = 0; pair < 2; pair++) {
        const int o = op->over[pair][0], i = op->over[pair][1];
        if (!(a->over >> pair & 1) || o < 0 || (uint32_t)o >= n->n_out ||
            (uint32_t)i >= n->n_in)
            continue;
        const zi_tensor_id out = n->out[o], in = n->in[i];
        if (out == ZI_ID_NONE || !is_free(f, in) || f->root[in] != in) continue;
        if (*ret_over && op->over[0][0] == o) continue; /* it has a place already */
        root_state *s = &f->state[in];
        if (s->over || f->root[out] != out || f->state[out].where != ABSENT ||
            s->bytes != f->state[out].bytes ||
            f->task->cost->tensor_bytes[in] != f->task->cost->tensor_bytes[out] ||
            !zi_graph_may_overwrite(f->g, a->what, (uint32_t)o, (uint32_t)i))
            continue;
        ZI_TRY(settle(f, in));
        if (!is_spare(f, s, true)) continue;
        s->over = true;
        f->state[out].offset = s->offset;
        *ret_over |= (uint8_t)(1u << pair);
    }
    return ZICO_OK;
}

static bool
takes_over(const follower *f, const zi_node *n, uint8_t over, uint32_t o,
           zi_tensor_id *ret_in)
{
    const zi_op_info *op = zi_op_get(n->op);

    for (uint32_t pair = 0; pair < 2; pair++)
        if ((over >> pair & 1) && op->over[pair][0] == (int)o) {
            *ret_in = n->in[(uint32_t)op->over[pair][1]];
            return true;
        }
    (void)f;
    return false;
}

/* Inputs in, room for outputs and scratch.  ZICO_PENDING: the arena is in pieces. */
static zico_status
seat(follower *f, const zi_act *a, uint8_t *ret_over, uint64_t *ret_scratch)
{
    const zi_node *n = &f->g->nodes[a->what];
    zi_tensor_id   in;
    zico_status    st;

    *ret_over = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!is_free(f, n->in[i])) continue;
        st = bring(f, f->root[n->in[i]]);
        if (st != ZICO_OK) return st;
    }
    ZI_TRY(choose_over(f, a, ret_over));
    for (uint32_t o = 0; o < n->n_out; o++) {
        const zi_tensor_id t = n->out[o];
        if (!is_free(f, t) || f->root[t] != t) continue;
        ZI_TRY(settle(f, t));
        if (f->state[t].where == HERE || takes_over(f, n, *ret_over, o, &in)) continue;
        st = take_place(f, t, f->state[t].bytes, true, &f->state[t].offset);
        if (st != ZICO_OK) return st;
    }
    const uint64_t scratch = f->task->cost->scratch_bytes[a->what];
    if (scratch == 0) return ZICO_OK;
    return take_place(f, ZI_ID_NONE, round_up(scratch, f->task->align), true,
                      ret_scratch);
}

/* What was reserved for a node that could not be seated. */
static void
unseat(follower *f, const zi_node *n)
{
    free_block(f, ZI_ID_NONE);
    for (uint32_t o = 0; o < n->n_out; o++)
        if (n->out[o] != ZI_ID_NONE && f->state[n->out[o]].where == ABSENT)
            free_block(f, n->out[o]);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE) f->state[n->in[i]].over = false;
}

static zico_status
place_outputs(follower *f, const zi_node *n, uint8_t over, uint64_t scratch_offset,
              bool has_scratch)
{
    for (uint32_t o = 0; o < n->n_out; o++) {
        const zi_tensor_id t = n->out[o];
        zi_tensor_id       in;
        if (!is_free(f, t) || f->root[t] != t || f->state[t].where == HERE) continue;
        ZI_TRY(add_place(f, t, f->state[t].offset));
        f->state[t].where = HERE;
        if (!takes_over(f, n, over, o, &in)) continue;
        for (size_t i = 0; i < f->blocks.n; i++)
            if (f->blocks.at[i].root == in) f->blocks.at[i].root = t;
        f->state[in].where = ABSENT;
        f->state[in].over = false;
    }
    if (!has_scratch) return ZICO_OK;
    free_block(f, ZI_ID_NONE);
    return add_place(f, ZI_ID_NONE, scratch_offset);
}

static zico_status
drop_if_dead(follower *f, zi_tensor_id t)
{
    if (!is_free(f, t)) return ZICO_OK;
    t = f->root[t];
    if (f->state[t].where != HERE || !is_dead(f, &f->state[t])) return ZICO_OK;
    return drop(f, t);
}

static zico_status
drop_dead(follower *f, const zi_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) ZI_TRY(drop_if_dead(f, n->in[i]));
    for (uint32_t i = 0; i < n->n_out; i++) ZI_TRY(drop_if_dead(f, n->out[i]));
    return ZICO_OK;
}

static bool
all_here(const follower *f, const zi_node *n)
{
    for (uint32_t o = 0; o < n->n_out; o++)
        if (is_free(f, n->out[o]) && f->state[f->root[n->out[o]]].where == ABSENT)
            return false;
    return true;
}

static zico_status
follow_node(follower *f, const zi_act *a)
{
    const zi_node *n = &f->g->nodes[a->what];
    uint8_t        over = 0;
    uint64_t       scratch = 0;

    if (a->kind == ZI_ACT_REDO && (!may_redo(f, f->at) || all_here(f, n)))
        return may_redo(f, f->at) ? drop_dead(f, n) : ZICO_OK;
    touch_operands(f, n);
    zico_status st = seat(f, a, &over, &scratch);
    if (st == ZICO_PENDING) {
        unseat(f, n);
        ZI_TRY(clear_arena(f));
        st = seat(f, a, &over, &scratch);
        if (st == ZICO_PENDING) return ZICO_E_NOPLAN;
    }
    if (st < 0) return st;
    ZI_TRY(place_outputs(f, n, over, scratch, f->task->cost->scratch_bytes[a->what] > 0));
    ZI_TRY(
        zi_plan_add(f->plan, (zi_act){.kind = a->kind, .what = a->what, .over = over}));
    return drop_dead(f, n);
}

/* -- tensors ------------------------------------------------------------------------------- */

static zico_status
follow_tensor(follower *f, const zi_act *a)
{
    if (a->what >= f->g->n_tensors || f->root[a->what] != a->what || !is_free(f, a->what))
        return ZICO_OK;
    root_state *s = &f->state[a->what];

    switch (a->kind) {
    case ZI_ACT_DROP:
        if (s->where != HERE) return ZICO_OK;
        ZI_TRY(settle(f, a->what));
        return is_spare(f, s, true) ? drop(f, a->what) : ZICO_OK;
    case ZI_ACT_OUT:
        if (s->where != HERE || s->going || s->saved) return ZICO_OK;
        s->going = true;
        return emit(f, ZI_ACT_OUT, a->what);
    case ZI_ACT_IN: { /* if there is room now; else it comes when it is needed */
        if (s->where != ABSENT || !s->saved || !next_touch(f, s, true)) return ZICO_OK;
        zico_status st = begin_in(f, a->what, false);
        return st == ZICO_PENDING ? ZICO_OK : st;
    }
    case ZI_ACT_WAIT:
        return settle(f, a->what);
    default:
        return ZICO_OK;
    }
}

/* What is wanted after the step is there at its end, and no copy is under way. */
static zico_status
end_step(follower *f)
{
    zico_status st = ZICO_OK;

    f->clock++;
    for (zi_tensor_id t = 0; t < f->g->n_tensors; t++)
        if (f->state[t].lives_on) f->state[t].touched = f->clock;
    for (int round = 0; round < 2; round++) {
        for (zi_tensor_id t = 0; t < f->g->n_tensors && st == ZICO_OK; t++)
            if (f->state[t].lives_on && f->root[t] == t && is_free(f, t))
                st = bring(f, t);
        if (st != ZICO_PENDING) break;
        if (round) return ZICO_E_NOPLAN;
        ZI_TRY(clear_arena(f));
        st = ZICO_OK;
    }
    if (st < 0) return st;
    for (zi_tensor_id t = 0; t < f->g->n_tensors; t++)
        if (f->root[t] == t) ZI_TRY(settle(f, t));
    return ZICO_OK;
}

/* -- the whole ------------------------------------------------------------------------------ */

static zico_status
begin(follower *f)
{
    const zi_passive_task *k = f->task;

    zi_plan_roots(f->g, f->root);
    if (!note_order(f)) return ZICO_E_ARG;
    for (zi_tensor_id t = 0; t < f->g->n_tensors; t++) {
        root_state *s = &f->state[t];
        s->bytes =
            round_up(k->cost->tensor_bytes[t] ? k->cost->tensor_bytes[t] : 1, k->align);
        s->saved = k->saved && k->saved[t];
    }
    for (zi_tensor_id t = 0; t < f->g->n_tensors; t++)
        if (zi_graph_lives_on(f->g, t) && is_free(f, t))
            f->state[f->root[t]].lives_on = true;
    return note_touches(f);
}

static zico_status
follow(follower *f)
{
    ZI_TRY(begin(f));
    ZI_TRY(zi_plan_new("passive", &f->plan));
    for (f->at = f->task->from_act; f->at < f->guide->n_acts; f->at++) {
        const zi_act *a = &f->guide->acts[f->at];
        ZI_TRY(is_node(a) ? follow_node(f, a) : follow_tensor(f, a));
    }
    return end_step(f);
}

/* The guide's fixed slots, and one slot for the arena. */
static zico_status
attach(follower *f)
{
    const zi_plan *from = f->task->placed;
    zi_plan       *p = f->plan;
    const uint64_t unit = from->region_bytes;
    uint32_t       n_fixed = 0, n_slots = 0;

    while (n_slots < from->n_slots && from->slots[n_slots].fixed) n_slots++;
    while (n_fixed < from->n_places && from->places[n_fixed].act == UINT32_MAX) n_fixed++;
    p->slots = zi_calloc(n_slots + 1u, sizeof *p->slots);
    p->places = zi_calloc(n_fixed + f->places.n + 1u, sizeof *p->places);
    if (!p->slots || !p->places) return ZICO_E_NOMEM;
    if (n_slots) memcpy(p->slots, from->slots, n_slots * sizeof *p->slots);
    if (n_fixed) memcpy(p->places, from->places, n_fixed * sizeof *p->places);
    p->slots[n_slots] =
        (zi_slot){.size_bytes = round_up(f->top_bytes ? f->top_bytes : 1, unit),
                  .last = p->n_acts ? p->n_acts - 1 : 0};
    for (size_t i = 0; i < f->places.n; i++) {
        p->places[n_fixed + i] = f->places.at[i];
        p->places[n_fixed + i].slot = n_slots;
    }
    p->n_slots = n_slots + 1;
    p->n_places = n_fixed + (uint32_t)f->places.n;
    p->region_bytes = unit;
    return ZICO_OK;
}

static zico_status
open_follower(follower *f, const zi_passive_task *task, const zi_plan *guide)
{
    const size_t n = task->graph->n_tensors + 1u;

    *f = (follower){.task = task, .g = task->graph, .guide = guide};
    f->root = zi_calloc(n, sizeof *f->root);
    f->state = zi_calloc(n, sizeof *f->state);
    f->run_at = zi_calloc(task->graph->n_nodes + 1u, sizeof *f->run_at);
    return f->root && f->state && f->run_at ? ZICO_OK : ZICO_E_NOMEM;
}

static void
close_follower(follower *f)
{
    zi_free(f->root);
    zi_free(f->state);
    zi_free(f->run_at);
    zi_free(f->touches);
    zi_vec_free(&f->blocks);
    zi_vec_free(&f->places);
    zi_plan_free(f->plan);
}

static zico_status
follow_guide(const zi_passive_task *task, const zi_plan *guide, zi_plan **ret_plan)
{
    follower    f;
    zico_status st = open_follower(&f, task, guide);

    if (st >= 0) st = follow(&f);
    if (st >= 0) st = attach(&f);
    if (st >= 0) {
        *ret_plan = f.plan;
        f.plan = NULL;
    }
    close_follower(&f);
    return st;
}

zico_status
zi_passive_plan(const zi_passive_task *task, zi_plan **ret_plan)
{
    zi_plan *keep;

    zi_assert(task->align > 0 && task->placed->region_bytes > 0);
    zico_status st = follow_guide(task, task->guide, ret_plan);
    if (st != ZICO_E_ARG || task->from_act) return st;
    ZI_TRY(zi_plan_keep(task->graph, task->cost, &keep)); /* the guide leads nowhere */
    st = follow_guide(task, keep, ret_plan);
    zi_plan_free(keep);
    return st;
}

/* -- how little ------------------------------------------------------------------------------ */

static bool
seen_before(const follower *f, const zi_node *n, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (n->in[j] != ZI_ID_NONE && f->root[n->in[j]] == f->root[n->in[i]]) return true;
    return false;
}

static uint64_t
node_bytes(const follower *f, const zi_act *a)
{
    const zi_node *n = &f->g->nodes[a->what];
    uint64_t       sum = round_up(f->task->cost->scratch_bytes[a->what], f->task->align);
    zi_tensor_id   in;

    for (uint32_t i = 0; i < n->n_in; i++)
        if (is_free(f, n->in[i]) && !seen_before(f, n, i))
            sum += f->state[f->root[n->in[i]]].bytes;
    for (uint32_t o = 0; o < n->n_out; o++)
        if (is_free(f, n->out[o]) && f->root[n->out[o]] == n->out[o] &&
            !takes_over(f, n, a->over, o, &in))
            sum += f->state[n->out[o]].bytes;
    return sum;
}

zico_status
zi_passive_least(const zi_graph *g, const zi_cost *c, const zi_plan *guide,
                 uint64_t align, uint64_t *ret_arena_bytes, zi_node_id *ret_node)
{
    zi_passive_task task = {.graph = g, .cost = c, .guide = guide, .align = align};
    follower        f;
    uint64_t        most = 0;
    zi_node_id      which = ZI_ID_NONE;

    zico_status st = open_follower(&f, &task, guide);
    if (st >= 0) st = begin(&f);
    if (st >= 0) {
        for (zi_tensor_id t = 0; t < g->n_tensors; t++)
            if (f.root[t] == t && f.state[t].lives_on) most += f.state[t].bytes;
        for (uint32_t a = 0; a < guide->n_acts; a++) {
            if (guide->acts[a].kind != ZI_ACT_RUN) continue;
            const uint64_t bytes = node_bytes(&f, &guide->acts[a]);
            if (bytes <= most) continue;
            most = bytes;
            which = guide->acts[a].what;
        }
        *ret_arena_bytes = most;
        if (ret_node) *ret_node = which;
    }
    close_follower(&f);
    return st;
}

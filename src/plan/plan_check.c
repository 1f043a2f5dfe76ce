/* plan_check.c -- replays a plan and trusts nobody.
 *
 * Knows no planner and no executor: only the graph's rules and the sizes.  Everything that a
 * plan may do is a transition of one small state per root (drawn below); whatever is not in the
 * drawing breaks the rule that is named.
 *
 *              run, redo            out                wait
 *      ABSENT -----------> HERE ----------> HERE+going ------> HERE+saved
 *        ^                  |                                      |
 *        |       drop, over |                                 drop |
 *        +------------------+      ABSENT+saved <------------------+
 *                                     |  in            wait
 *                                     +-----> COMING ---------> HERE+saved
 */
#include "plan/plan.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "plan/fixed.h"

typedef enum where { ABSENT, HERE, COMING } where;

typedef struct root_state {
    where    where;
    bool     going;      /* a copy out is under way                      */
    bool     saved;      /* the tier has it                              */
    uint32_t place;      /* index of its present place; UINT32_MAX: none */
    uint32_t next, prev; /* neighbours in the list of its slot; UINT32_MAX: none */
} root_state;

typedef struct replay {
    const zi_plan  *plan;
    const zi_graph *g;
    const zi_cost  *c;
    zi_tensor_id   *root;
    root_state     *state;   /* per tensor; roots only */
    bool           *has_run; /* per node */
    uint32_t       *in_slot; /* per slot: first root that lies there; UINT32_MAX: empty */
    uint64_t        now_bytes, budget_bytes, tier_used;
    uint32_t        act;
    uint32_t        next_place;
    zi_verdict     *v;
} replay;

__attribute__((format(printf, 3, 4))) static zico_status
broken(replay *r, int rule, const char *fmt, ...)
{
    va_list ap;
    r->v->rule = rule;
    r->v->bad_act = r->act;
    va_start(ap, fmt);
    vsnprintf(r->v->text, sizeof r->v->text, fmt, ap);
    va_end(ap);
    return ZICO_E_NOPLAN;
}

static const char *
tname(const replay *r, zi_tensor_id t)
{
    return r->g->tensors[t].name;
}

static zico_status
grow(replay *r, uint64_t bytes)
{
    r->now_bytes += bytes;
    if (r->now_bytes > r->v->peak_bytes) {
        r->v->peak_bytes = r->now_bytes;
        r->v->peak_act = r->act;
    }
    if (r->budget_bytes && r->now_bytes > r->budget_bytes)
        return broken(r, 7, "act %u needs %llu bytes, the budget is %llu", r->act,
                      (unsigned long long)r->now_bytes,
                      (unsigned long long)r->budget_bytes);
    return ZICO_OK;
}

/* -- placement (P8) --------------------------------------------------------------------- */

static uint64_t
place_bytes(const replay *r, const zi_place *p)
{
    if (p->tensor != ZI_ID_NONE) return r->c->tensor_bytes[p->tensor];
    return r->c->scratch_bytes[r->plan->acts[p->act].what];
}

static bool
places_overlap(const replay *r, const zi_place *a, const zi_place *b)
{
    return a->slot == b->slot && a->offset < b->offset + place_bytes(r, b) &&
           b->offset < a->offset + place_bytes(r, a);
}

static zico_status
place_fits(replay *r, const zi_place *p)
{
    if (p->slot >= r->plan->n_slots)
        return broken(r, 8, "place in slot %u of %u", p->slot, r->plan->n_slots);
    const zi_slot *s = &r->plan->slots[p->slot];
    uint64_t       bytes = place_bytes(r, p);
    if (bytes > s->size_bytes || p->offset > s->size_bytes - bytes)
        return broken(r, 8, "act %u: a place leaves slot %u", r->act, p->slot);
    if (!s->fixed && (r->act < s->first || r->act > s->last))
        return broken(r, 8, "act %u uses slot %u, which is open for acts %u to %u",
                      r->act, p->slot, s->first, s->last);
    return ZICO_OK;
}

/* Roots that are present are listed by slot, so that a newcomer is compared with its
 * neighbours only. */
static void
enter_slot(replay *r, zi_tensor_id t, uint32_t place)
{
    root_state *s = &r->state[t];
    s->place = place;
    if (place == UINT32_MAX) return;
    uint32_t *head = &r->in_slot[r->plan->places[place].slot];
    s->prev = UINT32_MAX;
    s->next = *head;
    if (*head != UINT32_MAX) r->state[*head].prev = t;
    *head = t;
}

/* A root ends: whatever was present must have lain in an open slot up to this act. */
static zico_status
leave_slot(replay *r, zi_tensor_id t)
{
    root_state *s = &r->state[t];
    if (s->place == UINT32_MAX) return ZICO_OK;
    const zi_place *p = &r->plan->places[s->place];
    const zi_slot  *slot = &r->plan->slots[p->slot];
    if (s->prev != UINT32_MAX)
        r->state[s->prev].next = s->next;
    else
        r->in_slot[p->slot] = s->next;
    if (s->next != UINT32_MAX) r->state[s->next].prev = s->prev;
    s->place = UINT32_MAX;
    if (slot->fixed || r->act <= slot->last) return ZICO_OK;
    r->act = slot->last + 1;
    return broken(r, 8, "%s is there until act %u, its slot %u only until act %u",
                  tname(r, t), r->act, p->slot, slot->last);
}

/* The place of what this act makes: must not touch anything present, but is exactly the
 * place of the input that it overwrites, if any. */
static zico_status
take_place(replay *r, zi_tensor_id t, zi_tensor_id instead_of, uint32_t *ret_place)
{
    const char *name = t == ZI_ID_NONE ? "scratch" : tname(r, t);

    *ret_place = UINT32_MAX;
    if (!r->plan->region_bytes) return ZICO_OK;
    uint32_t i = r->next_place;
    while (i < r->plan->n_places && r->plan->places[i].act == r->act &&
           r->plan->places[i].tensor != t)
        i++;
    if (i >= r->plan->n_places || r->plan->places[i].act != r->act)
        return broken(r, 8, "act %u: no place for %s", r->act, name);
    const zi_place *p = &r->plan->places[i];
    zico_status     st = place_fits(r, p);
    if (st < 0) return st;
    if (instead_of != ZI_ID_NONE) {
        const zi_place *q = &r->plan->places[r->state[instead_of].place];
        if (p->slot != q->slot || p->offset != q->offset)
            return broken(r, 8, "act %u: %s is not where %s is, which it overwrites",
                          r->act, name, tname(r, instead_of));
    }
    for (uint32_t o = r->in_slot[p->slot]; o != UINT32_MAX; o = r->state[o].next)
        if (o != instead_of && places_overlap(r, p, &r->plan->places[r->state[o].place]))
            return broken(r, 8, "act %u: the place of %s overlaps %s", r->act, name,
                          tname(r, o));
    *ret_place = i;
    return ZICO_OK;
}

static zico_status
slots_sound(replay *r)
{
    for (uint32_t i = 0; i < r->plan->n_slots; i++) {
        const zi_slot *s = &r->plan->slots[i];
        r->in_slot[i] = UINT32_MAX;
        if (!r->plan->region_bytes || s->size_bytes % r->plan->region_bytes)
            return broken(r, 8, "slot %u is no multiple of the region size", i);
        if (!s->fixed && s->first > s->last)
            return broken(r, 8, "slot %u closes before it opens", i);
    }
    return ZICO_OK;
}

/* -- nodes -------------------------------------------------------------------------------- */

static zico_status
may_read(replay *r, zi_node_id id, zi_tensor_id t)
{
    zi_tensor_id     root = r->root[t];
    const zi_tensor *x = &r->g->tensors[t];

    if (x->producer != ZI_ID_NONE && !r->has_run[x->producer])
        return broken(r, 1, "%s reads %s before it is made", r->g->nodes[id].name,
                      x->name);
    zi_node_id updater = r->g->tensors[root].updater; /* also through a view */
    if (updater != ZI_ID_NONE && r->has_run[updater])
        return broken(r, r->has_run[id] ? 5 : 1, "%s reads %s after its update",
                      r->g->nodes[id].name, x->name);
    if (r->state[root].where != HERE)
        return broken(r, 2, "%s reads %s, which is %s", r->g->nodes[id].name, x->name,
                      r->state[root].where == COMING ? "still on its way in" : "absent");
    return ZICO_OK;
}

/* Each bit of `over` names a pair that the op has, and no output twice. */
static zico_status
over_sound(replay *r, const zi_act *a)
{
    const zi_node    *n = &r->g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);

    if (a->over >> 2) return broken(r, 3, "%s: there is no such pair", n->name);
    for (uint32_t pair = 0; pair < 2; pair++) {
        if (!(a->over >> pair & 1)) continue;
        int o = op->over[pair][0], i = op->over[pair][1];
        if (o < 0 || i < 0 || (uint32_t)o >= n->n_out || (uint32_t)i >= n->n_in ||
            n->out[o] == ZI_ID_NONE || n->in[i] == ZI_ID_NONE)
            return broken(r, 3, "%s has no pair %u to overwrite", n->name, pair);
    }
    if (a->over == 3 && (op->over[0][0] == op->over[1][0] ||
                         n->in[op->over[0][1]] == n->in[op->over[1][1]]))
        return broken(r, 3, "%s overwrites the same twice", n->name);
    return ZICO_OK;
}

/* The input that output `o` is written over; NONE: it gets bytes of its own. */
static zico_status
over_input(replay *r, const zi_act *a, uint32_t o, zi_tensor_id *ret_in)
{
    const zi_node    *n = &r->g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);

    *ret_in = ZI_ID_NONE;
    for (uint32_t pair = 0; pair < 2; pair++) {
        if (!(a->over >> pair & 1) || op->over[pair][0] != (int)o) continue;
        uint32_t i = (uint32_t)op->over[pair][1];
        if (!zi_graph_may_overwrite(r->g, a->what, o, i))
            return broken(r, 3, "%s may not write output %u over input %u", n->name, o,
                          i);
        zi_tensor_id in = n->in[i];
        if (r->root[in] != in || r->state[in].where != HERE || r->state[in].going)
            return broken(r, 3, "%s overwrites %s, which is not free for it", n->name,
                          tname(r, in));
        if (r->c->tensor_bytes[in] != r->c->tensor_bytes[n->out[o]])
            return broken(r, 3, "%s overwrites %s, which has another size", n->name,
                          tname(r, in));
        *ret_in = in;
    }
    return ZICO_OK;
}

static zico_status
make_output(replay *r, const zi_act *a, uint32_t o)
{
    zi_tensor_id out = r->g->nodes[a->what].out[o], in;
    zico_status  st;

    if (out == ZI_ID_NONE || r->root[out] != out)
        return ZICO_OK; /* unwanted, or a view */
    root_state *s = &r->state[out];
    uint32_t    place;
    if (s->where == COMING)
        return broken(r, 3, "%s is made while on its way in", tname(r, out));
    if ((st = over_input(r, a, o, &in)) < 0) return st;
    if (s->where == HERE && in != ZI_ID_NONE)
        return broken(r, 3, "%s is here and cannot take another's place", tname(r, out));
    if (s->where == HERE) return ZICO_OK; /* redo: the same bits again */
    if ((st = take_place(r, out, in, &place)) < 0) return st;
    if (in != ZI_ID_NONE) {
        r->state[in].where = ABSENT;
        if ((st = leave_slot(r, in)) < 0) return st;
    } else if ((st = grow(r, r->c->tensor_bytes[out])) < 0)
        return st;
    s->where = HERE;
    enter_slot(r, out, place);
    return ZICO_OK;
}

static zico_status
replay_node(replay *r, const zi_act *a)
{
    const zi_node *n;
    zico_status    st;
    uint32_t       place;

    if (a->what >= r->g->n_nodes) return broken(r, 1, "there is no node %u", a->what);
    n = &r->g->nodes[a->what];
    unsigned flags = zi_op_get(n->op)->flags;
    if (a->kind == ZI_ACT_RUN && r->has_run[a->what])
        return broken(r, 1, "%s runs twice", n->name);
    if (a->kind == ZI_ACT_REDO && !r->has_run[a->what])
        return broken(r, 5, "%s is done again before it has run", n->name);
    if (a->kind == ZI_ACT_REDO &&
        (!(flags & ZI_OPF_RECOMPUTE) || (flags & ZI_OPF_STATEFUL)))
        return broken(r, 5, "%s may not be done again", n->name);

    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE && (st = may_read(r, a->what, n->in[i])) < 0)
            return st;
    if ((st = over_sound(r, a)) < 0) return st;
    for (uint32_t i = 0; i < n->n_out; i++)
        if ((st = make_output(r, a, i)) < 0) return st;

    uint64_t scratch = r->c->scratch_bytes[a->what];
    if (scratch > 0) {
        if ((st = take_place(r, ZI_ID_NONE, ZI_ID_NONE, &place)) < 0) return st;
        if ((st = grow(r, scratch)) < 0) return st;
        r->now_bytes -= scratch;
    }
    r->has_run[a->what] = true;
    if (a->kind == ZI_ACT_REDO) {
        r->v->n_redo++;
        r->v->redo_ns += r->c->node_ns[a->what];
    }
    return ZICO_OK;
}

/* -- tensors -------------------------------------------------------------------------------- */

static zico_status
replay_tensor(replay *r, const zi_act *a)
{
    zi_tensor_id t = a->what;
    zico_status  st;
    uint32_t     place;

    if (t >= r->g->n_tensors || r->root[t] != t)
        return broken(r, 3, "act %u: %u is no tensor with bytes of its own", r->act, t);
    if (zi_plan_is_fixed(r->g, t)) return broken(r, 3, "%s is fixed", tname(r, t));
    root_state *s = &r->state[t];
    uint64_t    bytes = r->c->tensor_bytes[t];

    switch (a->kind) {
    case ZI_ACT_DROP:
        if (s->where != HERE)
            return broken(r, 3, "%s is dropped, but not here", tname(r, t));
        if (s->going)
            return broken(r, 4, "%s is dropped while on its way out", tname(r, t));
        s->where = ABSENT;
        r->now_bytes -= bytes;
        return leave_slot(r, t);
    case ZI_ACT_OUT:
        if (s->where != HERE || s->going)
            return broken(r, 3, "%s goes out, but is not here", tname(r, t));
        if (!(r->c->out_bytes_per_s > 0)) return broken(r, 4, "there is no tier");
        if (!s->saved) r->tier_used += bytes;
        if (r->tier_used > r->c->tier_bytes) return broken(r, 4, "the tier is full");
        s->going = true;
        r->v->out_bytes += bytes;
        return ZICO_OK;
    case ZI_ACT_IN:
        if (s->where != ABSENT)
            return broken(r, 3, "%s comes in, but is here", tname(r, t));
        if (!s->saved) return broken(r, 4, "%s comes in, but was never out", tname(r, t));
        if ((st = take_place(r, t, ZI_ID_NONE, &place)) < 0) return st;
        enter_slot(r, t, place);
        s->where = COMING;
        r->v->in_bytes += bytes;
        return grow(r, bytes);
    case ZI_ACT_WAIT:
        if (s->going) s->saved = true;
        s->going = false;
        if (s->where == COMING) s->where = HERE;
        return ZICO_OK;
    default:
        return broken(r, 3, "act %u: codecs are not known here yet", r->act);
    }
}

static zico_status
replay_end(replay *r)
{
    for (zi_node_id n = 0; n < r->g->n_nodes; n++)
        if (!r->has_run[n]) return broken(r, 1, "%s never runs", r->g->nodes[n].name);
    for (zi_tensor_id t = 0; t < r->g->n_tensors; t++) {
        const root_state *s = &r->state[r->root[t]];
        if (zi_graph_lives_on(r->g, t) && s->where != HERE)
            return broken(r, 6, "%s is not there at the end", tname(r, t));
        if (s->going || s->where == COMING)
            return broken(r, 6, "a copy of %s is under way at the end", tname(r, t));
    }
    if (r->act > 0) r->act--; /* what is still there lies in slots open at the last act */
    for (zi_tensor_id t = 0; t < r->g->n_tensors; t++) {
        zico_status st = r->state[t].where == HERE ? leave_slot(r, t) : ZICO_OK;
        if (st < 0) return st;
    }
    return ZICO_OK;
}

/* The fixed tensors that have a place: in fixed slots, and not on one another. */
static zico_status
fixed_places(replay *r)
{
    const zi_plan *plan = r->plan;
    for (;
         r->next_place < plan->n_places && plan->places[r->next_place].act == UINT32_MAX;
         r->next_place++) {
        const zi_place *p = &plan->places[r->next_place];
        if (p->tensor >= r->g->n_tensors || !zi_plan_is_fixed(r->g, p->tensor) ||
            r->root[p->tensor] != p->tensor)
            return broken(r, 8, "a fixed place holds what is not fixed");
        if (p->slot >= plan->n_slots || !plan->slots[p->slot].fixed)
            return broken(r, 8, "%s is not in a fixed slot", tname(r, p->tensor));
        if (r->state[p->tensor].place != UINT32_MAX)
            return broken(r, 8, "%s has two fixed places", tname(r, p->tensor));
        zico_status st = place_fits(r, p);
        if (st < 0) return st;
        for (uint32_t o = r->in_slot[p->slot]; o != UINT32_MAX; o = r->state[o].next)
            if (places_overlap(r, p, &plan->places[r->state[o].place]))
                return broken(r, 8, "%s overlaps %s", tname(r, p->tensor), tname(r, o));
        enter_slot(r, p->tensor, r->next_place);
    }
    return ZICO_OK;
}

/* What is there before the step: fixed tensors, in fixed slots. */
static zico_status
replay_begin(replay *r)
{
    zico_status st = slots_sound(r);
    if (st < 0) return st;
    for (zi_tensor_id t = 0; t < r->g->n_tensors; t++) {
        r->state[t].place = UINT32_MAX;
        if (r->root[t] == t && zi_plan_is_fixed(r->g, t)) r->state[t].where = HERE;
    }
    if ((st = fixed_places(r)) < 0) return st;
    for (zi_tensor_id t = 0; t < r->g->n_tensors && r->plan->region_bytes; t++)
        if (r->state[t].where == HERE && r->state[t].place == UINT32_MAX)
            return broken(r, 8, "%s has no place", tname(r, t));
    r->v->fixed_bytes = zi_cost_fixed_bytes(r->g, r->c);
    return grow(r, r->v->fixed_bytes);
}

static zico_status
replay_all(replay *r)
{
    zico_status st = replay_begin(r);

    for (r->act = 0; r->act < r->plan->n_acts && st >= 0; r->act++) {
        const zi_act *a = &r->plan->acts[r->act];
        while (r->next_place < r->plan->n_places &&
               r->plan->places[r->next_place].act != UINT32_MAX &&
               r->plan->places[r->next_place].act < r->act)
            r->next_place++;
        if (a->kind == ZI_ACT_RUN || a->kind == ZI_ACT_REDO)
            st = replay_node(r, a);
        else
            st = replay_tensor(r, a);
        if (st < 0) return st;
    }
    return st < 0 ? st : replay_end(r);
}

zico_status
zi_plan_check(const zi_plan *plan, const zi_graph *graph, const zi_cost *cost,
              uint64_t budget_bytes, zi_verdict *ret_verdict)
{
    replay      r = {.plan = plan, .g = graph, .c = cost, .budget_bytes = budget_bytes};
    zico_status st = ZICO_E_NOMEM;

    *ret_verdict = (zi_verdict){.bad_act = UINT32_MAX};
    r.v = ret_verdict;
    r.root = zi_calloc(graph->n_tensors + 1u, sizeof *r.root);
    r.state = zi_calloc(graph->n_tensors + 1u, sizeof *r.state);
    r.has_run = zi_calloc(graph->n_nodes + 1u, sizeof *r.has_run);
    r.in_slot = zi_calloc(plan->n_slots + 1u, sizeof *r.in_slot);
    if (r.root && r.state && r.has_run && r.in_slot) {
        zi_plan_roots(graph, r.root);
        st = replay_all(&r);
    }
    zi_free(r.root);
    zi_free(r.state);
    zi_free(r.has_run);
    zi_free(r.in_slot);
    return st;
}

/* exec_compile.c -- from the plan's acts and places to commands and pieces. */
#include "exec/exec_private.h"

#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

typedef struct compiler {
    zi_exec      *e;
    zi_tensor_id *root;
    uint64_t     *view_off; /* [n_tensors] inside the root */
    exec_ref     *now;      /* [n_tensors] where a root is */
    uint32_t      next_place, n_refs;
} compiler;

static void
view_offsets(compiler *c)
{
    const zi_graph *g = c->e->g;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        zi_tensor_id at = t;
        for (;;) {
            uint64_t     off = 0;
            zi_tensor_id of = zi_graph_view_of(g, at, &off);
            if (of == ZI_ID_NONE) break;
            c->view_off[t] += off;
            at = of;
        }
    }
}

static exec_ref
ref_of(const compiler *c, zi_tensor_id t)
{
    if (t == ZI_ID_NONE) return (exec_ref){.slot = EXEC_NOWHERE};
    exec_ref r = c->now[c->root[t]];
    zi_assert(r.slot != EXEC_NOWHERE);
    r.offset += c->view_off[t];
    return r;
}

/* Fed tensors live in slots of their own, one per step under way. */
static void
place_fixed(compiler *c)
{
    zi_exec       *e = c->e;
    const zi_plan *p = e->prog.plan;

    while (c->next_place < p->n_places && p->places[c->next_place].act == UINT32_MAX) {
        const zi_place *w = &p->places[c->next_place++];
        exec_ref        r = {w->slot, w->offset};
        const uint32_t  f = e->feed_of[w->tensor];
        if (f != EXEC_NOWHERE) {
            e->feeds[f].home = r;
            r = (exec_ref){p->n_slots + f, 0};
        }
        c->now[w->tensor] = r;
    }
}

/* The places that come with act `a`; the scratch's is returned. */
static exec_ref
place_act(compiler *c, uint32_t a)
{
    const zi_plan *p = c->e->prog.plan;
    exec_ref       scratch = {.slot = EXEC_NOWHERE};

    while (c->next_place < p->n_places && p->places[c->next_place].act == a) {
        const zi_place *w = &p->places[c->next_place++];
        const exec_ref  r = {w->slot, w->offset};
        if (w->tensor == ZI_ID_NONE)
            scratch = r;
        else
            c->now[w->tensor] = r;
    }
    return scratch;
}

/* Where in the tier its copy goes, from the first one on. */
void
exec_tier_place(zi_exec *e, zi_tensor_id t)
{
    const uint64_t bytes = e->cost->tensor_bytes[t];

    if (e->prog.tier_at[t] != UINT64_MAX) return;
    e->prog.tier_at[t] = e->prog.tier_bytes;
    e->prog.tier_bytes += (bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
}

static void
node_refs(compiler *c, exec_cmd *cmd, const exec_ref *in)
{
    const zi_node *n = &c->e->g->nodes[cmd->what];
    exec_ref      *to = c->e->prog.refs + c->n_refs;

    cmd->first_ref = c->n_refs;
    cmd->n_refs = n->n_in + n->n_out + n->n_up;
    for (uint32_t i = 0; i < n->n_in; i++) *to++ = in[i];
    for (uint32_t i = 0; i < n->n_out; i++) *to++ = ref_of(c, n->out[i]);
    for (uint32_t i = 0; i < n->n_up; i++) *to++ = ref_of(c, n->up[i]);
    c->n_refs += cmd->n_refs;
}

static zico_status
compile_act(compiler *c, uint32_t a)
{
    zi_exec      *e = c->e;
    const zi_act *act = &e->prog.plan->acts[a];
    exec_cmd     *cmd = &e->prog.cmds[a];

    *cmd = (exec_cmd){.kind = act->kind, .what = act->what};
    if (act->kind == ZI_ACT_RUN || act->kind == ZI_ACT_REDO) {
        const zi_node *n = &e->g->nodes[act->what];
        exec_ref      *in = zi_malloc((n->n_in + 1u) * sizeof *in);
        if (!in) return ZICO_E_NOMEM;
        for (uint32_t i = 0; i < n->n_in; i++) in[i] = ref_of(c, n->in[i]);
        cmd->scratch = place_act(c, a); /* outputs may take the inputs' places */
        node_refs(c, cmd, in);
        zi_free(in);
        return ZICO_OK;
    }
    if (act->kind == ZI_ACT_ENCODE || act->kind == ZI_ACT_DECODE)
        return ZICO_E_UNSUPPORTED;
    if (act->kind == ZI_ACT_DROP) {
        c->now[act->what].slot = EXEC_NOWHERE;
        return ZICO_OK;
    }
    if (!e->opt.tier && act->kind != ZI_ACT_WAIT) return ZICO_E_UNSUPPORTED;
    (void)place_act(c, a);
    if (act->kind == ZI_ACT_OUT) exec_tier_place(e, act->what);
    cmd->first_ref = c->n_refs;
    cmd->n_refs = 1;
    e->prog.refs[c->n_refs++] = ref_of(c, act->what);
    cmd->tier_at = e->prog.tier_at[act->what];
    cmd->bytes = e->cost->tensor_bytes[act->what];
    if (act->kind != ZI_ACT_WAIT) cmd->copy = e->prog.n_copies++;
    return ZICO_OK;
}

/* -- pieces ------------------------------------------------------------------------------ */

static bool
is_copy(zi_act_kind k)
{
    return k == ZI_ACT_OUT || k == ZI_ACT_IN || k == ZI_ACT_WAIT;
}

static int
by_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static zico_status
list_slots(zi_exec *e)
{
    const uint32_t n = e->prog.plan->n_slots;
    uint64_t      *key = zi_malloc((n + 1u) * sizeof *key);

    e->prog.open_at = zi_malloc((n + 1u) * sizeof *e->prog.open_at);
    e->prog.close_at = zi_malloc((n + 1u) * sizeof *e->prog.close_at);
    if (!key || !e->prog.open_at || !e->prog.close_at) {
        zi_free(key);
        return ZICO_E_NOMEM;
    }
    for (int side = 0; side < 2; side++) { /* insertion sort: nearly sorted already */
        uint32_t *list = side ? e->prog.close_at : e->prog.open_at, m = 0;
        for (uint32_t s = 0; s < n; s++) {
            const zi_slot *w = &e->prog.plan->slots[s];
            if (w->fixed) continue;
            uint64_t k = side ? w->last : w->first;
            uint32_t i = m++;
            for (; i > 0 && key[i - 1] > k; i--) {
                key[i] = key[i - 1];
                list[i] = list[i - 1];
            }
            key[i] = k;
            list[i] = s;
        }
    }
    zi_free(key);
    return ZICO_OK;
}

/* What the acts [begin, end) take, as far as it is known before they ever ran. */
static uint64_t
work_ns(const zi_exec *e, uint32_t begin, uint32_t end)
{
    uint64_t sum = 0;

    for (uint32_t a = begin; a < end; a++) {
        const exec_cmd *cmd = &e->prog.cmds[a];
        if (cmd->kind == ZI_ACT_RUN || cmd->kind == ZI_ACT_REDO)
            sum += e->cost->node_ns[cmd->what];
    }
    return sum;
}

/* The last act from which there is work for EXEC_LEAD_NS before act `a`. */
static uint32_t
act_ahead_of(const zi_exec *e, uint32_t a)
{
    uint64_t sum = 0;

    while (a > 0 && sum < EXEC_LEAD_NS) {
        a--;
        sum += work_ns(e, a, a + 1);
    }
    return a;
}

/* Slots are opened when there is just so much work under way as hides the way to the broker: memory
 * that is leased sooner is others' memory. */
static void
set_leads(zi_exec *e)
{
    for (uint32_t i = 0; i < e->prog.n_pieces; i++) {
        exec_piece *p = &e->prog.pieces[i];
        uint64_t    sum = 0;
        p->lead = p->n_open ? 1 : EXEC_LEAD;
        while (p->lead < EXEC_LEAD && p->lead <= i && sum < EXEC_LEAD_NS) {
            const exec_piece *before = &e->prog.pieces[i - p->lead++];
            sum += work_ns(e, before->begin, before->end);
        }
    }
}

/* A piece ends where a copy act stands, and, in a session, where a slot opens or closes, and a
 * little before it opens. */
static zico_status
cut_pieces(zi_exec *e)
{
    const uint32_t n = e->prog.plan->n_acts;
    uint32_t *cut = zi_malloc((3u * e->prog.plan->n_slots + 2u * n + 4u) * sizeof *cut);
    uint32_t  m = 0;

    if (!cut) return ZICO_E_NOMEM;
    cut[m++] = 0;
    cut[m++] = n;
    for (uint32_t a = 0; a < n; a++)
        if (is_copy(e->prog.cmds[a].kind)) {
            cut[m++] = a;
            cut[m++] = a + 1;
        }
    for (uint32_t s = 0; e->session && s < e->prog.plan->n_slots; s++) {
        if (e->prog.plan->slots[s].fixed) continue;
        cut[m++] = act_ahead_of(e, e->prog.plan->slots[s].first);
        cut[m++] = e->prog.plan->slots[s].first;
        cut[m++] = e->prog.plan->slots[s].last + 1;
    }
    qsort(cut, m, sizeof *cut, by_u32);
    e->prog.pieces = zi_calloc(m + 1u, sizeof *e->prog.pieces);
    if (!e->prog.pieces) {
        zi_free(cut);
        return ZICO_E_NOMEM;
    }
    uint32_t open = 0, close = 0, n_step = 0;
    for (uint32_t s = 0; s < e->prog.plan->n_slots; s++)
        n_step += !e->prog.plan->slots[s].fixed;
    for (uint32_t i = 0; i + 1 < m; i++) {
        if (cut[i] == cut[i + 1]) continue;
        exec_piece *p = &e->prog.pieces[e->prog.n_pieces++];
        *p = (exec_piece){.begin = cut[i],
                          .end = cut[i + 1],
                          .first_open = open,
                          .first_close = close};
        while (open < n_step && e->prog.plan->slots[e->prog.open_at[open]].first < p->end)
            open++;
        while (close < n_step &&
               e->prog.plan->slots[e->prog.close_at[close]].last < p->end)
            close++;
        p->n_open = open - p->first_open;
        p->n_close = close - p->first_close;
    }
    set_leads(e);
    zi_free(cut);
    return ZICO_OK;
}

static uint32_t
count_refs(const zi_exec *e)
{
    uint32_t n = 0;

    for (uint32_t a = 0; a < e->prog.plan->n_acts; a++) {
        const zi_act *act = &e->prog.plan->acts[a];
        if (act->kind == ZI_ACT_RUN || act->kind == ZI_ACT_REDO) {
            const zi_node *w = &e->g->nodes[act->what];
            n += w->n_in + w->n_out + w->n_up;
        } else {
            n++;
        }
    }
    return n;
}

static zico_status
compile(compiler *c, zi_graph_diag *diag)
{
    zi_exec *e = c->e;

    memset(c->now, 0xff, (e->g->n_tensors + 1u) * sizeof *c->now);
    zi_plan_roots(e->g, c->root);
    view_offsets(c);
    place_fixed(c);
    for (uint32_t a = 0; a < e->prog.plan->n_acts; a++) {
        zico_status st = compile_act(c, a);
        if (st >= 0) continue;
        if (diag) {
            *diag = (zi_graph_diag){.node = ZI_ID_NONE};
            strcpy(diag->text, e->opt.tier
                                   ? "the plan has acts that the executor does not know"
                                   : "the plan moves tensors out, but there is no tier");
        }
        return st;
    }
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++)
        if (c->now[c->root[t]].slot != EXEC_NOWHERE) e->prog.last_ref[t] = ref_of(c, t);
    if (e->prog.tier_bytes) ZI_TRY(zi_tier_reserve(e->opt.tier, e->prog.tier_bytes));
    ZI_TRY(list_slots(e));
    return cut_pieces(e);
}

zico_status
exec_compile(zi_exec *e, zi_graph_diag *diag)
{
    const size_t n = e->g->n_tensors + 1u;
    compiler     c = {.e = e};
    zico_status  st = ZICO_E_NOMEM;

    c.root = zi_calloc(n, sizeof *c.root);
    c.view_off = zi_calloc(n, sizeof *c.view_off);
    c.now = zi_calloc(n, sizeof *c.now);
    if (!e->prog.tier_at) {
        e->prog.tier_at = zi_malloc(n * sizeof *e->prog.tier_at);
        if (e->prog.tier_at) memset(e->prog.tier_at, 0xff, n * sizeof *e->prog.tier_at);
    }
    e->prog.last_ref = zi_malloc(n * sizeof *e->prog.last_ref);
    e->prog.cmds = zi_calloc(e->prog.plan->n_acts + 1u, sizeof *e->prog.cmds);
    e->prog.refs = zi_calloc(count_refs(e) + 1u, sizeof *e->prog.refs);
    if (c.root && c.view_off && c.now && e->prog.tier_at && e->prog.last_ref &&
        e->prog.cmds && e->prog.refs) {
        memset(e->prog.last_ref, 0xff, n * sizeof *e->prog.last_ref);
        st = compile(&c, diag);
    }
    zi_free(c.root);
    zi_free(c.view_off);
    zi_free(c.now);
    return st;
}

/* -- the middle of a step -------------------------------------------------------------------- */

static void
end_overwritten(const zi_exec *e, const zi_act *a, exec_ref *now)
{
    const zi_node    *n = &e->g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);

    for (uint32_t pair = 0; pair < 2; pair++)
        if (a->over >> pair & 1)
            now[n->in[(uint32_t)op->over[pair][1]]].slot = EXEC_NOWHERE;
}

void
exec_replay(const zi_exec *e, uint32_t n_acts, exec_ref *ret_now, bool *ret_saved)
{
    const zi_plan *p = e->prog.plan;
    uint32_t       next = 0;

    memset(ret_now, 0xff, (e->g->n_tensors + 1u) * sizeof *ret_now);
    memset(ret_saved, 0, (e->g->n_tensors + 1u) * sizeof *ret_saved);
    while (next < p->n_places && p->places[next].act == UINT32_MAX) next++;
    for (uint32_t a = 0; a < n_acts; a++) {
        const zi_act *act = &p->acts[a];
        if (act->kind == ZI_ACT_RUN || act->kind == ZI_ACT_REDO)
            end_overwritten(e, act, ret_now);
        if (act->kind == ZI_ACT_OUT) ret_saved[act->what] = true;
        if (act->kind == ZI_ACT_DROP) ret_now[act->what].slot = EXEC_NOWHERE;
        for (; next < p->n_places && p->places[next].act == a; next++)
            if (p->places[next].tensor != ZI_ID_NONE)
                ret_now[p->places[next].tensor] =
                    (exec_ref){p->places[next].slot, p->places[next].offset};
    }
}

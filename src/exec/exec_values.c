/* exec_values.c -- values in plain layout, beginnings, costs and events. */
#include "exec/exec_private.h"

#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "graph/random.h"

static bool
is_kept(zi_role r)
{
    return r == ZI_ROLE_PARAM || r == ZI_ROLE_STATE;
}

/* Where the tensor lies between steps; NULL: nowhere. */
static char *
resting_place(const zi_exec *e, zi_tensor_id t)
{
    const zi_role   r = e->g->tensors[t].role;
    const exec_run *run = e->last_run ? e->last_run : &e->runs[0];

    if (e->prog.last_ref[t].slot == EXEC_NOWHERE) return NULL;
    if (e->kept && e->kept[t]) return e->kept[t];
    if (e->away) return NULL;
    if (!is_kept(r) && r != ZI_ROLE_INPUT && r != ZI_ROLE_LABEL &&
        (!zi_graph_lives_on(e->g, t) || !e->last_run || e->renewed))
        return NULL;
    return exec_at(run, e->prog.last_ref[t]);
}

zico_status
zi_exec_get(zi_exec *e, zi_tensor_id t, void *ret_data, size_t n_bytes)
{
    if (t >= e->g->n_tensors) return ZICO_E_ARG;
    if (n_bytes != e->g->tensors[t].bytes) return ZICO_E_SHAPE;
    ZI_TRY(zi_exec_drain(e));
    const char *at = resting_place(e, t);
    if (!at && e->away && is_kept(e->g->tensors[t].role))
        return exec_get_away(e, t, ret_data);
    return at ? zi_bound_unpack(e->bound, t, at, ret_data) : ZICO_E_STATE;
}

zico_status
zi_exec_set(zi_exec *e, zi_tensor_id t, const void *data, size_t n_bytes)
{
    if (t >= e->g->n_tensors || !is_kept(e->g->tensors[t].role)) return ZICO_E_ARG;
    if (n_bytes != e->g->tensors[t].bytes) return ZICO_E_SHAPE;
    ZI_TRY(zi_exec_drain(e));
    char *at = resting_place(e, t);
    e->fresh = false;
    return at ? zi_bound_pack(e->bound, t, data, at) : ZICO_E_STATE;
}

/* -- beginnings -------------------------------------------------------------------------------- */

static uint32_t
name_hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++) h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}

/* Four numbers in (0, 1] for elements 4i .. 4i+3. */
static void
uniform4(uint64_t i, uint32_t stream, uint64_t seed, float ret[4])
{
    uint32_t lane[4];

    zi_graph_philox(i, stream, 0, seed, lane);
    for (int l = 0; l < 4; l++) ret[l] = ((float)lane[l] + 0.5f) * 2.3283064e-10f;
}

static void
fill_init(const zi_tensor *t, uint64_t seed, float *ret)
{
    const int64_t  n = zi_tensor_elems(t);
    const uint32_t stream = name_hash(t->name);
    const float    a = (float)t->init.a, b = (float)t->init.b;

    if (t->init.kind == ZI_INIT_CONST) {
        for (int64_t i = 0; i < n; i++) ret[i] = a;
        return;
    }
    for (int64_t i = 0; i < n; i += 4) {
        float u[4], v[4];
        uniform4((uint64_t)i / 4, stream, seed, u);
        if (t->init.kind == ZI_INIT_UNIFORM) {
            for (int l = 0; l < 4; l++) v[l] = a + (b - a) * u[l];
        } else { /* Box and Muller */
            for (int l = 0; l < 4; l += 2) {
                float r = sqrtf(-2 * logf(u[l])), s, c;
                sincosf(6.2831853f * u[l + 1], &s, &c);
                v[l] = a + b * r * c;
                v[l + 1] = a + b * r * s;
            }
        }
        for (int l = 0; l < 4 && i + l < n; l++) ret[i + l] = v[l];
    }
}

static zico_status
init_tensor(zi_exec *e, zi_tensor_id t, uint64_t seed)
{
    const zi_tensor *x = &e->g->tensors[t];
    char            *at = resting_place(e, t);

    if (!at) return ZICO_OK; /* a view: its root is set */
    if (x->init.kind == ZI_INIT_VALUE && x->value)
        return zi_bound_pack(e->bound, t, x->value, at);
    if (x->init.kind == ZI_INIT_NONE || x->dtype != ZI_DTYPE_F32 ||
        (x->init.kind == ZI_INIT_CONST && x->init.a == 0)) {
        if (!e->fresh) memset(at, 0, e->bound->view[t].layout.bytes);
        return ZICO_OK;
    }
    float *plain = zi_malloc(x->bytes);
    if (!plain) return ZICO_E_NOMEM;
    fill_init(x, seed, plain);
    zico_status st = zi_bound_pack(e->bound, t, plain, at);
    zi_free(plain);
    return st;
}

zico_status
zi_exec_init(zi_exec *e, uint64_t seed)
{
    if (e->away) return ZICO_E_STATE;
    ZI_TRY(zi_exec_drain(e));
    for (zi_tensor_id t = 0; t < e->g->n_tensors; t++)
        if (is_kept(e->g->tensors[t].role)) ZI_TRY(init_tensor(e, t, seed));
    e->fresh = false;
    return ZICO_OK;
}

/* -- looking ------------------------------------------------------------------------------------- */

void
zi_exec_read_memory(const zi_exec *e, zi_exec_memory *ret_memory)
{
    uint64_t staging = 0;

    for (uint32_t f = 0; f < e->n_feeds; f++)
        staging += e->feeds[f].bytes * (e->n_runs - 1);
    *ret_memory = (zi_exec_memory){.fixed_bytes = zi_cost_fixed_bytes(e->g, e->cost),
                                   .peak_live_bytes = e->prog.place.peak_live_bytes,
                                   .peak_slot_bytes = e->prog.place.peak_slot_bytes,
                                   .outside_bytes = staging + e->kept_bytes,
                                   .mean_ratio = e->prog.place.mean_ratio};
}

zico_status
zi_exec_measured(zi_exec *e, zi_cost **ret_cost)
{
    zi_cost *c;

    ZI_TRY(zi_exec_drain(e));
    ZI_TRY(zi_bound_cost(e->bound, &c));
    for (zi_node_id i = 0; i < e->g->n_nodes; i++)
        if (e->node_runs[i]) c->node_ns[i] = (uint64_t)(e->node_ns[i] / e->node_runs[i]);
    memcpy(c->tensor_bytes, e->cost->tensor_bytes,
           c->n_tensors * sizeof *c->tensor_bytes);
    memcpy(c->scratch_bytes, e->cost->scratch_bytes,
           c->n_nodes * sizeof *c->scratch_bytes);
    *ret_cost = c;
    return ZICO_OK;
}

void
zi_exec_forget_times(zi_exec *e)
{
    if (zi_exec_drain(e) < 0) return;
    memset(e->node_ns, 0, e->g->n_nodes * sizeof *e->node_ns);
    memset(e->node_runs, 0, e->g->n_nodes * sizeof *e->node_runs);
}

size_t
zi_exec_events(zi_exec *e, zi_exec_event *ret_events, size_t cap)
{
    size_t n = 0;

    if (zi_exec_drain(e) < 0 || !e->last_run || e->renewed) return 0;
    const exec_run *r = e->last_run;
    for (uint32_t a = 0; a < e->prog.plan->n_acts; a++) {
        if (e->prog.cmds[a].kind == ZI_ACT_DROP) continue;
        if (n < cap)
            ret_events[n] = (zi_exec_event){.step = r->step,
                                            .kind = e->prog.cmds[a].kind,
                                            .what = e->prog.cmds[a].what,
                                            .begin_ns = r->lane->begin_ns[a],
                                            .end_ns = r->lane->end_ns[a]};
        n++;
    }
    return n;
}

const zi_plan *
zi_exec_plan(const zi_exec *e)
{
    return e->prog.plan;
}

const zi_graph *
zi_exec_graph(const zi_exec *e)
{
    return e->g;
}

const char *
zi_exec_kernel_text(const zi_exec *e, zi_node_id n)
{
    return n < e->g->n_nodes && e->bound->node[n].k.text ? e->bound->node[n].k.text : "";
}

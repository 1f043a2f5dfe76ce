/* cost.c -- what nodes and copies take. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"
#include "plan/fixed.h"

zico_status
zi_cost_new(const zi_graph *g, zi_cost **ret_cost)
{
    zi_cost *c = zi_calloc(1, sizeof *c);
    if (!c) return ZICO_E_NOMEM;
    c->n_nodes = g->n_nodes;
    c->n_tensors = g->n_tensors;
    c->node_ns = zi_calloc(g->n_nodes + 1u, sizeof *c->node_ns);
    c->scratch_bytes = zi_calloc(g->n_nodes + 1u, sizeof *c->scratch_bytes);
    c->tensor_bytes = zi_calloc(g->n_tensors + 1u, sizeof *c->tensor_bytes);
    if (!c->node_ns || !c->scratch_bytes || !c->tensor_bytes) {
        zi_cost_free(c);
        return ZICO_E_NOMEM;
    }
    c->tier_bytes = UINT64_MAX;
    *ret_cost = c;
    return ZICO_OK;
}

void
zi_cost_free(zi_cost *c)
{
    if (!c) return;
    zi_free(c->node_ns);
    zi_free(c->scratch_bytes);
    zi_free(c->tensor_bytes);
    zi_free(c);
}

uint64_t
zi_cost_fixed_bytes(const zi_graph *g, const zi_cost *c)
{
    uint64_t sum = 0;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        if (zi_plan_is_fixed(g, t)) sum += c->tensor_bytes[t];
    return sum;
}

/* Multiply-adds of a HEAVY node.  A product of (i,s) and (s,j) into (i,j) has operands whose
 * sizes multiply to (i s j)^2; convolutions without overlap follow the same rule. */
static double
heavy_macs(const zi_graph *g, const zi_node *n)
{
    double product = (double)zi_tensor_elems(&g->tensors[n->out[0]]);
    for (uint32_t i = 0; i < 2 && i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE)
            product *= (double)zi_tensor_elems(&g->tensors[n->in[i]]);
    return sqrt(product);
}

static uint64_t
touched_bytes(const zi_graph *g, const zi_node *n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE) sum += g->tensors[n->in[i]].bytes;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] != ZI_ID_NONE) sum += g->tensors[n->out[i]].bytes;
    for (uint32_t i = 0; i < n->n_up; i++) sum += 2 * g->tensors[n->up[i]].bytes;
    return sum;
}

zico_status
zi_cost_guess(const zi_graph *g, zi_cost **ret_cost)
{
    const double bytes_per_ns = 8.0, macs_per_ns = 40.0; /* of one present-day core */
    zi_cost     *c;

    ZI_TRY(zi_cost_new(g, &c));
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        uint64_t offset;
        c->tensor_bytes[t] =
            zi_graph_view_of(g, t, &offset) == ZI_ID_NONE ? g->tensors[t].bytes : 0;
    }
    for (zi_node_id i = 0; i < g->n_nodes; i++) {
        const zi_node    *n = &g->nodes[i];
        const zi_op_info *op = zi_op_get(n->op);
        if (op->flags & ZI_OPF_VIEW) continue;
        double ns = (double)touched_bytes(g, n) / bytes_per_ns;
        if ((op->flags & ZI_OPF_HEAVY) && n->n_out > 0)
            ns += heavy_macs(g, n) / macs_per_ns;
        c->node_ns[i] = 500 + (uint64_t)ns;
    }
    c->out_bytes_per_s = 1.5e9;
    c->in_bytes_per_s = 3.0e9;
    c->copy_latency_ns = 100000;
    *ret_cost = c;
    return ZICO_OK;
}

zico_status
zi_cost_plain(const zi_graph *g, const zi_cost *c, bool instant, zi_cost **ret_cost)
{
    const double at_once = 1e15; /* bytes a second: a nanosecond for a megabyte */
    zi_cost     *plain;

    ZI_TRY(zi_cost_guess(g, &plain));
    memcpy(plain->tensor_bytes, c->tensor_bytes, g->n_tensors * sizeof *c->tensor_bytes);
    memcpy(plain->scratch_bytes, c->scratch_bytes, g->n_nodes * sizeof *c->scratch_bytes);
    plain->tier_bytes = c->tier_bytes;
    if (instant) {
        plain->out_bytes_per_s = plain->in_bytes_per_s = at_once;
        plain->copy_latency_ns = 0;
    }
    if (!(c->out_bytes_per_s > 0 && c->in_bytes_per_s > 0))
        plain->out_bytes_per_s = plain->in_bytes_per_s = 0;
    *ret_cost = plain;
    return ZICO_OK;
}

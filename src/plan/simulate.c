/* simulate.c -- how long a plan takes: three queues, and computation that stands at waits. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "plan/fixed.h"

typedef struct clocks {
    uint64_t compute_ns, out_ns, in_ns; /* when each queue is free */
    uint64_t stall_ns, busy_ns;
    double   byte_ns;   /* integral of memory over computation's time */
    uint64_t now_bytes; /* held now                                   */
} clocks;

static uint64_t
copy_ns(uint64_t bytes, double bytes_per_s, uint64_t latency_ns)
{
    return latency_ns + (uint64_t)((double)bytes / bytes_per_s * 1e9);
}

static void
pass(clocks *k, uint64_t until_ns)
{
    if (until_ns <= k->compute_ns) return;
    k->byte_ns += (double)k->now_bytes * (double)(until_ns - k->compute_ns);
    k->compute_ns = until_ns;
}

/* A copy begins when its queue is free and its act has been reached. */
static uint64_t
queue_copy(uint64_t *queue_ns, uint64_t not_before_ns, uint64_t takes_ns)
{
    uint64_t start = *queue_ns > not_before_ns ? *queue_ns : not_before_ns;
    *queue_ns = start + takes_ns;
    return *queue_ns;
}

static void
simulate_node(clocks *k, const zi_act *a, const zi_graph *g, const zi_cost *c,
              bool *present, const zi_tensor_id *root)
{
    const zi_node    *n = &g->nodes[a->what];
    const zi_op_info *op = zi_op_get(n->op);

    for (uint32_t pair = 0; pair < 2; pair++)
        if (a->over >> pair & 1) {
            zi_tensor_id in = n->in[(uint32_t)op->over[pair][1]];
            present[in] = false;
            k->now_bytes -= c->tensor_bytes[in];
        }
    for (uint32_t i = 0; i < n->n_out; i++) {
        zi_tensor_id out = n->out[i];
        if (out == ZI_ID_NONE || root[out] != out || present[out]) continue;
        present[out] = true;
        k->now_bytes += c->tensor_bytes[out];
    }
    k->busy_ns += c->node_ns[a->what];
    pass(k, k->compute_ns + c->node_ns[a->what]);
}

static void
simulate_act(clocks *k, const zi_act *a, const zi_graph *g, const zi_cost *c,
             bool *present, const zi_tensor_id *root, uint64_t *done_ns)
{
    uint64_t bytes;
    switch (a->kind) {
    case ZI_ACT_RUN:
    case ZI_ACT_REDO:
        simulate_node(k, a, g, c, present, root);
        return;
    case ZI_ACT_DROP:
        present[a->what] = false;
        k->now_bytes -= c->tensor_bytes[a->what];
        return;
    case ZI_ACT_OUT:
        bytes = c->tensor_bytes[a->what];
        done_ns[a->what] =
            queue_copy(&k->out_ns, k->compute_ns,
                       copy_ns(bytes, c->out_bytes_per_s, c->copy_latency_ns));
        return;
    case ZI_ACT_IN:
        bytes = c->tensor_bytes[a->what];
        present[a->what] = true;
        k->now_bytes += bytes;
        done_ns[a->what] =
            queue_copy(&k->in_ns, k->compute_ns,
                       copy_ns(bytes, c->in_bytes_per_s, c->copy_latency_ns));
        return;
    case ZI_ACT_WAIT:
        if (done_ns[a->what] > k->compute_ns) {
            k->stall_ns += done_ns[a->what] - k->compute_ns;
            pass(k, done_ns[a->what]);
        }
        return;
    default:
        return;
    }
}

zico_status
zi_plan_simulate(const zi_plan *plan, const zi_graph *graph, const zi_cost *cost,
                 uint64_t *ret_end_ns, zi_forecast *ret_forecast)
{
    zi_verdict    v;
    clocks        k = {.now_bytes = zi_cost_fixed_bytes(graph, cost)};
    bool         *present = zi_calloc(graph->n_tensors + 1u, sizeof *present);
    uint64_t     *done_ns = zi_calloc(graph->n_tensors + 1u, sizeof *done_ns);
    zi_tensor_id *root = zi_calloc(graph->n_tensors + 1u, sizeof *root);
    zico_status   st = ZICO_E_NOMEM;

    if (!present || !done_ns || !root) goto undo;
    st = zi_plan_check(plan, graph, cost, 0, &v);
    if (st < 0) goto undo;
    zi_plan_roots(graph, root);
    for (uint32_t i = 0; i < plan->n_acts; i++) {
        simulate_act(&k, &plan->acts[i], graph, cost, present, root, done_ns);
        if (ret_end_ns) ret_end_ns[i] = k.compute_ns;
    }
    uint64_t end = k.compute_ns;
    if (k.out_ns > end) end = k.out_ns;
    if (k.in_ns > end) end = k.in_ns;
    *ret_forecast = (zi_forecast){
        .step_ns = end,
        .busy_ns = k.busy_ns,
        .stall_ns = k.stall_ns,
        .peak_bytes = v.peak_bytes,
        .mean_bytes = k.compute_ns ? (uint64_t)(k.byte_ns / (double)k.compute_ns) : 0,
    };
undo:
    zi_free(present);
    zi_free(done_ns);
    zi_free(root);
    return st;
}

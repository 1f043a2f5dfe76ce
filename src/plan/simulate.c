/* simulate.c -- how long a plan takes: three queues, and computation that stands at waits.
 *
 * The two queues of copies are followed only as far as computation looks (I1): when it waits for a
 * copy, or at the end of the step.  A copy that has company from the other direction is slower
 * (zi_cost.out_beside, in_beside).
 *
 * I1  copies are known up to at_ns <= compute_ns; what is queued later begins no earlier
 */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"
#include "base/vec.h"
#include "plan/fixed.h"

typedef struct copy {
    zi_tensor_id what;
    uint64_t     from_ns; /* its act: not before                     */
    double       left_ns; /* of work, at full speed                  */
} copy;

typedef struct queue {
    ZI_VEC(copy) all;
    size_t   next;   /* the first that is not over */
    double   beside; /* its speed while the other one works, as a part of its own */
    uint64_t busy_ns;
} queue;

typedef struct clocks {
    queue     out, in;
    uint64_t  at_ns;   /* I1 */
    uint64_t *done_ns; /* per tensor: its last copy was over then; UINT64_MAX: not yet */
    uint64_t  compute_ns; /* computation's own clock */
    uint64_t  stall_ns, busy_ns;
    double    byte_ns;   /* integral of memory over computation's time */
    uint64_t  now_bytes; /* held now                                   */
} clocks;

static void
pass(clocks *k, uint64_t until_ns)
{
    if (until_ns <= k->compute_ns) return;
    k->byte_ns += (double)k->now_bytes * (double)(until_ns - k->compute_ns);
    k->compute_ns = until_ns;
}

/* -- copies -------------------------------------------------------------------------------- */

/* The copy begins at once; the moment that it takes from computation runs beside it, so that
 * whoever stands waiting for the copy does not wait for that, too. */
static zico_status
begin_copy(clocks *k, queue *q, zi_tensor_id t, const zi_cost *c, double bytes_per_s)
{
    double ns = (double)((uint64_t)((double)c->tensor_bytes[t] / bytes_per_s * 1e9));
    copy   x = {t, k->compute_ns, (double)c->copy_latency_ns + ns};

    k->done_ns[t] = UINT64_MAX;
    k->busy_ns += c->copy_cpu_ns;
    pass(k, k->compute_ns + c->copy_cpu_ns);
    return zi_vec_push(&q->all, x);
}

/* The copy that the queue is at; NULL: none. */
static copy *
head(queue *q)
{
    return q->next < q->all.n ? &q->all.at[q->next] : NULL;
}

/* When something happens next to this queue if nothing happens to the other. */
static uint64_t
next_event(const copy *h, double speed, uint64_t at_ns)
{
    if (!h) return UINT64_MAX;
    if (h->from_ns > at_ns) return h->from_ns;
    double ns = h->left_ns / speed;
    return at_ns + (uint64_t)ns + ((double)(uint64_t)ns < ns);
}

static void
work(clocks *k, queue *q, copy *h, double speed, uint64_t until_ns)
{
    if (!h || h->from_ns > k->at_ns) return;
    q->busy_ns += until_ns - k->at_ns;
    h->left_ns -= (double)(until_ns - k->at_ns) * speed;
    if (h->left_ns > 0) return;
    k->done_ns[h->what] = until_ns;
    q->next++;
}

/* Both queues, up to the next thing that happens to one of them; false: nothing will. */
static bool
follow_copies(clocks *k)
{
    copy    *o = head(&k->out), *i = head(&k->in);
    bool     both = o && i && o->from_ns <= k->at_ns && i->from_ns <= k->at_ns;
    double   out_speed = both ? k->out.beside : 1, in_speed = both ? k->in.beside : 1;
    uint64_t out_at = next_event(o, out_speed, k->at_ns);
    uint64_t in_at = next_event(i, in_speed, k->at_ns);
    uint64_t until = out_at < in_at ? out_at : in_at;

    if (until == UINT64_MAX) return false;
    work(k, &k->out, o, out_speed, until);
    work(k, &k->in, i, in_speed, until);
    k->at_ns = until;
    return true;
}

static void
await(clocks *k, zi_tensor_id t)
{
    while (k->done_ns[t] == UINT64_MAX && follow_copies(k)) {
    }
    zi_assert(k->done_ns[t] != UINT64_MAX);
    if (k->done_ns[t] <= k->compute_ns) return;
    k->stall_ns += k->done_ns[t] - k->compute_ns;
    pass(k, k->done_ns[t]);
}

/* -- acts ---------------------------------------------------------------------------------- */

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

static zico_status
simulate_act(clocks *k, const zi_act *a, const zi_graph *g, const zi_cost *c,
             bool *present, const zi_tensor_id *root)
{
    switch (a->kind) {
    case ZI_ACT_RUN:
    case ZI_ACT_REDO:
        simulate_node(k, a, g, c, present, root);
        return ZICO_OK;
    case ZI_ACT_DROP:
        present[a->what] = false;
        k->now_bytes -= c->tensor_bytes[a->what];
        return ZICO_OK;
    case ZI_ACT_OUT:
        return begin_copy(k, &k->out, a->what, c, c->out_bytes_per_s);
    case ZI_ACT_IN:
        present[a->what] = true;
        k->now_bytes += c->tensor_bytes[a->what];
        return begin_copy(k, &k->in, a->what, c, c->in_bytes_per_s);
    case ZI_ACT_WAIT:
        await(k, a->what);
        return ZICO_OK;
    default:
        return ZICO_OK;
    }
}

/* The plan is valid.  The step is over when computation and the last copy are. */
static zico_status
simulate(clocks *k, const zi_plan *plan, const zi_graph *g, const zi_cost *c,
         bool *present, zi_tensor_id *root, uint64_t *ret_end_ns)
{
    zi_plan_roots(g, root);
    for (uint32_t i = 0; i < plan->n_acts; i++) {
        ZI_TRY(simulate_act(k, &plan->acts[i], g, c, present, root));
        if (ret_end_ns) ret_end_ns[i] = k->compute_ns;
    }
    while (follow_copies(k)) {
    }
    return ZICO_OK;
}

static double
speed_beside(double part)
{
    return part > 0 && part < 1 ? part : 1;
}

zico_status
zi_plan_simulate(const zi_plan *plan, const zi_graph *graph, const zi_cost *cost,
                 uint64_t *ret_end_ns, zi_forecast *ret_forecast)
{
    zi_verdict    v;
    clocks        k = {.now_bytes = zi_cost_fixed_bytes(graph, cost),
                       .out.beside = speed_beside(cost->out_beside),
                       .in.beside = speed_beside(cost->in_beside)};
    bool         *present = zi_calloc(graph->n_tensors + 1u, sizeof *present);
    zi_tensor_id *root = zi_calloc(graph->n_tensors + 1u, sizeof *root);
    zico_status   st = ZICO_E_NOMEM;

    k.done_ns = zi_calloc(graph->n_tensors + 1u, sizeof *k.done_ns);
    if (present && k.done_ns && root) st = zi_plan_check(plan, graph, cost, 0, &v);
    if (st >= 0) st = simulate(&k, plan, graph, cost, present, root, ret_end_ns);
    if (st >= 0)
        *ret_forecast = (zi_forecast){
            .step_ns = k.at_ns > k.compute_ns ? k.at_ns : k.compute_ns,
            .busy_ns = k.busy_ns,
            .stall_ns = k.stall_ns,
            .out_ns = k.out.busy_ns,
            .in_ns = k.in.busy_ns,
            .peak_bytes = v.peak_bytes,
            .mean_bytes = k.compute_ns ? (uint64_t)(k.byte_ns / (double)k.compute_ns) : 0,
        };
    zi_vec_free(&k.out.all);
    zi_vec_free(&k.in.all);
    zi_free(present);
    zi_free(k.done_ns);
    zi_free(root);
    return st;
}

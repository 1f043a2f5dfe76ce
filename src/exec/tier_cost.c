/* tier_cost.c -- from the speeds of a tier to the costs of copies. */
#include "exec/tier_cost.h"

#include "base/try.h"

#define COPY_LATENCY 50000u /* ns that a copy of no bytes takes */
#define FIT_ROUNDS   4

void
zi_tier_cost_set(zi_cost *c, const zi_tier_speed *v, unsigned n_threads)
{
    const zi_tier_speed none = {0};

    if (!v) v = &none;
    c->out_bytes_per_s = v->out_bytes_per_s;
    c->in_bytes_per_s = v->in_bytes_per_s;
    c->out_beside = v->out_beside;
    c->in_beside = v->in_beside;
    c->copy_latency_ns = COPY_LATENCY;
    c->copy_cpu_ns = n_threads == 0 ? v->copy_cpu_ns : 0;
}

static double
fitted(double bytes_per_s, uint64_t foreseen_ns, uint64_t seen_ns)
{
    return foreseen_ns && seen_ns ? bytes_per_s * (double)foreseen_ns / (double)seen_ns
                                  : bytes_per_s;
}

zico_status
zi_tier_cost_fit(zi_cost *c, const zi_plan *plan, const zi_graph *graph, uint64_t out_ns,
                 uint64_t in_ns)
{
    zi_forecast f;

    for (int i = 0; i < FIT_ROUNDS && (out_ns || in_ns); i++) {
        ZI_TRY(zi_plan_simulate(plan, graph, c, NULL, &f));
        c->out_bytes_per_s = fitted(c->out_bytes_per_s, f.out_ns, out_ns);
        c->in_bytes_per_s = fitted(c->in_bytes_per_s, f.in_ns, in_ns);
    }
    return ZICO_OK;
}

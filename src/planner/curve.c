/* curve.c -- a segment tree with addition to ranges and the maximum of all. */
#include "planner/curve.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

zico_status
zi_curve_new(uint32_t n_nodes, zi_curve *ret_curve)
{
    zi_curve k = {.n = n_nodes, .n_up = 1};
    while (k.n_up < n_nodes) k.n_up *= 2;
    k.top = zi_calloc(2u * (size_t)k.n_up, sizeof *k.top);
    k.more = zi_calloc(2u * (size_t)k.n_up, sizeof *k.more);
    if (!k.top || !k.more) {
        zi_curve_free(&k);
        return ZICO_E_NOMEM;
    }
    *ret_curve = k;
    return ZICO_OK;
}

void
zi_curve_free(zi_curve *k)
{
    zi_free(k->top);
    zi_free(k->more);
    *k = (zi_curve){0};
}

static void
refresh(zi_curve *k, uint32_t i)
{
    int64_t a = k->top[2 * i], b = k->top[2 * i + 1];
    k->top[i] = (a > b ? a : b) + k->more[i];
}

static void
add(zi_curve *k, uint32_t i, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to,
    int64_t bytes)
{
    if (from <= lo && hi <= to) {
        k->top[i] += bytes;
        k->more[i] += bytes;
        return;
    }
    uint32_t mid = lo + (hi - lo) / 2;
    if (from < mid) add(k, 2 * i, lo, mid, from, to, bytes);
    if (to > mid) add(k, 2 * i + 1, mid, hi, from, to, bytes);
    refresh(k, i);
}

void
zi_curve_add(zi_curve *k, uint32_t from, uint32_t to, int64_t bytes)
{
    zi_assert(to <= k->n);
    if (from < to) add(k, 1, 0, k->n_up, from, to, bytes);
}

int64_t
zi_curve_peak(const zi_curve *k)
{
    return k->top[1];
}

uint32_t
zi_curve_peak_at(const zi_curve *k)
{
    uint32_t i = 1;
    while (i < k->n_up) i = k->top[2 * i] >= k->top[2 * i + 1] ? 2 * i : 2 * i + 1;
    return i - k->n_up;
}

zico_status
zi_curve_of_plan(zi_curve *k, const zi_plan *plan, const zi_graph *g, const zi_cost *c,
                 const zi_tensor_id *root)
{
    bool    *here = zi_calloc(g->n_tensors + 1u, sizeof *here);
    int64_t  now = (int64_t)zi_cost_fixed_bytes(g, c), high = 0;
    uint32_t at = 0;

    if (!here) return ZICO_E_NOMEM;
    memset(k->more, 0, 2u * (size_t)k->n_up * sizeof *k->more);
    memset(k->top, 0, 2u * (size_t)k->n_up * sizeof *k->top);
    for (uint32_t i = 0; i < plan->n_acts; i++) {
        const zi_act *a = &plan->acts[i];
        if (a->kind == ZI_ACT_RUN || a->kind == ZI_ACT_REDO) {
            const zi_node    *n = &g->nodes[a->what];
            const zi_op_info *op = zi_op_get(n->op);
            for (int pair = 0; pair < 2; pair++)
                if (a->over >> pair & 1) {
                    here[n->in[op->over[pair][1]]] = false;
                    now -= (int64_t)c->tensor_bytes[n->in[op->over[pair][1]]];
                }
            for (uint32_t o = 0; o < n->n_out; o++) {
                zi_tensor_id t = n->out[o];
                if (t == ZI_ID_NONE || root[t] != t || here[t]) continue;
                here[t] = true;
                now += (int64_t)c->tensor_bytes[t];
            }
            int64_t most = now + (int64_t)c->scratch_bytes[a->what];
            if (most > high) high = most;
            if (a->kind == ZI_ACT_RUN) {
                k->top[k->n_up + at++] = high;
                high = 0;
            }
        } else if (a->kind == ZI_ACT_DROP) {
            here[a->what] = false;
            now -= (int64_t)c->tensor_bytes[a->what];
        } else if (a->kind == ZI_ACT_IN) {
            here[a->what] = true;
            now += (int64_t)c->tensor_bytes[a->what];
            if (now > high) high = now;
        }
    }
    for (uint32_t i = k->n_up; i-- > 1;) refresh(k, i);
    zi_free(here);
    return ZICO_OK;
}

/* plan.c -- making and taking apart plans. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/check.h"

zico_status
zi_plan_new(const char *planner, zi_plan **ret_plan)
{
    zi_plan *p = zi_calloc(1, sizeof *p);
    if (!p) return ZICO_E_NOMEM;
    p->planner = zi_strdup(planner);
    if (!p->planner) {
        zi_free(p);
        return ZICO_E_NOMEM;
    }
    *ret_plan = p;
    return ZICO_OK;
}

uint64_t
zi_plan_fixed_bytes(const zi_plan *p)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < p->n_slots && p->slots[s].fixed; s++)
        sum += p->slots[s].size_bytes;
    return sum;
}

void
zi_plan_free(zi_plan *p)
{
    if (!p) return;
    zi_free(p->planner);
    zi_free(p->acts);
    zi_free(p->slots);
    zi_free(p->places);
    zi_free(p);
}

zico_status
zi_plan_add(zi_plan *p, zi_act act)
{
    zi_assert(act.kind < ZI_ACT_COUNT);
    if (p->n_acts == p->cap_acts) {
        uint32_t cap = p->cap_acts ? p->cap_acts * 2 : 256;
        zi_act  *acts;
        if (cap < p->cap_acts) return ZICO_E_LIMIT;
        acts = zi_realloc_array(p->acts, cap, sizeof *acts);
        if (!acts) return ZICO_E_NOMEM;
        p->acts = acts;
        p->cap_acts = cap;
    }
    p->acts[p->n_acts++] = act;
    return ZICO_OK;
}

void
zi_plan_roots(const zi_graph *g, zi_tensor_id *ret_root)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        zi_tensor_id root = t, up;
        uint64_t     offset;
        while ((up = zi_graph_view_of(g, root, &offset)) != ZI_ID_NONE) root = up;
        ret_root[t] = root;
    }
}

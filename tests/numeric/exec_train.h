/* exec_train.h -- a zoo network as a graph that trains, and a step of it on made-up data. */
#ifndef ZI_EXEC_TRAIN_H
#define ZI_EXEC_TRAIN_H

#include "exec/exec.h"
#include "graph/zoo/zoo.h"
#include "test.h"

/* Fused, differentiated, with its updates. */
static inline zi_graph *
xt_graph(const char *spec, int64_t batch, uint64_t seed, zi_optim_kind kind)
{
    zi_graph     *g;
    zi_graph_diag diag = {0};
    zi_optim      o = zi_optim_default(kind);
    zico_status   st = zi_zoo_build(spec, batch, true, seed, &diag, &g);

    if (st >= 0) st = zi_graph_fuse(g, &diag);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &diag);
    if (st >= 0) st = zi_graph_add_update(g, &o, &diag);
    if (st < 0) fail_msg("%s: %s", spec, diag.text);
    return g;
}

static inline bool
xt_is_fed(const zi_graph *g, zi_tensor_id t)
{
    const zi_role r = g->tensors[t].role;
    return (r == ZI_ROLE_INPUT || r == ZI_ROLE_LABEL) && t != g->lr && t != g->step;
}

/* Numbers in [-1, 1), whole ones below n_labels; the same for the same r. */
static inline void
xt_fill(const zi_tensor *x, uint64_t n_labels, uint64_t *r, void *ret)
{
    for (int64_t i = 0; i < zi_tensor_elems(x); i++) {
        *r = *r * 6364136223846793005ull + 1442695040888963407ull;
        if (x->dtype == ZI_DTYPE_F32)
            ((float *)ret)[i] = (float)(*r >> 40) / 8388608.0f - 1.0f;
        else
            ((int32_t *)ret)[i] = (int32_t)((*r >> 40) % n_labels);
    }
}

/* Step `no` on the data that `seed` makes. */
static inline void
xt_step(zi_exec *e, const zi_graph *g, uint64_t no, uint64_t seed, uint64_t n_labels,
        float lr)
{
    zi_exec_feed feeds[8] = {0};
    size_t       n = 0;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        if (!xt_is_fed(g, t)) continue;
        assert_true(n < sizeof feeds / sizeof *feeds);
        void *data = calloc(1, g->tensors[t].bytes);
        assert_non_null(data);
        xt_fill(&g->tensors[t], n_labels, &seed, data);
        feeds[n++] = (zi_exec_feed){t, data};
    }
    expect_ok(zi_exec_step(e, feeds, n, lr, no));
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
}

#endif

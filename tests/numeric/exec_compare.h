/* exec_compare.h -- run a graph in the executor and in the reference, compare every tensor. */
#ifndef ZI_EXEC_COMPARE_H
#define ZI_EXEC_COMPARE_H

#include <math.h>
#include "exec/exec.h"
#include "support/graph_ref.h"
#include "test.h"

/* Doubles of the reference as plain bytes of the tensor's type, and back. */
static inline void *
cmp_bytes(const zi_graph *g, zi_tensor_id t, const double *v)
{
    const zi_tensor *x = &g->tensors[t];
    const int64_t    n = zi_tensor_elems(x);
    uint8_t         *p = calloc(1, x->bytes + 8);

    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) switch (x->dtype) {
        case ZI_DTYPE_F32:
            ((float *)p)[i] = (float)v[i];
            break;
        case ZI_DTYPE_I32:
            ((int32_t *)p)[i] = (int32_t)v[i];
            break;
        case ZI_DTYPE_I64:
            ((int64_t *)p)[i] = (int64_t)v[i];
            break;
        case ZI_DTYPE_U8:
            p[i] = (uint8_t)v[i];
            break;
        case ZI_DTYPE_BIT:
            p[i / 8] |= (uint8_t)((v[i] != 0) << (i % 8));
            break;
        default:
            fail();
        }
    return p;
}

static inline double
cmp_value(const zi_tensor *x, const void *p, int64_t i)
{
    switch (x->dtype) {
    case ZI_DTYPE_F32:
        return (double)((const float *)p)[i];
    case ZI_DTYPE_I32:
        return ((const int32_t *)p)[i];
    case ZI_DTYPE_I64:
        return (double)((const int64_t *)p)[i];
    case ZI_DTYPE_U8:
        return ((const uint8_t *)p)[i];
    case ZI_DTYPE_BIT:
        return ((const uint8_t *)p)[i / 8] >> (i % 8) & 1;
    default:
        fail();
        return 0;
    }
}

/* The reference starts from what the executor can hold. */
static inline void
cmp_round(const zi_graph *g, double **v)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++)
        for (int64_t i = 0; v[t] && g->tensors[t].dtype == ZI_DTYPE_F32 &&
                            i < zi_tensor_elems(&g->tensors[t]);
             i++)
            v[t][i] = (double)(float)v[t][i];
}

static inline void
cmp_load(zi_exec *e, const zi_graph *g, double **v)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_role r = g->tensors[t].role;
        if (r != ZI_ROLE_PARAM && r != ZI_ROLE_STATE) continue;
        void *p = cmp_bytes(g, t, v[t]);
        expect_ok(zi_exec_set(e, t, p, g->tensors[t].bytes));
        free(p);
    }
}

static inline void
cmp_step(zi_exec *e, const zi_graph *g, double **v, float lr, uint64_t step)
{
    zi_exec_feed *feeds = calloc(g->n_tensors + 1, sizeof *feeds);
    size_t        n = 0;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_role r = g->tensors[t].role;
        if ((r != ZI_ROLE_INPUT && r != ZI_ROLE_LABEL) || t == g->lr || t == g->step)
            continue;
        feeds[n++] = (zi_exec_feed){t, cmp_bytes(g, t, v[t])};
    }
    expect_ok(zi_exec_step(e, feeds, n, lr, step));
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
    free(feeds);
}

/* Relative error of a tensor: L2 of the difference over L2 of the reference, or over
 * `least` where the reference is about 0. */
static inline double
cmp_error(zi_exec *e, const zi_graph *g, zi_tensor_id t, const double *want, double least)
{
    const zi_tensor *x = &g->tensors[t];
    void            *p = malloc(x->bytes + 8);
    double           d = 0, n = 0;

    expect_ok(zi_exec_get(e, t, p, x->bytes));
    for (int64_t i = 0; i < zi_tensor_elems(x); i++) {
        double got = cmp_value(x, p, i);
        d += (got - want[i]) * (got - want[i]);
        n += want[i] * want[i];
    }
    free(p);
    least += 1e-3 * sqrt((double)zi_tensor_elems(x));
    return isnan(d) ? INFINITY : sqrt(d) / (sqrt(n) + least);
}

/* Elements of a mask or an index that differ. */
static inline int64_t
cmp_differ(zi_exec *e, const zi_graph *g, zi_tensor_id t, const double *want)
{
    const zi_tensor *x = &g->tensors[t];
    void            *p = malloc(x->bytes + 8);
    int64_t          n = 0;

    expect_ok(zi_exec_get(e, t, p, x->bytes));
    for (int64_t i = 0; i < zi_tensor_elems(x); i++) n += cmp_value(x, p, i) != want[i];
    free(p);
    return n;
}

typedef struct cmp_options {
    unsigned n_threads, n_steps;
    bool     plain;     /* own kernels only */
    bool     all;       /* node by node, every tensor; else only what lives on */
    double   tolerance; /* relative */
    int64_t  n_classes;
} cmp_options;

static inline void
cmp_tensor(zi_exec *e, const zi_graph *g, zi_tensor_id t, const double *want,
           double least, double tolerance)
{
    const zi_node_id p = g->tensors[t].producer;
    double           err;

    if (g->tensors[t].dtype == ZI_DTYPE_F32) {
        err = cmp_error(e, g, t, want, least);
    } else { /* one bit may flip where a value is within rounding of an edge, or two tie */
        const int64_t most = 1 + zi_tensor_elems(&g->tensors[t]) / 2000;
        err = cmp_differ(e, g, t, want) <= most ? 0 : INFINITY;
    }
    if (err <= tolerance) return;
    print_error("tensor %s of %s: relative error %g (%s)\n", g->tensors[t].name,
                p == ZI_ID_NONE ? "-" : g->nodes[p].name, err,
                p == ZI_ID_NONE ? "update" : zi_exec_kernel_text(e, p));
    fail();
}

static inline bool
cmp_stays(const zi_graph *g, zi_tensor_id t)
{
    return g->tensors[t].role == ZI_ROLE_PARAM || g->tensors[t].role == ZI_ROLE_STATE;
}

/* What lives on, and what was updated, against a reference of its own. */
static inline void
cmp_ends(zi_exec *e, const zi_graph *g, double **v, double tolerance)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_role r = g->tensors[t].role;
        if (!v[t] || r == ZI_ROLE_INPUT || r == ZI_ROLE_LABEL) continue;
        if (cmp_stays(g, t) || zi_graph_lives_on(g, t))
            cmp_tensor(e, g, t, v[t], 0, tolerance);
    }
}

/* Sums over a batch may cancel: their terms give the scale. */
static inline double
cmp_terms(const zi_graph *g, const zi_node *n, double **v)
{
    double s = 0;

    if (n->n_in == 0 || n->in[0] == ZI_ID_NONE || g->tensors[n->out[0]].rank < 3)
        return 0;
    for (int64_t i = 0; i < zi_tensor_elems(&g->tensors[n->in[0]]); i++)
        s += v[n->in[0]][i] * v[n->in[0]][i];
    return 5e-3 * sqrt(s);
}

/* Node by node: the reference gets the executor's inputs, so that errors do not add up. */
static inline void
cmp_nodes(zi_exec *e, const zi_graph *g, double **v, uint32_t step, double tolerance)
{
    for (zi_node_id n = 0; n < g->n_nodes; n++) {
        const zi_node *w = &g->nodes[n];
        zi_ref_run_part(g, n, n + 1, step, v);
        for (uint32_t i = 0; i < w->n_up; i++)
            cmp_tensor(e, g, w->up[i], v[w->up[i]], 0, tolerance);
        for (uint32_t i = 0; i < w->n_out; i++) {
            const zi_tensor_id t = w->out[i];
            if (t == ZI_ID_NONE) continue;
            /* gradients of scale and shift are sums that nearly cancel */
            const bool sum = w->op == ZI_OP_BATCH_NORM_BWD && (i == 1 || i == 2);
            cmp_tensor(e, g, t, v[t], cmp_terms(g, w, v),
                       sum ? 20 * tolerance : tolerance);
            void *p = malloc(g->tensors[t].bytes + 8);
            expect_ok(zi_exec_get(e, t, p, g->tensors[t].bytes));
            for (int64_t k = 0; k < zi_tensor_elems(&g->tensors[t]); k++)
                v[t][k] = cmp_value(&g->tensors[t], p, k);
            free(p);
        }
    }
}

/* n steps of `g` in both; with `all`, every tensor is made an output of a copy of g. */
static inline void
cmp_graph(const zi_graph *given, const cmp_options *o)
{
    zi_graph     *g;
    zi_exec      *e;
    zi_graph_diag diag = {0};

    expect_ok(zi_graph_clone(given, &g));
    for (zi_tensor_id t = 0; o->all && t < g->n_tensors; t++)
        if (g->tensors[t].producer != ZI_ID_NONE && !zi_graph_lives_on(g, t))
            expect_ok(zi_graph_add_output(g, t));
    double **v = zi_ref_new(g);
    zi_ref_fill(g, v, o->n_classes);
    cmp_round(g, v);
#if defined(__SANITIZE_THREAD__)
    const unsigned nt =
        1; /* libgomp is not instrumented: its barriers are unknown to TSan */
#else
    const unsigned nt = o->n_threads;
#endif
    zi_exec_options opt = {.graph = g, .n_threads = nt, .plain = o->plain, .seed = 1};
    zico_status     st = zi_exec_new(&opt, &diag, &e);
    if (st < 0) print_error("%s\n", diag.text);
    expect_ok(st);
    cmp_load(e, g, v);
    for (unsigned s = 1; s <= o->n_steps; s++) {
        if (g->step != ZI_ID_NONE) zi_ref_make(g, v, g->step)[0] = s;
        float lr = g->lr == ZI_ID_NONE ? 0.0f : (float)v[g->lr][0];
        cmp_step(e, g, v, lr, s);
        if (o->all) {
            cmp_nodes(e, g, v, s, o->tolerance);
            continue;
        }
        zi_ref_run(g, s, v);
        cmp_ends(e, g, v, o->tolerance);
    }
    zi_exec_free(e);
    zi_ref_free(g, v);
    zi_graph_free(g);
}

#endif /* ZI_EXEC_COMPARE_H */

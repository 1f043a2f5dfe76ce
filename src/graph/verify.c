/* verify.c -- the numbered invariants of graph.h, checked one node at a time. */
#include "graph/graph.h"
#include "graph/names.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/try.h"

#include <inttypes.h>
#include <string.h>

typedef struct check {
    const zi_graph *g;
    zi_graph_diag  *diag;
    zi_node_id      id; /* the node under the lamp */
} check;

#define BAD(c, ...) zi_graph_complain((c)->diag, ZICO_E_CORRUPT, (c)->id, __VA_ARGS__)

static bool
is_given(zi_role r)
{
    return r == ZI_ROLE_INPUT || r == ZI_ROLE_LABEL || r == ZI_ROLE_PARAM ||
           r == ZI_ROLE_STATE;
}

/* G1, G2 */
static zico_status
check_lists(const check *c, const zi_node *n)
{
    const zi_op_info *op = zi_op_get(n->op);
    if (n->n_in < op->in_min || (op->in_max < 255 && n->n_in > op->in_max) ||
        n->n_out < op->out_min || (op->out_max < 255 && n->n_out > op->out_max) ||
        n->n_up < op->up_min || n->n_up > op->up_max)
        return BAD(c, "G2: node '%s' (%s): wrong number of tensors", n->name, op->text);
    for (uint32_t i = 0; i < n->n_in + n->n_out + n->n_up; i++) {
        if (n->in[i] < c->g->n_tensors) continue;
        bool optional_in = i < n->n_in && i >= op->in_min && op->in_max < 255;
        bool optional_out = i >= n->n_in && i < n->n_in + n->n_out &&
                            i - n->n_in >= op->out_min && op->out_max < 255;
        if (n->in[i] != ZI_ID_NONE || !(optional_in || optional_out))
            return BAD(c, "G1: node '%s' (%s): position %" PRIu32 " names no tensor",
                       n->name, op->text, i);
    }
    return ZICO_OK;
}

static bool
has_reader(const zi_tensor *t, zi_node_id id)
{
    uint32_t lo = 0, hi = t->n_readers;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (t->readers[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_readers && t->readers[lo] == id;
}

/* G3, G6, G7 for inputs */
static zico_status
check_inputs(const check *c, const zi_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == ZI_ID_NONE) continue;
        const zi_tensor *t = &c->g->tensors[n->in[i]];
        if (t->producer == ZI_ID_NONE ? !is_given(t->role) : t->producer >= c->id)
            return BAD(c, "G3: node '%s' reads '%s' before it is made", n->name, t->name);
        if (!has_reader(t, c->id))
            return BAD(c, "G6: node '%s' is not among the readers of '%s'", n->name,
                       t->name);
        if (t->producer != ZI_ID_NONE && c->g->nodes[t->producer].phase > n->phase)
            return BAD(c, "G7: node '%s' (%s) reads '%s' of a later phase", n->name,
                       zi_phase_text(n->phase), t->name);
    }
    return ZICO_OK;
}

/* G3, G5, G6 for what it writes */
static zico_status
check_writes(const check *c, const zi_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (n->out[i] == ZI_ID_NONE) continue;
        const zi_tensor *t = &c->g->tensors[n->out[i]];
        if (is_given(t->role))
            return BAD(c, "G3: node '%s' makes '%s', which is there before the step",
                       n->name, t->name);
        if (t->producer != c->id)
            return BAD(c, "G3: '%s' is made by node '%s' and by another", t->name,
                       n->name);
    }
    for (uint32_t i = 0; i < n->n_up; i++) {
        const zi_tensor *t = &c->g->tensors[n->up[i]];
        if (t->role != ZI_ROLE_PARAM && t->role != ZI_ROLE_STATE)
            return BAD(c, "G5: node '%s' updates '%s', which is %s", n->name, t->name,
                       zi_role_text(t->role));
        if (t->updater != c->id)
            return BAD(c, "G5: '%s' is updated by node '%s' and by another", t->name,
                       n->name);
        if (t->n_readers && t->readers[t->n_readers - 1] >= c->id)
            return BAD(c, "G5: node '%s' updates '%s' before its last reader", n->name,
                       t->name);
    }
    return ZICO_OK;
}

static bool
same_shape(const zi_shape *a, const zi_tensor *t)
{
    if (a->dtype != t->dtype || a->rank != t->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != t->dims[i]) return false;
    return true;
}

static zico_status
compare_outputs(const check *c, const zi_node *n, const zi_shape *want)
{
    char bw[ZI_DIMS_TEXT], bt[ZI_DIMS_TEXT];
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (n->out[i] == ZI_ID_NONE) continue;
        const zi_tensor *t = &c->g->tensors[n->out[i]];
        if (!same_shape(&want[i], t))
            return BAD(c, "G4: node '%s' (%s): '%s' is %s %s, should be %s %s", n->name,
                       zi_op_get(n->op)->text, t->name, zi_dtype_text(t->dtype),
                       zi_dims_text(t->rank, t->dims, bt), zi_dtype_text(want[i].dtype),
                       zi_dims_text(want[i].rank, want[i].dims, bw));
    }
    return ZICO_OK;
}

/* An optimizer's gradient and state must look like the parameter; statistics like the
 * vectors they follow. */
static zico_status
check_update_shapes(const check *c, const zi_node *n)
{
    for (uint32_t i = 0; i < n->n_up; i++) {
        zi_shape want = zi_tensor_shape(&c->g->tensors[n->in[0]]);
        if (!same_shape(&want, &c->g->tensors[n->up[i]]))
            return BAD(c, "G4: node '%s' (%s): '%s' does not look like '%s'", n->name,
                       zi_op_get(n->op)->text, c->g->tensors[n->up[i]].name,
                       c->g->tensors[n->in[0]].name);
    }
    return ZICO_OK;
}

/* G4 */
static zico_status
check_shapes(const check *c, const zi_node *n)
{
    uint32_t         total = n->n_in + n->n_out + 1;
    zi_shape        *shape = zi_calloc(total + n->n_out, sizeof *shape);
    const zi_shape **ptr = zi_calloc(total, sizeof *ptr);
    zico_status      st = ZICO_E_NOMEM;

    if (shape && ptr) {
        zi_shape     *result = shape + total;
        zi_graph_diag inner = {.node = ZI_ID_NONE};
        zi_graph_gather(c->g, n->n_in + n->n_out, n->in, shape, ptr);
        st = zi_graph_infer(n->op, &n->attr, n->n_in, ptr, n->n_out, ptr + n->n_in,
                            &inner, result);
        if (st < 0)
            st = BAD(c, "G4: node '%.160s' (%s): %.200s", n->name, zi_op_get(n->op)->text,
                     inner.text);
        else
            st = compare_outputs(c, n, result);
    }
    zi_free(shape);
    zi_free(ptr);
    if (st >= 0) st = check_update_shapes(c, n);
    return st;
}

/* What links point back at nodes must be meant by them; names must be found. */
static zico_status
check_tensors(const check *c)
{
    const zi_graph *g = c->g;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const zi_tensor *t = &g->tensors[i];
        if (zi_graph_find_tensor(g, t->name) != i)
            return BAD(c, "G6: tensor '%s' is not found by its name", t->name);
        if (t->bytes != zi_dtype_bytes(t->dtype, zi_tensor_elems(t)))
            return BAD(c, "G4: tensor '%s' has the wrong number of bytes", t->name);
        if (t->producer == ZI_ID_NONE && !is_given(t->role))
            return BAD(c, "G3: tensor '%s' (%s) is made by nobody", t->name,
                       zi_role_text(t->role));
        for (uint32_t k = 0; k < t->n_readers; k++) {
            if (t->readers[k] >= g->n_nodes || (k && t->readers[k] <= t->readers[k - 1]))
                return BAD(c, "G6: readers of '%s' are out of order", t->name);
        }
    }
    return ZICO_OK;
}

zico_status
zi_graph_verify(const zi_graph *g, zi_graph_diag *diag)
{
    check c = {.g = g, .diag = diag, .id = ZI_ID_NONE};

    ZI_TRY(check_tensors(&c));
    zi_tensor_id special[] = {g->loss, g->lr, g->step};
    for (size_t i = 0; i < 3; i++)
        if (special[i] != ZI_ID_NONE &&
            (special[i] >= g->n_tensors || g->tensors[special[i]].rank != 0))
            return BAD(&c, "G1: loss, lr or step is not a scalar of this graph");
    for (c.id = 0; c.id < g->n_nodes; c.id++) {
        const zi_node *n = &g->nodes[c.id];
        ZI_TRY(check_lists(&c, n));
        ZI_TRY(check_inputs(&c, n));
        ZI_TRY(check_writes(&c, n));
        ZI_TRY(check_shapes(&c, n));
    }
    return ZICO_OK;
}

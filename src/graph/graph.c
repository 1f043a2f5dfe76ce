/* graph.c -- the graph's own bookkeeping: tables, making, linking, reordering. */
#include "graph/graph.h"
#include "graph/names.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- tables ----------------------------------------------------------------------- */

#define HEAVY     ZI_OPF_HEAVY
#define CHEAP     ZI_OPF_CHEAP
#define RECOMPUTE ZI_OPF_RECOMPUTE
#define RANDOM    ZI_OPF_RANDOM
#define STATEFUL  ZI_OPF_STATEFUL
#define VIEW      ZI_OPF_VIEW
#define MAYVIEW   ZI_OPF_MAYVIEW
/* clang-format off */
#define IP(o, i) {o, i}
#define NO       {-1, -1}
static const zi_op_info op_table[] = {
#define OP(name, text, attr, il, ih, ol, oh, ul, uh, flags, ip0, ip1) \
    {text, ZI_ATTR_##attr, il, ih, ol, oh, ul, uh, flags, {ip0, ip1}},
#include "graph/ops.def"
#undef OP
};
/* clang-format on */
#undef HEAVY
#undef CHEAP
#undef RECOMPUTE
#undef RANDOM
#undef STATEFUL
#undef VIEW
#undef MAYVIEW
#undef IP
#undef NO
_Static_assert(sizeof op_table / sizeof op_table[0] == ZI_OP_COUNT, "one row per op");

const zi_op_info *
zi_op_get(zi_op op)
{
    zi_assert(op < ZI_OP_COUNT);
    return &op_table[op];
}

const char *
zi_dtype_text(zi_dtype t)
{
    static const char *const text[] = {"f32", "bf16", "i32", "i64", "u8", "bit"};
    _Static_assert(sizeof text / sizeof text[0] == ZI_DTYPE_COUNT, "one text each");
    return t < ZI_DTYPE_COUNT ? text[t] : "?";
}

const char *
zi_role_text(zi_role r)
{
    static const char *const text[] = {"input",      "label", "param",  "grad",
                                       "activation", "state", "scratch"};
    _Static_assert(sizeof text / sizeof text[0] == ZI_ROLE_COUNT, "one text each");
    return r < ZI_ROLE_COUNT ? text[r] : "?";
}

const char *
zi_phase_text(zi_phase p)
{
    static const char *const text[] = {"forward", "backward", "update"};
    _Static_assert(sizeof text / sizeof text[0] == ZI_PHASE_COUNT, "one text each");
    return p < ZI_PHASE_COUNT ? text[p] : "?";
}

/* ---- small things ----------------------------------------------------------------- */

zico_status
zi_graph_complain(zi_graph_diag *d, zico_status st, zi_node_id node, const char *fmt, ...)
{
    if (!d) return st;
    va_list ap;
    va_start(ap, fmt);
    d->node = node;
    d->line = 0;
    vsnprintf(d->text, sizeof d->text, fmt, ap);
    va_end(ap);
    return st;
}

const char *
zi_dims_text(uint32_t rank, const int64_t *dims, char buf[ZI_DIMS_TEXT])
{
    int at = snprintf(buf, ZI_DIMS_TEXT, "[");
    for (uint32_t i = 0; i < rank && at < ZI_DIMS_TEXT - 24; i++)
        at += snprintf(buf + at, (size_t)(ZI_DIMS_TEXT - at), "%s%" PRId64, i ? "," : "",
                       dims[i]);
    snprintf(buf + at, (size_t)(ZI_DIMS_TEXT - at), "]");
    return buf;
}

int64_t
zi_tensor_elems(const zi_tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

uint64_t
zi_dtype_bytes(zi_dtype t, int64_t n_elems)
{
    static const uint8_t bits[] = {32, 16, 32, 64, 8, 1};
    _Static_assert(sizeof bits / sizeof bits[0] == ZI_DTYPE_COUNT, "one width each");
    zi_assert(t < ZI_DTYPE_COUNT && n_elems >= 0 && n_elems <= ZI_MAX_ELEMS);
    return ((uint64_t)n_elems * bits[t] + 7) / 8;
}

zi_shape
zi_tensor_shape(const zi_tensor *t)
{
    zi_shape s = {.dtype = t->dtype, .rank = t->rank};
    memcpy(s.dims, t->dims, sizeof s.dims);
    return s;
}

void
zi_graph_gather(const zi_graph *g, uint32_t n_in, const zi_tensor_id *in, zi_shape *shape,
                const zi_shape **ptr)
{
    for (uint32_t i = 0; i < n_in; i++) {
        ptr[i] = NULL;
        if (in[i] == ZI_ID_NONE) continue;
        shape[i] = zi_tensor_shape(&g->tensors[in[i]]);
        ptr[i] = &shape[i];
    }
}

/* Room for one more; the array doubles. */
static zico_status
reserve(void **array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return ZICO_OK;
    uint32_t bigger = *cap ? *cap * 2 : 8;
    void    *p = zi_realloc(*array, bigger * size);
    if (!p) return ZICO_E_NOMEM;
    *array = p;
    *cap = bigger;
    return ZICO_OK;
}

/* ---- making ------------------------------------------------------------------------ */

zico_status
zi_graph_new(const char *name, zi_graph **ret_graph)
{
    zi_graph *g = zi_calloc(1, sizeof *g);
    if (!g) return ZICO_E_NOMEM;
    g->loss = g->lr = g->step = ZI_ID_NONE;
    g->name = zi_strdup(name ? name : "graph");
    if (!g->name || zi_names_new(&g->names) < 0) {
        zi_graph_free(g);
        return ZICO_E_NOMEM;
    }
    *ret_graph = g;
    return ZICO_OK;
}

static void
tensor_clear(zi_tensor *t)
{
    zi_free(t->name);
    zi_free(t->value);
    zi_free(t->readers);
}

static void
node_clear(zi_node *n)
{
    zi_free(n->name);
    zi_free(n->in);
}

void
zi_graph_free(zi_graph *g)
{
    if (!g) return;
    for (uint32_t i = 0; i < g->n_tensors; i++) tensor_clear(&g->tensors[i]);
    for (uint32_t i = 0; i < g->n_nodes; i++) node_clear(&g->nodes[i]);
    zi_free(g->tensors);
    zi_free(g->nodes);
    zi_free(g->outputs);
    zi_free(g->name);
    zi_names_free(g->names);
    zi_free(g);
}

/* A copy of `want` that no other tensor (or node) has: "want", "want#1", ... */
static char *
unique_name(const zi_graph *g, zi_name_kind kind, const char *want)
{
    char buf[ZI_NAME_BYTES];

    snprintf(buf, sizeof buf - 12, "%s", want);
    size_t n = strlen(buf);
    for (uint32_t i = 1; zi_names_get(g->names, kind, buf) != ZI_ID_NONE; i++)
        snprintf(buf + n, sizeof buf - n, "#%" PRIu32, i);
    return zi_strdup(buf);
}

/* Quotes, spaces and control characters would not survive the text form. */
static bool
name_ok(const char *name)
{
    if (!name || !*name || strlen(name) >= ZI_NAME_BYTES - 12) return false;
    for (const char *p = name; *p; p++)
        if (*p <= ' ' || *p == '"' || *p == 127 || (unsigned char)*p > 127) return false;
    return true;
}

static zico_status
check_shape(uint32_t rank, const int64_t *dims, const char *name, zi_graph_diag *diag)
{
    char    buf[ZI_DIMS_TEXT];
    int64_t n = 1;

    if (rank > ZI_MAX_RANK)
        return zi_graph_complain(diag, ZICO_E_SHAPE, ZI_ID_NONE,
                                 "tensor '%s': %" PRIu32 " dims, at most %d", name, rank,
                                 ZI_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > ZI_MAX_ELEMS / n)
            return zi_graph_complain(diag, ZICO_E_SHAPE, ZI_ID_NONE,
                                     "tensor '%s': dims %s are empty or too large", name,
                                     zi_dims_text(rank, dims, buf));
        n *= dims[i];
    }
    return ZICO_OK;
}

zico_status
zi_graph_add_tensor(zi_graph *g, const zi_tensor_spec *spec, zi_graph_diag *diag,
                    zi_tensor_id *ret_id)
{
    if (!name_ok(spec->name))
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "tensor name is empty, too long, or has odd characters");
    if (spec->dtype >= ZI_DTYPE_COUNT || spec->role >= ZI_ROLE_COUNT ||
        spec->init.kind >= ZI_INIT_COUNT)
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "tensor '%s': unknown type, role or init", spec->name);
    ZI_TRY(check_shape(spec->rank, spec->dims, spec->name, diag));
    if (g->n_tensors >= ZI_MAX_NODES) return ZICO_E_LIMIT;
    ZI_TRY(
        reserve((void **)&g->tensors, g->n_tensors, &g->cap_tensors, sizeof *g->tensors));

    zi_tensor t = {.dtype = spec->dtype,
                   .role = spec->role,
                   .rank = spec->rank,
                   .init = spec->init,
                   .grad_of = ZI_ID_NONE,
                   .state_of = ZI_ID_NONE,
                   .producer = ZI_ID_NONE,
                   .updater = ZI_ID_NONE};
    for (uint32_t i = 0; i < spec->rank; i++) t.dims[i] = spec->dims[i];
    t.bytes = zi_dtype_bytes(t.dtype, zi_tensor_elems(&t));
    t.name = unique_name(g, ZI_NAME_TENSOR, spec->name);
    if (!t.name) return ZICO_E_NOMEM;
    if (spec->value) {
        t.value = zi_malloc(t.bytes);
        if (!t.value) goto nomem;
        memcpy(t.value, spec->value, t.bytes);
    }
    if (zi_names_put(g->names, ZI_NAME_TENSOR, t.name, g->n_tensors) < 0) goto nomem;
    g->tensors[g->n_tensors] = t;
    *ret_id = g->n_tensors++;
    return ZICO_OK;

nomem:
    tensor_clear(&t);
    return ZICO_E_NOMEM;
}

zico_status
zi_graph_add_output(zi_graph *g, zi_tensor_id t)
{
    zi_assert(t < g->n_tensors);
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == t) return ZICO_OK;
    zi_tensor_id *p = zi_realloc(g->outputs, (g->n_outputs + 1) * sizeof *p);
    if (!p) return ZICO_E_NOMEM;
    p[g->n_outputs++] = t;
    g->outputs = p;
    return ZICO_OK;
}

/* ---- nodes ------------------------------------------------------------------------- */

static zico_status
check_node(const zi_graph *g, const zi_node_spec *s, zi_graph_diag *diag)
{
    if (!name_ok(s->name))
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "node name is empty, too long, or has odd characters");
    if (s->op >= ZI_OP_COUNT || s->phase >= ZI_PHASE_COUNT)
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE,
                                 "node '%s': unknown operator or phase", s->name);
    const zi_op_info *info = zi_op_get(s->op);
    if (s->n_in < info->in_min || (info->in_max < 255 && s->n_in > info->in_max) ||
        s->n_out < info->out_min || (info->out_max < 255 && s->n_out > info->out_max) ||
        s->n_up < info->up_min || s->n_up > info->up_max)
        return zi_graph_complain(diag, ZICO_E_ARG, g->n_nodes,
                                 "node '%s' (%s): %" PRIu32 " inputs, %" PRIu32
                                 " outputs, %" PRIu32 " updates do not fit the operator",
                                 s->name, info->text, s->n_in, s->n_out, s->n_up);
    for (uint32_t i = 0; i < s->n_in; i++) {
        if (s->in[i] == ZI_ID_NONE ? i < info->in_min || info->in_max == 255
                                   : s->in[i] >= g->n_tensors)
            return zi_graph_complain(diag, ZICO_E_ARG, g->n_nodes,
                                     "node '%s' (%s): input %" PRIu32 " is missing",
                                     s->name, info->text, i);
    }
    for (uint32_t i = 0; i < s->n_up; i++) {
        if (s->up[i] >= g->n_tensors || g->tensors[s->up[i]].updater != ZI_ID_NONE ||
            (g->tensors[s->up[i]].role != ZI_ROLE_PARAM &&
             g->tensors[s->up[i]].role != ZI_ROLE_STATE))
            return zi_graph_complain(diag, ZICO_E_ARG, g->n_nodes,
                                     "node '%s' (%s): update %" PRIu32
                                     " is not a parameter or state of its own",
                                     s->name, info->text, i);
    }
    return ZICO_OK;
}

static zico_status
add_reader(zi_tensor *t, zi_node_id n)
{
    if (t->n_readers && t->readers[t->n_readers - 1] == n) return ZICO_OK;
    zi_assert(!t->n_readers || t->readers[t->n_readers - 1] < n);
    ZI_TRY(
        reserve((void **)&t->readers, t->n_readers, &t->cap_readers, sizeof *t->readers));
    t->readers[t->n_readers++] = n;
    return ZICO_OK;
}

zico_status
zi_graph_link_tensors(zi_graph *g, zi_node_id id)
{
    const zi_node *n = &g->nodes[id];
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] != ZI_ID_NONE) ZI_TRY(add_reader(&g->tensors[n->in[i]], id));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] != ZI_ID_NONE) g->tensors[n->out[i]].producer = id;
    for (uint32_t i = 0; i < n->n_up; i++) g->tensors[n->up[i]].updater = id;
    return ZICO_OK;
}

zico_status
zi_graph_link_node(zi_graph *g, const zi_node_spec *s, const zi_tensor_id *out,
                   zi_graph_diag *diag)
{
    ZI_TRY(check_node(g, s, diag));
    if (g->n_nodes >= ZI_MAX_NODES) return ZICO_E_LIMIT;
    ZI_TRY(reserve((void **)&g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes));

    zi_node n = {.op = s->op,
                 .phase = s->phase,
                 .forward = s->forward,
                 .n_in = s->n_in,
                 .n_out = s->n_out,
                 .n_up = s->n_up};
    if (s->attr) n.attr = *s->attr;
    n.name = unique_name(g, ZI_NAME_NODE, s->name);
    n.in = zi_malloc(((size_t)s->n_in + s->n_out + s->n_up + 1) * sizeof *n.in);
    if (!n.name || !n.in ||
        zi_names_put(g->names, ZI_NAME_NODE, n.name, g->n_nodes) < 0) {
        node_clear(&n);
        return ZICO_E_NOMEM;
    }
    n.out = n.in + s->n_in;
    n.up = n.out + s->n_out;
    for (uint32_t i = 0; i < s->n_in; i++) n.in[i] = s->in[i];
    for (uint32_t i = 0; i < s->n_out; i++) n.out[i] = out[i];
    for (uint32_t i = 0; i < s->n_up; i++) n.up[i] = s->up[i];
    g->nodes[g->n_nodes++] = n;
    return zi_graph_link_tensors(g, g->n_nodes - 1);
}

/* Name of output i: the node's, or node.i for the others. */
static zico_status
make_out(zi_graph *g, const char *node, zi_phase phase, uint32_t i, const zi_shape *shape,
         zi_graph_diag *diag, zi_tensor_id *ret_id)
{
    static const zi_role role[] = {ZI_ROLE_ACTIVATION, ZI_ROLE_GRAD, ZI_ROLE_SCRATCH};
    char                 name[ZI_NAME_BYTES];

    if (i == 0)
        snprintf(name, sizeof name, "%s", node);
    else
        snprintf(name, sizeof name - 12, "%s.%" PRIu32, node, i);
    zi_tensor_spec spec = {.name = name,
                           .dtype = shape->dtype,
                           .role = role[phase],
                           .rank = shape->rank,
                           .dims = shape->dims};
    return zi_graph_add_tensor(g, &spec, diag, ret_id);
}

/* Put the node's name in front of what inference says. */
static zico_status
blame(zi_graph_diag *diag, zico_status st, zi_node_id id, const zi_node_spec *s)
{
    if (!diag) return st;
    zi_graph_diag said = *diag;
    return zi_graph_complain(diag, st, id, "node '%.160s' (%s): %.240s", s->name,
                             zi_op_get(s->op)->text, said.text);
}

static zico_status
infer_spec(const zi_graph *g, const zi_node_spec *s, zi_graph_diag *diag, zi_shape *out)
{
    zi_shape            *shape = zi_calloc(s->n_in + 1, sizeof *shape);
    const zi_shape     **ptr = zi_calloc(s->n_in + 1, sizeof *ptr);
    static const zi_attr zero;
    zico_status          st = ZICO_E_NOMEM;

    if (shape && ptr) {
        zi_graph_gather(g, s->n_in, s->in, shape, ptr);
        st = zi_graph_infer(s->op, s->attr ? s->attr : &zero, s->n_in, ptr, s->n_out,
                            s->hint, diag, out);
        if (st < 0) st = blame(diag, st, g->n_nodes, s);
    }
    zi_free(shape);
    zi_free(ptr);
    return st;
}

zico_status
zi_graph_add_node(zi_graph *g, const zi_node_spec *s, zi_graph_diag *diag,
                  zi_tensor_id *ret_out)
{
    ZI_TRY(check_node(g, s, diag));
    zico_status   st = ZICO_E_NOMEM;
    zi_shape     *shape = zi_calloc(s->n_out + 1, sizeof *shape);
    zi_tensor_id *out = zi_calloc(s->n_out + 1, sizeof *out);
    if (!shape || !out) goto done;

    st = infer_spec(g, s, diag, shape);
    for (uint32_t i = 0; st >= 0 && i < s->n_out; i++) {
        bool wanted = i < zi_op_get(s->op)->out_min || zi_op_get(s->op)->out_max == 255 ||
                      (i < 32 && s->want_out >> i & 1);
        out[i] = ZI_ID_NONE;
        if (wanted) st = make_out(g, s->name, s->phase, i, &shape[i], diag, &out[i]);
    }
    if (st >= 0) st = zi_graph_link_node(g, s, out, diag);
    if (st >= 0) memcpy(ret_out, out, s->n_out * sizeof *out);
done:
    zi_free(shape);
    zi_free(out);
    return st;
}

/* Give the node an output list of at least n positions. */
static zico_status
widen_out(zi_node *n, uint32_t n_out)
{
    if (n->n_out >= n_out) return ZICO_OK;
    size_t        total = (size_t)n->n_in + n_out + n->n_up + 1;
    zi_tensor_id *p = zi_malloc(total * sizeof *p);
    if (!p) return ZICO_E_NOMEM;
    memcpy(p, n->in, n->n_in * sizeof *p);
    for (uint32_t i = 0; i < n_out; i++)
        p[n->n_in + i] = i < n->n_out ? n->out[i] : ZI_ID_NONE;
    memcpy(p + n->n_in + n_out, n->up, n->n_up * sizeof *p);
    zi_free(n->in);
    n->in = p;
    n->out = p + n->n_in;
    n->up = n->out + n_out;
    n->n_out = n_out;
    return ZICO_OK;
}

zico_status
zi_graph_want_out(zi_graph *g, zi_node_id id, uint32_t pos, zi_graph_diag *diag,
                  zi_tensor_id *ret_id)
{
    zi_node *n = &g->nodes[id];
    zi_assert(pos < zi_op_get(n->op)->out_max && pos < 8);
    ZI_TRY(widen_out(n, pos + 1));
    if (n->out[pos] == ZI_ID_NONE) {
        zi_shape     shape[8];
        zi_node_spec s = {.name = n->name,
                          .op = n->op,
                          .n_in = n->n_in,
                          .in = n->in,
                          .attr = &n->attr,
                          .n_out = n->n_out};
        ZI_TRY(infer_spec(g, &s, diag, shape));
        ZI_TRY(make_out(g, n->name, n->phase, pos, &shape[pos], diag, &n->out[pos]));
        g->tensors[n->out[pos]].producer = id;
    }
    *ret_id = n->out[pos];
    return ZICO_OK;
}

/* ---- finding ----------------------------------------------------------------------- */

zi_tensor_id
zi_graph_find_tensor(const zi_graph *g, const char *name)
{
    return zi_names_get(g->names, ZI_NAME_TENSOR, name);
}

zi_node_id
zi_graph_find_node(const zi_graph *g, const char *name)
{
    return zi_names_get(g->names, ZI_NAME_NODE, name);
}

bool
zi_graph_lives_on(const zi_graph *g, zi_tensor_id t)
{
    zi_role r = g->tensors[t].role;
    if (r == ZI_ROLE_INPUT || r == ZI_ROLE_LABEL || r == ZI_ROLE_PARAM ||
        r == ZI_ROLE_STATE || t == g->loss)
        return true;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == t) return true;
    return false;
}

bool
zi_graph_may_overwrite(const zi_graph *g, zi_node_id id, uint32_t o, uint32_t i)
{
    const zi_node *n = &g->nodes[id];
    if (o >= n->n_out || i >= n->n_in) return false;
    if (n->out[o] == ZI_ID_NONE || n->in[i] == ZI_ID_NONE) return false;

    const zi_op_info *info = zi_op_get(n->op);
    bool              listed = false;
    for (int k = 0; k < 2; k++)
        listed |= info->over[k][0] == (int)o && info->over[k][1] == (int)i;
    const zi_tensor *to = &g->tensors[n->out[o]], *from = &g->tensors[n->in[i]];
    if (!listed || to->dtype != from->dtype || to->bytes != from->bytes) return false;

    zi_tensor_id root = n->in[i], up; /* a view must not destroy what lives on either */
    if (zi_graph_lives_on(g, root)) return false;
    while ((up = zi_graph_view_of(g, root, NULL)) != ZI_ID_NONE) {
        root = up;
        if (zi_graph_lives_on(g, root)) return false;
    }
    return true;
}

/* How many elements stand before one step along `axis`: >1 means not contiguous. */
static int64_t
elems_before(const zi_tensor *t, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = 0; i < axis; i++) n *= t->dims[i];
    return n;
}

static bool
slice_offset(const zi_node *n, const zi_tensor *src, const zi_tensor *t, uint64_t *ret_at)
{
    uint32_t first = 0; /* the one dim that is really cut; all before it have size 1 */
    while (first < src->rank && n->attr.slice.begin[first] == 0 &&
           t->dims[first] == src->dims[first])
        first++;
    if (first == src->rank) {
        *ret_at = 0;
        return true;
    }
    if (elems_before(t, first) != 1) return false;
    int64_t stride = 1, at = 0;
    for (uint32_t i = src->rank; i-- > 0;) {
        if (i > first && t->dims[i] != src->dims[i]) return false;
        at += n->attr.slice.begin[i] * stride;
        stride *= src->dims[i];
    }
    *ret_at = zi_dtype_bytes(t->dtype, at);
    return true;
}

zi_tensor_id
zi_graph_view_of(const zi_graph *g, zi_tensor_id id, uint64_t *ret_offset)
{
    const zi_tensor *t = &g->tensors[id];
    uint64_t         at = 0;

    if (t->producer == ZI_ID_NONE || t->dtype == ZI_DTYPE_BIT) return ZI_ID_NONE;
    const zi_node *n = &g->nodes[t->producer];
    uint32_t       flags = zi_op_get(n->op)->flags;
    if (!(flags & (ZI_OPF_VIEW | ZI_OPF_MAYVIEW))) return ZI_ID_NONE;
    const zi_tensor *src = &g->tensors[n->in[0]];
    if (n->op == ZI_OP_SPLIT) {
        if (elems_before(src, n->attr.split.axis) != 1) return ZI_ID_NONE;
        for (uint32_t i = 0; n->out[i] != id; i++) at += g->tensors[n->out[i]].bytes;
    } else if (n->op == ZI_OP_SLICE && !slice_offset(n, src, t, &at)) {
        return ZI_ID_NONE;
    }
    if (ret_offset) *ret_offset = at;
    return n->in[0];
}

uint64_t
zi_graph_param_count(const zi_graph *g)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == ZI_ROLE_PARAM)
            n += (uint64_t)zi_tensor_elems(&g->tensors[i]);
    return n;
}

zi_tensor_id
zi_graph_grad(const zi_graph *g, zi_tensor_id param)
{
    for (uint32_t i = g->n_tensors; i-- > 0;) /* the final sum was made last */
        if (g->tensors[i].role == ZI_ROLE_GRAD && g->tensors[i].grad_of == param)
            return i;
    return ZI_ID_NONE;
}

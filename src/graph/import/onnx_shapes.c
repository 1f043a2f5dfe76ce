/* onnx_shapes.c -- ONNX operators that move, cut, look up, or compute shapes. */
#include "graph/import/onnx_import.h"
#include "base/alloc.h"
#include "base/check.h"

#include <inttypes.h>
#include <string.h>

/* Another name for the same thing.  Data gets a life of its own: exporters fold equal
 * initializers into one and hand out names, but each was a parameter. */
static void
identity(zi_onnx *o)
{
    zi_onnx_value *v = zi_onnx_in(o, 0);
    if (!v) return;
    if (v->list) {
        zi_onnx_list copy = *v->list; /* values may move when one is added */
        zi_onnx_out_list(o, &copy);
    } else if (v->proto) {
        zi_onnx_out_data(o, v->proto, v->learnt);
    } else {
        zi_onnx_out(o, 0, v->tensor);
    }
}

static void
constant(zi_onnx *o)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(o, "value");
    int64_t                     ints[ZI_ONNX_MAX_LIST];
    zi_onnx_list                l = {.whole = true};
    if (a && a->t) {
        if (zi_onnx_check_data(o, a->t) >= 0) zi_onnx_out_data(o, a->t, false);
        return;
    }
    if (zi_onnx_attr(o, "value_int")) {
        l.n = 1;
        l.v[0] = (double)zi_onnx_attr_int(o, "value_int", 0);
    } else if (zi_onnx_attr(o, "value_float")) {
        l.n = 1;
        l.v[0] = zi_onnx_attr_float(o, "value_float", 0);
        l.whole = false;
    } else if (zi_onnx_attr(o, "value_ints")) {
        l.rank = 1;
        l.dims[0] = l.n = zi_onnx_attr_ints(o, "value_ints", ints, ZI_ONNX_MAX_LIST);
        for (uint32_t i = 0; i < l.n; i++) l.v[i] = (double)ints[i];
    } else {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "a constant of this kind is not supported");
    }
    zi_onnx_out_list(o, &l);
}

static void
shape(zi_onnx *o)
{
    zi_onnx_value *v = zi_onnx_in(o, 0);
    zi_onnx_list   l = {.rank = 1, .whole = true};
    if (!v) return;
    const zi_tensor *t = v->tensor == ZI_ID_NONE ? NULL : &o->b->g->tensors[v->tensor];
    l.dims[0] = l.n = t ? t->rank : zi_onnx_data_rank(v);
    for (uint32_t i = 0; i < l.n; i++)
        l.v[i] = (double)(t ? t->dims[i] : zi_onnx_data_dim(v, i));
    zi_onnx_out_list(o, &l);
}

/* Floats stay floats; other conversions are for lists (onnx_lists.c). */
static void
cast(zi_onnx *o)
{
    const int32_t  f32 = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    zi_onnx_value *v = zi_onnx_in(o, 0);
    if (!v) return;
    bool is_float = v->tensor != ZI_ID_NONE
                        ? o->b->g->tensors[v->tensor].dtype == ZI_DTYPE_F32
                        : v->proto && v->proto->data_type == f32;
    if (is_float && zi_onnx_attr_int(o, "to", 0) == f32)
        identity(o);
    else
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "this conversion is not supported");
}

/* Rows of a table by an input of indices. */
static void
gather(zi_onnx *o)
{
    zi_onnx_value *from = zi_onnx_in(o, 0), *index = zi_onnx_in(o, 1);
    if (zi_onnx_failed(o)) return;
    zi_tensor_id table = zi_onnx_value_tensor(o, from);
    if (zi_onnx_attr_int(o, "axis", 0) != 0 || zi_onnx_rank(o, table) != 2 ||
        zi_onnx_is_data(index))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "only rows of a matrix can be looked up");
    if (zi_onnx_failed(o)) return;
    zi_onnx_out(o, 0,
                zi_gb_op(o->b, ZI_OP_EMBEDDING, NULL, 2,
                         (zi_tensor_id[]){index->tensor, table}));
}

/* ---- reshape and its kin --------------------------------------------------------------- */

/* Replace 0 (as in the input), -1 (what is left), and a batch written into the file. */
static void
resolve_dims(zi_onnx *o, const zi_tensor *x, int64_t *dims, uint32_t n)
{
    int64_t known = 1, total = zi_tensor_elems(x);
    int     open = -1;
    if (n && x->rank && o->file_batch && dims[0] == o->file_batch &&
        x->dims[0] == o->opt->batch)
        dims[0] = o->opt->batch;
    for (uint32_t i = 0; i < n; i++) {
        if (dims[i] == 0 && i < x->rank && !zi_onnx_attr_int(o, "allowzero", 0))
            dims[i] = x->dims[i];
        if (dims[i] == -1 && open < 0) {
            open = (int)i;
            continue;
        }
        if (dims[i] < 1 || dims[i] > ZI_MAX_ELEMS / known) {
            zi_onnx_fail(o, ZICO_E_SHAPE, "dim %" PRIu32 " would be %" PRId64, i,
                         dims[i]);
            return;
        }
        known *= dims[i];
    }
    if (open >= 0) dims[open] = total / known;
}

static void
reshape(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      dims[ZI_MAX_RANK];
    uint32_t     n = zi_onnx_ints(o, zi_onnx_in(o, 1), dims, ZI_MAX_RANK);
    if (zi_onnx_failed(o)) return;
    resolve_dims(o, &o->b->g->tensors[x], dims, n);
    if (zi_onnx_failed(o)) return;
    zi_onnx_out(o, 0, zi_gb_reshape(o->b, x, n, dims));
}

static void
flatten(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    if (zi_onnx_failed(o)) return;
    const zi_tensor *t = &o->b->g->tensors[x];
    int64_t          axis = zi_onnx_attr_int(o, "axis", 1), dims[2] = {1, 1};
    if (axis != (int64_t)t->rank) axis = zi_onnx_axis(o, axis, t->rank);
    for (uint32_t i = 0; i < t->rank; i++) dims[i >= (uint64_t)axis] *= t->dims[i];
    if (!zi_onnx_failed(o)) zi_onnx_out(o, 0, zi_gb_reshape(o->b, x, 2, dims));
}

/* The axes of Squeeze and Unsqueeze: an attribute, from opset 13 on an input. */
static uint32_t
axes_of(zi_onnx *o, int64_t axes[ZI_MAX_RANK])
{
    if (o->opset < 13) return zi_onnx_attr_ints(o, "axes", axes, ZI_MAX_RANK);
    return zi_onnx_ints(o, zi_onnx_in_opt(o, 1), axes, ZI_MAX_RANK);
}

static void
unsqueeze(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      axes[ZI_MAX_RANK], dims[ZI_MAX_RANK];
    uint32_t     n = axes_of(o, axes), mask = 0, from = 0;
    if (zi_onnx_failed(o)) return;
    uint32_t rank = zi_onnx_rank(o, x) + n;
    if (rank > ZI_MAX_RANK) zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "too many dims");
    for (uint32_t i = 0; i < n && !zi_onnx_failed(o); i++)
        mask |= 1u << zi_onnx_axis(o, axes[i], rank);
    if (zi_onnx_failed(o)) return;
    for (uint32_t i = 0; i < rank; i++) {
        bool fresh = (mask >> i & 1) || from >= rank - n;
        dims[i] = fresh ? 1 : o->b->g->tensors[x].dims[from++];
    }
    zi_onnx_out(o, 0, zi_gb_reshape(o->b, x, rank, dims));
}

static void
squeeze(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      axes[ZI_MAX_RANK], dims[ZI_MAX_RANK];
    uint32_t     n = axes_of(o, axes), rank = zi_onnx_rank(o, x), mask = 0, to = 0;
    if (zi_onnx_failed(o)) return;
    for (uint32_t i = 0; i < n; i++) mask |= 1u << zi_onnx_axis(o, axes[i], rank);
    for (uint32_t i = 0; i < rank && !zi_onnx_failed(o); i++) {
        int64_t d = o->b->g->tensors[x].dims[i];
        bool    gone = n ? mask >> i & 1 : d == 1;
        if (gone && d != 1) zi_onnx_fail(o, ZICO_E_SHAPE, "dim %" PRIu32 " is not 1", i);
        if (!gone) dims[to++] = d;
    }
    if (!zi_onnx_failed(o)) zi_onnx_out(o, 0, zi_gb_reshape(o->b, x, to, dims));
}

static void
transpose(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      perm[ZI_MAX_RANK];
    uint32_t     rank = zi_onnx_rank(o, x),
             n = zi_onnx_attr_ints(o, "perm", perm, ZI_MAX_RANK);
    if (n != 0 && n != rank)
        zi_onnx_fail(o, ZICO_E_SHAPE, "perm has %" PRIu32 " numbers", n);
    if (n == 0)
        for (uint32_t i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    if (!zi_onnx_failed(o)) zi_onnx_out(o, 0, zi_gb_transpose(o->b, x, perm));
}

/* ---- joining and cutting --------------------------------------------------------------- */

static void
concat(zi_onnx *o)
{
    size_t        n = o->node->n_input;
    zi_tensor_id *in = zi_malloc((n + 1) * sizeof *in);
    if (!in) zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
    for (size_t i = 0; i < n && !zi_onnx_failed(o); i++) in[i] = zi_onnx_tensor(o, i);
    if (!n) zi_onnx_fail(o, ZICO_E_FORMAT, "it has no input");
    if (!zi_onnx_failed(o)) {
        int64_t axis =
            zi_onnx_axis(o, zi_onnx_attr_int(o, "axis", 0), zi_onnx_rank(o, in[0]));
        if (!zi_onnx_failed(o))
            zi_onnx_out(o, 0, zi_gb_concat(o->b, (uint32_t)n, in, (int)axis));
    }
    zi_free(in);
}

static void
split(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      size[ZI_ONNX_MAX_LIST], at = 0;
    uint32_t     n_size = o->opset < 13
                              ? zi_onnx_attr_ints(o, "split", size, ZI_ONNX_MAX_LIST)
                              : zi_onnx_ints(o, zi_onnx_in_opt(o, 1), size, ZI_ONNX_MAX_LIST);
    int64_t axis = zi_onnx_axis(o, zi_onnx_attr_int(o, "axis", 0), zi_onnx_rank(o, x));
    size_t  n = o->node->n_output;
    if (zi_onnx_failed(o)) return;
    int64_t whole = zi_gb_dim(o->b, x, (int)axis);
    if (n == 0 || n > ZI_ONNX_MAX_LIST || (n_size && n_size != n) ||
        (!n_size && whole % (int64_t)n)) {
        zi_onnx_fail(o, ZICO_E_SHAPE, "%zu outputs of dim %" PRId64, n, whole);
        return;
    }
    for (size_t i = 0; i < n && !zi_onnx_failed(o); i++) {
        int64_t part = n_size ? size[i] : whole / (int64_t)n;
        if (part < 1 || part > whole - at) {
            zi_onnx_fail(o, ZICO_E_SHAPE, "part %zu of %" PRId64, i, part);
            return;
        }
        zi_onnx_out(o, i, zi_gb_slice(o->b, x, (int)axis, at, at + part));
        at += part;
    }
}

static int64_t
clamp(int64_t v, int64_t dim)
{
    if (v < 0) v += dim;
    return v < 0 ? 0 : v > dim ? dim : v;
}

static void
slice(zi_onnx *o)
{
    zi_onnx_value *v = zi_onnx_in(o, 0);
    int64_t  begin[ZI_MAX_RANK], end[ZI_MAX_RANK], axes[ZI_MAX_RANK], steps[ZI_MAX_RANK];
    uint32_t n = zi_onnx_ints(o, zi_onnx_in(o, 1), begin, ZI_MAX_RANK);
    uint32_t n_end = zi_onnx_ints(o, zi_onnx_in(o, 2), end, ZI_MAX_RANK);
    uint32_t n_axes = zi_onnx_ints(o, zi_onnx_in_opt(o, 3), axes, ZI_MAX_RANK);
    uint32_t n_steps = zi_onnx_ints(o, zi_onnx_in_opt(o, 4), steps, ZI_MAX_RANK);
    if (zi_onnx_failed(o)) return;
    if (n != n_end || (n_axes && n_axes != n) || (n_steps && n_steps != n))
        zi_onnx_fail(o, ZICO_E_FORMAT, "starts, ends, axes and steps differ in length");
    for (uint32_t i = 0; i < n_steps; i++)
        if (steps[i] != 1) zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "step %" PRId64, steps[i]);
    if (zi_onnx_failed(o)) return;
    zi_tensor_id x = zi_onnx_value_tensor(o, v);
    for (uint32_t i = 0; i < n && !zi_onnx_failed(o); i++) {
        int64_t axis = zi_onnx_axis(o, n_axes ? axes[i] : (int64_t)i, zi_onnx_rank(o, x));
        int64_t dim = zi_gb_dim(o->b, x, (int)axis);
        int64_t from = clamp(begin[i], dim), to = clamp(end[i], dim);
        if (from != 0 || to != dim) x = zi_gb_slice(o->b, x, (int)axis, from, to);
    }
    zi_onnx_out(o, 0, x);
}

static void
pad(zi_onnx *o)
{
    zi_tensor_id x = zi_onnx_tensor(o, 0);
    int64_t      pads[2 * ZI_MAX_RANK];
    uint32_t     n = zi_onnx_ints(o, zi_onnx_in(o, 1), pads, 2 * ZI_MAX_RANK);
    uint32_t     rank = zi_onnx_rank(o, x);
    zi_attr      a = {.pad = {.value = 0}};
    bool         any = false;
    if (zi_onnx_in_opt(o, 2) && !zi_onnx_is_number(zi_onnx_in_opt(o, 2), &a.pad.value))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "the value is not a constant number");
    if (!zi_onnx_attr_is(o, "mode", "constant", true))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "only mode 'constant' is supported");
    if (!zi_onnx_failed(o) && n != 2 * rank)
        zi_onnx_fail(o, ZICO_E_FORMAT, "%" PRIu32 " borders for %" PRIu32 " dims", n,
                     rank);
    if (zi_onnx_failed(o)) return;
    for (uint32_t i = 0; i < rank; i++) {
        a.pad.before[i] = pads[i];
        a.pad.after[i] = pads[rank + i];
        any |= pads[i] != 0 || pads[rank + i] != 0;
    }
    zi_onnx_out(o, 0, any ? zi_gb_op(o->b, ZI_OP_PAD, &a, 1, &x) : x);
}

/* ---- table ----------------------------------------------------------------------------- */

zi_onnx_fn *
zi_onnx_shape_fn(const char *op)
{
    static const struct {
        const char *name;
        zi_onnx_fn *fn;
    } all[] = {
        {"Cast", cast},
        {"Concat", concat},
        {"Constant", constant},
        {"Flatten", flatten},
        {"Gather", gather},
        {"Identity", identity},
        {"Pad", pad},
        {"Reshape", reshape},
        {"Shape", shape},
        {"Slice", slice},
        {"Split", split},
        {"Squeeze", squeeze},
        {"Transpose", transpose},
        {"Unsqueeze", unsqueeze},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, op) == 0) return all[i].fn;
    return NULL;
}

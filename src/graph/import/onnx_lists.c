/* onnx_lists.c -- shape arithmetic: operators on a few numbers, computed while importing.
 *
 * Exporters write "flatten", "pad" or "resize" as little programs over shapes.  When all
 * inputs of a node are known lists, it is run here and leaves no trace in the graph.
 */
#include "graph/import/onnx_import.h"

#include <math.h>
#include <string.h>

#define MAX_IN 8

typedef struct fold {
    zi_onnx            *o;
    const zi_onnx_list *in; /* [n_in] */
    bool                has[MAX_IN];
    size_t              n_in;
} fold;

typedef bool fold_fn(const fold *f, zi_onnx_list *ret); /* false: cannot */

static zi_onnx_list
list_like(const zi_onnx_list *l, uint32_t n)
{
    zi_onnx_list r = {.n = n, .rank = 1, .dims = {n, 0}, .whole = l->whole};
    return r;
}

/* ---- arithmetic ------------------------------------------------------------------------ */

static double
combine(char op, double a, double b, bool whole)
{
    switch (op) {
    case 'A':
        return a + b;
    case 'S':
        return a - b;
    case 'M':
        return a * b;
    default:
        return whole ? trunc(a / b) : a / b;
    }
}

static bool
arithmetic(const fold *f, zi_onnx_list *ret)
{
    if (f->n_in != 2 || !f->has[0] || !f->has[1]) return false;
    const zi_onnx_list *a = &f->in[0], *b = &f->in[1];
    if (a->n != b->n && a->n != 1 && b->n != 1) return false;
    *ret = a->n > b->n || (a->n == b->n && a->rank >= b->rank) ? *a : *b;
    ret->whole = a->whole && b->whole;
    for (uint32_t i = 0; i < ret->n; i++) {
        double y = b->v[b->n == 1 ? 0 : i];
        if (f->o->node->op_type[0] == 'D' && y == 0) return false;
        ret->v[i] =
            combine(f->o->node->op_type[0], a->v[a->n == 1 ? 0 : i], y, ret->whole);
    }
    return true;
}

static bool
cast(const fold *f, zi_onnx_list *ret)
{
    int64_t to = zi_onnx_attr_int(f->o, "to", 0);
    if (!f->has[0]) return false;
    *ret = f->in[0];
    ret->whole = to == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
                 to == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    if (!ret->whole && to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) return false;
    for (uint32_t i = 0; ret->whole && i < ret->n; i++) {
        if (!(fabs(ret->v[i]) <= 9007199254740992.0)) return false;
        ret->v[i] = trunc(ret->v[i]);
    }
    return true;
}

/* ---- cutting and joining --------------------------------------------------------------- */

static bool
concat(const fold *f, zi_onnx_list *ret)
{
    *ret = list_like(&f->in[0], 0);
    for (size_t i = 0; i < f->n_in; i++) {
        if (!f->has[i] || f->in[i].rank != 1 || ret->n + f->in[i].n > ZI_ONNX_MAX_LIST)
            return false;
        memcpy(ret->v + ret->n, f->in[i].v, f->in[i].n * sizeof ret->v[0]);
        ret->n += f->in[i].n;
        ret->whole = ret->whole && f->in[i].whole;
    }
    ret->dims[0] = ret->n;
    return f->n_in > 0;
}

static bool
gather(const fold *f, zi_onnx_list *ret)
{
    if (f->n_in != 2 || !f->has[0] || !f->has[1] || f->in[0].rank != 1 ||
        f->in[1].rank > 1 || !f->in[1].whole)
        return false;
    *ret = f->in[1];
    ret->whole = f->in[0].whole;
    for (uint32_t i = 0; i < ret->n; i++) {
        double at = ret->v[i] < 0 ? ret->v[i] + f->in[0].n : ret->v[i];
        if (!(at >= 0 && at < f->in[0].n)) return false;
        ret->v[i] = f->in[0].v[(uint32_t)at];
    }
    return true;
}

/* Rows begin, begin+step, ... before end; a list is a matrix with one column. */
static bool
slice(const fold *f, zi_onnx_list *ret)
{
    const zi_onnx_list *x = &f->in[0];
    if (f->n_in < 3 || !f->has[0] || !f->has[1] || !f->has[2] || x->rank < 1)
        return false;
    double step = f->n_in > 4 && f->has[4] ? f->in[4].v[0] : 1;
    double axis = f->n_in > 3 && f->has[3] ? f->in[3].v[0] : 0;
    if (f->in[1].n != 1 || f->in[2].n != 1 || (axis != 0 && axis != -(double)x->rank) ||
        step == 0 || fabs(step) > ZI_ONNX_MAX_LIST)
        return false;
    double rows = (double)x->dims[0], begin = f->in[1].v[0], end = f->in[2].v[0];
    if (begin < 0) begin += rows;
    if (end < 0) end += rows;
    begin = fmin(fmax(begin, 0), step > 0 ? rows : rows - 1);
    end = fmin(fmax(end, step > 0 ? 0 : -1), rows);
    uint32_t cols = x->rank == 2 ? (uint32_t)x->dims[1] : 1;

    *ret = *x;
    ret->n = 0;
    ret->dims[0] = 0;
    for (double i = begin; step > 0 ? i < end : i > end; i += step) {
        memcpy(ret->v + ret->n, x->v + (uint32_t)i * cols, cols * sizeof x->v[0]);
        ret->n += cols;
        ret->dims[0]++;
    }
    return true;
}

/* ---- shape ----------------------------------------------------------------------------- */

static bool
reshape(const fold *f, zi_onnx_list *ret)
{
    if (f->n_in != 2 || !f->has[0] || !f->has[1] || !f->in[1].whole || f->in[1].n > 2)
        return false;
    int64_t known = 1, open = -1;
    *ret = f->in[0];
    ret->rank = f->in[1].n;
    for (uint32_t i = 0; i < ret->rank; i++) {
        double d = f->in[1].v[i];
        if (d == -1 && open < 0) {
            open = i;
            continue;
        }
        if (d < 1 || d > ZI_ONNX_MAX_LIST) return false;
        ret->dims[i] = (int64_t)d;
        known *= ret->dims[i];
    }
    if (open >= 0) ret->dims[open] = ret->n / known;
    return open >= 0 ? known * ret->dims[open] == ret->n : known == ret->n;
}

static bool
transpose(const fold *f, zi_onnx_list *ret)
{
    const zi_onnx_list *x = &f->in[0];
    if (f->n_in != 1 || !f->has[0] || x->rank != 2) return false;
    *ret = *x;
    ret->dims[0] = x->dims[1];
    ret->dims[1] = x->dims[0];
    for (uint32_t i = 0; i < x->n; i++) {
        int64_t row = i / x->dims[1], col = i % x->dims[1];
        ret->v[col * x->dims[0] + row] = x->v[i];
    }
    return true;
}

/* A scalar becomes a list of one, and back. */
static bool
unsqueeze(const fold *f, zi_onnx_list *ret)
{
    if (!f->has[0] || f->in[0].rank != 0) return false;
    *ret = f->in[0];
    ret->rank = 1;
    ret->dims[0] = 1;
    return true;
}

static bool
squeeze(const fold *f, zi_onnx_list *ret)
{
    if (!f->has[0] || f->in[0].n != 1) return false;
    *ret = f->in[0];
    ret->rank = 0;
    return true;
}

static bool
constant_of_shape(const fold *f, zi_onnx_list *ret)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(f->o, "value");
    zi_onnx_list                one = {.n = 1};
    if (f->n_in != 1 || !f->has[0] || f->in[0].n > 1 || !f->in[0].whole) return false;
    double n = f->in[0].n ? f->in[0].v[0] : 1;
    if (!(n >= 0 && n <= ZI_ONNX_MAX_LIST)) return false;
    if (a && a->t) {
        zi_onnx_value v = {.name = "value", .tensor = ZI_ID_NONE, .proto = a->t};
        if (zi_onnx_check_data(f->o, a->t) < 0 || !zi_onnx_list_of(&v, &one) ||
            one.n != 1)
            return false;
    }
    *ret = list_like(&one, (uint32_t)n);
    if (!f->in[0].n) ret->rank = 0;
    for (uint32_t i = 0; i < ret->n; i++) ret->v[i] = one.v[0];
    return true;
}

/* ---- table ----------------------------------------------------------------------------- */

static fold_fn *
fold_of(const char *op)
{
    static const struct {
        const char *name;
        fold_fn    *fn;
    } all[] = {
        {"Add", arithmetic},      {"Cast", cast},
        {"Concat", concat},       {"ConstantOfShape", constant_of_shape},
        {"Div", arithmetic},      {"Gather", gather},
        {"Mul", arithmetic},      {"Reshape", reshape},
        {"Slice", slice},         {"Squeeze", squeeze},
        {"Sub", arithmetic},      {"Transpose", transpose},
        {"Unsqueeze", unsqueeze},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, op) == 0) return all[i].fn;
    return NULL;
}

bool
zi_onnx_fold(zi_onnx *o)
{
    fold_fn     *fn = fold_of(o->node->op_type);
    zi_onnx_list in[MAX_IN], result;
    fold         f = {.o = o, .in = in, .n_in = o->node->n_input};

    if (!fn || f.n_in < 1 || f.n_in > MAX_IN) return false;
    for (size_t i = 0; i < f.n_in; i++) {
        if (!o->node->input[i][0]) continue;
        const zi_onnx_value *v = zi_onnx_in_opt(o, i);
        if (!v || !zi_onnx_list_of(v, &in[i])) return false;
        f.has[i] = true;
    }
    if (!fn(&f, &result)) return false;
    zi_onnx_out_list(o, &result);
    return true;
}

/* onnx_patterns.c -- finds layer norm and GELU where exporters have taken them apart.
 *
 * Before opset 17 a layer norm is written as nine nodes, and GELU always as five.  Their
 * parts (Pow, Sqrt, Erf) are no operators here; the whole is.  A pattern is replaced only
 * when nobody else reads its inner values.
 *
 *   mean = ReduceMean(x)  sub = Sub(x, mean)  pow = Pow(sub, 2)  var = ReduceMean(pow)
 *   add = Add(var, eps)  sqrt = Sqrt(add)  div = Div(sub, sqrt)  mul = Mul(div, scale)
 *   y = Add(mul, bias)
 *
 *   div = Div(x, sqrt 2)  erf = Erf(div)  add = Add(erf, 1)  y = Mul(Mul(x, add), 0.5)
 */
#include "graph/import/onnx_import.h"
#include "base/alloc.h"
#include "base/try.h"

#include <math.h>
#include <string.h>

typedef Onnx__NodeProto node;

typedef struct book {
    const Onnx__GraphProto *g;
    zi_names               *made;    /* value -> index of its node */
    uint32_t               *readers; /* [node] how often its output 0 is read    */
    uint32_t               *reader;  /* [node] one node that reads it            */
    zi_onnx_pattern        *found;   /* [node] */
} book;

/* ---- looking around -------------------------------------------------------------------- */

static uint32_t
maker(const book *b, const char *value)
{
    return value ? zi_names_get(b->made, ZI_NAME_TENSOR, value) : ZI_ID_NONE;
}

static const char *
input(const node *n, size_t i)
{
    return n && i < n->n_input ? n->input[i] : "";
}

static bool
is_op(const node *n, const char *op)
{
    return n && n->op_type && strcmp(n->op_type, op) == 0 && n->n_output >= 1;
}

/* The node of kind `op` that makes input i of n; NULL: another. */
static const node *
from(const book *b, const node *n, size_t i, const char *op)
{
    uint32_t at = maker(b, input(n, i));
    return at != ZI_ID_NONE && is_op(b->g->node[at], op) ? b->g->node[at] : NULL;
}

/* The only reader of what n makes, if it is of kind `op`. */
static const node *
only_reader(const book *b, const node *n, const char *op)
{
    uint32_t at = n ? maker(b, n->output[0]) : ZI_ID_NONE;
    if (at == ZI_ID_NONE || b->readers[at] != 1) return NULL;
    const node *r = b->g->node[b->reader[at]];
    bool        own = is_op(r, op) && maker(b, r->output[0]) == b->reader[at];
    return own ? r : NULL;
}

static const Onnx__TensorProto *
constant(const book *b, const char *value)
{
    uint32_t at = maker(b, value);
    if (at != ZI_ID_NONE) {
        const node *n = b->g->node[at];
        for (size_t i = 0; is_op(n, "Constant") && i < n->n_attribute; i++)
            if (n->attribute[i]->t) return n->attribute[i]->t;
        return NULL;
    }
    for (size_t i = 0; i < b->g->n_initializer; i++)
        if (b->g->initializer[i]->name && strcmp(b->g->initializer[i]->name, value) == 0)
            return b->g->initializer[i];
    return NULL;
}

/* A constant of one float. */
static bool
number(const book *b, const char *value, double *ret)
{
    const Onnx__TensorProto *t = constant(b, value);
    float                    f;
    if (!t || t->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) return false;
    if (t->has_raw_data && t->raw_data.len == 4)
        memcpy(&f, t->raw_data.data, 4);
    else if (!t->has_raw_data && t->n_float_data == 1)
        f = t->float_data[0];
    else
        return false;
    *ret = f;
    return true;
}

static bool
is_number(const book *b, const char *value, double want)
{
    double d;
    return number(b, value, &d) && fabs(d - want) < 1e-4;
}

/* Which input of n is `value`?  The other one is returned; "": neither. */
static const char *
other(const node *n, const char *value)
{
    if (strcmp(input(n, 0), value) == 0) return input(n, 1);
    return strcmp(input(n, 1), value) == 0 ? input(n, 0) : "";
}

static void
skip(book *b, const node *n)
{
    b->found[maker(b, n->output[0])].kind = ZI_ONNX_SKIP;
}

/* ---- patterns -------------------------------------------------------------------------- */

static void
find_gelu(book *b, const node *erf)
{
    const node *div = from(b, erf, 0, "Div"), *add = only_reader(b, erf, "Add");
    if (!div || !add || !is_number(b, input(div, 1), sqrt(2)) ||
        !only_reader(b, div, "Erf"))
        return;
    const char *one = other(add, erf->output[0]), *x = input(div, 0);
    const node *mul = only_reader(b, add, "Mul");
    if (!mul || !is_number(b, one, 1)) return;
    const node *last = only_reader(b, mul, "Mul");
    if (!last || strcmp(other(mul, add->output[0]), x) != 0 ||
        !is_number(b, other(last, mul->output[0]), 0.5))
        return;
    const node *inner[] = {div, erf, add, mul};
    for (size_t i = 0; i < 4; i++) skip(b, inner[i]);
    b->found[maker(b, last->output[0])] = (zi_onnx_pattern){.kind = ZI_ONNX_GELU, .x = x};
}

/* Over the last dim, which -1 says whatever the rank. */
static bool
over_last(const node *n)
{
    bool last = false;
    for (size_t i = 0; i < n->n_attribute; i++) {
        const Onnx__AttributeProto *a = n->attribute[i];
        if (a->name && strcmp(a->name, "axes") == 0)
            last = a->n_ints == 1 && a->ints[0] == -1;
        if (a->name && strcmp(a->name, "keepdims") == 0 && a->has_i && a->i != 1)
            return false;
    }
    return last;
}

static void
find_layer_norm(book *b, const node *root)
{
    const node *add = from(b, root, 0, "Add"), *var = from(b, add, 0, "ReduceMean");
    const node *pow2 = from(b, var, 0, "Pow"), *sub = from(b, pow2, 0, "Sub");
    const node *mean = from(b, sub, 1, "ReduceMean"), *div = only_reader(b, root, "Div");
    const node *mul = only_reader(b, div, "Mul"), *last = only_reader(b, mul, "Add");
    double      eps;
    if (!mean || !last || strcmp(input(mean, 0), input(sub, 0)) != 0 ||
        strcmp(input(div, 0), sub->output[0]) != 0 || !is_number(b, input(pow2, 1), 2) ||
        !number(b, input(add, 1), &eps) || !over_last(mean) || !over_last(var))
        return;
    const node *single[] = {add, var, pow2, mean};
    for (size_t i = 0; i < 4; i++)
        if (b->readers[maker(b, single[i]->output[0])] != 1) return;
    if (b->readers[maker(b, sub->output[0])] != 2) return;
    const char *scale = other(mul, div->output[0]), *bias = other(last, mul->output[0]);
    if (!constant(b, scale) || !constant(b, bias)) return;
    const node *inner[] = {mean, sub, pow2, var, add, root, div, mul};
    for (size_t i = 0; i < 8; i++) skip(b, inner[i]);
    b->found[maker(b, last->output[0])] = (zi_onnx_pattern){.kind = ZI_ONNX_LAYER_NORM,
                                                            .x = input(sub, 0),
                                                            .scale = scale,
                                                            .bias = bias,
                                                            .eps = eps};
}

/* ---- the book -------------------------------------------------------------------------- */

/* Who makes what.  A value made twice belongs to nobody; the walk will refuse it. */
static zico_status
note_makers(book *b)
{
    for (uint32_t i = 0; i < b->g->n_node; i++) {
        const node *n = b->g->node[i];
        if (n->n_output < 1 || !n->output[0][0] || maker(b, n->output[0]) != ZI_ID_NONE)
            continue;
        ZI_TRY(zi_names_put(b->made, ZI_NAME_TENSOR, n->output[0], i));
    }
    return ZICO_OK;
}

static void
note_readers(book *b)
{
    for (uint32_t i = 0; i < b->g->n_node; i++) {
        for (size_t k = 0; k < b->g->node[i]->n_input; k++) {
            uint32_t at = maker(b, b->g->node[i]->input[k]);
            if (at == ZI_ID_NONE) continue;
            b->readers[at]++;
            b->reader[at] = i;
        }
    }
    for (size_t i = 0; i < b->g->n_output; i++) { /* wanted outside: as good as two */
        uint32_t at = maker(b, b->g->output[i]->name);
        if (at != ZI_ID_NONE) b->readers[at] += 2;
    }
}

zico_status
zi_onnx_find_patterns(const Onnx__GraphProto *g, zi_onnx_pattern **ret_found)
{
    book b = {.g = g};
    b.readers = zi_calloc(g->n_node + 1, sizeof *b.readers);
    b.reader = zi_calloc(g->n_node + 1, sizeof *b.reader);
    b.found = zi_calloc(g->n_node + 1, sizeof *b.found);
    zico_status st =
        b.readers && b.reader && b.found ? zi_names_new(&b.made) : ZICO_E_NOMEM;
    if (st >= 0) st = note_makers(&b);
    if (st >= 0) {
        note_readers(&b);
        for (size_t i = 0; i < g->n_node; i++) {
            if (maker(&b, g->node[i]->n_output ? g->node[i]->output[0] : NULL) != i)
                continue;
            if (is_op(g->node[i], "Erf")) find_gelu(&b, g->node[i]);
            if (is_op(g->node[i], "Sqrt")) find_layer_norm(&b, g->node[i]);
        }
    }
    zi_names_free(b.made);
    zi_free(b.readers);
    zi_free(b.reader);
    if (st < 0)
        zi_free(b.found);
    else
        *ret_found = b.found;
    return st;
}

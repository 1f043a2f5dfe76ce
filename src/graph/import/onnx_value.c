/* onnx_value.c -- the importer's values and attributes: looking up, checking, converting. */
#include "graph/import/onnx_import.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FLOAT  ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define DOUBLE ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE
#define INT32  ONNX__TENSOR_PROTO__DATA_TYPE__INT32
#define INT64  ONNX__TENSOR_PROTO__DATA_TYPE__INT64
#define BOOL   ONNX__TENSOR_PROTO__DATA_TYPE__BOOL

void
zi_onnx_fail(zi_onnx *o, zico_status st, const char *fmt, ...)
{
    if (zi_onnx_failed(o)) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(o->why, sizeof o->why, fmt, ap);
    va_end(ap);
    o->st = st;
}

bool
zi_onnx_failed(const zi_onnx *o)
{
    return o->st < 0 || zi_gb_failed(o->b);
}

/* ---- data in the file ----------------------------------------------------------------- */

static int64_t
proto_elems(const Onnx__TensorProto *t)
{
    int64_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

static size_t
type_bytes(int32_t type)
{
    switch (type) {
    case FLOAT:
    case INT32:
        return 4;
    case DOUBLE:
    case INT64:
        return 8;
    case BOOL:
        return 1;
    default:
        return 0;
    }
}

/* How many elements the file really has for it. */
static size_t
stored_elems(const Onnx__TensorProto *t)
{
    if (t->has_raw_data) {
        size_t size = type_bytes(t->data_type);
        return t->raw_data.len % size ? SIZE_MAX : t->raw_data.len / size;
    }
    switch (t->data_type) {
    case FLOAT:
        return t->n_float_data;
    case DOUBLE:
        return t->n_double_data;
    case INT64:
        return t->n_int64_data;
    default:
        return t->n_int32_data;
    }
}

zico_status
zi_onnx_check_data(zi_onnx *o, const Onnx__TensorProto *t)
{
    const char *name = t->name ? t->name : "";
    int64_t     n = 1;

    if (!type_bytes(t->data_type))
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "tensor '%.80s' has data type %d", name,
                     t->data_type);
    else if (t->n_external_data || t->data_location)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "tensor '%.80s' lies in another file", name);
    else if (t->n_dims > ZI_MAX_RANK)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "tensor '%.80s' has %zu dims, at most %d",
                     name, t->n_dims, ZI_MAX_RANK);
    for (size_t i = 0; !zi_onnx_failed(o) && i < t->n_dims; i++) {
        if (t->dims[i] < 0 || (t->dims[i] && n > ZI_MAX_ELEMS / t->dims[i]))
            zi_onnx_fail(o, ZICO_E_FORMAT, "tensor '%.80s': dim %zu is %" PRId64, name, i,
                         t->dims[i]);
        else
            n *= t->dims[i];
    }
    if (!zi_onnx_failed(o) && stored_elems(t) != (size_t)n)
        zi_onnx_fail(o, ZICO_E_FORMAT,
                     "tensor '%.80s' should have %" PRId64 " elements, the file has %zu",
                     name, n, stored_elems(t));
    return o->st;
}

/* Element i as a double; exact for all types but large int64, which shapes never are. */
static double
proto_number(const Onnx__TensorProto *t, int64_t i)
{
    float   f;
    double  d;
    int32_t w;
    int64_t q;
    if (!t->has_raw_data) {
        switch (t->data_type) {
        case FLOAT:
            return t->float_data[i];
        case DOUBLE:
            return t->double_data[i];
        case INT64:
            return (double)t->int64_data[i];
        default:
            return t->int32_data[i];
        }
    }
    const uint8_t *p = t->raw_data.data + (size_t)i * type_bytes(t->data_type);
    switch (t->data_type) {
    case FLOAT:
        memcpy(&f, p, 4);
        return f;
    case DOUBLE:
        memcpy(&d, p, 8);
        return d;
    case INT64:
        memcpy(&q, p, 8);
        return (double)q;
    case INT32:
        memcpy(&w, p, 4);
        return w;
    default:
        return *p;
    }
}

/* ---- values --------------------------------------------------------------------------- */

uint32_t
zi_onnx_value_add(zi_onnx *o, const char *name)
{
    if (zi_onnx_failed(o)) return ZI_ID_NONE;
    if (!name || !*name || zi_names_get(o->names, ZI_NAME_TENSOR, name) != ZI_ID_NONE) {
        zi_onnx_fail(o, ZICO_E_FORMAT, "value '%.80s' is made twice", name ? name : "");
        return ZI_ID_NONE;
    }
    if (o->n_values == o->cap_values) {
        uint32_t       cap = o->cap_values ? 2 * o->cap_values : 64;
        zi_onnx_value *p = zi_realloc_array(o->values, cap, sizeof *p);
        if (!p) {
            zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
            return ZI_ID_NONE;
        }
        o->values = p;
        o->cap_values = cap;
    }
    if (zi_names_put(o->names, ZI_NAME_TENSOR, name, o->n_values) < 0) {
        zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
        return ZI_ID_NONE;
    }
    o->values[o->n_values] =
        (zi_onnx_value){.name = name, .tensor = ZI_ID_NONE, .flipped = ZI_ID_NONE};
    return o->n_values++;
}

zi_onnx_value *
zi_onnx_value_named(zi_onnx *o, const char *name)
{
    if (zi_onnx_failed(o)) return NULL;
    uint32_t at = zi_names_get(o->names, ZI_NAME_TENSOR, name);
    if (at != ZI_ID_NONE) return &o->values[at];
    zi_onnx_fail(o, ZICO_E_FORMAT, "input '%.80s' is made by no node before this one",
                 name);
    return NULL;
}

zi_onnx_value *
zi_onnx_in_opt(zi_onnx *o, size_t i)
{
    if (zi_onnx_failed(o) || i >= o->node->n_input || !o->node->input[i][0]) return NULL;
    return zi_onnx_value_named(o, o->node->input[i]);
}

zi_onnx_value *
zi_onnx_in(zi_onnx *o, size_t i)
{
    zi_onnx_value *v = zi_onnx_in_opt(o, i);
    if (!v) zi_onnx_fail(o, ZICO_E_FORMAT, "input %zu is missing", i);
    return v;
}

bool
zi_onnx_is_data(const zi_onnx_value *v)
{
    return v && v->tensor == ZI_ID_NONE;
}

uint32_t
zi_onnx_data_rank(const zi_onnx_value *v)
{
    return v->proto ? (uint32_t)v->proto->n_dims : v->list->rank;
}

int64_t
zi_onnx_data_dim(const zi_onnx_value *v, uint32_t i)
{
    return v->proto ? v->proto->dims[i] : v->list->dims[i];
}

bool
zi_onnx_is_number(const zi_onnx_value *v, double *ret)
{
    if (!v || (!v->proto && !v->list)) return false;
    if (v->proto ? proto_elems(v->proto) != 1 : v->list->n != 1) return false;
    *ret = v->proto ? proto_number(v->proto, 0) : v->list->v[0];
    return true;
}

static bool
is_whole(const Onnx__TensorProto *t)
{
    return t->data_type != FLOAT && t->data_type != DOUBLE;
}

bool
zi_onnx_list_of(const zi_onnx_value *v, zi_onnx_list *ret)
{
    const double end = 9007199254740992.0; /* 2^53 */
    if (!v) return false;
    if (v->list) {
        *ret = *v->list;
        return true;
    }
    const Onnx__TensorProto *t = v->proto;
    if (!t || t->n_dims > 2 || proto_elems(t) > ZI_ONNX_MAX_LIST ||
        (v->learnt && !is_whole(t)))
        return false;
    *ret = (zi_onnx_list){.n = (uint32_t)proto_elems(t),
                          .rank = (uint32_t)t->n_dims,
                          .whole = is_whole(t)};
    for (size_t i = 0; i < t->n_dims; i++) ret->dims[i] = t->dims[i];
    for (uint32_t i = 0; i < ret->n; i++) {
        double d = proto_number(t, i);
        ret->v[i] = ret->whole && d > end ? end : ret->whole && d < -end ? -end : d;
    }
    return true;
}

uint32_t
zi_onnx_ints(zi_onnx *o, const zi_onnx_value *v, int64_t *ret, uint32_t max)
{
    zi_onnx_list l;
    if (!v || zi_onnx_failed(o)) return 0;
    if (!zi_onnx_list_of(v, &l) || !l.whole || l.rank > 1 || l.n > max) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "'%.80s' is no short list of whole numbers",
                     v->name);
        return 0;
    }
    for (uint32_t i = 0; i < l.n; i++) ret[i] = (int64_t)l.v[i];
    return l.n;
}

/* ---- data becomes a tensor ------------------------------------------------------------ */

/* Only what the text form can carry. */
static void
clean_name(const char *name, char *ret, size_t n)
{
    size_t i = 0;
    for (; name[i] && i + 16 < n; i++) {
        char c = name[i];
        ret[i] = c > ' ' && c < 127 && c != '"' ? c : '_';
    }
    ret[i] = 0;
}

/* All numbers as floats, rows and columns exchanged if asked. */
static float *
to_floats(const Onnx__TensorProto *t, bool flip)
{
    int64_t n = proto_elems(t), cols = flip ? t->dims[1] : 1, rows = flip ? n / cols : n;
    float  *f = zi_malloc((size_t)n * sizeof *f);
    if (!f) return NULL;
    if (!flip && t->data_type == FLOAT && t->has_raw_data) {
        memcpy(f, t->raw_data.data, (size_t)n * sizeof *f);
        return f;
    }
    for (int64_t i = 0; i < n; i++)
        f[flip ? i % cols * rows + i / cols : i] = (float)proto_number(t, i);
    return f;
}

static zi_tensor_id
make_tensor(zi_onnx *o, const zi_onnx_value *v, zi_role role, uint32_t rank,
            const int64_t *dims, const float *f)
{
    char         name[ZI_NAME_BYTES];
    zi_tensor_id id = ZI_ID_NONE;
    clean_name(v->name, name, sizeof name);
    zi_tensor_spec s = {.name = name,
                        .role = role,
                        .rank = rank,
                        .dims = dims,
                        .init = {.kind = ZI_INIT_VALUE},
                        .value = f};
    o->b->st = zi_graph_add_tensor(o->b->g, &s, &o->b->diag, &id);
    return zi_gb_failed(o->b) ? ZI_ID_NONE : id;
}

static zi_tensor_id
materialize(zi_onnx *o, const zi_onnx_value *v, zi_role role, bool flip)
{
    int64_t dims[ZI_MAX_RANK];
    float   few[ZI_ONNX_MAX_LIST];

    if (v->list && !v->list->whole && v->list->n) {
        for (uint32_t i = 0; i < v->list->n; i++) few[i] = (float)v->list->v[i];
        return make_tensor(o, v, ZI_ROLE_STATE, v->list->rank, v->list->dims, few);
    }
    if (!v->proto || proto_elems(v->proto) < 1 || is_whole(v->proto)) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "'%.80s' is not a tensor of floats", v->name);
        return ZI_ID_NONE;
    }
    float *f = to_floats(v->proto, flip);
    if (!f) {
        zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
        return ZI_ID_NONE;
    }
    for (size_t i = 0; i < v->proto->n_dims; i++)
        dims[i] = v->proto->dims[flip ? 1 - i : i];
    zi_tensor_id id = make_tensor(o, v, role, (uint32_t)v->proto->n_dims, dims, f);
    zi_free(f);
    return id;
}

zi_tensor_id
zi_onnx_value_tensor(zi_onnx *o, zi_onnx_value *v)
{
    if (!v || zi_onnx_failed(o)) return ZI_ID_NONE;
    if (v->tensor == ZI_ID_NONE) /* `proto` stays: the value is data as well */
        v->tensor = materialize(o, v, v->learnt ? ZI_ROLE_PARAM : ZI_ROLE_STATE, false);
    return v->tensor;
}

zi_tensor_id
zi_onnx_value_flipped(zi_onnx *o, zi_onnx_value *v)
{
    if (!v || zi_onnx_failed(o)) return ZI_ID_NONE;
    zi_assert(v->proto && v->proto->n_dims == 2);
    if (v->flipped == ZI_ID_NONE)
        v->flipped = materialize(o, v, v->learnt ? ZI_ROLE_PARAM : ZI_ROLE_STATE, true);
    return v->flipped;
}

zi_tensor_id
zi_onnx_value_state(zi_onnx *o, zi_onnx_value *v)
{
    if (!v || zi_onnx_failed(o)) return ZI_ID_NONE;
    return materialize(o, v, ZI_ROLE_STATE, false);
}

zi_tensor_id
zi_onnx_tensor(zi_onnx *o, size_t i)
{
    return zi_onnx_value_tensor(o, zi_onnx_in(o, i));
}

uint32_t
zi_onnx_rank(const zi_onnx *o, zi_tensor_id t)
{
    return t == ZI_ID_NONE || zi_onnx_failed(o) ? 0 : o->b->g->tensors[t].rank;
}

int64_t
zi_onnx_axis(zi_onnx *o, int64_t axis, uint32_t rank)
{
    int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    if (at >= 0 && at < (int64_t)rank) return at;
    zi_onnx_fail(o, ZICO_E_SHAPE, "axis %" PRId64 " of %" PRIu32 " dims", axis, rank);
    return 0;
}

/* ---- outputs -------------------------------------------------------------------------- */

static zi_onnx_value *
new_out(zi_onnx *o, size_t i)
{
    if (zi_onnx_failed(o)) return NULL;
    if (i >= o->node->n_output || !o->node->output[i][0]) {
        if (i == 0) zi_onnx_fail(o, ZICO_E_FORMAT, "it has no output");
        return NULL;
    }
    uint32_t at = zi_onnx_value_add(o, o->node->output[i]);
    return at == ZI_ID_NONE ? NULL : &o->values[at];
}

void
zi_onnx_out(zi_onnx *o, size_t i, zi_tensor_id t)
{
    zi_onnx_value *v = new_out(o, i);
    if (v) v->tensor = t;
}

void
zi_onnx_out_list(zi_onnx *o, const zi_onnx_list *l)
{
    zi_onnx_value *v = new_out(o, 0);
    if (!v) return;
    v->list = zi_malloc(sizeof *v->list);
    if (v->list)
        *v->list = *l;
    else
        zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
}

void
zi_onnx_out_data(zi_onnx *o, const Onnx__TensorProto *t, bool learnt)
{
    zi_onnx_value *v = new_out(o, 0);
    if (!v) return;
    v->proto = t;
    v->learnt = learnt;
}

/* ---- attributes ----------------------------------------------------------------------- */

const Onnx__AttributeProto *
zi_onnx_attr(const zi_onnx *o, const char *name)
{
    for (size_t i = 0; i < o->node->n_attribute; i++) {
        const Onnx__AttributeProto *a = o->node->attribute[i];
        if (a->name && strcmp(a->name, name) == 0) return a;
    }
    return NULL;
}

int64_t
zi_onnx_attr_int(const zi_onnx *o, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(o, name);
    return a && a->has_i ? a->i : otherwise;
}

double
zi_onnx_attr_float(const zi_onnx *o, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(o, name);
    return a && a->has_f ? a->f : otherwise;
}

bool
zi_onnx_attr_is(const zi_onnx *o, const char *name, const char *text, bool absent)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(o, name);
    if (!a || !a->has_s) return absent;
    return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

uint32_t
zi_onnx_attr_ints(zi_onnx *o, const char *name, int64_t *ret, uint32_t max)
{
    const Onnx__AttributeProto *a = zi_onnx_attr(o, name);
    if (!a || !a->n_ints) return 0;
    if (a->n_ints > max) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                     "attribute %s has %zu numbers, at most %" PRIu32, name, a->n_ints,
                     max);
        return 0;
    }
    memcpy(ret, a->ints, a->n_ints * sizeof *ret);
    return (uint32_t)a->n_ints;
}

/* infer.c -- the shapes that operators make, and why given ones do not fit.
 *
 * One function per family; all have the signature of zi_graph_infer after the operator
 * has been looked up.  Attribute values may come from a hostile file: they are bounded
 * before they are used in arithmetic.  A backward operator checks itself by running the
 * forward rule on the shape it is about to produce.
 */
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "base/check.h"
#include "base/try.h"

#include <inttypes.h>
#include <string.h>

typedef struct ask {
    zi_op                  op;
    const zi_attr         *attr;
    uint32_t               n_in, n_out;
    const zi_shape *const *in;
    const zi_shape *const *hint;
    zi_graph_diag         *diag;
    zi_shape              *out;
} ask;

#define FAIL(...) zi_graph_complain(a->diag, ZICO_E_SHAPE, ZI_ID_NONE, __VA_ARGS__)
#define NEED(cond, ...)                                                                  \
    do {                                                                                 \
        if (!(cond)) return FAIL(__VA_ARGS__);                                           \
    } while (0)

#define MAX_WINDOW 65536 /* of kernels, strides, paddings, dilations */

/* ---- helpers ------------------------------------------------------------------------ */

static const zi_shape *
in(const ask *a, uint32_t i)
{
    return i < a->n_in ? a->in[i] : NULL;
}

static const zi_shape *
hint(const ask *a, uint32_t i)
{
    return a->hint && i < a->n_out ? a->hint[i] : NULL;
}

static bool
same_dims(const zi_shape *x, const zi_shape *y)
{
    if (x->rank != y->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dims[i] != y->dims[i]) return false;
    return true;
}

static const char *
text(const zi_shape *s, char buf[ZI_DIMS_TEXT])
{
    return zi_dims_text(s->rank, s->dims, buf);
}

static zico_status
need_same(const ask *a, const char *what, const zi_shape *x, const zi_shape *y)
{
    char bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    NEED(same_dims(x, y), "%s: %s against %s", what, text(x, bx), text(y, by));
    return ZICO_OK;
}

static zico_status
need_vector(const ask *a, const char *what, const zi_shape *v, int64_t n)
{
    char b[ZI_DIMS_TEXT];
    NEED(v->rank == 1 && v->dims[0] == n, "%s is %s, should be [%" PRId64 "]", what,
         text(v, b), n);
    return ZICO_OK;
}

static zico_status
need_scalar(const ask *a, const char *what, const zi_shape *s)
{
    char b[ZI_DIMS_TEXT];
    NEED(s->rank == 0, "%s is %s, should be a scalar", what, text(s, b));
    return ZICO_OK;
}

static zico_status
need_axis(const ask *a, const zi_shape *x, int64_t axis)
{
    NEED(axis >= 0 && axis < (int64_t)x->rank, "axis %" PRId64 " of %" PRIu32 " dims",
         axis, x->rank);
    return ZICO_OK;
}

static zico_status
need_hint(const ask *a, const zi_shape **ret)
{
    *ret = hint(a, 0);
    NEED(*ret, "the output's dims must be given");
    return ZICO_OK;
}

static zi_shape
scalar_of(zi_dtype t)
{
    return (zi_shape){.dtype = t};
}

static zi_shape
vector_of(zi_dtype t, int64_t n)
{
    return (zi_shape){.dtype = t, .rank = 1, .dims = {n}};
}

static zi_shape
retype(const zi_shape *s, zi_dtype t)
{
    zi_shape r = *s;
    r.dtype = t;
    return r;
}

static bool
is_index(const zi_shape *s)
{
    return s->dtype == ZI_DTYPE_I32 || s->dtype == ZI_DTYPE_I64;
}

/* Output i, if the node has such a position. */
static void
put(const ask *a, uint32_t i, zi_shape s)
{
    if (i < a->n_out) a->out[i] = s;
}

static bool
within(const int64_t *v, size_t n, int64_t lo, int64_t hi)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] < lo || v[i] > hi) return false;
    return true;
}

/* ---- convolution --------------------------------------------------------------------- */

static zico_status
conv_attr_ok(const ask *a)
{
    NEED(within(a->attr->conv.stride, 2, 1, MAX_WINDOW) &&
             within(a->attr->conv.dilation, 2, 1, MAX_WINDOW) &&
             within(a->attr->conv.pad, 4, 0, MAX_WINDOW) &&
             within(a->attr->conv.out_pad, 2, 0, MAX_WINDOW) && a->attr->conv.groups >= 1,
         "stride, padding, dilation or groups out of range");
    NEED(a->attr->conv.act == ZI_POST_NONE || a->attr->conv.act == ZI_POST_RELU,
         "unknown fused activation %" PRId64, a->attr->conv.act);
    return ZICO_OK;
}

static zico_status
conv_forward(const ask *a, const zi_shape *x, const zi_shape *w, zi_shape *ret)
{
    char bx[ZI_DIMS_TEXT], bw[ZI_DIMS_TEXT];

    ZI_TRY(conv_attr_ok(a));
    NEED(x->rank == 4 && w->rank == 4, "input %s and weight %s should have 4 dims",
         text(x, bx), text(w, bw));
    int64_t groups = a->attr->conv.groups;
    NEED(w->dims[1] <= ZI_MAX_ELEMS / groups && x->dims[1] == w->dims[1] * groups &&
             w->dims[0] % groups == 0,
         "input %s does not fit weight %s in %" PRId64 " groups", text(x, bx),
         text(w, bw), groups);
    *ret = (zi_shape){.dtype = x->dtype, .rank = 4, .dims = {x->dims[0], w->dims[0]}};
    for (int i = 0; i < 2; i++) {
        NEED(w->dims[2 + i] <= MAX_WINDOW, "kernel %s is too large", text(w, bw));
        int64_t room = x->dims[2 + i] + a->attr->conv.pad[i] + a->attr->conv.pad[2 + i] -
                       a->attr->conv.dilation[i] * (w->dims[2 + i] - 1) - 1;
        NEED(room >= 0, "kernel %s is larger than padded input %s", text(w, bw),
             text(x, bx));
        ret->dims[2 + i] = room / a->attr->conv.stride[i] + 1;
    }
    return ZICO_OK;
}

static zico_status
convt_forward(const ask *a, const zi_shape *x, const zi_shape *w, zi_shape *ret)
{
    char bx[ZI_DIMS_TEXT], bw[ZI_DIMS_TEXT];

    ZI_TRY(conv_attr_ok(a));
    NEED(x->rank == 4 && w->rank == 4, "input %s and weight %s should have 4 dims",
         text(x, bx), text(w, bw));
    int64_t groups = a->attr->conv.groups;
    NEED(x->dims[1] == w->dims[0] && w->dims[0] % groups == 0 &&
             w->dims[1] <= ZI_MAX_ELEMS / groups,
         "input %s does not fit weight %s in %" PRId64 " groups", text(x, bx),
         text(w, bw), groups);
    *ret = (zi_shape){.dtype = x->dtype,
                      .rank = 4,
                      .dims = {x->dims[0], w->dims[1] * groups}};
    for (int i = 0; i < 2; i++) {
        NEED(w->dims[2 + i] <= MAX_WINDOW && x->dims[2 + i] <= ZI_MAX_ELEMS / MAX_WINDOW,
             "input %s or kernel %s is too large", text(x, bx), text(w, bw));
        ret->dims[2 + i] = (x->dims[2 + i] - 1) * a->attr->conv.stride[i] -
                           a->attr->conv.pad[i] - a->attr->conv.pad[2 + i] +
                           a->attr->conv.dilation[i] * (w->dims[2 + i] - 1) +
                           a->attr->conv.out_pad[i] + 1;
        NEED(ret->dims[2 + i] >= 1, "padding leaves nothing of input %s", text(x, bx));
    }
    return ZICO_OK;
}

static zico_status
infer_conv(const ask *a)
{
    bool transposed = a->op >= ZI_OP_CONVT2D;
    zico_status (*rule)(const ask *, const zi_shape *, const zi_shape *, zi_shape *) =
        transposed ? convt_forward : conv_forward;
    const zi_shape *want;
    zi_shape        y;

    switch (a->op) {
    case ZI_OP_CONV2D:
    case ZI_OP_CONVT2D:
        ZI_TRY(rule(a, a->in[0], a->in[1], &y));
        if (in(a, 2)) ZI_TRY(need_vector(a, "bias", in(a, 2), y.dims[1]));
        put(a, 0, y);
        return ZICO_OK;
    case ZI_OP_CONV2D_DX:
    case ZI_OP_CONVT2D_DX:
        ZI_TRY(need_hint(a, &want));
        ZI_TRY(rule(a, want, a->in[1], &y));
        ZI_TRY(need_same(a, "gradient", a->in[0], &y));
        break;
    default:
        ZI_TRY(need_hint(a, &want));
        ZI_TRY(rule(a, a->in[0], want, &y));
        ZI_TRY(need_same(a, "gradient", a->in[1], &y));
        put(a, 1, vector_of(ZI_DTYPE_F32, y.dims[1]));
    }
    put(a, 0, retype(want, ZI_DTYPE_F32));
    return ZICO_OK;
}

/* ---- linear algebra ------------------------------------------------------------------ */

static zico_status
infer_linear(const ask *a)
{
    const zi_shape *x = a->in[0], *w = a->in[1];
    char            bx[ZI_DIMS_TEXT], bw[ZI_DIMS_TEXT];

    NEED(x->rank >= 1 && w->rank >= 1, "input %s, weight %s", text(x, bx), text(w, bw));
    int64_t last = x->dims[x->rank - 1];
    if (a->op == ZI_OP_LINEAR_DW) {
        NEED(w->rank == x->rank, "input %s, gradient %s", text(x, bx), text(w, bw));
        for (uint32_t i = 0; i + 1 < x->rank; i++)
            NEED(x->dims[i] == w->dims[i], "input %s, gradient %s", text(x, bx),
                 text(w, bw));
        int64_t out = w->dims[w->rank - 1];
        put(a, 0, (zi_shape){.dtype = x->dtype, .rank = 2, .dims = {out, last}});
        put(a, 1, vector_of(x->dtype, out));
        return ZICO_OK;
    }
    int along = a->op == ZI_OP_LINEAR ? 1 : 0; /* the dim of w that is summed over */
    NEED(w->rank == 2 && w->dims[along] == last, "input %s does not fit weight %s",
         text(x, bx), text(w, bw));
    zi_shape y = *x;
    y.dims[x->rank - 1] = w->dims[1 - along];
    if (in(a, 2)) ZI_TRY(need_vector(a, "bias", in(a, 2), w->dims[0]));
    put(a, 0, y);
    put(a, 1, y);
    NEED(a->attr->matmul.act >= ZI_POST_NONE && a->attr->matmul.act <= ZI_POST_GELU_TANH,
         "unknown fused activation %" PRId64, a->attr->matmul.act);
    return ZICO_OK;
}

static zico_status
infer_matmul(const ask *a)
{
    const zi_shape *x = a->in[0], *y = a->in[1];
    char            bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    uint32_t        r = x->rank;

    NEED(r >= 2 && y->rank == r, "%s by %s", text(x, bx), text(y, by));
    for (uint32_t i = 0; i + 2 < r; i++)
        NEED(x->dims[i] == y->dims[i], "batch dims of %s and %s", text(x, bx),
             text(y, by));
    bool ta = a->attr->matmul.trans_a, tb = a->attr->matmul.trans_b;
    NEED(x->dims[r - (ta ? 2 : 1)] == y->dims[r - (tb ? 1 : 2)],
         "%s%s by %s%s: inner dims differ", text(x, bx), ta ? "^T" : "", text(y, by),
         tb ? "^T" : "");
    zi_shape z = *x;
    z.dims[r - 2] = x->dims[r - (ta ? 1 : 2)];
    z.dims[r - 1] = y->dims[r - (tb ? 2 : 1)];
    put(a, 0, z);
    return ZICO_OK;
}

static zico_status
infer_bias(const ask *a)
{
    ZI_TRY(need_axis(a, a->in[0], a->attr->axis.axis));
    ZI_TRY(need_vector(a, "bias", a->in[1], a->in[0]->dims[a->attr->axis.axis]));
    put(a, 0, *a->in[0]);
    return ZICO_OK;
}

/* ---- normalisation ------------------------------------------------------------------- */

static zico_status
infer_batch_norm(const ask *a)
{
    const zi_shape *x = a->in[0];
    char            b[ZI_DIMS_TEXT];
    NEED(x->rank >= 2, "input %s has no channels", text(x, b));
    NEED(a->attr->norm.act == ZI_POST_NONE || a->attr->norm.act == ZI_POST_RELU,
         "unknown fused activation %" PRId64, a->attr->norm.act);
    uint32_t n_vec = a->op == ZI_OP_BATCH_NORM_FIXED ? 4 : 2;
    for (uint32_t i = 1; i <= n_vec; i++)
        ZI_TRY(need_vector(a, "scale, shift or statistic", a->in[i], x->dims[1]));
    put(a, 0, *x);
    if (a->op == ZI_OP_BATCH_NORM_FIXED) return ZICO_OK;

    if (in(a, 3)) ZI_TRY(need_same(a, "added input", in(a, 3), x));
    put(a, 1, vector_of(ZI_DTYPE_F32, x->dims[1]));
    put(a, 2, vector_of(ZI_DTYPE_F32, x->dims[1]));
    put(a, 3, retype(x, ZI_DTYPE_BIT));
    return ZICO_OK;
}

/* in: dy x, then three vectors, [mask or y] */
static zico_status
infer_norm_bwd(const ask *a)
{
    const zi_shape *x = a->in[1];
    char            b[ZI_DIMS_TEXT];
    bool            layer = a->op == ZI_OP_LAYER_NORM_BWD;

    ZI_TRY(need_same(a, "gradient", a->in[0], x));
    NEED(x->rank >= (layer ? 1u : 2u), "input %s", text(x, b));
    int64_t  c = x->dims[layer ? x->rank - 1 : 1];
    zi_shape rows = *x;
    rows.rank--;
    for (uint32_t i = 2; i < 5; i++) {
        if (layer && i < 4)
            ZI_TRY(need_same(a, "statistic", a->in[i], &rows));
        else
            ZI_TRY(need_vector(a, "scale or statistic", a->in[i], c));
    }
    if (in(a, 5)) ZI_TRY(need_same(a, "mask or output", in(a, 5), x));
    put(a, 0, *x);
    put(a, 1, vector_of(ZI_DTYPE_F32, c));
    put(a, 2, vector_of(ZI_DTYPE_F32, c));
    put(a, 3, *x);
    return ZICO_OK;
}

static zico_status
infer_layer_norm(const ask *a)
{
    const zi_shape *x = a->in[0];
    NEED(x->rank >= 1, "input is a scalar");
    ZI_TRY(need_vector(a, "scale", a->in[1], x->dims[x->rank - 1]));
    ZI_TRY(need_vector(a, "shift", a->in[2], x->dims[x->rank - 1]));
    zi_shape rows = *x;
    rows.rank--;
    rows.dims[rows.rank] = 0;
    put(a, 0, *x);
    put(a, 1, rows);
    put(a, 2, rows);
    return ZICO_OK;
}

/* ---- elementwise --------------------------------------------------------------------- */

static zico_status
infer_unary(const ask *a)
{
    for (uint32_t i = 1; i < a->n_in; i++)
        if (in(a, i)) ZI_TRY(need_same(a, "inputs differ", in(a, i), a->in[0]));
    put(a, 0, *a->in[0]);
    put(a, 1, retype(a->in[0], ZI_DTYPE_BIT)); /* relu's mask */
    return ZICO_OK;
}

static zico_status
infer_clip(const ask *a)
{
    NEED(a->attr->clip.lo <= a->attr->clip.hi, "limits %g and %g", a->attr->clip.lo,
         a->attr->clip.hi);
    return infer_unary(a);
}

static zico_status
infer_dropout(const ask *a)
{
    NEED(a->attr->dropout.p >= 0 && a->attr->dropout.p < 1, "probability %g",
         a->attr->dropout.p);
    return infer_unary(a);
}

static zico_status
infer_broadcasting(const ask *a)
{
    const zi_shape *x = a->in[0], *y = a->in[1];
    char            bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    zi_shape        z = x->rank >= y->rank ? *x : *y;

    for (uint32_t i = 0; i < z.rank; i++) { /* aligned at the last dim */
        int64_t dx = i < x->rank ? x->dims[x->rank - 1 - i] : 1;
        int64_t dy = i < y->rank ? y->dims[y->rank - 1 - i] : 1;
        NEED(dx == dy || dx == 1 || dy == 1, "%s and %s do not broadcast", text(x, bx),
             text(y, by));
        z.dims[z.rank - 1 - i] = dx > dy ? dx : dy;
    }
    put(a, 0, z);
    return ZICO_OK;
}

static zico_status
attr_dims(const ask *a, zi_shape *ret)
{
    int64_t rank = a->attr->shape.rank, n = 1;
    NEED(rank >= 0 && rank <= ZI_MAX_RANK, "%" PRId64 " dims", rank);
    *ret = (zi_shape){.dtype = a->in[0]->dtype, .rank = (uint32_t)rank};
    for (int64_t i = 0; i < rank; i++) {
        ret->dims[i] = a->attr->shape.dims[i];
        NEED(ret->dims[i] >= 1 && ret->dims[i] <= ZI_MAX_ELEMS / n,
             "dim %" PRId64 " is %" PRId64, i, ret->dims[i]);
        n *= ret->dims[i];
    }
    return ZICO_OK;
}

static zico_status
infer_broadcast(const ask *a)
{
    const zi_shape *x = a->in[0];
    char            bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    zi_shape        y;

    ZI_TRY(attr_dims(a, &y));
    NEED(x->rank == y.rank, "%s to %s", text(x, bx), text(&y, by));
    for (uint32_t i = 0; i < x->rank; i++)
        NEED(x->dims[i] == 1 || x->dims[i] == y.dims[i], "%s to %s", text(x, bx),
             text(&y, by));
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_reduce(const ask *a)
{
    const zi_shape *x = a->in[0];
    int64_t         axes = a->attr->reduce.axes;
    NEED(axes > 0 && axes < (int64_t)1 << x->rank,
         "axes %#" PRIx64 " of %" PRIu32 " dims", (uint64_t)axes, x->rank);
    zi_shape y = {.dtype = x->dtype};
    for (uint32_t i = 0; i < x->rank; i++) {
        bool gone = axes >> i & 1;
        if (!gone)
            y.dims[y.rank++] = x->dims[i];
        else if (a->attr->reduce.keep)
            y.dims[y.rank++] = 1;
    }
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_fill(const ask *a)
{
    const zi_shape *want;
    ZI_TRY(need_hint(a, &want));
    put(a, 0, *want);
    return ZICO_OK;
}

/* ---- pooling and resampling ---------------------------------------------------------- */

static int64_t
pool_size(const ask *a, int64_t size, int i)
{
    int64_t stride = a->attr->pool.stride[i], pad = a->attr->pool.pad[i];
    int64_t room = size + pad + a->attr->pool.pad[2 + i] - a->attr->pool.kernel[i];
    if (room < 0) return 0;
    if (!a->attr->pool.ceil) return room / stride + 1;
    int64_t n = (room + stride - 1) / stride + 1;
    return (n - 1) * stride >= size + pad ? n - 1
                                          : n; /* no window begins in the border */
}

static zico_status
pool_forward(const ask *a, const zi_shape *x, zi_shape *ret)
{
    char b[ZI_DIMS_TEXT];
    NEED(x->rank == 4, "input %s should have 4 dims", text(x, b));
    NEED(within(a->attr->pool.kernel, 2, 1, MAX_WINDOW) &&
             within(a->attr->pool.stride, 2, 1, MAX_WINDOW) &&
             within(a->attr->pool.pad, 4, 0, MAX_WINDOW),
         "kernel, stride or padding out of range");
    *ret = *x;
    for (int i = 0; i < 2; i++) {
        NEED(a->attr->pool.pad[i] < a->attr->pool.kernel[i] &&
                 a->attr->pool.pad[2 + i] < a->attr->pool.kernel[i],
             "a border as wide as the window");
        ret->dims[2 + i] = pool_size(a, x->dims[2 + i], i);
        NEED(ret->dims[2 + i] >= 1, "window is larger than padded input %s", text(x, b));
    }
    return ZICO_OK;
}

static zi_dtype
index_type(const zi_attr *attr)
{
    bool small = attr->pool.kernel[0] * attr->pool.kernel[1] <= 256;
    return small ? ZI_DTYPE_U8 : ZI_DTYPE_I32;
}

static zico_status
infer_pool(const ask *a)
{
    const zi_shape *want;
    zi_shape        y;
    if (a->op == ZI_OP_MAX_POOL || a->op == ZI_OP_AVG_POOL) {
        ZI_TRY(pool_forward(a, a->in[0], &y));
        put(a, 0, y);
        put(a, 1, retype(&y, index_type(a->attr)));
        return ZICO_OK;
    }
    ZI_TRY(need_hint(a, &want));
    ZI_TRY(pool_forward(a, want, &y));
    ZI_TRY(need_same(a, "gradient", a->in[0], &y));
    if (in(a, 1)) {
        ZI_TRY(need_same(a, "index", in(a, 1), &y));
        NEED(in(a, 1)->dtype == index_type(a->attr), "index of another type");
    }
    put(a, 0, retype(want, ZI_DTYPE_F32));
    return ZICO_OK;
}

static zico_status
infer_global_pool(const ask *a)
{
    const zi_shape *x = a->in[0];
    if (a->op == ZI_OP_GLOBAL_AVG_POOL_BWD) ZI_TRY(need_hint(a, &x));
    char b[ZI_DIMS_TEXT];
    NEED(x->rank == 4, "input %s should have 4 dims", text(x, b));
    zi_shape y = *x;
    y.dims[2] = y.dims[3] = 1;
    if (a->op == ZI_OP_GLOBAL_AVG_POOL_BWD) {
        ZI_TRY(need_same(a, "gradient", a->in[0], &y));
        y = *x;
    }
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_resize(const ask *a)
{
    const zi_shape *x = a->in[0];
    if (a->op == ZI_OP_RESIZE_BWD) ZI_TRY(need_hint(a, &x));
    char b[ZI_DIMS_TEXT];
    NEED(x->rank == 4, "input %s should have 4 dims", text(x, b));
    NEED(within(a->attr->resize.size, 2, 1, 1 << 24), "size out of range");
    NEED(within(&a->attr->resize.mode, 1, 0, 1), "unknown mode");
    zi_shape y = *x;
    y.dims[2] = a->attr->resize.size[0];
    y.dims[3] = a->attr->resize.size[1];
    if (a->op == ZI_OP_RESIZE_BWD) {
        ZI_TRY(need_same(a, "gradient", a->in[0], &y));
        y = *x;
    }
    put(a, 0, y);
    return ZICO_OK;
}

/* ---- shape --------------------------------------------------------------------------- */

static int64_t
elems(const zi_shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

static zico_status
infer_reshape(const ask *a)
{
    char     bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    zi_shape y;
    ZI_TRY(attr_dims(a, &y));
    NEED(elems(a->in[0]) == elems(&y), "%s has not as many elements as %s",
         text(a->in[0], bx), text(&y, by));
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_transpose(const ask *a)
{
    const zi_shape *x = a->in[0];
    zi_shape        y = *x;
    uint32_t        seen = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t p = a->attr->perm.perm[i];
        NEED(p >= 0 && p < (int64_t)x->rank && !(seen >> p & 1), "not a permutation");
        seen |= 1u << p;
        y.dims[i] = x->dims[p];
    }
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_concat(const ask *a)
{
    char     bx[ZI_DIMS_TEXT], by[ZI_DIMS_TEXT];
    zi_shape y = *a->in[0];
    int64_t  axis = a->attr->axis.axis;

    ZI_TRY(need_axis(a, &y, axis));
    for (uint32_t i = 1; i < a->n_in; i++) {
        zi_shape x = *a->in[i];
        bool     fits = x.rank == y.rank && x.dtype == y.dtype;
        for (uint32_t k = 0; fits && k < x.rank; k++)
            fits = k == (uint32_t)axis || x.dims[k] == y.dims[k];
        NEED(fits, "input %" PRIu32 " %s does not fit %s", i, text(&x, bx), text(&y, by));
        y.dims[axis] += x.dims[axis];
        NEED(y.dims[axis] <= ZI_MAX_ELEMS, "too large");
    }
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_split(const ask *a)
{
    const zi_shape *x = a->in[0];
    int64_t         axis = a->attr->split.axis, n = a->n_out;
    ZI_TRY(need_axis(a, x, axis));
    int64_t part = a->attr->split.part ? a->attr->split.part : x->dims[axis] / n;
    NEED(part >= 1 && (n == 1 || part <= (x->dims[axis] - 1) / (n - 1)) &&
             (a->attr->split.part || part * n == x->dims[axis]),
         "%" PRId64 " parts of dim %" PRId64, n, x->dims[axis]);
    for (uint32_t i = 0; i < a->n_out; i++) {
        zi_shape y = *x;
        y.dims[axis] = i + 1 < a->n_out ? part : x->dims[axis] - part * (n - 1);
        put(a, i, y);
    }
    return ZICO_OK;
}

static zico_status
infer_slice(const ask *a)
{
    const zi_shape *x = a->in[0];
    zi_shape        y = *x;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t begin = a->attr->slice.begin[i], size = a->attr->slice.size[i];
        NEED(begin >= 0 && size >= 1 && begin < x->dims[i] && size <= x->dims[i] - begin,
             "%" PRId64 " from %" PRId64 " of dim %" PRId64, size, begin, x->dims[i]);
        y.dims[i] = size;
    }
    put(a, 0, y);
    return ZICO_OK;
}

static zico_status
infer_pad(const ask *a)
{
    zi_shape y = *a->in[0];
    for (uint32_t i = 0; i < y.rank; i++) {
        int64_t before = a->attr->pad.before[i], after = a->attr->pad.after[i];
        NEED(before >= 0 && after >= 0 && before <= ZI_MAX_ELEMS && after <= ZI_MAX_ELEMS,
             "border out of range");
        y.dims[i] += before + after;
    }
    put(a, 0, y);
    return ZICO_OK;
}

/* ---- softmax, losses, the rest ------------------------------------------------------- */

static zico_status
infer_softmax(const ask *a)
{
    const zi_shape *x = a->in[0];
    NEED(x->rank >= (a->attr->softmax.causal ? 2u : 1u), "too few dims");
    return infer_unary(a);
}

static zico_status
infer_loss(const ask *a)
{
    const zi_shape *x = a->in[0], *labels = a->in[1];
    char            bx[ZI_DIMS_TEXT], bl[ZI_DIMS_TEXT];
    int64_t         axis = a->attr->loss.axis;

    ZI_TRY(need_axis(a, x, axis));
    zi_shape rows = {.dtype = ZI_DTYPE_F32};
    for (uint32_t i = 0; i < x->rank; i++)
        if (i != (uint32_t)axis) rows.dims[rows.rank++] = x->dims[i];
    NEED(is_index(labels) && same_dims(&rows, labels),
         "labels %s (%s) do not fit predictions %s", text(labels, bl),
         zi_dtype_text(labels->dtype), text(x, bx));
    if (a->op == ZI_OP_CROSS_ENTROPY || a->op == ZI_OP_NLL) {
        put(a, 0, scalar_of(ZI_DTYPE_F32));
        put(a, 1, rows);
        return ZICO_OK;
    }
    if (a->op == ZI_OP_CROSS_ENTROPY_BWD)
        ZI_TRY(need_same(a, "log-sum-exp", a->in[2], &rows));
    ZI_TRY(need_scalar(a, "gradient", a->in[a->n_in - 1]));
    put(a, 0, *x);
    return ZICO_OK;
}

static zico_status
infer_mse(const ask *a)
{
    ZI_TRY(need_same(a, "prediction and target", a->in[0], a->in[1]));
    if (a->op == ZI_OP_MSE_BWD) ZI_TRY(need_scalar(a, "gradient", a->in[2]));
    put(a, 0, a->op == ZI_OP_MSE ? scalar_of(ZI_DTYPE_F32) : *a->in[0]);
    return ZICO_OK;
}

static zico_status
infer_embedding(const ask *a)
{
    const zi_shape *index = a->in[0], *table = a->in[1];
    bool            bwd = a->op == ZI_OP_EMBEDDING_BWD;
    if (bwd) ZI_TRY(need_hint(a, &table));
    NEED(is_index(index), "the index is %s", zi_dtype_text(index->dtype));
    NEED(table->rank == 2 && index->rank < ZI_MAX_RANK, "the table should have 2 dims");
    zi_shape y = retype(index, table->dtype);
    y.dims[y.rank++] = table->dims[1];
    if (bwd) ZI_TRY(need_same(a, "gradient", a->in[1], &y));
    put(a, 0, bwd ? *table : y);
    return ZICO_OK;
}

static zico_status
infer_lstm(const ask *a)
{
    const zi_shape *gates = a->in[0], *c = a->in[1];
    char            bg[ZI_DIMS_TEXT], bc[ZI_DIMS_TEXT];
    NEED(gates->rank == 2 && c->rank == 2 && gates->dims[0] == c->dims[0] &&
             gates->dims[1] % 4 == 0 && gates->dims[1] / 4 == c->dims[1],
         "gates %s do not fit cell %s", text(gates, bg), text(c, bc));
    for (uint32_t i = 2; i < a->n_in; i++)
        if (in(a, i)) ZI_TRY(need_same(a, "cell or gradient", in(a, i), c));
    bool bwd = a->op == ZI_OP_LSTM_CELL_BWD;
    put(a, 0, bwd ? *gates : *c);
    put(a, 1, *c);
    put(a, 2, *gates);
    return ZICO_OK;
}

static zico_status
infer_optim(const ask *a)
{
    if (a->op == ZI_OP_CLIP_SCALE) {
        put(a, 0, scalar_of(ZI_DTYPE_F32));
        return ZICO_OK;
    }
    for (uint32_t i = 1; i < a->n_in; i++)
        if (in(a, i)) ZI_TRY(need_scalar(a, "rate, step or scale", in(a, i)));
    return ZICO_OK;
}

static zico_status
infer_stats(const ask *a)
{
    char b[ZI_DIMS_TEXT];
    NEED(a->in[0]->rank == 1, "mean %s is no vector", text(a->in[0], b));
    NEED(a->attr->norm.count >= 1, "count %" PRId64, a->attr->norm.count);
    return need_same(a, "mean and variance", a->in[0], a->in[1]);
}

/* ---- dispatch ------------------------------------------------------------------------ */

typedef zico_status infer_fn(const ask *a);

/* clang-format off */
static infer_fn *
rule_of(zi_op op)
{
    switch (op) { /* a table in the shape of a switch: the compiler finds missing rows */
    case ZI_OP_CONV2D: case ZI_OP_CONV2D_DX: case ZI_OP_CONV2D_DW:
    case ZI_OP_CONVT2D: case ZI_OP_CONVT2D_DX: case ZI_OP_CONVT2D_DW: return infer_conv;
    case ZI_OP_LINEAR: case ZI_OP_LINEAR_DX: case ZI_OP_LINEAR_DW: return infer_linear;
    case ZI_OP_MATMUL: return infer_matmul;
    case ZI_OP_BIAS: return infer_bias;
    case ZI_OP_BATCH_NORM: case ZI_OP_BATCH_NORM_FIXED: return infer_batch_norm;
    case ZI_OP_BATCH_NORM_BWD: case ZI_OP_BATCH_NORM_FIXED_BWD:
    case ZI_OP_LAYER_NORM_BWD: return infer_norm_bwd;
    case ZI_OP_BN_STATS: return infer_stats;
    case ZI_OP_LAYER_NORM: return infer_layer_norm;
    case ZI_OP_RELU: case ZI_OP_RELU_BWD: case ZI_OP_SIGMOID: case ZI_OP_SIGMOID_BWD:
    case ZI_OP_TANH: case ZI_OP_TANH_BWD: case ZI_OP_GELU: case ZI_OP_GELU_BWD:
    case ZI_OP_SILU: case ZI_OP_SILU_BWD: case ZI_OP_SCALE: return infer_unary;
    case ZI_OP_CLIP: case ZI_OP_CLIP_BWD: return infer_clip;
    case ZI_OP_DROPOUT: case ZI_OP_DROPOUT_BWD: return infer_dropout;
    case ZI_OP_MAX_POOL: case ZI_OP_MAX_POOL_BWD: case ZI_OP_AVG_POOL:
    case ZI_OP_AVG_POOL_BWD: return infer_pool;
    case ZI_OP_GLOBAL_AVG_POOL: case ZI_OP_GLOBAL_AVG_POOL_BWD: return infer_global_pool;
    case ZI_OP_RESIZE: case ZI_OP_RESIZE_BWD: return infer_resize;
    case ZI_OP_ADD: case ZI_OP_SUB: case ZI_OP_MUL: case ZI_OP_DIV:
        return infer_broadcasting;
    case ZI_OP_BROADCAST: return infer_broadcast;
    case ZI_OP_REDUCE_SUM: case ZI_OP_REDUCE_MEAN: return infer_reduce;
    case ZI_OP_FILL: return infer_fill;
    case ZI_OP_RESHAPE: return infer_reshape;
    case ZI_OP_TRANSPOSE: return infer_transpose;
    case ZI_OP_CONCAT: return infer_concat;
    case ZI_OP_SPLIT: return infer_split;
    case ZI_OP_SLICE: return infer_slice;
    case ZI_OP_PAD: return infer_pad;
    case ZI_OP_SOFTMAX: case ZI_OP_SOFTMAX_BWD: return infer_softmax;
    case ZI_OP_CROSS_ENTROPY: case ZI_OP_CROSS_ENTROPY_BWD: case ZI_OP_NLL:
    case ZI_OP_NLL_BWD: return infer_loss;
    case ZI_OP_MSE: case ZI_OP_MSE_BWD: return infer_mse;
    case ZI_OP_EMBEDDING: case ZI_OP_EMBEDDING_BWD: return infer_embedding;
    case ZI_OP_LSTM_CELL: case ZI_OP_LSTM_CELL_BWD: return infer_lstm;
    case ZI_OP_SGD: case ZI_OP_MOMENTUM: case ZI_OP_ADAM: case ZI_OP_ADAMW:
    case ZI_OP_CLIP_SCALE: return infer_optim;
    case ZI_OP_COUNT: break;
    }
    return NULL;
}

/* Which inputs may be something else than f32: indices, labels, masks, relu's second. */
static bool
may_be_other(zi_op op, uint32_t i)
{
    switch (op) {
    case ZI_OP_RELU_BWD: return i == 1;
    case ZI_OP_BATCH_NORM_BWD: return i == 5;
    case ZI_OP_MAX_POOL_BWD: return i == 1;
    case ZI_OP_CROSS_ENTROPY: case ZI_OP_CROSS_ENTROPY_BWD: case ZI_OP_NLL:
    case ZI_OP_NLL_BWD: return i == 1;
    case ZI_OP_EMBEDDING: case ZI_OP_EMBEDDING_BWD: return i == 0;
    case ZI_OP_RESHAPE: case ZI_OP_SPLIT: case ZI_OP_SLICE: case ZI_OP_CONCAT:
        return true; /* they move bytes, whatever these mean; bits cannot be cut */
    default: return false;
    }
}

/* clang-format on */

static zico_status
check_types(const ask *a)
{
    for (uint32_t i = 0; i < a->n_in; i++) {
        const zi_shape *s = a->in[i];
        if (!s || s->dtype == ZI_DTYPE_F32) continue;
        bool bits_ok = a->op == ZI_OP_RELU_BWD || a->op == ZI_OP_BATCH_NORM_BWD;
        NEED(may_be_other(a->op, i) && (s->dtype != ZI_DTYPE_BIT || bits_ok),
             "input %" PRIu32 " is %s, should be f32", i, zi_dtype_text(s->dtype));
    }
    return ZICO_OK;
}

/* No result larger than a tensor may be. */
static zico_status
check_sizes(const ask *a)
{
    char b[ZI_DIMS_TEXT];
    for (uint32_t i = 0; i < a->n_out; i++) {
        int64_t n = 1;
        NEED(a->out[i].rank <= ZI_MAX_RANK, "output has too many dims");
        for (uint32_t k = 0; k < a->out[i].rank; k++) {
            int64_t d = a->out[i].dims[k];
            NEED(d >= 1 && d <= ZI_MAX_ELEMS / n, "output %s is too large",
                 text(&a->out[i], b));
            n *= d;
        }
    }
    return ZICO_OK;
}

zico_status
zi_graph_infer(zi_op op, const zi_attr *attr, uint32_t n_in, const zi_shape *const *ins,
               uint32_t n_out, const zi_shape *const *hints, zi_graph_diag *diag,
               zi_shape *ret_out)
{
    ask        it = {.op = op,
                     .attr = attr,
                     .n_in = n_in,
                     .n_out = n_out,
                     .in = ins,
                     .hint = hints,
                     .diag = diag,
                     .out = ret_out};
    const ask *a = &it;
    infer_fn  *rule = rule_of(op);

    NEED(rule, "unknown operator");
    for (uint32_t i = 0; i < zi_op_get(op)->in_min; i++)
        NEED(i < n_in && ins[i], "input %" PRIu32 " is missing", i);
    memset(ret_out, 0, n_out * sizeof *ret_out);
    ZI_TRY(check_types(a));
    ZI_TRY(rule(a));
    return check_sizes(a);
}

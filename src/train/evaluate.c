/* evaluate.c -- accuracy and loss of predictions. */
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

/* Logits as (outer, classes, inner), one label per (outer, inner). */
typedef struct layout {
    int64_t outer, classes, inner;
} layout;

static int64_t
label_at(const zi_data_want *want, const void *y, int64_t i)
{
    return want->y.dtype == ZI_DTYPE_I64 ? ((const int64_t *)y)[i]
                                         : ((const int32_t *)y)[i];
}

/* Where the classes are: the one axis that the labels do not have. */
static zico_status
find_layout(const zi_shape *logits, const zi_data_want *want, int64_t batch, layout *ret)
{
    uint32_t axis = 0;

    if (logits->rank != want->y.rank + 2 || logits->dims[0] != batch) return ZICO_E_SHAPE;
    /* tokens (N,T,V): labels (N,T); images (N,C,H,W): labels (N,H,W) */
    for (axis = 1; axis < logits->rank; axis++) {
        bool fits = true;
        for (uint32_t i = 0; i < want->y.rank; i++)
            fits = fits && logits->dims[i + 1 + (i + 1 >= axis)] == want->y.dims[i];
        if (want->class_axis > 0 && axis != want->class_axis) continue;
        if (fits && (want->n_classes == 0 || logits->dims[axis] == want->n_classes))
            break;
    }
    if (axis == logits->rank) return ZICO_E_SHAPE;
    *ret = (layout){1, logits->dims[axis], 1};
    for (uint32_t i = 0; i < axis; i++) ret->outer *= logits->dims[i];
    for (uint32_t i = axis + 1; i < logits->rank; i++) ret->inner *= logits->dims[i];
    return ZICO_OK;
}

static void
add_targets(zi_score *s, const float *x, const float *y, int64_t n, int64_t batch)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) sum += pow((double)x[i] - (double)y[i], 2);
    s->loss += sum / (double)n * (double)batch;
    s->n_samples += (uint64_t)batch;
}

zico_status
zi_score_add(zi_score *s, const zi_shape *logits, const float *x,
             const zi_data_want *want, int64_t batch, const void *y)
{
    layout l = {0, 0, 0};

    if (want->y.dtype == ZI_DTYPE_F32) {
        int64_t n = zi_shape_elems(logits);
        if (n != zi_shape_elems(&want->y) * batch) return ZICO_E_SHAPE;
        add_targets(s, x, y, n, batch);
        return ZICO_OK;
    }
    zico_status st = find_layout(logits, want, batch, &l);
    if (st < 0) return st;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            const float *v = x + o * l.classes * l.inner + i;
            int64_t      label = label_at(want, y, o * l.inner + i), best = 0;
            double       sum = 0;
            if (label < 0 || label >= l.classes) continue;
            for (int64_t c = 1; c < l.classes; c++)
                if (v[c * l.inner] > v[best * l.inner]) best = c;
            double top = (double)v[best * l.inner];
            for (int64_t c = 0; c < l.classes; c++)
                sum += exp((double)v[c * l.inner] - top);
            s->loss += log(sum) + top - (double)v[label * l.inner];
            s->accuracy += best == label;
            s->n_labels++;
        }
    s->n_samples += (uint64_t)batch;
    return ZICO_OK;
}

zico_status
zi_evaluate(zi_engine *forward, zi_loader *loader, uint64_t n_batches,
            const zi_data_want *want, zi_train_diag *diag, zi_score *ret_score)
{
    const zi_graph     *g = zi_engine_graph(forward);
    zi_score            s = {.n_samples = 0};
    zi_exec_step_result r;

    if (g->n_outputs == 0)
        return zi_train_fail(diag, ZICO_E_SHAPE, "%s has no output to judge", g->name);
    const zi_tensor *out = &g->tensors[g->outputs[0]];
    zi_shape         shape = zi_tensor_shape(out);
    float           *x = zi_malloc(out->bytes);
    if (!x) return ZICO_E_NOMEM;
    zico_status st = ZICO_OK;
    for (uint64_t i = 0; st >= 0 && i < n_batches; i++) {
        const zi_batch *b;
        st = zi_loader_next(loader, diag, &b);
        if (st >= 0) st = zi_engine_step(forward, b->x, b->y, 0, i + 1);
        if (st >= 0) st = zi_engine_result(forward, true, &r);
        if (st >= 0) st = r.status;
        if (st >= 0) st = zi_engine_output(forward, x, out->bytes);
        if (st >= 0)
            st = zi_score_add(&s, &shape, x, want, zi_engine_batch(forward), b->y);
    }
    zi_free(x);
    if (st < 0 && diag && !diag->text[0])
        zi_train_fail(diag, st, "judging %s: %s", g->name, zico_status_text(st));
    uint64_t n = s.n_labels ? s.n_labels : s.n_samples;
    if (st >= 0 && n > 0) s.loss /= (double)n, s.accuracy /= (double)n;
    if (st >= 0) *ret_score = s;
    return st;
}

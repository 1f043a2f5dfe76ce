/* source_synthetic.c -- samples made up from a seed, with something to learn in them.
 *
 *   classes       each class has a coarse pattern (8 x 8 cells); a sample is its pattern
 *                 plus noise.  Chance gets 1/classes right, a good network nearly all
 *   label maps    a rectangle of one class on ground of class 0; each class has a colour
 *   tokens        a Markov chain: each token has four successors with 70, 15, 10, 5 %,
 *                 so the loss cannot fall below 0.91 nats
 *   targets       a few hidden numbers drive both sample and target, linearly
 *
 * Sample i is a function of (seed, i); held samples have other numbers.
 */
#include "train/sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"

#define CELLS     8
#define HIDDEN    8
#define MAX_WORDS 64 /* tokens the chain really uses */
#define HELD_AT   ((uint64_t)1 << 40)
#define NOISE     0.6f

typedef enum synthetic_kind { CLASSES, MAPS, TOKENS, TARGETS } synthetic_kind;

typedef struct synthetic_source {
    zi_source      base;
    synthetic_kind kind;
    uint64_t       seed, first;
    int64_t        n_classes;
} synthetic_source;

/* A number in [-1, 1) that belongs to a place. */
static float
fixed_noise(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t h = zi_hash_mix(zi_hash_mix(seed + a * 0x9e3779b97f4a7c15u) + b);
    return (float)((double)(h >> 11) * 0x1p-52 - 1.0);
}

/* Cheap noise of mean 0 and variance about 1: the sum of four uniform numbers. */
static float
noise(zi_rng *r)
{
    uint64_t v = zi_rng_next(r);
    int32_t  sum = 0;

    for (int i = 0; i < 4; i++) sum += (int32_t)(v >> (16 * i) & 0xffff);
    return (float)(sum - 2 * 65535) * (1.0f / 37837.0f);
}

typedef struct grid { /* channels x rows x columns of a sample, whatever its rank */
    int64_t c, h, w;
} grid;

static grid
grid_of(const zi_shape *x)
{
    grid g = {1, 1, 1};

    if (x->rank > 0) g.w = x->dims[x->rank - 1];
    if (x->rank > 1) g.h = x->dims[x->rank - 2];
    for (uint32_t i = 0; i + 2 < x->rank; i++) g.c *= x->dims[i];
    return g;
}

/* Which of CELLS cells a place of n lies in. */
static uint64_t
cell(int64_t i, int64_t n)
{
    return (uint64_t)(i * CELLS / n);
}

static uint64_t
cell_at(const grid *g, int64_t c, int64_t y, int64_t x)
{
    if (g->h == 1)
        return (uint64_t)c * CELLS * CELLS + (uint64_t)(x * CELLS * CELLS / g->w);
    return ((uint64_t)c * CELLS + cell(y, g->h)) * CELLS + cell(x, g->w);
}

static void
make_class(const synthetic_source *s, zi_rng *r, float *x, void *y, zi_train_diag *diag)
{
    grid    g = grid_of(&s->base.want.x);
    int64_t label = (int64_t)zi_rng_below(r, (uint64_t)s->n_classes);

    for (int64_t c = 0; c < g.c; c++)
        for (int64_t i = 0; i < g.h; i++) {
            uint64_t last = UINT64_MAX;
            float    v = 0;
            for (int64_t k = 0; k < g.w; k++) {
                uint64_t at = cell_at(&g, c, i, k);
                if (at != last) v = fixed_noise(s->seed, (uint64_t)label, last = at);
                *x++ = v + NOISE * noise(r);
            }
        }
    zico_status st = ZICO_OK;
    if (y) st = zi_data_put_label(&s->base.want, label, "synthetic", 0, 0, y, diag);
    zi_assert(st >= 0);
}

static void
make_map(const synthetic_source *s, zi_rng *r, float *x, void *y, zi_train_diag *diag)
{
    grid    g = grid_of(&s->base.want.x);
    int64_t label =
        s->n_classes > 1 ? 1 + (int64_t)zi_rng_below(r, (uint64_t)s->n_classes - 1) : 0;
    int64_t h = g.h / 4 + (int64_t)zi_rng_below(r, (uint64_t)(g.h / 2 + 1));
    int64_t w = g.w / 4 + (int64_t)zi_rng_below(r, (uint64_t)(g.w / 2 + 1));
    int64_t top = (int64_t)zi_rng_below(r, (uint64_t)(g.h - h + 1));
    int64_t left = (int64_t)zi_rng_below(r, (uint64_t)(g.w - w + 1));
    size_t  at = 0;

    for (int64_t c = 0; c < g.c; c++)
        for (int64_t i = 0; i < g.h; i++)
            for (int64_t k = 0; k < g.w; k++, at++) {
                bool    in = i >= top && i < top + h && k >= left && k < left + w;
                int64_t here = in ? label : 0;
                x[at] = fixed_noise(s->seed, (uint64_t)here, (uint64_t)c) * 1.5f +
                        NOISE * noise(r);
                if (c > 0 || !y) continue;
                zico_status st =
                    zi_data_put_label(&s->base.want, here, "synthetic", 0, at, y, diag);
                zi_assert(st >= 0);
            }
}

static uint64_t
next_word(const synthetic_source *s, uint64_t word, uint64_t n_words, zi_rng *r)
{
    double   u = zi_rng_unit(r);
    uint64_t branch = u < 0.70 ? 0 : u < 0.85 ? 1 : u < 0.95 ? 2 : 3;

    return zi_hash_mix(zi_hash_mix(s->seed + word) + branch) % n_words;
}

static void
make_tokens(const synthetic_source *s, zi_rng *r, void *x, void *y)
{
    const zi_data_want *want = &s->base.want;
    uint64_t            n_words =
        want->vocab > 0 && want->vocab < MAX_WORDS ? (uint64_t)want->vocab : MAX_WORDS;
    uint64_t word = zi_rng_below(r, n_words);
    int64_t  n = zi_shape_elems(&want->x);

    for (int64_t i = 0; i < n; i++) {
        uint64_t next = next_word(s, word, n_words, r);
        if (want->x.dtype == ZI_DTYPE_I64)
            ((int64_t *)x)[i] = (int64_t)word;
        else
            ((int32_t *)x)[i] = (int32_t)word;
        if (y && want->y.dtype == ZI_DTYPE_I64)
            ((int64_t *)y)[i] = (int64_t)next;
        else if (y)
            ((int32_t *)y)[i] = (int32_t)next;
        word = next;
    }
}

static void
make_target(const synthetic_source *s, zi_rng *r, float *x, float *y)
{
    grid    g = grid_of(&s->base.want.x);
    float   hidden[HIDDEN];
    int64_t n_x = zi_shape_elems(&s->base.want.x), n_y = zi_shape_elems(&s->base.want.y);

    for (int k = 0; k < HIDDEN; k++) hidden[k] = noise(r);
    for (int64_t i = 0; i < n_x; i++) {
        int64_t  row = i / g.w;
        uint64_t at = cell_at(&g, row / g.h, row % g.h, i % g.w);
        float    v = 0;
        for (int k = 0; k < HIDDEN; k++)
            v += hidden[k] * fixed_noise(s->seed, (uint64_t)k, at);
        x[i] = v / 2 + NOISE * noise(r);
    }
    for (int64_t i = 0; y && i < n_y; i++) {
        float v = 0;
        for (int k = 0; k < HIDDEN; k++)
            v += hidden[k] * fixed_noise(s->seed, HIDDEN + (uint64_t)k, (uint64_t)i);
        y[i] = v / 2;
    }
}

static zico_status
synthetic_read(const zi_source *base, uint64_t index, uint64_t draw, void *ret_x,
               void *ret_y, zi_train_diag *diag)
{
    const synthetic_source *s = (const synthetic_source *)base;
    zi_rng r = zi_rng_seed(zi_hash_mix(s->seed ^ 0x73796e7468) + s->first + index);

    (void)draw;
    switch (s->kind) {
    case CLASSES:
        make_class(s, &r, ret_x, ret_y, diag);
        break;
    case MAPS:
        make_map(s, &r, ret_x, ret_y, diag);
        break;
    case TOKENS:
        make_tokens(s, &r, ret_x, ret_y);
        break;
    case TARGETS:
        make_target(s, &r, ret_x, ret_y);
        break;
    }
    return ZICO_OK;
}

/* What can be made up for a network that wants this. */
static zico_status
choose_kind(const zi_data_want *w, synthetic_kind *ret_kind, zi_train_diag *diag)
{
    char    text[2][96];
    bool    tokens = w->x.dtype != ZI_DTYPE_F32;
    int64_t n_y = w->has_y ? zi_shape_elems(&w->y) : 1;
    grid    g = grid_of(&w->x);

    if (tokens &&
        (!w->has_y || (n_y == zi_shape_elems(&w->x) && w->y.dtype != ZI_DTYPE_F32)))
        *ret_kind = TOKENS;
    else if (!tokens && w->has_y && w->y.dtype == ZI_DTYPE_F32)
        *ret_kind = TARGETS;
    else if (!tokens && n_y == 1)
        *ret_kind = CLASSES;
    else if (!tokens && n_y == g.h * g.w)
        *ret_kind = MAPS;
    else
        return zi_train_fail(diag, ZICO_E_SHAPE,
                             "no synthetic data for samples of %s with labels of %s",
                             zi_shape_text(&w->x, text[0]),
                             zi_shape_text(&w->y, text[1]));
    return ZICO_OK;
}

static void
synthetic_close(zi_source *base)
{
    zi_free(base);
}

static zico_status
synthetic_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
               zi_train_diag *diag, zi_source **ret_source)
{
    synthetic_kind kind = CLASSES;
    zico_status    st = choose_kind(want, &kind, diag);

    (void)os;
    if (st < 0) return st;
    synthetic_source *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->base = (zi_source){.ops = &zi_source_synthetic, .want = *want};
    s->base.n_samples = spec->n_samples ? spec->n_samples : 50000;
    s->kind = kind;
    s->seed = spec->seed;
    s->first = spec->part == ZI_DATA_HELD ? HELD_AT : 0;
    s->n_classes = want->n_classes > 0 ? want->n_classes : 10;
    *ret_source = &s->base;
    return ZICO_OK;
}

const zi_source_ops zi_source_synthetic = {.kind = "synthetic",
                                           .meaning = "made up from the seed, learnable",
                                           .open = synthetic_open,
                                           .read = synthetic_read,
                                           .close = synthetic_close};

/* observe_read.c -- from an observed process's notes to the tide of its typical step. */
#include "hook/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/try.h"
#include "base/vec.h"

typedef struct step_span {
    uint64_t began_ns, ended_ns;
    size_t   first, end; /* events [first, end) */
    uint64_t base_bytes; /* held when it began  */
} step_span;

typedef struct notes {
    const zi_observe_event *event;
    size_t                  n;
    ZI_VEC(step_span) steps;
    uint64_t peak_bytes;
} notes;

static int64_t
delta_of(const zi_observe_event *e)
{
    if (e->kind == ZI_OBSERVE_TAKE) return (int64_t)e->size_bytes;
    return e->kind == ZI_OBSERVE_GIVE ? -(int64_t)e->size_bytes : 0;
}

/* Steps are what lies between two marks. */
static zico_status
find_steps(notes *x)
{
    int64_t  held = 0;
    uint64_t last_ns = 0, base = 0;
    size_t   first = SIZE_MAX;

    for (size_t i = 0; i < x->n; i++) {
        held += delta_of(&x->event[i]);
        if (held < 0) held = 0;
        if ((uint64_t)held > x->peak_bytes) x->peak_bytes = (uint64_t)held;
        if (x->event[i].kind != ZI_OBSERVE_STEP) continue;
        step_span s = {last_ns, x->event[i].at_ns, first, i, base};
        if (first != SIZE_MAX) ZI_TRY(zi_vec_push(&x->steps, s));
        first = i + 1;
        last_ns = x->event[i].at_ns;
        base = (uint64_t)held;
    }
    return ZICO_OK;
}

static int
by_length(const void *a, const void *b)
{
    uint64_t x = ((const step_span *)a)->ended_ns - ((const step_span *)a)->began_ns;
    uint64_t y = ((const step_span *)b)->ended_ns - ((const step_span *)b)->began_ns;
    return x < y ? -1 : x > y;
}

/* Lowest point of the step, and its mean over time. */
static void
measure(const notes *x, const step_span *s, uint64_t *ret_floor, uint64_t *ret_mean)
{
    int64_t  held = (int64_t)s->base_bytes, least = held;
    double   area = 0;
    uint64_t at = s->began_ns;

    for (size_t i = s->first; i < s->end; i++) {
        const zi_observe_event *e = &x->event[i];
        if (e->at_ns > at) {
            area += (double)held * (double)(e->at_ns - at);
            at = e->at_ns;
        }
        held += delta_of(e);
        if (held < 0) held = 0;
        if (held < least) least = held;
    }
    if (s->ended_ns > at) area += (double)held * (double)(s->ended_ns - at);
    uint64_t length = s->ended_ns - s->began_ns;
    *ret_floor = (uint64_t)least;
    *ret_mean = length ? (uint64_t)(area / (double)length) : (uint64_t)held;
}

/* The events [first, end) as a tide above `floor`, which returns to nothing at its end. */
static zico_status
tide_of(const notes *x, const step_span *s, uint64_t floor_bytes, zi_tide *ret)
{
    zi_tide_recorder *rec;
    int64_t           above = (int64_t)(s->base_bytes - floor_bytes);

    ZI_TRY(zi_tide_recorder_new(&rec));
    zi_tide_recorder_begin(rec, s->began_ns);
    if (above > 0) zi_tide_recorder_add(rec, s->began_ns, above);
    for (size_t i = s->first; i < s->end; i++) {
        int64_t d = delta_of(&x->event[i]);
        if (d) zi_tide_recorder_add(rec, x->event[i].at_ns, d);
        above += d;
    }
    if (above > 0) zi_tide_recorder_add(rec, s->ended_ns, -above);
    zi_tide_recorder_end(rec, s->ended_ns, ret);
    zi_tide_recorder_free(rec);
    return ZICO_OK;
}

/* The step of median length among the later half, where caches are warm. */
static step_span
typical(notes *x)
{
    size_t skip = x->steps.n / 2, n = x->steps.n - skip;
    qsort(x->steps.at + skip, n, sizeof *x->steps.at, by_length);
    return x->steps.at[skip + n / 2];
}

static zico_status
judge(notes *x, const zi_observe_head *h, zi_observed *o)
{
    ZI_TRY(find_steps(x));
    uint64_t end_ns = x->n ? x->event[x->n - 1].at_ns : h->began_ns;

    o->peak_bytes = x->peak_bytes;
    o->length_ns = end_ns - h->began_ns;
    o->n_steps = x->steps.n;
    step_span all = {h->began_ns, end_ns, 0, x->n, 0};
    ZI_TRY(tide_of(x, &all, 0, &o->life));
    if (x->steps.n == 0) {
        measure(x, &all, &o->floor_bytes, &o->mean_bytes);
        return ZICO_OK;
    }
    step_span s = typical(x);
    o->period_ns = s.ended_ns - s.began_ns;
    measure(x, &s, &o->floor_bytes, &o->mean_bytes);
    return tide_of(x, &s, o->floor_bytes, &o->tide);
}

zico_status
zi_observe_read(const void *file, size_t size_bytes, zi_observed *ret_observed)
{
    const zi_observe_head *h = file;
    zi_observed            o = {0};
    notes                  x = {0};

    if (size_bytes < sizeof *h || h->magic != ZI_OBSERVE_MAGIC ||
        h->version != ZI_OBSERVE_VERSION)
        return ZICO_E_FORMAT;
    uint64_t room = (size_bytes - sizeof *h) / sizeof *x.event, n = h->n_events;
    x.event = (const zi_observe_event *)(h + 1);
    if (room > h->cap_events) room = h->cap_events;
    o.n_lost = n > room ? n - room : 0;
    x.n = (size_t)(n - o.n_lost);
    while (x.n > 0 && x.event[x.n - 1].kind == ZI_OBSERVE_NOTHING) x.n--;
    for (size_t i = 0; i < x.n; i++)
        if (x.event[i].kind > ZI_OBSERVE_STEP || x.event[i].at_ns < h->began_ns)
            return ZICO_E_FORMAT;
    o.n_events = x.n;
    zico_status st = judge(&x, h, &o);
    zi_vec_free(&x.steps);
    if (st >= 0) *ret_observed = o;
    return st;
}

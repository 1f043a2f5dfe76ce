/* tide_learn.c -- what to expect of the next step, from the steps seen so far.
 *
 * A step RESEMBLES another if their peaks differ by at most a tenth and their curves, laid
 * over each other at equal length, differ by at most a fifth of the area.  Length itself
 * does not count: others on the device stretch a step without changing what it does.
 *
 *   resembles the stored tide     SAME     the newest curve is the best guess of the next one:
 *                                          stored.  Its length follows a shorter step half
 *                                          way at once, a longer one by a sixteenth: a step can
 *                                          be stretched by others, not compressed, so this
 *                                          stays near the step's length alone
 *   does not                      OUTLIER  kept aside as a suspect; the stored tide stays
 *   does not, but resembles the   NEW      a second witness in a row: the job has changed
 *   suspect of the step before
 *
 * One odd step (an evaluation, a checkpoint) therefore changes nothing, and a real change
 * is followed after two steps.  A job with 6 odd steps among the last 16 does not repeat.
 */
#include "tide/tide.h"

#include <stdbool.h>
#include "base/check.h"

#define HISTORY_STEPS  16u
#define HISTORY_MASK   ((1u << HISTORY_STEPS) - 1u)
#define ODD_STEPS_MAX  5u /* among HISTORY_STEPS, of a job that repeats */
#define PEAK_TOLERANCE 0.10
#define AREA_TOLERANCE 0.20

static bool
near_peak(uint64_t a, uint64_t b)
{
    uint64_t more = a > b ? a : b, less = a > b ? b : a;
    return (double)(more - less) <= PEAK_TOLERANCE * (double)more;
}

/* Area between the two curves and under the first one, both scaled to length 1. */
static double
area_between(const zi_tide *a, const zi_tide *b, double *ret_area)
{
    double   la = a->length_ns ? (double)a->length_ns : 1;
    double   lb = b->length_ns ? (double)b->length_ns : 1;
    double   at = 0, ha = 0, hb = 0, between = 0, area = 0;
    uint32_t i = 0, j = 0;

    while (at < 1) {
        double ta = i < a->n_points ? (double)a->point[i].at_ns / la : 1;
        double tb = j < b->n_points ? (double)b->point[j].at_ns / lb : 1;
        double next = ta < tb ? ta : tb;
        if (next > 1 || (i == a->n_points && j == b->n_points)) next = 1;
        between += (ha > hb ? ha - hb : hb - ha) * (next - at);
        area += ha * (next - at);
        if (next >= 1) break;
        if (ta <= next) ha += (double)a->point[i++].delta_bytes;
        if (tb <= next) hb += (double)b->point[j++].delta_bytes;
        at = next;
    }
    *ret_area = area;
    return between;
}

static bool
resembles(const zi_tide *a, const zi_tide *b)
{
    double area, between;

    if (!near_peak(a->peak_bytes, b->peak_bytes)) return false;
    between = area_between(a, b, &area);
    return between <= AREA_TOLERANCE * area || between == 0;
}

/* Stretch `t` to another length. */
static void
set_length(zi_tide *t, uint64_t length_ns)
{
    double scale = t->length_ns ? (double)length_ns / (double)t->length_ns : 1;

    if (t->length_ns == length_ns) return;
    for (uint32_t i = 0; i < t->n_points; i++) {
        uint64_t at = (uint64_t)((double)t->point[i].at_ns * scale);
        t->point[i].at_ns = at < length_ns ? at : length_ns;
    }
    t->length_ns = length_ns;
}

/* Scaling may bring two points to one time with the fall in front (T1): then the order of
 * the pair is kept by moving the rise one tick on, or the fall one tick back. */
static void
keep_order(zi_tide *t)
{
    for (uint32_t i = 1; i < t->n_points; i++) {
        zi_tide_point *p = &t->point[i - 1], *q = &t->point[i];
        if (q->at_ns < p->at_ns) q->at_ns = p->at_ns;
        if (q->at_ns == p->at_ns && p->delta_bytes < 0 && q->delta_bytes > 0)
            q->at_ns = p->at_ns + 1;
        if (q->at_ns > t->length_ns) t->length_ns = q->at_ns;
    }
}

static uint64_t
follow_length(uint64_t stored, uint64_t seen)
{
    if (seen < stored) return stored - (stored - seen + 1) / 2;
    return stored + (seen - stored) / 16;
}

static void
remember(zi_tide_learner *l, bool odd)
{
    l->history = ((l->history << 1) | (odd ? 1u : 0u)) & HISTORY_MASK;
    l->n_odd_total = (uint32_t)__builtin_popcount(l->history);
}

zi_tide_change
zi_tide_learn(zi_tide_learner *l, const zi_tide *observed)
{
    uint32_t n_seen = l->tide.n_seen;

    zi_assert_slow(zi_tide_verify(observed) == ZICO_OK);
    if (n_seen == 0 && l->tide.n_points == 0) { /* the first one */
        l->tide = *observed;
        l->tide.n_seen = 1;
        remember(l, false);
        return ZI_TIDE_SAME;
    }
    if (resembles(&l->tide, observed)) {
        uint64_t length = follow_length(l->tide.length_ns, observed->length_ns);
        l->tide = *observed;
        set_length(&l->tide, length);
        keep_order(&l->tide);
        l->tide.n_seen = n_seen < UINT32_MAX ? n_seen + 1 : n_seen;
        l->n_odd_in_row = 0;
        remember(l, false);
        zi_assert_slow(zi_tide_verify(&l->tide) == ZICO_OK);
        return ZI_TIDE_SAME;
    }
    remember(l, true);
    if (l->n_odd_in_row > 0 && resembles(&l->last_odd, observed)) {
        l->tide = *observed;
        l->tide.n_seen = 2;
        l->n_odd_in_row = 0;
        return ZI_TIDE_NEW;
    }
    l->last_odd = *observed;
    l->n_odd_in_row = 1;
    return ZI_TIDE_OUTLIER;
}

int
zi_tide_repeats(const zi_tide_learner *l)
{
    return l->n_odd_total <= ODD_STEPS_MAX;
}

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
 *   does not, but takes and       SAME     something else on the machine held a part of it up.  The
 *   returns the same bytes in              stored curve stays, until two in a row are held up alike
 *   the same order
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
#define BYTE_TOLERANCE 0.10 /* of the area over bytes moved instead of time */

static bool
near_peak(uint64_t a, uint64_t b)
{
    uint64_t more = a > b ? a : b, less = a > b ? b : a;
    return (double)(more - less) <= PEAK_TOLERANCE * (double)more;
}

/* Where point i lies on an axis of length 1: time, or bytes moved. */
static double
place_of(const zi_tide *t, uint32_t i, bool by_bytes)
{
    double all =
        by_bytes ? (double)t->moved_bytes[t->n_points - 1] : (double)t->length_ns;
    double at = by_bytes ? (double)t->moved_bytes[i] : (double)t->point[i].at_ns;
    return all > 0 ? at / all : at;
}

/* Area between the two curves and under the first one, both scaled to length 1. */
static double
area_between(const zi_tide *a, const zi_tide *b, bool by_bytes, double *ret_area)
{
    double   at = 0, ha = 0, hb = 0, between = 0, area = 0;
    uint32_t i = 0, j = 0;

    while (at < 1) {
        double ta = i < a->n_points ? place_of(a, i, by_bytes) : 1;
        double tb = j < b->n_points ? place_of(b, j, by_bytes) : 1;
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
    between = area_between(a, b, false, &area);
    return between <= AREA_TOLERANCE * area || between == 0;
}

static bool
is_counted(const zi_tide *t)
{
    return t->n_points > 0 && t->moved_bytes[t->n_points - 1] > 0;
}

/* The same bytes in the same order, whatever time went by between them. */
static bool
moves_alike(const zi_tide *a, const zi_tide *b)
{
    double area, between;

    if (!is_counted(a) || !is_counted(b)) return false;
    if (!near_peak(a->peak_bytes, b->peak_bytes)) return false;
    between = area_between(a, b, true, &area);
    return between <= BYTE_TOLERANCE * area;
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

/* The newest curve is the best guess of the next one. */
static void
refine(zi_tide_learner *l, const zi_tide *observed)
{
    uint32_t n_seen = l->tide.n_seen;
    uint64_t length = follow_length(l->tide.length_ns, observed->length_ns);

    l->tide = *observed;
    set_length(&l->tide, length);
    keep_order(&l->tide);
    l->tide.n_seen = n_seen < UINT32_MAX ? n_seen + 1 : n_seen;
    l->n_odd_in_row = 0;
    zi_assert_slow(zi_tide_verify(&l->tide) == ZICO_OK);
}

zi_tide_change
zi_tide_learn(zi_tide_learner *l, const zi_tide *observed)
{
    zi_assert_slow(zi_tide_verify(observed) == ZICO_OK);
    if (l->tide.n_seen == 0 && l->tide.n_points == 0) { /* the first one */
        l->tide = *observed;
        l->tide.n_seen = 1;
        remember(l, false);
        return ZI_TIDE_SAME;
    }
    if (resembles(&l->tide, observed)) {
        refine(l, observed);
        remember(l, false);
        return ZI_TIDE_SAME;
    }
    bool held_up = moves_alike(&l->tide, observed);
    bool again = l->n_odd_in_row > 0 && resembles(&l->last_odd, observed);
    remember(l, !held_up);
    if (again && held_up) {
        refine(l, observed);
        return ZI_TIDE_SAME;
    }
    if (again) {
        l->tide = *observed;
        l->tide.n_seen = 2;
        l->n_odd_in_row = 0;
        return ZI_TIDE_NEW;
    }
    l->last_odd = *observed;
    l->n_odd_in_row = 1;
    return held_up ? ZI_TIDE_SAME : ZI_TIDE_OUTLIER;
}

int
zi_tide_repeats(const zi_tide_learner *l)
{
    return l->n_odd_total <= ODD_STEPS_MAX;
}

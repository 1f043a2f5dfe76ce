/* tide_recorder.c -- from any number of raw events to a tide of a few dozen points.
 *
 * HOW      Events are sorted by time and summed to a curve of steps ("stairs").  Then the
 *          two neighbours whose union, at the height of the higher one, adds the least
 *          bytes x time are joined, again and again, until AIM stairs are left and the
 *          next union would add more than SLACK of the whole area.
 * SAFE     A union takes the higher height: the grouped curve is nowhere below the true
 *          one and its peak is the true peak.  Grouping is linear: a buffer grouped early
 *          plus events that come later is still nowhere below the truth.
 * COST     O(n log n) for n raw events and for the unions.
 */
#include "tide/tide.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/check.h"

#define EVENTS_MAX  2048u /* raw events before the buffer groups itself        */
#define STAIRS_KEEP 256u  /* left by a forced grouping in mid-step             */
#define STAIRS_AIM  48u   /* left at the end of a step                         */
#define SLACK       1e-3  /* unions this small (of the area) are always made   */

_Static_assert(STAIRS_AIM + 1 <= ZI_TIDE_POINTS_MAX, "a grouped tide fits its type");
_Static_assert(STAIRS_KEEP * 2 < EVENTS_MAX, "a forced grouping makes room");

typedef struct stair {
    uint64_t at_ns;
    int64_t  height;
    uint64_t moved; /* bytes of all events up to its beginning */
} stair;

struct zi_tide_recorder {
    uint64_t begin_ns;
    size_t   n;
    bool smoothed; /* the buffer was full once: what was moved is not known any more */
    zi_tide_point event[EVENTS_MAX]; /* offsets, in any order */
    stair         stair[EVENTS_MAX + 1];
};

zico_status
zi_tide_recorder_new(zi_tide_recorder **ret_rec)
{
    zi_tide_recorder *rec = zi_calloc(1, sizeof *rec);
    if (!rec) return ZICO_E_NOMEM;
    *ret_rec = rec;
    return ZICO_OK;
}

void
zi_tide_recorder_free(zi_tide_recorder *rec)
{
    zi_free(rec);
}

void
zi_tide_recorder_begin(zi_tide_recorder *rec, uint64_t now_ns)
{
    rec->begin_ns = now_ns;
    rec->n = 0;
    rec->smoothed = false;
}

/* By time; at equal times rises first (T1). */
static int
by_time(const void *a, const void *b)
{
    const zi_tide_point *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    if ((x->delta_bytes > 0) != (y->delta_bytes > 0)) return x->delta_bytes > 0 ? -1 : 1;
    return 0;
}

static void
sort_events(zi_tide_recorder *rec)
{
    bool sorted = true;
    for (size_t i = 1; i < rec->n && sorted; i++)
        sorted = by_time(&rec->event[i - 1], &rec->event[i]) <= 0;
    if (!sorted) qsort(rec->event, rec->n, sizeof rec->event[0], by_time);
}

static int64_t
add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}

/* Sums the sorted events up.  At the end of a step (`clamp`) the curve stays at or above
 * 0 by dropping what fell without having risen. */
static size_t
build_stairs(zi_tide_recorder *rec, uint64_t length_ns, bool clamp)
{
    int64_t  height = 0;
    uint64_t moved = 0;
    size_t   n = 1;

    rec->stair[0] = (stair){.at_ns = 0, .height = 0};
    for (size_t i = 0; i < rec->n; i++) {
        uint64_t at = rec->event[i].at_ns;
        int64_t  delta = rec->event[i].delta_bytes;
        if (at > length_ns) at = length_ns;
        height = add_saturated(height, delta);
        moved += delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
        if (clamp && height < 0) height = 0;
        rec->stair[n++] = (stair){.at_ns = at, .height = height, .moved = moved};
    }
    return n;
}

/* Bytes x time that joining two stairs would add; the second one ends at `end_ns`. */
static double
union_cost(const stair pair[2], uint64_t end_ns)
{
    double gap = (double)pair[0].height - (double)pair[1].height;

    return gap > 0 ? gap * (double)(end_ns - pair[1].at_ns)
                   : -gap * (double)(pair[1].at_ns - pair[0].at_ns);
}

static double
area_of(const stair *s, size_t n, uint64_t length_ns)
{
    double area = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = i + 1 < n ? s[i + 1].at_ns : length_ns;
        if (s[i].height > 0) area += (double)s[i].height * (double)(end - s[i].at_ns);
    }
    return area;
}

/* Joins in one pass every neighbouring pair that costs at most `bound`, until `keep` are left. */
static size_t
join_cheap(stair *s, size_t n, size_t keep, double bound, uint64_t length_ns)
{
    size_t out = 0, left = n;

    for (size_t i = 1; i < n; i++) {
        stair    pair[2] = {s[out], s[i]};
        uint64_t end = i + 1 < n ? s[i + 1].at_ns : length_ns;
        if (left > keep && union_cost(pair, end) <= bound) {
            if (s[i].height > s[out].height) s[out].height = s[i].height;
            left--;
        } else {
            s[++out] = s[i];
        }
    }
    return out + 1;
}

/* Stairs being joined: who is left, in order, and a tournament for the cheapest union.  Leaf i is the
 * union of stair i with the next one left. */
typedef struct joining {
    const stair *s;
    uint64_t     length_ns;
    uint16_t     next[STAIRS_KEEP], before[STAIRS_KEEP]; /* n: none */
    uint16_t     n, leaves;
    double       cost[STAIRS_KEEP];
    uint16_t     winner[2 * STAIRS_KEEP]; /* [1] of all; of two alike the earlier one */
} joining;

_Static_assert((STAIRS_KEEP & (STAIRS_KEEP - 1)) == 0, "leaves are a power of two");

static void
play(joining *j, uint16_t at)
{
    uint16_t a = j->winner[2 * at], b = j->winner[2 * at + 1];
    j->winner[at] = j->cost[b] < j->cost[a] ? b : a;
}

static void
reckon(joining *j, uint16_t i)
{
    uint16_t with = i < j->n ? j->next[i] : j->n;

    j->cost[i] = HUGE_VAL;
    if (with >= j->n) return;
    stair    pair[2] = {j->s[i], j->s[with]};
    uint64_t end = j->next[with] < j->n ? j->s[j->next[with]].at_ns : j->length_ns;
    j->cost[i] = union_cost(pair, end);
}

static void
begin_joining(joining *j, const stair *s, size_t n, uint64_t length_ns)
{
    zi_assert(n > 0 && n <= STAIRS_KEEP);
    *j = (joining){.s = s, .length_ns = length_ns, .n = (uint16_t)n, .leaves = 1};
    while (j->leaves < n) j->leaves = (uint16_t)(2 * j->leaves);
    for (uint16_t i = 0; i < n; i++) {
        j->next[i] = (uint16_t)(i + 1);
        j->before[i] = i > 0 ? (uint16_t)(i - 1) : (uint16_t)n;
    }
    for (uint16_t i = 0; i < j->leaves; i++) {
        reckon(j, i);
        j->winner[j->leaves + i] = i;
    }
    for (uint16_t at = j->leaves; at-- > 1;) play(j, at);
}

/* Its cost has changed, or it is gone. */
static void
renew(joining *j, uint16_t i)
{
    reckon(j, i);
    for (uint16_t at = (uint16_t)((j->leaves + i) / 2); at > 0; at /= 2) play(j, at);
}

/* Joins the cheapest pair at a time: the last few hundred unions are worth choosing well. */
static size_t
join_best(stair *s, size_t n, size_t keep, double bound, uint64_t length_ns)
{
    joining j;
    size_t  left = n, out = 0;

    begin_joining(&j, s, n, length_ns);
    for (; left > 1; left--) {
        uint16_t best = j.winner[1], gone = j.next[best];
        if (left <= keep && j.cost[best] > bound) break;
        if (s[gone].height > s[best].height) s[best].height = s[gone].height;
        j.next[best] = j.next[gone];
        if (j.next[gone] < n) j.before[j.next[gone]] = best;
        j.next[gone] = (uint16_t)n;
        renew(&j, gone);
        renew(&j, best);
        if (j.before[best] < n) renew(&j, j.before[best]);
    }
    for (uint16_t i = 0; i < n; i = j.next[i]) s[out++] = s[i];
    return out;
}

/* The last height is kept exactly, however short its stair: what is held at the end of the
 * step is a fact, not an outline. */
static size_t
group_stairs(stair *s, size_t n, size_t keep, uint64_t length_ns)
{
    double   area = area_of(s, n, length_ns);
    double   bound = area * SLACK / (double)keep;
    int64_t  last = s[n - 1].height;
    uint64_t moved = s[n - 1].moved;

    for (double b = bound / 64; n > STAIRS_KEEP; b = b * 4 + 1)
        n = join_cheap(s, n, STAIRS_KEEP, b, length_ns);
    n = join_best(s, n, keep, bound, length_ns);
    if (s[n - 1].height != last)
        s[n++] = (stair){.at_ns = length_ns, .height = last, .moved = moved};
    return n;
}

/* The buffer is full: keep its upper outline as events. */
static void
make_room(zi_tide_recorder *rec)
{
    uint64_t last = 0;
    int64_t  before = 0;

    rec->smoothed = true;
    for (size_t i = 0; i < rec->n; i++)
        if (rec->event[i].at_ns > last) last = rec->event[i].at_ns;
    sort_events(rec);
    size_t n = build_stairs(rec, last, false);
    n = group_stairs(rec->stair, n, STAIRS_KEEP, last);
    rec->n = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t delta = rec->stair[i].height - before;
        before = rec->stair[i].height;
        if (delta != 0)
            rec->event[rec->n++] = (zi_tide_point){rec->stair[i].at_ns, delta};
    }
}

void
zi_tide_recorder_add(zi_tide_recorder *rec, uint64_t now_ns, int64_t delta_bytes)
{
    if (delta_bytes == 0) return;
    if (rec->n == EVENTS_MAX) make_room(rec);
    zi_assert(rec->n < EVENTS_MAX);
    rec->event[rec->n++] = (zi_tide_point){
        .at_ns = now_ns > rec->begin_ns ? now_ns - rec->begin_ns : 0,
        .delta_bytes = delta_bytes,
    };
}

void
zi_tide_recorder_end(zi_tide_recorder *rec, uint64_t now_ns, zi_tide *ret_tide)
{
    uint64_t length = now_ns > rec->begin_ns ? now_ns - rec->begin_ns : 0;
    int64_t  before = 0;

    sort_events(rec);
    size_t n = build_stairs(rec, length, true);
    n = group_stairs(rec->stair, n, STAIRS_AIM, length);

    *ret_tide = (zi_tide){.length_ns = length, .n_seen = 1};
    for (size_t i = 0; i < n; i++) {
        int64_t height = rec->stair[i].height;
        if (height == before) continue;
        if (!rec->smoothed)
            ret_tide->moved_bytes[ret_tide->n_points] = rec->stair[i].moved;
        ret_tide->point[ret_tide->n_points++] =
            (zi_tide_point){.at_ns = rec->stair[i].at_ns, .delta_bytes = height - before};
        if ((uint64_t)height > ret_tide->peak_bytes)
            ret_tide->peak_bytes = (uint64_t)height;
        before = height;
    }
    ret_tide->end_bytes = (uint64_t)before;
    rec->n = 0;
    zi_assert_slow(zi_tide_verify(ret_tide) == ZICO_OK);
}

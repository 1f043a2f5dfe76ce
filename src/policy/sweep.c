/* sweep.c -- one k-way merge over the events of all jobs; O(E log k) for E events. */
#include "policy/sweep.h"

#include "base/check.h"

#define RUNNERS_MAX 256u /* jobs inside a step that are looked at one by one */
#define TRIES_MAX   12u /* shifts of the starter; the delay is a lower bound after that */
#define ASTRAY_PART                                                                      \
    4u /* of the peak: who holds so much more or less is not on its tide */
#define NEVER UINT64_MAX

/* One job's future: an iterator over what is left of its tide, and its end. */
typedef struct walk {
    const zi_tide *tide; /* NULL: reserves `flat` */
    uint32_t       next;
    uint64_t       height;   /* of the tide before point `next`           */
    uint64_t       above;    /* kept for it on top                        */
    uint64_t       pos_ns;   /* where it stands on its tide               */
    uint64_t       shift_ns; /* the starter's delay                       */
    uint64_t       use;      /* bytes it holds where the sweep stands     */
    uint64_t       flat;     /* to be taken at once when it begins        */
    uint64_t       at_ns;    /* of the next event, from now; NEVER: none  */
    uint64_t       then;     /* what it holds after it                    */
} walk;

/* Where a running job stands on its tide: the first point that is still to come, told by all that
 * was taken and returned so far, and the tide's height before it. */
static uint32_t
place(const zi_job_view *j, uint64_t *ret_height)
{
    const zi_tide *t = j->tide;
    uint64_t       now = j->taken_bytes + j->returned_bytes, sum = 0, height = 0;
    bool           counted = t->n_points && t->moved_bytes[t->n_points - 1];
    uint32_t       i = 0;

    for (; i < t->n_points; i++) {
        int64_t delta = t->point[i].delta_bytes;
        sum += delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
        if ((counted ? t->moved_bytes[i] : sum) > now) break;
        height += (uint64_t)delta;
    }
    *ret_height = height;
    return i;
}

static uint64_t
from_now(const walk *w, uint64_t on_tide_ns)
{
    return (on_tide_ns > w->pos_ns ? on_tide_ns - w->pos_ns : 0) + w->shift_ns;
}

/* Moves to the next event; the last one is the step's end, which gives back whatever is held
 * then. */
static void
advance(walk *w)
{
    w->at_ns = NEVER;
    if (!w->tide) {
        if (w->flat == 0) return;
        w->then = w->use + w->flat;
        w->at_ns = w->shift_ns;
        w->flat = 0;
        return;
    }
    if (w->next < w->tide->n_points) {
        const zi_tide_point *p = &w->tide->point[w->next++];
        w->height += (uint64_t)p->delta_bytes;
        w->then = w->height + w->above;
        w->at_ns = from_now(w, p->at_ns);
        return;
    }
    if (w->next == w->tide->n_points && w->use > 0) {
        w->next++;
        w->then = 0;
        w->at_ns = from_now(w, w->tide->length_ns);
    }
}

/* Books the walk's event; returns the new sum of which it is a part. */
static uint64_t
pass(walk *w, uint64_t sum)
{
    sum += w->then - w->use;
    w->use = w->then;
    advance(w);
    return sum;
}

static bool
predictable(const zi_job_view *j)
{
    return j->tide != NULL && j->repeats;
}

/* Does it hold about what the tide says it holds where it stands? */
static bool
is_on_tide(const zi_job_view *j, uint64_t height)
{
    uint64_t part = j->tide->peak_bytes / ASTRAY_PART;
    return j->step_bytes <= height + part && height <= j->step_bytes + part;
}

/* Between the last event that is over and point `next`, as time goes. */
static uint64_t
position(const zi_job_view *j, uint32_t next)
{
    const zi_tide *t = j->tide;
    uint64_t       last = next > 0 ? t->point[next - 1].at_ns : 0;
    uint64_t       until = next < t->n_points ? t->point[next].at_ns : t->length_ns;
    uint64_t       since = j->clock_ns - j->region_clock_ns;

    return last + since < until ? last + since : until;
}

static void
open_runner(walk *w, const zi_job_view *j)
{
    *w = (walk){.use = j->step_bytes};
    if (predictable(j)) w->next = place(j, &w->height);
    if (predictable(j) && is_on_tide(j, w->height)) {
        w->tide = j->tide;
        w->pos_ns = position(j, w->next);
        w->above = j->above_bytes; /* and within this stair it may come to its height */
        w->use = (w->height > w->use ? w->height : w->use) + w->above;
    } else if (j->claim_bytes > w->use) {
        w->use = j->claim_bytes;
    }
    advance(w);
}

static void
open_starter(walk *w, const zi_job_view *j, uint64_t shift_ns)
{
    *w = (walk){.shift_ns = shift_ns};
    if (predictable(j))
        w->tide = j->tide;
    else
        w->flat = j->claim_bytes;
    advance(w);
}

/* -- the merge: a heap of walks by time, rises first at equal times ----------------------- */

static bool
before(const walk *a, const walk *b)
{
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    return a->then > a->use && b->then <= b->use;
}

static void
sink(walk **heap, size_t n, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], heap[at])) return;
        walk *swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

typedef struct sweep {
    walk     others_now[RUNNERS_MAX]; /* each try begins with them */
    uint64_t held_now;                /* ... and with what they hold */
    size_t   n_others;
    walk     walk[RUNNERS_MAX + 1];
    walk    *heap[RUNNERS_MAX + 1];
    size_t   n;
    uint64_t room, others;
    walk    *starter;
} sweep;

/* Bytes that stay whatever steps do. */
static uint64_t
permanent(const zi_view *v, const zi_sweep_ask *ask)
{
    uint64_t sum = ask->keep_bytes;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        sum += j->fixed_bytes;
        if (j->state != ZI_JOB_RUNNING && i != ask->starter && i != ask->also)
            sum += j->step_bytes;
    }
    return sum;
}

static void
open_others(sweep *s, const zi_view *v, const zi_sweep_ask *ask)
{
    uint64_t stays = permanent(v, ask);

    s->n_others = 0;
    s->held_now = 0;
    s->room = v->budget_bytes > stays ? v->budget_bytes - stays : 0;
    for (size_t i = 0; i < v->n_jobs && s->n_others < RUNNERS_MAX; i++) {
        const zi_job_view *j = &v->job[i];
        if (i == ask->starter || (i != ask->also && j->state != ZI_JOB_RUNNING)) continue;
        walk *w = &s->others_now[s->n_others++];
        if (i == ask->also)
            open_starter(w, j, 0);
        else
            open_runner(w, j);
        s->held_now += w->use;
    }
}

static void
begin_try(sweep *s, const zi_job_view *starter, uint64_t shift_ns)
{
    s->others = s->held_now;
    s->n = s->n_others + 1;
    for (size_t i = 0; i < s->n; i++) s->heap[i] = &s->walk[i];
    for (size_t i = 0; i < s->n_others; i++) s->walk[i] = s->others_now[i];
    s->starter = &s->walk[s->n_others];
    open_starter(s->starter, starter, shift_ns);
    for (size_t i = s->n / 2; i-- > 0;) sink(s->heap, s->n, i);
}

/* Walks on until the sum passes the room; true: it never does.  Else *ret_at is when.  What
 * the others do among themselves before the starter holds anything is not its concern. */
static bool
run_sweep(sweep *s, uint64_t *ret_at)
{
    uint64_t at = 0;

    for (;;) {
        walk *w = s->heap[0];
        if (s->starter->use > 0 && s->others + s->starter->use > s->room) {
            *ret_at = at;
            return false;
        }
        if (w->at_ns == NEVER) return true;
        if (s->starter->at_ns == NEVER && s->starter->use == 0) return true;
        at = w->at_ns;
        if (w == s->starter)
            (void)pass(w, w->use);
        else
            s->others = pass(w, s->others);
        sink(s->heap, s->n, 0);
    }
}

/* After a conflict at `at`: when have the others sunk enough for what the starter then holds?
 * NEVER: not while they run, as far as their tides tell. */
static uint64_t
when_sunk(sweep *s, uint64_t at)
{
    while (s->others + s->starter->use > s->room) {
        walk *next = NULL;
        for (size_t i = 0; i < s->n; i++) {
            walk *w = s->heap[i];
            if (w == s->starter || w->at_ns == NEVER) continue;
            if (!next || before(w, next)) next = w;
        }
        if (!next) return NEVER;
        if (next->at_ns > at) at = next->at_ns;
        s->others = pass(next, s->others);
    }
    return at;
}

uint64_t
zi_sweep_delay(const zi_view *v, const zi_sweep_ask *ask)
{
    sweep    s;
    uint64_t shift = ask->from_ns;

    open_others(&s, v, ask);
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        uint64_t at;
        begin_try(&s, &v->job[ask->starter], shift);
        if (run_sweep(&s, &at)) return shift;
        uint64_t sunk = when_sunk(&s, at);
        if (sunk == NEVER) return NEVER;
        shift += sunk > at ? sunk - at : 1;
    }
    return shift;
}

uint64_t
zi_sweep_rest(const zi_job_view *j)
{
    uint64_t height;

    if (!j->tide) return 0;
    uint64_t length = j->tide->length_ns, at = position(j, place(j, &height));
    if (at >= length) return 0;
    if (j->solo_step_ns == 0) return length - at;
    return (uint64_t)((double)(length - at) / (double)length * (double)j->solo_step_ns);
}

uint64_t
zi_sweep_crest(const zi_job_view *j)
{
    uint64_t height;

    if (!predictable(j)) return UINT64_MAX;
    uint32_t next = place(j, &height);
    uint64_t most = height;
    if (!is_on_tide(j, height)) return UINT64_MAX;
    for (; next < j->tide->n_points; next++) {
        height += (uint64_t)j->tide->point[next].delta_bytes;
        if (height > most) most = height;
    }
    return most;
}

/* sweep.c -- one k-way merge over the events of all that run, O(E log k) for E events, and a walk over the
 * result for each try. */
#include "policy/sweep.h"

#define RUNNERS_MAX 256u  /* jobs inside a step that are looked at one by one */
#define STAIRS_MAX  4096u /* events of all of them */
#define TRIES_MAX   12u   /* walks over its tide; the delay is a lower bound after that */
#define ASTRAY_PART                                                                      \
    4u /* of the peak: who holds so much more or less is not on its tide */
#define NEVER UINT64_MAX

/* One job's future: an iterator over what is left of its tide, and its end. */
typedef struct walk {
    const zi_tide *tide; /* NULL: holds what it holds */
    uint32_t       next;
    uint64_t       height; /* of the tide before point `next`           */
    uint64_t       above;  /* kept for it on top                        */
    uint64_t       pos_ns; /* where it stands on its tide               */
    uint64_t       use;    /* bytes it holds where the sweep stands     */
    uint64_t       at_ns;  /* of the next event, from now; NEVER: none  */
    uint64_t       then;   /* what it holds after it                    */
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
    return on_tide_ns > w->pos_ns ? on_tide_ns - w->pos_ns : 0;
}

/* Moves to the next event; the last one is the step's end, which gives back whatever is held
 * then. */
static void
advance(walk *w)
{
    w->at_ns = NEVER;
    if (!w->tide) return;
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

/* One that begins right now. */
static void
open_beginner(walk *w, const zi_job_view *j)
{
    *w = (walk){0};
    if (predictable(j))
        w->tide = j->tide;
    else
        w->use = j->claim_bytes;
    advance(w);
}

/* -- the others: one curve ------------------------------------------------------------------ */

/* What all of them hold together from a time on. */
typedef struct stair {
    uint64_t at_ns;
    uint64_t bytes;
    uint64_t most_bytes; /* on this one and all after it */
} stair;

typedef struct others {
    walk   walk[RUNNERS_MAX];
    walk  *heap[RUNNERS_MAX]; /* by time, rises first at equal times */
    size_t n;
    stair  stair[STAIRS_MAX];
    size_t n_stairs; /* the first one is what they hold now */
} others;

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

/* From what they hold now to the end of the last of them. */
static void
merge(others *o, uint64_t now_bytes)
{
    stair at = {.bytes = now_bytes};

    for (size_t i = o->n / 2; i-- > 0;) sink(o->heap, o->n, i);
    o->stair[0] = at;
    o->n_stairs = 1;
    for (walk *w; o->n > 0 && (w = o->heap[0])->at_ns != NEVER;) {
        at.at_ns = w->at_ns;
        at.bytes += w->then - w->use;
        o->stair[o->n_stairs++] = at;
        w->use = w->then;
        advance(w);
        sink(o->heap, o->n, 0);
    }
    for (size_t i = o->n_stairs; i-- > 0;) {
        if (o->stair[i].bytes > at.most_bytes) at.most_bytes = o->stair[i].bytes;
        o->stair[i].most_bytes = at.most_bytes;
    }
}

/* Whose events are too many to be merged reserves its claim, too. */
static void
open_others(others *o, const zi_view *v, const zi_sweep_ask *ask)
{
    size_t   n_events = 1;
    uint64_t now_bytes = 0;

    o->n = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (i == ask->starter || (i != ask->also && j->state != ZI_JOB_RUNNING)) continue;
        n_events += j->tide ? j->tide->n_points + 1 : 1;
        if (o->n == RUNNERS_MAX || n_events > STAIRS_MAX) {
            now_bytes += j->claim_bytes > j->step_bytes ? j->claim_bytes : j->step_bytes;
            continue;
        }
        walk *w = o->heap[o->n] = &o->walk[o->n];
        if (i == ask->also)
            open_beginner(w, j);
        else
            open_runner(w, j);
        now_bytes += w->use;
        o->n++;
    }
    merge(o, now_bytes);
}

/* -- tries: the starter's tide over that curve, later and later ----------------------------- */

/* What the starter holds for a while. */
typedef struct hold {
    uint64_t from_ns, until_ns;
    uint64_t bytes;
} hold;

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

/* By how much later must it begin to hold so much?  0: there is room all the while; NEVER: there will be
 * none, as far as the others' tides tell.  What they return in the very moment is not there yet.  *at is
 * the stair to look from, and is moved on to where this begins. */
static uint64_t
delay_of(const hold *h, const others *o, uint64_t room, size_t *at)
{
    const stair *s = &o->stair[*at], *last = &o->stair[o->n_stairs - 1];
    uint64_t     delay = 0;

    while (s < last && s[1].at_ns < h->from_ns) s++;
    *at = (size_t)(s - o->stair);
    for (;; s++) {
        bool crowded = h->bytes + s->bytes > room;
        if (s == last) return crowded ? NEVER : delay;
        if (crowded)
            delay = s[1].at_ns - h->from_ns + 1;
        else if (s[1].at_ns > h->until_ns)
            return delay;
    }
}

/* Nothing that it holds may begin before there is room for it: each hold moves the whole step on, if it
 * must.  Those before it have moved, too, then, and are to be looked at again. */
static uint64_t
move_on(const zi_job_view *j, uint64_t shift_ns, const others *o, uint64_t room)
{
    const zi_tide *t = j->tide;
    uint64_t       height = 0, delay = 0;
    size_t         at = 0;

    if (!predictable(j)) {
        hold h = {.from_ns = shift_ns, .until_ns = NEVER, .bytes = j->claim_bytes};
        if (h.bytes > 0) delay = delay_of(&h, o, room, &at);
        return delay < NEVER ? shift_ns + delay : NEVER;
    }
    for (uint32_t k = 0; k < t->n_points && delay < NEVER; k++) {
        uint64_t until = k + 1 < t->n_points ? t->point[k + 1].at_ns : t->length_ns;
        height += (uint64_t)t->point[k].delta_bytes;
        if (height == 0 || height + o->stair[at].most_bytes <= room) continue;
        hold h = {.from_ns = shift_ns + t->point[k].at_ns,
                  .until_ns = shift_ns + until,
                  .bytes = height};
        delay = delay_of(&h, o, room, &at);
        shift_ns += delay;
    }
    return delay < NEVER ? shift_ns : NEVER;
}

uint64_t
zi_sweep_delay(const zi_view *v, const zi_sweep_ask *ask)
{
    others   o;
    uint64_t shift = ask->from_ns, stays = permanent(v, ask);
    uint64_t room = v->budget_bytes > stays ? v->budget_bytes - stays : 0;

    open_others(&o, v, ask);
    for (unsigned i = 0; i < TRIES_MAX && shift < NEVER; i++) {
        uint64_t before_it = shift;
        shift = move_on(&v->job[ask->starter], shift, &o, room);
        if (shift == before_it) break;
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

/* sweep.c -- one k-way merge over the events of all jobs; O(E log k) for E events. */
#include "policy/sweep.h"

#include "base/check.h"

#define RUNNERS_MAX 256u /* jobs inside a step that are looked at one by one */
#define TRIES_MAX   64u  /* shifts of the starter; each passes at least one event */

/* One job's future: an iterator over what is left of its tide. */
typedef struct walk {
    const zi_tide *tide; /* NULL: holds `use` to the end */
    uint32_t       next;
    uint64_t       taken, returned; /* bytes of the tide that are over already */
    uint64_t       risen, fallen;   /* sums up to point `next`                 */
    uint64_t       pos_ns;          /* where it stands on its tide             */
    uint64_t       shift_ns;        /* the starter's delay                     */
    uint64_t       at_ns;           /* of the next event, from now; UINT64_MAX: none */
    int64_t        delta;           /* of the next event */
} walk;

/* Moves to the next event of which something is left. */
static void
advance(walk *w)
{
    w->at_ns = UINT64_MAX;
    while (w->tide && w->next < w->tide->n_points) {
        const zi_tide_point *p = &w->tide->point[w->next++];
        uint64_t             size =
            p->delta_bytes > 0 ? (uint64_t)p->delta_bytes : 0 - (uint64_t)p->delta_bytes;
        uint64_t *sum = p->delta_bytes > 0 ? &w->risen : &w->fallen;
        uint64_t  over = p->delta_bytes > 0 ? w->taken : w->returned;
        *sum += size;
        if (*sum <= over) continue;
        uint64_t left = *sum - over < size ? *sum - over : size;
        w->delta = p->delta_bytes > 0 ? (int64_t)left : -(int64_t)left;
        w->at_ns = (p->at_ns > w->pos_ns ? p->at_ns - w->pos_ns : 0) + w->shift_ns;
        return;
    }
}

static bool
predictable(const zi_job_view *j)
{
    return j->tide != NULL && j->repeats;
}

/* Time on the tide of the last event that is over, and of the next one. */
static void
find_position(const zi_job_view *j, uint64_t now_ns, walk *w)
{
    uint64_t risen = 0, fallen = 0, last = 0, next = j->tide->length_ns;
    uint64_t since =
        now_ns - (j->last_region_ns > j->began_ns ? j->last_region_ns : j->began_ns);

    for (uint32_t i = 0; i < j->tide->n_points; i++) {
        const zi_tide_point *p = &j->tide->point[i];
        if (p->delta_bytes > 0)
            risen += (uint64_t)p->delta_bytes;
        else
            fallen += 0 - (uint64_t)p->delta_bytes;
        if (risen > j->taken_bytes || fallen > j->returned_bytes) {
            next = p->at_ns;
            break;
        }
        last = p->at_ns;
    }
    if (j->solo_step_ns && j->last_step_ns > j->solo_step_ns) /* others slow it down */
        since =
            (uint64_t)((double)since * (double)j->solo_step_ns / (double)j->last_step_ns);
    w->pos_ns = last + since < next ? last + since : next;
}

static void
open_runner(walk *w, const zi_job_view *j, uint64_t now_ns)
{
    *w = (walk){.tide = predictable(j) ? j->tide : NULL,
                .taken = j->taken_bytes,
                .returned = j->returned_bytes};
    if (w->tide) find_position(j, now_ns, w);
    advance(w);
}

static void
open_starter(walk *w, const zi_job_view *j, uint64_t shift_ns)
{
    *w = (walk){.tide = predictable(j) ? j->tide : NULL, .shift_ns = shift_ns};
    advance(w);
}

/* -- the merge: a heap of walks by time, rises first at equal times ----------------------- */

static bool
before(const walk *a, const walk *b)
{
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    return a->delta > 0 && b->delta < 0;
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

/* Bytes that stay whatever steps do. */
static uint64_t
permanent(const zi_view *v, size_t starter, size_t also)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        sum += j->fixed_bytes;
        if (j->state != ZI_JOB_RUNNING && i != starter && i != also) sum += j->step_bytes;
    }
    return sum;
}

typedef struct sweep {
    walk     walk[RUNNERS_MAX + 2];
    walk    *heap[RUNNERS_MAX + 2];
    size_t   n;
    uint64_t room, others, mine;
    walk    *starter;
} sweep;

/* What a job holds at the moment the sweep begins. */
static uint64_t
holds_now(const zi_job_view *j, bool begins)
{
    if (!predictable(j))
        return j->claim_bytes > j->step_bytes ? j->claim_bytes : j->step_bytes;
    return begins ? 0 : j->step_bytes;
}

static void
open_sweep(sweep *s, const zi_view *v, size_t starter, size_t also, uint64_t now_ns,
           uint64_t shift_ns)
{
    uint64_t stays = permanent(v, starter, also);

    s->n = 0;
    s->others = s->mine = 0;
    s->room = v->budget_bytes > stays ? v->budget_bytes - stays : 0;
    for (size_t i = 0; i < v->n_jobs && s->n < RUNNERS_MAX; i++) {
        const zi_job_view *j = &v->job[i];
        if (i == starter || (i != also && j->state != ZI_JOB_RUNNING)) continue;
        if (i == also)
            open_starter(&s->walk[s->n], j, 0);
        else
            open_runner(&s->walk[s->n], j, now_ns);
        s->others += holds_now(j, i == also);
        s->heap[s->n] = &s->walk[s->n];
        s->n++;
    }
    s->starter = &s->walk[s->n];
    open_starter(s->starter, &v->job[starter], shift_ns);
    s->mine = holds_now(&v->job[starter], true);
    s->heap[s->n] = s->starter;
    s->n++;
    for (size_t i = s->n / 2; i-- > 0;) sink(s->heap, s->n, i);
}

/* Walks on until the sum passes the room; true: it never does.  Else *ret_at is when. */
static bool
run_sweep(sweep *s, uint64_t *ret_at)
{
    uint64_t at = 0;
    bool     mine_now = s->starter->shift_ns == 0;

    for (;;) {
        if (s->others + s->mine > s->room && s->mine > 0 &&
            (mine_now || s->starter->tide)) {
            *ret_at = at;
            return false;
        }
        walk *w = s->heap[0];
        if (w->at_ns == UINT64_MAX || s->starter->at_ns == UINT64_MAX)
            if (w->at_ns == UINT64_MAX || !s->starter->tide || s->mine == 0) return true;
        at = w->at_ns;
        uint64_t *sum = w == s->starter ? &s->mine : &s->others;
        if (w->delta > 0)
            *sum += (uint64_t)w->delta;
        else
            *sum -= 0 - (uint64_t)w->delta < *sum ? 0 - (uint64_t)w->delta : *sum;
        advance(w);
        sink(s->heap, s->n, 0);
    }
}

/* After a conflict at `at`: when have the others sunk enough for what the starter then holds?
 * UINT64_MAX: not while they run, as far as their tides tell. */
static uint64_t
when_sunk(sweep *s, uint64_t at)
{
    uint64_t mine = s->mine;

    while (s->others + mine > s->room) {
        walk *best = NULL;
        for (size_t i = 0; i < s->n; i++) {
            walk *w = s->heap[i];
            if (w == s->starter || w->at_ns == UINT64_MAX) continue;
            if (!best || before(w, best)) best = w;
        }
        if (!best) return UINT64_MAX;
        at = best->at_ns > at ? best->at_ns : at;
        if (best->delta > 0)
            s->others += (uint64_t)best->delta;
        else
            s->others -= 0 - (uint64_t)best->delta < s->others ? 0 - (uint64_t)best->delta
                                                               : s->others;
        advance(best);
    }
    return at;
}

uint64_t
zi_sweep_delay(const zi_view *v, size_t starter, size_t also, uint64_t now_ns)
{
    sweep    s;
    uint64_t shift = 0;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        uint64_t at;
        open_sweep(&s, v, starter, also, now_ns, shift);
        if (run_sweep(&s, &at)) return shift;
        uint64_t sunk = when_sunk(&s, at);
        if (sunk == UINT64_MAX) return UINT64_MAX;
        shift += sunk > at ? sunk - at : 1;
    }
    return shift;
}

uint64_t
zi_sweep_rest(const zi_job_view *j, uint64_t now_ns)
{
    walk w = {0};

    if (!j->tide) return 0;
    find_position(j, now_ns, &w);
    return j->tide->length_ns > w.pos_ns ? j->tide->length_ns - w.pos_ns : 0;
}

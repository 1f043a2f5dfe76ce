/* gandiva.c -- time slices, suspend and resume, packing by trial.
 *
 * PAPER    W. Xiao et al. Gandiva: Introspective Cluster Scheduling for Deep Learning. OSDI 2018.
 * CLAIM    More jobs than fit can share a device in slices of a minute: a job is suspended at
 *          the end of a step, where it holds least, its memory moves out, and it comes back
 *          later.  Jobs that waste the device are packed together, if a trial shows that it
 *          pays, and parted again if not.
 * WE DO    Weighted slices (60 s; gandiva:slice=10 sets it); whoever has had the least device
 *          time for its weight is next (who joins starts level with the least served).  The
 *          wait for the end of a step is charged to the job that makes others wait.  A job is
 *          moved out only if the memory is needed: by the slice's pack, by a newcomer whose
 *          turn it is, or by the heir: who comes next moves in while the pack still computes.
 *          Packing: both have run alone before; one candidate at a time joins the slice's
 *          owner for a trial, from its first step on; what it showed (progress of both, in
 *          steps of solo length per second, against 1 for slicing) is remembered, for these
 *          two and for all others of their shapes.  A pack that leaves no room for an heir must
 *          also make up for the time in which turns stand still.  A slice is
 *          not kept for a pack that does not ask: whoever is in may go meanwhile.
 * WE DROP  Migration and grow-shrink: one device.  Utilisation, which a host does not report:
 *          candidates are tried in order of service.
 * CHECKED  gandiva_test.c: slices by weight, moves only under need, newcomers get room, a packing
 *          that pays stays, one that does not is undone and not tried again.
 *          gandiva_mixes_test.c: whoever fits alone finishes, in thousands of random mixes.
 * COST     O(jobs^2) at a slice's end, O(jobs) otherwise.
 */
#include "policy/policy_common.h"

#include <stdlib.h>
#include <string.h>
#include "base/check.h"

#define SLICE_NS_DEFAULT 60000000000ull
#define TRIAL_NS_LEAST   2000000000ull
#define TRIAL_STEPS      12  /* of the longest job in the pack           */
#define ALONE_STEPS      12  /* before a job can be judged in a trial    */
#define ALONE_RISE       32  /* a longer step than the best counts by so much less */
#define WORTH_IT_PCT     103 /* of what taking turns makes               */
#define MAX_PACK         16
#define COME_IN_NS       30000000000ull /* at most, before the slice passes on */
#define IDLE_NS          200000000ull   /* without asking, before others may go */

#define UNTRIED 0u /* of a pair: nobody knows what they make together */

typedef struct trial {
    bool      on;      /* nobody knows yet: the slice waits for the verdict */
    bool      watched; /* what the pack makes is counted, known or not */
    zi_job_id guest;
    uint64_t  begin_ns;                /* 0: the guest has not started yet */
    uint64_t  step_at_begin[MAX_PACK]; /* by place in the pack */
} trial;

typedef struct gandiva {
    uint64_t slice_ns, slice_end_ns;
    uint64_t slice_begin_ns;
    bool     begun;   /* the owner has come in and started; the slice counts from then */
    bool     was_out; /* the owner, when the slice passed to it */
    uint64_t
        come_in_ns; /* what that costs: mean of turns to owners that were out; 0: unknown */
    size_t    n_pack; /* pack[0] owns the slice */
    zi_job_id pack[MAX_PACK];
    zi_job_id heir; /* the next owner, brought in meanwhile; ZI_JOB_NONE: nobody */
    trial     trial;
    uint64_t  fixed_bytes[ZI_LEDGER_JOBS_MAX]; /* what it holds when it is in */
    double    credit[ZI_LEDGER_JOBS_MAX];      /* service that it joined with */
    uint64_t  alone_ns[ZI_LEDGER_JOBS_MAX];    /* a good step with the device to itself */
    uint32_t  alone_steps[ZI_LEDGER_JOBS_MAX];
    uint8_t   gain_pct[ZI_LEDGER_JOBS_MAX][ZI_LEDGER_JOBS_MAX]; /* of two; UNTRIED */
} gandiva;

static zico_status
gandiva_init(void *state, const char *arg, uint64_t seed)
{
    gandiva *s = state;
    (void)seed;
    s->slice_ns = SLICE_NS_DEFAULT;
    s->heir = ZI_JOB_NONE;
    if (!*arg) return ZICO_OK;
    if (strncmp(arg, "slice=", 6)) return ZICO_E_ARG;
    char  *end;
    double seconds = strtod(arg + 6, &end);
    if (end == arg + 6 || *end || !(seconds >= 0.1 && seconds <= 86400))
        return ZICO_E_ARG;
    s->slice_ns = (uint64_t)(seconds * 1e9);
    return ZICO_OK;
}

/* -- the view, by id -------------------------------------------------------------------- */

static const zi_job_view *
find(const zi_view *v, zi_job_id id)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].id == id) return &v->job[i];
    return NULL;
}

static bool
in_pack(const gandiva *s, zi_job_id id)
{
    for (size_t i = 0; i < s->n_pack; i++)
        if (s->pack[i] == id) return true;
    return false;
}

/* Bytes that a job between steps waits for: it is coming in. */
static uint64_t
awaited_bytes(const zi_view *v, const zi_job_view *j)
{
    uint64_t sum = 0;
    if (j->state == ZI_JOB_RUNNING) return 0;
    for (size_t i = 0; i < v->n_requests; i++)
        if (v->request[i].job == j->id) sum += v->request[i].size_bytes;
    return sum;
}

/* (A job that nobody knows yet and that is in is started by the desk.) */
static bool
wants_to_run(const zi_view *v, const zi_job_view *j)
{
    if (!j->has_steps || j->by_hand) return false;
    if (j->state == ZI_JOB_PAUSED || j->state == ZI_JOB_GONE || j->state == ZI_JOB_FREE)
        return false;
    return j->claim_known || j->state == ZI_JOB_SUSPENDED || awaited_bytes(v, j) > 0;
}

static double
service(const gandiva *s, const zi_job_view *j)
{
    return s->credit[j->id] +
           (double)j->served_ns / (double)(j->weight_milli ? j->weight_milli : 1000);
}

static bool
is_in(const zi_job_view *j)
{
    return j->state != ZI_JOB_SUSPENDED;
}

/* Out, or waiting for what it keeps: others may compute until it is here. */
static bool
is_on_its_way(const zi_view *v, const zi_job_view *j)
{
    return j->state == ZI_JOB_SUSPENDED || awaited_bytes(v, j) > 0;
}

/* -- memory ------------------------------------------------------------------------------ */

static void
remember_sizes(const zi_view *v, gandiva *s)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING || v->job[i].state == ZI_JOB_ASKING)
            s->fixed_bytes[v->job[i].id] = v->job[i].fixed_bytes;
}

/* What it keeps when it is in; of a newcomer what it has and what it waits for. */
static uint64_t
kept_bytes(const zi_view *v, const gandiva *s, const zi_job_view *j)
{
    uint64_t has = j->fixed_bytes + awaited_bytes(v, j);
    return s->fixed_bytes[j->id] > has ? s->fixed_bytes[j->id] : has;
}

/* Still building what it will keep, waiting to come in, or about to be learnt: it cannot go out. */
static bool
can_go_out(const zi_view *v, const zi_job_view *j)
{
    if (!j->can_suspend || j->state == ZI_JOB_SUSPENDED || j->state == ZI_JOB_PAUSED)
        return false;
    if (j->fixed_bytes == 0 || awaited_bytes(v, j) > 0) return false;
    return j->state == ZI_JOB_IDLE ? j->step_no > 0 : j->claim_known;
}

/* What a step takes; of a newcomer as much as one of another job of its shape. */
static uint64_t
step_need(const zi_view *v, const zi_job_view *j)
{
    for (size_t i = 0; i < v->n_jobs && j->need_bytes == 0 && j->shape != 0; i++)
        if (v->job[i].shape == j->shape && v->job[i].need_bytes)
            return v->job[i].need_bytes;
    return j->need_bytes;
}

/* Memory as it would be: who would be in, and what the steps then take.  The desk lets nobody
 * keep more (desk_queue.c, leaves_room) unless the largest step of all who are in still fits. */
typedef struct room {
    uint64_t kept_bytes, pack_bytes, most_bytes;
} room;

static void
put_in(const zi_view *v, const gandiva *s, const zi_job_view *j, bool runs, room *r)
{
    uint64_t need = step_need(v, j);
    r->kept_bytes += kept_bytes(v, s, j);
    if (runs) r->pack_bytes += need;
    if (need > r->most_bytes) r->most_bytes = need;
}

static uint64_t
room_bytes(const room *r)
{
    return r->kept_bytes +
           (r->pack_bytes > r->most_bytes ? r->pack_bytes : r->most_bytes);
}

/* The slice's pack and its heir (or only one job), with all that cannot go out. */
static room
least_room(const zi_view *v, const gandiva *s, zi_job_id only)
{
    room r = {0};
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        bool               runs = only == ZI_JOB_NONE ? in_pack(s, j->id) : j->id == only;
        if (runs || (only == ZI_JOB_NONE && j->id == s->heir))
            put_in(v, s, j, runs, &r);
        else if (!is_in(j) || awaited_bytes(v, j) > 0)
            r.kept_bytes += j->fixed_bytes; /* private: it stays */
        else if (!can_go_out(v, j))
            put_in(v, s, j, false, &r);
    }
    return r;
}

static bool
pack_fits(const zi_view *v, const gandiva *s)
{
    room r = least_room(v, s, ZI_JOB_NONE);
    return room_bytes(&r) <= v->budget_bytes;
}

/* -- slices ---------------------------------------------------------------------------------- */

/* Can it ever run beside what cannot go out? */
static bool
can_have_room(const zi_view *v, const gandiva *s, const zi_job_view *j)
{
    room r = least_room(v, s, j->id);
    return room_bytes(&r) <= v->budget_bytes;
}

/* Whoever has had least for its weight, of those outside the pack or of all. */
static const zi_job_view *
least_served(const zi_view *v, const gandiva *s, bool outside)
{
    const zi_job_view *best = NULL;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (!wants_to_run(v, j) || (outside && in_pack(s, j->id))) continue;
        if (best && service(s, j) > service(s, best)) continue;
        if (best && service(s, j) == service(s, best) && j->id != s->heir) continue;
        if (can_have_room(v, s, j)) best = j;
    }
    return best;
}

static uint64_t
slice_length(const gandiva *s, const zi_job_view *owner)
{
    return s->slice_ns / 1000 * (owner->weight_milli ? owner->weight_milli : 1000);
}

static void
begin_slice(const zi_view *v, gandiva *s, uint64_t now)
{
    const zi_job_view *owner = least_served(v, s, false);
    s->n_pack = 0;
    s->trial = (trial){0};
    s->heir = ZI_JOB_NONE;
    if (!owner) return;
    s->pack[s->n_pack++] = owner->id;
    s->begun = false;
    s->was_out = is_on_its_way(v, owner);
    s->slice_begin_ns = now;
    s->slice_end_ns = now + slice_length(s, owner) + COME_IN_NS;
}

/* Coming in is not the owner's time: its slice counts from its first step. */
static void
note_begun(const zi_view *v, gandiva *s, uint64_t now)
{
    const zi_job_view *owner = s->n_pack ? find(v, s->pack[0]) : NULL;
    if (!owner || s->begun || owner->state != ZI_JOB_RUNNING) return;
    s->begun = true;
    s->slice_end_ns = now + slice_length(s, owner);
    if (!s->was_out) return;
    uint64_t took = now - s->slice_begin_ns;
    s->come_in_ns = s->come_in_ns ? (3 * s->come_in_ns + took) / 4 : took;
}

/* While the pack computes, who comes next moves in, if there is room for it besides: then
 * nobody waits for the disk when the slice ends.  A newcomer, too, once it has said what it
 * keeps: it begins with a step that is learnt from, and is no stranger when its slice comes. */
static void
choose_heir(const zi_view *v, gandiva *s)
{
    const zi_job_view *next = s->begun ? least_served(v, s, true) : NULL;

    s->heir = ZI_JOB_NONE;
    if (!next) return;
    s->heir = next->id;
    if (!pack_fits(v, s)) s->heir = ZI_JOB_NONE;
}

static void
drop_from_pack(gandiva *s, zi_job_id id)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_pack; i++)
        if (s->pack[i] != id) s->pack[n++] = s->pack[i];
    s->n_pack = n;
    if (s->heir == id) s->heir = ZI_JOB_NONE;
    s->trial.on = s->trial.watched = false; /* what was measured was measured with it */
}

/* -- packing ------------------------------------------------------------------------------- */

static bool
is_like(const zi_view *v, const zi_job_view *j, zi_job_id id)
{
    const zi_job_view *other = find(v, id);
    return j->id == id || (other && j->shape != 0 && j->shape == other->shape);
}

/* What is known of the two, or of two others of the same shapes: a queue of equal jobs is tried
 * once, not pair by pair. */
static uint8_t
gain_of(const zi_view *v, const gandiva *s, zi_job_id a, zi_job_id b)
{
    if (s->gain_pct[a][b] != UNTRIED) return s->gain_pct[a][b];
    for (size_t i = 0; i < v->n_jobs; i++) {
        if (!is_like(v, &v->job[i], a)) continue;
        for (size_t k = 0; k < v->n_jobs; k++) {
            uint8_t known = s->gain_pct[v->job[i].id][v->job[k].id];
            if (known != UNTRIED && is_like(v, &v->job[k], b)) return known;
        }
    }
    return UNTRIED;
}

/* The worst of what it makes with each of the pack; UNTRIED: not all are known. */
static unsigned
gain_with_pack(const zi_view *v, const gandiva *s, zi_job_id id)
{
    unsigned worst = UINT8_MAX;
    bool     untried = false;
    for (size_t i = 0; i < s->n_pack; i++) {
        if (s->pack[i] == id) continue;
        unsigned one = gain_of(v, s, s->pack[i], id);
        if (one == UNTRIED)
            untried = true;
        else if (one < worst)
            worst = one;
    }
    return untried && worst >= WORTH_IT_PCT ? UNTRIED : worst;
}

static void
note_gain(gandiva *s, zi_job_id guest, double gain)
{
    double  pct = gain * 100 < UINT8_MAX ? gain * 100 : UINT8_MAX;
    uint8_t what = pct < 1 ? 1 : (uint8_t)pct;
    for (size_t i = 0; i < s->n_pack; i++) {
        if (s->pack[i] == guest) continue;
        s->gain_pct[s->pack[i]][guest] = what;
        s->gain_pct[guest][s->pack[i]] = what;
    }
}

/* What the pack must make to be worth it.  Where it leaves no room for an heir, each turn also
 * costs the time in which nobody computes, until the next owner is in. */
static unsigned
worth_pct(const zi_view *v, gandiva *s)
{
    zi_job_id          heir = s->heir;
    const zi_job_view *next = least_served(v, s, true);
    if (!next) return WORTH_IT_PCT;
    s->heir = next->id;
    bool fits = pack_fits(v, s);
    s->heir = heir;
    if (fits) return WORTH_IT_PCT;
    uint64_t cost = s->come_in_ns ? s->come_in_ns : 2 * kept_bytes(v, s, next);
    return WORTH_IT_PCT + 1 + (unsigned)(100.0 * (double)cost / (double)s->slice_ns);
}

/* The clock of a trial runs from the guest's first step on: it may have to come in first. */
static void
begin_trial(const zi_view *v, gandiva *s, uint64_t now)
{
    const zi_job_view *guest = s->trial.watched ? find(v, s->trial.guest) : NULL;
    if (!guest || s->trial.begin_ns || guest->state != ZI_JOB_RUNNING) return;
    s->trial.begin_ns = now;
    for (size_t i = 0; i < s->n_pack; i++) {
        const zi_job_view *j = find(v, s->pack[i]);
        s->trial.step_at_begin[i] = j ? j->step_no : 0;
    }
}

/* How long its steps are alone, by its own and those of its shape: what disturbs some of them
 * (others that start, or move) must not look like a gain of packing.  0: not known yet. */
static uint64_t
alone_step_ns(const zi_view *v, const gandiva *s, zi_job_id id)
{
    uint64_t best = s->alone_steps[id] >= ALONE_STEPS ? s->alone_ns[id] : 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        zi_job_id k = v->job[i].id;
        if (s->alone_steps[k] < ALONE_STEPS || !is_like(v, &v->job[i], id)) continue;
        if (best == 0 || s->alone_ns[k] < best) best = s->alone_ns[k];
    }
    return best;
}

/* The lengths of steps alone are known, of all that would run together, and nobody is new: who
 * starts takes cores that no broker sees. */
static bool
may_be_tried(const zi_view *v, const gandiva *s, zi_job_id guest)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].has_steps && !v->job[i].claim_known) return false;
    for (size_t i = 0; i < s->n_pack; i++)
        if (alone_step_ns(v, s, s->pack[i]) == 0) return false;
    return alone_step_ns(v, s, guest) != 0;
}

/* A step that began and ended with nobody else in the pack. */
static void
note_alone(const zi_view *v, gandiva *s, const zi_job_view *j)
{
    uint64_t *alone = &s->alone_ns[j->id], ns = j->last_step_ns;

    if (s->n_pack != 1 || s->pack[0] != j->id) return;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING) return;
    if (s->alone_steps[j->id]++ == 0 || ns < *alone)
        *alone = ns;
    else
        *alone += (ns - *alone) / ALONE_RISE;
}

/* Would it be worth having in the pack, as far as is known? */
static bool
may_join(const zi_view *v, gandiva *s, const zi_job_view *j)
{
    zi_job_id heir = s->heir;
    unsigned  gain = gain_with_pack(v, s, j->id);

    if (gain != UNTRIED && gain < WORTH_IT_PCT) return false;
    if (gain == UNTRIED && !may_be_tried(v, s, j->id)) return false;
    s->pack[s->n_pack++] = j->id;
    s->heir = ZI_JOB_NONE; /* it may stay out for this */
    bool ok = pack_fits(v, s) && (gain == UNTRIED || gain >= worth_pct(v, s));
    s->n_pack--;
    s->heir = heir;
    return ok;
}

/* Somebody who fits beside the pack, as it is known or hoped to pay. */
static void
invite(const zi_view *v, gandiva *s)
{
    const zi_job_view *best = NULL;
    if (s->n_pack == 0 || s->n_pack >= MAX_PACK || s->n_pack >= v->n_cores || s->trial.on)
        return;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (!wants_to_run(v, j) || in_pack(s, j->id) || !j->claim_known) continue;
        if (best && service(s, j) >= service(s, best)) continue;
        if (may_join(v, s, j)) best = j;
    }
    if (!best) return;
    bool untried = gain_with_pack(v, s, best->id) == UNTRIED;
    s->pack[s->n_pack++] = best->id;
    s->trial = (trial){.on = untried, .watched = true, .guest = best->id};
}

/* Progress of the pack since the trial began, in solo steps' time per second. */
static double
trial_progress(const zi_view *v, const gandiva *s, uint64_t now)
{
    double sum = 0;
    for (size_t i = 0; i < s->n_pack; i++) {
        const zi_job_view *j = find(v, s->pack[i]);
        if (j)
            sum += (double)(j->step_no - s->trial.step_at_begin[i]) *
                   (double)alone_step_ns(v, s, j->id);
    }
    return sum / (double)(now - s->trial.begin_ns);
}

static uint64_t
trial_length(const zi_view *v, const gandiva *s)
{
    uint64_t ns = TRIAL_NS_LEAST;
    for (size_t i = 0; i < s->n_pack; i++) {
        uint64_t steps_ns = TRIAL_STEPS * alone_step_ns(v, s, s->pack[i]);
        if (steps_ns > ns) ns = steps_ns;
    }
    return ns;
}

/* What the pack has made so far, if it was long enough to tell. */
static bool
note_progress(const zi_view *v, gandiva *s, uint64_t now)
{
    if (!s->trial.watched || !s->trial.begin_ns) return false;
    if (now - s->trial.begin_ns < trial_length(v, s)) return false;
    note_gain(s, s->trial.guest, trial_progress(v, s, now));
    return true;
}

static void
judge_trial(const zi_view *v, gandiva *s, uint64_t now)
{
    if (!s->trial.on || !note_progress(v, s, now)) return;
    s->trial.on = false;
    if (gain_with_pack(v, s, s->trial.guest) < worth_pct(v, s))
        drop_from_pack(s, s->trial.guest);
}

/* -- carrying it out -------------------------------------------------------------------------- */

/* Whose turn is furthest away; of two that are as far the larger. */
static bool
goes_before(const gandiva *s, const zi_job_view *a, const zi_job_view *b)
{
    if (service(s, a) != service(s, b)) return service(s, a) > service(s, b);
    return a->fixed_bytes + a->need_bytes > b->fixed_bytes + b->need_bytes;
}

/* Move others out, who comes last first, until the pack and its heir have room. */
static void
make_room(const zi_view *v, const gandiva *s, zi_out *out)
{
    bool out_of_it[ZI_LEDGER_JOBS_MAX] = {false};

    for (;;) {
        room   r = least_room(v, s, ZI_JOB_NONE);
        size_t worst = SIZE_MAX;
        for (size_t i = 0; i < v->n_jobs; i++) {
            const zi_job_view *j = &v->job[i];
            if (in_pack(s, j->id) || j->id == s->heir || out_of_it[j->id]) continue;
            if (!can_go_out(v, j)) continue;
            put_in(v, s, j, false, &r);
            if (worst == SIZE_MAX || goes_before(s, j, &v->job[worst])) worst = i;
        }
        if (worst == SIZE_MAX || room_bytes(&r) <= v->budget_bytes) return;
        out_of_it[v->job[worst].id] = true;
        if (v->job[worst].state != ZI_JOB_LEAVING_MEMORY)
            zi_out_add(out, ZI_ANSWER_SUSPEND, worst, 0, 0);
    }
}

/* As memory is now: those on their way out still have theirs. */
static room
present_room(const zi_view *v, const gandiva *s)
{
    room r = {0};
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (!is_in(j))
            r.kept_bytes += j->fixed_bytes;
        else
            put_in(v, s, j, in_pack(s, j->id), &r);
    }
    return r;
}

static void
bring_in(const zi_view *v, const gandiva *s, zi_out *out)
{
    room r = present_room(v, s);
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        bool               wanted = in_pack(s, j->id) || j->id == s->heir;
        if (j->state != ZI_JOB_SUSPENDED || !wanted || j->by_hand) continue;
        room with = r;
        with.kept_bytes -= j->fixed_bytes; /* private: still there */
        put_in(v, s, j, in_pack(s, j->id), &with);
        if (room_bytes(&with) > v->budget_bytes) continue;
        r = with;
        zi_out_add(out, ZI_ANSWER_RESUME, i, 0, 0);
    }
}

/* Since when nobody of the pack could compute: on its way, or neither computing nor asking for
 * a while; UINT64_MAX: some do. */
static uint64_t
pack_idle_at(const zi_view *v, const gandiva *s)
{
    uint64_t at = 0;
    for (size_t i = 0; i < s->n_pack; i++) {
        const zi_job_view *j = find(v, s->pack[i]);
        if (!j || is_on_its_way(v, j)) continue;
        if (j->state != ZI_JOB_IDLE) return UINT64_MAX;
        uint64_t since = j->began_ns + j->last_step_ns + IDLE_NS;
        if (since > at) at = since;
    }
    return at;
}

/* A slice begins when the steps of the one before have ended. */
static bool
others_run(const zi_view *v, const gandiva *s)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING && !in_pack(s, v->job[i].id)) return true;
    return false;
}

/* Whom it waits for: the slice's owner, or the step before its own slice. */
static zi_job_id
waits_for(const zi_view *v, const gandiva *s, const zi_job_view *j)
{
    if (s->n_pack > 0 && s->pack[0] != j->id) return s->pack[0];
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING) return v->job[i].id;
    return ZI_JOB_NONE;
}

/* One of the pack goes, the others wait for their turn; the desk asks again for the next. */
static void
start_pack(const zi_view *v, const gandiva *s, uint64_t now, zi_out *out)
{
    size_t go = SIZE_MAX;
    bool   anybody = now >= pack_idle_at(v, s), busy = !anybody && others_run(v, s);
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        uint64_t lane = in_pack(s, j->id) ? 0 : j->id == s->heir ? 1 : UINT64_MAX;
        zi_out_add(out, ZI_ANSWER_LANE, i, 0, lane); /* as status shows it */
        if (j->state != ZI_JOB_ASKING || !wants_to_run(v, j)) continue;
        if (go == SIZE_MAX && !busy && (anybody || in_pack(s, j->id)) &&
            zi_policy_core_free(v, i))
            go = i;
        else
            zi_out_add(out, ZI_ANSWER_REASON, i, waits_for(v, s, j), ZI_REASON_TURN);
    }
    zi_policy_divide_cores(v, go, s->n_pack > 1 ? s->n_pack - 1 : 0, out);
    if (go != SIZE_MAX) zi_out_add(out, ZI_ANSWER_GO, go, 0, 0);
}

static void
forget(gandiva *s, zi_job_id id)
{
    drop_from_pack(s, id);
    s->fixed_bytes[id] = 0;
    s->alone_ns[id] = s->alone_steps[id] = 0;
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        s->gain_pct[id][i] = s->gain_pct[i][id] = UNTRIED;
}

/* Level with the least served of the others. */
static void
give_credit(const zi_view *v, gandiva *s, zi_job_id id)
{
    bool any = false;
    s->credit[id] = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (j->id == id || !j->has_steps) continue;
        if (!any || service(s, j) < s->credit[id]) s->credit[id] = service(s, j);
        any = true;
    }
}

static bool
slice_is_over(const gandiva *s, uint64_t now)
{
    if (s->n_pack == 0) return true;
    if (s->trial.on && s->trial.begin_ns) return false; /* it will be judged soon */
    return now >= s->slice_end_ns;
}

static void
gandiva_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    gandiva *s = state;

    if (ev->kind == ZI_EVENT_LEAVE || ev->kind == ZI_EVENT_JOIN)
        forget(s, v->job[ev->job].id);
    if (ev->kind == ZI_EVENT_LEAVE) return;
    if (ev->kind == ZI_EVENT_JOIN) give_credit(v, s, v->job[ev->job].id);
    if (ev->kind == ZI_EVENT_LEASE_ASK && v->job[ev->job].state == ZI_JOB_RUNNING) return;
    if (ev->kind == ZI_EVENT_REGION && ev->delta_bytes > 0) return;
    if (ev->kind == ZI_EVENT_STEP_END) note_alone(v, s, &v->job[ev->job]);
    remember_sizes(v, s);
    note_begun(v, s, ev->now_ns);
    begin_trial(v, s, ev->now_ns);
    judge_trial(v, s, ev->now_ns);
    if (slice_is_over(s, ev->now_ns)) {
        (void)note_progress(v, s,
                            ev->now_ns); /* a pack that no longer pays is not kept */
        begin_slice(v, s, ev->now_ns);
    }
    invite(v, s);
    choose_heir(v, s);
    make_room(v, s, out);
    bring_in(v, s, out);
    start_pack(v, s, ev->now_ns, out);
    uint64_t wake = s->slice_end_ns;
    if (s->trial.on && s->trial.begin_ns) wake = s->trial.begin_ns + trial_length(v, s);
    uint64_t idle = pack_idle_at(v, s);
    if (idle > ev->now_ns && idle < wake) wake = idle;
    if (s->n_pack > 0) zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0, wake);
}

const zi_policy_ops zi_policy_gandiva = {
    .name = "gandiva",
    .origin = "Xiao et al.: Gandiva, OSDI 2018; gandiva:slice=SECONDS",
    .state_size = sizeof(gandiva),
    .init = gandiva_init,
    .on_event = gandiva_on_event,
};

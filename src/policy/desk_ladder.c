/* desk_ladder.c -- when waiting alone does not help (D5).
 *
 * A request beyond a claim may wait for something that never comes: the others may be waiting
 * for its own job to finish.  Rungs, in order, each taken only when the one before it is
 * exhausted:
 *   1  wait
 *   2  recall regions that others took ahead
 *   3  suspend a job that can, at its next step boundary
 *   4  after ZI_DESK_PATIENCE_NS, if every other job waits as well, so that nobody could end,
 *      return something or finish: refuse the youngest such request (its job exceeded its
 *      claim, or the claim sank too low).  A command under the hook then ends its step for the
 *      desk and asks for the rest as another one, so that it can be moved out with all it holds
 * Requests of jobs outside a step wait as long as anybody could still leave or return
 * something; when every job waits for every other, the youngest request is refused.
 * A step that does not fit beside what the others hold, while nobody runs, is begun once one of
 * them has moved out.
 */
#include "policy/desk_private.h"

#include "base/check.h"

/* Could some job inside a step finish with what is free now?  O(1) on the table. */
static bool
somebody_can_finish(zi_desk *d)
{
    const zi_banker *b = zi_desk_table(d);
    return b->n_jobs > 0 && b->entry[0].rest_bytes <= b->free_bytes;
}

bool
zi_desk_waits_for_memory(const zi_desk *d, const zi_desk_row *j)
{
    if (j->raise_seq) return true;
    for (unsigned i = 0; j->n_waits && i < ZI_LEDGER_REQS_PER_JOB; i++) {
        if (!j->wait[i].id) continue;
        const zi_request *req = zi_ledger_find(d->ledger, j->wait[i].id);
        if (req && !req->ahead) return true;
    }
    return false;
}

/* Can anything still happen without us?  A job that neither waits for memory nor for its turn
 * may return, leave, or begin; a paused one may be resumed. */
static bool
somebody_is_able(const zi_desk *d)
{
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_desk_row *j = &d->row[d->job[i].id];
        bool               waits = zi_desk_waits_for_memory(d, j);
        if (j->paused || (j->leaving && !waits)) return true;
        if (!j->suspended && !j->asked && !waits) return true;
        if (j->in_step && !zi_desk_is_stuck(d, d->job[i].id) &&
            somebody_can_finish((zi_desk *)d))
            return true;
    }
    return false;
}

/* The youngest request that the ladder may refuse; NULL: none, or it is only a raise. */
static const zi_request *
youngest(const zi_desk *d, bool in_step)
{
    for (size_t n = zi_ledger_n_requests(d->ledger); n-- > 0;) {
        const zi_request *req = zi_ledger_request(d->ledger, n);
        if (!req->ahead && d->row[req->job].in_step == in_step &&
            (!in_step || zi_desk_is_beyond(d, req)))
            return req;
    }
    return NULL;
}

static zi_job_id
youngest_raise(const zi_desk *d)
{
    zi_job_id found = ZI_JOB_NONE;
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_desk_row *j = &d->row[d->job[i].id];
        if (j->raise_seq &&
            (found == ZI_JOB_NONE || j->raise_ns >= d->row[found].raise_ns))
            found = d->job[i].id;
    }
    return found;
}

/* -- rungs 2 and 3 ------------------------------------------------------------------------ */

static bool
recall(zi_desk *d, zi_job_id for_job)
{
    bool any = false;

    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (d->job[i].id == for_job || j->n_ahead == 0 || zi_desk_reserve(d) < 0)
            continue;
        zi_desk_emit(d,
                     &(zi_effect){.kind = ZI_EFFECT_RECALL,
                                  .job = d->job[i].id,
                                  .behind = ZI_JOB_NONE,
                                  .value = j->n_ahead},
                     NULL);
        j->n_ahead = 0;
        any = true;
    }
    return any;
}

#define RECALL_AGAIN_NS 2000000000u

/* Does somebody wait for bytes? */
static bool
bytes_are_wanted(zi_desk *d)
{
    zi_job_id behind;

    if (zi_ledger_n_requests(d->ledger) > 0) return true;
    for (size_t i = 0; i < d->n_jobs; i++) {
        if (d->job[i].state != ZI_JOB_ASKING) continue;
        zi_reason why = zi_desk_may_go(d, d->job[i].id, &behind);
        if (why == ZI_REASON_ADMISSION || why == ZI_REASON_UNSAFE ||
            why == ZI_REASON_MEMORY)
            return true;
    }
    return false;
}

/* A command that trains nothing keeps freed memory for its own reuse, charged.  When others want
 * bytes it is asked for that, now and then. */
static void
recall_kept(zi_desk *d)
{
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        zi_desk_row       *j = &d->row[v->id];
        if (v->native || v->asked_ns || v->fixed_bytes == 0) continue;
        if (j->recalled_ns && d->now_ns < j->recalled_ns + RECALL_AGAIN_NS) continue;
        if (!bytes_are_wanted(d) || zi_desk_reserve(d) < 0) return;
        j->recalled_ns = d->now_ns;
        zi_desk_emit(d,
                     &(zi_effect){.kind = ZI_EFFECT_RECALL,
                                  .job = v->id,
                                  .behind = ZI_JOB_NONE,
                                  .value = 1},
                     NULL);
    }
}

static bool
suspend_one(zi_desk *d, zi_job_id for_job)
{
    zi_job_id best = ZI_JOB_NONE;
    uint64_t  most = 0;

    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        const zi_desk_row *j = &d->row[v->id];
        bool               waits = zi_desk_waits_for_memory(d, j);
        if (waits) continue; /* it comes to no boundary before it has got that */
        if (j->leaving || j->suspend_wanted) return true; /* one at a time */
        if (j->returning && !j->asked)
            return true; /* just in: it asks for its step next */
        if (v->id == for_job || !v->can_suspend || j->suspended) continue;
        if (!v->native && !j->asked && !j->in_step)
            continue; /* a command may never come to another step */
        if (v->fixed_bytes + v->step_bytes > most) {
            most = v->fixed_bytes + v->step_bytes;
            best = v->id;
        }
    }
    if (best == ZI_JOB_NONE) return false;
    d->row[best].by_ladder = true;
    zi_desk_suspend(d, best);
    return true;
}

/* Jobs that the ladder moved out come back when nobody waits any more. */
static bool
let_back(zi_desk *d)
{
    if (zi_ledger_n_requests(d->ledger) > 0 || youngest_raise(d) != ZI_JOB_NONE)
        return false;
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (!j->suspended || !j->by_ladder || j->paused) continue;
        if (!zi_desk_leaves_room(d, d->job[i].id, j->out_bytes)) continue;
        j->by_ladder = false;
        zi_desk_resume(d, d->job[i].id);
        return true;
    }
    return false;
}

/* -- rung 4 ------------------------------------------------------------------------------- */

static void
refuse_request(zi_desk *d, const zi_request *found)
{
    zi_request    req = *found;
    zi_desk_wait *w = zi_desk_wait_of(d, &req);
    /* beside nobody it would be no different another time */
    zico_status why = zi_desk_has_all(d, req.job) ? ZICO_E_BUDGET : ZICO_E_NOMEM;

    if (zi_desk_reserve(d) < 0) return;
    if (w) {
        *w = (zi_desk_wait){0};
        d->row[req.job].n_waits--;
    }
    d->row[req.job].broken_off = d->row[req.job].in_step;
    zi_ledger_cancel(d->ledger, req.id);
    zi_desk_deny(d, req.job, req.seq, why, req.size_bytes, d->free_bytes, req.hold);
    zi_desk_note_wait(d, req.job);
}

static void
refuse_raise(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];

    if (zi_desk_reserve(d) < 0) return;
    zi_desk_deny(d, job, j->raise_seq, ZICO_E_NOMEM, j->raise_bytes, j->step_claim_bytes,
                 ZI_HOLD_STEP);
    j->raise_seq = 0;
    j->raise_wait = (zi_desk_wait){0};
    zi_desk_note_wait(d, job);
}

static bool
is_overdue(const zi_desk *d, uint64_t since_ns)
{
    return d->now_ns >= since_ns + ZI_DESK_PATIENCE_NS;
}

/* Requests beyond a claim, of jobs inside a step. */
static bool
climb_for_stuck(zi_desk *d)
{
    const zi_request *req = youngest(d, true);
    zi_job_id         raiser = youngest_raise(d);

    if (!req && raiser == ZI_JOB_NONE) return false;
    zi_job_id job = req ? req->job : raiser;
    bool      drained_helps = req ? zi_desk_fits_drained(d, req)
                                  : d->row[raiser].raise_bytes <= zi_desk_room(d, raiser);
    if (recall(d, job)) return true;
    if (drained_helps && somebody_can_finish(d)) return false;
    if (suspend_one(d, job) || somebody_is_able(d)) return false;
    if (req && is_overdue(d, req->arrived_ns)) {
        refuse_request(d, req);
        return true;
    }
    if (!req && is_overdue(d, d->row[raiser].raise_ns)) {
        refuse_raise(d, raiser);
        return true;
    }
    return false;
}

/* Nobody runs, and those that ask do not fit beside what the others hold: for the one that has asked
 * longest another moves out. */
static void
climb_for_asker(zi_desk *d)
{
    zi_job_id oldest = ZI_JOB_NONE, behind;

    if (d->n_in_step > 0 || zi_ledger_n_requests(d->ledger) > 0) return;
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        if (v->state != ZI_JOB_ASKING) continue;
        if (zi_desk_may_go(d, v->id, &behind) != ZI_REASON_ADMISSION) return;
        if (oldest == ZI_JOB_NONE || v->asked_ns < zi_desk_view_of(d, oldest)->asked_ns)
            oldest = v->id;
    }
    if (oldest != ZI_JOB_NONE) (void)suspend_one(d, oldest);
}

bool
zi_desk_climb(zi_desk *d)
{
    if (d->hold) return false;
    recall_kept(d);
    if (climb_for_stuck(d)) return true;
    const zi_request *req = youngest(d, false);
    if (!req || somebody_is_able(d))
        d->unable_ns = 0; /* a moment's wait of all others is not the end */
    else if (d->unable_ns == 0)
        d->unable_ns = d->now_ns ? d->now_ns : 1;
    if (d->unable_ns && !suspend_one(d, req->job) && is_overdue(d, req->arrived_ns) &&
        is_overdue(d, d->unable_ns)) {
        refuse_request(d, req);
        return true;
    }
    climb_for_asker(d);
    return let_back(d);
}

uint64_t
zi_desk_ladder_wake(zi_desk *d)
{
    uint64_t          wake = ZI_NEVER;
    const zi_request *req[2] = {youngest(d, true), youngest(d, false)};
    zi_job_id         raiser = youngest_raise(d);

    for (int i = 0; i < 2; i++) {
        if (!req[i] || (i == 1 && somebody_is_able(d))) continue;
        uint64_t since = req[i]->arrived_ns;
        if (i == 1 && d->unable_ns > since) since = d->unable_ns;
        uint64_t due = since + ZI_DESK_PATIENCE_NS;
        if (due > d->now_ns && due < wake) wake = due;
    }
    if (raiser != ZI_JOB_NONE) {
        uint64_t due = d->row[raiser].raise_ns + ZI_DESK_PATIENCE_NS;
        if (due > d->now_ns && due < wake) wake = due;
    }
    return wake;
}

/* desk_queue.c -- requests arrive, are judged, and are served in order (D1, D2, D3). */
#include "policy/desk_private.h"

#include "base/check.h"

/* -- judging ----------------------------------------------------------------------------- */

/* Of what a job takes to come back, some goes again when the step ends that it was moved out of. */
static uint64_t
passing(const zi_desk_row *j, uint64_t size_bytes)
{
    if (!j->returning && !j->suspended) return 0;
    return size_bytes < j->aside_bytes ? size_bytes : j->aside_bytes;
}

/* Bytes that stay when steps end: may the device lose them for good?  There must be room
 * left for the largest step that any job is known to run, its own included. */
bool
zi_desk_leaves_room(const zi_desk *d, zi_job_id job, uint64_t size_bytes)
{
    const zi_desk_row *j = &d->row[job];
    const zi_job_view *v = &d->job[j->at];
    uint64_t           lasting = size_bytes - passing(j, size_bytes);
    uint64_t           cost = zi_desk_cost(d, job, lasting);
    uint64_t own = d->permanent_bytes - j->stays_bytes + v->fixed_bytes + size_bytes +
                   zi_desk_hard_need(d, j);

    return d->permanent_bytes + cost + d->need_most_bytes <= d->target_bytes &&
           own <= d->target_bytes;
}

/* The claim of the step that the job is in, once this request is granted.  A job that is being
 * learnt claims all there is without knowing what for: what it wants for good comes out of
 * that, else its first gradients would wait for its own claim.  So does what another command wants
 * whose claim is only our guess, if it is not safe otherwise: it would wait for itself. */
static uint64_t
claim_after(zi_desk *d, const zi_request *req)
{
    const zi_desk_row *j = &d->row[req->job];
    const zi_job_view *v = &d->job[j->at];
    uint64_t           held = v->step_bytes, claim = j->step_claim_bytes;
    uint64_t           unit = d->view.region_bytes;
    uint64_t           cost = zi_desk_cost(d, req->job, req->size_bytes);

    if (!j->in_step || req->hold == ZI_HOLD_STEP) return claim;
    if (!zi_desk_is_learning(j) && (v->native || j->spec.claim_bytes ||
                                    zi_desk_may_exceed(d, req->job, claim, 0, cost)))
        return claim;
    cost = (cost + unit - 1) / unit * unit;
    return claim > held && claim - held >= cost ? claim - cost : held;
}

/* A program that was started within a step is a part of it: the one that has started it may wait for
 * its end.  What it wants for good, and could not have safely, comes out of that step's claim.
 * NULL: it was not, or nothing is left of the claim. */
static zi_desk_row *
lender_of(zi_desk *d, const zi_request *req, uint64_t *ret_bytes)
{
    zi_job_id maker = d->row[req->job].maker;
    uint64_t  unit = d->view.region_bytes;

    if (maker == ZI_JOB_NONE || d->row[req->job].in_step || !d->row[maker].in_step)
        return NULL;
    zi_desk_row *m = &d->row[maker];
    uint64_t     held = zi_desk_view_of(d, maker)->step_bytes;
    *ret_bytes = (zi_desk_cost(d, req->job, req->size_bytes) + unit - 1) / unit * unit;
    return m->step_claim_bytes >= held + *ret_bytes ? m : NULL;
}

static bool
is_safe_for_good(zi_desk *d, const zi_request *req)
{
    uint64_t cost = zi_desk_cost(d, req->job, req->size_bytes);
    return d->row[req->job].in_step
               ? zi_desk_may_exceed(d, req->job, claim_after(d, req), 0, cost)
               : zi_desk_may_lose(d, cost) && !d->somebody_stuck;
}

/* Outside a step nobody gets more for good while somebody inside one is stuck: what others move out
 * for it must not be taken by who cannot move out again before it has got still more. */
static zi_reason
judge_permanent(zi_desk *d, const zi_request *req)
{
    uint64_t lent;

    if (lender_of(d, req, &lent)) return ZI_REASON_NONE;
    if (!zi_desk_leaves_room(d, req->job, req->size_bytes)) return ZI_REASON_ADMISSION;
    return is_safe_for_good(d, req) ? ZI_REASON_NONE : ZI_REASON_UNSAFE;
}

static zi_reason
judge_step(zi_desk *d, const zi_request *req)
{
    uint64_t claim = d->row[req->job].step_claim_bytes;
    uint64_t cost = zi_desk_cost(d, req->job, req->size_bytes);
    uint64_t after = zi_desk_view_of(d, req->job)->step_bytes + req->size_bytes;
    bool     plain = !zi_desk_is_beyond(d, req) && !zi_desk_is_stuck(d, req->job);

    if (claim < after) claim = after; /* an implicit raise */
    bool safe = plain ? zi_desk_may_take(d, req->job, cost)
                      : zi_desk_may_exceed(d, req->job, claim, cost, 0);
    return safe ? ZI_REASON_NONE : ZI_REASON_UNSAFE;
}

/* NONE: grant it. */
static zi_reason
judge(zi_desk *d, const zi_request *req)
{
    const zi_desk_row *j = &d->row[req->job];

    if (d->hold) return ZI_REASON_REJOIN;
    switch (zi_ledger_may_grant(d->ledger, req)) {
    case ZICO_OK:
        break;
    case ZICO_E_LIMIT: {
        const zi_job_view *v = zi_desk_view_of(d, req->job);
        uint64_t           max = v->limits.max_bytes;
        bool own = max && v->fixed_bytes + v->step_bytes + req->size_bytes > max;
        return own ? ZI_REASON_LIMIT : ZI_REASON_MEMORY;
    }
    default:
        return ZI_REASON_MEMORY;
    }
    if (j->in_step && req->hold == ZI_HOLD_STEP) return judge_step(d, req);
    return judge_permanent(d, req);
}

bool
zi_desk_fits_drained(const zi_desk *d, const zi_request *req)
{
    const zi_desk_row *j = &d->row[req->job];
    const zi_job_view *v = &d->job[j->at];

    if (!j->in_step || req->hold != ZI_HOLD_STEP) {
        uint64_t max = v->limits.max_bytes;
        if (max && v->fixed_bytes + req->size_bytes > max) return false;
        return zi_desk_leaves_room(d, req->job, req->size_bytes);
    }
    return v->step_bytes + req->size_bytes <= zi_desk_room(d, req->job);
}

/* -- granting ---------------------------------------------------------------------------- */

zi_desk_wait *
zi_desk_wait_of(zi_desk *d, const zi_request *req)
{
    zi_desk_row *j = &d->row[req->job];
    for (unsigned i = 0; i < ZI_LEDGER_REQS_PER_JOB; i++)
        if (j->wait[i].id == req->id) return &j->wait[i];
    return NULL;
}

static void
forget_wait(zi_desk *d, const zi_request *req)
{
    zi_desk_wait *w = zi_desk_wait_of(d, req);
    zi_assert(w != NULL);
    *w = (zi_desk_wait){0};
    d->row[req->job].n_waits--;
}

/* Inside a step: taken (+) or returned (-). */
static void
note_region(zi_desk *d, zi_desk_row *j, zi_job_view *v, int64_t delta_bytes)
{
    if (d->hung == v->id) d->fresh = false; /* it has come to life */
    v->last_region_ns = d->now_ns;
    v->region_clock_ns = v->clock_ns;
    zi_tide_recorder_add(j->rec, v->clock_ns, delta_bytes);
}

/* The books after a grant: claim, step, tide, policy. */
static void
note_grant(zi_desk *d, const zi_request *req, uint64_t size_bytes)
{
    zi_desk_row *j = &d->row[req->job];
    zi_job_view *v = zi_desk_view_of(d, req->job);

    zi_desk_refresh(d);
    if (req->hold == ZI_HOLD_PRIVATE) return;
    if (req->ahead) j->n_ahead += (uint32_t)(size_bytes / d->view.region_bytes);
    if (j->in_step && req->hold == ZI_HOLD_STEP) {
        if (v->step_bytes > j->step_claim_bytes) {
            j->step_claim_bytes = v->step_bytes;
            d->fresh = d->table_fresh = false;
        }
        v->taken_bytes += size_bytes;
        note_region(d, j, v, (int64_t)size_bytes);
    }
    zi_desk_post(d, ZI_EVENT_REGION, req->job, (int64_t)size_bytes, 0);
}

static bool
book_grant(zi_desk *d, const zi_request *found, uint32_t n_regions)
{
    zi_request req = *found;

    if (zi_desk_reserve(d) < 0) return false;
    uint64_t     claim = claim_after(d, &req), lent = 0;
    zi_desk_row *lender = req.hold == ZI_HOLD_STEP || is_safe_for_good(d, &req)
                              ? NULL
                              : lender_of(d, &req, &lent);
    if (zi_ledger_grant(d->ledger, req.id, n_regions, &d->grant) < 0) return false;
    d->row[req.job].step_claim_bytes = claim;
    if (lender) lender->step_claim_bytes -= lent;
    uint64_t size = n_regions ? n_regions * d->view.region_bytes : req.size_bytes;
    forget_wait(d, &req);
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_GRANT,
                              .job = req.job,
                              .seq = req.seq,
                              .behind = ZI_JOB_NONE,
                              .value = size,
                              .asked_bytes = req.size_bytes,
                              .hold = req.hold},
                 &d->grant);
    note_grant(d, &req, size);
    zi_desk_note_wait(d, req.job);
    return true;
}

bool
zi_desk_grant_one(zi_desk *d, uint64_t id, uint32_t n_regions)
{
    const zi_request *req = zi_ledger_find(d->ledger, id);
    if (!req || judge(d, req) != ZI_REASON_NONE) return false;
    if (n_regions > req->n_regions || (n_regions && !req->ahead)) n_regions = 0;
    return book_grant(d, req, n_regions);
}

static void
refuse(zi_desk *d, const zi_request *found, zico_status why)
{
    zi_request req = *found;
    forget_wait(d, &req);
    zi_ledger_cancel(d->ledger, req.id);
    zi_desk_deny(d, req.job, req.seq, why, req.size_bytes, d->free_bytes, req.hold);
    zi_desk_note_wait(d, req.job);
    zi_desk_refresh(d);
}

/* Taken ahead: as much as there is without anybody waiting for it, or nothing; never waits. */
static bool
serve_ahead(zi_desk *d, const zi_request *req, bool others_wait)
{
    const zi_desk_row *j = &d->row[req->job];
    zi_request         part = *req;

    if (j->in_step) { /* within its claim */
        uint64_t step = zi_desk_view_of(d, req->job)->step_bytes;
        uint64_t rest = j->step_claim_bytes > step ? j->step_claim_bytes - step : 0;
        if (rest / d->view.region_bytes < part.n_regions)
            part.n_regions = (uint32_t)(rest / d->view.region_bytes);
    }
    while (!others_wait && part.n_regions > 0) {
        part.size_bytes = part.n_regions * d->view.region_bytes;
        if (!zi_desk_is_beyond(d, &part) && judge(d, &part) == ZI_REASON_NONE &&
            book_grant(d, req, part.n_regions))
            return true;
        part.n_regions /= 2;
    }
    if (zi_desk_reserve(d) < 0) return false;
    refuse(d, req, ZICO_E_BUSY);
    return true;
}

/* -- raising ----------------------------------------------------------------------------- */

static bool
serve_raise(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];
    uint64_t     claim = j->raise_bytes;

    if (d->hold || zi_desk_reserve(d) < 0) return false;
    if (!zi_desk_may_exceed(d, job, claim, 0, 0)) {
        j->raise_wait.reason = ZI_REASON_UNSAFE;
        j->raise_wait.behind = d->biggest == job ? ZI_JOB_NONE : d->biggest;
        return false;
    }
    j->step_claim_bytes = claim;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_GRANT,
                              .job = job,
                              .seq = j->raise_seq,
                              .behind = ZI_JOB_NONE,
                              .value = claim,
                              .asked_bytes = claim,
                              .hold = ZI_HOLD_STEP},
                 NULL);
    j->raise_seq = 0;
    j->raise_wait = (zi_desk_wait){0};
    zi_desk_refresh(d);
    zi_desk_note_wait(d, job);
    return true;
}

/* -- serving in order -------------------------------------------------------------------- */

/* Is what it waits for needed to finish a step that was promised to finish? */
static bool
is_promised(const zi_desk *d, const zi_request *req)
{
    return d->row[req->job].in_step && !zi_desk_is_beyond(d, req);
}

static bool
is_aged(const zi_desk *d, uint64_t arrived_ns)
{
    return d->now_ns - arrived_ns >= ZI_DESK_AGE_NS;
}

/* Does an older request keep this one back?  Not what was promised.  Nor what a step needs to end,
 * if that is safe: who waits inside a step waits for others' to end, and no new one begins
 * meanwhile.  Only lasting memory stays behind who waits for it outside, as long as another
 * step may end and serve that. */
static bool
is_held_by_age(zi_desk *d, const zi_request *req)
{
    uint64_t lent;

    if (d->aged == ZI_JOB_NONE || d->aged == req->job || is_promised(d, req))
        return false;
    if (!d->row[req->job].in_step) return lender_of(d, req, &lent) == NULL;
    if (req->hold == ZI_HOLD_STEP || d->row[d->aged].in_step) return false;
    return d->n_in_step > 1;
}

/* From when on a job's request makes it stand still.  A native job issues ahead of its kernels and goes
 * on with those meanwhile: cores that others get before it has come to them would be its own. */
uint64_t
zi_desk_stalls_at(const zi_desk *d, const zi_request *req)
{
    bool native = d->job[d->row[req->job].at].native;
    return req->arrived_ns + (native ? ZI_DESK_LEAD_NS : 0);
}

static void
note_reason(zi_desk *d, const zi_request *req, zi_reason reason, size_t place,
            zi_job_id older)
{
    zi_desk_wait *w = zi_desk_wait_of(d, req);

    zi_assert(w != NULL);
    w->behind = reason == ZI_REASON_QUEUE    ? older
                : d->biggest == req->job     ? ZI_JOB_NONE
                : reason == ZI_REASON_REJOIN ? ZI_JOB_NONE
                                             : d->biggest;
    if ((reason == ZI_REASON_MEMORY || reason == ZI_REASON_UNSAFE) &&
        d->hung != ZI_JOB_NONE && d->hung != req->job) {
        reason = ZI_REASON_HANG;
        w->behind = d->hung;
    }
    if (!w->stalls && d->row[req->job].in_step && !req->ahead &&
        zi_desk_stalls_at(d, req) <= d->now_ns) {
        w->stalls = true;
        d->fresh = false;
        zi_desk_post(d, ZI_EVENT_STALLED, req->job, 0, req->id);
    }
    w->reason = reason;
    w->position = (uint32_t)place;
}

/* One look at the request at `place`.  True: it left the queue. */
static bool
serve_place(zi_desk *d, size_t place, size_t *n_waiting)
{
    const zi_request *req = zi_ledger_request(d->ledger, place);
    zi_reason         reason;

    if (req->ahead) {
        if (d->hold) {
            note_reason(d, req, ZI_REASON_REJOIN, place, ZI_JOB_NONE);
            return false;
        }
        return serve_ahead(d, req, *n_waiting > 0);
    }
    reason = judge(d, req);
    if (reason == ZI_REASON_NONE && is_held_by_age(d, req)) reason = ZI_REASON_QUEUE;
    if (reason == ZI_REASON_NONE && book_grant(d, req, 0)) return true;
    if (reason == ZI_REASON_NONE) reason = ZI_REASON_MEMORY; /* no room to book it */
    if (req->deadline_ns <= d->now_ns && zi_desk_reserve(d) == ZICO_OK) {
        refuse(d, req, req->arrived_ns == d->now_ns ? ZICO_E_BUSY : ZICO_E_TIMEOUT);
        return true;
    }
    note_reason(d, req, reason, place, d->aged);
    if (d->aged == ZI_JOB_NONE && is_aged(d, req->arrived_ns) &&
        zi_desk_fits_drained(d, req))
        d->aged = req->job;
    ++*n_waiting;
    return false;
}

bool
zi_desk_serve(zi_desk *d)
{
    bool   any = false;
    size_t n_waiting = 0;

    zi_desk_refresh_if_stale(d);
    d->aged = ZI_JOB_NONE;
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (!j->raise_seq) continue;
        if (serve_raise(d, d->job[i].id))
            any = true;
        else if (is_aged(d, j->raise_ns))
            d->aged = d->job[i].id;
    }
    for (size_t place = 0; place < zi_ledger_n_requests(d->ledger);) {
        if (serve_place(d, place, &n_waiting))
            any = true;
        else
            place++;
    }
    return any;
}

/* -- the calls --------------------------------------------------------------------------- */

/* D6: what can never be granted is said at once. */
static bool
can_never_fit(zi_desk *d, const zi_request *req, uint64_t size_bytes)
{
    const zi_desk_row *j = &d->row[req->job];
    const zi_job_view *v = zi_desk_view_of(d, req->job);
    uint64_t           most = v->limits.max_bytes && v->limits.max_bytes < d->target_bytes
                                  ? v->limits.max_bytes
                                  : d->target_bytes;

    if (req->ahead) return false;
    if (j->in_step && req->hold == ZI_HOLD_STEP) {
        /* a native job issues ahead of its kernels: its own returns are on their way */
        uint64_t stays = v->native ? 0 : v->step_bytes;
        return v->fixed_bytes + stays + size_bytes > most;
    }
    uint64_t need = j->returning ? 0 : zi_desk_hard_need(d, j); /* it has fitted before */
    return v->fixed_bytes + size_bytes + need > most;
}

/* Less is welcome: what is taken ahead is never more than could be had at all. */
static void
trim_ahead(zi_desk *d, zi_request *req)
{
    const zi_job_view *v = zi_desk_view_of(d, req->job);
    uint64_t           most = d->target_bytes / d->view.region_bytes;
    uint64_t           max = v->limits.max_bytes / d->view.region_bytes;

    if (v->limits.max_bytes && max < most) most = max;
    if (req->n_regions > most && most > 0) req->n_regions = (uint32_t)most;
}

zico_status
zi_desk_ask(zi_desk *d, const zi_request *asked, uint64_t now_ns)
{
    zi_request  req = *asked;
    uint64_t    size, id;
    zico_status st;

    if (!zi_desk_is_live(d, req.job) || req.hold > ZI_HOLD_PRIVATE) return ZICO_E_ARG;
    zi_desk_now(d, now_ns);
    st = zi_desk_reserve(d);
    if (st < 0) return st;
    zi_desk_refresh_if_stale(d);
    req.arrived_ns = now_ns;
    if (req.ahead) trim_ahead(d, &req);
    size = req.hold == ZI_HOLD_PRIVATE ? req.size_bytes
                                       : req.n_regions * d->view.region_bytes;
    req.size_bytes = size;
    zi_desk_note_astray(d, &req);
    st = can_never_fit(d, &req, size) ? ZICO_E_BUDGET
                                      : zi_ledger_ask(d->ledger, &req, &id);
    if (st == ZICO_E_ARG || st == ZICO_E_NOMEM) return st;
    if (st < 0) {
        uint64_t own = zi_desk_view_of(d, req.job)->fixed_bytes;
        uint64_t had = d->target_bytes > own ? d->target_bytes - own : 0;
        zi_desk_deny(d, req.job, req.seq, st, size, had, req.hold);
        return ZICO_OK;
    }
    zi_desk_row *j = &d->row[req.job];
    unsigned     slot = 0;
    while (slot < ZI_LEDGER_REQS_PER_JOB && j->wait[slot].id) slot++;
    zi_assert(slot < ZI_LEDGER_REQS_PER_JOB); /* L7 */
    j->wait[slot] =
        (zi_desk_wait){.id = id, .reason = ZI_REASON_MEMORY, .position = UINT32_MAX};
    j->n_waits++;
    zi_desk_note_wait(d, req.job);
    zi_desk_note_requests(d);
    if (j->returning || d->hung == req.job) d->fresh = false;
    zi_desk_post(d, ZI_EVENT_LEASE_ASK, req.job, 0, id);
    zi_desk_settle_marked(d);
    return ZICO_OK;
}

zico_status
zi_desk_raise(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t claim_bytes,
              uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job) || seq == 0) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zi_desk_now(d, now_ns);
    if (!j->in_step || j->raise_seq) return ZICO_E_STATE;
    zico_status st = zi_desk_reserve(d);
    if (st < 0) return st;

    zi_desk_refresh(d);
    const zi_job_view *v = zi_desk_view_of(d, job);
    uint64_t           most =
        d->target_bytes > v->fixed_bytes ? d->target_bytes - v->fixed_bytes : 0;
    if (v->limits.max_bytes && v->limits.max_bytes - v->fixed_bytes < most)
        most = v->limits.max_bytes > v->fixed_bytes ? v->limits.max_bytes - v->fixed_bytes
                                                    : 0;
    if (claim_bytes > most) { /* D6 */
        zi_desk_deny(d, job, seq, ZICO_E_BUDGET, claim_bytes, most, ZI_HOLD_STEP);
        return ZICO_OK;
    }
    j->raise_seq = seq;
    j->raise_bytes =
        claim_bytes > j->step_claim_bytes ? claim_bytes : j->step_claim_bytes;
    j->raise_ns = now_ns;
    j->raise_wait = (zi_desk_wait){.id = 1, .reason = ZI_REASON_UNSAFE};
    zi_desk_note_wait(d, job);
    zi_desk_settle(d);
    return ZICO_OK;
}

zico_status
zi_desk_cancel(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zico_status  st = ZICO_E_NOTFOUND;

    zi_desk_now(d, now_ns);
    if (j->raise_seq == seq && seq) {
        j->raise_seq = 0;
        j->raise_wait = (zi_desk_wait){0};
        st = ZICO_OK;
    } else if (j->asked && j->step_seq == seq) {
        j->asked = false;
        j->step_wait = (zi_desk_wait){0};
        st = ZICO_OK;
    } else if (j->in_step && j->step_seq == seq && seq) { /* GO crossed this on the way */
        zi_desk_undo_step(d, job);
        st = ZICO_OK;
    }
    for (unsigned i = 0; st < 0 && i < ZI_LEDGER_REQS_PER_JOB; i++) {
        const zi_request *req = zi_ledger_find(d->ledger, j->wait[i].id);
        if (!j->wait[i].id || !req || req->seq != seq) continue;
        st = zi_ledger_cancel(d->ledger, req->id);
        j->wait[i] = (zi_desk_wait){0};
        j->n_waits--;
    }
    zi_desk_set_state(d, job);
    zi_desk_note_wait(d, job);
    zi_desk_settle(d);
    return st;
}

zico_status
zi_desk_return(zi_desk *d, zi_job_id job, const zi_run *runs, size_t n_runs,
               uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row         *j = &d->row[job];
    zi_job_view         *v = zi_desk_view_of(d, job);
    const zi_ledger_job *l = zi_ledger_job_of(d->ledger, job);
    uint64_t             step = l->n_step, fixed = l->n_fixed;

    zi_desk_now(d, now_ns);
    zico_status st = zi_ledger_return(d->ledger, job, runs, n_runs);
    if (st < 0) return st;
    zi_desk_refresh(d);
    step = (step - l->n_step) * d->view.region_bytes;
    fixed = (fixed - l->n_fixed) * d->view.region_bytes;
    if (j->in_step && step > 0) {
        v->returned_bytes += step;
        j->exchanged_bytes += step;
        note_region(d, j, v, -(int64_t)step);
        zi_desk_sink_claim(d, job);
    }
    if (j->leaving && step > 0) {
        j->aside_bytes += step;
        d->fresh = false;
    }
    uint32_t n = (uint32_t)((step + fixed) / d->view.region_bytes);
    j->n_ahead -= n < j->n_ahead ? n : j->n_ahead;
    zi_desk_post(d, ZI_EVENT_REGION, job, -(int64_t)(step + fixed), 0);
    zi_desk_settle_marked(d);
    return ZICO_OK;
}

zico_status
zi_desk_uncharge(zi_desk *d, zi_job_id job, uint64_t size_bytes, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_now(d, now_ns);
    zico_status st = zi_ledger_uncharge(d->ledger, job, size_bytes);
    if (st < 0) return st;
    zi_desk_post(d, ZI_EVENT_REGION, job, -(int64_t)size_bytes, 0);
    zi_desk_settle(d);
    return ZICO_OK;
}

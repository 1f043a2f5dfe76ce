/* desk_settle.c -- after each call: until nothing moves any more, ask the policy, start
 * learners, serve the queue, climb the ladder; then say why the others wait (D4). */
#include "policy/desk_private.h"

#include "base/check.h"

#define ROUNDS_MAX                                                                       \
    256 /* far above what events can cause; against a policy that dithers */

void
zi_desk_post(zi_desk *d, zi_event_kind kind, zi_job_id job, int64_t delta_bytes,
             uint64_t value)
{
    if (d->n_events == ZI_DESK_EVENTS_MAX) return; /* it sees the state at the next one */
    size_t at = (d->first_event + d->n_events++) % ZI_DESK_EVENTS_MAX;
    d->event[at] = (zi_desk_event){
        .ev = {.kind = kind,
               .now_ns = d->now_ns,
               .job = SIZE_MAX,
               .request = kind == ZI_EVENT_LEASE_ASK ? value : 0,
               .delta_bytes = delta_bytes,
               .value = value},
        .job = job,
    };
}

/* -- answers ------------------------------------------------------------------------------ */

static void
set_reason(zi_desk *d, zi_job_view *v, const zi_answer *a)
{
    zi_desk_row *j = &d->row[v->id];
    if (a->value > ZI_REASON_MAX) return;
    j->policy_reason = (zi_reason)a->value;
    j->policy_behind =
        a->request < ZI_LEDGER_JOBS_MAX ? (zi_job_id)a->request : ZI_JOB_NONE;
}

/* True: memory or a step moved. */
static bool
carry_out(zi_desk *d, const zi_answer *a)
{
    if (a->kind == ZI_ANSWER_GRANT)
        return zi_desk_grant_one(d, a->request, (uint32_t)a->value);
    if (a->kind == ZI_ANSWER_WAKE_AT) {
        if (a->value > d->now_ns && a->value < d->policy_wake_ns)
            d->policy_wake_ns = a->value;
        return false;
    }
    if (a->job >= d->n_jobs || !d->row[d->job[a->job].id].live) return false;
    zi_job_view *v = &d->job[a->job];
    switch (a->kind) {
    case ZI_ANSWER_GO:
        return zi_desk_go(d, v->id);
    case ZI_ANSWER_CORES:
        zi_desk_set_cores(d, v, a->value);
        return false;
    case ZI_ANSWER_SUSPEND:
        zi_desk_suspend(d, v->id);
        return false;
    case ZI_ANSWER_RESUME:
        if (!d->row[v->id].paused) zi_desk_resume(d, v->id); /* a person comes first */
        return false;
    case ZI_ANSWER_SHRINK:
        zi_desk_shrink(d, v->id, a->value, a->request);
        return false;
    case ZI_ANSWER_REASON:
        set_reason(d, v, a);
        return false;
    case ZI_ANSWER_LANE:
        d->row[v->id].lane = (int64_t)a->value;
        return false;
    default:
        return false;
    }
}

/* An answer that changes nothing which the desk reckons with. */
static bool
is_talk(zi_answer_kind kind)
{
    return kind == ZI_ANSWER_REASON || kind == ZI_ANSWER_WAKE_AT ||
           kind == ZI_ANSWER_LANE || kind == ZI_ANSWER_CORES;
}

static bool
dispatch(zi_desk *d)
{
    bool          moved = false;
    zi_desk_event e = d->event[d->first_event];

    d->first_event = (d->first_event + 1) % ZI_DESK_EVENTS_MAX;
    d->n_events--;
    zi_desk_refresh_if_stale(d);
    if (e.job != ZI_JOB_NONE) {
        bool in_view =
            d->row[e.job].at < d->n_jobs && d->job[d->row[e.job].at].id == e.job;
        if (!in_view) return false; /* it left meanwhile */
        e.ev.job = d->row[e.job].at;
    }
    d->out.n = 0;
    d->policy->on_event(d->policy_state, &d->view, &e.ev, &d->out);
    for (size_t i = 0; i < d->out.n; i++) {
        moved |= carry_out(d, &d->out.answer[i]);
        d->fresh &= is_talk(d->out.answer[i].kind);
    }
    return moved;
}

/* -- a lowered budget --------------------------------------------------------------------- */

/* As far down as the jobs inside a step can spare. */
static bool
sink_budget(zi_desk *d)
{
    if (d->budget_bytes <= d->target_bytes || zi_desk_reserve(d) < 0) return false;
    zi_desk_refresh(d);
    uint64_t keep = d->budget_bytes - zi_desk_slack(d);
    uint64_t before = d->budget_bytes;
    (void)zi_ledger_set_budget(d->ledger, d->target_bytes, keep, &d->grant);
    zi_desk_emit_punches(d);
    zi_desk_refresh(d);
    if (d->budget_bytes == d->target_bytes && before != d->target_bytes)
        zi_desk_post(d, ZI_EVENT_BUDGET, ZI_JOB_NONE, 0, d->target_bytes);
    return d->n_events > 0;
}

/* -- why others wait ---------------------------------------------------------------------- */

static void
tell(zi_desk *d, zi_job_id job, uint32_t seq, zi_desk_wait *w, uint64_t asked_bytes)
{
    bool moved =
        w->position != w->told_position && d->now_ns - w->told_ns >= ZI_DESK_TELL_NS;

    zi_assert(w->reason != ZI_REASON_NONE); /* D4 */
    if (w->told == w->reason && !moved) return;
    if (zi_desk_reserve(d) < 0) return;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_WAIT,
                              .job = job,
                              .seq = seq,
                              .reason = w->reason,
                              .position = w->position,
                              .behind = w->behind,
                              .asked_bytes = asked_bytes},
                 NULL);
    w->told = w->reason;
    w->told_position = w->position;
    w->told_ns = d->now_ns;
}

static void
explain_step(zi_desk *d, const zi_job_view *v)
{
    zi_desk_row *j = &d->row[v->id];
    zi_job_id    behind;
    zi_reason    reason = zi_desk_may_go(d, v->id, &behind);

    if (reason == ZI_REASON_NONE) { /* it is the policy that holds it back */
        reason = j->policy_reason != ZI_REASON_NONE ? j->policy_reason : ZI_REASON_TURN;
        behind = j->policy_reason != ZI_REASON_NONE ? j->policy_behind : d->biggest;
    }
    j->step_wait.reason = reason;
    j->step_wait.behind = behind;
    tell(d, v->id, 0, &j->step_wait, v->claim_bytes);
}

static void
explain(zi_desk *d)
{
    zi_desk_refresh_if_stale(d);
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (j->asked) explain_step(d, &d->job[i]);
        if (j->raise_seq)
            tell(d, d->job[i].id, j->raise_seq, &j->raise_wait, j->raise_bytes);
    }
    for (size_t place = 0; place < zi_ledger_n_requests(d->ledger); place++) {
        const zi_request *req = zi_ledger_request(d->ledger, place);
        zi_desk_wait     *w = zi_desk_wait_of(d, req);
        zi_assert(w != NULL);
        if (w) tell(d, req->job, req->seq, w, req->size_bytes);
    }
}

/* -- timers ------------------------------------------------------------------------------- */

static void
sooner(uint64_t *wake, uint64_t at, uint64_t now)
{
    if (at > now && at < *wake) *wake = at;
}

/* Who waits must be told that somebody hangs, and those that fit must go on. */
static void
look_for_hangs(const zi_desk *d, uint64_t *wake)
{
    bool somebody_waits = false;

    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_desk_row *j = &d->row[d->job[i].id];
        somebody_waits |= j->asked || j->n_waits;
    }
    for (size_t i = 0; i < d->n_jobs && somebody_waits; i++) {
        uint64_t due = zi_desk_hang_due(d, d->job[i].id);
        if (due != ZI_NEVER) sooner(wake, due + 1, d->now_ns);
    }
}

static void
set_timer(zi_desk *d)
{
    uint64_t wake = d->policy_wake_ns;

    look_for_hangs(d, &wake);

    for (size_t place = 0; place < zi_ledger_n_requests(d->ledger); place++) {
        const zi_request *req = zi_ledger_request(d->ledger, place);
        sooner(&wake, req->deadline_ns, d->now_ns);
        if (d->row[req->job].in_step) sooner(&wake, zi_desk_stalls_at(d, req), d->now_ns);
        sooner(&wake, req->arrived_ns + ZI_DESK_AGE_NS, d->now_ns);
    }
    uint64_t ladder = zi_desk_ladder_wake(d);
    if (ladder < wake) wake = ladder;
    if (wake == ZI_NEVER || zi_desk_reserve(d) < 0) return;
    if (d->told_wake_ns > d->now_ns && d->told_wake_ns <= wake)
        return; /* is waited for */
    d->told_wake_ns = wake;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_WAKE_AT,
                              .job = ZI_JOB_NONE,
                              .behind = ZI_JOB_NONE,
                              .value = wake},
                 NULL);
}

/* ----------------------------------------------------------------------------------------- */

/* Up the ladder; whoever is moved out, called back or refused there changes everything. */
static bool
climb(zi_desk *d)
{
    size_t n_effects = d->n_effects;
    bool   moved = zi_desk_climb(d);

    if (moved || d->n_effects != n_effects) d->fresh = false;
    return moved;
}

void
zi_desk_settle_marked(zi_desk *d)
{
    bool moved = true;

    for (int round = 0; moved && round < ROUNDS_MAX; round++) {
        moved = false;
        while (d->n_events > 0) moved |= dispatch(d);
        moved |= zi_desk_serve(d);
        moved |= zi_desk_apply_limits(d);
        if (d->n_events == 0) moved |= zi_desk_go_unasked(d);
        if (!moved) moved |= sink_budget(d);
        if (!moved && d->n_events == 0) moved |= climb(d);
        moved |= d->n_events > 0;
    }
    explain(d);
    set_timer(d);
    zi_assert_paranoid(zi_desk_verify(d, NULL) == ZICO_OK);
}

void
zi_desk_settle(zi_desk *d)
{
    d->fresh = false; /* whoever calls has changed something */
    zi_desk_settle_marked(d);
}

zico_status
zi_desk_tick(zi_desk *d, uint64_t now_ns)
{
    zi_job_id hung = d->hung;

    d->told_wake_ns =
        ZI_NEVER; /* whoever calls has used it up, and maybe a later one with it */
    zi_desk_now(d, now_ns);
    zi_desk_refresh(d);
    if (d->policy_wake_ns <= now_ns || d->hung != hung) {
        if (d->policy_wake_ns <= now_ns) d->policy_wake_ns = ZI_NEVER;
        zi_desk_post(d, ZI_EVENT_TIMER, ZI_JOB_NONE, 0, 0);
    }
    zi_desk_settle(d);
    return ZICO_OK;
}

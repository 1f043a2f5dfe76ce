/* desk.c -- jobs join, leave, are limited, paused and adopted; what can be looked at.
 *
 * NEXT  desk_private.h lists the other files.
 */
#include "policy/desk_private.h"

#include "base/alloc.h"
#include <string.h>
#include "base/check.h"

zico_status
zi_desk_new(const zi_desk_options *opt, zi_desk **ret_desk)
{
    const char          *arg = "";
    const zi_policy_ops *ops = opt->policy ? zi_policy_find(opt->policy, &arg) : NULL;
    zico_status          st = ZICO_E_NOMEM;

    if (!ops || opt->n_cores == 0) return ZICO_E_ARG;
    zi_desk *d = zi_calloc(1, sizeof *d);
    if (!d) return ZICO_E_NOMEM;
    d->policy = ops;
    d->n_cores = opt->n_cores;
    d->policy_wake_ns = d->told_wake_ns = ZI_NEVER;
    d->aged = ZI_JOB_NONE;
    d->row = zi_calloc(ZI_LEDGER_JOBS_MAX, sizeof *d->row);
    d->job = zi_calloc(ZI_LEDGER_JOBS_MAX, sizeof *d->job);
    d->policy_state = zi_calloc(1, ops->state_size + 1);
    if (!d->row || !d->job || !d->policy_state) goto undo;
    st = zi_ledger_new(&opt->shape, &d->ledger);
    if (st < 0) goto undo;
    st = ops->init ? ops->init(d->policy_state, arg, opt->seed) : ZICO_OK;
    if (st < 0) goto undo;
    d->view = (zi_view){.region_bytes = opt->shape.region_bytes,
                        .n_cores = opt->n_cores,
                        .job = d->job};
    zi_desk_refresh(d);
    *ret_desk = d;
    return ZICO_OK;

undo:
    zi_desk_free(d);
    return st;
}

static void
free_row(zi_desk_row *j)
{
    zi_free(j->learner);
    zi_tide_recorder_free(j->rec);
    *j = (zi_desk_row){0};
}

void
zi_desk_free(zi_desk *d)
{
    if (!d) return;
    for (size_t i = 0; d->row && i < ZI_LEDGER_JOBS_MAX; i++)
        if (d->row[i].live) free_row(&d->row[i]);
    zi_ledger_free(d->ledger);
    zi_free(d->row);
    zi_free(d->job);
    zi_free(d->policy_state);
    zi_free(d->effect);
    zi_free(d->runs);
    zi_free(d);
}

/* -- joining ------------------------------------------------------------------------------ */

static void
fill_view(zi_desk *d, zi_job_id job, const zi_job_spec *spec)
{
    zi_job_view *v = &d->job[d->n_jobs];

    *v = (zi_job_view){
        .id = job,
        .joined_ns = d->now_ns,
        .weight_milli = spec->weight_milli ? spec->weight_milli : 1000,
        .limits = spec->limits,
        .repeats = true,
        .shape = spec->shape,
        .steps_total = spec->steps_total,
        .latency_ns = spec->latency_ns,
        .core_mode = spec->core_mode,
        .cores = spec->core_mode == ZI_CORES_FOLLOW || spec->cores == 0 ? d->n_cores
                                                                        : spec->cores,
        .can_suspend = (spec->features & ZI_FEATURE_SUSPEND) != 0,
        .can_shrink = (spec->features & ZI_FEATURE_SHRINK) != 0,
        .native = (spec->features & ZI_FEATURE_NATIVE) != 0,
        .told_in_step = (spec->features & (ZI_FEATURE_NATIVE | ZI_FEATURE_CORES)) != 0,
        .steady = (spec->features & (ZI_FEATURE_NATIVE | ZI_FEATURE_STEADY)) != 0,
        .has_steps = (spec->features & ZI_FEATURE_STEPS) != 0,
    };
    if (v->core_mode == ZI_CORES_OWN && spec->cores == 0) v->cores = 1;
    if (v->cores > d->n_cores) v->cores = d->n_cores;
    d->row[job].at = d->n_jobs++;
}

/* A stored tide of the same shape: the first step need not be alone. */
static void
use_known_tide(zi_desk *d, zi_job_id job, const zi_tide *known)
{
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);

    if (!known || known->n_points == 0 || zi_tide_verify(known) < 0) return;
    j->learner->tide = *known;
    j->worst_bytes = known->peak_bytes;
    v->tide = &j->learner->tide;
    v->solo_step_ns = known->length_ns;
}

static zico_status
open_row(zi_desk *d, zi_job_id job, const zi_job_spec *spec)
{
    zi_desk_row *j = &d->row[job];

    *j = (zi_desk_row){.spec = *spec,
                       .wait_since_ns = ZI_NEVER,
                       .lane = -1,
                       .maker = ZI_JOB_NONE};
    j->spec.known_tide = NULL;
    j->learner = zi_calloc(1, sizeof *j->learner);
    if (!j->learner || zi_tide_recorder_new(&j->rec) < 0) {
        free_row(j);
        return ZICO_E_NOMEM;
    }
    j->live = true;
    zi_desk_pace_new(j);
    fill_view(d, job, spec);
    use_known_tide(d, job, spec->known_tide);
    zi_desk_set_state(d, job);
    return ZICO_OK;
}

/* Guarantees given or waiting to be given, but for one job's. */
static uint64_t
guaranteed_to_others(const zi_desk *d, zi_job_id but)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_desk_row *j = &d->row[d->job[i].id];
        if (d->job[i].id == but) continue;
        sum += j->limits_wait ? j->limits_next.min_bytes : d->job[i].limits.min_bytes;
    }
    return sum;
}

zico_status
zi_desk_join(zi_desk *d, const zi_job_spec *spec, uint64_t now_ns, zi_job_id *ret_job)
{
    zi_job_id     job;
    zico_status   st;
    zi_job_limits first = {.max_bytes = spec->limits.max_bytes};
    uint64_t      max = spec->limits.max_bytes, min = spec->limits.min_bytes;

    zi_desk_now(d, now_ns);
    zi_desk_refresh(d);
    if (spec->claim_bytes > d->target_bytes || min > d->target_bytes)
        return ZICO_E_BUDGET; /* D6 */
    if (max && (spec->claim_bytes > max || min > max)) return ZICO_E_BUDGET;
    if (guaranteed_to_others(d, ZI_JOB_NONE) > d->target_bytes - min)
        return ZICO_E_BUDGET;
    st = zi_ledger_join(d->ledger, &first, &job);
    if (st < 0) return st;
    st = open_row(d, job, spec);
    if (st < 0) {
        (void)zi_ledger_leave(d->ledger, job);
        return st;
    }
    d->row[job].limits_wait =
        min > 0; /* given as soon as nobody else needs it to finish */
    d->row[job].limits_next = spec->limits;
    zi_desk_post(d, ZI_EVENT_JOIN, job, 0, 0);
    zi_desk_settle(d);
    *ret_job = job;
    return ZICO_OK;
}

static void
close_row(zi_desk *d, zi_job_id job)
{
    size_t at = d->row[job].at;

    d->n_jobs--;
    memmove(&d->job[at], &d->job[at + 1], (d->n_jobs - at) * sizeof *d->job);
    for (size_t i = at; i < d->n_jobs; i++) d->row[d->job[i].id].at = i;
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (j->policy_behind == job) j->policy_behind = ZI_JOB_NONE;
        if (j->maker == job) j->maker = ZI_JOB_NONE;
    }
    free_row(&d->row[job]);
}

void
zi_desk_set_maker(zi_desk *d, zi_job_id job, zi_job_id maker)
{
    zi_assert(zi_desk_is_live(d, job) && zi_desk_is_live(d, maker) && job != maker);
    d->row[job].maker = maker;
}

zico_status
zi_desk_leave(zi_desk *d, zi_job_id job, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);

    zi_desk_now(d, now_ns);
    (void)zi_ledger_leave(d->ledger, job);
    memset(j->wait, 0, sizeof j->wait);
    j->n_waits = 0;
    j->in_step = j->asked = j->live = false;
    j->raise_seq = 0;
    v->state = ZI_JOB_GONE;
    v->fixed_bytes = v->step_bytes = 0;

    zi_desk_refresh(d);
    d->out.n = 0;
    d->policy->on_event(
        d->policy_state, &d->view,
        &(zi_event){.kind = ZI_EVENT_LEAVE, .now_ns = now_ns, .job = j->at}, &d->out);
    close_row(d, job); /* answers speak of places that moved: it is asked again below */
    zi_desk_post(d, ZI_EVENT_REGION, ZI_JOB_NONE, -1, 0);
    zi_desk_settle(d);
    return ZICO_OK;
}

void
zi_desk_explain(const zi_desk *d, char *ret_text, size_t size)
{
    ret_text[0] = 0;
    if (d->policy->explain) d->policy->explain(d->policy_state, ret_text, size);
}

/* -- what people want --------------------------------------------------------------------- */

zico_status
zi_desk_set_budget(zi_desk *d, uint64_t budget_bytes, uint64_t now_ns)
{
    zi_desk_now(d, now_ns);
    zico_status st = zi_desk_reserve(d);
    if (st < 0) return st;
    zi_desk_refresh(d);
    uint64_t keep = d->budget_bytes - zi_desk_slack(d);
    if (d->n_in_step == 0) keep = 0;
    if (budget_bytes < guaranteed_to_others(d, ZI_JOB_NONE)) return ZICO_E_BUDGET;
    st = zi_ledger_set_budget(d->ledger, budget_bytes, keep, &d->grant);
    if (st < 0) return st;
    zi_desk_emit_punches(d);
    zi_desk_post(d, ZI_EVENT_BUDGET, ZI_JOB_NONE, 0, budget_bytes);
    zi_desk_settle(d);
    return st;
}

/* May the new limits hold now?  A step under way was promised its claim: a lower max waits
 * for its end, a higher minimum until all steps can finish without it. */
static bool
limits_may_hold(zi_desk *d, zi_job_id job, const zi_job_limits *limits)
{
    const zi_desk_row *j = &d->row[job];
    const zi_job_view *v = zi_desk_view_of(d, job);
    uint64_t           base = v->fixed_bytes + (j->in_step ? 0 : v->step_bytes);
    uint64_t           old_min = v->limits.min_bytes > base ? v->limits.min_bytes : base;
    uint64_t           new_min = limits->min_bytes > base ? limits->min_bytes : base;

    if (j->in_step && limits->max_bytes &&
        (v->limits.max_bytes == 0 || limits->max_bytes < v->limits.max_bytes))
        return false;
    if (new_min <= old_min) return true;
    return zi_desk_may_lose(d, new_min - old_min) &&
           d->permanent_bytes + (new_min - old_min) + d->need_most_bytes <=
               d->target_bytes;
}

bool
zi_desk_apply_limits(zi_desk *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_desk_row *j = &d->row[d->job[i].id];
        if (!j->limits_wait || !limits_may_hold(d, d->job[i].id, &j->limits_next))
            continue;
        if (zi_ledger_set_limits(d->ledger, d->job[i].id, &j->limits_next) < 0) continue;
        j->limits_wait = false;
        any = true;
        zi_desk_refresh(d);
    }
    return any;
}

zico_status
zi_desk_set_limits(zi_desk *d, zi_job_id job, const zi_job_limits *limits,
                   uint32_t weight_milli, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];

    zi_desk_now(d, now_ns);
    zi_desk_refresh(d);
    if (limits->max_bytes && limits->min_bytes > limits->max_bytes) return ZICO_E_BUDGET;
    if (limits->min_bytes > d->target_bytes ||
        guaranteed_to_others(d, job) > d->target_bytes - limits->min_bytes)
        return ZICO_E_BUDGET;
    j->limits_wait = true;
    j->limits_next = *limits;
    if (weight_milli) zi_desk_view_of(d, job)->weight_milli = weight_milli;
    zi_desk_post(d, ZI_EVENT_BUDGET, job, 0, 0);
    zi_desk_settle(d);
    const zi_job_view *v = zi_desk_view_of(d, job);
    bool above = limits->max_bytes && v->fixed_bytes + v->step_bytes > limits->max_bytes;
    return j->limits_wait || above ? ZICO_PENDING : ZICO_OK;
}

zico_status
zi_desk_control(zi_desk *d, zi_job_id job, zi_control verb, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];

    zi_desk_now(d, now_ns);
    switch (verb) {
    case ZI_CONTROL_PAUSE:
        if (!j->paused && !j->leaving && !j->suspended) j->kept_ns = now_ns;
        j->paused = true;
        break;
    case ZI_CONTROL_SUSPEND:
        if (!zi_desk_view_of(d, job)->can_suspend) return ZICO_E_UNSUPPORTED;
        j->paused = true;
        zi_desk_suspend(d, job);
        break;
    case ZI_CONTROL_RESUME:
        j->paused = false;
        if (j->leaving || j->suspend_wanted)
            j->by_ladder = true; /* on its way out: let back as soon as it can be */
        zi_desk_resume(d, job);
        break;
    default:
        return ZICO_E_ARG;
    }
    zi_desk_set_state(d, job);
    zi_desk_post(d, ZI_EVENT_BUDGET, job, 0, 0);
    zi_desk_settle(d);
    return ZICO_OK;
}

/* -- a restart ---------------------------------------------------------------------------- */

zico_status
zi_desk_adopt(zi_desk *d, zi_job_id job, const zi_job_spec *spec, bool in_step,
              uint64_t step_no, uint64_t now_ns)
{
    zico_status st;

    zi_desk_now(d, now_ns);
    d->fresh = false;
    if (job >= ZI_LEDGER_JOBS_MAX) return ZICO_E_ARG;
    st = zi_ledger_adopt_job(d->ledger, job, &spec->limits);
    if (st < 0) return st;
    st = open_row(d, job, spec);
    if (st < 0) {
        (void)zi_ledger_leave(d->ledger, job);
        return st;
    }
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);
    v->step_no = step_no;
    v->began_ns = v->last_region_ns = now_ns;
    j->in_step = in_step;
    j->adopted = true;
    j->kept_ns = now_ns;
    if (in_step) j->step_claim_bytes = spec->step_claim_bytes;
    zi_tide_recorder_begin(j->rec, 0);
    zi_desk_set_state(d, job);
    zi_desk_post(d, ZI_EVENT_JOIN, job, 0, 0);
    return ZICO_OK;
}

/* Claims of steps that were under way: what is known, else what it holds; from there on
 * each request is a raise that the banker judges. */
static void
claim_for_adopted(zi_desk *d)
{
    zi_desk_refresh(d);
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_job_view *v = &d->job[i];
        zi_desk_row *j = &d->row[v->id];
        if (!j->in_step || j->step_claim_bytes) continue;
        uint64_t need = zi_desk_need(d, j);
        j->step_claim_bytes = need > v->step_bytes ? need : v->step_bytes;
        j->step_peak_bytes = v->step_bytes;
    }
    zi_desk_refresh(d);
}

void
zi_desk_hold(zi_desk *d, bool hold, uint64_t now_ns)
{
    zi_desk_now(d, now_ns);
    if (d->hold && !hold) claim_for_adopted(d);
    d->hold = hold;
    zi_desk_post(d, ZI_EVENT_BUDGET, ZI_JOB_NONE, 0, 0);
    zi_desk_settle(d);
}

/* -- looking ------------------------------------------------------------------------------ */

zi_ledger *
zi_desk_ledger(zi_desk *d)
{
    d->fresh = false; /* whoever asks may change it */
    return d->ledger;
}

const zi_view *
zi_desk_view(zi_desk *d)
{
    zi_desk_refresh(d);
    return &d->view;
}

const zi_job_view *
zi_desk_job(zi_desk *d, zi_job_id job)
{
    if (!zi_desk_is_live(d, job)) return NULL;
    zi_desk_refresh(d);
    return zi_desk_view_of(d, job);
}

static void
waiting_for_memory(zi_desk *d, const zi_desk_row *j, zi_waiting *w)
{
    for (unsigned i = 0; i < ZI_LEDGER_REQS_PER_JOB; i++) {
        const zi_desk_wait *one = &j->wait[i];
        const zi_request   *req = one->id ? zi_ledger_find(d->ledger, one->id) : NULL;
        if (!req || (w->reason != ZI_REASON_NONE && req->arrived_ns >= w->since_ns))
            continue;
        w->reason = one->reason;
        w->behind = one->behind;
        w->position = one->position;
        w->asked_bytes = req->size_bytes;
        w->since_ns = req->arrived_ns;
    }
}

void
zi_desk_waiting(zi_desk *d, zi_job_id job, zi_waiting *ret_waiting)
{
    *ret_waiting = (zi_waiting){.behind = ZI_JOB_NONE, .lane = -1};
    if (!zi_desk_is_live(d, job)) return;
    const zi_desk_row *j = &d->row[job];
    zi_waiting        *w = ret_waiting;

    if (j->raise_seq) {
        w->reason = j->raise_wait.reason;
        w->behind = j->raise_wait.behind;
        w->asked_bytes = j->raise_bytes;
        w->since_ns = j->raise_ns;
    }
    waiting_for_memory(d, j, w);
    if (w->reason == ZI_REASON_NONE && j->asked) {
        const zi_job_view *v = zi_desk_view_of(d, job);
        w->reason = j->step_wait.reason;
        w->behind = j->step_wait.behind;
        bool small = w->reason == ZI_REASON_LIMIT || w->reason == ZI_REASON_ADMISSION;
        w->asked_bytes = small ? zi_desk_need(d, j) : v->claim_bytes;
        w->since_ns = v->asked_ns;
    } else if (w->reason == ZI_REASON_NONE && !j->in_step) {
        w->reason = j->leaving || j->suspended ? ZI_REASON_SUSPENDED
                    : j->paused                ? ZI_REASON_PAUSED
                                               : ZI_REASON_NONE;
        w->since_ns = j->kept_ns;
    }
    w->waited_ns = j->waited_ns;
    if (j->wait_since_ns != ZI_NEVER && d->now_ns > j->wait_since_ns)
        w->waited_ns += d->now_ns - j->wait_since_ns;
    w->exchanged_bytes = j->exchanged_bytes;
    w->lane = j->lane;
}

/* 1..7: the ledger's.  8: views differ from the ledger.  9: somebody waits without a reason.
 * 10: jobs within their claims could not all finish, and nobody is beyond its claim. */
zico_status
zi_desk_verify(zi_desk *d, int *ret_invariant)
{
    int         broken = 0;
    zico_status st = zi_ledger_verify(d->ledger, &broken);
    bool        somebody_stuck = d->hold;

    if (!zi_desk_is_as_marked(d)) broken = 8;
    for (size_t i = 0; st == ZICO_OK && i < d->n_jobs; i++) {
        const zi_job_view   *v = &d->job[i];
        const zi_desk_row   *j = &d->row[v->id];
        const zi_ledger_job *l = zi_ledger_job_of(d->ledger, v->id);
        somebody_stuck |= zi_desk_is_stuck(d, v->id);
        if (!j->live || j->at != i || !l || (j->in_step && j->asked) ||
            (j->in_step && v->step_bytes > j->step_claim_bytes && !d->hold))
            broken = 8;
        if (j->asked && j->step_wait.reason == ZI_REASON_NONE) broken = 9;
        for (unsigned k = 0; k < ZI_LEDGER_REQS_PER_JOB; k++)
            if (j->wait[k].id && j->wait[k].reason == ZI_REASON_NONE) broken = 9;
    }
    if (st == ZICO_OK && broken == 0 && !somebody_stuck && !zi_desk_table(d)->safe)
        broken = 10;
    if (broken && ret_invariant) *ret_invariant = broken;
    return broken ? ZICO_E_CORRUPT : ZICO_OK;
}

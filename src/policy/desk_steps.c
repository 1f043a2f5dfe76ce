/* desk_steps.c -- a job's steps, from asking to what was learnt.
 *
 *              zi_desk_step_ask          zi_desk_go             zi_desk_step_end
 *     IDLE ----------------------> ASKING ---------> RUNNING ----------------------> IDLE
 *       \                            | pause, resume    |
 *        \ suspend                   v                  | suspend: at the end of the step
 *         ----> LEAVING_MEMORY     PAUSED               v
 *                  | zi_desk_suspended            LEAVING_MEMORY ...
 *                  v
 *              SUSPENDED -- resume --> IDLE or ASKING, as it was
 *
 * LEARNING  A job about which nothing is known runs its first step alone, a command (unless it says
 *           that its steps repeat) until four in a row held no more than was known: while it
 *           asks, nobody else begins; when all steps have ended the desk starts it itself, with all
 *           cores, whatever the policy says.  One at a time, oldest first; not beside a job that
 *           has a part of what stays with it and waits for the rest.
 */
#include "policy/desk_private.h"

#include "base/check.h"

#define FORESEEN_STEPS 4u /* from then on a step that differs counts as mispredicted */
#define LONG_STALL     4u /* of a step: less is no harm, the others had its core meanwhile */

void
zi_desk_set_state(zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];
    zi_job_view       *v = zi_desk_view_of(d, job);

    v->by_hand = j->paused;
    v->state = j->in_step     ? ZI_JOB_RUNNING
               : j->leaving   ? ZI_JOB_LEAVING_MEMORY
               : j->suspended ? ZI_JOB_SUSPENDED
               : j->paused    ? ZI_JOB_PAUSED
               : j->asked     ? ZI_JOB_ASKING
               : v->has_steps ? ZI_JOB_IDLE
                              : ZI_JOB_FREE;
}

void
zi_desk_note_wait(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];
    bool         waits = j->asked || j->raise_seq || j->n_waits;

    if (waits && j->wait_since_ns == ZI_NEVER) {
        j->wait_since_ns = d->now_ns;
    } else if (!waits && j->wait_since_ns != ZI_NEVER) {
        j->waited_ns += d->now_ns - j->wait_since_ns;
        j->wait_since_ns = ZI_NEVER;
    }
}

/* -- may it go? --------------------------------------------------------------------------- */

/* Who has leased a part of what stays with it and waits for the rest, so that it cannot be moved out.
 * One that comes back holds nothing that it could not do without again. */
static zi_job_id
somebody_loading(const zi_desk *d, zi_job_id but)
{
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view   *v = &d->job[i];
        const zi_desk_row   *j = &d->row[v->id];
        const zi_ledger_job *l = zi_ledger_job_of(d->ledger, v->id);
        if (v->id != but && v->native && !j->in_step && !j->returning && l->n_fixed > 0 &&
            zi_desk_waits_for_memory(d, j))
            return v->id;
    }
    return ZI_JOB_NONE;
}

#define LEAD_PART 32u

/* What a step surely needs of the worst that was seen.  A native job issues ahead of its kernels
 * and holds more the more there is; where memory is short it waits for its own returns.  Of one
 * that was never seen: a region, as long as others hold any and its own maximum allows it, for
 * with none it would be stuck at its first request while others wait for it. */
static uint64_t
least_need(const zi_desk *d, zi_job_id job)
{
    const zi_job_view *v = &d->job[d->row[job].at];
    const zi_desk_row *j = &d->row[job];
    uint64_t           unit = d->view.region_bytes, max = v->limits.max_bytes;
    uint64_t           worst =
        j->worst_bytes > j->aside_bytes ? j->worst_bytes - j->aside_bytes : 0;

    if (j->worst_bytes == 0 && v->native && !zi_desk_has_all(d, job) &&
        (!max || v->fixed_bytes + unit <= max))
        return unit;
    return v->native && d->n_in_step == 0 ? worst - worst / LEAD_PART : worst;
}

/* With what stays with the others, whoever's step ends? */
static bool
has_room(const zi_desk *d, zi_job_id job)
{
    return least_need(d, job) <= zi_desk_room(d, job);
}

/* What a first step takes is not known.  It must not begin beside a job that could not make room
 * for it: such a one is loaded first, and this one moves out for it if need be. */
static zi_reason
learning_gate(zi_desk *d, zi_job_id job, zi_job_id *behind)
{
    if (d->learner_in_step != ZI_JOB_NONE) {
        *behind = d->learner_in_step;
        return ZI_REASON_LEARNING;
    }
    if (zi_desk_is_learning(&d->row[job])) {
        *behind = d->hung != ZI_JOB_NONE ? d->hung : d->biggest;
        if (d->n_in_step > 0)
            return d->hung != ZI_JOB_NONE ? ZI_REASON_HANG : ZI_REASON_LEARNING;
        *behind =
            d->job[d->row[job].at].can_suspend ? somebody_loading(d, job) : ZI_JOB_NONE;
        if (*behind != ZI_JOB_NONE) return ZI_REASON_MEMORY;
    } else if (d->learner_asking != ZI_JOB_NONE && d->hung == ZI_JOB_NONE &&
               has_room(d, d->learner_asking)) {
        *behind = d->learner_asking; /* unless somebody hangs: that could last */
        return ZI_REASON_LEARNING;
    }
    return ZI_REASON_NONE;
}

/* It would not fit if all others stood still: is it others' memory, or its own maximum, which
 * people have set below what it needs? */
static zi_reason
too_small(const zi_desk *d, zi_job_id job, zi_job_id *ret_behind)
{
    const zi_job_view *v = &d->job[d->row[job].at];
    uint64_t           max = v->limits.max_bytes;

    if (!max || v->fixed_bytes + least_need(d, job) <= max) return ZI_REASON_ADMISSION;
    *ret_behind = ZI_JOB_NONE;
    return ZI_REASON_LIMIT;
}

zi_reason
zi_desk_may_go(zi_desk *d, zi_job_id job, zi_job_id *ret_behind)
{
    const zi_desk_row *j = &d->row[job];

    *ret_behind = ZI_JOB_NONE;
    if (d->hold) return ZI_REASON_REJOIN;
    if (j->leaving || j->suspended) return ZI_REASON_SUSPENDED;
    if (j->paused) return ZI_REASON_PAUSED;
    zi_reason learning = learning_gate(d, job, ret_behind);
    if (learning != ZI_REASON_NONE) return learning;
    *ret_behind = d->biggest;
    if (d->budget_bytes > d->target_bytes) /* being lowered; to below what stays? */
        return d->permanent_bytes > d->target_bytes ? ZI_REASON_ADMISSION
                                                    : ZI_REASON_MEMORY;
    if (d->aged != ZI_JOB_NONE && d->aged != job) {
        *ret_behind = d->aged;
        return ZI_REASON_QUEUE;
    }
    if (!has_room(d, job)) {
        /* a command beside nobody goes all the same: it fits, or is told so where it does not */
        zi_reason small = too_small(d, job, ret_behind);
        bool      try = !d->job[j->at].native && d->n_in_step == 0 &&
                   small == ZI_REASON_ADMISSION && zi_desk_has_all(d, job);
        if (!try) return small;
    }
    if (!zi_desk_may_start(d, job)) return ZI_REASON_UNSAFE;
    *ret_behind = ZI_JOB_NONE;
    return ZI_REASON_NONE;
}

bool
zi_desk_go(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);
    zi_job_id    behind;

    if (!j->asked || zi_desk_may_go(d, job, &behind) != ZI_REASON_NONE) return false;
    zi_desk_place(d, v);
    if (zi_desk_reserve(d) < 0) return false;

    for (size_t i = 0; i < d->n_jobs; i++) d->row[d->job[i].id].alone = false;
    j->alone = d->n_in_step == 0;
    j->adopted = j->returning = false;
    j->all_cores = v->cores >= d->n_cores;
    j->step_claim_bytes = zi_desk_claim(d, job);
    j->sunk = false;
    j->step_peak_bytes = v->step_bytes;
    j->step_most_bytes = v->fixed_bytes + v->step_bytes;
    j->in_step = true;
    j->asked = false;
    j->step_wait = (zi_desk_wait){0};
    j->policy_reason = ZI_REASON_NONE;
    v->began_ns = d->now_ns;
    v->taken_bytes = v->step_bytes; /* as the recorder counts it */
    v->returned_bytes = 0;
    v->last_region_ns = d->now_ns;
    zi_desk_pace_begin(j, v);
    zi_desk_set_above(d, job);
    zi_tide_recorder_begin(j->rec, 0);
    if (v->step_bytes) zi_tide_recorder_add(j->rec, 0, (int64_t)v->step_bytes);
    zi_desk_set_state(d, job);
    zi_desk_note_wait(d, job);
    j->step_waited_ns = j->waited_ns;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_GO,
                              .job = job,
                              .seq = j->step_seq,
                              .behind = ZI_JOB_NONE,
                              .value = v->cores,
                              .first_core = j->first_core},
                 NULL);
    zi_desk_post(d, ZI_EVENT_STEP_BEGAN, job, 0, 0);
    zi_desk_refresh(d);
    return true;
}

static bool
go_with_all_cores(zi_desk *d, zi_job_id job)
{
    zi_job_view *v = zi_desk_view_of(d, job);
    if (v->core_mode == ZI_CORES_FOLLOW && d->n_in_step == 0) v->cores = d->n_cores;
    return zi_desk_go(d, job);
}

bool
zi_desk_go_unasked(zi_desk *d)
{
    zi_job_id oldest = ZI_JOB_NONE;

    if (d->n_in_step > 0) return false;
    if (d->learner_asking != ZI_JOB_NONE && go_with_all_cores(d, d->learner_asking))
        return true;
    if (d->policy_wake_ns != ZI_NEVER)
        return false; /* the policy has something in mind */
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        zi_job_id          behind;
        if (v->state != ZI_JOB_ASKING ||
            zi_desk_may_go(d, v->id, &behind) != ZI_REASON_NONE)
            continue;
        if (oldest == ZI_JOB_NONE || v->asked_ns < zi_desk_view_of(d, oldest)->asked_ns)
            oldest = v->id;
    }
    return oldest != ZI_JOB_NONE && go_with_all_cores(d, oldest);
}

/* -- the calls ---------------------------------------------------------------------------- */

zico_status
zi_desk_step_ask(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t step_no,
                 uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);

    zi_desk_now(d, now_ns);
    if (j->in_step || j->asked) return ZICO_E_STATE;
    zico_status st = zi_desk_reserve(d);
    if (st < 0) return st;
    zi_desk_refresh(d);
    uint64_t most =
        d->target_bytes > v->fixed_bytes ? d->target_bytes - v->fixed_bytes : 0;
    if (most == 0 && v->step_no == 0) { /* D6: its fixed memory alone fills the budget */
        zi_desk_deny(d, job, seq, ZICO_E_BUDGET, zi_desk_need(d, j), most, ZI_HOLD_STEP);
        return ZICO_OK;
    }
    j->asked = true;
    j->step_seq = seq;
    v->has_steps = true;
    v->step_no = step_no;
    v->asked_ns = now_ns;
    j->step_wait = (zi_desk_wait){.id = 1};
    j->policy_reason = ZI_REASON_NONE;
    zi_desk_set_state(d, job);
    zi_desk_note_wait(d, job);
    zi_desk_post(d, ZI_EVENT_STEP_ASK, job, 0, 0);
    zi_desk_settle(d);
    return ZICO_OK;
}

/* A job reports tensors; what counts against the budget are the regions that held them. */
static void
scale_to_leases(zi_tide *t, uint64_t leased_peak)
{
    double  scale;
    int64_t true_height = 0, height = 0;

    if (t->peak_bytes == 0 || leased_peak <= t->peak_bytes) return;
    scale = (double)leased_peak / (double)t->peak_bytes;
    t->peak_bytes = t->end_bytes = 0;
    for (uint32_t i = 0; i < t->n_points; i++) {
        true_height += t->point[i].delta_bytes;
        int64_t next = (int64_t)((double)true_height * scale);
        t->point[i].delta_bytes = next - height;
        height = next;
        if ((uint64_t)height > t->peak_bytes) t->peak_bytes = (uint64_t)height;
    }
    t->end_bytes = (uint64_t)height;
}

/* Time alone may stretch as others come and go; what was not foreseen are bytes, and having to
 * wait for them in mid-step.  A job's first steps differ (buffers made on demand): nothing was
 * foreseen of them yet. */
static bool
went_as_foreseen(const zi_desk *d, const zi_desk_row *j, const zi_job_view *v)
{
    const zi_tide *t = &j->learner->tide;
    if (t->n_seen < FORESEEN_STEPS) return true;
    if (j->step_peak_bytes >
        t->peak_bytes + t->peak_bytes / 16 + 2 * d->view.region_bytes)
        return false;
    return v->stall_ns <= v->last_step_ns / LONG_STALL;
}

/* Did it hold more than ever before? */
static void
note_growth(const zi_desk *d, zi_desk_row *j)
{
    uint64_t known = j->most_bytes + j->most_bytes / 32 + 2 * d->view.region_bytes;

    j->n_usual = j->step_most_bytes > known ? 0 : j->n_usual + 1;
    if (j->step_most_bytes > j->most_bytes) j->most_bytes = j->step_most_bytes;
}

#define UNLEARNT_MAX 4u

/* What the step taught: tide, worst case, whether it went as foreseen. */
static void
learn(zi_desk *d, zi_job_id job, const zi_tide *observed)
{
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);
    zi_tide      tide = *observed;
    bool         stalled = v->stall_ns > v->last_step_ns / 20;

    scale_to_leases(&tide, j->step_peak_bytes);
    bool           foreseen = went_as_foreseen(d, j, v);
    zi_tide_change change = ZI_TIDE_OUTLIER;
    if (stalled && j->learner->tide.n_points && j->n_unlearnt < UNLEARNT_MAX) {
        j->n_unlearnt++; /* its shape is our doing */
    } else {
        j->n_unlearnt = 0;
        change = zi_tide_learn(j->learner, &tide);
    }

    if (change == ZI_TIDE_NEW) /* two steps agree: the worst case is theirs */
        j->worst_bytes = j->last_peak_bytes;
    if (j->step_peak_bytes > j->worst_bytes) j->worst_bytes = j->step_peak_bytes;
    if (j->worst_bytes == 0) j->worst_bytes = d->view.region_bytes;
    j->last_peak_bytes = j->step_peak_bytes;
    if (!foreseen) v->n_mispredicted++;
    v->tide = &j->learner->tide;
    v->repeats = zi_tide_repeats(j->learner) != 0;
}

#define SOLO_NS    1.6e9 /* over which a step's length is averaged */
#define SOLO_STEPS 16u   /* after which it is known as well as others' are */

/* How much of what a step took goes into its job's average: after so much time alone all jobs' have
 * followed the machine as far, however long their steps are. */
static double
part_of(uint64_t step_ns)
{
    double part = (double)step_ns / SOLO_NS;
    return part < 0.5 ? part : 0.5;
}

/* A step's length alone with all cores: an average over such steps, as the least of them would be
 * too short by more the more they vary, and shares are reckoned by it.  A machine is faster at one
 * time than at another, and shares must not depend on when each job happened to be alone: so after
 * a job's first steps only those count that are made while all take turns.  Of the first ones one
 * that is much shorter counts at once (they are slow), and so does a shorter one beside others,
 * which proves it.  An odd one (the machine was busy with something else) counts no more than if it
 * had been half as long again. */
static void
note_length(zi_desk *d, zi_desk_row *j, zi_job_view *v, uint64_t busy_ns)
{
    uint64_t wall = d->now_ns - v->began_ns;
    uint64_t net = wall > v->stall_ns ? wall - v->stall_ns : 0, solo = v->solo_step_ns;
    bool     first = j->n_measured < SOLO_STEPS, counts = j->alone && j->all_cores;

    v->last_step_ns = wall;
    v->served_ns += busy_ns ? busy_ns : net;
    d->n_in_turn = j->alone ? d->n_in_turn + 1 : 0;
    if (!first && d->n_in_turn < d->n_jobs) return;
    if (counts && first) j->n_measured++;
    if (first && net < (counts ? solo - solo / 10 : solo)) {
        v->solo_step_ns = net;
    } else if (counts && net < solo) {
        v->solo_step_ns = solo - (uint64_t)((double)(solo - net) * part_of(net));
    } else if (counts) {
        uint64_t more = net - solo < solo / 2 ? net - solo : solo / 2;
        v->solo_step_ns = solo ? solo + (uint64_t)((double)more * part_of(net)) : net;
    }
}

/* Its steps are others from now on. */
static void
forget_steps(zi_desk_row *j, zi_job_view *v, uint64_t step_bytes)
{
    *j->learner = (zi_tide_learner){0};
    j->n_unlearnt = 0;
    j->worst_bytes = j->last_peak_bytes = step_bytes;
    v->tide = NULL;
    v->repeats = false;
}

zico_status
zi_desk_planned(zi_desk *d, zi_job_id job, const zi_job_plan *plan, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job) || plan->step_bytes == 0) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);
    uint64_t     before = v->plan_bytes ? v->plan_bytes : plan->full_bytes;

    if (j->in_step) return ZICO_E_STATE;
    zi_desk_now(d, now_ns);
    if (plan->step_bytes != before || plan->step_bytes > j->worst_bytes)
        forget_steps(j, v, plan->step_bytes);
    v->plan_bytes = plan->step_bytes;
    if (plan->full_bytes) {
        v->shrink_asked = false;
        v->full_bytes = plan->full_bytes;
        v->cost_milli = plan->cost_milli;
    }
    zi_desk_refresh(d);
    zi_desk_post(d, ZI_EVENT_PLANNED, job, 0, plan->step_bytes);
    zi_desk_settle(d);
    return ZICO_OK;
}

void
zi_desk_shrink(zi_desk *d, zi_job_id job, uint64_t step_bytes, uint64_t cost_milli)
{
    zi_job_view *v = zi_desk_view_of(d, job);

    if (!v->can_shrink || v->shrink_bytes == step_bytes || zi_desk_reserve(d) < 0) return;
    v->shrink_bytes = step_bytes;
    v->shrink_asked = true;
    v->shrink_asked_ns = d->now_ns;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_SHRINK,
                              .job = job,
                              .behind = ZI_JOB_NONE,
                              .value = step_bytes,
                              .cost_milli = cost_milli < UINT32_MAX ? (uint32_t)cost_milli
                                                                    : UINT32_MAX},
                 NULL);
}

/* What it held of a step when it was moved out is gone with the rest of that step.  If that was broken
 * off, too, some of it is still there; after a whole rest what is left outlives steps. */
static void
note_rest(zi_desk_row *j, const zi_job_view *v)
{
    uint64_t more = v->fixed_bytes > j->usual_bytes ? v->fixed_bytes - j->usual_bytes : 0;
    if (!j->broken_off) more = 0;
    if (j->aside_bytes > more) j->aside_bytes = more;
    j->broken_off = false;
}

/* The step is over: the policy hears of it. */
static void
leave_step(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];

    zi_desk_note_kept(j);
    j->in_step = false;
    uint64_t left = zi_desk_view_of(d, job)->step_bytes / d->view.region_bytes;
    if (j->n_ahead > left)
        j->n_ahead = (uint32_t)left; /* what is still there can be recalled */
    if (j->suspend_wanted) {
        j->suspend_wanted = false;
        j->leaving = true;
    }
    zi_desk_set_state(d, job);
    zi_desk_post(d, ZI_EVENT_STEP_END, job, 0, 0);
}

void
zi_desk_undo_step(zi_desk *d, zi_job_id job)
{
    zi_job_view *v = zi_desk_view_of(d, job);
    zi_tide      none;

    zi_desk_refresh(d);
    v->stall_ns = 0;
    v->last_step_ns = d->now_ns - v->began_ns;
    zi_tide_recorder_end(d->row[job].rec, 0, &none); /* teaches nothing */
    leave_step(d, job);
}

zico_status
zi_desk_step_end(zi_desk *d, zi_job_id job, uint64_t step_no, const zi_tide *observed,
                 uint64_t busy_ns, uint64_t stall_ns, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = zi_desk_view_of(d, job);
    zi_tide      own;

    zi_desk_now(d, now_ns);
    if (!j->in_step) return ZICO_E_STATE;
    if (observed && zi_tide_verify(observed) < 0) return ZICO_E_ARG;
    zi_desk_refresh(d);
    /* a job cannot tell a wait for memory from a slow answer; we know what we kept waiting */
    uint64_t queued_ns = j->waited_ns - j->step_waited_ns;
    v->stall_ns = stall_ns < queued_ns ? stall_ns : queued_ns;
    zi_tide_recorder_end(j->rec, v->clock_ns, &own);
    v->step_no = step_no;
    if (j->broken_off || j->aside_bytes) { /* a part of a step teaches nothing */
        v->last_step_ns = now_ns - v->began_ns;
        v->served_ns += busy_ns;
        note_rest(j, v);
    } else {
        zi_desk_pace_end(j, v);
        note_length(d, j, v, busy_ns);
        bool whole =
            own.n_points > 0 && !j->adopted; /* what counts are leases: our own record */
        learn(d, job, whole || !observed || observed->n_points == 0 ? &own : observed);
        note_growth(d, j);
    }
    leave_step(d, job);
    zi_desk_settle(d);
    return ZICO_OK;
}

/* -- out and in --------------------------------------------------------------------------- */

/* A person wanted the memory, not another job: the machine gets it. */
static void
give_pages_back(zi_desk *d)
{
    if (zi_desk_reserve(d) < 0 || zi_ledger_cool(d->ledger, &d->grant) < 0) return;
    zi_desk_emit_punches(d);
}

void
zi_desk_suspend(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];

    if (!zi_desk_view_of(d, job)->can_suspend || j->leaving || j->suspended ||
        j->suspend_wanted || zi_desk_reserve(d) < 0)
        return;
    j->kept_ns = d->now_ns;
    if (j->aside_bytes == 0) j->usual_bytes = zi_desk_view_of(d, job)->fixed_bytes;
    if (j->in_step)
        j->suspend_wanted = true;
    else
        j->leaving = true;
    j->out_bytes = zi_ledger_job_of(d->ledger, job)->n_fixed * d->view.region_bytes;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_SUSPEND,
                              .job = job,
                              .behind = ZI_JOB_NONE,
                              .value = j->paused},
                 NULL);
    if (j->leaving && j->paused) give_pages_back(d); /* what is idle, while it moves */
    zi_desk_set_state(d, job);
}

void
zi_desk_resume(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];

    if (!j->suspended || zi_desk_reserve(d) < 0) return;
    j->suspended = false;
    j->returning = true;
    zi_desk_emit(
        d, &(zi_effect){.kind = ZI_EFFECT_RESUME, .job = job, .behind = ZI_JOB_NONE},
        NULL);
    zi_desk_set_state(d, job);
    if (j->asked) zi_desk_post(d, ZI_EVENT_STEP_ASK, job, 0, 0);
}

zico_status
zi_desk_suspended(zi_desk *d, zi_job_id job, zico_status outcome, uint64_t now_ns)
{
    if (!zi_desk_is_live(d, job)) return ZICO_E_ARG;
    zi_desk_row *j = &d->row[job];

    zi_desk_now(d, now_ns);
    if (!j->leaving && !(j->adopted && !j->in_step && !j->asked)) return ZICO_E_STATE;
    if (!j->leaving && !j->paused)
        j->by_ladder = true; /* nobody remembers why: let back when there is room */
    j->leaving = false;
    j->suspended = outcome == ZICO_OK;
    if (j->suspended) {
        j->returning = false; /* it may have been on its way in */
    } else {                  /* it stays and goes on; not asked again */
        j->by_ladder = j->paused = false;
        zi_desk_view_of(d, job)->can_suspend = false;
    }
    if (j->suspended && j->paused) give_pages_back(d);
    zi_desk_set_state(d, job);
    zi_desk_post(d, ZI_EVENT_SUSPENDED, job, 0, j->suspended);
    zi_desk_settle(d);
    return ZICO_OK;
}

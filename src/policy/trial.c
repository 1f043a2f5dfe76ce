/* trial.c -- is more done side by side or in turn? */
#include "policy/trial.h"

#include "policy/policy_common.h"
#include "policy/sweep.h"

#include <string.h>

#define EPOCH       5.0  /* longest steps: how long sharing, or taking turns, is tried  */
#define SETTLE      1.0  /* ... after so many, if it was the other way before          */
#define SURE_RATE   1.10 /* of turns: sharing that does so much is not in doubt          */
#define WORTH       1.02 /* of turns: what sharing must do; nobody loses by turns         */
#define WORSE       0.97 /* of what goes on: the other way, if that is not in doubt       */
#define TRIAL       3u /* epochs: what goes on, the other way, what goes on             */
#define PRESUMED    1.03 /* of turns: sharing, before anything was tried                */
#define MEMORY      4u   /* trials that what is believed is the mean of, about          */
#define EPOCHS_MIN  4u   /* what did more goes on for so many before the next one       */
#define EPOCHS_MAX  64u  /* ... doubled each time that it is confirmed, at most         */
#define EPOCHS_SURE 32u  /* ... for so many                                            */
#define CANARY      12u  /* epochs of sharing from one step alone to the next          */
#define MOVED       0.2  /* by which such a step is longer, or shorter, than they were  */
#define LATE        3.0  /* steps in turn that are looked at together, about          */

/* An epoch that ends, or begins. */
typedef struct look {
    zi_trial      *t;
    const zi_view *v;
    uint64_t       now_ns;
} look;

void
zi_trial_begin(zi_trial *t, uint64_t budget_bytes)
{
    memset(t, 0, sizeof *t);
    t->n_next = EPOCHS_MIN;
    t->ratio = PRESUMED;
    t->budget_bytes = budget_bytes;
}

static bool
is_trying(const zi_trial *t)
{
    return t->n_left == 0;
}

static bool
is_moved(double part)
{
    return part > 1 + MOVED || part < 1 / (1 + MOVED);
}

/* A step alone: while turns are tried they tell how long such steps are, later whether they still are.  That
 * a cold one is longer tells nothing. */
static void
note_alone(zi_trial *t, zi_tried *a, double ns)
{
    if (a->cold && (a->alone_ns <= 0 || is_moved(ns / a->alone_ns))) return;
    if (is_trying(t)) {
        a->alone_ns = a->alone_ns > 0 ? (a->alone_ns + ns) / 2 : ns;
        a->late = 1;
    } else if (a->alone_ns > 0 && t->canary) {
        t->moved |= is_moved(ns / a->alone_ns);
    } else if (a->alone_ns > 0) {
        a->late += (ns / a->alone_ns - a->late) / LATE;
        t->moved |= is_moved(a->late);
    }
    t->told = true;
}

void
zi_trial_step_ended(zi_trial *t, zi_job_id job, uint64_t alone_ns)
{
    zi_tried *a = &t->job[job];

    a->done++;
    if (alone_ns > 0 && t->turns) note_alone(t, a, (double)alone_ns);
    a->cold = false;
}

/* Whoever others kept waiting finds nothing in the caches: its first step is longer.  And the machine may be
 * as much faster or slower than it was as two ways differ: what was tried before and after is not compared. */
void
zi_trial_break(zi_trial *t)
{
    if (is_trying(t) && t->n_tried > 0) {
        t->n_tried = 0;
        t->n_left = EPOCHS_MIN;
        t->turns = t->choice;
    }
    t->from_ns = 0;
    t->canary_due = true;
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++) t->job[i].cold = true;
}

void
zi_trial_enter(zi_trial *t)
{
    zi_trial_break(t);
    t->canary_due = t->canary = t->moved = false;
    t->touched = true;
    t->changed = true; /* what was begun before ends first */
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++) t->job[i].late = 1;
}

void
zi_trial_return(zi_trial *t, const zi_trial *before)
{
    *t = *before;
    t->from_ns = 0;
    t->changed = t->turns != t->choice;
    t->turns = t->choice;
    t->n_left = t->n_next;
}

/* Of late, or in the epochs of the present trial together. */
static double
rate_of(const zi_trial *t, const zi_view *v, bool turns, bool in_trial)
{
    double sum = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_tried *a = &t->job[v->job[i].id];
        sum += (in_trial ? a->tried : a->per_ns)[turns] * zi_policy_solo_ns(&v->job[i]);
    }
    return sum;
}

double
zi_trial_rate(const zi_trial *t, const zi_view *v, bool turns)
{
    return rate_of(t, v, turns, false);
}

/* Of its present step, 0 to 1. */
static double
part_done(const zi_job_view *j)
{
    if (j->state != ZI_JOB_RUNNING) return 0;
    double solo = zi_policy_solo_ns(j), rest = (double)zi_sweep_rest(j);
    return solo > rest ? 1 - rest / solo : 0;
}

static void
begin_epoch(const look *l)
{
    l->t->from_ns = l->now_ns;
    for (size_t i = 0; i < l->v->n_jobs; i++)
        l->t->job[l->v->job[i].id].done = -part_done(&l->v->job[i]);
}

/* One trial is a few steps, and noisy: what is believed is the mean of some.  A clear one may be a
 * machine that has changed, and counts for half at least. */
static void
believe(zi_trial *t, double shared, double turns, bool clear)
{
    if (t->n_trials < MEMORY - 1) t->n_trials++;
    double part = 1.0 / (t->n_trials + 1);
    if (clear && part < 0.5) part = 0.5;
    t->n_done++;
    if (turns <= 0) return;
    t->seen_ratio = shared / turns;
    t->ratio += part * (t->seen_ratio - t->ratio);
}

static void
go_on_with(zi_trial *t, bool turns, bool clear)
{
    if (t->choice != turns)
        t->n_next = EPOCHS_MIN;
    else
        t->n_next *= clear ? 4 : 2; /* there was no doubt, or there was */
    if (t->n_next > EPOCHS_MAX) t->n_next = EPOCHS_MAX;
    t->turns = t->choice = turns;
    t->n_left = t->n_next;
}

/* Keeps what each job did in the epoch that ends; the whole in solo time per time. */
static double
measure_epoch(const look *l)
{
    zi_trial *t = l->t;
    double    passed = (double)(l->now_ns - t->from_ns), sum = 0;

    for (size_t i = 0; i < l->v->n_jobs; i++) {
        const zi_job_view *j = &l->v->job[i];
        zi_tried          *a = &t->job[j->id];
        double             now = (a->done + part_done(j)) / passed;
        double            *mine = &a->per_ns[t->turns];
        a->last = now;
        *mine = t->seen[t->turns] ? *mine + (now - *mine) / 3 : now;
        sum += now * zi_policy_solo_ns(j);
    }
    t->seen[t->turns] = true;
    return sum;
}

/* One epoch more of the present trial: what goes on, the other way, what goes on again, so that drift
 * cancels out and the other way costs one epoch.  In the first trial of all what went on before does not
 * count: jobs were not used to each other yet. */
static void
add_to_trial(zi_trial *t)
{
    double part = 1;

    if (t->turns == t->choice) part = t->n_trials > 0 ? 0.5 : t->n_tried > 0 ? 1 : 0;
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++) {
        zi_tried *a = &t->job[i];
        if (t->n_tried == 0) a->tried[false] = a->tried[true] = a->alone_ns = 0;
        a->tried[t->turns] += part * a->last;
    }
    t->n_tried++;
}

/* Sharing or taking turns next, and for how long? */
static void
judge_epoch(const look *l, double rate)
{
    zi_trial *t = l->t;

    t->n_sharing = t->turns ? 0 : t->n_sharing + 1;
    if (t->n_left > 0) {
        if (t->n_sharing % CANARY == CANARY - 1) t->canary_due = true;
        bool sure = !t->turns && rate >= SURE_RATE * rate_of(t, l->v, true, false);
        if (sure && t->n_sharing < EPOCHS_SURE) return;
        if (--t->n_left > 0) return;
        t->n_tried = 0;
    }
    add_to_trial(t);
    if (t->n_tried < TRIAL) {
        t->turns = !t->turns;
        return;
    }
    double shared = rate_of(t, l->v, false, true), turns = rate_of(t, l->v, true, true);
    bool   clear = shared >= SURE_RATE * turns || turns >= SURE_RATE * shared;
    bool   worse = t->choice ? shared <= WORSE * turns : turns <= WORSE * shared;
    believe(t, shared, turns, clear);
    go_on_with(t, t->ratio <= WORTH, clear || worse);
}

/* While all share and nothing is tried: one step alone, now and then. */
static void
send_canary(zi_trial *t)
{
    t->canary_due = false;
    if (t->turns || is_trying(t) || !t->seen[true]) return;
    t->canary = t->turns = true;
    t->told = false;
}

static void
end_canary(zi_trial *t)
{
    t->canary = t->turns = false;
    t->changed = true; /* the epoch begins when all share again */
}

/* After a change steps that began in the other way end first, and a command's threads are as many as
 * before until its step ends. */
void
zi_trial_look(zi_trial *t, const zi_view *v, uint64_t now_ns, double longest_ns,
              bool counts)
{
    look   l = {t, v, now_ns};
    double passed = (double)(now_ns - t->from_ns);

    if (t->canary) {
        if (t->told) end_canary(t);
        begin_epoch(&l);
    } else if (t->canary_due && counts) {
        send_canary(t);
        begin_epoch(&l);
    } else if (t->from_ns == 0 || !counts) {
        begin_epoch(&l);
    } else if (t->changed && passed >= SETTLE * longest_ns) {
        t->changed = false;
        begin_epoch(&l);
    } else if (!t->changed && passed >= EPOCH * longest_ns) {
        bool before = t->turns;
        if (t->touched) judge_epoch(&l, measure_epoch(&l));
        t->touched = true;
        t->changed = t->turns != before;
        begin_epoch(&l);
    }
}

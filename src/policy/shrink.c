/* shrink.c -- would all do more if some took less memory? */
#include "policy/shrink.h"

#include "policy/policy_common.h"

#include <string.h>

#define ROUNDS 3u
#define AGAIN                                                                            \
    4u /* trials after which lean plans are tried again; twice as many each time */
#define COST_MILLI  1250u /* of a step's time: more is not worth planning for  */
#define ROOM        0.97  /* of what there is: leases begin early and end late */
#define CLAIM_ABOVE 0.05  /* one claim's part above what its job takes         */
#define STAYS       0.02  /* of what was asked: who misses it by more goes no farther */
#define MORE        1.01  /* of what full plans do: lean ones, to be kept      */
#define HOPE        1.05  /* of one alone: what two must do beside each other */
#define WORTH       1.02  /* of turns                                          */
#define PATIENCE_NS 10000000000u /* with who owes an answer, and ...               */
#define ROUNDS_OWED                                                                      \
    4.0 /* ... so often a step of everybody's, as jobs answer between steps */

/* -- who takes how much? ------------------------------------------------------------------ */

static bool
takes_part(const zi_job_view *j)
{
    return j->has_steps && j->state != ZI_JOB_GONE && j->state != ZI_JOB_FREE &&
           j->state != ZI_JOB_SUSPENDED;
}

/* What a step takes as its job likes it best: told, else the most that was seen (claims have a twentieth
 * on top). */
static uint64_t
full_of(const zi_job_view *j)
{
    if (j->full_bytes) return j->full_bytes;
    return j->claim_known ? j->claim_bytes - j->claim_bytes / 21 : j->claim_bytes;
}

static uint64_t
plan_of(const zi_job_view *j)
{
    return j->plan_bytes ? j->plan_bytes : full_of(j);
}

static bool
may_shrink(const zi_shrink *k, const zi_job_view *j)
{
    return j->can_shrink && !k->stays[j->id];
}

/* What its step would take if nobody who can took more than `cap`. */
static uint64_t
with_cap(const zi_shrink *k, const zi_job_view *j, uint64_t cap)
{
    if (!may_shrink(k, j)) return plan_of(j);
    return full_of(j) < cap ? full_of(j) : cap;
}

/* Do the largest steps that could run at the same time fit together? */
static bool
all_fit(const zi_shrink *k, const zi_view *v, uint64_t cap)
{
    bool     seen[ZI_LEDGER_JOBS_MAX] = {false};
    uint64_t sum = 0, largest = 0;

    for (size_t i = 0; i < v->n_jobs; i++) sum += v->job[i].fixed_bytes;
    for (uint32_t cores = 0; cores < v->n_cores;) {
        size_t at = SIZE_MAX;
        for (size_t i = 0; i < v->n_jobs; i++) {
            if (seen[i] || !takes_part(&v->job[i])) continue;
            if (at == SIZE_MAX ||
                with_cap(k, &v->job[i], cap) > with_cap(k, &v->job[at], cap))
                at = i;
        }
        if (at == SIZE_MAX) break;
        uint64_t bytes = with_cap(k, &v->job[at], cap);
        if (bytes > largest) largest = bytes;
        sum += bytes;
        seen[at] = true;
        cores += zi_policy_cores_bound(&v->job[at]);
    }
    return (double)sum + CLAIM_ABOVE * (double)largest <= ROOM * (double)v->budget_bytes;
}

/* The largest cap with which they do, in regions; 0: there is none. */
static uint64_t
find_cap(const zi_shrink *k, const zi_view *v)
{
    uint64_t low = 0, high = v->budget_bytes / v->region_bytes;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (all_fit(k, v, middle * v->region_bytes))
            low = middle;
        else
            high = middle - 1;
    }
    return low * v->region_bytes;
}

/* -- asking --------------------------------------------------------------------------------- */

static bool
somebody(const zi_view *v, bool (*test)(const zi_job_view *))
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (takes_part(&v->job[i]) && test(&v->job[i])) return true;
    return false;
}

static bool
is_lean(const zi_job_view *j)
{
    return j->full_bytes && !zi_job_plans_as_it_likes(j);
}

static bool
is_unknown(const zi_job_view *j)
{
    return !j->claim_known;
}

static bool
can_shrink(const zi_job_view *j)
{
    return j->can_shrink;
}

/* Somebody who was asked lately: a job that was stopped may never answer. */
static bool
somebody_answers(const zi_view *v, uint64_t now_ns)
{
    double round_ns = 0;

    for (size_t i = 0; i < v->n_jobs; i++)
        if (takes_part(&v->job[i])) round_ns += zi_policy_solo_ns(&v->job[i]);
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        double             waited = (double)(now_ns - j->shrink_asked_ns);
        if (takes_part(j) && j->shrink_asked &&
            waited < PATIENCE_NS + ROUNDS_OWED * round_ns)
            return true;
    }
    return false;
}

/* True: somebody is asked for another plan than the one that was asked for last. */
static bool
ask(const zi_shrink *k, const zi_view *v, uint64_t cap, zi_out *out)
{
    bool any = false;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (!takes_part(j) || !may_shrink(k, j)) continue;
        uint64_t bytes = full_of(j) <= cap ? 0 : cap;
        if (bytes == j->shrink_bytes) continue;
        zi_out_add(out, ZI_ANSWER_SHRINK, i, COST_MILLI, bytes);
        any = true;
    }
    return any;
}

static void
forget_who_stays(zi_shrink *k)
{
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++) k->stays[i] = false;
}

/* True: answers are to come. */
static bool
ask_for_less(zi_shrink *k, const zi_view *v, zi_out *out)
{
    uint64_t cap = find_cap(k, v);

    k->phase = ZI_SHRINK_ASKED;
    k->n_rounds++;
    return cap > 0 && ask(k, v, cap, out);
}

static void
ask_back(zi_shrink *k, const zi_view *v, zi_out *out)
{
    forget_who_stays(k);
    (void)ask(k, v, UINT64_MAX, out);
    k->phase = ZI_SHRINK_BACK;
    k->good = false;
}

/* -- judging -------------------------------------------------------------------------------- */

/* What turns did in the last trial, in solo time as it was known when full plans were tried. */
static double
turns_of(const zi_shrink *k, const zi_view *v, const zi_trial *t)
{
    double sum = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        zi_job_id id = v->job[i].id;
        sum += t->job[id].tried[true] * k->solo_ns[id];
    }
    return sum;
}

static void
remember_full(zi_shrink *k, const zi_view *v, const zi_trial *t)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        k->solo_ns[v->job[i].id] = zi_policy_solo_ns(&v->job[i]);
    k->full_ratio = t->ratio;
    k->full_turns = turns_of(k, v, t);
}

/* What lean plans cost: 1 is nothing. */
static double
cost_of(const zi_shrink *k, const zi_view *v, const zi_trial *t)
{
    double said = 0, n = 0, lean_turns = turns_of(k, v, t);

    for (size_t i = 0; i < v->n_jobs; i++) {
        if (!takes_part(&v->job[i])) continue;
        said += is_lean(&v->job[i]) ? v->job[i].cost_milli / 1e3 : 1;
        n++;
    }
    said = n > 0 && said > n ? said / n : 1;
    if (k->full_turns <= 0 || lean_turns <= 0) return said;
    double seen = k->full_turns / lean_turns;
    return seen < 1 ? 1 : seen < said ? seen : said;
}

/* One trial is a few steps, and noisy.  What jobs do beside each other while none of them waits for memory
 * is known from all steps that they ever made so, and lean plans are there that none waits: the mean of both. */
static bool
is_better(const zi_shrink *k, const zi_view *v, const zi_trial *t, double beside)
{
    double lean = (t->seen_ratio + beside) / 2 / cost_of(k, v, t);
    return lean >= WORTH && lean >= MORE * k->full_ratio;
}

/* After a trial with lean plans that were kept: turns would take full ones. */
static bool
still_pays(const zi_shrink *k, const zi_view *v, const zi_trial *t)
{
    return !t->choice && t->ratio >= WORTH * cost_of(k, v, t);
}

/* -- the door ------------------------------------------------------------------------------- */

zico_status
zi_shrink_init(zi_shrink *k, const char *word)
{
    k->never = !strcmp(word, "full");
    k->always = k->good = !strcmp(word, "lean");
    return k->never || k->always || !*word ? ZICO_OK : ZICO_E_ARG;
}

void
zi_shrink_begin(zi_shrink *k)
{
    forget_who_stays(k);
    k->phase = ZI_SHRINK_FULL;
    k->full_turns = 0;
    k->n_rounds = 0;
    k->n_wait = k->good ? 0 : 1;
    k->turned = false;
    k->again = 0;
    k->n_seen = 0;
}

/* All have answered that will: who takes more than was asked goes no farther. */
static void
note_answers(zi_shrink *k, const zi_view *v)
{
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        double             asked = (double)j->shrink_bytes;
        if (asked > 0 && (double)plan_of(j) > asked * (1 + STAYS)) k->stays[j->id] = true;
    }
}

static void
look_when_full(zi_shrink *k, const zi_view *v, const zi_trial *t, zi_out *out)
{
    if (!k->good &&
        somebody(v, is_lean)) { /* somebody came or went while lean plans were tried */
        zi_trial_begin(&k->full, t->budget_bytes);
        ask_back(k, v, out);
        return;
    }
    bool anew =
        t->n_done > 0 && k->turned && !t->choice; /* the machine may be another now */
    if (t->n_done > 0) k->turned = t->choice;
    if ((t->n_done < k->n_wait && !anew) || !somebody(v, can_shrink) ||
        somebody(v, is_unknown))
        return;
    if (!k->good) remember_full(k, v, t);
    if (all_fit(k, v, UINT64_MAX) && !somebody(v, is_lean)) {
        k->n_wait = UINT32_MAX; /* until something changes */
        return;
    }
    k->n_rounds = 0;
    if (!ask_for_less(k, v, out)) {
        k->phase = ZI_SHRINK_FULL;
        k->n_wait = UINT32_MAX;
    }
}

static void
look_when_asked(zi_shrink *k, const zi_view *v, zi_trial *t, zi_out *out)
{
    note_answers(k, v);
    if (k->n_rounds < ROUNDS && ask_for_less(k, v, out)) return;
    if (!somebody(v, is_lean)) {
        k->phase = ZI_SHRINK_FULL;
        k->n_wait = UINT32_MAX;
        return;
    }
    k->phase = k->good ? ZI_SHRINK_KEPT : ZI_SHRINK_TRIED;
    k->n_seen = 0;
    k->full = *t;
    zi_trial_begin(t, t->budget_bytes);
}

void
zi_shrink_enter(zi_shrink *k, const zi_view *v, zi_trial *t, zi_out *out)
{
    k->lean = k->phase == ZI_SHRINK_KEPT;
    if (k->phase == ZI_SHRINK_TRIED) zi_trial_return(t, &k->full);
    k->phase = ZI_SHRINK_ENTER;
    if (!k->lean) forget_who_stays(k);
    (void)ask(k, v, k->lean ? find_cap(k, v) : UINT64_MAX, out);
}

bool
zi_shrink_is_due(const zi_shrink *k, const zi_trial *t)
{
    if (k->phase == ZI_SHRINK_TRIED) return t->n_done > 0;
    return k->phase == ZI_SHRINK_FULL && !k->never && k->n_wait != UINT32_MAX &&
           (k->good || t->n_done != k->n_seen);
}

const char *
zi_shrink_word(const zi_shrink *k)
{
    static const char *const word[] = {
        [ZI_SHRINK_FULL] = "full",         [ZI_SHRINK_ASKED] = "asked to be lean",
        [ZI_SHRINK_TRIED] = "lean, tried", [ZI_SHRINK_KEPT] = "lean",
        [ZI_SHRINK_BACK] = "asked back",   [ZI_SHRINK_ENTER] = "changing",
    };
    return word[k->phase];
}

/* Lean plans were tried: they stay, or all is as it was. */
static void
judge(zi_shrink *k, const zi_view *v, const zi_trial *t, double beside, zi_out *out)
{
    k->good = is_better(k, v, t, beside);
    k->n_seen = t->n_done;
    if (k->good) {
        k->phase = ZI_SHRINK_KEPT;
        return;
    }
    k->again = k->again ? 2 * k->again : AGAIN;
    k->n_wait = k->full.n_done + k->again;
    ask_back(k, v, out);
}

/* Turns do more now than lean plans beside each other: another machine, perhaps. */
static void
give_up(zi_shrink *k, const zi_view *v, zi_trial *t, zi_out *out)
{
    zi_trial_begin(&k->full, t->budget_bytes);
    k->n_wait = k->again = AGAIN;
    ask_back(k, v, out);
}

void
zi_shrink_look(zi_shrink *k, const zi_view *v, zi_trial *t, double beside,
               uint64_t now_ns, zi_out *out)
{
    bool waits = k->phase == ZI_SHRINK_ASKED || k->phase == ZI_SHRINK_BACK ||
                 k->phase == ZI_SHRINK_ENTER;

    if (waits && somebody_answers(v, now_ns)) return;
    switch (k->phase) {
    case ZI_SHRINK_FULL:
        if (!zi_shrink_is_due(k, t)) return;
        k->n_seen = t->n_done;
        if (k->good || beside >= HOPE) look_when_full(k, v, t, out);
        return;
    case ZI_SHRINK_ASKED:
        look_when_asked(k, v, t, out);
        return;
    case ZI_SHRINK_TRIED:
        if (zi_shrink_is_due(k, t)) judge(k, v, t, beside, out);
        return;
    case ZI_SHRINK_KEPT:
        if (t->n_done == k->n_seen || k->always) return;
        k->n_seen = t->n_done;
        if (!still_pays(k, v, t)) give_up(k, v, t, out);
        return;
    case ZI_SHRINK_BACK:
        k->phase = ZI_SHRINK_FULL;
        k->n_seen = k->full.n_done;
        zi_trial_return(t, &k->full);
        return;
    case ZI_SHRINK_ENTER:
        k->phase = k->lean ? ZI_SHRINK_KEPT : ZI_SHRINK_FULL;
        return;
    }
}

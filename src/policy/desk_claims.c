/* desk_claims.c -- how much each job may come to hold in its step, and is that safe?
 *
 * CLAIM  of a job that begins a step: what it declared, else the worst step observed + 5 %,
 *        else (it is being learnt) everything; never more than its max and than the room
 *        that is left when all steps have ended.  While the step runs it changes by RAISE, and it
 *        *sinks*: a native job runs a fixed plan (and a command may say that its steps repeat to
 *        the byte), so once it is past its high tide the banker need not keep the whole claim
 *        for it, only what is left of the tide + 5 %.  Without this, one of two jobs could not
 *        rise while the other falls, however well they fit.
 * GUARANTEES  A job's minimum is its own whether it uses it or not.  So to the banker only
 *        counts what a job holds, claims and gives back beyond what `stays` with it: the
 *        larger of its minimum and its fixed and private bytes.
 * ASIDE  A job that was moved out in the middle of a step comes back with what it held of it as
 *        private memory: its need is only the rest, and what it takes to come back does not last.
 * STUCK  A job inside a step that waits for something beyond its claim (a raise, private or fixed
 *        memory) may never finish.  So there are two tables: one leaves such jobs out and
 *        counts what they hold as gone, as nobody's safety may rest on them; one has all, as
 *        what was promised to them stays promised.  Whatever is granted must be safe in both.
 */
#include "policy/desk_private.h"

#include "base/check.h"
#include "policy/sweep.h"

#define USUAL_STEPS  4u /* in a row without a surprise: a command is understood         */
#define SINK_STEPS   2u /* a tide seen so often is a plan                              */
#define SINK_REGIONS 1u /* beyond what is foreseen, ...                                */
#define SINK_PARTS                                                                       \
    64u /* ... and so many of these parts of the peak, since how far a job */
#define SINK_LEAST                                                                       \
    1u /* issues ahead of its kernels varies: from the least to the most, */
#define SINK_MOST                                                                        \
    16u /* doubled each time that it was not enough, one less after so     */
#define SINK_GOOD 16u /* many steps as it was                                        */

static uint64_t
round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t
minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* A command's memory grows by surprise: gradients, the optimizer's state, a second network's.  Two
 * that grow inside their steps at once could neither finish nor move out. */
static bool
may_grow(const zi_desk_row *j)
{
    const uint64_t which =
        ZI_FEATURE_STEPS | ZI_FEATURE_SUSPEND | ZI_FEATURE_NATIVE | ZI_FEATURE_STEADY;
    return (j->spec.features & which) == (ZI_FEATURE_STEPS | ZI_FEATURE_SUSPEND) &&
           j->n_usual < USUAL_STEPS;
}

bool
zi_desk_is_learning(const zi_desk_row *j)
{
    return j->spec.claim_bytes == 0 && (j->worst_bytes == 0 || may_grow(j));
}

uint64_t
zi_desk_need(const zi_desk *d, const zi_desk_row *j)
{
    uint64_t unit = d->view.region_bytes;
    uint64_t need =
        j->spec.claim_bytes ? j->spec.claim_bytes : j->worst_bytes + j->worst_bytes / 20;
    return round_up(minus(need, j->aside_bytes), unit);
}

uint64_t
zi_desk_hard_need(const zi_desk *d, const zi_desk_row *j)
{
    uint64_t bytes = j->worst_bytes ? j->worst_bytes : j->spec.claim_bytes;
    return round_up(minus(bytes, j->aside_bytes), d->view.region_bytes);
}

uint64_t
zi_desk_room(const zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];
    const zi_job_view *v = &d->job[j->at];
    uint64_t           others = d->permanent_bytes - j->stays_bytes;
    uint64_t           room = minus(minus(d->target_bytes, others), v->fixed_bytes);
    uint64_t           max = v->limits.max_bytes;

    if (max && minus(max, v->fixed_bytes) < room) room = minus(max, v->fixed_bytes);
    return room / d->view.region_bytes * d->view.region_bytes;
}

bool
zi_desk_has_all(const zi_desk *d, zi_job_id job)
{
    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        if (v->id != job && (v->fixed_bytes + v->step_bytes > 0 || v->limits.min_bytes))
            return false;
    }
    return true;
}

zi_banker_job
zi_desk_banked(const zi_desk *d, zi_job_id job, uint64_t claim_bytes)
{
    const zi_desk_row *j = &d->row[job];
    const zi_job_view *v = &d->job[j->at];
    uint64_t           stays =
        v->limits.min_bytes > v->fixed_bytes ? v->limits.min_bytes : v->fixed_bytes;

    return (zi_banker_job){.step_bytes = minus(v->fixed_bytes + v->step_bytes, stays),
                           .claim_bytes = minus(v->fixed_bytes + claim_bytes, stays)};
}

uint64_t
zi_desk_cost(const zi_desk *d, zi_job_id job, uint64_t more_bytes)
{
    const zi_job_view *v = &d->job[d->row[job].at];
    uint64_t           held = v->fixed_bytes + v->step_bytes, min = v->limits.min_bytes;

    if (held >= min) return more_bytes;
    return minus(more_bytes, min - held);
}

uint64_t
zi_desk_claim(zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];

    if (j->in_step) return j->step_claim_bytes;
    uint64_t room = zi_desk_room(d, job), need = zi_desk_need(d, j);
    return need == 0 || need > room ? room : need;
}

void
zi_desk_set_above(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];
    zi_job_view *v = &d->job[j->at];

    if (j->sink_parts < SINK_LEAST) j->sink_parts = SINK_LEAST;
    v->above_bytes = 0;
    if (!v->steady || !v->tide || v->tide->n_seen < SINK_STEPS) return;
    v->above_bytes = SINK_REGIONS * d->view.region_bytes +
                     v->tide->peak_bytes / SINK_PARTS * j->sink_parts;
}

void
zi_desk_sink_claim(zi_desk *d, zi_job_id job)
{
    zi_desk_row       *j = &d->row[job];
    const zi_job_view *v = &d->job[j->at];

    if (!j->in_step || !v->steady || j->raise_seq || zi_desk_is_learning(j)) return;
    if (!v->tide || v->tide->n_seen < SINK_STEPS) return;
    uint64_t claim = zi_sweep_crest(v);
    if (claim == UINT64_MAX) return;
    if (claim < v->step_bytes) claim = v->step_bytes;
    claim = round_up(claim + v->above_bytes, d->view.region_bytes);
    if (claim >= j->step_claim_bytes) return;
    j->step_claim_bytes = claim;
    j->sunk = true;
    d->fresh = d->table_fresh = false;
}

void
zi_desk_note_astray(zi_desk *d, const zi_request *req)
{
    zi_desk_row *j = &d->row[req->job];
    if (!j->sunk || req->hold != ZI_HOLD_STEP || req->ahead || !zi_desk_is_beyond(d, req))
        return;
    if (j->sink_astray) return; /* once a step */
    j->sink_astray = true;
    j->sink_good = 0;
    j->sink_parts = j->sink_parts * 2 < SINK_MOST ? j->sink_parts * 2 : SINK_MOST;
}

void
zi_desk_note_kept(zi_desk_row *j)
{
    if (!j->sink_astray && ++j->sink_good % SINK_GOOD == 0 && j->sink_parts > SINK_LEAST)
        j->sink_parts--;
    j->sink_astray = false;
}

uint64_t
zi_desk_hang_due(const zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];
    const zi_job_view *v = &d->job[j->at];
    uint64_t last = v->last_region_ns > v->began_ns ? v->last_region_ns : v->began_ns;
    uint64_t usual =
        v->last_step_ns > v->solo_step_ns ? v->last_step_ns : v->solo_step_ns;
    uint64_t patience = usual * ZI_DESK_HANG_STEPS;

    if (!j->in_step || usual == 0) return ZI_NEVER;
    if (j->n_waits || j->raise_seq) return ZI_NEVER; /* it is we who keep it */
    return last + (patience > ZI_DESK_HANG_NS ? patience : ZI_DESK_HANG_NS);
}

/* From the ledger into one view. */
static void
copy_held(zi_desk *d, zi_job_view *v)
{
    const zi_ledger_job *l = zi_ledger_job_of(d->ledger, v->id);
    zi_desk_row         *j = &d->row[v->id];

    if (!l) return;
    v->fixed_bytes = l->n_fixed * d->view.region_bytes + l->private_bytes;
    v->step_bytes = l->n_step * d->view.region_bytes;
    v->limits = l->limits;
    v->stalled = false;
    for (unsigned i = 0; j->in_step && j->n_waits && i < ZI_LEDGER_REQS_PER_JOB; i++)
        v->stalled |= j->wait[i].id && j->wait[i].stalls;
    if (j->in_step && v->step_bytes > j->step_peak_bytes)
        j->step_peak_bytes = v->step_bytes;
    if (j->in_step && v->fixed_bytes + v->step_bytes > j->step_most_bytes)
        j->step_most_bytes = v->fixed_bytes + v->step_bytes;
}

/* Remarkable jobs: who is learnt, who wants to be, who hangs, who holds most. */
static void
note_remarkable(zi_desk *d, const zi_job_view *v)
{
    const zi_desk_row *j = &d->row[v->id];

    if (zi_desk_is_learning(j)) {
        if (j->in_step)
            d->learner_in_step = v->id;
        else if (v->state == ZI_JOB_ASKING &&
                 (d->learner_asking == ZI_JOB_NONE ||
                  v->asked_ns < zi_desk_view_of(d, d->learner_asking)->asked_ns))
            d->learner_asking = v->id;
    }
    uint64_t due = zi_desk_hang_due(d, v->id);
    if (due < d->now_ns)
        d->hung = v->id;
    else if (due < d->hang_due_ns)
        d->hang_due_ns = due;
    if (j->in_step && (d->biggest == ZI_JOB_NONE ||
                       v->step_bytes > zi_desk_view_of(d, d->biggest)->step_bytes))
        d->biggest = v->id;
}

bool
zi_desk_is_out(const zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];
    return j->suspended || (j->returning && zi_desk_waits_for_memory(d, j));
}

/* What stays with each job, and the sums over all. */
static void
sum_up(zi_desk *d)
{
    uint64_t promised = 0;

    d->permanent_bytes = d->need_most_bytes = 0;
    d->n_in_step = 0;
    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_job_view *v = &d->job[i];
        zi_desk_row *j = &d->row[v->id];
        uint64_t     held = v->fixed_bytes + v->step_bytes, min = v->limits.min_bytes;
        uint64_t     stays = j->in_step ? v->fixed_bytes : held;
        uint64_t     need = zi_desk_hard_need(d, j);

        v->need_bytes = need;

        j->stays_bytes = stays > min ? stays : min;
        d->permanent_bytes += j->stays_bytes;
        promised += held > min ? held : min;
        d->n_in_step += j->in_step;
        if (zi_desk_is_out(d, v->id)) continue; /* it asks for its room when it comes */
        if (need > 0 && v->fixed_bytes + need > j->stays_bytes + d->need_most_bytes)
            d->need_most_bytes = v->fixed_bytes + need - j->stays_bytes;
    }
    d->spare_bytes = minus(d->budget_bytes, promised);
}

/* A job that is being learnt claims all there is; what others move out for it meanwhile, too. */
static void
claim_what_came_free(zi_desk *d)
{
    if (d->learner_in_step == ZI_JOB_NONE || d->n_in_step != 1) return;
    zi_desk_row *j = &d->row[d->learner_in_step];
    uint64_t     room = zi_desk_room(d, d->learner_in_step);
    if (room > j->step_claim_bytes) j->step_claim_bytes = room;
}

/* Some bytes come unasked: private ones of jobs that return after a restart.  A claim that fitted
 * before then no longer does, and a job alone in its step would wait for ever for what is free.
 * It goes on within what there is; should it need more after all, that is the ladder's matter. */
static void
claim_no_more_than_there_is(zi_desk *d, zi_job_id job)
{
    zi_desk_row *j = &d->row[job];

    if (d->n_in_step != 1 || !j->in_step) return;
    zi_banker_job mine = zi_desk_banked(d, job, j->step_claim_bytes);
    if (mine.claim_bytes <= mine.step_bytes) return;
    uint64_t rest = mine.claim_bytes - mine.step_bytes;
    if (rest > d->spare_bytes) j->step_claim_bytes -= rest - d->spare_bytes;
}

void
zi_desk_note_requests(zi_desk *d)
{
    d->view.n_requests = zi_ledger_n_requests(d->ledger);
    d->view.request = zi_ledger_request(d->ledger, 0);
    d->table_fresh = false; /* who waits for too much is stuck */
}

void
zi_desk_refresh(zi_desk *d)
{
    zi_ledger_totals sum;

    zi_ledger_sum(d->ledger, &sum);
    d->target_bytes = sum.target_bytes;
    d->budget_bytes = sum.budget_bytes;
    d->free_bytes = sum.free_bytes;
    d->learner_in_step = d->learner_asking = d->hung = d->biggest = ZI_JOB_NONE;
    d->hang_due_ns = ZI_NEVER;
    for (size_t i = 0; i < d->n_jobs; i++) {
        copy_held(d, &d->job[i]);
        note_remarkable(d, &d->job[i]);
    }
    sum_up(d);
    claim_what_came_free(d);
    for (size_t i = 0; i < d->n_jobs; i++) {
        claim_no_more_than_there_is(d, d->job[i].id);
        d->job[i].claim_bytes = zi_desk_claim(d, d->job[i].id);
        d->job[i].claim_known = !zi_desk_is_learning(&d->row[d->job[i].id]);
    }
    d->view.budget_bytes = sum.target_bytes;
    d->view.free_bytes = sum.free_bytes;
    d->view.n_jobs = d->n_jobs;
    zi_desk_note_requests(d);
    d->fresh = true;
}

/* Of all that a refresh brings up to date, and of the banker's tables. */
static uint64_t
digest(zi_desk *d)
{
    uint64_t sum = 37 * zi_desk_slack(d) + 41 * d->somebody_stuck + d->permanent_bytes +
                   3 * d->need_most_bytes + 5 * d->spare_bytes + 7 * d->n_in_step +
                   11 * d->biggest + 13 * d->hung + 17 * d->learner_in_step +
                   19 * d->learner_asking + 23 * d->view.n_requests +
                   29 * d->view.free_bytes;

    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        sum = sum * 31 + v->fixed_bytes + 3 * v->step_bytes + 5 * v->claim_bytes +
              7 * v->need_bytes + 11 * v->stalled + 13 * v->claim_known +
              17 * v->limits.min_bytes + 19 * v->limits.max_bytes;
    }
    return sum;
}

bool
zi_desk_is_as_marked(zi_desk *d)
{
    bool     fresh = d->fresh;
    uint64_t before = digest(d);

    zi_desk_refresh(d);
    return !fresh || digest(d) == before;
}

void
zi_desk_refresh_if_stale(zi_desk *d)
{
    zi_assert_paranoid(zi_desk_is_as_marked(d));
    if (!d->fresh) zi_desk_refresh(d);
}

bool
zi_desk_is_beyond(const zi_desk *d, const zi_request *req)
{
    const zi_desk_row *j = &d->row[req->job];
    if (!j->in_step) return false;
    /* a job that is being learnt pays for what stays out of its claim (desk_queue.c), as long
     * as what others are known to need still fits beside it */
    if (req->hold != ZI_HOLD_STEP &&
        (!zi_desk_is_learning(j) || !zi_desk_fits_drained(d, req)))
        return true;
    return d->job[j->at].step_bytes + req->size_bytes > j->step_claim_bytes;
}

bool
zi_desk_is_stuck(const zi_desk *d, zi_job_id job)
{
    const zi_desk_row *j = &d->row[job];

    if (!j->in_step) return false;
    if (j->raise_seq) return true;
    for (unsigned i = 0; j->n_waits && i < ZI_LEDGER_REQS_PER_JOB; i++) {
        if (!j->wait[i].id) continue;
        const zi_request *req = zi_ledger_find(d->ledger, j->wait[i].id);
        if (req && !req->ahead && zi_desk_is_beyond(d, req)) return true;
    }
    return false;
}

/* -- the banker's tables -------------------------------------------------------------------- */

static void
fill_table(zi_desk *d, zi_banker *table, zi_banker_entry *entries, zi_job_id with,
           uint64_t claim_bytes, bool all)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_jobs; i++) {
        zi_job_id          job = d->job[i].id;
        const zi_desk_row *j = &d->row[job];
        if (job == with)
            d->table_job[n++] = zi_desk_banked(d, job, claim_bytes);
        else if (j->in_step && (all || !zi_desk_is_stuck(d, job)))
            d->table_job[n++] = zi_desk_banked(d, job, j->step_claim_bytes);
    }
    zi_banker_open(table, d->spare_bytes, d->table_job, n, entries);
}

/* Both tables as things are; made once per state. */
static void
fill_tables(zi_desk *d)
{
    if (d->table_fresh) return;
    d->table_fresh = true;
    d->somebody_stuck = false;
    for (size_t i = 0; i < d->n_jobs && !d->somebody_stuck; i++)
        d->somebody_stuck = zi_desk_is_stuck(d, d->job[i].id);
    fill_table(d, &d->table, d->table_entry, ZI_JOB_NONE, 0, false);
    if (d->somebody_stuck)
        fill_table(d, &d->table_all, d->table_all_entry, ZI_JOB_NONE, 0, true);
}

const zi_banker *
zi_desk_table(zi_desk *d)
{
    fill_tables(d);
    return &d->table;
}

bool
zi_desk_may_lose(zi_desk *d, uint64_t cost_bytes)
{
    fill_tables(d);
    return zi_banker_may_lose(&d->table, cost_bytes) &&
           (!d->somebody_stuck || zi_banker_may_lose(&d->table_all, cost_bytes));
}

bool
zi_desk_may_start(zi_desk *d, zi_job_id job)
{
    zi_banker_job mine = zi_desk_banked(d, job, zi_desk_claim(d, job));

    fill_tables(d);
    return zi_banker_may_start(&d->table, &mine) &&
           (!d->somebody_stuck || zi_banker_may_start(&d->table_all, &mine));
}

bool
zi_desk_may_take(zi_desk *d, zi_job_id job, uint64_t cost_bytes)
{
    zi_banker_job mine = zi_desk_banked(d, job, d->row[job].step_claim_bytes);

    fill_tables(d);
    return zi_banker_may_take(&d->table, &mine, cost_bytes) &&
           (!d->somebody_stuck || zi_banker_may_take(&d->table_all, &mine, cost_bytes));
}

bool
zi_desk_may_exceed(zi_desk *d, zi_job_id job, uint64_t claim_bytes, uint64_t take_bytes,
                   uint64_t lose_bytes)
{
    zi_banker_job mine = zi_desk_banked(d, job, claim_bytes);
    zi_banker     t;

    for (int all = 0; all < 2; all++) {
        d->table_fresh = false; /* its entries are used here */
        fill_table(d, &t, d->table_entry, job, claim_bytes, all != 0);
        if (!t.safe || !zi_banker_may_take(&t, &mine, take_bytes) ||
            !zi_banker_may_lose(&t, lose_bytes))
            return false;
    }
    return true;
}

uint64_t
zi_desk_slack(zi_desk *d)
{
    fill_tables(d);
    uint64_t slack = zi_banker_slack(&d->table);
    uint64_t all = d->somebody_stuck ? zi_banker_slack(&d->table_all) : slack;
    return slack < all ? slack : all;
}

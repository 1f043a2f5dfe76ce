/* salus.c -- lanes: many small jobs, iterations serialised inside a lane.
 *
 * PAPER    P. Yu, M. Chowdhury. Fine-Grained GPU Sharing Primitives for Deep Learning
 *          Applications. MLSys 2020.
 * CLAIM    Persistent memory of every job stays; per-step ("ephemeral") memory is divided into
 *          lanes that jobs share in turn.  Safe as long as
 *              sum of P  +  sum over lanes of the largest E in the lane  <=  C.
 * WE DO    All three branches of the lane assignment (new, reuse, reorganise; the published
 *          code lacks the third), with the safety condition tested in each; P and E as the
 *          ledger measures them (a declared claim overrides E); lanes grow, shrink and vanish
 *          at step boundaries, where they are empty, so that nothing is ever copied.
 *          Disciplines: fifo, pack (default), srtf, fair; between two steps of the first in
 *          order its place is kept for a moment (fifo, srtf), but not longer.  An inference job with a latency
 *          bound goes before others of its lane.
 * WE DROP  One stream per lane: here a lane is one job's turn on its cores, and no more jobs
 *          are inside a step than there are cores.
 * CHECKED  salus_test.c: the condition after every event of random days, each branch once,
 *          each discipline's order.
 * COST     O(jobs x lanes) per event.
 */
#include "policy/policy_common.h"

#include <string.h>
#include "base/check.h"

#define LANES_MAX 256
#define NO_LANE   UINT16_MAX
#define HOLD_NS                                                                          \
    20000000ull /* fifo, srtf: for the first in order, between two of its steps */

typedef enum discipline { PACK, FIFO, SRTF, FAIR } discipline;

typedef struct salus {
    discipline how;
    uint16_t   lane_of[ZI_LEDGER_JOBS_MAX]; /* lane + 1; 0: none               */
    uint64_t   lane_bytes[LANES_MAX];       /* 0: not in use                    */
} salus;

static zico_status
salus_init(void *state, const char *arg, uint64_t seed)
{
    salus *s = state;
    (void)seed;
    if (!*arg || !strcmp(arg, "pack"))
        s->how = PACK;
    else if (!strcmp(arg, "fifo"))
        s->how = FIFO;
    else if (!strcmp(arg, "srtf"))
        s->how = SRTF;
    else if (!strcmp(arg, "fair"))
        s->how = FAIR;
    else
        return ZICO_E_ARG;
    return ZICO_OK;
}

/* -- sizes --------------------------------------------------------------------------------- */

/* Room that the job's step needs, in whole regions. */
static uint64_t
ephemeral(const zi_view *v, const zi_job_view *j)
{
    uint64_t e = j->claim_bytes > j->step_bytes ? j->claim_bytes : j->step_bytes;
    return (e + v->region_bytes - 1) / v->region_bytes * v->region_bytes;
}

static uint64_t
persistent_sum(const zi_view *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->n_jobs; i++) sum += v->job[i].fixed_bytes;
    return sum;
}

static uint64_t
lane_sum(const salus *s)
{
    uint64_t sum = 0;
    for (size_t l = 0; l < LANES_MAX; l++) sum += s->lane_bytes[l];
    return sum;
}

static bool
fits(const zi_view *v, const salus *s, uint64_t lanes_more, uint64_t lanes_less)
{
    return persistent_sum(v) + lane_sum(s) + lanes_more <= v->budget_bytes + lanes_less;
}

/* -- lanes ---------------------------------------------------------------------------------- */

static size_t
lane_of(const salus *s, const zi_job_view *j)
{
    return s->lane_of[j->id] ? s->lane_of[j->id] - 1u : NO_LANE;
}

static bool
lane_busy(const zi_view *v, const salus *s, size_t lane)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (lane_of(s, &v->job[i]) == lane && v->job[i].state == ZI_JOB_RUNNING)
            return true;
    return false;
}

/* A lane is as large as its largest member needs; an empty one vanishes.  While a step runs in
 * it, it does not shrink. */
static void
resize_lanes(const zi_view *v, salus *s)
{
    uint64_t need[LANES_MAX] = {0};
    for (size_t i = 0; i < v->n_jobs; i++) {
        size_t l = lane_of(s, &v->job[i]);
        if (l == NO_LANE) continue;
        uint64_t e = ephemeral(v, &v->job[i]);
        if (e > need[l]) need[l] = e;
    }
    for (size_t l = 0; l < LANES_MAX; l++)
        if (need[l] > s->lane_bytes[l] || !lane_busy(v, s, l)) s->lane_bytes[l] = need[l];
}

static bool
open_lane(const zi_view *v, salus *s, const zi_job_view *j)
{
    uint64_t e = ephemeral(v, j);
    if (!fits(v, s, e, 0)) return false;
    for (size_t l = 0; l < LANES_MAX; l++) {
        if (s->lane_bytes[l]) continue;
        s->lane_bytes[l] = e ? e : 1;
        s->lane_of[j->id] = (uint16_t)(l + 1);
        return true;
    }
    return false;
}

/* The lane that fits best, if what is persistent still fits with it. */
static bool
reuse_lane(const zi_view *v, salus *s, const zi_job_view *j)
{
    uint64_t e = ephemeral(v, j), best = UINT64_MAX;
    size_t   at = NO_LANE;
    if (!fits(v, s, 0, 0)) return false;
    for (size_t l = 0; l < LANES_MAX; l++)
        if (s->lane_bytes[l] && s->lane_bytes[l] >= e && s->lane_bytes[l] < best) {
            best = s->lane_bytes[l];
            at = l;
        }
    if (at == NO_LANE) return false;
    s->lane_of[j->id] = (uint16_t)(at + 1);
    return true;
}

/* The smallest lane that may be enlarged to hold the job; only an empty lane moves. */
static bool
enlarge_lane(const zi_view *v, salus *s, const zi_job_view *j)
{
    uint64_t e = ephemeral(v, j), best = UINT64_MAX;
    size_t   at = NO_LANE;
    for (size_t l = 0; l < LANES_MAX; l++) {
        uint64_t has = s->lane_bytes[l];
        if (!has || has >= best || lane_busy(v, s, l)) continue;
        if (e < has || !fits(v, s, e, has)) continue;
        best = has;
        at = l;
    }
    if (at == NO_LANE) return false;
    s->lane_bytes[at] = e;
    s->lane_of[j->id] = (uint16_t)(at + 1);
    return true;
}

static bool
assign(const zi_view *v, salus *s, const zi_job_view *j)
{
    return open_lane(v, s, j) || reuse_lane(v, s, j) || enlarge_lane(v, s, j);
}

/* Memory that jobs keep has grown: give up lanes in which nothing runs until it is safe. */
static void
restore_safety(const zi_view *v, salus *s)
{
    while (!fits(v, s, 0, 0)) {
        size_t worst = NO_LANE;
        for (size_t l = 0; l < LANES_MAX; l++)
            if (s->lane_bytes[l] && !lane_busy(v, s, l) &&
                (worst == NO_LANE || s->lane_bytes[l] > s->lane_bytes[worst]))
                worst = l;
        if (worst == NO_LANE) return; /* all busy: the banker stands behind us */
        for (size_t i = 0; i < v->n_jobs; i++)
            if (lane_of(s, &v->job[i]) == worst) s->lane_of[v->job[i].id] = 0;
        s->lane_bytes[worst] = 0;
    }
}

/* -- order ---------------------------------------------------------------------------------- */

/* By its steps alone, which others do not lengthen.  In its last step, and in one beyond what it
 * had announced, a job is as good as done. */
static uint64_t
remaining_ns(const zi_job_view *j)
{
    uint64_t step = j->solo_step_ns ? j->solo_step_ns : j->last_step_ns;
    if (!j->steps_total) return UINT64_MAX;
    uint64_t left = j->step_no < j->steps_total ? j->steps_total - j->step_no : 1;
    return step && left > UINT64_MAX / step ? UINT64_MAX : left * step;
}

static uint64_t
service_ns(const zi_job_view *j)
{
    return j->served_ns / (j->weight_milli ? j->weight_milli : 1u);
}

/* Does a go before b? */
static bool
before(const salus *s, const zi_job_view *a, const zi_job_view *b)
{
    uint64_t ka = a->joined_ns, kb = b->joined_ns;
    if (!a->latency_ns != !b->latency_ns) return a->latency_ns != 0;
    if (a->latency_ns && a->asked_ns + a->latency_ns != b->asked_ns + b->latency_ns)
        return a->asked_ns + a->latency_ns < b->asked_ns + b->latency_ns;
    if (s->how == SRTF) ka = remaining_ns(a), kb = remaining_ns(b);
    if (s->how == FAIR) ka = service_ns(a), kb = service_ns(b);
    if (ka != kb) return ka < kb;
    return a->joined_ns != b->joined_ns ? a->joined_ns < b->joined_ns : a->id < b->id;
}

/* Indices of the view's jobs in the discipline's order (insertion sort: stable, small). */
static void
order(const zi_view *v, const salus *s, uint16_t *ret)
{
    for (size_t i = 0; i < v->n_jobs; i++) {
        size_t k = i;
        for (; k > 0 && before(s, &v->job[i], &v->job[ret[k - 1]]); k--)
            ret[k] = ret[k - 1];
        ret[k] = (uint16_t)i;
    }
}

static bool
takes_part(const zi_job_view *j)
{
    return j->has_steps && j->claim_known &&
           (j->state == ZI_JOB_ASKING || j->state == ZI_JOB_RUNNING ||
            j->state == ZI_JOB_IDLE);
}

/* srtf: whoever is not inside a step gives its lane up, so that the shortest is served first. */
static void
assign_all(const zi_view *v, salus *s, const uint16_t *by)
{
    if (s->how == SRTF)
        for (size_t i = 0; i < v->n_jobs; i++)
            if (v->job[i].state != ZI_JOB_RUNNING) s->lane_of[v->job[i].id] = 0;
    resize_lanes(v, s);
    restore_safety(v, s);
    for (size_t k = 0; k < v->n_jobs; k++) {
        const zi_job_view *j = &v->job[by[k]];
        if (takes_part(j) && lane_of(s, j) == NO_LANE) assign(v, s, j);
    }
}

/* -- going ----------------------------------------------------------------------------------- */

/* fifo: only the oldest job that takes part runs; of those that joined at once, one. */
static bool
is_oldest(const zi_view *v, const zi_job_view *j)
{
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *o = &v->job[i];
        bool               older = o->joined_ns < j->joined_ns ||
                     (o->joined_ns == j->joined_ns && o->id < j->id);
        if (older && takes_part(o)) return false;
    }
    return true;
}

static void
wait_for(zi_out *out, size_t i, zi_reason why, uint64_t behind)
{
    zi_out_add(out, ZI_ANSWER_REASON, i, behind, (uint64_t)why);
}

/* The job that runs in the lane, for the reason's sake. */
static uint64_t
runner_of(const zi_view *v, const salus *s, size_t lane)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (lane_of(s, &v->job[i]) == lane && v->job[i].state == ZI_JOB_RUNNING)
            return v->job[i].id;
    return ZI_JOB_NONE;
}

/* fifo, srtf: the first in order has just ended a step and will ask again in a moment; till then
 * its place is kept.  0: nothing to keep. */
static uint64_t
hold_until(const zi_view *v, const salus *s, const uint16_t *by, uint64_t now)
{
    if (s->how != FIFO && s->how != SRTF) return 0;
    for (size_t k = 0; k < v->n_jobs; k++) {
        const zi_job_view *j = &v->job[by[k]];
        if (!takes_part(j)) continue;
        uint64_t till = j->began_ns + j->last_step_ns + HOLD_NS;
        return j->state == ZI_JOB_IDLE && j->last_step_ns && till > now ? till : 0;
    }
    return 0;
}

static uint32_t
n_running(const zi_view *v)
{
    uint32_t n = 0;
    for (size_t i = 0; i < v->n_jobs; i++) n += v->job[i].state == ZI_JOB_RUNNING;
    return n;
}

/* The first in order whose lane is free goes; the desk asks again for the next.  Everybody
 * else is told what it waits for. */
static void
start_jobs(const zi_view *v, salus *s, const uint16_t *by, bool hold, zi_out *out)
{
    size_t go = SIZE_MAX;
    bool   kept = hold && (s->how == FIFO || n_running(v) + 1 >= v->n_cores);

    for (size_t k = 0; k < v->n_jobs; k++) {
        size_t             i = by[k];
        const zi_job_view *j = &v->job[i];
        size_t             lane = lane_of(s, j);
        if (lane != NO_LANE) zi_out_add(out, ZI_ANSWER_LANE, i, 0, lane);
        if (j->state != ZI_JOB_ASKING || !takes_part(j)) continue;
        if (lane == NO_LANE)
            wait_for(out, i, ZI_REASON_ADMISSION, ZI_JOB_NONE);
        else if (lane_busy(v, s, lane))
            wait_for(out, i, ZI_REASON_TURN, runner_of(v, s, lane));
        else if (go != SIZE_MAX || kept || !zi_policy_core_free(v, i) ||
                 (s->how == FIFO && !is_oldest(v, j)))
            wait_for(out, i, ZI_REASON_TURN, ZI_JOB_NONE);
        else
            go = i;
    }
    zi_policy_divide_cores(v, go, 0, out);
    if (go != SIZE_MAX) zi_out_add(out, ZI_ANSWER_GO, go, 0, 0);
}

static void
salus_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    salus   *s = state;
    uint16_t by[ZI_LEDGER_JOBS_MAX];

    zi_assert(v->n_jobs <= ZI_LEDGER_JOBS_MAX);
    if (ev->kind == ZI_EVENT_LEAVE || ev->kind == ZI_EVENT_JOIN)
        s->lane_of[v->job[ev->job].id] = 0;
    if (ev->kind == ZI_EVENT_LEAVE || ev->kind == ZI_EVENT_LEASE_ASK) return;
    if (ev->kind == ZI_EVENT_REGION && ev->delta_bytes > 0) return;
    order(v, s, by);
    assign_all(v, s, by);
    uint64_t hold = hold_until(v, s, by, ev->now_ns);
    start_jobs(v, s, by, hold != 0, out);
    if (hold) zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0, hold);
}

const zi_policy_ops zi_policy_salus = {
    .name = "salus",
    .origin = "Yu, Chowdhury: Salus, MLSys 2020; salus:fifo|pack|srtf|fair",
    .state_size = sizeof(salus),
    .init = salus_init,
    .on_event = salus_on_event,
};

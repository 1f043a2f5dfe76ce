/* temporal.c -- one step at a time, each job its share of device time, all cores to the runner.
 *
 * ORIGIN   The baseline of Zico's evaluation (an idealised Salus without lanes), and the
 *          yardstick of fairness: a job's share is weight / sum of weights x its solo rate.
 * WE DO    Deficit round robin by device time at step granularity, in its fair-queueing form:
 *          the job with the least device time / weight goes next.  A job that has just ended a step
 *          and is still the one with the least gets GRACE to ask again, so that short steps
 *          come in bursts as their share demands and the device does not idle for it long.
 * CHECKED  desk_policies_test.c: shares of device time within a step of the weights.
 */
#include "policy/policy_common.h"

#define GAP_NS   5000000u /* jobs that take longer to ask again lose their turn */
#define GRACE_NS 300000u  /* 0.3 ms: below the cost of a switch            */

typedef struct temporal {
    zi_policy_shares shares;
    zi_job_id        last; /* whose step ended last */
    uint64_t         last_ns;
    uint64_t         gap_ns[ZI_LEDGER_JOBS_MAX]; /* longest of late */
} temporal;

static zico_status
temporal_init(void *state, const char *arg, uint64_t seed)
{
    temporal *t = state;
    (void)seed;
    t->last = ZI_JOB_NONE;
    return arg[0] ? ZICO_E_ARG : ZICO_OK;
}

/* As long as it takes to ask again, and half as long on top; nobody waits for who pauses, for its
 * data perhaps. */
static uint64_t
grace_until(const temporal *t)
{
    uint64_t gap = t->last == ZI_JOB_NONE ? 0 : t->gap_ns[t->last];
    return gap < GAP_NS ? t->last_ns + GRACE_NS + gap + gap / 2 : t->last_ns;
}

/* Is the job that just ended a step about to ask again, and before all others in turn? */
static bool
worth_waiting(const temporal *t, const zi_view *v, size_t next, uint64_t now_ns)
{
    if (now_ns >= grace_until(t)) return false;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (j->id != t->last) continue;
        return j->state == ZI_JOB_IDLE && i != next &&
               t->shares.vtime[j->id] < t->shares.vtime[v->job[next].id];
    }
    return false;
}

static void
explain(const zi_view *v, size_t running, zi_out *out)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_ASKING && i != running)
            zi_out_add(out, ZI_ANSWER_REASON, i,
                       running < v->n_jobs ? v->job[running].id : ZI_JOB_NONE,
                       ZI_REASON_TURN);
}

static void
temporal_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    temporal *t = state;

    if (ev->kind == ZI_EVENT_JOIN) {
        zi_policy_shares_join(&t->shares, v, ev->job);
        t->gap_ns[v->job[ev->job].id] = 0; /* the number may have been another's */
    }
    if (ev->kind == ZI_EVENT_STEP_ASK && v->job[ev->job].id == t->last)
        zi_policy_note_gap(&t->gap_ns[t->last], ev->now_ns - t->last_ns, GAP_NS);
    if (ev->kind == ZI_EVENT_STEP_END) {
        const zi_job_view *j = &v->job[ev->job];
        zi_policy_shares_use(&t->shares, j, ev->now_ns - j->began_ns);
        t->last = j->id;
        t->last_ns = ev->now_ns;
    }
    if (ev->kind == ZI_EVENT_REGION && ev->delta_bytes > 0) return;
    if (zi_policy_somebody_runs(v)) return;
    size_t next = zi_policy_shares_next(&t->shares, v);
    if (next == SIZE_MAX) return;
    if (worth_waiting(t, v, next, ev->now_ns)) {
        zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0, grace_until(t));
        return;
    }
    zi_policy_divide_cores(v, next, 0, out);
    zi_out_add(out, ZI_ANSWER_GO, next, 0, 0);
    explain(v, next, out);
}

const zi_policy_ops zi_policy_temporal = {
    .name = "temporal",
    .origin = "baseline: time multiplexing at step boundaries",
    .state_size = sizeof(temporal),
    .init = temporal_init,
    .on_event = temporal_on_event,
};

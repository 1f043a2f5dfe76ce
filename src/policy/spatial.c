/* spatial.c -- every admitted job keeps its peak reserved; steps are not coordinated.
 *
 * ORIGIN   What frameworks do today when several jobs share a device: each holds its peak.
 * WE DO    Admission in order of asking, first fit: a job is admitted when the fixed bytes and
 *          claims of all admitted ones and its own fit the budget, and stays admitted until it
 *          leaves or a lowered budget pushes the youngest out.  Admitted jobs run whenever there
 *          is a core for them; if there are more jobs than cores, the least served goes first.
 * CHECKED  desk_policies_test.c: reserved peaks never exceed the budget; who does not fit waits with
 *          ADMISSION until somebody leaves.
 */
#include "policy/policy_common.h"

typedef struct spatial {
    zi_policy_shares shares;
    uint64_t admitted[ZI_LEDGER_JOBS_MAX]; /* 0: no; else place in order of admission */
    uint64_t next_place;
} spatial;

static zico_status
spatial_init(void *state, const char *arg, uint64_t seed)
{
    spatial *s = state;
    (void)seed;
    s->next_place = 1;
    return arg[0] ? ZICO_E_ARG : ZICO_OK;
}

static uint64_t
reserve_of(const zi_job_view *j)
{
    uint64_t step = j->claim_bytes > j->step_bytes ? j->claim_bytes : j->step_bytes;
    return j->fixed_bytes + step;
}

/* Everybody's fixed bytes, and the claims of those admitted or still running. */
static uint64_t
reserved(const spatial *s, const zi_view *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        bool               in = s->admitted[j->id] || j->state == ZI_JOB_RUNNING;
        sum += in ? reserve_of(j) : j->fixed_bytes + j->step_bytes;
    }
    return sum;
}

/* A lowered budget or a grown claim: the youngest leave the set, at their next boundary. */
static void
push_out(spatial *s, const zi_view *v)
{
    while (reserved(s, v) > v->budget_bytes) {
        size_t youngest = SIZE_MAX, n = 0;
        for (size_t i = 0; i < v->n_jobs; i++) {
            uint64_t place = s->admitted[v->job[i].id];
            if (!place) continue;
            n++;
            if (youngest == SIZE_MAX || place > s->admitted[v->job[youngest].id])
                youngest = i;
        }
        if (n <= 1) return; /* one alone may always run */
        s->admitted[v->job[youngest].id] = 0;
    }
}

static bool
admit(spatial *s, const zi_view *v, size_t i)
{
    const zi_job_view *j = &v->job[i];
    bool               first = true;

    if (s->admitted[j->id])
        return reserved(s, v) <= v->budget_bytes || !zi_policy_somebody_runs(v);
    for (size_t k = 0; k < v->n_jobs; k++)
        first &= !s->admitted[v->job[k].id] && v->job[k].state != ZI_JOB_RUNNING;
    uint64_t rest = reserve_of(j) - (j->fixed_bytes + j->step_bytes);
    uint64_t used = reserved(s, v);
    if (!first && (used > v->budget_bytes || rest > v->budget_bytes - used)) return false;
    s->admitted[j->id] = s->next_place++;
    return true;
}

/* The asking job with the least virtual time among those not yet looked at. */
static size_t
next_asking(const spatial *s, const zi_view *v, const bool *seen)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (j->state != ZI_JOB_ASKING || seen[i]) continue;
        if (best == SIZE_MAX || s->shares.vtime[j->id] < s->shares.vtime[v->job[best].id])
            best = i;
    }
    return best;
}

static void
start_admitted(spatial *s, const zi_view *v, zi_out *out)
{
    bool   seen[ZI_LEDGER_JOBS_MAX] = {false};
    size_t n_admitted = 0, i;

    for (i = 0; i < v->n_jobs; i++) n_admitted += s->admitted[v->job[i].id] != 0;
    while ((i = next_asking(s, v, seen)) != SIZE_MAX) {
        seen[i] = true;
        if (!admit(s, v, i)) {
            zi_out_add(out, ZI_ANSWER_REASON, i, ZI_JOB_NONE, ZI_REASON_ADMISSION);
        } else if (!zi_policy_core_free(v, i)) {
            zi_out_add(out, ZI_ANSWER_REASON, i, ZI_JOB_NONE, ZI_REASON_TURN);
        } else {
            zi_policy_divide_cores(v, i, n_admitted > 0 ? n_admitted - 1 : 0, out);
            zi_out_add(out, ZI_ANSWER_GO, i, 0, 0);
            return; /* the desk asks again: STEP_BEGUN shows in the next view */
        }
    }
    zi_policy_divide_cores(v, SIZE_MAX, 0, out);
}

static void
spatial_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    spatial *s = state;

    switch (ev->kind) {
    case ZI_EVENT_JOIN:
        s->admitted[v->job[ev->job].id] = 0;
        zi_policy_shares_join(&s->shares, v, ev->job);
        break;
    case ZI_EVENT_LEAVE:
        s->admitted[v->job[ev->job].id] = 0;
        break;
    case ZI_EVENT_STEP_END: {
        const zi_job_view *j = &v->job[ev->job];
        uint64_t           used = (ev->now_ns - j->began_ns) * (j->cores ? j->cores : 1);
        zi_policy_shares_use(&s->shares, j, used);
        break;
    }
    case ZI_EVENT_REGION:
        if (ev->delta_bytes > 0) return;
        break;
    default:
        break;
    }
    push_out(s, v);
    start_admitted(s, v, out);
}

const zi_policy_ops zi_policy_spatial = {
    .name = "spatial",
    .origin = "baseline: each job reserves its peak",
    .state_size = sizeof(spatial),
    .init = spatial_init,
    .on_event = spatial_on_event,
};

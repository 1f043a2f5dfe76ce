/* policy_common.c -- helpers that policies share. */
#include "policy/policy_common.h"

#include "base/check.h"

void
zi_out_add(zi_out *out, zi_answer_kind kind, size_t job, uint64_t request, uint64_t value)
{
    if (out->n == ZI_OUT_MAX) return;
    out->answer[out->n++] =
        (zi_answer){.kind = kind, .job = job, .request = request, .value = value};
}

bool
zi_policy_somebody_runs(const zi_view *v)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING) return true;
    return false;
}

double
zi_policy_solo_ns(const zi_job_view *j)
{
    if (j->solo_step_ns) return (double)j->solo_step_ns;
    return j->tide ? (double)j->tide->length_ns : (double)j->last_step_ns;
}

/* -- cores ------------------------------------------------------------------------------- */

static bool
can_be_told(const zi_job_view *j)
{
    return j->told_in_step && j->core_mode == ZI_CORES_FOLLOW;
}

uint32_t
zi_policy_cores_bound(const zi_job_view *j)
{
    if (can_be_told(j)) return 1;
    return j->cores ? j->cores : 1;
}

static uint32_t
cores_bound_by_running(const zi_view *v)
{
    uint32_t n = 0;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_RUNNING) n += zi_policy_cores_bound(&v->job[i]);
    return n;
}

bool
zi_policy_core_left(const zi_view *v)
{
    uint32_t bound = cores_bound_by_running(v);
    return bound == 0 || bound < v->n_cores;
}

bool
zi_policy_core_free(const zi_view *v, size_t starter)
{
    const zi_job_view *j = &v->job[starter];
    uint32_t least = j->core_mode == ZI_CORES_FOLLOW ? 1 : zi_policy_cores_bound(j);
    uint32_t bound = cores_bound_by_running(v);
    return bound == 0 || bound + least <= v->n_cores;
}

/* Whose number of cores can be chosen now. */
static bool
is_open(const zi_view *v, size_t i, size_t starter)
{
    const zi_job_view *j = &v->job[i];
    if (i == starter) return j->core_mode == ZI_CORES_FOLLOW;
    return j->state == ZI_JOB_RUNNING && can_be_told(j) && !j->stalled;
}

void
zi_policy_divide_cores(const zi_view *v, size_t starter, size_t n_soon, zi_out *out)
{
    uint32_t left = v->n_cores, n_open = 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (is_open(v, i, starter))
            n_open++;
        else if (i == starter || (j->state == ZI_JOB_RUNNING && !can_be_told(j)))
            left -= j->cores < left ? j->cores : left;
    }
    for (size_t i = 0; i < v->n_jobs && n_open > 0; i++) {
        if (!is_open(v, i, starter)) continue;
        uint32_t mine = (left + n_open - 1) / n_open;
        if (!can_be_told(&v->job[i])) { /* leaves one for each that comes */
            uint32_t soon = n_soon < v->n_cores ? (uint32_t)n_soon : v->n_cores;
            mine = left / (n_open + soon);
        }
        if (mine == 0) mine = 1;
        zi_out_add(out, ZI_ANSWER_CORES, i, 0, mine);
        left -= mine < left ? mine : left;
        n_open--;
    }
}

/* -- shares ------------------------------------------------------------------------------ */

void
zi_policy_shares_join(zi_policy_shares *s, const zi_view *v, size_t job)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (i == job || !j->has_steps || j->state == ZI_JOB_GONE) continue;
        if (s->vtime[j->id] < least) least = s->vtime[j->id];
    }
    s->vtime[v->job[job].id] = least == UINT64_MAX ? 0 : least;
}

void
zi_policy_shares_use(zi_policy_shares *s, const zi_job_view *j, uint64_t used_ns)
{
    uint32_t weight = j->weight_milli ? j->weight_milli : 1000;
    s->vtime[j->id] += (uint64_t)((double)used_ns * 1000.0 / weight);
}

size_t
zi_policy_shares_next(const zi_policy_shares *s, const zi_view *v)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (j->state != ZI_JOB_ASKING) continue;
        if (best == SIZE_MAX || s->vtime[j->id] < s->vtime[v->job[best].id]) best = i;
    }
    return best;
}

void
zi_policy_note_gap(uint64_t *known_ns, uint64_t gap_ns, uint64_t most_ns)
{
    uint64_t known = *known_ns;

    if (gap_ns > 2 * most_ns) gap_ns = 2 * most_ns;
    *known_ns = gap_ns >= known ? gap_ns : known - (known - gap_ns) / 8;
}

/* desk_cores.c -- how many cores a job computes with, and which: beside as few others as possible.
 *
 * The policy says how many.  All threads of a command are kept to them (hook/places.h), of a native
 * job those that compute (exec/exec_places.c).
 */
#include "policy/desk_private.h"

static uint32_t
overlap(uint32_t a, uint32_t n_a, uint32_t b, uint32_t n_b)
{
    uint32_t lo = a > b ? a : b, hi = a + n_a < b + n_b ? a + n_a : b + n_b;
    return hi > lo ? hi - lo : 0;
}

/* Cores that others inside steps have of the n from `first` on; each counts for itself. */
static uint64_t
crowd(const zi_desk *d, const zi_job_view *v, uint32_t first)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *o = &d->job[i];
        const zi_desk_row *j = &d->row[o->id];
        if (o != v && j->in_step && !o->stalled)
            sum += overlap(first, v->cores, j->first_core, o->cores);
    }
    return sum;
}

static void
tell(zi_desk *d, const zi_job_view *v)
{
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_CORES,
                              .job = v->id,
                              .behind = ZI_JOB_NONE,
                              .value = v->cores,
                              .first_core = d->row[v->id].first_core},
                 NULL);
}

/* There is room for all, but in pieces: one behind the other, and who moves is told. */
static void
pack(zi_desk *d, const zi_job_view *with)
{
    uint32_t at = 0;

    for (size_t i = 0; i < d->n_jobs; i++) {
        const zi_job_view *v = &d->job[i];
        zi_desk_row       *j = &d->row[v->id];
        if (v != with && (!j->in_step || v->stalled)) continue;
        if (v->cores > d->n_cores - at)
            return; /* more than there are: some share theirs */
        bool moves = j->first_core != at;
        if (moves && v != with && zi_desk_reserve(d) < 0) return;
        j->first_core = at;
        at += v->cores;
        if (moves && v != with && v->told_in_step) tell(d, v);
    }
}

/* Where it was if that is as good as any, else at the first core or behind somebody else's. */
void
zi_desk_place(zi_desk *d, const zi_job_view *v)
{
    zi_desk_row *mine = &d->row[v->id];
    uint32_t     last = d->n_cores - v->cores;
    uint32_t     best = mine->first_core <= last ? mine->first_core : 0;
    uint64_t     least = crowd(d, v, best);

    for (size_t i = 0; i <= d->n_jobs && least > 0; i++) {
        uint32_t first = 0;
        if (i < d->n_jobs) first = d->row[d->job[i].id].first_core + d->job[i].cores;
        if (first > last) continue;
        uint64_t n = crowd(d, v, first);
        if (n >= least) continue;
        least = n;
        best = first;
    }
    mine->first_core = best;
    if (least > 0) pack(d, v);
}

void
zi_desk_set_cores(zi_desk *d, zi_job_view *v, uint64_t cores)
{
    zi_desk_row *j = &d->row[v->id];

    if (v->core_mode != ZI_CORES_FOLLOW) return;
    if (cores < 1) cores = 1;
    if (cores > d->n_cores) cores = d->n_cores;
    if (v->cores == cores) return;
    if (j->in_step && (!v->told_in_step || zi_desk_reserve(d) < 0))
        return; /* told with its next GO */
    if (j->in_step && cores < d->n_cores) j->all_cores = false;
    v->cores = (uint32_t)cores;
    if (!j->in_step) return;
    zi_desk_place(d, v);
    if (zi_desk_reserve(d) >= 0) tell(d, v); /* those that moved were told, too */
}

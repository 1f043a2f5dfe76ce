/* desk_effects.c -- the queue of effects; grants are stored as their runs only. */
#include "policy/desk_private.h"

#include <string.h>
#include "base/alloc.h"
#include "base/check.h"

zico_status
zi_desk_reserve(zi_desk *d)
{
    if (d->n_effects + 2 > d->cap_effects) {
        size_t          cap = d->cap_effects ? d->cap_effects * 2 : 64;
        zi_desk_stored *more = zi_realloc(d->effect, cap * sizeof *more);
        if (!more) return ZICO_E_NOMEM;
        d->effect = more;
        d->cap_effects = cap;
    }
    if (d->n_runs + 2u * ZI_LEDGER_RUNS_MAX > d->cap_runs) {
        size_t  cap = d->cap_runs * 2 + 2u * ZI_LEDGER_RUNS_MAX;
        zi_run *more = zi_realloc(d->runs, cap * sizeof *more);
        if (!more) return ZICO_E_NOMEM;
        d->runs = more;
        d->cap_runs = cap;
    }
    return ZICO_OK;
}

void
zi_desk_emit(zi_desk *d, const zi_effect *e, const zi_grant *grant)
{
    zi_assert(d->n_effects < d->cap_effects);
    zi_desk_stored *s = &d->effect[d->n_effects++];

    *s = (zi_desk_stored){.e = *e, .has_grant = grant != NULL, .first_run = d->n_runs};
    if (!grant) return;
    zi_assert(d->n_runs + grant->n_runs + grant->n_punch <= d->cap_runs);
    s->n_runs = grant->n_runs;
    s->n_punch = grant->n_punch;
    memcpy(&d->runs[d->n_runs], grant->run, grant->n_runs * sizeof(zi_run));
    d->n_runs += grant->n_runs;
    memcpy(&d->runs[d->n_runs], grant->punch, grant->n_punch * sizeof(zi_run));
    d->n_runs += grant->n_punch;
}

void
zi_desk_emit_punches(zi_desk *d)
{
    if (d->grant.n_punch == 0) return;
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_PUNCH,
                              .job = ZI_JOB_NONE,
                              .behind = ZI_JOB_NONE},
                 &d->grant);
}

void
zi_desk_deny(zi_desk *d, zi_job_id job, uint32_t seq, zico_status why,
             uint64_t asked_bytes, uint64_t had_bytes, zi_hold hold)
{
    zi_desk_emit(d,
                 &(zi_effect){.kind = ZI_EFFECT_DENY,
                              .job = job,
                              .seq = seq,
                              .status = why,
                              .behind = ZI_JOB_NONE,
                              .asked_bytes = asked_bytes,
                              .had_bytes = had_bytes,
                              .hold = hold},
                 NULL);
}

bool
zi_desk_next(zi_desk *d, zi_effect *ret_effect)
{
    if (d->first_effect == d->n_effects) {
        d->first_effect = d->n_effects = d->n_runs = 0;
        return false;
    }
    const zi_desk_stored *s = &d->effect[d->first_effect++];

    *ret_effect = s->e;
    ret_effect->grant = NULL;
    if (s->has_grant) {
        d->shown.n_runs = s->n_runs;
        d->shown.n_punch = s->n_punch;
        memcpy(d->shown.run, &d->runs[s->first_run], s->n_runs * sizeof(zi_run));
        memcpy(d->shown.punch, &d->runs[s->first_run + s->n_runs],
               s->n_punch * sizeof(zi_run));
        ret_effect->grant = &d->shown;
    }
    return true;
}

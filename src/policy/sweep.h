/* policy/sweep.h -- would this job's step fit beside what remains of the others' steps?
 *
 * The remaining events of all running jobs are merged into one curve.  The sweep walks over it with the
 * whole tide of the starter, and moves that to a later time where the sum would pass the budget.
 *
 * POSITION  of a running job is known by the bytes it has taken and returned since its step
 *           began, never by the clock alone: a point of its tide is over when as many bytes have
 *           moved as had when it was recorded (all of them: a grouped tide has lost its ripples,
 *           its count of moved bytes has not).  Time since the last event seen moves it on at
 *           most to the next point, so a late job is never assumed to have returned anything.
 * CLOCK     Tides run on solo time, and so does time since the last event (desk_pace.c).  When cores
 *           are divided evenly all jobs are slowed alike, so the order of events, which is all that
 *           counts here, stays the same.
 * ABOVE     What the banker keeps beyond the tide of a job that falls is added to it here, too: a step that
 *           begins is not held up in its middle.
 * RESERVE   A running job without a tide, whose steps do not repeat, or who is not on its tide (it
 *           holds far more or less than foreseen), holds its claim to the end; so does a starter of that kind from the beginning.
 */
#ifndef ZI_POLICY_SWEEP_H
#define ZI_POLICY_SWEEP_H

#include "policy/policy.h"

typedef struct zi_sweep_ask {
    size_t   starter;    /* index; if it runs, its next step is meant          */
    size_t   also;       /* a job taken to begin right now, too; SIZE_MAX: none */
    uint64_t from_ns;    /* no delay below this                                 */
    uint64_t keep_bytes; /* of the budget, for what cannot be foreseen          */
} zi_sweep_ask;

/* The smallest delay after which the starter fits, in solo time; UINT64_MAX: not before
 * somebody who reserves has ended. */
uint64_t zi_sweep_delay(const zi_view *v, const zi_sweep_ask *ask);

/* Solo time that a running job still needs, by its position; 0: unknown. */
uint64_t zi_sweep_rest(const zi_job_view *j);

/* The most bytes that a running job will hold from now on, by what is left of its tide.
 * UINT64_MAX: unknown, or it is not on its tide (it holds far more or less than foreseen). */
uint64_t zi_sweep_crest(const zi_job_view *j);

#endif /* ZI_POLICY_SWEEP_H */

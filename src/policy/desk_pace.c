/* desk_pace.c -- how far each job has come in its step, on the clock of a step alone.
 *
 * WHY      A step that runs beside another for its first third takes longer there, and only there.  Its
 *          tide by the wall's clock is stretched where the neighbour was, laid over another such tide
 *          it fits nowhere, and a neighbour that begins by it waits for memory in mid-step.
 * CLOCK    stands still while the job waits for memory, and goes 1 + n x `slowed` times slower than the
 *          wall's while n others are at work.  Tides are recorded by it (zi_tide_recorder), and it
 *          tells where a job stands between two events (sweep.c).
 * LEARNT   `slowed`, from each step that was not alone: by the clock it should have taken what it takes
 *          alone.  Who stood beside whom is not told apart here; policies that care do so
 *          (neighbours.h).
 */
#include "policy/desk_private.h"

#define SLOWED_FIRST 0.7  /* two jobs on two cores; little is known before they meet */
#define SLOWED_MAX   15.0 /* by one neighbour */
#define SLOWED_PART  0.25 /* of what a step tells is believed at once */
#define TELLING_PART 0.1  /* of a step beside others: less tells nothing */

static bool
is_at_work(const zi_desk *d, const zi_job_view *v)
{
    return d->row[v->id].in_step && !v->stalled;
}

void
zi_desk_now(zi_desk *d, uint64_t now_ns)
{
    double passed = now_ns > d->now_ns ? (double)(now_ns - d->now_ns) : 0;
    size_t n_at_work = 0;

    d->now_ns = now_ns;
    if (now_ns > d->hang_due_ns) d->fresh = false;
    if (passed == 0) return;
    for (size_t i = 0; i < d->n_jobs; i++) n_at_work += is_at_work(d, &d->job[i]);
    for (size_t i = 0; i < d->n_jobs && n_at_work > 0; i++) {
        zi_job_view *v = &d->job[i];
        zi_desk_row *j = &d->row[v->id];
        if (!is_at_work(d, v)) continue;
        double done = passed / (1 + (double)(n_at_work - 1) * j->slowed);
        j->clock_ns += done;
        if (n_at_work > 1) j->beside_ns += done;
        v->clock_ns = (uint64_t)j->clock_ns;
    }
}

void
zi_desk_pace_new(zi_desk_row *j)
{
    j->slowed = SLOWED_FIRST;
}

void
zi_desk_pace_begin(zi_desk_row *j, zi_job_view *v)
{
    j->clock_ns = j->beside_ns = 0;
    v->clock_ns = v->region_clock_ns = 0;
}

void
zi_desk_pace_end(zi_desk_row *j, const zi_job_view *v)
{
    double solo = (double)v->solo_step_ns, alone = j->clock_ns - j->beside_ns;

    if (j->beside_ns <= TELLING_PART * solo || alone >= (1 - TELLING_PART) * solo) return;
    double seen = (1 + j->slowed) * j->beside_ns / (solo - alone) - 1;
    if (seen < 0) seen = 0;
    if (seen > SLOWED_MAX) seen = SLOWED_MAX;
    j->slowed += SLOWED_PART * (seen - j->slowed);
}

/* policy/neighbours.h -- by how much does each job slow each other job down?
 *
 * MODEL    Beside some others a job's step takes 1 + the sum of what each of them costs it, times as
 *          long as alone.  Nothing is assumed of a core, a cache or a bus: it is learnt.
 * LEARNT   from each step's length, and who was at work beside it for how long.  If more than all of
 *          the step should have been done in that time, its neighbours cost it more than was
 *          thought, each for its part in it.  What was learnt fades while the two do not meet, so
 *          that they are tried again.
 * BOUNDS   A job knows ZI_NEIGHBOURS others; a stranger takes the place of whom it was beside for the
 *          shortest time.  While more than ZI_TOGETHER run at once nothing is learnt.
 */
#ifndef ZI_POLICY_NEIGHBOURS_H
#define ZI_POLICY_NEIGHBOURS_H

#include "policy/policy.h"

#define ZI_NEIGHBOURS 8u
#define ZI_TOGETHER   16u

typedef struct zi_neighbour {
    zi_job_id id;
    float     cost;   /* of its solo time; 0: never met */
    float     met_ns; /* beside it in this step, as far as `cost` matters in it */
} zi_neighbour;

typedef struct zi_pace {
    bool         watched; /* its present step was seen from its beginning, */
    double       work_ns; /* and so much solo time of it should be done */
    zi_neighbour beside[ZI_NEIGHBOURS];
} zi_pace;

typedef struct zi_neighbours {
    uint64_t  since_ns; /* these have been at work beside each other: */
    size_t    n_together;
    zi_job_id together[ZI_TOGETHER];
    zi_pace   job[ZI_LEDGER_JOBS_MAX];
} zi_neighbours;

/* At each event, before anything else: time has passed, and who is at work now? */
void zi_neighbours_look(zi_neighbours *n, const zi_view *v, uint64_t now_ns);

void zi_neighbours_step_began(zi_neighbours *n, zi_job_id job);
void zi_neighbours_step_ended(zi_neighbours *n, zi_job_id job, double solo_ns);

/* Its number goes to another job. */
void zi_neighbours_forget(zi_neighbours *n, zi_job_id job);
/* Others decided meanwhile: the present steps teach nothing. */
void zi_neighbours_break(zi_neighbours *n);

/* What `other` costs the job, of its solo time; a guess if they never met. */
double zi_neighbours_cost(const zi_neighbours *n, zi_job_id job, zi_job_id other);

#endif /* ZI_POLICY_NEIGHBOURS_H */

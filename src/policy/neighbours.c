/* neighbours.c -- by how much each job slows each other job down. */
#include "policy/neighbours.h"

#define COST_GUESS  0.6 /* of a stranger */
#define COST_MIN    0.01
#define COST_MAX    8.0
#define LEARN       0.2  /* of what a step took more or less than foreseen */
#define LEARN_LEAST 0.05 /* so short a time together teaches next to nothing */
#define FADE        0.01 /* of what was learnt, in each step without that neighbour */

static const zi_neighbour *
find(const zi_pace *p, zi_job_id id)
{
    for (size_t k = 0; k < ZI_NEIGHBOURS; k++)
        if (p->beside[k].cost > 0 && p->beside[k].id == id) return &p->beside[k];
    return NULL;
}

static zi_neighbour *
meet(zi_pace *p, zi_job_id id)
{
    const zi_neighbour *known = find(p, id);
    zi_neighbour       *least = &p->beside[0];

    if (known) return &p->beside[known - p->beside];
    for (size_t k = 0; k < ZI_NEIGHBOURS; k++) {
        if (p->beside[k].cost <= 0) {
            least = &p->beside[k];
            break;
        }
        if (p->beside[k].met_ns < least->met_ns) least = &p->beside[k];
    }
    *least = (zi_neighbour){.id = id, .cost = (float)COST_GUESS};
    return least;
}

/* Time passed with the same jobs at work. */
static void
note_time(zi_neighbours *n, uint64_t now_ns)
{
    double passed = (double)(now_ns - n->since_ns);

    for (size_t i = 0; i < n->n_together && passed > 0; i++) {
        zi_pace *p = &n->job[n->together[i]];
        double   pace = 1;
        for (size_t k = 0; k < n->n_together; k++)
            if (k != i) pace += meet(p, n->together[k])->cost;
        p->work_ns += passed / pace;
        for (size_t k = 0; k < n->n_together; k++)
            if (k != i)
                meet(p, n->together[k])->met_ns += (float)(passed / (pace * pace));
    }
    n->since_ns = now_ns;
}

void
zi_neighbours_look(zi_neighbours *n, const zi_view *v, uint64_t now_ns)
{
    note_time(n, now_ns);
    n->n_together = 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        if (j->state != ZI_JOB_RUNNING || j->stalled) continue;
        if (n->n_together == ZI_TOGETHER) {
            n->n_together = 0;
            return;
        }
        n->together[n->n_together++] = j->id;
    }
}

void
zi_neighbours_step_began(zi_neighbours *n, zi_job_id job)
{
    zi_pace *p = &n->job[job];

    p->watched = true;
    p->work_ns = 0;
    for (size_t k = 0; k < ZI_NEIGHBOURS; k++) p->beside[k].met_ns = 0;
}

static double
within(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

void
zi_neighbours_step_ended(zi_neighbours *n, zi_job_id job, double solo_ns)
{
    zi_pace *p = &n->job[job];
    double   sum = LEARN_LEAST;

    if (!p->watched || solo_ns <= 0) return;
    double error = p->work_ns / solo_ns - 1;
    for (size_t k = 0; k < ZI_NEIGHBOURS; k++) {
        double met = p->beside[k].met_ns / solo_ns;
        sum += met * met;
    }
    for (size_t k = 0; k < ZI_NEIGHBOURS; k++) {
        zi_neighbour *other = &p->beside[k];
        double cost = other->cost + LEARN * error * (other->met_ns / solo_ns) / sum;
        if (other->cost <= 0) continue;
        if (other->met_ns <= 0) cost += FADE * (COST_GUESS - cost);
        other->cost = (float)within(cost, COST_MIN, COST_MAX);
    }
    p->watched = false;
}

void
zi_neighbours_forget(zi_neighbours *n, zi_job_id job)
{
    n->job[job] = (zi_pace){0};
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++)
        for (size_t k = 0; k < ZI_NEIGHBOURS; k++)
            if (n->job[i].beside[k].id == job) n->job[i].beside[k].cost = 0;
}

void
zi_neighbours_break(zi_neighbours *n)
{
    n->n_together = 0;
    for (size_t i = 0; i < ZI_LEDGER_JOBS_MAX; i++) n->job[i].watched = false;
}

double
zi_neighbours_cost(const zi_neighbours *n, zi_job_id job, zi_job_id other)
{
    const zi_neighbour *known = find(&n->job[job], other);
    return known ? known->cost : COST_GUESS;
}

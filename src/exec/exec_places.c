/* exec_places.c -- inside a broker each thread of a job's team has a core of its own.
 *
 * WHY      Left to the kernel, steps of some thousand short kernels took seconds now and then instead of
 *          0.2 s, and none since: presumably a team's worker was woken on the core of the very thread that
 *          waits for it, and each of the two spun through its slice at every barrier.  And a job that has
 *          one core beside another should not wander onto the other's.
 * HOW      Before a kernel, by the thread that runs it, if the broker has named other cores than
 *          before: that thread stays where it is if it may, the others take the rest in order.
 * MANNERS  Only threads of our own are moved.  OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY are the user's
 *          word, and so is a process that began on a part of the cores (taskset): then cores are
 *          counted among those.  Without a broker the kernel decides.
 */
#include "exec/exec_private.h"

#include <sched.h>
#include <stdlib.h>

#ifdef _OPENMP
#    include <omp.h>
#else
#    define omp_get_thread_num() 0
#endif

void
exec_places_open(zi_exec *e)
{
    exec_places *p = &e->places;
    cpu_set_t    mine;
    unsigned     first;

    *p = (exec_places){0};
    if (!e->session || zi_session_place(e->session, &first) == 0) return;
    if (getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") || getenv("GOMP_CPU_AFFINITY"))
        return;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    for (int c = 0; c < CPU_SETSIZE && p->n_all < EXEC_CORES_MAX; c++)
        if (CPU_ISSET(c, &mine)) p->cpu[p->n_all++] = c;
}

/* The core of the team's k-th thread of those from `first` on, where its 0th has `lead`. */
static unsigned
place_of(unsigned k, unsigned first, unsigned lead)
{
    if (k == 0) return lead;
    unsigned at = first + k - 1;
    return at < lead ? at : at + 1;
}

static void
put_self(const exec_places *p, unsigned first, unsigned n)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = first; i < first + n; i++) CPU_SET(p->cpu[i], &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* or it runs where it was */
}

void
exec_places_keep(zi_exec *e, unsigned n_threads)
{
    exec_places *p = &e->places;

    if (p->n_all < 2) return;
    unsigned n = zi_session_cores(e->session), first = zi_session_first_core(e->session);
    if (first >= p->n_all || n > p->n_all - first) first = 0, n = p->n_all;
    if (first == p->first && n == p->n && n_threads == p->n_threads) return;
    p->first = first;
    p->n = n;
    p->n_threads = n_threads;
    if (p->lead < first || p->lead >= first + n) p->lead = first;
#pragma omp parallel num_threads(n_threads)
    {
        unsigned k = (unsigned)omp_get_thread_num();
        if (n_threads == n)
            put_self(p, place_of(k, first, p->lead), 1);
        else
            put_self(p, first, n);
    }
}

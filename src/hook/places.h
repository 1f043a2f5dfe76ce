/* hook/places.h -- which cores the threads of this program run on while it trains.
 *
 * How many threads a library computes with changes between steps only (threads.h), which cores
 * they run on can change at any moment.  Inside a step all threads are kept to the cores that the
 * broker has given to this program just now, so that two programs with two threads each do not get
 * in each other's way on two cores, and one of them has both as soon as the other waits.  Between
 * steps they run where the program had them.
 *
 * TEAM  Each thread of OpenMP's team has one core of its own among these.  A BLAS has workers of its own, which
 *   yield again and again for 26 ms when they have nothing to do: to the kernel no core is idle then,
 *   and it wakes OpenMP's worker on the core of the very thread that waits for it.  A
 *   transformer's step of 750 ms takes 900 ms so, with hundreds of switches instead of a dozen.
 *
 * MANNERS  A program that was begun on a part of the cores (taskset, OMP_PROC_BIND) is left alone, and
 *   so is each thread that it has put somewhere itself.  Children of fork run everywhere again.  A
 *   program that is started from within a step (vfork, posix_spawn) takes all of them back if it finds
 *   itself where its parent is; if that one's have changed in the millisecond between, it stays.
 */
#ifndef ZI_HOOK_PLACES_H
#define ZI_HOOK_PLACES_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define ZI_PLACES_TEAM_MAX 256u

typedef struct zi_places {
    bool            on;
    pthread_mutex_t mu; /* guards the rest; nothing but the kernel is called with it */
    bool            in_step;
    unsigned        n_all;   /* cores that the program began with: from 0 on        */
    unsigned first[2], n[2]; /* kept to these now, and before; n = 0: everywhere    */
    unsigned n_team;
    int      team[ZI_PLACES_TEAM_MAX]; /* OpenMP's threads, by number */
} zi_places;

/* When the library is loaded.  `started`: by a program, as the first one of this process, that could use
 * every core when it began. */
void zi_places_open(zi_places *p, bool started);

/* A step begins: every thread runs on n cores from `first` on.  None, or some that are not there:
 * everywhere. */
void zi_places_begin(zi_places *p, unsigned first, unsigned n);
/* Within it, by any thread, others; between steps nothing happens. */
void zi_places_keep(zi_places *p, unsigned first, unsigned n);
void zi_places_end(zi_places *p); /* everywhere */

/* Who is in the team.  Between steps. */
void zi_places_team(zi_places *p, const int *tid, unsigned n);

/* In a child of fork: its one thread may run everywhere, and no other is known. */
void zi_places_child(zi_places *p);

#endif /* ZI_HOOK_PLACES_H */

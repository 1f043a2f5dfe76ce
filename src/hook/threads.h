/* hook/threads.h -- how many threads the libraries of this program compute with.
 *
 * PyTorch computes with OpenMP's threads, its matrix products with those of a BLAS, and its own
 * set_num_threads reaches only the first.  Both have a function to choose the number.
 *
 * It is chosen between steps only.  Within an operator memory is taken, for each thread a part,
 * after the number was asked for: a kernel that then runs with more threads writes beyond it, and one
 * with fewer leaves parts as they were.
 */
#ifndef ZI_HOOK_THREADS_H
#define ZI_HOOK_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#define ZI_THREADS_MAX 8u /* libraries that have a number to set */

typedef struct zi_threads {
    void (*set[ZI_THREADS_MAX])(int);
    unsigned n_set;
    int (*count)(void);  /* OpenMP's number, of the calling thread; NULL: no OpenMP */
    int (*inside)(void); /* is it in a parallel piece?                              */
    int (*number)(void); /* of the calling thread in its team                       */
    void (*parallel)(void (*work)(void *), void *arg, unsigned n, unsigned flags);
    int      told;  /* what we have set last; 0: nothing yet                   */
    int      heard; /* the broker's last word; 0: none in this step            */
    uint64_t begin_ns, heard_ns; /* of the step, of that word                       */
    double   core_ns; /* cores x time of the step before it                      */
    bool     own;     /* the program has chosen a number itself                  */
} zi_threads;

/* Look for the libraries among those that are loaded.  Takes the loader's lock: not from within
 * an allocation. */
void zi_threads_find(zi_threads *t);

/* The broker's word, at any time inside a step; the first one begins it.  0 says nothing. */
void zi_threads_hear(zi_threads *t, int n, uint64_t now_ns);

/* The step is over.  Let them use as many threads in the next one as it had cores on average, unless the
 * program has set another number since we did.  A part of a core counts as one from three
 * eighths on: threads that share a core wait for each other's spinning.
 * Between steps, by the thread that computes; inside a parallel piece nothing happens.  True: the
 * number has changed. */
bool zi_threads_use(zi_threads *t, uint64_t now_ns);

/* Who computes: the kernel's numbers of OpenMP's threads in their order, beginning with the caller; 0 if there is
 * no team.  Between steps, by the thread that computes. */
unsigned zi_threads_team(const zi_threads *t, int *ret_tid, unsigned cap);

#endif /* ZI_HOOK_THREADS_H */

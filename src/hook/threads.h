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
    int      told;       /* what we have set last; 0: nothing yet                   */
    int      heard;      /* the broker's last word ...                              */
    uint64_t since_ns;   /* ... since then                                          */
    bool     own;        /* the program has chosen a number itself                  */
} zi_threads;

/* Look for the libraries among those that are loaded.  Takes the loader's lock: not from within
 * an allocation. */
void zi_threads_find(zi_threads *t);

/* The broker's word, at any time; 0 says nothing. */
void zi_threads_hear(zi_threads *t, int n, uint64_t now_ns);

/* Let them use as many threads as was heard last, unless the program has set another number since we
 * did: fewer at once, more when that was so for ZI_THREADS_CALM_NS.  Others pause for a moment
 * between their steps, and a thread that was woken for that moment spins long after it.  Between
 * steps, by the thread that computes; inside a parallel piece nothing happens. */
#define ZI_THREADS_CALM_NS 20000000u
void zi_threads_use(zi_threads *t, uint64_t now_ns);

#endif /* ZI_HOOK_THREADS_H */

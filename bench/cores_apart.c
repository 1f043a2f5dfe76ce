/* cores_apart.c -- how far apart are the cores just now?
 *
 *   cores_apart [milliseconds]      100, if nothing is said
 *
 * Prints the nanoseconds that a cache line takes from the first core that we may use to the last one
 * and back: the least over many short rallies, so that others at work do not matter much; where we may, we
 * go before them (SCHED_FIFO), and two milliseconds are enough.  A virtual
 * machine's cores move about the real ones: once they share a cache, a minute later they do not,
 * and a network trained with both is half as slow again.  Whoever compares two runs wants to know.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_clock.h"

#define RALLY   200 /* strokes there and back: much less than the scheduler's slice */
#define LOST_NS 5000000u /* without an answer: the partner does not run just now */
#define LONG_NS 100000000u
#define LEAST   4u /* rallies: in the first the partner may still be on its way */

static alignas(128) atomic_uint ball;
static alignas(128) atomic_bool over;

static int
core_at(const cpu_set_t *set, bool last)
{
    int found = -1;
    for (int i = 0; i < CPU_SETSIZE && (last || found < 0); i++)
        if (CPU_ISSET(i, set)) found = i;
    return found;
}

static void
pin_to(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    (void)sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
}

/* Sends every odd number back as the even one after it. */
static void *
partner(void *core)
{
    pin_to(*(const int *)core);
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        unsigned is = atomic_load_explicit(&ball, memory_order_acquire);
        if (is & 1) atomic_store_explicit(&ball, is + 1, memory_order_release);
    }
    return NULL;
}

/* Nanoseconds a stroke, or UINT64_MAX if the partner did not run. */
static uint64_t
play(void)
{
    uint64_t from = bench_now_ns();

    for (int i = 0; i < RALLY; i++) {
        unsigned next = atomic_load_explicit(&ball, memory_order_relaxed) + 2;
        atomic_store_explicit(&ball, next - 1, memory_order_release);
        for (unsigned k = 1; atomic_load_explicit(&ball, memory_order_acquire) != next;
             k++)
            if (k % 4096 == 0 && bench_now_ns() - from > LOST_NS) {
                while (atomic_load_explicit(&ball, memory_order_acquire) != next)
                    sched_yield();
                return UINT64_MAX;
            }
    }
    return (bench_now_ns() - from) / RALLY;
}

int
main(int argc, char **argv)
{
    uint64_t  long_ns = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000u : LONG_NS;
    uint64_t  best = UINT64_MAX;
    cpu_set_t mine;
    pthread_t thread;

    if (sched_getaffinity(0, sizeof mine, &mine) < 0 || CPU_COUNT(&mine) < 2) {
        puts("0"); /* one core is not apart from itself */
        return 0;
    }
    int other = core_at(&mine, true);
    if (pthread_create(&thread, NULL, partner, &other) != 0) return 1;
    pin_to(core_at(&mine, false)); /* after it: the partner would begin on our core */
    uint64_t end = bench_now_ns() + long_ns;
    for (unsigned n = 0; bench_now_ns() < end || n < LEAST || best == UINT64_MAX; n++) {
        uint64_t took = play();
        if (took < best) best = took;
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("%llu\n", (unsigned long long)best);
    return 0;
}

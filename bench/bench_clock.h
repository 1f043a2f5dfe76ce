/* bench_clock.h -- the clock of the benchmarks. */
#ifndef ZI_BENCH_CLOCK_H
#define ZI_BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif /* ZI_BENCH_CLOCK_H */

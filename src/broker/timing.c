/* timing.c -- a histogram: eight buckets to each doubling. */
#include "broker/timing.h"

#define SUB 8u

static unsigned
bucket_of(uint64_t ns)
{
    if (ns < SUB) return (unsigned)ns;
    unsigned high = 63u - (unsigned)__builtin_clzll(ns); /* >= 3 */
    return (high - 2u) * SUB + (unsigned)(ns >> (high - 3u) & (SUB - 1u));
}

/* The largest value in the bucket. */
static uint64_t
bucket_most(unsigned i)
{
    if (i < SUB) return i;
    unsigned high = i / SUB + 2u;
    return (((uint64_t)SUB + i % SUB + 1u) << (high - 3u)) - 1u;
}

_Static_assert((63u - 2u) * SUB + SUB <= ZI_TIMING_BUCKETS, "every time has a bucket");

void
zi_timing_add(zi_timing *t, uint64_t ns)
{
    t->bucket[bucket_of(ns)]++;
    t->n++;
    if (ns > t->most_ns) t->most_ns = ns;
}

void
zi_timing_begin(zi_timing *t, const zi_os *os)
{
    t->began_ns = os->now_ns(os);
}

zico_status
zi_timing_end(zi_timing *t, const zi_os *os, zico_status st)
{
    zi_timing_add(t, os->now_ns(os) - t->began_ns);
    return st;
}

uint64_t
zi_timing_quantile(const zi_timing *t, unsigned permille)
{
    uint64_t need = (t->n * permille + 999u) / 1000u, seen = 0;

    if (t->n == 0) return 0;
    for (unsigned i = 0; i < ZI_TIMING_BUCKETS; i++) {
        seen += t->bucket[i];
        if (seen >= need && seen > 0) return bucket_most(i);
    }
    return t->most_ns;
}

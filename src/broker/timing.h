/* broker/timing.h -- how long decisions take: a histogram with steps of 1/8. */
#ifndef ZI_BROKER_TIMING_H
#define ZI_BROKER_TIMING_H

#include "os/os.h"

#define ZI_TIMING_BUCKETS 512u

typedef struct zi_timing {
    uint64_t n;
    uint64_t began_ns;
    uint64_t most_ns;
    uint64_t bucket[ZI_TIMING_BUCKETS];
} zi_timing;

void zi_timing_begin(zi_timing *t, const zi_os *os);
/* Counts the time since begin; hands `st` through. */
zico_status zi_timing_end(zi_timing *t, const zi_os *os, zico_status st);
void        zi_timing_add(zi_timing *t, uint64_t ns);
/* Time that `permille` of 1000 stayed at or below (the bucket's upper end); 0: none yet. */
uint64_t zi_timing_quantile(const zi_timing *t, unsigned permille);

#endif /* ZI_BROKER_TIMING_H */

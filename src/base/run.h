/* base/run.h -- consecutive indices, as (first, how many). */
#ifndef ZI_BASE_RUN_H
#define ZI_BASE_RUN_H

#include <stdint.h>

typedef struct zi_run {
    uint32_t first;
    uint32_t n;
} zi_run;

#endif /* ZI_BASE_RUN_H */

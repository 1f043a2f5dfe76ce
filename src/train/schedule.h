/* schedule.h -- the learning rate as a function of the step number. */
#ifndef ZI_TRAIN_SCHEDULE_H
#define ZI_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "zico/status.h"

typedef enum zi_schedule_kind {
    ZI_SCHEDULE_CONSTANT,
    ZI_SCHEDULE_COSINE, /* down to floor x lr along half a cosine, at the last step   */
    ZI_SCHEDULE_STEP,   /* times `gamma` after every `every` steps                    */
} zi_schedule_kind;

typedef struct zi_schedule {
    zi_schedule_kind kind;
    double           lr;     /* highest */
    uint64_t         warmup; /* steps in which it rises linearly to lr; 0: none   */
    uint64_t         total;  /* COSINE: the last step                             */
    double           floor;  /* COSINE: share of lr at the end                    */
    uint64_t         every;  /* STEP                                              */
    double           gamma;  /* STEP                                              */
} zi_schedule;

/* For step 1, 2, ...: pure, so that a resumed run has the same rates. */
double zi_schedule_lr(const zi_schedule *s, uint64_t step);

/* "constant", "cosine", "step". */
ZICO_NODISCARD zico_status zi_schedule_find(const char *name, zi_schedule_kind *ret_kind);

#endif /* ZI_TRAIN_SCHEDULE_H */

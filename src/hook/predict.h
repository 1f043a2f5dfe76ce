/* hook/predict.h -- will this block outlive the step?  Learnt from the steps before.
 *
 * Training repeats: the k-th block of a size has the same fate in every step.  A block is
 * therefore named by its *key* (size, k), and remembered by whether blocks of that key were
 * still alive when their step ended.  What survived one of the last ZI_PREDICT_MEMORY steps is
 * expected to survive again and must not live in the pool.
 *
 * HINTS       Sizes handed to zi_predict_hint are those of the parameters: gradients and optimizer
 *             state have the same.  They count as surviving until a key of that size was seen to die
 *             ZI_PREDICT_HINTED times in a row: the gradients of a second network appear
 *             after several steps of the first, and in the pool they would stay for good.
 * ODD STEPS   An evaluation phase has keys of its own (larger k); those that training never
 *             reaches keep their memory until they are met again.
 * Pure; all memory is in the struct.  When a table is full the answer is ZI_FATE_UNKNOWN.
 */
#ifndef ZI_HOOK_PREDICT_H
#define ZI_HOOK_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZI_PREDICT_SIZES_MAX 1024u /* powers of two */
#define ZI_PREDICT_KEYS_MAX  16384u
#define ZI_PREDICT_MEMORY    2u
#define ZI_PREDICT_HINTED    8u /* bits of a history */
#define ZI_PREDICT_NONE      UINT32_MAX

typedef enum zi_fate {
    ZI_FATE_UNKNOWN, /* never seen        */
    ZI_FATE_STEP,    /* dies within its step */
    ZI_FATE_OUTLIVES,
} zi_fate;

typedef struct zi_predict_size {
    uint64_t size_bytes; /* 0: empty slot */
    uint32_t step;       /* `n` counts this step's blocks */
    uint32_t n;
    bool     hinted;
} zi_predict_size;

typedef struct zi_predict_key {
    uint64_t size_bytes; /* 0: empty slot */
    uint32_t k;
    uint32_t step;    /* last step in which it was taken */
    uint8_t  alive;   /* blocks of that step still alive */
    uint8_t  seen;    /* finished steps seen, saturating */
    uint8_t  history; /* bit per step seen, newest lowest: 1: outlived it */
} zi_predict_key;

typedef struct zi_predict {
    uint32_t        step; /* 0 is before the first end */
    uint32_t        n_sizes, n_keys, n_taken;
    uint32_t        n_surprises; /* blocks put in the pool that outlived their step */
    zi_predict_size size[ZI_PREDICT_SIZES_MAX];
    zi_predict_key  key[ZI_PREDICT_KEYS_MAX];
    uint32_t        taken[ZI_PREDICT_KEYS_MAX]; /* keys taken in this step */
} zi_predict;

/* All zeroes is an empty one. */
void zi_predict_hint(zi_predict *p, uint64_t size_bytes);

/* A block is taken: its key (ZI_PREDICT_NONE: tables are full) and what to expect. */
uint32_t zi_predict_take(zi_predict *p, uint64_t size_bytes, zi_fate *ret_fate);

/* The step in which a key was taken, to be given back with it. */
static inline uint32_t
zi_predict_step(const zi_predict *p)
{
    return p->step;
}

/* A block with this key, taken in `step`, is freed. */
void zi_predict_drop(zi_predict *p, uint32_t key, uint32_t step);

/* The step is over: what is alive now has outlived it. */
void zi_predict_end(zi_predict *p);

#endif /* ZI_HOOK_PREDICT_H */

/* base/rng.h -- random numbers that can be had again.
 *
 * zi_rng is a sequence, for shuffling, weights and tests (xoshiro256**, seeded
 * by splitmix64; D. Blackman, S. Vigna, 2018).  zi_philox is a pure function of
 * (seed, counter), for dropout: a forward pass that is recomputed draws the same
 * mask, in any order and on any number of threads (J. Salmon and others, Parallel
 * Random Numbers: As Easy as 1, 2, 3, SC 2011; philox4x32-10).
 */
#ifndef ZI_BASE_RNG_H
#define ZI_BASE_RNG_H

#include <stdint.h>

typedef struct zi_rng {
    uint64_t s[4];
} zi_rng;

/* The next of splitmix64; *state is any number. */
uint64_t zi_splitmix(uint64_t *state);

zi_rng   zi_rng_seed(uint64_t seed);
uint64_t zi_rng_next(zi_rng *r);
uint64_t zi_rng_below(zi_rng *r, uint64_t n); /* 0 .. n-1 without bias; n > 0 */
double   zi_rng_unit(zi_rng *r);              /* [0, 1), 53 bits */

/* Philox's own form: ten rounds over a 128-bit counter with a 64-bit key. */
void zi_philox_raw(const uint32_t ctr[4], const uint32_t key[2], uint32_t ret[4]);

/* Four numbers for the i-th group of a stream. */
void zi_philox(uint64_t seed, uint64_t stream, uint64_t i, uint32_t ret[4]);

/* [0, 1) from 24 bits. */
static inline float
zi_unit_f32(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

#endif /* ZI_BASE_RNG_H */

/* random.h -- the random numbers of a graph: a pure function of where they are used.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3.
 * SC'11).  Element i of a random node at step s draws lane i%4 of the block with
 *   counter = { i/4 low, i/4 high, stream, s }   key = { seed low, seed high }
 * so any kernel, on any thread, in any order, first run or recompute, draws the same.
 */
#ifndef ZI_GRAPH_RANDOM_H
#define ZI_GRAPH_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline void
zi_graph_philox(uint64_t block, uint32_t stream, uint32_t step, uint64_t seed,
                uint32_t ret_lane[4])
{
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), stream, step};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) ret_lane[i] = c[i];
}

/* An element is kept iff its lane is at or above this. */
static inline uint64_t
zi_graph_drop_threshold(double p)
{
    return (uint64_t)(p * 4294967296.0);
}

#endif /* ZI_GRAPH_RANDOM_H */

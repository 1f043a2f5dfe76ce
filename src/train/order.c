/* order.c -- a shuffle that is a function, not a list.
 *
 * A balanced Feistel network over the smallest even number of bits that holds n, keyed by
 * seed and epoch; results >= n are sent through again (cycle walking: J. Black, P. Rogaway,
 * Ciphers with Arbitrary Finite Domains, CT-RSA 2002).  At most 4 passes are expected.
 */
#include "train/data.h"

#include "base/check.h"
#include "base/hash.h"

#define ROUNDS 4

static uint64_t
feistel(uint64_t v, unsigned half, uint64_t key)
{
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = v >> half, right = v & mask;

    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint64_t next = left ^ (zi_hash_mix(right ^ key ^ (r << 56)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t
zi_order_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t pos)
{
    unsigned half = 1;
    uint64_t key = zi_hash_mix(zi_hash_mix(seed) + epoch);

    zi_assert(pos < n && n <= (uint64_t)1 << 62);
    while (half < 31 && (uint64_t)1 << (2 * half) < n) half++;
    do {
        pos = feistel(pos, half, key);
    } while (pos >= n);
    return pos;
}

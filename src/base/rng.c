/* rng.c -- splitmix64, xoshiro256**, philox4x32-10. */
#include "base/rng.h"

#include "base/check.h"

uint64_t
zi_splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

zi_rng
zi_rng_seed(uint64_t seed)
{
    zi_rng r;
    for (int i = 0; i < 4; i++) r.s[i] = zi_splitmix(&seed);
    return r;
}

static uint64_t
rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t
zi_rng_next(zi_rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t
zi_rng_below(zi_rng *r, uint64_t n)
{
    zi_assert(n > 0);
    if (n <= 1) return 0;
    uint64_t x, reject = (0 - n) % n; /* 2^64 mod n: the part that would bias */
    do x = zi_rng_next(r);
    while (x < reject);
    return x % n;
}

double
zi_rng_unit(zi_rng *r)
{
    return (double)(zi_rng_next(r) >> 11) * 0x1p-53;
}

void
zi_philox_raw(const uint32_t ctr[4], const uint32_t key[2], uint32_t ret[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ret[0] = c0;
    ret[1] = c1;
    ret[2] = c2;
    ret[3] = c3;
}

void
zi_philox(uint64_t seed, uint64_t stream, uint64_t i, uint32_t ret[4])
{
    uint32_t ctr[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)stream,
                       (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    zi_philox_raw(ctr, key, ret);
}

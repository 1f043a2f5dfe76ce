/* region_map.c -- sets of regions; every search goes word by word. */
#include "ledger/region_map.h"

#include "base/alloc.h"
#include "base/check.h"

#define NONE UINT32_MAX

zico_status
zi_region_map_open(zi_region_map *m, uint32_t n_bits, bool full)
{
    uint32_t  n_words = n_bits / 64 + (n_bits % 64 != 0);
    uint64_t *word = zi_calloc(n_words ? n_words : 1, sizeof *word);

    if (!word) return ZICO_E_NOMEM;
    *m = (zi_region_map){.n_bits = n_bits, .n_words = n_words, .word = word};
    if (full) {
        for (uint32_t i = 0; i < n_words; i++) word[i] = UINT64_MAX;
        if (n_bits % 64) word[n_words - 1] = (1ull << (n_bits % 64)) - 1;
        m->n_set = n_bits;
    }
    return ZICO_OK;
}

void
zi_region_map_close(zi_region_map *m)
{
    zi_free(m->word);
    *m = (zi_region_map){0};
}

bool
zi_region_map_has(const zi_region_map *m, uint32_t bit)
{
    zi_assert(bit < m->n_bits);
    return (m->word[bit / 64] >> (bit % 64)) & 1u;
}

void
zi_region_map_add(zi_region_map *m, uint32_t bit)
{
    zi_assert(!zi_region_map_has(m, bit));
    m->word[bit / 64] |= 1ull << (bit % 64);
    m->n_set++;
    if (bit / 64 < m->low) m->low = bit / 64;
}

void
zi_region_map_remove(zi_region_map *m, uint32_t bit)
{
    zi_assert(zi_region_map_has(m, bit));
    m->word[bit / 64] &= ~(1ull << (bit % 64));
    m->n_set--;
    while (m->low < m->n_words && m->word[m->low] == 0) m->low++;
}

uint32_t
zi_region_map_next(const zi_region_map *m, uint32_t from)
{
    uint32_t w = from / 64;

    if (from >= m->n_bits || m->n_set == 0) return NONE;
    uint64_t rest = m->word[w] & (UINT64_MAX << (from % 64));
    if (rest == 0 && w < m->low) w = m->low - 1; /* nothing before `low` */
    while (rest == 0) {
        if (++w >= m->n_words) return NONE;
        rest = m->word[w];
    }
    return w * 64 + (uint32_t)__builtin_ctzll(rest);
}

uint32_t
zi_region_map_highest(const zi_region_map *m)
{
    for (uint32_t w = m->n_words; m->n_set && w-- > m->low;)
        if (m->word[w]) return w * 64 + 63 - (uint32_t)__builtin_clzll(m->word[w]);
    return NONE;
}

uint32_t
zi_region_map_find_run(const zi_region_map *m, const zi_region_map *also, uint32_t n)
{
    uint32_t run = 0; /* set bits that end where the current word begins */

    zi_assert(n > 0 && (!also || also->n_bits == m->n_bits));
    for (uint32_t w = 0; w < m->n_words; w++) {
        uint64_t bits = m->word[w] | (also ? also->word[w] : 0);
        uint32_t at = 0;
        while (at < 64) {
            uint64_t rest = bits >> at;
            uint32_t ones = ~rest ? (uint32_t)__builtin_ctzll(~rest) : 64;
            if (ones > 64 - at) ones = 64 - at;
            if (run + ones >= n) return w * 64 + at - run;
            if (at + ones == 64) { /* goes on in the next word */
                run += ones;
                break;
            }
            run = 0;
            at += ones;
            rest = bits >> at;
            if (rest == 0) break;
            at += (uint32_t)__builtin_ctzll(rest);
        }
        if (bits >> 63 == 0) run = 0;
    }
    return NONE;
}

uint32_t
zi_region_map_find_run_below(const zi_region_map *m, const zi_region_map *also,
                             uint32_t n, uint32_t end)
{
    uint32_t run = 0;

    zi_assert(n > 0 && (!also || also->n_bits == m->n_bits));
    if (end > m->n_bits) end = m->n_bits;
    for (uint32_t bit = end; bit-- > 0;) {
        uint64_t bits = m->word[bit / 64] | (also ? also->word[bit / 64] : 0);
        if ((bits >> (bit % 64) & 1u) == 0) {
            run = 0;
            if (bits == 0) bit -= bit % 64; /* nothing in this word */
        } else if (++run == n) {
            return bit;
        }
    }
    return NONE;
}

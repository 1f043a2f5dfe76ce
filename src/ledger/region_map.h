/* ledger/region_map.h -- a set of region numbers, as words of bits; private to the room. */
#ifndef ZI_LEDGER_REGION_MAP_H
#define ZI_LEDGER_REGION_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

typedef struct zi_region_map {
    uint32_t  n_bits;
    uint32_t  n_words;
    uint32_t  n_set;
    uint32_t  low;  /* no bit is set in a word before this one */
    uint64_t *word; /* bits past n_bits are 0 */
} zi_region_map;

zico_status zi_region_map_open(zi_region_map *m, uint32_t n_bits, bool full);
void        zi_region_map_close(zi_region_map *m);

bool zi_region_map_has(const zi_region_map *m, uint32_t bit);
void zi_region_map_add(zi_region_map *m, uint32_t bit);    /* asserts that it was out */
void zi_region_map_remove(zi_region_map *m, uint32_t bit); /* asserts that it was in  */

/* UINT32_MAX: none.  Lowest at or after `from`; highest of all. */
uint32_t zi_region_map_next(const zi_region_map *m, uint32_t from);
uint32_t zi_region_map_highest(const zi_region_map *m);

/* First of the lowest run of `n` consecutive bits that are set in `m` or in `also` (may be
 * NULL); UINT32_MAX: none. */
uint32_t
zi_region_map_find_run(const zi_region_map *m, const zi_region_map *also, uint32_t n);

/* First of the highest such run that ends at or before `end`. */
uint32_t zi_region_map_find_run_below(const zi_region_map *m, const zi_region_map *also,
                                      uint32_t n, uint32_t end);

#endif /* ZI_LEDGER_REGION_MAP_H */

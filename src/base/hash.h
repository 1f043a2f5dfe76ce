/* base/hash.h -- a map from 64-bit keys to 64-bit values.
 *
 * Open addressing, linear probing, at most three quarters full; removal closes
 * the gap, so there are no tombstones and no slow ageing.  All zeroes is an
 * empty map.  Every key is allowed, 0 too.
 */
#ifndef ZI_BASE_HASH_H
#define ZI_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zico/status.h"

typedef struct zi_hash_slot {
    uint64_t key;
    uint64_t value;
    bool     used;
} zi_hash_slot;

typedef struct zi_hash {
    zi_hash_slot *slot;
    size_t        n;   /* keys in the map */
    size_t        cap; /* slots; 0 or a power of two */
} zi_hash;

/* Set key to value, new or not.  ZICO_E_NOMEM leaves the map as it was; setting a
 * key that is already there never fails. */
ZICO_NODISCARD zico_status zi_hash_put(zi_hash *h, uint64_t key, uint64_t value);

/* Where the key's value lies, until the next put or remove; NULL: not there. */
uint64_t *zi_hash_find(const zi_hash *h, uint64_t key);

/* The key's value, or `otherwise`. */
uint64_t zi_hash_get(const zi_hash *h, uint64_t key, uint64_t otherwise);

/* Whether the key was there. */
bool zi_hash_remove(zi_hash *h, uint64_t key);

/* Room for n keys in all, so that puts up to there cannot fail. */
ZICO_NODISCARD zico_status zi_hash_reserve(zi_hash *h, size_t n);

/* for (size_t i = 0; zi_hash_next(h, &i, &key, &value);) ...   no put or remove inside */
bool zi_hash_next(const zi_hash *h, size_t *i, uint64_t *ret_key, uint64_t *ret_value);

void zi_hash_clear(zi_hash *h);
void zi_hash_free(zi_hash *h);

/* A good mixer of 64 bits, for other tables. */
uint64_t zi_hash_mix(uint64_t x);

/* FNV-1a of a string of bytes, mixed. */
uint64_t zi_hash_bytes(const void *at, size_t n);

#endif /* ZI_BASE_HASH_H */

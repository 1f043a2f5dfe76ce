/* hash.c -- open addressing with backward-shift removal. */
#include "base/hash.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

uint64_t
zi_hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

uint64_t
zi_hash_bytes(const void *at, size_t n)
{
    const unsigned char *p = at;
    uint64_t             h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return zi_hash_mix(h);
}

static size_t
home(const zi_hash *h, uint64_t key)
{
    return (size_t)zi_hash_mix(key) & (h->cap - 1);
}

/* The slot that holds the key, or the free one where it belongs; cap > 0, not full. */
static size_t
probe(const zi_hash *h, uint64_t key)
{
    size_t i = home(h, key);

    zi_assert(h->n < h->cap);
    while (h->slot[i].used && h->slot[i].key != key) i = (i + 1) & (h->cap - 1);
    return i;
}

static zico_status
rehash(zi_hash *h, size_t cap)
{
    zi_hash bigger = {.cap = cap, .n = h->n};

    bigger.slot = zi_calloc(cap, sizeof *bigger.slot);
    if (!bigger.slot) return ZICO_E_NOMEM;
    for (size_t i = 0; i < h->cap; i++)
        if (h->slot[i].used) bigger.slot[probe(&bigger, h->slot[i].key)] = h->slot[i];
    zi_free(h->slot);
    *h = bigger;
    return ZICO_OK;
}

zico_status
zi_hash_reserve(zi_hash *h, size_t n)
{
    size_t cap = h->cap ? h->cap : 16;

    while (cap - cap / 4 < n) {
        if (cap > SIZE_MAX / 2 / sizeof *h->slot) return ZICO_E_NOMEM;
        cap *= 2;
    }
    return cap == h->cap ? ZICO_OK : rehash(h, cap);
}

zico_status
zi_hash_put(zi_hash *h, uint64_t key, uint64_t value)
{
    uint64_t *there = zi_hash_find(h, key);

    if (there) {
        *there = value;
        return ZICO_OK;
    }
    if (zi_hash_reserve(h, h->n + 1) < 0) return ZICO_E_NOMEM;
    h->slot[probe(h, key)] = (zi_hash_slot){.key = key, .value = value, .used = true};
    h->n++;
    return ZICO_OK;
}

uint64_t *
zi_hash_find(const zi_hash *h, uint64_t key)
{
    if (h->n == 0) return NULL;
    zi_hash_slot *s = &h->slot[probe(h, key)];
    return s->used ? &s->value : NULL;
}

uint64_t
zi_hash_get(const zi_hash *h, uint64_t key, uint64_t otherwise)
{
    const uint64_t *v = zi_hash_find(h, key);
    return v ? *v : otherwise;
}

bool
zi_hash_remove(zi_hash *h, uint64_t key)
{
    if (!zi_hash_find(h, key)) return false;

    size_t mask = h->cap - 1, gap = probe(h, key);
    for (size_t i = (gap + 1) & mask; h->slot[i].used; i = (i + 1) & mask) {
        /* a key may fill the gap if its home does not lie behind the gap */
        size_t from_home = (i - home(h, h->slot[i].key)) & mask;
        if (from_home < ((i - gap) & mask)) continue;
        h->slot[gap] = h->slot[i];
        gap = i;
    }
    h->slot[gap].used = false;
    h->n--;
    return true;
}

bool
zi_hash_next(const zi_hash *h, size_t *i, uint64_t *ret_key, uint64_t *ret_value)
{
    while (*i < h->cap && !h->slot[*i].used) (*i)++;
    if (*i >= h->cap) return false;
    if (ret_key) *ret_key = h->slot[*i].key;
    if (ret_value) *ret_value = h->slot[*i].value;
    (*i)++;
    return true;
}

void
zi_hash_clear(zi_hash *h)
{
    if (h->cap) memset(h->slot, 0, h->cap * sizeof *h->slot);
    h->n = 0;
}

void
zi_hash_free(zi_hash *h)
{
    zi_free(h->slot);
    *h = (zi_hash){0};
}

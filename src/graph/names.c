/* names.c -- open addressing with linear probing; never more than half full. */
#include "graph/names.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <string.h>

typedef struct entry {
    const char *key; /* NULL: free */
    uint32_t    id;
    uint32_t    kind;
} entry;

struct zi_names {
    entry   *slot;
    uint32_t n_slots; /* a power of two */
    uint32_t n_used;
};

zico_status
zi_names_new(zi_names **ret_names)
{
    zi_names *n = zi_calloc(1, sizeof *n);
    if (!n) return ZICO_E_NOMEM;
    n->n_slots = 256;
    n->slot = zi_calloc(n->n_slots, sizeof *n->slot);
    if (!n->slot) {
        zi_free(n);
        return ZICO_E_NOMEM;
    }
    *ret_names = n;
    return ZICO_OK;
}

void
zi_names_free(zi_names *n)
{
    if (!n) return;
    zi_free(n->slot);
    zi_free(n);
}

void
zi_names_clear(zi_names *n)
{
    memset(n->slot, 0, n->n_slots * sizeof *n->slot);
    n->n_used = 0;
}

/* Where the key is, or the free slot where it belongs. */
static entry *
find(const zi_names *n, uint32_t kind, const char *key)
{
    uint64_t h = 14695981039346656037u ^ kind; /* FNV-1a */
    for (const char *p = key; *p; p++) h = (h ^ (uint8_t)*p) * 1099511628211u;

    uint32_t at = (uint32_t)(h ^ (h >> 32)) & (n->n_slots - 1);
    while (n->slot[at].key &&
           (n->slot[at].kind != kind || strcmp(n->slot[at].key, key) != 0))
        at = (at + 1) & (n->n_slots - 1);
    return &n->slot[at];
}

static zico_status
grow(zi_names *n)
{
    zi_names bigger = {.n_slots = n->n_slots * 2, .n_used = n->n_used};
    bigger.slot = zi_calloc(bigger.n_slots, sizeof *bigger.slot);
    if (!bigger.slot) return ZICO_E_NOMEM;
    for (uint32_t i = 0; i < n->n_slots; i++) {
        if (n->slot[i].key) *find(&bigger, n->slot[i].kind, n->slot[i].key) = n->slot[i];
    }
    zi_free(n->slot);
    *n = bigger;
    return ZICO_OK;
}

zico_status
zi_names_put(zi_names *n, zi_name_kind kind, const char *key, uint32_t id)
{
    if (2 * (n->n_used + 1) > n->n_slots) ZI_TRY(grow(n));
    entry *e = find(n, kind, key);
    zi_assert(!e->key);
    *e = (entry){.key = key, .id = id, .kind = kind};
    n->n_used++;
    return ZICO_OK;
}

uint32_t
zi_names_get(const zi_names *n, zi_name_kind kind, const char *key)
{
    const entry *e = find(n, kind, key);
    return e->key ? e->id : UINT32_MAX;
}

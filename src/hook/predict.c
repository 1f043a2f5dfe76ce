/* predict.c -- two open-addressed tables: sizes (to count k) and keys (to remember). */
#include "hook/predict.h"

#include "base/check.h"
#include "base/hash.h"

_Static_assert((ZI_PREDICT_SIZES_MAX & (ZI_PREDICT_SIZES_MAX - 1)) == 0, "power of two");
_Static_assert((ZI_PREDICT_KEYS_MAX & (ZI_PREDICT_KEYS_MAX - 1)) == 0, "power of two");

static zi_predict_size *
find_size(zi_predict *p, uint64_t size_bytes)
{
    uint64_t h = zi_hash_mix(size_bytes);

    for (uint32_t i = 0; i < ZI_PREDICT_SIZES_MAX; i++) {
        zi_predict_size *s = &p->size[(h + i) & (ZI_PREDICT_SIZES_MAX - 1)];
        if (s->size_bytes == size_bytes) return s;
        if (s->size_bytes != 0) continue;
        if (p->n_sizes >= ZI_PREDICT_SIZES_MAX / 4 * 3) return NULL;
        p->n_sizes++;
        s->size_bytes = size_bytes;
        return s;
    }
    return NULL;
}

static uint32_t
find_key(zi_predict *p, uint64_t size_bytes, uint32_t k)
{
    uint64_t h = zi_hash_mix(size_bytes * 0x9e3779b97f4a7c15u + k);

    for (uint32_t i = 0; i < ZI_PREDICT_KEYS_MAX; i++) {
        uint32_t        at = (uint32_t)((h + i) & (ZI_PREDICT_KEYS_MAX - 1));
        zi_predict_key *x = &p->key[at];
        if (x->size_bytes == size_bytes && x->k == k) return at;
        if (x->size_bytes != 0) continue;
        if (p->n_keys >= ZI_PREDICT_KEYS_MAX / 4 * 3) return ZI_PREDICT_NONE;
        p->n_keys++;
        x->size_bytes = size_bytes;
        x->k = k;
        return at;
    }
    return ZI_PREDICT_NONE;
}

void
zi_predict_hint(zi_predict *p, uint64_t size_bytes)
{
    zi_predict_size *s = size_bytes ? find_size(p, size_bytes) : NULL;
    if (s) s->hinted = true;
}

static zi_fate
fate_of(const zi_predict_key *x, bool hinted)
{
    unsigned memory = hinted ? ZI_PREDICT_HINTED : ZI_PREDICT_MEMORY;

    if (x->seen < (hinted ? memory : 1))
        return hinted ? ZI_FATE_OUTLIVES : ZI_FATE_UNKNOWN;
    return x->history & ((1u << memory) - 1) ? ZI_FATE_OUTLIVES : ZI_FATE_STEP;
}

uint32_t
zi_predict_take(zi_predict *p, uint64_t size_bytes, zi_fate *ret_fate)
{
    *ret_fate = ZI_FATE_UNKNOWN;
    zi_predict_size *s = size_bytes ? find_size(p, size_bytes) : NULL;
    if (!s) return ZI_PREDICT_NONE;
    if (s->step != p->step) {
        s->step = p->step;
        s->n = 0;
    }
    uint32_t at = find_key(p, size_bytes, s->n);
    if (at == ZI_PREDICT_NONE || p->n_taken == ZI_PREDICT_KEYS_MAX)
        return ZI_PREDICT_NONE;
    s->n++;
    zi_predict_key *x = &p->key[at];
    x->step = p->step;
    x->alive = 1;
    p->taken[p->n_taken++] = at;
    *ret_fate = fate_of(x, s->hinted);
    return at;
}

void
zi_predict_drop(zi_predict *p, uint32_t key, uint32_t step)
{
    if (key >= ZI_PREDICT_KEYS_MAX || step != p->step) return;
    p->key[key].alive = 0;
}

void
zi_predict_end(zi_predict *p)
{
    for (uint32_t i = 0; i < p->n_taken; i++) {
        zi_predict_key *x = &p->key[p->taken[i]];
        zi_assert(x->step == p->step);
        x->history = (uint8_t)(x->history << 1 | x->alive);
        if (x->seen < UINT8_MAX) x->seen++;
    }
    p->n_taken = 0;
    p->step++;
}

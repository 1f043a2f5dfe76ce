/* vec.c -- growth of typed arrays. */
#include "base/vec.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

zico_status
zi_vec_grow_(void *ret_at, size_t *cap, size_t want, size_t elem_bytes)
{
    void  *at;
    size_t more = *cap < 8 ? 8 : *cap;

    if (__builtin_add_overflow(*cap, more / 2 + 1, &more) || more < want) more = want;
    memcpy(&at, ret_at, sizeof at); /* a pointer of any type, seen as bytes */
    at = zi_realloc_array(at, more, elem_bytes);
    if (!at) return ZICO_E_NOMEM;
    memcpy(ret_at, &at, sizeof at);
    *cap = more;
    return ZICO_OK;
}

zico_status
zi_vec_resize_(void *ret_at, size_t *n, size_t *cap, size_t want, size_t elem_bytes)
{
    char *at;

    if (want > *cap && zi_vec_grow_(ret_at, cap, want, elem_bytes) < 0)
        return ZICO_E_NOMEM;
    memcpy(&at, ret_at, sizeof at);
    if (want > *n) memset(at + *n * elem_bytes, 0, (want - *n) * elem_bytes);
    *n = want;
    return ZICO_OK;
}

void
zi_vec_remove_(void *at, size_t *n, size_t i, size_t elem_bytes)
{
    zi_assert(i < *n);
    char *p = (char *)at + i * elem_bytes;
    memmove(p, p + elem_bytes, (*n - i - 1) * elem_bytes);
    (*n)--;
}

void
zi_vec_drop_(void *at)
{
    zi_free(at);
}

/* base/vec.h -- a typed array that grows.
 *
 *     ZI_VEC(zi_job_id) waiting = {0};
 *     ZI_TRY(zi_vec_push(&waiting, id));
 *     for (size_t i = 0; i < waiting.n; i++) use(waiting.at[i]);
 *     zi_vec_free(&waiting);
 *
 * All zeroes is an empty one.  Elements move when it grows: keep indexes, not
 * pointers.  `v` is evaluated more than once.
 */
#ifndef ZI_BASE_VEC_H
#define ZI_BASE_VEC_H

#include <stddef.h>

#include "base/check.h"
#include "zico/status.h"

#define ZI_VEC(type)                                                                     \
    struct {                                                                             \
        type  *at;                                                                       \
        size_t n;   /* elements in use */                                                \
        size_t cap; /* elements there is room for */                                     \
    }

/* Room for `want` elements in all.  ZICO_E_NOMEM leaves everything as it was. */
#define zi_vec_reserve(v, want)                                                          \
    ((size_t)(want) <= (v)->cap                                                          \
         ? ZICO_OK                                                                       \
         : zi_vec_grow_(&(v)->at, &(v)->cap, (size_t)(want), sizeof *(v)->at))

#define zi_vec_push(v, ...)                                                              \
    (zi_vec_reserve((v), (v)->n + 1) < 0                                                 \
         ? ZICO_E_NOMEM                                                                  \
         : ((v)->at[(v)->n] = (__VA_ARGS__), (v)->n++, ZICO_OK))

/* `want` elements in use; new ones are zero. */
#define zi_vec_resize(v, want)                                                           \
    zi_vec_resize_(&(v)->at, &(v)->n, &(v)->cap, (size_t)(want), sizeof *(v)->at)

#define zi_vec_last(v) ((v)->at[zi_vec_index_((v)->n - 1, (v)->n)])
#define zi_vec_pop(v)  ((v)->at[(v)->n = zi_vec_index_((v)->n - 1, (v)->n)])

/* Take out element i: the last takes its place, or all move up and keep order. */
#define zi_vec_remove_swap(v, i)                                                         \
    ((v)->at[zi_vec_index_((i), (v)->n)] = (v)->at[(v)->n - 1], (void)(v)->n--)
#define zi_vec_remove(v, i) zi_vec_remove_((v)->at, &(v)->n, (size_t)(i), sizeof *(v)->at)

#define zi_vec_clear(v) ((void)((v)->n = 0))
#define zi_vec_free(v)                                                                   \
    (zi_vec_drop_((v)->at), (v)->at = NULL, (v)->cap = 0, (void)((v)->n = 0))

/* `ret_at` is the address of a pointer of any type. */
ZICO_NODISCARD zico_status zi_vec_grow_(void *ret_at, size_t *cap, size_t want,
                                        size_t elem_bytes);
ZICO_NODISCARD zico_status zi_vec_resize_(void *ret_at, size_t *n, size_t *cap,
                                          size_t want, size_t elem_bytes);
void zi_vec_remove_(void *at, size_t *n, size_t i, size_t elem_bytes);
void zi_vec_drop_(void *at);

static inline size_t
zi_vec_index_(size_t i, size_t n)
{
    zi_assert(i < n);
    return i;
}

#endif /* ZI_BASE_VEC_H */

/* base/alloc.h -- the one way our rooms get heap memory, so that tests can take it away.
 *
 * Thread-safe.  The n-th call since zi_alloc_fail_at(n) fails, once; a test that
 * runs its story for n = 1, 2, ... until nothing fails has seen every failure.
 */
#ifndef ZI_BASE_ALLOC_H
#define ZI_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* As in the C library; NULL when memory is exhausted or a test says so.
 * zi_calloc and zi_realloc_array refuse products that overflow.  A size of 0
 * gives a block that may be freed. */
void *zi_malloc(size_t size_bytes) __attribute__((malloc, warn_unused_result));
void *zi_calloc(size_t n, size_t size_bytes) __attribute__((malloc, warn_unused_result));
void *zi_realloc(void *p, size_t size_bytes) __attribute__((warn_unused_result));
void *zi_realloc_array(void *p, size_t n, size_t size_bytes)
    __attribute__((warn_unused_result));
char *zi_strdup(const char *s) __attribute__((malloc, warn_unused_result));
void  zi_free(void *p);

/* The n-th call from now on fails (1 is the next); 0: none does. */
void zi_alloc_fail_at(uint64_t n);

/* Whether the call set by zi_alloc_fail_at has come and failed. */
int zi_alloc_has_failed(void);

/* Blocks that are allocated and not freed, in the whole process. */
int64_t zi_alloc_n_live(void);

#endif /* ZI_BASE_ALLOC_H */

/* alloc.c -- the C library's heap, with a count and a failure on demand. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct {
    atomic_int_least64_t to_fail; /* calls until the one that fails; <= 0: none */
    atomic_int           failed;  /* that call has come */
    atomic_int_least64_t n_live;
} heap;

/* Counting down only while armed keeps the common path to one relaxed load. */
static int
must_fail(void)
{
    if (atomic_load_explicit(&heap.to_fail, memory_order_relaxed) <= 0) return 0;
    if (atomic_fetch_sub(&heap.to_fail, 1) != 1) return 0;
    atomic_store(&heap.failed, 1);
    return 1;
}

static void *
counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&heap.n_live, 1, memory_order_relaxed);
    return p;
}

void *
zi_malloc(size_t size_bytes)
{
    if (must_fail()) return NULL;
    return counted(malloc(size_bytes ? size_bytes : 1));
}

void *
zi_calloc(size_t n, size_t size_bytes)
{
    if (must_fail()) return NULL;
    if (n == 0 || size_bytes == 0) n = size_bytes = 1;
    return counted(calloc(n, size_bytes));
}

void *
zi_realloc(void *p, size_t size_bytes)
{
    if (must_fail()) return NULL;
    void *q = realloc(p, size_bytes ? size_bytes : 1);
    return p ? q : counted(q);
}

void *
zi_realloc_array(void *p, size_t n, size_t size_bytes)
{
    size_t total;
    if (__builtin_mul_overflow(n, size_bytes, &total)) return NULL;
    return zi_realloc(p, total);
}

char *
zi_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char  *copy = zi_malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

void
zi_free(void *p)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&heap.n_live, 1, memory_order_relaxed);
    free(p);
}

void
zi_alloc_fail_at(uint64_t n)
{
    atomic_store(&heap.failed, 0);
    atomic_store(&heap.to_fail, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

int
zi_alloc_has_failed(void)
{
    return atomic_load(&heap.failed);
}

int64_t
zi_alloc_n_live(void)
{
    return atomic_load(&heap.n_live);
}

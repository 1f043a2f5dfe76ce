/* check.c -- what happens when an assertion fails. */
#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic(zi_check_handler *) handler; /* NULL: say it and abort */
static atomic_ulong                n_failed;

/* Append to a line, without stdio or allocation: the heap may be what is broken. */
static size_t
append(char *line, size_t cap, size_t n, const char *s)
{
    while (*s && n + 1 < cap) line[n++] = *s++;
    return n;
}

static void
say_and_abort(const char *file, int line, const char *func, const char *expr)
{
    char   text[512], digits[12];
    size_t n = 0, d = sizeof digits;

    digits[--d] = '\0';
    do digits[--d] = (char)('0' + line % 10);
    while ((line /= 10) > 0);

    n = append(text, sizeof text, n, "zico: assertion failed at ");
    n = append(text, sizeof text, n, file);
    n = append(text, sizeof text, n, ":");
    n = append(text, sizeof text, n, digits + d);
    n = append(text, sizeof text, n, " in ");
    n = append(text, sizeof text, n, func);
    n = append(text, sizeof text, n, ": ");
    n = append(text, sizeof text - 1, n, expr);
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, n) < 0) n = 0; /* nothing more can be done */
    abort();
}

zi_check_handler *
zi_check_set_handler(zi_check_handler *h)
{
    return atomic_exchange(&handler, h);
}

unsigned long
zi_check_n_failed(void)
{
    return atomic_load(&n_failed);
}

void
zi_check_fail(const char *file, int line, const char *func, const char *expr)
{
    zi_check_handler *h = atomic_load(&handler);

    atomic_fetch_add(&n_failed, 1);
    if (!h) h = say_and_abort;
    h(file, line, func, expr);
}

/* base/str.h -- text that grows.
 *
 * Failure sticks: after the first allocation that fails nothing is added any
 * more and zi_str_status says ZICO_E_NOMEM, so that a long dump needs one
 * check at its end.  All zeroes is an empty one.
 */
#ifndef ZI_BASE_STR_H
#define ZI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>

#include "zico/status.h"

typedef struct zi_str {
    char  *at; /* NUL-terminated once anything was added; NULL before */
    size_t n;  /* bytes before the NUL */
    size_t cap;
    bool   bad; /* an allocation failed */
} zi_str;

void zi_str_add(zi_str *s, const char *text);
void zi_str_add_n(zi_str *s, const char *text, size_t n);
void zi_str_add_char(zi_str *s, char c);
void zi_str_fmt(zi_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Never NULL: "" while empty or failed. */
const char *zi_str_get(const zi_str *s);

ZICO_NODISCARD zico_status zi_str_status(const zi_str *s);

/* Hand the text to the caller, who frees it with zi_free; `s` is empty again.
 * NULL if it has failed. */
char *zi_str_take(zi_str *s);

void zi_str_clear(zi_str *s);
void zi_str_free(zi_str *s);

#endif /* ZI_BASE_STR_H */

/* str.c -- text that grows. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

/* Room for n more bytes and the NUL. */
static bool
reserve(zi_str *s, size_t n)
{
    size_t want;

    if (s->bad) return false;
    if (__builtin_add_overflow(s->n + 1, n, &want)) goto failed;
    if (want <= s->cap) return true;
    if (want < s->cap + s->cap / 2) want = s->cap + s->cap / 2;
    if (want < 64) want = 64;
    char *at = zi_realloc(s->at, want);
    if (!at) goto failed;
    s->at = at;
    s->cap = want;
    return true;

failed:
    s->bad = true;
    return false;
}

void
zi_str_add_n(zi_str *s, const char *text, size_t n)
{
    if (!reserve(s, n)) return;
    if (n) memcpy(s->at + s->n, text, n);
    s->n += n;
    s->at[s->n] = '\0';
}

void
zi_str_add(zi_str *s, const char *text)
{
    zi_str_add_n(s, text, strlen(text));
}

void
zi_str_add_char(zi_str *s, char c)
{
    zi_str_add_n(s, &c, 1);
}

void
zi_str_fmt(zi_str *s, const char *fmt, ...)
{
    va_list args;

    if (!reserve(s, 96)) return;
    va_start(args, fmt);
    int n = vsnprintf(s->at + s->n, s->cap - s->n, fmt, args);
    va_end(args);
    zi_assert(n >= 0);
    if (n < 0) {
        s->at[s->n] = '\0';
        return;
    }
    if ((size_t)n >= s->cap - s->n) {
        s->at[s->n] = '\0'; /* stays whole if there is no more memory */
        if (!reserve(s, (size_t)n)) return;
        va_start(args, fmt);
        vsnprintf(s->at + s->n, s->cap - s->n, fmt, args);
        va_end(args);
    }
    s->n += (size_t)n;
}

const char *
zi_str_get(const zi_str *s)
{
    return s->at && !s->bad ? s->at : "";
}

zico_status
zi_str_status(const zi_str *s)
{
    return s->bad ? ZICO_E_NOMEM : ZICO_OK;
}

char *
zi_str_take(zi_str *s)
{
    char *at = NULL;

    if (reserve(s, 0)) {
        s->at[s->n] = '\0';
        at = s->at;
        s->at = NULL;
    }
    zi_str_free(s);
    return at;
}

void
zi_str_clear(zi_str *s)
{
    s->n = 0;
    s->bad = false;
    if (s->at) s->at[0] = '\0';
}

void
zi_str_free(zi_str *s)
{
    zi_free(s->at);
    *s = (zi_str){0};
}

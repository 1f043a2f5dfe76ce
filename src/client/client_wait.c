/* client_wait.c -- deadlines, sleeping on the session's condition, and its last words. */
#include "client/session_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t
zi_wait_deadline(zi_session *s, uint64_t wait_ns)
{
    uint64_t now = s->os->now_ns(s->os);

    if (wait_ns == 0) return 0;
    return wait_ns > UINT64_MAX - now ? UINT64_MAX : now + wait_ns;
}

/* The condition sleeps on the real clock, for as long as the session's clock says. */
bool
zi_wait_until(zi_session *s, uint64_t deadline_ns)
{
    struct timespec ts;
    uint64_t        now = s->os->now_ns(s->os);

    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&s->changed, &s->mu);
        return true;
    }
    if (now >= deadline_ns) return false;
    uint64_t left = deadline_ns - now;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    left += (uint64_t)ts.tv_nsec;
    ts.tv_sec += (time_t)(left / 1000000000u);
    ts.tv_nsec = (long)(left % 1000000000u);
    return pthread_cond_timedwait(&s->changed, &s->mu, &ts) == 0;
}

void
zi_session_say(zi_session *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s->message, sizeof s->message, fmt, ap);
    va_end(ap);
}

/* Bytes of the UTF-8 character at p, which ends with 0 at the latest; 0: it is none. */
static size_t
character_bytes(const unsigned char *p)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t code = n == 2 ? p[0] & 0x1fu : n == 3 ? p[0] & 0x0fu : p[0] & 0x07u;

    if (n <= 1 || p[0] > 0xf4) return n == 1;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (n == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
    if (n == 4 && (code < 0x10000 || code > 0x10ffff)) return 0;
    return n;
}

void
zi_session_text(char *dst, size_t cap, const char *src)
{
    const unsigned char *p = (const unsigned char *)src;
    size_t               at = 0;

    while (*p) {
        size_t n = character_bytes(p);
        size_t len = n ? n : 1;
        if (at + len >= cap) break;
        for (size_t i = 0; i < len; i++) dst[at++] = n ? (char)p[i] : '?';
        p += len;
    }
    memset(dst + at, 0, cap - at);
}

/* tide_text.c -- a tide as lines that people read and diffs compare.
 *
 *     tide 1 length=150ms end=0 seen=12
 *     +64M @0
 *     -64M @120ms
 *
 * Numbers are exact: a unit (K M G of 1024; us ms s) is used only if it divides.
 */
#include "tide/tide.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    uint64_t    size;
} unit;

static const unit BYTE_UNITS[] = {{"G", 1u << 30},
                                  {"M", 1u << 20},
                                  {"K", 1u << 10},
                                  {"", 1}};
static const unit TIME_UNITS[] = {{"s", 1000000000u},
                                  {"ms", 1000000u},
                                  {"us", 1000u},
                                  {"ns", 1}};

/* Appends like snprintf into what is left of buf; *len counts on past the end. */
static void
put_number(char *buf, size_t cap, size_t *len, const char *front, uint64_t v,
           const unit *units)
{
    size_t room = *len < cap ? cap - *len : 0;
    while (units->size > 1 && (v == 0 || v % units->size != 0)) units++;
    int n = snprintf(room ? buf + *len : NULL, room, "%s%" PRIu64 "%s", front,
                     v / units->size, units->name);
    *len += n > 0 ? (size_t)n : 0;
}

static void
put_text(char *buf, size_t cap, size_t *len, const char *text)
{
    size_t n = strlen(text);
    if (*len < cap) {
        size_t room = cap - *len - 1;
        memcpy(buf + *len, text, n < room ? n : room);
        buf[*len + (n < room ? n : room)] = '\0';
    }
    *len += n;
}

size_t
zi_tide_print(const zi_tide *t, char *buf, size_t cap)
{
    static const unit plain[] = {{"", 1}};
    size_t            len = 0;

    put_number(buf, cap, &len, "tide ", 1, plain);
    put_number(buf, cap, &len, " length=", t->length_ns, TIME_UNITS);
    put_number(buf, cap, &len, " end=", t->end_bytes, BYTE_UNITS);
    put_number(buf, cap, &len, " seen=", t->n_seen, plain);
    put_text(buf, cap, &len, "\n");
    for (uint32_t i = 0; i < t->n_points; i++) {
        int64_t  d = t->point[i].delta_bytes;
        uint64_t size = d < 0 ? 0 - (uint64_t)d : (uint64_t)d;
        put_number(buf, cap, &len, d < 0 ? "-" : "+", size, BYTE_UNITS);
        put_number(buf, cap, &len, " @", t->point[i].at_ns, TIME_UNITS);
        put_text(buf, cap, &len, "\n");
    }
    return len;
}

/* -- reading ------------------------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static bool
take(cursor *c, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

/* Digits and one of the units; the longest unit that matches (units end with the bare one). */
static bool
take_number(cursor *c, const unit *units, uint64_t *ret)
{
    const char *first = c->at;
    uint64_t    v = 0;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        uint64_t digit = (uint64_t)(*c->at++ - '0');
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    if (c->at == first) return false;
    for (;; units++) {
        if (units->name[0] && !take(c, units->name)) {
            if (units->size == 1) return false; /* "ns" is not optional */
            continue;
        }
        return !__builtin_mul_overflow(v, units->size, ret);
    }
}

static bool
read_head(cursor *c, zi_tide *t)
{
    static const unit plain[] = {{"", 1}};
    uint64_t          version, seen;

    if (!take(c, "tide ") || !take_number(c, plain, &version) || version != 1)
        return false;
    if (!take(c, " length=") || !take_number(c, TIME_UNITS, &t->length_ns)) return false;
    if (!take(c, " end=") || !take_number(c, BYTE_UNITS, &t->end_bytes)) return false;
    if (!take(c, " seen=") || !take_number(c, plain, &seen) || seen > UINT32_MAX)
        return false;
    t->n_seen = (uint32_t)seen;
    return take(c, "\n");
}

static bool
read_point(cursor *c, zi_tide *t, int64_t *height)
{
    bool          rise = take(c, "+");
    uint64_t      size;
    zi_tide_point p;

    if (!rise && !take(c, "-")) return false;
    if (!take_number(c, BYTE_UNITS, &size) || size == 0 || size > INT64_MAX) return false;
    if (!take(c, " @") || !take_number(c, TIME_UNITS, &p.at_ns)) return false;
    if (c->at < c->end && !take(c, "\n")) return false;
    if (t->n_points == ZI_TIDE_POINTS_MAX) return false;

    p.delta_bytes = rise ? (int64_t)size : -(int64_t)size;
    if (__builtin_add_overflow(*height, p.delta_bytes, height)) return false;
    if (*height > 0 && (uint64_t)*height > t->peak_bytes)
        t->peak_bytes = (uint64_t)*height;
    t->point[t->n_points++] = p;
    return true;
}

zico_status
zi_tide_parse(const char *text, size_t len, zi_tide *ret_tide, size_t *ret_bad_line)
{
    cursor  c = {text, text + len};
    zi_tide t = {0};
    size_t  line = 1;
    int64_t height = 0;
    bool    good = read_head(&c, &t);

    while (good && c.at < c.end) {
        line++;
        good = read_point(&c, &t, &height);
    }
    if (!good || zi_tide_verify(&t) != ZICO_OK) {
        if (ret_bad_line) *ret_bad_line = line;
        return ZICO_E_FORMAT;
    }
    *ret_tide = t;
    return ZICO_OK;
}

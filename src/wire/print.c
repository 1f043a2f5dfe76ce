/* print.c -- a message as one line for people: "LEASE seq=7 n_regions=2 cls=1 ...".
 *
 * Secrets (fields called token) are not shown; long lists are cut after a few entries.
 */
#include "wire/wire.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 4u /* entries of a list */

typedef struct line {
    char  *buf;
    size_t cap;
    size_t len; /* needed so far */
} line;

__attribute__((format(printf, 2, 3))) static void
add(line *l, const char *fmt, ...)
{
    va_list ap;
    char   *at = l->len < l->cap ? l->buf + l->len : NULL;

    va_start(ap, fmt);
    int n = vsnprintf(at, at ? l->cap - l->len : 0, fmt, ap);
    va_end(ap);
    if (n > 0) l->len += (size_t)n;
}

static void
add_number(line *l, const char *name, uint64_t value)
{
    if (strcmp(name, "token") == 0)
        add(l, " token=*");
    else
        add(l, " %s=%" PRIu64, name, value);
}

static void
add_runs(line *l, const char *name, const zi_run *run, uint32_t n)
{
    add(l, " %s=[", name);
    for (uint32_t i = 0; i < n && i < SHOWN; i++)
        add(l, "%s%" PRIu32 "+%" PRIu32, i ? " " : "", run[i].first, run[i].n);
    add(l, n > SHOWN ? " ... %" PRIu32 " in all]" : "]", n);
}

static void
add_points(line *l, const char *name, const zi_wire_point *p, uint32_t n)
{
    add(l, " %s=[", name);
    for (uint32_t i = 0; i < n && i < SHOWN; i++)
        add(l, "%s%+" PRId64 "@%" PRIu64, i ? " " : "", p[i].delta, p[i].at_ns);
    add(l, n > SHOWN ? " ... %" PRIu32 " in all]" : "]", n);
}

#define MESSAGE(lower, UPPER, number, from, text)                                        \
    static void add_##lower(line *l, const zi_msg_##lower *m)                            \
    {                                                                                    \
        (void)l, (void)m;
#define U8(name, least, most, text)  add_number(l, #name, m->name);
#define U32(name, least, most, text) add_number(l, #name, m->name);
#define U64(name, least, most, text) add_number(l, #name, m->name);
#define I64(name, least, most, text) add(l, " %s=%" PRId64, #name, m->name);
#define STR(name, max, text)         add(l, " %s=\"%s\"", #name, m->name);
#define RUNS(name, max, text)        add_runs(l, #name, m->name, m->n_##name);
#define POINTS(name, max, text)      add_points(l, #name, m->name, m->n_##name);
#define END(lower)                   }
#include "wire/messages.def"

size_t
zi_msg_print(const zi_msg *m, char *buf, size_t cap)
{
    line l = {.buf = buf, .cap = cap};

    if (cap > 0) buf[0] = '\0';
    add(&l, "%s", zi_msg_name(m->type));
    if (m->seq != 0) add(&l, " seq=%" PRIu32, m->seq);
    switch (m->type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        add_##lower(&l, &m->lower);                                                      \
        break;
#include "wire/no_fields.def"
    }
    return l.len;
}

const char *
zi_msg_name(zi_msg_type type)
{
    switch (type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        return #UPPER;
#include "wire/no_fields.def"
    }
    return "?";
}

int
zi_msg_may_come_from(zi_msg_type type, zi_msg_from who)
{
    switch (type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        return who == ZI_FROM_##from;
#include "wire/no_fields.def"
    }
    return 0;
}

/* encode.c -- a message to bytes.
 *
 * messages.def, with macros that write: one function per message, one line per field.
 */
#include "wire/wire.h"

#include <string.h>
#include "wire/form.h"

typedef struct out {
    unsigned char *at;   /* next byte */
    size_t         room; /* bytes left */
    bool           full; /* the buffer was too small */
    bool           bad;  /* a field the decoder would refuse */
} out;

static void
put(out *o, uint64_t value, size_t n_bytes)
{
    if (o->room < n_bytes) {
        o->full = true;
        return;
    }
    for (size_t i = 0; i < n_bytes; i++) o->at[i] = (unsigned char)(value >> (8 * i));
    o->at += n_bytes;
    o->room -= n_bytes;
}

static void
put_unsigned(out *o, uint64_t value, size_t n_bytes, uint64_t least, uint64_t most)
{
    if (value < least || value > most) o->bad = true;
    put(o, value, n_bytes);
}

static void
put_signed(out *o, int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most) o->bad = true;
    put(o, (uint64_t)value, 8);
}

static void
put_text(out *o, const char *text, size_t max)
{
    const char *end = memchr(text, 0, max + 1);
    size_t      len = end ? (size_t)(end - text) : 0;

    if (!end || !zi_form_utf8(text, len)) {
        o->bad = true;
        return;
    }
    put(o, len, 2);
    if (o->full || o->room < len) {
        o->full = true;
        return;
    }
    memcpy(o->at, text, len);
    o->at += len;
    o->room -= len;
}

static void
put_runs(out *o, const zi_run *run, uint32_t n, uint32_t max)
{
    if (n > max) {
        o->bad = true;
        return;
    }
    put(o, n, 2);
    for (uint32_t i = 0; i < n; i++) {
        if (!zi_form_run(run[i])) o->bad = true;
        put(o, run[i].first, 4);
        put(o, run[i].n, 4);
    }
}

static void
put_points(out *o, const zi_wire_point *point, uint32_t n, uint32_t max)
{
    if (n > max) {
        o->bad = true;
        return;
    }
    put(o, n, 2);
    for (uint32_t i = 0; i < n; i++) {
        put(o, point[i].at_ns, 8);
        put(o, (uint64_t)point[i].delta, 8);
    }
}

#define MESSAGE(lower, UPPER, number, from, text)                                        \
    static void put_##lower(out *o, const zi_msg_##lower *m)                             \
    {                                                                                    \
        (void)o, (void)m;
#define U8(name, least, most, text)  put_unsigned(o, m->name, 1, least, most);
#define U32(name, least, most, text) put_unsigned(o, m->name, 4, least, most);
#define U64(name, least, most, text) put_unsigned(o, m->name, 8, least, most);
#define I64(name, least, most, text) put_signed(o, m->name, least, most);
#define STR(name, max, text)         put_text(o, m->name, max);
#define RUNS(name, max, text)        put_runs(o, m->name, m->n_##name, max);
#define POINTS(name, max, text)      put_points(o, m->name, m->n_##name, max);
#define END(lower)                   }
#include "wire/messages.def"

zico_status
zi_wire_encode(const zi_msg *m, uint32_t version, void *buf, size_t cap, size_t *ret_len)
{
    out o = {.at = buf, .room = cap < ZI_WIRE_MAX ? cap : ZI_WIRE_MAX};

    if (version < ZI_WIRE_VERSION_MIN || version > ZI_WIRE_VERSION_MAX)
        return ZICO_E_VERSION;
    put(&o, ZI_WIRE_MAGIC, 4);
    put(&o, version, 2);
    put(&o, (uint64_t)m->type, 2);
    put(&o, 0, 4);
    put(&o, m->seq, 4);
    switch (m->type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        put_##lower(&o, &m->lower);                                                      \
        break;
#include "wire/no_fields.def"
    default:
        return ZICO_E_ARG;
    }
    if (o.bad) return ZICO_E_ARG;
    if (o.full) return ZICO_E_LIMIT;

    size_t len = (size_t)(o.at - (unsigned char *)buf);
    out    length = {.at = (unsigned char *)buf + 8, .room = 4};
    put(&length, len, 4);
    *ret_len = len;
    return ZICO_OK;
}

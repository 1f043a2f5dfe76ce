/* decode.c -- bytes to a message, trusting nothing.
 *
 * messages.def, with macros that read and validate: one function per message, one line
 * per field.  The first thing that is wrong is named in words, the rest is not read.
 */
#include "wire/wire.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "wire/form.h"

typedef struct in {
    const unsigned char *at;   /* next byte */
    size_t               left; /* bytes left */
    bool                 bad;
    const char          *msg; /* for the complaint */
} in;

static _Thread_local char complaint[160];

__attribute__((format(printf, 2, 3))) static void
complain(in *i, const char *fmt, ...)
{
    va_list ap;

    if (i->bad) return;
    i->bad = true;
    va_start(ap, fmt);
    vsnprintf(complaint, sizeof complaint, fmt, ap);
    va_end(ap);
}

static uint64_t
take(in *i, size_t n_bytes, const char *field)
{
    uint64_t value = 0;

    if (i->bad) return 0;
    if (i->left < n_bytes) {
        complain(i, "%s.%s: the packet ends before it", i->msg, field);
        return 0;
    }
    for (size_t k = 0; k < n_bytes; k++) value |= (uint64_t)i->at[k] << (8 * k);
    i->at += n_bytes;
    i->left -= n_bytes;
    return value;
}

static uint64_t
take_unsigned(in *i, size_t n_bytes, uint64_t least, uint64_t most, const char *field)
{
    uint64_t v = take(i, n_bytes, field);

    if (v < least || v > most)
        complain(i, "%s.%s: %" PRIu64 " is not in %" PRIu64 "..%" PRIu64, i->msg, field,
                 v, least, most);
    return v;
}

static int64_t
take_signed(in *i, int64_t least, int64_t most, const char *field)
{
    int64_t v = (int64_t)take(i, 8, field);

    if (v < least || v > most)
        complain(i, "%s.%s: %" PRId64 " is not in %" PRId64 "..%" PRId64, i->msg, field,
                 v, least, most);
    return v;
}

/* A count and that many things of `each` bytes; 0 if that cannot be. */
static uint32_t
take_count(in *i, uint32_t max, size_t each, const char *field)
{
    uint64_t n = take(i, 2, field);

    if (n > max)
        complain(i, "%s.%s: %" PRIu64 " are more than %" PRIu32, i->msg, field, n, max);
    else if (n * each > i->left)
        complain(i, "%s.%s: the packet ends within it", i->msg, field);
    return i->bad ? 0 : (uint32_t)n;
}

static void
take_text(in *i, char *text, uint32_t max, const char *field)
{
    uint32_t len = take_count(i, max, 1, field);

    if (!i->bad && !zi_form_utf8((const char *)i->at, len))
        complain(i, "%s.%s: not valid UTF-8", i->msg, field);
    if (i->bad) return;
    memcpy(text, i->at, len);
    text[len] = '\0';
    i->at += len;
    i->left -= len;
}

static uint32_t
take_runs(in *i, zi_run *run, uint32_t max, const char *field)
{
    uint32_t n = take_count(i, max, 8, field);

    for (uint32_t k = 0; k < n && !i->bad; k++) {
        run[k].first = (uint32_t)take(i, 4, field);
        run[k].n = (uint32_t)take(i, 4, field);
        if (!zi_form_run(run[k]))
            complain(i, "%s.%s: run %" PRIu32 "+%" PRIu32 " is empty or wraps", i->msg,
                     field, run[k].first, run[k].n);
    }
    return n;
}

static uint32_t
take_points(in *i, zi_wire_point *point, uint32_t max, const char *field)
{
    uint32_t n = take_count(i, max, 16, field);

    for (uint32_t k = 0; k < n; k++) {
        point[k].at_ns = take(i, 8, field);
        point[k].delta = (int64_t)take(i, 8, field);
    }
    return n;
}

#define MESSAGE(lower, UPPER, number, from, text)                                        \
    static void take_##lower(in *i, zi_msg_##lower *m)                                   \
    {                                                                                    \
        i->msg = #UPPER;                                                                 \
        (void)m;
#define U8(name, least, most, text)                                                      \
    m->name = (uint8_t)take_unsigned(i, 1, least, most, #name);
#define U32(name, least, most, text)                                                     \
    m->name = (uint32_t)take_unsigned(i, 4, least, most, #name);
#define U64(name, least, most, text) m->name = take_unsigned(i, 8, least, most, #name);
#define I64(name, least, most, text) m->name = take_signed(i, least, most, #name);
#define STR(name, max, text)         take_text(i, m->name, max, #name);
#define RUNS(name, max, text)        m->n_##name = take_runs(i, m->name, max, #name);
#define POINTS(name, max, text)      m->n_##name = take_points(i, m->name, max, #name);
#define END(lower)                   }
#include "wire/messages.def"

/* The messages with which strangers meet: their form never changes, and so they may come
 * in any version. */
static bool
is_opening(uint64_t type)
{
    return type == ZI_MSG_HELLO || type == ZI_MSG_REJOIN || type == ZI_MSG_STATUS_ASK ||
           type == ZI_MSG_REFUSE;
}

static bool
version_fits(uint64_t theirs, uint32_t agreed, uint64_t type)
{
    if (is_opening(type)) return theirs >= 1;
    if (agreed != 0) return theirs == agreed;
    return theirs >= ZI_WIRE_VERSION_MIN && theirs <= ZI_WIRE_VERSION_MAX;
}

static void
take_body(in *i, zi_msg *m)
{
    switch (m->type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        take_##lower(i, &m->lower);                                                      \
        break;
#include "wire/no_fields.def"
    default:
        complain(i, "no message has number %d", (int)m->type);
    }
    if (!i->bad && i->left > 0)
        complain(i, "%s: %zu bytes behind its last field", i->msg, i->left);
}

zico_status
zi_wire_decode(const void *buf, size_t len, uint32_t version, zi_msg *ret_msg,
               const char **ret_why)
{
    in   i = {.at = buf, .left = len, .msg = "header"};
    bool stranger = false;

    if (take(&i, 4, "magic") != ZI_WIRE_MAGIC) complain(&i, "header.magic: not \"ZICO\"");
    uint64_t theirs = take(&i, 2, "version");
    uint64_t type = take(&i, 2, "number");
    uint64_t said = take(&i, 4, "length");
    ret_msg->type = (zi_msg_type)type;
    ret_msg->seq = (uint32_t)take(&i, 4, "seq");
    if (said != len)
        complain(&i, "header.length: says %" PRIu64 ", the packet has %zu", said, len);
    if (!i.bad && !version_fits(theirs, version, type)) {
        stranger = true;
        complain(&i, "header.version: %" PRIu64 " is not spoken here", theirs);
    }
    if (!i.bad) take_body(&i, ret_msg);

    if (!i.bad) return ZICO_OK;
    if (ret_why) *ret_why = complaint;
    return stranger ? ZICO_E_VERSION : ZICO_E_PROTO;
}

zico_status
zi_wire_agree(uint32_t their_min, uint32_t their_max, uint32_t *ret_version)
{
    uint32_t most = their_max < ZI_WIRE_VERSION_MAX ? their_max : ZI_WIRE_VERSION_MAX;
    uint32_t least = their_min > ZI_WIRE_VERSION_MIN ? their_min : ZI_WIRE_VERSION_MIN;

    if (their_min > their_max || least > most) return ZICO_E_VERSION;
    *ret_version = most;
    return ZICO_OK;
}

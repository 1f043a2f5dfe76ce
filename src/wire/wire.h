/* wire/wire.h -- messages as structs, to bytes and back.
 *
 * THE ROOM
 *   The door between the two halves of the house: broker and jobs share nothing but
 *   these messages.  messages.def is the only list; struct types, encoder, decoder,
 *   printer and the page docs/wire.md are generated from it.  Pure: no sockets.
 *
 * RULES   1  A decoder validates every field (range, length, UTF-8, no trailing bytes);
 *            what it accepts can be used without further checks of form.
 *         2  An encoder checks the same and says ZICO_E_ARG; it cannot produce what the
 *            decoder refuses.
 *         3  A message never needs an allocation: all structs are of bounded size.
 * NEXT    broker/session.c and client/session.c speak it.
 */
#ifndef ZI_WIRE_H
#define ZI_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include "base/run.h"
#include "wire/reason.h"
#include "zico/status.h"

#define ZI_WIRE_MAGIC       0x4f43495au /* "ZICO" */
#define ZI_WIRE_VERSION_MIN 1u
#define ZI_WIRE_VERSION_MAX 1u
#define ZI_WIRE_HEADER      16u
#define ZI_WIRE_MAX         65536u
#define ZI_WIRE_ASKS_MAX    16u /* LEASEs and CHARGEs of a job without an answer yet */

#define ZI_FEATURE_SUSPEND (1ull << 0) /* can move everything out at a step boundary */
#define ZI_FEATURE_NATIVE  (1ull << 1) /* runs a plan of ours; follows CORES           */
#define ZI_FEATURE_STEPS   (1ull << 2) /* marks its steps                            */
#define ZI_FEATURE_GUARD   (1ull << 3) /* in WELCOME: map regions not held PROT_NONE */
#define ZI_FEATURE_STEADY                                                                \
    (1ull << 4) /* its steps repeat to the byte: its tide is a plan */
#define ZI_FEATURE_CORES  (1ull << 5) /* a command that hears CORES within a step, too */
#define ZI_COST_MILLI_MAX 100000u     /* as messages.def has it */
#define ZI_FEATURE_SHRINK (1ull << 6) /* plans for less memory when asked (SHRINK) */
#define ZI_FEATURES_ALL                                                                  \
    (ZI_FEATURE_SUSPEND | ZI_FEATURE_NATIVE | ZI_FEATURE_STEPS | ZI_FEATURE_STEADY |     \
     ZI_FEATURE_CORES | ZI_FEATURE_SHRINK)

typedef enum zi_core_mode { ZI_CORES_FOLLOW, ZI_CORES_FIXED, ZI_CORES_OWN } zi_core_mode;
typedef enum zi_limit_outcome {
    ZI_LIMIT_APPLIED,
    ZI_LIMIT_DEFERRED, /* will hold as soon as jobs have returned enough       */
    ZI_LIMIT_STALE,    /* expect_revision is not the one in force              */
    ZI_LIMIT_CONFLICT, /* cannot hold together with what is guaranteed already */
} zi_limit_outcome;
typedef enum zi_control {
    ZI_CONTROL_PAUSE,
    ZI_CONTROL_RESUME,
    ZI_CONTROL_SUSPEND,
    ZI_CONTROL_SHUTDOWN,
} zi_control;

/* A pair of numbers; in TIDE an offset and a change in bytes. */
typedef struct zi_wire_point {
    uint64_t at_ns;
    int64_t  delta;
} zi_wire_point;

/* -- one struct per message: zi_msg_hello, zi_msg_lease, ... --------------------------- */
#define MESSAGE(lower, UPPER, number, from, text) typedef struct zi_msg_##lower {
#define U8(name, least, most, text)               uint8_t name;
#define U32(name, least, most, text)              uint32_t name;
#define U64(name, least, most, text)              uint64_t name;
#define I64(name, least, most, text)              int64_t name;
#define STR(name, max, text)                      char name[(max) + 1];
#define RUNS(name, max, text)                                                            \
    uint32_t n_##name;                                                                   \
    zi_run   name[max];
#define POINTS(name, max, text)                                                          \
    uint32_t      n_##name;                                                              \
    zi_wire_point name[max];
#define END(lower)                                                                       \
    char end_;                                                                           \
    }                                                                                    \
    zi_msg_##lower;
#include "wire/messages.def"

typedef enum zi_msg_type {
#define MESSAGE(lower, UPPER, number, from, text) ZI_MSG_##UPPER = (number),
#define U8(name, least, most, text)
#define U32(name, least, most, text)
#define U64(name, least, most, text)
#define I64(name, least, most, text)
#define STR(name, max, text)
#define RUNS(name, max, text)
#define POINTS(name, max, text)
#define END(lower)
#include "wire/messages.def"
} zi_msg_type;

typedef struct zi_msg {
    zi_msg_type type;
    uint32_t    seq;
    union {
#define MESSAGE(lower, UPPER, number, from, text) zi_msg_##lower lower;
#define U8(name, least, most, text)
#define U32(name, least, most, text)
#define U64(name, least, most, text)
#define I64(name, least, most, text)
#define STR(name, max, text)
#define RUNS(name, max, text)
#define POINTS(name, max, text)
#define END(lower)
#include "wire/messages.def"
    };
} zi_msg;

typedef enum zi_msg_from { ZI_FROM_JOB, ZI_FROM_BROKER, ZI_FROM_TOOL } zi_msg_from;

/* Encode into buf (cap >= ZI_WIRE_MAX is always enough); *ret_len is the packet's length.
 * E_ARG: a field that a decoder would refuse; E_LIMIT: cap is too small. */
zico_status
zi_wire_encode(const zi_msg *m, uint32_t version, void *buf, size_t cap, size_t *ret_len);

/* Decode and validate one packet; on failure what *ret_msg holds means nothing.  `version` is
 * the agreed one, 0 before the handshake (any that we speak).  HELLO, REJOIN, STATUS_ASK and
 * REFUSE, with which strangers meet, never change their form and may come in any version.
 * E_VERSION: another one.  On ZICO_E_PROTO *ret_why (may be NULL) names message and
 * field, e.g. "LEASE.cls: 9 is not in 0..3"; it points to static or `m`-independent storage
 * valid until the thread's next call. */
zico_status zi_wire_decode(const void *buf, size_t len, uint32_t version, zi_msg *ret_msg,
                           const char **ret_why);

/* The version to speak: the highest that both know, or ZICO_E_VERSION. */
zico_status zi_wire_agree(uint32_t their_min, uint32_t their_max, uint32_t *ret_version);

const char *zi_msg_name(zi_msg_type type); /* "LEASE"; "?" if unknown */
int         zi_msg_may_come_from(zi_msg_type, zi_msg_from who);
size_t      zi_msg_print(const zi_msg *m, char *buf, size_t cap); /* one line for logs */

#endif /* ZI_WIRE_H */

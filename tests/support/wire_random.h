/* wire_random.h -- random valid messages, and where each field lies in the packet.
 *
 * Written apart from encoder and decoder, from the same list: a mistake in one of them
 * cannot hide in the other.
 */
#ifndef ZI_TEST_WIRE_RANDOM_H
#define ZI_TEST_WIRE_RANDOM_H

#include "wire/wire.h"

#define T_FIELDS_MAX 40

typedef enum t_field_kind {
    T_U8,
    T_U32,
    T_U64,
    T_I64,
    T_STR,
    T_RUNS,
    T_POINTS
} t_field_kind;

typedef struct t_field {
    t_field_kind kind;
    const char  *name;
    size_t       at; /* offset in the packet */
    uint64_t     least,
        most; /* I64: as two's complement; STR, RUNS, POINTS: most = maximum */
} t_field;

size_t      t_n_messages(void);
zi_msg_type t_message(size_t i);

/* Fill *ret_msg with a random valid message of that type; lists the fields. */
size_t t_random_message(zi_msg_type type, zi_msg *ret_msg, t_field field[T_FIELDS_MAX]);

#endif /* ZI_TEST_WIRE_RANDOM_H */

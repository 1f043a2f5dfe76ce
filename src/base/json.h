/* base/json.h -- writes JSON, piece by piece, into a zi_str.
 *
 *     zi_json j = zi_json_into(&text);
 *     zi_json_object(&j);
 *     zi_json_key(&j, "budget_bytes"), zi_json_u64(&j, budget);
 *     zi_json_key(&j, "jobs"), zi_json_array(&j);
 *     ...
 *     zi_json_end(&j), zi_json_end(&j);
 *     ZI_TRY(zi_json_status(&j));
 *
 * Commas and quotes are the writer's business.  Text that is not UTF-8 comes out
 * with U+FFFD in place of what is wrong; numbers that JSON has no word for (NaN,
 * infinity) come out as null.  A call in the wrong place (a value without a key,
 * one end too many) is a bug: it asserts, and zi_json_status says ZICO_E_STATE.
 */
#ifndef ZI_BASE_JSON_H
#define ZI_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define ZI_JSON_DEPTH 32

typedef struct zi_json {
    zi_str  *out;
    unsigned depth;
    bool     keyed;                   /* a key waits for its value */
    bool     bad;                     /* called in the wrong place */
    char     kind[ZI_JSON_DEPTH + 1]; /* '{' or '[' */
    bool     some[ZI_JSON_DEPTH + 1]; /* this level has an element */
} zi_json;

zi_json zi_json_into(zi_str *out);

void zi_json_object(zi_json *j); /* { */
void zi_json_array(zi_json *j);  /* [ */
void zi_json_end(zi_json *j);    /* whichever is open */
void zi_json_key(zi_json *j, const char *key);

void zi_json_str(zi_json *j, const char *text); /* NULL: null */
void zi_json_str_n(zi_json *j, const char *text, size_t n);
void zi_json_u64(zi_json *j, uint64_t v);
void zi_json_i64(zi_json *j, int64_t v);
void zi_json_f64(zi_json *j, double v); /* as many digits as give v back */
void zi_json_bool(zi_json *j, bool v);
void zi_json_null(zi_json *j);

/* ZICO_OK only for one whole value. */
ZICO_NODISCARD zico_status zi_json_status(const zi_json *j);

#endif /* ZI_BASE_JSON_H */

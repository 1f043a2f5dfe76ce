/* wire/form.h -- what encoder and decoder both demand of a field. */
#ifndef ZI_WIRE_FORM_H
#define ZI_WIRE_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/run.h"

/* UTF-8 without 0 bytes, overlong forms, surrogates or anything above U+10FFFF. */
bool zi_form_utf8(const char *s, size_t len);

/* Not empty, and its end is still an index. */
static inline bool
zi_form_run(zi_run r)
{
    return r.n > 0 && r.first <= UINT32_MAX - r.n;
}

#endif /* ZI_WIRE_FORM_H */

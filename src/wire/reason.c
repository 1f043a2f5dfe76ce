/* reason.c -- names and texts of the reasons to wait. */
#include "wire/reason.h"

_Static_assert(ZI_REASON_FAIRNESS == ZI_REASON_MAX, "the last reason is the largest");

const char *
zi_reason_text(zi_reason r)
{
    switch (r) {
#define X(name, lower, value, text)                                                      \
    case ZI_REASON_##name:                                                               \
        return text;
        ZI_REASON_MAP(X)
#undef X
    }
    return "unknown reason";
}

const char *
zi_reason_name(zi_reason r)
{
    switch (r) {
#define X(name, lower, value, text)                                                      \
    case ZI_REASON_##name:                                                               \
        return #lower;
        ZI_REASON_MAP(X)
#undef X
    }
    return "?";
}

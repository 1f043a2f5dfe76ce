/* status.c -- names and texts of the statuses, from the one list in zico/status.h. */
#include "zico/status.h"

const char *
zico_status_name(zico_status st)
{
    switch (st) {
#define X(name, value, text)                                                             \
    case ZICO_##name:                                                                    \
        return "ZICO_" #name;
        ZICO_STATUS_MAP(X)
#undef X
    }
    return "ZICO_?";
}

const char *
zico_status_text(zico_status st)
{
    switch (st) {
#define X(name, value, text)                                                             \
    case ZICO_##name:                                                                    \
        return text;
        ZICO_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

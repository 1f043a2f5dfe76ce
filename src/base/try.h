/* base/try.h -- pass a failure on when there is nothing to undo.
 *
 * ZI_TRY(call) returns the call's status from the enclosing function if it is
 * negative.  With -DZI_TRACE_TRY each such return prints its expression, which
 * shows the path of a failure through the rooms.
 */
#ifndef ZI_BASE_TRY_H
#define ZI_BASE_TRY_H

#include "zico/status.h"

#ifdef ZI_TRACE_TRY
#    include <stdio.h>
#    define ZI_TRY_TRACE(st, expr)                                                       \
        fprintf(stderr, "%s:%d: %s = %s\n", __FILE__, __LINE__, expr,                    \
                zico_status_name(st))
#else
#    define ZI_TRY_TRACE(st, expr) ((void)0)
#endif

#define ZI_TRY(expr)                                                                     \
    do {                                                                                 \
        zico_status zi_try_st_ = (expr);                                                 \
        if (zi_try_st_ < 0) {                                                            \
            ZI_TRY_TRACE(zi_try_st_, #expr);                                             \
            return zi_try_st_;                                                           \
        }                                                                                \
    } while (0)

#endif /* ZI_BASE_TRY_H */

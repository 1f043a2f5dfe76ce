/* zico/status.h -- every way a zico call can end.
 *
 * Zero is success, negative is failure.  The one positive value, ZICO_PENDING,
 * means "accepted; the answer comes later".
 *
 * Failures are grouped by what is still usable afterwards, since that is what
 * a caller must know in order to recover:
 *
 *      -1 ..  -99   this request only; the session carries on
 *    -100 .. -199   this session; open a new one
 *    -200 .. -299   the broker or the device; stop and tell a human
 */
#ifndef ZICO_STATUS_H
#define ZICO_STATUS_H

#if defined(__GNUC__)
#    define ZICO_API       __attribute__((visibility("default")))
#    define ZICO_NODISCARD __attribute__((warn_unused_result))
#else
#    define ZICO_API
#    define ZICO_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define ZICO_STATUS_MAP(X)                                                  \
    X(OK,            0, "success")                                          \
    X(PENDING,       1, "accepted, answer follows")                         \
    X(E_ARG,        -1, "argument out of range")                            \
    X(E_NOMEM,      -2, "host memory exhausted")                            \
    X(E_BUSY,       -3, "budget is taken right now")                        \
    X(E_BUDGET,     -4, "request can never fit this budget")                \
    X(E_NOPLAN,     -5, "no plan fits the budget")                          \
    X(E_TIMEOUT,    -6, "deadline passed while waiting")                    \
    X(E_STATE,      -7, "call does not fit the present state")              \
    X(E_LIMIT,      -8, "a table or queue is full")                         \
    X(E_IO,         -9, "input or output failed")                           \
    X(E_FORMAT,    -10, "input is malformed")                               \
    X(E_SHAPE,     -11, "tensor shapes do not fit together")                \
    X(E_UNSUPPORTED, -12, "not supported")                                  \
    X(E_NOTFOUND,  -13, "no such thing")                                    \
    X(E_EXISTS,    -14, "already exists")                                   \
    X(E_NAN,       -15, "a value is not a number")                          \
    X(E_CANCELLED, -16, "stopped on request")                               \
    X(E_PROTO,    -100, "peer sent a malformed message")                    \
    X(E_VERSION,  -101, "peer speaks another wire version")                 \
    X(E_GONE,     -102, "broker closed the session")                        \
    X(E_DENIED,   -103, "broker refused this peer")                         \
    X(E_DEVICE,   -200, "device driver reported a failure")                 \
    X(E_CORRUPT,  -201, "an invariant does not hold")                       \
    X(E_OS,       -202, "operating system call failed")
/* clang-format on */

typedef enum zico_status {
#define X(name, value, text) ZICO_##name = (value),
    ZICO_STATUS_MAP(X)
#undef X
} zico_status;

/* "ZICO_E_BUSY", and "budget is taken right now".  Never NULL. */
ZICO_API const char *zico_status_name(zico_status st);
ZICO_API const char *zico_status_text(zico_status st);

#ifdef __cplusplus
}
#endif
#endif /* ZICO_STATUS_H */

/* base/log.h -- one line for humans, at the point where someone decides.
 *
 * Levels are tied to lifetimes: a line of level 3 may appear once per training
 * step.  The default is 2.  A line is formatted by zi_fmt into a buffer on the
 * stack and handed to the sink whole, newline included; the default sink is one
 * write(2) to standard error, so lines of several processes do not mix and
 * nothing is left in a buffer when a process dies.
 *
 * Pure rooms and the client library do not log: they return statuses.
 */
#ifndef ZI_BASE_LOG_H
#define ZI_BASE_LOG_H

#include <stddef.h>

typedef enum zi_log_level {
    ZI_LOG_ERROR = 0,   /* always */
    ZI_LOG_PROCESS = 1, /* once per process */
    ZI_LOG_SESSION = 2, /* per session */
    ZI_LOG_STEP = 3,    /* per training step */
    ZI_LOG_LEASE = 4,   /* per lease */
    ZI_LOG_TENSOR = 5,  /* per tensor */
} zi_log_level;

#ifndef ZI_LOG_CEILING
#    define ZI_LOG_CEILING 5 /* levels above it cost nothing */
#endif

#define ZI_LOG_LINE_BYTES 1024 /* longer lines are cut, with "..." */

/* `line` ends in a newline and is not NUL-terminated.  May run on any thread. */
typedef void zi_log_sink(zi_log_level level, const char *line, size_t n, void *user);

/* Not while others log: at start, or in tests.  NULL: standard error. */
void zi_log_set_sink(zi_log_sink *sink, void *user);

void         zi_log_set_level(zi_log_level level); /* atomic */
zi_log_level zi_log_get_level(void);

/* What begins each line, "zico" unless set; kept, not copied. */
void zi_log_set_name(const char *name);

#define zi_log(level, ...)                                                               \
    ((level) <= ZI_LOG_CEILING && (level) <= zi_log_get_level()                          \
         ? zi_log_write_((level), __VA_ARGS__)                                           \
         : (void)0)

void zi_log_write_(zi_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* ZI_BASE_LOG_H */

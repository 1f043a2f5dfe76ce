/* log.c -- one line at a time, without stdio. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/fmt.h"

static void to_stderr(zi_log_level level, const char *line, size_t n, void *user);

static struct {
    atomic_int            level;
    _Atomic(const char *) name;
    zi_log_sink          *sink; /* set at start only */
    void                 *user;
} log_state = {ZI_LOG_SESSION, "zico", to_stderr, NULL};

static void
to_stderr(zi_log_level level, const char *line, size_t n, void *user)
{
    (void)level, (void)user;
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, line, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return; /* nobody listens; not worth failing for */
        line += done;
        n -= (size_t)done;
    }
}

void
zi_log_set_sink(zi_log_sink *sink, void *user)
{
    log_state.sink = sink ? sink : to_stderr;
    log_state.user = user;
}

void
zi_log_set_level(zi_log_level level)
{
    atomic_store(&log_state.level, (int)level);
}

zi_log_level
zi_log_get_level(void)
{
    return (zi_log_level)atomic_load_explicit(&log_state.level, memory_order_relaxed);
}

void
zi_log_set_name(const char *name)
{
    atomic_store(&log_state.name, name ? name : "zico");
}

void
zi_log_write_(zi_log_level level, const char *fmt, ...)
{
    char    line[ZI_LOG_LINE_BYTES];
    int     saved = errno;
    va_list args;

    size_t n = zi_fmt(line, sizeof line - 1, "%s: %s", atomic_load(&log_state.name),
                      level == ZI_LOG_ERROR ? "error: " : "");
    if (n > sizeof line / 2) n = sizeof line / 2;
    va_start(args, fmt);
    n += zi_vfmt(line + n, sizeof line - n - 1, fmt, args);
    va_end(args);
    if (n > sizeof line - 2) {
        n = sizeof line - 2;
        memcpy(line + n - 3, "...", 3);
    }
    line[n++] = '\n';
    log_state.sink(level, line, n, log_state.user);
    errno = saved;
}

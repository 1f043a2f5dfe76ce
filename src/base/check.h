/* base/check.h -- assertions, for our own bugs (the world's faults are statuses).
 *
 *   zi_assert(x)           level 1: cheap, on in every build
 *   zi_assert_slow(x)      level 2: verify functions after each mutation
 *   zi_assert_paranoid(x)  level 3: whole-state replays
 *
 * ZI_CHECK_LEVEL comes from the build.  An expression above the level is still
 * compiled, never evaluated.
 *
 * A failed assertion calls the handler.  The default prints one line and
 * aborts, which is right for our daemon, tools and tests.  A library inside
 * somebody else's process installs its own: it poisons the session and
 * RETURNS, so code after an assertion in client, device and hook must not turn
 * a false condition into harm to the host.
 */
#ifndef ZI_BASE_CHECK_H
#define ZI_BASE_CHECK_H

#ifndef ZI_CHECK_LEVEL
#    define ZI_CHECK_LEVEL 1
#endif

typedef void
zi_check_handler(const char *file, int line, const char *func, const char *expr);

/* Install a handler; NULL restores the default.  Returns the one before.
 * Atomic; the last caller wins. */
zi_check_handler *zi_check_set_handler(zi_check_handler *h);

/* How many assertions have failed so far in this process. */
unsigned long zi_check_n_failed(void);

__attribute__((cold)) void
zi_check_fail(const char *file, int line, const char *func, const char *expr);

#define zi_check_now_(x)                                                                 \
    (__builtin_expect(!!(x), 1) ? (void)0                                                \
                                : zi_check_fail(__FILE__, __LINE__, __func__, #x))
#define zi_check_never_(x) ((void)sizeof(!!(x)))

#define zi_assert(x) zi_check_now_(x)
#if ZI_CHECK_LEVEL >= 2
#    define zi_assert_slow(x) zi_check_now_(x)
#else
#    define zi_assert_slow(x) zi_check_never_(x)
#endif
#if ZI_CHECK_LEVEL >= 3
#    define zi_assert_paranoid(x) zi_check_now_(x)
#else
#    define zi_assert_paranoid(x) zi_check_never_(x)
#endif

#endif /* ZI_BASE_CHECK_H */

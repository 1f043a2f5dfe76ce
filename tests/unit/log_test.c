/* log_test.c -- whole lines reach the sink, at the level asked for. */
#include "base/log.h"
#include "test.h"

#include <errno.h>

static char     got[4 * ZI_LOG_LINE_BYTES];
static size_t   got_n;
static unsigned n_lines;

static void
keep(zi_log_level level, const char *line, size_t n, void *user)
{
    (void)level;
    assert_ptr_equal(got, user);
    assert_true(got_n + n < sizeof got);
    memcpy(got + got_n, line, n);
    got_n += n;
    got[got_n] = '\0';
    n_lines++;
    errno = EIO; /* a sink may do anything to errno */
}

static int
set_up(void **state)
{
    (void)state;
    got_n = n_lines = 0;
    got[0] = '\0';
    zi_log_set_sink(keep, got);
    zi_log_set_level(ZI_LOG_SESSION);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    zi_log_set_sink(NULL, NULL);
    zi_log_set_level(ZI_LOG_SESSION);
    zi_log_set_name(NULL);
    return 0;
}

/* Lines at or below the level pass, others are not even formatted. */
static void
levels_filter(void **state)
{
    int n_evaluated = 0;

    (void)state;
    zi_log(ZI_LOG_PROCESS, "budget %d", 1);
    zi_log(ZI_LOG_SESSION, "job %s", "a");
    zi_log(ZI_LOG_STEP, "step %d", ++n_evaluated);
    assert_int_equal(0, n_evaluated);
    assert_string_equal("zico: budget 1\nzico: job a\n", got);
    zi_log_set_level(ZI_LOG_STEP);
    zi_log(ZI_LOG_STEP, "step %d", ++n_evaluated);
    assert_int_equal(3, n_lines);
}

/* Errors say so and cannot be silenced; the name in front can be set. */
static void
errors_always_pass(void **state)
{
    (void)state;
    zi_log_set_level(ZI_LOG_ERROR);
    zi_log_set_name("zico serve");
    zi_log(ZI_LOG_PROCESS, "quiet");
    zi_log(ZI_LOG_ERROR, "no memory");
    assert_string_equal("zico serve: error: no memory\n", got);
}

/* A line that is too long is cut with dots and still ends in a newline. */
static void
long_lines_are_cut(void **state)
{
    static char text[3000];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    zi_log(ZI_LOG_PROCESS, "%s", text);
    assert_int_equal(1, n_lines);
    assert_true(got_n <= ZI_LOG_LINE_BYTES);
    assert_string_equal("a...\n", got + got_n - 5);
    assert_int_equal(got_n, strlen(got));
}

/* Logging between a failed call and the look at errno is harmless. */
static void
errno_is_kept(void **state)
{
    (void)state;
    errno = ENOENT;
    zi_log(ZI_LOG_PROCESS, "x");
    assert_int_equal(ENOENT, errno);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(levels_filter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_always_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errno_is_kept, set_up, tear_down),
    };
    return t_main(tests);
}

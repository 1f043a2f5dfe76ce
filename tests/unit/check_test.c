/* check_test.c -- assertions speak and abort by default, and can be made to poison instead. */
#include "base/check.h"
#include "base/try.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char seen[256];

static void
remember(const char *file, int line, const char *func, const char *expr)
{
    (void)file, (void)line;
    snprintf(seen, sizeof seen, "%s in %s", expr, func);
}

/* A handler that returns lets the host go on; it hears what failed and where. */
static void
a_handler_can_go_on(void **state)
{
    unsigned long before = zi_check_n_failed();
    int           two = 2;

    (void)state;
    assert_null(zi_check_set_handler(remember));
    zi_assert(two == 2);
    assert_int_equal(before, zi_check_n_failed());
    zi_assert(two == 3);
    assert_ptr_equal(remember, zi_check_set_handler(NULL));
    assert_int_equal(before + 1, zi_check_n_failed());
    assert_string_equal("two == 3 in a_handler_can_go_on", seen);
}

/* Without a handler a failed assertion prints one line and aborts. */
static void
the_default_aborts(void **state)
{
    int  fd[2], status;
    char text[512];

    (void)state;
    assert_int_equal(0, pipe(fd));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fd[1], STDERR_FILENO);
        zi_assert(1 + 1 == 3);
        _exit(0);
    }
    close(fd[1]);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    ssize_t n = read(fd[0], text, sizeof text - 1);
    close(fd[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "1 + 1 == 3"));
    assert_non_null(strstr(text, "check_test.c:"));
    assert_non_null(strstr(text, "the_default_aborts"));
}

/* An assertion above the check level is compiled but not evaluated. */
static void
levels_decide_what_runs(void **state)
{
    int n = 0;

    (void)state;
    zi_assert(++n);
    zi_assert_slow(++n);
    zi_assert_paranoid(++n);
    assert_int_equal(ZI_CHECK_LEVEL, n);
}

static zico_status
passes_on(zico_status st, int *n_after)
{
    ZI_TRY(st);
    (*n_after)++;
    return ZICO_OK;
}

/* ZI_TRY returns failures and lets success and PENDING go on. */
static void
try_returns_failures_only(void **state)
{
    int n = 0;

    (void)state;
    expect_status(ZICO_E_BUSY, passes_on(ZICO_E_BUSY, &n));
    assert_int_equal(0, n);
    expect_status(ZICO_OK, passes_on(ZICO_OK, &n));
    expect_status(ZICO_OK, passes_on(ZICO_PENDING, &n));
    assert_int_equal(2, n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_can_go_on),
        cmocka_unit_test(the_default_aborts),
        cmocka_unit_test(levels_decide_what_runs),
        cmocka_unit_test(try_returns_failures_only),
    };
    return t_main(tests);
}

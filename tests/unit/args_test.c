/* args_test.c -- options are understood or refused, never guessed. */
#include "cli/args.h"

#include <fcntl.h>
#include <unistd.h>
#include "cli/commands.h"
#include "test.h"

static bool        flag;
static const char *text;
static uint64_t    size, count;
static double      real;
static const char *rest[8];
static size_t      n_rest;

static const zi_arg  table[] = {{"flag", ZI_ARG_FLAG, &flag, NULL, "a flag"},
                                {"text", ZI_ARG_TEXT, &text, "TEXT", "a text"},
                                {"size", ZI_ARG_SIZE, &size, "BYTES", "a size"},
                                {"count", ZI_ARG_U64, &count, "N", "a count"},
                                {"real", ZI_ARG_REAL, &real, "R", "a number"}};
static const zi_args spec = {"try [OPTION...] WORD", "For a test.", table, 5, 1, 2};

/* Standard output and error go nowhere while the call runs. */
static zico_status
parse(char **argv)
{
    int argc = 0, out = dup(1), err = dup(2),
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    flag = false, text = NULL, size = count = 0, real = 0, n_rest = 0;
    while (argv[argc]) argc++;
    fflush(stdout);
    dup2(null, 1);
    dup2(null, 2);
    zico_status st = zi_args_parse(&spec, argc, argv, rest, &n_rest);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    close(null);
    return st;
}
#define P(...) parse((char *[]){(char[]){"try"}, __VA_ARGS__, NULL})

/* Both spellings, all kinds, words in between, and -- to end options. */
static void
understood(void **state)
{
    (void)state;
    assert_int_equal(ZICO_OK, P("--flag", "one", "--text", "abc", "--size=2M",
                                "--count=7", "--real", ".5"));
    assert_true(flag);
    assert_string_equal("abc", text);
    assert_int_equal(2 << 20, size);
    assert_int_equal(7, count);
    assert_true(real == 0.5);
    assert_int_equal(1, n_rest);
    assert_string_equal("one", rest[0]);
    assert_int_equal(ZICO_OK, P("--", "--flag", "x"));
    assert_false(flag);
    assert_int_equal(2, n_rest);
    assert_string_equal("--flag", rest[0]);
    assert_int_equal(ZICO_OK, P("x", "--text="));
    assert_string_equal("", text);
}

static void
refused(void **state)
{
    (void)state;
    assert_int_equal(ZICO_E_ARG, P("--nothing", "x"));
    assert_int_equal(ZICO_E_ARG, P("--flags", "x"));
    assert_int_equal(ZICO_E_ARG, P("--flag=1", "x"));
    assert_int_equal(ZICO_E_ARG, P("x", "--text"));
    assert_int_equal(ZICO_E_ARG, P("x", "--size", "many"));
    assert_int_equal(ZICO_E_ARG, P("x", "--size", "50%"));
    assert_int_equal(ZICO_E_ARG, P("x", "--count", "-1"));
    assert_int_equal(ZICO_E_ARG, P("x", "--count", "1x"));
    assert_int_equal(ZICO_E_ARG, P("x", "--count", "99999999999999999999"));
    assert_int_equal(ZICO_E_ARG, P("x", "--real", "-2"));
    assert_int_equal(ZICO_E_ARG, P("x", "--real", "nan"));
    assert_int_equal(ZICO_E_ARG, P("--flag"));            /* too few words */
    assert_int_equal(ZICO_E_ARG, P("a", "b", "c"));       /* too many */
    assert_int_equal(ZICO_PENDING, P("--help", "--bad")); /* help comes first */
    assert_int_equal(2, zi_args_exit(ZICO_E_ARG));
    assert_int_equal(0, zi_args_exit(ZICO_PENDING));
}

/* One or two slips are recognised, anything else is not. */
static void
guesses(void **state)
{
    static const char *const known[] = {"serve", "status", "stop"};

    (void)state;
    assert_string_equal("status", zi_args_guess("sttus", known, 3));
    assert_string_equal("serve", zi_args_guess("sevre", known, 3));
    assert_string_equal("stop", zi_args_guess("stopp", known, 3));
    assert_null(zi_args_guess("banana", known, 3));
    assert_null(zi_args_guess("", known, 3));
    assert_null(zi_args_guess("a very long word that nobody meant to type", known, 3));
}

/* Every command explains itself; what is no command is refused. */
static void
commands_explain_themselves(void **state)
{
    int    out = dup(1), err = dup(2), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char   zico[] = "zico", help[] = "--help", bad[] = "sttaus", word[] = "help";
    int    codes[32];
    size_t n = 0;

    (void)state;
    fflush(stdout);
    dup2(null, 1);
    dup2(null, 2);
#define X(name, function, about)                                                         \
    codes[n++] = zi_cli_main(3, (char *[]){zico, (char[]){#name}, help, NULL});
#include "cli/commands.def"
    int all = zi_cli_main(2, (char *[]){zico, help, NULL});
    int one = zi_cli_main(3, (char *[]){zico, word, (char[]){"serve"}, NULL});
    int none = zi_cli_main(1, (char *[]){zico, NULL});
    int wrong = zi_cli_main(2, (char *[]){zico, bad, NULL});
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    close(out), close(err), close(null);
    for (size_t i = 0; i < n; i++) assert_int_equal(0, codes[i]);
    assert_int_equal(0, all);
    assert_int_equal(0, one);
    assert_int_equal(2, none);
    assert_int_equal(2, wrong);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(understood),
        cmocka_unit_test(refused),
        cmocka_unit_test(guesses),
        cmocka_unit_test(commands_explain_themselves),
    };
    return t_main(tests);
}

/* fmt_test.c -- zi_fmt agrees with printf on what it understands. */
#include "base/fmt.h"
#include "test.h"

#include <math.h>

#define same(...)                                                                        \
    do {                                                                                 \
        char   a_[256], b_[256];                                                         \
        size_t n_ = zi_fmt(a_, sizeof a_, __VA_ARGS__);                                  \
        int    m_ = snprintf(b_, sizeof b_, __VA_ARGS__);                                \
        assert_string_equal(b_, a_);                                                     \
        assert_int_equal(m_, n_);                                                        \
    } while (0)

/* Integers of every length, at both ends of their ranges. */
static void
integers_as_printf(void **state)
{
    (void)state;
    same("%d %i", 0, -1);
    same("%d %d", INT32_MIN, INT32_MAX);
    same("%ld %lld", INT64_MIN, (long long)INT64_MAX);
    same("%u %lu %llu %zu", UINT32_MAX, UINT64_MAX, (unsigned long long)UINT64_MAX,
         SIZE_MAX);
    same("%x %lx %llx", 0xdeadbeefu, 0x123456789abcdefUL, 0ull);
    same("%zd", (ptrdiff_t)-5);
    same("%p", (void *)0x1234);
    same("[%5d] [%-5d] [%05d] [%05d] [%2d]", 42, 42, 42, -42, 12345);
    same("[%8x] [%08x]", 0xffu, 0xffu);
}

/* Strings, cut or padded; characters; percent signs. */
static void
strings_as_printf(void **state)
{
    (void)state;
    same("%s|%s", "abc", "");
    same("%.2s|%.0s|%.*s", "abc", "abc", 1, "xyz");
    same("[%6s] [%-6s]", "abc", "abc");
    same("%c%c %%", 'o', 'k');
    same("100%% of %s", "it");
}

/* A string cut by precision is not read beyond it: there is no NUL to find. */
static void
precision_guards_unterminated_text(void **state)
{
    char  a[8];
    char *raw = malloc(3);

    (void)state;
    memcpy(raw, "abc", 3);
    assert_int_equal(3, zi_fmt(a, sizeof a, "%.*s", 3, raw));
    assert_string_equal("abc", a);
    free(raw);
}

/* Decimals, where the binary value is not a tie. */
static void
decimals_as_printf(void **state)
{
    (void)state;
    same("%.2f %.0f %f", 3.14159, 2.7, 1.5);
    same("%.1f %.3f", -0.25001, 999.9996);
    same("%8.2f|%-8.2f|%08.2f", 1.25, 1.25, -1.25);
    same("%.2f", 0.995001);
    for (int i = 0; i < 5000; i++) {
        double v = (t_rand_unit() - 0.5) * 1e6;
        same("%.3f", v);
    }
}

/* What has no plain digits still prints something true. */
static void
odd_numbers(void **state)
{
    char a[64];

    (void)state;
    zi_fmt(a, sizeof a, "%f %f %f", (double)NAN, (double)INFINITY, (double)-INFINITY);
    assert_string_equal("nan inf -inf", a);
    zi_fmt(a, sizeof a, "%.2f", 1.5e300);
    assert_string_equal("1.50e+300", a);
}

/* A short buffer is cut, terminated and not passed; the length is the whole one. */
static void
short_buffers_are_respected(void **state)
{
    char a[8];

    (void)state;
    memset(a, 'x', sizeof a);
    assert_int_equal(11, zi_fmt(a, 5, "%s %s", "hello", "world"));
    assert_string_equal("hell", a);
    assert_int_equal('x', a[5]);
    assert_int_equal(5, zi_fmt(NULL, 0, "hello"));
    zi_fmt(a, 1, "hello");
    assert_string_equal("", a);
}

/* An unknown conversion shows the rest of the format and reads no argument. */
static void
unknown_conversions_stop(void **state)
{
    char        a[64];
    const char *fmt = "%d %q %s";

    (void)state;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-security"
    zi_fmt(a, sizeof a, fmt, 1, (char *)8);
#pragma GCC diagnostic pop
    assert_string_equal("1 %q %s", a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_as_printf),
        cmocka_unit_test(strings_as_printf),
        cmocka_unit_test(precision_guards_unterminated_text),
        cmocka_unit_test(decimals_as_printf),
        cmocka_unit_test(odd_numbers),
        cmocka_unit_test(short_buffers_are_respected),
        cmocka_unit_test(unknown_conversions_stop),
    };
    return t_main(tests);
}

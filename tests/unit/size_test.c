/* size_test.c -- sizes are read as people write them and never overflow. */
#include "base/size.h"
#include "test.h"

static uint64_t
parsed(const char *text, uint64_t base)
{
    uint64_t bytes = 0;
    expect_ok(zi_size_parse(text, base, &bytes));
    return bytes;
}

/* Letters alone and with i are powers of 1024, with B alone powers of 1000. */
static void
units_mean_what_the_head_says(void **state)
{
    (void)state;
    assert_int_equal(600, parsed("600", 0));
    assert_int_equal(600, parsed("600B", 0));
    assert_int_equal(4 * ZI_KIB, parsed("4K", 0));
    assert_int_equal(600 * ZI_MIB, parsed("600M", 0));
    assert_int_equal(4 * ZI_GIB, parsed("4G", 0));
    assert_int_equal(4 * ZI_GIB, parsed("4gib", 0));
    assert_int_equal(4 * ZI_GIB, parsed("4 Gi", 0));
    assert_int_equal(2048 * ZI_GIB, parsed("2T", 0));
    assert_int_equal(4000000000u, parsed("4GB", 0));
    assert_int_equal(1000, parsed("1kb", 0));
}

/* Fractions are exact and rounded down; a share is of the given base. */
static void
fractions_and_shares(void **state)
{
    (void)state;
    assert_int_equal(3 * ZI_GIB / 2, parsed("1.5GiB", 0));
    assert_int_equal(ZI_KIB / 2, parsed(".5K", 0));
    assert_int_equal(1, parsed("1.9", 0));
    assert_int_equal(400, parsed("40%", 1000));
    assert_int_equal(1, parsed("0.1%", 1999));
    assert_int_equal(UINT64_MAX, parsed("100%", UINT64_MAX));
    assert_int_equal(107374182, parsed("0.1G", 0));
    assert_int_equal(0, parsed("0", 0));
    assert_int_equal(1, parsed("1.00000000000000000000000001", 0));
}

/* What does not fit in 64 bits is out of range, and what just fits is exact. */
static void
the_edge_of_64_bits(void **state)
{
    uint64_t bytes = 77;

    (void)state;
    assert_int_equal(UINT64_MAX, parsed("18446744073709551615", 0));
    expect_status(ZICO_E_ARG, zi_size_parse("18446744073709551616", 0, &bytes));
    expect_status(ZICO_E_ARG, zi_size_parse("16777216T", 0, &bytes));
    assert_int_equal(16777215 * (ZI_GIB * 1024), parsed("16777215T", 0));
    expect_status(ZICO_E_ARG, zi_size_parse("18446744073709551615T", 0, &bytes));
    expect_status(ZICO_E_ARG,
                  zi_size_parse("18446744073709551615.999999999T", 0, &bytes));
    expect_status(ZICO_E_ARG,
                  zi_size_parse("99999999999999999999999999999999999999999999", 0,
                                &bytes));
    expect_status(ZICO_E_ARG, zi_size_parse("101%", 1000, &bytes));
    expect_status(ZICO_E_ARG, zi_size_parse("40%", 0, &bytes));
    assert_int_equal(77, bytes); /* outputs are written only on success */
}

/* Anything else is refused, not guessed at. */
static void
malformed_text_is_refused(void **state)
{
    static const char *const bad[] = {"",     " ",    "G",     ".",     "-1",
                                      "+1",   "4X",   "4GG",   "4 GB ", "4G 1",
                                      "1,5G", "0x10", "4iB",   "4%%",   "4Bi",
                                      "nan",  "1e9",  "4Kib5", " 4G",   "4\tG"};
    uint64_t                 bytes = 77;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (zi_size_parse(bad[i], 100, &bytes) != ZICO_E_FORMAT)
            fail_msg("'%s' was not refused as malformed", bad[i]);
    }
    assert_int_equal(77, bytes);
}

static void
expect_text(const char *want, uint64_t bytes)
{
    char text[ZI_SIZE_TEXT];
    assert_string_equal(want, zi_size_format(bytes, text));
}

/* Exact sizes without a decimal, rounded ones with one; never "1024.0 KiB". */
static void
sizes_print_for_humans(void **state)
{
    (void)state;
    expect_text("0 B", 0);
    expect_text("512 B", 512);
    expect_text("1023 B", 1023);
    expect_text("4 GiB", 4 * ZI_GIB);
    expect_text("1.5 KiB", 1536);
    expect_text("1.2 GiB", 1288490189);
    expect_text("1.0 MiB", ZI_MIB - 1);
    expect_text("16.0 EiB", UINT64_MAX - 5);
    expect_text("1.0 KiB", 1025);
}

/* Printed sizes can be read again, to within the one decimal that was printed. */
static void
printed_sizes_are_read_again(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t bytes = t_rand() >> (14 + t_rand_below(50));
        char     text[ZI_SIZE_TEXT];
        uint64_t again = parsed(zi_size_format(bytes, text), 0);
        uint64_t off = again > bytes ? again - bytes : bytes - again;
        if (off > bytes / 16) fail_msg("%llu -> %s", (unsigned long long)bytes, text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_mean_what_the_head_says),
        cmocka_unit_test(fractions_and_shares),
        cmocka_unit_test(the_edge_of_64_bits),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(sizes_print_for_humans),
        cmocka_unit_test(printed_sizes_are_read_again),
    };
    return t_main(tests);
}

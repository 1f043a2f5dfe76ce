/* json_test.c -- what is written is JSON, whatever text and numbers go in. */
#include "base/json.h"
#include "base/alloc.h"
#include "base/check.h"
#include "test.h"

#include <math.h>

/* Objects and arrays nest, with commas exactly where they belong. */
static void
structure_and_commas(void **state)
{
    zi_str  s = {0};
    zi_json j = zi_json_into(&s);

    (void)state;
    zi_json_object(&j);
    zi_json_key(&j, "a"), zi_json_u64(&j, UINT64_MAX);
    zi_json_key(&j, "b"), zi_json_array(&j);
    zi_json_i64(&j, INT64_MIN), zi_json_bool(&j, true), zi_json_null(&j);
    zi_json_object(&j), zi_json_end(&j);
    zi_json_array(&j), zi_json_end(&j);
    zi_json_end(&j);
    zi_json_key(&j, "c"), zi_json_str(&j, NULL);
    expect_status(ZICO_E_STATE, zi_json_status(&j)); /* not whole yet */
    zi_json_end(&j);
    expect_ok(zi_json_status(&j));
    assert_string_equal("{\"a\":18446744073709551615,"
                        "\"b\":[-9223372036854775808,true,null,{},[]],\"c\":null}",
                        zi_str_get(&s));
    zi_str_free(&s);
}

static void
expect_quoted(const char *want, const char *text, size_t n)
{
    zi_str  s = {0};
    zi_json j = zi_json_into(&s);

    zi_json_str_n(&j, text, n);
    expect_ok(zi_json_status(&j));
    assert_string_equal(want, zi_str_get(&s));
    zi_str_free(&s);
}

/* Quotes, controls and NUL are escaped; UTF-8 passes; what is not UTF-8 is replaced. */
static void
text_is_escaped(void **state)
{
    (void)state;
    expect_quoted("\"a\\\"b\\\\c\"", "a\"b\\c", 5);
    expect_quoted("\"\\b\\f\\n\\r\\t\\u0001\\u007f\"", "\b\f\n\r\t\x01\x7f", 7);
    expect_quoted("\"\\u0000x\"", "\0x", 2);
    expect_quoted("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a\"",
                  "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a", 9);
    expect_quoted("\"\\ufffdx\"", "\xffx", 2);
    expect_quoted("\"\\ufffd\"", "\xc3", 1);                       /* cut short */
    expect_quoted("\"\\ufffd\\ufffd\"", "\xc0\xaf", 2);            /* overlong */
    expect_quoted("\"\\ufffd\\ufffd\\ufffd\"", "\xed\xa0\x80", 3); /* surrogate */
    expect_quoted("\"\"", "", 0);
}

static void
expect_number(const char *want, double v)
{
    zi_str  s = {0};
    zi_json j = zi_json_into(&s);

    zi_json_f64(&j, v);
    assert_string_equal(want, zi_str_get(&s));
    zi_str_free(&s);
}

/* Numbers are short when they can be, give the value back, and are null when not finite. */
static void
numbers_come_back(void **state)
{
    (void)state;
    expect_number("0.1", 0.1);
    expect_number("3", 3.0);
    expect_number("-1.5e+300", -1.5e300);
    expect_number("null", NAN);
    expect_number("null", INFINITY);
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = t_rand();
        double   v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        zi_str  s = {0};
        zi_json j = zi_json_into(&s);
        zi_json_f64(&j, v);
        assert_true(strtod(zi_str_get(&s), NULL) == v);
        zi_str_free(&s);
    }
}

static void
ignore(const char *file, int line, const char *func, const char *expr)
{
    (void)file, (void)line, (void)func, (void)expr;
}

/* A call in the wrong place asserts, and where assertions return, the status tells. */
static void
misuse_is_caught(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        zi_str        s = {0};
        zi_json       j = zi_json_into(&s);
        unsigned long before = zi_check_n_failed();

        zi_check_set_handler(ignore);
        if (kind == 0) zi_json_end(&j);
        if (kind == 1) zi_json_key(&j, "k");
        if (kind == 2) zi_json_object(&j), zi_json_u64(&j, 1);
        if (kind == 3) zi_json_u64(&j, 1), zi_json_u64(&j, 2);
        if (kind == 4)
            for (int i = 0; i <= ZI_JSON_DEPTH; i++) zi_json_array(&j);
        zi_check_set_handler(NULL);
        assert_int_equal(before + 1, zi_check_n_failed());
        expect_status(ZICO_E_STATE, zi_json_status(&j));
        zi_str_free(&s);
    }
}

/* Memory that runs out in the middle is reported at the end. */
static void
exhausted_memory_is_reported(void **state)
{
    zi_str  s = {0};
    zi_json j = zi_json_into(&s);

    (void)state;
    zi_alloc_fail_at(2);
    zi_json_array(&j);
    for (int i = 0; i < 100; i++) zi_json_str(&j, "something to say");
    zi_json_end(&j);
    zi_alloc_fail_at(0);
    expect_status(ZICO_E_NOMEM, zi_json_status(&j));
    zi_str_free(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure_and_commas),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(exhausted_memory_is_reported),
    };
    return t_main(tests);
}

/* hook_env_test.c -- options from the environment: read, defaulted, and never fatal. */
#include "hook/env.h"
#include "test.h"
#include "zico/client.h"

static const char *names[16], *values[16];
static int         n_set;

static const char *
fake_env(const char *name)
{
    for (int i = 0; i < n_set; i++)
        if (strcmp(names[i], name) == 0) return values[i];
    return NULL;
}

static void
set(const char *name, const char *value)
{
    names[n_set] = name;
    values[n_set++] = value;
}

static int
reset(void **state)
{
    (void)state;
    n_set = 0;
    return 0;
}

/* Nothing set: the library stays out, and the defaults are those of the page. */
static void
defaults(void **state)
{
    zi_hook_options o;
    const char     *bad;

    (void)state;
    zi_hook_options_read(fake_env, &o, &bad);
    assert_null(bad);
    assert_int_equal(ZI_HOOK_OFF, o.mode);
    assert_int_equal(ZI_HOOK_MIN_DEFAULT, o.min_bytes);
    assert_int_equal(1000, o.weight_milli);
    assert_true(o.max_wait_ns == ZICO_FOREVER);
    assert_int_equal(ZI_CORES_FOLLOW, o.core_mode);
    assert_null(o.name);
}

/* Everything set arrives. */
static void
all_set(void **state)
{
    zi_hook_options o;
    const char     *bad;

    (void)state;
    set(ZI_ENV_MODE, "join");
    set(ZI_ENV_MIN, "4M");
    set(ZI_ENV_LOCAL, "1G");
    set(ZI_ENV_LEAST, "100M");
    set(ZI_ENV_MOST, "2G");
    set(ZI_ENV_CLAIM, "700M");
    set(ZI_ENV_WEIGHT, "2500");
    set(ZI_ENV_CORES, "fixed:2");
    set(ZI_ENV_MAX_WAIT, "1.5s");
    set(ZI_ENV_NAME, "resnet");
    set(ZI_ENV_SOCKET, "");
    set(ZI_ENV_SPILL, "/scratch");
    zi_hook_options_read(fake_env, &o, &bad);
    assert_null(bad);
    assert_string_equal("/scratch", o.spill_dir);
    assert_false(o.no_spill);
    assert_int_equal(ZI_HOOK_JOIN, o.mode);
    assert_int_equal(4 << 20, o.min_bytes);
    assert_int_equal(1 << 30, o.local_bytes);
    assert_int_equal(100 << 20, o.least_bytes);
    assert_true(o.most_bytes == (uint64_t)2 << 30);
    assert_int_equal(700 << 20, o.claim_bytes);
    assert_int_equal(2500, o.weight_milli);
    assert_int_equal(ZI_CORES_FIXED, o.core_mode);
    assert_int_equal(2, o.cores);
    assert_int_equal(1500000000, o.max_wait_ns);
    assert_string_equal("resnet", o.name);
    assert_null(o.socket_path); /* empty is not given */
}

/* What cannot be read counts as not given, and the first such variable is named. */
static void
unreadable(void **state)
{
    static const char *const wrong[][2] = {
        {"ZICO_HOOK", "yes"},        {"ZICO_HOOK_MIN", "lots"}, {"ZICO_WEIGHT", "0"},
        {"ZICO_CORES", "fixed:"},    {"ZICO_CORES", "all"},     {"ZICO_MAX_WAIT", "-1"},
        {"ZICO_MAX_WAIT", "3 days"}, {"ZICO_MAX", "90%"},       {"ZICO_CORES", "fixed:0"},
    };
    zi_hook_options o, plain;
    const char     *bad;

    (void)state;
    zi_hook_options_read(fake_env, &plain, &bad);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        n_set = 0;
        set(wrong[i][0], wrong[i][1]);
        zi_hook_options_read(fake_env, &o, &bad);
        assert_string_equal(wrong[i][0], bad);
        assert_memory_equal(&plain, &o, sizeof o);
    }
}

/* "none" is no folder. */
static void
never_out(void **state)
{
    zi_hook_options o;
    const char     *bad;

    (void)state;
    set(ZI_ENV_SPILL, "none");
    zi_hook_options_read(fake_env, &o, &bad);
    assert_true(o.no_spill);
    assert_null(o.spill_dir);
}

/* A threshold below the grain of private mappings is raised to it. */
static void
least_threshold(void **state)
{
    zi_hook_options o;
    const char     *bad;

    (void)state;
    set(ZI_ENV_MIN, "16");
    zi_hook_options_read(fake_env, &o, &bad);
    assert_null(bad);
    assert_int_equal(ZI_HOOK_MIN_LEAST, o.min_bytes);
}

/* Times as people write them. */
static void
waits(void **state)
{
    uint64_t ns;

    (void)state;
    expect_ok(zi_hook_parse_wait("30", &ns));
    assert_true(ns == 30000000000ull);
    expect_ok(zi_hook_parse_wait("250ms", &ns));
    assert_true(ns == 250000000ull);
    expect_ok(zi_hook_parse_wait("5m", &ns));
    assert_true(ns == 300000000000ull);
    expect_ok(zi_hook_parse_wait("forever", &ns));
    assert_true(ns == ZICO_FOREVER);
    expect_status(ZICO_E_FORMAT, zi_hook_parse_wait("", &ns));
    expect_status(ZICO_E_FORMAT, zi_hook_parse_wait("5w", &ns));
    expect_status(ZICO_E_ARG, zi_hook_parse_wait("9999999h", &ns));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, reset),
        cmocka_unit_test_setup(all_set, reset),
        cmocka_unit_test_setup(never_out, reset),
        cmocka_unit_test_setup(unreadable, reset),
        cmocka_unit_test_setup(least_threshold, reset),
        cmocka_unit_test_setup(waits, reset),
    };
    return t_main(tests);
}

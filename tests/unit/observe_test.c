/* observe_test.c -- what an observed process notes, and what is read out of it. */
#include "hook/observe.h"
#include "hook/hook.h"
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static struct {
    zi_observe_head  head;
    zi_observe_event event[64];
} file;

static void
begin(void)
{
    memset(&file, 0, sizeof file);
    file.head.magic = ZI_OBSERVE_MAGIC;
    file.head.version = ZI_OBSERVE_VERSION;
    file.head.began_ns = 1000;
    file.head.cap_events = 64;
}

static void
add(uint64_t at_ns, zi_observe_kind kind, uint64_t size)
{
    file.event[file.head.n_events] = (zi_observe_event){1000 + at_ns, size, kind, 0};
    file.head.n_events++;
}

/* Two equal steps above 10 MiB that stay: floor, peak, period, mean and tide are exact. */
static void
two_steps(void **state)
{
    zi_observed o;

    (void)state;
    begin();
    add(0, ZI_OBSERVE_TAKE, 10 * MIB);
    add(100, ZI_OBSERVE_STEP, 0);
    for (uint64_t t = 100; t < 300; t += 100) {
        add(t + 20, ZI_OBSERVE_TAKE, 4 * MIB);
        add(t + 40, ZI_OBSERVE_TAKE, 4 * MIB);
        add(t + 60, ZI_OBSERVE_GIVE, 4 * MIB);
        add(t + 80, ZI_OBSERVE_GIVE, 4 * MIB);
        add(t + 100, ZI_OBSERVE_STEP, 0);
    }
    expect_ok(zi_observe_read(&file, sizeof file, &o));
    assert_int_equal(2, o.n_steps);
    assert_int_equal(18 * MIB, o.peak_bytes);
    assert_int_equal(10 * MIB, o.floor_bytes);
    assert_int_equal(100, o.period_ns);
    assert_int_equal(10 * MIB + (20 * 4 + 20 * 8 + 20 * 4) * MIB / 100, o.mean_bytes);
    expect_ok(zi_tide_verify(&o.tide));
    assert_int_equal(8 * MIB, o.tide.peak_bytes);
    assert_int_equal(0, o.tide.end_bytes);
    assert_int_equal(18 * MIB, o.life.peak_bytes);
}

/* A process without steps still has a life, a peak and a mean. */
static void
no_steps(void **state)
{
    zi_observed o;

    (void)state;
    begin();
    add(0, ZI_OBSERVE_TAKE, 4 * MIB);
    add(50, ZI_OBSERVE_GIVE, 4 * MIB);
    add(100, ZI_OBSERVE_TAKE, 2 * MIB);
    expect_ok(zi_observe_read(&file, sizeof file, &o));
    assert_int_equal(0, o.n_steps);
    assert_int_equal(0, o.tide.n_points);
    assert_int_equal(4 * MIB, o.peak_bytes);
    assert_int_equal(2 * MIB, o.mean_bytes);
}

/* Damaged files are refused, cut ones are read as far as they go. */
static void
damaged(void **state)
{
    zi_observed o;

    (void)state;
    begin();
    add(0, ZI_OBSERVE_TAKE, MIB);
    expect_status(ZICO_E_FORMAT, zi_observe_read(&file, 10, &o));
    file.event[0].kind = 99;
    expect_status(ZICO_E_FORMAT, zi_observe_read(&file, sizeof file, &o));
    file.event[0].kind = ZI_OBSERVE_TAKE;
    file.head.n_events = 1000; /* more than were stored */
    expect_ok(zi_observe_read(&file, sizeof file, &o));
    assert_int_equal(1, o.n_events);
    assert_int_equal(936, o.n_lost);
    file.head.magic = 0;
    expect_status(ZICO_E_FORMAT, zi_observe_read(&file, sizeof file, &o));
}

/* In observe mode blocks stay the previous allocator's; takes, moves and frees of large ones
 * are in the file afterwards, small ones are not. */
static void
writes_notes(void **state)
{
    const char     *dir = t_tmpdir();
    char            name[64];
    zi_observed     o;
    struct stat     sb;
    zi_hook_options opt = {.mode = ZI_HOOK_OBSERVE, .min_bytes = MIB, .observe_dir = dir};

    (void)state;
    zi_prev_resolve();
    expect_ok(zi_shim_start(zi_os_real(), &opt, NULL));
    void *p = zi_hook_malloc(3 * MIB);
    assert_false(zi_hook_ours(p));
    p = zi_hook_realloc(p, 5 * MIB);
    zi_shim_step();
    void *q = zi_hook_calloc(2, MIB);
    zi_hot_state.prev.free(q);
    zi_shim_step();
    p = zi_hot_state.prev.realloc(p, 10);
    zi_hot_state.prev.free(p);
    zi_shim_stop();

    snprintf(name, sizeof name, "observe-%d", (int)getpid());
    int fd = open(t_path(dir, name), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(0, fstat(fd, &sb));
    void *at = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(MAP_FAILED, at);
    close(fd);
    expect_ok(zi_observe_read(at, (size_t)sb.st_size, &o));
    assert_int_equal(1, o.n_steps);
    assert_int_equal(7 * MIB, o.peak_bytes);
    assert_int_equal(5 * MIB, o.floor_bytes);
    assert_int_equal(2 * MIB, o.tide.peak_bytes);
    assert_int_equal(8, o.n_events); /* 3, -3, 5, step, 2, -2, step, -5 */
    munmap(at, (size_t)sb.st_size);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_steps),
        cmocka_unit_test(no_steps),
        cmocka_unit_test(damaged),
        cmocka_unit_test(writes_notes),
    };
    return t_main(tests);
}

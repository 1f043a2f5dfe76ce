/* host_pool_test.c -- the host's pool: sealed, shared, and what the kernel says of it. */
#include "device/device.h"
#include "os/fake.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static const zi_device_ops *const ops = &zi_device_host;
static const zi_pool_shape        shape = {.region_bytes = 2 * MIB, .n_regions = 8};

static zi_device *
open_host(void)
{
    zi_device *dev;
    expect_ok(ops->open(zi_os_real(), 0, &dev));
    return dev;
}

/* The device is found by name; other names are not. */
static void
table_has_host(void **state)
{
    (void)state;
    assert_ptr_equal(&zi_device_host, zi_device_find("host"));
    assert_null(zi_device_find("hos"));
    assert_null(zi_device_find(NULL));
}

/* A region is the power of two nearest to a 256th of the budget, between 2 and 64 MiB. */
static void
region_size_follows_budget(void **state)
{
    (void)state;
    assert_int_equal(2 * MIB, zi_device_region_bytes(1));
    assert_int_equal(2 * MIB, zi_device_region_bytes(2048 * MIB));
    assert_int_equal(4 * MIB, zi_device_region_bytes(4096 * MIB));
    assert_int_equal(8 * MIB, zi_device_region_bytes(8192 * MIB));
    assert_int_equal(64 * MIB, zi_device_region_bytes(UINT64_MAX));
}

/* The machine has memory and at least one core, and no more is free than exists. */
static void
machine_is_described(void **state)
{
    zi_device *dev = open_host();
    uint64_t   total, avail;

    (void)state;
    expect_ok(ops->memory(dev, &total, &avail));
    assert_true(total > 0 && avail <= total);
    assert_true(ops->n_cores(dev) >= 1);
    ops->close(dev);
}

/* What is written to a region is seen where it is mapped, and only its pages are there; a place that
 * is not inside the region is refused. */
static void
region_is_written(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *pool;
    void      *base;
    char       text[4096];
    uint64_t   there;

    (void)state;
    memset(text, 0x6b, sizeof text);
    expect_ok(ops->pool_create(dev, &shape, &pool));
    expect_ok(ops->space_reserve(dev, 8 * shape.region_bytes, &base));
    expect_ok(ops->space_map(pool, 0, 8, base, ZI_ACCESS_READ));
    expect_ok(ops->pool_write(pool, 3, 8192, text, sizeof text));
    expect_ok(ops->pool_resident(pool, &there));
    assert_int_equal(sizeof text, there);
    assert_memory_equal(text, (char *)base + 3 * shape.region_bytes + 8192, sizeof text);
    expect_status(ZICO_E_ARG, ops->pool_write(pool, 8, 0, text, sizeof text));
    expect_status(ZICO_E_ARG, ops->pool_write(pool, 7, shape.region_bytes - 1, text, 2));
    ops->space_release(dev, base, 8 * shape.region_bytes);
    ops->pool_close(pool);
    ops->close(dev);
}

/* What one mapping writes, a mapping of the imported descriptor reads. */
static void
two_mappings_show_one_memory(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *mine, *theirs;
    void      *a, *b;
    int        fd;

    (void)state;
    expect_ok(ops->pool_create(dev, &shape, &mine));
    expect_ok(ops->pool_export(mine, &fd));
    expect_ok(ops->pool_import(dev, fd, &shape, &theirs));
    expect_ok(ops->space_reserve(dev, 8 * shape.region_bytes, &a));
    expect_ok(ops->space_reserve(dev, 8 * shape.region_bytes, &b));
    assert_int_equal(0, (uintptr_t)a % ZI_REGION_ALIGN);
    expect_ok(ops->space_map(mine, 0, 8, a, ZI_ACCESS_WRITE));
    expect_ok(ops->space_map(theirs, 3, 2, b, ZI_ACCESS_READ)); /* elsewhere, in part */
    memset((char *)a + 3 * shape.region_bytes, 0x5a, 2 * shape.region_bytes);
    assert_memory_equal(b, (char *)a + 3 * shape.region_bytes, 2 * shape.region_bytes);
    ops->space_release(dev, a, 8 * shape.region_bytes);
    ops->space_release(dev, b, 8 * shape.region_bytes);
    ops->pool_close(theirs);
    ops->pool_close(mine);
    ops->close(dev);
}

/* Nobody who holds the descriptor can truncate the pool or take its seals off. */
static void
pool_cannot_be_truncated(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *pool;
    int        fd;

    (void)state;
    expect_ok(ops->pool_create(dev, &shape, &pool));
    expect_ok(ops->pool_export(pool, &fd));
    assert_int_equal(-1, ftruncate(fd, 0));
    assert_int_equal(EPERM, errno);
    assert_int_equal(-1, ftruncate(fd, 1 << 30));
    assert_int_equal(-1, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    close(fd);
    ops->pool_close(pool);
    ops->close(dev);
}

/* A descriptor that is not sealed, of another size, or no memory file is refused, and
 * stays the caller's. */
static void
import_checks_what_it_gets(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *pool;
    uint64_t   size = shape.region_bytes * shape.n_regions;
    int        loose = memfd_create("loose", MFD_ALLOW_SEALING);
    int        small = memfd_create("small", MFD_ALLOW_SEALING);
    int        file = open("/dev/null", O_RDWR);

    (void)state;
    assert_int_equal(0, ftruncate(loose, (off_t)size));
    assert_int_equal(0, ftruncate(small, (off_t)size / 2));
    fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    expect_status(ZICO_E_PROTO, ops->pool_import(dev, loose, &shape, &pool));
    expect_status(ZICO_E_PROTO, ops->pool_import(dev, small, &shape, &pool));
    expect_status(ZICO_E_PROTO, ops->pool_import(dev, file, &shape, &pool));
    assert_int_equal(0, close(loose) | close(small) | close(file));
    ops->close(dev);
}

/* Shapes that are no power of two, too small, too large or empty are refused. */
static void
bad_shapes_are_refused(void **state)
{
    const zi_pool_shape bad[] = {{3 * MIB, 4}, {MIB, 4}, {128 * MIB, 4}, {2 * MIB, 0}};
    zi_device          *dev = open_host();
    zi_pool            *pool;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_status(ZICO_E_ARG, ops->pool_create(dev, &bad[i], &pool));
    ops->close(dev);
}

/* Populated regions count as resident, punched ones no longer; the rest stays. */
static void
resident_bytes_are_the_kernels(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *pool;
    void      *at;
    uint64_t   bytes;
    uint64_t   r = shape.region_bytes;

    (void)state;
    expect_ok(ops->pool_create(dev, &shape, &pool));
    expect_ok(ops->space_reserve(dev, 8 * r, &at));
    expect_ok(ops->space_map(pool, 0, 8, at, ZI_ACCESS_WRITE));
    expect_ok(ops->pool_resident(pool, &bytes));
    assert_int_equal(0, bytes);
    expect_ok(ops->space_populate(dev, at, 3 * r));
    expect_ok(ops->pool_resident(pool, &bytes));
    assert_int_equal(3 * r, bytes);
    memset(at, 7, 3 * r);
    expect_ok(ops->pool_punch(pool, 1, 1));
    expect_ok(ops->pool_resident(pool, &bytes));
    assert_int_equal(2 * r, bytes);
    assert_int_equal(7, ((char *)at)[0]);
    assert_int_equal(0, ((char *)at)[r]);
    assert_int_equal(7, ((char *)at)[2 * r]);
    expect_status(ZICO_E_ARG, ops->pool_punch(pool, 7, 2));
    expect_status(ZICO_E_ARG, ops->pool_punch(pool, 8, 1));
    expect_status(ZICO_E_ARG, ops->space_map(pool, 0, 9, at, ZI_ACCESS_READ));
    ops->space_release(dev, at, 8 * r);
    ops->pool_close(pool);
    ops->close(dev);
}

/* A child of fork does not see the pool's mapping: it would be written by others. */
static void
mapping_is_not_forked(void **state)
{
    zi_device *dev = open_host();
    zi_pool   *pool;
    void      *at;
    uint64_t   r = shape.region_bytes;
    int        status;

    (void)state;
    expect_ok(ops->pool_create(dev, &shape, &pool));
    expect_ok(ops->space_reserve(dev, 8 * r, &at));
    expect_ok(ops->space_map(pool, 0, 8, at, ZI_ACCESS_WRITE));
    pid_t pid = fork();
    if (pid == 0) _exit(msync(at, 4096, MS_ASYNC) == -1 && errno == ENOMEM ? 0 : 1);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, status);
    ops->space_release(dev, at, 8 * r);
    ops->pool_close(pool);
    ops->close(dev);
}

static zico_status
whole_life(const zi_os *os)
{
    zi_device  *dev;
    zi_pool    *pool = NULL, *other = NULL;
    void       *at = NULL;
    int         fd = -1;
    zico_status st = ops->open(os, 0, &dev);

    if (st < 0) return st;
    if (st >= 0) st = ops->pool_create(dev, &shape, &pool);
    if (st >= 0) st = ops->pool_export(pool, &fd);
    if (st >= 0) {
        st = ops->pool_import(dev, fd, &shape, &other);
        if (st < 0) close(fd);
    }
    if (st >= 0) st = ops->space_reserve(dev, 8 * shape.region_bytes, &at);
    if (st >= 0) st = ops->space_map(other, 0, 8, at, ZI_ACCESS_NONE);
    if (st >= 0) st = ops->space_access(dev, at, shape.region_bytes, ZI_ACCESS_WRITE);
    if (st >= 0) st = ops->space_populate(dev, at, shape.region_bytes);
    if (st >= 0) st = ops->pool_punch(pool, 0, 1);
    if (st >= 0) st = ops->space_unmap(dev, at, shape.region_bytes);
    ops->space_release(dev, at, 8 * shape.region_bytes);
    ops->pool_close(other);
    ops->pool_close(pool);
    ops->close(dev);
    return st;
}

static int
n_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Whichever system call fails, a status comes back and no descriptor is left over. */
static void
every_call_may_fail(void **state)
{
    zi_fake *fake;
    int      before = n_descriptors();

    (void)state;
    expect_ok(zi_fake_new(&fake));
    for (uint64_t n = 0;; n++) {
        zi_fake_fail_at(fake, NULL, n, ENOMEM);
        zico_status st = whole_life(zi_fake_os(fake));
        assert_int_equal(before, n_descriptors());
        if (!zi_fake_failed(fake)) {
            expect_ok(st);
            assert_true(n > 8);
            break;
        }
    }
    zi_fake_free(fake);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_has_host),
        cmocka_unit_test(region_size_follows_budget),
        cmocka_unit_test(machine_is_described),
        cmocka_unit_test(region_is_written),
        cmocka_unit_test(two_mappings_show_one_memory),
        cmocka_unit_test(pool_cannot_be_truncated),
        cmocka_unit_test(import_checks_what_it_gets),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(resident_bytes_are_the_kernels),
        cmocka_unit_test(mapping_is_not_forked),
        cmocka_unit_test(every_call_may_fail),
    };
    return t_main(tests);
}

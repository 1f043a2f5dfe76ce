/* tests/unit/tier_test.c -- what goes out comes back, and nothing is left behind. */
#include "exec/tier.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "os/fake.h"
#include "test.h"

#define N (64 * 4096)

static char *
pages(char first)
{
    char *p = aligned_alloc(4096, N);
    assert_non_null(p);
    for (int i = 0; i < N; i++) p[i] = (char)(first + i * 7);
    return p;
}

static int
n_files(const char *dir)
{
    DIR *d = opendir(dir);
    int  n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void
round_trip(const char *spec)
{
    zi_tier      *t;
    zi_tier_stats stats;
    char         *a = pages(1), *b = pages(2), *back = pages(3);

    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    expect_ok(zi_tier_reserve(t, 2 * N));
    expect_ok(zi_tier_write(t, 0, a, N));
    expect_ok(zi_tier_write(t, N, b, N));
    expect_ok(zi_tier_read(t, N, back, N));
    assert_memory_equal(b, back, N);
    expect_ok(zi_tier_reserve(t, 3 * N)); /* growing keeps what is there */
    expect_ok(zi_tier_read(t, 0, back, N));
    assert_memory_equal(a, back, N);
    zi_tier_read_stats(t, &stats);
    assert_int_equal(2 * N, stats.out_bytes);
    assert_int_equal(2 * N, stats.in_bytes);
    zi_tier_close(t);
    free(a);
    free(b);
    free(back);
}

/* Both tiers give back what they were given; the file has no name while it is used. */
static void
bytes_come_back(void **state)
{
    const char *dir = t_tmpdir();
    char        spec[4200];
    zi_tier    *t;

    (void)state;
    snprintf(spec, sizeof spec, "file:%s", dir);
    round_trip(spec);
    round_trip("ram");
    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    assert_int_equal(0, n_files(dir));
    zi_tier_close(t);
    t_rmdir(dir);
}

/* A range outside of what was reserved, a crooked offset, a spec that names nothing. */
static void
bad_requests(void **state)
{
    zi_tier *t;
    char    *a = pages(1);

    (void)state;
    expect_status(ZICO_E_FORMAT, zi_tier_open(zi_os_real(), "tape:/dev/st0", &t));
    expect_status(ZICO_E_NOTFOUND,
                  zi_tier_open(zi_os_real(), "file:/no/such/folder", &t));
    expect_ok(zi_tier_open(zi_os_real(), "ram", &t));
    expect_ok(zi_tier_reserve(t, N));
    expect_status(ZICO_E_ARG, zi_tier_write(t, N, a, N));
    expect_status(ZICO_E_ARG, zi_tier_read(t, 100, a, 4096));
    zi_tier_close(t);
    free(a);
}

/* Speeds are positive, and measuring leaves a usable tier. */
static void
speeds(void **state)
{
    zi_tier      *t;
    zi_tier_speed v = {0};

    (void)state;
    expect_ok(zi_tier_open(zi_os_real(), "ram", &t));
    expect_ok(zi_tier_speeds(t, N, &v));
    assert_true(v.out_bytes_per_s > 0 && v.in_bytes_per_s > 0);
    assert_true(v.out_beside >= 0 && v.in_beside > 0); /* 0: too short to tell */
    zi_tier_close(t);
}

/* -- all at once ------------------------------------------------------------------------- */

#define BULK (37ull << 20) /* no whole number of pieces */

static _Atomic int writes_left, reads_fail;

static long
failing_pwrite(const zi_os *os, int fd, const void *buf, size_t n, uint64_t at)
{
    const zi_os *real = zi_os_real();
    (void)os;
    return atomic_fetch_sub(&writes_left, 1) > 0 ? real->pwrite(real, fd, buf, n, at)
                                                 : -EIO;
}

static long
failing_pread(const zi_os *os, int fd, void *buf, size_t n, uint64_t at)
{
    const zi_os *real = zi_os_real();
    (void)os;
    return atomic_load(&reads_fail) ? -EIO : real->pread(real, fd, buf, n, at);
}

static uint8_t *
shared_pages(int *ret_fd)
{
    *ret_fd = memfd_create("tier_test", MFD_CLOEXEC);
    assert_true(*ret_fd >= 0 && ftruncate(*ret_fd, BULK) == 0);
    uint8_t *p = mmap(NULL, BULK, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void
fill(uint8_t *p)
{
    for (uint64_t i = 0; i < BULK; i++) p[i] = (uint8_t)(i * 7 + (i >> 12));
}

static void
assert_filled(const uint8_t *p)
{
    for (uint64_t i = 0; i < BULK; i++)
        if (p[i] != (uint8_t)(i * 7 + (i >> 12)))
            fail_msg("byte %llu differs", (unsigned long long)i);
}

static uint64_t
resident(int fd)
{
    struct stat st;
    assert_int_equal(0, fstat(fd, &st));
    return (uint64_t)st.st_blocks * 512;
}

static zico_status
put_there(void *arg, uint64_t from, const void *src, uint64_t n_bytes)
{
    memcpy((char *)arg + from, src, n_bytes);
    return ZICO_OK;
}

static zico_status
refuse(void *arg, uint64_t from, const void *src, uint64_t n_bytes)
{
    (void)arg, (void)src, (void)n_bytes;
    return from < BULK / 2 ? ZICO_OK : ZICO_E_STATE;
}

/* Memory that is let go as it is written is gone, and all of it comes back. */
static void
all_at_once(void **state)
{
    const char *dir = t_tmpdir();
    char        spec[4200];
    int         fd;
    uint8_t    *p = shared_pages(&fd);
    zi_tier    *t;

    (void)state;
    snprintf(spec, sizeof spec, "file:%s", dir);
    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    expect_ok(zi_tier_reserve(t, BULK));
    for (int after = ZI_TIER_STAY; after <= ZI_TIER_REMOVE; after++) {
        fill(p);
        expect_ok(zi_tier_write_bulk(t, 0, p, BULK, (zi_tier_after)after));
        assert_int_equal(after == ZI_TIER_REMOVE ? 0 : BULK, resident(fd));
        memset(p, 0, BULK);
        expect_ok(zi_tier_read_bulk(t, 0, BULK, put_there, p));
        assert_filled(p);
    }
    expect_status(ZICO_E_STATE, zi_tier_read_bulk(t, 0, BULK, refuse, NULL));
    expect_status(ZICO_E_ARG, zi_tier_write_bulk(t, 4096, p, BULK, ZI_TIER_REMOVE));
    assert_filled(p);
    zi_tier_close(t);
    munmap(p, BULK);
    close(fd);
    t_rmdir(dir);
}

/* A tier in a folder of its own whose kernel is `os`, with room for what shared_pages makes. */
static zi_tier *
open_bulk(const zi_os *os, const char *dir)
{
    char     spec[4200];
    zi_tier *t;

    snprintf(spec, sizeof spec, "file:%s", dir);
    expect_ok(zi_tier_open(os, spec, &t));
    expect_ok(zi_tier_reserve(t, BULK));
    return t;
}

/* A disk that fails half way: what was let go is read back, and memory is as it was; if it cannot
 * even be read, that is said. */
static void
fails_half_way(void **state)
{
    const char *dir = t_tmpdir();
    int         fd;
    uint8_t    *p = shared_pages(&fd);
    zi_os       os = *zi_os_real();

    (void)state;
    os.pwrite = failing_pwrite;
    os.pread = failing_pread;
    zi_tier *t = open_bulk(&os, dir);
    fill(p);
    for (int n = 0; n < 10; n++) {
        atomic_store(&writes_left, n);
        assert_true(zi_tier_write_bulk(t, 0, p, BULK, ZI_TIER_REMOVE) < 0);
        assert_filled(p);
    }
    atomic_store(&writes_left, 5);
    atomic_store(&reads_fail, 1);
    expect_status(ZICO_E_CORRUPT, zi_tier_write_bulk(t, 0, p, BULK, ZI_TIER_REMOVE));
    atomic_store(&reads_fail, 0);
    zi_tier_close(t);
    munmap(p, BULK);
    close(fd);
    t_rmdir(dir);
}

static long
no_map(const zi_os *os, void *at, size_t len, int prot, int flags, int fd, uint64_t off,
       void **ret)
{
    (void)os, (void)at, (void)len, (void)prot, (void)flags, (void)fd, (void)off,
        (void)ret;
    return -ENOMEM;
}

/* Without room for a stage it goes out all the same; coming in says that there is no memory, and
 * works once there is. */
static void
without_a_stage(void **state)
{
    const char *dir = t_tmpdir();
    int         fd;
    uint8_t    *p = shared_pages(&fd);
    zi_os       os = *zi_os_real();

    (void)state;
    os.map = no_map;
    zi_tier *t = open_bulk(&os, dir);
    fill(p);
    expect_ok(zi_tier_write_bulk(t, 0, p, BULK, ZI_TIER_REMOVE));
    assert_int_equal(0, resident(fd));
    expect_status(ZICO_E_NOMEM, zi_tier_read_bulk(t, 0, BULK, put_there, p));
    os.map = zi_os_real()->map;
    expect_ok(zi_tier_read_bulk(t, 0, BULK, put_there, p));
    assert_filled(p);
    zi_tier_close(t);
    munmap(p, BULK);
    close(fd);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back), cmocka_unit_test(bad_requests),
        cmocka_unit_test(speeds),          cmocka_unit_test(all_at_once),
        cmocka_unit_test(fails_half_way),  cmocka_unit_test(without_a_stage),
    };
    return t_main(tests);
}

/* test.c -- the helpers behind test.h. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#define N_DIRS 64

static struct {
    uint64_t seed, state;
    bool     seeded;
    char     dir[N_DIRS][PATH_MAX];
    pid_t    owner; /* only the process that made the folders removes them */
    bool     armed;
} t;

void
t_expect_ok_(zico_status st, const char *expr, const char *file, int line)
{
    if (st >= 0) return;
    print_error("%s:%d: %s = %s (%s)\n", file, line, expr, zico_status_name(st),
                zico_status_text(st));
    _fail(file, line);
}

void
t_expect_status_(zico_status want, zico_status st, const char *expr, const char *file,
                 int line)
{
    if (st == want) return;
    print_error("%s:%d: %s = %s, wanted %s\n", file, line, expr, zico_status_name(st),
                zico_status_name(want));
    _fail(file, line);
}

uint64_t
t_seed(void)
{
    if (!t.seeded) {
        const char *s = getenv("ZI_SEED");
        t.seed = 20240607;
        if (s && strcmp(s, "random") == 0)
            t.seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
        else if (s && *s)
            t.seed = strtoull(s, NULL, 0);
        t.state = t.seed;
        t.seeded = true;
    }
    return t.seed;
}

void
t_reseed(uint64_t seed)
{
    t.seed = t.state = seed;
    t.seeded = true;
}

/* splitmix64, written out here so that a fault in base/rng.h cannot hide itself */
uint64_t
t_rand(void)
{
    t_seed();
    uint64_t z = (t.state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t
t_rand_below(uint64_t n)
{
    assert_true(n > 0);
    return t_rand() % n;
}

double
t_rand_unit(void)
{
    return (double)(t_rand() >> 11) * 0x1p-53;
}

unsigned
t_rounds(unsigned normal, unsigned soak)
{
    const char *s = getenv("ZI_SOAK");
    return s && *s && *s != '0' ? soak : normal;
}

static int
remove_one(const char *path, const struct stat *sb, int type, struct FTW *where)
{
    (void)sb, (void)type, (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

static void
remove_left(void)
{
    if (getpid() != t.owner) return;
    for (int i = 0; i < N_DIRS; i++)
        if (t.dir[i][0]) nftw(t.dir[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *
t_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    int         i = 0;

    if (!t.armed || t.owner != getpid()) {
        if (!t.armed) atexit(remove_left);
        memset(t.dir, 0, sizeof t.dir);
        t.owner = getpid();
        t.armed = true;
    }
    while (i < N_DIRS && t.dir[i][0]) i++;
    assert_true(i < N_DIRS);
    snprintf(t.dir[i], sizeof t.dir[i], "%s/zi-test-XXXXXX",
             base && *base ? base : "/tmp");
    if (!mkdtemp(t.dir[i])) fail_msg("mkdtemp %s: %s", t.dir[i], strerror(errno));
    return t.dir[i];
}

void
t_rmdir(const char *dir)
{
    if (!dir) return;
    if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        fail_msg("remove %s: %s", dir, strerror(errno));
    for (int i = 0; i < N_DIRS; i++)
        if (strcmp(t.dir[i], dir) == 0) t.dir[i][0] = '\0';
}

const char *
t_path(const char *dir, const char *name)
{
    static char     ring[16][PATH_MAX];
    static unsigned next;
    char           *p = ring[next++ % 16];

    if (snprintf(p, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        fail_msg("path too long: %s/%s", dir, name);
    return p;
}

/* The program lies in BUILD/tests/KIND/NAME; go up `levels` folders. */
static const char *
above_program(int levels)
{
    static char path[PATH_MAX];
    ssize_t     n = readlink("/proc/self/exe", path, sizeof path - 1);

    assert_true(n > 0);
    path[n] = '\0';
    while (levels-- > 0) {
        char *slash = strrchr(path, '/');
        assert_non_null(slash);
        *slash = '\0';
    }
    return path;
}

const char *
t_build(const char *name)
{
    const char *dir = getenv("ZI_BUILD_DIR");
    return t_path(dir && *dir ? dir : above_program(3), name);
}

const char *
t_source(const char *name)
{
    const char *dir = getenv("ZI_SOURCE_DIR");
    return t_path(dir && *dir ? dir : above_program(5), name);
}

void
t_begin_(void)
{
    const char *only = getenv("ZI_TEST"); /* the tests whose name fits this pattern */

    if (only) cmocka_set_test_filter(only);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu (ZI_SEED=N replays)\n", (unsigned long long)t_seed());
}

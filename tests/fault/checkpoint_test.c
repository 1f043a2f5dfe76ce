/* checkpoint_test.c -- whatever fails or dies, the checkpoint before is there, whole. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "os/fake.h"
#include "test.h"
#include "train/checkpoint.h"

#define N_TENSORS 3
#define N_FLOATS  5000

static zico_status
fetch(void *user, size_t i, void *buf, size_t n_bytes)
{
    float *f = buf;
    for (size_t k = 0; k < n_bytes / sizeof *f; k++)
        f[k] = *(const float *)user + (float)i;
    return ZICO_OK;
}

/* Three tensors that all tell the version, and words that tell it, too. */
static zico_status
save(const zi_os *os, const char *path, int version, zi_train_diag *diag)
{
    zi_st_tensor t[N_TENSORS] = {
        {.name = (char *)"layer.weight", .type = ZI_ST_F32, .rank = 2, .dims = {50, 100}},
        {.name = (char *)"layer.bias", .type = ZI_ST_F32, .rank = 1, .dims = {N_FLOATS}},
        {.name = (char *)"a \"quoted\" \\ name", .type = ZI_ST_F32, .rank = 0}};
    char       text[16];
    zi_st_pair meta[] = {{(char *)"format", (char *)"test"}, {(char *)"version", text}};
    float      value = (float)version;

    snprintf(text, sizeof text, "%d", version);
    zi_checkpoint_out out = {.tensors = t,
                             .n_tensors = N_TENSORS,
                             .meta = meta,
                             .n_meta = 2,
                             .fetch = fetch,
                             .user = &value};
    return zi_checkpoint_write(os, path, &out, diag);
}

/* The version of a file that must be whole and of one piece. */
static int
version_of(const char *path)
{
    zi_checkpoint c;
    zi_train_diag diag = {""};
    static float  f[N_FLOATS];

    zico_status st = zi_checkpoint_open(zi_os_real(), path, &diag, &c);
    if (st < 0) fail_msg("%s", diag.text);
    int version = atoi(zi_st_meta(c.header, "version"));
    assert_int_equal(N_TENSORS, c.header->n_tensors);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const zi_st_tensor *t = &c.header->tensors[i];
        size_t              n = (size_t)(t->end - t->begin);
        expect_ok(zi_checkpoint_read(&c, t, f, n, NULL));
        for (size_t k = 0; k < n / sizeof *f; k++)
            assert_true(f[k] == (float)version + (float)i);
    }
    zi_checkpoint_close(&c);
    return version;
}

static unsigned
n_files(const char *dir)
{
    DIR     *d = opendir(dir);
    unsigned n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What was written is read back, names and words included; data begin at a multiple of 64. */
static void
round_trip(void **state)
{
    const char   *dir = t_tmpdir(), *path = t_path(dir, "ck.safetensors");
    zi_checkpoint c;

    (void)state;
    expect_ok(save(zi_os_real(), path, 41, NULL));
    expect_ok(save(zi_os_real(), path, 42, NULL));
    assert_int_equal(42, version_of(path));
    assert_int_equal(1, n_files(dir));
    expect_ok(zi_checkpoint_open(zi_os_real(), path, NULL, &c));
    assert_int_equal(0, c.header->data_off % 64);
    const zi_st_tensor *t = zi_st_find(c.header, "a \"quoted\" \\ name");
    assert_non_null(t);
    assert_int_equal(0, t->rank);
    assert_null(zi_st_find(c.header, "nobody"));
    float f[2];
    expect_status(ZICO_E_SHAPE, zi_checkpoint_read(&c, t, f, 8, NULL));
    zi_checkpoint_close(&c);
    t_rmdir(dir);
}

/* Every kernel call fails once, in turn, with a full disk: the old file stays or the new one
 * is whole, the error is told, nothing else is left in the folder. */
static void
a_full_disk_destroys_nothing(void **state)
{
    const char *dir = t_tmpdir(), *path = t_path(dir, "ck.safetensors");
    int         kept = 0;

    (void)state;
    expect_ok(save(zi_os_real(), path, 1, NULL));
    for (uint64_t n = 0;; n++) {
        zi_fake      *fake;
        zi_train_diag diag = {""};
        expect_ok(zi_fake_new(&fake));
        zi_fake_fail_at(fake, NULL, n, ENOSPC);
        zico_status st = save(zi_fake_os(fake), path, 2, &diag);
        bool        failed = zi_fake_failed(fake);
        zi_fake_free(fake);
        int version = version_of(path);
        assert_int_equal(1, n_files(dir));
        if (!failed) {
            expect_ok(st);
            break;
        }
        if (st < 0) assert_non_null(strstr(diag.text, "No space left"));
        if (version == 1) {
            assert_true(st < 0);
            kept++;
        } else {
            expect_ok(save(zi_os_real(), path, 1, NULL));
        }
        assert_true(n < 100);
    }
    assert_int_equal(2, version_of(path));
    assert_true(kept >= 5); /* open, the writes, fsync, rename */
    t_rmdir(dir);
}

/* A writer killed at any moment leaves a whole file of some version. */
static void
a_kill_destroys_nothing(void **state)
{
    const char *dir = t_tmpdir(), *path = t_path(dir, "ck.safetensors");
    int         last = 1;

    (void)state;
    expect_ok(save(zi_os_real(), path, 1, NULL));
    for (unsigned round = 0; round < t_rounds(25, 400); round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            for (int v = last + 1;; v++)
                if (save(zi_os_real(), path, v, NULL) < 0) _exit(1);
        }
        usleep((useconds_t)t_rand_below(20000));
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(pid, waitpid(pid, &status, 0));
        assert_true(WIFSIGNALED(status));
        int version = version_of(path);
        assert_true(version >= last);
        last = version;
    }
    t_rmdir(dir);
}

/* A file cut anywhere is refused with a sentence; so is one with a byte too many. */
static void
cut_files_are_refused(void **state)
{
    const char *dir = t_tmpdir(), *path = t_path(dir, "ck.safetensors");
    const char *cut = t_path(dir, "cut");

    (void)state;
    expect_ok(save(zi_os_real(), path, 3, NULL));
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    char  *bytes = malloc(n + 1);
    rewind(f);
    assert_int_equal(n, fread(bytes, 1, n, f));
    bytes[n] = 'x';
    fclose(f);
    for (unsigned i = 0; i < 200; i++) {
        size_t        len = i == 0 ? n + 1 : i < 100 ? i : t_rand_below(n);
        zi_checkpoint c;
        zi_train_diag diag = {""};
        f = fopen(cut, "wb");
        assert_int_equal(len, fwrite(bytes, 1, len, f));
        fclose(f);
        expect_status(ZICO_E_FORMAT, zi_checkpoint_open(zi_os_real(), cut, &diag, &c));
        assert_non_null(strstr(diag.text, "cut: "));
    }
    free(bytes);
    t_rmdir(dir);
}

/* Whichever allocation fails, both directions say so and lose nothing. */
static void
memory_runs_out(void **state)
{
    const char *dir = t_tmpdir(), *path = t_path(dir, "ck.safetensors");
    int64_t     live = zi_alloc_n_live();

    (void)state;
    expect_ok(save(zi_os_real(), path, 1, NULL));
    for (uint64_t n = 1;; n++) {
        zi_checkpoint c;
        zi_alloc_fail_at(n);
        zico_status st = save(zi_os_real(), path, 2, NULL);
        if (st >= 0) st = zi_checkpoint_open(zi_os_real(), path, NULL, &c);
        bool failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (st >= 0) zi_checkpoint_close(&c);
        assert_int_equal(live, zi_alloc_n_live());
        assert_int_equal(1, n_files(dir));
        (void)version_of(path);
        if (!failed) break;
        expect_status(ZICO_E_NOMEM, st);
    }
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(a_full_disk_destroys_nothing),
        cmocka_unit_test(a_kill_destroys_nothing),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(memory_runs_out),
    };
    return t_main(tests);
}

/* rundir_test.c -- the meeting place is ours alone, or it is not used. */
#include "os/rundir.h"

#include <sys/stat.h>
#include <unistd.h>
#include "os/fake.h"
#include "test.h"

static int
fresh(void **state)
{
    (void)state;
    unsetenv("ZICO_SOCKET");
    setenv("XDG_RUNTIME_DIR", t_tmpdir(), 1);
    return 0;
}

/* Without a folder nobody is there; made, it has mode 0700 and holds the socket's name. */
static void
made_on_demand(void **state)
{
    const zi_os *os = zi_os_real();
    char         path[ZI_RUNDIR_PATH_MAX];
    struct stat  sb;

    (void)state;
    expect_status(ZICO_E_NOTFOUND,
                  zi_rundir_socket(os, NULL, "host", false, path, sizeof path));
    expect_ok(zi_rundir_socket(os, NULL, "host", true, path, sizeof path));
    assert_string_equal(t_path(getenv("XDG_RUNTIME_DIR"), "zico/host.sock"), path);
    expect_ok(zi_rundir_folder(os, false, path, sizeof path));
    assert_int_equal(0, stat(path, &sb));
    assert_int_equal(0700, sb.st_mode & 0777);
}

/* Without XDG_RUNTIME_DIR it lies under the temporary folder, one for each user. */
static void
falls_back_to_tmp(void **state)
{
    char path[ZI_RUNDIR_PATH_MAX], want[64];

    (void)state;
    setenv("TMPDIR", getenv("XDG_RUNTIME_DIR"), 1);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    expect_ok(zi_rundir_socket(zi_os_real(), "", "cuda", true, path, sizeof path));
    snprintf(want, sizeof want, "zico-%lu/cuda.sock", (unsigned long)geteuid());
    assert_string_equal(t_path(getenv("TMPDIR"), want), path);
    unsetenv("TMPDIR");
}

/* Open to others, or a link to elsewhere: refused. */
static void
unsafe_folder_is_refused(void **state)
{
    const zi_os *os = zi_os_real();
    char         path[ZI_RUNDIR_PATH_MAX], other[ZI_RUNDIR_PATH_MAX + 8];

    (void)state;
    expect_ok(zi_rundir_folder(os, true, path, sizeof path));
    assert_int_equal(0, chmod(path, 0755));
    expect_status(ZICO_E_DENIED, zi_rundir_folder(os, true, path, sizeof path));
    assert_int_equal(0, chmod(path, 0700));
    snprintf(other, sizeof other, "%s.real", path);
    assert_int_equal(0, rename(path, other));
    assert_int_equal(0, symlink(other, path));
    expect_status(ZICO_E_DENIED, zi_rundir_folder(os, true, path, sizeof path));
}

/* An option wins over the environment, which wins over the folder; too long is refused. */
static void
who_says_where(void **state)
{
    const zi_os *os = zi_os_real();
    char         path[ZI_RUNDIR_PATH_MAX], big[300];

    (void)state;
    setenv("ZICO_SOCKET", "/x/env.sock", 1);
    expect_ok(zi_rundir_socket(os, NULL, "host", false, path, sizeof path));
    assert_string_equal("/x/env.sock", path);
    expect_ok(zi_rundir_socket(os, "/x/opt.sock", "host", false, path, sizeof path));
    assert_string_equal("/x/opt.sock", path);
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    expect_status(ZICO_E_LIMIT,
                  zi_rundir_socket(os, big, "host", false, path, sizeof path));
    expect_status(ZICO_E_LIMIT, zi_rundir_socket(os, "/abcdef", "host", false, path, 4));
}

/* A system call that fails is passed on. */
static void
failures_are_passed_on(void **state)
{
    char     path[ZI_RUNDIR_PATH_MAX];
    zi_fake *f;

    (void)state;
    expect_ok(zi_fake_new(&f));
    for (uint64_t n = 0;; n++) {
        zi_fake_fail_at(f, NULL, n, 12 /* ENOMEM */);
        zico_status st =
            zi_rundir_socket(zi_fake_os(f), NULL, "host", true, path, sizeof path);
        if (!zi_fake_failed(f)) break;
        assert_int_equal(ZICO_E_NOMEM, st);
    }
    assert_int_equal(2, zi_fake_calls(f));
    zi_fake_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(made_on_demand, fresh),
        cmocka_unit_test_setup(falls_back_to_tmp, fresh),
        cmocka_unit_test_setup(unsafe_folder_is_refused, fresh),
        cmocka_unit_test_setup(who_says_where, fresh),
        cmocka_unit_test_setup(failures_are_passed_on, fresh),
    };
    return t_main(tests);
}

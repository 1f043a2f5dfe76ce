/* rundir.c -- the folder of sockets and lock files. */
#include "os/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/try.h"

/* Ours alone, and really a folder. */
static zico_status
check_owner(const zi_os *os, const char *path)
{
    uint32_t uid, mode;
    long     rc = os->owner(os, path, &uid, &mode);

    if (rc < 0) return zi_os_status(rc);
    if (!S_ISDIR(mode) || uid != geteuid() || (mode & 077) != 0) return ZICO_E_DENIED;
    return ZICO_OK;
}

static zico_status
folder_path(char *buf, size_t cap)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    const char *tmp = getenv("TMPDIR");
    int         n;

    if (run && run[0] == '/')
        n = snprintf(buf, cap, "%s/zico", run);
    else
        n = snprintf(buf, cap, "%s/zico-%lu", tmp && tmp[0] == '/' ? tmp : "/tmp",
                     (unsigned long)geteuid());
    return n >= 0 && (size_t)n < cap ? ZICO_OK : ZICO_E_LIMIT;
}

zico_status
zi_rundir_folder(const zi_os *os, bool create, char *buf, size_t cap)
{
    ZI_TRY(folder_path(buf, cap));
    if (create) {
        long rc = os->mkdir(os, buf, 0700);
        if (rc < 0 && rc != -EEXIST) return zi_os_status(rc);
    }
    return check_owner(os, buf);
}

zico_status
zi_rundir_socket(const zi_os *os, const char *given, const char *device, bool create,
                 char *buf, size_t cap)
{
    char        folder[ZI_RUNDIR_PATH_MAX];
    const char *env = getenv("ZICO_SOCKET");
    int         n;

    if ((!given || !*given) && env && *env) given = env;
    if (given && *given) {
        n = snprintf(buf, cap, "%s", given);
    } else {
        ZI_TRY(zi_rundir_folder(os, create, folder, sizeof folder));
        n = snprintf(buf, cap, "%s/%s.sock", folder, device);
    }
    return n >= 0 && (size_t)n < cap && n < (int)ZI_RUNDIR_PATH_MAX ? ZICO_OK
                                                                    : ZICO_E_LIMIT;
}

/* away.c -- the file of what is out, and a look at the other threads. */
#include "hook/away.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/try.h"

#define CHUNK       ((size_t)8 << 20) /* one system call at most */
#define TMPFS_MAGIC 0x01021994

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif

/* -- the file ---------------------------------------------------------------------------------- */

/* Moving memory into memory helps nobody. */
static bool
is_memory(const char *dir)
{
    struct statfs s;
    return statfs(dir, &s) == 0 && s.f_type == TMPFS_MAGIC;
}

static const char *
default_folder(void)
{
    const char *dir = secure_getenv("TMPDIR");
    if (!dir || !*dir) dir = "/tmp";
    return is_memory(dir) ? "/var/tmp" : dir;
}

static zico_status
open_nameless(const zi_os *os, const char *dir, int *ret_fd)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    char      path[4096];
    int       len = snprintf(path, sizeof path, "%s/zico-away-%d", dir, (int)getpid());

    if (len < 0 || (size_t)len >= sizeof path) return ZICO_E_ARG;
    long fd = os->open_file(os, path, flags | O_DIRECT, 0600);
    if (fd == -EINVAL) fd = os->open_file(os, path, flags, 0600);
    if (fd < 0) return zi_os_status(fd);
    *ret_fd = (int)fd;
    long rc = os->unlink(os, path);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

static zico_status
write_item(const zi_os *os, int fd, const zi_piece *item, uint64_t off)
{
    for (size_t done = 0; done < item->len;) {
        size_t len = item->len - done < CHUNK ? item->len - done : CHUNK;
        long   n = os->pwrite(os, fd, (const char *)item->at + done, len, off + done);
        if (n <= 0) return n < 0 ? zi_os_status(n) : ZICO_E_IO;
        done += (size_t)n;
    }
    return ZICO_OK;
}

static zico_status
write_items(const zi_os *os, int fd, const zi_piece *item, size_t n)
{
    uint64_t off = 0, all = 0;

    for (size_t i = 0; i < n; i++) all += item[i].len;
    long rc = os->allocate(os, fd, 0, all);
    if (rc < 0) return zi_os_status(rc);
    for (size_t i = 0; i < n; off += item[i++].len)
        ZI_TRY(write_item(os, fd, &item[i], off));
    return ZICO_OK;
}

zico_status
zi_away_write(const zi_os *os, const char *dir, const zi_piece *item, size_t n,
              int *ret_fd)
{
    int         fd = -1;
    zico_status st = open_nameless(os, dir ? dir : default_folder(), &fd);

    if (st >= 0) st = write_items(os, fd, item, n);
    if (st >= 0)
        *ret_fd = fd;
    else if (fd >= 0)
        os->close(os, fd);
    return st;
}

zico_status
zi_away_map(const zi_os *os, const zi_piece *item, int fd, uint64_t off)
{
    void *same;
    long  rc = os->map(os, item->at, item->len, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, off, &same);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

void
zi_away_fetch(const zi_os *os, const zi_piece *item)
{
    (void)os->advise(os, item->at, item->len, MADV_WILLNEED);
    (void)os->advise(os, item->at, item->len, MADV_POPULATE_WRITE);
}

/* -- the other threads --------------------------------------------------------------------------- */

/* A small file of /proc, as text. */
static bool
read_task(const char *tid, const char *name, char *buf, size_t cap)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, buf, cap - 1);
    close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Add one thread; false: it runs. */
static bool
add_thread(const char *tid, zi_quiet *q)
{
    char text[512], *end;

    if (!read_task(tid, "comm", text, sizeof text)) return true; /* it has ended */
    if (strncmp(text, "zico-", 5) == 0) return true;
    if (!read_task(tid, "stat", text, sizeof text)) return true;
    const char *state = strrchr(text, ')');
    if (!state || state[1] != ' ' || (state[2] != 'S' && state[2] != 'D')) return false;
    if (!read_task(tid, "schedstat", text, sizeof text)) return false;
    unsigned long long ran = strtoull(text, &end, 10);
    if (end == text) return false;
    q->n_threads++;
    q->ran_ns += ran;
    return true;
}

bool
zi_quiet_now(zi_quiet *ret)
{
    struct dirent *d;
    bool           quiet = true;
    DIR           *at = opendir("/proc/self/task");
    long           self = syscall(SYS_gettid);

    *ret = (zi_quiet){0};
    if (!at) return false;
    while (quiet && (d = readdir(at)))
        if (d->d_name[0] != '.' && strtol(d->d_name, NULL, 10) != self)
            quiet = add_thread(d->d_name, ret);
    closedir(at);
    return quiet;
}

bool
zi_quiet_since(const zi_quiet *before)
{
    zi_quiet now;
    return zi_quiet_now(&now) && now.n_threads == before->n_threads &&
           now.ran_ns == before->ran_ns;
}

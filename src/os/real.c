/* real.c -- the kernel table over Linux system calls.
 *
 * Each function is one service of os.def: a value >= 0, or a negative errno.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FDS_MAX 8 /* descriptors in one message */

/* The call's result, again and again while a signal interrupts it. */
#define again(call)                                                                      \
    ({                                                                                   \
        long rc_;                                                                        \
        do rc_ = (long)(call);                                                           \
        while (rc_ < 0 && errno == EINTR);                                               \
        rc_ < 0 ? -(long)errno : rc_;                                                    \
    })

static long
or_errno(long rc)
{
    return rc < 0 ? -(long)errno : rc;
}

static uint64_t
real_now_ns(const zi_os *os)
{
    struct timespec ts;

    (void)os;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
real_sleep_until(const zi_os *os, uint64_t at_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    (void)os;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
    }
}

/* -- memory objects and address space ---------------------------------------------------- */

static long
real_memfd(const zi_os *os, const char *name, unsigned flags)
{
    (void)os;
    return or_errno(memfd_create(name, flags | MFD_CLOEXEC));
}

static long
real_truncate(const zi_os *os, int fd, uint64_t size_bytes)
{
    (void)os;
    return again(ftruncate(fd, (off_t)size_bytes));
}

static long
real_seal_add(const zi_os *os, int fd, int seals)
{
    (void)os;
    return or_errno(fcntl(fd, F_ADD_SEALS, seals));
}

static long
real_seal_get(const zi_os *os, int fd)
{
    (void)os;
    return or_errno(fcntl(fd, F_GET_SEALS));
}

static long
real_file_bytes(const zi_os *os, int fd, uint64_t *ret_size, uint64_t *ret_resident)
{
    struct stat sb;

    (void)os;
    if (fstat(fd, &sb) != 0) return -(long)errno;
    if (ret_size) *ret_size = (uint64_t)sb.st_size;
    if (ret_resident) *ret_resident = (uint64_t)sb.st_blocks * 512u;
    return 0;
}

/* Two descriptors are the same file if both numbers are the same. */
static long
real_file_id(const zi_os *os, int fd, uint64_t *ret_dev, uint64_t *ret_ino)
{
    struct stat sb;

    (void)os;
    if (fstat(fd, &sb) != 0) return -(long)errno;
    *ret_dev = sb.st_dev;
    *ret_ino = sb.st_ino;
    return 0;
}

static long
real_punch(const zi_os *os, int fd, uint64_t off, uint64_t len)
{
    (void)os;
    return again(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
                           (off_t)len));
}

static long
real_map(const zi_os *os, void *at, size_t len, int prot, int flags, int fd, uint64_t off,
         void **ret_addr)
{
    (void)os;
    void *p = mmap(at, len, prot, flags, fd, (off_t)off);
    if (p == MAP_FAILED) return -(long)errno;
    *ret_addr = p;
    return 0;
}

static long
real_unmap(const zi_os *os, void *addr, size_t len)
{
    (void)os;
    return or_errno(munmap(addr, len));
}

static long
real_protect(const zi_os *os, void *addr, size_t len, int prot)
{
    (void)os;
    return or_errno(mprotect(addr, len, prot));
}

static long
real_advise(const zi_os *os, void *addr, size_t len, int advice)
{
    (void)os;
    return again(madvise(addr, len, advice));
}

/* -- sockets ----------------------------------------------------------------------------- */

static long
fill_address(const char *path, struct sockaddr_un *ret_addr)
{
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof ret_addr->sun_path) return -ENAMETOOLONG;
    memset(ret_addr, 0, sizeof *ret_addr);
    ret_addr->sun_family = AF_UNIX;
    memcpy(ret_addr->sun_path, path, len + 1);
    return 0;
}

static long
real_listen_at(const zi_os *os, const char *path, int backlog)
{
    struct sockaddr_un addr;
    long               rc = fill_address(path, &addr);

    (void)os;
    if (rc < 0) return rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -(long)errno;
    /* before bind: the socket's mode becomes the file's, so that it is never wider */
    if (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        rc = -(long)errno;
        close(fd);
        return rc;
    }
    if (chmod(path, 0600) != 0 || listen(fd, backlog) != 0) {
        rc = -(long)errno;
        unlink(path);
        close(fd);
        return rc;
    }
    return fd;
}

static long
real_accept_one(const zi_os *os, int fd)
{
    (void)os;
    return again(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
}

static long
real_connect_to(const zi_os *os, const char *path)
{
    struct sockaddr_un addr;
    long               rc = fill_address(path, &addr);

    (void)os;
    if (rc < 0) return rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -(long)errno;
    rc = again(connect(fd, (struct sockaddr *)&addr, sizeof addr));
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

static long
real_peer(const zi_os *os, int fd, int32_t *ret_pid, uint32_t *ret_uid)
{
    struct ucred cred;
    socklen_t    len = sizeof cred;

    (void)os;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) return -(long)errno;
    *ret_pid = cred.pid;
    *ret_uid = cred.uid;
    return 0;
}

static long
real_send_msg(const zi_os *os, int fd, const void *buf, size_t len, const int *fds,
              size_t n_fds, int flags)
{
    union {
        char           bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec  io = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};

    (void)os;
    if (n_fds > FDS_MAX) return -EINVAL;
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    return again(sendmsg(fd, &m, flags | MSG_NOSIGNAL));
}

/* Keep the first `cap` descriptors that came with a message, close the others. */
static size_t
take_descriptors(struct msghdr *m, int *fds, size_t cap)
{
    size_t n_kept = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (n_kept < cap)
                fds[n_kept++] = fd;
            else
                close(fd);
        }
    }
    return n_kept;
}

static long
real_recv_msg(const zi_os *os, int fd, void *buf, size_t cap, int *fds, size_t *n_fds,
              int flags)
{
    union {
        char           bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec  io = {.iov_base = buf, .iov_len = cap};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};

    (void)os;
    if (fds) { /* without a place to put them the kernel drops descriptors itself */
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
    }
    long   rc = again(recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC));
    size_t n_kept = rc >= 0 && fds ? take_descriptors(&m, fds, *n_fds) : 0;
    if (rc >= 0 && (m.msg_flags & MSG_TRUNC)) rc = -EMSGSIZE;
    if (rc < 0) {
        while (n_kept > 0) close(fds[--n_kept]);
    }
    if (n_fds) *n_fds = n_kept;
    return rc;
}

/* -- waiting ------------------------------------------------------------------------------ */

static long
real_epoll_new(const zi_os *os, int flags)
{
    (void)os;
    return or_errno(epoll_create1(flags | EPOLL_CLOEXEC));
}

static long
real_epoll_set(const zi_os *os, int ep, int op, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag};

    (void)os;
    return or_errno(epoll_ctl(ep, op, fd, &ev));
}

static long
real_epoll_wait(const zi_os *os, int ep, void *events, int cap, int64_t timeout_ns)
{
    int ms = -1; /* rounded up, so that nobody wakes just before the time it waits for */

    (void)os;
    if (timeout_ns >= 0)
        ms =
            timeout_ns > 3600000000000 ? 3600000 : (int)((timeout_ns + 999999) / 1000000);
    long rc = or_errno(epoll_wait(ep, events, cap, ms));
    return rc == -EINTR ? 0 : rc;
}

static long
real_poll_fd(const zi_os *os, int fd, short events, int64_t timeout_ns)
{
    struct pollfd   p = {.fd = fd, .events = events};
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                          .tv_nsec = (long)(timeout_ns % 1000000000)};

    (void)os;
    long rc = or_errno(ppoll(&p, 1, timeout_ns < 0 ? NULL : &ts, NULL));
    if (rc == -EINTR) return 0;
    return rc > 0 ? p.revents : rc;
}

static long
real_event_fd(const zi_os *os, int flags)
{
    (void)os;
    return or_errno(eventfd(0, flags | EFD_CLOEXEC | EFD_NONBLOCK));
}

/* Adds one to the counter; a full one is ready already, which is all it says. */
static long
real_event_add(const zi_os *os, int fd)
{
    uint64_t one = 1;

    (void)os;
    long rc = again(write(fd, &one, sizeof one));
    return rc == -EAGAIN ? 0 : rc;
}

/* Sets the counter back; -EAGAIN if it was 0 already. */
static long
real_event_take(const zi_os *os, int fd)
{
    uint64_t n;

    (void)os;
    return again(read(fd, &n, sizeof n));
}

/* ret_fds[0] reads, ret_fds[1] writes. */
static long
real_pipe_pair(const zi_os *os, int *ret_fds)
{
    (void)os;
    return or_errno(pipe2(ret_fds, O_CLOEXEC));
}

static long
real_dup_fd(const zi_os *os, int fd)
{
    (void)os;
    return or_errno(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

/* Make an event_fd readable; safe in a signal handler. */
static long
real_wake(const zi_os *os, int fd)
{
    uint64_t one = 1;

    (void)os;
    return again(write(fd, &one, sizeof one));
}

static long
real_pidfd(const zi_os *os, int32_t pid)
{
    (void)os;
    return or_errno(syscall(SYS_pidfd_open, pid, 0u));
}

/* The kernel's own, as of version 0; C libraries have it only of late. */
typedef struct sched_words {
    uint32_t size, policy;
    uint64_t flags;
    int32_t  nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} sched_words;

_Static_assert(sizeof(sched_words) == 48, "as the kernel has it");

static long
real_slice(const zi_os *os, uint64_t slice_ns)
{
    sched_words w = {0};

    (void)os;
    long rc = or_errno(syscall(SYS_sched_getattr, 0, &w, sizeof w, 0u));
    if (rc < 0) return rc;
    if (w.policy != SCHED_OTHER && w.policy != SCHED_BATCH) return -EINVAL;
    w.size = sizeof w;
    w.runtime = slice_ns;
    return or_errno(syscall(SYS_sched_setattr, 0, &w, 0u));
}

static long
real_close(const zi_os *os, int fd)
{
    (void)os;
    return or_errno(close(fd)); /* never again after EINTR: Linux has closed it */
}

/* -- files --------------------------------------------------------------------------------- */

static long
real_open_file(const zi_os *os, const char *path, int flags, unsigned mode)
{
    (void)os;
    return again(open(path, flags | O_CLOEXEC, (mode_t)mode));
}

static long
real_pread(const zi_os *os, int fd, void *buf, size_t len, uint64_t off)
{
    (void)os;
    return again(pread(fd, buf, len, (off_t)off));
}

static long
real_pwrite(const zi_os *os, int fd, const void *buf, size_t len, uint64_t off)
{
    (void)os;
    return again(pwrite(fd, buf, len, (off_t)off));
}

static long
real_allocate(const zi_os *os, int fd, uint64_t off, uint64_t len)
{
    (void)os;
    return again(fallocate(fd, 0, (off_t)off, (off_t)len));
}

static long
real_fsync(const zi_os *os, int fd)
{
    (void)os;
    return again(fsync(fd));
}

static long
real_rename(const zi_os *os, const char *from, const char *to)
{
    (void)os;
    return or_errno(rename(from, to));
}

static long
real_unlink(const zi_os *os, const char *path)
{
    (void)os;
    return or_errno(unlink(path));
}

static long
real_mkdir(const zi_os *os, const char *path, unsigned mode)
{
    (void)os;
    return or_errno(mkdir(path, (mode_t)mode));
}

static long
real_lock_file(const zi_os *os, int fd, int wait)
{
    (void)os;
    return again(flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)));
}

static long
real_owner(const zi_os *os, const char *path, uint32_t *ret_uid, uint32_t *ret_mode)
{
    struct stat sb;

    (void)os;
    if (lstat(path, &sb) != 0) return -(long)errno;
    *ret_uid = sb.st_uid;
    *ret_mode = sb.st_mode;
    return 0;
}

const zi_os *
zi_os_real(void)
{
    static const zi_os table = {
        .now_ns = real_now_ns,
        .sleep_until = real_sleep_until,
#define X(name, params, args) .name = real_##name,
#include "os/os.def"
    };
    return &table;
}

zico_status
zi_os_status(long rc)
{
    if (rc >= 0) return ZICO_OK;
    switch (-rc) {
    case ENOMEM:
        return ZICO_E_NOMEM;
    case EAGAIN:
        return ZICO_E_BUSY;
    case ENOSPC:
    case EIO:
    case EROFS:
    case EDQUOT:
        return ZICO_E_IO;
    case ENOENT:
        return ZICO_E_NOTFOUND;
    case EPIPE:
    case ECONNRESET:
        return ZICO_E_GONE;
    default:
        return ZICO_E_OS;
    }
}

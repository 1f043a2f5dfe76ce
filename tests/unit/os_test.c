/* os_test.c -- the kernel table and its fake twin. */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "os/fake.h"
#include "test.h"

/* A sealed memfd has its size, no pages until touched, and can be punched, not resized. */
static void
memory_object(void **state)
{
    const zi_os *os = zi_os_real();
    uint64_t     size, resident;
    void        *p = NULL;

    (void)state;
    int fd = (int)os->memfd(os, "zico-test", MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(0, os->truncate(os, fd, 1 << 20));
    assert_int_equal(0, os->seal_add(os, fd, F_SEAL_SHRINK | F_SEAL_GROW));
    assert_int_equal(F_SEAL_SHRINK | F_SEAL_GROW, os->seal_get(os, fd));
    assert_int_equal(-EPERM, os->truncate(os, fd, 2 << 20));
    assert_int_equal(-EPERM, os->truncate(os, fd, 0));
    assert_int_equal(0, os->file_bytes(os, fd, &size, &resident));
    assert_int_equal(1 << 20, size);
    assert_int_equal(0, resident);
    assert_int_equal(0, os->map(os, NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                0, &p));
    memset(p, 1, 1 << 19);
    assert_int_equal(0, os->file_bytes(os, fd, NULL, &resident));
    assert_int_equal(1 << 19, resident);
    assert_int_equal(0, os->punch(os, fd, 0, 1 << 19));
    assert_int_equal(0, os->file_bytes(os, fd, NULL, &resident));
    assert_int_equal(0, resident);
    assert_int_equal(0, os->unmap(os, p, 1 << 20));
    assert_int_equal(0, os->close(os, fd));
    assert_int_equal(-EBADF, os->close(os, fd));
}

/* Packets keep their borders, descriptors arrive, the peer is known, the socket is 0600. */
static void
packets_and_descriptors(void **state)
{
    const zi_os *os = zi_os_real();
    const char  *path = t_path(t_tmpdir(), "s.sock");
    char         buf[64];
    int32_t      pid = 0;
    uint32_t     uid = 0, mode = 0;
    int          fds[2];
    size_t       n = 2;

    (void)state;
    int l = (int)os->listen_at(os, path, 4);
    assert_true(l >= 0);
    assert_int_equal(-EAGAIN, os->accept_one(os, l));
    assert_int_equal(0, os->owner(os, path, &uid, &mode));
    assert_int_equal(S_IFSOCK | 0600, mode);
    assert_int_equal(getuid(), uid);
    assert_int_equal(-EADDRINUSE, os->listen_at(os, path, 4));
    int c = (int)os->connect_to(os, path);
    int a = (int)os->accept_one(os, l);
    assert_true(c >= 0 && a >= 0);
    assert_int_equal(0, os->peer(os, a, &pid, &uid));
    assert_int_equal(getpid(), pid);
    assert_int_equal(getuid(), uid);

    assert_int_equal(3, os->send_msg(os, c, "abc", 3, (int[]){l, c, a}, 3, 0));
    assert_int_equal(2, os->send_msg(os, c, "de", 2, (int[]){l}, 1, 0));
    assert_int_equal(POLLIN, os->poll_fd(os, a, POLLIN, 0));
    assert_int_equal(3, os->recv_msg(os, a, buf, sizeof buf, fds, &n, 0));
    assert_int_equal(2, n); /* the third was one too many and is closed */
    assert_int_equal(0, os->close(os, fds[0]));
    assert_int_equal(0, os->close(os, fds[1]));
    assert_int_equal(2,
                     os->recv_msg(os, a, buf, sizeof buf, NULL, NULL, 0)); /* dropped */
    assert_int_equal(-EAGAIN,
                     os->recv_msg(os, a, buf, sizeof buf, NULL, NULL, MSG_DONTWAIT));
    assert_int_equal(8, os->send_msg(os, c, "12345678", 8, NULL, 0, 0));
    assert_int_equal(-EMSGSIZE, os->recv_msg(os, a, buf, 4, NULL, NULL, 0)); /* cut off */
    assert_int_equal(0, os->close(os, c));
    assert_int_equal(0, os->recv_msg(os, a, buf, sizeof buf, NULL, NULL, 0));
    assert_int_equal(-EPIPE, os->send_msg(os, a, "x", 1, NULL, 0, 0)); /* and no signal */
    os->close(os, a);
    os->close(os, l);
}

/* Paths that no socket can have are refused. */
static void
long_socket_path(void **state)
{
    const zi_os *os = zi_os_real();
    char         path[200];

    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(-ENAMETOOLONG, os->listen_at(os, path, 1));
    assert_int_equal(-ENAMETOOLONG, os->connect_to(os, path));
    assert_int_equal(-ENOENT, os->connect_to(os, t_path(t_tmpdir(), "none")));
}

/* A process handle becomes ready when the process dies, and not before. */
static void
death_is_seen(void **state)
{
    const zi_os       *os = zi_os_real();
    struct epoll_event ev;
    int                go[2];

    (void)state;
    assert_int_equal(0, pipe(go));
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 0 ? 0 : 1);
    }
    int pfd = (int)os->pidfd(os, pid), ep = (int)os->epoll_new(os, 0);
    assert_true(pfd >= 0 && ep >= 0);
    assert_int_equal(0, os->epoll_set(os, ep, EPOLL_CTL_ADD, pfd, EPOLLIN, 42));
    assert_int_equal(0, os->epoll_wait(os, ep, &ev, 1, 0));
    close(go[1]);
    assert_int_equal(1, os->epoll_wait(os, ep, &ev, 1, -1));
    assert_int_equal(42, ev.data.u64);
    waitpid(pid, NULL, 0);
    assert_int_equal(-ESRCH, os->pidfd(os, pid));
    os->close(os, ep);
    os->close(os, pfd);
    close(go[0]);
}

/* Files: created with their mode, written, renamed, locked once. */
static void
files_and_locks(void **state)
{
    const zi_os *os = zi_os_real();
    const char  *dir = t_path(t_tmpdir(), "d"), *a, *b;
    char         buf[4] = "";

    (void)state;
    assert_int_equal(0, os->mkdir(os, dir, 0700));
    assert_int_equal(-EEXIST, os->mkdir(os, dir, 0700));
    a = t_path(dir, "a"), b = t_path(dir, "b");
    int fd = (int)os->open_file(os, a, O_RDWR | O_CREAT, 0600);
    int two = (int)os->open_file(os, a, O_RDWR, 0);
    assert_true(fd >= 0 && two >= 0);
    assert_int_equal(0, os->lock_file(os, fd, 0));
    assert_int_equal(-EWOULDBLOCK, os->lock_file(os, two, 0));
    assert_int_equal(0, os->allocate(os, fd, 0, 4096));
    assert_int_equal(3, os->pwrite(os, fd, "xyz", 3, 5));
    assert_int_equal(3, os->pread(os, two, buf, 3, 5));
    assert_string_equal("xyz", buf);
    assert_int_equal(0, os->fsync(os, fd));
    assert_int_equal(0, os->rename(os, a, b));
    assert_int_equal(-ENOENT, os->unlink(os, a));
    assert_int_equal(0, os->unlink(os, b));
    os->close(os, fd);
    assert_int_equal(0, os->lock_file(os, two, 0));
    os->close(os, two);
}

/* An errno becomes the status that its reader can act on. */
static void
errno_to_status(void **state)
{
    (void)state;
    assert_int_equal(ZICO_OK, zi_os_status(17));
    assert_int_equal(ZICO_E_NOMEM, zi_os_status(-ENOMEM));
    assert_int_equal(ZICO_E_BUSY, zi_os_status(-EAGAIN));
    assert_int_equal(ZICO_E_IO, zi_os_status(-ENOSPC));
    assert_int_equal(ZICO_E_NOTFOUND, zi_os_status(-ENOENT));
    assert_int_equal(ZICO_E_GONE, zi_os_status(-EPIPE));
    assert_int_equal(ZICO_E_OS, zi_os_status(-EMFILE));
}

/* What the kernel says of the calling thread: policy, nice value, slice (Linux before 6.12: 0). */
typedef struct standing {
    uint32_t size, policy;
    uint64_t flags;
    int32_t  nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
} standing;

typedef struct asked {
    long     status, read;
    standing before, after;
} asked;

static void *
ask_for_slice(void *arg)
{
    asked *a = arg;

    a->read = syscall(SYS_sched_getattr, 0, &a->before, sizeof a->before, 0u);
    a->status = zi_os_real()->slice(zi_os_real(), 200000);
    a->read |= syscall(SYS_sched_getattr, 0, &a->after, sizeof a->after, 0u);
    return NULL;
}

/* A thread asks for short slices, has them where the kernel knows of them, and changes nothing else. */
static void
slice_alone_changes(void **state)
{
    asked     a = {0};
    pthread_t t;

    (void)state;
    assert_int_equal(0, pthread_create(&t, NULL, ask_for_slice, &a));
    pthread_join(t, NULL);
    assert_int_equal(0, a.read);
    assert_int_equal(0, a.status);
    assert_int_equal(a.before.slice_ns ? 200000 : 0, a.after.slice_ns);
    a.after.slice_ns = a.before.slice_ns;
    assert_memory_equal(&a.before, &a.after, sizeof a.before);
}

/* The twin's clock stands still until it is moved, slept or waited on. */
static void
virtual_clock(void **state)
{
    zi_fake *f;

    (void)state;
    expect_ok(zi_fake_new(&f));
    const zi_os *os = zi_fake_os(f);
    assert_int_equal(1000000000, os->now_ns(os));
    zi_fake_advance(f, 5);
    assert_int_equal(1000000005, os->now_ns(os));
    os->sleep_until(os, 3000000000u);
    os->sleep_until(os, 2000000000u);
    assert_int_equal(3000000000u, os->now_ns(os));
    int fd = (int)os->event_fd(os, 0), ep = (int)os->epoll_new(os, 0);
    assert_int_equal(0, os->poll_fd(os, fd, POLLIN, 3600000000000));
    assert_int_equal(3603000000000u, os->now_ns(os));
    struct epoll_event ev;
    assert_int_equal(0, os->epoll_wait(os, ep, &ev, 1, 7));
    assert_int_equal(3603000000007u, os->now_ns(os));
    os->close(os, fd);
    os->close(os, ep);
    zi_fake_free(f);
    zi_fake_free(NULL);
}

/* Exactly the call that was asked for fails, once, with the errno asked for. */
static void
nth_call_fails(void **state)
{
    zi_fake *f;

    (void)state;
    expect_ok(zi_fake_new(&f));
    const zi_os *os = zi_fake_os(f);
    zi_fake_fail_at(f, NULL, 1, EMFILE);
    int a = (int)os->event_fd(os, 0);
    assert_true(a >= 0);
    assert_int_equal(-EMFILE, os->close(os, a)); /* closed all the same */
    assert_int_equal(-EBADF, os->close(os, a));
    assert_true(zi_fake_failed(f));
    assert_int_equal(3, zi_fake_calls(f));
    zi_fake_fail_at(f, "memfd", 0, ENOMEM);
    a = (int)os->event_fd(os, 0);
    assert_true(a >= 0);
    assert_false(zi_fake_failed(f));
    assert_int_equal(-ENOMEM, os->memfd(os, "x", 0));
    assert_int_equal(1, zi_fake_calls(f));
    os->close(os, a);
    zi_fake_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_object),       cmocka_unit_test(packets_and_descriptors),
        cmocka_unit_test(long_socket_path),    cmocka_unit_test(death_is_seen),
        cmocka_unit_test(files_and_locks),     cmocka_unit_test(errno_to_status),
        cmocka_unit_test(slice_alone_changes), cmocka_unit_test(virtual_clock),
        cmocka_unit_test(nth_call_fails),
    };
    return t_main(tests);
}

/* raw_client.c -- bare wire, and a broker to speak it to. */
#include "support/raw_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "test.h"

/* Also for forked children, where cmocka would go on with the parent's tests. */
#define need(cond, ...)                                                                  \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            print_error("%s:%d: %s: ", __FILE__, __LINE__, #cond);                       \
            print_error(" " __VA_ARGS__);                                                \
            print_error("\n");                                                           \
            if (getpid() != owner()) _exit(99);                                          \
            fail();                                                                      \
        }                                                                                \
    } while (0)

/* The process that runs the tests. */
static pid_t
owner(void)
{
    static pid_t first;
    if (first == 0) first = getpid();
    return first;
}

static const zi_os *
os(void)
{
    return zi_os_real();
}

static void
nap_ms(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* -- a broker ------------------------------------------------------------------------------ */

static _Noreturn void
serve(t_broker *b, const zi_broker_options *opt)
{
    zi_broker_options mine = *opt;

    dup2(b->log[1], STDERR_FILENO);
    close(b->log[0]);
    mine.socket_path = b->path;
    zico_status st = zi_broker_supervise(&mine, NULL, NULL);
    _exit(st < 0 ? 1 : 0);
}

void
t_broker_start(t_broker *b, const char *path, const zi_broker_options *opt)
{
    owner();
    if (path != b->path) snprintf(b->path, sizeof b->path, "%s", path);
    assert_int_equal(0, pipe2(b->log, O_CLOEXEC));
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* no test leaves a broker behind */
        serve(b, opt);
    }
    close(b->log[1]);
    assert_int_equal(0, fcntl(b->log[0], F_SETFL, O_NONBLOCK));
    fcntl(b->log[0], F_SETPIPE_SZ, 1 << 20); /* nobody waits for us to read */
    for (int i = 0; i < 500; i++) {
        long fd = os()->connect_to(os(), path);
        if (fd >= 0) {
            os()->close(os(), (int)fd);
            return;
        }
        nap_ms(10);
    }
    fail_msg("no broker at %s", path);
}

void
t_broker_open(t_broker *b, const zi_broker_options *opt)
{
    t_broker_start(b, t_path(t_tmpdir(), "sock"), opt);
}

static int
reap(pid_t pid)
{
    int status = 0;

    for (int i = 0; i < 3000; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid) return status;
        nap_ms(10);
    }
    fail_msg("process %d does not end", (int)pid);
    return 0;
}

void
t_broker_stop(t_broker *b)
{
    kill(b->pid, SIGTERM);
    int status = reap(b->pid);
    close(b->log[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
    assert_int_equal(-1, access(b->path, F_OK)); /* it cleans up behind itself */
}

/* Kills it and waits until it is gone: one that is only dying still holds its socket. */
static void
kill_stranger(pid_t pid)
{
    int pidfd = (int)os()->pidfd(os(), (int32_t)pid);

    assert_true(pidfd >= 0);
    assert_int_equal(0, kill(pid, SIGKILL));
    assert_int_not_equal(0, os()->poll_fd(os(), pidfd, POLLIN, 10000000000));
    close(pidfd);
}

int
t_broker_teardown(void **state)
{
    t_broker_stop(*state);
    return 0;
}

pid_t
t_broker_kill_child(t_broker *b)
{
    zi_msg_status s;

    t_raw_status(b->path, &s, NULL, 0);
    kill_stranger((pid_t)s.broker_pid);
    return (pid_t)s.broker_pid;
}

void
t_broker_kill_parent(t_broker *b)
{
    zi_msg_status s;

    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    t_raw_status(b->path, &s, NULL, 0);
    kill(b->pid, SIGKILL);
    reap(b->pid);
    b->pid = (pid_t)s.broker_pid;
}

void
t_broker_kill_all(t_broker *b)
{
    zi_msg_status s;

    t_raw_status(b->path, &s, NULL, 0);
    kill((pid_t)s.broker_pid, SIGSTOP); /* else it could take its supervisor's place */
    kill(b->pid, SIGKILL);
    kill_stranger((pid_t)s.broker_pid);
    reap(b->pid);
    close(b->log[0]);
}

void
t_broker_expect_log(t_broker *b, const char *text)
{
    static char seen[1 << 16];
    size_t      n = 0;

    for (int i = 0; i < 500; i++) {
        ssize_t got = read(b->log[0], seen + n, sizeof seen - 1 - n);
        if (got > 0) n += (size_t)got;
        seen[n] = '\0';
        if (strstr(seen, text)) return;
        if (n > sizeof seen / 2) {
            memmove(seen, seen + n / 2, n - n / 2);
            n -= n / 2;
        }
        if (got <= 0) nap_ms(10);
    }
    fail_msg("the broker never logged '%s'; its log:\n%s", text, seen);
}

/* -- a client ------------------------------------------------------------------------------- */

t_raw *
t_raw_connect(const char *path)
{
    t_raw *r = calloc(1, sizeof *r);

    need(r != NULL);
    r->pool_fd = r->table_fd = -1;
    long fd = -1;
    for (int i = 0; i < 500 && fd < 0; i++) {
        fd = os()->connect_to(os(), path);
        if (fd < 0) nap_ms(10);
    }
    need(fd >= 0);
    r->fd = (int)fd;
    return r;
}

void
t_raw_close(t_raw *r)
{
    if (!r) return;
    close(r->fd);
    if (r->pool_fd >= 0) close(r->pool_fd);
    if (r->table_fd >= 0) close(r->table_fd);
    if (r->table) munmap(r->table, r->table_bytes);
    free(r);
}

static void
send_with(t_raw *r, const int *fds, size_t n_fds)
{
    static char buf[ZI_WIRE_MAX];
    size_t      len;

    need(zi_wire_encode(&r->out, 1, buf, sizeof buf, &len) >= 0);
    need((long)len == os()->send_msg(os(), r->fd, buf, len, fds, n_fds, 0));
}

void
t_raw_send(t_raw *r)
{
    send_with(r, NULL, 0);
}

long
t_raw_send_bytes(t_raw *r, const void *p, size_t n)
{
    return os()->send_msg(os(), r->fd, p, n, NULL, 0, MSG_DONTWAIT);
}

int
t_raw_recv(t_raw *r, int ms)
{
    static char buf[ZI_WIRE_MAX];
    const char *why = "";
    int         fds[2];
    size_t      n_fds = 2;

    if (os()->poll_fd(os(), r->fd, POLLIN, ms * (int64_t)1000000) == 0) return -1;
    long n = os()->recv_msg(os(), r->fd, buf, sizeof buf, fds, &n_fds, 0);
    if (n == -ECONNRESET)
        n = os()->recv_msg(os(), r->fd, buf, sizeof buf, fds, &n_fds, 0);
    if (n <= 0) return 0;
    need(zi_wire_decode(buf, (size_t)n, 0, &r->in, &why) >= 0, "%s", why);
    if (n_fds == 2) {
        if (r->pool_fd >= 0) close(r->pool_fd);
        if (r->table_fd >= 0) close(r->table_fd);
        r->pool_fd = fds[0];
        r->table_fd = fds[1];
    }
    return 1;
}

zi_msg *
t_raw_expect(t_raw *r, zi_msg_type type)
{
    for (;;) {
        int  got = t_raw_recv(r, 20000);
        char line[600];
        need(got > 0, "wanted %s, got %s", zi_msg_name(type),
             got ? "nothing" : "the end");
        if (r->in.type == type) return &r->in;
        if (r->in.type == ZI_MSG_WAIT || r->in.type == ZI_MSG_CORES) continue;
        zi_msg_print(&r->in, line, sizeof line);
        need(false, "wanted %s, got %s", zi_msg_name(type), line);
    }
}

void
t_raw_expect_end(t_raw *r, zico_status st)
{
    bool refused = false;

    for (;;) {
        int got = t_raw_recv(r, 20000);
        need(got != -1);
        if (got == 0) break;
        if (r->in.type != ZI_MSG_REFUSE) continue;
        refused = true;
        need(st == r->in.refuse.status, "%s", r->in.refuse.text);
        need(r->in.refuse.text[0] != 0);
    }
    need((st != 0) == refused);
}

static void
note_welcome(t_raw *r)
{
    r->welcome = r->in.welcome;
    need(r->pool_fd >= 0 && r->table_fd >= 0);
    if (r->table) munmap(r->table, r->table_bytes);
    r->table_bytes = zi_table_size(1024, r->welcome.n_regions);
    r->table = mmap(NULL, r->table_bytes, PROT_READ, MAP_SHARED, r->table_fd, 0);
    need(r->table != MAP_FAILED);
    need(r->table->magic == ZI_TABLE_MAGIC);
    need(r->welcome.epoch <= r->table->epoch); /* perhaps killed again meanwhile */
}

static void
take_welcome(t_raw *r)
{
    t_raw_expect(r, ZI_MSG_WELCOME);
    note_welcome(r);
}

void
t_raw_hello(t_raw *r, const char *name, uint64_t claim_bytes)
{
    r->out = (zi_msg){.type = ZI_MSG_HELLO};
    r->out.hello = (zi_msg_hello){.min_version = 1,
                                  .max_version = 1,
                                  .features = ZI_FEATURE_STEPS,
                                  .claim_bytes = claim_bytes,
                                  .weight_milli = 1000};
    snprintf(r->out.hello.name, sizeof r->out.hello.name, "%s", name);
    t_raw_send(r);
    take_welcome(r);
}

bool
t_raw_try_rejoin(t_raw *r, const t_raw *old, bool in_step)
{
    static char buf[1024];
    int         fds[2] = {old->pool_fd, old->table_fd};
    size_t      len;

    r->seq = old->seq;
    r->out = (zi_msg){.type = ZI_MSG_REJOIN};
    r->out.rejoin = (zi_msg_rejoin){.min_version = 1,
                                    .max_version = 1,
                                    .job = old->welcome.job,
                                    .token = old->welcome.token,
                                    .in_step = in_step};
    need(zi_wire_encode(&r->out, 1, buf, sizeof buf, &len) >= 0);
    if (os()->send_msg(os(), r->fd, buf, len, fds, 2, 0) < 0) return false;
    int got = t_raw_recv(r, 60000);
    need(got >= 0, "no answer to REJOIN");
    if (got == 0) return false;
    need(r->in.type == ZI_MSG_WELCOME, "REJOIN answered by %s", zi_msg_name(r->in.type));
    note_welcome(r);
    return true;
}

t_raw *
t_raw_join(const char *path, const char *name, uint64_t claim_bytes)
{
    t_raw *r = t_raw_connect(path);
    t_raw_hello(r, name, claim_bytes);
    return r;
}

void
t_raw_leave(t_raw *r)
{
    r->out = (zi_msg){.type = ZI_MSG_LEAVE};
    t_raw_send(r);
    t_raw_expect_end(r, 0);
    t_raw_close(r);
}

void
t_raw_rejoin(t_raw *r, const t_raw *old, bool in_step)
{
    need(t_raw_try_rejoin(r, old, in_step), "the connection ended");
}

uint32_t
t_raw_ask(t_raw *r, uint32_t n_regions, unsigned cls, uint64_t wait_ns)
{
    r->out = (zi_msg){.type = ZI_MSG_LEASE, .seq = ++r->seq};
    r->out.lease = (zi_msg_lease){.n_regions = n_regions,
                                  .cls = (uint8_t)cls,
                                  .adjacent = 1,
                                  .wait_ns = wait_ns};
    t_raw_send(r);
    return r->seq;
}

void
t_raw_give(t_raw *r, zi_run run)
{
    r->out = (zi_msg){.type = ZI_MSG_RETURN};
    r->out.give_back.n_runs = 1;
    r->out.give_back.runs[0] = run;
    t_raw_send(r);
}

void
t_raw_step(t_raw *r)
{
    r->out = (zi_msg){.type = ZI_MSG_STEP_ASK, .seq = ++r->seq};
    t_raw_send(r);
    need(r->seq == t_raw_expect(r, ZI_MSG_GO)->seq);
}

void
t_raw_step_end(t_raw *r)
{
    r->out = (zi_msg){.type = ZI_MSG_STEP_END};
    r->out.step_end.loss_micro = INT64_MIN;
    t_raw_send(r);
}

void
t_raw_status(const char *path, zi_msg_status *ret_status, zi_msg_status_job *job,
             size_t cap)
{
    t_raw *r = t_raw_connect(path);

    r->out = (zi_msg){.type = ZI_MSG_STATUS_ASK, .seq = 7};
    r->out.status_ask = (zi_msg_status_ask){.min_version = 1, .max_version = 1};
    t_raw_send(r);
    *ret_status = t_raw_expect(r, ZI_MSG_STATUS)->status;
    for (uint32_t i = 0; i < ret_status->n_jobs; i++) {
        zi_msg *m = t_raw_expect(r, ZI_MSG_STATUS_JOB);
        if (i < cap) job[i] = m->status_job;
    }
    t_raw_close(r);
}

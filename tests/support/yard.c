/* yard.c -- real brokers and jobs for tests. */
#include "support/yard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "test.h"

/* A broker outlives a supervisor that is killed: it must not outlive the test. */
static pid_t leftover[2], leftover_owner;

static void
end_leftovers(void)
{
    if (getpid() != leftover_owner) return;
    for (int i = 0; i < 2; i++)
        if (leftover[i] > 0) kill(leftover[i], SIGKILL);
}

static void
remember_leftovers(pid_t serve, pid_t broker)
{
    if (!leftover_owner) atexit(end_leftovers);
    leftover_owner = getpid();
    leftover[0] = serve;
    leftover[1] = broker;
}

static void
rest_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static pid_t
spawn(const char *path, const char *const *args, const char *socket_path,
      const char *log_path, int death_signal)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, death_signal); /* it dies with the test */
    setenv("ZICO_SOCKET", socket_path, 1);
    int fd = log_path ? open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd >= 0) dup2(fd, 1), dup2(fd, 2);
    execv(path, (char *const *)args);
    _exit(127);
}

void
yard_open(yard *y, uint64_t budget_bytes, uint64_t region_bytes, const char *policy)
{
    char budget[32], region[32];

    *y = (yard){.dir = t_tmpdir(), .budget_bytes = budget_bytes};
    snprintf(y->socket_path, sizeof y->socket_path, "%s/s", y->dir);
    snprintf(y->log_path, sizeof y->log_path, "%s/log", y->dir);
    snprintf(budget, sizeof budget, "%llu", (unsigned long long)budget_bytes);
    snprintf(region, sizeof region, "%llu", (unsigned long long)region_bytes);
    const char *args[] = {"zico",     "serve", "--socket", y->socket_path,
                          "--budget", budget,  "--region", region,
                          "--policy", policy,  NULL};
    y->serve = spawn(t_build("zico"), args, y->socket_path, y->log_path, SIGTERM);
    for (int i = 0; i < 500; i++) {
        zi_watch *w;
        if (zi_watch_open(zi_os_real(), y->socket_path, false, &w) == ZICO_OK) {
            bool  up = zi_watch_next(w, 1000000000) == ZICO_OK;
            pid_t broker = up ? (pid_t)zi_watch_picture(w)->device.broker_pid : 0;
            zi_watch_close(w);
            remember_leftovers(y->serve, broker);
            if (up) return;
        }
        rest_ms(10);
    }
    fail_msg("the broker did not come up");
}

void
yard_close(yard *y)
{
    kill(y->serve, SIGTERM);
    assert_int_equal(0, yard_wait(y->serve, 20));
    remember_leftovers(0, 0);
    t_rmdir(y->dir);
}

pid_t
yard_start(const yard *y, const char *helper, const char *const *args)
{
    char name[128];
    snprintf(name, sizeof name, "tests/helper/%s", helper);
    return spawn(t_build(name), args, y->socket_path, y->log_path, SIGKILL);
}

int
yard_wait(pid_t pid, unsigned seconds)
{
    int status;
    for (unsigned i = 0; i < seconds * 100; i++) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        assert_true(got == 0 || errno == EINTR);
        rest_ms(10);
    }
    fail_msg("process %d did not end within %u s", (int)pid, seconds);
    return -1;
}

void
yard_show_log(const yard *y)
{
    char  line[512];
    FILE *f = fopen(y->log_path, "r");
    if (!f) return;
    if (fseek(f, -6000, SEEK_END) != 0) rewind(f);
    while (fgets(line, sizeof line, f)) print_message("| %s", line);
    fclose(f);
}

zi_watch *
yard_look(const yard *y, const zi_picture **ret_picture)
{
    for (int i = 0; i < 500; i++) { /* a broker that was killed comes back */
        zi_watch *w;
        if (zi_watch_open(zi_os_real(), y->socket_path, false, &w) == ZICO_OK) {
            if (zi_watch_next(w, 1000000000) == ZICO_OK) {
                *ret_picture = zi_watch_picture(w);
                remember_leftovers(y->serve, (pid_t)(*ret_picture)->device.broker_pid);
                return w;
            }
            zi_watch_close(w);
        }
        rest_ms(10);
    }
    yard_show_log(y);
    fail_msg("the broker does not answer");
    return NULL;
}

bool
yard_knows(const yard *y, pid_t pid)
{
    const zi_picture *p;
    zi_watch         *w = yard_look(y, &p);
    bool              known = false;
    for (size_t i = 0; i < p->n_jobs; i++) known |= p->job[i].pid == (uint32_t)pid;
    zi_watch_close(w);
    return known;
}

pid_t
yard_broker_pid(const yard *y)
{
    const zi_picture *p;
    zi_watch         *w = yard_look(y, &p);
    pid_t             pid = (pid_t)p->device.broker_pid;
    zi_watch_close(w);
    return pid;
}

void
yard_check(const zi_picture *p)
{
    uint64_t leased = 0, private = 0;
    for (size_t i = 0; i < p->n_jobs; i++) {
        leased += p->job[i].fixed_bytes + p->job[i].step_bytes;
        private += p->job[i].private_bytes;
    }
    assert_true(leased == p->device.leased_bytes);
    assert_true(private == p->device.private_bytes);
    assert_true(p->device.leased_bytes + p->device.private_bytes <=
                p->device.budget_bytes);
    assert_true(p->device.kernel_bytes + p->device.private_bytes <=
                p->device.budget_bytes);
}

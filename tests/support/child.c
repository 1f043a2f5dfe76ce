/* child.c -- jobs of a test in processes of their own. */
#include "support/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"

t_child
t_child_start(t_child_fn *fn)
{
    int     to[2], from[2];
    t_child c;

    assert_int_equal(0, pipe(to) | pipe(from));
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to[1]), close(from[0]);
        _exit(fn(to[0], from[1]));
    }
    close(to[0]), close(from[1]);
    c.in = to[1];
    c.out = from[0];
    return c;
}

void
t_child_finish(t_child *c)
{
    int status;

    close(c->in);
    assert_int_equal(c->pid, waitpid(c->pid, &status, 0));
    if (status != 0) fail_msg("a job ended with status %#x", (unsigned)status);
    close(c->out);
}

void
t_child_kill(t_child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->in), close(c->out);
}

void
t_tell(int fd)
{
    assert_int_equal(1, write(fd, "x", 1));
}

bool
t_hear(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char          byte;
    return poll(&p, 1, ms) == 1 && read(fd, &byte, 1) == 1;
}

int
t_child_fault(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: a job found that not: %s\n", file, line, what);
    return 1;
}

/* child.h -- a job in a process of its own, two pipes to talk with it, and its verdict.
 *
 * The job is a function of the test program, called in a fork.  It says by its exit code at which
 * line it found fault (must); the test fails with that line.
 */
#ifndef ZI_TEST_CHILD_H
#define ZI_TEST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

typedef int t_child_fn(int in, int out);

typedef struct t_child {
    pid_t pid;
    int   in, out; /* to it, from it */
} t_child;

t_child t_child_start(t_child_fn *fn);
/* Closes its pipe and waits for it: it must have ended well. */
void t_child_finish(t_child *c);
/* kill -9, and its pipes are closed. */
void t_child_kill(t_child *c);

void t_tell(int fd);         /* one byte; fails the test */
bool t_hear(int fd, int ms); /* one byte came; false: none within ms, or the end */

/* In a child: the line goes into the exit code. */
#define must(x)                                                                          \
    do                                                                                   \
        if (!(x)) return t_child_fault(__FILE__, __LINE__, #x);                          \
    while (0)
int t_child_fault(const char *file, int line, const char *what);

#endif /* ZI_TEST_CHILD_H */

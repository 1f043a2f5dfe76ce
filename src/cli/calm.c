/* calm.c -- threads that have nothing to do leave their core to other jobs.
 *
 * libgomp lets a thread of a team spin for 300000 rounds, some ten milliseconds, when its work is
 * done.  Alone that saves a wake-up; beside others it takes a core from whoever has its turn: at
 * each change from two cores to one, and at each end of a step.  Two networks that take turns
 * lost a fifth of their time by it.  libgomp reads the variable when it is loaded, so a command that
 * finds it unset starts itself once more.
 */
#include "cli/commands.h"

#include <stdlib.h>
#include <unistd.h>

#define SPIN_VARIABLE "GOMP_SPINCOUNT"
#define SPIN_ROUNDS                                                                      \
    "10000" /* a third of a millisecond: longer than from one operator to the next */

void
zi_cli_calm_environment(void)
{
    if (!getenv("OMP_WAIT_POLICY")) setenv(SPIN_VARIABLE, SPIN_ROUNDS, 0);
}

void
zi_cli_calm(const char *socket, char **argv)
{
    if (!socket && !getenv("ZICO_SOCKET")) return; /* alone it may spin */
    if (getenv(SPIN_VARIABLE) || getenv("OMP_WAIT_POLICY")) return;
    zi_cli_calm_environment();
    execv("/proc/self/exe", argv - 1); /* argv[-1] is the program */
}

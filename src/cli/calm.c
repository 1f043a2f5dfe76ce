/* calm.c -- threads that have nothing to do leave their core to other jobs.
 *
 * libgomp lets a thread of a team spin for 300000 rounds, some ten milliseconds, when its work is
 * done.  Alone that saves a wake-up; beside others it takes a core from whoever has its turn: at
 * each change from two cores to one, and at each end of a step.  Two networks that take turns
 * lost a fifth of their time by it; with 1000 rounds they lose nothing, and alone neither.  libgomp reads the variable when
 * it is loaded, so a command that finds it unset starts itself once more.
 */
#include "cli/commands.h"

#include <stdlib.h>
#include <unistd.h>

#define SPIN_VARIABLE "GOMP_SPINCOUNT"
#define SPIN_NATIVE                                                                      \
    "10000" /* a third of a millisecond: longer than from one operator to the next */
/* A command's threads may have to share a core in the middle of a step (hook/places.h), and each waits for
 * the other's spinning then: with 10000 rounds mobilenet_v2 took twice as long as with one thread, with
 * 1000 a fifth longer.  With a core each they make no difference. */
#define SPIN_COMMAND "1000"

static void
spin(const char *rounds)
{
    if (!getenv("OMP_WAIT_POLICY")) setenv(SPIN_VARIABLE, rounds, 0);
}

void
zi_cli_calm_command(void)
{
    spin(SPIN_COMMAND);
}

void
zi_cli_calm(const char *socket, char **argv)
{
    if (!socket && !getenv("ZICO_SOCKET")) return; /* alone it may spin */
    if (getenv(SPIN_VARIABLE) || getenv("OMP_WAIT_POLICY")) return;
    spin(SPIN_NATIVE);
    execv("/proc/self/exe", argv - 1); /* argv[-1] is the program */
}

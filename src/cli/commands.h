/* cli/commands.h -- every subcommand, and how main finds it. */
#ifndef ZI_CLI_COMMANDS_H
#define ZI_CLI_COMMANDS_H

#include <stdatomic.h>

#define ZI_EXIT_OK     0
#define ZI_EXIT_FAILED 1
#define ZI_EXIT_USAGE  2

#define X(name, function, text) int function(int argc, char **argv);
#include "cli/commands.def"

/* The whole program: argv as main got it. */
int zi_cli_main(int argc, char **argv);

/* calm.c: threads that have nothing to do leave their core to other jobs.  The first sets what a
 * command is started with; the second starts a native job of a broker (`socket`, or ZICO_SOCKET)
 * once more that was started without. */
void zi_cli_calm_environment(void);
void zi_cli_calm(const char *socket, char **argv);

/* stop.c: from now on the first Ctrl-C (or SIGTERM) sets what is returned. */
atomic_int *zi_cli_catch_stop(void);

#endif /* ZI_CLI_COMMANDS_H */

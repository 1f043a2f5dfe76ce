/* cli/run_command.h -- `zico run [options] -- command`: one unmodified program as a job.
 *
 * Prepares the environment (preload library, start-up hook for Python, threads, the job's
 * options) and becomes the command: same process, same exit code, same signals.  With
 * --observe the command runs as a child that is left alone and watched; a report follows.
 */
#ifndef ZI_CLI_RUN_COMMAND_H
#define ZI_CLI_RUN_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"
#include "os/os.h"

typedef struct zi_command_options {
    const zi_os *os;
    const char  *socket_path;    /* NULL: ZICO_SOCKET, then the device's own            */
    const char  *name;           /* NULL: from the command                              */
    const char  *shape;          /* key of a stored tide; NULL: none                    */
    const char *budget, *policy; /* for a broker that must be started; NULL: default    */
    const char *min, *max, *claim, *weight; /* as written; NULL: not given              */
    const char *
        cores; /* follow, own, fixed:N; NULL: fixed if OMP_NUM_THREADS is set, else follow */
    const char *max_wait; /* NULL: no end                                               */
    const char *hook_min; /* threshold of the hook; NULL: its own                       */
    const char *spill;    /* folder for what is moved out, or none; NULL: its own       */
    const char *svg;      /* with observe: a file for the picture                       */
    bool        observe;
    bool        steady; /* the command's steps repeat to the byte */
    bool no_broker;     /* do not start one: join it when it comes (tests)            */
} zi_command_options;

/* argv ends with NULL.  Returns only if the command could not be started (2: bad option, 1: no
 * broker, 126/127: as a shell says) or, with observe, the command's exit code. */
int zi_run_command(const zi_command_options *opt, char *const argv[]);

/* `argv[0]` is "run".  Parses the options in front of `--`. */
int zi_run_command_main(int argc, char **argv);

/* True if these words are for zi_run_command_main: there is a `--`. */
bool zi_run_is_command(int argc, char **argv);

#endif /* ZI_CLI_RUN_COMMAND_H */

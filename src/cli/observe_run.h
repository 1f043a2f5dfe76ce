/* cli/observe_run.h -- runs a command, watches its memory, and says what sharing would bring. */
#ifndef ZI_CLI_OBSERVE_RUN_H
#define ZI_CLI_OBSERVE_RUN_H

#include "hook/observe.h"
#include "os/os.h"

typedef struct zi_observe_run_options {
    const zi_os *os;
    const char  *svg;    /* a file for the picture; NULL: none                       */
    const char  *budget; /* "k of these fit in B"; NULL: 80 % of free memory         */
} zi_observe_run_options;

/* The environment is prepared but for the folder of notes.  The command's exit code. */
int zi_observe_run(const zi_observe_run_options *opt, char *const argv[]);

#endif /* ZI_CLI_OBSERVE_RUN_H */

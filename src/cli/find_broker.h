/* cli/find_broker.h -- the broker that a command talks to. */
#ifndef ZI_CLI_FIND_BROKER_H
#define ZI_CLI_FIND_BROKER_H

#include "os/rundir.h"

/* --socket, $ZICO_SOCKET, or the device's own in the run directory.  Prints why not. */
zico_status zi_find_broker(const char *command, const char *socket, const char *device,
                           char path[ZI_RUNDIR_PATH_MAX]);

/* One line on standard error: no broker there, or what went wrong. */
void zi_find_broker_complain(const char *command, const char *path, zico_status st);

#endif /* ZI_CLI_FIND_BROKER_H */

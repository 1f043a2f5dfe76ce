/* find_broker.c -- finds the broker's socket, and says so if nobody is there. */
#include "cli/find_broker.h"

#include <stdio.h>

void
zi_find_broker_complain(const char *command, const char *path, zico_status st)
{
    if (st == ZICO_E_NOTFOUND || st == ZICO_E_GONE)
        fprintf(stderr, "zico %s: no broker at %s; `zico serve` starts one\n", command,
                path);
    else if (st == ZICO_E_DENIED)
        fprintf(stderr, "zico %s: the run directory is not ours alone (`zico doctor`)\n",
                command);
    else
        fprintf(stderr, "zico %s: %s: %s\n", command, path, zico_status_text(st));
}

zico_status
zi_find_broker(const char *command, const char *socket, const char *device,
               char path[ZI_RUNDIR_PATH_MAX])
{
    zico_status st =
        zi_rundir_socket(zi_os_real(), socket, device, false, path, ZI_RUNDIR_PATH_MAX);

    if (st < 0)
        zi_find_broker_complain(command, socket ? socket : "the run directory", st);
    return st;
}

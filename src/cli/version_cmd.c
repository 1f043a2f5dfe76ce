/* version_cmd.c -- zico version. */
#include "cli/commands.h"

#include <stdio.h>
#include "cli/args.h"
#include "wire/table.h"
#include "wire/wire.h"

int
zi_cmd_version(int argc, char **argv)
{
    const zi_args args = {.usage = "version",
                          .about = "Versions of the program, of the wire "
                                   "and of the lease table."};
    zico_status   st = zi_args_parse(&args, argc, argv, NULL, NULL);

    if (st != ZICO_OK) return zi_args_exit(st);
    printf("zico %s, wire %u to %u, lease table %u\n", ZI_VERSION, ZI_WIRE_VERSION_MIN,
           ZI_WIRE_VERSION_MAX, ZI_TABLE_VERSION);
    return ZI_EXIT_OK;
}

/* main.c -- zico, the command. */
#include "cli/commands.h"

int
main(int argc, char **argv)
{
    return zi_cli_main(argc, argv);
}

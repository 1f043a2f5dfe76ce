/* stop.c -- the first Ctrl-C asks a command to come to an end, the second one ends it as usual. */
#include "cli/commands.h"

#include <signal.h>

static atomic_int asked;

static void
on_signal(int sig)
{
    (void)sig;
    atomic_store(&asked, 1);
}

atomic_int *
zi_cli_catch_stop(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    return &asked;
}

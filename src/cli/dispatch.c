/* dispatch.c -- zico SUBCOMMAND: finds it, or says which one was probably meant. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include "cli/args.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} command[] = {
#define X(name, function, text) {#name, function, text},
#include "cli/commands.def"
};
#define N_COMMANDS (sizeof command / sizeof command[0])

static void
print_help(FILE *to)
{
    fputs("zico: many training jobs in the memory of far fewer\n\n"
          "usage: zico COMMAND [OPTION...]\n\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-9s %s\n", command[i].name, command[i].text);
    fputs("\n`zico COMMAND --help` explains a command.\n"
          "Exit codes: 0 all went well, 1 it failed, 2 it was called wrongly.\n",
          to);
}

static void
print_guess(const char *word)
{
    const char *name[N_COMMANDS];

    for (size_t i = 0; i < N_COMMANDS; i++) name[i] = command[i].name;
    const char *guess = zi_args_guess(word, name, N_COMMANDS);
    fprintf(stderr, "zico: there is no command '%s'%s%s%s; `zico --help` lists them\n",
            word, guess ? ", did you mean '" : "", guess ? guess : "", guess ? "'" : "");
}

static int
run_command(int argc, char **argv)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[0], command[i].name) == 0) return command[i].run(argc, argv);
    print_guess(argv[0]);
    return ZI_EXIT_USAGE;
}

int
zi_cli_main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (!word) {
        print_help(stderr);
        return ZI_EXIT_USAGE;
    }
    if (strcmp(word, "--version") == 0) return zi_cmd_version(1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        (strcmp(word, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return ZI_EXIT_OK;
    }
    char  asked[] = "--help";
    char *help[] = {argc > 2 ? argv[2] : NULL, asked, NULL}; /* zico help COMMAND */
    if (strcmp(word, "help") == 0) return run_command(2, help);
    return run_command(argc - 1, argv + 1);
}

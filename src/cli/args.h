/* cli/args.h -- options of a subcommand: one table, from which come parsing and --help.
 *
 *     const zi_arg arg[] = {
 *         {"budget", ZI_ARG_TEXT, &budget, "BYTES", "what all jobs together may use"},
 *         {"json", ZI_ARG_FLAG, &json, NULL, "for programs"},
 *     };
 *     const zi_args args = {"status [OPTION...] [JOB]", "Who holds what.", arg, 2, 0, 1};
 *     switch (zi_args_parse(&args, argc, argv, rest)) ...
 *
 * --name value and --name=value mean the same; -- ends the options; what is no option is
 * collected in order.
 */
#ifndef ZI_CLI_ARGS_H
#define ZI_CLI_ARGS_H

#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

typedef enum zi_arg_kind {
    ZI_ARG_FLAG, /* bool *                                       */
    ZI_ARG_TEXT, /* const char **                                */
    ZI_ARG_SIZE, /* uint64_t *: base/size.h, without shares      */
    ZI_ARG_U64,  /* uint64_t *                                   */
    ZI_ARG_REAL, /* double *: not negative                       */
} zi_arg_kind;

typedef struct zi_arg {
    const char *name; /* without the dashes */
    zi_arg_kind kind;
    void       *to;
    const char *value; /* what --help calls the value; NULL for flags */
    const char *text;
} zi_arg;

typedef struct zi_args {
    const char   *usage; /* behind "usage: zico " */
    const char   *about; /* a sentence or two     */
    const zi_arg *arg;
    size_t        n_args;
    size_t        rest_least, rest_most; /* words that are no options */
} zi_args;

/* ZICO_OK: go on; rest[0 .. *ret_n_rest) are the other words.  ZICO_PENDING: --help was
 * printed, the command is done.  ZICO_E_ARG: a line on standard error said what is wrong.
 * `rest` has room for argc words; both may be NULL if rest_most is 0. */
zico_status zi_args_parse(const zi_args *args, int argc, char **argv, const char **rest,
                          size_t *ret_n_rest);

/* The exit code for a parse that was not OK. */
int zi_args_exit(zico_status st);

/* Which of the words was probably meant; NULL: none is near. */
const char *zi_args_guess(const char *word, const char *const *known, size_t n);

#endif /* ZI_CLI_ARGS_H */

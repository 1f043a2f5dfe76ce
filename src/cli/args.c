/* args.c -- parses options from a table. */
#include "cli/args.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/size.h"
#include "cli/commands.h"

#define WORD_MAX    32 /* longer words are nobody's typo */
#define OPTIONS_MAX 64

/* Levenshtein distance; both at most WORD_MAX long. */
static size_t
distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);

    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *
zi_args_guess(const char *word, const char *const *known, size_t n)
{
    const char *best = NULL;
    size_t      least = 3; /* two slips at most */

    if (strlen(word) > WORD_MAX) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (strlen(known[i]) > WORD_MAX) continue;
        size_t d = distance(word, known[i]);
        if (d < least && d < strlen(known[i])) {
            least = d;
            best = known[i];
        }
    }
    return best;
}

static void
print_help(const zi_args *args)
{
    printf("usage: zico %s\n\n%s\n", args->usage, args->about);
    if (args->n_args > 0) fputs("\n", stdout);
    for (size_t i = 0; i < args->n_args; i++) {
        char left[48];
        snprintf(left, sizeof left, "--%s%s%s", args->arg[i].name,
                 args->arg[i].value ? " " : "",
                 args->arg[i].value ? args->arg[i].value : "");
        printf("  %-22s %s\n", left, args->arg[i].text);
    }
    printf("  %-22s %s\n", "--help", "this text");
}

static zico_status
complain(const zi_args *args, const char *what, const char *word, const char *hint)
{
    int n = (int)strcspn(args->usage, " ");
    fprintf(stderr, "zico %.*s: %s '%s'%s%s%s (see zico %.*s --help)\n", n, args->usage,
            what, word, hint ? ", did you mean '--" : "", hint ? hint : "",
            hint ? "'" : "", n, args->usage);
    return ZICO_E_ARG;
}

static const zi_arg *
find(const zi_args *args, const char *name, size_t len)
{
    for (size_t i = 0; i < args->n_args; i++)
        if (strlen(args->arg[i].name) == len && memcmp(args->arg[i].name, name, len) == 0)
            return &args->arg[i];
    return NULL;
}

static zico_status
unknown(const zi_args *args, const char *word, size_t len)
{
    const char *known[OPTIONS_MAX];
    char        name[WORD_MAX + 1] = "";
    size_t      n = args->n_args < OPTIONS_MAX ? args->n_args : OPTIONS_MAX;

    if (len <= WORD_MAX) memcpy(name, word + 2, len);
    for (size_t i = 0; i < n; i++) known[i] = args->arg[i].name;
    return complain(args, "there is no option", word, zi_args_guess(name, known, n));
}

static zico_status
set(const zi_args *args, const zi_arg *a, const char *value)
{
    char *end = NULL;

    errno = 0;
    switch (a->kind) {
    case ZI_ARG_FLAG:
        *(bool *)a->to = true;
        return ZICO_OK;
    case ZI_ARG_TEXT:
        *(const char **)a->to = value;
        return ZICO_OK;
    case ZI_ARG_SIZE:
        if (zi_size_parse(value, 0, a->to) >= 0) return ZICO_OK;
        return complain(args, "not a size such as 600M or 8G:", value, NULL);
    case ZI_ARG_U64:
        *(uint64_t *)a->to = strtoull(value, &end, 10);
        if (*value >= '0' && *value <= '9' && !*end && errno == 0) return ZICO_OK;
        return complain(args, "not a whole number:", value, NULL);
    case ZI_ARG_REAL:
        *(double *)a->to = strtod(value, &end);
        if (((*value >= '0' && *value <= '9') || *value == '.') && !*end) return ZICO_OK;
        return complain(args, "not a number:", value, NULL);
    }
    return ZICO_E_ARG;
}

/* One option at argv[*i]; moves *i over its value. */
static zico_status
take_option(const zi_args *args, int argc, char **argv, int *i)
{
    const char   *word = argv[*i], *value = strchr(word, '=');
    size_t        len = value ? (size_t)(value - word) - 2 : strlen(word) - 2;
    const zi_arg *a = find(args, word + 2, len);

    if (!a) return unknown(args, word, len);
    if (a->kind == ZI_ARG_FLAG)
        return value ? complain(args, "takes no value:", word, NULL) : set(args, a, NULL);
    if (value) return set(args, a, value + 1);
    if (*i + 1 >= argc) return complain(args, "a value is missing behind", word, NULL);
    return set(args, a, argv[++*i]);
}

zico_status
zi_args_parse(const zi_args *args, int argc, char **argv, const char **rest,
              size_t *ret_n_rest)
{
    size_t n = 0;
    bool   options = true;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            print_help(args);
            return ZICO_PENDING;
        } else if (options && strncmp(word, "--", 2) == 0) {
            zico_status st = take_option(args, argc, argv, &i);
            if (st < 0) return st;
        } else if (n == args->rest_most) {
            return complain(args, "does not belong here:", word, NULL);
        } else {
            rest[n++] = word;
        }
    }
    if (n < args->rest_least)
        return complain(args, "something is missing behind", argv[0], NULL);
    if (ret_n_rest) *ret_n_rest = n;
    return ZICO_OK;
}

int
zi_args_exit(zico_status st)
{
    return st < 0 ? ZI_EXIT_USAGE : ZI_EXIT_OK;
}

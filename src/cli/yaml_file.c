/* yaml_file.c -- libcyaml's complaints turned into one line that names file, line and key. */
#include "cli/yaml_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define FILE_BYTES_MAX (1u << 20)

/* -- errors ---------------------------------------------------------------------------------- */

/* What libcyaml says on failure: one line of cause, then where, innermost first. */
typedef struct complaint {
    char     cause[512];
    unsigned line;
    char     field[64];
} complaint;

static void
take_complaint(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    complaint *c = ctx;
    char       text[512], *at;

    (void)level;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = 0;
    if (!c->cause[0] && !strstr(text, "Backtrace")) {
        at = strstr(text, "Load: ");
        snprintf(c->cause, sizeof c->cause, "%s", at ? at + 6 : text);
        return;
    }
    if (c->line || !(at = strstr(text, "(line: "))) return;
    c->line = (unsigned)strtoul(at + 7, NULL, 10);
    at = strstr(text, "field '");
    if (at)
        snprintf(c->field, sizeof c->field, "%.*s", (int)strcspn(at + 7, "'"), at + 7);
}

/* Does this line of the file begin with `key:` (behind blanks and a dash)? */
static bool
line_has_key(const char *line, const char *key)
{
    size_t n = strlen(key);
    line += strspn(line, " \t-{");
    if (strncmp(line, key, n) != 0) return false;
    line += n;
    line += strspn(line, " \t");
    return *line == ':';
}

/* The line on which `key` has `value` (NULL: any value), `skip` such lines further; 0: none. */
static unsigned
find_line(const char *text, const char *key, const char *value, unsigned from,
          unsigned skip)
{
    unsigned n = 1;
    for (const char *at = text; *at; n++) {
        const char *end = strchrnul(at, '\n');
        char        line[512];
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        if (n >= from && line_has_key(line, key) && (!value || strstr(line, value)) &&
            skip-- == 0)
            return n;
        at = *end ? end + 1 : end;
    }
    return 0;
}

void
zi_yaml_blame(zi_yaml *y, const char *key, const char *value, unsigned skip,
              const char *fmt, ...)
{
    va_list ap;
    char    text[400];

    if (y->st < 0) return; /* the first fault is the one to mend first */
    y->st = ZICO_E_ARG;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    zi_str_fmt(y->why, "%s:%u: %s: %s", y->name, find_line(y->text, key, value, 1, skip),
               key, text);
}

static zico_status
blame_form(zi_yaml *y, const complaint *c)
{
    static const char unexpected[] = "Unexpected key: ";
    unsigned          line = c->line;

    if (!strncmp(c->cause, unexpected, sizeof unexpected - 1)) {
        const char *key = c->cause + sizeof unexpected - 1;
        unsigned    at = find_line(y->text, key, NULL, line, 0);
        zi_str_fmt(y->why, "%s:%u: %s: unknown key; `%s` lists them", y->name,
                   at ? at : line, key, y->help);
    } else if (c->field[0]) {
        zi_str_fmt(y->why, "%s:%u: %s: %s", y->name, line, c->field, c->cause);
    } else {
        zi_str_fmt(y->why, "%s:%u: %s", y->name, line, c->cause);
    }
    return ZICO_E_FORMAT;
}

/* -- the meaning ------------------------------------------------------------------------------ */

void
zi_yaml_size(zi_yaml *y, const char *key, const char *text, uint64_t *ret_bytes)
{
    if (!text) return;
    if (zi_size_parse(text, 0, ret_bytes) < 0)
        zi_yaml_blame(y, key, text, 0, "'%s' is not a size such as 600M or 4G", text);
}

bool
zi_yaml_number(const char *text, double least, double most, double *ret_value)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) return false;
    *ret_value = v;
    return true;
}

void
zi_yaml_seconds(zi_yaml *y, const char *key, const char *text, uint64_t *ret_ns)
{
    double v;
    if (!text) return;
    if (zi_yaml_number(text, 0, 1e7, &v))
        *ret_ns = (uint64_t)(v * 1e9);
    else
        zi_yaml_blame(y, key, text, 0, "'%s' is not a number of seconds", text);
}

void
zi_yaml_check(zi_yaml *y, const char *key, const char *text, double least, double most,
              double *ret_value)
{
    double v;
    if (!text) return;
    if (!zi_yaml_number(text, least, most, &v))
        zi_yaml_blame(y, key, text, 0, "'%s' is not a number from %g to %g", text, least,
                      most);
    else if (ret_value)
        *ret_value = v;
}

/* -- the doors --------------------------------------------------------------------------------- */

static cyaml_config_t
config(complaint *c)
{
    return (cyaml_config_t){
        .log_fn = take_complaint,
        .log_ctx = c,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
    };
}

zico_status
zi_yaml_load(zi_yaml *y, size_t n_bytes, const cyaml_schema_value_t *schema,
             void **ret_data)
{
    complaint      c = {0};
    cyaml_config_t cfg = config(&c);

    *ret_data = NULL;
    if (memchr(y->text, 0, n_bytes)) {
        zi_str_fmt(y->why, "%s: not a text file", y->name);
        return y->st = ZICO_E_FORMAT;
    }
    cyaml_err_t err =
        cyaml_load_data((const uint8_t *)y->text, n_bytes, &cfg, schema, ret_data, NULL);
    if (err == CYAML_OK && *ret_data) return ZICO_OK;
    if (!c.cause[0]) snprintf(c.cause, sizeof c.cause, "%s", cyaml_strerror(err));
    return y->st = blame_form(y, &c);
}

void
zi_yaml_free(const cyaml_schema_value_t *schema, void *data)
{
    complaint      c = {0};
    cyaml_config_t cfg = config(&c);
    if (data) cyaml_free(&cfg, schema, data, 0);
}

zico_status
zi_yaml_read(const char *path, zi_str *why, char **ret_text, size_t *ret_n_bytes)
{
    char       *text = zi_malloc(FILE_BYTES_MAX + 1u);
    FILE       *f = fopen(path, "re");
    zico_status st = ZICO_OK;

    if (!text || !f) {
        zi_str_fmt(why, "%s: %s", path, f ? "out of memory" : strerror(errno));
        st = f ? ZICO_E_NOMEM : ZICO_E_NOTFOUND;
        goto undo;
    }
    size_t n = fread(text, 1, FILE_BYTES_MAX + 1u, f);
    if (ferror(f) || n > FILE_BYTES_MAX) {
        zi_str_fmt(why, "%s: %s", path,
                   ferror(f) ? "cannot be read" : "longer than 1 MiB");
        st = ZICO_E_FORMAT;
        goto undo;
    }
    text[n] = 0;
    *ret_n_bytes = n;
undo:
    if (f) fclose(f);
    if (st < 0)
        zi_free(text);
    else
        *ret_text = text;
    return st;
}

/* jobfile.c -- job files: libcyaml for form, our own checks for meaning. */
#include "cli/jobfile.h"

#include <cyaml/cyaml.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define FILE_BYTES_MAX (1u << 20)

/* -- the form ------------------------------------------------------------------------------ */

#define WORD(key, type, field)                                                           \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field,   \
                           0, 4096)

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, 4096)};

static const cyaml_schema_field_t job_fields[] = {
    WORD("name", zi_job_entry, name),
    WORD("train", zi_job_entry, train),
    WORD("infer", zi_job_entry, infer),
    CYAML_FIELD_SEQUENCE("command", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         zi_job_entry, command, &word_schema, 1, 1024),
    WORD("shell", zi_job_entry, shell),
    WORD("min", zi_job_entry, min),
    WORD("max", zi_job_entry, max),
    WORD("claim", zi_job_entry, claim),
    WORD("weight", zi_job_entry, weight),
    WORD("cores", zi_job_entry, cores),
    WORD("batch", zi_job_entry, batch),
    WORD("steps", zi_job_entry, steps),
    WORD("epochs", zi_job_entry, epochs),
    WORD("optimizer", zi_job_entry, optimizer),
    WORD("lr", zi_job_entry, lr),
    WORD("seed", zi_job_entry, seed),
    WORD("planner", zi_job_entry, planner),
    WORD("limit", zi_job_entry, limit),
    WORD("latency", zi_job_entry, latency),
    CYAML_FIELD_SEQUENCE("args", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, zi_job_entry,
                         args, &word_schema, 0, 256),
    CYAML_FIELD_SEQUENCE("env", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, zi_job_entry,
                         env, &word_schema, 0, 256),
    WORD("dir", zi_job_entry, dir),
    WORD("delay", zi_job_entry, delay),
    WORD("max_wait", zi_job_entry, max_wait),
    WORD("on_hang", zi_job_entry, on_hang),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t job_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zi_job_entry, job_fields)};

static const cyaml_schema_field_t file_fields[] = {
    WORD("budget", zi_jobfile, budget),
    WORD("policy", zi_jobfile, policy),
    WORD("region", zi_jobfile, region),
    WORD("cores", zi_jobfile, cores),
    WORD("device", zi_jobfile, device),
    CYAML_FIELD_SEQUENCE("jobs", CYAML_FLAG_POINTER, zi_jobfile, jobs, &job_schema, 1,
                         ZI_JOBFILE_JOBS_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, zi_jobfile, file_fields)};

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

typedef struct judge {
    const char *name, *text;
    zi_str     *why;
    zico_status st;
} judge;

__attribute__((format(printf, 5, 6))) static void
blame(judge *j, const char *key, const char *value, unsigned skip, const char *fmt, ...)
{
    va_list ap;
    char    text[400];

    if (j->st < 0) return; /* the first fault is the one to mend first */
    j->st = ZICO_E_ARG;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    zi_str_fmt(j->why, "%s:%u: %s: %s", j->name, find_line(j->text, key, value, 1, skip),
               key, text);
}

static zico_status
blame_form(judge *j, const complaint *c)
{
    static const char unexpected[] = "Unexpected key: ";
    unsigned          line = c->line;

    if (!strncmp(c->cause, unexpected, sizeof unexpected - 1)) {
        const char *key = c->cause + sizeof unexpected - 1;
        unsigned    at = find_line(j->text, key, NULL, line, 0);
        zi_str_fmt(j->why, "%s:%u: %s: unknown key; `zico run --help` lists them",
                   j->name, at ? at : line, key);
    } else if (c->field[0]) {
        zi_str_fmt(j->why, "%s:%u: %s: %s", j->name, line, c->field, c->cause);
    } else {
        zi_str_fmt(j->why, "%s:%u: %s", j->name, line, c->cause);
    }
    return ZICO_E_FORMAT;
}

/* -- the meaning ------------------------------------------------------------------------------ */

static void
read_size(judge *j, const char *key, const char *text, uint64_t *ret_bytes)
{
    if (!text) return;
    if (zi_size_parse(text, 0, ret_bytes) < 0)
        blame(j, key, text, 0, "'%s' is not a size such as 600M or 4G", text);
}

static bool
read_number(const char *text, double least, double most, double *ret_value)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) return false;
    *ret_value = v;
    return true;
}

static void
read_seconds(judge *j, const char *key, const char *text, uint64_t *ret_ns)
{
    double v;
    if (!text) return;
    if (read_number(text, 0, 1e7, &v))
        *ret_ns = (uint64_t)(v * 1e9);
    else
        blame(j, key, text, 0, "'%s' is not a number of seconds", text);
}

static void
check_cores(judge *j, const char *text)
{
    double v;
    if (!text || !strcmp(text, "follow") || !strcmp(text, "own") ||
        !strcmp(text, "fixed"))
        return;
    if (!strncmp(text, "fixed:", 6) && read_number(text + 6, 1, 4096, &v)) return;
    blame(j, "cores", text, 0, "'%s' is none of follow, own, fixed, fixed:N", text);
}

static void
check_number(judge *j, const char *key, const char *text, double least, double most)
{
    double v;
    if (text && !read_number(text, least, most, &v))
        blame(j, key, text, 0, "'%s' is not a number from %g to %g", text, least, most);
}

/* A name for people: from what it runs, if it has none. */
static void
name_job(zi_job_entry *e, unsigned i)
{
    char        made[64];
    const char *from = e->train ? e->train : e->infer ? e->infer : NULL;
    if (e->name) return;
    if (from)
        snprintf(made, sizeof made, "%.*s", (int)strcspn(from, ":"), from);
    else
        snprintf(made, sizeof made, "job%u", i + 1);
    e->name = strdup(made);
}

static void
check_kind(judge *j, const zi_job_entry *e)
{
    int n = !!e->train + !!e->infer + !!e->command + !!e->shell;
    if (n == 0)
        blame(j, "name", e->name, 0, "job '%s' has none of train, infer, command, shell",
              e->name);
    else if (n > 1)
        blame(j, "name", e->name, 0,
              "job '%s' has more than one of train, infer, command, shell", e->name);
    bool native = e->train || e->infer;
    if (!native && (e->batch || e->optimizer || e->lr || e->planner || e->args_count))
        blame(j,
              e->batch       ? "batch"
              : e->optimizer ? "optimizer"
              : e->lr        ? "lr"
              : e->planner   ? "planner"
                             : "args",
              NULL, 0, "only for train and infer; job '%s' is a command", e->name);
}

static void
judge_job(judge *j, zi_job_entry *e, unsigned i)
{
    double weight = 1.0;

    name_job(e, i);
    if (!e->name || !e->name[0] || strlen(e->name) > 48 || strpbrk(e->name, "/\n\t"))
        blame(j, "name", e->name, 0, "a name has 1 to 48 characters, no slash, no tab");
    check_kind(j, e);
    read_size(j, "min", e->min, &e->min_bytes);
    read_size(j, "max", e->max, &e->max_bytes);
    read_size(j, "claim", e->claim, &e->claim_bytes);
    if (e->max_bytes && e->min_bytes > e->max_bytes)
        blame(j, "min", e->min, 0, "%s is more than max, %s", e->min, e->max);
    if (e->weight && !read_number(e->weight, 0.001, 1000, &weight))
        blame(j, "weight", e->weight, 0, "'%s' is not a number from 0.001 to 1000",
              e->weight);
    e->weight_milli = (uint32_t)(weight * 1000 + 0.5);
    check_cores(j, e->cores);
    check_number(j, "batch", e->batch, 1, 1e6);
    check_number(j, "steps", e->steps, 1, 1e12);
    check_number(j, "epochs", e->epochs, 1, 1e9);
    check_number(j, "lr", e->lr, 0, 1e6);
    check_number(j, "latency", e->latency, 0, 1e6);
    read_seconds(j, "delay", e->delay, &e->delay_ns);
    read_seconds(j, "max_wait", e->max_wait, &e->max_wait_ns);
    e->kill_on_hang = e->on_hang && !strcmp(e->on_hang, "kill");
    if (e->on_hang && !e->kill_on_hang && strcmp(e->on_hang, "wait"))
        blame(j, "on_hang", e->on_hang, 0, "'%s' is neither wait nor kill", e->on_hang);
    for (unsigned k = 0; k < e->env_count; k++)
        if (!strchr(e->env[k], '='))
            blame(j, "env", NULL, 0, "'%s' is not NAME=value", e->env[k]);
}

static void
judge_names(judge *j, const zi_jobfile *f)
{
    for (unsigned i = 0; i < f->jobs_count; i++)
        for (unsigned k = 0; k < i; k++)
            if (f->jobs[i].name && f->jobs[k].name &&
                !strcmp(f->jobs[i].name, f->jobs[k].name))
                blame(j, "name", f->jobs[i].name, 1, "'%s' is taken by job %u",
                      f->jobs[i].name, k + 1);
}

static void
judge_budget(judge *j, zi_jobfile *f)
{
    double percent;
    size_t n = f->budget ? strlen(f->budget) : 0;

    if (n == 0) return;
    if (f->budget[n - 1] == '%') {
        char number[32];
        snprintf(number, sizeof number, "%.*s", (int)(n - 1), f->budget);
        if (read_number(number, 1, 1000, &percent))
            f->budget_percent = (uint32_t)percent;
        else
            blame(j, "budget", f->budget, 0, "'%s' is not a share from 1%% to 1000%%",
                  f->budget);
        return;
    }
    read_size(j, "budget", f->budget, &f->budget_bytes);
    if (j->st >= 0 && f->budget_bytes < (64u << 20))
        blame(j, "budget", f->budget, 0, "%s is too little to share; 64M is the least",
              f->budget);
    for (unsigned i = 0; i < f->jobs_count; i++)
        if (f->budget_bytes && f->jobs[i].min_bytes > f->budget_bytes)
            blame(j, "min", f->jobs[i].min, 0, "%s is more than the budget, %s",
                  f->jobs[i].min, f->budget);
}

static zico_status
judge_file(judge *j, zi_jobfile *f)
{
    for (unsigned i = 0; i < f->jobs_count; i++) judge_job(j, &f->jobs[i], i);
    judge_names(j, f);
    read_size(j, "region", f->region, &f->region_bytes);
    check_cores(j, f->cores);
    judge_budget(j, f);
    return j->st;
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
zi_jobfile_parse(const char *name, const char *text, size_t n_bytes,
                 zi_jobfile **ret_file, zi_str *why)
{
    complaint      c = {0};
    cyaml_config_t cfg = config(&c);
    zi_jobfile    *f = NULL;
    judge          j = {.name = name, .text = text, .why = why};

    if (memchr(text, 0, n_bytes)) {
        zi_str_fmt(why, "%s: not a text file", name);
        return ZICO_E_FORMAT;
    }
    cyaml_err_t err = cyaml_load_data((const uint8_t *)text, n_bytes, &cfg, &file_schema,
                                      (cyaml_data_t **)&f, NULL);
    if (err != CYAML_OK || !f) {
        if (!c.cause[0]) snprintf(c.cause, sizeof c.cause, "%s", cyaml_strerror(err));
        return blame_form(&j, &c);
    }
    if (judge_file(&j, f) < 0) {
        zi_jobfile_free(f);
        return j.st;
    }
    *ret_file = f;
    return ZICO_OK;
}

zico_status
zi_jobfile_read(const char *path, zi_jobfile **ret_file, zi_str *why)
{
    char       *text = zi_malloc(FILE_BYTES_MAX + 1u);
    FILE       *f = fopen(path, "re");
    zico_status st;

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
    st = zi_jobfile_parse(path, text, n, ret_file, why);
undo:
    if (f) fclose(f);
    zi_free(text);
    return st;
}

void
zi_jobfile_free(zi_jobfile *f)
{
    complaint      c = {0};
    cyaml_config_t cfg = config(&c);
    if (f) cyaml_free(&cfg, &file_schema, f, 0);
}

/* jobfile.c -- job files: libcyaml for form, our own checks for meaning. */
#include "cli/jobfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/try.h"
#include "cli/yaml_file.h"

/* -- the form ------------------------------------------------------------------------------ */

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, 4096)};

static const cyaml_schema_field_t job_fields[] = {
    ZI_YAML_WORD("name", zi_job_entry, name),
    ZI_YAML_WORD("train", zi_job_entry, train),
    ZI_YAML_WORD("infer", zi_job_entry, infer),
    CYAML_FIELD_SEQUENCE("command", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         zi_job_entry, command, &word_schema, 1, 1024),
    ZI_YAML_WORD("shell", zi_job_entry, shell),
    ZI_YAML_WORD("min", zi_job_entry, min),
    ZI_YAML_WORD("max", zi_job_entry, max),
    ZI_YAML_WORD("claim", zi_job_entry, claim),
    ZI_YAML_WORD("weight", zi_job_entry, weight),
    ZI_YAML_WORD("cores", zi_job_entry, cores),
    ZI_YAML_WORD("batch", zi_job_entry, batch),
    ZI_YAML_WORD("steps", zi_job_entry, steps),
    ZI_YAML_WORD("epochs", zi_job_entry, epochs),
    ZI_YAML_WORD("optimizer", zi_job_entry, optimizer),
    ZI_YAML_WORD("lr", zi_job_entry, lr),
    ZI_YAML_WORD("seed", zi_job_entry, seed),
    ZI_YAML_WORD("planner", zi_job_entry, planner),
    ZI_YAML_WORD("limit", zi_job_entry, limit),
    ZI_YAML_WORD("latency", zi_job_entry, latency),
    CYAML_FIELD_SEQUENCE("args", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, zi_job_entry,
                         args, &word_schema, 0, 256),
    CYAML_FIELD_SEQUENCE("env", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, zi_job_entry,
                         env, &word_schema, 0, 256),
    ZI_YAML_WORD("dir", zi_job_entry, dir),
    ZI_YAML_WORD("delay", zi_job_entry, delay),
    ZI_YAML_WORD("max_wait", zi_job_entry, max_wait),
    ZI_YAML_WORD("on_hang", zi_job_entry, on_hang),
    ZI_YAML_WORD("steady", zi_job_entry, steady),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t job_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zi_job_entry, job_fields)};

static const cyaml_schema_field_t file_fields[] = {
    ZI_YAML_WORD("budget", zi_jobfile, budget),
    ZI_YAML_WORD("policy", zi_jobfile, policy),
    ZI_YAML_WORD("region", zi_jobfile, region),
    ZI_YAML_WORD("cores", zi_jobfile, cores),
    ZI_YAML_WORD("device", zi_jobfile, device),
    CYAML_FIELD_SEQUENCE("jobs", CYAML_FLAG_POINTER, zi_jobfile, jobs, &job_schema, 1,
                         ZI_JOBFILE_JOBS_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, zi_jobfile, file_fields)};

/* -- the meaning ------------------------------------------------------------------------------ */

static void
check_cores(zi_yaml *y, const char *text)
{
    double v;
    if (!text || !strcmp(text, "follow") || !strcmp(text, "own") ||
        !strcmp(text, "fixed"))
        return;
    if (!strncmp(text, "fixed:", 6) && zi_yaml_number(text + 6, 1, 4096, &v)) return;
    zi_yaml_blame(y, "cores", text, 0, "'%s' is none of follow, own, fixed, fixed:N",
                  text);
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
check_kind(zi_yaml *y, const zi_job_entry *e)
{
    int n = !!e->train + !!e->infer + !!e->command + !!e->shell;
    if (n == 0)
        zi_yaml_blame(y, "name", e->name, 0,
                      "job '%s' has none of train, infer, command, shell", e->name);
    else if (n > 1)
        zi_yaml_blame(y, "name", e->name, 0,
                      "job '%s' has more than one of train, infer, command, shell",
                      e->name);
    bool native = e->train || e->infer;
    if (!native && (e->batch || e->optimizer || e->lr || e->planner || e->args_count))
        zi_yaml_blame(y,
                      e->batch       ? "batch"
                      : e->optimizer ? "optimizer"
                      : e->lr        ? "lr"
                      : e->planner   ? "planner"
                                     : "args",
                      NULL, 0, "only for train and infer; job '%s' is a command",
                      e->name);
}

static void
judge_job(zi_yaml *y, zi_job_entry *e, unsigned i)
{
    double weight = 1.0;

    name_job(e, i);
    if (!e->name || !e->name[0] || strlen(e->name) > 48 || strpbrk(e->name, "/\n\t"))
        zi_yaml_blame(y, "name", e->name, 0,
                      "a name has 1 to 48 characters, no slash, no tab");
    check_kind(y, e);
    zi_yaml_size(y, "min", e->min, &e->min_bytes);
    zi_yaml_size(y, "max", e->max, &e->max_bytes);
    zi_yaml_size(y, "claim", e->claim, &e->claim_bytes);
    if (e->max_bytes && e->min_bytes > e->max_bytes)
        zi_yaml_blame(y, "min", e->min, 0, "%s is more than max, %s", e->min, e->max);
    if (e->weight && !zi_yaml_number(e->weight, 0.001, 1000, &weight))
        zi_yaml_blame(y, "weight", e->weight, 0,
                      "'%s' is not a number from 0.001 to 1000", e->weight);
    e->weight_milli = (uint32_t)(weight * 1000 + 0.5);
    check_cores(y, e->cores);
    zi_yaml_check(y, "batch", e->batch, 1, 1e6, NULL);
    zi_yaml_check(y, "steps", e->steps, 1, 1e12, NULL);
    zi_yaml_check(y, "epochs", e->epochs, 1, 1e9, NULL);
    zi_yaml_check(y, "lr", e->lr, 0, 1e6, NULL);
    zi_yaml_check(y, "latency", e->latency, 0, 1e6, NULL);
    zi_yaml_seconds(y, "delay", e->delay, &e->delay_ns);
    zi_yaml_seconds(y, "max_wait", e->max_wait, &e->max_wait_ns);
    e->kill_on_hang = e->on_hang && !strcmp(e->on_hang, "kill");
    if (e->on_hang && !e->kill_on_hang && strcmp(e->on_hang, "wait"))
        zi_yaml_blame(y, "on_hang", e->on_hang, 0, "'%s' is neither wait nor kill",
                      e->on_hang);
    e->is_steady = e->steady && (!strcmp(e->steady, "yes") || !strcmp(e->steady, "true"));
    if (e->steady && !e->is_steady && strcmp(e->steady, "no") &&
        strcmp(e->steady, "false"))
        zi_yaml_blame(y, "steady", e->steady, 0, "'%s' is neither yes nor no", e->steady);
    for (unsigned k = 0; k < e->env_count; k++)
        if (!strchr(e->env[k], '='))
            zi_yaml_blame(y, "env", NULL, 0, "'%s' is not NAME=value", e->env[k]);
}

static void
judge_names(zi_yaml *y, const zi_jobfile *f)
{
    for (unsigned i = 0; i < f->jobs_count; i++)
        for (unsigned k = 0; k < i; k++)
            if (f->jobs[i].name && f->jobs[k].name &&
                !strcmp(f->jobs[i].name, f->jobs[k].name))
                zi_yaml_blame(y, "name", f->jobs[i].name, 1, "'%s' is taken by job %u",
                              f->jobs[i].name, k + 1);
}

static void
judge_budget(zi_yaml *y, zi_jobfile *f)
{
    double percent;
    size_t n = f->budget ? strlen(f->budget) : 0;

    if (n == 0) return;
    if (f->budget[n - 1] == '%') {
        char number[32];
        snprintf(number, sizeof number, "%.*s", (int)(n - 1), f->budget);
        if (zi_yaml_number(number, 1, 1000, &percent))
            f->budget_percent = (uint32_t)percent;
        else
            zi_yaml_blame(y, "budget", f->budget, 0,
                          "'%s' is not a share from 1%% to 1000%%", f->budget);
        return;
    }
    zi_yaml_size(y, "budget", f->budget, &f->budget_bytes);
    if (y->st >= 0 && f->budget_bytes < (64u << 20))
        zi_yaml_blame(y, "budget", f->budget, 0,
                      "%s is too little to share; 64M is the least", f->budget);
    for (unsigned i = 0; i < f->jobs_count; i++)
        if (f->budget_bytes && f->jobs[i].min_bytes > f->budget_bytes)
            zi_yaml_blame(y, "min", f->jobs[i].min, 0, "%s is more than the budget, %s",
                          f->jobs[i].min, f->budget);
}

static zico_status
judge_file(zi_yaml *y, zi_jobfile *f)
{
    for (unsigned i = 0; i < f->jobs_count; i++) judge_job(y, &f->jobs[i], i);
    judge_names(y, f);
    zi_yaml_size(y, "region", f->region, &f->region_bytes);
    check_cores(y, f->cores);
    judge_budget(y, f);
    return y->st;
}

/* -- the doors --------------------------------------------------------------------------------- */

zico_status
zi_jobfile_parse(const char *name, const char *text, size_t n_bytes,
                 zi_jobfile **ret_file, zi_str *why)
{
    zi_yaml y = {.name = name, .text = text, .why = why, .help = "zico run --help"};
    void   *data;

    ZI_TRY(zi_yaml_load(&y, n_bytes, &file_schema, &data));
    if (judge_file(&y, data) < 0) {
        zi_jobfile_free(data);
        return y.st;
    }
    *ret_file = data;
    return ZICO_OK;
}

zico_status
zi_jobfile_read(const char *path, zi_jobfile **ret_file, zi_str *why)
{
    char  *text;
    size_t n_bytes;

    ZI_TRY(zi_yaml_read(path, why, &text, &n_bytes));
    zico_status st = zi_jobfile_parse(path, text, n_bytes, ret_file, why);
    zi_free(text);
    return st;
}

void
zi_jobfile_free(zi_jobfile *f)
{
    zi_yaml_free(&file_schema, f);
}

/* run_report.c -- the closing report of a job file. */
#include "cli/run_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

static zi_style
paper_style(void)
{
    const char *lang = getenv("LANG");
    return (zi_style){.unicode = lang && strstr(lang, "UTF-8") != NULL};
}

static zi_table *
job_table(const zi_run_result *res)
{
    static const zi_column col[] = {
        {"job", NULL, ZI_UNIT_TEXT, 0},
        {"exit", "exit_code", ZI_UNIT_NUMBER, 0},
        {"steps", NULL, ZI_UNIT_NUMBER, 0},
        {"steps/s", "rate", ZI_UNIT_NUMBER, 3},
        {"loss", NULL, ZI_UNIT_NUMBER, 4},
        {"time", "wall_ns", ZI_UNIT_NS, 0},
        {"waited", "waited_ns", ZI_UNIT_NS, 0},
        {"peak", "peak_bytes", ZI_UNIT_BYTES, 0},
        {"given on in steps", "exchanged_bytes", ZI_UNIT_BYTES, 0},
    };
    zi_table *t;
    if (zi_table_new(col, sizeof col / sizeof *col, &t) < 0) return NULL;
    for (unsigned i = 0; i < res->n_jobs; i++) {
        const zi_run_job *j = &res->job[i];
        zi_table_text(t, j->name);
        zi_table_f64(t, j->exit_code);
        zi_table_u64(t, j->steps);
        zi_table_f64(t, j->rate > 0 ? j->rate : NAN);
        zi_table_f64(t, j->loss);
        zi_table_u64(t, j->wall_ns);
        zi_table_u64(t, j->waited_ns);
        zi_table_u64(t, j->peak_bytes);
        zi_table_u64(t, j->exchanged_bytes);
    }
    return t;
}

static void
print_failures(const zi_run_result *res)
{
    for (unsigned i = 0; i < res->n_jobs; i++) {
        const zi_run_job *j = &res->job[i];
        if (j->exit_code == 0) continue;
        fprintf(stderr, "%s %s with exit code %d; its last line: %s\n  its output: %s\n",
                j->name, j->stopped ? "was stopped" : "failed", j->exit_code,
                j->last_line[0] ? j->last_line : "(none)", j->log_path);
    }
}

/* Programs that tell no loss have said how it went themselves. */
static void
print_last_words(const zi_run_result *res)
{
    for (unsigned i = 0; i < res->n_jobs; i++) {
        const zi_run_job *j = &res->job[i];
        if (j->exit_code != 0 || !isnan(j->loss) || !j->last_line[0]) continue;
        printf("%s ended with: %s\n  its output: %s\n", j->name, j->last_line,
               j->log_path);
    }
}

/* Where the text goes, or a word about why it could not. */
static void
write_file(const char *path, const zi_str *text)
{
    FILE *f = fopen(path, "we");
    if (!f || fwrite(zi_str_get(text), 1, text->n, f) != text->n || fclose(f) != 0)
        fprintf(stderr, "zico run: cannot write %s: %s\n", path, strerror(errno));
}

static void
write_pictures(const zi_history *history, const zi_run_options *opt)
{
    char   path[600];
    zi_str text = {0};

    snprintf(path, sizeof path, "%s/memory.svg", opt->out_dir);
    if (zi_history_n(history) > 1 &&
        zi_history_svg(history, "memory held by each job", &text) == ZICO_OK)
        write_file(path, &text);
    zi_str_clear(&text);
    if (opt->trace) {
        zi_trace t = zi_trace_into(&text);
        zi_history_trace(history, &t, 1);
        if (zi_trace_end(&t) == ZICO_OK) write_file(opt->trace, &text);
    }
    zi_str_free(&text);
}

static void
print_json(const zi_run_result *res, zi_table *jobs)
{
    zi_str  text = {0};
    zi_json j = zi_json_into(&text);

    zi_json_object(&j);
    zi_json_key(&j, "policy"), zi_json_str(&j, res->policy);
    zi_json_key(&j, "budget_bytes"), zi_json_u64(&j, res->budget_bytes);
    zi_json_key(&j, "peak_bytes"), zi_json_u64(&j, res->peak_bytes);
    zi_json_key(&j, "sum_of_peaks_bytes"), zi_json_u64(&j, res->sum_peaks_bytes);
    zi_json_key(&j, "exchanged_bytes"), zi_json_u64(&j, res->exchanged_bytes);
    zi_json_key(&j, "wall_ns"), zi_json_u64(&j, res->wall_ns);
    zi_json_key(&j, "over_budget"), zi_json_bool(&j, res->over_budget);
    zi_json_key(&j, "failed"), zi_json_u64(&j, res->n_failed);
    zi_json_key(&j, "jobs");
    if (zi_table_json(jobs, &j) < 0) fprintf(stderr, "zico run: out of memory\n");
    zi_json_end(&j);
    printf("%s\n", zi_str_get(&text));
    zi_str_free(&text);
}

static void
print_summary(const zi_run_result *res, const zi_run_options *opt)
{
    char peak[ZI_SIZE_TEXT], sum[ZI_SIZE_TEXT], budget[ZI_SIZE_TEXT], given[ZI_SIZE_TEXT];
    printf("\n%u jobs in %.1f s under policy %s\n", res->n_jobs,
           (double)res->wall_ns / 1e9, res->policy);
    printf("peak of all together %s of a budget of %s%s; each alone would add up to %s",
           zi_size_format(res->peak_bytes, peak),
           zi_size_format(res->budget_bytes, budget),
           res->over_budget ? " (the budget was passed!)" : "",
           zi_size_format(res->sum_peaks_bytes, sum));
    if (res->sum_peaks_bytes)
        printf(" (%.0f %% of it)",
               100.0 * (double)res->peak_bytes / (double)res->sum_peaks_bytes);
    printf("\n%s changed hands within steps\n",
           zi_size_format(res->exchanged_bytes, given));
    printf("picture: %s/memory.svg\n", opt->out_dir);
}

void
zi_run_report(const zi_run_result *res, const zi_history *history,
              const zi_run_options *opt)
{
    zi_style  style = paper_style();
    zi_str    text = {0};
    zi_table *t = job_table(res);

    if (!t) return;
    write_pictures(history, opt);
    if (opt->json) {
        print_json(res, t);
    } else {
        if (zi_table_print(t, &style, &text) == ZICO_OK)
            printf("\n%s", zi_str_get(&text));
        print_last_words(res);
        print_summary(res, opt);
    }
    fflush(stdout);
    print_failures(res);
    zi_str_free(&text);
    zi_table_free(t);
}

/* -- comparing ---------------------------------------------------------------------------------- */

static double
job_rate(const zi_run_job *j)
{
    return j->shared_rate > 0 ? j->shared_rate : j->rate;
}

/* Mean progress of the jobs, and the worst, relative to the same job in `base`. */
static void
progress(const zi_run_result *res, const zi_run_result *base, double *ret_mean,
         double *ret_worst)
{
    double   sum = 0, worst = INFINITY;
    unsigned n = 0;
    for (unsigned i = 0; i < res->n_jobs; i++) {
        double was = job_rate(&base->job[i]), is = job_rate(&res->job[i]);
        if (!(was > 0)) continue;
        sum += is / was;
        if (is / was < worst) worst = is / was;
        n++;
    }
    *ret_mean = n ? sum / n : NAN;
    *ret_worst = n ? worst : NAN;
}

/* From a job's start to its end, mean over the jobs. */
static uint64_t
mean_wall_ns(const zi_run_result *res)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < res->n_jobs; i++) sum += res->job[i].wall_ns;
    return res->n_jobs ? sum / res->n_jobs : 0;
}

void
zi_run_report_compare(const zi_run_result *res, unsigned n, bool json)
{
    static const zi_column col[] = {
        {"policy", NULL, ZI_UNIT_TEXT, 0},
        {"time for all", "wall_ns", ZI_UNIT_NS, 0},
        {"mean of each", "mean_wall_ns", ZI_UNIT_NS, 0},
        {"progress", "progress", ZI_UNIT_RATIO, 2},
        {"slowest job", "slowest", ZI_UNIT_RATIO, 2},
        {"peak", "peak_bytes", ZI_UNIT_BYTES, 0},
        {"of solo peaks", "peak_share", ZI_UNIT_PERCENT, 0},
        {"given on in steps", "exchanged_bytes", ZI_UNIT_BYTES, 0},
        {"failed", NULL, ZI_UNIT_NUMBER, 0},
    };
    zi_style  style = paper_style();
    zi_str    text = {0};
    zi_table *t;

    if (zi_table_new(col, sizeof col / sizeof *col, &t) < 0) return;
    for (unsigned i = 0; i < n; i++) {
        double mean, worst;
        progress(&res[i], &res[0], &mean, &worst);
        zi_table_text(t, res[i].policy);
        zi_table_u64(t, res[i].wall_ns);
        zi_table_u64(t, mean_wall_ns(&res[i]));
        zi_table_f64(t, mean);
        zi_table_f64(t, worst);
        zi_table_u64(t, res[i].peak_bytes);
        zi_table_f64(t, res[i].sum_peaks_bytes
                            ? (double)res[i].peak_bytes / (double)res[i].sum_peaks_bytes
                            : NAN);
        zi_table_u64(t, res[i].exchanged_bytes);
        zi_table_u64(t, res[i].n_failed);
    }
    if (json) {
        zi_json j = zi_json_into(&text);
        if (zi_table_json(t, &j) == ZICO_OK) printf("%s\n", zi_str_get(&text));
    } else if (zi_table_print(t, &style, &text) == ZICO_OK) {
        printf("\n%s\nprogress: steps a second of each job relative to the same job "
               "under %s, "
               "mean over the jobs\n",
               zi_str_get(&text), res[0].policy);
    }
    zi_str_free(&text);
    zi_table_free(t);
}

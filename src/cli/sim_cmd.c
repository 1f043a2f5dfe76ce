/* sim_cmd.c -- zico sim: how many of these jobs fit, at what speed?
 *
 * The policies themselves, on a virtual clock.  Without --policy all three of temporal,
 * spatial and zico, without --budget a row of budgets: a table and the curve of throughput
 * against budget.  With both, what becomes of each job.
 */
#include "cli/commands.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/try.h"
#include "cli/args.h"
#include "cli/mixfile.h"
#include "policy/policy.h"
#include "report/report.h"

#define POLICIES_MAX 16u
#define BUDGETS_MAX  32u
#define THREADS_MAX  64u
#define CHOICES      "temporal,spatial,zico"
#define SHARES       "100%,90%,80%,70%,65%,60%,55%,50%"

typedef struct sim_run {
    zi_sim_result     res;
    zi_sim_job_result job[ZI_SIM_JOBS_MAX];
    bool              fits;
} sim_run;

typedef struct study {
    zi_mix      mix;
    const char *policy[POLICIES_MAX];
    uint64_t    budget[BUDGETS_MAX];
    size_t      n_policies, n_budgets;
    sim_run    *run; /* [policy * n_budgets + budget] */
    double      took_s;
} study;

static const char about[] =
    "Answers how many jobs fit a budget and at what speed: the policies that the\n"
    "broker uses, on a virtual clock, over recorded or synthetic tides.\n\n"
    "A mix file:\n"
    "  cores: 2\n"
    "  seconds: 120           # of virtual time (60)\n"
    "  region: 16M            # unit of exchange\n"
    "  corun: [\"1\", \"0.93\"]   # speed with 1, 2, ... jobs computing at once\n"
    "  jobs:\n"
    "    - name: resnet\n"
    "      tide: zico-out/tides/0123456789abcdef.tide   # from zico run --record\n"
    "      fixed: 90M         # parameters, optimizer state\n"
    "    - name: spiky\n"
    "      shape: lean        # triangle, beefy, lean, ramp\n"
    "      peak: 600M         # over the fixed bytes\n"
    "      step: 0.25         # seconds alone with all cores\n"
    "      count: 2           # so many of these\n"
    "Further keys of a job: weight, scaling (0.7: with c of n cores a step runs at\n"
    "(c/n)^0.7), gap (seconds between steps), every (seconds from one batch of its\n"
    "data to the next, which a loader prepares meanwhile), noise (0.05: steps vary by 5 "
    "%),\n"
    "warm (3: the first step takes three times as long),\n"
    "burst (chance that a step takes a quarter more), arrive (seconds), steps,\n"
    "native (no: follows its cores only from step to step),\n"
    "shrink (0.05: can plan for down to half of its peak, where a step takes 5 % more).";

/* -- what to try ------------------------------------------------------------------------- */

static zico_status
add_budget(study *s, const char *word)
{
    uint64_t bytes;
    if (s->n_budgets == BUDGETS_MAX ||
        zi_size_parse(word, s->mix.sum_peaks_bytes, &bytes) < 0 || bytes == 0) {
        fprintf(stderr,
                "zico sim: --budget: '%s' is neither a size nor a share of the "
                "sum of peaks\n",
                word);
        return ZICO_E_ARG;
    }
    s->budget[s->n_budgets++] = bytes;
    return ZICO_OK;
}

static zico_status
add_policy(study *s, const char *word)
{
    const char *arg;
    if (!strcmp(word, "all")) {
        for (size_t i = 0; zi_policy_at(i); i++)
            ZI_TRY(add_policy(s, zi_policy_at(i)->name));
        return ZICO_OK;
    }
    if (s->n_policies == POLICIES_MAX || !zi_policy_find(word, &arg)) {
        fprintf(stderr, "zico sim: no policy is called '%s'; there are:", word);
        for (size_t i = 0; zi_policy_at(i); i++)
            fprintf(stderr, " %s", zi_policy_at(i)->name);
        fprintf(stderr, "\n");
        return ZICO_E_ARG;
    }
    s->policy[s->n_policies++] = word;
    return ZICO_OK;
}

/* Each word of a list with commas; cuts `list`. */
static zico_status
each_word(study *s, char *list, zico_status (*take)(study *, const char *))
{
    char *rest = NULL;
    for (char *w = strtok_r(list, ",", &rest); w; w = strtok_r(NULL, ",", &rest))
        ZI_TRY(take(s, w));
    return ZICO_OK;
}

/* -- running ------------------------------------------------------------------------------- */

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static zico_status
simulate_one(study *s, size_t k)
{
    sim_run       *r = &s->run[k];
    zi_sim_options opt = s->mix.opt;

    opt.policy = s->policy[k / s->n_budgets];
    opt.budget_bytes = s->budget[k % s->n_budgets] / opt.region_bytes * opt.region_bytes;
    ZI_TRY(zi_sim_run(&opt, s->mix.job, s->mix.n_jobs, &r->res, r->job));
    r->fits = true;
    for (size_t i = 0; i < s->mix.n_jobs; i++) r->fits &= !r->job[i].n_denied;
    return ZICO_OK;
}

/* Runs share nothing but the mix, which none of them changes: one thread a core. */
typedef struct crew {
    study        *s;
    atomic_size_t next;
    atomic_int    status;
} crew;

static void *
simulate_some(void *arg)
{
    crew  *c = arg;
    size_t n = c->s->n_policies * c->s->n_budgets;

    for (size_t k; (k = atomic_fetch_add(&c->next, 1)) < n;) {
        zico_status st = simulate_one(c->s, k);
        if (st < 0) atomic_store(&c->status, st);
    }
    return NULL;
}

static zico_status
simulate(study *s)
{
    size_t    n = s->n_policies * s->n_budgets, n_started = 0;
    long      cores = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t thread[THREADS_MAX];
    crew      c = {.s = s, .status = ZICO_OK};
    double    begin = seconds();

    s->run = zi_calloc(n, sizeof *s->run);
    if (!s->run) return ZICO_E_NOMEM;
    while (n_started + 1 < n && n_started < THREADS_MAX && (long)n_started + 1 < cores &&
           pthread_create(&thread[n_started], NULL, simulate_some, &c) == 0)
        n_started++;
    simulate_some(&c);
    while (n_started > 0) pthread_join(thread[--n_started], NULL);
    s->took_s = seconds() - begin;
    return atomic_load(&c.status);
}

static const sim_run *
yardstick(const study *s, size_t budget)
{
    for (size_t p = 0; p < s->n_policies; p++)
        if (!strcmp(s->policy[p], "temporal")) return &s->run[p * s->n_budgets + budget];
    return NULL;
}

/* The slowest job's progress relative to its progress under temporal. */
static double
slowest(const study *s, const sim_run *r, const sim_run *base)
{
    double least = INFINITY;
    for (size_t i = 0; base && i < s->mix.n_jobs; i++) {
        if (base->job[i].progress_ns <= 0) continue;
        double ratio = r->job[i].progress_ns / base->job[i].progress_ns;
        if (ratio < least) least = ratio;
    }
    return least;
}

static size_t
n_running(const study *s, const sim_run *r)
{
    size_t n = 0;
    for (size_t i = 0; i < s->mix.n_jobs; i++) n += r->job[i].n_steps > 0;
    return n;
}

/* -- showing ------------------------------------------------------------------------------- */

static void
fill_row(const study *s, zi_table *t, size_t p, size_t b)
{
    const sim_run *r = &s->run[p * s->n_budgets + b], *base = yardstick(s, b);

    zi_table_text(t, s->policy[p]);
    zi_table_u64(t, s->budget[b]);
    zi_table_f64(t, (double)s->budget[b] / (double)s->mix.sum_peaks_bytes);
    zi_table_u64(t, n_running(s, r));
    zi_table_f64(t, r->res.throughput);
    zi_table_f64(t, base && base->res.throughput > 0
                        ? r->res.throughput / base->res.throughput
                        : NAN);
    zi_table_f64(t, slowest(s, r, base));
    zi_table_u64(t, r->res.peak_bytes);
    zi_table_text(t, !r->fits ? "a job cannot fit" : r->res.deadlock ? "stuck" : NULL);
}

static zico_status
overview(const study *s, zi_table **ret_table)
{
    static const zi_column col[] = {{"policy", NULL, ZI_UNIT_TEXT, 0},
                                    {"budget", "budget_bytes", ZI_UNIT_BYTES, 0},
                                    {"of peaks", NULL, ZI_UNIT_PERCENT, 0},
                                    {"running", NULL, ZI_UNIT_NUMBER, 0},
                                    {"throughput", NULL, ZI_UNIT_NUMBER, 3},
                                    {"to temporal", NULL, ZI_UNIT_RATIO, 2},
                                    {"slowest job", NULL, ZI_UNIT_RATIO, 2},
                                    {"peak", "peak_bytes", ZI_UNIT_BYTES, 0},
                                    {"remark", NULL, ZI_UNIT_TEXT, 0}};
    ZI_TRY(zi_table_new(col, sizeof col / sizeof col[0], ret_table));
    for (size_t b = 0; b < s->n_budgets; b++) {
        for (size_t p = 0; p < s->n_policies; p++) fill_row(s, *ret_table, p, b);
        if (b + 1 < s->n_budgets && s->n_policies > 1) zi_table_rule(*ret_table);
    }
    return ZICO_OK;
}

static zico_status
job_by_job(const study *s, zi_table **ret_table)
{
    static const zi_column col[] = {{"job", NULL, ZI_UNIT_TEXT, 0},
                                    {"steps", NULL, ZI_UNIT_NUMBER, 0},
                                    {"rate", "steps_per_s", ZI_UNIT_RATE, 2},
                                    {"of solo speed", NULL, ZI_UNIT_PERCENT, 0},
                                    {"waited", "waited_ns", ZI_UNIT_NS, 0},
                                    {"longest", "longest_wait_ns", ZI_UNIT_NS, 0},
                                    {"stalled", "stalled_ns", ZI_UNIT_NS, 0},
                                    {"peak", "peak_bytes", ZI_UNIT_BYTES, 0},
                                    {"exchanged", "exchanged_bytes", ZI_UNIT_BYTES, 0}};
    const sim_run         *r = &s->run[0];

    ZI_TRY(zi_table_new(col, sizeof col / sizeof col[0], ret_table));
    for (size_t i = 0; i < s->mix.n_jobs; i++) {
        const zi_sim_job_result *j = &r->job[i];
        zi_table_text(*ret_table, s->mix.name[i]);
        zi_table_u64(*ret_table, j->n_steps);
        zi_table_f64(*ret_table, j->rate);
        zi_table_f64(*ret_table, j->rate * (double)s->mix.job[i].tide.length_ns / 1e9);
        zi_table_u64(*ret_table, j->waited_ns);
        zi_table_u64(*ret_table, j->longest_wait_ns);
        zi_table_u64(*ret_table, j->stalled_ns);
        zi_table_u64(*ret_table, j->peak_bytes);
        zi_table_u64(*ret_table, j->exchanged_bytes);
    }
    return ZICO_OK;
}

/* Axes around the data: the whole from 0 would be a flat line at the top. */
static void
show_where_it_happens(const study *s, zi_plot *plot)
{
    double lo = INFINITY, hi = 0, sum = (double)s->mix.sum_peaks_bytes;

    for (size_t i = 0; i < s->n_policies * s->n_budgets; i++) {
        double v = s->run[i].res.throughput;
        if (v < lo) lo = v;
        if (v > hi) hi = v;
    }
    plot->y.fixed = plot->x.fixed = true;
    plot->y.lo = floor(lo * 10 - 0.5) / 10;
    plot->y.hi = ceil(hi * 10 + 0.5) / 10;
    if (plot->y.lo < 0) plot->y.lo = 0;
    plot->x.lo = (double)s->budget[s->n_budgets - 1] / sum - 0.02;
    plot->x.hi = (double)s->budget[0] / sum + 0.02;
}

/* Throughput against budget, a curve per policy; at least two budgets. */
static zico_status
draw_curves(const study *s, const zi_style *style, zi_str *text, zi_str *svg)
{
    double     *xy = zi_calloc(s->n_policies * s->n_budgets * 2, sizeof *xy);
    zi_series  *series = zi_calloc(s->n_policies, sizeof *series);
    zi_plot     plot = {.kind = ZI_PLOT_FRONT,
                        .title = "Throughput against budget",
                        .note = "simulated; 1 is one job alone with all cores",
                        .x = {.label = "budget / sum of solo peaks", .unit = ZI_UNIT_PERCENT},
                        .y = {.label = "throughput", .unit = ZI_UNIT_NUMBER},
                        .series = series,
                        .n_series = s->n_policies};
    zico_status st = xy && series ? ZICO_OK : ZICO_E_NOMEM;

    for (size_t p = 0; p < s->n_policies && st >= 0; p++) {
        double *x = xy + p * s->n_budgets * 2, *y = x + s->n_budgets;
        for (size_t b = 0; b < s->n_budgets; b++) { /* budgets fall, x must rise */
            size_t from = s->n_budgets - 1 - b;
            x[b] = (double)s->budget[from] / (double)s->mix.sum_peaks_bytes;
            y[b] = s->run[p * s->n_budgets + from].res.throughput;
        }
        series[p] = (zi_series){.name = s->policy[p], .x = x, .y = y, .n = s->n_budgets};
    }
    show_where_it_happens(s, &plot);
    if (st >= 0 && text) st = zi_plot_text(&plot, style, text);
    if (st >= 0 && svg) st = zi_plot_svg(&plot, svg);
    zi_free(xy);
    zi_free(series);
    return st;
}

static zico_status
write_file(const char *path, const zi_str *text)
{
    FILE *f = fopen(path, "we");
    bool  good = f && fwrite(zi_str_get(text), 1, text->n, f) == text->n;
    if (f && fclose(f) != 0) good = false;
    if (!good) fprintf(stderr, "zico sim: cannot write %s\n", path);
    return good ? ZICO_OK : ZICO_E_IO;
}

static int
by_falling_bytes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

static void
print_head(const study *s)
{
    char     sum[ZI_SIZE_TEXT], least[ZI_SIZE_TEXT];
    uint64_t steps = 0;
    for (size_t i = 0; i < s->n_policies * s->n_budgets; i++)
        steps += s->run[i].res.n_steps;
    printf("%zu jobs, sum of peaks %s, the least that one at a time needs %s; "
           "%llu steps simulated in %.2f s\n\n",
           s->mix.n_jobs, zi_size_format(s->mix.sum_peaks_bytes, sum),
           zi_size_format(s->mix.fixed_bytes + s->mix.most_bytes, least),
           (unsigned long long)steps, s->took_s);
}

static zico_status
show(const study *s, bool json, const char *svg_path)
{
    bool        one = s->n_policies == 1 && s->n_budgets == 1;
    zi_table   *t = NULL;
    zi_str      out = {0}, svg = {0};
    zi_style    style = {.unicode = true, .colour = isatty(1) != 0};
    zico_status st = one ? job_by_job(s, &t) : overview(s, &t);

    if (st >= 0 && json) {
        zi_json j = zi_json_into(&out);
        st = zi_table_json(t, &j);
        if (st >= 0) zi_str_add(&out, "\n");
    } else if (st >= 0) {
        print_head(s);
        st = zi_table_print(t, &style, &out);
        if (st >= 0 && s->n_budgets > 1) {
            zi_str_add(&out, "\n");
            st = draw_curves(s, &style, &out, NULL);
        }
    }
    if (st >= 0) fputs(zi_str_get(&out), stdout);
    if (st >= 0 && svg_path) {
        st = draw_curves(s, &style, NULL, &svg);
        if (st >= 0) st = write_file(svg_path, &svg);
    }
    zi_table_free(t);
    zi_str_free(&out);
    zi_str_free(&svg);
    return st;
}

/* -- the command ------------------------------------------------------------------------------ */

static zico_status
prepare(study *s, const char *path, char *policies, char *budgets)
{
    zi_str      why = {0};
    zico_status st = zi_mix_read(path, &s->mix, &why);

    if (st < 0) fprintf(stderr, "zico sim: %s\n", zi_str_get(&why));
    zi_str_free(&why);
    ZI_TRY(st);
    ZI_TRY(each_word(s, policies, add_policy));
    ZI_TRY(each_word(s, budgets, add_budget));
    qsort(s->budget, s->n_budgets, sizeof *s->budget, by_falling_bytes);
    return s->n_policies && s->n_budgets ? ZICO_OK : ZICO_E_ARG;
}

int
zi_cmd_sim(int argc, char **argv)
{
    const char  *policy = CHOICES, *budget = SHARES, *svg = NULL, *mix;
    bool         json = false;
    study        s = {0};
    const zi_arg arg[] = {
        {"policy", ZI_ARG_TEXT, &policy, "LIST",
         "with commas between, or all (" CHOICES
         "); salus:fifo, :pack, :srtf, :fair and gandiva[:slice=S] are known, too"},
        {"budget", ZI_ARG_TEXT, &budget, "LIST",
         "sizes, or shares of the sum of peaks (100% down to 50%)"},
        {"svg", ZI_ARG_TEXT, &svg, "FILE", "write the curves as a picture"},
        {"json", ZI_ARG_FLAG, &json, NULL, "the table as JSON"},
    };
    const zi_args args = {.usage = "sim MIX.yaml [OPTION...]",
                          .about = about,
                          .arg = arg,
                          .n_args = sizeof arg / sizeof arg[0],
                          .rest_least = 1,
                          .rest_most = 1};

    zico_status st = zi_args_parse(&args, argc, argv, &mix, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    char *policies = zi_strdup(policy), *budgets = zi_strdup(budget);
    st = policies && budgets ? prepare(&s, mix, policies, budgets) : ZICO_E_NOMEM;
    bool called_wrongly = st < 0;
    if (st >= 0) st = simulate(&s);
    if (st >= 0) st = show(&s, json, svg);
    zi_free(s.run);
    zi_mix_free(&s.mix);
    zi_free(policies);
    zi_free(budgets);
    return st >= 0 ? 0 : called_wrongly ? ZI_EXIT_USAGE : ZI_EXIT_FAILED;
}

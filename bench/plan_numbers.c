/* plan_numbers.c -- what planners cost and save, executed: docs/benchmarks.md, "Plans".
 *
 *     plan_numbers [--to FILE] [--shares 70,50,30] [--planners a,b,...] [--steps N] [NET...]
 *     plan_numbers --costs DIR [NET...]      measure keep only, and remember what nodes take
 *     plan_numbers --foresee DIR [NET...]    nothing is run: times as remembered
 *
 * Rows are appended to FILE, so that networks can be measured one at a time; bench/plan_report
 * makes tables of it.  All plans of a network run in turns with each other and with keep
 * (cli/plan_study.h), which they are compared with and foretold by.  Swaps go to a spill file under $TMPDIR or /var/tmp. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan_bench.h"
#include "cli/plan_study.h"

#define PLANNERS_MAX 12
#define SHARES_MAX   12

typedef struct wishes {
    const char *to, *costs, *foresee;
    const char *planner[PLANNERS_MAX];
    unsigned    n_planners, share[SHARES_MAX], n_shares, n_steps;
    char       *names[N_BENCH_NETS];
    int         n_names;
    bool        all_cheap; /* also cheap without a budget */
    unsigned    run;       /* another one each time: turns of two runs are not the same */
} wishes;

static void
must(zico_status st, const zi_train_diag *diag)
{
    if (st >= 0) return;
    fprintf(stderr, "plan_numbers: %s\n",
            *diag->text ? diag->text : zico_status_text(st));
    exit(1);
}

/* -- what nodes take, from one run to the next ------------------------------------------------ */

static FILE *
cost_file(const char *dir, const char *net, const char *mode)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s.cost", dir, net);
    FILE *f = fopen(path, mode);
    if (f) return f;
    fprintf(stderr, "plan_numbers: cannot open %s\n", path);
    exit(1);
}

static void
write_costs(const char *dir, const char *net, const zi_study *s)
{
    FILE *f = cost_file(dir, net, "w");
    fprintf(f, "%u %.0f %.0f\n", s->cost->n_nodes, s->cost->out_bytes_per_s,
            s->cost->in_bytes_per_s);
    for (uint32_t i = 0; i < s->cost->n_nodes; i++)
        fprintf(f, "%llu\n", (unsigned long long)s->cost->node_ns[i]);
    fclose(f);
}

static void
read_costs(const char *dir, const char *net, zi_study *s)
{
    FILE              *f = cost_file(dir, net, "r");
    unsigned           n = 0;
    unsigned long long ns;
    bool               ok = fscanf(f, "%u %lf %lf", &n, &s->cost->out_bytes_per_s,
                                   &s->cost->in_bytes_per_s) == 3 &&
              n == s->cost->n_nodes;
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = fscanf(f, "%llu", &ns) == 1;
        s->cost->node_ns[i] = ns;
    }
    fclose(f);
    if (ok) return;
    fprintf(stderr, "plan_numbers: %s was measured on another graph\n", net);
    exit(1);
}

/* -- one row ------------------------------------------------------------------------------------ */

static void
write_row(const wishes *w, const char *net, unsigned share, const zi_study *s,
          const zi_study_row *r)
{
    FILE    *f = w->to ? fopen(w->to, "a") : NULL;
    uint64_t ns = r->measured ? r->step_ns : r->forecast.step_ns;

    printf("%-12s %3u%% %-13s ", net, share, r->planner);
    if (r->fits)
        printf(
            "%7.1f MiB (kernel %7.1f)  foreseen %7.1f ms  %s %7.1f ms (%.3f)  keep %7.1f "
            "ms  %.3fx  stalls %5.1f (%5.1f) ms  again %4u  out %6.1f MiB at %.2f, in "
            "%.2f "
            "GB/s  planned in %.0f ms%s\n",
            (double)r->peak_bytes / 1048576, (double)r->kernel_bytes / 1048576,
            (double)r->forecast.step_ns / 1e6, r->measured ? "measured" : "       -",
            (double)r->step_ns / 1e6,
            r->forecast.step_ns ? (double)r->step_ns / (double)r->forecast.step_ns : 1.0,
            (double)r->keep_ns / 1e6, (double)ns / (double)r->keep_ns,
            (double)r->stall_ns / 1e6, (double)r->forecast.stall_ns / 1e6,
            r->verdict.n_redo, (double)r->verdict.out_bytes / 1048576,
            r->out_bytes_per_s / 1e9, r->in_bytes_per_s / 1e9, (double)r->plan_ns / 1e6,
            r->same ? " (the same plan as before)" : "");
    else
        printf("needs %.1f MiB of %.1f\n", (double)r->least_bytes / 1048576,
               (double)r->budget_bytes / 1048576);
    fflush(stdout);
    if (!w->to) return;
    if (!f) {
        fprintf(stderr, "plan_numbers: cannot write %s\n", w->to);
        exit(1);
    }
    fprintf(f, "plan %s %u %s %d %llu %llu %llu %llu %llu %u %llu %llu %llu %llu %u\n",
            net, share, r->planner, r->fits,
            (unsigned long long)(r->fits ? r->peak_bytes : r->least_bytes),
            (unsigned long long)r->kernel_bytes, (unsigned long long)r->forecast.step_ns,
            (unsigned long long)r->step_ns, (unsigned long long)r->stall_ns,
            r->verdict.n_redo, (unsigned long long)r->verdict.out_bytes,
            (unsigned long long)r->plan_ns, (unsigned long long)s->keep_bytes,
            (unsigned long long)r->keep_ns, r->turn ? w->run + r->turn : 0);
    fclose(f);
}

/* -- one network -------------------------------------------------------------------------------- */

#define ROWS_MAX (PLANNERS_MAX * SHARES_MAX + 1)

typedef struct asked {
    zi_study_row row[ROWS_MAX];
    zi_plan     *plan[ROWS_MAX];
    unsigned     share[ROWS_MAX];
    size_t       n;
} asked;

static void
ask(zi_study *s, const char *planner, unsigned share, asked *a)
{
    zi_train_diag diag = {0};
    uint64_t      budget = share == 100 ? 0 : s->keep_bytes * share / 100;
    must(zi_study_plan(s, zi_planner_find(planner), budget, &diag, &a->row[a->n],
                       &a->plan[a->n]),
         &diag);
    a->share[a->n++] = share;
}

/* keep was executed beside the others: nothing was foretold. */
static void
tell_keep(const wishes *w, const char *net, const zi_study *s)
{
    zi_study_row row = {.planner = "keep",
                        .fits = true,
                        .measured = s->opt.n_steps > 0,
                        .peak_bytes = s->keep_bytes,
                        .step_ns = s->keep_ns,
                        .keep_ns = s->keep_ns};
    write_row(w, net, 100, s, &row);
}

/* Plan everything with the same costs, then execute all. */
static void
ask_everybody(const wishes *w, const char *net, zi_study *s)
{
    static asked  a;
    zi_train_diag diag = {0};

    a.n = 0;
    if (w->all_cheap) ask(s, "cheap", 100, &a);
    for (unsigned b = 0; b < w->n_shares; b++)
        for (unsigned i = 0; i < w->n_planners; i++)
            ask(s, w->planner[i], w->share[b], &a);
    if (s->opt.n_steps) must(zi_study_measure(s, a.row, a.plan, a.n, NULL, &diag), &diag);
    tell_keep(w, net, s);
    for (size_t i = 0; i < a.n; i++) {
        write_row(w, net, a.share[i], s, &a.row[i]);
        zi_plan_free(a.plan[i]);
    }
}

static void
study_net(const wishes *w, const bench_net *net, const char *tier)
{
    zi_study_options opt = {.net = net->spec,
                            .batch = net->batch,
                            .tier = tier,
                            .n_steps = w->foresee ? 0 : w->n_steps};
    zi_train_diag    diag = {0};
    zi_study         s;

    must(zi_study_open(&opt, &diag, &s), &diag);
    if (w->foresee) {
        zi_study_row row;
        read_costs(w->foresee, net->name, &s);
        must(zi_study_ask(&s, zi_planner_find("keep"), 0, &diag, &row, NULL), &diag);
        s.keep_ns = row.forecast.step_ns;
    }
    printf("%-12s %s batch %lld, %u nodes: keep %.1f MiB, %.1f ms; out %.2f GB/s "
           "(%.2f beside in), in %.2f GB/s (%.2f beside out), %.0f us of a core each\n",
           net->name, net->spec, (long long)net->batch, s.graph->n_nodes,
           (double)s.keep_bytes / 1048576, (double)s.keep_ns / 1e6,
           s.cost->out_bytes_per_s / 1e9, s.cost->out_beside,
           s.cost->in_bytes_per_s / 1e9, s.cost->in_beside,
           (double)s.cost->copy_cpu_ns / 1e3);
    fflush(stdout);
    if (w->costs)
        write_costs(w->costs, net->name, &s);
    else
        ask_everybody(w, net->name, &s);
    zi_study_close(&s);
}

static void
parse_shares(wishes *w, char *text)
{
    for (char *p = strtok(text, ","); p && w->n_shares < SHARES_MAX;
         p = strtok(NULL, ","))
        w->share[w->n_shares++] = (unsigned)atoi(p);
}

static void
parse_planners(wishes *w, char *text)
{
    for (char *p = strtok(text, ","); p && w->n_planners < PLANNERS_MAX;
         p = strtok(NULL, ",")) {
        if (!zi_planner_find(p)) {
            fprintf(stderr, "plan_numbers: there is no planner '%s'\n", p);
            exit(2);
        }
        w->planner[w->n_planners++] = p;
    }
}

static wishes
parse(int argc, char **argv)
{
    static char shares[] = "70,50,30", planners[] = "vdnn,superneurons,monger,capuchin";
    wishes      w = {.n_steps = 5, .run = (unsigned)time(NULL)};

    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--to") && more)
            w.to = argv[++i];
        else if (!strcmp(argv[i], "--costs") && more)
            w.costs = argv[++i];
        else if (!strcmp(argv[i], "--foresee") && more)
            w.foresee = argv[++i];
        else if (!strcmp(argv[i], "--steps") && more)
            w.n_steps = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--shares") && more)
            parse_shares(&w, argv[++i]);
        else if (!strcmp(argv[i], "--planners") && more)
            parse_planners(&w, argv[++i]);
        else if (!strcmp(argv[i], "--cheap"))
            w.all_cheap = true;
        else if (argv[i][0] != '-' && w.n_names < (int)N_BENCH_NETS)
            w.names[w.n_names++] = argv[i];
        else {
            fprintf(stderr, "plan_numbers: what is '%s'?\n", argv[i]);
            exit(2);
        }
    }
    if (!w.n_shares) parse_shares(&w, shares);
    if (!w.n_planners) parse_planners(&w, planners);
    return w;
}

int
main(int argc, char **argv)
{
    wishes      w = parse(argc, argv);
    const char *tmp = getenv("TMPDIR");
    char        tier[4200];

    snprintf(tier, sizeof tier, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    for (size_t i = 0; i < N_BENCH_NETS; i++)
        if (bench_wanted(bench_nets[i].name, w.names, w.n_names))
            study_net(&w, &bench_nets[i], tier);
    return 0;
}

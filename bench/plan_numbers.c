/* plan_numbers.c -- what planners cost and save, executed: the figures of docs/benchmarks.md, "Plans".
 *
 *     plan_numbers [NAME...]      only these networks
 *
 * Every plan is measured between two measurements of keep, so that whatever else the machine does
 * hits both; ratios are of the fastest steps, times medians.  Swaps go to a spill file under $TMPDIR or /var/tmp. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_study.h"

#define N_STEPS 5

static const struct {
    const char *name, *spec;
    int64_t     batch;
} nets[] = {
    {"resnet50", "resnet50:size=96", 32},
    {"vgg16", "vgg16:size=64", 64},
    {"densenet121", "densenet121:size=96", 16},
    {"unet", "unet:size=96,width=32", 8},
    {"lstm_lm", "lstm_lm:vocab=1000", 32},
    {"gpt", "gpt:vocab=2000,seq=128,width=256,layers=6,heads=4", 16},
};

static const char *const planners[] = {"cheap", "vdnn", "superneurons", "monger",
                                       "capuchin"};
#define N_PLANNERS (sizeof planners / sizeof planners[0])

typedef struct mean {
    double   log_sum;
    unsigned n;
} mean;

typedef struct figures {
    mean     best[3], error, cheap_time, cheap_peak;
    double   worst_order; /* capuchin's time over the best of the others' */
    unsigned n_measured;
} figures;

static void
enter(mean *m, double x)
{
    m->log_sum += log(x);
    m->n++;
}

static double
value(const mean *m)
{
    return m->n ? exp(m->log_sum / m->n) : NAN;
}

static void
must(zico_status st, const zi_train_diag *diag)
{
    if (st >= 0) return;
    fprintf(stderr, "plan_numbers: %s\n",
            *diag->text ? diag->text : zico_status_text(st));
    exit(1);
}

static uint64_t
keep_now(zi_study *s)
{
    zi_study_row  row;
    zi_train_diag diag = {0};
    must(zi_study_ask(s, zi_planner_find("keep"), 0, &diag, &row, NULL), &diag);
    return row.fastest_ns;
}

/* Time of the plan over that of keep before and after; NAN: it does not fit. */
static double
measure(zi_study *s, const char *planner, uint64_t budget, zi_study_row *row,
        uint64_t *keep_ns)
{
    zi_train_diag diag = {0};
    must(zi_study_ask(s, zi_planner_find(planner), budget, &diag, row, NULL), &diag);
    if (!row->fits) return NAN;
    uint64_t after = keep_now(s);
    double   ratio =
        (double)row->fastest_ns / (double)(*keep_ns < after ? *keep_ns : after);
    *keep_ns = after;
    return ratio;
}

static void
print_row(const char *net, const char *share, const zi_study_row *r, const zi_study *s,
          double ratio)
{
    if (!r->fits) {
        printf("%-12s %5s %-13s   needs %7.1f MiB\n", net, share, r->planner,
               (double)r->least_bytes / 1048576);
        return;
    }
    printf("%-12s %5s %-13s %7.1f MiB (%3.0f %%)  foreseen %8.1f ms  measured %8.1f ms  "
           "%.2fx  stalls %6.1f ms  again %4u  out %7.1f MiB  planned in %.0f ms\n",
           net, share, r->planner, (double)r->peak_bytes / 1048576,
           100.0 * (double)r->peak_bytes / (double)s->keep_bytes,
           (double)r->forecast.step_ns / 1e6, (double)r->step_ns / 1e6, ratio,
           (double)r->stall_ns / 1e6, r->verdict.n_redo,
           (double)r->verdict.out_bytes / 1048576, (double)r->plan_ns / 1e6);
    fflush(stdout);
}

static void
study_net(const char *name, const char *spec, int64_t batch, const char *tier, figures *f)
{
    static const unsigned share[] = {70, 50, 30};
    zi_study_options      opt = {.net = spec,
                                 .batch = batch,
                                 .tier = tier,
                                 .n_steps = N_STEPS};
    zi_train_diag         diag = {0};
    zi_study              s;
    zi_study_row          row;

    must(zi_study_open(&opt, &diag, &s), &diag);
    printf("%-12s %s batch %lld: keep %.1f MiB, %.1f ms; out %.2f GB/s, in %.2f GB/s\n",
           name, spec, (long long)batch, (double)s.keep_bytes / 1048576,
           (double)s.keep_ns / 1e6, s.cost->out_bytes_per_s / 1e9,
           s.cost->in_bytes_per_s / 1e9);
    uint64_t keep_ns = keep_now(&s);
    double   ratio = measure(&s, "cheap", 0, &row, &keep_ns);
    print_row(name, "all", &row, &s, ratio);
    enter(&f->cheap_time, ratio);
    enter(&f->cheap_peak, (double)row.peak_bytes / (double)s.keep_bytes);
    for (size_t b = 0; b < 3; b++) {
        double best = INFINITY, others = INFINITY, capuchin = NAN;
        char   text[16];
        snprintf(text, sizeof text, "%u %%", share[b]);
        for (size_t i = 0; i < N_PLANNERS; i++) {
            ratio =
                measure(&s, planners[i], s.keep_bytes * share[b] / 100, &row, &keep_ns);
            print_row(name, text, &row, &s, ratio);
            if (!row.fits) continue;
            if (ratio < best) best = ratio;
            if (!strcmp(planners[i], "capuchin"))
                capuchin = ratio;
            else if (ratio < others)
                others = ratio;
            enter(&f->error, (double)row.step_ns / (double)row.forecast.step_ns);
        }
        if (isfinite(best)) enter(&f->best[b], best);
        if (isfinite(others) && capuchin / others > f->worst_order)
            f->worst_order = capuchin / others;
    }
    zi_study_close(&s);
}

int
main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    char        tier[4200];
    figures     f = {0};

    snprintf(tier, sizeof tier, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], nets[i].name);
        if (wanted) study_net(nets[i].name, nets[i].spec, nets[i].batch, tier, &f);
    }
    printf("\ngeometric means over the networks, times of keep's:\n");
    printf("  cheap recomputation alone   peak %.2fx   time %.2fx   (%u networks)\n",
           value(&f.cheap_peak), value(&f.cheap_time), f.cheap_time.n);
    printf("  best planner at 70 %%        time %.2fx   (%u networks)\n",
           value(&f.best[0]), f.best[0].n);
    printf("  best planner at 50 %%        time %.2fx   (%u networks)\n",
           value(&f.best[1]), f.best[1].n);
    printf("  best planner at 30 %%        time %.2fx   (%u networks)\n",
           value(&f.best[2]), f.best[2].n);
    printf("  capuchin over the best other planner, worst case: %.2fx\n", f.worst_order);
    printf("  measured over foreseen step time: %.2fx (%u plans)\n", value(&f.error),
           f.error.n);
    return 0;
}

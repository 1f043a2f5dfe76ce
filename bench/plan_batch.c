/* plan_batch.c -- the largest batch that each planner runs in the memory of a small one.
 *
 *     plan_batch [--measure] [NET...]
 *     plan_batch --run PLANNER BATCH NET
 *
 * The budget is what keep needs for the batch in the table; sizes are exact, so nothing need be
 * executed, but --measure runs the best planner at its largest batch, for the samples per second.
 * Looking for the batch takes longer than that: --run measures one that is known. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_study.h"
#include "plan_bench.h"

#define MEASURED 2

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

static void
must(zico_status st, const zi_train_diag *diag)
{
    if (st >= 0) return;
    fprintf(stderr, "plan_batch: %s\n", *diag->text ? diag->text : zico_status_text(st));
    exit(1);
}

/* Samples per second with the planner, and what the kernel saw. */
static double
throughput(zi_study_options opt, int64_t batch, const char *planner, uint64_t budget,
           uint64_t *ret_kernel_bytes)
{
    zi_train_diag diag = {0};
    zi_study      s;
    zi_study_row  row;

    opt.batch = batch;
    must(zi_study_open(&opt, &diag, &s), &diag);
    s.opt.n_steps = MEASURED;
    must(zi_study_ask(&s, zi_planner_find(planner), budget, &diag, &row, NULL), &diag);
    zi_study_close(&s);
    if (!row.fits) return NAN;
    *ret_kernel_bytes = row.kernel_bytes;
    return (double)batch * 1e9 / (double)row.step_ns;
}

/* The planner at its largest batch, and keep at its own, in the same memory. */
static void
run_both(size_t i, const char *tier, const char *planner, int64_t batch)
{
    zi_study_options opt = {.net = nets[i].spec, .batch = nets[i].batch, .tier = tier};
    zi_train_diag    diag = {0};
    zi_study         s;
    uint64_t         kernel = 0, keep_kernel = 0;

    must(zi_study_open(&opt, &diag, &s), &diag);
    const uint64_t budget = s.keep_bytes;
    zi_study_close(&s);
    double keep = throughput(opt, nets[i].batch, "keep", budget, &keep_kernel);
    double most = throughput(opt, batch, planner, budget, &kernel);
    printf(
        "%-12s %s at %lld: %.1f samples/s, keep at %lld: %.1f (%.2fx); kernel %.1f and "
        "%.1f MiB of %.1f\n",
        nets[i].name, planner, (long long)batch, most, (long long)nets[i].batch, keep,
        most / keep, (double)kernel / 1048576, (double)keep_kernel / 1048576,
        (double)budget / 1048576);
    fflush(stdout);
}

static double
study_net(size_t i, const char *tier, bool measure)
{
    static const char *const planners[] = {"vdnn", "superneurons", "monger", "capuchin"};
    zi_study_options opt = {.net = nets[i].spec, .batch = nets[i].batch, .tier = tier};
    zi_train_diag    diag = {0};
    zi_study         s;
    int64_t          best = 0;
    const char      *best_planner = "keep";

    must(zi_study_open(&opt, &diag, &s), &diag);
    uint64_t budget = s.keep_bytes;
    zi_study_close(&s);
    printf("%-12s %7.1f MiB: keep %lld", nets[i].name, (double)budget / 1048576,
           (long long)nets[i].batch);
    for (size_t k = 0; k < sizeof planners / sizeof planners[0]; k++) {
        int64_t batch = 0;
        must(zi_study_max_batch(&opt, zi_planner_find(planners[k]), budget, &diag,
                                &batch),
             &diag);
        printf("  %s %lld", planners[k], (long long)batch);
        fflush(stdout);
        if (batch <= best) continue;
        best = batch;
        best_planner = planners[k];
    }
    double times = (double)best / (double)nets[i].batch;
    printf("  best %.2fx\n", times);
    fflush(stdout);
    if (measure) run_both(i, tier, best_planner, best);
    return times;
}

int
main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    char        tier[4200];
    bool        measure = argc > 1 && !strcmp(argv[1], "--measure");
    double      log_best = 0;
    unsigned    n = 0;

    snprintf(tier, sizeof tier, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    if (argc == 5 && !strcmp(argv[1], "--run") && zi_planner_find(argv[2])) {
        for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
            if (!strcmp(nets[i].name, argv[4]))
                run_both(i, tier, argv[2], atoll(argv[3]));
        return 0;
    }
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        if (!bench_wanted(nets[i].name, argv + 1 + measure, argc - 1 - measure)) continue;
        log_best += log(study_net(i, tier, measure));
        n++;
    }
    if (n)
        printf("geometric mean of the best over keep: %.2fx (%u networks)\n",
               exp(log_best / n), n);
    return 0;
}

/* plan_batch.c -- the largest batch that each planner runs in the memory of a small one.
 *
 * The budget is what keep needs for the batch in the table; sizes are exact, so nothing need be
 * executed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_study.h"

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

int
main(int argc, char **argv)
{
    static const char *const planners[] = {"vdnn", "superneurons", "monger", "capuchin"};
    double                   log_best = 0;
    unsigned                 n = 0;
    const char              *tmp = getenv("TMPDIR");
    char                     tier[4200];

    snprintf(tier, sizeof tier, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], nets[i].name);
        if (!wanted) continue;
        zi_study_options opt = {.net = nets[i].spec,
                                .batch = nets[i].batch,
                                .tier = tier};
        zi_train_diag    diag = {0};
        zi_study         s;
        must(zi_study_open(&opt, &diag, &s), &diag);
        uint64_t budget = s.keep_bytes;
        zi_study_close(&s);
        printf("%-12s %7.1f MiB: keep %lld", nets[i].name, (double)budget / 1048576,
               (long long)nets[i].batch);
        int64_t best = 0;
        for (size_t k = 0; k < sizeof planners / sizeof planners[0]; k++) {
            int64_t batch = 0;
            must(zi_study_max_batch(&opt, zi_planner_find(planners[k]), budget, &diag,
                                    &batch),
                 &diag);
            printf("  %s %lld", planners[k], (long long)batch);
            fflush(stdout);
            if (batch > best) best = batch;
        }
        printf("  best %.2fx\n", (double)best / (double)nets[i].batch);
        log_best += log((double)best / (double)nets[i].batch);
        n++;
    }
    if (n)
        printf("geometric mean of the best over keep: %.2fx (%u networks)\n",
               exp(log_best / n), n);
    return 0;
}

/* plan_bench.h -- the networks of the figures in docs/benchmarks.md, "Plans".
 *
 * Batches so large that feature maps outweigh parameters, as in every job that lacks memory; the
 * classifier of vgg16 and the vocabularies are small for the same reason. */
#ifndef ZI_PLAN_BENCH_H
#define ZI_PLAN_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct bench_net {
    const char *name, *spec;
    int64_t     batch;
} bench_net;

static const bench_net bench_nets[] = {
    {"resnet50", "resnet50:size=96", 96},
    {"vgg16", "vgg16:size=64,width=128,classes=100", 128},
    {"densenet121", "densenet121:size=96", 32},
    {"unet", "unet:size=96,width=32", 48},
    {"lstm_lm", "lstm_lm:vocab=256,width=256,hidden=256,layers=6,seq=35", 128},
    {"gpt", "gpt:vocab=1000,seq=128,width=256,layers=6,heads=4", 32},
};
#define N_BENCH_NETS (sizeof bench_nets / sizeof bench_nets[0])

/* Was it named on the command line?  No names: all are. */
static inline bool
bench_wanted(const char *net, char *const *names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (!strcmp(names[i], net)) return true;
    return n_names == 0;
}

#endif /* ZI_PLAN_BENCH_H */

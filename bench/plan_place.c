/* plan_place.c -- how tightly plans lie in regions, on the networks of the zoo.
 *
 * For each network and plan: peak of open slots over peak of live bytes, and mean over mean, with
 * regions of 2 and 4 MiB, and as one private mapping; and how long planning, placing and
 * checking take; and how often SuperNeurons runs nodes again in each of its modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/exec.h"
#include "graph/zoo/zoo.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "planner/superneurons.h"

static const struct {
    const char *spec;
    int64_t     batch;
} nets[] = {
    {"resnet50", 8},      {"vgg16", 4},   {"densenet121", 4}, {"unet", 2},
    {"mobilenet_v2", 16}, {"lstm_lm", 8}, {"gpt", 2},         {"resnet20", 64},
};

static double
now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static zi_graph *
build(const char *spec, int64_t batch)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    zi_optim      opt = zi_optim_default(ZI_OPTIM_MOMENTUM);
    zico_status   st = zi_zoo_build(spec, batch, true, 1, &d, &g);
    if (st >= 0) st = zi_graph_fuse(g, &d);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &d);
    if (st >= 0) st = zi_graph_add_update(g, &opt, &d);
    if (st >= 0) return g;
    fprintf(stderr, "%s: %s\n", spec, d.text);
    exit(1);
}

static void
show(const char *net, const char *plan_name, zi_plan *p, const zi_graph *g,
     const zi_cost *c)
{
    static const uint64_t region[] = {2u << 20, 4u << 20, 0};
    printf("%-14s %-12s %6u acts", net, plan_name, p->n_acts);
    for (size_t i = 0; i < sizeof region / sizeof region[0]; i++) {
        zi_place_stats s;
        zi_verdict     v;
        double         t0 = now_s();
        if (zi_plan_place(p, g, c, region[i], 4096, &s) < 0) exit(1);
        double t1 = now_s();
        if (zi_plan_check(p, g, c, 0, &v) < 0) {
            printf("  WRONG: %s\n", v.text);
            exit(1);
        }
        printf("  | %6.1f MiB %.3f %.3f (%.0f+%.0f ms)",
               (double)s.peak_live_bytes / 1048576,
               (double)s.peak_slot_bytes / (double)s.peak_live_bytes, s.mean_ratio,
               1e3 * (t1 - t0), 1e3 * (now_s() - t1));
    }
    printf("\n");
}

int
main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        zi_graph       *g = build(nets[i].spec, nets[i].batch);
        zi_exec_options opt = {.graph = g, .n_threads = 2};
        zi_cost        *c;
        zi_plan        *keep, *half;
        zi_verdict      v;
        if (argc > 1 && !strstr(nets[i].spec, argv[1])) continue;
        if (zi_exec_cost(&opt, NULL, &c) < 0 || zi_plan_keep(g, c, &keep) < 0 ||
            zi_plan_check(keep, g, c, 0, &v) < 0)
            return 1;
        show(nets[i].spec, "keep", keep, g, c);
        uint32_t again[ZI_SN_COUNT];
        if (zi_superneurons_counts(g, c, again) < 0) return 1;
        printf(
            "    superneurons runs again: speed-centric %u, memory-centric %d (-1: too "
            "often), cost-aware %u\n",
            again[ZI_SN_SPEED], (int)again[ZI_SN_MEMORY], again[ZI_SN_AWARE]);
        zi_plan_task task = {.graph = g,
                             .cost = c,
                             .budget_bytes = v.peak_bytes * 6 / 10};
        double       t0 = now_s();
        zico_status  st = zi_planner_find("auto")->solve(&task, &half, NULL);
        double       t1 = now_s();
        if (st >= 0) {
            show(nets[i].spec, half->planner, half, g, c);
            printf("    planned in %.2f s: %u nodes\n", t1 - t0, g->n_nodes);
            zi_plan_free(half);
        } else {
            printf("    nothing at 60 %% (%.2f s)\n", t1 - t0);
        }
        zi_plan_free(keep);
        zi_cost_free(c);
        zi_graph_free(g);
    }
    return 0;
}

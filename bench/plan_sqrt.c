/* plan_sqrt.c -- an unrolled LSTM of up to 1000 steps: memory by planner, and how long planning takes.
 *
 *     plan_sqrt [FILE.svg]      also draw it */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/builder.h"
#include "planner/monger.h"
#include "report/report.h"

#define N_SIZES 5
#define N_WAYS  3

static double
now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Words in, a class out: nothing but the states is there at every step. */
static zi_graph *
unrolled(int steps, int64_t batch, int64_t hidden)
{
    zi_gb         *b = zi_gb_new("lstm", true, 1);
    zi_lstm_params w = zi_gb_lstm_params(b, "lstm", 0, hidden, hidden);
    int64_t        dims[2] = {batch, hidden};
    zi_tensor_id   h = zi_gb_input(b, "h0", ZI_DTYPE_F32, 2, dims);
    zi_tensor_id   c = zi_gb_input(b, "c0", ZI_DTYPE_F32, 2, dims);
    zi_tensor_id   words =
        zi_gb_input(b, "words", ZI_DTYPE_I32, 2, (int64_t[]){steps, batch});
    zi_tensor_id table =
        zi_gb_param(b, "table", 2, (int64_t[]){1000, hidden}, zi_init_normal(1));
    for (int i = 0; i < steps; i++) {
        zi_gb_enter(b, "t%d", i);
        zi_tensor_id at = zi_gb_slice(b, words, 0, i, i + 1);
        at = zi_gb_reshape(b, at, 1, (int64_t[]){batch});
        zi_tensor_id x =
            zi_gb_op(b, ZI_OP_EMBEDDING, NULL, 2, (zi_tensor_id[]){at, table});
        zi_gb_lstm_step(b, &w, x, &h, &c);
        zi_gb_leave(b);
    }
    h = zi_gb_linear(b, h, "fc", 10, true);
    zi_gb_cross_entropy(b, h, zi_gb_label(b, "labels", 1, (int64_t[]){batch}));
    zi_graph     *g;
    zi_graph_diag d = {0};
    zi_optim      opt = zi_optim_default(ZI_OPTIM_MOMENTUM);
    zico_status   st = zi_gb_finish(b, &d, &g);
    if (st >= 0) st = zi_graph_fuse(g, &d);
    if (st >= 0) st = zi_graph_differentiate(g, g->loss, &d);
    if (st >= 0) st = zi_graph_add_update(g, &opt, &d);
    if (st >= 0) return g;
    fprintf(stderr, "plan_sqrt: %s\n", d.text);
    exit(1);
}

/* The smallest peak: keep's; of segments whose borders stay; and with the recursion. */
static uint64_t
least_of(int way, const zi_graph *g, const zi_cost *c)
{
    zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = 1};
    zi_plan     *p;
    uint64_t     least = 0, kept, whole;
    if (way != 1) {
        const zi_planner_ops *ops = zi_planner_find(way == 0 ? "keep" : "monger");
        if (ops->solve(&task, &p, &least) != ZICO_E_NOPLAN) exit(1);
        return least;
    }
    zi_node_id *eligible = calloc(g->n_nodes, sizeof *eligible);
    zi_node_id *cut = calloc(g->n_nodes, sizeof *cut);
    zi_draft   *d;
    size_t      n;
    zi_trial    best = {0}, now;
    if (!eligible || !cut || zi_draft_new(g, c, &d) < 0) exit(1);
    if (zi_monger_eligible(d, 2, eligible, &n) < 0) exit(1);
    (void)zi_monger_greedy(d, eligible, n, UINT64_MAX, cut, &kept, &whole);
    for (double parts = 2; parts < 200; parts *= 1.3) {
        uint64_t threshold = (uint64_t)((double)whole / parts);
        zi_monger_cut(d, cut,
                      zi_monger_greedy(d, eligible, n, threshold, cut, &kept, &kept));
        if (zi_draft_try(d, "monger", 1, &now) < 0) exit(1);
        zi_trial_keep_better(&best, &now);
    }
    least = best.forecast.peak_bytes;
    zi_plan_free(best.plan);
    zi_draft_free(d);
    free(eligible);
    free(cut);
    return least;
}

int
main(int argc, char **argv)
{
    static const int   size[N_SIZES] = {63, 125, 250, 500, 1000};
    static const char *name[] = {"keep", "segments", "halving"};
    double             x[N_WAYS][N_SIZES], y[N_WAYS][N_SIZES];

    for (int i = 0; i < N_SIZES; i++) {
        zi_graph *g = unrolled(size[i], 16, 256);
        zi_cost  *c;
        if (zi_cost_guess(g, &c) < 0) return 1;
        uint64_t fixed = zi_cost_fixed_bytes(g, c);
        printf("%4d steps, %5u nodes:", size[i], g->n_nodes);
        for (int k = 0; k < N_WAYS; k++) {
            double   t0 = now_s();
            uint64_t acts = least_of(k, g, c) - fixed;
            x[k][i] = size[i];
            y[k][i] = (double)acts;
            printf("  %s %.1f MiB (%.2f s)", name[k], (double)acts / 1048576,
                   now_s() - t0);
        }
        printf("  segments / sqrt(n): %.2f MiB\n",
               y[1][i] / 1048576 / sqrt((double)size[i]));
        zi_cost_free(c);
        zi_graph_free(g);
    }
    if (argc < 2) return 0;
    zi_series series[N_WAYS];
    for (int k = 0; k < N_WAYS; k++)
        series[k] = (zi_series){.name = name[k], .x = x[k], .y = y[k], .n = N_SIZES};
    zi_plot plot = {.kind = ZI_PLOT_FRONT,
                    .title = "An unrolled LSTM: activations by number of steps",
                    .x = {.label = "steps", .unit = ZI_UNIT_NUMBER},
                    .y = {.label = "activations", .unit = ZI_UNIT_BYTES},
                    .series = series,
                    .n_series = N_WAYS};
    zi_str  svg = {0};
    FILE   *f = zi_plot_svg(&plot, &svg) >= 0 ? fopen(argv[1], "w") : NULL;
    if (!f) return 1;
    fputs(zi_str_get(&svg), f);
    zi_str_free(&svg);
    return fclose(f) == 0 ? 0 : 1;
}

/* salus_queue.c -- a queue of 100 jobs under the disciplines, on the virtual clock.
 *
 * usage: salus_queue [--jobs N] [--seed N] [--policy MORE] [--json]
 *
 * The trace is drawn as the Salus paper describes its own (100 jobs, durations of a production
 * cluster: many short and a few very long ones; models of one device of 16 GB, whose lasting
 * memory is small beside that of a step): durations lognormal (median 80 s, sigma 1.3, cut at an
 * hour), step memory log-uniform from 0.8 to 9 GB, lasting memory 1 % of it and at least 32 MB,
 * steps of 0.2 to 1.5 s; arrivals one every 20 s on average.  Two jobs together on the device make
 * 1.07 times the progress of one.  All policies get the same jobs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "sim/sim.h"

#define MB     (1ull << 20)
#define SECOND 1000000000ull
#define N_MAX  200

static zi_sim_job        job[N_MAX];
static zi_sim_job_result done[N_MAX];
static double            jct[N_MAX];

static int
by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double
normal(zi_rng *r)
{
    double u = 1 - zi_rng_unit(r), v = zi_rng_unit(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Total solo seconds of the trace. */
static double
draw(size_t n, uint64_t seed)
{
    zi_rng r = zi_rng_seed(seed);
    double at = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        double   seconds = fmin(80 * exp(1.3 * normal(&r)), 3600);
        double   step = 0.2 + 1.3 * zi_rng_unit(&r);
        uint64_t peak = (uint64_t)(0.8e9 * exp(zi_rng_unit(&r) * log(9 / 0.8)));
        uint64_t n_steps = (uint64_t)ceil(seconds / step);
        job[i] = (zi_sim_job){.name = "job",
                              .fixed_bytes = peak / 100 > 32 * MB ? peak / 100 : 32 * MB,
                              .n_steps = n_steps < 2 ? 2 : n_steps,
                              .arrive_ns = (uint64_t)(at * 1e9),
                              .scaling = 0.9,
                              .native = true,
                              .can_suspend = true};
        zi_sim_tide((zi_sim_shape)(zi_rng_next(&r) % ZI_SIM_N_SHAPES), peak,
                    (uint64_t)(step * 1e9), 16, &job[i].tide);
        sum += step * (double)job[i].n_steps;
        at -= 20 * log(1 - zi_rng_unit(&r));
    }
    return sum;
}

typedef struct figures {
    double makespan, mean, p95;
    size_t unfinished;
} figures;

static bool
run(const char *policy, size_t n, uint64_t seed, figures *f)
{
    zi_sim_result  res;
    zi_sim_options opt = {.policy = policy,
                          .budget_bytes = 16384 * MB,
                          .region_bytes = 64 * MB,
                          .n_cores = 2,
                          .horizon_ns = 200000 * SECOND,
                          .move_bytes_per_s = 1e9,
                          .seed = seed};

    *f = (figures){0};
    if (zi_sim_run(&opt, job, n, &res, done) < 0) return false;
    for (size_t i = 0; i < n; i++) {
        f->unfinished += done[i].ended_ns == 0 || done[i].n_denied > 0;
        double end = (double)done[i].ended_ns / 1e9;
        jct[i] = end - (double)job[i].arrive_ns / 1e9;
        f->mean += jct[i] / (double)n;
        if (end > f->makespan) f->makespan = end;
    }
    qsort(jct, n, sizeof *jct, by_value);
    f->p95 = jct[n * 95 / 100];
    return !res.deadlock && res.n_over_budget == 0 && f->unfinished == 0;
}

int
main(int argc, char **argv)
{
    const char *policy[8] = {"salus:fifo", "salus:srtf", "salus:pack",
                             "salus:fair", "gandiva",    "zico"};
    size_t      n_policies = 6;
    size_t      n = 100;
    uint64_t    seed = 1;
    bool        json = false, good = true;
    figures     f, fifo = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
            n = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--policy") == 0 && i + 1 < argc && n_policies < 8)
            policy[n_policies++] = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else
            return fputs("usage: salus_queue [--jobs N] [--seed N] [--policy MORE] "
                         "[--json]\n",
                         stderr),
                   2;
    }
    if (n < 1 || n > N_MAX) return fputs("1 to 200 jobs\n", stderr), 2;
    double solo = draw(n, seed);
    if (!json)
        printf(
            "%zu jobs, %.0f minutes of solo work, seed %llu; minutes, and mean against "
            "fifo's\n%-12s %9s %9s %9s %9s\n",
            n, solo / 60, (unsigned long long)seed, "policy", "makespan", "mean", "95 %",
            "fifo/mean");
    for (size_t p = 0; p < n_policies; p++) {
        bool ok = run(policy[p], n, seed, &f);
        if (p == 0) fifo = f;
        good &= ok;
        printf(json ? "{\"policy\":\"%s\",\"makespan_min\":%.1f,\"mean_min\":%.1f,"
                      "\"p95_min\":%.1f,\"fifo_by_mean\":%.2f,\"unfinished\":%zu}\n"
                    : "%-12s %9.1f %9.1f %9.1f %9.2f%.0zu\n",
               policy[p], f.makespan / 60, f.mean / 60, f.p95 / 60, fifo.mean / f.mean,
               f.unfinished);
        if (!ok)
            fprintf(stderr, "%s: %zu jobs did not finish\n", policy[p], f.unfinished);
    }
    return good ? 0 : 1;
}

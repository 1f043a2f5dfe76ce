/* decide.c -- how long does a decision take?
 *
 * usage: decide [--json]
 *   sweep      one sweep of a starter against 8 running jobs of 48 points each
 *   decision   one desk call that lets zico decide, 8 jobs on 8 cores, in mid-flight
 *   lease      one lease asked, granted and returned, 200 jobs, 4096 regions
 *   tracking   one step of 400 regions that come and go: recorded by the job and by the broker, and learnt
 *   simulate   steps a minute of the simulator, 8 jobs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "policy/desk.h"
#include "policy/sweep.h"
#include "sim/sim.h"
#include "bench_clock.h"

#define MB (1ull << 20)
#define MS 1000000ull

static int
by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool json;

static void
print(const char *name, uint64_t *sample, size_t n)
{
    qsort(sample, n, sizeof *sample, by_value);
    const char *form =
        json ? "{\"name\":\"%s\",\"median_ns\":%llu,\"p99_ns\":%llu,\"n\":%zu}\n"
             : "%-10s median %8llu ns   p99 %8llu ns   (%zu)\n";
    printf(form, name, (unsigned long long)sample[n / 2],
           (unsigned long long)sample[n * 99 / 100], n);
}

/* -- one sweep ---------------------------------------------------------------------------- */

static void
bench_sweep(uint64_t *sample, size_t n)
{
    static zi_tide     tide[9];
    static zi_job_view job[9];
    zi_view v = {.budget_bytes = 3200 * MB, .n_cores = 8, .n_jobs = 9, .job = job};

    for (unsigned i = 0; i < 9; i++) {
        zi_sim_tide((zi_sim_shape)(i % ZI_SIM_N_SHAPES), 500 * MB, (100 + 30 * i) * MS,
                    48, &tide[i]);
        job[i] = (zi_job_view){.id = i,
                               .state = i < 8 ? ZI_JOB_RUNNING : ZI_JOB_ASKING,
                               .tide = &tide[i],
                               .repeats = true,
                               .claim_bytes = 520 * MB,
                               .began_ns = 1};
    }
    for (size_t k = 0; k < n; k++) {
        for (unsigned i = 0; i < 8; i++) {
            job[i].taken_bytes = (k * 37 + i * 50) % 500 * MB;
            job[i].step_bytes = job[i].taken_bytes;
            job[i].last_region_ns = 2;
        }
        zi_sweep_ask      ask = {.starter = 8, .also = SIZE_MAX};
        uint64_t          t0 = bench_now_ns();
        volatile uint64_t delay = zi_sweep_delay(&v, &ask);
        (void)delay;
        sample[k] = bench_now_ns() - t0;
    }
    print("sweep", sample, n);
}

/* -- decisions of the desk in a running mix ----------------------------------------------- */

typedef struct client {
    zi_job_id id;
    uint32_t  seq, region[64];
    uint32_t  n_held;
    bool      running;
    unsigned  at; /* eighths of its step */
} client;

static void
listen(zi_desk *d, client *c)
{
    zi_effect e;
    while (zi_desk_next(d, &e)) {
        if (e.job >= 200) continue;
        if (e.kind == ZI_EFFECT_GO) c[e.job].running = true, c[e.job].at = 0;
        if (e.kind != ZI_EFFECT_GRANT || !e.grant) continue;
        for (size_t i = 0; i < e.grant->n_runs; i++)
            for (uint32_t k = 0; k < e.grant->run[i].n && c[e.job].n_held < 64; k++)
                c[e.job].region[c[e.job].n_held++] = e.grant->run[i].first + k;
    }
}

static void
must(zico_status st)
{
    if (st >= 0) return;
    fprintf(stderr, "decide: %s\n", zico_status_name(st));
    exit(1);
}

/* Each job: 4 rises of 4 regions, 4 falls, end.  Times every call that makes zico decide. */
static void
bench_desk(const char *name, size_t n_jobs, uint32_t n_cores, uint32_t budget_regions,
           bool leases, uint64_t *sample, size_t n)
{
    static client   c[200];
    zi_desk        *d;
    uint64_t        now = 1000000000u;
    zi_desk_options opt = {.shape = {4 * MB, 4096, budget_regions * 4 * MB},
                           .n_cores = n_cores,
                           .policy = "zico"};
    size_t          k = 0;

    memset(c, 0, sizeof c);
    must(zi_desk_new(&opt, &d));
    for (size_t i = 0; i < n_jobs; i++) {
        zi_job_spec spec = {.features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE};
        must(zi_desk_join(d, &spec, now, &c[i].id));
        must(zi_desk_step_ask(d, c[i].id, ++c[i].seq, 0, now));
        listen(d, c);
    }
    for (uint64_t round = 0; k < n && round < 100 * n; round++) {
        client *j = &c[(round * 7919) % n_jobs];
        now += 200000 + round % 7 * 10000;
        if (!j->running) continue;
        uint64_t t0 = bench_now_ns();
        bool     decides = true;
        if (j->at < 4) {
            zi_request req = {.job = j->id,
                              .seq = ++j->seq,
                              .hold = ZI_HOLD_STEP,
                              .n_regions = 4,
                              .deadline_ns = UINT64_MAX};
            must(zi_desk_ask(d, &req, now));
            decides = leases;
        } else if (j->at < 8 && j->n_held >= 4) {
            zi_run run[4];
            for (int i = 0; i < 4; i++) run[i] = (zi_run){j->region[--j->n_held], 1};
            must(zi_desk_return(d, j->id, run, 4, now));
        } else if (j->at >= 8) {
            j->running = false;
            must(zi_desk_step_end(d, j->id, 1, NULL, 0, 0, now));
            must(zi_desk_step_ask(d, j->id, ++j->seq, 1, now));
        }
        j->at++;
        uint64_t took = bench_now_ns() - t0;
        listen(d, c);
        if (decides && round > 20 * n_jobs) sample[k++] = took;
    }
    zi_desk_free(d);
    if (k) print(name, sample, k);
}

/* -- recording a tide ------------------------------------------------------------------- */

/* What both sides do for one step of a job that moves 800 MiB in regions of 2 MiB. */
static void
bench_tracking(uint64_t *sample, size_t n)
{
    enum { REGIONS = 400 };
    zi_tide_recorder *rec[2];
    zi_tide           tide;
    zi_tide_learner   learner = {0};

    for (int side = 0; side < 2; side++) must(zi_tide_recorder_new(&rec[side]));
    for (size_t k = 0; k < n; k++) {
        uint64_t at = 1000 * MS * k + MS, t0 = bench_now_ns();
        for (int side = 0; side < 2; side++) {
            zi_tide_recorder_begin(rec[side], at);
            for (uint64_t i = 0; i < REGIONS; i++)
                zi_tide_recorder_add(rec[side], at + i * MS / 8, 2 * MB);
            for (uint64_t i = 0; i < REGIONS; i++)
                zi_tide_recorder_add(rec[side], at + (REGIONS + i) * MS / 8,
                                     -(int64_t)(2 * MB));
            zi_tide_recorder_end(rec[side], at + 2 * REGIONS * MS / 8, &tide);
        }
        (void)zi_tide_learn(&learner, &tide);
        sample[k] = bench_now_ns() - t0;
    }
    for (int side = 0; side < 2; side++) zi_tide_recorder_free(rec[side]);
    print("tracking", sample, n);
}

static void
bench_simulate(void)
{
    static zi_sim_job jobs[8];
    zi_sim_result     r;
    zi_sim_options    opt = {.policy = "zico",
                             .budget_bytes = 2600 * MB,
                             .region_bytes = 8 * MB,
                             .n_cores = 2,
                             .horizon_ns = 2000000 * MS};

    for (unsigned i = 0; i < 8; i++) {
        jobs[i] =
            (zi_sim_job){.native = true, .fixed_bytes = 40 * MB, .time_noise = 0.03};
        zi_sim_tide((zi_sim_shape)(i % ZI_SIM_N_SHAPES), 400 * MB, (60 + 20 * i) * MS, 12,
                    &jobs[i].tide);
    }
    uint64_t t0 = bench_now_ns();
    must(zi_sim_run(&opt, jobs, 8, &r, NULL));
    double minutes = (double)(bench_now_ns() - t0) / 60e9;
    printf(json ? "{\"name\":\"simulate\",\"steps_per_minute\":%.0f}\n"
                : "simulate   %.0f steps a minute\n",
           (double)r.n_steps / minutes);
}

int
main(int argc, char **argv)
{
    enum { N = 20000 };
    static uint64_t sample[N];

    json = argc > 1 && strcmp(argv[1], "--json") == 0;
    bench_sweep(sample, N);
    bench_desk("decision", 8, 8, 100, false, sample, N);
    bench_desk("lease", 200, 64, 1200, true, sample, N);
    bench_tracking(sample, N / 20);
    bench_simulate();
    return 0;
}

/* observe_fit.c -- runs 1, 2, 3 ... copies of a tide through the simulator until one is refused. */
#include "cli/observe_fit.h"

#include <stdlib.h>

#include "device/device.h"
#include "sim/sim.h"

#define HORIZON_STEPS 40u

/* k copies that begin a little apart.  False: somebody was refused, stuck or never stepped. */
static bool
simulate(const zi_observed *o, uint64_t budget_bytes, uint32_t n_cores, unsigned k,
         zi_sim_job *jobs, zi_sim_job_result *results, double *ret_speed)
{
    zi_sim_result  r;
    zi_sim_options opt = {
        .policy = "zico",
        .budget_bytes = budget_bytes,
        .region_bytes = zi_device_region_bytes(budget_bytes),
        .n_cores = n_cores,
        .horizon_ns = o->period_ns * HORIZON_STEPS * k,
        .seed = 1,
    };
    for (unsigned i = 0; i < k; i++)
        jobs[i] = (zi_sim_job){
            .name = "copy",
            .tide = o->tide,
            .private_bytes = o->floor_bytes,
            .knows_tide = true,
            .arrive_ns = i * (o->period_ns / (k + 1)),
            .time_noise = 0.02,
        };
    if (zi_sim_run(&opt, jobs, k, &r, results) < 0 || r.deadlock) return false;
    for (unsigned i = 0; i < k; i++)
        if (results[i].n_denied || results[i].n_steps < HORIZON_STEPS / 4) return false;
    *ret_speed = r.throughput;
    return true;
}

zico_status
zi_observe_fit(const zi_observed *o, uint64_t budget_bytes, uint32_t n_cores,
               zi_fit *ret_fit)
{
    zi_fit fit = {0};

    if (o->n_steps == 0 || o->peak_bytes == 0 || o->period_ns == 0) return ZICO_E_STATE;
    zi_sim_job        *jobs = calloc(ZI_FIT_MAX, sizeof *jobs);
    zi_sim_job_result *results = calloc(ZI_FIT_MAX, sizeof *results);
    if (!jobs || !results) {
        free(jobs), free(results);
        return ZICO_E_NOMEM;
    }
    uint64_t plain = budget_bytes / o->peak_bytes;
    fit.n_plain = plain < ZI_FIT_MAX ? (unsigned)plain : ZI_FIT_MAX;
    for (unsigned k = 1; k <= ZI_FIT_MAX; k++) {
        double speed;
        if (!simulate(o, budget_bytes, n_cores, k, jobs, results, &speed)) break;
        fit.n_shared = k;
        fit.speed = speed;
    }
    free(jobs);
    free(results);
    *ret_fit = fit;
    return ZICO_OK;
}

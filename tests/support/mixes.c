/* mixes.c -- drawing random jobs, and judging what became of them. */
#include "support/mixes.h"

#include "test.h"
#include "wire/reason.h"

#define MB (1ull << 20)

uint64_t
t_pick(zi_rng *r, uint64_t from, uint64_t to)
{
    return from + zi_rng_below(r, to - from + 1);
}

bool
t_chance(zi_rng *r, double p)
{
    return zi_rng_unit(r) < p;
}

static bool
has_finished(const zi_sim_job *job, const zi_sim_job_result *res)
{
    return res->n_denied == 0 && (job->die_ns > 0 || res->n_steps == job->n_steps);
}

void
t_judge_mix(const zi_sim_options *opt, const zi_sim_job *jobs, size_t n,
            const zi_sim_result *res, const zi_sim_job_result *per, bool finish)
{
    bool good =
        !res->n_over_budget && !res->n_two_owners && !res->deadlock && !res->broken;

    for (size_t i = 0; i < n && finish; i++) good &= has_finished(&jobs[i], &per[i]);
    if (good) return;
    for (size_t i = 0; i < n; i++)
        print_error("job %zu: %llu of %llu steps, denied %u, waits: %s, holds %llu MB, "
                    "asks %llu MB\n",
                    i, (unsigned long long)per[i].n_steps,
                    (unsigned long long)jobs[i].n_steps, per[i].n_denied,
                    zi_reason_name(per[i].reason),
                    (unsigned long long)(per[i].held_bytes / MB),
                    (unsigned long long)(per[i].asked_bytes / MB));
    fail_msg("seed %llu (%s, %zu jobs): over budget %llu times, two owners %llu times, "
             "deadlock %d, broken %d",
             (unsigned long long)opt->seed, opt->policy, n,
             (unsigned long long)res->n_over_budget,
             (unsigned long long)res->n_two_owners, res->deadlock, res->broken);
}

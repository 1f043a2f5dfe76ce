/* mixes.h -- what tests of random mixes share: drawing jobs, and the verdict on a simulated day. */
#ifndef ZI_TEST_MIXES_H
#define ZI_TEST_MIXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/rng.h"
#include "sim/sim.h"

/* A number of [from, to]. */
uint64_t t_pick(zi_rng *r, uint64_t from, uint64_t to);
bool     t_chance(zi_rng *r, double p);

/* Never over budget, no region with two owners, no deadlock, books in order.  `finish`: also nobody
 * was refused memory, and whoever was not killed made all its steps.  Otherwise the test fails and
 * names the seed, the policy, and what each job was doing. */
void t_judge_mix(const zi_sim_options *opt, const zi_sim_job *jobs, size_t n,
                 const zi_sim_result *res, const zi_sim_job_result *per, bool finish);

#endif /* ZI_TEST_MIXES_H */

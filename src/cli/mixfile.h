/* cli/mixfile.h -- jobs that exist only as tides, for `zico sim`.
 *
 *     cores: 2
 *     seconds: 120            # of virtual time
 *     region: 16M
 *     corun: ["1", "0.93"]    # speed with 1, 2, ... jobs computing, beside the division of cores
 *     jobs:
 *       - name: resnet
 *         tide: tides/0123456789abcdef.tide   # as `zico run --record` keeps them
 *         fixed: 90M
 *       - name: spiky
 *         shape: lean         # triangle, beefy, lean, ramp
 *         peak: 600M          # over the fixed bytes
 *         step: 0.25          # seconds alone with all cores
 *         fixed: 60M
 *         count: 2            # so many of these
 *         scaling: 0.7        # with c of n cores: (c/n)^scaling
 *
 * Every error names file, line and key.
 */
#ifndef ZI_CLI_MIXFILE_H
#define ZI_CLI_MIXFILE_H

#include "base/str.h"
#include "sim/sim.h"

typedef struct zi_mix_entry {
    /* as written; NULL where absent */
    char *name, *tide, *shape, *peak, *step, *fixed, *count;
    char *weight, *scaling, *gap, *every, *noise, *warm, *burst, *arrive, *steps, *native,
        *shrink;
} zi_mix_entry;

typedef struct zi_mixfile {
    char         *cores, *seconds, *region, *seed;
    char        **corun;
    unsigned      corun_count;
    zi_mix_entry *jobs;
    unsigned      jobs_count;
} zi_mixfile;

/* A mix as understood, ready for the simulator. */
typedef struct zi_mix {
    zi_sim_job *job;  /* [n_jobs] */
    char (*name)[64]; /* [n_jobs] */
    size_t         n_jobs;
    zi_sim_options opt; /* all but policy and budget */
    uint64_t       sum_peaks_bytes, fixed_bytes, most_bytes; /* most: the highest tide */
} zi_mix;

/* On E_FORMAT, E_ARG, E_NOTFOUND `why` has one line.  Paths of tides are relative to the file. */
zico_status zi_mix_read(const char *path, zi_mix *ret_mix, zi_str *why);
void        zi_mix_free(zi_mix *m);

#endif /* ZI_CLI_MIXFILE_H */

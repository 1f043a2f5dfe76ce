/* cli/jobfile.h -- the jobs of a file, read and judged.
 *
 *     budget: 4G            # or 65%: of the sum of the jobs' solo peaks, measured first
 *     policy: zico
 *     cores: follow         # or fixed: every job gets its share once and for all
 *     jobs:
 *       - name: resnet
 *         train: resnet20:classes=10
 *         batch: 64
 *         steps: 200
 *       - name: script
 *         command: [/usr/bin/python3, train.py, --epochs, "3"]
 *         weight: 2
 *
 * Every error names file, line and key.
 */
#ifndef ZI_CLI_JOBFILE_H
#define ZI_CLI_JOBFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "zico/status.h"

#define ZI_JOBFILE_JOBS_MAX 256u

typedef struct zi_job_entry {
    /* as written; NULL where absent */
    char    *name;
    char    *train;   /* a network for zico train */
    char    *infer;   /* a network for zico infer */
    char   **command; /* words                    */
    unsigned command_count;
    char    *shell; /* one line for sh -c       */
    char    *min, *max, *claim;
    char    *weight;
    char    *cores; /* follow, own, fixed:N */
    char    *batch, *steps, *epochs, *optimizer, *lr, *seed, *planner, *limit, *latency;
    char   **args; /* further words for zico train and zico infer */
    unsigned args_count;
    char   **env; /* NAME=value */
    unsigned env_count;
    char    *dir;
    char    *delay;    /* seconds before it starts     */
    char    *max_wait; /* seconds, for commands         */
    char    *on_hang;  /* wait (default), kill          */
    char    *steady;   /* yes, no (default): a command whose steps repeat to the byte */

    /* as understood */
    uint64_t min_bytes, max_bytes, claim_bytes;
    uint32_t weight_milli;
    uint64_t delay_ns, max_wait_ns;
    bool     kill_on_hang, is_steady;
} zi_job_entry;

typedef struct zi_jobfile {
    char         *budget, *policy, *region, *cores, *device;
    zi_job_entry *jobs;
    unsigned      jobs_count;

    uint64_t budget_bytes;   /* 0: a share, or not given               */
    uint32_t budget_percent; /* of the sum of solo peaks; 0: not given */
    uint64_t solo_sum_bytes; /* that sum, once measured; 0: not        */
    uint64_t region_bytes;
} zi_jobfile;

/* Read `text` (called `name` in errors).  On E_FORMAT, E_ARG `why` has one line such as
 *     jobs.yaml:7: weight: 'heavy' is not a number from 0.001 to 1000 */
zico_status zi_jobfile_parse(const char *name, const char *text, size_t n_bytes,
                             zi_jobfile **ret_file, zi_str *why);
zico_status zi_jobfile_read(const char *path, zi_jobfile **ret_file, zi_str *why);
void        zi_jobfile_free(zi_jobfile *f); /* NULL is fine */

#endif /* ZI_CLI_JOBFILE_H */

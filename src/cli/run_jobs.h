/* cli/run_jobs.h -- all jobs of a file under one budget: run, watched, reported. */
#ifndef ZI_CLI_RUN_JOBS_H
#define ZI_CLI_RUN_JOBS_H

#include "cli/jobfile.h"
#include "os/os.h"
#include "report/report.h"

typedef struct zi_run_options {
    const zi_os *os;
    const char  *file;        /* path of the job file                               */
    const char  *socket_path; /* NULL: the device's own                             */
    const char  *policy;      /* NULL: the file's, else zico                        */
    const char  *budget;      /* NULL: the file's, else 80 % of what is free        */
    const char  *out_dir;     /* logs, picture, trace; made if it is not there      */
    const char  *trace;       /* a path; NULL: none                                 */
    bool         compare;     /* the same jobs under temporal, spatial, zico, policy */
    bool         record;      /* keep the tides in out_dir/tides                    */
    bool         json;        /* the report as JSON on standard output              */
    bool         quiet;       /* no live view                                       */
} zi_run_options;

/* What became of one job. */
typedef struct zi_run_job {
    char     name[64];
    int      exit_code;
    bool     stopped;
    uint64_t steps, samples;
    uint64_t wall_ns, waited_ns, peak_bytes, solo_step_ns, exchanged_bytes;
    double   rate;        /* steps a second over its life                              */
    double   shared_rate; /* the same, while all jobs were there; 0: never so          */
    double   loss;        /* the last; NAN: none                                       */
    char     last_line[160];
    char     log_path[512];
} zi_run_job;

typedef struct zi_run_result {
    char       policy[32];
    unsigned   n_jobs;
    zi_run_job job[ZI_JOBFILE_JOBS_MAX];
    uint64_t   budget_bytes, peak_bytes, sum_peaks_bytes, wall_ns, exchanged_bytes;
    bool       over_budget; /* the kernel's count plus private bytes ever passed it     */
    bool       interrupted;
    unsigned   n_failed;
} zi_run_result;

/* The exit code for main: 0 all finished, 1 some job failed, 2 the file or an option is bad,
 * 130 interrupted. */
int zi_run_jobs(const zi_run_options *opt);

#endif /* ZI_CLI_RUN_JOBS_H */

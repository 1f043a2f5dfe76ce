/* cli/run_report.h -- what is said when the jobs of a file have ended. */
#ifndef ZI_CLI_RUN_REPORT_H
#define ZI_CLI_RUN_REPORT_H

#include "cli/history.h"
#include "cli/run_jobs.h"

/* Table, picture (out_dir/memory.svg), trace; JSON instead of the table if asked for. */
void zi_run_report(const zi_run_result *res, const zi_history *history,
                   const zi_run_options *opt);

/* The same jobs under several policies; the first is the yardstick. */
void zi_run_report_compare(const zi_run_result *res, unsigned n, bool json);

#endif /* ZI_CLI_RUN_REPORT_H */

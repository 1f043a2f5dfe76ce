/* cli/live.h -- the screen of a running job file, as text.
 *
 * Pure: a model in, a frame out; tests compare frames.  What is known of a job comes from its
 * process (crew.h) and from the broker (watch.h).
 */
#ifndef ZI_CLI_LIVE_H
#define ZI_CLI_LIVE_H

#include "base/str.h"
#include "cli/history.h"
#include "report/report.h"

typedef struct zi_live_job {
    const char       *name;
    bool              joined; /* the broker knows it now          */
    bool              ended;  /* its process has ended            */
    int               exit_code;
    bool              waiting;   /* its start is delayed             */
    const char       *last_line; /* "" : none                        */
    double            rate;      /* steps a second lately; 0: unknown */
    double            sample_rate;
    zi_msg_status_job seen; /* the last the broker said        */
    bool              ever; /* `seen` is filled                */
} zi_live_job;

typedef struct zi_live {
    const zi_live_job *job;
    size_t             n_jobs;
    uint64_t           elapsed_ns;
    uint64_t           budget_bytes, held_bytes, kernel_bytes, private_bytes;
    const char        *policy, *says; /* ... and what it makes of the jobs; may be "" */
    const zi_history  *history; /* NULL: no plot */
} zi_live;

/* One frame of at most `rows` lines, each ended by a newline. */
zico_status
zi_live_draw(const zi_live *l, const zi_style *style, unsigned rows, zi_str *out);

/* What a job is doing, in a few words: "step, 2 cores", "waits: others hold the memory". */
void zi_live_doing(const zi_live_job *j, zi_str *out);

#endif /* ZI_CLI_LIVE_H */

/* cli/crew.h -- the processes of a job file: started, listened to, stopped in order.
 *
 * Every member's standard output and error go through a pipe into a log file of its own; the
 * last line is kept for the live view.  One thread, no signals: the caller polls.
 */
#ifndef ZI_CLI_CREW_H
#define ZI_CLI_CREW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/str.h"
#include "cli/jobfile.h"
#include "os/os.h"

typedef enum zi_member_state {
    ZI_MEMBER_WAITING, /* its delay is not over */
    ZI_MEMBER_RUNNING,
    ZI_MEMBER_ENDED,
} zi_member_state;

typedef struct zi_member {
    const zi_job_entry *entry;
    zi_member_state     state;
    pid_t               pid;
    int                 pidfd, pipe; /* -1: none                                */
    int                 log;         /* -1: output is thrown away               */
    char                log_path[512];
    uint64_t            start_ns, end_ns;
    int                 exit_code; /* 128 + signal if it was killed             */
    bool                stopped;   /* by us                                     */
    char                last_line[160];
    char                partial[160];
    size_t              n_partial;
} zi_member;

typedef struct zi_crew_options {
    const zi_os *os;
    const char  *socket_path;
    const char  *out_dir;     /* logs; NULL: none                               */
    const char  *cores;       /* default for jobs without their own; NULL: follow */
    const char  *extra_steps; /* override of `steps` (profiling); NULL: as written */
} zi_crew_options;

typedef struct zi_crew zi_crew;

zico_status
     zi_crew_new(const zi_crew_options *opt, const zi_jobfile *file, zi_crew **ret_crew);
void zi_crew_free(zi_crew *c); /* kills what still runs; NULL is fine */

/* Start what is due, read what was said, notice who has ended; waits at most timeout_ns, less
 * if `extra_fd` (-1: none) becomes readable. */
zico_status zi_crew_turn(zi_crew *c, int extra_fd, int64_t timeout_ns);

/* Ask all (or one) to end: SIGINT first, after `patience_ns` SIGTERM, then SIGKILL; call turn. */
void zi_crew_stop(zi_crew *c, uint64_t patience_ns);
void zi_crew_stop_one(zi_crew *c, unsigned i);

unsigned         zi_crew_n(const zi_crew *c);
const zi_member *zi_crew_member(const zi_crew *c, unsigned i);
bool             zi_crew_all_ended(const zi_crew *c);

#endif /* ZI_CLI_CREW_H */

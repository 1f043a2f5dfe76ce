/* cli/ensure.h -- a broker to join: the one that runs, or one started for us.
 *
 * Starting is serialised by a lock file beside the socket, so that several `zico run` begun at
 * the same moment end up with one broker.  A broker started here ends by itself some time
 * after its last job has left; others may join it meanwhile.
 */
#ifndef ZI_CLI_ENSURE_H
#define ZI_CLI_ENSURE_H

#include <stdbool.h>
#include "base/str.h"
#include "os/os.h"

typedef struct zi_ensure_options {
    const char
        *socket_path;      /* resolved (os/rundir.h)                                    */
    const char *device;    /* NULL: host                                                */
    uint64_t budget_bytes; /* 0: take what runs, else 80 % of the memory that is free   */
    uint64_t region_bytes; /* 0: chosen from the budget                                 */
    const char *policy;    /* NULL: take what runs, else zico                           */
    const char *tides_dir; /* where tides are kept between runs; NULL: nowhere          */
    unsigned    linger_s;  /* how long the broker stays after its last job; 0: 10       */
    const char *log_path;  /* where a started broker writes its log; NULL: nowhere      */
} zi_ensure_options;

/* ZICO_OK: one runs there now.  *ret_started (may be NULL): we started it.
 * E_EXISTS: one runs with another budget or policy than asked for; `why` says so and names
 * `zico limit`.  E_TIMEOUT: it did not come up; `why` has the end of its log. */
zico_status zi_ensure_broker(const zi_os *os, const zi_ensure_options *opt,
                             bool *ret_started, zi_str *why);

/* 80 % of the memory that is available now. */
zico_status zi_ensure_default_budget(uint64_t *ret_bytes);

#endif /* ZI_CLI_ENSURE_H */

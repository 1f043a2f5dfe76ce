/* yard.h -- a broker and jobs of a test's own, on a socket of their own.
 *
 * The broker is the real command (`zico serve`, supervised), jobs are real processes.  All of it
 * ends with yard_close, also after a failed assertion (the processes die with the test).
 */
#ifndef ZI_TEST_YARD_H
#define ZI_TEST_YARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "cli/watch.h"

typedef struct yard {
    const char *dir;
    char        socket_path[128];
    char        log_path[128];
    pid_t       serve; /* the supervisor */
    uint64_t    budget_bytes;
} yard;

/* `zico serve` with this budget, region size and policy; returns when it answers. */
void yard_open(yard *y, uint64_t budget_bytes, uint64_t region_bytes, const char *policy);
/* Asks it to end, waits, removes the folder. */
void yard_close(yard *y);

/* tests/helper/NAME, with ZICO_SOCKET set. */
pid_t yard_start(const yard *y, const char *helper, const char *const *args);
/* Waits for a child; its exit code, or 128 + signal.  Fails the test after `seconds`. */
int yard_wait(pid_t pid, unsigned seconds);

/* The end of what broker and jobs wrote, for the reader of a failed test. */
void yard_show_log(const yard *y);

/* One picture of the broker.  The test fails if there is none within 5 s.  Free with
 * zi_watch_close. */
zi_watch *yard_look(const yard *y, const zi_picture **ret_picture);
/* Does the broker know a live job with this process id? */
bool yard_knows(const yard *y, pid_t pid);
/* The process that is the broker now (not its supervisor). */
pid_t yard_broker_pid(const yard *y);

/* The books of one picture agree with each other, with the kernel and with the budget. */
void yard_check(const zi_picture *p);

#endif /* ZI_TEST_YARD_H */

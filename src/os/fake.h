/* os/fake.h -- the fake twin of the kernel table, for tests.
 *
 * Every call goes to the real kernel, except that
 *   - time is virtual: it starts at 1 s and moves only by zi_fake_advance, by
 *     sleep_until, and by a waiting call that times out;
 *   - the n-th call (counted over all services, or over one named service) fails
 *     with the errno asked for.  close, unmap and unlink do their work all the same and
 *     only report the failure, as the kernel does: nothing is left over that nobody could
 *     have cleaned up.
 * A waiting call gives the real kernel a millisecond, then moves the clock by its timeout.
 * A loop that makes call 0, 1, 2, ... fail until a run needs fewer calls visits
 * every failure point once.
 */
#ifndef ZI_OS_FAKE_H
#define ZI_OS_FAKE_H

#include "os/os.h"

typedef struct zi_fake zi_fake;

zico_status  zi_fake_new(zi_fake **ret_fake);
void         zi_fake_free(zi_fake *f); /* NULL is fine */
const zi_os *zi_fake_os(zi_fake *f);

void zi_fake_advance(zi_fake *f, uint64_t by_ns);

/* Fail the n-th call from now (0: the very next) with `err` (> 0), once.  `only`
 * names one service of os.def, or is NULL for any. */
void zi_fake_fail_at(zi_fake *f, const char *only, uint64_t n, int err);

/* Calls seen since the last zi_fake_fail_at, and whether its failure was delivered. */
uint64_t zi_fake_calls(const zi_fake *f);
int      zi_fake_failed(const zi_fake *f);

/* What `peer` says about everybody who connects, until called with pid 0. */
void zi_fake_peer(zi_fake *f, int32_t pid, uint32_t uid);

#endif /* ZI_OS_FAKE_H */

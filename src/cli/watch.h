/* cli/watch.h -- a broker's state as a tool sees it: one picture, or one after the other.
 *
 *     zi_watch *w;
 *     ZI_TRY(zi_watch_open(os, socket_path, true, &w));
 *     while ((st = zi_watch_next(w, -1)) == ZICO_OK) draw(zi_watch_picture(w));
 *     zi_watch_close(w);
 */
#ifndef ZI_CLI_WATCH_H
#define ZI_CLI_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include "os/os.h"
#include "wire/wire.h"

/* Who holds what, at one instant.  Jobs are in the order of their rows. */
typedef struct zi_picture {
    zi_msg_status            device;
    size_t                   n_jobs;
    const zi_msg_status_job *job;
} zi_picture;

typedef struct zi_watch zi_watch;

/* Connect and ask.  `stay`: go on receiving whenever something changes.
 * E_NOTFOUND: no broker there. */
zico_status
zi_watch_open(const zi_os *os, const char *socket_path, bool stay, zi_watch **ret_watch);
void zi_watch_close(zi_watch *w); /* NULL is fine */
int  zi_watch_fd(const zi_watch *w);

/* The next complete picture.  E_TIMEOUT: none within timeout_ns (negative: wait for ever);
 * E_GONE: the broker has ended. */
zico_status       zi_watch_next(zi_watch *w, int64_t timeout_ns);
const zi_picture *zi_watch_picture(const zi_watch *w); /* of the last success */

/* Send one request (LIMIT, CONTROL) on a connection of its own and take the answer. */
zico_status zi_watch_request(const zi_os *os, const char *socket_path, zi_msg *request,
                             zi_msg *ret_answer);

#endif /* ZI_CLI_WATCH_H */

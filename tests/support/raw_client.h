/* raw_client.h -- a broker in a process of its own, and clients that speak bare wire.
 *
 * No client library: tests say exactly what they want, also what no library would say.
 */
#ifndef ZI_TEST_RAW_CLIENT_H
#define ZI_TEST_RAW_CLIENT_H

#include <sys/types.h>
#include "broker/broker.h"
#include "wire/table.h"
#include "wire/wire.h"

typedef struct t_broker {
    pid_t pid; /* of the supervisor */
    char  path[108];
    int   log[2]; /* a pipe with what it logs; [0] is ours */
} t_broker;

/* Starts `zico serve` (as a function) at dir/name.sock and waits until it listens. */
void t_broker_start(t_broker *b, const char *path, const zi_broker_options *opt);
/* The same in a fresh folder. */
void t_broker_open(t_broker *b, const zi_broker_options *opt);
/* SIGTERM, and it must end in order. */
void t_broker_stop(t_broker *b);
/* The same as a teardown of cmocka's: *state is the t_broker. */
int t_broker_teardown(void **state);
/* kill -9 of the broker itself (not of its supervisor); returns its pid. */
pid_t t_broker_kill_child(t_broker *b);
/* kill -9 of the supervisor alone: the broker takes its place, as the test's child, which `b`
 * then stands for. */
void t_broker_kill_parent(t_broker *b);
/* kill -9 of both. */
void t_broker_kill_all(t_broker *b);
/* Waits until the log has that text (5 s, else the test fails). */
void t_broker_expect_log(t_broker *b, const char *text);

typedef struct t_raw {
    int            fd;
    int            pool_fd, table_fd; /* -1: none */
    zi_msg_welcome welcome;
    zi_table_head *table; /* mapped read-only */
    size_t         table_bytes;
    uint32_t       seq;
    zi_msg         in, out;
} t_raw;

t_raw *t_raw_connect(const char *path); /* fails the test if nobody listens */
void   t_raw_close(t_raw *r);           /* hangs up without LEAVE */

void t_raw_send(t_raw *r); /* r->out */
long
t_raw_send_bytes(t_raw *r, const void *p, size_t n); /* as send(2) with MSG_DONTWAIT */
/* The next message into r->in.  0: end of file; -1: nothing within ms. */
int t_raw_recv(t_raw *r, int ms);
/* The next message of that type; WAIT and CORES are passed over, anything else fails. */
zi_msg *t_raw_expect(t_raw *r, zi_msg_type type);
/* The connection must end, with REFUSE of that status (0: without). */
void t_raw_expect_end(t_raw *r, zico_status st);

/* HELLO .. WELCOME.  claim_bytes > 0: declared, so that nothing is learnt alone. */
void   t_raw_hello(t_raw *r, const char *name, uint64_t claim_bytes);
t_raw *t_raw_join(const char *path, const char *name, uint64_t claim_bytes); /* both */
/* LEAVE, the end of the connection, and t_raw_close. */
void t_raw_leave(t_raw *r);
void
t_raw_rejoin(t_raw *r, const t_raw *old, bool in_step); /* with descriptors .. WELCOME */

uint32_t
     t_raw_ask(t_raw *r, uint32_t n_regions, unsigned cls, uint64_t wait_ns); /* seq */
void t_raw_give(t_raw *r, zi_run run);
void t_raw_step(t_raw *r); /* STEP_ASK .. GO */
void t_raw_step_end(t_raw *r);

/* false: the connection ended before WELCOME came. */
bool t_raw_try_rejoin(t_raw *r, const t_raw *old, bool in_step);

/* STATUS from a connection of its own; jobs into job[0 .. cap). */
void t_raw_status(const char *path, zi_msg_status *ret_status, zi_msg_status_job *job,
                  size_t cap);

#endif /* ZI_TEST_RAW_CLIENT_H */

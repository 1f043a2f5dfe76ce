/* broker_restart_test.c -- a broker that is killed loses no lease and no job.    timeout: 240 */
#include "broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "support/raw_client.h"
#include "test.h"

#define MIB (1ull << 20)

static t_broker          broker;
static zi_broker_options options;

static int
start(void **state)
{
    *state = &broker;
    options = (zi_broker_options){.budget_bytes = 64 * MIB,
                                  .region_bytes = 2 * MIB,
                                  .policy = "spatial",
                                  .grace_ns = 1500000000};
    t_broker_open(&broker, &options);
    return 0;
}

/* A new connection that introduces itself as the old one's job; frees the old. */
static t_raw *
come_back(t_raw *old, bool in_step)
{
    t_raw *r = t_raw_connect(broker.path);
    t_raw_rejoin(r, old, in_step);
    assert_int_equal(old->welcome.job, r->welcome.job);
    assert_int_equal(old->welcome.epoch + 1, r->welcome.epoch);
    assert_string_equal(old->welcome.name, r->welcome.name);
    t_raw_close(old);
    return r;
}

static uint64_t
leased(void)
{
    zi_msg_status s;
    t_raw_status(broker.path, &s, NULL, 0);
    assert_int_equal(0, s.n_over);
    return s.leased_bytes;
}

/* Leases survive; what is written stays; nothing is granted before all have reported. */
static void
leases_survive(void **state)
{
    t_raw *a = t_raw_join(broker.path, "a", 4 * MIB),
          *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(a, 5, 0, UINT64_MAX);
    zi_run run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    char  *mem = mmap(NULL, run.n * 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED,
                      a->pool_fd, (off_t)(run.first * 2 * MIB));
    assert_true(mem != MAP_FAILED);
    memset(mem, 0x5a, run.n * 2 * MIB);

    t_broker_kill_child(&broker);
    a = come_back(a, false);
    uint32_t seq = t_raw_ask(a, 1, 0, UINT64_MAX);
    assert_int_equal(1, t_raw_recv(a, 20000));
    while (a->in.type == ZI_MSG_CORES) assert_int_equal(1, t_raw_recv(a, 20000));
    assert_int_equal(ZI_MSG_WAIT, a->in.type);
    assert_int_equal(ZI_REASON_REJOIN, a->in.wait.reason);
    assert_int_equal(-1, t_raw_recv(a, 200)); /* b has not reported */
    b = come_back(b, false);
    assert_int_equal(seq, t_raw_expect(a, ZI_MSG_GRANT)->seq);
    assert_int_equal(12 * MIB, leased());
    for (size_t i = 0; i < run.n * 2 * MIB; i += 4096) assert_int_equal(0x5a, mem[i]);
    munmap(mem, run.n * 2 * MIB);
    t_raw_leave(a);
    t_raw_leave(b);
    assert_int_equal(0, leased());
}

/* A request that waits when the broker dies is asked again and granted once. */
static void
request_in_flight(void **state)
{
    t_raw *a = t_raw_join(broker.path, "a", 4 * MIB),
          *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(a, 25, 0, UINT64_MAX);
    zi_run   run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    uint32_t seq = t_raw_ask(b, 20, 0, UINT64_MAX);
    assert_int_equal(1, t_raw_recv(b, 20000));
    t_broker_kill_child(&broker);
    a = come_back(a, false);
    b = come_back(b, false);
    b->seq = seq - 1;
    assert_int_equal(seq, t_raw_ask(b, 20, 0, UINT64_MAX));
    t_raw_give(a, run);
    zi_msg *g = t_raw_expect(b, ZI_MSG_GRANT);
    assert_int_equal(seq, g->seq);
    assert_int_equal(40 * MIB, g->grant.size_bytes);
    assert_int_equal(-1, t_raw_recv(b, 100)); /* not twice */
    assert_int_equal(40 * MIB, leased());
    t_raw_leave(a);
    t_raw_leave(b);
}

/* A grant that was made but perhaps never heard: asked again, the same regions are the
 * answer, and they are counted once. */
static void
grant_not_heard(void **state)
{
    t_raw *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(b, 2, 0, UINT64_MAX);
    t_raw_expect(b, ZI_MSG_GRANT);
    uint32_t seq = t_raw_ask(b, 7, 0, UINT64_MAX);
    zi_run   first =
        t_raw_expect(b, ZI_MSG_GRANT)->grant.runs[0]; /* we pretend not to know */
    t_broker_kill_child(&broker);
    b = come_back(b, false);
    b->seq = seq - 1;
    t_raw_ask(b, 7, 0, UINT64_MAX);
    zi_msg *g = t_raw_expect(b, ZI_MSG_GRANT);
    assert_int_equal(seq, g->seq);
    assert_int_equal(1, g->grant.n_runs);
    assert_int_equal(first.first, g->grant.runs[0].first);
    assert_int_equal(7, g->grant.runs[0].n);
    assert_int_equal(0, g->grant.more);
    assert_int_equal(18 * MIB, leased());
    t_raw_leave(b);
}

/* A RETURN that died with the broker: the table still names the job, which returns again. */
static void
return_lost(void **state)
{
    t_raw *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(b, 3, 0, UINT64_MAX);
    zi_run run = t_raw_expect(b, ZI_MSG_GRANT)->grant.runs[0];
    t_broker_kill_child(&broker); /* as if the RETURN had been on its way */
    b = come_back(b, false);
    assert_int_equal(b->welcome.job,
                     zi_table_owner_row(zi_table_regions(b->table)[run.first].owner));
    t_raw_give(b, run);
    for (int i = 0; i < 200 && leased() != 0; i++) usleep(5000);
    assert_int_equal(0, leased());
    assert_int_equal(ZI_TABLE_NOBODY,
                     zi_table_owner_row(zi_table_regions(b->table)[run.first].owner));
    t_raw_leave(b);
}

/* Steps go on: who was inside one is inside one afterwards, and the next is asked for. */
static void
steps_go_on(void **state)
{
    zi_msg_status     s;
    zi_msg_status_job job;

    (void)state;
    t_raw *a = t_raw_join(broker.path, "a", 8 * MIB);
    t_raw_step(a);
    t_raw_ask(a, 2, 1, UINT64_MAX);
    zi_run run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    t_broker_kill_child(&broker);
    a = come_back(a, true);
    t_raw_status(broker.path, &s, &job, 1);
    assert_int_equal(2 /* running */, job.state);
    assert_int_equal(4 * MIB, job.step_bytes);
    t_raw_ask(a, 1, 1, UINT64_MAX);
    zi_run more = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    t_raw_give(a, run);
    t_raw_give(a, more);
    t_raw_step_end(a);
    t_raw_step(a);
    t_raw_step_end(a);
    t_raw_leave(a);
}

/* What was learnt of a job is not forgotten: inside a step and between two it claims what it
 * claimed before, so that it is neither measured alone again nor refused its memory. */
static void
claims_survive(void **state)
{
    zi_msg_status     s;
    zi_msg_status_job before, after;

    (void)state;
    t_raw *a = t_raw_join(broker.path, "a", 0); /* to be learnt */
    t_raw_step(a);
    t_raw_ask(a, 5, 1, UINT64_MAX);
    t_raw_give(a, t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0]);
    t_raw_step_end(a);
    t_raw_status(broker.path, &s, &before, 1);
    assert_in_range(before.claim_bytes, 10 * MIB, 12 * MIB);
    t_broker_kill_child(&broker);
    a = come_back(a, false);
    t_raw_status(broker.path, &s, &after, 1);
    assert_int_equal(before.claim_bytes, after.claim_bytes);

    t_raw_step(a);
    t_raw_ask(a, 1, 1, UINT64_MAX);
    zi_run run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    t_broker_kill_child(&broker);
    a = come_back(a, true);
    t_raw_status(broker.path, &s, &after, 1);
    assert_int_equal(before.claim_bytes, after.claim_bytes);
    t_raw_give(a, run);
    t_raw_step_end(a);
    t_raw_leave(a);
}

/* A job that dies while no broker runs: its successor finds out and gives its memory to
 * others.  A newcomer waits until that is clear. */
static void
death_meanwhile(void **state)
{
    int  go[2];
    char c;

    (void)state;
    assert_int_equal(0, pipe(go));
    pid_t pid = fork();
    if (pid == 0) {
        t_raw *r = t_raw_join(broker.path, "doomed", 2 * MIB);
        t_raw_ask(r, 30, 0, UINT64_MAX);
        t_raw_expect(r, ZI_MSG_GRANT);
        if (write(go[1], "x", 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    t_raw *a = t_raw_join(broker.path, "a", 2 * MIB);
    assert_int_equal(1, read(go[0], &c, 1));
    t_broker_kill_child(&broker);
    a = come_back(a, false); /* awaited: doomed, which lives */
    t_raw *n = t_raw_connect(broker.path);
    n->out = (zi_msg){.type = ZI_MSG_HELLO};
    n->out.hello = (zi_msg_hello){.min_version = 1,
                                  .max_version = 1,
                                  .claim_bytes = 2 * MIB,
                                  .weight_milli = 1};
    t_raw_send(n);
    assert_int_equal(-1, t_raw_recv(n, 200)); /* held */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    t_raw_expect(n, ZI_MSG_WELCOME);
    t_raw_ask(a, 28, 0, UINT64_MAX);
    t_raw_expect(a, ZI_MSG_GRANT);
    t_raw_leave(n);
    t_raw_leave(a);
    close(go[0]);
    close(go[1]);
}

/* Only the supervisor is killed: its broker takes its place and starts another, so that the next
 * death is survived as well; to the jobs it is one restart more. */
static void
supervisor_dies(void **state)
{
    t_raw *a = t_raw_join(broker.path, "a", 4 * MIB),
          *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(a, 4, 0, UINT64_MAX);
    zi_run run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    t_broker_kill_parent(&broker);
    t_broker_expect_log(&broker, "the supervisor is dead");
    t_raw_expect_end(a, 0); /* as after any death of a broker */
    a = come_back(a, false);
    b = come_back(b, false);
    assert_int_equal(8 * MIB, leased());
    assert_int_not_equal(broker.pid, t_broker_kill_child(&broker)); /* supervised again */
    a = come_back(a, false);
    b = come_back(b, false);
    t_broker_kill_parent(&broker); /* and so on */
    t_raw_expect_end(a, 0); /* else the old broker could still hear us, and hang up */
    a = come_back(a, false);
    b = come_back(b, false);
    assert_int_equal(8 * MIB, leased());
    t_raw_give(a, run);
    t_raw_ask(b, 28, 0, UINT64_MAX);
    t_raw_expect(b, ZI_MSG_GRANT);
    t_raw_leave(a);
    t_raw_leave(b);
}

/* Supervisor and broker both killed; a broker that starts from nothing inherits pool and
 * table from the jobs. */
static void
from_nothing(void **state)
{
    t_raw *a = t_raw_join(broker.path, "a", 4 * MIB),
          *b = t_raw_join(broker.path, "b", 4 * MIB);

    (void)state;
    t_raw_ask(a, 4, 0, UINT64_MAX);
    zi_run run = t_raw_expect(a, ZI_MSG_GRANT)->grant.runs[0];
    char  *mem = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, a->pool_fd,
                      (off_t)(run.first * 2 * MIB));
    assert_true(mem != MAP_FAILED);
    memset(mem, 0x77, 2 * MIB);
    t_broker_kill_all(&broker);
    assert_int_equal(0, access(broker.path, F_OK)); /* stale */

    options.budget_bytes = 48 * MIB; /* the new one may want another budget */
    t_broker_start(&broker, broker.path, &options);
    t_broker_expect_log(&broker, "stale socket");
    t_raw *n =
        t_raw_connect(broker.path); /* a newcomer must not be faster than the heirs */
    n->out = (zi_msg){.type = ZI_MSG_HELLO};
    n->out.hello = (zi_msg_hello){.min_version = 1,
                                  .max_version = 1,
                                  .claim_bytes = 2 * MIB,
                                  .weight_milli = 1};
    t_raw_send(n);
    b = come_back(b, false);
    assert_int_equal(-1, t_raw_recv(n, 100));
    a = come_back(a, false);
    t_raw_expect(n, ZI_MSG_WELCOME);
    assert_int_equal(8 * MIB, leased());
    for (size_t i = 0; i < 2 * MIB; i += 4096) assert_int_equal(0x77, mem[i]);
    int32_t probe = (int32_t)t_rand();
    memcpy(mem, &probe, sizeof probe); /* the newcomer's pool is the same memory */
    int32_t seen = 0;
    assert_int_equal(sizeof seen,
                     pread(n->pool_fd, &seen, sizeof seen, (off_t)(run.first * 2 * MIB)));
    assert_int_equal(probe, seen);
    munmap(mem, 2 * MIB);
    t_raw_ask(b, 10, 0, UINT64_MAX);
    t_raw_expect(b, ZI_MSG_GRANT);
    t_raw_leave(a);
    t_raw_leave(b);
    t_raw_leave(n);
}

/* A second broker on the same socket is refused, and does no harm to the first. */
static void
second_broker(void **state)
{
    zi_broker_options opt = options;
    zi_estate        *e = NULL;

    (void)state;
    opt.socket_path = broker.path;
    expect_status(ZICO_E_EXISTS, zi_estate_open(&opt, &e));
    assert_null(e);
    assert_int_equal(0, leased());
}

/* -- many kills ---------------------------------------------------------------------------- */

/* What one worker holds: runs with a pattern in the first and last word of each region. */
typedef struct worker {
    t_raw   *r;
    char    *pool;
    zi_run   held[8];
    size_t   n_held;
    uint64_t mark;
    uint32_t pending; /* seq of a LEASE without an answer; 0: none */
    uint32_t pending_n;
} worker;

static uint64_t *
word(worker *w, uint32_t region, bool last)
{
    return (uint64_t *)(w->pool + region * 2 * MIB + (last ? 2 * MIB - 8 : 0));
}

static void
paint(worker *w, zi_run run)
{
    for (uint32_t i = run.first; i < run.first + run.n; i++)
        *word(w, i, false) = *word(w, i, true) = w->mark ^ i;
}

static bool
intact(worker *w)
{
    for (size_t k = 0; k < w->n_held; k++)
        for (uint32_t i = w->held[k].first; i < w->held[k].first + w->held[k].n; i++)
            if (*word(w, i, false) != (w->mark ^ i) || *word(w, i, true) != (w->mark ^ i))
                return false;
    return true;
}

static bool
holds(const worker *w, uint32_t region)
{
    for (size_t k = 0; k < w->n_held; k++)
        if (region - w->held[k].first < w->held[k].n) return true;
    return false;
}

/* Send without minding whether anybody is there. */
static bool
try_send(worker *w)
{
    unsigned char buf[1024];
    size_t        len;
    if (zi_wire_encode(&w->r->out, 1, buf, sizeof buf, &len) < 0) _exit(90);
    long rc;
    while ((rc = t_raw_send_bytes(w->r, buf, len)) == -EAGAIN) usleep(200);
    return rc >= 0;
}

static bool
send_lease(worker *w)
{
    w->r->out = (zi_msg){.type = ZI_MSG_LEASE, .seq = w->pending};
    w->r->out.lease = (zi_msg_lease){.n_regions = w->pending_n, .wait_ns = UINT64_MAX};
    return try_send(w);
}

/* As the table's page prescribes: ask again for what has no answer, return what the table
 * says is ours though we do not hold it. */
static void
reconnect(worker *w)
{
    t_raw *r = t_raw_connect(broker.path);

    while (!t_raw_try_rejoin(r, w->r, false)) { /* killed again */
        t_raw_close(r);
        r = t_raw_connect(broker.path);
    }
    t_raw_close(w->r);
    w->r = r;
    const zi_table_region *t = zi_table_regions(r->table);
    for (uint32_t i = 0; i < r->welcome.n_regions; i++) {
        if (zi_table_owner_row(t[i].owner) != r->welcome.job) {
            if (holds(w, i)) _exit(91); /* a lease was lost */
            continue;
        }
        if (holds(w, i) || (w->pending && t[i].seq == w->pending)) continue;
        r->out =
            (zi_msg){.type = ZI_MSG_RETURN, .give_back = {.n_runs = 1, .runs = {{i, 1}}}};
        if (!try_send(w)) return; /* gone again: the caller notices */
    }
    if (w->pending) send_lease(w);
}

/* Reads until the pending lease is answered; false: the broker is gone. */
static bool
await_grant(worker *w)
{
    for (;;) {
        int got = t_raw_recv(w->r, 60000);
        if (got < 0) _exit(92); /* hangs */
        if (got == 0) return false;
        if (w->r->in.type == ZI_MSG_REFUSE) _exit(93);
        if (w->r->in.type == ZI_MSG_DENY) {
            w->pending = 0;
            return true;
        }
        if (w->r->in.type != ZI_MSG_GRANT || w->r->in.seq != w->pending) continue;
        const zi_msg_grant *g = &w->r->in.grant;
        uint32_t            n = 0;
        for (uint32_t i = 0; i < g->n_runs; i++) {
            n += g->runs[i].n;
            if (w->n_held < 8) w->held[w->n_held++] = g->runs[i];
            paint(w, g->runs[i]);
        }
        if (n != w->pending_n || g->more) _exit(94);
        w->pending = 0;
        return true;
    }
}

static _Noreturn void
work(unsigned id, int stop_fd)
{
    worker w = {.mark = (id + 1) * 0x9e3779b97f4a7c15u};
    char   name[16];

    t_reseed(t_seed() + id);
    w.r = t_raw_connect(broker.path);
    snprintf(name, sizeof name, "w%u", id);
    t_raw_hello(w.r, name, 2 * MIB);
    w.pool = mmap(NULL, w.r->welcome.n_regions * 2 * MIB, PROT_READ | PROT_WRITE,
                  MAP_SHARED, w.r->pool_fd, 0);
    if (w.pool == MAP_FAILED) _exit(95);
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    while (poll(&p, 1, 0) == 0) {
        if (!intact(&w)) _exit(96); /* somebody wrote into our memory */
        if (w.pending == 0 && w.n_held < 3 && t_rand_below(2)) {
            w.pending = ++w.r->seq;
            w.pending_n = 1 + (uint32_t)t_rand_below(3);
            send_lease(&w);
        }
        if (w.pending && !await_grant(&w)) {
            reconnect(&w);
            continue;
        }
        if (w.n_held > 0 && t_rand_below(2)) {
            zi_run run = w.held[--w.n_held];
            w.r->out = (zi_msg){.type = ZI_MSG_RETURN};
            w.r->out.give_back = (zi_msg_give_back){.n_runs = 1, .runs = {run}};
            if (!try_send(&w)) reconnect(&w);
        }
    }
    _exit(intact(&w) ? 0 : 97);
}

/* Kill the broker again and again while workers take, fill, check and return memory: no
 * survivor's memory is touched, no lease is lost or doubled, nobody hangs, and in the end
 * everything is accounted for. */
static void
many_kills(void **state)
{
    enum { N = 4 };
    pid_t    pid[N];
    int      stop_pipe[2];
    unsigned n_kills = t_rounds(30, 500);

    (void)state;
    assert_int_equal(0, pipe(stop_pipe));
    for (unsigned i = 0; i < N; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            close(stop_pipe[1]);
            work(i, stop_pipe[0]);
        }
    }
    for (unsigned k = 0; k < n_kills; k++) {
        usleep(1000 + (useconds_t)t_rand_below(40000));
        t_broker_kill_child(&broker);
    }
    close(stop_pipe[1]); /* all see its end */
    for (unsigned i = 0; i < N; i++) {
        int status;
        assert_int_equal(pid[i], waitpid(pid[i], &status, 0));
        assert_true(WIFEXITED(status));
        assert_int_equal(0, WEXITSTATUS(status));
    }
    close(stop_pipe[0]);
    for (int i = 0; i < 400 && leased() != 0; i++) usleep(5000);
    assert_int_equal(0, leased());
}

int
main(void)
{
#define story(f) cmocka_unit_test_setup_teardown(f, start, t_broker_teardown)
    const struct CMUnitTest tests[] = {
        story(leases_survive),  story(request_in_flight), story(grant_not_heard),
        story(return_lost),     story(steps_go_on),       story(claims_survive),
        story(death_meanwhile), story(supervisor_dies),   story(from_nothing),
        story(second_broker),   story(many_kills),
    };
    signal(SIGPIPE, SIG_IGN);
    return t_main(tests);
}

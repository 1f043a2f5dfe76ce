/* broker_peers_test.c -- a broker among good and bad neighbours.    timeout: 120 */
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
                                  .policy = "spatial"};
    t_broker_open(&broker, &options);
    return 0;
}

/* After each story a newcomer is served: the broker lives and nobody's memory is lost. */
static void
all_is_well(void)
{
    zi_msg_status s;

    for (int i = 0; i < 100; i++) { /* what has just died may take a turn */
        t_raw_status(broker.path, &s, NULL, 0);
        if (s.n_jobs == 0) break;
        usleep(10000);
    }
    assert_int_equal(0, s.n_jobs);
    assert_int_equal(0, s.leased_bytes);
    assert_int_equal(0, s.private_bytes);
    assert_int_equal(0, s.n_over);
    t_raw *r = t_raw_join(broker.path, "newcomer", 8 * MIB);
    t_raw_ask(r, 1, 0, UINT64_MAX);
    assert_int_equal(2 * MIB, t_raw_expect(r, ZI_MSG_GRANT)->grant.size_bytes);
    t_raw_leave(r);
}

/* A lease is in the table before the job hears of it, and gone after its return; private
 * bytes are charged and uncharged; names are made unique. */
static void
a_jobs_life(void **state)
{
    zi_msg_status     s;
    zi_msg_status_job job[2];

    (void)state;
    t_raw *a = t_raw_join(broker.path, "train", 8 * MIB),
          *b = t_raw_join(broker.path, "train", 8 * MIB);
    assert_string_equal("train", a->welcome.name);
    assert_string_equal("train-2", b->welcome.name);
    assert_int_equal(64 * MIB, a->welcome.budget_bytes);

    t_raw_step(a);
    uint32_t seq = t_raw_ask(a, 3, 1, UINT64_MAX);
    zi_msg  *g = t_raw_expect(a, ZI_MSG_GRANT);
    assert_int_equal(seq, g->seq);
    assert_int_equal(1, g->grant.n_runs); /* adjacent */
    zi_run run = g->grant.runs[0];
    assert_int_equal(3, run.n);
    for (uint32_t i = run.first; i < run.first + 3; i++)
        assert_int_equal(a->welcome.job,
                         zi_table_owner_row(zi_table_regions(b->table)[i].owner));

    a->out =
        (zi_msg){.type = ZI_MSG_CHARGE, .seq = ++a->seq, .charge = {.size_bytes = 5000}};
    t_raw_send(a);
    assert_int_equal(5000, t_raw_expect(a, ZI_MSG_GRANT)->grant.size_bytes);
    t_raw_status(broker.path, &s, job, 2);
    assert_int_equal(2, s.n_jobs);
    assert_int_equal(6 * MIB, s.leased_bytes);
    assert_int_equal(5000, s.private_bytes);
    assert_int_equal(6 * MIB, job[0].step_bytes);
    assert_int_equal(5000, job[0].private_bytes);
    assert_true(s.n_decisions >= 4);

    t_raw_give(a, run);
    a->out = (zi_msg){.type = ZI_MSG_UNCHARGE, .uncharge = {.size_bytes = 5000}};
    t_raw_send(a);
    t_raw_step_end(a);
    t_raw_leave(a);
    t_raw_leave(b);
    all_is_well();
}

/* Bytes that are no message, a message out of place, one too long: told, dropped, logged. */
static void
garbage(void **state)
{
    static char big[ZI_WIRE_MAX + 100];
    t_raw      *r = t_raw_connect(broker.path),
          *bystander = t_raw_join(broker.path, "bystander", 8 * MIB);

    (void)state;
    assert_int_equal(7, t_raw_send_bytes(r, "garbage", 7));
    t_raw_expect_end(r, ZICO_E_PROTO);
    t_raw_close(r);
    t_broker_expect_log(&broker, "header.magic");

    r = t_raw_connect(broker.path);
    t_raw_ask(r, 1, 1, 0); /* LEASE before HELLO */
    t_raw_expect_end(r, ZICO_E_PROTO);
    t_raw_close(r);

    r = t_raw_connect(broker.path);
    t_raw_hello(r, "confused", 8 * MIB);
    r->out = (zi_msg){.type = ZI_MSG_GO};
    t_raw_send(r);
    t_raw_expect_end(r, ZICO_E_PROTO);
    t_raw_close(r);

    r = t_raw_connect(broker.path);
    if (t_raw_send_bytes(r, big, sizeof big) == (long)sizeof big)
        t_raw_expect_end(r, ZICO_E_PROTO);
    t_raw_close(r);

    r = t_raw_connect(broker.path);
    r->out = (zi_msg){.type = ZI_MSG_HELLO};
    r->out.hello = (zi_msg_hello){.min_version = 9, .max_version = 12, .weight_milli = 1};
    t_raw_send(r);
    t_raw_expect_end(r, ZICO_E_VERSION);
    t_raw_close(r);

    t_raw_ask(bystander, 1, 0, UINT64_MAX); /* did not notice */
    t_raw_expect(bystander, ZI_MSG_GRANT);
    t_raw_leave(bystander);
}

/* Random bytes and flipped messages, many times over: the broker lives. */
static void
noise(void **state)
{
    unsigned char bytes[300];

    (void)state;
    for (unsigned k = 0; k < t_rounds(200, 5000); k++) {
        t_raw *r = t_raw_connect(broker.path);
        /* whose connection breaks is kept until its process, this one, ends: not too many */
        if (k % 2 && k < 400) t_raw_hello(r, "noisy", 2 * MIB);
        size_t n = 1 + t_rand_below(sizeof bytes);
        for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)t_rand();
        if (n > 16 && k % 3) { /* a good header in front */
            uint32_t head[4] = {ZI_WIRE_MAGIC, 1 | (uint32_t)t_rand_below(50) << 16,
                                (uint32_t)n, (uint32_t)t_rand()};
            memcpy(bytes, head, sizeof head);
        }
        t_raw_send_bytes(r, bytes, n);
        t_raw_close(r);
    }
}

/* Regions that are not its own, more private bytes than it was charged, regions beyond the
 * pool: dropped; and those whose regions they were keep them. */
static void
lies(void **state)
{
    t_raw *honest = t_raw_join(broker.path, "honest", 8 * MIB);

    (void)state;
    t_raw_ask(honest, 2, 0, UINT64_MAX);
    zi_run run = t_raw_expect(honest, ZI_MSG_GRANT)->grant.runs[0];

    zi_run lie[] = {run,
                    {run.first, 1},
                    {honest->welcome.n_regions - 1, 2},
                    {0, UINT32_MAX}};
    for (size_t i = 0; i < sizeof lie / sizeof lie[0]; i++) {
        t_raw *r = t_raw_join(broker.path, "liar", 2 * MIB);
        t_raw_give(r, lie[i]);
        t_raw_expect_end(r, ZICO_E_PROTO);
        t_raw_close(r);
    }
    t_raw *r = t_raw_join(broker.path, "liar", 2 * MIB);
    r->out = (zi_msg){.type = ZI_MSG_UNCHARGE, .uncharge = {.size_bytes = 1}};
    t_raw_send(r);
    t_raw_expect_end(r, ZICO_E_PROTO);
    t_raw_close(r);
    t_broker_expect_log(&broker, "returned regions that are not its own");
    assert_int_equal(honest->welcome.job,
                     zi_table_owner_row(
                         zi_table_regions(honest->table)[run.first].owner));
    t_raw_leave(honest);
}

/* Somebody who asks and never reads is dropped when too much has piled up; who floods with
 * requests, too; neighbours are served meanwhile. */
static void
never_reads(void **state)
{
    t_raw *deaf = t_raw_connect(broker.path),
          *other = t_raw_join(broker.path, "other", 4 * MIB);

    (void)state;
    deaf->out = (zi_msg){.type = ZI_MSG_STATUS_ASK, .seq = 1};
    deaf->out.status_ask = (zi_msg_status_ask){.min_version = 1, .max_version = 1};
    unsigned char buf[128];
    size_t        len;
    expect_ok(zi_wire_encode(&deaf->out, 1, buf, sizeof buf, &len));
    bool dropped = false;
    for (unsigned k = 0; k < 200000 && !dropped; k++) {
        long rc = t_raw_send_bytes(deaf, buf, len);
        if (rc == -EAGAIN) usleep(100);
        dropped = rc < 0 && rc != -EAGAIN;
        if (k % 1000 == 0) {
            t_raw_ask(other, 1, 0, UINT64_MAX);
            zi_msg *g = t_raw_expect(other, ZI_MSG_GRANT);
            t_raw_give(other, g->grant.runs[0]);
        }
    }
    assert_true(dropped);
    t_broker_expect_log(&broker, "does not read");
    t_raw_close(deaf);
    t_raw_leave(other);
}

static void
flood_of_requests(void **state)
{
    t_raw *r = t_raw_connect(broker.path),
          *holder = t_raw_join(broker.path, "holder", 2 * MIB);

    (void)state;
    t_raw_ask(holder, 28, 0, UINT64_MAX); /* so that what the other asks must wait */
    t_raw_expect(holder, ZI_MSG_GRANT);
    t_raw_hello(r, "greedy", 2 * MIB);
    for (int i = 0; i < 200; i++) {
        unsigned char buf[64];
        size_t        len;
        r->out = (zi_msg){.type = ZI_MSG_LEASE, .seq = ++r->seq};
        r->out.lease = (zi_msg_lease){.n_regions = 8, .cls = 0, .wait_ns = UINT64_MAX};
        expect_ok(zi_wire_encode(&r->out, 1, buf, sizeof buf, &len));
        long rc;
        while ((rc = t_raw_send_bytes(r, buf, len)) == -EAGAIN) usleep(100);
        if (rc < 0) break;
    }
    t_raw_expect_end(r, ZICO_E_LIMIT);
    t_raw_close(r);
    t_broker_expect_log(&broker, "floods");
    t_raw_leave(holder);
}

/* More messages a second than allowed: dropped. */
static void
flood_of_messages(void **state)
{
    t_broker          second;
    zi_broker_options opt = options;
    const char       *where = t_path(t_tmpdir(), "f.sock");

    (void)state;
    opt.flood_per_s = 500;
    t_broker_start(&second, where, &opt);
    t_raw *r = t_raw_connect(where);
    t_raw_hello(r, "talker", 2 * MIB);
    for (int i = 0; i < 700; i++) {
        unsigned char buf[64];
        size_t        len;
        r->out = (zi_msg){.type = ZI_MSG_NOTE, .note = {.text = "hello"}};
        expect_ok(zi_wire_encode(&r->out, 1, buf, sizeof buf, &len));
        long rc;
        while ((rc = t_raw_send_bytes(r, buf, len)) == -EAGAIN) usleep(100);
        if (rc < 0) break;
    }
    t_raw_expect_end(r, ZICO_E_LIMIT);
    t_raw_close(r);
    t_broker_stop(&second);
}

/* Nobody can shrink or grow the pool, nor write or map writable the lease table. */
static void
seals_hold(void **state)
{
    t_raw *r = t_raw_join(broker.path, "vandal", 2 * MIB);
    char   self[64];

    (void)state;
    assert_int_equal(-1, ftruncate(r->pool_fd, 0));
    assert_int_equal(-1, ftruncate(r->pool_fd, 1ll << 40));
    assert_int_equal(-1, fcntl(r->pool_fd, F_ADD_SEALS, F_SEAL_WRITE));
    assert_int_equal(-1, ftruncate(r->table_fd, 0));
    assert_int_equal(-1, pwrite(r->table_fd, "x", 1, 0));
    assert_ptr_equal(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                                      r->table_fd, 0));
    snprintf(self, sizeof self, "/proc/self/fd/%d", r->table_fd);
    int again = open(self, O_RDWR | O_CLOEXEC);
    assert_int_equal(-1, pwrite(again, "x", 1, 0));
    assert_ptr_equal(MAP_FAILED,
                     mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0));
    if (again >= 0) close(again);
    t_raw_leave(r);
}

/* Asking for more than can ever be had is refused at once, with the numbers; a wait with a
 * deadline ends; a wait for what another holds ends when it is returned. */
static void
refusals_and_waits(void **state)
{
    t_raw *a = t_raw_join(broker.path, "a", 2 * MIB),
          *b = t_raw_join(broker.path, "b", 2 * MIB);

    (void)state;
    t_raw_ask(a, 33, 0, UINT64_MAX);
    zi_msg *d = t_raw_expect(a, ZI_MSG_DENY);
    assert_int_equal(ZICO_E_BUDGET, d->deny.status);
    assert_int_equal(66 * MIB, d->deny.asked_bytes);
    assert_non_null(strstr(d->deny.text, "64 MiB"));

    t_raw_ask(a, 30, 0, UINT64_MAX);
    t_raw_expect(a, ZI_MSG_GRANT);
    uint32_t seq = t_raw_ask(b, 8, 0, 0); /* ask once */
    d = t_raw_expect(b, ZI_MSG_DENY);
    assert_int_equal(seq, d->seq);
    assert_int_equal(ZICO_E_BUSY, d->deny.status);
    t_raw_ask(b, 8, 0, 50000000); /* 50 ms */
    assert_int_equal(ZICO_E_TIMEOUT, t_raw_expect(b, ZI_MSG_DENY)->deny.status);

    seq = t_raw_ask(b, 8, 0, UINT64_MAX);
    assert_int_equal(1, t_raw_recv(b, 20000));
    assert_int_equal(ZI_MSG_WAIT, b->in.type); /* told why */
    assert_int_not_equal(ZI_REASON_NONE, b->in.wait.reason);
    zi_msg_status     s;
    zi_msg_status_job job[2];
    t_raw_status(broker.path, &s, job, 2);
    assert_int_not_equal(ZI_REASON_NONE, job[1].reason);
    assert_int_equal(16 * MIB, job[1].asked_bytes);
    t_raw_leave(a);
    assert_int_equal(seq, t_raw_expect(b, ZI_MSG_GRANT)->seq);
    t_raw_leave(b);
}

/* A process that is killed gives everything back, and who waited for it goes on; a process
 * that merely hangs up keeps its leases, and may come back to them. */
static void
death_and_hanging_up(void **state)
{
    int           go[2];
    char          c;
    zi_msg_status s;

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
    assert_int_equal(1, read(go[0], &c, 1));
    t_raw   *heir = t_raw_join(broker.path, "heir", 2 * MIB);
    uint32_t seq = t_raw_ask(heir, 30, 0, UINT64_MAX);
    kill(pid, SIGKILL);
    assert_int_equal(seq, t_raw_expect(heir, ZI_MSG_GRANT)->seq);
    waitpid(pid, NULL, 0);
    close(go[0]);
    close(go[1]);

    close(heir->fd); /* hangs up, but lives */
    heir->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    t_broker_expect_log(&broker, "has hung up");
    t_raw_status(broker.path, &s, NULL, 0);
    assert_int_equal(60 * MIB, s.leased_bytes);
    t_raw *back = t_raw_connect(broker.path);
    t_raw_rejoin(back, heir, false);
    assert_int_equal(heir->welcome.job, back->welcome.job);
    t_raw_close(heir);
    t_raw *thief = t_raw_connect(broker.path); /* the right row, the wrong secret */
    thief->out = (zi_msg){.type = ZI_MSG_REJOIN};
    thief->out.rejoin = (zi_msg_rejoin){.min_version = 1,
                                        .max_version = 1,
                                        .job = back->welcome.job,
                                        .token = back->welcome.token ^ 1};
    t_raw_send(thief);
    t_raw_expect_end(thief, ZICO_E_GONE);
    t_raw_close(thief);
    t_raw_leave(back);
}

/* Budget and limits change live, with revisions; an outdated one is told so. */
static void
limits_change_live(void **state)
{
    t_raw *tool = t_raw_connect(broker.path),
          *job = t_raw_join(broker.path, "job", 2 * MIB);
    zi_msg *m;

    (void)state;
    t_raw_ask(job, 20, 0, UINT64_MAX);
    zi_run             run = t_raw_expect(job, ZI_MSG_GRANT)->grant.runs[0];
    const zi_msg_limit none = {.min_bytes = UINT64_MAX, .max_bytes = UINT64_MAX};

    tool->out = (zi_msg){.type = ZI_MSG_LIMIT, .seq = 1, .limit = none};
    tool->out.limit.budget_bytes = 128 * MIB;
    t_raw_send(tool);
    m = t_raw_expect(tool, ZI_MSG_LIMITED);
    assert_int_equal(ZI_LIMIT_APPLIED, m->limited.outcome);
    assert_int_equal(2, m->limited.revision);
    tool->out.limit.expect_revision = 1;
    t_raw_send(tool);
    assert_int_equal(ZI_LIMIT_STALE, t_raw_expect(tool, ZI_MSG_LIMITED)->limited.outcome);
    tool->out.limit.expect_revision = 2;
    tool->out.limit.budget_bytes = 32 * MIB;
    t_raw_send(tool);
    m = t_raw_expect(tool, ZI_MSG_LIMITED);
    assert_int_equal(ZI_LIMIT_DEFERRED, m->limited.outcome);
    t_raw_give(job, (zi_run){run.first, 10});
    zi_msg_status s;
    for (int i = 0; i < 200; i++) {
        t_raw_status(broker.path, &s, NULL, 0);
        if (s.budget_bytes == 32 * MIB) break;
        usleep(10000);
    }
    assert_int_equal(32 * MIB, s.budget_bytes);

    tool->out = (zi_msg){.type = ZI_MSG_LIMIT, .seq = 2, .limit = none};
    strcpy(tool->out.limit.name, "job");
    tool->out.limit.min_bytes = 40 * MIB;
    t_raw_send(tool);
    assert_int_equal(ZI_LIMIT_CONFLICT,
                     t_raw_expect(tool, ZI_MSG_LIMITED)->limited.outcome);
    tool->out.limit.min_bytes = 4 * MIB;
    tool->out.limit.weight_milli = 2500;
    t_raw_send(tool);
    assert_int_equal(ZI_LIMIT_APPLIED,
                     t_raw_expect(tool, ZI_MSG_LIMITED)->limited.outcome);
    strcpy(tool->out.limit.name, "nobody");
    t_raw_send(tool);
    assert_int_equal(ZICO_E_NOTFOUND, t_raw_expect(tool, ZI_MSG_DENY)->deny.status);
    t_raw_close(tool);
    t_raw_leave(job);
}

static t_raw *
watcher(void)
{
    t_raw *w = t_raw_connect(broker.path);

    w->out = (zi_msg){.type = ZI_MSG_STATUS_ASK, .seq = 3};
    w->out.status_ask =
        (zi_msg_status_ask){.min_version = 1, .max_version = 1, .watch = 1};
    t_raw_send(w);
    assert_int_equal(0, t_raw_expect(w, ZI_MSG_STATUS)->status.n_jobs);
    return w;
}

/* A job that leaves before the next picture is due is seen all the same, with its peak. */
static void
brief_job_is_seen(void **state)
{
    t_raw   *w = watcher();
    uint64_t peak = 0;

    (void)state;
    for (int i = 0; i < 5; i++) { /* the first is a picture of its own, maybe */
        t_raw *job = t_raw_join(broker.path, "brief", 8 * MIB);
        t_raw_ask(job, 3, 0, UINT64_MAX);
        t_raw_expect(job, ZI_MSG_GRANT);
        t_raw_leave(job);
        for (peak = 0; peak != 6 * MIB;) {
            assert_int_equal(1, t_raw_recv(w, 20000));
            if (w->in.type == ZI_MSG_STATUS_JOB) peak = w->in.status_job.peak_bytes;
        }
    }
    t_raw_close(w);
}

/* A watcher sees changes, at most 20 a second, without asking again. */
static void
watching(void **state)
{
    t_raw *w = watcher(), *job = t_raw_connect(broker.path);

    (void)state;
    t_raw_hello(job, "job", 2 * MIB);
    for (int i = 0; i < 1000; i++) {
        t_raw_ask(job, 1, 0, UINT64_MAX);
        t_raw_give(job, t_raw_expect(job, ZI_MSG_GRANT)->grant.runs[0]);
    }
    t_raw_ask(job, 4, 0, UINT64_MAX);
    t_raw_expect(job, ZI_MSG_GRANT);
    unsigned n = 0;
    uint64_t leased = 0;
    while (leased != 8 * MIB) {
        assert_int_equal(1, t_raw_recv(w, 20000));
        if (w->in.type != ZI_MSG_STATUS) continue;
        assert_int_equal(3, w->in.seq);
        leased = w->in.status.leased_bytes;
        n++;
    }
    assert_in_range(n, 1, 500); /* not one for each of the 2000 changes */
    t_raw_close(w);
    t_raw_leave(job);
}

int
main(void)
{
#define story(f) cmocka_unit_test_setup_teardown(f, start, t_broker_teardown)
    const struct CMUnitTest tests[] = {
        story(a_jobs_life),
        story(garbage),
        story(noise),
        story(lies),
        story(never_reads),
        story(flood_of_requests),
        story(flood_of_messages),
        story(seals_hold),
        story(refusals_and_waits),
        story(death_and_hanging_up),
        story(limits_change_live),
        story(watching),
        story(brief_job_is_seen),
    };
    signal(SIGPIPE, SIG_IGN);
    return t_main(tests);
}

/* broker_fail_test.c -- the n-th system call and the n-th allocation of a broker fail, for
 * every n: a status comes back or a peer is dropped; nothing leaks, nothing is lost, and the
 * books agree with the table after every turn.    timeout: 240 */
#include "broker/broker.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/log.h"
#include "broker/inside.h"
#include "os/fake.h"
#include "test.h"

#define MIB (1ull << 20)

static unsigned
open_files(void)
{
    unsigned n = 0;
    DIR     *d = opendir("/proc/self/fd");

    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void
no_log(zi_log_level level, const char *line, size_t n, void *user)
{
    (void)level, (void)line, (void)n, (void)user;
}

/* -- a client that minds nothing ------------------------------------------------------------- */

typedef struct client {
    int            fd;
    bool           welcomed;
    zico_status    refused;
    zi_run         held;
    uint32_t       seq;
    zi_msg_welcome welcome;
    int            fds[2];
    size_t         n_fds;
} client;

static zi_msg        msg;
static unsigned char buf[ZI_WIRE_MAX];

static void
say(client *c)
{
    const zi_os *os = zi_os_real();
    size_t       len;

    expect_ok(zi_wire_encode(&msg, 1, buf, sizeof buf, &len));
    if (c->fd >= 0)
        os->send_msg(os, c->fd, buf, len, c->fds,
                     msg.type == ZI_MSG_REJOIN ? c->n_fds : 0, MSG_DONTWAIT);
}

/* Everything that has arrived; keeps what the story needs. */
static void
listen_to(client *c)
{
    const zi_os *os = zi_os_real();

    while (c->fd >= 0) {
        int    fds[2];
        size_t n_fds = 2;
        long   n = os->recv_msg(os, c->fd, buf, sizeof buf, fds, &n_fds, MSG_DONTWAIT);
        if (n <= 0) return;
        expect_ok(zi_wire_decode(buf, (size_t)n, 0, &msg, NULL));
        if (msg.type == ZI_MSG_WELCOME) {
            assert_int_equal(2, n_fds);
            for (size_t i = 0; i < c->n_fds; i++) close(c->fds[i]);
            memcpy(c->fds, fds, sizeof fds);
            c->n_fds = 2;
            c->welcome = msg.welcome;
            c->welcomed = true;
        }
        if (msg.type == ZI_MSG_REFUSE) c->refused = (zico_status)msg.refuse.status;
        if (msg.type == ZI_MSG_GRANT && msg.grant.n_runs > 0) c->held = msg.grant.runs[0];
    }
}

static void
hang_up(client *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* -- the story --------------------------------------------------------------------------------- */

typedef struct story {
    zi_broker  *b;
    zico_status st; /* the first failure of a turn ends the broker's part */
    client      a, c;
} story;

static void
turns(story *s, int n)
{
    for (; n > 0 && s->st >= 0; n--) s->st = zi_broker_turn(s->b, 0);
    if (s->st >= 0 && !s->b->holding)
        expect_ok(zi_leases_verify(s->b->estate->leases, zi_desk_ledger(s->b->desk)));
    listen_to(&s->a);
    listen_to(&s->c);
}

static void
call(client *c, const char *path)
{
    const zi_os *os = zi_os_real();

    c->fd = (int)os->connect_to(os, path);
    c->n_fds = 0;
}

static void
hello(story *s, client *c, const char *name)
{
    msg = (zi_msg){.type = ZI_MSG_HELLO};
    msg.hello = (zi_msg_hello){.min_version = 1,
                               .max_version = 1,
                               .features = ZI_FEATURE_STEPS,
                               .claim_bytes = 8 * MIB,
                               .weight_milli = 1000};
    strcpy(msg.hello.name, name);
    strcpy(msg.hello.shape_key, "shape");
    say(c);
    turns(s, 2);
}

static void
work(story *s, client *c)
{
    msg = (zi_msg){.type = ZI_MSG_STEP_ASK, .seq = ++c->seq};
    say(c), turns(s, 1);
    msg = (zi_msg){.type = ZI_MSG_LEASE, .seq = ++c->seq};
    msg.lease = (zi_msg_lease){.n_regions = 2, .cls = 1, .wait_ns = UINT64_MAX};
    say(c), turns(s, 1);
    msg = (zi_msg){.type = ZI_MSG_CHARGE,
                   .seq = ++c->seq,
                   .charge = {.size_bytes = 9 * MIB}};
    say(c), turns(s, 1);
    if (c->held.n > 0) {
        msg = (zi_msg){.type = ZI_MSG_RETURN};
        msg.give_back = (zi_msg_give_back){.n_runs = 1, .runs = {c->held}};
        say(c), turns(s, 1);
    }
    msg = (zi_msg){.type = ZI_MSG_TIDE};
    msg.tide = (zi_msg_tide){.last = 1, .length_ns = 100, .n_points = 2};
    msg.tide.points[0] = (zi_wire_point){1, 4096};
    msg.tide.points[1] = (zi_wire_point){50, -4096};
    say(c);
    msg = (zi_msg){.type = ZI_MSG_STEP_END, .step_end = {.loss_micro = 5}};
    say(c), turns(s, 1);
    msg = (zi_msg){.type = ZI_MSG_LEASE, .seq = ++c->seq};
    msg.lease = (zi_msg_lease){.n_regions = 3, .cls = 0, .wait_ns = UINT64_MAX};
    say(c), turns(s, 1);
}

static void
tools(story *s, client *t)
{
    msg = (zi_msg){.type = ZI_MSG_STATUS_ASK, .seq = 1};
    msg.status_ask = (zi_msg_status_ask){.min_version = 1, .max_version = 1, .watch = 1};
    say(t), turns(s, 1);
    msg = (zi_msg){.type = ZI_MSG_LIMIT, .seq = 2};
    msg.limit = (zi_msg_limit){.budget_bytes = 40 * MIB,
                               .min_bytes = UINT64_MAX,
                               .max_bytes = UINT64_MAX};
    say(t), turns(s, 1);
    msg = (zi_msg){.type = ZI_MSG_CONTROL, .seq = 3, .control = {.name = "a", .verb = 0}};
    say(t), turns(s, 1);
}

/* One broker's life on that estate. */
static void
first_life(story *s, const zi_broker_options *opt, zi_estate *e)
{
    s->st = zi_broker_new(opt, e, &s->b);
    if (s->st < 0) return;
    call(&s->a, zi_broker_socket(s->b));
    turns(s, 1);
    hello(s, &s->a, "a");
    if (s->a.welcomed) work(s, &s->a);
    call(&s->c, zi_broker_socket(s->b));
    tools(s, &s->c);
    hang_up(&s->c);
    turns(s, 1);
    zi_broker_free(s->b);
    s->b = NULL;
}

/* Its successor: the job rejoins, works, leaves; somebody sends garbage. */
static void
second_life(story *s, const zi_broker_options *opt, zi_estate *e)
{
    client old = s->a;

    s->st = zi_broker_new(opt, e, &s->b);
    if (s->st < 0) return;
    hang_up(&s->a);
    s->a.fd = (int)zi_os_real()->connect_to(zi_os_real(), zi_broker_socket(s->b));
    turns(s, 1);
    if (old.welcomed) {
        s->a.welcomed = false;
        msg = (zi_msg){.type = ZI_MSG_REJOIN};
        msg.rejoin = (zi_msg_rejoin){.min_version = 1,
                                     .max_version = 1,
                                     .job = old.welcome.job,
                                     .token = old.welcome.token};
        say(&s->a);
        turns(s, 2);
        if (s->a.welcomed) work(s, &s->a);
        msg = (zi_msg){.type = ZI_MSG_LEAVE};
        say(&s->a), turns(s, 2);
    }
    call(&s->c, zi_broker_socket(s->b));
    if (s->c.fd >= 0) send(s->c.fd, "garbage", 7, MSG_DONTWAIT | MSG_NOSIGNAL);
    turns(s, 2);
    zi_broker_free(s->b);
    s->b = NULL;
}

static void
end(story *s)
{
    zi_broker_free(s->b);
    hang_up(&s->a);
    hang_up(&s->c);
    for (size_t i = 0; i < s->a.n_fds; i++) close(s->a.fds[i]);
    for (size_t i = 0; i < s->c.n_fds; i++) close(s->c.fds[i]);
}

static void
tell(const zi_os *os, const char *path)
{
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.os = os,
                             .socket_path = path,
                             .budget_bytes = 32 * MIB,
                             .region_bytes = 2 * MIB,
                             .policy = "spatial",
                             .tides_dir = t_path(path, "../tides")};
    zi_estate        *e;

    if (zi_estate_open(&opt, &e) >= 0) {
        first_life(&s, &opt, e);
        zi_broker_free(s.b);
        s.b = NULL;
        second_life(&s, &opt, e);
        end(&s);
        zi_estate_close(e, true);
    }
    unlink(path); /* if the failing call was the one that removes it */
}

static const char *
fresh_path(void)
{
    static char path[108];
    if (!*path) snprintf(path, sizeof path, "%s", t_path(t_tmpdir(), "b.sock"));
    return path;
}

/* Every system call, with two kinds of failure. */
static void
every_call(void **state)
{
    static const int err[] = {ENOMEM, EMFILE, EAGAIN};
    zi_fake         *f;

    (void)state;
    tell(zi_os_real(), fresh_path()); /* whatever is made once is made now */
    expect_ok(zi_fake_new(&f));
    unsigned files = open_files();
    int64_t  blocks = zi_alloc_n_live();
    for (size_t k = 0; k < sizeof err / sizeof err[0]; k++) {
        uint64_t n = 0;
        for (;; n++) {
            zi_fake_fail_at(f, NULL, n, err[k]);
            tell(zi_fake_os(f), fresh_path());
            assert_int_equal(files, open_files());
            assert_int_equal(blocks, zi_alloc_n_live());
            if (!zi_fake_failed(f)) break;
        }
        assert_true(n > 100); /* the story is long enough to mean something */
    }
    zi_fake_free(f);
}

/* Every allocation. */
static void
every_allocation(void **state)
{
    unsigned files = open_files();
    int64_t  blocks = zi_alloc_n_live();
    uint64_t n = 1;

    (void)state;
    for (;; n++) {
        zi_alloc_fail_at(n);
        tell(zi_os_real(), fresh_path());
        int failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        assert_int_equal(files, open_files());
        assert_int_equal(blocks, zi_alloc_n_live());
        if (!failed) break;
    }
    assert_true(n > 10);
}

/* Nobody but our own user gets in. */
static void
other_users(void **state)
{
    zi_fake          *f;
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.socket_path = fresh_path(),
                             .budget_bytes = 32 * MIB,
                             .policy = "spatial"};

    (void)state;
    expect_ok(zi_fake_new(&f));
    opt.os = zi_fake_os(f);
    expect_ok(zi_broker_new(&opt, NULL, &s.b));
    zi_fake_peer(f, getpid(), geteuid() + 1);
    call(&s.a, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.a, "stranger");
    assert_false(s.a.welcomed);
    assert_int_equal(ZICO_E_DENIED, s.a.refused);
    assert_int_equal(0, s.b->n_peers);
    zi_fake_peer(f, 0, 0);
    call(&s.c, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.c, "friend");
    assert_true(s.c.welcomed);
    end(&s);
    zi_fake_free(f);
}

/* The broker ends so long after its last job, by the clock it was given. */
static void
lingers(void **state)
{
    zi_fake          *f;
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.socket_path = fresh_path(),
                             .budget_bytes = 32 * MIB,
                             .policy = "spatial",
                             .linger_ns = 10000000000u};

    (void)state;
    expect_ok(zi_fake_new(&f));
    opt.os = zi_fake_os(f);
    expect_ok(zi_broker_new(&opt, NULL, &s.b));
    call(&s.a, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.a, "a");
    zi_fake_advance(f, 60000000000u);
    turns(&s, 1);
    assert_false(s.b->ending); /* somebody is there */
    msg = (zi_msg){.type = ZI_MSG_LEAVE};
    say(&s.a), turns(&s, 1);
    zi_fake_advance(f, 9000000000u);
    turns(&s, 1);
    assert_false(s.b->ending);
    zi_fake_advance(f, 1000000000u);
    turns(&s, 1);
    assert_true(s.b->ending);
    expect_ok(zi_broker_run(s.b));
    end(&s);
    zi_fake_free(f);
}

/* Without a descriptor for a newcomer the loop does not spin, and lets it in later. */
static void
no_descriptor_left(void **state)
{
    zi_fake          *f;
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.socket_path = fresh_path(),
                             .budget_bytes = 32 * MIB,
                             .policy = "spatial"};

    (void)state;
    expect_ok(zi_fake_new(&f));
    opt.os = zi_fake_os(f);
    expect_ok(zi_broker_new(&opt, NULL, &s.b));
    call(&s.a, zi_broker_socket(s.b));
    zi_fake_fail_at(f, "accept_one", 0, EMFILE);
    turns(&s, 1);
    assert_int_not_equal(0, s.b->deaf_until_ns);
    turns(&s, 5);
    assert_int_equal(1, zi_fake_calls(f)); /* not asked again meanwhile */
    assert_int_equal(0, s.b->n_peers);
    zi_fake_advance(f, 200000000u);
    turns(&s, 2);
    assert_int_equal(0, s.b->deaf_until_ns);
    hello(&s, &s.a, "patient");
    assert_true(s.a.welcomed);
    end(&s);
    zi_fake_free(f);
}

/* More connections than places: those that never said anything go first. */
static void
more_than_places(void **state)
{
    enum { N = ZI_PEERS_MAX + 20 };
    static int        fd[N];
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.socket_path = fresh_path(),
                             .budget_bytes = 32 * MIB,
                             .policy = "spatial"};
    struct rlimit     r;
    const zi_os      *os = zi_os_real();

    (void)state;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &r));
    if (r.rlim_max < 3 * N) skip();
    r.rlim_cur = r.rlim_max;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &r));
    expect_ok(zi_broker_new(&opt, NULL, &s.b));
    call(&s.a, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.a, "member");
    assert_true(s.a.welcomed);
    for (int i = 0; i < N; i++) {
        fd[i] = (int)os->connect_to(os, zi_broker_socket(s.b));
        assert_true(fd[i] >= 0);
        if (i % 8 == 0) turns(&s, 1);
    }
    turns(&s, 3);
    assert_int_equal(ZI_PEERS_MAX, s.b->n_peers);
    call(&s.c, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.c, "latecomer");
    assert_true(s.c.welcomed);
    assert_true(s.b->member[s.a.welcome.job].live); /* who has joined stays */
    for (int i = 0; i < N; i++) close(fd[i]);
    end(&s);
}

/* A listed job that lives but never reports holds the others up for so long and no longer;
 * its leases stay. */
static void
one_that_never_reports(void **state)
{
    zi_fake          *f;
    story             s = {.a = {.fd = -1}, .c = {.fd = -1}};
    zi_broker_options opt = {.socket_path = fresh_path(),
                             .budget_bytes = 32 * MIB,
                             .region_bytes = 2 * MIB,
                             .policy = "spatial",
                             .rejoin_wait_ns = 5000000000u};
    zi_estate        *e;

    (void)state;
    expect_ok(zi_fake_new(&f));
    opt.os = zi_fake_os(f);
    expect_ok(zi_estate_open(&opt, &e));
    expect_ok(zi_broker_new(&opt, e, &s.b));
    call(&s.a, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.a, "mute");
    msg = (zi_msg){.type = ZI_MSG_LEASE, .seq = 1};
    msg.lease = (zi_msg_lease){.n_regions = 3, .cls = 0, .wait_ns = UINT64_MAX};
    say(&s.a), turns(&s, 1);
    assert_int_equal(3, s.a.held.n);
    zi_broker_free(s.b);

    expect_ok(zi_broker_new(&opt, e, &s.b));
    assert_true(s.b->holding);
    assert_int_equal(1, s.b->n_awaited);
    call(&s.c, zi_broker_socket(s.b));
    turns(&s, 1);
    hello(&s, &s.c, "newcomer");
    assert_false(s.c.welcomed);
    zi_fake_advance(f, 4000000000u);
    turns(&s, 1);
    assert_false(s.c.welcomed);
    zi_fake_advance(f, 1000000000u);
    turns(&s, 2);
    assert_false(s.b->holding);
    assert_true(s.c.welcomed);
    zi_ledger_totals sum;
    zi_ledger_sum(zi_desk_ledger(s.b->desk), &sum);
    assert_int_equal(6 * MIB, sum.leased_bytes);
    expect_ok(zi_leases_verify(s.b->estate->leases, zi_desk_ledger(s.b->desk)));
    end(&s);
    zi_estate_close(e, true);
    zi_fake_free(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_users),
        cmocka_unit_test(lingers),
        cmocka_unit_test(one_that_never_reports),
        cmocka_unit_test(no_descriptor_left),
        cmocka_unit_test(more_than_places),
        cmocka_unit_test(every_call),
        cmocka_unit_test(every_allocation),
    };
    signal(SIGPIPE, SIG_IGN);
    zi_log_set_sink(no_log, NULL);
    return t_main(tests);
}

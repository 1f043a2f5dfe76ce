/* broker_load.c -- many connected jobs asking at random: how long does a decision take?
 *
 * usage: broker_load [--jobs N] [--seconds S] [--policy NAME] [--seed N] [--json]
 *
 * A broker in a process of its own; N jobs (200), all in this process, speak bare wire.  Every
 * second one runs steps: begins, takes and returns regions, charges and uncharges, ends.  The
 * others take and return fixed regions without steps, and wait for them a few milliseconds at
 * most.  Each acts as soon as it has its answer.  Together they want far more than the budget,
 * so most of them wait.  The
 * times are the broker's own (from before the desk is called until it has decided), read from
 * STATUS at the end.
 *
 * It also checks, and fails otherwise: no region is granted to two jobs, what jobs hold never
 * exceeds the budget, the word that a job wrote into a region is there when it returns it,
 * and the kernel's count never exceeded the budget.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "base/rng.h"
#include "broker/broker.h"
#include "broker/timing.h"
#include "cli/args.h"
#include "wire/wire.h"

#define REGION   (2ull << 20)
#define BUDGET   (256 * REGION)
#define CLAIM    8u /* regions a job may hold in a step */
#define JOBS_MAX 1000u

typedef enum doing { IDLE, WANTS_STEP, WANTS_REGIONS, WANTS_CHARGE } doing;

typedef struct job {
    int      fd;
    doing    doing;
    bool     has_steps;
    bool     in_step;
    uint32_t seq;
    uint64_t asked_ns;
    uint32_t n_held;
    uint32_t held[CLAIM];
    uint64_t charged;
} job;

typedef struct load {
    const zi_os *os;
    char         dir[64], path[100];
    pid_t        broker;
    uint64_t     n_jobs, seconds, seed;
    const char  *policy;
    bool         json, stopping;
    zi_rng       rng;
    job          job[JOBS_MAX];
    uint32_t     n_regions;
    uint32_t    *owner; /* by region: job + 1; 0: nobody */
    char        *pool;
    uint64_t     held_bytes, most_bytes, n_messages, n_steps, n_grants;
    unsigned     n_busy; /* wait for an answer */
    zi_timing    trip;   /* LEASE to GRANT, as a job sees it */
    zi_msg       in, out;
    char         buf[ZI_WIRE_MAX];
} load;

static load L;

__attribute__((noreturn)) static void
fail(const char *what)
{
    fprintf(stderr, "broker_load: %s\n", what);
    if (L.broker > 0) kill(L.broker, SIGTERM);
    exit(1);
}

/* -- one job ------------------------------------------------------------------------------- */

static void
say(job *j, zi_msg_type type, uint32_t seq)
{
    size_t len;

    L.out.type = type;
    L.out.seq = seq;
    if (zi_wire_encode(&L.out, 1, L.buf, sizeof L.buf, &len) < 0) fail("cannot encode");
    if (L.os->send_msg(L.os, j->fd, L.buf, len, NULL, 0, 0) < 0) fail("cannot send");
    L.n_messages++;
}

static uint64_t *
word(uint32_t region)
{
    return (uint64_t *)(L.pool + region * REGION);
}

static void
take(job *j, const zi_msg_grant *g)
{
    uint32_t me = (uint32_t)(j - L.job);

    for (uint32_t k = 0; k < g->n_runs; k++) {
        for (uint32_t i = g->runs[k].first; i < g->runs[k].first + g->runs[k].n; i++) {
            if (i >= L.n_regions || L.owner[i] != 0) fail("a region was granted twice");
            if (j->n_held == CLAIM) fail("more was granted than asked for");
            L.owner[i] = me + 1;
            j->held[j->n_held++] = i;
            *word(i) = (uint64_t)me << 32 | i;
            L.held_bytes += REGION;
        }
    }
    L.n_grants++;
}

static void
give(job *j, uint32_t n)
{
    uint32_t me = (uint32_t)(j - L.job);

    if (n > j->n_held) n = j->n_held;
    if (n == 0) return;
    memset(&L.out.give_back, 0, offsetof(zi_msg_give_back, runs));
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = j->held[--j->n_held];
        if (*word(i) != ((uint64_t)me << 32 | i))
            fail("somebody wrote into a held region");
        L.owner[i] = 0;
        L.held_bytes -= REGION;
        L.out.give_back.runs[k] = (zi_run){i, 1};
    }
    L.out.give_back.n_runs = n;
    say(j, ZI_MSG_RETURN, 0);
}

static void
ask(job *j, doing what, zi_msg_type type)
{
    j->doing = what;
    j->asked_ns = L.os->now_ns(L.os);
    L.n_busy++;
    say(j, type, ++j->seq);
}

static void
end_step(job *j)
{
    give(j, j->n_held);
    L.out.step_end = (zi_msg_step_end){.loss_micro = INT64_MIN};
    say(j, ZI_MSG_STEP_END, 0);
    j->in_step = false;
    L.n_steps++;
}

static void
ask_regions(job *j, unsigned cls, uint64_t wait_ns)
{
    uint32_t most = CLAIM - j->n_held;

    L.out.lease =
        (zi_msg_lease){.n_regions =
                           1 + (uint32_t)zi_rng_below(&L.rng, most < 3 ? most : 3),
                       .cls = (uint8_t)cls,
                       .adjacent = 1,
                       .wait_ns = wait_ns};
    ask(j, WANTS_REGIONS, ZI_MSG_LEASE);
}

/* A job without steps: takes and returns, and waits only so long. */
static void
act_free(job *j, uint64_t dice)
{
    if (L.stopping || dice < 40 || j->n_held == CLAIM)
        give(j, L.stopping ? j->n_held
                           : 1 + (uint32_t)zi_rng_below(&L.rng, j->n_held + 1) / 2);
    if (L.stopping)
        j->doing = IDLE;
    else
        ask_regions(j, 0, zi_rng_below(&L.rng, 5000000));
}

/* What next?  Nothing that needs an answer once we are stopping. */
static void
act(job *j)
{
    uint64_t dice = zi_rng_below(&L.rng, 100);

    if (!j->has_steps) {
        act_free(j, dice);
    } else if (L.stopping) {
        if (j->in_step) end_step(j);
        j->doing = IDLE;
    } else if (!j->in_step) {
        L.out.step_ask = (zi_msg_step_ask){.step_no = 0};
        ask(j, WANTS_STEP, ZI_MSG_STEP_ASK);
    } else if (dice < 50 && j->n_held < CLAIM) {
        ask_regions(j, 1, UINT64_MAX);
    } else if (dice < 80) {
        give(j, (uint32_t)zi_rng_below(&L.rng, j->n_held + 1));
        act(j);
    } else if (dice < 85 && j->charged == 0) {
        L.out.charge = (zi_msg_charge){.size_bytes = 4096, .wait_ns = 0};
        ask(j, WANTS_CHARGE, ZI_MSG_CHARGE);
    } else {
        if (j->charged > 0) {
            L.out.uncharge = (zi_msg_uncharge){.size_bytes = j->charged};
            say(j, ZI_MSG_UNCHARGE, 0);
            L.held_bytes -= j->charged;
            j->charged = 0;
        }
        end_step(j);
        act(j);
    }
}

static void
answered(job *j)
{
    L.n_busy--;
    if (L.held_bytes > L.most_bytes) L.most_bytes = L.held_bytes;
    if (L.held_bytes > BUDGET) fail("the jobs hold more than the budget");
    act(j);
}

static void
hear(job *j)
{
    const char *why = "";
    long n = L.os->recv_msg(L.os, j->fd, L.buf, sizeof L.buf, NULL, NULL, MSG_DONTWAIT);

    if (n == -EAGAIN) return;
    if (n <= 0) fail("the broker hung up");
    L.n_messages++;
    if (zi_wire_decode(L.buf, (size_t)n, 1, &L.in, &why) < 0) fail(why);
    switch (L.in.type) {
    case ZI_MSG_GO:
        j->in_step = true;
        answered(j);
        break;
    case ZI_MSG_GRANT:
        if (L.in.seq != j->seq) fail("an answer to no question");
        if (j->doing == WANTS_REGIONS) {
            zi_timing_add(&L.trip, L.os->now_ns(L.os) - j->asked_ns);
            take(j, &L.in.grant);
        } else {
            j->charged += L.in.grant.size_bytes;
            L.held_bytes += L.in.grant.size_bytes;
        }
        answered(j);
        break;
    case ZI_MSG_DENY:
        answered(j);
        break;
    case ZI_MSG_REFUSE:
        fail(L.in.refuse.text);
    default:
        break; /* WAIT, CORES, RECALL: nothing to do */
    }
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void
start_broker(void)
{
    strcpy(L.dir, "/tmp/zico-load-XXXXXX");
    if (!mkdtemp(L.dir)) fail("no temporary folder");
    snprintf(L.path, sizeof L.path, "%s/b.sock", L.dir);
    L.broker = fork();
    if (L.broker < 0) fail("cannot fork");
    if (L.broker > 0) return;
    zi_log_set_level(ZI_LOG_ERROR);
    zi_broker_options opt = {.socket_path = L.path,
                             .budget_bytes = BUDGET,
                             .region_bytes = REGION,
                             .policy = L.policy};
    zico_status       st = zi_broker_supervise(&opt, NULL, NULL);
    _exit(st < 0);
}

static int
connect_one(void)
{
    for (int i = 0; i < 500; i++) {
        long fd = L.os->connect_to(L.os, L.path);
        if (fd >= 0) return (int)fd;
        L.os->sleep_until(L.os, L.os->now_ns(L.os) + 10000000);
    }
    fail("no broker");
}

static void
join(job *j, unsigned i)
{
    int    fds[2];
    size_t n_fds = 2;

    j->fd = connect_one();
    j->has_steps = i % 2 == 0;
    L.out.hello = (zi_msg_hello){.min_version = 1,
                                 .max_version = 1,
                                 .features = j->has_steps ? ZI_FEATURE_STEPS : 0,
                                 .claim_bytes = j->has_steps ? CLAIM * REGION : 0,
                                 .weight_milli = 1000};
    snprintf(L.out.hello.name, sizeof L.out.hello.name, "job%u", i);
    say(j, ZI_MSG_HELLO, 0);
    long n = L.os->recv_msg(L.os, j->fd, L.buf, sizeof L.buf, fds, &n_fds, 0);
    if (n <= 0 || zi_wire_decode(L.buf, (size_t)n, 1, &L.in, NULL) < 0 ||
        L.in.type != ZI_MSG_WELCOME || n_fds != 2)
        fail("not welcome");
    if (i == 0) {
        void *p;
        L.n_regions = L.in.welcome.n_regions;
        L.owner = calloc(L.n_regions, sizeof *L.owner);
        long rc = L.os->map(L.os, NULL, L.n_regions * REGION, PROT_READ | PROT_WRITE,
                            MAP_SHARED, fds[0], 0, &p);
        if (rc < 0 || !L.owner) fail("cannot map the pool");
        L.pool = p;
    }
    close(fds[0]);
    close(fds[1]);
}

/* A policy of slices lets a job wait for its turn for minutes: that is no fault, if it is the
 * turn alone that it waits for. */
static bool
only_turns_are_awaited(void)
{
    unsigned n = 0;

    if (strncmp(L.policy, "gandiva", 7) != 0) return false;
    for (unsigned i = 0; i < L.n_jobs; i++) n += L.job[i].doing == WANTS_STEP;
    return n == L.n_busy;
}

static void
run(void)
{
    struct epoll_event ev[64];
    int                ep = epoll_create1(EPOLL_CLOEXEC);
    uint64_t           end = L.os->now_ns(L.os) + L.seconds * 1000000000u;

    for (unsigned i = 0; i < L.n_jobs; i++) {
        join(&L.job[i], i);
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(ep, EPOLL_CTL_ADD, L.job[i].fd, &e);
    }
    for (unsigned i = 0; i < L.n_jobs; i++) act(&L.job[i]);
    uint64_t patience = end + 20000000000u;
    while (L.n_busy > 0) {
        int n = epoll_wait(ep, ev, 64, 1000);
        for (int i = 0; i < n; i++) hear(&L.job[ev[i].data.u32]);
        uint64_t now = L.os->now_ns(L.os);
        if (now > end) L.stopping = true;
        if (now > end + 1000000000u && only_turns_are_awaited()) break;
        if (now > patience) fail("some job waits for ever");
    }
    close(ep);
}

static void
ask_status(zi_msg_status *ret)
{
    job tool = {.fd = connect_one()};

    L.out.status_ask = (zi_msg_status_ask){.min_version = 1, .max_version = 1};
    say(&tool, ZI_MSG_STATUS_ASK, 1);
    long n = L.os->recv_msg(L.os, tool.fd, L.buf, sizeof L.buf, NULL, NULL, 0);
    if (n <= 0 || zi_wire_decode(L.buf, (size_t)n, 1, &L.in, NULL) < 0 ||
        L.in.type != ZI_MSG_STATUS)
        fail("no status");
    *ret = L.in.status;
    close(tool.fd);
}

static void
report(const zi_msg_status *s)
{
    double per_s = (double)L.n_messages / (double)L.seconds;

    if (L.json)
        printf("{\"bench\":\"broker_load\",\"policy\":\"%s\",\"jobs\":%" PRIu64
               ",\"seconds\":%" PRIu64 ",\"decisions\":%" PRIu64
               ",\"decide_p50_ns\":%" PRIu64 ",\"decide_p99_ns\":%" PRIu64
               ",\"messages_per_s\":%.0f,\"steps\":%" PRIu64 ",\"grants\":%" PRIu64
               ",\"lease_p50_ns\":%" PRIu64 ",\"most_held_bytes\":%" PRIu64
               ",\"budget_bytes\":%llu,\"over_budget\":%" PRIu64 "}\n",
               s->policy, L.n_jobs, L.seconds, s->n_decisions, s->decide_p50_ns,
               s->decide_p99_ns, per_s, L.n_steps, L.n_grants,
               zi_timing_quantile(&L.trip, 500), L.most_bytes, BUDGET, s->n_over);
    else
        printf("%" PRIu64 " jobs, policy %s: %" PRIu64
               " decisions, p50 %.1f us, p99 %.1f us; "
               "%.0f messages/s, %" PRIu64
               " steps; most held %.0f of %.0f MiB; over budget: "
               "%" PRIu64 " times\n",
               L.n_jobs, s->policy, s->n_decisions, (double)s->decide_p50_ns / 1e3,
               (double)s->decide_p99_ns / 1e3, per_s, L.n_steps,
               (double)L.most_bytes / 0x1p20, (double)BUDGET / 0x1p20, s->n_over);
}

int
main(int argc, char **argv)
{
    const zi_arg  arg[] = {{"jobs", ZI_ARG_U64, &L.n_jobs, "N", "how many (200)"},
                           {"seconds", ZI_ARG_U64, &L.seconds, "S", "for how long (5)"},
                           {"policy", ZI_ARG_TEXT, &L.policy, "NAME", "zico"},
                           {"seed", ZI_ARG_U64, &L.seed, "N", "of what jobs do"},
                           {"json", ZI_ARG_FLAG, &L.json, NULL, "for programs"}};
    const zi_args args = {
        "broker_load [OPTION...]", "Many jobs asking at random.", arg, 5, 0, 0};
    zi_msg_status s;

    L.os = zi_os_real();
    L.n_jobs = 200, L.seconds = 5, L.policy = "zico", L.seed = 1;
    zico_status st = zi_args_parse(&args, argc, argv, NULL, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    if (L.n_jobs == 0 || L.n_jobs > JOBS_MAX) fail("1 to 1000 jobs");
    L.rng = zi_rng_seed(L.seed);
    start_broker();
    run();
    ask_status(&s);
    kill(L.broker, SIGTERM);
    int status;
    waitpid(L.broker, &status, 0);
    unlink(L.path);
    strcat(L.path, ".lock");
    unlink(L.path);
    rmdir(L.dir);
    free(L.owner);
    report(&s);
    return s.n_over > 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

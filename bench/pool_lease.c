/* pool_lease.c -- what a lease costs, against a bare ping-pong over the same kind of socket.
 *
 * usage: pool_lease [--json]
 *
 *   ping       31 bytes to another process and 41 back, SOCK_SEQPACKET
 *   lease      one region from the broker (given back one-way, not counted)
 *   hand-over  from A's return until B, which waits for that memory, runs
 *
 * The three take turns in one run, so that a busy machine hits all of them; figures are
 * medians over all turns, in microseconds, and the ratios of these.
 */
#include "client/session.h"
#include "base/json.h"
#include "broker/broker.h"
#include "bench_clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB      (1ull << 20)
#define N_TURNS  40
#define N_EACH   50
#define N        (N_TURNS * N_EACH)
#define PAUSE_US 50 /* between two of the same kind */
#define ASK      31 /* bytes of LEASE */
#define ANSWER   41 /* bytes of GRANT with one run */

typedef struct shared {
    _Atomic uint64_t returned_ns; /* A's clock at the return */
    _Atomic int      b_waits;     /* number of the hand-over that B waits for */
    _Atomic int      b_has;
    double           hand_over_us[N];
} shared;

static void
die(const char *what)
{
    fprintf(stderr, "pool_lease: %s\n", what);
    exit(1);
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static zi_session *
join(const char *socket, const char *name)
{
    zi_session        *s;
    zi_session_options opt = {.socket_path = socket,
                              .job_name = name,
                              .claim_bytes = 4 * MIB,
                              .features = ZI_FEATURE_STEPS};

    if (zi_session_open(&opt, &s) < 0) die("cannot join the broker");
    return s;
}

/* -- the other processes ---------------------------------------------------------------------- */

static void
echo(int fd)
{
    char buf[64];
    while (recv(fd, buf, sizeof buf, 0) > 0)
        if (send(fd, buf, ANSWER, 0) < 0) break;
    _exit(0);
}

static void
serve(const char *socket)
{
    zi_broker        *b;
    zi_broker_options opt = {.socket_path = socket,
                             .budget_bytes = 16 * MIB,
                             .region_bytes = 2 * MIB,
                             .policy = "spatial"};

    if (!freopen("/dev/null", "w", stderr) || zi_broker_new(&opt, NULL, &b) < 0) _exit(1);
    _exit(zi_broker_run(b) < 0);
}

/* B: waits for what A holds, notes when it runs, gives it back. */
static void
receive(const char *socket, shared *sh)
{
    zi_session *s = join(socket, "b");

    for (int i = 0; i < N; i++) {
        zi_lease *l;
        while (atomic_load(&sh->b_waits) != 0) usleep(20); /* until A holds it */
        atomic_store(&sh->b_waits, i + 1);
        if (zi_session_lease(s, ZICO_CLASS_FIXED, 10 * MIB, 0, ZICO_FOREVER, &l) < 0)
            _exit(1);
        uint64_t now = bench_now_ns();
        sh->hand_over_us[i] = (double)(now - atomic_load(&sh->returned_ns)) / 1000;
        zi_session_give_back(s, l, NULL);
        atomic_store(&sh->b_has, i + 1);
    }
    zi_session_close(s);
    _exit(0);
}

/* -- turns ----------------------------------------------------------------------------------------- */

static void
turn_ping(int fd, double *us)
{
    char buf[64] = {0};

    for (int i = 0; i < N_EACH; i++) {
        uint64_t start = bench_now_ns();
        if (send(fd, buf, ASK, 0) != ASK || recv(fd, buf, sizeof buf, 0) != ANSWER)
            die("ping-pong broke");
        us[i] = (double)(bench_now_ns() - start) / 1000;
        usleep(PAUSE_US);
    }
}

static void
turn_lease(zi_session *s, double *us)
{
    if (zi_session_step_begin(s, ZICO_FOREVER) < 0) die("no step");
    for (int i = 0; i < N_EACH; i++) {
        zi_lease *l;
        uint64_t  start = bench_now_ns();
        if (zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, ZICO_FOREVER, &l) < 0)
            die("no lease");
        us[i] = (double)(bench_now_ns() - start) / 1000;
        zi_session_give_back(s, l, NULL);
        usleep(PAUSE_US); /* the broker has dealt with the return */
    }
    if (zi_session_step_end(s, NULL) < 0) die("no end of the step");
}

static void
turn_hand_over(zi_session *s, shared *sh, int first)
{
    for (int i = first; i < first + N_EACH; i++) {
        zi_lease *l;
        if (zi_session_lease(s, ZICO_CLASS_FIXED, 10 * MIB, 0, ZICO_FOREVER, &l) < 0)
            die("no lease to hand over");
        atomic_store(&sh->b_waits, 0); /* B may ask now */
        while (atomic_load(&sh->b_waits) != i + 1) usleep(20);
        usleep(300); /* it is in the queue and asleep */
        atomic_store(&sh->returned_ns, bench_now_ns());
        zi_session_give_back(s, l, NULL);
        while (atomic_load(&sh->b_has) != i + 1) usleep(20);
    }
}

static void
report(bool json, double ping, double lease, double hand_over)
{
    zi_str  text = {0};
    zi_json j = zi_json_into(&text);

    if (!json) {
        printf("ping-pong %.1f us; lease %.1f us (%.2fx); hand-over %.1f us (%.2fx)\n",
               ping, lease, lease / ping, hand_over, hand_over / ping);
        return;
    }
    zi_json_object(&j);
    zi_json_key(&j, "ping_us"), zi_json_f64(&j, ping);
    zi_json_key(&j, "lease_us"), zi_json_f64(&j, lease);
    zi_json_key(&j, "hand_over_us"), zi_json_f64(&j, hand_over);
    zi_json_key(&j, "lease_to_ping"), zi_json_f64(&j, lease / ping);
    zi_json_key(&j, "hand_over_to_ping"), zi_json_f64(&j, hand_over / ping);
    zi_json_end(&j);
    puts(zi_str_get(&text));
    zi_str_free(&text);
}

int
main(int argc, char **argv)
{
    static double ping[N], lease[N];
    char          dir[] = "/tmp/zi-bench-XXXXXX", socket[64], lock[80];
    int           pair[2];
    shared       *sh =
        mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (sh == MAP_FAILED || !mkdtemp(dir)) die("cannot start");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) die("cannot start");
    snprintf(socket, sizeof socket, "%s/s", dir);
    snprintf(lock, sizeof lock, "%s.lock", socket);
    atomic_store(&sh->b_waits, -1);
    pid_t echoer = fork();
    if (echoer == 0) {
        close(pair[0]);
        echo(pair[1]);
    }
    close(pair[1]);
    pid_t broker = fork();
    if (broker == 0) serve(socket);
    for (int i = 0; i < 500 && access(socket, F_OK) != 0; i++) usleep(10000);
    zi_session *s = join(socket, "a");
    zi_lease   *warm;
    if (zi_session_lease(s, ZICO_CLASS_FIXED, 10 * MIB, 0, ZICO_FOREVER, &warm) < 0)
        die("no lease to warm up with");
    zi_session_give_back(s, warm, NULL);
    pid_t b = -1;
    for (int turn = 0; turn < N_TURNS; turn++) {
        turn_ping(pair[0], ping + turn * N_EACH);
        turn_lease(s, lease + turn * N_EACH);
        if (b < 0 && (b = fork()) == 0) receive(socket, sh);
        turn_hand_over(s, sh, turn * N_EACH);
    }
    zi_session_close(s);
    close(pair[0]);
    kill(broker, SIGKILL);
    kill(b, SIGKILL);
    while (wait(NULL) > 0) {
    }
    unlink(socket);
    unlink(lock);
    rmdir(dir);
    report(argc > 1 && strcmp(argv[1], "--json") == 0, median(ping, N), median(lease, N),
           median(sh->hand_over_us, N));
    return 0;
}

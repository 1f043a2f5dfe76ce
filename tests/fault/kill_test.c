/* timeout: 300 */
/* ctest: serial */
/* kill_test.c -- jobs and the broker are killed at random points; nothing is lost.
 *
 * Six jobs with rising and falling memory share a pool of half their sum.  Victims are drawn at
 * random and killed with SIGKILL at random moments; now and then the broker is the victim.
 * Survivors check a pattern in every block that they hold.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "test.h"
#include "support/yard.h"

#define N_JOBS 6
#define MIB    (1ull << 20)

static void
rest_us(long us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static pid_t
start_job(const yard *y)
{
    static unsigned serial;
    char            name[32], seed[32], step[32], fixed[32];
    snprintf(name, sizeof name, "saw%u", serial++);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)t_rand_below(1u << 30));
    snprintf(step, sizeof step, "%llu",
             (unsigned long long)((4 + t_rand_below(24)) * MIB));
    snprintf(fixed, sizeof fixed, "%llu", (unsigned long long)(t_rand_below(4) * MIB));
    const char *args[] = {"sawtooth", name, seed, "0", step, fixed, NULL};
    return yard_start(y, "sawtooth", args);
}

/* The broker forgets a dead job, with all that it held, within a second. */
static void
forgotten_soon(const yard *y, pid_t pid)
{
    for (int i = 0; i < 100 && yard_knows(y, pid); i++) rest_us(10000);
    assert_false(yard_knows(y, pid));
}

static void
look_and_check(const yard *y)
{
    const zi_picture *p;
    zi_watch         *w = yard_look(y, &p);
    yard_check(p);
    zi_watch_close(w);
}

static void
kill_a_job(const yard *y, pid_t *job)
{
    size_t victim = t_rand_below(N_JOBS);
    rest_us((long)t_rand_below(12000));
    assert_int_equal(0, kill(job[victim], SIGKILL));
    assert_int_equal(128 + SIGKILL, yard_wait(job[victim], 10));
    forgotten_soon(y, job[victim]);
    look_and_check(y);
    job[victim] = start_job(y);
}

static void
kill_the_broker(const yard *y)
{
    pid_t old = yard_broker_pid(y);
    rest_us((long)t_rand_below(12000));
    assert_int_equal(0, kill(old, SIGKILL));
    for (int i = 0; i < 500 && yard_broker_pid(y) == old; i++) rest_us(10000);
    assert_int_not_equal(old, yard_broker_pid(y));
}

/* Every survivor ends well when asked to, and then the pool is empty. */
static void
all_end_well(const yard *y, pid_t *job)
{
    const zi_picture *p;
    for (int i = 0; i < N_JOBS; i++) kill(job[i], SIGTERM);
    for (int i = 0; i < N_JOBS; i++) {
        int code = yard_wait(job[i], 60);
        /* a job that was killed by SIGTERM before it had installed its handler is fine, too */
        if (code == 128 + SIGTERM || code == 0) continue;
        yard_show_log(y);
        fail_msg("job %d ended with %d", (int)job[i], code);
    }
    for (int i = 0; i < 100; i++) {
        zi_watch *w = yard_look(y, &p);
        bool      empty =
            p->n_jobs == 0 && p->device.leased_bytes + p->device.private_bytes == 0;
        zi_watch_close(w);
        if (empty) return;
        rest_us(20000);
    }
    fail_msg("jobs are gone, but something is still held");
}

static void
days_of_murder(const char *policy, unsigned n_jobs_killed, unsigned n_brokers_killed)
{
    yard     y;
    pid_t    job[N_JOBS];
    unsigned every = n_brokers_killed ? n_jobs_killed / n_brokers_killed : 0;

    yard_open(&y, 80 * MIB, 2 * MIB, policy);
    for (int i = 0; i < N_JOBS; i++) job[i] = start_job(&y);
    rest_us(300000);
    for (unsigned i = 1; i <= n_jobs_killed; i++) {
        kill_a_job(&y, job);
        if (every && i % every == 0) kill_the_broker(&y);
    }
    all_end_well(&y, job);
    yard_close(&y);
}

/* 300 jobs are killed at random points: all that they held comes back, nobody is harmed. */
static void
jobs_die(void **state)
{
    (void)state;
    days_of_murder("zico", t_rounds(300, 5000), 0);
}

/* Jobs and the broker die: no lease and no job is lost, and everybody goes on. */
static void
brokers_die(void **state)
{
    (void)state;
    days_of_murder("zico", t_rounds(60, 1000), t_rounds(30, 500));
}

/* The same where a job's lane may be another at each step boundary. */
static void
lanes_move(void **state)
{
    (void)state;
    days_of_murder("salus:srtf", t_rounds(60, 1000), t_rounds(6, 100));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_die),
        cmocka_unit_test(brokers_die),
        cmocka_unit_test(lanes_move),
    };
    return t_main(tests);
}

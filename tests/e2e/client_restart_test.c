/* client_restart_test.c -- jobs go on while their broker dies.    timeout: 240 */
#include "client/arena.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "support/child.h"
#include "support/raw_client.h"
#include "test.h"

#define MIB    (1ull << 20)
#define BUDGET (48 * MIB)

static t_broker          broker;
static zi_broker_options options;

static int
start(void **state)
{
    *state = &broker;
    options = (zi_broker_options){.budget_bytes = BUDGET,
                                  .region_bytes = 2 * MIB,
                                  .policy = "spatial",
                                  .grace_ns = 500000000};
    t_broker_open(&broker, &options);
    return 0;
}

static zi_msg_status
status(void)
{
    zi_msg_status st;
    t_raw_status(broker.path, &st, NULL, 0);
    assert_int_equal(0, st.n_over);
    return st;
}

/* Steps with blocks that are checked before they are freed, until told to end. */
static int
worker(int which, _Atomic int *stop_now)
{
    enum { N = 8 };
    zi_session_options opt = {.socket_path = broker.path,
                              .job_name = "worker",
                              .claim_bytes = 24 * MIB,
                              .features = ZI_FEATURE_STEPS};
    zi_session        *s;
    zi_arena          *a;
    unsigned char     *p[N], *fixed;
    void              *q;
    unsigned           steps = 0;

    must(zi_session_open(&opt, &s) >= 0);
    must(zi_arena_new(s, &a) >= 0);
    must(zi_arena_alloc(a, ZICO_CLASS_FIXED, MIB, 64, NULL, ZICO_FOREVER, &q) >= 0);
    fixed = q;
    memset(fixed, which, MIB);
    while (!atomic_load(stop_now) || steps < 3) {
        must(zi_session_step_begin(s, ZICO_FOREVER) >= 0);
        for (int i = 0; i < N; i++) {
            must(zi_arena_alloc(a, ZICO_CLASS_STEP, 2 * MIB, 64, NULL, ZICO_FOREVER,
                                &q) >= 0);
            p[i] = q;
            memset(q, which * 16 + i, 2 * MIB);
        }
        for (int i = 0; i < N; i++) {
            for (size_t k = 0; k < 2 * MIB; k += 1024) must(p[i][k] == which * 16 + i);
            zi_arena_release(a, p[i], NULL);
        }
        for (size_t k = 0; k < MIB; k += 512) must(fixed[k] == which);
        zi_arena_trim(a);
        must(zi_session_step_end(s, NULL) >= 0);
        steps++;
    }
    for (int i = 0; i < 500 && !zi_session_connected(s); i++) usleep(10000);
    must(zi_session_connected(s));
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

typedef struct crew {
    pid_t        pid[3];
    _Atomic int *stop_now; /* shared with the workers */
} crew;

static void
hire(crew *c)
{
    c->stop_now =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(MAP_FAILED, c->stop_now);
    for (int i = 0; i < 3; i++) {
        c->pid[i] = fork();
        if (c->pid[i] == 0) _exit(worker(i + 1, c->stop_now));
    }
}

static void
dismiss(crew *c)
{
    int st;

    atomic_store(c->stop_now, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c->pid[i], waitpid(c->pid[i], &st, 0));
        if (st != 0)
            fail_msg("worker %d ended with %d (line %d)", i, st, WEXITSTATUS(st));
    }
    munmap(c->stop_now, 4096);
    for (int i = 0; i < 200 && status().leased_bytes > 0; i++) usleep(10000);
    assert_int_equal(0, status().leased_bytes);
}

/* The broker is killed again and again under its supervisor; three jobs that share its
 * memory finish every step with their tensors intact, and end connected. */
static void
killed_broker_hurts_nobody(void **state)
{
    crew c;

    (void)state;
    hire(&c);
    for (unsigned i = 0; i < t_rounds(6, 100); i++) {
        usleep(30000 + (useconds_t)t_rand_below(200000));
        t_broker_kill_child(&broker);
    }
    usleep(200000);
    dismiss(&c);
}

/* Broker and supervisor die; a new one that knows nothing gets pool and table back from the
 * jobs. */
static void
stranger_takes_over(void **state)
{
    crew c;

    (void)state;
    hire(&c);
    usleep(200000);
    t_broker_kill_all(&broker);
    usleep(100000);
    t_broker_start(&broker, broker.path, &options);
    usleep(300000);
    dismiss(&c);
}

/* While there is no broker at all, a job goes on with private memory; the next broker
 * charges it and sees it come back. */
static void
job_without_broker_goes_on(void **state)
{
    zi_session_options opt = {.socket_path = broker.path,
                              .job_name = "lonely",
                              .claim_bytes = 24 * MIB};
    zi_session        *s;
    zi_lease          *before, *outside;
    zico_stats         st;

    (void)state;
    expect_ok(zi_session_open(&opt, &s));
    expect_ok(zi_session_lease(s, ZICO_CLASS_FIXED, 4 * MIB, 0, ZICO_FOREVER, &before));
    memset(before->base, 5, before->size_bytes);
    t_broker_kill_all(&broker);
    expect_ok(zi_session_lease(s, ZICO_CLASS_FIXED, 6 * MIB, 0, ZICO_FOREVER, &outside));
    assert_true(outside->outside);
    memset(outside->base, 6, outside->size_bytes);
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER)); /* at once: nobody to ask */
    expect_ok(zi_session_step_end(s, NULL));
    expect_ok(zi_session_charge(s, MIB, 0));
    zi_session_stats(s, &st);
    assert_int_equal(0, st.connected);

    t_broker_start(&broker, broker.path, &options);
    for (int i = 0; i < 1000 && !zi_session_connected(s); i++) usleep(10000);
    assert_true(zi_session_connected(s));
    assert_int_equal(4 * MIB, status().leased_bytes);
    assert_int_equal(7 * MIB, status().private_bytes);
    assert_int_equal(5, ((char *)before->base)[3 * MIB]);
    assert_int_equal(6, ((char *)outside->base)[5 * MIB]);
    zi_session_give_back(s, outside, NULL);
    zi_session_uncharge(s, MIB);
    for (int i = 0; i < 500 && status().private_bytes > 0; i++) usleep(10000);
    assert_int_equal(0, status().private_bytes);
    zi_session_close(s);
}

/* A broker that comes in the middle of a step has not seen what was taken and given back before: the job
 * tells it. */
static void
tide_outlives_the_broker(void **state)
{
    zi_session_options opt = {.socket_path = broker.path,
                              .job_name = "tidal",
                              .claim_bytes = 24 * MIB,
                              .features = ZI_FEATURE_STEPS};
    char               folder[512], text[8192];
    zi_session        *s;
    zi_lease          *high, *low;
    zi_tide            tide;
    size_t             bad;

    (void)state;
    t_broker_kill_all(&broker);
    options.tides_dir = strcpy(folder, t_path(t_tmpdir(), "tides"));
    assert_int_equal(0, mkdir(folder, 0700));
    t_broker_start(&broker, broker.path, &options);
    expect_ok(zi_session_open(&opt, &s));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 10 * MIB, 0, ZICO_FOREVER, &high));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, ZICO_FOREVER, &low));
    zi_session_give_back(s, high, NULL);
    for (int i = 0; i < 500 && status().leased_bytes > 2 * MIB; i++) usleep(10000);
    t_broker_kill_child(&broker);
    for (int i = 0; i < 1000 && zi_session_connected(s); i++) usleep(1000);
    for (int i = 0; i < 1000 && !zi_session_connected(s); i++) usleep(10000);
    zi_session_give_back(s, low, NULL);
    expect_ok(zi_session_step_end(s, NULL));
    zi_session_close(s);

    FILE *f = NULL;
    for (int i = 0; i < 500 && !f; i++) {
        f = fopen(t_path(folder, "tidal.tide"), "r");
        usleep(10000);
    }
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    expect_ok(zi_tide_parse(text, n, &tide, &bad));
    assert_int_equal(12 * MIB, tide.peak_bytes);
}

#define with_broker(test) cmocka_unit_test_setup_teardown(test, start, t_broker_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_broker(killed_broker_hurts_nobody),
        with_broker(stranger_takes_over),
        with_broker(job_without_broker_goes_on),
        with_broker(tide_outlives_the_broker),
    };
    return t_main(tests);
}

/* client_share_test.c -- processes share one pool through a real broker.    timeout: 180 */
#include "client/arena.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "support/child.h"
#include "support/raw_client.h"
#include "test.h"

#define MIB    (1ull << 20)
#define BUDGET (32 * MIB)

static t_broker          broker;
static zi_broker_options options;

static int
start(void **state)
{
    *state = &broker;
    options = (zi_broker_options){.budget_bytes = BUDGET,
                                  .region_bytes = 2 * MIB,
                                  .policy = "spatial"};
    t_broker_open(&broker, &options);
    return 0;
}

static zi_session *
join(const char *name, uint64_t claim)
{
    zi_session *s = NULL;
    expect_ok(zi_session_open(&(zi_session_options){.socket_path = broker.path,
                                                    .job_name = name,
                                                    .claim_bytes = claim,
                                                    .features = ZI_FEATURE_STEPS},
                              &s));
    return s;
}

#define MUST_OPEN(s, a, name, claim)                                                     \
    zi_session *s;                                                                       \
    zi_arena   *a;                                                                       \
    must(zi_session_open(&(zi_session_options){.socket_path = broker.path,               \
                                               .job_name = name,                         \
                                               .claim_bytes = claim,                     \
                                               .features = ZI_FEATURE_STEPS},            \
                         &s) >= 0);                                                      \
    must(zi_arena_new(s, &a) >= 0)

static zi_msg_status
status(void)
{
    zi_msg_status st;
    t_raw_status(broker.path, &st, NULL, 0);
    assert_int_equal(0, st.n_over);
    assert_true(st.leased_bytes + st.private_bytes <= st.budget_bytes);
    return st;
}

/* -- hand-over ----------------------------------------------------------------------------- */

static int
holder(int in, int out)
{
    void *p;

    MUST_OPEN(s, a, "holder", 2 * MIB);
    must(zi_arena_alloc(a, ZICO_CLASS_FIXED, 24 * MIB, 64, NULL, ZICO_FOREVER, &p) >= 0);
    memset(p, 1, 24 * MIB);
    must(write(out, "x", 1) == 1);
    must(t_hear(in, 60000));
    zi_arena_release(a, p, NULL);
    zi_arena_trim(a);
    must(t_hear(in, 60000) == 0); /* until the test closes the pipe */
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

static int
waiter(int in, int out)
{
    void *p;
    char  text[256];

    (void)in;
    MUST_OPEN(s, a, "waiter", 2 * MIB);
    must(zi_arena_alloc(a, ZICO_CLASS_FIXED, 20 * MIB, 64, NULL, 0, &p) == ZICO_E_BUSY);
    must(zi_arena_alloc(a, ZICO_CLASS_FIXED, 20 * MIB, 64, NULL, 30000000, &p) ==
         ZICO_E_TIMEOUT);
    must(zi_session_message(s, text, sizeof text) > 0);
    must(write(out, "x", 1) == 1);
    must(zi_arena_alloc(a, ZICO_CLASS_FIXED, 20 * MIB, 64, NULL, ZICO_FOREVER, &p) >= 0);
    memset(p, 2, 20 * MIB);
    must(write(out, "x", 1) == 1);
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

/* What one process has finished with, another that waits for it uses. */
static void
memory_changes_hands(void **state)
{
    t_child a, b;

    (void)state;
    a = t_child_start(holder);
    assert_true(t_hear(a.out, 30000));
    b = t_child_start(waiter);
    assert_true(t_hear(b.out, 30000));
    assert_false(t_hear(b.out, 50)); /* waits */
    assert_int_equal(24 * MIB, status().leased_bytes);
    t_tell(a.in);
    assert_true(t_hear(b.out, 30000));
    t_child_finish(&b);
    t_child_finish(&a);
    assert_int_equal(0, status().leased_bytes);
}

/* When the holder is killed, what it held goes to the waiter. */
static void
killed_holder_gives_everything_back(void **state)
{
    t_child a, b;

    (void)state;
    a = t_child_start(holder);
    assert_true(t_hear(a.out, 30000));
    b = t_child_start(waiter);
    assert_true(t_hear(b.out, 30000));
    t_child_kill(&a);
    assert_true(t_hear(b.out, 30000));
    t_child_finish(&b);
}

/* More than the budget can ever give is refused at once, with the numbers. */
static void
impossible_is_told_at_once(void **state)
{
    zi_session *s = join("greedy", 16 * MIB);
    zi_arena   *a;
    void       *p;
    char        text[512];

    (void)state;
    expect_ok(zi_arena_new(s, &a));
    expect_status(ZICO_E_BUDGET, zi_arena_alloc(a, ZICO_CLASS_STEP, 40 * MIB, 64, NULL,
                                                ZICO_FOREVER, &p));
    zi_session_message(s, text, sizeof text);
    if (!strstr(text, "32")) fail_msg("no budget in \"%s\"", text);
    expect_status(ZICO_E_BUDGET, zi_session_charge(s, 40 * MIB, ZICO_FOREVER));
    expect_ok(zi_session_charge(s, 8 * MIB, 0));
    assert_int_equal(8 * MIB, status().private_bytes);
    zi_session_uncharge(s, 8 * MIB);
    zi_arena_free(a);
    zi_session_close(s);

    zico_session        *z = NULL;
    zico_session_options opt = ZICO_SESSION_OPTIONS_INIT;
    opt.socket_path = broker.path;
    opt.min_bytes = 100 * MIB;
    expect_status(ZICO_E_BUDGET, zico_session_open(&opt, &z));
    assert_true(zico_last_message(NULL, text, sizeof text) > 0);
}

/* -- many ------------------------------------------------------------------------------------ */

typedef struct block {
    unsigned char *p;
    size_t         size;
    unsigned char  fill;
} block;

static bool
is_intact(const block *b)
{
    for (size_t i = 0; i < b->size; i += 1021)
        if (b->p[i] != b->fill) return false;
    return true;
}

/* Steps with a sawtooth of blocks, each checked before it is freed. */
static int
sawtooth(int in, int out)
{
    enum { N = 12 };
    uint64_t x = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
    block    b[N];

    (void)in, (void)out;
    MUST_OPEN(s, a, "saw", BUDGET);
    for (int step = 0; step < 12; step++) {
        must(zi_session_step_begin(s, ZICO_FOREVER) >= 0);
        for (int i = 0; i < N; i++) {
            void *p;
            x = x * 6364136223846793005u + 1442695040888963407u;
            b[i].size = 1000 + (x >> 40) % (5 * MIB / 2);
            b[i].fill = (unsigned char)(x >> 33);
            must(zi_arena_alloc(a, ZICO_CLASS_STEP, b[i].size, 64, NULL, ZICO_FOREVER,
                                &p) >= 0);
            b[i].p = p;
            memset(p, b[i].fill, b[i].size);
        }
        for (int i = N; i-- > 0;) {
            must(is_intact(&b[i]));
            zi_arena_release(a, b[i].p, NULL);
        }
        zi_arena_trim(a);
        must(zi_session_step_end(s, NULL) >= 0);
    }
    zico_stats st;
    zi_session_stats(s, &st);
    must(st.n_steps == 12 && st.connected);
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

/* Four jobs whose peaks add up to four times the budget all finish, nobody sees another's
 * bytes, and the budget is never exceeded. */
static void
four_jobs_fit_one_budget(void **state)
{
    t_child c[4];
    bool    running = true;

    (void)state;
    for (int i = 0; i < 4; i++) c[i] = t_child_start(sawtooth);
    while (running) { /* a job that has ended closed its pipe */
        running = false;
        for (int i = 0; i < 4; i++) {
            struct pollfd p = {.fd = c[i].out, .events = POLLIN};
            running |= poll(&p, 1, 10) == 0;
        }
        status();
    }
    for (int i = 0; i < 4; i++) t_child_finish(&c[i]);
    assert_int_equal(0, status().leased_bytes);
    assert_true(status().exchanged_bytes > 0);
}

/* -- many threads ------------------------------------------------------------------------------ */

enum { N_THREADS = 40 };

static void *
one_of_many(void *arg)
{
    return zi_session_charge(arg, MIB / 16, ZICO_FOREVER) < 0 ? arg : NULL;
}

/* Far more threads ask at once than the broker takes requests of one job: they wait for one
 * another, none is refused, and the job is not taken for one that floods.  Who does not want to
 * wait hears so. */
static void
many_threads_ask_at_once(void **state)
{
    zi_session *s = join("threads", 2 * MIB), *other = join("other", 2 * MIB);
    zi_lease   *all, *l;
    pthread_t   t[N_THREADS];
    void       *failed;

    (void)state;
    expect_ok(zi_session_lease(other, ZICO_CLASS_FIXED, BUDGET - 2 * MIB, 0, ZICO_FOREVER,
                               &all)); /* all but what claims keep */
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(0, pthread_create(&t[i], NULL, one_of_many, s));
    usleep(100000); /* they are on their way: as many as may are with the broker */
    expect_status(ZICO_E_BUSY, zi_session_lease(s, ZICO_CLASS_FIXED, MIB, 0, 0, &l));
    expect_status(ZICO_E_TIMEOUT,
                  zi_session_lease(s, ZICO_CLASS_FIXED, MIB, 0, 20000000, &l));
    expect_status(ZICO_E_BUSY, zi_session_charge(s, MIB, 0));
    assert_int_equal(0, status().private_bytes);
    zi_session_give_back(other, all, NULL);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(t[i], &failed));
        assert_null(failed);
    }
    assert_true(zi_session_connected(s));
    assert_int_equal(N_THREADS * MIB / 16, status().private_bytes);
    zi_session_close(s);
    zi_session_close(other);
}

/* Regions asked for ahead come without waiting, and go back at the end of the step. */
static void
leases_ahead_are_used(void **state)
{
    zi_session *s = join("ahead", BUDGET);
    zi_lease   *l;
    zico_stats  st;

    (void)state;
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    zi_session_lease_ahead(s, ZICO_CLASS_STEP, 5); /* no more than two are taken */
    do zi_session_stats(s, &st);
    while (st.leased_bytes < 4 * MIB);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, 0, &l));
    memset(l->base, 1, l->size_bytes);
    zi_session_stats(s, &st);
    assert_int_equal(0, st.n_leases); /* nothing was asked and waited for */
    assert_int_equal(4 * MIB, status().leased_bytes);
    zi_session_give_back(s, l, NULL);
    expect_ok(zi_session_step_end(s, NULL));
    do /* one of them may be on its way still */
        zi_session_stats(s, &st);
    while (st.leased_bytes > 0);
    zi_session_close(s);
}

/* The steps' tides, cores and notes reach the broker. */
static void
steps_are_reported(void **state)
{
    zi_session       *s = join("teller", BUDGET);
    zi_lease         *l;
    zi_msg_status     st;
    zi_msg_status_job job;

    (void)state;
    zi_session_note(s, "gr\xc3\xbc\xc3\x9f dich \xff");
    for (int i = 0; i < 3; i++) {
        expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
        expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 6 * MIB, 0, ZICO_FOREVER, &l));
        zi_session_give_back(s, l, NULL);
        expect_ok(zi_session_step_end(s, &(zi_step_info){.loss = 0.25, .samples = 10}));
    }
    for (int i = 0; i < 500; i++) { /* one-way messages need a moment */
        t_raw_status(broker.path, &st, &job, 1);
        if (job.step_no == 3 && job.loss_micro == 250000) break;
        usleep(10000);
    }
    assert_int_equal(1, st.n_jobs);
    assert_string_equal("teller", job.name);
    assert_int_equal(3, job.step_no);
    assert_int_equal(250000, job.loss_micro);
    assert_int_equal(10, job.samples);
    assert_string_equal("gr\xc3\xbc\xc3\x9f dich ?", job.note);
    assert_true(job.peak_bytes >= 6 * MIB);
    zi_session_close(s);
}

/* The child of a job that forks in mid-step keeps its copies; the job goes on. */
static void
job_may_fork(void **state)
{
    zi_session *s = join("parent", BUDGET);
    zi_arena   *a;
    void       *p;
    int         st;

    (void)state;
    expect_ok(zi_arena_new(s, &a));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_ok(zi_arena_alloc(a, ZICO_CLASS_STEP, 5 * MIB, 64, NULL, ZICO_FOREVER, &p));
    memset(p, 7, 5 * MIB);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(50000);
        for (size_t i = 0; i < 5 * MIB; i++)
            if (((char *)p)[i] != 7) _exit(1);
        zi_arena_release(a, p, NULL);
        _exit(zi_session_connected(s) ? 2 : 0);
    }
    memset(p, 8, 5 * MIB);
    zi_arena_release(a, p, NULL);
    zi_arena_trim(a);
    expect_ok(zi_session_step_end(s, NULL));
    assert_int_equal(pid, waitpid(pid, &st, 0));
    assert_int_equal(0, st);
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_ok(zi_arena_alloc(a, ZICO_CLASS_STEP, 5 * MIB, 64, NULL, ZICO_FOREVER, &p));
    zi_arena_free(a);
    zi_session_close(s);
}

#define with_broker(test) cmocka_unit_test_setup_teardown(test, start, t_broker_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_broker(memory_changes_hands),
        with_broker(killed_holder_gives_everything_back),
        with_broker(impossible_is_told_at_once),
        with_broker(four_jobs_fit_one_budget),
        with_broker(many_threads_ask_at_once),
        with_broker(leases_ahead_are_used),
        with_broker(steps_are_reported),
        with_broker(job_may_fork),
    };
    return t_main(tests);
}

/* client_suspend_test.c -- a job is moved out and in again by its broker.    timeout: 120 */
#include "client/session.h"

#include <unistd.h>
#include "policy/policy.h"
#include "support/child.h"
#include "support/raw_client.h"
#include "test.h"

#define MIB    (1ull << 20)
#define BUDGET (32 * MIB)
#define FIXED  (8 * MIB)

static t_broker broker;

static int
start(void **state)
{
    *state = &broker;
    t_broker_open(&broker, &(zi_broker_options){.budget_bytes = BUDGET,
                                                .region_bytes = 2 * MIB,
                                                .policy = "spatial"});
    return 0;
}

/* What people say with `zico pause`, `resume`, `suspend`. */
static zi_limit_outcome
say(zi_control verb)
{
    t_raw *tool = t_raw_connect(broker.path);

    tool->out = (zi_msg){.type = ZI_MSG_CONTROL, .seq = 1};
    tool->out.control.verb = (uint8_t)verb;
    strcpy(tool->out.control.name, "mover");
    t_raw_send(tool);
    zi_limit_outcome outcome = t_raw_expect(tool, ZI_MSG_LIMITED)->limited.outcome;
    t_raw_close(tool);
    return outcome;
}

static void
await_state(unsigned want, uint64_t leased_bytes)
{
    zi_msg_status     st;
    zi_msg_status_job job;

    for (int i = 0; i < 1000; i++) {
        t_raw_status(broker.path, &st, &job, 1);
        if (st.n_jobs == 1 && job.state == want && st.leased_bytes == leased_bytes)
            return;
        usleep(10000);
    }
    fail_msg("state %u, %llu bytes leased", job.state,
             (unsigned long long)st.leased_bytes);
}

/* -- a job that can move ----------------------------------------------------------------------- */

typedef struct mover {
    zi_session *s;
    zi_lease   *fixed;
    char        out[16]; /* the bytes that matter, while it is out */
    unsigned    n_out, n_in;
    bool        unable;
} mover;

static zico_status
go_out(void *user, uint64_t *ret_out_bytes)
{
    mover *m = user;

    m->n_out++;
    if (m->unable) return ZICO_E_NOMEM;
    memcpy(m->out, m->fixed->base, sizeof m->out);
    zi_session_give_back(m->s, m->fixed, NULL);
    m->fixed = NULL;
    *ret_out_bytes = FIXED;
    return ZICO_OK;
}

static zico_status
come_in(void *user)
{
    mover      *m = user;
    zico_status st =
        zi_session_lease(m->s, ZICO_CLASS_FIXED, FIXED, 0, ZICO_FOREVER, &m->fixed);

    m->n_in++;
    if (st >= 0) memcpy(m->fixed->base, m->out, sizeof m->out);
    return st;
}

static zico_status
open_mover(mover *m, bool can)
{
    zi_session_options opt = {.socket_path = broker.path,
                              .job_name = "mover",
                              .claim_bytes = 4 * MIB,
                              .features = ZI_FEATURE_STEPS,
                              .on_suspend = can ? go_out : NULL,
                              .on_resume = come_in,
                              .user = m};
    zico_status        st = zi_session_open(&opt, &m->s);

    if (st >= 0)
        st = zi_session_lease(m->s, ZICO_CLASS_FIXED, FIXED, 0, ZICO_FOREVER, &m->fixed);
    if (st >= 0) memcpy(m->fixed->base, "what it has seen", 16);
    return st;
}

/* A step when told to, until the pipe is closed; says `x` after each. */
static int
move(bool unable, unsigned n_out, unsigned n_in, int in, int out)
{
    mover m = {.unable = unable};

    must(open_mover(&m, true) >= 0);
    t_tell(out);
    while (t_hear(in, 60000)) {
        must(zi_session_step_begin(m.s, ZICO_FOREVER) >= 0);
        must(memcmp(m.fixed->base, "what it has seen", 16) == 0);
        must(zi_session_step_end(m.s, NULL) >= 0);
        t_tell(out);
    }
    must(m.n_out == n_out && m.n_in == n_in);
    zi_session_close(m.s);
    return 0;
}

static int
goes_once(int in, int out)
{
    return move(false, 1, 1, in, out);
}

static int
cannot_go(int in, int out)
{
    return move(true, 1, 0, in, out);
}

static t_child
start_moving(t_child_fn *fn)
{
    t_child c = t_child_start(fn);

    assert_true(t_hear(c.out, 30000));
    t_tell(c.in);
    assert_true(t_hear(c.out, 30000)); /* one step as usual */
    return c;
}

/* Told to move out, a job does so at its next step boundary and holds nothing; its step begins
 * only when it was told to come back and has everything again, byte for byte. */
static void
out_and_in(void **state)
{
    t_child c = start_moving(goes_once);

    (void)state;
    assert_int_equal(ZI_LIMIT_APPLIED, say(ZI_CONTROL_SUSPEND));
    t_tell(c.in);
    await_state(ZI_JOB_SUSPENDED, 0);
    assert_false(t_hear(c.out, 100));
    assert_int_equal(ZI_LIMIT_APPLIED, say(ZI_CONTROL_RESUME));
    assert_true(t_hear(c.out, 30000));
    t_child_finish(&c);
}

/* The broker dies while the job is out: its successor hears that it is, knows that a person wants
 * it so, and gets it back in when told to. */
static void
out_while_the_broker_dies(void **state)
{
    t_child c = start_moving(goes_once);

    (void)state;
    say(ZI_CONTROL_SUSPEND);
    t_tell(c.in);
    await_state(ZI_JOB_SUSPENDED, 0);
    t_broker_kill_child(&broker);
    await_state(ZI_JOB_SUSPENDED, 0);
    assert_false(t_hear(c.out, 200));
    say(ZI_CONTROL_RESUME);
    assert_true(t_hear(c.out, 30000));
    t_child_finish(&c);
}

/* A job that cannot move out says so, stays and goes on. */
static void
it_cannot_and_stays(void **state)
{
    t_child c = start_moving(cannot_go);

    (void)state;
    say(ZI_CONTROL_SUSPEND);
    t_tell(c.in);
    t_broker_expect_log(&broker, "cannot be suspended");
    assert_true(t_hear(c.out, 30000));
    t_child_finish(&c);
}

/* A job without a way to move out is never told to. */
static void
it_was_never_able(void **state)
{
    mover m = {0};

    (void)state;
    expect_ok(open_mover(&m, false));
    assert_int_equal(ZI_LIMIT_CONFLICT, say(ZI_CONTROL_SUSPEND));
    expect_ok(zi_session_step_begin(m.s, ZICO_FOREVER));
    expect_ok(zi_session_step_end(m.s, NULL));
    assert_int_equal(0, m.n_out);
    zi_session_close(m.s);
}

/* A step that is not begun in time while the job is out is no harm: it is out still, and comes
 * in when it asks again. */
static void
it_asks_again(void **state)
{
    mover m = {0};

    (void)state;
    expect_ok(open_mover(&m, true));
    say(ZI_CONTROL_SUSPEND);
    expect_status(ZICO_E_TIMEOUT, zi_session_step_begin(m.s, 300000000));
    assert_int_equal(1, m.n_out);
    assert_null(m.fixed);
    await_state(ZI_JOB_SUSPENDED, 0);
    say(ZI_CONTROL_RESUME);
    expect_ok(zi_session_step_begin(m.s, ZICO_FOREVER));
    assert_int_equal(1, m.n_in);
    assert_memory_equal("what it has seen", m.fixed->base, 16);
    expect_ok(zi_session_step_end(m.s, NULL));
    zi_session_close(m.s);
}

#define with_broker(test) cmocka_unit_test_setup_teardown(test, start, t_broker_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_broker(out_and_in),          with_broker(out_while_the_broker_dies),
        with_broker(it_cannot_and_stays), with_broker(it_was_never_able),
        with_broker(it_asks_again),
    };
    return t_main(tests);
}

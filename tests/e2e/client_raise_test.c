/* client_raise_test.c -- a step that needs more than its claim, and the ladder.    timeout: 120 */
#include "client/arena.h"

#include <unistd.h>
#include "base/log.h"
#include "support/child.h"
#include "support/raw_client.h"
#include "test.h"

#define MIB    (1ull << 20)
#define R      (2 * MIB) /* a region */
#define BUDGET (16 * R)

static t_broker broker;

static int
start(void **state)
{
    *state = &broker;
    zi_log_set_level(ZI_LOG_STEP); /* the broker says what it is asked to raise */
    t_broker_open(&broker, &(zi_broker_options){.budget_bytes = BUDGET,
                                                .region_bytes = R,
                                                .policy = "spatial"});
    return 0;
}

/* What the broker says of the job with that name, once `until` holds. */
typedef bool condition(const zi_msg_status_job *job);

static void
await_job(const char *name, condition *until)
{
    zi_msg_status     st;
    zi_msg_status_job job[4];

    for (int i = 0; i < 1000; i++) {
        t_raw_status(broker.path, &st, job, 4);
        assert_int_equal(0, st.n_over);
        for (uint32_t k = 0; k < st.n_jobs && k < 4; k++)
            if (strcmp(job[k].name, name) == 0 && until(&job[k])) return;
        usleep(10000);
    }
    fail_msg("%s never came to be as expected", name);
}

static bool
waits_to_raise(const zi_msg_status_job *job)
{
    return job->reason == ZI_REASON_UNSAFE && job->asked_bytes == 6 * R;
}

static bool
waits(const zi_msg_status_job *job)
{
    return job->reason != ZI_REASON_NONE;
}

static bool
claims_ten(const zi_msg_status_job *job)
{
    return job->claim_bytes == 10 * R && job->step_bytes == 0;
}

static bool
holds_two_ahead(const zi_msg_status_job *job)
{
    return job->step_bytes == 2 * R;
}

static bool
holds_nothing(const zi_msg_status_job *job)
{
    return job->step_bytes == 0;
}

static zico_status
open_job(const char *name, uint64_t claim_bytes, zi_session **ret_session)
{
    return zi_session_open(&(zi_session_options){.socket_path = broker.path,
                                                 .job_name = name,
                                                 .claim_bytes = claim_bytes,
                                                 .core_mode = ZI_CORES_FIXED,
                                                 .cores = 1, /* both run at once */
                                                 .features = ZI_FEATURE_STEPS},
                           ret_session);
}

/* -- asking ahead of need ----------------------------------------------------------------------- */

/* A job may say in a step that it will need more; what can never be is told at once. */
static void
a_step_raises_its_claim(void **state)
{
    zi_session *s;
    zi_lease   *l;
    char        text[512];

    (void)state;
    expect_ok(open_job("riser", 4 * R, &s));
    expect_status(ZICO_E_STATE, zi_session_raise(s, 8 * R, 0));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_status(ZICO_E_ARG, zi_session_raise(s, 0, 0));
    expect_status(ZICO_E_BUDGET, zi_session_raise(s, 17 * R, ZICO_FOREVER));
    zi_session_message(s, text, sizeof text);
    if (!strstr(text, "34 MiB")) fail_msg("no number in \"%s\"", text);
    expect_ok(zi_session_raise(s, 10 * R, ZICO_FOREVER));
    expect_ok(zi_session_raise(s, 2 * R, ZICO_FOREVER)); /* it has more already */
    await_job("riser", claims_ten);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 10 * R, 0, 0, &l));
    zi_session_give_back(s, l, NULL);
    expect_ok(zi_session_step_end(s, NULL));
    zi_session_close(s);
}

/* A lease beyond the declared claim says so by itself; one within does not. */
static void
a_lease_raises_the_claim(void **state)
{
    zi_session *s;
    zi_lease   *l[2];

    (void)state;
    expect_ok(open_job("taker", 4 * R, &s));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 4 * R, 0, ZICO_FOREVER, &l[0]));
    expect_ok(zi_session_lease(s, ZICO_CLASS_GRADIENT, R, 0, ZICO_FOREVER, &l[1]));
    t_broker_expect_log(&broker, "raise,taker,4,10485760"); /* after STEP_ASK and LEASE */
    for (int i = 0; i < 2; i++) zi_session_give_back(s, l[i], NULL);
    expect_ok(zi_session_step_end(s, NULL));
    zi_session_close(s);
}

/* -- two processes, one of which goes beyond its claim ------------------------------------------------- */

/* Holds 12 regions, and raises its claim to 14 once the other is in its step. */
static int
big(int in, int out)
{
    zi_session *s;
    zi_lease   *most, *rest;

    must(open_job("big", 12 * R, &s) >= 0);
    must(zi_session_step_begin(s, ZICO_FOREVER) >= 0);
    must(zi_session_lease(s, ZICO_CLASS_STEP, 12 * R, 0, ZICO_FOREVER, &most) >= 0);
    t_tell(out);
    must(t_hear(in, 60000));
    must(zi_session_raise(s, 14 * R, ZICO_FOREVER) >= 0);
    t_tell(out);
    must(t_hear(in, 60000));
    if (t_hear(in, 100)) { /* the rest, which it was promised, too */
        must(zi_session_lease(s, ZICO_CLASS_STEP, 2 * R, 0, ZICO_FOREVER, &rest) >= 0);
        zi_session_give_back(s, rest, NULL);
    }
    zi_session_give_back(s, most, NULL);
    must(zi_session_step_end(s, NULL) >= 0);
    t_tell(out);
    zi_session_close(s);
    return 0;
}

/* Claims 4 regions, takes them when told to, and needs 2 more. */
static zico_status
exceed(int in, int out, zi_session **ret_session, zi_lease **ret_first)
{
    zi_lease   *more;
    zico_status st = open_job("beyond", 4 * R, ret_session);

    if (st >= 0) st = zi_session_step_begin(*ret_session, ZICO_FOREVER);
    if (st >= 0) t_tell(out);
    if (st >= 0 && !t_hear(in, 60000)) st = ZICO_E_STATE;
    if (st >= 0)
        st = zi_session_lease(*ret_session, ZICO_CLASS_STEP, 4 * R, 0, ZICO_FOREVER,
                              ret_first);
    if (st < 0) return st;
    st = zi_session_lease(*ret_session, ZICO_CLASS_STEP, 2 * R, 0, ZICO_FOREVER, &more);
    if (st >= 0) zi_session_give_back(*ret_session, more, NULL);
    return st;
}

static int
beyond(int in, int out)
{
    zi_session *s;
    zi_lease   *first;

    must(exceed(in, out, &s, &first) >= 0);
    t_tell(out);
    zi_session_give_back(s, first, NULL);
    must(zi_session_step_end(s, NULL) >= 0);
    zi_session_close(s);
    return 0;
}

static int
beyond_and_refused(int in, int out)
{
    zi_session *s;
    zi_lease   *first;
    char        text[512];

    must(exceed(in, out, &s, &first) == ZICO_E_NOMEM);
    zi_session_message(s, text, sizeof text);
    must(strstr(text, "beyond its claim"));
    t_tell(out);
    must(t_hear(in, 60000));
    zi_session_give_back(s, first, NULL); /* what it held it still has */
    must(zi_session_step_end(s, NULL) >= 0);
    zi_session_close(s);
    return 0;
}

/* Both in their steps, all memory in their hands, two regions more promised to `big`. */
static void
start_both(t_child *a, t_child *b, t_child_fn *other)
{
    *a = t_child_start(big);
    assert_true(t_hear(a->out, 30000));
    *b = t_child_start(other);
    assert_true(t_hear(b->out, 30000));
    t_tell(a->in);
    assert_true(t_hear(a->out, 30000));
    t_tell(b->in);
    await_job("beyond", waits_to_raise);
}

/* While another was promised what it would take, a raise waits, with its reason; it is granted
 * when the other's step ends. */
static void
a_raise_waits_for_another(void **state)
{
    t_child a, b;

    (void)state;
    start_both(&a, &b, beyond);
    t_broker_expect_log(&broker, "raise,beyond,4,12582912");
    assert_false(t_hear(b.out, 50));
    t_tell(a.in);
    assert_true(t_hear(b.out, 30000));
    t_child_finish(&a);
    t_child_finish(&b);
}

/* When each waits for the other, the job that went beyond its claim is refused, never the one
 * that stayed within: the ladder's last rung. */
static void
the_one_beyond_its_claim_is_refused(void **state)
{
    t_child a, b;

    (void)state;
    start_both(&a, &b, beyond_and_refused);
    t_tell(a.in);
    t_tell(a.in);
    await_job("big", waits);
    assert_true(t_hear(b.out, 30000));
    assert_false(t_hear(a.out, 50)); /* nobody took anything away from anybody */
    t_tell(b.in);
    assert_true(t_hear(a.out, 30000));
    t_child_finish(&a);
    t_child_finish(&b);
}

/* A raise outlives the broker: it is asked again of the next one. */
static void
a_raise_outlives_the_broker(void **state)
{
    t_child a, b;

    (void)state;
    start_both(&a, &b, beyond);
    t_broker_kill_child(&broker);
    await_job("beyond", waits_to_raise);
    t_tell(a.in);
    assert_true(t_hear(b.out, 30000));
    t_child_finish(&a);
    t_child_finish(&b);
}

/* A raise that is given up in time is forgotten: the claim is as before and the next is heard. */
static void
a_raise_may_be_given_up(void **state)
{
    t_child     a = t_child_start(big);
    zi_session *s;
    zi_lease   *l;

    (void)state;
    assert_true(t_hear(a.out, 30000));
    expect_ok(open_job("patient", 4 * R, &s));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    t_tell(a.in);
    assert_true(t_hear(a.out, 30000));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 4 * R, 0, ZICO_FOREVER, &l));
    expect_status(ZICO_E_TIMEOUT, zi_session_raise(s, 6 * R, 30000000));
    expect_status(ZICO_E_TIMEOUT, zi_session_raise(s, 7 * R, 30000000));
    t_tell(a.in);
    expect_ok(zi_session_raise(s, 8 * R, ZICO_FOREVER));
    expect_ok(zi_session_step_end(s, NULL));
    zi_session_close(s);
    t_child_finish(&a);
}

/* -- what is taken ahead is called back ------------------------------------------------------------------ */

/* Takes two regions ahead and then does nothing: only its session can give them back. */
static int
hoarder(int in, int out)
{
    zi_session *s;
    zi_lease   *l;
    zico_stats  st;

    must(open_job("hoarder", 12 * R, &s) >= 0);
    must(zi_session_step_begin(s, ZICO_FOREVER) >= 0);
    zi_session_lease_ahead(s, ZICO_CLASS_STEP, 2);
    must(t_hear(in, 60000));
    must(zi_session_raise(s, 14 * R, ZICO_FOREVER) >= 0);
    t_tell(out);
    must(t_hear(in, 60000));
    zi_session_stats(s, &st);
    must(st.leased_bytes == 0 && st.n_returns == 2);
    t_tell(out);
    must(zi_session_lease(s, ZICO_CLASS_STEP, 14 * R, 0, ZICO_FOREVER, &l) >= 0);
    memset(l->base, 1, l->size_bytes); /* its claim was kept for it */
    must(zi_session_step_end(s, NULL) >= 0);
    zi_session_close(s);
    return 0;
}

static int
claimant(int in, int out)
{
    zi_session *s;
    zi_lease   *first, *more;

    must(open_job("claimant", 4 * R, &s) >= 0);
    must(zi_session_step_begin(s, ZICO_FOREVER) >= 0);
    t_tell(out);
    must(t_hear(in, 60000));
    must(zi_session_lease(s, ZICO_CLASS_STEP, 4 * R, 0, ZICO_FOREVER, &first) >= 0);
    must(zi_session_lease(s, ZICO_CLASS_STEP, 12 * R, 0, ZICO_FOREVER, &more) >= 0);
    memset(more->base, 2, more->size_bytes);
    t_tell(out);
    must(t_hear(in, 60000));
    zi_session_give_back(s, more, NULL);
    zi_session_give_back(s, first, NULL);
    must(zi_session_step_end(s, NULL) >= 0);
    zi_session_close(s);
    return 0;
}

/* A job that raises its claim to everything gets what another has taken ahead and not used,
 * without that job's program doing anything: RECALL. */
static void
taken_ahead_is_recalled(void **state)
{
    t_child a = t_child_start(hoarder), b;

    (void)state;
    await_job("hoarder", holds_two_ahead);
    b = t_child_start(claimant);
    assert_true(t_hear(b.out, 30000));
    t_tell(a.in);
    assert_true(t_hear(a.out, 30000));
    await_job("hoarder", holds_two_ahead);
    t_tell(b.in);
    assert_true(t_hear(b.out, 30000));
    await_job("hoarder", holds_nothing);
    t_tell(a.in);
    assert_true(t_hear(a.out, 30000));
    await_job("hoarder", waits);
    t_tell(b.in);
    t_child_finish(&b);
    t_child_finish(&a);
}

#define with_broker(test) cmocka_unit_test_setup_teardown(test, start, t_broker_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_broker(a_step_raises_its_claim),
        with_broker(a_lease_raises_the_claim),
        with_broker(a_raise_waits_for_another),
        with_broker(the_one_beyond_its_claim_is_refused),
        with_broker(a_raise_outlives_the_broker),
        with_broker(a_raise_may_be_given_up),
        with_broker(taken_ahead_is_recalled),
    };
    return t_main(tests);
}

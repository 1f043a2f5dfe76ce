/* client_poison_test.c -- after a failed assertion every call passes straight through. */
#include "client/arena.h"

#include <unistd.h>
#include "base/check.h"
#include "support/child.h"
#include "support/raw_client.h"
#include "test.h"

#define MIB (1ull << 20)

static t_broker broker;

static int
start(void **state)
{
    *state = &broker;
    t_broker_open(&broker, &(zi_broker_options){.budget_bytes = 32 * MIB,
                                                .region_bytes = 2 * MIB,
                                                .policy = "spatial"});
    return 0;
}

static void
await_leased(uint64_t bytes)
{
    zi_msg_status st;

    for (int i = 0; i < 500; i++) {
        t_raw_status(broker.path, &st, NULL, 0);
        if (st.leased_bytes + st.private_bytes == bytes) return;
        usleep(10000);
    }
    assert_int_equal(bytes, st.leased_bytes + st.private_bytes);
}

/* -- the public calls --------------------------------------------------------------------------- */

static int
fails_an_assertion(int in, int out)
{
    zico_session_options opt = ZICO_SESSION_OPTIONS_INIT;
    zico_stats           stats = {.struct_size = sizeof stats};
    zico_session        *s = NULL;
    void                *p = NULL, *q = NULL;

    opt.socket_path = broker.path;
    opt.claim_bytes = 8 * MIB;
    must(zico_session_open(&opt, &s) >= 0);
    must(zico_alloc(s, ZICO_CLASS_FIXED, MIB, 64, ZICO_FOREVER, &p) >= 0);
    memset(p, 7, MIB);
    zico_uncharge(s, MIB); /* it was never charged: our books are wrong */

    must(zico_alloc(s, ZICO_CLASS_FIXED, MIB, 64, ZICO_FOREVER, &q) == ZICO_E_CORRUPT);
    must(q == NULL);
    must(zico_step_begin(s, ZICO_FOREVER) == ZICO_E_CORRUPT);
    must(zico_step_raise(s, MIB, ZICO_FOREVER) == ZICO_E_CORRUPT);
    must(zico_step_end(s) == ZICO_E_CORRUPT);
    must(zico_charge(s, MIB, ZICO_FOREVER) == ZICO_E_CORRUPT);
    must(zico_session_stats(s, &stats) == ZICO_E_CORRUPT);
    must(zico_cores(s) == 1);
    zico_uncharge(s, MIB);
    zico_free(s, p);
    for (size_t i = 0; i < MIB; i += 512) must(((char *)p)[i] == 7); /* still there */
    zico_session_close(s); /* what the assertion left is not touched again */
    t_tell(out);
    must(t_hear(in, 60000));
    return 0;
}

/* A failed assertion ends no process: from then on every public call says CORRUPT and does
 * nothing, blocks stay readable, and the memory comes back when the process ends. */
static void
public_calls_pass_through(void **state)
{
    t_child c = t_child_start(fails_an_assertion);

    (void)state;
    assert_true(t_hear(c.out, 30000));
    await_leased(2 * MIB);
    t_tell(c.in);
    t_child_finish(&c);
    await_leased(0);
}

/* -- the session ---------------------------------------------------------------------------------- */

static void
use_poisoned(const zi_session_options *opt)
{
    zi_session *s;
    zi_arena   *a;
    zi_lease   *l, *none = NULL;
    void       *p, *q = NULL;

    expect_ok(zi_session_open(opt, &s));
    expect_ok(zi_arena_new(s, &a));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, ZICO_FOREVER, &l));
    expect_ok(zi_arena_alloc(a, ZICO_CLASS_STEP, MIB, 64, NULL, ZICO_FOREVER, &p));
    zi_session_poison(s);
    assert_false(zi_session_usable(s));
    expect_status(ZICO_E_STATE,
                  zi_session_lease(s, ZICO_CLASS_STEP, MIB, 0, ZICO_FOREVER, &none));
    assert_null(none);
    assert_true(zi_arena_alloc(a, ZICO_CLASS_STEP, 16 * MIB, 64, NULL, ZICO_FOREVER, &q) <
                0);
    assert_null(q);
    expect_status(ZICO_E_STATE, zi_session_charge(s, MIB, ZICO_FOREVER));
    expect_status(ZICO_E_STATE, zi_session_raise(s, 16 * MIB, ZICO_FOREVER));
    expect_status(ZICO_E_STATE, zi_session_step_end(s, NULL));
    expect_status(ZICO_E_STATE, zi_session_step_begin(s, ZICO_FOREVER));
    zi_session_uncharge(s, MIB);
    zi_session_lease_ahead(s, ZICO_CLASS_STEP, 1);
    zi_session_tide_add(s, 1, 1);
    zi_session_note(s, "nobody hears this");
    zi_session_give_back(s, l, NULL);
    zi_arena_release(a, p, NULL);
    zi_arena_trim(a);
    memset(l->base, 1, l->size_bytes); /* the memory itself is as it was */
    zi_arena_free(a);
    zi_session_close(s);
}

/* A session that is poisoned asks for nothing and gives nothing back; closing it frees all
 * that is its own, and the broker takes back what it held. */
static void
session_passes_through(void **state)
{
    (void)state;
    use_poisoned(&(zi_session_options){.socket_path = broker.path,
                                       .job_name = "poisoned",
                                       .claim_bytes = 8 * MIB});
    await_leased(0);
}

/* The same without a broker. */
static void
local_session_passes_through(void **state)
{
    (void)state;
    use_poisoned(
        &(zi_session_options){.local_bytes = 32 * MIB, .local_region_bytes = 2 * MIB});
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(public_calls_pass_through, start,
                                        t_broker_teardown),
        cmocka_unit_test_setup_teardown(session_passes_through, start, t_broker_teardown),
        cmocka_unit_test(local_session_passes_through),
    };
    return t_main(tests);
}

/* client_fail_test.c -- whatever fails in the client, a status comes back.    timeout: 240 */
#include "client/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "base/alloc.h"
#include "os/fake.h"
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

static int
n_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The fake's failures on the real clock: a call that waits is counted, and fails, as the
 * fake says, and then really waits (the broker is another process). */
static long
patient_poll(const zi_os *os, int fd, short events, int64_t timeout_ns)
{
    const zi_os *real = zi_os_real();
    long         rc = zi_fake_os(os->self)->poll_fd(os, fd, events, 0);
    return rc != 0 || timeout_ns == 0 ? rc : real->poll_fd(real, fd, events, timeout_ns);
}

static long
patient_epoll(const zi_os *os, int ep, void *events, int cap, int64_t timeout_ns)
{
    const zi_os *real = zi_os_real();
    long         rc = zi_fake_os(os->self)->epoll_wait(os, ep, events, cap, 0);
    return rc != 0 || timeout_ns == 0
               ? rc
               : real->epoll_wait(real, ep, events, cap, timeout_ns);
}

static zi_os
patient(zi_fake *fake)
{
    zi_os os = *zi_fake_os(fake);

    os.now_ns = zi_os_real()->now_ns;
    os.sleep_until = zi_os_real()->sleep_until;
    os.poll_fd = patient_poll;
    os.epoll_wait = patient_epoll;
    return os;
}

/* One step of a job that uses everything once: classes, large and stitched blocks, a
 * stream, charges.  The first failure ends it; closing must work from there. */
static zico_status
run_step(zi_session *s, zi_arena *a)
{
    zi_device  *dev = zi_session_device(s);
    zi_stream  *stream = NULL;
    zi_lease   *hole[3] = {0}, *lease = NULL;
    void       *p = NULL, *q = NULL;
    zico_status st = zi_session_charge(s, MIB, ZICO_FOREVER);
    bool        charged = st >= 0;

    if (st >= 0) st = zi_session_step_begin(s, ZICO_FOREVER);
    bool in_step = st >= 0;
    if (st >= 0)
        st = zi_arena_alloc(a, ZICO_CLASS_STEP, 3 * MIB, 64, NULL, ZICO_FOREVER, &p);
    if (st >= 0) zi_session_lease_ahead(s, ZICO_CLASS_STEP, 1);
    for (int i = 0; i < 3 && st >= 0; i++)
        st = zi_session_lease(s, ZICO_CLASS_GRADIENT, MIB, 0, ZICO_FOREVER, &hole[i]);
    if (st >= 0) {
        zi_session_give_back(s, hole[1], NULL);
        hole[1] = NULL;
        st = zi_session_lease(s, ZICO_CLASS_STEP, 8 * MIB, 0, ZICO_FOREVER, &lease);
    }
    if (st >= 0) st = dev->ops->stream_open(dev, 1, &stream);
    if (st >= 0)
        st = zi_arena_alloc(a, ZICO_CLASS_STEP, MIB, 64, stream, ZICO_FOREVER, &q);
    if (st >= 0) st = dev->ops->stream_copy(stream, q, p, MIB);
    if (q) zi_arena_release(a, q, stream);
    if (p) zi_arena_release(a, p, stream);
    for (int i = 0; i < 3; i++) zi_session_give_back(s, hole[i], NULL);
    zi_session_give_back(s, lease, NULL);
    if (stream) {
        zi_arena_stream_gone(a, stream);
        dev->ops->stream_close(stream);
    }
    zi_arena_trim(a);
    if (in_step && st >= 0) st = zi_session_step_end(s, NULL);
    if (charged) zi_session_uncharge(s, MIB);
    return st;
}

static zico_status
whole_life(const zi_os *os, uint64_t local_bytes)
{
    zi_session_options opt = {.os = os,
                              .socket_path = broker.path,
                              .job_name = "victim",
                              .claim_bytes = 24 * MIB,
                              .local_bytes = local_bytes,
                              .local_region_bytes = local_bytes ? 2 * MIB : 0};
    zi_session        *s = NULL;
    zi_arena          *a = NULL;
    zico_status        st = zi_session_open(&opt, &s);

    if (st >= 0) st = zi_arena_new(s, &a);
    if (st >= 0) st = run_step(s, a);
    zi_arena_free(a);
    zi_session_close(s);
    return st;
}

static void
broker_has_nothing_left(void)
{
    zi_msg_status st;

    for (int i = 0; i < 500; i++) {
        t_raw_status(broker.path, &st, NULL, 0);
        if (st.n_jobs == 0 && st.leased_bytes == 0 && st.private_bytes == 0) return;
        usleep(10000);
    }
    fail_msg("the broker still has %u jobs, %llu bytes leased, %llu private", st.n_jobs,
             (unsigned long long)st.leased_bytes, (unsigned long long)st.private_bytes);
}

static void
fail_calls(uint64_t local_bytes, int err)
{
    int      before = n_descriptors();
    int64_t  live = zi_alloc_n_live();
    uint64_t n = 0, n_bad = 0;

    for (;; n++) {
        zi_fake *fake;
        expect_ok(zi_fake_new(&fake));
        zi_fake_fail_at(fake, NULL, n, err);
        zi_os       os = patient(fake);
        zico_status st = whole_life(&os, local_bytes);
        bool        failed = zi_fake_failed(fake);
        zi_fake_free(fake);
        n_bad += st < 0;
        if (before != n_descriptors())
            fail_msg("call %llu: a descriptor is left over", (unsigned long long)n);
        if (live != zi_alloc_n_live())
            fail_msg("call %llu: memory is left over", (unsigned long long)n);
        if (!failed) {
            expect_ok(st);
            break;
        }
    }
    assert_true(n > 20 && n_bad > 5);
}

/* Every system call of a job's life with a broker fails once: each time a status comes
 * back or the job goes on, no descriptor and no memory is left over, here or there. */
static void
every_call_fails_with_broker(void **state)
{
    (void)state;
    fail_calls(0, ENOMEM);
    broker_has_nothing_left();
}

/* The same without a broker. */
static void
every_call_fails_without_broker(void **state)
{
    (void)state;
    fail_calls(32 * MIB, EIO);
}

static void
fail_allocations(uint64_t local_bytes)
{
    int     before = n_descriptors();
    int64_t live = zi_alloc_n_live();

    for (uint64_t n = 1;; n++) {
        zi_alloc_fail_at(n);
        zico_status st = whole_life(NULL, local_bytes);
        bool        failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        assert_int_equal(before, n_descriptors());
        if (live != zi_alloc_n_live())
            fail_msg("allocation %llu: memory is left over", (unsigned long long)n);
        if (failed) continue;
        expect_ok(st);
        assert_true(n > 8);
        return;
    }
}

/* Every allocation fails once. */
static void
every_allocation_fails(void **state)
{
    (void)state;
    fail_allocations(32 * MIB);
    fail_allocations(0);
    broker_has_nothing_left();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_fails_with_broker, start,
                                        t_broker_teardown),
        cmocka_unit_test_setup_teardown(every_call_fails_without_broker, start,
                                        t_broker_teardown),
        cmocka_unit_test_setup_teardown(every_allocation_fails, start, t_broker_teardown),
    };
    return t_main(tests);
}

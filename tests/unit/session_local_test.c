/* session_local_test.c -- a session without a broker: leases, steps, charges, fork. */
#include "client/arena.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static zi_session *
open_local(bool guard)
{
    zi_session *s;
    expect_ok(zi_session_open(&(zi_session_options){.local_bytes = 32 * MIB,
                                                    .local_region_bytes = 2 * MIB,
                                                    .guard = guard},
                              &s));
    return s;
}

static zico_stats
stats(zi_session *s)
{
    zico_stats st;
    zi_session_stats(s, &st);
    return st;
}

/* A lease is as many whole regions as it takes; given back, others may have them. */
static void
lease_is_whole_regions(void **state)
{
    zi_session *s = open_local(false);
    zi_lease   *l, *m;

    (void)state;
    assert_int_equal(2 * MIB, zi_session_region_bytes(s));
    assert_false(zi_session_connected(s));
    assert_true(zi_session_cores(s) >= 1);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 5 * MIB, 0, 0, &l));
    assert_int_equal(3, l->n_regions);
    assert_int_equal(6 * MIB, l->size_bytes);
    memset(l->base, 1, l->size_bytes);
    expect_ok(zi_session_lease(s, ZICO_CLASS_FIXED, 26 * MIB, 0, 0, &m));
    expect_status(ZICO_E_BUSY, zi_session_lease(s, ZICO_CLASS_STEP, 1, 0, 0, &l));
    zi_session_give_back(s, l, NULL);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 6 * MIB, 0, 0, &l));
    expect_status(ZICO_E_ARG, zi_session_lease(s, ZICO_CLASS_STEP, 0, 0, 0, &l));
    assert_int_equal(32 * MIB, stats(s).leased_bytes);
    zi_session_close(s);
}

/* A bare lease is filled in pieces that end anywhere, also where its regions lie apart; outside of
 * it nothing is written. */
static void
bare_lease_is_filled(void **state)
{
    zi_session *s = open_local(false);
    zi_lease   *all, *part[16], *l;
    char       *src = malloc(6 * MIB);

    (void)state;
    for (size_t i = 0; i < 6 * MIB; i++) src[i] = (char)(i * 3 + i / 4096);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 32 * MIB, 0, 0, &all));
    zi_session_split(s, all, part);
    memset(part[1]->base, 7, 2 * MIB);
    for (int i = 0; i < 6; i += 2) zi_session_give_back(s, part[i], NULL);
    expect_ok(zi_session_lease(s, ZICO_CLASS_FIXED, 6 * MIB, ZI_LEASE_BARE, 0, &l));
    assert_true(l->stitched);
    expect_ok(zi_session_fill(s, l, 0, src, 3 * MIB + 4096));
    expect_ok(
        zi_session_fill(s, l, 3 * MIB + 4096, src + 3 * MIB + 4096, 3 * MIB - 4096));
    assert_memory_equal(src, l->base, 6 * MIB);
    expect_status(ZICO_E_ARG, zi_session_fill(s, l, 6 * MIB - 1, src, 2));
    for (size_t i = 0; i < 2 * MIB; i++) assert_int_equal(7, ((char *)part[1]->base)[i]);
    free(src);
    zi_session_close(s);
}

/* A lease leaves the pool without moving, its regions are others', and it comes back as private memory. */
static void
out_of_the_pool_and_back(void **state)
{
    zi_session *s = open_local(false);
    zi_piece    p[3];
    zi_lease   *l, *all, *m;
    int         fd = memfd_create("away", MFD_CLOEXEC);

    (void)state;
    expect_ok(zi_session_lease(s, ZICO_CLASS_FIXED, 2 * MIB, 0, 0, &m));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 6 * MIB, 0, 0, &l));
    char *at = l->base;
    for (size_t i = 0; i < 6 * MIB; i++) at[i] = (char)(i * 5 + i / 4096);
    assert_int_equal(1, zi_session_pieces(s, p, 3)); /* what is fixed is not moved so */
    assert_ptr_equal(at, p[0].at);
    assert_int_equal(6 * MIB, p[0].len);
    assert_int_equal(6 * MIB, pwrite(fd, at, 6 * MIB, 4096));
    p[1] = (zi_piece){at + 2 * MIB, 2 * MIB}; /* inside another: no lease of its own */
    assert_int_equal(6 * MIB, zi_session_leave_pool(s, p, 2, fd, 4096));
    close(fd);
    assert_int_equal(6 * MIB, zi_session_outside(s).away_bytes);
    assert_int_equal(2 * MIB, stats(s).leased_bytes);
    at[3 * MIB] = 99; /* still there, for writers too */

    /* others have all of it meanwhile; where our own lies, theirs does not show */
    zi_session_give_back(s, m, NULL);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 32 * MIB, 0, 0, &all));
    assert_true(all->stitched);
    memset(all->base, 7, 32 * MIB);
    expect_status(ZICO_E_BUSY, zi_session_charge(s, 6 * MIB, 0));
    zi_session_give_back(s, all, NULL);
    expect_ok(zi_session_charge(s, 6 * MIB, 0));
    assert_int_equal(6 * MIB, zi_session_come_back(s));
    assert_int_equal(0, zi_session_outside(s).away_bytes);
    assert_int_equal(6 * MIB, zi_session_outside(s).in_bytes);
    assert_int_equal(6 * MIB, stats(s).leased_bytes);
    assert_int_equal(0, stats(s).private_bytes);
    expect_status(ZICO_E_BUSY, zi_session_lease(s, ZICO_CLASS_STEP, 32 * MIB, 0, 0, &m));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 26 * MIB, 0, 0, &m));
    memset(m->base, 8, 26 * MIB);
    for (size_t i = 0; i < 6 * MIB; i++)
        assert_int_equal(i == 3 * MIB ? 99 : (char)(i * 5 + i / 4096), at[i]);

    /* out a second time, and given back while it is there */
    fd = memfd_create("away", MFD_CLOEXEC);
    assert_int_equal(2, zi_session_pieces(s, p, 3));
    assert_int_equal(6 * MIB, pwrite(fd, p[0].at, p[0].len, 0));
    assert_int_equal(6 * MIB, zi_session_leave_pool(s, p, 1, fd, 0));
    close(fd);
    assert_int_equal(99, at[3 * MIB]);
    zi_session_give_back(s, l, NULL);
    assert_int_equal(0, zi_session_outside(s).away_bytes);
    zi_session_give_back(s, m, NULL);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 32 * MIB, 0, 0, &all));
    assert_false(all->stitched); /* its old places show the pool again */
    memset(all->base, 9, 32 * MIB);
    zi_session_close(s);
}

/* The child of a process that has such memory has a copy of it. */
static void
child_keeps_what_is_outside(void **state)
{
    zi_session *s = open_local(false);
    zi_piece    p;
    zi_lease   *l;
    int         status, fd = memfd_create("away", MFD_CLOEXEC);

    (void)state;
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, 0, &l));
    memset(l->base, 4, 2 * MIB);
    assert_int_equal(1, zi_session_pieces(s, &p, 1));
    assert_int_equal(2 * MIB, pwrite(fd, p.at, p.len, 0));
    assert_int_equal(2 * MIB, zi_session_leave_pool(s, &p, 1, fd, 0));
    close(fd);
    pid_t pid = fork();
    if (pid == 0) _exit(((char *)p.at)[MIB]);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(4, WEXITSTATUS(status));
    zi_session_close(s);
}

/* A lease that was split goes back region by region. */
static void
split_lease_goes_back_in_parts(void **state)
{
    zi_session *s = open_local(false);
    zi_lease   *l, *part[4];

    (void)state;
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 8 * MIB, 0, 0, &l));
    char *base = l->base;
    zi_session_split(s, l, part);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(base + (size_t)i * 2 * MIB, part[i]->base);
        assert_int_equal(1, part[i]->n_regions);
    }
    zi_session_give_back(s, part[1], NULL);
    assert_int_equal(6 * MIB, stats(s).leased_bytes);
    zi_session_give_back_all(s, (zi_lease *[]){part[0], part[2], part[3]}, 3, NULL);
    assert_int_equal(0, stats(s).leased_bytes);
    assert_int_equal(4, stats(s).n_returns);
    zi_session_close(s);
}

static void
pass_gate(void *arg, unsigned n_cores)
{
    (void)n_cores;
    while (!atomic_load((_Atomic int *)arg)) sched_yield();
}

/* Given back behind a fence, a lease is taken by others only when the fence is complete,
 * even if the caller frees the fence or records it again meanwhile. */
static void
return_waits_for_its_fence(void **state)
{
    zi_session *s = open_local(false);
    zi_device  *dev = zi_session_device(s);
    zi_stream  *stream;
    zi_fence   *fence;
    zi_lease   *l, *m;
    _Atomic int first = 0, second = 0;

    (void)state;
    expect_ok(dev->ops->stream_open(dev, 1, &stream));
    expect_ok(dev->ops->fence_new(dev, &fence));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 32 * MIB, 0, 0, &l));
    expect_ok(dev->ops->stream_run(stream, pass_gate, &first));
    expect_ok(dev->ops->fence_record(fence, stream));
    zi_session_give_back(s, l, fence);
    expect_ok(dev->ops->stream_run(stream, pass_gate, &second));
    expect_ok(dev->ops->fence_record(fence, stream));
    dev->ops->fence_free(fence);
    expect_status(ZICO_E_BUSY, zi_session_lease(s, ZICO_CLASS_STEP, 1, 0, 0, &m));
    atomic_store(&first, 1);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 1, 0, ZICO_FOREVER, &m));
    atomic_store(&second, 1);
    dev->ops->stream_close(stream);
    zi_session_close(s);
}

/* A session that is closed waits for what its streams still do with given-back memory. */
static void
close_waits_for_fences(void **state)
{
    zi_session *s = open_local(false);
    zi_device  *dev = zi_session_device(s);
    zi_stream  *stream;
    zi_fence   *fence;
    zi_lease   *l;
    _Atomic int gate = 1;

    (void)state;
    expect_ok(dev->ops->stream_open(dev, 1, &stream));
    expect_ok(dev->ops->fence_new(dev, &fence));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 4 * MIB, 0, 0, &l));
    for (int i = 0; i < 100; i++)
        expect_ok(dev->ops->stream_copy(stream, l->base, (char *)l->base + MIB, MIB));
    expect_ok(dev->ops->stream_run(stream, pass_gate, &gate));
    expect_ok(dev->ops->fence_record(fence, stream));
    zi_session_give_back(s, l, fence);
    dev->ops->fence_free(fence);
    dev->ops->stream_drain(stream);
    dev->ops->stream_close(stream);
    zi_session_close(s);
}

/* Charges and leases share the budget; what can never fit is told at once. */
static void
charges_share_the_budget(void **state)
{
    zi_session *s = open_local(false);
    zi_lease   *l;

    (void)state;
    expect_ok(zi_session_charge(s, 30 * MIB, 0));
    expect_status(ZICO_E_BUSY, zi_session_lease(s, ZICO_CLASS_STEP, 4 * MIB, 0, 0, &l));
    expect_status(ZICO_E_BUSY, zi_session_charge(s, 3 * MIB, 0));
    expect_status(ZICO_E_TIMEOUT, zi_session_charge(s, 3 * MIB, 1000000));
    expect_status(ZICO_E_BUDGET, zi_session_charge(s, 33 * MIB, ZICO_FOREVER));
    zi_session_uncharge(s, 30 * MIB);
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 4 * MIB, 0, 0, &l));
    assert_int_equal(30 * MIB, stats(s).peak_bytes);
    zi_session_close(s);
}

/* Steps begin and end in turn, and count what changed hands inside them. */
static void
steps_come_in_turn(void **state)
{
    zi_session *s = open_local(false);
    zi_lease   *l;

    (void)state;
    expect_status(ZICO_E_STATE, zi_session_step_end(s, NULL));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    assert_true(zi_session_in_step(s));
    expect_status(ZICO_E_STATE, zi_session_step_begin(s, 0));
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 4 * MIB, 0, 0, &l));
    zi_session_give_back(s, l, NULL);
    expect_ok(zi_session_step_end(s, &(zi_step_info){.loss = 0.5}));
    assert_false(zi_session_in_step(s));
    assert_int_equal(1, stats(s).n_steps);
    assert_int_equal(4 * MIB, stats(s).exchanged_bytes);
    zi_session_close(s);
}

/* With guard, memory that is not leased cannot be touched. */
static void
guard_protects_what_is_not_leased(void **state)
{
    zi_session *s = open_local(true);
    zi_lease   *l;

    (void)state;
    expect_ok(zi_session_lease(s, ZICO_CLASS_STEP, 2 * MIB, 0, 0, &l));
    char *p = l->base;
    p[0] = 1;
    zi_session_give_back(s, l, NULL);
    /* read(2) tells about bad memory without a signal */
    int null = open("/dev/zero", O_RDONLY);
    assert_int_equal(-1, read(null, p, 1));
    assert_int_equal(EFAULT, errno);
    close(null);
    zi_session_close(s);
}

/* -- fork --------------------------------------------------------------------------------------- */

static int
child_of_fork(zi_session *s, zi_arena *a, unsigned char *const *p, int go)
{
    char  byte;
    void *q;

    if (read(go, &byte, 1) != 1) return 1; /* the parent has changed everything by now */
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < 3 * MIB; k += 4096)
            if (p[i][k] != i + 1) return 2;
    memset(p[0], 99, 3 * MIB); /* its own copy */
    if (zi_arena_alloc(a, ZICO_CLASS_STEP, 100, 64, NULL, ZICO_FOREVER, &q) !=
        ZICO_E_STATE)
        return 3;
    zi_arena_release(a, p[1], NULL);
    if (zi_session_usable(s)) return 4;
    if (zi_session_step_end(s, NULL) != ZICO_E_STATE) return 5;
    pid_t grandchild = fork();
    int   status = 1;
    if (grandchild == 0) _exit(p[3][MIB] == 4 && p[0][MIB] == 99 ? 0 : 1);
    if (waitpid(grandchild, &status, 0) != grandchild || status != 0) return 6;
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

/* A child forked in mid-step reads the tensors as they were, while the parent goes on,
 * writes into them and gives them back; a stitched block is no exception. */
static void
child_keeps_what_it_was_forked_with(void **state)
{
    zi_session    *s = open_local(false);
    zi_arena      *a;
    void          *hole[6];
    unsigned char *p[4];
    int            pipes[2], status;

    (void)state;
    expect_ok(zi_arena_new(s, &a));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    for (int i = 0; i < 6; i++)
        expect_ok(zi_arena_alloc(a, ZICO_CLASS_FIXED, 2 * MIB, 64, NULL, 0, &hole[i]));
    for (int i = 0; i < 6; i += 2) zi_arena_release(a, hole[i], NULL);
    zi_arena_trim(a);
    for (int i = 0; i < 4; i++) {
        void *q;
        expect_ok(zi_arena_alloc(a, ZICO_CLASS_STEP, 3 * MIB, 64, NULL, 0, &q));
        p[i] = q;
        memset(q, i + 1, 3 * MIB);
    }
    assert_int_equal(0, pipe(pipes));
    pid_t pid = fork();
    if (pid == 0) _exit(child_of_fork(s, a, p, pipes[0]));
    for (int i = 0; i < 4; i++) {
        memset(p[i], 0xee, 3 * MIB);
        zi_arena_release(a, p[i], NULL);
    }
    expect_ok(zi_session_step_end(s, NULL));
    assert_int_equal(1, write(pipes[1], "x", 1));
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, WEXITSTATUS(status));
    expect_ok(zi_session_step_begin(s, ZICO_FOREVER));
    close(pipes[0]), close(pipes[1]);
    zi_arena_free(a);
    zi_session_close(s);
}

/* Options that make no sense are refused. */
static void
bad_options_are_refused(void **state)
{
    zi_session *s;

    (void)state;
    expect_status(ZICO_E_ARG,
                  zi_session_open(&(zi_session_options){.local_bytes = 1}, &s));
    expect_status(ZICO_E_ARG,
                  zi_session_open(&(zi_session_options){.local_bytes = 32 * MIB,
                                                        .local_region_bytes = 3 * MIB},
                                  &s));
    expect_status(ZICO_E_NOTFOUND,
                  zi_session_open(&(zi_session_options){.socket_path =
                                                            t_path(t_tmpdir(), "no")},
                                  &s));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_is_whole_regions),
        cmocka_unit_test(bare_lease_is_filled),
        cmocka_unit_test(out_of_the_pool_and_back),
        cmocka_unit_test(child_keeps_what_is_outside),
        cmocka_unit_test(split_lease_goes_back_in_parts),
        cmocka_unit_test(return_waits_for_its_fence),
        cmocka_unit_test(close_waits_for_fences),
        cmocka_unit_test(charges_share_the_budget),
        cmocka_unit_test(steps_come_in_turn),
        cmocka_unit_test(guard_protects_what_is_not_leased),
        cmocka_unit_test(child_keeps_what_it_was_forked_with),
        cmocka_unit_test(bad_options_are_refused),
    };
    return t_main(tests);
}

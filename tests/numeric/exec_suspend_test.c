/* exec_suspend_test.c -- out to a file and back between two steps: not one bit is lost.
 * timeout: 120 */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/session.h"
#include "exec_compare.h"
#include "exec/tier.h"
#include "support/plan_nets.h"

#define N_STEPS 6u
#define MIB     (1ull << 20)

typedef struct stage {
    zi_graph   *g;
    zi_session *session;
    zi_exec    *e;
    double    **v;
} stage;

static void
open_stage(stage *s)
{
    zi_session_options so = {.job_name = "out",
                             .local_bytes = 512 * MIB,
                             .local_region_bytes = 2 * MIB,
                             .features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE};

    t_reseed(11);
    s->g = t_net_residual(3, 4);
    s->v = zi_ref_new(s->g);
    zi_ref_fill(s->g, s->v, 4);
    expect_ok(zi_session_open(&so, &s->session));
    zi_exec_options opt = {.graph = s->g,
                           .session = s->session,
                           .n_threads = 1,
                           .seed = 3};
    expect_ok(zi_exec_new(&opt, NULL, &s->e));
}

static void
close_stage(stage *s)
{
    zi_exec_free(s->e);
    zi_session_close(s->session);
    zi_ref_free(s->g, s->v);
    zi_graph_free(s->g);
}

static uint64_t
leased(stage *s)
{
    zico_stats st = {.struct_size = sizeof st};

    zi_session_stats(s->session, &st);
    return st.leased_bytes;
}

static zi_tier *
open_file(const char *dir)
{
    char     spec[4200];
    zi_tier *t;

    snprintf(spec, sizeof spec, "file:%s", dir);
    expect_ok(zi_tier_open(zi_os_real(), spec, &t));
    return t;
}

/* Others use the pool meanwhile: what comes back lies elsewhere, and what lay there is gone. */
static zi_lease *
occupy(stage *s, uint64_t bytes)
{
    zi_lease *l;

    expect_ok(zi_session_lease(s->session, ZICO_CLASS_FIXED, bytes, 0, 0, &l));
    memset(l->base, 0x5a, l->size_bytes);
    return l;
}

static void
out_and_in(stage *s, const char *dir)
{
    zi_tier *t = open_file(dir);
    uint64_t out_bytes = 0, held;

    expect_ok(zi_exec_drain(s->e));
    held = leased(s);
    assert_true(held > 0);
    expect_ok(zi_exec_suspend(s->e, t, t_rand_below(2), &out_bytes));
    assert_true(out_bytes > 0 && out_bytes <= held);
    assert_int_equal(0, leased(s));
    zi_lease *other = occupy(s, held);
    expect_ok(zi_exec_resume(s->e));
    assert_int_equal(held + other->size_bytes, leased(s));
    zi_session_give_back(s->session, other, NULL);
    zi_tier_close(t);
}

/* All parameters and state, one behind the other. */
static uint8_t *
values(stage *s, size_t *ret_n)
{
    size_t   n = 0;
    uint8_t *all = NULL;

    for (zi_tensor_id t = 0; t < s->g->n_tensors; t++) {
        const zi_tensor *x = &s->g->tensors[t];
        if (x->role != ZI_ROLE_PARAM && x->role != ZI_ROLE_STATE) continue;
        all = realloc(all, n + x->bytes);
        assert_non_null(all);
        expect_ok(zi_exec_get(s->e, t, all + n, x->bytes));
        n += x->bytes;
    }
    *ret_n = n;
    return all;
}

static uint8_t *
train(const char *dir, uint32_t out_before, size_t *ret_n)
{
    stage s;

    open_stage(&s);
    for (uint32_t i = 1; i <= N_STEPS; i++) {
        if (dir && out_before >> i & 1) out_and_in(&s, dir);
        cmp_step(s.e, s.g, s.v, 0.05f, i);
    }
    uint8_t *all = values(&s, ret_n);
    close_stage(&s);
    return all;
}

/* Moved out before any subset of the steps, training ends in the same bits. */
static void
same_bits(void **state)
{
    const char *dir = t_tmpdir();
    size_t      n, m;
    uint8_t    *plain = train(NULL, 0, &n);

    (void)state;
    for (unsigned i = 0; i < t_rounds(3, 1000); i++) {
        uint32_t when = i == 0 ? ~0u : (uint32_t)t_rand_below(1u << (N_STEPS + 1));
        uint8_t *moved = train(dir, when, &m);
        assert_int_equal(n, m);
        assert_memory_equal(plain, moved, n);
        free(moved);
    }
    free(plain);
    assert_int_equal(0, rmdir(dir)); /* no file is left */
}

/* While it is out, what it keeps can be read from the file (a job that is told to end saves it),
 * but nothing can be set or run; a second suspend is refused. */
static void
out_means_out(void **state)
{
    const char *dir = t_tmpdir();
    stage       s;
    uint64_t    n_out;
    size_t      n, m;

    (void)state;
    open_stage(&s);
    uint8_t *before = values(&s, &n);
    zi_tier *t = open_file(dir);
    expect_status(ZICO_E_STATE, zi_exec_resume(s.e));
    expect_ok(zi_exec_suspend(s.e, t, false, &n_out));
    expect_status(ZICO_E_STATE, zi_exec_suspend(s.e, t, false, &n_out));
    expect_status(ZICO_E_STATE, zi_exec_init(s.e, 1));
    expect_status(ZICO_E_STATE, zi_exec_step(s.e, NULL, 0, 0, 1));
    uint8_t *out = values(&s, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, out, n);
    for (zi_tensor_id i = 0; i < s.g->n_tensors; i++) {
        if (s.g->tensors[i].role != ZI_ROLE_PARAM) continue;
        expect_status(ZICO_E_STATE, zi_exec_set(s.e, i, out, s.g->tensors[i].bytes));
    }
    free(before);
    free(out);
    close_stage(&s); /* freed while it is out */
    zi_tier_close(t);
    t_rmdir(dir);
}

/* No room for the file (a limit on file sizes stands for a full disk): everything stays where
 * it is, and training goes on with the same bits. */
static void
disk_full(void **state)
{
    const char   *dir = t_tmpdir();
    struct rlimit was, small;
    size_t        n, m;
    uint8_t      *plain = train(NULL, 0, &n);
    stage         s;
    uint64_t      out_bytes;

    (void)state;
    open_stage(&s);
    for (uint32_t i = 1; i <= N_STEPS; i++) cmp_step(s.e, s.g, s.v, 0.05f, i);
    expect_ok(zi_exec_drain(s.e));
    const uint64_t held = leased(&s);
    zi_tier       *t = open_file(dir);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &was));
    small = was;
    small.rlim_cur = 4096;
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    assert_true(zi_exec_suspend(s.e, t, false, &out_bytes) < 0);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &was));
    assert_int_equal(held, leased(&s));
    uint8_t *kept = values(&s, &m);
    assert_memory_equal(plain, kept, n);
    zi_tier_close(t);
    out_and_in(&s, dir); /* later there is room */
    free(kept);
    kept = values(&s, &m);
    assert_memory_equal(plain, kept, n);
    free(kept);
    free(plain);
    close_stage(&s);
    t_rmdir(dir);
}

/* No memory to come back to: it stays out, holds nothing, and comes back when there is room. */
static void
no_room_to_return(void **state)
{
    const char *dir = t_tmpdir();
    stage       s;
    uint64_t    n;
    size_t      a_n, b_n;

    (void)state;
    open_stage(&s);
    expect_ok(zi_exec_drain(s.e));
    uint8_t *before = values(&s, &a_n);
    zi_exec_free(s.e);
    zi_exec_options opt = {.graph = s.g,
                           .session = s.session,
                           .n_threads = 1,
                           .seed = 3,
                           .lease_wait_ns = 1000000};
    expect_ok(zi_exec_new(&opt, NULL, &s.e));
    zi_tier *t = open_file(dir);
    expect_ok(zi_exec_suspend(s.e, t, false, &n));
    zi_lease *all = occupy(&s, 512 * MIB);
    assert_true(zi_exec_resume(s.e) < 0);
    assert_int_equal(all->size_bytes, leased(&s));
    zi_session_give_back(s.session, all, NULL);
    expect_ok(zi_exec_resume(s.e));
    uint8_t *after = values(&s, &b_n);
    assert_int_equal(a_n, b_n);
    assert_memory_equal(before, after, a_n);
    free(before);
    free(after);
    close_stage(&s);
    zi_tier_close(t);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(out_means_out),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(no_room_to_return),
    };
    return t_main(tests);
}

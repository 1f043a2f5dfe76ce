/* train_cmd.c -- zico train NET: trains a network, shows how it goes, saves and resumes. */
#include "cli/commands.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/size.h"
#include "cli/args.h"
#include "cli/data_words.h"
#include "cli/train_view.h"
#include "train/train_run.h"

#define EXIT_INTERRUPTED 130
#define DEFAULT_STEPS    500
#define EVAL_SAMPLES     2000

typedef struct train_words {
    zi_data_words data;
    const char   *optimizer, *decay, *save, *resume, *trace, *planner, *socket, *budget,
        *tier;
    uint64_t batch, steps, warmup, decay_every, threads, loaders, prefetch, pause, seed,
        every, eval;
    double epochs, lr, decay_factor, weight_decay, momentum, clip;
    bool   json, watch, quiet;
} train_words;

static int
complain(const char *what, const char *word)
{
    fprintf(stderr, "zico train: %s%s%s%s\n", what, word ? " '" : "", word ? word : "",
            word ? "'" : "");
    return ZI_EXIT_USAGE;
}

/* ---- optimizer and learning rate ------------------------------------------------------------ */

static const struct {
    const char   *name;
    zi_optim_kind kind;
    double        lr;
} optimizer[] = {{"sgd", ZI_OPTIM_SGD, 0.1},
                 {"momentum", ZI_OPTIM_MOMENTUM, 0.05},
                 {"adam", ZI_OPTIM_ADAM, 1e-3},
                 {"adamw", ZI_OPTIM_ADAMW, 1e-3}};

static int
read_optimizer(const train_words *w, zi_run_options *o)
{
    for (size_t i = 0; i < sizeof optimizer / sizeof *optimizer; i++) {
        if (strcmp(w->optimizer, optimizer[i].name) != 0) continue;
        o->optim = zi_optim_default(optimizer[i].kind);
        o->optim_name = optimizer[i].name;
        o->schedule.lr = w->lr >= 0 ? w->lr : optimizer[i].lr;
        if (w->weight_decay >= 0) o->optim.decay = w->weight_decay;
        if (w->momentum >= 0) o->optim.momentum = w->momentum;
        o->optim.clip_norm = w->clip;
        return ZI_EXIT_OK;
    }
    return complain("--optimizer is sgd, momentum, adam or adamw, not", w->optimizer);
}

static int
read_schedule(const train_words *w, zi_run_options *o)
{
    if (zi_schedule_find(w->decay, &o->schedule.kind) < 0)
        return complain("--decay is constant, cosine or step, not", w->decay);
    o->schedule.warmup = w->warmup;
    o->schedule.every = w->decay_every;
    o->schedule.gamma = w->decay_factor;
    if (o->schedule.kind == ZI_SCHEDULE_STEP && w->decay_every == 0)
        return complain("--decay step needs --decay-every", NULL);
    return ZI_EXIT_OK;
}

/* "600M", or a share of what the network would take. */
static int
read_budget(const train_words *w, zi_run_options *o)
{
    uint64_t share;
    if (!w->budget) return 0;
    if (zi_size_parse(w->budget, 0, &o->budget_bytes) >= 0) return 0;
    o->budget_bytes = 0;
    if (zi_size_parse(w->budget, 1000000, &share) < 0 || share == 0)
        return complain("--budget wants a size or a share: 600M, 40%, not", w->budget);
    o->budget_share = (double)share / 1e6;
    return 0;
}

static int
read_options(const train_words *w, const char *net, zi_run_options *o)
{
    if (w->steps > 0 && w->epochs > 0)
        return complain("--steps and --epochs do not go together", NULL);
    if (w->every > 0 && !w->save) return complain("--every needs --save", NULL);
    if (w->batch > 1u << 20) return complain("--batch is too large", NULL);
    if (w->threads > 4096 || w->loaders > 16)
        return complain("--threads or --loaders is too large", NULL);
    if (w->prefetch < 1 || w->prefetch > 64)
        return complain("--prefetch wants 1 to 64 batches", NULL);
    if (w->pause > 60000) return complain("--loader-pause is too large", NULL);
    if (zi_data_words_read(&w->data, "train", true, w->seed, &o->data) < 0)
        return ZI_EXIT_USAGE;
    o->net = net;
    o->batch = (int64_t)w->batch;
    o->steps = w->steps > 0 ? w->steps : DEFAULT_STEPS;
    o->epochs = w->epochs;
    o->n_threads = (unsigned)w->threads;
    o->loader_threads = (unsigned)w->loaders;
    o->loader_ahead = (unsigned)w->prefetch;
    o->loader_pause_ms = (unsigned)w->pause;
    o->seed = w->seed;
    o->save = w->save;
    o->every = w->every;
    o->resume = w->resume;
    o->planner = w->planner;
    o->socket = w->socket;
    o->tier = w->tier;
    o->trace = w->trace;
    o->eval_samples = w->eval;
    o->watch = w->watch;
    int rc = read_budget(w, o);
    if (!rc) rc = read_optimizer(w, o);
    return rc ? rc : read_schedule(w, o);
}

/* ---- the end ----------------------------------------------------------------------------------- */

/* One word of a command, so that a shell reads it back as it is. */
static void
print_word(const char *word)
{
    if (*word && !word[strcspn(word, " \t\n'\"\\$*?&|;<>()[]{}#~`!")]) {
        fprintf(stderr, " %s", word);
        return;
    }
    fputs(" '", stderr);
    for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, stderr);
    fputc('\'', stderr);
}

/* The command line again, with --resume of the new checkpoint. */
static void
print_resume(char *const *argv, const char *path)
{
    fputs("resume with: zico train", stderr);
    for (char *const *a = argv + 1; *a; a++) {
        if (strcmp(*a, "--resume") == 0 && a[1]) {
            a++;
            continue;
        }
        if (strncmp(*a, "--resume=", 9) == 0) continue;
        print_word(*a);
    }
    fputs(" --resume", stderr);
    print_word(path);
    fputc('\n', stderr);
}

static int
run(const zi_run_options *o, zi_train_view *view, char *const *argv)
{
    zi_train_diag diag = {""};
    zi_run_result res;

    zico_status st = zi_run_train(o, &diag, &res);
    zi_train_view_end(view, &res, st);
    if (st < 0) {
        fprintf(stderr, "zico train: %s\n",
                diag.text[0] ? diag.text : zico_status_text(st));
        if (res.saved[0] && st != ZICO_E_NAN) print_resume(argv, res.saved);
        return st == ZICO_E_ARG || st == ZICO_E_NOTFOUND ? ZI_EXIT_USAGE : ZI_EXIT_FAILED;
    }
    if (!res.stopped) return ZI_EXIT_OK;
    if (res.saved[0]) {
        fprintf(stderr, "zico train: stopped after step %llu, saved %s\n",
                (unsigned long long)res.done, res.saved);
        print_resume(argv, res.saved);
    } else if (res.done >= res.first) {
        fprintf(stderr,
                "zico train: stopped while it waited for memory inside step %llu; "
                "nothing is saved\n",
                (unsigned long long)res.done + 1);
    } else {
        fputs("zico train: stopped before the first step was over\n", stderr);
    }
    return EXIT_INTERRUPTED;
}

int
zi_cmd_train(int argc, char **argv)
{
    train_words  w = {.optimizer = "adam",
                      .decay = "constant",
                      .lr = -1,
                      .weight_decay = -1,
                      .momentum = -1,
                      .decay_factor = 0.1,
                      .eval = EVAL_SAMPLES,
                      .prefetch = 4,
                      .seed = 1};
    const zi_arg arg[] = {
        {"batch", ZI_ARG_U64, &w.batch, "N",
         "samples per step (64; ONNX: the file's own)"},
        {"steps", ZI_ARG_U64, &w.steps, "N", "steps in all (500)"},
        {"epochs", ZI_ARG_REAL, &w.epochs, "N", "in place of --steps"},
        ZI_DATA_ARGS(w.data),
        {"held", ZI_ARG_REAL, &w.data.held, "SHARE",
         "--data, --text: keep this share back for judging"},
        {"no-augment", ZI_ARG_FLAG, &w.data.plain, NULL,
         "--cifar: no random crops and flips"},
        {"eval", ZI_ARG_U64, &w.eval, "N",
         "judge on so many held samples at the end (2000)"},
        {"optimizer", ZI_ARG_TEXT, &w.optimizer, "NAME",
         "sgd, momentum, adam (default), adamw"},
        {"lr", ZI_ARG_REAL, &w.lr, "X", "learning rate (by optimizer)"},
        {"warmup", ZI_ARG_U64, &w.warmup, "N", "steps in which it rises from 0"},
        {"decay", ZI_ARG_TEXT, &w.decay, "KIND", "constant (default), cosine, step"},
        {"decay-every", ZI_ARG_U64, &w.decay_every, "N",
         "--decay step: after so many steps"},
        {"decay-factor", ZI_ARG_REAL, &w.decay_factor, "X",
         "--decay step: times this (0.1)"},
        {"weight-decay", ZI_ARG_REAL, &w.weight_decay, "X",
         "as PyTorch's (by optimizer)"},
        {"momentum", ZI_ARG_REAL, &w.momentum, "X", "of --optimizer momentum (0.9)"},
        {"clip", ZI_ARG_REAL, &w.clip, "NORM", "clip the gradients' norm"},
        {"threads", ZI_ARG_U64, &w.threads, "N", "compute threads (all cores)"},
        {"loaders", ZI_ARG_U64, &w.loaders, "N", "threads that prepare batches (1)"},
        {"prefetch", ZI_ARG_U64, &w.prefetch, "N",
         "batches prepared ahead, the one in use among them (4)"},
        {"loader-pause", ZI_ARG_U64, &w.pause, "MS",
         "each batch takes so much longer, as from a slow disk"},
        {"seed", ZI_ARG_U64, &w.seed, "N",
         "of weights, order, dropout, synthetic data (1)"},
        {"save", ZI_ARG_TEXT, &w.save, "FILE", "checkpoint (safetensors), at the end"},
        {"every", ZI_ARG_U64, &w.every, "N", "and after every so many steps"},
        {"resume", ZI_ARG_TEXT, &w.resume, "FILE",
         "go on from a checkpoint, bit for bit"},
        {"budget", ZI_ARG_TEXT, &w.budget, "BYTES",
         "use no more memory for tensors: 600M, 4G, or 40% of what it would take"},
        {"planner", ZI_ARG_TEXT, &w.planner, "NAME",
         "who fits a step into the budget (auto); see zico plan"},
        {"tier", ZI_ARG_TEXT, &w.tier, "WHERE",
         "for what is moved out: file:DIR, ram or none (a spill file)"},
        {"socket", ZI_ARG_TEXT, &w.socket, "PATH",
         "be a job of that broker ($ZICO_SOCKET)"},
        {"trace", ZI_ARG_TEXT, &w.trace, "FILE",
         "timeline of the last step, for Perfetto"},
        {"watch", ZI_ARG_FLAG, &w.watch, NULL, "check every tensor in every step; slow"},
        {"json", ZI_ARG_FLAG, &w.json, NULL,
         "one JSON object per line on standard output"},
        {"quiet", ZI_ARG_FLAG, &w.quiet, NULL, "no progress"},
    };
    const zi_args args = {
        .usage = "train NET [OPTION...]",
        .about = "Trains NET: a network of the zoo with parameters, such as resnet20 or\n"
                 "resnet50:classes=10,size=64, or an .onnx file.  Ctrl-C finishes the "
                 "step, saves\n"
                 "and says how to resume (exit code 130).",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
        .rest_least = 1,
        .rest_most = 1,
    };
    zi_run_options o = {0};
    const char    *net;

    zico_status st = zi_args_parse(&args, argc, argv, &net, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    zi_cli_calm(w.socket, argv);
    int rc = read_options(&w, net, &o);
    if (rc != ZI_EXIT_OK) return rc;
    zi_train_view view = {.json = w.json, .quiet = w.quiet, .net = net};
    zi_train_view_begin(&view);
    o.on_event = zi_train_view_event;
    o.user = &view;
    o.stop = zi_cli_catch_stop();
    /* a file that grows beyond the limit is a failed write, not an end */
    signal(SIGXFSZ, SIG_IGN);
    return run(&o, &view, argv);
}

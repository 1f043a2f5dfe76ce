/* run_cmd.c -- zico run: a command, or all jobs of a file, under one budget. */
#include "cli/commands.h"

#include <stdio.h>
#include "cli/args.h"
#include "cli/run_command.h"
#include "cli/run_jobs.h"

static int
run_file(int argc, char **argv)
{
    zi_run_options opt = {.os = zi_os_real(), .out_dir = "zico-out"};
    const zi_arg   arg[] = {
          {"policy", ZI_ARG_TEXT, &opt.policy, "NAME",
           "zico (default), temporal, spatial, salus[:fifo|pack|srtf|fair], "
             "gandiva[:slice=S]"},
          {"budget", ZI_ARG_TEXT, &opt.budget, "BYTES",
           "4G, or 65%: of the sum of what the jobs need alone, measured first"},
          {"compare", ZI_ARG_FLAG, &opt.compare, NULL,
           "run the same jobs under temporal, spatial, zico and --policy, which may be a "
             "list, and print the table"},
          {"out", ZI_ARG_TEXT, &opt.out_dir, "DIR",
           "logs, picture and trace go there (default: zico-out)"},
          {"trace", ZI_ARG_TEXT, &opt.trace, "FILE",
           "one timeline with all jobs, for Perfetto"},
          {"record", ZI_ARG_FLAG, &opt.record, NULL, "keep the tides in DIR/tides"},
          {"socket", ZI_ARG_TEXT, &opt.socket_path, "PATH",
           "the broker's socket (default: the device's own)"},
          {"quiet", ZI_ARG_FLAG, &opt.quiet, NULL, "no live view"},
          {"json", ZI_ARG_FLAG, &opt.json, NULL, "the closing report as JSON"},
    };
    const zi_args args = {
        .usage = "run [OPTION...] FILE.yaml   |   run [OPTION...] -- COMMAND...",
        .about =
            "Runs all jobs of a file under one budget, with a live view and a closing "
            "report;\n"
            "or one command as a job (`zico run --help --` shows its options).\n"
            "\n"
            "A job file:\n"
            "  budget: 65%            # or 4G\n"
            "  policy: zico\n"
            "  cores: follow          # or fixed\n"
            "  jobs:\n"
            "    - name: big\n"
            "      train: resnet50:classes=10,size=64    # options as in zico train\n"
            "      batch: 32\n"
            "      steps: 50\n"
            "    - name: script\n"
            "      command: [/usr/bin/python3, train.py]\n"
            "Keys of a job: name, train | infer | command | shell, batch, steps, "
            "epochs,\n"
            "optimizer, lr, seed, planner, limit, latency, args, min, max, claim, "
            "weight,\n"
            "cores, env, dir, delay, max_wait, on_hang (wait | kill), steady\n"
            "(yes | no).",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
        .rest_least = 1,
        .rest_most = 1,
    };
    zico_status st = zi_args_parse(&args, argc, argv, &opt.file, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    return zi_run_jobs(&opt);
}

int
zi_cmd_run(int argc, char **argv)
{
    if (zi_run_is_command(argc, argv)) return zi_run_command_main(argc, argv);
    return run_file(argc, argv);
}

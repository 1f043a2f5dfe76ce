/* serve_cmd.c -- zico serve: a broker for one device, restarted if it dies. */
#include "cli/commands.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/size.h"
#include "broker/broker.h"
#include "cli/args.h"
#include "device/device.h"
#include "os/rundir.h"
#include "policy/policy.h"

typedef struct serve_words {
    const char *device, *budget, *socket, *policy, *tides;
    uint64_t    region_bytes, log_level, seed;
    double      linger_s, rejoin_wait_s;
    bool        guard;
} serve_words;

static void
on_ready(const char *socket_path, void *user)
{
    const zi_broker_options *opt = user;
    char                     text[ZI_SIZE_TEXT];

    zi_log(ZI_LOG_PROCESS, "serving %s with a budget of %s at %s", opt->device->name,
           zi_size_format(opt->budget_bytes, text), socket_path);
}

/* "8G", or "80%" of the memory that is free now. */
static zico_status
read_budget(const zi_device_ops *ops, const char *text, uint64_t *ret_bytes)
{
    zi_device *dev;
    uint64_t   total = 0, spare = 0;

    if (ops->open(zi_os_real(), 0, &dev) < 0) return ZICO_E_DEVICE;
    zico_status st = ops->memory(dev, &total, &spare);
    ops->close(dev);
    if (st < 0) return st;
    st = zi_size_parse(text ? text : "80%", spare, ret_bytes);
    if (st < 0)
        fprintf(stderr, "zico serve: '%s' is not a budget such as 8G or 80%%\n", text);
    else if (*ret_bytes < ZI_REGION_MIN)
        fprintf(stderr, "zico serve: a budget of '%s' is less than one region of 2 MiB\n",
                text);
    else if (*ret_bytes > total)
        fprintf(stderr, "zico serve: the budget '%s' is more than the device has\n",
                text);
    else
        return ZICO_OK;
    return ZICO_E_ARG;
}

static zico_status
read_options(const serve_words *w, zi_broker_options *opt)
{
    const char *arg;

    opt->device = zi_device_find(w->device);
    if (!opt->device) {
        fprintf(stderr, "zico serve: there is no device '%s' (try host)\n", w->device);
        return ZICO_E_ARG;
    }
    if (!zi_policy_find(w->policy, &arg)) {
        fprintf(stderr, "zico serve: there is no policy '%s'; there are:", w->policy);
        for (size_t i = 0; zi_policy_at(i); i++)
            fprintf(stderr, " %s", zi_policy_at(i)->name);
        fputs("\n", stderr);
        return ZICO_E_ARG;
    }
    uint64_t r = w->region_bytes;
    if (r != 0 && (r < ZI_REGION_MIN || r > ZI_REGION_MAX || (r & (r - 1)) != 0)) {
        fputs("zico serve: a region is a power of two from 2M to 64M\n", stderr);
        return ZICO_E_ARG;
    }
    opt->socket_path = w->socket;
    opt->region_bytes = r;
    opt->policy = w->policy;
    opt->seed = w->seed;
    opt->tides_dir = w->tides;
    opt->guard = w->guard;
    opt->linger_ns = (uint64_t)(w->linger_s * 1e9);
    opt->rejoin_wait_ns = (uint64_t)(w->rejoin_wait_s * 1e9);
    return read_budget(opt->device, w->budget, &opt->budget_bytes);
}

static int
tell_failure(const zi_broker_options *opt, zico_status st)
{
    char path[ZI_RUNDIR_PATH_MAX] = "?";

    zico_status where = zi_rundir_socket(zi_os_real(), opt->socket_path,
                                         opt->device->name, false, path, sizeof path);
    if (st == ZICO_E_EXISTS)
        fprintf(
            stderr,
            "zico serve: a broker serves %s already; `zico status` shows it, `zico limit "
            "--budget` changes its budget, `zico stop` ends it\n",
            path);
    else if (where == ZICO_E_DENIED)
        fprintf(stderr,
                "zico serve: the run directory is not ours alone (must have our owner "
                "and mode 0700); `zico doctor` names it\n");
    else
        fprintf(stderr, "zico serve: %s: %s\n", path, zico_status_text(st));
    return ZI_EXIT_FAILED;
}

int
zi_cmd_serve(int argc, char **argv)
{
    serve_words  w = {.device = "host", .policy = "zico", .log_level = 2};
    const zi_arg arg[] = {
        {"device", ZI_ARG_TEXT, &w.device, "NAME",
         "host (default), or cuda where there is one"},
        {"budget", ZI_ARG_TEXT, &w.budget, "BYTES",
         "what all jobs together may use: 8G, or 80% of what is free now (default)"},
        {"socket", ZI_ARG_TEXT, &w.socket, "PATH",
         "where to listen (default: $ZICO_SOCKET, else the run directory)"},
        {"region", ZI_ARG_SIZE, &w.region_bytes, "BYTES",
         "unit of exchange: a power of two from 2M to 64M (default: by budget)"},
        {"policy", ZI_ARG_TEXT, &w.policy, "NAME", "how to decide (default: zico)"},
        {"tides", ZI_ARG_TEXT, &w.tides, "DIR",
         "keep what is learnt of jobs between runs there"},
        {"linger", ZI_ARG_REAL, &w.linger_s, "S",
         "end so many seconds after the last job (default: never)"},
        {"rejoin-wait", ZI_ARG_REAL, &w.rejoin_wait_s, "S",
         "after a restart, wait so long for jobs that live but do not report (30)"},
        {"guard", ZI_ARG_FLAG, &w.guard, NULL,
         "jobs cannot touch memory that they do not hold (slow; for hunting bugs)"},
        {"seed", ZI_ARG_U64, &w.seed, "N", "of the policy's random numbers"},
        {"log-level", ZI_ARG_U64, &w.log_level, "N",
         "0 errors, 1 process, 2 sessions (default), 3 steps, 4 leases"},
    };
    const zi_args args = {
        .usage = "serve [OPTION...]",
        .about =
            "Owns the memory of one device and shares it among jobs of the same user.\n"
            "Ends in order on SIGTERM, SIGINT or `zico stop`; restarts itself if it "
            "dies,\n"
            "without harm to the jobs.",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
    };
    zi_broker_options opt = {0};

    zico_status st = zi_args_parse(&args, argc, argv, NULL, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    if (read_options(&w, &opt) < 0) return ZI_EXIT_USAGE;
    zi_log_set_level((zi_log_level)(w.log_level > 5 ? 5 : w.log_level));
    st = zi_broker_supervise(&opt, on_ready, &opt);
    return st < 0 ? tell_failure(&opt, st) : ZI_EXIT_OK;
}

/* limit_cmd.c -- zico limit, pause, resume, suspend, stop: people's wishes to a broker. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include "base/size.h"
#include "cli/args.h"
#include "cli/find_broker.h"
#include "cli/watch.h"

/* Send it, print what became of it. */
static int
ask(const char *command, const char *socket, const char *device, zi_msg *request)
{
    static const char *const outcome[] = {"applied", "deferred", "stale", "conflict"};
    char                     path[ZI_RUNDIR_PATH_MAX];
    zi_msg                   answer;

    if (zi_find_broker(command, socket, device, path) < 0) return ZI_EXIT_FAILED;
    request->seq = 1;
    zico_status st = zi_watch_request(zi_os_real(), path, request, &answer);
    if (st < 0 && st != ZICO_E_ARG) {
        zi_find_broker_complain(command, path, st);
        return ZI_EXIT_FAILED;
    }
    if (st == ZICO_E_ARG) {
        fprintf(stderr, "zico %s: a value that no message can carry\n", command);
        return ZI_EXIT_USAGE;
    }
    if (answer.type == ZI_MSG_LIMITED) {
        const zi_msg_limited *m = &answer.limited;
        printf("%s: %s (revision %llu)\n", outcome[m->outcome], m->text,
               (unsigned long long)m->revision);
        return m->outcome <= ZI_LIMIT_DEFERRED ? ZI_EXIT_OK : ZI_EXIT_FAILED;
    }
    fprintf(stderr, "zico %s: %s\n", command,
            answer.type == ZI_MSG_DENY     ? answer.deny.text
            : answer.type == ZI_MSG_REFUSE ? answer.refuse.text
                                           : "an answer that makes no sense");
    return ZI_EXIT_FAILED;
}

static bool
copy_name(const char *command, const char *from, char to[64])
{
    if (strlen(from) < 64) {
        strcpy(to, from);
        return true;
    }
    fprintf(stderr, "zico %s: no job has a name of more than 63 bytes\n", command);
    return false;
}

int
zi_cmd_limit(int argc, char **argv)
{
    const char  *socket = NULL, *device = "host", *rest[64];
    uint64_t     revision = 0, budget = 0, min = UINT64_MAX, max = UINT64_MAX;
    double       weight = 0;
    size_t       n = 0;
    const zi_arg arg[] = {
        {"budget", ZI_ARG_SIZE, &budget, "BYTES", "of the device; without a JOB"},
        {"min", ZI_ARG_SIZE, &min, "BYTES", "what the job is guaranteed"},
        {"max", ZI_ARG_SIZE, &max, "BYTES", "the most it may hold; 0: the budget"},
        {"weight", ZI_ARG_REAL, &weight, "W",
         "its share relative to others; 1 is normal"},
        {"revision", ZI_ARG_U64, &revision, "N",
         "only if nobody changed it since (zico status --json)"},
        {"device", ZI_ARG_TEXT, &device, "NAME", "whose broker (default: host)"},
        {"socket", ZI_ARG_TEXT, &socket, "PATH", "where it listens"},
    };
    const zi_args args = {
        .usage = "limit --budget BYTES | JOB [OPTION...]",
        .about =
            "Changes the budget of a device, or the limits of a job, while all run.\n"
            "Prints applied, deferred (holds as soon as memory has come back), stale\n"
            "(somebody else was faster) or conflict.",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
        .rest_most = 1};
    zi_msg m = {.type = ZI_MSG_LIMIT};

    if (argc > 60) return ZI_EXIT_USAGE;
    zico_status st = zi_args_parse(&args, argc, argv, rest, &n);
    if (st != ZICO_OK) return zi_args_exit(st);
    bool of_job = min != UINT64_MAX || max != UINT64_MAX || weight > 0;
    if ((n == 0) != (budget > 0) || (n == 1) != of_job || weight > 1000) {
        fputs(
            "zico limit: either --budget, or a JOB with --min, --max or --weight (up to "
            "1000); see zico limit --help\n",
            stderr);
        return ZI_EXIT_USAGE;
    }
    if (n == 1 && !copy_name("limit", rest[0], m.limit.name)) return ZI_EXIT_USAGE;
    m.limit.expect_revision = revision;
    m.limit.budget_bytes = budget;
    m.limit.min_bytes = min;
    m.limit.max_bytes = max;
    m.limit.weight_milli = (uint32_t)(weight * 1000 + 0.5);
    return ask("limit", socket, device, &m);
}

static int
control(int argc, char **argv, zi_control verb, const char *about, bool of_job)
{
    const char  *socket = NULL, *device = "host", *rest[64];
    char         usage[64];
    const zi_arg arg[] = {
        {"device", ZI_ARG_TEXT, &device, "NAME", "whose broker (default: host)"},
        {"socket", ZI_ARG_TEXT, &socket, "PATH", "where it listens"},
    };
    const zi_args args = {.usage = usage,
                          .about = about,
                          .arg = arg,
                          .n_args = 2,
                          .rest_least = of_job,
                          .rest_most = of_job};
    zi_msg        m = {.type = ZI_MSG_CONTROL};

    snprintf(usage, sizeof usage, "%.20s %s[OPTION...]", argv[0], of_job ? "JOB " : "");
    if (argc > 60) return ZI_EXIT_USAGE;
    zico_status st = zi_args_parse(&args, argc, argv, rest, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    if (of_job && !copy_name(argv[0], rest[0], m.control.name)) return ZI_EXIT_USAGE;
    m.control.verb = (uint8_t)verb;
    return ask(argv[0], socket, device, &m);
}

int
zi_cmd_pause(int argc, char **argv)
{
    return control(
        argc, argv, ZI_CONTROL_PAUSE,
        "The job finishes its step and begins no other until `zico resume JOB`.", true);
}

int
zi_cmd_resume(int argc, char **argv)
{
    return control(argc, argv, ZI_CONTROL_RESUME,
                   "A paused or suspended job goes on when its turn comes.", true);
}

int
zi_cmd_suspend(int argc, char **argv)
{
    return control(
        argc, argv, ZI_CONTROL_SUSPEND,
        "At its next step boundary the job moves its memory out, so that others\n"
        "can have it, until `zico resume JOB`.",
        true);
}

int
zi_cmd_stop(int argc, char **argv)
{
    return control(
        argc, argv, ZI_CONTROL_SHUTDOWN,
        "Ends the broker in order.  Jobs are told and go on with private memory.", false);
}

/* run_command.c -- prepares the environment of one command and becomes it. */
#include "cli/run_command.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/commands.h"
#include "cli/ensure.h"
#include "cli/observe_run.h"
#include "hook/env.h"
#include "os/rundir.h"

static int
complain(const char *fmt, const char *what, const char *why)
{
    fprintf(stderr, "zico run: ");
    fprintf(stderr, fmt, what, why);
    fputc('\n', stderr);
    return 2;
}

/* -- where our own files lie --------------------------------------------------------------------- */

/* The first of `places` (relative to the folder of this program) that exists. */
static bool
find_beside_us(const char *const places[], size_t n, char *buf)
{
    char    dir[PATH_MAX], path[PATH_MAX + 128];
    ssize_t len = readlink("/proc/self/exe", dir, sizeof dir - 1);

    if (len <= 0) return false;
    dir[len] = '\0';
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, places[i]);
        if (realpath(path, buf)) return true;
    }
    return false;
}

/* So that a job can ask for the command that started it (python/zico/limits.py). */
static void
put_command(void)
{
    char path[PATH_MAX];
    if (realpath("/proc/self/exe", path)) setenv("ZICO_COMMAND", path, 1);
}

/* The build tree, then an installation. */
static const char *const library_places[] = {
    "libzico-hook.so",
    "../lib/x86_64-linux-gnu/libzico-hook.so",
    "../lib/aarch64-linux-gnu/libzico-hook.so",
    "../lib64/libzico-hook.so",
    "../lib/libzico-hook.so",
};
static const char *const python_places[] = {
    "../../python",
    "../lib/x86_64-linux-gnu/zico/python",
    "../lib/aarch64-linux-gnu/zico/python",
    "../lib64/zico/python",
    "../lib/zico/python",
};

/* -- the environment --------------------------------------------------------------------------------- */

/* NAME=front:old, or NAME=front. */
static void
prepend(const char *name, const char *front)
{
    const char *old = getenv(name);
    zi_str      s = {0};

    zi_str_add(&s, front);
    if (old && *old) zi_str_fmt(&s, ":%s", old);
    setenv(name, zi_str_get(&s), 1);
    zi_str_free(&s);
}

static bool
put(const char *name, const char *value)
{
    return !value || setenv(name, value, 1) == 0;
}

static int
preload(void)
{
    char lib[PATH_MAX], python[PATH_MAX], startup[PATH_MAX + 16];

    if (!find_beside_us(library_places, sizeof library_places / sizeof *library_places,
                        lib))
        return complain("libzico-hook.so is not there%s%s", "", "");
    if (strpbrk(lib, " :"))
        return complain("%s: a path with blanks or colons cannot be preloaded%s", lib,
                        "");
    prepend("LD_PRELOAD", lib);
    if (!find_beside_us(python_places, sizeof python_places / sizeof *python_places,
                        python))
        return 0; /* C programs do not need it */
    snprintf(startup, sizeof startup, "%s/zico/startup", python);
    prepend("PYTHONPATH", python);
    prepend("PYTHONPATH", startup);
    return 0;
}

/* Programs that are started from within a step of this one know that they may have all cores back. */
static void
put_all_cores(void)
{
    cpu_set_t set;
    char      text[16] = "0";

    if (sched_getaffinity(0, sizeof set, &set) == 0 &&
        CPU_COUNT(&set) == sysconf(_SC_NPROCESSORS_ONLN))
        snprintf(text, sizeof text, "%d", (int)getpid());
    put(ZI_ENV_ALL_CORES, text);
}

static const char *const thread_variables[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                               "OPENBLAS_NUM_THREADS",
                                               "NUMEXPR_NUM_THREADS"};

/* As many threads as cores, unless the user has set a number; spinning is kept short, as
 * another job may want the core. */
static int
set_threads(const char *asked)
{
    char         text[32], *end;
    const char  *own = getenv("OMP_NUM_THREADS");
    zi_core_mode mode = ZI_CORES_FOLLOW;
    uint32_t     n = 0;

    if (asked && !strcmp(asked, "fixed")) asked = "fixed:1"; /* as in job files */
    if (asked && zi_hook_parse_cores(asked, &mode, &n) < 0)
        return complain("--cores %s: want follow, own, fixed or fixed:N%s", asked, "");
    if (!asked && own && strtoul(own, &end, 10) > 0) {
        snprintf(text, sizeof text, "fixed:%lu", strtoul(own, &end, 10));
        put(ZI_ENV_CORES, text);
    } else
        put(ZI_ENV_CORES, asked ? asked : "follow");
    zi_cli_calm_environment();
    put_all_cores();
    if (mode == ZI_CORES_OWN) return 0;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, sizeof text, "%ld", mode == ZI_CORES_FIXED ? (long)n : online);
    for (size_t i = 0; i < sizeof thread_variables / sizeof *thread_variables; i++)
        setenv(thread_variables[i], text, 0);
    return 0;
}

/* "python3 -u train.py" is train; "make all" is make. */
static void
name_of(char *const argv[], char *buf, size_t cap)
{
    const char *base = strrchr(argv[0], '/');
    const char *name = base ? base + 1 : argv[0];

    if (strncmp(name, "python", 6) == 0)
        for (int i = 1; argv[i]; i++)
            if (argv[i][0] != '-') {
                base = strrchr(argv[i], '/');
                name = base ? base + 1 : argv[i];
                break;
            }
    snprintf(buf, cap, "%s", name);
    size_t n = strlen(buf);
    if (n > 3 && strcmp(buf + n - 3, ".py") == 0) buf[n - 3] = '\0';
}

static int
put_size(const char *option, const char *name, const char *text)
{
    uint64_t bytes;
    char     value[24];

    if (!text) return 0;
    if (zi_size_parse(text, 0, &bytes) < 0)
        return complain("%s %s: not a size such as 600M or 4G", option, text);
    snprintf(value, sizeof value, "%llu", (unsigned long long)bytes);
    put(name, value);
    return 0;
}

static int
put_weight(const char *text)
{
    char  *end, value[24];
    double w;

    if (!text) return 0;
    w = strtod(text, &end);
    if (end == text || *end || !(w >= 0.001 && w <= 1000))
        return complain("--weight %s: want a number from 0.001 to 1000%s", text, "");
    snprintf(value, sizeof value, "%u", (unsigned)(w * 1000 + 0.5));
    put(ZI_ENV_WEIGHT, value);
    return 0;
}

static int
put_options(const zi_command_options *opt, char *const argv[])
{
    char     name[64];
    uint64_t ns;
    int      rc;

    name_of(argv, name, sizeof name);
    put(ZI_ENV_NAME, opt->name ? opt->name : name);
    put(ZI_ENV_SHAPE, opt->shape);
    if ((rc = put_size("--min", ZI_ENV_LEAST, opt->min))) return rc;
    if ((rc = put_size("--max", ZI_ENV_MOST, opt->max))) return rc;
    if ((rc = put_size("--claim", ZI_ENV_CLAIM, opt->claim))) return rc;
    if ((rc = put_size("--hook-min", ZI_ENV_MIN, opt->hook_min))) return rc;
    if ((rc = put_weight(opt->weight))) return rc;
    if (opt->max_wait && zi_hook_parse_wait(opt->max_wait, &ns) < 0)
        return complain("--max-wait %s: want a time such as 30s or 5m%s", opt->max_wait,
                        "");
    put(ZI_ENV_MAX_WAIT, opt->max_wait);
    put(ZI_ENV_SPILL, opt->spill);
    put(ZI_ENV_STEADY, opt->steady ? "1" : NULL);
    return 0;
}

/* -- becoming it ------------------------------------------------------------------------------------- */

static int
become(char *const argv[])
{
    execvp(argv[0], argv);
    int code = errno == ENOENT ? 127 : 126;
    complain("%s: %s", argv[0], strerror(errno));
    return code;
}

static int
find_broker(const zi_command_options *opt)
{
    char     path[ZI_RUNDIR_PATH_MAX];
    zi_str   why = {0};
    uint64_t budget = 0;

    zico_status st =
        zi_rundir_socket(opt->os, opt->socket_path, "host", true, path, sizeof path);
    if (st < 0)
        return complain("no place for the broker's socket: %s%s", zico_status_text(st),
                        "");
    put(ZI_ENV_SOCKET, path);
    if (opt->no_broker) return 0;
    if (opt->budget && zi_size_parse(opt->budget, 0, &budget) < 0)
        return complain("--budget %s: not a size such as 600M or 4G%s", opt->budget, "");
    zi_ensure_options e = {.socket_path = path,
                           .budget_bytes = budget,
                           .policy = opt->policy};
    st = zi_ensure_broker(opt->os, &e, NULL, &why);
    if (st < 0) {
        complain("%s%s", *zi_str_get(&why) ? zi_str_get(&why) : zico_status_text(st), "");
        zi_str_free(&why);
        return 1;
    }
    zi_str_free(&why);
    return 0;
}

int
zi_run_command(const zi_command_options *opt, char *const argv[])
{
    int rc;

    if ((rc = put_options(opt, argv))) return rc;
    if (opt->observe) {
        put(ZI_ENV_MODE, "observe");
        if ((rc = preload())) return rc;
        zi_observe_run_options o = {.os = opt->os,
                                    .svg = opt->svg,
                                    .budget = opt->budget};
        return zi_observe_run(&o, argv);
    }
    if ((rc = find_broker(opt))) return rc;
    if ((rc = set_threads(opt->cores))) return rc;
    put(ZI_ENV_MODE, "join");
    put_command();
    if ((rc = preload())) return rc;
    return become(argv);
}

/* -- words -------------------------------------------------------------------------------------------- */

static const char usage[] =
    "zico run [options] -- command...     run a program as a job, unmodified\n"
    "zico run --observe -- command...     change nothing, watch its memory, report\n"
    "\n"
    "  --budget SIZE    for a broker that must be started (default: 80 % of free "
    "memory)\n"
    "  --policy NAME    for a broker that must be started (default: zico)\n"
    "  --socket PATH    the broker's socket\n"
    "  --name NAME      shown in zico status\n"
    "  --min SIZE       guaranteed memory          --max SIZE    never more\n"
    "  --claim SIZE     most memory in one step (default: learnt)\n"
    "  --weight N       share relative to others (default: 1)\n"
    "  --cores WHAT     follow (default), own, fixed (1) or fixed:N\n"
    "  --max-wait TIME  a longer wait becomes an out-of-memory error: 30s, 5m\n"
    "  --steady         its steps repeat to the byte (no evaluation inside a step): "
    "share\n"
    "                   more tightly; a step that needs more late may be refused memory\n"
    "  --spill DIR      its memory goes there when another job cannot go on otherwise\n"
    "                   (default: the temporary folder), none: never\n"
    "  --hook-min SIZE  blocks of this size and more are zico's (default: 128K)\n"
    "  --svg FILE       with --observe: the picture as a file\n";

enum {
    OPT_BUDGET = 256,
    OPT_POLICY,
    OPT_SOCKET,
    OPT_NAME,
    OPT_SHAPE,
    OPT_MIN,
    OPT_MAX,
    OPT_CLAIM,
    OPT_WEIGHT,
    OPT_CORES,
    OPT_MAX_WAIT,
    OPT_HOOK_MIN,
    OPT_SPILL,
    OPT_SVG,
    OPT_OBSERVE,
    OPT_STEADY,
    OPT_HELP
};

static const struct option long_options[] = {
    {"budget", 1, 0, OPT_BUDGET},     {"policy", 1, 0, OPT_POLICY},
    {"socket", 1, 0, OPT_SOCKET},     {"name", 1, 0, OPT_NAME},
    {"shape", 1, 0, OPT_SHAPE},       {"min", 1, 0, OPT_MIN},
    {"max", 1, 0, OPT_MAX},           {"claim", 1, 0, OPT_CLAIM},
    {"weight", 1, 0, OPT_WEIGHT},     {"cores", 1, 0, OPT_CORES},
    {"max-wait", 1, 0, OPT_MAX_WAIT}, {"hook-min", 1, 0, OPT_HOOK_MIN},
    {"spill", 1, 0, OPT_SPILL},       {"svg", 1, 0, OPT_SVG},
    {"observe", 0, 0, OPT_OBSERVE},   {"steady", 0, 0, OPT_STEADY},
    {"help", 0, 0, OPT_HELP},         {0, 0, 0, 0},
};

static const char **
place_of(zi_command_options *o, int c)
{
    switch (c) {
    case OPT_BUDGET:
        return &o->budget;
    case OPT_POLICY:
        return &o->policy;
    case OPT_SOCKET:
        return &o->socket_path;
    case OPT_NAME:
        return &o->name;
    case OPT_SHAPE:
        return &o->shape;
    case OPT_MIN:
        return &o->min;
    case OPT_MAX:
        return &o->max;
    case OPT_CLAIM:
        return &o->claim;
    case OPT_WEIGHT:
        return &o->weight;
    case OPT_CORES:
        return &o->cores;
    case OPT_MAX_WAIT:
        return &o->max_wait;
    case OPT_HOOK_MIN:
        return &o->hook_min;
    case OPT_SPILL:
        return &o->spill;
    case OPT_SVG:
        return &o->svg;
    default:
        return NULL;
    }
}

bool
zi_run_is_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) return true;
    return false;
}

int
zi_run_command_main(int argc, char **argv)
{
    zi_command_options o = {.os = zi_os_real()};
    int                c;

    optind = 0;
    while ((c = getopt_long(argc, argv, "+h", long_options, NULL)) != -1) {
        const char **place = place_of(&o, c);
        if (place)
            *place = optarg;
        else if (c == OPT_OBSERVE)
            o.observe = true;
        else if (c == OPT_STEADY)
            o.steady = true;
        else {
            fputs(usage, c == OPT_HELP || c == 'h' ? stdout : stderr);
            return c == OPT_HELP || c == 'h' ? 0 : 2;
        }
    }
    if (optind >= argc) {
        fputs("zico run: no command after --\n", stderr);
        return 2;
    }
    return zi_run_command(&o, argv + optind);
}

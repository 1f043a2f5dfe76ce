/* status_cmd.c -- zico status: who holds what, who waits, why, and where it stands. */
#include "cli/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/size.h"
#include "cli/args.h"
#include "cli/find_broker.h"
#include "cli/status_view.h"
#include "cli/watch.h"
#include "policy/policy.h"

static zico_status
show(const zi_picture *p, bool json, bool again)
{
    zi_style style = {.unicode = !json, .width = 0};
    zi_str   out = {0};

    zico_status st = json ? zi_status_json(p, &out) : zi_status_text(p, &style, &out);
    if (st >= 0) {
        if (again && !json) fputs("\033[H\033[2J", stdout);
        fwrite(zi_str_get(&out), 1, out.n, stdout);
        if (fflush(stdout) != 0) st = ZICO_E_IO;
    }
    zi_str_free(&out);
    return st;
}

int
zi_cmd_status(int argc, char **argv)
{
    const char  *socket = NULL, *device = "host";
    bool         json = false, watch = false;
    char         path[ZI_RUNDIR_PATH_MAX];
    zi_watch    *w;
    const zi_arg arg[] = {
        {"json", ZI_ARG_FLAG, &json, NULL, "one JSON object a line, sizes in bytes"},
        {"watch", ZI_ARG_FLAG, &watch, NULL, "go on whenever something changes"},
        {"device", ZI_ARG_TEXT, &device, "NAME", "whose broker (default: host)"},
        {"socket", ZI_ARG_TEXT, &socket, "PATH", "where it listens"},
    };
    const zi_args args = {.usage = "status [OPTION...]",
                          .about =
                              "Who holds what of a device's memory, who waits and why.",
                          .arg = arg,
                          .n_args = sizeof arg / sizeof arg[0]};

    zico_status st = zi_args_parse(&args, argc, argv, NULL, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    if (zi_find_broker("status", socket, device, path) < 0) return ZI_EXIT_FAILED;
    st = zi_watch_open(zi_os_real(), path, watch, &w);
    if (st < 0) {
        zi_find_broker_complain("status", path, st);
        return ZI_EXIT_FAILED;
    }
    bool clear = watch && isatty(STDOUT_FILENO);
    do {
        st = zi_watch_next(w, watch ? -1 : 10000000000);
        if (st >= 0) st = show(zi_watch_picture(w), json, clear);
    } while (watch && st >= 0);
    zi_watch_close(w);
    if (st >= 0 || (watch && st == ZICO_E_GONE)) return ZI_EXIT_OK;
    zi_find_broker_complain("status", path, st);
    return ZI_EXIT_FAILED;
}

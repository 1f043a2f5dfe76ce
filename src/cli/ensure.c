/* ensure.c -- joins a running broker or starts one. */
#include "cli/ensure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "base/try.h"
#include "cli/watch.h"

#define UP_WITHIN_NS  10000000000ull /* a broker that is not up by then never will be */
#define LOOK_EVERY_NS 5000000ull

zico_status
zi_ensure_default_budget(uint64_t *ret_bytes)
{
    char               line[256];
    unsigned long long kib = 0;
    FILE              *f = fopen("/proc/meminfo", "re");
    if (!f) return ZICO_E_OS;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    if (!kib) return ZICO_E_OS;
    *ret_bytes = kib * 1024 / 5 * 4;
    return ZICO_OK;
}

/* ZICO_OK: a broker answers there and is what was asked for. */
static zico_status
look(const zi_os *os, const zi_ensure_options *opt, zi_str *why)
{
    zi_watch *w;
    char      has[ZI_SIZE_TEXT], wants[ZI_SIZE_TEXT];

    ZI_TRY(zi_watch_open(os, opt->socket_path, false, &w));
    zico_status st = zi_watch_next(w, 5000000000);
    if (st == ZICO_OK) {
        const zi_msg_status *d = &zi_watch_picture(w)->device;
        if (opt->budget_bytes && opt->budget_bytes != d->budget_bytes) {
            zi_str_fmt(
                why,
                "a broker with a budget of %s runs at %s, %s was asked for; change it "
                "with `zico limit --budget`, or leave --budget out to join it",
                zi_size_format(d->budget_bytes, has), opt->socket_path,
                zi_size_format(opt->budget_bytes, wants));
            st = ZICO_E_EXISTS;
        } else if (opt->policy && strcmp(opt->policy, d->policy)) {
            zi_str_fmt(
                why,
                "a broker with policy %s runs at %s, %s was asked for; leave --policy "
                "out to join it, or take another --socket",
                d->policy, opt->socket_path, opt->policy);
            st = ZICO_E_EXISTS;
        }
    }
    zi_watch_close(w);
    return st;
}

/* -- starting --------------------------------------------------------------------------- */

typedef struct words {
    char *at[24];
    int   n;
    char  text[8][32];
    int   n_text;
} words;

static void
word(words *w, const char *a)
{
    w->at[w->n++] = (char *)a;
}

static void
option_u64(words *w, const char *name, uint64_t value)
{
    char *t = w->text[w->n_text++];
    snprintf(t, sizeof w->text[0], "%llu", (unsigned long long)value);
    word(w, name);
    word(w, t);
}

static void
serve_words(words *w, const zi_ensure_options *opt, uint64_t budget)
{
    word(w, "zico");
    word(w, "serve");
    word(w, "--device");
    word(w, opt->device ? opt->device : "host");
    word(w, "--socket");
    word(w, opt->socket_path);
    option_u64(w, "--budget", budget);
    if (opt->region_bytes) option_u64(w, "--region", opt->region_bytes);
    if (opt->policy) {
        word(w, "--policy");
        word(w, opt->policy);
    }
    if (opt->tides_dir) {
        word(w, "--tides");
        word(w, opt->tides_dir);
    }
    option_u64(w, "--linger", opt->linger_s ? opt->linger_s : 10);
    w->at[w->n] = NULL;
}

/* In the child: away from our terminal, its signals and its descriptors. */
static _Noreturn void
become_broker(const zi_ensure_options *opt, words *w)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = opt->log_path
                  ? open(opt->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                  : -1;
    setsid();
    dup2(null, 0);
    dup2(null, 1);
    dup2(log >= 0 ? log : null, 2);
    unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", w->at);
    _exit(127);
}

/* Through a grandchild, so that nobody here has to wait for it. */
static zico_status
start(const zi_ensure_options *opt, uint64_t budget)
{
    words w = {0};
    int   status = 0;

    serve_words(&w, opt, budget);
    pid_t pid = fork();
    if (pid < 0) return ZICO_E_OS;
    if (pid == 0) {
        pid_t inner = fork();
        if (inner == 0) become_broker(opt, &w);
        _exit(inner < 0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0 ? ZICO_OK : ZICO_E_OS;
}

static void
add_log_end(const char *path, zi_str *why)
{
    char   end[600];
    size_t n = 0;
    FILE  *f = path ? fopen(path, "re") : NULL;
    if (!f) return;
    if (fseek(f, -(long)(sizeof end - 1), SEEK_END) != 0) rewind(f);
    n = fread(end, 1, sizeof end - 1, f);
    fclose(f);
    zi_str_add(why, "; its log ends with:\n");
    zi_str_add_n(why, end, n);
}

static zico_status
start_and_wait(const zi_os *os, const zi_ensure_options *opt, zi_str *why)
{
    uint64_t    budget = opt->budget_bytes, begin = os->now_ns(os);
    zico_status st;

    if (!budget) ZI_TRY(zi_ensure_default_budget(&budget));
    st = start(opt, budget);
    if (st < 0) {
        zi_str_fmt(why, "could not start a broker");
        return st;
    }
    while (os->now_ns(os) - begin < UP_WITHIN_NS) {
        st = look(os, opt, why);
        if (st == ZICO_OK || st == ZICO_E_EXISTS) return st;
        os->sleep_until(os, os->now_ns(os) + LOOK_EVERY_NS);
    }
    zi_str_fmt(why, "the broker did not come up at %s within 10 s", opt->socket_path);
    add_log_end(opt->log_path, why);
    return ZICO_E_TIMEOUT;
}

zico_status
zi_ensure_broker(const zi_os *os, const zi_ensure_options *opt, bool *ret_started,
                 zi_str *why)
{
    char lock_path[4096];

    if (ret_started) *ret_started = false;
    zico_status st = look(os, opt, why);
    if (st == ZICO_OK || st == ZICO_E_EXISTS) return st;

    int n = snprintf(lock_path, sizeof lock_path, "%s.start", opt->socket_path);
    if (n < 0 || (size_t)n >= sizeof lock_path) return ZICO_E_LIMIT;
    long fd = os->open_file(os, lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        zi_str_fmt(why, "cannot make %s", lock_path);
        return zi_os_status(fd);
    }
    long rc = os->lock_file(os, (int)fd, 1);
    if (rc < 0) {
        os->close(os, (int)fd);
        return zi_os_status(rc);
    }
    st = look(os, opt, why); /* somebody else may have been quicker */
    if (st != ZICO_OK && st != ZICO_E_EXISTS) {
        st = start_and_wait(os, opt, why);
        if (st == ZICO_OK && ret_started) *ret_started = true;
    }
    os->close(os, (int)fd);
    return st;
}

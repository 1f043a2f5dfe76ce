/* supervise.c -- keeps a broker alive: the child serves, the parent keeps the estate.
 *
 * The parent does nothing but wait, so there is little in it that could fail.  It holds the
 * listening socket (whoever connects while no child runs is served by the next), the pool
 * and the writable map of the lease table, all inherited by fork.
 *
 * If the parent itself is killed, the child, which watches its pidfd, takes the parent's place:
 * it lets its connections go as if it had died, forks a broker of its own, and supervises that.
 * To the jobs it is a restart like any other.  The lock, which all share, keeps a second broker
 * away meanwhile.
 */
#include "broker/inside.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "base/try.h"

#define SHORT_LIFE_NS 1000000000u
#define DEATHS_MAX    20 /* so many short lives in a row, by its own fault: give up */
#define EXIT_FAILED   70 /* the child could not even begin */
#define ORPHANED      -1 /* not an exit: the child's parent is dead */

static zi_broker *signalled; /* the child's, for its signal handler */

static void
on_signal(int sig)
{
    (void)sig;
    if (signalled) zi_broker_stop(signalled);
}

/* Those that `attend` waits for. */
static void
block_signals(sigset_t *ret_before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, ret_before);
}

/* Each job takes two descriptors. */
static void
allow_many_files(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

/* An exit code, or ORPHANED. */
static int
child(const zi_broker_options *opt, zi_estate *e, pid_t parent)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t         all;
    zi_broker       *b;

    prctl(PR_SET_NAME, "zico-broker");
    allow_many_files();
    zico_status st = zi_broker_new(opt, e, &b);
    if (st >= 0) {
        st = zi_broker_watch_parent(b, parent);
        if (st < 0) zi_broker_free(b);
    }
    if (st < 0) {
        zi_log(ZI_LOG_ERROR, "cannot begin: %s", zico_status_text(st));
        return EXIT_FAILED;
    }
    signalled = b;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    st = zi_broker_run(b);
    block_signals(NULL);
    signalled = NULL;
    zi_broker_free(b);
    return st == ZICO_E_GONE ? ORPHANED : st < 0 ? EXIT_FAILED : 0;
}

/* Wait for the child's end; pass on what we are told. */
static int
attend(pid_t pid)
{
    sigset_t set;
    int      wstatus, sig;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    for (;;) {
        pid_t got = waitpid(pid, &wstatus, WNOHANG);
        if (got == pid) return wstatus;
        if (got < 0 && errno != EINTR) return -1;
        if (sigwait(&set, &sig) != 0) continue;
        if (sig != SIGCHLD) kill(pid, SIGTERM);
    }
}

static bool
ended_in_order(int wstatus)
{
    return WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0;
}

/* From outside, which says nothing about its health. */
static bool
was_shot(int wstatus)
{
    return WIFSIGNALED(wstatus) && WTERMSIG(wstatus) == SIGKILL;
}

static void
tell_death(int wstatus)
{
    if (WIFSIGNALED(wstatus))
        zi_log(ZI_LOG_ERROR, "the broker was killed by signal %d: starting another",
               WTERMSIG(wstatus));
    else
        zi_log(ZI_LOG_ERROR, "the broker failed with code %d: starting another",
               WEXITSTATUS(wstatus));
}

static zico_status
keep_alive(const zi_broker_options *opt, zi_estate *e)
{
    const zi_os *os = e->os;

    for (unsigned n_short = 0; n_short < DEATHS_MAX;) {
        uint64_t began = os->now_ns(os);
        pid_t    parent = getpid(), pid = fork();
        if (pid < 0) return zi_os_status(-errno);
        if (pid == 0) {
            int code = child(opt, e, parent);
            if (code != ORPHANED) _exit(code);
            zi_log(ZI_LOG_ERROR, "the supervisor is dead: its broker takes its place");
            prctl(PR_SET_NAME, "zico-supervisor");
            e->unclean = true;
            continue;
        }
        int wstatus = attend(pid);
        if (ended_in_order(wstatus)) return ZICO_OK;
        tell_death(wstatus);
        e->unclean = true;
        uint64_t now = os->now_ns(os);
        if (now - began >= SHORT_LIFE_NS) n_short = 0;
        if (now - began < SHORT_LIFE_NS && !was_shot(wstatus)) n_short++;
        if (n_short > 3) os->sleep_until(os, now + n_short * 50000000u);
    }
    zi_log(ZI_LOG_ERROR, "the broker dies again and again: giving up");
    return ZICO_E_OS;
}

zico_status
zi_broker_supervise(const zi_broker_options *opt, zi_on_ready *on_ready, void *user)
{
    pid_t      first = getpid();
    sigset_t   before;
    zi_estate *e;

    ZI_TRY(zi_estate_open(opt, &e));
    block_signals(&before);
    if (on_ready) on_ready(zi_estate_path(e), user);
    zico_status st = keep_alive(opt, e);
    zi_estate_close(e, true);
    if (getpid() != first) _exit(st < 0 ? EXIT_FAILED : 0); /* nobody called us */
    sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}

/* crew.c -- processes of a job file. */
#include "cli/crew.h"

#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/try.h"
#include "base/vec.h"

#define WORDS_MAX 2048

struct zi_crew {
    zi_crew_options   opt;
    const zi_jobfile *file;
    zi_member        *member;
    unsigned          n;
    uint64_t          begin_ns;
    uint64_t          stop_ns, patience_ns; /* stop_ns 0: nobody said stop */
    int               stop_stage;           /* signals already sent to all  */
};

/* -- the words of a job ---------------------------------------------------------------------- */

typedef struct words {
    const char *at[WORDS_MAX];
    int         n;
} words;

static void
word(words *w, const char *a)
{
    if (w->n < WORDS_MAX - 1) w->at[w->n++] = a;
}

static void
pair(words *w, const char *name, const char *value)
{
    if (!value) return;
    word(w, name);
    word(w, value);
}

static void
native_words(words *w, const zi_crew *c, const zi_job_entry *e)
{
    word(w, "zico");
    word(w, e->train ? "train" : "infer");
    word(w, e->train ? e->train : e->infer);
    pair(w, "--batch", e->batch);
    if (c->opt.extra_steps) {
        pair(w, "--steps", c->opt.extra_steps);
    } else {
        pair(w, "--steps", e->steps);
        pair(w, "--epochs", e->epochs);
    }
    pair(w, "--optimizer", e->optimizer);
    pair(w, "--lr", e->lr);
    pair(w, "--seed", e->seed);
    pair(w, "--planner", e->planner);
    pair(w, "--budget", e->limit);
    pair(w, "--latency", e->latency);
    /* together, jobs are run to be trained; whoever wants a judgement says so in args */
    if (e->train) pair(w, "--eval", "0");
    for (unsigned i = 0; i < e->args_count; i++) word(w, e->args[i]);
}

static void
command_words(words *w, const zi_crew *c, const zi_job_entry *e)
{
    word(w, "zico");
    word(w, "run");
    pair(w, "--socket", c->opt.socket_path);
    pair(w, "--name", e->name);
    pair(w, "--min", e->min);
    pair(w, "--max", e->max);
    pair(w, "--weight", e->weight);
    pair(w, "--cores", e->cores ? e->cores : c->opt.cores);
    pair(w, "--max-wait", e->max_wait);
    if (e->is_steady) word(w, "--steady");
    word(w, "--");
    if (e->shell) {
        word(w, "/bin/sh");
        word(w, "-c");
        word(w, e->shell);
    }
    for (unsigned i = 0; i < e->command_count; i++) word(w, e->command[i]);
}

/* -- starting ---------------------------------------------------------------------------------- */

static void
set_u64(const char *name, uint64_t value)
{
    char text[24];
    if (!value) return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

/* What a native job's session reads; a command gets the same through `zico run`. */
static void
set_environment(const zi_crew *c, const zi_job_entry *e)
{
    const char *cores = e->cores ? e->cores : c->opt.cores;
    setenv("ZICO_SOCKET", c->opt.socket_path, 1);
    setenv("ZICO_JOB_NAME", e->name, 1);
    set_u64("ZICO_MIN", e->min_bytes);
    set_u64("ZICO_MAX", e->max_bytes);
    set_u64("ZICO_CLAIM", e->claim_bytes);
    set_u64("ZICO_WEIGHT", e->weight_milli);
    if (cores) setenv("ZICO_CORES", cores, 1);
    for (unsigned i = 0; i < e->env_count; i++) putenv(e->env[i]);
}

static _Noreturn void
become_job(const zi_crew *c, const zi_job_entry *e, int out)
{
    static words w;
    sigset_t     none;

    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody is left to stop it */
    setpgid(0, 0);                    /* Ctrl-C is for us: we stop jobs in order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(out, 1);
    dup2(out, 2);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, 0);
    set_environment(c, e);
    if (e->dir && chdir(e->dir) != 0) {
        dprintf(2, "zico run: cannot go to %s: %s\n", e->dir, strerror(errno));
        _exit(127);
    }
    if (e->train || e->infer)
        native_words(&w, c, e);
    else
        command_words(&w, c, e);
    w.at[w.n] = NULL;
    execv("/proc/self/exe", (char *const *)w.at);
    dprintf(2, "zico run: cannot start %s: %s\n", e->name, strerror(errno));
    _exit(127);
}

static zico_status
start_member(zi_crew *c, zi_member *m)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return ZICO_E_OS;
    fcntl(ends[1], F_SETFL, 0);
    m->start_ns = c->opt.os->now_ns(c->opt.os);
    m->pid = fork();
    if (m->pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return ZICO_E_OS;
    }
    if (m->pid == 0) become_job(c, m->entry, ends[1]);
    close(ends[1]);
    m->pipe = ends[0];
    long fd = c->opt.os->pidfd(c->opt.os, m->pid);
    m->pidfd = fd < 0 ? -1 : (int)fd;
    m->state = ZI_MEMBER_RUNNING;
    return ZICO_OK;
}

static void
open_log(const zi_crew *c, zi_member *m)
{
    m->log = -1;
    if (!c->opt.out_dir) return;
    snprintf(m->log_path, sizeof m->log_path, "%s/%s.log", c->opt.out_dir,
             m->entry->name);
    m->log = open(m->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

zico_status
zi_crew_new(const zi_crew_options *opt, const zi_jobfile *file, zi_crew **ret_crew)
{
    zi_crew *c = zi_calloc(1, sizeof *c);
    if (!c) return ZICO_E_NOMEM;
    c->opt = *opt;
    c->file = file;
    c->n = file->jobs_count;
    c->begin_ns = opt->os->now_ns(opt->os);
    c->member = zi_calloc(c->n, sizeof *c->member);
    if (!c->member) {
        zi_free(c);
        return ZICO_E_NOMEM;
    }
    for (unsigned i = 0; i < c->n; i++) {
        c->member[i].entry = &file->jobs[i];
        c->member[i].pidfd = c->member[i].pipe = -1;
        open_log(c, &c->member[i]);
    }
    *ret_crew = c;
    return ZICO_OK;
}

/* -- listening ----------------------------------------------------------------------------------- */

static void
end_line(zi_member *m)
{
    if (m->n_partial == 0) return;
    memcpy(m->last_line, m->partial, m->n_partial);
    m->last_line[m->n_partial] = 0;
    m->n_partial = 0;
}

/* Keep the last line that says something; progress bars end theirs with a carriage return. */
static void
keep_lines(zi_member *m, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char ch = text[i];
        if (ch == '\n' || ch == '\r')
            end_line(m);
        else if ((unsigned char)ch >= 32 && m->n_partial < sizeof m->partial - 1)
            m->partial[m->n_partial++] = ch;
    }
}

static void
listen_to(zi_member *m)
{
    char    text[4096];
    ssize_t n;
    while (m->pipe >= 0 && (n = read(m->pipe, text, sizeof text)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        if (m->log >= 0 && write(m->log, text, (size_t)n) < 0) {
            close(m->log); /* a full disk must not stop the jobs */
            m->log = -1;
        }
        keep_lines(m, text, (size_t)n);
    }
    if (m->pipe >= 0) close(m->pipe);
    m->pipe = -1;
}

static void
notice_end(zi_crew *c, zi_member *m)
{
    int status;
    if (m->state != ZI_MEMBER_RUNNING || waitpid(m->pid, &status, WNOHANG) != m->pid)
        return;
    listen_to(m);
    end_line(m);
    m->state = ZI_MEMBER_ENDED;
    m->end_ns = c->opt.os->now_ns(c->opt.os);
    m->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (m->pidfd >= 0) close(m->pidfd);
    m->pidfd = -1;
}

static zico_status
start_due(zi_crew *c, uint64_t now, uint64_t *ret_next_ns)
{
    *ret_next_ns = UINT64_MAX;
    for (unsigned i = 0; i < c->n; i++) {
        zi_member *m = &c->member[i];
        uint64_t   due = c->begin_ns + m->entry->delay_ns;
        if (m->state != ZI_MEMBER_WAITING) continue;
        if (c->stop_ns) {
            m->state = ZI_MEMBER_ENDED;
            m->stopped = true;
        } else if (due <= now) {
            ZI_TRY(start_member(c, m));
        } else if (due < *ret_next_ns) {
            *ret_next_ns = due;
        }
    }
    return ZICO_OK;
}

/* -- stopping --------------------------------------------------------------------------------------- */

static void
signal_member(zi_member *m, int sig)
{
    if (m->state != ZI_MEMBER_RUNNING) return;
    m->stopped = true;
    kill(-m->pid, sig); /* its process group: what it started ends with it */
    kill(m->pid, sig);
}

static void
press_on(zi_crew *c, uint64_t now)
{
    static const int sig[] = {SIGINT, SIGTERM, SIGKILL};
    if (!c->stop_ns) return;
    while (c->stop_stage < 3 &&
           now >= c->stop_ns + c->patience_ns * (uint64_t)c->stop_stage) {
        for (unsigned i = 0; i < c->n; i++)
            signal_member(&c->member[i], sig[c->stop_stage]);
        c->stop_stage++;
    }
}

void
zi_crew_stop(zi_crew *c, uint64_t patience_ns)
{
    if (c->stop_ns) { /* asked twice: no more patience */
        c->patience_ns = 0;
        return;
    }
    c->stop_ns = c->opt.os->now_ns(c->opt.os);
    c->patience_ns = patience_ns;
}

void
zi_crew_stop_one(zi_crew *c, unsigned i)
{
    signal_member(&c->member[i], SIGTERM);
}

zico_status
zi_crew_turn(zi_crew *c, int extra_fd, int64_t timeout_ns)
{
    struct pollfd fds[2 * ZI_JOBFILE_JOBS_MAX + 1];
    nfds_t        n = 0;
    uint64_t      now = c->opt.os->now_ns(c->opt.os), next;

    press_on(c, now);
    ZI_TRY(start_due(c, now, &next));
    if (next != UINT64_MAX && (int64_t)(next - now) < timeout_ns)
        timeout_ns = (int64_t)(next - now);
    for (unsigned i = 0; i < c->n; i++) {
        zi_member *m = &c->member[i];
        if (m->pipe >= 0) fds[n++] = (struct pollfd){.fd = m->pipe, .events = POLLIN};
        if (m->pidfd >= 0) fds[n++] = (struct pollfd){.fd = m->pidfd, .events = POLLIN};
    }
    if (extra_fd >= 0) fds[n++] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    (void)poll(fds, n, (int)(timeout_ns / 1000000) + 1);
    for (unsigned i = 0; i < c->n; i++) {
        if (c->member[i].pipe >= 0) listen_to(&c->member[i]);
        notice_end(c, &c->member[i]);
    }
    return ZICO_OK;
}

/* -- looking ------------------------------------------------------------------------------------------ */

unsigned
zi_crew_n(const zi_crew *c)
{
    return c->n;
}

const zi_member *
zi_crew_member(const zi_crew *c, unsigned i)
{
    return &c->member[i];
}

bool
zi_crew_all_ended(const zi_crew *c)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->member[i].state != ZI_MEMBER_ENDED) return false;
    return true;
}

void
zi_crew_free(zi_crew *c)
{
    if (!c) return;
    for (unsigned i = 0; i < c->n; i++) {
        zi_member *m = &c->member[i];
        if (m->state == ZI_MEMBER_RUNNING) {
            signal_member(m, SIGKILL);
            waitpid(m->pid, NULL, 0);
        }
        if (m->pipe >= 0) close(m->pipe);
        if (m->pidfd >= 0) close(m->pidfd);
        if (m->log >= 0) close(m->log);
    }
    zi_free(c->member);
    zi_free(c);
}

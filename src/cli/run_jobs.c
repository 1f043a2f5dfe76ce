/* run_jobs.c -- runs the jobs of a file together and watches them.
 *
 *   read the file -> (budget in %: measure each job alone for two steps) -> ensure a broker ->
 *   start the crew -> each turn: processes, the broker's picture, the screen -> report
 *
 * A failing job stops nobody.  Ctrl-C stops all in order: SIGINT, then SIGTERM, then SIGKILL.
 */
#include "cli/run_jobs.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/try.h"
#include "cli/crew.h"
#include "cli/ensure.h"
#include "cli/history.h"
#include "cli/live.h"
#include "cli/run_report.h"
#include "os/rundir.h"
#include "policy/policy.h"

#define PATIENCE_NS   10000000000ull /* between the signals that stop a job             */
#define FRAME_NS      200000000ull   /* between two frames of the live view             */
#define LINE_NS       5000000000ull  /* between two lines when there is no terminal     */
#define PROFILE_STEPS "3"

static volatile sig_atomic_t n_interrupts;

static void
on_interrupt(int sig)
{
    (void)sig;
    n_interrupts++;
}

/* What is remembered of one job over the pictures. */
typedef struct memory_of_job {
    bool              joined, ever;
    uint64_t          first_step_ns, last_seen_ns; /* of the broker's clock      */
    uint64_t          first_step;
    uint64_t          shared_begin_ns, shared_begin_step, shared_end_ns, shared_end_step;
    double            rate;
    uint64_t          rate_ns, rate_step;
    zi_msg_status_job seen;
} memory_of_job;

typedef struct run {
    const zi_run_options *opt;
    const zi_jobfile     *file;
    const zi_os          *os;
    const char           *socket_path;
    zi_crew              *crew;
    zi_watch             *watch;
    zi_history           *history;
    zi_picture            picture;
    char                  policy[32];
    uint64_t              budget_bytes;
    memory_of_job        *mem;
    zi_live_job          *live;
    uint64_t              begin_ns, drawn_ns;
    unsigned              frame_lines;
    bool                  screen; /* a terminal to redraw */
} run;

/* -- the broker's pictures ----------------------------------------------------------------- */

static unsigned
find_member(const run *r, const char *name)
{
    unsigned i = 0;
    while (i < r->file->jobs_count && strcmp(r->file->jobs[i].name, name)) i++;
    return i;
}

/* Rate over the last second or so. */
static void
update_rate(memory_of_job *m, const zi_msg_status_job *s, uint64_t now)
{
    if (!m->rate_ns) {
        m->rate_ns = now;
        m->rate_step = s->step_no;
        return;
    }
    double dt = (double)(now - m->rate_ns) / 1e9;
    if (dt < 1.0 || s->step_no == m->rate_step) return;
    double rate = (double)(s->step_no - m->rate_step) / dt;
    m->rate = m->rate > 0 ? 0.5 * m->rate + 0.5 * rate : rate;
    m->rate_ns = now;
    m->rate_step = s->step_no;
}

static void
remember(run *r, const zi_msg_status_job *s, uint64_t now)
{
    unsigned i = find_member(r, s->name);
    if (i == r->file->jobs_count) return; /* somebody else's job */
    memory_of_job *m = &r->mem[i];
    m->joined = m->ever = true;
    m->seen = *s;
    m->last_seen_ns = now;
    if (s->step_no > 1 && !m->first_step_ns) {
        m->first_step_ns = now;
        m->first_step = s->step_no;
    }
    update_rate(m, s, now);
}

/* The stretch of time in which all jobs are past their first steps: fair to compare in. */
static void
update_shared(run *r, uint64_t now)
{
    for (unsigned i = 0; i < r->file->jobs_count; i++)
        if (!r->mem[i].joined || r->mem[i].seen.step_no < 3) return;
    for (unsigned i = 0; i < r->file->jobs_count; i++) {
        memory_of_job *m = &r->mem[i];
        if (!m->shared_begin_ns) {
            m->shared_begin_ns = now;
            m->shared_begin_step = m->seen.step_no;
        }
        m->shared_end_ns = now;
        m->shared_end_step = m->seen.step_no;
    }
}

static zico_status
take_picture(run *r)
{
    const zi_picture *p = zi_watch_picture(r->watch);
    uint64_t          now = p->device.now_ns;

    for (unsigned i = 0; i < r->file->jobs_count; i++) r->mem[i].joined = false;
    for (size_t k = 0; k < p->n_jobs; k++) remember(r, &p->job[k], now);
    update_shared(r, now);
    r->picture = *p;
    r->budget_bytes = p->device.budget_bytes;
    return zi_history_add(r->history, p);
}

/* A broker that was restarted hangs up on its watchers: watch its successor. */
static void
follow_broker(run *r)
{
    if (!r->watch) {
        (void)zi_watch_open(r->os, r->socket_path, true, &r->watch);
        return;
    }
    for (;;) {
        zico_status st = zi_watch_next(r->watch, 0);
        if (st == ZICO_E_TIMEOUT) return;
        if (st < 0) {
            zi_watch_close(r->watch);
            r->watch = NULL;
            return;
        }
        if (take_picture(r) < 0) return;
    }
}

/* -- the screen ------------------------------------------------------------------------------ */

static zi_style
screen_style(unsigned *ret_rows)
{
    struct winsize w = {0};
    const char    *lang = getenv("LC_ALL");
    if (!lang || !*lang) lang = getenv("LC_CTYPE");
    if (!lang || !*lang) lang = getenv("LANG");
    bool utf8 = lang && (strstr(lang, "UTF-8") || strstr(lang, "utf8"));
    if (ioctl(2, TIOCGWINSZ, &w) != 0 || w.ws_col == 0) w.ws_col = 100, w.ws_row = 30;
    *ret_rows = w.ws_row;
    return (zi_style){.unicode = utf8, .colour = isatty(2) != 0, .width = w.ws_col - 1u};
}

static zi_live
live_model(run *r)
{
    for (unsigned i = 0; i < r->file->jobs_count; i++) {
        const zi_member *m = zi_crew_member(r->crew, i);
        r->live[i] = (zi_live_job){
            .name = r->file->jobs[i].name,
            .joined = r->mem[i].joined,
            .ended = m->state == ZI_MEMBER_ENDED,
            .waiting = m->state == ZI_MEMBER_WAITING,
            .exit_code = m->exit_code,
            .last_line = m->last_line,
            .rate = r->mem[i].rate,
            .seen = r->mem[i].seen,
            .ever = r->mem[i].ever,
        };
    }
    return (zi_live){
        .job = r->live,
        .n_jobs = r->file->jobs_count,
        .elapsed_ns = r->os->now_ns(r->os) - r->begin_ns,
        .budget_bytes = r->budget_bytes,
        .held_bytes = r->picture.device.leased_bytes + r->picture.device.private_bytes,
        .kernel_bytes = r->picture.device.kernel_bytes,
        .private_bytes = r->picture.device.private_bytes,
        .policy = r->policy,
        .says = r->picture.device.policy_says,
        .history = r->history,
    };
}

static unsigned
count_lines(const char *text)
{
    unsigned n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void
draw_screen(run *r)
{
    unsigned rows;
    zi_style style = screen_style(&rows);
    zi_live  l = live_model(r);
    zi_str   frame = {0}, out = {0};

    if (zi_live_draw(&l, &style, rows, &frame) == ZICO_OK) {
        if (r->frame_lines) zi_str_fmt(&out, "\x1b[%uA", r->frame_lines);
        for (const char *at = zi_str_get(&frame);
             *at;) { /* clear what a longer line left */
            size_t n = strcspn(at, "\n");
            zi_str_add_n(&out, at, n);
            zi_str_add(&out, "\x1b[K\n");
            at += n + (at[n] == '\n');
        }
        zi_str_add(&out, "\x1b[J");
        r->frame_lines = count_lines(zi_str_get(&frame));
        (void)!write(2, zi_str_get(&out), out.n);
    }
    zi_str_free(&frame);
    zi_str_free(&out);
}

static void
draw_lines(run *r)
{
    zi_live l = live_model(r);
    for (size_t i = 0; i < l.n_jobs; i++) {
        zi_str doing = {0};
        char   held[ZI_SIZE_TEXT];
        zi_live_doing(&l.job[i], &doing);
        fprintf(stderr, "%5.0f s  %-16s step %-6llu %8s  %s\n",
                (double)l.elapsed_ns / 1e9, l.job[i].name,
                (unsigned long long)l.job[i].seen.step_no,
                zi_size_format(l.job[i].joined ? l.job[i].seen.fixed_bytes +
                                                     l.job[i].seen.step_bytes +
                                                     l.job[i].seen.private_bytes
                                               : 0,
                               held),
                zi_str_get(&doing));
        zi_str_free(&doing);
    }
}

static void
show(run *r, bool last)
{
    uint64_t now = r->os->now_ns(r->os);
    if (r->opt->quiet) return;
    if (!last && now - r->drawn_ns < (r->screen ? FRAME_NS : LINE_NS)) return;
    r->drawn_ns = now;
    if (r->screen)
        draw_screen(r);
    else
        draw_lines(r);
}

/* -- one run ----------------------------------------------------------------------------------- */

static void
fill_job(const run *r, unsigned i, zi_run_job *ret)
{
    const zi_member     *m = zi_crew_member(r->crew, i);
    const memory_of_job *k = &r->mem[i];
    const zi_job_entry  *e = &r->file->jobs[i];

    *ret = (zi_run_job){.exit_code = m->exit_code,
                        .stopped = m->stopped,
                        .steps = k->seen.step_no,
                        .samples = k->seen.samples,
                        .wall_ns = m->end_ns > m->start_ns ? m->end_ns - m->start_ns : 0,
                        .waited_ns = k->seen.waited_ns,
                        .peak_bytes = k->seen.peak_bytes,
                        .solo_step_ns = k->seen.solo_ns,
                        .exchanged_bytes = k->seen.exchanged_bytes,
                        .loss = NAN};
    if (m->exit_code == 0 && !m->stopped && k->seen.steps_total)
        ret->steps = k->seen.steps_total; /* the last ones came after the last picture */
    if (k->ever && k->seen.loss_micro != INT64_MIN)
        ret->loss = (double)k->seen.loss_micro / 1e6;
    snprintf(ret->name, sizeof ret->name, "%s", e->name);
    memcpy(ret->last_line, m->last_line, sizeof ret->last_line);
    memcpy(ret->log_path, m->log_path, sizeof ret->log_path);
    if (k->last_seen_ns > k->first_step_ns && k->first_step_ns)
        ret->rate = (double)(k->seen.step_no - k->first_step) /
                    ((double)(k->last_seen_ns - k->first_step_ns) / 1e9);
    if (k->shared_end_ns > k->shared_begin_ns)
        ret->shared_rate = (double)(k->shared_end_step - k->shared_begin_step) /
                           ((double)(k->shared_end_ns - k->shared_begin_ns) / 1e9);
}

static void
fill_result(const run *r, zi_run_result *ret)
{
    *ret = (zi_run_result){.n_jobs = r->file->jobs_count,
                           .budget_bytes = r->budget_bytes,
                           .peak_bytes = zi_history_peak(r->history),
                           .over_budget = zi_history_was_over(r->history),
                           .interrupted = n_interrupts > 0,
                           .wall_ns = r->os->now_ns(r->os) - r->begin_ns};
    memcpy(ret->policy, r->policy, sizeof ret->policy);
    for (unsigned i = 0; i < r->file->jobs_count; i++) {
        fill_job(r, i, &ret->job[i]);
        ret->sum_peaks_bytes += ret->job[i].peak_bytes;
        ret->exchanged_bytes += ret->job[i].exchanged_bytes;
        ret->n_failed += ret->job[i].exit_code != 0;
    }
    if (r->file->solo_sum_bytes) ret->sum_peaks_bytes = r->file->solo_sum_bytes;
}

static void
kill_hanging(run *r)
{
    for (unsigned i = 0; i < r->file->jobs_count; i++)
        if (r->file->jobs[i].kill_on_hang && r->mem[i].joined)
            for (size_t k = 0; k < r->picture.n_jobs; k++)
                if (r->picture.job[k].reason == ZI_REASON_HANG &&
                    r->picture.job[k].behind_job == r->mem[i].seen.job)
                    zi_crew_stop_one(r->crew, i);
}

static void
run_turns(run *r)
{
    bool stopping = false;
    while (!zi_crew_all_ended(r->crew)) {
        int fd = r->watch ? zi_watch_fd(r->watch) : -1;
        if (zi_crew_turn(r->crew, fd, 50000000) < 0) break;
        follow_broker(r);
        kill_hanging(r);
        show(r, false);
        if (n_interrupts > 0 && !stopping) {
            stopping = true;
            fprintf(stderr, "\nstopping the jobs; once more to be impatient\n");
            zi_crew_stop(r->crew, PATIENCE_NS);
            r->frame_lines = 0;
        } else if (n_interrupts > 1) {
            zi_crew_stop(r->crew, 0);
        }
    }
    show(r, true);
}

/* The broker looks for deaths before it answers anybody: when it has answered, it is done with our
 * jobs, and what it keeps of them (--record) is there. */
static void
await_broker(const run *r)
{
    zi_watch *last = NULL;

    if (zi_watch_open(r->os, r->socket_path, false, &last) >= 0)
        (void)zi_watch_next(last, PATIENCE_NS);
    zi_watch_close(last);
}

/* The jobs of `file` under one policy, from the first process to the last. */
static zico_status
run_once(const zi_run_options *opt, const zi_jobfile *file, const zi_crew_options *crew,
         const char *policy, zi_history **ret_history, zi_run_result *ret_result)
{
    run r = {.opt = opt, .file = file, .os = opt->os, .socket_path = crew->socket_path};
    zico_status st;

    snprintf(r.policy, sizeof r.policy, "%s", policy);
    r.screen = !opt->quiet && isatty(2);
    r.mem = zi_calloc(file->jobs_count, sizeof *r.mem);
    r.live = zi_calloc(file->jobs_count, sizeof *r.live);
    st = r.mem && r.live ? zi_history_new(&r.history) : ZICO_E_NOMEM;
    if (st < 0) goto undo;
    for (unsigned i = 0; i < file->jobs_count; i++)
        zi_history_expect(r.history, file->jobs[i].name);
    follow_broker(&r);
    r.begin_ns = r.os->now_ns(r.os);
    st = zi_crew_new(crew, file, &r.crew);
    if (st < 0) goto undo;
    run_turns(&r);
    await_broker(&r);
    fill_result(&r, ret_result);
    zi_crew_free(r.crew);
    if (ret_history) {
        *ret_history = r.history;
        r.history = NULL;
    }
undo:
    zi_history_free(r.history);
    zi_watch_close(r.watch);
    zi_free(r.mem);
    zi_free(r.live);
    return st;
}

/* -- the whole ------------------------------------------------------------------------------------ */

/* While nobody has started yet, or all have ended before the next one starts, the broker stays. */
static uint64_t
longest_delay(const zi_jobfile *file)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < file->jobs_count; i++)
        if (file->jobs[i].delay_ns > most) most = file->jobs[i].delay_ns;
    return most;
}

/* Nobody else ever comes to a broker of our own, so its locks can go while it lingers. */
static void
remove_locks(const zi_os *os, const char *socket_path)
{
    static const char *const ends[] = {".lock", ".start"};
    char                     path[ZI_RUNDIR_PATH_MAX + 8];

    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(path, sizeof path, "%s%s", socket_path, ends[i]);
        (void)os->unlink(os, path);
    }
}

/* A broker of our own, on a socket of its own, for one run; it ends with its last job. */
static zico_status
private_broker(const zi_run_options *opt, const char *dir, const char *policy,
               uint64_t budget_bytes, const zi_jobfile *file, const char *tides,
               char socket_path[ZI_RUNDIR_PATH_MAX])
{
    static unsigned   serial;
    char              log[512];
    zi_str            why = {0};
    zi_ensure_options e = {.socket_path = socket_path,
                           .budget_bytes = budget_bytes,
                           .region_bytes = file->region_bytes,
                           .policy = policy,
                           .tides_dir = tides,
                           .linger_s = 1 + (unsigned)(longest_delay(file) / 1000000000u),
                           .log_path = log};

    ZI_TRY(zi_rundir_folder(opt->os, true, log, sizeof log));
    int n = snprintf(socket_path, ZI_RUNDIR_PATH_MAX, "%s/run-%d-%u.sock", log,
                     (int)getpid(), serial++);
    if (n < 0 || (size_t)n >= ZI_RUNDIR_PATH_MAX) return ZICO_E_LIMIT;
    snprintf(log, sizeof log, "%s/broker.log", dir);
    zico_status st = zi_ensure_broker(opt->os, &e, NULL, &why);
    if (st < 0) {
        fprintf(stderr, "zico run: %s\n", zi_str_get(&why));
        remove_locks(opt->os, socket_path);
    }
    zi_str_free(&why);
    return st;
}

/* The sum of what the jobs need alone: each runs a few steps with plenty of memory. */
static zico_status
measure_peaks(const zi_run_options *opt, zi_jobfile *file, uint64_t *ret_sum)
{
    zi_run_options quiet = *opt;
    uint64_t       plenty, sum = 0;
    char           socket_path[ZI_RUNDIR_PATH_MAX];
    zi_run_result *result = zi_calloc(1, sizeof *result);
    zico_status    st;

    if (!result) return ZICO_E_NOMEM;
    quiet.quiet = true;
    st = zi_ensure_default_budget(&plenty);
    for (unsigned i = 0; i < file->jobs_count && st >= 0 && !n_interrupts; i++) {
        zi_jobfile   one = *file;
        zi_job_entry now = file->jobs[i];
        now.delay_ns = 0; /* alone there is nobody to come after */
        one.jobs = &now;
        one.jobs_count = 1;
        fprintf(stderr, "measuring %s alone ...\n", file->jobs[i].name);
        st =
            private_broker(opt, opt->out_dir, "spatial", plenty, &one, NULL, socket_path);
        if (st < 0) break;
        zi_crew_options crew = {.os = opt->os,
                                .socket_path = socket_path,
                                .out_dir = opt->out_dir,
                                .cores = file->cores,
                                .extra_steps = PROFILE_STEPS};
        st = run_once(&quiet, &one, &crew, "spatial", NULL, result);
        remove_locks(opt->os, socket_path);
        if (st >= 0 && (result->n_failed || !result->job[0].peak_bytes)) {
            fprintf(stderr, "zico run: %s failed when run alone: %s\n",
                    file->jobs[i].name, result->job[0].last_line);
            st = ZICO_E_STATE;
        }
        sum += result->job[0].peak_bytes;
    }
    zi_free(result);
    *ret_sum = sum;
    return n_interrupts ? ZICO_E_CANCELLED : st;
}

static zico_status
settle_budget(const zi_run_options *opt, zi_jobfile *file, uint64_t *ret_bytes)
{
    char     text[ZI_SIZE_TEXT], of[ZI_SIZE_TEXT];
    uint64_t sum;

    if (opt->budget) {
        size_t n = strlen(opt->budget);
        file->budget_percent = 0;
        file->budget_bytes = 0;
        if (n && opt->budget[n - 1] == '%')
            file->budget_percent = (uint32_t)strtoul(opt->budget, NULL, 10);
        else if (zi_size_parse(opt->budget, 0, &file->budget_bytes) < 0)
            file->budget_bytes = 0;
        if (!file->budget_percent && !file->budget_bytes) {
            fprintf(stderr,
                    "zico run: --budget: '%s' is not a size such as 4G, or a share such "
                    "as 65%%\n",
                    opt->budget);
            return ZICO_E_ARG;
        }
    }
    *ret_bytes = file->budget_bytes;
    if (!file->budget_percent) return ZICO_OK;
    ZI_TRY(measure_peaks(opt, file, &sum));
    file->solo_sum_bytes = sum;
    *ret_bytes = sum / 100 * file->budget_percent;
    *ret_bytes = (*ret_bytes + (2u << 20) - 1) & ~(uint64_t)((2u << 20) - 1);
    fprintf(stderr, "budget %s: %u %% of the sum of solo peaks, %s\n",
            zi_size_format(*ret_bytes, text), file->budget_percent,
            zi_size_format(sum, of));
    return ZICO_OK;
}

static int
exit_code(const zi_run_result *res)
{
    if (res->interrupted) return 130;
    return res->n_failed ? 1 : 0;
}

/* -- policies by name ------------------------------------------------------------------------ */

#define COMPARED_MAX 12u

typedef struct compared {
    unsigned    n;
    const char *name[COMPARED_MAX];
    char        text[512]; /* the names that were asked for, each with its end */
} compared;

static void
add_policy(compared *c, const char *name)
{
    for (unsigned i = 0; i < c->n; i++)
        if (strcmp(name, c->name[i]) == 0) return;
    if (c->n < COMPARED_MAX) c->name[c->n++] = name;
}

/* "salus:srtf,gandiva" after the ones that are there already. */
static void
add_policies(compared *c, const char *list)
{
    char *rest = NULL;

    snprintf(c->text, sizeof c->text, "%s", list ? list : "");
    for (char *one = strtok_r(c->text, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        add_policy(c, one);
}

static bool
policy_is_known(const char *name)
{
    const char          *arg;
    const zi_policy_ops *ops = zi_policy_find(name, &arg);
    void                *state = ops ? zi_calloc(1, ops->state_size + 1) : NULL;
    bool                 known = state && (!ops->init || ops->init(state, arg, 0) >= 0);

    zi_free(state);
    return known;
}

/* Before anything is started. */
static zico_status
check_policies(const zi_run_options *opt, const zi_jobfile *file)
{
    const char *wish = opt->policy ? opt->policy : file->policy;
    compared    c = {0};

    if (!wish) return ZICO_OK;
    if (opt->compare)
        add_policies(&c, wish);
    else
        add_policy(&c, wish);
    for (unsigned i = 0; i < c.n; i++) {
        if (policy_is_known(c.name[i])) continue;
        fprintf(stderr,
                "zico run: '%s' is no policy: zico, temporal, spatial, "
                "salus[:fifo|pack|srtf|fair], gandiva[:slice=SECONDS]%s\n",
                c.name[i], opt->compare ? "" : "; several only with --compare");
        return ZICO_E_ARG;
    }
    return ZICO_OK;
}

/* The usual three, and what was asked for besides. */
static int
compare_policies(const zi_run_options *opt, zi_jobfile *file, uint64_t budget)
{
    compared       c = {.n = 3, .name = {"temporal", "spatial", "zico"}};
    zi_run_result *res = zi_calloc(COMPARED_MAX, sizeof *res);
    zi_history    *history = NULL; /* of the last one */
    char           socket_path[ZI_RUNDIR_PATH_MAX];
    int            code = 0;
    unsigned       n = 0;

    if (!res) return 1;
    add_policies(&c, opt->policy ? opt->policy : file->policy);
    if (!budget && zi_ensure_default_budget(&budget) < 0) code = 1;
    for (; n < c.n && !n_interrupts && code != 1; n++) {
        fprintf(stderr, "== %s\n", c.name[n]);
        if (private_broker(opt, opt->out_dir, c.name[n], budget, file, NULL,
                           socket_path) < 0) {
            code = 1;
            break;
        }
        zi_crew_options crew = {.os = opt->os,
                                .socket_path = socket_path,
                                .out_dir = opt->out_dir,
                                .cores = file->cores};
        zi_history_free(history);
        history = NULL;
        zico_status st = run_once(opt, file, &crew, c.name[n], &history, &res[n]);
        remove_locks(opt->os, socket_path);
        if (st < 0) break;
        if (exit_code(&res[n]) > code) code = exit_code(&res[n]);
    }
    if (n > 0 && history && !opt->json) zi_run_report(&res[n - 1], history, opt);
    zi_history_free(history);
    if (n > 0) zi_run_report_compare(res, n, opt->json);
    zi_free(res);
    return code;
}

/* Join or start the device's broker. */
static zico_status
common_broker(const zi_run_options *opt, const zi_jobfile *file, uint64_t budget,
              const char *policy, char socket_path[ZI_RUNDIR_PATH_MAX])
{
    char   log[512], tides[512];
    zi_str why = {0};

    ZI_TRY(zi_rundir_socket(opt->os, opt->socket_path, "host", true, socket_path,
                            ZI_RUNDIR_PATH_MAX));
    snprintf(log, sizeof log, "%s/broker.log", opt->out_dir);
    snprintf(tides, sizeof tides, "%s/tides", opt->out_dir);
    zi_ensure_options e = {.socket_path = socket_path,
                           .budget_bytes = budget,
                           .region_bytes = file->region_bytes,
                           .policy = policy,
                           .tides_dir = opt->record ? tides : NULL,
                           .log_path = log};
    zico_status       st = zi_ensure_broker(opt->os, &e, NULL, &why);
    if (st < 0) fprintf(stderr, "zico run: %s\n", zi_str_get(&why));
    zi_str_free(&why);
    return st;
}

static int
run_together(const zi_run_options *opt, zi_jobfile *file, uint64_t budget)
{
    char           socket_path[ZI_RUNDIR_PATH_MAX];
    zi_history    *history = NULL;
    zi_run_result *res = zi_calloc(1, sizeof *res);
    const char    *policy = opt->policy ? opt->policy : file->policy;
    int            code = 1;

    if (!res) return 1;
    if (common_broker(opt, file, budget, policy, socket_path) < 0) {
        zi_free(res);
        return 1;
    }
    zi_crew_options crew = {.os = opt->os,
                            .socket_path = socket_path,
                            .out_dir = opt->out_dir,
                            .cores = file->cores};
    if (run_once(opt, file, &crew, policy ? policy : "zico", &history, res) >= 0) {
        zi_run_report(res, history, opt);
        code = exit_code(res);
    }
    zi_history_free(history);
    zi_free(res);
    return code;
}

int
zi_run_jobs(const zi_run_options *opt)
{
    zi_jobfile      *file = NULL;
    zi_str           why = {0};
    uint64_t         budget = 0;
    int              code = 2;
    struct sigaction sa = {.sa_handler = on_interrupt};

    if (mkdir(opt->out_dir, 0755) != 0 && errno != EEXIST) {
        fprintf(stderr, "zico run: cannot make %s: %s\n", opt->out_dir, strerror(errno));
        return 1;
    }
    if (zi_jobfile_read(opt->file, &file, &why) < 0) {
        fprintf(stderr, "zico run: %s\n", zi_str_get(&why));
        zi_str_free(&why);
        return 2;
    }
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    zico_status st = check_policies(opt, file);
    if (st == ZICO_OK) st = settle_budget(opt, file, &budget);
    if (st == ZICO_OK)
        code = opt->compare ? compare_policies(opt, file, budget)
                            : run_together(opt, file, budget);
    else if (st != ZICO_E_ARG)
        code = st == ZICO_E_CANCELLED ? 130 : 1;
    zi_jobfile_free(file);
    zi_str_free(&why);
    return code;
}

/* observe_run.c -- the newcomer's first ten minutes: a picture of a program's tide. */
#include "cli/observe_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/ensure.h"
#include "cli/observe_fit.h"
#include "hook/env.h"
#include "report/report.h"

/* -- the notes ------------------------------------------------------------------------------------- */

static zico_status
read_notes(const char *path, zi_observed *ret)
{
    struct stat sb;
    zico_status st = ZICO_E_IO;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return ZICO_E_NOTFOUND;
    if (fstat(fd, &sb) == 0 && sb.st_size > 0) {
        void *at = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            st = zi_observe_read(at, (size_t)sb.st_size, ret);
            munmap(at, (size_t)sb.st_size);
        }
    }
    close(fd);
    return st;
}

static bool
says_more(const zi_observed *a, const zi_observed *b)
{
    if (a->n_steps != b->n_steps) return a->n_steps > b->n_steps;
    return a->peak_bytes > b->peak_bytes;
}

/* Every process that was started has a file; the one with most steps, then most memory, is the
 * training. */
static int
read_all(const char *dir, zi_observed *ret)
{
    int            n = 0;
    struct dirent *d;
    zi_observed   *o = calloc(1, sizeof *o);
    DIR           *at = opendir(dir);

    memset(ret, 0, sizeof *ret);
    while (o && at && (d = readdir(at))) {
        char path[1024];
        if (strncmp(d->d_name, "observe-", 8) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, d->d_name);
        if (read_notes(path, o) >= 0 && o->n_events > 0) {
            if (n == 0 || says_more(o, ret)) *ret = *o;
            n++;
        }
        unlink(path);
    }
    if (at) closedir(at);
    free(o);
    return n;
}

/* -- the report -------------------------------------------------------------------------------------- */

static size_t
curve(const zi_tide *t, uint64_t floor_bytes, double *x, double *y)
{
    size_t  n = 0;
    int64_t held = (int64_t)floor_bytes;

    x[n] = 0, y[n++] = (double)held;
    for (uint32_t i = 0; i < t->n_points; i++) {
        held += t->point[i].delta_bytes;
        x[n] = (double)t->point[i].at_ns, y[n++] = (double)held;
    }
    x[n] = (double)t->length_ns, y[n++] = (double)held;
    return n;
}

static zi_style
style_of_terminal(void)
{
    struct winsize w = {0};
    const char    *lang = getenv("LC_ALL");
    if (!lang || !*lang) lang = getenv("LANG");
    bool utf8 = lang && (strstr(lang, "UTF-8") || strstr(lang, "utf8"));
    ioctl(STDERR_FILENO, TIOCGWINSZ, &w);
    return (zi_style){.unicode = utf8, .width = w.ws_col ? w.ws_col : 80};
}

static void
draw(const zi_observed *o, const char *svg)
{
    static double  x[ZI_TIDE_POINTS_MAX + 2], y[ZI_TIDE_POINTS_MAX + 2];
    const zi_tide *t = o->n_steps ? &o->tide : &o->life;
    zi_style       style = style_of_terminal();
    zi_str         out = {0};

    size_t    n = curve(t, o->n_steps ? o->floor_bytes : 0, x, y);
    zi_series series = {.name = "held", .x = x, .y = y, .n = n, .steps = true};
    zi_plot   plot = {
          .kind = ZI_PLOT_STACKED,
          .title = o->n_steps ? "memory over one step" : "memory over the program's life",
          .x = {.label = "time", .unit = ZI_UNIT_NS},
          .y = {.label = "bytes", .unit = ZI_UNIT_BYTES},
          .series = &series,
          .n_series = 1,
    };
    if (zi_plot_text(&plot, &style, &out) >= 0) fputs(zi_str_get(&out), stderr);
    zi_str_clear(&out);
    if (svg && zi_plot_svg(&plot, &out) >= 0) {
        FILE *f = fopen(svg, "w");
        if (!f || fputs(zi_str_get(&out), f) < 0)
            fprintf(stderr, "zico run: cannot write %s: %s\n", svg, strerror(errno));
        if (f) fclose(f);
    }
    zi_str_free(&out);
}

static void
say_numbers(const zi_observed *o)
{
    char a[ZI_SIZE_TEXT], b[ZI_SIZE_TEXT], c[ZI_SIZE_TEXT], t[ZI_UNIT_CHARS];

    if (o->n_steps)
        fprintf(stderr, "steps   %llu, one every %s\n", (unsigned long long)o->n_steps,
                zi_unit_format(ZI_UNIT_NS, (double)o->period_ns, -1, t));
    else
        fprintf(stderr,
                "steps   none were marked (no torch optimizer, no zico.step())\n");
    fprintf(stderr, "peak    %s\nfloor   %s (does not come and go)\nmean    %s\n",
            zi_size_format(o->peak_bytes, a), zi_size_format(o->floor_bytes, b),
            zi_size_format(o->mean_bytes, c));
    if (o->n_lost)
        fprintf(stderr, "note    %llu events did not fit the file of notes\n",
                (unsigned long long)o->n_lost);
}

static void
say_fit(const zi_observed *o, const char *budget)
{
    uint64_t bytes = 0;
    char     a[ZI_SIZE_TEXT];
    zi_fit   fit;
    long     cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (budget && zi_size_parse(budget, 0, &bytes) < 0) bytes = 0;
    if (!bytes && zi_ensure_default_budget(&bytes) < 0) return;
    if (o->peak_bytes == 0) return;
    zi_size_format(bytes, a);
    if (zi_observe_fit(o, bytes, cores > 0 ? (uint32_t)cores : 1, &fit) < 0) {
        fprintf(stderr, "fits    %llu of these fit in %s\n",
                (unsigned long long)(bytes / o->peak_bytes), a);
        return;
    }
    const char *more = fit.n_shared == ZI_FIT_MAX ? " or more" : "";
    fprintf(stderr,
            "fits    %u%s of these fit in %s by their peaks; sharing, %u%s, together at "
            "%.2fx "
            "the speed of\n        one alone (simulated on %ld cores)\n",
            fit.n_plain, fit.n_plain == ZI_FIT_MAX ? " or more" : "", a, fit.n_shared,
            more, fit.speed, cores);
}

/* -- running ------------------------------------------------------------------------------------------- */

static int
run_child(char *const argv[])
{
    int   status;
    pid_t pid = fork();

    if (pid < 0) return 126;
    if (pid == 0) {
        execvp(argv[0], argv);
        fprintf(stderr, "zico run: %s: %s\n", argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
zi_observe_run(const zi_observe_run_options *opt, char *const argv[])
{
    const char  *tmp = getenv("TMPDIR");
    char         dir[512];
    zi_observed *o = calloc(1, sizeof *o);

    snprintf(dir, sizeof dir, "%s/zico-observe-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!o || !mkdtemp(dir)) {
        fprintf(stderr, "zico run: %s: %s\n", dir, strerror(errno));
        free(o);
        return 1;
    }
    setenv(ZI_ENV_OBSERVE, dir, 1);
    int code = run_child(argv);
    int n = read_all(dir, o);
    rmdir(dir);
    if (n == 0) {
        fprintf(stderr, "zico run: no large block was ever asked for\n");
    } else {
        draw(o, opt->svg);
        say_numbers(o);
        say_fit(o, opt->budget);
    }
    free(o);
    return code;
}

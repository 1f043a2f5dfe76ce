/* plan_report.c -- tables and pictures of what plan_numbers and plan_checkpoint.py have appended.
 *
 *     plan_report FILE [DIR]      DIR takes one SVG per network
 *
 * A row is compared with the steps of keep that were run near its own; two rows whose steps were run in
 * turns, with each other.  Of equal rows the last one counts, so that a network can be measured
 * again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_bench.h"
#include "report/report.h"

#define ROWS_MAX 2000
#define SERIES   6

typedef struct row {
    char               net[24], planner[24];
    unsigned           share; /* per cent of keep's peak; 100: no budget */
    int                fits;
    unsigned long long peak, kernel, foreseen, ns, stall, again, out, plan_ns, keep_peak;
    double             keep_ns; /* measured beside it */
    unsigned           turn;    /* 0: alone */
} row;

typedef struct point {
    char               net[24];
    unsigned           segments;
    unsigned long long peak, ns;
} point;

static row      rows[ROWS_MAX];
static point    points[ROWS_MAX];
static unsigned n_rows, n_points;

static void
read_lines(FILE *f)
{
    char line[1024];
    while (fgets(line, sizeof line, f) && n_rows < ROWS_MAX && n_points < ROWS_MAX) {
        row   r = {0};
        point p = {0};
        if (sscanf(
                line,
                "plan %23s %u %23s %d %llu %llu %llu %llu %llu %llu %llu %llu %llu %lf "
                "%u",
                r.net, &r.share, r.planner, &r.fits, &r.peak, &r.kernel, &r.foreseen,
                &r.ns, &r.stall, &r.again, &r.out, &r.plan_ns, &r.keep_peak, &r.keep_ns,
                &r.turn) >= 14)
            rows[n_rows++] = r;
        else if (sscanf(line, "torch %23s %u %llu %llu", p.net, &p.segments, &p.peak,
                        &p.ns) == 4)
            points[n_points++] = p;
    }
}

static bool
is_keep(const row *r)
{
    return !strcmp(r->planner, "keep");
}

static bool
is_outdated(unsigned i)
{
    for (unsigned k = i + 1; k < n_rows; k++)
        if (!strcmp(rows[k].net, rows[i].net) && rows[k].share == rows[i].share &&
            !strcmp(rows[k].planner, rows[i].planner))
            return true;
    return false;
}

/* The same acts for another budget or planner: measured once. */
static bool
is_repeated(unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (!strcmp(rows[k].net, rows[i].net) && rows[k].ns == rows[i].ns &&
            rows[k].foreseen == rows[i].foreseen && !is_outdated(k))
            return true;
    return false;
}

static const point *
torch_point(const char *net, unsigned segments)
{
    for (unsigned i = n_points; i-- > 0;)
        if (!strcmp(points[i].net, net) && points[i].segments == segments)
            return &points[i];
    return NULL;
}

/* -- means ------------------------------------------------------------------------------------- */

typedef struct mean {
    double   log_sum, worst;
    unsigned n;
} mean;

static void
enter(mean *m, double x)
{
    m->log_sum += log(x);
    if (x > m->worst) m->worst = x;
    m->n++;
}

static double
value(const mean *m)
{
    return m->n ? exp(m->log_sum / m->n) : NAN;
}

static double
ratio(const row *r)
{
    return (double)r->ns / r->keep_ns;
}

/* How much longer a takes than b. */
static double
times(const row *a, const row *b)
{
    return a->turn && a->turn == b->turn ? (double)a->ns / (double)b->ns
                                         : ratio(a) / ratio(b);
}

/* The fastest planner of a network at a share; `only`: of this name; NULL: nobody fits. */
static const row *
fastest(const char *net, unsigned share, const char *only, const char *but)
{
    const row *best = NULL;
    for (unsigned i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (strcmp(r->net, net) || r->share != share || !r->fits || !r->ns ||
            is_outdated(i))
            continue;
        if ((only && strcmp(r->planner, only)) || (but && !strcmp(r->planner, but)))
            continue;
        if (!best || times(r, best) < 1) best = r;
    }
    return best;
}

/* -- tables ------------------------------------------------------------------------------------- */

static void
show(zi_table *t)
{
    zi_style style = {.unicode = true};
    zi_str   out = {0};
    if (zi_table_print(t, &style, &out) < 0) exit(1);
    fputs(zi_str_get(&out), stdout);
    zi_str_free(&out);
    zi_table_free(t);
}

static void
print_rows(void)
{
    static const zi_column col[] = {
        {"network", NULL, ZI_UNIT_TEXT, 0}, {"budget", NULL, ZI_UNIT_PERCENT, 0},
        {"planner", NULL, ZI_UNIT_TEXT, 0}, {"peak", NULL, ZI_UNIT_BYTES, 0},
        {"kernel", NULL, ZI_UNIT_BYTES, 0}, {"foreseen", NULL, ZI_UNIT_NS, 0},
        {"measured", NULL, ZI_UNIT_NS, 0},  {"keep", NULL, ZI_UNIT_NS, 0},
        {"x keep", NULL, ZI_UNIT_RATIO, 3}, {"x foreseen", NULL, ZI_UNIT_RATIO, 3},
        {"stalls", NULL, ZI_UNIT_NS, 0},    {"again", NULL, ZI_UNIT_NUMBER, 0},
        {"out", NULL, ZI_UNIT_BYTES, 0},    {"planning", NULL, ZI_UNIT_NS, 0},
    };
    zi_table   *t;
    const char *net = NULL;

    if (zi_table_new(col, sizeof col / sizeof col[0], &t) < 0) exit(1);
    for (unsigned i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (is_outdated(i) || is_keep(r)) continue;
        if (net && strcmp(net, r->net)) zi_table_rule(t);
        net = r->net;
        zi_table_text(t, r->net);
        zi_table_f64(t, r->share / 100.0);
        zi_table_text(t, r->planner);
        if (!r->fits || !r->ns) {
            for (int k = 0; k < 11; k++) zi_table_none(t);
            continue;
        }
        zi_table_u64(t, r->peak), zi_table_u64(t, r->kernel);
        zi_table_u64(t, r->foreseen), zi_table_u64(t, r->ns);
        zi_table_f64(t, r->keep_ns), zi_table_f64(t, ratio(r));
        zi_table_f64(t, (double)r->ns / (double)r->foreseen);
        zi_table_u64(t, r->stall), zi_table_u64(t, r->again);
        zi_table_u64(t, r->out), zi_table_u64(t, r->plan_ns);
    }
    show(t);
}

static void
print_best(void)
{
    static const zi_column col[] = {
        {"network", NULL, ZI_UNIT_TEXT, 0},       {"cheap: peak", NULL, ZI_UNIT_RATIO, 2},
        {"of PyTorch's", NULL, ZI_UNIT_RATIO, 2}, {"time", NULL, ZI_UNIT_RATIO, 3},
        {"best at 70 %", NULL, ZI_UNIT_RATIO, 3}, {"at 50 %", NULL, ZI_UNIT_RATIO, 3},
        {"at 30 %", NULL, ZI_UNIT_RATIO, 3},
    };
    static const unsigned share[] = {70, 50, 30};
    mean                  m[6] = {0};
    zi_table             *t;

    if (zi_table_new(col, 7, &t) < 0) exit(1);
    for (size_t i = 0; i < N_BENCH_NETS; i++) {
        const char  *net = bench_nets[i].name;
        const row   *cheap = fastest(net, 100, "cheap", NULL);
        const point *plain = torch_point(net, 0);
        double       x[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
        if (cheap) {
            x[0] = (double)cheap->peak / (double)cheap->keep_peak;
            x[2] = ratio(cheap);
            if (plain) x[1] = (double)cheap->peak / (double)plain->peak;
        }
        for (int k = 0; k < 3; k++) {
            const row *best = fastest(net, share[k], NULL, NULL);
            if (best) x[3 + k] = ratio(best);
        }
        zi_table_text(t, net);
        for (int k = 0; k < 6; k++) {
            zi_table_f64(t, x[k]);
            if (!isnan(x[k])) enter(&m[k], x[k]);
        }
    }
    zi_table_rule(t);
    zi_table_text(t, "geometric mean");
    for (int k = 0; k < 6; k++) zi_table_f64(t, value(&m[k]));
    show(t);
}

/* Capuchin against whoever else runs at a share; and what was foreseen against what came. */
static void
print_claims(void)
{
    mean     order = {0}, error = {0};
    char     where[64] = "";
    unsigned n_within = 0, n_plans = 0;
    double   excess = 0;

    for (size_t i = 0; i < N_BENCH_NETS; i++)
        for (unsigned share = 1; share < 100; share++) {
            const row *c = fastest(bench_nets[i].name, share, "capuchin", NULL);
            const row *o = fastest(bench_nets[i].name, share, NULL, "capuchin");
            if (c && o && strcmp(o->planner, "auto")) {
                if (times(c, o) > order.worst)
                    snprintf(where, sizeof where, "%s at %u %%, %s", c->net, share,
                             o->planner);
                enter(&order, times(c, o));
            }
            if (o && !c)
                printf("%s at %u %%: %s runs, capuchin does not\n", bench_nets[i].name,
                       share, o->planner);
        }
    for (unsigned i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (!r->fits || !r->ns || !r->foreseen || is_outdated(i) || is_repeated(i))
            continue;
        double x = (double)r->ns / (double)r->foreseen;
        double off = x > 1 ? x : 1 / x;
        n_within += off <= 1.1;
        if (off > 1.1)
            printf("not within 10 %%: %s at %u %%, %s: %.3f of what was foreseen\n",
                   r->net, r->share, r->planner, x);
        enter(&error, off);
        n_plans++;
        if ((double)r->kernel - (double)r->peak > excess)
            excess = (double)r->kernel - (double)r->peak;
    }
    printf("capuchin over the best other planner: %.3fx, worst %.3fx (%s; %u budgets)\n",
           value(&order), order.worst, where, order.n);
    printf("measured against foreseen time: off by %.1f %% on the mean, worst %.1f %%, "
           "within 10 %%: %u of %u\n",
           100 * (value(&error) - 1), 100 * (error.worst - 1), n_within, error.n);
    printf(
        "the process grew by at most %.1f MiB more than the peak foreseen (%u plans)\n",
        excess / 1048576, n_plans);
}

/* -- beside PyTorch ------------------------------------------------------------------------------- */

/* Ours that is faster in no more memory, the fastest of them; else one that is smaller in no more time. */
static const row *
beside(const point *p)
{
    const row *best = NULL;
    for (unsigned i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (strcmp(r->net, p->net) || !r->fits || !r->ns || is_outdated(i)) continue;
        if (r->peak > p->peak || r->ns > p->ns) continue;
        if (!best || r->ns < best->ns) best = r;
    }
    return best;
}

static void
print_beside(void)
{
    static const zi_column col[] = {
        {"network", NULL, ZI_UNIT_TEXT, 0}, {"PyTorch", NULL, ZI_UNIT_TEXT, 0},
        {"peak", NULL, ZI_UNIT_BYTES, 0},   {"step", NULL, ZI_UNIT_NS, 0},
        {"zico", NULL, ZI_UNIT_TEXT, 0},    {"peak", NULL, ZI_UNIT_BYTES, 0},
        {"step", NULL, ZI_UNIT_NS, 0},      {"memory", NULL, ZI_UNIT_RATIO, 2},
        {"faster", NULL, ZI_UNIT_RATIO, 2},
    };
    zi_table *t;

    if (zi_table_new(col, sizeof col / sizeof col[0], &t) < 0) exit(1);
    for (unsigned i = 0; i < n_points; i++) {
        const point *p = &points[i];
        const row   *r = beside(p);
        char         what[32], who[64];
        if (torch_point(p->net, p->segments) != p) continue;
        snprintf(what, sizeof what, "%u segments", p->segments);
        zi_table_text(t, p->net);
        zi_table_text(t, p->segments ? what : "plain");
        zi_table_u64(t, p->peak), zi_table_u64(t, p->ns);
        if (!r) {
            zi_table_text(t, "nothing better");
            for (int k = 0; k < 4; k++) zi_table_none(t);
            continue;
        }
        snprintf(who, sizeof who, "%s, %u %%", r->planner, r->share);
        zi_table_text(t, who);
        zi_table_u64(t, r->peak), zi_table_u64(t, r->ns);
        zi_table_f64(t, (double)r->peak / (double)p->peak);
        zi_table_f64(t, (double)p->ns / (double)r->ns);
    }
    show(t);
}

/* -- pictures --------------------------------------------------------------------------------------- */

static void
draw(const char *dir, const char *net)
{
    static const char *const name[SERIES] = {"cheap",  "vdnn",     "superneurons",
                                             "monger", "capuchin", "PyTorch"};
    static double            x[SERIES][64], y[SERIES][64];
    zi_series                s[SERIES];
    size_t                   n = 0;

    for (int k = 0; k < SERIES; k++) {
        size_t at = 0;
        for (unsigned i = 0; i < n_rows && at < 64; i++)
            if (!strcmp(rows[i].net, net) && rows[i].fits && rows[i].ns &&
                !is_outdated(i) && !strcmp(rows[i].planner, name[k])) {
                x[k][at] = (double)rows[i].peak;
                y[k][at++] = (double)rows[i].ns;
            }
        for (unsigned i = 0; k == SERIES - 1 && i < n_points && at < 64; i++)
            if (!strcmp(points[i].net, net)) {
                x[k][at] = (double)points[i].peak;
                y[k][at++] = (double)points[i].ns;
            }
        if (at) s[n++] = (zi_series){.name = name[k], .x = x[k], .y = y[k], .n = at};
    }
    zi_plot plot = {.kind = ZI_PLOT_SCATTER,
                    .title = net,
                    .note = "executed",
                    .x = {.label = "peak memory", .unit = ZI_UNIT_BYTES},
                    .y = {.label = "step time", .unit = ZI_UNIT_NS},
                    .series = s,
                    .n_series = n};
    char    path[4200];
    zi_str  svg = {0}, text = {0};
    snprintf(path, sizeof path, "%s/plan_%s.svg", dir, net);
    FILE *f = n && zi_plot_svg(&plot, &svg) >= 0 ? fopen(path, "w") : NULL;
    if (f) {
        fputs(zi_str_get(&svg), f);
        fclose(f);
    }
    zi_style style = {.unicode = true, .width = 100};
    if (n && zi_plot_text(&plot, &style, &text) >= 0) fputs(zi_str_get(&text), stdout);
    zi_str_free(&svg);
    zi_str_free(&text);
}

int
main(int argc, char **argv)
{
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!f) {
        fprintf(stderr, "plan_report FILE [DIR]\n");
        return 2;
    }
    read_lines(f);
    fclose(f);
    print_rows();
    print_best();
    print_claims();
    if (n_points) print_beside();
    for (size_t i = 0; argc > 2 && i < N_BENCH_NETS; i++)
        draw(argv[2], bench_nets[i].name);
    return 0;
}

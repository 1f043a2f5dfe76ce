/* plan_table.c -- memory against step time: tables for people and programs, and the curves. */
#include "cli/plan_table.h"

#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"

#define PLANNERS_MAX 16
#define WIDE         112 /* columns that the whole table takes */

/* -- tables ------------------------------------------------------------------------------------ */

static double
time_ratio(const zi_study_row *r)
{
    uint64_t ns = r->measured ? r->step_ns : r->forecast.step_ns;
    return r->keep_ns ? (double)ns / (double)r->keep_ns : NAN;
}

static void
add_json_row(zi_table *t, const zi_study *s, const zi_study_row *r)
{
    zi_table_u64(t, r->budget_bytes);
    zi_table_f64(t, (double)r->budget_bytes / (double)s->keep_bytes);
    zi_table_text(t, r->planner);
    if (!r->fits) {
        zi_table_u64(t, r->least_bytes);
        for (int i = 0; i < 8; i++) zi_table_none(t);
        return;
    }
    zi_table_u64(t, r->peak_bytes);
    zi_table_u64(t, r->forecast.step_ns);
    if (r->measured) {
        zi_table_u64(t, r->step_ns);
        zi_table_u64(t, r->kernel_bytes);
    } else {
        zi_table_none(t);
        zi_table_none(t);
    }
    zi_table_f64(t, time_ratio(r));
    zi_table_u64(t, r->measured ? r->stall_ns : r->forecast.stall_ns);
    zi_table_u64(t, r->verdict.n_redo);
    zi_table_u64(t, r->verdict.out_bytes);
    zi_table_u64(t, r->plan_ns);
}

zico_status
zi_plan_answer_json(const zi_study *s, const zi_plan_answer *a, zi_str *out)
{
    static const zi_column col[] = {
        {"budget", "budget_bytes", ZI_UNIT_BYTES, 0},
        {"of keep", "budget_share", ZI_UNIT_PERCENT, 0},
        {"planner", "planner", ZI_UNIT_TEXT, 0},
        {"peak", "peak_bytes", ZI_UNIT_BYTES, 0},
        {"foreseen", "foreseen_ns", ZI_UNIT_NS, 0},
        {"measured", "measured_ns", ZI_UNIT_NS, 0},
        {"kernel", "kernel_bytes", ZI_UNIT_BYTES, 0},
        {"of keep's", "time_ratio", ZI_UNIT_RATIO, 2},
        {"stalls", "stall_ns", ZI_UNIT_NS, 0},
        {"again", "n_redo", ZI_UNIT_NUMBER, 0},
        {"out", "out_bytes", ZI_UNIT_BYTES, 0},
        {"planning", "plan_ns", ZI_UNIT_NS, 0},
    };
    zi_json   j = zi_json_into(out);
    zi_table *t;

    ZI_TRY(zi_table_new(col, sizeof col / sizeof col[0], &t));
    for (size_t i = 0; i < a->rows.n; i++) add_json_row(t, s, &a->rows.at[i]);
    zico_status st = zi_table_json(t, &j);
    zi_str_add_char(out, '\n');
    zi_table_free(t);
    return st;
}

/* Which of the columns below are shown. */
typedef struct shown {
    bool bytes, measured, moved, planning;
} shown;

static size_t
choose_columns(shown sh, zi_column *ret_col)
{
    size_t n = 0;
    if (sh.bytes) ret_col[n++] = (zi_column){.head = "budget", .unit = ZI_UNIT_BYTES};
    ret_col[n++] = (zi_column){.head = "budget", .unit = ZI_UNIT_PERCENT};
    ret_col[n++] = (zi_column){.head = "planner", .unit = ZI_UNIT_TEXT};
    ret_col[n++] = (zi_column){.head = "peak", .unit = ZI_UNIT_BYTES};
    ret_col[n++] = (zi_column){.head = "foreseen", .unit = ZI_UNIT_NS};
    if (sh.measured) ret_col[n++] = (zi_column){.head = "measured", .unit = ZI_UNIT_NS};
    ret_col[n++] = (zi_column){.head = "x keep", .unit = ZI_UNIT_RATIO, .decimals = 2};
    if (sh.moved) ret_col[n++] = (zi_column){.head = "stalls", .unit = ZI_UNIT_NS};
    ret_col[n++] = (zi_column){.head = "again", .unit = ZI_UNIT_NUMBER};
    ret_col[n++] = (zi_column){.head = "out", .unit = ZI_UNIT_BYTES};
    if (sh.planning) ret_col[n++] = (zi_column){.head = "planning", .unit = ZI_UNIT_NS};
    return n;
}

static void
add_row(zi_table *t, const zi_study *s, const zi_study_row *r, shown sh)
{
    if (sh.bytes) zi_table_u64(t, r->budget_bytes);
    zi_table_f64(t, (double)r->budget_bytes / (double)s->keep_bytes);
    zi_table_text(t, r->planner);
    zi_table_u64(t, r->peak_bytes);
    zi_table_u64(t, r->forecast.step_ns);
    if (sh.measured && r->measured)
        zi_table_u64(t, r->step_ns);
    else if (sh.measured)
        zi_table_none(t);
    zi_table_f64(t, time_ratio(r));
    if (sh.moved) zi_table_u64(t, r->measured ? r->stall_ns : r->forecast.stall_ns);
    zi_table_u64(t, r->verdict.n_redo);
    zi_table_u64(t, r->verdict.out_bytes);
    if (sh.planning) zi_table_u64(t, r->plan_ns);
}

static zico_status
print_table(const zi_study *s, const zi_plan_answer *a, const zi_style *style,
            zi_str *out)
{
    bool           wide = style->width == 0 || style->width >= WIDE;
    shown          sh = {wide, s->opt.n_steps > 0, wide, wide};
    zi_column      col[12];
    zi_table      *t;
    const uint64_t none = UINT64_MAX;
    uint64_t       last = none;

    ZI_TRY(zi_table_new(col, choose_columns(sh, col), &t));
    for (size_t i = 0; i < a->rows.n; i++) {
        const zi_study_row *r = &a->rows.at[i];
        if (!r->fits) continue;
        if (last != none && last != r->budget_bytes) zi_table_rule(t);
        last = r->budget_bytes;
        add_row(t, s, r, sh);
    }
    zico_status st = last != none ? zi_table_print(t, style, out) : ZICO_OK;
    zi_table_free(t);
    return st;
}

/* The least that the planner said it needs; 0: it met every budget. */
static uint64_t
least_need(const zi_plan_answer *a, const char *planner)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < a->rows.n; i++)
        if (!a->rows.at[i].fits && !strcmp(a->rows.at[i].planner, planner) &&
            a->rows.at[i].least_bytes < least)
            least = a->rows.at[i].least_bytes;
    return least == UINT64_MAX ? 0 : least;
}

/* Rows that are missing: "less is too little: keep 1.6 GiB, monger 474.7 MiB". */
static void
say_what_is_needed(const zi_plan_answer *a, zi_str *out)
{
    char size[ZI_UNIT_CHARS];
    bool any = false;

    for (size_t i = 0; i < a->rows.n; i++) {
        const zi_study_row *r = &a->rows.at[i];
        uint64_t            least = least_need(a, r->planner);
        if (r->budget_bytes != a->rows.at[0].budget_bytes || least == 0) continue;
        zi_str_fmt(out, "%s %s %s",
                   any ? "," : "what each needs where it has no row:", r->planner,
                   zi_unit_format(ZI_UNIT_BYTES, (double)least, -1, size));
        any = true;
    }
    if (any) zi_str_add_char(out, '\n');
}

/* -- curves ------------------------------------------------------------------------------------- */

typedef struct curves {
    zi_series series[PLANNERS_MAX];
    size_t    n;
    double    x[PLANNERS_MAX][ZI_PLAN_BUDGETS_MAX], y[PLANNERS_MAX][ZI_PLAN_BUDGETS_MAX];
} curves;

/* One curve per planner: peak against step time, smallest peak first.  auto would lie on top of
 * the best of the others. */
static void
make_curves(const zi_plan_answer *a, curves *c)
{
    bool several = false;
    for (size_t i = 1; i < a->rows.n; i++)
        several |= strcmp(a->rows.at[i].planner, a->rows.at[0].planner) != 0;
    for (size_t i = 0; i < a->rows.n; i++) {
        const zi_study_row *r = &a->rows.at[i];
        size_t              k = 0;
        if (!r->fits || (several && !strcmp(r->planner, "auto"))) continue;
        while (k < c->n && strcmp(c->series[k].name, r->planner)) k++;
        if (k == c->n) {
            if (c->n == PLANNERS_MAX) continue;
            c->series[c->n++] =
                (zi_series){.name = r->planner, .x = c->x[k], .y = c->y[k]};
        }
        size_t at = c->series[k].n;
        if (at == ZI_PLAN_BUDGETS_MAX) continue;
        for (; at > 0 && c->x[k][at - 1] > (double)r->peak_bytes; at--) {
            c->x[k][at] = c->x[k][at - 1];
            c->y[k][at] = c->y[k][at - 1];
        }
        c->x[k][at] = (double)r->peak_bytes;
        c->y[k][at] = (double)(r->measured ? r->step_ns : r->forecast.step_ns);
        c->series[k].n++;
    }
}

/* The axis of times begins near the fastest: differences are what is asked for. */
static zi_axis
time_axis(const curves *c)
{
    double lo = INFINITY, hi = 0;
    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < c->series[k].n; i++) {
            if (c->y[k][i] < lo) lo = c->y[k][i];
            if (c->y[k][i] > hi) hi = c->y[k][i];
        }
    double more = hi > 1.1 * lo ? 0.05 * (hi - lo) : 0.02 * lo;
    return (zi_axis){.label = "step time",
                     .unit = ZI_UNIT_NS,
                     .fixed = c->n > 0,
                     .lo = lo - more,
                     .hi = hi + more};
}

/* Where the times come from; all may be one or the other, or some if somebody had enough. */
static const char *
origin_of(const zi_plan_answer *a)
{
    size_t n_measured = 0, n = 0;
    for (size_t i = 0; i < a->rows.n; i++) {
        n += a->rows.at[i].fits;
        n_measured += a->rows.at[i].fits && a->rows.at[i].measured;
    }
    return n_measured == 0  ? "step time foreseen"
           : n_measured < n ? "step time measured or foreseen"
                            : "step time measured";
}

static zi_plot
plot_of(const zi_study *s, const zi_plan_answer *a, const curves *c)
{
    return (zi_plot){.kind = ZI_PLOT_FRONT,
                     .title = s->opt.net,
                     .note = origin_of(a),
                     .x = {.label = "peak memory", .unit = ZI_UNIT_BYTES},
                     .y = time_axis(c),
                     .series = c->series,
                     .n_series = c->n};
}

zico_status
zi_plan_answer_text(const zi_study *s, const zi_plan_answer *a, const zi_style *style,
                    zi_str *out)
{
    curves     *c = zi_calloc(1, sizeof *c);
    zico_status st = c ? print_table(s, a, style, out) : ZICO_E_NOMEM;

    if (st >= 0) {
        say_what_is_needed(a, out);
        make_curves(a, c);
    }
    if (st >= 0 && a->n_budgets > 1 && c->n > 0) {
        zi_plot plot = plot_of(s, a, c);
        zi_str_add_char(out, '\n');
        st = zi_plot_text(&plot, style, out);
    }
    zi_free(c);
    return st < 0 ? st : zi_str_status(out);
}

zico_status
zi_plan_answer_svg(const zi_study *s, const zi_plan_answer *a, zi_str *out)
{
    curves *c = zi_calloc(1, sizeof *c);
    if (!c) return ZICO_E_NOMEM;
    make_curves(a, c);
    zi_plot     plot = plot_of(s, a, c);
    zico_status st = zi_plot_svg(&plot, out);
    zi_free(c);
    return st;
}

/* report.h -- results for people and for other programs: tables, plots, traces.
 *
 * THE ROOM
 *   Turns numbers into text: terminal tables, SVG and terminal plots, sparklines, the
 *   progress line, Chrome/Perfetto traces, JSON rows.  Pure: everything goes into a
 *   zi_str, nothing is printed, no terminal is asked how wide it is; the caller says so
 *   in a zi_style.  The same input gives the same bytes, which is what lets golden tests
 *   hold every picture.
 *
 * ERRORS   Adding calls return nothing; a failure sticks and the finishing call reports
 *          it (ZICO_E_NOMEM), as with zi_str.  Calls in the wrong order are our own bugs:
 *          they assert, and the finishing call says ZICO_E_STATE.
 * NUMBERS  NaN and infinity are data, too: "-" in tables, gaps in plots, null in JSON.
 * NEXT     table.c, plot.c (what both kinds of plot share), svg.c, termplot.c, trace.c,
 *          progress.c.
 */
#ifndef ZI_REPORT_H
#define ZI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/json.h"
#include "base/str.h"
#include "zico/status.h"

/* ---- how the reader's screen is made ----------------------------------------------- */

typedef struct zi_style {
    bool     unicode; /* block and braille characters; false: plain ASCII     */
    bool     colour;  /* ANSI colours                                         */
    unsigned width;   /* columns; 0: 80 for plots and bars, no limit for tables */
} zi_style;

#define ZI_STYLE_PLAIN ((zi_style){0})

/* ---- units -------------------------------------------------------------------------- */

typedef enum zi_unit {
    ZI_UNIT_TEXT,    /* not a number                            */
    ZI_UNIT_NUMBER,  /* as it is                                */
    ZI_UNIT_BYTES,   /* "1.2 GiB"                               */
    ZI_UNIT_NS,      /* nanoseconds: "35.2 ms", "1 h 12 min"    */
    ZI_UNIT_RATIO,   /* "1.21x"                                 */
    ZI_UNIT_PERCENT, /* 0.93 is "93 %"                          */
    ZI_UNIT_RATE,    /* per second: "512/s"                     */
} zi_unit;

#define ZI_UNIT_CHARS 32 /* room that zi_unit_format never exceeds */

/* decimals < 0: as many as read well.  Returns `text`. */
const char *
zi_unit_format(zi_unit unit, double value, int decimals, char text[ZI_UNIT_CHARS]);

/* How many columns a UTF-8 text takes on a terminal (combining and wide characters are
 * not looked at: one code point, one column). */
size_t zi_text_columns(const char *text);

/* ---- tables --------------------------------------------------------------------------
 *
 *     const zi_column col[] = {{"job"}, {"peak", "peak_bytes", ZI_UNIT_BYTES}};
 *     zi_table *t;
 *     ZI_TRY(zi_table_new(col, 2, &t));
 *     zi_table_text(t, "resnet50"), zi_table_u64(t, peak);
 *     st = zi_table_print(t, &style, &out);
 *     zi_table_free(t);
 */

typedef struct zi_column {
    const char *head;     /* over the column; copied                         */
    const char *key;      /* in JSON; NULL: head, with _ for what is no letter or digit */
    zi_unit     unit;     /* TEXT: to the left; numbers: to the right        */
    int         decimals; /* for numbers; 0 or less: as many as read well    */
} zi_column;

typedef struct zi_table zi_table;

ZICO_NODISCARD zico_status zi_table_new(const zi_column *col, size_t n_cols,
                                        zi_table **ret_table);
void                       zi_table_free(zi_table *t); /* NULL is fine */

/* The next cell, row by row; the cell must fit its column's kind. */
void zi_table_text(zi_table *t, const char *text); /* copied; NULL: nothing there */
void zi_table_u64(zi_table *t, uint64_t v);
void zi_table_f64(zi_table *t, double v);
void zi_table_none(zi_table *t);
void zi_table_rule(zi_table *t); /* a line under the last row; only between rows */

size_t zi_table_n_rows(const zi_table *t);

/* Text form: heads, a rule, rows.  In a narrow style the widest text column is cut, with
 * an ellipsis. */
ZICO_NODISCARD zico_status zi_table_print(const zi_table *t, const zi_style *style,
                                          zi_str *out);
/* An array of objects, raw numbers (bytes as bytes, ns as ns). */
ZICO_NODISCARD zico_status zi_table_json(const zi_table *t, zi_json *j);

/* ---- plots ---------------------------------------------------------------------------- */

typedef enum zi_plot_kind {
    ZI_PLOT_LINE,    /* one line per series                                      */
    ZI_PLOT_STACKED, /* areas on top of each other: what each job holds, over time */
    ZI_PLOT_SCATTER, /* marks, not joined: memory against time                   */
    ZI_PLOT_FRONT,   /* marks joined in the order of x: a trade-off curve        */
} zi_plot_kind;

typedef struct zi_axis {
    const char *label;
    zi_unit     unit;
    bool        log;    /* powers of ten; values <= 0 are left out                */
    bool        fixed;  /* lo, hi are given; else they come from the data         */
    double      lo, hi; /* a y axis that is not fixed nor log begins at 0         */
} zi_axis;

typedef struct zi_series {
    const char        *name;
    const double      *x, *y;
    size_t             n;
    const char *const *labels; /* SCATTER, FRONT: words at the marks; NULL: none   */
    bool               steps;  /* the value holds until the next point (LINE, STACKED) */
} zi_series;

#define ZI_PLOT_MAX_SERIES 64

typedef struct zi_plot {
    zi_plot_kind     kind;
    const char      *title, *note; /* note: a smaller line below; NULL: none   */
    zi_axis          x, y;
    const zi_series *series; /* x ascending within a series (not SCATTER)       */
    size_t           n_series;
    bool             has_budget; /* a line across that nothing should pass       */
    double           budget;
    const char      *budget_label;  /* NULL: "budget"                            */
    unsigned         width, height; /* SVG: pixels, 0: 860 x 430.  Text: height in
                                     * rows, 0: 16; width comes from the style   */
} zi_plot;

/* ZICO_E_ARG: too many series, or x not ascending. */
ZICO_NODISCARD zico_status zi_plot_svg(const zi_plot *p, zi_str *out);
ZICO_NODISCARD zico_status zi_plot_text(const zi_plot *p, const zi_style *style,
                                        zi_str *out);

/* One row of at most `width` characters for n values, e.g. a loss curve. */
ZICO_NODISCARD zico_status zi_spark(const double *y, size_t n, unsigned width,
                                    const zi_style *style, zi_str *out);

/* ---- progress --------------------------------------------------------------------------- */

typedef struct zi_progress {
    const char *what;        /* "resnet50"                                        */
    uint64_t    done, total; /* steps; total 0: not known                         */
    uint64_t    elapsed_ns;  /* since the first of these steps began              */
    uint64_t    left_ns;     /* 0: worked out from the others                     */
    uint64_t    resumed_at;  /* steps of `done` that were not made in this run    */
    const char *detail;      /* "loss 0.123  512 samples/s  mem 1.2/1.4 GiB"; NULL */
} zi_progress;

/* One line without a newline, never wider than the style's width.  On a terminal the
 * caller writes "\r", this, and "\x1b[K". */
ZICO_NODISCARD zico_status zi_progress_line(const zi_progress *p, const zi_style *style,
                                            zi_str *out);

/* ---- traces: {"traceEvents": [...]}, opened by Perfetto and chrome://tracing -------------- */

typedef struct zi_trace {
    zi_json j;
} zi_trace;

typedef struct zi_trace_arg {
    const char *name;
    const char *text; /* NULL: the number */
    double      number;
} zi_trace_arg;

typedef struct zi_trace_at {
    uint32_t process, thread; /* rows of the picture                       */
    uint64_t at_ns;           /* any origin, the same for the whole trace  */
} zi_trace_at;

zi_trace zi_trace_into(zi_str *out);
void     zi_trace_process(zi_trace *t, uint32_t process, const char *name); /* M */
void
zi_trace_thread(zi_trace *t, uint32_t process, uint32_t thread, const char *name); /* M */
void zi_trace_span(zi_trace *t, zi_trace_at at, uint64_t length_ns, const char *name,
                   const char *category, const zi_trace_arg *args, size_t n_args); /* X */
void zi_trace_instant(zi_trace *t, zi_trace_at at, const char *name,
                      const zi_trace_arg *args, size_t n_args); /* i */
/* A curve per argument, stacked: counters of one name. */
void                       zi_trace_counter(zi_trace *t, zi_trace_at at, const char *name,
                                            const zi_trace_arg *values, size_t n_values); /* C */
ZICO_NODISCARD zico_status zi_trace_end(zi_trace *t);

#endif /* ZI_REPORT_H */

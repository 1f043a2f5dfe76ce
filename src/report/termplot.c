/* termplot.c -- plots and sparklines made of characters.
 *
 * With Unicode a cell holds 2 x 4 braille dots (lines, marks) or a block (areas); without
 * it a cell holds one letter per series.  Colours, where allowed, are per cell.  Points that
 * count have a shape per series: a picture without colours can be read, too.
 */
#include "report/plot.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

#define NOBODY 255
#define MARKS  5 /* on a line */

static const char letters[] = "*+ox#%@&=~";
static const char *const shape[] = {"●", "▲", "■", "◆", "○", "△", "□", "◇", "★", "☆"};
#define N_SHAPES (sizeof shape / sizeof shape[0])
static const int ansi[] = {34, 33, 32, 35, 36, 31, 93};

typedef struct canvas {
    const zi_style *style;
    unsigned        cols, rows; /* cells */
    uint8_t        *dots;       /* braille bits, row by row          */
    uint8_t        *owner;      /* series that touched the cell last */
    bool           *mark;       /* with a point that counts          */
} canvas;

static void
dot(canvas *c, double fx, double fy, size_t k)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08},
                                      {0x02, 0x10},
                                      {0x04, 0x20},
                                      {0x40, 0x80}};

    if (!(fx >= 0 && fx <= 1 && fy >= 0 && fy <= 1)) return;
    unsigned x = (unsigned)(fx * (c->cols * 2 - 1) + 0.5);
    unsigned y = (unsigned)((1 - fy) * (c->rows * 4 - 1) + 0.5);
    size_t   cell = (size_t)(y / 4) * c->cols + x / 2;
    c->dots[cell] |= bit[y % 4][x % 2];
    c->owner[cell] = (uint8_t)k;
}

/* A point that counts; whoever comes first keeps the cell. */
static void
mark(canvas *c, double fx, double fy, size_t k)
{
    if (!(fx >= 0 && fx <= 1 && fy >= 0 && fy <= 1)) return;
    unsigned x = (unsigned)(fx * (c->cols * 2 - 1) + 0.5);
    unsigned y = (unsigned)((1 - fy) * (c->rows * 4 - 1) + 0.5);
    size_t   cell = (size_t)(y / 4) * c->cols + x / 2;
    if (c->mark[cell]) return;
    c->mark[cell] = true;
    c->owner[cell] = (uint8_t)k;
}

/* Dots along a straight line between two places, both in 0 .. 1. */
static void
stroke(canvas *c, double x0, double y0, double x1, double y1, size_t k)
{
    double   dx = fabs(x1 - x0) * c->cols * 2, dy = fabs(y1 - y0) * c->rows * 4;
    unsigned n = (unsigned)ceil(fmax(fmin(fmax(dx, dy), 1e4), 1));

    for (unsigned i = 0; i <= n; i++) {
        double w = (double)i / n;
        dot(c, x0 + w * (x1 - x0), y0 + w * (y1 - y0), k);
    }
}

static void
draw_series(canvas *c, const zi_plot *p, const zi_range *rx, const zi_range *ry, size_t k)
{
    const zi_series *s = &p->series[k];
    double           px = NAN, py = NAN;

    for (size_t i = 0; i < s->n; i++) {
        double x = zi_range_place(rx, s->x[i]), y = zi_range_place(ry, s->y[i]);
        bool joined = p->kind != ZI_PLOT_SCATTER && !isnan(px) && !isnan(x) && !isnan(y);
        if (joined && s->steps) {
            stroke(c, px, py, x, py, k);
            stroke(c, x, py, x, y, k);
        } else if (joined) {
            stroke(c, px, py, x, y, k);
        } else if (!isnan(x) && !isnan(y)) {
            dot(c, x, y, k);
        }
        px = isnan(y) ? NAN : x, py = y;
    }
}

/* Every point of a plot of points. */
static void
draw_marks(canvas *c, const zi_plot *p, const zi_range *rx, const zi_range *ry)
{
    for (size_t k = 0; k < p->n_series; k++)
        for (size_t i = 0; i < p->series[k].n; i++)
            mark(c, zi_range_place(rx, p->series[k].x[i]),
                 zi_range_place(ry, p->series[k].y[i]), k);
}

/* A point of each line here and there, no two lines in the same columns: without colours they would
 * look alike. */
static void
draw_some_marks(canvas *c, const zi_plot *p, const zi_range *rx, const zi_range *ry)
{
    for (size_t k = 0; k < p->n_series; k++) {
        const zi_series *s = &p->series[k];
        double           next = ((double)k + 0.5) / (double)p->n_series / MARKS;
        for (size_t i = 0; i < s->n; i++) {
            double x = zi_range_place(rx, s->x[i]), y = zi_range_place(ry, s->y[i]);
            if (isnan(x) || isnan(y) || x < next) continue;
            mark(c, x, y, k);
            while (next <= x) next += 1.0 / MARKS;
        }
    }
}

/* Have series a shape of their own? */
static bool
has_shapes(const zi_plot *p, const zi_style *style)
{
    if (p->kind == ZI_PLOT_STACKED) return false;
    return p->kind != ZI_PLOT_LINE || (!style->colour && p->n_series > 1);
}

/* Whose area covers the middle of each cell, at the highest moment of its column. */
static void
draw_stack(canvas *c, const zi_stack *st, const zi_range *rx, const zi_range *ry)
{
    const double *sum = st->top + (st->n_series - 1) * st->n;
    size_t        at = 0;

    if (st->n == 0 || st->n_series == 0) return;
    for (unsigned x = 0; x < c->cols; x++) {
        double hi = rx->lo + (rx->hi - rx->lo) * (x + 1) / c->cols;
        size_t shown = at;
        for (; at + 1 < st->n && st->x[at + 1] <= hi; at++)
            if (sum[at + 1] > sum[shown]) shown = at + 1;
        for (unsigned y = 0; y < c->rows; y++) {
            double v = ry->lo + (ry->hi - ry->lo) * (c->rows - y - 0.5) / c->rows;
            for (size_t k = 0; k < st->n_series; k++)
                if (v < st->top[k * st->n + shown]) {
                    c->owner[(size_t)y * c->cols + x] = (uint8_t)k;
                    break;
                }
        }
    }
}

static void
add_cell(zi_str *out, const canvas *c, size_t cell, bool area)
{
    static const char *const block[] = {"█", "▓", "▒", "░"};
    uint8_t                  k = c->owner[cell];

    if (k == NOBODY) {
        zi_str_add_char(out, ' ');
        return;
    }
    if (c->style->colour) zi_str_fmt(out, "\x1b[%dm", ansi[k % 7]);
    if (!c->style->unicode) {
        zi_str_add_char(out, letters[k % (sizeof letters - 1)]);
    } else if (area) {
        zi_str_add(out, block[k % 4]);
    } else if (c->mark[cell]) {
        zi_str_add(out, shape[k % N_SHAPES]);
    } else { /* U+2800 + dots */
        uint8_t d = c->dots[cell];
        zi_str_add_char(out, (char)0xe2);
        zi_str_add_char(out, (char)(0xa0 | d >> 6));
        zi_str_add_char(out, (char)(0x80 | (d & 0x3f)));
    }
    if (c->style->colour) zi_str_add(out, "\x1b[0m");
}

/* Which row of the canvas a value lies in; rows: outside. */
static unsigned
row_of(const canvas *c, const zi_range *ry, double v)
{
    double f = zi_range_place(ry, v);

    if (!(f >= 0 && f <= 1)) return c->rows;
    unsigned y = (unsigned)((1 - f) * c->rows);
    return y < c->rows ? y : c->rows - 1;
}

static void
add_right(zi_str *out, const char *text, size_t width)
{
    for (size_t n = zi_text_columns(text); n < width; n++) zi_str_add_char(out, ' ');
    zi_str_add(out, text);
}

static void
add_legend(zi_str *out, const zi_plot *p, const zi_style *style, size_t indent)
{
    static const char *const block[] = {"█", "▓", "▒", "░"};
    bool                     area = p->kind == ZI_PLOT_STACKED;
    bool                     marked = has_shapes(p, style);
    size_t                   x = indent;

    for (size_t k = 0; k < p->n_series + p->has_budget; k++) {
        bool        budget = k == p->n_series;
        const char *name = budget ? (p->budget_label ? p->budget_label : "budget")
                                  : (p->series[k].name ? p->series[k].name : "");
        size_t      n = zi_text_columns(name) + 4;
        if (x == indent || (style->width && x + n > style->width)) {
            if (x > indent) zi_str_add_char(out, '\n');
            add_right(out, "", indent);
            x = indent;
        }
        if (style->colour && !budget) zi_str_fmt(out, "\x1b[%dm", ansi[k % 7]);
        if (budget)
            zi_str_add(out, style->unicode ? "┄" : "-");
        else if (!style->unicode)
            zi_str_add_char(out, letters[k % (sizeof letters - 1)]);
        else
            zi_str_add(out, area     ? block[k % 4]
                            : marked ? shape[k % N_SHAPES]
                                     : shape[0]);
        if (style->colour && !budget) zi_str_add(out, "\x1b[0m");
        zi_str_fmt(out, " %s  ", name);
        x += n;
    }
    while (out->n > 0 && !out->bad && out->at[out->n - 1] == ' ')
        out->at[--out->n] = '\0';
    zi_str_add_char(out, '\n');
}

/* The labels of the rows, one per tick. */
static size_t
y_labels(const zi_plot *p, const canvas *c, const zi_range *ry,
         char (*label)[ZI_UNIT_CHARS])
{
    zi_ticks t = zi_plot_ticks(ry, p->y.unit, c->rows / 3 + 1);
    size_t   width = 0;

    for (size_t i = 0; i < t.n; i++) {
        unsigned y = row_of(c, ry, t.at[i]);
        if (y < c->rows) zi_unit_format(p->y.unit, t.at[i], -1, label[y]);
    }
    for (unsigned y = 0; y < c->rows; y++)
        if (zi_text_columns(label[y]) > width) width = zi_text_columns(label[y]);
    return width;
}

static void
add_x_axis(zi_str *out, const zi_plot *p, const canvas *c, const zi_range *rx,
           size_t indent)
{
    char lo[ZI_UNIT_CHARS], hi[ZI_UNIT_CHARS];

    add_right(out, "", indent);
    zi_str_add(out, c->style->unicode ? " └" : " +");
    for (unsigned i = 0; i < c->cols; i++) zi_str_add(out, c->style->unicode ? "─" : "-");
    zi_str_add_char(out, '\n');
    zi_unit_format(p->x.unit, rx->lo, -1, lo);
    zi_unit_format(p->x.unit, rx->hi, -1, hi);
    size_t      used = zi_text_columns(lo) + zi_text_columns(hi);
    const char *label = p->x.label ? p->x.label : "";
    size_t      n = zi_text_columns(label);
    if (used + n + 2 > c->cols) label = "", n = 0;
    size_t blank = used + n < c->cols ? c->cols - used - n : 1;
    add_right(out, "", indent + 2);
    zi_str_add(out, lo);
    add_right(out, "", blank / 2);
    zi_str_add(out, label);
    add_right(out, "", blank - blank / 2);
    zi_str_fmt(out, "%s\n", hi);
}

static void
add_rows(zi_str *out, const zi_plot *p, const canvas *c, const zi_range *ry,
         char (*label)[ZI_UNIT_CHARS], size_t indent)
{
    unsigned budget = p->has_budget ? row_of(c, ry, p->budget) : c->rows;
    bool     area = p->kind == ZI_PLOT_STACKED;

    for (unsigned y = 0; y < c->rows; y++) {
        add_right(out, label[y], indent);
        zi_str_add(out, c->style->unicode ? (label[y][0] ? " ┤" : " │")
                                          : (label[y][0] ? " +" : " |"));
        size_t last = 0; /* no blanks at the end of a line */
        for (unsigned x = 0; x < c->cols; x++)
            if (c->owner[(size_t)y * c->cols + x] != NOBODY || y == budget) last = x + 1;
        for (size_t x = 0; x < last; x++) {
            size_t cell = (size_t)y * c->cols + x;
            if (y == budget && c->owner[cell] == NOBODY)
                zi_str_add(out, c->style->unicode ? "┄" : "-");
            else
                add_cell(out, c, cell, area);
        }
        zi_str_add_char(out, '\n');
    }
}

zico_status
zi_plot_text(const zi_plot *p, const zi_style *style, zi_str *out)
{
    zi_stack    stack = {0};
    zi_range    rx, ry;
    unsigned    width = style->width ? style->width : 80;
    canvas      c = {.style = style, .rows = p->height ? p->height : 16};
    zico_status st = zi_plot_check(p);
    bool        area = p->kind == ZI_PLOT_STACKED;

    if (st >= 0 && area) st = zi_stack_new(p, &stack);
    if (st < 0) return st;
    zi_plot_ranges(p, area ? &stack : NULL, &rx, &ry);
    char(*label)[ZI_UNIT_CHARS] = zi_calloc(c.rows, sizeof *label);
    size_t indent = label ? y_labels(p, &c, &ry, label) : 0;
    c.cols = width > indent + 12 ? width - (unsigned)indent - 2 : 10;
    c.dots = zi_calloc((size_t)c.cols * c.rows, 1);
    c.owner = zi_malloc((size_t)c.cols * c.rows);
    c.mark = zi_calloc((size_t)c.cols * c.rows, sizeof *c.mark);
    if (!label || !c.dots || !c.owner || !c.mark) {
        st = ZICO_E_NOMEM;
    } else {
        memset(c.owner, NOBODY, (size_t)c.cols * c.rows);
        if (area) draw_stack(&c, &stack, &rx, &ry);
        for (size_t k = 0; !area && k < p->n_series; k++) draw_series(&c, p, &rx, &ry, k);
        if (has_shapes(p, style) && p->kind == ZI_PLOT_LINE)
            draw_some_marks(&c, p, &rx, &ry);
        else if (has_shapes(p, style))
            draw_marks(&c, p, &rx, &ry);
        if (p->title) zi_str_fmt(out, "%s\n", p->title);
        if (p->y.label) zi_str_fmt(out, "%s\n", p->y.label);
        add_rows(out, p, &c, &ry, label, indent);
        add_x_axis(out, p, &c, &rx, indent);
        if (p->n_series + p->has_budget > 1) add_legend(out, p, style, indent + 2);
        st = zi_str_status(out);
    }
    zi_free(label);
    zi_free(c.dots);
    zi_free(c.owner);
    zi_free(c.mark);
    zi_stack_free(&stack);
    return st;
}

zico_status
zi_spark(const double *y, size_t n, unsigned width, const zi_style *style, zi_str *out)
{
    static const char *const bar[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char        plain[] = "_.-=oO#@";
    double                   lo = INFINITY, hi = -INFINITY;
    size_t                   cells = n < width ? n : width;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(y[i])) continue;
        lo = fmin(lo, y[i]), hi = fmax(hi, y[i]);
    }
    for (size_t c = 0; c < cells; c++) { /* the mean of what falls into the cell */
        size_t from = c * n / cells, to = (c + 1) * n / cells, used = 0;
        double sum = 0;
        for (size_t i = from; i < to; i++)
            if (isfinite(y[i])) sum += y[i], used++;
        if (used == 0) {
            zi_str_add_char(out, ' ');
            continue;
        }
        double   share = hi > lo ? (sum / (double)used - lo) / (hi - lo) : 0;
        unsigned level = (unsigned)(share * 7 + 0.5);
        zi_assert(level < 8);
        if (style->unicode)
            zi_str_add(out, bar[level]);
        else
            zi_str_add_char(out, plain[level]);
    }
    return zi_str_status(out);
}

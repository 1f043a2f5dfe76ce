/* svg.c -- plots as SVG: axes with units, a legend, colours that colour-blind readers can
 * tell apart (M. Okabe, K. Ito: Color Universal Design, 2008), dashes and marks for more.
 */
#include "report/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define N_COLOURS 7
#define INK       "#222222"
#define FAINT     "#dddddd"
#define HALO                                                                             \
    "font-size=\"11\" stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\""
#define CHAR_PX 6.6 /* mean width of a character of the 12 pixel face */

static const char *const colour[N_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                              "#56b4e9", "#d55e00", "#f0e442"};
static const char *const dash[] = {"", " stroke-dasharray=\"7 3\"",
                                   " stroke-dasharray=\"2 3\"",
                                   " stroke-dasharray=\"9 3 2 3\""};

typedef struct frame {
    const zi_plot *p;
    zi_str        *out;
    zi_range       rx, ry;
    double         left, top, right, bottom; /* of the plotting area, pixels */
    double         width, height;
} frame;

static double
px(const frame *f, double x)
{
    return f->left + zi_range_place(&f->rx, x) * (f->right - f->left);
}

static double
py(const frame *f, double y)
{
    return f->bottom - zi_range_place(&f->ry, y) * (f->bottom - f->top);
}

static const char *
series_colour(size_t k)
{
    return colour[k % N_COLOURS];
}

static const char *
series_dash(size_t k)
{
    return dash[k / N_COLOURS % (sizeof dash / sizeof *dash)];
}

static void
add_escaped(zi_str *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            zi_str_add(out, "&lt;");
        else if (c == '>')
            zi_str_add(out, "&gt;");
        else if (c == '&')
            zi_str_add(out, "&amp;");
        else if (c == '"')
            zi_str_add(out, "&quot;");
        else
            zi_str_add_char(out, c < 0x20 ? ' ' : (char)c);
    }
}

static void
add_text(zi_str *out, double x, double y, const char *attributes, const char *text)
{
    zi_str_fmt(out, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *attributes ? " " : "",
               attributes);
    add_escaped(out, text);
    zi_str_add(out, "</text>\n");
}

static void
add_line(zi_str *out, double x1, double y1, double x2, double y2, const char *attributes)
{
    zi_str_fmt(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1,
               y1, x2, y2, attributes);
}

static const char *
budget_label(const zi_plot *p)
{
    return p->budget_label ? p->budget_label : "budget";
}

/* Four shapes, filled and then hollow: told apart without colours, too. */
static void
add_mark(zi_str *out, double x, double y, size_t k)
{
    const char *c = series_colour(k);
    char        paint[80];

    if (k / 4 % 2)
        snprintf(paint, sizeof paint, "fill=\"#fff\" stroke=\"%s\" stroke-width=\"2\"",
                 c);
    else
        snprintf(paint, sizeof paint, "fill=\"%s\"", c);
    switch (k % 4) {
    case 0:
        zi_str_fmt(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" %s/>\n", x, y, paint);
        break;
    case 1:
        zi_str_fmt(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" %s/>\n",
                   x - 4, y - 4, paint);
        break;
    case 2:
        zi_str_fmt(out, "<path d=\"M%.1f %.1fl5 9h-10z\" %s/>\n", x, y - 5, paint);
        break;
    default:
        zi_str_fmt(out, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" %s/>\n", x, y - 5, paint);
    }
}

/* ---- legend ---------------------------------------------------------------------------- */

static double
legend_width(const char *name)
{
    return 34 + (double)zi_text_columns(name) * CHAR_PX;
}

/* Draws the entries in rows from (left, y) on when `out` is there; returns the last y. */
static double
legend(const frame *f, zi_str *out, double y)
{
    const zi_plot *p = f->p;
    double         x = f->left;
    bool           area = p->kind == ZI_PLOT_STACKED;
    bool           marks = p->kind == ZI_PLOT_SCATTER || p->kind == ZI_PLOT_FRONT;

    for (size_t k = 0; k < p->n_series + p->has_budget; k++) {
        bool        budget = k == p->n_series;
        const char *name = budget ? budget_label(p) : p->series[k].name;
        if (!name) name = "";
        if (x > f->left && x + legend_width(name) > f->right) x = f->left, y += 18;
        if (out && budget)
            add_line(out, x, y - 4, x + 22, y - 4,
                     "stroke=\"" INK "\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"");
        else if (out && area)
            zi_str_fmt(out,
                       "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"10\" "
                       "fill=\"%s\"/>\n",
                       x, y - 9, series_colour(k));
        else if (out && marks)
            add_mark(out, x + 11, y - 4, k);
        else if (out)
            zi_str_fmt(out,
                       "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                       "stroke=\"%s\" stroke-width=\"2\"%s/>\n",
                       x, y - 4, x + 22, y - 4, series_colour(k), series_dash(k));
        if (out) add_text(out, x + 28, y, "", name);
        x += legend_width(name) + 12;
    }
    return y;
}

/* One series with no budget line needs no legend. */
static bool
needs_legend(const zi_plot *p)
{
    return p->n_series + p->has_budget > 1;
}

/* ---- axes -------------------------------------------------------------------------------- */

static void
axes(const frame *f)
{
    const zi_plot *p = f->p;
    char           text[ZI_UNIT_CHARS];
    zi_ticks       tx =
        zi_plot_ticks(&f->rx, p->x.unit, (unsigned)(f->right - f->left) / 100 + 1);
    zi_ticks ty =
        zi_plot_ticks(&f->ry, p->y.unit, (unsigned)(f->bottom - f->top) / 50 + 1);

    for (size_t i = 0; i < ty.n; i++) {
        double y = py(f, ty.at[i]);
        add_line(f->out, f->left, y, f->right, y, "stroke=\"" FAINT "\"");
        add_text(f->out, f->left - 8, y + 4, "text-anchor=\"end\"",
                 zi_unit_format(p->y.unit, ty.at[i], -1, text));
    }
    for (size_t i = 0; i < tx.n; i++) {
        double x = px(f, tx.at[i]);
        add_line(f->out, x, f->bottom, x, f->bottom + 5, "stroke=\"" INK "\"");
        add_text(f->out, x, f->bottom + 19, "text-anchor=\"middle\"",
                 zi_unit_format(p->x.unit, tx.at[i], -1, text));
    }
    add_line(f->out, f->left, f->bottom, f->right, f->bottom, "stroke=\"" INK "\"");
    add_line(f->out, f->left, f->top, f->left, f->bottom, "stroke=\"" INK "\"");
    if (p->x.label)
        add_text(f->out, (f->left + f->right) / 2, f->bottom + 39,
                 "text-anchor=\"middle\"", p->x.label);
    if (p->y.label) {
        double x = 18, y = (f->top + f->bottom) / 2;
        zi_str_fmt(f->out,
                   "<text text-anchor=\"middle\" transform=\"translate(%.1f %.1f) "
                   "rotate(-90)\">",
                   x, y);
        add_escaped(f->out, p->y.label);
        zi_str_add(f->out, "</text>\n");
    }
}

/* ---- lines -------------------------------------------------------------------------------- */

/* Ends of what falls into one pixel column, so that a million points stay a small file
 * and no peak is lost. */
typedef struct bucket {
    double x, first, lo, hi, last;
    bool   used;
} bucket;

static void
flush_bucket(const frame *f, bucket *b, bool *pen)
{
    if (!b->used) return;
    const double y[4] = {b->first, b->lo, b->hi, b->last};
    double       before = NAN;
    for (int i = 0; i < 4; i++) {
        if (i > 0 && y[i] == before) continue;
        zi_str_fmt(f->out, "%c%.1f %.1f", *pen ? 'L' : 'M', b->x, y[i]);
        *pen = true;
        before = y[i];
    }
    b->used = false;
}

static void
add_point(const frame *f, bucket *b, bool *pen, double x, double y, bool dense)
{
    double at = dense ? floor(x) : x;

    if (b->used && (!dense || at != b->x)) flush_bucket(f, b, pen);
    if (!b->used) {
        *b = (bucket){at, y, y, y, y, true};
        return;
    }
    if (y < b->lo) b->lo = y;
    if (y > b->hi) b->hi = y;
    b->last = y;
}

static void
series_line(const frame *f, const zi_series *s, size_t k)
{
    bool   dense = (double)s->n > 2 * f->width;
    bool   pen = false;
    bucket b = {.used = false};
    double last_y = NAN;

    zi_str_add(f->out, "<path d=\"");
    for (size_t i = 0; i < s->n; i++) {
        double x = px(f, s->x[i]), y = py(f, s->y[i]);
        if (isnan(x) || isnan(y)) { /* a gap */
            flush_bucket(f, &b, &pen);
            pen = false;
            last_y = NAN;
            continue;
        }
        if (s->steps && !isnan(last_y)) add_point(f, &b, &pen, x, last_y, dense);
        add_point(f, &b, &pen, x, y, dense);
        last_y = y;
    }
    flush_bucket(f, &b, &pen);
    zi_str_fmt(f->out,
               "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
               "stroke-linejoin=\"round\"%s/>\n",
               series_colour(k), series_dash(k));
}

/* ---- stacked areas --------------------------------------------------------------------------- */

/* The next grid point after i: one per pixel column, the one where the stack is highest. */
static size_t
next_column(const frame *f, const zi_stack *st, size_t i, size_t *ret_shown)
{
    const double *sum = st->top + (st->n_series - 1) * st->n;
    double        column = floor(px(f, st->x[i]));

    *ret_shown = i;
    for (; i < st->n && floor(px(f, st->x[i])) == column; i++)
        if (sum[i] > sum[*ret_shown]) *ret_shown = i;
    return i;
}

static void
stack_area(const frame *f, const zi_stack *st, size_t k)
{
    bool          steps = f->p->series[k].steps;
    const double *top = st->top + k * st->n;
    double        y0 = py(f, 0), before = y0;
    size_t        shown;

    if (st->n == 0) return;
    zi_str_fmt(f->out, "<path d=\"M%.1f %.1f", px(f, st->x[0]), y0);
    for (size_t i = 0; i < st->n;) {
        i = next_column(f, st, i, &shown);
        double x = px(f, st->x[shown]), y = py(f, top[shown]);
        if (steps) zi_str_fmt(f->out, "L%.1f %.1f", x, before);
        zi_str_fmt(f->out, "L%.1f %.1f", x, y);
        before = y;
    }
    if (steps) zi_str_fmt(f->out, "L%.1f %.1f", px(f, st->x[st->n - 1]), before);
    zi_str_fmt(f->out,
               "L%.1f %.1fZ\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.6\"/>\n",
               px(f, st->x[st->n - 1]), y0, series_colour(k));
}

/* ---- marks -------------------------------------------------------------------------------------- */

static void
series_marks(const frame *f, const zi_series *s, size_t k)
{
    for (size_t i = 0; i < s->n; i++) {
        double x = px(f, s->x[i]), y = py(f, s->y[i]);
        if (isnan(x) || isnan(y)) continue;
        add_mark(f->out, x, y, k);
        if (!s->labels || !s->labels[i]) continue;
        bool near_edge = x + (double)zi_text_columns(s->labels[i]) * CHAR_PX > f->right;
        add_text(f->out, near_edge ? x - 8 : x + 8, y - 6,
                 near_edge ? HALO " text-anchor=\"end\"" : HALO, s->labels[i]);
    }
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static void
open_svg(const frame *f)
{
    zi_str_fmt(f->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
               "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\" "
               "fill=\"" INK "\">\n<rect width=\"100%%\" height=\"100%%\" "
               "fill=\"#ffffff\"/>\n",
               f->width, f->height, f->width, f->height);
    if (f->p->title) add_text(f->out, f->left, 24, "font-size=\"16\"", f->p->title);
    if (f->p->note) add_text(f->out, f->left, 42, "fill=\"#666666\"", f->p->note);
}

static frame
make_frame(const zi_plot *p, const zi_stack *stack, zi_str *out)
{
    frame f = {.p = p,
               .out = out,
               .width = p->width ? p->width : 860,
               .height = p->height ? p->height : 430};

    zi_plot_ranges(p, stack, &f.rx, &f.ry);
    f.left = 88;
    f.right = f.width - 24;
    f.top = p->title || p->note ? 36 : 16;
    if (p->title && p->note) f.top += 18;
    if (needs_legend(p)) f.top = legend(&f, NULL, f.top + 14) + 12;
    f.bottom = f.height - (p->x.label ? 52 : 32);
    return f;
}

static void
draw_budget(const frame *f)
{
    double y = py(f, f->p->budget);

    if (isnan(y)) return;
    add_line(f->out, f->left, y, f->right, y,
             "stroke=\"" INK "\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"");
}

zico_status
zi_plot_svg(const zi_plot *p, zi_str *out)
{
    zi_stack    stack = {0};
    zico_status st = zi_plot_check(p);
    bool        area = p->kind == ZI_PLOT_STACKED;

    if (st >= 0 && area) st = zi_stack_new(p, &stack);
    if (st < 0) return st;
    frame f = make_frame(p, area ? &stack : NULL, out);

    open_svg(&f);
    axes(&f);
    for (size_t i = p->n_series; area && i-- > 0;) stack_area(&f, &stack, i);
    for (size_t k = 0; !area && k < p->n_series; k++) {
        if (p->kind != ZI_PLOT_SCATTER) series_line(&f, &p->series[k], k);
        if (p->kind != ZI_PLOT_LINE) series_marks(&f, &p->series[k], k);
    }
    if (p->has_budget) draw_budget(&f);
    if (needs_legend(p))
        legend(&f, out,
               (p->title || p->note ? 36 : 16) + (p->title && p->note ? 18 : 0) + 14);
    zi_str_add(out, "</svg>\n");
    zi_stack_free(&stack);
    return zi_str_status(out);
}

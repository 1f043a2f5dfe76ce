/* plot.c -- ranges, ticks and stacks: the part of a plot that is the same everywhere. */
#include "report/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

zico_status
zi_plot_check(const zi_plot *p)
{
    if (p->n_series > ZI_PLOT_MAX_SERIES) return ZICO_E_ARG;
    if (p->kind == ZI_PLOT_SCATTER) return ZICO_OK;
    for (size_t k = 0; k < p->n_series; k++)
        for (size_t i = 1; i < p->series[k].n; i++)
            if (!(p->series[k].x[i] >= p->series[k].x[i - 1])) return ZICO_E_ARG;
    return ZICO_OK;
}

static void
widen(zi_range *r, double v)
{
    if (!isfinite(v) || (r->log && v <= 0)) return;
    if (v < r->lo) r->lo = v;
    if (v > r->hi) r->hi = v;
}

/* Make an empty or single-valued range wide enough to draw in. */
static void
settle(zi_range *r, const zi_axis *a, bool from_zero)
{
    if (a->fixed) {
        r->lo = a->lo, r->hi = a->hi;
    } else if (r->lo > r->hi) {
        r->lo = r->log ? 1 : 0, r->hi = r->log ? 10 : 1;
    } else if (from_zero && !r->log) {
        if (r->lo > 0) r->lo = 0;
    }
    if (r->log && r->lo <= 0) r->lo = r->hi > 0 ? r->hi / 1e6 : 1;
    if (!(r->hi > r->lo)) r->hi = r->lo + (r->lo != 0 ? fabs(r->lo) * 0.1 : 1);
}

void
zi_plot_ranges(const zi_plot *p, const zi_stack *stack, zi_range *ret_x, zi_range *ret_y)
{
    *ret_x = (zi_range){INFINITY, -INFINITY, p->x.log};
    *ret_y = (zi_range){INFINITY, -INFINITY, p->y.log && !stack};
    for (size_t k = 0; k < p->n_series; k++) {
        const zi_series *s = &p->series[k];
        for (size_t i = 0; i < s->n; i++) {
            if (!isfinite(s->x[i]) || !isfinite(s->y[i])) continue;
            widen(ret_x, s->x[i]);
            if (!stack) widen(ret_y, s->y[i]);
        }
    }
    for (size_t i = 0; stack && i < stack->n * stack->n_series; i++)
        widen(ret_y, stack->top[i]);
    if (p->has_budget) widen(ret_y, p->budget);
    bool marks = p->kind == ZI_PLOT_SCATTER || p->kind == ZI_PLOT_FRONT;
    settle(ret_x, &p->x, marks);
    settle(ret_y, &p->y, true);
    if (!p->y.fixed && !ret_y->log) ret_y->hi += (ret_y->hi - ret_y->lo) * 0.05;
    if (marks && !p->x.fixed && !ret_x->log) ret_x->hi += (ret_x->hi - ret_x->lo) * 0.05;
}

double
zi_range_place(const zi_range *r, double v)
{
    if (!isfinite(v) || (r->log && v <= 0)) return NAN;
    if (r->log) return (log10(v) - log10(r->lo)) / (log10(r->hi) - log10(r->lo));
    return (v - r->lo) / (r->hi - r->lo);
}

/* The smallest round step that is at least `raw`. */
static double
round_step(double raw, zi_unit unit)
{
    static const double clock_s[] = {60,   120,  300,   600,   900,   1800,
                                     3600, 7200, 21600, 43200, 86400, 172800};
    if (unit == ZI_UNIT_BYTES && raw >= 1) return exp2(ceil(log2(raw) - 1e-9));
    if (unit == ZI_UNIT_NS && raw > 30e9)
        for (size_t i = 0; i < sizeof clock_s / sizeof *clock_s; i++)
            if (clock_s[i] * 1e9 >= raw) return clock_s[i] * 1e9;

    double ten = pow(10, floor(log10(raw)));
    double digit = raw / ten;
    return ten * (digit <= 1 + 1e-9 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static zi_ticks
log_ticks(const zi_range *r, unsigned want)
{
    zi_ticks t = {.n = 0};
    double   first = ceil(log10(r->lo) - 1e-9), last = floor(log10(r->hi) + 1e-9);
    double   step = ceil((last - first + 1) / want);
    bool     fine = last - first < 2; /* under two decades: also 2 and 5 */

    if (step < 1) step = 1;
    for (double e = first - fine; e <= last; e += step)
        for (double digit = 1; digit <= (fine ? 5 : 1); digit += digit < 2 ? 1 : 3) {
            double v = pow(10, e) * digit;
            if (v >= r->lo * (1 - 1e-9) && v <= r->hi * (1 + 1e-9) &&
                t.n < ZI_PLOT_MAX_TICKS)
                t.at[t.n++] = v;
        }
    return t;
}

static zi_ticks
even_ticks(const zi_range *r, double step)
{
    zi_ticks t = {.n = 0};

    for (double i = ceil(r->lo / step - 1e-9); t.n < ZI_PLOT_MAX_TICKS; i++) {
        if (i * step > r->hi + step * 1e-9) break;
        t.at[t.n++] = i * step + 0.0; /* never -0 */
    }
    return t;
}

/* Would two neighbours read the same? */
static bool
ticks_repeat(const zi_ticks *t, zi_unit unit)
{
    char a[ZI_UNIT_CHARS], b[ZI_UNIT_CHARS];

    for (size_t i = 1; i < t->n; i++)
        if (!strcmp(zi_unit_format(unit, t->at[i - 1], -1, a),
                    zi_unit_format(unit, t->at[i], -1, b)))
            return true;
    return false;
}

zi_ticks
zi_plot_ticks(const zi_range *r, zi_unit unit, unsigned want)
{
    zi_assert(r->lo < r->hi && want > 0);
    if (r->log) return log_ticks(r, want);
    double   step = round_step((r->hi - r->lo) / want, unit);
    zi_ticks t = even_ticks(r, step);
    while (t.n > 1 && ticks_repeat(&t, unit)) {
        step = round_step(step * 1.5, unit);
        t = even_ticks(r, step);
    }
    return t;
}

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The series at x; `i` is where the search stopped last, as x only grows. */
static double
value_at(const zi_series *s, double x, size_t *i)
{
    while (*i + 1 < s->n && s->x[*i + 1] <= x) ++*i;
    if (s->n == 0 || x < s->x[0]) return 0;
    double y = s->y[*i];
    if (!s->steps) {
        if (*i + 1 == s->n) {
            if (x > s->x[*i]) return 0;
        } else if (s->x[*i + 1] > s->x[*i]) {
            double w = (x - s->x[*i]) / (s->x[*i + 1] - s->x[*i]);
            y += w * (s->y[*i + 1] - y);
        }
    }
    return isfinite(y) ? y : 0;
}

zico_status
zi_stack_new(const zi_plot *p, zi_stack *ret_stack)
{
    zi_stack s = {.n_series = p->n_series};
    size_t   cap = 0, n = 0;

    for (size_t k = 0; k < p->n_series; k++) cap += p->series[k].n;
    s.x = zi_calloc(cap + 1, sizeof *s.x);
    s.top = zi_calloc((cap + 1) * (p->n_series + 1), sizeof *s.top);
    if (!s.x || !s.top) {
        zi_stack_free(&s);
        return ZICO_E_NOMEM;
    }
    for (size_t k = 0; k < p->n_series; k++)
        for (size_t i = 0; i < p->series[k].n; i++)
            if (isfinite(p->series[k].x[i])) s.x[n++] = p->series[k].x[i];
    if (n > 0) qsort(s.x, n, sizeof *s.x, ascending);
    for (size_t i = 0; i < n; i++)
        if (s.n == 0 || s.x[i] > s.x[s.n - 1]) s.x[s.n++] = s.x[i];

    for (size_t k = 0; k < p->n_series; k++) {
        size_t at = 0;
        for (size_t i = 0; i < s.n; i++) {
            double below = k > 0 ? s.top[(k - 1) * s.n + i] : 0;
            s.top[k * s.n + i] = below + value_at(&p->series[k], s.x[i], &at);
        }
    }
    *ret_stack = s;
    return ZICO_OK;
}

void
zi_stack_free(zi_stack *s)
{
    zi_free(s->x);
    zi_free(s->top);
    *s = (zi_stack){0};
}

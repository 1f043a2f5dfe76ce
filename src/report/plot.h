/* plot.h -- what SVG and terminal plots share: ranges, ticks, stacks.  Private to the room. */
#ifndef ZI_REPORT_PLOT_H
#define ZI_REPORT_PLOT_H

#include "report/report.h"

#define ZI_PLOT_MAX_TICKS 16

typedef struct zi_range {
    double lo, hi; /* lo < hi */
    bool   log;
} zi_range;

typedef struct zi_ticks {
    double at[ZI_PLOT_MAX_TICKS];
    size_t n;
} zi_ticks;

/* Series added up over the union of all x.  top[k * n + i] is the upper edge of series k
 * at x[i]; series 0 lies at the bottom. */
typedef struct zi_stack {
    double *x, *top;
    size_t  n, n_series;
} zi_stack;

ZICO_NODISCARD zico_status zi_plot_check(const zi_plot *p);

/* What the axes span; y of a stacked plot comes from the stack (else NULL). */
void
zi_plot_ranges(const zi_plot *p, const zi_stack *stack, zi_range *ret_x, zi_range *ret_y);

/* About `want` round values inside the range: 1-2-5 steps, powers of two for bytes,
 * minutes and hours for times. */
zi_ticks zi_plot_ticks(const zi_range *r, zi_unit unit, unsigned want);

/* 0 at lo, 1 at hi; NaN when v has no place there. */
double zi_range_place(const zi_range *r, double v);

ZICO_NODISCARD zico_status zi_stack_new(const zi_plot *p, zi_stack *ret_stack);
void                       zi_stack_free(zi_stack *s);

#endif /* ZI_REPORT_PLOT_H */

/* cli/history.h -- what every job held over time, for the live view and the closing picture.
 *
 * Fed with pictures (watch.h); keeps at most ZI_HISTORY_MAX samples by dropping every second
 * one when full, so that a run of any length has an even picture.
 */
#ifndef ZI_CLI_HISTORY_H
#define ZI_CLI_HISTORY_H

#include "base/str.h"
#include "cli/watch.h"
#include "report/report.h"

#define ZI_HISTORY_MAX  4096u
#define ZI_HISTORY_JOBS 64u

typedef struct zi_history zi_history;

zico_status zi_history_new(zi_history **ret_history);
void        zi_history_free(zi_history *h); /* NULL is fine */

/* Jobs are drawn in this order, others below them as they come. */
void zi_history_expect(zi_history *h, const char *name);
/* Time counts from the first picture.  Jobs are told apart by name. */
zico_status zi_history_add(zi_history *h, const zi_picture *p);

size_t   zi_history_n(const zi_history *h);
uint64_t zi_history_peak(const zi_history *h); /* highest leased + private seen         */
uint64_t
zi_history_budget(const zi_history *h); /* the last one                          */
bool
zi_history_was_over(const zi_history *h); /* kernel's count + private > budget, ever */

/* Stacked areas against the budget, as SVG or on a terminal (height in rows). */
zico_status zi_history_svg(const zi_history *h, const char *title, zi_str *out);
zico_status
zi_history_text(const zi_history *h, const zi_style *style, unsigned height, zi_str *out);
/* Counter tracks, one a job, for a trace; process numbers begin at `process`. */
void zi_history_trace(const zi_history *h, zi_trace *t, uint32_t process);

#endif /* ZI_CLI_HISTORY_H */

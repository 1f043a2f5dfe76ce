/* history.c -- memory of all jobs over time. */
#include "cli/history.h"

#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"

struct zi_history {
    size_t   n, n_jobs, stride, skip; /* one in `stride` pictures is kept */
    uint64_t begin_ns, peak_bytes, budget_bytes;
    bool     over;
    char     name[ZI_HISTORY_JOBS][64];
    double   at_s[ZI_HISTORY_MAX];
    double   held[ZI_HISTORY_JOBS][ZI_HISTORY_MAX]; /* bytes */
};

zico_status
zi_history_new(zi_history **ret_history)
{
    zi_history *h = zi_calloc(1, sizeof *h);
    if (!h) return ZICO_E_NOMEM;
    h->stride = 1;
    *ret_history = h;
    return ZICO_OK;
}

void
zi_history_free(zi_history *h)
{
    zi_free(h);
}

/* The row of a job; a job beyond the last row is added to that one. */
static size_t
row_of(zi_history *h, const char *name)
{
    size_t i = 0;
    while (i < h->n_jobs && strcmp(h->name[i], name)) i++;
    if (i < h->n_jobs) return i;
    if (i == ZI_HISTORY_JOBS) return ZI_HISTORY_JOBS - 1;
    snprintf(h->name[i], sizeof h->name[i], "%s", name);
    memset(h->held[i], 0, sizeof h->held[i]);
    h->n_jobs++;
    return i;
}

void
zi_history_expect(zi_history *h, const char *name)
{
    (void)row_of(h, name);
}

static void
thin_out(zi_history *h)
{
    for (size_t i = 0; i < h->n / 2; i++) {
        h->at_s[i] = h->at_s[2 * i];
        for (size_t j = 0; j < h->n_jobs; j++) h->held[j][i] = h->held[j][2 * i];
    }
    h->n /= 2;
    h->stride *= 2;
}

static void
keep_sample(zi_history *h, const zi_picture *p)
{
    if (h->n == ZI_HISTORY_MAX) thin_out(h);
    size_t i = h->n++;
    h->at_s[i] = (double)(p->device.now_ns - h->begin_ns) / 1e9;
    for (size_t j = 0; j < h->n_jobs; j++) h->held[j][i] = 0;
    for (size_t j = 0; j < p->n_jobs; j++) {
        const zi_msg_status_job *s = &p->job[j];
        h->held[row_of(h, s->name)][i] +=
            (double)(s->fixed_bytes + s->step_bytes + s->private_bytes);
    }
}

zico_status
zi_history_add(zi_history *h, const zi_picture *p)
{
    const zi_msg_status *d = &p->device;
    if (h->n == 0) h->begin_ns = d->now_ns;
    if (d->now_ns < h->begin_ns)
        return ZICO_OK; /* a restarted broker's clock is the same */
    if (d->leased_bytes + d->private_bytes > h->peak_bytes)
        h->peak_bytes = d->leased_bytes + d->private_bytes;
    if (d->kernel_bytes + d->private_bytes > d->budget_bytes &&
        d->budget_bytes >= h->budget_bytes)
        h->over = true;
    h->budget_bytes = d->budget_bytes;
    if (h->skip++ % h->stride == 0) keep_sample(h, p);
    return ZICO_OK;
}

size_t
zi_history_n(const zi_history *h)
{
    return h->n;
}

uint64_t
zi_history_peak(const zi_history *h)
{
    return h->peak_bytes;
}

uint64_t
zi_history_budget(const zi_history *h)
{
    return h->budget_bytes;
}

bool
zi_history_was_over(const zi_history *h)
{
    return h->over;
}

/* -- pictures ------------------------------------------------------------------------------ */

static zi_plot
plot_of(const zi_history *h, const char *title, zi_series *series)
{
    for (size_t j = 0; j < h->n_jobs; j++)
        series[j] = (zi_series){
            .name = h->name[j], .x = h->at_s, .y = h->held[j], .n = h->n, .steps = true};
    return (zi_plot){.kind = ZI_PLOT_STACKED,
                     .title = title,
                     .x = {.label = "time (s)", .unit = ZI_UNIT_NUMBER},
                     .y = {.label = "memory held", .unit = ZI_UNIT_BYTES},
                     .series = series,
                     .n_series = h->n_jobs,
                     .has_budget = true,
                     .budget = (double)h->budget_bytes};
}

zico_status
zi_history_svg(const zi_history *h, const char *title, zi_str *out)
{
    zi_series series[ZI_HISTORY_JOBS];
    zi_plot   p = plot_of(h, title, series);
    return zi_plot_svg(&p, out);
}

zico_status
zi_history_text(const zi_history *h, const zi_style *style, unsigned height, zi_str *out)
{
    zi_series series[ZI_HISTORY_JOBS];
    zi_plot   p = plot_of(h, NULL, series);
    p.height = height;
    return zi_plot_text(&p, style, out);
}

void
zi_history_trace(const zi_history *h, zi_trace *t, uint32_t process)
{
    zi_trace_arg value = {.name = "bytes"};
    for (size_t j = 0; j < h->n_jobs; j++) {
        zi_trace_process(t, process + (uint32_t)j, h->name[j]);
        for (size_t i = 0; i < h->n; i++) {
            zi_trace_at at = {.process = process + (uint32_t)j,
                              .at_ns = h->begin_ns + (uint64_t)(h->at_s[i] * 1e9)};
            value.number = h->held[j][i];
            zi_trace_counter(t, at, "memory held", &value, 1);
        }
    }
}

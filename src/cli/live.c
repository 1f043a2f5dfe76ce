/* live.c -- draws the screen of a running job file. */
#include "cli/live.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/size.h"
#include "base/try.h"

/* As zi_job_state of the policies; the wire carries it as a number. */
static const char *const state_text[] = {"between steps", "asks",       "in a step",
                                         "paused",        "moving out", "suspended",
                                         "no steps",      "gone"};

void
zi_live_doing(const zi_live_job *j, zi_str *out)
{
    if (j->ended) {
        if (j->exit_code == 0)
            zi_str_add(out, "finished");
        else
            zi_str_fmt(out, "failed, exit code %d", j->exit_code);
        return;
    }
    if (j->waiting) {
        zi_str_add(out, "starts later");
        return;
    }
    if (!j->joined) {
        zi_str_add(out, "starting");
        return;
    }
    if (j->seen.reason != ZI_REASON_NONE) {
        zi_str_fmt(out, "waits: %s", zi_reason_text((zi_reason)j->seen.reason));
        return;
    }
    zi_str_add(out, state_text[j->seen.state & 7]);
    if (j->seen.cores)
        zi_str_fmt(out, ", %u core%s", j->seen.cores, j->seen.cores == 1 ? "" : "s");
}

static void
job_row(zi_table *t, const zi_live_job *j)
{
    const zi_msg_status_job *s = &j->seen;
    zi_str                   text = {0};

    zi_table_text(t, j->name);
    if (!j->ever)
        zi_table_none(t);
    else if (s->steps_total)
        zi_str_fmt(&text, "%llu/%llu", (unsigned long long)s->step_no,
                   (unsigned long long)s->steps_total);
    else
        zi_str_fmt(&text, "%llu", (unsigned long long)s->step_no);
    if (j->ever) zi_table_text(t, zi_str_get(&text));
    zi_str_clear(&text);
    if (j->ever && s->loss_micro != INT64_MIN)
        zi_table_f64(t, (double)s->loss_micro / 1e6);
    else
        zi_table_none(t);
    zi_table_f64(t, j->rate > 0 ? j->rate : NAN);
    zi_table_u64(t, j->joined ? s->fixed_bytes + s->step_bytes + s->private_bytes : 0);
    zi_table_u64(t, s->peak_bytes);
    zi_live_doing(j, &text);
    zi_table_text(t, zi_str_get(&text));
    if (j->seen.note[0]) /* step and loss say what a native job's last line would */
        zi_table_text(t, j->seen.note);
    else
        zi_table_text(t, j->ever && s->loss_micro != INT64_MIN ? "" : j->last_line);
    zi_str_free(&text);
}

static zico_status
draw_jobs(const zi_live *l, const zi_style *style, zi_str *out)
{
    static const zi_column col[] = {
        {"job", NULL, ZI_UNIT_TEXT, 0},     {"step", NULL, ZI_UNIT_TEXT, 0},
        {"loss", NULL, ZI_UNIT_NUMBER, 4},  {"steps/s", NULL, ZI_UNIT_NUMBER, 2},
        {"memory", NULL, ZI_UNIT_BYTES, 0}, {"peak", NULL, ZI_UNIT_BYTES, 0},
        {"doing", NULL, ZI_UNIT_TEXT, 0},   {"last line", NULL, ZI_UNIT_TEXT, 0},
    };
    zi_table *t;
    ZI_TRY(zi_table_new(col, sizeof col / sizeof *col, &t));
    for (size_t i = 0; i < l->n_jobs; i++) job_row(t, &l->job[i]);
    zico_status st = zi_table_print(t, style, out);
    zi_table_free(t);
    return st;
}

/* The memory of all jobs side by side, up to the budget's end mark. */
static void
draw_bar(const zi_live *l, const zi_style *style, zi_str *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned          width = (style->width ? style->width : 80) - 2, used = 0;
    char              held[ZI_SIZE_TEXT], budget[ZI_SIZE_TEXT];

    if (width < 10 || !l->budget_bytes) return;
    zi_str_add_char(out, '[');
    for (size_t i = 0; i < l->n_jobs; i++) {
        const zi_msg_status_job *s = &l->job[i].seen;
        if (!l->job[i].joined) continue;
        double share = (double)(s->fixed_bytes + s->step_bytes + s->private_bytes) /
                       (double)l->budget_bytes;
        unsigned n = (unsigned)(share * width + 0.5);
        while (n-- > 0 && used < width) {
            zi_str_add_char(out, letters[i % 26]);
            used++;
        }
    }
    while (used++ < width) zi_str_add_char(out, '.');
    zi_str_add(out, "]\n");
    zi_str_fmt(out, "%s of %s held, policy %s, %.0f s\n",
               zi_size_format(l->held_bytes, held),
               zi_size_format(l->budget_bytes, budget), l->policy,
               (double)l->elapsed_ns / 1e9);
    if (l->says[0]) zi_str_fmt(out, "%.*s\n", (int)width, l->says);
}

zico_status
zi_live_draw(const zi_live *l, const zi_style *style, unsigned rows, zi_str *out)
{
    unsigned used = (unsigned)l->n_jobs + 4 + (l->says[0] != 0);

    ZI_TRY(draw_jobs(l, style, out));
    draw_bar(l, style, out);
    if (l->history && zi_history_n(l->history) > 3 && rows > used + 9) {
        unsigned height = rows - used - 5;
        ZI_TRY(zi_history_text(l->history, style, height > 14 ? 14 : height, out));
    }
    return zi_str_status(out);
}

/* progress.c -- one line that says how far a run is, and when it will be done. */
#include "report/report.h"

#include <string.h>

#include "base/check.h"

#define BAR_MIN 8
#define BAR_MAX 28

static uint64_t
time_left(const zi_progress *p)
{
    uint64_t made = p->done > p->resumed_at ? p->done - p->resumed_at : 0;

    if (p->left_ns || p->total <= p->done || made == 0) return p->left_ns;
    return (uint64_t)((double)p->elapsed_ns / (double)made *
                      (double)(p->total - p->done));
}

/* Eighths of a character where the screen has them. */
static void
add_bar(zi_str *out, double share, unsigned width, const zi_style *style)
{
    static const char *const part[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned                 eighths = (unsigned)(share * width * 8 + 0.5);
    unsigned                 full = eighths / 8, used = full;

    zi_str_add(out, style->unicode ? "▕" : "[");
    if (style->colour) zi_str_add(out, "\x1b[36m");
    for (unsigned i = 0; i < full; i++) zi_str_add(out, style->unicode ? "█" : "=");
    if (style->unicode && full < width && eighths % 8) {
        zi_str_add(out, part[eighths % 8]);
        used++;
    }
    if (style->colour) zi_str_add(out, "\x1b[0m");
    for (; used < width; used++) zi_str_add_char(out, ' ');
    zi_str_add(out, style->unicode ? "▏" : "]");
}

/* `text`, or as much of it as `room` columns hold. */
static void
add_within(zi_str *out, const char *text, size_t room)
{
    for (; *text; text++) {
        if (((unsigned char)*text & 0xc0) != 0x80 && room-- == 0) return;
        zi_str_add_char(out, *text);
    }
}

zico_status
zi_progress_line(const zi_progress *p, const zi_style *style, zi_str *out)
{
    size_t   width = style->width ? style->width : 80;
    char     time[ZI_UNIT_CHARS];
    uint64_t left = time_left(p);
    zi_str   head = {0}, tail = {0};

    zi_assert(p->total == 0 || p->done <= p->total);
    zi_str_fmt(&head, "%s%s%llu", p->what ? p->what : "", p->what ? " " : "",
               (unsigned long long)p->done);
    if (p->total) zi_str_fmt(&head, "/%llu", (unsigned long long)p->total);
    if (p->detail) zi_str_fmt(&tail, "  %s", p->detail);
    if (left)
        zi_str_fmt(&tail, "  %s left",
                   zi_unit_format(ZI_UNIT_NS, (double)left, -1, time));

    size_t used = zi_text_columns(zi_str_get(&head)) + zi_text_columns(zi_str_get(&tail));
    add_within(out, zi_str_get(&head), width);
    if (p->total && used + BAR_MIN + 3 <= width) {
        size_t bar = width - used - 3;
        zi_str_add_char(out, ' ');
        add_bar(out, (double)p->done / (double)p->total,
                (unsigned)(bar > BAR_MAX ? BAR_MAX : bar), style);
    }
    size_t head_n = zi_text_columns(zi_str_get(&head));
    if (used + (p->total && used + BAR_MIN + 3 <= width ? BAR_MIN + 3 : 0) <= width)
        zi_str_add(out, zi_str_get(&tail));
    else if (head_n < width)
        add_within(out, zi_str_get(&tail), width - head_n);

    zico_status st = zi_str_status(&head) < 0 ? ZICO_E_NOMEM : zi_str_status(&tail);
    zi_str_free(&head);
    zi_str_free(&tail);
    return st < 0 ? st : zi_str_status(out);
}

/* cli/train_view.h -- how a training run looks: a bar, lines, or JSON. */
#ifndef ZI_CLI_TRAIN_VIEW_H
#define ZI_CLI_TRAIN_VIEW_H

#include "report/report.h"
#include "train/train_run.h"

#define ZI_TRAIN_VIEW_CURVE 256

typedef struct zi_train_view {
    const char *net;
    bool        json, quiet;

    bool     screen; /* a terminal: one line that is written again and again */
    zi_style style;
    uint64_t shown_ns, shown_step; /* when and what was shown last        */
    uint64_t rate_ns, rate_step;   /* begin of the window of the rate     */
    double   rate;                 /* samples per second                  */
    double   smooth;               /* loss, a running mean                */
    bool     dirty;                /* an unfinished line is on the screen */
    double   curve[ZI_TRAIN_VIEW_CURVE];
    uint64_t n_curve, curve_every; /* each value stands for so many steps */
    double   curve_sum;
    uint64_t curve_part;
} zi_train_view;

void zi_train_view_begin(zi_train_view *v);
/* A zi_run_options.on_event. */
void zi_train_view_event(void *view, const zi_run_event *ev);
void zi_train_view_end(zi_train_view *v, const zi_run_result *res, zico_status st);

#endif /* ZI_CLI_TRAIN_VIEW_H */

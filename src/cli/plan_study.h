/* cli/plan_study.h -- one network under every planner and budget: foreseen, and measured.
 *
 * A study holds a training graph, what its nodes and copies take, and the tier.  It is asked for
 * one (planner, budget) after the other, all with the same costs; what was planned is then measured
 * together.
 *
 * MEASURING  Machines and disks have moods.  Plans are opened side by side as far as memory allows, and
 *   their steps run in turns: keep, A, B, C, keep, D, A, ...; so whatever drifts, drifts for all.
 *   Each step is compared with the median of the three steps of keep nearest to it, and foretold from
 *   the node times of those three (the median of each) and from the plan's own copies in its other
 *   steps: one step that is disturbed from outside decides nothing.  Plans with the same acts
 *   are executed once.
 */
#ifndef ZI_CLI_PLAN_STUDY_H
#define ZI_CLI_PLAN_STUDY_H

#include "exec/exec.h"
#include "exec/tier.h"
#include "planner/planner.h"
#include "report/report.h"
#include "train/diag.h"

typedef struct zi_study_options {
    const char *net;       /* zoo spec or ONNX file                                 */
    int64_t     batch;     /* 0: the network's own                                  */
    const char *tier;      /* "file:DIR", "ram"; NULL: no swapping                  */
    unsigned    n_threads; /* 0: all cores                                          */
    unsigned    n_steps; /* measured steps per plan, up to three more where no two of them
                            * agree; 0: costs are guesses                           */
    bool        settle;  /* n_steps at most, and fewer where two agree            */
} zi_study_options;

typedef struct zi_study {
    zi_study_options opt;
    zi_graph        *graph;
    zi_tier         *tier;
    zi_cost         *cost;
    uint64_t         align;      /* of tensors                     */
    uint64_t         keep_bytes; /* placed peak of keep            */
    uint64_t         keep_ns;    /* its step: measured, or foreseen */
    zi_exec         *yard;       /* keep, ready to run beside every plan; NULL: no room */
    zi_exec_feed    *feeds;      /* the same for all                */
    size_t           n_feeds;
} zi_study;

ZICO_NODISCARD zico_status zi_study_open(const zi_study_options *opt, zi_train_diag *diag,
                                         zi_study *ret_study);
void                       zi_study_close(zi_study *s);

typedef struct zi_study_row {
    const char *planner;
    uint64_t    budget_bytes; /* 0: none */
    bool        fits;
    uint64_t    least_bytes; /* where it does not */
    uint64_t    plan_ns;     /* of a core, for planning */
    uint64_t    peak_bytes;  /* with placement; as executed, if it was */
    uint64_t
        kernel_bytes; /* by which the process grew, as the kernel saw it; 0: not run */
    zi_forecast
        forecast; /* of the plan as planned; executed: as the steps around foretold */
    zi_verdict verdict;
    bool       measured;
    uint64_t   step_ns, stall_ns; /* medians */
    uint64_t   keep_ns;           /* of keep's steps near them; without: the study's    */
    double   out_bytes_per_s, in_bytes_per_s; /* of the plan's own copies; 0: none      */
    uint64_t plan_hash;                       /* of its acts */
    unsigned n_steps;                         /* measured */
    unsigned turn; /* of rows with the same one the steps were run in turns; 0: not run */
    bool     same; /* measured for another planner or budget */
} zi_study_row;

/* Plan and foresee.  ret_plan takes the plan, NULL if none fits. */
ZICO_NODISCARD zico_status zi_study_plan(zi_study *s, const zi_planner_ops *ops,
                                         uint64_t budget_bytes, zi_train_diag *diag,
                                         zi_study_row *ret_row, zi_plan **ret_plan);

typedef struct zi_study_progress {
    const zi_study_row *row; /* whose step comes next */
    size_t              at;  /* of n plans that are to be executed */
    size_t              n;
    unsigned            round;   /* 0: it is made ready */
    uint64_t            left_ns; /* until all are measured, by what was seen so far */
} zi_study_progress;

typedef struct zi_study_watch {
    /* Before every step; false: no more, what was measured so far is enough. */
    bool (*go_on)(void *user, const zi_study_progress *p);
    void *user;
} zi_study_watch;

/* Execute the plans (those that are NULL are passed by), and fill what is measured of their rows.
 * `watch` may be NULL; what it stops before the first step stays as foreseen. */
ZICO_NODISCARD zico_status zi_study_measure(zi_study *s, zi_study_row *rows,
                                            zi_plan *const *plans, size_t n,
                                            const zi_study_watch *watch,
                                            zi_train_diag        *diag);

/* One alone: planned, and with opt.n_steps executed.  ret_plan: may be NULL. */
ZICO_NODISCARD zico_status zi_study_ask(zi_study *s, const zi_planner_ops *ops,
                                        uint64_t budget_bytes, zi_train_diag *diag,
                                        zi_study_row *ret_row, zi_plan **ret_plan);

/* The largest batch with which the planner fits the budget; 0: not even one sample.  Nothing is
 * measured: whatever the machine's speed, that batch can be planned (planner/fit.c, F1). */
ZICO_NODISCARD zico_status zi_study_max_batch(const zi_study_options *opt,
                                              const zi_planner_ops   *ops,
                                              uint64_t budget_bytes, zi_train_diag *diag,
                                              int64_t *ret_batch);

/* Which tensor lives when, largest first, as text. */
ZICO_NODISCARD zico_status zi_plan_draw(const zi_plan *p, const zi_graph *g,
                                        const zi_cost *c, const zi_style *style,
                                        unsigned n_rows, zi_str *out);

#endif /* ZI_CLI_PLAN_STUDY_H */

/* cli/plan_study.h -- one network under every planner and budget: foreseen, and measured.
 *
 * A study holds a training graph, what its nodes and copies take, and the tier.  It is asked for
 * one (planner, budget) after the other; nothing is kept between two questions.
 *
 * MEASURING  Machines and disks have moods.  Before every step of a plan a step of keep is run:
 *   what nodes take comes from there, what copies take from the plan's own steps before, and with
 *   both the step to come is foretold.  Medians of what was foretold, of what came, and of keep.
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
    unsigned    n_steps;   /* measured steps per plan; 0: costs are guesses         */
} zi_study_options;

typedef struct zi_study_row zi_study_row;

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
    zi_study_row    *executed; /* plans that were, one of each kind: nobody waits twice */
    size_t           n_executed;
} zi_study;

ZICO_NODISCARD zico_status zi_study_open(const zi_study_options *opt, zi_train_diag *diag,
                                         zi_study *ret_study);
void                       zi_study_close(zi_study *s);

struct zi_study_row {
    const char *planner;
    uint64_t    budget_bytes; /* 0: none */
    bool        fits;
    uint64_t    least_bytes; /* where it does not */
    uint64_t    plan_ns;     /* of a core, for planning */
    uint64_t    peak_bytes;  /* with placement; as executed, if it was */
    uint64_t
        kernel_bytes; /* by which the process grew, as the kernel saw it; 0: not run */
    zi_forecast
        forecast; /* of the plan as planned; executed: as the steps before foretold */
    zi_verdict verdict;
    bool       measured;
    uint64_t   step_ns, stall_ns; /* medians */
    uint64_t   keep_ns;           /* of keep's steps between them; without: the study's */
    double out_bytes_per_s, in_bytes_per_s; /* of the plan's own copies; 0: none        */
    uint64_t fastest_ns; /* of the steps; for machines that do other things, too */
    uint64_t plan_hash;  /* of its acts */
    bool     same;       /* measured before, for another planner or budget */
};

/* Plan; with opt.n_steps also execute, unless the same acts were executed before.  ret_plan (may be
 * NULL) takes the plan, NULL if none. */
ZICO_NODISCARD zico_status zi_study_ask(zi_study *s, const zi_planner_ops *ops,
                                        uint64_t budget_bytes, zi_train_diag *diag,
                                        zi_study_row *ret_row, zi_plan **ret_plan);

/* The largest batch with which the planner fits the budget; 0: not even one sample.  Sizes are
 * exact, times guessed. */
ZICO_NODISCARD zico_status zi_study_max_batch(const zi_study_options *opt,
                                              const zi_planner_ops   *ops,
                                              uint64_t budget_bytes, zi_train_diag *diag,
                                              int64_t *ret_batch);

/* Which tensor lives when, largest first, as text. */
ZICO_NODISCARD zico_status zi_plan_draw(const zi_plan *p, const zi_graph *g,
                                        const zi_cost *c, const zi_style *style,
                                        unsigned n_rows, zi_str *out);

#endif /* ZI_CLI_PLAN_STUDY_H */

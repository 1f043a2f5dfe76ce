/* train_run.h -- one training run from its options to its end: what `zico train` does.
 *
 * Builds the network, opens the data, resumes, trains, saves, looks for the first bad tensor
 * when the loss is not finite, and judges the result on samples held back.  Prints nothing:
 * what happens is told through on_event.
 *
 * SAME BITS   A run that is stopped after step k, saved, and resumed ends with the same bits as
 *             one that was not stopped, for the same batch, threads and data.
 */
#ifndef ZI_TRAIN_TRAIN_RUN_H
#define ZI_TRAIN_TRAIN_RUN_H

#include <stdatomic.h>
#include "train/evaluate.h"
#include "train/schedule.h"

typedef enum zi_run_event_kind {
    ZI_RUN_READY, /* everything is prepared, step `first` comes next */
    ZI_RUN_STEP,
    ZI_RUN_PLAN, /* from the next step on another plan is followed */
    ZI_RUN_SAVED,
    ZI_RUN_SEARCH, /* the loss is bad: steps are made again to find the tensor */
    ZI_RUN_SCORE,
} zi_run_event_kind;

typedef struct zi_run_event {
    zi_run_event_kind kind;
    uint64_t          step, first, last; /* `step` of `last`; this run began at `first` */
    uint64_t          now_ns, begin_ns;  /* begin: when step `first` was queued         */
    int64_t           batch;
    uint64_t          n_params;  /* READY */
    uint64_t          n_samples; /* READY: in an epoch */
    double            loss, lr;
    const zi_exec_step_result *result; /* STEP  */
    const char                *path;   /* SAVED */
    const zi_pilot_info       *plan;   /* PLAN, READY */
    const zi_score            *score;  /* SCORE */
    zi_engine                 *engine;
} zi_run_event;

typedef struct zi_run_options {
    const zi_os *os; /* NULL: the real kernel */
    const char  *net;
    int64_t      batch; /* 0: 64, or the ONNX file's own */
    zi_data_spec data;
    zi_optim     optim;
    const char  *optim_name;
    zi_schedule  schedule;        /* total is set here                          */
    uint64_t     steps;           /* in all, resumed ones included              */
    double       epochs;          /* > 0: in place of steps                     */
    unsigned     n_threads;       /* 0: all cores                               */
    unsigned     loader_threads;  /* 0: 1                                       */
    unsigned     loader_ahead;    /* batches in its ring; 0: 4                  */
    unsigned     loader_pause_ms; /* each batch takes so much longer           */
    uint64_t     seed;
    const char  *save;   /* NULL: do not (but see stop)                        */
    uint64_t     every;  /* 0: only at the end                                 */
    const char  *resume; /* NULL: from the start                               */
    const char  *planner, *socket;
    uint64_t     budget_bytes;
    double       budget_share; /* of keep's peak; 0: budget_bytes counts       */
    const char  *tier;         /* NULL: a spill file, if one is needed         */
    const char  *trace;        /* NULL: none                                   */
    uint64_t     eval_samples; /* 0: do not judge                              */
    bool         watch;        /* check every tensor at every step             */
    const atomic_int
        *stop; /* set: finish the step, save (to save, or to a name made up from
                             * the network's), return                               */
    void (*on_event)(void *user, const zi_run_event *event);
    void *user;
} zi_run_options;

typedef struct zi_run_result { /* filled on failure, too */
    uint64_t         first, done, last;
    bool             stopped;
    char             saved[512]; /* where the newest checkpoint is; "": nowhere */
    uint64_t         bad_step;   /* 0: none */
    char             bad_tensor[256];
    uint64_t         train_ns;
    uint64_t         n_samples; /* trained on in this run */
    double           first_loss, loss;
    zi_score         score;
    bool             scored;
    uint64_t         n_batches, n_data_waits; /* of them, the loop waited for data */
    zi_engine_memory memory;
    zi_pilot_info    plan;     /* at the end                                  */
    zi_tier_stats    tier;     /* moved in this run                           */
    uint64_t         stall_ns; /* stood at copies, in all                     */
} zi_run_result;

ZICO_NODISCARD zico_status zi_run_train(const zi_run_options *opt, zi_train_diag *diag,
                                        zi_run_result *ret_result);

#endif /* ZI_TRAIN_TRAIN_RUN_H */

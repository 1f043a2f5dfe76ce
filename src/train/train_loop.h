/* train_loop.h -- many steps: batches in, results out, checkpoints in between.
 *
 * The loop queues steps as fast as the executor takes them and picks up results as they
 * come, so that reading the loss never drains the device; it drains only to save.
 */
#ifndef ZI_TRAIN_TRAIN_LOOP_H
#define ZI_TRAIN_TRAIN_LOOP_H

#include <stdatomic.h>
#include "train/engine.h"
#include "train/schedule.h"

typedef struct zi_loop_step {
    const zi_exec_step_result *result;
    double                     lr;
} zi_loop_step;

typedef struct zi_loop_options {
    zi_engine         *engine;
    zi_loader         *loader; /* stands at the first step's batch */
    const zi_schedule *schedule;
    uint64_t           first, last; /* steps to make, both included; counted from 1 */
    uint64_t           every;       /* call on_save after every so many steps; 0: never */
    const atomic_int  *stop;        /* not 0: finish the step and return; may be NULL */

    void (*on_step)(void *user, const zi_loop_step *step); /* in order; may be NULL   */
    /* All steps up to `step` are over and good.  A failure ends the loop. */
    zico_status (*on_save)(void *user, uint64_t step, zi_train_diag *diag);
    void *user;
} zi_loop_options;

typedef struct zi_loop_end { /* filled on failure, too */
    uint64_t     done;       /* the last step that is over and good        */
    bool         stopped;    /* on request                                 */
    uint64_t     bad_step;   /* whose loss was not finite; 0: none         */
    zi_tensor_id bad;        /* the first tensor that went bad, if watched */
} zi_loop_end;

/* ZICO_E_NAN: see bad_step.  Otherwise whatever data or executor reported. */
ZICO_NODISCARD zico_status zi_loop_run(const zi_loop_options *opt, zi_train_diag *diag,
                                       zi_loop_end *ret_end);

#endif /* ZI_TRAIN_TRAIN_LOOP_H */

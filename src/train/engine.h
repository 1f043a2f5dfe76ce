/* engine.h -- one network ready to run: graph, plan, memory and executor in one hand.
 *
 * From a forward graph (zoo, ONNX, builder) an engine makes the step's graph (fuse,
 * differentiate, update), chooses a plan that fits the budget, joins a broker or takes its
 * own memory, and then runs steps.  Knows how its tensors are named in checkpoints.
 *
 * SESSION  in order: `socket` given, or ZICO_SOCKET in the environment: a job of that broker,
 *          whose word every step awaits; else plain private memory.
 * BUDGET   pilot.h: measured, then guided; changes while it runs.
 * NAMES    Parameters and running statistics are called as in PyTorch; optimizer state is
 *          "optimizer." + its name in the graph.
 * THREADS  One caller at a time.
 * NEXT     train_loop.h (many steps), exec/exec.h (one step), evaluate.h.
 */
#ifndef ZI_TRAIN_ENGINE_H
#define ZI_TRAIN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "graph/graph.h"
#include "report/report.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/diag.h"
#include "train/pilot.h"

typedef struct zi_engine zi_engine;

typedef struct zi_engine_options {
    const zi_os    *os;           /* NULL: the real kernel                             */
    const zi_optim *optim;        /* NULL: forward only                                */
    const char     *planner;      /* NULL: auto where there is a budget, else keep     */
    uint64_t        budget_bytes; /* 0: no limit of our own                            */
    double          budget_share; /* of keep's peak, instead of budget_bytes; 0: none  */
    const char     *tier;   /* exec/tier.h, or "none"; NULL: a spill file, if needed */
    const char     *socket; /* NULL: the environment                             */
    const char     *job_name, *shape_key;
    uint64_t        charge_bytes; /* of the caller's own (batches); told to a broker   */
    uint64_t        steps_total;
    uint64_t        latency_ns; /* bound of an inference step; 0: none */
    unsigned        n_threads;
    unsigned        run_ahead;
    uint64_t        seed;
    bool            no_init; /* parameters will be loaded */
    bool            watch;   /* find the first tensor that goes bad; slow */
    bool            grads;   /* keep gradients as outputs (optim must be NULL) */
    const atomic_int
        *stop; /* not 0: end every wait for memory with E_CANCELLED; or NULL */
} zi_engine_options;

/* `forward` is the engine's from here on, also on failure.  ZICO_E_NOPLAN, ZICO_E_BUDGET: the
 * sentence says how much is needed. */
ZICO_NODISCARD zico_status zi_engine_new(zi_graph *forward, const zi_engine_options *opt,
                                         zi_train_diag *diag, zi_engine **ret_engine);
void                       zi_engine_free(zi_engine *e); /* drains; NULL is fine */

/* ---- what it takes ---------------------------------------------------------------------- */
int64_t             zi_engine_batch(const zi_engine *e);
const zi_data_want *zi_engine_want(const zi_engine *e);
const zi_graph     *zi_engine_graph(const zi_engine *e);
zi_exec            *zi_engine_exec(zi_engine *e);
const zi_pilot     *zi_engine_pilot(const zi_engine *e); /* whose plan it follows */

/* ---- steps ------------------------------------------------------------------------------- */

/* Queue a step on one batch: x, y as zi_engine_want says, times the batch; both are copied.
 * y is not read by a forward graph without a loss. */
ZICO_NODISCARD zico_status zi_engine_step(zi_engine *e, const void *x, const void *y,
                                          double lr, uint64_t step);
ZICO_NODISCARD zico_status zi_engine_result(zi_engine *e, bool wait,
                                            zi_exec_step_result *ret_result);
/* The last step's prediction (output 0), plain layout; drains. */
ZICO_NODISCARD zico_status zi_engine_output(zi_engine *e, void *ret_data, size_t n_bytes);

/* ---- checkpoints --------------------------------------------------------------------------- */

/* Save parameters and state with these words added.  ZICO_E_NAN: a value is not finite; the
 * file before stays. */
ZICO_NODISCARD zico_status zi_engine_save(zi_engine *e, const char *path,
                                          const zi_st_pair *meta, size_t n_meta,
                                          zi_train_diag *diag);

/* Set what the checkpoint has.  `all`: every PARAM and STATE must be there (resuming); else
 * optimizer state may be missing (inference, fine-tuning).  Nothing is set on failure. */
ZICO_NODISCARD zico_status zi_engine_load(zi_engine *e, const zi_checkpoint *c, bool all,
                                          zi_train_diag *diag);

/* Parameters and running statistics, held in private memory: to carry them from one engine to
 * another of the same network without both being there at once. */
typedef struct zi_snapshot zi_snapshot;
ZICO_NODISCARD zico_status zi_engine_take(zi_engine *e, zi_snapshot **ret_snapshot);
ZICO_NODISCARD zico_status zi_engine_put(zi_engine *e, const zi_snapshot *s,
                                         zi_train_diag *diag);
void                       zi_snapshot_free(zi_snapshot *s); /* NULL is fine */

/* ---- looking --------------------------------------------------------------------------------- */

typedef struct zi_engine_memory {
    uint64_t now_bytes;    /* leased, or held privately, at this moment */
    uint64_t peak_bytes;   /* highest so far                            */
    uint64_t budget_bytes; /* of the device or the pool; 0: none        */
    bool     shared;       /* a broker's                                */
} zi_engine_memory;
void zi_engine_read_memory(zi_engine *e, zi_engine_memory *ret_memory);

/* What the executor did in the last steps, as events of a trace, from process `process`. */
ZICO_NODISCARD zico_status zi_engine_trace(zi_engine *e, zi_trace *t, uint32_t process);

/* The network's tensors as the executor's door calls them: index of the input that is the
 * sample and of the label (ZI_ID_NONE: none), and what one sample is.  Pure. */
typedef struct zi_io {
    zi_tensor_id x, y;
    int64_t      batch;
    zi_data_want want;
} zi_io;
ZICO_NODISCARD zico_status zi_io_find(const zi_graph *g, zi_train_diag *diag,
                                      zi_io *ret_io);

#endif /* ZI_TRAIN_ENGINE_H */

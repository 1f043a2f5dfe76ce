/* exec/exec.h -- runs a graph on a device, step after step, as its plan says.
 *
 * THE ROOM
 *   An executor takes one finished graph (forward only, or with backward and update) and one
 *   plan, chooses kernels and layouts once, and from then on runs steps without allocating.
 *   All tensors lie where the plan's placement says: in slots, leased from a session (or from
 *   private memory without one).  oneDNN is named under exec/onednn only.
 *
 * A STEP     zi_exec_step copies the fed tensors, queues the step's work on a device stream
 *            and returns; at most `run_ahead` steps are under way.  Results are picked up
 *            later (zi_exec_result), so reading the loss does not drain the stream.
 * LAYOUTS    Inside, images lie in blocks of channels, and convolution weights as the kernels
 *            like them.  Everything that passes this door is in the graph's plain layout.
 * SAME BITS  For one thread count a step's result depends on parameters, state, feeds, lr and
 *            step number alone: not on the plan, the placement, or what ran before.
 * THREADS    One caller at a time, except zi_exec_result and zi_exec_n_done, safe from any.
 * LIFETIME   graph, plan, session and device outlive the executor.
 * NEXT       plan/plan.h (acts), exec/README.md, tier.h, onednn/.
 */
#ifndef ZI_EXEC_H
#define ZI_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "client/session.h"
#include "device/device.h"
#include "graph/graph.h"
#include "plan/plan.h"

#define ZI_EXEC_AHEAD_MAX 8u

typedef struct zi_exec zi_exec;
struct zi_tier; /* tier.h: where swapped-out tensors go */

typedef struct zi_exec_options {
    const zi_graph *graph;
    const zi_plan  *plan;      /* NULL: keep (made and owned by the executor)        */
    zi_session     *session;   /* NULL: private memory, no steps announced           */
    zi_device      *device;    /* NULL: the session's, else a host device of its own */
    unsigned        n_threads; /* 0: as many as the device has cores                 */
    unsigned        run_ahead; /* steps under way at most; 0: 2                      */
    uint64_t        seed;      /* for parameters that begin at random                */
    struct zi_tier *tier;      /* NULL: plans with `out` acts are refused            */
    /* With a tier: a plan (or keep) that needs more than this, or that is wrong, is followed as
     * far as it goes, and otherwise on demand (passive.h), within this.  0: it is refused. */
    uint64_t budget_bytes;
    bool     no_init;       /* leave PARAM and STATE as zero: all will be set     */
    bool     plain;         /* plain layouts and own kernels only (for comparing) */
    bool     watch;         /* look for values that are not finite after each node */
    uint64_t lease_wait_ns; /* longest wait for a lease; 0: no limit          */
} zi_exec_options;

/* Prepare.  `diag` (may be NULL) says what is wrong with which node. ZICO_E_BUDGET: a slot
 * can never be leased, or budget_bytes is less than the largest node needs. */
ZICO_NODISCARD zico_status zi_exec_new(const zi_exec_options *opt, zi_graph_diag *diag,
                                       zi_exec **ret_exec);
void                       zi_exec_free(zi_exec *e); /* drains first; NULL is fine */

/* What a graph needs before anything is allocated: sizes with padding, scratch of the kernels
 * that would be chosen, times as guessed.  For planning and for messages.  The cost is the
 * caller's (zi_cost_free). */
ZICO_NODISCARD zico_status zi_exec_cost(const zi_exec_options *opt, zi_graph_diag *diag,
                                        zi_cost **ret_cost);

/* ---- steps ------------------------------------------------------------------------ */

typedef struct zi_exec_feed {
    zi_tensor_id tensor; /* INPUT or LABEL, but for the scalars lr and step */
    const void  *data;   /* its plain bytes; copied before zi_exec_step returns */
} zi_exec_feed;

/* Queue one step.  Every INPUT and LABEL but lr and step must be fed, in any order; NULL data
 * leaves what the step before had.  `step` counts from 1 (Adam's correction, dropout).  Blocks
 * while run_ahead steps are under way, or, in a session, until the one before is over and the broker lets
 * this one go; feeds are copied before that.  A step in a session is told to be over by its stream.
 * ZICO_E_CANCELLED: a step before failed; zi_exec_result has its status.  ZICO_E_NOPLAN: the
 * session's limit changed while it waited; nothing was queued, take another plan or try again. */
ZICO_NODISCARD zico_status zi_exec_step(zi_exec *e, const zi_exec_feed *feeds,
                                        size_t n_feeds, float lr, uint64_t step);

typedef struct zi_exec_step_result {
    uint64_t     step;
    zico_status  status;       /* E_NAN: loss (or, watched, a tensor) is not finite */
    double       loss;         /* NAN without one */
    uint64_t     begin_ns, ns; /* device time, first to last kernel */
    uint64_t     busy_ns;      /* of these, kernels ran             */
    uint64_t     stall_ns;     /* of these, stood at waits of the plan */
    uint64_t     peak_bytes;   /* highest sum of slots open at once */
    bool         passive;      /* memory was short: some of it ran on demand */
    zi_tensor_id bad; /* first tensor that went bad; NONE: none, or not watched */
} zi_exec_step_result;

/* The oldest finished step that was not asked for yet.  With `wait`: of the oldest queued
 * step.  ZICO_E_NOTFOUND: there is none.  Up to 64 results wait here; older ones are lost. */
ZICO_NODISCARD zico_status zi_exec_result(zi_exec *e, bool wait,
                                          zi_exec_step_result *ret_result);
/* All queued steps are over, one that broke off, too; in a session they have been told to be. */
ZICO_NODISCARD zico_status zi_exec_drain(zi_exec *e);
bool     zi_exec_has_failed(const zi_exec *e); /* a step broke off in its middle */
bool     zi_exec_is_in_step(const zi_exec *e); /* ... as the broker sees it; else false */
uint64_t zi_exec_n_done(const zi_exec *e);     /* steps finished since _new */

/* From the next step on another plan (NULL: keep), within another budget (0: none); between
 * steps, and no bit of parameters and state changes.  On failure everything is as it was.
 * Outputs of the step before can be asked for no more, but in a session. */
ZICO_NODISCARD zico_status zi_exec_replan(zi_exec *e, const zi_plan *plan,
                                          uint64_t budget_bytes, zi_graph_diag *diag);
bool zi_exec_is_passive(const zi_exec *e); /* the plan was made on demand */

/* ---- out and in, between steps ------------------------------------------------------- */

/* Write all that lives on to `tier` (which keeps nothing else), and give every lease back.  From
 * then on only zi_exec_resume and zi_exec_free do anything; the rest is ZICO_E_STATE.  On failure
 * (no room in the tier: nothing was given back) the executor is as it was; ZICO_E_CORRUPT: it has
 * failed for good.  `cold`: the machine wants the pages, not another job.  Needs a session. */
ZICO_NODISCARD zico_status zi_exec_suspend(zi_exec *e, struct zi_tier *tier, bool cold,
                                           uint64_t *ret_out_bytes);
/* Lease again and read back; bit for bit as before, perhaps at other addresses.  On failure it
 * holds nothing and is still out. */
ZICO_NODISCARD zico_status zi_exec_resume(zi_exec *e);

/* ---- values, in plain layout ------------------------------------------------------- */

/* Of PARAM, STATE, INPUT, LABEL, the loss and the graph's outputs; drains.  Others have no
 * bytes between steps: ZICO_E_STATE.  n_bytes must be the tensor's (ZICO_E_SHAPE). */
ZICO_NODISCARD zico_status zi_exec_get(zi_exec *e, zi_tensor_id t, void *ret_data,
                                       size_t n_bytes);
/* Of PARAM and STATE; drains. */
ZICO_NODISCARD zico_status zi_exec_set(zi_exec *e, zi_tensor_id t, const void *data,
                                       size_t n_bytes);
/* Begin again: every PARAM and STATE as its init says, drawn from `seed`. */
ZICO_NODISCARD zico_status zi_exec_init(zi_exec *e, uint64_t seed);

/* ---- looking ------------------------------------------------------------------------ */

typedef struct zi_exec_memory {
    uint64_t fixed_bytes;     /* PARAM, STATE, INPUT, LABEL with padding            */
    uint64_t peak_live_bytes; /* of the plan, fixed ones too: no slots can be less  */
    uint64_t peak_slot_bytes; /* what is really taken at the peak, fixed ones too   */
    uint64_t outside_bytes;   /* staging of feeds and other private memory          */
    double   mean_ratio;      /* mean of slots open / mean of live bytes            */
} zi_exec_memory;

void zi_exec_read_memory(const zi_exec *e, zi_exec_memory *ret_memory);

/* Bytes, scratch and times as measured (mean of the steps since the last call of
 * zi_exec_forget_times; a guess for what has not run).  The caller's: zi_cost_free. */
ZICO_NODISCARD zico_status zi_exec_measured(zi_exec *e, zi_cost **ret_cost);
void                       zi_exec_forget_times(zi_exec *e);

/* One thing that happened on a stream, for timelines. */
typedef struct zi_exec_event {
    uint64_t    step;
    zi_act_kind kind;
    uint32_t    what; /* node or tensor, as in zi_act */
    uint64_t    begin_ns, end_ns;
} zi_exec_event;

/* The events of the last finished step (of up to two), oldest first; returns how many there
 * are, writes at most `cap`.  Drains. */
size_t zi_exec_events(zi_exec *e, zi_exec_event *ret_events, size_t cap);

const zi_plan  *zi_exec_plan(const zi_exec *e);
const zi_graph *zi_exec_graph(const zi_exec *e);
/* How the executor runs a node: "onednn:jit:avx512_core", "own:avx512". */
const char *zi_exec_kernel_text(const zi_exec *e, zi_node_id n);
/* Compute threads from the next step on: 1 or all. */
void zi_exec_set_threads(zi_exec *e, unsigned n_threads);

#endif /* ZI_EXEC_H */

/* train/pilot.h -- which plan a run follows, from its first step to its last.
 *
 * THE WAY   If doing nothing fits, nothing is done.  Otherwise planners that decide by times
 *           (capuchin, auto) first see a step: it runs on demand within the budget
 *           (exec/passive.h; one step to warm up, one that is measured), then they plan with
 *           its times and the tier's measured speeds, and the run goes on guided.  While copies
 *           in come late, they are moved forward by 5 % of their length a step (feedback).
 *           The other planners plan at once, with guesses.
 * CHANGES   In a broker's house people may change what a job is allowed (zico limit).  Between
 *           two steps the pilot notices, plans for the new budget, and tells the broker what
 *           steps take from now on.  A step in which memory ran short is answered in the
 *           same way.
 * WISHES    A broker may ask a job that has room for everything to take less, so that others can run
 *           beside it (zi_session_shrink).  Then it plans without copies, as others have the cores:
 *           for what was asked for, else for half way there, if that costs no more time than was
 *           said, else it stays; and it tells what it takes from now on, and what it likes best.
 * SAME BITS Nothing of this changes a bit of the result.
 * LEAST     Where no plan fits, the run stays on demand; where that does not fit either, the
 *           sentence says what the least is and which node is to blame.
 * THREADS   The caller of steps.
 */
#ifndef ZI_TRAIN_PILOT_H
#define ZI_TRAIN_PILOT_H

#include "exec/exec.h"
#include "exec/tier.h"
#include "train/diag.h"

typedef struct zi_pilot zi_pilot;

typedef struct zi_pilot_options {
    const zi_os    *os;
    const zi_graph *graph;
    int64_t         batch;        /* for sentences                                     */
    zi_session     *session;      /* NULL: private memory                              */
    bool            joined;       /* the session is a broker's: limits may change      */
    const char     *planner;      /* NULL: auto where there is a budget, else keep     */
    uint64_t        budget_bytes; /* 0: none but the session's                         */
    const char     *tier;         /* "file:DIR", "ram", "none"; NULL: a spill file     */
    unsigned        n_threads;
} zi_pilot_options;

/* The first plan: fills plan, tier and budget_bytes of *xo, which stay the pilot's; the pilot
 * outlives the executor.  ZICO_E_BUDGET: nothing fits, and the sentence says what would. */
ZICO_NODISCARD zico_status zi_pilot_new(const zi_pilot_options *opt, zi_exec_options *xo,
                                        zi_train_diag *diag, zi_pilot **ret_pilot);
void                       zi_pilot_free(zi_pilot *p); /* NULL is fine */

/* Before each step: perhaps another plan.  What goes wrong leaves the plan as it is. */
void zi_pilot_before_step(zi_pilot *p, zi_exec *e);
/* The part of it that follows people's limits and others' wishes; true: it looked for another plan. */
bool zi_pilot_follow_limit(zi_pilot *p, zi_exec *e);
/* Shown every result. */
void zi_pilot_see(zi_pilot *p, const zi_exec_step_result *r);

typedef enum zi_pilot_phase {
    ZI_PILOT_PLAIN,   /* doing nothing fits                  */
    ZI_PILOT_MEASURE, /* being measured, on demand           */
    ZI_PILOT_GUIDED,  /* a planner's plan                    */
    ZI_PILOT_PASSIVE, /* on demand: no planner's plan fits   */
} zi_pilot_phase;

typedef struct zi_pilot_info {
    zi_pilot_phase phase;
    char           planner[32];  /* whose plan it is: keep, passive, capuchin, ...  */
    uint64_t       budget_bytes; /* 0: none                                         */
    uint64_t       peak_bytes;   /* of the plan, placed; 0: keep without a budget   */
    uint64_t       foreseen_ns;  /* step time by the simulator; 0: unknown          */
    uint64_t       stall_ns;     /* of these, stands at copies                      */
    uint64_t       out_bytes, in_bytes; /* per step                                 */
    uint32_t       n_redo;
    uint64_t       plan_ns;         /* time spent planning, in all                  */
    uint32_t       n_plans;         /* changes of plan so far                       */
    uint32_t       n_feedback;      /* of these, because copies came late           */
    double         out_bps, in_bps; /* bytes a second of the tier, measured; 0: none */
    bool           extra_memory;    /* the tier is memory, too: beyond the budget   */
    char           note[200];       /* why the last change came, or failed; "": none */
} zi_pilot_info;

void zi_pilot_read(const zi_pilot *p, zi_pilot_info *ret_info);
/* What the tier has moved so far; zeroes without one. */
void zi_pilot_read_tier(const zi_pilot *p, zi_tier_stats *ret_stats);

/* What keep takes, placed: 100 % of --budget N%. */
ZICO_NODISCARD zico_status zi_pilot_keep_bytes(const zi_graph *g, unsigned n_threads,
                                               zi_train_diag *diag, uint64_t *ret_bytes);

#endif /* ZI_TRAIN_PILOT_H */

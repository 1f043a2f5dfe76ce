/* planner/draft.h -- what shall become of each tensor, and how that turns into a plan.
 *
 * A planner decides little: this tensor stays, that one is made again, that one goes out and
 * comes back.  Everything else follows, and is written here once: which nodes run again and
 * in which order, when bytes can be dropped, which output takes the place of which input,
 * when a copy must begin so that it is over in time and not before there is room for it.
 *
 *   fates --sequence--> nodes in order, some twice --liveness--> drops, in-place
 *         --clock, room--> out, in, wait --> plan
 *
 * RULES
 *   D1  A tensor leaves in every gap between two uses that is at least fate.gap_ns long and
 *       ends between to_first and to_last; all uses are counted in the graph's order and in
 *       computation time (start_ns).
 *   D2  Nodes run again only because an absent tensor is about to be read, and then in the
 *       graph's order.  Bytes that no act reads any more are dropped at once.
 *   D3  A fate that cannot be obeyed (not recomputable, or an updater of an input has run by
 *       then) is ignored: the tensor stays.  So any fates give a plan that obeys P1..P6.
 *   D4  With a budget, copies in begin late and drops after copies out come early enough to
 *       stay within it as far as the fates allow; whether the plan fits is for the checker.
 */
#ifndef ZI_PLANNER_DRAFT_H
#define ZI_PLANNER_DRAFT_H

#include "plan/plan.h"

typedef enum zi_fate_kind { ZI_FATE_KEEP, ZI_FATE_REDO, ZI_FATE_SWAP } zi_fate_kind;

typedef struct zi_fate {
    zi_fate_kind kind;
    bool         hold;   /* KEEP: also when nobody but redos read it any more */
    uint64_t     gap_ns; /* shortest gap in which it leaves; see D1                     */
    zi_node_id   to_first,
        to_last;        /* and only in gaps that end there; 0, 0: in all        */
    uint32_t   group;   /* REDO: members come back together; 0: each on its own        */
    bool       barrier; /* SWAP: goes out beside the last reader before the gap, and
                           * computation waits for it after that node                    */
    zi_node_id in_at;   /* SWAP: comes in before this node; NONE: as the clock says    */
    uint64_t   lead_ns; /* SWAP: comes in so much earlier than the clock says          */
} zi_fate;

typedef struct zi_draft {
    const zi_graph *g;
    const zi_cost  *c;
    zi_tensor_id   *root;   /* [n_tensors]                                           */
    uint32_t   *use_first;  /* [n_tensors+1] of a root: where its uses begin          */
    zi_node_id *uses;       /* producer first, then readers of it or of its views     */
    uint64_t   *start_ns;   /* [n_nodes+1] when a node starts if only computation ran */
    zi_node_id *redo_until; /* [n_nodes] last node before which it may run again      */
    bool       *lives_on;   /* [n_tensors] of a root: it or a view stays to the end   */
    bool       *fixed;      /* [n_tensors] never leaves its place                     */
    zi_fate    *fate;       /* [n_tensors] what planners write; read for roots        */
    uint64_t
        collect_ns; /* what a chain of redos makes beside its target stays if it is used
                          * within this time; 0: never, UINT64_MAX: always                */
    const uint32_t *border; /* [n_tensors] 1 + the cut that a root crosses, 0: none; a
                             * chain then leaves the middle of its way at hand, the middle
                             * of the rest, ...  NULL: it does not                     */
    bool early_out; /* copies out begin when the tensor is made, not when it leaves  */
    bool on_demand; /* copies in begin when the tensor is needed, not before         */
    uint32_t     *seen; /* [n_tensors] zi_draft_redo_cost's own */
    uint32_t      n_seen;
    zi_tensor_id *stack; /* [n_tensors] the same */
} zi_draft;

ZICO_NODISCARD zico_status zi_draft_new(const zi_graph *g, const zi_cost *c,
                                        zi_draft **ret_draft); /* all tensors stay */
void                       zi_draft_free(zi_draft *d);         /* NULL is fine */
void                       zi_draft_reset(zi_draft *d); /* all tensors stay again */

/* -- asking ------------------------------------------------------------------------------ */

/* A root with bytes, made in the step, and not wanted at its end. */
bool zi_draft_may_leave(const zi_draft *d, zi_tensor_id t);
/* may_leave, and its producer may run again at the first use after the longest gap. */
bool zi_draft_may_redo(const zi_draft *d, zi_tensor_id t);

typedef struct zi_gap {
    zi_node_id from, to; /* the use before and the use after; NONE: there is no gap */
    uint64_t   begin_ns,
        end_ns; /* from's end, to's start                                 */
} zi_gap;

zi_gap   zi_draft_longest_gap(const zi_draft *d, zi_tensor_id t);
uint64_t zi_draft_out_ns(const zi_draft *d, zi_tensor_id t);
uint64_t zi_draft_in_ns(const zi_draft *d, zi_tensor_id t);
bool     zi_draft_has_tier(const zi_draft *d);

/* The gap between its last forward and its first backward use. */
zi_gap zi_draft_turn_gap(const zi_draft *d, zi_tensor_id t);

/* Leave in this gap only, if that is possible at all. */
void zi_draft_leave_in(zi_draft *d, zi_tensor_id t, zi_fate_kind kind, zi_gap gap);

/* Would the root leave in the gap between these two uses? */
bool zi_draft_leaves(const zi_draft *d, zi_tensor_id t, zi_node_id from, zi_node_id to);

/* Leave in the longest gap, and in equals: the usual fates. */
void zi_draft_redo(zi_draft *d, zi_tensor_id t);
void zi_draft_swap(zi_draft *d, zi_tensor_id t);

/* Nodes that would run again if t came back by redo before node `at`, given all fates, and
 * their time; false: it cannot, or more than `cap` nodes would.  ret_sources (may be NULL,
 * else room for `cap` roots) takes the present roots that they read. */
typedef struct zi_redo_cost {
    uint64_t ns;
    uint32_t n_nodes, n_sources;
    bool     heavy; /* a HEAVY node is among them */
} zi_redo_cost;
bool zi_draft_redo_cost(zi_draft *d, zi_tensor_id t, zi_node_id at, uint32_t cap,
                        zi_tensor_id *ret_sources, zi_redo_cost *ret_cost);

/* -- turning into plans ------------------------------------------------------------------ */

/* budget 0: no limit.  The plan obeys P1..P6.  ZICO_E_LIMIT: nodes would run so often again that
 * nobody wants the plan. */
ZICO_NODISCARD zico_status zi_draft_lower(zi_draft *d, const char *planner,
                                          uint64_t budget_bytes, zi_plan **ret_plan);

typedef struct zi_trial {
    zi_plan    *plan; /* owned */
    zi_forecast forecast;
    bool        fits; /* peak within the budget */
} zi_trial;

/* Lower, check, simulate.  A plan that the checker refuses for another reason than its peak
 * is our own bug: it asserts. */
ZICO_NODISCARD zico_status zi_draft_try(zi_draft *d, const char *planner,
                                        uint64_t budget_bytes, zi_trial *ret_trial);
/* One that fits, then the faster; of two that do not fit the smaller. */
bool zi_trial_is_better(const zi_trial *a, const zi_trial *b);
/* Keep the better of two trials in *best: one that fits, then the faster; of two that do not
 * fit the smaller.  Frees the other.  Returns whether `other` has won. */
bool zi_trial_keep_better(zi_trial *best, zi_trial *other);

/* Hand out a trial's plan, or say E_NOPLAN and how small it got.  Frees the trial's plan. */
zico_status zi_trial_finish(zi_trial *t, zi_plan **ret_plan, uint64_t *ret_least);

#endif /* ZI_PLANNER_DRAFT_H */

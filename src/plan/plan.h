/* plan/plan.h -- what one job does in one step, as data.
 *
 * THE ROOM
 *   A plan is an ordered list of acts over a graph: run this node, drop that tensor, run a
 *   node again, move a tensor out and back.  Planners (one file per paper) write plans,
 *   executors obey them, and between the two stands a checker that knows neither: it
 *   replays each plan act by act (plan_check.c).  Pure: no clock, no I/O; same input, same plan.
 *
 * ACTS  (t is always a *root*: the tensor that owns the bytes; its views come and go with it)
 *   run n      node n, once per step, in the graph's order or any other topological one
 *   redo n     node n again: makes those of its outputs that are absent (present ones are
 *              written again with the same bits); only ops with ZI_OPF_RECOMPUTE, and only
 *              before an updater of one of its inputs has run
 *   drop t     the bytes of t are free
 *   out t      begin copying t to the tier, beside the computation; t stays readable
 *   in t       make room for t and begin copying it back; readable after wait t
 *   wait t     computation stands until the copy of t, out or in, has ended
 *   encode t   keep t in a codec's form: the encoded bytes take the place of the plain ones
 *   decode t   the plain form again; the encoded one ends
 *
 *   Computation never waits except at `wait`.  Between `out t` and `drop t` there must be a
 *   `wait t`.  A node with `over` bit k set writes its output over the input named by pair k
 *   of zi_op_info.over: the input's root ends, the output takes its bytes.
 *
 * MEMORY  counted by the checker: fixed bytes (PARAM, STATE, INPUT, LABEL) throughout; bytes
 *   of every present root; of every root on its way in; scratch of a node while it runs.
 *   Sizes come from zi_cost (padding included), not from the graph.
 *
 * INVARIANTS (zi_plan_check names the first act that breaks one)
 *   P1  every node runs exactly once, after its inputs' producers
 *   P2  every input is present (root present, no copy in under way) when read
 *   P3  nothing that is absent is dropped, moved or overwritten; nothing present is brought in
 *   P4  only what has been moved out is brought in; out copies are complete before drop
 *   P5  redo obeys the rules above; STATEFUL nodes never run twice
 *   P6  tensors that live on (loss, outputs) are present at the end, and no copy is under way
 *   P7  the peak stays within the budget
 *   P8  with a placement: tensors present at the same time do not overlap, and each lies in a
 *       slot that is open for as long as the tensor is there
 * NEXT    cost.c, plan_check.c, simulate.c, place.c, keep.c; planner/planner.h; exec/.
 */
#ifndef ZI_PLAN_H
#define ZI_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/graph.h"
#include "zico/status.h"

typedef enum zi_act_kind {
    ZI_ACT_RUN,
    ZI_ACT_REDO,
    ZI_ACT_DROP,
    ZI_ACT_OUT,
    ZI_ACT_IN,
    ZI_ACT_WAIT,
    ZI_ACT_ENCODE,
    ZI_ACT_DECODE,
    ZI_ACT_COUNT
} zi_act_kind;

typedef struct zi_act {
    zi_act_kind kind;
    uint32_t    what;  /* RUN, REDO: node; the others: tensor              */
    uint8_t     over;  /* RUN, REDO: which pairs of zi_op_info.over to use */
    uint8_t     codec; /* ENCODE, DECODE                                   */
} zi_act;

/* A slot is a piece of leased memory with a life of its own: the executor takes a lease for it
 * before act `first` and gives it back after act `last`.  Slots are multiples of the region
 * size and are never adjacent to each other: a tensor lies within one. */
typedef struct zi_slot {
    uint64_t size_bytes;
    uint32_t first, last; /* acts; a fixed slot has first = 0, last = UINT32_MAX */
    bool     fixed; /* holds PARAM, STATE, INPUT, LABEL: leased until the job ends */
} zi_slot;

/* Where the bytes of one coming-into-being of a tensor lie. */
typedef struct zi_place {
    uint32_t     act;    /* the act that makes it (RUN, REDO, IN); UINT32_MAX: fixed */
    zi_tensor_id tensor; /* root; ZI_ID_NONE: the scratch of the act's node          */
    uint32_t     slot;
    uint64_t     offset; /* inside the slot */
} zi_place;

typedef struct zi_plan {
    char     *planner; /* who made it */
    uint32_t  n_acts, cap_acts;
    zi_act   *acts;
    uint64_t  region_bytes; /* 0: no placement attached */
    uint32_t  n_slots;
    zi_slot  *slots; /* fixed ones first, then ascending by `first` */
    uint32_t  n_places;
    zi_place *places; /* fixed ones first, then ascending by act */
} zi_plan;

/* -- costs: what a node and a copy take; measured by exec, or made up by tests ---------- */

typedef struct zi_cost {
    uint32_t  n_nodes, n_tensors;
    uint64_t *node_ns;       /* [n_nodes]                                            */
    uint64_t *scratch_bytes; /* [n_nodes]                                            */
    uint64_t *tensor_bytes;  /* [n_tensors] with padding; read for roots only        */
    double    out_bytes_per_s, in_bytes_per_s; /* of the tier; 0: there is none      */
    double    out_beside, in_beside; /* part of that which is left while a copy the other
                                      * way is under way; 0: all of it               */
    uint64_t  copy_latency_ns;       /* per copy, each direction           */
    uint64_t  copy_cpu_ns; /* by which a copy holds computation up, either way: a thread
                            * that copies wants a core, too                          */
    uint64_t  tier_bytes;  /* room in the tier; UINT64_MAX: plenty                    */
} zi_cost;

ZICO_NODISCARD zico_status zi_cost_new(const zi_graph *g,
                                       zi_cost       **ret_cost); /* all zero */
/* Bytes from the graph, time from a rough model (HEAVY ops by arithmetic, others by bytes):
 * for tests, and for planning before anything was measured. */
ZICO_NODISCARD zico_status zi_cost_guess(const zi_graph *g, zi_cost **ret_cost);
/* The bytes of `c`, times as guessed: the same on every machine and in every mood.  If `c` has a tier
 * there is one with the same room; `instant`: its copies take no time. */
ZICO_NODISCARD zico_status zi_cost_plain(const zi_graph *g, const zi_cost *c,
                                         bool instant, zi_cost **ret_cost);
void                       zi_cost_free(zi_cost *c); /* NULL is fine */
uint64_t                   zi_cost_fixed_bytes(const zi_graph *g, const zi_cost *c);

/* -- making ------------------------------------------------------------------------------ */

ZICO_NODISCARD zico_status zi_plan_new(const char *planner, zi_plan **ret_plan);
void                       zi_plan_free(zi_plan *p); /* NULL is fine */
/* Of a placed plan: its slots that stay from step to step, which come first. */
uint64_t                   zi_plan_fixed_bytes(const zi_plan *p);
ZICO_NODISCARD zico_status zi_plan_add(zi_plan *p, zi_act act);

/* Which root owns the bytes of each tensor: itself, or the end of its chain of views. */
void zi_plan_roots(const zi_graph *g, zi_tensor_id *ret_root /* [n_tensors] */);

/* The named baselines.  keep: graph order, each root dropped after its last use, outputs over
 * dying inputs where the op allows it.  keep-all: nothing dropped before the step ends. */
ZICO_NODISCARD zico_status zi_plan_keep(const zi_graph *g, const zi_cost *c,
                                        zi_plan **ret_plan);
ZICO_NODISCARD zico_status zi_plan_keep_all(const zi_graph *g, const zi_cost *c,
                                            zi_plan **ret_plan);

/* -- judging ------------------------------------------------------------------------------ */

typedef struct zi_verdict { /* filled on failure, too */
    uint64_t peak_bytes;    /* highest point of the replay, fixed bytes included */
    uint64_t fixed_bytes;
    uint32_t peak_act;
    uint32_t bad_act; /* first act that breaks a rule; UINT32_MAX: none */
    int      rule;    /* 1..8 of P1..P8; 0: none                        */
    uint64_t redo_ns; /* node time spent again                          */
    uint32_t n_redo;
    uint64_t out_bytes, in_bytes;
    char     text[256]; /* the broken rule in words, with names */
} zi_verdict;

/* Trusts nobody.  ZICO_OK: P1..P8 hold.  ZICO_E_NOPLAN: the verdict says where it first went
 * wrong; peak_bytes is then the peak up to there.  budget 0: no limit. */
ZICO_NODISCARD zico_status zi_plan_check(const zi_plan *plan, const zi_graph *graph,
                                         const zi_cost *cost, uint64_t budget_bytes,
                                         zi_verdict *ret_verdict);

/* -- foreseeing --------------------------------------------------------------------------- */

typedef struct zi_forecast {
    uint64_t step_ns;  /* from the first act to the end of the last, copies included */
    uint64_t busy_ns;  /* computation                                                */
    uint64_t stall_ns; /* computation stood at waits                                 */
    uint64_t out_ns, in_ns; /* copies were under way                                   */
    uint64_t peak_bytes; /* as the checker's                                           */
    uint64_t mean_bytes; /* time-weighted                                              */
} zi_forecast;

/* Three queues: computation, copies out, copies in, each in order; a copy starts when its
 * queue is free and its act has been reached, is slower beside one the other way, and takes
 * computation a moment.  `ret_end_ns` (may be NULL) takes the time at
 * which each act is over.  The plan must be valid. */
ZICO_NODISCARD zico_status zi_plan_simulate(const zi_plan *plan, const zi_graph *graph,
                                            const zi_cost *cost, uint64_t *ret_end_ns,
                                            zi_forecast *ret_forecast);

/* -- placing ------------------------------------------------------------------------------ */

typedef struct zi_place_stats {
    uint64_t peak_slot_bytes; /* highest sum of slots open at one act                */
    uint64_t peak_live_bytes; /* highest sum of tensors: the lower bound             */
    double   mean_ratio;      /* mean slot bytes / mean live bytes, by time or by act */
} zi_place_stats;

/* Give every coming-into-being a (slot, offset): fewest slot bytes at the peak first, then
 * slot bytes x time, so that regions go back early.  region_bytes 0: nobody wants regions back;
 * one slot for fixed tensors and one, open throughout, for all others.  Replaces a placement
 * that is there. */
ZICO_NODISCARD zico_status zi_plan_place(zi_plan *plan, const zi_graph *graph,
                                         const zi_cost *cost, uint64_t region_bytes,
                                         uint64_t align, zi_place_stats *ret_stats);

/* -- text form ---------------------------------------------------------------------------- */

/* One act per line, nodes and tensors by name; diffs well.  The string is the caller's to
 * free(). */
ZICO_NODISCARD zico_status zi_plan_print(const zi_plan *p, const zi_graph *g,
                                         char **ret_text);
ZICO_NODISCARD zico_status zi_plan_parse(const char *text, size_t n_bytes,
                                         const zi_graph *g, zi_graph_diag *diag,
                                         zi_plan **ret_plan);

#endif /* ZI_PLAN_H */

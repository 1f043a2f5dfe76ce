/* policy/desk.h -- where requests arrive and decisions leave; used by broker and simulator.
 *
 * THE PLACE
 *   The desk owns a ledger and a policy.  Each call hands in one thing that happened,
 *   with its time; what should be done about it comes out as *effects*, in order.  The
 *   broker turns effects into messages, the simulator into virtual events: both run
 *   exactly this code.  Pure: no clock, no I/O.
 *
 *   event -> ledger (books it) -> policy (proposes) -> banker + ledger (check) -> effects
 *
 * WHAT THE DESK ITSELF ENSURES, whatever the policy says
 *   D1  R1: nothing is granted that the ledger refuses
 *   D2  R3: nothing is granted, started or raised into an unsafe state (banker.h)
 *   D3  requests are served in arrival order as far as D1 and D2 allow; one that has waited
 *       longer than ZI_DESK_AGE_NS blocks younger ones that compete with it (ageing)
 *   D4  a job is never left waiting without a reason that status can show
 *   D5  the ladder when a request of a running job cannot be granted: wait; recall regions
 *       taken ahead; suspend a native job that can; at last refuse the job that exceeded
 *       its claim (DENY with E_NOMEM), never another
 *   D6  a job that cannot fit even alone is told so at once, with numbers
 *   D7  a device on which nobody runs while somebody asks is not left idle: if the policy
 *       starts nobody and has set no timer, the desk starts the oldest asker that is safe
 *
 * ANSWERS  Each request (ask, raise, step_ask) is answered by effects only: GRANT, DENY or GO
 *   with its seq, WAITs before.  A call's own status speaks of the call (E_ARG: no such job,
 *   E_STATE, E_NOMEM: nothing was booked), never of the request.
 * AHEAD    A request taken ahead never waits: granted in part, or DENY with E_BUSY.
 * NEXT   broker/broker.c, sim/sim.c.
 */
#ifndef ZI_POLICY_DESK_H
#define ZI_POLICY_DESK_H

#include "ledger/ledger.h"
#include "policy/policy.h"

#define ZI_DESK_AGE_NS 200000000ull /* 0.2 s */

typedef struct zi_desk zi_desk;

typedef struct zi_desk_options {
    zi_ledger_shape shape;
    uint32_t        n_cores;
    const char     *policy; /* "zico", "salus:srtf", ... */
    uint64_t        seed;
} zi_desk_options;

typedef struct zi_job_spec {
    zi_job_limits  limits;
    uint64_t       claim_bytes; /* 0: to be learnt */
    uint32_t       weight_milli;
    uint64_t       steps_total;
    uint64_t       latency_ns;
    uint64_t       features; /* ZI_FEATURE_* */
    zi_core_mode   core_mode;
    uint32_t       cores;
    uint64_t       shape;      /* hash of the shape key; 0: none */
    const zi_tide *known_tide; /* stored from an earlier run of this shape; NULL: none */
    uint64_t
        step_claim_bytes; /* adopt: of the step under way; 0: as known, else what it holds */
} zi_job_spec;

typedef enum zi_effect_kind {
    ZI_EFFECT_GRANT, /* job, seq, hold, value: bytes; grant (runs and punches; punch first),
                        NULL for a raise */
    ZI_EFFECT_DENY, /* job, seq, status, asked, had                           */
    ZI_EFFECT_WAIT, /* job, seq, reason, position, behind: (new) reason to wait; seq 0: the step */
    ZI_EFFECT_GO,      /* job, seq, value: cores                                 */
    ZI_EFFECT_CORES,   /* job, value                                             */
    ZI_EFFECT_RECALL,  /* job, value: regions                                    */
    ZI_EFFECT_SUSPEND, /* job; value: 1: for the machine, not for another job */
    ZI_EFFECT_RESUME,  /* job */
    ZI_EFFECT_SHRINK,  /* job, value: bytes, 0: as it likes; cost_milli */
    ZI_EFFECT_PUNCH,   /* grant.punch only                                       */
    ZI_EFFECT_WAKE_AT, /* value: call zi_desk_tick then                          */
} zi_effect_kind;

typedef struct zi_effect {
    zi_effect_kind  kind;
    zi_job_id       job;
    uint32_t        seq;
    zico_status     status;
    zi_reason       reason;
    uint32_t        position;
    zi_job_id       behind;
    uint64_t        value;
    uint32_t        cost_milli; /* SHRINK: of its time, at most */
    uint32_t        first_core; /* GO, CORES: of `value` cores in a row */
    uint64_t        asked_bytes;
    uint64_t        had_bytes;
    zi_hold         hold;
    const zi_grant *grant; /* valid until the next zi_desk_next */
} zi_effect;

zico_status zi_desk_new(const zi_desk_options *opt, zi_desk **ret_desk);
void        zi_desk_free(zi_desk *d); /* NULL is fine */

/* -- what happened ----------------------------------------------------------------------- */
/* E_BUDGET: can never fit (had_bytes tells what there is); E_LIMIT: no row free. */
zico_status
zi_desk_join(zi_desk *d, const zi_job_spec *spec, uint64_t now_ns, zi_job_id *ret_job);
zico_status zi_desk_leave(zi_desk *d, zi_job_id job, uint64_t now_ns);
/* The program of `job` was started by that of `maker`, which may wait for it in the middle of a step. */
void        zi_desk_set_maker(zi_desk *d, zi_job_id job, zi_job_id maker);
zico_status zi_desk_step_ask(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t step_no,
                             uint64_t now_ns);
/* `observed` may be NULL (no tide measured). */
zico_status
zi_desk_step_end(zi_desk *d, zi_job_id job, uint64_t step_no, const zi_tide *observed,
                 uint64_t busy_ns, uint64_t stall_ns, uint64_t now_ns);
/* What a job's steps take from now on. */
typedef struct zi_job_plan {
    uint64_t step_bytes;
    uint64_t full_bytes; /* as it likes best: it answers SHRINK; 0: it does not */
    uint32_t cost_milli; /* of the time that it takes then */
} zi_job_plan;

/* Between steps: the job has planned anew; if that is another plan than before, what was learnt of
 * its steps is forgotten.  E_STATE: it is inside one. */
zico_status
zi_desk_planned(zi_desk *d, zi_job_id job, const zi_job_plan *plan, uint64_t now_ns);
/* req: job, seq, hold, n_regions / size_bytes, adjacent, ahead, deadline_ns are read. */
zico_status zi_desk_ask(zi_desk *d, const zi_request *req, uint64_t now_ns);
zico_status zi_desk_raise(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t claim_bytes,
                          uint64_t now_ns);
/* Of a request that waits, or of a step that was let go: the job did not hear of it, and the step
 * does not begin. */
zico_status zi_desk_cancel(zi_desk *d, zi_job_id job, uint32_t seq, uint64_t now_ns);
zico_status zi_desk_return(zi_desk *d, zi_job_id job, const zi_run *runs, size_t n_runs,
                           uint64_t now_ns);
zico_status
zi_desk_uncharge(zi_desk *d, zi_job_id job, uint64_t size_bytes, uint64_t now_ns);
zico_status
zi_desk_suspended(zi_desk *d, zi_job_id job, zico_status outcome, uint64_t now_ns);
zico_status zi_desk_tick(zi_desk *d, uint64_t now_ns); /* deadlines, ageing, timers */

/* -- what people want --------------------------------------------------------------------- */
zico_status zi_desk_set_budget(zi_desk *d, uint64_t budget_bytes,
                               uint64_t now_ns); /* as the ledger's */
zico_status zi_desk_set_limits(zi_desk *d, zi_job_id job, const zi_job_limits *limits,
                               uint32_t weight_milli, uint64_t now_ns);
zico_status zi_desk_control(zi_desk *d, zi_job_id job, zi_control verb, uint64_t now_ns);

/* -- a restart: rebuild before anything is granted ------------------------------------------
 * zi_desk_hold(true); zi_desk_adopt for each job; zi_ledger_adopt_* on zi_desk_ledger(d) for
 * what each holds; zi_desk_hold(false).  spec->claim_bytes should carry the claim that the view
 * showed before the restart: a step under way whose claim nobody knows is taken to need
 * no more than it holds, and each further request of it is a raise. */
zico_status zi_desk_adopt(zi_desk *d, zi_job_id job, const zi_job_spec *spec,
                          bool in_step, uint64_t step_no, uint64_t now_ns);
/* Holds all grants and starts (reason REJOIN) until it is called with false. */
void zi_desk_hold(zi_desk *d, bool hold, uint64_t now_ns);

/* -- what to do: call until it returns false ------------------------------------------------ */
bool zi_desk_next(zi_desk *d, zi_effect *ret_effect);

/* -- looking ------------------------------------------------------------------------------- */
zi_ledger     *zi_desk_ledger(zi_desk *d);
const zi_view *zi_desk_view(zi_desk *d); /* valid until the next call  */
const zi_job_view *
zi_desk_job(zi_desk *d, zi_job_id job); /* NULL: no such job          */
/* Why the job waits (NONE if it does not), since when, for how much, in which place. */
typedef struct zi_waiting {
    zi_reason reason;
    zi_job_id behind;
    uint64_t  since_ns;
    uint64_t  asked_bytes;
    uint32_t  position;
    uint64_t  waited_ns;       /* in all, over its life */
    uint64_t  exchanged_bytes; /* returned within steps, over its life */
    int64_t   lane;
} zi_waiting;
void zi_desk_waiting(zi_desk *d, zi_job_id job, zi_waiting *ret_waiting);
/* What the policy makes of the jobs at present, a line for people; "" if it has nothing to say. */
void zi_desk_explain(const zi_desk *d, char *ret_text, size_t size);
/* 1 to 7: the ledger's.  8: views disagree with it.  9: D4.  10: D2. */
zico_status zi_desk_verify(zi_desk *d, int *ret_invariant);

#endif /* ZI_POLICY_DESK_H */

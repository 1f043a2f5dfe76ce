/* policy/desk_private.h -- the desk's insides, shared by its files.
 *
 *   desk.c          jobs come, go, are limited, paused, adopted; looking
 *   desk_steps.c    steps: asking, going, ending, learning alone
 *   desk_pace.c     how far each job has come in its step
 *   desk_cores.c    how many cores a job has, and which
 *   desk_claims.c   claims, room, the banker's table
 *   desk_queue.c    requests: asking, judging, serving in order, raising
 *   desk_ladder.c   when waiting is not enough: recall, suspend, refuse
 *   desk_settle.c   after each call: ask the policy, serve, say why others wait
 *   desk_effects.c  the queue of effects
 */
#ifndef ZI_POLICY_DESK_PRIVATE_H
#define ZI_POLICY_DESK_PRIVATE_H

#include "policy/banker.h"
#include "policy/desk.h"

#define ZI_DESK_PATIENCE_NS                                                              \
    1000000000ull /* before a request beyond the claim is refused */
#define ZI_DESK_HANG_NS    5000000000ull /* a job that does nothing for so long ...      */
#define ZI_DESK_HANG_STEPS 4u         /* ... and for so many of its steps, hangs      */
#define ZI_DESK_LEAD_NS    3000000ull /* a native job has work queued for about so long */
#define ZI_DESK_TELL_NS    100000000ull /* between two WAITs that differ in place only  */
#define ZI_DESK_EVENTS_MAX 1024u
#define ZI_NEVER           UINT64_MAX

/* Why one thing waits, and what was told about it. */
typedef struct zi_desk_wait {
    uint64_t  id; /* the request; 0: slot not in use */
    zi_reason reason;
    zi_reason told; /* NONE: nothing yet */
    zi_job_id behind;
    uint32_t  position;
    uint32_t  told_position;
    uint64_t  told_ns;
    bool      stalls; /* its job stands still by it */
} zi_desk_wait;

typedef struct zi_desk_row {
    bool              live;
    size_t            at; /* place in d->job */
    zi_job_spec       spec;
    zi_tide_learner  *learner;
    zi_tide_recorder *rec;
    uint64_t worst_bytes; /* most step bytes held in a step so far; 0: none seen */
    uint64_t last_peak_bytes;
    uint64_t stays_bytes;     /* held or guaranteed when its present step has ended */
    uint64_t most_bytes;      /* most that it held at all, in steps that have ended */
    uint64_t step_most_bytes; /* ... in the present one */
    uint32_t n_usual;         /* steps in a row that held no more than was known */

    bool     asked, in_step;
    uint32_t step_seq;
    uint64_t step_claim_bytes; /* of the present step */
    uint64_t step_peak_bytes;
    double   clock_ns;    /* solo time of the present step that should be done ... */
    double   beside_ns;   /* ... of it beside others */
    double   slowed;      /* by each of them, of its solo time */
    bool     alone;       /* nobody else was inside a step since this one began */
    uint32_t n_measured;  /* of its first steps: alone, with all cores */
    bool     all_cores;   /* ... and it had all of them */
    uint32_t n_ahead;     /* regions taken ahead, not recalled */
    uint64_t recalled_ns; /* when it was last asked for what it keeps and does not use */
    bool     sunk;        /* its claim is lower than when the step began */
    uint32_t sink_parts;  /* room left above a sunk claim, in SINK_PARTS of the peak */
    uint64_t sink_good;   /* steps in a row that kept to it */
    bool     sink_astray; /* ... the present one did not */

    bool     paused, suspend_wanted, leaving, suspended, by_ladder;
    uint64_t kept_ns;   /* since when it is paused or out; as status shows it */
    bool     adopted;   /* after a restart, until its next step begins */
    bool     returning; /* from a suspension, until a step begins or it is out again */
    uint64_t out_bytes; /* what it moved out, as the ledger knew it; 0: unknown */
    bool broken_off;    /* refused memory inside a step: what ends now is a part of one */
    uint64_t
        aside_bytes; /* moved out in the middle of a step and counted as private since: it
                           * needs so much less for the rest, and has it no longer after that */
    uint64_t      usual_bytes; /* private and fixed ones before it did so */
    bool          limits_wait;
    zi_job_limits limits_next;

    uint32_t raise_seq; /* 0: none */
    uint64_t raise_bytes, raise_ns;

    zi_reason    policy_reason;
    zi_job_id    policy_behind;
    zi_desk_wait step_wait, raise_wait;
    zi_desk_wait wait[ZI_LEDGER_REQS_PER_JOB];
    unsigned     n_waits;       /* slots of `wait` in use */
    uint64_t     wait_since_ns; /* ZI_NEVER: does not wait */
    uint64_t     waited_ns;
    uint32_t  n_unlearnt; /* steps in a row that we stalled and therefore did not learn */
    uint64_t  step_waited_ns; /* waited_ns when the step began */
    uint64_t  exchanged_bytes;
    int64_t   lane;
    uint32_t  first_core; /* of those that it was told last */
    zi_job_id maker;      /* the job that has started this one's program; NONE: none */
} zi_desk_row;

typedef struct zi_desk_stored { /* an effect whose runs lie in d->runs */
    zi_effect e;
    bool      has_grant;
    size_t    first_run, n_runs, n_punch;
} zi_desk_stored;

typedef struct zi_desk_event {
    zi_event  ev;
    zi_job_id job; /* rows stay, places in the view move */
} zi_desk_event;

struct zi_desk {
    uint32_t             n_cores;
    const zi_policy_ops *policy;
    void                *policy_state;
    zi_ledger           *ledger;
    uint64_t             now_ns;
    bool                 hold;

    zi_desk_row *row; /* [ZI_LEDGER_JOBS_MAX], by zi_job_id */
    zi_job_view *job; /* [n_jobs], in the order of joining  */
    size_t       n_jobs;
    zi_view      view;
    zi_out       out;

    size_t        n_events, first_event;
    zi_desk_event event[ZI_DESK_EVENTS_MAX];

    zi_desk_stored *effect;
    size_t          n_effects, first_effect, cap_effects;
    zi_run         *runs;
    size_t          n_runs, cap_runs;
    zi_grant        grant; /* filled by the ledger */
    zi_grant        shown; /* handed out by zi_desk_next */

    /* sums, fresh after zi_desk_refresh */
    uint64_t
        permanent_bytes; /* sum of `stays`: what is left when all present steps end */
    uint64_t target_bytes, budget_bytes, free_bytes;
    uint64_t spare_bytes; /* free and not guaranteed to anybody       */
    uint64_t
           need_most_bytes; /* largest known need of any job beyond what stays with it */
    size_t n_in_step;
    zi_job_id learner_in_step, learner_asking, hung, aged, biggest;

    bool            table_fresh;
    uint64_t        n_in_turn;   /* steps since two were inside one at a time */
    bool            fresh;       /* nothing has changed since zi_desk_refresh */
    uint64_t        hang_due_ns; /* ... and nobody hangs before this passes    */
    zi_banker       table;       /* jobs inside a step that can go on by themselves */
    zi_banker_job   table_job[ZI_LEDGER_JOBS_MAX];
    zi_banker_entry table_entry[ZI_LEDGER_JOBS_MAX];
    bool            somebody_stuck;
    zi_banker       table_all; /* with those that cannot; filled if there are any */
    zi_banker_entry table_all_entry[ZI_LEDGER_JOBS_MAX];

    uint64_t policy_wake_ns, told_wake_ns;
    uint64_t unable_ns; /* since when nobody can do anything; 0: somebody can */
};

static inline zi_job_view *
zi_desk_view_of(zi_desk *d, zi_job_id job)
{
    return &d->job[d->row[job].at];
}

static inline bool
zi_desk_is_live(const zi_desk *d, zi_job_id job)
{
    return job < ZI_LEDGER_JOBS_MAX && d->row[job].live;
}

/* -- desk_effects.c ---------------------------------------------------------------------- */
/* Room for one more effect with the largest grant; nothing is booked without it. */
zico_status zi_desk_reserve(zi_desk *d);
/* grant: NULL, or d->grant as the ledger filled it.  Needs a reservation. */
void zi_desk_emit(zi_desk *d, const zi_effect *e, const zi_grant *grant);
void zi_desk_emit_punches(zi_desk *d); /* those of d->grant, if any */
void zi_desk_deny(zi_desk *d, zi_job_id job, uint32_t seq, zico_status why,
                  uint64_t asked_bytes, uint64_t had_bytes, zi_hold hold);

/* -- desk_pace.c ------------------------------------------------------------------------- */
/* Time goes on, also for each job inside a step. */
void zi_desk_now(zi_desk *d, uint64_t now_ns);
void zi_desk_pace_new(zi_desk_row *j);
void zi_desk_pace_begin(zi_desk_row *j, zi_job_view *v);
/* A whole step has ended: what did its neighbours cost it? */
void zi_desk_pace_end(zi_desk_row *j, const zi_job_view *v);

/* -- desk_cores.c ------------------------------------------------------------------------ */
/* The policy's word; a job inside a step is told at once if it can be. */
void zi_desk_set_cores(zi_desk *d, zi_job_view *v, uint64_t cores);
/* Chooses its first core, for as many as it has now. */
void zi_desk_place(zi_desk *d, const zi_job_view *v);

/* -- desk_claims.c ----------------------------------------------------------------------- */
/* Brings views and sums up to date with the ledger. */
void zi_desk_refresh(zi_desk *d);
/* The same where nothing may have changed since: who changes something marks it. */
void zi_desk_refresh_if_stale(zi_desk *d);
/* A request has come or gone; nothing else has changed. */
void zi_desk_note_requests(zi_desk *d);
/* Refreshes.  False: something had changed although nobody had marked it. */
bool zi_desk_is_as_marked(zi_desk *d);
bool zi_desk_is_learning(const zi_desk_row *j);
/* Moved out, or called back and waiting for the memory that it needs to come in. */
bool zi_desk_is_out(const zi_desk *d, zi_job_id job);
/* What the job is known to need in a step: declared or observed; 0: unknown. */
uint64_t zi_desk_need(const zi_desk *d, const zi_desk_row *j);
/* The part of it without which it cannot run: without the 5 % on top. */
uint64_t zi_desk_hard_need(const zi_desk *d, const zi_desk_row *j);
/* What the job could hold in a step if all other steps ended. */
uint64_t zi_desk_room(const zi_desk *d, zi_job_id job);
/* Nobody else holds anything or has something guaranteed. */
bool zi_desk_has_all(const zi_desk *d, zi_job_id job);
/* When a job that goes on saying nothing counts as hanging; ZI_NEVER: not as it is. */
uint64_t zi_desk_hang_due(const zi_desk *d, zi_job_id job);
uint64_t zi_desk_claim(zi_desk *d, zi_job_id job);
/* Past its high tide a job needs less than its claim: the banker is told. */
void zi_desk_sink_claim(zi_desk *d, zi_job_id job);
/* ... and this much above its tide; told when a step begins. */
void zi_desk_set_above(zi_desk *d, zi_job_id job);
/* It asks for more after all: its claim sinks less low from now on. */
void zi_desk_note_astray(zi_desk *d, const zi_request *req);
/* The step is over: if it kept to its sunk claim, and so did many before, it may sink lower. */
void zi_desk_note_kept(zi_desk_row *j);
/* The job took its request for this step back before it heard of GO. */
void zi_desk_undo_step(zi_desk *d, zi_job_id job);
/* What the job is to the banker: bytes beyond what stays with it anyway. */
zi_banker_job zi_desk_banked(const zi_desk *d, zi_job_id job, uint64_t claim_bytes);
/* How much less is spare after the job got so many more bytes. */
uint64_t zi_desk_cost(const zi_desk *d, zi_job_id job, uint64_t more_bytes);
/* The table without stuck jobs. */
const zi_banker *zi_desk_table(zi_desk *d);
/* Safe, for the others and for all: bytes gone for good; a step begun; bytes taken within the
 * claim; a claim replaced, with bytes taken in the step and gone for good besides. */
bool zi_desk_may_lose(zi_desk *d, uint64_t cost_bytes);
bool zi_desk_may_start(zi_desk *d, zi_job_id job);
bool zi_desk_may_take(zi_desk *d, zi_job_id job, uint64_t cost_bytes);
bool zi_desk_may_exceed(zi_desk *d, zi_job_id job, uint64_t claim_bytes,
                        uint64_t take_bytes, uint64_t lose_bytes);
/* How far the budget could sink. */
uint64_t zi_desk_slack(zi_desk *d);
/* Does this request of a job inside a step go beyond what it claimed? */
bool zi_desk_is_beyond(const zi_desk *d, const zi_request *req);
bool zi_desk_is_stuck(const zi_desk *d, zi_job_id job);

/* -- desk_queue.c ------------------------------------------------------------------------ */
/* Would it fit if all present steps ended?  (Else only somebody's leaving helps.) */
bool zi_desk_fits_drained(const zi_desk *d, const zi_request *req);
/* Grants what may be granted, oldest first; true: something was. */
bool zi_desk_serve(zi_desk *d);
bool zi_desk_grant_one(zi_desk *d, uint64_t id, uint32_t n_regions);
/* May so many bytes more stay with the job for good, if all present steps ended? */
bool          zi_desk_leaves_room(const zi_desk *d, zi_job_id job, uint64_t size_bytes);
zi_desk_wait *zi_desk_wait_of(zi_desk *d, const zi_request *req);
uint64_t      zi_desk_stalls_at(const zi_desk *d, const zi_request *req);

/* -- desk_steps.c ------------------------------------------------------------------------ */
/* NONE: it may begin now.  Else why not, and behind whom. */
zi_reason zi_desk_may_go(zi_desk *d, zi_job_id job, zi_job_id *ret_behind);
bool      zi_desk_go(zi_desk *d, zi_job_id job);
/* A learner, or anybody if the policy leaves the device idle; true: somebody went. */
bool zi_desk_go_unasked(zi_desk *d);
void zi_desk_suspend(zi_desk *d, zi_job_id job);
void zi_desk_resume(zi_desk *d, zi_job_id job);
void zi_desk_shrink(zi_desk *d, zi_job_id job, uint64_t step_bytes, uint64_t cost_milli);
void zi_desk_set_state(zi_desk *d, zi_job_id job);
void zi_desk_note_wait(zi_desk *d, zi_job_id job);

/* -- desk_ladder.c ----------------------------------------------------------------------- */
bool zi_desk_climb(zi_desk *d); /* true: something changed */
/* Not counting what it takes ahead. */
bool zi_desk_waits_for_memory(const zi_desk *d, const zi_desk_row *j);
/* When it may have to act; ZI_NEVER: not as things are. */
uint64_t zi_desk_ladder_wake(zi_desk *d);

/* -- desk.c ----------------------------------------------------------------------------- */
/* Limits that waited for a step to end; true: some hold now. */
bool zi_desk_apply_limits(zi_desk *d);

/* -- desk_settle.c ----------------------------------------------------------------------- */
void zi_desk_post(zi_desk *d, zi_event_kind kind, zi_job_id job, int64_t delta_bytes,
                  uint64_t value);
/* After each call. */
void zi_desk_settle(zi_desk *d);
/* The same for a caller that has marked what it changed (`fresh`, `table_fresh`): leases and returns,
 * of which there are dozens in a step. */
void zi_desk_settle_marked(zi_desk *d);

#endif /* ZI_POLICY_DESK_PRIVATE_H */

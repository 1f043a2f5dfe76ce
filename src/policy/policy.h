/* policy/policy.h -- how the broker decides; one file per published system.
 *
 * THE ROOM
 *   A policy sees events and a read-only view of all jobs, and answers with what
 *   should happen.  It is pure: time comes in with the event, randomness from its state,
 *   and it never blocks, allocates or logs.  The same table runs in the broker and in the
 *   simulator.  Nobody trusts it: the desk (desk.h) checks each answer against ledger and
 *   banker, so a bad policy can be slow or unfair but can break no promise of R1 to R3.
 *
 * EVENTS   JOIN, LEAVE, STEP_ASK, STEP_BEGAN, STEP_END, LEASE_ASK, STALLED, REGION (taken or returned),
 *          BUDGET (also limits, pause, weight), TIMER,
 *          SUSPENDED, PLANNED (a job takes less, or more, from now on)
 * ANSWERS  GO (start the step), GRANT (a waiting request), CORES, SUSPEND, RESUME, SHRINK (plan for
 *          less), WAKE_AT (a TIMER event at that time), REASON (why a job is kept waiting)
 *
 * LEARNING A job about which nothing is known (no claim, no tide) runs its first step alone: the
 *          desk sees to it, and starts it itself.  A policy only sees that its GO is refused.
 * CLAIMS   The desk keeps them (decision 5): declared, else worst observed + 5 %, else the
 *          budget minus everybody's fixed and private bytes.
 * NEXT     banker.h, desk.h; zico.c, salus.c, gandiva.c, temporal.c, spatial.c.
 */
#ifndef ZI_POLICY_H
#define ZI_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ledger/ledger.h"
#include "tide/tide.h"
#include "wire/reason.h"
#include "wire/wire.h"

typedef enum zi_job_state {
    ZI_JOB_IDLE,           /* between steps, has not asked                       */
    ZI_JOB_ASKING,         /* wants to begin a step                              */
    ZI_JOB_RUNNING,        /* inside a step                                      */
    ZI_JOB_PAUSED,         /* by a person; like ASKING, but never goes           */
    ZI_JOB_LEAVING_MEMORY, /* told to suspend, still moving out             */
    ZI_JOB_SUSPENDED,      /* holds nothing                                      */
    ZI_JOB_FREE,           /* runs without steps: private memory only            */
    ZI_JOB_GONE,           /* row not in use                                     */
} zi_job_state;

/* One job as a policy sees it. */
typedef struct zi_job_view {
    zi_job_id     id;
    zi_job_state  state;
    uint64_t      joined_ns;
    uint32_t      weight_milli;
    uint64_t      fixed_bytes; /* fixed regions + private */
    uint64_t      step_bytes;
    uint64_t      claim_bytes; /* over step_bytes, for one step */
    uint64_t      need_bytes;  /* what a step takes, be there room or not; 0: unknown */
    bool          claim_known; /* declared or observed          */
    zi_job_limits limits;

    const zi_tide *tide;    /* NULL: not yet learnt                               */
    bool           repeats; /* false: prediction is useless, reserve the peak     */
    uint64_t       shape;   /* hash of the shape key; 0: none                     */
    uint64_t
        above_bytes; /* what the banker keeps for it beyond its tide, while it falls */

    /* the present or last step */
    uint64_t step_no;
    uint64_t asked_ns; /* when it asked to begin the step it waits for */
    uint64_t began_ns;
    uint64_t taken_bytes;     /* pool bytes taken since the step began     */
    uint64_t returned_bytes;  /* pool bytes returned since the step began  */
    uint64_t last_region_ns;  /* time of the last of those                 */
    uint64_t clock_ns;        /* solo time of the step that should be done */
    uint64_t region_clock_ns; /* ... at the last of those                 */
    uint64_t stall_ns;        /* waited for memory inside the last step    */
    uint64_t last_step_ns;    /* wall length of the last finished step     */
    uint64_t solo_step_ns;    /* as measured in the first step, alone      */
    uint64_t served_ns;       /* device time used since joining            */
    uint64_t
        n_mispredicted; /* steps that took more, earlier or for longer than foreseen */

    bool         stalled;     /* stands still inside its step, waiting for memory */
    uint64_t     steps_total; /* 0: unknown */
    uint64_t     latency_ns;  /* bound of an inference job; 0: none */
    uint32_t     cores;       /* told last */
    zi_core_mode core_mode;
    bool         can_suspend;
    bool         can_shrink;      /* plans for less when asked                       */
    bool         shrink_asked;    /* ... and has not answered yet                    */
    uint64_t     shrink_asked_ns; /* ... since when                               */
    uint64_t     shrink_bytes;    /* asked for last; 0: as many as it likes          */
    uint64_t     full_bytes;      /* what a step takes as it likes best; 0: not told */
    uint64_t     plan_bytes;      /* ... as it is planned now; 0: not told           */
    uint32_t     cost_milli;      /* of the time that a step as it likes best takes  */
    bool by_hand; /* paused or suspended by a person: not a policy's to bring back */
    bool native;
    bool told_in_step; /* hears CORES within its step; else with GO                 */
    bool steady;       /* native, or it says that its steps repeat to the byte */
    bool has_steps;
} zi_job_view;

/* Nobody has asked it for less, or it takes no less. */
static inline bool
zi_job_plans_as_it_likes(const zi_job_view *j)
{
    return j->plan_bytes == 0 || j->plan_bytes == j->full_bytes;
}

typedef struct zi_view {
    uint64_t           budget_bytes;
    uint64_t           free_bytes; /* budget - leased - private */
    uint64_t           region_bytes;
    uint32_t           n_cores;
    size_t             n_jobs; /* rows in `job`, each live */
    const zi_job_view *job;
    size_t             n_requests; /* waiting, oldest first */
    const zi_request  *request;
} zi_view;

typedef enum zi_event_kind {
    ZI_EVENT_JOIN,
    ZI_EVENT_LEAVE, /* the row is still in the view for this one event */
    ZI_EVENT_STEP_ASK,
    ZI_EVENT_STEP_BEGAN, /* a GO was carried out, or the desk started a learner */
    ZI_EVENT_STEP_END,
    ZI_EVENT_LEASE_ASK,
    ZI_EVENT_STALLED, /* a job inside a step has to wait for memory  */
    ZI_EVENT_REGION,
    ZI_EVENT_BUDGET,
    ZI_EVENT_SUSPENDED, /* a job has moved out (or could not: value = 0) */
    ZI_EVENT_TIMER,
    ZI_EVENT_PLANNED, /* a job has planned anew, or answers that it does not */
} zi_event_kind;

typedef struct zi_event {
    zi_event_kind kind;
    uint64_t      now_ns;
    size_t        job;         /* index into view->job; SIZE_MAX: none            */
    uint64_t      request;     /* LEASE_ASK: its id                               */
    int64_t       delta_bytes; /* REGION: taken (+) or returned (-)           */
    uint64_t      value;
} zi_event;

typedef enum zi_answer_kind {
    ZI_ANSWER_GO,      /* job: begin its step                              */
    ZI_ANSWER_GRANT,   /* request: its id; value: regions (0: all)         */
    ZI_ANSWER_CORES,   /* job, value: how many                             */
    ZI_ANSWER_SUSPEND, /* job                                              */
    ZI_ANSWER_RESUME,  /* job                                              */
    ZI_ANSWER_SHRINK,  /* job, value: bytes (0: as it likes), request: most cost_milli */
    ZI_ANSWER_WAKE_AT, /* value: time of a TIMER event                     */
    ZI_ANSWER_REASON,  /* job, value: zi_reason; request: job it is behind */
    ZI_ANSWER_LANE,    /* job, value: lane number, for status              */
} zi_answer_kind;

typedef struct zi_answer {
    zi_answer_kind kind;
    size_t         job; /* index into view->job */
    uint64_t       request;
    uint64_t       value;
} zi_answer;

#define ZI_OUT_MAX 4096u

typedef struct zi_out {
    size_t n;
    zi_answer
        answer[ZI_OUT_MAX]; /* more than that many are dropped: the desk asks again */
} zi_out;

typedef struct zi_policy_ops {
    const char *name;       /* what the user types after --policy, before a ':' */
    const char *origin;     /* the paper, or "zico" */
    size_t      state_size; /* bytes that the desk zeroes and owns */

    /* `arg` is what follows ':' in the policy's name ("srtf"), or "".  E_ARG: not understood. */
    zico_status (*init)(void *state, const char *arg, uint64_t seed);
    void (*on_event)(void *state, const zi_view *view, const zi_event *ev, zi_out *out);
    /* The answers to the event before have been carried out as far as they were allowed; a GO
     * that was refused shows as a job that is still ASKING in the next view. */

    /* Others decide from now on, or did until now (relay): what it was just measuring is void.
     * NULL: it measures nothing. */
    void (*on_break)(void *state);

    /* One line for people: what it makes of the jobs at present, and why.  NULL: its name says all. */
    void (*explain)(const void *state, char *ret_text, size_t size);
} zi_policy_ops;

/* policy_common.h has more helpers. */
void zi_out_add(zi_out *out, zi_answer_kind kind, size_t job, uint64_t request,
                uint64_t value);

/* By name ("salus:srtf": *ret_arg points to "srtf"); NULL if there is none. */
const zi_policy_ops *zi_policy_find(const char *name, const char **ret_arg);
const zi_policy_ops *zi_policy_at(size_t i); /* NULL past the end; for --help */

#endif /* ZI_POLICY_H */

/* policy/trial.h -- is more done side by side or in turn?
 *
 * MEASURED Work done per time, in solo time, epoch by epoch (five of the longest steps, after one to
 *          settle), for sharing and for taking turns, next to each other, as machines are faster at one
 *          time than at another: what goes on, the other way once, what goes on again.  Steps are
 *          counted, and weighed by what a step takes alone only when the two are compared, as that
 *          becomes known better all the while.
 * CHOSEN   Sharing, if it does 2 % more than turns in the mean of the last trials (before the first one
 *          it is held to do 3 % more), else turns: nobody loses by those.  That goes on for 4, 8, ... 64
 *          epochs until the next trial; four times as many as before, not twice, if there was no doubt
 *          (a tenth between the two, or 3 % less for the other way).  Sharing that does a tenth more
 *          than turns did goes on for 32 epochs; then turns are tried all the same, as machines change
 *          (a virtual one's cores move) and nobody is seen alone while all share.
 * MOVED    While all take turns the length of each step tells whether the machine is as it was when that was
 *          tried last.  While they share nothing does, so every twelve epochs, and when others have decided
 *          meanwhile, one step is made alone (a canary).  If it takes a fifth more or less than then,
 *          the machine has moved: the caller goes on with what it knows of the other one.
 * ANEW     when somebody joins or leaves or the budget changes; the first epoch after that does not
 *          count, as memory is touched for the first time; nor do each job's first steps beside others
 *          (the caller says so), nor what went on before the other way was tried for the first time.
 */
#ifndef ZI_POLICY_TRIAL_H
#define ZI_POLICY_TRIAL_H

#include "policy/policy.h"

typedef struct zi_tried {
    double done;      /* steps in this epoch, with the parts of those across its bounds */
    double per_ns[2]; /* steps in an epoch of sharing, of taking turns, as measured */
    double last;      /* ... in the last one */
    double tried[2];  /* ... in the mean of those of the present trial */
    double alone_ns;  /* a step alone, when turns were tried last; 0: none was seen */
    double late;      /* ... those since, as a part of it, of late */
    bool   cold;      /* made no step since others decided */
} zi_tried;

typedef struct zi_trial {
    uint64_t from_ns;      /* the present epoch began; 0: none yet                  */
    bool     seen[2];      /* an epoch of sharing, of taking turns has been measured */
    uint64_t budget_bytes; /* ... with this one                                     */
    bool     touched;      /* memory for sharing was used before: epochs count        */
    bool     turns;        /* all take turns in this epoch                          */
    bool     changed;      /* ... and did not in the one before: it has still to settle */
    bool     choice;       /* ... in all epochs but those of trial                   */
    uint32_t n_left;       /* epochs before the next trial; 0: this is one              */
    uint32_t n_tried;      /* ... with so many epochs so far                         */
    uint32_t n_next;       /* ... after the next trial that confirms it              */
    uint32_t n_sharing;    /* epochs since turns were taken                         */
    uint32_t n_trials;     /* that `ratio` is the mean of, about                    */
    double   ratio;        /* what sharing does over what turns do, as is believed    */
    bool     canary_due;   /* one step alone is wanted, ...                           */
    bool     canary;       /* ... is awaited                                          */
    bool     told;         /* ... and has been made                                   */
    bool     moved;        /* steps alone are longer, or shorter, than they were      */
    uint32_t n_done;       /* trials so far, and in the last one of them ...          */
    double   seen_ratio;   /* ... sharing did so many times what turns did            */
    zi_tried job[ZI_LEDGER_JOBS_MAX];
} zi_trial;

/* Everything is different now: both ways are tried anew. */
void zi_trial_begin(zi_trial *t, uint64_t budget_bytes);

/* `alone_ns`: its length, if nobody was beside it; else 0. */
void zi_trial_step_ended(zi_trial *t, zi_job_id job, uint64_t alone_ns);

/* After each step's end: is an epoch over, and what is next?  No epoch `counts` while somebody makes
 * its first steps, alone or beside others. */
void zi_trial_look(zi_trial *t, const zi_view *v, uint64_t now_ns, double longest_ns,
                   bool counts);

/* The machine is again the one that was tried before. */
void zi_trial_enter(zi_trial *t);

/* Everything is again as it was when `before` was true: what was chosen then goes on. */
void zi_trial_return(zi_trial *t, const zi_trial *before);

/* Others decided meanwhile: the present epoch tells nothing. */
void zi_trial_break(zi_trial *t);

/* Of late, in solo time per time, sharing or taking turns. */
double zi_trial_rate(const zi_trial *t, const zi_view *v, bool turns);

#endif /* ZI_POLICY_TRIAL_H */

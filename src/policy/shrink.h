/* policy/shrink.h -- would all do more if some took less memory?
 *
 * Where tides do not fit beside each other jobs wait, and cores with them.  A job that can plan for
 * less (recomputing what is cheap) may cost some time in each step, and then nobody waits.
 *
 * ASKED    after sharing and turns were tried with everybody's plans as they like them, unless jobs hinder
 *          each other so much that nothing can be won: if the largest steps that could run at the same
 *          time do not fit together, all that can are asked to take no more than makes them fit (the same
 *          for all; who takes less anyway is not asked).  Who cannot go so far leaves the others to go
 *          farther, in three rounds.  Nobody waits for the answer of a job that was stopped.
 * JUDGED   Then sharing and turns are tried again, and that trial's mean with what jobs did beside each other in all
 *          steps in which they did not wait for memory is what counts.  A job's plan says what it costs, pessimistically; what
 *          turns do now and did before says it, too, and the less of the two is believed.  Lean plans
 *          stay if sharing with them does more than with full ones, that cost taken off, and more
 *          than turns.  Else all are asked back and go on as before, and lean plans are tried again
 *          after four more trials, eight, and so on, or when sharing is chosen where turns were.
 * KEPT     until somebody joins or leaves or the budget changes: then others are asked, or asked back.  So
 *          they are if turns with full plans would do more one day: each trial tells.
 * BY WORD  "zico:full" never asks, "zico:lean" always does and does not judge: for measuring.
 */
#ifndef ZI_POLICY_SHRINK_H
#define ZI_POLICY_SHRINK_H

#include "policy/policy.h"
#include "policy/trial.h"

typedef enum zi_shrink_phase {
    ZI_SHRINK_FULL,  /* plans as jobs like them are tried first */
    ZI_SHRINK_ASKED, /* ... and their answers are awaited       */
    ZI_SHRINK_TRIED, /* lean plans are                          */
    ZI_SHRINK_KEPT,  /* ... and do more                         */
    ZI_SHRINK_BACK,  /* asked back, answers are awaited         */
    ZI_SHRINK_ENTER, /* the machine is another one: all plan as they did there */
} zi_shrink_phase;

typedef struct zi_shrink {
    bool            never, always; /* by word */
    zi_shrink_phase phase;
    bool            good;     /* kept before: asked without a trial of full plans */
    uint32_t        n_rounds; /* of asking */
    uint32_t
        n_wait; /* trials before lean plans are tried; UINT32_MAX: not as things are */
    uint32_t n_seen; /* ... when we looked last */
    uint32_t again;  /* ... from one rejection to the next attempt */
    bool     lean;   /* ENTER: KEPT comes next, else FULL */
    bool     turned; /* all have taken turns since the last one */

    zi_trial full;                        /* as it was with full plans */
    double   full_ratio;                  /* ... of sharing to turns, as was believed */
    double   full_turns;                  /* ... what turns did, in solo time per time, */
    double   solo_ns[ZI_LEDGER_JOBS_MAX]; /* ... reckoned by these */
    bool     stays[ZI_LEDGER_JOBS_MAX];   /* goes no farther */
} zi_shrink;

/* "", "full" or "lean". */
zico_status zi_shrink_init(zi_shrink *k, const char *word);

/* Somebody has joined or left, or the budget is another. */
void zi_shrink_begin(zi_shrink *k);

/* The machine is again the one that `k` and `t` know: plans are to be as they were there. */
void zi_shrink_enter(zi_shrink *k, const zi_view *v, zi_trial *t, zi_out *out);

/* Will the next look ask for what two jobs do beside each other? */
bool zi_shrink_is_due(const zi_shrink *k, const zi_trial *t);

/* After a step's end, or an answer.  `beside`: what jobs do beside those that they get on with best while they do
 * not wait for memory, one alone being 1. */
void zi_shrink_look(zi_shrink *k, const zi_view *v, zi_trial *t, double beside,
                    uint64_t now_ns, zi_out *out);

/* How plans are at present, for people. */
const char *zi_shrink_word(const zi_shrink *k);

#endif /* ZI_POLICY_SHRINK_H */

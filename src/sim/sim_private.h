/* sim/sim_private.h -- the simulator's insides, shared by its files.
 *
 *   sim.c        the clock: what happens next, watching R1 to R3, the report
 *   sim_jobs.c   one job's life: joins, loads, asks, steps, stalls, leaves
 */
#ifndef ZI_SIM_PRIVATE_H
#define ZI_SIM_PRIVATE_H

#include "base/rng.h"
#include "policy/desk.h"
#include "sim/sim.h"

#define ZI_SIM_NEVER UINT64_MAX

/*   ABSENT -> LOADING -> GAP -> ASKING -> COMPUTING <-> STALLED -> GAP ... -> GONE
 *                ^        |        |
 *                |        v        v
 *                +---- LEAVING (out at its end; LOADING when called back, then ENTERING)    */
typedef enum zi_sim_state {
    ZI_SIM_ABSENT,
    ZI_SIM_LOADING,
    ZI_SIM_GAP,
    ZI_SIM_ASKING,
    ZI_SIM_COMPUTING,
    ZI_SIM_STALLED,
    ZI_SIM_LEAVING,  /* moves out */
    ZI_SIM_ENTERING, /* has its memory again, moves in */
    ZI_SIM_GONE,
} zi_sim_state;

typedef struct zi_sim_actor {
    const zi_sim_job *spec;
    zi_sim_job_result out;
    zi_sim_state      state;
    zi_job_id         id;
    uint64_t          wake_ns; /* ABSENT, GAP, LEAVING, ENTERING: when it goes on */
    uint32_t          seq;
    uint32_t          want_seq; /* the answer it waits for */
    uint64_t          load_left;
    uint32_t          n_beside; /* steps begun beside others */

    /* the step */
    uint32_t cores;
    uint32_t next;  /* point of the tide */
    double   at_ns; /* progress on solo time */
    double   speed; /* solo time per time */
    uint64_t since_ns;
    double   stretch, swell; /* this step's noise */
    double   length_ns;      /* of this step, in solo time */
    int64_t  height;         /* bytes wanted now */
    uint64_t began_ns, asked_ns, stall_from_ns, step_stall_ns;
    uint64_t due_ns; /* of the next point or the end; ZI_SIM_NEVER: not as it is */

    uint32_t *region; /* held, as a stack: fixed ones at the bottom */
    uint32_t  n_held, n_fixed;
    uint64_t  private_bytes;
    bool      out_wanted, is_out, returning;
    uint64_t wish_bytes; /* others would like its steps to take so much; 0: nobody does */
    uint32_t wish_milli; /* ... for so much of their time, at most                      */
    bool     wish_new;
    double   lean; /* the part of its peak that it is planned for */
} zi_sim_actor;

typedef struct zi_sim {
    const zi_sim_options *opt;
    zi_desk              *desk;
    zi_sim_actor         *actor;
    size_t                n;
    uint64_t              now_ns, wake_ns;
    zi_rng                rng;
    size_t                next_change;
    uint32_t             *owner; /* [n_regions]: actor + 1, by the actors' own books */
    uint32_t              n_regions;
    uint64_t              held_bytes; /* by the actors' own books */
    uint64_t              n_computing;
    zi_sim_result         out;
    zi_sim_actor         *by_id[ZI_LEDGER_JOBS_MAX];
    bool                  dirty; /* speeds must be found again */
} zi_sim;

/* The actor's own time has come (wake_ns or due_ns). */
void zi_sim_act(zi_sim *s, zi_sim_actor *a);
void zi_sim_leave(zi_sim *s, zi_sim_actor *a);
/* One effect of the desk for this actor. */
void zi_sim_obey(zi_sim *s, zi_sim_actor *a, const zi_effect *e);
/* Brings progress up to now. */
void zi_sim_catch_up(zi_sim *s, zi_sim_actor *a);
/* Finds speed and due_ns again. */
void zi_sim_aim(zi_sim *s, zi_sim_actor *a);
/* Carries out what the desk said; watches R1. */
void zi_sim_listen(zi_sim *s);

#endif /* ZI_SIM_PRIVATE_H */

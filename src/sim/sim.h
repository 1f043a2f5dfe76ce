/* sim/sim.h -- jobs with tides under a policy, on a virtual clock.
 *
 * THE ROOM
 *   Drives the very desk that the broker drives (policy/desk.h) with jobs that exist only as
 *   tides: they ask, take regions at the rises, return them at the falls, stall when
 *   memory does not come, die, are stopped, and exceed what they did before.  Answers
 *   "how many of these jobs fit, at what speed?" and shows that R1 to R3 hold.  Pure: same
 *   options and seed, same result.
 *
 * CORES    A job alone with all cores runs at speed 1 (solo).  With c of n cores it runs at
 *          speed[c] if given, else at (c/n)^scaling; k computing jobs slow each other by
 *          corun[k] besides.  A job that waits for memory does not compute and slows nobody.
 * WATCHED  R1 at each instant against the jobs' own books (not the ledger's); R2 at each grant; R3:
 *          a moment at which nothing can happen any more while somebody waits is a deadlock.
 * NEXT     sim.c; cli/ prints it.
 */
#ifndef ZI_SIM_H
#define ZI_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ledger/ledger.h"
#include "tide/tide.h"
#include "wire/reason.h"
#include "zico/status.h"

#define ZI_SIM_CORES_MAX 64u
#define ZI_SIM_JOBS_MAX  256u

typedef struct zi_sim_job {
    const char   *name;
    zi_tide       tide;        /* one step alone with all cores                      */
    uint64_t      fixed_bytes; /* taken before the first step, kept                   */
    uint64_t      private_bytes;
    uint64_t      claim_bytes; /* declared; 0: learnt                                 */
    zi_job_limits limits;
    uint32_t      weight_milli; /* 0: 1000                                            */
    uint64_t      n_steps;      /* then it leaves; 0: goes on to the horizon          */
    uint64_t      arrive_ns;
    uint64_t      gap_ns; /* between two steps, on its own                            */
    uint64_t every_ns; /* its data comes no sooner than so long after it took the last */

    double   scaling;                     /* see CORES; 0 with no table: 0.7     */
    double   speed[ZI_SIM_CORES_MAX + 1]; /* [c]; all 0: no table                */
    bool     native;                      /* follows CORES in mid-step           */
    bool     can_suspend;
    bool     can_shrink; /* plans for less when asked, down to half of its peak, */
    double   lean_cost;  /* ... where a step takes so much longer (0.1: a tenth) */
    bool     knows_tide; /* the tide is known before its first step              */
    uint32_t n_ahead;    /* regions it asks for ahead                            */

    double   warm_up;      /* its first step takes so many times as long; 0: 1        */
    uint32_t warm_steps;   /* ... and what is more is halved in each of so many; 0: 1  */
    double   beside_up;    /* its first steps beside others take so many times as long */
    uint32_t beside_steps; /* ... so many of them; 0: none                              */
    double   time_noise;   /* each step's length varies by +- this part               */
    double   byte_noise;   /* ... and its bytes                                        */
    double   burst_chance; /* a step takes burst_factor as much                       */
    double   burst_factor;
    uint64_t die_ns;               /* killed then; 0: never                           */
    uint64_t stop_ns, stop_for_ns; /* makes no progress from then, for so long        */
} zi_sim_job;

typedef struct zi_sim_change {
    uint64_t at_ns;
    uint64_t budget_bytes;
} zi_sim_change;

/* What somebody holds from now on; for plots. */
typedef void zi_sim_on_held(void *user, uint64_t now_ns, size_t job, uint64_t held_bytes,
                            bool running);

typedef struct zi_sim_options {
    const char          *policy;
    uint64_t             budget_bytes;
    uint64_t             region_bytes;
    uint32_t             n_cores;
    uint64_t             horizon_ns;
    uint64_t             seed;
    double               corun[ZI_SIM_CORES_MAX + 1]; /* [k]; 0: 1                    */
    uint64_t             apart_ns;         /* until then cores are far apart ... */
    bool                 apart_again;      /* (and after as long again, and so on) */
    double               apart_speed;      /* ... for who has several; 0: 1 */
    double               move_bytes_per_s; /* out or in, each job by itself; 0: at once */
    const zi_sim_change *change;           /* by time                      */
    size_t               n_changes;
    uint32_t        verify_every; /* desk calls between two zi_desk_verify; 0: never */
    zi_sim_on_held *on_held;      /* NULL: nobody looks */
    void           *user;
} zi_sim_options;

typedef struct zi_sim_job_result {
    uint64_t  n_steps;
    double    progress_ns; /* solo time of the work done                               */
    double    rate;       /* steps a second, from its arrival to its end or the horizon */
    uint64_t  waited_ns;  /* at step boundaries                                       */
    uint64_t  stalled_ns; /* for memory inside steps                                  */
    uint64_t  peak_bytes;
    uint64_t  exchanged_bytes;
    uint64_t  longest_wait_ns;
    uint64_t  ended_ns; /* 0: was still there at the horizon                           */
    uint32_t  n_moves;  /* out and in again                                            */
    uint32_t  n_denied; /* requests refused; it left after the first                   */
    zi_reason reason;   /* why it waited at the end, if it did                         */
    uint64_t  held_bytes, asked_bytes; /* at the end */
} zi_sim_job_result;

typedef struct zi_sim_result {
    uint64_t end_ns;
    uint64_t n_steps;
    double   throughput; /* sum of progress / time: 1 is one job alone             */
    uint64_t peak_bytes;
    uint64_t n_calls;       /* of the desk                                         */
    uint64_t n_over_budget; /* instants at which R1 did not hold                   */
    uint64_t n_two_owners;  /* grants for which R2 did not hold                    */
    bool     deadlock;      /* R3                                                  */
    int      broken;        /* first invariant that zi_desk_verify found; 0: none  */
} zi_sim_result;

/* E_ARG: no such policy, or a job that makes no sense.  A job that can never fit is told so
 * and leaves; that is a result, not an error. */
zico_status zi_sim_run(const zi_sim_options *opt, const zi_sim_job *jobs, size_t n_jobs,
                       zi_sim_result *ret_result, zi_sim_job_result *ret_jobs);

/* -- synthetic tides ------------------------------------------------------------------ */

typedef enum zi_sim_shape {
    ZI_SIM_TRIANGLE, /* rises in the first third, falls in the rest: a plain network      */
    ZI_SIM_BEEFY, /* high for most of the step                                          */
    ZI_SIM_LEAN,  /* a short spike                                                      */
    ZI_SIM_RAMP,  /* a slow rise and a sudden fall                                      */
    ZI_SIM_N_SHAPES,
} zi_sim_shape;

void zi_sim_tide(zi_sim_shape shape, uint64_t peak_bytes, uint64_t length_ns,
                 uint32_t n_points, zi_tide *ret_tide);

#endif /* ZI_SIM_H */

/* tide/tide.h -- what one step of a job does to memory over time.
 *
 * THE ROOM
 *   A *tide* is the list of moments in a step at which the job's pool memory rises
 *   or falls, as offsets from the step's start on the device's clock.  Recording
 *   groups single tensors and regions into a few dozen points, so that a policy can
 *   sweep the tides of all jobs before every step.  Pure: no clock, no I/O; times
 *   are handed in.
 *
 * GROUPING  errs on the safe side: rises that are grouped count at the earliest of
 *           their times, falls at the latest.  A grouped tide is nowhere below the true
 *           curve, and its peak is the true peak.
 * INVARIANTS (zi_tide_verify)
 *   T1  points are ordered by at_ns; at equal times rises come before falls
 *   T2  no point has delta 0; no prefix sum is negative
 *   T3  the deltas sum to end_bytes (0 for a step that gives everything back)
 *   T4  peak_bytes is the largest prefix sum; every at_ns <= length_ns
 * NEXT  policy/policy.h sweeps tides; client/ and exec/ record them.
 */
#ifndef ZI_TIDE_H
#define ZI_TIDE_H

#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

#define ZI_TIDE_POINTS_MAX 128u /* after grouping */

typedef struct zi_tide_point {
    uint64_t at_ns;       /* offset from the step's start, device time */
    int64_t  delta_bytes; /* > 0: taken; < 0: returned                  */
} zi_tide_point;

typedef struct zi_tide {
    uint32_t      n_points;
    uint32_t      n_seen;     /* steps that this tide was refined from; 0: declared */
    uint64_t      length_ns;  /* of the step                                        */
    uint64_t      peak_bytes; /* T4 */
    uint64_t      end_bytes;  /* T3 */
    zi_tide_point point[ZI_TIDE_POINTS_MAX];
    /* all that was taken and returned up to each point, also what grouping has smoothed away: where
     * a job stands in its step is told by it.  All 0: not recorded; the points themselves are all there is. */
    uint64_t moved_bytes[ZI_TIDE_POINTS_MAX];
} zi_tide;

zico_status zi_tide_verify(const zi_tide *t);

/* Time-weighted mean bytes over the step. */
uint64_t zi_tide_mean(const zi_tide *t);

/* Bytes held at offset `at_ns` (points at exactly that time included). */
uint64_t zi_tide_at(const zi_tide *t, uint64_t at_ns);

/* -- recording: any number of raw events in, one grouped tide out ---------------- */

typedef struct zi_tide_recorder zi_tide_recorder;

zico_status zi_tide_recorder_new(zi_tide_recorder **ret_rec);
void        zi_tide_recorder_free(zi_tide_recorder *rec); /* NULL is fine */

/* Begin a step at absolute device time; forgets whatever was recorded before. */
void zi_tide_recorder_begin(zi_tide_recorder *rec, uint64_t now_ns);

/* Memory rose (first write) or fell (last kernel that used it completed).  Events may
 * come in any order of time.  Never fails: when its buffer is full it groups. */
void zi_tide_recorder_add(zi_tide_recorder *rec, uint64_t now_ns, int64_t delta_bytes);

/* End the step: *ret_tide is the grouped tide, written always; a step in which more fell
 * than rose is clamped so that T2 holds. */
void zi_tide_recorder_end(zi_tide_recorder *rec, uint64_t now_ns, zi_tide *ret_tide);

/* -- learning -------------------------------------------------------------------- */

typedef enum zi_tide_change {
    ZI_TIDE_SAME,    /* within tolerance; refined                                    */
    ZI_TIDE_OUTLIER, /* this one step was odd; the stored tide is kept                */
    ZI_TIDE_NEW,     /* the job really changed; the stored tide was replaced          */
} zi_tide_change;

typedef struct zi_tide_learner {
    zi_tide  tide;         /* what to predict with                           */
    zi_tide  last_odd;     /* an outlier waiting for a second witness        */
    uint32_t n_odd_in_row; /* odd steps that resemble last_odd               */
    uint32_t n_odd_total;  /* odd steps among the last 16, for "does not repeat" */
    uint32_t history;      /* bit per step, 1: odd                           */
} zi_tide_learner;

/* Take a newly observed step into account: robust to outliers, quick to follow a real
 * change (tide_learn.c says how). */
zi_tide_change zi_tide_learn(zi_tide_learner *l, const zi_tide *observed);

/* Do the job's steps repeat well enough to predict from? */
int zi_tide_repeats(const zi_tide_learner *l);

/* -- text form ------------------------------------------------------------------- */

/* "tide 1 length=..ns end=.. seen=..\n+64M @0\n..." Writes at most cap bytes with a
 * terminating 0 and returns the length needed without it, as snprintf does. */
size_t zi_tide_print(const zi_tide *t, char *buf, size_t cap);
zico_status
zi_tide_parse(const char *text, size_t len, zi_tide *ret_tide, size_t *ret_bad_line);

#endif /* ZI_TIDE_H */

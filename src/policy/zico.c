/* zico.c -- start each step at the moment when the tides add up to no more than the budget.
 *
 * PAPER    G. Lim, J. Ahn, W. Xiao, Y. Kwon, M. Jeon. Zico: Efficient GPU Memory Sharing for
 *          Concurrent DNN Training. USENIX ATC 2021.
 * CLAIM    Two jobs run in the memory of little more than one, up to 1.6x faster than taking
 *          turns, by delaying the start of each step just enough.
 * WE DO    The gate: before each step a sweep of its tide against the remaining events of all
 *          running jobs (sweep.h) gives the smallest delay.  Any number of jobs, in processes
 *          of their own, weights, cores divided among those that run.
 *   FAIRNESS  The paper has none.  Each job keeps a *lag*: what taking turns would have given
 *          it by now (time x weight / sum of weights, while it wants to run) minus the
 *          solo time of the work it did.  A start is weighed by what it does to the others:
 *          for each, the sweep tells when its next step could begin with the start and so how
 *          far behind it would be by then.  The start whose worst victim is least behind goes;
 *          it is held back (FAIRNESS) if the victim would be further behind than those who
 *          wait for it.  Whoever is farthest behind of all goes as soon as it fits, so that two
 *          victims of each other do not both wait; while it runs or waits, a start of somebody
 *          well ahead of it is held back, too: that would take its cores.  Shares are reckoned
 *          2 % larger than they are, as solo times are known to about that, and of what taking
 *          turns was seen to do in all, at least 0.97 of solo work.  What all are ahead or behind
 *          alike is taken from all: so what sharing gains is shared, too, and a machine that has
 *          become faster or slower since solo times were measured does not make shares unequal.
 *   START  Shares are reckoned in solo time, and a job's first steps are slow (memory is touched for
 *          the first time): its first steps run alone, with all cores, until one is no longer
 *          a tenth faster than the one before; three at least, eight at most.
 *   RAMP   After them a job's tide is trusted step by step: at first 1/8 of
 *          its peak is kept free on top, then 1/16, 1/32, none; a misprediction starts over.
 *   MISPREDICTION  (more bytes than foreseen, or a wait for bytes in mid-step) costs two points, a
 *          step as foreseen gains one back.  From 6 points on a job takes turns (nobody beside
 *          it whose claim does not fit, too) until it is down to 2.  A job whose steps do not
 *          repeat reserves its claim for the whole step instead.
 *   WHO BESIDE WHOM?  One job may be as fast beside another as alone, and a third be slowed down
 *          by more than it gains.  Each step tells how long it took, beside whom and for how long;
 *          from that each job learns by how much each neighbour slows it down.  What a set of jobs
 *          does in a time is the sum of their progress, each weighed by a price that rises with
 *          its lag.  A start must not lower that sum; of those that may start the one that raises
 *          it most goes, and one who asks again in a moment and would do more is waited for.  So a
 *          job that needs all cores is alone when its turn has come, and others run beside each
 *          other when it has not.
 *   DOES IT PAY?  Where two tides fit together may be where the jobs hinder each other most (large
 *          feature maps, all of them waiting for the memory bus).  So sharing and taking turns are
 *          tried against each other all the while (trial.h), and what did more goes on.  A job's first
 *          steps beside others tell nothing: they were seen to be slow (presumably as together they touch
 *          memory that none touched alone).
 *   COULD THEY TAKE LESS?  Where tides do not fit, jobs that can are asked to plan for less memory, and
 *          stay so if that does more (shrink.h).
 *   TURNS  are the temporal policy's: most behind first, and a step that ran alone costs its job
 *          the time it took, not what it should have taken.
 *   DATA   A job that pauses between steps, for its data perhaps, is owed its share meanwhile, but no
 *          more than who waits: under temporal it would go first when it comes back.  If it is well
 *          behind, nobody begins beside others while it pauses, as it would find all cores taken.
 *          If it pauses for longer than it must its data comes at its own pace, slower than its share
 *          would allow: what it was owed goes as time goes by, as it has no use for it.
 *          After a pause of more than four of its steps it is away: what it was ahead is forgiven
 *          as time goes by, and what it was owed goes the same way.
 * WE DROP  The wait quantum (the sweep computes the delay), pairs (all jobs share one
 *          budget), the offline search for in-flight limits (the client's matter).
 * CHECKED  sweep_test.c: that the delay is the smallest; trial_test.c: what a trial costs and finds;
 *          zico_policy_test.c: on random mixes at 65 % never below taking turns by more than
 *          2 %, no job below 0.96 of its temporal share, long beside short; random_mixes_test.c
 *          that no promise breaks under noise, bursts and deaths.
 * COST     O(E log k) a sweep of E events and k running jobs; at most CANDIDATES x (VICTIMS + 1)
 *          sweeps a decision; bench/decide.c measures it.
 */
#include "policy/neighbours.h"
#include "policy/policy_common.h"
#include "policy/shrink.h"
#include "policy/sweep.h"
#include "policy/trial.h"

#include "base/check.h"
#include "base/fmt.h"

#define CANDIDATES    3u
#define VICTIMS       3u
#define GAP_NS        10000000u /* jobs that take longer between two steps are not waited for */
#define WAKE_NS       1000000u /* soonest look again                                        */
#define LOOKS         16.0 /* in the longest step, while somebody is held back           */
#define ALONE_MIN     3u /* steps of a new job that nobody runs beside ...               */
#define ALONE_MAX     8u /* ... as long as each is faster than the one before by more than */
#define ALONE_PART    10u /* ... this part                                             */
#define BESIDE_MIN    2u  /* steps of each job beside others before sharing is judged; */
#define BESIDE_MAX    8u  /* ... or so many in all, if it is always alone              */
#define TRUST_MUX     6u  /* points from which on it takes turns ...                   */
#define TRUST_BACK    2u  /* ... until it is down to these                              */
#define TRUST_MAX     8u
#define TOLERANCE     0.25 /* of the longest step: lag that does not matter             */
#define TURNS_LEAST   0.97 /* of solo work: less was seen in single epochs only         */
#define SOLO_OFF      1.15 /* by which a step alone may differ here from what is known of it */
#define MARGIN        1.02 /* on shares: solo time is known to about so much               */
#define BEHIND        0.5 /* ... from which on those who are ahead leave it the cores */
#define LAG_MAX       8.0 /* longest steps that anybody can be behind                   */
#define PAUSES        16u /* that the shortest of late is of, about                       */
#define PAUSE         4.0 /* of its steps: who wants nothing for longer is away            */
#define SPREAD        1.0 /* longest steps that a job may be ahead of who is most behind   */
#define MACHINE_STAYS 60.0 /* longest steps from one move to the next, at least */
#define PRICE         0.5 /* of progress: by how much it rises with a longest step of lag  */

typedef struct account {
    double   lag_ns;   /* > 0: behind its temporal share */
    uint64_t idle_ns;  /* when its last step ended       */
    uint64_t gap_ns;   /* from a step's end to the next asking, longest of late */
    uint64_t pause_ns; /* ... shortest of late: what it needs between two steps */
    uint64_t n_mispredicted;
    uint64_t best_ns; /* of its first steps, alone */
    uint32_t n_steps; /* ended */
    uint32_t n_beside,
        n_since;         /* ... beside others, in all: since warm, or its last plan */
    uint64_t plan_bytes; /* by which it planned last */
    uint32_t points;     /* of distrust */
    uint32_t n_good;     /* steps as foreseen in a row; the ramp */
    bool     takes_turns;
    bool     warm;  /* past its first steps */
    bool     alone; /* nobody was beside it in its present step */
} account;

/* What is known of a machine: does sharing pay there, and who plans for less? */
typedef struct machine {
    zi_trial  trial;
    zi_shrink shrink;
} machine;

typedef struct zico {
    zi_trial      trial;
    zi_shrink     shrink;
    uint64_t      moved_ns; /* when it moved last */
    uint32_t      n_moved;
    machine       other; /* what is known of the machine as it was before it moved */
    uint64_t      last_ns;
    zi_neighbours beside;
    account       job[ZI_LEDGER_JOBS_MAX];
} zico;

/* One decision's working set. */
typedef struct choice {
    zico          *z;
    const zi_view *v;
    uint64_t       now_ns;
    double         weights;              /* of all that are present        */
    double         longest;              /* solo step among them           */
    double         longest_rest;         /* of those that run              */
    uint64_t       keep;                 /* of the budget, while ramping   */
    size_t         n_running, n_about;   /* about to ask */
    size_t         n_on_time;            /* of those that run: not overdue */
    size_t         running[ZI_TOGETHER]; /* the first of them ... */
    uint64_t       rest_ns[ZI_TOGETHER]; /* ... and what they still need, in solo time */
    bool           turns;                /* somebody who takes turns is running */
    bool           fresh;                /* ... who is in its first steps       */
} choice;

static zico_status
zico_init(void *state, const char *arg, uint64_t seed)
{
    zico *z = state;
    (void)seed;
    return zi_shrink_init(&z->shrink, arg);
}

static double
weight(const zi_job_view *j)
{
    return j->weight_milli ? j->weight_milli : 1000.0;
}

#define OVERDUE 4.0 /* times its solo step: nobody can tell when it will end */

static bool
is_on_time(const zi_job_view *j, uint64_t now_ns)
{
    return (double)(now_ns - j->began_ns) < OVERDUE * zi_policy_solo_ns(j);
}

/* Must nobody run beside it? */
static bool
runs_alone(const zico *z, const zi_job_view *j)
{
    const account *a = &z->job[j->id];
    return z->trial.turns || a->takes_turns || !a->warm;
}

/* -- lag ---------------------------------------------------------------------------------- */

/* Not longer ago than it ever takes between two steps? */
static bool
ended_just_now(const account *a, uint64_t now_ns)
{
    return a->idle_ns && a->gap_ns < GAP_NS &&
           now_ns - a->idle_ns < 2 * a->gap_ns + WAKE_NS / 2;
}

/* Just after a step: it will ask again in a moment, as it always did. */
static bool
is_about_to_ask(const zico *z, const zi_job_view *j, uint64_t now_ns)
{
    return j->state == ZI_JOB_IDLE && ended_just_now(&z->job[j->id], now_ns);
}

/* Does it want the device? */
static bool
wants(const zico *z, const zi_job_view *j, uint64_t now_ns)
{
    if (j->state == ZI_JOB_RUNNING || j->state == ZI_JOB_ASKING) return true;
    return is_about_to_ask(z, j, now_ns);
}

/* Wants it, or will want it soon: it pauses between steps, for its data perhaps. */
static bool
is_present(const zico *z, const zi_job_view *j, uint64_t now_ns)
{
    const account *a = &z->job[j->id];
    if (wants(z, j, now_ns)) return true;
    return j->state == ZI_JOB_IDLE && a->idle_ns &&
           (double)(now_ns - a->idle_ns) < PAUSE * zi_policy_solo_ns(j);
}

static void
sum_up(choice *c, zico *z, const zi_view *v, uint64_t now_ns)
{
    *c = (choice){.z = z, .v = v, .now_ns = now_ns};
    for (size_t i = 0; i < v->n_jobs; i++) {
        const zi_job_view *j = &v->job[i];
        const account     *a = &z->job[j->id];
        if (!is_present(z, j, now_ns)) continue;
        c->weights += weight(j);
        if (zi_policy_solo_ns(j) > c->longest) c->longest = zi_policy_solo_ns(j);
        if (!wants(z, j, now_ns)) continue;
        c->n_about += j->state == ZI_JOB_IDLE;
        if (j->state == ZI_JOB_RUNNING) {
            uint64_t rest = zi_sweep_rest(j);
            if (c->n_running < ZI_TOGETHER) {
                c->running[c->n_running] = i;
                c->rest_ns[c->n_running] = rest;
            }
            c->n_running++;
            if (is_on_time(j, now_ns)) {
                c->n_on_time++;
                c->turns |= runs_alone(z, j);
                c->fresh |= !a->warm;
            }
            if ((double)rest > c->longest_rest) c->longest_rest = (double)rest;
        }
        if (j->tide && a->n_good < 3) c->keep += j->tide->peak_bytes >> (3 + a->n_good);
    }
}

/* Solo time that a running job still needs. */
static uint64_t
rest_of(const choice *c, size_t i)
{
    for (size_t k = 0; k < c->n_running && k < ZI_TOGETHER; k++)
        if (c->running[k] == i) return c->rest_ns[k];
    return zi_sweep_rest(&c->v->job[i]);
}

/* The farthest behind of those that want to run, as if they had not begun their steps. */
static double
most_lag(const choice *c)
{
    double most = 0;
    for (size_t i = 0; i < c->v->n_jobs; i++) {
        const zi_job_view *j = &c->v->job[i];
        double             lag = c->z->job[j->id].lag_ns;
        if (lag > most && wants(c->z, j, c->now_ns)) most = lag;
    }
    return most;
}

/* What taking turns does in a second, in seconds of solo work: less than one, as jobs find other
 * jobs' data in the caches. */
static double
turns_rate(const choice *c)
{
    double rate = c->z->trial.seen[true] ? zi_trial_rate(&c->z->trial, c->v, true) : 1;
    return rate > 1 ? 1 : rate < TURNS_LEAST ? TURNS_LEAST : rate;
}

static double
nearer(double from, double to, double by)
{
    if (from < to) return from + by < to ? from + by : to;
    return from - by > to ? from - by : to;
}

/* What all are behind alike nobody can be given, and what all are ahead alike nobody has taken from
 * another: sharing pays, or the machine is not as fast as it was.  Who is behind whom counts. */
static void
level(choice *c)
{
    double least = LAG_MAX * c->longest, most = -LAG_MAX * c->longest, by = 0;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        const zi_job_view *j = &c->v->job[i];
        double             lag = c->z->job[j->id].lag_ns;
        if (!is_present(c->z, j, c->now_ns)) continue;
        if (lag < least) least = lag;
        if (lag > most) most = lag;
    }
    if (least > c->longest) by = least - c->longest;
    if (most < 0) by = most;
    for (size_t i = 0; i < c->v->n_jobs && most >= least; i++)
        c->z->job[c->v->job[i].id].lag_ns -= by;
}

/* Who pauses is owed its share all the same, as under temporal it will go first when it comes back, but
 * no more than who waits.  If it pauses for longer than it must its data is late: it has had more than
 * it can use, and what it was owed goes as time goes by.  After a long pause that goes for what it was
 * ahead, too. */
static void
accrue_idle(const choice *c, size_t i, double most, double passed, double owed)
{
    const zi_job_view *j = &c->v->job[i];
    account           *a = &c->z->job[j->id];
    double             late = (double)(c->now_ns - a->idle_ns) - (double)a->pause_ns;

    if (!is_present(c->z, j, c->now_ns)) {
        a->lag_ns = nearer(a->lag_ns, most, passed);
        return;
    }
    late = late < 0 ? 0 : late > passed ? passed : late;
    if (passed > 0) owed *= 1 - late / passed;
    if (j->state == ZI_JOB_ASKING) /* since now */
        a->lag_ns += owed;
    else if (a->lag_ns < most)
        a->lag_ns = nearer(a->lag_ns, most, owed);
    if (a->lag_ns > 0) a->lag_ns = nearer(a->lag_ns, 0, late);
}

/* Time goes on: everybody who wants to run is owed a share of it.  One that `asks` now has paused until
 * now, or did not begin before. */
static void
accrue(choice *c, size_t asks)
{
    double passed = (double)(c->now_ns - c->z->last_ns), most = most_lag(c);
    double owed = MARGIN * passed * turns_rate(c);

    for (size_t i = 0; c->z->last_ns && i < c->v->n_jobs; i++) {
        const zi_job_view *j = &c->v->job[i];
        account           *a = &c->z->job[j->id];
        double             mine = c->weights > 0 ? owed * weight(j) / c->weights : 0;
        if (i == asks ? ended_just_now(a, c->now_ns) : wants(c->z, j, c->now_ns))
            a->lag_ns += mine;
        else
            accrue_idle(c, i, most, passed, mine);
        if (a->lag_ns > LAG_MAX * c->longest) a->lag_ns = LAG_MAX * c->longest;
        if (a->lag_ns < -SPREAD * c->longest) a->lag_ns = -SPREAD * c->longest;
    }
    level(c);
    c->z->last_ns = c->now_ns;
}

/* Lag now, with the part of the present step that is done. */
static double
lag_of(const choice *c, size_t i)
{
    const zi_job_view *j = &c->v->job[i];
    double             lag = c->z->job[j->id].lag_ns;

    if (j->state == ZI_JOB_RUNNING) lag -= zi_policy_solo_ns(j) - (double)rest_of(c, i);
    return lag;
}

/* How far behind job i will be when its next step begins, after `delay` of solo time. */
static double
lag_after(const choice *c, size_t i, uint64_t delay)
{
    const zi_job_view *j = &c->v->job[i];
    double             wait = delay == UINT64_MAX ? c->longest : (double)delay;
    double             lag = lag_of(c, i) + wait * weight(j) / c->weights;

    if (j->state == ZI_JOB_RUNNING) lag -= (double)rest_of(c, i);
    return lag;
}

static uint64_t
delay_from(const choice *c, size_t i, size_t also, uint64_t from_ns)
{
    zi_sweep_ask ask = {.starter = i,
                        .also = also,
                        .from_ns = from_ns,
                        .keep_bytes = c->keep};
    uint64_t     delay = zi_sweep_delay(c->v, &ask);

    if (delay > 0 && c->keep && c->n_running == 0 && also == SIZE_MAX) {
        ask.keep_bytes = 0; /* alone it needs nobody's margin */
        delay = zi_sweep_delay(c->v, &ask);
    }
    return delay;
}

/* Solo time until the first of those that run ends; `most` at most. */
static uint64_t
until_end(const choice *c, uint64_t most)
{
    for (size_t i = 0; i < c->v->n_jobs; i++) {
        if (c->v->job[i].state != ZI_JOB_RUNNING) continue;
        uint64_t rest = rest_of(c, i);
        if (rest < most) most = rest;
    }
    return most;
}

/* With job `also`, too: how long until job i could have a core? */
static uint64_t
until_core(const choice *c, size_t i, size_t also)
{
    if (c->v->job[i].state == ZI_JOB_RUNNING || c->n_running + 1 < c->v->n_cores)
        return 0;
    return until_end(c, (uint64_t)zi_policy_solo_ns(&c->v->job[also]));
}

/* The farthest behind that job i will be at any of its next beginnings, if job `also` starts
 * now: looked at for steps that would begin soon, after a quarter and after half of that
 * step, with i at work until then. */
static double
lag_beside(const choice *c, size_t i, size_t also)
{
    const zi_job_view *j = &c->v->job[i];
    double             share = weight(j) / c->weights, worst = -c->longest;
    double             length = zi_policy_solo_ns(&c->v->job[also]);
    uint64_t           rest = j->state == ZI_JOB_RUNNING ? rest_of(c, i) : 0;
    uint64_t           core = until_core(c, i, also);

    if (runs_alone(c->z, j)) /* begins when nobody runs any more */
        return lag_after(c, i,
                         (uint64_t)(length > c->longest_rest ? length : c->longest_rest));
    for (int k = 0; k < 3; k++) {
        uint64_t from = (uint64_t)(length * 0.25 * k);
        if (from < rest) from = rest;
        if (from < core) from = core;
        uint64_t begins = delay_from(c, i, also, from);
        double   wait = begins == UINT64_MAX ? c->longest : (double)(begins - from);
        double   lag = lag_of(c, i) - (1 - share) * (double)(from - core) + share * wait;
        if (lag > worst) worst = lag;
    }
    return worst;
}

/* -- who runs well beside whom? ----------------------------------------------------------- */

/* What a job's progress is worth: the more, the farther it is behind. */
static double
price(const choice *c, size_t i)
{
    double lag = c->longest > 0 ? PRICE * lag_of(c, i) / c->longest : 0;
    return lag < 0 ? 1 / (1 - lag) : 1 + lag;
}

/* What those that run do in a time, with two more (SIZE_MAX: nobody); at prices, or in solo time.
 * 0 if nothing is known of so many. */
static double
worth_of(const choice *c, size_t also, size_t third, bool at_prices)
{
    size_t job[ZI_TOGETHER + 2], n = 0;
    double sum = 0;

    if (c->n_running > ZI_TOGETHER) return 0;
    for (size_t k = 0; k < c->n_running; k++) job[n++] = c->running[k];
    if (also != SIZE_MAX) job[n++] = also;
    if (third != SIZE_MAX) job[n++] = third;
    for (size_t i = 0; i < n; i++) {
        double pace = 1;
        for (size_t k = 0; k < n; k++)
            if (k != i)
                pace += zi_neighbours_cost(&c->z->beside, c->v->job[job[i]].id,
                                           c->v->job[job[k]].id);
        sum += (at_prices ? price(c, job[i]) : 1) / pace;
    }
    return sum;
}

/* What two jobs do beside each other, in solo time. */
static double
worth_of_two(const choice *c, const zi_job_view *a, const zi_job_view *b)
{
    return 1 / (1 + zi_neighbours_cost(&c->z->beside, a->id, b->id)) +
           1 / (1 + zi_neighbours_cost(&c->z->beside, b->id, a->id));
}

/* What each job does with the one that it gets on with best, in the mean; 0: nobody is there. */
static double
worth_beside(const choice *c)
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        const zi_job_view *a = &c->v->job[i];
        double             best = 1;
        if (!is_present(c->z, a, c->now_ns)) continue;
        for (size_t k = 0; k < c->v->n_jobs; k++) {
            const zi_job_view *b = &c->v->job[k];
            if (k == i || !is_present(c->z, b, c->now_ns)) continue;
            double both = worth_of_two(c, a, b);
            if (both > best) best = both;
        }
        sum += best;
        n++;
    }
    return n > 0 ? sum / n : 0;
}

/* -- choosing ----------------------------------------------------------------------------- */

/* The n jobs with the most lag for which `test` holds, most first. */
static size_t
most_behind(const choice *c, bool (*test)(const choice *, size_t), size_t *ret, size_t n)
{
    double lag[CANDIDATES > VICTIMS ? CANDIDATES : VICTIMS];
    size_t found = 0;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        if (!test(c, i)) continue;
        double mine = lag_of(c, i);
        size_t at = found < n ? found++ : n;
        if (at == n && mine <= lag[n - 1]) continue;
        if (at == n) at--;
        for (; at > 0 && lag[at - 1] < mine; at--) {
            lag[at] = lag[at - 1];
            ret[at] = ret[at - 1];
        }
        lag[at] = mine;
        ret[at] = i;
    }
    return found;
}

static bool
is_asking(const choice *c, size_t i)
{
    return c->v->job[i].state == ZI_JOB_ASKING;
}

static bool
is_victim(const choice *c, size_t i)
{
    return wants(c->z, &c->v->job[i], c->now_ns);
}

/* Farther behind than anybody, and by more than a little: holding it back for the sake of others
 * who wait as well would help none of them. */
static bool
is_late(const choice *c, size_t i)
{
    double own = lag_of(c, i);

    for (size_t k = 0; k < c->v->n_jobs; k++)
        if (is_victim(c, k) && lag_of(c, k) > own) return false;
    return own > BEHIND * c->longest;
}

/* Somebody is farther behind than it and would lose cores to it: begin no later, but go slower.  One
 * who pauses would find them taken when it comes back; so beside others nobody begins for its sake. */
static bool
takes_cores(const choice *c, size_t starter)
{
    double own = lag_of(c, starter), bound = BEHIND * c->longest;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        double lag = lag_of(c, i);
        if (i == starter || lag <= bound || own >= lag - bound) continue;
        if (is_victim(c, i)) return true;
        if (c->n_running > 0 && is_present(c->z, &c->v->job[i], c->now_ns)) return true;
    }
    return false;
}

/* How far behind the worst victim of starting job `i` would be when it can begin. */
static double
cost_of(const choice *c, size_t i, const size_t *victim, size_t n_victims)
{
    double   worst = -c->longest, bound = TOLERANCE * c->longest;
    uint64_t length = (uint64_t)zi_policy_solo_ns(&c->v->job[i]);

    for (size_t k = 0; k < n_victims; k++) {
        if (victim[k] == i) continue;
        double lag = lag_after(c, victim[k], 2 * length);
        if (lag > bound) lag = lag_beside(c, victim[k], i);
        if (lag > worst) worst = lag;
    }
    return worst;
}

typedef struct pick {
    size_t   job; /* SIZE_MAX: nobody */
    double   cost, worth;
    uint64_t wake_ns;
} pick;

static void
say(const choice *c, zi_out *out, size_t i, zi_reason why)
{
    size_t behind = SIZE_MAX;
    for (size_t k = 0; k < c->v->n_jobs; k++)
        if (c->v->job[k].state == ZI_JOB_RUNNING &&
            (behind == SIZE_MAX ||
             c->v->job[k].step_bytes > c->v->job[behind].step_bytes))
            behind = k;
    zi_out_add(out, ZI_ANSWER_REASON, i,
               behind == SIZE_MAX ? ZI_JOB_NONE : c->v->job[behind].id, why);
}

/* The most that a job was ever seen to hold: claims have a twentieth on top. */
static uint64_t
worst_of(const zi_job_view *j)
{
    uint64_t worst =
        j->claim_known ? j->claim_bytes - j->claim_bytes / 21 : j->claim_bytes;
    return worst > j->step_bytes ? worst : j->step_bytes;
}

/* Could it and all that run reach their peaks at the same time?  Then no prediction matters. */
static bool
peaks_fit(const choice *c, size_t i)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < c->v->n_jobs; k++) {
        const zi_job_view *j = &c->v->job[k];
        bool               runs = k == i || j->state == ZI_JOB_RUNNING;
        sum += j->fixed_bytes + (runs ? worst_of(j) : j->step_bytes);
    }
    return sum <= c->v->budget_bytes;
}

/* Is there a core for it, and does nobody have to be alone? */
static bool
may_run_beside(const choice *c, size_t i)
{
    if (!zi_policy_core_free(c->v, i)) return false;
    if (c->n_on_time == 0) return true; /* who is overdue may never end: tides decide */
    if (c->z->trial.turns || c->fresh || !c->z->job[c->v->job[i].id].warm) return false;
    return peaks_fit(c, i) || (!c->turns && !runs_alone(c->z, &c->v->job[i]));
}

/* What is done in a time if job i starts; where nobody runs, with the best neighbour for it. */
static double
worth_starting(const choice *c, size_t i)
{
    double best = worth_of(c, i, SIZE_MAX, true);

    for (size_t k = 0; c->n_running == 0 && c->v->n_cores > 1 && k < c->v->n_jobs; k++) {
        if (k == i || !is_victim(c, k)) continue;
        double with = worth_of(c, i, k, true);
        if (with > best) best = with;
    }
    return best;
}

/* Is no less done with job i, whoever does it? */
static bool
pays(const choice *c, size_t i)
{
    return c->n_on_time == 0 ||
           worth_of(c, i, SIZE_MAX, false) >= worth_of(c, SIZE_MAX, SIZE_MAX, false);
}

/* Does somebody who asks again in a moment do so much more that it is worth the time until then? */
static bool
better_to_wait(const choice *c, double worth)
{
    for (size_t i = 0; i < c->v->n_jobs && c->n_about > 0; i++) {
        const zi_job_view *j = &c->v->job[i];
        const account     *a = &c->z->job[j->id];
        if (!a->warm || !is_about_to_ask(c->z, j, c->now_ns) || !may_run_beside(c, i))
            continue;
        double lost = (double)a->gap_ns / zi_policy_solo_ns(j);
        if (worth_starting(c, i) <= worth * (1 + lost)) continue;
        if (peaks_fit(c, i) || delay_from(c, i, SIZE_MAX, 0) == 0) return true;
    }
    return false;
}

/* Of the candidates that fit now and whose worst victim would be about as little behind as
 * possible, the one with which most is done; but one that is late goes before them. */
static pick
choose(const choice *c, zi_out *out)
{
    size_t candidate[CANDIDATES], victim[VICTIMS];
    double cost[CANDIDATES], worth[CANDIDATES], least = 0;
    double now = c->n_on_time > 0 ? worth_of(c, SIZE_MAX, SIZE_MAX, true) : 0;
    bool   fits[CANDIDATES] = {false}, any = false;
    size_t n = most_behind(c, is_asking, candidate, CANDIDATES);
    size_t n_victims = most_behind(c, is_victim, victim, VICTIMS);
    pick   best = {.job = SIZE_MAX, .wake_ns = UINT64_MAX};

    for (size_t k = 0; k < n; k++) {
        uint64_t delay;
        worth[k] = worth_starting(c, candidate[k]);
        if (!may_run_beside(c, candidate[k]) || worth[k] < now ||
            !pays(c, candidate[k])) {
            say(c, out, candidate[k], ZI_REASON_TURN);
        } else if (!peaks_fit(c, candidate[k]) &&
                   (delay = delay_from(c, candidate[k], SIZE_MAX, 0)) > 0) {
            say(c, out, candidate[k], ZI_REASON_TIDE);
            if (delay < best.wake_ns) best.wake_ns = delay;
        } else {
            cost[k] = cost_of(c, candidate[k], victim, n_victims);
            if (!any || cost[k] < least) least = cost[k];
            fits[k] = any = true;
        }
    }
    for (size_t k = 0; k < n; k++) { /* most behind first */
        bool late = fits[k] && is_late(c, candidate[k]);
        if (!fits[k] || (cost[k] > least + TOLERANCE * c->longest && !late)) continue;
        if (best.job != SIZE_MAX && worth[k] <= best.worth) continue;
        best.job = candidate[k];
        best.cost = cost[k];
        best.worth = worth[k];
        if (late) return best;
    }
    if (best.job != SIZE_MAX && better_to_wait(c, best.worth)) {
        say(c, out, best.job, ZI_REASON_TURN);
        best.job = SIZE_MAX;
        best.wake_ns = WAKE_NS;
    }
    return best;
}

/* How far behind the worst of those who ask would be at the next occasion, if nobody starts. */
static double
cost_of_waiting(const choice *c)
{
    uint64_t next = until_end(c, c->n_about ? WAKE_NS : (uint64_t)c->longest);
    double   worst = -c->longest;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        if (!is_asking(c, i)) continue;
        double lag = lag_after(c, i, next);
        if (lag > worst) worst = lag;
    }
    return worst;
}

/* Others that could begin while a command runs, for which it must leave cores free. */
static size_t
count_soon(const choice *c, size_t starter)
{
    size_t   n = 0;
    uint64_t half = (uint64_t)zi_policy_solo_ns(&c->v->job[starter]) / 2;

    if (c->v->job[starter].told_in_step) return 0;
    for (size_t i = 0; i < c->v->n_jobs && n + 1 < c->v->n_cores; i++)
        if (i != starter && c->v->job[i].state != ZI_JOB_RUNNING && is_victim(c, i) &&
            delay_from(c, i, starter, 0) <= half)
            n++;
    return n;
}

/* Would starting it leave somebody further behind than it is itself, and than waiting would? */
static bool
is_unfair(const choice *c, const pick *p)
{
    double own = lag_of(c, p->job);

    if (c->n_about == 0 && c->n_on_time == 0) return false; /* somebody must go */
    if (is_late(c, p->job)) return false;
    if (takes_cores(c, p->job)) return true;
    return p->cost > TOLERANCE * c->longest + (own > 0 ? own : 0) &&
           p->cost > cost_of_waiting(c);
}

/* Taking turns: who is most behind, if nobody runs; just after a step also a job that is about
 * to ask again. */
static pick
choose_in_turn(const choice *c, zi_out *out)
{
    pick   best = {.job = SIZE_MAX, .wake_ns = UINT64_MAX};
    size_t next = SIZE_MAX;

    for (size_t i = 0; i < c->v->n_jobs; i++) {
        if (!is_victim(c, i) || c->v->job[i].state == ZI_JOB_RUNNING) continue;
        if (is_asking(c, i)) say(c, out, i, ZI_REASON_TURN);
        if (next == SIZE_MAX || lag_of(c, i) > lag_of(c, next)) next = i;
    }
    if (next == SIZE_MAX || c->n_on_time > 0) return best;
    if (is_asking(c, next))
        best.job = next;
    else
        best.wake_ns = WAKE_NS;
    return best;
}

/* When nothing happens before: a part of the longest step, as lags change with time. */
static uint64_t
look_again(const choice *c)
{
    uint64_t part = (uint64_t)(c->longest / LOOKS);
    return part > 5 * WAKE_NS ? part : 5 * WAKE_NS;
}

static void
decide(const choice *c, zi_out *out)
{
    bool turns = c->z->trial.turns && c->n_running == 0;
    pick p = turns ? choose_in_turn(c, out) : choose(c, out);

    if (p.job != SIZE_MAX && !turns && is_unfair(c, &p)) {
        say(c, out, p.job, ZI_REASON_FAIRNESS);
        p.job = SIZE_MAX;
        uint64_t soon = c->n_about ? WAKE_NS : look_again(c);
        if (p.wake_ns > soon) p.wake_ns = soon;
    }
    zi_policy_divide_cores(c->v, p.job, p.job == SIZE_MAX ? 0 : count_soon(c, p.job),
                           out);
    if (p.job != SIZE_MAX)
        zi_out_add(out, ZI_ANSWER_GO, p.job, 0, 0);
    else if (p.wake_ns != UINT64_MAX)
        zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0,
                   c->now_ns + (p.wake_ns > WAKE_NS ? p.wake_ns : WAKE_NS));
}

/* -- events ------------------------------------------------------------------------------- */

/* Its steps are others from now on, unless it answers that it goes on as it did. */
static void
note_plan(zico *z, const zi_job_view *j)
{
    account *a = &z->job[j->id];

    if (a->plan_bytes != j->plan_bytes) a->n_beside = a->n_since = 0;
    a->plan_bytes = j->plan_bytes;
}

/* A step began: who is alone in its own? */
static void
note_company(zico *z, const zi_view *v, size_t starter)
{
    bool alone = true;

    for (size_t i = 0; i < v->n_jobs; i++) {
        if (i == starter || v->job[i].state != ZI_JOB_RUNNING) continue;
        z->job[v->job[i].id].alone = false;
        alone = false;
    }
    z->job[v->job[starter].id].alone = alone;
    zi_neighbours_step_began(&z->beside, v->job[starter].id);
}

/* One of a job's first steps is over, which it ran alone: was it still warming up? */
static void
note_warmth(account *a, const zi_job_view *j)
{
    uint64_t net = j->last_step_ns > j->stall_ns ? j->last_step_ns - j->stall_ns : 0;

    if (a->warm) return;
    a->warm = a->n_steps >= ALONE_MAX ||
              (a->n_steps >= ALONE_MIN && net + net / ALONE_PART >= a->best_ns);
    if (a->best_ns == 0 || net < a->best_ns) a->best_ns = net;
}

static void
note_pause(account *a, uint64_t now_ns)
{
    uint64_t pause_ns = now_ns - a->idle_ns;

    if (a->idle_ns == 0) return;
    zi_policy_note_gap(&a->gap_ns, pause_ns, GAP_NS);
    if (pause_ns < a->pause_ns || a->n_steps < 2)
        a->pause_ns = pause_ns;
    else
        a->pause_ns += (pause_ns - a->pause_ns) / PAUSES;
}

/* What a step takes alone: as the desk knows it, unless the machine has moved since and steps alone were
 * seen to take another time here.  How much that is differs by job, and shares would, too. */
static double
solo_here(const zico *z, const zi_job_view *j)
{
    double solo = zi_policy_solo_ns(j), here = z->trial.job[j->id].alone_ns;
    bool   agree = here <= 0 || (here < solo * SOLO_OFF && solo < here * SOLO_OFF);
    return agree ? solo : here;
}

/* Its first steps beside others, and those with another plan, are slow: they tell nothing. */
static bool
is_used_to_it(const account *a)
{
    return a->warm && (a->n_beside >= BESIDE_MIN || a->n_since >= BESIDE_MAX);
}

static void
step_ended(zico *z, const zi_job_view *j)
{
    account *a = &z->job[j->id];

    a->lag_ns -= a->alone ? (double)j->last_step_ns : solo_here(z, j);
    if (a->plan_bytes == 0 || is_used_to_it(a))
        zi_neighbours_step_ended(&z->beside, j->id, solo_here(z, j));
    zi_trial_step_ended(&z->trial, j->id, a->alone ? j->last_step_ns : 0);
    if (a->n_steps < UINT32_MAX) a->n_steps++;
    if (a->warm && a->n_since < UINT32_MAX) {
        a->n_since++;
        a->n_beside += !a->alone;
    }
    note_warmth(a, j);
    if (j->n_mispredicted > a->n_mispredicted) {
        a->n_mispredicted = j->n_mispredicted;
        a->points = a->points + 2 < TRUST_MAX ? a->points + 2 : TRUST_MAX;
        a->n_good = 0;
    } else {
        if (a->points > 0) a->points--;
        if (a->n_good < UINT32_MAX) a->n_good++;
    }
    if (a->points >= TRUST_MUX) a->takes_turns = true;
    if (a->points <= TRUST_BACK) a->takes_turns = false;
}

static bool
somebody_fresh(const choice *c)
{
    for (size_t i = 0; i < c->v->n_jobs; i++) {
        const zi_job_view *j = &c->v->job[i];
        if (is_present(c->z, j, c->now_ns) && !is_used_to_it(&c->z->job[j->id]))
            return true;
    }
    return false;
}

/* A virtual machine's cores move: at times they share a cache and at times they do not, and what pays in
 * the one case does not in the other.  Of each it is known what did; a third is taken for the other of two,
 * until its own trials tell, and one that moves all the time is taken for one. */
static void
change_machine(const choice *c, zi_out *out)
{
    zico   *z = c->z;
    machine left = {z->trial, z->shrink};
    double  since = (double)(c->now_ns - z->moved_ns);

    z->trial.moved = false;
    if (z->moved_ns && since < MACHINE_STAYS * c->longest) return;
    z->moved_ns = c->now_ns;
    z->n_moved++;
    z->trial = z->other.trial;
    z->shrink = z->other.shrink;
    z->other = left;
    zi_trial_enter(&z->trial);
    zi_shrink_enter(&z->shrink, c->v, &z->trial, out);
}

/* Would all do more if some took less? */
static void
look_at_plans(const choice *c, zi_out *out)
{
    zico  *z = c->z;
    double beside = zi_shrink_is_due(&z->shrink, &z->trial) ? worth_beside(c) : 0;

    zi_shrink_look(&z->shrink, c->v, &z->trial, beside, c->now_ns, out);
}

static bool
somebody_asks(const zi_view *v)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->job[i].state == ZI_JOB_ASKING) return true;
    return false;
}

static void
zico_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    zico  *z = state;
    choice c;

    zi_neighbours_look(&z->beside, v, ev->now_ns);
    if (ev->kind == ZI_EVENT_JOIN || ev->kind == ZI_EVENT_LEAVE) {
        z->job[v->job[ev->job].id] = (account){0};
        zi_neighbours_forget(&z->beside, v->job[ev->job].id);
    }
    if (ev->kind == ZI_EVENT_JOIN || ev->kind == ZI_EVENT_LEAVE ||
        z->trial.budget_bytes != v->budget_bytes) {
        zi_trial_begin(&z->trial, v->budget_bytes);
        zi_shrink_begin(&z->shrink);
        z->other = (machine){z->trial, z->shrink};
        z->other.shrink.good = z->shrink.always;
    }
    if (ev->kind == ZI_EVENT_STEP_BEGAN) note_company(z, v, ev->job);
    if (ev->kind == ZI_EVENT_PLANNED) note_plan(z, &v->job[ev->job]);
    if (ev->kind == ZI_EVENT_LEASE_ASK) return;
    if (ev->kind == ZI_EVENT_REGION && (ev->delta_bytes > 0 || !somebody_asks(v))) {
        zi_policy_divide_cores(v, SIZE_MAX, 0, out);
        return;
    }
    if (ev->kind == ZI_EVENT_STEP_END) /* it wanted the time that has passed */
        z->job[v->job[ev->job].id].idle_ns = ev->now_ns;
    sum_up(&c, z, v, ev->now_ns);
    accrue(&c, ev->kind == ZI_EVENT_STEP_ASK ? ev->job : SIZE_MAX);
    if (ev->kind == ZI_EVENT_STEP_ASK)
        note_pause(&z->job[v->job[ev->job].id], ev->now_ns);
    if (ev->kind == ZI_EVENT_STEP_END) {
        step_ended(z, &v->job[ev->job]);
        sum_up(&c, z, v, ev->now_ns);
        zi_trial_look(&z->trial, v, ev->now_ns, c.longest,
                      c.weights > 0 && !somebody_fresh(&c));
    }
    if (ev->kind == ZI_EVENT_STEP_END && z->trial.moved && !z->trial.canary)
        change_machine(&c, out);
    if (ev->kind == ZI_EVENT_STEP_END || ev->kind == ZI_EVENT_PLANNED)
        look_at_plans(&c, out);
    if (ev->kind == ZI_EVENT_REGION && !zi_policy_core_left(v))
        zi_policy_divide_cores(v, SIZE_MAX, 0, out); /* memory alone starts nobody */
    else
        decide(&c, out);
}

/* An epoch in which others decided tells nothing; the next one begins with the next step's end.  Nor is
 * it known for how long the machine has been as it is. */
static void
zico_on_break(void *state)
{
    zico *z = state;
    z->moved_ns = 0;
    zi_trial_break(&z->trial);
    zi_neighbours_break(&z->beside);
}

/* What is done now, what it is worth, when that is looked at again, how jobs plan. */
static void
zico_explain(const void *state, char *ret_text, size_t size)
{
    const zico     *z = state;
    const zi_trial *t = &z->trial;
    char            seen[96] = "not tried yet", moved[48] = "";

    if (t->n_done > 0)
        zi_fmt(seen, sizeof seen,
               "side by side does %.2f of turns (%.2f when last tried), %u tries",
               t->ratio, t->seen_ratio, t->n_done);
    if (z->n_moved > 0)
        zi_fmt(moved, sizeof moved, "; the machine changed %u times", z->n_moved);
    zi_fmt(ret_text, size, "%s; %s; next try in %u epochs; plans %s%s",
           t->canary  ? "one step alone"
           : t->turns ? "in turn"
                      : "side by side",
           seen, t->n_left, zi_shrink_word(&z->shrink), moved);
}

const zi_policy_ops zi_policy_zico = {
    .name = "zico",
    .origin = "Zico, USENIX ATC 2021",
    .state_size = sizeof(zico),
    .init = zico_init,
    .on_event = zico_on_event,
    .on_break = zico_on_break,
    .explain = zico_explain,
};

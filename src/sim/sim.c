/* sim.c -- the virtual clock: finds what happens next, lets it happen, watches. */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

/* -- opening --------------------------------------------------------------------------- */

static zico_status
check_options(const zi_sim_options *opt, const zi_sim_job *jobs, size_t n_jobs)
{
    if (n_jobs == 0 || n_jobs > ZI_SIM_JOBS_MAX) return ZICO_E_ARG;
    if (opt->n_cores == 0 || opt->n_cores > ZI_SIM_CORES_MAX) return ZICO_E_ARG;
    if (opt->region_bytes == 0 || opt->budget_bytes < opt->region_bytes)
        return ZICO_E_ARG;
    for (size_t i = 0; i < n_jobs; i++) {
        if (zi_tide_verify(&jobs[i].tide) < 0 || jobs[i].tide.length_ns == 0)
            return ZICO_E_ARG;
        if (jobs[i].time_noise < 0 || jobs[i].time_noise >= 1) return ZICO_E_ARG;
        if (jobs[i].byte_noise < 0 || jobs[i].byte_noise >= 1) return ZICO_E_ARG;
    }
    return ZICO_OK;
}

static uint64_t
highest_budget(const zi_sim_options *opt)
{
    uint64_t most = opt->budget_bytes;
    for (size_t i = 0; i < opt->n_changes; i++)
        if (opt->change[i].budget_bytes > most) most = opt->change[i].budget_bytes;
    return most;
}

static void
close_sim(zi_sim *s)
{
    for (size_t i = 0; s->actor && i < s->n; i++) zi_free(s->actor[i].region);
    zi_free(s->actor);
    zi_free(s->owner);
    zi_desk_free(s->desk);
}

static zico_status
open_sim(zi_sim *s, const zi_sim_options *opt, const zi_sim_job *jobs, size_t n_jobs)
{
    *s = (zi_sim){.opt = opt, .n = n_jobs, .wake_ns = ZI_SIM_NEVER};
    s->rng = zi_rng_seed(opt->seed);
    s->n_regions = (uint32_t)(highest_budget(opt) / opt->region_bytes + 1);
    s->owner = zi_calloc(s->n_regions, sizeof *s->owner);
    s->actor = zi_calloc(n_jobs, sizeof *s->actor);
    if (!s->owner || !s->actor) return ZICO_E_NOMEM;
    for (size_t i = 0; i < n_jobs; i++) {
        s->actor[i] = (zi_sim_actor){.spec = &jobs[i],
                                     .wake_ns = jobs[i].arrive_ns,
                                     .due_ns = ZI_SIM_NEVER};
        s->actor[i].region = zi_malloc(s->n_regions * sizeof *s->actor[i].region);
        if (!s->actor[i].region) return ZICO_E_NOMEM;
    }
    zi_desk_options desk = {
        .shape = {opt->region_bytes, s->n_regions, opt->budget_bytes},
        .n_cores = opt->n_cores,
        .policy = opt->policy ? opt->policy : "zico",
        .seed = opt->seed,
    };
    return zi_desk_new(&desk, &s->desk);
}

/* -- watching -------------------------------------------------------------------------- */

static void
watch(zi_sim *s)
{
    zi_ledger_totals sum;

    if (s->opt->verify_every && s->out.n_calls % s->opt->verify_every == 0 &&
        !s->out.broken)
        (void)zi_desk_verify(s->desk, &s->out.broken);
    zi_ledger_sum(zi_desk_ledger(s->desk), &sum);
    if (s->held_bytes > sum.budget_bytes) s->out.n_over_budget++; /* R1 */
    if (s->held_bytes > s->out.peak_bytes) s->out.peak_bytes = s->held_bytes;
}

void
zi_sim_listen(zi_sim *s)
{
    zi_effect e;

    while (zi_desk_next(s->desk, &e)) {
        if (e.kind == ZI_EFFECT_WAKE_AT) {
            if (e.value < s->wake_ns) s->wake_ns = e.value;
        } else if (e.job < ZI_LEDGER_JOBS_MAX && s->by_id[e.job]) {
            zi_sim_obey(s, s->by_id[e.job], &e);
        }
    }
    watch(s);
}

/* Who computes has changed: everybody's speed may have. */
static void
aim_all(zi_sim *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n; i++) n += s->actor[i].state == ZI_SIM_COMPUTING;
    s->dirty = false;
    if (n == s->n_computing) return;
    for (size_t i = 0; i < s->n; i++) zi_sim_catch_up(s, &s->actor[i]);
    s->n_computing = n;
    for (size_t i = 0; i < s->n; i++) zi_sim_aim(s, &s->actor[i]);
}

/* -- time ------------------------------------------------------------------------------ */

typedef struct next {
    uint64_t      at_ns;
    zi_sim_actor *actor; /* NULL: the desk's timer or a change of the budget */
    bool          dies;
} next;

static next
find_next(const zi_sim *s)
{
    next n = {.at_ns = s->wake_ns};

    if (s->next_change < s->opt->n_changes &&
        s->opt->change[s->next_change].at_ns < n.at_ns)
        n.at_ns = s->opt->change[s->next_change].at_ns;
    for (size_t i = 0; i < s->n; i++) {
        zi_sim_actor *a = &s->actor[i];
        uint64_t      at = a->wake_ns < a->due_ns ? a->wake_ns : a->due_ns;
        if (a->state == ZI_SIM_GONE) continue;
        if (at < n.at_ns) n = (next){.at_ns = at, .actor = a};
        if (a->spec->die_ns && a->spec->die_ns < n.at_ns)
            n = (next){.at_ns = a->spec->die_ns, .actor = a, .dies = true};
    }
    return n;
}

/* Nothing can happen any more: is somebody left who waits?  A job between steps that waits for
 * a budget that was lowered below its need does so until people raise it again. */
static bool
somebody_waits(const zi_sim *s)
{
    for (size_t i = 0; i < s->n; i++) {
        zi_sim_state st = s->actor[i].state;
        zi_waiting   w;
        if (st == ZI_SIM_LOADING || st == ZI_SIM_STALLED) return true;
        if (st != ZI_SIM_ASKING) continue;
        zi_desk_waiting(s->desk, s->actor[i].id, &w);
        bool by_people = w.reason == ZI_REASON_ADMISSION || w.reason == ZI_REASON_LIMIT;
        if (!by_people || s->opt->n_changes == 0) return true;
    }
    return false;
}

static void
tick(zi_sim *s)
{
    while (s->next_change < s->opt->n_changes &&
           s->opt->change[s->next_change].at_ns <= s->now_ns) {
        (void)zi_desk_set_budget(s->desk, s->opt->change[s->next_change++].budget_bytes,
                                 s->now_ns);
        zi_sim_listen(s);
    }
    if (s->wake_ns > s->now_ns) return;
    s->wake_ns = ZI_SIM_NEVER;
    s->out.n_calls++;
    (void)zi_desk_tick(s->desk, s->now_ns);
}

static void
run(zi_sim *s)
{
    for (;;) {
        next n = find_next(s);
        if (n.at_ns == ZI_SIM_NEVER) {
            s->out.deadlock = somebody_waits(s);
            break;
        }
        if (n.at_ns > s->opt->horizon_ns) {
            s->now_ns = s->opt->horizon_ns;
            break;
        }
        if (n.at_ns > s->now_ns) s->now_ns = n.at_ns;
        if (!n.actor)
            tick(s);
        else if (n.dies)
            zi_sim_leave(s, n.actor);
        else
            zi_sim_act(s, n.actor);
        zi_sim_listen(s);
        if (s->dirty) aim_all(s);
    }
}

/* -- the report ------------------------------------------------------------------------ */

static void
report(zi_sim *s, zi_sim_result *ret_result, zi_sim_job_result *ret_jobs)
{
    double progress = 0;

    s->out.end_ns = s->now_ns;
    for (size_t i = 0; i < s->n; i++) {
        zi_sim_actor *a = &s->actor[i];
        zi_sim_catch_up(s, a);
        if (a->state == ZI_SIM_COMPUTING || a->state == ZI_SIM_STALLED)
            a->out.progress_ns += a->at_ns / a->stretch;
        if (a->state == ZI_SIM_ASKING) a->out.waited_ns += s->now_ns - a->asked_ns;
        if (a->state != ZI_SIM_GONE && a->state != ZI_SIM_ABSENT) {
            zi_waiting w;
            zi_desk_waiting(s->desk, a->id, &w);
            a->out.exchanged_bytes = w.exchanged_bytes;
            a->out.reason = w.reason;
            a->out.asked_bytes = w.asked_bytes;
            a->out.held_bytes = a->n_held * s->opt->region_bytes + a->private_bytes;
        }
        uint64_t until = a->out.ended_ns ? a->out.ended_ns : s->now_ns;
        uint64_t from = a->spec->arrive_ns;
        if (until > from)
            a->out.rate = (double)a->out.n_steps * 1e9 / (double)(until - from);
        progress += a->out.progress_ns;
        if (ret_jobs) ret_jobs[i] = a->out;
    }
    s->out.throughput = s->now_ns ? progress / (double)s->now_ns : 0;
    *ret_result = s->out;
}

zico_status
zi_sim_run(const zi_sim_options *opt, const zi_sim_job *jobs, size_t n_jobs,
           zi_sim_result *ret_result, zi_sim_job_result *ret_jobs)
{
    zi_sim s;

    ZI_TRY(check_options(opt, jobs, n_jobs));
    zico_status st = open_sim(&s, opt, jobs, n_jobs);
    if (st == ZICO_OK) {
        run(&s);
        report(&s, ret_result, ret_jobs);
    }
    close_sim(&s);
    return st;
}

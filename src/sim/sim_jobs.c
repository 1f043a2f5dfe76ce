/* sim_jobs.c -- one job's life, driven by its own clock and by the desk's effects. */
#include "sim/sim_private.h"

#include <math.h>
#include <string.h>
#include "base/check.h"

static void
look(zi_sim *s, const zi_sim_actor *a)
{
    if (!s->opt->on_held) return;
    s->opt->on_held(s->opt->user, s->now_ns, (size_t)(a - s->actor),
                    a->n_held * s->opt->region_bytes + a->private_bytes,
                    a->state == ZI_SIM_COMPUTING);
}

static void
set_state(zi_sim *s, zi_sim_actor *a, zi_sim_state state)
{
    if (a->state == ZI_SIM_COMPUTING || state == ZI_SIM_COMPUTING) s->dirty = true;
    a->state = state;
    a->due_ns = a->wake_ns = ZI_SIM_NEVER;
}

/* -- speed ----------------------------------------------------------------------------- */

static bool
are_apart(const zi_sim *s)
{
    uint64_t apart = s->opt->apart_ns;
    return s->opt->apart_again ? apart && s->now_ns / apart % 2 == 0 : s->now_ns < apart;
}

static double
speed_of(const zi_sim *s, const zi_sim_actor *a)
{
    const zi_sim_job *j = a->spec;
    uint32_t          c = a->cores ? a->cores : 1;
    double            speed = c <= ZI_SIM_CORES_MAX ? j->speed[c] : 0;

    if (speed <= 0)
        speed = pow((double)c / s->opt->n_cores, j->scaling > 0 ? j->scaling : 0.7);
    if (s->n_computing <= ZI_SIM_CORES_MAX && s->opt->corun[s->n_computing] > 0)
        speed *= s->opt->corun[s->n_computing];
    if (c > 1 && are_apart(s) && s->opt->apart_speed > 0) speed *= s->opt->apart_speed;
    if (j->stop_for_ns && s->now_ns >= j->stop_ns &&
        s->now_ns < j->stop_ns + j->stop_for_ns)
        return 0;
    return speed;
}

void
zi_sim_catch_up(zi_sim *s, zi_sim_actor *a)
{
    if (a->state == ZI_SIM_COMPUTING) {
        a->at_ns += (double)(s->now_ns - a->since_ns) * a->speed;
        if (a->at_ns > a->length_ns) a->at_ns = a->length_ns;
    }
    a->since_ns = s->now_ns;
}

/* Solo time of the next point, or of the end. */
static double
next_stop(const zi_sim_actor *a)
{
    const zi_tide *t = &a->spec->tide;
    if (a->next < t->n_points) return (double)t->point[a->next].at_ns * a->stretch;
    return a->length_ns;
}

void
zi_sim_aim(zi_sim *s, zi_sim_actor *a)
{
    if (a->state != ZI_SIM_COMPUTING) return;
    const zi_sim_job *j = a->spec;
    a->speed = speed_of(s, a);
    a->due_ns = ZI_SIM_NEVER;
    if (a->speed > 0) {
        double left = (next_stop(a) - a->at_ns) / a->speed;
        a->due_ns = s->now_ns + (left > 0 ? (uint64_t)ceil(left) : 0);
    }
    if (j->stop_for_ns && s->now_ns < j->stop_ns && a->due_ns > j->stop_ns)
        a->due_ns = j->stop_ns; /* look again when it is stopped ... */
    if (j->stop_for_ns && s->now_ns >= j->stop_ns &&
        s->now_ns < j->stop_ns + j->stop_for_ns)
        a->due_ns = j->stop_ns + j->stop_for_ns; /* ... and when it goes on */
}

/* -- memory ---------------------------------------------------------------------------- */

static uint32_t
regions_for(const zi_sim *s, int64_t bytes)
{
    if (bytes <= 0) return 0;
    return (uint32_t)(((uint64_t)bytes + s->opt->region_bytes - 1) /
                      s->opt->region_bytes);
}

static void
take_runs(zi_sim *s, zi_sim_actor *a, const zi_grant *g)
{
    uint32_t me = (uint32_t)(a - s->actor) + 1;

    for (size_t i = 0; g && i < g->n_runs; i++)
        for (uint32_t r = g->run[i].first; r < g->run[i].first + g->run[i].n; r++) {
            if (r >= s->n_regions || s->owner[r]) {
                s->out.n_two_owners++; /* R2 */
                continue;
            }
            s->owner[r] = me;
            a->region[a->n_held++] = r;
            s->held_bytes += s->opt->region_bytes;
        }
    uint64_t held = a->n_held * s->opt->region_bytes + a->private_bytes;
    if (held > a->out.peak_bytes) a->out.peak_bytes = held;
    look(s, a);
}

/* Gives the top `n` regions of the stack back, in runs. */
static void
return_regions(zi_sim *s, zi_sim_actor *a, uint32_t n)
{
    zi_run runs[64];
    size_t n_runs = 0;

    while (n > 0) {
        uint32_t r = a->region[--a->n_held];
        n--;
        s->owner[r] = 0;
        s->held_bytes -= s->opt->region_bytes;
        if (n_runs && runs[n_runs - 1].first == r + 1) {
            runs[n_runs - 1].first--;
            runs[n_runs - 1].n++;
        } else {
            runs[n_runs++] = (zi_run){r, 1};
        }
        if (n > 0 && n_runs < 64) continue;
        zico_status st = zi_desk_return(s->desk, a->id, runs, n_runs, s->now_ns);
        zi_assert(st == ZICO_OK);
        (void)st;
        s->out.n_calls++;
        n_runs = 0;
    }
    look(s, a);
}

static void
ask(zi_sim *s, zi_sim_actor *a, zi_hold hold, uint32_t n_regions, uint64_t bytes,
    bool ahead)
{
    zi_request req = {.job = a->id,
                      .seq = ++a->seq,
                      .hold = hold,
                      .n_regions = n_regions,
                      .size_bytes = bytes,
                      .ahead = ahead,
                      .deadline_ns = ZI_SIM_NEVER};
    if (!ahead) a->want_seq = req.seq;
    zico_status st = zi_desk_ask(s->desk, &req, s->now_ns);
    zi_assert(st == ZICO_OK);
    (void)st;
    s->out.n_calls++;
}

/* -- life ------------------------------------------------------------------------------ */

static uint64_t
move_ns(const zi_sim *s, uint64_t bytes)
{
    double per_s = s->opt->move_bytes_per_s;
    return per_s > 0 ? (uint64_t)((double)bytes * 1e9 / per_s) : 0;
}

static void
load(zi_sim *s, zi_sim_actor *a)
{
    uint32_t fixed = regions_for(s, (int64_t)a->spec->fixed_bytes);

    if (a->n_held < fixed) {
        ask(s, a, ZI_HOLD_FIXED, fixed - a->n_held, 0, false);
    } else if (a->private_bytes < a->spec->private_bytes) {
        ask(s, a, ZI_HOLD_PRIVATE, 0, a->spec->private_bytes - a->private_bytes, false);
    } else {
        a->n_fixed = a->n_held;
        set_state(s, a, a->returning ? ZI_SIM_ENTERING : ZI_SIM_GAP);
        a->wake_ns = s->now_ns;
        if (a->returning) a->wake_ns += move_ns(s, a->n_held * s->opt->region_bytes);
        a->returning = false;
    }
}

static void
arrive(zi_sim *s, zi_sim_actor *a)
{
    const zi_sim_job *j = a->spec;
    zi_job_spec       spec = {.limits = j->limits,
                              .claim_bytes = j->claim_bytes,
                              .weight_milli = j->weight_milli,
                              .steps_total = j->n_steps,
                              .features = ZI_FEATURE_STEPS |
                                          (j->native ? ZI_FEATURE_NATIVE : 0) |
                                          (j->can_suspend ? ZI_FEATURE_SUSPEND : 0) |
                                          (j->can_shrink ? ZI_FEATURE_SHRINK : 0),
                              .known_tide = j->knows_tide ? &j->tide : NULL};

    s->out.n_calls++;
    if (zi_desk_join(s->desk, &spec, s->now_ns, &a->id) < 0) {
        a->out.n_denied++;
        a->out.ended_ns = s->now_ns;
        set_state(s, a, ZI_SIM_GONE);
        return;
    }
    s->by_id[a->id] = a;
    a->lean = 1;
    set_state(s, a, ZI_SIM_LOADING);
    load(s, a);
}

void
zi_sim_leave(zi_sim *s, zi_sim_actor *a)
{
    if (a->state == ZI_SIM_GONE) return;
    if (a->state == ZI_SIM_ABSENT) {
        set_state(s, a, ZI_SIM_GONE);
        return;
    }
    zi_sim_catch_up(s, a);
    if (a->state == ZI_SIM_COMPUTING || a->state == ZI_SIM_STALLED)
        a->out.progress_ns += a->at_ns / a->stretch;
    while (a->n_held > 0) {
        s->owner[a->region[--a->n_held]] = 0;
        s->held_bytes -= s->opt->region_bytes;
    }
    s->held_bytes -= a->private_bytes;
    a->private_bytes = 0;
    set_state(s, a, ZI_SIM_GONE);
    a->out.ended_ns = s->now_ns;
    zi_waiting w;
    zi_desk_waiting(s->desk, a->id, &w);
    a->out.exchanged_bytes = w.exchanged_bytes;
    s->by_id[a->id] = NULL;
    s->out.n_calls++;
    (void)zi_desk_leave(s->desk, a->id, s->now_ns);
    look(s, a);
}

static void
ask_step(zi_sim *s, zi_sim_actor *a)
{
    if (a->is_out) return; /* asks when it is back */
    set_state(s, a, ZI_SIM_ASKING);
    a->asked_ns = s->now_ns;
    a->want_seq = ++a->seq;
    s->out.n_calls++;
    zico_status st = zi_desk_step_ask(s->desk, a->id, a->seq, a->out.n_steps, s->now_ns);
    zi_assert(st == ZICO_OK);
    (void)st;
}

/* -- less memory for more time ----------------------------------------------------------- */

#define LEAN_LEAST 0.5 /* of a job's peak */

/* How much longer a step takes, planned as it is. */
static double
lean_stretch(const zi_sim_actor *a)
{
    return 1 + a->spec->lean_cost * (1 - a->lean) / (1 - LEAN_LEAST);
}

static uint64_t
planned_bytes(const zi_sim *s, const zi_sim_actor *a)
{
    return regions_for(s, (int64_t)((double)a->spec->tide.peak_bytes * a->lean)) *
           s->opt->region_bytes;
}

/* Between steps: plans for what is wished if that costs no more than was said, and answers. */
static void
follow_wish(zi_sim *s, zi_sim_actor *a)
{
    double peak = (double)a->spec->tide.peak_bytes;
    double part = a->wish_bytes ? (double)a->wish_bytes / peak : 1;

    a->wish_new = false;
    a->lean = 1;
    zi_job_plan plan = {.full_bytes = planned_bytes(s, a)};
    if (part < 1) a->lean = part < LEAN_LEAST ? LEAN_LEAST : part;
    if (lean_stretch(a) * 1e3 > a->wish_milli) a->lean = 1;
    plan.step_bytes = planned_bytes(s, a);
    plan.cost_milli = (uint32_t)(lean_stretch(a) * 1e3);
    s->out.n_calls++;
    zico_status st = zi_desk_planned(s->desk, a->id, &plan, s->now_ns);
    zi_assert(st == ZICO_OK);
    (void)st;
}

static double
noise(zi_sim *s, double part)
{
    return part > 0 ? 1 + part * (2 * zi_rng_unit(&s->rng) - 1) : 1;
}

static void
begin_step(zi_sim *s, zi_sim_actor *a, uint32_t cores)
{
    const zi_sim_job *j = a->spec;
    uint64_t          waited = s->now_ns - a->asked_ns;

    a->out.waited_ns += waited;
    if (waited > a->out.longest_wait_ns) a->out.longest_wait_ns = waited;
    a->cores = cores;
    a->next = 0;
    a->at_ns = 0;
    a->height = 0;
    a->step_stall_ns = 0;
    a->stretch = noise(s, j->time_noise);
    if (j->warm_up > 0 && a->out.n_steps < (j->warm_steps ? j->warm_steps : 1))
        a->stretch *= 1 + (j->warm_up - 1) / (double)(1ull << a->out.n_steps % 32);
    if (s->n_computing > 0 && a->n_beside++ < j->beside_steps) a->stretch *= j->beside_up;
    a->swell = noise(s, j->byte_noise);
    a->stretch *= lean_stretch(a);
    a->swell *= a->lean;
    if (j->burst_chance > 0 && zi_rng_unit(&s->rng) < j->burst_chance)
        a->swell *= j->burst_factor;
    a->length_ns = (double)j->tide.length_ns * a->stretch;
    a->began_ns = a->since_ns = s->now_ns;
    set_state(s, a, ZI_SIM_COMPUTING);
    zi_sim_aim(s, a);
}

static void
finish_step(zi_sim *s, zi_sim_actor *a)
{
    uint64_t wall = s->now_ns - a->began_ns;

    if (a->n_held > a->n_fixed) return_regions(s, a, a->n_held - a->n_fixed);
    a->out.n_steps++;
    s->out.n_steps++;
    a->out.progress_ns += (double)a->spec->tide.length_ns;
    set_state(s, a, ZI_SIM_GAP);
    s->out.n_calls++;
    zico_status st =
        zi_desk_step_end(s->desk, a->id, a->out.n_steps, NULL, wall - a->step_stall_ns,
                         a->step_stall_ns, s->now_ns);
    zi_assert(st == ZICO_OK);
    (void)st;
    if (a->spec->n_steps && a->out.n_steps >= a->spec->n_steps) {
        zi_sim_leave(s, a);
        return;
    }
    a->wake_ns = s->now_ns + a->spec->gap_ns;
    uint64_t data_ns = a->asked_ns + a->spec->every_ns;
    if (data_ns > a->wake_ns) a->wake_ns = data_ns;
}

/* As the client does when it is called away while it waits for its step. */
static void
ask_again(zi_sim *s, zi_sim_actor *a)
{
    s->out.n_calls++;
    (void)zi_desk_cancel(s->desk, a->id, a->want_seq, s->now_ns);
    set_state(s, a, ZI_SIM_GAP);
    a->wake_ns = s->now_ns;
}

/* Begins to move everything out, at a boundary. */
static void
move_out(zi_sim *s, zi_sim_actor *a)
{
    a->out_wanted = false;
    a->is_out = true;
    if (a->state == ZI_SIM_ASKING) { /* as the client does: it asks again when it is in */
        s->out.n_calls++;
        (void)zi_desk_cancel(s->desk, a->id, a->want_seq, s->now_ns);
    }
    set_state(s, a, ZI_SIM_LEAVING);
    a->wake_ns = s->now_ns + move_ns(s, a->n_held * s->opt->region_bytes);
}

static void
be_out(zi_sim *s, zi_sim_actor *a)
{
    set_state(s, a, ZI_SIM_LOADING); /* of which nothing comes before come_back */
    if (a->n_held > 0) return_regions(s, a, a->n_held);
    a->n_fixed = 0;
    s->out.n_calls++;
    (void)zi_desk_suspended(s->desk, a->id, ZICO_OK, s->now_ns);
}

/* The job stands at a point of its tide, or at the end of the step. */
static void
reach_point(zi_sim *s, zi_sim_actor *a)
{
    const zi_tide *t = &a->spec->tide;

    if (a->next == t->n_points) {
        finish_step(s, a);
        return;
    }
    a->height += t->point[a->next++].delta_bytes;
    uint32_t want = a->n_fixed + regions_for(s, (int64_t)((double)a->height * a->swell));
    if (want > a->n_held) {
        uint32_t n = want - a->n_held;
        set_state(s, a, ZI_SIM_STALLED);
        a->stall_from_ns = s->now_ns;
        ask(s, a, ZI_HOLD_STEP, n, 0, false);
        if (a->spec->n_ahead) ask(s, a, ZI_HOLD_STEP, a->spec->n_ahead, 0, true);
        return;
    }
    if (want < a->n_held) return_regions(s, a, a->n_held - want);
    zi_sim_aim(s, a);
}

void
zi_sim_act(zi_sim *s, zi_sim_actor *a)
{
    switch (a->state) {
    case ZI_SIM_ABSENT:
        arrive(s, a);
        break;
    case ZI_SIM_LEAVING:
        be_out(s, a);
        break;
    case ZI_SIM_ENTERING:
    case ZI_SIM_GAP:
        if (a->out_wanted) {
            move_out(s, a);
            break;
        }
        if (a->wish_new) follow_wish(s, a);
        ask_step(s, a);
        break;
    case ZI_SIM_COMPUTING:
        zi_sim_catch_up(s, a);
        if (a->at_ns + 0.5 >= next_stop(a))
            reach_point(s, a);
        else
            zi_sim_aim(s, a);
        break;
    default:
        break;
    }
}

/* -- what the desk says ---------------------------------------------------------------- */

static void
go_on(zi_sim *s, zi_sim_actor *a)
{
    uint64_t stalled = s->now_ns - a->stall_from_ns;

    a->step_stall_ns += stalled;
    a->out.stalled_ns += stalled;
    a->since_ns = s->now_ns;
    set_state(s, a, ZI_SIM_COMPUTING);
    zi_sim_aim(s, a);
}

static void
obey_grant(zi_sim *s, zi_sim_actor *a, const zi_effect *e)
{
    if (e->hold == ZI_HOLD_PRIVATE) {
        a->private_bytes += e->value;
        s->held_bytes += e->value;
    }
    take_runs(s, a, e->grant);
    if (e->seq != a->want_seq) return; /* taken ahead */
    a->want_seq = 0;
    if (a->state == ZI_SIM_LOADING)
        load(s, a);
    else if (a->state == ZI_SIM_STALLED)
        go_on(s, a);
}

static void
come_back(zi_sim *s, zi_sim_actor *a)
{
    a->is_out = false;
    a->returning = true;
    a->out.n_moves++;
    load(s, a);
}

void
zi_sim_obey(zi_sim *s, zi_sim_actor *a, const zi_effect *e)
{
    switch (e->kind) {
    case ZI_EFFECT_GRANT:
        obey_grant(s, a, e);
        break;
    case ZI_EFFECT_DENY:
        if (e->seq != a->want_seq) break; /* ahead: none is fine */
        a->out.n_denied++;
        zi_sim_leave(s, a);
        break;
    case ZI_EFFECT_GO:
        if (a->state == ZI_SIM_ASKING) begin_step(s, a, (uint32_t)e->value);
        break;
    case ZI_EFFECT_CORES:
        zi_sim_catch_up(s, a);
        a->cores = (uint32_t)e->value;
        zi_sim_aim(s, a);
        break;
    case ZI_EFFECT_RECALL: {
        uint32_t need =
            a->n_fixed + regions_for(s, (int64_t)((double)a->height * a->swell));
        if (a->state == ZI_SIM_COMPUTING && a->n_held > need)
            return_regions(s, a, a->n_held - need);
        break;
    }
    case ZI_EFFECT_SUSPEND:
        a->out_wanted = true;
        if (a->state == ZI_SIM_ASKING) move_out(s, a);
        break;
    case ZI_EFFECT_RESUME:
        come_back(s, a);
        break;
    case ZI_EFFECT_SHRINK:
        a->wish_bytes = e->value;
        a->wish_milli = e->cost_milli;
        a->wish_new = true;
        if (a->state == ZI_SIM_ASKING) ask_again(s, a);
        break;
    default:
        break;
    }
}

/* pilot.c -- measured, then guided; pilot.h has the story. */
#include "train/pilot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/size.h"
#include "base/try.h"
#include "exec/passive.h"
#include "exec/tier_cost.h"
#include "planner/capuchin.h"
#include "planner/planner.h"

#define TIER_PROBE   (16ull << 20) /* each way: they tell how fast a tier is          */
#define TIER_LEAST   (4ull << 20)  /* moved in a step: enough to know its speed       */
#define PLAIN_ALIGN  64u           /* of tensors that never leave                     */
#define WARM_STEPS   1u            /* before the measured one                         */
#define FEEDBACK_MAX 12u           /* rounds of moving copies forward                 */
#define LATE_PART    100u          /* stalls below this part of a step are no matter  */
#define WORSE_PART   20u           /* a plan slower by this part is taken back        */
#define WISH_TRIES   2u            /* plans for a wish: all of it, half of it         */

struct zi_pilot {
    zi_pilot_options      o;
    const zi_planner_ops *planner;
    zi_tier              *tier;
    zi_plan              *plan;   /* the one that is followed; NULL: the executor's own */
    zi_plan              *before; /* feedback: the one before it; NULL: none            */
    zi_pilot_info         info, info_before;
    zi_tier_stats         probed; /* moved to know its speed */
    zi_tier_speed         speed;  /* as planned with; 0: unknown, nothing is copied     */
    zi_tier_stats         seen;   /* when measuring, or this plan, began                */
    uint64_t             *lead_ns;     /* [n_tensors] what feedback has learnt      */
    uint64_t              n_steps;     /* queued since the plan last changed        */
    uint64_t              before_ns;   /* a step with the plan before               */
    uint64_t              limit_bytes; /* what people allow, as seen last           */
    bool                  feeding;     /* feedback goes on                       */
    uint64_t              short_bytes; /* memory ran short with so much; 0: it did not  */
    bool                  lean;        /* the plan is a wish's                          */
};

/* -- costs ------------------------------------------------------------------------------- */

static zico_status
graph_failed(const zi_graph *g, const zi_graph_diag *why, zico_status st,
             zi_train_diag *diag)
{
    return zi_train_fail(diag, st, "%s: %s", g->name ? g->name : "network",
                         why->text[0] ? why->text : zico_status_text(st));
}

static void
set_speeds(const zi_pilot *p, zi_cost *c)
{
    zi_tier_cost_set(c, p->tier ? &p->speed : NULL, p->o.n_threads);
}

/* Bytes as they will be, times as guessed, the tier's speeds as known. */
static zico_status
guess_cost(const zi_pilot *p, zi_train_diag *diag, zi_cost **ret_cost)
{
    zi_exec_options xo = {.graph = p->o.graph,
                          .session = p->o.session,
                          .n_threads = p->o.n_threads,
                          .tier = p->tier};
    zi_graph_diag   why = {.text = ""};

    zico_status st = zi_exec_cost(&xo, &why, ret_cost);
    if (st < 0) return graph_failed(p->o.graph, &why, st, diag);
    set_speeds(p, *ret_cost);
    return ZICO_OK;
}

zico_status
zi_pilot_keep_bytes(const zi_graph *g, unsigned n_threads, zi_train_diag *diag,
                    uint64_t *ret_bytes)
{
    const zi_pilot p = {.o = {.graph = g, .n_threads = n_threads}};
    zi_place_stats stats = {0};
    zi_cost       *cost;
    zi_plan       *keep;

    ZI_TRY(guess_cost(&p, diag, &cost));
    zico_status st = zi_plan_keep(g, cost, &keep);
    if (st >= 0) {
        st = zi_plan_place(keep, g, cost, 0, PLAIN_ALIGN, &stats);
        zi_plan_free(keep);
    }
    zi_cost_free(cost);
    *ret_bytes = stats.peak_slot_bytes;
    return st;
}

/* -- the tier ------------------------------------------------------------------------------ */

/* As told, else a spill file where temporary files live; one that nobody asked for may fail. */
static zico_status
open_tier(zi_pilot *p, zi_train_diag *diag)
{
    const char *tmp = getenv("TMPDIR");
    char        own[4200];

    if (p->tier || (p->o.tier && strcmp(p->o.tier, "none") == 0)) return ZICO_OK;
    snprintf(own, sizeof own, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    zico_status st = zi_tier_open(p->o.os, p->o.tier ? p->o.tier : own, &p->tier);
    if (st < 0 && !p->o.tier) return ZICO_OK;
    if (st < 0)
        return zi_train_fail(diag, st, "--tier %s: %s", p->o.tier, zico_status_text(st));
    p->info.extra_memory = p->o.tier && strcmp(p->o.tier, "ram") == 0;
    return ZICO_OK;
}

static void
tell_speeds(zi_pilot *p)
{
    p->info.out_bps = p->speed.out_bytes_per_s;
    p->info.in_bps = p->speed.in_bytes_per_s;
}

/* How fast it is.  One that nobody asked for and that has no room is done without. */
static zico_status
probe_tier(zi_pilot *p, bool may_close, zi_train_diag *diag)
{
    if (!p->tier || p->speed.out_bytes_per_s > 0) return ZICO_OK;
    zico_status st = zi_tier_speeds(p->tier, TIER_PROBE, &p->speed);
    if (st < 0 && !p->o.tier && may_close) {
        zi_tier_close(p->tier);
        p->tier = NULL;
        return ZICO_OK;
    }
    if (st < 0)
        return zi_train_fail(diag, st,
                             "no room for what is moved out in %s: %s; --tier "
                             "file:DIR names another place",
                             p->o.tier ? p->o.tier : "the folder for temporary files",
                             zico_status_text(st));
    tell_speeds(p);
    zi_tier_read_stats(p->tier, &p->probed);
    return ZICO_OK;
}

static double
speed(uint64_t bytes, uint64_t ns)
{
    return (double)bytes * 1e9 / (double)(ns ? ns : 1);
}

/* On demand each copy is alone: the speeds are those that were seen. */
static void
learn_alone(zi_pilot *p, const zi_tier_stats *moved)
{
    if (moved->out_ns) p->speed.out_bytes_per_s = speed(moved->out_bytes, moved->out_ns);
    if (moved->in_ns) p->speed.in_bytes_per_s = speed(moved->in_bytes, moved->in_ns);
}

/* A plan's copies have company: speeds with which it would copy for as long as it did. */
static void
learn_from_plan(zi_pilot *p, const zi_tier_stats *moved, zi_cost *c)
{
    set_speeds(p, c);
    if (p->n_steps == 0 ||
        zi_tier_cost_fit(c, p->plan, p->o.graph, moved->out_ns / p->n_steps,
                         moved->in_ns / p->n_steps) < 0)
        return;
    p->speed.out_bytes_per_s = c->out_bytes_per_s;
    p->speed.in_bytes_per_s = c->in_bytes_per_s;
}

/* What the tier did since `seen`, if that was enough to tell; node times are in `c`. */
static void
learn_speeds(zi_pilot *p, zi_cost *c)
{
    zi_tier_stats now;

    if (!p->tier) return;
    zi_tier_read_stats(p->tier, &now);
    zi_tier_stats moved = {.out_bytes = now.out_bytes - p->seen.out_bytes,
                           .in_bytes = now.in_bytes - p->seen.in_bytes};
    if (moved.out_bytes >= TIER_LEAST) moved.out_ns = now.out_ns - p->seen.out_ns;
    if (moved.in_bytes >= TIER_LEAST) moved.in_ns = now.in_ns - p->seen.in_ns;
    if (p->plan)
        learn_from_plan(p, &moved, c);
    else
        learn_alone(p, &moved);
    tell_speeds(p);
}

/* -- budgets -------------------------------------------------------------------------------- */

static uint64_t
budget_now(const zi_pilot *p)
{
    zico_stats stats = {.struct_size = sizeof stats};

    if (!p->o.session) return p->o.budget_bytes;
    const uint64_t limit = zi_session_limit(p->o.session);
    zi_session_stats(p->o.session, &stats);
    uint64_t budget = limit > stats.private_bytes ? limit - stats.private_bytes : 1;
    if (!p->o.joined && p->o.budget_bytes && p->o.budget_bytes < budget)
        budget = p->o.budget_bytes;
    return budget;
}

static uint64_t
region_of(const zi_pilot *p)
{
    return p->o.session ? zi_session_region_bytes(p->o.session) : 0;
}

static uint64_t
align_of(const zi_pilot *p)
{
    return p->tier ? ZI_TIER_ALIGN : PLAIN_ALIGN;
}

/* A size that is enough when people type it. */
static const char *
size_up(uint64_t bytes, char text[ZI_SIZE_TEXT])
{
    const uint64_t unit = bytes >= 1u << 20 ? 1u << 20 : 1u << 12;
    return zi_size_format((bytes + unit - 1) / unit * unit, text);
}

typedef struct floor_info {
    uint64_t   fixed_bytes, node_bytes;
    zi_node_id node; /* NONE: the outputs */
} floor_info;

/* The least that any plan can do with. */
static zico_status
find_floor(const zi_pilot *p, const zi_cost *c, floor_info *ret)
{
    zi_plan *keep;

    *ret = (floor_info){.node = ZI_ID_NONE};
    ZI_TRY(zi_plan_keep(p->o.graph, c, &keep));
    zico_status st = zi_plan_place(keep, p->o.graph, c, region_of(p), align_of(p), NULL);
    if (st >= 0)
        st = zi_passive_least(p->o.graph, c, keep, align_of(p), &ret->node_bytes,
                              &ret->node);
    if (st >= 0) ret->fixed_bytes = zi_plan_fixed_bytes(keep);
    if (st >= 0)
        ret->node_bytes = (ret->node_bytes + keep->region_bytes - 1) /
                          keep->region_bytes * keep->region_bytes;
    zi_plan_free(keep);
    return st;
}

/* What would fit, and why not less.  `least`: of the planner that was asked for; 0: any. */
static zico_status
too_large(const zi_pilot *p, const floor_info *f, uint64_t least, zi_train_diag *diag)
{
    const uint64_t floor = f->fixed_bytes + f->node_bytes;
    char           text[5][ZI_SIZE_TEXT], who[160] = "";

    if (least > floor)
        snprintf(who, sizeof who, "planner %s needs %s%s, and ", p->planner->name,
                 size_up(least, text[4]), p->tier ? "" : " without a tier");
    return zi_train_fail(
        diag, ZICO_E_BUDGET,
        "%s with batch %lld does not fit into %s: %sthe smallest possible is %s: %s of "
        "parameters, optimizer state and data, which stay, and %s for %s with all that "
        "it "
        "reads and writes; a smaller --batch or a larger --budget will do",
        p->o.graph->name, (long long)p->o.batch,
        zi_size_format(p->info.budget_bytes, text[0]), who, size_up(floor, text[1]),
        zi_size_format(f->fixed_bytes, text[2]), zi_size_format(f->node_bytes, text[3]),
        f->node == ZI_ID_NONE ? "the outputs" : p->o.graph->nodes[f->node].name);
}

/* -- planning -------------------------------------------------------------------------------- */

static void
name_plan(zi_pilot *p, const char *planner)
{
    snprintf(p->info.planner, sizeof p->info.planner, "%s", planner ? planner : "?");
}

/* One planner's plan, so tight that its placement fits; becomes p->plan. */
static zico_status
ask(zi_pilot *p, const zi_planner_ops *planner, const zi_cost *c, uint64_t *ret_least)
{
    const zi_plan_task task = {.graph = p->o.graph,
                               .cost = c,
                               .budget_bytes = p->info.budget_bytes,
                               .lead_ns = p->lead_ns};
    const uint64_t     begin = p->o.os->now_ns(p->o.os);
    zi_place_stats     stats = {0};
    zi_forecast        f = {0};
    zi_verdict         v = {0};
    zi_plan           *plan = NULL;

    zico_status st = zi_planner_fit(planner, &task, region_of(p), align_of(p), &plan,
                                    &stats, ret_least);
    if (st >= 0) st = zi_plan_check(plan, p->o.graph, c, 0, &v);
    if (st >= 0) st = zi_plan_simulate(plan, p->o.graph, c, NULL, &f);
    p->info.plan_ns += p->o.os->now_ns(p->o.os) - begin;
    if (st < 0) {
        zi_plan_free(plan);
        return st;
    }
    zi_plan_free(p->plan);
    p->plan = plan;
    name_plan(p, plan->planner);
    p->info.peak_bytes = stats.peak_slot_bytes;
    p->info.foreseen_ns = f.step_ns;
    p->info.stall_ns = f.stall_ns;
    p->info.out_bytes = v.out_bytes;
    p->info.in_bytes = v.in_bytes;
    p->info.n_redo = v.n_redo;
    return ZICO_OK;
}

/* Those that decide by times want to see a step first. */
static bool
wants_times(const zi_pilot *p)
{
    return strcmp(p->planner->name, "auto") == 0 ||
           strcmp(p->planner->name, "capuchin") == 0;
}

static bool
may_swap(const zi_pilot *p)
{
    return p->planner->emits >> ZI_ACT_OUT & 1;
}

static void
set_phase(zi_pilot *p, zi_pilot_phase phase)
{
    p->info.phase = phase;
    p->n_steps = 0;
    p->before_ns = 0;
    p->feeding = phase == ZI_PILOT_GUIDED && strcmp(p->info.planner, "capuchin") == 0;
}

static void
set_passive(zi_pilot *p, zi_pilot_phase phase)
{
    zi_plan_free(p->plan);
    p->plan = NULL;
    name_plan(p, "passive");
    p->info.peak_bytes = p->info.budget_bytes;
    p->info.foreseen_ns = p->info.stall_ns = p->info.out_bytes = p->info.in_bytes = 0;
    p->info.n_redo = 0;
    set_phase(p, phase);
}

/* Doing nothing does not fit: on demand until something was measured, or a guessed plan. */
static zico_status
first_squeeze(zi_pilot *p, zi_train_diag *diag)
{
    uint64_t   least = 0;
    floor_info floor;
    zi_cost   *c;

    if (may_swap(p)) ZI_TRY(open_tier(p, diag));
    ZI_TRY(probe_tier(p, true, diag));
    ZI_TRY(guess_cost(p, diag, &c));
    zico_status st = find_floor(p, c, &floor);
    if (st < 0) goto done;
    if (p->info.budget_bytes < floor.fixed_bytes + floor.node_bytes) {
        st = too_large(p, &floor, 0, diag);
    } else if (p->tier && wants_times(p)) {
        set_passive(p, ZI_PILOT_MEASURE);
    } else {
        st = ask(p, p->planner, c, &least);
        if (st == ZICO_E_NOPLAN) st = too_large(p, &floor, least, diag);
        if (st >= 0) set_phase(p, wants_times(p) ? ZI_PILOT_MEASURE : ZI_PILOT_GUIDED);
    }
done:
    zi_cost_free(c);
    return st;
}

static zico_status
first_plan(zi_pilot *p, zi_train_diag *diag)
{
    const bool all = strcmp(p->planner->name, "keep-all") == 0; /* worse than keep */
    uint64_t   least = 0;
    zi_cost   *c;

    if (p->o.joined && may_swap(p)) ZI_TRY(open_tier(p, diag)); /* limits may sink */
    ZI_TRY(guess_cost(p, diag, &c));
    zico_status st = ask(p, all ? p->planner : zi_planner_find("keep"), c, &least);
    zi_cost_free(c);
    if (st >= 0) set_phase(p, ZI_PILOT_PLAIN);
    if (st != ZICO_E_NOPLAN) return st;
    return first_squeeze(p, diag);
}

zico_status
zi_pilot_new(const zi_pilot_options *opt, zi_exec_options *xo, zi_train_diag *diag,
             zi_pilot **ret_pilot)
{
    const char *name = opt->planner ? opt->planner : "auto";
    zi_pilot   *p = zi_calloc(1, sizeof *p);

    if (!p) return ZICO_E_NOMEM;
    p->o = *opt;
    name_plan(p, "keep");
    p->planner = zi_planner_find(name);
    p->lead_ns = zi_calloc(opt->graph->n_tensors + 1u, sizeof *p->lead_ns);
    zico_status st = p->lead_ns ? ZICO_OK : ZICO_E_NOMEM;
    if (st >= 0 && !p->planner)
        st = zi_train_fail(diag, ZICO_E_NOTFOUND, "there is no planner '%s'", name);
    p->limit_bytes = p->info.budget_bytes = budget_now(p);
    if (st >= 0 && (p->info.budget_bytes || opt->planner)) st = first_plan(p, diag);
    if (st < 0) {
        zi_pilot_free(p);
        return st;
    }
    xo->plan = p->plan;
    xo->tier = p->tier;
    xo->budget_bytes = p->tier ? p->info.budget_bytes : 0;
    *ret_pilot = p;
    return ZICO_OK;
}

void
zi_pilot_free(zi_pilot *p)
{
    if (!p) return;
    zi_plan_free(p->plan);
    zi_plan_free(p->before);
    zi_tier_close(p->tier);
    zi_free(p->lead_ns);
    zi_free(p);
}

/* -- on the way -------------------------------------------------------------------------------- */

/* Told to people by zico status, to the broker's desk, and to whoever looks. */
static void
announce(zi_pilot *p, zi_exec *e, const char *why)
{
    zi_exec_memory m;

    snprintf(p->info.note, sizeof p->info.note, "%s", why);
    p->info.n_plans++;
    zi_exec_read_memory(e, &m);
    p->info.peak_bytes = m.peak_slot_bytes;
    if (!p->o.joined) return;
    if (!p->lean) /* a wish's answer says more: answer_wish */
        zi_session_planned(p->o.session,
                           &(zi_step_need){m.peak_slot_bytes -
                                               zi_plan_fixed_bytes(zi_exec_plan(e)),
                                           p->info.foreseen_ns},
                           NULL);
    zi_session_note(p->o.session, why);
}

/* The executor takes p->plan (NULL: on demand) up, or everything stays. */
static zico_status
take_up(zi_pilot *p, zi_exec *e, const char *why)
{
    zi_graph_diag d = {.text = ""};
    zico_status   st = zi_exec_replan(e, p->plan, p->tier ? p->info.budget_bytes : 0, &d);

    if (st >= 0 && p->tier) zi_tier_read_stats(p->tier, &p->seen);
    if (st >= 0)
        announce(p, e, why);
    else
        snprintf(p->info.note, sizeof p->info.note, "%.190s",
                 d.text[0] ? d.text : zico_status_text(st));
    return st;
}

static zico_status
measured_cost(zi_pilot *p, zi_exec *e, zi_cost **ret_cost)
{
    ZI_TRY(zi_exec_measured(e, ret_cost));
    learn_speeds(p, *ret_cost);
    set_speeds(p, *ret_cost);
    return ZICO_OK;
}

/* A step was measured: now plan, or stay on demand. */
static void
guide(zi_pilot *p, zi_exec *e)
{
    zi_cost *c;

    if (measured_cost(p, e, &c) < 0) return;
    zico_status st = ask(p, p->planner, c, NULL);
    zi_cost_free(c);
    if (st >= 0) st = take_up(p, e, "planned with the times of a measured step");
    if (st >= 0) {
        set_phase(p, ZI_PILOT_GUIDED);
    } else if (zi_exec_is_passive(e)) {
        set_passive(p, ZI_PILOT_PASSIVE);
        snprintf(p->info.note, sizeof p->info.note,
                 "no planner's plan fits: goes on on demand");
    } else {
        set_phase(p, ZI_PILOT_GUIDED); /* the guessed plan stays */
        p->feeding = false;
    }
}

/* Another budget: keep if it fits, else the planner's, else on demand. */
static void
replan(zi_pilot *p, zi_exec *e, uint64_t budget, const char *why)
{
    zi_train_diag ignore = {""};
    zi_cost      *c;

    p->info.budget_bytes = budget;
    if (zi_exec_drain(e) < 0) return;
    if (probe_tier(p, false, &ignore) < 0) p->speed = (zi_tier_speed){0}; /* no copies */
    if (measured_cost(p, e, &c) < 0) return;
    zi_pilot_phase phase = ZI_PILOT_PLAIN;
    zico_status    st = ask(p, zi_planner_find("keep"), c, NULL);
    if (st == ZICO_E_NOPLAN) {
        phase = ZI_PILOT_GUIDED;
        st = ask(p, p->planner, c, NULL);
    }
    zi_cost_free(c);
    if (st >= 0) st = take_up(p, e, why);
    if (st >= 0) {
        set_phase(p, phase);
        return;
    }
    zi_plan_free(p->plan);
    p->plan = NULL;
    if (p->tier && take_up(p, e, why) >= 0) set_passive(p, ZI_PILOT_PASSIVE);
}

/* -- wishes --------------------------------------------------------------------------------------- */

static zi_step_need
need_of(const zi_pilot *p)
{
    return (zi_step_need){p->info.peak_bytes - zi_plan_fixed_bytes(p->plan),
                          p->info.foreseen_ns};
}

/* A plan that takes less than `full` does, for a wish. */
static zico_status
ask_lean(zi_pilot *p, const zi_cost *c, const zi_session_wish *wish, zi_step_need full)
{
    const uint64_t fixed = zi_plan_fixed_bytes(p->plan);
    uint64_t       bytes = wish->step_bytes;
    zico_status    st = ZICO_E_NOPLAN;

    for (unsigned i = 0; i < WISH_TRIES; i++, bytes += (full.bytes - bytes) / 2) {
        p->info.budget_bytes = fixed + bytes;
        st = ask(p, p->planner, c, NULL);
        if (st < 0) continue;
        const double cost = (double)p->info.foreseen_ns / (double)(full.ns ? full.ns : 1);
        if (cost * 1e3 <= wish->cost_milli) return ZICO_OK;
        st = ZICO_E_NOPLAN;
    }
    return st;
}

/* Becomes p->plan: keep, or less if that is wished and can be had.  *ret_full: what keep takes. */
static zico_status
plan_for_wish(zi_pilot *p, const zi_cost *c, const zi_session_wish *wish,
              zi_step_need *ret_full, bool *ret_lean)
{
    const zi_planner_ops *keep = zi_planner_find("keep");

    *ret_lean = false;
    p->info.budget_bytes = p->limit_bytes;
    ZI_TRY(ask(p, keep, c, NULL));
    *ret_full = need_of(p);
    if (wish->step_bytes == 0 || wish->step_bytes >= ret_full->bytes) return ZICO_OK;
    zico_status st = ask_lean(p, c, wish, *ret_full);
    *ret_lean = st >= 0;
    p->info.budget_bytes = p->limit_bytes;
    return st >= 0 ? st : ask(p, keep, c, NULL);
}

/* What the executor takes now; `full` NULL: it likes nothing else better. */
static void
answer_wish(const zi_pilot *p, const zi_exec *e, const zi_step_need *full)
{
    zi_exec_memory m;

    zi_exec_read_memory(e, &m);
    const zi_step_need now = {m.peak_slot_bytes - zi_plan_fixed_bytes(zi_exec_plan(e)),
                              p->info.foreseen_ns};
    zi_session_planned(p->o.session, &now, full ? full : &now);
}

/* The executor takes p->plan up; it is told by the answer, with what the job likes best. */
static zico_status
take_up_quietly(zi_pilot *p, zi_exec *e, bool lean, const zi_step_need *full)
{
    const zi_step_need now = need_of(p);
    const bool         was_lean = p->lean;
    char               text[2][ZI_SIZE_TEXT], why[120];

    snprintf(why, sizeof why, "planned anew as others want to run, too: %s of %s",
             zi_size_format(now.bytes, text[0]), zi_size_format(full->bytes, text[1]));
    p->lean = true; /* announce leaves it to the answer */
    zico_status st = take_up(p, e, lean ? why : "there is room again: planned anew");
    p->lean = st >= 0 ? lean : was_lean;
    if (st < 0) return st;
    set_phase(p, lean ? ZI_PILOT_GUIDED : ZI_PILOT_PLAIN);
    p->feeding = false;
    return st;
}

/* Whatever the outcome is, it is told. */
static void
follow_wish(zi_pilot *p, zi_exec *e, const zi_session_wish *wish)
{
    bool         lean = false;
    zi_step_need full = {0};
    zi_cost     *c;

    zico_status st = zi_exec_drain(e);
    if (st >= 0) st = measured_cost(p, e, &c);
    if (st >= 0) {
        zi_tier_cost_set(c, NULL, p->o.n_threads); /* no copies */
        st = plan_for_wish(p, c, wish, &full, &lean);
        zi_cost_free(c);
    }
    if (st >= 0 && (lean || p->lean)) st = take_up_quietly(p, e, lean, &full);
    answer_wish(p, e, st >= 0 ? &full : NULL);
}

/* -- feedback ------------------------------------------------------------------------------------ */

/* How long computation stood for each tensor's copy in, in the step before; returns the sum. */
static uint64_t
late_copies(zi_exec *e, uint64_t *ret_stall_ns, uint64_t *ret_step_ns)
{
    const size_t   n = zi_exec_events(e, NULL, 0);
    zi_exec_event *ev = zi_calloc(n + 1, sizeof *ev);
    bool          *coming = zi_calloc(zi_exec_graph(e)->n_tensors + 1u, sizeof *coming);
    uint64_t       sum = 0, first = UINT64_MAX, last = 0;

    if (ev && coming) {
        size_t have = zi_exec_events(e, ev, n);
        for (size_t i = 0; i < have && i < n; i++) {
            if (ev[i].begin_ns < first) first = ev[i].begin_ns;
            if (ev[i].end_ns > last) last = ev[i].end_ns;
            if (ev[i].kind == ZI_ACT_OUT || ev[i].kind == ZI_ACT_IN)
                coming[ev[i].what] = ev[i].kind == ZI_ACT_IN;
            if (ev[i].kind != ZI_ACT_WAIT || !coming[ev[i].what]) continue;
            const uint64_t ns = ev[i].end_ns - ev[i].begin_ns;
            ret_stall_ns[ev[i].what] += ns;
            sum += ns;
        }
    }
    *ret_step_ns = last > first ? last - first : 0;
    zi_free(ev);
    zi_free(coming);
    return sum;
}

static bool
same_acts(const zi_plan *a, const zi_plan *b)
{
    if (a->n_acts != b->n_acts) return false;
    for (uint32_t i = 0; i < a->n_acts; i++)
        if (a->acts[i].kind != b->acts[i].kind || a->acts[i].what != b->acts[i].what)
            return false;
    return true;
}

/* The plan that feedback has made is worse than the one before: that one comes back. */
static void
take_back(zi_pilot *p, zi_exec *e)
{
    zi_plan            *worse = p->plan;
    const zi_pilot_info now = p->info;

    p->plan = p->before;
    p->before = NULL;
    p->feeding = false;
    p->info = p->info_before;
    p->info.plan_ns = now.plan_ns;
    p->info.n_plans = now.n_plans;
    p->info.n_feedback = now.n_feedback;
    if (take_up(p, e, "copies that begin earlier did not help: the plan before") < 0)
        snprintf(p->info.note, sizeof p->info.note, "the plan before does not fit");
    zi_plan_free(worse);
}

static void
move_forward(zi_pilot *p, zi_exec *e, const uint64_t *stall_ns, uint64_t step_ns)
{
    zi_plan            *before = p->plan;
    const zi_pilot_info was = p->info;
    zi_cost            *c;

    if (measured_cost(p, e, &c) < 0) return;
    zi_capuchin_feedback(p->o.graph, c, stall_ns, p->lead_ns);
    p->plan = NULL;
    zico_status st = ask(p, zi_planner_find("capuchin"), c, NULL);
    zi_cost_free(c);
    if (st < 0 || same_acts(before, p->plan) ||
        take_up(p, e, "copies in came late: they begin 5 % of their length earlier") <
            0) {
        zi_plan_free(p->plan);
        p->plan = before;
        p->info = was;
        p->feeding = false;
        return;
    }
    zi_plan_free(p->before);
    p->before = before;
    p->info_before = was;
    p->before_ns = step_ns;
    p->n_steps = 0;
    p->feeding = ++p->info.n_feedback < FEEDBACK_MAX;
}

/* One step was made with this plan: were its copies in time, and was it better than before? */
static void
feed_back(zi_pilot *p, zi_exec *e)
{
    uint64_t *stall = zi_calloc(p->o.graph->n_tensors + 1u, sizeof *stall);

    uint64_t step_ns = 0;
    if (!stall) return;
    const uint64_t late = late_copies(e, stall, &step_ns);
    if (p->before && step_ns > p->before_ns + p->before_ns / WORSE_PART)
        take_back(p, e);
    else if (late > step_ns / LATE_PART)
        move_forward(p, e, stall, step_ns);
    else
        p->feeding = false;
    zi_free(stall);
}

/* -- the door ---------------------------------------------------------------------------------------- */

void
zi_pilot_see(zi_pilot *p, const zi_exec_step_result *r)
{
    if (r->status >= 0 && r->passive && p->plan) p->short_bytes = r->peak_bytes;
}

bool
zi_pilot_follow_limit(zi_pilot *p, zi_exec *e)
{
    const uint64_t  limit = p->o.joined ? budget_now(p) : p->limit_bytes;
    zi_session_wish wish;

    if (limit != p->limit_bytes) {
        p->limit_bytes = limit;
        p->lean = false;
        replan(p, e, limit, "the limit was changed: planned anew");
        return true;
    }
    if (!p->o.joined || !zi_session_shrink(p->o.session, &wish)) return false;
    if (p->info.phase == ZI_PILOT_PLAIN || p->lean)
        follow_wish(p, e, &wish);
    else
        answer_wish(p, e, NULL); /* it has to make do with less already */
    return true;
}

/* The limit is as it was: does what the last steps showed ask for another plan? */
static void
follow_steps(zi_pilot *p, zi_exec *e)
{
    if (p->short_bytes && p->short_bytes < p->info.peak_bytes) {
        replan(p, e, p->short_bytes, "memory ran short: planned anew");
    } else if (p->info.phase == ZI_PILOT_MEASURE && p->n_steps == WARM_STEPS) {
        zi_exec_forget_times(e);
        if (p->tier) zi_tier_read_stats(p->tier, &p->seen);
    } else if (p->info.phase == ZI_PILOT_MEASURE && p->n_steps == WARM_STEPS + 1) {
        guide(p, e);
    } else if (p->feeding && p->n_steps >= WARM_STEPS + 1 && zi_exec_drain(e) >= 0) {
        feed_back(p, e);
    }
}

void
zi_pilot_before_step(zi_pilot *p, zi_exec *e)
{
    if (!zi_pilot_follow_limit(p, e)) follow_steps(p, e);
    p->short_bytes = 0;
    p->n_steps++;
}

void
zi_pilot_read(const zi_pilot *p, zi_pilot_info *ret_info)
{
    *ret_info = p->info;
}

void
zi_pilot_read_tier(const zi_pilot *p, zi_tier_stats *ret_stats)
{
    *ret_stats = (zi_tier_stats){0};
    if (!p->tier) return;
    zi_tier_read_stats(p->tier, ret_stats);
    ret_stats->out_bytes -= p->probed.out_bytes;
    ret_stats->in_bytes -= p->probed.in_bytes;
    ret_stats->out_ns -= p->probed.out_ns;
    ret_stats->in_ns -= p->probed.in_ns;
}

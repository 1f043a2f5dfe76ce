/* plan_measure.c -- executes plans in turns with keep, and foretells each step from those around it. */
#include "cli/plan_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/try.h"
#include "base/vec.h"
#include "exec/tier_cost.h"
#include "os/os.h"

#define WARM_STEPS                                                                       \
    1u /* memory is touched, blocks of the spill file are written for the first time */
#define STEPS_MAX   64u
#define LEAST_STEPS 2u /* before a plan can have settled */
#define MORE_STEPS  3u /* than were asked for, where no two agree */
#define ROOM_FACTOR                                                                      \
    3 /* keep stays beside the plans if there is so many times its memory */
#define AGREE_PART 32  /* steps within this part of their median agree */
#define KEEP_EVERY 3u  /* steps of plans between two of keep */
#define NEAR       3u  /* steps of keep that one of a plan is compared with */
#define TURN_MAX   12u /* plans that take turns */
#define OPEN_STEPS 2 /* as many steps as making a plan ready is like; for the time left */

/* -- what is fed ------------------------------------------------------------------------------ */

static void
free_feeds(zi_exec_feed *feeds, size_t n)
{
    for (size_t i = 0; i < n; i++) zi_free((void *)(uintptr_t)feeds[i].data);
    zi_free(feeds);
}

/* Numbers in [0, 1) for images, zeros for words and labels. */
static zico_status
make_feeds(const zi_graph *g, zi_exec_feed **ret_feeds, size_t *ret_n)
{
    zi_exec_feed *feeds = zi_calloc(g->n_tensors + 1u, sizeof *feeds);
    zi_rng        rng = zi_rng_seed(1);
    size_t        n = 0;

    if (!feeds) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *x = &g->tensors[t];
        if ((x->role != ZI_ROLE_INPUT && x->role != ZI_ROLE_LABEL) || t == g->lr ||
            t == g->step)
            continue;
        float *data = zi_calloc(1, x->bytes + sizeof *data);
        if (!data) {
            free_feeds(feeds, n);
            return ZICO_E_NOMEM;
        }
        for (int64_t i = 0; x->dtype == ZI_DTYPE_F32 && i < zi_tensor_elems(x); i++)
            data[i] = (float)zi_rng_unit(&rng);
        feeds[n++] = (zi_exec_feed){t, data};
    }
    *ret_feeds = feeds;
    *ret_n = n;
    return ZICO_OK;
}

/* -- what the kernel sees ---------------------------------------------------------------------- */

/* The process's memory: `line` of its status, "VmRSS:" or "VmHWM:" (the highest since the reset). */
static uint64_t
kernel_bytes(const char *line)
{
    FILE              *f = fopen("/proc/self/status", "r");
    char               text[256];
    unsigned long long kib = 0;

    while (f && fgets(text, sizeof text, f))
        if (!strncmp(text, line, strlen(line))) sscanf(text + strlen(line), "%llu", &kib);
    if (f) fclose(f);
    return kib * 1024;
}

static void
reset_highest(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

/* What the machine could give without swapping. */
static uint64_t
free_bytes(void)
{
    FILE              *f = fopen("/proc/meminfo", "r");
    char               text[256];
    unsigned long long kib = 0;

    while (f && fgets(text, sizeof text, f))
        if (sscanf(text, "MemAvailable: %llu", &kib) == 1) break;
    if (f) fclose(f);
    return kib * 1024;
}

/* -- steps ------------------------------------------------------------------------------------- */

static int
by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t
median(uint64_t *x, unsigned n)
{
    qsort(x, n, sizeof *x, by_u64);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static zico_status
run_step(const zi_study *s, zi_exec *e, uint64_t step, zi_exec_step_result *ret)
{
    ZI_TRY(zi_exec_step(e, s->feeds, s->n_feeds, 1e-4f, step));
    ZI_TRY(zi_exec_result(e, true, ret));
    return ret->status < 0 && ret->status != ZICO_E_NAN ? ret->status : ZICO_OK;
}

static zico_status
open_exec(zi_study *s, const zi_plan *plan, zi_train_diag *diag, zi_exec **ret_exec)
{
    zi_exec_options xo = {.graph = s->graph,
                          .plan = plan,
                          .n_threads = s->opt.n_threads,
                          .run_ahead = 1,
                          .seed = 1,
                          .tier = s->tier};
    zi_graph_diag   why = {.text = ""};

    zico_status st = zi_exec_new(&xo, &why, ret_exec);
    if (st < 0)
        return zi_train_fail(diag, st, "%s: %s", s->opt.net,
                             *why.text ? why.text : zico_status_text(st));
    return ZICO_OK;
}

/* -- what nodes take: keep ----------------------------------------------------------------------- */

/* A step takes a little more than its nodes: what lies between them is theirs, too. */
static void
spread_over_nodes(zi_cost *c, uint64_t step_ns)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) sum += c->node_ns[i];
    for (uint32_t i = 0; i < c->n_nodes && sum > 0; i++)
        c->node_ns[i] = (uint64_t)((double)c->node_ns[i] * (double)step_ns / (double)sum);
}

/* Do two of them lie close to their median?  Sorts. */
static bool
agree(uint64_t *ns, unsigned n)
{
    const uint64_t m = median(ns, n);
    unsigned       close = 0;

    for (unsigned i = 0; i < n; i++)
        close += ns[i] < m + m / AGREE_PART && m < ns[i] + m / AGREE_PART;
    return n >= LEAST_STEPS && close >= 2;
}

/* One step of keep: its time, and what its nodes took.  The times are the caller's. */
static zico_status
run_keep(const zi_study *s, zi_exec *keep, uint64_t step, uint64_t *ret_ns,
         uint64_t **ret_node_ns)
{
    zi_exec_step_result r;
    zi_cost            *c;

    zi_exec_forget_times(keep);
    ZI_TRY(run_step(s, keep, step, &r));
    ZI_TRY(zi_exec_measured(keep, &c));
    *ret_ns = r.ns;
    *ret_node_ns = c->node_ns;
    c->node_ns = NULL;
    zi_cost_free(c);
    return ZICO_OK;
}

typedef struct keep_step {
    uint64_t  ns;
    uint64_t *node_ns;
} keep_step;

typedef ZI_VEC(keep_step) keep_vec;

static void
free_keeps(keep_vec *v)
{
    for (size_t i = 0; i < v->n; i++) zi_free(v->at[i].node_ns);
    zi_vec_free(v);
}

static zico_status
add_keep(const zi_study *s, zi_exec *keep, keep_vec *v)
{
    keep_step x = {0};

    ZI_TRY(run_keep(s, keep, 1 + WARM_STEPS + v->n, &x.ns, &x.node_ns));
    zico_status st = zi_vec_push(v, x);
    if (st < 0) zi_free(x.node_ns);
    return st;
}

/* What nodes take by the steps of keep [lo, hi): of each the median, together the median step. */
static uint64_t
learn_nodes(const keep_vec *v, size_t lo, size_t hi, zi_cost *c)
{
    uint64_t       x[STEPS_MAX];
    const unsigned n = (unsigned)(hi - lo);

    zi_assert(n > 0 && n <= STEPS_MAX);
    for (uint32_t node = 0; node < c->n_nodes; node++) {
        for (unsigned i = 0; i < n; i++) x[i] = v->at[lo + i].node_ns[node];
        c->node_ns[node] = median(x, n);
    }
    for (unsigned i = 0; i < n; i++) x[i] = v->at[lo + i].ns;
    const uint64_t step_ns = median(x, n);
    spread_over_nodes(c, step_ns);
    return step_ns;
}

/* Until two steps agree: if they do not, something else is going on. */
static zico_status
measure_keep(zi_study *s, zi_exec *keep)
{
    zi_exec_step_result r;
    keep_vec            v = {0};
    uint64_t            ns[STEPS_MAX];
    unsigned    most = s->opt.n_steps > LEAST_STEPS ? s->opt.n_steps : LEAST_STEPS;
    zico_status st = ZICO_OK;

    for (unsigned i = 0; i < WARM_STEPS && st >= 0; i++)
        st = run_step(s, keep, 1 + i, &r);
    while (v.n < most && st >= 0) {
        st = add_keep(s, keep, &v);
        for (size_t i = 0; i < v.n; i++) ns[i] = v.at[i].ns;
        if (st >= 0 && agree(ns, (unsigned)v.n)) break;
    }
    if (st >= 0) s->keep_ns = learn_nodes(&v, 0, v.n, s->cost);
    free_keeps(&v);
    return st;
}

zico_status
zi_study_open_yard(zi_study *s, zi_train_diag *diag)
{
    zi_plan *plan;
    zi_exec *keep = NULL;

    if (s->opt.n_steps > STEPS_MAX) s->opt.n_steps = STEPS_MAX;
    ZI_TRY(make_feeds(s->graph, &s->feeds, &s->n_feeds));
    ZI_TRY(zi_plan_keep(s->graph, s->cost, &plan));
    zico_status st = open_exec(s, plan, diag, &keep);
    zi_plan_free(plan);
    if (st < 0) return st;
    st = measure_keep(s, keep);
    if (st < 0) zi_train_fail(diag, st, "%s: %s", s->opt.net, zico_status_text(st));
    if (st >= 0 && free_bytes() >= ROOM_FACTOR * s->keep_bytes)
        s->yard = keep;
    else
        zi_exec_free(keep);
    return st;
}

void
zi_study_close_yard(zi_study *s)
{
    zi_exec_free(s->yard);
    if (s->feeds) free_feeds(s->feeds, s->n_feeds);
    s->yard = NULL;
    s->feeds = NULL;
}

/* -- plans, in turns ---------------------------------------------------------------------------------- */

typedef struct sample {
    uint64_t      ns, stall_ns;
    size_t        keep; /* the step of keep before it */
    zi_tier_stats moved;
} sample;

typedef struct runner { /* one plan that is executed */
    const zi_plan *plan;
    zi_study_row  *row;
    zi_exec       *e; /* NULL: not open */
    sample         x[STEPS_MAX];
    unsigned       n;
    bool           settled;
} runner;

typedef struct contest {
    zi_study             *s;
    const zi_study_watch *watch;
    zi_train_diag        *diag;
    keep_vec              keeps;
    runner               *all;
    size_t                n;
    size_t                begin, end; /* those that take turns now */
    unsigned              turn;       /* counts them, from 1 */
    unsigned              since_keep; /* steps of plans since its last one */
    uint64_t              begin_ns;
    double                whole_ns; /* as expected in the beginning */
    bool                  stopped;
} contest;

/* How long the runner will take from here on, by what was foreseen. */
static double
expected_ns(const contest *k, const runner *r)
{
    const unsigned least = k->s->opt.settle ? LEAST_STEPS : k->s->opt.n_steps;
    const double   step = (double)r->row->forecast.step_ns +
                        (k->s->yard ? (double)k->s->keep_ns / KEEP_EVERY : 0);
    double steps = r->n < least ? least - r->n : !r->settled;

    if (!r->e && !r->n) steps += OPEN_STEPS;
    return r->e || !r->n ? steps * step : 0;
}

static double
all_expected_ns(const contest *k)
{
    double sum = 0;
    for (size_t i = 0; i < k->n; i++) sum += expected_ns(k, &k->all[i]);
    return sum;
}

/* Tell where we are; false: somebody wants to stop. */
static bool
go_on(contest *k, const runner *r)
{
    const zi_os *os = zi_os_real();
    const double left = all_expected_ns(k), whole = k->whole_ns, done = whole - left;
    const double so_far = (double)(os->now_ns(os) - k->begin_ns);
    const double pace = done > whole / 20 ? so_far / done : 1;

    if (!k->watch || k->stopped) return !k->stopped;
    zi_study_progress p = {.row = r->row,
                           .at = (size_t)(r - k->all),
                           .n = k->n,
                           .round = r->e ? r->n + 1 : 0,
                           .left_ns = (uint64_t)(left * pace)};
    k->stopped = !k->watch->go_on(k->watch->user, &p);
    return !k->stopped;
}

static zico_status
open_runner(contest *k, runner *r)
{
    zi_exec_step_result res;
    const uint64_t      before = kernel_bytes("VmRSS:");
    zi_exec_memory      m;

    reset_highest();
    ZI_TRY(open_exec(k->s, r->plan, k->diag, &r->e));
    for (unsigned i = 0; i < WARM_STEPS; i++) ZI_TRY(run_step(k->s, r->e, 1 + i, &res));
    zi_exec_read_memory(r->e, &m);
    r->row->kernel_bytes = kernel_bytes("VmHWM:") - before;
    r->row->peak_bytes = m.peak_slot_bytes;
    r->row->turn = k->turn;
    return ZICO_OK;
}

static zi_tier_stats
tier_now(const zi_study *s)
{
    zi_tier_stats now = {0};
    if (s->tier) zi_tier_read_stats(s->tier, &now);
    return now;
}

/* Enough steps, and two of them agree; if they never do, some more are enough. */
static bool
has_settled(const contest *k, const runner *r)
{
    const unsigned most = k->s->opt.n_steps,
                   least = k->s->opt.settle ? LEAST_STEPS : most;
    uint64_t ns[STEPS_MAX];

    if (r->n >= STEPS_MAX || r->n >= most + (k->s->opt.settle ? 0 : MORE_STEPS))
        return true;
    for (unsigned i = 0; i < r->n; i++) ns[i] = r->x[i].ns;
    return r->n >= least && (r->n < LEAST_STEPS || agree(ns, r->n));
}

/* A step of keep, if it is there. */
static zico_status
run_beside(contest *k)
{
    k->since_keep = 0;
    return k->s->yard ? add_keep(k->s, k->s->yard, &k->keeps) : ZICO_OK;
}

static zico_status
run_once(contest *k, runner *r)
{
    zi_exec_step_result res;

    if (!k->keeps.n || k->since_keep == KEEP_EVERY) ZI_TRY(run_beside(k));
    k->since_keep++;
    const zi_tier_stats a = tier_now(k->s);
    ZI_TRY(run_step(k->s, r->e, 1 + WARM_STEPS + r->n, &res));
    const zi_tier_stats b = tier_now(k->s);
    r->x[r->n++] = (sample){.ns = res.ns,
                            .stall_ns = res.stall_ns,
                            .keep = k->keeps.n ? k->keeps.n - 1 : 0,
                            .moved = {.out_bytes = b.out_bytes - a.out_bytes,
                                      .in_bytes = b.in_bytes - a.in_bytes,
                                      .out_ns = b.out_ns - a.out_ns,
                                      .in_ns = b.in_ns - a.in_ns}};
    r->settled = has_settled(k, r);
    return ZICO_OK;
}

/* As many of those that remain as two thirds of the free memory hold beside each other. */
static void
choose_turn(contest *k)
{
    const uint64_t room = free_bytes() / 3 * 2;
    uint64_t       sum = 0;

    k->turn++;
    k->begin = k->end;
    while (k->end < k->n && k->end - k->begin < TURN_MAX) {
        sum += k->all[k->end].row->peak_bytes;
        if (sum > room && k->end > k->begin) break;
        k->end++;
    }
}

/* Rounds until all have settled, and one more step of keep, so that each has some around it. */
static zico_status
run_turn(contest *k)
{
    bool more = true;

    for (size_t i = k->begin; i < k->end && go_on(k, &k->all[i]); i++)
        ZI_TRY(open_runner(k, &k->all[i]));
    while (more && !k->stopped) {
        more = false;
        for (size_t i = k->begin; i < k->end; i++) {
            runner *r = &k->all[i];
            if (r->settled) continue;
            if (!go_on(k, r)) break;
            ZI_TRY(run_once(k, r));
            more |= !r->settled;
        }
    }
    return k->since_keep && !k->stopped ? run_beside(k) : ZICO_OK;
}

static void
close_turn(contest *k)
{
    for (size_t i = k->begin; i < k->end; i++) {
        zi_exec_free(k->all[i].e);
        k->all[i].e = NULL;
        k->all[i].settled = true;
    }
}

/* -- what came of it ----------------------------------------------------------------------------------- */

/* One number of each of the runner's steps but one (n: of all); their median; 0: there is none. */
typedef uint64_t pick(const sample *x);

static uint64_t
middle(const runner *r, unsigned but, pick *what)
{
    uint64_t x[STEPS_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < r->n; i++)
        if (i != but) x[n++] = what(&r->x[i]);
    return n ? median(x, n) : 0;
}

static uint64_t
pick_ns(const sample *x)
{
    return x->ns;
}

static uint64_t
pick_stall(const sample *x)
{
    return x->stall_ns;
}

static uint64_t
pick_out(const sample *x)
{
    return x->moved.out_ns;
}

static uint64_t
pick_in(const sample *x)
{
    return x->moved.in_ns;
}

/* The step as the steps of keep around it and the copies of the runner's other steps foretell it;
 * *ret_keep_ns: what keep took then. */
static zico_status
foretell(const contest *k, const runner *r, unsigned i, zi_cost *c, zi_forecast *ret,
         uint64_t *ret_keep_ns)
{
    const zi_study *s = k->s;

    c->out_bytes_per_s = s->cost->out_bytes_per_s;
    c->in_bytes_per_s = s->cost->in_bytes_per_s;
    *ret_keep_ns = s->keep_ns;
    if (k->keeps.n) {
        size_t lo = r->x[i].keep > 0 ? r->x[i].keep - 1 : 0;
        size_t hi = lo + NEAR < k->keeps.n ? lo + NEAR : k->keeps.n;
        if (hi < lo + NEAR) lo = hi > NEAR ? hi - NEAR : 0;
        *ret_keep_ns = learn_nodes(&k->keeps, lo, hi, c);
    }
    ZI_TRY(zi_tier_cost_fit(c, r->plan, s->graph, middle(r, i, pick_out),
                            middle(r, i, pick_in)));
    return zi_plan_simulate(r->plan, s->graph, c, NULL, ret);
}

static int
by_step(const void *a, const void *b)
{
    const zi_forecast *x = a, *y = b;
    return x->step_ns < y->step_ns ? -1 : x->step_ns > y->step_ns;
}

static double
speed(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

static void
sum_copies(const runner *r, zi_study_row *row)
{
    zi_tier_stats sum = {0};

    for (unsigned i = 0; i < r->n; i++) {
        sum.out_bytes += r->x[i].moved.out_bytes;
        sum.in_bytes += r->x[i].moved.in_bytes;
        sum.out_ns += r->x[i].moved.out_ns;
        sum.in_ns += r->x[i].moved.in_ns;
    }
    row->out_bytes_per_s = speed(sum.out_bytes, sum.out_ns);
    row->in_bytes_per_s = speed(sum.in_bytes, sum.in_ns);
}

static zico_status
fill_row(const contest *k, const runner *r, zi_cost *c)
{
    zi_study_row *row = r->row;
    zi_forecast   foretold[STEPS_MAX];
    uint64_t      keep_ns[STEPS_MAX], foretold_ns[STEPS_MAX];

    if (r->n == 0) return ZICO_OK;
    for (unsigned i = 0; i < r->n; i++) {
        ZI_TRY(foretell(k, r, i, c, &foretold[i], &keep_ns[i]));
        foretold_ns[i] = foretold[i].step_ns;
    }
    qsort(foretold, r->n, sizeof *foretold, by_step);
    row->forecast = foretold[r->n / 2];
    row->forecast.step_ns = median(foretold_ns, r->n);
    row->measured = true;
    row->n_steps = r->n;
    row->step_ns = middle(r, r->n, pick_ns);
    row->stall_ns = middle(r, r->n, pick_stall);
    row->keep_ns = median(keep_ns, r->n);
    sum_copies(r, row);
    return ZICO_OK;
}

/* Rows of plans with the same acts say the same. */
static void
copy_to_equals(const zi_study_row *from, zi_study_row *rows, zi_plan *const *plans,
               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const zi_study_row now = rows[i];
        if (!plans[i] || &rows[i] == from || now.plan_hash != from->plan_hash) continue;
        rows[i] = *from;
        rows[i].planner = now.planner;
        rows[i].budget_bytes = now.budget_bytes;
        rows[i].plan_ns = now.plan_ns;
        rows[i].same = from->measured;
    }
}

static void
find_runners(contest *k, zi_study_row *rows, zi_plan *const *plans, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool known = !plans[i];
        for (size_t j = 0; j < k->n && !known; j++)
            known = k->all[j].row->plan_hash == rows[i].plan_hash;
        if (!known) k->all[k->n++] = (runner){.plan = plans[i], .row = &rows[i]};
    }
}

static zico_status
run_contest(contest *k)
{
    zico_status st = ZICO_OK;

    while (k->end < k->n && !k->stopped && st >= 0) {
        choose_turn(k);
        st = run_turn(k);
        close_turn(k);
    }
    return st;
}

/* keep's own time: of all its steps, as far as there is room. */
static uint64_t
middle_keep(const keep_vec *v)
{
    uint64_t x[STEPS_MAX];
    unsigned n = 0;

    for (size_t i = 0; i < v->n && n < STEPS_MAX; i++) x[n++] = v->at[i].ns;
    return median(x, n);
}

zico_status
zi_study_measure(zi_study *s, zi_study_row *rows, zi_plan *const *plans, size_t n,
                 const zi_study_watch *watch, zi_train_diag *diag)
{
    contest     k = {.s = s, .watch = watch, .diag = diag};
    zi_cost     c = *s->cost; /* with node times of its own */
    zico_status st = ZICO_OK;

    if (s->opt.n_steps > STEPS_MAX) s->opt.n_steps = STEPS_MAX;
    k.all = zi_calloc(n + 1, sizeof *k.all);
    c.node_ns = zi_calloc(c.n_nodes + 1u, sizeof *c.node_ns);
    if (!k.all || !c.node_ns) st = ZICO_E_NOMEM;
    if (st >= 0 && !s->feeds) st = make_feeds(s->graph, &s->feeds, &s->n_feeds);
    if (st >= 0) {
        memcpy(c.node_ns, s->cost->node_ns, c.n_nodes * sizeof *c.node_ns);
        find_runners(&k, rows, plans, n);
        k.begin_ns = zi_os_real()->now_ns(zi_os_real());
        k.whole_ns = all_expected_ns(&k);
        st = run_contest(&k);
    }
    for (size_t i = 0; i < k.n && st >= 0; i++) {
        st = fill_row(&k, &k.all[i], &c);
        if (st >= 0) copy_to_equals(k.all[i].row, rows, plans, n);
    }
    if (st < 0 && !*diag->text)
        zi_train_fail(diag, st, "%s: %s", s->opt.net, zico_status_text(st));
    if (st >= 0 && k.keeps.n) s->keep_ns = middle_keep(&k.keeps);
    free_keeps(&k.keeps);
    zi_free(c.node_ns);
    zi_free(k.all);
    return st;
}

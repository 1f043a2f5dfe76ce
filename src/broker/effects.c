/* effects.c -- what the desk decided, done: punch, write into the table, then tell. */
#include "broker/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/check.h"
#include "base/log.h"
#include "base/size.h"

/* Give pages of idle regions back before somebody else's take their place. */
static void
punch(zi_broker *b, const zi_grant *g)
{
    zi_estate *e = b->estate;

    for (size_t i = 0; i < g->n_punch; i++) {
        zico_status st =
            e->dev->ops->pool_punch(e->pool, g->punch[i].first, g->punch[i].n);
        if (st < 0)
            zi_log(ZI_LOG_ERROR, "cannot give back regions %u+%u: %s", g->punch[i].first,
                   g->punch[i].n, zico_status_text(st));
        else
            zi_leases_cold(e->leases, &g->punch[i], 1);
    }
    if (g->n_punch > 0) b->booked = true;
}

static void
send_grant(zi_broker *b, zi_job_id job, uint32_t seq, uint64_t bytes, const zi_run *runs,
           size_t n_runs, bool more)
{
    zi_peer *p = zi_member_peer(b, job);

    if (!p) return; /* absent: when it is back it asks again, and the table answers */
    zi_msg *m = zi_peer_compose(b, ZI_MSG_GRANT, seq);
    m->grant.size_bytes = bytes;
    m->grant.n_runs = (uint32_t)n_runs;
    if (n_runs > 0) memcpy(m->grant.runs, runs, n_runs * sizeof *runs);
    m->grant.more = more;
    zi_peer_send(b, p, false);
}

static uint64_t
runs_bytes(const zi_broker *b, const zi_run *runs, size_t n)
{
    uint64_t n_regions = 0;

    for (size_t i = 0; i < n; i++) n_regions += runs[i].n;
    return n_regions * b->estate->shape.region_bytes;
}

void
zi_effects_note_claim(zi_broker *b, zi_job_id job)
{
    const zi_job_view *v = zi_desk_job(b->desk, job);
    zi_table_row      *row = &b->estate->leases->row[job];

    if (!v) return;
    if (v->state == ZI_JOB_RUNNING) {
        atomic_store(&row->step_claim_bytes, v->claim_bytes);
    } else if (v->claim_known) {
        atomic_store(&row->learnt_bytes, v->claim_bytes);
        atomic_store(&row->step_ns, v->last_step_ns);
    }
}

/* B1: into the table first.  A grant without regions is of private bytes, or a claim. */
static void
grant(zi_broker *b, const zi_effect *e)
{
    static const zi_grant nothing;
    const zi_grant       *g = e->grant ? e->grant : &nothing;
    zi_table_row         *row = &b->estate->leases->row[e->job];
    uint64_t              bytes = e->hold == ZI_HOLD_PRIVATE ? e->value : 0;

    punch(b, g);
    b->booked = true;
    if (g->n_runs > 0) {
        zi_leases_grant(b->estate->leases, e->job, e->seq, e->hold, g->run, g->n_runs);
        bytes = runs_bytes(b, g->run, g->n_runs);
    } else if (e->hold == ZI_HOLD_PRIVATE) {
        const zi_ledger_job *l = zi_ledger_job_of(zi_desk_ledger(b->desk), e->job);
        if (l) atomic_store(&row->private_bytes, l->private_bytes);
    }
    zi_effects_note_claim(b, e->job); /* it may have been raised */
    zi_log(ZI_LOG_LEASE, "grant,%s,%u,%" PRIu64, row->name, e->seq, bytes);
    send_grant(b, e->job, e->seq, bytes, g->run, g->n_runs, false);
}

bool
zi_effects_replay(zi_broker *b, zi_job_id job, uint32_t seq)
{
    const zi_leases *t = b->estate->leases;
    zi_run           runs[ZI_LEDGER_RUNS_MAX];
    uint32_t         from = 0;
    bool             found = false;

    if (seq > b->member[job].replay_seq) return false;
    for (;;) {
        size_t n = zi_leases_granted(t, job, seq, &from, runs, ZI_LEDGER_RUNS_MAX);
        bool   more = from < t->head->n_regions;
        if (n == 0 && !found) return false;
        found = true;
        send_grant(b, job, seq, runs_bytes(b, runs, n), runs, n, more);
        if (!more) break;
    }
    zi_log(ZI_LOG_SESSION, "%s asked again for what it was granted before the restart",
           t->row[job].name);
    return true;
}

/* -- words --------------------------------------------------------------------------------- */

static void
deny_text(zi_broker *b, zi_msg_deny *d)
{
    char             asked[ZI_SIZE_TEXT], had[ZI_SIZE_TEXT], budget[ZI_SIZE_TEXT];
    zi_ledger_totals sum;

    zi_ledger_sum(zi_desk_ledger(b->desk), &sum);
    snprintf(d->text, sizeof d->text,
             "asked for %s; %s could be had of a budget of %s: %s%s",
             zi_size_format(d->asked_bytes, asked), zi_size_format(d->had_bytes, had),
             zi_size_format(sum.target_bytes, budget),
             d->status == ZICO_E_NOMEM
                 ? "beyond its claim, and nothing safe is left to give"
                 : zico_status_text((zico_status)d->status),
             d->status == ZICO_E_BUDGET
                 ? "; lower what the job needs, or raise the budget or the job's maximum "
                   "(zico limit)"
                 : "");
}

void
zi_effects_deny(zi_broker *b, zi_job_id job, uint32_t seq, zico_status st,
                uint64_t asked_bytes, uint64_t had_bytes)
{
    zi_peer *p = zi_member_peer(b, job);

    if (!p) return;
    zi_msg *m = zi_peer_compose(b, ZI_MSG_DENY, seq);
    m->deny.status = st;
    m->deny.asked_bytes = asked_bytes;
    m->deny.had_bytes = had_bytes;
    deny_text(b, &m->deny);
    zi_log(ZI_LOG_STEP, "deny,%s,%u,%s", b->estate->leases->row[job].name, seq,
           m->deny.text);
    zi_peer_send(b, p, false);
    if (st == ZICO_E_LIMIT && ++p->n_excess > ZI_PEER_EXCESS_MAX)
        zi_peer_refuse(b, p, ZICO_E_LIMIT,
                       "floods: again and again more than %u requests",
                       ZI_LEDGER_REQS_PER_JOB);
}

void
zi_effects_log_step(zi_broker *b, const char *word, zi_job_id job, uint64_t value)
{
    if (zi_log_get_level() < ZI_LOG_STEP) return;
    zi_log(ZI_LOG_STEP, "%s,%s,%" PRIu64 ",%" PRIu64, word,
           b->estate->leases->row[job].name, b->os->now_ns(b->os), value);
}

/* -- one effect ------------------------------------------------------------------------------ */

static void
tell_wait(zi_broker *b, zi_peer *p, const zi_effect *e)
{
    zi_msg *m =
        zi_peer_compose(b, ZI_MSG_WAIT, e->seq ? e->seq : b->member[e->job].step_seq);

    m->wait.reason = (uint8_t)e->reason;
    m->wait.position = e->position;
    m->wait.behind_job = e->behind;
    zi_peer_send(b, p, false);
}

static void
tell_go(zi_broker *b, zi_peer *p, const zi_effect *e)
{
    zi_member    *m = &b->member[e->job];
    zi_table_row *row = &b->estate->leases->row[e->job];
    uint32_t      seq = e->seq ? e->seq : m->step_seq;

    atomic_store(&row->in_step, 1u);
    zi_effects_note_claim(b, e->job);
    m->step_seq = 0;
    zi_effects_log_step(b, "go", e->job, e->value);
    if (!p) return;
    zi_msg_go *go = &zi_peer_compose(b, ZI_MSG_GO, seq)->go;
    go->cores = (uint32_t)e->value;
    go->first_core = e->first_core;
    zi_peer_send(b, p, false);
}

static void
tell_shrink(zi_broker *b, const zi_effect *e)
{
    zi_msg_shrink *m = &zi_peer_compose(b, ZI_MSG_SHRINK, 0)->shrink;

    m->claim_bytes = e->value;
    m->cost_milli = e->cost_milli < ZI_COST_MILLI_MAX ? e->cost_milli : ZI_COST_MILLI_MAX;
}

static void
tell_cores(zi_broker *b, const zi_effect *e)
{
    zi_msg_cores *m = &zi_peer_compose(b, ZI_MSG_CORES, 0)->cores;

    m->cores = (uint32_t)e->value;
    m->first_core = e->first_core;
    zi_effects_log_step(b, "cores", e->job, e->value);
}

static void
carry_out(zi_broker *b, const zi_effect *e)
{
    zi_peer *p = e->job < ZI_LEDGER_JOBS_MAX ? zi_member_peer(b, e->job) : NULL;

    switch (e->kind) {
    case ZI_EFFECT_PUNCH:
        if (e->grant) punch(b, e->grant);
        if (zi_log_get_level() >= ZI_LOG_STEP)
            zi_log(ZI_LOG_STEP, "cold,-,%" PRIu64 ",%zu", b->os->now_ns(b->os),
                   e->grant ? e->grant->n_punch : 0);
        return;
    case ZI_EFFECT_WAKE_AT:
        if (e->value < b->wake_ns) b->wake_ns = e->value;
        return;
    case ZI_EFFECT_GRANT:
        grant(b, e);
        return;
    case ZI_EFFECT_GO:
        tell_go(b, p, e);
        return;
    case ZI_EFFECT_DENY:
        if (e->seq == b->member[e->job].step_seq) b->member[e->job].step_seq = 0;
        zi_effects_deny(b, e->job, e->seq, e->status, e->asked_bytes, e->had_bytes);
        return;
    default:
        break;
    }
    if (!p) return;
    switch (e->kind) {
    case ZI_EFFECT_WAIT:
        tell_wait(b, p, e);
        return;
    case ZI_EFFECT_CORES:
        tell_cores(b, e);
        break;
    case ZI_EFFECT_RECALL:
        zi_peer_compose(b, ZI_MSG_RECALL, 0)->recall.n_regions = (uint32_t)e->value;
        break;
    case ZI_EFFECT_SUSPEND:
        zi_effects_log_step(b, "suspend", e->job, e->value);
        zi_peer_compose(b, ZI_MSG_SUSPEND, 0)->suspend.cold = e->value != 0;
        break;
    case ZI_EFFECT_RESUME:
        zi_effects_log_step(b, "resume", e->job, 0);
        zi_peer_compose(b, ZI_MSG_RESUME, 0);
        break;
    case ZI_EFFECT_SHRINK:
        zi_effects_log_step(b, "shrink", e->job, e->value);
        tell_shrink(b, e);
        break;
    default:
        zi_assert(!"an effect that nobody carries out");
        return;
    }
    zi_peer_send(b, p, false);
}

void
zi_effects(zi_broker *b)
{
    zi_effect e;

    while (zi_desk_next(b->desk, &e)) carry_out(b, &e);
}

/* -- B5 ------------------------------------------------------------------------------------ */

void
zi_effects_check_budget(zi_broker *b)
{
    zi_ledger_totals sum;
    uint64_t         resident;

    if (!b->booked || b->holding) return;
    b->booked = false;
    if (b->estate->dev->ops->pool_resident(b->estate->pool, &resident) < 0) return;
    zi_ledger_sum(zi_desk_ledger(b->desk), &sum);
    bool over = resident + sum.private_bytes > sum.budget_bytes;
    if (over) b->n_over++;
    if (over && !b->over)
        zi_log(ZI_LOG_ERROR,
               "over budget: %" PRIu64 " bytes of the pool are resident and %" PRIu64
               " private, of %" PRIu64,
               resident, sum.private_bytes, sum.budget_bytes);
    b->over = over;
}

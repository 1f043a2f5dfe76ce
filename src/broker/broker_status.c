/* broker_status.c -- who holds what, for people and tools. */
#include "broker/inside.h"

#include <string.h>
#include <unistd.h>

static void
fill_device(zi_broker *b, zi_msg_status *s)
{
    const zi_estate     *e = b->estate;
    const zi_table_head *h = e->leases->head;
    zi_ledger_totals     sum;
    zi_waiting           w;

    zi_ledger_sum(zi_desk_ledger(b->desk), &sum);
    s->now_ns = b->os->now_ns(b->os);
    s->epoch = h->epoch;
    s->revision = h->revision;
    s->budget_bytes = sum.budget_bytes;
    s->target_bytes = sum.target_bytes;
    s->leased_bytes = sum.leased_bytes;
    s->private_bytes = sum.private_bytes;
    s->idle_bytes = sum.idle_bytes;
    s->peak_bytes = sum.peak_bytes;
    if (e->dev->ops->pool_resident(e->pool, &s->kernel_bytes) < 0) s->kernel_bytes = 0;
    s->exchanged_bytes = b->exchanged_bytes;
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        if (!b->member[j].live || !b->member[j].adopted) continue;
        zi_desk_waiting(b->desk, j, &w);
        s->exchanged_bytes += w.exchanged_bytes;
    }
    s->region_bytes = h->region_bytes;
    s->n_regions = h->n_regions;
    s->n_cores = e->dev->ops->n_cores(e->dev);
    s->broker_pid = (uint32_t)getpid();
    s->n_absent = b->n_awaited;
    s->n_decisions = b->timing.n;
    s->decide_p50_ns = zi_timing_quantile(&b->timing, 500);
    s->decide_p99_ns = zi_timing_quantile(&b->timing, 990);
    s->n_over = b->n_over;
    strcpy(s->policy, b->policy);
    strcpy(s->device, h->device);
    zi_desk_explain(b->desk, s->policy_says, sizeof s->policy_says);
}

/* What the desk and the ledger know; a listed job that has not reported is only a row. */
static void
fill_books(zi_broker *b, zi_job_id job, zi_msg_status_job *s)
{
    const zi_ledger_job *l = zi_ledger_job_of(zi_desk_ledger(b->desk), job);
    const zi_job_view   *v = zi_desk_job(b->desk, job);
    uint64_t             region = b->estate->shape.region_bytes;
    zi_waiting           w;

    if (!l || !v) return;
    zi_desk_waiting(b->desk, job, &w);
    s->state = (uint8_t)v->state;
    s->reason = (uint8_t)w.reason;
    s->behind_job = w.behind;
    s->position = w.position;
    s->asked_bytes = w.asked_bytes;
    s->waited_ns = w.waited_ns;
    if (w.reason != ZI_REASON_NONE) s->waiting_ns = b->os->now_ns(b->os) - w.since_ns;
    s->fixed_bytes = l->n_fixed * region;
    s->step_bytes = l->n_step * region;
    s->private_bytes = l->private_bytes;
    s->peak_bytes = l->peak_bytes;
    s->claim_bytes = v->claim_bytes;
    s->weight_milli = v->weight_milli;
    s->cores = v->cores;
    s->step_no = v->step_no;
    s->step_ns = v->last_step_ns;
    s->solo_ns = v->solo_step_ns;
    s->exchanged_bytes = w.exchanged_bytes;
    s->lane = w.lane;
}

static void
fill_job(zi_broker *b, zi_job_id job, zi_msg_status_job *s)
{
    const zi_member    *m = &b->member[job];
    const zi_table_row *r = &b->estate->leases->row[job];

    s->job = job;
    s->pid = (uint32_t)m->pid;
    strcpy(s->name, r->name);
    s->state = ZI_JOB_IDLE;
    s->reason = ZI_REASON_REJOIN;
    s->behind_job = ZI_JOB_NONE;
    s->lane = -1;
    s->min_bytes = r->min_bytes;
    s->max_bytes = r->max_bytes;
    s->revision = r->revision;
    s->steps_total = r->steps_total;
    s->samples = m->samples;
    s->loss_micro = m->loss_micro;
    if (m->adopted) fill_books(b, job, s);
    if (m->peer == ZI_PEER_NONE)
        strcpy(s->note, "not connected; its leases stay while it lives");
    else
        strcpy(s->note, m->note);
}

void
zi_status_send(zi_broker *b, zi_peer *p, uint32_t seq)
{
    zi_msg *m = zi_peer_compose(b, ZI_MSG_STATUS, seq);

    m->status.version = p->version;
    m->status.n_jobs = b->n_members;
    fill_device(b, &m->status);
    zi_peer_send(b, p, false);
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        if (!b->member[j].live) continue;
        fill_job(b, j, &zi_peer_compose(b, ZI_MSG_STATUS_JOB, seq)->status_job);
        zi_peer_send(b, p, false);
    }
}

/* At most 20 a second, and one before a job leaves (`last`): what it came to is not seen
 * afterwards.  A watcher that still has something to read is left alone. */
void
zi_status_watchers(zi_broker *b, bool last)
{
    uint64_t now = b->os->now_ns(b->os);

    if (!b->changed || (!last && now - b->watched_ns < ZI_WATCH_EVERY_NS)) return;
    b->changed = false;
    b->watched_ns = now;
    for (uint32_t i = 0; i < ZI_PEERS_MAX; i++) {
        zi_peer *p = b->peer[i];
        if (!p || !p->watch || p->state != ZI_PEER_TOOL) continue;
        if (p->first)
            b->changed = true; /* later */
        else
            zi_status_send(b, p, p->watch_seq);
    }
}

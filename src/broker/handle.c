/* handle.c -- one message of a peer: form is checked (wire), here is its meaning.
 *
 * What a message may mean depends on the peer's state (drawn in peer.c).  A message in the
 * wrong place, and a claim that the books contradict, end the connection.
 */
#include "broker/inside.h"

#include <inttypes.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"

/* -- memory -------------------------------------------------------------------------------- */

static uint64_t
deadline_of(uint64_t now, uint64_t wait_ns)
{
    return wait_ns > UINT64_MAX - 1 - now ? UINT64_MAX : now + wait_ns;
}

static void
ask(zi_broker *b, zi_peer *p, zi_request *req, uint64_t wait_ns)
{
    uint64_t now = b->os->now_ns(b->os);

    req->job = p->job;
    req->seq = b->msg.seq;
    req->deadline_ns = deadline_of(now, wait_ns);
    zico_status st = zi_decide(b, zi_desk_ask(b->desk, req, now));
    if (st < 0) zi_effects_deny(b, p->job, req->seq, st, req->size_bytes, 0);
}

static void
on_lease(zi_broker *b, zi_peer *p, const zi_msg_lease *m)
{
    if (zi_effects_replay(b, p->job, b->msg.seq)) return;
    zi_request req = {
        .hold = m->cls == 0 ? ZI_HOLD_FIXED : ZI_HOLD_STEP,
        .n_regions = m->n_regions,
        .size_bytes = m->n_regions * b->estate->shape.region_bytes,
        .adjacent = m->adjacent,
        .ahead = m->ahead,
    };
    ask(b, p, &req, m->wait_ns);
}

static void
on_charge(zi_broker *b, zi_peer *p, const zi_msg_charge *m)
{
    zi_request req = {.hold = ZI_HOLD_PRIVATE, .size_bytes = m->size_bytes};
    ask(b, p, &req, m->wait_ns);
}

static void
on_return(zi_broker *b, zi_peer *p, const zi_msg_give_back *m)
{
    uint64_t    now = b->os->now_ns(b->os);
    zico_status st =
        zi_decide(b, zi_desk_return(b->desk, p->job, m->runs, m->n_runs, now));

    if (st < 0) {
        zi_peer_refuse(b, p, ZICO_E_PROTO, "returned regions that are not its own");
        return;
    }
    zi_leases_return(b->estate->leases, m->runs, m->n_runs);
}

static void
on_uncharge(zi_broker *b, zi_peer *p, const zi_msg_uncharge *m)
{
    uint64_t    now = b->os->now_ns(b->os);
    zico_status st = zi_decide(b, zi_desk_uncharge(b->desk, p->job, m->size_bytes, now));

    if (st < 0) {
        zi_peer_refuse(b, p, ZICO_E_PROTO,
                       "uncharged %" PRIu64 " bytes that it was never "
                       "charged",
                       m->size_bytes);
        return;
    }
    const zi_ledger_job *l = zi_ledger_job_of(zi_desk_ledger(b->desk), p->job);
    atomic_store(&b->estate->leases->row[p->job].private_bytes, l->private_bytes);
}

static void
on_raise(zi_broker *b, zi_peer *p, const zi_msg_raise *m)
{
    uint64_t now = b->os->now_ns(b->os);

    zi_log(ZI_LOG_STEP, "raise,%s,%u,%" PRIu64, b->estate->leases->row[p->job].name,
           b->msg.seq, m->claim_bytes);
    b->member[p->job].raise_seq = b->msg.seq;
    zico_status st =
        zi_decide(b, zi_desk_raise(b->desk, p->job, b->msg.seq, m->claim_bytes, now));

    if (st < 0) zi_effects_deny(b, p->job, b->msg.seq, st, m->claim_bytes, 0);
}

/* -- steps ------------------------------------------------------------------------------------ */

static void
on_step_ask(zi_broker *b, zi_peer *p, const zi_msg_step_ask *m)
{
    uint64_t now = b->os->now_ns(b->os);

    zi_effects_log_step(b, "ask", p->job, m->step_no);
    b->member[p->job].step_seq = b->msg.seq;
    atomic_store(&b->estate->leases->row[p->job].step_no, m->step_no);
    zico_status st =
        zi_decide(b, zi_desk_step_ask(b->desk, p->job, b->msg.seq, m->step_no, now));
    if (st < 0)
        zi_peer_refuse(b, p, ZICO_E_PROTO, "asked for step %" PRIu64 ": %s", m->step_no,
                       zico_status_text(st));
}

/* Chunks of a tide go through the recorder, which groups any number of points. */
static void
on_tide(zi_broker *b, zi_peer *p, const zi_msg_tide *m)
{
    zi_member *mb = &b->member[p->job];

    if (!mb->tide) mb->tide = zi_calloc(1, sizeof *mb->tide);
    if (!mb->recorder && zi_tide_recorder_new(&mb->recorder) < 0) mb->recorder = NULL;
    if (!mb->tide || !mb->recorder) return; /* a step without a tide is allowed */
    if (m->index == 0) {
        zi_tide_recorder_begin(mb->recorder, 0);
        mb->has_tide = false;
    }
    for (uint32_t i = 0; i < m->n_points; i++)
        if (m->points[i].at_ns <= m->length_ns && m->points[i].delta != 0)
            zi_tide_recorder_add(mb->recorder, m->points[i].at_ns, m->points[i].delta);
    if (!m->last) return;
    zi_tide_recorder_end(mb->recorder, m->length_ns, mb->tide);
    mb->has_tide = zi_tide_verify(mb->tide) == ZICO_OK;
}

static void
on_step_end(zi_broker *b, zi_peer *p, const zi_msg_step_end *m)
{
    zi_member *mb = &b->member[p->job];
    uint64_t   now = b->os->now_ns(b->os);

    zi_effects_log_step(b, "end", p->job, m->stall_ns);
    mb->samples = m->samples;
    mb->loss_micro = m->loss_micro;
    atomic_store(&b->estate->leases->row[p->job].in_step, 0u);
    zico_status st = zi_decide(b, zi_desk_step_end(b->desk, p->job, m->step_no,
                                                   mb->has_tide ? mb->tide : NULL,
                                                   m->busy_ns, m->stall_ns, now));
    mb->has_tide = false;
    zi_effects_note_claim(b, p->job);
    if (st < 0)
        zi_peer_refuse(b, p, ZICO_E_PROTO, "ended step %" PRIu64 ": %s", m->step_no,
                       zico_status_text(st));
}

/* One that was answered meanwhile is no fault; a step whose GO is on its way does not begin. */
static void
on_cancel(zi_broker *b, zi_peer *p, uint32_t seq)
{
    zi_decide(b, zi_desk_cancel(b->desk, p->job, seq, b->os->now_ns(b->os)));
    const zi_job_view *v = zi_desk_job(b->desk, p->job);
    if (v && v->state != ZI_JOB_RUNNING)
        atomic_store(&b->estate->leases->row[p->job].in_step, 0u);
}

static void
on_suspended(zi_broker *b, zi_peer *p, const zi_msg_suspended *m)
{
    uint64_t now = b->os->now_ns(b->os);

    zi_effects_log_step(b, "out", p->job, m->out_bytes);
    if (m->status < 0) /* it stays and goes on */
        atomic_store(&b->estate->leases->row[p->job].paused, 0u);
    if (m->status < 0)
        zi_log(ZI_LOG_ERROR, "%s cannot be suspended: %s; it stays in memory",
               b->estate->leases->row[p->job].name,
               zico_status_text((zico_status)m->status));
    zico_status st =
        zi_decide(b, zi_desk_suspended(b->desk, p->job, (zico_status)m->status, now));

    if (st < 0)
        zi_peer_refuse(b, p, ZICO_E_PROTO, "says it is suspended: %s",
                       zico_status_text(st));
}

/* One that comes too late, inside a step, changes nothing: the tide will be learnt anyway. */
static void
on_frontier(zi_broker *b, zi_peer *p, const zi_msg_frontier *m)
{
    if (m->n_points == 0) return;
    const zi_wire_point *now = &m->points[m->n_points - 1], *full = &m->points[0];
    zi_job_plan          plan = {.step_bytes = (uint64_t)now->delta};

    if (now->delta <= 0 || full->delta <= 0) return;
    if (m->n_points > 1) {
        double cost = full->at_ns ? 1e3 * (double)now->at_ns / (double)full->at_ns : 1e3;
        plan.full_bytes = (uint64_t)full->delta;
        plan.cost_milli = cost < ZI_COST_MILLI_MAX ? (uint32_t)cost : ZI_COST_MILLI_MAX;
    }
    zi_decide(b, zi_desk_planned(b->desk, p->job, &plan, b->os->now_ns(b->os)));
}

static void
handle_job(zi_broker *b, zi_peer *p)
{
    const zi_msg *m = &b->msg;

    switch (m->type) {
    case ZI_MSG_LEASE:
        on_lease(b, p, &m->lease);
        break;
    case ZI_MSG_CHARGE:
        on_charge(b, p, &m->charge);
        break;
    case ZI_MSG_RETURN:
        on_return(b, p, &m->give_back);
        break;
    case ZI_MSG_UNCHARGE:
        on_uncharge(b, p, &m->uncharge);
        break;
    case ZI_MSG_RAISE:
        on_raise(b, p, &m->raise);
        break;
    case ZI_MSG_CANCEL:
        on_cancel(b, p, m->seq);
        break;
    case ZI_MSG_STEP_ASK:
        on_step_ask(b, p, &m->step_ask);
        break;
    case ZI_MSG_TIDE:
        on_tide(b, p, &m->tide);
        break;
    case ZI_MSG_STEP_END:
        on_step_end(b, p, &m->step_end);
        break;
    case ZI_MSG_SUSPENDED:
        on_suspended(b, p, &m->suspended);
        break;
    case ZI_MSG_NOTE:
        strcpy(b->member[p->job].note, m->note.text);
        break;
    case ZI_MSG_FRONTIER:
        on_frontier(b, p, &m->frontier);
        break;
    case ZI_MSG_LEAVE:
        zi_member_leave(b, p->job, "it said so");
        return;
    default:
        zi_peer_refuse(b, p, ZICO_E_PROTO, "%s makes no sense from a job that has joined",
                       zi_msg_name(m->type));
    }
    zi_effects(b);
}

/* -- opening --------------------------------------------------------------------------------- */

static void
join(zi_broker *b, zi_peer *p, const zi_msg_hello *m)
{
    zico_status st = zi_member_join(b, p, m);

    if (st == ZICO_E_VERSION)
        zi_peer_refuse(b, p, st, "you speak wire versions %u to %u, this broker %u to %u",
                       m->min_version, m->max_version, ZI_WIRE_VERSION_MIN,
                       ZI_WIRE_VERSION_MAX);
    else if (st == ZICO_E_BUDGET)
        zi_peer_refuse(b, p, st,
                       "asked for at least %" PRIu64 " bytes and a claim of %" PRIu64
                       "; the budget is %" PRIu64
                       " bytes, part of it promised to others: "
                       "ask for less or raise the budget (zico limit)",
                       m->min_bytes, m->claim_bytes,
                       (uint64_t)b->estate->leases->head->budget_bytes);
    else if (st < 0)
        zi_peer_refuse(b, p, st, "cannot be admitted: %s", zico_status_text(st));
}

static void
hold_hello(zi_broker *b, zi_peer *p)
{
    p->hello = zi_malloc(sizeof *p->hello);
    if (!p->hello) {
        zi_peer_refuse(b, p, ZICO_E_NOMEM, "no memory to keep a request");
        return;
    }
    *p->hello = b->msg;
    p->state = ZI_PEER_HELD;
}

void
zi_handle_held(zi_broker *b)
{
    if (b->holding || b->grace_until_ns) return;
    for (uint32_t i = 0; i < ZI_PEERS_MAX; i++) {
        zi_peer *p = b->peer[i];
        if (!p || p->state != ZI_PEER_HELD) continue;
        zi_msg *hello = p->hello;
        p->hello = NULL;
        join(b, p, &hello->hello);
        zi_free(hello);
    }
}

static void
rejoin(zi_broker *b, zi_peer *p)
{
    zico_status st = zi_member_rejoin(b, p, &b->msg.rejoin);

    if (st < 0)
        zi_peer_refuse(b, p, st == ZICO_E_VERSION ? st : ZICO_E_GONE,
                       "job %u is not known here: %s", b->msg.rejoin.job,
                       zico_status_text(st));
}

/* -- tools ------------------------------------------------------------------------------------ */

static void
handle_tool(zi_broker *b, zi_peer *p)
{
    const zi_msg *m = &b->msg;

    p->state = ZI_PEER_TOOL;
    switch (m->type) {
    case ZI_MSG_STATUS_ASK:
        if (zi_wire_agree(m->status_ask.min_version, m->status_ask.max_version,
                          &p->version) < 0) {
            zi_peer_refuse(b, p, ZICO_E_VERSION,
                           "this broker speaks wire versions %u to %u",
                           ZI_WIRE_VERSION_MIN, ZI_WIRE_VERSION_MAX);
            return;
        }
        p->watch = m->status_ask.watch;
        p->watch_seq = m->seq;
        zi_status_send(b, p, m->seq);
        break;
    case ZI_MSG_LIMIT:
        zi_people_limit(b, p, m->seq, &m->limit);
        break;
    case ZI_MSG_CONTROL:
        zi_people_control(b, p, m->seq, &m->control);
        break;
    default:
        break;
    }
}

/* -- all ---------------------------------------------------------------------------------------- */

static bool
needs_seq(zi_msg_type type)
{
    return type == ZI_MSG_LEASE || type == ZI_MSG_CHARGE || type == ZI_MSG_RAISE ||
           type == ZI_MSG_STEP_ASK || type == ZI_MSG_CANCEL ||
           type == ZI_MSG_STATUS_ASK || type == ZI_MSG_LIMIT || type == ZI_MSG_CONTROL;
}

void
zi_handle(zi_broker *b, zi_peer *p)
{
    zi_msg_type type = b->msg.type;

    if (needs_seq(type) && b->msg.seq == 0) {
        zi_peer_refuse(b, p, ZICO_E_PROTO, "%s without a seq", zi_msg_name(type));
    } else if (p->state == ZI_PEER_JOB) {
        handle_job(b, p);
    } else if (zi_msg_may_come_from(type, ZI_FROM_TOOL) && p->state != ZI_PEER_HELD) {
        handle_tool(b, p);
    } else if (p->state == ZI_PEER_NEW && type == ZI_MSG_HELLO) {
        if (b->holding || b->grace_until_ns)
            hold_hello(b, p);
        else
            join(b, p, &b->msg.hello);
    } else if (p->state == ZI_PEER_NEW && type == ZI_MSG_REJOIN) {
        rejoin(b, p);
    } else if (p->state == ZI_PEER_HELD && type == ZI_MSG_LEAVE) {
        p->state = ZI_PEER_DONE;
    } else {
        zi_peer_refuse(b, p, ZICO_E_PROTO, "%s before HELLO", zi_msg_name(type));
    }
}

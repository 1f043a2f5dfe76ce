/* client_step.c -- steps of a job: asking to begin, moving out and in, telling the tide. */
#include "client/session_inside.h"

#include "base/try.h"

#include <math.h>
#include <string.h>

#define RAISE_ONCE_NS 500000000u /* a raise that will not wait: for the answer itself */

/* -- out and in, at a step boundary ------------------------------------------------------------- */

void
zi_step_tell_suspended(zi_session *s, uint64_t out_bytes, zico_status st)
{
    if (s->state != ZI_LINK_JOINED) return; /* a successor is told by rejoin.c */
    zi_msg_suspended *m = &zi_link_message(s, ZI_MSG_SUSPENDED)->suspended;
    m->out_bytes = out_bytes;
    m->status = st < 0 ? st : 0;
    zi_link_send(s, NULL, 0);
}

bool
zi_session_suspend_is_cold(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    bool cold = s->suspend_cold;
    pthread_mutex_unlock(&s->mu);
    return cold;
}

/* With mu held, released around the callback, which gives its leases back. */
static void
move_out(zi_session *s)
{
    uint64_t    out_bytes = 0;
    zico_status st = ZICO_E_UNSUPPORTED;

    s->suspend_asked = false;
    pthread_mutex_unlock(&s->mu);
    if (s->opt.on_suspend) st = s->opt.on_suspend(s->opt.user, &out_bytes);
    pthread_mutex_lock(&s->mu);
    zi_lease_drop_stock(s, UINT32_MAX);
    zi_lease_flush(s);
    s->suspended = st >= 0;
    zi_step_tell_suspended(s, out_bytes, st);
    if (s->suspended) zi_lease_forget_pages(s); /* nobody waits for that */
}

static zico_status
move_in(zi_session *s)
{
    zico_status st = ZICO_OK;

    s->resume_asked = false;
    s->suspended = false;
    pthread_mutex_unlock(&s->mu);
    if (s->opt.on_resume) st = s->opt.on_resume(s->opt.user);
    pthread_mutex_lock(&s->mu);
    s->suspended = st < 0;
    return st;
}

/* Without a broker nobody could say when: go now. */
static zico_status
or_alone(zico_status st)
{
    return st == ZICO_E_GONE || st == ZICO_E_DENIED ? ZICO_OK : st;
}

/* With mu held: nothing is asked for while we are out, so that no step can begin before
 * everything is in again. */
static zico_status
await_resume(zi_session *s, uint64_t deadline_ns)
{
    zi_pending p = {.ask = {.type = ZI_MSG_STEP_ASK, .deadline_ns = deadline_ns}};

    p.runs = p.few;
    while (!s->resume_asked && !p.answered) {
        s->suspend_asked = false; /* we are out */
        zi_link_await(s, &p);
    }
    if (!s->resume_asked) ZI_TRY(or_alone(p.status));
    return move_in(s);
}

/* With mu held: wait for GO, moving out and in as the broker asks.  E_NOPLAN: the limit that the
 * job planned for is no longer the limit. */
static zico_status
await_go(zi_session *s, zi_pending *p)
{
    for (;;) {
        if (s->suspended) ZI_TRY(await_resume(s, p->ask.deadline_ns));
        zi_link_ask(s, p);
        zi_link_await(s, p);
        s->resume_asked = false; /* we are in */
        if (p->answered) return or_alone(p->status);
        zi_link_withdraw(s, p);
        if (s->suspend_asked)
            move_out(s);
        else if (zi_limit_has_changed(s))
            return ZICO_E_NOPLAN;
    }
}

/* As the broker counts it: in whole regions. */
static uint64_t
declared_claim(const zi_session *s)
{
    uint64_t unit = s->shape.region_bytes, claim = s->opt.claim_bytes;
    return claim > UINT64_MAX - unit ? claim : (claim + unit - 1) / unit * unit;
}

zico_status
zi_session_step_begin(zi_session *s, uint64_t wait_ns)
{
    zi_pending  p;
    zico_status st = ZICO_OK;

    if (!zi_session_usable(s)) return ZICO_E_STATE;
    memset(&p, 0, sizeof p);
    p.runs = p.few;
    p.ask.type = ZI_MSG_STEP_ASK;
    p.ask.deadline_ns = wait_ns ? zi_wait_deadline(s, wait_ns) : s->os->now_ns(s->os);

    pthread_mutex_lock(&s->mu);
    if (s->in_step) {
        pthread_mutex_unlock(&s->mu);
        return ZICO_E_STATE;
    }
    uint64_t start = s->os->now_ns(s->os);
    p.ask.step_ask.step_no = s->step_no + 1;
    if (s->state != ZI_LINK_LOCAL) st = await_go(s, &p);
    uint64_t now = s->os->now_ns(s->os);
    s->stats.wait_step_ns += now - start;
    if (st >= 0) {
        s->in_step = true;
        s->tide_wanted = false;
        s->step_no++;
        s->step_start_ns = now;
        s->step_stall_ns = 0;
        s->step_peak_bytes = s->step_bytes;
        s->step_claim_bytes = declared_claim(s);
        zi_tide_recorder_begin(s->recorder, now);
        s->held_bytes = 0;
        if (s->opt.hold_step)
            zi_lease_note_held(s, now);
        else if (s->step_bytes && !s->tide_by_caller)
            zi_tide_recorder_add(s->recorder, now, (int64_t)s->step_bytes);
    }
    pthread_mutex_unlock(&s->mu);
    return st;
}

/* -- more than was claimed -------------------------------------------------------------------- */

zico_status
zi_step_raise(zi_session *s, uint64_t claim_bytes, uint64_t deadline_ns)
{
    zi_pending p = {.ask = {.type = ZI_MSG_RAISE, .deadline_ns = deadline_ns}};

    while (s->raising)
        if (!zi_wait_until(s, deadline_ns)) return ZICO_E_TIMEOUT;
    if (!s->in_step) return ZICO_E_STATE; /* it ended meanwhile */
    if (claim_bytes <= s->step_claim_bytes || s->state == ZI_LINK_LOCAL) return ZICO_OK;
    p.runs = p.few;
    p.ask.raise.claim_bytes = claim_bytes;
    s->raising = true;
    zi_link_ask(s, &p);
    zi_link_await(s, &p);
    s->raising = false;
    if (p.status >= 0) s->step_claim_bytes = claim_bytes;
    pthread_cond_broadcast(&s->changed);
    return p.status;
}

zico_status
zi_session_raise(zi_session *s, uint64_t claim_bytes, uint64_t wait_ns)
{
    if (claim_bytes == 0) return ZICO_E_ARG;
    if (!zi_session_usable(s)) return ZICO_E_STATE;
    uint64_t start = s->os->now_ns(s->os);
    uint64_t deadline = wait_ns ? zi_wait_deadline(s, wait_ns) : start + RAISE_ONCE_NS;

    pthread_mutex_lock(&s->mu);
    zico_status st = s->in_step ? zi_step_raise(s, claim_bytes, deadline) : ZICO_E_STATE;
    if (s->in_step) s->stats.wait_lease_ns += s->os->now_ns(s->os) - start;
    pthread_mutex_unlock(&s->mu);
    return or_alone(st);
}

/* -- telling what was seen -------------------------------------------------------------------- */

#define CHUNK 1024u

_Static_assert(ZI_TIDE_POINTS_MAX <= CHUNK * 256u, "a tide fits the chunks of the wire");

static void
send_tide(zi_session *s, const zi_tide *t)
{
    uint32_t at = 0, index = 0;

    do {
        zi_msg_tide *m = &zi_link_message(s, ZI_MSG_TIDE)->tide;
        uint32_t     n = t->n_points - at < CHUNK ? t->n_points - at : CHUNK;
        m->index = index++;
        m->length_ns = t->length_ns;
        m->end_bytes = t->end_bytes;
        m->n_points = n;
        for (uint32_t i = 0; i < n; i++)
            m->points[i] = (zi_wire_point){.at_ns = t->point[at + i].at_ns,
                                           .delta = t->point[at + i].delta_bytes};
        at += n;
        m->last = at == t->n_points;
        zi_link_send(s, NULL, 0);
    } while (at < t->n_points);
}

/* The broker books every lease itself; only one that came in mid-step has seen but a part of the tide.
 * Others would wait for their turn until it has been put together, sent and read. */
static void
tell_tide(zi_session *s, uint64_t now_ns)
{
    if (s->opt.hold_step)
        zi_tide_recorder_add(s->recorder, now_ns, -(int64_t)s->held_bytes);
    zi_tide_recorder_end(s->recorder, now_ns, &s->tide);
    send_tide(s, &s->tide);
}

static void
send_step_end(zi_session *s, const zi_step_info *info, uint64_t length_ns)
{
    zi_msg_step_end *m = &zi_link_message(s, ZI_MSG_STEP_END)->step_end;

    m->step_no = s->step_no;
    m->length_ns = length_ns;
    m->busy_ns = info->busy_ns;
    m->peak_bytes = s->step_peak_bytes;
    m->stall_ns = s->step_stall_ns;
    m->loss_micro = info->loss > -9e12 && info->loss < 9e12 /* false for NAN, too */
                        ? (int64_t)(info->loss * 1e6 + (info->loss < 0 ? -0.5 : 0.5))
                        : INT64_MIN;
    m->samples = info->samples;
    zi_link_send(s, NULL, 0);
}

zico_status
zi_session_step_end(zi_session *s, const zi_step_info *info)
{
    const zi_step_info none = {.loss = NAN};

    if (!info) info = &none;
    if (!zi_session_usable(s)) return ZICO_E_STATE;
    pthread_mutex_lock(&s->mu);
    if (!s->in_step) {
        pthread_mutex_unlock(&s->mu);
        return ZICO_E_STATE;
    }
    zi_lease_finish_returns(s);
    zi_lease_drop_stock(s, UINT32_MAX);
    zi_lease_flush(s);
    uint64_t now = s->os->now_ns(s->os);
    s->in_step = false;
    s->stats.n_steps++;
    if (s->state == ZI_LINK_JOINED) {
        if (s->tide_wanted) tell_tide(s, now);
        send_step_end(s, info,
                      info->length_ns ? info->length_ns : now - s->step_start_ns);
    }
    pthread_mutex_unlock(&s->mu);
    return ZICO_OK;
}

bool
zi_session_in_step(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    bool in_step = s->in_step;
    pthread_mutex_unlock(&s->mu);
    return in_step;
}

void
zi_session_tide_add(zi_session *s, uint64_t at_ns, int64_t delta_bytes)
{
    if (!zi_session_usable(s)) return;
    pthread_mutex_lock(&s->mu);
    s->tide_by_caller = true;
    if (s->in_step) zi_tide_recorder_add(s->recorder, at_ns, delta_bytes);
    pthread_mutex_unlock(&s->mu);
}

void
zi_session_note(zi_session *s, const char *text)
{
    if (!zi_session_usable(s) || !text) return;
    pthread_mutex_lock(&s->mu);
    if (s->state == ZI_LINK_JOINED) {
        zi_msg_note *m = &zi_link_message(s, ZI_MSG_NOTE)->note;
        zi_session_text(m->text, sizeof m->text, text);
        zi_link_send(s, NULL, 0);
    }
    pthread_mutex_unlock(&s->mu);
}

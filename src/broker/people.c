/* people.c -- what people want changed: budget, limits, pause, suspend, the end. */
#include "broker/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "base/log.h"
#include "base/size.h"

static void answer(zi_broker *b, zi_peer *p, uint32_t seq, zi_limit_outcome outcome,
                   uint64_t revision, uint64_t value_bytes, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));

static void
answer(zi_broker *b, zi_peer *p, uint32_t seq, zi_limit_outcome outcome,
       uint64_t revision, uint64_t value_bytes, const char *fmt, ...)
{
    zi_msg *m = zi_peer_compose(b, ZI_MSG_LIMITED, seq);
    va_list ap;

    m->limited.outcome = (uint8_t)outcome;
    m->limited.revision = revision;
    m->limited.value_bytes = value_bytes;
    va_start(ap, fmt);
    vsnprintf(m->limited.text, sizeof m->limited.text, fmt, ap);
    va_end(ap);
    zi_log(ZI_LOG_SESSION, "limits: %s", m->limited.text);
    zi_peer_send(b, p, false);
}

static void
no_such_job(zi_broker *b, zi_peer *p, uint32_t seq, const char *name)
{
    zi_msg *m = zi_peer_compose(b, ZI_MSG_DENY, seq);

    m->deny.status = ZICO_E_NOTFOUND;
    snprintf(m->deny.text, sizeof m->deny.text,
             "no job is called %s; zico status shows the names", name);
    zi_peer_send(b, p, false);
}

/* PENDING is deferred, a refusal is a conflict. */
static zi_limit_outcome
outcome_of(zico_status st)
{
    if (st == ZICO_PENDING) return ZI_LIMIT_DEFERRED;
    return st < 0 ? ZI_LIMIT_CONFLICT : ZI_LIMIT_APPLIED;
}

static void
limit_budget(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_limit *m)
{
    zi_table_head   *h = b->estate->leases->head;
    zi_ledger_totals sum;
    char             want[ZI_SIZE_TEXT], now[ZI_SIZE_TEXT], has[ZI_SIZE_TEXT];
    uint64_t         total = 0, spare = 0;

    if (m->expect_revision != 0 && m->expect_revision != h->revision) {
        answer(b, p, seq, ZI_LIMIT_STALE, h->revision, h->budget_bytes,
               "the budget was changed meanwhile: revision %" PRIu64 ", not %" PRIu64,
               (uint64_t)h->revision, m->expect_revision);
        return;
    }
    zico_status st = ZICO_OK;
    if (b->estate->dev->ops->memory(b->estate->dev, &total, &spare) >= 0 &&
        m->budget_bytes > total)
        st = ZICO_E_BUDGET;
    else if (m->budget_bytes != 0)
        st = zi_decide(b, zi_desk_set_budget(b->desk, m->budget_bytes,
                                             b->os->now_ns(b->os)));
    zi_effects(b);
    zi_ledger_sum(zi_desk_ledger(b->desk), &sum);
    if (m->budget_bytes != 0 && st >= 0) {
        atomic_store(&h->budget_bytes, m->budget_bytes);
        atomic_fetch_add(&h->revision, 1u);
        b->opt.budget_bytes = m->budget_bytes;
        b->booked = true;
    }
    zi_size_format(m->budget_bytes, want);
    zi_size_format(sum.budget_bytes, now);
    if (st < 0)
        answer(
            b, p, seq, ZI_LIMIT_CONFLICT, h->revision, sum.budget_bytes,
            "a budget of %s cannot be: it must cover what is guaranteed to jobs, and the "
            "device has %s; it stays %s",
            want, zi_size_format(total, has), now);
    else
        answer(b, p, seq, outcome_of(st), h->revision, sum.budget_bytes,
               st == ZICO_PENDING
                   ? "the budget sinks from %s to %s as jobs give memory back"
                   : "the budget is %s (asked: %s)",
               now, want);
}

static void
limit_job(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_limit *m)
{
    zi_job_id     job = zi_member_find(b, m->name);
    zi_table_row *r = job == ZI_JOB_NONE ? NULL : &b->estate->leases->row[job];

    if (!r || !b->member[job].adopted) {
        no_such_job(b, p, seq, m->name);
        return;
    }
    if (m->expect_revision != 0 && m->expect_revision != r->revision) {
        answer(b, p, seq, ZI_LIMIT_STALE, r->revision, r->max_bytes,
               "%s was changed meanwhile: revision %" PRIu64 ", not %" PRIu64, m->name,
               (uint64_t)r->revision, m->expect_revision);
        return;
    }
    zi_job_limits limits = {
        .min_bytes = m->min_bytes == UINT64_MAX ? r->min_bytes : m->min_bytes,
        .max_bytes = m->max_bytes == UINT64_MAX ? r->max_bytes : m->max_bytes,
    };
    uint32_t    weight = m->weight_milli ? m->weight_milli : r->weight_milli;
    zico_status st = zi_decide(b, zi_desk_set_limits(b->desk, job, &limits, weight,
                                                     b->os->now_ns(b->os)));
    if (st >= 0) {
        atomic_store(&r->min_bytes, limits.min_bytes);
        atomic_store(&r->max_bytes, limits.max_bytes);
        atomic_store(&r->weight_milli, weight);
        atomic_fetch_add(&r->revision, 1u);
    }
    zi_effects(b);
    answer(b, p, seq, outcome_of(st), r->revision, r->max_bytes,
           "%s: min %" PRIu64 " max %" PRIu64 " bytes (0: the budget) weight %u.%03u%s%s",
           m->name, (uint64_t)r->min_bytes, (uint64_t)r->max_bytes,
           (unsigned)r->weight_milli / 1000, (unsigned)r->weight_milli % 1000,
           st < 0               ? " as before: "
           : st == ZICO_PENDING ? ", once it has given back enough"
                                : "",
           st < 0 ? zico_status_text(st) : "");
}

void
zi_people_limit(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_limit *m)
{
    if (*m->name)
        limit_job(b, p, seq, m);
    else
        limit_budget(b, p, seq, m);
}

void
zi_people_control(zi_broker *b, zi_peer *p, uint32_t seq, const zi_msg_control *m)
{
    static const char *const verb[] = {"pause", "resume", "suspend", "shutdown"};
    zi_job_id                job;

    if (m->verb == ZI_CONTROL_SHUTDOWN) {
        answer(b, p, seq, ZI_LIMIT_APPLIED, 0, 0, "the broker ends");
        b->ending = true;
        return;
    }
    job = zi_member_find(b, m->name);
    if (job == ZI_JOB_NONE || !b->member[job].adopted) {
        no_such_job(b, p, seq, m->name);
        return;
    }
    zico_status st = zi_decide(b, zi_desk_control(b->desk, job, (zi_control)m->verb,
                                                  b->os->now_ns(b->os)));
    zi_effects(b);
    if (st >= 0) /* a successor is to know */
        atomic_store(&b->estate->leases->row[job].paused,
                     (uint32_t)(m->verb != ZI_CONTROL_RESUME));
    answer(b, p, seq, outcome_of(st), b->estate->leases->row[job].revision, 0,
           "%s %s%s%s", verb[m->verb], m->name, st < 0 ? ": " : "",
           st < 0 ? zico_status_text(st) : "");
}

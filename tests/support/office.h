/* office.h -- a desk, what it said last to whom, and what jobs do at it; for tests of the desk. */
#ifndef ZI_TEST_OFFICE_H
#define ZI_TEST_OFFICE_H

#include "policy/desk.h"
#include "test.h"

#define R  (2ull << 20)
#define MS 1000000ull
#define S  1000000000ull

/* -- a desk with what it said last ------------------------------------------------------- */

typedef struct said {
    bool      any;
    zi_effect e;
    zi_run    run[64];
    size_t    n_runs;
} said;

typedef struct office {
    zi_desk *d;
    uint64_t now;
    uint32_t seq;
    uint64_t wake;
    said     last[8][ZI_EFFECT_WAKE_AT + 1]; /* by job and kind */
} office;

static inline void
listen(office *o)
{
    zi_effect e;
    int       broken = 0;

    while (zi_desk_next(o->d, &e)) {
        if (e.kind == ZI_EFFECT_WAKE_AT) o->wake = e.value;
        if (e.job >= 8) continue;
        said *s = &o->last[e.job][e.kind];
        *s = (said){.any = true, .e = e};
        if (e.grant) {
            s->n_runs = e.grant->n_runs < 64 ? e.grant->n_runs : 64;
            memcpy(s->run, e.grant->run, s->n_runs * sizeof s->run[0]);
        }
    }
    if (zi_desk_verify(o->d, &broken) != ZICO_OK) fail_msg("invariant %d", broken);
}

static inline void
open_office(office *o, const char *policy, uint64_t budget_regions)
{
    zi_desk_options opt = {.shape = {R, 64, budget_regions * R},
                           .n_cores = 2,
                           .policy = policy};
    memset(o, 0, sizeof *o);
    o->now = 1 * S;
    expect_ok(zi_desk_new(&opt, &o->d));
}

static inline void
close_office(office *o)
{
    zi_desk_free(o->d);
}

/* Takes what was said of that kind to that job. */
static inline said
heard(office *o, zi_job_id job, zi_effect_kind kind)
{
    said s = o->last[job][kind];
    o->last[job][kind].any = false;
    return s;
}

static inline zi_job_id
join_as(office *o, zi_job_spec spec)
{
    zi_job_id job;
    spec.features |= ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE;
    expect_ok(zi_desk_join(o->d, &spec, o->now, &job));
    listen(o);
    return job;
}

static inline zi_job_id
join(office *o, uint64_t claim_regions)
{
    return join_as(o, (zi_job_spec){.claim_bytes = claim_regions * R});
}

static inline uint32_t
ask(office *o, zi_job_id job, zi_hold hold, uint32_t n, uint64_t deadline)
{
    zi_request req = {.job = job, .seq = ++o->seq, .hold = hold, .deadline_ns = deadline};
    if (hold == ZI_HOLD_PRIVATE)
        req.size_bytes = n * R;
    else
        req.n_regions = n;
    expect_ok(zi_desk_ask(o->d, &req, o->now));
    listen(o);
    return req.seq;
}

static inline bool
get(office *o, zi_job_id job, zi_hold hold, uint32_t n)
{
    uint32_t seq = ask(o, job, hold, n, UINT64_MAX);
    said     s = heard(o, job, ZI_EFFECT_GRANT);
    return s.any && s.e.seq == seq && s.e.value == n * R;
}

static inline bool
begin(office *o, zi_job_id job, uint64_t step_no)
{
    expect_ok(zi_desk_step_ask(o->d, job, ++o->seq, step_no, o->now));
    listen(o);
    return heard(o, job, ZI_EFFECT_GO).any;
}

/* A job that is in its first step and holds so much. */
static inline zi_job_id
run(office *o, uint64_t claim_regions, uint32_t n_held)
{
    zi_job_id job = join(o, claim_regions);
    assert_true(begin(o, job, 0));
    assert_true(get(o, job, ZI_HOLD_STEP, n_held));
    return job;
}

static inline void
give_back(office *o, zi_job_id job)
{
    zi_ledger *l = zi_desk_ledger(o->d);
    for (uint32_t r = 0; r < zi_ledger_n_regions(l); r++)
        if (zi_ledger_owner(l, r) == job) {
            expect_ok(zi_desk_return(o->d, job, &(zi_run){r, 1}, 1, o->now));
            listen(o);
        }
}

static inline void
end(office *o, zi_job_id job, uint64_t step_no)
{
    expect_ok(zi_desk_step_end(o->d, job, step_no, NULL, 0, 0, o->now));
    listen(o);
}

/* A whole first step: `n` regions for `length`. */
static inline void
teach(office *o, zi_job_id job, uint32_t n, uint64_t length)
{
    assert_true(begin(o, job, 0));
    o->now += length / 3;
    assert_true(get(o, job, ZI_HOLD_STEP, n));
    o->now += length / 3;
    give_back(o, job);
    o->now += length / 3;
    end(o, job, 0);
}

static inline zi_reason
why(office *o, zi_job_id job)
{
    zi_waiting w;
    zi_desk_waiting(o->d, job, &w);
    return w.reason;
}

static inline void
at(office *o, uint64_t now)
{
    o->now = now;
    expect_ok(zi_desk_tick(o->d, now));
    listen(o);
}

#endif /* ZI_TEST_OFFICE_H */

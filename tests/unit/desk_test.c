/* desk_test.c -- the desk keeps D1 to D7, whichever policy sits behind it. */
#include "support/office.h"

/* A job about which nothing is known runs its first step alone, and the claim it leaves
 * with is what it used + 5 %, in whole regions. */
static void
first_step_is_alone(void **state)
{
    office o;

    (void)state;
    open_office(&o, "zico", 40);
    zi_job_id a = join(&o, 0), b = join(&o, 0), c = join(&o, 4);
    assert_true(begin(&o, a, 0));
    assert_false(begin(&o, b, 0));
    assert_false(begin(&o, c, 0)); /* its claim is known, but a learner runs */
    assert_int_equal(ZI_REASON_LEARNING, why(&o, b));
    assert_int_equal(ZI_REASON_LEARNING, why(&o, c));
    assert_true(get(&o, a, ZI_HOLD_STEP, 30));
    o.now += 100 * MS;
    give_back(&o, a);
    end(&o, a, 0);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any); /* the next learner */
    assert_false(heard(&o, c, ZI_EFFECT_GO).any);
    assert_int_equal(32 * R, zi_desk_job(o.d, a)->claim_bytes);
    end(&o, b, 0);
    assert_true(heard(&o, c, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* A job that is being learnt claims everything; private memory that it wants in its first step
 * (gradients, optimizer state) comes out of that claim at once, while another job's private
 * request waits for the end of the step. */
static void
learner_charges(void **state)
{
    office o;

    (void)state;
    open_office(&o, "zico", 30);
    zi_job_id a = join(&o, 0), b = join(&o, 0);
    assert_true(get(&o, a, ZI_HOLD_PRIVATE, 2));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 6));
    assert_false(get(&o, b, ZI_HOLD_PRIVATE, 3));
    at(&o, o.now + 2 * ZI_DESK_AGE_NS); /* and blocks nothing, however long it waits */
    assert_true(get(&o, a, ZI_HOLD_PRIVATE, 5));
    assert_true(get(&o, a, ZI_HOLD_STEP, 7));
    assert_int_equal(23 * R, zi_desk_job(o.d, a)->claim_bytes);
    assert_false(heard(&o, b, ZI_EFFECT_DENY).any);
    give_back(&o, a);
    end(&o, a, 0);
    assert_true(heard(&o, b, ZI_EFFECT_GRANT).any);
    close_office(&o);
}

/* Two jobs whose lasting memory and larger step cannot fit together: the one that is being
 * learnt is refused after a while, and nobody waits for ever. */
static void
learner_beside_too_much(void **state)
{
    office o;

    (void)state;
    open_office(&o, "zico", 20);
    zi_job_id a = join(&o, 0), b = join(&o, 0);
    assert_true(get(&o, a, ZI_HOLD_PRIVATE, 4));
    teach(&o, a, 10, 300 * MS);
    assert_true(begin(&o, b, 0));
    assert_false(begin(&o, a, 1)); /* a learner runs */
    assert_true(get(&o, b, ZI_HOLD_PRIVATE, 4));
    assert_false(get(&o, b, ZI_HOLD_PRIVATE, 4)); /* 4 + 8 + 10 > 20 */
    for (int i = 0; i < 100 && !o.last[b][ZI_EFFECT_DENY].any; i++)
        at(&o, o.now + 100 * MS);
    assert_true(heard(&o, b, ZI_EFFECT_DENY).any);
    zi_desk_leave(o.d, b, o.now);
    listen(&o);
    assert_true(heard(&o, a, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* D2: a grant that could leave two jobs waiting for each other waits instead, and comes
 * as soon as the other has finished. */
static void
unsafe_grant_waits(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 5), b = join(&o, 5);
    assert_true(begin(&o, a, 0));
    assert_true(begin(&o, b, 0));
    close_office(&o);

    open_office(&o, "zico", 8); /* jobs that reserve: b waits at the boundary */
    a = join(&o, 6), b = join(&o, 6);
    assert_true(begin(&o, a, 0));
    assert_false(begin(&o, b, 0));
    assert_int_equal(ZI_REASON_TIDE, why(&o, b));
    end(&o, a, 0);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* A job whose maximum was lowered below what it needs waits for nobody but the person who did it:
 * the reason is its own limit, with the bytes that it needs. */
static void
own_limit_is_the_reason(void **state)
{
    office     o;
    zi_waiting w;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 0), b = join(&o, 0);
    teach(&o, a, 5, 300);
    teach(&o, b, 2, 300);
    zi_job_limits small = {.max_bytes = 3 * R};
    expect_ok(zi_desk_set_limits(o.d, a, &small, 0, o.now));
    listen(&o);
    assert_false(begin(&o, a, 1));
    zi_desk_waiting(o.d, a, &w);
    assert_int_equal(ZI_REASON_LIMIT, w.reason);
    assert_int_equal(ZI_JOB_NONE, w.behind);
    assert_true(w.asked_bytes >= 5 * R);
    assert_true(begin(&o, b, 1));
    zi_job_limits large = {.max_bytes = 8 * R};
    expect_ok(zi_desk_set_limits(o.d, a, &large, 0, o.now));
    end(&o, b, 1);
    assert_int_not_equal(ZI_REASON_LIMIT, why(&o, a));
    close_office(&o);
}

/* D3: a large request is not starved by small ones: once it has aged, no new step and no new
 * permanent memory overtakes it. */
static void
large_request_is_not_starved(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 1), b = run(&o, 3, 3), c = run(&o, 3, 3);
    uint32_t  big = ask(&o, a, ZI_HOLD_FIXED, 6, UINT64_MAX);
    assert_false(heard(&o, a, ZI_EFFECT_GRANT).any);
    assert_true(get(&o, c, ZI_HOLD_PRIVATE, 1)); /* young still: small ones pass */
    expect_ok(zi_desk_uncharge(o.d, c, 1 * R, o.now));
    at(&o, o.now + 250 * MS);
    ask(&o, c, ZI_HOLD_PRIVATE, 1, o.now + 10 * MS);
    assert_false(heard(&o, c, ZI_EFFECT_GRANT).any);
    assert_int_equal(ZI_REASON_QUEUE, why(&o, c));
    give_back(&o, b);
    at(&o, o.now + 10 * MS);
    said s = heard(&o, a, ZI_EFFECT_GRANT);
    assert_true(s.any && s.e.seq == big);
    close_office(&o);
}

/* D3: an old request of a step that waits for another's end does not keep that one from ending: what
 * the other takes beyond its claim is granted if it is safe. */
static void
charge_lets_its_step_end(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = run(&o, 5, 4), b = run(&o, 7, 5);
    ask(&o, a, ZI_HOLD_STEP, 4, UINT64_MAX);
    assert_int_equal(ZI_REASON_MEMORY, why(&o, a));
    at(&o, o.now + 250 * MS);
    assert_true(get(&o, b, ZI_HOLD_PRIVATE, 1));
    assert_true(get(&o, b, ZI_HOLD_STEP, 2));
    give_back(&o, b);
    assert_true(heard(&o, a, ZI_EFFECT_GRANT).any);
    close_office(&o);
}

/* Private memory that a command wants in its step comes out of the claim that we guessed for it, if it
 * would wait for itself otherwise: the other waits for its end already. */
static void
charge_comes_out_of_a_guess(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 16);
    zi_job_id   a, b = join(&o, 8);
    zi_job_spec command = {.features = ZI_FEATURE_STEPS,
                           .core_mode = ZI_CORES_FIXED,
                           .cores = 1};
    expect_ok(zi_desk_join(o.d, &command, o.now, &a));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 7));
    give_back(&o, a);
    end(&o, a, 0);
    assert_true(begin(&o, a, 1));
    assert_true(get(&o, a, ZI_HOLD_STEP, 7));
    assert_int_equal(8 * R, zi_desk_job(o.d, a)->claim_bytes);
    assert_true(begin(&o, b, 0));
    assert_true(get(&o, b, ZI_HOLD_STEP, 8));
    ask(&o, b, ZI_HOLD_STEP, 4, UINT64_MAX);
    assert_true(get(&o, a, ZI_HOLD_PRIVATE, 1));
    assert_int_equal(7 * R, zi_desk_job(o.d, a)->claim_bytes);
    give_back(&o, a);
    assert_true(heard(&o, b, ZI_EFFECT_GRANT).any);
    close_office(&o);
}

/* D5: a job beyond its claim that cannot be served is refused after a while; the one that
 * stays within its claim never is. */
static void
who_exceeds_its_claim_is_refused(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = run(&o, 4, 4), b = run(&o, 6, 5);
    assert_true(get(&o, a, ZI_HOLD_STEP, 1)); /* beyond its claim, but safe */
    uint32_t seq = ask(&o, a, ZI_HOLD_STEP, 2, UINT64_MAX); /* b wants 1 more: unsafe */
    assert_false(heard(&o, a, ZI_EFFECT_DENY).any);
    at(&o, o.now + 300 * MS);
    assert_false(heard(&o, a, ZI_EFFECT_DENY).any); /* it waits for b */
    assert_true(why(&o, a) == ZI_REASON_UNSAFE || why(&o, a) == ZI_REASON_MEMORY);
    give_back(&o, b);
    end(&o, b, 0);
    said s = heard(&o, a, ZI_EFFECT_GRANT);
    assert_true(s.any && s.e.seq == seq);
    close_office(&o);
}

/* D5: two jobs that both exceed their claims would wait for each other; the younger request
 * is refused with E_NOMEM and the older then served. */
static void
mutual_excess_is_resolved(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = run(&o, 5, 5), b = run(&o, 5, 5);
    uint32_t  older = ask(&o, a, ZI_HOLD_STEP, 1, UINT64_MAX);
    o.now += 10 * MS;
    uint32_t younger = ask(&o, b, ZI_HOLD_STEP, 1, UINT64_MAX);
    assert_true(o.wake > o.now && o.wake < o.now + 2 * S);
    at(&o, o.now + 1100 * MS);
    said deny = heard(&o, b, ZI_EFFECT_DENY);
    assert_true(deny.any && deny.e.seq == younger);
    assert_int_equal(ZICO_E_NOMEM, deny.e.status);
    assert_false(heard(&o, a, ZI_EFFECT_DENY).any);
    give_back(&o, b);
    said grant = heard(&o, a, ZI_EFFECT_GRANT);
    assert_true(grant.any && grant.e.seq == older);
    close_office(&o);
}

/* A raise is granted when safe, refused with numbers when it never can be. */
static void
raising(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 4), b = join(&o, 5);
    assert_true(begin(&o, a, 0));
    expect_ok(zi_desk_raise(o.d, a, 77, 6 * R, o.now));
    listen(&o);
    assert_int_equal(77, heard(&o, a, ZI_EFFECT_GRANT).e.seq);
    assert_int_equal(6 * R, zi_desk_job(o.d, a)->claim_bytes);
    expect_ok(zi_desk_raise(o.d, a, 78, 11 * R, o.now));
    listen(&o);
    said s = heard(&o, a, ZI_EFFECT_DENY);
    assert_int_equal(78, s.e.seq);
    assert_int_equal(ZICO_E_BUDGET, s.e.status);
    assert_int_equal(10 * R, s.e.had_bytes);
    expect_status(ZICO_E_STATE, zi_desk_raise(o.d, b, 79, R, o.now));
    close_office(&o);
}

/* Requests can ask once, or until a deadline; both are answered. */
static void
deadlines(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 0), b = join(&o, 0);
    assert_true(get(&o, a, ZI_HOLD_FIXED, 9));
    ask(&o, b, ZI_HOLD_FIXED, 3, o.now);
    assert_int_equal(ZICO_E_BUSY, heard(&o, b, ZI_EFFECT_DENY).e.status);
    ask(&o, b, ZI_HOLD_FIXED, 3, o.now + 50 * MS);
    assert_false(heard(&o, b, ZI_EFFECT_DENY).any);
    assert_int_equal(o.now + 50 * MS, o.wake);
    at(&o, o.wake);
    assert_int_equal(ZICO_E_TIMEOUT, heard(&o, b, ZI_EFFECT_DENY).e.status);
    uint32_t seq = ask(&o, b, ZI_HOLD_FIXED, 3, UINT64_MAX);
    expect_ok(zi_desk_cancel(o.d, b, seq, o.now));
    expect_status(ZICO_E_NOTFOUND, zi_desk_cancel(o.d, b, seq, o.now));
    listen(&o);
    assert_int_equal(ZI_REASON_NONE, why(&o, b));
    close_office(&o);
}

/* D6: what can never fit is refused at once, with what there is. */
static void
impossible_requests(void **state)
{
    office      o;
    zi_job_id   job;
    zi_job_spec huge = {.claim_bytes = 11 * R};

    (void)state;
    open_office(&o, "spatial", 10);
    expect_status(ZICO_E_BUDGET, zi_desk_join(o.d, &huge, o.now, &job));
    zi_job_id a = join(&o, 0);
    ask(&o, a, ZI_HOLD_FIXED, 11, UINT64_MAX);
    said s = heard(&o, a, ZI_EFFECT_DENY);
    assert_int_equal(ZICO_E_BUDGET, s.e.status);
    assert_int_equal(11 * R, s.e.asked_bytes);
    assert_int_equal(10 * R, s.e.had_bytes);
    close_office(&o);
}

/* Regions taken ahead come in part or not at all, never by waiting. */
static void
taken_ahead(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 8);
    assert_true(begin(&o, a, 0));
    zi_request req = {
        .job = a, .seq = 5, .hold = ZI_HOLD_STEP, .n_regions = 16, .ahead = true};
    expect_ok(zi_desk_ask(o.d, &req, o.now));
    listen(&o);
    assert_int_equal(8 * R, heard(&o, a, ZI_EFFECT_GRANT).e.value);
    expect_ok(zi_desk_ask(o.d, &req, o.now));
    listen(&o);
    assert_int_equal(ZICO_E_BUSY, heard(&o, a, ZI_EFFECT_DENY).e.status);
    close_office(&o);
}

/* A lowered budget waits for the steps that were promised more, then holds. */
static void
lower_and_raise_the_budget(void **state)
{
    office           o;
    zi_ledger_totals sum;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = run(&o, 6, 3), b = run(&o, 5, 3);
    expect_status(ZICO_PENDING, zi_desk_set_budget(o.d, 6 * R, o.now));
    listen(&o);
    zi_ledger_sum(zi_desk_ledger(o.d), &sum);
    assert_in_range(sum.budget_bytes, 8 * R, 9 * R); /* as low as both can spare */
    assert_true(get(&o, b, ZI_HOLD_STEP, 2));
    give_back(&o, b);
    end(&o, b, 0);
    assert_false(begin(&o, b, 1)); /* not before it has been reached */
    assert_true(get(&o, a, ZI_HOLD_STEP, 3));
    give_back(&o, a);
    end(&o, a, 0);
    zi_ledger_sum(zi_desk_ledger(o.d), &sum);
    assert_int_equal(6 * R, sum.budget_bytes);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    assert_false(begin(&o, a, 1)); /* 6 + 5 > 6 */
    expect_ok(zi_desk_set_budget(o.d, 12 * R, o.now));
    listen(&o);
    assert_true(heard(&o, a, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* A native job held a little more while there was plenty than it needs: lowered to just below
 * that, the budget still lets it run alone; far below, it waits for ADMISSION. */
static void
lead_does_not_count(void **state)
{
    office o;

    (void)state;
    open_office(&o, "zico", 64);
    zi_job_id a = join(&o, 0);
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 60));
    give_back(&o, a);
    end(&o, a, 0);
    expect_ok(zi_desk_set_budget(o.d, 59 * R, o.now));
    listen(&o);
    assert_true(begin(&o, a, 1));
    assert_true(get(&o, a, ZI_HOLD_STEP, 59));
    give_back(&o, a);
    end(&o, a, 1);
    expect_ok(zi_desk_set_budget(o.d, 55 * R, o.now));
    listen(&o);
    assert_false(begin(&o, a, 2));
    assert_int_equal(ZI_REASON_ADMISSION, why(&o, a));
    close_office(&o);
}

/* A paused job does not begin; resumed, it does. */
static void
pause_and_resume(void **state)
{
    office o;

    (void)state;
    open_office(&o, "temporal", 12);
    zi_job_id a = join(&o, 6);
    expect_ok(zi_desk_control(o.d, a, ZI_CONTROL_PAUSE, o.now));
    listen(&o);
    assert_false(begin(&o, a, 0));
    assert_int_equal(ZI_REASON_PAUSED, why(&o, a));
    expect_ok(zi_desk_control(o.d, a, ZI_CONTROL_RESUME, o.now));
    listen(&o);
    assert_true(heard(&o, a, ZI_EFFECT_GO).any);
    expect_status(ZICO_E_UNSUPPORTED, zi_desk_control(o.d, a, ZI_CONTROL_SUSPEND, o.now));
    close_office(&o);
}

/* People see since when a job is paused or out, not only that it is. */
static void
kept_since(void **state)
{
    office     o;
    zi_waiting w;

    (void)state;
    open_office(&o, "temporal", 12);
    zi_job_id a = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    teach(&o, a, 4, 300 * MS);
    uint64_t begin = o.now;
    expect_ok(zi_desk_control(o.d, a, ZI_CONTROL_SUSPEND, o.now));
    at(&o, o.now + 1 * S);
    expect_ok(zi_desk_suspended(o.d, a, ZICO_OK, o.now));
    at(&o, o.now + 1 * S);
    expect_ok(zi_desk_control(o.d, a, ZI_CONTROL_PAUSE, o.now)); /* it is already */
    zi_desk_waiting(o.d, a, &w);
    assert_int_equal(ZI_REASON_SUSPENDED, w.reason);
    assert_int_equal(begin, w.since_ns);
    close_office(&o);
}

/* D5: a native job that can is moved out before anybody is refused, and comes back. */
static void
ladder_suspends_before_it_refuses(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join(&o, 4);
    zi_job_id b =
        join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND | ZI_FEATURE_NATIVE});
    assert_true(get(&o, b, ZI_HOLD_FIXED, 4));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    uint32_t seq = ask(&o, a, ZI_HOLD_STEP, 4, UINT64_MAX);
    assert_true(heard(&o, b, ZI_EFFECT_SUSPEND).any);
    at(&o, o.now + 2 * S);
    assert_false(heard(&o, a, ZI_EFFECT_DENY).any); /* b is still on its way out */
    give_back(&o, b);
    expect_ok(zi_desk_suspended(o.d, b, ZICO_OK, o.now));
    listen(&o);
    assert_int_equal(seq, heard(&o, a, ZI_EFFECT_GRANT).e.seq);
    assert_true(heard(&o, b, ZI_EFFECT_RESUME).any);
    close_office(&o);
}

/* Two wait for each other inside their steps.  Who is refused ends its step there, is moved out with what
 * it holds of it, comes back with that as private memory though a whole step would not fit beside
 * it, runs the rest, and is what it was. */
static void
moved_out_in_mid_step(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a =
        join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND, .claim_bytes = 6 * R});
    zi_job_id b = join(&o, 6);
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 5));
    assert_true(begin(&o, b, 0));
    assert_true(get(&o, b, ZI_HOLD_STEP, 2));
    assert_true(get(&o, a, ZI_HOLD_STEP, 3)); /* more than it claimed, and safe */
    ask(&o, a, ZI_HOLD_STEP, 4, UINT64_MAX);
    uint32_t seq = ask(&o, b, ZI_HOLD_STEP, 4, UINT64_MAX);
    at(&o, o.now + 2 * S);
    assert_true(heard(&o, a, ZI_EFFECT_DENY).any);
    end(&o, a, 0);
    assert_false(begin(&o, a, 1));
    assert_true(heard(&o, a, ZI_EFFECT_SUSPEND).any);
    expect_ok(zi_desk_cancel(o.d, a, o.seq, o.now));
    give_back(&o, a);
    expect_ok(zi_desk_suspended(o.d, a, ZICO_OK, o.now));
    listen(&o);
    assert_int_equal(seq, heard(&o, b, ZI_EFFECT_GRANT).e.seq);

    assert_true(heard(&o, a, ZI_EFFECT_RESUME).any);
    seq = ask(&o, a, ZI_HOLD_PRIVATE, 8, UINT64_MAX);
    assert_false(heard(&o, a, ZI_EFFECT_GRANT).any); /* b may still need it */
    give_back(&o, b);
    end(&o, b, 0);
    assert_int_equal(seq, heard(&o, a, ZI_EFFECT_GRANT).e.seq);
    assert_false(
        begin(&o, b, 1)); /* it does not fit, and waits for the rest of that step */
    assert_false(heard(&o, a, ZI_EFFECT_SUSPEND).any);
    assert_true(begin(&o, a, 1));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    assert_false(heard(&o, b, ZI_EFFECT_GO).any);
    give_back(&o, a);
    expect_ok(zi_desk_uncharge(o.d, a, 7 * R, o.now)); /* one outlives the step */
    end(&o, a, 1);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    assert_true(get(&o, b, ZI_HOLD_STEP, 6));
    give_back(&o, b);
    end(&o, b, 1);
    assert_true(begin(&o, a, 2)); /* a whole one again */
    assert_int_equal(6 * R, zi_desk_job(o.d, a)->claim_bytes);
    close_office(&o);
}

/* A moment in which everybody waits is not the end: who waits outside a step for longer than the
 * ladder's patience is not refused because the job inside one waits for its own returns. */
static void
a_moments_wait_is_not_the_end(void **state)
{
    (void)state;
    for (uint64_t odd = 0; odd < 2; odd++) { /* of the clock: it once made a difference */
        office o;
        open_office(&o, "spatial", 10);
        zi_job_id a = join(&o, 4), c = join_as(&o, (zi_job_spec){0});
        assert_true(begin(&o, a, 0));
        assert_true(get(&o, a, ZI_HOLD_STEP, 4));
        ask(&o, c, ZI_HOLD_FIXED, 8, UINT64_MAX);
        at(&o, o.now + 2 * S + odd);
        ask(&o, a, ZI_HOLD_STEP, 8, UINT64_MAX); /* it issues ahead of its kernels */
        assert_false(heard(&o, c, ZI_EFFECT_DENY).any);
        at(&o, o.now + 500 * MS);
        assert_false(heard(&o, c, ZI_EFFECT_DENY).any);
        give_back(&o, a);
        assert_true(heard(&o, a, ZI_EFFECT_GRANT).any);
        at(&o, o.now + 2 * S);
        assert_false(heard(&o, c, ZI_EFFECT_DENY).any);
        close_office(&o);
    }
}

/* Who waits outside a step, however long, does not keep a step from ending, though that step
 * wants more than it claimed. */
static void
age_keeps_no_step_from_ending(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = join(&o, 4), c = join_as(&o, (zi_job_spec){0});
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 6));
    ask(&o, c, ZI_HOLD_FIXED, 8, UINT64_MAX);
    at(&o, o.now + 300 * MS);
    assert_int_equal(ZI_REASON_MEMORY, why(&o, c));
    assert_true(get(&o, a, ZI_HOLD_STEP, 2));
    close_office(&o);
}

/* What is moved out for a job that is being learnt is that job's: nobody takes it for good before
 * its first step has ended. */
static void
learner_claims_what_came_free(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id b = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    assert_true(get(&o, b, ZI_HOLD_FIXED, 6));
    zi_job_id a = join_as(&o, (zi_job_spec){0}), c = join_as(&o, (zi_job_spec){0});
    assert_true(get(&o, a, ZI_HOLD_FIXED, 1));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 5));
    ask(&o, a, ZI_HOLD_STEP, 2, UINT64_MAX);
    assert_true(heard(&o, b, ZI_EFFECT_SUSPEND).any);
    give_back(&o, b);
    expect_ok(zi_desk_suspended(o.d, b, ZICO_OK, o.now));
    listen(&o);
    assert_true(heard(&o, a, ZI_EFFECT_GRANT).any);
    ask(&o, c, ZI_HOLD_FIXED, 3, UINT64_MAX);
    assert_false(heard(&o, c, ZI_EFFECT_GRANT).any);
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    close_office(&o);
}

/* A native job that waits for memory in mid-step goes on with what it has queued: it stands still some
 * time later, and only then are its cores others'. */
static void
who_waits_stands_still_later(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = run(&o, 6, 5), b = run(&o, 6, 2);
    ask(&o, b, ZI_HOLD_STEP, 6, UINT64_MAX);
    assert_int_equal(ZI_REASON_MEMORY, why(&o, b));
    assert_false(zi_desk_job(o.d, b)->stalled);
    assert_true(o.wake <= o.now + 20 * MS);
    at(&o, o.now + 20 * MS);
    assert_true(zi_desk_job(o.d, b)->stalled);
    give_back(&o, a);
    assert_true(heard(&o, b, ZI_EFFECT_GRANT).any);
    assert_false(zi_desk_job(o.d, b)->stalled);
    close_office(&o);
}

/* A first step does not begin beside a job that still loads and could not make room for it: it moves
 * out, the other is loaded, and both go on. */
static void
learner_moves_out_for_who_loads(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join_as(&o, (zi_job_spec){0});
    zi_job_id b = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    assert_true(get(&o, a, ZI_HOLD_FIXED, 3));
    assert_true(get(&o, b, ZI_HOLD_FIXED, 3));
    uint32_t seq = ask(&o, a, ZI_HOLD_FIXED, 5, UINT64_MAX);
    assert_false(begin(&o, b, 0));
    assert_true(heard(&o, b, ZI_EFFECT_SUSPEND).any);
    give_back(&o, b);
    expect_ok(zi_desk_suspended(o.d, b, ZICO_OK, o.now));
    listen(&o);
    assert_int_equal(seq, heard(&o, a, ZI_EFFECT_GRANT).e.seq);
    assert_true(begin(&o, a, 0));
    at(&o, o.now + 10 * S);
    assert_false(heard(&o, b, ZI_EFFECT_DENY).any);
    expect_ok(zi_desk_leave(o.d, a, o.now));
    listen(&o);
    assert_true(heard(&o, b, ZI_EFFECT_RESUME).any);
    close_office(&o);
}

/* ... but not for one that has leased nothing yet, or comes back: these are in nobody's way, and moving
 * out for each of them in turn would never end. */
static void
learner_goes_before_who_holds_nothing(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id a = join_as(&o, (zi_job_spec){0});
    zi_job_id b = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    assert_true(get(&o, a, ZI_HOLD_PRIVATE, 1));
    assert_true(get(&o, b, ZI_HOLD_FIXED, 6));
    ask(&o, a, ZI_HOLD_FIXED, 6, UINT64_MAX);
    assert_true(begin(&o, b, 0));
    assert_false(heard(&o, b, ZI_EFFECT_SUSPEND).any);
    close_office(&o);
}

/* A job takes its request for a step back while GO is on its way: the step did not begin, teaches
 * nothing, and the job can ask again. */
static void
go_and_cancel_cross(void **state)
{
    office o;

    (void)state;
    open_office(&o, "temporal", 10);
    zi_job_id a = join(&o, 0), b = join(&o, 0);
    teach(&o, a, 5, 300);
    teach(&o, b, 5, 300);
    const uint64_t solo = zi_desk_job(o.d, a)->solo_step_ns;
    assert_true(begin(&o, a, 1));
    uint32_t seq = o.seq;
    assert_false(begin(&o, b, 1));
    expect_ok(zi_desk_cancel(o.d, a, seq, o.now));
    listen(&o);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    assert_int_equal(solo, zi_desk_job(o.d, a)->solo_step_ns);
    expect_status(ZICO_E_NOTFOUND, zi_desk_cancel(o.d, a, seq, o.now));
    assert_false(begin(&o, a, 1)); /* it may ask again, and has its turn after b's */
    end(&o, b, 1);
    assert_true(heard(&o, a, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* A job that is being learnt claims all there is.  If that becomes less meanwhile, as after a restart
 * of the broker, when jobs come back with private bytes, it goes on within what is left. */
static void
learner_goes_on_with_what_is_left(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = join_as(&o, (zi_job_spec){0}), b = join_as(&o, (zi_job_spec){0});
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    expect_ok(zi_ledger_adopt_private(zi_desk_ledger(o.d), b, R / 2));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    assert_true(get(&o, a, ZI_HOLD_FIXED, 1));
    assert_true(get(&o, a, ZI_HOLD_STEP, 2));
    close_office(&o);
}

/* The same for a job whose claim is known: alone in its step it breaks nobody's promise. */
static void
alone_it_takes_what_is_free(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = join(&o, 12), b = join_as(&o, (zi_job_spec){0});
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    expect_ok(zi_ledger_adopt_private(zi_desk_ledger(o.d), b, R / 2));
    assert_true(get(&o, a, ZI_HOLD_STEP, 7));
    close_office(&o);
}

/* A job that is told to leave but waits for memory first comes to no boundary: the ladder moves
 * another out instead of waiting for it. */
static void
who_waits_cannot_leave(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 12);
    zi_job_id a = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    zi_job_id b = join_as(&o, (zi_job_spec){.features = ZI_FEATURE_SUSPEND});
    assert_true(get(&o, b, ZI_HOLD_FIXED, 6));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 6));
    expect_ok(zi_desk_control(o.d, a, ZI_CONTROL_SUSPEND, o.now));
    listen(&o);
    ask(&o, a, ZI_HOLD_STEP, 2, UINT64_MAX);
    assert_true(heard(&o, b, ZI_EFFECT_SUSPEND).any);
    close_office(&o);
}

/* A job that has just joined has nothing to move out: the slices' policy does not send it away,
 * as it would wait for its memory and leave at the same time. */
static void
newcomer_is_not_sent_away(void **state)
{
    office o;

    (void)state;
    open_office(&o, "gandiva:slice=1", 16);
    zi_job_spec moves = {.features = ZI_FEATURE_SUSPEND};
    zi_job_id   a = join_as(&o, moves);
    teach(&o, a, 9, 300 * MS);
    assert_true(get(&o, a, ZI_HOLD_FIXED, 6));
    expect_ok(zi_desk_set_budget(o.d, 14 * R, o.now)); /* a's step fits no more */
    zi_job_id c = join_as(&o, moves);
    assert_false(heard(&o, c, ZI_EFFECT_SUSPEND).any);
    ask(&o, c, ZI_HOLD_FIXED, 6, UINT64_MAX);
    expect_ok(zi_desk_set_budget(o.d, 16 * R, o.now));
    listen(&o);
    assert_false(heard(&o, c, ZI_EFFECT_SUSPEND).any);
    assert_false(
        heard(&o, c, ZI_EFFECT_GRANT).any); /* a's step would not fit beside it */
    at(&o, o.now + 2 * S);
    assert_true(begin(&o, a, 1));
    at(&o, o.now + 300 * MS);
    end(&o, a, 1);
    at(&o, o.now + 40 * S);
    assert_true(heard(&o, a, ZI_EFFECT_SUSPEND).any); /* c's turn has come */
    give_back(&o, a);
    expect_ok(zi_desk_suspended(o.d, a, ZICO_OK, o.now));
    listen(&o);
    assert_true(heard(&o, c, ZI_EFFECT_GRANT).any);
    assert_true(begin(&o, c, 0));
    close_office(&o);
}

/* A restarted broker holds everything until all have reported, and then goes on where it was. */
static void
restart(void **state)
{
    office      o;
    zi_job_spec spec = {.claim_bytes = 5 * R, .features = ZI_FEATURE_STEPS};

    (void)state;
    open_office(&o, "zico", 10);
    zi_desk_hold(o.d, true, o.now);
    expect_ok(zi_desk_adopt(o.d, 3, &spec, true, 41, o.now));
    expect_ok(zi_desk_adopt(o.d, 1, &spec, false, 7, o.now));
    for (uint32_t r = 4; r < 8; r++)
        expect_ok(zi_ledger_adopt_region(zi_desk_ledger(o.d), 3, r, ZI_HOLD_STEP));
    assert_false(get(&o, 3, ZI_HOLD_STEP, 1));
    assert_int_equal(ZI_REASON_REJOIN, why(&o, 3));
    assert_false(begin(&o, 1, 8));
    assert_int_equal(ZI_REASON_REJOIN, why(&o, 1));
    zi_desk_hold(o.d, false, o.now);
    listen(&o);
    assert_true(heard(&o, 3, ZI_EFFECT_GRANT).any);
    give_back(&o, 3);
    end(&o, 3, 41);
    assert_true(heard(&o, 1, ZI_EFFECT_GO).any ||
                zi_desk_job(o.d, 1)->state == ZI_JOB_RUNNING);
    close_office(&o);
}

/* A job that leaves in the middle of a step gives everything to those who wait. */
static void
death_in_mid_step(void **state)
{
    office o;

    (void)state;
    open_office(&o, "temporal", 10);
    zi_job_id a = join(&o, 8), b = join(&o, 8);
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 8));
    assert_false(begin(&o, b, 0));
    uint32_t seq = ask(&o, b, ZI_HOLD_FIXED, 2, UINT64_MAX);
    expect_ok(zi_desk_leave(o.d, a, o.now));
    listen(&o);
    assert_int_equal(seq, heard(&o, b, ZI_EFFECT_GRANT).e.seq);
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    assert_null(zi_desk_job(o.d, a));
    close_office(&o);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_step_is_alone),
        cmocka_unit_test(unsafe_grant_waits),
        cmocka_unit_test(own_limit_is_the_reason),
        cmocka_unit_test(large_request_is_not_starved),
        cmocka_unit_test(charge_lets_its_step_end),
        cmocka_unit_test(charge_comes_out_of_a_guess),
        cmocka_unit_test(who_exceeds_its_claim_is_refused),
        cmocka_unit_test(mutual_excess_is_resolved),
        cmocka_unit_test(raising),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(impossible_requests),
        cmocka_unit_test(taken_ahead),
        cmocka_unit_test(lower_and_raise_the_budget),
        cmocka_unit_test(lead_does_not_count),
        cmocka_unit_test(pause_and_resume),
        cmocka_unit_test(kept_since),
        cmocka_unit_test(ladder_suspends_before_it_refuses),
        cmocka_unit_test(moved_out_in_mid_step),
        cmocka_unit_test(a_moments_wait_is_not_the_end),
        cmocka_unit_test(age_keeps_no_step_from_ending),
        cmocka_unit_test(learner_claims_what_came_free),
        cmocka_unit_test(who_waits_stands_still_later),
        cmocka_unit_test(learner_moves_out_for_who_loads),
        cmocka_unit_test(learner_goes_before_who_holds_nothing),
        cmocka_unit_test(learner_goes_on_with_what_is_left),
        cmocka_unit_test(alone_it_takes_what_is_free),
        cmocka_unit_test(who_waits_cannot_leave),
        cmocka_unit_test(newcomer_is_not_sent_away),
        cmocka_unit_test(learner_charges),
        cmocka_unit_test(learner_beside_too_much),
        cmocka_unit_test(restart),
        cmocka_unit_test(death_in_mid_step),
        cmocka_unit_test(go_and_cancel_cross),
    };
    return t_main(tests);
}

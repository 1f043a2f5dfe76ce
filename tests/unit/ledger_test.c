/* ledger_test.c -- the ledger keeps its numbered invariants, whatever is asked of it. */
#include "ledger/ledger.h"
#include "ledger/ledger_private.h"
#include "test.h"

#define REGION (2u << 20)

static const zi_job_limits NO_LIMITS = {0};

static zi_ledger *
new_ledger(uint32_t n_regions, uint64_t budget_regions)
{
    zi_ledger      *l;
    zi_ledger_shape shape = {REGION, n_regions, budget_regions * REGION};
    expect_ok(zi_ledger_new(&shape, &l));
    return l;
}

static zi_job_id
join(zi_ledger *l)
{
    zi_job_id job;
    expect_ok(zi_ledger_join(l, &NO_LIMITS, &job));
    return job;
}

static void
check(const zi_ledger *l)
{
    int broken = 0;
    if (zi_ledger_verify(l, &broken) != ZICO_OK) fail_msg("L%d does not hold", broken);
}

static zico_status
ask(zi_ledger *l, zi_job_id job, zi_hold hold, uint64_t amount, uint64_t *id)
{
    zi_request req = {.job = job, .hold = hold, .deadline_ns = UINT64_MAX};
    if (hold == ZI_HOLD_PRIVATE)
        req.size_bytes = amount;
    else
        req.n_regions = (uint32_t)amount;
    return zi_ledger_ask(l, &req, id);
}

/* Ask and grant at once. */
static zico_status
take(zi_ledger *l, zi_job_id job, zi_hold hold, uint64_t amount, zi_grant *g)
{
    uint64_t    id;
    zico_status st = ask(l, job, hold, amount, &id);
    if (st < 0) return st;
    st = zi_ledger_grant(l, id, 0, g);
    if (st < 0) expect_ok(zi_ledger_cancel(l, id));
    check(l);
    return st;
}

/* One job takes the whole budget; a second is told to wait, not refused, until it returns. */
static void
second_job_waits(void **state)
{
    static zi_grant g, h;
    zi_ledger      *l = new_ledger(16, 10);
    zi_job_id       a = join(l), b = join(l);

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 10, &g));
    expect_status(ZICO_E_BUSY, take(l, b, ZI_HOLD_STEP, 1, &h));
    expect_status(ZICO_E_BUDGET, take(l, b, ZI_HOLD_STEP, 11, &h));
    expect_ok(zi_ledger_return(l, a, g.run, g.n_runs));
    expect_ok(take(l, b, ZI_HOLD_STEP, 1, &h));
    assert_int_equal(0, h.run[0].first); /* lowest resident first */
    zi_ledger_free(l);
}

/* Private bytes count against the same budget; idle regions are punched to make room. */
static void
private_bytes_punch_idle_regions(void **state)
{
    static zi_grant  g;
    zi_ledger       *l = new_ledger(16, 10);
    zi_job_id        a = join(l);
    zi_ledger_totals sum;

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 8, &g));
    assert_int_equal(0, g.n_punch);
    expect_ok(zi_ledger_return(l, a, g.run, g.n_runs)); /* 8 idle */
    expect_ok(take(l, a, ZI_HOLD_PRIVATE, 5 * REGION - 7, &g));
    assert_int_equal(1, g.n_punch);
    assert_int_equal(5, g.punch[0].first);
    assert_int_equal(3, g.punch[0].n);
    zi_ledger_sum(l, &sum);
    assert_int_equal(5 * REGION, sum.idle_bytes);
    assert_int_equal(5 * REGION + 7, sum.free_bytes);
    expect_status(ZICO_E_ARG, zi_ledger_uncharge(l, a, 5 * REGION));
    expect_ok(zi_ledger_uncharge(l, a, 5 * REGION - 7));
    check(l);
    zi_ledger_free(l);
}

/* An adjacent request gets one run if there is one, resident preferred, else pieces. */
static void
adjacent_requests(void **state)
{
    static zi_grant g, h;
    zi_ledger      *l = new_ledger(256, 200);
    zi_job_id       a = join(l);
    zi_request      req = {.job = a, .hold = ZI_HOLD_STEP, .adjacent = true};
    uint64_t        id;

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 120, &g));
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{10, 3}, {60, 10}}, 2));
    req.n_regions = 8;
    expect_ok(zi_ledger_ask(l, &req, &id));
    expect_ok(zi_ledger_grant(l, id, 0, &h));
    assert_int_equal(1, h.n_runs);
    assert_int_equal(60, h.run[0].first); /* resident, across a word boundary */
    req.n_regions = 70;
    expect_ok(zi_ledger_ask(l, &req, &id));
    expect_ok(zi_ledger_grant(l, id, 0, &h));
    assert_int_equal(1, h.n_runs);
    assert_int_equal(120, h.run[0].first);
    check(l);
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{140, 1}, {150, 1}}, 2));
    req.n_regions = 6; /* runs of 3, 2, 1, 1 are idle and resident, 66 are cold */
    expect_ok(zi_ledger_ask(l, &req, &id));
    expect_ok(zi_ledger_grant(l, id, 0, &h));
    assert_int_equal(1, h.n_runs);
    assert_int_equal(190, h.run[0].first);
    check(l);
    zi_ledger_free(l);
}

/* A guarantee is kept free for its job, and one that cannot be kept is refused. */
static void
guarantees(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 10);
    zi_job_limits   four = {.min_bytes = 4 * REGION},
                  odd = {.min_bytes = 9, .max_bytes = 8};
    zi_job_id a, b, c;

    (void)state;
    expect_ok(zi_ledger_join(l, &four, &a));
    expect_ok(zi_ledger_join(l, &four, &b));
    expect_status(ZICO_E_BUDGET, zi_ledger_join(l, &four, &c));
    expect_status(ZICO_E_BUDGET, zi_ledger_join(l, &odd, &c));
    expect_ok(zi_ledger_join(l, &NO_LIMITS, &c));
    expect_status(ZICO_E_LIMIT, take(l, c, ZI_HOLD_STEP, 3, &g));
    expect_ok(take(l, c, ZI_HOLD_STEP, 2, &g));
    expect_ok(take(l, a, ZI_HOLD_FIXED, 4, &g));
    expect_status(ZICO_E_LIMIT, take(l, a, ZI_HOLD_STEP, 1, &g));
    expect_ok(take(l, b, ZI_HOLD_PRIVATE, 4 * REGION, &g));
    expect_status(ZICO_E_BUDGET, zi_ledger_set_budget(l, 7 * REGION, 0, &g));
    zi_ledger_free(l);
}

/* A job never holds more than its max; a max lowered below that is reached, not enforced. */
static void
maxima(void **state)
{
    static zi_grant g, h;
    zi_ledger      *l = new_ledger(16, 16);
    zi_job_limits   max = {.max_bytes = 5 * REGION}, less = {.max_bytes = 2 * REGION};
    zi_job_id       a;

    (void)state;
    expect_ok(zi_ledger_join(l, &max, &a));
    expect_status(ZICO_E_BUDGET, take(l, a, ZI_HOLD_STEP, 6, &g));
    expect_ok(take(l, a, ZI_HOLD_STEP, 4, &g));
    expect_status(ZICO_E_LIMIT, take(l, a, ZI_HOLD_STEP, 2, &h));
    expect_status(ZICO_PENDING, zi_ledger_set_limits(l, a, &less));
    check(l);
    expect_status(ZICO_E_LIMIT, take(l, a, ZI_HOLD_STEP, 1, &h));
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{0, 3}}, 1));
    check(l);
    expect_ok(take(l, a, ZI_HOLD_STEP, 1, &h));
    expect_status(ZICO_E_LIMIT, take(l, a, ZI_HOLD_STEP, 1, &h));
    zi_ledger_free(l);
}

/* A lowered budget is reached as memory comes back, and never sinks below what must stay. */
static void
lowering_the_budget(void **state)
{
    static zi_grant  g, p;
    zi_ledger       *l = new_ledger(16, 12);
    zi_job_id        a = join(l), b = join(l);
    zi_ledger_totals sum;

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 8, &g));
    expect_ok(take(l, b, ZI_HOLD_STEP, 2, &p));
    expect_ok(zi_ledger_return(l, b, p.run, p.n_runs));
    expect_status(ZICO_PENDING, zi_ledger_set_budget(l, 5 * REGION, 9 * REGION, &p));
    check(l);
    zi_ledger_sum(l, &sum);
    assert_int_equal(9 * REGION, sum.budget_bytes);
    assert_int_equal(5 * REGION, sum.target_bytes);
    assert_int_equal(1, p.n_punch); /* 8 leased + 1 idle fit */
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{0, 4}}, 1));
    expect_ok(zi_ledger_set_budget(l, 5 * REGION, 0, &p));
    check(l);
    expect_status(ZICO_E_BUSY, take(l, b, ZI_HOLD_STEP, 2, &p));
    expect_ok(take(l, b, ZI_HOLD_STEP, 1, &p));
    expect_ok(zi_ledger_set_budget(l, 14 * REGION, 0, &p)); /* and up again */
    expect_ok(take(l, b, ZI_HOLD_STEP, 9, &p));
    zi_ledger_free(l);
}

/* Returning what is not one's own, or the same twice in one message, changes nothing. */
static void
bad_returns(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 16);
    zi_job_id       a = join(l), b = join(l);

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 4, &g));
    expect_ok(take(l, b, ZI_HOLD_STEP, 4, &g));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, a, (zi_run[]){{0, 2}, {3, 2}}, 2));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, a, (zi_run[]){{0, 2}, {1, 2}}, 2));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, a, (zi_run[]){{0, 0}}, 1));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, a, (zi_run[]){{15, 2}}, 1));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, a, (zi_run[]){{2, UINT32_MAX}}, 1));
    expect_status(ZICO_E_ARG, zi_ledger_return(l, 77, (zi_run[]){{0, 1}}, 1));
    check(l);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(a, zi_ledger_owner(l, r));
        assert_int_equal(b, zi_ledger_owner(l, 15 - r));
    }
    zi_ledger_free(l);
}

/* Who begins to take beside another comes from the other end of what the budget allows, so that
 * both find long runs; alone again it comes from the low end. */
static void
steps_grow_from_two_ends(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 12);
    zi_job_id       a = join(l), b = join(l);

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 3, &g));
    assert_int_equal(0, g.run[0].first);
    expect_ok(take(l, b, ZI_HOLD_STEP, 2, &g));
    assert_int_equal(10, g.run[0].first);
    expect_ok(take(l, b, ZI_HOLD_STEP, 1, &g));
    assert_int_equal(9, g.run[0].first);
    expect_ok(take(l, a, ZI_HOLD_STEP, 2, &g));
    assert_int_equal(3, g.run[0].first);
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{0, 5}}, 1));
    expect_ok(zi_ledger_return(l, b, (zi_run[]){{9, 3}}, 1));
    expect_ok(take(l, b, ZI_HOLD_STEP, 4, &g));
    assert_int_equal(0, g.run[0].first);
    check(l);
    zi_ledger_free(l);
}

/* When the budget is used up, scattered regions with pages are granted before a run without. */
static void
pages_are_not_thrown_away_for_a_run(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 8);
    zi_job_id       a = join(l);

    (void)state;
    for (int i = 0; i < 8; i++) expect_ok(take(l, a, ZI_HOLD_STEP, 1, &g));
    for (uint32_t r = 0; r < 8; r += 2)
        expect_ok(zi_ledger_return(l, a, (zi_run[]){{r, 1}}, 1));
    expect_ok(take(l, a, ZI_HOLD_STEP, 3, &g));
    assert_int_equal(3, g.n_runs);
    assert_int_equal(0, g.n_punch);
    check(l);
    zi_ledger_free(l);
}

/* A job that leaves holds nothing and asks for nothing any more. */
static void
leaving(void **state)
{
    static zi_grant  g;
    zi_ledger       *l = new_ledger(300, 300);
    zi_job_id        a = join(l), b = join(l);
    uint64_t         id, other;
    zi_ledger_totals sum;

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_FIXED, 100, &g));
    expect_ok(take(l, a, ZI_HOLD_STEP, 100, &g));
    expect_ok(take(l, a, ZI_HOLD_PRIVATE, REGION, &g));
    expect_ok(ask(l, a, ZI_HOLD_STEP, 5, &id));
    expect_ok(ask(l, b, ZI_HOLD_STEP, 5, &other));
    expect_ok(zi_ledger_leave(l, a));
    check(l);
    assert_null(zi_ledger_find(l, id));
    assert_non_null(zi_ledger_find(l, other));
    zi_ledger_sum(l, &sum);
    assert_int_equal(0, sum.leased_bytes + sum.private_bytes);
    expect_status(ZICO_E_ARG, zi_ledger_leave(l, a));
    zi_ledger_free(l);
}

/* The tables have maxima, and they are reached. */
static void
tables_fill_up(void **state)
{
    zi_ledger *l = new_ledger(16, 16);
    zi_job_id  job;
    uint64_t   id;

    (void)state;
    for (unsigned i = 0; i < ZI_LEDGER_JOBS_MAX; i++) job = join(l);
    expect_status(ZICO_E_LIMIT, zi_ledger_join(l, &NO_LIMITS, &job));
    for (unsigned i = 0; i < ZI_LEDGER_REQS_PER_JOB; i++)
        expect_ok(ask(l, 5, ZI_HOLD_STEP, 1, &id));
    expect_status(ZICO_E_LIMIT, ask(l, 5, ZI_HOLD_STEP, 1, &id));
    expect_ok(ask(l, 6, ZI_HOLD_STEP, 1, &id));
    check(l);
    zi_ledger_free(l);
}

/* A pool scattered into more free pieces than one grant can name still serves a request
 * that fits into the longest of them. */
static void
scattered_pool(void **state)
{
    enum { N = 2400 };
    static zi_grant g;
    static zi_run   every_other[ZI_LEDGER_RUNS_MAX];
    zi_ledger      *l = new_ledger(N, N);
    zi_job_id       a = join(l);

    (void)state;
    for (int i = 0; i < 4; i++) expect_ok(take(l, a, ZI_HOLD_STEP, 600, &g));
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < 300; i++) every_other[i] = (zi_run){600 * k + 2 * i, 1};
        expect_ok(zi_ledger_return(l, a, every_other, 300));
    }
    expect_ok(zi_ledger_return(l, a, (zi_run[]){{2000, 50}}, 1));
    expect_ok(take(l, a, ZI_HOLD_STEP, 560, &g)); /* 50 in one run, 510 single ones */
    assert_int_equal(50, g.run[0].n);
    assert_int_equal(511, g.n_runs);
    zi_ledger_free(l);
}

/* A restarted broker rebuilds the same book from what table and jobs say. */
static void
adoption(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 8);

    (void)state;
    expect_ok(zi_ledger_adopt_job(l, 7, &NO_LIMITS));
    expect_status(ZICO_E_EXISTS, zi_ledger_adopt_job(l, 7, &NO_LIMITS));
    expect_ok(zi_ledger_adopt_region(l, 7, 3, ZI_HOLD_FIXED));
    expect_ok(zi_ledger_adopt_region(l, 7, 9, ZI_HOLD_STEP));
    expect_status(ZICO_E_EXISTS, zi_ledger_adopt_region(l, 7, 9, ZI_HOLD_STEP));
    expect_status(ZICO_E_ARG, zi_ledger_adopt_region(l, 8, 1, ZI_HOLD_STEP));
    expect_status(ZICO_E_ARG, zi_ledger_adopt_region(l, 7, 16, ZI_HOLD_STEP));
    expect_ok(zi_ledger_adopt_private(l, 7, 3 * REGION));
    expect_ok(zi_ledger_adopt_idle(l, 4));
    expect_status(ZICO_E_EXISTS, zi_ledger_adopt_idle(l, 3));
    check(l);
    expect_ok(take(l, 7, ZI_HOLD_STEP, 3, &g));
    assert_int_equal(4, g.run[0].first); /* resident */
    expect_status(ZICO_E_BUSY, take(l, 7, ZI_HOLD_STEP, 1, &g));
    zi_ledger_free(l);
}

/* Verify notices a book that was tampered with, by the number of the broken invariant. */
static void
verify_sees_each_breach(void **state)
{
    static zi_grant g;
    zi_ledger      *l = new_ledger(16, 16);
    zi_job_id       a = join(l);
    uint64_t        id;
    int             broken = 0;

    (void)state;
    expect_ok(take(l, a, ZI_HOLD_STEP, 4, &g));
    expect_ok(ask(l, a, ZI_HOLD_STEP, 1, &id));
#define BREACH(number, harm, heal)                                                       \
    harm;                                                                                \
    expect_status(ZICO_E_CORRUPT, zi_ledger_verify(l, &broken));                         \
    assert_int_equal(number, broken);                                                    \
    heal;                                                                                \
    check(l)
    BREACH(1, l->owner[9] = a, l->owner[9] = ZI_JOB_NONE);
    BREACH(2, l->job[a].n_step++, l->job[a].n_step--);
    BREACH(3, l->private_bytes++, l->private_bytes--);
    BREACH(3, l->budget_bytes = REGION, l->budget_bytes = 16 * REGION);
    BREACH(4, l->ceiling[a] = 1, l->ceiling[a] = UINT64_MAX);
    BREACH(5, l->promised_bytes++, l->promised_bytes--);
    BREACH(6, l->n_asked[9] = 1, l->n_asked[9] = 0);
    BREACH(7, l->request[0].id = 99, l->request[0].id = id);
#undef BREACH
    zi_ledger_free(l);
}

/* Random days: every call either works or says why not, and the book balances after each. */
static void
random_days(void **state)
{
    static zi_grant g;

    (void)state;
    for (unsigned day = 0; day < t_rounds(60, 2000); day++) {
        uint32_t   n_regions = 1 + (uint32_t)t_rand_below(200);
        zi_ledger *l = new_ledger(n_regions, 1 + t_rand_below(n_regions));
        for (int i = 0; i < 400; i++) {
            zi_job_id job = (zi_job_id)t_rand_below(6);
            uint64_t  id, amount = 1 + t_rand_below(n_regions / 3 + 1);
            switch (t_rand_below(9)) {
            case 0: {
                zi_job_limits lim = {t_rand_below(4) * REGION, t_rand_below(60) * REGION};
                if (t_rand_below(3)) zi_ledger_join(l, &lim, &job);
                break;
            }
            case 1:
                if (t_rand_below(4) == 0) zi_ledger_leave(l, job);
                break;
            case 2:
                ask(l, job, (zi_hold)t_rand_below(2), amount, &id);
                break;
            case 3:
                ask(l, job, ZI_HOLD_PRIVATE, t_rand_below(9 * REGION), &id);
                break;
            case 4:
            case 5:
                if (zi_ledger_n_requests(l)) {
                    size_t            place = t_rand_below(zi_ledger_n_requests(l));
                    const zi_request *req = zi_ledger_request(l, place);
                    zico_status       may = zi_ledger_may_grant(l, req);
                    zico_status       st = zi_ledger_grant(l, req->id, 0, &g);
                    assert_int_equal(may, st);
                }
                break;
            case 6: {
                zi_run run = {(uint32_t)t_rand_below(n_regions), 1};
                while (run.first + run.n < n_regions && run.n < 9 &&
                       zi_ledger_owner(l, run.first + run.n) ==
                           zi_ledger_owner(l, run.first))
                    run.n++;
                zi_ledger_return(l, zi_ledger_owner(l, run.first), &run, 1);
                break;
            }
            case 7:
                zi_ledger_uncharge(l, job, t_rand_below(5 * REGION));
                break;
            case 8:
                zi_ledger_set_budget(l, (1 + t_rand_below(n_regions)) * REGION,
                                     t_rand_below(n_regions) * REGION, &g);
                break;
            }
            check(l);
        }
        zi_ledger_free(l);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_job_waits),
        cmocka_unit_test(private_bytes_punch_idle_regions),
        cmocka_unit_test(adjacent_requests),
        cmocka_unit_test(guarantees),
        cmocka_unit_test(maxima),
        cmocka_unit_test(lowering_the_budget),
        cmocka_unit_test(bad_returns),
        cmocka_unit_test(steps_grow_from_two_ends),
        cmocka_unit_test(pages_are_not_thrown_away_for_a_run),
        cmocka_unit_test(leaving),
        cmocka_unit_test(tables_fill_up),
        cmocka_unit_test(scattered_pool),
        cmocka_unit_test(adoption),
        cmocka_unit_test(verify_sees_each_breach),
        cmocka_unit_test(random_days),
    };
    return t_main(tests);
}

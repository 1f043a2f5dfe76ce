/* desk_policies_test.c -- what policies do with the desk: lanes that move, shares, admission, and
 * commands, which follow their cores and give back what they keep. */
#include "support/office.h"

/* -- lanes that move -------------------------------------------------------------------------- */

/* Two jobs in steps, each in a lane of 4 regions of 12; a third needs a lane of 8.  No new one fits,
 * none is large enough, both are busy: one is to be enlarged for it when its step ends. */
typedef struct crowd {
    office    o;
    zi_job_id a, b, mover;
} crowd;

static void
open_crowd(crowd *c)
{
    open_office(&c->o, "salus:pack", 12);
    c->a = run(&c->o, 4, 3);
    c->b = run(&c->o, 4, 3);
    c->mover = join(&c->o, 8);
    assert_false(begin(&c->o, c->mover, 0));
    assert_int_equal(ZI_REASON_ADMISSION, why(&c->o, c->mover));
}

/* Both others make one more step, side by side, and nothing is held then. */
static void
others_go_on(crowd *c, uint64_t step_a, uint64_t step_b)
{
    const zi_job_id who[] = {c->a, c->b};
    const uint64_t  step[] = {step_a, step_b};

    for (int i = 0; i < 2; i++)
        if (zi_desk_job(c->o.d, who[i])->state != ZI_JOB_RUNNING)
            assert_true(begin(&c->o, who[i], step[i]));
    for (int i = 0; i < 2; i++) {
        give_back(&c->o, who[i]);
        assert_true(get(&c->o, who[i], ZI_HOLD_STEP, 4));
        give_back(&c->o, who[i]);
        end(&c->o, who[i], step[i]);
    }
    zi_ledger_totals sum;
    zi_ledger_sum(zi_desk_ledger(c->o.d), &sum);
    assert_int_equal(0, sum.leased_bytes);
}

/* At the end of the step the lane is enlarged, and the job that waited goes in it; with the lane as
 * large, whoever had it before waits for its turn in it. */
static void
lane_moves_at_the_boundary(void **state)
{
    crowd c;

    (void)state;
    open_crowd(&c);
    give_back(&c.o, c.a);
    end(&c.o, c.a, 0);
    assert_true(heard(&c.o, c.mover, ZI_EFFECT_GO).any);
    assert_false(begin(&c.o, c.a, 1));
    assert_true(get(&c.o, c.mover, ZI_HOLD_STEP, 8));
    give_back(&c.o, c.mover);
    end(&c.o, c.mover, 0);
    assert_true(heard(&c.o, c.a, ZI_EFFECT_GO).any);
    close_office(&c.o);
}

/* Killed with the move still to come, in the same turn as the step ends, just moved but holding
 * nothing yet, and in the lane with all that it needs: each time the lane is as it was for the
 * others, and nothing stays held. */
static void
killed_while_its_lane_moves(void **state)
{
    (void)state;
    for (int when = 0; when < 4; when++) {
        crowd c;
        open_crowd(&c);
        if (when == 0) expect_ok(zi_desk_leave(c.o.d, c.mover, c.o.now));
        give_back(&c.o, c.a);
        if (when == 1) { /* what the broker does with two messages of one turn */
            expect_ok(zi_desk_step_end(c.o.d, c.a, 0, NULL, 0, 0, c.o.now));
            expect_ok(zi_desk_leave(c.o.d, c.mover, c.o.now));
            listen(&c.o);
        } else {
            end(&c.o, c.a, 0);
        }
        if (when == 3) assert_true(get(&c.o, c.mover, ZI_HOLD_STEP, 8));
        if (when >= 2) expect_ok(zi_desk_leave(c.o.d, c.mover, c.o.now));
        listen(&c.o);
        assert_null(zi_desk_job(c.o.d, c.mover));
        others_go_on(&c, 1, 0);
        close_office(&c.o);
    }
}

/* The one whose step the move waits for is killed: the job that waited has its place. */
static void
killed_in_the_lane_that_moves(void **state)
{
    crowd c;

    (void)state;
    open_crowd(&c);
    expect_ok(zi_desk_leave(c.o.d, c.a, c.o.now));
    listen(&c.o);
    assert_true(heard(&c.o, c.mover, ZI_EFFECT_GO).any);
    assert_true(get(&c.o, c.mover, ZI_HOLD_STEP, 8));
    close_office(&c.o);
}

/* The broker dies with the move to come, or just done: the successor knows no lanes, lets those
 * inside their steps end, and then the job that waited goes; if that is dead, too, the others do. */
static void
broker_dies_while_a_lane_moves(void **state)
{
    const zi_job_spec small = {.claim_bytes = 4 * R,
                               .features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE};
    const zi_job_spec large = {.claim_bytes = 8 * R,
                               .features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE};

    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        crowd c = {.a = 1, .b = 2, .mover = 3};
        open_office(&c.o, "salus:pack", 12);
        zi_desk_hold(c.o.d, true, c.o.now);
        expect_ok(zi_desk_adopt(c.o.d, c.a, &small, true, 0, c.o.now));
        expect_ok(zi_desk_adopt(c.o.d, c.b, &small, true, 0, c.o.now));
        expect_ok(zi_desk_adopt(c.o.d, c.mover, &large, false, 0, c.o.now));
        for (uint32_t r = 0; r < 6; r++)
            expect_ok(zi_ledger_adopt_region(zi_desk_ledger(c.o.d), r < 3 ? c.a : c.b, r,
                                             ZI_HOLD_STEP));
        assert_false(begin(&c.o, c.mover, 0));
        if (dead) expect_ok(zi_desk_leave(c.o.d, c.mover, c.o.now));
        zi_desk_hold(c.o.d, false, c.o.now);
        listen(&c.o);
        if (dead) {
            others_go_on(&c, 0, 0);
        } else {
            assert_false(heard(&c.o, c.mover, ZI_EFFECT_GO).any);
            give_back(&c.o, c.a);
            end(&c.o, c.a, 0);
            assert_true(heard(&c.o, c.mover, ZI_EFFECT_GO).any);
            assert_true(get(&c.o, c.mover, ZI_HOLD_STEP, 8));
        }
        close_office(&c.o);
    }
}

/* Temporal: device time is shared by weight, to within a step. */
static void
temporal_keeps_shares(void **state)
{
    office   o;
    uint64_t used[3] = {0}, length[3] = {150 * MS, 1000 * MS, 40 * MS};
    uint32_t weight[3] = {1000, 1000, 2000};
    int      running = -1;

    (void)state;
    open_office(&o, "temporal", 10);
    for (int i = 0; i < 3; i++)
        join_as(&o, (zi_job_spec){.claim_bytes = 8 * R, .weight_milli = weight[i]});
    for (zi_job_id i = 0; i < 3; i++)
        if (begin(&o, i, 0)) running = (int)i;
    for (int step = 1; step < 4000; step++) {
        assert_true(running >= 0);
        o.now += length[running];
        used[running] += length[running];
        end(&o, (zi_job_id)running, (uint64_t)step);
        int was = running;
        running = -1;
        o.now += 50000;
        if (begin(&o, (zi_job_id)was, (uint64_t)step)) running = was;
        for (zi_job_id i = 0; i < 3; i++)
            if (heard(&o, i, ZI_EFFECT_GO).any) running = (int)i;
    }
    double total = (double)(used[0] + used[1] + used[2]);
    assert_true(used[0] / total > 0.24 && used[0] / total < 0.26);
    assert_true(used[1] / total > 0.24 && used[1] / total < 0.26);
    assert_true(used[2] / total > 0.49 && used[2] / total < 0.51);
    close_office(&o);
}

/* Temporal: a job with short steps that asks again at once has its burst; one that pauses now and then, as it waits
 * for its data, is not waited for, also after a pause that was short. */
static void
temporal_waits_for_who_asks_again(void **state)
{
    office o;

    (void)state;
    open_office(&o, "temporal", 10);
    zi_job_id a = join_as(&o, (zi_job_spec){.claim_bytes = 8 * R});
    zi_job_id b = join_as(&o, (zi_job_spec){.claim_bytes = 8 * R});
    assert_true(begin(&o, b, 0));
    assert_false(begin(&o, a, 0));
    o.now += 1000 * MS;
    end(&o, b, 0);
    assert_true(heard(&o, a, ZI_EFFECT_GO).any);
    assert_false(begin(&o, b, 1));
    for (uint64_t step = 0; step < 3; step++) {
        o.now += 10 * MS;
        end(&o, a, step);
        assert_false(heard(&o, b, ZI_EFFECT_GO).any);
        o.now += MS / 20;
        assert_true(begin(&o, a, step + 1));
    }
    o.now += 10 * MS;
    end(&o, a, 3);
    assert_false(heard(&o, b, ZI_EFFECT_GO).any);
    at(&o, o.now + 20 * MS); /* its data is not there */
    assert_true(heard(&o, b, ZI_EFFECT_GO).any);
    assert_false(begin(&o, a, 4));
    for (uint64_t step = 4; step < 6; step++) {
        o.now += 1000 * MS;
        end(&o, b, step - 3);
        assert_true(heard(&o, a, ZI_EFFECT_GO).any);
        assert_false(begin(&o, b, step - 2));
        o.now += 10 * MS;
        end(&o, a, step);
        assert_true(heard(&o, b, ZI_EFFECT_GO).any);
        o.now += MS / 20;
        assert_false(begin(&o, a, step + 1));
    }
    expect_ok(zi_desk_leave(o.d, a, o.now));
    zi_job_id fresh = join_as(&o, (zi_job_spec){.claim_bytes = 8 * R});
    assert_int_equal(a, fresh); /* its number, but not its pauses */
    assert_false(begin(&o, fresh, 0));
    o.now += 1000 * MS;
    end(&o, b, 3);
    assert_true(heard(&o, fresh, ZI_EFFECT_GO).any);
    assert_false(begin(&o, b, 4));
    o.now += 10 * MS;
    end(&o, fresh, 0);
    assert_false(heard(&o, b, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* Spatial: reserved peaks fit the budget; who does not fit waits until somebody leaves. */
static void
spatial_admits_by_peak(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 20);
    zi_job_id a = join(&o, 0), b = join(&o, 0), c = join(&o, 0);
    teach(&o, a, 8, 90 * MS);
    teach(&o, b, 8, 90 * MS);
    teach(&o, c, 8, 90 * MS);
    assert_true(begin(&o, a, 1));
    assert_true(begin(&o, b, 1));
    assert_false(begin(&o, c, 1));
    assert_int_equal(ZI_REASON_ADMISSION, why(&o, c));
    end(&o, b, 1);
    assert_false(heard(&o, c, ZI_EFFECT_GO).any); /* b stays admitted */
    expect_ok(zi_desk_leave(o.d, b, o.now));
    listen(&o);
    assert_true(heard(&o, c, ZI_EFFECT_GO).any);
    close_office(&o);
}

/* A policy is found by name, with what follows the colon; unknown ones are refused. */
static void
policies_by_name(void **state)
{
    zi_desk        *d;
    zi_desk_options opt = {.shape = {R, 4, 4 * R}, .n_cores = 1, .policy = "nonsense"};
    const char     *arg;

    (void)state;
    expect_status(ZICO_E_ARG, zi_desk_new(&opt, &d));
    opt.policy = "temporal:x";
    expect_status(ZICO_E_ARG, zi_desk_new(&opt, &d));
    assert_non_null(zi_policy_find("zico", &arg));
    assert_string_equal("", arg);
    assert_string_equal("zico", zi_policy_at(0)->name);
}

/* A command's memory grows by surprise: its steps run alone until four in a row held no more than
 * was known, and a surprise begins the count anew. */
static void
commands_grow_alone(void **state)
{
    const zi_job_spec spec = {.features = ZI_FEATURE_STEPS | ZI_FEATURE_SUSPEND};
    office            o;
    zi_job_id         a, other;

    (void)state;
    open_office(&o, "spatial", 40);
    expect_ok(zi_desk_join(o.d, &spec, o.now, &a));
    other = join(&o, 2);
    for (uint64_t step = 0; step < 8; step++) {
        uint32_t held = step < 2 ? 2 : 6; /* the third is a surprise */
        assert_true(begin(&o, a, step));
        assert_true(get(&o, a, ZI_HOLD_STEP, held));
        o.now += S;
        bool beside = begin(&o, other, step);
        assert_int_equal(step >= 7, beside); /* 3 to 6 were as usual */
        give_back(&o, a);
        expect_ok(zi_desk_step_end(o.d, a, step, NULL, 0, 0, o.now));
        listen(&o);
        assert_true(beside || heard(&o, other, ZI_EFFECT_GO).any);
        expect_ok(zi_desk_step_end(o.d, other, step, NULL, 0, 0, o.now));
        listen(&o);
    }
    close_office(&o);
}

static zi_job_id
command(office *o, uint64_t features)
{
    zi_job_spec spec = {.features = ZI_FEATURE_STEPS | features, .claim_bytes = 2 * R};
    zi_job_id   job;
    expect_ok(zi_desk_join(o->d, &spec, o->now, &job));
    return job;
}

/* A command that follows CORES has all of them alone, and hears of it in the middle of its step when
 * another begins and ends; one that does not is told with its next step. */
static void
commands_follow_cores(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 40);
    zi_job_id a = command(&o, ZI_FEATURE_CORES), b = command(&o, ZI_FEATURE_CORES);
    assert_true(begin(&o, a, 0));
    assert_int_equal(2, o.last[a][ZI_EFFECT_GO].e.value);
    assert_true(begin(&o, b, 0));
    assert_int_equal(1, heard(&o, a, ZI_EFFECT_CORES).e.value);
    assert_int_equal(1, o.last[b][ZI_EFFECT_GO].e.value);
    end(&o, b, 0);
    assert_int_equal(2, heard(&o, a, ZI_EFFECT_CORES).e.value);
    end(&o, a, 0);
    close_office(&o);

    open_office(&o, "spatial", 40);
    a = command(&o, 0);
    assert_true(begin(&o, a, 0));
    assert_false(begin(&o, command(&o, 0), 0)); /* it has both */
    assert_false(heard(&o, a, ZI_EFFECT_CORES).any);
    close_office(&o);
}

/* A command that trains nothing is asked for what it keeps when others wait for bytes, and not before;
 * again only after a while. */
static void
kept_memory_is_recalled(void **state)
{
    office o;

    (void)state;
    open_office(&o, "spatial", 10);
    zi_job_id keeper = command(&o, 0), other = command(&o, 0);
    assert_true(get(&o, keeper, ZI_HOLD_PRIVATE, 7));
    assert_true(get(&o, other, ZI_HOLD_PRIVATE, 1));
    assert_false(heard(&o, keeper, ZI_EFFECT_RECALL).any);
    assert_false(get(&o, other, ZI_HOLD_PRIVATE, 4));
    assert_true(heard(&o, keeper, ZI_EFFECT_RECALL).any);
    at(&o, o.now + S);
    assert_false(heard(&o, keeper, ZI_EFFECT_RECALL).any);
    expect_ok(zi_desk_uncharge(o.d, keeper, 4 * R, o.now));
    listen(&o);
    assert_true(heard(&o, other, ZI_EFFECT_GRANT).any);
    close_office(&o);
}

/* A job in its first step has claimed everything, and waits there for a program that it has started:
 * that one has its memory at once, out of the claim.  Another one waits for the step's end. */
static void
started_within_a_step(void **state)
{
    office o;

    (void)state;
    open_office(&o, "zico", 12);
    zi_job_spec spec = {.features = ZI_FEATURE_STEPS};
    zi_job_id   a, b, c;
    expect_ok(zi_desk_join(o.d, &spec, o.now, &a));
    expect_ok(zi_desk_join(o.d, &spec, o.now, &b));
    expect_ok(zi_desk_join(o.d, &spec, o.now, &c));
    assert_true(begin(&o, a, 0));
    assert_true(get(&o, a, ZI_HOLD_STEP, 4));
    zi_desk_set_maker(o.d, b, a);
    assert_false(get(&o, c, ZI_HOLD_PRIVATE, 1));
    at(&o, o.now + 5 * S); /* also after a long time, with others in front of it */
    assert_true(get(&o, b, ZI_HOLD_PRIVATE, 2));
    assert_true(get(&o, b, ZI_HOLD_PRIVATE, 4));
    assert_false(
        get(&o, b, ZI_HOLD_PRIVATE, 4)); /* more than there is beside what a holds */
    expect_ok(zi_desk_leave(o.d, b, o.now));
    listen(&o);
    assert_true(get(&o, a, ZI_HOLD_STEP, 6));
    give_back(&o, a);
    end(&o, a, 0);
    assert_true(heard(&o, c, ZI_EFFECT_GRANT).any);
    close_office(&o);
}

/* Each of several inside steps has cores of its own, and stays on them when others come and go. */
static void
cores_of_its_own(void **state)
{
    office          o = {.now = 1 * S};
    zi_desk_options opt = {.shape = {R, 64, 64 * R}, .n_cores = 6, .policy = "spatial"};
    zi_job_id       job[3];

    (void)state;
    expect_ok(zi_desk_new(&opt, &o.d));
    for (int i = 0; i < 3; i++) job[i] = join(&o, 4);
    assert_true(begin(&o, job[0], 0));
    said go = o.last[job[0]][ZI_EFFECT_GO];
    assert_int_equal(6, go.e.value);
    assert_int_equal(0, go.e.first_core);
    assert_true(begin(&o, job[1], 0));
    said a = heard(&o, job[0], ZI_EFFECT_CORES), b = o.last[job[1]][ZI_EFFECT_GO];
    assert_true(a.e.value == 3 && b.e.value == 3);
    assert_int_equal(3, a.e.first_core + b.e.first_core); /* one half each */
    assert_true(begin(&o, job[2], 0));
    said c = o.last[job[2]][ZI_EFFECT_GO];
    a = heard(&o, job[0], ZI_EFFECT_CORES);
    b = heard(&o, job[1], ZI_EFFECT_CORES);
    uint32_t on[6] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        on[a.e.first_core + i]++;
        on[b.e.first_core + i]++;
        on[c.e.first_core + i]++;
    }
    for (int i = 0; i < 6; i++) assert_int_equal(1, on[i]);
    end(&o, job[1], 0);
    a = heard(&o, job[0], ZI_EFFECT_CORES);
    c = heard(&o, job[2], ZI_EFFECT_CORES);
    assert_true(a.e.value == 3 && c.e.value == 3);
    assert_int_equal(3, a.e.first_core + c.e.first_core);
    close_office(&o);
}

/* Whoever ticks waits for nothing any more, though the tick came for another reason and sooner than what
 * the policy wants to be woken for: that is told again, or nobody would ever begin. */
static void
next_wake_is_told_at_each_tick(void **state)
{
    office o;

    (void)state;
    open_office(&o, "relay:temporal/4@0:2", 32);
    (void)join_as(&o, (zi_job_spec){0});
    assert_int_equal(4 * S, o.wake);
    for (o.now = 2 * S; o.now < 4 * S; o.now += S) {
        o.wake = 0;
        expect_ok(zi_desk_tick(o.d, o.now));
        listen(&o);
        assert_int_equal(4 * S, o.wake);
    }
    close_office(&o);
}

/* A policy that measures says what it found, a relay whose turn it is, and others nothing; a text that is
 * longer than there is room for is cut. */
static void
policies_explain_themselves(void **state)
{
    static const struct {
        const char *policy, *says;
    } known[] = {{"zico",
                  "side by side; not tried yet; next try in 0 epochs; plans full"},
                 {"relay:zico/4",
                  "zico: side by side; not tried yet; next try in 0 epochs; plans full"},
                 {"relay:temporal/4@0:2", "temporal"},
                 {"temporal", ""}};
    char text[192], little[8];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        office o;
        open_office(&o, known[i].policy, 32);
        zi_desk_explain(o.d, text, sizeof text);
        assert_string_equal(known[i].says, text);
        zi_desk_explain(o.d, little, sizeof little);
        size_t n = strlen(known[i].says);
        assert_int_equal(n < sizeof little ? n : sizeof little - 1, strlen(little));
        assert_memory_equal(known[i].says, little, strlen(little));
        close_office(&o);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(started_within_a_step),
        cmocka_unit_test(cores_of_its_own),
        cmocka_unit_test(lane_moves_at_the_boundary),
        cmocka_unit_test(killed_while_its_lane_moves),
        cmocka_unit_test(killed_in_the_lane_that_moves),
        cmocka_unit_test(broker_dies_while_a_lane_moves),
        cmocka_unit_test(temporal_keeps_shares),
        cmocka_unit_test(temporal_waits_for_who_asks_again),
        cmocka_unit_test(spatial_admits_by_peak),
        cmocka_unit_test(policies_by_name),
        cmocka_unit_test(commands_grow_alone),
        cmocka_unit_test(commands_follow_cores),
        cmocka_unit_test(kept_memory_is_recalled),
        cmocka_unit_test(next_wake_is_told_at_each_tick),
        cmocka_unit_test(policies_explain_themselves),
    };
    return t_main(tests);
}

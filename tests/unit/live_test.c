/* live_test.c -- the live view says what jobs do and fits the screen. */
#include "cli/live.h"
#include "test.h"

static zi_live_job
a_job(const char *name)
{
    zi_live_job j = {
        .name = name, .joined = true, .ever = true, .last_line = "", .rate = 2.5};
    j.seen.step_no = 12;
    j.seen.steps_total = 100;
    j.seen.state = 2;
    j.seen.cores = 1;
    j.seen.loss_micro = 1234500;
    j.seen.fixed_bytes = 100ull << 20;
    j.seen.step_bytes = 412ull << 20;
    j.seen.peak_bytes = 600ull << 20;
    return j;
}

static void
says(const zi_live_job *j, const char *want)
{
    zi_str s = {0};
    zi_live_doing(j, &s);
    assert_string_equal(want, zi_str_get(&s));
    zi_str_free(&s);
}

/* Each state has its words; a reason to wait comes before the state. */
static void
words_for_states(void **state)
{
    (void)state;
    zi_live_job j = a_job("a");
    says(&j, "in a step, 1 core");
    j.seen.cores = 2;
    says(&j, "in a step, 2 cores");
    j.seen.reason = ZI_REASON_TIDE;
    says(&j, "waits: its step would meet the others' high tide");
    j.joined = false;
    says(&j, "starting");
    j.waiting = true;
    says(&j, "starts later");
    j.ended = true;
    says(&j, "finished");
    j.exit_code = 137;
    says(&j, "failed, exit code 137");
}

/* The frame has a row per job and a bar whose letters show who holds how much. */
static void
frame(void **state)
{
    (void)state;
    zi_live_job j[2] = {a_job("alpha"), a_job("beta")};
    zi_style    style = {.width = 82};
    zi_str      s = {0};
    zi_live     l = {.job = j,
                     .n_jobs = 2,
                     .elapsed_ns = 3000000000ull,
                     .budget_bytes = 2048ull << 20,
                     .held_bytes = 1024ull << 20,
                     .policy = "zico",
                     .says = "in turn; side by side does 0.97 of turns (0.95 when "
                             "last tried), 3 tries; next try in 16 epochs; plans full"};

    expect_ok(zi_live_draw(&l, &style, 24, &s));
    const char *text = zi_str_get(&s);
    assert_non_null(strstr(text, "alpha"));
    assert_non_null(strstr(text, "12/100"));
    assert_non_null(strstr(text, "1.2345"));
    assert_non_null(strstr(text, "[AAAAAAAAAAAAAAAAAAAABBBBBBBBBBBBBBBBBBBB.........."));
    assert_non_null(strstr(text, "1 GiB of 2 GiB held, policy zico, 3 s\n"
                                 "in turn; side by side does 0.97 of turns"));
    for (const char *at = text; *at;) { /* nothing is wider than the screen */
        size_t n = strcspn(at, "\n");
        assert_true(n <= style.width);
        at += n + (at[n] == '\n');
    }
    zi_str_free(&s);
}

/* A history keeps its shape when it is longer than its room, and knows its peak. */
static void
history_thins_out(void **state)
{
    (void)state;
    zi_history       *h;
    zi_msg_status_job job = {.name = "a"};
    zi_picture        p = {.n_jobs = 1, .job = &job};
    zi_str            svg = {0};

    expect_ok(zi_history_new(&h));
    p.device.budget_bytes = 1000;
    for (uint64_t i = 0; i < 3 * ZI_HISTORY_MAX; i++) {
        p.device.now_ns = 1000000000 + i * 1000000;
        job.step_bytes = i % 900;
        p.device.leased_bytes = job.step_bytes;
        expect_ok(zi_history_add(h, &p));
    }
    assert_true(zi_history_n(h) <= ZI_HISTORY_MAX);
    assert_true(zi_history_n(h) > ZI_HISTORY_MAX / 4);
    assert_true(zi_history_peak(h) == 899);
    assert_false(zi_history_was_over(h));
    p.device.kernel_bytes = 999;
    p.device.private_bytes = 2;
    expect_ok(zi_history_add(h, &p));
    assert_true(zi_history_was_over(h));
    expect_ok(zi_history_svg(h, "t", &svg));
    assert_non_null(strstr(zi_str_get(&svg), "</svg>"));
    zi_str_free(&svg);
    zi_history_free(h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_for_states),
        cmocka_unit_test(frame),
        cmocka_unit_test(history_thins_out),
    };
    return t_main(tests);
}

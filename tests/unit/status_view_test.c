/* status_view_test.c -- a picture of a broker reads well, as text and as JSON. */
#include "cli/status_view.h"

#include "policy/policy.h"
#include "test.h"

static zi_msg_status_job jobs[2];
static zi_picture        picture;

static void
draw(void)
{
    jobs[0] = (zi_msg_status_job){.job = 0,
                                  .pid = 100,
                                  .name = "resnet",
                                  .state = ZI_JOB_RUNNING,
                                  .behind_job = UINT32_MAX,
                                  .fixed_bytes = 64 << 20,
                                  .step_bytes = 32 << 20,
                                  .cores = 2,
                                  .step_no = 17,
                                  .lane = -1,
                                  .loss_micro = INT64_MIN,
                                  .note = "epoch 2"};
    jobs[1] = (zi_msg_status_job){.job = 3,
                                  .pid = 101,
                                  .name = "vgg \"x\"",
                                  .state = ZI_JOB_ASKING,
                                  .reason = ZI_REASON_TIDE,
                                  .behind_job = 0,
                                  .position = 2,
                                  .asked_bytes = 48 << 20,
                                  .waiting_ns = 1500000000,
                                  .lane = -1,
                                  .loss_micro = INT64_MIN};
    picture = (zi_picture){.n_jobs = 2, .job = jobs};
    picture.device = (zi_msg_status){.version = 1,
                                     .n_jobs = 2,
                                     .budget_bytes = 256 << 20,
                                     .target_bytes = 256 << 20,
                                     .leased_bytes = 96 << 20,
                                     .region_bytes = 2 << 20,
                                     .n_cores = 2,
                                     .broker_pid = 99,
                                     .policy = "zico",
                                     .device = "host"};
}

static const char *
text_of(zi_str *out)
{
    zi_str_clear(out);
    expect_ok(zi_status_text(&picture, &ZI_STYLE_PLAIN, out));
    return zi_str_get(out);
}

/* Who holds what; who waits for how much, since when, why, behind whom, in which place. */
static void
text_says_it(void **state)
{
    zi_str out = {0};

    (void)state;
    draw();
    const char *t = text_of(&out);
    assert_non_null(
        strstr(t, "budget 256 MiB: leased 96 MiB, private 0 B, free 160 MiB"));
    assert_non_null(strstr(t, "resnet"));
    assert_non_null(strstr(t, "in step"));
    assert_non_null(strstr(t, "vgg \"x\" waits for 48 MiB since 1.5"));
    assert_non_null(strstr(t, " s: its step would meet the others' high tide (resnet); "
                              "2 requests in front of it\n"));
    assert_non_null(strstr(t, "resnet: epoch 2\n"));
    assert_null(strstr(t, "OVER"));
    assert_null(strstr(t, "restarted"));
    zi_str_free(&out);
}

/* What is out of the ordinary is said, and only then. */
static void
text_warns(void **state)
{
    zi_str out = {0};

    (void)state;
    draw();
    picture.device.n_over = 3;
    picture.device.n_absent = 1;
    picture.device.target_bytes = 128 << 20;
    strcpy(picture.device.policy_says, "in turn; not tried yet");
    const char *t = text_of(&out);
    assert_non_null(strstr(t, "OVER BUDGET: found so 3 times"));
    assert_non_null(strstr(t, "nothing is granted until 1 more jobs have reported"));
    assert_non_null(strstr(t, "on its way to 128 MiB"));
    assert_non_null(strstr(t, ": in turn; not tried yet\n"));
    picture.n_jobs = 0;
    picture.device.leased_bytes = 300
                                  << 20; /* more than the budget: free is 0, not huge */
    t = text_of(&out);
    assert_non_null(strstr(t, "no jobs"));
    assert_non_null(strstr(t, "free 0 B"));
    zi_str_free(&out);
}

/* Lanes by number, slices by whose they are; neither where there are none. */
static void
text_shows_lanes(void **state)
{
    zi_str out = {0};

    (void)state;
    draw();
    assert_null(strstr(text_of(&out), "lane"));
    strcpy(picture.device.policy, "salus:pack");
    jobs[0].lane = 7;
    const char *t = text_of(&out);
    assert_non_null(strstr(t, "lane"));
    assert_non_null(strstr(t, "  7"));
    strcpy(picture.device.policy, "gandiva:slice=10");
    jobs[0].lane = 0;
    jobs[1].lane = 1;
    t = text_of(&out);
    assert_null(strstr(t, "lane"));
    assert_non_null(strstr(t, "  slice"));
    assert_non_null(strstr(t, "now"));
    assert_non_null(strstr(t, "next"));
    zi_str_free(&out);
}

/* One line, every field by its name, quotes escaped. */
static void
json_has_it(void **state)
{
    zi_str out = {0};

    (void)state;
    draw();
    expect_ok(zi_status_json(&picture, &out));
    const char *t = zi_str_get(&out);
    assert_ptr_equal(t + strlen(t) - 1, strchr(t, '\n'));
    assert_non_null(strstr(t, "\"budget_bytes\":268435456"));
    assert_non_null(strstr(t, "\"name\":\"vgg \\\"x\\\"\""));
    assert_non_null(strstr(t, "\"reason_name\":\"tide\""));
    assert_non_null(strstr(t, "\"state_name\":\"in step\""));
    assert_non_null(strstr(t, "\"waiting_ns\":1500000000"));
    zi_str_free(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_says_it),
        cmocka_unit_test(text_warns),
        cmocka_unit_test(text_shows_lanes),
        cmocka_unit_test(json_has_it),
    };
    return t_main(tests);
}

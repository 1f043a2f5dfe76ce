/* jobfile_test.c -- job files: what is good is understood, what is bad is named. */
#include "cli/jobfile.h"
#include "test.h"

static zi_jobfile *
good(const char *text)
{
    zi_jobfile *f = NULL;
    zi_str      why = {0};
    zico_status st = zi_jobfile_parse("jobs.yaml", text, strlen(text), &f, &why);
    if (st != ZICO_OK) print_message("%s\n", zi_str_get(&why));
    expect_ok(st);
    zi_str_free(&why);
    return f;
}

/* The text is refused, and the one line about it is exactly this. */
static void
bad(const char *text, const char *want)
{
    zi_jobfile *f = NULL;
    zi_str      why = {0};
    assert_true(zi_jobfile_parse("jobs.yaml", text, strlen(text), &f, &why) < 0);
    assert_null(f);
    assert_string_equal(want, zi_str_get(&why));
    zi_str_free(&why);
}

/* A file with a native job, a command and limits gives what it says. */
static void
understands(void **state)
{
    (void)state;
    zi_jobfile *f =
        good("budget: 4G\npolicy: zico\njobs:\n"
             "  - name: a\n    train: resnet20\n    batch: 64\n    weight: 2.5\n"
             "  - name: b\n    command: [python3, x.py]\n    min: 1G\n    max: 2G\n"
             "    delay: 1.5\n");
    assert_int_equal(2, f->jobs_count);
    assert_true(f->budget_bytes == 4ull << 30);
    assert_int_equal(2500, f->jobs[0].weight_milli);
    assert_int_equal(1000, f->jobs[1].weight_milli);
    assert_int_equal(2, f->jobs[1].command_count);
    assert_string_equal("x.py", f->jobs[1].command[1]);
    assert_true(f->jobs[1].min_bytes == 1ull << 30);
    assert_true(f->jobs[1].delay_ns == 1500000000ull);
    zi_jobfile_free(f);
}

/* A budget may be a share of the sum of solo peaks; jobs without a name get one. */
static void
share_and_names(void **state)
{
    (void)state;
    zi_jobfile *f = good("budget: 65%\njobs:\n  - train: gpt:layers=4\n  - shell: ls\n");
    assert_int_equal(65, f->budget_percent);
    assert_string_equal("gpt", f->jobs[0].name);
    assert_string_equal("job2", f->jobs[1].name);
    zi_jobfile_free(f);
}

/* Each fault is reported with file, line and key. */
static void
names_faults(void **state)
{
    (void)state;
    bad("jobs:\n  - name: a\n    train: x\n    colour: red\n",
        "jobs.yaml:4: colour: unknown key; `zico run --help` lists them");
    bad("jobs:\n  - name: a\n    train: x\n    min: lots\n",
        "jobs.yaml:4: min: 'lots' is not a size such as 600M or 4G");
    bad("jobs:\n  - name: a\n    train: x\n  - name: a\n    train: y\n",
        "jobs.yaml:4: name: 'a' is taken by job 1");
    bad("jobs:\n  - name: a\n", "jobs.yaml:2: name: job 'a' has none of train, infer, "
                                "command, shell");
    bad("budget: 1M\njobs:\n  - train: x\n",
        "jobs.yaml:1: budget: 1M is too little to share; 64M is the least");
    bad("budget: 1G\njobs:\n  - train: x\n    min: 2G\n",
        "jobs.yaml:4: min: 2G is more than the budget, 1G");
    bad("jobs:\n  - shell: ls\n    batch: 3\n",
        "jobs.yaml:3: batch: only for train and infer; job 'job1' is a command");
    bad("jobs:\n  - shell: ls\n    weight: heavy\n",
        "jobs.yaml:3: weight: 'heavy' is not a number from 0.001 to 1000");
    bad("jobs:\n  - shell: ls\n    cores: many\n",
        "jobs.yaml:3: cores: 'many' is none of follow, own, fixed, fixed:N");
}

/* Texts that are no YAML, no mapping, empty or binary are refused, never crash. */
static void
survives_garbage(void **state)
{
    (void)state;
    const char *texts[] = {"",          "jobs", "jobs:", "jobs: []", "[",
                           "jobs: [\n", "a: b", "\t",    "- x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        zi_jobfile *f = NULL;
        zi_str      why = {0};
        assert_true(zi_jobfile_parse("f", texts[i], strlen(texts[i]), &f, &why) < 0);
        assert_true(strlen(zi_str_get(&why)) > 3);
        zi_str_free(&why);
    }
    zi_str      why = {0};
    zi_jobfile *f = NULL;
    expect_status(ZICO_E_FORMAT, zi_jobfile_parse("f", "a\0b", 3, &f, &why));
    zi_str_free(&why);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(understands),
        cmocka_unit_test(share_and_names),
        cmocka_unit_test(names_faults),
        cmocka_unit_test(survives_garbage),
    };
    return t_main(tests);
}

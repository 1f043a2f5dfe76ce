/* report_test.c -- tables, plots, traces and progress lines are the stored ones. */
#include <math.h>
#include "base/alloc.h"
#include "golden.h"
#include "report/report.h"
#include "test.h"

static const zi_style modern = {.unicode = true, .width = 72};

static void
show(const char *name, zico_status st, zi_str *out)
{
    expect_ok(st);
    t_golden(name, zi_str_get(out));
    zi_str_free(out);
}

static zi_table *
job_table(void)
{
    const zi_column col[] = {{"job", NULL, ZI_UNIT_TEXT, 0},
                             {"Peak memory", "peak_bytes", ZI_UNIT_BYTES, 0},
                             {"step", "step_ns", ZI_UNIT_NS, 0},
                             {"speed", NULL, ZI_UNIT_RATIO, 0},
                             {"share", NULL, ZI_UNIT_PERCENT, 0},
                             {"loss", NULL, ZI_UNIT_NUMBER, 4},
                             {"state", NULL, ZI_UNIT_TEXT, 0}};
    zi_table       *t;

    expect_ok(zi_table_new(col, 7, &t));
    zi_table_text(t, "resnet50"), zi_table_u64(t, 1288490189), zi_table_f64(t, 352e6);
    zi_table_f64(t, 1.2), zi_table_f64(t, 0.934), zi_table_f64(t, 2.30259);
    zi_table_text(t, "runs, at the boundary of step 17 since a while");
    zi_table_text(t, "größer"), zi_table_none(t), zi_table_f64(t, 4.32e12);
    zi_table_f64(t, NAN), zi_table_f64(t, 0.0123), zi_table_f64(t, INFINITY);
    zi_table_text(t, NULL);
    zi_table_rule(t);
    zi_table_text(t, "sum"), zi_table_u64(t, 4096), zi_table_u64(t, 999);
    zi_table_f64(t, 0), zi_table_f64(t, 1), zi_table_f64(t, -1), zi_table_text(t, "");
    return t;
}

/* Columns line up, whatever the width of their text; a narrow screen cuts the widest. */
static void
tables(void **state)
{
    zi_table *t = job_table();
    zi_str    out = {0};

    (void)state;
    show("report/table_plain.txt", zi_table_print(t, &ZI_STYLE_PLAIN, &out), &out);
    show("report/table_narrow.txt", zi_table_print(t, &modern, &out), &out);
    zi_json j = zi_json_into(&out);
    expect_ok(zi_table_json(t, &j));
    show("report/table.json", zi_json_status(&j), &out);
    zi_table_free(t);
}

/* Each unit over its whole range, one line each. */
static void
units(void **state)
{
    static const struct {
        zi_unit unit;
        double  v;
        int     decimals;
    } row[] = {{ZI_UNIT_NUMBER, 0, -1},       {ZI_UNIT_NUMBER, 0.123456, -1},
               {ZI_UNIT_NUMBER, 1234567, -1}, {ZI_UNIT_NUMBER, 1e-7, -1},
               {ZI_UNIT_NUMBER, 3e20, -1},    {ZI_UNIT_NUMBER, 2.5, 3},
               {ZI_UNIT_NS, 0, -1},           {ZI_UNIT_NS, 12, -1},
               {ZI_UNIT_NS, 1500, -1},        {ZI_UNIT_NS, 35.2e6, -1},
               {ZI_UNIT_NS, 999.9e6, -1},     {ZI_UNIT_NS, 59.9e9, -1},
               {ZI_UNIT_NS, 200e9, -1},       {ZI_UNIT_NS, 4320e9, -1},
               {ZI_UNIT_NS, 1e14, -1},        {ZI_UNIT_NS, -2e9, -1},
               {ZI_UNIT_BYTES, 0, -1},        {ZI_UNIT_BYTES, 1536, -1},
               {ZI_UNIT_BYTES, -1048576, -1}, {ZI_UNIT_RATE, 512.4, -1},
               {ZI_UNIT_RATE, 3.25, -1},      {ZI_UNIT_RATIO, 1.206, -1},
               {ZI_UNIT_PERCENT, 0.055, -1},  {ZI_UNIT_PERCENT, 0.93, -1},
               {ZI_UNIT_NUMBER, NAN, -1}};
    zi_str out = {0};
    char   text[ZI_UNIT_CHARS];

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        zi_str_fmt(&out, "%s\n",
                   zi_unit_format(row[i].unit, row[i].v, row[i].decimals, text));
    show("report/units.txt", ZICO_OK, &out);
}

static double loss_x[400], loss_a[400], loss_b[400];

static zi_plot
loss_plot(zi_series s[2])
{
    for (int i = 0; i < 400; i++) {
        loss_x[i] = i;
        loss_a[i] = 2.3 * exp(-i / 90.0) + 0.1 + 0.05 * sin(i);
        loss_b[i] = i == 200 ? NAN : 2.3 * exp(-i / 200.0) + 0.2;
    }
    s[0] = (zi_series){.name = "adam, lr 0.001", .x = loss_x, .y = loss_a, .n = 400};
    s[1] = (zi_series){.name = "sgd <0.1> & co", .x = loss_x, .y = loss_b, .n = 400};
    return (zi_plot){.kind = ZI_PLOT_LINE,
                     .title = "Training loss",
                     .note = "resnet20, batch 64",
                     .x = {.label = "step"},
                     .y = {.label = "loss"},
                     .series = s,
                     .n_series = 2};
}

/* A line plot has axes, a legend, and a gap where the value is not a number. */
static void
lines(void **state)
{
    zi_series s[2];
    zi_plot   p = loss_plot(s);
    zi_str    out = {0};

    (void)state;
    p.x.unit = p.y.unit = ZI_UNIT_NUMBER;
    show("report/lines.svg", zi_plot_svg(&p, &out), &out);
    show("report/lines.txt", zi_plot_text(&p, &modern, &out), &out);
    show("report/lines_ascii.txt", zi_plot_text(&p, &ZI_STYLE_PLAIN, &out), &out);
    p.y.log = true;
    show("report/lines_log.svg", zi_plot_svg(&p, &out), &out);
}

#define GIB 1073741824.0

/* Jobs stacked over time against the budget, as steps: the picture of shared tides. */
static void
stacked(void **state)
{
    static double            x[3][60], y[3][60];
    zi_series                s[3];
    static const char *const name[3] = {"resnet50", "gpt", "unet"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 60; i++) {
            x[k][i] = (i * 0.05 + k * 0.31) * 1e9;
            y[k][i] = (0.4 + 0.35 * k) * GIB * (0.2 + fabs(sin(i / 7.0 + k)));
        }
        s[k] = (zi_series){.name = name[k], .x = x[k], .y = y[k], .n = 60, .steps = true};
    }
    zi_plot p = {.kind = ZI_PLOT_STACKED,
                 .title = "Memory of three jobs",
                 .x = {.label = "time", .unit = ZI_UNIT_NS},
                 .y = {.label = "memory", .unit = ZI_UNIT_BYTES},
                 .series = s,
                 .n_series = 3,
                 .has_budget = true,
                 .budget = 2.5 * GIB};
    zi_str  out = {0};
    show("report/stacked.svg", zi_plot_svg(&p, &out), &out);
    show("report/stacked.txt", zi_plot_text(&p, &modern, &out), &out);
    show("report/stacked_ascii.txt", zi_plot_text(&p, &ZI_STYLE_PLAIN, &out), &out);
}

/* Plans as points of memory against time: scatter and trade-off curve. */
static void
marks(void **state)
{
    static const double      mem[4] = {0.5 * GIB, 0.8 * GIB, 1.1 * GIB, 2 * GIB};
    static const double      slow[4] = {1.9, 1.4, 1.15, 1.0};
    static const double      one_x[1] = {1.5 * GIB}, one_y[1] = {1.3};
    static const char *const label[4] = {"sqrt", "swap", "mixed", "keep everything"};
    const zi_series          s[2] = {
                 {.name = "zico", .x = mem, .y = slow, .n = 4, .labels = label},
                 {.name = "checkpoint", .x = one_x, .y = one_y, .n = 1}};
    zi_plot p = {.kind = ZI_PLOT_FRONT,
                 .title = "Time against memory",
                 .x = {.label = "peak memory", .unit = ZI_UNIT_BYTES},
                 .y = {.label = "step time", .unit = ZI_UNIT_RATIO},
                 .series = s,
                 .n_series = 2};
    zi_str  out = {0};

    (void)state;
    show("report/front.svg", zi_plot_svg(&p, &out), &out);
    p.kind = ZI_PLOT_SCATTER;
    show("report/scatter.txt", zi_plot_text(&p, &modern, &out), &out);
}

/* A plot without data, or with one value, still has axes. */
static void
empty_plots(void **state)
{
    static const double x[2] = {3, 3}, y[2] = {0, 0};
    zi_series           s = {.name = "one", .x = x, .y = y, .n = 2};
    zi_plot             p = {.kind = ZI_PLOT_STACKED, .series = &s, .n_series = 1};
    zi_str              out = {0};

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        p.kind = (zi_plot_kind)kind;
        for (size_t n = 0; n <= 1; n++) {
            p.n_series = n;
            expect_ok(zi_plot_text(&p, &ZI_STYLE_PLAIN, &out));
            expect_ok(zi_plot_svg(&p, &out));
        }
    }
    assert_null(strstr(zi_str_get(&out), "nan"));
    assert_null(strstr(zi_str_get(&out), "inf"));
    zi_str_free(&out);
    s.x = (const double[]){2, 1};
    p.kind = ZI_PLOT_LINE;
    expect_status(ZICO_E_ARG, zi_plot_svg(&p, &out));
    p.n_series = ZI_PLOT_MAX_SERIES + 1;
    expect_status(ZICO_E_ARG, zi_plot_svg(&p, &out));
}

/* Labels of an axis around one value, however narrow, are all different. */
static void
no_label_twice(void **state)
{
    static const double x[1] = {1.5 * GIB}, y[1] = {2.1137e9};
    zi_series           s = {.name = "one", .x = x, .y = y, .n = 1};

    (void)state;
    for (double part = 1e-4; part < 0.2; part *= 3) {
        zi_plot p = {.kind = ZI_PLOT_FRONT,
                     .series = &s,
                     .n_series = 1,
                     .x = {.unit = ZI_UNIT_BYTES},
                     .y = {.unit = ZI_UNIT_NS,
                           .fixed = true,
                           .lo = y[0] * (1 - part),
                           .hi = y[0] * (1 + part)}};
        zi_str  out = {0};
        char    seen[32][64];
        size_t  n = 0;
        expect_ok(zi_plot_svg(&p, &out));
        for (char *at = strstr(zi_str_get(&out), "<text"); at; at = strstr(at, "<text")) {
            at = strchr(at, '>') + 1;
            snprintf(seen[n], sizeof seen[n], "%.*s", (int)strcspn(at, "<"), at);
            for (size_t i = 0; i < n; i++) assert_string_not_equal(seen[i], seen[n]);
            if (n + 1 < 32) n++;
        }
        assert_true(n > 2);
        zi_str_free(&out);
    }
}

/* A million points stay a small file that still shows the one peak. */
static void
long_series_keep_their_peaks(void **state)
{
    enum { N = 1000000 };
    double *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    zi_str  out = {0}, flat = {0};

    (void)state;
    for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
    zi_series s = {.name = "m", .x = x, .y = y, .n = N};
    zi_plot   p = {.kind = ZI_PLOT_LINE,
                   .series = &s,
                   .n_series = 1,
                   .y = {.fixed = true, .lo = 0, .hi = 10}};
    expect_ok(zi_plot_svg(&p, &flat));
    y[777777] = 9;
    expect_ok(zi_plot_svg(&p, &out));
    assert_true(out.n < 64 * 1024);
    assert_string_not_equal(zi_str_get(&out), zi_str_get(&flat));
    zi_str_free(&out), zi_str_free(&flat);
    free(x), free(y);
}

/* All four kinds of events, with names that JSON must escape. */
static void
traces(void **state)
{
    zi_str       out = {0};
    zi_trace     t = zi_trace_into(&out);
    zi_trace_arg arg[2] = {{"op", "conv2d", 0}, {"bytes", NULL, 4096}};

    (void)state;
    zi_trace_process(&t, 1, "zico \"train\"");
    zi_trace_thread(&t, 1, 2, "stream 0");
    zi_trace_span(&t, (zi_trace_at){1, 2, 1234567}, 89001, "layer1.conv", "forward", arg,
                  2);
    zi_trace_counter(&t, (zi_trace_at){1, 2, 1300000}, "memory",
                     (zi_trace_arg[]){{"live", NULL, 1e9}, {"leased", NULL, 2e9}}, 2);
    zi_trace_instant(&t, (zi_trace_at){1, 2, 2000000}, "step 1", NULL, 0);
    show("report/trace.json", zi_trace_end(&t), &out);
}

/* The line never passes the screen's edge, whatever there is to say. */
static void
progress_lines(void **state)
{
    zi_progress p = {.what = "resnet50",
                     .done = 120,
                     .total = 500,
                     .elapsed_ns = 60000000000,
                     .detail = "loss 0.1234  512 samples/s  mem 1.2 GiB"};
    zi_str      all = {0}, out = {0};

    (void)state;
    for (unsigned width = 10; width <= 110; width += 20)
        for (int u = 0; u < 2; u++) {
            zi_style style = {.unicode = u, .width = width};
            zi_str_clear(&out);
            expect_ok(zi_progress_line(&p, &style, &out));
            assert_true(zi_text_columns(zi_str_get(&out)) <= width);
            zi_str_fmt(&all, "%s|\n", zi_str_get(&out));
        }
    p.total = 0;
    zi_str_clear(&out);
    expect_ok(zi_progress_line(&p, &modern, &out));
    zi_str_fmt(&all, "%s|\n", zi_str_get(&out));
    zi_str_free(&out);
    show("report/progress.txt", ZICO_OK, &all);
}

/* A row of bars for a curve: as many as there is room for; gaps stay gaps. */
static void
sparks(void **state)
{
    static const double y[] = {5, 4, 3, 2.5, NAN, 2, 1.5, 1.2, 1.1, 1};
    zi_str              out = {0};

    (void)state;
    expect_ok(zi_spark(y, 10, 40, &modern, &out));
    zi_str_add_char(&out, '\n');
    expect_ok(zi_spark(y, 10, 5, &modern, &out));
    zi_str_add_char(&out, '\n');
    expect_ok(zi_spark(y, 10, 40, &ZI_STYLE_PLAIN, &out));
    zi_str_add_char(&out, '\n');
    show("report/spark.txt", ZICO_OK, &out);
}

/* When any one allocation fails the caller hears of it and nothing leaks. */
static void
memory_runs_out(void **state)
{
    int64_t live = zi_alloc_n_live();

    (void)state;
    for (uint64_t n = 1; n < 400; n++) {
        zi_series s[2];
        zi_plot   p = loss_plot(s);
        zi_str    out = {0};
        p.series[0].n > 0 ? (void)(s[0].n = s[1].n = 20) : (void)0;
        p.kind = ZI_PLOT_STACKED;
        zi_alloc_fail_at(n);
        zico_status st = zi_plot_svg(&p, &out);
        if (st >= 0) st = zi_plot_text(&p, &modern, &out);
        bool failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        zi_str_free(&out);
        assert_int_equal(live, zi_alloc_n_live());
        assert_int_equal(failed ? ZICO_E_NOMEM : ZICO_OK, st);
        if (!failed) return;
    }
    fail_msg("never ran to its end");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),         cmocka_unit_test(units),
        cmocka_unit_test(lines),          cmocka_unit_test(stacked),
        cmocka_unit_test(marks),          cmocka_unit_test(empty_plots),
        cmocka_unit_test(no_label_twice), cmocka_unit_test(long_series_keep_their_peaks),
        cmocka_unit_test(traces),         cmocka_unit_test(progress_lines),
        cmocka_unit_test(sparks),         cmocka_unit_test(memory_runs_out),
    };
    return t_main(tests);
}

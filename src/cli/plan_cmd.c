/* plan_cmd.c -- zico plan: memory against step time, for every planner. */
#include "cli/commands.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/size.h"
#include "base/try.h"
#include "base/vec.h"
#include "cli/args.h"
#include "cli/data_words.h"
#include "cli/plan_study.h"
#include "cli/plan_table.h"

#define PLANNERS_MAX 16

typedef struct wishes {
    zi_study_options study;
    const char      *budgets, *planner, *out, *svg, *budget;
    bool             measure, show, json, max_batch;
    uint64_t         batch, threads, steps;
} wishes;

static int
complain(const char *text)
{
    fprintf(stderr, "zico plan: %s\n", text);
    return ZI_EXIT_FAILED;
}

static zico_status
write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f) return ZICO_E_IO;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok ? ZICO_OK : ZICO_E_IO;
}

/* "100%,80%,600M": shares are of keep's peak. */
static zico_status
parse_budgets(const char *text, uint64_t base, zi_plan_answer *a)
{
    char one[64];
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n >= sizeof one || a->n_budgets == ZI_PLAN_BUDGETS_MAX) return ZICO_E_ARG;
        memcpy(one, text, n);
        one[n] = '\0';
        ZI_TRY(zi_size_parse(one, base, &a->budget[a->n_budgets]));
        a->n_budgets++;
        text += n + (text[n] == ',');
    }
    return a->n_budgets ? ZICO_OK : ZICO_E_ARG;
}

/* "all", or names with commas between; NULL: one is unknown, and said so. */
static size_t
parse_planners(const char *text, const zi_planner_ops **ret_ops)
{
    size_t n = 0;
    char   one[64];

    if (!strcmp(text, "all")) {
        for (; zi_planner_at(n) && n < PLANNERS_MAX; n++) ret_ops[n] = zi_planner_at(n);
        return n;
    }
    while (*text && n < PLANNERS_MAX) {
        size_t len = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)len, text);
        ret_ops[n] = zi_planner_find(one);
        if (!ret_ops[n]) {
            fprintf(stderr, "zico plan: there is no planner '%s'; there are:", one);
            for (size_t i = 0; zi_planner_at(i); i++)
                fprintf(stderr, " %s", zi_planner_at(i)->name);
            fprintf(stderr, "\n");
            return 0;
        }
        n++;
        text += len + (text[len] == ',');
    }
    return n;
}

static zico_status
print_answer(const wishes *w, const zi_study *s, const zi_plan_answer *a)
{
    char        text[2][ZI_UNIT_CHARS];
    zi_str      out = {0}, svg = {0};
    zi_style    style = zi_terminal_style(1);
    zico_status st = w->json ? zi_plan_answer_json(s, a, &out)
                             : zi_plan_answer_text(s, a, &style, &out);

    if (st >= 0) fputs(zi_str_get(&out), stdout);
    if (st >= 0 && !w->json && s->tier)
        printf("copies to %s: %s/s out, %s/s in, as measured\n", s->opt.tier,
               zi_unit_format(ZI_UNIT_BYTES, s->cost->out_bytes_per_s, -1, text[0]),
               zi_unit_format(ZI_UNIT_BYTES, s->cost->in_bytes_per_s, -1, text[1]));
    if (st >= 0 && w->svg) {
        st = zi_plan_answer_svg(s, a, &svg);
        if (st >= 0) st = write_file(w->svg, zi_str_get(&svg));
    }
    zi_str_free(&out);
    zi_str_free(&svg);
    return st;
}

/* -- what may be asked ------------------------------------------------------------------------------ */

/* The last plan that fits is the one to print and to draw. */
static zico_status
keep_plan(const wishes *w, const zi_study *s, zi_plan *plan)
{
    zi_style    style = zi_terminal_style(1);
    zi_str      out = {0};
    char       *text = NULL;
    zico_status st = ZICO_OK;

    if (w->show) {
        st = zi_plan_draw(plan, s->graph, s->cost, &style, 48, &out);
        if (st >= 0) fputs(zi_str_get(&out), stdout);
    }
    if (st >= 0 && w->out) {
        st = zi_plan_print(plan, s->graph, &text);
        if (st >= 0) st = write_file(w->out, text);
    }
    zi_str_free(&out);
    zi_free(text);
    return st;
}

/* Planning and executing take their time: one line that says where it is, and how long it may
 * take.  left_ns 0: unknown. */
static void
show_progress(const wishes *w, const char *what, size_t at, size_t all, uint64_t left_ns)
{
    char left[ZI_UNIT_CHARS];

    if (w->json || !isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r%s: %s", w->study.net, what);
    if (all) fprintf(stderr, ", %zu of %zu", at + 1, all);
    if (left_ns)
        fprintf(stderr, ", about %s more",
                zi_unit_format(ZI_UNIT_NS, (double)left_ns, -1, left));
    fprintf(stderr, "\x1b[K");
    fflush(stderr);
}

static void
end_progress(const wishes *w)
{
    if (w->json || !isatty(STDERR_FILENO)) return;
    fputs("\r\x1b[K", stderr);
    fflush(stderr);
}

static atomic_int *stop_asked; /* then what was found so far is printed */

/* Before every step that is executed. */
static bool
go_on(void *user, const zi_study_progress *p)
{
    char text[160], size[ZI_SIZE_TEXT], round[32] = "";

    if (p->round) snprintf(round, sizeof round, " (step %u)", p->round);
    snprintf(text, sizeof text, "%s %s within %s%s",
             p->round ? "executing" : "making ready", p->row->planner,
             zi_size_format(p->row->budget_bytes, size), round);
    show_progress(user, text, p->at, p->n, p->left_ns);
    return !atomic_load(stop_asked);
}

/* What every planner says to every budget; ret_plans: one per row, NULL where none fits. */
static zico_status
plan_all(const wishes *w, zi_study *s, const zi_planner_ops **ops, size_t n_ops,
         zi_plan_answer *a, zi_plan **ret_plans, zi_train_diag *diag)
{
    const size_t n = a->n_budgets * n_ops;

    for (size_t i = 0; i < n && !atomic_load(stop_asked); i++) {
        zi_study_row row;
        show_progress(w, "planning", i, n, 0);
        ZI_TRY(zi_study_plan(s, ops[i % n_ops], a->budget[i / n_ops], diag, &row,
                             &ret_plans[i]));
        ZI_TRY(zi_vec_push(&a->rows, row));
    }
    return ZICO_OK;
}

static zico_status
ask_all(const wishes *w, zi_study *s, const zi_planner_ops **ops, size_t n_ops,
        zi_plan_answer *a, zi_train_diag *diag)
{
    zi_plan      **plans = zi_calloc(a->n_budgets * n_ops + 1, sizeof *plans);
    zi_study_watch watch = {.go_on = go_on, .user = (void *)(uintptr_t)w};
    zico_status    st = ZICO_E_NOMEM;
    size_t         last = SIZE_MAX;

    if (plans) st = plan_all(w, s, ops, n_ops, a, plans, diag);
    if (st >= 0 && s->opt.n_steps)
        st = zi_study_measure(s, a->rows.at, plans, a->rows.n, &watch, diag);
    end_progress(w);
    for (size_t i = 0; plans && i < a->rows.n; i++)
        if (plans[i]) last = i;
    if (st >= 0 && last != SIZE_MAX) st = keep_plan(w, s, plans[last]);
    for (size_t i = 0; plans && i < a->n_budgets * n_ops; i++) zi_plan_free(plans[i]);
    zi_free(plans);
    return st;
}

static int
study(const wishes *w, const zi_planner_ops **ops, size_t n_ops)
{
    zi_study       s;
    zi_train_diag  diag = {0};
    zi_plan_answer a = {0};

    show_progress(w, w->measure ? "measuring keep" : "reading the network", 0, 0, 0);
    zico_status st = zi_study_open(&w->study, &diag, &s);
    end_progress(w);
    if (st < 0) return complain(diag.text);
    const char *budgets = w->budget ? w->budget : w->budgets;
    st = parse_budgets(budgets, s.keep_bytes, &a);
    if (st < 0) {
        zi_study_close(&s);
        return complain("--budgets wants sizes or shares of keep's peak: 100%,80%,600M");
    }
    stop_asked = zi_cli_catch_stop();
    st = ask_all(w, &s, ops, n_ops, &a, &diag);
    if (st >= 0) st = print_answer(w, &s, &a);
    bool any = false;
    for (size_t i = 0; i < a.rows.n; i++) any |= a.rows.at[i].fits;
    zi_vec_free(&a.rows);
    zi_study_close(&s);
    if (st < 0) return complain(*diag.text ? diag.text : zico_status_text(st));
    if (atomic_load(stop_asked))
        return complain("stopped: this is what was found so far");
    return any ? ZI_EXIT_OK : ZI_EXIT_FAILED;
}

static int
largest_batch(const wishes *w, const zi_planner_ops **ops, size_t n_ops)
{
    static const zi_column col[] = {{"planner", "planner", ZI_UNIT_TEXT, 0},
                                    {"largest batch", "batch", ZI_UNIT_NUMBER, 0}};
    zi_train_diag          diag = {0};
    zi_table              *t;
    zi_str                 out = {0};
    zi_style               style = zi_terminal_style(1);
    uint64_t               budget = 0;

    if (!w->budget || zi_size_parse(w->budget, 0, &budget) < 0)
        return complain("--max-batch wants --budget BYTES");
    if (zi_table_new(col, 2, &t) < 0) return complain("no memory");
    zico_status st = ZICO_OK;
    for (size_t i = 0; i < n_ops && st >= 0; i++) {
        int64_t batch = 0;
        show_progress(w, ops[i]->name, i, n_ops, 0);
        st = zi_study_max_batch(&w->study, ops[i], budget, &diag, &batch);
        zi_table_text(t, ops[i]->name);
        zi_table_u64(t, (uint64_t)batch);
    }
    end_progress(w);
    if (st >= 0 && w->json) {
        zi_json j = zi_json_into(&out);
        st = zi_table_json(t, &j);
        zi_str_add_char(&out, '\n');
    } else if (st >= 0) {
        st = zi_table_print(t, &style, &out);
    }
    if (st >= 0) fputs(zi_str_get(&out), stdout);
    zi_str_free(&out);
    zi_table_free(t);
    return st < 0 ? complain(*diag.text ? diag.text : zico_status_text(st)) : ZI_EXIT_OK;
}

int
zi_cmd_plan(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    char        tier[4200];
    wishes      w = {.budgets = "100%,90%,80%,70%,60%,50%,40%,30%,20%",
                     .planner = "all",
                     .steps = 5};
    snprintf(tier, sizeof tier, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    w.study.tier = tier;
    const zi_arg arg[] = {
        {"batch", ZI_ARG_U64, &w.batch, "N", "samples per step (64)"},
        {"budgets", ZI_ARG_TEXT, &w.budgets, "LIST",
         "sizes, or shares of keep's peak (100% to 20% by tenths)"},
        {"budget", ZI_ARG_TEXT, &w.budget, "BYTES", "one of them: 600M, 40%"},
        {"planner", ZI_ARG_TEXT, &w.planner, "LIST", "names with commas between (all)"},
        {"tier", ZI_ARG_TEXT, &w.study.tier, "WHERE",
         "for what is moved out: file:DIR, ram or none (a file in $TMPDIR)"},
        {"measure", ZI_ARG_FLAG, &w.measure, NULL, "execute every plan, too"},
        {"steps", ZI_ARG_U64, &w.steps, "N",
         "measured steps per plan at most; two that agree are enough (5)"},
        {"threads", ZI_ARG_U64, &w.threads, "N", "compute threads (all cores)"},
        {"max-batch", ZI_ARG_FLAG, &w.max_batch, NULL,
         "the largest batch within --budget instead"},
        {"show", ZI_ARG_FLAG, &w.show, NULL, "draw the last plan that fits"},
        {"out", ZI_ARG_TEXT, &w.out, "FILE", "write the last plan that fits"},
        {"svg", ZI_ARG_TEXT, &w.svg, "FILE", "write the curves as a picture"},
        {"json", ZI_ARG_FLAG, &w.json, NULL, "for programs"},
    };
    const zi_args args = {
        .usage = "plan NET [OPTION...]",
        .about =
            "Shows how little memory one step of NET can do with, and what that costs:\n"
            "for every planner and budget the peak and the step time, foreseen by the\n"
            "simulator and, with --measure, executed.  Ctrl-C shows what was found so "
            "far.",
        .arg = arg,
        .n_args = sizeof arg / sizeof arg[0],
        .rest_least = 1,
        .rest_most = 1};
    const zi_planner_ops *ops[PLANNERS_MAX];

    zico_status st = zi_args_parse(&args, argc, argv, &w.study.net, NULL);
    if (st != ZICO_OK) return zi_args_exit(st);
    size_t n_ops = parse_planners(w.planner, ops);
    if (n_ops == 0) return ZI_EXIT_USAGE;
    w.study.batch = (int64_t)w.batch;
    w.study.n_threads = (unsigned)w.threads;
    w.study.n_steps = w.measure ? (unsigned)w.steps : 0;
    w.study.settle = true;
    if (!strcmp(w.study.tier, "none")) w.study.tier = NULL;
    return w.max_batch ? largest_batch(&w, ops, n_ops) : study(&w, ops, n_ops);
}

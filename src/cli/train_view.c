/* train_view.c -- shows a training run. */
#include "cli/train_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/size.h"
#include "cli/data_words.h"

#define SCREEN_NS 100000000ull  /* a terminal's line at most ten times a second */
#define PLAIN_NS  5000000000ull /* plain lines at most every five seconds       */
#define RATE_NS   2000000000ull
#define NARROW    92u /* columns */

void
zi_train_view_begin(zi_train_view *v)
{
    v->screen = !v->json && !v->quiet && isatty(STDERR_FILENO);
    v->style = zi_terminal_style(v->screen ? STDERR_FILENO : STDOUT_FILENO);
    v->curve_every = 1;
    v->smooth = NAN;
}

/* ---- what is remembered ------------------------------------------------------------------ */

/* Halve the curve when it is full: each value then stands for twice as many steps. */
static void
add_to_curve(zi_train_view *v, double loss)
{
    v->curve_sum += loss;
    if (++v->curve_part < v->curve_every) return;
    if (v->n_curve == ZI_TRAIN_VIEW_CURVE) {
        for (uint64_t i = 0; i < v->n_curve / 2; i++)
            v->curve[i] = (v->curve[2 * i] + v->curve[2 * i + 1]) / 2;
        v->n_curve /= 2;
        v->curve_every *= 2;
        return; /* this value goes on growing */
    }
    v->curve[v->n_curve++] = v->curve_sum / (double)v->curve_part;
    v->curve_sum = 0;
    v->curve_part = 0;
}

static void
remember(zi_train_view *v, const zi_run_event *ev)
{
    v->smooth = isnan(v->smooth) ? ev->loss : 0.9 * v->smooth + 0.1 * ev->loss;
    add_to_curve(v, ev->loss);
    if (v->rate_ns == 0) v->rate_ns = ev->begin_ns, v->rate_step = ev->first - 1;
    uint64_t passed = ev->now_ns - v->rate_ns;
    if (passed == 0 || (v->rate > 0 && passed < RATE_NS / 4 && ev->step < ev->last))
        return;
    v->rate =
        (double)(ev->step - v->rate_step) * (double)ev->batch / ((double)passed / 1e9);
    if (passed >= RATE_NS) v->rate_ns = ev->now_ns, v->rate_step = ev->step;
}

/* ---- text --------------------------------------------------------------------------------- */

/* "27.1/80.5 MiB", or with two units where they differ. */
static void
add_memory(zi_str *out, zi_engine *e)
{
    zi_engine_memory m;
    char             now[ZI_SIZE_TEXT], peak[ZI_SIZE_TEXT];

    zi_engine_read_memory(e, &m);
    if (m.peak_bytes == 0) return;
    zi_size_format(m.now_bytes, now);
    zi_size_format(m.peak_bytes, peak);
    char *unit = strchr(now, ' '), *peak_unit = strchr(peak, ' ');
    if (unit && peak_unit && strcmp(unit, peak_unit) == 0) *unit = '\0';
    zi_str_fmt(out, "%s/%s", now, peak);
}

/* On a narrow screen fewer words, so that the bar and the time left find room. */
static void
add_detail(zi_str *out, const zi_train_view *v, const zi_run_event *ev)
{
    const bool narrow = v->screen && v->style.width < NARROW;
    char       text[ZI_UNIT_CHARS];

    zi_str_fmt(out, "loss %.4f  %s%s", v->smooth,
               zi_unit_format(ZI_UNIT_NUMBER, v->rate, v->rate < 100, text),
               narrow ? "/s  " : " samples/s  mem ");
    add_memory(out, ev->engine);
}

static void
show_line(zi_train_view *v, const zi_run_event *ev)
{
    zi_str      line = {0}, detail = {0};
    char        name[64];
    zi_progress p = {.done = ev->step,
                     .total = ev->last,
                     .elapsed_ns = ev->now_ns - ev->begin_ns,
                     .resumed_at = ev->first - 1};

    add_detail(&detail, v, ev);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(v->net, ":"), v->net);
    p.what = name;
    p.detail = zi_str_get(&detail);
    zi_style style = v->style;
    if (!v->screen) style = (zi_style){.width = 200};
    if (zi_progress_line(&p, &style, &line) >= 0) {
        if (v->screen)
            fprintf(stderr, "\r%s\x1b[K", zi_str_get(&line));
        else
            printf("%s\n", zi_str_get(&line));
        fflush(v->screen ? stderr : stdout);
        v->dirty = v->screen;
    }
    zi_str_free(&line);
    zi_str_free(&detail);
    v->shown_ns = ev->now_ns;
    v->shown_step = ev->step;
}

static void
end_line(zi_train_view *v)
{
    if (v->dirty) fputc('\n', stderr);
    v->dirty = false;
}

static void
show_step(zi_train_view *v, const zi_run_event *ev)
{
    uint64_t pause = v->screen ? SCREEN_NS : PLAIN_NS;
    bool     edge = ev->step == ev->first || ev->step == ev->last;

    if (v->quiet) return;
    if (edge || ev->now_ns - v->shown_ns >= pause) show_line(v, ev);
}

/* "plan capuchin: 600 MiB of 610 MiB, 12 nodes again, 240 MiB out a step, step 310 ms" */
static void
show_plan(const zi_pilot_info *p)
{
    char text[5][ZI_UNIT_CHARS];

    if (p->budget_bytes == 0) return;
    printf("plan %s: %s of %s", p->planner,
           zi_unit_format(ZI_UNIT_BYTES, (double)p->peak_bytes, -1, text[0]),
           zi_unit_format(ZI_UNIT_BYTES, (double)p->budget_bytes, -1, text[1]));
    if (p->n_redo) printf(", %u nodes run again", p->n_redo);
    if (p->out_bytes)
        printf(", %s moved out a step",
               zi_unit_format(ZI_UNIT_BYTES, (double)p->out_bytes, -1, text[2]));
    if (p->foreseen_ns)
        printf(", %s a step foreseen",
               zi_unit_format(ZI_UNIT_NS, (double)p->foreseen_ns, -1, text[3]));
    if (p->phase == ZI_PILOT_MEASURE)
        printf(", until a step is measured");
    else if (p->note[0])
        printf(" (%s)", p->note);
    printf("\n");
    if (p->extra_memory)
        printf("what is moved out stays in memory (--tier ram): it comes on top of the "
               "budget\n");
}

static void
show_event(zi_train_view *v, const zi_run_event *ev)
{
    char text[2][ZI_UNIT_CHARS];

    if (v->quiet && ev->kind != ZI_RUN_SCORE) return;
    if (ev->kind != ZI_RUN_READY) end_line(v);
    switch (ev->kind) {
    case ZI_RUN_READY:
        printf("%s: %s parameters, batch %lld, %s samples, steps %llu to %llu\n", v->net,
               zi_unit_format(ZI_UNIT_NUMBER, (double)ev->n_params, 0, text[0]),
               (long long)ev->batch,
               zi_unit_format(ZI_UNIT_NUMBER, (double)ev->n_samples, 0, text[1]),
               (unsigned long long)ev->first, (unsigned long long)ev->last);
        show_plan(ev->plan);
        break;
    case ZI_RUN_PLAN:
        printf("step %llu: ", (unsigned long long)ev->step);
        show_plan(ev->plan);
        break;
    case ZI_RUN_SAVED:
        printf("step %llu: saved %s\n", (unsigned long long)ev->step, ev->path);
        break;
    case ZI_RUN_SEARCH:
        printf("step %llu: the loss is not finite; looking for the tensor that went bad "
               "first\n",
               (unsigned long long)ev->step);
        break;
    case ZI_RUN_SCORE:
    case ZI_RUN_STEP:
        break;
    }
    fflush(stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void
key_u64(zi_json *j, const char *key, uint64_t v)
{
    zi_json_key(j, key), zi_json_u64(j, v);
}

static void
key_f64(zi_json *j, const char *key, double v)
{
    zi_json_key(j, key), zi_json_f64(j, v);
}

static void
put_json(zi_json *j, zi_str *out)
{
    zi_json_end(j);
    if (zi_json_status(j) >= 0) printf("%s\n", zi_str_get(out));
    fflush(stdout);
    zi_str_free(out);
}

static void
json_score(zi_json *j, const zi_score *s)
{
    key_u64(j, "samples", s->n_samples);
    if (s->n_labels) key_f64(j, "accuracy", s->accuracy);
    key_f64(j, "loss", s->loss);
}

static void
json_step(zi_json *j, const zi_train_view *v, const zi_run_event *ev)
{
    zi_engine_memory m;

    zi_engine_read_memory(ev->engine, &m);
    key_f64(j, "loss", ev->loss);
    key_f64(j, "lr", ev->lr);
    key_u64(j, "begin_ns", ev->result->begin_ns);
    key_u64(j, "device_ns", ev->result->ns);
    key_u64(j, "stall_ns", ev->result->stall_ns);
    zi_json_key(j, "passive"), zi_json_bool(j, ev->result->passive);
    key_f64(j, "samples_per_s", v->rate);
    key_u64(j, "memory_bytes", m.now_bytes);
    key_u64(j, "peak_bytes", m.peak_bytes);
}

static void
json_plan(zi_json *j, const zi_pilot_info *p)
{
    static const char *const phase[] = {"plain", "measure", "guided", "passive"};

    zi_json_key(j, "planner"), zi_json_str(j, p->planner);
    zi_json_key(j, "phase"), zi_json_str(j, phase[p->phase]);
    key_u64(j, "budget_bytes", p->budget_bytes);
    key_u64(j, "plan_peak_bytes", p->peak_bytes);
    key_u64(j, "foreseen_ns", p->foreseen_ns);
    key_u64(j, "moved_out_bytes", p->out_bytes);
    key_u64(j, "n_redo", p->n_redo);
    key_u64(j, "plan_ns", p->plan_ns);
    key_u64(j, "n_feedback", p->n_feedback);
    zi_json_key(j, "note"), zi_json_str(j, p->note[0] ? p->note : NULL);
}

static void
json_event(zi_train_view *v, const zi_run_event *ev)
{
    static const char *const kind[] = {"ready", "step",   "plan",
                                       "saved", "search", "score"};
    zi_str                   out = {0};
    zi_json                  j = zi_json_into(&out);

    zi_json_object(&j);
    zi_json_key(&j, "event"), zi_json_str(&j, kind[ev->kind]);
    key_u64(&j, "step", ev->step);
    if (ev->kind == ZI_RUN_READY) {
        zi_json_key(&j, "net"), zi_json_str(&j, v->net);
        key_u64(&j, "first", ev->first);
        key_u64(&j, "last", ev->last);
        key_u64(&j, "batch", (uint64_t)ev->batch);
        key_u64(&j, "parameters", ev->n_params);
        key_u64(&j, "epoch_samples", ev->n_samples);
    }
    if (ev->kind == ZI_RUN_STEP) json_step(&j, v, ev);
    if (ev->plan) json_plan(&j, ev->plan);
    if (ev->kind == ZI_RUN_SAVED) zi_json_key(&j, "path"), zi_json_str(&j, ev->path);
    if (ev->kind == ZI_RUN_SCORE) json_score(&j, ev->score);
    put_json(&j, &out);
}

void
zi_train_view_event(void *view, const zi_run_event *ev)
{
    zi_train_view *v = view;

    if (ev->kind == ZI_RUN_STEP) remember(v, ev);
    if (v->json)
        json_event(v, ev);
    else if (ev->kind == ZI_RUN_STEP)
        show_step(v, ev);
    else
        show_event(v, ev);
}

/* ---- the end ----------------------------------------------------------------------------------- */

static double
rate_of(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

/* What the plan has cost: bytes moved, how fast, and how long computation stood for them. */
static void
add_moved(zi_str *out, const zi_run_result *r)
{
    char text[5][ZI_UNIT_CHARS];

    if (r->plan.budget_bytes == 0 || r->plan.phase == ZI_PILOT_PLAIN) return;
    zi_str_fmt(out, "plan %s within %s", r->plan.planner,
               zi_unit_format(ZI_UNIT_BYTES, (double)r->plan.budget_bytes, -1, text[0]));
    if (r->tier.out_bytes + r->tier.in_bytes)
        zi_str_fmt(out, ": moved %s out at %s/s, %s in at %s/s",
                   zi_unit_format(ZI_UNIT_BYTES, (double)r->tier.out_bytes, -1, text[1]),
                   zi_unit_format(ZI_UNIT_BYTES,
                                  rate_of(r->tier.out_bytes, r->tier.out_ns), -1,
                                  text[2]),
                   zi_unit_format(ZI_UNIT_BYTES, (double)r->tier.in_bytes, -1, text[3]),
                   zi_unit_format(ZI_UNIT_BYTES, rate_of(r->tier.in_bytes, r->tier.in_ns),
                                  -1, text[4]));
    zi_str_fmt(out, ", stood %s for copies\n",
               zi_unit_format(ZI_UNIT_NS, (double)r->stall_ns, -1, text[0]));
}

static void
json_end(const zi_run_result *r, zico_status st)
{
    zi_str  out = {0};
    zi_json j = zi_json_into(&out);
    double  s = (double)r->train_ns / 1e9;

    zi_json_object(&j);
    zi_json_key(&j, "event"), zi_json_str(&j, "end");
    zi_json_key(&j, "status"), zi_json_str(&j, zico_status_name(st));
    key_u64(&j, "step", r->done);
    zi_json_key(&j, "stopped"), zi_json_bool(&j, r->stopped);
    key_f64(&j, "loss", r->loss);
    key_u64(&j, "train_ns", r->train_ns);
    key_f64(&j, "samples_per_s", s > 0 ? (double)r->n_samples / s : 0);
    key_u64(&j, "peak_bytes", r->memory.peak_bytes);
    if (r->plan.budget_bytes) json_plan(&j, &r->plan);
    key_u64(&j, "stall_ns", r->stall_ns);
    key_u64(&j, "tier_out_bytes", r->tier.out_bytes);
    key_u64(&j, "tier_in_bytes", r->tier.in_bytes);
    key_f64(&j, "tier_out_bytes_per_s", rate_of(r->tier.out_bytes, r->tier.out_ns));
    key_f64(&j, "tier_in_bytes_per_s", rate_of(r->tier.in_bytes, r->tier.in_ns));
    key_u64(&j, "batches", r->n_batches);
    key_u64(&j, "batches_waited_for", r->n_data_waits);
    if (r->scored) {
        zi_json_key(&j, "score"), zi_json_object(&j);
        json_score(&j, &r->score);
        zi_json_end(&j);
    }
    zi_json_key(&j, "saved"), zi_json_str(&j, r->saved[0] ? r->saved : NULL);
    if (r->bad_step) {
        key_u64(&j, "bad_step", r->bad_step);
        zi_json_key(&j, "bad_tensor"),
            zi_json_str(&j, r->bad_tensor[0] ? r->bad_tensor : NULL);
    }
    put_json(&j, &out);
}

void
zi_train_view_end(zi_train_view *v, const zi_run_result *r, zico_status st)
{
    zi_str out = {0};
    char   text[3][ZI_UNIT_CHARS];
    double s = (double)r->train_ns / 1e9;

    end_line(v);
    if (v->json) {
        json_end(r, st);
        return;
    }
    if (st < 0 || r->done < r->first) return;
    uint64_t made = r->done - r->first + 1;
    zi_str_fmt(&out, "%llu steps in %s, %s samples/s, peak %s\n",
               (unsigned long long)made,
               zi_unit_format(ZI_UNIT_NS, (double)r->train_ns, -1, text[0]),
               zi_unit_format(ZI_UNIT_NUMBER, s > 0 ? (double)r->n_samples / s : 0, 1,
                              text[1]),
               zi_unit_format(ZI_UNIT_BYTES, (double)r->memory.peak_bytes, -1, text[2]));
    add_moved(&out, r);
    zi_str_fmt(&out, "loss %.4f to %.4f  ", r->first_loss, r->loss);
    zico_status drawn = zi_spark(v->curve, v->n_curve, 40, &v->style, &out);
    zi_str_add_char(&out, '\n');
    if (r->scored && r->score.n_labels)
        zi_str_fmt(&out, "held samples: accuracy %s, loss %.4f (%llu samples)\n",
                   zi_unit_format(ZI_UNIT_PERCENT, r->score.accuracy, 1, text[0]),
                   r->score.loss, (unsigned long long)r->score.n_samples);
    else if (r->scored)
        zi_str_fmt(&out, "held samples: loss %.4f (%llu samples)\n", r->score.loss,
                   (unsigned long long)r->score.n_samples);
    if (drawn >= 0) fputs(zi_str_get(&out), stdout);
    fflush(stdout);
    zi_str_free(&out);
}

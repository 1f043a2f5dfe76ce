/* perfetto.c -- the trace event format that Perfetto and chrome://tracing open.
 *
 * One JSON object {"traceEvents": [...]}; times are microseconds, written with the three
 * decimals that keep our nanoseconds exact.
 */
#include "report/report.h"

#include "base/check.h"

static void
key_text(zi_json *j, const char *key, const char *text)
{
    zi_json_key(j, key), zi_json_str(j, text);
}

/* ns as microseconds; exact below 2^53 ns, about 104 days */
static void
key_us(zi_json *j, const char *key, uint64_t ns)
{
    zi_json_key(j, key), zi_json_f64(j, (double)ns / 1000.0);
}

static void
begin_event(zi_json *j, const char *phase, const char *name, uint32_t process,
            uint32_t thread)
{
    zi_json_object(j);
    key_text(j, "ph", phase);
    key_text(j, "name", name);
    zi_json_key(j, "pid"), zi_json_u64(j, process);
    zi_json_key(j, "tid"), zi_json_u64(j, thread);
}

static void
end_event(zi_json *j, const zi_trace_arg *args, size_t n_args)
{
    if (n_args > 0) {
        zi_json_key(j, "args"), zi_json_object(j);
        for (size_t i = 0; i < n_args; i++) {
            zi_json_key(j, args[i].name);
            if (args[i].text)
                zi_json_str(j, args[i].text);
            else
                zi_json_f64(j, args[i].number);
        }
        zi_json_end(j);
    }
    zi_json_end(j);
    zi_str_add_char(j->out, '\n'); /* blank in JSON; one event per line diffs well */
}

zi_trace
zi_trace_into(zi_str *out)
{
    zi_trace t = {zi_json_into(out)};

    zi_json_object(&t.j);
    key_text(&t.j, "displayTimeUnit", "ms");
    zi_json_key(&t.j, "traceEvents"), zi_json_array(&t.j);
    return t;
}

static void
name_row(zi_trace *t, const char *what, uint32_t process, uint32_t thread,
         const char *name)
{
    begin_event(&t->j, "M", what, process, thread);
    end_event(&t->j, &(zi_trace_arg){.name = "name", .text = name}, 1);
}

void
zi_trace_process(zi_trace *t, uint32_t process, const char *name)
{
    name_row(t, "process_name", process, 0, name);
}

void
zi_trace_thread(zi_trace *t, uint32_t process, uint32_t thread, const char *name)
{
    name_row(t, "thread_name", process, thread, name);
}

void
zi_trace_span(zi_trace *t, zi_trace_at at, uint64_t length_ns, const char *name,
              const char *category, const zi_trace_arg *args, size_t n_args)
{
    begin_event(&t->j, "X", name, at.process, at.thread);
    if (category) key_text(&t->j, "cat", category);
    key_us(&t->j, "ts", at.at_ns);
    key_us(&t->j, "dur", length_ns);
    end_event(&t->j, args, n_args);
}

void
zi_trace_instant(zi_trace *t, zi_trace_at at, const char *name, const zi_trace_arg *args,
                 size_t n_args)
{
    begin_event(&t->j, "i", name, at.process, at.thread);
    key_us(&t->j, "ts", at.at_ns);
    key_text(&t->j, "s", "t"); /* drawn across its thread's row */
    end_event(&t->j, args, n_args);
}

void
zi_trace_counter(zi_trace *t, zi_trace_at at, const char *name,
                 const zi_trace_arg *values, size_t n_values)
{
    zi_assert(n_values > 0);
    begin_event(&t->j, "C", name, at.process, at.thread);
    key_us(&t->j, "ts", at.at_ns);
    end_event(&t->j, values, n_values);
}

zico_status
zi_trace_end(zi_trace *t)
{
    zi_json_end(&t->j);
    zi_json_end(&t->j);
    return zi_json_status(&t->j);
}

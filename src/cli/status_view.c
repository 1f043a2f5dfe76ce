/* status_view.c -- a picture of a broker: a head, a table, and one line for each that waits. */
#include "cli/status_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "base/size.h"
#include "base/try.h"
#include "policy/policy.h"

static const char *
state_name(unsigned state)
{
    static const char *const name[] = {
        [ZI_JOB_IDLE] = "idle",           [ZI_JOB_ASKING] = "asking",
        [ZI_JOB_RUNNING] = "in step",     [ZI_JOB_PAUSED] = "paused",
        [ZI_JOB_SUSPENDED] = "suspended", [ZI_JOB_LEAVING_MEMORY] = "moving out",
        [ZI_JOB_FREE] = "no steps",       [ZI_JOB_GONE] = "gone",
    };
    return state < sizeof name / sizeof name[0] && name[state] ? name[state] : "?";
}

static const char *
job_name(const zi_picture *p, uint32_t job)
{
    for (size_t i = 0; i < p->n_jobs; i++)
        if (p->job[i].job == job) return p->job[i].name;
    return NULL;
}

static void
add_head(const zi_picture *p, zi_str *out)
{
    const zi_msg_status *d = &p->device;
    char a[ZI_SIZE_TEXT], b[ZI_SIZE_TEXT], c[ZI_SIZE_TEXT], e[ZI_SIZE_TEXT];

    zi_str_fmt(out, "%s, policy %s, broker %u, %u cores, regions of %s\n", d->device,
               d->policy, d->broker_pid, d->n_cores, zi_size_format(d->region_bytes, a));
    zi_str_fmt(out, "budget %s: leased %s, private %s, free %s",
               zi_size_format(d->budget_bytes, a), zi_size_format(d->leased_bytes, b),
               zi_size_format(d->private_bytes, c),
               zi_size_format(d->budget_bytes -
                                  (d->leased_bytes + d->private_bytes <= d->budget_bytes
                                       ? d->leased_bytes + d->private_bytes
                                       : d->budget_bytes),
                              e));
    zi_str_fmt(out, "; peak %s, in the kernel's count %s\n",
               zi_size_format(d->peak_bytes, a),
               zi_size_format(d->kernel_bytes + d->private_bytes, b));
    if (d->policy_says[0]) zi_str_fmt(out, "%s: %s\n", d->policy, d->policy_says);
    if (d->target_bytes != d->budget_bytes)
        zi_str_fmt(out, "the budget is on its way to %s\n",
                   zi_size_format(d->target_bytes, a));
    if (d->n_absent > 0)
        zi_str_fmt(out,
                   "restarted: nothing is granted until %u more jobs have reported\n",
                   d->n_absent);
    if (d->n_over > 0)
        zi_str_fmt(out, "OVER BUDGET: found so %llu times\n",
                   (unsigned long long)d->n_over);
}

static bool
has_lanes(const zi_picture *p)
{
    for (size_t i = 0; i < p->n_jobs; i++)
        if (p->job[i].lane >= 0) return true;
    return false;
}

static bool
in_slices(const zi_picture *p)
{
    return strncmp(p->device.policy, "gandiva", 7) == 0;
}

/* Salus: its lane; gandiva: whether the slice is its own, or the next one. */
static const char *
lane_name(const zi_picture *p, const zi_msg_status_job *j, char buf[24])
{
    if (j->lane < 0) return "-";
    if (in_slices(p)) return j->lane == 0 ? "now" : "next";
    snprintf(buf, 24, "%lld", (long long)j->lane);
    return buf;
}

static zico_status
add_table(const zi_picture *p, const zi_style *style, zi_str *out)
{
    const zi_column col[] = {
        {"job", NULL, ZI_UNIT_TEXT, 0},
        {"pid", NULL, ZI_UNIT_NUMBER, 0},
        {"state", NULL, ZI_UNIT_TEXT, 0},
        {"fixed", NULL, ZI_UNIT_BYTES, 0},
        {"step", NULL, ZI_UNIT_BYTES, 0},
        {"private", NULL, ZI_UNIT_BYTES, 0},
        {"peak", NULL, ZI_UNIT_BYTES, 0},
        {"claim", NULL, ZI_UNIT_BYTES, 0},
        {"cores", NULL, ZI_UNIT_NUMBER, 0},
        {"steps", NULL, ZI_UNIT_NUMBER, 0},
        {"step time", NULL, ZI_UNIT_NS, 0},
        {"waited", NULL, ZI_UNIT_NS, 0},
        {in_slices(p) ? "slice" : "lane", NULL, ZI_UNIT_TEXT, 0},
    };
    const bool lanes = has_lanes(p);
    zi_table  *t;

    ZI_TRY(zi_table_new(col, sizeof col / sizeof col[0] - !lanes, &t));
    for (size_t i = 0; i < p->n_jobs; i++) {
        const zi_msg_status_job *j = &p->job[i];
        char                     lane[24];
        zi_table_text(t, j->name), zi_table_u64(t, j->pid);
        zi_table_text(t, state_name(j->state)), zi_table_u64(t, j->fixed_bytes);
        zi_table_u64(t, j->step_bytes), zi_table_u64(t, j->private_bytes);
        zi_table_u64(t, j->peak_bytes), zi_table_u64(t, j->claim_bytes);
        zi_table_u64(t, j->cores), zi_table_u64(t, j->step_no);
        zi_table_u64(t, j->step_ns), zi_table_u64(t, j->waited_ns);
        if (lanes) zi_table_text(t, lane_name(p, j, lane));
    }
    zico_status st = zi_table_print(t, style, out);
    zi_table_free(t);
    return st;
}

/* "b waits for 64 MiB since 1.2 s: others hold the memory it asks for (a), 2nd in the queue" */
static void
add_wait(const zi_picture *p, const zi_msg_status_job *j, zi_str *out)
{
    char        asked[ZI_SIZE_TEXT], since[ZI_UNIT_CHARS];
    const char *behind = job_name(p, j->behind_job);

    zi_str_fmt(out, "%s waits", j->name);
    if (j->asked_bytes > 0)
        zi_str_fmt(out, " for %s", zi_size_format(j->asked_bytes, asked));
    zi_str_fmt(out, " since %s: %s",
               zi_unit_format(ZI_UNIT_NS, (double)j->waiting_ns, -1, since),
               zi_reason_text((zi_reason)j->reason));
    if (behind) zi_str_fmt(out, " (%s)", behind);
    if (j->position > 0) zi_str_fmt(out, "; %u requests in front of it", j->position);
    zi_str_add(out, "\n");
}

zico_status
zi_status_text(const zi_picture *p, const zi_style *style, zi_str *out)
{
    add_head(p, out);
    if (p->n_jobs == 0) {
        zi_str_add(out, "no jobs\n");
        return zi_str_status(out);
    }
    zi_str_add(out, "\n");
    ZI_TRY(add_table(p, style, out));
    for (size_t i = 0; i < p->n_jobs; i++)
        if (p->job[i].reason != ZI_REASON_NONE) add_wait(p, &p->job[i], out);
    for (size_t i = 0; i < p->n_jobs; i++)
        if (p->job[i].note[0])
            zi_str_fmt(out, "%s: %s\n", p->job[i].name, p->job[i].note);
    return zi_str_status(out);
}

/* -- JSON: every field of the messages, by their names ------------------------------------- */

static void
key_u64(zi_json *j, const char *key, uint64_t v)
{
    zi_json_key(j, key);
    zi_json_u64(j, v);
}

static void
key_i64(zi_json *j, const char *key, int64_t v)
{
    zi_json_key(j, key);
    zi_json_i64(j, v);
}

static void
key_text(zi_json *j, const char *key, const char *text)
{
    zi_json_key(j, key);
    zi_json_str(j, text);
}

#define MESSAGE(lower, UPPER, number, from, text)                                        \
    static void json_##lower(zi_json *j, const zi_msg_##lower *m)                        \
    {                                                                                    \
        (void)j, (void)m;
#define U8(name, least, most, text)  key_u64(j, #name, m->name);
#define U32(name, least, most, text) key_u64(j, #name, m->name);
#define U64(name, least, most, text) key_u64(j, #name, m->name);
#define I64(name, least, most, text) key_i64(j, #name, m->name);
#define STR(name, max, text)         key_text(j, #name, m->name);
#define RUNS(name, max, text)
#define POINTS(name, max, text)
#define END(lower) }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "wire/messages.def"
#pragma GCC diagnostic pop

zico_status
zi_status_json(const zi_picture *p, zi_str *out)
{
    zi_json j = zi_json_into(out);

    zi_json_object(&j);
    json_status(&j, &p->device);
    zi_json_key(&j, "jobs");
    zi_json_array(&j);
    for (size_t i = 0; i < p->n_jobs; i++) {
        zi_json_object(&j);
        json_status_job(&j, &p->job[i]);
        key_text(&j, "state_name", state_name(p->job[i].state));
        key_text(&j, "reason_name", zi_reason_name((zi_reason)p->job[i].reason));
        zi_json_end(&j);
    }
    zi_json_end(&j);
    zi_json_end(&j);
    ZI_TRY(zi_json_status(&j));
    zi_str_add(out, "\n");
    return zi_str_status(out);
}

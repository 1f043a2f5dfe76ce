/* relay.c -- several policies in turn, some seconds each, over the same jobs.
 *
 * ORIGIN   zico: for measuring policies against each other.  A machine drifts by more than two
 *          policies differ; side by side in one run, minutes become seconds apart, and
 *          first steps are made once.
 * WE DO    "relay:temporal+spatial+zico/6", or "relay:t+sp+z/6": six seconds each.  Leg k of n decides while
 *          (now / 6 s) % n == k, so whoever measures can tell from the clock.  At the end of
 *          a leg nobody begins; when all steps have ended, and SETTLE has passed, the next one takes
 *          over.  "relay:t+z/6@3:8": the two have turns 3 and 4 of 8 (counted from 0), and in the others
 *          nobody begins, as then the jobs of another broker, with another budget, have the machine.
 * LEARNING "relay:t+z/6@3:8~60:180": before all turns, for 60 s from the first event on, the first policy that
 *          learns (it has an on_break) decides; then nobody begins for 180 s, while other brokers' policies
 *          learn.  Without it six seconds now and then show a policy's first two minutes for an hour.
 * CLOCKS   A leg's time stands still while others decide: it goes on where it stopped.  What it
 *          was measuring is void (on_break), as at its end steps run out without new ones.
 * WE DROP  Suspending: a job that one policy moved out would be missing in the next one's leg; and of
 *          several policies no one may ask jobs to plan for less, as the others would find them so.
 * CHECKED  zico_policy_test.c: two make what lies between them; one alone makes what it makes
 *          without; one turn of four makes a quarter.
 */
#include "policy/policy_common.h"

#include <ctype.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/fmt.h"

#define LEGS_MAX  16u
#define TURNS_MAX 64u
#define LEG_BYTES (512u << 10) /* the largest state that fits */
#define SECONDS   6.0          /* of a leg, if nothing else is said */
#define SETTLE_NS 150000000ull /* between two legs, at least */
#define SECOND_NS 1000000000ull
#define OWN_MAX   86400u /* seconds before all turns */

typedef struct leg {
    const zi_policy_ops *ops;     /* NULL: nobody begins */
    uint64_t             away_ns; /* time that it did not see */
    uint64_t             left_ns; /* when it stopped deciding */
    uint64_t             budget_bytes;
} leg;

typedef struct relay {
    uint64_t    leg_ns;
    size_t      n, at;            /* the leg that decides; n: others have their turns */
    bool        ending;           /* ... and was told that it ends */
    size_t      first, n_turns;   /* turns of all, of which this is our first */
    uint64_t    begin_ns;         /* of the first event */
    uint64_t    own_ns, quiet_ns; /* before all turns: we alone, others alone */
    leg         leg[LEGS_MAX + 1];
    zi_job_view job[ZI_LEDGER_JOBS_MAX]; /* as the leg sees them */
    alignas(max_align_t) unsigned char state[LEGS_MAX][LEG_BYTES];
} relay;

/* "t": the first of the table that begins so, as names on the wire are short. */
static const zi_policy_ops *
find_leg(const char *word, const char **ret_arg)
{
    const zi_policy_ops *ops = zi_policy_find(word, ret_arg);

    for (size_t i = 0; !ops && zi_policy_at(i); i++) {
        if (strncmp(zi_policy_at(i)->name, word, strlen(word)) != 0) continue;
        ops = zi_policy_at(i);
        *ret_arg = "";
    }
    return ops;
}

/* One name of the list, n characters. */
static zico_status
add_leg(relay *r, const char *name, size_t n, uint64_t seed)
{
    char        word[64];
    const char *arg;

    if (r->n == LEGS_MAX || n == 0 || n >= sizeof word) return ZICO_E_ARG;
    memcpy(word, name, n);
    word[n] = 0;
    const zi_policy_ops *ops = find_leg(word, &arg);
    if (!ops || ops == &zi_policy_relay || ops->state_size > LEG_BYTES) return ZICO_E_ARG;
    r->leg[r->n].ops = ops;
    return ops->init(r->state[r->n++], arg, seed);
}

/* "A:B" and what follows it; NULL if that is not there. */
static const char *
read_pair(const char *s, uint64_t *a, uint64_t *b)
{
    char *end;

    if (!isdigit((unsigned char)*s)) return NULL;
    *a = strtoull(s, &end, 10);
    if (*end != ':' || !isdigit((unsigned char)end[1])) return NULL;
    *b = strtoull(end + 1, &end, 10);
    return end;
}

/* "/SECONDS", "/SECONDS@FIRST:ALL", "/SECONDS@FIRST:ALL~OWN:QUIET" or nothing. */
static zico_status
read_times(relay *r, const char *slash)
{
    char    *end = NULL;
    double   seconds = slash ? strtod(slash + 1, &end) : SECONDS;
    uint64_t first, all, own = 0, quiet = 0;

    if ((slash && end == slash + 1) || !(seconds >= 1 && seconds <= 3600))
        return ZICO_E_ARG;
    r->leg_ns = (uint64_t)(seconds * 1e9);
    if (!slash || !*end) return ZICO_OK;
    const char *rest = *end == '@' ? read_pair(end + 1, &first, &all) : NULL;
    if (rest && *rest == '~') rest = read_pair(rest + 1, &own, &quiet);
    if (!rest || *rest || all > TURNS_MAX || first >= all) return ZICO_E_ARG;
    if (own > OWN_MAX || quiet > OWN_MAX) return ZICO_E_ARG;
    r->first = first;
    r->n_turns = all;
    r->own_ns = own * SECOND_NS;
    r->quiet_ns = quiet * SECOND_NS;
    return ZICO_OK;
}

static zico_status
relay_init(void *state, const char *arg, uint64_t seed)
{
    relay      *r = state;
    const char *slash = strchr(arg, '/');
    size_t      len = slash ? (size_t)(slash - arg) : strlen(arg);

    if (read_times(r, slash) < 0) return ZICO_E_ARG;
    for (size_t at = 0; at <= len;) {
        const char *plus = memchr(arg + at, '+', len - at);
        size_t      n = plus ? (size_t)(plus - (arg + at)) : len - at;
        zico_status st = add_leg(r, arg + at, n, seed);
        if (st < 0) return st;
        at += n + 1;
    }
    if (r->n_turns == 0) r->n_turns = r->n;
    return r->first + r->n <= r->n_turns ? ZICO_OK : ZICO_E_ARG;
}

/* The first that learns; else the first. */
static size_t
learner(const relay *r)
{
    for (size_t k = 0; k < r->n; k++)
        if (r->leg[k].ops->on_break) return k;
    return 0;
}

/* Whose turn it is, since when and until when. */
typedef struct turn {
    size_t   leg;
    uint64_t from_ns, until_ns;
} turn;

static turn
turn_at(const relay *r, uint64_t now_ns)
{
    uint64_t own_ns = r->begin_ns + r->own_ns, turns_ns = own_ns + r->quiet_ns;
    uint64_t nth = now_ns / r->leg_ns, from_ns = nth * r->leg_ns;
    size_t   at = (size_t)(nth % r->n_turns);

    if (now_ns < own_ns) return (turn){learner(r), r->begin_ns, own_ns};
    if (now_ns < turns_ns) return (turn){r->n, own_ns, turns_ns};
    return (turn){at >= r->first && at < r->first + r->n ? at - r->first : r->n,
                  from_ns > turns_ns ? from_ns : turns_ns, from_ns + r->leg_ns};
}

static uint64_t
earlier(uint64_t at_ns, uint64_t by_ns)
{
    return at_ns > by_ns ? at_ns - by_ns : 0;
}

/* What a leg sees: its own clock, and while it ends the budget that it had. */
static zi_view
seen_by(relay *r, const leg *l, const zi_view *v, bool ending)
{
    zi_view own = *v;

    for (size_t i = 0; i < v->n_jobs; i++) {
        zi_job_view *j = &r->job[i];
        *j = v->job[i];
        j->joined_ns = earlier(j->joined_ns, l->away_ns);
        j->asked_ns = earlier(j->asked_ns, l->away_ns);
        j->began_ns = earlier(j->began_ns, l->away_ns);
        j->last_region_ns = earlier(j->last_region_ns, l->away_ns);
        j->shrink_asked_ns = earlier(j->shrink_asked_ns, l->away_ns);
    }
    own.job = r->job;
    if (ending) own.budget_bytes = l->budget_bytes;
    return own;
}

/* Lets leg k see the event.  While it ends nobody begins. */
static void
pass_on(relay *r, size_t k, const zi_view *v, const zi_event *ev, bool ending,
        zi_out *out)
{
    leg     *l = &r->leg[k];
    zi_view  own = seen_by(r, l, v, ending);
    zi_event at = *ev;
    size_t   n = 0;

    if (!l->ops) return;
    if (!ending) l->budget_bytes = v->budget_bytes;
    at.now_ns = earlier(ev->now_ns, l->away_ns);
    l->ops->on_event(r->state[k], &own, &at, out);
    for (size_t i = 0; i < out->n; i++) {
        zi_answer a = out->answer[i];
        if (a.kind == ZI_ANSWER_WAKE_AT) a.value += l->away_ns;
        if (a.kind == ZI_ANSWER_SUSPEND || (ending && a.kind == ZI_ANSWER_GO)) continue;
        if (a.kind == ZI_ANSWER_SHRINK && r->n > 1) continue;
        out->answer[n++] = a;
    }
    out->n = n;
}

/* Those that do not decide hear who comes and goes. */
static void
tell_the_others(relay *r, const zi_view *v, const zi_event *ev, zi_out *out)
{
    for (size_t k = 0; k < r->n; k++) {
        if (k == r->at) continue;
        leg     *l = &r->leg[k];
        uint64_t before = l->away_ns;
        l->away_ns += earlier(ev->now_ns, l->left_ns); /* its clock stands */
        pass_on(r, k, v, ev, true, out);
        l->away_ns = before;
        out->n = 0;
    }
}

static void
tell_of_break(relay *r)
{
    const zi_policy_ops *ops = r->leg[r->at].ops;
    if (ops && ops->on_break) ops->on_break(r->state[r->at]);
}

static void
hand_over(relay *r, size_t next, uint64_t now_ns)
{
    r->leg[r->at].left_ns = now_ns;
    r->at = next;
    r->ending = false;
    r->leg[next].away_ns += earlier(now_ns, r->leg[next].left_ns);
    tell_of_break(r);
}

static void
relay_on_event(void *state, const zi_view *v, const zi_event *ev, zi_out *out)
{
    relay *r = state;
    if (r->begin_ns == 0) r->begin_ns = ev->now_ns;
    turn due = turn_at(r, ev->now_ns);
    bool ending = due.leg != r->at;

    if (ending && !r->ending) tell_of_break(r);
    r->ending = ending;
    if (ev->kind == ZI_EVENT_JOIN || ev->kind == ZI_EVENT_LEAVE)
        tell_the_others(r, v, ev, out);
    pass_on(r, r->at, v, ev, ending, out);
    if (ending && ev->now_ns - due.from_ns >= SETTLE_NS && !zi_policy_somebody_runs(v)) {
        zi_event begin = {ZI_EVENT_TIMER, ev->now_ns, SIZE_MAX, 0, 0, 0};
        hand_over(r, due.leg, ev->now_ns);
        out->n = 0;
        pass_on(r, due.leg, v, &begin, false, out);
        ending = false;
    }
    uint64_t boundary = ending ? due.from_ns + SETTLE_NS : due.until_ns;
    if (boundary > ev->now_ns) zi_out_add(out, ZI_ANSWER_WAKE_AT, 0, 0, boundary);
}

/* Whose turn it is, and what that one says. */
static void
relay_explain(const void *state, char *ret_text, size_t size)
{
    const relay         *r = state;
    const zi_policy_ops *ops = r->leg[r->at].ops;
    size_t               n = zi_fmt(ret_text, size, "%s", ops ? ops->name : "nobody");

    if (!ops || !ops->explain || n + 3 > size) return;
    ret_text[n++] = ':';
    ret_text[n++] = ' ';
    ops->explain(r->state[r->at], ret_text + n, size - n);
}

const zi_policy_ops zi_policy_relay = {
    .name = "relay",
    .origin = "zico: policies in turn, for measuring",
    .state_size = sizeof(relay),
    .init = relay_init,
    .on_event = relay_on_event,
    .explain = relay_explain,
};

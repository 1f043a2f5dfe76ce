/* banker.c -- safe states of one kind of resource, after Dijkstra's banker (EWD 623).
 *
 * WE DO    The test for one resource, where it is exact and cheap.
 * WHY ASCENDING ORDER IS ENOUGH
 *   Let the jobs be sorted by rest r1 <= r2 <= ..., with holdings h1, h2, ... and free f.
 *   Suppose some order p works, and let k be the first place where it differs from the
 *   sorted one: sorted wants job a there, p has job c, with r_a <= r_c.  Move a to place k and
 *   shift those between by one.  a can run there: r_a <= r_c, and c could.  Each shifted
 *   job finds h_a more than before.  The jobs after a's old place find the same.  So the new
 *   order works and agrees with the sorted one in one more place; by induction the
 *   sorted order works.  Hence: safe <=> for all k: r_k <= f + h_1 + ... + h_(k-1).
 * WHY A SINGLE CHANGE IS O(log n)
 *   Write slack_k = f + h_1 + ... + h_(k-1) - r_k.  When job i takes x within its claim, its rest
 *   falls to r_i - x: those with a rest below that stay in front of it and lose x of slack;
 *   it must itself find its rest among them; those behind find f - x plus h_i + x, and are
 *   no worse off.  A loss for good lowers every slack by x.  A job that begins holding h
 *   must find its rest; those behind it gain h.
 *   Because table entries carry the least slack so far, each test is one binary search.
 * WHY SAFE MEANS THAT ALL FINISH
 *   In a safe state the first job of the order needs no more than what is free.  Whatever it asks for
 *   within its claim leads to a safe state (its rest falls by what it takes, and it could
 *   still finish first), so it is granted at once; it finishes and gives back.  By induction
 *   all finish, if none asks beyond its claim and none hangs.
 * CHECKED  banker_test.c: every state of small systems against a search through all
 *          orders of requests and returns, region by region.
 */
#include "policy/banker.h"

#include <stdlib.h>
#include "base/check.h"

static int
by_rest(const void *a, const void *b)
{
    const zi_banker_entry *x = a, *y = b;
    return (x->rest_bytes > y->rest_bytes) - (x->rest_bytes < y->rest_bytes);
}

static uint64_t
rest_of(const zi_banker_job *j)
{
    return j->claim_bytes > j->step_bytes ? j->claim_bytes - j->step_bytes : 0;
}

void
zi_banker_open(zi_banker *b, uint64_t free_bytes, const zi_banker_job *jobs,
               size_t n_jobs, zi_banker_entry *entries)
{
    uint64_t before = 0, slack = UINT64_MAX;

    *b = (zi_banker){.free_bytes = free_bytes,
                     .n_jobs = n_jobs,
                     .safe = true,
                     .entry = entries};
    for (size_t i = 0; i < n_jobs; i++)
        entries[i] = (zi_banker_entry){.rest_bytes = rest_of(&jobs[i]),
                                       .step_bytes = jobs[i].step_bytes};
    qsort(entries, n_jobs, sizeof *entries, by_rest);
    for (size_t i = 0; i < n_jobs; i++) {
        zi_banker_entry *e = &entries[i];
        e->before_bytes = before;
        if (e->rest_bytes > free_bytes + before) {
            b->safe = false;
            slack = 0;
        } else if (free_bytes + before - e->rest_bytes < slack) {
            slack = free_bytes + before - e->rest_bytes;
        }
        e->slack_bytes = slack;
        before += e->step_bytes;
    }
}

/* How many entries have a rest below `rest_bytes`. */
static size_t
count_below(const zi_banker *b, uint64_t rest_bytes)
{
    size_t low = 0, high = b->n_jobs;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->entry[mid].rest_bytes < rest_bytes)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* What the first `n` entries give back when they have finished. */
static uint64_t
given_back(const zi_banker *b, size_t n)
{
    return n == 0 ? 0 : b->entry[n - 1].before_bytes + b->entry[n - 1].step_bytes;
}

bool
zi_banker_may_take(const zi_banker *b, const zi_banker_job *job, uint64_t more_bytes)
{
    uint64_t rest = rest_of(job);

    if (more_bytes > b->free_bytes) return false;
    if (rest <= b->free_bytes)
        return true; /* it can finish first, whatever the others do */
    if (!b->safe || more_bytes > rest) return false;

    size_t n = count_below(b, rest - more_bytes);
    if (n > 0 && b->entry[n - 1].slack_bytes < more_bytes) return false;
    return rest - more_bytes <= b->free_bytes - more_bytes + given_back(b, n);
}

bool
zi_banker_may_lose(const zi_banker *b, uint64_t less_bytes)
{
    return b->safe && less_bytes <= zi_banker_slack(b);
}

bool
zi_banker_may_start(const zi_banker *b, const zi_banker_job *job)
{
    uint64_t rest = rest_of(job);
    return b->safe && rest <= b->free_bytes + given_back(b, count_below(b, rest));
}

uint64_t
zi_banker_slack(const zi_banker *b)
{
    if (!b->safe) return 0;
    uint64_t slack = b->n_jobs ? b->entry[b->n_jobs - 1].slack_bytes : UINT64_MAX;
    return slack < b->free_bytes ? slack : b->free_bytes;
}

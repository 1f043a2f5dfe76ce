/* banker_test.c -- the banker against a search through everything that could happen. */
#include "policy/banker.h"
#include "test.h"

#define N_MAX     4
#define BYTES_MAX 5 /* claims and holdings 0..5 */

/* -- the truth, by search --------------------------------------------------------------
 * A state is safe if some sequence of single-byte grants within claims and of finishing (a
 * job at its claim gives all back and is gone) ends with nobody left.  Memoised over all
 * states: (free, and per job: gone or held, with the claims fixed). */

typedef struct world {
    int    n;
    int    claim[N_MAX];
    int    total; /* free + all holdings */
    int8_t known[7 * 7 * 7 * 7];
} world;

static int
code(const world *w, const int *held)
{
    int c = 0;
    for (int i = 0; i < w->n; i++) c = c * 7 + (held[i] + 1);
    return c;
}

static bool
can_all_finish(world *w, int *held) /* -1: gone */
{
    int  at = code(w, held), used = 0;
    bool any = false, good = false;

    if (w->known[at]) return w->known[at] > 0;
    for (int i = 0; i < w->n; i++) {
        used += held[i] > 0 ? held[i] : 0;
        any |= held[i] >= 0;
    }
    for (int i = 0; i < w->n && !good; i++) {
        if (held[i] < 0) continue;
        if (held[i] >= w->claim[i]) {
            int was = held[i];
            held[i] = -1;
            good = can_all_finish(w, held);
            held[i] = was;
        } else if (used < w->total) {
            held[i]++;
            good = can_all_finish(w, held);
            held[i]--;
        }
    }
    good |= !any;
    w->known[at] = good ? 1 : -1;
    return good;
}

static bool
truth(int n, const int *held, const int *claim, int free_bytes)
{
    static world w;
    int          mine[N_MAX];

    memset(&w, 0, sizeof w);
    w.n = n;
    w.total = free_bytes;
    for (int i = 0; i < n; i++) {
        w.claim[i] = claim[i];
        mine[i] = held[i];
        w.total += held[i];
    }
    return can_all_finish(&w, mine);
}

static void
open_table(zi_banker *b, zi_banker_job *jobs, zi_banker_entry *entries, int n,
           const int *held, const int *claim, int free_bytes)
{
    for (int i = 0; i < n; i++)
        jobs[i] = (zi_banker_job){(uint64_t)held[i], (uint64_t)claim[i]};
    zi_banker_open(b, (uint64_t)free_bytes, jobs, (size_t)n, entries);
}

/* Each question about one state, answered by the table and by the search. */
static void
compare(int n, int *held, int *claim, int free_bytes)
{
    zi_banker       b;
    zi_banker_job   jobs[N_MAX];
    zi_banker_entry entries[N_MAX];

    open_table(&b, jobs, entries, n, held, claim, free_bytes);
    bool safe = truth(n, held, claim, free_bytes);
    assert_int_equal(safe, b.safe);
    if (!safe) {
        assert_false(zi_banker_may_lose(&b, 0));
        return;
    }
    for (int i = 0; i < n; i++)
        for (int x = 0; x <= claim[i] - held[i] && x <= free_bytes; x++) {
            held[i] += x;
            bool want = truth(n, held, claim, free_bytes - x);
            held[i] -= x;
            assert_int_equal(want, zi_banker_may_take(&b, &jobs[i], (uint64_t)x));
        }
    for (int x = 0; x <= free_bytes; x++)
        assert_int_equal(truth(n, held, claim, free_bytes - x),
                         zi_banker_may_lose(&b, (uint64_t)x));
    for (int h = 0; n < N_MAX && h <= 2; h++)
        for (int c = h; c <= BYTES_MAX; c++) {
            zi_banker_job more = {(uint64_t)h, (uint64_t)c};
            held[n] = h;
            claim[n] = c;
            assert_int_equal(truth(n + 1, held, claim, free_bytes),
                             zi_banker_may_start(&b, &more));
        }
}

/* Every state of up to 4 jobs with holdings and claims of 0..5 bytes: safe or not, and every
 * single grant, loss and start, exactly as the search says. */
static void
all_small_states(void **state)
{
    unsigned long n_states = 0;

    (void)state;
    for (int n = 1; n <= 4; n++) {
        int most = BYTES_MAX, kinds = 0;
        int pair[64][2];
        for (int c = 0; c <= most; c++)
            for (int h = 0; h <= c; h++, kinds++) pair[kinds][0] = h, pair[kinds][1] = c;
        int pick[N_MAX] = {0}, at = 0;
        while (at >= 0) { /* non-decreasing picks: the order of jobs does not matter */
            int held[N_MAX], claim[N_MAX];
            for (int i = 0; i < n; i++)
                held[i] = pair[pick[i]][0], claim[i] = pair[pick[i]][1];
            for (int f = 0; f <= most + 1; f++, n_states++) compare(n, held, claim, f);
            for (at = n - 1; at >= 0 && pick[at] == kinds - 1;) at--;
            if (at >= 0) {
                pick[at]++;
                for (int i = at + 1; i < n; i++) pick[i] = pick[at];
            }
        }
    }
    printf("%lu states\n", n_states);
    assert_true(n_states > 70000);
}

/* In a safe state the one with the least rest can always be served to the end. */
static void
somebody_can_always_go_on(void **state)
{
    enum { N = 200 };
    static zi_banker_job   jobs[N];
    static zi_banker_entry entries[N];

    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        zi_banker b;
        size_t    n = 1 + t_rand_below(N);
        uint64_t  free_bytes = t_rand_below(2000);
        for (size_t i = 0; i < n; i++) {
            jobs[i].claim_bytes = t_rand_below(1000);
            jobs[i].step_bytes = t_rand_below(jobs[i].claim_bytes + 1);
        }
        zi_banker_open(&b, free_bytes, jobs, n, entries);
        if (!b.safe) continue;
        size_t least = 0;
        for (size_t i = 1; i < n; i++)
            if (jobs[i].claim_bytes - jobs[i].step_bytes <
                jobs[least].claim_bytes - jobs[least].step_bytes)
                least = i;
        uint64_t rest = jobs[least].claim_bytes - jobs[least].step_bytes;
        for (uint64_t x = 0; x <= rest; x++)
            assert_true(zi_banker_may_take(&b, &jobs[least], x));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_small_states),
        cmocka_unit_test(somebody_can_always_go_on),
    };
    return t_main(tests);
}

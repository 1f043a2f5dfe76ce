/* pool_alloc.c -- what a pair of alloc and free costs, in the arena and in malloc.
 *
 * usage: pool_alloc [--malloc] [--json]
 *
 * The same loops run over the arena (a local pool) or, with --malloc, over whatever malloc
 * the process has: glibc's, or a preloaded one (LD_PRELOAD).
 *
 *   pair   alloc and free of one size, again and again
 *   mixed  eight blocks held; a random one is replaced by one of a random size between
 *          64 KiB and the size shown; up to 64 MiB the sizes are log-uniform: as many
 *          between 64 and 128 KiB as between 32 and 64 MiB, as tensors are
 *   step   sizes as in mixed up to 64 MiB; blocks rise to 192 MiB and fall in reverse order, with
 *          a short-lived one beside each: forward and backward
 *
 * each with 1 and 2 threads, without touching the memory and with one write per page.  A
 * figure is the best of 31 short rounds (others may use the machine, too; of three, if they take
 * seconds), in nanoseconds a pair, per thread.
 */
#include "client/arena.h"
#include "base/json.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIB      (1ull << 10)
#define MIB      (1ull << 20)
#define N_HELD   8
#define N_ROUNDS 31
#define ROUND_NS 2000000u /* at least this long */
#define LONG_NS                                                                          \
    1500000000u /* rounds that take so long together are enough, from the third on */
#define LEAST    (64 * KIB)
#define MOST     (64 * MIB)
#define TIDE     (192 * MIB)
#define TIDE_MAX (TIDE / LEAST)

static const size_t sizes[] = {64 * KIB, MIB, 16 * MIB, 64 * MIB};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static struct {
    zi_arena *arena; /* NULL: malloc */
    bool      json;
} opt;

static uint64_t
now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *
take(size_t size)
{
    void *p = NULL;

    if (!opt.arena)
        p = malloc(size);
    else if (zi_arena_alloc(opt.arena, ZICO_CLASS_STEP, size, 64, NULL, 0, &p) < 0)
        p = NULL;
    if (!p) {
        fprintf(stderr, "pool_alloc: no memory for %zu bytes\n", size);
        exit(1);
    }
    __asm__ volatile("" : : "r"(p) : "memory"); /* the pair is not optimised away */
    return p;
}

static void
drop(void *p)
{
    if (opt.arena)
        zi_arena_release(opt.arena, p, NULL);
    else
        free(p);
}

static void
touch(char *p, size_t size)
{
    for (size_t i = 0; i < size; i += 4096) p[i] = 1;
}

typedef enum pattern { PAIR, MIXED, STEP, N_PATTERNS } pattern;

static const char *const pattern_name[] = {"pair", "mixed", "step"};

typedef struct job {
    alignas(128) pattern pattern; /* its seed is written all the time */
    size_t       size;
    bool         touch;
    uint64_t     n;
    uint64_t     took_ns;
    uint64_t     seed;
    struct team *team;
} job;

/* Threads that stay for all rounds of a figure, as those of a training program do. */
typedef struct team {
    pthread_barrier_t begin, end;
    pthread_t         thread[2];
    job               j[2];
    unsigned          n_threads;
    bool              done;
} team;

static size_t
random_size(job *j)
{
    uint64_t x = j->seed;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    j->seed = x;
    if (j->size < MOST) return LEAST + (x >> 16) % (j->size - LEAST + 1);
    size_t power = LEAST << (x >> 32) % 10; /* 64 KiB, 128 KiB, .. 32 MiB */
    return power + (x >> 16) % power;
}

static void
run_pairs(job *j)
{
    for (uint64_t i = 0; i < j->n; i++) {
        char *p = take(j->size);
        if (j->touch) touch(p, j->size);
        drop(p);
    }
}

static void
run_mixed(job *j)
{
    char  *held[N_HELD];
    size_t size;

    for (int i = 0; i < N_HELD; i++) held[i] = take(random_size(j));
    for (uint64_t i = 0; i < j->n; i++) {
        int k = (int)(j->seed >> 60) % N_HELD;
        drop(held[k]);
        held[k] = take(size = random_size(j));
        if (j->touch) touch(held[k], size);
    }
    for (int i = 0; i < N_HELD; i++) drop(held[i]);
}

/* One step's blocks, and a short-lived one beside each; how many pairs. */
static uint64_t
run_one_step(job *j, char **held)
{
    size_t   size, sum = 0;
    uint64_t n = 0, pairs = 0;

    while (sum < TIDE) {
        held[n++] = take(size = random_size(j));
        if (j->touch) touch(held[n - 1], size);
        sum += size;
        char *beside = take(size = random_size(j));
        if (j->touch) touch(beside, size);
        drop(beside);
        pairs += 2;
    }
    while (n > 0) drop(held[--n]);
    return pairs;
}

/* At least j->n pairs; j->n becomes how many it were. */
static void
run_steps(job *j)
{
    char   **held = malloc(TIDE_MAX * sizeof *held);
    uint64_t n = 0;

    if (!held) exit(1);
    while (n < j->n) n += run_one_step(j, held);
    free(held);
    j->n = n;
}

static void
run_round(job *j)
{
    uint64_t start = now_ns();

    if (j->pattern == STEP)
        run_steps(j);
    else if (j->pattern == MIXED)
        run_mixed(j);
    else
        run_pairs(j);
    j->took_ns = now_ns() - start;
}

static void *
run_rounds(void *arg)
{
    job *j = arg;

    for (;;) {
        pthread_barrier_wait(&j->team->begin);
        if (j->team->done) return NULL;
        run_round(j);
        pthread_barrier_wait(&j->team->end);
    }
}

static void
open_team(team *t, const job *what, unsigned n_threads)
{
    *t = (team){.n_threads = n_threads};
    pthread_barrier_init(&t->begin, NULL, n_threads + 1);
    pthread_barrier_init(&t->end, NULL, n_threads + 1);
    for (unsigned i = 0; i < n_threads; i++) {
        t->j[i] = *what;
        t->j[i].team = t;
        pthread_create(&t->thread[i], NULL, run_rounds, &t->j[i]);
    }
}

static void
close_team(team *t)
{
    t->done = true;
    pthread_barrier_wait(&t->begin);
    for (unsigned i = 0; i < t->n_threads; i++) pthread_join(t->thread[i], NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->end);
}

/* One round: ns per pair, the slower thread's. */
static double
round_ns(team *t, uint64_t n)
{
    double most = 0;

    for (unsigned i = 0; i < t->n_threads; i++) {
        t->j[i].n = n;
        t->j[i].seed = 88172645463325252u + i * 7919u;
    }
    pthread_barrier_wait(&t->begin);
    pthread_barrier_wait(&t->end);
    for (unsigned i = 0; i < t->n_threads; i++) {
        double ns = (double)t->j[i].took_ns / (double)t->j[i].n;
        if (ns > most) most = ns;
    }
    return most;
}

static double
measure(const job *what, unsigned n_threads)
{
    double   best = 0;
    uint64_t n = 16, began = now_ns();
    team     t;

    open_team(&t, what, n_threads);
    while (round_ns(&t, n) * (double)n < ROUND_NS && n < 1u << 22) n *= 4;
    for (int i = 0; i < N_ROUNDS; i++) {
        double took = round_ns(&t, n);
        if (i == 0 || took < best) best = took;
        if (i >= 2 && now_ns() - began > LONG_NS) break;
    }
    close_team(&t);
    return best;
}

static void
report(zi_json *out, const job *j, unsigned n_threads, double ns)
{
    if (!opt.json) {
        printf("%-6s %-5s %u thread%s %8zu KiB  %10.1f ns\n", pattern_name[j->pattern],
               j->touch ? "touch" : "-", n_threads, n_threads > 1 ? "s" : " ",
               j->size / 1024, ns);
        fflush(stdout);
        return;
    }
    zi_json_object(out);
    zi_json_key(out, "pattern"), zi_json_str(out, pattern_name[j->pattern]);
    zi_json_key(out, "touch"), zi_json_bool(out, j->touch);
    zi_json_key(out, "threads"), zi_json_u64(out, n_threads);
    zi_json_key(out, "size_bytes"), zi_json_u64(out, j->size);
    zi_json_key(out, "ns"), zi_json_f64(out, ns);
    zi_json_end(out);
}

/* A pool large enough for both threads' blocks, present and held from the start to the end. */
static void
open_arena(void)
{
    zi_session *s;
    void       *all;

    if (zi_session_open(&(zi_session_options){.local_bytes = 2048 * MIB,
                                              .local_region_bytes = 64 * MIB},
                        &s) < 0 ||
        zi_arena_new(s, &opt.arena) < 0) {
        fprintf(stderr, "pool_alloc: no local pool\n");
        exit(1);
    }
    zi_arena_keep(opt.arena, 2048 / 64); /* what is measured is blocks, not leases */
    all = take(1024 * MIB); /* warm up: pages are made present at the first lease */
    drop(all);
}

int
main(int argc, char **argv)
{
    zi_str  text = {0};
    zi_json out = zi_json_into(&text);
    bool    use_malloc = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) opt.json = true;
        if (strcmp(argv[i], "--malloc") == 0) use_malloc = true;
    }
    if (!use_malloc) open_arena();
    zi_json_array(&out);
    for (pattern p = PAIR; p < N_PATTERNS; p++)
        for (int with_touch = 0; with_touch <= 1; with_touch++)
            for (unsigned n_threads = 1; n_threads <= 2; n_threads++)
                for (size_t i = 0; i < N_SIZES; i++) {
                    job j = {.pattern = p, .size = sizes[i], .touch = with_touch};
                    if (p == MIXED && sizes[i] < MIB) continue;
                    if (p == STEP && sizes[i] < MOST) continue;
                    report(&out, &j, n_threads, measure(&j, n_threads));
                }
    zi_json_end(&out);
    if (opt.json) puts(zi_str_get(&text));
    zi_str_free(&text);
    return 0;
}

/* pool_trace.c -- recorded training steps, replayed through the arena.
 *
 * usage: pool_trace [--json] [--wire] [FILE.trace.zst ...]      default: bench/traces/
 *
 *   packing   one process, a pool of its own of twice the trace's peak: bytes leased / bytes
 *             live, at the peak and averaged over the time of the steps
 *   --wire    two processes replay each trace at its own speed against one broker with room
 *             for both: share of the time that they wait for leases
 *
 * tools/record_traces.py says what a trace is and makes them.
 */
#include "client/arena.h"
#include "base/json.h"
#include "broker/broker.h"
#include "bench_clock.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB         (1ull << 20)
#define N_PASSES    3u /* over the steps of the file; the first warms up */
#define N_WIRE      2u /* the same, at the trace's own speed */
#define N_PROCESSES 2

typedef struct event {
    char     kind; /* 'a', 'f', 's' */
    uint32_t id;
    uint64_t size, dt_us;
} event;

typedef struct trace {
    char     name[64];
    event   *at;
    size_t   n, cap;
    uint32_t n_ids;
    uint64_t peak_bytes, length_us;
} trace;

typedef struct packing {
    double   peak, mean;
    uint64_t peak_live, peak_leased, region_bytes;
} packing;

static void
die(const char *what)
{
    fprintf(stderr, "pool_trace: %s\n", what);
    exit(1);
}

/* -- reading -------------------------------------------------------------------------------- */

static void
add(trace *t, event e)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->at = realloc(t->at, t->cap * sizeof *t->at);
        if (!t->at) die("no memory");
    }
    t->at[t->n++] = e;
    if (e.id >= t->n_ids) t->n_ids = e.id + 1;
    t->length_us += e.dt_us;
}

static void
find_peak(trace *t)
{
    uint64_t *size = calloc(t->n_ids, sizeof *size), live = 0;

    for (size_t i = 0; i < t->n; i++) {
        event *e = &t->at[i];
        if (e->kind == 'a') live += size[e->id] = e->size;
        if (e->kind == 'f') live -= size[e->id];
        if (live > t->peak_bytes) t->peak_bytes = live;
    }
    free(size);
}

static void
read_trace(const char *path, trace *t)
{
    char  command[4096], line[256];
    event e;

    memset(t, 0, sizeof *t);
    snprintf(command, sizeof command, "zstd -dcq '%s'", path);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof line, f) || sscanf(line, "trace 1 %63s", t->name) != 1)
        die("not a trace (is zstd installed?)");
    while (fgets(line, sizeof line, f)) {
        unsigned long long size = 0, dt = 0;
        memset(&e, 0, sizeof e);
        e.kind = line[0];
        if (sscanf(line, "a %u %llu %llu", &e.id, &size, &dt) != 3 &&
            sscanf(line, "f %u %llu", &e.id, &dt) != 2 &&
            sscanf(line, "s %llu", &dt) != 1)
            die("a line of a trace is none");
        e.size = size;
        e.dt_us = dt;
        add(t, e);
    }
    if (pclose(f) != 0 || t->n == 0) die("trace ends early");
    find_peak(t);
}

/* -- packing -------------------------------------------------------------------------------------- */

static void
take(zi_arena *a, void **block, const event *e)
{
    if (zi_arena_alloc(a, ZICO_CLASS_STEP, e->size, 64, NULL, ZICO_FOREVER, block) < 0)
        die("no memory in the arena");
}

static packing
measure_packing(const trace *t)
{
    zi_session_options opt = {.local_bytes = 2 * t->peak_bytes + 64 * MIB};
    zi_session        *s;
    zi_arena          *a;
    zico_stats         st;
    packing            p = {0};
    void             **block = calloc(t->n_ids, sizeof *block);
    uint64_t          *size = calloc(t->n_ids, sizeof *size), live = 0, leased = 0;
    double             sum_live = 0, sum_leased = 0;

    opt.local_region_bytes = zi_device_region_bytes(2 * t->peak_bytes);
    if (zi_session_open(&opt, &s) < 0 || zi_arena_new(s, &a) < 0) die("no local pool");
    for (unsigned pass = 0; pass < N_PASSES; pass++)
        for (size_t i = 0; i < t->n; i++) {
            const event *e = &t->at[i];
            if (pass > 0) {
                sum_live += (double)live * (double)e->dt_us;
                sum_leased += (double)leased * (double)e->dt_us;
            }
            if (e->kind == 'a') take(a, &block[e->id], e), live += size[e->id] = e->size;
            if (e->kind == 'f')
                zi_arena_release(a, block[e->id], NULL), live -= size[e->id];
            if (e->kind == 's') zi_arena_trim(a);
            zi_session_stats(s, &st);
            leased = st.leased_bytes;
            if (live > p.peak_live) p.peak_live = live;
            if (leased > p.peak_leased) p.peak_leased = leased;
        }
    p.peak = (double)p.peak_leased / (double)p.peak_live;
    p.mean = sum_leased / sum_live;
    p.region_bytes = opt.local_region_bytes;
    zi_arena_free(a);
    zi_session_close(s);
    free(block);
    free(size);
    return p;
}

/* -- two processes and a broker ----------------------------------------------------------------------- */

typedef struct shared {
    double   share[N_PROCESSES];
    uint64_t n_leases[N_PROCESSES], exchanged[N_PROCESSES];
} shared;

static void
compute_until(uint64_t at_ns)
{
    while (bench_now_ns() < at_ns) {
        struct timespec ts = {.tv_nsec = 1000};
        if (at_ns - bench_now_ns() > 200000) nanosleep(&ts, NULL);
    }
}

/* One job: steps at the trace's own speed. */
static int
run_job(const trace *t, const char *socket, int which, shared *out)
{
    zi_session_options opt = {.socket_path = socket,
                              .job_name = t->name,
                              .features = ZI_FEATURE_STEPS,
                              .claim_bytes = t->peak_bytes * 5 / 4 + 16 * MIB};
    zi_session        *s;
    zi_arena          *a;
    zico_stats         before, after;
    void             **block = calloc(t->n_ids, sizeof *block);
    uint64_t           in_steps = 0;

    if (zi_session_open(&opt, &s) < 0 || zi_arena_new(s, &a) < 0) return 1;
    zi_session_stats(s, &before);
    for (unsigned pass = 0; pass < N_WIRE; pass++) {
        if (pass == 1) in_steps = 0, zi_session_stats(s, &before);
        bool     inside = false;
        uint64_t start = 0, at = 0;
        for (size_t i = 0; i < t->n; i++) {
            const event *e = &t->at[i];
            if (!inside) {
                if (zi_session_step_begin(s, ZICO_FOREVER) < 0) return 2;
                inside = true;
                start = at = bench_now_ns();
            }
            at += e->dt_us * 1000;
            compute_until(at);
            if (e->kind == 'a') {
                uint64_t asked = bench_now_ns();
                take(a, &block[e->id], e);
                at += bench_now_ns() - asked; /* a wait moves the rest of the step */
            }
            if (e->kind == 'f') zi_arena_release(a, block[e->id], NULL);
            if (e->kind == 's') {
                zi_arena_trim(a);
                in_steps += bench_now_ns() - start;
                if (zi_session_step_end(s, NULL) < 0) return 3;
                inside = false;
            }
        }
    }
    zi_session_stats(s, &after);
    out->share[which] =
        (double)(after.wait_lease_ns - before.wait_lease_ns) / (double)in_steps;
    out->n_leases[which] = after.n_leases - before.n_leases;
    out->exchanged[which] = after.exchanged_bytes - before.exchanged_bytes;
    zi_arena_free(a);
    zi_session_close(s);
    return 0;
}

static pid_t
start_broker(const char *socket, uint64_t budget)
{
    pid_t pid = fork();

    if (pid != 0) return pid;
    zi_broker        *b;
    zi_broker_options opt = {.socket_path = socket,
                             .budget_bytes = budget,
                             .policy = "zico"};
    if (zi_broker_new(&opt, NULL, &b) < 0) _exit(1);
    _exit(zi_broker_run(b) < 0);
}

static void
await_socket(const char *socket)
{
    for (int i = 0; i < 500 && access(socket, F_OK) != 0; i++) usleep(10000);
}

static void
measure_wire(const trace *t, shared *out)
{
    char  dir[] = "/tmp/zi-bench-XXXXXX", socket[64];
    pid_t job[N_PROCESSES];
    int   status;

    if (!mkdtemp(dir)) die("no folder for the socket");
    snprintf(socket, sizeof socket, "%s/s", dir);
    pid_t broker = start_broker(socket, 3 * t->peak_bytes + 64 * MIB);
    await_socket(socket);
    for (int i = 0; i < N_PROCESSES; i++) {
        job[i] = fork();
        if (job[i] == 0) _exit(run_job(t, socket, i, out));
    }
    for (int i = 0; i < N_PROCESSES; i++)
        if (waitpid(job[i], &status, 0) < 0 || status != 0) die("a job failed");
    kill(broker, SIGKILL);
    waitpid(broker, &status, 0);
    unlink(socket);
    char lock[80];
    snprintf(lock, sizeof lock, "%s.lock", socket);
    unlink(lock);
    rmdir(dir);
}

/* -- the table ------------------------------------------------------------------------------------------ */

static void
report(zi_json *out, bool json, const trace *t, const packing *p, const shared *w)
{
    if (!json) {
        printf("%-14s peak %6.1f MiB, region %2llu MiB: leased/live %.3f at the peak, "
               "%.3f on average",
               t->name, (double)p->peak_live / MIB,
               (unsigned long long)p->region_bytes / MIB, p->peak, p->mean);
        if (w)
            printf(
                "; two jobs wait %.3f %% and %.3f %% of the time (%llu, %llu requests)",
                100 * w->share[0], 100 * w->share[1], (unsigned long long)w->n_leases[0],
                (unsigned long long)w->n_leases[1]);
        putchar('\n');
        fflush(stdout);
        return;
    }
    zi_json_object(out);
    zi_json_key(out, "trace"), zi_json_str(out, t->name);
    zi_json_key(out, "peak_live_bytes"), zi_json_u64(out, p->peak_live);
    zi_json_key(out, "region_bytes"), zi_json_u64(out, p->region_bytes);
    zi_json_key(out, "leased_to_live_peak"), zi_json_f64(out, p->peak);
    zi_json_key(out, "leased_to_live_mean"), zi_json_f64(out, p->mean);
    if (w) {
        zi_json_key(out, "wait_share"), zi_json_array(out);
        for (int i = 0; i < N_PROCESSES; i++) zi_json_f64(out, w->share[i]);
        zi_json_end(out);
    }
    zi_json_end(out);
}

static int
is_trace(const struct dirent *d)
{
    return strstr(d->d_name, ".trace.zst") != NULL;
}

/* The files on the command line, or all of bench/traces. */
static char **
find_files(int argc, char **argv)
{
    char          **file = calloc((size_t)argc + 64, sizeof *file);
    struct dirent **found;
    const char     *root = getenv("ZI_SOURCE_DIR");
    char            folder[4000];
    size_t          n = 0;

    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') file[n++] = argv[i];
    if (n > 0) return file;
    snprintf(folder, sizeof folder, "%s/bench/traces", root && *root ? root : ".");
    int n_found = scandir(folder, &found, is_trace, alphasort);
    if (n_found <= 0) die("no traces; run from the source tree or name files");
    for (int i = 0; i < n_found && i < 63; i++)
        if (asprintf(&file[n++], "%s/%s", folder, found[i]->d_name) < 0) die("no memory");
    return file;
}

int
main(int argc, char **argv)
{
    bool    json = false, wire = false;
    zi_str  text = {0};
    zi_json out = zi_json_into(&text);
    shared *w =
        mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (int i = 1; i < argc; i++) {
        json |= strcmp(argv[i], "--json") == 0;
        wire |= strcmp(argv[i], "--wire") == 0;
    }
    zi_json_array(&out);
    for (char **file = find_files(argc, argv); *file; file++) {
        trace t;
        read_trace(*file, &t);
        packing p = measure_packing(&t);
        if (wire) measure_wire(&t, w);
        report(&out, json, &t, &p, wire ? w : NULL);
        free(t.at);
    }
    zi_json_end(&out);
    if (json) puts(zi_str_get(&text));
    zi_str_free(&text);
    return 0;
}

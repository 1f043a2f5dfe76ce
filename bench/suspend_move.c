/* suspend_move.c -- what it costs to move a native job out and in, against its tier alone.
 *
 * usage: suspend_move [NET] [BATCH] [ROUNDS]      (resnet50:classes=10,size=64, 8, 5)
 *        suspend_move tier BYTES      (seconds: a fresh file out, in; again out, in; from memory
 *                                      like the pool's, and from memory of its own)
 *
 * A pool of its own, whose pages stay (as when another job takes them over), then one whose pages go
 * back to the machine (as when a person suspends): suspend and resume of the executor, each beside a plain write and read of as many bytes through the same kind of file.
 */
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "exec/tier.h"
#include "exec/exec.h"
#include "train/net.h"

#define MIB (1ull << 20)

static int
by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double
median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

/* Seconds to write and to read that many bytes, from and to memory that is there. */
static zico_status
tier_alone(zi_tier *t, char *mem, uint64_t n_bytes, double *ret_out_s, double *ret_in_s)
{
    const zi_os *os = zi_os_real();

    zico_status st = zi_tier_reserve(t, n_bytes);
    uint64_t    t0 = os->now_ns(os);
    if (st >= 0) st = zi_tier_write_bulk(t, 0, mem, n_bytes, ZI_TIER_STAY);
    uint64_t t1 = os->now_ns(os);
    if (st >= 0) st = zi_tier_read_bulk(t, 0, mem, n_bytes);
    *ret_out_s = (double)(t1 - t0) / 1e9;
    *ret_in_s = (double)(os->now_ns(os) - t1) / 1e9;
    return st;
}

/* Memory as the pool's is (shared, in small pages), or of this process alone; all of it there. */
static char *
memory_for(uint64_t n, bool shared)
{
    int   fd = shared ? memfd_create("suspend_move", MFD_CLOEXEC) : -1;
    int   kind = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *mem = MAP_FAILED;

    if (!shared || (fd >= 0 && ftruncate(fd, (off_t)n) == 0))
        mem = mmap(NULL, n, PROT_READ | PROT_WRITE, kind, fd, 0);
    if (fd >= 0) close(fd);
    if (mem == MAP_FAILED) return NULL;
    memset(mem, 1, n);
    return mem;
}

/* A fresh file out and in, then the same file again. */
static zico_status
measure_tier(const char *spec, uint64_t n_bytes, bool shared, double ret_s[4])
{
    uint64_t n = (n_bytes + ZI_TIER_ALIGN - 1) / ZI_TIER_ALIGN * ZI_TIER_ALIGN;
    char    *mem = memory_for(n, shared);
    zi_tier *t;

    if (!mem) return ZICO_E_NOMEM;
    zico_status st = zi_tier_open(zi_os_real(), spec, &t);
    if (st >= 0) {
        st = tier_alone(t, mem, n, &ret_s[0], &ret_s[1]);
        if (st >= 0) st = tier_alone(t, mem, n, &ret_s[2], &ret_s[3]);
        zi_tier_close(t);
    }
    munmap(mem, n);
    return st;
}

typedef struct moved {
    zi_graph   *graph;
    zi_session *session;
    zi_exec    *exec;
    zi_tier    *tier;
} moved;

/* A training network in a pool of its own. */
static zico_status
open_moved(const char *net, int64_t batch, const char *spec, moved *m)
{
    zi_train_diag      diag = {0};
    zi_optim           optim = zi_optim_default(ZI_OPTIM_ADAM);
    zi_session_options so = {.job_name = "moved",
                             .local_bytes = 4096 * MIB,
                             .features = ZI_FEATURE_STEPS | ZI_FEATURE_NATIVE};

    zico_status st = zi_net_build(zi_os_real(), net, batch, true, 1, &diag, &m->graph);
    if (st >= 0) st = zi_graph_fuse(m->graph, NULL);
    if (st >= 0) st = zi_graph_differentiate(m->graph, m->graph->loss, NULL);
    if (st >= 0) st = zi_graph_add_update(m->graph, &optim, NULL);
    if (st >= 0) st = zi_session_open(&so, &m->session);
    zi_exec_options xo = {.graph = m->graph, .session = m->session, .seed = 1};
    if (st >= 0) st = zi_exec_new(&xo, NULL, &m->exec);
    if (st >= 0) st = zi_tier_open(zi_os_real(), spec, &m->tier);
    return st;
}

static void
close_moved(moved *m)
{
    zi_exec_free(m->exec);
    zi_session_close(m->session);
    zi_graph_free(m->graph);
    zi_tier_close(m->tier);
}

/* Out and in, then the same bytes through a file in the same state: the job's own file is kept from
 * one suspension to the next. */
static zico_status
one_round(moved *m, const char *spec, bool cold, bool first, double ret_s[4],
          uint64_t *ret_bytes)
{
    const zi_os *os = zi_os_real();
    double       alone[4];

    uint64_t    t0 = os->now_ns(os);
    zico_status st = zi_exec_suspend(m->exec, m->tier, cold, ret_bytes);
    uint64_t    t1 = os->now_ns(os);
    if (st >= 0) st = zi_exec_resume(m->exec);
    uint64_t t2 = os->now_ns(os);
    if (st >= 0) st = measure_tier(spec, *ret_bytes, true, alone);
    if (st < 0) return st;
    ret_s[0] = (double)(t1 - t0) / 1e9;
    ret_s[1] = (double)(t2 - t1) / 1e9;
    ret_s[2] = alone[first ? 0 : 2];
    ret_s[3] = alone[first ? 1 : 3];
    return ZICO_OK;
}

static zico_status
rounds(moved *m, const char *spec, bool cold, size_t n, const char *net)
{
    double   s[4], part[4][64];
    uint64_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        zico_status st = one_round(m, spec, cold, i == 0 && !cold, s, &bytes);
        if (st < 0) return st;
        for (int k = 0; k < 4; k++) part[k][i] = s[k];
    }
    for (int k = 0; k < 4; k++) s[k] = median(part[k], n);
    printf(
        "%s: %llu MiB kept, pages %s; suspend %.3f s (tier alone %.3f s: %.2f), resume "
        "%.3f s (%.3f s: %.2f); medians of %zu\n",
        net, (unsigned long long)(bytes / MIB), cold ? "given back" : "stay", s[0], s[2],
        s[0] / s[2], s[1], s[3], s[1] / s[3], n);
    return ZICO_OK;
}

static int
print_tier(const char *spec, uint64_t n_bytes)
{
    double s[4];

    for (int shared = 1; shared >= 0; shared--) {
        zico_status st = measure_tier(spec, n_bytes, shared, s);
        if (st < 0) return fprintf(stderr, "%s: %s\n", spec, zico_status_text(st)), 1;
        printf("%.6f %.6f %.6f %.6f\n", s[0], s[1], s[2], s[3]);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "resnet50:classes=10,size=64";
    int64_t     batch = argc > 2 ? atoll(argv[2]) : 8;
    size_t      n = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    const char *tmp = getenv("TMPDIR");
    moved       m = {0};
    char        spec[4200];

    snprintf(spec, sizeof spec, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    if (argc == 3 && !strcmp(net, "tier"))
        return print_tier(spec, strtoull(argv[2], NULL, 10));
    if (n < 1 || n > 64) return fputs("1 to 64 rounds\n", stderr), 2;
    zico_status st = open_moved(net, batch, spec, &m);
    if (st >= 0) st = rounds(&m, spec, false, n, net);
    if (st >= 0) st = rounds(&m, spec, true, n, net);
    close_moved(&m);
    if (st < 0) return fprintf(stderr, "%s: %s\n", net, zico_status_text(st)), 1;
    return 0;
}

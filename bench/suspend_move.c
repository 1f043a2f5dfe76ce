/* suspend_move.c -- what it costs to move a native job out and in, against a plain write and read of
 * as many bytes.
 *
 * usage: suspend_move [NET] [BATCH] [ROUNDS]      (resnet50:classes=10,size=64, 8, 7)
 *        suspend_move write|read FILE BYTES       (seconds: all of it, one buffer)
 *
 * PLAIN   One thread, direct requests of 8 MiB one after the other, from and into as much memory as
 *         there are bytes, ordinary and present: this counts.  Beside it the same with one buffer of
 *         8 MiB in huge pages, again and again: the most that the disk gives.
 * ROUND   write, suspend, read, resume; the ratio is that of neighbours, since a disk that is shared
 *         with others changes from minute to minute.  The job's file and the plain one have been
 *         written before (but for a job's first suspension, which is not counted here).
 *
 * A pool of its own, whose pages stay (as when another job takes them over), then one whose pages go
 * back to the machine (as when a person suspends).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "exec/tier.h"
#include "exec/exec.h"
#include "train/net.h"

#define MIB     (1ull << 20)
#define REQUEST (8 * MIB)
#define HUGE    (2 * MIB)
#define MOST    64u

static int
by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* -- plain ---------------------------------------------------------------------------------- */

typedef struct plain {
    int      fd;
    uint64_t n_bytes;
    char    *memory; /* of n_bytes */
    char    *buffer; /* of one request, in huge pages */
} plain;

static bool
open_plain(plain *p, const char *path, uint64_t n_bytes)
{
    const uint64_t n = (n_bytes + REQUEST - 1) / REQUEST * REQUEST;

    *p = (plain){.n_bytes = n_bytes / ZI_TIER_ALIGN * ZI_TIER_ALIGN};
    p->fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    p->memory = aligned_alloc(ZI_TIER_ALIGN, n);
    p->buffer = aligned_alloc(HUGE, REQUEST);
    if (p->fd < 0 || !p->memory || !p->buffer) return false;
    memset(p->memory, 1, n);
    madvise(p->buffer, REQUEST, MADV_HUGEPAGE);
    memset(p->buffer, 1, REQUEST);
    return true;
}

static void
close_plain(plain *p)
{
    if (p->fd >= 0) close(p->fd);
    free(p->memory);
    free(p->buffer);
}

/* Seconds; negative: it failed. */
static double
move_plain(const plain *p, bool out, bool one_buffer)
{
    const zi_os   *os = zi_os_real();
    const uint64_t begin = os->now_ns(os);

    for (uint64_t at = 0; at < p->n_bytes; at += REQUEST) {
        size_t  n = p->n_bytes - at < REQUEST ? p->n_bytes - at : REQUEST;
        char   *mem = one_buffer ? p->buffer : p->memory + at;
        ssize_t rc =
            out ? pwrite(p->fd, mem, n, (off_t)at) : pread(p->fd, mem, n, (off_t)at);
        if (rc != (ssize_t)n) return -1;
    }
    return (double)(os->now_ns(os) - begin) / 1e9;
}

static int
print_plain(bool out, const char *path, uint64_t n_bytes)
{
    plain  p;
    double s[2] = {-1, -1};

    if (open_plain(&p, path, n_bytes))
        for (int i = 0; i < 2; i++) s[i] = move_plain(&p, out, i == 1);
    close_plain(&p);
    if (s[0] < 0 || s[1] < 0) return perror(path), 1;
    printf("%.6f %.6f\n", s[0], s[1]);
    return 0;
}

/* -- the job ---------------------------------------------------------------------------------- */

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

typedef enum part { WRITE, OUT, READ, IN, N_PARTS } part;

static double
seconds_since(uint64_t begin_ns)
{
    return (double)(zi_os_real()->now_ns(zi_os_real()) - begin_ns) / 1e9;
}

static zico_status
one_round(moved *m, const plain *p, bool cold, double ret_s[N_PARTS])
{
    const zi_os *os = zi_os_real();
    uint64_t     bytes;

    ret_s[WRITE] = move_plain(p, true, false);
    uint64_t    begin = os->now_ns(os);
    zico_status st = zi_exec_suspend(m->exec, m->tier, cold, &bytes);
    ret_s[OUT] = seconds_since(begin);
    ret_s[READ] = move_plain(p, false, false);
    begin = os->now_ns(os);
    if (st >= 0) st = zi_exec_resume(m->exec);
    ret_s[IN] = seconds_since(begin);
    return st < 0 ? st : ret_s[WRITE] < 0 || ret_s[READ] < 0 ? ZICO_E_IO : ZICO_OK;
}

static void
print_ratio(const char *what, const double *mine, const double *alone, double *ratio,
            size_t n)
{
    double sum[2] = {0, 0};

    for (size_t i = 0; i < n; i++) {
        ratio[i] = mine[i] / alone[i];
        sum[0] += mine[i];
        sum[1] += alone[i];
    }
    qsort(ratio, n, sizeof *ratio, by_value);
    printf(
        "  %s %.3f s, plain %.3f s (means); ratio %.2f (median of %zu; %.2f to %.2f)\n",
        what, sum[0] / (double)n, sum[1] / (double)n, ratio[n / 2], n, ratio[0],
        ratio[n - 1]);
}

static zico_status
rounds(moved *m, const plain *p, bool cold, size_t n)
{
    double s[N_PARTS], of[N_PARTS][MOST], ratio[MOST];

    for (size_t i = 0; i < n; i++) {
        zico_status st = one_round(m, p, cold, s);
        if (st < 0) return st;
        for (int k = 0; k < N_PARTS; k++) of[k][i] = s[k];
    }
    printf("%llu MiB kept, pages %s\n", (unsigned long long)(p->n_bytes / MIB),
           cold ? "given back" : "stay");
    print_ratio("suspend", of[OUT], of[WRITE], ratio, n);
    print_ratio("resume ", of[IN], of[READ], ratio, n);
    return ZICO_OK;
}

static zico_status
measure(moved *m, const char *dir, size_t n)
{
    char     path[4300];
    uint64_t bytes = 0;
    plain    p;

    zico_status st =
        zi_exec_suspend(m->exec, m->tier, false, &bytes); /* makes the file */
    if (st >= 0) st = zi_exec_resume(m->exec);
    if (st < 0) return st;
    snprintf(path, sizeof path, "%s/suspend_move-%d", dir, (int)getpid());
    bool open = open_plain(&p, path, bytes);
    unlink(path);
    if (!open || move_plain(&p, true, false) < 0) st = ZICO_E_IO;
    if (st >= 0) st = rounds(m, &p, false, n);
    if (st >= 0) st = rounds(m, &p, true, n);
    close_plain(&p);
    return st;
}

int
main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "resnet50:classes=10,size=64";
    int64_t     batch = argc > 2 ? atoll(argv[2]) : 8;
    size_t      n = argc > 3 ? strtoull(argv[3], NULL, 10) : 7;
    const char *tmp = getenv("TMPDIR");
    moved       m = {0};
    char        spec[4200];

    if (argc == 4 && (!strcmp(net, "write") || !strcmp(net, "read")))
        return print_plain(net[0] == 'w', argv[2], strtoull(argv[3], NULL, 10));
    if (n < 1 || n > MOST) return fputs("1 to 64 rounds\n", stderr), 2;
    snprintf(spec, sizeof spec, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    zico_status st = open_moved(net, batch, spec, &m);
    if (st >= 0) st = measure(&m, spec + 5, n);
    close_moved(&m);
    if (st < 0) return fprintf(stderr, "%s: %s\n", net, zico_status_text(st)), 1;
    return 0;
}

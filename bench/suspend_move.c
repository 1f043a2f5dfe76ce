/* suspend_move.c -- what it costs to move a native job out and in, against its tier alone.
 *
 * usage: suspend_move [NET] [BATCH] [ROUNDS]      (resnet50:classes=10,size=64, 8, 5)
 *
 * A pool of its own, whose pages stay (as when another job takes them over): suspend and resume of
 * the executor, each beside a plain write and read of as many bytes through the same kind of file.
 */
#include <stdio.h>
#include <stdlib.h>
#include "exec/tier.h"
#include "train/engine.h"
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

static zico_status
one_round(zi_engine *e, const char *spec, double ret_s[4], uint64_t *ret_bytes)
{
    const zi_os *os = zi_os_real();
    zi_tier     *t;
    double       out_rate, in_rate;

    zico_status st = zi_tier_open(os, spec, &t);
    if (st < 0) return st;
    uint64_t t0 = os->now_ns(os);
    st = zi_exec_suspend(zi_engine_exec(e), t, ret_bytes);
    uint64_t t1 = os->now_ns(os);
    if (st >= 0) st = zi_exec_resume(zi_engine_exec(e));
    uint64_t t2 = os->now_ns(os);
    zi_tier_close(t);
    if (st >= 0) st = zi_tier_open(os, spec, &t); /* a fresh file, as a suspension has */
    if (st < 0) return st;
    st = zi_tier_measure(t, *ret_bytes, &out_rate, &in_rate);
    zi_tier_close(t);
    if (st < 0) return st;
    ret_s[0] = (double)(t1 - t0) / 1e9;
    ret_s[1] = (double)(t2 - t1) / 1e9;
    ret_s[2] = (double)*ret_bytes / out_rate;
    ret_s[3] = (double)*ret_bytes / in_rate;
    return ZICO_OK;
}

int
main(int argc, char **argv)
{
    const char       *net = argc > 1 ? argv[1] : "resnet50:classes=10,size=64";
    int64_t           batch = argc > 2 ? atoll(argv[2]) : 8;
    size_t            n = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    const char       *tmp = getenv("TMPDIR");
    zi_train_diag     diag = {0};
    zi_optim          optim = zi_optim_default(ZI_OPTIM_ADAM);
    zi_engine_options eo = {.optim = &optim, .budget_bytes = 4096 * MIB, .socket = ""};
    zi_graph         *g;
    zi_engine        *e;
    char              spec[4200];
    double            s[4], part[4][64];
    uint64_t          bytes = 0;

    if (n < 1 || n > 64) return fputs("1 to 64 rounds\n", stderr), 2;
    snprintf(spec, sizeof spec, "file:%s", tmp && *tmp ? tmp : "/var/tmp");
    zico_status st = zi_net_build(zi_os_real(), net, batch, true, 1, &diag, &g);
    if (st >= 0) st = zi_engine_new(g, &eo, &diag, &e);
    if (st < 0) return fprintf(stderr, "%s: %s\n", net, zico_status_text(st)), 1;
    for (size_t i = 0; i < n && st >= 0; i++) {
        st = one_round(e, spec, s, &bytes);
        for (int k = 0; k < 4; k++) part[k][i] = s[k];
    }
    zi_engine_free(e);
    if (st < 0) return fprintf(stderr, "%s: %s\n", spec, zico_status_text(st)), 1;
    for (int k = 0; k < 4; k++) s[k] = median(part[k], n);
    printf("%s: %llu MiB kept; suspend %.3f s (tier alone %.3f s: %.2f), resume %.3f s "
           "(%.3f s: %.2f); medians of %zu\n",
           net, (unsigned long long)(bytes / MIB), s[0], s[2], s[0] / s[2], s[1], s[3],
           s[1] / s[3], n);
    return 0;
}

/* hello_lease.c -- a program that shares memory with others, in one page.
 *
 * ctest: run
 *
 * With a broker (`zico serve --budget 256M`) every copy of this program you start takes its
 * memory from the same 256 MiB: run five of them.  Without one it brings a pool of its own,
 * so that the example always works.
 */
#include <stdio.h>
#include <string.h>
#include <zico/client.h>

#define MIB     (1024u * 1024u)
#define N_LAYER 8

static int
fail(zico_session *s, const char *what, zico_status st)
{
    char why[512] = "";

    zico_last_message(s, why, sizeof why);
    fprintf(stderr, "%s: %s. %s\n", what, zico_status_text(st), why);
    return 1;
}

/* One training step: memory rises in the forward pass and falls in the backward pass. */
static zico_status
run_step(zico_session *s)
{
    void       *feature[N_LAYER];
    zico_status st = zico_step_begin(s, ZICO_FOREVER); /* waits for a good moment */

    if (st < 0) return st;
    for (int i = 0; i < N_LAYER; i++) {
        st = zico_alloc(s, ZICO_CLASS_STEP, 4 * MIB, 64, ZICO_FOREVER, &feature[i]);
        if (st < 0) return st;
        memset(feature[i], i, 4 * MIB); /* "forward" */
    }
    for (int i = N_LAYER; i-- > 0;) {
        if (((char *)feature[i])[MIB] != i) return ZICO_E_CORRUPT; /* "backward" */
        zico_free(s, feature[i]); /* another job may have it a moment later */
    }
    return zico_step_end(s);
}

int
main(void)
{
    zico_session_options opt = ZICO_SESSION_OPTIONS_INIT;
    zico_session        *s = NULL;
    zico_stats           stats = {.struct_size = sizeof stats};

    opt.job_name = "hello";
    zico_status st = zico_session_open(&opt, &s);
    if (st == ZICO_E_NOTFOUND) { /* no broker runs: a pool of our own */
        opt.local_bytes = 64 * MIB;
        st = zico_session_open(&opt, &s);
    }
    if (st < 0) return fail(NULL, "no session", st);
    for (int step = 0; step < 5 && st >= 0; step++) st = run_step(s);
    if (st < 0) return fail(s, "step failed", st);

    st = zico_session_stats(s, &stats);
    if (st < 0) return fail(s, "no statistics", st);
    printf("%llu steps, at most %llu MiB at once, %llu MiB handed on\n",
           (unsigned long long)stats.n_steps, (unsigned long long)stats.peak_bytes / MIB,
           (unsigned long long)stats.exchanged_bytes / MIB);
    zico_session_close(s);
    return 0;
}

/* sawtooth.c -- a job whose memory rises and falls, and which trusts nobody.
 *
 *   sawtooth NAME SEED STEPS STEP_BYTES FIXED_BYTES
 *
 * Every block is filled with a pattern of its own when it is taken and checked when it is
 * given back: a block that another job wrote into is found.  STEPS 0: until SIGTERM.  The
 * broker's socket comes from ZICO_SOCKET.
 *
 * Exit codes: 0 all well, 3 a pattern was damaged, 4 a call failed.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "zico/client.h"

#define BLOCKS_MAX 64
#define PAGE       4096u

static volatile sig_atomic_t stop;

static void
on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static uint64_t rng;

static uint64_t
draw(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

typedef struct block {
    uint64_t *at;
    size_t    bytes;
    uint64_t  mark;
} block;

static void
fail(const char *what, zico_status st, zico_session *s)
{
    char text[512] = "";
    if (s) zico_last_message(s, text, sizeof text);
    fprintf(stderr, "sawtooth %d: %s: %s: %s\n", (int)getpid(), what,
            zico_status_name(st), text);
    exit(4);
}

/* The first and last word of every page. */
static void
paint(block *b)
{
    for (size_t at = 0; at + PAGE <= b->bytes; at += PAGE) {
        b->at[at / 8] = b->mark ^ at;
        b->at[(at + PAGE) / 8 - 1] = b->mark ^ at ^ 1;
    }
}

static void
check(const block *b)
{
    for (size_t at = 0; at + PAGE <= b->bytes; at += PAGE)
        if (b->at[at / 8] != (b->mark ^ at) ||
            b->at[(at + PAGE) / 8 - 1] != (b->mark ^ at ^ 1)) {
            fprintf(stderr, "sawtooth %d: block %p of %zu bytes is damaged at %zu\n",
                    (int)getpid(), (void *)b->at, b->bytes, at);
            exit(3);
        }
}

static block
take(zico_session *s, zico_class cls, size_t bytes)
{
    block       b = {.bytes = bytes, .mark = draw()};
    void       *p;
    zico_status st = zico_alloc(s, cls, bytes, 64, ZICO_FOREVER, &p);
    if (st < 0) fail("zico_alloc", st, s);
    b.at = p;
    paint(&b);
    return b;
}

static void
give(zico_session *s, block *b)
{
    check(b);
    zico_free(s, b->at);
}

/* One step: blocks rise to step_bytes, then fall in reverse, with short-lived ones between. */
static void
step(zico_session *s, size_t step_bytes)
{
    block  stack[BLOCKS_MAX];
    size_t n = 0, held = 0;

    while (n < BLOCKS_MAX && held < step_bytes) {
        size_t bytes = PAGE * (1 + draw() % (step_bytes / 8 / PAGE + 1));
        if (bytes > step_bytes - held)
            bytes = (step_bytes - held + PAGE - 1) / PAGE * PAGE;
        stack[n++] = take(s, ZICO_CLASS_STEP, bytes);
        held += bytes;
        if (draw() % 4 == 0) {
            block t = take(s, ZICO_CLASS_TEMPORARY, PAGE * (1 + draw() % 16));
            give(s, &t);
        }
    }
    while (n > 0) {
        size_t k =
            draw() % 4 == 0 ? draw() % n : n - 1; /* mostly, not always, in reverse */
        give(s, &stack[k]);
        stack[k] = stack[--n];
    }
}

/* A broker that was just killed is back in a moment: try for ten seconds. */
static zico_status
join(const zico_session_options *opt, zico_session **ret)
{
    zico_status st = ZICO_E_GONE;
    for (int i = 0; i < 1000 && !stop; i++) {
        st = zico_session_open(opt, ret);
        if (st != ZICO_E_NOTFOUND && st != ZICO_E_GONE) return st;
        usleep(10000);
    }
    return st;
}

int
main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: sawtooth NAME SEED STEPS STEP_BYTES FIXED_BYTES\n");
        return 2;
    }
    rng = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull + 1;
    uint64_t steps = strtoull(argv[3], NULL, 10);
    size_t   step_bytes = strtoull(argv[4], NULL, 10),
           fixed_bytes = strtoull(argv[5], NULL, 10);

    signal(SIGTERM, on_term);
    zico_session_options opt = ZICO_SESSION_OPTIONS_INIT;
    zico_session        *s = NULL;
    opt.job_name = argv[1];
    opt.steps_total = steps;
    zico_status st = join(&opt, &s);
    if (st < 0 && stop) return 0; /* told to end before there was a broker to join */
    if (st < 0) fail("zico_session_open", st, NULL);

    block fixed = {0};
    if (fixed_bytes) fixed = take(s, ZICO_CLASS_FIXED, fixed_bytes);
    for (uint64_t i = 0; !stop && (steps == 0 || i < steps); i++) {
        st = zico_step_begin(s, ZICO_FOREVER);
        if (st < 0) fail("zico_step_begin", st, s);
        step(s, step_bytes);
        st = zico_step_end(s);
        if (st < 0) fail("zico_step_end", st, s);
        if (fixed_bytes) check(&fixed);
    }
    if (fixed_bytes) give(s, &fixed);
    zico_session_close(s);
    return 0;
}

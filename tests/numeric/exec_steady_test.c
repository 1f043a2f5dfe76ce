/* tests/numeric/exec_steady_test.c -- once steps run, nothing is allocated any more.
 *
 * The allocation functions of this program stand before libc's, so that every call from
 * every library comes by here.  In steps 3 to 5 none may come from us, and no buffer from
 * anybody.  What is left is small, made and freed within one call, and not ours to avoid:
 *
 *   oneDNN    dnnl_primitive_execute keeps its list of operands in a hash table;
 *   libgomp   a parallel region of one thread makes a team and throws it away.
 *
 * ctest: no-asan  ctest: no-tsan  timeout: 300 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include "exec_train.h"

/* -- counting ------------------------------------------------------------------------------ */

#define NOTES 65536u

typedef struct note {
    const void *caller;
    size_t      n_bytes;
} note;

static atomic_bool     counting;
static atomic_size_t   n_calls;
static _Atomic int64_t live; /* calls that made a block - calls that freed one */
static note            notes[NOTES];

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void  __libc_free(void *p);

static void
took(const void *caller, size_t n_bytes)
{
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
    const size_t i = atomic_fetch_add(&n_calls, 1);
    if (i < NOTES) notes[i] = (note){caller, n_bytes};
    atomic_fetch_add(&live, 1);
}

#define CALLER __builtin_return_address(0)
#define SHOWN  __attribute__((visibility("default"))) /* libraries must find these */

SHOWN void *
malloc(size_t n)
{
    took(CALLER, n);
    return __libc_malloc(n);
}

SHOWN void *
calloc(size_t n, size_t size)
{
    took(CALLER, n * size);
    return __libc_calloc(n, size);
}

SHOWN void *
realloc(void *p, size_t n)
{
    took(CALLER, n);
    if (p && atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_sub(&live, 1);
    return __libc_realloc(p, n);
}

SHOWN void *
memalign(size_t align, size_t n)
{
    took(CALLER, n);
    return __libc_memalign(align, n);
}

SHOWN void *
aligned_alloc(size_t align, size_t n)
{
    took(CALLER, n);
    return __libc_memalign(align, n);
}

SHOWN int
posix_memalign(void **ret, size_t align, size_t n)
{
    took(CALLER, n);
    *ret = __libc_memalign(align, n);
    return *ret ? 0 : ENOMEM;
}

SHOWN void
free(void *p)
{
    if (p && atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_sub(&live, 1);
    __libc_free(p);
}

/* -- judging ------------------------------------------------------------------------------- */

/* The few that are allowed: who, and how large at most. */
static const struct {
    const char *file;
    size_t      n_bytes;
} allowed[] = {{"/libstdc++.", 256}, {"/libdnnl.", 256}, {"/libgomp.", 2048}};

static bool
is_allowed(const note *n, bool buffers)
{
    Dl_info     where;
    const char *file = dladdr(n->caller, &where) ? strrchr(where.dli_fname, '/') : NULL;

    for (size_t i = 0; file && i < sizeof allowed / sizeof *allowed; i++)
        if (strncmp(file, allowed[i].file, strlen(allowed[i].file)) == 0)
            return n->n_bytes <= allowed[i].n_bytes || (buffers && i == 1);
    return false;
}

/* Without AVX-512 matrix products go through dnnl_sgemm, and weights' gradients of very small images
 * through oneDNN's gemm:jit: both bring their own buffer. */
static bool
uses_buffers(const zi_exec *e)
{
    for (zi_node_id n = 0; n < zi_exec_graph(e)->n_nodes; n++) {
        const char *kernel = zi_exec_kernel_text(e, n);
        if (strcmp(kernel, "onednn:sgemm") == 0 || strstr(kernel, "gemm:jit"))
            return true;
    }
    return false;
}

static void
judge(const char *what, bool buffers)
{
    const size_t n = n_calls;
    size_t       bad = 0;

    for (size_t i = 0; i < n && i < NOTES; i++) {
        Dl_info where = {0};
        if (is_allowed(&notes[i], buffers)) continue;
        dladdr(notes[i].caller, &where);
        if (bad++ < 8)
            print_error("%s: %zu bytes for %s (%s)\n", what, notes[i].n_bytes,
                        where.dli_sname ? where.dli_sname : "?",
                        where.dli_fname ? where.dli_fname : "?");
    }
    print_message("%s: %zu calls, %lld blocks left\n", what, n, (long long)live);
    assert_true(n < NOTES);
    assert_int_equal(0, bad);
    assert_int_equal(0, live);
}

/* -- networks ------------------------------------------------------------------------------ */

static size_t
make_feeds(const zi_graph *g, zi_exec_feed *ret_feeds)
{
    size_t n = 0;

    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        if (!xt_is_fed(g, t)) continue;
        ret_feeds[n++] = (zi_exec_feed){t, calloc(1, g->tensors[t].bytes)};
    }
    return n;
}

static void
begin_counting(void)
{
    atomic_store(&n_calls, 0);
    atomic_store(&live, 0);
    atomic_store(&counting, true);
}

static void
run_net(const char *spec, int64_t batch, unsigned n_threads, zi_session *session)
{
    zi_graph           *g = xt_graph(spec, batch, 1, ZI_OPTIM_MOMENTUM);
    zi_exec_feed        feeds[8];
    const size_t        n_feeds = make_feeds(g, feeds);
    zi_exec_options     opt = {.graph = g, .n_threads = n_threads, .session = session};
    zi_exec            *e;
    zi_exec_step_result r;
    char                what[128];

    expect_ok(zi_exec_new(&opt, NULL, &e));
    for (uint64_t s = 1; s <= 5; s++) {
        if (s == 3) {
            expect_ok(zi_exec_drain(e));
            begin_counting();
        }
        expect_ok(zi_exec_step(e, feeds, n_feeds, 1e-3f, s));
        expect_ok(zi_exec_result(e, true, &r));
    }
    expect_ok(zi_exec_drain(e));
    atomic_store(&counting, false);
    expect_ok(r.status);
    snprintf(what, sizeof what, "%s, %u threads%s", spec, n_threads,
             session ? ", in a session" : "");
    judge(what, uses_buffers(e));
    zi_exec_free(e);
    for (size_t i = 0; i < n_feeds; i++) free((void *)(uintptr_t)feeds[i].data);
    zi_graph_free(g);
}

static const struct {
    const char *spec;
    int64_t     batch;
} nets[] = {{"resnet20:size=16", 4},
            {"resnet18:size=32,classes=10", 2},
            {"resnet34:size=32,classes=10", 2},
            {"resnet50:size=32,classes=10", 2},
            {"vgg16:size=32,classes=10,width=64", 2},
            {"mobilenet_v2:size=32,classes=10", 2},
            {"densenet121:size=32,classes=10", 2},
            {"unet:size=32,width=16", 2},
            {"lstm_lm:vocab=200,width=64,hidden=64,seq=6", 4},
            {"gpt:vocab=200,seq=32,width=64,layers=2,heads=4,dropout=0.1", 4},
            {"mlp", 16}};
#define N_NETS (sizeof nets / sizeof nets[0])

/* The counter sees what this program, and what a library, allocates. */
static void
counter_works(void **state)
{
    (void)state;
    begin_counting();
    char *volatile own = malloc(100);
    char *volatile libs = strdup("from within libc");
    atomic_store(&counting, false);
    assert_int_equal(2, n_calls);
    assert_int_equal(2, live);
    assert_int_equal(100, notes[0].n_bytes);
    free(own);
    free(libs);
}

/* Every network of the zoo, with one thread and with two. */
static void
every_network(void **state)
{
    (void)state;
    assert_int_equal(zi_zoo_count(), N_NETS);
    for (size_t i = 0; i < N_NETS; i++)
        for (unsigned nt = 1; nt <= 2; nt++)
            run_net(nets[i].spec, nets[i].batch, nt, NULL);
}

/* Regions that come and go in every step cost no allocation either. */
static void
in_a_session(void **state)
{
    zi_session_options so = {.local_bytes = 512u << 20, .local_region_bytes = 2u << 20};
    zi_session        *s;

    (void)state;
    expect_ok(zi_session_open(&so, &s));
    run_net("resnet20:size=32", 32, 2, s);
    run_net("gpt:vocab=200,seq=32,width=64,layers=2,heads=4,dropout=0.1", 8, 2, s);
    zi_session_close(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_works),
        cmocka_unit_test(every_network),
        cmocka_unit_test(in_a_session),
    };
    return t_main(tests);
}

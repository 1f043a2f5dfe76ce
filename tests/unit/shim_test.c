/* shim_test.c -- where a large block goes, when steps begin, and what refusal looks like. */
#include "hook/hook.h"
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* A lender that counts, lends from one buffer, and says no when told so. */
static struct {
    _Atomic uint64_t charged; /* several threads charge at once */
    int              n_begun, n_ended, n_live;
    zico_status      answer, begin_answer, join_answer;
    int              n_full;   /* so many takes find every job waiting for every other */
    uint64_t         comes_ns; /* a take that does not wait so long is in vain */
    unsigned         cores;    /* 0: three */
    char            *pool;
    size_t           used;
    zi_piece         piece; /* of the pool, if any is held */
    uint64_t         away;
} fake;

static zico_status
fake_charge(void *self, uint64_t size_bytes, uint64_t wait_ns)
{
    (void)self, (void)wait_ns;
    if (fake.answer < 0) return fake.answer;
    fake.charged += size_bytes;
    return ZICO_OK;
}

static void
fake_uncharge(void *self, uint64_t size_bytes)
{
    (void)self;
    assert_true(fake.charged >= size_bytes);
    fake.charged -= size_bytes;
}

static zico_status
fake_begin(void *self, uint64_t wait_ns)
{
    (void)self, (void)wait_ns;
    fake.n_begun++;
    return fake.begin_answer;
}

static void
fake_end(void *self)
{
    (void)self;
    fake.n_ended++;
}

static zico_status
fake_take(void *self, size_t size, size_t align, uint64_t wait_ns, void **ret)
{
    (void)self;
    if (fake.answer < 0) return fake.answer;
    if (wait_ns < fake.comes_ns) return ZICO_E_TIMEOUT;
    if (fake.n_full > 0 && fake.n_full--) return ZICO_E_NOMEM;
    fake.used = (fake.used + align - 1) & ~(align - 1);
    if (fake.used + size > 64 * MIB) return ZICO_E_BUDGET;
    *ret = fake.pool + fake.used;
    fake.used += size;
    fake.n_live++;
    return ZICO_OK;
}

static void
fake_give(void *self, void *block)
{
    (void)self, (void)block;
    if (--fake.n_live == 0) fake.used = 0;
}

static bool
fake_owns(void *self, const void *p)
{
    (void)self;
    return (size_t)((const char *)p - fake.pool) < 64 * MIB;
}

static size_t
fake_usable(void *self, const void *block)
{
    (void)self, (void)block;
    return 2 * MIB; /* tests take blocks of this size from the pool */
}

static void
fake_trim(void *self)
{
    (void)self;
}

static size_t
fake_pieces(void *self, zi_piece *ret, size_t cap)
{
    (void)self;
    if (fake.piece.len && cap) ret[0] = fake.piece;
    return fake.piece.len > 0;
}

static uint64_t
fake_leave_pool(void *self, const zi_piece *p, size_t n, int fd, uint64_t off)
{
    (void)self;
    if (n == 0) return 0;
    assert_ptr_equal(p->at, mmap(p->at, p->len, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_FIXED, fd, (off_t)off));
    fake.away = p->len;
    return p->len;
}

static zi_outside
fake_outside(void *self)
{
    (void)self;
    return (zi_outside){.away_bytes = fake.away};
}

static uint64_t
fake_come_back(void *self)
{
    uint64_t in = fake.away;
    (void)self;
    fake.away = 0;
    return in;
}

static unsigned
fake_place(void *self, unsigned *ret_first)
{
    (void)self;
    *ret_first = 0;
    return 0;
}

static unsigned
fake_cores(void *self)
{
    (void)self;
    return fake.cores ? fake.cores : 3;
}

static void
fake_stats(void *self, zico_stats *ret)
{
    (void)self;
    ret->private_bytes = fake.charged;
}

static size_t
fake_message(void *self, char *buf, size_t cap)
{
    (void)self;
    return (size_t)snprintf(buf, cap, "the fake says no");
}

static zico_status
fake_join(const zi_hook_options *opt, zi_lender *ret_lender)
{
    (void)opt;
    if (fake.join_answer < 0) return fake.join_answer;
    *ret_lender = (zi_lender){
        .charge = fake_charge,
        .uncharge = fake_uncharge,
        .step_begin = fake_begin,
        .step_end = fake_end,
        .take = fake_take,
        .give = fake_give,
        .owns = fake_owns,
        .usable = fake_usable,
        .trim = fake_trim,
        .pieces = fake_pieces,
        .leave_pool = fake_leave_pool,
        .outside = fake_outside,
        .come_back = fake_come_back,
        .cores = fake_cores,
        .place = fake_place,
        .stats = fake_stats,
        .message = fake_message,
    };
    return ZICO_OK;
}

static int
setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.pool = aligned_alloc(2 * MIB, 64 * MIB);
    zi_hook_options opt = {.mode = ZI_HOOK_JOIN,
                           .min_bytes = MIB,
                           .max_wait_ns = ZICO_FOREVER};
    zi_prev_resolve();
    expect_ok(zi_shim_start(zi_os_real(), &opt, fake_join));
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    zi_shim_stop();
    free(fake.pool);
    return 0;
}

static bool
in_pool(const void *p)
{
    return fake_owns(NULL, p);
}

static zi_hook_stats
stats(void)
{
    zi_hook_stats s = {.struct_size = sizeof s};
    zi_shim_stats(&s);
    return s;
}

/* Before any step a large block is private and charged, and a freed one is given out again. */
static void
private_first(void **state)
{
    (void)state;
    char *p = zi_hook_malloc(2 * MIB);
    assert_true(zi_hook_ours(p));
    assert_false(in_pool(p));
    assert_int_equal(2 * MIB, fake.charged);
    assert_int_equal(2 * MIB, zi_hook_malloc_usable_size(p));
    memset(p, 1, 2 * MIB);
    zi_hook_free(p);
    assert_int_equal(2 * MIB, fake.charged); /* kept, and still charged */
    assert_ptr_equal(p, zi_hook_malloc(2 * MIB));
    assert_int_equal(2 * MIB, fake.charged);
    zi_hook_free(p);
}

static void
take_and_free(void)
{
    void *p[4];

    for (int i = 0; i < 4; i++) p[i] = zi_hook_malloc(40 * MIB);
    assert_int_equal(160 * MIB, fake.charged);
    for (int i = 0; i < 4; i++) zi_hook_free(p[i]);
}

/* A program without steps keeps what it has used at once for its next round; when others wait for
 * memory all of it goes, and for a while little is kept. */
static void
keeps_until_others_wait(void **state)
{
    (void)state;
    take_and_free();
    take_and_free();
    assert_int_equal(160 * MIB, fake.charged);
    zi_shim_recall();
    assert_int_equal(0, fake.charged);
    take_and_free();
    assert_true(fake.charged > 0 && fake.charged <= 80 * MIB);
}

/* ... and never more than it has used at once and a little, whatever sizes it asks for. */
static void
keeps_no_more_than_it_used(void **state)
{
    (void)state;
    for (size_t size = 10; size < 60; size += 10)
        zi_hook_free(zi_hook_malloc(size * MIB));
    assert_true(fake.charged <= (64 + 50) * MIB);
}

/* ... and not for ever: what is not used again while much else is taken goes back. */
static void
kept_in_vain(void **state)
{
    (void)state;
    zi_hook_free(zi_hook_malloc(40 * MIB));
    for (int i = 0; i < 200; i++) zi_hook_free(zi_hook_malloc(10 * MIB));
    assert_int_equal(10 * MIB, fake.charged);
}

/* calloc gives zeroes, also from a block that was used before, and refuses what overflows. */
static void
calloc_is_zero(void **state)
{
    (void)state;
    char *p = zi_hook_malloc(2 * MIB);
    memset(p, 0x5a, 2 * MIB);
    zi_hook_free(p);
    char *q = zi_hook_calloc(2, MIB);
    assert_ptr_equal(p, q);
    for (size_t i = 0; i < 2 * MIB; i++) assert_int_equal(0, q[i]);
    zi_hook_free(q);
    assert_false(zi_hook_big_product(SIZE_MAX / 2, 3));
}

/* Every alignment that is asked for is met; a wrong one gets the C library's answer. */
static void
alignments(void **state)
{
    void *p = NULL;

    (void)state;
    for (size_t align = sizeof(void *); align <= 4 * MIB; align *= 2) {
        assert_int_equal(0, zi_hook_posix_memalign(&p, align, MIB + 1));
        assert_int_equal(0, (uintptr_t)p % align);
        zi_hook_free(p);
        p = zi_hook_aligned_alloc(align, 2 * MIB);
        assert_int_equal(0, (uintptr_t)p % align);
        zi_hook_free(p);
    }
    assert_int_equal(EINVAL, zi_hook_posix_memalign(&p, 24, MIB));
    p = zi_hook_valloc(MIB);
    assert_int_equal(0, (uintptr_t)p % 4096);
    zi_hook_free(p);
}

/* realloc keeps the content on each of its ways: in place, ours to ours, ours to small, small to
 * ours, from NULL, and to nothing. */
static void
realloc_ways(void **state)
{
    (void)state;
    char *p = zi_hook_realloc(NULL, 2 * MIB);
    memset(p, 7, 2 * MIB);
    assert_ptr_equal(p, zi_hook_realloc(p, MIB + 5)); /* in place */
    p = zi_hook_realloc(p, 8 * MIB);
    assert_true(zi_hook_ours(p));
    for (size_t i = 0; i < MIB + 5; i++) assert_int_equal(7, p[i]);
    p = zi_hook_realloc(p, 100); /* back to the previous allocator */
    assert_false(zi_hook_ours(p));
    for (size_t i = 0; i < 100; i++) assert_int_equal(7, p[i]);
    p = zi_hook_reallocarray(p, 3, MIB);
    assert_true(zi_hook_ours(p));
    for (size_t i = 0; i < 100; i++) assert_int_equal(7, p[i]);
    assert_null(zi_hook_realloc(p, 0));
    assert_null(zi_hook_reallocarray(NULL, SIZE_MAX, 2));
    assert_int_equal(ENOMEM, errno);
}

/* The training thread's first large block after a step's end begins the next step and lives in
 * the pool; what outlived the step is private the next time. */
static void
steps(void **state)
{
    void *kept = NULL;

    (void)state;
    void *fixed = zi_hook_malloc(8 * MIB);
    assert_false(in_pool(fixed));
    zi_shim_train_begin(NULL, 0);
    assert_int_equal(0, fake.n_begun);
    for (int step = 0; step < 4; step++) {
        void *a = zi_hook_malloc(2 * MIB);
        assert_int_equal(step + 1, fake.n_begun);
        assert_true(in_pool(a));
        void *b = zi_hook_malloc(2 * MIB);
        assert_int_equal(step == 0, in_pool(b)); /* learnt: b is kept for a step */
        zi_hook_free(kept);
        kept = b;
        zi_hook_free(a);
        zi_shim_step();
        assert_int_equal(step + 1, fake.n_ended);
    }
    assert_int_equal(1, stats().n_surprises);
    assert_int_equal(4, stats().n_steps);
    zi_hook_free(kept);
    zi_hook_free(fixed);
    assert_int_equal(0, fake.n_live);
}

/* Sizes of parameters are private from the first step on (gradients, optimizer state). */
static void
hinted_sizes(void **state)
{
    const uint64_t sizes[] = {3 * MIB, 100};

    (void)state;
    zi_shim_train_begin(sizes, 2);
    void *grad = zi_hook_malloc(3 * MIB), *map = zi_hook_malloc(2 * MIB);
    assert_false(in_pool(grad));
    assert_true(in_pool(map));
    zi_hook_free(grad);
    zi_hook_free(map);
}

static void *
other_thread(void *arg)
{
    void *p = zi_hook_malloc(2 * MIB);
    *(bool *)arg = in_pool(p);
    zi_hook_free(p);
    return NULL;
}

/* Another thread neither begins the step nor waits for it, and stays out of the pool. */
static void
other_threads(void **state)
{
    pthread_t t;
    bool      pooled = true;

    (void)state;
    zi_shim_step();
    assert_int_equal(0, pthread_create(&t, NULL, other_thread, &pooled));
    pthread_join(t, NULL);
    assert_false(pooled);
    assert_int_equal(0, fake.n_begun);
}

/* Refusal is NULL with ENOMEM (or the number itself), in each family, and leaves nothing behind. */
static void
refusal(void **state)
{
    void *p = (void *)1, *small;

    (void)state;
    fake.answer = ZICO_E_BUDGET;
    errno = 0;
    assert_null(zi_hook_malloc(2 * MIB));
    assert_int_equal(ENOMEM, errno);
    assert_int_equal(ENOMEM, zi_hook_posix_memalign(&p, 64, 2 * MIB));
    assert_ptr_equal((void *)1, p);
    assert_null(zi_hook_calloc(4, MIB));
    small = malloc(100);
    memset(small, 3, 100);
    assert_null(zi_hook_realloc(small, 2 * MIB)); /* and small is still there */
    assert_int_equal(3, ((char *)small)[99]);
    free(small);
    assert_int_equal(0, fake.charged);
    assert_int_equal(4, stats().n_refused);

    fake.answer = ZICO_OK; /* a wait that ends: the step may not begin */
    fake.begin_answer = ZICO_E_TIMEOUT;
    zi_shim_step();
    assert_null(zi_hook_malloc(2 * MIB));
    fake.begin_answer = ZICO_OK;
    p = zi_hook_malloc(2 * MIB);
    assert_true(in_pool(p));
    zi_hook_free(p);
}

/* Refused inside a step because all wait for all: the step ends for the lender and begins again when
 * it says so, and the block comes; a lender that never has room is believed in the end. */
static void
steps_aside(void **state)
{
    (void)state;
    zi_shim_step();
    void *a = zi_hook_malloc(2 * MIB);
    assert_non_null(a);
    assert_int_equal(1, fake.n_begun);
    fake.n_full = 2;
    void *b = zi_hook_malloc(2 * MIB);
    assert_non_null(b);
    assert_int_equal(3, fake.n_begun);
    assert_int_equal(2, fake.n_ended);
    assert_int_equal(2, stats().n_asides);
    fake.n_full = 1000;
    errno = 0;
    assert_null(zi_hook_malloc(2 * MIB));
    assert_int_equal(ENOMEM, errno);
    fake.n_full = 0;
    zi_hook_free(a);
    zi_hook_free(b);
}

/* What a step has freed and will take again stays charged while a block of the pool is waited for a
 * moment; a long wait is worth giving it back. */
static void
short_waits_cost_no_charge(void **state)
{
    const uint64_t sizes[] = {3 * MIB};

    (void)state;
    zi_shim_train_begin(sizes, 1);
    void *map = zi_hook_malloc(2 * MIB), *grad = zi_hook_malloc(3 * MIB);
    assert_true(in_pool(map) && !in_pool(grad));
    zi_hook_free(grad);
    fake.comes_ns = 10000000u;
    void *soon = zi_hook_malloc(2 * MIB);
    assert_true(in_pool(soon));
    assert_int_equal(3 * MIB, fake.charged);
    fake.comes_ns = 2000000000u;
    void *late = zi_hook_malloc(2 * MIB);
    assert_true(in_pool(late));
    assert_int_equal(0, fake.charged);
    zi_hook_free(map);
    zi_hook_free(soon);
    zi_hook_free(late);
}

/* A lender that cannot be asked (the broker is gone for good) is no refusal. */
static void
lender_gone(void **state)
{
    (void)state;
    fake.answer = ZICO_E_GONE;
    zi_shim_step();
    char *p = zi_hook_malloc(2 * MIB);
    assert_non_null(p);
    memset(p, 1, 2 * MIB);
}

/* free keeps errno. */
static void
errno_is_kept(void **state)
{
    (void)state;
    void *p = zi_hook_malloc(50 * MIB), *q = zi_hook_malloc(50 * MIB);
    errno = 77;
    zi_hook_free(p);
    zi_hook_free(q);
    assert_int_equal(77, errno);
}

/* A forked child reads and frees what it inherited, and takes new blocks elsewhere; the parent's
 * charges do not change. */
static void
forked_child(void **state)
{
    int status;

    (void)state;
    char *p = zi_hook_malloc(2 * MIB);
    memset(p, 9, 2 * MIB);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool  ok = p[MIB] == 9 && zi_hook_malloc_usable_size(p) == 2 * MIB;
        char *q = zi_hook_big(4 * MIB) ? NULL : zi_hot_state.prev.malloc(4 * MIB);
        ok = ok && q && !zi_hook_ours(q);
        p = zi_hook_realloc(p, 8 * MIB);
        ok = ok && p && !zi_hook_ours(p) && p[MIB] == 9;
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, status);
    assert_int_equal(2 * MIB, fake.charged);
    assert_int_equal(9, p[0]);
    zi_hook_free(p);
}

/* Moved out, a block is uncharged and still there for readers and writers; moved in, it is charged
 * and has what was written meanwhile. */
static void
out_and_in(void **state)
{
    uint64_t out = 0;

    (void)state;
    char *p = zi_hook_malloc(2 * MIB), *q = zi_hook_malloc(3 * MIB);
    memset(p, 5, 2 * MIB);
    memset(q, 6, 3 * MIB);
    expect_ok(zi_shim_move_out(NULL, &out));
    assert_int_equal(5 * MIB, out);
    assert_int_equal(0, fake.charged);
    assert_int_equal(5, p[2 * MIB - 1]);
    assert_int_equal(2 * MIB, zi_hook_malloc_usable_size(p));
    p[MIB] = 7;
    zi_hook_free(q); /* not charged: nothing is given back */
    assert_int_equal(0, fake.charged);

    expect_ok(zi_shim_move_in(NULL));
    assert_int_equal(2 * MIB, fake.charged);
    assert_int_equal(5, p[0]);
    assert_int_equal(7, p[MIB]);
    assert_int_equal(5, p[2 * MIB - 1]);
    zi_hook_free(p);
}

/* In the middle of a step what is held of the pool goes along, behind the rest in one file. */
static void
pool_goes_along(void **state)
{
    uint64_t out = 0;

    (void)state;
    zi_shim_step();
    char *p = zi_hook_malloc(2 * MIB);
    assert_true(in_pool(p));
    memset(p, 3, 2 * MIB);
    zi_shim_step();
    char *q = zi_hook_malloc(3 * MIB);
    memset(q, 4, 3 * MIB);
    fake.piece = (zi_piece){fake.pool, 2 * MIB};
    uint64_t charged = fake.charged;
    expect_ok(zi_shim_move_out(NULL, &out));
    assert_int_equal(charged + 2 * MIB, out);
    assert_int_equal(0, fake.charged);
    memset(fake.pool + 2 * MIB, 0, MIB);
    assert_int_equal(3, p[2 * MIB - 1]);
    expect_ok(zi_shim_move_in(NULL));
    assert_int_equal(charged + 2 * MIB, fake.charged);
    assert_int_equal(3, p[0]);
    fake.piece.len = 0;
    fake.charged -= 2 * MIB; /* the lender's own from now on */
    zi_hook_free(p);
    zi_hook_free(q);
}

/* No room to come back yet: it stays out, valid, and may be tried again. */
static void
refused_to_come_in(void **state)
{
    uint64_t out;

    (void)state;
    char *p = zi_hook_malloc(2 * MIB);
    p[7] = 1;
    expect_ok(zi_shim_move_out(NULL, &out));
    fake.answer = ZICO_E_TIMEOUT;
    assert_int_equal(ZICO_E_TIMEOUT, zi_shim_move_in(NULL));
    assert_int_equal(1, p[7]);
    fake.answer = ZICO_OK;
    expect_ok(zi_shim_move_in(NULL));
    assert_int_equal(2 * MIB, fake.charged);
    assert_int_equal(1, p[7]);
    zi_hook_free(p);
}

static void *
spin(void *stop)
{
    while (!atomic_load((_Atomic(bool) *)stop)) {
    }
    return NULL;
}

/* While another thread runs, nothing is moved: it might be writing. */
static void
never_under_a_running_thread(void **state)
{
    _Atomic(bool) stop = false;
    pthread_t     t;
    uint64_t      out = 1;

    (void)state;
    char *p = zi_hook_malloc(2 * MIB);
    assert_int_equal(0, pthread_create(&t, NULL, spin, &stop));
    assert_int_equal(ZICO_E_BUSY, zi_shim_move_out(NULL, &out));
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    assert_int_equal(0, out);
    assert_int_equal(2 * MIB, fake.charged);
    zi_hook_free(p);
}

/* The folder cannot be written: the job stays as it is. */
static void
no_place_to_go(void **state)
{
    zi_hook_options opt = {.mode = ZI_HOOK_JOIN,
                           .min_bytes = MIB,
                           .max_wait_ns = ZICO_FOREVER,
                           .spill_dir = "/proc/none"};
    uint64_t        out;

    (void)state;
    zi_shim_stop();
    expect_ok(zi_shim_start(zi_os_real(), &opt, fake_join));
    char *p = zi_hook_malloc(2 * MIB);
    assert_true(zi_shim_move_out(NULL, &out) < 0);
    assert_int_equal(2 * MIB, fake.charged);
    zi_hook_free(p);
}

/* Cores: what the lender says, the fixed number, or none of our business. */
static void
cores(void **state)
{
    (void)state;
    assert_int_equal(0, zi_shim_cores()); /* not a job yet */
    zi_hook_free(zi_hook_malloc(MIB));
    assert_int_equal(3, zi_shim_cores());
}

/* Between steps only: within one an operator may have taken memory for each of its threads. */
static void
threads_change_between_steps(void **state)
{
    void *gomp = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_GLOBAL);
    int (*count)(void);

    (void)state;
    assert_non_null(gomp);
    void *p = dlsym(gomp, "omp_get_max_threads");
    memcpy(&count, &p, sizeof count);
    fake.cores = 2;
    zi_hook_free(zi_hook_malloc(2 * MIB));
    zi_shim_train_begin(NULL, 0);
    zi_hook_free(zi_hook_malloc(2 * MIB));
    zi_shim_step();
    assert_int_equal(2, count());
    fake.cores = 1;
    void *a = zi_hook_malloc(2 * MIB), *b = zi_hook_malloc(2 * MIB);
    assert_int_equal(2, count());
    zi_hook_free(a);
    zi_hook_free(b);
    zi_shim_step();
    assert_int_equal(1, count());
}

/* Without a broker everything passes, and nobody is asked again. */
static void
no_broker(void **state)
{
    (void)state;
    fake.join_answer = ZICO_E_NOTFOUND;
    void *p = zi_hook_malloc(2 * MIB);
    assert_non_null(p);
    assert_false(zi_hook_ours(p));
    assert_false(zi_hook_big(SIZE_MAX - 1));
    free(p);
}

static void *
churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    char    *p[8] = {0};
    for (int i = 0; i < 400; i++) {
        int k = rand_r(&seed) % 8;
        if (p[k]) {
            if (p[k][5] != (char)k) return (void *)1;
            zi_hook_free(p[k]);
            p[k] = NULL;
        } else if ((p[k] = zi_hook_malloc(MIB + (size_t)(rand_r(&seed) % (int)MIB))))
            p[k][5] = (char)k;
    }
    for (int k = 0; k < 8; k++) zi_hook_free(p[k]);
    return NULL;
}

/* Four threads take and give private blocks at once; each keeps its content. */
static void
many_threads(void **state)
{
    pthread_t t[4];
    void     *bad;

    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(0, pthread_create(&t[i], NULL, churn, (void *)(i + 1)));
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(0, stats().live_bytes);
    assert_int_equal(stats().cached_bytes, fake.charged);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(private_first),
        T(keeps_until_others_wait),
        T(keeps_no_more_than_it_used),
        T(kept_in_vain),
        T(calloc_is_zero),
        T(alignments),
        T(realloc_ways),
        T(steps),
        T(hinted_sizes),
        T(other_threads),
        T(refusal),
        T(steps_aside),
        T(short_waits_cost_no_charge),
        T(lender_gone),
        T(errno_is_kept),
        T(forked_child),
        T(out_and_in),
        T(pool_goes_along),
        T(refused_to_come_in),
        T(never_under_a_running_thread),
        T(no_place_to_go),
        T(cores),
        T(threads_change_between_steps),
        T(many_threads),
        T(no_broker),
    };
    return t_main(tests);
}

/* shim.c -- the hook's state: where a large block goes, and when a step begins and ends. */
#include "hook/hook.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/size.h"
#include "base/try.h"
#include "hook/away.h"
#include "hook/extent.h"
#include "hook/observe.h"
#include "hook/places.h"
#include "hook/predict.h"
#include "hook/threads.h"
#include "hook/weigh.h"

#define POOL_ALIGN_MAX ((size_t)2 << 20) /* what an arena promises */
#define CACHE_BYTES    ((uint64_t)64 << 20)
#define CACHE_IDLE     2u /* steps after which a cached extent goes back */
#define STRETCH_PEAKS  8u /* without steps: so many peaks of bytes taken count as one */
#define KEEP_CACHE_NS  100000000u  /* a wait in a step that is not worth charging anew */
#define FRUGAL_NS      5000000000u /* after the broker has asked for idle memory */
#define WEIGH_TAKES    32u /* large blocks of a step between two looks at the small ones */
#define TEAM_STEPS     32u /* between two looks at who is in OpenMP's team */
#define ASIDE_MAX      16u /* times that a step gives way, before it is refused memory */

typedef enum phase { PHASE_SETUP, PHASE_ARMED, PHASE_IN_STEP } phase;
typedef enum join_state { JOIN_NOT_YET, JOIN_BUSY, JOIN_DONE, JOIN_FAILED } join_state;

static struct {
    const zi_os       *os;
    zi_hook_options    opt;
    pid_t              pid; /* of the process that is the job */
    zi_lender_join_fn *join_fn;

    pthread_mutex_t lock; /* guards the next four; rule 1 */
    zi_extents      extents;
    zi_predict      predict;
    zi_hash         pool; /* address of a live pool block -> step << 32 | key */
    zi_hook_stats   stats;

    _Atomic(int)          join; /* join_state */
    zi_lender             lender;
    _Atomic(int)          phase;
    _Atomic(const void *) trainer; /* the thread that marks steps; address of its guard */
    _Atomic(bool)         child;   /* a forked child: passes everything */
    _Atomic(bool)         said;    /* the one line about a refusal was written */
    bool                  atfork;
    zi_weight             weight;         /* training thread */
    uint32_t              n_takes;        /* of the training thread inside steps */
    _Atomic(uint64_t)     frugal_ns;      /* until then little is kept outside steps */
    uint64_t   most_bytes, stretch_bytes; /* live at most; taken in this stretch */
    uint32_t   n_aside;                   /* times in this step; training thread */
    zi_threads threads;                   /* training thread */
    zi_places  places;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The guard; its address also names the thread. */
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static bool step_aside(void);

static void
lock(void)
{
    pthread_mutex_lock(&shim.lock);
}

static void
unlock(void)
{
    pthread_mutex_unlock(&shim.lock);
}

static void
pass_everything(void)
{
    atomic_store(&zi_hot_state.min_bytes, SIZE_MAX);
}

/* A broken invariant of ours must not hurt the program: from now on everything passes. */
static void
poisoned(const char *file, int line, const char *func, const char *expr)
{
    (void)func;
    pass_everything();
    zi_places_end(&shim.places);
    if (!atomic_exchange(&shim.said, true))
        zi_log(ZI_LOG_ERROR, "%s:%d: '%s' does not hold; zico stays out from here on",
               file, line, expr);
}

/* -- fork ------------------------------------------------------------------------------------ */

static void
fork_prepare(void)
{
    lock();
}

static void
fork_parent(void)
{
    unlock();
}

static void
become_child(void)
{
    atomic_store(&shim.child, true);
    pass_everything();
    zi_places_child(&shim.places);
    zi_observe_close(true);
}

static void
fork_child(void)
{
    pthread_mutex_init(&shim.lock, NULL);
    become_child();
}

/* -- start ------------------------------------------------------------------------------------- */

/* Four times the machine's memory: room for every block and for holes between them. */
static size_t
span_wanted(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return (size_t)64 << 30;
    size_t span = (size_t)pages * (size_t)page * 4;
    return span > ((size_t)8 << 40) ? (size_t)8 << 40 : span;
}

zico_status
zi_shim_start(const zi_os *os, const zi_hook_options *opt, zi_lender_join_fn *join)
{
    shim.os = os;
    shim.opt = *opt;
    shim.pid = getpid();
    if (opt->mode == ZI_HOOK_OFF) return ZICO_OK;
    if (opt->mode == ZI_HOOK_OBSERVE) {
        if (!opt->observe_dir) return ZICO_E_ARG;
        zico_status st = zi_observe_open(os, opt->observe_dir, opt->min_bytes);
        if (st < 0) return st;
    } else {
        zico_status st = zi_extents_open(&shim.extents, os, span_wanted());
        if (st < 0) return st;
        zi_hot_state.lo = (uintptr_t)shim.extents.base;
        zi_hot_state.span = shim.extents.span;
    }
    if (opt->mode == ZI_HOOK_JOIN && opt->core_mode != ZI_CORES_OWN)
        zi_places_open(&shim.places,
                       opt->all_cores && opt->all_cores != (uint32_t)shim.pid);
    shim.join_fn = join;
    if (!shim.atfork) pthread_atfork(fork_prepare, fork_parent, fork_child);
    shim.atfork = true;
    zi_check_set_handler(poisoned);
    atomic_store(&zi_hot_state.min_bytes, opt->min_bytes);
    return ZICO_OK;
}

void
zi_shim_stop(void)
{
    pass_everything();
    zi_check_set_handler(NULL);
    zi_hot_state.lo = zi_hot_state.span = 0;
    atomic_store(&zi_hot_state.pool_lo, UINTPTR_MAX);
    atomic_store(&zi_hot_state.pool_hi, 0);
    zi_extents_close(&shim.extents);
    zi_observe_close(false);
    zi_hash_free(&shim.pool);
    memset(&shim.predict, 0, sizeof shim.predict);
    memset(&shim.stats, 0, sizeof shim.stats);
    shim.weight = (zi_weight){0};
    shim.threads = (zi_threads){0};
    zi_places_end(&shim.places);
    shim.places.on = false;
    shim.most_bytes = shim.stretch_bytes = 0;
    atomic_store(&shim.frugal_ns, 0);
    atomic_store(&shim.join, JOIN_NOT_YET);
    atomic_store(&shim.phase, PHASE_SETUP);
    atomic_store(&shim.trainer, NULL);
    atomic_store(&shim.child, false);
    atomic_store(&shim.said, false);
    shim.opt.mode = ZI_HOOK_OFF;
}

bool
zi_shim_observing(void)
{
    return shim.opt.mode == ZI_HOOK_OBSERVE && !atomic_load(&shim.child);
}

/* Is this process a job now?  The first large block makes it one; a thread that comes while
 * another joins does not wait for it. */
static bool
joined(void)
{
    int was = JOIN_NOT_YET;

    if (atomic_load_explicit(&shim.join, memory_order_acquire) == JOIN_DONE) return true;
    if (!atomic_compare_exchange_strong(&shim.join, &was, JOIN_BUSY)) return false;
    zico_status st = shim.join_fn(&shim.opt, &shim.lender);
    if (st >= 0) {
        atomic_store_explicit(&shim.join, JOIN_DONE, memory_order_release);
        return true;
    }
    atomic_store(&shim.join, JOIN_FAILED);
    pass_everything();
    if (shim.opt.verbose > 0)
        zi_log(ZI_LOG_ERROR, "cannot join a broker (%s); running without zico",
               zico_status_text(st));
    return false;
}

/* One line, once: what was refused and why. */
static zi_taken
refused(size_t size, zico_status st)
{
    char text[ZI_SIZE_TEXT], why[400] = "";

    __atomic_fetch_add(&shim.stats.n_refused, 1, __ATOMIC_RELAXED);
    if (shim.opt.verbose > 0 && !atomic_exchange(&shim.said, true)) {
        shim.lender.message(shim.lender.self, why, sizeof why);
        zi_log(ZI_LOG_ERROR, "a block of %s was refused: %s%s%s",
               zi_size_format(size, text), zico_status_text(st), *why ? "; " : "", why);
    }
    return ZI_TAKEN_REFUSED;
}

/* Statuses that say "no", rather than "cannot be asked". */
static bool
is_refusal(zico_status st)
{
    return st == ZICO_E_BUDGET || st == ZICO_E_NOMEM || st == ZICO_E_TIMEOUT ||
           st == ZICO_E_BUSY || st == ZICO_E_LIMIT;
}

/* -- private extents --------------------------------------------------------------------------- */

/* Unmap cached extents that have been idle for `idle` steps, and uncharge them. */
static void
trim_cache(uint32_t idle)
{
    uint64_t bytes;

    for (;;) {
        lock();
        void *p = zi_extents_pop(&shim.extents, idle, &bytes);
        unlock();
        if (!p) return;
        zi_extents_unback(&shim.extents, p);
        lock();
        zi_extents_forget(&shim.extents, p);
        unlock();
        shim.lender.uncharge(shim.lender.self, bytes);
    }
}

static zico_status
charge_patiently(uint64_t bytes)
{
    if (shim.extents.cached_bytes > 0) {
        zico_status st = shim.lender.charge(shim.lender.self, bytes, 0);
        if (!is_refusal(st)) return st;
        trim_cache(0);
        shim.lender.trim(shim.lender.self);
    }
    return shim.lender.charge(shim.lender.self, bytes, shim.opt.max_wait_ns);
}

/* Our own idle memory goes first, before anybody is asked to wait for us. */
static zico_status
charge(uint64_t bytes)
{
    zico_status st = charge_patiently(bytes);
    while (st == ZICO_E_NOMEM && step_aside()) st = charge_patiently(bytes);
    return st;
}

static void
name_extent(void *p, uint32_t key)
{
    zi_extent *x = zi_extents_find(&shim.extents, p);
    if (!x) return;
    shim.stretch_bytes += x->size_bytes;
    if (shim.extents.live_bytes > shim.most_bytes)
        shim.most_bytes = shim.extents.live_bytes;
    x->key = key;
    x->step = zi_predict_step(&shim.predict);
    shim.stats.n_own_blocks++;
}

static zi_taken
take_fresh(size_t size, size_t align, uint32_t key, void **ret)
{
    uint64_t    bytes = zi_extent_bytes(size);
    zico_status st = charge(bytes);
    bool        charged = st >= 0;

    if (is_refusal(st)) return refused(size, st);
    lock();
    void *p = zi_extents_place(&shim.extents, size, align);
    if (p) name_extent(p, key);
    unlock();
    if (!p) {
        if (charged) shim.lender.uncharge(shim.lender.self, bytes);
        return ZI_TAKEN_PASS;
    }
    st = zi_extents_back(&shim.extents, p);
    if (st < 0) {
        lock();
        zi_extents_forget(&shim.extents, p);
        unlock();
        if (charged) shim.lender.uncharge(shim.lender.self, bytes);
        return refused(size, st);
    }
    *ret = p;
    return ZI_TAKEN_OURS;
}

/* A program without steps repeats itself, too: what was not used again while several times its
 * memory was taken is not needed soon. */
static void
pass_stretch(void)
{
    lock();
    bool over = atomic_load(&shim.phase) == PHASE_SETUP &&
                shim.stretch_bytes > STRETCH_PEAKS * (shim.most_bytes + CACHE_BYTES);
    if (over) {
        shim.stretch_bytes = 0;
        zi_extents_age(&shim.extents);
    }
    unlock();
    if (over) trim_cache(CACHE_IDLE);
}

static zi_taken
take_private(size_t size, size_t align, bool zero, uint32_t key, void **ret)
{
    pass_stretch();
    lock();
    void *p = zi_extents_reuse(&shim.extents, size, align);
    if (p) name_extent(p, key);
    unlock();
    if (!p) return take_fresh(size, align, key, ret);
    if (zero) memset(p, 0, size);
    *ret = p;
    return ZI_TAKEN_OURS;
}

static bool
is_frugal(void)
{
    uint64_t until = atomic_load_explicit(&shim.frugal_ns, memory_order_relaxed);
    return until && shim.os->now_ns(shim.os) < until;
}

/* Inside steps everything that comes back is kept until the step has shown whether it is taken
 * again; outside, as much as was in use at once; little while others wait for memory. */
static bool
worth_keeping(uint64_t bytes)
{
    const zi_extents *e = &shim.extents;
    if (atomic_load(&shim.phase) != PHASE_SETUP) return true;
    if (is_frugal()) return e->cached_bytes + bytes <= CACHE_BYTES + e->live_bytes / 4;
    return e->cached_bytes + e->live_bytes <= CACHE_BYTES + shim.most_bytes;
}

static bool
give_private(void *p)
{
    lock();
    zi_extent *x = zi_extents_find(&shim.extents, p);
    if (!x) {
        unlock();
        return true; /* inside our range and not a block: a double free; nothing to hurt */
    }
    uint64_t bytes = (uint64_t)x->n * ZI_EXTENT_GRAIN;
    zi_predict_drop(&shim.predict, x->key, x->step);
    bool away = x->state == ZI_EXTENT_AWAY, child = atomic_load(&shim.child);
    bool keep = !child && !away && worth_keeping(bytes);
    if (keep) zi_extents_cache(&shim.extents, p);
    unlock();
    if (keep) return true;
    zi_extents_unback(&shim.extents, p);
    lock();
    zi_extents_forget(&shim.extents, p);
    unlock();
    if (!child && !away) shim.lender.uncharge(shim.lender.self, bytes);
    return true;
}

/* -- blocks of the pool ------------------------------------------------------------------------- */

/* Publish the bounds before the block is known to anybody. */
static void
widen_hull(const void *p, size_t size)
{
    uintptr_t at = (uintptr_t)p;
    if (at < atomic_load(&zi_hot_state.pool_lo)) atomic_store(&zi_hot_state.pool_lo, at);
    if (at + size > atomic_load(&zi_hot_state.pool_hi))
        atomic_store(&zi_hot_state.pool_hi, at + size);
}

/* As with charges our own idle memory goes before anybody waits long, but not at once: what is freed
 * in a step is mostly taken again in it (gradients that are dropped and made anew).  Charged a
 * second time it would be more than the step claimed, and others may be waiting for its end. */
static zico_status
borrow_patiently(size_t size, size_t align, void **ret)
{
    uint64_t wait_ns = shim.opt.max_wait_ns;

    if (shim.extents.cached_bytes > 0 && wait_ns > KEEP_CACHE_NS) {
        zico_status st =
            shim.lender.take(shim.lender.self, size, align, KEEP_CACHE_NS, ret);
        if (!is_refusal(st) || st == ZICO_E_NOMEM) return st;
        trim_cache(0);
        wait_ns = wait_ns == UINT64_MAX ? wait_ns : wait_ns - KEEP_CACHE_NS;
    }
    return shim.lender.take(shim.lender.self, size, align, wait_ns, ret);
}

static zico_status
borrow(size_t size, size_t align, void **ret)
{
    zico_status st = borrow_patiently(size, align, ret);
    while (st == ZICO_E_NOMEM && step_aside()) st = borrow_patiently(size, align, ret);
    return st;
}

static zico_status
take_pool(size_t size, size_t align, uint32_t key, void **ret)
{
    void       *p;
    zico_status st = borrow(size, align, &p);
    if (st < 0) return st;
    lock();
    st = zi_hash_put(&shim.pool, (uintptr_t)p,
                     (uint64_t)zi_predict_step(&shim.predict) << 32 | key);
    if (st >= 0) {
        widen_hull(p, size);
        shim.stats.n_pool_blocks++;
    }
    unlock();
    if (st < 0)
        shim.lender.give(shim.lender.self, p);
    else
        *ret = p;
    return st;
}

static bool
give_pool(void *p)
{
    lock();
    uint64_t *at = zi_hash_find(&shim.pool, (uintptr_t)p);
    if (!at) {
        unlock();
        return false;
    }
    zi_predict_drop(&shim.predict, (uint32_t)*at, (uint32_t)(*at >> 32));
    zi_hash_remove(&shim.pool, (uintptr_t)p);
    unlock();
    if (!atomic_load(&shim.child)) shim.lender.give(shim.lender.self, p);
    return true;
}

void
zi_shim_recall(void)
{
    if (atomic_load(&shim.child) || atomic_load(&shim.phase) != PHASE_SETUP) return;
    int was = inside;
    inside = 1;
    atomic_store(&shim.frugal_ns, shim.os->now_ns(shim.os) + FRUGAL_NS);
    trim_cache(0);
    inside = was;
}

/* The small blocks, too, count against the budget; nobody waits for them. */
static void
weigh(void)
{
    if (!shim.opt.weigh) return;
    lock();
    uint64_t large = shim.extents.live_bytes + shim.extents.cached_bytes;
    unlock();
    large += shim.lender.outside(shim.lender.self).in_bytes;
    uint64_t grown = zi_weight_grown(&shim.weight, zi_weight_anonymous(), large);
    if (grown && shim.lender.charge(shim.lender.self, grown, 0) >= 0)
        shim.weight.charged_bytes += grown;
}

/* -- taking ------------------------------------------------------------------------------------- */

static bool
is_trainer(void)
{
    return atomic_load_explicit(&shim.trainer, memory_order_relaxed) == &inside;
}

/* The broker may change its word in the middle of a step, as others begin, end and wait.  Threads go
 * where it says at once (zi_shim_heard); how many there are is settled at the step's end. */
static void
hear_cores(void)
{
    if (shim.opt.core_mode == ZI_CORES_FOLLOW)
        zi_threads_hear(&shim.threads, (int)shim.lender.cores(shim.lender.self),
                        shim.os->now_ns(shim.os));
}

static void
begin_places(void)
{
    unsigned first, n = shim.lender.place(shim.lender.self, &first);
    zi_places_begin(&shim.places, first, n);
}

void
zi_shim_heard(void)
{
    unsigned first, n, again_first, again;

    if (atomic_load(&shim.child) || atomic_load(&shim.join) != JOIN_DONE) return;
    again = shim.lender.place(shim.lender.self, &again_first);
    do { /* it may change again before we have done as it says */
        first = again_first;
        n = again;
        zi_places_keep(&shim.places, first, n);
        again = shim.lender.place(shim.lender.self, &again_first);
    } while (again != n || again_first != first);
}

/* The broker says when.  The cache and what the arena holds go back before the wait. */
static zico_status
begin_step(void)
{
    zico_status st = shim.lender.step_begin(shim.lender.self, shim.opt.max_wait_ns);
    if (st < 0 && st != ZICO_E_STATE) return st;
    shim.n_aside = 0;
    atomic_store(&shim.phase, PHASE_IN_STEP);
    begin_places();
    hear_cores();
    return ZICO_OK;
}

/* In the pool if it is ours to use now and the block is expected to die within the step. */
static zi_taken
take_placed(size_t size, size_t align, bool zero, uint32_t key, zi_fate fate, void **ret)
{
    if (is_trainer() && atomic_load(&shim.phase) == PHASE_IN_STEP &&
        fate != ZI_FATE_OUTLIVES && align <= POOL_ALIGN_MAX) {
        zico_status st = take_pool(size, align, key, ret);
        if (st >= 0 && zero) memset(*ret, 0, size);
        if (st >= 0) return ZI_TAKEN_OURS;
        if (is_refusal(st)) return refused(size, st);
    }
    return take_private(size, align, zero, key, ret);
}

static zi_taken
take_inside(size_t size, size_t align, bool zero, void **ret)
{
    zi_fate  fate = ZI_FATE_UNKNOWN;
    uint32_t key = ZI_PREDICT_NONE, step = 0;
    bool     trainer = is_trainer();

    if (getpid() != shim.pid) { /* a child of a bare clone() */
        become_child();
        return ZI_TAKEN_PASS;
    }
    if (!joined()) return ZI_TAKEN_PASS;
    if (trainer && atomic_load(&shim.phase) == PHASE_ARMED) {
        zico_status st = begin_step();
        if (is_refusal(st)) return refused(size, st);
    }
    if (trainer || atomic_load(&shim.phase) == PHASE_SETUP) {
        lock();
        key = zi_predict_take(&shim.predict, size, &fate);
        step = zi_predict_step(&shim.predict);
        unlock();
    }
    if (trainer && atomic_load(&shim.phase) == PHASE_IN_STEP &&
        ++shim.n_takes % WEIGH_TAKES == 0)
        weigh();
    zi_taken taken = take_placed(size, align, zero, key, fate, ret);
    if (trainer && atomic_load(&shim.phase) == PHASE_IN_STEP) hear_cores();
    if (taken != ZI_TAKEN_OURS && key != ZI_PREDICT_NONE) {
        lock();
        zi_predict_drop(&shim.predict, key, step);
        unlock();
    }
    return taken;
}

zi_taken
zi_shim_take(size_t size, size_t align, bool zero, void **ret)
{
    if (inside || shim.opt.mode != ZI_HOOK_JOIN || atomic_load(&shim.child))
        return ZI_TAKEN_PASS;
    inside = 1;
    zi_taken taken = take_inside(size, align, zero, ret);
    inside = 0;
    return taken;
}

static bool
in_range(const void *p)
{
    return (uintptr_t)p - zi_hot_state.lo < zi_hot_state.span;
}

bool
zi_shim_give(void *p)
{
    int  saved = errno, was = inside;
    bool ours;

    inside = 1;
    ours = in_range(p) ? give_private(p) : give_pool(p);
    inside = was;
    errno = saved;
    return ours;
}

size_t
zi_shim_usable(const void *p)
{
    size_t size = 0;

    lock();
    if (in_range(p)) {
        zi_extent *x = zi_extents_find(&shim.extents, p);
        if (x) size = (size_t)x->n * ZI_EXTENT_GRAIN;
        unlock();
        return size;
    }
    bool known = zi_hash_find(&shim.pool, (uintptr_t)p) != NULL;
    unlock();
    return known ? shim.lender.usable(shim.lender.self, p) : 0;
}

/* -- out and in ------------------------------------------------------------------------------------
 * Called by the session while the training thread waits for its step to begin. */

#define QUIET_TRIES 20
#define QUIET_NS    5000000u

/* All extents of that state, in order, and behind them what is held of the pool. */
typedef struct pieces {
    zi_piece *all;
    size_t    n_extents, n_pool;
} pieces;

static zico_status
list_pieces(zi_extent_state state, pieces *ret)
{
    uint32_t at = 0;
    void    *p;

    *ret = (pieces){0};
    lock();
    size_t n_live = shim.extents.n_live;
    unlock();
    size_t n_pool = shim.lender.pieces(shim.lender.self, NULL, 0);
    if (n_live + n_pool == 0) return ZICO_OK;
    ret->all = zi_malloc((n_live + n_pool) * sizeof *ret->all);
    if (!ret->all) return ZICO_E_NOMEM;
    lock();
    for (zi_extent *x;
         ret->n_extents < n_live && (x = zi_extents_next(&shim.extents, state, &at, &p));)
        ret->all[ret->n_extents++] =
            (zi_piece){.at = p, .len = (size_t)x->n * ZI_EXTENT_GRAIN};
    unlock();
    ret->n_pool = shim.lender.pieces(shim.lender.self, ret->all + ret->n_extents, n_pool);
    if (ret->n_pool > n_pool) ret->n_pool = n_pool;
    return ZICO_OK;
}

/* The other threads sleep, after a moment if need be. */
static bool
quiet_soon(zi_quiet *ret)
{
    for (int i = 0; i < QUIET_TRIES; i++) {
        if (zi_quiet_now(ret)) return true;
        shim.os->sleep_until(shim.os, shim.os->now_ns(shim.os) + QUIET_NS);
    }
    return false;
}

/* The exception to rule 1: with the lock, so that nobody frees or takes an extent while its
 * pages change; short, as nothing is copied here.  False: somebody may have written meanwhile. */
static bool
swap_for_file(const pieces *p, int fd, const zi_quiet *before, uint64_t *ret_off,
              uint64_t *ret_out)
{
    uint64_t off = 0, out = 0;

    lock();
    bool quiet = zi_quiet_since(before);
    for (size_t i = 0; quiet && i < p->n_extents; off += p->all[i++].len) {
        const zi_extent *x = zi_extents_find(&shim.extents, p->all[i].at);
        if (!x || zi_away_map(shim.os, &p->all[i], fd, off) < 0) continue;
        zi_extents_set_away(&shim.extents, p->all[i].at, true);
        out += p->all[i].len;
    }
    unlock();
    *ret_off = off;
    *ret_out = out;
    return quiet;
}

static zico_status
write_and_swap(const pieces *p, uint64_t *ret_own, uint64_t *ret_pool)
{
    zi_quiet before;
    uint64_t off;
    int      fd = -1;

    if (!quiet_soon(&before)) return ZICO_E_BUSY;
    ZI_TRY(zi_away_write(shim.os, shim.opt.spill_dir, p->all, p->n_extents + p->n_pool,
                         &fd));
    bool swapped = swap_for_file(p, fd, &before, &off, ret_own);
    if (swapped)
        *ret_pool = shim.lender.leave_pool(shim.lender.self, p->all + p->n_extents,
                                           p->n_pool, fd, off);
    shim.os->close(shim.os, fd); /* the mappings keep it */
    return swapped && *ret_own + *ret_pool > 0 ? ZICO_OK : ZICO_E_BUSY;
}

zico_status
zi_shim_move_out(void *user, uint64_t *ret_out_bytes)
{
    uint64_t own = 0, pool = 0;
    pieces   p;

    (void)user;
    *ret_out_bytes = 0;
    trim_cache(0);
    zico_status st = list_pieces(ZI_EXTENT_LIVE, &p);
    if (st >= 0 && p.n_extents + p.n_pool > 0) st = write_and_swap(&p, &own, &pool);
    zi_free(p.all);
    shim.lender.uncharge(shim.lender.self, own);
    *ret_out_bytes = own + pool;
    return st;
}

zico_status
zi_shim_move_in(void *user)
{
    pieces   p;
    uint64_t own = 0;

    (void)user;
    lock();
    uint64_t out = shim.extents.away_bytes;
    unlock();
    out += shim.lender.outside(shim.lender.self).away_bytes;
    zico_status st = shim.lender.charge(shim.lender.self, out, shim.opt.max_wait_ns);
    if (is_refusal(st)) return st;
    uint64_t pool = shim.lender.come_back(shim.lender.self);
    st = list_pieces(ZI_EXTENT_AWAY, &p);
    lock();
    for (size_t i = 0; i < p.n_extents; i++) {
        const zi_extent *x = zi_extents_find(&shim.extents, p.all[i].at);
        if (!x || x->state != ZI_EXTENT_AWAY) continue;
        zi_extents_set_away(&shim.extents, p.all[i].at, false);
        own += p.all[i].len;
    }
    unlock();
    if (own + pool < out) /* freed meanwhile */
        shim.lender.uncharge(shim.lender.self, out - own - pool);
    for (size_t i = 0; i < p.n_extents + p.n_pool; i++) zi_away_fetch(shim.os, &p.all[i]);
    zi_free(p.all);
    return st;
}

/* Inside a step, and every job waits for every other: the broker has chosen us to give way.  To
 * it the step ends here and the rest of it is another one, so that it may move us out, let
 * the others go on, and say when.  False: there is nothing to give, or no way back. */
static bool
step_aside(void)
{
    if (shim.opt.no_spill || !is_trainer() || atomic_load(&shim.phase) != PHASE_IN_STEP)
        return false;
    if (shim.n_aside++ >= ASIDE_MAX) return false;
    trim_cache(0);
    shim.lender.step_end(shim.lender.self);
    zico_status st = shim.lender.step_begin(shim.lender.self, shim.opt.max_wait_ns);
    begin_places();
    __atomic_fetch_add(&shim.stats.n_asides, 1, __ATOMIC_RELAXED);
    return st >= 0;
}

/* -- steps --------------------------------------------------------------------------------------- */

/* Blocks of the pool that were taken in this step and are alive at its end. */
static uint64_t
count_surprises(void)
{
    uint64_t key, value, n = 0;
    for (size_t i = 0; zi_hash_next(&shim.pool, &i, &key, &value);)
        n += (uint32_t)(value >> 32) == zi_predict_step(&shim.predict);
    return n;
}

/* This thread marks steps: training has begun. */
static void
begin_training(void)
{
    if (atomic_load(&shim.trainer) == NULL) zi_threads_find(&shim.threads);
    atomic_store(&shim.trainer, &inside);
}

/* Between two steps: as many threads as it had cores, each of them known. */
static void
settle_threads(void)
{
    int team[ZI_PLACES_TEAM_MAX];

    zi_places_end(&shim.places);
    bool changed = zi_threads_use(&shim.threads, shim.os->now_ns(shim.os));
    if (!shim.places.on || (!changed && shim.stats.n_steps % TEAM_STEPS != 1)) return;
    zi_places_team(&shim.places, team,
                   zi_threads_team(&shim.threads, team, ZI_PLACES_TEAM_MAX));
}

static void
end_of_step(void)
{
    bool in_step = atomic_load(&shim.phase) == PHASE_IN_STEP;

    lock();
    shim.stats.n_steps++;
    if (in_step) shim.stats.n_surprises += count_surprises();
    zi_predict_end(&shim.predict);
    zi_extents_age(&shim.extents);
    unlock();
    begin_training();
    atomic_store(&shim.phase, PHASE_ARMED);
    if (atomic_load(&shim.join) != JOIN_DONE) return;
    trim_cache(CACHE_IDLE);
    weigh();
    hear_cores();
    settle_threads();
    if (in_step) shim.lender.step_end(shim.lender.self);
}

void
zi_shim_step(void)
{
    if (zi_shim_observing()) zi_observe_step();
    if (inside || shim.opt.mode != ZI_HOOK_JOIN || atomic_load(&shim.child)) return;
    inside = 1;
    end_of_step();
    inside = 0;
}

void
zi_shim_train_begin(const uint64_t *sizes, size_t n)
{
    if (zi_shim_observing()) zi_observe_step();
    if (inside || shim.opt.mode != ZI_HOOK_JOIN || atomic_load(&shim.child)) return;
    if (atomic_load(&shim.phase) != PHASE_SETUP) return;
    inside = 1;
    lock();
    for (size_t i = 0; i < n; i++)
        if (sizes[i] >= shim.opt.min_bytes) zi_predict_hint(&shim.predict, sizes[i]);
    zi_predict_end(&shim.predict);
    unlock();
    begin_training();
    atomic_store(&shim.phase, PHASE_ARMED);
    if (atomic_load(&shim.join) == JOIN_DONE) {
        trim_cache(0);
        weigh();
    }
    inside = 0;
}

unsigned
zi_shim_cores(void)
{
    if (shim.opt.mode != ZI_HOOK_JOIN || atomic_load(&shim.child)) return 0;
    if (shim.opt.core_mode == ZI_CORES_OWN) return 0;
    if (shim.opt.core_mode == ZI_CORES_FIXED) return shim.opt.cores;
    return atomic_load(&shim.join) == JOIN_DONE ? shim.lender.cores(shim.lender.self) : 0;
}

void
zi_shim_stats(zi_hook_stats *ret_stats)
{
    zico_stats s = {.struct_size = sizeof s};
    bool       job = atomic_load(&shim.join) == JOIN_DONE && !atomic_load(&shim.child);

    if (job) shim.lender.stats(shim.lender.self, &s);
    lock();
    zi_hook_stats now = shim.stats;
    now.live_bytes = shim.extents.live_bytes;
    now.cached_bytes = shim.extents.cached_bytes;
    unlock();
    now.struct_size = sizeof now;
    now.mode = shim.opt.mode;
    now.joined = job;
    now.connected = s.connected;
    now.leased_bytes = s.leased_bytes;
    now.private_bytes = s.private_bytes;
    now.peak_bytes = s.peak_bytes;
    now.wait_step_ns = s.wait_step_ns;
    now.wait_lease_ns = s.wait_lease_ns;
    now.budget_bytes = s.budget_bytes;
    *ret_stats = now;
}

size_t
zi_shim_message(char *buf, size_t cap)
{
    if (cap) *buf = '\0';
    if (atomic_load(&shim.join) != JOIN_DONE) return 0;
    return shim.lender.message(shim.lender.self, buf, cap);
}

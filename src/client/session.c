/* session.c -- a job's session: opening, closing, charges, looking.
 *
 * session.h says what a session is; the files around this one have a trade each:
 *
 *     job_link.c    the wire: requests, answers, who reads
 *     keeper.c      the session's own thread
 *     lease.c       regions as address space          local_pool.c  the same without a broker
 *     client_step.c steps and tides                   rejoin.c      after a broker's death
 *     fork.c        what a child sees
 */
#include "client/session_inside.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Why the last zi_session_open of this thread failed, in the broker's words. */
static _Thread_local char open_message[768];

/* -- opening and closing --------------------------------------------------------------------- */

static void
init_sync(zi_session *s)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->mu, NULL);
    pthread_mutex_init(&s->watch_mu, NULL);
}

static zico_status
make_session(const zi_session_options *opt, zi_session **ret_session)
{
    zi_session *s = zi_calloc(1, sizeof *s);

    if (!s) return ZICO_E_NOMEM;
    s->opt = *opt;
    s->os = opt->os ? opt->os : zi_os_real();
    s->ops = opt->device ? opt->device : &zi_device_host;
    s->sock = s->pool_fd = s->table_fd = s->wake_fd = s->epoll_fd = -1;
    atomic_init(&s->usable, true);
    init_sync(s);
    zi_session_text(s->job_name, sizeof s->job_name,
                    opt->job_name ? opt->job_name : program_invocation_short_name);
    zi_session_text(s->shape_key, sizeof s->shape_key,
                    opt->shape_key ? opt->shape_key : "");
    s->rx = zi_malloc(ZI_WIRE_MAX);
    s->tx = zi_malloc(ZI_WIRE_MAX);
    s->rx_msg = zi_calloc(1, sizeof *s->rx_msg);
    s->tx_msg = zi_calloc(1, sizeof *s->tx_msg);
    *ret_session = s;
    return s->rx && s->tx && s->rx_msg && s->tx_msg ? ZICO_OK : ZICO_E_NOMEM;
}

/* The descriptors that WELCOME brought become the pool; one copy stays for a successor. */
static zico_status
import_pool(zi_session *s)
{
    long fd = s->os->dup_fd(s->os, s->pool_fd);

    if (fd < 0) return zi_os_status(fd);
    zico_status st = s->ops->pool_import(s->dev, (int)fd, &s->shape, &s->pool);
    if (st < 0) s->os->close(s->os, (int)fd);
    return st;
}

static zico_status
connect_session(zi_session *s)
{
    if (s->opt.local_bytes == 0) ZI_TRY(zi_link_join(s));
    ZI_TRY(s->ops->open(s->os, 0, &s->dev));
    if (s->opt.local_bytes > 0)
        ZI_TRY(zi_local_open(s));
    else
        ZI_TRY(import_pool(s));
    if (s->cores == 0) s->cores = s->ops->n_cores(s->dev);
    ZI_TRY(zi_lease_space_open(s));
    ZI_TRY(zi_tide_recorder_new(&s->recorder));
    ZI_TRY(zi_keeper_start(s));
    return zi_fork_enlist(s);
}

/* In any state of completion. */
static void
tear_down(zi_session *s)
{
    zi_fork_strike(s);
    zi_keeper_stop(s);
    while (s->returns) { /* free means finished, also now */
        s->ops->fence_wait(s->returns->after);
        zi_lease_finish_returns(s);
    }
    zi_link_hang_up(s);
    zi_lease_space_close(s);
    if (s->pool) s->ops->pool_close(s->pool);
    if (s->pool_fd >= 0) s->os->close(s->os, s->pool_fd);
    if (s->table_fd >= 0) s->os->close(s->os, s->table_fd);
    if (s->dev) s->ops->close(s->dev);
    zi_tide_recorder_free(s->recorder);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mu);
    pthread_mutex_destroy(&s->watch_mu);
    zi_free(s->rx);
    zi_free(s->tx);
    zi_free(s->rx_msg);
    zi_free(s->tx_msg);
    zi_free(s);
}

zico_status
zi_session_open(const zi_session_options *opt, zi_session **ret_session)
{
    zi_session *s = NULL;
    zico_status st = make_session(opt, &s);

    open_message[0] = '\0';
    if (st >= 0) st = connect_session(s);
    if (st >= 0) {
        *ret_session = s;
        return ZICO_OK;
    }
    if (s) {
        memcpy(open_message, s->message, sizeof open_message);
        tear_down(s);
    }
    return st;
}

/* In a child of fork the session is the parent's: only what is ours to free is freed. */
void
zi_session_close(zi_session *s)
{
    if (!s) return;
    if (!zi_session_usable(s) && !s->keeper_runs) {
        s->returns = NULL;
        s->sock = -1;
    }
    tear_down(s);
}

/* -- charges ------------------------------------------------------------------------------------ */

static zico_status
charge_over_wire(zi_session *s, uint64_t size_bytes, uint64_t wait_ns)
{
    zi_pending p;

    memset(&p, 0, sizeof p);
    p.runs = p.few;
    p.ask.type = ZI_MSG_CHARGE;
    p.ask.deadline_ns = zi_wait_deadline(s, wait_ns);
    p.ask.charge = (zi_msg_charge){.size_bytes = size_bytes, .wait_ns = wait_ns};
    ZI_TRY(zi_link_await_room(s, p.ask.deadline_ns));
    zi_link_ask(s, &p);
    zi_link_await(s, &p);
    if (p.status == ZICO_E_GONE || p.status == ZICO_E_DENIED) {
        s->uncharged_bytes += size_bytes; /* told at the rejoin */
        return ZICO_OK;
    }
    return p.status;
}

zico_status
zi_session_charge(zi_session *s, uint64_t size_bytes, uint64_t wait_ns)
{
    zico_status st;

    if (size_bytes == 0) return ZICO_OK;
    if (!zi_session_usable(s)) return ZICO_E_STATE;
    pthread_mutex_lock(&s->mu);
    if (s->state == ZI_LINK_LOCAL)
        st = zi_local_charge(s, size_bytes, zi_wait_deadline(s, wait_ns));
    else
        st = charge_over_wire(s, size_bytes, wait_ns);
    if (st >= 0) {
        s->private_bytes += size_bytes;
        zi_lease_count_peak(s);
    }
    pthread_mutex_unlock(&s->mu);
    return st;
}

void
zi_session_uncharge(zi_session *s, uint64_t size_bytes)
{
    if (size_bytes == 0 || !zi_session_usable(s)) return;
    pthread_mutex_lock(&s->mu);
    zi_assert(size_bytes <= s->private_bytes);
    if (size_bytes > s->private_bytes) size_bytes = s->private_bytes;
    s->private_bytes -= size_bytes;
    if (s->uncharged_bytes >= size_bytes && s->state != ZI_LINK_LOCAL) {
        s->uncharged_bytes -= size_bytes;
    } else if (s->state == ZI_LINK_JOINED && size_bytes > 0) {
        zi_link_message(s, ZI_MSG_UNCHARGE)->uncharge.size_bytes = size_bytes;
        zi_link_send(s, NULL, 0);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
}

/* -- the layer above -------------------------------------------------------------------------------- */

void
zi_session_attach(zi_session *s, zi_session_watcher *w)
{
    pthread_mutex_lock(&s->watch_mu);
    w->next = s->watchers;
    s->watchers = w;
    pthread_mutex_unlock(&s->watch_mu);
}

void
zi_session_detach(zi_session *s, zi_session_watcher *w)
{
    pthread_mutex_lock(&s->watch_mu);
    for (zi_session_watcher **at = &s->watchers; *at; at = &(*at)->next) {
        if (*at != w) continue;
        *at = w->next;
        break;
    }
    pthread_mutex_unlock(&s->watch_mu);
}

void
zi_session_watch_fence(zi_session *s, zi_fence *f)
{
    s->ops->fence_notify(f, s->wake_fd);
}

void *
zi_session_space(zi_session *s, uint32_t *ret_n_slots)
{
    *ret_n_slots = s->n_slots;
    return s->base;
}

bool
zi_session_usable(const zi_session *s)
{
    return atomic_load_explicit(&s->usable, memory_order_relaxed);
}

void
zi_session_poison(zi_session *s)
{
    atomic_store(&s->usable, false);
}

/* -- looking ------------------------------------------------------------------------------------------ */

unsigned
zi_session_cores(zi_session *s)
{
    return atomic_load_explicit(&s->cores, memory_order_relaxed);
}

unsigned
zi_session_first_core(zi_session *s)
{
    return atomic_load_explicit(&s->first_core, memory_order_relaxed);
}

unsigned
zi_session_place(zi_session *s, unsigned *ret_first)
{
    pthread_mutex_lock(&s->mu);
    unsigned n = s->state == ZI_LINK_JOINED ? s->cores : 0;
    *ret_first = s->first_core;
    pthread_mutex_unlock(&s->mu);
    return n;
}

zi_device *
zi_session_device(zi_session *s)
{
    return s->dev;
}

uint64_t
zi_session_region_bytes(zi_session *s)
{
    return s->shape.region_bytes;
}

bool
zi_session_connected(zi_session *s)
{
    pthread_mutex_lock(&s->mu);
    bool connected = s->state == ZI_LINK_JOINED;
    pthread_mutex_unlock(&s->mu);
    return connected;
}

void
zi_session_stats(zi_session *s, zico_stats *ret_stats)
{
    pthread_mutex_lock(&s->mu);
    *ret_stats = s->stats;
    ret_stats->struct_size = sizeof *ret_stats;
    ret_stats->private_bytes = s->private_bytes;
    ret_stats->budget_bytes = s->budget_bytes;
    ret_stats->connected = s->state == ZI_LINK_JOINED;
    pthread_mutex_unlock(&s->mu);
}

size_t
zi_session_message(zi_session *s, char *buf, size_t cap)
{
    if (!s) return (size_t)snprintf(buf, cap, "%s", open_message);
    pthread_mutex_lock(&s->mu);
    int n = snprintf(buf, cap, "%s", s->message);
    pthread_mutex_unlock(&s->mu);
    return (size_t)n;
}

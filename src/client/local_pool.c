/* local_pool.c -- a session without a broker: a pool of its own, and its bookkeeping.
 *
 * The budget is local_bytes for leases and charges together.  The lowest run that fits is
 * taken; if none does, the lowest free regions, to be stitched.  Waiting is for other
 * threads of this process to give back.
 */
#include "client/session_inside.h"

#include "base/try.h"

zico_status
zi_local_open(zi_session *s)
{
    uint64_t r = s->opt.local_region_bytes;

    if (!s->ops) s->ops = &zi_device_host;
    if (!r) r = zi_device_region_bytes(s->opt.local_bytes);
    if (s->opt.local_bytes < r || s->opt.local_bytes / r > UINT32_MAX / 4)
        return ZICO_E_ARG;
    s->shape = (zi_pool_shape){.region_bytes = r,
                               .n_regions = (uint32_t)(s->opt.local_bytes / r)};
    s->n_local_free = s->shape.n_regions;
    s->budget_bytes = s->opt.local_bytes;
    s->state = ZI_LINK_LOCAL;
    ZI_TRY(s->ops->pool_create(s->dev, &s->shape, &s->pool));
    return s->ops->pool_export(s->pool, &s->pool_fd); /* for fork.c */
}

static uint64_t
free_bytes(const zi_session *s)
{
    uint64_t used = s->stats.leased_bytes + s->private_bytes;
    return used < s->budget_bytes ? s->budget_bytes - used : 0;
}

/* The lowest run of n free regions; n_regions if there is none. */
static uint32_t
find_run(const zi_session *s, uint32_t n)
{
    uint32_t len = 0;

    for (uint32_t i = 0; i < s->shape.n_regions; i++) {
        len = s->region_state[i] == ZI_REGION_OTHERS ? len + 1 : 0;
        if (len == n) return i + 1 - n;
    }
    return s->shape.n_regions;
}

static void
add_run(zi_session *s, zi_pending *p, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) s->region_state[i] = ZI_REGION_HELD;
    s->n_local_free -= n;
    p->n_regions += n;
    if (p->n_runs > 0 && p->runs[p->n_runs - 1].first + p->runs[p->n_runs - 1].n == first)
        p->runs[p->n_runs - 1].n += n;
    else
        p->runs[p->n_runs++] = (zi_run){first, n};
}

static void
take_now(zi_session *s, zi_pending *p, uint32_t n)
{
    uint32_t first = find_run(s, n);

    if (first < s->shape.n_regions) {
        add_run(s, p, first, n);
        return;
    }
    for (uint32_t i = 0; n > 0; i++) {
        if (s->region_state[i] != ZI_REGION_OTHERS) continue;
        add_run(s, p, i, 1);
        n--;
    }
}

static zico_status
await_bytes(zi_session *s, uint64_t size_bytes, uint32_t n, uint64_t deadline_ns)
{
    if (size_bytes > s->budget_bytes || n > s->shape.n_regions) {
        zi_session_say(s, "asked for %llu bytes of a budget of %llu",
                       (unsigned long long)size_bytes,
                       (unsigned long long)s->budget_bytes);
        return ZICO_E_BUDGET;
    }
    while (free_bytes(s) < size_bytes || s->n_local_free < n) {
        zi_session_say(s, "asked for %llu bytes, %llu of %llu are free",
                       (unsigned long long)size_bytes, (unsigned long long)free_bytes(s),
                       (unsigned long long)s->budget_bytes);
        if (deadline_ns == 0) return ZICO_E_BUSY;
        if (!zi_wait_until(s, deadline_ns)) return ZICO_E_TIMEOUT;
    }
    return ZICO_OK;
}

zico_status
zi_local_take(zi_session *s, zi_pending *p, uint64_t deadline_ns)
{
    uint32_t n = p->ask.lease.n_regions;

    ZI_TRY(await_bytes(s, n * s->shape.region_bytes, n, deadline_ns));
    take_now(s, p, n);
    return ZICO_OK;
}

void
zi_local_give(zi_session *s, uint32_t first, uint32_t n)
{
    (void)first;
    s->n_local_free += n;
    pthread_cond_broadcast(&s->changed);
}

zico_status
zi_local_charge(zi_session *s, uint64_t size_bytes, uint64_t deadline_ns)
{
    return await_bytes(s, size_bytes, 0, deadline_ns);
}

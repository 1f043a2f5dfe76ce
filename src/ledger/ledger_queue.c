/* ledger_queue.c -- requests that wait, in the order in which they came (L7). */
#include "ledger/ledger_private.h"

#include <string.h>
#include "base/alloc.h"
#include "base/check.h"

static zico_status
make_place(zi_ledger *l)
{
    if (l->n_requests < l->cap_requests) return ZICO_OK;
    size_t      cap = l->cap_requests ? l->cap_requests * 2 : 64;
    zi_request *more = zi_realloc(l->request, cap * sizeof *more);
    if (!more) return ZICO_E_NOMEM;
    l->request = more;
    l->cap_requests = cap;
    return ZICO_OK;
}

static bool
can_ever_fit(const zi_ledger *l, const zi_request *req, uint64_t size_bytes)
{
    const zi_ledger_job *j = &l->job[req->job];
    uint64_t             fixed = j->n_fixed * l->shape.region_bytes;

    if (size_bytes > l->target_bytes) return false;
    if (req->hold != ZI_HOLD_PRIVATE && req->n_regions > l->shape.n_regions) return false;
    return j->limits.max_bytes == 0 || (size_bytes <= j->limits.max_bytes &&
                                        fixed <= j->limits.max_bytes - size_bytes);
}

zico_status
zi_ledger_ask(zi_ledger *l, const zi_request *req, uint64_t *ret_id)
{
    if (!zi_ledger_is_live(l, req->job)) return ZICO_E_ARG;
    bool     in_pool = req->hold != ZI_HOLD_PRIVATE;
    uint64_t size = in_pool ? req->n_regions * l->shape.region_bytes : req->size_bytes;

    if (size == 0 || req->hold > ZI_HOLD_PRIVATE) return ZICO_E_ARG;
    if (!can_ever_fit(l, req, size)) return ZICO_E_BUDGET;
    if (l->n_asked[req->job] == ZI_LEDGER_REQS_PER_JOB) return ZICO_E_LIMIT;
    zico_status st = make_place(l);
    if (st < 0) return st;

    zi_request *mine = &l->request[l->n_requests++];
    *mine = *req;
    mine->id = l->next_request++;
    mine->size_bytes = size;
    if (!in_pool) mine->n_regions = 0;
    l->n_asked[req->job]++;
    *ret_id = mine->id;
    return ZICO_OK;
}

const zi_request *
zi_ledger_find(const zi_ledger *l, uint64_t id)
{
    size_t low = 0, high = l->n_requests;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->request[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < l->n_requests && l->request[low].id == id ? &l->request[low] : NULL;
}

zico_status
zi_ledger_cancel(zi_ledger *l, uint64_t id)
{
    const zi_request *req = zi_ledger_find(l, id);
    if (!req) return ZICO_E_NOTFOUND;
    size_t place = (size_t)(req - l->request);

    zi_assert(l->n_asked[req->job] > 0);
    l->n_asked[req->job]--;
    l->n_requests--;
    memmove(&l->request[place], &l->request[place + 1],
            (l->n_requests - place) * sizeof *l->request);
    return ZICO_OK;
}

void
zi_ledger_drop_requests(zi_ledger *l, zi_job_id job)
{
    size_t kept = 0;

    if (l->n_asked[job] == 0) return;
    for (size_t i = 0; i < l->n_requests; i++)
        if (l->request[i].job != job) l->request[kept++] = l->request[i];
    l->n_requests = kept;
    l->n_asked[job] = 0;
}

size_t
zi_ledger_n_requests(const zi_ledger *l)
{
    return l->n_requests;
}

const zi_request *
zi_ledger_request(const zi_ledger *l, size_t place)
{
    return place < l->n_requests ? &l->request[place] : NULL;
}

/* lease_table.c -- writes the lease table, in the order that wire/table.h promises. */
#include "broker/lease_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/alloc.h"
#include "base/check.h"

#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

_Static_assert(ZI_LEDGER_JOBS_MAX < 0xffff, "a row fits the owner word");
_Static_assert(ZI_HOLD_PRIVATE <= 3, "a hold fits the owner word");

static void
copy_name(char *to, size_t cap, const char *from)
{
    snprintf(to, cap, "%s", from);
}

/* Map all of it and find the three parts. */
static zico_status
open_map(zi_leases *t, int prot)
{
    void *p;
    long  rc = t->os->map(t->os, NULL, t->size_bytes, prot, MAP_SHARED, t->fd, 0, &p);

    if (rc < 0) return zi_os_status(rc);
    t->head = p;
    t->row = zi_table_rows(p);
    return ZICO_OK;
}

/* A writable table of that size, all zero: mapped first, then sealed. */
static zico_status
make(const zi_os *os, uint64_t size_bytes, zi_leases **ret)
{
    zi_leases *t = zi_calloc(1, sizeof *t);
    if (!t) return ZICO_E_NOMEM;

    *t = (zi_leases){.os = os, .size_bytes = size_bytes};
    long        rc = os->memfd(os, "zico-leases", MFD_ALLOW_SEALING);
    zico_status st = zi_os_status(rc);
    if (rc < 0) goto undo_table;
    t->fd = (int)rc;
    rc = os->truncate(os, t->fd, size_bytes);
    st = rc < 0 ? zi_os_status(rc) : open_map(t, PROT_READ | PROT_WRITE);
    if (st < 0) goto undo_fd;
    rc = os->seal_add(os, t->fd, SEALS);
    if (rc < 0) {
        st = zi_os_status(rc);
        goto undo_map;
    }
    *ret = t;
    return ZICO_OK;

undo_map:
    os->unmap(os, t->head, size_bytes);
undo_fd:
    os->close(os, t->fd);
undo_table:
    zi_free(t);
    return st;
}

zico_status
zi_leases_new(const zi_os *os, const zi_leases_shape *shape, zi_leases **ret)
{
    zi_leases  *t;
    zico_status st = make(os, zi_table_size(ZI_LEDGER_JOBS_MAX, shape->n_regions), &t);

    if (st < 0) return st;
    zi_table_head *h = t->head;
    h->version = ZI_TABLE_VERSION;
    h->jobs_max = ZI_LEDGER_JOBS_MAX;
    h->region_bytes = shape->region_bytes;
    h->n_regions = shape->n_regions;
    h->budget_bytes = shape->budget_bytes;
    h->revision = 1;
    copy_name(h->policy, sizeof h->policy, shape->policy);
    copy_name(h->device, sizeof h->device, shape->device);
    h->magic = ZI_TABLE_MAGIC;
    t->region = zi_table_regions(h);
    *ret = t;
    return ZICO_OK;
}

void
zi_leases_free(zi_leases *t)
{
    if (!t) return;
    t->os->unmap(t->os, t->head, t->size_bytes);
    t->os->close(t->os, t->fd);
    zi_free(t);
}

/* Every number that we would index with. */
static bool
looks_right(const zi_table_head *h, uint64_t size_bytes)
{
    if (h->magic != ZI_TABLE_MAGIC || h->version != ZI_TABLE_VERSION) return false;
    if (h->jobs_max != ZI_LEDGER_JOBS_MAX || h->n_regions == 0) return false;
    if (size_bytes != zi_table_size(h->jobs_max, h->n_regions)) return false;
    if (!memchr(h->policy, 0, sizeof h->policy)) return false;
    if (!memchr(h->device, 0, sizeof h->device)) return false;
    const zi_table_row *row = zi_table_rows(h);
    for (uint32_t i = 0; i < h->jobs_max; i++) {
        if (row[i].state > ZI_TABLE_LIVE) return false;
        if (!memchr(row[i].name, 0, sizeof row[i].name)) return false;
    }
    const zi_table_region *region = zi_table_regions(h);
    for (uint32_t i = 0; i < h->n_regions; i++) {
        uint32_t who = zi_table_owner_row(region[i].owner);
        if (who == ZI_TABLE_NOBODY) continue;
        if (who >= h->jobs_max || row[who].state == ZI_TABLE_FREE) return false;
        if (zi_table_owner_hold(region[i].owner) > ZI_HOLD_STEP) return false;
    }
    return true;
}

zico_status
zi_leases_import(const zi_os *os, int fd, zi_leases **ret)
{
    zi_leases   old = {.os = os, .fd = fd}, *t = NULL;
    zico_status st = ZICO_E_PROTO;
    long        seals = os->seal_get(os, fd);

    if (seals < 0 || (seals & SEALS) != SEALS) return ZICO_E_PROTO;
    long rc = os->file_bytes(os, fd, &old.size_bytes, NULL);
    if (rc < 0) return zi_os_status(rc);
    if (old.size_bytes < zi_table_size(ZI_LEDGER_JOBS_MAX, 1)) return ZICO_E_PROTO;
    if ((st = open_map(&old, PROT_READ)) < 0) return st;

    st = looks_right(old.head, old.size_bytes) ? make(os, old.size_bytes, &t)
                                               : ZICO_E_PROTO;
    if (st >= 0) {
        memcpy(t->head, old.head, old.size_bytes);
        t->region = zi_table_regions(t->head);
        *ret = t;
    }
    os->unmap(os, old.head, old.size_bytes);
    return st;
}

void
zi_leases_join(zi_leases *t, zi_job_id job, const zi_table_row *from)
{
    zi_table_row *r = &t->row[job];

    zi_assert(job < ZI_LEDGER_JOBS_MAX && r->state == ZI_TABLE_FREE);
    const size_t after = offsetof(zi_table_row, pid);
    memcpy((char *)r + after, (const char *)from + after, sizeof *r - after);
    zi_leases_set_state(t, job, ZI_TABLE_JOINING);
}

void
zi_leases_set_state(zi_leases *t, zi_job_id job, zi_table_state state)
{
    atomic_store(&t->row[job].state, state);
}

/* Its generation stays, and whether its pages may be there. */
static void
clear_owner(zi_table_region *r)
{
    uint64_t was = atomic_load(&r->owner);
    atomic_store(&r->owner, was & (~(uint64_t)0xffffffffu | ZI_TABLE_RESIDENT));
}

void
zi_leases_leave(zi_leases *t, zi_job_id job)
{
    for (uint32_t i = 0; i < t->head->n_regions; i++)
        if (zi_leases_owner(t, i) == job) clear_owner(&t->region[i]);
    zi_leases_set_state(t, job, ZI_TABLE_FREE);
}

void
zi_leases_grant(zi_leases *t, zi_job_id job, uint32_t seq, zi_hold hold,
                const zi_run *runs, size_t n_runs)
{
    zi_table_row *row = &t->row[job];

    atomic_store(&row->granting, seq);
    for (size_t k = 0; k < n_runs; k++) {
        for (uint32_t i = runs[k].first; i < runs[k].first + runs[k].n; i++) {
            zi_table_region *r = &t->region[i];
            uint32_t         generation = (uint32_t)(atomic_load(&r->owner) >> 32) + 1;
            zi_assert(zi_leases_owner(t, i) == ZI_JOB_NONE);
            atomic_store(&r->seq, seq);
            atomic_store(&r->owner, zi_table_owner_pack(job, (unsigned)hold, generation));
        }
    }
    atomic_store(&row->granting, 0u);
}

void
zi_leases_return(zi_leases *t, const zi_run *runs, size_t n_runs)
{
    for (size_t k = 0; k < n_runs; k++)
        for (uint32_t i = runs[k].first; i < runs[k].first + runs[k].n; i++)
            clear_owner(&t->region[i]);
}

void
zi_leases_cold(zi_leases *t, const zi_run *runs, size_t n_runs)
{
    for (size_t k = 0; k < n_runs; k++)
        for (uint32_t i = runs[k].first; i < runs[k].first + runs[k].n; i++)
            atomic_fetch_and(&t->region[i].owner, ~(uint64_t)ZI_TABLE_RESIDENT);
}

void
zi_leases_repair(zi_leases *t, zi_job_id job)
{
    uint32_t seq = atomic_load(&t->row[job].granting);

    if (seq == 0) return;
    for (uint32_t i = 0; i < t->head->n_regions; i++)
        if (zi_leases_owner(t, i) == job && t->region[i].seq == seq)
            clear_owner(&t->region[i]);
    atomic_store(&t->row[job].granting, 0u);
}

size_t
zi_leases_granted(const zi_leases *t, zi_job_id job, uint32_t seq, uint32_t *from,
                  zi_run *runs, size_t max)
{
    size_t   n = 0;
    uint32_t i = *from, n_regions = t->head->n_regions;

    for (; i < n_regions; i++) {
        if (zi_leases_owner(t, i) != job || t->region[i].seq != seq) continue;
        if (n > 0 && runs[n - 1].first + runs[n - 1].n == i) {
            runs[n - 1].n++;
            continue;
        }
        if (n == max) break;
        runs[n++] = (zi_run){.first = i, .n = 1};
    }
    *from = i;
    return n;
}

zi_job_id
zi_leases_owner(const zi_leases *t, uint32_t region)
{
    return zi_table_owner_row(atomic_load(&t->region[region].owner));
}

zi_hold
zi_leases_hold(const zi_leases *t, uint32_t region)
{
    return (zi_hold)zi_table_owner_hold(atomic_load(&t->region[region].owner));
}

bool
zi_leases_resident(const zi_leases *t, uint32_t region)
{
    return (atomic_load(&t->region[region].owner) & ZI_TABLE_RESIDENT) != 0;
}

zico_status
zi_leases_verify(const zi_leases *t, const zi_ledger *l)
{
    for (uint32_t i = 0; i < t->head->n_regions; i++)
        if (zi_leases_owner(t, i) != zi_ledger_owner(l, i)) return ZICO_E_CORRUPT;
    for (zi_job_id j = 0; j < ZI_LEDGER_JOBS_MAX; j++) {
        const zi_ledger_job *job = zi_ledger_job_of(l, j);
        bool                 live = job && job->live;
        if (live != (t->row[j].state != ZI_TABLE_FREE)) return ZICO_E_CORRUPT;
        if (live && t->row[j].private_bytes != job->private_bytes) return ZICO_E_CORRUPT;
    }
    return ZICO_OK;
}

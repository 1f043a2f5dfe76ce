/* estate.c -- device, pool, table, socket and lock: made once, inherited by each broker. */
#include "broker/estate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/log.h"
#include "base/try.h"

#define BACKLOG    256
#define SPACE_MOST 4u /* the pool's address space is at most so many budgets */

/* How many regions: the budget may grow fourfold, but not beyond the device's memory. */
static uint32_t
count_regions(zi_device *dev, uint64_t budget, uint64_t region)
{
    uint64_t total = 0, spare, space = budget;

    if (dev->ops->memory(dev, &total, &spare) < 0) total = 0;
    if (budget <= UINT64_MAX / SPACE_MOST) space = budget * SPACE_MOST;
    if (space > total) space = total;
    if (space < budget) space = budget;
    uint64_t n = space / region + (space % region != 0);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static zico_status
make_memory(zi_estate *e, const zi_broker_options *opt)
{
    const zi_device_ops *ops = e->dev->ops;
    uint64_t             region = opt->region_bytes;

    if (region == 0) region = zi_device_region_bytes(opt->budget_bytes);
    e->shape.region_bytes = region;
    if (region < ZI_REGION_MIN || region > ZI_REGION_MAX) return ZICO_E_ARG;
    e->shape.n_regions = count_regions(e->dev, opt->budget_bytes, region);

    zi_leases_shape table = {
        .region_bytes = region,
        .n_regions = e->shape.n_regions,
        .budget_bytes = opt->budget_bytes,
        .policy = opt->policy ? opt->policy : "zico",
        .device = ops->name,
    };
    ZI_TRY(ops->pool_create(e->dev, &e->shape, &e->pool));
    ZI_TRY(ops->pool_export(e->pool, &e->pool_fd));
    return zi_leases_new(e->os, &table, &e->leases);
}

/* Only one broker holds the lock; whoever gets it may clean up after the one before. */
static zico_status
take_lock(zi_estate *e)
{
    char path[ZI_RUNDIR_PATH_MAX + 8];

    snprintf(path, sizeof path, "%s.lock", e->path);
    long rc = e->os->open_file(e->os, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (rc < 0) return zi_os_status(rc);
    e->lock_fd = (int)rc;
    rc = e->os->lock_file(e->os, e->lock_fd, 0);
    if (rc == -EWOULDBLOCK) return ZICO_E_EXISTS;
    return zi_os_status(rc);
}

static zico_status
open_socket(zi_estate *e)
{
    uint32_t uid, mode;
    long     rc = e->os->owner(e->os, e->path, &uid, &mode);

    if (rc >= 0) {
        /* somebody may listen without holding our lock (a copied path, another program) */
        long other = e->os->connect_to(e->os, e->path);
        if (other >= 0) {
            e->os->close(e->os, (int)other);
            return ZICO_E_EXISTS;
        }
        if (other != -ECONNREFUSED) return zi_os_status(other);
        zi_log(ZI_LOG_PROCESS, "removing the stale socket %s", e->path);
        e->unclean = true;
        rc = e->os->unlink(e->os, e->path);
        if (rc < 0) return zi_os_status(rc);
    } else if (rc != -ENOENT) {
        return zi_os_status(rc);
    }
    rc = e->os->listen_at(e->os, e->path, BACKLOG);
    if (rc < 0) return zi_os_status(rc);
    e->listen_fd = (int)rc;
    return ZICO_OK;
}

static zico_status
fill(zi_estate *e, const zi_broker_options *opt)
{
    const zi_device_ops *ops = opt->device ? opt->device : &zi_device_host;

    if (opt->budget_bytes == 0) return ZICO_E_ARG;
    ZI_TRY(zi_rundir_socket(e->os, opt->socket_path, ops->name, true, e->path,
                            sizeof e->path));
    ZI_TRY(take_lock(e));
    ZI_TRY(ops->open(e->os, opt->ordinal, &e->dev));
    ZI_TRY(make_memory(e, opt));
    return open_socket(e);
}

zico_status
zi_estate_open(const zi_broker_options *opt, zi_estate **ret_estate)
{
    zi_estate *e = zi_calloc(1, sizeof *e);
    if (!e) return ZICO_E_NOMEM;

    e->os = opt->os ? opt->os : zi_os_real();
    e->listen_fd = e->lock_fd = e->pool_fd = -1;
    zico_status st = fill(e, opt);
    if (st < 0) {
        zi_estate_close(e, e->listen_fd >= 0);
        return st;
    }
    *ret_estate = e;
    return ZICO_OK;
}

static void
close_memory(zi_estate *e)
{
    zi_leases_free(e->leases);
    if (e->pool_fd >= 0) e->os->close(e->os, e->pool_fd);
    if (e->pool) e->dev->ops->pool_close(e->pool);
    e->leases = NULL;
    e->pool = NULL;
    e->pool_fd = -1;
}

void
zi_estate_close(zi_estate *e, bool last)
{
    if (!e) return;
    if (last && e->listen_fd >= 0) e->os->unlink(e->os, e->path);
    if (e->listen_fd >= 0) e->os->close(e->os, e->listen_fd);
    close_memory(e);
    if (e->dev) e->dev->ops->close(e->dev);
    /* the lock's file stays: removing it would let two brokers lock two files */
    if (e->lock_fd >= 0) e->os->close(e->os, e->lock_fd);
    zi_free(e);
}

const char *
zi_estate_path(const zi_estate *e)
{
    return e->path;
}

bool
zi_estate_is_pool(const zi_estate *e, int fd)
{
    uint64_t dev[2], ino[2];

    return e->os->file_id(e->os, fd, &dev[0], &ino[0]) >= 0 &&
           e->os->file_id(e->os, e->pool_fd, &dev[1], &ino[1]) >= 0 && dev[0] == dev[1] &&
           ino[0] == ino[1];
}

zico_status
zi_estate_take_over(zi_estate *e, int pool_fd, int table_fd)
{
    const zi_device_ops *ops = e->dev->ops;
    zi_leases           *leases;
    zi_pool             *pool;
    int                  exported;

    zico_status st = zi_leases_import(e->os, table_fd, &leases);
    e->os->close(e->os, table_fd); /* what was in it is copied */
    if (st < 0) goto undo_fd;
    zi_pool_shape shape = {.region_bytes = leases->head->region_bytes,
                           .n_regions = leases->head->n_regions};
    st = ops->pool_import(e->dev, pool_fd, &shape, &pool);
    if (st < 0) goto undo_leases;
    pool_fd = -1; /* the pool's now */
    st = ops->pool_export(pool, &exported);
    if (st < 0) goto undo_pool;

    close_memory(e);
    e->leases = leases;
    e->pool = pool;
    e->pool_fd = exported;
    e->shape = shape;
    return ZICO_OK;

undo_pool:
    ops->pool_close(pool);
undo_leases:
    zi_leases_free(leases);
undo_fd:
    if (pool_fd >= 0) e->os->close(e->os, pool_fd);
    return st;
}

/* host_pool.c -- the host's pool: one sealed memfd, and the address space that shows it.
 *
 * A pool is a memory file of n_regions x region_bytes, sealed against shrinking, growing
 * and further seals before anybody else sees it: a job that maps it can never be hit by
 * SIGBUS because another truncated it.  Pages come with the first touch and stay when a
 * region changes hands; `punch` gives them back.
 */
#include "device/host.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22
#endif

#define PAGE_BYTES 4096u
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct zi_pool {
    zi_device    *dev;
    int           fd;
    zi_pool_shape shape;
};

static int
shape_is_valid(const zi_pool_shape *shape)
{
    uint64_t r = shape->region_bytes;
    return r >= ZI_REGION_MIN && r <= ZI_REGION_MAX && (r & (r - 1)) == 0 &&
           shape->n_regions > 0;
}

static uint64_t
shape_bytes(const zi_pool_shape *shape)
{
    return shape->region_bytes * shape->n_regions;
}

static zico_status
pool_around(zi_device *dev, int fd, const zi_pool_shape *shape, zi_pool **ret_pool)
{
    zi_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return ZICO_E_NOMEM;
    *pool = (zi_pool){.dev = dev, .fd = fd, .shape = *shape};
    *ret_pool = pool;
    return ZICO_OK;
}

zico_status
zi_host_pool_create(zi_device *dev, const zi_pool_shape *shape, zi_pool **ret_pool)
{
    const zi_os *os = dev->os;
    zico_status  st;

    if (!shape_is_valid(shape)) return ZICO_E_ARG;
    long fd = os->memfd(os, "zico-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return zi_os_status(fd);
    long rc = os->truncate(os, (int)fd, shape_bytes(shape));
    if (rc >= 0) rc = os->seal_add(os, (int)fd, SEALS);
    st = rc < 0 ? zi_os_status(rc) : pool_around(dev, (int)fd, shape, ret_pool);
    if (st < 0) os->close(os, (int)fd);
    return st;
}

zico_status
zi_host_pool_export(zi_pool *pool, int *ret_fd)
{
    const zi_os *os = pool->dev->os;
    long         fd = os->dup_fd(os, pool->fd);

    if (fd < 0) return zi_os_status(fd);
    *ret_fd = (int)fd;
    return ZICO_OK;
}

zico_status
zi_host_pool_import(zi_device *dev, int fd, const zi_pool_shape *shape,
                    zi_pool **ret_pool)
{
    const zi_os *os = dev->os;
    uint64_t     size, resident;

    if (!shape_is_valid(shape)) return ZICO_E_ARG;
    long seals = os->seal_get(os, fd);
    if (seals < 0) return ZICO_E_PROTO; /* not a memory file at all */
    if ((seals & SEALS) != SEALS) return ZICO_E_PROTO;
    long rc = os->file_bytes(os, fd, &size, &resident);
    if (rc < 0) return zi_os_status(rc);
    if (size != shape_bytes(shape)) return ZICO_E_PROTO;
    return pool_around(dev, fd, shape, ret_pool);
}

void
zi_host_pool_close(zi_pool *pool)
{
    if (!pool) return;
    pool->dev->os->close(pool->dev->os, pool->fd);
    free(pool);
}

zico_status
zi_host_pool_resident(zi_pool *pool, uint64_t *ret_bytes)
{
    const zi_os *os = pool->dev->os;
    uint64_t     size, resident;
    long         rc = os->file_bytes(os, pool->fd, &size, &resident);

    if (rc < 0) return zi_os_status(rc);
    *ret_bytes = resident;
    return ZICO_OK;
}

static int
run_is_inside(const zi_pool *pool, uint32_t first, uint32_t n)
{
    return n > 0 && first < pool->shape.n_regions && n <= pool->shape.n_regions - first;
}

zico_status
zi_host_pool_punch(zi_pool *pool, uint32_t first, uint32_t n)
{
    const zi_os *os = pool->dev->os;
    uint64_t     r = pool->shape.region_bytes;

    if (!run_is_inside(pool, first, n)) return ZICO_E_ARG;
    long rc = os->punch(os, pool->fd, first * r, n * r);
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

zico_status
zi_host_pool_write(zi_pool *pool, uint32_t region, uint64_t at, const void *src,
                   uint64_t n_bytes)
{
    const zi_os *os = pool->dev->os;
    uint64_t     r = pool->shape.region_bytes;

    if (!run_is_inside(pool, region, 1) || at > r || n_bytes > r - at) return ZICO_E_ARG;
    for (uint64_t done = 0; done < n_bytes;) {
        long rc = os->pwrite(os, pool->fd, (const char *)src + done, n_bytes - done,
                             region * r + at + done);
        if (rc == -EINTR) continue;
        if (rc <= 0) return rc < 0 ? zi_os_status(rc) : ZICO_E_IO;
        done += (uint64_t)rc;
    }
    return ZICO_OK;
}

/* -- address space ------------------------------------------------------------------------ */

/* Asks for ZI_REGION_ALIGN more than needed and cuts both ends off: blocks may then be
 * aligned to 2 MiB by their offset alone. */
zico_status
zi_host_space_reserve(zi_device *dev, uint64_t size_bytes, void **ret_base)
{
    const zi_os *os = dev->os;
    void        *got;

    if (size_bytes == 0 || size_bytes % PAGE_BYTES) return ZICO_E_ARG;
    long rc = os->map(os, NULL, size_bytes + ZI_REGION_ALIGN, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &got);
    if (rc < 0) return zi_os_status(rc);

    uintptr_t start = (uintptr_t)got;
    uintptr_t base = (start + ZI_REGION_ALIGN - 1) & ~(uintptr_t)(ZI_REGION_ALIGN - 1);
    uintptr_t end = start + size_bytes + ZI_REGION_ALIGN;
    /* the ends are address space only: if the kernel keeps them, nothing is lost */
    if (base > start) os->unmap(os, got, base - start);
    if (end > base + size_bytes)
        os->unmap(os, (void *)(base + size_bytes), end - base - size_bytes);
    *ret_base = (void *)base;
    return ZICO_OK;
}

void
zi_host_space_release(zi_device *dev, void *base, uint64_t size_bytes)
{
    if (base) dev->os->unmap(dev->os, base, size_bytes);
}

static int
protection(zi_access access)
{
    switch (access) {
    case ZI_ACCESS_READ:
        return PROT_READ;
    case ZI_ACCESS_WRITE:
        return PROT_READ | PROT_WRITE;
    default:
        return PROT_NONE;
    }
}

zico_status
zi_host_space_map(zi_pool *pool, uint32_t first, uint32_t n, void *at, zi_access access)
{
    const zi_os *os = pool->dev->os;
    uint64_t     r = pool->shape.region_bytes;
    void        *got;

    if (!run_is_inside(pool, first, n)) return ZICO_E_ARG;
    long rc = os->map(os, at, n * r, protection(access), MAP_SHARED | MAP_FIXED, pool->fd,
                      first * r, &got);
    if (rc < 0) return zi_os_status(rc);
    zi_assert(got == at);
    rc = os->advise(os, at, n * r, MADV_DONTFORK);
    if (rc >= 0) return ZICO_OK;
    zi_host_space_unmap(pool->dev, at, n * r);
    return zi_os_status(rc);
}

zico_status
zi_host_space_unmap(zi_device *dev, void *at, uint64_t size_bytes)
{
    const zi_os *os = dev->os;
    void        *got;
    long         rc =
        os->map(os, at, size_bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0, &got);

    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

zico_status
zi_host_space_access(zi_device *dev, void *at, uint64_t size_bytes, zi_access access)
{
    long rc = dev->os->protect(dev->os, at, size_bytes, protection(access));
    return rc < 0 ? zi_os_status(rc) : ZICO_OK;
}

/* To read is enough for shared memory: what is not there comes, all of it is mapped writable, and
 * what others have made present is mapped sixteen pages at a time (0.03 s instead of 0.07 s for
 * 280 MiB).  Kernels before 5.14 do not know the advice: touch each page as it is. */
zico_status
zi_host_space_populate(zi_device *dev, void *at, uint64_t size_bytes)
{
    long rc = dev->os->advise(dev->os, at, size_bytes, MADV_POPULATE_READ);
    if (rc >= 0) return ZICO_OK;
    if (rc != -EINVAL) return zi_os_status(rc);
    for (uint64_t off = 0; off < size_bytes; off += PAGE_BYTES)
        __atomic_fetch_or((unsigned char *)at + off, 0, __ATOMIC_RELAXED);
    return ZICO_OK;
}

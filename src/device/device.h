/* device/device.h -- where tensors live and kernels run.
 *
 * THE ROOM
 *   One table per kind of device.  It is shaped after the virtual-memory calls of the
 *   CUDA driver (reserve, create, map, set access; export and import a descriptor), so
 *   that a GPU fits without a change; the host device implements the same with one
 *   sealed memfd, worker threads as streams, and counters as fences.
 *
 *      broker                                job
 *      pool_create --- descriptor ---------> pool_import
 *      pool_resident, pool_punch             space_reserve, space_map, ... (mapped once)
 *                                            stream_*, fence_*, copy
 *
 * WORDS   A *pool* is physical memory cut into equal regions.  A *stream* runs work in
 *         order.  A *fence* is a point in a stream: recorded, later complete (CUDA calls it
 *         an event; here "event" is what policies receive).
 * RULES   1  No raw pool pointer leaves the client room except inside a lease.
 *         2  Region sizes are multiples of 2 MiB (ZI_REGION_ALIGN).
 *         3  Memory may be reused by the same stream at once, by anybody else only after
 *            a fence recorded behind its last use is complete.
 *         4  No call blocks on the device except fence_wait, stream_drain and *_close.
 * THREADS Tables are constant; pools may be used from any thread; a stream accepts work
 *         from one thread at a time; fences may be queried from any thread.
 * NEXT    client/session.h, exec/exec.h.
 */
#ifndef ZI_DEVICE_H
#define ZI_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include "os/os.h"
#include "zico/status.h"

#define ZI_REGION_ALIGN (2ull << 20) /* a region is a multiple of this  */
#define ZI_REGION_MIN   (2ull << 20)
#define ZI_REGION_MAX   (64ull << 20)

typedef struct zi_device     zi_device;
typedef struct zi_device_ops zi_device_ops;
typedef struct zi_pool       zi_pool;
typedef struct zi_stream     zi_stream;
typedef struct zi_fence      zi_fence;

/* A piece of work for a stream.  `n_cores` is how many cores it may use right now. */
typedef void zi_work_fn(void *arg, unsigned n_cores);

typedef enum zi_access { ZI_ACCESS_NONE, ZI_ACCESS_READ, ZI_ACCESS_WRITE } zi_access;

typedef struct zi_pool_shape {
    uint64_t region_bytes; /* power of two, ZI_REGION_MIN .. ZI_REGION_MAX */
    uint32_t n_regions; /* address space; how many may be used is the budget's matter */
} zi_pool_shape;

struct zi_device {
    const zi_device_ops *ops;
    const zi_os         *os;
};

struct zi_device_ops {
    const char *name; /* "host", "cuda" */

    zico_status (*open)(const zi_os *os, unsigned ordinal, zi_device **ret_dev);
    void (*close)(zi_device *dev);

    /* Bytes that exist, and bytes that are free for us now. */
    zico_status (*memory)(zi_device *dev, uint64_t *ret_total, uint64_t *ret_free);
    unsigned (*n_cores)(zi_device *dev);

    /* -- physical memory ------------------------------------------------------- */
    zico_status (*pool_create)(zi_device *dev, const zi_pool_shape *shape,
                               zi_pool **ret_pool);
    /* A descriptor to send to a job (the caller closes it). */
    zico_status (*pool_export)(zi_pool *pool, int *ret_fd);
    /* Checks that the descriptor is what it claims to be: size, seals. Owns fd on success. */
    zico_status (*pool_import)(zi_device *dev, int fd, const zi_pool_shape *shape,
                               zi_pool **ret_pool);
    void (*pool_close)(zi_pool *pool);
    /* What the kernel or driver says is really in use, not what the ledger thinks. */
    zico_status (*pool_resident)(zi_pool *pool, uint64_t *ret_bytes);
    /* Give the pages of idle regions back. */
    zico_status (*pool_punch)(zi_pool *pool, uint32_t first, uint32_t n);
    /* Fill part of a region whose pages need not be there: they are not cleared first. */
    zico_status (*pool_write)(zi_pool *pool, uint32_t region, uint64_t at,
                              const void *src, uint64_t n_bytes);

    /* -- address space ---------------------------------------------------------- */
    zico_status (*space_reserve)(zi_device *dev, uint64_t size_bytes, void **ret_base);
    void (*space_release)(zi_device *dev, void *base, uint64_t size_bytes);
    /* Show regions [first, first + n) of the pool at `at`, which lies in a reserved space.
     * The host device does not fork them to children (fork: see client/fork.c). */
    zico_status (*space_map)(zi_pool *pool, uint32_t first, uint32_t n, void *at,
                             zi_access access);
    zico_status (*space_unmap)(zi_device *dev, void *at, uint64_t size_bytes);
    zico_status (*space_access)(zi_device *dev, void *at, uint64_t size_bytes,
                                zi_access access);
    /* Make pages present before they are needed (first lease of a region). */
    zico_status (*space_populate)(zi_device *dev, void *at, uint64_t size_bytes);

    /* -- work --------------------------------------------------------------------- */
    zico_status (*stream_open)(zi_device *dev, unsigned n_cores, zi_stream **ret_stream);
    void (*stream_close)(zi_stream *s); /* drains first */
    void (*stream_set_cores)(zi_stream *s,
                             unsigned   n_cores); /* from the next piece of work on */
    /* Queue work.  Blocks only while the cap on work in flight is reached. */
    zico_status (*stream_run)(zi_stream *s, zi_work_fn *fn, void *arg);
    zico_status (*stream_copy)(zi_stream *s, void *dst, const void *src,
                               uint64_t size_bytes);
    zico_status (*stream_wait)(zi_stream *s, zi_fence *f); /* later work waits for f */
    zico_status (*stream_drain)(zi_stream *s); /* the caller waits for all of it */

    zico_status (*fence_new)(zi_device *dev, zi_fence **ret_fence);
    void (*fence_free)(zi_fence *f);
    /* One more owner: fence_free must be called once more. */
    zi_fence *(*fence_keep)(zi_fence *f);
    /* May be recorded again, before the recording before is complete, and often: it
     * allocates nothing.  Called by whoever gives the stream its work. */
    zico_status (*fence_record)(zi_fence *f, zi_stream *s);
    int (*fence_done)(zi_fence *f); /* also true if never recorded */
    zico_status (*fence_wait)(zi_fence *f);
    uint64_t (*fence_time_ns)(zi_fence *f); /* device time of completion; 0 if not done */
    /* The present recording as a number, to ask later about this one even if the fence
     * was recorded again (a device may answer as late as the newest recording). */
    uint64_t (*fence_mark)(zi_fence *f);
    int (*fence_passed)(zi_fence *f, uint64_t mark);
    /* From now on each completion adds one to this eventfd; -1: none. */
    void (*fence_notify)(zi_fence *f, int event_fd);
};

extern const zi_device_ops zi_device_host;

/* By name; NULL if there is none.  The list is in device_table.c. */
const zi_device_ops *zi_device_find(const char *name);

/* The region size for a budget: the power of two nearest to budget / 1024, between
 * ZI_REGION_MIN and ZI_REGION_MAX. */
uint64_t zi_device_region_bytes(uint64_t budget_bytes);

#endif /* ZI_DEVICE_H */

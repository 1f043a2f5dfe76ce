/* device/host.h -- what the files of the host device share. */
#ifndef ZI_DEVICE_HOST_H
#define ZI_DEVICE_HOST_H

#include "device/device.h"

/* Work in flight per stream: a constant, so that memory freed behind the issuing
 * thread's back is bounded, too. */
#define ZI_HOST_IN_FLIGHT 512u

typedef struct zi_host {
    zi_device base; /* first: a zi_device * is a zi_host * */
    unsigned  n_cores;
} zi_host;

/* host_pool.c */
zico_status
zi_host_pool_create(zi_device *dev, const zi_pool_shape *shape, zi_pool **ret_pool);
zico_status zi_host_pool_export(zi_pool *pool, int *ret_fd);
zico_status zi_host_pool_import(zi_device *dev, int fd, const zi_pool_shape *shape,
                                zi_pool **ret_pool);
void        zi_host_pool_close(zi_pool *pool);
zico_status zi_host_pool_resident(zi_pool *pool, uint64_t *ret_bytes);
zico_status zi_host_pool_punch(zi_pool *pool, uint32_t first, uint32_t n);
zico_status zi_host_pool_write(zi_pool *pool, uint32_t region, uint64_t at,
                               const void *src, uint64_t n_bytes);
zico_status zi_host_space_reserve(zi_device *dev, uint64_t size_bytes, void **ret_base);
void        zi_host_space_release(zi_device *dev, void *base, uint64_t size_bytes);
zico_status
zi_host_space_map(zi_pool *pool, uint32_t first, uint32_t n, void *at, zi_access access);
zico_status zi_host_space_unmap(zi_device *dev, void *at, uint64_t size_bytes);
zico_status
zi_host_space_access(zi_device *dev, void *at, uint64_t size_bytes, zi_access access);
zico_status zi_host_space_populate(zi_device *dev, void *at, uint64_t size_bytes);

/* host_stream.c */
zico_status zi_host_stream_open(zi_device *dev, unsigned n_cores, zi_stream **ret_stream);
void        zi_host_stream_close(zi_stream *s);
void        zi_host_stream_set_cores(zi_stream *s, unsigned n_cores);
zico_status zi_host_stream_run(zi_stream *s, zi_work_fn *fn, void *arg);
zico_status
zi_host_stream_copy(zi_stream *s, void *dst, const void *src, uint64_t size_bytes);
zico_status zi_host_stream_wait(zi_stream *s, zi_fence *f);
zico_status zi_host_stream_drain(zi_stream *s);
zico_status zi_host_fence_record(zi_fence *f, zi_stream *s);

/* host_fence.c */
zico_status zi_host_fence_new(zi_device *dev, zi_fence **ret_fence);
void        zi_host_fence_free(zi_fence *f);
zi_fence   *zi_host_fence_keep(zi_fence *f);
int         zi_host_fence_done(zi_fence *f);
zico_status zi_host_fence_wait(zi_fence *f);
uint64_t    zi_host_fence_time_ns(zi_fence *f);
uint64_t    zi_host_fence_mark(zi_fence *f);
int         zi_host_fence_passed(zi_fence *f, uint64_t mark);
void        zi_host_fence_notify(zi_fence *f, int event_fd);
/* Between stream and fence: a new recording's number; it is complete; wait for one. */
uint64_t zi_host_fence_next(zi_fence *f);
void     zi_host_fence_complete(zi_fence *f, uint64_t mark);
void     zi_host_fence_await(zi_fence *f, uint64_t mark);

#endif /* ZI_DEVICE_HOST_H */

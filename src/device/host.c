/* host.c -- the host device: the CPU and main memory, as a table.
 *
 * host_pool.c has memory and address space, host_stream.c the worker threads,
 * host_fence.c the points in their work.  What the machine has (memory, cores) is here:
 * the smaller of what the kernel says is available and what the control group allows.
 */
#include "device/host.h"

#include "base/try.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Reads a small text file; an unreadable one is empty. */
static void
read_text(const zi_os *os, const char *path, char *buf, size_t cap)
{
    long fd = os->open_file(os, path, O_RDONLY, 0);
    long n = 0;

    if (fd >= 0) {
        n = os->pread(os, (int)fd, buf, cap - 1, 0);
        os->close(os, (int)fd);
    }
    buf[n > 0 ? n : 0] = '\0';
}

/* "MemAvailable:   123 kB" -> bytes; 0 if there is no such line. */
static uint64_t
meminfo_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static zico_status
host_memory(zi_device *dev, uint64_t *ret_total, uint64_t *ret_free)
{
    const zi_os *os = dev->os;
    char         text[4096];

    read_text(os, "/proc/meminfo", text, sizeof text);
    uint64_t total = meminfo_field(text, "MemTotal:");
    uint64_t avail = meminfo_field(text, "MemAvailable:");
    if (!total) return ZICO_E_OS;

    read_text(os, "/sys/fs/cgroup/memory.max", text, sizeof text);
    uint64_t most = strtoull(text, NULL, 10); /* "max", or no such file: 0 */
    if (most && most < total) {
        read_text(os, "/sys/fs/cgroup/memory.current", text, sizeof text);
        uint64_t used = strtoull(text, NULL, 10);
        uint64_t left = used < most ? most - used : 0;
        total = most;
        if (left < avail) avail = left;
    }
    *ret_total = total;
    *ret_free = avail;
    return ZICO_OK;
}

static unsigned
host_n_cores(zi_device *dev)
{
    return ((zi_host *)dev)->n_cores;
}

static unsigned
count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set) > 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static zico_status
host_open(const zi_os *os, unsigned ordinal, zi_device **ret_dev)
{
    if (!os || ordinal != 0) return ZICO_E_ARG;
    zi_host *h = calloc(1, sizeof *h);
    if (!h) return ZICO_E_NOMEM;

    h->base.ops = &zi_device_host;
    h->base.os = os;
    h->n_cores = count_cores();
    *ret_dev = &h->base;
    return ZICO_OK;
}

static void
host_close(zi_device *dev)
{
    free(dev);
}

const zi_device_ops zi_device_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .memory = host_memory,
    .n_cores = host_n_cores,
    .pool_create = zi_host_pool_create,
    .pool_export = zi_host_pool_export,
    .pool_import = zi_host_pool_import,
    .pool_close = zi_host_pool_close,
    .pool_resident = zi_host_pool_resident,
    .pool_punch = zi_host_pool_punch,
    .pool_write = zi_host_pool_write,
    .space_reserve = zi_host_space_reserve,
    .space_release = zi_host_space_release,
    .space_map = zi_host_space_map,
    .space_unmap = zi_host_space_unmap,
    .space_access = zi_host_space_access,
    .space_populate = zi_host_space_populate,
    .stream_open = zi_host_stream_open,
    .stream_close = zi_host_stream_close,
    .stream_set_cores = zi_host_stream_set_cores,
    .stream_run = zi_host_stream_run,
    .stream_copy = zi_host_stream_copy,
    .stream_wait = zi_host_stream_wait,
    .stream_drain = zi_host_stream_drain,
    .fence_new = zi_host_fence_new,
    .fence_free = zi_host_fence_free,
    .fence_keep = zi_host_fence_keep,
    .fence_record = zi_host_fence_record,
    .fence_done = zi_host_fence_done,
    .fence_wait = zi_host_fence_wait,
    .fence_time_ns = zi_host_fence_time_ns,
    .fence_mark = zi_host_fence_mark,
    .fence_passed = zi_host_fence_passed,
    .fence_notify = zi_host_fence_notify,
};

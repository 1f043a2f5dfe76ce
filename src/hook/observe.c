/* observe.c -- notes large blocks and step ends of a process that is otherwise left alone. */
#include "hook/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fmt.h"
#include "base/hash.h"
#include "hook/prev.h"

static struct {
    const zi_os      *os;
    zi_observe_head  *head; /* NULL: not observing */
    zi_observe_event *event;
    size_t            file_bytes;
    pthread_mutex_t   lock; /* guards live and n_blocks */
    zi_hash           live; /* address -> size << 24 | low bits of its number */
    uint32_t          n_blocks;
    size_t            min_bytes;
    void (*prev_free)(void *p);
    void *(*prev_realloc)(void *p, size_t size);
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Take the place of the previous allocator's free and realloc.  A block whose usable size is below the
 * threshold was never noted, which spares small blocks the look-up. */
static void
note_end(void *p)
{
    if (p && seen.head && zi_hot_state.prev.malloc_usable_size(p) >= seen.min_bytes)
        zi_observe_give(p);
}

static void
observing_free(void *p)
{
    note_end(p);
    seen.prev_free(p);
}

static void *
observing_realloc(void *p, size_t size)
{
    note_end(p);
    void *q = seen.prev_realloc(p, size);
    if (q && size >= seen.min_bytes) zi_observe_take(q, size);
    return q;
}

zico_status
zi_observe_open(const zi_os *os, const char *dir, uint64_t min_bytes)
{
    char   path[4096];
    void  *at;
    size_t size = sizeof(zi_observe_head) + ZI_OBSERVE_EVENTS * sizeof(zi_observe_event);

    zi_fmt(path, sizeof path, "%s/observe-%d", dir, (int)getpid());
    long fd = os->open_file(os, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return zi_os_status(fd);
    long rc = os->truncate(os, (int)fd, size);
    if (rc >= 0)
        rc = os->map(os, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0, &at);
    os->close(os, (int)fd);
    if (rc < 0) return zi_os_status(rc);

    zi_observe_head *h = at;
    h->magic = ZI_OBSERVE_MAGIC;
    h->version = ZI_OBSERVE_VERSION;
    h->pid = (uint32_t)getpid();
    h->min_bytes = min_bytes;
    h->began_ns = os->now_ns(os);
    h->cap_events = ZI_OBSERVE_EVENTS;
    seen.os = os;
    seen.event = (zi_observe_event *)(h + 1);
    seen.file_bytes = size;
    seen.min_bytes = min_bytes;
    seen.head = h;
    zi_prev_resolve();
    seen.prev_free = zi_hot_state.prev.free;
    seen.prev_realloc = zi_hot_state.prev.realloc;
    zi_hot_state.prev.free = observing_free;
    zi_hot_state.prev.realloc = observing_realloc;
    return ZICO_OK;
}

void
zi_observe_close(bool in_child)
{
    if (!seen.head) return;
    zi_hot_state.prev.free = seen.prev_free;
    zi_hot_state.prev.realloc = seen.prev_realloc;
    seen.os->unmap(seen.os, seen.head, seen.file_bytes);
    seen.head = NULL;
    if (in_child) { /* whoever held the lock, perhaps in the middle of a change, is not here */
        pthread_mutex_init(&seen.lock, NULL);
        memset(&seen.live, 0, sizeof seen.live);
    } else {
        zi_hash_free(&seen.live);
    }
}

static void
append(zi_observe_kind kind, uint64_t size_bytes, uint32_t block)
{
    uint64_t i = atomic_fetch_add(&seen.head->n_events, 1);
    if (i >= seen.head->cap_events) return;
    zi_observe_event *e = &seen.event[i];
    e->at_ns = seen.os->now_ns(seen.os);
    e->size_bytes = size_bytes;
    e->block = block;
    __atomic_store_n(&e->kind, kind, __ATOMIC_RELEASE);
}

void
zi_observe_take(const void *p, size_t size_bytes)
{
    int saved = errno;

    if (!seen.head) return;
    pthread_mutex_lock(&seen.lock);
    uint32_t block = seen.n_blocks++ & 0xffffff;
    bool     ok =
        zi_hash_put(&seen.live, (uintptr_t)p, (uint64_t)size_bytes << 24 | block) >= 0;
    pthread_mutex_unlock(&seen.lock);
    if (ok) append(ZI_OBSERVE_TAKE, size_bytes, block);
    errno = saved;
}

void
zi_observe_give(const void *p)
{
    int saved = errno;

    if (!p || !seen.head) return;
    pthread_mutex_lock(&seen.lock);
    uint64_t value = zi_hash_get(&seen.live, (uintptr_t)p, 0);
    bool     known = value && zi_hash_remove(&seen.live, (uintptr_t)p);
    pthread_mutex_unlock(&seen.lock);
    if (known) append(ZI_OBSERVE_GIVE, value >> 24, (uint32_t)(value & 0xffffff));
    errno = saved;
}

void
zi_observe_step(void)
{
    if (seen.head) append(ZI_OBSERVE_STEP, 0, 0);
}

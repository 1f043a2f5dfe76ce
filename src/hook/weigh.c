/* weigh.c -- the process's anonymous pages, and what of them nobody has charged. */
#include "hook/weigh.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t
zi_weight_grown(zi_weight *w, uint64_t anonymous_bytes, uint64_t large_bytes)
{
    uint64_t small = anonymous_bytes > large_bytes ? anonymous_bytes - large_bytes : 1;

    if (anonymous_bytes == 0) return 0;
    if (w->base_bytes == 0) w->base_bytes = small;
    uint64_t grown = small > w->base_bytes ? small - w->base_bytes : 0;
    if (grown > ZI_WEIGHT_MAX) grown = ZI_WEIGHT_MAX;
    return grown >= w->charged_bytes + ZI_WEIGHT_GRAIN ? grown - w->charged_bytes : 0;
}

uint64_t
zi_weight_anonymous(void)
{
    char text[128], *at;
    int  fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    long page = sysconf(_SC_PAGESIZE);

    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0 || page <= 0) return 0;
    text[n] = '\0';
    (void)strtoull(text, &at, 10); /* size, resident, of it with a file behind it */
    unsigned long long resident = strtoull(at, &at, 10), file = strtoull(at, &at, 10);
    return resident > file ? (resident - file) * (uint64_t)page : 0;
}

/* device_table.c -- the devices there are, by name; and the size of a region. */
#include "device/device.h"

#include <string.h>

static const zi_device_ops *const table[] = {
    &zi_device_host,
};

const zi_device_ops *
zi_device_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

uint64_t
zi_device_region_bytes(uint64_t budget_bytes)
{
    uint64_t want = budget_bytes / 1024;
    uint64_t size = ZI_REGION_MIN;

    /* the next power of two is nearer once want passes the middle, 1.5 x size */
    while (size < ZI_REGION_MAX && want >= size + size / 2) size *= 2;
    return size;
}

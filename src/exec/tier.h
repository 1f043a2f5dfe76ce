/* exec/tier.h -- where tensors go that a plan moves out, and come back from.
 *
 * file:DIR  one file without a name (nothing is left behind, whatever happens), made large
 *           enough before the first step, read and written past the page cache
 *           where the file system allows it, else dropped from it.
 * ram       ordinary memory.  On the host device this frees nothing: for tests.
 *
 * THREADS   write and read may run at the same time, on different ranges.
 */
#ifndef ZI_EXEC_TIER_H
#define ZI_EXEC_TIER_H

#include <stdint.h>
#include "os/os.h"
#include "zico/status.h"

#define ZI_TIER_ALIGN 4096u /* of addresses, offsets and sizes */

typedef struct zi_tier zi_tier;

typedef struct zi_tier_stats {
    uint64_t out_bytes, in_bytes;
    uint64_t out_ns, in_ns; /* time spent in them */
} zi_tier_stats;

/* "file:DIR" or "ram"; size_bytes 0: grown by zi_tier_reserve.  ZICO_E_NOTFOUND: no such
 * directory; ZICO_E_IO: no room, or not writable; ZICO_E_FORMAT: neither of the two forms. */
ZICO_NODISCARD zico_status zi_tier_open(const zi_os *os, const char *spec,
                                        zi_tier **ret_tier);
void                       zi_tier_close(zi_tier *t); /* NULL is fine */

/* Room for that many bytes in all. */
ZICO_NODISCARD zico_status zi_tier_reserve(zi_tier *t, uint64_t size_bytes);
ZICO_NODISCARD zico_status zi_tier_write(zi_tier *t, uint64_t at, const void *src,
                                         uint64_t n_bytes);
ZICO_NODISCARD zico_status zi_tier_read(zi_tier *t, uint64_t at, void *dst,
                                        uint64_t n_bytes);

/* What becomes of memory whose bytes are in the file. */
typedef enum zi_tier_after {
    ZI_TIER_STAY,
    ZI_TIER_UNMAP, /* this process lets go of its pages; of a shared pool others keep them */
    ZI_TIER_REMOVE, /* the machine gets them: shared memory only                            */
} zi_tier_after;

/* The same with several requests under way at once (tier_bulk.c).  If writing fails `src` is as
 * it was; ZICO_E_CORRUPT: not even that. */
ZICO_NODISCARD zico_status zi_tier_write_bulk(zi_tier *t, uint64_t at, void *src,
                                              uint64_t n_bytes, zi_tier_after after);
/* What was read is handed over in pieces, from several threads, in no order. */
typedef zico_status
zi_tier_put(void *arg, uint64_t from, const void *src, uint64_t n_bytes);
ZICO_NODISCARD zico_status zi_tier_read_bulk(zi_tier *t, uint64_t at, uint64_t n_bytes,
                                             zi_tier_put *put, void *arg);
const zi_os               *zi_tier_os(const zi_tier *t);

void zi_tier_read_stats(const zi_tier *t, zi_tier_stats *ret_stats);

typedef struct zi_tier_speed {
    double   out_bytes_per_s, in_bytes_per_s; /* alone                                  */
    double   out_beside, in_beside; /* part of it that is left while both ways are busy */
    uint64_t copy_cpu_ns; /* of a core, for a small copy                              */
} zi_tier_speed;

/* How fast it is, measured with `n_bytes` each way (some megabytes; twice as many in the tier). */
ZICO_NODISCARD zico_status zi_tier_speeds(zi_tier *t, uint64_t n_bytes,
                                          zi_tier_speed *ret_speed);
#endif /* ZI_EXEC_TIER_H */

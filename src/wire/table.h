/* wire/table.h -- the lease table: which region is whose, in memory that outlives a broker.
 *
 * A memfd that only the broker writes (sealed against shrinking, growing and new writable
 * maps); every job gets the descriptor with WELCOME, maps it read-only, and hands it back
 * with REJOIN (descriptors: pool, table) to a broker that starts from nothing.
 *
 *     offset               size             meaning
 *     0                    4096             zi_table_head
 *     4096                 256 x jobs_max   zi_table_row, one a job
 *     4096+256 x jobs_max  16 x n_regions   zi_table_region
 *
 * KILLED ANYWHERE  Every store below is atomic and the order is the meaning:
 *   grant    row.granting = seq; region.seq, region.owner for each; row.granting = 0;
 *            then GRANT is sent.  A successor frees the regions of a seq that is still in
 *            `granting`: nobody was told.  Otherwise the job owns them, told or not: when
 *            it asks again with the same seq, the answer is what the table shows.
 *   return   RETURN is booked, then region.owner is cleared (or goes to the next owner in
 *            one store).  A RETURN that was lost shows as a region that names the job but
 *            that the job does not hold: after WELCOME the job returns such regions again.
 *   join     all fields, then row.state = JOINING; after WELCOME is sent, LIVE.
 *   leave    region.owner cleared for each, then row.state = FREE.
 */
#ifndef ZI_WIRE_TABLE_H
#define ZI_WIRE_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ZI_TABLE_MAGIC   0x4c42544f4349435aull /* "ZCICOTBL" */
#define ZI_TABLE_VERSION 1u
#define ZI_TABLE_NOBODY  UINT32_MAX

typedef enum zi_table_state {
    ZI_TABLE_FREE,    /* the row is not in use                                   */
    ZI_TABLE_JOINING, /* WELCOME may or may not have been sent; holds nothing    */
    ZI_TABLE_LIVE,
} zi_table_state;

typedef struct zi_table_head {
    uint64_t         magic;            /*   0 */
    uint32_t         version;          /*   8 */
    uint32_t         jobs_max;         /*  12 */
    uint64_t         region_bytes;     /*  16 */
    uint32_t         n_regions;        /*  24 */
    uint32_t         reserved;         /*  28 */
    _Atomic uint64_t epoch;            /*  32 one more with every broker */
    _Atomic uint64_t budget_bytes;     /*  40 the one asked for last     */
    _Atomic uint64_t revision;         /*  48 of the budget              */
    char             policy[32];       /*  56 */
    char             device[32];       /*  88 */
    char             rest[4096 - 120]; /* 120 */
} zi_table_head;

typedef struct zi_table_row {
    _Atomic uint32_t state;            /*   0 zi_table_state                    */
    uint32_t         pid;              /*   4 */
    uint64_t         started;          /*   8 the process's start time (stat)   */
    uint64_t         token;            /*  16 */
    _Atomic uint64_t min_bytes;        /*  24 */
    _Atomic uint64_t max_bytes;        /*  32 */
    _Atomic uint64_t claim_bytes;      /*  40 declared or raised; 0: learnt     */
    _Atomic uint32_t weight_milli;     /*  48 */
    uint32_t         core_mode;        /*  52 */
    uint32_t         cores;            /*  56 */
    _Atomic uint32_t in_step;          /*  60 */
    uint64_t         features;         /*  64 */
    uint64_t         steps_total;      /*  72 */
    uint64_t         latency_ns;       /*  80 */
    _Atomic uint64_t private_bytes;    /*  88 */
    _Atomic uint64_t step_no;          /*  96 */
    uint64_t         shape;            /* 104 hash of the shape key             */
    _Atomic uint64_t revision;         /* 112 of its limits                     */
    _Atomic uint32_t granting;         /* 120 seq of a grant being written; 0   */
    _Atomic uint32_t connected;        /* 124 */
    char             name[64];         /* 128 */
    _Atomic uint64_t step_claim_bytes; /* 192 of the step under way        */
    _Atomic uint64_t learnt_bytes;     /* 200 its claim as learnt; 0: not yet */
    _Atomic uint64_t step_ns;          /* 208 length of its last step      */
    _Atomic uint32_t paused;           /* 216 by a person             */
    char             rest[36];         /* 220 */
} zi_table_row;

/* owner: bits 0..15 row + 1 (0: nobody), 16..17 zi_hold, 18 its pages may be there,
 * 32..63 generation: one more with every grant. */
typedef struct zi_table_region {
    _Atomic uint64_t owner; /* 0 */
    _Atomic uint32_t seq;   /* 8 the owner's seq that it was granted for */
    uint32_t         rest;  /* 12 */
} zi_table_region;

_Static_assert(sizeof(zi_table_head) == 4096 && sizeof(zi_table_row) == 256 &&
                   sizeof(zi_table_region) == 16,
               "the table's layout is fixed");
_Static_assert(offsetof(zi_table_head, epoch) == 32 &&
                   offsetof(zi_table_head, device) == 88,
               "head");
_Static_assert(offsetof(zi_table_row, claim_bytes) == 40 &&
                   offsetof(zi_table_row, private_bytes) == 88 &&
                   offsetof(zi_table_row, granting) == 120 &&
                   offsetof(zi_table_row, name) == 128 &&
                   offsetof(zi_table_row, step_ns) == 208 &&
                   offsetof(zi_table_row, paused) == 216,
               "row");

static inline uint64_t
zi_table_size(uint32_t jobs_max, uint32_t n_regions)
{
    uint64_t size = sizeof(zi_table_head) + sizeof(zi_table_row) * (uint64_t)jobs_max +
                    sizeof(zi_table_region) * (uint64_t)n_regions;
    return (size + 4095u) & ~(uint64_t)4095u;
}

static inline zi_table_row *
zi_table_rows(const zi_table_head *t)
{
    return (zi_table_row *)((uintptr_t)t + sizeof(zi_table_head));
}

static inline zi_table_region *
zi_table_regions(const zi_table_head *t)
{
    return (zi_table_region *)(zi_table_rows(t) + t->jobs_max);
}

/* The row that owns a region, or ZI_TABLE_NOBODY. */
static inline uint32_t
zi_table_owner_row(uint64_t owner)
{
    return (uint32_t)(owner & 0xffffu) - 1u;
}

static inline unsigned
zi_table_owner_hold(uint64_t owner)
{
    return (unsigned)(owner >> 16 & 3u);
}

#define ZI_TABLE_RESIDENT (1ull << 18)

static inline uint64_t
zi_table_owner_pack(uint32_t row, unsigned hold, uint32_t generation)
{
    return (uint64_t)(row + 1u) | (uint64_t)(hold & 3u) << 16 | ZI_TABLE_RESIDENT |
           (uint64_t)generation << 32;
}

#endif /* ZI_WIRE_TABLE_H */

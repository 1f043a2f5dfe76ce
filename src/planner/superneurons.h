/* planner/superneurons.h -- the three ways to recompute, and how often each runs nodes again. */
#ifndef ZI_PLANNER_SUPERNEURONS_H
#define ZI_PLANNER_SUPERNEURONS_H

#include "planner/draft.h"
#include "planner/planner.h"

typedef enum zi_sn_mode {
    ZI_SN_NONE,  /* nothing runs again                                                  */
    ZI_SN_SPEED, /* a segment runs again once, and stays for the rest of its backward    */
    ZI_SN_MEMORY, /* for each backward node anew, and dropped at once                     */
    ZI_SN_AWARE, /* SPEED where the segment fits into the largest layer's need, or MEMORY */
    ZI_SN_COUNT
} zi_sn_mode;

/* Fates for recomputation alone. */
void zi_superneurons_recompute(zi_draft *d, zi_sn_mode mode);

/* How many nodes run again, by mode (0 for ZI_SN_NONE; UINT32_MAX: beyond all measure). */
ZICO_NODISCARD zico_status zi_superneurons_counts(const zi_graph *g, const zi_cost *c,
                                                  uint32_t ret_counts[ZI_SN_COUNT]);

#endif /* ZI_PLANNER_SUPERNEURONS_H */

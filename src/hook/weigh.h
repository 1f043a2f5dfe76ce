/* hook/weigh.h -- what a process holds besides its large blocks, by the kernel's count. */
#ifndef ZI_HOOK_WEIGH_H
#define ZI_HOOK_WEIGH_H

#include <stdint.h>

/* Blocks below the threshold, the heap's free pages, generated code, stacks: each is small, and
 * together they rise by tens of MiB when training begins.  They are weighed now and then, and what
 * came on top of the weight at the begin of training is charged: the most so far, as it
 * comes again in each step. */
typedef struct zi_weight {
    uint64_t base_bytes; /* before the first step; 0: not weighed yet */
    uint64_t charged_bytes;
} zi_weight;

#define ZI_WEIGHT_GRAIN ((uint64_t)1 << 20) /* less is not worth a message           */
#define ZI_WEIGHT_MAX                                                                    \
    ((uint64_t)64 << 20) /* more is likely a large block that was
                                                taken long ago and is written only now */

/* Bytes to charge now.  anonymous: of the process; large: of it in blocks that are charged. */
uint64_t zi_weight_grown(zi_weight *w, uint64_t anonymous_bytes, uint64_t large_bytes);

/* Anonymous pages of this process; 0: cannot be read.  Allocates nothing. */
uint64_t zi_weight_anonymous(void);

#endif /* ZI_HOOK_WEIGH_H */

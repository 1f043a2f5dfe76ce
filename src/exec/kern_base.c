/* kern_base.c -- the own kernels for any machine. */
#include "exec/kernel.h"

#include <math.h>
#include <omp.h>
#include <string.h>
#include "graph/random.h"

#pragma GCC            optimize("O3,no-math-errno,no-trapping-math,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define KB      8
#define KTEXT   "own:base"
#define K(name) name##_base
#define MASK_T  uint8_t
#define MASK_POSITIVE(v)                                                                 \
    (__extension__({                                                                     \
        uint8_t m_ = 0;                                                                  \
        for (int l_ = 0; l_ < 8; l_++) m_ |= (uint8_t)(!((v)[l_] <= 0)) << l_;           \
        m_;                                                                              \
    }))
#define MASK_KEEP(m, v)                                                                  \
    (__extension__({                                                                     \
        const vi bit_ = {1, 2, 4, 8, 16, 32, 64, 128};                                   \
        (vf)((vi)(v) & ((((vi){0} + (int32_t)(m)) & bit_) != 0));                        \
    }))

#include "exec/kern_head.inc"
#include "exec/kern_bits.inc"
#include "exec/kern_flat.inc"
#include "exec/kern_norm.inc"
#include "exec/kern_pool.inc"
#include "exec/kern_shape.inc"
#include "exec/kern_loss.inc"
#include "exec/kern_optim.inc"
#include "exec/kern_dense.inc"
#include "exec/kern_set.inc"

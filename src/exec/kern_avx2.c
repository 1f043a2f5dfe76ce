/* kern_avx2.c -- the own kernels for x86 with AVX2 and FMA. */
#include "exec/kernel.h"
#if defined(ZI_KERN_X86)
#    include <immintrin.h>
#    include <math.h>
#    include <omp.h>
#    include <string.h>
#    include "graph/random.h"

#    pragma GCC            target("avx2,fma,bmi2,f16c")
#    pragma GCC            optimize("O3,no-math-errno,no-trapping-math,fp-contract=fast")
#    pragma GCC diagnostic ignored "-Wpsabi"

#    define KB      8
#    define KTEXT   "own:avx2"
#    define K(name) name##_avx2
#    define MASK_T  uint8_t
#    define MASK_POSITIVE(v)                                                             \
        ((uint8_t)_mm256_movemask_ps(                                                    \
            _mm256_cmp_ps((__m256)(v), _mm256_setzero_ps(), _CMP_NLE_UQ)))
#    define MASK_KEEP(m, v)                                                              \
        (__extension__({                                                                 \
            const vi bit_ = {1, 2, 4, 8, 16, 32, 64, 128};                               \
            (vf)((vi)(v) & ((((vi){0} + (int32_t)(m)) & bit_) != 0));                    \
        }))

#    include "exec/kern_head.inc"
#    include "exec/kern_bits.inc"
#    include "exec/kern_flat.inc"
#    include "exec/kern_norm.inc"
#    include "exec/kern_pool.inc"
#    include "exec/kern_shape.inc"
#    include "exec/kern_loss.inc"
#    include "exec/kern_optim.inc"
#    include "exec/kern_dense.inc"
#    include "exec/kern_set.inc"
#endif

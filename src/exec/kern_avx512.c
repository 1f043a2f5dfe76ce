/* kern_avx512.c -- the own kernels for x86 with AVX-512 (F, BW, DQ, VL). */
#include "exec/kernel.h"
#if defined(ZI_KERN_X86)
#    include <immintrin.h>
#    include <math.h>
#    include <omp.h>
#    include <string.h>
#    include "graph/random.h"

#    pragma GCC target(                                                                  \
        "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,f16c,prefer-vector-width=512")
#    pragma GCC            optimize("O3,no-math-errno,no-trapping-math,fp-contract=fast")
#    pragma GCC diagnostic ignored "-Wpsabi"

#    define KB      16
#    define KTEXT   "own:avx512"
#    define K(name) name##_avx512
#    define MASK_T  uint16_t
#    define MASK_POSITIVE(v)                                                             \
        ((uint16_t)_mm512_cmp_ps_mask((__m512)(v), _mm512_setzero_ps(), _CMP_NLE_UQ))
#    define MASK_KEEP(m, v) ((vf)_mm512_maskz_mov_ps((__mmask16)(m), (__m512)(v)))

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

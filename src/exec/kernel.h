/* exec/kernel.h -- between the executor and its kernels.
 *
 * A *bound node* (zi_kop) is a graph node with everything decided that does not change from
 * step to step: layouts, sizes, the function.  A *call* adds addresses, thread count and step
 * number.  Kernels allocate nothing, keep nothing, and cut their work by thread count alone,
 * so that one thread count always gives the same bits.
 *
 * The own kernels are compiled once per instruction set (kern_*.c include the kern_*.inc);
 * zi_kern_best names the set for this machine.
 */
#ifndef ZI_EXEC_KERNEL_H
#define ZI_EXEC_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/graph.h"

#define ZI_EXEC_THREADS_MAX 64u
#define ZI_EXEC_ALIGN       64u

/* How the elements of a tensor lie in memory. */
typedef enum zi_layout_kind {
    ZI_LAYOUT_PLAIN, /* row-major, as in the graph                                     */
    ZI_LAYOUT_BLOCK, /* (N, C/B, H, W, B), the last block of channels filled with zero */
    ZI_LAYOUT_OPAQUE /* as oneDNN likes its weights; padding is zero                   */
} zi_layout_kind;

typedef struct zi_layout {
    zi_layout_kind kind;
    uint32_t       block; /* BLOCK: B; else 1                                   */
    const void    *md;    /* OPAQUE: a dnnl_memory_desc_t, owned by the cache   */
    int64_t        n_pad; /* elements with padding                              */
    uint64_t       bytes; /* with padding                                       */
} zi_layout;

typedef struct zi_kview {
    zi_dtype  dtype;
    uint32_t  rank;
    int64_t   dims[ZI_MAX_RANK];
    int64_t   n; /* elements */
    zi_layout layout;
} zi_kview;

typedef struct zi_kop   zi_kop;
typedef struct zi_kcall zi_kcall;
typedef void            zi_kernel(const zi_kcall *c);

struct zi_kop {
    zi_op          op;
    const zi_node *node;
    const zi_attr *attr;
    uint32_t       n_in, n_out, n_up;
    zi_kview      *in, *out, *up; /* dtype COUNT: an absent position */
    zi_kernel     *fn;
    uint64_t       scratch_bytes; /* of the kernel itself */
    void          *prim;          /* onednn/: what fn needs */
    const char    *text;          /* how it is run */
};

struct zi_kcall {
    const zi_kop *op;
    void        **in, **out, **up; /* NULL: absent */
    void         *scratch;         /* ZI_EXEC_ALIGNed */
    unsigned      n_threads;
    uint64_t      step;
};

/* A set of own kernels for one instruction set. */
typedef struct zi_kern_set {
    const char *text;  /* "own:avx512" */
    uint32_t    block; /* channels per block */
    zi_kernel  *fn[ZI_OP_COUNT];
    /* Between plain and blocked, any direction; both views of the same shape. */
    void (*reorder)(const zi_kview *from, const void *src, const zi_kview *to, void *dst,
                    unsigned n_threads);
    /* Index of the first element that is not finite; -1: none. */
    int64_t (*find_bad)(const float *x, int64_t n, unsigned n_threads);
    /* y = act(z + b) over rows of n; z_out (may be NULL) takes z + b */
    void (*epilogue)(float *y, const float *bias, float *z_out, int64_t rows, int64_t n,
                     zi_post act, unsigned n_threads);
    /* db[j] = sum over rows of dy; part: n_threads x n floats */
    void (*column_sum)(const float *dy, int64_t rows, int64_t n, float *db, float *part,
                       unsigned n_threads);
} zi_kern_set;

extern const zi_kern_set zi_kern_base;
/* The vector variants are chosen function by function with GCC's pragmas; other compilers
 * (clang builds the fuzz targets) get the plain one. */
#if defined(__x86_64__) && !defined(__clang__)
#    define ZI_KERN_X86 1
extern const zi_kern_set zi_kern_avx2;
extern const zi_kern_set zi_kern_avx512;
#endif

#endif /* ZI_EXEC_KERNEL_H */

/* graph.h -- one training step as data: tensors, and the nodes that make them.
 *
 * THE ROOM
 *   A zi_graph holds forward pass, backward pass and parameter update of one network for
 *   one batch size.  It knows shapes and meanings, not addresses, layouts, devices or
 *   times.  Pure: no I/O, no clock, no threads; the same calls give the same graph.
 *
 * HOW A GRAPH COMES TO BE
 *   builder.h (by hand, zoo/, import/)  ->  zi_graph_fuse  ->  zi_graph_differentiate
 *   ->  zi_graph_add_update.  Each pass needs the one before it, or leaves it out: an
 *   inference graph stops after fuse.  After the last pass a graph is never changed.
 *
 * ORDER AND IDS
 *   nodes[] stands in execution order: a node's id is its position, and zi_graph_verify
 *   checks that the order is topological.  Tensor ids are positions in tensors[].  Passes
 *   may renumber nodes and drop tensors that nobody reads; ids kept across a pass must be
 *   looked up again (zi_graph_find_tensor).
 *
 * WHO WRITES WHAT
 *   - A tensor has at most one producer, the node that lists it in `out`.  INPUT, LABEL,
 *     PARAM and STATE tensors have none: they are there before the step begins.
 *   - PARAM and STATE tensors change in place, by nodes that list them in `up` ("updates":
 *     read, then written).  At most one node updates a tensor in a step, and it stands
 *     after every node that reads the tensor.  All other tensors are written once.
 *
 * WHAT A PLANNER MAY DO
 *   - Run a node again iff its op has ZI_OPF_RECOMPUTE, its inputs are present, and no
 *     updater of one of its inputs has run yet (a convolution cannot be run again after
 *     its weights have moved).  Nodes with ZI_OPF_STATEFUL run exactly once per step.
 *     RANDOM nodes yield the same mask again, as it depends on attributes and step only.
 *   - Write an output over a dying input where the op allows it (zi_graph_may_overwrite),
 *     and let a view share the bytes of its source (zi_graph_view_of).
 *   - ACTIVATION, GRAD and SCRATCH tensors may be dropped after their last reader; the
 *     loss, the tensors in outputs[], PARAM, STATE, INPUT and LABEL stay to the end.
 *
 * INVARIANTS (zi_graph_verify checks each and names the node that breaks one)
 *   G1  ids are in range; a position is ZI_ID_NONE only where the op allows it
 *   G2  the counts of in, out, up are within the op's limits
 *   G3  a tensor is produced at most once, before it is read; roles as above
 *   G4  shapes and types are what inference says
 *   G5  `up` tensors are PARAM or STATE; one updater each, after all readers
 *   G6  producer, readers, updater agree with the nodes' lists
 *   G7  phases never go from UPDATE or BACKWARD back to FORWARD along an edge
 *
 * ERRORS   Functions return a status; a zi_graph_diag, where taken, is filled on failure
 *          with a sentence that names the node (may be NULL).
 * NEXT     ops.def (operators), attrs.def (attributes), builder.h, liveness.h, random.h.
 */
#ifndef ZI_GRAPH_GRAPH_H
#define ZI_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "zico/status.h"

#define ZI_MAX_RANK   6
#define ZI_ID_NONE    UINT32_MAX
#define ZI_MAX_NODES  (1u << 20)         /* of one graph, and as many tensors */
#define ZI_MAX_ELEMS  ((int64_t)1 << 40) /* of one tensor */
#define ZI_NAME_BYTES 256                /* longest name, with its end */

typedef uint32_t zi_tensor_id;
typedef uint32_t zi_node_id;

typedef enum zi_dtype {
    ZI_DTYPE_F32,
    ZI_DTYPE_BF16, /* reserved: no operator takes it yet */
    ZI_DTYPE_I32,
    ZI_DTYPE_I64,
    ZI_DTYPE_U8,
    ZI_DTYPE_BIT, /* eight elements per byte, lowest bit first */
    ZI_DTYPE_COUNT
} zi_dtype;

typedef enum zi_role {
    ZI_ROLE_INPUT,      /* given anew for each step: data, and the scalars lr and step */
    ZI_ROLE_LABEL,      /* given anew for each step: what the loss compares with      */
    ZI_ROLE_PARAM,      /* learnt; changed by one update node                         */
    ZI_ROLE_GRAD,       /* gradient of a parameter or of an activation                */
    ZI_ROLE_ACTIVATION, /* what the forward pass makes, with saved statistics, masks  */
    ZI_ROLE_STATE,      /* optimizer state, running statistics; kept between steps    */
    ZI_ROLE_SCRATCH,    /* made and used within the update phase                      */
    ZI_ROLE_COUNT
} zi_role;

typedef enum zi_phase {
    ZI_PHASE_FORWARD,
    ZI_PHASE_BACKWARD,
    ZI_PHASE_UPDATE,
    ZI_PHASE_COUNT
} zi_phase;

/* attr.act: the activation fused behind an operator. */
typedef enum zi_post {
    ZI_POST_NONE,
    ZI_POST_RELU,
    ZI_POST_GELU,
    ZI_POST_GELU_TANH
} zi_post;

typedef enum zi_op {
#define OP(name, ...) ZI_OP_##name,
#include "graph/ops.def"
#undef OP
    ZI_OP_COUNT
} zi_op;

/* What ops.def says of an operator. */
enum {
    ZI_OPF_HEAVY = 1,     /* work grows faster than bytes: convolution, matmul        */
    ZI_OPF_CHEAP = 2,     /* bound by memory speed                                    */
    ZI_OPF_RECOMPUTE = 4, /* may run again within a step, giving the same bits        */
    ZI_OPF_RANDOM = 8,    /* depends on seed, stream and step number (random.h)       */
    ZI_OPF_STATEFUL = 16, /* updates tensors in place: exactly once per step          */
    ZI_OPF_VIEW = 32,     /* output 0 is input 0 under another shape; no work         */
    ZI_OPF_MAYVIEW = 64,  /* outputs are parts of input 0 where these are contiguous  */
};

typedef enum zi_attr_kind {
#define KIND(name) ZI_ATTR_##name,
#define I(kind, field, n)
#define I1(kind, field)
#define F1(kind, field)
#define END(name)
#include "graph/attrs.def"
#undef KIND
#undef I
#undef I1
#undef F1
#undef END
    ZI_ATTR_COUNT
} zi_attr_kind;

/* The attributes of a node: the member named by its op's kind is the valid one. */
typedef union zi_attr {
#define KIND(name)        struct {
#define I(kind, field, n) int64_t field[n];
#define I1(kind, field)   int64_t field;
#define F1(kind, field)   double field;
#define END(name)                                                                        \
    }                                                                                    \
    name;
#include "graph/attrs.def"
#undef KIND
#undef I
#undef I1
#undef F1
#undef END
} zi_attr;

typedef struct zi_op_info {
    const char  *text;
    zi_attr_kind attr;
    uint8_t      in_min, in_max, out_min, out_max, up_min, up_max; /* 255: any number */
    uint32_t     flags;                                            /* ZI_OPF_ */
    int8_t       over[2][2]; /* {output, input} pairs that may share bytes; -1: none */
} zi_op_info;

const zi_op_info *zi_op_get(zi_op op); /* never NULL for op < ZI_OP_COUNT */
const char       *zi_dtype_text(zi_dtype t);
const char       *zi_role_text(zi_role r);
const char       *zi_phase_text(zi_phase p);

/* How a PARAM or STATE tensor begins.  Rules such as Kaiming's are resolved by the
 * builder into the distributions below. */
typedef enum zi_init_kind {
    ZI_INIT_NONE,    /* nothing to do                                        */
    ZI_INIT_CONST,   /* a everywhere                                         */
    ZI_INIT_UNIFORM, /* in [a, b)                                            */
    ZI_INIT_NORMAL,  /* mean a, standard deviation b                         */
    ZI_INIT_VALUE,   /* copy of zi_tensor.value (an imported initializer)    */
    ZI_INIT_COUNT
} zi_init_kind;

typedef struct zi_init {
    zi_init_kind kind;
    double       a, b;
} zi_init;

typedef struct zi_tensor {
    char        *name; /* unique in the graph; parameters are called as in PyTorch */
    zi_dtype     dtype;
    zi_role      role;
    uint32_t     rank; /* 0: a scalar */
    int64_t      dims[ZI_MAX_RANK];
    uint64_t     bytes;    /* of the plain layout; padding is the executor's to add */
    zi_init      init;     /* PARAM, STATE */
    void        *value;    /* `bytes` bytes, owned; NULL unless init is VALUE        */
    zi_tensor_id grad_of;  /* GRAD, finished: of which tensor; parts of sums: NONE     */
    zi_tensor_id state_of; /* optimizer state: of which parameter; else NONE         */
    zi_node_id   producer; /* NONE: there before the step                            */
    zi_node_id   updater;  /* the node that changes it in place; NONE: nobody        */
    zi_node_id  *readers;  /* ascending, each once: nodes with it in `in`            */
    uint32_t     n_readers, cap_readers;
} zi_tensor;

typedef struct zi_node {
    char         *name; /* unique in the graph */
    zi_op         op;
    zi_phase      phase;
    zi_node_id    forward; /* BACKWARD: the node it differentiates; else NONE */
    uint32_t      n_in, n_out, n_up;
    zi_tensor_id *in, *out, *up; /* one allocation, owned by `in` */
    zi_attr       attr;
} zi_node;

typedef struct zi_graph {
    char            *name;
    zi_tensor       *tensors;
    zi_node         *nodes;
    uint32_t         n_tensors, n_nodes;
    uint32_t         cap_tensors, cap_nodes;
    zi_tensor_id     loss;     /* NONE: inference                                       */
    zi_tensor_id     lr, step; /* f32 scalar INPUTs that update nodes read; or NONE    */
    zi_tensor_id    *outputs;  /* what the user wants to see (logits); live to the end  */
    uint32_t         n_outputs;
    bool             differentiated, has_update;
    struct zi_names *names; /* finds tensors and nodes by name; names.h */
} zi_graph;

typedef struct zi_graph_diag {
    zi_node_id node;      /* NONE: no single node is to blame */
    uint64_t   line;      /* of the text form; 0: not from text */
    char       text[480]; /* one sentence, no newline */
} zi_graph_diag;

/* ---- making ---------------------------------------------------------------------- */

ZICO_NODISCARD zico_status zi_graph_new(const char *name, zi_graph **ret_graph);
void                       zi_graph_free(zi_graph *g);
ZICO_NODISCARD zico_status zi_graph_clone(const zi_graph *g, zi_graph **ret_graph);

typedef struct zi_tensor_spec {
    const char    *name; /* copied; made unique with a suffix when taken */
    zi_dtype       dtype;
    zi_role        role;
    uint32_t       rank;
    const int64_t *dims; /* each >= 1 */
    zi_init        init;
    const void    *value; /* copied */
} zi_tensor_spec;

ZICO_NODISCARD zico_status zi_graph_add_tensor(zi_graph *g, const zi_tensor_spec *spec,
                                               zi_graph_diag *diag, zi_tensor_id *ret_id);

typedef struct zi_node_spec {
    const char                   *name; /* copied; made unique with a suffix when taken */
    zi_op                         op;
    zi_phase                      phase;
    zi_node_id                    forward; /* ZI_ID_NONE unless backward */
    uint32_t                      n_in, n_out, n_up;
    const zi_tensor_id           *in, *up;
    const zi_attr                *attr; /* NULL: all zero */
    const struct zi_shape *const *hint; /* as for zi_graph_infer; NULL: none */
    /* Which outputs to make, bit i = output i; the first out_min are always made. */
    uint32_t want_out;
} zi_node_spec;

/* Append a node: checks it, infers its outputs, makes their tensors (named after the node,
 * role by phase) and links them.  ret_out takes n_out ids (NONE for unwanted ones).
 * ZICO_E_SHAPE: the inputs do not fit; `diag` names node and dims. */
ZICO_NODISCARD zico_status zi_graph_add_node(zi_graph *g, const zi_node_spec *spec,
                                             zi_graph_diag *diag, zi_tensor_id *ret_out);

ZICO_NODISCARD zico_status zi_graph_add_output(zi_graph *g, zi_tensor_id t);

/* ---- shapes ---------------------------------------------------------------------- */

typedef struct zi_shape {
    zi_dtype dtype;
    uint32_t rank;
    int64_t  dims[ZI_MAX_RANK];
} zi_shape;

/* The outputs of `op` on `in` (NULL for an absent position; dtype and dims of the present
 * ones).  Backward operators whose output shape does not follow from their inputs get it
 * from `hint[i]` (NULL: none), which is checked where it can be. */
ZICO_NODISCARD zico_status zi_graph_infer(zi_op op, const zi_attr *attr, uint32_t n_in,
                                          const zi_shape *const *in, uint32_t n_out,
                                          const zi_shape *const *hint,
                                          zi_graph_diag *diag, zi_shape *ret_out);

int64_t  zi_tensor_elems(const zi_tensor *t);
uint64_t zi_dtype_bytes(zi_dtype t, int64_t n_elems); /* rounded up to whole bytes */
zi_shape zi_tensor_shape(const zi_tensor *t);

/* ---- asking ---------------------------------------------------------------------- */

ZICO_NODISCARD zico_status zi_graph_verify(const zi_graph *g, zi_graph_diag *diag);

zi_tensor_id zi_graph_find_tensor(const zi_graph *g, const char *name); /* or NONE */
zi_node_id   zi_graph_find_node(const zi_graph *g, const char *name);   /* or NONE */

/* May output position `o` of the node share bytes with input position `i`?  True when the
 * op allows it, types and bytes agree, and the input is no PARAM, STATE, INPUT or LABEL
 * and not wanted at the end.  Whether the input dies here is for the caller to know. */
bool zi_graph_may_overwrite(const zi_graph *g, zi_node_id n, uint32_t o, uint32_t i);

/* The tensor whose bytes `t` shares as a contiguous part, and at which byte offset; NONE
 * when t has bytes of its own.  One step: the source may itself be a view. */
zi_tensor_id zi_graph_view_of(const zi_graph *g, zi_tensor_id t, uint64_t *ret_offset);

/* Must the tensor stay until the step has ended? */
bool zi_graph_lives_on(const zi_graph *g, zi_tensor_id t);

uint64_t zi_graph_param_count(const zi_graph *g); /* elements of all PARAM tensors */

/* ---- passes ---------------------------------------------------------------------- */

/* Forward graphs only.  conv|linear + bias, + relu (linear also + gelu); batch_norm + relu,
 * + add + relu; softmax + nll.  What has another reader, or is an output, stays as it is. */
ZICO_NODISCARD zico_status zi_graph_fuse(zi_graph *g, zi_graph_diag *diag);

/* Append the backward pass of scalar `loss`: gradients of all parameters that it depends
 * on, and of nothing that no parameter needs.  Sums over fan-out are `add` nodes, placed
 * as early as both parts exist.  ZICO_E_UNSUPPORTED: an op has no gradient. */
ZICO_NODISCARD zico_status zi_graph_differentiate(zi_graph *g, zi_tensor_id loss,
                                                  zi_graph_diag *diag);

/* The finished gradient of a parameter; NONE: the loss does not depend on it. */
zi_tensor_id zi_graph_grad(const zi_graph *g, zi_tensor_id param);

typedef enum zi_optim_kind {
    ZI_OPTIM_SGD,
    ZI_OPTIM_MOMENTUM,
    ZI_OPTIM_ADAM,
    ZI_OPTIM_ADAMW
} zi_optim_kind;

typedef struct zi_optim {
    zi_optim_kind kind;
    double        momentum, decay, beta1, beta2, eps;
    bool          nesterov;
    bool          decay_vectors; /* decay also biases and norm parameters (rank <= 1) */
    double        clip_norm;     /* 0: no clipping of the global norm                 */
} zi_optim;

/* PyTorch's defaults for the kind; decay_vectors is true as there. */
zi_optim zi_optim_default(zi_optim_kind kind);

/* One update node per parameter, each placed as soon as the gradient is finished and the
 * parameter has been read for the last time (with clip_norm: at the end).  Predictions that are read
 * within the step are outputs no more: nobody looks at them while training. */
ZICO_NODISCARD zico_status zi_graph_add_update(zi_graph *g, const zi_optim *opt,
                                               zi_graph_diag *diag);

/* ---- text form ------------------------------------------------------------------- */

/* Parses back to an equal graph; the bytes of imported values are left out.  The string is
 * the caller's to zi_free(). */
ZICO_NODISCARD zico_status zi_graph_print(const zi_graph *g, char **ret_text);
ZICO_NODISCARD zico_status zi_graph_parse(const char *text, size_t n_bytes,
                                          zi_graph_diag *diag, zi_graph **ret_graph);

#endif /* ZI_GRAPH_GRAPH_H */

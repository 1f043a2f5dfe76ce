/* onnx_import.h -- the importer's inside: values by name, and operators.
 *
 * A value is a tensor of the graph, or data known now: an initializer, a constant, or a
 * short list of whole numbers that shape arithmetic has computed.  Data becomes a tensor
 * only when an operator wants one; shapes, borders and limits never do.
 */
#ifndef ZI_GRAPH_ONNX_IMPORT_H
#define ZI_GRAPH_ONNX_IMPORT_H

#include "graph/builder_state.h"
#include "graph/import/onnx.h"
#include "graph/names.h"
#include "onnx.pb-c.h"

#define ZI_ONNX_MAX_LIST 32 /* longest list of shape arithmetic */

/* A few numbers known now: a scalar, a list or a small matrix.  Whole numbers beyond 2^53
 * ("to the end") are brought back to it. */
typedef struct zi_onnx_list {
    double   v[ZI_ONNX_MAX_LIST];
    uint32_t n, rank; /* rank 0 to 2 */
    int64_t  dims[2];
    bool     whole;
} zi_onnx_list;

typedef struct zi_onnx_value {
    const char              *name;
    zi_tensor_id             tensor;  /* NONE: data                                */
    const Onnx__TensorProto *proto;   /* NULL: not from the file                   */
    bool                     learnt;  /* an initializer, not a constant            */
    zi_onnx_list            *list;    /* owned; of shape arithmetic, or NULL      */
    zi_tensor_id             flipped; /* the transposed parameter, once made      */
} zi_onnx_value;

typedef struct zi_onnx {
    zi_gb                 *b;
    const zi_onnx_options *opt;
    zi_names              *names; /* into values */
    zi_onnx_value         *values;
    uint32_t               n_values, cap_values;
    const Onnx__NodeProto *node; /* at hand */
    int64_t                opset;
    int64_t     file_batch; /* first dim in the file, if opt->batch replaces it */
    zico_status st;
    char        why[320]; /* what is wrong with the node at hand */
} zi_onnx;

/* Note why the node at hand cannot be imported; the first reason stays. */
void zi_onnx_fail(zi_onnx *o, zico_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool zi_onnx_failed(const zi_onnx *o);

/* ---- values ----------------------------------------------------------------------- */
uint32_t zi_onnx_value_add(zi_onnx *o, const char *name); /* fails when known; or NONE */

/* Input i of the node at hand; NULL: absent (which fails unless optional). */
zi_onnx_value *zi_onnx_in(zi_onnx *o, size_t i);
zi_onnx_value *zi_onnx_in_opt(zi_onnx *o, size_t i);

zi_onnx_value *zi_onnx_value_named(zi_onnx *o, const char *name);

/* Input i as a tensor: initializers become parameters, constants fixed state. */
zi_tensor_id zi_onnx_tensor(zi_onnx *o, size_t i);
zi_tensor_id zi_onnx_value_tensor(zi_onnx *o, zi_onnx_value *v);
zi_tensor_id zi_onnx_value_flipped(zi_onnx *o, zi_onnx_value *v); /* (a,b) as (b,a) */
/* A fresh STATE tensor with the value's numbers (running statistics). */
zi_tensor_id zi_onnx_value_state(zi_onnx *o, zi_onnx_value *v);

bool zi_onnx_is_data(const zi_onnx_value *v);
bool zi_onnx_is_number(const zi_onnx_value *v, double *ret); /* one element of data */
/* A short list of numbers that no gradient belongs to?  Then *ret holds it. */
bool     zi_onnx_list_of(const zi_onnx_value *v, zi_onnx_list *ret);
uint32_t zi_onnx_data_rank(const zi_onnx_value *v);
int64_t  zi_onnx_data_dim(const zi_onnx_value *v, uint32_t i);

/* The whole numbers of a short list; fails (returns 0) when it is none. */
uint32_t zi_onnx_ints(zi_onnx *o, const zi_onnx_value *v, int64_t *ret, uint32_t max);

/* Check an initializer's dims against its bytes. */
zico_status zi_onnx_check_data(zi_onnx *o, const Onnx__TensorProto *t);

/* ---- outputs and attributes of the node at hand ------------------------------------ */
void zi_onnx_out(zi_onnx *o, size_t i, zi_tensor_id t);
void zi_onnx_out_list(zi_onnx *o, const zi_onnx_list *l);
void zi_onnx_out_data(zi_onnx *o, const Onnx__TensorProto *t, bool learnt);

int64_t zi_onnx_attr_int(const zi_onnx *o, const char *name, int64_t otherwise);
double  zi_onnx_attr_float(const zi_onnx *o, const char *name, double otherwise);
bool zi_onnx_attr_is(const zi_onnx *o, const char *name, const char *text, bool absent);
uint32_t zi_onnx_attr_ints(zi_onnx *o, const char *name, int64_t *ret, uint32_t max);
const Onnx__AttributeProto *zi_onnx_attr(const zi_onnx *o, const char *name);

/* An axis attribute or value, counted from the end when negative; fails out of range. */
int64_t  zi_onnx_axis(zi_onnx *o, int64_t axis, uint32_t rank);
uint32_t zi_onnx_rank(const zi_onnx *o, zi_tensor_id t);

/* If all inputs of the node at hand are lists, and its operator is one of shape
 * arithmetic: compute the output now. */
bool zi_onnx_fold(zi_onnx *o);

/* ---- operators --------------------------------------------------------------------- */
typedef void zi_onnx_fn(zi_onnx *o);

zi_onnx_fn *zi_onnx_layer_fn(const char *op); /* NULL: not there */
zi_onnx_fn *zi_onnx_shape_fn(const char *op);

/* What several nodes are together; kept with the last of them. */
typedef enum zi_onnx_kind {
    ZI_ONNX_PLAIN, /* a node like any other       */
    ZI_ONNX_SKIP,  /* an inner part of a pattern  */
    ZI_ONNX_GELU,
    ZI_ONNX_LAYER_NORM
} zi_onnx_kind;

typedef struct zi_onnx_pattern {
    zi_onnx_kind kind;
    const char  *x, *scale, *bias; /* values */
    double       eps;
} zi_onnx_pattern;

/* One entry per node; to be freed with zi_free. */
ZICO_NODISCARD zico_status zi_onnx_find_patterns(const Onnx__GraphProto *g,
                                                 zi_onnx_pattern       **ret_found);

/* Refuse files whose messages are nested deeper than any real one: the protobuf parser
 * recurses.  Follows only the fields that can nest. */
bool zi_onnx_depth_ok(const uint8_t *data, size_t n_bytes);

#endif /* ZI_GRAPH_ONNX_IMPORT_H */

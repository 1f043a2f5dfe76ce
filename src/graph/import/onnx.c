/* onnx.c -- walks an ONNX graph node by node and writes it down with the builder. */
#include "graph/import/onnx.h"
#include "graph/import/onnx_import.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/try.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIN_OPSET 11
#define MAX_OPSET 17

/* ---- inputs and initializers ----------------------------------------------------------- */

static void
add_initializers(zi_onnx *o, const Onnx__GraphProto *g)
{
    if (g->n_sparse_initializer)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "sparse initializers are not supported");
    for (size_t i = 0; i < g->n_initializer && !zi_onnx_failed(o); i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        if (zi_onnx_check_data(o, t) < 0) return;
        uint32_t at = zi_onnx_value_add(o, t->name);
        if (at == ZI_ID_NONE) return;
        o->values[at].proto = t;
        o->values[at].learnt = true;
    }
}

static void
input_dims(zi_onnx *o, const char *name, const Onnx__TensorShapeProto *s, int64_t *dims)
{
    if (s->n_dim > ZI_MAX_RANK) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "input '%.80s' has %zu dims", name, s->n_dim);
        return;
    }
    for (size_t i = 0; i < s->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
        bool                                     fixed =
            d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dims[i] = fixed ? d->dim_value : 0;
        if (i == 0 && o->opt->batch) {
            if (fixed && dims[0] != o->opt->batch) o->file_batch = dims[0];
            dims[0] = o->opt->batch;
        }
        if (dims[i] < 1)
            zi_onnx_fail(o, i ? ZICO_E_UNSUPPORTED : ZICO_E_ARG,
                         "input '%.80s': dim %zu is open%s", name, i,
                         i ? "" : "; a batch size is needed");
    }
}

static void
add_input(zi_onnx *o, const Onnx__ValueInfoProto *v)
{
    char    clean[ZI_NAME_BYTES];
    int64_t dims[ZI_MAX_RANK] = {0};
    if (!v->name || zi_names_get(o->names, ZI_NAME_TENSOR, v->name) != ZI_ID_NONE)
        return; /* an initializer listed as an input, as old files do */
    bool tensor = v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    if (!tensor || !v->type->tensor_type->shape) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "input '%.80s' has no shape", v->name);
        return;
    }
    int32_t  type = v->type->tensor_type->elem_type;
    zi_dtype dtype = type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT   ? ZI_DTYPE_F32
                     : type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ? ZI_DTYPE_I32
                     : type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ? ZI_DTYPE_I64
                                                                    : ZI_DTYPE_COUNT;
    if (dtype == ZI_DTYPE_COUNT)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "input '%.80s' has data type %d", v->name,
                     type);
    input_dims(o, v->name, v->type->tensor_type->shape, dims);
    uint32_t at = zi_onnx_value_add(o, v->name);
    if (at == ZI_ID_NONE) return;
    size_t n = 0;
    for (; v->name[n] && n < 200; n++)
        clean[n] =
            v->name[n] > ' ' && v->name[n] < 127 && v->name[n] != '"' ? v->name[n] : '_';
    clean[n] = 0;
    o->values[at].tensor =
        zi_gb_input(o->b, clean, dtype, (uint32_t)v->type->tensor_type->shape->n_dim,
                    dims);
}

/* ---- nodes ----------------------------------------------------------------------------- */

/* "/layer1/conv/Conv" names the scope of what the node becomes. */
static void
scope_of(const Onnx__NodeProto *n, char ret[128])
{
    const char *from = n->name && *n->name ? n->name : n->op_type;
    size_t      k = 0;
    while (*from == '/') from++;
    for (; from[k] && k < 100; k++)
        ret[k] = from[k] > ' ' && from[k] < 127 && from[k] != '"' ? from[k] : '_';
    ret[k] = 0;
    if (!k) strcpy(ret, "node");
}

static void
add_node(zi_onnx *o, const Onnx__NodeProto *n)
{
    char scope[128];
    o->node = n;
    if (!n->op_type || (n->domain && *n->domain && strcmp(n->domain, "ai.onnx") != 0)) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                     "operators of domain '%.40s' are not supported",
                     n->domain ? n->domain : "");
        return;
    }
    zi_onnx_fn *fn = zi_onnx_layer_fn(n->op_type);
    if (!fn) fn = zi_onnx_shape_fn(n->op_type);
    if (!fn && zi_onnx_fold(o)) return;
    if (!fn) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "this operator is not supported");
        return;
    }
    scope_of(n, scope);
    zi_gb_enter(o->b, "%s", scope);
    if (!zi_onnx_fold(o)) fn(o);
    zi_gb_leave(o->b);
}

/* A pattern's last node stands for the whole. */
static void
add_pattern(zi_onnx *o, const Onnx__NodeProto *n, const zi_onnx_pattern *p)
{
    char scope[128];
    o->node = n;
    scope_of(n, scope);
    zi_gb_enter(o->b, "%s", scope);
    zi_tensor_id in[3] = {zi_onnx_value_tensor(o, zi_onnx_value_named(o, p->x))};
    if (p->kind == ZI_ONNX_GELU) {
        zi_onnx_out(o, 0, zi_gb_gelu(o->b, in[0], false));
    } else {
        zi_attr a = {.norm = {.eps = p->eps}};
        in[1] = zi_onnx_value_tensor(o, zi_onnx_value_named(o, p->scale));
        in[2] = zi_onnx_value_tensor(o, zi_onnx_value_named(o, p->bias));
        zi_onnx_out(o, 0, zi_gb_op(o->b, ZI_OP_LAYER_NORM, &a, 3, in));
    }
    zi_gb_leave(o->b);
}

static void
add_nodes(zi_onnx *o, const Onnx__GraphProto *g)
{
    zi_onnx_pattern *found = NULL;
    if (zi_onnx_failed(o)) return;
    if (zi_onnx_find_patterns(g, &found) < 0) {
        zi_onnx_fail(o, ZICO_E_NOMEM, "no memory");
        return;
    }
    for (size_t i = 0; i < g->n_node && !zi_onnx_failed(o); i++) {
        if (found[i].kind == ZI_ONNX_PLAIN)
            add_node(o, g->node[i]);
        else if (found[i].kind != ZI_ONNX_SKIP)
            add_pattern(o, g->node[i], &found[i]);
    }
    zi_free(found);
}

static void
add_outputs(zi_onnx *o, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_output && !zi_onnx_failed(o); i++) {
        const char *name = g->output[i]->name ? g->output[i]->name : "";
        uint32_t    at = zi_names_get(o->names, ZI_NAME_TENSOR, name);
        if (at == ZI_ID_NONE || o->values[at].tensor == ZI_ID_NONE)
            zi_onnx_fail(o, ZICO_E_FORMAT, "output '%.80s' is made by no node", name);
        else
            zi_gb_output(o->b, o->values[at].tensor);
    }
    if (!zi_onnx_failed(o) && !o->b->g->n_outputs)
        zi_onnx_fail(o, ZICO_E_FORMAT, "the graph has no output");
}

/* Labels have the dims of the first output without its classes. */
static void
add_loss(zi_onnx *o)
{
    if (zi_onnx_failed(o)) return;
    zi_tensor_id    out = o->b->g->outputs[0];
    const zi_tensor t = o->b->g->tensors[out];
    if (t.rank < 2 || t.dtype != ZI_DTYPE_F32 || t.producer == ZI_ID_NONE) {
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED,
                     "no loss for output '%.80s': it has %" PRIu32 " dims", t.name,
                     t.rank);
        return;
    }
    int64_t  dims[ZI_MAX_RANK];
    uint32_t n = 0, classes = t.rank == 4 ? 1 : t.rank - 1;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i != classes) dims[n++] = t.dims[i];
    zi_tensor_id labels = zi_gb_label(o->b, "labels", n, dims);
    if (o->b->g->nodes[t.producer].op == ZI_OP_SOFTMAX)
        zi_gb_nll(o->b, out, labels);
    else
        zi_gb_cross_entropy(o->b, out, labels);
}

/* ---- whole files ----------------------------------------------------------------------- */

static int64_t
opset_of(const Onnx__ModelProto *m)
{
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            return m->opset_import[i]->version;
    }
    return 0;
}

static void
walk(zi_onnx *o, const Onnx__ModelProto *m)
{
    if (!m->graph) {
        zi_onnx_fail(o, ZICO_E_FORMAT, "there is no graph in the file");
        return;
    }
    if (o->opset < MIN_OPSET || o->opset > MAX_OPSET)
        zi_onnx_fail(o, ZICO_E_UNSUPPORTED, "opset %" PRId64 ", supported are %d to %d",
                     o->opset, MIN_OPSET, MAX_OPSET);
    add_initializers(o, m->graph);
    for (size_t i = 0; i < m->graph->n_input && !zi_onnx_failed(o); i++)
        add_input(o, m->graph->input[i]);
    add_nodes(o, m->graph);
    if (!zi_onnx_failed(o)) o->node = NULL; /* from here on no node is to blame */
    add_outputs(o, m->graph);
    if (o->opt->training) add_loss(o);
}

/* Who and why, in one sentence. */
static zico_status
explain(const zi_onnx *o, zi_graph_diag *diag)
{
    zico_status st = o->st < 0 ? o->st : o->b->st;
    const char *why = o->st < 0 ? o->why : o->b->diag.text;
    if (!o->node) return zi_graph_complain(diag, st, ZI_ID_NONE, "ONNX: %.400s", why);
    return zi_graph_complain(diag, st, ZI_ID_NONE,
                             "ONNX node '%.80s' (%.40s, opset %" PRId64 "): %.300s",
                             o->node->name ? o->node->name : "",
                             o->node->op_type ? o->node->op_type : "no operator",
                             o->opset, why);
}

static zico_status
import_model(const Onnx__ModelProto *m, const zi_onnx_options *opt, zi_graph_diag *diag,
             zi_graph **ret_graph)
{
    zi_onnx o = {.opt = opt, .opset = opset_of(m)};
    o.b = zi_gb_new("onnx", opt->training, opt->seed);
    if (!o.b) return ZICO_E_NOMEM;
    zico_status st = zi_names_new(&o.names);
    if (st >= 0) {
        walk(&o, m);
        st = zi_onnx_failed(&o) ? explain(&o, diag) : zi_graph_prune(o.b->g);
    }
    zi_names_free(o.names);
    for (uint32_t i = 0; i < o.n_values; i++) zi_free(o.values[i].list);
    zi_free(o.values);
    if (st >= 0) return zi_gb_finish(o.b, diag, ret_graph);
    zi_gb_free(o.b);
    return st;
}

static void *
pb_alloc(void *unused, size_t n)
{
    (void)unused;
    return zi_malloc(n);
}

static void
pb_free(void *unused, void *p)
{
    (void)unused;
    zi_free(p);
}

zico_status
zi_onnx_import(const void *data, size_t n_bytes, const zi_onnx_options *opt,
               zi_graph_diag *diag, zi_graph **ret_graph)
{
    ProtobufCAllocator alloc = {.alloc = pb_alloc, .free = pb_free};

    if (opt->batch < 0 || opt->batch > 1 << 24)
        return zi_graph_complain(diag, ZICO_E_ARG, ZI_ID_NONE, "a batch of %" PRId64,
                                 opt->batch);
    if (!zi_onnx_depth_ok(data, n_bytes))
        return zi_graph_complain(diag, ZICO_E_FORMAT, ZI_ID_NONE,
                                 "ONNX: messages are nested too deeply");
    Onnx__ModelProto *m = onnx__model_proto__unpack(&alloc, n_bytes, data);
    if (!m)
        return zi_graph_complain(diag, ZICO_E_FORMAT, ZI_ID_NONE,
                                 "ONNX: the file is truncated or no ONNX model");
    zico_status st = import_model(m, opt, diag, ret_graph);
    onnx__model_proto__free_unpacked(m, &alloc);
    return st;
}

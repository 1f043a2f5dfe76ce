/* onnx_test.c -- ONNX files made by hand: what imports, what is refused, and why. */
#include "graph/import/onnx.h"
#include "base/alloc.h"
#include "support/graph_ref.h"
#include "test.h"

#include "onnx.pb-c.h"

/* ---- a small writer -------------------------------------------------------------------- */

#define MAX 64

typedef struct file {
    Onnx__ModelProto                  model;
    Onnx__OperatorSetIdProto          opset, *opset_ptr;
    Onnx__GraphProto                  graph;
    Onnx__NodeProto                   node[MAX], *node_ptr[MAX];
    Onnx__AttributeProto              attr[MAX], *attr_ptr[MAX][4];
    Onnx__TensorProto                 init[MAX], *init_ptr[MAX];
    Onnx__ValueInfoProto              value[8], *in_ptr[4], *out_ptr[4];
    Onnx__TypeProto                   type[8];
    Onnx__TypeProto__Tensor           tensor[8];
    Onnx__TensorShapeProto            shape[8];
    Onnx__TensorShapeProto__Dimension dim[8][8], *dim_ptr[8][8];
    char                             *names[MAX][8];
    int64_t                           dims[MAX][8];
    float                             floats[MAX][256];
    size_t                            n_attr, n_value;
} file;

static file *
new_file(int64_t opset)
{
    file *f = calloc(1, sizeof *f);
    onnx__model_proto__init(&f->model);
    onnx__operator_set_id_proto__init(&f->opset);
    onnx__graph_proto__init(&f->graph);
    f->opset.has_version = 1;
    f->opset.version = opset;
    f->opset_ptr = &f->opset;
    f->model.n_opset_import = 1;
    f->model.opset_import = &f->opset_ptr;
    f->model.graph = &f->graph;
    f->graph.node = f->node_ptr;
    f->graph.initializer = f->init_ptr;
    f->graph.input = f->in_ptr;
    f->graph.output = f->out_ptr;
    return f;
}

static Onnx__ValueInfoProto *
value(file *f, const char *name, size_t rank, const int64_t *dims)
{
    size_t i = f->n_value++;
    onnx__value_info_proto__init(&f->value[i]);
    onnx__type_proto__init(&f->type[i]);
    onnx__type_proto__tensor__init(&f->tensor[i]);
    onnx__tensor_shape_proto__init(&f->shape[i]);
    f->value[i].name = (char *)name;
    f->value[i].type = &f->type[i];
    f->type[i].value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    f->type[i].tensor_type = &f->tensor[i];
    f->tensor[i].has_elem_type = 1;
    f->tensor[i].elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    f->tensor[i].shape = &f->shape[i];
    f->shape[i].n_dim = rank;
    f->shape[i].dim = f->dim_ptr[i];
    for (size_t k = 0; k < rank; k++) {
        onnx__tensor_shape_proto__dimension__init(&f->dim[i][k]);
        f->dim_ptr[i][k] = &f->dim[i][k];
        f->dim[i][k].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        f->dim[i][k].dim_value = dims[k];
    }
    return &f->value[i];
}

static void
input(file *f, const char *name, size_t rank, const int64_t *dims)
{
    f->in_ptr[f->graph.n_input++] = value(f, name, rank, dims);
}

static void
output(file *f, const char *name)
{
    f->out_ptr[f->graph.n_output++] = value(f, name, 0, NULL);
}

static Onnx__TensorProto *
initializer(file *f, const char *name, size_t rank, const int64_t *dims)
{
    size_t             i = f->graph.n_initializer++, n = 1;
    Onnx__TensorProto *t = f->init_ptr[i] = &f->init[i];
    onnx__tensor_proto__init(t);
    t->name = (char *)name;
    t->has_data_type = 1;
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    for (size_t k = 0; k < rank; k++) n *= (size_t)(f->dims[i][k] = dims[k]);
    t->n_dims = rank;
    t->dims = f->dims[i];
    assert_true(n <= 256);
    for (size_t k = 0; k < n; k++) f->floats[i][k] = (float)k;
    t->n_float_data = n;
    t->float_data = f->floats[i];
    return t;
}

/* Names separated by commas: inputs, then outputs. */
static Onnx__NodeProto *
node(file *f, const char *op, const char *name, const char *in, const char *out)
{
    size_t           i = f->graph.n_node++, n = 0;
    Onnx__NodeProto *p = f->node_ptr[i] = &f->node[i];
    onnx__node_proto__init(p);
    p->op_type = (char *)op;
    p->name = (char *)name;
    p->input = f->names[i];
    p->attribute = f->attr_ptr[i];
    char *copy = strdup(in), *rest = copy, *word;
    while ((word = strsep(&rest, ",")) && n < 6) f->names[i][n++] = strdup(word);
    free(copy);
    p->n_input = *in ? n : 0;
    if (!*in) free(f->names[i][0]), n = 0;
    p->n_output = 1;
    p->output = &f->names[i][n];
    f->names[i][n] = strdup(out);
    return p;
}

static Onnx__AttributeProto *
attribute(file *f, Onnx__NodeProto *n, const char *name)
{
    Onnx__AttributeProto *a = &f->attr[f->n_attr++];
    onnx__attribute_proto__init(a);
    a->name = (char *)name;
    n->attribute[n->n_attribute++] = a;
    return a;
}

static void
attr_int(file *f, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *a = attribute(f, n, name);
    a->has_i = 1;
    a->i = v;
}

static void
free_file(file *f)
{
    for (size_t i = 0; i < MAX; i++)
        for (size_t k = 0; k < 8; k++) free(f->names[i][k]);
    free(f);
}

static uint8_t *
pack(const file *f, size_t *ret_n)
{
    *ret_n = onnx__model_proto__get_packed_size(&f->model);
    uint8_t *p = malloc(*ret_n + 1);
    onnx__model_proto__pack(&f->model, p);
    return p;
}

static zico_status
import(const file *f, bool training, zi_graph_diag *d, zi_graph **g)
{
    size_t      n;
    uint8_t    *p = pack(f, &n);
    zico_status st = zi_onnx_import(p, n, &(zi_onnx_options){.training = training}, d, g);
    free(p);
    return st;
}

/* conv -> norm -> relu -> pool -> flatten -> gemm, as exporters write it */
static file *
small_net(int64_t opset)
{
    file *f = new_file(opset);
    input(f, "x", 4, (int64_t[]){2, 1, 4, 4});
    initializer(f, "w", 4, (int64_t[]){3, 1, 3, 3});
    for (int i = 0; i < 4; i++)
        initializer(f, (const char *[]){"gamma", "beta", "mean", "var"}[i], 1,
                    (int64_t[]){3});
    initializer(f, "fc", 2, (int64_t[]){3, 5});
    initializer(f, "fc_bias", 1, (int64_t[]){5});
    Onnx__NodeProto *n = node(f, "Conv", "/conv/Conv", "x,w", "a");
    attribute(f, n, "auto_pad")->has_s = 1;
    f->attr[f->n_attr - 1].s = (ProtobufCBinaryData){10, (uint8_t *)"SAME_UPPER"};
    node(f, "BatchNormalization", "/bn", "a,gamma,beta,mean,var", "b");
    node(f, "Relu", "/relu", "b", "c");
    node(f, "GlobalAveragePool", "/pool", "c", "d");
    node(f, "Flatten", "/flat", "d", "e");
    node(f, "Gemm", "/fc", "e,fc,fc_bias", "y");
    output(f, "y");
    return f;
}

/* ---- tests ----------------------------------------------------------------------------- */

/* A small file becomes a training step: trainable norm, weights as linear layers have
 * them, values kept. */
static void
imports_and_trains(void **state)
{
    zi_graph_diag d = {0};
    zi_optim      o = zi_optim_default(ZI_OPTIM_SGD);
    (void)state;
    for (int64_t opset = 11; opset <= 17; opset++) {
        zi_graph *g = NULL;
        file     *f = small_net(opset);
        if (import(f, true, &d, &g) < 0) fail_msg("%s", d.text);
        free_file(f);
        zi_tensor_id w = zi_graph_find_tensor(g, "fc");
        assert_int_equal(5, g->tensors[w].dims[0]);
        assert_true(((float *)g->tensors[w].value)[1] ==
                    5); /* (0,1) of W^T is (1,0) of W */
        assert_int_equal(27 + 6 + 15 + 5, zi_graph_param_count(g));
        expect_ok(zi_graph_fuse(g, &d));
        expect_ok(zi_graph_differentiate(g, g->loss, &d));
        expect_ok(zi_graph_add_update(g, &o, &d));
        expect_ok(zi_graph_verify(g, &d));
        zi_tensor_id mean = zi_graph_find_tensor(g, "mean");
        assert_int_equal(ZI_ROLE_STATE, g->tensors[mean].role);
        assert_int_not_equal(ZI_ID_NONE, g->tensors[mean].updater);
        zi_graph_free(g);
    }
}

/* A batch of one's own replaces the file's, also where a reshape has it written down. */
static void
other_batch(void **state)
{
    zi_graph_diag   d = {0};
    zi_graph       *g = NULL;
    size_t          n;
    zi_onnx_options o = {.batch = 7};
    (void)state;
    file *f = new_file(13);
    input(f, "x", 3, (int64_t[]){2, 3, 4});
    Onnx__TensorProto *t = initializer(f, "shape", 1, (int64_t[]){2});
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    t->n_float_data = 0;
    t->n_int64_data = 2;
    t->int64_data = (int64_t[]){2, -1};
    node(f, "Reshape", "r", "x,shape", "y");
    node(f, "Relu", "s", "y", "z");
    output(f, "z");
    uint8_t *p = pack(f, &n);
    if (zi_onnx_import(p, n, &o, &d, &g) < 0) fail_msg("%s", d.text);
    assert_int_equal(7, g->tensors[g->outputs[0]].dims[0]);
    assert_int_equal(12, g->tensors[g->outputs[0]].dims[1]);
    free(p);
    free_file(f);
    zi_graph_free(g);
}

static void
refused(file *f, zico_status st, const char *says)
{
    zi_graph_diag d = {0};
    zi_graph     *g = NULL;
    expect_status(st, import(f, true, &d, &g));
    if (!strstr(d.text, says)) fail_msg("'%s' does not say '%s'", d.text, says);
    assert_null(g);
    free_file(f);
}

/* Each refusal names what is to blame. */
static void
refusals(void **state)
{
    (void)state;
    file *f = small_net(13); /* an unknown operator: node, operator, opset */
    f->node[2].op_type = "Einsum";
    refused(f, ZICO_E_UNSUPPORTED, "'/relu' (Einsum, opset 13)");

    f = small_net(13); /* a cycle: the norm reads what comes later */
    free(f->names[1][0]);
    f->names[1][0] = strdup("d");
    refused(f, ZICO_E_FORMAT, "'/bn' (BatchNormalization, opset 13): input 'd'");

    f = small_net(13); /* made twice */
    free(f->names[2][1]);
    f->names[2][1] = strdup("a");
    refused(f, ZICO_E_FORMAT, "'a' is made twice");

    refused(small_net(10), ZICO_E_UNSUPPORTED, "opset 10");
    refused(small_net(18), ZICO_E_UNSUPPORTED, "opset 18");

    f = small_net(13); /* fewer numbers than dims say */
    f->init[0].n_float_data--;
    refused(f, ZICO_E_FORMAT, "'w' should have 27 elements");

    f = small_net(13); /* dims whose product overflows */
    f->dims[0][0] = f->dims[0][1] = INT64_MAX / 2;
    refused(f, ZICO_E_FORMAT, "'w': dim");

    f = small_net(13); /* negative dims */
    f->dims[0][2] = -3;
    refused(f, ZICO_E_FORMAT, "'w': dim 2 is -3");

    f = small_net(13); /* an input too large to exist */
    f->dim[0][3].dim_value = (int64_t)1 << 50;
    refused(f, ZICO_E_SHAPE, "too large");

    f = small_net(13); /* weights for other channels */
    f->dim[0][1].dim_value = 2;
    refused(f, ZICO_E_SHAPE, "'/conv/Conv' (Conv, opset 13)");

    f = small_net(13); /* an attribute out of range */
    attr_int(f, &f->node[0], "group", 0);
    refused(f, ZICO_E_SHAPE, "groups");

    f = small_net(13); /* no output */
    f->graph.n_output = 0;
    refused(f, ZICO_E_FORMAT, "no output");

    f = small_net(13); /* another vendor's operator */
    f->node[2].domain = "com.example";
    refused(f, ZICO_E_UNSUPPORTED, "com.example");
}

/* Messages nested a hundred thousand deep do not reach the recursive parser. */
static void
deep_nesting(void **state)
{
    const size_t  depth = 100000;
    uint8_t      *buf = malloc(depth * 40), *p = buf + depth * 40;
    zi_graph_diag d = {0};
    zi_graph     *g = NULL;
    size_t        n = 0;
    (void)state;
    for (size_t i = 0; i < 3 * depth;
         i++) { /* written backwards: graph, node, attribute */
        uint8_t tag = i % 3 == 2 ? 0x32 : i % 3 == 0 ? 0x2a : 0x0a, len[10];
        size_t  k = 0;
        for (size_t v = n; k == 0 || v; v >>= 7) len[k++] = (uint8_t)(v & 127);
        for (size_t j = 0; j + 1 < k; j++) len[j] |= 128;
        p -= k;
        memcpy(p, len, k);
        *--p = i + 1 == 3 * depth ? 0x3a : tag;
        n += k + 1;
    }
    expect_status(ZICO_E_FORMAT, zi_onnx_import(p, n, &(zi_onnx_options){0}, &d, &g));
    assert_non_null(strstr(d.text, "deep"));
    free(buf);
}

/* Every prefix, and thousands of damaged copies: an error or a graph that verifies. */
static void
damaged_files(void **state)
{
    size_t        n;
    zi_graph_diag d;
    (void)state;
    file    *f = small_net(13);
    uint8_t *p = pack(f, &n);
    int64_t  live = zi_alloc_n_live();
    for (unsigned i = 0; i < t_rounds(4000, 200000); i++) {
        zi_graph *g = NULL;
        uint8_t  *copy = malloc(n);
        size_t    len = i < n ? i : n;
        memcpy(copy, p, n);
        if (i >= n)
            for (uint64_t k = t_rand_below(4) + 1; k > 0; k--)
                copy[t_rand_below(n)] = (uint8_t)t_rand();
        if (zi_onnx_import(copy, len, &(zi_onnx_options){.training = i & 1}, &d, &g) >= 0)
            expect_ok(zi_graph_verify(g, &d));
        zi_graph_free(g);
        free(copy);
    }
    assert_int_equal(live, zi_alloc_n_live());
    free(p);
    free_file(f);
}

/* Every allocation may fail: no crash, no leak. */
static void
no_memory(void **state)
{
    size_t n;
    (void)state;
    file    *f = small_net(13);
    uint8_t *p = pack(f, &n);
    for (uint64_t k = 1;; k++) {
        int64_t   before = zi_alloc_n_live();
        zi_graph *g = NULL;
        zi_alloc_fail_at(k);
        zico_status st =
            zi_onnx_import(p, n, &(zi_onnx_options){.training = true}, NULL, &g);
        int failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (failed) assert_true(st < 0);
        zi_graph_free(g);
        assert_int_equal(before, zi_alloc_n_live());
        if (!failed) break;
    }
    free(p);
    free_file(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imports_and_trains), cmocka_unit_test(other_batch),
        cmocka_unit_test(refusals),           cmocka_unit_test(deep_nesting),
        cmocka_unit_test(damaged_files),      cmocka_unit_test(no_memory),
    };
    return t_main(tests);
}

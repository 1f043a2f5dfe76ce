/* onnx_run.c -- runs an ONNX file with the reference loops.
 *
 * usage: onnx_run FILE.onnx BATCH info            parameters, nodes of a training step
 *        onnx_run FILE.onnx BATCH IN.f32 OUT.f32  forward pass in inference form
 */
#include "graph/import/onnx.h"
#include "support/graph_ref.h"
#include "test.h"

static void *
read_all(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    fseek(f, 0, SEEK_END);
    *ret_n = (size_t)ftell(f);
    rewind(f);
    void *p = malloc(*ret_n + 1);
    if (!p || fread(p, 1, *ret_n, f) != *ret_n) exit(2);
    fclose(f);
    return p;
}

static zi_graph *
load(const char *path, int64_t batch, bool training)
{
    zi_graph       *g = NULL;
    zi_graph_diag   d = {0};
    zi_onnx_options o = {.batch = batch, .training = training, .seed = 1};
    size_t          n;
    void           *data = read_all(path, &n);
    zico_status     st = zi_onnx_import(data, n, &o, &d, &g);
    free(data);
    if (st < 0) {
        fprintf(stderr, "%s: %s: %s\n", path, zico_status_name(st), d.text);
        exit(1);
    }
    return g;
}

static int
info(const char *path, int64_t batch)
{
    zi_graph     *g = load(path, batch, true);
    zi_graph_diag d = {0};
    zi_optim      opt = zi_optim_default(ZI_OPTIM_MOMENTUM);
    uint32_t      n_updated = 0, n_params = 0;
    if (zi_graph_fuse(g, &d) < 0 || zi_graph_differentiate(g, g->loss, &d) < 0 ||
        zi_graph_add_update(g, &opt, &d) < 0 || zi_graph_verify(g, &d) < 0) {
        fprintf(stderr, "%s: %s\n", path, d.text);
        return 1;
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].role != ZI_ROLE_PARAM) continue;
        n_params++;
        n_updated += g->tensors[i].updater != ZI_ID_NONE;
    }
    printf("%llu %u %u %u\n", (unsigned long long)zi_graph_param_count(g), n_params,
           n_updated, g->n_nodes);
    zi_graph_free(g);
    return 0;
}

/* Values of the file where there are any; the images from a file of floats. */
static void
fill(const zi_graph *g, double **v, const float *in, size_t n_in)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const zi_tensor *t = &g->tensors[i];
        if (t->producer != ZI_ID_NONE) continue;
        double      *p = zi_ref_make(g, v, i);
        const float *from = t->role == ZI_ROLE_INPUT ? in : t->value;
        int64_t      n = zi_tensor_elems(t);
        if (!from || (t->role == ZI_ROLE_INPUT && (size_t)n != n_in)) {
            fprintf(stderr, "no values for %s\n", t->name);
            exit(1);
        }
        for (int64_t k = 0; k < n; k++) p[k] = from[k];
    }
}

int
main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[3], "info") == 0) return info(argv[1], atoll(argv[2]));
    if (argc != 5) {
        fprintf(stderr, "usage: %s FILE.onnx BATCH info | IN OUT\n", argv[0]);
        return 2;
    }
    zi_graph *g = load(argv[1], atoll(argv[2]), false);
    size_t    n_bytes;
    float    *in = read_all(argv[3], &n_bytes);
    double  **v = zi_ref_new(g);
    if (zi_graph_fuse(g, NULL) < 0) return 1;
    fill(g, v, in, n_bytes / sizeof *in);
    zi_ref_run(g, 0, v);
    FILE        *f = fopen(argv[4], "wb");
    zi_tensor_id out = g->outputs[0];
    for (int64_t i = 0; f && i < zi_tensor_elems(&g->tensors[out]); i++)
        fwrite(&(float){(float)v[out][i]}, sizeof(float), 1, f);
    if (!f || fclose(f) != 0) return 2;
    free(in);
    zi_ref_free(g, v);
    zi_graph_free(g);
    return 0;
}

/* step_tool.c -- one training step without update, for comparing with PyTorch.
 *
 * usage: step_tool NET BATCH THREADS
 * Then lines "IN OUT" on standard input: IN is a safetensors file with every parameter and
 * running statistic, "x" and "y"; OUT gets "loss" and "grad.NAME" for each parameter.
 * Answers each line with "ok".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "train/engine.h"
#include "train/net.h"

typedef struct tool {
    zi_engine      *e;
    const zi_graph *g;
    zi_train_diag   diag;
    zi_st_tensor   *out; /* of the answer */
    zi_tensor_id   *id;
    size_t          n_out;
    float           loss;
} tool;

static int
die(const tool *t, zico_status st)
{
    fprintf(stderr, "step_tool: %s\n",
            t->diag.text[0] ? t->diag.text : zico_status_text(st));
    return 1;
}

static zico_status
open_engine(tool *t, char **argv)
{
    zi_graph   *g = NULL;
    zico_status st =
        zi_net_build(zi_os_real(), argv[1], atoi(argv[2]), true, 1, &t->diag, &g);

    if (st < 0) return st;
    const zi_engine_options eo = {.n_threads = (unsigned)atoi(argv[3]),
                                  .no_init = true,
                                  .grads = true};
    st = zi_engine_new(g, &eo, &t->diag, &t->e);
    if (st >= 0) t->g = zi_engine_graph(t->e);
    return st;
}

/* The list of what is answered: the loss, then one gradient per parameter. */
static zico_status
list_answers(tool *t)
{
    t->out = zi_calloc(t->g->n_tensors + 1, sizeof *t->out);
    t->id = zi_calloc(t->g->n_tensors + 1, sizeof *t->id);
    if (!t->out || !t->id) return ZICO_E_NOMEM;
    t->out[t->n_out++] = (zi_st_tensor){.name = zi_strdup("loss"), .type = ZI_ST_F32};
    for (zi_tensor_id p = 0; p < t->g->n_tensors; p++) {
        const zi_tensor *param = &t->g->tensors[p];
        char             name[320];
        if (param->role != ZI_ROLE_PARAM) continue;
        zi_tensor_id grad = zi_graph_grad(t->g, p);
        if (grad == ZI_ID_NONE) continue;
        snprintf(name, sizeof name, "grad.%s", param->name);
        zi_st_tensor *o = &t->out[t->n_out];
        *o = (zi_st_tensor){.name = zi_strdup(name),
                            .type = ZI_ST_F32,
                            .rank = param->rank};
        memcpy(o->dims, param->dims, sizeof param->dims);
        t->id[t->n_out++] = grad;
    }
    return ZICO_OK;
}

static void *
read_tensor(tool *t, const zi_checkpoint *c, const char *name)
{
    const zi_st_tensor *s = zi_st_find(c->header, name);
    if (!s) return NULL;
    size_t n = (size_t)(s->end - s->begin);
    void  *data = zi_malloc(n);
    if (data && zi_checkpoint_read(c, s, data, n, &t->diag) < 0) {
        zi_free(data);
        data = NULL;
    }
    return data;
}

static zico_status
run_step(tool *t, const char *path)
{
    zi_checkpoint       c;
    zi_exec_step_result r;
    zico_status         st = zi_checkpoint_open(zi_os_real(), path, &t->diag, &c);

    if (st < 0) return st;
    st = zi_engine_load(t->e, &c, true, &t->diag);
    void *x = read_tensor(t, &c, "x"), *y = read_tensor(t, &c, "y");
    if (st >= 0 && (!x || !y)) st = ZICO_E_NOTFOUND;
    if (st >= 0) st = zi_engine_step(t->e, x, y, 0, 1);
    if (st >= 0) st = zi_engine_result(t->e, true, &r);
    if (st >= 0) st = r.status;
    if (st >= 0) t->loss = (float)r.loss;
    zi_free(x);
    zi_free(y);
    zi_checkpoint_close(&c);
    return st;
}

static zico_status
fetch(void *user, size_t i, void *buf, size_t n_bytes)
{
    tool *t = user;

    if (i > 0) return zi_exec_get(zi_engine_exec(t->e), t->id[i], buf, n_bytes);
    memcpy(buf, &t->loss, sizeof t->loss);
    return ZICO_OK;
}

static zico_status
answer(tool *t, const char *path)
{
    zi_checkpoint_out out = {.tensors = t->out,
                             .n_tensors = t->n_out,
                             .fetch = fetch,
                             .user = t};
    return zi_checkpoint_write(zi_os_real(), path, &out, &t->diag);
}

int
main(int argc, char **argv)
{
    tool t = {0};
    char line[4096], in[2048], out[2048];

    if (argc != 4) return 2;
    zico_status st = open_engine(&t, argv);
    if (st >= 0) st = list_answers(&t);
    while (st >= 0 && fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%2047s %2047s", in, out) != 2) return 2;
        st = run_step(&t, in);
        if (st >= 0) st = answer(&t, out);
        if (st >= 0) {
            puts("ok");
            fflush(stdout);
        }
    }
    zi_engine_free(t.e);
    for (size_t i = 0; i < t.n_out; i++) zi_free(t.out[i].name);
    zi_free(t.out);
    zi_free(t.id);
    return st < 0 ? die(&t, st) : 0;
}

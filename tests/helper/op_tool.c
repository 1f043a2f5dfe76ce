/* op_tool.c -- runs a small graph in the executor, for comparing operators with PyTorch.
 *
 * usage: op_tool
 * Then lines "GRAPH IN OUT KEY=VALUE..." on standard input: GRAPH is a file with a graph's text
 * form, IN a safetensors file with the value of every tensor that is there before a step.
 * OUT gets the graph's outputs, the loss, "grad.NAME" for each parameter and "after.NAME" for
 * each parameter and state.  Keys: threads, plain, fuse, grads, steps, lr, optim (a number of
 * zi_optim_kind; -1: no update), decay, nesterov, momentum, clip.
 * Answers each line with "ok" and the operators that ran.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/try.h"
#include "exec/exec.h"
#include "train/checkpoint.h"

typedef struct wish {
    double threads, plain, fuse, grads, steps, lr, optim, decay, nesterov, momentum, clip;
} wish;

typedef struct tool {
    wish          w;
    zi_graph     *g;
    zi_exec      *e;
    zi_checkpoint in;
    zi_train_diag diag;
    zi_graph_diag why;
    zi_st_tensor *out; /* of the answer */
    zi_tensor_id *id;
    size_t        n_out;
} tool;

/* -- reading ----------------------------------------------------------------------------------- */

static zico_status
read_graph(tool *t, const char *path)
{
    zi_infile   f;
    zico_status st = zi_infile_open(zi_os_real(), path, &t->diag, &f);

    ZI_TRY(st);
    char *text = zi_malloc((size_t)f.n_bytes + 1);
    st = text ? zi_infile_read(&f, 0, text, (size_t)f.n_bytes, &t->diag) : ZICO_E_NOMEM;
    if (st >= 0) st = zi_graph_parse(text, (size_t)f.n_bytes, &t->why, &t->g);
    zi_free(text);
    zi_infile_close(&f);
    return st;
}

static zico_status
read_wish(const char *words, wish *w)
{
    const struct {
        const char *name;
        double     *at;
    } key[] = {{"threads", &w->threads},   {"plain", &w->plain},
               {"fuse", &w->fuse},         {"grads", &w->grads},
               {"steps", &w->steps},       {"lr", &w->lr},
               {"optim", &w->optim},       {"decay", &w->decay},
               {"nesterov", &w->nesterov}, {"momentum", &w->momentum},
               {"clip", &w->clip}};
    char   name[32];
    double value;
    int    n;

    *w = (wish){.threads = 1, .steps = 1, .optim = -1};
    for (; sscanf(words, " %31[a-z]=%lf%n", name, &value, &n) == 2; words += n) {
        size_t i = 0;
        while (i < sizeof key / sizeof *key && strcmp(key[i].name, name) != 0) i++;
        if (i == sizeof key / sizeof *key) return ZICO_E_ARG;
        *key[i].at = value;
    }
    return ZICO_OK;
}

/* The bytes of a given tensor; the caller frees them.  NULL: IN has none of that size. */
static void *
given(tool *t, zi_tensor_id id)
{
    const zi_tensor    *x = &t->g->tensors[id];
    const zi_st_tensor *s = zi_st_find(t->in.header, x->name);
    void               *data = s ? zi_malloc(x->bytes + 1) : NULL;

    if (data && zi_checkpoint_read(&t->in, s, data, x->bytes, &t->diag) >= 0) return data;
    zi_free(data);
    return NULL;
}

/* -- running ----------------------------------------------------------------------------------- */

static zico_status
complete(tool *t)
{
    const wish *w = &t->w;

    if (w->fuse > 0) ZI_TRY(zi_graph_fuse(t->g, &t->why));
    if (w->grads > 0) ZI_TRY(zi_graph_differentiate(t->g, t->g->loss, &t->why));
    for (zi_tensor_id p = 0; w->grads > 0 && p < t->g->n_tensors; p++) {
        if (t->g->tensors[p].role != ZI_ROLE_PARAM) continue;
        zi_tensor_id grad = zi_graph_grad(t->g, p);
        if (grad != ZI_ID_NONE) ZI_TRY(zi_graph_add_output(t->g, grad));
    }
    if (w->optim >= 0) {
        zi_optim o = zi_optim_default((zi_optim_kind)w->optim);
        o.decay = w->decay;
        o.nesterov = w->nesterov > 0;
        o.clip_norm = w->clip;
        if (w->momentum > 0) o.momentum = w->momentum;
        ZI_TRY(zi_graph_add_update(t->g, &o, &t->why));
    }
    return zi_graph_verify(t->g, &t->why);
}

static bool
is_kept(const zi_tensor *x)
{
    return x->role == ZI_ROLE_PARAM || x->role == ZI_ROLE_STATE;
}

static zico_status
set_values(tool *t)
{
    for (zi_tensor_id i = 0; i < t->g->n_tensors; i++) {
        const zi_tensor *x = &t->g->tensors[i];
        if (!is_kept(x) || x->state_of != ZI_ID_NONE) continue;
        void *data = given(t, i);
        if (!data) return ZICO_E_NOTFOUND;
        zico_status st = zi_exec_set(t->e, i, data, x->bytes);
        zi_free(data);
        ZI_TRY(st);
    }
    return ZICO_OK;
}

static zico_status
run_steps(tool *t)
{
    zi_exec_feed        feed[16];
    size_t              n = 0;
    zi_exec_step_result r;
    zico_status         st = ZICO_OK;

    for (zi_tensor_id i = 0; i < t->g->n_tensors && n < 16; i++) {
        const zi_role role = t->g->tensors[i].role;
        if ((role != ZI_ROLE_INPUT && role != ZI_ROLE_LABEL) || i == t->g->lr ||
            i == t->g->step)
            continue;
        feed[n++] = (zi_exec_feed){i, given(t, i)};
        if (!feed[n - 1].data) st = ZICO_E_NOTFOUND;
    }
    for (uint64_t s = 1; st >= 0 && s <= (uint64_t)t->w.steps; s++) {
        st = zi_exec_step(t->e, feed, n, (float)t->w.lr, s);
        if (st >= 0) st = zi_exec_result(t->e, true, &r);
        if (st >= 0) st = r.status;
    }
    for (size_t i = 0; i < n; i++) zi_free((void *)(uintptr_t)feed[i].data);
    return st;
}

/* -- answering --------------------------------------------------------------------------------- */

static void
add_answer(tool *t, const char *prefix, const char *name, zi_tensor_id id)
{
    const zi_tensor *x = &t->g->tensors[id];
    char             full[400];
    zi_st_tensor    *o = &t->out[t->n_out];

    if (x->dtype != ZI_DTYPE_F32) return;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    *o = (zi_st_tensor){.name = zi_strdup(full), .type = ZI_ST_F32, .rank = x->rank};
    memcpy(o->dims, x->dims, sizeof x->dims);
    t->id[t->n_out++] = id;
}

static zico_status
fetch(void *user, size_t i, void *buf, size_t n_bytes)
{
    tool *t = user;
    return zi_exec_get(t->e, t->id[i], buf, n_bytes);
}

static zico_status
answer(tool *t, const char *path)
{
    const zi_graph *g = t->g;

    t->out = zi_calloc(3u * g->n_tensors + 1u, sizeof *t->out);
    t->id = zi_calloc(3u * g->n_tensors + 1u, sizeof *t->id);
    if (!t->out || !t->id) return ZICO_E_NOMEM;
    if (g->loss != ZI_ID_NONE) add_answer(t, "", "loss", g->loss);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const zi_tensor *x = &g->tensors[g->outputs[i]];
        if (x->grad_of != ZI_ID_NONE && g->tensors[x->grad_of].role == ZI_ROLE_PARAM)
            add_answer(t, "grad.", g->tensors[x->grad_of].name, g->outputs[i]);
        else
            add_answer(t, "", x->name, g->outputs[i]);
    }
    for (zi_tensor_id i = 0; i < g->n_tensors; i++)
        if (is_kept(&g->tensors[i])) add_answer(t, "after.", g->tensors[i].name, i);
    zi_checkpoint_out out = {.tensors = t->out,
                             .n_tensors = t->n_out,
                             .fetch = fetch,
                             .user = t};
    return zi_checkpoint_write(zi_os_real(), path, &out, &t->diag);
}

static void
print_ops(const zi_graph *g)
{
    fputs("ok", stdout);
    for (zi_node_id n = 0; n < g->n_nodes; n++)
        printf(" %s", zi_op_get(g->nodes[n].op)->text);
    putchar('\n');
}

static zico_status
run_case(tool *t, const char *graph, const char *in, const char *out)
{
    ZI_TRY(read_graph(t, graph));
    ZI_TRY(complete(t));
    ZI_TRY(zi_checkpoint_open(zi_os_real(), in, &t->diag, &t->in));
    const zi_exec_options xo = {.graph = t->g,
                                .n_threads = (unsigned)t->w.threads,
                                .plain = t->w.plain > 0};
    ZI_TRY(zi_exec_new(&xo, &t->why, &t->e));
    ZI_TRY(set_values(t));
    ZI_TRY(run_steps(t));
    ZI_TRY(answer(t, out));
    print_ops(t->g);
    return ZICO_OK;
}

static void
close_case(tool *t)
{
    zi_exec_free(t->e);
    zi_graph_free(t->g);
    if (t->in.header) zi_checkpoint_close(&t->in);
    for (size_t i = 0; i < t->n_out; i++) zi_free(t->out[i].name);
    zi_free(t->out);
    zi_free(t->id);
}

int
main(void)
{
    char line[8192], graph[1024], in[1024], out[1024];
    int  n;

    while (fgets(line, sizeof line, stdin)) {
        tool t = {0};
        if (sscanf(line, "%1023s %1023s %1023s%n", graph, in, out, &n) != 3) return 2;
        zico_status st = read_wish(line + n, &t.w);
        if (st >= 0) st = run_case(&t, graph, in, out);
        if (st < 0) printf("%s %s %s\n", zico_status_name(st), t.why.text, t.diag.text);
        fflush(stdout);
        close_case(&t);
    }
    return 0;
}

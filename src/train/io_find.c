/* io_find.c -- which tensors of a graph are sample and label, and what one sample is. */
#include "train/engine.h"

#include <string.h>

#include "base/check.h"

/* Inputs that the loop itself provides. */
static bool
is_scalar_input(const zi_graph *g, zi_tensor_id t)
{
    return t == g->lr || t == g->step;
}

static zico_status
find_tensors(const zi_graph *g, zi_io *io, zi_train_diag *diag)
{
    for (zi_tensor_id t = 0; t < g->n_tensors; t++) {
        const zi_tensor *tensor = &g->tensors[t];
        bool             label = tensor->role == ZI_ROLE_LABEL;
        if ((tensor->role != ZI_ROLE_INPUT && !label) || is_scalar_input(g, t)) continue;
        zi_tensor_id *to = label ? &io->y : &io->x;
        if (!label && io->x != ZI_ID_NONE && io->y == ZI_ID_NONE)
            to = &io->y; /* a target */
        if (*to != ZI_ID_NONE)
            return zi_train_fail(
                diag, ZICO_E_UNSUPPORTED,
                "the network has more inputs than a sample and a label: '%s'",
                tensor->name);
        *to = t;
    }
    if (io->x == ZI_ID_NONE)
        return zi_train_fail(diag, ZICO_E_SHAPE, "the network has no input");
    return ZICO_OK;
}

/* A tensor's shape without its first dimension, the batch. */
static zi_shape
per_sample(const zi_tensor *t)
{
    zi_shape s = {.dtype = t->dtype, .rank = t->rank > 0 ? t->rank - 1 : 0};

    for (uint32_t i = 0; i < s.rank; i++) s.dims[i] = t->dims[i + 1];
    return s;
}

/* How many classes the loss tells apart, how many tokens the embedding knows. */
static void
find_limits(const zi_graph *g, zi_io *io)
{
    for (zi_node_id n = 0; n < g->n_nodes; n++) {
        const zi_node *node = &g->nodes[n];
        if ((node->op == ZI_OP_CROSS_ENTROPY || node->op == ZI_OP_NLL) &&
            node->in[1] == io->y) {
            const zi_tensor *logits = &g->tensors[node->in[0]];
            int64_t          axis = node->attr.loss.axis;
            if (axis < 0) axis += logits->rank;
            if (axis < 0 || axis >= (int64_t)logits->rank) continue;
            io->want.n_classes = logits->dims[axis];
            io->want.class_axis = (uint32_t)axis;
        }
        if (node->op == ZI_OP_EMBEDDING && node->in[0] == io->x)
            io->want.vocab = g->tensors[node->in[1]].dims[0];
    }
}

zico_status
zi_io_find(const zi_graph *g, zi_train_diag *diag, zi_io *ret_io)
{
    zi_io       io = {.x = ZI_ID_NONE, .y = ZI_ID_NONE};
    zico_status st = find_tensors(g, &io, diag);

    if (st < 0) return st;
    const zi_tensor *x = &g->tensors[io.x];
    if (x->rank == 0)
        return zi_train_fail(diag, ZICO_E_SHAPE, "the input '%s' has no batch dimension",
                             x->name);
    io.batch = x->dims[0];
    io.want.x = per_sample(x);
    if (io.y != ZI_ID_NONE) {
        const zi_tensor *y = &g->tensors[io.y];
        if (y->rank == 0 || y->dims[0] != io.batch)
            return zi_train_fail(diag, ZICO_E_SHAPE,
                                 "label '%s' and input '%s' differ in their batch",
                                 y->name, x->name);
        io.want.y = per_sample(y);
        io.want.has_y = true;
    }
    find_limits(g, &io);
    *ret_io = io;
    return ZICO_OK;
}

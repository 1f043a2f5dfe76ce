/* graph_ref_conv.c -- convolution, in double and with plain loops (graph_ref.h). */
#include "support/graph_ref_inside.h"

/* Calls f for each product term of y = conv(x, w): indexes of y, x, w. */
typedef void
term(double *acc, const double *p, const double *q, int64_t y, int64_t x, int64_t w);

static void
each_term(const zi_node *n, const zi_tensor *x, const zi_tensor *w, const zi_tensor *y,
          term *f, double *acc, const double *p, const double *q)
{
    int64_t group_out = w->dims[0] / n->attr.conv.groups;
    for (int64_t b = 0; b < y->dims[0]; b++)
        for (int64_t o = 0; o < y->dims[1]; o++)
            for (int64_t i = 0; i < y->dims[2]; i++)
                for (int64_t j = 0; j < y->dims[3]; j++)
                    for (int64_t c = 0; c < w->dims[1]; c++)
                        for (int64_t k = 0; k < w->dims[2]; k++)
                            for (int64_t l = 0; l < w->dims[3]; l++) {
                                int64_t row = i * n->attr.conv.stride[0] -
                                              n->attr.conv.pad[0] +
                                              k * n->attr.conv.dilation[0];
                                int64_t col = j * n->attr.conv.stride[1] -
                                              n->attr.conv.pad[1] +
                                              l * n->attr.conv.dilation[1];
                                if (row < 0 || row >= x->dims[2] || col < 0 ||
                                    col >= x->dims[3])
                                    continue;
                                int64_t ch = o / group_out * w->dims[1] + c;
                                f(acc, p, q, at4(y, b, o, i, j), at4(x, b, ch, row, col),
                                  at4(w, o, c, k, l));
                            }
}

static void
to_y(double *acc, const double *x, const double *w, int64_t yi, int64_t xi, int64_t wi)
{
    acc[yi] += x[xi] * w[wi];
}

static void
to_x(double *acc, const double *y, const double *w, int64_t yi, int64_t xi, int64_t wi)
{
    acc[xi] += y[yi] * w[wi];
}

static void
to_w(double *acc, const double *x, const double *y, int64_t yi, int64_t xi, int64_t wi)
{
    acc[wi] += x[xi] * y[yi];
}

/* Sum of dy over all but channels. */
static void
bias_grad(const zi_tensor *dyt, const double *dy, double *db)
{
    int64_t inner = dyt->dims[2] * dyt->dims[3];
    for (int64_t i = 0; i < n_of(dyt); i++) db[i / inner % dyt->dims[1]] += dy[i];
}

void
zi_ref_post(const zi_ref_node *r, int64_t act)
{
    double *y = r->v[r->n->out[0]];
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        if (act == ZI_POST_RELU && y[i] < 0) y[i] = 0;
}

static void
add_bias4(const zi_ref_node *r)
{
    double *y = r->v[r->n->out[0]];
    int64_t inner = out_t(r, 0)->dims[2] * out_t(r, 0)->dims[3];
    if (!has_in(r, 2)) return;
    for (int64_t i = 0; i < n_of(out_t(r, 0)); i++)
        y[i] += in(r, 2)[i / inner % out_t(r, 0)->dims[1]];
}

/* Transposed convolution is convolution with the parts of x and y exchanged. */
void
zi_ref_conv(const zi_ref_node *r)
{
    const zi_node *n = r->n;
    switch (n->op) {
    case ZI_OP_CONV2D:
        each_term(n, in_t(r, 0), in_t(r, 1), out_t(r, 0), to_y, out(r, 0), in(r, 0),
                  in(r, 1));
        break;
    case ZI_OP_CONVT2D:
        each_term(n, out_t(r, 0), in_t(r, 1), in_t(r, 0), to_x, out(r, 0), in(r, 0),
                  in(r, 1));
        break;
    case ZI_OP_CONV2D_DX:
        each_term(n, out_t(r, 0), in_t(r, 1), in_t(r, 0), to_x, out(r, 0), in(r, 0),
                  in(r, 1));
        return;
    case ZI_OP_CONVT2D_DX:
        each_term(n, in_t(r, 0), in_t(r, 1), out_t(r, 0), to_y, out(r, 0), in(r, 0),
                  in(r, 1));
        return;
    case ZI_OP_CONV2D_DW:
        each_term(n, in_t(r, 0), out_t(r, 0), in_t(r, 1), to_w, out(r, 0), in(r, 0),
                  in(r, 1));
        if (has_out(r, 1)) bias_grad(in_t(r, 1), in(r, 1), out(r, 1));
        return;
    default: /* CONVT2D_DW: x of the convolution is dy, y is x */
        each_term(n, in_t(r, 1), out_t(r, 0), in_t(r, 0), to_w, out(r, 0), in(r, 1),
                  in(r, 0));
        if (has_out(r, 1)) bias_grad(in_t(r, 1), in(r, 1), out(r, 1));
        return;
    }
    add_bias4(r);
    zi_ref_post(r, n->attr.conv.act);
}

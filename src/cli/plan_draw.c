/* plan_draw.c -- one plan as a picture: a row per tensor, time from left to right. */
#include "cli/plan_study.h"

#include <stdlib.h>
#include "base/alloc.h"
#include "base/try.h"

typedef enum cell { NOTHING, HERE, REDONE, GONE, AWAY } cell;

typedef struct drawing {
    const zi_plan  *p;
    const zi_graph *g;
    const zi_cost  *c;
    zi_tensor_id   *row;    /* tensors drawn, largest first */
    uint32_t       *row_of; /* [n_tensors]; UINT32_MAX: not drawn */
    unsigned        n_rows, width;
    uint8_t        *cells; /* [n_rows * width] */
    uint8_t        *now;   /* [n_rows] */
    uint8_t  *seen;   /* [n_rows] how it was there in this column; NOTHING: it was not */
    bool     *saved;  /* [n_rows] */
    uint64_t *end_ns; /* [n_acts] */
    uint64_t  total_ns;
    zi_tensor_id *root;    /* [n_tensors] */
    bool         *present; /* [n_tensors] of roots */
    double       *curve;   /* [width] the most bytes held within each column */
    uint64_t      held, most;
} drawing;

typedef struct sized {
    uint64_t     bytes;
    zi_tensor_id t;
} sized;

static int
larger_first(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->t < y->t ? -1 : x->t > y->t;
}

static int
by_tensor(const void *a, const void *b)
{
    zi_tensor_id x = *(const zi_tensor_id *)a, y = *(const zi_tensor_id *)b;
    return x < y ? -1 : x > y;
}

/* The largest tensors that are made in the step, in the order in which they are made. */
static zico_status
choose_rows(drawing *d, unsigned n_rows)
{
    sized   *all = zi_calloc(d->g->n_tensors + 1u, sizeof *all);
    uint32_t n = 0;

    if (!all) return ZICO_E_NOMEM;
    for (zi_tensor_id t = 0; t < d->g->n_tensors; t++) {
        d->row_of[t] = UINT32_MAX;
        if (d->g->tensors[t].producer != ZI_ID_NONE && d->c->tensor_bytes[t] > 0)
            all[n++] = (sized){d->c->tensor_bytes[t], t};
    }
    qsort(all, n, sizeof *all, larger_first);
    d->n_rows = n < n_rows ? n : n_rows;
    for (unsigned i = 0; i < d->n_rows; i++) d->row[i] = all[i].t;
    qsort(d->row, d->n_rows, sizeof *d->row, by_tensor);
    for (unsigned i = 0; i < d->n_rows; i++) d->row_of[d->row[i]] = i;
    zi_free(all);
    return ZICO_OK;
}

static void
set(drawing *d, zi_tensor_id t, cell now)
{
    if (d->row_of[t] == UINT32_MAX) return;
    d->now[d->row_of[t]] = (uint8_t)now;
    if (now == HERE || now == REDONE) d->seen[d->row_of[t]] = (uint8_t)now;
}

static void
hold(drawing *d, zi_tensor_id t, bool present)
{
    if (d->root[t] != t || d->present[t] == present) return;
    d->present[t] = present;
    d->held += present ? d->c->tensor_bytes[t] : -d->c->tensor_bytes[t];
}

/* What the act does to the bytes held; `most` is the highest point on the way. */
static void
follow_bytes(drawing *d, const zi_act *a)
{
    uint64_t scratch = 0;
    if (a->kind == ZI_ACT_RUN || a->kind == ZI_ACT_REDO) {
        const zi_node    *n = &d->g->nodes[a->what];
        const zi_op_info *op = zi_op_get(n->op);
        for (int pair = 0; pair < 2; pair++)
            if (a->over >> pair & 1) hold(d, n->in[op->over[pair][1]], false);
        for (uint32_t o = 0; o < n->n_out; o++)
            if (n->out[o] != ZI_ID_NONE) hold(d, n->out[o], true);
        scratch = d->c->scratch_bytes[a->what];
    } else if (a->kind == ZI_ACT_IN) {
        hold(d, a->what, true);
    }
    if (d->held + scratch > d->most) d->most = d->held + scratch;
    if (a->kind == ZI_ACT_DROP) hold(d, a->what, false);
}

static void
follow_act(drawing *d, const zi_act *a)
{
    follow_bytes(d, a);
    switch (a->kind) {
    case ZI_ACT_RUN:
    case ZI_ACT_REDO: {
        const zi_node    *n = &d->g->nodes[a->what];
        const zi_op_info *op = zi_op_get(n->op);
        for (int pair = 0; pair < 2; pair++)
            if (a->over >> pair & 1) set(d, n->in[op->over[pair][1]], GONE);
        for (uint32_t o = 0; o < n->n_out; o++)
            if (n->out[o] != ZI_ID_NONE)
                set(d, n->out[o], a->kind == ZI_ACT_RUN ? HERE : REDONE);
        return;
    }
    case ZI_ACT_OUT:
        if (d->row_of[a->what] != UINT32_MAX) d->saved[d->row_of[a->what]] = true;
        return;
    case ZI_ACT_DROP:
        if (d->row_of[a->what] != UINT32_MAX)
            set(d, a->what, d->saved[d->row_of[a->what]] ? AWAY : GONE);
        return;
    case ZI_ACT_IN:
        set(d, a->what, HERE);
        return;
    default:
        return;
    }
}

static void
fill_cells(drawing *d)
{
    unsigned column = 0;
    for (uint32_t i = 0; i < d->p->n_acts; i++) {
        follow_act(d, &d->p->acts[i]);
        unsigned until =
            d->total_ns
                ? (unsigned)((double)d->end_ns[i] / (double)d->total_ns * d->width)
                : 0;
        if (until > d->width) until = d->width;
        for (; column < until; column++) {
            d->curve[column] = (double)d->most;
            d->most = d->held;
            for (unsigned r = 0; r < d->n_rows;
                 r++) { /* also who was there for a moment */
                d->cells[r * d->width + column] =
                    d->seen[r] != NOTHING ? d->seen[r] : d->now[r];
                d->seen[r] = NOTHING;
            }
        }
    }
    for (unsigned r = 0; r < d->n_rows; r++) { /* what never comes back is just over */
        for (unsigned c = d->width; c-- > 0;) {
            uint8_t *x = &d->cells[r * d->width + c];
            if (*x != GONE && *x != AWAY && *x != NOTHING) break;
            *x = NOTHING;
        }
    }
}

/* "plan capuchin: peak 31.9 MiB, step 88.8 ms", and the curve of memory over the rows. */
static zico_status
print_head(const drawing *d, const zi_forecast *f, const zi_style *style, zi_str *out)
{
    char peak[ZI_UNIT_CHARS], step[ZI_UNIT_CHARS], stall[ZI_UNIT_CHARS];

    zi_str_fmt(out, "plan %s: peak %s, step %s, of which stalls %s\n", d->p->planner,
               zi_unit_format(ZI_UNIT_BYTES, (double)f->peak_bytes, -1, peak),
               zi_unit_format(ZI_UNIT_NS, (double)f->step_ns, -1, step),
               zi_unit_format(ZI_UNIT_NS, (double)f->stall_ns, -1, stall));
    zi_str_fmt(out, "%-28.28s %10s ", "memory", peak);
    ZI_TRY(zi_spark(d->curve, d->width, d->width, style, out));
    zi_str_add_char(out, '\n');
    return ZICO_OK;
}

static void
print_rows(const drawing *d, const zi_style *style, zi_str *out)
{
    static const char *const fine[] = {" ", "\u2588", "\u2593", "\u00b7", "\u2591"};
    static const char *const plain[] = {" ", "#", "R", ".", "o"};
    const char *const       *mark = style->unicode ? fine : plain;
    char                     size[ZI_UNIT_CHARS];

    zi_str_fmt(out, "%s here   %s made again   %s dropped   %s in the tier\n", mark[HERE],
               mark[REDONE], mark[GONE], mark[AWAY]);
    for (unsigned r = 0; r < d->n_rows; r++) {
        zi_str_fmt(out, "%-28.28s %10s ", d->g->tensors[d->row[r]].name,
                   zi_unit_format(ZI_UNIT_BYTES, (double)d->c->tensor_bytes[d->row[r]],
                                  -1, size));
        for (unsigned c = 0; c < d->width; c++)
            zi_str_add(out, mark[d->cells[r * d->width + c]]);
        zi_str_add_char(out, '\n');
    }
}

zico_status
zi_plan_draw(const zi_plan *p, const zi_graph *g, const zi_cost *c, const zi_style *style,
             unsigned n_rows, zi_str *out)
{
    unsigned    screen = style->width ? style->width : 100;
    drawing     d = {.p = p, .g = g, .c = c, .width = screen > 60 ? screen - 41 : 20};
    zi_forecast f;
    zico_status st = ZICO_E_NOMEM;

    d.row = zi_calloc(n_rows + 1u, sizeof *d.row);
    d.row_of = zi_calloc(g->n_tensors + 1u, sizeof *d.row_of);
    d.cells = zi_calloc((size_t)n_rows * d.width + 1u, sizeof *d.cells);
    d.now = zi_calloc(n_rows + 1u, sizeof *d.now);
    d.seen = zi_calloc(n_rows + 1u, sizeof *d.seen);
    d.saved = zi_calloc(n_rows + 1u, sizeof *d.saved);
    d.end_ns = zi_calloc(p->n_acts + 1u, sizeof *d.end_ns);
    d.root = zi_calloc(g->n_tensors + 1u, sizeof *d.root);
    d.present = zi_calloc(g->n_tensors + 1u, sizeof *d.present);
    d.curve = zi_calloc(d.width + 1u, sizeof *d.curve);
    if (d.row && d.row_of && d.cells && d.now && d.seen && d.saved && d.end_ns &&
        d.root && d.present && d.curve)
        st = zi_plan_simulate(p, g, c, d.end_ns, &f);
    if (st >= 0) st = choose_rows(&d, n_rows);
    if (st >= 0) {
        d.total_ns = p->n_acts ? d.end_ns[p->n_acts - 1] : 0;
        zi_plan_roots(g, d.root);
        d.held = d.most = zi_cost_fixed_bytes(g, c);
        fill_cells(&d);
        st = print_head(&d, &f, style, out);
    }
    if (st >= 0) {
        print_rows(&d, style, out);
        st = zi_str_status(out);
    }
    zi_free(d.row);
    zi_free(d.row_of);
    zi_free(d.cells);
    zi_free(d.now);
    zi_free(d.seen);
    zi_free(d.saved);
    zi_free(d.end_ns);
    zi_free(d.root);
    zi_free(d.present);
    zi_free(d.curve);
    return st;
}

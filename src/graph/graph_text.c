/* graph_text.c -- a graph as lines of text that diff well, and back.
 *
 *   zico-graph 1 resnet20
 *   tensor 0 f32 input [8,3,32,32] x
 *   tensor 1 f32 param [16,3,3,3] conv1.weight init=normal,0,0.11785113019775793
 *   node 0 conv2d forward conv1 in=0,1 out=2 stride=1,1 pad=1,1,1,1 groups=1
 *   outputs 40
 *   loss 41
 *   end
 *
 * Ids count up from 0.  '-' is an absent position.  Attributes that are zero are left
 * out.  Doubles are printed so that they read back to the same bits.
 */
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "base/alloc.h"
#include "base/str.h"
#include "base/try.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes, field by field ------------------------------------------------------ */

typedef struct field {
    zi_attr_kind kind;
    bool         real;
    uint32_t     n;
    size_t       at;
    const char  *name;
} field;

/* clang-format off */
static const field fields[] = {
#define KIND(k)
#define I(k, f, n) {ZI_ATTR_##k, false, n, offsetof(zi_attr, k.f), #f},
#define I1(k, f)   {ZI_ATTR_##k, false, 1, offsetof(zi_attr, k.f), #f},
#define F1(k, f)   {ZI_ATTR_##k, true, 1, offsetof(zi_attr, k.f), #f},
#define END(k)
#include "graph/attrs.def"
#undef KIND
#undef I
#undef I1
#undef F1
#undef END
};
/* clang-format on */
#define N_FIELDS (sizeof fields / sizeof fields[0])
_Static_assert(sizeof(double) == 8 && sizeof(int64_t) == 8, "fields have one width");

static const char *const init_text[] = {"none", "const", "uniform", "normal", "value"};
_Static_assert(sizeof init_text / sizeof init_text[0] == ZI_INIT_COUNT, "one text each");

/* ---- printing ------------------------------------------------------------------------ */

static void
say_ids(zi_str *s, const char *key, uint32_t n, const uint32_t *id)
{
    if (!n) return;
    zi_str_fmt(s, " %s=", key);
    for (uint32_t i = 0; i < n; i++) {
        if (i) zi_str_fmt(s, ",");
        if (id[i] == ZI_ID_NONE)
            zi_str_fmt(s, "-");
        else
            zi_str_fmt(s, "%" PRIu32, id[i]);
    }
}

static void
say_tensor(zi_str *s, uint32_t id, const zi_tensor *t)
{
    char b[ZI_DIMS_TEXT];
    zi_str_fmt(s, "tensor %" PRIu32 " %s %s %s %s", id, zi_dtype_text(t->dtype),
               zi_role_text(t->role), zi_dims_text(t->rank, t->dims, b), t->name);
    if (t->init.kind != ZI_INIT_NONE)
        zi_str_fmt(s, " init=%s,%.17g,%.17g", init_text[t->init.kind], t->init.a,
                   t->init.b);
    if (t->grad_of != ZI_ID_NONE) say_ids(s, "grad_of", 1, &t->grad_of);
    if (t->state_of != ZI_ID_NONE) say_ids(s, "state_of", 1, &t->state_of);
    zi_str_fmt(s, "\n");
}

static void
say_attrs(zi_str *s, zi_attr_kind kind, const zi_attr *attr)
{
    static const char zero[8 * ZI_MAX_RANK];
    for (size_t i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        const char  *p = (const char *)attr + f->at;
        if (f->kind != kind || memcmp(p, zero, 8 * f->n) == 0) continue;
        zi_str_fmt(s, " %s=", f->name);
        for (uint32_t k = 0; k < f->n; k++) {
            double  d;
            int64_t v;
            memcpy(&d, p + 8 * k, 8);
            memcpy(&v, p + 8 * k, 8);
            if (k) zi_str_fmt(s, ",");
            if (f->real)
                zi_str_fmt(s, "%.17g", d);
            else
                zi_str_fmt(s, "%" PRId64, v);
        }
    }
}

static void
say_node(zi_str *s, uint32_t id, const zi_node *n)
{
    const zi_op_info *op = zi_op_get(n->op);
    zi_str_fmt(s, "node %" PRIu32 " %s %s %s", id, op->text, zi_phase_text(n->phase),
               n->name);
    say_ids(s, "in", n->n_in, n->in);
    say_ids(s, "out", n->n_out, n->out);
    say_ids(s, "up", n->n_up, n->up);
    if (n->forward != ZI_ID_NONE) say_ids(s, "forward", 1, &n->forward);
    say_attrs(s, op->attr, &n->attr);
    zi_str_fmt(s, "\n");
}

zico_status
zi_graph_print(const zi_graph *g, char **ret_text)
{
    zi_str s = {0};
    zi_str_fmt(&s, "zico-graph 1 %s\n", g->name);
    for (uint32_t i = 0; i < g->n_tensors; i++) say_tensor(&s, i, &g->tensors[i]);
    for (uint32_t i = 0; i < g->n_nodes; i++) say_node(&s, i, &g->nodes[i]);
    for (uint32_t i = 0; i < g->n_outputs; i++)
        zi_str_fmt(&s, "output %" PRIu32 "\n", g->outputs[i]);
    if (g->loss != ZI_ID_NONE) zi_str_fmt(&s, "loss %" PRIu32 "\n", g->loss);
    if (g->lr != ZI_ID_NONE) zi_str_fmt(&s, "lr %" PRIu32 "\n", g->lr);
    if (g->step != ZI_ID_NONE) zi_str_fmt(&s, "step %" PRIu32 "\n", g->step);
    if (g->differentiated) zi_str_fmt(&s, "pass differentiate\n");
    if (g->has_update) zi_str_fmt(&s, "pass update\n");
    zi_str_fmt(&s, "end\n");
    if (zi_str_status(&s) < 0) {
        zi_str_free(&s);
        return ZICO_E_NOMEM;
    }
    *ret_text = zi_str_take(&s);
    return ZICO_OK;
}

/* ---- parsing ------------------------------------------------------------------------- */

typedef struct reader {
    char          *rest;  /* what is left of the text; lines are cut off in place */
    char          *words; /* what is left of the line */
    uint64_t       line;
    zi_graph      *g;
    zi_graph_diag *diag;
    zi_tensor_id  *ids; /* room for the lists of one node */
    uint32_t       cap_ids;
    bool           ended;
} reader;

__attribute__((format(printf, 2, 3))) static zico_status
wrong(reader *r, const char *fmt, ...)
{
    if (!r->diag) return ZICO_E_FORMAT;
    va_list ap;
    va_start(ap, fmt);
    int at = snprintf(r->diag->text, sizeof r->diag->text, "line %" PRIu64 ": ", r->line);
    vsnprintf(r->diag->text + at, sizeof r->diag->text - (size_t)at, fmt, ap);
    va_end(ap);
    r->diag->node = ZI_ID_NONE;
    r->diag->line = r->line;
    return ZICO_E_FORMAT;
}

/* Cut the next piece off *at, up to a character of `ends`; NULL: nothing left. */
static char *
cut(char **at, const char *ends)
{
    char *p = *at;
    if (!p || !*p) return NULL;
    char *q = p + strcspn(p, ends);
    *at = *q ? q + 1 : q;
    *q = 0;
    return p;
}

static bool
as_i64(const char *s, int64_t *ret)
{
    char *end;
    if (!s ||
        !(isdigit((unsigned char)*s) || (*s == '-' && isdigit((unsigned char)s[1]))))
        return false;
    *ret = strtoll(s, &end, 10);
    char back[32];
    snprintf(back, sizeof back, "%" PRId64, *ret); /* refuses overflow and odd forms */
    return *end == 0 && strcmp(back, s) == 0;
}

static bool
as_id(const char *s, uint32_t *ret)
{
    int64_t v;
    if (!as_i64(s, &v) || v < 0 || v >= UINT32_MAX) return false;
    *ret = (uint32_t)v;
    return true;
}

static bool
as_double(const char *s, double *ret)
{
    char *end;
    if (!s || !*s || isspace((unsigned char)*s)) return false;
    *ret = strtod(s, &end);
    return *end == 0;
}

typedef const char *text_fn(uint32_t);
static const char *
dtype_at(uint32_t i)
{
    return zi_dtype_text((zi_dtype)i);
}
static const char *
role_at(uint32_t i)
{
    return zi_role_text((zi_role)i);
}
static const char *
phase_at(uint32_t i)
{
    return zi_phase_text((zi_phase)i);
}
static const char *
op_at(uint32_t i)
{
    return zi_op_get((zi_op)i)->text;
}
static const char *
init_at(uint32_t i)
{
    return init_text[i];
}

/* Which of n words is `s`?  n: none. */
static uint32_t
choose(const char *s, text_fn *name, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && (!s || strcmp(s, name(i)) != 0)) i++;
    return i;
}

static zico_status
read_dims(reader *r, char *s, uint32_t *ret_rank, int64_t *ret_dims)
{
    size_t n = s ? strlen(s) : 0;
    if (n < 2 || s[0] != '[' || s[n - 1] != ']') return wrong(r, "dims expected");
    s[n - 1] = 0;
    s++;
    char *word;
    for (*ret_rank = 0; (word = cut(&s, ",")); (*ret_rank)++) {
        if (*ret_rank >= ZI_MAX_RANK || !as_i64(word, &ret_dims[*ret_rank]))
            return wrong(r, "'%.20s' is no dim, or there are too many", word);
    }
    return ZICO_OK;
}

static zico_status
read_init(reader *r, char *s, zi_init *ret)
{
    uint32_t kind = choose(cut(&s, ","), init_at, ZI_INIT_COUNT);
    if (kind == ZI_INIT_COUNT || !as_double(cut(&s, ","), &ret->a) ||
        !as_double(s, &ret->b))
        return wrong(r, "init is KIND,A,B");
    ret->kind = (zi_init_kind)kind;
    return ZICO_OK;
}

static zico_status
read_tensor(reader *r)
{
    uint32_t       id, rank = 0;
    int64_t        dims[ZI_MAX_RANK];
    zi_tensor_spec s = {.dims = dims};
    zi_tensor_id   of[2] = {ZI_ID_NONE, ZI_ID_NONE}, made;

    if (!as_id(cut(&r->words, " "), &id) || id != r->g->n_tensors)
        return wrong(r, "tensor %" PRIu32 " expected", r->g->n_tensors);
    s.dtype = (zi_dtype)choose(cut(&r->words, " "), dtype_at, ZI_DTYPE_COUNT);
    s.role = (zi_role)choose(cut(&r->words, " "), role_at, ZI_ROLE_COUNT);
    if (s.dtype == ZI_DTYPE_COUNT || s.role == ZI_ROLE_COUNT)
        return wrong(r, "unknown type or role");
    ZI_TRY(read_dims(r, cut(&r->words, " "), &rank, dims));
    s.rank = rank;
    s.name = cut(&r->words, " ");
    if (!s.name || zi_graph_find_tensor(r->g, s.name) != ZI_ID_NONE)
        return wrong(r, "a tensor needs a name of its own");
    for (char *word; (word = cut(&r->words, " "));) {
        char *key = cut(&word, "=");
        if (key && strcmp(key, "init") == 0)
            ZI_TRY(read_init(r, word, &s.init));
        else if (!key || (strcmp(key, "grad_of") && strcmp(key, "state_of")) ||
                 !as_id(word, &of[*key == 's']))
            return wrong(r, "init=, grad_of= or state_of= expected");
    }
    ZI_TRY(zi_graph_add_tensor(r->g, &s, r->diag, &made));
    r->g->tensors[made].grad_of = of[0];
    r->g->tensors[made].state_of = of[1];
    return ZICO_OK;
}

/* Append the ids of "3,-,4" to r->ids, from position `at` on. */
static zico_status
read_ids(reader *r, char *s, uint32_t at, uint32_t *ret_n)
{
    for (char *word; (word = cut(&s, ",")); at++, (*ret_n)++) {
        if (at == r->cap_ids) {
            uint32_t      cap = r->cap_ids * 2;
            zi_tensor_id *p = zi_realloc(r->ids, cap * sizeof *p);
            if (!p) return ZICO_E_NOMEM;
            r->ids = p;
            r->cap_ids = cap;
        }
        r->ids[at] = ZI_ID_NONE;
        if (strcmp(word, "-") != 0 && (!as_id(word, &r->ids[at])))
            return wrong(r, "'%.20s' is no id", word);
    }
    return ZICO_OK;
}

static zico_status
read_attr(reader *r, zi_attr_kind kind, const char *key, char *s, zi_attr *attr)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        if (f->kind != kind || strcmp(f->name, key) != 0) continue;
        for (uint32_t k = 0; k < f->n; k++) {
            char       *word = cut(&s, ",");
            char *const at = (char *)attr + f->at + 8 * k;
            double      d;
            int64_t     v;
            if (f->real ? !as_double(word, &d) : !as_i64(word, &v))
                return wrong(r, "%s: a number expected", key);
            if (f->real)
                memcpy(at, &d, 8);
            else
                memcpy(at, &v, 8);
        }
        if (s && *s) return wrong(r, "%s: too many numbers", key);
        return ZICO_OK;
    }
    return wrong(r, "this operator has no attribute '%.40s'", key);
}

/* Outputs must be tensors that nobody makes yet; links would be overwritten else. */
static zico_status
check_outputs(reader *r, uint32_t n, const zi_tensor_id *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (out[i] == ZI_ID_NONE) continue;
        if (out[i] >= r->g->n_tensors || r->g->tensors[out[i]].producer != ZI_ID_NONE)
            return wrong(r, "output %" PRIu32 " is unknown or made twice", out[i]);
    }
    return ZICO_OK;
}

static zico_status
read_node(reader *r)
{
    uint32_t     id, n[3] = {0, 0, 0};
    zi_attr      attr;
    zi_node_spec s = {.forward = ZI_ID_NONE, .attr = &attr};

    memset(&attr, 0, sizeof attr);
    if (!as_id(cut(&r->words, " "), &id) || id != r->g->n_nodes)
        return wrong(r, "node %" PRIu32 " expected", r->g->n_nodes);
    s.op = (zi_op)choose(cut(&r->words, " "), op_at, ZI_OP_COUNT);
    s.phase = (zi_phase)choose(cut(&r->words, " "), phase_at, ZI_PHASE_COUNT);
    if (s.op == ZI_OP_COUNT || s.phase == ZI_PHASE_COUNT)
        return wrong(r, "unknown operator or phase");
    s.name = cut(&r->words, " ");
    if (!s.name || zi_graph_find_node(r->g, s.name) != ZI_ID_NONE)
        return wrong(r, "a node needs a name of its own");

    static const char *const list[] = {"in", "out", "up"};
    int                      seen = 0; /* lists come in this order, each at most once */
    for (char *word; (word = cut(&r->words, " "));) {
        char *key = cut(&word, "=");
        int   k = seen;
        while (k < 3 && key && strcmp(key, list[k]) != 0) k++;
        if (!key) return wrong(r, "KEY=VALUE expected");
        if (k < 3) {
            ZI_TRY(read_ids(r, word, n[0] + n[1] + n[2], &n[k]));
            seen = k + 1;
        } else if (strcmp(key, "forward") == 0) {
            if (!as_id(word, &s.forward) || s.forward >= id)
                return wrong(r, "forward= names no earlier node");
        } else {
            ZI_TRY(read_attr(r, zi_op_get(s.op)->attr, key, word, &attr));
        }
    }
    s.n_in = n[0], s.n_out = n[1], s.n_up = n[2];
    s.in = r->ids;
    s.up = r->ids + n[0] + n[1];
    ZI_TRY(check_outputs(r, n[1], r->ids + n[0]));
    zico_status st = zi_graph_link_node(r->g, &s, r->ids + n[0], r->diag);
    if (st < 0 && r->diag) r->diag->line = r->line;
    return st;
}

static zico_status
read_special(reader *r, zi_tensor_id *where)
{
    if (!as_id(r->words, where) || *where >= r->g->n_tensors)
        return wrong(r, "a tensor's id expected");
    return ZICO_OK;
}

static zico_status
read_line(reader *r)
{
    const char  *what = cut(&r->words, " ");
    zi_tensor_id id;
    if (!what) return wrong(r, "empty line");
    if (strcmp(what, "tensor") == 0) return read_tensor(r);
    if (strcmp(what, "node") == 0) return read_node(r);
    if (strcmp(what, "loss") == 0) return read_special(r, &r->g->loss);
    if (strcmp(what, "lr") == 0) return read_special(r, &r->g->lr);
    if (strcmp(what, "step") == 0) return read_special(r, &r->g->step);
    if (strcmp(what, "output") == 0) {
        ZI_TRY(read_special(r, &id));
        return zi_graph_add_output(r->g, id);
    }
    if (strcmp(what, "pass") == 0) {
        bool diff = strcmp(r->words, "differentiate") == 0;
        if (!diff && strcmp(r->words, "update") != 0) return wrong(r, "unknown pass");
        if (diff)
            r->g->differentiated = true;
        else
            r->g->has_update = true;
        return ZICO_OK;
    }
    if (strcmp(what, "end") == 0) {
        r->ended = true;
        return ZICO_OK;
    }
    return wrong(r, "'%.20s' is no kind of line", what);
}

/* Links between tensors may point forward, so they are checked at the end. */
static zico_status
check_ends(reader *r)
{
    if (!r->ended) return wrong(r, "'end' is missing");
    for (uint32_t i = 0; i < r->g->n_tensors; i++) {
        const zi_tensor *t = &r->g->tensors[i];
        if ((t->grad_of != ZI_ID_NONE && t->grad_of >= r->g->n_tensors) ||
            (t->state_of != ZI_ID_NONE && t->state_of >= r->g->n_tensors))
            return wrong(r, "tensor '%s' belongs to an unknown one", t->name);
    }
    return zi_graph_verify(r->g, r->diag);
}

static zico_status
read_all(reader *r)
{
    r->line = 1;
    char *head = cut(&r->rest, "\n");
    if (!head || strncmp(head, "zico-graph 1 ", 13) != 0 || !head[13])
        return wrong(r, "'zico-graph 1 NAME' expected");
    r->cap_ids = 64;
    r->ids = zi_malloc(r->cap_ids * sizeof *r->ids);
    if (!r->ids) return ZICO_E_NOMEM;
    ZI_TRY(zi_graph_new(head + 13, &r->g));
    while (!r->ended && (r->words = cut(&r->rest, "\n"))) {
        r->line++;
        ZI_TRY(read_line(r));
    }
    return check_ends(r);
}

zico_status
zi_graph_parse(const char *text, size_t n_bytes, zi_graph_diag *diag,
               zi_graph **ret_graph)
{
    char *copy = zi_malloc(n_bytes + 1);
    if (!copy) return ZICO_E_NOMEM;
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = 0;

    reader      r = {.rest = copy, .diag = diag};
    zico_status st = memchr(copy, 0, n_bytes) ? wrong(&r, "a zero byte") : read_all(&r);
    zi_free(copy);
    zi_free(r.ids);
    if (st < 0)
        zi_graph_free(r.g);
    else
        *ret_graph = r.g;
    return st;
}

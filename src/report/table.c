/* table.c -- rows and columns, for terminals and as JSON. */
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/vec.h"

#define GAP       2 /* columns of blank between two columns of the table */
#define MIN_WIDTH 6 /* a text column is never cut below this             */

typedef enum cell_kind { CELL_NONE, CELL_TEXT, CELL_U64, CELL_F64 } cell_kind;

typedef struct cell {
    cell_kind kind;
    char     *text;
    uint64_t  u;
    double    f;
} cell;

struct zi_table {
    zi_column *col; /* head and key owned */
    size_t     n_cols;
    ZI_VEC(cell) cells;
    ZI_VEC(size_t) rules; /* the row above each rule */
    bool bad;             /* an allocation failed */
};

/* "peak memory" is "peak_memory": what JSON users can write after a dot. */
static char *
key_of(const char *head)
{
    char *key = zi_strdup(head);

    for (char *p = key; p && *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
        else if (!letter)
            *p = '_';
    }
    return key;
}

zico_status
zi_table_new(const zi_column *col, size_t n_cols, zi_table **ret_table)
{
    zi_assert(col && n_cols > 0);
    zi_table *t = zi_calloc(1, sizeof *t);
    if (!t) return ZICO_E_NOMEM;
    t->col = zi_calloc(n_cols, sizeof *t->col);
    if (!t->col) {
        zi_free(t);
        return ZICO_E_NOMEM;
    }
    t->n_cols = n_cols;
    for (size_t i = 0; i < n_cols; i++) {
        t->col[i] = col[i];
        t->col[i].head = zi_strdup(col[i].head);
        t->col[i].key = col[i].key ? zi_strdup(col[i].key) : key_of(col[i].head);
        if (!t->col[i].head || !t->col[i].key) t->bad = true;
    }
    if (t->bad) {
        zi_table_free(t);
        return ZICO_E_NOMEM;
    }
    *ret_table = t;
    return ZICO_OK;
}

void
zi_table_free(zi_table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->cells.n; i++) zi_free(t->cells.at[i].text);
    for (size_t i = 0; i < t->n_cols; i++) {
        zi_free((char *)t->col[i].head);
        zi_free((char *)t->col[i].key);
    }
    zi_vec_free(&t->cells);
    zi_vec_free(&t->rules);
    zi_free(t->col);
    zi_free(t);
}

static void
add_cell(zi_table *t, cell c)
{
    const zi_column *col = &t->col[t->cells.n % t->n_cols];

    zi_assert(c.kind == CELL_NONE ||
              (c.kind == CELL_TEXT) == (col->unit == ZI_UNIT_TEXT));
    if (zi_vec_push(&t->cells, c) < 0) {
        zi_free(c.text);
        t->bad = true;
    }
}

void
zi_table_text(zi_table *t, const char *text)
{
    if (!text) {
        zi_table_none(t);
        return;
    }
    cell c = {.kind = CELL_TEXT, .text = zi_strdup(text)};
    if (!c.text) {
        t->bad = true;
        return;
    }
    add_cell(t, c);
}

void
zi_table_u64(zi_table *t, uint64_t v)
{
    add_cell(t, (cell){.kind = CELL_U64, .u = v});
}

void
zi_table_f64(zi_table *t, double v)
{
    add_cell(t, (cell){.kind = CELL_F64, .f = v});
}

void
zi_table_none(zi_table *t)
{
    add_cell(t, (cell){.kind = CELL_NONE});
}

void
zi_table_rule(zi_table *t)
{
    zi_assert(t->bad || t->cells.n % t->n_cols == 0);
    if (zi_vec_push(&t->rules, zi_table_n_rows(t)) < 0) t->bad = true;
}

size_t
zi_table_n_rows(const zi_table *t)
{
    return t->cells.n / t->n_cols;
}

/* The cell as it is shown; `buf` serves the numbers. */
static const char *
cell_show(const zi_column *col, const cell *c, char buf[ZI_UNIT_CHARS])
{
    int decimals = col->decimals > 0 ? col->decimals : -1;

    switch (c->kind) {
    case CELL_TEXT:
        return c->text;
    case CELL_U64:
        return zi_unit_format(col->unit, (double)c->u, decimals, buf);
    case CELL_F64:
        return zi_unit_format(col->unit, c->f, decimals, buf);
    case CELL_NONE:
        break;
    }
    return "-";
}

/* Column widths, the widest text column cut until the table fits the style. */
static void
find_widths(const zi_table *t, const zi_style *style, size_t *width)
{
    char   buf[ZI_UNIT_CHARS];
    size_t sum = GAP * (t->n_cols - 1);

    for (size_t i = 0; i < t->n_cols; i++) {
        width[i] = zi_text_columns(t->col[i].head);
        for (size_t r = 0; r < zi_table_n_rows(t); r++) {
            const cell *c = &t->cells.at[r * t->n_cols + i];
            size_t      n = zi_text_columns(cell_show(&t->col[i], c, buf));
            if (n > width[i]) width[i] = n;
        }
        sum += width[i];
    }
    while (style->width && sum > style->width) {
        size_t widest = t->n_cols;
        for (size_t i = 0; i < t->n_cols; i++)
            if (t->col[i].unit == ZI_UNIT_TEXT && width[i] > MIN_WIDTH &&
                (widest == t->n_cols || width[i] > width[widest]))
                widest = i;
        if (widest == t->n_cols) break;
        width[widest]--, sum--;
    }
}

/* At most `width` columns of text; what is cut ends in an ellipsis. */
static void
add_cut(zi_str *out, const char *text, size_t width, const zi_style *style)
{
    size_t n = zi_text_columns(text);

    if (n <= width) {
        zi_str_add(out, text);
        return;
    }
    size_t keep = width - (style->unicode ? 1 : 2);
    for (const char *p = text; keep > 0 || ((unsigned char)*p & 0xc0) == 0x80; p++) {
        zi_str_add_char(out, *p);
        if (((unsigned char)p[1] & 0xc0) != 0x80) keep--;
        if (keep == 0 && ((unsigned char)p[1] & 0xc0) != 0x80) break;
    }
    zi_str_add(out, style->unicode ? "…" : "..");
}

static void
add_blank(zi_str *out, size_t n)
{
    while (n-- > 0) zi_str_add_char(out, ' ');
}

static void
add_padded(zi_str *out, const zi_table *t, size_t i, const char *text, size_t width,
           const zi_style *style)
{
    size_t n = zi_text_columns(text);
    size_t blank = n < width ? width - n : 0;
    bool   right = t->col[i].unit != ZI_UNIT_TEXT;

    if (i > 0) add_blank(out, GAP);
    if (right) add_blank(out, blank);
    add_cut(out, text, width, style);
    if (!right && i + 1 < t->n_cols) add_blank(out, blank);
}

static void
add_rule(zi_str *out, const zi_table *t, const size_t *width, const zi_style *style)
{
    for (size_t i = 0; i < t->n_cols; i++) {
        if (i > 0) add_blank(out, GAP);
        for (size_t k = 0; k < width[i]; k++) zi_str_add(out, style->unicode ? "─" : "-");
    }
    zi_str_add_char(out, '\n');
}

static zico_status
table_status(const zi_table *t)
{
    if (t->bad) return ZICO_E_NOMEM;
    zi_assert(t->cells.n % t->n_cols == 0);
    return t->cells.n % t->n_cols == 0 ? ZICO_OK : ZICO_E_STATE;
}

zico_status
zi_table_print(const zi_table *t, const zi_style *style, zi_str *out)
{
    zico_status st = table_status(t);
    char        buf[ZI_UNIT_CHARS];
    size_t      rule = 0;

    if (st < 0) return st;
    size_t *width = zi_calloc(t->n_cols, sizeof *width);
    if (!width) return ZICO_E_NOMEM;
    find_widths(t, style, width);

    if (style->colour) zi_str_add(out, "\x1b[1m");
    for (size_t i = 0; i < t->n_cols; i++)
        add_padded(out, t, i, t->col[i].head, width[i], style);
    zi_str_add(out, style->colour ? "\x1b[0m\n" : "\n");
    add_rule(out, t, width, style);
    for (size_t r = 0; r < zi_table_n_rows(t); r++) {
        for (size_t i = 0; i < t->n_cols; i++) {
            const cell *c = &t->cells.at[r * t->n_cols + i];
            add_padded(out, t, i, cell_show(&t->col[i], c, buf), width[i], style);
        }
        while (out->n > 0 && !out->bad && out->at[out->n - 1] == ' ')
            out->at[--out->n] = '\0'; /* an empty last cell leaves no blanks */
        zi_str_add_char(out, '\n');
        for (; rule < t->rules.n && t->rules.at[rule] == r + 1; rule++)
            add_rule(out, t, width, style);
    }
    zi_free(width);
    return zi_str_status(out);
}

zico_status
zi_table_json(const zi_table *t, zi_json *j)
{
    zico_status st = table_status(t);

    if (st < 0) return st;
    zi_json_array(j);
    for (size_t k = 0; k < t->cells.n; k++) {
        const cell *c = &t->cells.at[k];
        if (k % t->n_cols == 0) zi_json_object(j);
        zi_json_key(j, t->col[k % t->n_cols].key);
        if (c->kind == CELL_TEXT)
            zi_json_str(j, c->text);
        else if (c->kind == CELL_U64)
            zi_json_u64(j, c->u);
        else if (c->kind == CELL_F64)
            zi_json_f64(j, c->f);
        else
            zi_json_null(j);
        if (k % t->n_cols == t->n_cols - 1) zi_json_end(j);
    }
    zi_json_end(j);
    return zi_str_status(j->out);
}

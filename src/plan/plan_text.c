/* plan_text.c -- plans as text: one act a line, things by name.
 *
 *     plan keep
 *     run layer1.conv
 *     run layer1.relu over 1
 *     drop layer1.conv.out
 *     encode relu3.out codec 2
 *
 * A placement is not printed: it follows from plan, costs and region size.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "base/try.h"

static const char *const verb[ZI_ACT_COUNT] = {
    [ZI_ACT_RUN] = "run",       [ZI_ACT_REDO] = "redo",     [ZI_ACT_DROP] = "drop",
    [ZI_ACT_OUT] = "out",       [ZI_ACT_IN] = "in",         [ZI_ACT_WAIT] = "wait",
    [ZI_ACT_ENCODE] = "encode", [ZI_ACT_DECODE] = "decode",
};

static bool
is_node_act(zi_act_kind k)
{
    return k == ZI_ACT_RUN || k == ZI_ACT_REDO;
}

zico_status
zi_plan_print(const zi_plan *p, const zi_graph *g, char **ret_text)
{
    zi_str s = {0};
    zi_str_fmt(&s, "plan %s\n", p->planner);
    for (uint32_t i = 0; i < p->n_acts; i++) {
        const zi_act *a = &p->acts[i];
        const char   *name;
        if (is_node_act(a->kind)) {
            zi_assert(a->what < g->n_nodes);
            name = g->nodes[a->what].name;
        } else {
            zi_assert(a->what < g->n_tensors);
            name = g->tensors[a->what].name;
        }
        zi_str_fmt(&s, "%s %s", verb[a->kind], name);
        if (a->over) zi_str_fmt(&s, " over %u", a->over);
        if (a->codec) zi_str_fmt(&s, " codec %u", a->codec);
        zi_str_add_char(&s, '\n');
    }
    zico_status st = zi_str_status(&s);
    if (st < 0) {
        zi_str_free(&s);
        return st;
    }
    *ret_text = zi_str_take(&s);
    return ZICO_OK;
}

/* -- reading --------------------------------------------------------------------------- */

typedef struct line_words {
    char  buf[2 * ZI_NAME_BYTES];
    char *word[4];
    int   n;
} line_words;

static zico_status
complain(zi_graph_diag *diag, uint64_t line, const char *what, const char *which)
{
    if (diag) {
        *diag = (zi_graph_diag){.node = ZI_ID_NONE, .line = line};
        snprintf(diag->text, sizeof diag->text, "line %llu: %s '%.200s'",
                 (unsigned long long)line, what, which);
    }
    return ZICO_E_FORMAT;
}

/* Split at single blanks; false: too long, too many words, or a byte that has no place here. */
static bool
split(const char *at, size_t len, line_words *w)
{
    w->n = 0;
    if (len >= sizeof w->buf) return false;
    memcpy(w->buf, at, len);
    w->buf[len] = 0;
    if (memchr(w->buf, 0, len)) return false;
    for (char *c = w->buf; *c;) {
        if (w->n == 4) return false;
        w->word[w->n++] = c;
        c = strchr(c, ' ');
        if (!c) break;
        *c++ = 0;
    }
    return w->n >= 2;
}

static bool
small_number(const char *text, uint8_t *ret_value)
{
    char         *end;
    unsigned long v = strtoul(text, &end, 10);
    if (end == text || *end || v > UINT8_MAX) return false;
    *ret_value = (uint8_t)v;
    return true;
}

static zico_status
parse_act(const line_words *w, uint64_t line, const zi_graph *g, zi_graph_diag *diag,
          zi_act *ret_act)
{
    zi_act a = {.kind = ZI_ACT_COUNT};

    for (int k = 0; k < ZI_ACT_COUNT; k++)
        if (!strcmp(w->word[0], verb[k])) a.kind = (zi_act_kind)k;
    if (a.kind == ZI_ACT_COUNT) return complain(diag, line, "unknown act", w->word[0]);
    bool node = is_node_act(a.kind);
    a.what =
        node ? zi_graph_find_node(g, w->word[1]) : zi_graph_find_tensor(g, w->word[1]);
    if (a.what == ZI_ID_NONE)
        return complain(diag, line, node ? "no such node" : "no such tensor", w->word[1]);
    if (w->n == 3) return complain(diag, line, "a number is missing after", w->word[2]);
    if (w->n == 4) {
        bool codec = a.kind == ZI_ACT_ENCODE || a.kind == ZI_ACT_DECODE;
        if (strcmp(w->word[2], node ? "over" : codec ? "codec" : ""))
            return complain(diag, line, "has no place in this act:", w->word[2]);
        if (!small_number(w->word[3], node ? &a.over : &a.codec))
            return complain(diag, line, "not a number from 0 to 255:", w->word[3]);
        if (node && a.over > 3) return complain(diag, line, "no such pair:", w->word[3]);
    }
    *ret_act = a;
    return ZICO_OK;
}

static zico_status
parse_line(const char *at, size_t len, uint64_t line, const zi_graph *g,
           zi_graph_diag *diag, zi_plan **plan)
{
    line_words w;
    zi_act     a;

    if (!split(at, len, &w)) return complain(diag, line, "not an act:", "");
    if (!*plan) {
        if (w.n != 2 || strcmp(w.word[0], "plan") || !*w.word[1])
            return complain(diag, line, "a plan begins with 'plan NAME', not with",
                            w.word[0]);
        return zi_plan_new(w.word[1], plan);
    }
    ZI_TRY(parse_act(&w, line, g, diag, &a));
    return zi_plan_add(*plan, a);
}

zico_status
zi_plan_parse(const char *text, size_t n_bytes, const zi_graph *g, zi_graph_diag *diag,
              zi_plan **ret_plan)
{
    zi_plan    *plan = NULL;
    zico_status st = ZICO_OK;
    uint64_t    line = 1;

    for (size_t at = 0; at < n_bytes && st >= 0; line++) {
        const char *nl = memchr(text + at, '\n', n_bytes - at);
        size_t      len = nl ? (size_t)(nl - text) - at : n_bytes - at;
        if (len) st = parse_line(text + at, len, line, g, diag, &plan);
        at += len + 1;
    }
    if (st >= 0 && !plan) st = complain(diag, 1, "an empty text is no plan", "");
    if (st < 0) {
        zi_plan_free(plan);
        return st;
    }
    *ret_plan = plan;
    return ZICO_OK;
}

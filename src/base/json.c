/* json.c -- writes JSON, piece by piece. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

zi_json
zi_json_into(zi_str *out)
{
    return (zi_json){.out = out};
}

/* Our own bug: say so where assertions are heard, and remember it where not. */
static bool
in_place(zi_json *j, bool ok)
{
    zi_assert(ok);
    if (!ok) j->bad = true;
    return !j->bad;
}

/* The comma before a value, if it needs one; false: no value may stand here. */
static bool
before_value(zi_json *j)
{
    bool in_object = j->depth > 0 && j->kind[j->depth] == '{';

    if (!in_place(j, in_object ? j->keyed : j->depth > 0 || !j->some[0])) return false;
    if (!j->keyed && j->some[j->depth]) zi_str_add_char(j->out, ',');
    j->some[j->depth] = true;
    j->keyed = false;
    return true;
}

static void
open_level(zi_json *j, char kind)
{
    if (!in_place(j, j->depth < ZI_JSON_DEPTH)) return;
    if (!before_value(j)) return;
    j->depth++;
    j->kind[j->depth] = kind;
    j->some[j->depth] = false;
    zi_str_add_char(j->out, kind);
}

void
zi_json_object(zi_json *j)
{
    open_level(j, '{');
}

void
zi_json_array(zi_json *j)
{
    open_level(j, '[');
}

void
zi_json_end(zi_json *j)
{
    if (!in_place(j, j->depth > 0 && !j->keyed)) return;
    zi_str_add_char(j->out, j->kind[j->depth] == '{' ? '}' : ']');
    j->depth--;
}

/* Length of the UTF-8 character at p (n > 0 bytes left); 0: it is malformed,
 * which includes overlong forms, surrogates and anything above U+10FFFF. */
static size_t
utf8_length(const unsigned char *p, size_t n)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t                len = p[0] < 0x80             ? 1
                                : (p[0] & 0xe0) == 0xc0 ? 2
                                : (p[0] & 0xf0) == 0xe0 ? 3
                                : (p[0] & 0xf8) == 0xf0 ? 4
                                                        : 0;
    if (len <= 1) return len;
    if (len > n) return 0;

    uint32_t code = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool ok = code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return ok ? len : 0;
}

static void
add_quoted(zi_str *out, const char *text, size_t n)
{
    static const char    plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const unsigned char *p = (const unsigned char *)text;

    zi_str_add_char(out, '"');
    for (size_t i = 0; i < n;) {
        const char *hit = p[i] ? strchr(plain, p[i]) : NULL;
        size_t      len = utf8_length(p + i, n - i);
        if (hit) {
            zi_str_add_char(out, '\\');
            zi_str_add_char(out, letter[hit - plain]);
        } else if (p[i] < 0x20 || p[i] == 0x7f) {
            zi_str_fmt(out, "\\u%04x", p[i]);
        } else if (len == 0) {
            zi_str_add(out, "\\ufffd");
            len = 1;
        } else {
            zi_str_add_n(out, text + i, len);
        }
        i += len ? len : 1;
    }
    zi_str_add_char(out, '"');
}

void
zi_json_key(zi_json *j, const char *key)
{
    if (!in_place(j, j->depth > 0 && j->kind[j->depth] == '{' && !j->keyed)) return;
    if (j->some[j->depth]) zi_str_add_char(j->out, ',');
    j->some[j->depth] = true;
    add_quoted(j->out, key, strlen(key));
    zi_str_add_char(j->out, ':');
    j->keyed = true;
}

void
zi_json_str_n(zi_json *j, const char *text, size_t n)
{
    if (before_value(j)) add_quoted(j->out, text, n);
}

void
zi_json_str(zi_json *j, const char *text)
{
    if (text)
        zi_json_str_n(j, text, strlen(text));
    else
        zi_json_null(j);
}

void
zi_json_u64(zi_json *j, uint64_t v)
{
    if (before_value(j)) zi_str_fmt(j->out, "%llu", (unsigned long long)v);
}

void
zi_json_i64(zi_json *j, int64_t v)
{
    if (before_value(j)) zi_str_fmt(j->out, "%lld", (long long)v);
}

void
zi_json_f64(zi_json *j, double v)
{
    char b[40];

    if (!before_value(j)) return;
    if (!isfinite(v)) {
        zi_str_add(j->out, "null");
        return;
    }
    for (int digits = 6; digits <= 17; digits += digits < 15 ? 9 : 1) {
        snprintf(b, sizeof b, "%.*g", digits, v);
        if (strtod(b, NULL) == v) break;
    }
    for (char *c = b; *c; c++) /* the host may have set a locale with another point */
        if (!strchr("0123456789+-eE", *c)) *c = '.';
    zi_str_add(j->out, b);
}

void
zi_json_bool(zi_json *j, bool v)
{
    if (before_value(j)) zi_str_add(j->out, v ? "true" : "false");
}

void
zi_json_null(zi_json *j)
{
    if (before_value(j)) zi_str_add(j->out, "null");
}

zico_status
zi_json_status(const zi_json *j)
{
    if (j->bad || j->depth > 0 || j->keyed || !j->some[0]) return ZICO_E_STATE;
    return zi_str_status(j->out);
}

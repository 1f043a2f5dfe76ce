/* fmt.c -- a small printf for places where stdio must not be called. */
#include "base/fmt.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct out {
    char  *text;
    size_t cap, n; /* n may pass cap: it counts what the whole text has */
} out;

typedef struct spec {
    bool left, zero, has_precision;
    int  width, precision;
    int  longs; /* 0 int, 1 long, 2 long long, 3 size_t, -1 short, -2 char */
} spec;

static void
put(out *o, char c)
{
    if (o->n + 1 < o->cap) o->text[o->n] = c;
    o->n++;
}

/* A sign or prefix, then the body, within the width. */
static void
put_field(out *o, const spec *s, const char *sign, const char *body, size_t n)
{
    size_t n_sign = 0;
    while (sign[n_sign]) n_sign++;

    size_t width = s->width > 0 ? (size_t)s->width : 0;
    size_t pad = width > n + n_sign ? width - n - n_sign : 0;
    if (!s->left && !s->zero)
        for (; pad; pad--) put(o, ' ');
    for (size_t i = 0; i < n_sign; i++) put(o, sign[i]);
    if (!s->left && s->zero)
        for (; pad; pad--) put(o, '0');
    for (size_t i = 0; i < n; i++) put(o, body[i]);
    for (; pad; pad--) put(o, ' ');
}

/* Digits of v, ending before `end`; where they begin. */
static char *
digits(char *end, uint64_t v, unsigned base, int at_least)
{
    do {
        *--end = "0123456789abcdef"[v % base];
        v /= base;
        at_least--;
    } while (v || at_least > 0);
    return end;
}

static void
put_number(out *o, const spec *s, const char *sign, uint64_t v, unsigned base)
{
    char  b[24], *end = b + sizeof b;
    char *p = digits(end, v, base, 1);
    put_field(o, s, sign, p, (size_t)(end - p));
}

static void
put_string(out *o, const spec *s, const char *text)
{
    spec   plain = *s;
    size_t n = 0;

    if (!text) text = "(null)";
    while ((!s->has_precision || n < (size_t)s->precision) && text[n]) n++;
    plain.zero = false;
    put_field(o, &plain, "", text, n);
}

/* Numbers too large for 64 bits are scaled down and get an e+N. */
static void
put_double(out *o, const spec *s, double v)
{
    char        b[64], *end = b + sizeof b, *p = end;
    const char *sign = v < 0 ? "-" : "";
    int         decimals = s->has_precision ? s->precision : 6, exponent = 0;

    if (decimals > 9) decimals = 9;
    if (v < 0) v = -v;
    if (v != v || v > 1.7976931348623157e308) {
        put_string(o, s, v != v ? "nan" : *sign ? "-inf" : "inf");
        return;
    }
    if (v >= 1e19)
        for (; v >= 10; exponent++) v /= 10;

    uint64_t whole = (uint64_t)v, scale = 1;
    for (int i = 0; i < decimals; i++) scale *= 10;
    uint64_t fraction = (uint64_t)((v - (double)whole) * (double)scale + 0.5);
    if (fraction >= scale) {
        fraction -= scale;
        whole++;
    }
    if (exponent) {
        p = digits(p, (uint64_t)exponent, 10, 2);
        *--p = '+';
        *--p = 'e';
    }
    if (decimals > 0) {
        p = digits(p, fraction, 10, decimals);
        *--p = '.';
    }
    p = digits(p, whole, 10, 1);
    put_field(o, s, sign, p, (size_t)(end - p));
}

/* Flags, width, precision, length; the conversion's letter is at the return value. */
static const char *
parse_spec(const char *f, spec *s, int star)
{
    for (; *f == '-' || *f == '0'; f++) {
        if (*f == '-') s->left = true;
        if (*f == '0') s->zero = true;
    }
    for (; *f >= '0' && *f <= '9' && s->width < 1000; f++)
        s->width = s->width * 10 + (*f - '0');
    if (*f == '.') {
        f++;
        s->has_precision = true;
        if (*f == '*') {
            f++;
            s->has_precision = star >= 0;
            s->precision = star;
        }
        for (; *f >= '0' && *f <= '9' && s->precision < 100000; f++)
            s->precision = s->precision * 10 + (*f - '0');
    }
    for (; *f == 'l' || *f == 'z' || *f == 'h'; f++)
        s->longs = *f == 'z' ? 3 : *f == 'h' ? s->longs - 1 : s->longs + 1;
    return f;
}

/* Whether the precision at f (just after %) is taken from an argument. */
static bool
has_star(const char *f)
{
    while (*f == '-' || (*f >= '0' && *f <= '9')) f++;
    return f[0] == '.' && f[1] == '*';
}

size_t
zi_vfmt(char *text, size_t cap, const char *f, va_list args)
{
    out     o = {text, cap, 0};
    va_list ap;

    va_copy(ap, args);
    for (; *f; f++) {
        if (*f != '%') {
            put(&o, *f);
            continue;
        }
        const char *start = f;
        spec        s = {0};
        int         star = has_star(f + 1) ? va_arg(ap, int) : 0;
        f = parse_spec(f + 1, &s, star);
        switch (*f) {
        case '%':
            put(&o, '%');
            break;
        case 'c': {
            char c = (char)va_arg(ap, int);
            put_field(&o, &s, "", &c, 1);
            break;
        }
        case 's':
            put_string(&o, &s, va_arg(ap, const char *));
            break;
        case 'd':
        case 'i': {
            int64_t  v = s.longs == 0 || s.longs < 0 ? va_arg(ap, int)
                         : s.longs == 2              ? va_arg(ap, long long)
                                                     : va_arg(ap, long);
            uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
            put_number(&o, &s, v < 0 ? "-" : "", u, 10);
            break;
        }
        case 'u':
        case 'x': {
            uint64_t v = s.longs <= 0   ? va_arg(ap, unsigned)
                         : s.longs == 2 ? va_arg(ap, unsigned long long)
                                        : va_arg(ap, unsigned long);
            put_number(&o, &s, "", v, *f == 'x' ? 16 : 10);
            break;
        }
        case 'p':
            put_number(&o, &s, "0x", (uint64_t)(uintptr_t)va_arg(ap, void *), 16);
            break;
        case 'f':
            put_double(&o, &s, va_arg(ap, double));
            break;
        default: /* unknown: its argument's size is too; say so by showing the rest */
            for (f = start; *f; f++) put(&o, *f);
            f--;
            break;
        }
    }
    va_end(ap);
    if (cap) text[o.n < cap ? o.n : cap - 1] = '\0';
    return o.n;
}

size_t
zi_fmt(char *text, size_t cap, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    size_t n = zi_vfmt(text, cap, fmt, args);
    va_end(args);
    return n;
}

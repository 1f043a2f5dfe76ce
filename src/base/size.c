/* size.c -- sizes as people write them. */
#include "base/size.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/fmt.h"

#define MAX_FRACTION 9 /* decimals that count; more are read and dropped */

typedef unsigned __int128 u128;

/* A decimal number times 10^-scale. */
typedef struct decimal {
    u128     value;
    unsigned scale;
} decimal;

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The digits at *text; ZICO_E_ARG when the whole part cannot be 64 bits. */
static zico_status
parse_decimal(const char **text, decimal *ret)
{
    const char *p = *text;
    decimal     d = {0, 0};
    bool        any = false;

    for (; is_digit(*p); p++, any = true) {
        d.value = d.value * 10 + (u128)(*p - '0');
        if (d.value > UINT64_MAX) return ZICO_E_ARG;
    }
    if (*p == '.') {
        for (p++; is_digit(*p); p++, any = true) {
            if (d.scale >= MAX_FRACTION) continue;
            d.value = d.value * 10 + (u128)(*p - '0');
            d.scale++;
        }
    }
    if (!any) return ZICO_E_FORMAT;
    *text = p;
    *ret = d;
    return ZICO_OK;
}

/* "", "b", "k", "ki", "kib", "kb", ... to bytes; 0: no such unit */
static uint64_t
parse_unit(const char *p)
{
    static const char letters[] = "kmgtpe";
    const char       *l = *p ? strchr(letters, lower(*p)) : NULL;
    uint64_t          unit = 1, step = ZI_KIB;

    if (!l) return *p == '\0' || (lower(p[0]) == 'b' && !p[1]) ? 1 : 0;
    p++;
    if (lower(*p) == 'i') {
        p++;
        if (lower(*p) == 'b') p++;
    } else if (lower(*p) == 'b') {
        p++;
        step = 1000;
    }
    if (*p) return 0;
    for (const char *c = letters; c <= l; c++) unit *= step;
    return unit;
}

zico_status
zi_size_parse(const char *text, uint64_t base_bytes, uint64_t *ret_bytes)
{
    decimal     d = {0, 0};
    const char *p = text;
    uint64_t    unit;

    zi_assert(text && ret_bytes);
    zico_status st = parse_decimal(&p, &d);
    if (st < 0) return st;
    while (*p == ' ') p++;

    u128 divisor = 1;
    for (unsigned i = 0; i < d.scale; i++) divisor *= 10;
    if (p[0] == '%' && !p[1]) {
        if (base_bytes == 0 || d.value > 100 * divisor) return ZICO_E_ARG;
        unit = base_bytes;
        divisor *= 100;
    } else {
        unit = parse_unit(p);
        if (unit == 0) return ZICO_E_FORMAT;
    }
    /* value < 2^64 * 10^9 < 2^94, so only a large unit can overflow 128 bits */
    u128 product;
    if (__builtin_mul_overflow(d.value, (u128)unit, &product)) return ZICO_E_ARG;
    if (product / divisor > UINT64_MAX) return ZICO_E_ARG;
    *ret_bytes = (uint64_t)(product / divisor);
    return ZICO_OK;
}

const char *
zi_size_format(uint64_t bytes, char text[ZI_SIZE_TEXT])
{
    static const char *const name[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned                 i = 0;
    uint64_t                 unit = 1;

    while (i < 6 && bytes / unit >= 1024) unit *= 1024, i++;
    uint64_t tenths = (uint64_t)(((u128)bytes * 10 + unit / 2) / unit);
    if (tenths >= 10240 && i < 6) { /* 1023.96 KiB reads better as 1.0 MiB */
        tenths = 10;
        unit *= 1024;
        i++;
    }
    if (bytes % unit == 0)
        zi_fmt(text, ZI_SIZE_TEXT, "%llu %s", (unsigned long long)(bytes / unit),
               name[i]);
    else
        zi_fmt(text, ZI_SIZE_TEXT, "%llu.%llu %s", (unsigned long long)(tenths / 10),
               (unsigned long long)(tenths % 10), name[i]);
    return text;
}

/* units.c -- numbers as people read them. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "base/size.h"

/* As many decimals as three or four digits need; no exponent where it can be helped. */
static void
format_plain(double v, int decimals, char text[ZI_UNIT_CHARS], const char *suffix)
{
    double a = fabs(v);

    if (a >= 1e15 || (a > 0 && a < 1e-4 && decimals < 0))
        snprintf(text, ZI_UNIT_CHARS, "%.3g%s", v, suffix);
    else if (decimals >= 0)
        snprintf(text, ZI_UNIT_CHARS, "%.*f%s", decimals > 9 ? 9 : decimals, v, suffix);
    else if (v == floor(v) || a >= 1000)
        snprintf(text, ZI_UNIT_CHARS, "%.0f%s", v, suffix);
    else
        snprintf(text, ZI_UNIT_CHARS, "%.4g%s", v, suffix);
}

static void
format_scaled(double v, const char *unit, char text[ZI_UNIT_CHARS])
{
    int decimals = v == floor(v) || v >= 100 ? 0 : v >= 10 ? 1 : 2;

    snprintf(text, ZI_UNIT_CHARS, "%.*f %s", decimals, v, unit);
}

/* "1 h 12 min"; the small part is left out when it is 0. */
static void
format_pair(uint64_t big, const char *big_unit, uint64_t small, const char *small_unit,
            char text[ZI_UNIT_CHARS])
{
    if (small)
        snprintf(text, ZI_UNIT_CHARS, "%llu %s %llu %s", (unsigned long long)big,
                 big_unit, (unsigned long long)small, small_unit);
    else
        snprintf(text, ZI_UNIT_CHARS, "%llu %s", (unsigned long long)big, big_unit);
}

static void
format_ns(double v, char text[ZI_UNIT_CHARS])
{
    double   s = v / 1e9;
    uint64_t whole = s < 1e15 ? (uint64_t)(s + 0.5) : (uint64_t)1e15;

    if (v < 0) {
        text[0] = '-';
        char rest[ZI_UNIT_CHARS];
        format_ns(-v, rest);
        snprintf(text + 1, ZI_UNIT_CHARS - 1, "%.30s", rest);
    } else if (v == 0) {
        snprintf(text, ZI_UNIT_CHARS, "0 s");
    } else if (v < 999.5) {
        format_scaled(v, "ns", text);
    } else if (v < 999.5e3) {
        format_scaled(v / 1e3, "us", text);
    } else if (v < 999.5e6) {
        format_scaled(v / 1e6, "ms", text);
    } else if (whole < 60) {
        format_scaled(s, "s", text);
    } else if (whole < 3600) {
        format_pair(whole / 60, "min", whole % 60, "s", text);
    } else if (whole < 86400) {
        format_pair(whole / 3600, "h", whole % 3600 / 60, "min", text);
    } else {
        format_pair(whole / 86400, "d", whole % 86400 / 3600, "h", text);
    }
}

const char *
zi_unit_format(zi_unit unit, double value, int decimals, char text[ZI_UNIT_CHARS])
{
    if (!isfinite(value)) {
        snprintf(text, ZI_UNIT_CHARS, "-");
        return text;
    }
    switch (unit) {
    case ZI_UNIT_BYTES: {
        char     size[ZI_SIZE_TEXT];
        double   a = fabs(value);
        uint64_t bytes = a < 1.8e19 ? (uint64_t)a : UINT64_MAX;
        snprintf(text, ZI_UNIT_CHARS, "%s%s", value < 0 ? "-" : "",
                 zi_size_format(bytes, size));
        break;
    }
    case ZI_UNIT_NS:
        format_ns(value, text);
        break;
    case ZI_UNIT_RATIO:
        format_plain(value, decimals < 0 ? 2 : decimals, text, "x");
        break;
    case ZI_UNIT_PERCENT:
        format_plain(value * 100, decimals < 0 ? (fabs(value) < 0.0995) : decimals, text,
                     " %");
        break;
    case ZI_UNIT_RATE:
        if (decimals < 0 && fabs(value) >= 100) value = round(value);
        format_plain(value, decimals, text, "/s");
        break;
    case ZI_UNIT_TEXT:
    case ZI_UNIT_NUMBER:
        format_plain(value, decimals, text, "");
        break;
    }
    return text;
}

size_t
zi_text_columns(const char *text)
{
    size_t n = 0;

    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

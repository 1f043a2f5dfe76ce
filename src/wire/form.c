/* form.c -- is it text? */
#include "wire/form.h"

/* Length of the sequence that `first` starts, its payload bits, and the least code point
 * that needs that length; 0 for a byte that starts nothing. */
static size_t
lead(unsigned char first, uint32_t *ret_bits, uint32_t *ret_least)
{
    if (first < 0x80) return *ret_bits = first, *ret_least = 1, 1;
    if ((first & 0xe0) == 0xc0) return *ret_bits = first & 0x1fu, *ret_least = 0x80, 2;
    if ((first & 0xf0) == 0xe0) return *ret_bits = first & 0x0fu, *ret_least = 0x800, 3;
    if ((first & 0xf8) == 0xf0) return *ret_bits = first & 0x07u, *ret_least = 0x10000, 4;
    return 0;
}

bool
zi_form_utf8(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;

    for (size_t i = 0; i < len;) {
        uint32_t code, least;
        size_t   n = lead(p[i], &code, &least);
        if (n == 0 || n > len - i) return false;
        for (size_t k = 1; k < n; k++) {
            if ((p[i + k] & 0xc0) != 0x80) return false;
            code = code << 6 | (p[i + k] & 0x3fu);
        }
        if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
        i += n;
    }
    return true;
}

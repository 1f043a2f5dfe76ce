/* buf.c -- bounds-checked little-endian bytes. */
#include "base/buf.h"

#include <string.h>

#include "base/check.h"

const uint8_t *
zi_read_bytes(zi_reader *r, size_t n)
{
    static const uint8_t nothing[1];

    zi_assert(r->pos <= r->n);
    if (r->bad || n > r->n - r->pos) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->at ? r->at + r->pos : nothing;
    r->pos += n;
    return p;
}

/* n <= 8 bytes as a number; 0 when they are not there */
static uint64_t
read_le(zi_reader *r, size_t n)
{
    const uint8_t *p = zi_read_bytes(r, n);
    uint64_t       v = 0;

    for (size_t i = 0; p && i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t
zi_read_u8(zi_reader *r)
{
    return (uint8_t)read_le(r, 1);
}

uint16_t
zi_read_u16(zi_reader *r)
{
    return (uint16_t)read_le(r, 2);
}

uint32_t
zi_read_u32(zi_reader *r)
{
    return (uint32_t)read_le(r, 4);
}

uint64_t
zi_read_u64(zi_reader *r)
{
    return read_le(r, 8);
}

float
zi_read_f32(zi_reader *r)
{
    uint32_t bits = zi_read_u32(r);
    float    v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

double
zi_read_f64(zi_reader *r)
{
    uint64_t bits = zi_read_u64(r);
    double   v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

void
zi_write_bytes(zi_writer *w, const void *at, size_t n)
{
    zi_assert(w->n <= w->cap);
    if (w->bad || n > w->cap - w->n) {
        w->bad = true;
        return;
    }
    if (n) memcpy(w->at + w->n, at, n);
    w->n += n;
}

static void
write_le(zi_writer *w, uint64_t v, size_t n)
{
    uint8_t b[8];

    for (size_t i = 0; i < n; i++) b[i] = (uint8_t)(v >> (8 * i));
    zi_write_bytes(w, b, n);
}

void
zi_write_u8(zi_writer *w, uint8_t v)
{
    write_le(w, v, 1);
}

void
zi_write_u16(zi_writer *w, uint16_t v)
{
    write_le(w, v, 2);
}

void
zi_write_u32(zi_writer *w, uint32_t v)
{
    write_le(w, v, 4);
}

void
zi_write_u64(zi_writer *w, uint64_t v)
{
    write_le(w, v, 8);
}

void
zi_write_f32(zi_writer *w, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    write_le(w, bits, 4);
}

void
zi_write_f64(zi_writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    write_le(w, bits, 8);
}

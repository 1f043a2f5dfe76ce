/* base/buf.h -- bytes in and out of a fixed buffer, little endian, never past its end.
 *
 * Failure sticks: a read past the end gives zeroes and sets `bad`, a write past
 * the end writes nothing and sets `bad`.  Look at `bad` once, before trusting
 * anything that was read.
 */
#ifndef ZI_BASE_BUF_H
#define ZI_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zi_reader {
    const uint8_t *at;
    size_t         n;   /* bytes in all */
    size_t         pos; /* bytes read */
    bool           bad; /* something was read that was not there */
} zi_reader;

typedef struct zi_writer {
    uint8_t *at;
    size_t   cap;
    size_t   n;   /* bytes written */
    bool     bad; /* something did not fit */
} zi_writer;

static inline zi_reader
zi_reader_of(const void *at, size_t n)
{
    return (zi_reader){.at = (const uint8_t *)at, .n = n};
}

static inline zi_writer
zi_writer_of(void *at, size_t cap)
{
    return (zi_writer){.at = (uint8_t *)at, .cap = cap};
}

uint8_t  zi_read_u8(zi_reader *r);
uint16_t zi_read_u16(zi_reader *r);
uint32_t zi_read_u32(zi_reader *r);
uint64_t zi_read_u64(zi_reader *r);
float    zi_read_f32(zi_reader *r);
double   zi_read_f64(zi_reader *r);

/* The next n bytes, in place; NULL (and bad) if they are not there.  For n = 0
 * a pointer that is not NULL unless bad. */
const uint8_t *zi_read_bytes(zi_reader *r, size_t n);

static inline size_t
zi_reader_left(const zi_reader *r)
{
    return r->bad ? 0 : r->n - r->pos;
}

void zi_write_u8(zi_writer *w, uint8_t v);
void zi_write_u16(zi_writer *w, uint16_t v);
void zi_write_u32(zi_writer *w, uint32_t v);
void zi_write_u64(zi_writer *w, uint64_t v);
void zi_write_f32(zi_writer *w, float v);
void zi_write_f64(zi_writer *w, double v);
void zi_write_bytes(zi_writer *w, const void *at, size_t n);

#endif /* ZI_BASE_BUF_H */

/* buf_test.c -- bytes go in and out unchanged, and never past the end. */
#include "base/buf.h"
#include "test.h"

#include <math.h>

/* Every width comes back as it was written; the order is little endian. */
static void
every_width_round_trips(void **state)
{
    uint8_t   b[64];
    zi_writer w = zi_writer_of(b, sizeof b);

    (void)state;
    zi_write_u8(&w, 0x12);
    zi_write_u16(&w, 0x3456);
    zi_write_u32(&w, 0x789abcde);
    zi_write_u64(&w, 0x0123456789abcdefu);
    zi_write_f32(&w, -1.5f);
    zi_write_f64(&w, M_PI);
    zi_write_bytes(&w, "abc", 3);
    assert_false(w.bad);
    assert_int_equal(30, w.n);
    assert_memory_equal("\x12\x56\x34\xde\xbc\x9a\x78\xef\xcd", b, 9);

    zi_reader r = zi_reader_of(b, w.n);
    assert_int_equal(0x12, zi_read_u8(&r));
    assert_int_equal(0x3456, zi_read_u16(&r));
    assert_int_equal(0x789abcde, zi_read_u32(&r));
    assert_true(zi_read_u64(&r) == 0x0123456789abcdefu);
    assert_true(zi_read_f32(&r) == -1.5f);
    assert_true(zi_read_f64(&r) == M_PI);
    assert_memory_equal("abc", zi_read_bytes(&r, 3), 3);
    assert_int_equal(0, zi_reader_left(&r));
    assert_false(r.bad);
}

/* A read past the end gives zero, marks the reader, and so do all that follow. */
static void
reading_too_far_sticks(void **state)
{
    uint8_t *b = malloc(5); /* exact, so that a sanitizer sees one byte too many */

    (void)state;
    memset(b, 0xff, 5);
    for (size_t n = 0; n <= 5; n++) {
        zi_reader r = zi_reader_of(b, n);
        uint64_t  v = zi_read_u32(&r);
        assert_int_equal(n < 4, r.bad);
        assert_true(v == (n < 4 ? 0 : UINT32_MAX));
        if (r.bad) {
            assert_int_equal(0, zi_read_u8(&r));
            assert_null(zi_read_bytes(&r, 0));
            assert_int_equal(0, zi_reader_left(&r));
        }
    }
    zi_reader r = zi_reader_of(b, 5);
    assert_null(zi_read_bytes(&r, SIZE_MAX));
    assert_true(r.bad);
    free(b);
}

/* An empty reader over no memory at all is a reader too. */
static void
nothing_can_be_read_from_nothing(void **state)
{
    zi_reader r = zi_reader_of(NULL, 0);

    (void)state;
    assert_non_null(zi_read_bytes(&r, 0));
    assert_false(r.bad);
    assert_int_equal(0, zi_read_u8(&r));
    assert_true(r.bad);
}

/* What does not fit is not written, in part or whole, and neither is what follows. */
static void
writing_too_far_sticks(void **state)
{
    uint8_t   b[6] = {9, 9, 9, 9, 9, 9};
    zi_writer w = zi_writer_of(b, 5);

    (void)state;
    zi_write_u32(&w, 0);
    zi_write_u16(&w, 0);
    assert_true(w.bad);
    assert_int_equal(4, w.n);
    zi_write_u8(&w, 0);
    assert_int_equal(4, w.n);
    assert_int_equal(9, b[4]);
    assert_int_equal(9, b[5]);
    zi_write_bytes(&w, b, SIZE_MAX);
    assert_int_equal(4, w.n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_width_round_trips),
        cmocka_unit_test(reading_too_far_sticks),
        cmocka_unit_test(nothing_can_be_read_from_nothing),
        cmocka_unit_test(writing_too_far_sticks),
    };
    return t_main(tests);
}

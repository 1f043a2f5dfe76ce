/* wire_test.c -- what is encoded comes back, and nothing else gets in. */
#include "wire/wire.h"

#include "support/wire_random.h"
#include "test.h"

static unsigned char packet[ZI_WIRE_MAX], again[ZI_WIRE_MAX], cut[ZI_WIRE_MAX + 1];
static zi_msg        msg, back;
static t_field       field[T_FIELDS_MAX];

static uint64_t
get(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static void
set(unsigned char *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static size_t
encode_random(size_t i, size_t *ret_n_fields)
{
    size_t len;

    *ret_n_fields = t_random_message(t_message(i), &msg, field);
    expect_ok(zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    assert_in_range(len, ZI_WIRE_HEADER, ZI_WIRE_MAX);
    return len;
}

/* A random message of each type decodes to one that encodes to the same bytes. */
static void
round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_messages(); i++) {
        for (unsigned k = 0; k < t_rounds(200, 20000); k++) {
            size_t n, len, len2;
            len = encode_random(i, &n);
            expect_ok(zi_wire_decode(packet, len, 1, &back, NULL));
            assert_int_equal(msg.type, back.type);
            assert_int_equal(msg.seq, back.seq);
            expect_ok(zi_wire_encode(&back, 1, again, sizeof again, &len2));
            assert_int_equal(len, len2);
            assert_memory_equal(packet, again, len);
        }
    }
}

/* A number just outside its range is refused, by decoder and encoder, and named. */
static void
refuses_number(size_t len, const t_field *f, size_t n_bytes, uint64_t bad)
{
    const char *why = NULL;
    char        want[80];

    memcpy(again, packet, len);
    set(again + f->at, bad, n_bytes);
    expect_status(ZICO_E_PROTO, zi_wire_decode(again, len, 1, &back, &why));
    snprintf(want, sizeof want, "%s.%s: ", zi_msg_name(msg.type), f->name);
    assert_non_null(strstr(why, want));
}

static void
refuses_numbers(size_t len, const t_field *f)
{
    static const size_t   bytes[] = {[T_U8] = 1, [T_U32] = 4, [T_U64] = 8, [T_I64] = 8};
    static const uint64_t top[] = {[T_U8] = UINT8_MAX,
                                   [T_U32] = UINT32_MAX,
                                   [T_U64] = UINT64_MAX,
                                   [T_I64] = INT64_MAX};
    uint64_t              bottom = f->kind == T_I64 ? (uint64_t)INT64_MIN : 0;

    if (f->least != bottom) refuses_number(len, f, bytes[f->kind], f->least - 1);
    if (f->most != top[f->kind]) refuses_number(len, f, bytes[f->kind], f->most + 1);
}

/* Every field of every message: out of range, too many, not text, empty run. */
static void
refuses_each_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_messages(); i++) {
        for (unsigned k = 0; k < 20; k++) {
            size_t n, len = encode_random(i, &n);
            for (size_t j = 0; j < n; j++) {
                const t_field *f = &field[j];
                if (f->kind < T_STR) {
                    refuses_numbers(len, f);
                    continue;
                }
                refuses_number(len, f, 2, f->most + 1);
                if (get(packet + f->at, 2) == 0) continue;
                if (f->kind == T_STR)
                    refuses_number(len, f, 3, get(packet + f->at, 2) | 0xff0000);
                if (f->kind == T_STR) refuses_number(len, f, 3, get(packet + f->at, 2));
                if (f->kind == T_RUNS) {
                    t_field run = *f;
                    run.at = f->at + 2 + 4;
                    refuses_number(len, &run, 4, 0);
                    run.at = f->at + 2;
                    refuses_number(len, &run, 8, 0xffffffffffffffff);
                }
            }
        }
    }
}

/* A packet cut at any length is refused, whether or not its header says so; so is one
 * with a byte too many. */
static void
refuses_any_other_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < t_n_messages(); i++) {
        size_t n, len = encode_random(i, &n);
        for (size_t shorter = 0; shorter<len; shorter += len> 4096 ? 7 : 1) {
            memcpy(cut, packet, shorter);
            expect_status(ZICO_E_PROTO, zi_wire_decode(cut, shorter, 1, &back, NULL));
            if (shorter < 12) continue;
            set(cut + 8, shorter, 4);
            expect_status(ZICO_E_PROTO, zi_wire_decode(cut, shorter, 1, &back, NULL));
        }
        memcpy(cut, packet, len);
        cut[len] = 0;
        expect_status(ZICO_E_PROTO, zi_wire_decode(cut, len + 1, 1, &back, NULL));
        set(cut + 8, len + 1, 4);
        expect_status(ZICO_E_PROTO, zi_wire_decode(cut, len + 1, 1, &back, NULL));
    }
}

/* Random bytes behind a good header never do more than be refused or accepted whole. */
static void
survives_noise(void **state)
{
    unsigned n_accepted = 0;

    (void)state;
    for (unsigned k = 0; k < t_rounds(20000, 2000000); k++) {
        size_t n, len = encode_random(t_rand_below(t_n_messages()), &n), len2;
        for (unsigned flips = 1 + (unsigned)t_rand_below(4); flips > 0; flips--)
            packet[t_rand_below(len)] ^= (unsigned char)(1u << t_rand_below(8));
        if (zi_wire_decode(packet, len, 0, &back, NULL) < 0) continue;
        n_accepted++;
        expect_ok(zi_wire_encode(&back, 1, again, sizeof again, &len2));
        assert_int_equal(len, len2);
    }
    assert_true(n_accepted > 0); /* a flip inside a free number is still a message */
}

/* Magic, message number, version: each is checked; the opening messages may come in a
 * version that we do not speak. */
static void
header_is_checked(void **state)
{
    size_t len;

    (void)state;
    msg = (zi_msg){.type = ZI_MSG_UNCHARGE, .uncharge = {.size_bytes = 1}};
    expect_ok(zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    expect_ok(zi_wire_decode(packet, len, 0, &back, NULL));
    set(packet + 4, 2, 2);
    expect_status(ZICO_E_VERSION, zi_wire_decode(packet, len, 0, &back, NULL));
    expect_status(ZICO_E_VERSION, zi_wire_decode(packet, len, 1, &back, NULL));
    set(packet + 4, 1, 2);
    set(packet + 6, 999, 2);
    expect_status(ZICO_E_PROTO, zi_wire_decode(packet, len, 1, &back, NULL));
    set(packet + 6, ZI_MSG_UNCHARGE, 2);
    packet[0] ^= 1;
    expect_status(ZICO_E_PROTO, zi_wire_decode(packet, len, 1, &back, NULL));

    msg = (zi_msg){.type = ZI_MSG_REFUSE, .refuse = {.status = ZICO_E_VERSION}};
    expect_ok(zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    set(packet + 4, 7, 2);
    expect_ok(zi_wire_decode(packet, len, 0, &back, NULL));
}

/* The encoder refuses what the decoder would, and a buffer that is too small. */
static void
encoder_refuses(void **state)
{
    size_t len = 77;

    (void)state;
    msg = (zi_msg){.type = ZI_MSG_LEASE, .lease = {.n_regions = 0}};
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    msg.lease = (zi_msg_lease){.n_regions = 1, .cls = 4};
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    msg.lease.cls = 3;
    expect_status(ZICO_E_LIMIT, zi_wire_encode(&msg, 1, packet, 20, &len));
    expect_status(ZICO_E_VERSION, zi_wire_encode(&msg, 2, packet, sizeof packet, &len));
    msg = (zi_msg){.type = ZI_MSG_NOTE};
    memset(msg.note.text, 'x', sizeof msg.note.text); /* no end */
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    strcpy(msg.note.text, "\xc0\x80"); /* an overlong 0 */
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    msg = (zi_msg){.type = ZI_MSG_RETURN, .give_back = {.n_runs = 1}};
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    msg.type = (zi_msg_type)999;
    expect_status(ZICO_E_ARG, zi_wire_encode(&msg, 1, packet, sizeof packet, &len));
    assert_int_equal(77, len);
}

/* The highest version that both sides know, or none. */
static void
versions_agree(void **state)
{
    uint32_t v = 0;

    (void)state;
    expect_ok(zi_wire_agree(1, 1, &v));
    assert_int_equal(1, v);
    expect_ok(zi_wire_agree(1, 9, &v));
    assert_int_equal(ZI_WIRE_VERSION_MAX, v);
    expect_status(ZICO_E_VERSION, zi_wire_agree(ZI_WIRE_VERSION_MAX + 1, 9, &v));
    expect_status(ZICO_E_VERSION, zi_wire_agree(3, 1, &v));
}

/* Each message has a name, one sender, and a line that fits any buffer; no secret in it. */
static void
printed_for_people(void **state)
{
    char line[300], tiny[8];

    (void)state;
    for (size_t i = 0; i < t_n_messages(); i++) {
        zi_msg_type type = t_message(i);
        t_random_message(type, &msg, field);
        size_t need = zi_msg_print(&msg, line, sizeof line);
        assert_int_equal(need, zi_msg_print(&msg, tiny, sizeof tiny));
        assert_int_equal(need, zi_msg_print(&msg, NULL, 0));
        assert_true(strlen(tiny) < sizeof tiny);
        assert_int_equal(0, strncmp(line, zi_msg_name(type), strlen(zi_msg_name(type))));
        assert_int_equal(1, zi_msg_may_come_from(type, ZI_FROM_JOB) +
                                zi_msg_may_come_from(type, ZI_FROM_BROKER) +
                                zi_msg_may_come_from(type, ZI_FROM_TOOL));
    }
    msg = (zi_msg){.type = ZI_MSG_REJOIN, .rejoin = {.token = 424242}};
    zi_msg_print(&msg, line, sizeof line);
    assert_null(strstr(line, "424242"));
    assert_string_equal("?", zi_msg_name((zi_msg_type)999));
    assert_false(zi_msg_may_come_from((zi_msg_type)999, ZI_FROM_JOB));
}

/* Every reason has a name and a text. */
static void
reasons_have_words(void **state)
{
    (void)state;
    for (int r = 0; r <= ZI_REASON_MAX; r++) {
        assert_string_not_equal("?", zi_reason_name((zi_reason)r));
        assert_string_not_equal("unknown reason", zi_reason_text((zi_reason)r));
    }
    assert_string_equal("memory", zi_reason_name(ZI_REASON_MEMORY));
    assert_string_equal("?", zi_reason_name((zi_reason)99));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(refuses_each_field),
        cmocka_unit_test(refuses_any_other_length),
        cmocka_unit_test(survives_noise),
        cmocka_unit_test(header_is_checked),
        cmocka_unit_test(encoder_refuses),
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(printed_for_people),
        cmocka_unit_test(reasons_have_words),
    };
    return t_main(tests);
}

/* wire_random.c -- random valid messages. */
#include "support/wire_random.h"

#include "test.h"

/* Often the ends of the range, where mistakes live. */
static uint64_t
between(uint64_t least, uint64_t most)
{
    uint64_t span = most - least;

    switch (t_rand_below(4)) {
    case 0:
        return least;
    case 1:
        return most;
    default:
        return span == UINT64_MAX ? t_rand() : least + t_rand_below(span + 1);
    }
}

static int64_t
between_signed(int64_t least, int64_t most)
{
    return (int64_t)((uint64_t)least + between(0, (uint64_t)most - (uint64_t)least));
}

static size_t
random_text(char *text, size_t max)
{
    static const char *const piece[] = {"a", "Z", " ", "ü", "→", "𝛻", "\"", "\\", "\n"};
    size_t                   want = (size_t)between(0, max), len = 0;

    for (;;) {
        const char *p = piece[t_rand_below(sizeof piece / sizeof piece[0])];
        if (len + strlen(p) > want) break;
        memcpy(text + len, p, strlen(p));
        len += strlen(p);
    }
    text[len] = '\0';
    return 2 + len;
}

static uint32_t
random_runs(zi_run *run, uint32_t max)
{
    uint32_t n = (uint32_t)between(0, max);

    for (uint32_t i = 0; i < n; i++) {
        run[i].first = (uint32_t)between(0, UINT32_MAX - 1);
        run[i].n = (uint32_t)between(1, UINT32_MAX - run[i].first);
    }
    return n;
}

static uint32_t
random_points(zi_wire_point *point, uint32_t max)
{
    uint32_t n = (uint32_t)between(0, max);

    for (uint32_t i = 0; i < n; i++) {
        point[i].at_ns = t_rand();
        point[i].delta = (int64_t)t_rand();
    }
    return n;
}

#define NOTE(k, field_name, lo, hi)                                                      \
    f[n++] = (t_field)                                                                   \
    {                                                                                    \
        .kind = (k), .name = #field_name, .at = at, .least = (lo), .most = (hi)          \
    }
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    static size_t fill_##lower(zi_msg_##lower *m, t_field *f)                            \
    {                                                                                    \
        size_t n = 0, at = ZI_WIRE_HEADER;                                               \
        (void)m, (void)f, (void)at;
#define U8(name, least, most, text)                                                      \
    NOTE(T_U8, name, least, most), m->name = (uint8_t)between(least, most), at += 1;
#define U32(name, least, most, text)                                                     \
    NOTE(T_U32, name, least, most), m->name = (uint32_t)between(least, most), at += 4;
#define U64(name, least, most, text)                                                     \
    NOTE(T_U64, name, least, most), m->name = between(least, most), at += 8;
#define I64(name, least, most, text)                                                     \
    NOTE(T_I64, name, (uint64_t)(int64_t)(least), (uint64_t)(int64_t)(most)),            \
        m->name = between_signed(least, most), at += 8;
#define STR(name, max, text) NOTE(T_STR, name, 0, max), at += random_text(m->name, max);
#define RUNS(name, max, text)                                                            \
    NOTE(T_RUNS, name, 0, max), m->n_##name = random_runs(m->name, max),                 \
                                at += 2 + 8 * (size_t)m->n_##name;
#define POINTS(name, max, text)                                                          \
    NOTE(T_POINTS, name, 0, max), m->n_##name = random_points(m->name, max),             \
                                  at += 2 + 16 * (size_t)m->n_##name;
#define END(lower)                                                                       \
    return n;                                                                            \
    }
#include "wire/messages.def"

static const zi_msg_type every[] = {
#define MESSAGE(lower, UPPER, number, from, text) ZI_MSG_##UPPER,
#include "wire/no_fields.def"
};

size_t
t_n_messages(void)
{
    return sizeof every / sizeof every[0];
}

zi_msg_type
t_message(size_t i)
{
    return every[i];
}

size_t
t_random_message(zi_msg_type type, zi_msg *ret_msg, t_field field[T_FIELDS_MAX])
{
    ret_msg->type = type;
    ret_msg->seq = (uint32_t)t_rand();
    switch (type) {
#define MESSAGE(lower, UPPER, number, from, text)                                        \
    case ZI_MSG_##UPPER:                                                                 \
        return fill_##lower(&ret_msg->lower, field);
#include "wire/no_fields.def"
    }
    fail_msg("no message %d", (int)type);
    return 0;
}

/* npy.c -- reads the Python dictionary at the begin of a .npy file. */
#include "train/npy.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"

static const struct {
    const char *code; /* after the byte order */
    uint32_t    bytes;
} types[ZI_NPY_N_TYPES] = {{"f4", 4}, {"f8", 8}, {"u1", 1}, {"i1", 1},
                           {"i2", 2}, {"i4", 4}, {"i8", 8}};

typedef struct scanner {
    const char    *begin, *at, *end;
    zi_train_diag *diag;
} scanner;

static zico_status
bad(const scanner *s, const char *what)
{
    return zi_train_fail(s->diag, ZICO_E_FORMAT, "npy header, character %td: %s",
                         s->at - s->begin, what);
}

static void
skip_blanks(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) s->at++;
}

static bool
take(scanner *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

/* 'text' or "text"; no escapes, none are needed here */
static zico_status
take_string(scanner *s, char *text, size_t cap)
{
    skip_blanks(s);
    char quote = s->at < s->end ? *s->at : 0;
    if (quote != '\'' && quote != '"') return bad(s, "expected a string");
    const char *from = ++s->at;
    while (s->at < s->end && *s->at != quote && *s->at != '\\') s->at++;
    if (s->at == s->end || *s->at != quote) return bad(s, "string has no end");
    if ((size_t)(s->at - from) >= cap) return bad(s, "string is too long");
    memcpy(text, from, (size_t)(s->at - from));
    text[s->at - from] = '\0';
    s->at++;
    return ZICO_OK;
}

static zico_status
take_descr(scanner *s, zi_npy_header *h)
{
    char        text[16];
    zico_status st = take_string(s, text, sizeof text);

    if (st < 0) return st;
    for (int t = 0; t < ZI_NPY_N_TYPES; t++) {
        bool order = text[0] == '<' || (text[0] == '|' && types[t].bytes == 1);
        if (!order || strcmp(text + 1, types[t].code) != 0) continue;
        h->type = (zi_npy_type)t;
        h->elem_bytes = types[t].bytes;
        return ZICO_OK;
    }
    return zi_train_fail(s->diag, ZICO_E_UNSUPPORTED,
                         "npy type '%s' is not supported: float32, float64, uint8 and "
                         "int8 to int64, little endian, are",
                         text);
}

static zico_status
take_order(scanner *s, bool *ret_fortran)
{
    static const char *const word[2] = {"False", "True"};

    skip_blanks(s);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(word[i]);
        if ((size_t)(s->end - s->at) < n || memcmp(s->at, word[i], n) != 0) continue;
        s->at += n;
        *ret_fortran = i == 1;
        return ZICO_OK;
    }
    return bad(s, "fortran_order is neither True nor False");
}

static zico_status
take_shape(scanner *s, zi_npy_header *h)
{
    if (!take(s, '(')) return bad(s, "shape is no tuple");
    while (!take(s, ')')) {
        int64_t v = 0;
        bool    any = false;
        skip_blanks(s);
        for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++, any = true)
            if (__builtin_mul_overflow(v, 10, &v) ||
                __builtin_add_overflow(v, *s->at - '0', &v))
                return bad(s, "dimension is too large");
        if (!any) return bad(s, "expected a dimension");
        if (h->rank == ZI_NPY_MAX_RANK) return bad(s, "more than 8 dimensions");
        h->dims[h->rank++] = v;
        if (take(s, ',')) continue;
        if (take(s, ')')) break;
        return bad(s, "expected , or ) in the shape");
    }
    return ZICO_OK;
}

/* { 'descr': ..., 'fortran_order': ..., 'shape': (...), } in any order, each once */
static zico_status
take_dictionary(scanner *s, zi_npy_header *h, bool *ret_fortran)
{
    static const char *const key[3] = {"descr", "fortran_order", "shape"};
    unsigned                 seen = 0;

    if (!take(s, '{')) return bad(s, "expected {");
    while (!take(s, '}')) {
        char        name[16];
        int         k = 0;
        zico_status st = take_string(s, name, sizeof name);
        if (st < 0) return st;
        while (k < 3 && strcmp(name, key[k]) != 0) k++;
        if (k == 3) return bad(s, "unknown key");
        if (seen & 1u << k) return bad(s, "key stands twice");
        seen |= 1u << k;
        if (!take(s, ':')) return bad(s, "expected :");
        st = k == 0   ? take_descr(s, h)
             : k == 1 ? take_order(s, ret_fortran)
                      : take_shape(s, h);
        if (st < 0) return st;
        if (take(s, ',')) continue;
        if (take(s, '}')) break;
        return bad(s, "expected , or }");
    }
    skip_blanks(s);
    if (s->at != s->end) return bad(s, "something stands after the }");
    if (seen != 7) return bad(s, "descr, fortran_order or shape is missing");
    return ZICO_OK;
}

zico_status
zi_npy_header_bytes(const uint8_t *at, size_t n, zi_train_diag *diag, size_t *ret_bytes)
{
    zi_reader      r = zi_reader_of(at, n);
    const uint8_t *magic = zi_read_bytes(&r, 6);
    uint8_t        major = zi_read_u8(&r);
    (void)zi_read_u8(&r);
    uint64_t len = major == 1 ? zi_read_u16(&r) : zi_read_u32(&r);

    if (r.bad || memcmp(magic, "\x93NUMPY", 6) != 0)
        return zi_train_fail(diag, ZICO_E_FORMAT, "not a .npy file");
    if (major < 1 || major > 3)
        return zi_train_fail(diag, ZICO_E_UNSUPPORTED, "npy format version %u", major);
    if (len > ZI_NPY_MAX_HEADER)
        return zi_train_fail(diag, ZICO_E_FORMAT, "npy header of %llu bytes",
                             (unsigned long long)len);
    *ret_bytes = r.pos + (size_t)len;
    return ZICO_OK;
}

/* The product of the dims fits the file exactly. */
static zico_status
check_size(zi_npy_header *h, uint64_t file_bytes, zi_train_diag *diag)
{
    uint64_t bytes;

    h->n_elems = 1;
    for (uint32_t i = 0; i < h->rank; i++)
        if (__builtin_mul_overflow(h->n_elems, (uint64_t)h->dims[i], &h->n_elems))
            return zi_train_fail(diag, ZICO_E_FORMAT, "npy shape is too large");
    if (__builtin_mul_overflow(h->n_elems, h->elem_bytes, &bytes) ||
        __builtin_add_overflow(bytes, h->data_off, &bytes))
        return zi_train_fail(diag, ZICO_E_FORMAT, "npy shape is too large");
    if (bytes != file_bytes)
        return zi_train_fail(diag, ZICO_E_FORMAT,
                             "the npy header promises %llu bytes, the file has %llu",
                             (unsigned long long)bytes, (unsigned long long)file_bytes);
    return ZICO_OK;
}

zico_status
zi_npy_parse(const uint8_t *at, size_t n, uint64_t file_bytes, zi_train_diag *diag,
             zi_npy_header *ret_header)
{
    zi_npy_header h = {.rank = 0};
    bool          fortran = false;
    size_t        header;
    zico_status   st = zi_npy_header_bytes(at, n, diag, &header);

    if (st < 0) return st;
    if (n < header) return zi_train_fail(diag, ZICO_E_FORMAT, "npy header is cut off");
    size_t  prefix = at[6] == 1 ? 10 : 12;
    scanner s = {(const char *)at + prefix, (const char *)at + prefix,
                 (const char *)at + header, diag};
    st = take_dictionary(&s, &h, &fortran);
    if (st < 0) return st;
    if (fortran && h.rank > 1)
        return zi_train_fail(
            diag, ZICO_E_UNSUPPORTED,
            "npy array in Fortran order: save numpy.ascontiguousarray(a)");
    h.data_off = header;
    st = check_size(&h, file_bytes, diag);
    if (st < 0) return st;
    *ret_header = h;
    return ZICO_OK;
}

int64_t
zi_npy_i64(zi_npy_type type, const uint8_t *at)
{
    zi_reader r = zi_reader_of(at, 8);

    switch (type) {
    case ZI_NPY_U8:
        return *at;
    case ZI_NPY_I8:
        return (int8_t)*at;
    case ZI_NPY_I16:
        return (int16_t)zi_read_u16(&r);
    case ZI_NPY_I32:
        return (int32_t)zi_read_u32(&r);
    case ZI_NPY_I64:
        return (int64_t)zi_read_u64(&r);
    default:
        zi_assert(!"a type of whole numbers");
        return 0;
    }
}

double
zi_npy_f64(zi_npy_type type, const uint8_t *at)
{
    zi_reader r = zi_reader_of(at, 8);

    if (type == ZI_NPY_F32) return (double)zi_read_f32(&r);
    if (type == ZI_NPY_F64) return zi_read_f64(&r);
    return (double)zi_npy_i64(type, at);
}

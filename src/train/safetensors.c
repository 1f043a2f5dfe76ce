/* safetensors.c -- a strict reader and a plain writer of safetensors headers. */
#include "train/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/json.h"
#include "base/try.h"
#include "base/vec.h"

#define MAX_NAME 4096 /* bytes of a name, a key or a value */

static const struct {
    const char *text;
    uint64_t    bytes;
} types[ZI_ST_N_TYPES] = {
#define X(name, bytes) {#name, bytes},
    ZI_ST_TYPES(X)
#undef X
};

const char *
zi_st_type_text(zi_st_type t)
{
    return types[t].text;
}

uint64_t
zi_st_type_bytes(zi_st_type t)
{
    return types[t].bytes;
}

/* ---- scanning JSON ------------------------------------------------------------------- */

typedef struct scanner {
    const uint8_t *begin, *at, *end;
    zi_train_diag *diag;
    char           text[MAX_NAME]; /* the last string */
} scanner;

static zico_status
bad(const scanner *s, const char *what)
{
    return zi_train_fail(s->diag, ZICO_E_FORMAT, "safetensors header, byte %td: %s",
                         s->at - s->begin + 8, what);
}

static void
skip_blanks(scanner *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool
take(scanner *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != (uint8_t)c) return false;
    s->at++;
    return true;
}

/* Four hexadecimal digits; -1: they are not there. */
static int32_t
take_hex(scanner *s)
{
    int32_t v = 0;

    if (s->end - s->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *s->at++;
        int     d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Append a code point as UTF-8; there is always room for 4 bytes. */
static size_t
put_code(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((0xf00 >> n & 0xff) | code);
    return n;
}

/* What stands behind \u, with its second half if it is a surrogate; 0: wrong. */
static uint32_t
take_code(scanner *s)
{
    int32_t hi = take_hex(s);

    if (hi <= 0 || (hi >= 0xdc00 && hi <= 0xdfff)) return 0;
    if (hi < 0xd800 || hi > 0xdbff) return (uint32_t)hi;
    if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u') return 0;
    s->at += 2;
    int32_t lo = take_hex(s);
    if (lo < 0xdc00 || lo > 0xdfff) return 0;
    return 0x10000u + ((uint32_t)(hi - 0xd800) << 10 | (uint32_t)(lo - 0xdc00));
}

/* "..." into s->text; control characters and NUL are refused. */
static zico_status
take_string(scanner *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t            n = 0;

    if (!take(s, '"')) return bad(s, "expected a string");
    while (s->at < s->end && *s->at != '"') {
        uint8_t c = *s->at++;
        if (n + 5 > sizeof s->text) return bad(s, "string is too long");
        if (c < 0x20) return bad(s, "control character in a string");
        if (c != '\\') {
            s->text[n++] = (char)c;
            continue;
        }
        if (s->at == s->end) break;
        c = *s->at++;
        const char *hit = c ? strchr(from, c) : NULL;
        uint32_t    code = hit ? (uint32_t)to[hit - from] : c == 'u' ? take_code(s) : 0;
        if (code == 0) return bad(s, "bad escape in a string");
        n += put_code(s->text + n, code);
    }
    if (s->at == s->end) return bad(s, "string has no end");
    s->at++;
    s->text[n] = '\0';
    return ZICO_OK;
}

static zico_status
take_number(scanner *s, uint64_t *ret)
{
    uint64_t v = 0;
    bool     any = false;

    skip_blanks(s);
    const uint8_t *from = s->at;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++, any = true)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s->at - '0'), &v))
            return bad(s, "number is too large");
    if (!any || (*from == '0' && s->at - from > 1))
        return bad(s, "expected a whole number");
    *ret = v;
    return ZICO_OK;
}

/* [n, n, ...] with at most `cap` numbers */
static zico_status
take_numbers(scanner *s, uint64_t *ret, size_t cap, size_t *ret_n)
{
    *ret_n = 0;
    if (!take(s, '[')) return bad(s, "expected [");
    if (take(s, ']')) return ZICO_OK;
    do {
        if (*ret_n == cap) return bad(s, "too many numbers");
        ZI_TRY(take_number(s, &ret[(*ret_n)++]));
    } while (take(s, ','));
    return take(s, ']') ? ZICO_OK : bad(s, "expected , or ]");
}

/* ---- the header ------------------------------------------------------------------------ */

typedef struct builder {
    ZI_VEC(zi_st_tensor) tensors;
    ZI_VEC(zi_st_pair) meta;
    bool has_meta;
} builder;

static zico_status
take_type(scanner *s, zi_st_tensor *t)
{
    ZI_TRY(take_string(s));
    for (int i = 0; i < ZI_ST_N_TYPES; i++)
        if (strcmp(s->text, types[i].text) == 0) {
            t->type = (zi_st_type)i;
            return ZICO_OK;
        }
    return bad(s, "unknown dtype");
}

static zico_status
take_shape(scanner *s, zi_st_tensor *t)
{
    uint64_t dims[ZI_ST_MAX_RANK];
    size_t   n;

    ZI_TRY(take_numbers(s, dims, ZI_ST_MAX_RANK, &n));
    for (size_t i = 0; i < n; i++) {
        if (dims[i] > INT64_MAX) return bad(s, "dimension is too large");
        t->dims[i] = (int64_t)dims[i];
    }
    t->rank = (uint32_t)n;
    return ZICO_OK;
}

static zico_status
take_offsets(scanner *s, zi_st_tensor *t)
{
    uint64_t off[2];
    size_t   n;

    ZI_TRY(take_numbers(s, off, 2, &n));
    if (n != 2 || off[0] > off[1]) return bad(s, "data_offsets are not [begin, end]");
    t->begin = off[0], t->end = off[1];
    return ZICO_OK;
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...} in any order, each once */
static zico_status
take_tensor(scanner *s, zi_st_tensor *t)
{
    static const char *const key[3] = {"dtype", "shape", "data_offsets"};
    unsigned                 seen = 0;

    if (!take(s, '{')) return bad(s, "expected {");
    do {
        int k = 0;
        ZI_TRY(take_string(s));
        while (k < 3 && strcmp(s->text, key[k]) != 0) k++;
        if (k == 3 || (seen & 1u << k)) return bad(s, "unexpected key");
        seen |= 1u << k;
        if (!take(s, ':')) return bad(s, "expected :");
        ZI_TRY(k == 0 ? take_type(s, t) : k == 1 ? take_shape(s, t) : take_offsets(s, t));
    } while (take(s, ','));
    if (!take(s, '}')) return bad(s, "expected , or }");
    if (seen != 7) return bad(s, "dtype, shape or data_offsets is missing");

    uint64_t bytes = types[t->type].bytes;
    for (uint32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t->dims[i], &bytes))
            return bad(s, "tensor is too large");
    if (bytes != t->end - t->begin)
        return bad(s, "data_offsets do not fit dtype and shape");
    return ZICO_OK;
}

static zico_status
take_metadata(scanner *s, builder *b)
{
    if (b->has_meta) return bad(s, "__metadata__ stands twice");
    b->has_meta = true;
    if (!take(s, '{')) return bad(s, "expected {");
    if (take(s, '}')) return ZICO_OK;
    do {
        zi_st_pair p = {NULL, NULL};
        ZI_TRY(take_string(s));
        p.key = zi_strdup(s->text);
        zico_status st = !p.key          ? ZICO_E_NOMEM
                         : !take(s, ':') ? bad(s, "expected :")
                                         : take_string(s);
        if (st >= 0 && !(p.value = zi_strdup(s->text))) st = ZICO_E_NOMEM;
        if (st >= 0) st = zi_vec_push(&b->meta, p);
        if (st < 0) {
            zi_free(p.key), zi_free(p.value);
            return st;
        }
    } while (take(s, ','));
    return take(s, '}') ? ZICO_OK : bad(s, "expected , or }");
}

static zico_status
take_entry(scanner *s, builder *b)
{
    zi_st_tensor t = {.name = NULL};

    ZI_TRY(take_string(s));
    bool meta = strcmp(s->text, "__metadata__") == 0;
    if (!meta && !(t.name = zi_strdup(s->text))) return ZICO_E_NOMEM;
    zico_status st = !take(s, ':') ? bad(s, "expected :")
                     : meta        ? take_metadata(s, b)
                                   : take_tensor(s, &t);
    if (st >= 0 && !meta) st = zi_vec_push(&b->tensors, t);
    if (st < 0) zi_free(t.name);
    return st;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp((*(zi_st_tensor *const *)a)->name, (*(zi_st_tensor *const *)b)->name);
}

static int
by_place(const void *a, const void *b)
{
    const zi_st_tensor *x = *(zi_st_tensor *const *)a, *y = *(zi_st_tensor *const *)b;

    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* S1, S2 */
static zico_status
check_whole(const builder *b, uint64_t data_bytes, zi_train_diag *diag)
{
    size_t         n = b->tensors.n;
    uint64_t       end = 0;
    zi_st_tensor **sorted = zi_calloc(n + 1, sizeof *sorted);
    zico_status    st = ZICO_OK;

    if (!sorted) return ZICO_E_NOMEM;
    for (size_t i = 0; i < n; i++) sorted[i] = &b->tensors.at[i];
    if (n > 0) qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n && st >= 0; i++)
        if (strcmp(sorted[i]->name, sorted[i - 1]->name) == 0)
            st = zi_train_fail(diag, ZICO_E_FORMAT, "tensor '%.200s' stands twice",
                               sorted[i]->name);
    if (n > 0) qsort(sorted, n, sizeof *sorted, by_place);
    for (size_t i = 0; i < n && st >= 0; i++) {
        if (sorted[i]->begin != end)
            st = zi_train_fail(
                diag, ZICO_E_FORMAT,
                "tensor '%.200s' begins at %llu, the one before ends at %llu",
                sorted[i]->name, (unsigned long long)sorted[i]->begin,
                (unsigned long long)end);
        end = sorted[i]->end;
    }
    if (st >= 0 && end != data_bytes)
        st = zi_train_fail(diag, ZICO_E_FORMAT,
                           "the tensors take %llu bytes, the file has %llu for them",
                           (unsigned long long)end, (unsigned long long)data_bytes);
    zi_free(sorted);
    return st;
}

static zico_status
take_header(scanner *s, builder *b)
{
    if (s->at == s->end || *s->at != '{') return bad(s, "expected {");
    s->at++;
    if (!take(s, '}')) {
        do ZI_TRY(take_entry(s, b));
        while (take(s, ','));
        if (!take(s, '}')) return bad(s, "expected , or }");
    }
    skip_blanks(s);
    return s->at == s->end ? ZICO_OK : bad(s, "something stands after the }");
}

zico_status
zi_st_header_bytes(const uint8_t at[8], uint64_t file_bytes, zi_train_diag *diag,
                   size_t *ret_bytes)
{
    zi_reader r = zi_reader_of(at, 8);
    uint64_t  n = zi_read_u64(&r);

    if (file_bytes < 8 || n > file_bytes - 8)
        return zi_train_fail(
            diag, ZICO_E_FORMAT,
            "not a safetensors file, or cut off: a header of %llu bytes in "
            "a file of %llu",
            (unsigned long long)n, (unsigned long long)file_bytes);
    if (n > ZI_ST_MAX_HEADER)
        return zi_train_fail(diag, ZICO_E_FORMAT, "safetensors header of %llu bytes",
                             (unsigned long long)n);
    *ret_bytes = (size_t)n + 8;
    return ZICO_OK;
}

zico_status
zi_st_parse(const uint8_t *at, size_t n, uint64_t file_bytes, zi_train_diag *diag,
            zi_st_header **ret_header)
{
    builder b = {{0}, {0}, false};
    size_t  header = 0;

    if (n < 8) return zi_train_fail(diag, ZICO_E_FORMAT, "shorter than 8 bytes");
    ZI_TRY(zi_st_header_bytes(at, file_bytes, diag, &header));
    if (n < header) return zi_train_fail(diag, ZICO_E_FORMAT, "the header is cut off");
    scanner      *s = zi_calloc(1, sizeof *s);
    zi_st_header *h = zi_calloc(1, sizeof *h);
    if (!s || !h) {
        zi_free(s), zi_free(h);
        return ZICO_E_NOMEM;
    }
    s->begin = s->at = at + 8, s->end = at + header, s->diag = diag;
    zico_status st = take_header(s, &b);
    if (st >= 0) st = check_whole(&b, file_bytes - header, diag);
    zi_free(s);
    *h = (zi_st_header){b.tensors.at, b.tensors.n, b.meta.at, b.meta.n, header};
    if (st < 0) {
        zi_st_free(h);
        return st;
    }
    *ret_header = h;
    return ZICO_OK;
}

void
zi_st_free(zi_st_header *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->n_tensors; i++) zi_free(h->tensors[i].name);
    for (size_t i = 0; i < h->n_meta; i++)
        zi_free(h->meta[i].key), zi_free(h->meta[i].value);
    zi_free(h->tensors);
    zi_free(h->meta);
    zi_free(h);
}

const zi_st_tensor *
zi_st_find(const zi_st_header *h, const char *name)
{
    for (size_t i = 0; i < h->n_tensors; i++)
        if (strcmp(h->tensors[i].name, name) == 0) return &h->tensors[i];
    return NULL;
}

const char *
zi_st_meta(const zi_st_header *h, const char *key)
{
    for (size_t i = 0; i < h->n_meta; i++)
        if (strcmp(h->meta[i].key, key) == 0) return h->meta[i].value;
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void
print_tensor(zi_json *j, const zi_st_tensor *t)
{
    zi_json_key(j, t->name), zi_json_object(j);
    zi_json_key(j, "dtype"), zi_json_str(j, types[t->type].text);
    zi_json_key(j, "shape"), zi_json_array(j);
    for (uint32_t i = 0; i < t->rank; i++) zi_json_i64(j, t->dims[i]);
    zi_json_end(j);
    zi_json_key(j, "data_offsets"), zi_json_array(j);
    zi_json_u64(j, t->begin), zi_json_u64(j, t->end);
    zi_json_end(j);
    zi_json_end(j);
}

zico_status
zi_st_print(zi_st_tensor *tensors, size_t n_tensors, const zi_st_pair *meta,
            size_t n_meta, zi_str *out)
{
    uint64_t off = 0;
    size_t   begin = out->n;

    zi_str_add_n(out, "\0\0\0\0\0\0\0\0", 8); /* the length, once it is known */
    zi_json j = zi_json_into(out);
    zi_json_object(&j);
    if (n_meta > 0) {
        zi_json_key(&j, "__metadata__"), zi_json_object(&j);
        for (size_t i = 0; i < n_meta; i++)
            zi_json_key(&j, meta[i].key), zi_json_str(&j, meta[i].value);
        zi_json_end(&j);
    }
    for (size_t i = 0; i < n_tensors; i++) {
        zi_st_tensor *t = &tensors[i];
        uint64_t      bytes = types[t->type].bytes;
        for (uint32_t k = 0; k < t->rank; k++) bytes *= (uint64_t)t->dims[k];
        t->begin = off, t->end = off += bytes;
        print_tensor(&j, t);
    }
    zi_json_end(&j);
    ZI_TRY(zi_json_status(&j));
    while ((out->n - begin) % 64 != 0 && !out->bad) zi_str_add_char(out, ' ');
    ZI_TRY(zi_str_status(out));
    zi_writer w = zi_writer_of(out->at + begin, 8);
    zi_write_u64(&w, out->n - begin - 8);
    return ZICO_OK;
}

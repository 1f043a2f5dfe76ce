/* source_text.c -- a text file as windows of tokens: x is a window, y the same one later.
 *
 * Tokens are bytes when the network knows 256 or more; else the file's distinct bytes in
 * ascending order, if there are few enough.  Windows do not overlap; the order of windows
 * is shuffled, their inside never.
 */
#include "train/sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "train/infile.h"

#define CHUNK 65536

typedef struct text_source {
    zi_source base;
    zi_infile file;
    int32_t   token[256]; /* of each byte; -1: not in the file when it was opened */
    uint64_t  first;      /* window 0 of this part */
    size_t    window;     /* tokens */
} text_source;

static zico_status
find_bytes(text_source *s, bool seen[256], zi_train_diag *diag)
{
    uint8_t *chunk = zi_malloc(CHUNK);
    if (!chunk) return ZICO_E_NOMEM;
    zico_status st = ZICO_OK;
    for (uint64_t off = 0; off < s->file.n_bytes && st >= 0; off += CHUNK) {
        uint64_t left = s->file.n_bytes - off;
        size_t   n = left < CHUNK ? (size_t)left : CHUNK;
        st = zi_infile_read(&s->file, off, chunk, n, diag);
        for (size_t i = 0; st >= 0 && i < n; i++) seen[chunk[i]] = true;
    }
    zi_free(chunk);
    return st;
}

static zico_status
make_vocabulary(text_source *s, int64_t vocab, zi_train_diag *diag)
{
    bool    seen[256] = {false};
    int32_t n = 0;

    for (int i = 0; i < 256; i++) s->token[i] = i;
    if (vocab == 0 || vocab >= 256) return ZICO_OK;
    zico_status st = find_bytes(s, seen, diag);
    if (st < 0) return st;
    for (int i = 0; i < 256; i++) s->token[i] = seen[i] ? n++ : -1;
    if (n > vocab)
        return zi_train_fail(diag, ZICO_E_SHAPE,
                             "%s has %d different bytes, the network knows %lld tokens",
                             s->file.path, n, (long long)vocab);
    return ZICO_OK;
}

/* How many windows there are, and which are this part's. */
static zico_status
choose_windows(text_source *s, const zi_data_spec *spec, zi_train_diag *diag)
{
    uint64_t n = s->file.n_bytes > 0 ? (s->file.n_bytes - 1) / s->window : 0;
    uint64_t held = (uint64_t)((double)n * spec->held);

    s->base.n_samples = spec->part == ZI_DATA_HELD ? held : n - held;
    s->first = spec->part == ZI_DATA_HELD ? n - held : 0;
    if (s->base.n_samples > 0) return ZICO_OK;
    if (spec->part == ZI_DATA_HELD)
        return zi_train_fail(diag, ZICO_E_NOTFOUND, "%s: nothing is held back",
                             s->file.path);
    return zi_train_fail(diag, ZICO_E_FORMAT, "%s has %llu bytes, one window takes %zu",
                         s->file.path, (unsigned long long)s->file.n_bytes,
                         s->window + 1);
}

static void
text_close(zi_source *base)
{
    text_source *s = (text_source *)base;

    zi_infile_close(&s->file);
    zi_free(s);
}

static zico_status
text_open(const zi_os *os, const zi_data_spec *spec, const zi_data_want *want,
          zi_train_diag *diag, zi_source **ret_source)
{
    if (want->x.dtype == ZI_DTYPE_F32 || want->x.rank != 1 ||
        (want->has_y && zi_shape_elems(&want->y) != want->x.dims[0]))
        return zi_train_fail(diag, ZICO_E_SHAPE,
                             "%s: text needs a network that takes and predicts tokens",
                             spec->path);
    text_source *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->base = (zi_source){.ops = &zi_source_text, .want = *want};
    s->window = (size_t)want->x.dims[0];
    zico_status st = zi_infile_open(os, spec->path, diag, &s->file);
    if (st >= 0) st = choose_windows(s, spec, diag);
    if (st >= 0) st = make_vocabulary(s, want->vocab, diag);
    if (st < 0) {
        text_close(&s->base);
        return st;
    }
    *ret_source = &s->base;
    return ZICO_OK;
}

static void
put(zi_dtype type, void *ret, size_t i, int32_t token)
{
    if (type == ZI_DTYPE_I64)
        ((int64_t *)ret)[i] = token;
    else
        ((int32_t *)ret)[i] = token;
}

static zico_status
text_read(const zi_source *base, uint64_t index, uint64_t draw, void *ret_x, void *ret_y,
          zi_train_diag *diag)
{
    const text_source *s = (const text_source *)base;
    uint64_t           off = (s->first + index) * s->window;

    (void)draw;
    uint8_t *bytes = zi_malloc(s->window + 1);
    if (!bytes) return ZICO_E_NOMEM;
    zico_status st = zi_infile_read(&s->file, off, bytes, s->window + 1, diag);
    for (size_t i = 0; st >= 0 && i <= s->window; i++) {
        int32_t token = s->token[bytes[i]];
        if (token < 0)
            st =
                zi_train_fail(diag, ZICO_E_FORMAT, "%s: byte %llu changed while training",
                              s->file.path, (unsigned long long)(off + i));
        if (i < s->window) put(base->want.x.dtype, ret_x, i, token);
        if (i > 0 && ret_y) put(base->want.y.dtype, ret_y, i - 1, token);
    }
    zi_free(bytes);
    return st;
}

const zi_source_ops zi_source_text = {.kind = "text",
                                      .meaning = "a text file, for language models",
                                      .open = text_open,
                                      .read = text_read,
                                      .close = text_close};

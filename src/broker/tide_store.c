/* tide_store.c -- the last tides by shape, in memory and, if wanted, in a folder; there those of
 * jobs without a shape, too, by name. */
#include "broker/tide_store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"

#define KEPT      64u
#define TEXT_MAX  16384u /* 128 points of text and more */
#define PATH_ROOM 4096u
#define STEM_ROOM 24u /* of a shape in digits */

typedef struct kept {
    uint64_t shape; /* 0: free */
    uint64_t used;  /* larger: later */
    zi_tide  tide;
} kept;

struct zi_tide_store {
    const zi_os *os;
    char        *dir; /* NULL: memory only */
    uint64_t     clock;
    char         text[TEXT_MAX];
    kept         at[KEPT];
};

zico_status
zi_tide_store_new(const zi_os *os, const char *dir, zi_tide_store **ret_store)
{
    zi_tide_store *s = zi_calloc(1, sizeof *s);
    if (!s) return ZICO_E_NOMEM;
    s->os = os;
    if (dir) {
        s->dir = zi_strdup(dir);
        if (!s->dir) {
            zi_free(s);
            return ZICO_E_NOMEM;
        }
        os->mkdir(os, dir,
                  0700); /* there already, or opening files will fail and say so */
    }
    *ret_store = s;
    return ZICO_OK;
}

void
zi_tide_store_free(zi_tide_store *s)
{
    if (!s) return;
    zi_free(s->dir);
    zi_free(s);
}

static kept *
find(zi_tide_store *s, uint64_t shape)
{
    for (size_t i = 0; i < KEPT; i++)
        if (s->at[i].shape == shape) return &s->at[i];
    return NULL;
}

/* Where a new one goes: a free place, else the one used longest ago. */
static kept *
make_room(zi_tide_store *s)
{
    kept *k = &s->at[0];

    for (size_t i = 1; i < KEPT; i++)
        if (s->at[i].used < k->used) k = &s->at[i];
    return k;
}

static void
stem_of(uint64_t shape, char stem[STEM_ROOM])
{
    snprintf(stem, STEM_ROOM, "%016" PRIx64, shape);
}

static void
file_name(const zi_tide_store *s, const char *stem, const char *end, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s%s", s->dir, stem, end);
}

static kept *
read_file(zi_tide_store *s, uint64_t shape)
{
    char   path[PATH_ROOM], stem[STEM_ROOM];
    size_t bad = 0;

    stem_of(shape, stem);
    file_name(s, stem, ".tide", path);
    long fd = s->os->open_file(s->os, path, O_RDONLY, 0);
    if (fd < 0) return NULL;
    long n = s->os->pread(s->os, (int)fd, s->text, sizeof s->text, 0);
    s->os->close(s->os, (int)fd);
    if (n <= 0) return NULL;
    kept *k = make_room(s);
    k->shape = 0;
    if (zi_tide_parse(s->text, (size_t)n, &k->tide, &bad) < 0) {
        zi_log(ZI_LOG_SESSION, "%s:%zu: not a tide; ignored", path, bad);
        return NULL;
    }
    k->shape = shape;
    return k;
}

const zi_tide *
zi_tide_store_get(zi_tide_store *s, uint64_t shape)
{
    if (shape == 0) return NULL;
    kept *k = find(s, shape);
    if (!k && s->dir) k = read_file(s, shape);
    if (!k) return NULL;
    k->used = ++s->clock;
    return &k->tide;
}

/* Beside the old one, then in its place: a reader never sees half a tide. */
static void
write_file(zi_tide_store *s, const char *stem, const zi_tide *t)
{
    char   path[PATH_ROOM], fresh[PATH_ROOM];
    size_t len = zi_tide_print(t, s->text, sizeof s->text);

    if (len >= sizeof s->text) return;
    file_name(s, stem, ".tide", path);
    file_name(s, stem, ".new", fresh);
    long fd = s->os->open_file(s->os, fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    long n = fd < 0 ? fd : s->os->pwrite(s->os, (int)fd, s->text, len, 0);
    if (fd >= 0) s->os->close(s->os, (int)fd);
    if (n == (long)len) n = s->os->rename(s->os, fresh, path);
    if (n < 0) zi_log(ZI_LOG_SESSION, "%s: cannot be written", path);
}

void
zi_tide_store_put(zi_tide_store *s, uint64_t shape, const zi_tide *t)
{
    char stem[STEM_ROOM];

    if (shape == 0 || t->n_seen == 0) return;
    kept *k = find(s, shape);
    if (!k) k = make_room(s);
    k->shape = shape;
    k->tide = *t;
    k->used = ++s->clock;
    stem_of(shape, stem);
    if (s->dir) write_file(s, stem, t);
}

/* Stays in the folder, is seen there, and is not taken for a shape. */
static bool
is_plain_name(const char *name)
{
    bool like_shape = strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/') && !like_shape;
}

void
zi_tide_store_keep(zi_tide_store *s, const char *name, const zi_tide *t)
{
    if (!s->dir || t->n_seen == 0) return;
    if (is_plain_name(name))
        write_file(s, name, t);
    else
        zi_log(ZI_LOG_SESSION, "no tide of '%s' is kept: not a plain file name", name);
}

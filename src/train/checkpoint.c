/* checkpoint.c -- files that are there whole, or not at all. */
#include "train/checkpoint.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"

typedef struct outfile {
    const zi_os   *os;
    const char    *path; /* as the user calls it */
    int            fd;
    uint64_t       off;
    zi_train_diag *diag;
} outfile;

static zico_status
failed(const outfile *f, const char *path, long rc)
{
    return zi_train_fail(f->diag, zi_os_status(rc), "%s: cannot be written: %s", path,
                         strerror((int)-rc));
}

static zico_status
put(outfile *f, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        long rc =
            f->os->pwrite(f->os, f->fd, (const char *)data + done, n - done, f->off);
        if (rc <= 0) return failed(f, f->path, rc < 0 ? rc : -5 /* EIO: wrote nothing */);
        done += (size_t)rc;
        f->off += (uint64_t)rc;
    }
    return ZICO_OK;
}

static zico_status
put_tensors(outfile *f, const zi_checkpoint_out *what)
{
    uint64_t most = 1;

    for (size_t i = 0; i < what->n_tensors; i++) {
        uint64_t bytes = what->tensors[i].end - what->tensors[i].begin;
        if (bytes > most) most = bytes;
    }
    void *buf = zi_malloc(most);
    if (!buf) return ZICO_E_NOMEM;
    zico_status st = ZICO_OK;
    for (size_t i = 0; i < what->n_tensors && st >= 0; i++) {
        size_t n = (size_t)(what->tensors[i].end - what->tensors[i].begin);
        st = what->fetch(what->user, i, buf, n);
        if (st >= 0) st = put(f, buf, n);
    }
    zi_free(buf);
    return st;
}

static zico_status
put_all(outfile *f, zi_checkpoint_out *what)
{
    zi_str      head = {0};
    zico_status st =
        zi_st_print(what->tensors, what->n_tensors, what->meta, what->n_meta, &head);

    if (st >= 0) st = put(f, head.at, head.n);
    zi_str_free(&head);
    if (st >= 0) st = put_tensors(f, what);
    if (st < 0) return st;
    long rc = f->os->fsync(f->os, f->fd);
    return rc < 0 ? failed(f, f->path, rc) : ZICO_OK;
}

/* The rename itself must survive a power cut: the folder is flushed, too. */
static zico_status
flush_folder(const outfile *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    char       *dir = zi_strdup(path);

    if (!dir) return ZICO_E_NOMEM;
    if (!slash)
        strcpy(dir, ".");
    else
        dir[slash == path ? 1 : slash - path] = '\0';
    if (!*dir) { /* "" cannot come out of strdup(path) + '.' unless path was empty */
        zi_free(dir);
        return ZICO_E_ARG;
    }
    long fd = f->os->open_file(f->os, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    long rc = fd < 0 ? fd : f->os->fsync(f->os, (int)fd);
    if (fd >= 0) f->os->close(f->os, (int)fd);
    zico_status st = rc < 0 ? failed(f, dir, rc) : ZICO_OK;
    zi_free(dir);
    return st;
}

/* PATH.tmp-PID, opened for writing; the name is the caller's to free. */
static zico_status
open_temp(const zi_os *os, const char *path, zi_train_diag *diag, char **ret_temp,
          outfile *ret_file)
{
    if (!*path) return zi_train_fail(diag, ZICO_E_ARG, "the checkpoint has no name");
    size_t cap = strlen(path) + 32;
    char  *temp = zi_malloc(cap);
    if (!temp) return ZICO_E_NOMEM;
    snprintf(temp, cap, "%s.tmp-%d", path, (int)getpid());
    outfile f = {.os = os, .path = path, .diag = diag};
    f.fd = (int)os->open_file(os, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (f.fd < 0) {
        zi_train_fail(diag, ZICO_E_IO, "%s: cannot be written: %s", path,
                      strerror(-f.fd));
        zi_free(temp);
        return ZICO_E_IO;
    }
    *ret_temp = temp;
    *ret_file = f;
    return ZICO_OK;
}

zico_status
zi_checkpoint_probe(const zi_os *os, const char *path, zi_train_diag *diag)
{
    char       *temp;
    outfile     f;
    zico_status st = open_temp(os, path, diag, &temp, &f);

    if (st < 0) return st;
    os->close(os, f.fd);
    os->unlink(os, temp);
    zi_free(temp);
    return ZICO_OK;
}

zico_status
zi_checkpoint_write(const zi_os *os, const char *path, zi_checkpoint_out *what,
                    zi_train_diag *diag)
{
    char       *temp;
    outfile     f;
    zico_status st = open_temp(os, path, diag, &temp, &f);

    if (st < 0) return st;
    st = put_all(&f, what);
    os->close(os, f.fd);
    if (st >= 0) {
        long rc = os->rename(os, temp, path);
        if (rc < 0) st = failed(&f, path, rc);
    }
    if (st < 0)
        os->unlink(os, temp); /* C2 */
    else
        st = flush_folder(&f, path);
    zi_free(temp);
    return st;
}

zico_status
zi_checkpoint_open(const zi_os *os, const char *path, zi_train_diag *diag,
                   zi_checkpoint *ret_checkpoint)
{
    zi_checkpoint c = {.header = NULL};
    zi_train_diag why = {""};
    uint8_t       length[8];
    size_t        n = 0;
    uint8_t      *head = NULL;

    zico_status st = zi_infile_open(os, path, diag, &c.file);
    if (st < 0) return st;
    st = c.file.n_bytes < 8 ? zi_train_fail(&why, ZICO_E_FORMAT, "shorter than 8 bytes")
                            : zi_infile_read(&c.file, 0, length, 8, &why);
    if (st >= 0) st = zi_st_header_bytes(length, c.file.n_bytes, &why, &n);
    if (st >= 0 && !(head = zi_malloc(n))) st = ZICO_E_NOMEM;
    if (st >= 0) st = zi_infile_read(&c.file, 0, head, n, &why);
    if (st >= 0) st = zi_st_parse(head, n, c.file.n_bytes, &why, &c.header);
    zi_free(head);
    if (st < 0) {
        zi_checkpoint_close(&c);
        return zi_train_fail(diag, st, "%s: %s", path,
                             why.text[0] ? why.text : zico_status_text(st));
    }
    *ret_checkpoint = c;
    return ZICO_OK;
}

void
zi_checkpoint_close(zi_checkpoint *c)
{
    zi_infile_close(&c->file);
    zi_st_free(c->header);
    c->header = NULL;
}

zico_status
zi_checkpoint_read(const zi_checkpoint *c, const zi_st_tensor *t, void *buf,
                   size_t n_bytes, zi_train_diag *diag)
{
    if (n_bytes != t->end - t->begin)
        return zi_train_fail(diag, ZICO_E_SHAPE,
                             "%s: tensor '%s' has %llu bytes, not %zu", c->file.path,
                             t->name, (unsigned long long)(t->end - t->begin), n_bytes);
    return zi_infile_read(&c->file, c->header->data_off + t->begin, buf, n_bytes, diag);
}

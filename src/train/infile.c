/* infile.c -- reading files through the kernel's table. */
#include "train/infile.h"

#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"

zico_status
zi_infile_open(const zi_os *os, const char *path, zi_train_diag *diag,
               zi_infile *ret_file)
{
    uint64_t resident;
    /* NONBLOCK: a named pipe must not hang us */
    zi_infile f = {.os = os,
                   .fd = (int)os->open_file(os, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                            0)};

    if (f.fd < 0)
        return zi_train_fail(diag, zi_os_status(f.fd), "%s: %s", path, strerror(-f.fd));
    long rc = os->file_bytes(os, f.fd, &f.n_bytes, &resident);
    f.path = zi_strdup(path);
    if (rc < 0 || !f.path) {
        zi_infile_close(&f);
        return rc < 0 ? zi_train_fail(diag, zi_os_status(rc), "%s: %s", path,
                                      strerror((int)-rc))
                      : ZICO_E_NOMEM;
    }
    *ret_file = f;
    return ZICO_OK;
}

void
zi_infile_close(zi_infile *f)
{
    if (f->os) f->os->close(f->os, f->fd);
    zi_free(f->path);
    *f = (zi_infile){0};
}

zico_status
zi_infile_read(const zi_infile *f, uint64_t off, void *buf, size_t n, zi_train_diag *diag)
{
    for (size_t done = 0; done < n;) {
        long rc = f->os->pread(f->os, f->fd, (char *)buf + done, n - done, off + done);
        if (rc < 0)
            return zi_train_fail(diag, zi_os_status(rc), "%s: at byte %llu: %s", f->path,
                                 (unsigned long long)(off + done), strerror((int)-rc));
        if (rc == 0)
            return zi_train_fail(diag, ZICO_E_FORMAT,
                                 "%s: ends at byte %llu, %llu more were expected",
                                 f->path, (unsigned long long)(off + done),
                                 (unsigned long long)(n - done));
        done += (size_t)rc;
    }
    return ZICO_OK;
}

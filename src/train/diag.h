/* diag.h -- one sentence that says what is wrong, where, and what to try. */
#ifndef ZI_TRAIN_DIAG_H
#define ZI_TRAIN_DIAG_H

#include "zico/status.h"

typedef struct zi_train_diag {
    char text[768]; /* no newline; "" while nothing is wrong */
} zi_train_diag;

/* Write the sentence (diag may be NULL) and give `st` back. */
zico_status zi_train_fail(zi_train_diag *diag, zico_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* ZI_TRAIN_DIAG_H */

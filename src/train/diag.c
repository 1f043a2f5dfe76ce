/* diag.c -- sentences about failures. */
#include "train/diag.h"

#include <stdarg.h>
#include <stdio.h>

zico_status
zi_train_fail(zi_train_diag *diag, zico_status st, const char *fmt, ...)
{
    if (diag) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(diag->text, sizeof diag->text, fmt, args);
        va_end(args);
    }
    return st;
}

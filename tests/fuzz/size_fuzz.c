/* size_fuzz.c -- any text is a size or a clear refusal, and what prints is read again. */
#include "base/size.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char    *text = malloc(size + 1);
    char     out[ZI_SIZE_TEXT];
    uint64_t bytes = 77, again;

    if (!text) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    zico_status st = zi_size_parse(text, UINT64_MAX, &bytes);
    if (st != ZICO_OK && st != ZICO_E_FORMAT && st != ZICO_E_ARG) abort();
    if (st != ZICO_OK && bytes != 77) abort();
    if (bytes < (uint64_t)15 << 60) { /* rounded up it is still one */
        if (zi_size_parse(zi_size_format(bytes, out), 0, &again) != ZICO_OK) abort();
        uint64_t off = again > bytes ? again - bytes : bytes - again;
        if (off > bytes / 16) abort();
    }
    free(text);
    return 0;
}
